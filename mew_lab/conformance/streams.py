"""Are streams opened, told to late joiners and closed as the specification says?

Spec: §3.8.1, §3.10.1, §3.10.2, §3.10.4, §3.10.8.
"""

from __future__ import annotations

from typing import Any

from mew_lab.conformance.envelope import RFC3339
from mew_lab.conformance.stage import Chapter, Stage
from mew_lab.conformance.wire import Entry, Guest, Unmet

__all__ = ["active", "chapter", "open_stream", "opened"]

chapter = Chapter()

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


async def opened(stage: Stage, by: Guest, /, **payload: Any) -> Entry | None:
    """Asks for a stream; the stream/open that answers, if any."""
    request = stage.message("stream/request", {"direction": "upload", **payload}, to=["gateway"])
    mark = by.mark
    await by.attempt(request)
    return next(
        (one for one in by.inbox[mark:] if one.kind == "stream/open" and request["id"] in one.related),
        None,
    )


async def open_stream(stage: Stage, by: Guest, /, **payload: Any) -> str:
    """The id of a new stream.

    Raises:
        Unmet: none was opened.
    """
    answer = await opened(stage, by, **payload)
    id = answer.payload.get("stream_id") if answer else None
    if not isinstance(id, str) or not id:
        raise Unmet("a stream/request was not answered by a stream/open with a stream_id")
    return id


async def active(stage: Stage, id: str) -> dict[str, Any] | None:
    """What somebody who joins now is told of a stream; None when nothing."""
    late = await stage.join("observer")
    streams = late.welcome.payload.get("active_streams")
    await late.leave()
    found = [one for one in streams or () if isinstance(one, dict) and one.get("stream_id") == id]
    return found[0] if found else None


@chapter.shows(
    "P-3.10.1-7", "P-3.10.1-9", "P-3.10.2-1", "P-3.10.2-3", "P-3.10.2-4", "P-3.10.2-5", "C-4"
)  # fmt: skip
async def a_request_is_answered_by_an_open(stage: Stage) -> None:
    streamer, player, human = await stage.seats("streamer", "player", "human")
    ids: list[Any] = []
    for to in (["gateway"], ["viewer"], []):
        request = stage.message("stream/request", {"direction": "upload"}, to=to)
        mark, seen = streamer.mark, human.mark
        await streamer.attempt(request)
        await human.settle()
        opens = [one for one in streamer.inbox[mark:] if one.kind == "stream/open"]
        answer = opens[0] if len(opens) == 1 else None
        id = answer.payload.get("stream_id") if answer else None
        named = isinstance(id, str) and bool(id)
        stage.claim(
            "P-3.10.1-7", named, f"a stream/request was answered by {len(opens)} stream/open, with id {id!r}"
        )
        stage.claim("P-3.10.1-9", named, f"a stream/request to {to} was not answered by the gateway")
        ids.append(id)
        related = answer is not None and answer.related == [request["id"]]
        stage.claim("P-3.10.2-5", related, "stream/open did not reference its stream/request")
        told = answer is not None and any(one.id == answer.id for one in human.inbox[seen:])
        stage.claim("P-3.10.2-4", told, "stream/open was not broadcast to all")
        sender = answer.members.get("from") if answer else None
        stage.claim("C-4", sender == "system:gateway", f"stream/open came from {sender!r}")
        if answer is not None and "encoding" in answer.payload:
            stage.claim("P-3.10.2-3", True, "")
        else:
            stage.cannot_tell("P-3.10.2-3", "stream/open says nothing of an encoding, which is allowed")
    ids.append(await open_stream(stage, player))
    stage.claim("P-3.10.2-1", len(set(ids)) == len(ids), f"streams that were open at once had the ids {ids}")


@chapter.shows(
    "P-3.8.1-5", "P-3.8.1-6", "P-3.8.1-7", "P-3.10.1-6", "P-3.10.1-8", "P-3.10.8-1", "P-3.10.8-3", "C-18",
)  # fmt: skip
async def late_joiners_learn_of_streams(stage: Stage) -> None:
    streamer = (await stage.seats("streamer", "viewer"))[0]
    lies = {"stream_id": "evil", "owner": "viewer", "authorized_writers": ["viewer"], "created": "never"}
    id = await open_stream(stage, streamer, **RICH)
    false = await open_stream(stage, streamer, **lies)
    told = await active(stage, id)
    if told is None:
        rows = "P-3.8.1-5 P-3.8.1-6 P-3.8.1-7 P-3.10.1-6 P-3.10.1-8 P-3.10.8-3"
        stage.claim(rows, False, "the welcome of a late joiner did not name an active stream")
        stage.cannot_tell("P-3.10.8-1 C-18", "the welcome of a late joiner did not name an active stream")
        return
    right = (
        told.get("owner") == "streamer"
        and told.get("direction") == "upload"
        and bool(RFC3339.match(str(told.get("created"))))
    )
    stage.claim("P-3.8.1-5", right, f"the welcome of a late joiner tells of the stream {told}")
    optional = ("expected_size_bytes", "description", "content_type", "format", "target", "metadata")
    lost = [key for key in optional if told.get(key) != RICH[key]]
    stage.claim("P-3.8.1-6", not lost, f"a late joiner was not told these fields of the request: {lost}")
    custom = [key for key in ("x_custom", "colour") if told.get(key) != RICH[key]]
    stage.claim("P-3.8.1-7 P-3.10.1-6", not custom, f"a late joiner was not told the custom fields {custom}")
    stage.claim(
        "P-3.10.1-8", not lost + custom, f"of the request's fields a late joiner was not told {lost + custom}"
    )
    writers = told.get("authorized_writers")
    if writers is None:
        stage.cannot_tell("P-3.10.8-1", "the gateway lists no authorized_writers, which is allowed")
    else:
        stage.claim("P-3.10.8-1", isinstance(writers, list), f"authorized_writers was {writers!r}")
    owned = writers is None or (isinstance(writers, list) and "streamer" in writers)
    stage.claim("P-3.10.8-3", owned, f"authorized_writers {writers!r} did not hold the owner")
    forged = await active(stage, false)
    own = (
        forged is not None
        and forged.get("owner") == "streamer"
        and "viewer" not in forged.get("authorized_writers", [])
    )
    stage.claim("C-18", own, f"a requester's own words on owner and writers were published: {forged}")


