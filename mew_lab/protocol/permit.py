"""Decides whether a participant that holds some capabilities may send a message.

How it works. `Capability.of` compiles a pattern `{"kind", "payload", "to"}` into nodes (`pattern`). A `CapabilitySet`
is everything that one participant holds. `CapabilitySet.permit` finds its answer in three steps:

1. `_of_kind` takes the capabilities whose kind matches, in their order. Literal kinds stand in an index; all other
   patterns of a kind are matched one by one. The result for a kind in the index is cached with its cost. That cost is
   charged each time, so the cost of a message depends on no earlier message.
2. The first of them whose `to` and `payload` match permits the message. A capability with `to` permits no broadcast.
3. When none matches, `_nearest` writes one sentence about the nearest capability, for the refusal.

Each step is charged to a `Meter`. A message that costs more than the budget is not allowed, and the verdict states that.

A pattern is read by the rules of an edition, which `Capability.of` is given: by default the present ones. Before NARROW
a glob did not judge paths (R33), and `x-closed` was a remark (R34). The gateway, `can_send` and the analysis of logs use
this module. The space checks reserved kinds, pauses and shutdowns.

Spec: §4.1, §4.2, §5.4, rulings R33 and R34.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from mew_lab.errors import ConfigError
from mew_lab.protocol.cost import Candidates, steps
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.miss import miss, quote, spell
from mew_lab.protocol.node import SET_BUDGET, TOO_COSTLY, Budget, Meter, Node
from mew_lab.protocol.pattern import (
    AnyOf,
    Closed,
    Literal,
    ObjectPattern,
    compile_pattern,
    compile_strings,
    loosened,
    search_remarks,
    warnings,
)
from mew_lab.protocol.profiles import PROFILES, SEE, refer_to_patterns
from mew_lab.protocol.strings import is_glob
from mew_lab.protocol.text import utf8_size
from mew_lab.protocol.visible import one_line

__all__ = [
    "CLOSED",
    "NARROW",
    "PATTERNS",
    "PROFILES",
    "Capability",
    "CapabilitySet",
    "Verdict",
    "edition_of",
    "permit",
    "permits_some",
    "read_capabilities",
    "try_pattern",
]

NARROW: Final = 4
"""The first edition of a space's rules by which globs judge paths (R33) and a capability may be closed (R34)."""
PATTERNS: Final = ("closed", "paths")
"""What a welcome calls the additions of edition NARROW to the pattern language."""
CLOSED: Final = "x-closed"
"""The member by which a capability permits the arguments that it names and no others."""

KIND = 64
ADDRESSEES = 16
"""Of a message that every set must be able to judge: the characters of its kind, and how many it addresses."""
_PARTS = ("kind", "payload", "to")
_REMARKS = ("id", "description")
_CLOSED_KINDS = ("mcp/request", "mcp/proposal")
_TOO_COSTLY = "it costs more to judge this message than one message may"
_LOOKED_AT = 50
"""Capabilities that the search for the nearest looks at: a refusal must not cost more than its cause."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a message is allowed, and by which capability.

    `index` and `pattern` are those of the capability that permits it. For a refusal, `nearest` is a short sentence
    about the nearest capability, as far as the rest of the budget reaches. `exceeded` is whether judging the message
    costs more than the budget.
    """

    allowed: bool
    index: int | None = None
    pattern: dict[str, Any] | None = None
    nearest: str = ""
    exceeded: bool = False

    def __bool__(self) -> bool:
        return self.allowed


