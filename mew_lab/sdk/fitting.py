"""Do these arguments fit a JSON Schema that a stranger wrote?  Says where not, and what it could not check.

The schema is text to judge, never to trust: before it is used it is copied within bounds. What would leave this process
(references to elsewhere), change the rules (`$schema`, `$id`), or run for ever (a `pattern` in a backtracking engine, a
reference to itself) is left out or cut short, and a note says so: the participant that has the tool checks again. It
knows no form and no tool.

Spec: SDK "Tool Registry"; MCP `inputSchema` (JSON Schema 2020-12).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

from mew_lab.errors import ConfigError
from mew_lab.protocol.node import TOO_COSTLY, Meter
from mew_lab.protocol.strings import Regex
from mew_lab.protocol.visible import one_line

__all__ = ["Fault", "Fit", "Fitting", "at_pointer"]

MAX_FAULTS = 50
MAX_SAID = 200  # characters of one fault
MAX_NODES = 20_000  # of a schema; the rest is not checked
MAX_DEPTH = 48
MAX_STEPS = 20_000  # rules applied in one check
MAX_REFERENCES = 24  # references inside references

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
    """No `faults`: it fits as far as could be checked. `notes` say what could not be."""

    faults: tuple[Fault, ...]
    notes: tuple[str, ...]


class _Enough(Exception):
    """The check has cost what a check may cost."""


class _Work:
    """What one check may still do, and what it had to leave out."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.steps = MAX_STEPS
        self.references = 0
        self.notes: dict[str, None] = {}


_work: ContextVar[_Work] = ContextVar("_work")


class Fitting:
    """One schema, copied within bounds; never raises for what is wrong with it."""

    def __init__(self, schema: Any) -> None:
        self._notes: dict[str, None] = {}
        self._room = MAX_NODES
        self.schema: Any = self._copied(schema, 0)

    def check(self, arguments: Any) -> Fit:
        """What of `arguments` does not fit, at most 50 faults."""
        work = _Work(self.schema)
        work.notes.update(self._notes)
        token = _work.set(work)
        faults: dict[Fault, None] = {}
        try:
            for error in islice(_validator()(self.schema).iter_errors(arguments), MAX_FAULTS):
                faults.update(dict.fromkeys(_faults(error)))
        except (_Enough, RecursionError):
            work.notes[
                "The schema asks for more checks than are done here; the tool will check the rest."
            ] = None
        except Exception as fault:  # jsonschema trusts a schema more than this one deserves
            said = one_line(str(fault), 80)
            work.notes[f"A rule of the schema cannot be understood: {type(fault).__name__} {said}"] = None
        finally:
            _work.reset(token)
        return Fit(tuple(islice(faults, MAX_FAULTS)), tuple(work.notes))

    def _copied(self, schema: Any, depth: int) -> Any:
        """The schema without what is no rule, is ill-formed, or leads elsewhere."""
        if isinstance(schema, bool):
            return schema
        self._room -= 1
        if not isinstance(schema, Mapping):
            return self._left("what is no schema")
        if depth > MAX_DEPTH or self._room < 0:
            return self._left("what is nested too deeply or goes on too long")
        kept: dict[str, Any] = {}
        for key, value in schema.items():
            if key in _NAMED and isinstance(value, Mapping):
                kept[key] = {str(name): self._copied(one, depth + 1) for name, one in value.items()}
            elif key == "items" and isinstance(value, list):  # before 2020-12 a tuple was written so
                kept["prefixItems"] = [self._copied(one, depth + 1) for one in value]
            elif key == "additionalItems" and isinstance(schema.get("items"), list):
                kept["items"] = self._copied(value, depth + 1)
            elif key in _ONE and isinstance(value, (Mapping, bool)):
                kept[key] = self._copied(value, depth + 1)
            elif key in _SOME and isinstance(value, list) and value:
                kept[key] = [self._copied(one, depth + 1) for one in value]
            elif _is_rule(key, value):
                kept[key] = value
            elif key in _WITH_VALUE or key in _ONE or key in _SOME or key in _NAMED:
                self._left(f"the rule {key}, which is ill-formed")
            elif key in ("$dynamicRef", "unevaluatedItems", "unevaluatedProperties"):
                self._left(f"the rule {key}")
        return kept

    def _left(self, what: str) -> bool:
        self._notes[f"Not checked here: {what}."] = None
        return True


