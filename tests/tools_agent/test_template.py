"""Prompts made of templates: one pass, nothing read twice, one function for previews and calls."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from mew_lab.tools_agent.definition import ToolDefinition
from mew_lab.tools_agent.template import fill_prompt, lint, rename_references, tokens

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


# --- parts of values, and texts for missing ones ------------------------------------------------------------------

STOP = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "nights": {"type": "integer", "default": 2}},
}
TRIP = tool(
    start=STOP,
    stops={"type": "array", "items": STOP},
    pair={"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
    zone={},
    notes={"type": "object"},
)


def filled(template: str, /, **arguments: Any) -> str:
    return fill_prompt(template, arguments, tool=TRIP)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{start.city}", "Rome"),
        ("{stops[1].city}", "Oslo"),
        ("{stops[0]}", '{"city": "Pisa"}'),
        ("{notes.a.b}", "[1]"),
        ("{notes.a.b[0]}", "1"),
        ("{pair[1]}", "7"),
        ("{stops[0].nights}", "2"),  # the default of the part
        ("{stops[9].city}", ""),  # there is no such item
        ("{stops[9].city?nowhere}", "nowhere"),
        ("{notes.c?none}", "none"),
        ("{zone?UTC, or {{so}}", "{zone?UTC, or {so}"),  # no partner
        ("{zone?}", ""),
        ("{zone?UTC}", "UTC"),
    ],
)
def test_a_part_of_a_value_is_filled_in_and_a_missing_one_has_a_text(template: str, text: str) -> None:
    given = {
        "start": {"city": "Rome"},
        "stops": [{"city": "Pisa"}, {"city": "Oslo"}],
        "pair": ["x", 7],
        "notes": {"a": {"b": [1]}},
    }
    assert filled(template, **given) == text


@pytest.mark.parametrize(
    "template",
    [
        "{start.country}",  # the schema declares its members
        "{zone.name}",  # a text has no parts
        "{zone[0]}",
        "{pair[2]}",
        "{stops.city}",
        "{start[0]}",
        "{nothing.city}",
        "{nothing?UTC}",
        "{name.x}",
        "{start.}",
        "{.city}",
        "{stops[-1]}",
        "{stops[x]}",
    ],
)
def test_what_the_schema_does_not_declare_is_no_reference(template: str) -> None:
    given = {"start": {"city": "Rome", "country": "it"}, "zone": "UTC", "pair": ["x", 7, 8], "stops": [{}]}
    assert filled(template, **given) == template
    assert fill_prompt(template, given, tool=TRIP, preview=True) == template


def test_a_parameter_of_that_very_name_comes_first() -> None:
    odd = tool(**{"start": STOP, "start.city": {}, "zone": {}, "zone?UTC": {}})
    arguments = {"start": {"city": "Rome"}, "start.city": "Pisa", "zone?UTC": "CET"}
    assert fill_prompt("{start.city} {zone?UTC}", arguments, tool=odd) == "Pisa CET"


def test_a_text_after_a_question_mark_gives_way_to_a_value_and_to_a_default() -> None:
    with_default = tool(zone={"default": "CET"})
    assert fill_prompt("{zone?UTC}", {}, tool=with_default) == "CET"
    assert fill_prompt("{zone?UTC}", {"zone": ""}, tool=with_default) == ""
    started = tool(start={**STOP, "default": {"city": "Rome"}})
    assert fill_prompt("{start.city} {start.nights}", {}, tool=started) == "Rome 2"
    assert fill_prompt("{start.city}", {"start": {}}, tool=started) == ""


def test_a_preview_keeps_each_reference_without_a_value() -> None:
    template = "{start.city} {start.nights} {zone?UTC} {stops[0].city}"
    preview = fill_prompt(template, {"start": {"city": "Rome"}, "stops": []}, tool=TRIP, preview=True)
    assert preview == "Rome {start.nights} {zone?UTC} {stops[0].city}"


def test_the_editor_and_the_remarks_know_parts() -> None:
    prompt = "{start.city} {stops[0].city?x} {start.country} {nothing[0]} {a: 1}"
    trip = ToolDefinition(TRIP.name, TRIP.description, TRIP.parameters, prompt)
    assert [kind for _, kind in tokens(trip) if kind != "text"] == [
        "parameter",
        "parameter",
        "unknown",
        "unknown",
        "loose",
    ]
    problems = [fault.problem for fault in lint(trip)]
    assert [problem.split(" ")[0] for problem in problems[:2]] == ["{start.country}", "{nothing[0]}"]
    unused = {problem.split(" ")[2] for problem in problems if "does not use it" in problem}
    assert unused == {"pair", "zone", "notes"}


def test_a_renamed_parameter_is_renamed_with_its_parts_and_nowhere_else() -> None:
    prompt = "{start} {start.city?start} {{start}} {stops[0]} start {started}"
    trip = ToolDefinition(TRIP.name, TRIP.description, TRIP.parameters, prompt)
    renamed = "{from} {from.city?start} {{start}} {stops[0]} start {started}"
    assert rename_references(trip, "start", "from") == (renamed, 2)
