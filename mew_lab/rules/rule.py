"""A rule: which calls of one participant a person wants to be approved without being asked each time.

A rule is text, and the text says all that it permits:

    When coder asks files to run read_file with path below docs/, mode "r", and nothing else: approve

It names one proposer, one target, one tool, and a condition for each argument. A call with another argument, or without
one of these, is not covered. Beside the text stand the tool's SHA-256, and three limits: approvals an hour, days and
uses. The SHA-256 of the canonical JSON of all of it identifies a rule: a changed character makes another rule.

A rule is no capability: each call stays a proposal on record. `capability` is the permission that it would be, to be
shown; None where no closed permission is as narrow.

Spec: §9.4, rulings R33, R34.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar

from mew_lab.errors import ConfigError
from mew_lab.protocol.envelope import canonical, digest
from mew_lab.protocol.visible import one_line, visible
from mew_lab.rules.conditions import Condition, NoCondition, quoted, read_condition, read_word
from mew_lab.rules.decided_calls import AboutKey, AskedCall, DecidedCall

__all__ = [
    "AN_HOUR",
    "DAYS",
    "MAX_ARGUMENTS",
    "MAX_TEXT",
    "USES",
    "ApprovalRule",
    "parse_rule",
    "parse_rules",
]

AN_HOUR: Final = 30  # approvals, at most
DAYS: Final = 30
USES: Final = 200
MAX_TEXT: Final = 4_000  # characters
MAX_ARGUMENTS: Final = 20
_HASH: Final = re.compile(r"[0-9a-f]{64}")
T = TypeVar("T", covariant=True)
_TAIL: Final = ": approve"


class BackTester(Protocol[T]):
    """A log that tells what rules would have decided in it."""

    def back_test(self, rules: Sequence[ApprovalRule]) -> T:
        """What these rules would have decided."""


@dataclass(frozen=True)
class ApprovalRule:
    """One rule. `arguments` are the conditions by the names of the arguments; a call has these arguments and no others.

    `tool_hash` is the SHA-256 of the entry of the tool that it is for, empty where that is not known yet: then it covers
    no call. `an_hour` is how many calls it approves in an hour, `days` and `uses` after how many it expires.
    """

    proposer: str
    target: str
    tool: str
    arguments: Mapping[str, Condition]
    tool_hash: str = ""
    an_hour: int = AN_HOUR
    days: int = DAYS
    uses: int = USES

    def __post_init__(self) -> None:
        limits = (("an_hour", AN_HOUR), ("days", DAYS), ("uses", USES))
        for name, most in limits:
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= most:
                raise ConfigError(f"a rule has {name} from 1 to {most}, not {value!r:.40}", key=name)
        if self.tool_hash and not _HASH.fullmatch(self.tool_hash):
            raise ConfigError(
                "tool_hash is the SHA-256 of the tool's entry, 64 small hexadecimal digits", key="tool"
            )
        if not (self.proposer and self.target and self.tool):
            raise ConfigError("a rule names who asks, who is asked, and which tool is run")
        ordered = {name: self.arguments[name] for name in sorted(self.arguments)}
        object.__setattr__(self, "arguments", MappingProxyType(ordered))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ApprovalRule) and self.sha256 == other.sha256

    def __hash__(self) -> int:
        return hash(self.sha256)

    @cached_property
    def text(self) -> str:
        """The sentence, which `parse_rule` reads back."""
        stated = [f"{quoted(name)} {condition.text}" for name, condition in self.arguments.items()]
        given = f"{', '.join(stated)}, and nothing else" if stated else "nothing"
        names = quoted(self.proposer), quoted(self.target), quoted(self.tool)
        return "When {} asks {} to run {} with {}{}".format(*names, given, _TAIL)

    def __str__(self) -> str:
        return visible(self.text)

    @cached_property
    def data(self) -> dict[str, Any]:
        """All of the rule as JSON."""
        return {
            "proposer": self.proposer,
            "target": self.target,
            "tool": self.tool,
            "tool_sha256": self.tool_hash,
            "arguments": {name: condition.data for name, condition in self.arguments.items()},
            "an_hour": self.an_hour,
            "days": self.days,
            "uses": self.uses,
        }

    @cached_property
    def canonical(self) -> bytes:
        """The one byte form of the rule: canonical JSON."""
        return canonical(self.data)

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of `canonical`, which identifies the rule."""
        return digest(self.data)

    @cached_property
    def capability(self) -> dict[str, Any] | None:
        """The closed capability that the proposer would need to send such calls; None where none is as narrow."""
        patterns = {name: condition.pattern for name, condition in self.arguments.items()}
        if None in patterns.values() or any(
            not _is_plain_key(name) for name in (*patterns, self.tool, self.target)
        ):
            return None
        return {
            "kind": "mcp/request",
            "to": self.target,
            "payload": {"method": "tools/call", "params": {"name": self.tool, "arguments": patterns}},
            "x-closed": True,
        }

    @cached_property
    def ceiling(self) -> dict[str, Any] | None:
        """The narrowest capability that lets somebody send each call that it covers; None where its names allow none.

        It is `capability`, or else an open one for the same tool, which some other calls of it satisfy too.
        """
        if self.capability is not None or not all(map(_is_plain_key, (self.tool, self.target))):
            return self.capability
        patterns = {name: condition.pattern for name, condition in self.arguments.items()}
        known = {
            name: pattern for name, pattern in patterns.items() if pattern is not None and _is_plain_key(name)
        }
        params = {"name": self.tool, **({"arguments": known} if known else {})}
        return {
            "kind": "mcp/request",
            "to": self.target,
            "payload": {"method": "tools/call", "params": params},
        }

    @property
    def about(self) -> AboutKey:
        """Which calls it is about, as `about` of a call."""
        return self.proposer, self.target, self.tool

    @property
    def words(self) -> tuple[str, str]:
        """Its sentence and the SHA-256 of its tool: what it says, whatever its limits are."""
        return self.text, self.tool_hash

    def covers_call(self, call: DecidedCall | AskedCall) -> bool:
        """Whether it is about a call, and the arguments of that satisfy its conditions."""
        return self.about == call.about and call.arguments is not None and self.covers(call.arguments)

    def covers(self, arguments: Mapping[str, Any]) -> bool:
        """Whether these arguments, and no others, satisfy its conditions."""
        return arguments.keys() == self.arguments.keys() and all(
            condition.holds(arguments[name]) for name, condition in self.arguments.items()
        )

    def backtest(self, log: BackTester[T]) -> T:
        """What it would have decided in a log, such as `lab.log` or `open_log(path)`; its printed form tells that."""
        return log.back_test([self])

    def uncovered(self, arguments: Mapping[str, Any]) -> str:
        """The reason why it does not cover these arguments; empty where it does."""
        for name in arguments:
            if name not in self.arguments:
                return f"it says nothing of the argument {one_line(str(name), 60)}"
        for name, condition in self.arguments.items():
            if name not in arguments:
                return f"the argument {one_line(name, 60)} is missing"
            if not condition.holds(arguments[name]):
                return f"{one_line(name, 60)} is not {one_line(condition.text, 200)}"
        return ""

    def bound(self, tool_hash: str) -> ApprovalRule:
        """The same rule for the tool with this SHA-256; another rule."""
        return replace(self, tool_hash=tool_hash)


