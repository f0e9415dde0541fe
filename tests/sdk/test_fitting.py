"""Arguments are checked as JSON Schema 2020-12 says, at a bounded price, whatever the schema."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

from mew_lab.sdk.fitting import Fitting


def faults(schema: Any, arguments: Any) -> dict[tuple[str | int, ...], str]:
    return {fault.path: fault.said for fault in Fitting(schema).check(arguments).faults}


OBJECT: dict[str, Any] = {
    "type": "object",
    "required": ["path", "count"],
    "additionalProperties": False,
    "properties": {
        "path": {"type": "string", "minLength": 2, "pattern": "^[a-z/]+$"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "step": {"type": "number", "multipleOf": 0.1},
        "kind": {"enum": ["a", "b", 3]},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "maxItems": 2},
        "place": {"type": "object", "required": ["x"], "properties": {"x": {"$ref": "#/$defs/coordinate"}}},
        "pair": {"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False},
    },
    "$defs": {"coordinate": {"type": "number", "exclusiveMaximum": 90}},
}


@pytest.mark.parametrize(
    ("more", "path", "said"),
    [
        ({"path": "a"}, ("path",), "must have at least 2 characters"),
        ({"path": "A/B"}, ("path",), "must contain a match of ^[a-z/]+$"),
        ({"path": 7}, ("path",), "must be a string"),
        ({"count": 0}, ("count",), "must be at least 1"),
        ({"count": 10}, ("count",), "must be at most 9"),
        ({"count": True}, ("count",), "must be an integer"),
        ({"count": 1.5}, ("count",), "must be an integer"),
        ({"step": 0.25}, ("step",), "must be a multiple of 0.1"),
        ({"kind": "c"}, ("kind",), "must be one of 'a', 'b', 3"),
        ({"tags": ["x", 1]}, ("tags", 1), "must be a string"),
        ({"tags": ["x", "x"]}, ("tags",), "must not hold the same item twice"),
        ({"tags": ["x", "y", "z"]}, ("tags",), "must have at most 2 items"),
        ({"place": {}}, ("place", "x"), "is required"),
        ({"place": {"x": 90}}, ("place", "x"), "must be less than 90"),
        ({"pair": [1, 2]}, ("pair", 1), "must be a string"),
        ({"other": 1}, ("other",), "is not known to this tool"),
    ],
)
def test_what_does_not_fit_is_said_with_its_place(more: dict[str, Any], path: Any, said: str) -> None:
    assert faults(OBJECT, {"path": "a/b", "count": 1} | more) == {path: said}


def test_what_fits_has_no_fault_and_what_lacks_is_named_one_by_one() -> None:
    assert faults(OBJECT, {"path": "ab", "count": 9, "step": 0.3, "kind": 3, "pair": [1, "x"]}) == {}
    assert faults(OBJECT, {}) == {("path",): "is required", ("count",): "is required"}
    assert faults(OBJECT, []) == {(): "must be an object"}


def test_of_several_forms_the_one_that_was_meant_is_told() -> None:
    schema = {
        "properties": {
            "at": {
                "anyOf": [
                    {"type": "string"},
                    {"type": "object", "required": ["lat"], "properties": {"lat": {"type": "number"}}},
                ]
            }
        }
    }
    assert faults(schema, {"at": "here"}) == {} == faults(schema, {"at": {"lat": 1}})
    assert faults(schema, {"at": {"lat": "north"}}) == {("at", "lat"): "must be a number"}
    assert faults(schema, {"at": {}}) == {("at", "lat"): "is required"}
    assert faults(schema, {"at": 5}) == {("at",): "fits none of the forms that the schema allows"}
    both = {"oneOf": [{"type": "integer"}, {"minimum": 2}]}
    assert faults(both, 3) == {(): "fits more than one of the forms of which it must fit exactly one"}


def test_the_tuples_of_older_drafts_are_understood() -> None:
    schema = {"items": [{"type": "integer"}], "additionalItems": {"type": "string"}}
    assert faults(schema, [1, "a"]) == {}
    assert faults(schema, ["a", 1]) == {(0,): "must be an integer", (1,): "must be a string"}


def chained(depth: int) -> dict[str, Any]:
    """2 to the power of `depth` checks, in a few lines."""
    steps = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(depth)}
    return {"$defs": steps | {f"d{depth}": True}, "$ref": "#/$defs/d0"}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"properties": {"a": schema}}
    return schema


@pytest.mark.threat(6, 8)
@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({"properties": {"s": {"pattern": "(a+)+$"}}}, {"s": "a" * 100_000 + "!"}),
        ({"patternProperties": {"(a+)+$": False}}, {"a" * 50_000 + "!": 1}),
        (chained(22), {}),
        ({"$ref": "#"}, {}),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, {}),
        (nested(500), {}),
        ({"properties": {f"p{n}": {"type": "string"} for n in range(5000)}}, {"p1": "x"}),
        ({"enum": [{"n": n} for n in range(10_000)]}, {}),
        ({"description": "x" * 1_000_000, "properties": {"a": {"multipleOf": 1e-308}}}, {"a": 1e308}),
        ({"anyOf": [{"type": "string"}] * 5000}, {"a": list(range(20_000))}),
        ({"anyOf": [{"type": "integer"}] * 5000}, {"a": "x" * 1_000_000}),
        ({"properties": {"a": {"items": {"enum": [*range(9000), "x"]}}}}, {"a": ["x"] * 20_000}),
        ({"properties": {"a": {"uniqueItems": True}}}, {"a": [{"n": n} for n in range(10_000)]}),
        ({"required": ["a"] * 100_000, "allOf": [{"required": ["a"] * 10_000}] * 5000}, {"a": 1}),
        ({"allOf": [{"additionalProperties": {"items": True}}] * 9000}, {"a": list(range(20_000))}),
        ({"patternProperties": {f"^x{n}": False for n in range(2000)}}, {f"k{n}": 1 for n in range(5000)}),
        ({"allOf": [{"propertyNames": {"pattern": f"(\\pL{{31}}){{31}}{n}"}} for n in range(900)]}, {"a": 1}),
    ],
)
def test_no_schema_makes_a_check_long(schema: Any, arguments: Any) -> None:
    Fitting({}).check({})  # the library is loaded once
    began = time.monotonic()
    fitting = Fitting(schema)
    fitting.gaps()
    fitting.check(arguments)
    assert time.monotonic() - began < 5.0, "it must end; here it takes well below a second"


@pytest.mark.parametrize(
    ("schema", "noted"),
    [
        ({"properties": {"a": {"pattern": "(?=look)x"}}}, "pattern (?=look)x"),
        ({"properties": {"a": {"$ref": "#/$defs/nowhere"}}}, "#/$defs/nowhere"),
        ({"properties": {"a": {"type": "strnig"}}}, "the rule type"),
        ({"required": "a"}, "the rule required"),
        ({"multipleOf": 0}, "the rule multipleOf"),
        ({"unevaluatedProperties": False}, "the rule unevaluatedProperties"),
        ({"properties": {"a": 7}}, "what is no schema"),
        ([], "what is no schema"),
        (nested(100), "nested too deeply"),
        ({"properties": {"a": {"enum": ["b"] * 30_000}}}, "goes on too long"),
    ],
)
def test_what_cannot_be_checked_is_a_note_and_no_fault(schema: Any, noted: str) -> None:
    fit = Fitting(schema).check({"a": "value"})
    assert fit.faults == ()
    assert any(noted in note for note in fit.notes), fit.notes


@pytest.mark.threat(3)
@pytest.mark.parametrize(
    "rules",
    [
        {"$ref": "{url}"},
        {"$id": "{url}", "$ref": "#/x"},
        {
            "$schema": "{url}",
            "properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "{url}"}},
        },
        {"unevaluatedProperties": False, "allOf": [{"$ref": "{url}"}]},
        {"$dynamicRef": "{url}"},
    ],
)
def test_a_schema_makes_nobody_ask_an_address(rules: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.settimeout(0.0)
        url = f"http://127.0.0.1:{trap.getsockname()[1]}/schema"

        def named(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: named(one) for key, one in value.items()}
            return (
                [named(one) for one in value]
                if isinstance(value, list)
                else url
                if value == "{url}"
                else value
            )

        Fitting(named(rules)).check({"a": 1})
        with pytest.raises(BlockingIOError):
            trap.accept()


def test_faults_are_few_and_short() -> None:
    schema = {"additionalProperties": {"enum": ["x" * 5000]}}
    fit = Fitting(schema).check({f"k{n}": n for n in range(500)})
    assert len(fit.faults) == 50
    assert max(len(fault.said) for fault in fit.faults) <= 200


@pytest.mark.parametrize(
    ("schema", "path", "said"),
    [
        ({"properties": {"a": {"type": "strnig"}}}, ("properties", "a", "type"), "ill-formed"),
        ({"allOf": [{}, {"required": "a"}]}, ("allOf", 1, "required"), "ill-formed"),
        ({"properties": {"a": 7}}, ("properties", "a"), "no schema"),
        ({"items": [{"pattern": "(?=look)x"}]}, ("items", 0, "pattern"), "looks around or back"),
        ({"patternProperties": {r"(a)\1": {}}}, ("patternProperties",), "looks around or back"),
        ({"not": {"pattern": "["}}, ("not", "pattern"), "no regular expression"),
        ({"pattern": "a" * 1000}, ("pattern",), "too long"),
        ({"$ref": "http://127.0.0.1:9/x"}, ("$ref",), "nothing else is fetched"),
        (
            {"properties": {"a": {"$ref": "#/$defs/none"}}},
            ("properties", "a", "$ref"),
            "no place of this schema",
        ),
        ({"unevaluatedProperties": False}, ("unevaluatedProperties",), "cannot be checked"),
        ({"$dynamicRef": "#a"}, ("$dynamicRef",), "cannot be checked"),
    ],
)
def test_what_can_never_be_checked_is_a_gap_with_its_place(schema: Any, path: Any, said: str) -> None:
    [gap] = Fitting(schema).gaps()
    assert gap.path == path and said in gap.said


def test_what_is_well_formed_and_what_says_nothing_leave_no_gap() -> None:
    assert Fitting(OBJECT).gaps() == ()
    assert Fitting({"$ref": "#/definitions/a", "definitions": {"a": {"minLength": 2.0}}}).gaps() == ()
    silent = {
        "format": "date",
        "x-mine": {"$ref": 7},
        "title": 5,
        "$comment": "",
        "examples": [{"pattern": "["}],
    }
    assert Fitting(silent).gaps() == ()


def test_a_long_value_of_a_large_message_is_checked_to_its_end() -> None:
    schema = {"properties": {"a": {"items": {"type": "integer", "minimum": 0}}}}
    fit = Fitting(schema).check({"a": [*range(12_000), -1]})
    assert [fault.path for fault in fit.faults] == [("a", 12_000)] and fit.notes == ()
