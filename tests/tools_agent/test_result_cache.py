"""A result that a tool's `cache` gives again: when, to whom, how it is told, and what forgets it."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.agent.model import Reply
from mew_lab.errors import ConfigError
from mew_lab.tools_agent.agent_file import parse_agent
from mew_lab.tools_agent.executor import CACHED, CONTEXT
from mew_lab.tools_agent.member import ToolsAgent
from mew_lab.tools_agent.result_cache import MAX_KEPT, MAX_RESULT, ResultCache

from ..agent.conftest import PROPOSER, Script, until, wants
from .conftest import ASK, Site, described

READS = {"readOnlyHint": True}
CACHED_ASK = {**ASK, "cache": 60, "needs": ["eye/look"]}
TWO = {"what": "x"}


class Clock:
    """Seconds that a test sets; the time of day is that of a morning in 2026."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def cache(self) -> ResultCache[Any]:
        return ResultCache(clock=lambda: self.seconds, now=lambda: 1_767_258_000.0 + self.seconds)


def look(place: str) -> str:
    """Looks somewhere."""
    if place == "nowhere":
        raise ValueError("nothing is there")
    return f"seen {place}"


def looking(*texts: str, place: str = "shed") -> Script:
    """A model that looks once in each session and then answers with the next of these texts."""
    return Script(*(reply for text in texts for reply in (wants("eye/look", {"place": place}), Reply(text))))


async def desk_of(
    site: Site, model: Any, tool: dict[str, Any] = CACHED_ASK, *, hints: Any = READS, **limits: Any
) -> ToolsAgent:
    await site.tool("eye", look, annotations=hints)
    return await site.desk(model, described(tool), **limits)


async def ask(desk: ToolsAgent, *, times: int = 2, **how: Any) -> list[str]:
    """The texts of equal calls, one after the other."""
    return [(await desk.executor.execute("ask", TWO, **how)).text for _ in range(times)]


# --- a hit -------------------------------------------------------------------------------------------------------


async def test_an_equal_call_gets_the_result_of_before_and_is_told_so(site: Site) -> None:
    model, clock, steps = looking("First.", "Second."), Clock(), []
    desk = await desk_of(site, model)
    desk.executor.cache = clock.cache()
    first = await desk.executor.execute("ask", {"what": "x", "name": "n"})
    sent = len(site.records)
    clock.seconds = 59.9
    again = await desk.executor.execute("ask", {"name": "n", "what": "x"}, on_step=steps.append)
    assert (first.text, again.text, first.from_cache) == ("First.", "First.", "")
    assert again.from_cache.startswith("from the cache, ") and len(again.from_cache) == len(
        "from the cache, 12:03"
    )
    assert steps == [again.from_cache]
    assert again.result == {
        "content": [{"type": "text", "text": "First."}, {"type": "text", "text": f"({again.from_cache})"}],
        "isError": False,
        "_meta": {"mew-lab/tool": dict(first.version), CACHED: {"at": "2026-01-01T09:00:00.000Z"}},
    }
    assert CACHED not in first.result["_meta"] and len(first.result["content"]) == 1
    assert len(site.records) == sent, "a hit sends nothing: no reasoning, no request, no proposal"
    assert (again.calls, again.turns, again.usage, again.context) == ((), (), None, "")
    assert desk.executor.history[-1].arguments == {"what": "x", "name": "n"}
    clock.seconds = 60.0
    assert (await desk.executor.execute("ask", {"what": "x", "name": "n"})).text == "Second."


async def test_over_the_wire_a_hit_is_an_answer_like_any_other_and_carries_no_receipt(site: Site) -> None:
    desk = await desk_of(site, looking("First.", "Second."))
    asker = await site.seat("asker")
    results = [await asker.call("desk/ask", TWO) for _ in range(2)]
    assert results[0].text == "First."
    assert results[1].text.startswith("First.") and "(from the cache, " in results[1].text
    assert CACHED in results[1].raw["_meta"] and CONTEXT not in results[1].raw["_meta"]
    answers = site.sent("mcp/response", sender="desk")
    assert len([one for one in answers if "content" in one.payload["result"]]) == 2
    looks = [one for one in site.sent("mcp/request", sender="desk") if one.payload["method"] == "tools/call"]
    assert len(looks) == 1 and site.sent("mcp/proposal") == []
    assert not [record for record in site.records if record.event == "receipt"]
    assert desk.executor.history[-1].request == site.sent("mcp/request", sender="asker")[-1].id


