"""Searches a message that one capability permits and others do not. `permits` confirms it before it is returned.

The message is made from the pattern, with a shortest string for every string in it. If another capability permits it,
the search changes its places one after the other to avoid that. A closed capability that permits it is avoided by one
member more, where the pattern allows it. A message that is returned is certain; without one nothing is proved.

Spec: §4.1, §4.2, ruling R34.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from mew_lab.protocol.inclusion import Word, find, holds
from mew_lab.protocol.node import TOO_COSTLY, Meter, Node
from mew_lab.protocol.pattern import AnyOf, Anywhere, Field, KeyGlob, ObjectPattern
from mew_lab.protocol.permit import Capability
from mew_lab.protocol.strings import ANY_STRING, AnyString, Glob, Literal, Negation, Regex

__all__ = ["ANY_OBJECT", "STEPS", "witness"]

STEPS: Final = 3_000
"""What a search may cost, one or two microseconds each."""
ANY_OBJECT: Final = ObjectPattern.of([])
_SECOND_TRIES: Final = 4
_NOTHING: Final = object()
_DEEPEST_GROUP: Final = 8
_GROUP: Final = re.compile(r"\((?:\?[^:)]*:?)?((?:\\.|[^()|\\])*)(?:\|(?:\\.|[^()\\])*)?\)", re.DOTALL)
_TOKEN: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])+\]|\{[0-9]+(?:,[0-9]*)?\}|.", re.DOTALL)

_Values = dict[str, Any]
_Avoided = Mapping[str, tuple[Node, ...]]


def witness(
    permitting: Capability, others: Sequence[Capability], *, meter: Meter | None = None
) -> dict[str, Any] | None:
    """A message `{kind, to, payload}` that `permitting` permits and none of `others` does, None if none was
    found. The search is paid from `meter`, or from a budget of STEPS."""
    closed = () if permitting.closed else [other for other in others if other.closed]
    rest = [other for other in others if not other.closed] if closed else others
    try:
        message = _WitnessSearch(meter or Meter(STEPS)).message(permitting, rest)
    except TOO_COSTLY:
        return None
    if closed and message is not None and any(other.permits(**message) for other in closed):
        message = next(
            (
                more
                for more in _with_one_more(message)
                if permitting.permits(**more) and not any(other.permits(**more) for other in closed)
            ),
            None,
        )
    if (
        message is None
        or any(other.permits(**message) for other in others)
        or not permitting.permits(**message)
    ):
        return None
    return message


def _with_one_more(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The message with one argument more, else with one more member of `params` or of its payload."""
    payload = message["payload"]
    params = payload.get("params")
    if isinstance(params, dict):
        arguments = params.get("arguments", {})
        if isinstance(arguments, dict):
            yield {**message, "payload": {**payload, "params": {**params, "arguments": _more(arguments)}}}
        yield {**message, "payload": {**payload, "params": _more(params)}}
    yield {**message, "payload": _more(payload)}


def _more(members: dict[str, Any]) -> dict[str, Any]:
    number = 1
    while f"more{number}" in members:
        number += 1
    return {**members, f"more{number}": True}


