"""A model behind an API: the real client against a server that speaks the wire format, its failures included."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import pickle
import socket
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from mew_lab.agent.completions import CompletionsModel
from mew_lab.agent.model import Message, Reply, ToolCall, ToolSpec, Usage
from mew_lab.agent.prompts import ATTENTION
from mew_lab.errors import ConfigError, ModelFailed
from mew_lab.protocol.token import Token

from .llm_server import (
    Answer,
    ChatServer,
    Request,
    called,
    chunk,
    event,
    refused,
    streamed,
    text_answer,
    whole,
)

KEY = "sk-canary-8F3kQz71LmXwP0"
HI = [Message("user", "What is the weather in Tokyo?")]
WEATHER = ToolSpec(
    "weather-service/get_weather",
    "Current weather of a city",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
CLOCK = ToolSpec("clock/now", "The time", {"type": "object", "properties": {}})

Script = list[Answer | Callable[[Request], Answer]]


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)


@asynccontextmanager
async def talking(
    *script: Answer | Callable[[Request], Answer], **more: Any
) -> AsyncIterator[tuple[CompletionsModel, ChatServer]]:
    async with ChatServer(list(script)) as server:
        model = CompletionsModel("m-1", base_url=server.url, **{"timeout": 10.0, **more})
        try:
            yield model, server
        finally:
            await model.aclose()


async def failing(
    *script: Answer | Callable[[Request], Answer], on_text: Any = None, **more: Any
) -> tuple[ModelFailed, int]:
    """How a reply fails, and after how many requests."""
    async with talking(*script, **more) as (model, server):
        with pytest.raises(ModelFailed) as caught:
            await model.reply(HI, on_text=on_text)
        assert caught.value.model == "m-1"
        assert "m-1" in str(caught.value) and f"127.0.0.1:{server.port}" in str(caught.value)
        return caught.value, len(server.requests)


# --- text --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [None, 1, 2, 7, 1000])
async def test_text_comes_piece_by_piece_however_the_bytes_are_cut(size: int | None) -> None:
    pieces: list[str] = []
    async with talking(text_answer("It is ", "22 °C ", "and rains 🌧.", usage=(12, 5), size=size)) as (
        model,
        server,
    ):
        reply = await model.reply(HI, on_text=pieces.append)
    assert pieces == ["It is ", "22 °C ", "and rains 🌧."]
    assert reply == Reply(text="It is 22 °C and rains 🌧.", usage=Usage(12, 5))
    assert server.requests[0].path == "/v1/chat/completions"
    assert server.bodies == [
        {
            "model": "m-1",
            "messages": [{"role": "user", "content": "What is the weather in Tokyo?"}],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ]


async def test_a_server_that_knows_no_streams_is_understood() -> None:
    message = {"role": "assistant", "content": "22 °C", "tool_calls": None}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    async with talking(whole(message, usage=usage)) as (model, _):
        pieces: list[str] = []
        assert await model.reply(HI, on_text=pieces.append) == Reply(text="22 °C", usage=Usage(3, 2))
        assert pieces == ["22 °C"]


async def test_one_connection_serves_many_replies() -> None:
    async with talking(text_answer("a"), text_answer("b")) as (model, server):
        assert (await model.reply(HI)).text == "a"
        assert (await model.reply(HI)).text == "b"
        assert server.connections == 1


async def test_settings_go_out_as_given() -> None:
    async with talking(text_answer("a"), temperature=0.5, tool_choice="required", max_tokens=2048) as (
        model,
        server,
    ):
        await model.reply(HI, tools=[CLOCK])
        assert model.max_tokens == 2048
    assert server.bodies[0]["temperature"] == 0.5
    assert server.bodies[0]["tool_choice"] == "required"
    assert "max_tokens" not in server.bodies[0]


# --- tools -------------------------------------------------------------------------------------------------------


@pytest.mark.req("S-L3-3", "S-L3-4")
async def test_tools_are_offered_under_names_that_an_api_takes_with_their_participant_in_the_description() -> (
    None
):
    other = ToolSpec("math-service/now", "Also now", {"properties": {"x": {}}})
    async with talking(called(("c1", "clock_now", "{}"), ("c2", "math-service_now", '{"x": 1}'))) as (
        model,
        server,
    ):
        reply = await model.reply(HI, tools=[CLOCK, other])
    assert [tool["function"]["name"] for tool in server.bodies[0]["tools"]] == [
        "clock_now",
        "math-service_now",
    ]
    assert [tool["function"]["description"] for tool in server.bodies[0]["tools"]] == [
        "clock/now: The time",
        "math-service/now: Also now",
    ]
    assert all(tool["type"] == "function" for tool in server.bodies[0]["tools"])
    assert server.bodies[0]["tools"][1]["function"]["parameters"] == {
        "type": "object",
        "properties": {"x": {}},
    }
    assert reply.tool_calls == (ToolCall("c1", "clock/now", {}), ToolCall("c2", "math-service/now", {"x": 1}))


@pytest.mark.divergence("S-L3-5")
async def test_participants_with_underscores_are_called_as_well() -> None:
    first, second = CLOCK._replace(name="a_b/c"), CLOCK._replace(name="a/b_c")

    def call_both(request: Request) -> Answer:
        names = [tool["function"]["name"] for tool in request.body["tools"]]
        return called(*((f"c{n}", name, "{}") for n, name in enumerate(names)))

    async with talking(call_both) as (model, _):
        reply = await model.reply(HI, tools=[first, second])
    assert [call.name for call in reply.tool_calls] == ["a_b/c", "a/b_c"]


@pytest.mark.req("S-L3-24")
async def test_what_was_called_and_answered_goes_out_in_the_native_format() -> None:
    call = ToolCall("call_abc123", "weather-service/get_weather", {"city": "Tokyo"})
    silent = ToolCall("call_abc124", "gone_service/old", {})
    messages = [
        Message("system", "You help."),
        *HI,
        Message("assistant", "Let me check the weather in Tokyo", tool_calls=(call,)),
        Message("tool", "Tokyo: 22°C, partly cloudy", tool_call_id="call_abc123"),
        Message("assistant", "", tool_calls=(silent,)),
        Message("tool", "", tool_call_id="call_abc124"),
    ]
    async with talking(text_answer("22 °C")) as (model, server):
        await model.reply(messages, tools=[WEATHER])
    # SDK "Native Format"; the participant is called weather-service there
    function = {"name": "weather-service_get_weather", "arguments": '{"city": "Tokyo"}'}
    assert server.bodies[0]["messages"] == [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "What is the weather in Tokyo?"},
        {
            "role": "assistant",
            "content": "Let me check the weather in Tokyo",
            "tool_calls": [{"id": "call_abc123", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_abc123", "content": "Tokyo: 22°C, partly cloudy"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_abc124",
                    "type": "function",
                    "function": {"name": "gone_service_old", "arguments": "{}"},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_abc124", "content": ""},
    ]


@pytest.mark.parametrize("size", [None, 1, 5])
async def test_two_calls_at_once_come_back_both(size: int | None) -> None:
    answer = called(
        ("c1", "weather-service_get_weather", '{"city": "Tōkyō"}'), ("c2", "clock_now", ""), size=size
    )
    async with talking(answer) as (model, _):
        reply = await model.reply(HI, tools=[WEATHER, CLOCK])
    assert reply == Reply(
        tool_calls=(
            ToolCall("c1", "weather-service/get_weather", {"city": "Tōkyō"}),
            ToolCall("c2", "clock/now", {}),
        )
    )


async def test_faulty_calls_stand_beside_good_ones() -> None:
    answer = called(("c1", "clock_now", "{nonsense"), ("c2", "launch_rocket", "{}"), ("", "clock_now", "{}"))
    async with talking(answer) as (model, _):
        broken, unknown, good = (await model.reply(HI, tools=[CLOCK])).tool_calls
    assert broken.name == "clock/now" and broken.arguments == {} and "not JSON" in broken.fault
    assert unknown == ToolCall("c2", "launch_rocket", {}, fault="no such tool; there are: clock/now")
    assert good.name == "clock/now" and not good.fault and good.id


async def test_one_tool_can_be_demanded_by_its_name() -> None:
    async with talking(called(("c1", "clock_now", "{}")), tool_choice="clock/now") as (model, server):
        await model.reply(HI, tools=[WEATHER, CLOCK])
    assert server.bodies[0]["tool_choice"] == {"type": "function", "function": {"name": "clock_now"}}


async def test_a_hostile_schema_of_a_tool_is_still_one_of_an_object() -> None:
    tool = ToolSpec("p/t", "x" * 5000 + "\ud800", {"type": "string"})
    async with talking(text_answer("a")) as (model, server):
        await model.reply([Message("user", "half \ud800")], tools=[tool])
    function = server.bodies[0]["tools"][0]["function"]
    assert function["parameters"] == {"type": "object", "properties": {}}
    assert len(function["description"]) == 1024
    assert server.bodies[0]["messages"][0]["content"] == "half \ufffd"


# --- schemas and other wishes ------------------------------------------------------------------------------------

JSON = '{"shouldRespond": true, "confidence": 1, "reason": "asked"}'


async def test_a_schema_is_asked_for_and_tools_are_not_offered() -> None:
    async with talking(text_answer(JSON)) as (model, server):
        reply = await model.reply(HI, tools=[CLOCK], schema=ATTENTION)
    assert reply.text == JSON
    assert "tools" not in server.bodies[0]
    wanted = {"name": "Attention", "schema": ATTENTION, "strict": False}
    assert server.bodies[0]["response_format"] == {"type": "json_schema", "json_schema": wanted}


@pytest.mark.parametrize(
    "refusal",
    [
        refused(400, "response_format is not supported"),
        refused(422, "Input should be 'text' or 'json_object'"),
        refused(500, "('body', 'response_format', 'type'): Input should be 'text' or 'json_object'"),
    ],
)
async def test_a_server_that_knows_no_schemas_is_asked_in_simpler_ways_and_that_is_remembered(
    refusal: Answer,
) -> None:
    async with talking(refusal, refusal, text_answer(JSON), text_answer(JSON)) as (model, server):
        assert (await model.reply(HI, schema=ATTENTION)).text == JSON
        assert (await model.reply(HI, schema=ATTENTION)).text == JSON
    assert [body.get("response_format", {}).get("type") for body in server.bodies] == [
        "json_schema",
        "json_object",
        "json_object",
        "json_object",
    ]
    assert [body["response_format"].get("schema") for body in server.bodies] == [None, ATTENTION, None, None]


async def test_the_last_way_is_to_ask_for_no_form_at_all() -> None:
    no = refused(400, "unknown parameter: response_format")
    async with talking(no, no, no, text_answer(JSON)) as (model, server):
        assert (await model.reply(HI, schema=ATTENTION)).text == JSON
    assert "response_format" not in server.bodies[3]


async def test_a_server_that_counts_nothing_is_not_asked_to() -> None:
    async with talking(
        refused(400, "Unrecognized request argument: stream_options"), text_answer("a"), text_answer("b")
    ) as (model, server):
        assert (await model.reply(HI)).text == "a"
        assert (await model.reply(HI)).text == "b"
    assert ["stream_options" in body for body in server.bodies] == [True, False, False]


@pytest.mark.parametrize(
    "refusal", [refused(422, "null"), refused(500, "('body', 'messages', 1): Input should be a valid string")]
)
async def test_a_server_that_knows_no_null_gets_an_empty_text(refusal: Answer) -> None:
    calls = [
        *HI,
        Message("assistant", tool_calls=(ToolCall("c1", "clock/now", {}),)),
        Message("tool", "noon", tool_call_id="c1"),
    ]
    async with talking(refusal, text_answer("a"), text_answer("b")) as (model, server):
        assert (await model.reply(calls)).text == "a"
        assert (await model.reply(calls)).text == "b"
    assert [body["messages"][1]["content"] for body in server.bodies] == [None, "", ""]
    assert all("stream_options" in body for body in server.bodies)


async def test_a_request_that_is_wrong_for_another_reason_fails_soon_and_nothing_is_learned() -> None:
    no = refused(400, "maximum context length is 8192 tokens", code="context_length_exceeded")
    async with talking(no, no, text_answer("a")) as (model, server):
        with pytest.raises(ModelFailed, match="maximum context length is 8192 tokens") as caught:
            await model.reply(HI)
        assert caught.value.status == 400
        await model.reply(HI)
    assert ["stream_options" in body for body in server.bodies] == [True, False, True]


async def test_a_model_without_tool_calls_is_told_of_the_other_format() -> None:
    no = refused(400, "m-1 does not support tools")
    async with talking(no, no) as (model, _):
        with pytest.raises(ModelFailed, match="scratchpad"):
            await model.reply(HI, tools=[CLOCK])


# --- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403])
async def test_a_wrong_key_says_so_at_once(status: int) -> None:
    failed, requests = await failing(
        refused(status, f"Incorrect API key provided: {KEY[:6]}********{KEY[-4:]}."), api_key=KEY
    )
    assert (failed.status, requests) == (status, 1)
    assert "api_key" in str(failed) and "Incorrect API key provided" in str(failed)
    assert KEY[:6] not in str(failed) and KEY[-4:] not in str(failed)


async def test_an_unknown_model_says_so() -> None:
    failed, requests = await failing(refused(404, "The model `m-1` does not exist"))
    assert (failed.status, requests) == (404, 1)
    assert "The model `m-1` does not exist" in str(failed) and "model=" in str(failed)


async def test_a_server_that_is_busy_is_asked_again_when_it_said() -> None:
    async with talking(refused(429, retry_after="0.1"), text_answer("fine")) as (model, server):
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert (await model.reply(HI)).text == "fine"
        assert 0.1 <= loop.time() - began < 5
    assert len(server.requests) == 2


async def test_who_is_told_to_wait_longer_than_the_timeout_fails_at_once() -> None:
    failed, requests = await failing(refused(429, "Rate limit reached", retry_after="3600"))
    assert (failed.status, failed.retry_after_s, requests) == (429, 3600.0, 1)
    assert "Rate limit reached" in str(failed)
    assert "It asks to wait 3600 s; this model waits " in str(failed)


async def test_a_date_to_wait_for_counts_from_now() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    when = format_datetime(now + timedelta(hours=2), usegmt=True)
    failed, _ = await failing(refused(429, retry_after=when), clock=lambda: now)
    assert failed.retry_after_s == 7200


@pytest.mark.parametrize("header", ["soon", "nan", "inf", "-5", "1e400"])
async def test_nonsense_to_wait_for_is_no_time(header: str) -> None:
    failed, requests = await failing(refused(503, retry_after=header), max_retries=0)
    assert failed.retry_after_s in (None, 0.0)
    assert requests == 1


async def test_a_server_in_trouble_is_asked_three_times() -> None:
    failed, requests = await failing(*[refused(500, "boom")] * 4)
    assert (failed.status, requests) == (500, 3)
    assert "boom" in str(failed)


async def test_an_account_without_money_is_not_asked_again() -> None:
    _, requests = await failing(refused(429, "You exceeded your current quota", code="insufficient_quota"))
    assert requests == 1


@pytest.mark.parametrize("after", [401, 500])
async def test_the_endless_body_of_an_error_is_not_read_to_its_end(after: int) -> None:
    endless = Answer([b"x" * 40_000] * 5, status=after, waits=True)
    failed, _ = await failing(endless, max_retries=0)
    assert failed.status == after
    assert len(str(failed)) < 1000


async def test_nobody_there_says_where() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    model = CompletionsModel("m-1", base_url=f"http://127.0.0.1:{port}/v1")
    with pytest.raises(
        ModelFailed, match=f"m-1 at 127.0.0.1:{port} gave no reply: it cannot be reached"
    ) as caught:
        await model.reply(HI)
    assert caught.value.status is None
    await model.aclose()


# --- broken answers ----------------------------------------------------------------------------------------------


async def test_a_stream_that_breaks_off_before_anything_was_told_is_asked_for_again() -> None:
    half = streamed(chunk({"role": "assistant"}), done=False, cut=True)
    async with talking(half, text_answer("whole")) as (model, server):
        pieces: list[str] = []
        assert (await model.reply(HI, on_text=pieces.append)).text == "whole"
    assert (pieces, len(server.requests)) == (["whole"], 2)


async def test_a_stream_that_breaks_off_after_something_was_told_says_after_how_much() -> None:
    pieces: list[str] = []
    half = streamed(chunk({"content": "It is "}), chunk({"content": "2"}), done=False, cut=True)
    failed, requests = await failing(half, text_answer("whole"), on_text=pieces.append)
    assert (pieces, requests) == (["It is ", "2"], 1)
    assert "the stream broke off after 7 characters" in str(failed)


async def test_a_stream_that_breaks_off_twice_fails_even_if_nobody_listened() -> None:
    half = streamed(chunk({"content": "It is "}), done=False, cut=True)
    failed, requests = await failing(half, half, text_answer("whole"))
    assert requests == 2
    assert "broke off after 6 characters" in str(failed)


@pytest.mark.parametrize("end", [b"", b'data: {"choices": [{"index"'])
async def test_a_stream_that_just_stops_has_broken_off(end: bytes) -> None:
    half = Answer(
        [event(chunk({"content": "It is "})), end] if end else [event(chunk({"content": "It is "}))]
    )
    failed, requests = await failing(half, half)
    assert "broke off after 6 characters" in str(failed) and requests == 2


async def test_a_stream_that_said_why_it_ended_needs_no_mark_of_its_end() -> None:
    async with talking(streamed(chunk({"content": "fine"}), chunk({}, "stop"), done=False)) as (model, _):
        assert (await model.reply(HI)).text == "fine"


HTML = b"<!doctype html><title>Sign in</title>"


@pytest.mark.parametrize(
    ("answer", "said_of_it"),
    [
        (Answer([HTML], headers={"Content-Type": "text/html"}), "no chat completion: '<!doctype html>"),
        (Answer([HTML]), "no chat completion: '<!doctype html>"),
        (Answer([b"<html>"], headers={"Content-Type": "application/json"}), "no chat completion: '<html>'"),
        (Answer([b'{"ok": true}'], headers={"Content-Type": "application/json"}), "no chat completion"),
        (Answer([b"[1, 2]"], headers={"Content-Type": "application/json"}), "no chat completion"),
        (Answer([b"[" * 50_000], headers={"Content-Type": "application/json"}), "no chat completion"),
        (Answer([event("nonsense")]), "no chat completion: 'nonsense'"),
        (Answer([event("[DONE]")]), "no chat completion"),
        (Answer([event({"choices": []}), event("[DONE]")]), "no chat completion"),
        (Answer([]), "its answer was empty"),
        (Answer([b"\xff\xfe\x00"]), "no chat completion"),
    ],
)
async def test_what_is_no_completion_is_shown_by_its_beginning(answer: Answer, said_of_it: str) -> None:
    failed, _ = await failing(answer)
    assert said_of_it in str(failed)
    assert len(str(failed)) < 500


async def test_an_error_in_the_midst_of_a_stream_is_the_servers() -> None:
    error = event({"error": {"message": "the worker died", "code": 502}})
    failed, requests = await failing(Answer([event(chunk({"content": "It"})), error]), on_text=lambda _: None)
    assert (failed.status, requests) == (502, 1)
    assert "the worker died" in str(failed)


async def test_an_error_with_the_status_of_success_is_one() -> None:
    body = b'{"error": {"message": "no such deployment", "code": "404"}}'
    failed, _ = await failing(Answer([body], headers={"Content-Type": "application/json"}))
    assert failed.status == 404 and "no such deployment" in str(failed)


@pytest.mark.parametrize(
    "answer",
    [
        streamed(chunk({"content": "x" * 600_000}), chunk({"content": "x" * 600_000}), waits=True),
        streamed(*[chunk({"tool_calls": [{"index": n, "id": f"c{n}"}]}) for n in range(129)], waits=True),
        Answer([b"data: "] + [b"x" * 1_000_000] * 9, waits=True),
        Answer([b" " * 1_000_000] * 9, headers={"Content-Type": "application/json"}, waits=True),
    ],
    ids=["text", "calls", "event", "body"],
)
async def test_an_answer_without_bounds_is_cut(answer: Answer) -> None:
    failed, requests = await failing(answer)
    assert "its answer was cut: " in str(failed)
    assert requests == 1


# --- time --------------------------------------------------------------------------------------------------------


async def test_a_silent_server_is_given_up_after_the_timeout() -> None:
    failed, requests = await failing(Answer([event(chunk({"content": "It is "}))], waits=True), timeout=0.3)
    assert requests == 1
    assert "it was silent for 0.3 s" in str(failed) and "timeout=" in str(failed)


async def test_an_answer_that_drips_on_and_on_is_given_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mew_lab.agent.completions.LONGEST", 1.5)
    failed, requests = await failing(Answer([b": still here\n\n"], drips=0.01), timeout=0.8)
    assert requests == 1
    assert "its answer took longer than 1.2 s" in str(failed)


@pytest.mark.parametrize("pieces", [[], [event(chunk({"content": "It is "}))]])
async def test_who_is_cancelled_stops_at_once_and_the_server_sees_it(pieces: list[bytes]) -> None:
    async with talking(Answer(pieces, waits=True)) as (model, server):
        task = asyncio.create_task(model.reply(HI))
        async with asyncio.timeout(10):
            await server.waiting.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.gone.wait()


async def test_what_a_listener_raises_is_its_own() -> None:
    def bad(text: str) -> None:
        raise LookupError(text)

    async with talking(text_answer("It is")) as (model, _):
        with pytest.raises(LookupError, match="It is"):
            await model.reply(HI, on_text=bad)


# --- the key -----------------------------------------------------------------------------------------------------


def echoing(make: Callable[[str], Answer]) -> Callable[[Request], Answer]:
    """An answer that holds all headers of its request, in its headers too."""

    def answer(request: Request) -> Answer:
        echo = " | ".join(f"{name}: {value}" for name, value in request.headers.items())
        assert KEY in echo
        made = make(echo)
        return Answer(made.pieces, made.status, {**made.headers, "X-Echo": echo}, made.cut, made.waits)

    return answer


def echoed_call(echo: str) -> Answer:
    return called((echo, "clock_now", json.dumps({"a": [echo], echo: echo})), (echo, echo, echo))


ECHOES = {
    "text": echoing(lambda echo: text_answer(*echo)),
    "whole": echoing(lambda echo: whole({"content": echo, "reasoning": echo})),
    "reasoning": echoing(
        lambda echo: streamed(*(chunk({"reasoning_content": c}) for c in echo), chunk({}, "stop"))
    ),
    "call": echoing(echoed_call),
}
FAILURES = {
    "401": echoing(lambda echo: refused(401, echo)),
    "escaped": echoing(
        lambda echo: Answer([json.dumps({"error": echo}).replace("sk-", "\\u0073k-").encode()], status=401)
    ),
    "500": echoing(lambda echo: Answer([echo.encode()], status=500)),
    "html": echoing(lambda echo: Answer([f"<p>{echo}".encode()], headers={"Content-Type": "text/html"})),
    "event": echoing(lambda echo: Answer([event({"error": {"message": echo, "code": echo}})])),
    "nonsense": echoing(lambda echo: Answer([event(echo)])),
    "cut": echoing(lambda echo: streamed(chunk({"content": echo}), done=False, cut=True)),
    "protocol": echoing(lambda echo: Answer([], headers={"Content-Encoding": "gzip", "Content-Type": echo})),
}


def shown_by(err: BaseException) -> str:
    """All that a traceback could show of it, with the values of every frame."""
    shown = traceback.TracebackException.from_exception(err, capture_locals=True)
    chain, error = [], err
    while error is not None and len(chain) < 20:
        chain += [repr(error), str(error), repr(vars(error))]
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return "".join(shown.format()) + "".join(chain)


@pytest.fixture
def everything_logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG)
    for name in [*logging.root.manager.loggerDict, "openai", "httpx", "httpx2", "httpcore", "httpcore2"]:
        caplog.set_level(logging.DEBUG, logger=name)
    return caplog


@pytest.mark.threat(2)
@pytest.mark.parametrize("name", ECHOES)
async def test_a_key_that_a_server_echoes_is_in_no_reply_and_no_log(
    name: str, everything_logged: pytest.LogCaptureFixture
) -> None:
    pieces: list[str] = []
    async with talking(ECHOES[name], api_key=KEY) as (model, server):
        reply = await model.reply(HI, tools=[CLOCK], on_text=pieces.append)
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
        shown = repr(reply) + "".join(pieces) + repr(model) + repr(vars(model)) + everything_logged.text
    assert "[api key]" in repr(reply)
    assert KEY not in shown
    assert "receive_response_headers" in everything_logged.text  # the client's own log was on


@pytest.mark.threat(2)
@pytest.mark.parametrize("name", FAILURES)
async def test_a_key_that_a_server_echoes_is_in_no_error_and_no_log(
    name: str, everything_logged: pytest.LogCaptureFixture
) -> None:
    model = None
    async with ChatServer([FAILURES[name]] * 3) as server:
        model = CompletionsModel("m-1", base_url=server.url, api_key=Token(KEY))
        with pytest.raises(ModelFailed) as caught:
            await model.reply(HI)
        await model.aclose()
        script_frames_hold_no_key = not server.requests.clear()
    assert script_frames_hold_no_key
    shown = shown_by(caught.value)
    assert KEY not in shown and KEY not in everything_logged.text
    said_of_it = str(caught.value)
    assert not any(KEY[at : at + 4] in said_of_it for at in range(len(KEY) - 3))


@pytest.mark.threat(2)
async def test_a_key_of_the_environment_is_as_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ChatServer([refused(401, f"who is {KEY}?")]) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        model = CompletionsModel("m-1")
        with pytest.raises(ModelFailed) as caught:
            await model.reply(HI)
        await model.aclose()
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
        assert model.host == f"127.0.0.1:{server.port}"
    assert KEY not in str(caught.value) + repr(vars(model))


@pytest.mark.threat(2)
async def test_a_redirect_to_another_host_does_not_get_the_key() -> None:
    async with ChatServer([text_answer("from elsewhere")]) as other:
        away = Answer(
            status=307,
            headers={"Location": other.url.replace("127.0.0.1", "localhost") + "/chat/completions"},
        )
        async with talking(away, api_key=KEY) as (model, server):
            await model.reply(HI)
            assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
        assert KEY not in repr(other.requests[0])


@pytest.mark.threat(2)
@pytest.mark.parametrize(
    ("key", "more", "about"),
    [
        (KEY + "\n" + KEY, {"base_url": "http://127.0.0.1:1/v1"}, "api_key"),
        (KEY + "…", {"base_url": "http://127.0.0.1:1/v1"}, "api_key"),
        (KEY, {"base_url": "127.0.0.1:8000"}, "base_url"),
        (KEY, {"base_url": "http://[::1/v1"}, "base_url"),
        (KEY, {"base_url": f"http://me:{KEY}@127.0.0.1:1/v1"}, "base_url"),
        (KEY, {"model": ""}, "model"),
        (KEY, {"timeout": 0}, "timeout"),
        (KEY, {"timeout": float("nan")}, "timeout"),
        ("", {}, "api_key"),
    ],
)
def test_what_cannot_be_used_is_named_and_the_key_not_shown(
    key: str, more: dict[str, Any], about: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        CompletionsModel(more.pop("model", "m-1"), api_key=key, **more)
    assert caught.value.key == about
    frames = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    ours = [
        frame
        for frame in frames.stack
        if frame.filename.endswith("completions.py") and "test_" not in frame.filename
    ]
    assert ours and about in str(caught.value)
    if KEY not in more.get("base_url", ""):
        assert not any(KEY in value for frame in ours for value in (frame.locals or {}).values())
    assert KEY not in str(caught.value)


def test_a_missing_key_names_both_ways_to_give_one() -> None:
    with pytest.raises(ConfigError, match=r"OPENAI_API_KEY.*api_key="):
        CompletionsModel("m-1")


async def test_a_server_of_ones_own_needs_no_key() -> None:
    async with talking(text_answer("a")) as (model, server):
        await model.reply(HI)
    assert server.requests[0].headers["authorization"] == "Bearer none"


def test_a_model_is_neither_pickled_nor_copied() -> None:
    model = CompletionsModel("m-1", base_url="http://127.0.0.1:1/v1", api_key=KEY)
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="holds a key"):
            way(model)
    assert repr(model) == "<CompletionsModel m-1 at 127.0.0.1:1>"


# --- manners -----------------------------------------------------------------------------------------------------


async def test_closing_twice_is_harmless_and_a_reply_after_it_opens_anew() -> None:
    async with ChatServer([text_answer("Hello.")]) as server:
        model = CompletionsModel("m-1", base_url=server.url)
        await model.aclose()
        await model.aclose()
        assert (await model.reply(HI)).text == "Hello."
        await model.aclose()


def test_the_package_is_loaded_by_the_first_model_and_not_before() -> None:
    script = (
        "import sys, mew_lab, mew_lab.agent.model, mew_lab.agent.completions as c; assert 'openai' not in sys.modules;"
        "c.CompletionsModel('m', base_url='http://127.0.0.1:1/v1'); assert 'openai' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
