"""Are rights taken as the specification says?  By grant, by pattern, at once, and with what rested on them.

Spec: §3.6.2, §3.6.8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mew_lab.conformance.stage import Chapter, Stage
from mew_lab.conformance.wire import Guest
from mew_lab.protocol.token import Token

__all__ = ["chapter", "fell", "may"]

chapter = Chapter()


# What a gateway that looks at payloads takes, for the kinds of the specification that are tried here.
_WHOLE: dict[str, dict[str, Any]] = {
    "chat": {"text": "may I?", "format": "plain"},
    "mcp/response": {"jsonrpc": "2.0", "id": 1, "result": {}},
}


async def may(stage: Stage, guest: Guest, *kinds: str, payload: dict[str, Any] | None = None) -> list[bool]:
    """For each kind whether the guest may send it."""
    await guest.settle()
    found = []
    for kind in kinds:
        message = stage.message(kind, _WHOLE.get(kind, payload or {}), correlation_id=["m-1"])
        found.append(not (await guest.attempt(message)).refused)
    return found


async def fell(
    stage: Stage, guest: Guest, *taken: str, kept: Sequence[str], payload: dict[str, Any] | None = None
) -> bool:
    """Whether a revoke took these kinds from the guest, and left it the others.

    When a revoke takes effect is P-3.6.8-4's question, so it may be at the next join. No sentence forbids to forget
    grants at a join, so a right that is gone then counts as taken only where the others are still there.
    """
    if not all(await may(stage, guest, *kept, payload=payload)):
        return False
    if not any(await may(stage, guest, *taken, payload=payload)):
        return True
    await guest.leave()
    again = await stage.join(guest.role)
    left = await may(stage, again, *taken, payload=payload)
    return not any(left) and all(await may(stage, again, *kept, payload=payload))


@chapter.shows("P-3.6.2-1")
async def a_revoke_by_id_takes_the_grant(stage: Stage) -> None:
    admin, spare = await stage.seats("admin", "spare")
    first, second, kept = (f"lent/{stage.new_id()}" for _ in range(3))
    grant = stage.grant("spare", {"kind": first}, {"kind": second})
    await admin.attempt(grant)
    await admin.attempt(stage.grant("spare", {"kind": kept}))
    before = await may(stage, spare, first, second, kept)
    stage.claim("P-3.6.2-1", all(before), "what was granted could not be sent")
    outcome = await admin.attempt(stage.revoke("spare", grant_id=grant["id"]))
    stage.claim("P-3.6.2-1", not outcome.refused, f"the revoke was refused ({outcome.code})")
    taken = await fell(stage, spare, first, second, kept=[kept, "chat"])
    stage.claim("P-3.6.2-1", taken, "a revoke by grant_id did not take that grant, or not that grant alone")


@chapter.shows("C-10")
async def what_rests_on_a_revoked_grant_falls_with_it(stage: Stage) -> None:
    admin, spare, worker = await stage.seats("admin", "spare", "worker")
    kind, kept = (f"lent/{stage.new_id()}" for _ in range(2))
    grant = stage.grant("spare", {"kind": "capability/grant"}, {"kind": kind})
    await admin.attempt(grant)
    await admin.attempt(stage.grant("worker", {"kind": kept}))
    await spare.settle()
    passed_on = await spare.attempt(stage.grant("worker", {"kind": kind}))
    stage.claim(
        "C-10",
        not passed_on.refused,
        f"a right that was granted could not be passed on ({passed_on.code})",
    )
    before = await may(stage, worker, kind, kept)
    stage.claim("C-10", all(before), "a chain of two grants did not give the right")
    await admin.attempt(stage.revoke("spare", grant_id=grant["id"]))
    right = await fell(stage, worker, kind, kept=[kept])
    said = "what rested on the revoked grant, and only that, should have fallen with it"
    stage.claim("C-10", right, said)


@chapter.shows("P-3.6.2-2")
async def a_revoke_by_pattern_takes_all_that_match(stage: Stage) -> None:
    admin, spare = await stage.seats("admin", "spare")
    root, other = f"lent/{stage.new_id()}", f"lent/{stage.new_id()}"
    await admin.attempt(
        stage.grant("spare", {"kind": f"{root}/a"}, {"kind": f"{root}/b", "payload": {"n": 1}})
    )
    await admin.attempt(stage.grant("spare", {"kind": f"{root}/c"}, {"kind": other}))
    outcome = await admin.attempt(stage.revoke("spare", capabilities=[{"kind": f"{root}/*"}]))
    stage.claim("P-3.6.2-2", not outcome.refused, f"a revoke by pattern was refused ({outcome.code})")
    kinds = [f"{root}/{one}" for one in "abc"]
    right = await fell(stage, spare, *kinds, kept=[other, "chat"], payload={"n": 1})
    said = "a revoke by pattern left a grant that the pattern matches, or took one that it does not match"
    stage.claim("P-3.6.2-2", right, said)


@chapter.shows("P-3.6.2-3")
async def only_who_may_revoke_revokes(stage: Stage) -> None:
    admin, spare, granter, human = await stage.seats("admin", "spare", "granter", "human")
    kind = f"lent/{stage.new_id()}"
    grant = stage.grant("spare", {"kind": kind})
    await admin.attempt(grant)
    for guest in (granter, human):
        for revoke in (
            stage.revoke("spare", grant_id=grant["id"]),
            stage.revoke("spare", capabilities=[{"kind": kind}]),
        ):
            outcome = await stage.refuses(guest, revoke, admin)
            stage.claim(
                "P-3.6.2-3", outcome.refused, f"a revoke by {guest.role}, who may not revoke, was accepted"
            )
    stage.claim(
        "P-3.6.2-3", all(await may(stage, spare, kind)), "a revoke by somebody without the right took effect"
    )


@chapter.shows("P-3.6.8-4")
async def a_revoke_takes_effect_at_once(stage: Stage) -> None:
    admin, spare, human = await stage.seats("admin", "spare", "human")
    for by_pattern in (False, True):
        kind = f"lent/{stage.new_id()}"
        grant = stage.grant("spare", {"kind": kind})
        await admin.attempt(grant)
        used = await may(stage, spare, kind)
        what = {"capabilities": [{"kind": kind}]} if by_pattern else {"grant_id": grant["id"]}
        await admin.attempt(stage.revoke("spare", **what))
        outcome = await stage.refuses(spare, stage.message(kind), human)
        how = "by pattern" if by_pattern else "by grant_id"
        right = all(used) and outcome.refused
        stage.claim("P-3.6.8-4", right, f"the first message after a revoke {how} passed on the old right")


@chapter.shows("C-10")
async def a_pattern_takes_configured_rights_and_tells_what_it_leaves(stage: Stage) -> None:
    admin, spare = await stage.seats("admin", "spare")
    stage.later(lambda: _give_back(stage))
    mark = spare.mark
    await admin.attempt(stage.revoke("spare", capabilities=[{"kind": "yielded/*"}]))
    await spare.settle()
    news = any(map(spare.is_my_welcome, spare.inbox[mark:]))
    listed = [one.get("kind") for one in spare.capabilities]
    told = news and "yielded/*" not in listed
    stage.claim("C-10", told, f"who lost a right was not told by a new welcome; the last one lists {listed}")
    await spare.leave()
    spare = await stage.join("spare")
    taken = not any(await may(stage, spare, "yielded/x"))
    stage.claim("C-10", taken, "a revoke by pattern did not take a configured right")
    root = f"lent/{stage.new_id()}"
    await admin.attempt(stage.grant("spare", {"kind": f"{root}/*"}))
    mark = admin.mark
    await admin.attempt(stage.revoke("spare", capabilities=[{"kind": f"{root}/a"}]))
    stage.claim(
        "C-10", all(await may(stage, spare, f"{root}/b")), "a revoke took a right that is wider than it"
    )
    partly = [one for one in admin.inbox[mark:] if one.kind == "system/error"]
    words = {str(one.payload.get(key)) for one in partly for key in ("error", "code")}
    stage.claim(
        "C-10",
        "revoke_partial" in words,
        f"what a revoke had to leave was answered with {words or 'nothing'}",
    )


@chapter.shows("C-10")
async def a_pattern_takes_what_everybody_holds(stage: Stage) -> None:
    (admin,) = await stage.seats("admin")
    name = stage.new_name()
    invite = {"participant_id": name, "initial_capabilities": [{"kind": "chat"}]}
    await admin.attempt(stage.message("space/invite", invite))
    ack = next((one for one in admin.inbox if one.kind == "space/invite-ack"), None)
    token = ack.payload.get("token") if ack else None
    if not isinstance(token, str):
        stage.cannot_tell("C-10", "the invite of somebody to take a right from brought no token")
        return
    guest = await stage.join(name, token=Token(token))
    before = await may(stage, guest, "mcp/response")
    await admin.attempt(stage.revoke(name, capabilities=[{"kind": "mcp/*"}]))
    await guest.leave()
    guest = await stage.join(name, token=Token(token))  # when it takes effect is another row's question
    after = await may(stage, guest, "mcp/response", "chat")
    right = before == [True] and after == [False, True]
    stage.claim(
        "C-10", right, "a revoke by pattern did not take, or not alone, the right that everybody holds"
    )


async def _give_back(stage: Stage) -> None:
    """So that the next run finds what this one took."""
    admin = await stage.join("admin", as_id=stage.new_name("giver"))
    await admin.attempt(stage.grant("spare", {"kind": "yielded/*"}))
