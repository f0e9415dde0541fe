"""Prompts made of templates: one pass, nothing read twice, one function for previews and calls."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from mew_lab.tools_agent.definition import ToolDefinition
from mew_lab.tools_agent.template import fill_prompt, lint

DESIGN = "The user wants to book a flight to {destination} on {departure_date}, please book accordingly"


def tool(prompt: str = "", *, required: tuple[str, ...] = (), **properties: Any) -> ToolDefinition:
    shapes = {key: {"type": "string", **more} for key, more in properties.items()}
    schema = {"type": "object", "properties": shapes, "required": list(required)}
    return ToolDefinition("book_flight", "Books a flight.", schema, prompt)


FLIGHT = tool(DESIGN, required=("destination", "departure_date"), destination={}, departure_date={})


@pytest.mark.req("T-4")
def test_the_prompt_of_the_design_is_filled_from_the_call() -> None:
    arguments = {"destination": "Paris, France", "departure_date": "2026-12-01"}
    assert fill_prompt(DESIGN, arguments, tool=FLIGHT) == (
        "The user wants to book a flight to Paris, France on 2026-12-01, please book accordingly"
    )


@pytest.mark.req("T-4")
def test_name_is_the_tools_name_unless_a_parameter_is_called_so() -> None:
    both = "{name} {tool.name} {tool.description}"
    assert fill_prompt(both, {}, tool=tool()) == "book_flight book_flight Books a flight."
    named = tool(name={})
    assert fill_prompt(both, {"name": "Ann"}, tool=named) == "Ann book_flight Books a flight."
    assert any(
        "{tool.name}" in str(finding)
        for finding in lint(ToolDefinition("t", "d", named.parameters, "{name}"))
    )


@pytest.mark.threat(34)
@pytest.mark.parametrize(
    "value",
    ["{departure_date}", "{{departure_date}}", "{name}", "$&", "$$", "$1", "\\1", "\\g<0>", "}", "{", "{{", "%s",
     "@ref:secret", "@rule:x", "/help", "%mew status", "a\n\n\tb  c", "{tool.name}"],
)  # fmt: skip
def test_a_value_goes_in_as_it_is_and_is_never_read_again(value: str) -> None:
    arguments = {"destination": value, "departure_date": "D"}
    assert fill_prompt("to {destination} on {departure_date}", arguments, tool=FLIGHT) == f"to {value} on D"


@pytest.mark.threat(34)
@given(some.dictionaries(some.sampled_from("abc"), some.text()))
def test_whatever_the_values_are_the_prompt_is_the_template_with_them(values: dict[str, str]) -> None:
    shape = tool(a={}, b={}, c={})
    values_in_order = [values.get(key, "") for key in "abc"]
    assert (
        fill_prompt("1{a}2{b}3{c}4", values, tool=shape)
        == f"1{values_in_order[0]}2{values_in_order[1]}3{values_in_order[2]}4"
    )


def test_only_what_is_declared_is_filled_in() -> None:
    arguments = {"destination": "Paris", "other": "x", "a(": "y"}
    text = "{other} {a(} {destination}"
    assert fill_prompt(text, arguments, tool=FLIGHT) == "{other} {a(} Paris"


def test_a_parameter_may_have_any_name() -> None:
    odd = tool("", **{"a(": {}, "größe": {}, "departure-date": {}})
    assert (
        fill_prompt("{a(}{größe}{departure-date}", {"a(": "1", "größe": "2", "departure-date": "3"}, tool=odd)
        == "123"
    )


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{{destination}}", "{destination}"),
        ("{{{destination}}}", "{Paris}"),
        ('{"a": {"b": "{destination}"}}', '{"a": {"b": "Paris"}}'.replace("}}", "}")),
        ('{"a": 1}', '{"a": 1}'),
        ("{", "{"),
        ("} {", "} {"),
        ("{}", "{}"),
        ("{ destination }", "{ destination }"),
        ("a  b\n\tc ", "a  b\n\tc "),
    ],
)
def test_doubled_braces_are_braces_and_others_stay(text: str, filled: str) -> None:
    assert fill_prompt(text, {"destination": "Paris"}, tool=FLIGHT) == filled


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (1.5, "1.5"),
        (True, "true"),
        (None, "null"),
        (["ä", "y"], '["ä", "y"]'),
        ({"k": "v"}, '{"k": "v"}'),
    ],
)
def test_what_is_no_text_goes_in_as_json(value: Any, text: str) -> None:
    assert fill_prompt("{destination}", {"destination": value}, tool=FLIGHT) == text


def test_an_optional_parameter_is_its_default_else_nothing() -> None:
    shape = tool(a={"default": "x"}, b={"type": "integer", "default": 3}, c={})
    assert fill_prompt("{a}|{b}|{c}", {}, tool=shape) == "x|3|"


def test_a_preview_shows_what_is_missing_and_fills_in_the_rest() -> None:
    arguments = {"destination": "Paris", "departure_date": ""}
    assert fill_prompt("{name}: {destination} {departure_date}", arguments, tool=FLIGHT, preview=True) == (
        "book_flight: Paris {departure_date}"
    )
    assert fill_prompt(DESIGN, {}, tool=FLIGHT, preview=True) == DESIGN


def test_lint_lists_what_nothing_fills_what_is_not_used_and_odd_braces() -> None:
    odd = tool('{destinaton} {"a": 1} {', required=("destination",), destination={}, class_={})
    findings = " / ".join(map(str, lint(odd, at="metadata.tools[0]")))
    assert findings.count("metadata.tools[0].prompt: ") == 5
    for words in (
        "{destinaton} is no parameter",
        "hold no name",
        "destination is required, but the prompt does not use it",
        "class_ is declared, but the prompt does not use it",
        "without a partner",
    ):
        assert words in findings
    assert lint(FLIGHT) == []
