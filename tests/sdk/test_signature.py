"""Signatures: docstrings, schemas and the binding of arguments. What a tool makes of them is in test_tools."""

from __future__ import annotations

import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Annotated, Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from mew_lab.errors import ConfigError
from mew_lab.sdk.signature import BadArguments, GivenSchema, Signature, documentation


def test_numpy_and_google_words_are_told_from_the_story() -> None:
    def function() -> None:
        """One
        line.

        Note: not a section.

        Parameters:
            first: said
            **second (dict): also said
                over two lines: really

        Raises:
            first: never
        """

    assert documentation(function) == (
        "One line.",
        {"first": "said", "second": "also said over two lines: really"},
    )
    assert documentation(lambda: None) == ("", {})


@pytest.mark.req("S-SEC-4", "S-ERR-6")
def test_at_most_twenty_faults_are_told() -> None:
    def many(numbers: list[int]) -> None: ...

    with pytest.raises(BadArguments) as caught:
        Signature(many, name="many").bind({"numbers": ["x"] * 1000})
    assert len(caught.value.faults) == 20
    assert caught.value.faults[1] == {
        "path": "arguments.numbers[1]",
        "message": "must be an integer",
    }


def test_defaults_that_json_cannot_say_are_left_to_python() -> None:
    marker = object()

    def function(a: Any = marker, b: float = float("inf")) -> Any:
        return a

    signature = Signature(function, name="f")
    assert "default" not in signature.schema["properties"]["a"]
    assert signature.bind({}).kwargs == {}
    assert "required" not in signature.schema


def test_a_signature_that_cannot_be_read_is_a_sentence() -> None:
    with pytest.raises(ConfigError, match="dict cannot be a tool: "):
        Signature(dict, name="dict")


@given(
    a=st.integers(-(10**9), 10**9),
    b=st.text("aé\n\u202e😀"),
    c=st.lists(st.booleans()),
)
def test_what_fits_the_schema_arrives_as_it_was(a: int, b: str, c: list[bool]) -> None:
    assert THREE.bind({"a": a, "b": b, "c": c}).kwargs == {"a": a, "b": b, "c": c}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("ab1.", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=6,
)


@given(arguments=st.dictionaries(st.sampled_from("abcd"), json_values, max_size=4))
def test_binding_refuses_exactly_what_the_schema_refuses(arguments: Any) -> None:
    valid = jsonschema.Draft202012Validator(THREE.schema).is_valid(arguments)
    try:
        THREE.bind(arguments)
    except BadArguments as fault:
        assert not valid and fault.faults
    else:
        assert valid


def _three(a: int, b: str = "", c: list[bool] | None = None) -> None: ...


THREE = Signature(_three, name="three")


# --- a schema that somebody wrote ---


def bound(schema: dict[str, Any], arguments: dict[str, Any]) -> list[dict[str, str]]:
    """The faults of the arguments; the schema is that of their members."""
    try:
        given = GivenSchema({"type": "object", **schema}, name="t")
        assert given.bind(arguments).kwargs == arguments
    except BadArguments as fault:
        return fault.faults
    return []


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str]]]:
    """The address of a server that answers `true`, and the paths that it was asked for."""
    paths: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"true")

        def log_message(self, *said: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Answer)
    serving = threading.Thread(target=server.serve_forever, args=(0.02,))
    serving.start()
    yield f"http://127.0.0.1:{server.server_port}", paths
    server.shutdown()
    serving.join()
    server.server_close()


@pytest.mark.threat(3)
def test_a_schema_that_leads_to_an_address_is_refused_and_nobody_is_asked(
    asked: tuple[str, list[str]],
) -> None:
    url, paths = asked
    for one in (
        {"$ref": f"{url}/a"},
        {"properties": {"a": {"$ref": f"{url}/b#/$defs/x"}}},
        {"$id": f"{url}/c", "properties": {"a": {"$ref": "d"}}},
        {"$dynamicRef": f"{url}/e"},
        {"unevaluatedProperties": {"$ref": f"{url}/f"}},
    ):
        with pytest.raises(ConfigError, match=r"t cannot be a tool: .*inputSchema\."):
            bound(one, {"a": 1})
    elsewhere = {"$schema": f"{url}/g", "$id": f"{url}/h", "properties": {"a": {"type": "integer"}}}
    assert bound(elsewhere, {"a": 1}) == []
    assert paths == []
    with urllib.request.urlopen(f"{url}/asked", timeout=10) as answer:
        assert answer.read() == b"true" and paths == ["/asked"]


