"""Checks how rights are granted: granters, capabilities, recipients and effects.

Spec: §3.6.1, §3.6.8, §7.3.
"""

from __future__ import annotations

from mew_lab.conformance.revocation import try_revoked
from mew_lab.conformance.session import CheckGroup, CheckSession, all_in

__all__ = ["checks"]

checks = CheckGroup()


@checks.shows("P-3.6.1-5", "P-3.6.1-8", "P-4.1-13")
async def check_a_grant_gives_the_right(session: CheckSession) -> None:
    admin, spare = await session.join_all("admin", "spare")
    kind = f"lent/{session.new_id()}"
    before = await spare.attempt(session.message(kind))
    session.report(before.refused, "spare could send it before it was granted", "P-3.6.1-5")
    grant = session.grant("spare", {"kind": kind})
    outcome = await admin.attempt(grant)
    session.report(not outcome.refused, f"admin's grant was refused ({outcome.code})", "P-3.6.1-5")
    await spare.settle()
    message = session.message(kind)
    used = await spare.attempt(message)
    arrived = not used.refused and await session.reaches(message["id"], admin)
    session.report(arrived, f"the granted right could not be used ({used.code})")
    other = await spare.attempt(session.message(f"{kind}x"))
    session.report(other.refused, "a grant gave more than it named", "P-3.6.1-8")


@checks.shows("P-3.6.1-9")
async def check_a_grant_brings_the_recipient_a_new_welcome(session: CheckSession) -> None:
    admin, spare = await session.join_all("admin", "spare")
    mark = spare.mark
    kind = f"lent/{session.new_id()}"
    await admin.attempt(session.grant("spare", {"kind": kind}))
    await spare.settle()
    news = [received for received in spare.inbox[mark:] if spare.is_my_welcome(received)]
    session.report(bool(news), "the recipient of a grant got no new welcome")
    held = spare.capabilities
    combined = all_in([*session.configured("spare"), {"kind": kind}], held)
    session.report(combined, f"the new welcome, which should hold old rights and new, lists {held}")


@checks.shows("P-3.6.1-6")
async def check_grants_add_up(session: CheckSession) -> None:
    admin, spare = await session.join_all("admin", "spare")
    kinds = [f"lent/{session.new_id()}" for _ in range(3)]
    await admin.attempt(session.grant("spare", {"kind": kinds[0]}))
    await admin.attempt(session.grant("spare", {"kind": kinds[1]}, {"kind": kinds[2]}))
    await spare.settle()
    for kind in kinds:
        used = await spare.attempt(session.message(kind))
        session.report(not used.refused, f"of two grants not all could be used ({used.code})")


@checks.shows("P-3.6.1-1", "P-3.6.1-7", "P-3.6.8-1")
async def check_a_grant_needs_the_right_to_grant(session: CheckSession) -> None:
    human, spare, observer = await session.join_all("human", "spare", "observer")
    kind = f"mcp/{session.new_id()}"  # which human holds by mcp/*, so that nothing but the right to grant is missing
    for peer in (human, observer, spare):
        grant = session.grant("spare", {"kind": kind})
        outcome = await session.expect_refusal(
            peer, grant, *(other for other in (human, spare, observer) if other is not peer)
        )
        detail = f"{peer.role}, which may not grant, sent a grant that was accepted"
        session.report(outcome.refused, detail, "P-3.6.1-1 P-3.6.8-1")
    await spare.settle()
    used = await spare.attempt(session.message(kind))
    session.report(
        used.refused, "a right that was granted without the right to grant could be used", "P-3.6.1-7"
    )


@checks.shows("P-3.6.8-2")
async def check_nobody_grants_what_it_does_not_possess(session: CheckSession) -> None:
    granter, spare = await session.join_all("granter", "spare")
    lent = f"lent/{session.new_id()}"
    foreign = f"foreign/{session.new_id()}"
    fine = await granter.attempt(session.grant("spare", {"kind": lent}))
    session.report(not fine.refused, f"a grant of what the granter possesses was refused ({fine.code})")
    await spare.settle()
    used = await spare.attempt(session.message(lent))
    session.report(not used.refused, "a grant of what the granter possesses had no effect")
    for recipient, peer in (("spare", spare), ("granter", granter)):
        outcome = await granter.attempt(session.grant(recipient, {"kind": foreign}))
        detail = f"granter, which may not send {foreign}, granted it to {recipient}"
        session.report(outcome.refused, detail)
        await peer.settle()
        used = await peer.attempt(session.message(foreign))
        session.report(used.refused, f"{recipient} could use a right that its granter did not possess")


