"""Matches strings against string patterns: literals, globs, negations and regular expressions.

Globs run without a backtracking engine and without google-re2: a pattern must mean the same where that engine is not
installed, and no text may make it slow. Regular expressions run only on google-re2; where it cannot be imported they
are refused when they are compiled, never when they are matched.

A glob of a payload value is guarded (R33): its wildcards match nothing that could lead a path elsewhere. Unsafe are the
segments `.` and `..`, an empty segment between two slashes, a control character, and a backslash. A text that holds one
satisfies the glob only where the glob spells it out, and never its negation. `GUARD_PATH` stands for all of that,
`GUARD_BACKSLASH`, for a glob without a slash and without `**`, for the backslash alone. Globs of kinds, addressees and
keys are not guarded, nor is a whole `*` or `**`, nor is any glob by the rules before edition 4.

Spec: §4.1, §4.2, ruling R33.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, ClassVar, Final

from mew_lab.errors import ConfigError
from mew_lab.protocol.node import Meter, Node

try:
    import re2 as _re2
except ImportError:  # as in a browser
    _re2 = None

__all__ = [
    "ANY_STRING",
    "DOT",
    "DOTS",
    "GUARD_PATH",
    "SLASH",
    "START",
    "AnyString",
    "Automaton",
    "Glob",
    "Literal",
    "Negation",
    "Regex",
    "compile_string",
    "follow",
    "is_control",
    "is_unsafe",
]

MAX_EXPRESSION: Final = 256  # characters (R11)
MAX_GLOB: Final = 1024
"""A glob keeps one bit a character while it runs; a megabyte of stars would make every step slow."""
_WILDCARD: Final = re.compile(r"\*\*|\*|\?|[^*?]", re.DOTALL)
UNGUARDED, GUARD_BACKSLASH, GUARD_PATH = range(3)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DOTS: Final = re.compile(r"(?<![^/])\.\.?(?![^/])")
_UNSAFE: Final = re.compile(rf"(?P<dots>{_DOTS.pattern})|(?P<empty>/(?=/))|{_CONTROL.pattern}|\\")
# What a glob has to hold to spell something unsafe out; a `**` may match the slash beside a segment.
_SPELLED: Final = re.compile(rf"(?:(?<![^/])|(?<=\*\*))\.\.?(?:(?![^/])|(?=\*\*))|//|{_CONTROL.pattern}|\\")
START, SLASH, DOT, DOTS, INSIDE = range(5)
"""The place in a text: its start, behind a slash, behind a segment so far of one dot or two, or of anything else."""

# A name of its own, so that the one thing that differs between installations can be looked at in one place.
engine: ModuleType | None = _re2


class StringNode(Node):
    """A pattern that only a string can match."""

    __slots__ = ()

    def holds(self, value: object, meter: Meter) -> bool:
        return isinstance(value, str) and self.accepts(value, meter)

    def accepts(self, text: str, meter: Meter) -> bool:
        """Whether the pattern matches the whole of `text`."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Literal(StringNode):
    """Matches itself."""

    text: str

    @property
    def source(self) -> str:
        return self.text

    @property
    def tokens(self) -> tuple[str, ...]:
        return tuple(self.text)

    def holds(self, value: object, meter: Meter) -> bool:
        return value == self.text

    def accepts(self, text: str, meter: Meter) -> bool:
        return text == self.text


@dataclass(frozen=True, slots=True)
class AnyString(StringNode):
    """A bare `*`: any string, slashes included."""

    tokens: ClassVar = ("**",)

    @property
    def source(self) -> str:
        return "*"

    def accepts(self, text: str, meter: Meter) -> bool:
        return True


ANY_STRING: Final = AnyString()


