"""The actions of a human on streams: open, close, grant and revoke write access, transfer, save the frames.

The gateway decides whether an action is allowed, and the human reads its own sentence. Everything here is async and runs
on the loop. `model` knows which streams there are.

No peer chooses the name or the folder of a saved file. Of the stream's id only letters, digits, dot, dash and underscore
remain, behind a fixed beginning. A file that exists is never changed, and a link is never followed.

Spec: §3.10.1, §3.10.4 to §3.10.7.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from mew_lab.errors import MewError
from mew_lab.protocol.image_head import image_type
from mew_lab.sdk.stream import Stream
from mew_lab.views.streams.model import StreamsModel
from mew_lab.views.streams.readers import last_picture
from mew_lab.views.streams.row import Kind, StreamRow

__all__ = ["SavedStream", "StreamActions", "file_name", "write_new"]


class SavedStream(NamedTuple):
    """A file with `bytes` of a stream; `missing` counts the earlier bytes that are no longer held."""

    path: Path
    bytes: int
    missing: int


class StreamActions:
    """The stream actions of the human of one lab; the `key` of a row names the stream."""

    def __init__(self, streaming: StreamsModel) -> None:
        self._streaming = streaming

    async def open(self, **fields: Any) -> StreamRow:
        """Requests a stream that the human will own; returns its row once the gateway has opened it.

        Takes and raises the same as `participant.streams.request_stream`. Spec: §3.10.1.
        """
        stream = await self._streaming.me.streams.request_stream(**fields)
        row = self._streaming.open_row(stream.id)
        if row is None:
            raise MewError(f"{stream.id} was opened, and was closed at once: {stream.closed}")
        return row

    async def close(self, key: int, reason: str = "complete") -> None:
        """Closes a stream that the human owns. Raises as `Stream.close`. Spec: §3.10.4."""
        await self._stream(key).close(reason)

    async def grant_write(self, key: int, participant: str) -> None:
        """Lets `participant` write to the stream. Raises as `Stream.grant_write`. Spec: §3.10.5."""
        await self._stream(key).grant_write(participant)

    async def revoke_write(self, key: int, participant: str) -> None:
        """Takes write access from `participant`. Raises as `Stream.grant_write`. Spec: §3.10.6."""
        await self._stream(key).revoke_write(participant)

    async def transfer_ownership(self, key: int, participant: str) -> None:
        """Makes `participant` the owner of the stream. Raises as `Stream.grant_write`. Spec: §3.10.7."""
        await self._stream(key).transfer_ownership(participant)

    async def save(self, key: int, *, folder: Path | None = None, kind: Kind | None = None) -> SavedStream:
        """Writes the held frames to a new file in `folder`, the working directory when absent.

        Of a stream shown as pictures only the last whole picture is written, if there is one.

        Raises:
            MewError: no frame is held, or the file cannot be written.
        """
        row, buffer = self._streaming.row(key), self._streaming.buffer(key)
        held = None if buffer is None else self._streaming.frames.everything(buffer)
        if row is None or held is None or not held.frames:
            raise MewError("Cannot save that stream: none of its frames are held here")
        kind, frames, missing = kind or row.kind, held.frames, held.start.bytes
        if kind == "image" and (last := last_picture(frames)) is not None:
            frames, missing = [last.data], 0
        name = file_name(row.id, kind, first=frames[0], now=datetime.now(UTC))
        path = await asyncio.to_thread(write_new, folder or Path.cwd(), name, frames)
        return SavedStream(path, sum(map(len, frames)), missing)

    def _stream(self, key: int) -> Stream:
        row, me = self._streaming.row(key), self._streaming.me
        if row is None or row.state != "open":
            state = "That stream is no longer listed" if row is None else f"{row.id or 'It'} is {row.state}"
            why = f" ({row.reason})" if row is not None and row.reason else ""
            raise MewError(f"{state}{why}, so nothing was sent; open another one")
        stream = me.streams.active.get(row.id)
        if stream is None:
            raise MewError(
                f"{me.client.id!r} does not know {row.id} now, so nothing was sent; try again once {me.client.id!r} is "
                "connected"
            )
        return stream


_ENDINGS = {"text": "txt", "json": "jsonl", "numbers": "txt", "hex": "bin", "image": "bin"}
_PICTURES = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}
MOST_TRIES = 100


def file_name(id: str, kind: Kind, *, first: bytes, now: datetime) -> str:
    """A name such as `stream-3-20260102-030405.txt`; the ending follows from `kind`, of a picture from `first`."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", id)[:60].strip(".")
    stem = plain if plain.startswith("stream-") else f"stream-{plain}"
    ending = _PICTURES.get(image_type(first), "bin") if kind == "image" else _ENDINGS[kind]
    return f"{stem}-{now:%Y%m%d-%H%M%S}.{ending}"


def write_new(folder: Path, name: str, frames: Iterable[bytes]) -> Path:
    """Writes the frames, nothing between them, to a new file; where `name` exists it is `name-2` and so on.

    Raises:
        MewError: the folder cannot be written to, or holds too many files of that name.
    """
    stem, _, ending = name.rpartition(".")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    for n in range(1, MOST_TRIES):
        path = folder / (name if n == 1 else f"{stem}-{n}.{ending}")
        try:
            with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
                file.writelines(frames)
        except FileExistsError:
            continue
        except OSError as fault:
            raise MewError(
                f"Cannot write {path}: {fault.strerror or fault}. Change to a folder that can be written to: %cd …"
            ) from None
        return path
    raise MewError(
        f"Cannot save: {folder} holds {MOST_TRIES} files named like {name} already; move them away"
    )
