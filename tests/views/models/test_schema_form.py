"""A JSON Schema becomes fields that a person can fill in; what is too much becomes a field for JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from mew_lab.views.tools.schema_form import MAX_FIELDS, MAX_LEVELS, FormField, plan, summary


def member(schema: Any, **more: Any) -> FormField:
    """The one member of an object with this schema."""
    (field,) = plan({"type": "object", "properties": {"it": schema}, **more})["members"]
    return dict(field)


def every(field: FormField) -> Iterator[FormField]:
    yield field
    for key in ("members", "variants", "parts"):
        for member in field.get(key, ()):
            yield from every(member)
    for key in ("items", "other"):
        if key in field:
            yield from every(field[key])


@pytest.mark.req("T-11")
@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, {"kind": "string", "lines": False, "format": ""}),
        ({"type": "string", "maxLength": 5000}, {"kind": "string", "lines": True}),
        ({"type": "string", "format": "date-time"}, {"format": "date-time", "hint": "2026-03-31T14:00:00Z"}),
        ({"type": "string", "default": "a\nb"}, {"lines": True, "default": '"a\\nb"'}),
        (
            {"type": "integer", "minimum": 1, "maximum": 9},
            {"kind": "integer", "limits": "at least 1, at most 9"},
        ),
        ({"type": "number", "exclusiveMinimum": 0}, {"kind": "number", "limits": "more than 0"}),
        ({"type": "boolean", "default": False}, {"kind": "boolean", "default": "false"}),
        ({"type": "null"}, {"kind": "null"}),
        (
            {"enum": ["a", 2, None]},
            {"kind": "choice", "options": [["a", '"a"'], ["2", "2"], ["null", "null"]]},
        ),
        ({"const": {"v": 1}}, {"kind": "constant", "value": '{"v": 1}'}),
        ({}, {"kind": "json"}),
        (True, {"kind": "json"}),
        (
            {"type": "array", "items": {"type": "integer"}, "minItems": 1},
            {"kind": "array", "limits": "at least 1 item"},
        ),
        (
            {"type": "string", "title": "What to say", "description": "Words"},
            {"title": "What to say", "about": "Words"},
        ),
    ],
)
def test_each_kind_of_schema_has_its_field(schema: Any, expected: dict[str, Any]) -> None:
    field = member(schema)
    assert {key: field[key] for key in expected} == expected
    assert field["key"] == "it" and field["required"] is False


@pytest.mark.req("T-11")
def test_what_is_required_comes_first_and_says_so() -> None:
    whole = plan({"properties": {"a": {}, "b": {}, "c": {}}, "required": ["c", "unlisted"]})
    assert [(member["key"], member["required"]) for member in whole["members"]] == [
        ("c", True), ("a", False), ("b", False), ("unlisted", True),
    ]  # fmt: skip


def test_several_forms_and_several_types_are_a_choice() -> None:
    field = member({"anyOf": [{"type": "string", "title": "name"}, {"type": "null"}, {"$ref": "#/$defs/at"}]},
                   **{"$defs": {"at": {"type": "object", "properties": {"x": {"type": "number"}}}}})  # fmt: skip
    assert field["kind"] == "variants"
    assert [(one["label"], one["kind"]) for one in field["variants"]] == [
        ("name", "string"), ("null", "null"), ("object", "object"),
    ]  # fmt: skip
    two = member({"type": ["integer", "null"], "minimum": 3})
    assert [one["kind"] for one in two["variants"]] == ["integer", "null"]
    assert two["variants"][0]["limits"] == "at least 3"


def test_lists_pairs_and_open_objects_have_fields_inside() -> None:
    assert member({"type": "array", "items": {"type": "string"}})["items"]["kind"] == "string"
    pair = member({"prefixItems": [{"type": "integer", "title": "from"}, {"type": "string"}], "items": False})
    assert pair["kind"] == "tuple" and "items" not in pair
    assert [(one["label"], one["kind"]) for one in pair["parts"]] == [
        ("from", "integer"),
        ("item 2", "string"),
    ]
    older = member({"items": [{"type": "integer"}], "additionalItems": {"type": "null"}, "type": "array"})
    assert [one["kind"] for one in older["parts"]] == ["integer"] and older["items"]["kind"] == "null"
    open_one = member({"type": "object", "additionalProperties": {"type": "number"}})
    assert open_one["members"] == [] and open_one["other"]["kind"] == "number"
    assert "other" not in member({"type": "object", "properties": {"a": {}}, "additionalProperties": False})


def test_parts_put_together_by_all_of_are_one_object() -> None:
    schema = {"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"$ref": "#/$defs/b"}],
              "$defs": {"b": {"properties": {"b": {"type": "integer"}}}}}  # fmt: skip
    assert [(member["key"], member["kind"], member["required"]) for member in plan(schema)["members"]] == [
        ("a", "string", True), ("b", "integer", False),
    ]  # fmt: skip


def test_a_reference_to_itself_ends_at_a_field_for_json() -> None:
    tree = {"$defs": {"t": {"type": "object", "properties": {"left": {"$ref": "#/$defs/t"}, "right": {"$ref": "#/$defs/t"}}}},
            "$ref": "#/$defs/t"}  # fmt: skip
    field, levels = plan(tree), 0
    while field["kind"] == "object":
        field, levels = field["members"][0], levels + 1
    assert field["kind"] == "json" and 2 <= levels <= MAX_LEVELS
    assert sum(1 for _ in every(plan(tree))) <= MAX_FIELDS
    assert member({"$ref": "http://127.0.0.1/x"})["kind"] == "json"


def deep(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.threat(8, 16)
@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {f"p{n}": {"type": "string", "description": "x" * 1000} for n in range(5000)}},
        {"properties": {"a": {"enum": list(range(10_000))}}},
        {"properties": {"a": {"enum": ["x" * 10_000] * 150}}},
        {
            "properties": {
                "a": {"description": "x" * 1_000_000, "title": "y" * 1_000_000, "default": "z" * 1_000_000}
            }
        },
        {"properties": {"a" * 100_000: {"anyOf": [{"anyOf": [{"type": "string"}] * 500}] * 500}}},
        deep(100),
        {"properties": {"a": {"prefixItems": [{"type": "integer"}] * 5000}}},
    ],
)
def test_a_plan_is_bounded_whatever_the_schema(schema: Any) -> None:
    whole = plan(schema)
    assert sum(1 for _ in every(whole)) <= MAX_FIELDS + 2 * MAX_LEVELS
    assert len(json.dumps(whole)) < 1_000_000


def test_what_is_left_out_is_said() -> None:
    many = plan(
        {"properties": {f"p{n}": {"type": "string"} for n in range(5000)}, "additionalProperties": False}
    )
    assert len(many["members"]) == 100
    assert many["note"].startswith("4900 more members are not shown") and "other" in many
    chosen = member({"enum": [f"v{n}" for n in range(10_000)]})
    assert chosen["kind"] == "string" and chosen["note"] == "One of 10000 values: v0, v1, v2, v3, v4 …"
    assert "4002 characters" in member({"type": "string", "default": "z" * 4000})["note"]
    fixed = member({"const": "z" * 4000})
    assert fixed["kind"] == "json" and "4002 characters: write it as JSON" in fixed["note"]
    named = plan({"properties": {"n" * 121: {}, "m" * 120: {}}, "additionalProperties": False})
    assert [one["label"] for one in named["members"]] == ["m" * 120]
    assert named["note"].startswith("1 more members are not shown") and "other" in named


@pytest.mark.threat(50)
def test_a_constant_and_a_choice_are_shown_to_their_end_and_a_title_beside_its_value() -> None:
    assert member({"const": "a" * 3000})["shown"] == "a" * 3000
    assert member({"enum": ["b" * 3000]})["options"][0][0] == "b" * 3000
    titled = member({"oneOf": [{"const": "10", "title": "Small"}, {"const": "1000000", "title": "Small"}]})
    assert titled["options"] == [["Small", '"10"', "10"], ["Small", '"1000000"', "1000000"]]


@pytest.mark.parametrize(
    ("schema", "options"),
    [
        ({"oneOf": [{"const": 1, "title": "Low"}, {"const": 2, "title": "High"}]}, [["Low", "1", "1"], ["High", "2", "2"]]),
        (
            {"anyOf": [{"const": "a", "title": "First", "description": "the old one", "type": "string"}, {"type": "null"}]},
            [["First: the old one", '"a"', "a"], ["null", "null"]],
        ),
        ({"anyOf": [{"enum": ["a", "b"], "type": "string"}, {"type": "null"}]}, [["a", '"a"'], ["b", '"b"'], ["null", "null"]]),
        ({"oneOf": [{"$ref": "#/$defs/low"}, {"const": True}], "$defs": {"low": {"const": 0, "title": "Off"}}},
         [["Off", "0", "0"], ["true", "true"]]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("whole", [False, True])
def test_values_of_which_one_is_chosen_are_one_choice_however_they_are_written(
    schema: Any, options: Any, whole: bool
) -> None:
    field = plan(schema, whole=whole)
    assert (field["kind"], field["options"]) == ("choice", options)


def test_what_has_a_default_is_not_called_required_but_where_a_server_asks_a_person() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/x"}, "b": {}},
        "required": ["a", "b"],
        "$defs": {"x": {"default": 1}},
    }
    assert {one["key"]: one["required"] for one in plan(schema)["members"]} == {"b": True, "a": False}
    assert {one["key"]: one["required"] for one in plan(schema, whole=True)["members"]} == {
        "a": True,
        "b": True,
    }


@pytest.mark.threat(50)
def test_a_plan_of_a_whole_schema_leaves_no_text_out() -> None:
    end = "x " * 5000 + "PAY-1000"
    field = {
        "type": "string",
        "title": "A " + end,
        "description": end,
        "default": end,
        "pattern": end,
        "x": end,
    }
    [one] = plan({"properties": {end: field}}, whole=True)["members"]
    parts = (one["label"], one["title"], one["about"], one["offered"], one["limits"], one["more"])
    assert all("PAY-1000" in part and "…" not in part for part in parts)


@pytest.mark.threat(17)
def test_what_is_read_is_visible_and_what_is_sent_is_exact() -> None:
    field = member({"type": "string", "description": "a\u202eb", "default": "x\u200by"})
    assert field["about"] == "a\\u202eb"
    assert (json.loads(field["default"]), field["offered"]) == ("x\u200by", '"x\\u200by"')
    (one,) = plan({"properties": {"k\u202e": {"enum": ["v\u2066"]}}})["members"]
    assert (one["key"], one["label"]) == ("k\u202e", "k\\u202e")
    assert one["options"][0][0] == '"v\\u2066"' and json.loads(one["options"][0][1]) == "v\u2066"


@pytest.mark.parametrize(
    "schema", [None, 7, [], "x", {"properties": 3, "required": 4, "type": 5, "allOf": [1], "anyOf": [2]}]
)
def test_what_is_no_schema_is_a_field_all_the_same(schema: Any) -> None:
    assert plan(schema)["kind"] in ("json", "object", "variants")


def test_a_summary_names_types_and_what_is_required() -> None:
    schema = {"properties": {"a": {"type": ["string", "null"]}, "b": {"type": "array", "items": {"type": "integer"}},
                             "c": {"enum": [1]}, "d": {"$ref": "#/$defs/Place"}, "e": True}, "required": ["e"]}  # fmt: skip
    assert summary(schema) == [
        ("e", "anything", True), ("a", "string or null", False), ("b", "array of integer", False),
        ("c", "choice", False), ("d", "Place", False),
    ]  # fmt: skip
    assert summary("nonsense") == []