@checks.shows("C-9")
async def check_possession_is_a_proved_cover(session: CheckSession) -> None:
    granter, spare = await session.join_all("granter", "spare")
    lent = f"lent/{session.new_id()}"
    granted = (
        {"kind": f"{lent}/*"},
        {"kind": [lent, f"{lent}/a"]},
        {"kind": lent, "payload": {"path": "!secret/*", "n": 1}},
        {"kind": lent, "to": "human"},
    )
    for capability in granted:
        outcome = await granter.attempt(session.grant("spare", capability))
        detail = f"a grant of {capability}, which lent/* covers, was refused ({outcome.code})"
        session.report(not outcome.refused, detail)
    foreign = session.new_id("foreign")
    wider = (
        {"kind": "*"},
        {"kind": "lent*"},
        {"kind": "!system/*"},
        {"kind": [lent, foreign]},
        {"kind": "/lent.+/"},
    )
    for capability in wider:
        outcome = await granter.attempt(session.grant("spare", capability))
        right = outcome.refused_with("cannot_grant")
        session.report(
            right, f"a grant of {capability} by a participant with lent/* was answered with {outcome.code!r}"
        )
    mixed = await granter.attempt(session.grant("spare", {"kind": f"{lent}-b"}, {"kind": foreign}))
    await spare.settle()
    used = await spare.attempt(session.message(f"{lent}-b"))
    session.report(mixed.refused and used.refused, "a part of a grant that exceeded the right was given")
    name = session.new_name()
    invite = {"participant_id": name, "initial_capabilities": [{"kind": foreign}]}
    outcome = await granter.attempt(session.message("space/invite", invite))
    session.report(
        outcome.refused_with("cannot_grant"), f"an invite with too much was answered with {outcome.code!r}"
    )
    starter = [{"kind": kind} for kind in ("chat", "mcp/proposal", "mcp/withdraw", "mcp/response")]
    invite = {"participant_id": name, "initial_capabilities": starter}
    outcome = await granter.attempt(session.message("space/invite", invite))
    session.report(not outcome.refused, f"an invite with the starter profile was refused ({outcome.code})")


@checks.shows("P-3.6.1-3")
async def check_the_id_of_a_grant_is_its_name(session: CheckSession) -> None:
    admin, spare = await session.join_all("admin", "spare")
    kinds = [f"lent/{session.new_id()}" for _ in range(2)]
    grants = [session.grant("spare", {"kind": kind}) for kind in kinds]
    for grant in grants:
        await admin.attempt(grant)
    unknown = await admin.attempt(session.revoke("spare", grant_id=session.new_id("no-such")))
    session.report(unknown.refused, "a revoke of an unknown grant_id was accepted")
    outcome = await admin.attempt(session.revoke("spare", grant_id=grants[0]["id"]))
    session.report(not outcome.refused, f"a revoke by the grant's message id was refused ({outcome.code})")
    right = await try_revoked(session, spare, kinds[0], kept=kinds[1:])
    session.report(right, "a revoke by one grant's id did not take just that grant")


@checks.shows("C-15")
async def check_the_id_of_a_grant_is_never_taken_again(session: CheckSession) -> None:
    admin, spare, granter = await session.join_all("admin", "spare", "granter")
    first, second, third = (f"lent/{session.new_id()}" for _ in range(3))
    grant = session.grant("spare", {"kind": first})
    await admin.attempt(grant)
    again = await admin.attempt(session.grant("spare", {"kind": second}) | {"id": grant["id"]})
    session.report(again.refused, "a second grant took the id of the first")
    other = await granter.attempt(session.grant("spare", {"kind": third}) | {"id": grant["id"]})
    session.report(other.refused, "another participant's grant took the id of an earlier one")
    await spare.settle()
    used = [not (await spare.attempt(session.message(kind))).refused for kind in (first, second, third)]
    right = used == [True, False, False]
    session.report(right, f"of the first grant and two under its id, these could be used: {used}")
    await admin.leave()
    admin = await session.join("admin")
    later = await admin.attempt(session.grant("spare", {"kind": second}) | {"id": grant["id"]})
    session.report(later.refused, "after a new admission a grant took the id of an earlier one")


@checks.shows("P-3.9.9-3")
async def check_a_restart_leaves_grants_alone(session: CheckSession) -> None:
    admin, spare = await session.join_all("admin", "spare")
    kind = f"lent/{session.new_id()}"
    await admin.attempt(session.grant("spare", {"kind": kind}))
    await admin.attempt(session.message("participant/restart", {}, to=["spare"]))
    await spare.settle()
    used = await spare.attempt(session.message(kind))
    if used.refused:
        session.cannot_tell("a granted right did not outlive a participant/restart, which is allowed")
    else:
        session.report(True, "")
