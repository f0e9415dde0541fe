"""Are rights given as the specification says?  Who may grant, what, to whom, and what it leads to.

Spec: §3.6.1, §3.6.8, §7.3.
"""

from __future__ import annotations

from mew_lab.conformance.revocation import fell
from mew_lab.conformance.stage import Chapter, Stage, all_in

__all__ = ["chapter"]

chapter = Chapter()


@chapter.shows("P-3.6.1-5", "P-3.6.1-8", "P-4.1-13")
async def a_grant_gives_the_right(stage: Stage) -> None:
    admin, spare = await stage.seats("admin", "spare")
    kind = f"lent/{stage.new_id()}"
    before = await spare.attempt(stage.message(kind))
    stage.claim("P-3.6.1-5", before.refused, "spare could send it before it was granted")
    grant = stage.grant("spare", {"kind": kind})
    outcome = await admin.attempt(grant)
    stage.claim("P-3.6.1-5", not outcome.refused, f"admin's grant was refused ({outcome.code})")
    await spare.settle()
    message = stage.message(kind)
    used = await spare.attempt(message)
    arrived = not used.refused and await stage.reaches(message["id"], admin)
    stage.claim("P-3.6.1-5 P-3.6.1-8 P-4.1-13", arrived, f"what was granted could not be sent ({used.code})")
    other = await spare.attempt(stage.message(f"{kind}x"))
    stage.claim("P-3.6.1-8", other.refused, "a grant gave more than it named")


@chapter.shows("P-3.6.1-9")
async def a_grant_brings_the_recipient_a_new_welcome(stage: Stage) -> None:
    admin, spare = await stage.seats("admin", "spare")
    mark = spare.mark
    kind = f"lent/{stage.new_id()}"
    await admin.attempt(stage.grant("spare", {"kind": kind}))
    await spare.settle()
    news = [one for one in spare.inbox[mark:] if spare.is_my_welcome(one)]
    stage.claim("P-3.6.1-9", bool(news), "the recipient of a grant got no new welcome")
    held = spare.capabilities
    combined = all_in([*stage.configured("spare"), {"kind": kind}], held)
    stage.claim("P-3.6.1-9", combined, f"the new welcome, which should hold old rights and new, lists {held}")


@chapter.shows("P-3.6.1-6")
async def grants_add_up(stage: Stage) -> None:
    admin, spare = await stage.seats("admin", "spare")
    kinds = [f"lent/{stage.new_id()}" for _ in range(3)]
    await admin.attempt(stage.grant("spare", {"kind": kinds[0]}))
    await admin.attempt(stage.grant("spare", {"kind": kinds[1]}, {"kind": kinds[2]}))
    await spare.settle()
    for kind in kinds:
        used = await spare.attempt(stage.message(kind))
        stage.claim("P-3.6.1-6", not used.refused, f"of two grants not all could be used ({used.code})")


@chapter.shows("P-3.6.1-1", "P-3.6.1-7", "P-3.6.8-1")
async def only_who_may_grant_grants(stage: Stage) -> None:
    human, spare, observer = await stage.seats("human", "spare", "observer")
    kind = f"mcp/{stage.new_id()}"  # which human holds by mcp/*, so that nothing but the right to grant is missing
    for guest in (human, observer, spare):
        grant = stage.grant("spare", {"kind": kind})
        outcome = await stage.refuses(
            guest, grant, *(one for one in (human, spare, observer) if one is not guest)
        )
        said = f"{guest.role}, who may not grant, sent a grant that was accepted"
        stage.claim("P-3.6.1-1 P-3.6.8-1", outcome.refused, said)
    await spare.settle()
    used = await spare.attempt(stage.message(kind))
    stage.claim(
        "P-3.6.1-7", used.refused, "what was granted by somebody without the right to grant could be sent"
    )


@chapter.shows("P-3.6.8-2")
async def nobody_grants_what_it_does_not_possess(stage: Stage) -> None:
    granter, spare = await stage.seats("granter", "spare")
    lent = f"lent/{stage.new_id()}"
    foreign = f"foreign/{stage.new_id()}"
    fine = await granter.attempt(stage.grant("spare", {"kind": lent}))
    stage.claim(
        "P-3.6.8-2", not fine.refused, f"a grant of what the granter possesses was refused ({fine.code})"
    )
    await spare.settle()
    used = await spare.attempt(stage.message(lent))
    stage.claim("P-3.6.8-2", not used.refused, "a grant of what the granter possesses had no effect")
    for recipient, guest in (("spare", spare), ("granter", granter)):
        outcome = await granter.attempt(stage.grant(recipient, {"kind": foreign}))
        said = f"granter, who may not send {foreign}, granted it to {recipient}"
        stage.claim("P-3.6.8-2", outcome.refused, said)
        await guest.settle()
        used = await guest.attempt(stage.message(foreign))
        stage.claim("P-3.6.8-2", used.refused, f"{recipient} could send what its granter did not possess")


