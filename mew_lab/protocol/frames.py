"""Splits and joins frames of stream data, `#stream#data`. The bytes after the second `#` are data and are not read.

Spec: §3.10.3.
"""

from __future__ import annotations

from typing import Final

from mew_lab.errors import LocalProtocolError, ProtocolError

__all__ = ["join", "split"]

MARK: Final = b"#"
MAX_ID: Final = 256  # bytes, as of every id (R6)


def split(data: bytes) -> tuple[str, bytes]:
    """The stream's id and the data of a frame; the data may hold anything, `#` and line ends included.

    An id is ASCII. Other bytes are shown as `\\xff`, so that a refusal can name the id;
    no stream has such an id.

    Raises:
        ProtocolError: `invalid_frame`, when there is no id of 1 to 256 bytes between two marks.

    Spec: §3.10.3.
    """
    end = data.find(MARK, 1, MAX_ID + 2)
    if not data.startswith(MARK) or end < 2:
        raise ProtocolError(
            f"A frame is #stream#data with an id of 1 to {MAX_ID} bytes between the marks",
            code="invalid_frame",
            section="§3.10.3",
            raw=data[: MAX_ID + 2].decode("ascii", "backslashreplace"),
        )
    return data[1:end].decode("ascii", "backslashreplace")[:MAX_ID], data[end + 1 :]


def join(stream_id: str, data: bytes) -> bytes:
    """The frame that carries `data` on a stream.

    Raises:
        LocalProtocolError: `invalid_frame`, when the id cannot be parsed from the frame.

    Spec: §3.10.3.
    """
    if not 1 <= len(stream_id) <= MAX_ID or not stream_id.isascii() or "#" in stream_id:
        raise LocalProtocolError(
            f"A stream's id is 1 to {MAX_ID} ASCII characters without '#', not {stream_id[:MAX_ID]!r}",
            code="invalid_frame",
            section="§3.10.3",
        )
    return MARK + stream_id.encode("ascii") + MARK + data
