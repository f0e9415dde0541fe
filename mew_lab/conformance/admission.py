"""Checks how participants join: tokens, the welcome, and the presence for the others.

Spec: §3.7, §3.8.1, §5.1, §5.2.
"""

from __future__ import annotations

import json
import secrets

from mew_lab.conformance.session import CheckGroup, CheckSession, all_in
from mew_lab.conformance.wire import NotObserved, WireMessage, WirePeer
from mew_lab.protocol.token import Token
from mew_lab.transport.link import HandshakeRefused

__all__ = ["checks"]

checks = CheckGroup()


@checks.shows("P-5.2-1", "P-8.1-1", "P-5.2-3", "P-8.1-3")
async def check_a_token_in_the_header_is_enough(session: CheckSession) -> None:
    try:
        peer = await session.open_socket("human", path="/ws")
        await session.await_welcome(peer)
        detail = f"its welcome names {peer.id!r}"
    except HandshakeRefused as no:
        peer, detail = None, f"it was refused with HTTP {no.status}"
    except NotObserved as fault:
        peer, detail = None, str(fault)
    here = "GET /ws?space=NAME with a bearer token was not answered by a welcome: "
    session.report(peer is not None, here + detail, "P-5.2-1 P-8.1-1")
    right = peer is not None and peer.id == "human"
    session.report(right, f"the token of human did not make its bearer human: {detail}", "P-5.2-3 P-8.1-3")


async def _turned_away(session: CheckSession, peer: WirePeer) -> str:
    """Waits for a connection to end with an error alone; returns what happened instead, '' if it did."""
    try:
        await peer.wait_closed()
    except NotObserved as fault:
        return str(fault)
    others = [received for received in peer.inbox if received.kind != "system/error"]
    return f"it was sent {others[0].kind!r} first" if others else ""


@checks.shows("P-5.2-2", "P-8.1-2", "S-SEC-1")
async def check_a_wrong_token_is_refused_before_anything_is_sent(session: CheckSession) -> None:
    wrong = Token("wrong-" + secrets.token_urlsafe(24))
    try:
        detail = await _turned_away(session, await session.open_socket("nobody", token=wrong))
    except HandshakeRefused as no:
        detail = "" if no.status in (401, 403) else f"it was answered with HTTP {no.status}"
    session.report(not detail, f"a wrong token in the header was not refused: {detail}", "P-5.2-2 P-8.1-2")
    try:
        peer = await session.open_socket("nobody", header=False)
        await peer.send(session.join_frame("admin", token=wrong))
        by_frame = await _turned_away(session, peer)
    except HandshakeRefused:
        by_frame = ""
    detail = detail or by_frame
    session.report(not detail, f"a client without a right token was not refused: {detail}", "S-SEC-1")


@checks.shows("C-25")
async def check_a_join_frame_stands_for_the_header(session: CheckSession) -> None:
    frame = json.loads(session.join_frame("human"))
    forms = {
        "type join": frame,
        "kind system/join": {
            "kind": "system/join",
            "payload": {k: v for k, v in frame.items() if k != "type"},
        },
    }
    for name, form in forms.items():
        try:
            peer = await session.open_socket("human", header=False)
            await peer.send(form)
            await session.await_welcome(peer)
        except HandshakeRefused as no:
            session.report(False, f"an upgrade without a header was refused with HTTP {no.status}")
            return
        session.report(peer.id == "human", f"a join frame of the form {name!r} made it {peer.id!r}")
        await peer.leave()
    admin, stranger = await session.join("admin"), await session.open_socket("nobody", header=False)
    chat = session.chat("no token was sent")
    await stranger.send(chat)
    detail = await _turned_away(session, stranger)
    session.report(not detail, f"a first message that is no join frame did not end the connection: {detail}")
    session.report(
        await session.hidden(chat["id"], admin), "a message of a client that never joined was delivered"
    )


@checks.shows("P-3.8.1-1", "P-3.8.1-2", "P-3.8.1-3", "P-3.8.1-4", "P-3.7-5", "P-5.1-1", "P-5.2-4", "P-5.2-5")
async def check_the_welcome_comes_first_and_names_id_and_rights(session: CheckSession) -> None:
    human = await session.join("human")
    reader = await session.join("reader")
    first = reader.inbox[0]
    session.report(first.kind == "system/welcome", f"the joiner was first sent {first.kind!r}", "P-3.7-5")
    session.report(
        first.kind == "system/welcome" and first.members.get("to") == ["reader"],
        f"the first message to reader was {first.kind!r} to {first.members.get('to')!r}",
        "P-3.8.1-1",
    )
    configured = session.configured("reader")
    you = reader.welcome.payload.get("you")
    accurate = isinstance(you, dict) and isinstance(you.get("capabilities"), list)
    session.report(reader.id == "reader" and accurate, f"welcome.you was {you!r}", "P-3.8.1-2")
    rights = all_in(configured, reader.capabilities)
    rows = "P-5.1-1 P-5.2-4 P-5.2-5"
    session.report(
        rights, f"reader is configured with {configured}, its welcome says {reader.capabilities}", rows
    )
    others = reader.welcome.payload.get("participants")
    listed = (
        {participant.get("id"): participant.get("capabilities") for participant in others}
        if isinstance(others, list)
        else {}
    )
    session.report(
        "reader" not in listed and all_in(session.configured("human"), listed.get(human.id) or []),
        f"welcome.participants, which should hold human and not the joiner itself, was {others!r}",
        "P-3.8.1-3",
    )
    streams = reader.welcome.payload.get("active_streams", [])
    session.report(isinstance(streams, list), f"welcome.active_streams was {streams!r}", "P-3.8.1-4")


