"""Signatures: docstrings, schemas and the binding of arguments. What a tool makes of them is in test_tools."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.errors import ConfigError
from mew_lab.sdk.signature import BadArguments, Signature, documentation


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
        "message": "'x' is not of type 'integer'",
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
