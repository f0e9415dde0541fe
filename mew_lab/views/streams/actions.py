"""What a human can do about a stream: open one, close it, grant and revoke write access, transfer it, save its frames.

The gateway decides whether she may; its own sentence is what she reads. Everything here is async and runs on the loop.
Which streams there are stands in `model`.

Spec: §3.10.1, §3.10.4 to §3.10.7.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from mew_lab.errors import MewError
from mew_lab.sdk.stream import Stream
from mew_lab.views.streams.file import file_name, write_new
from mew_lab.views.streams.kinds import Kind
from mew_lab.views.streams.model import StreamsModel
from mew_lab.views.streams.pictures import last_picture
from mew_lab.views.streams.row import StreamRow

__all__ = ["SavedStream", "StreamActions"]


class SavedStream(NamedTuple):
    """A file with `bytes` of a stream; `missing` came earlier and is not held any more."""

    path: Path
    bytes: int
    missing: int


class StreamActions:
    """What the human of one lab does about its streams; a row's `key` names the stream."""

    def __init__(self, streaming: StreamsModel) -> None:
        self._streaming = streaming

    async def open(self, **asked: Any) -> StreamRow:
        """Asks for a stream of her own and returns its row once the gateway has opened it.

        Takes and raises what `participant.streams.request_stream` does. Spec: §3.10.1.
        """
        stream = await self._streaming.me.streams.request_stream(**asked)
        row = self._streaming.open_row(stream.id)
        if row is None:
            raise MewError(f"{stream.id} was opened and is closed already: {stream.closed}")
        return row

    async def close(self, key: int, reason: str = "complete") -> None:
        """Ends a stream; the gateway refuses what is not hers. Raises as `Stream.close`. Spec: §3.10.4."""
        await self._stream(key).close(reason)

    async def grant_write(self, key: int, participant: str) -> None:
        """Lets somebody write. Raises as `Stream.grant_write`. Spec: §3.10.5."""
        await self._stream(key).grant_write(participant)

    async def revoke_write(self, key: int, participant: str) -> None:
        """Lets somebody write no longer. Raises as `Stream.grant_write`. Spec: §3.10.6."""
        await self._stream(key).revoke_write(participant)

    async def transfer_ownership(self, key: int, participant: str) -> None:
        """Gives a stream away. Raises as `Stream.grant_write`. Spec: §3.10.7."""
        await self._stream(key).transfer_ownership(participant)

    async def save(self, key: int, *, folder: Path | None = None, kind: Kind | None = None) -> SavedStream:
        """Writes the frames that are held to a new file in `folder`, the working directory when absent.

        Looked at as pictures it is the last whole one alone, where there is one.

        Raises:
            MewError: nothing is held, or the file cannot be written.
        """
        row, held = self._streaming.row(key), self._streaming.buffer(key)
        some = None if held is None else self._streaming.frames.everything(held)
        if row is None or some is None or not some.frames:
            raise MewError("Nothing of that stream is held here, so there is nothing to save")
        kind, frames, missing = kind or row.kind, some.frames, some.start.bytes
        if kind == "image" and (last := last_picture(frames)) is not None:
            frames, missing = [last.data], 0
        name = file_name(row.id, kind, first=frames[0], now=datetime.now(UTC))
        path = await asyncio.to_thread(write_new, folder or Path.cwd(), name, frames)
        return SavedStream(path, sum(map(len, frames)), missing)

    def _stream(self, key: int) -> Stream:
        row, me = self._streaming.row(key), self._streaming.me
        if row is None or row.state != "open":
            said = "That stream is not listed any more" if row is None else f"{row.id or 'It'} is {row.state}"
            why = f" ({row.reason})" if row is not None and row.reason else ""
            raise MewError(f"{said}{why}, so nothing was sent; open another one")
        stream = me.streams.active.get(row.id)
        if stream is None:
            raise MewError(
                f"{row.id} is not known to {me.client.id!r} just now, so nothing was sent; try again once it is "
                "connected"
            )
        return stream