@checks.shows("P-5.2-6", "P-5.2-9", "P-4.1-3")
async def check_the_capabilities_of_the_welcome_are_in_force(session: CheckSession) -> None:
    human, proposer, observer = await session.join_all("human", "proposer", "observer")
    kinds = ("chat", "mcp/proposal", "mcp/request", "reasoning/start")
    for peer in (proposer, observer):
        listed = [pattern.get("kind") for pattern in peer.capabilities if isinstance(pattern, dict)]
        for kind in kinds:
            outcome = await peer.attempt(session.message(kind, {"text": "x", "method": "tools/list"}))
            may = kind in listed
            session.report(
                outcome.refused is not may,
                f"{peer.role} lists {listed}, but its {kind} was {'refused' if may else 'accepted'}",
                "P-5.2-9 P-4.1-3",
            )
    for number in range(3):
        outcome = await session.expect_refusal(observer, session.chat(f"message {number}"), human)
        session.report(
            outcome.refused, f"message {number} of observer, which may not chat, was accepted", "P-5.2-6"
        )


@checks.shows("P-3.7-1", "P-3.7-2", "P-3.7-3", "P-3.7-4", "P-3.7-6", "P-8.1-4", "P-8.1-7")
async def check_joins_and_leaves_are_announced_to_all(session: CheckSession) -> None:
    admin, human = await session.join_all("admin", "human")
    marks = {peer: peer.mark for peer in (admin, human)}
    reader = await session.join("reader")
    await reader.settle()
    seen: dict[str, list[WireMessage]] = {}
    for peer, mark in marks.items():
        await peer.settle()
        seen[peer.role] = peer.received("system/presence", since=mark)
    joins = {
        role: [received for received in presences if received.participant == reader.id]
        for role, presences in seen.items()
    }
    session.report(all(joins.values()), "not everybody received a presence for the join of reader", "P-3.7-1")
    presences = [received for arrivals in seen.values() for received in arrivals]
    events = [received.payload.get("event") for received in presences]
    session.report("join" in events, f"the events of the presences after a join were {events}", "P-3.7-2")
    named = bool(presences) and all(isinstance(received.participant, str) for received in presences)
    session.report(named, "a presence did not name its participant", "P-3.7-3")
    rights = bool(joins["admin"]) and all(
        all_in(session.configured("reader"), received.payload["participant"].get("capabilities") or [])
        for received in joins["admin"]
    )
    session.report(rights, "the join presence did not list the capabilities of the participant", "P-3.7-4")
    senders = sorted({str(received.members.get("from")) for received in presences})
    session.report(senders == ["system:gateway"], f"presences came from {senders}", "P-3.7-6")
    mark = human.mark
    await reader.leave()
    await human.wait_for("the leave of reader", lambda received: received.is_leave_of(reader.id), since=mark)
    session.report(True, "", "P-3.7-1 P-3.7-2")
    late = await session.join("observer")
    ids = [participant.get("id") for participant in late.welcome.payload.get("participants") or ()]
    right = "human" in ids and reader.id not in ids
    session.report(right, f"after reader had left admin and human, a welcome listed {ids}", "P-8.1-4")
    error = await late.attempt(session.chat("no right to this"))
    session.report(error.refused, "a violation was not answered by system/error", "P-8.1-7")


@checks.shows("C-2")
async def check_a_welcome_reaches_its_addressee_alone(session: CheckSession) -> None:
    admin, human = await session.join_all("admin", "human")
    reader = await session.join("reader")
    await reader.settle()
    for peer in (admin, human):
        await peer.settle()
        own = all(map(peer.is_my_welcome, peer.received("system/welcome")))
        session.report(own, f"{peer.role} received the welcome of another participant")


@checks.shows("P-7.2-1")
async def check_an_id_is_the_same_after_a_new_connection(session: CheckSession) -> None:
    first = await session.join("human")
    id = first.id
    await first.leave()
    again = await session.join("human")
    session.report(bool(id) and again.id == id, f"one token was first {id!r}, then {again.id!r}")


@checks.shows("C-12")
async def check_everyone_may_answer(session: CheckSession) -> None:
    (observer,) = await session.join_all("observer")
    baseline = [{"kind": "mcp/response"}]
    held = observer.capabilities
    same = all_in(baseline, held) and len(held) == 1
    session.report(same, f"a participant configured with nothing holds {held}")
    answer = session.message("mcp/response", {"result": {}}, correlation_id=["nothing"], to=["human"])
    outcome = await observer.attempt(answer)
    session.report(not outcome.refused, "a participant configured with nothing could not answer a request")
