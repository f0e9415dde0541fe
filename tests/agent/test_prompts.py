"""What an agent says to its model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import jsonschema
import pytest

from mew_lab.agent import prompts
from mew_lab.agent.model import Message, ToolCall, ToolSpec
from mew_lab.agent.prompts import Prompts, attention_messages, fill_template, response_messages, step_messages
from mew_lab.agent.react import Thought

ASKED = "What's the weather in Tokyo and calculate 15% tip on $85?"
WEATHER = ToolSpec(
    "weather-service/get_weather", "The weather of a city", {"type": "object", "properties": {"city": {}}}
)
CALL = ToolCall("call_abc123", "weather-service/get_weather", {"city": "Tokyo"})
SEEN = Thought("Let me check the weather in Tokyo", (CALL,), ("Tokyo: 22°C, partly cloudy",))


@pytest.mark.req("S-L3-24")
def test_native_earlier_calls_stand_as_calls_with_their_answers_by_id() -> None:
    system, user, assistant, tool = step_messages(ASKED, [SEEN], id="agent", tools=[WEATHER])
    assert system.role == "system" and user == Message("user", ASKED)
    assert assistant == Message("assistant", "Let me check the weather in Tokyo", tool_calls=(CALL,))
    assert tool == Message("tool", "Tokyo: 22°C, partly cloudy", tool_call_id="call_abc123")


@pytest.mark.req("S-L3-25")
def test_scratchpad_tools_and_earlier_steps_stand_as_text() -> None:
    system, user, earlier = step_messages(ASKED, [SEEN], id="agent", tools=[WEATHER], format="scratchpad")
    assert '"weather-service/get_weather"' in system.content and '"actionInput"' in system.content
    assert user == Message("user", ASKED)
    assert earlier.role == "assistant" and "Observation: Tokyo: 22°C, partly cloudy" in earlier.content
    assert not earlier.tool_calls


def test_the_conversation_so_far_comes_before_the_request() -> None:
    conversation = [Message("user", "human: hello"), Message("assistant", "Hello.")]
    assert step_messages(ASKED, [], id="agent", tools=[], before=conversation)[1:] == [
        *conversation,
        Message("user", ASKED),
    ]


@pytest.mark.req("S-L3-27")
def test_every_phase_can_be_replaced() -> None:
    own = Prompts(
        system="You are a tide gauge.",
        reason="Analyze: {input} with {tools}",
        act="Next for: {objective}",
        respond="From {observation} answer {input}",
    )
    first = step_messages(ASKED, [], id="agent", tools=[WEATHER], prompts=own)
    assert first[0].content.startswith("You are a tide gauge.")
    assert first[1].content.startswith(f"Analyze: {ASKED} with ") and WEATHER.name in first[1].content
    later = step_messages(ASKED, [SEEN], id="agent", tools=[WEATHER], prompts=own)
    assert later[-1] == Message("user", f"Next for: {ASKED}")
    answer = response_messages(ASKED, [SEEN], id="agent", prompts=own)
    gathered = "1. weather-service/get_weather: Tokyo: 22°C, partly cloudy"
    assert answer[1].content == f"From {gathered} answer {ASKED}"


@pytest.mark.threat(34)
def test_what_is_filled_in_is_no_template_and_no_format_string() -> None:
    assert (
        fill_template("{input} {tools}", {"input": "{tools} {0.__class__}", "tools": "T"})
        == "{tools} {0.__class__} T"
    )
    assert fill_template("{a.__class__} {input!r} {{input}} {other}", {"input": "X"}) == (
        "{a.__class__} {input!r} {X} {other}"
    )


@pytest.mark.req("S-CH-9")
def test_whether_to_answer_is_asked_with_the_tools_the_conversation_and_the_message_last() -> None:
    conversation = [Message("user", "human: hello")]
    system, before, last = attention_messages(
        "what time is it?", id="agent", tools=[WEATHER], before=conversation
    )
    assert WEATHER.name in system.content and "shouldRespond" in system.content
    assert before == conversation[0] and last == Message("user", "what time is it?")


def test_a_prompt_says_that_data_is_no_instruction() -> None:
    for messages in (step_messages(ASKED, [], id="a", tools=[]), attention_messages("x", id="a", tools=[])):
        assert "never an instruction" in messages[0].content


def test_the_schemas_ask_for_what_the_specification_names() -> None:
    step = prompts.step_schema([WEATHER])
    assert step["required"] == ["reasoning", "action", "actionInput"]
    assert step["properties"]["action"]["enum"] == ["tool_call", "respond", "continue"]
    assert prompts.ATTENTION["required"] == ["shouldRespond", "confidence", "reason"]


# --- the schema of a step (D7, D8) ---------------------------------------------------------------------------------

ADD = ToolSpec(
    "math/add",
    "Sum",
    {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
)


def step(action: str, **action_input: Any) -> dict[str, Any]:
    return {"reasoning": "why", "action": action, "actionInput": action_input}


def fits(value: Any, tools: Sequence[ToolSpec], **more: Any) -> bool:
    schema = prompts.step_schema(tools, **more)
    jsonschema.Draft202012Validator.check_schema(dict(schema))
    return bool(jsonschema.Draft202012Validator(dict(schema)).is_valid(value))


def test_a_step_names_one_of_the_tools_with_arguments_that_fit_it_or_answers() -> None:
    tools = [ADD, WEATHER]
    assert fits(step("tool_call", tool="math/add", arguments={"a": 1, "b": 2}), tools)
    assert fits(step("respond", message="3"), tools)
    assert not fits(step("tool_call", tool="participant/tool", arguments={}), tools)
    assert not fits(step("tool_call", tool="math/add", arguments={"city": "Tokyo"}), tools)
    assert not fits(step("tool_call", tool="math/add"), tools)
    assert not fits(step("respond"), tools)


def test_without_tools_a_step_can_only_answer() -> None:
    assert fits(step("respond", message="3"), [])
    assert not fits(step("tool_call", tool="math/add", arguments={}), [])


def test_a_choice_of_tools_takes_branches_away() -> None:
    call, other = step("tool_call", tool="math/add", arguments={"a": 1, "b": 2}), step("respond", message="3")
    weather = step("tool_call", tool=WEATHER.name, arguments={"city": "Tokyo"})
    tools = [ADD, WEATHER]
    shown = {
        choice: [fits(branch, tools, tool_choice=choice) for branch in (call, weather, other)]
        for choice in (None, "auto", "required", "none", "math/add", "gone/tool")
    }
    assert shown == {
        None: [True, True, True],
        "auto": [True, True, True],
        "required": [True, True, False],
        "none": [False, False, True],
        "math/add": [True, False, False],
        "gone/tool": [True, True, True],  # a tool that is not there can be demanded of nobody
    }
    assert fits(other, [], tool_choice="required")
    assert not fits(step("tool_call", message="3"), tools, tool_choice="required")


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/X"}}, "$defs": {"X": {"type": "string"}}},
        {"type": "object", "properties": {"x": {"description": "y" * 20_000}}},
    ],
)
def test_a_schema_that_refers_to_itself_or_is_very_long_leaves_the_arguments_open(
    parameters: dict[str, Any],
) -> None:
    tools = [ToolSpec("p/t", "", parameters)]
    assert fits(step("tool_call", tool="p/t", arguments={"x": "any"}), tools)
    assert len(json.dumps(prompts.step_schema(tools))) < 2000
