"""Validates values against untrusted JSON Schemas (2020-12) at a bounded cost.

How it works. `Validator` copies a schema within bounds and keeps only well-formed rules that can be checked here. Some
rules are omitted with a note: those that refer to other documents, change the rules (`$schema`, `$id`, `$dynamicRef`),
or need the results of other rules (`unevaluatedItems`, `unevaluatedProperties`). `validate` then walks the copy and the
value together. Each rule is charged for the values that it reads; a validation without steps left ends early with a
note. Patterns run in google-re2, in linear time. `format` is an annotation, as in 2020-12, and is not checked.

A *violation* is a place of the value where it does not fit. A *gap* is a place of the schema that can never be
checked. A participant refuses a schema of its own with gaps, and a value with notes.

A caller that prepares a call of another participant's tool validates `of_peer`, since that participant judges the call.
There, a missing member that has a default is no violation, and none is filled in. What another reading of the same
schema may allow is a *doubt* and no violation: where a pattern decides, where a rule was left out, and rules beside a
reference in a draft that ignores those. So a violation is one by every standard validator, too.

The package jsonschema is not used. Importing any of its modules loads all of its format checkers. That takes a second
and more where rfc3987_syntax is installed, as in every environment of Jupyter. The tests compare the two.

Spec: SDK "Tool Registry"; MCP `inputSchema` (JSON Schema 2020-12, Core and Validation).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias

from mew_lab.errors import ConfigError
from mew_lab.protocol.coerce import is_number
from mew_lab.protocol.node import BUDGET, TOO_COSTLY, Meter
from mew_lab.protocol.strings import Regex
from mew_lab.protocol.visible import one_line

__all__ = [
    "MOST_STEPS",
    "Path",
    "SchemaMember",
    "Validation",
    "Validator",
    "Violation",
    "gives_default",
    "members_of",
    "resolve_reference",
]

MAX_VIOLATIONS = 50  # of one validation: a sender may break a rule in every value
MAX_MESSAGE = 200  # characters of one violation
MAX_LOOKED_AT = 2000  # schemas and members, to name the members of one schema, and
MAX_LEVELS = 8  # of schemas in each other
MAX_HOPS = 4  # references that lead to a default
MAX_NODES = 20_000  # of a schema, items of its lists too; the rest is not checked
MAX_DEPTH = 48  # of a schema
MAX_REFERENCES = (
    96  # inside each other: a message is at most 64 levels deep, and a level may take more than one
)
MAX_POINTER = 48  # parts of a reference
MAX_STEPS = 20_000  # of one validation, and
STEPS_A_VALUE = 10  # more for each value that is validated, but
MOST_STEPS = 500_000  # in all
TEXT_A_STEP = 50  # characters
PROGRAM_A_STEP = 20  # instructions of a compiled pattern
REFUSED_PATTERN = 5000  # steps: the engine finds out that a pattern is too large by trying

Path: TypeAlias = tuple[str | int, ...]
"""The keys and positions that lead to a place."""

_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": lambda value: is_number(value),
    "integer": lambda value: is_number(value) and (isinstance(value, int) or value.is_integer()),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
# Rules whose value is one schema, a list of schemas, schemas by name.
_ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_SOME = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
# Rules that look at each member or item, and those that look at all that a value holds.
_EACH = ("items", "contains", "additionalProperties", "propertyNames", "patternProperties")
_WHOLE = ("enum", "const", "uniqueItems")


# Marks of a copied schema, which no rule is named: what was left out of it, and the members that have a default.
_LEFT_OUT, _DEFAULTED = "\x00left out", "\x00defaulted"
MOST_AROUND = 16  # schemas at one place of which the defaults are looked up
# Drafts in which a reference replaces the schema in which it stands.
_OLD_DRAFT = re.compile(r"https?://json-schema\.org/draft-0[3-7]/schema#?")


class Violation(NamedTuple):
    """A place of a value that does not fit: `message` is a sentence without its subject, "must be an integer"."""

    path: Path
    message: str

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.path)) or 'the arguments'} {self.message}"


class Validation(NamedTuple):
    """The result for one value.

    Attributes:
        violations: Where the value does not fit, at most 50.
        notes: Sentences about the rules that could not be checked. Without violations and notes the value fits.
        complete: Whether the validation ended within its steps.
        doubts: Where the value of a call does not fit by this reading of a peer's schema, and may by the peer's own.
    """

    violations: tuple[Violation, ...]
    notes: tuple[str, ...]
    complete: bool = True
    doubts: tuple[Violation, ...] = ()


class Validator:
    """One schema, copied within bounds. A faulty schema raises nothing.

    Args:
        of_peer: whether it is the schema of another participant, which judges the value itself.
    """

    def __init__(self, schema: Any, *, of_peer: bool = False) -> None:
        self._of_peer = of_peer
        self._original = schema
        draft = schema.get("$schema") if isinstance(schema, Mapping) else None
        self._is_old = isinstance(draft, str) and _OLD_DRAFT.fullmatch(draft) is not None
        self._notes: dict[str, None] = {}
        self._gaps: dict[Violation, None] = {}
        self._checked_later: list[tuple[Path, str, str]] = []  # patterns and references, with their places
        self._refused: set[str] = set()
        self._room = MAX_NODES
        self.schema: Any = self._copy(schema, (), 0)

    def gaps(self) -> tuple[Violation, ...]:
        """The rules of the schema that are ill-formed or can never be checked, each with its place in the schema."""
        gaps = dict(self._gaps)
        walk = _SchemaWalk(self.schema, steps=MAX_STEPS, refused=self._refused)
        try:
            for path, rule, value in self._checked_later:
                if rule == "pattern" and walk.expression(value) is None:
                    gaps[Violation(path, _unsupported(value))] = None
                elif rule == "$ref" and resolve_reference(self.schema, value) is None:
                    message = f"{one_line(value, 60)} is no place of this schema; nothing else is fetched"
                    gaps[Violation(path, message)] = None
        except _Spent:
            gaps[Violation((), "it has more or larger patterns than are read here")] = None
        return tuple(islice(gaps, MAX_VIOLATIONS))

    def validate(self, value: Any, *, most: int = MOST_STEPS) -> Validation:
        """Checks a JSON value as the module `json` parses it: objects as `dict` and arrays as `list`.

        Args:
            most: steps after which it ends early.
        """
        steps = min(MAX_STEPS + STEPS_A_VALUE * _size(value), most)
        walk = _SchemaWalk(
            self.schema, steps=steps, refused=self._refused, of_peer=self._of_peer, is_old=self._is_old
        )
        walk.notes.update(self._notes)
        violations: dict[Violation, None] = {}
        doubts: dict[Violation, None] = {}
        try:
            for error in islice(walk.errors(self.schema, value, ()), MAX_VIOLATIONS):
                found = doubts if self._of_peer and error.is_doubtful else violations
                found.update(dict.fromkeys(_violations(error)))
        except (_Spent, RecursionError):
            walk.complete = False
            note = "The schema asks for more checks than are done here; the tool will check the rest."
            walk.notes[note] = None
        plain, doubtful = (tuple(islice(found, MAX_VIOLATIONS)) for found in (violations, doubts))
        return Validation(plain, tuple(walk.notes), walk.complete, doubtful)

    def _copy(self, schema: Any, path: Path, depth: int, around: tuple[Any, ...] = ()) -> Any:
        """The schema without unknown members, ill-formed rules, and references to other documents.

        `around` are the `properties` of the schemas that apply to the same place.
        """
        if isinstance(schema, bool):
            return schema
        self._room -= 1
        if not isinstance(schema, Mapping):
            return self._leave_out(path, "what is no schema")
        if depth > MAX_DEPTH or self._room < 0:
            return self._leave_out(path, "what is nested too deeply or goes on too long")
        kept: dict[str, Any] = {}
        if self._of_peer:
            around = (*self._properties_at(schema), *around)[:MOST_AROUND]
        for key, value in schema.items():
            at = (*path, key)
            self._room -= len(value) if isinstance(value, list) else 0
            if self._room < 0:
                self._leave_out(at, "what goes on too long")
            elif key in _NAMED and isinstance(value, Mapping):
                here = around if key == "dependentSchemas" else ()
                kept[key] = {
                    str(name): self._copy(inner, (*at, str(name)), depth + 1, here)
                    for name, inner in value.items()
                }
                if key == "patternProperties":
                    self._checked_later += ((at, "pattern", name) for name in kept[key])
            elif key == "items" and isinstance(value, list):  # before 2020-12 a tuple was written so
                kept["prefixItems"] = self._copy_each(value, at, depth)
            elif key == "additionalItems" and isinstance(schema.get("items"), list):
                kept["items"] = self._copy(value, at, depth + 1)
            elif key in _ONE and isinstance(value, (Mapping, bool)):
                kept[key] = self._copy(value, at, depth + 1, around if key in ("then", "else") else ())
            elif key in _SOME and isinstance(value, list) and value:
                kept[key] = self._copy_each(value, at, depth, () if key == "prefixItems" else around)
            elif _is_rule(key, value):
                kept[key] = value
                if key in ("pattern", "$ref"):
                    self._checked_later.append((at, key, value))
            elif key in _WELL_FORMED or key in _ONE or key in _SOME or key in _NAMED:
                kept |= self._leave_out(at, f"the rule {key}, which is ill-formed")
            elif key in ("$dynamicRef", "unevaluatedItems", "unevaluatedProperties"):
                kept |= self._leave_out(at, f"the rule {key}")
        if self._of_peer:
            needed = [*kept.get("required", ()), *chain(*kept.get("dependentRequired", {}).values())]
            kept[_DEFAULTED] = frozenset(name for name in needed if self._has_default(name, around))
        return kept

    def _copy_each(self, schemas: list[Any], at: Path, depth: int, around: tuple[Any, ...] = ()) -> list[Any]:
        return [self._copy(schema, (*at, n), depth + 1, around) for n, schema in enumerate(schemas)]

    def _leave_out(self, path: Path, what: str) -> dict[str, Any]:
        self._notes[f"Not checked here: {what}."] = None
        if len(self._gaps) < MAX_VIOLATIONS:
            self._gaps[Violation(path, f"cannot be checked: {what}")] = None
        return {_LEFT_OUT: True}

    def _properties_at(self, schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """The `properties` of a schema and of those that it includes."""
        waiting: list[Any] = [schema]
        for _ in range(MOST_AROUND):
            part = waiting.pop(0) if waiting else None
            if not isinstance(part, Mapping) or self._room < 0:
                continue
            if isinstance(properties := part.get("properties"), Mapping):
                yield properties
            if isinstance(included := part.get("allOf"), list):
                waiting += included[:MOST_AROUND]
            if isinstance(reference := part.get("$ref"), str):
                self._room -= 1 + min(reference.count("/"), MAX_POINTER)
                waiting.append(resolve_reference(self._original, reference))

    def _has_default(self, name: str, around: tuple[Any, ...]) -> bool:
        named = [properties[name] for properties in around if name in properties]
        self._room -= MAX_HOPS * sum(isinstance(schema, Mapping) and "$ref" in schema for schema in named)
        return self._room >= 0 and any(gives_default(self._original, schema) for schema in named)


def resolve_reference(root: Any, reference: str) -> Any:
    """The schema at `#/a/b` inside `root`; None if the reference leads elsewhere or nowhere."""
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return None
    here = root
    for part in reference[2:].split("/")[:MAX_POINTER]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(here, Mapping) and name in here:
            here = here[name]
        elif isinstance(here, list) and name.isdecimal() and len(name) < 7 and int(name) < len(here):
            here = here[int(name)]
        else:
            return None
    return here if isinstance(here, (Mapping, bool)) else None


class SchemaMember(NamedTuple):
    """A member that the objects of a schema may have: its schema, and whether a call without it is a fault."""

    schema: Any
    required: bool


def members_of(schema: Any) -> dict[str, SchemaMember]:
    """The members that a schema names, in their order: its own, and those of the schemas that it includes or allows.

    One that has a default is not required, and one of several forms is required where each form requires it.
    """
    left = MAX_LOOKED_AT

    def read(part: Any, depth: int) -> dict[Any, SchemaMember]:
        nonlocal left
        left -= 1
        if not isinstance(part, Mapping) or left < 0 or depth > MAX_LEVELS:
            return {}
        properties, included = part.get("properties"), part.get("allOf")
        found: dict[Any, Any] = (
            dict(islice(properties.items(), left)) if isinstance(properties, Mapping) else {}
        )
        needed = dict.fromkeys(part["required"][:left]) if _are_strings(part.get("required")) else {}
        left -= len(found) + len(needed)
        target = resolve_reference(schema, at) if isinstance(at := part.get("$ref"), str) else None
        for inner in (target, *(included if isinstance(included, list) else ())):
            for name, member in read(inner, depth + 1).items() if left > 0 else ():
                found.setdefault(name, member.schema)
                needed |= {name: None} if member.required else {}
        for keyword in ("anyOf", "oneOf"):
            options = part.get(keyword)
            each = (
                [read(form, depth + 1) for form in options if left > 0] if isinstance(options, list) else []
            )
            for name, member in chain(*(form.items() for form in each)):
                found.setdefault(name, member.schema)
                needed |= {name: None} if all(name in form and form[name].required for form in each) else {}
        found |= {name: True for name in needed if name not in found}
        return {name: SchemaMember(member, name in needed) for name, member in found.items()}

    return {
        str(name): SchemaMember(member, needed and not gives_default(schema, member))
        for name, (member, needed) in read(schema, 0).items()
    }


def gives_default(root: Any, schema: Any) -> bool:
    """Whether a schema has a default, as it stands or where its references lead."""
    for _ in range(MAX_HOPS):
        if not isinstance(schema, Mapping):
            return False
        if "default" in schema:
            return True
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return False
        schema = resolve_reference(root, reference)
    return False


# --- well-formed rules ---

_WELL_FORMED: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), lambda value: is_number(value)
    ),
    **dict.fromkeys(
        (f"{end}{what}" for end in ("min", "max") for what in ("Length", "Items", "Properties", "Contains")),
        lambda value: is_number(value) and (isinstance(value, int) or value.is_integer()),
    ),
    "multipleOf": lambda value: is_number(value) and value > 0,
    "type": lambda value: _type_names(value) != (),
    "enum": lambda value: isinstance(value, list),
    "const": lambda value: True,
    "required": lambda value: _are_strings(value),
    "dependentRequired": lambda value: isinstance(value, Mapping) and all(map(_are_strings, value.values())),
    "uniqueItems": lambda value: isinstance(value, bool),
    "pattern": lambda value: isinstance(value, str),
    "$ref": lambda value: isinstance(value, str),
}


def _is_rule(key: str, value: Any) -> bool:
    is_well_formed = _WELL_FORMED.get(key)
    return is_well_formed is not None and is_well_formed(value)


def _type_names(value: Any) -> tuple[str, ...]:
    """The types that `type` names; () if one of them is none."""
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else ()
    return names if all(isinstance(name, str) and name in _TYPES for name in names) else ()


def _are_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _unsupported(pattern: str) -> str:
    return (
        f"the pattern {one_line(pattern, 60)} cannot be checked in bounded time: it is no regular expression, it looks "
        "around or back, or it is too long"
    )


# --- one validation ---


class _Spent(Exception):
    """The validation has used all its steps."""


class _Error(NamedTuple):
    """A rule that a value violates, before its message is written.

    `value` is the part of the rule for the message: its own value, or the missing names. `forms` are the errors of each
    schema of `anyOf` or `oneOf`. `is_doubtful` is whether another reading of the schema may allow the value.
    """

    path: Path
    rule: str
    value: Any = None
    message: str = ""
    forms: tuple[list[_Error], ...] = ()
    is_doubtful: bool = False


class _SchemaWalk:
    """One walk through a schema and a value: the remaining steps, and the notes on omitted rules.

    `refused` are patterns that the engine rejected; they are kept for the next validations. `of_peer` and `is_old` are
    whether the schema is a peer's, and of a draft in which a reference stands alone.
    """

    def __init__(
        self, root: Any, *, steps: int, refused: set[str], of_peer: bool = False, is_old: bool = False
    ) -> None:
        self._allows_defaults = of_peer
        self._is_old = is_old
        self._unsure = 0  # rules so far that another reader may take otherwise
        self.notes: dict[str, None] = {}
        self.complete = True
        self._root = root
        self._steps = steps
        self._refused = refused
        self._references = 0

    def errors(self, schema: Any, value: Any, path: Path) -> Iterator[_Error]:
        """Yields each rule of `schema` that `value` breaks.

        Raises:
            _Spent: when no steps are left.
        """
        if schema is True:
            return
        if schema is False:
            yield _Error(path, "", message="is excluded by the schema")
            return
        self._unsure += _LEFT_OUT in schema
        is_beside = self._is_old and "$ref" in schema
        for rule, wanted in schema.items():
            if rule in _PREDICATES:
                self._spend(_price(rule, wanted, value))
                if not _PREDICATES[rule](wanted, value):
                    yield _Error(path, rule, wanted, is_doubtful=is_beside)
            elif rule in _APPLICATORS:
                self._spend(_price(rule, wanted, value))
                errors = _APPLICATORS[rule](self, wanted, value, path, schema)
                yield from _doubted(errors) if is_beside and rule != "$ref" else errors

    def expression(self, pattern: str) -> Regex | None:
        """The compiled pattern, which accepts the texts that contain a match; None if the engine rejects it.

        Raises:
            _Spent: when no steps are left.
        """
        if pattern in self._refused:
            return None
        try:
            compiled = Regex.of(f"(?s:.*)(?:{pattern})(?s:.*)", key="pattern")
        except ConfigError:
            self._refused.add(pattern)
            self._spend(REFUSED_PATTERN)
            return None
        self._spend(1 + compiled.program_size // PROGRAM_A_STEP)
        return compiled

    def _spend(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise _Spent

    def _leave_out(self, what: str) -> None:
        self.notes[f"Not checked here: {what}."] = None

    def _fits(self, schema: Any, value: Any, path: Path) -> bool:
        return next(self.errors(schema, value, path), None) is None

    def _fits_exactly(self, schema: Any, value: Any, path: Path) -> bool:
        """Whether it fits as it is, without the defaults of what is missing: for rules by which less fits then."""
        allows_defaults, self._allows_defaults = self._allows_defaults, False
        try:
            return self._fits(schema, value, path)
        finally:
            self._allows_defaults = allows_defaults

    def _errors_of_each(self, schemas: list[Any], value: Any, path: Path) -> Iterator[list[_Error]]:
        return (list(islice(self.errors(schema, value, path), MAX_VIOLATIONS)) for schema in schemas)

    def _matches(self, pattern: str, text: Any) -> bool:
        """Whether the text contains a match; True, with a note, if that cannot be decided in bounded time."""
        if not isinstance(text, str):  # a key of a mapping that was no JSON
            return False
        self._unsure += 1
        self._spend(1 + len(text) // TEXT_A_STEP)
        compiled = self.expression(pattern)
        why = "which only an engine that may run for ever would understand"
        if compiled is not None:
            meter = Meter()
            try:
                return compiled.accepts(text, meter)
            except TOO_COSTLY:
                why = "which takes too long with this text"
            finally:
                self._spend(BUDGET - max(meter.left, 0))
        self._leave_out(f"the pattern {one_line(pattern, 80)}, {why}")
        return True

    # --- rules that apply other schemas; Spec: JSON Schema Core 10, 11 ---

    def _reference(self, reference: str, value: Any, path: Path, schema: Any) -> Iterator[_Error]:
        target = resolve_reference(self._root, reference)
        if target is None or self._references >= MAX_REFERENCES:
            self._unsure += 1
            self.complete = self.complete and target is None
            self._leave_out(f"what {one_line(reference, 80)} says")
            return
        self._references += 1
        try:
            yield from self.errors(target, value, path)
        finally:
            self._references -= 1

    def _all_of(self, schemas: list[Any], value: Any, path: Path, schema: Any) -> Iterator[_Error]:
        for inner in schemas:
            yield from self.errors(inner, value, path)

    def _any_of(self, schemas: list[Any], value: Any, path: Path, schema: Any) -> Iterator[_Error]:
        forms: list[list[_Error]] = []
        for errors in self._errors_of_each(schemas, value, path):
            if not errors:
                return
            forms.append(errors)
        yield _Error(path, "anyOf", forms=tuple(forms), is_doubtful=_may_fit(forms))

    def _one_of(self, schemas: list[Any], value: Any, path: Path, schema: Any) -> Iterator[_Error]:
        forms: list[list[_Error]] = []
        fitting, before = 0, self._unsure
        for inner, errors in zip(schemas, self._errors_of_each(schemas, value, path), strict=True):
            forms.append(errors)
            # With defaults several may fit; which one is meant, only the peer knows.
            if not errors and (not self._allows_defaults or self._fits_exactly(inner, value, path)):
                fitting += 1
            if fitting > 1:
                yield _Error(path, "oneOf", is_doubtful=self._unsure != before)
                return
        if all(forms):
            yield _Error(path, "oneOf", forms=tuple(forms), is_doubtful=_may_fit(forms))

    def _not(self, excluded: Any, value: Any, path: Path, schema: Any) -> Iterator[_Error]:
        before = self._unsure
        if self._fits_exactly(excluded, value, path):
            yield _Error(path, "not", is_doubtful=self._unsure != before)

    def _if(self, condition: Any, value: Any, path: Path, schema: Any) -> Iterator[_Error]:
        before = self._unsure
        branch = "then" if self._fits_exactly(condition, value, path) else "else"
        is_doubtful = self._unsure != before
        errors = self.errors(schema.get(branch, True), value, path)
        yield from _doubted(errors) if is_doubtful else errors

    def _properties(
        self, schemas: Mapping[str, Any], value: Any, path: Path, schema: Any
    ) -> Iterator[_Error]:
        if isinstance(value, dict):
            for key, inner in schemas.items():
                if key in value:
                    yield from self.errors(inner, value[key], (*path, key))

    def _pattern_properties(
        self, schemas: Mapping[str, Any], value: Any, path: Path, schema: Any
    ) -> Iterator[_Error]:
        if isinstance(value, dict):
            for pattern, inner in schemas.items():
                for key, member in value.items():
                    if self._matches(pattern, key):
                        yield from _doubted(self.errors(inner, member, (*path, key)))

    def _additional_properties(self, other: Any, value: Any, path: Path, schema: Any) -> Iterator[_Error]:
        if not isinstance(value, dict):
            return
        known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        for key, member in value.items():
            if key in known or any(self._matches(pattern, key) for pattern in patterns):
                continue
            if other is False:
                yield _Error((*path, key), "additionalProperties", is_doubtful=bool(patterns))
            else:
                errors = self.errors(other, member, (*path, key))
                yield from _doubted(errors) if patterns else errors

    def _property_names(self, names: Any, value: Any, path: Path, schema: Any) -> Iterator[_Error]:
        if isinstance(value, dict):
            for key in value:
                yield from self.errors(names, key, path)

    def _dependent_schemas(
        self, schemas: Mapping[str, Any], value: Any, path: Path, schema: Any
    ) -> Iterator[_Error]:
        if isinstance(value, dict):
            for key, inner in schemas.items():
                if key in value:
                    yield from self.errors(inner, value, path)

    def _dependent_required(
        self, names: Mapping[str, list[str]], value: Any, path: Path, schema: Any
    ) -> Iterator[_Error]:
        if isinstance(value, dict):
            for key, needed in names.items():
                self._spend(len(needed))
                for name in self._missing(needed, value, schema) if key in value else ():
                    yield _Error((*path, name), "", message=f"is required beside {one_line(key, 60)}")

    def _required(self, names: list[str], value: Any, path: Path, schema: Any) -> Iterator[_Error]:
        if isinstance(value, dict):
            missing = self._missing(names, value, schema)
            if missing:
                yield _Error(path, "required", missing)

    def _missing(self, names: list[str], value: dict[Any, Any], schema: Mapping[str, Any]) -> list[str]:
        given = schema.get(_DEFAULTED, ()) if self._allows_defaults else ()
        return [name for name in names if name not in value and name not in given]

    def _prefix_items(self, schemas: list[Any], value: Any, path: Path, schema: Any) -> Iterator[_Error]:
        if isinstance(value, list):
            for n, (inner, item) in enumerate(zip(schemas, value, strict=False)):
                yield from self.errors(inner, item, (*path, n))

    def _items(self, items: Any, value: Any, path: Path, schema: Any) -> Iterator[_Error]:
        if not isinstance(value, list):
            return
        first = len(schema.get("prefixItems", ()))
        if items is False and len(value) > first:
            yield _Error(path, "maxItems", first)
        else:
            for n in range(first, len(value)):
                yield from self.errors(items, value[n], (*path, n))

    def _contains(self, wanted: Any, value: Any, path: Path, schema: Any) -> Iterator[_Error]:
        if not isinstance(value, list):
            return
        least, most = schema.get("minContains", 1), schema.get("maxContains", len(value))
        before = self._unsure
        fitting = sum(self._fits_exactly(wanted, item, path) for item in value)
        if self._allows_defaults and fitting < least:
            fitting = min(least, sum(self._fits(wanted, item, path) for item in value))
        if not least <= fitting <= most:
            bound = f"at least {least}" if fitting < least else f"at most {most}"
            why = f"must hold {bound} of the items that the schema asks for, not {fitting}"
            yield _Error(path, "", message=why, is_doubtful=self._unsure != before)

    def _pattern(self, pattern: str, value: Any, path: Path, schema: Any) -> Iterator[_Error]:
        if isinstance(value, str) and not self._matches(pattern, value):
            yield _Error(path, "pattern", pattern, is_doubtful=True)


_APPLICATORS: Mapping[str, Callable[[_SchemaWalk, Any, Any, Path, Any], Iterator[_Error]]] = {
    "$ref": _SchemaWalk._reference,
    "allOf": _SchemaWalk._all_of,
    "anyOf": _SchemaWalk._any_of,
    "oneOf": _SchemaWalk._one_of,
    "not": _SchemaWalk._not,
    "if": _SchemaWalk._if,
    "properties": _SchemaWalk._properties,
    "patternProperties": _SchemaWalk._pattern_properties,
    "additionalProperties": _SchemaWalk._additional_properties,
    "propertyNames": _SchemaWalk._property_names,
    "dependentSchemas": _SchemaWalk._dependent_schemas,
    "dependentRequired": _SchemaWalk._dependent_required,
    "required": _SchemaWalk._required,
    "prefixItems": _SchemaWalk._prefix_items,
    "items": _SchemaWalk._items,
    "contains": _SchemaWalk._contains,
    "pattern": _SchemaWalk._pattern,
}

# Rules that ask nothing but the value itself; a value of another type fits. Spec: JSON Schema Validation 6.
_PREDICATES: Mapping[str, Callable[[Any, Any], bool]] = {
    "type": lambda names, value: any(_TYPES[name](value) for name in _type_names(names)),
    "enum": lambda values, value: _identity(value) in map(_identity, values),
    "const": lambda wanted, value: _identity(value) == _identity(wanted),
    "minimum": lambda bound, value: not is_number(value) or value >= bound,
    "maximum": lambda bound, value: not is_number(value) or value <= bound,
    "exclusiveMinimum": lambda bound, value: not is_number(value) or value > bound,
    "exclusiveMaximum": lambda bound, value: not is_number(value) or value < bound,
    "multipleOf": lambda step, value: not is_number(value) or _is_multiple(value, step),
    "minLength": lambda count, value: not isinstance(value, str) or len(value) >= count,
    "maxLength": lambda count, value: not isinstance(value, str) or len(value) <= count,
    "minItems": lambda count, value: not isinstance(value, list) or len(value) >= count,
    "maxItems": lambda count, value: not isinstance(value, list) or len(value) <= count,
    "minProperties": lambda count, value: not isinstance(value, dict) or len(value) >= count,
    "maxProperties": lambda count, value: not isinstance(value, dict) or len(value) <= count,
    "uniqueItems": lambda wanted, value: (
        not (wanted and isinstance(value, list)) or len(set(map(_identity, value))) == len(value)
    ),
}


def _is_multiple(value: float, step: float) -> bool:
    """Whether a number is a multiple by decimal arithmetic: 0.3 is a multiple of 0.1."""
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    try:
        quotient = value / step
    except OverflowError:
        return True
    return not math.isfinite(quotient) or abs(quotient - round(quotient)) <= 1e-9 * max(1.0, abs(quotient))


def _identity(value: Any) -> Any:
    """Equal for equal JSON: 1 is 1.0, and neither is true. Spec: JSON Schema Core 4.2.2."""
    if isinstance(value, Mapping):
        return "object", frozenset((key, _identity(item)) for key, item in value.items())
    if isinstance(value, list):
        return "array", tuple(map(_identity, value))
    if value is None or isinstance(value, (str, int, float)):
        return isinstance(value, bool), value
    return "other", repr(value)  # YAML has more than JSON


def _price(rule: str, wanted: Any, value: Any) -> int:
    """The steps of one rule: for each schema, name or value in it, and for each item that it reads."""
    several = len(wanted) if isinstance(wanted, (list, Mapping)) else 1
    if rule in _WHOLE:
        return several * _size(value)
    each = len(value) if rule in _EACH and isinstance(value, (list, Mapping)) else 0
    return several + each


def _size(value: Any) -> int:
    """The number of steps to read a value: one for each value in it, and one more for each fifty characters."""
    total, waiting = 0, [value]
    while waiting:
        part = waiting.pop()
        total += 1
        if isinstance(part, str):
            total += len(part) // TEXT_A_STEP
        elif isinstance(part, Mapping):
            total += sum(len(key) for key in part if isinstance(key, str)) // TEXT_A_STEP
            waiting.extend(part.values())
        elif isinstance(part, (list, tuple)):
            waiting.extend(part)
    return total


def _doubted(errors: Iterable[_Error]) -> Iterator[_Error]:
    return (error._replace(is_doubtful=True) for error in errors)


def _may_fit(forms: Iterable[list[_Error]]) -> bool:
    """Whether one of several forms has doubtful errors alone."""
    return any(all(error.is_doubtful for error in errors) for errors in forms)


# --- words ---

_MESSAGES: Mapping[str, Callable[[Any], str]] = {
    "minimum": lambda value: f"must be at least {_shown(value)}",
    "maximum": lambda value: f"must be at most {_shown(value)}",
    "exclusiveMinimum": lambda value: f"must be more than {_shown(value)}",
    "exclusiveMaximum": lambda value: f"must be less than {_shown(value)}",
    "multipleOf": lambda value: f"must be a multiple of {_shown(value)}",
    "minLength": lambda value: f"must have at least {_counted(value, 'character')}",
    "maxLength": lambda value: f"must have at most {_counted(value, 'character')}",
    "minItems": lambda value: f"must have at least {_counted(value, 'item')}",
    "maxItems": lambda value: f"must have at most {_counted(value, 'item')}",
    "minProperties": lambda value: f"must have at least {_counted(value, 'member')}",
    "maxProperties": lambda value: f"must have at most {_counted(value, 'member')}",
    "uniqueItems": lambda value: "must not hold the same item twice",
    "pattern": lambda value: f"must contain a match of {one_line(value, 80)}",
    "const": lambda value: f"must be {_shown(value)}",
    "enum": lambda value: f"must be one of {', '.join(map(_shown, value[:8]))}{' …' * (len(value) > 8)}",
    "type": lambda value: f"must be {' or '.join(map(_with_article, _type_names(value)))}",
    "not": lambda value: "is what the schema excludes",
    "anyOf": lambda value: "fits none of the forms that the schema allows",
    "oneOf": lambda value: "fits more than one of the forms of which it must fit exactly one",
    "additionalProperties": lambda value: "is not known to this tool",
}


def _violations(error: _Error) -> Iterator[Violation]:
    if error.rule == "required":
        names = islice(error.value, MAX_VIOLATIONS)
        yield from (Violation((*error.path, name), "is required") for name in names)
    elif error.forms:
        yield from _nearest(error)
    else:
        message = error.message or _MESSAGES[error.rule](error.value)
        yield Violation(error.path, one_line(message, MAX_MESSAGE))


def _nearest(error: _Error) -> Iterable[Violation]:
    """Of several forms, the errors of the only one whose errors all lie below the place."""
    level = len(error.path)
    nearest = [
        errors
        for errors in error.forms
        if all(len(inner.path) > level or inner.rule == "required" for inner in errors)
    ]
    if len(nearest) == 1:
        return [violation for inner in nearest[0] for violation in _violations(inner)]
    return [Violation(error.path, _MESSAGES["anyOf"](None))]


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # Python writes no integer of more than 4300 digits
        return "a number of very many digits"


def _counted(count: int, what: str) -> str:
    return f"{_shown(count)} {what}{'' if count == 1 else 's'}"


def _with_article(name: str) -> str:
    return {"null": "null", "integer": "an integer", "array": "an array", "object": "an object"}.get(
        name, f"a {name}"
    )
