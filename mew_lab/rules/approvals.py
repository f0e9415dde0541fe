"""What a person has approved so far: proposers, targets, tools, names of arguments, and folders. No rule goes beyond it.

A folder is known where a call into it was approved. What is below it is known, too, as far as calls went into two of
the folders below, or into one and into itself: then the person has approved more than one place of it. The root of a
system of files, and the scheme of an address, are never known in this way. A path that could lead elsewhere, such as one
with `..`, is known only where the same one was approved before.

An argument holds paths where most of its approved texts are paths; then each text in it is taken for one. In any other
argument only a text that reads as a path is. A text with a blank is new where no approved one had any: a second path may
stand behind it.

Spec: §9.4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mew_lab.protocol.visible import one_line
from mew_lab.rules.conditions import MAX_VALUE, folder_of, has_blank, is_path, is_plain, top_folder
from mew_lab.rules.decided_calls import AlikeKey, AskedCall, DecidedCall, alike_key

__all__ = ["Approvals", "ancestors"]

MAX_DEPTH = 32  # folders above one that are looked at
MAX_RISKY = 1_000  # paths of one argument
_Place = tuple[str, str, str, str]  # proposer, target, tool, argument


def ancestors(path: str) -> Iterator[str]:
    """The folders that a path is below, the nearest first, each with its last slash; of an address, from its host."""
    first, end = len(top_folder(path)) - 1, path.rfind("/")
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
        self._below: dict[_Place, dict[str, set[str]]] = {}  # by folder, the steps to known folders below
        self._paths: Counter[_Place] = Counter()  # approved paths, less the approved texts that are none
        self._risky: dict[_Place, set[str]] = {}  # approved paths that could lead elsewhere
        self._with_blanks: set[_Place] = set()
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
            if isinstance(value, str):
                self._paths[*key[:3], name] += 1 if is_path(value) else -1
                if has_blank(value):
                    self._with_blanks.add((*key[:3], name))
                self._add_path((*key[:3], name), value)

    def _add_path(self, place: _Place, path: str) -> None:
        if not is_plain(path):
            risky = self._risky.setdefault(place, set())
            if len(risky) < MAX_RISKY and len(path) <= MAX_VALUE:
                risky.add(path)
            return
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
            place = (*key[:3], name)
            if not isinstance(value, str):
                continue
            if has_blank(value) and place not in self._with_blanks:
                return f"a text with a blank as {one_line(name, 60)} was not approved before"
            if not (is_path(value) or self._paths[place] > 0):
                continue
            if not self._is_known(place, value):
                return f"the folder {one_line(folder_of(value), 80) or 'of it'} was not approved before"
        return ""

    def _is_known(self, place: _Place, path: str) -> bool:
        if not is_plain(path):
            return path in self._risky.get(place, ())
        if folder_of(path) in self._known.get(place, ()):
            return True
        below: Mapping[str, Any] = self._below.get(place, {})
        return any(len(below.get(folder, ())) > 1 for folder in ancestors(path))
