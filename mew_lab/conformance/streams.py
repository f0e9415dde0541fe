"""Checks how streams are opened, listed for late joiners and closed.

Spec: §3.8.1, §3.10.1, §3.10.2, §3.10.4, §3.10.8.
"""

from __future__ import annotations

from typing import Any

from mew_lab.conformance.envelope import RFC3339
from mew_lab.conformance.session import CheckGroup, CheckSession
from mew_lab.conformance.wire import NotObserved, WireMessage, WirePeer

__all__ = ["checks", "collect_frames", "find_stream", "open_stream", "request_stream", "write"]

checks = CheckGroup()

RICH = {
    "direction": "upload",
    "expected_size_bytes": 1048576,
    "description": "conformance",
    "content_type": "application/json",
    "format": "jsonl",
    "target": ["viewer"],
    "metadata": {"compression": "gzip", "schema_version": "1.0"},
    "x_custom": {"nested": [1, 2.5, None]},
    "colour": "green",
}


async def request_stream(session: CheckSession, by: WirePeer, /, **payload: Any) -> WireMessage | None:
    """Requests a stream; returns the stream/open that answers it, or None."""
    request = session.message("stream/request", {"direction": "upload", **payload}, to=["gateway"])
    mark = by.mark
    await by.attempt(request)
    opens = by.received("stream/open", since=mark)
    return next((received for received in opens if request["id"] in received.related), None)


async def open_stream(session: CheckSession, by: WirePeer, /, **payload: Any) -> str:
    """The id of a new stream.

    Raises:
        NotObserved: the gateway opened none.
    """
    answer = await request_stream(session, by, **payload)
    id = answer.payload.get("stream_id") if answer else None
    if not isinstance(id, str) or not id:
        raise NotObserved("a stream/request was not answered by a stream/open with a stream_id")
    return id


async def find_stream(session: CheckSession, id: str) -> dict[str, Any] | None:
    """The description of a stream in the welcome of a participant that joins now; None where there is none."""
    late = await session.join("observer")
    streams = late.welcome.payload.get("active_streams")
    await late.leave()
    matches = [
        stream for stream in streams or () if isinstance(stream, dict) and stream.get("stream_id") == id
    ]
    return matches[0] if matches else None


async def write(writer: WirePeer, id: str, data: bytes, *readers: WirePeer) -> list[bool]:
    """Writes one frame; returns for each reader whether it has arrived."""
    frame = f"#{id}#".encode() + data
    await writer.send(frame)
    await writer.settle()
    return [frame in await collect_frames(reader) for reader in readers]


async def collect_frames(peer: WirePeer) -> list[bytes]:
    """All frames that have reached the peer."""
    await peer.settle()
    return [message.data for message in peer.inbox if message.data is not None]


@checks.shows(
    "P-3.10.1-7", "P-3.10.1-9", "P-3.10.2-1", "P-3.10.2-3", "P-3.10.2-4", "P-3.10.2-5", "C-4"
)  # fmt: skip
async def check_a_request_is_answered_by_an_open(session: CheckSession) -> None:
    streamer, player, human = await session.join_all("streamer", "player", "human")
    ids: list[Any] = []
    for to in (["gateway"], ["viewer"], []):
        request = session.message("stream/request", {"direction": "upload"}, to=to)
        mark, seen = streamer.mark, human.mark
        await streamer.attempt(request)
        await human.settle()
        opens = streamer.received("stream/open", since=mark)
        answer = opens[0] if len(opens) == 1 else None
        id = answer.payload.get("stream_id") if answer else None
        named = isinstance(id, str) and bool(id)
        session.report(
            named, f"a stream/request was answered by {len(opens)} stream/open, with id {id!r}", "P-3.10.1-7"
        )
        session.report(named, f"a stream/request to {to} was not answered by the gateway", "P-3.10.1-9")
        ids.append(id)
        related = answer is not None and answer.related == [request["id"]]
        session.report(related, "stream/open did not reference its stream/request", "P-3.10.2-5")
        reached = answer is not None and any(received.id == answer.id for received in human.inbox[seen:])
        session.report(reached, "stream/open was not broadcast to all", "P-3.10.2-4")
        sender = answer.members.get("from") if answer else None
        session.report(sender == "system:gateway", f"stream/open came from {sender!r}", "C-4")
        if answer is not None and "encoding" in answer.payload:
            session.report(True, "", "P-3.10.2-3")
        else:
            session.cannot_tell("stream/open names no encoding, which is allowed", "P-3.10.2-3")
    ids.append(await open_stream(session, player))
    session.report(
        len(set(ids)) == len(ids), f"streams that were open at once had the ids {ids}", "P-3.10.2-1"
    )


