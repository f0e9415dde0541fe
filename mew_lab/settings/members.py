"""Reads the members of a document of settings, and collects its faults with their places.

The readers of agent files and of the server entries of MCP clients build on it. A member of another type than expected
is a fault, and reads as empty, so that one pass finds all faults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mew_lab.settings.faults import Fault, place

__all__ = ["HALF", "MemberReader", "is_writable"]

HALF = "it has half of a character, which cannot be sent"


def is_writable(text: str) -> bool:
    """Whether it can be sent and written: JSON may spell halves of characters, which UTF-8 cannot."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class MemberReader:
    """Reads members by their type; `faults` are those that it met."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def fault(self, path: str, message: str) -> None:
        """Notes a fault of the member at a key path."""
        self.faults.append(Fault(path, message))

    def mapping(self, value: object, path: str, *, what: str = "this") -> Mapping[str, Any]:
        """A mapping of names to values."""
        if isinstance(value, Mapping):
            return value
        self.fault(path, f"{what} must be a mapping of names to values")
        return {}

    def sequence(self, value: object, path: str) -> Sequence[Any]:
        """A list; empty where there is none."""
        if value is None:
            return ()
        if isinstance(value, list):
            return value
        self.fault(path, "this must be a list")
        return ()

    def text(self, of: Mapping[str, Any], key: str, at: str, *, needed: bool = False) -> str:
        """A text; empty where there is none."""
        value = of.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and key == "version":
            return str(value)  # `version: 1.0` without quotes
        if value is None and not needed:
            return ""
        if isinstance(value, str) and not is_writable(value):
            self.fault(place(at, key), HALF)
            return ""
        if isinstance(value, str) and (value.strip() or not needed):
            return value
        absent = value is None or isinstance(value, str)
        self.fault(place(at, key), "it is missing or blank" if absent else "this must be text")
        return ""

    def words(self, of: Mapping[str, Any], key: str, at: str) -> list[str]:
        """A list of texts, or of numbers without quotes."""
        words = []
        for n, word in enumerate(self.sequence(of.get(key), place(at, key))):
            if isinstance(word, bool) or not isinstance(word, str | int | float):
                self.fault(place(at, key, n), "this must be text")
            elif not is_writable(str(word)):
                self.fault(place(at, key, n), HALF)
            words.append(str(word))
        return words

    def texts(self, of: Mapping[str, Any], key: str, at: str) -> dict[str, str]:
        """A mapping of names to texts, or to numbers, true or false without quotes."""
        chapter = self.mapping(of.get(key) or {}, place(at, key))
        for name, value in chapter.items():
            if not isinstance(value, str | int | float):
                self.fault(place(at, key, name), "this must be text")
            elif not is_writable(f"{name}{value}"):
                self.fault(place(at, key, name), HALF)
        return {str(name): _as_text(value) for name, value in chapter.items()}

    def choice(self, of: Mapping[str, Any], key: str, at: str, choices: Sequence[str], default: str) -> str:
        """One of some texts."""
        value = of.get(key)
        if value is None:
            return default
        if value not in choices:
            self.fault(place(at, key), f"{str(value)[:40]!r} is none of {', '.join(choices)}")
            return default
        return str(value)

    def flag(self, of: Mapping[str, Any], key: str, at: str, default: bool) -> bool:
        """True or false."""
        value = of.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.fault(place(at, key), "this must be true or false")
            return default
        return value
