"""With which arguments is a tool called?  Its JSON Schema, walked; every value comes from `supplying`; pure.

Nothing is made up: what has no source is missing, and named. The schema is a stranger's: its depth, its breadth
and the steps it costs are bounded, its regular expressions are never run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mew_lab.agent.offline.fitting import allowed
from mew_lab.agent.offline.supplying import Sources, Supply
from mew_lab.agent.offline.wants import Want, want

__all__ = ["Filled", "Missing", "fill"]

MAX_DEPTH = 6
MAX_PROPERTIES = 64
MAX_ITEMS = 50
MAX_VISITS = 1000  # parameters and choices that are looked at for one call
_NOTHING = object()
# A description may say what to take where the user says nothing.
_FALLBACK = re.compile(r"\b[Uu]se ['\"]([^'\"]{1,60})['\"][^.]{0,80}\bif no\b")


class Missing(NamedTuple):
    """A required parameter that nothing gives."""

    key: str
    about: str


class Filled(NamedTuple):
    """Arguments, what they lack, how many of them the step itself and earlier words gave, and what of the step
    they leave out though it is of a kind that they take."""

    arguments: dict[str, Any]
    missing: tuple[Missing, ...]
    from_step: int
    from_seen: int
    left: tuple[str, ...] = ()


class _Asked(NamedTuple):
    """How a value is looked for: by sure signs, by likely ones, by what is left; and whether it must be."""

    level: int
    must: bool
    depth: int


def fill(parameters: object, sources: Sources) -> Filled:
    """The arguments for a tool of these parameters, as far as the sources give them."""
    filling = _Filling(parameters if isinstance(parameters, Mapping) else {}, Supply(sources))
    arguments = filling.arguments(filling.root, prefix="", depth=0)
    supply = filling.supply
    return Filled(arguments, tuple(filling.missing), supply.from_step, supply.from_seen, supply.left())


class _Filling:
    """One filling: what is missing, and how much was looked at."""

    def __init__(self, root: Mapping[str, Any], supply: Supply) -> None:
        self.root = root
        self.supply = supply
        self.missing: list[Missing] = []
        self._visits = 0

    def arguments(self, schema: Mapping[str, Any], *, prefix: str, depth: int) -> dict[str, Any]:
        given = schema.get("properties")
        properties = dict(list(given.items())[:MAX_PROPERTIES]) if isinstance(given, Mapping) else {}
        listed = schema.get("required")
        required = [key for key in listed[:1000] if isinstance(key, str)] if isinstance(listed, list) else []
        shapes = {key: self._resolved(shape) for key, shape in properties.items() if isinstance(key, str)}
        shapes |= {key: {} for key in required[:MAX_PROPERTIES] if key not in shapes}
        self._visits += len(shapes)
        wants = {key: want(key, shape) for key, shape in shapes.items()}
        needed = [key for key in shapes if key in required]
        found: dict[str, Any] = {}

        def attempt(keys: Sequence[str], asked: _Asked) -> None:
            for key in keys:
                value = _NOTHING if key in found else self._value(wants[key], shapes[key], asked)
                if value is not _NOTHING:
                    found[key] = value

        attempt(needed, _Asked(0, True, depth))
        attempt(needed, _Asked(1, True, depth))
        attempt([key for key in shapes if key not in required], _Asked(0, False, depth))
        attempt(needed, _Asked(2, True, depth))
        self.missing += [Missing(prefix + key, wants[key].about) for key in needed if key not in found]
        return {key: found[key] for key in shapes if key in found}

    def _resolved(self, schema: object) -> dict[str, Any]:
        """The schema with its reference followed, up to eight times."""
        for _ in range(8):
            if not isinstance(schema, Mapping):
                break
            target = schema.get("$ref")
            if not isinstance(target, str):
                return dict(schema)
            place: Any = self.root
            for part in target.removeprefix("#/").split("/")[:16]:
                place = place.get(part) if isinstance(place, Mapping) else None
            own = {key: value for key, value in schema.items() if key != "$ref"}
            schema = own | dict(place) if isinstance(place, Mapping) else own
        return {}

    def _value(self, wanted: Want, schema: Mapping[str, Any], asked: _Asked) -> Any:
        self._visits += 1
        if self._visits > MAX_VISITS:
            return _NOTHING
        if "const" in schema:
            return schema["const"] if asked.must else _NOTHING
        for several in ("anyOf", "oneOf", "allOf"):
            choices = schema.get(several)
            if isinstance(choices, list) and asked.depth < MAX_DEPTH:
                return self._choice(wanted, schema, several, asked)
        value = self._typed(wanted, schema, asked)
        if value is not _NOTHING:
            return value if allowed(value, schema) else _NOTHING
        if asked.must and asked.level == 2:
            if "default" in schema:
                return schema["default"]
            fallback = _FALLBACK.search(wanted.about)
            return fallback[1] if fallback else _NOTHING
        return _NOTHING

    def _choice(self, wanted: Want, schema: Mapping[str, Any], several: str, asked: _Asked) -> Any:
        """The first of several schemas, null left out, that can be filled."""
        rest = {key: value for key, value in schema.items() if key != several}
        for choice in schema[several][:8]:
            shape = rest | self._resolved(choice)
            if shape.get("type") != "null":
                value = self._value(wanted, shape, asked._replace(depth=asked.depth + 1))
                if value is not _NOTHING:
                    return value
        return _NOTHING

    def _typed(self, wanted: Want, schema: Mapping[str, Any], asked: _Asked) -> Any:
        level, must = asked.level, asked.must
        options = schema.get("enum")
        if isinstance(options, list):
            return _or_nothing(self.supply.option(options[:200], level=level, must=must))
        kinds = schema.get("type")
        kind = next((one for one in kinds if one != "null"), None) if isinstance(kinds, list) else kinds
        if kind is None:
            kind = "object" if "properties" in schema else "array" if "items" in schema else "string"
        if kind == "boolean":
            return _or_nothing(self.supply.switch(wanted, sure=not (must and level == 2)))
        if kind in ("integer", "number"):
            number = self.supply.number(wanted, schema, whole=kind == "integer", level=level, must=must)
            return _or_nothing(number)
        if kind == "array":
            return self._array(wanted, schema, asked)
        if kind == "object":
            if level or not must or asked.depth >= MAX_DEPTH:
                return _NOTHING
            return self.arguments(schema, prefix=f"{wanted.key[:80]}.", depth=asked.depth + 1)
        if kind == "null":
            return None if must else _NOTHING
        if wanted.options:
            return _or_nothing(self.supply.option(wanted.options, level=level, must=must, exact=True))
        return _or_nothing(self.supply.string(wanted, level=level, must=must))

    def _array(self, wanted: Want, schema: Mapping[str, Any], asked: _Asked) -> Any:
        item = self._resolved(schema.get("items"))
        item.pop("default", None)
        inner = asked._replace(depth=asked.depth + 1)
        items: list[Any] = []
        if item.get("type") == "object" or "properties" in item:
            if asked.must and asked.level == 1 and asked.depth < MAX_DEPTH:
                items = [self.arguments(item, prefix=f"{wanted.key[:80]}.", depth=inner.depth)]
        elif item.get("type") != "array" and "const" not in item:
            about = {key: schema[key] for key in ("title", "description") if key in schema}
            one_wanted = want(wanted.key, about | {key: item[key] for key in ("format",) if key in item})
            while len(items) < MAX_ITEMS:
                one = self._value(one_wanted, item, inner)
                if one is _NOTHING or one in items or isinstance(one, bool):
                    break
                items.append(one)
        least = schema.get("minItems")
        enough = max(1, least if isinstance(least, int) else 1)
        return items if len(items) >= enough else _NOTHING


def _or_nothing(value: Any) -> Any:
    return _NOTHING if value is None else value
