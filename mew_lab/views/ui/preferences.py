"""Keeps the settings of a user's views in one small file, which all kernels of the user share.

The file is `mew_lab.json` in Jupyter's configuration folder, JSON, readable by its owner alone. A setting that the file
does not hold, or that has a wrong value, has its default. Values of other programs and later versions are kept: a file
that cannot be read, or is longer than ours can be, is not written. A change that could not be kept holds in this kernel.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_config_dir

from mew_lab.errors import MewError
from mew_lab.transport.scratch import written_beside

__all__ = ["SETTINGS", "Preferences", "preferences", "preferences_path"]

MAX_BYTES = 64 * 1024
MAX_VALUE = 4096  # characters of JSON of one setting
MAX_PARTS = 200  # objects and lists in one setting: a deeper value could not be sent to a page


def _is_table(value: object) -> bool:
    """Whether the value is a small object that can be sent to a page."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (ValueError, RecursionError):
        return False
    return (
        isinstance(value, dict) and len(text) <= MAX_VALUE and text.count("{") + text.count("[") <= MAX_PARTS
    )


# Each setting: its default, and whether a value is valid.
SETTINGS: Mapping[str, tuple[Any, Callable[[object], bool]]] = {
    "density": ("comfortable", lambda value: value in ("comfortable", "compact")),
    "time": ("local", lambda value: value in ("local", "utc")),
    "hidePlumbing": (True, lambda value: isinstance(value, bool)),
    "desktop": (False, lambda value: isinstance(value, bool)),
    "feedColumns": ({}, _is_table),
    "splitters": ({}, _is_table),
}


def preferences_path() -> Path:
    """The file of the settings."""
    return Path(jupyter_config_dir()) / "mew_lab.json"


class Preferences:
    """The settings of one user; for any thread.

    Args:
        path: Returns the file, which may not exist yet.
    """

    def __init__(self, path: Callable[[], Path] = preferences_path) -> None:
        self._path = path
        # Guards the two below against two threads of this process: the file, and the changes that it could not keep.
        self._lock = threading.Lock()
        self._unkept: dict[str, object] = {}

    def read(self) -> dict[str, Any]:
        """All settings by name, as the file has them now."""
        try:
            stored = self._load()
        except (OSError, ValueError):
            stored = {}
        stored |= self._unkept
        return {
            name: stored[name] if name in stored and is_valid(stored[name]) else default
            for name, (default, is_valid) in SETTINGS.items()
        }

    def change(self, name: str, value: object) -> None:
        """Sets one setting.

        Raises:
            MewError: for an unknown setting, a wrong value, or a file that cannot be written.
        """
        if name not in SETTINGS:
            raise MewError(f"There is no setting {name!r}; the settings are {', '.join(SETTINGS)}.")
        if not SETTINGS[name][1](value):
            raise MewError(f"The setting {name!r} does not take this value.")
        path = self._path()
        with self._lock:
            self._unkept[name] = value
            try:
                # Read again: another kernel may have changed another setting.
                self._save(path, self._load() | self._unkept)
            except (OSError, ValueError, RecursionError) as error:
                why = getattr(error, "strerror", None) or error
                raise MewError(
                    f"The setting {name!r} could not be kept in {path}: {why}. It holds until this kernel ends."
                ) from None
            self._unkept.clear()

    def _load(self) -> dict[str, Any]:
        """What the file holds; nothing where there is no file, or no JSON in it.

        Raises:
            OSError: It cannot be read.
            ValueError: It is too long.
        """
        try:
            with self._path().open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return {}
        if len(data) > MAX_BYTES:
            raise ValueError(f"the file has more than {MAX_BYTES} bytes")
        try:
            stored = json.loads(data)
        except (ValueError, RecursionError):
            return {}
        return stored if isinstance(stored, dict) else {}

    @staticmethod
    def _save(path: Path, stored: Mapping[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_beside(path) as file:  # a reader never sees half of it
            file.write(json.dumps(stored, indent=1, sort_keys=True).encode())


preferences = Preferences()
