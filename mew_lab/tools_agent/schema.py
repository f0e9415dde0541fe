"""Checks the schemas of a tool of an agent file, which have six types: every fault is listed at once.

A schema is kept unchanged; the models here only check it. A schema without a type is a choice among those of `anyOf` or
`oneOf`. A keyword of another type is refused, because it would be ignored silently. A keyword that none of the six types
has (`pattern`, `oneOf`) is kept, shown to clients and checked at each call.

Spec: tools-agent.md "JSON Schema Types", TA-7 to TA-12, TA-69.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
)

from mew_lab.protocol.json_schema import Validator
from mew_lab.protocol.visible import one_line
from mew_lab.settings.faults import Fault, place

__all__ = ["CHOICE", "CHOICES", "KEYWORDS", "TYPES", "faults_of_schema", "kind_of", "wire_schema"]

TYPES = ("string", "number", "integer", "boolean", "array", "object")
MAX_SAID = 200  # characters of one fault
MAX_FAULTS = 50  # of one schema
MAX_DEPTH = 32  # levels; the check calls itself for each, and an agent file may come from elsewhere


def _is_number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("it must be a number")
    return value


Count = Annotated[StrictInt, Field(ge=0)]
Number = Annotated[Any, AfterValidator(_is_number)]


class _Schema(BaseModel):
    model_config = ConfigDict(extra="allow")

    title: StrictStr | None = None
    description: StrictStr | None = None


class _Valued(_Schema):
    enum: Annotated[list[Any], Field(min_length=1)] | None = None
    default: Any = None
    examples: list[Any] | None = None


class _String(_Valued):
    type: Literal["string"]
    minLength: Count | None = None
    maxLength: Count | None = None


class _Numeric(_Valued):
    type: Literal["number", "integer"]
    minimum: Number | None = None
    maximum: Number | None = None


class _Boolean(_Schema):
    type: Literal["boolean"]
    default: Any = None


class _Array(_Schema):
    type: Literal["array"]
    items: Any = None  # these and the members of an object are checked schema by schema
    minItems: Count | None = None
    maxItems: Count | None = None
    uniqueItems: StrictBool | None = None


class _Object(_Schema):
    type: Literal["object"]
    properties: Any = None
    required: list[StrictStr] | None = None
    additionalProperties: Any = None
    minProperties: Count | None = None
    maxProperties: Count | None = None


class _Choice(_Schema):
    anyOf: Annotated[list[Any], Field(min_length=1)] | None = None
    oneOf: Annotated[list[Any], Field(min_length=1)] | None = None
    default: Any = None
    examples: list[Any] | None = None


CHOICE = "choice"  # the kind of a schema that has no type, but others to choose from
CHOICES = ("anyOf", "oneOf")
_MODELS: Mapping[str, type[_Schema]] = {
    "string": _String,
    "number": _Numeric,
    "integer": _Numeric,
    "boolean": _Boolean,
    "array": _Array,
    "object": _Object,
}
KEYWORDS: Mapping[str, frozenset[str]] = {
    name: frozenset(model.model_fields) for name, model in _MODELS.items()
}
_ALL = frozenset().union(*KEYWORDS.values())
_OF_CHOICE = frozenset(_Choice.model_fields)
_RANGES = (
    ("minLength", "maxLength"),
    ("minimum", "maximum"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
)


def faults_of_schema(schema: object, *, at: str = "parameters") -> list[Fault]:
    """All faults of the parameters or the results of one tool, each with its key path; at most fifty.

    The root must be of type object; `{}` is one without properties. Each value of `default`, `enum` and `examples` must
    fit its schema. A minimum must not exceed the maximum, and a required name must be a property.
    """
    if schema == {}:
        return []
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        return [Fault(at, 'this must be a schema of type "object"')]
    faults = list(islice(_faults(schema, at, 1), MAX_FAULTS))
    if not faults:
        gaps = Validator(schema).gaps()
        faults += [Fault(place(at, *gap.path), one_line(gap.message, MAX_SAID)) for gap in gaps]
    return faults


def wire_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a tool's parameters or results for clients and for the check of calls: JSON Schema 2020-12.

    It is the schema of the file with two changes: a list under `items` (one schema for each position) becomes
    `prefixItems`, and `{}` an object without properties.
    """
    return _wire(schema) or {"type": "object"}


def kind_of(schema: Mapping[str, Any]) -> str:
    """The type of a schema; `choice` for one without a type that has `anyOf` or `oneOf`, empty for any other."""
    kind = schema.get("type")
    if kind is None and any(keyword in schema for keyword in CHOICES):
        return CHOICE
    return kind if isinstance(kind, str) and kind in TYPES else ""


def _keywords(kind: str) -> frozenset[str]:
    return KEYWORDS.get(kind, _OF_CHOICE)


