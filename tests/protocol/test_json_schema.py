"""Values are validated as JSON Schema 2020-12 says, at a bounded price, whatever the schema."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from datetime import date
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mew_lab.protocol.json_schema import Validator, Violation, members_of, resolve_reference

from ..conftest import examples


def violations(schema: Any, value: Any) -> dict[tuple[str | int, ...], str]:
    return {one.path: one.message for one in Validator(schema).validate(value).violations}


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
    assert violations(OBJECT, {"path": "a/b", "count": 1} | more) == {path: said}


# --- the same answer as another reading of the specification ---

numbers = st.integers(-2, 4) | st.sampled_from([0.5, 1.0, 2.5])
counts = st.integers(0, 3)
names = st.lists(st.sampled_from("ab"), max_size=2, unique=True)
patterns = st.sampled_from(["a", "^b", "[0-9]$", "a+b"])
types = st.sampled_from(["string", "number", "integer", "boolean", "null", "array", "object"])
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.text("ab1", max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas of one or two families of rules that know each other."""
    by_name = st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    several = st.lists(inner, min_size=1, max_size=3)
    families: list[dict[str, st.SearchStrategy[Any]]] = [
        {"type": types | st.lists(types, min_size=1, max_size=2, unique=True)},
        {"enum": st.lists(json_values, min_size=1, max_size=3)},
        {"const": json_values},
        dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), numbers),
        {"multipleOf": st.sampled_from([1, 2, 3, 0.5])},
        {"minLength": counts, "maxLength": counts, "pattern": patterns},
        {"minItems": counts, "maxItems": counts, "uniqueItems": st.booleans()},
        {"prefixItems": several, "items": inner},
        {"contains": inner, "minContains": counts, "maxContains": counts},
        {"minProperties": counts, "maxProperties": counts, "required": names, "propertyNames": inner},
        {"properties": by_name, "patternProperties": st.dictionaries(patterns, inner, max_size=2), "additionalProperties": inner},
        {"dependentSchemas": by_name, "dependentRequired": st.dictionaries(st.sampled_from("ab"), names, max_size=2)},
        {"if": inner, "then": inner, "else": inner},
        {"allOf": several}, {"anyOf": several}, {"oneOf": several}, {"not": inner},
        {"$ref": st.sampled_from(["#/$defs/a", "#/$defs/b"])},
    ]  # fmt: skip
    one = st.sampled_from(families).flatmap(lambda rules: st.fixed_dictionaries({}, optional=rules))
    return st.tuples(one, one).map(lambda pair: pair[0] | pair[1])


leaves = st.booleans() | objects(st.booleans())
schemas = st.recursive(leaves, objects, max_leaves=5)
RECURSIVE = {"properties": {"a": {"$ref": "#"}, "b": {"type": "null"}}, "additionalProperties": False}


@settings(max_examples=examples(500), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schema=schemas, a=leaves, b=leaves, value=json_values)
@example(schema=RECURSIVE, a=True, b=True, value={"a": {"a": {"b": 1}}})
@example(schema={"exclusiveMinimum": 1}, a=True, b=True, value=1)
@example(schema={"exclusiveMaximum": 1}, a=True, b=True, value=1)
@example(schema={"if": False, "else": False}, a=True, b=True, value=1)
@example(schema={"enum": [[1, {"a": True}]]}, a=True, b=True, value=[1.0, {"a": 1}])
@example(schema={"contains": {"type": "null"}, "minContains": 0}, a=True, b=True, value=[])
@example(schema={"oneOf": [True, False, {"$ref": "#/$defs/a"}]}, a={"minItems": 2}, b=True, value=[1])
@example(schema={"oneOf": [False, {"$ref": "#/$defs/a"}]}, a={"minItems": 2}, b=True, value=[1])
@example(schema={"oneOf": [True, {"$ref": "#/$defs/a"}]}, a={"minItems": 1}, b=True, value=[1])
def test_a_value_fits_if_and_only_if_jsonschema_says_so(schema: Any, a: Any, b: Any, value: Any) -> None:
    whole = {**schema, "$defs": {"a": a, "b": b}} if isinstance(schema, dict) else schema
    try:
        expected = jsonschema.Draft202012Validator(whole).is_valid(value)
    except RecursionError:  # `a` and `b` refer to each other
        return
    result = Validator(whole).validate(value)
    if result.complete:
        assert (result.violations == ()) is expected, result
        assert result.notes == ()
    else:
        assert "$ref" in str(whole)


