"""Is the right to write to a stream given, taken and handed over as the specification says?

Spec: §3.10.5, §3.10.6, §3.10.7.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from mew_lab.conformance.frames import write
from mew_lab.conformance.stage import Chapter, Stage
from mew_lab.conformance.streams import active, open_stream
from mew_lab.conformance.wire import Entry, Guest, Outcome, Unmet

__all__ = ["chapter"]

chapter = Chapter()


async def _ask(stage: Stage, guest: Guest, verb: str, id: str, who: str) -> Outcome:
    """Sends stream/grant-write, revoke-write or transfer-ownership."""
    key = "new_owner" if verb == "transfer-ownership" else "participant_id"
    payload: dict[str, Any] = {"stream_id": id, key: who, "reason": "conformance"}
    return await guest.attempt(stage.message(f"stream/{verb}", payload, to=["gateway"]))


async def _told(kind: str, id: str, *guests: Guest) -> list[Entry | None]:
    """For each guest the newest of the gateway's messages of this kind about this stream."""
    found = []
    for guest in guests:
        await guest.settle()
        mine = [one for one in guest.inbox if one.kind == kind and one.payload.get("stream_id") == id]
        found.append(mine[-1] if mine else None)
    return found


def _writers(told: Entry | None) -> Any:
    return told.payload.get("authorized_writers") if told else None


@chapter.shows("P-3.10.5-3", "P-3.10.5-4")
async def a_granted_writer_writes(stage: Stage) -> None:
    streamer, player, viewer, human = await stage.seats("streamer", "player", "viewer", "human")
    id = await open_stream(stage, streamer)
    outcome = await _ask(stage, streamer, "grant-write", id, "player")
    stage.claim(
        "P-3.10.5-4", not outcome.refused, f"the owner's stream/grant-write was refused ({outcome.code})"
    )
    told = await _told("stream/write-granted", id, streamer, player, viewer, human)
    stage.claim("P-3.10.5-4", all(told), "stream/write-granted was not broadcast to all")
    writers = _writers(told[0])
    right = writers is None or (isinstance(writers, list) and sorted(writers) == ["player", "streamer"])
    stage.claim("P-3.10.5-4", right, f"stream/write-granted named the writers {writers!r}")
    got = await write(player, id, b"by a granted writer", viewer)
    stage.claim(
        "P-3.10.5-4", all(got), "a frame of a participant that was granted write access was not relayed"
    )
    again = await _ask(stage, streamer, "grant-write", id, "player")
    got = await write(player, id, b"granted twice", viewer)
    stream = await active(stage, id)
    writers = (stream or {}).get("authorized_writers", ["streamer", "player"])
    once = not again.refused and all(got) and sorted(writers) == ["player", "streamer"]
    stage.claim("P-3.10.5-3", once, f"granted twice, the writers were {writers} ({again.code or 'no error'})")


@chapter.shows("P-3.10.5-1", "P-3.10.5-2", "P-3.10.5-5", "P-3.10.5-6", "P-3.10.5-7")
async def faulty_grants_are_refused(stage: Stage) -> None:
    streamer, player, viewer = await stage.seats("streamer", "player", "viewer")
    id = await open_stream(stage, streamer)
    await _faults(stage, "grant-write", id, "P-3.10.5-5", "P-3.10.5-6", streamer, player)
    got = await write(player, id, b"by my own grant", viewer)
    stage.claim("P-3.10.5-1", not any(got), "a participant gave itself write access to another's stream")
    outcome = await _ask(stage, streamer, "grant-write", id, "nobody-here")
    right = outcome.refused_with("participant_not_found")
    said = f"write access for somebody who is not there was answered with {outcome.code!r}"
    stage.claim("P-3.10.5-2", outcome.refused, said)
    stage.claim("P-3.10.5-7", right, said)


async def _faults(
    stage: Stage, verb: str, id: str, unknown: str, stranger: str, owner: Guest, other: Guest
) -> None:
    """What the three verbs refuse alike: a stream that is not there, and a sender who does not own it."""
    outcome = await _ask(stage, owner, verb, "no-such-stream", other.role)
    said = f"stream/{verb} of an unknown stream was answered with {outcome.code!r}"
    stage.claim(unknown, outcome.refused_with("stream_not_found"), said)
    outcome = await _ask(stage, other, verb, id, other.role)
    said = f"stream/{verb} by who does not own the stream was answered with {outcome.code!r}"
    stage.claim(stranger, outcome.refused_with("unauthorized"), said)


@chapter.shows("P-3.10.6-3", "P-3.10.6-4")
async def a_revoked_writer_writes_no_more(stage: Stage) -> None:
    streamer, player, viewer, human = await stage.seats("streamer", "player", "viewer", "human")
    id = await open_stream(stage, streamer)
    await _ask(stage, streamer, "grant-write", id, "player")
    outcome = await _ask(stage, streamer, "revoke-write", id, "player")
    stage.claim(
        "P-3.10.6-4", not outcome.refused, f"the owner's stream/revoke-write was refused ({outcome.code})"
    )
    told = await _told("stream/write-revoked", id, streamer, player, viewer, human)
    stage.claim("P-3.10.6-4", all(told), "stream/write-revoked was not broadcast to all")
    got = await write(player, id, b"after the revoke", viewer)
    stage.claim("P-3.10.6-4", not any(got), "a frame was relayed after its writer's access was revoked")
    for who in ("player", "viewer"):
        again = await _ask(stage, streamer, "revoke-write", id, who)
        said = f"revoking write access of {who}, who has none, was refused ({again.code})"
        stage.claim("P-3.10.6-3", not again.refused, said)