def _is_plain_key(name: str) -> bool:
    return bool(name) and not re.search(r"[*?]", name) and name[0] not in "!/$"


_HEAD: Final = (
    ("When ", "the participant that asks"),
    (" asks ", "the participant that is asked"),
    (" to run ", "the tool"),
)


def parse_rule(
    text: str, *, tool_hash: str = "", an_hour: int = AN_HOUR, days: int = DAYS, uses: int = USES
) -> ApprovalRule:
    """The rule that a sentence states.

    Raises:
        ConfigError: The sentence states none; the message points at the place and says what was expected there.
    """
    sentence = " ".join(text.split()) if '"' not in text else text.strip()
    if len(sentence) > MAX_TEXT:
        raise ConfigError(f"a rule has at most {MAX_TEXT} characters")
    try:
        names, at = [], 0
        for before, what in _HEAD:
            at = _skip(sentence, before, at)
            name, at = read_word(sentence, at, what)
            names.append(name)
        arguments = _read_arguments(sentence, _skip(sentence, " with ", at))
    except NoCondition as fault:
        before, behind = sentence[max(0, fault.at - 40) : fault.at], sentence[fault.at : fault.at + 30]
        raise ConfigError(
            f"this is no rule: {fault}; read up to “{one_line(before)}”, before “{one_line(behind)}”"
        ) from None
    proposer, target, tool = names
    return ApprovalRule(proposer, target, tool, arguments, tool_hash, an_hour, days, uses)


class RuleText(Protocol):
    """An entry of a file of rules: where it stands, its sentence, the SHA-256 of its tool, and its limits."""

    @property
    def key(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def tool(self) -> str: ...
    @property
    def limits(self) -> Mapping[str, int]: ...


def parse_rules(entries: Iterable[RuleText]) -> tuple[list[ApprovalRule], list[tuple[str, str]]]:
    """The rules of these entries, and of each entry that states none its key path and the reason."""
    rules, faults = list[ApprovalRule](), list[tuple[str, str]]()
    for entry in entries:
        try:
            rules.append(parse_rule(entry.text, tool_hash=entry.tool, **entry.limits))
        except ConfigError as fault:
            faults.append((entry.key, str(fault)))
    return rules, faults


def _skip(sentence: str, word: str, at: int) -> int:
    if not sentence.startswith(word, at):
        raise NoCondition(f"here stands “{word.strip()}”", at)
    return at + len(word)


def _read_arguments(sentence: str, at: int) -> dict[str, Condition]:
    if sentence.startswith(f"nothing{_TAIL}", at):
        _end(sentence, at + len("nothing"))
        return {}
    arguments: dict[str, Condition] = {}
    while True:
        name, after = read_word(sentence, at, "the name of an argument")
        if name in arguments:
            raise NoCondition(f"the argument {one_line(name, 60)} has two conditions", at)
        if len(arguments) >= MAX_ARGUMENTS:
            raise NoCondition(f"a rule has at most {MAX_ARGUMENTS} arguments", at)
        arguments[name], at = read_condition(sentence, _skip(sentence, " ", after))
        at = _skip(sentence, ", ", at)
        if sentence.startswith(f"and nothing else{_TAIL}", at):
            _end(sentence, at + len("and nothing else"))
            return arguments


def _end(sentence: str, at: int) -> None:
    if sentence[at:] != _TAIL:
        raise NoCondition("a rule ends with “: approve”", at)
