"""How long and how a model replies, what the space sees meanwhile, and how long its context is."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mew_lab.agent.completions import CompletionsModel, context_length
from mew_lab.agent.model import Message, Reply, ReplySettings, ToolCall, ToolSpec
from mew_lab.agent.options import AgentOptions
from mew_lab.agent.react import FinalAnswer, Think, next_move
from mew_lab.errors import ConfigError, ModelFailed
from mew_lab.sdk.settings import read_settings

from .conftest import Script, Site, until
from .llm_server import Answer as HttpAnswer
from .llm_server import ChatServer, called, chunk, refused, streamed, text_answer

CLOCK = ToolSpec("clock/now", "The time", {"type": "object", "properties": {}})
HI = [Message("user", "What time is it?")]
ANSWERED = [
    *HI,
    Message("assistant", tool_calls=(ToolCall("c1", "clock/now", {}),)),
    Message("tool", "noon", tool_call_id="c1"),
]


def now() -> str:
    """The time."""
    return "noon"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


# --- a choice of tools that forces a call (D8) ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "first", "later"),
    [
        ("required", "required", None),
        ("clock/now", {"type": "function", "function": {"name": "clock_now"}}, None),
        ("none", "none", "none"),
        ("gone/tool", None, None),  # a server would refuse a name that is not offered
    ],
)
async def test_a_forced_choice_holds_until_a_tool_has_answered(choice: str, first: Any, later: Any) -> None:
    async with ChatServer([text_answer("a"), text_answer("b")]) as server:
        model = CompletionsModel("m", base_url=server.url, tool_choice=choice)
        await model.reply(HI, tools=[CLOCK])
        await model.reply(ANSWERED, tools=[CLOCK])
        await model.aclose()
    assert [body.get("tool_choice") for body in server.bodies] == [first, later]


@pytest.mark.parametrize("format", ["native", "scratchpad"])
async def test_an_agent_that_must_call_calls_once_and_then_answers(site: Site, format: Any) -> None:
    human = await site.seat("human")
    await site.tool("clock", now)
    call = {"reasoning": "r", "action": "tool_call", "actionInput": {"tool": "clock/now", "arguments": {}}}
    answer = {"reasoning": "r", "action": "respond", "actionInput": {"message": "It is noon."}}
    scripts = {
        "native": [called(("c1", "clock_now", "{}")), text_answer("It is noon.")],
        "scratchpad": [text_answer(json.dumps(call)), text_answer(json.dumps(answer))],
    }
    async with ChatServer(scripts[format]) as server:
        await site.agent("agent", "m", base_url=server.url, tool_choice="required", reasoning_format=format)
        await human.chat("What time is it?", to="agent")
        assert (await site.answer("agent")).payload["text"] == "It is noon."
    if format == "native":
        assert [body.get("tool_choice") for body in server.bodies] == ["required", None]
    else:
        schemas = [body["response_format"]["json_schema"]["schema"] for body in server.bodies]
        actions = [schema["properties"]["action"]["enum"] for schema in schemas]
        assert actions == [["tool_call"], ["tool_call", "respond", "continue"]]


# --- options that reach the server (D9) ----------------------------------------------------------------------------


async def test_the_options_of_an_agent_reach_its_server(site: Site) -> None:
    human = await site.seat("human")
    async with ChatServer([text_answer("Hello."), text_answer("Hello again.")]) as server:
        agent = await site.agent("agent", "m", base_url=server.url, temperature=0.2, max_reply_tokens=300)
        await human.chat("Hi", to="agent")
        await site.answer("agent")
        agent.configure(temperature=1.5, max_reply_tokens=None)
        await human.chat("Hi again", to="agent")
        await site.answer("agent", 2)
        await agent.aclose()
    assert [(body.get("temperature"), body.get("max_tokens")) for body in server.bodies] == [
        (0.2, 300),
        (1.5, None),
    ]


async def test_an_option_counts_for_a_model_that_was_made_before(site: Site) -> None:
    """As `lab.agent` does: it makes the model, and the options come beside it."""
    human = await site.seat("human")
    async with ChatServer([HttpAnswer(waits=True)]) as server:
        model = CompletionsModel("m", base_url=server.url, temperature=0.1)
        await site.agent("agent", model, temperature=0.7, model_timeout=0.2)
        await human.chat("Hi", to="agent")
        assert "silent for 0.2 s" in (await site.answer("agent")).payload["text"]
        await model.aclose()
    assert server.bodies[0]["temperature"] == 0.7


async def test_a_server_that_wants_another_word_for_the_greatest_length_gets_it() -> None:
    no = refused(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
    async with ChatServer([no, text_answer("a"), text_answer("b")]) as server:
        model = CompletionsModel("m", base_url=server.url).with_settings(ReplySettings(max_tokens=50))
        await model.reply(HI)
        await model.reply(HI)
        await model.aclose()
    figures = [(body.get("max_tokens"), body.get("max_completion_tokens")) for body in server.bodies]
    assert figures == [(50, None), (None, 50), (None, 50)]


def test_the_settings_of_a_file_are_options(tmp_path: Any) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(
        "temperature: 0.5\nmaxReplyTokens: 200\nmodelTimeout: 90000\ntoolChoice: required\n"
        "silenceNotice: 5000\nquestionsPerMinute: 40\n"
    )
    options = AgentOptions.of(dict(read_settings(path, environ={}).agent))
    assert options.reply_settings == ReplySettings(0.5, 200, 90.0, "required")
    assert (options.silence_notice, options.questions_per_minute) == (5.0, 40)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("temperature", 3),
        ("temperature", "warm"),
        ("max_reply_tokens", 0),
        ("model_timeout", 0),
        ("tool_choice", "always"),
        ("silence_notice", 0),
        ("questions_per_minute", 0),
    ],
)
def test_a_value_that_an_option_does_not_take_is_named(key: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        AgentOptions.of({key: value})
    assert caught.value.key == key


# --- a sign of life (D9) -------------------------------------------------------------------------------------------


async def test_while_its_model_is_silent_the_space_is_told_and_told_more_rarely(site: Site) -> None:
    human = await site.seat("human")
    go = asyncio.Event()

    async def slow() -> Reply:
        await go.wait()
        return Reply("At last.")

    await site.agent("agent", Script(slow), silence_notice=0.02)
    await human.chat("Hi", to="agent")
    thoughts = await until(lambda: len(notices := site.sent("reasoning/thought")) >= 3 and notices)
    start = await site.first("reasoning/start")
    assert [(envelope.context, envelope.payload["message"]) for envelope in thoughts[:3]] == [
        (start.id, f"Waiting for the model: it has sent nothing for {seconds} s.")
        for seconds in ("0.02", "0.04", "0.08")
    ]
    go.set()
    assert (await site.answer("agent")).payload["text"] == "At last."


async def test_without_reasoning_the_sign_of_life_is_a_status(site: Site) -> None:
    human = await site.seat("human")
    go = asyncio.Event()

    async def slow() -> Reply:
        await go.wait()
        return Reply("At last.")

    await site.agent("agent", Script(slow), silence_notice=0.02, reasoning_enabled=False)
    await human.chat("Hi", to="agent")
    await until(
        lambda: any(
            "waiting for the model" in str(envelope.payload.get("status"))
            for envelope in site.sent("participant/status", sender="agent")
        )
    )
    assert not site.sent("reasoning/thought")
    go.set()
    await site.answer("agent")


async def test_a_model_that_speaks_is_not_called_silent(site: Site) -> None:
    """The first piece of text ends the notice, however long the rest takes."""
    human = await site.seat("human")

    class Slow(Script):
        async def reply(self, messages: Any, *, on_text: Any = None, **_: Any) -> Reply:
            on_text("At ")
            spoken = asyncio.Event()
            asyncio.get_running_loop().call_later(0.1, spoken.set)
            await spoken.wait()
            return Reply("At last.")

    await site.agent("agent", Slow(), silence_notice=0.02)
    await human.chat("Hi", to="agent")
    await site.answer("agent")
    assert not site.sent("reasoning/thought")


# --- a reply that was cut (D11) ------------------------------------------------------------------------------------


async def test_an_answer_cut_at_its_greatest_length_says_so(site: Site) -> None:
    human = await site.seat("human")
    cut = streamed(chunk({"content": "The garden is cut off he"}), chunk({}, "length"))
    async with ChatServer([cut]) as server:
        await site.agent("agent", "m", base_url=server.url)
        await human.chat("Tell me of the garden", to="agent")
        text = (await site.answer("agent")).payload["text"]
    assert text.startswith("The garden is cut off he\n") and "cut off: it reached the greatest length" in text


async def test_an_answer_that_was_worded_and_cut_says_so(site: Site) -> None:
    human = await site.seat("human")
    model = Script(Reply("draft"), Reply("half a sen", cut=True))
    await site.agent("agent", model, prompts={"respond": "Word it: {observation}"})
    await human.chat("Hi", to="agent")
    text = (await site.answer("agent")).payload["text"]
    assert text.startswith("half a sen\n") and "cut off" in text


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("native", ""),
        ("scratchpad", '{"reasoning": "so'),
        ("scratchpad", '{"action": "tool_call", "actionInput": {"tool": "a/b", "arguments": {}'),
    ],
)
def test_a_model_is_told_that_a_reply_was_cut_before_it_said_what_to_do(format: Any, text: str) -> None:
    move = next_move((), Reply(text, cut=True), format=format, max_iterations=5)
    assert isinstance(move, Think) and "cut off at the greatest length" in move.observation


def test_a_whole_step_counts_even_where_the_reply_was_cut_after_it() -> None:
    text = json.dumps({"reasoning": "r", "action": "respond", "actionInput": {"message": "22"}}) + " And"
    assert next_move((), Reply(text, cut=True), format="scratchpad", max_iterations=5) == FinalAnswer(
        "r", "22"
    )


# --- the length of the context (D12) -------------------------------------------------------------------------------


async def empty(prompt: str, **more: Any) -> str:
    async with ChatServer([HttpAnswer(), HttpAnswer(), HttpAnswer()]) as server:
        model = CompletionsModel("m", base_url=server.url, **more)
        with pytest.raises(ModelFailed) as caught:
            await model.reply([Message("user", prompt)])
        await model.aclose()
    return str(caught.value)


async def test_an_empty_answer_to_a_large_prompt_names_the_full_context() -> None:
    text = await empty("lorem ipsum dolor " * 1500)
    assert "its answer was empty" in text and "context" in text and "max_tokens=" in text


async def test_an_empty_answer_to_a_short_prompt_does_not() -> None:
    text = await empty("Hi")
    assert "its answer was empty" in text and "context" not in text


LISTINGS = {
    "vllm": {"data": [{"id": "m", "max_model_len": 4096}]},
    "openrouter": {"data": [{"id": "x", "context_length": 1}, {"id": "m", "context_length": 4096}]},
    "mistral": {"data": [{"id": "m", "max_context_length": 4096}]},
    "groq": {"data": [{"id": "m", "context_window": 4096}]},
    "lm studio": {"data": [{"id": "m", "max_context_length": 99_999, "loaded_context_length": 4096}]},
    "llama.cpp, under another name": {"data": [{"id": "/models/x.gguf", "meta": {"n_ctx_train": 4096}}]},
    "llama.cpp, started with less": {"data": [{"id": "m", "meta": {"n_ctx": 4096, "n_ctx_train": 9999}}]},
}


@pytest.mark.parametrize("name", LISTINGS)
def test_the_context_length_is_read_as_each_server_spells_it(name: str) -> None:
    assert context_length(LISTINGS[name], "m") == 4096


@pytest.mark.parametrize(
    "listing",
    [
        None,
        [],
        {"data": {}},
        {"data": [3, {"id": "m"}]},
        {"data": [{"id": "m", "context_length": "4096"}]},
        {"data": [{"id": "m", "context_length": True}]},
        {"data": [{"id": "m", "context_length": -1}]},
        {"data": [{"id": "m", "context_length": 10**30}]},
        {"data": [{"id": "one", "context_length": 4096}, {"id": "two", "context_length": 4096}]},
    ],
)
def test_a_listing_that_says_nothing_of_the_model_is_no_length(listing: Any) -> None:
    assert context_length(listing, "m") is None


def listed(**entry: Any) -> HttpAnswer:
    text = json.dumps({"object": "list", "data": [{"id": "m", "object": "model", **entry}]})
    return HttpAnswer([text.encode()], headers={"Content-Type": "application/json"})


@pytest.mark.parametrize(
    ("models", "expected"),
    [(listed(max_model_len=1024), 1024), (refused(404), 8192), (HttpAnswer([b"<p>"]), 8192)],
)
async def test_an_agent_takes_the_context_that_its_server_tells_or_8192(
    site: Site, models: HttpAnswer, expected: int
) -> None:
    human = await site.seat("human")
    async with ChatServer([text_answer("a"), text_answer("b")], models=models) as server:
        agent = await site.agent("agent", "m", base_url=server.url)
        for n in (1, 2):
            await human.chat("Hi", to="agent")
            await site.answer("agent", n)
        assert agent.participant.telemetry.max_tokens == expected
        assert server.listings == 1  # asked once
        await agent.aclose()


async def test_a_prompt_is_cut_to_the_context_that_the_server_tells(site: Site) -> None:
    human = await site.seat("human")
    async with ChatServer([text_answer("a")], models=listed(max_model_len=1024)) as server:
        agent = await site.agent("agent", "m", base_url=server.url)
        await human.chat("lorem ipsum dolor " * 1500, to="agent")
        await site.answer("agent")
        await agent.aclose()
    size = sum(len(message["content"]) for message in server.bodies[0]["messages"])
    assert size / 4 < 1024  # four characters a token, as the estimate has it


async def test_a_length_that_was_given_is_not_asked_for(site: Site) -> None:
    human = await site.seat("human")
    async with ChatServer([text_answer("a")], models=listed(max_model_len=1024)) as server:
        agent = await site.agent("agent", "m", base_url=server.url, max_tokens=3000)
        await human.chat("Hi", to="agent")
        await site.answer("agent")
        assert (server.listings, agent.participant.telemetry.max_tokens) == (0, 3000)
        await agent.aclose()


# --- questions a minute (D2) ---------------------------------------------------------------------------------------


async def test_how_many_questions_a_minute_are_answered_is_an_option(site: Site) -> None:
    human = await site.seat("human")
    agent = await site.agent("agent", Script(), questions_per_minute=2)
    asked = [await human.chat(f"Question {n}", to="agent") for n in range(3)]
    limited = await until(
        lambda: [
            envelope
            for envelope in site.sent("chat/acknowledge", sender="agent")
            if envelope.payload["status"] == "rate_limited"
        ]
    )
    assert [envelope.correlation_id for envelope in limited] == [(asked[2].id,)]
    agent.configure(questions_per_minute=20)
    for n in range(3):
        await human.chat(f"More {n}", to="agent")
    await site.answer("agent", 5)
