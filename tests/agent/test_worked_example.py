"""The specification's worked example, weather in Tokyo and the tip, through the real client of a real HTTP server."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mew_lab.agent.completions import CompletionsModel
from mew_lab.protocol.envelope import Envelope

from .conftest import CALLER, Site
from .llm_server import Answer, ChatServer, Request, called, text_answer

ASKED = "What's the weather in Tokyo and calculate 15% tip on $85?"
TOKYO = "Tokyo: 22°C, partly cloudy"
FIRST = "The user needs weather info and tip calculation. Getting Tokyo weather first."
SECOND = "Got Tokyo weather. Now calculating 15% tip on $85."
ANSWER = (
    "The weather in Tokyo is currently 22°C (72°F) with partly cloudy skies.\n\n"
    "For your tip calculation: 15% of $85 is $12.75, making your total $97.75."
)
CALLS = [
    ("weather-service", "get_weather", {"city": "Tokyo"}, FIRST),
    ("calculator", "multiply", {"a": 85, "b": 0.15}, SECOND),
]


def get_weather(city: str) -> str:
    """The current weather of a city."""
    return TOKYO if city == "Tokyo" else f"{city}: unknown"


def multiply(a: float, b: float) -> float:
    """The product of two numbers."""
    return a * b


def native(participant: str, why: str, arguments: Mapping[str, Any]) -> Callable[[Request], Answer]:
    """A call of the tool of that participant, found as a model finds it: by what its description says."""

    def answer(request: Request) -> Answer:
        [name] = [
            tool["function"]["name"]
            for tool in request.body["tools"]
            if participant in tool["function"]["description"]
        ]
        return called((f"call_{name}", name, json.dumps(arguments)), text=why)

    return answer


def step(why: str, action: str, **action_input: Any) -> Answer:
    return text_answer(json.dumps({"reasoning": why, "action": action, "actionInput": action_input}))


SCRIPTS: dict[str, list[Any]] = {
    "native": [*(native(who, why, arguments) for who, _, arguments, why in CALLS), text_answer(ANSWER)],
    "scratchpad": [
        *(
            step(why, "tool_call", tool=f"{who}/{tool}", arguments=arguments)
            for who, tool, arguments, why in CALLS
        ),
        step("Successfully retrieved weather data and calculated tip.", "respond", message=ANSWER),
    ],
}


def as_recorded(envelope: Envelope, start: Envelope) -> tuple[Any, ...]:
    """What the example says of a message: kind, sender, addressees, correlation, context, and its words."""
    payload = envelope.payload
    if envelope.kind.startswith("mcp/"):
        words = payload.get("params") or payload["result"]["content"][0]["text"]
        if isinstance(words, dict):  # the example asks for no reports of progress
            words = {name: member for name, member in words.items() if name != "_meta"}
    else:
        words = payload.get("message") or payload.get("text")
    return (envelope.kind, envelope.sender, envelope.to, envelope.correlation_id, envelope.context, words)


@pytest.mark.req(
    "P-3.5.1-1", "P-3.5.1-2", "P-3.5.1-6", "P-3.5.2-1", "S-L3-6", "S-L3-16", "S-L3-18", "S-L3-19",
    "S-L3-20", "S-L3-21", "S-L3-24", "S-L3-25",
)  # fmt: skip
@pytest.mark.parametrize("format", ["native", "scratchpad"])
async def test_weather_in_tokyo_and_the_tip(site: Site, format: Any) -> None:
    user = await site.seat("user")
    await site.tool("weather-service", get_weather)
    await site.tool("calculator", multiply)
    async with ChatServer(SCRIPTS[format]) as server:
        model = CompletionsModel("any", base_url=server.url, api_key="a-key-of-some-length")
        await site.agent("agent", model, can=CALLER, reasoning_format=format)
        asked = await user.chat(ASKED, to="agent")
        answer = await site.answer("agent")
        bodies = server.bodies
        await model.aclose()
    kinds = (
        "chat",
        "mcp/request",
        "mcp/response",
        "reasoning/start",
        "reasoning/thought",
        "reasoning/conclusion",
    )
    # What the others offer to read is asked before each request, and is no part of the example.
    lists = {
        envelope.id for envelope in site.sent("mcp/request") if envelope.payload["method"].endswith("/list")
    }
    sent = [
        envelope
        for envelope in site.sent(*kinds)
        if envelope.id not in lists and not lists & set(envelope.correlation_id)
    ]
    sent = sent[[envelope.id for envelope in sent].index(asked.id) :]
    start, conclusion = sent[1], sent[-2]
    requests = [envelope for envelope in sent if envelope.kind == "mcp/request"]
    expected: list[tuple[Any, ...]] = [("chat", "user", ("agent",), (), None, ASKED)]
    expected.append(("reasoning/start", "agent", (), (asked.id,), None, start.payload["message"]))
    for (who, tool, arguments, why), request, result in zip(CALLS, requests, (TOKYO, "12.75"), strict=True):
        params = {"name": tool, "arguments": arguments}
        expected += [
            ("reasoning/thought", "agent", (), (), start.id, why),
            ("mcp/request", "agent", (who,), (start.id,), None, params),
            ("mcp/response", who, ("agent",), (request.id,), None, result),
        ]
    expected.append(("reasoning/conclusion", "agent", (), (), start.id, conclusion.payload["message"]))
    expected.append(("chat", "agent", ("user",), (asked.id,), None, ANSWER))
    assert [as_recorded(envelope, start) for envelope in sent] == expected
    assert start.payload["message"] and conclusion.payload["message"] and answer.payload["text"] == ANSWER
    assert all(
        envelope.payload["method"] == "tools/call" and envelope.payload["jsonrpc"] == "2.0"
        for envelope in requests
    )
    last = bodies[-1]["messages"]
    if format == "native":
        assert [envelope["role"] for envelope in last] == [
            "system",
            "user",
            "assistant",
            "tool",
            "assistant",
            "tool",
        ]
        assert last[2]["tool_calls"][0]["id"] == last[3]["tool_call_id"] and last[3]["content"] == TOKYO
        assert last[2]["tool_calls"][0]["type"] == "function"
    else:
        assert [envelope["role"] for envelope in last] == [
            "system",
            "user",
            "assistant",
        ] and "tools" not in bodies[-1]
        assert "Tool used: weather-service/get_weather" in last[2]["content"]
        assert f"Observation: {TOKYO}" in last[2]["content"]
