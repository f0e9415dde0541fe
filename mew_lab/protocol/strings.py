"""Matches strings against string patterns: literals, globs, negations and regular expressions.

Globs run without a backtracking engine and without google-re2: a pattern must mean the same where that engine is not
installed, and no text may make it slow. Regular expressions run only on google-re2; where it cannot be imported they
are refused when they are compiled, never when they are matched.

Spec: §4.1, §4.2.
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

__all__ = ["ANY_STRING", "AnyString", "Automaton", "Glob", "Literal", "Negation", "Regex", "compile_string"]

MAX_EXPRESSION: Final = 256
MAX_GLOB: Final = 1024
"""A glob keeps one bit a character while it runs; a megabyte of stars would make every step slow."""
_WILDCARD: Final = re.compile(r"\*\*|\*|\?|[^*?]", re.DOTALL)

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
    everything below, so `mcp/*` has `**` as its last token there.
    """

    text: str
    tokens: tuple[str, ...]
    _run: _Affix | Automaton = field(repr=False, compare=False)

    @classmethod
    def of(cls, text: str, *, kind: bool = False) -> Glob:
        """Compiles `text`, which has a wildcard."""
        tokens = _WILDCARD.findall(text)
        if kind and text.endswith("/*"):
            tokens[-1] = "**"
        return cls(text, tuple(tokens), _Affix.of(tokens) or Automaton.of([tokens]))

    @property
    def source(self) -> str:
        return self.text

    @property
    def is_affix(self) -> bool:
        """Whether it has one star and no other wildcard: then text is compared, not walked."""
        return type(self._run) is _Affix

    def accepts(self, text: str, meter: Meter) -> bool:
        meter.spend(1 + len(text) // (meter.AFFIX if self.is_affix else meter.GLOB))
        return self._run.accepts(text)


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


@dataclass(frozen=True, slots=True)
class Automaton:
    """Globs, all their positions at once as the bits of one integer, one glob above the other.

    A star is a loop at a position, so one character costs four operations on an integer, whatever came before.
    """

    wants: dict[str, int]
    wants_any: int
    loops: int
    loops_over_slash: int
    start: int
    final: int

    @classmethod
    def of(cls, globs: Iterable[Iterable[str]]) -> Automaton:
        """The automaton of the tokens of each glob."""
        wants: dict[str, int] = {}
        wants_any = loops = loops_over_slash = start = final = 0
        here = 1
        for glob in globs:
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
        return cls(wants, wants_any, loops | loops_over_slash, loops_over_slash, start, final)

    def step(self, states: int, character: str) -> int:
        """The positions after one more character."""
        if character == "/":
            return ((states & self.wants.get("/", 0)) << 1) | (states & self.loops_over_slash)
        return ((states & (self.wants.get(character, 0) | self.wants_any)) << 1) | (states & self.loops)

    def accepts(self, text: str) -> bool:
        wants, states = self.wants, self.start
        for character in text:  # `step`, without a call for each character of a long text
            if character == "/":
                states = ((states & wants.get("/", 0)) << 1) | (states & self.loops_over_slash)
            else:
                states = ((states & (wants.get(character, 0) | self.wants_any)) << 1) | (states & self.loops)
            if not states:
                return False
        return bool(states & self.final)


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
    """`!x`: any string that x does not match. An absent field and what is no string do not match either."""

    inner: Literal | Glob | AnyString

    @property
    def source(self) -> str:
        return f"!{self.inner.source}"

    def accepts(self, text: str, meter: Meter) -> bool:
        return not self.inner.accepts(text, meter)


def compile_string(text: str, *, key: str, kind: bool = False) -> StringNode:
    """Compiles one string of a pattern.

    `kind` is set for the patterns of a capability's `kind`, where a trailing `/*` matches everything below.

    Raises:
        ConfigError: naming `key`.

    Spec: §4.1 (Pattern Types).
    """
    if is_expression(text):
        return Regex.of(text[1:-1], key=key)
    if text.startswith("!"):
        return _negation(text, key=key, kind=kind)
    return _plain(text, key=key, kind=kind)


def is_expression(text: str) -> bool:
    """Whether a pattern is read as `/regular expression/`."""
    return len(text) >= 3 and text[0] == "/" and text[-1] == "/"


def is_glob(text: str) -> bool:
    """Whether a pattern or a key has a wildcard."""
    return "*" in text or "?" in text


def _plain(text: str, *, key: str, kind: bool) -> Literal | Glob | AnyString:
    if text == "*":
        return ANY_STRING
    if not is_glob(text):
        return Literal(text)
    if len(text) > MAX_GLOB:
        raise ConfigError(
            f"a glob of {len(text)} characters; at most {MAX_GLOB} are allowed: shorten it or list literals",
            key=key,
        )
    return Glob.of(text, kind=kind)


def _negation(text: str, *, key: str, kind: bool) -> Negation:
    # What is refused here would else permit nearly everything: no string equals the text of an expression.
    inner = text[1:]
    if not inner:
        raise ConfigError("'!' alone negates nothing; write '!name' or '!glob*'", key=key)
    if inner.startswith("!") or is_expression(inner):
        raise ConfigError(f"'{text}' cannot be used: only a literal or a glob can be negated", key=key)
    return Negation(_plain(inner, key=key, kind=kind))


def _sentence(fault: Exception) -> str:
    message = fault.args[0] if fault.args else ""
    return (
        message.decode("utf-8", "replace")
        if isinstance(message, bytes)
        else str(message) or type(fault).__name__
    )
