"""Finds the place in which a payload did not match a pattern. It is used only after a refusal and decides nothing.

The sentence quotes the pattern and the first wrong value. Both are shortened and invisible characters are escaped,
because the sentence is written into errors, journals and views.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from mew_lab.protocol.node import TOO_COSTLY, Meter, Node
from mew_lab.protocol.pattern import AnyOf, Field, ObjectPattern, Selection, loosened

__all__ = ["QUOTED", "Miss", "miss", "quote", "spell"]

QUOTED = 80
"""Characters of a peer's text that a sentence may repeat."""


class Miss(NamedTuple):
    """The first member that did not match, as a sentence, and the number of members that did."""

    matched: int
    sentence: str


def miss(pattern: Node, value: object, *, path: str, meter: Meter) -> Miss:
    """The reason why `value` at `path` does not match `pattern`; charged to `meter`."""
    try:
        return _miss(pattern, value, path, meter)
    except TOO_COSTLY:
        return Miss(0, f"cannot tell whether {path} matches: it costs too much to find out")


def quote(value: object) -> str:
    """`value` for a sentence: JSON, at most QUOTED characters of it, invisible characters as \\u escapes."""
    if isinstance(value, str):
        cut = value if len(value) <= QUOTED else value[:QUOTED] + "…"
        return f'"{"".join(_visible(character) for character in cut)}"'
    if isinstance(value, dict):
        return "an object" if value else "{}"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, int) and value.bit_length() > 256:
        return "a very large number"
    return json.dumps(value)


def spell(pattern: Node) -> str:
    """A pattern for a sentence: a list with its first three, an object without its members."""
    if isinstance(pattern, ObjectPattern):
        return "an object" if pattern.members else "{}"
    if isinstance(pattern, AnyOf):
        first = ",".join(spell(alternative) for alternative in pattern.alternatives[:3])
        return f"[{first}{',…' if len(pattern.alternatives) > 3 else ''}]"
    return quote(pattern.source)


def _miss(pattern: Node, value: object, path: str, meter: Meter) -> Miss:
    if not isinstance(pattern, ObjectPattern):
        wants = f"wants {path} {_wanted(pattern)}, got {quote(value)}"
        if isinstance(value, str) and loosened(pattern).holds(value, meter):
            wants += (
                "; no wildcard matches a part '.' or '..', an empty part, a control character or a backslash"
            )
        return Miss(0, wants)
    if not isinstance(value, dict):
        return Miss(0, f"wants {path} to be an object, got {quote(value)}")
    matched = 0
    first: Miss | None = None
    for member in pattern.members:
        if member.holds(value, meter):
            matched += 1
        elif first is None:
            first = _member_miss(member, value, path, meter)
    if first:
        return Miss(matched + first.matched, first.sentence)
    more = None if pattern.free is None else pattern.surplus(value, meter)
    if more is None:
        return Miss(matched, f"wants {path} as it is")
    return Miss(matched, f"wants nothing else in {path}, got {quote(more)}")


def _member_miss(member: Field | Selection, value: dict[str, Any], path: str, meter: Meter) -> Miss:
    if isinstance(member, Selection):
        return Miss(
            0, f"wants {_wanted(member.pattern)} at {_name(member.selector.text)} in {path}, found none"
        )
    below = f"{path}.{_name(member.name)}"
    if member.name not in value:
        return Miss(0, f"wants {below} {_wanted(member.pattern)}, got nothing")
    return _miss(member.pattern, value[member.name], below, meter)


def _wanted(pattern: Node) -> str:
    if isinstance(pattern, ObjectPattern):
        return "an object"
    if isinstance(pattern, AnyOf):
        shown = [_wanted(alternative) for alternative in pattern.alternatives[:3]]
        return "one of " + (", ".join(shown + ["…"] * (len(pattern.alternatives) > 3)) or "nothing")
    return quote(pattern.source)


def _name(text: str) -> str:
    return quote(text)[1:-1]


def _visible(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    return json.dumps(character)[1:-1]
