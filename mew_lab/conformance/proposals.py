"""Checks the life of a proposal: proposed, rejected or fulfilled, answered, observed by all.

Spec: §3.2, §3.3.2, §9.1.
"""

from __future__ import annotations

from mew_lab.conformance.capabilities import call
from mew_lab.conformance.session import CheckGroup, CheckSession

__all__ = ["checks"]

checks = CheckGroup()


@checks.shows("P-9.1-1", "P-3.2.1-6")
async def check_a_proposal_is_fulfilled_and_observed(session: CheckSession) -> None:
    proposer, human, reader = await session.join_all("proposer", "human", "reader")
    blocked = await session.expect_refusal(
        proposer, session.message("mcp/request", call("write"), to=["reader"]), human
    )
    session.report(blocked.refused, "a participant that may only propose could send a request", "P-9.1-1")
    proposal = session.message("mcp/proposal", call("write"), to=["reader"])
    await proposer.attempt(proposal)
    seen = await session.reaches(proposal["id"], human, reader)
    session.report(seen, "a proposal was not seen by all", "P-9.1-1")
    request = session.message("mcp/request", call("write"), to=["reader"], correlation_id=[proposal["id"]])
    await human.attempt(request)
    response = session.message("mcp/response", {"jsonrpc": "2.0", "id": 1, "result": {}}, to=["human"])
    response["correlation_id"] = [request["id"]]
    await reader.settle()
    answered = await reader.attempt(response)
    session.report(
        not answered.refused, f"the answer to a fulfilment was refused ({answered.code})", "P-9.1-1"
    )
    done = await session.reaches(response["id"], human)
    session.report(done, "the answer did not reach the fulfiller", "P-9.1-1")
    await proposer.settle()
    ids = [received.id for received in proposer.inbox]
    observed = request["id"] in ids and response["id"] in ids
    session.report(observed, "the proposer did not see both the fulfilment and its answer")


@checks.shows("P-3.2.1-4")
async def check_a_fulfilment_needs_the_right_of_the_fulfiller(session: CheckSession) -> None:
    proposer, human, reader, observer = await session.join_all("proposer", "human", "reader", "observer")
    proposal = session.message("mcp/proposal", call("write_file"), to=["observer"])
    await proposer.attempt(proposal)

    def fulfilment() -> dict[str, object]:
        return session.message(
            "mcp/request", call("write_file"), to=["observer"], correlation_id=[proposal["id"]]
        )

    for peer in (proposer, reader):
        outcome = await session.expect_refusal(peer, fulfilment(), human, observer)
        session.report(outcome.refused, f"{peer.role}, which may not send it, fulfilled a proposal")
    outcome = await human.attempt(fulfilment())
    session.report(not outcome.refused, "human, which may send it, could not fulfil another's proposal")


@checks.shows("P-3.3.2-1", "P-3.3.2-7")
async def check_any_participant_with_the_right_may_reject(session: CheckSession) -> None:
    proposer, human, admin, observer = await session.join_all("proposer", "human", "admin", "observer")
    proposal = session.message("mcp/proposal", call("write"), to=["observer"])
    await proposer.attempt(proposal)
    rejections = []
    for peer, reason in ((human, "unsafe"), (admin, "made-up-reason")):
        reject = session.message(
            "mcp/reject", {"reason": reason}, correlation_id=[proposal["id"]], to=["proposer"]
        )
        rejections.append(reject["id"])
        outcome = await peer.attempt(reject)
        detail = f"{peer.role}, which may reject and was not addressed, was refused ({outcome.code})"
        session.report(not outcome.refused, detail, "P-3.3.2-1")
    reject = session.message("mcp/reject", {"reason": "busy"}, correlation_id=[proposal["id"]])
    outcome = await session.expect_refusal(observer, reject, human)
    session.report(outcome.refused, "observer, which may not reject, rejected a proposal", "P-3.3.2-1")
    await proposer.settle()
    got = [received.id for received in proposer.received("mcp/reject")]
    session.report(got == rejections, "not every rejection of one proposal reached its proposer", "P-3.3.2-7")
