"""Decides what may be granted: whether one capability permits everything that another permits.

Three answers: yes, when it is proved; no, with a message that the one permits and the other does not; unknown
otherwise. No message can refute a yes: patterns are compared by their meaning, and only the cost of a match is left
aside.

Literals, globs, lists, nested objects, numbers, booleans and null are decided. A regular expression, a negation and a
key that selects many (a glob, `**` or a JSONPath) are covered by the equal pattern, or where the wider pattern demands
nothing at their place. Objects in a list are not known to cover together an object that none of them covers. A closed
capability covers no open one, and a closed one only where it names everything that the other names. `id`, `description`
and any other `x-…` are ignored.

Spec: §3.6.8, §4.1, rulings R33 and R34.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from typing import Literal as OneOf

from mew_lab.protocol.inclusion import find, holds
from mew_lab.protocol.miss import quote, spell
from mew_lab.protocol.node import TOO_COSTLY, Meter, Node, OverBudget
from mew_lab.protocol.pattern import AnyOf, Constant, Field, KeyGlob, ObjectPattern, Selection
from mew_lab.protocol.permit import NARROW, Capability
from mew_lab.protocol.strings import ANY_STRING, AnyString, Glob, Literal, Negation, Regex, StringNode
from mew_lab.protocol.witness import ANY_OBJECT, STEPS, witness

__all__ = ["Coverage", "covered", "covers", "disjoint", "possesses"]

UNIT: Final = 3
"""Steps of a turn's meter that one step of a proof costs."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The answer and its reason. True only where the answer is yes.

    `reason` is empty for a yes. `witness` belongs to a no: a message `{kind, to, payload}` that the wanted capability
    permits and no held one permits.
    """

    answer: OneOf["yes", "no", "unknown"]
    reason: str = ""
    witness: dict[str, Any] | None = None

    def __bool__(self) -> bool:
        return self.answer == "yes"


_LOOSENED_PER_STEP: Final = 32  # bytes of a capability that are read by earlier rules
_YES: Final = Coverage("yes")


def covers(
    wider: Capability | Mapping[str, Any], narrower: Capability | Mapping[str, Any], *, edition: int = NARROW
) -> Coverage:
    """Whether everything that `narrower` permits is permitted by `wider`; patterns are read by the rules of `edition`.

    Raises:
        ConfigError: when one of them is no capability.

    Spec: §3.6.8, §4.1.
    """
    return possesses((_compiled(wider, edition),), _compiled(narrower, edition))


def possesses(held: Iterable[Capability], wanted: Capability, *, meter: Meter | None = None) -> Coverage:
    """Whether a participant that holds `held` may send everything that `wanted` permits.

    A proof has a budget of its own, beyond which the answer is unknown; with `meter` it is also charged there.

    The lists in the kind and the payload of `wanted` are expanded into single capabilities, each of which a held one
    must cover. A `to` stays whole: a list there permits to address some of both at once.

    Raises:
        OverBudget: when `meter` ends before the answer is found.

    Spec: §3.6.8.
    """
    held = tuple(held)
    own = _allowed(meter)
    proof = _Proof(own)
    try:
        if proof.possessed(held, wanted):
            return _YES
        reason = proof.gap or "no capability is held"
    except TOO_COSTLY:
        reason = "it costs too much to find out whether it is covered"
    finally:
        _pay(meter, own)
    own = _allowed(meter)
    try:
        message = witness(wanted, held, meter=own)
    finally:
        _pay(meter, own)
    return Coverage("unknown" if message is None else "no", reason, message)


def covered(held: Iterable[Capability], wanted: Capability, *, meter: Meter | None = None) -> bool:
    """Whether `possesses` would answer yes, without a search for a message that refutes it.

    Raises:
        OverBudget: when `meter` ends before the answer is found.
    """
    own = _allowed(meter)
    try:
        return _Proof(own).possessed(tuple(held), wanted)
    except TOO_COSTLY:
        return False
    finally:
        _pay(meter, own)


def disjoint(
    a: Capability | Mapping[str, Any], b: Capability | Mapping[str, Any], *, meter: Meter | None = None
) -> bool:
    """Whether it is proved that no message is permitted by both; with `meter` the cost is also charged there.

    Patterns are read by the rules before NARROW, so that a revoke takes no less than before (R33).

    Raises:
        ConfigError: when one of them is no capability.
        OverBudget: when `meter` ends before the answer is found.
    """
    left, right = _compiled(a, 0), _compiled(b, 0)
    own = _allowed(meter)
    try:
        if _apart(left.kind, right.kind, own) or (
            left.to is not None and right.to is not None and _apart(left.to, right.to, own)
        ):
            return True
        left, right = _loose(left, own), _loose(right, own)
        return (
            _apart(left.payload or ANY_OBJECT, right.payload or ANY_OBJECT, own)
            or _permits_nothing(left, own)
            or _permits_nothing(right, own)
        )
    except TOO_COSTLY:
        return False
    finally:
        _pay(meter, own)


def _allowed(meter: Meter | None) -> Meter:
    """A meter for one proof: STEPS, or what is left of `meter`."""
    if meter is None:
        return Meter(STEPS)
    if meter.left < UNIT:
        raise OverBudget
    return Meter(min(STEPS, meter.left // UNIT))


def _pay(meter: Meter | None, own: Meter) -> None:
    """Takes the cost of a proof from `meter`.

    Raises:
        OverBudget: when `meter` ended the proof: its allowance was all that was left, and it costs one unit more.
    """
    if meter is not None:
        allowance = min(STEPS, meter.left // UNIT)
        meter.spend(UNIT * (1 + allowance - max(own.left, 0)))


class _Proof:
    """One attempt to prove, with one budget. `gap` lists where it failed, the deepest place first."""

    __slots__ = ("_depth", "gap", "meter")

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.gap = ""
        self._depth = -1

    def possessed(self, held: Sequence[Capability], wanted: Capability) -> bool:
        if any(self._covered(capability, wanted) for capability in held) or _permits_nothing(
            wanted, self.meter
        ):
            return True
        parts = _parts(wanted, self.meter)
        return parts is not None and all(self.possessed(held, part) for part in parts)

    def _covered(self, wider: Capability, narrower: Capability) -> bool:
        if not self._node(wider.kind, narrower.kind, ("kind",)):
            return False
        payload = narrower.payload or ANY_OBJECT
        if wider.payload is not None and not self._node(wider.payload, payload, ("payload",)):
            return False
        return wider.to is None or self._node(wider.to, narrower.to, ("to",))

    def _node(self, wider: Node, narrower: Node | None, path: tuple[str, ...]) -> bool:
        self.meter.spend()
        if isinstance(narrower, AnyOf):
            if isinstance(wider, AnyOf):
                if _same(wider, narrower, self.meter):
                    return True
                if narrower.literals <= wider.literals:
                    return all(self._node(wider, alternative, path) for alternative in narrower.others)
            return all(self._node(wider, alternative, path) for alternative in narrower.alternatives)
        if isinstance(narrower, ObjectPattern):
            proved = self._object(wider, narrower, path) or _nothing(narrower, self.meter)
        elif isinstance(narrower, (Literal, Constant)):
            proved = holds(wider, narrower.source, self.meter)
        else:
            proved = self._words(wider, narrower)
        return proved or self._fails(path, wider, narrower)

    def _words(self, wider: Node, narrower: Node | None) -> bool:
        """Whether every string of `narrower`, which is no literal, is one of `wider`."""
        words = [word for word in _alternatives(wider, self.meter) if isinstance(word, StringNode)]
        if narrower in words:
            return True
        plain = [word for word in words if isinstance(word, (Literal, Glob, AnyString))]
        if isinstance(narrower, (Glob, AnyString)):
            negated = [word for word in words if isinstance(word, Negation)]
            return find([narrower], [*plain, *negated], meter=self.meter) is None
        if isinstance(narrower, Negation) and _nothing(narrower, self.meter):
            return True
        # By the ruling, not by what could be found out: "!ab" is more than "!a*" and is not said to cover it.
        return isinstance(narrower, StringNode) and find([ANY_STRING], plain, meter=self.meter) is None

    def _object(self, wider: Node, narrower: ObjectPattern, path: tuple[str, ...]) -> bool:
        if isinstance(wider, AnyOf):
            return any(self._object(alternative, narrower, path) for alternative in wider.alternatives)
        if not isinstance(wider, ObjectPattern):
            return False
        self.meter.spend(1 + len(narrower.members) // 2)
        fields = narrower.fields
        for member in wider.members:
            if isinstance(member, Field):
                if not self._node(member.pattern, fields.get(member.name), (*path, member.name)):
                    return False
            elif not any(_same_member(member, other, self.meter) for other in narrower.members):
                return self._fails((*path, member.selector.text), member.pattern, None)
        return wider.free is None or self._closed(wider, narrower, path)

    def _closed(self, wider: ObjectPattern, narrower: ObjectPattern, path: tuple[str, ...]) -> bool:
        """Whether a closed pattern, whose members cover those of another one, names all that the other may hold."""
        free, fields, globs = wider.free or {}, wider.fields, _key_globs(wider)
        if narrower.free is None:
            return self._surplus(path, "may have any other members")
        self.meter.spend(len(narrower.members))
        for name, pattern in narrower.fields.items():
            if name in fields:
                continue
            if name in free:
                if (wanted := free[name]) is not None and not self._node(wanted, pattern, (*path, name)):
                    return False
                continue
            naming = [member for glob, member in globs if holds(glob, name, self.meter)]
            # An object there may have no member that one of these keys leaves unnamed.
            if not naming or (
                _may_be_object(pattern)
                and not all(self._node(member.pattern, pattern, (*path, name)) for member in naming)
            ):
                return self._surplus((*path, name), "is another member")
        for member in narrower.members:
            if isinstance(member, Selection) and not any(
                _same_member(member, other, self.meter) for _, other in globs
            ):
                return self._surplus((*path, member.selector.text), "may be another member")
        return True

    def _surplus(self, path: tuple[str, ...], what: str) -> bool:
        depth = len(path) + 1
        if depth > self._depth:
            self._depth = depth
            self.gap = (
                f"{quote('.'.join(path))[1:-1]} {what}, and a closed capability allows only what it names"
            )
        return False

    def _fails(self, path: tuple[str, ...], wider: Node, narrower: Node | None) -> bool:
        depth = len(path) + (path[0] != "kind")
        if depth > self._depth:
            self._depth = depth
            self.gap = f"{quote('.'.join(path))[1:-1]}: {spell(wider)} does not cover {_wanted(narrower)}"
        return False


def _apart(left: Node, right: Node, meter: Meter) -> bool:
    """Whether it is proved that no value matches both."""
    meter.spend()
    for some, against in ((left, right), (right, left)):
        if isinstance(some, AnyOf):
            return all(_apart(part, against, meter) for part in some.alternatives)
    for some, against in ((left, right), (right, left)):
        if isinstance(some, (Literal, Constant)):
            return not holds(against, some.source, meter)
    if isinstance(left, ObjectPattern) and isinstance(right, ObjectPattern):
        meter.spend((len(left.members) + len(right.members)) // 4)
        fields = {some.name: some.pattern for some in right.members if isinstance(some, Field)}
        both = [some for some in left.members if isinstance(some, Field) and some.name in fields]
        return any(_apart(some.pattern, fields[some.name], meter) for some in both)
    if isinstance(left, ObjectPattern) or isinstance(right, ObjectPattern):
        return True
    words = [some for some in (left, right) if isinstance(some, (Glob, AnyString, Negation))]
    return len(words) == 2 and find(words, meter=meter) is None


def _loose(capability: Capability, meter: Meter) -> Capability:
    """The capability by the rules before NARROW. It is charged each time, as if it were made each time."""
    if capability.is_loose:
        return capability
    meter.spend(capability.size // _LOOSENED_PER_STEP)
    return capability.loose


def _permits_nothing(capability: Capability, meter: Meter) -> bool:
    parts = (capability.kind, capability.payload, capability.to)
    return any(_nothing(part, meter) for part in parts if part is not None)


def _nothing(pattern: Node, meter: Meter) -> bool:
    """Whether it is proved that no value matches: an empty list, or a string that is not any string."""
    meter.spend(2)
    if isinstance(pattern, AnyOf):
        return all(_nothing(alternative, meter) for alternative in pattern.alternatives)
    if isinstance(pattern, ObjectPattern):
        return any(_nothing(member.pattern, meter) for member in pattern.members)
    return isinstance(pattern, Negation) and find([pattern], meter=meter) is None


def _parts(capability: Capability, meter: Meter) -> list[Capability] | None:
    """The capability for each alternative of its first list; None where it has none."""
    if isinstance(capability.kind, AnyOf):
        return [replace(capability, kind=alternative) for alternative in capability.kind.alternatives]
    payloads = None if capability.payload is None else _alternatives_within(capability.payload, meter)
    return None if payloads is None else [replace(capability, payload=payload) for payload in payloads]


def _alternatives_within(pattern: Node, meter: Meter) -> Sequence[Node] | None:
    """The pattern for each alternative of its first list, at any depth."""
    meter.spend()
    if isinstance(pattern, AnyOf):
        return pattern.alternatives
    members, free = (pattern.members, pattern.free) if isinstance(pattern, ObjectPattern) else ((), None)
    for at, member in enumerate(members):
        if isinstance(member, Selection) and member.beside is not None:
            continue  # one alternative may match, and another name the members of what else is selected
        inner = _alternatives_within(member.pattern, meter)
        if inner is not None:
            meter.spend(len(inner) * len(members))
            before, behind = members[:at], members[at + 1 :]
            return [
                ObjectPattern.of([*before, replace(member, pattern=alternative), *behind], free=free)
                for alternative in inner
            ]
    return None


def _alternatives(pattern: Node, meter: Meter) -> Sequence[Node]:
    if not isinstance(pattern, AnyOf):
        return (pattern,)
    meter.spend(len(pattern.alternatives))
    return pattern.alternatives


def _same_member(left: Field | Selection, right: Field | Selection, meter: Meter) -> bool:
    return _key(left) == _key(right) and _same(left.pattern, right.pattern, meter)


def _same(left: Node, right: Node, meter: Meter) -> bool:
    """Whether two patterns are equal JSON; the order of an object's members does not matter."""
    meter.spend()
    if isinstance(left, AnyOf) and isinstance(right, AnyOf):
        pairs = zip(left.alternatives, right.alternatives, strict=False)
        return len(left.alternatives) == len(right.alternatives) and all(
            _same(*pair, meter) for pair in pairs
        )
    if isinstance(left, ObjectPattern) and isinstance(right, ObjectPattern):
        members = zip(sorted(left.members, key=_key), sorted(right.members, key=_key), strict=False)
        return (
            len(left.members) == len(right.members)
            and left.free == right.free
            and all(_same_member(*pair, meter) for pair in members)
        )
    if isinstance(left, Constant) and isinstance(right, Constant):
        return left.holds(right.value, meter)
    return left == right


def _key_globs(pattern: ObjectPattern) -> list[tuple[Glob | AnyString, Selection]]:
    return [
        (member.selector.glob, member)
        for member in pattern.members
        if isinstance(member, Selection) and isinstance(member.selector, KeyGlob)
    ]


def _may_be_object(pattern: Node) -> bool:
    if isinstance(pattern, AnyOf):
        return any(map(_may_be_object, pattern.others))
    return isinstance(pattern, ObjectPattern)


def _key(member: Field | Selection) -> str:
    return member.name if isinstance(member, Field) else member.selector.text


def _wanted(narrower: Node | None) -> str:
    if narrower is None:
        return "what may be anything, or nothing"
    if isinstance(narrower, (Regex, Negation)):
        return f"{spell(narrower)}; an expression or a negation is covered by the equal pattern, or by '*'"
    return spell(narrower)


def _compiled(capability: Capability | Mapping[str, Any], edition: int) -> Capability:
    return capability if isinstance(capability, Capability) else Capability.of(capability, edition=edition)