async def test_a_result_as_data_is_given_again_as_data(site: Site) -> None:
    tool = {
        **CACHED_ASK,
        "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    }
    desk = await desk_of(site, looking('{"n": 1}', '{"n": 2}'), tool)
    first, again = [(await desk.executor.execute("ask", TWO)).result for _ in range(2)]
    assert first["structuredContent"] == again["structuredContent"] == {"n": 1}
    assert json.loads(again["content"][0]["text"]) == {"n": 1}


async def test_without_cache_every_call_is_run(site: Site) -> None:
    desk = await desk_of(site, looking("First.", "Second."), {**ASK, "needs": ["eye/look"]})
    assert await ask(desk) == ["First.", "Second."]


async def test_a_caller_gets_no_result_of_another_because_the_model_is_told_who_calls(site: Site) -> None:
    desk = await desk_of(site, looking("For a.", "For b.", "Never."))
    one, other = await site.seat("a"), await site.seat("b")
    texts = [(await who.call("desk/ask", TWO)).text.partition("\n")[0] for who in (one, other, one, other)]
    assert [text.partition("(")[0].strip() for text in texts] == ["For a.", "For b.", "For a.", "For b."]
    assert len(desk.executor.cache) == 2


async def test_a_call_that_continues_a_session_is_run_and_not_kept(site: Site) -> None:
    desk = await desk_of(site, looking("First.", "Second.", "Third."))
    first = await desk.executor.execute("ask", TWO)
    kept = len(desk.executor.cache)
    assert (await desk.executor.execute("ask", TWO, continues=first.context)).text == "Second."
    assert len(desk.executor.cache) == kept == 1


async def test_a_test_of_a_tool_runs_it_in_any_case(site: Site) -> None:
    desk = await desk_of(site, looking("First.", "Second.", "Third."))
    assert await ask(desk, times=1) == ["First."]
    assert (await desk.call("ask", TWO, fresh=True)).text == "Second."
    assert await ask(desk, times=1) == ["Second."], "the newest result is the one that is kept"


# --- what is not kept --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "hints",
    [
        {},
        {"readOnlyHint": False},
        {"idempotentHint": True},
        {"readOnlyHint": "true"},
        {**READS, "destructiveHint": True},
    ],
)
async def test_nothing_is_kept_where_a_needed_tool_is_not_listed_as_read_only(site: Site, hints: Any) -> None:
    desk = await desk_of(site, Script(Reply("First."), Reply("Second.")), hints=hints)
    assert await ask(desk) == ["First.", "Second."]


async def test_nothing_is_kept_of_a_session_that_called_a_tool_that_is_not_listed_as_read_only(
    site: Site,
) -> None:
    await site.tool("hand", look, annotations={})
    model = Script(
        *(
            reply
            for text in ("First.", "Second.")
            for reply in (wants("hand/look", {"place": "a"}), Reply(text))
        )
    )
    desk = await desk_of(site, model)
    assert await ask(desk) == ["First.", "Second."]


@pytest.mark.parametrize(
    ("replies", "told"),
    [
        ((wants("eye/look", {"place": "nowhere"}), Reply("It failed.")), "It failed."),  # a failure within
        ((wants("eye/gone", {}), Reply("No such tool.")), "No such tool."),
        ((Reply("Cut", cut=True),), "ask: "),
        ((RuntimeError("the model broke"),), "ask: "),
    ],
)
async def test_errors_are_never_kept(site: Site, replies: Any, told: str) -> None:
    desk = await desk_of(site, Script(*replies, Reply("Second.")))
    first, second = await ask(desk)
    assert first.startswith(told) and second == "Second."


async def test_a_call_that_took_longer_than_its_deadline_is_not_kept(site: Site) -> None:
    async def never() -> Reply:
        await asyncio.Event().wait()
        return Reply("never")

    desk = await desk_of(site, Script(never), deadline=0.05)
    (first,) = await ask(desk, times=1)
    assert "longer than" in first and len(desk.executor.cache) == 0


async def test_refused_arguments_are_not_kept(site: Site) -> None:
    desk = await desk_of(site, Script())
    assert (await desk.executor.execute("ask", {"what": 5})).is_error
    assert len(desk.executor.cache) == 0


async def test_nothing_is_kept_of_a_call_that_a_person_decided_on(site: Site) -> None:
    """TA-73: never for calls that ran a gated tool; the next call is asked about again."""
    await site.tool("eye", look, annotations=READS)
    person = await site.seat("human")
    desk = await site.desk(looking("First.", "Second."), described(CACHED_ASK), can=PROPOSER, propose=True)
    for number, text in enumerate(("First.", "Second."), 1):
        call = asyncio.ensure_future(desk.executor.execute("ask", TWO))
        await person.approve((await site.proposal("desk", person, number)).id)
        assert (await call).text == text
    assert len(desk.executor.cache) == 0


