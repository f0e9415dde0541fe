"""What chunks add up to: cut anywhere, hostile in every member, bounded."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.agent.completion_errors import Redaction
from mew_lab.agent.completion_stream import (
    MAX_CALLS,
    MAX_LINE,
    MAX_TEXT,
    EventStreamParser,
    ReplyAssembly,
    TooLong,
    parse_arguments,
)
from mew_lab.agent.model import Reply, ToolCall, Usage
from mew_lab.agent.reply_text import is_quoted
from mew_lab.protocol.text import ToolNames

TOOLS = ("clock/now", "weather-service/get_weather")


def assembly(*, tools: tuple[str, ...] = TOOLS, **more: Any) -> ReplyAssembly:
    ids = (f"made-{n}" for n in itertools.count(1))
    return ReplyAssembly(
        ToolNames(tools),
        offered=frozenset(tools),
        redaction=Redaction(None),
        new_id=lambda: next(ids),
        **more,
    )


def delta(**members: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": members, "finish_reason": None}]}


def calling(**call: Any) -> dict[str, Any]:
    return delta(tool_calls=[call])


def of(*chunks: dict[str, Any]) -> Reply:
    made = assembly()
    for chunk in chunks:
        made.add(chunk)
    return made.reply()


# --- events ------------------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1), min_size=1
    ),
    st.integers(1, 30),
    st.sampled_from(["\n", "\r\n"]),
)
def test_events_are_the_same_however_their_bytes_are_cut(texts: list[str], size: int, end: str) -> None:
    stream = "".join(f": comment{end}event: x{end}data: {text}{end}{end}" for text in texts).encode()
    events = EventStreamParser()
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert [data for piece in pieces for data in events.feed(piece)] == texts


def test_lines_of_one_event_are_joined_and_the_last_needs_no_empty_line() -> None:
    events = EventStreamParser()
    assert list(events.feed(b"data: a\ndata:b\n\ndata: c")) == ["a\nb"]
    assert list(events.end()) == ["c"]


@pytest.mark.parametrize("flood", [b"x" * 1_000_000, b"data:\n" * 200_000])
def test_an_event_that_never_ends_is_cut(flood: bytes) -> None:
    events = EventStreamParser()
    with pytest.raises(TooLong):
        for _ in range(MAX_LINE // 200_000 + 1):
            list(events.feed(flood))


# --- text --------------------------------------------------------------------------------------------------------


def test_a_character_whose_halves_come_apart_is_told_whole() -> None:
    pieces: list[str] = []
    made = assembly(on_text=pieces.append)
    for text in ("rain \ud83c", "\udf27 and", "\ud83c"):
        made.add(delta(content=text))
    assert made.reply().text == "".join(pieces) == "rain 🌧 and\ufffd"
    assert pieces[:2] == ["rain ", "🌧 and"]


def test_reasoning_goes_beside_the_text_under_either_of_its_names() -> None:
    reply = of(delta(reasoning_content="Tokyo "), delta(reasoning="is far"), delta(content="22 °C"))
    assert (reply.reasoning, reply.text) == ("Tokyo is far", "22 °C")


def test_parts_and_refusals_are_text_too() -> None:
    assert (
        of(
            delta(content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), delta(refusal="!")
        ).text
        == "ab!"
    )


@pytest.mark.parametrize(
    "counted",
    [
        None,
        5,
        {},
        {"prompt_tokens": "1", "completion_tokens": 2},
        {"prompt_tokens": -1, "completion_tokens": 2},
        {"prompt_tokens": True, "completion_tokens": 2},
    ],
)
def test_what_counts_nothing_is_no_usage(counted: Any) -> None:
    assert of(delta(content="a"), {"choices": [], "usage": counted}).usage is None


def test_usage_comes_with_the_last_chunk() -> None:
    assert of(
        delta(content="a"), {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 1}}
    ).usage == Usage(7, 1)


# --- calls -------------------------------------------------------------------------------------------------------


def test_fragments_of_two_calls_may_mix() -> None:
    reply = of(
        calling(index=0, id="a", function={"name": "clock_now", "arguments": ""}),
        calling(index=1, id="b", function={"name": "weather-service_get_weather", "arguments": '{"ci'}),
        calling(index=0, function={"arguments": "{}"}),
        calling(index=1, function={"arguments": 'ty": "Tokyo"}'}),
    )
    assert reply.tool_calls == (
        ToolCall("a", "clock/now", {}),
        ToolCall("b", "weather-service/get_weather", {"city": "Tokyo"}),
    )


def test_a_name_and_an_id_that_each_chunk_repeats_count_once() -> None:
    part = {"index": 0, "id": "a", "function": {"name": "clock_now", "arguments": "{"}}
    reply = of(calling(**part), calling(**{**part, "function": {"name": "clock_now", "arguments": "}"}}))
    assert reply.tool_calls == (ToolCall("a", "clock/now", {}),)


def test_two_calls_that_both_claim_the_first_place_stay_two() -> None:
    function = {"name": "clock_now", "arguments": "{}"}
    reply = of(calling(index=0, id="a", function=function), calling(index=0, id="b", function=function))
    assert [call.id for call in reply.tool_calls] == ["a", "b"]


@pytest.mark.parametrize("id", [None, "", 7, "x" * 200])
def test_a_call_without_a_usable_id_gets_one(id: Any) -> None:
    reply = of(
        calling(index=0, id=id, function={"name": "clock_now"}),
        calling(index=1, id=id, function={"name": "clock_now"}),
    )
    assert [call.id for call in reply.tool_calls] == ["made-1", "made-2"]


def test_an_id_given_twice_is_replaced_once() -> None:
    reply = of(
        calling(index=0, id="a", function={"name": "clock_now"}),
        calling(index=1, id="a", function={"name": "clock_now"}),
    )
    assert [call.id for call in reply.tool_calls] == ["a", "made-1"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"city": ', "not JSON"),
        ("city=Tokyo", "not JSON"),
        ('["Tokyo"]', "must be a JSON object"),
        ('"Tokyo"', "must be a JSON object"),
        ('{"a": NaN}', "not JSON"),
        ('{"a": ' + "9" * 5000 + "}", "not JSON"),
        ('{"a": "\\ud800"}', "half a character"),
        ("[" * 100_000, "not JSON"),
        (json.dumps('{"city": '), "not JSON"),
        (json.dumps('{"a": NaN}'), "not JSON"),
        (json.dumps('{"a": "\\ud800"}'), "half a character"),
        (json.dumps(json.dumps('{"city": "Tokyo"}')), "must be a JSON object"),
        (json.dumps("{" * 100_000), "not JSON"),
    ],
)
def test_arguments_that_are_no_object_make_a_fault_and_no_arguments(text: str, why: str) -> None:
    (call,) = of(calling(index=0, id="a", function={"name": "clock_now", "arguments": text})).tool_calls
    assert call.arguments == {}
    assert why in call.fault


def test_deep_arguments_are_arguments_or_a_fault_and_never_a_crash() -> None:
    for depth in (10, 300, 450, 600, 900, 990, 5000):
        text = '{"a":' * depth + "1" + "}" * depth
        made = assembly(text_calls=True)
        made.add(delta(content=f'<tool_call>{{"name": "clock_now", "arguments": {text}}}</tool_call>'))
        (written,) = made.reply().tool_calls
        assert bool(written.fault) != bool(written.arguments)
        assert is_quoted(written.text, ["nothing", f"<tool_call>{written.text} </tool_call>"])
        other = written.text.replace("1", "2")
        assert is_quoted(written.text, [f"<tool_call>{other}</tool_call>"]) in (True, False)
        (call,) = of(calling(index=0, id="a", function={"name": "clock_now", "arguments": text})).tool_calls
        assert bool(call.fault) != bool(call.arguments)


def test_arguments_that_were_encoded_twice_are_taken() -> None:
    assert parse_arguments(json.dumps('{"city": "Tokyo"}')) == {"city": "Tokyo"}


@pytest.mark.parametrize("text", ["", "  ", "{}", "null"])
def test_no_arguments_are_an_empty_object(text: str) -> None:
    assert parse_arguments(text) == {}


def test_arguments_that_came_as_an_object_are_taken_as_they_are() -> None:
    (call,) = of(
        calling(index=0, id="a", function={"name": "clock_now", "arguments": {"zone": "UTC"}})
    ).tool_calls
    assert call == ToolCall("a", "clock/now", {"zone": "UTC"})


def test_a_model_that_writes_the_whole_name_is_understood() -> None:
    (call,) = of(calling(index=0, id="a", function={"name": "clock/now", "arguments": ""})).tool_calls
    assert call == ToolCall("a", "clock/now", {})


def test_a_tool_that_a_model_makes_up_is_a_fault_that_names_ten_at_most() -> None:
    made = assembly(tools=tuple(f"p/t{n:02}" for n in range(14)))
    made.add(calling(index=0, id="a", function={"name": "rm_rf", "arguments": "{}"}))
    (call,) = made.reply().tool_calls
    assert call.name == "rm_rf" and call.arguments == {}
    assert (
        call.fault == "no such tool; there are: " + ", ".join(f"p/t{n:02}" for n in range(10)) + " and 4 more"
    )


def test_a_tool_that_was_called_before_and_is_gone_is_no_tool() -> None:
    made = ReplyAssembly(ToolNames(TOOLS), offered={"clock/now"}, redaction=Redaction(None), new_id=str)
    made.add(calling(index=0, id="a", function={"name": "weather-service_get_weather", "arguments": "{}"}))
    (call,) = made.reply().tool_calls
    assert call == ToolCall(
        "a", "weather-service/get_weather", {}, fault="no such tool; there are: clock/now"
    )


def test_arguments_that_a_length_limit_cut_say_so() -> None:
    (call,) = of(
        calling(index=0, id="a", function={"name": "clock_now", "arguments": '{"zone": "U'}),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]},
    ).tool_calls
    assert "greatest length" in call.fault


def test_a_reply_that_a_length_limit_cut_says_so() -> None:
    for reason, cut in (("length", True), ("stop", False)):
        reply = of(
            delta(content="It is in"), {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
        )
        assert (reply.text, reply.cut) == ("It is in", cut)


# --- hostility ---------------------------------------------------------------------------------------------------


def test_text_reasoning_and_arguments_are_bounded_together() -> None:
    third = "x" * (MAX_TEXT // 3 + 1)
    made = assembly()
    made.add(delta(content=third, reasoning=third))
    with pytest.raises(TooLong):
        made.add(calling(index=0, function={"arguments": third}))


def test_calls_are_bounded() -> None:
    made = assembly()
    for n in range(MAX_CALLS):
        made.add(calling(index=n))
    with pytest.raises(TooLong):
        made.add(calling(index=MAX_CALLS))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "index",
                    "tool_calls",
                    "function",
                    "name",
                    "arguments",
                    "content",
                    "id",
                    "usage",
                    "finish_reason",
                    "message",
                    "text",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.lists(json_values, max_size=4), json_values)
def test_no_shape_of_chunk_crashes(choices: list[Any], value: Any) -> None:
    reply = of(
        {"choices": choices, "usage": value},
        {"choices": value},
        delta(tool_calls=value, content=value),
        calling(function=value),
    )
    json.dumps(
        [reply.text, reply.reasoning, [call._asdict() for call in reply.tool_calls]], ensure_ascii=False
    ).encode()
