"""Where does the value of a parameter come from?  `Supply`: the step, the rest of the request, earlier answers.

A value comes from the step itself, then from its neighbours, then from what tools answered; a step that points
back ("that", "it") asks those answers first. No place in a text gives two values. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mew_lab.agent.offline.finding import ANAPHOR, Picked, Text, ordinal
from mew_lab.agent.offline.fitting import allowed, as_number
from mew_lab.agent.offline.picking import labelled, left, numbers, pick
from mew_lab.agent.offline.recalling import recall
from mew_lab.agent.offline.vocabulary import meanings, stem, stemmed
from mew_lab.agent.offline.wants import Want, stems_of_name
from mew_lab.agent.offline.wording import words

__all__ = ["Sources", "Supply"]

_LEFT = ("quoted", "path", "url", "email", "id", "hash", "zone", "name", "datetime", "date", "time", "glob")
_COUNTS = stemmed("count limit max maximum top many results result number n")
_AND = re.compile(r"\s*(?:,|,?\s*(?:and|or)\b)[\s\w]{0,20}")
_NO = {"no", "not", "without", "don't", "exclude", "excluding", "never"}
# "The last commit" is one; "the last commits" and "last week" are not.
_NEWEST = re.compile(
    r"\b(?:last|latest|newest|most recent)\s+(?!week|month|year|night|day|time|few)[^\W\d_]*[^\W\d_s]\b",
    re.IGNORECASE,
)


class Sources(NamedTuple):
    """Where values may come from: the step, its neighbours, and what tools answered, the newest first."""

    step: Text
    others: tuple[Text, ...] = ()
    seen: tuple[Text, ...] = ()
    back: bool = False  # whether the step points back at what was seen


class Supply:
    """The sources of one call, what of them is taken, and how many values they gave."""

    def __init__(self, sources: Sources) -> None:
        self.from_step = self.from_seen = 0
        self._sources = sources
        self._used: dict[str, set[int]] = {}
        self._whole_taken = False

    def left(self) -> tuple[str, ...]:
        """The values of the step that nothing took though the same kind was taken: numbers, and all in a row."""
        step = self._sources.step
        taken = [one for one in step.values if one.start in self._taken(step)]
        kinds = {one.kind for one in taken}
        counted = any(one.number is not None for one in taken)
        left = []
        for before, one in zip((None, *step.values), step.values, strict=False):
            gap = step.text[before.end : one.start] if before else ""
            in_a_row = one.kind in kinds and _AND.fullmatch(gap)
            if one.start not in self._taken(step) and (in_a_row or (counted and one.number is not None)):
                left.append(one.text)
        return tuple(left)

    def option(self, options: Sequence[Any], *, level: int, must: bool, exact: bool = False) -> Any:
        """The option that the step names; all, where it restricts nothing; the only one; None for none."""
        if must and len(options) == 1:
            return options[0]
        worded = [one for one in options if isinstance(one, str)]
        for text in (self._sources.step, *(self._sources.others if must and level else ())):
            said = text.text.lower()
            heard = {stem(word) for word in words(text.text)}
            for option in sorted(worded, key=len, reverse=True):
                if re.search(rf"(?<!\w){re.escape(option.lower()[:80])}(?!\w)", said):
                    return self._took(text, Picked(option, frozenset()))
            for option in () if exact else worded:
                ones = {stem(word) for word in words(option[:80])}
                if ones & heard or any(_close(one, other) for one in ones for other in heard):
                    return self._took(text, Picked(option, frozenset()))
        if level == 2 and must:
            return next((one for one in worded if one.lower() in ("all", "any")), None)
        return None

    def switch(self, wanted: Want, *, sure: bool) -> bool | None:
        """Whether the step mentions it; not mentioned is no, unless one must be `sure`: then None."""
        text = self._sources.step.text
        for word in re.finditer(r"[^\W\d_]+", text):
            one = stem(word[0])
            if any(one == label or (len(label) > 4 and one[:5] == label[:5]) for label in wanted.labels):
                self.from_step += 1
                return not _NO & set(text[: word.start()].lower().split()[-2:])
        return None if sure else False

    def number(
        self, wanted: Want, schema: Mapping[str, Any], *, whole: bool, level: int, must: bool
    ) -> int | float | None:
        """A number by its name or unit, as a count, or the next one; None for none."""
        step = self._sources.step
        label = labelled(wanted, step.text)
        value = as_number(label.value, whole=whole) if label and self._free(step, label) else None
        if label and value is not None and allowed(value, schema):
            return self._numbered(step, Picked(value, label.places), whole)
        fits = [
            one
            for one in numbers(wanted, step)
            if self._free(step, one)
            and as_number(one.value, whole=whole) is not None
            and allowed(one.value, schema)
        ]
        named = {*stems_of_name(f"{wanted.key} {wanted.about[:80]}"), *wanted.labels}
        counts = "count" in wanted.roles[:2] and not _COUNTS.isdisjoint(named)
        for one in fits:
            following = {stem(word.strip(".,?!")) for word in step.text[max(one.places) :].split()[1:3]}
            if wanted.labels & following or (counts and self._counts(one)):
                return self._numbered(step, one, whole)
        if counts:
            return 1 if _NEWEST.search(step.text) and allowed(1, schema) else None
        if not must or not level:
            return None
        if self._points_before(fits):
            recalled = self._recalled(wanted, "number", whole=whole)
            if recalled is not None:
                return as_number(recalled, whole=whole)
        if fits:
            return self._numbered(step, fits[0], whole)
        if self._sources.back or "id" in wanted.roles:
            return as_number(self._recalled(wanted, "number", whole=whole), whole=whole)
        return None

    def string(self, wanted: Want, *, level: int, must: bool) -> Any:
        """A text, a name, a path, a time … as the parameter's name and description say; None for none."""
        step = self._sources.step
        if not {"zone", "time", "datetime", "place"} & set(wanted.roles):
            label = labelled(wanted, step.text)
            pathlike = "path" not in wanted.roles or (label and re.search(r"[/.\\]", label.value))
            if label and label.value and pathlike and self._free(step, label):
                return self._took(step, label)
        for role in wanted.roles:
            found = pick(wanted, step, self._taken(step), role=role, loose=level > 0 and must)
            if found:
                return self._took(step, found)
            if must and level:
                value = self._from_elsewhere(wanted, role)
                if value is not None:
                    return value
        if level == 2 and must and (not wanted.roles or wanted.roles[0] in ("text", "name")):
            return self._leftover(wanted)
        return None

    def _from_elsewhere(self, wanted: Want, role: str) -> Any:
        """What the neighbours or earlier answers give, in the order that pointing back sets."""
        ways = (self._neighbouring, self._recalled)
        for way in ways if not self._sources.back or role == "name" else reversed(ways):
            value = way(wanted, role)
            if value is not None:
                return value
        return None

    def _leftover(self, wanted: Want) -> Any:
        """What the step holds and nothing else took; the whole last answer, where the step points at it."""
        step, seen = self._sources.step, self._sources.seen
        kinds = ("quoted", "name", "id") if wanted.roles else _LEFT
        found = left(wanted, step, self._taken(step), kinds=kinds)
        if found:
            return self._took(step, found)
        if self._sources.back and seen and not self._whole_taken and wanted.roles[:1] != ("name",):
            self._whole_taken = True
            self.from_seen += 1
            return seen[0].text.strip() or None
        return None

    def _neighbouring(self, wanted: Want, role: str) -> Any:
        """A value out of another step; a name only where the step points back at it."""
        if role in ("text", "expression", "pattern") or (role == "name" and not self._sources.back):
            return None
        for text in self._sources.others[: 1 if role == "name" else None]:
            if self._sources.back and role == "path":  # "it" is what was named last
                text = Text(text.text, text.values[::-1])
            found = pick(wanted, text, self._taken(text), role=role, loose=role == "name")
            if found:
                self._taken(text).update(found.places)
                self.from_seen += self._sources.back
                return found.value
        return None

    def _recalled(self, wanted: Want, role: str, *, whole: bool = False) -> Any:
        """A value out of what a tool answered: under a key of the same name, else of the same kind."""
        if role == "zone" and wanted.end == "to":
            return None
        at = ordinal(self._sources.step.text) or 0
        for text in self._sources.seen:
            if role == "text":
                whole_text = text.text.strip() if self._sources.back and not self._whole_taken else ""
                found = [whole_text] if whole_text else []
                self._whole_taken = self._whole_taken or bool(found)
            else:
                found = recall(text, wanted, role=role, whole=whole)
            if found:
                self.from_seen += 1
                return found[at if -len(found) <= at < len(found) else 0]
        return None

    def _points_before(self, fits: Sequence[Picked]) -> bool:
        """Whether the step points back before its first free number: "multiply that by 2", "subtract 5 from it"."""
        step = self._sources.step.text
        points = ANAPHOR.search(step) if self._sources.back and not self.from_seen else None
        if not points:
            return False
        return (
            not fits
            or points.start() < min(fits[0].places)
            or re.search(r"\bfrom (?:that|it|this)\b", step, re.IGNORECASE) is not None
        )

    def _counts(self, one: Picked) -> bool:
        """Whether a number may count things: whole, and neither an amount of money nor a percentage."""
        values = self._sources.step.values
        plain = any(found.start in one.places and found.kind == "number" for found in values)
        return plain and isinstance(one.value, int)

    def _free(self, text: Text, picked: Picked) -> bool:
        return self._taken(text).isdisjoint(picked.places)

    def _taken(self, text: Text) -> set[int]:
        return self._used.setdefault(text.text, set())

    def _took(self, text: Text, picked: Picked) -> Any:
        self._taken(text).update(picked.places)
        self.from_step += text is self._sources.step
        return picked.value

    def _numbered(self, text: Text, picked: Picked, whole: bool) -> int | float | None:
        return as_number(self._took(text, picked), whole=whole)


def _close(one: str, other: str) -> bool:
    return not meanings(one).isdisjoint(meanings(other))