# --- what is forgotten -------------------------------------------------------------------------------------------


async def relist(site: Site, desk: ToolsAgent) -> None:
    eye = next(one for one in site.seated if one.client.id == "eye")
    eye.tools.add(look, name="stare", annotations=READS)
    await until(lambda: len(desk.participant.discovery.discovered_tools["eye"]) == 2)


async def leave(site: Site, desk: ToolsAgent) -> None:
    eye = next(one for one in site.seated if one.client.id == "eye")
    await eye.stop()
    await until(lambda: "eye" not in desk.participant.discovery.discovered_tools)
    site.seated.remove(eye)
    await site.tool("eye", look, annotations=READS)
    await until(lambda: "eye" in desk.participant.discovery.discovered_tools)


async def notify(site: Site, desk: ToolsAgent) -> None:
    eye = next(one for one in site.seated if one.client.id == "eye")
    await eye.sender.say("mcp/request", {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    await until(lambda: len(desk.executor.cache) == 0)


async def redefine(site: Site, desk: ToolsAgent) -> None:
    desk.replace(described({**CACHED_ASK, "prompt": "Find out: {what}"}))


async def other_settings(site: Site, desk: ToolsAgent) -> None:
    desk.replace(described(CACHED_ASK, system_prompt="You are brief."))


@pytest.mark.parametrize("change", [relist, leave, notify, redefine, other_settings])
async def test_a_change_of_the_definition_or_of_a_needed_list_forgets_it(
    site: Site, change: Callable[[Site, ToolsAgent], Any]
) -> None:
    desk = await desk_of(site, looking("First.", "Second.", "Third."))
    assert await ask(desk) == ["First.", "First."]
    await change(site, desk)
    assert await ask(desk) == ["Second.", "Second."]


async def test_the_list_of_a_participant_that_the_result_does_not_rest_on_forgets_nothing(site: Site) -> None:
    other = await site.tool("ear", look, annotations={})
    desk = await desk_of(site, looking("First.", "Second."))
    assert await ask(desk, times=1) == ["First."]
    other.tools.add(look, name="hear")
    await until(lambda: len(desk.participant.discovery.discovered_tools["ear"]) == 2)
    assert await ask(desk, times=1) == ["First."]


async def test_a_list_that_changes_while_a_call_runs_keeps_nothing_of_it(site: Site) -> None:
    made: list[ToolsAgent] = []

    async def changing() -> Reply:
        await relist(site, made[0])
        return Reply("First.")

    made.append(await desk_of(site, Script(changing, Reply("Second."))))
    assert await ask(made[0]) == ["First.", "Second."]


async def test_a_right_that_was_taken_away_is_not_got_round_by_a_kept_result(site: Site) -> None:
    desk = await desk_of(site, looking("First.", "Second."))
    boss = await site.seat("boss", [{"kind": "*"}])
    assert await ask(desk) == ["First.", "First."]
    await boss.sender.say(
        "capability/revoke", {"recipient": "desk", "capabilities": [{"kind": "mcp/request"}]}, to="desk"
    )
    rpc = {"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": {"name": "look"}}
    await until(lambda: not desk.participant.can_send("mcp/request", rpc, "eye"))
    assert await ask(desk, times=1) != ["First."]


async def test_a_caller_that_the_file_no_longer_lists_gets_nothing(site: Site) -> None:
    tool = {**CACHED_ASK, "callers": ["asker"]}
    desk = await desk_of(site, looking("First."), tool)
    asker = await site.seat("asker")
    assert (await asker.call("desk/ask", TWO)).text == "First."
    desk.replace(described({**tool, "callers": ["other"]}))
    with pytest.raises(Exception, match="does not list asker"):
        await asker.call("desk/ask", TWO)


# --- the store ---------------------------------------------------------------------------------------------------


def test_the_store_is_bounded_in_number_and_size() -> None:
    cache: ResultCache[int] = ResultCache()
    for n in range(MAX_KEPT + 50):
        cache.keep(str(n), n, seconds=60, participants=("eye",), size=1)
    assert len(cache) == MAX_KEPT and cache.find("0") is None and cache.find(str(MAX_KEPT + 49)) is not None
    cache.keep("long", 1, seconds=60, participants=(), size=MAX_RESULT + 1)
    assert cache.find("long") is None
    for n in range(100):
        cache.keep(f"great {n}", n, seconds=60, participants=(), size=MAX_RESULT)
    assert len(cache) * MAX_RESULT <= 8_000_000 + MAX_RESULT


operations = st.lists(
    st.one_of(
        st.tuples(
            st.just("keep"),
            st.sampled_from("abc"),
            st.integers(0, 9),
            st.integers(0, 5),
            st.sets(st.sampled_from("xyz")),
        ),
        st.tuples(st.just("wait"), st.integers(0, 3)),
        st.tuples(st.just("forget"), st.sampled_from("xyz")),
        st.tuples(st.just("clear")),
    )
)


@given(operations)
def test_the_store_has_what_was_kept_last_and_neither_ended_nor_forgotten(steps: list[Any]) -> None:
    clock, model = Clock(), {}
    cache = clock.cache()
    for step, *given_ in steps:
        if step == "keep":
            key, value, seconds, participants = given_
            cache.keep(key, value, seconds=seconds, participants=participants, size=1)
            model[key] = (value, clock.seconds + seconds, participants)
        elif step == "wait":
            clock.seconds += given_[0]
        elif step == "forget":
            cache.forget(given_[0])
            model = {key: kept for key, kept in model.items() if given_[0] not in kept[2]}
        else:
            cache.clear()
            model = {}
        for key in "abc":
            value, ends_at, _ = model.get(key, (None, 0, ()))
            found = cache.find(key)
            assert (found.value if found else None) == (value if clock.seconds < ends_at else None)


# --- generated definitions and arguments -------------------------------------------------------------------------

arguments = st.fixed_dictionaries(
    {"what": st.sampled_from(["x", "y", "\u202e", "{name}"])},
    optional={"name": st.sampled_from(["", "n", "1"])},
)
definitions = st.fixed_dictionaries(
    {},
    optional={
        "cache": st.sampled_from([0, 0.5, 5, "5", None]),
        "needs": st.sampled_from([[], ["eye/look"], ["hand/look"], ["eye/look", "hand/look"]]),
        "prompt": st.sampled_from(["Find {what}", "{what} {name}"]),
    },
)
calls = st.lists(
    st.tuples(st.integers(0, 1), arguments, st.sampled_from(["", "eye", "hand"]), st.sampled_from([0, 1, 6])),
    max_size=12,
)


@given(st.lists(definitions, min_size=2, max_size=2), calls)
def test_a_model_is_asked_exactly_where_no_equal_call_that_only_read_is_younger_than_its_cache(
    tools: list[dict[str, Any]], calls: list[Any]
) -> None:
    """Against a plain table: the tool, its arguments as JSON with sorted keys, and when its result ends."""

    async def run() -> None:
        site, clock = Site(), Clock()
        try:
            await site.tool("eye", look, annotations=READS)
            await site.tool("hand", look, annotations={})
            model = Script()
            agent = described(*({**ASK, **tool, "name": f"t{n}"} for n, tool in enumerate(tools)))
            desk = await site.desk(model, agent)
            desk.executor.cache = clock.cache()
            table: dict[tuple[int, str], tuple[str, float]] = {}
            for n, (which, given_, calls_tool, later) in enumerate(calls):
                clock.seconds += later
                tool, key = tools[which], (which, json.dumps(given_, sort_keys=True))
                seconds = float(tool.get("cache") or 0)
                text, ends_at = table.get(key, ("", 0.0))
                model.replies = [wants(f"{calls_tool}/look", {"place": "p"})] * bool(calls_tool) + [
                    Reply(f"answer {n}")
                ]
                done = await desk.executor.execute(f"t{which}", given_)
                if clock.seconds < ends_at:
                    assert (done.text, bool(done.from_cache), len(model.replies)) == (
                        text,
                        True,
                        1 + bool(calls_tool),
                    )
                    continue
                assert (done.text, done.from_cache, model.replies) == (f"answer {n}", "", [])
                only_read = "hand/look" not in (*tool.get("needs", ()), f"{calls_tool}/look")
                if seconds and only_read:
                    table[key] = (done.text, clock.seconds + seconds)
        finally:
            for desk in site.desks:
                await desk.stop()
            await site.close()

    asyncio.run(run())


# --- the file ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cache", [-1, 86_401, "soon", True, [5], float("nan")])
def test_a_time_that_is_none_is_a_fault_with_its_place(cache: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"metadata\.tools\[0\]\.cache: this must be a number from 0 to 86400"
    ):
        parse_agent({"metadata": {"name": "Desk", "mode": "tools", "tools": [{**ASK, "cache": cache}]}})


def test_the_hash_of_a_tool_tells_of_its_cache_and_is_that_of_before_without_one() -> None:
    plain, off, on, other = (
        described({**ASK, "cache": seconds}).tools[0].digest for seconds in (None, 0, 5, 6)
    )
    parts = (ASK["name"], ASK["description"], ASK["parameters"], ASK["prompt"], (None, None, None), (), None)
    assert plain == off == hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
    assert len({plain, on, other}) == 3
