"""Which of these tools does a step ask for?  By the words of their names, descriptions and parameters; pure.

A word counts the more, the fewer tools it speaks of. Names may be opaque: then the descriptions decide, and the
order of the tools never does. A tool that changes something is chosen only for a step whose verb says so.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mew_lab.agent.model import ToolSpec
from mew_lab.agent.offline.filling import Filled, fill
from mew_lab.agent.offline.finding import ANAPHOR, Found
from mew_lab.agent.offline.supplying import Sources
from mew_lab.agent.offline.vocabulary import (
    CHANGING,
    GENERIC,
    ORDERING,
    QUESTIONS,
    VERBS,
    arithmetic,
    meanings,
    stem,
    stemmed,
)
from mew_lab.agent.offline.wording import asks, stems, verb_of, words

__all__ = ["FITS", "Catalogue", "Choice"]

FITS = 0.4  # the share of a step's words that a tool must meet
MAX_TOOLS = 500
_NAME, _SAID, _LATER, _WITH, _WHOSE = 1.5, 1.0, 0.6, 0.35, 0.5
_CLOSE = 0.7  # what a word of the same meaning counts beside the word itself
_TRIED = 16  # candidates whose arguments are filled
_PLACED = re.compile(
    r"\b(?:in|for|at|near|from|to|against|between|called|named)\s+(?=([a-z]+(?:\s+[a-z]+)?))"
)
_SHOWN = stemmed("path file url")  # kinds of value that speak, a little, for tools that name them
# What a text is to be about says nothing of the tool.
_TOPIC = re.compile(r":\s|\b(?:about|saying|that says|titled|called|named)\s", re.IGNORECASE)
_VALUES = ("quoted", "url", "email", "path", "glob", "hash", "zone", "datetime", "date", "time")


class Choice(NamedTuple):
    """A tool for a step, its arguments, how well it fits among the others, and the share of the words met."""

    tool: ToolSpec
    filled: Filled
    score: float
    share: float
    met: tuple[str, ...]
    changes: bool


class _Bag(NamedTuple):
    tool: ToolSpec
    weights: Mapping[str, float]
    senses: Mapping[int, float]
    verb: frozenset[str]
    changes: bool


class Catalogue:
    """The tools on offer, cut to stems once."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self.tools = tuple(tools[:MAX_TOOLS])
        self._bags = [_bag(tool) for tool in self.tools]
        self._stems = Counter(one for bag in self._bags for one in bag.weights)
        self._senses = Counter(sense for bag in self._bags for sense in bag.senses)
        self.verbs = frozenset(one for bag in self._bags for one in bag.verb)

    def choose(self, sources: Sources, *, words_of: str | None = None) -> list[Choice]:
        """The tools that fit a step, the best first; none, where nothing does.

        Args:
            words_of: the text whose words choose, where the step itself only names other values.
        """
        text = sources.step.text if words_of is None else words_of
        if sources.back:
            text = ANAPHOR.sub(lambda found: " " * len(found[0]), text)  # places stay
        terms = _terms(text, sources.step.values if words_of is None else ())
        rated = [(bag, *self._rated(bag, text, terms)) for bag in self._bags]
        rated = [one for one in rated if one[2] >= FITS]
        rated.sort(key=lambda one: (-one[1], one[0].tool.description[:200], one[0].tool.name))
        choices = []
        for bag, score, share, met in rated[:_TRIED]:
            filled = fill(bag.tool.parameters, sources)
            score *= 0.55 ** len(filled.missing)
            if filled.missing and not filled.from_step and sources.step.values:
                score *= 0.3
            score += 0.8 * min(filled.from_step, 3)
            if sources.back:
                score *= 1.6 if filled.from_seen else 1.0
            if _counts(bag.tool.parameters) and filled.left:
                continue
            given = filled.from_step + filled.from_seen
            if not met and (filled.missing or not given or not asks(sources.step.text)):
                continue
            choices.append(Choice(bag.tool, filled, score, share, met, bag.changes))
        choices.sort(key=lambda one: (-round(one.score, 6), one.tool.description[:200], one.tool.name))
        return choices

    def _weight(self, one: str) -> float:
        return math.log(1 + (len(self._bags) + 1) / (self._stems[one] + 0.5))

    def _rated(self, bag: _Bag, text: str, terms: Mapping[str, bool]) -> tuple[float, float, tuple[str, ...]]:
        """How much of the words a tool meets: in all, as a share, and which."""
        if _names(text, bag.tool):
            return 20.0, 1.0, (bag.tool.name,)
        score = reached = total = 0.0
        met: list[str] = []
        for one, value in terms.items():
            slight = one in GENERIC or (value and one in _SHOWN)
            weight = self._weight(one) * (0.25 if slight else 0.5 if one in ORDERING else 1.0)
            own = bag.weights.get(one, 0.0)
            senses = [sense for sense in meanings(one) if sense in bag.senses]
            close = max((bag.senses[sense] * _CLOSE for sense in senses), default=0.0)
            if close > own:
                rarity = min(self._senses[sense] for sense in senses)
                weight *= min(1.0, math.log(1 + (len(self._bags) + 1) / (rarity + 0.5)) / self._weight(one))
            fit = max(own, close)
            score += weight * fit
            part = weight * min(1.0, fit / (0.9 if own >= close else _CLOSE))
            reached += part
            known = self._stems[one] or any(self._senses[sense] for sense in meanings(one))
            total += part if value or slight else weight if known else weight * 0.6
            if fit >= _WHOSE and not slight:
                met.append(one)
        if not reached:
            return 0.0, 0.0, ()
        bias = _bias(text, bag)
        return score * bias, reached / total * (1.0 if bias >= 0.5 else FITS / 2), tuple(met)