class _WitnessSearch:
    """One search, with one budget."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter

    def message(self, permitting: Capability, others: Sequence[Capability]) -> dict[str, Any] | None:
        """Kind, addressees and payload, each avoided where it is asked for."""
        payload = permitting.payload or ANY_OBJECT

        def pick(place: str, avoid: tuple[Node, ...]) -> Any:
            if place == "to":
                return self._addressees(permitting.to, avoid)
            return self._value(permitting.kind if place == "kind" else payload, avoid)

        def hit(values: _Values) -> dict[str, Node] | None:
            for other in others:
                if self._permits(other, values):
                    places = {"kind": other.kind, "payload": other.payload, "to": other.to}
                    return {place: pattern for place, pattern in places.items() if pattern is not None}
            return None

        return self._dodge(("kind", "to", "payload"), pick, hit)

    def _permits(self, capability: Capability, values: _Values) -> bool:
        if not holds(capability.kind, values["kind"], self.meter):
            return False
        if capability.to is not None and not (
            values["to"] and all(holds(capability.to, name, self.meter) for name in values["to"])
        ):
            return False
        return capability.payload is None or holds(capability.payload, values["payload"], self.meter)

    def _addressees(self, pattern: Node | None, avoid: tuple[Node, ...]) -> Any:
        """No addressee where none is required; else one that no `avoid` matches, as `to` must match all of them."""
        if pattern is None:
            return []
        names = [self._value(pattern, (node,)) for node in avoid] or [self._value(pattern, ())]
        return _NOTHING if _NOTHING in names else names

    def _dodge(
        self,
        places: Sequence[str],
        pick: Callable[[str, tuple[Node, ...]], Any],
        hit: Callable[[_Values], Mapping[str, Node] | None],
    ) -> _Values | None:
        """Values for all `places` that no capability to avoid permits; None where the search finds none.

        `pick` makes the value of a place that avoids some patterns; `hit` returns where the first permitting
        capability could be avoided.
        """
        values = {place: pick(place, ()) for place in places}
        if any(value is _NOTHING for value in values.values()):
            return None
        return self._dodged(values, {}, pick, hit)

    def _dodged(
        self,
        values: _Values,
        avoided: _Avoided,
        pick: Callable[[str, tuple[Node, ...]], Any],
        hit: Callable[[_Values], Mapping[str, Node] | None],
    ) -> _Values | None:
        self.meter.spend(1 + len(values) // 16)
        where = hit(values)
        if where is None:
            return values
        for place, pattern in where.items():
            more = (*avoided.get(place, ()), pattern)
            value = pick(place, more)
            if value is not _NOTHING:
                dodged = self._dodged({**values, place: value}, {**avoided, place: more}, pick, hit)
                if dodged is not None:
                    return dodged
        return None

    def _value(self, pattern: Node, avoid: tuple[Node, ...]) -> Any:
        """A value that matches `pattern` and none of `avoid`."""
        self.meter.spend(3)
        if isinstance(pattern, AnyOf):
            made = (self._value(alternative, avoid) for alternative in pattern.alternatives)
            return next((candidate for candidate in made if candidate is not _NOTHING), _NOTHING)
        if isinstance(pattern, ObjectPattern):
            return self._object(pattern, avoid)
        for value in self._scalars(pattern, avoid):
            if not any(holds(node, value, self.meter) for node in avoid):
                return value
        return _NOTHING

    def _scalars(self, pattern: Node, avoid: tuple[Node, ...]) -> Iterator[object]:
        """Some values that match; for a glob those that no glob to be avoided matches."""
        if isinstance(pattern, Regex):
            yield from (guess for guess in _guesses(pattern.expression) if holds(pattern, guess, self.meter))
        elif not isinstance(pattern, (Glob, AnyString, Negation)):  # a literal or a constant
            yield pattern.source
        else:
            singles = [
                single
                for some in avoid
                for single in (some.alternatives if isinstance(some, AnyOf) else (some,))
            ]
            self.meter.spend(len(singles))
            words: list[Word] = [
                single for single in singles if isinstance(single, (Literal, Glob, AnyString, Negation))
            ]
            for _ in range(_SECOND_TRIES):
                text = find([pattern], words, meter=self.meter)
                if text is None:
                    return
                yield text
                # The next one differs in more than a character.
                words += (Literal(text), Glob.of("?" * len(text) or "?"))

    def _object(self, pattern: ObjectPattern, avoid: tuple[Node, ...]) -> Any:
        self.meter.spend(3 + len(pattern.members) // 2)
        fields = {field.name: field.pattern for field in pattern.members if isinstance(field, Field)}
        selected = self._selected(pattern, fields)

        def pick(place: str, avoid: tuple[Node, ...]) -> Any:
            return self._value(fields[place], avoid)

        def hit(values: _Values) -> dict[str, Node] | None:
            for some in avoid:
                for node in some.alternatives if isinstance(some, AnyOf) else (some,):
                    if isinstance(node, ObjectPattern) and holds(node, {**values, **selected}, self.meter):
                        members = (part for part in node.members if isinstance(part, Field))
                        return {part.name: part.pattern for part in members if part.name in fields}
            return None

        values = self._dodge((*fields,), pick, hit)
        if values is None:
            return _NOTHING
        made = {**values, **selected}
        # A key that selects many may have selected what it must not, and a path nothing at all.
        certain = len(fields) == len(pattern.members)
        return made if certain or holds(pattern, made, self.meter) else _NOTHING

    def _selected(self, pattern: ObjectPattern, fields: Mapping[str, Node]) -> _Values:
        """A member for each key that selects by its name, or at any depth."""
        selected: _Values = {}
        for member in pattern.members:
            if not isinstance(member, Field) and isinstance(member.selector, (KeyGlob, Anywhere)):
                names = member.selector.glob if isinstance(member.selector, KeyGlob) else ANY_STRING
                taken = [Literal(name) for name in (*fields, *selected)]
                name = find([names], taken, meter=self.meter)
                value = self._value(member.pattern, ())
                if name is not None and value is not _NOTHING:
                    selected[name] = value
        return selected


def _guesses(expression: str) -> tuple[str, str]:
    """Strings that an expression may well match: its first branch with every part once, and its own text."""
    for _ in range(_DEEPEST_GROUP):
        expression, groups = _GROUP.subn(r"\1", expression)
        if not groups:
            break
    parts: list[str] = []
    for token in _TOKEN.findall(expression):
        if token == "|":
            break
        if len(token) == 1:
            parts.append("" if token in "^$*+?" else "a" if token == "." else token)
        elif token[0] == "{":
            parts[-1:] = [part * int(re.findall("[0-9]+", token)[0]) for part in parts[-1:]]
        elif token.startswith("[^"):
            parts.append(next((letter for letter in "xyz" if letter not in token), "/"))
        else:  # what is escaped, alone or as the first of a class
            character = token[1:3] if token[0] == "[" else token
            parts.append(
                {"\\d": "1", "\\w": "a", "\\s": " "}.get(character[:2], character[character[0] == "\\"])
            )
    return "".join(parts), expression
