"""What an MCP server may ask a person, and what may be answered.

Spec: MCP 2025-11-25 and 2026-07-28 "Elicitation": flat objects of texts, numbers, booleans and choices, or an address.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.errors import ProtocolError
from mew_lab.protocol.elicitation import (
    Elicitation,
    answer_faults,
    read_answer,
    read_elicitation,
)

TITLED = [{"const": "#f00", "title": "Red"}, {"const": "#0f0", "title": "Green"}]
# The primitive schemas that the specification lists, each with a value that fits and one that does not.
FIELDS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "text": ({"type": "string", "minLength": 3, "maxLength": 50}, "abc", "ab"),
    "email": ({"type": "string", "format": "email"}, "ann@example.org", 1),
    "number": ({"type": "number", "minimum": 0, "maximum": 100}, 0.5, 101),
    "count": ({"type": "integer"}, 3, "3"),
    "sure": ({"type": "boolean", "default": False}, True, "yes"),
    "plain choice": ({"type": "string", "enum": ["Red", "Green"]}, "Red", "Blue"),
    "titled choice": ({"type": "string", "oneOf": TITLED}, "#f00", "Red"),
    "plain choices": ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, ["a", "b"], ["c"]),
    "titled choices": ({"type": "array", "items": {"anyOf": TITLED}, "maxItems": 1}, ["#0f0"], ["Red"]),
}


def form(fields: Any, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields} | more
    return {"message": "How many?", "requestedSchema": schema}


def refused(params: dict[str, Any]) -> str:
    with pytest.raises(ProtocolError) as fault:
        read_elicitation(params)
    assert fault.value.code == "invalid_params"
    return str(fault.value)


@pytest.mark.parametrize("name", FIELDS)
def test_each_primitive_of_the_specification_is_asked_and_checked(name: str) -> None:
    field, good, bad = FIELDS[name]
    asked = read_elicitation(form({"value": field}, required=["value"]))
    assert (asked.message, asked.url, asked.host, asked.secrets) == ("How many?", "", "", ())
    assert read_answer(asked, {"action": "accept", "content": {"value": good}}) == {
        "action": "accept",
        "content": {"value": good},
    }
    for content in ({"value": bad}, {}, {"value": good, "more": 1}, [good], None):
        assert answer_faults(asked, content)
        with pytest.raises(ProtocolError):
            read_answer(asked, {"action": "accept", "content": content})


def test_a_refusal_of_values_says_which_and_why() -> None:
    asked = read_elicitation(form({"size": {"type": "integer", "maximum": 9}}))
    assert "size must be" in answer_faults(asked, {"size": 30})
    assert answer_faults(asked, {"siez": 3}) == "the form has no field siez"
    assert answer_faults(asked, None) == "there are no values"


def test_the_texts_that_a_person_reads_are_told_by_their_places_without_the_rules() -> None:
    size = {"type": "integer", "maximum": 9, "title": "Size", "description": "In cm", "x-note": ["more"]}
    form_texts = {"title": "A hat", "description": "For you"}
    asked = read_elicitation(
        form({"size": size, "sure": {"type": "boolean"}}, required=["size"], **form_texts)
    )
    assert asked.texts == {
        "message": "How many?",
        "the form": form_texts,
        "the field size": {"name": "size", "title": "Size", "description": "In cm", "x-note": ["more"]},
        "the field sure": {"name": "sure"},
    }
    assert "the form" not in read_elicitation(form({"size": size})).texts


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_refusal_carries_no_values(action: str) -> None:
    asked = read_elicitation(form({"size": {"type": "integer"}}))
    assert read_answer(asked, {"action": action, "content": {"size": 3}}) == {"action": action}


@pytest.mark.parametrize("result", [None, [], "accept", {}, {"action": "yes"}, {"action": None}])
def test_an_answer_without_one_of_the_three_actions_is_none(result: Any) -> None:
    with pytest.raises(ProtocolError, match="accept, decline, cancel"):
        read_answer(read_elicitation(form({"size": {"type": "integer"}})), result)


def test_an_address_is_shown_with_its_host_and_answered_without_values() -> None:
    asked = read_elicitation(
        {
            "mode": "url",
            "message": "Sign in",
            "url": "http://login.example.org:8443/a?b=c",
            "elicitationId": "1",
        }
    )
    assert asked.host == "login.example.org:8443" and asked.remarks == ("the address is not encrypted",)
    assert dict(asked.schema) == {} and asked.texts == {"message": "Sign in"}
    assert read_answer(asked, {"action": "accept", "content": {"x": 1}}) == {"action": "accept"}


@pytest.mark.threat(51)
@pytest.mark.parametrize(
    "url",
    [
        *(None, 7, "", "file:///etc/passwd", "https://github.com@evil.test/", "https://x/" + "a" * 5000),
    ],
)
def test_an_address_without_one_plain_host_of_the_web_is_not_shown(url: Any) -> None:
    assert "URL" in refused({"mode": "url", "message": "Sign in", "url": url})


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({}, "has no message"),
        ({"message": 7}, "has no message"),
        ({"message": "x" * 8001}, "8001 characters"),
        ({"message": "x", "mode": "audio"}, "there are form and url"),
        ({"message": "x"}, "no schema of the type object"),
        ({"message": "x", "requestedSchema": []}, "no schema of the type object"),
        ({"message": "x", "requestedSchema": {"type": "array"}}, "no schema of the type object"),
        (form(None), "without fields"),
        (form({}), "without fields"),
        (form({f"f{n}": {"type": "string"} for n in range(51)}), "51 fields"),
        (form({"x": {"type": "string", "title": "t" * 70_000}}), "at most 65536"),
        (form({"x": {"type": "string", "default": {1, 2}}}), "is no JSON"),
        (form({"x": {"type": "string"}}, allOf=[]), "with allOf"),
        (form({"x": 1}), "that is no schema"),
        (form({"x": {"type": "object", "properties": {}}}), "with properties"),
        (form({"x": {"$ref": "#"}}), "with $ref"),
        (form({"x": {"type": ["string", "null"]}}), "of the type"),
        (form({"x": {}}), "of the type None"),
        (form({"x": {"type": "array"}}), "without fixed choices"),
        (form({"x": {"type": "array", "items": {"type": "string"}}}), "without fixed choices"),
        (form({"x": {"type": "array", "items": {"properties": {}}}}), "without fixed choices"),
        (form({"x": {"type": "array", "items": {"anyOf": [{"type": "string"}]}}}), "without fixed choices"),
        (form({"x": {"type": "string", "oneOf": [{"pattern": "a"}]}}), "whose choices are no texts"),
        (form({"x": {"type": "string", "pattern": "("}}), "cannot be checked"),
        (form({"x": {"type": "string", "enum": [f"c{n}" for n in range(201)]}}), "201 choices"),
        (form({"x": {"type": "string", "enum": ["a\n", "a\\n"]}}), "look the same"),
        (form({"x": {"type": "string", "oneOf": [{"const": "a b"}, {"const": "a  b"}]}}), "look the same"),
        (form({"a\u202e": {"type": "string"}, "a\\u202e": {"type": "string"}}), "look the same"),
    ],
)
def test_what_is_no_flat_form_is_refused_by_name(params: dict[str, Any], why: str) -> None:
    assert why in refused(params)


def test_fields_that_look_like_secrets_are_named() -> None:
    asked = read_elicitation(
        form(
            {
                "password": {"type": "string"},
                "a": {"type": "string", "title": "API key"},
                "b": {"type": "string", "description": "Your card number"},
                "c": {"type": "string", "description": "Your town"},
            }
        )
    )
    assert asked.secrets == ("password", "a", "b")


@pytest.mark.threat(50)
@pytest.mark.parametrize(
    "text",
    [
        *(
            "Enter your GitHub password and your API key",
            "pass word",
            "PIN_code",
            "userPin",
            "OTP",
            "otpCode",
            "2FA",
        ),
        *(
            "your recovery phrase",
            "the six digits: one-time code",
            "\uff30\uff21\uff33\uff33\uff37\uff2f\uff32\uff24",
        ),
        *("pass\u200bword", "p\u0430ssword", "p a s s w o r d", "Verification code", "seed phrase", "secret"),
    ],
)
def test_a_secret_is_found_in_each_text_of_a_form_however_it_is_spelt(text: str) -> None:
    plain = {"type": "string"}
    assert read_elicitation(form({"answer": plain}) | {"message": text}).is_secret
    assert read_elicitation(form({"answer": plain}, description=text)).is_secret
    assert read_elicitation(form({text: plain})).secrets == (text,)
    for more in (
        {"description": text},
        {"default": text},
        {"examples": ["x", {"deep": [text]}]},
        {"enumNames": [text]},
        {"x-note": text},
    ):
        assert read_elicitation(form({"answer": plain | more})).secrets == ("answer",)
    assert read_elicitation(form({"answer": plain}) | {"x-note": {"deep": [text]}}).is_secret


def test_what_is_only_chosen_is_no_secret() -> None:
    public = {"type": "string", "enum": ["public", "secret"], "default": "secret"}
    titled = {"type": "string", "oneOf": [{"const": "a", "title": "By token"}]}
    assert read_elicitation(form({"a": public, "b": titled})).secrets == ()


@pytest.mark.parametrize(
    "text", ["How many pears?", "compass words", "a spinning top", "Which town?", "opinion"]
)
def test_a_plain_question_asks_for_no_secret(text: str) -> None:
    asked = read_elicitation(form({"answer": {"type": "string", "title": text}}) | {"message": text})
    assert not asked.is_secret and asked.secrets == ()


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "properties", "items", "enum", "oneOf", "const", "required"])
            | st.text(max_size=3),
            inner | st.sampled_from(["object", "string", "array"]),
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(json, json)
def test_any_json_is_a_question_or_refused_and_any_answer_fits_or_is_refused(
    schema: Any, answer: Any
) -> None:
    try:
        asked = read_elicitation({"message": "x", "requestedSchema": schema})
    except ProtocolError:
        return
    assert isinstance(asked, Elicitation) and schema["type"] == "object"
    try:
        given_ = read_answer(asked, {"action": "accept", "content": answer})
    except ProtocolError:
        return
    assert given_["content"] == answer and set(answer) <= set(schema["properties"])
