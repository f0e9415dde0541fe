"""Checks how the right to write to a stream is granted, revoked and transferred.

Spec: §3.10.5, §3.10.6, §3.10.7.
"""

from __future__ import annotations

import contextlib
from typing import Any

from mew_lab.conformance.session import CheckGroup, CheckSession
from mew_lab.conformance.streams import find_stream, open_stream, write
from mew_lab.conformance.wire import NotObserved, SendResult, WireMessage, WirePeer

__all__ = ["checks"]

checks = CheckGroup()


async def _ask(session: CheckSession, peer: WirePeer, verb: str, id: str, who: str) -> SendResult:
    """Sends stream/grant-write, revoke-write or transfer-ownership."""
    key = "new_owner" if verb == "transfer-ownership" else "participant_id"
    payload: dict[str, Any] = {"stream_id": id, key: who, "reason": "conformance"}
    return await peer.attempt(session.message(f"stream/{verb}", payload, to=["gateway"]))


async def _collect_announcements(kind: str, id: str, *peers: WirePeer) -> list[WireMessage | None]:
    """The newest message of the gateway of this kind about this stream, for each peer."""
    latest = []
    for peer in peers:
        await peer.settle()
        mine = [received for received in peer.received(kind) if received.payload.get("stream_id") == id]
        latest.append(mine[-1] if mine else None)
    return latest


@checks.shows("P-3.10.5-3", "P-3.10.5-4")
async def check_a_granted_writer_writes(session: CheckSession) -> None:
    streamer, player, viewer, human = await session.join_all("streamer", "player", "viewer", "human")
    id = await open_stream(session, streamer)
    outcome = await _ask(session, streamer, "grant-write", id, "player")
    session.report(
        not outcome.refused, f"the owner's stream/grant-write was refused ({outcome.code})", "P-3.10.5-4"
    )
    announcements = await _collect_announcements("stream/write-granted", id, streamer, player, viewer, human)
    session.report(all(announcements), "stream/write-granted was not broadcast to all", "P-3.10.5-4")
    writers = announcements[0].payload.get("authorized_writers") if announcements[0] else None
    right = writers is None or (isinstance(writers, list) and sorted(writers) == ["player", "streamer"])
    session.report(right, f"stream/write-granted named the writers {writers!r}", "P-3.10.5-4")
    got = await write(player, id, b"by a granted writer", viewer)
    session.report(
        all(got), "a frame of a participant that was granted write access was not relayed", "P-3.10.5-4"
    )
    again = await _ask(session, streamer, "grant-write", id, "player")
    got = await write(player, id, b"granted twice", viewer)
    stream = await find_stream(session, id)
    writers = (stream or {}).get("authorized_writers", ["streamer", "player"])
    once = not again.refused and all(got) and sorted(writers) == ["player", "streamer"]
    session.report(
        once, f"granted twice, the writers were {writers} ({again.code or 'no error'})", "P-3.10.5-3"
    )


@checks.shows("P-3.10.5-1", "P-3.10.5-2", "P-3.10.5-5", "P-3.10.5-6", "P-3.10.5-7")
async def check_faulty_grants_are_refused(session: CheckSession) -> None:
    streamer, player, viewer = await session.join_all("streamer", "player", "viewer")
    id = await open_stream(session, streamer)
    await _faults(session, "grant-write", id, "P-3.10.5-5", "P-3.10.5-6", streamer, player)
    got = await write(player, id, b"by my own grant", viewer)
    session.report(not any(got), "a participant gave itself write access to another's stream", "P-3.10.5-1")
    outcome = await _ask(session, streamer, "grant-write", id, "nobody-here")
    right = outcome.refused_with("participant_not_found")
    detail = f"write access for an absent participant was answered with {outcome.code!r}"
    session.report(outcome.refused, detail, "P-3.10.5-2")
    session.report(right, detail, "P-3.10.5-7")


async def _faults(
    session: CheckSession, verb: str, id: str, unknown: str, stranger: str, owner: WirePeer, other: WirePeer
) -> None:
    """Checks the refusals that the three verbs share: an unknown stream, and a sender that does not own it."""
    outcome = await _ask(session, owner, verb, "no-such-stream", other.role)
    detail = f"stream/{verb} of an unknown stream was answered with {outcome.code!r}"
    session.report(outcome.refused_with("stream_not_found"), detail, unknown)
    outcome = await _ask(session, other, verb, id, other.role)
    detail = f"stream/{verb} by a participant that does not own the stream was answered with {outcome.code!r}"
    session.report(outcome.refused_with("unauthorized"), detail, stranger)


@checks.shows("P-3.10.6-3", "P-3.10.6-4")
async def check_a_revoked_writer_writes_no_more(session: CheckSession) -> None:
    streamer, player, viewer, human = await session.join_all("streamer", "player", "viewer", "human")
    id = await open_stream(session, streamer)
    await _ask(session, streamer, "grant-write", id, "player")
    outcome = await _ask(session, streamer, "revoke-write", id, "player")
    session.report(
        not outcome.refused, f"the owner's stream/revoke-write was refused ({outcome.code})", "P-3.10.6-4"
    )
    announcements = await _collect_announcements("stream/write-revoked", id, streamer, player, viewer, human)
    session.report(all(announcements), "stream/write-revoked was not broadcast to all", "P-3.10.6-4")
    got = await write(player, id, b"after the revoke", viewer)
    session.report(not any(got), "a frame was relayed after its writer's access was revoked", "P-3.10.6-4")
    for who in ("player", "viewer"):
        again = await _ask(session, streamer, "revoke-write", id, who)
        detail = f"revoking write access of {who}, which has none, was refused ({again.code})"
        session.report(not again.refused, detail, "P-3.10.6-3")


