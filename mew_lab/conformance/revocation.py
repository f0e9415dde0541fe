"""Are rights taken as the specification says?  By grant, by pattern, at once, and with what rested on them.

Spec: §3.6.2, §3.6.8.
"""

from __future__ import annotations

from mew_lab.conformance.stage import Chapter, Stage
from mew_lab.conformance.wire import Guest
from mew_lab.protocol.token import Token

__all__ = ["chapter"]

chapter = Chapter()


async def _may(stage: Stage, guest: Guest, *kinds: str) -> list[bool]:
    await guest.settle()
    return [not (await guest.attempt(stage.message(kind))).refused for kind in kinds]


@chapter.shows("P-3.6.2-1")
async def a_revoke_by_id_takes_the_grant_and_what_rests_on_it(stage: Stage) -> None:
    admin, spare, worker = await stage.seats("admin", "spare", "worker")
    kind, kept = (f"lent/{stage.new_id()}" for _ in range(2))
    grant = stage.grant("spare", {"kind": "capability/grant"}, {"kind": kind})
    await admin.attempt(grant)
    await admin.attempt(stage.grant("worker", {"kind": kept}))
    await spare.settle()
    passed_on = await spare.attempt(stage.grant("worker", {"kind": kind}))
    stage.claim(
        "P-3.6.2-1",
        not passed_on.refused,
        f"a right that was granted could not be passed on ({passed_on.code})",
    )
    before = await _may(stage, worker, kind, kept)
    stage.claim("P-3.6.2-1", all(before), "a chain of two grants did not give the right")
    outcome = await admin.attempt(stage.revoke("spare", grant_id=grant["id"]))
    stage.claim("P-3.6.2-1", not outcome.refused, f"the revoke was refused ({outcome.code})")
    for guest in (spare, worker):
        await guest.leave()
    spare, worker = await stage.seats("spare", "worker")  # when it takes effect is another row's question
    taken = not any(await _may(stage, spare, kind, "capability/grant"))
    stage.claim("P-3.6.2-1", taken, "what a revoke by grant_id had taken could still be sent")
    after = await _may(stage, worker, kind, kept)
    right = after == [False, True]
    stage.claim(
        "P-3.6.2-1", right, "what rested on the revoked grant, and only that, should have fallen with it"
    )


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
    await spare.leave()
    spare = await stage.join("spare")
    left = [(await spare.attempt(stage.message(f"{root}/{one}", {"n": 1}))).refused for one in "abc"]
    stage.claim(
        "P-3.6.2-2", all(left), "of several grants that a pattern matches, some outlived a revoke by it"
    )
    stage.claim(
        "P-3.6.2-2",
        all(await _may(stage, spare, other, "chat")),
        "a revoke by pattern took more than matches",
    )


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
        "P-3.6.2-3", all(await _may(stage, spare, kind)), "a revoke by somebody without the right took effect"
    )


@chapter.shows("P-3.6.8-4")
async def a_revoke_takes_effect_at_once(stage: Stage) -> None:
    admin, spare, human = await stage.seats("admin", "spare", "human")
    for by_pattern in (False, True):
        kind = f"lent/{stage.new_id()}"
        grant = stage.grant("spare", {"kind": kind})
        await admin.attempt(grant)
        used = await _may(stage, spare, kind)
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
    taken = not any(await _may(stage, spare, "yielded/x"))
    stage.claim("C-10", taken, "a revoke by pattern did not take a configured right")
    root = f"lent/{stage.new_id()}"
    await admin.attempt(stage.grant("spare", {"kind": f"{root}/*"}))
    mark = admin.mark
    await admin.attempt(stage.revoke("spare", capabilities=[{"kind": f"{root}/a"}]))
    stage.claim(
        "C-10", all(await _may(stage, spare, f"{root}/b")), "a revoke took a right that is wider than it"
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
    before = await _may(stage, guest, "mcp/response")
    await admin.attempt(stage.revoke(name, capabilities=[{"kind": "mcp/*"}]))
    await guest.leave()
    guest = await stage.join(name, token=Token(token))  # when it takes effect is another row's question
    after = await _may(stage, guest, "mcp/response", "chat")
    right = before == [True] and after == [False, True]
    stage.claim(
        "C-10", right, "a revoke by pattern did not take, or not alone, the right that everybody holds"
    )


async def _give_back(stage: Stage) -> None:
    """So that the next run finds what this one took."""
    admin = await stage.join("admin", as_id=stage.new_name("giver"))
    await admin.attempt(stage.grant("spare", {"kind": "yielded/*"}))
