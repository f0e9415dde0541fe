"""The union of six types: what it takes, what it refuses, and where."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.tools_agent.schema import TYPES, faults_of_schema, wire_schema

# Of the design's type definitions: which keywords each type has beside title and description.
HAS: dict[str, dict[str, Any]] = {
    "string": {"enum": ["a"], "default": "a", "examples": ["a"], "minLength": 0, "maxLength": 3},
    "number": {"enum": [1.5], "default": 1.5, "examples": [1.5], "minimum": 1, "maximum": 2.5},
    "integer": {"enum": [2], "default": 2, "examples": [2], "minimum": 1, "maximum": 3},
    "boolean": {"default": True},
    "array": {"items": {"type": "string"}, "minItems": 0, "maxItems": 2, "uniqueItems": True},
    "object": {
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": {"type": "integer"},
        "minProperties": 1,
        "maxProperties": 2,
    },
}
EVERY = {key: value for has in HAS.values() for key, value in has.items()}


def parameters(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def fault_lines(schema: Any) -> list[str]:
    return [str(fault) for fault in faults_of_schema(schema)]


@pytest.mark.parametrize("kind", TYPES)
def test_each_type_takes_its_own_keywords_and_refuses_those_of_the_others_by_path(kind: str) -> None:
    whole = {"type": kind, "title": "T", "description": "D", **HAS[kind]}
    assert fault_lines(parameters(x=whole)) == []
    least = {"type": kind, **({"items": {"type": "string"}} if kind == "array" else {})}
    for key, value in EVERY.items():
        if key in HAS[kind]:
            continue
        (fault,) = fault_lines(parameters(x={**least, key: value}))
        assert fault.startswith(f"parameters.properties.x.{key}: {key} belongs to ")
        assert f"type {kind}" in fault


@pytest.mark.req("T-2")
@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "null"}, "type"),
        ({}, "type"),
        ({"type": ["string", "number"]}, "type"),
        ({"type": "string", "minLength": "3"}, "minLength"),
        ({"type": "string", "minLength": -1}, "minLength"),
        ({"type": "string", "enum": []}, "enum"),
        ({"type": "string", "enum": ["a", 1]}, "enum[1]"),
        ({"type": "string", "default": 1}, "default"),
        ({"type": "string", "enum": ["a"], "default": "b"}, "default"),
        ({"type": "string", "maxLength": 2, "examples": ["abc"]}, "examples[0]"),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "minLength"),
        ({"type": "integer", "default": 1.5}, "default"),
        ({"type": "integer", "default": True}, "default"),
        ({"type": "number", "minimum": True}, "minimum"),
        ({"type": "number", "minimum": 2, "maximum": 1}, "minimum"),
        ({"type": "number", "maximum": 2, "default": 3}, "default"),
        ({"type": "boolean", "default": "yes"}, "default"),
        ({"type": "array"}, "items"),
        ({"type": "array", "items": []}, "items"),
        ({"type": "array", "items": {"type": "strin"}}, "items.type"),
        ({"type": "array", "items": [{"type": "string"}, {"type": "x"}]}, "items[1].type"),
        ({"type": "object", "properties": {"a": 1}}, "properties.a"),
        ({"type": "object", "required": ["b"]}, "required[0]"),
        ({"type": "object", "additionalProperties": "no"}, "additionalProperties"),
        ({"type": "object", "additionalProperties": {"type": "x"}}, "additionalProperties.type"),
        ({"type": "string", "pattern": "("}, "pattern"),
        ({"type": "string", "pattern": "^(?!-)"}, "pattern"),
        ({"type": "string", "pattern": 5}, "pattern"),
        ({"type": "string", "$ref": "http://example.net/x"}, "$ref"),
        ({"type": "string", "$ref": "#/$defs/none"}, "$ref"),
        ({"type": "string", "not": {"$ref": "http://example.net/x"}}, "not.$ref"),
        ({"type": "object", "unevaluatedProperties": False}, "unevaluatedProperties"),
        ({"type": "string", "oneOf": 3}, "oneOf"),
    ],
)
def test_a_fault_is_told_at_its_place(schema: dict[str, Any], path: str) -> None:
    (fault,) = fault_lines(parameters(x=schema))
    assert fault.startswith(f"parameters.properties.x.{path}: ")


def test_a_value_is_held_against_its_pattern_in_linear_time_and_left_alone_where_a_reference_leads() -> None:
    bomb = {"type": "string", "pattern": "^(a+)+$", "examples": ["a" * 50_000 + "!"], "default": "aa"}
    (fault,) = fault_lines(parameters(x=bomb))
    assert fault.startswith("parameters.properties.x.examples[0]: it does not fit its schema: ")
    led = {"type": "string", "anyOf": [{"$ref": "#/$defs/a"}], "default": "b"}
    assert fault_lines({**parameters(x=led), "$defs": {"a": {"minLength": 1}}}) == []


def test_every_fault_is_told_at_once() -> None:
    lines = fault_lines(
        parameters(a={"type": "x"}, b={"type": "integer", "minLength": 1}, c={"type": "array"})
    )
    assert [line.partition(":")[0] for line in lines] == [
        "parameters.properties.a.type",
        "parameters.properties.b.minLength",
        "parameters.properties.c.items",
    ]


@pytest.mark.parametrize(
    "schema", [None, [], "x", {"a": 1}, {"type": "string"}, {"type": "array", "items": {}}]
)
def test_the_root_must_be_of_type_object(schema: Any) -> None:
    (fault,) = fault_lines(schema)
    assert 'type "object"' in fault


def test_an_unknown_keyword_is_kept_and_so_is_everything_else() -> None:
    schema = parameters(x={"type": "string", "pattern": "^a", "format": "date", "x-mine": {"a": [1]}})
    schema["oneOf"] = [{"required": ["x"]}]
    assert fault_lines(schema) == []
    assert wire_schema(schema) == schema


def test_a_list_of_items_is_told_to_clients_as_json_schema_2020_12_has_it() -> None:
    two = {"type": "array", "items": [{"type": "string"}, {"type": "array", "items": [{"type": "integer"}]}]}
    assert wire_schema(parameters(items=two)) == parameters(
        items={
            "type": "array",
            "prefixItems": [{"type": "string"}, {"type": "array", "prefixItems": [{"type": "integer"}]}],
        }
    )


def test_a_schema_without_end_is_refused() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(500):
        schema = {"type": "object", "properties": {"a": schema}}
    (fault,) = fault_lines(schema)
    assert "nested" in fault


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_a_choice_among_schemas_needs_no_type_and_each_is_checked(keyword: str) -> None:
    forms = [{"type": "string", "minLength": 1}, {"type": "array", "items": {"type": "integer"}}]
    choice = {"description": "One or many.", keyword: [*forms, {"type": "null"}], "default": "a"}
    assert fault_lines(parameters(which=choice)) == []
    assert wire_schema(parameters(which=choice))["properties"]["which"] == choice
    for wrong, path in (
        ({keyword: [{"type": "text"}]}, f"which.{keyword}[0].type"),
        ({keyword: [{"type": "integer", "minLength": 1}]}, f"which.{keyword}[0].minLength"),
        ({keyword: []}, f"which.{keyword}"),
        ({keyword: forms, "default": 3}, "which.default"),
        ({keyword: forms, "minLength": 3}, "which.minLength"),
        ({keyword: forms, "examples": 3}, "which.examples"),
        ({"type": "string", "default": 3, keyword: forms}, "which.default"),
    ):
        (line, *more) = fault_lines(parameters(which=wrong))
        assert line.startswith(f"parameters.properties.{path}:") and not more, line


def test_a_tuple_in_a_choice_is_told_to_clients_as_json_schema_2020_12_has_it() -> None:
    pair = {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}
    shown = wire_schema(parameters(which={"anyOf": [pair]}))["properties"]["which"]["anyOf"]
    assert shown == [{"type": "array", "prefixItems": pair["items"]}]
