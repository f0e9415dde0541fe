"""Do these arguments fit a JSON Schema that a stranger wrote?  Says where not, and what it could not check.

The schema is text to judge, never to trust: before it is used it is copied within bounds. What would leave this process
(references to elsewhere), change the rules (`$schema`, `$id`), or run for ever (a `pattern` in a backtracking engine, a
reference to itself) is left out or cut short. Then a note says so, for who only prepares a call: the participant that
has the tool checks again. That one refuses: a schema that has `gaps`, and arguments with a note. It knows
no form and no tool.

Spec: SDK "Tool Registry"; MCP `inputSchema` (JSON Schema 2020-12).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from mew_lab.protocol.visible import one_line
from mew_lab.sdk.rules import Enough, Work, at_pointer, load, size, work

__all__ = ["Fault", "Fit", "Fitting", "at_pointer"]

MAX_FAULTS = 50
MAX_SAID = 200  # characters of one fault
MAX_NODES = 20_000  # of a schema, items of its lists too; the rest is not checked
MAX_DEPTH = 48
MAX_STEPS = 20_000  # of one check, and
STEPS_A_VALUE = 10  # more for each value of the arguments, but
MOST_STEPS = 500_000

_TYPES = {"string", "number", "integer", "boolean", "null", "array", "object"}
_ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_SOME = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_COUNTS = tuple(
    f"{end}{what}" for end in ("min", "max") for what in ("Length", "Items", "Properties", "Contains")
)


class Fault(NamedTuple):
    """What does not fit: the keys and positions that lead to the place, and a sentence without the place."""

    path: tuple[str | int, ...]
    said: str


class Fit(NamedTuple):
    """No `faults`: it fits as far as could be checked. `notes` say what could not be; without any, it fits."""

    faults: tuple[Fault, ...]
    notes: tuple[str, ...]


class Fitting:
    """One schema, copied within bounds; never raises for what is wrong with it."""

    def __init__(self, schema: Any) -> None:
        self._notes: dict[str, None] = {}
        self._gaps: dict[Fault, None] = {}
        self._rules: list[tuple[tuple[str | int, ...], str, str]] = []
        self._refused: set[str] = set()
        self._room = MAX_NODES
        self.schema: Any = self._copied(schema, (), 0)

    def gaps(self) -> tuple[Fault, ...]:
        """What of the schema is ill-formed, or can never be checked, each with its place in the schema."""
        found = dict(self._gaps)
        here = Work(self.schema, steps=MAX_STEPS, refused=self._refused)
        try:
            for path, rule, value in self._rules:
                if rule == "pattern" and here.searcher(value) is None:
                    found[Fault(path, _refused(value))] = None
                elif rule == "$ref" and at_pointer(self.schema, value) is None:
                    said = f"{one_line(value, 60)} is no place of this schema; nothing else is fetched"
                    found[Fault(path, said)] = None
        except Enough:
            found[Fault((), "it has more or larger patterns than are read here")] = None
        return tuple(islice(found, MAX_FAULTS))

    def check(self, arguments: Any) -> Fit:
        """What of `arguments` does not fit, at most 50 faults."""
        steps = min(MAX_STEPS + STEPS_A_VALUE * size(arguments), MOST_STEPS)
        here = Work(self.schema, steps=steps, refused=self._refused)
        here.notes.update(self._notes)
        token = work.set(here)
        faults: dict[Fault, None] = {}
        try:
            for error in islice(load()(self.schema).iter_errors(arguments), MAX_FAULTS):
                faults.update(dict.fromkeys(_faults(error)))
        except (Enough, RecursionError):
            here.notes[
                "The schema asks for more checks than are done here; the tool will check the rest."
            ] = None
        except Exception as fault:  # jsonschema trusts a schema more than this one deserves
            said = one_line(str(fault), 80)
            here.notes[f"A rule of the schema cannot be understood: {type(fault).__name__} {said}"] = None
        finally:
            work.reset(token)
        return Fit(tuple(islice(faults, MAX_FAULTS)), tuple(here.notes))

    def _copied(self, schema: Any, path: tuple[str | int, ...], depth: int) -> Any:
        """The schema without what is no rule, is ill-formed, or leads elsewhere."""
        if isinstance(schema, bool):
            return schema
        self._room -= 1
        if not isinstance(schema, Mapping):
            return self._left(path, "what is no schema")
        if depth > MAX_DEPTH or self._room < 0:
            return self._left(path, "what is nested too deeply or goes on too long")
        kept: dict[str, Any] = {}
        for key, value in schema.items():
            at = (*path, key)
            self._room -= len(value) if isinstance(value, list) else 0
            if self._room < 0:
                self._left(at, "what goes on too long")
            elif key in _NAMED and isinstance(value, Mapping):
                kept[key] = {
                    str(name): self._copied(one, (*at, str(name)), depth + 1) for name, one in value.items()
                }
                if key == "patternProperties":
                    self._rules += ((at, "pattern", name) for name in kept[key])
            elif key == "items" and isinstance(value, list):  # before 2020-12 a tuple was written so
                kept["prefixItems"] = self._each(value, at, depth)
            elif key == "additionalItems" and isinstance(schema.get("items"), list):
                kept["items"] = self._copied(value, at, depth + 1)
            elif key in _ONE and isinstance(value, (Mapping, bool)):
                kept[key] = self._copied(value, at, depth + 1)
            elif key in _SOME and isinstance(value, list) and value:
                kept[key] = self._each(value, at, depth)
            elif _is_rule(key, value):
                kept[key] = value
                if key in ("pattern", "$ref"):
                    self._rules.append((at, key, value))
            elif key in _WITH_VALUE or key in _ONE or key in _SOME or key in _NAMED:
                self._left(at, f"the rule {key}, which is ill-formed")
            elif key in ("$dynamicRef", "unevaluatedItems", "unevaluatedProperties"):
                self._left(at, f"the rule {key}")
        return kept

    def _each(self, schemas: list[Any], at: tuple[str | int, ...], depth: int) -> list[Any]:
        return [self._copied(one, (*at, n), depth + 1) for n, one in enumerate(schemas)]

    def _left(self, path: tuple[str | int, ...], what: str) -> bool:
        self._notes[f"Not checked here: {what}."] = None
        if len(self._gaps) < MAX_FAULTS:
            self._gaps[Fault(path, f"cannot be checked: {what}")] = None
        return True


_WITH_VALUE: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(_NUMBERS, lambda value: isinstance(value, (int, float)) and not isinstance(value, bool)),
    **dict.fromkeys(_COUNTS, lambda value: not isinstance(value, bool) and _is_whole(value)),
    "type": lambda value: _types(value) is not None,
    "enum": lambda value: isinstance(value, list),
    "const": lambda value: True,
    "required": lambda value: _strings(value),
    "dependentRequired": lambda value: isinstance(value, Mapping) and all(map(_strings, value.values())),
    "uniqueItems": lambda value: isinstance(value, bool),
    "pattern": lambda value: isinstance(value, str),
    "$ref": lambda value: isinstance(value, str),
}


def _is_rule(key: str, value: Any) -> bool:
    right = _WITH_VALUE.get(key)
    return right is not None and right(value) and not (key == "multipleOf" and not value > 0)


def _refused(pattern: str) -> str:
    return (
        f"the pattern {one_line(pattern, 60)} cannot be checked in bounded time: it is no regular expression, it looks "
        "around or back, or it is too long"
    )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


def _types(value: Any) -> tuple[str, ...] | None:
    found = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else ()
    return found if found and all(isinstance(one, str) and one in _TYPES for one in found) else None


def _strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


_SENTENCES: dict[str, Callable[[Any], str]] = {
    "minimum": lambda value: f"must be at least {value}",
    "maximum": lambda value: f"must be at most {value}",
    "exclusiveMinimum": lambda value: f"must be more than {value}",
    "exclusiveMaximum": lambda value: f"must be less than {value}",
    "minLength": lambda value: f"must have at least {_many(value, 'character')}",
    "maxLength": lambda value: f"must have at most {_many(value, 'character')}",
    "minItems": lambda value: f"must have at least {_many(value, 'item')}",
    "maxItems": lambda value: f"must have at most {_many(value, 'item')}",
    "minProperties": lambda value: f"must have at least {_many(value, 'member')}",
    "maxProperties": lambda value: f"must have at most {_many(value, 'member')}",
    "uniqueItems": lambda value: "must not hold the same item twice",
    "const": lambda value: f"must be {value!r}",
    "enum": lambda value: (
        f"must be one of {', '.join(repr(one) for one in value[:8])}{' …' * (len(value) > 8)}"
    ),
    "type": lambda value: f"must be {' or '.join(_article(one) for one in _types(value) or ())}",
    "not": lambda value: "is what the schema excludes",
    "anyOf": lambda value: "fits none of the forms that the schema allows",
}


def _faults(error: Any) -> Iterator[Fault]:
    path = tuple(error.absolute_path)
    rule, value = error.validator, error.validator_value
    if rule == "required":
        missing = [name for name in value if name not in error.instance]
        yield from (Fault((*path, name), "is required") for name in islice(missing, MAX_FAULTS))
        return
    if rule == "oneOf" and not error.context:
        yield Fault(path, "fits more than one of the forms of which it must fit exactly one")
        return
    if rule in ("anyOf", "oneOf"):
        yield from _nearest(error, path)
        return
    said = _SENTENCES[rule](value) if rule in _SENTENCES else error.message
    yield Fault(path, one_line(said, MAX_SAID))


def _nearest(error: Any, path: tuple[str | int, ...]) -> Iterable[Fault]:
    """Of several forms, what is wrong with the one in which the fault lies deepest."""
    forms: dict[Any, list[Any]] = {}
    for inner in error.context:
        forms.setdefault(inner.schema_path[0] if inner.schema_path else None, []).append(inner)
    fitting = [
        faults
        for faults in forms.values()
        if all(len(one.path) or one.validator == "required" for one in faults)
    ]
    if len(fitting) == 1:
        return [fault for inner in fitting[0] for fault in _faults(inner)]
    return [Fault(path, _SENTENCES["anyOf"](None))]


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _article(name: str) -> str:
    return {"null": "null", "integer": "an integer", "array": "an array", "object": "an object"}.get(
        name, f"a {name}"
    )