@dataclass(frozen=True)
class Capability:
    """One compiled capability. `pattern` is a copy of the pattern that it was made of, `id` and `description`
    included."""

    pattern: dict[str, Any]
    kind: Node
    payload: Node | None
    to: Node | None

    @property
    def closed(self) -> bool:
        """Whether it permits nothing but what it names."""
        return isinstance(self.payload, ObjectPattern) and self.payload.free is not None

    @cached_property
    def loose(self) -> Capability:
        """The same capability by the rules before NARROW, which permits no less; made at the first use."""
        payload = None if self.payload is None or self.is_loose else loosened(self.payload)
        changed = payload is not None and payload is not self.payload
        return replace(self, payload=payload) if changed else self

    @property
    def is_loose(self) -> bool:
        """Whether it is known, without a look at its parts, that `loose` is the capability itself."""
        return not self.closed and not is_glob(self.text)

    @cached_property
    def text(self) -> str:
        """The pattern as compact JSON, written once."""
        return compact(self.pattern)

    @cached_property
    def size(self) -> int:
        """The bytes of the pattern as compact JSON."""
        return utf8_size(self.text)

    @cached_property
    def cost(self) -> int:
        """The most steps that it costs to judge a message of REFERENCE bytes."""
        named = 0 if _literals(self.kind) is not None else steps(self.kind, KIND)
        addressed = 0 if self.to is None else ADDRESSEES + steps(self.to, seen=Candidates(ADDRESSEES))
        return named + addressed + steps(self.payload)

    @classmethod
    def of(cls, pattern: Mapping[str, Any], *, key: str = "", edition: int = NARROW) -> Capability:
        """Compiles `pattern`: `{"kind": P, "payload": {…}?, "to": P?, "x-closed": true?}`.

        `id`, `description` and any other `x-…` are kept and ignored. Any other member is refused: a misspelt `paylod`
        must not permit everything, nor a misspelt `x-closed`. `key` is the path to the pattern, for the error;
        `edition` numbers the rules by which it is read.

        Raises:
            ConfigError: with the key path of the fault.

        Spec: §4.1 (Capability Pattern Structure).
        """
        if not isinstance(pattern, Mapping):
            raise ConfigError(
                f"a capability is an object with a kind, not a {type(pattern).__name__}", key=key
            )
        for name in pattern:
            if (
                name not in _PARTS
                and name not in _REMARKS
                and not (isinstance(name, str) and name.startswith("x-"))
            ):
                raise ConfigError(_unknown(name), key=_path(key, str(name)))
        narrow = edition >= NARROW
        closed = narrow and _is_closed(pattern, key)
        if "kind" not in pattern:
            raise ConfigError("a capability needs a kind, such as 'chat' or 'mcp/*'", key=_path(key, "kind"))
        payload = None
        if "payload" in pattern:
            if not isinstance(pattern["payload"], Mapping):
                raise ConfigError(
                    "the payload of a capability is an object of patterns", key=_path(key, "payload")
                )
            payload = compile_pattern(
                pattern["payload"],
                key=_path(key, "payload"),
                paths=narrow,
                closed=Closed.PAYLOAD if closed else None,
            )
        to = compile_strings(pattern["to"], key=_path(key, "to")) if "to" in pattern else None
        kind = compile_strings(pattern["kind"], key=_path(key, "kind"), kind=True)
        return cls({name: _copied(part) for name, part in pattern.items()}, kind, payload, to)

    @classmethod
    def kept(cls, pattern: Mapping[str, Any], *, edition: int) -> Capability:
        """Compiles a capability that an earlier edition may have accepted; what these rules refuse keeps its meaning.

        Raises:
            ConfigError: when no edition accepts it.
        """
        try:
            return cls.of(pattern, edition=edition)
        except ConfigError:
            return cls.of(pattern, edition=0)

    def permits(self, kind: str, to: Sequence[str] = (), payload: Mapping[str, Any] | None = None) -> bool:
        """Whether a holder of this capability may send a message of this kind to these addressees with this payload."""
        return self.kind.matches(kind) and self.permits_body(to, _object(payload))

    def permits_body(self, to: Sequence[str], payload: dict[str, Any]) -> bool:
        """As `permits`, for a kind that is known to match.

        A message that costs more than the budget of one match is not permitted.
        """
        try:
            return self.holds_body(to, payload, Meter())
        except TOO_COSTLY:
            return False

    def holds_body(self, to: Sequence[str], payload: dict[str, Any], meter: Meter) -> bool:
        """As `permits_body`, charged to `meter`; OverBudget is raised to its owner."""
        if self.to is not None and not _reaches(self.to, to, meter):
            return False
        return self.payload is None or self.payload.holds(payload, meter)


