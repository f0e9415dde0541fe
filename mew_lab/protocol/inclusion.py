"""Searches the shortest string that some patterns match and others do not, with automata.

The string is a witness that the other patterns do not cover the first ones; its absence proves that they do. Without
patterns to avoid, its absence proves that the patterns have no string in common. The search supports literals, globs
and their negations, but no regular expressions.

It runs the automata that `permit` runs, so a guarded glob (R33) means the same in both. A guarded negation does not
match an unsafe text. So a text escapes such a negation in two ways: it matches what is negated, or it is unsafe.

Spec: §4.1, ruling R33.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from mew_lab.protocol.node import Meter, Node
from mew_lab.protocol.strings import (
    ANY_STRING,
    DOT,
    DOTS,
    GUARD_PATH,
    SLASH,
    START,
    AnyString,
    Automaton,
    Glob,
    Literal,
    Negation,
    follow,
    is_control,
)

__all__ = ["Plain", "Word", "find", "holds"]

Plain = Literal | Glob | AnyString
Word = Plain | Negation

_READABLE: Final = "xyzabcdefghijklmnopqrstuvw0123456789"
_CONTROLS: Final = "\n\t\r" + "".join(map(chr, range(1, 9)))
_WAITING: Final = (0, 0)
"""Of a track: the text is to become unsafe, and need not match the glob."""
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
    tracks = [_GlobTrack.of(word) for word in inside if not isinstance(word, Negation)]
    tracks += [
        _GlobTrack.of(word.inner, released_by=word.guard) for word in outside if isinstance(word, Negation)
    ]
    tracks = tracks or [_GlobTrack.of(ANY_STRING)]
    none_of: list[Plain] = [_unguarded(word.inner) for word in inside if isinstance(word, Negation)]
    meter.spend(len(outside) // 2)
    for word in outside:
        # A literal that is not inside can be left out; a list may well hold a thousand of them.
        if isinstance(word, (Glob, AnyString)) or (
            isinstance(word, Literal) and all(holds(some, word.text, meter) for some in inside)
        ):
            none_of.append(word)
    characters = sum(len(word.source) for word in (*inside, *none_of)) + sum(
        len(track.tokens) for track in tracks
    )
    meter.spend(_STEP + characters * (1 + characters // _BITS_PER_STEP) // _CHARACTERS_READ_PER_STEP)
    avoided = Automaton.of((word.tokens, _guard(word)) for word in none_of)
    surely = avoided.final & avoided.loops_over_slash & ~avoided.guarded  # whatever follows here is matched
    step_cost = _STEP + avoided.final.bit_length() // _BITS_PER_STEP  # a thousand globs weigh more than one
    alphabet = _Alphabet.of(tracks, avoided)
    kept_safe = max((word.guard for word in inside if isinstance(word, Negation)), default=0)
    released_by = max(track.released_by for track in tracks)
    # The place in the text is followed where a guard of paths depends on it.
    places = GUARD_PATH in (kept_safe, released_by, *[track.guard for track in tracks]) or avoided.paths
    # The fewer positions `avoided` is in, the more strings escape it: of two such sets at the same place in
    # `tracks`, only the smaller has to be followed.
    reached: dict[tuple[tuple[tuple[int, int], ...], int, int], list[tuple[int, int]]] = {}
    waiting = deque(
        (at, START, 0, avoided.start, avoided.spelled_at_start, "")
        for at in product(*[track.starts for track in tracks])
    )
    alone = len(tracks) == 1
    only_empty = not avoided.start & avoided.final and any(
        _all_end(tracks, at, START, 0) for at, *_ in waiting
    )
    while waiting:
        at, place, harm, states, spelled, text = waiting.popleft()
        for character in alphabet.at(tracks, at, place, kept_safe):
            meter.spend(step_cost)
            after, after_spelled = avoided.advance(states, spelled, place, character)
            if after & surely:
                continue
            then_harm = max(harm, _harm(place, character)) if released_by or kept_safe else 0
            if kept_safe and then_harm >= 3 - kept_safe:
                continue
            then_place = follow(place, character) if places else START
            escapes = not avoided.ends(after, after_spelled, then_place)
            if kept_safe == GUARD_PATH and then_place in (DOT, DOTS):
                escapes = False
            moves = [track.moves(some, place, character) for track, some in zip(tracks, at, strict=True)]
            for then in zip(moves[0], strict=True) if alone else product(*moves):
                if escapes and _all_end(tracks, then, then_place, then_harm):
                    return text + character
                known = reached.setdefault((then, then_place, then_harm), [])
                meter.spend(len(known) // _COMPARED_PER_STEP)
                if not any(fewer & ~after == 0 and less & ~after_spelled == 0 for fewer, less in known):
                    known.append((after, after_spelled))
                    waiting.append((then, then_place, then_harm, after, after_spelled, text + character))
    return "" if only_empty else None


def _all_end(tracks: Sequence[_GlobTrack], at: Sequence[tuple[int, int]], place: int, harm: int) -> bool:
    for track, some in zip(tracks, at, strict=True):  # noqa: SIM110 — a generator would cost more than the check
        if not track.ends(some, place, harm):
            return False
    return True


def _guard(word: Plain) -> int:
    return word.guard if isinstance(word, Glob) else 0


def _unguarded(word: Plain) -> Plain:
    return word.unguarded if isinstance(word, Glob) else word


def _harm(place: int, character: str) -> int:
    """What a character makes of a text: 1 where it is then unsafe for a path, 2 where also for any guarded glob."""
    if character == "\\":
        return 2
    return int(SLASH <= place <= DOTS if character == "/" else is_control(character))


@dataclass(frozen=True, slots=True)
class _GlobTrack:
    """A glob to be matched. Its states are pairs of one position and of whether the present segment is spelled out
    there, both as bits of the automaton.

    With `released_by`, the guard of a negation to be avoided, the glob need not match where the text is unsafe for it.
    """

    automaton: Automaton
    tokens: tuple[str, ...]
    guard: int
    released_by: int

    @classmethod
    def of(cls, word: Plain, *, released_by: int = 0) -> _GlobTrack:
        guard = 0 if released_by else _guard(word)
        tokens = tuple(token for token in word.tokens if token not in ("*", "**"))
        return cls(Automaton.of([(word.tokens, guard)]), tokens, guard, released_by)

    @property
    def starts(self) -> tuple[tuple[int, int], ...]:
        start = (1, self.automaton.spelled_at_start)
        return (start, _WAITING) if self.released_by else (start,)

    def moves(self, at: tuple[int, int], place: int, character: str) -> tuple[tuple[int, int], ...]:
        """The states after one more character."""
        if at == _WAITING:
            return (at,)
        states, spelled = self.automaton.advance(*at, place, character)
        lower = states & -states
        return tuple((bit, spelled & bit) for bit in (lower, states ^ lower) if bit)

    def ends(self, at: tuple[int, int], place: int, harm: int) -> bool:
        """Whether a text that ends here is matched, or released."""
        if at == _WAITING:
            return harm >= 3 - self.released_by or (self.released_by == GUARD_PATH and place in (DOT, DOTS))
        return self.automaton.ends(*at, place)


@dataclass(frozen=True, slots=True)
class _Alphabet:
    """One character of each relevant class."""

    fresh: str
    control: str
    escapes: int
    """The guard for which something unsafe helps a text to escape what is avoided."""

    @classmethod
    def of(cls, tracks: Sequence[_GlobTrack], avoided: Automaton) -> _Alphabet:
        used = {token for track in tracks for token in track.tokens} | avoided.wants.keys()
        guard = GUARD_PATH if avoided.paths else min(avoided.guarded, 1)
        escapes = max(guard, *(track.released_by for track in tracks), 0)
        control = ""
        if escapes == GUARD_PATH:
            control = next((character for character in _CONTROLS if character not in used), _CONTROLS[0])
        return cls(_fresh(used), control, escapes)

    def at(
        self, tracks: Sequence[_GlobTrack], at: Sequence[tuple[int, int]], place: int, kept_safe: int
    ) -> Iterable[str]:
        """The characters to try: one that no pattern names, those that are named at these positions, the slash, and
        those that are unsafe where a wildcard may match them. Characters that are named elsewhere only help the
        patterns to avoid."""
        named: list[str] = []
        guard = kept_safe
        for track, some in zip(tracks, at, strict=True):
            if some == _WAITING:
                continue
            position = some[0].bit_length() - 1
            token = track.tokens[position] if position < len(track.tokens) else ""
            if not track.automaton.loops & some[0] and token != "?":
                return (token,) * bool(token)
            if token and token != "?":
                named.append(token)
            guard = max(guard, track.guard)
        unsafe = "\\" * (self.escapes > 0 and guard == 0)
        if self.escapes == GUARD_PATH and guard < GUARD_PATH:
            unsafe += self.control + "." * (place <= DOT)
        return dict.fromkeys((self.fresh, *named, "/", *unsafe))


def _fresh(used: set[str]) -> str:
    """A character that no pattern names, a readable one where there is one."""
    readable = next((character for character in _READABLE if character not in used), None)
    return readable or next(
        character for character in map(chr, range(0x100, 0xD800)) if character not in used
    )
