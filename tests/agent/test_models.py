"""Models by name, from a script, and from a function: in a real run, in both formats, and with faults."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mew_lab.agent import prompts
from mew_lab.agent.attention import read_classification
from mew_lab.agent.completions import CompletionsModel
from mew_lab.agent.model import Message, Reply, ToolCall, ToolSpec
from mew_lab.agent.models import FunctionModel, ScriptedModel, model_of
from mew_lab.errors import ConfigError, ModelFailed

from .conftest import Site
from .llm_server import ChatServer, text_answer


class Parrot:
    name = "parrot"
    max_tokens = None

    async def reply(self, messages: Any, **_: Any) -> Reply:
        return Reply(messages[-1].content)

    async def aclose(self) -> None: ...


def test_a_model_is_what_it_is() -> None:
    parrot = Parrot()
    assert model_of(parrot) is parrot


async def test_any_other_word_is_a_model_behind_an_api() -> None:
    async with ChatServer([text_answer("22 °C")]) as server:
        model = model_of("m-1", base_url=server.url, api_key="sk-for-the-test-only")
        assert isinstance(model, CompletionsModel)
        assert (await model.reply([Message("user", "hi")])).text == "22 °C"
        await model.aclose()
    assert server.bodies[0]["model"] == "m-1"
    assert server.requests[0].headers["authorization"] == "Bearer sk-for-the-test-only"


@pytest.mark.parametrize("spec", [None, "offline"])
def test_no_word_and_offline_are_the_built_in_one(spec: str | None) -> None:
    offline = pytest.importorskip("mew_lab.agent.offline", exc_type=ImportError)
    assert isinstance(model_of(spec), offline.OfflineModel)


@pytest.mark.parametrize("spec", [None, "offline", Parrot()])
def test_a_server_without_the_name_of_its_model_is_refused(spec: Any) -> None:
    with pytest.raises(ConfigError, match="model=") as caught:
        model_of(spec, base_url="http://127.0.0.1:1/v1")
    assert caught.value.key == "model"


@pytest.mark.parametrize("spec", [5, object(), ["m-1"]])
def test_what_is_no_model_is_refused(spec: Any) -> None:
    with pytest.raises(ConfigError, match=f"is a {type(spec).__name__}"):
        model_of(spec)


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="give the name of the model"):
        model_of("", base_url="http://127.0.0.1:1/v1")


def test_a_ready_model_loads_no_adapter() -> None:
    script = (
        "import sys; from mew_lab.agent.models import model_of\n"
        "class M:\n async def reply(self): ...\n async def aclose(self): ...\n"
        "model_of(M()); assert not {'openai', 'mew_lab.agent.completions', 'mew_lab.agent.offline'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


# --- models from a script or a function ---


SCRIPT = """
- when: weather in {city}
  replies:
    - {call: weather-service/weather, arguments: {city: "{city}"}, why: "I ask for {city}."}
    - {call: weather-service/weather, arguments: {city: Oslo}}
    - {say: "In {city}: {observation1}. In the north: {observation}."}