@chapter.shows("P-3.10.6-1", "P-3.10.6-2", "P-3.10.6-6", "P-3.10.6-7", "P-3.10.6-8", "P-3.10.8-3")
async def faulty_revokes_are_refused(stage: Stage) -> None:
    streamer, player, viewer = await stage.seats("streamer", "player", "viewer")
    id = await open_stream(stage, streamer)
    await _ask(stage, streamer, "grant-write", id, "viewer")
    await _faults(stage, "revoke-write", id, "P-3.10.6-6", "P-3.10.6-7", streamer, player)
    await _ask(stage, player, "revoke-write", id, "viewer")
    got = await write(viewer, id, b"still a writer", streamer)
    stage.claim("P-3.10.6-1", all(got), "somebody who does not own a stream took another's write access")
    outcome = await _ask(stage, streamer, "revoke-write", id, "streamer")
    said = f"an owner's revoke of its own write access was answered with {outcome.code!r}"
    stage.claim("P-3.10.6-8", outcome.refused_with("invalid_operation"), said)
    got = await write(streamer, id, b"still mine", viewer)
    stage.claim("P-3.10.6-2", outcome.refused and all(got), "an owner lost its own write access")
    writers = (await active(stage, id) or {}).get("authorized_writers", ["streamer"])
    stage.claim("P-3.10.8-3", "streamer" in writers, f"authorized_writers {writers} did not hold the owner")


def _leaves(name: str) -> Callable[[Entry], bool]:
    def left(one: Entry) -> bool:
        who = one.payload.get("participant")
        gone = one.kind == "system/presence" and one.payload.get("event") == "leave"
        return gone and isinstance(who, dict) and who.get("id") == name

    return left


@chapter.shows("P-3.10.6-5")
async def a_writer_that_leaves_writes_no_more(stage: Stage) -> None:
    streamer, player, viewer = await stage.seats("streamer", "player", "viewer")
    id = await open_stream(stage, streamer)
    await _ask(stage, streamer, "grant-write", id, "player")
    before = await write(player, id, b"while it is there", viewer)
    stage.claim("P-3.10.6-5", all(before), "a participant that was granted write access could not write")
    mark = viewer.mark
    await player.leave()
    with contextlib.suppress(Unmet):  # whether a leave is told, and how, is the question of other rows
        await viewer.until("the leave of a writer", _leaves("player"), since=mark)
    player = await stage.join("player")
    got = await write(player, id, b"back again", viewer)
    stage.claim("P-3.10.6-5", not any(got), "a writer that had left and come back could still write")


@chapter.shows("P-3.10.7-2", "P-3.10.7-3", "P-3.10.7-4", "P-3.10.7-5", "C-19")
async def a_stream_changes_hands(stage: Stage) -> None:
    streamer, player, viewer = await stage.seats("streamer", "player", "viewer")
    id = await open_stream(stage, streamer)
    outcome = await _ask(stage, streamer, "transfer-ownership", id, "player")
    stage.claim("P-3.10.7-5", not outcome.refused, f"the owner's transfer was refused ({outcome.code})")
    told = await _told("stream/ownership-transferred", id, streamer, player, viewer)
    stage.claim("P-3.10.7-5", all(told), "stream/ownership-transferred was not broadcast to all")
    stream = await active(stage, id) or {}
    named = stream.get("owner", "player") == "player"
    got = await write(player, id, b"by the new owner", viewer)
    stage.claim("P-3.10.7-4", all(got) and named, f"after a transfer the new owner could not write: {stream}")
    old = await write(streamer, id, b"by the old owner", viewer)
    stage.claim("C-19", not any(old), "a former owner could write without a grant")
    lost = await _ask(stage, streamer, "grant-write", id, "viewer")
    stage.claim(
        "P-3.10.7-3",
        lost.refused_with("unauthorized"),
        f"a former owner's grant was answered with {lost.code!r}",
    )
    owns = [
        (await _ask(stage, player, verb, id, who)).code
        for verb, who in (
            ("grant-write", "viewer"),
            ("revoke-write", "viewer"),
            ("transfer-ownership", "viewer"),
        )
    ]
    stage.claim(
        "P-3.10.7-2", not any(owns), f"a new owner's grant, revoke and transfer were answered with {owns}"
    )
    closed = await viewer.attempt(stage.message("stream/close", {"stream_id": id, "reason": "complete"}))
    gone = not closed.refused and await active(stage, id) is None
    stage.claim("P-3.10.7-2", gone, f"a new owner could not close its stream ({closed.code})")


@chapter.shows("C-19")
async def a_former_owner_keeps_what_it_was_granted(stage: Stage) -> None:
    streamer, player, viewer = await stage.seats("streamer", "player", "viewer")
    id = await open_stream(stage, streamer)
    await _ask(stage, streamer, "transfer-ownership", id, "player")
    granted = await _ask(stage, player, "grant-write", id, "streamer")
    got = await write(streamer, id, b"granted anew", viewer)
    stage.claim(
        "C-19",
        not granted.refused and all(got),
        "a former owner that was granted write access could not write",
    )


@chapter.shows("P-3.10.7-1", "P-3.10.7-6", "P-3.10.7-7", "P-3.10.7-8")
async def faulty_transfers_are_refused(stage: Stage) -> None:
    streamer, player, viewer = await stage.seats("streamer", "player", "viewer")
    id = await open_stream(stage, streamer)
    await _faults(stage, "transfer-ownership", id, "P-3.10.7-6", "P-3.10.7-7", streamer, player)
    got = await write(player, id, b"stolen", viewer)
    stage.claim("P-3.10.7-1", not any(got), "a participant took another's stream")
    outcome = await _ask(stage, streamer, "transfer-ownership", id, "nobody-here")
    said = f"a transfer to somebody who is not there was answered with {outcome.code!r}"
    stage.claim("P-3.10.7-8", outcome.refused_with("participant_not_found"), said)
