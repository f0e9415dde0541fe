"""Searches the shortest string that some patterns match and others do not, with automata.

The string is a witness that the other patterns do not cover the first ones; its absence proves that they do. Without
patterns to avoid, its absence proves that the patterns have no string in common. The search supports literals, globs
and their negations, but no regular expressions.

Spec: §4.1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from mew_lab.protocol.node import Meter, Node
from mew_lab.protocol.strings import ANY_STRING, AnyString, Automaton, Glob, Literal, Negation

__all__ = ["Plain", "Word", "find", "holds"]

Plain = Literal | Glob | AnyString
Word = Plain | Negation

_READABLE: Final = "xyzabcdefghijklmnopqrstuvw0123456789"
# What is paid for in the unit of `Meter`, here about a microsecond.
_STEP: Final = 5
_BITS_PER_STEP: Final = 1_000
_COMPARED_PER_STEP: Final = 10
_CHARACTERS_READ_PER_STEP: Final = 4
_CHARACTERS_MATCHED_PER_STEP: Final = 16


def holds(pattern: Node, value: object, meter: Meter) -> bool:
    """Whether `value` matches, charged also by its length, because steps of a match are sized for a budget of a second.

    Raises:
        OverBudget: when that is more than `meter` has left.
    """
    size = len(value) if isinstance(value, str) else len(repr(value)) if isinstance(value, dict) else 0
    weight = 1 + size // _CHARACTERS_MATCHED_PER_STEP
    meter.spend(2 + weight // 64)
    allowance = meter.left // weight
    trial = Meter(allowance)
    try:
        return pattern.holds(value, trial)
    finally:
        meter.left -= (allowance - trial.left) * weight


def find(inside: Sequence[Word], outside: Sequence[Word] = (), *, meter: Meter) -> str | None:
    """The shortest string that all patterns `inside` match and none of `outside`; None when there is none.

    The empty string is returned only where no other fits, as a kind or a name is never empty. The search is charged to
    `meter`, as some globs take too long: OverBudget is raised to the owner of the meter.
    """
    all_of: list[Plain] = [word for word in inside if not isinstance(word, Negation)]
    all_of += [word.inner for word in outside if isinstance(word, Negation)]
    none_of: list[Plain] = [word.inner for word in inside if isinstance(word, Negation)]
    meter.spend(len(outside) // 2)
    for word in outside:
        # A literal that is not inside can be left out; a list may well hold a thousand of them.
        if isinstance(word, (Glob, AnyString)) or (
            isinstance(word, Literal) and all(holds(some, word.text, meter) for some in inside)
        ):
            none_of.append(word)
    characters = sum(len(word.source) for word in (*all_of, *none_of))
    meter.spend(_STEP + characters * (1 + characters // _BITS_PER_STEP) // _CHARACTERS_READ_PER_STEP)
    tracks = [_GlobTrack.of(word.tokens) for word in all_of or (ANY_STRING,)]
    avoided = Automaton.of(word.tokens for word in none_of)
    surely = avoided.final & avoided.loops_over_slash  # whatever follows here is matched
    step_cost = _STEP + avoided.final.bit_length() // _BITS_PER_STEP  # a thousand globs weigh more than one
    fresh = _fresh({token for track in tracks for token in track.tokens} | avoided.wants.keys())
    at = (0,) * len(tracks)
    end = tuple(len(track.tokens) for track in tracks)
    only_empty = at == end and not avoided.start & avoided.final
    # The fewer positions `avoided` is in, the more strings escape it: of two such sets at the same place in
    # `tracks`, only the smaller has to be followed.
    reached: dict[tuple[int, ...], list[int]] = {}
    waiting = deque([(at, avoided.start, "")])
    while waiting:
        at, states, text = waiting.popleft()
        for character in _characters(tracks, at, fresh):
            meter.spend(step_cost)
            after = avoided.step(states, character)
            if after & surely:
                continue
            for then in product(
                *[track.moves(position, character) for track, position in zip(tracks, at, strict=True)]
            ):
                if then == end and not after & avoided.final:
                    return text + character
                known = reached.setdefault(then, [])
                meter.spend(len(known) // _COMPARED_PER_STEP)
                if not any(fewer & ~after == 0 for fewer in known):
                    known.append(after)
                    waiting.append((then, after, text + character))
    return "" if only_empty else None


@dataclass(frozen=True, slots=True)
class _GlobTrack:
    """A glob as a row of positions: position n is reached after n consuming tokens have matched; a star is
    a loop at a position."""

    tokens: tuple[str, ...]
    loops: tuple[str, ...]

    @classmethod
    def of(cls, glob: Iterable[str]) -> _GlobTrack:
        tokens: list[str] = []
        loops = [""]
        for token in glob:
            if token not in ("*", "**"):
                tokens.append(token)
                loops.append("")
            elif loops[-1] != "**":
                loops[-1] = token
        return cls(tuple(tokens), (*loops,))

    def moves(self, at: int, character: str) -> tuple[int, ...]:
        """The positions after one more character."""
        stays = self.loops[at] == "**" or (self.loops[at] == "*" and character != "/")
        if at == len(self.tokens):
            goes = False
        else:
            goes = self.tokens[at] == character or (self.tokens[at] == "?" and character != "/")
        return (at,) * stays + (at + 1,) * goes


def _characters(tracks: Sequence[_GlobTrack], at: Sequence[int], fresh: str) -> Iterable[str]:
    """One character of each relevant class: one that no pattern names, those that are named at these positions, and
    the slash. Characters that are named elsewhere only help the patterns to avoid."""
    named: list[str] = []
    for track, position in zip(tracks, at, strict=True):
        token = track.tokens[position] if position < len(track.tokens) else ""
        if not track.loops[position] and token != "?":
            return (token,) * bool(token)
        if token and token != "?":
            named.append(token)
    return dict.fromkeys((fresh, *named, "/"))


def _fresh(used: set[str]) -> str:
    """A character that no pattern names, a readable one where there is one."""
    readable = next((character for character in _READABLE if character not in used), None)
    return readable or next(
        character for character in map(chr, range(0x100, 0xD800)) if character not in used
    )
