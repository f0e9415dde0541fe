"""Checks how rights are revoked: by grant, by pattern, at once, and together with dependent rights.

Spec: §3.6.2, §3.6.8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mew_lab.conformance.membership import invite
from mew_lab.conformance.session import CheckGroup, CheckSession
from mew_lab.conformance.wire import WirePeer
from mew_lab.protocol.token import Token

__all__ = ["checks", "try_kinds", "try_revoked"]

checks = CheckGroup()


# Payloads that a gateway which validates payloads accepts, for the kinds that are tried here.
_WHOLE: dict[str, dict[str, Any]] = {
    "chat": {"text": "may I?", "format": "plain"},
    "mcp/response": {"jsonrpc": "2.0", "id": 1, "result": {}},
}


async def try_kinds(
    session: CheckSession, peer: WirePeer, *kinds: str, payload: dict[str, Any] | None = None
) -> list[bool]:
    """Sends one message of each kind; returns for each whether it was accepted."""
    await peer.settle()
    rights = []
    for kind in kinds:
        message = session.message(kind, _WHOLE.get(kind, payload or {}), correlation_id=["m-1"])
        rights.append(not (await peer.attempt(message)).refused)
    return rights


async def try_revoked(
    session: CheckSession,
    peer: WirePeer,
    *taken: str,
    kept: Sequence[str],
    payload: dict[str, Any] | None = None,
) -> bool:
    """Tries whether a revoke took these kinds from the peer, and left it the others.

    P-3.6.8-4 checks the time of its effect, so here it may be the next join. The text does not forbid to forget grants
    at a join, so a right that is missing then counts as revoked only where the others remain.
    """
    if not all(await try_kinds(session, peer, *kept, payload=payload)):
        return False
    if not any(await try_kinds(session, peer, *taken, payload=payload)):
        return True
    await peer.leave()
    again = await session.join(peer.role)
    left = await try_kinds(session, again, *taken, payload=payload)
    return not any(left) and all(await try_kinds(session, again, *kept, payload=payload))


@checks.shows("P-3.6.2-1")
async def check_a_revoke_by_id_takes_the_grant(session: CheckSession) -> None:
    admin, spare = await session.join_all("admin", "spare")
    first, second, kept = (f"lent/{session.new_id()}" for _ in range(3))
    grant = session.grant("spare", {"kind": first}, {"kind": second})
    await admin.attempt(grant)
    await admin.attempt(session.grant("spare", {"kind": kept}))
    before = await try_kinds(session, spare, first, second, kept)
    session.report(all(before), "the granted right could not be used")
    outcome = await admin.attempt(session.revoke("spare", grant_id=grant["id"]))
    session.report(not outcome.refused, f"the revoke was refused ({outcome.code})")
    taken = await try_revoked(session, spare, first, second, kept=[kept, "chat"])
    session.report(taken, "a revoke by grant_id did not take that grant, or not that grant alone")


@checks.shows("C-10")
async def check_dependent_grants_end_with_a_revoked_grant(session: CheckSession) -> None:
    admin, spare, worker = await session.join_all("admin", "spare", "worker")
    kind, kept = (f"lent/{session.new_id()}" for _ in range(2))
    grant = session.grant("spare", {"kind": "capability/grant"}, {"kind": kind})
    await admin.attempt(grant)
    await admin.attempt(session.grant("worker", {"kind": kept}))
    await spare.settle()
    passed_on = await spare.attempt(session.grant("worker", {"kind": kind}))
    session.report(
        not passed_on.refused, f"a right that was granted could not be passed on ({passed_on.code})"
    )
    before = await try_kinds(session, worker, kind, kept)
    session.report(all(before), "a chain of two grants did not give the right")
    await admin.attempt(session.revoke("spare", grant_id=grant["id"]))
    right = await try_revoked(session, worker, kind, kept=[kept])
    detail = "dependent grants of the revoked grant, and only these, should have ended with it"
    session.report(right, detail)


@checks.shows("P-3.6.2-2")
async def check_a_revoke_by_pattern_takes_all_that_match(session: CheckSession) -> None:
    admin, spare = await session.join_all("admin", "spare")
    root, other = f"lent/{session.new_id()}", f"lent/{session.new_id()}"
    await admin.attempt(
        session.grant("spare", {"kind": f"{root}/a"}, {"kind": f"{root}/b", "payload": {"n": 1}})
    )
    await admin.attempt(session.grant("spare", {"kind": f"{root}/c"}, {"kind": other}))
    outcome = await admin.attempt(session.revoke("spare", capabilities=[{"kind": f"{root}/*"}]))
    session.report(not outcome.refused, f"a revoke by pattern was refused ({outcome.code})")
    kinds = [f"{root}/{letter}" for letter in "abc"]
    right = await try_revoked(session, spare, *kinds, kept=[other, "chat"], payload={"n": 1})
    detail = "a revoke by pattern left a grant that the pattern matches, or took one that it does not match"
    session.report(right, detail)


@checks.shows("P-3.6.2-3")
async def check_a_revoke_needs_the_right_to_revoke(session: CheckSession) -> None:
    admin, spare, granter, human = await session.join_all("admin", "spare", "granter", "human")
    kind = f"lent/{session.new_id()}"
    grant = session.grant("spare", {"kind": kind})
    await admin.attempt(grant)
    for peer in (granter, human):
        for revoke in (
            session.revoke("spare", grant_id=grant["id"]),
            session.revoke("spare", capabilities=[{"kind": kind}]),
        ):
            outcome = await session.expect_refusal(peer, revoke, admin)
            session.report(outcome.refused, f"a revoke by {peer.role}, which may not revoke, was accepted")
    session.report(
        all(await try_kinds(session, spare, kind)), "a revoke by a participant without the right took effect"
    )


@checks.shows("P-3.6.8-4")
async def check_a_revoke_takes_effect_at_once(session: CheckSession) -> None:
    admin, spare, human = await session.join_all("admin", "spare", "human")
    for by_pattern in (False, True):
        kind = f"lent/{session.new_id()}"
        grant = session.grant("spare", {"kind": kind})
        await admin.attempt(grant)
        used = await try_kinds(session, spare, kind)
        what = {"capabilities": [{"kind": kind}]} if by_pattern else {"grant_id": grant["id"]}
        await admin.attempt(session.revoke("spare", **what))
        outcome = await session.expect_refusal(spare, session.message(kind), human)
        how = "by pattern" if by_pattern else "by grant_id"
        right = all(used) and outcome.refused
        session.report(right, f"the first message after a revoke {how} was still permitted by the old right")


@checks.shows("C-10")
async def check_a_pattern_takes_configured_rights_and_reports_the_rest(session: CheckSession) -> None:
    admin, spare = await session.join_all("admin", "spare")
    session.on_close(lambda: _give_back(session))
    mark = spare.mark
    await admin.attempt(session.revoke("spare", capabilities=[{"kind": "yielded/*"}]))
    await spare.settle()
    news = any(map(spare.is_my_welcome, spare.inbox[mark:]))
    listed = [pattern.get("kind") for pattern in spare.capabilities]
    informed = news and "yielded/*" not in listed
    session.report(
        informed, f"a participant that lost a right got no new welcome; the last one lists {listed}"
    )
    await spare.leave()
    spare = await session.join("spare")
    taken = not any(await try_kinds(session, spare, "yielded/x"))
    session.report(taken, "a revoke by pattern did not take a configured right")
    root = f"lent/{session.new_id()}"
    await admin.attempt(session.grant("spare", {"kind": f"{root}/*"}))
    mark = admin.mark
    await admin.attempt(session.revoke("spare", capabilities=[{"kind": f"{root}/a"}]))
    session.report(
        all(await try_kinds(session, spare, f"{root}/b")), "a revoke took a right that is wider than it"
    )
    partly = admin.received("system/error", since=mark)
    words = {str(received.payload.get(key)) for received in partly for key in ("error", "code")}
    session.report(
        "revoke_partial" in words,
        f"the rights that a revoke had to leave were reported as {words or 'nothing'}",
    )


@checks.shows("C-10")
async def check_a_revoke_by_pattern_takes_default_rights(session: CheckSession) -> None:
    (admin,) = await session.join_all("admin")
    invited = await invite(session, admin, initial_capabilities=[{"kind": "chat"}])
    if not invited.token:
        session.cannot_tell("the invite of the participant to revoke from had no token")
        return
    name, token = invited.name, Token(invited.token)
    peer = await session.join(name, token=token)
    before = await try_kinds(session, peer, "mcp/response")
    await admin.attempt(session.revoke(name, capabilities=[{"kind": "mcp/*"}]))
    await peer.leave()
    peer = await session.join(name, token=token)  # another row checks when it takes effect
    after = await try_kinds(session, peer, "mcp/response", "chat")
    right = before == [True] and after == [False, True]
    session.report(
        right, "a revoke by pattern did not take, or not alone, the default right of all participants"
    )


async def _give_back(session: CheckSession) -> None:
    """Restores the rights for the next run."""
    admin = await session.join("admin", as_id=session.new_name("giver"))
    await admin.attempt(session.grant("spare", {"kind": "yielded/*"}))
