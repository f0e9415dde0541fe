"""The name of a space's folder: the name of a space may be any text, that of a folder may not.

A plain name stays unchanged. Any other text becomes a name with a digest of it, as does a plain name that is taken or
differs from an existing folder only in case. So two spaces never share a folder, and no name leads outside. The module
opens no files.

Spec: rulings on a space's folder, threat 27.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

__all__ = ["MAX_SPACE", "folder_name", "is_plain", "is_space_id"]

MAX_SPACE = 128  # characters of a space's id

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
# Names that mean a device on Windows, with any extension: no file can be called so there.
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE | re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def is_space_id(text: str) -> bool:
    """Whether it is a valid name of a space: any text of 1 to 128 characters without control characters."""
    return 0 < len(text) <= MAX_SPACE and not _CONTROL.search(text)


def is_plain(name: str) -> bool:
    """Whether a file or folder of this name can exist on every system."""
    return bool(_PLAIN.fullmatch(name)) and not _DEVICE.fullmatch(name) and not name.endswith(".")


def folder_name(space: str, *, among: Iterable[str] = (), taken: Iterable[str] = ()) -> str:
    """The name of a space's folder.

    Args:
        among: The names of the existing folders of spaces.
        taken: Names that other files or folders there have or may get.
    """
    there = set(among)
    folded = space.casefold()
    alike = space not in there and any(other.casefold() == folded for other in there)
    if is_plain(space) and not alike and folded not in {other.casefold() for other in taken}:
        return space
    # No plain name begins so: it is the name of no other space.
    return f"_space-{sha256(space.encode('utf-8', 'backslashreplace')).hexdigest()[:32]}"