@checks.shows("P-3.10.6-1", "P-3.10.6-2", "P-3.10.6-6", "P-3.10.6-7", "P-3.10.6-8", "P-3.10.8-3")
async def check_faulty_revokes_are_refused(session: CheckSession) -> None:
    streamer, player, viewer = await session.join_all("streamer", "player", "viewer")
    id = await open_stream(session, streamer)
    await _ask(session, streamer, "grant-write", id, "viewer")
    await _faults(session, "revoke-write", id, "P-3.10.6-6", "P-3.10.6-7", streamer, player)
    await _ask(session, player, "revoke-write", id, "viewer")
    got = await write(viewer, id, b"still a writer", streamer)
    session.report(
        all(got), "a participant that does not own a stream revoked another's write access", "P-3.10.6-1"
    )
    outcome = await _ask(session, streamer, "revoke-write", id, "streamer")
    detail = f"an owner's revoke of its own write access was answered with {outcome.code!r}"
    session.report(outcome.refused_with("invalid_operation"), detail, "P-3.10.6-8")
    got = await write(streamer, id, b"still mine", viewer)
    session.report(outcome.refused and all(got), "an owner lost its own write access", "P-3.10.6-2")
    writers = (await find_stream(session, id) or {}).get("authorized_writers", ["streamer"])
    session.report(
        "streamer" in writers, f"authorized_writers {writers} did not hold the owner", "P-3.10.8-3"
    )


@checks.shows("P-3.10.6-5")
async def check_a_writer_that_leaves_writes_no_more(session: CheckSession) -> None:
    streamer, player, viewer = await session.join_all("streamer", "player", "viewer")
    id = await open_stream(session, streamer)
    await _ask(session, streamer, "grant-write", id, "player")
    before = await write(player, id, b"while it is there", viewer)
    session.report(all(before), "a participant that was granted write access could not write")
    mark = viewer.mark
    await player.leave()
    with contextlib.suppress(NotObserved):  # other rows check the presence of a leave
        await viewer.wait_for(
            "the leave of a writer", lambda received: received.is_leave_of("player"), since=mark
        )
    player = await session.join("player")
    got = await write(player, id, b"back again", viewer)
    session.report(not any(got), "a writer that had left and joined again could still write")


@checks.shows("P-3.10.7-2", "P-3.10.7-3", "P-3.10.7-4", "P-3.10.7-5", "C-19")
async def check_a_stream_is_transferred(session: CheckSession) -> None:
    streamer, player, viewer = await session.join_all("streamer", "player", "viewer")
    id = await open_stream(session, streamer)
    outcome = await _ask(session, streamer, "transfer-ownership", id, "player")
    session.report(not outcome.refused, f"the owner's transfer was refused ({outcome.code})", "P-3.10.7-5")
    announcements = await _collect_announcements("stream/ownership-transferred", id, streamer, player, viewer)
    session.report(all(announcements), "stream/ownership-transferred was not broadcast to all", "P-3.10.7-5")
    stream = await find_stream(session, id) or {}
    named = stream.get("owner", "player") == "player"
    got = await write(player, id, b"by the new owner", viewer)
    session.report(
        all(got) and named, f"after a transfer the new owner could not write: {stream}", "P-3.10.7-4"
    )
    old = await write(streamer, id, b"by the old owner", viewer)
    session.report(not any(old), "a former owner could write without a grant", "C-19")
    lost = await _ask(session, streamer, "grant-write", id, "viewer")
    session.report(
        lost.refused_with("unauthorized"),
        f"a former owner's grant was answered with {lost.code!r}",
        "P-3.10.7-3",
    )
    owns = [
        (await _ask(session, player, verb, id, who)).code
        for verb, who in (
            ("grant-write", "viewer"),
            ("revoke-write", "viewer"),
            ("transfer-ownership", "viewer"),
        )
    ]
    session.report(
        not any(owns), f"a new owner's grant, revoke and transfer were answered with {owns}", "P-3.10.7-2"
    )
    closed = await viewer.attempt(session.message("stream/close", {"stream_id": id, "reason": "complete"}))
    closable = not closed.refused and await find_stream(session, id) is None
    session.report(closable, f"a new owner could not close its stream ({closed.code})", "P-3.10.7-2")


@checks.shows("C-19")
async def check_a_former_owner_keeps_what_it_was_granted(session: CheckSession) -> None:
    streamer, player, viewer = await session.join_all("streamer", "player", "viewer")
    id = await open_stream(session, streamer)
    await _ask(session, streamer, "transfer-ownership", id, "player")
    granted = await _ask(session, player, "grant-write", id, "streamer")
    got = await write(streamer, id, b"granted anew", viewer)
    session.report(
        not granted.refused and all(got), "a former owner that was granted write access could not write"
    )


@checks.shows("P-3.10.7-1", "P-3.10.7-6", "P-3.10.7-7", "P-3.10.7-8")
async def check_faulty_transfers_are_refused(session: CheckSession) -> None:
    streamer, player, viewer = await session.join_all("streamer", "player", "viewer")
    id = await open_stream(session, streamer)
    await _faults(session, "transfer-ownership", id, "P-3.10.7-6", "P-3.10.7-7", streamer, player)
    got = await write(player, id, b"stolen", viewer)
    session.report(not any(got), "a participant took another's stream", "P-3.10.7-1")
    outcome = await _ask(session, streamer, "transfer-ownership", id, "nobody-here")
    detail = f"a transfer to an absent participant was answered with {outcome.code!r}"
    session.report(outcome.refused_with("participant_not_found"), detail, "P-3.10.7-8")