class CapabilitySet:
    """The capabilities of one participant: compiled once, indexed by kind, never changed.

    Args:
        patterns: Capabilities of a configuration, a grant or a welcome.
        key: The path to them, for the error.
        edition: The number of the rules by which they are read.

    Raises:
        ConfigError: with the key path, such as `[2].payload.params`.
    """

    __slots__ = ("_by_kind", "_numbers", "_others", "_verdicts", "capabilities", "patterns")

    def __init__(
        self, patterns: Iterable[Mapping[str, Any]] = (), *, key: str = "", edition: int = NARROW
    ) -> None:
        self._index(
            Capability.of(pattern, key=f"{key}[{at}]", edition=edition) for at, pattern in enumerate(patterns)
        )

    @classmethod
    def compiled(cls, capabilities: Iterable[Capability]) -> CapabilitySet:
        """A set of compiled capabilities."""
        made = cls.__new__(cls)
        made._index(capabilities)
        return made

    def _index(self, capabilities: Iterable[Capability]) -> None:
        self.capabilities = tuple(capabilities)
        self.patterns = tuple(capability.pattern for capability in self.capabilities)
        self._verdicts = tuple(Verdict(True, at, pattern) for at, pattern in enumerate(self.patterns))
        numbered = tuple(enumerate(self.capabilities))
        self._others = tuple(pair for pair in numbered if _literals(pair[1].kind) is None)
        # A kind that is named anywhere has its candidates listed in full, in order, once it was asked for: every
        # later check is one look-up.
        self._numbers: dict[str, list[tuple[int, Capability]]] = {}
        for pair in numbered:
            for kind in dict.fromkeys(_literals(pair[1].kind) or ()):
                self._numbers.setdefault(kind, []).append(pair)
        self._by_kind: dict[str, tuple[tuple[tuple[int, Capability], ...], int]] = {}

    def __repr__(self) -> str:
        return f"CapabilitySet({list(self.patterns)!r})"

    @property
    def cost(self) -> int:
        """The most steps that it costs to judge a message of REFERENCE bytes, of any kind."""
        named = (sum(capability.cost for _, capability in pairs) for pairs in self._numbers.values())
        return sum(capability.cost for _, capability in self._others) + max(named, default=0)

    def permit(
        self,
        kind: str,
        to: Sequence[str] = (),
        payload: Mapping[str, Any] | None = None,
        *,
        order: Callable[[int], Any] | None = None,
        meter: Meter | None = None,
    ) -> Verdict:
        """Decides whether a message of `kind`, to these addressees, with this payload may be sent.

        Args:
            to: Logical names; empty for a broadcast.
            payload: An absent payload counts as `{}`.
            order: The sort key of a capability's index; the verdict names the first that permits in this order. By
                default the order is that of the set.
            meter: The budget of all capabilities together, by default SET_BUDGET steps. A message that exceeds it is
                not allowed, and the verdict is `exceeded`.

        Spec: §4.2.
        """
        body = _object(payload)
        meter = meter or Budget(SET_BUDGET)
        try:
            candidates: Sequence[tuple[int, Capability]] = self._of_kind(kind, meter)
            if order is not None:
                candidates = sorted(candidates, key=lambda pair: order(pair[0]))
            for at, capability in candidates:
                if capability.holds_body(to, body, meter):
                    return self._verdicts[at]
        except TOO_COSTLY:
            meter.left = min(meter.left, 0)
            return Verdict(False, nearest=_TOO_COSTLY, exceeded=True)
        return Verdict(False, nearest=self._nearest(kind, candidates, to, body, meter))

    def reaches(self, kind: str, to: Sequence[str], *, meter: Meter | None = None) -> bool:
        """Whether some message of `kind` to these addressees may be sent, with whichever payload.

        A search that exceeds the budget has no answer, so the answer is no.
        """
        meter = meter or Budget(SET_BUDGET)
        try:
            candidates = self._of_kind(kind, meter)
            return any(one.to is None or _reaches(one.to, to, meter) for _, one in candidates)
        except TOO_COSTLY:
            return False

    def permit_each(
        self,
        kind: str,
        to: Sequence[str],
        payload: Mapping[str, Any] | None,
        *,
        order: Callable[[int], Any] | None = None,
    ) -> Verdict:
        """As `permit`, with a budget for each capability, beyond which that capability does not match.

        It is the rule of journals that were written before there was a budget for the whole set.
        """
        payload = _object(payload)
        try:
            candidates: Sequence[tuple[int, Capability]] = self._of_kind(kind, Meter())
        except TOO_COSTLY:  # a kind as long as a book
            candidates = tuple(self._numbers.get(kind, ()))
        if order is not None:
            candidates = sorted(candidates, key=lambda pair: order(pair[0]))
        for at, capability in candidates:
            if capability.permits_body(to, payload):
                return self._verdicts[at]
        return Verdict(False, nearest=self._nearest(kind, candidates, to, payload, Meter()))

    def candidates(self, kind: str, meter: Meter) -> tuple[Capability, ...]:
        """The capabilities whose kind matches, in order; OverBudget is raised to the owner of `meter`."""
        return tuple(capability for _, capability in self._of_kind(kind, meter))

    def _of_kind(self, kind: str, meter: Meter) -> tuple[tuple[int, Capability], ...]:
        """The capabilities whose kind matches, with their places.

        A cached result costs as much as the first one, so the cost of a message depends on no earlier message.
        """
        if (known := self._by_kind.get(kind)) is not None:
            meter.spend(known[1])
            return known[0]
        named = self._numbers.get(kind, ())
        before = meter.left
        others = [pair for pair in self._others if pair[1].kind.holds(kind, meter)]
        if not named:
            return tuple(others)
        pairs = tuple(sorted((*named, *others), key=lambda pair: pair[0]))
        self._by_kind[kind] = pairs, before - meter.left
        return pairs

    def _nearest(
        self,
        kind: str,
        candidates: Sequence[tuple[int, Capability]],
        to: Sequence[str],
        payload: dict[str, Any],
        meter: Meter,
    ) -> str:
        if not candidates:
            return _no_kind(kind, self.capabilities)
        best, sentence = -1, ""
        for _, capability in candidates[:_LOOKED_AT]:
            near, reason = _body_miss(capability, to, payload, meter)
            if near > best:
                best, sentence = near, f"{_short(capability)} {reason}"
        return sentence