@given(schema=json_values | st.dictionaries(st.sampled_from(["type", "items", "required", "$ref", "properties", "enum", "not"]), json_values), value=json_values)  # fmt: skip
def test_no_text_that_claims_to_be_a_schema_raises(schema: Any, value: Any) -> None:
    validator = Validator(schema)
    assert len(validator.gaps()) <= 50 and len(validator.validate(value).violations) <= 50


def test_the_validator_comes_without_a_library_of_a_second() -> None:
    code = """
import sys
from mew_lab.sdk.signature import Signature
Signature(lambda a: a, name="f").bind({"a": 1})
print([name for name in ("jsonschema", "rfc3987_syntax", "lark", "referencing") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True
    )
    assert done.stdout == "[]\n"


# --- rules one by one ---


def test_a_reference_leads_to_a_schema_of_the_same_document_or_nowhere() -> None:
    root = {"$defs": {"a/b": {"type": "null"}, "list": {"prefixItems": [{"type": "string"}]}}, "n": 1}
    assert resolve_reference(root, "#") is root
    assert resolve_reference(root, "#/$defs/a~1b") == {"type": "null"}
    assert resolve_reference(root, "#/$defs/list/prefixItems/0") == {"type": "string"}
    for nowhere in ("#/n", "#/$defs/list/prefixItems/7", "other.json#/a", "#anchor", "#/$defs/none"):
        assert resolve_reference(root, nowhere) is None


# JSON Schema core 4.2.2: numbers are equal by value, objects by members, and a boolean is no number.
@pytest.mark.parametrize(
    ("items", "unique"),
    [
        ([1, 1.0], False),
        ([0, False, "", None, [], {}], True),
        ([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}], False),
        ([[1, 2], [2, 1], [True], [1], "1"], True),
    ],
)
def test_items_are_the_same_when_their_json_is(items: list[Any], unique: bool) -> None:
    assert (violations({"uniqueItems": True}, items) == {}) is unique


def test_a_value_as_deep_as_a_message_may_be_is_validated_to_its_end() -> None:
    schema = {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}], "$defs": {"node": RECURSIVE | {"properties": {"a": {"$ref": "#"}}}}}  # fmt: skip
    value: Any = {"c": 1}
    for _ in range(45):
        value = {"a": value}
    result = Validator(schema).validate(value)
    assert result.complete and result.notes == () and result.violations
    deeper: Any = None
    for _ in range(500):
        deeper = {"a": deeper}
    assert not Validator(schema).validate(deeper).complete


def test_what_fits_has_no_violation_and_what_lacks_is_named_one_by_one() -> None:
    assert violations(OBJECT, {"path": "ab", "count": 9, "step": 0.3, "kind": 3, "pair": [1, "x"]}) == {}
    assert violations(OBJECT, {}) == {("path",): "is required", ("count",): "is required"}
    assert violations(OBJECT, []) == {(): "must be an object"}


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
    assert violations(schema, {"at": "here"}) == {} == violations(schema, {"at": {"lat": 1}})
    assert violations(schema, {"at": {"lat": "north"}}) == {("at", "lat"): "must be a number"}
    assert violations(schema, {"at": {}}) == {("at", "lat"): "is required"}
    assert violations(schema, {"at": 5}) == {("at",): "fits none of the forms that the schema allows"}
    both = {"oneOf": [{"type": "integer"}, {"minimum": 2}]}
    assert violations(both, 3) == {(): "fits more than one of the forms of which it must fit exactly one"}


def test_the_tuples_of_older_drafts_are_understood() -> None:
    schema = {"items": [{"type": "integer"}], "additionalItems": {"type": "string"}}
    assert violations(schema, [1, "a"]) == {}
    assert violations(schema, ["a", 1]) == {(0,): "must be an integer", (1,): "must be a string"}


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
    began = time.monotonic()
    validator = Validator(schema)
    validator.gaps()
    validator.validate(arguments)
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
def test_what_cannot_be_checked_is_a_note_and_no_violation(schema: Any, noted: str) -> None:
    result = Validator(schema).validate({"a": "value"})
    assert result.violations == ()
    assert any(noted in note for note in result.notes), result.notes


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

        Validator(named(rules)).validate({"a": 1})
        with pytest.raises(BlockingIOError):
            trap.accept()


def test_violations_are_few_and_short() -> None:
    schema = {"additionalProperties": {"enum": ["x" * 5000]}}
    result = Validator(schema).validate({f"k{n}": n for n in range(500)})
    assert len(result.violations) == 50
    assert max(len(one.message) for one in result.violations) <= 200


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
    [gap] = Validator(schema).gaps()
    assert gap.path == path and said in gap.message


def test_what_is_well_formed_and_what_says_nothing_leave_no_gap() -> None:
    assert Validator(OBJECT).gaps() == ()
    assert Validator({"$ref": "#/definitions/a", "definitions": {"a": {"minLength": 2.0}}}).gaps() == ()
    silent = {
        "format": "date",
        "x-mine": {"$ref": 7},
        "title": 5,
        "$comment": "",
        "examples": [{"pattern": "["}],
    }
    assert Validator(silent).gaps() == ()


def test_a_long_value_of_a_large_message_is_checked_to_its_end() -> None:
    schema = {"properties": {"a": {"items": {"type": "integer", "minimum": 0}}}}
    result = Validator(schema).validate({"a": [*range(12_000), -1]})
    assert [one.path for one in result.violations] == [("a", 12_000)] and result.notes == ()


def test_members_that_come_beside_others_are_asked_for() -> None:
    """Spec: JSON Schema Validation 6.5.4, Core 10.2.2.4."""
    beside = {"dependentRequired": {"card": ["name", "code"]}}
    assert violations(beside, {"card": 1, "name": "a"}) == {("code",): "is required beside card"}
    assert violations(beside, {"name": "a"}) == violations(beside, "card") == {}
    more = {"dependentSchemas": {"card": {"required": ["code"]}}}
    assert violations(more, {"card": 1}) == {("code",): "is required"}
    assert violations(more, {}) == violations(more, ["card"]) == {}


@pytest.mark.parametrize("value", [7, "text", None, True])
def test_a_rule_looks_at_values_of_its_own_type_alone(value: Any) -> None:
    """Spec: JSON Schema Core 7.6.1."""
    schema = {
        "additionalProperties": False,
        "patternProperties": {"a": False},
        "propertyNames": False,
        "required": ["a"],
        "properties": {"a": False},
        "items": False,
        "prefixItems": [False],
        "contains": False,
    }
    assert violations(schema, value) == {}


def test_what_the_schema_says_of_the_other_members_and_items() -> None:
    """Spec: JSON Schema Core 10.3.1.2, 10.3.2.2."""
    assert violations({"patternProperties": {"^n": {"type": "integer"}}}, {"n": "x", "m": "x"}) == {
        ("n",): "must be an integer"
    }
    assert violations({"prefixItems": [{"type": "integer"}], "items": False}, [1, 2]) == {
        (): "must have at most 1 item"
    }


def test_a_multiple_of_whole_numbers_is_exact_and_one_of_fractions_is_meant_as_decimals() -> None:
    assert violations({"multipleOf": 3}, 10**30) == {(): "must be a multiple of 3"}
    assert violations({"multipleOf": 3}, 3 * 10**30) == {}
    assert violations({"multipleOf": 0.1}, 0.3) == {}
    assert violations({"multipleOf": 0.1}, 10**400) == {}, "no double holds it: nothing is said against it"


def test_what_yaml_has_beside_json_is_compared_and_shown() -> None:
    day, other = date(2026, 1, 1), date(2026, 1, 2)
    assert violations({"enum": [day, None]}, day) == violations({"enum": [day, None]}, None) == {}
    assert violations({"const": day}, other)
    assert violations({"patternProperties": {"^1": {"type": "integer"}}}, {1: "x"}) == {}
    assert violations({"const": 10**5000}, 1) == {(): "must be a number of very many digits"}


def test_a_pattern_that_takes_too_long_with_a_text_is_noted() -> None:
    found = Validator({"pattern": "(?:[a-z]{1,100}){5}z"}).validate("a" * 1_000_000)
    assert found.violations == () and any("takes too long with this text" in note for note in found.notes)


def test_so_many_items_have_to_be_there() -> None:
    """Spec: JSON Schema Validation 6.4.4, 6.4.5."""
    few = {"contains": {"type": "integer"}, "minContains": 2}
    assert violations(few, [1, "x"]) == {
        (): "must hold at least 2 of the items that the schema asks for, not 1"
    }
    assert violations(few, [1, "x", 2]) == {}
    many = {"contains": {"type": "integer"}, "maxContains": 1}
    assert violations(many, [1, 2]) == {
        (): "must hold at most 1 of the items that the schema asks for, not 2"
    }


# --- the schema of a peer, which judges its calls itself ---

SCALE = {"type": "string", "enum": ["css", "device"], "default": "css"}


@st.composite
def defaulted(draw: st.DrawFn, levels: int = 2) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """A schema whose members are required, a call of it, and the call without members that have a default."""
    properties: dict[str, Any] = {}
    whole: dict[str, Any] = {}
    part: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True)):
        kind = draw(st.sampled_from(["scale", "number", "reference", *["object", "list"] * (levels > 0)]))
        if kind in ("scale", "reference"):
            properties[name] = SCALE if kind == "scale" else {"$ref": "#/$defs/scale"}
            whole[name] = "css"
        elif kind == "number":
            properties[name], whole[name], part[name] = {"type": "number"}, 1, 1
        else:
            inner, all_of_it, some = draw(defaulted(levels - 1))
            is_list = kind == "list"
            properties[name] = {"type": "array", "items": inner, "minItems": 1} if is_list else inner
            whole[name], part[name] = ([all_of_it], [some]) if is_list else (all_of_it, some)
    schema = {"type": "object", "properties": properties, "required": sorted(properties)}
    form = draw(st.sampled_from(["plain", "allOf", "anyOf", "oneOf", "apart"]))
    if form == "apart":
        schema = {"allOf": [{"properties": properties}], "required": sorted(properties)}
    elif form == "allOf":
        schema = {"allOf": [schema]}
    elif form in ("anyOf", "oneOf"):
        schema = {form: [schema, {"type": "object", "required": ["none"]}]}
    return {**schema, "type": "object"}, whole, part


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(made=defaulted())
def test_a_missing_member_that_has_a_default_is_no_fault_of_a_call(made: Any) -> None:
    schema, whole, part = made
    schema = {**schema, "$defs": {"scale": SCALE}}
    for arguments in (whole, part):
        before = json.dumps(arguments)
        assert Validator(schema, of_peer=True).validate(arguments).violations == ()
        assert json.dumps(arguments) == before  # and nothing is filled in
    assert (Validator(schema).validate(part).violations == ()) is (part == whole)
    wrong = {**part, next(iter(whole)): None}
    assert Validator(schema, of_peer=True).validate(wrong).violations


@settings(max_examples=examples(500), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    schema=schemas,
    defaults=st.dictionaries(st.sampled_from("ab"), json_values, max_size=2),
    value=json_values,
)
@example(
    schema={"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, defaults={"a": 1, "b": 1}, value={"a": 1}
)
@example(schema={"not": {"required": ["a"]}}, defaults={"a": 1}, value={})
@example(schema={"if": {"required": ["a"]}, "then": False}, defaults={"a": 1}, value={})
@example(schema={"not": {"properties": {"a": {"default": 1}}, "required": ["a"]}}, defaults={}, value={})
@example(schema={"contains": {"required": ["a"]}, "maxContains": 0}, defaults={"a": 1}, value=[{}])
def test_a_call_is_refused_only_where_a_standard_validator_refuses_it(
    schema: Any, defaults: dict[str, Any], value: Any
) -> None:
    members = {name: {"default": default} for name, default in defaults.items()}
    whole = {"allOf": [{"properties": members, "items": {"properties": members}}, schema]}
    whole["$defs"] = {"a": {"properties": members}, "b": True}
    if Validator(whole, of_peer=True).validate(value).violations:
        assert not jsonschema.Draft202012Validator(whole).is_valid(value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "^a$"}, "b"),
        ({"anyOf": [{"pattern": "^a$"}, {"type": "integer"}]}, "b"),
        ({"oneOf": [{"pattern": "a"}, {"pattern": "b"}]}, "ab"),
        ({"not": {"pattern": "a"}}, "a"),
        ({"not": {"unevaluatedProperties": False}}, {}),
        ({"not": {"$ref": "https://elsewhere.example/schema"}}, 1),
        ({"if": {"pattern": "a"}, "then": {"maxLength": 1}}, "ab"),
        ({"contains": {"pattern": "a"}}, ["b"]),
        ({"patternProperties": {"^x": {}}, "additionalProperties": False}, {"a": 1}),
        ({"patternProperties": {"a": {"type": "string"}}}, {"a": 1}),
        ({"propertyNames": {"pattern": "b"}}, {"a": 1}),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "$defs": {"a": {}},
                "$ref": "#/$defs/a",
                "type": "string",
            },
            1,
        ),
    ],
)
def test_what_another_reader_may_allow_is_a_doubt_and_no_violation(schema: Any, value: Any) -> None:
    fit = Validator(schema, of_peer=True).validate(value)
    assert fit.doubts and not fit.violations
    assert Validator(schema).validate(value).violations  # of its own tool nobody is in doubt


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        ({"properties": {"a": {}, "b": {"default": 1}}, "required": ["a", "b"]}, {"a": True, "b": False}),
        ({"anyOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}}]}, {"a": False, "b": False}),
        ({"oneOf": [{"required": ["a"]}, {"required": ["a", "b"]}]}, {"a": True, "b": False}),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"properties": {"a": {}}, "required": ["a"]}}}, {"a": True}),
        ({"allOf": [{"properties": {"a": {"default": 0}}}], "required": ["a"]}, {"a": False}),
        ({"allOf": [{"$ref": "#"}], "properties": {"a": {}}}, {"a": False}),
        ({"properties": [], "required": 7, "anyOf": "x", "allOf": [1]}, {}),
        (True, {}),
    ],
)  # fmt: skip
def test_the_members_of_a_schema_are_found_wherever_it_names_them(schema: Any, named: Any) -> None:
    assert {name: member.required for name, member in members_of(schema).items()} == named


def test_a_schema_of_very_many_references_is_looked_through_in_bounds() -> None:
    chain = {f"x{n}": {"$ref": f"#/$defs/x{n + 1}"} for n in range(3000)}
    schema = {"$defs": chain, "properties": chain, "required": sorted(chain), "anyOf": [{"$ref": "#"}] * 500}
    began = time.process_time()
    members_of(schema)
    Validator(schema, of_peer=True).validate({})
    assert time.process_time() - began < 2


def test_a_violation_reads_as_a_sentence() -> None:
    assert str(Violation(("a", 0), "must be an integer")) == "a.0 must be an integer"
    assert str(Violation((), "must be an object")) == "the arguments must be an object"