def at_pointer(root: Any, reference: str) -> Any:
    """What `#/a/b` means inside `root`; None where it is elsewhere or nowhere."""
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return None
    here = root
    for part in reference[2:].split("/")[:MAX_DEPTH]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(here, Mapping) and name in here:
            here = here[name]
        elif isinstance(here, list) and name.isdecimal() and len(name) < 7 and int(name) < len(here):
            here = here[int(name)]
        else:
            return None
    return here if isinstance(here, (Mapping, bool)) else None


_WITH_VALUE: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(_NUMBERS, lambda value: isinstance(value, (int, float)) and not isinstance(value, bool)),
    **dict.fromkeys(_COUNTS, lambda value: isinstance(value, int) and not isinstance(value, bool)),
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


def _types(value: Any) -> tuple[str, ...] | None:
    found = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else ()
    return found if found and all(isinstance(one, str) and one in _TYPES for one in found) else None


def _strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


@cache
def _validator() -> Any:
    """Loaded with the first check: jsonschema takes its time. Each of its rules counts as a step."""
    from mew_lab.sdk.schema_library import jsonschema

    draft = jsonschema.Draft202012Validator
    own: dict[str, Callable[..., Any]] = {
        "$ref": _reference,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional,
        "multipleOf": _multiple,
    }
    known: dict[str, Callable[..., Any]] = {**draft.VALIDATORS, **own}
    rules = {name: _counted(rule) for name, rule in known.items()}
    # The library follows references for these by itself, elsewhere too, and knows no linear patterns.
    for name in ("$dynamicRef", "unevaluatedItems", "unevaluatedProperties", "format"):
        del rules[name]
    return jsonschema.validators.create(draft.META_SCHEMA, rules, type_checker=draft.TYPE_CHECKER)


def _counted(rule: Callable[..., Any]) -> Callable[..., Any]:
    def apply(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        work = _work.get()
        work.steps -= 1
        if work.steps < 0:
            raise _Enough
        return rule(validator, value, instance, schema)

    return apply


def _error(said: str) -> Any:
    from mew_lab.sdk.schema_library import jsonschema

    return jsonschema.ValidationError(said)


def _reference(validator: Any, reference: str, instance: Any, schema: Any) -> Iterator[Any]:
    work = _work.get()
    found = at_pointer(work.root, reference)
    if found is None or work.references >= MAX_REFERENCES:
        work.notes[f"Not checked here: what {one_line(reference, 80)} says."] = None
        return
    work.references += 1
    try:
        yield from validator.descend(instance, found)
    finally:
        work.references -= 1


def _holds(pattern: str, text: str) -> bool:
    """Whether the pattern is found in the text; True, with a note, where that cannot be told in bounded time."""
    try:
        return _searcher(pattern).accepts(text, Meter())
    except ConfigError:
        why = "which only an engine that may run for ever would understand"
    except TOO_COSTLY:
        why = "which takes too long with this text"
    _work.get().notes[f"Not checked here: the pattern {one_line(pattern, 80)}, {why}."] = None
    return True


def _searcher(pattern: str) -> Regex:
    return Regex.of(f"(?s:.*)(?:{pattern})(?s:.*)", key="pattern")


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, str) and not _holds(pattern, instance):
        yield _error(f"must contain a match of {one_line(pattern, 80)}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    for pattern, inner in patterns.items():
        for key, value in instance.items():
            if _holds(pattern, key):
                yield from validator.descend(value, inner, path=key)


def _additional(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    known = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    for key in instance:
        if key in known or any(_holds(pattern, key) for pattern in patterns):
            continue
        if allowed is False:
            error = _error("is not known to this tool")
            error.path.appendleft(key)
            yield error
        else:
            yield from validator.descend(instance[key], allowed, path=key)


def _multiple(validator: Any, step: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(instance, (int, float)) or isinstance(instance, bool):
        return
    try:
        whole = instance % step == 0 if isinstance(instance, int) and isinstance(step, int) else None
        quotient = instance / step if whole is None else 0.0
    except OverflowError:
        return
    if whole is False or (
        math.isfinite(quotient) and abs(quotient - round(quotient)) > 1e-9 * max(1.0, abs(quotient))
    ):
        yield _error(f"must be a multiple of {step}")


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
