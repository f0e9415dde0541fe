"""What a person has approved so far: proposers, targets, tools, names of arguments, and folders. No rule goes beyond it.

A folder is known where a call into it was approved. What is below it is known, too, as far as calls went into two of the
folders below, or into one and into itself: then the person has approved more than one place of it. The root of a system
of files, and the host of an address, are never known in this way alone.

Spec: §9.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mew_lab.protocol.visible import one_line
from mew_lab.rules.conditions import folder_of, is_path
from mew_lab.rules.decided_calls import AlikeKey, AskedCall, DecidedCall, alike_key

__all__ = ["Approvals", "ancestors"]

MAX_DEPTH = 32  # folders above one that are looked at
_Place = tuple[str, str, str, str]  # proposer, target, tool, argument


def ancestors(path: str) -> Iterator[str]:
    """The folders that a path is below, the nearest first, each with its last slash; of an address, from its host."""
    scheme = path.find("://")
    first = path.find("/", scheme + 3) if scheme > 0 else path.find("/", 1)
    end = path.rfind("/")
    for _ in range(MAX_DEPTH):
        if first < 0 or end < first:
            return
        yield path[: end + 1]
        end = path.rfind("/", 0, end)


class Approvals:
    """The approvals of one person. Decisions that teach nothing are left out."""

    def __init__(self, decisions: Iterable[DecidedCall] = ()) -> None:
        self._shapes: set[AlikeKey] = set()
        self._names: set[tuple[str, ...]] = set()
        self._known: dict[_Place, set[str]] = {}
        self._below: dict[
            _Place, dict[str, set[str]]
        ] = {}  # by folder, the next steps to known folders below it
        for decided in decisions:
            self.add(decided)

    def add(self, decided: DecidedCall) -> None:
        """Takes the next decision."""
        if not decided.teaches or decided.verdict != "approved":
            return
        key, arguments = alike_key(decided), decided.arguments
        if key is None or arguments is None:
            return
        self._shapes.add(key)
        self._names |= {key[:1], key[:2], key[:3]}
        for name, value in arguments.items():
            if is_path(value):
                self._add_folder((*key[:3], name), value)

    def _add_folder(self, place: _Place, path: str) -> None:
        folder = folder_of(path)
        known = self._known.setdefault(place, set())
        if folder in known:
            return
        known.add(folder)
        below = self._below.setdefault(place, {})
        step = ""
        for above in ancestors(path):
            below.setdefault(above, set()).add(step)
            step = above

    def find_new(self, call: AskedCall) -> str:
        """What of a call was not approved before; empty where nothing is new."""
        key = alike_key(call)
        assert key is not None
        told = ("calls of", one_line(call.proposer, 60)), ("calls to", one_line(call.target, 60))
        for n, (what, name) in enumerate((*told, ("calls of the tool", one_line(call.tool, 60))), 1):
            if key[:n] not in self._names:
                return f"{what} {name} were not approved before"
        if key not in self._shapes:
            return "a call with these arguments was not approved before"
        for name, value in call.arguments.items():
            if is_path(value) and not self._is_known((*key[:3], name), value):
                return f"the folder {one_line(folder_of(value), 80)} was not approved before"
        return ""

    def _is_known(self, place: _Place, path: str) -> bool:
        if folder_of(path) in self._known.get(place, ()):
            return True
        below: Mapping[str, Any] = self._below.get(place, {})
        return any(len(below.get(folder, ())) > 1 for folder in ancestors(path))