def edition_of(patterns: Iterable[str]) -> int:
    """The edition by which a gateway reads patterns whose welcome names these additions to the pattern language."""
    return NARROW if set(PATTERNS) <= set(patterns) else 0


def read_capabilities(
    patterns: Iterable[Mapping[str, Any]], *, edition: int = NARROW
) -> tuple[CapabilitySet, list[ConfigError]]:
    """Returns the set of the patterns that can be read, and the errors of the others, which permit nothing."""
    readable: list[Capability] = []
    faults: list[ConfigError] = []
    for pattern in patterns:
        try:
            readable.append(Capability.of(pattern, key=f"[{len(readable) + len(faults)}]", edition=edition))
        except ConfigError as fault:
            faults.append(fault)
    return CapabilitySet.compiled(readable), faults


def permits_some(patterns: Iterable[Mapping[str, Any]], kind: str) -> bool:
    """Whether these capabilities permit some message of the kind, by whatever rules."""
    return any(one.kind.matches(kind) for one in read_capabilities(patterns, edition=0)[0].capabilities)


def permit(
    capabilities: Iterable[Mapping[str, Any]],
    kind: str,
    *,
    to: Sequence[str] = (),
    payload: Mapping[str, Any] | None = None,
    edition: int = NARROW,
) -> Verdict:
    """Decides whether a holder of `capabilities` may send the message, by the rules of an edition.

    It compiles the patterns for one answer. For many answers keep a `CapabilitySet`.

    Raises:
        ConfigError: when a capability is invalid.

    Spec: §4.2.
    """
    return CapabilitySet(capabilities, edition=edition).permit(kind, to, payload)


