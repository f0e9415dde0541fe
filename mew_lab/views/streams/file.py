"""Writes the held frames of a stream to a new file.

Nothing in the name or the place is a peer's choice: of the stream's id only letters, digits, dot, dash and underscore
remain, behind a fixed beginning. A file that exists is never touched, and a link is never followed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from mew_lab.errors import MewError
from mew_lab.views.streams.kinds import Kind
from mew_lab.views.streams.pictures import picture_type

__all__ = ["file_name", "write_new"]

_ENDINGS = {"text": "txt", "json": "jsonl", "numbers": "txt", "hex": "bin", "image": "bin"}
_PICTURES = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}
MOST_TRIES = 100


def file_name(id: str, kind: Kind, *, first: bytes, now: datetime) -> str:
    """`stream-3-20260102-030405.txt`: the ending follows from how it is looked at, of a picture from its first bytes."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", id)[:60].strip(".")
    stem = plain if plain.startswith("stream-") else f"stream-{plain}"
    ending = _PICTURES.get(picture_type(first), "bin") if kind == "image" else _ENDINGS[kind]
    return f"{stem}-{now:%Y%m%d-%H%M%S}.{ending}"


def write_new(folder: Path, name: str, frames: Iterable[bytes]) -> Path:
    """Writes the frames, nothing between them, to a file that was not there before; `name-2` and so on where it was.

    Raises:
        MewError: the folder cannot be written to, or holds too many of that name.
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
                f"Cannot write {path}: {fault.strerror or fault}. Change to a folder that takes it: %cd …"
            ) from None
        return path
    raise MewError(
        f"Cannot save: {folder} holds {MOST_TRIES} files named like {name} already; move them away"
    )
