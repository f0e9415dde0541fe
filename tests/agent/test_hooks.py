"""The four methods of an agent that a subclass may replace, each seen at work in a real run.

Spec: SDK "MEWAgent" (`reason`, `act`, `prepareLLMTools`, `executeLLMToolCall`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from mew_lab.agent.agent import MEWAgent
from mew_lab.agent.model import Reply, ToolSpec
from mew_lab.agent.react import FinalAnswer, Move, Think, Thought
from mew_lab.agent.run import Run

from .conftest import Script, Site, wants

TOKYO = "weather-service/weather"


def weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: 22°C"


def climate(city: str) -> str:
    """The climate of a city."""
    return f"{city}: mild"


async def asked(site: Site, kind: type[MEWAgent], *replies: Reply) -> tuple[Script, str]:
    """What the model was asked, and the answer, of an agent of this class that is asked about Tokyo."""
    human = await site.seat("human")
    await site.tool("weather-service", weather)
    await site.tool("atlas", climate)
    model = Script(*replies)
    await site.agent("agent", model, kind=kind)
    await human.chat("How is Tokyo?", to="agent")
    return model, str((await site.answer("agent")).payload["text"])


async def test_prepare_llm_tools_decides_which_tools_a_model_is_shown_and_may_call(site: Site) -> None:
    class Narrow(MEWAgent):
        def prepare_llm_tools(self) -> Sequence[ToolSpec]:
            return [tool for tool in super().prepare_llm_tools() if tool.participant == "atlas"]

    model, answer = await asked(site, Narrow, wants(TOKYO, {"city": "Tokyo"}), Reply("I cannot."))
    assert model.offered == [["atlas/climate"]] * 2
    assert model.asked[1][-1].content.startswith(f"Error: there is no tool {TOKYO}")
    assert answer == "I cannot."
    sent = site.sent("mcp/request", sender="agent")
    assert "tools/call" not in [envelope.payload["method"] for envelope in sent]


async def test_reason_decides_the_next_move(site: Site) -> None:
    class Brief(MEWAgent):
        async def reason(self, request: str, previous_thoughts: Sequence[Thought], *, run: Run) -> Move:
            if previous_thoughts:
                return FinalAnswer("Enough is known.", f"{request} {previous_thoughts[-1].observations[0]}")
            return await super().reason(f"{request} Be brief.", previous_thoughts, run=run)

    model, answer = await asked(site, Brief, wants(TOKYO, {"city": "Tokyo"}))
    assert [messages[-1].content for messages in model.asked] == ["How is Tokyo? Be brief."]
    assert answer == "How is Tokyo? Tokyo: 22°C"
    assert (await site.first("reasoning/conclusion")).payload["message"] == "Enough is known."


async def test_a_reason_that_never_answers_ends_after_max_iterations(site: Site) -> None:
    class Endless(MEWAgent):
        async def reason(self, request: str, previous_thoughts: Sequence[Thought], *, run: Run) -> Move:
            return Think(f"step {len(previous_thoughts)}")

    human = await site.seat("human")
    await site.agent("agent", Script(), kind=Endless, max_iterations=3)
    await human.chat("Well?", to="agent")
    assert "no answer after 3 steps" in (await site.answer("agent")).payload["text"]
    thoughts = [envelope.payload["message"] for envelope in site.sent("reasoning/thought")]
    assert thoughts == ["step 0", "step 1", "step 2"]


async def test_act_carries_out_each_call_of_a_move(site: Site) -> None:
    class Careful(MEWAgent):
        async def act(self, action: str, action_input: Mapping[str, Any], *, run: Run) -> str:
            observation = await super().act(action, action_input, run=run)
            return f"{action} {action_input['tool']}({action_input['arguments']['city']}): {observation}"

    model, answer = await asked(site, Careful, wants(TOKYO, {"city": "Tokyo"}), Reply("Warm."))
    assert model.asked[1][-1].content == f"tool_call {TOKYO}(Tokyo): Tokyo: 22°C"
    assert answer == "Warm."


async def test_execute_llm_tool_call_makes_the_call(site: Site) -> None:
    class Cached(MEWAgent):
        async def execute_llm_tool_call(
            self, namespaced_tool: str, arguments: Mapping[str, Any], *, run: Run
        ) -> str:
            if arguments == {"city": "Oslo"}:
                return "Oslo: 3°C, as was said before"
            return await super().execute_llm_tool_call(namespaced_tool, {"city": "Kyoto"}, run=run)

    replies = wants(TOKYO, {"city": "Oslo"}), wants(TOKYO, {"city": "Tokyo"}), Reply("Both.")
    model, answer = await asked(site, Cached, *replies)
    assert [messages[-1].content for messages in model.asked[1:]] == [
        "Oslo: 3°C, as was said before",
        "Kyoto: 22°C",
    ]
    called = [
        envelope
        for envelope in site.sent("mcp/request", sender="agent")
        if envelope.payload["method"] == "tools/call"
    ]
    assert [envelope.payload["params"]["arguments"] for envelope in called] == [{"city": "Kyoto"}]
    assert answer == "Both."


async def test_the_signatures_of_the_specification_itself_replace_the_methods(site: Site) -> None:
    class Literal(MEWAgent):
        async def reason(self, input: str, previous_thoughts: Sequence[Thought]) -> Move:  # type: ignore[override]
            return await super().reason(f"{input} Be brief.", previous_thoughts)

        async def act(self, action: str, input: Any) -> str:  # type: ignore[override]
            return f"{action}: {await super().act(action, input)}"

        async def execute_llm_tool_call(self, tool: str, args: Any) -> str:  # type: ignore[override]
            return await super().execute_llm_tool_call(tool, {"city": "Kyoto"})

    model, answer = await asked(site, Literal, wants(TOKYO, {"city": "Tokyo"}), Reply("Warm."))
    assert model.asked[0][-1].content == "How is Tokyo? Be brief."
    assert model.asked[1][-1].content == "tool_call: Kyoto: 22°C"
    assert answer == "Warm."


async def test_a_step_outside_of_any_work_says_that_it_needs_a_run(site: Site) -> None:
    agent = await site.agent("agent", Script())
    with pytest.raises(LookupError, match="no run of an agent works here; it is given as run="):
        await agent.act("tool_call", {"tool": TOKYO, "arguments": {}})


@pytest.mark.parametrize("method", ["act", "execute_llm_tool_call"])
async def test_what_a_replaced_method_raises_is_an_observation(site: Site, method: str) -> None:
    async def fails(self: MEWAgent, *_: Any, **__: Any) -> str:
        raise LookupError("the cache is gone")

    failing = type("Failing", (MEWAgent,), {method: fails})
    model, answer = await asked(site, failing, wants(TOKYO, {"city": "Tokyo"}), Reply("No luck."))
    assert model.asked[1][-1].content == f"Error: {TOKYO}: the cache is gone"
    assert answer == "No luck."