def _wire(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {
        ("prefixItems" if key == "items" and isinstance(value, list) else key): _wire_value(key, value)
        for key, value in schema.items()
    }


def _wire_value(key: str, value: Any) -> Any:
    if key == "properties" and isinstance(value, Mapping):
        return {name: _wire(inner) if isinstance(inner, Mapping) else inner for name, inner in value.items()}
    if key in ("items", *CHOICES) and isinstance(value, list):
        return [_wire(inner) if isinstance(inner, Mapping) else inner for inner in value]
    if key in ("items", "additionalProperties") and isinstance(value, Mapping):
        return _wire(value)
    return value


def _faults(schema: object, at: str, depth: int) -> Iterator[Fault]:
    """The faults of one schema and of those below it."""
    if depth > MAX_DEPTH:
        yield Fault(at, f"it is nested more than {MAX_DEPTH} levels deep")
        return
    if not isinstance(schema, Mapping):
        yield Fault(at, "a schema is a mapping with a type")
        return
    kind = kind_of(schema)
    if kind not in (*TYPES, CHOICE):
        given = schema.get("type")
        message = "it has no type" if given is None else f"{given!r:.60} is no type"
        yield Fault(place(at, "type"), f"{message}; the types are {', '.join(TYPES)}")
        return
    holding = CHOICES if kind == CHOICE else ("items", "properties", "additionalProperties")
    below = {key: schema[key] for key in holding if key in schema}
    own = list(_own_faults({key: value for key, value in schema.items() if key not in below}, kind, at))
    own += _shape_faults(below, kind, at)
    yield from own
    for key, inner in _children(below):
        yield from _faults(inner, place(at, *key), depth + 1)
    if not own:
        yield from _value_faults(schema, at)


def _children(below: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    for keyword in CHOICES:
        forms = below.get(keyword)
        if isinstance(forms, list):
            yield from (((keyword, n), form) for n, form in enumerate(forms) if form != {"type": "null"})
    items, properties = below.get("items"), below.get("properties")
    if isinstance(items, list):
        yield from ((("items", n), inner) for n, inner in enumerate(items))
    elif items is not None:
        yield ("items",), items
    if isinstance(properties, Mapping):
        yield from ((("properties", name), inner) for name, inner in properties.items())
    if isinstance(rest := below.get("additionalProperties"), Mapping):
        yield ("additionalProperties",), rest


def _shape_faults(below: Mapping[str, Any], kind: str, at: str) -> Iterator[Fault]:
    for key in below:
        if key not in _keywords(kind):
            yield Fault(place(at, key), _foreign(key, kind))
        elif key in CHOICES and not (isinstance(below[key], list) and below[key]):
            yield Fault(place(at, key), "it is a list of the schemas to choose from")
    if kind == "array" and below.get("items") in (None, []):
        yield Fault(place(at, "items"), "an array says what its items are: a schema, or a list of them")
    if not isinstance(below.get("properties", {}), Mapping):
        yield Fault(place(at, "properties"), "properties are a mapping of names to schemas")
    if not isinstance(below.get("additionalProperties", {}), bool | Mapping):
        yield Fault(place(at, "additionalProperties"), "it is true, false or a schema")


def _own_faults(own: Mapping[str, Any], kind: str, at: str) -> Iterator[Fault]:
    """Faults of keywords that hold no schemas: those that the type does not have, and values of a wrong kind."""
    for key in own:
        if key in _ALL and key not in _keywords(kind):
            yield Fault(place(at, key), _foreign(key, kind))
        elif key == "$ref" and not (isinstance(own[key], str) and own[key].startswith("#")):
            yield Fault(place(at, key), "a reference must lead to a place of this schema: it begins with #")
        elif key == "pattern" and (gaps := Validator({key: own[key]}).gaps()):
            yield Fault(place(at, key), one_line(gaps[0].message, MAX_SAID))
    named = {key: value for key, value in own.items() if key in _keywords(kind)}
    try:
        _MODELS.get(kind, _Choice).model_validate(named)
    except ValidationError as error:
        for violation in error.errors(include_url=False, include_context=False):
            yield Fault(
                place(at, *violation["loc"]),
                one_line(violation["msg"].removeprefix("Value error, "), MAX_SAID),
            )
    for key in named:
        if own[key] is None and key != "default":
            yield Fault(place(at, key), "it has no value; give one, or leave the keyword out")


def _foreign(key: str, kind: str) -> str:
    having = [name for name in TYPES if key in KEYWORDS[name]]
    what = "one without a type" if kind == CHOICE else f"a schema of type {kind}"
    return f"{key} belongs to {', '.join(having)}; {what} has no such keyword"


def _value_faults(schema: Mapping[str, Any], at: str) -> Iterator[Fault]:
    """Faults of the values in a well-formed schema: they must fit it."""
    for low, high in _RANGES:
        if low in schema and high in schema and schema[low] > schema[high]:
            yield Fault(place(at, low), f"{low} is {schema[low]}, which is more than {high}, {schema[high]}")
    properties = schema.get("properties", {})
    for n, name in enumerate(schema.get("required", ())):
        if name not in properties:
            yield Fault(place(at, "required", n), f"{name[:80]!r} is required, but it is no property")
    bare = {key: value for key, value in schema.items() if key not in ("default", "enum", "examples", "$ref")}
    validator = Validator(bare)
    for key in ("enum", "examples"):
        for n, value in enumerate(schema.get(key, ())):
            yield from _check_value(value, validator, place(at, key, n))
    if "default" in schema:
        chosen = Validator({**bare, "enum": schema["enum"]}) if "enum" in schema else validator
        yield from _check_value(schema["default"], chosen, place(at, "default"))


def _check_value(value: Any, validator: Validator, at: str) -> Sequence[Fault]:
    """The fault of one value. A part that cannot be checked here is a fault of the whole schema."""
    faults = validator.validate(value).violations[:1]
    return [
        Fault(at, f"it does not fit its schema: {one_line(violation.message, MAX_SAID)}")
        for violation in faults
    ]
