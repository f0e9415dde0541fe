"""Checks how streams are opened, listed for late joiners and closed.

Spec: §3.8.1, §3.10.1, §3.10.2, §3.10.4, §3.10.8.
"""

from __future__ import annotations

from typing import Any

from mew_lab.conformance.envelope import RFC3339
from mew_lab.conformance.session import CheckGroup, CheckSession
from mew_lab.conformance.wire import NotObserved, WireMessage, WirePeer

__all__ = ["checks", "find_stream", "open_stream", "request_stream"]

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
    return next(
        (
            received
            for received in by.inbox[mark:]
            if received.kind == "stream/open" and request["id"] in received.related
        ),
        None,
    )


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
        opens = [received for received in streamer.inbox[mark:] if received.kind == "stream/open"]
        answer = opens[0] if len(opens) == 1 else None
        id = answer.payload.get("stream_id") if answer else None
        named = isinstance(id, str) and bool(id)
        session.report(
            "P-3.10.1-7", named, f"a stream/request was answered by {len(opens)} stream/open, with id {id!r}"
        )
        session.report("P-3.10.1-9", named, f"a stream/request to {to} was not answered by the gateway")
        ids.append(id)
        related = answer is not None and answer.related == [request["id"]]
        session.report("P-3.10.2-5", related, "stream/open did not reference its stream/request")
        reached = answer is not None and any(received.id == answer.id for received in human.inbox[seen:])
        session.report("P-3.10.2-4", reached, "stream/open was not broadcast to all")
        sender = answer.members.get("from") if answer else None
        session.report("C-4", sender == "system:gateway", f"stream/open came from {sender!r}")
        if answer is not None and "encoding" in answer.payload:
            session.report("P-3.10.2-3", True, "")
        else:
            session.cannot_tell("P-3.10.2-3", "stream/open names no encoding, which is allowed")
    ids.append(await open_stream(session, player))
    session.report(
        "P-3.10.2-1", len(set(ids)) == len(ids), f"streams that were open at once had the ids {ids}"
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
        session.report(rows, False, "the welcome of a late joiner did not name an active stream")
        session.cannot_tell("P-3.10.8-1 C-18", "the welcome of a late joiner did not name an active stream")
        return
    right = (
        stream.get("owner") == "streamer"
        and stream.get("direction") == "upload"
        and bool(RFC3339.match(str(stream.get("created"))))
    )
    session.report("P-3.8.1-5", right, f"the welcome of a late joiner describes the stream as {stream}")
    optional = ("expected_size_bytes", "description", "content_type", "format", "target", "metadata")
    lost = [key for key in optional if stream.get(key) != RICH[key]]
    session.report(
        "P-3.8.1-6", not lost, f"the welcome of a late joiner lacks these fields of the request: {lost}"
    )
    custom = [key for key in ("x_custom", "colour") if stream.get(key) != RICH[key]]
    session.report(
        "P-3.8.1-7 P-3.10.1-6", not custom, f"the welcome of a late joiner lacks the custom fields {custom}"
    )
    session.report(
        "P-3.10.1-8",
        not lost + custom,
        f"the welcome of a late joiner lacks of the request's fields {lost + custom}",
    )
    writers = stream.get("authorized_writers")
    if writers is None:
        session.cannot_tell("P-3.10.8-1", "the gateway lists no authorized_writers, which is allowed")
    else:
        session.report("P-3.10.8-1", isinstance(writers, list), f"authorized_writers was {writers!r}")
    owned = writers is None or (isinstance(writers, list) and "streamer" in writers)
    session.report("P-3.10.8-3", owned, f"authorized_writers {writers!r} did not hold the owner")
    forged = await find_stream(session, false)
    own = (
        forged is not None
        and forged.get("owner") == "streamer"
        and "viewer" not in forged.get("authorized_writers", [])
    )
    session.report("C-18", own, f"a requester's claims about owner and writers were published: {forged}")


@checks.shows("P-3.10.1-11", "P-3.10.2-2")
async def check_targets_must_be_there(session: CheckSession) -> None:
    streamer = (await session.join_all("streamer", "viewer"))[0]
    for target in (["nobody-here"], ["viewer", "nobody-here"]):
        request = session.message("stream/request", {"direction": "upload", "target": target}, to=["gateway"])
        mark = streamer.mark
        outcome = await streamer.attempt(request)
        right = outcome.refused_with("target_not_found")
        session.report(
            "P-3.10.1-11", right, f"a stream to {target} was answered with {outcome.code or 'no error'!r}"
        )
        made = [received for received in streamer.inbox[mark:] if received.kind == "stream/open"]
        session.report("P-3.10.1-11", not made, "a stream was opened to an absent target")
    answer = await request_stream(session, streamer, target=["viewer"])
    echoed = answer.payload.get("target") if answer else None
    session.report("P-3.10.2-2", echoed == ["viewer"], f"stream/open echoed the target as {echoed!r}")


@checks.shows("P-3.10.4-1", "P-3.10.4-3", "P-3.10.4-4")
async def check_the_owner_closes_a_stream(session: CheckSession) -> None:
    streamer, player, viewer = await session.join_all("streamer", "player", "viewer")
    id = await open_stream(session, streamer)
    strange = await player.attempt(session.message("stream/close", {"stream_id": id, "reason": "complete"}))
    session.report(
        "P-3.10.4-1", strange.refused, "another participant's stream/close of an active stream was accepted"
    )
    await streamer.send(f"#{id}#before".encode())
    await streamer.settle()
    await viewer.settle()
    frames = [received.data for received in viewer.inbox if received.data is not None]
    session.report(
        "P-3.10.4-1",
        f"#{id}#before".encode() in frames,
        "a stream was closed by a participant that does not own it",
    )
    close = session.message("stream/close", {"stream_id": id, "reason": "complete"})
    outcome = await streamer.attempt(close)
    reached = not outcome.refused and await session.reaches(close["id"], viewer)
    session.report(
        "P-3.10.4-1", reached, f"the owner's stream/close did not reach the others ({outcome.code})"
    )
    await streamer.send(f"#{id}#after".encode())
    await streamer.settle()
    await viewer.settle()
    frames = [received.data for received in viewer.inbox if received.data is not None]
    session.report(
        "P-3.10.4-3", f"#{id}#after".encode() not in frames, "a frame was relayed after its stream was closed"
    )
    unlisted = await find_stream(session, id) is None
    session.report("P-3.10.4-4", unlisted, "the welcome of a late joiner lists a closed stream as active")


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
        session.report("C-18", False, f"{fault}, though the owner of the stream had left")
        session.cannot_tell("P-3.10.4-2", "the gateway closed no stream by itself")
        return
    reason = close.payload.get("reason")
    session.report(
        "C-18", reason == "owner_left", f"a stream whose owner had left was closed with reason {reason!r}"
    )
    session.report(
        "P-3.10.4-2", isinstance(reason, str) and bool(reason), f"a stream was closed with reason {reason!r}"
    )
    session.report("C-18", await find_stream(session, id) is None, "a stream outlived its owner")


@checks.shows("C-21")
async def check_a_stream_request_needs_the_right(session: CheckSession) -> None:
    human, admin = await session.join_all("human", "admin")
    request = session.message("stream/request", {"direction": "upload"}, to=["gateway"])
    outcome = await session.expect_refusal(human, request, admin)
    made = [received for received in admin.inbox if received.kind == "stream/open"]
    right = outcome.refused and not made
    session.report("C-21", right, "a stream/request of a participant that may not send it was accepted")