def _terms(text: str, values: Sequence[Found]) -> dict[str, bool]:
    """The stems of a step, and of each whether it may be but a value; what surely is one is left out."""
    rest = text
    topic = _TOPIC.search(text)
    if topic and not asks(text[topic.end() :]) and stems(text[: topic.start()]):
        rest = text[: topic.start()]
    kinds = [
        stem("file") if re.search(r"\.\w+$", one.text) else one.kind for one in values if one.kind == "path"
    ]
    kinds += [one.kind for one in values if one.kind == "url"]
    for one in values:
        if one.kind in _VALUES and one.end <= len(rest):
            rest = rest[: one.start] + " " * (one.end - one.start) + rest[one.end :]
    named = {stem(word) for one in values if one.kind == "name" for word in words(one.text)}
    for place in _PLACED.finditer(rest):
        named |= {stem(word) for word in words(place[1])}
    return dict.fromkeys(kinds, True) | {one: one in named for one in stems(rest)}


def _names(text: str, tool: ToolSpec) -> bool:
    """Whether the text calls a tool by its whole name, which is no everyday word."""
    own = tool.name.partition("/")[2]
    return (len(tool.name) > 2 and tool.name in text) or (
        len(own) > 3 and ("_" in own or "-" in own or own != own.lower()) and own in text
    )


def _bias(text: str, bag: _Bag) -> float:
    """What the verb of a step is worth to a tool: one that changes something needs a verb that says so."""
    first = verb_of(text)
    verb = stem(first)
    if first in QUESTIONS or verb not in CHANGING or first == f"{verb}s":  # "commits of …" asks for them
        return 0.2 if bag.changes else 1.3 if verb in bag.verb else 1.0
    fits = verb in bag.verb or any(meanings(verb) & meanings(one) for one in bag.verb)
    if not bag.changes:
        return 1.0 if fits else 0.5
    return 1.2 if fits or bag.weights.get(verb, 0.0) >= _NAME else 0.15


def _bag(tool: ToolSpec) -> _Bag:
    participant, _, own = tool.name[:200].partition("/")
    if not own:
        participant, own = "", participant
    about = _own_words(tool)
    said = stems(about[:800])
    weights: dict[str, float] = {}
    senses: dict[int, float] = {}

    def heard(ones: Sequence[str], weight: float) -> None:
        for one in ones:
            weights[one] = max(weights.get(one, 0.0), weight)
            for sense in meanings(one):
                senses[sense] = max(senses.get(sense, 0.0), weight)

    heard(stems(own), _NAME)
    heard(stems(participant), _WHOSE)
    heard(said[:14], _SAID)
    heard(said[14:], _LATER)
    heard(stems(_parameters(tool.parameters)), _WITH)
    first = words(about[:80])[:1]
    verbs = [
        stem(word)
        for word in first
        if stem(word) in VERBS or (word.endswith("s") and not word.endswith("ss"))
    ]
    verbs = verbs or [stem(word) for word in words(own)[:1]]
    changes = any(one in CHANGING and not (arithmetic(one) and _counts(tool.parameters)) for one in verbs)
    return _Bag(tool, weights, senses, frozenset(verbs), changes)


def _own_words(tool: ToolSpec) -> str:
    """The description without the words that only say whose tool it is, which its name says too."""
    whose = f"tool of {tool.participant}"
    return tool.description.removesuffix(f"({whose})").removesuffix(f"A {whose}")


def _counts(schema: object) -> bool:
    """Whether a tool takes numbers only, at least two."""
    given: Any = schema.get("properties") if isinstance(schema, Mapping) else None
    shapes = list(given.values())[:24] if isinstance(given, Mapping) else []
    kinds = [shape.get("type") if isinstance(shape, Mapping) else None for shape in shapes]
    return kinds == ["array"] or (len(kinds) > 1 and all(kind in ("number", "integer") for kind in kinds))


def _parameters(schema: object) -> str:
    """The names, descriptions and options of a tool's parameters as one text."""
    given: Any = schema.get("properties") if isinstance(schema, Mapping) else None
    parts: list[str] = []
    for key, shape in list(given.items())[:24] if isinstance(given, Mapping) else ():
        parts.append(str(key)[:60])
        if isinstance(shape, Mapping):
            parts += [
                str(shape[part])[:160]
                for part in ("title", "description")
                if isinstance(shape.get(part), str)
            ]
            options = shape.get("enum")
            parts += [str(one)[:30] for one in options[:12]] if isinstance(options, list) else []
    return " ".join(parts)[:1500]