- {when: who are you, say: I follow a script.}
"""


def weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: 22°C"


async def reply_of(model: Any, text: str, **more: Any) -> Reply:
    reply: Reply = await model.reply([Message("user", text)], **more)
    return reply


# --- a script ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["native", "scratchpad"])
async def test_an_agent_follows_the_script_of_a_file(site: Site, tmp_path: Path, format: Any) -> None:
    (tmp_path / "lesson.yaml").write_text(SCRIPT)
    human = await site.seat("human")
    await site.tool("weather-service", weather)
    model = ScriptedModel.from_file(tmp_path / "lesson.yaml")
    assert model.name == "lesson"
    await site.agent("agent", model, reasoning_format=format)
    await human.chat("What is the Weather in New Delhi?", to="agent")
    answer = await site.answer("agent")
    assert answer.payload["text"] == "In New Delhi: New Delhi: 22°C. In the north: Oslo: 22°C."
    requests = [envelope.payload for envelope in site.sent("mcp/request", sender="agent")]
    asked = [envelope["params"]["arguments"] for envelope in requests if envelope["method"] == "tools/call"]
    assert asked == [{"city": "New Delhi"}, {"city": "Oslo"}]
    thoughts = [envelope.payload["message"] for envelope in site.sent("reasoning/thought")]
    assert thoughts[0] == "I ask for New Delhi."


async def test_the_first_rule_that_fits_counts_and_one_without_when_always_does() -> None:
    model = ScriptedModel([{"when": "a", "say": "first"}, {"when": "a b", "say": "second"}, {"say": "any"}])
    assert [(await reply_of(model, text)).text for text in ("x A b", "ab")] == ["first", "any"]


async def test_where_the_script_says_nothing_it_says_so() -> None:
    model = ScriptedModel([{"when": "hello", "call": "a/b"}])
    assert (await reply_of(model, "Bye")).text == "My script has no answer to that."
    called = Message("assistant", tool_calls=(ToolCall("1", "a/b", {}),))
    ended = await model.reply([Message("user", "Hello"), called, Message("tool", "x", tool_call_id="1")])
    assert ended == Reply("My script ends here.")


async def test_a_message_to_nobody_is_answered_where_a_rule_asks_for_it() -> None:
    model = ScriptedModel([{"when": "rain", "say": "Yes."}, {"say": "any"}])
    for text, should in (("Will it rain?", True), ("Good morning", False)):
        reply = await reply_of(model, text, schema=prompts.ATTENTION)
        classification = read_classification(reply.text)
        assert classification is not None and classification.should_respond is should


@pytest.mark.parametrize(
    ("when", "text", "places"),
    [
        ("from {a} to {b}", "Go from York to New York. Then rest.", "York|New York"),
        ("{a} plus {b}", "2 plus 3", "2|3"),
        ("in {a}?", "Rain in Oslo?", "Oslo|{b}"),
        ("in {a}", "Rain in v1.2 of it. In Oslo.", "v1.2 of it|{b}"),
        ("from {a} to {b}", "from York. To Oslo", None),  # a place holds words of one sentence
        ("in {a}", "Rain in ", None),
    ],
)
async def test_a_place_takes_the_words_up_to_the_next_text_or_the_end_of_the_sentence(
    when: str, text: str, places: str | None
) -> None:
    reply = await reply_of(ScriptedModel([{"when": when, "say": "{a}|{b}"}]), text)
    assert reply.text == (places or "My script has no answer to that.")


@pytest.mark.threat(34)
async def test_what_is_filled_in_is_not_read_again() -> None:
    model = ScriptedModel([{"when": "say {a} now {b}", "say": "{a} {b} {c} {a.__class__}"}])
    assert (await reply_of(model, "say {b} now {a}")).text == "{b} {a} {c} {a.__class__}"


async def test_a_long_request_is_read_quickly() -> None:
    model = ScriptedModel([{"when": "a{one}b{two}b{three}b{four}b{five}c", "say": "x"}])
    begun = time.process_time()
    assert (await reply_of(model, "a b " * 2000)).text == "My script has no answer to that."
    assert time.process_time() - begun < 1.0


@pytest.mark.parametrize(
    ("script", "key"),
    [
        ("x", "script"),
        ([1], "script[0]"),
        ([{"say": "a"}, {}], "script[1]"),
        ([{"say": "a", "call": "b"}], "script[0]"),
        ([{"when": 1, "say": "a"}], "script[0].when"),
        ([{"when": "{a}{b}", "say": "a"}], "script[0].when"),
        ([{"when": "{a} {a}", "say": "a"}], "script[0].when"),
        ([{"wen": "x", "say": "a"}], "script[0]"),
        ([{"replies": []}], "script[0].replies"),
        ([{"replies": [{"say": "a"}], "say": "b"}], "script[0].replies"),
        ([{"replies": [{"say": 1}]}], "script[0].replies[0].say"),
        ([{"call": "a/b", "arguments": []}], "script[0].arguments"),
    ],
)
def test_a_fault_of_a_script_is_told_with_its_place(script: Any, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ScriptedModel(script)
    assert caught.value.key == key


@pytest.mark.parametrize("data", [b"- {say: [", b"\xff\xfe", b"say: x", None])
def test_a_file_that_is_no_script_is_refused(tmp_path: Path, data: bytes | None) -> None:
    if data is not None:
        (tmp_path / "script.yaml").write_bytes(data)
    with pytest.raises(ConfigError):
        ScriptedModel.from_file(tmp_path / "script.yaml")


# --- a function ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["native", "scratchpad"])
async def test_an_agent_thinks_with_a_function(site: Site, format: Any) -> None:
    human = await site.seat("human")
    await site.tool("weather-service", weather)

    async def think(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> ToolCall | str:
        seen = [message.content for message in messages[2:]]
        return f"Seen: {'22°C' in seen[-1]}" if seen else ToolCall("", tools[0].name, {"city": "Oslo"})

    await site.agent("agent", FunctionModel(think), reasoning_format=format)
    await human.chat("How is Oslo?", to="agent")
    assert (await site.answer("agent")).payload["text"] == "Seen: True"


async def test_a_function_may_return_a_reply_a_call_or_a_text() -> None:
    reply = Reply("a", "because")
    assert await reply_of(FunctionModel(lambda messages, tools: reply), "x") == reply
    assert (await reply_of(FunctionModel(lambda messages, tools: "b"), "x")).text == "b"
    call = ToolCall("1", "a/b", {})
    assert (await reply_of(FunctionModel(lambda messages, tools: call), "x")).tool_calls == (call,)


async def test_a_text_that_is_json_is_the_functions_own_answer_to_a_schema() -> None:
    text = json.dumps({"shouldRespond": False, "confidence": 0, "reason": "mine"})
    reply = await reply_of(FunctionModel(lambda messages, tools: text), "x", schema=prompts.ATTENTION)
    assert reply.text == text
    reply = await reply_of(FunctionModel(lambda messages, tools: "Yes."), "x", schema=prompts.ATTENTION)
    classification = read_classification(reply.text)
    assert classification is not None and classification.should_respond


async def test_a_function_that_returns_something_else_fails_as_a_model_does() -> None:
    wrong: Any = lambda messages, tools: 5  # noqa: E731
    with pytest.raises(ModelFailed, match="returned int"):
        await reply_of(FunctionModel(wrong, name="mine"), "x")