def try_pattern(pattern: object, message: object) -> str:
    """Tells whether a pattern, or one of a list, permits a message, and else the nearest miss: for trying patterns out.

    Whatever is given, the answer is text: what is no pattern or no message is told as well. A remark on what is probably
    meant otherwise follows on a line of its own.

    Spec: §4.1, §4.2.
    """
    try:
        sent = json.loads(json.dumps(message, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as fault:
        return f"This is no message: it cannot be written as JSON ({one_line(str(fault), 100)})."
    sent = sent if isinstance(sent, dict) else {}
    kind, to, payload = sent.get("kind"), sent.get("to"), sent.get("payload")
    to = [to] if isinstance(to, str) else [] if to is None else to
    texts = isinstance(to, list) and all(isinstance(name, str) for name in to)
    if not isinstance(kind, str) or not texts or not isinstance(payload, (dict, type(None))):
        return (
            "This is no message: it is an object with a kind, and may have `to`, a list of participants, and a payload, "
            'such as {"kind": "chat", "to": ["coder"], "payload": {"text": "Hello"}}.'
        )
    alone = isinstance(pattern, Mapping)
    patterns = [pattern] if alone else pattern
    if not isinstance(patterns, (list, tuple)):
        return f'This is no pattern: it is an object with a kind, such as {{"kind": "chat"}}, or a list of them. {SEE}'
    try:
        held = [Capability.of(one, key="" if alone else f"[{at}]") for at, one in enumerate(patterns)]
    except ConfigError as fault:
        where = f" (at {one_line(fault.key, 80)})" if fault.key else ""
        return refer_to_patterns(f"This is no pattern{where}: {one_line(str(fault), 300)}")
    verdict = CapabilitySet.compiled(held).permit(kind, to, payload)
    by = f"Allowed by the pattern [{verdict.index}]." if not alone else "Allowed."
    remarks = [remark for one in held for remark in (*warnings(one.pattern), *search_remarks(one.pattern))]
    lines = [
        by if verdict else f"Refused: {verdict.nearest}.",
        *(f"Note: {one_line(text, 300)}." for text in remarks),
    ]
    return "\n".join(lines)


def _is_closed(pattern: Mapping[str, Any], key: str) -> bool:
    """Whether a capability is closed.

    Raises:
        ConfigError: where `x-closed` is misspelt, neither true nor false, or stands where nothing could be closed.
    """
    for name in pattern:
        if name.startswith("x-") and name != CLOSED and _is_near(name.casefold(), CLOSED):
            raise ConfigError(
                f"a capability has no key '{name}'; did you mean '{CLOSED}'?", key=_path(key, name)
            )
    closed = pattern.get(CLOSED, False)
    if not isinstance(closed, bool):
        raise ConfigError(f"{CLOSED} is true or false, not {quote(closed)}", key=_path(key, CLOSED))
    if not closed:
        return False
    kinds = pattern.get("kind")
    for kind in kinds if isinstance(kinds, (list, tuple)) and kinds else (kinds,):
        if kind not in _CLOSED_KINDS:
            raise ConfigError(
                f"{CLOSED} closes the arguments of calls, so its kind is {' or '.join(_CLOSED_KINDS)}, not "
                f"{quote(kind)}",
                key=_path(key, CLOSED),
            )
    payload = pattern.get("payload")
    if not isinstance(payload, Mapping) or "params" not in payload:
        raise ConfigError(
            f"{CLOSED} needs a payload that names params: without it nothing would be permitted",
            key=_path(key, CLOSED),
        )
    return True


def _is_near(name: str, word: str) -> bool:
    """Whether at most two characters have to be inserted, removed or replaced to turn one into the other."""
    if abs(len(name) - len(word)) > 2:
        return False
    row = list(range(len(word) + 1))
    for at, character in enumerate(name, 1):
        before, row[0] = row[0], at
        for column, other in enumerate(word, 1):
            before, row[column] = (
                row[column],
                min(row[column] + 1, row[column - 1] + 1, before + (character != other)),
            )
    return row[-1] <= 2


def _copied(value: Any) -> Any:
    """A deep copy of JSON."""
    if isinstance(value, Mapping):
        return {name: _copied(part) for name, part in value.items()}
    return type(value)(map(_copied, value)) if type(value) in (list, tuple) else value


def _literals(kind: Node) -> tuple[str, ...] | None:
    """The kinds that a pattern lists as literals; None where it has other patterns."""
    if isinstance(kind, Literal):
        return (kind.text,)
    if isinstance(kind, AnyOf) and all(isinstance(alternative, Literal) for alternative in kind.alternatives):
        return tuple(
            alternative.text for alternative in kind.alternatives if isinstance(alternative, Literal)
        )
    return None


def _reaches(pattern: Node, to: Sequence[str], meter: Meter) -> bool:
    """Whether `to` has addressees and all of them match; a broadcast exceeds any pattern."""
    for addressee in to:
        meter.spend()
        if not pattern.holds(addressee, meter):
            return False
    return bool(to)


def _object(payload: Mapping[str, Any] | None) -> dict[str, Any]:
    return payload if isinstance(payload, dict) else dict(payload or {})


def _body_miss(
    capability: Capability, to: Sequence[str], payload: dict[str, Any], meter: Meter
) -> tuple[int, str]:
    """The number of members that matched in a capability of the right kind, and the text of its miss."""
    if capability.to is not None:
        try:
            wrong = next((name for name in to if not capability.to.holds(name, meter)), None)
        except TOO_COSTLY:
            return 0, f"wants to {spell(capability.to)}, and it costs too much to find out who is amiss"
        if wrong is not None or not to:
            return (
                0,
                f"wants to {spell(capability.to)}, got {'a broadcast' if wrong is None else quote(wrong)}",
            )
    if capability.payload is None:
        return 0, "wants fewer addressees"
    near = miss(capability.payload, payload, path="payload", meter=meter)
    return 1 + near.matched, near.sentence


def _no_kind(kind: str, capabilities: Sequence[Capability]) -> str:
    if not capabilities:
        return "no capability is held"
    held = [spell(capability.kind) for capability in capabilities[:6]]
    more = ", …" if len(capabilities) > 6 else ""
    return f"no capability for kind {quote(kind)}; held are {', '.join(held)}{more}"


def _short(capability: Capability) -> str:
    more = ",…" if capability.payload is not None or capability.to is not None else ""
    return f'{{"kind":{spell(capability.kind)}{more}}}'


def _unknown(name: object) -> str:
    near = difflib.get_close_matches(str(name), _PARTS + _REMARKS, n=1)
    advice = (
        f"; did you mean '{near[0]}'?"
        if near
        else "; a capability has kind, payload, to, id, description and x-…"
    )
    return f"a capability has no key '{name}'{advice}"


def _path(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name