BOMB, LONG = "(a+)+$", "a" * 100_000 + "!"


@pytest.mark.threat(6)
@pytest.mark.parametrize(
    ("rules", "arguments", "path"),
    [
        ({"properties": {"a": {"pattern": f"^{BOMB}"}}}, {"a": LONG}, "arguments.a"),
        ({"patternProperties": {f"^{BOMB}": True}, "additionalProperties": False}, {LONG: 1}, "arguments."),
        ({"propertyNames": {"pattern": f"^{BOMB}"}}, {LONG: 1}, "arguments"),
    ],
)
def test_a_pattern_bomb_is_decided_at_once(rules: Any, arguments: Any, path: str) -> None:
    bound({}, {})  # the library is loaded once
    began = time.monotonic()
    [fault] = bound(rules, arguments)
    assert time.monotonic() - began < 1.0, "it must end; here it takes some milliseconds"
    assert fault["path"].startswith(path) and len(fault["path"]) < 200


@pytest.mark.threat(6)
def test_a_pattern_of_an_annotation_runs_in_linear_time_too() -> None:
    def function(
        a: Annotated[str, Field(pattern=f"^{BOMB}")] = "a",
        b: dict[Annotated[str, Field(pattern=f"^{BOMB}")], int] | None = None,
    ) -> None: ...

    signature = Signature(function, name="f")
    began = time.monotonic()
    for wrong in ({"a": LONG}, {"b": {LONG: 1}}):
        with pytest.raises(BadArguments):
            signature.bind(wrong)
    assert time.monotonic() - began < 1.0
    assert signature.bind({"a": "aaa", "b": {"a": 1}}).kwargs == {"a": "aaa", "b": {"a": 1}}


@pytest.mark.req("S-ERR-6", "S-SEC-4")
def test_arguments_that_do_not_fit_are_told_by_place_and_those_that_fit_arrive_as_they_came() -> None:
    schema = {
        "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "string"}}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert bound(schema, {"a": 1.0, "b": ["x"]}) == []
    assert bound(schema, {"a": 1, "b": ["x", 2]}) == [
        {"path": "arguments.b[1]", "message": "must be a string"}
    ]
    assert bound(schema, {}) == [{"path": "arguments.a", "message": "is required"}]
    assert bound(schema, {"a": 1, "c": 1}) == [
        {"path": "arguments.c", "message": "is not known to this tool"}
    ]
    assert len(bound({"additionalProperties": False}, {f"k{n}": n for n in range(100)})) == 20


def test_unknown_keywords_say_nothing_and_are_shown_as_they_were_written() -> None:
    schema = {"type": "object", "x-mine": [1], "properties": {"a": {"format": "date", "colour": "red"}}}
    given = GivenSchema(schema, name="t")
    assert given.schema == schema and given.bind({"a": "never"}).kwargs == {"a": "never"}


@pytest.mark.parametrize(
    "tuple_",
    [
        {"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False},
        {"items": [{"type": "integer"}, {"type": "string"}], "additionalItems": False},
    ],
    ids=["2020-12", "draft-07"],
)
def test_tuples_of_both_drafts_are_checked_place_by_place(tuple_: dict[str, Any]) -> None:
    schema = {"properties": {"a": {"type": "array", **tuple_}}}
    assert bound(schema, {"a": [1, "x"]}) == []
    assert [one["path"] for one in bound(schema, {"a": ["x", "x"]})] == ["arguments.a[0]"]
    assert bound(schema, {"a": [1, "x", 3]}) != []


@pytest.mark.threat(6, 8)
def test_what_would_take_too_long_to_check_does_not_pass() -> None:
    steps: dict[str, Any] = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(22)}
    doubling = {"$defs": steps | {"d22": True}, "$ref": "#/$defs/d0"}
    [fault] = bound(doubling, {"a": 1})
    assert fault["path"] == "arguments" and "cannot be checked against the schema" in fault["message"]