@dataclass(frozen=True, slots=True)
class Glob(StringNode):
    """`*` stands for no slash, `?` for one character that is no slash, `**` for anything; the rest for
    itself.

    `tokens` is what it means: `*`, `?`, `**` and single characters. In a kind a trailing `/*` means
    everything below, so `mcp/*` has `**` as its last token there. `guard` is what its wildcards do not match.
    """

    text: str
    tokens: tuple[str, ...]
    guard: int
    is_affix: bool
    """Whether it has one star and no other wildcard: then text is compared, not walked."""
    _run: _Affix | Automaton = field(repr=False, compare=False)
    _spelled: _Affix | Automaton | None = field(repr=False, compare=False)
    _fixed: int = field(repr=False, compare=False)
    """The place of the last slash before the first wildcard of a glob that spells something unsafe out."""

    @classmethod
    def of(cls, text: str, *, kind: bool = False, paths: bool = False) -> Glob:
        """Compiles `text`, which has a wildcard; with `paths` it is guarded."""
        tokens = _WILDCARD.findall(text)
        if kind and text.endswith("/*"):
            tokens[-1] = "**"
        guard = UNGUARDED
        if paths and text != "**":
            guard = GUARD_PATH if "/" in text or "**" in text else GUARD_BACKSLASH
        affix = _Affix.of(tokens)
        spelled: _Affix | Automaton | None = None
        fixed = 0
        if guard and (_SPELLED.search(text) if guard == GUARD_PATH else "\\" in text):
            spelled = affix or Automaton.of([(tokens, guard)])
            first = next(at for at, token in enumerate(tokens) if token in ("*", "**", "?"))
            fixed = max(text.rfind("/", 0, first), 0)
        run = affix or Automaton.of([(tokens, UNGUARDED)])
        return cls(text, tuple(tokens), guard, affix is not None, run, spelled, fixed)

    @property
    def source(self) -> str:
        return self.text

    @property
    def spells_unsafe(self) -> bool:
        """Whether it may match a text that holds something unsafe."""
        return self._spelled is not None

    @property
    def unguarded(self) -> Glob:
        """The same glob by the rules before edition 4."""
        if not self.guard:
            return self
        return Glob(self.text, self.tokens, UNGUARDED, self.is_affix, self._run, None, 0)

    def accepts(self, text: str, meter: Meter) -> bool:
        size = len(text)
        steps = 1 + size // (meter.AFFIX if self.is_affix else meter.GLOB)
        meter.spend(steps + size // meter.GUARDED if self.guard else steps)
        if not self._run.accepts(text):
            return False
        if not self.guard:
            return True
        # What is unsafe before `_fixed` stands in the glob itself.
        if not is_unsafe(text[self._fixed :] if self._fixed else text, self.guard):
            return True
        if self._spelled is None:
            return False
        meter.spend(self.spelling_cost(1, len(text), meter))
        return self._spelled.accepts_guarded(text, self.guard)

    def spelling_cost(self, values: int, characters: int, meter: Meter | type[Meter]) -> int:
        """The steps to find out whether all that is unsafe in texts of so many characters together is spelled out."""
        return (values * len(self.text) if self.is_affix else characters) // meter.SPELLED


@dataclass(frozen=True, slots=True)
class _Affix:
    """A glob with one star: what stands before it, what stands behind it. Most globs are of this form."""

    before: str
    behind: str
    slashes: bool

    @classmethod
    def of(cls, tokens: list[str]) -> _Affix | None:
        """None where the glob is of another form."""
        wild = [at for at, token in enumerate(tokens) if token in ("*", "**", "?")]
        if len(wild) != 1 or tokens[wild[0]] == "?":
            return None
        at = wild[0]
        return cls("".join(tokens[:at]), "".join(tokens[at + 1 :]), tokens[at] == "**")

    def accepts(self, text: str) -> bool:
        end = len(text) - len(self.behind)
        return (
            end >= len(self.before)
            and text.startswith(self.before)
            and text.endswith(self.behind)
            and (self.slashes or text.find("/", len(self.before), end) < 0)
        )

    def accepts_guarded(self, text: str, guard: int) -> bool:
        """Whether the star matches nothing unsafe of a text that `accepts` holds for."""
        first, end = len(self.before), len(text) - len(self.behind)
        if guard == GUARD_BACKSLASH:
            return text.find("\\", first, end) < 0
        for unsafe in _UNSAFE.finditer(text):  # ends at the first that is not spelled out
            at, behind = unsafe.span()
            if unsafe["empty"] is not None:
                spelled = behind < first or behind > end
            elif unsafe["dots"] is not None:  # beside it the star may match the slash, not nothing
                outside = behind <= first or at >= end
                spelled = outside and (first < end or behind < first or at > end)
            else:
                spelled = at < first or at >= end
            if not spelled:
                return False
        return True


@dataclass(frozen=True, slots=True)
class Automaton:
    """Globs, all their positions at once as the bits of one integer, one glob above the other.

    A star is a loop at a position, so one character costs four operations on an integer, whatever came before.

    How guards work (`advance`). A character that is unsafe by itself moves a guarded glob by literals alone. Whether a
    segment is unsafe is known at its end. So `spelled` follows, of the positions of paths, those that are reached with
    the present segment by literals alone. At the end of an unsafe segment only they go on. A star at the edge of such a
    segment may match the slash beside it, but it may not match nothing there, as `*.*.*` would match `..`.
    """

    wants: dict[str, int]
    wants_any: int
    loops: int
    loops_over_slash: int
    start: int
    final: int
    guarded: int
    paths: int

    @classmethod
    def of(cls, globs: Iterable[tuple[Iterable[str], int]]) -> Automaton:
        """The automaton of the tokens and the guard of each glob."""
        wants: dict[str, int] = {}
        wants_any = loops = loops_over_slash = start = final = guarded = paths = 0
        here = 1
        for glob, guard in globs:
            first = here
            start |= here
            for token in glob:
                if token == "**":
                    loops_over_slash |= here
                elif token == "*":
                    loops |= here
                else:
                    if token == "?":
                        wants_any |= here
                    else:
                        wants[token] = wants.get(token, 0) | here
                    here <<= 1
            final |= here
            here <<= 1
            if guard:
                guarded |= here - first
            if guard == GUARD_PATH:
                paths |= here - first
        loops |= loops_over_slash
        return cls(wants, wants_any, loops, loops_over_slash, start, final, guarded, paths)

    def accepts(self, text: str) -> bool:
        """Whether an unguarded glob matches the whole of `text`."""
        wants, states = self.wants, self.start
        for character in text:
            if character == "/":
                states = ((states & wants.get("/", 0)) << 1) | (states & self.loops_over_slash)
            else:
                states = ((states & (wants.get(character, 0) | self.wants_any)) << 1) | (states & self.loops)
            if not states:
                return False
        return bool(states & self.final)

    def accepts_guarded(self, text: str, guard: int) -> bool:
        """Whether one of the globs, each with its own guard, matches the whole of `text`."""
        states, spelled, place = self.start, self.spelled_at_start, START
        for character in text:
            states, spelled = self.advance(states, spelled, place, character)
            if not states:
                return False
            place = follow(place, character)
        return self.ends(states, spelled, place)

    @property
    def spelled_at_start(self) -> int:
        """The positions at the start of a text at which a segment may be spelled out."""
        return self.start & self.paths & ~self.loops

    def advance(self, states: int, spelled: int, place: int, character: str) -> tuple[int, int]:
        """The positions, and those with a segment spelled out, after one more character behind `place`."""
        wants = self.wants.get(character, 0)
        if character == "/":
            moving = staying = states
            if self.paths and SLASH <= place <= DOTS:
                moving = (states & ~self.paths) | (spelled & ~self.loops)
                staying = (states & ~self.paths) | (spelled if place != SLASH else 0)
            moved = (moving & wants) << 1
            stayed = staying & self.loops_over_slash
            return moved | stayed, ((moved & ~self.loops) | stayed) & self.paths
        free = states
        if character == "\\":
            free &= ~self.guarded
        elif self.paths and is_control(character):
            free &= ~self.paths
        after = ((states & wants | free & self.wants_any) << 1) | (free & self.loops)
        if character != "." or place > DOT:
            return after, 0
        return after, ((spelled & ~self.loops if place == DOT else spelled) & wants) << 1

    def ends(self, states: int, spelled: int, place: int) -> bool:
        """Whether a text that ends at `place` is matched."""
        if place in (DOT, DOTS):
            states = (states & ~self.paths) | (spelled & ~self.loops)
        return bool(states & self.final)


def follow(place: int, character: str) -> int:
    """The place in a text behind one more character."""
    if character == "/":
        return SLASH
    return (DOT, DOT, DOTS, INSIDE, INSIDE)[place] if character == "." else INSIDE


def is_control(character: str) -> bool:
    """Whether it is a control character."""
    return _CONTROL.match(character) is not None


def is_unsafe(text: str, guard: int) -> bool:
    """Whether `text` holds something that the wildcards of a glob with this guard do not match."""
    if "\\" in text:
        return True
    if guard != GUARD_PATH:
        return False
    # Most texts are printable, without a dot at the start of a part: searches in C say so.
    return (
        "//" in text
        or (("/." in text or text[:1] == ".") and _DOTS.search(text) is not None)
        or (not text.isprintable() and _CONTROL.search(text) is not None)
    )


@dataclass(frozen=True, slots=True)
class Regex(StringNode):
    """`/expression/`: matches the whole string, in time linear in its length."""

    expression: str
    _compiled: Any = field(repr=False, compare=False)

    @classmethod
    def of(cls, expression: str, *, key: str) -> Regex:
        """Compiles the text between the slashes; `key` names the place for the error."""
        if engine is None:
            raise ConfigError(
                f"the regular expression /{expression}/ cannot be used here: google-re2 is not installed, "
                "and another engine could be made to run for ever; use a glob or literals",
                key=key,
            )
        if len(expression) > MAX_EXPRESSION:
            raise ConfigError(
                f"a regular expression of {len(expression)} characters; at most {MAX_EXPRESSION} allowed: "
                "split it into a list of patterns",
                key=key,
            )
        options = engine.Options()
        options.log_errors = False  # else a peer's bad pattern would be printed into the kernel's stderr
        options.never_capture = True
        try:
            return cls(expression, engine.compile(expression, options))
        except (engine.error, UnicodeEncodeError) as fault:
            raise ConfigError(
                f"/{expression}/ is no regular expression that google-re2 understands ({_sentence(fault)}); "
                "it has no look-around and no back-references",
                key=key,
            ) from None

    @property
    def source(self) -> str:
        return f"/{self.expression}/"

    @property
    def program_size(self) -> int:
        """The number of instructions that it was compiled to."""
        size: int = self._compiled.programsize
        return size

    def accepts(self, text: str, meter: Meter) -> bool:
        size = len(text)
        meter.spend(1 + meter.expression(size, 1, self.program_size))
        try:
            return self._compiled.fullmatch(text) is not None
        except UnicodeEncodeError:  # half a surrogate pair is no character, so no expression describes it
            return False


@dataclass(frozen=True, slots=True)
class Negation(StringNode):
    """`!x`: any string that x does not match. An absent field and what is no string do not match either, nor does a
    text that is unsafe for the guard of x."""

    inner: Literal | Glob | AnyString

    @property
    def source(self) -> str:
        return f"!{self.inner.source}"

    @property
    def guard(self) -> int:
        """The guard of the glob that is negated; none of a literal."""
        return self.inner.guard if isinstance(self.inner, Glob) else UNGUARDED

    def accepts(self, text: str, meter: Meter) -> bool:
        if self.guard:
            meter.spend(len(text) // meter.GUARDED)
            if is_unsafe(text, self.guard):
                return False
        return not self.inner.accepts(text, meter)


def compile_string(text: str, *, key: str, kind: bool = False, paths: bool = False) -> StringNode:
    """Compiles one string of a pattern.

    `kind` is set for the patterns of a capability's `kind`, where a trailing `/*` matches everything below; `paths` for
    those of a payload's values, whose globs are guarded.

    Raises:
        ConfigError: naming `key`.

    Spec: §4.1 (Pattern Types).
    """
    if is_expression(text):
        return Regex.of(text[1:-1], key=key)
    if text.startswith("!"):
        return _negation(text, key=key, kind=kind, paths=paths)
    return _plain(text, key=key, kind=kind, paths=paths)


def is_expression(text: str) -> bool:
    """Whether a pattern is read as `/regular expression/`."""
    return len(text) >= 3 and text[0] == "/" and text[-1] == "/"


def is_glob(text: str) -> bool:
    """Whether a pattern or a key has a wildcard."""
    return "*" in text or "?" in text


def _plain(text: str, *, key: str, kind: bool, paths: bool) -> Literal | Glob | AnyString:
    if text == "*":
        return ANY_STRING
    if not is_glob(text):
        return Literal(text)
    if len(text) > MAX_GLOB:
        raise ConfigError(
            f"a glob of {len(text)} characters; at most {MAX_GLOB} are allowed: shorten it or list literals",
            key=key,
        )
    return Glob.of(text, kind=kind, paths=paths)


def _negation(text: str, *, key: str, kind: bool, paths: bool) -> Negation:
    # What is refused here would else permit nearly everything: no string equals the text of an expression.
    inner = text[1:]
    if not inner:
        raise ConfigError("'!' alone negates nothing; write '!name' or '!glob*'", key=key)
    if inner.startswith("!") or is_expression(inner):
        raise ConfigError(f"'{text}' cannot be used: only a literal or a glob can be negated", key=key)
    return Negation(_plain(inner, key=key, kind=kind, paths=paths))


def _sentence(fault: Exception) -> str:
    message = fault.args[0] if fault.args else ""
    return (
        message.decode("utf-8", "replace")
        if isinstance(message, bytes)
        else str(message) or type(fault).__name__
    )
