"""An agent keeps its conversation within the context of its model, and carries out orders about it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.agent.agent import MEWAgent
from mew_lab.agent.context_window import MAX_ENTRIES, Memory
from mew_lab.agent.model import Message, Reply, Usage, estimate_tokens
from mew_lab.protocol.envelope import PROTOCOL, Envelope
from mew_lab.protocol.text import abridge

from .conftest import Script, Site, until, wants

# --- prompts that fit -------------------------------------------------------------------------------------------------


def statuses(site: Site) -> list[dict[str, Any]]:
    return [envelope.payload for envelope in site.sent("participant/status", sender="agent")]


async def talked(site: Site, *texts: str, **options: Any) -> tuple[Any, MEWAgent]:
    """A human who has said these to everybody, and an agent that heard."""
    human = await site.seat("human")
    model = options.pop("model", None) or Script(max_tokens=options.pop("context", None))
    agent = await site.agent("agent", model, respond_to_questions=False, **options)
    agent.configure(auto_respond=False)
    for text in texts:
        await human.chat(text)
    await until(lambda: len(agent.memory) == len(texts))
    agent.configure(auto_respond=True)
    return human, agent


async def ordered(human: Any, site: Site, kind: str, **payload: Any) -> Envelope:
    return await human.send_accepted({"kind": kind, "to": ["agent"], "payload": payload})


@pytest.mark.req("S-L3-12", "S-L3-14", "P-3.9.5-4", "P-3.9.5-5", "S-L2-42")
async def test_before_the_context_is_full_the_oldest_is_forgotten_and_both_is_said(site: Site) -> None:
    model = Script(Reply("Hello."), max_tokens=1000)
    human, _agent = await talked(
        site, *(f"{n} " + "x" * 400 for n in range(10)), model=model, conversation_history_length=20
    )
    await human.chat("Hello", to="agent")
    await site.answer("agent")
    used = sum(len(message.content) for message in model.asked[0]) / 4
    assert used <= 0.7 * 1000
    reports = [status for status in statuses(site) if status.get("status") in ("compacting", "compacted")]
    assert [report["status"] for report in reports] == ["compacting", "compacted"]
    assert reports[1]["messages_in_context"] < reports[0]["messages_in_context"]
    assert reports[1]["freed_tokens"] > 0 and reports[1]["headroom_tokens"] >= 300
    assert model.asked[0][-2].content.startswith("human: 9 ")
    assert not any("left out" in message.content for message in model.asked[0])  # whole messages went


async def test_what_was_forgotten_before_the_prompt_began_is_not_taken_for_room(site: Site) -> None:
    model = Script(Reply("Hello."), max_tokens=1000)
    human, _ = await talked(
        site, *(f"{n} " + "x" * 400 for n in range(30)), model=model, conversation_history_length=8
    )
    await human.chat("Hello", to="agent")
    await site.answer("agent")
    assert not any("left out" in message.content for message in model.asked[0])
    assert 2 <= len(model.asked[0]) - 2 < 8


async def test_a_huge_tool_result_is_cut_to_fit_and_says_so(site: Site) -> None:
    def flood() -> str:
        return "BEGIN" + "x" * 500_000 + "END"

    human = await site.seat("human")
    await site.tool("pump", flood)
    model = Script(wants("pump/flood"), Reply("Much."), max_tokens=2000)
    await site.agent("agent", model)
    await human.chat("Pump", to="agent")
    assert (await site.answer("agent")).payload["text"] == "Much."
    seen = model.asked[1][-1].content
    assert seen.startswith("BEGIN") and seen.endswith("END") and "characters left out" in seen
    assert sum(len(message.content) for message in model.asked[1]) / 4 <= 0.7 * 2000
    # The conversation is not in the prompt, so forgetting it would free nothing.
    assert "compacting" not in {status.get("status") for status in statuses(site)}


@pytest.mark.req("P-3.9.4-7", "S-L2-41")
async def test_near_the_limit_a_status_is_sent_unasked(site: Site) -> None:
    model = Script(Reply("Hello.", usage=Usage(950, 10)), max_tokens=1000)
    human, _ = await talked(site, model=model)
    await human.chat("Hello", to="agent")
    reports = await until(
        lambda: [status for status in statuses(site) if status.get("status") == "near_limit"]
    )
    assert reports[0]["tokens"] == 960 and reports[0]["max_tokens"] == 1000


@pytest.mark.req("S-L3-13")
async def test_forget_trims_the_conversation(site: Site) -> None:
    human, agent = await talked(site, "one", "two", "three")
    await ordered(human, site, "participant/forget", direction="oldest", entries=2)
    await until(lambda: len(agent.memory) == 1)
    assert [entry.text for entry in agent.memory.entries] == ["three"]
    reports = await until(lambda: statuses(site))
    assert reports[-1]["messages_in_context"] == 1


@pytest.mark.req("S-L3-13")
async def test_clear_ends_the_reasoning_and_empties_the_conversation(site: Site) -> None:
    human, agent = await talked(site, "one")
    await site.tool("clock", lambda: "noon", name="now")
    agent.model.replies.append(wants("clock/now"))  # type: ignore[attr-defined]
    await until(lambda: agent.participant.discovery.get_available_tools())
    patterns = [{"kind": "mcp/request", "payload": {"method": "tools/call"}}]
    await human.send_accepted(
        {"kind": "capability/revoke", "payload": {"recipient": "agent", "capabilities": patterns}}
    )
    await human.chat("What time is it?", to="agent")
    await site.first("reasoning/start")
    await ordered(human, site, "participant/clear")
    await until(lambda: not agent.runs and site.sent("chat", sender="agent"))
    assert [envelope.payload["text"] for envelope in site.sent("chat", sender="agent")] == ["Stopped: clear."]
    await until(lambda: {entry.sender for entry in agent.memory.entries} <= {"agent"})  # what was said since
    [cancel] = list(site.sent("reasoning/cancel", "reasoning/conclusion"))
    assert cancel.context == site.sent("reasoning/start")[0].id
    reports = await until(
        lambda: [status for status in statuses(site) if str(status.get("status", "")).startswith("cleared")]
    )
    assert reports[-1]["messages_in_context"] == 0


async def test_compact_on_request_frees_what_it_says(site: Site) -> None:
    human, agent = await talked(site, *("x" * 400 for _ in range(4)))
    before = agent.memory.tokens
    order = await ordered(human, site, "participant/compact", target_tokens=250)
    done = await site.first("participant/compact-done", "agent")
    assert done.correlation_id == (order.id,)
    assert done.payload["freed_tokens"] == before - agent.memory.tokens and agent.memory.tokens <= 250
    assert done.payload["freed_messages"] == 4 - len(agent.memory)


async def test_restart_begins_anew_and_still_answers(site: Site) -> None:
    human, agent = await talked(site, "one")
    await ordered(human, site, "participant/restart")
    await until(lambda: len(agent.memory) == 0)
    await human.chat("Hello", to="agent")
    assert (await site.answer("agent")).payload["text"] == "done"


async def test_shutdown_ends_the_work_and_the_agent_leaves(site: Site) -> None:
    human, agent = await talked(site, "one")
    await ordered(human, site, "participant/shutdown")
    await until(lambda: agent.participant.client.state == "disconnected")
    assert not agent.runs


async def test_what_is_not_known_to_be_limited_is_not_trimmed(site: Site) -> None:
    _, agent = await talked(site, "one")
    assert agent.context_window.excess([Message("user", "x" * 10_000_000)]) == 0


# --- the conversation -------------------------------------------------------------------------------------------------


def chat(id: str, text: str, sender: str = "human", **more: Any) -> Envelope:
    members = {"protocol": PROTOCOL, "id": id, "ts": "2026-01-01T00:00:00Z", "from": sender, "kind": "chat"}
    return Envelope.of(members | {"payload": {"text": text}} | more)


def memory_of(*texts: str) -> Memory:
    memory = Memory()
    for n, text in enumerate(texts):
        memory.observe(chat(f"m{n}", text, sender="me" if n % 2 else "human"))
    return memory


@pytest.mark.req("S-L3-26")
def test_the_last_n_messages_before_the_request_are_in_the_prompt_and_none_by_default() -> None:
    memory = memory_of("one", "two", "three", "four")
    assert memory.before("m3", length=2, me="me") == [
        Message("assistant", "two"),
        Message("user", "human: three"),
    ]
    assert memory.before("m3", length=0, me="me") == []
    assert len(memory.before("unknown", length=9, me="me")) == 4


@pytest.mark.req("P-3-19", "P-3.5.6-2", "P-3.8.1-9")
def test_others_reasoning_and_welcomes_are_not_remembered() -> None:
    memory = Memory()
    memory.observe(chat("a", "thinking aloud", context="reason-1"))
    memory.observe(chat("b", "a welcome", kind="system/welcome", **{"from": "system:gateway"}))
    memory.observe(chat("c", "a thought", kind="reasoning/thought"))
    assert len(memory) == 0


@pytest.mark.parametrize(
    ("direction", "entries", "left"),
    [("oldest", 1, ["b", "c"]), ("newest", 2, ["a"]), ("oldest", 9, []), ("oldest", -1, ["a", "b", "c"]),
     ("oldest", None, ["c"]), ("newest", None, ["a"])],
)  # fmt: skip
def test_forgetting_trims_one_end(direction: str, entries: int | None, left: list[str]) -> None:
    memory = memory_of("a", "b", "c")
    before = memory.tokens
    freed = memory.forget(direction, entries)
    assert [entry.text for entry in memory.entries] == left
    assert (freed.messages, freed.tokens) == (3 - len(left), before - memory.tokens)


def test_compacting_drops_the_oldest_until_the_rest_fits() -> None:
    memory = memory_of("x" * 400, "y" * 40, "z" * 40)
    freed = memory.compact(40)
    assert [entry.text[0] for entry in memory.entries] == ["y", "z"] and freed.messages == 1
    assert memory.compact(40).messages == 0
    assert memory.clear().messages == 2 and memory.tokens == 0


def test_a_flood_is_bounded() -> None:
    memory = memory_of(*("x" for _ in range(MAX_ENTRIES + 5)))
    memory.observe(chat("big", "x" * 1_000_000))
    assert len(memory) == MAX_ENTRIES and memory.tokens < 200_000


@given(st.text(), st.integers(min_value=30, max_value=500))
def test_what_is_shortened_keeps_both_ends_and_says_how_much_is_gone(text: str, limit: int) -> None:
    short = abridge(text, limit)
    assert short == text if len(text) <= limit else len(short) <= limit + 60
    assert short[:10] == text[:10] and short[-5:] == text[-5:]
    assert estimate_tokens(text) >= len(text.encode("utf-8", "surrogatepass")) / 4


async def test_an_agent_takes_up_the_conversation_of_earlier_messages_but_for_what_it_was_to_forget(
    site: Site,
) -> None:
    human = await site.seat("human")
    await site.agent("agent", Script(), auto_respond=False)
    for text in ("old", "cleared"):
        await human.chat(text)
    await human.controls.clear("agent")
    for text in ("one", "two", "three"):
        await human.chat(text)
    await human.controls.forget("agent", direction="oldest", entries=1)
    await human.chat("in a context", context="elsewhere")
    earlier = [*site.sent()]
    await site.agents.pop().stop()
    again = await site.agent("agent", Script(), auto_respond=False)
    await human.chat("now")
    await until(lambda: [one.text for one in again.conversation_history] == ["now"])
    again.remember([*earlier, *site.sent("chat")[-1:]])
    assert [one.text for one in again.conversation_history] == ["two", "three", "now"]
    assert again.participant.telemetry.messages == 3
    assert again.memory.tokens == sum(one.tokens for one in again.conversation_history)
