"""Do stream frames go to whom they are for, whole and as they were sent?

Spec: §3.8.1, §3.10.1, §3.10.3, §3.10.6.
"""

from __future__ import annotations

from typing import Any

from mew_lab.conformance.stage import Chapter, Stage
from mew_lab.conformance.streams import open_stream
from mew_lab.conformance.wire import Guest

__all__ = ["chapter", "received", "write"]

chapter = Chapter()


async def write(writer: Guest, id: str, data: bytes, *readers: Guest) -> list[bool]:
    """Writes one frame; for each reader whether it has come."""
    frame = f"#{id}#".encode() + data
    await writer.send(frame)
    await writer.settle()
    return [frame in await received(reader) for reader in readers]


async def received(guest: Guest) -> list[bytes]:
    """All frames that have come to it."""
    await guest.settle()
    return [one.data for one in guest.inbox if one.data is not None]


@chapter.shows("P-3.10.1-4", "P-3.10.3-3", "P-3.8.1-8")
async def targets_alone_get_the_frames(stage: Stage) -> None:
    streamer, player, viewer, human = await stage.seats("streamer", "player", "viewer", "human")
    id = await open_stream(stage, streamer, target=["viewer", "player"])
    rows = "P-3.10.1-4 P-3.10.3-3 P-3.8.1-8"
    got = await write(streamer, id, b"targeted", viewer, player, human, streamer)
    stage.claim(rows, got[:2] == [True, True], "a frame did not reach every target of its stream")
    stage.claim(rows, got[2:] == [False, False], "a frame reached somebody who is no target of its stream")


@chapter.shows("P-3.10.1-5", "P-3.10.3-4", "P-3.8.1-8")
async def without_targets_all_get_the_frames(stage: Stage) -> None:
    streamer, viewer, human, observer = await stage.seats("streamer", "viewer", "human", "observer")
    choices: tuple[dict[str, Any], ...] = ({}, {"target": None}, {"target": []})
    for choice in choices:
        id = await open_stream(stage, streamer, **choice)
        got = await write(streamer, id, b"for all", viewer, human, observer)
        said = f"a frame of a stream requested with {choice or 'no target'} did not reach everybody"
        stage.claim("P-3.10.1-5 P-3.10.3-4 P-3.8.1-8", all(got), said)


@chapter.shows("P-3.10.3-2")
async def boundaries_are_kept(stage: Stage) -> None:
    streamer, player, viewer = await stage.seats("streamer", "player", "viewer")
    first, second = await open_stream(stage, streamer), await open_stream(stage, player)
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
        for guest, id in ((streamer, first), (player, second)):
            frame = f"#{id}#".encode() + part
            await guest.send(frame)
            sent.append(frame)
    for guest in (streamer, player):
        await guest.settle()
    got = await received(viewer)
    for id in (first, second):
        head = f"#{id}#".encode()
        mine = [one for one in got if one.startswith(head)]
        right = mine == [one for one in sent if one.startswith(head)]
        stage.claim(
            "P-3.10.3-2", right, f"the frames of {id} did not arrive byte for byte, whole and in order"
        )
    await streamer.send(f"#{first}#as text é")
    await streamer.settle()
    arrived = f"#{first}#as text é".encode() in await received(viewer)
    stage.claim("P-3.10.3-2", arrived, "a frame that was sent as text did not arrive")


@chapter.shows("C-18")
async def a_frame_keeps_its_opcode(stage: Stage) -> None:
    streamer, viewer = await stage.seats("streamer", "viewer")
    id = await open_stream(stage, streamer)
    frames: tuple[str | bytes, ...] = (f"#{id}#text", f"#{id}#bytes".encode())
    for frame in frames:
        await streamer.send(frame)
    await streamer.settle()
    await viewer.settle()
    got = [one.raw for one in viewer.inbox if one.data is not None]
    stage.claim("C-18", got == list(frames), f"a text frame and a binary frame arrived as {got}")


@chapter.shows("P-3.10.6-9")
async def only_writers_write(stage: Stage) -> None:
    streamer, player, viewer, observer = await stage.seats("streamer", "player", "viewer", "observer")
    id = await open_stream(stage, streamer)
    for guest in (player, observer):
        mark = guest.mark
        got = await write(guest, id, f"by {guest.role}".encode(), viewer, streamer)
        stage.claim("P-3.10.6-9", not any(got), f"a frame by {guest.role}, who is no writer, was relayed")
        errors = {one.payload.get("error") for one in guest.inbox[mark:] if one.kind == "system/error"}
        told = "unauthorized_stream_write" in errors
        stage.claim(
            "P-3.10.6-9", told, f"{guest.role}, who is no writer, was answered with {errors or 'nothing'}"
        )
    got = await write(streamer, id, b"by its owner", viewer)
    stage.claim("P-3.10.6-9", all(got), "after that the owner's own frame was not relayed")