@chapter.shows("P-3.10.1-11", "P-3.10.2-2")
async def targets_must_be_there(stage: Stage) -> None:
    streamer = (await stage.seats("streamer", "viewer"))[0]
    for target in (["nobody-here"], ["viewer", "nobody-here"]):
        request = stage.message("stream/request", {"direction": "upload", "target": target}, to=["gateway"])
        mark = streamer.mark
        outcome = await streamer.attempt(request)
        right = outcome.refused_with("target_not_found")
        stage.claim(
            "P-3.10.1-11", right, f"a stream to {target} was answered with {outcome.code or 'no error'!r}"
        )
        made = [one for one in streamer.inbox[mark:] if one.kind == "stream/open"]
        stage.claim("P-3.10.1-11", not made, "a stream was opened to a target that is not there")
    answer = await opened(stage, streamer, target=["viewer"])
    echoed = answer.payload.get("target") if answer else None
    stage.claim("P-3.10.2-2", echoed == ["viewer"], f"stream/open echoed the target as {echoed!r}")


@chapter.shows("P-3.10.4-1", "P-3.10.4-3", "P-3.10.4-4")
async def the_owner_closes_a_stream(stage: Stage) -> None:
    streamer, player, viewer = await stage.seats("streamer", "player", "viewer")
    id = await open_stream(stage, streamer)
    strange = await player.attempt(stage.message("stream/close", {"stream_id": id, "reason": "complete"}))
    stage.claim("P-3.10.4-1", strange.refused, "a stranger's stream/close of an active stream was accepted")
    await streamer.send(f"#{id}#before".encode())
    await streamer.settle()
    await viewer.settle()
    frames = [one.data for one in viewer.inbox if one.data is not None]
    stage.claim(
        "P-3.10.4-1",
        f"#{id}#before".encode() in frames,
        "a stream was closed by somebody who does not own it",
    )
    close = stage.message("stream/close", {"stream_id": id, "reason": "complete"})
    outcome = await streamer.attempt(close)
    told = not outcome.refused and await stage.reaches(close["id"], viewer)
    stage.claim("P-3.10.4-1", told, f"the owner's stream/close did not reach the others ({outcome.code})")
    await streamer.send(f"#{id}#after".encode())
    await streamer.settle()
    await viewer.settle()
    frames = [one.data for one in viewer.inbox if one.data is not None]
    stage.claim(
        "P-3.10.4-3", f"#{id}#after".encode() not in frames, "a frame was relayed after its stream was closed"
    )
    gone = await active(stage, id) is None
    stage.claim("P-3.10.4-4", gone, "a closed stream stood among the active ones of a late joiner")


@chapter.shows("C-18", "P-3.10.4-2")
async def a_stream_ends_with_its_owner(stage: Stage) -> None:
    streamer, viewer = await stage.seats("streamer", "viewer")
    id = await open_stream(stage, streamer)
    early = viewer.mark
    await streamer.leave()

    def closes(one: Entry) -> bool:
        return one.kind == "stream/close" and one.payload.get("stream_id") == id

    try:
        close = await viewer.until(f"the stream/close of {id}", closes, since=early)
    except Unmet as fault:
        stage.claim("C-18", False, f"{fault}, though the owner of the stream had left")
        stage.cannot_tell("P-3.10.4-2", "the gateway closed no stream by itself")
        return
    reason = close.payload.get("reason")
    stage.claim(
        "C-18", reason == "owner_left", f"a stream whose owner had left was closed with reason {reason!r}"
    )
    stage.claim(
        "P-3.10.4-2", isinstance(reason, str) and bool(reason), f"a stream was closed with reason {reason!r}"
    )
    stage.claim("C-18", await active(stage, id) is None, "a stream outlived its owner")


@chapter.shows("C-21")
async def a_stream_is_asked_for_by_right(stage: Stage) -> None:
    human, admin = await stage.seats("human", "admin")
    request = stage.message("stream/request", {"direction": "upload"}, to=["gateway"])
    outcome = await stage.refuses(human, request, admin)
    made = [one for one in admin.inbox if one.kind == "stream/open"]
    right = outcome.refused and not made
    stage.claim("C-21", right, "a stream/request of somebody who may not send it was accepted")
