"""Derives from a filter the texts that the line of each message that passes must hold: other lines are not read.

`Needle` states in which other spellings a line may hold a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain

from mew_lab.log.filter.patterns import literals_of
from mew_lab.log.filter.tree import (
    Comparison,
    Conjunction,
    Disjunction,
    FilterTree,
    Presence,
    Reference,
    Value,
)
from mew_lab.log.line_search import Needle

__all__ = ["needles_of"]

MOST = 20  # texts of one needle; more are not looked for
_QUOTE = '"'
_PLAIN = re.compile(r'(?:^")?[ !#-\[\]-~]+')  # of ASCII, without quotation marks, backslashes and controls
_ARRAY_INDEX = re.compile(r"[0-9]+")
_ELSEWHERE = ("event", "verdict", "pattern", "what", "detail", "text")
"""Fields whose values are made from the line, or are JSON in JSON."""


def needles_of(tree: FilterTree) -> list[Needle]:
    """What the lines of the messages that pass must hold: one text of each needle; the most telling needle first."""
    return sorted(_needles(tree), key=lambda needle: (len(needle.texts), -min(map(len, needle.texts))))


def _needles(tree: FilterTree) -> list[Needle]:
    if isinstance(tree, Conjunction):
        return list(dict.fromkeys(chain.from_iterable(map(_needles, tree.parts))))
    if isinstance(tree, Disjunction):
        parts = [needles_of(part) for part in tree.parts]
        return _needle(chain.from_iterable(part[0].texts for part in parts)) if parts and all(parts) else []
    if isinstance(tree, Comparison):
        return _of_comparison(tree)
    return _of_path(tree.reference) if isinstance(tree, Presence) else []


def _of_comparison(comparison: Comparison) -> list[Needle]:
    reference, op, value = comparison.reference, comparison.op, comparison.value
    field = reference.field
    if field.needs_facts or field.type not in ("text", "list", "json") or field.name in _ELSEWHERE:
        return []
    texts: list[bytes] = []
    if op == "==":
        texts = [_longest_run(value)]
    elif op == "in" and isinstance(value, tuple):
        texts = [_longest_run(each) for each in value]
    elif op == "matches":
        texts = [_longest_run("\n".join(literals_of(str(value))), within=True)]
    return [*_of_path(reference), *(_needle(texts) if texts and all(texts) else [])]


def _of_path(reference: Reference) -> list[Needle]:
    """The names of the members that lead to a value of the payload."""
    steps = [_longest_run(step) for step in reference.path if not _ARRAY_INDEX.fullmatch(step)]
    return [needle for step in steps if len(step) > 2 for needle in _needle([step])]


def _longest_run(value: Value, *, within: bool = False) -> bytes:
    """The longest part of a text that a line holds as it is; with the quotation mark before it where the text begins."""
    text = f"{'' if within else _QUOTE}{value}" if isinstance(value, str) else ""
    return max(_PLAIN.findall(text), key=len, default="").encode()


def _needle(texts: Iterable[bytes]) -> list[Needle]:
    several = frozenset(texts)
    return [Needle(several)] if len(several) <= MOST else []