@checks.shows(
    "P-3.8.1-5", "P-3.8.1-6", "P-3.8.1-7", "P-3.10.1-6", "P-3.10.1-8", "P-3.10.8-1", "P-3.10.8-3", "C-18",
)  # fmt: skip
async def check_late_joiners_learn_of_streams(session: CheckSession) -> None:
    streamer = (await session.join_all("streamer", "viewer"))[0]
    lies = {"stream_id": "evil", "owner": "viewer", "authorized_writers": ["viewer"], "created": "never"}
    id = await open_stream(session, streamer, **RICH)
    false = await open_stream(session, streamer, **lies)
    stream = await find_stream(session, id)
    if stream is None:
        rows = "P-3.8.1-5 P-3.8.1-6 P-3.8.1-7 P-3.10.1-6 P-3.10.1-8 P-3.10.8-3"
        session.report(False, "the welcome of a late joiner did not name an active stream", rows)
        session.cannot_tell("the welcome of a late joiner did not name an active stream", "P-3.10.8-1 C-18")
        return
    right = (
        stream.get("owner") == "streamer"
        and stream.get("direction") == "upload"
        and bool(RFC3339.match(str(stream.get("created"))))
    )
    session.report(right, f"the welcome of a late joiner describes the stream as {stream}", "P-3.8.1-5")
    optional = ("expected_size_bytes", "description", "content_type", "format", "target", "metadata")
    lost = [key for key in optional if stream.get(key) != RICH[key]]
    session.report(
        not lost, f"the welcome of a late joiner lacks these fields of the request: {lost}", "P-3.8.1-6"
    )
    custom = [key for key in ("x_custom", "colour") if stream.get(key) != RICH[key]]
    session.report(
        not custom, f"the welcome of a late joiner lacks the custom fields {custom}", "P-3.8.1-7 P-3.10.1-6"
    )
    session.report(
        not lost + custom,
        f"the welcome of a late joiner lacks of the request's fields {lost + custom}",
        "P-3.10.1-8",
    )
    writers = stream.get("authorized_writers")
    if writers is None:
        session.cannot_tell("the gateway lists no authorized_writers, which is allowed", "P-3.10.8-1")
    else:
        session.report(isinstance(writers, list), f"authorized_writers was {writers!r}", "P-3.10.8-1")
    owned = writers is None or (isinstance(writers, list) and "streamer" in writers)
    session.report(owned, f"authorized_writers {writers!r} did not hold the owner", "P-3.10.8-3")
    forged = await find_stream(session, false)
    own = (
        forged is not None
        and forged.get("owner") == "streamer"
        and "viewer" not in forged.get("authorized_writers", [])
    )
    session.report(own, f"a requester's claims about owner and writers were published: {forged}", "C-18")


@checks.shows("P-3.10.1-11", "P-3.10.2-2")
async def check_targets_must_be_there(session: CheckSession) -> None:
    streamer = (await session.join_all("streamer", "viewer"))[0]
    for target in (["nobody-here"], ["viewer", "nobody-here"]):
        request = session.message("stream/request", {"direction": "upload", "target": target}, to=["gateway"])
        mark = streamer.mark
        outcome = await streamer.attempt(request)
        right = outcome.refused_with("target_not_found")
        session.report(
            right, f"a stream to {target} was answered with {outcome.code or 'no error'!r}", "P-3.10.1-11"
        )
        made = streamer.received("stream/open", since=mark)
        session.report(not made, "a stream was opened to an absent target", "P-3.10.1-11")
    answer = await request_stream(session, streamer, target=["viewer"])
    echoed = answer.payload.get("target") if answer else None
    session.report(echoed == ["viewer"], f"stream/open echoed the target as {echoed!r}", "P-3.10.2-2")


@checks.shows("P-3.10.4-1", "P-3.10.4-3", "P-3.10.4-4")
async def check_the_owner_closes_a_stream(session: CheckSession) -> None:
    streamer, player, viewer = await session.join_all("streamer", "player", "viewer")
    id = await open_stream(session, streamer)
    strange = await player.attempt(session.message("stream/close", {"stream_id": id, "reason": "complete"}))
    session.report(
        strange.refused, "another participant's stream/close of an active stream was accepted", "P-3.10.4-1"
    )
    got = await write(streamer, id, b"before", viewer)
    session.report(all(got), "a stream was closed by a participant that does not own it", "P-3.10.4-1")
    close = session.message("stream/close", {"stream_id": id, "reason": "complete"})
    outcome = await streamer.attempt(close)
    reached = not outcome.refused and await session.reaches(close["id"], viewer)
    session.report(
        reached, f"the owner's stream/close did not reach the others ({outcome.code})", "P-3.10.4-1"
    )
    got = await write(streamer, id, b"after", viewer)
    session.report(not any(got), "a frame was relayed after its stream was closed", "P-3.10.4-3")
    unlisted = await find_stream(session, id) is None
    session.report(unlisted, "the welcome of a late joiner lists a closed stream as active", "P-3.10.4-4")


@checks.shows("C-18", "P-3.10.4-2")
async def check_a_stream_ends_with_its_owner(session: CheckSession) -> None:
    streamer, viewer = await session.join_all("streamer", "viewer")
    id = await open_stream(session, streamer)
    early = viewer.mark
    await streamer.leave()

    def closes(received: WireMessage) -> bool:
        return received.kind == "stream/close" and received.payload.get("stream_id") == id

    try:
        close = await viewer.wait_for(f"the stream/close of {id}", closes, since=early)
    except NotObserved as fault:
        session.report(False, f"{fault}, though the owner of the stream had left", "C-18")
        session.cannot_tell("the gateway closed no stream by itself", "P-3.10.4-2")
        return
    reason = close.payload.get("reason")
    session.report(
        reason == "owner_left", f"a stream whose owner had left was closed with reason {reason!r}", "C-18"
    )
    session.report(
        isinstance(reason, str) and bool(reason), f"a stream was closed with reason {reason!r}", "P-3.10.4-2"
    )
    session.report(await find_stream(session, id) is None, "a stream outlived its owner", "C-18")


@checks.shows("C-21")
async def check_a_stream_request_needs_the_right(session: CheckSession) -> None:
    human, admin = await session.join_all("human", "admin")
    request = session.message("stream/request", {"direction": "upload"}, to=["gateway"])
    outcome = await session.expect_refusal(human, request, admin)
    made = admin.received("stream/open")
    right = outcome.refused and not made
    session.report(right, "a stream/request of a participant that may not send it was accepted")
