"""Does the gateway let in whom it should, as whom it should, and tell the others?  Tokens, welcome, presence.

Spec: §3.7, §3.8.1, §5.1, §5.2.
"""

from __future__ import annotations

import json
import secrets

from mew_lab.conformance.stage import Chapter, Stage, all_in
from mew_lab.conformance.wire import Entry, Guest, Unmet
from mew_lab.protocol.token import Token
from mew_lab.transport.link import HandshakeRefused

__all__ = ["chapter"]

chapter = Chapter()


@chapter.shows("P-5.2-1", "P-8.1-1", "P-5.2-3", "P-8.1-3")
async def a_token_in_the_header_is_enough(stage: Stage) -> None:
    try:
        guest = await stage.knock("human", path="/ws")
        await stage.welcomed(guest)
        said = f"its welcome names {guest.id!r}"
    except HandshakeRefused as no:
        guest, said = None, f"it was refused with HTTP {no.status}"
    except Unmet as fault:
        guest, said = None, str(fault)
    here = "GET /ws?space=NAME with a bearer token was not answered by a welcome: "
    stage.claim("P-5.2-1 P-8.1-1", guest is not None, here + said)
    right = guest is not None and guest.id == "human"
    stage.claim("P-5.2-3 P-8.1-3", right, f"the token of human did not make its bearer human: {said}")


async def _turned_away(stage: Stage, guest: Guest) -> str:
    """'' when the connection ends and nothing but an error was told before; else what happened instead."""
    try:
        await guest.ended()
    except Unmet as fault:
        return str(fault)
    told = [one for one in guest.inbox if one.kind != "system/error"]
    return f"it was sent {told[0].kind!r} first" if told else ""


@chapter.shows("P-5.2-2", "P-8.1-2", "S-SEC-1")
async def a_wrong_token_is_refused_before_anything_is_told(stage: Stage) -> None:
    wrong = Token("wrong-" + secrets.token_urlsafe(24))
    try:
        said = await _turned_away(stage, await stage.knock("nobody", token=wrong))
    except HandshakeRefused as no:
        said = "" if no.status in (401, 403) else f"it was answered with HTTP {no.status}"
    stage.claim("P-5.2-2 P-8.1-2", not said, f"a wrong token in the header was not refused: {said}")
    try:
        guest = await stage.knock("nobody", header=False)
        await guest.send(stage.join_frame("admin", token=wrong))
        by_frame = await _turned_away(stage, guest)
    except HandshakeRefused:
        by_frame = ""
    said = said or by_frame
    stage.claim("S-SEC-1", not said, f"somebody without a right token was not kept out: {said}")


@chapter.shows("C-25")
async def a_join_frame_stands_for_the_header(stage: Stage) -> None:
    frame = json.loads(stage.join_frame("human"))
    forms = {
        "type join": frame,
        "kind system/join": {
            "kind": "system/join",
            "payload": {k: v for k, v in frame.items() if k != "type"},
        },
    }
    for name, form in forms.items():
        try:
            guest = await stage.knock("human", header=False)
            await guest.send(form)
            await stage.welcomed(guest)
        except HandshakeRefused as no:
            stage.claim("C-25", False, f"an upgrade without a header was refused with HTTP {no.status}")
            return
        stage.claim("C-25", guest.id == "human", f"a join frame of the form {name!r} made it {guest.id!r}")
        await guest.leave()
    admin, stranger = await stage.join("admin"), await stage.knock("nobody", header=False)
    chat = stage.chat("nobody let me in")
    await stranger.send(chat)
    said = await _turned_away(stage, stranger)
    stage.claim("C-25", not said, f"a first message that is no join frame did not end the connection: {said}")
    stage.claim("C-25", await stage.hidden(chat["id"], admin), "who never joined was heard all the same")


@chapter.shows("P-3.8.1-1", "P-3.8.1-2", "P-3.8.1-3", "P-3.8.1-4", "P-3.7-5", "P-5.1-1", "P-5.2-4", "P-5.2-5")
async def the_welcome_comes_first_and_says_who_and_what(stage: Stage) -> None:
    human = await stage.join("human")
    reader = await stage.join("reader")
    first = reader.inbox[0]
    stage.claim("P-3.7-5", first.kind == "system/welcome", f"the joiner was first sent {first.kind!r}")
    stage.claim(
        "P-3.8.1-1",
        first.kind == "system/welcome" and first.members.get("to") == ["reader"],
        f"the first message to reader was {first.kind!r} to {first.members.get('to')!r}",
    )
    configured = stage.configured("reader")
    you = reader.welcome.payload.get("you")
    accurate = isinstance(you, dict) and isinstance(you.get("capabilities"), list)
    stage.claim("P-3.8.1-2", reader.id == "reader" and accurate, f"welcome.you was {you!r}")
    rights = all_in(configured, reader.capabilities)
    rows = "P-5.1-1 P-5.2-4 P-5.2-5"
    stage.claim(
        rows, rights, f"reader is configured with {configured}, its welcome says {reader.capabilities}"
    )
    others = reader.welcome.payload.get("participants")
    told = {one.get("id"): one.get("capabilities") for one in others} if isinstance(others, list) else {}
    stage.claim(
        "P-3.8.1-3",
        "reader" not in told and all_in(stage.configured("human"), told.get(human.id) or []),
        f"welcome.participants, which should hold human and not the joiner itself, was {others!r}",
    )
    streams = reader.welcome.payload.get("active_streams", [])
    stage.claim("P-3.8.1-4", isinstance(streams, list), f"welcome.active_streams was {streams!r}")


