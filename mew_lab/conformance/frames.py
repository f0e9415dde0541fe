"""Checks that stream frames reach their addressees, whole and unchanged.

Spec: §3.8.1, §3.10.1, §3.10.3, §3.10.6.
"""

from __future__ import annotations

from typing import Any

from mew_lab.conformance.session import CheckGroup, CheckSession
from mew_lab.conformance.streams import collect_frames, open_stream, write

__all__ = ["checks"]

checks = CheckGroup()


@checks.shows("P-3.10.1-4", "P-3.10.3-3", "P-3.8.1-8")
async def check_targets_alone_get_the_frames(session: CheckSession) -> None:
    streamer, player, viewer, human = await session.join_all("streamer", "player", "viewer", "human")
    id = await open_stream(session, streamer, target=["viewer", "player"])
    rows = "P-3.10.1-4 P-3.10.3-3 P-3.8.1-8"
    got = await write(streamer, id, b"targeted", viewer, player, human, streamer)
    session.report(got[:2] == [True, True], "a frame did not reach every target of its stream", rows)
    session.report(
        got[2:] == [False, False], "a frame reached a participant that is no target of its stream", rows
    )


@checks.shows("P-3.10.1-5", "P-3.10.3-4", "P-3.8.1-8")
async def check_without_targets_all_get_the_frames(session: CheckSession) -> None:
    streamer, viewer, human, observer = await session.join_all("streamer", "viewer", "human", "observer")
    choices: tuple[dict[str, Any], ...] = ({}, {"target": None}, {"target": []})
    for choice in choices:
        id = await open_stream(session, streamer, **choice)
        got = await write(streamer, id, b"for all", viewer, human, observer)
        detail = f"a frame of a stream requested with {choice or 'no target'} did not reach everybody"
        session.report(all(got), detail)


@checks.shows("P-3.10.3-2")
async def check_boundaries_are_kept(session: CheckSession) -> None:
    streamer, player, viewer = await session.join_all("streamer", "player", "viewer")
    first, second = await open_stream(session, streamer), await open_stream(session, player)
    data = (
        b"a#b##c",
        b"line\nline\r\n",
        bytes(range(256)),
        b"",
        b"#" + second.encode() + b"#not mine",
        b"{}",
    )
    sent = []
    for part in data:
        for peer, id in ((streamer, first), (player, second)):
            frame = f"#{id}#".encode() + part
            await peer.send(frame)
            sent.append(frame)
    for peer in (streamer, player):
        await peer.settle()
    got = await collect_frames(viewer)
    for id in (first, second):
        head = f"#{id}#".encode()
        mine = [data for data in got if data.startswith(head)]
        right = mine == [data for data in sent if data.startswith(head)]
        session.report(right, f"the frames of {id} did not arrive byte for byte, whole and in order")
    await streamer.send(f"#{first}#as text é")
    await streamer.settle()
    arrived = f"#{first}#as text é".encode() in await collect_frames(viewer)
    session.report(arrived, "a frame that was sent as text did not arrive")


@checks.shows("C-18")
async def check_a_frame_keeps_its_opcode(session: CheckSession) -> None:
    streamer, viewer = await session.join_all("streamer", "viewer")
    id = await open_stream(session, streamer)
    frames: tuple[str | bytes, ...] = (f"#{id}#text", f"#{id}#bytes".encode())
    for frame in frames:
        await streamer.send(frame)
    await streamer.settle()
    await viewer.settle()
    got = [received.raw for received in viewer.inbox if received.data is not None]
    session.report(got == list(frames), f"a text frame and a binary frame arrived as {got}")


@checks.shows("P-3.10.6-9")
async def check_only_writers_write(session: CheckSession) -> None:
    streamer, player, viewer, observer = await session.join_all("streamer", "player", "viewer", "observer")
    id = await open_stream(session, streamer)
    for peer in (player, observer):
        mark = peer.mark
        got = await write(peer, id, f"by {peer.role}".encode(), viewer, streamer)
        session.report(not any(got), f"a frame of {peer.role}, which is no writer, was relayed")
        errors = {received.payload.get("error") for received in peer.received("system/error", since=mark)}
        right = "unauthorized_stream_write" in errors
        session.report(right, f"{peer.role}, which is no writer, was answered with {errors or 'nothing'}")
    got = await write(streamer, id, b"by its owner", viewer)
    session.report(all(got), "after that the owner's own frame was not relayed")
