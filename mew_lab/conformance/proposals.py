"""Does the story of a proposal work?  Proposed, rejected or fulfilled, answered, observed by all.

Spec: §3.2, §3.3.2, §9.1.
"""

from __future__ import annotations

from mew_lab.conformance.capabilities import call
from mew_lab.conformance.stage import Chapter, Stage

__all__ = ["chapter"]

chapter = Chapter()


@chapter.shows("P-9.1-1", "P-3.2.1-6")
async def a_proposal_is_fulfilled_and_observed(stage: Stage) -> None:
    proposer, human, reader = await stage.seats("proposer", "human", "reader")
    blocked = await stage.refuses(proposer, stage.message("mcp/request", call("write"), to=["reader"]), human)
    stage.claim("P-9.1-1", blocked.refused, "a participant who may only propose could act")
    proposal = stage.message("mcp/proposal", call("write"), to=["reader"])
    await proposer.attempt(proposal)
    seen = await stage.reaches(proposal["id"], human, reader)
    stage.claim("P-9.1-1", seen, "a proposal was not seen by all")
    request = stage.message("mcp/request", call("write"), to=["reader"], correlation_id=[proposal["id"]])
    await human.attempt(request)
    response = stage.message("mcp/response", {"jsonrpc": "2.0", "id": 1, "result": {}}, to=["human"])
    response["correlation_id"] = [request["id"]]
    await reader.settle()
    answered = await reader.attempt(response)
    stage.claim("P-9.1-1", not answered.refused, f"the answer to a fulfilment was refused ({answered.code})")
    done = await stage.reaches(response["id"], human)
    stage.claim("P-9.1-1", done, "the answer did not reach who had fulfilled the proposal")
    await proposer.settle()
    ids = [one.id for one in proposer.inbox]
    observed = request["id"] in ids and response["id"] in ids
    stage.claim("P-3.2.1-6 P-9.1-1", observed, "the proposer did not see both the fulfilment and its answer")


@chapter.shows("P-3.2.1-4")
async def a_fulfilment_is_judged_by_who_fulfils(stage: Stage) -> None:
    proposer, human, reader, observer = await stage.seats("proposer", "human", "reader", "observer")
    proposal = stage.message("mcp/proposal", call("write_file"), to=["observer"])
    await proposer.attempt(proposal)

    def fulfilment() -> dict[str, object]:
        return stage.message(
            "mcp/request", call("write_file"), to=["observer"], correlation_id=[proposal["id"]]
        )

    for guest in (proposer, reader):
        outcome = await stage.refuses(guest, fulfilment(), human, observer)
        stage.claim("P-3.2.1-4", outcome.refused, f"{guest.role}, who may not send it, fulfilled a proposal")
    outcome = await human.attempt(fulfilment())
    stage.claim(
        "P-3.2.1-4", not outcome.refused, "human, who may send it, could not fulfil another's proposal"
    )


@chapter.shows("P-3.3.2-1", "P-3.3.2-7")
async def whoever_may_reject_rejects(stage: Stage) -> None:
    proposer, human, admin, observer = await stage.seats("proposer", "human", "admin", "observer")
    proposal = stage.message("mcp/proposal", call("write"), to=["observer"])
    await proposer.attempt(proposal)
    rejections = []
    for guest, reason in ((human, "unsafe"), (admin, "made-up-reason")):
        reject = stage.message(
            "mcp/reject", {"reason": reason}, correlation_id=[proposal["id"]], to=["proposer"]
        )
        rejections.append(reject["id"])
        outcome = await guest.attempt(reject)
        said = f"{guest.role}, who may reject and was not addressed, was refused ({outcome.code})"
        stage.claim("P-3.3.2-1", not outcome.refused, said)
    reject = stage.message("mcp/reject", {"reason": "busy"}, correlation_id=[proposal["id"]])
    outcome = await stage.refuses(observer, reject, human)
    stage.claim("P-3.3.2-1", outcome.refused, "observer, who may not reject, rejected a proposal")
    await proposer.settle()
    got = [one.id for one in proposer.inbox if one.kind == "mcp/reject"]
    stage.claim("P-3.3.2-7", got == rejections, "not every rejection of one proposal reached its proposer")