@chapter.shows("P-5.2-6", "P-5.2-9", "P-4.1-3")
async def the_list_of_the_welcome_is_what_holds(stage: Stage) -> None:
    human, proposer, observer = await stage.seats("human", "proposer", "observer")
    kinds = ("chat", "mcp/proposal", "mcp/request", "reasoning/start")
    for guest in (proposer, observer):
        listed = [one.get("kind") for one in guest.capabilities if isinstance(one, dict)]
        for kind in kinds:
            outcome = await guest.attempt(stage.message(kind, {"text": "x", "method": "tools/list"}))
            may = kind in listed
            stage.claim(
                "P-5.2-9 P-4.1-3",
                outcome.refused is not may,
                f"{guest.role} lists {listed}, but its {kind} was {'refused' if may else 'accepted'}",
            )
    for number in range(3):
        outcome = await stage.refuses(observer, stage.chat(f"message {number}"), human)
        stage.claim(
            "P-5.2-6", outcome.refused, f"message {number} of observer, who may not chat, was accepted"
        )


@chapter.shows("P-3.7-1", "P-3.7-2", "P-3.7-3", "P-3.7-4", "P-3.7-6", "P-8.1-4", "P-8.1-7")
async def coming_and_going_is_told_to_all(stage: Stage) -> None:
    admin, human = await stage.seats("admin", "human")
    marks = {guest.role: guest.mark for guest in (admin, human)}
    reader = await stage.join("reader")
    await reader.settle()
    seen: dict[str, list[Entry]] = {}
    for guest in (admin, human):
        await guest.settle()
        seen[guest.role] = [one for one in guest.inbox[marks[guest.role] :] if one.kind == "system/presence"]
    joins = {
        role: [one for one in heard if (one.payload.get("participant") or {}).get("id") == reader.id]
        for role, heard in seen.items()
    }
    stage.claim("P-3.7-1", all(joins.values()), "not everybody was told by a presence that reader had joined")
    told = [one for heard in seen.values() for one in heard]
    events = [one.payload.get("event") for one in told]
    stage.claim("P-3.7-2", "join" in events, f"the events of the presences after a join were {events}")
    named = bool(told) and all(
        isinstance((one.payload.get("participant") or {}).get("id"), str) for one in told
    )
    stage.claim("P-3.7-3", named, "a presence did not name its participant")
    rights = bool(joins["admin"]) and all(
        all_in(stage.configured("reader"), one.payload["participant"].get("capabilities") or [])
        for one in joins["admin"]
    )
    stage.claim("P-3.7-4", rights, "the join presence did not say what the participant may do")
    senders = sorted({str(one.members.get("from")) for one in told})
    stage.claim("P-3.7-6", senders == ["system:gateway"], f"presences came from {senders}")
    mark = human.mark
    await reader.leave()

    def gone(one: Entry) -> bool:
        who = one.payload.get("participant")
        left = one.kind == "system/presence" and one.payload.get("event") == "leave"
        return left and isinstance(who, dict) and who.get("id") == reader.id

    await human.until("the leave presence of reader", gone, since=mark)
    stage.claim("P-3.7-1 P-3.7-2", True, "")
    late = await stage.join("observer")
    ids = [one.get("id") for one in late.welcome.payload.get("participants") or ()]
    right = "human" in ids and reader.id not in ids
    stage.claim("P-8.1-4", right, f"with admin and human there, and reader gone, a welcome listed {ids}")
    error = await late.attempt(stage.chat("no right to this"))
    stage.claim("P-8.1-7", error.refused, "a violation was not answered by system/error")


@chapter.shows("C-2")
async def a_welcome_is_for_one_alone(stage: Stage) -> None:
    admin, human = await stage.seats("admin", "human")
    reader = await stage.join("reader")
    await reader.settle()
    for guest in (admin, human):
        await guest.settle()
        strange = [
            one for one in guest.inbox if one.kind == "system/welcome" and not guest.is_my_welcome(one)
        ]
        stage.claim("C-2", not strange, f"{guest.role} received the welcome of another participant")


@chapter.shows("P-7.2-1")
async def an_id_is_the_same_after_a_new_connection(stage: Stage) -> None:
    first = await stage.join("human")
    id = first.id
    await first.leave()
    again = await stage.join("human")
    stage.claim("P-7.2-1", bool(id) and again.id == id, f"one token was first {id!r}, then {again.id!r}")


@chapter.shows("C-12")
async def everyone_may_answer(stage: Stage) -> None:
    (observer,) = await stage.seats("observer")
    baseline = [{"kind": "mcp/response"}]
    found = observer.capabilities
    same = all_in(baseline, found) and len(found) == 1
    stage.claim("C-12", same, f"a participant configured with nothing holds {found}")
    answer = stage.message("mcp/response", {"result": {}}, correlation_id=["nothing"], to=["human"])
    outcome = await observer.attempt(answer)
    stage.claim(
        "C-12", not outcome.refused, "a participant configured with nothing could not answer a request"
    )