@chapter.shows("C-9")
async def possession_is_a_proved_cover(stage: Stage) -> None:
    granter, spare = await stage.seats("granter", "spare")
    lent = f"lent/{stage.new_id()}"
    granted = (
        {"kind": f"{lent}/*"},
        {"kind": [lent, f"{lent}/a"]},
        {"kind": lent, "payload": {"path": "!secret/*", "n": 1}},
        {"kind": lent, "to": "human"},
    )
    for capability in granted:
        outcome = await granter.attempt(stage.grant("spare", capability))
        said = f"a grant of {capability}, which lent/* covers, was refused ({outcome.code})"
        stage.claim("C-9", not outcome.refused, said)
    foreign = stage.new_id("foreign")
    wider = (
        {"kind": "*"},
        {"kind": "lent*"},
        {"kind": "!system/*"},
        {"kind": [lent, foreign]},
        {"kind": "/lent.+/"},
    )
    for capability in wider:
        outcome = await granter.attempt(stage.grant("spare", capability))
        right = outcome.refused_with("cannot_grant")
        stage.claim(
            "C-9", right, f"a grant of {capability} by who holds lent/* was answered with {outcome.code!r}"
        )
    mixed = await granter.attempt(stage.grant("spare", {"kind": f"{lent}-b"}, {"kind": foreign}))
    await spare.settle()
    used = await spare.attempt(stage.message(f"{lent}-b"))
    stage.claim("C-9", mixed.refused and used.refused, "of a grant that went too far a part was given")
    name = stage.new_name()
    invite = {"participant_id": name, "initial_capabilities": [{"kind": foreign}]}
    outcome = await granter.attempt(stage.message("space/invite", invite))
    stage.claim(
        "C-9",
        outcome.refused_with("cannot_grant"),
        f"an invite with too much was answered with {outcome.code!r}",
    )
    starter = [{"kind": one} for one in ("chat", "mcp/proposal", "mcp/withdraw", "mcp/response")]
    invite = {"participant_id": name, "initial_capabilities": starter}
    outcome = await granter.attempt(stage.message("space/invite", invite))
    stage.claim(
        "C-9", not outcome.refused, f"an invite with the starter profile was refused ({outcome.code})"
    )


@chapter.shows("P-3.6.1-3")
async def the_id_of_a_grant_is_its_name(stage: Stage) -> None:
    admin, spare = await stage.seats("admin", "spare")
    kinds = [f"lent/{stage.new_id()}" for _ in range(2)]
    grants = [stage.grant("spare", {"kind": kind}) for kind in kinds]
    for grant in grants:
        await admin.attempt(grant)
    unknown = await admin.attempt(stage.revoke("spare", grant_id=stage.new_id("no-such")))
    stage.claim("P-3.6.1-3", unknown.refused, "a revoke of a grant_id that nobody has given was accepted")
    outcome = await admin.attempt(stage.revoke("spare", grant_id=grants[0]["id"]))
    stage.claim(
        "P-3.6.1-3", not outcome.refused, f"a revoke by the grant's message id was refused ({outcome.code})"
    )
    right = await fell(stage, spare, kinds[0], kept=kinds[1:])
    stage.claim("P-3.6.1-3", right, "a revoke by one grant's id did not take just that grant")


@chapter.shows("C-15")
async def the_id_of_a_grant_is_never_taken_again(stage: Stage) -> None:
    admin, spare, granter = await stage.seats("admin", "spare", "granter")
    first, second, third = (f"lent/{stage.new_id()}" for _ in range(3))
    grant = stage.grant("spare", {"kind": first})
    await admin.attempt(grant)
    again = await admin.attempt(stage.grant("spare", {"kind": second}) | {"id": grant["id"]})
    stage.claim("C-15", again.refused, "a second grant took the id of the first")
    other = await granter.attempt(stage.grant("spare", {"kind": third}) | {"id": grant["id"]})
    stage.claim("C-15", other.refused, "another participant's grant took the id of an earlier one")
    await spare.settle()
    used = [not (await spare.attempt(stage.message(kind))).refused for kind in (first, second, third)]
    right = used == [True, False, False]
    stage.claim("C-15", right, f"of the first grant and two under its id, these could be used: {used}")
    await admin.leave()
    admin = await stage.join("admin")
    later = await admin.attempt(stage.grant("spare", {"kind": second}) | {"id": grant["id"]})
    stage.claim("C-15", later.refused, "after a new admission a grant took the id of an earlier one")


@chapter.shows("P-3.9.9-3")
async def a_restart_leaves_grants_alone(stage: Stage) -> None:
    admin, spare = await stage.seats("admin", "spare")
    kind = f"lent/{stage.new_id()}"
    await admin.attempt(stage.grant("spare", {"kind": kind}))
    await admin.attempt(stage.message("participant/restart", {}, to=["spare"]))
    await spare.settle()
    used = await spare.attempt(stage.message(kind))
    if used.refused:
        stage.cannot_tell(
            "P-3.9.9-3", "a granted right did not outlive a participant/restart, which is allowed"
        )
    else:
        stage.claim("P-3.9.9-3", True, "")
