"""The sequences of a space stand as trees, and whoever may can end one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from heard import Space

from mew_lab.errors import CapabilityViolation, MewError
from mew_lab.lab.lab import Lab
from mew_lab.ledger import reasoning as ledger
from mew_lab.sdk.client import StreamData
from mew_lab.views.reasoning import model as whole
from mew_lab.views.reasoning import rows as module
from mew_lab.views.reasoning.model import MAX_STEPS, ReasoningModel
from mew_lab.views.reasoning.rows import SequenceRow

from ...holding import most_held

ADD = {"method": "tools/call", "params": {"name": "add", "arguments": {"a": 1}}}


class Quiet:
    """A participant whom nobody asks."""


@pytest.fixture
def thoughts() -> ReasoningModel:
    return ReasoningModel(Quiet())  # type: ignore[arg-type]


@pytest.fixture
def space(thoughts: ReasoningModel) -> Space:
    return Space(thoughts)


def only(thoughts: ReasoningModel) -> SequenceRow:
    (sequence,) = thoughts.sequences
    return sequence


@pytest.mark.req("P-3.5.1-2", "P-3.5.2-1", "P-3.5.3-1", "P-3.5.4-1")
def test_what_carries_the_id_of_the_start_belongs_to_it_until_its_conclusion(
    thoughts: ReasoningModel, space: Space
) -> None:
    space.tell("reasoning/start", {"message": "Working on: rain"}, id="r1", about="chat-1")
    space.tell("reasoning/thought", {"message": "Look at the sky"}, context="r1")
    space.tell("chat", {"text": "Who knows?"}, context="r1")
    space.tell("reasoning/thought", {"message": "elsewhere"}, context="")
    sequence = only(thoughts)
    assert (sequence.facts.owner, sequence.text, sequence.facts.about, sequence.facts.state) == (
        "helper",
        "Working on: rain",
        ("chat-1",),
        "active",
    )
    space.tell("reasoning/conclusion", {"message": "It rains"}, context="r1")
    sequence = only(thoughts)
    assert (sequence.facts.state, sequence.facts.ended, sequence.facts.started, sequence.facts.by) == (
        "concluded",
        5.0,
        1.0,
        "helper",
    )
    assert [(step.kind, step.text) for step in thoughts.steps(sequence.facts.key)] == [
        ("reasoning/thought", "Look at the sky"),
        ("chat", "Who knows?"),
        ("reasoning/conclusion", "It rains"),
    ]
    assert (sequence.facts.steps, sequence.thoughts, sequence.calls) == (3, 1, 0)


@pytest.mark.req("P-3.5.6-5")
def test_sequences_side_by_side_do_not_meet_and_parts_keep_their_path(
    thoughts: ReasoningModel, space: Space
) -> None:
    space.tell("reasoning/start", {"message": "a"}, id="a", by="bot")
    space.tell("reasoning/start", {"message": "b"}, id="b")
    space.tell("reasoning/thought", {"message": "of a"}, context="a", by="bot")
    space.tell("reasoning/thought", {"message": "in a part"}, context="b/plan/first")
    space.tell("reasoning/start", {"message": "inner"}, id="c", context="b/plan")
    space.tell("reasoning/thought", {"message": "of c"}, context="b/plan/c")
    space.tell("reasoning/thought", {"message": "of c too"}, context="c")
    a, b, c = thoughts.sequences
    assert [step.text for step in thoughts.steps(a.facts.key)] == ["of a"]
    assert [(step.path, step.child) for step in thoughts.steps(b.facts.key)] == [
        ("plan/first", 0),
        ("plan", c.facts.key),
    ]
    assert (c.facts.parent, c.facts.place, c.facts.path) == (b.facts.key, 2, "plan")
    assert (c.facts.parent, [step.text for step in thoughts.steps(c.facts.key)]) == (
        b.facts.key,
        ["of c", "of c too"],
    )


@pytest.mark.req("S-L3-20")
def test_a_call_that_correlates_to_the_start_stands_in_place_with_what_became_of_it(
    thoughts: ReasoningModel, space: Space
) -> None:
    space.tell("reasoning/start", {"message": "adds"}, id="r")
    space.tell("mcp/proposal", ADD, id="p", about="r", to=["tools"])
    assert (only(thoughts).open_calls, only(thoughts).calls) == (1, 1)
    space.tell("mcp/request", ADD, by="human", id="q", about="p", to=["tools"])
    space.tell(
        "mcp/response", {"result": {"content": [{"type": "text", "text": "3"}]}}, by="tools", about="q"
    )
    (step,) = thoughts.steps(only(thoughts).facts.key)
    assert step.call is not None
    assert (step.call.state, step.call.by, step.call.result, step.call.ended) == (
        "answered",
        "human",
        "“3”",
        4.0,
    )
    assert (only(thoughts).open_calls, only(thoughts).facts.steps) == (0, 1)


def test_a_call_that_the_gateway_refused_is_told_and_other_refused_messages_are_not(
    thoughts: ReasoningModel, space: Space
) -> None:
    space.tell("reasoning/start", {"message": "adds"}, id="r")
    space.tell("mcp/request", ADD, about="r", to=["tools"], verdict="refused", code="capability_violation")
    space.tell("reasoning/thought", {"message": "unheard"}, context="r", verdict="refused")
    space.tell("reasoning/start", {"message": "unheard"}, id="s", verdict="refused")
    (step,) = thoughts.steps(only(thoughts).facts.key)
    assert step.call is not None and step.call.state == "refused"
    assert only(thoughts).open_calls == 0


@pytest.mark.req("P-3.5.5-1", "C-24")
def test_its_owner_concludes_and_anybody_who_may_cancels(thoughts: ReasoningModel, space: Space) -> None:
    space.tell("reasoning/start", {"message": "a"}, id="a")
    space.tell("reasoning/conclusion", {"message": "done"}, context="a", by="mallory")
    assert only(thoughts).facts.state == "active", "only its owner concludes"
    space.tell("reasoning/cancel", {"reason": "superseded"}, context="a", by="human")
    sequence = only(thoughts)
    assert (sequence.facts.state, sequence.facts.by, sequence.facts.reason) == (
        "cancelled",
        "human",
        "superseded",
    )
    space.tell("reasoning/conclusion", {"message": "late"}, context="a")
    assert only(thoughts).facts.state == "cancelled"
    assert only(thoughts).facts.steps == 3


def test_one_whose_participant_left_is_over(thoughts: ReasoningModel, space: Space) -> None:
    space.tell("reasoning/start", {"message": "a"}, id="a")
    gone = {"event": "leave", "participant": {"id": "helper"}}
    space.tell("system/presence", gone, by="mallory")
    assert only(thoughts).facts.state == "active"
    space.tell("system/presence", gone, by="system:gateway")
    assert only(thoughts).facts.state == "left"


def test_a_start_that_nobody_heard_is_told_as_such(thoughts: ReasoningModel, space: Space) -> None:
    space.tell("reasoning/thought", {"message": "going on"}, context="earlier/part")
    space.tell("chat", {"text": "of no sequence"}, context="somewhere")
    sequence = only(thoughts)
    assert (sequence.facts.id, sequence.text, sequence.facts.seq, sequence.facts.steps) == (
        "earlier",
        "",
        0,
        1,
    )


@pytest.mark.req("S-L3-9")
def test_the_stream_beside_a_sequence_is_read_along(thoughts: ReasoningModel, space: Space) -> None:
    changes: list[tuple[int, int]] = []
    space.tell("reasoning/start", {"message": "a"}, id="a")
    space.tell("stream/request", {"description": "reasoning:a"}, by="mallory", id="bad")
    space.tell("stream/open", {"stream_id": "stream-8"}, by="system:gateway", about="bad")
    assert only(thoughts).facts.stream == "", "only its owner's stream stands beside it"
    space.tell("stream/request", {"direction": "upload"}, id="wish", about="a")
    space.tell("stream/open", {"stream_id": "stream-9"}, by="system:gateway", about="wish")
    assert (only(thoughts).facts.stream, only(thoughts).facts.streaming) == ("stream-9", True)
    thoughts.on_change = lambda key, n: changes.append((key, n))
    thoughts.frame(StreamData("stream-9", json.dumps({"type": "token", "text": "so"}).encode() + b"\n"))
    thoughts.frame(StreamData("stream-8", b"not mine"))
    assert thoughts.mirrored(only(thoughts).facts.key) == ("so", 2)
    assert changes == [(only(thoughts).facts.key, -1)]
    space.tell("stream/close", {"stream_id": "stream-9"}, by="mallory")
    assert only(thoughts).facts.streaming
    space.tell("stream/close", {"stream_id": "stream-9"})
    assert not only(thoughts).facts.streaming
    assert thoughts.mirrored(only(thoughts).facts.key) == ("so", 2)


def test_memory_is_bounded_in_steps_in_sequences_and_in_text(thoughts: ReasoningModel, space: Space) -> None:
    space.tell("reasoning/start", {"message": "a" * 9999}, id="busy")
    for n in range(700):
        space.tell("reasoning/thought", {"message": f"{n} {'x' * 5000}"}, context="busy")
    sequence = only(thoughts)
    assert (sequence.more, len(sequence.text)) == (True, module.MAX_TEXT)
    assert (sequence.facts.steps, sequence.dropped, len(thoughts.steps(sequence.facts.key))) == (
        700,
        200,
        500,
    )
    first = thoughts.steps(sequence.facts.key)[0]
    assert (first.n, first.more, len(first.text)) == (201, True, module.MAX_TEXT)
    for n in range(700):
        space.tell("reasoning/start", {"message": "short"}, id=f"s{n}")
        space.tell("reasoning/conclusion", {"message": "done"}, context=f"s{n}")
    assert len(thoughts.sequences) == 200 and thoughts.forgotten == 501
    assert thoughts.sequence(sequence.facts.key) is not None, "what is active goes last"
    assert thoughts.steps(2) == ()
    assert most_held(thoughts) == 500, "the steps of the busy one"


def test_sequences_whose_starts_were_not_heard_are_as_many_as_others(
    thoughts: ReasoningModel, space: Space
) -> None:
    space.tell("reasoning/start", {"message": "over"}, id="over")
    space.tell("reasoning/conclusion", {"message": "done"}, context="over")
    for n in range(300):
        space.tell("reasoning/thought", {"message": "on"}, context=f"s{n}")
        assert len(thoughts.sequences) <= 200
    assert (len(thoughts.sequences), thoughts.forgotten) == (200, 101)
    assert thoughts.sequences[0].facts.id == "s100" and thoughts.sequence(1) is None
    assert most_held(thoughts) == 200


def test_a_sequence_that_pushes_out_the_one_it_begins_in_is_held(
    thoughts: ReasoningModel, space: Space
) -> None:
    for n in range(200):
        space.tell("reasoning/start", {"message": "a"}, id=f"s{n}")
    space.tell("reasoning/conclusion", {"message": "done"}, context="s0")
    space.tell("reasoning/start", {"message": "inner"}, id="inner", context="s0")
    assert thoughts.sequence(1) is None
    assert (thoughts.sequences[-1].facts.id, thoughts.steps(201)) == ("inner", ())


def test_a_context_without_an_id_makes_no_sequence_that_others_fall_into(
    thoughts: ReasoningModel, space: Space
) -> None:
    for context in ("/", "//", "/" * 40, "x" * 300, "x" * 300 + "/" + "y" * 300):
        for _ in range(3):
            space.tell("reasoning/thought", {"message": "mine"}, by="mallory", context=context)
    assert thoughts.sequences == ()
    space.tell("reasoning/start", {"message": "adds"}, id="r")
    assert only(thoughts).facts.parent == 0
    space.tell("mcp/proposal", ADD, about="r", to=["tools"])
    space.tell("reasoning/thought", {"message": "in a part"}, context="/r//plan/")
    space.tell("reasoning/conclusion", {"message": "done"}, context="r/")
    steps = thoughts.steps(only(thoughts).facts.key)
    assert [(step.kind, step.path) for step in steps] == [
        ("mcp/proposal", ""), ("reasoning/thought", "plan"), ("reasoning/conclusion", ""),
    ]  # fmt: skip
    assert only(thoughts).facts.state == "concluded"


def test_one_long_part_of_a_context_leads_to_one_sequence(thoughts: ReasoningModel, space: Space) -> None:
    for _ in range(3):
        space.tell("reasoning/thought", {"message": "on"}, context="x" * 257 + "/later")
    assert (only(thoughts).facts.id, only(thoughts).facts.steps) == ("later", 3)
    for _ in range(3):
        space.tell("reasoning/thought", {"message": "on"}, context="x" * 256)
    assert [sequence.facts.steps for sequence in thoughts.sequences] == [3, 3]


@pytest.mark.threat(13)
def test_a_refused_call_of_the_same_id_takes_nothing_from_the_call_that_has_it(
    thoughts: ReasoningModel, space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole, "MAX_STEPS", 2)
    space.tell("reasoning/start", {"message": "adds"}, id="r")
    space.tell("mcp/proposal", ADD, id="p", about="r", to=["tools"])
    space.tell("reasoning/start", {"message": "steals"}, id="bad", by="mallory")
    stolen: dict[str, Any] = {"id": "p", "by": "mallory", "context": "bad", "to": ["tools"]}
    space.tell("mcp/proposal", ADD, verdict="refused", code="duplicate_id", **stolen)
    for _ in range(2):
        space.tell("reasoning/thought", {"message": "on"}, by="mallory", context="bad")
    good, bad = thoughts.sequences
    assert (bad.facts.steps, bad.dropped) == (3, 1)
    space.tell("mcp/proposal", ADD, **stolen)
    space.tell("mcp/reject", {"reason": "unsafe"}, by="human", about="p")
    (step,) = thoughts.steps(good.facts.key)
    assert step.call is not None and (step.call.state, step.call.sender) == ("rejected", "helper")
    assert [sequence.open_calls for sequence in thoughts.sequences] == [0, 0]
    assert thoughts.steps(bad.facts.key)[-1].call is None, "nothing is known of it"


def test_a_call_whose_step_is_not_held_any_more_waits_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(whole, "MAX_STEPS", 2)
    monkeypatch.setattr(ledger, "MAX_PROPOSALS", 5)
    thoughts = ReasoningModel(Quiet())  # type: ignore[arg-type]
    space = Space(thoughts)
    space.tell("reasoning/start", {"message": "adds"}, id="r")
    for _ in range(40):
        space.tell("mcp/proposal", ADD, about="r", to=["tools"])
    space.tell("reasoning/thought", {"message": "on"}, context="r")
    assert (only(thoughts).calls, only(thoughts).open_calls) == (40, 1)
    assert most_held(thoughts) < 40


def test_an_id_that_its_owner_uses_again_is_followed_in_its_new_place(
    thoughts: ReasoningModel, space: Space
) -> None:
    space.tell("reasoning/start", {"message": "adds"}, id="r")
    space.tell("mcp/proposal", ADD, id="p", about="r", to=["tools"])
    space.tell("mcp/withdraw", {}, about="p")
    space.tell("mcp/proposal", ADD, id="p", about="r", to=["tools"])
    space.tell("mcp/reject", {"reason": "unsafe"}, by="human", about="p")
    states = [step.call.state for step in thoughts.steps(only(thoughts).facts.key) if step.call]
    assert states == ["withdrawn", "rejected"]


def test_what_a_peer_makes_long_is_kept_short(thoughts: ReasoningModel, space: Space) -> None:
    long = "x" * 900_000
    space.tell("reasoning/start", {"message": "a"}, id="r", about=["c1", long, *["c2"] * 100])
    assert only(thoughts).facts.about == ("c1", *["c2"] * 18), "ids stay whole or go"
    space.tell("x" * 5000, {}, context="r/" + ("p" * 200 + "/") * 15, to=[long] * 9)
    space.tell("mcp/request", ADD, context="r", to=[long] * 9, verdict="refused")
    space.tell("mcp/request", ADD, context="r", to=[long])
    space.tell("mcp/request", ADD, context="r", id=long, verdict="refused")
    space.tell("mcp/request", ADD, context="r", by=long, verdict="refused")
    odd, refused, crowd = thoughts.steps(only(thoughts).facts.key)
    assert (len(odd.kind), len(odd.path), [len(name) for name in odd.to]) == (128, 200, [128] * 8)
    assert refused.call is not None and {len(name) for name in refused.call.to} == {128}
    assert crowd.call is not None and [len(name) for name in crowd.call.to] == [128]


@pytest.mark.parametrize("wrong", [{"message": 7}, {"message": None}, {}, {"reason": [1]}])
def test_payloads_of_the_wrong_shape_are_told_somehow(
    thoughts: ReasoningModel, space: Space, wrong: Any
) -> None:
    for kind in ("reasoning/thought", "reasoning/cancel", "chat", "mcp/proposal", "made/up"):
        space.tell("reasoning/start", wrong, id="a")
        space.tell(kind, wrong, context="a/" + "b/" * 500)
        space.tell("reasoning/cancel", wrong, context="a")
    # a cancel that is malformed stops nobody (§4.3), and the sequence gives way to the next of its id
    ended = {"left", "active"} if "reason" in wrong else {"cancelled"}
    assert {sequence.facts.state for sequence in thoughts.sequences} == ended
    assert {sequence.facts.steps for sequence in thoughts.sequences} == {2}


def seen(lab: Lab, thoughts: ReasoningModel, probe: Callable[[], Any]) -> Any:
    """Waits until the probe holds; it is asked on the loop."""
    changed = threading.Event()
    thoughts.on_change = lambda key, n: changed.set()
    for _ in range(200):
        if value := lab.loop.call(probe):
            return value
        changed.wait(0.05)
        changed.clear()
    raise AssertionError("it never happened")


@pytest.mark.req("P-3.5.5-1", "P-3.5.5-2", "P-3.5.5-3", "P-3.5.5-5")
def test_cancelling_names_the_start_its_trigger_and_the_reason(lab: Lab) -> None:
    bot = lab.join("bot", can="proposer")
    thoughts = ReasoningModel(lab.me.participant)
    lab.loop.call(lambda: lab.following.add(thoughts))
    asked = lab.chat("Will it rain?", "bot")
    started = bot.send("reasoning/start", {"message": "looks"}, correlation_id=asked.id)
    (sequence,) = seen(lab, thoughts, lambda: thoughts.sequences)
    assert thoughts.may_cancel(sequence.facts)
    said = lab.loop.submit(thoughts.cancel(sequence.facts.key, "superseded")).result(10)
    assert said == "The reasoning of bot was cancelled (superseded)."
    sent = next(row for row in lab.log.df.to_dict("records") if row["kind"] == "reasoning/cancel")
    assert (sent["from"], sent["context"]) == ("human", started.id)
    raw = json.loads(lab.rows.raw(lab.rows.last_seq))
    assert raw["kind"] == "reasoning/cancel"
    assert raw["correlation_id"] == [asked.id] and raw["to"] == ["bot"]
    assert raw["payload"] == {"reason": "superseded"}
    assert thoughts.sequence(sequence.facts.key).facts.state == "cancelled"  # type: ignore[union-attr]
    with pytest.raises(MewError, match="has ended already"):
        lab.loop.submit(thoughts.cancel(sequence.facts.key)).result(10)
    with pytest.raises(MewError, match="no longer held"):
        lab.loop.submit(thoughts.cancel(99)).result(10)


def test_whoever_may_not_cancel_is_told_so_and_nothing_is_sent(lab: Lab) -> None:
    bot = lab.join("bot", can=[{"kind": "chat"}])
    other = lab.join("other", can="proposer")
    thoughts = ReasoningModel(bot.participant)
    lab.loop.call(lambda: lab.following.add(thoughts))
    other.send("reasoning/start", {"message": "looks"})
    (sequence,) = seen(lab, thoughts, lambda: thoughts.sequences)
    assert not thoughts.may_cancel(sequence.facts)
    with pytest.raises(CapabilityViolation):
        lab.loop.submit(thoughts.cancel(sequence.facts.key)).result(10)
    assert "reasoning/cancel" not in set(lab.log.df["kind"])


@pytest.mark.threat(12)
@pytest.mark.ruling("R6")
def test_an_id_is_its_first_owners_who_alone_may_take_it_anew(thoughts: ReasoningModel, space: Space) -> None:
    space.tell("reasoning/start", {"message": "mine"}, id="r1")
    space.tell("reasoning/start", {"message": "false"}, id="r1", by="mallory")
    space.tell("reasoning/thought", {"message": "of mine"}, context="r1")
    space.tell("reasoning/conclusion", {"message": "done"}, context="r1")
    first = only(thoughts)
    assert [step.text for step in thoughts.steps(first.facts.key)] == ["of mine", "done"]
    assert first.facts.state == "concluded"
    for number in (2, 3):
        space.tell("reasoning/start", {"message": "again"}, id="r1")
        space.tell("reasoning/thought", {"message": f"of number {number}"}, context="r1")
    assert [sequence.facts.state for sequence in thoughts.sequences] == ["concluded", "left", "active"]
    assert [step.text for step in thoughts.steps(thoughts.sequences[2].facts.key)] == ["of number 3"]


@pytest.mark.threat(12)
def test_a_context_that_a_stranger_took_before_gives_way_to_the_start_of_that_id(
    thoughts: ReasoningModel, space: Space
) -> None:
    space.tell("reasoning/thought", {"message": "false"}, context="r1", by="mallory")
    space.tell("reasoning/start", {"message": "mine"}, id="r1")
    space.tell("reasoning/conclusion", {"message": "false"}, context="r1", by="mallory")
    assert (only(thoughts).facts.owner, only(thoughts).facts.state, only(thoughts).facts.steps) == (
        "helper",
        "active",
        1,
    )


def test_cost_is_what_the_participant_reports_and_nothing_else(
    thoughts: ReasoningModel, space: Space
) -> None:
    space.tell("reasoning/start", {"message": "rain"}, id="r1")
    for payload in (
        {"usage": {"input_tokens": 30, "output_tokens": 2}, "duration_ms": 1500},
        {"usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 7}},
        {"tokens": 4},
        {"usage": {"total_tokens": -1}, "tokens": True, "duration_ms": "long"},
        {"usage": "many", "duration_ms": float("inf")},
    ):
        space.tell("reasoning/thought", {"message": "m", **payload}, context="r1")
    space.tell("chat", {"text": "m", "tokens": 9}, context="r1")
    steps = thoughts.steps(only(thoughts).facts.key)
    assert [(step.tokens, step.took) for step in steps] == [
        (32, 1.5), (7, None), (4, None), (None, None), (None, None), (None, None),
    ]  # fmt: skip
    assert only(thoughts).tokens == 43
    space.tell("reasoning/start", {"message": "sun"}, id="r2")
    assert thoughts.sequences[-1].tokens is None


def test_a_text_and_the_place_of_a_message_are_found(thoughts: ReasoningModel, space: Space) -> None:
    space.tell("reasoning/start", {"message": "Will it rain?"}, id="r1")
    space.tell("reasoning/thought", {"message": "Rain is likely"}, id="t1", context="r1")
    space.tell("mcp/proposal", ADD, id="p1", context="r1")
    space.tell("reasoning/start", {"message": "rainfall"}, id="r2", context="r1")
    space.tell("reasoning/thought", {"message": "nothing"}, id="t2", context="r1/r2")
    assert thoughts.search(["rain"]) == [(1, 0), (1, 1), (2, 0)]
    assert thoughts.search(["rain", "likely"]) == [(1, 1)]
    assert thoughts.search([]) == [] and thoughts.search(["snow"]) == []
    assert thoughts.locate(id="p1") == (1, 2) and thoughts.locate(id="t2") == (2, 1)
    assert thoughts.locate(id="r2") == (2, 0) and thoughts.locate(id="none") is None
    assert thoughts.locate(context="r1/watering") == (1, 0) and thoughts.locate(context="r1/r2") == (2, 0)
    assert thoughts.locate(context="other") is None and thoughts.locate() is None


def call_of(id: str, status: str, *, asked: bool = True, title: str = "mkdir shed") -> dict[str, Any]:
    call = {"id": id, "kind": "execute", "title": title, "status": status, "asked": asked}
    return {"message": f"execute: {title} [{status}]", "tool_call": call}


def test_a_tool_call_of_a_coding_agent_is_one_row_with_the_sign_of_its_state(
    thoughts: ReasoningModel, space: Space
) -> None:
    space.tell("reasoning/start", {"message": "Working on: a shed"}, id="r1")
    for payload in (
        call_of("a", "pending"),
        call_of("b", "pending"),
        call_of("a", "in_progress"),
        call_of("b", "failed"),
        call_of("a", "completed", asked=False),
    ):
        space.tell("reasoning/thought", payload, context="r1")
    steps = thoughts.steps(only(thoughts).facts.key)
    shown = [
        (step.work.text, step.work.sign, step.work.warning) for step in steps if step.work and not step.into
    ]
    assert shown == [("execute: mkdir shed", "✓", "not asked"), ("execute: mkdir shed", "✗", "")]
    assert [step.into for step in steps] == [0, 0, 1, 2, 1]
    assert thoughts.search(["mkdir"]) == [(steps and only(thoughts).facts.key, n) for n in (1, 2)]


def test_a_plan_is_one_list_that_ticks(thoughts: ReasoningModel, space: Space) -> None:
    space.tell("reasoning/start", {"message": "x"}, id="r1")
    for done in range(3):
        plan = [
            {"content": what, "status": "completed" if n < done else "pending"}
            for n, what in enumerate(("dig", "sow"))
        ]
        space.tell("reasoning/thought", {"message": f"Plan: {done} of 2 done", "plan": plan}, context="r1")
    [row] = [step for step in thoughts.steps(only(thoughts).facts.key) if not step.into]
    assert row.work is not None and row.work.entries == (("✓", "dig"), ("✓", "sow"))
    assert row.text == "Plan: 2 of 2 done"


def test_nobody_ticks_the_row_of_another(thoughts: ReasoningModel, space: Space) -> None:
    space.tell("reasoning/start", {"message": "x"}, id="r1")
    space.tell("reasoning/thought", call_of("a", "pending"), context="r1")
    space.tell("reasoning/thought", call_of("a", "completed"), context="r1", by="mallory")
    first, second = thoughts.steps(only(thoughts).facts.key)
    assert first.work and first.work.sign == "◌" and second.into == 0


def test_work_beyond_the_steps_that_are_kept_is_forgotten_and_the_newest_still_ticks(
    thoughts: ReasoningModel, space: Space
) -> None:
    space.tell("reasoning/start", {"message": "x"}, id="r1")
    for n in range(MAX_STEPS + 50):
        space.tell("reasoning/thought", call_of(f"c-{n}", "pending"), context="r1")
    key = only(thoughts).facts.key
    assert len(thoughts.steps(key)) <= MAX_STEPS
    space.tell("reasoning/thought", call_of(f"c-{MAX_STEPS + 49}", "completed"), context="r1")
    newest = [step for step in thoughts.steps(key) if not step.into][-1]
    assert newest.work is not None and newest.work.sign == "✓"


@pytest.mark.threat(28)
def test_hostile_work_is_shown_as_visible_text_or_not_at_all(thoughts: ReasoningModel, space: Space) -> None:
    space.tell("reasoning/start", {"message": "x"}, id="r1")
    hostile: list[Any] = [
        7,
        None,
        [],
        {},
        "\u202e\x1b[2J" * 500,
        {"id": 3},
        [None, 7, {"content": ["x"]}] * 500,
    ]
    for value in hostile:
        text = {"id": "x", "title": value, "kind": value, "status": value, "asked": value}
        for payload in ({"tool_call": value}, {"plan": value}, {"warning": value}, {"tool_call": text}):
            space.tell("reasoning/thought", {"message": "m", **payload}, context="r1")
    for step in thoughts.steps(only(thoughts).facts.key):
        if step.work is not None:
            texts = [step.work.text, step.work.sign, step.work.state, step.work.warning]
            texts += [text for entry in step.work.entries for text in entry]
            assert all(text.isprintable() and len(text) < 500 for text in texts)
            assert len(step.work.entries) <= 50


@pytest.mark.ruling("R41")
def test_the_decision_on_a_permission_stands_in_the_row_of_its_tool_call_alone(
    thoughts: ReasoningModel, space: Space
) -> None:
    kinds = ("allow_once", "allow_always", "reject_once", "reject_always", "\u202enew")
    options = [{"id": kind, "name": f"N {n}", "kind": kind} for n, kind in enumerate(kinds)]

    def propose(id: str, *about: str, by: str = "helper") -> dict[str, Any]:
        payload = {
            "method": "tools/call",
            "params": {"name": "permission", "arguments": {"options": options}},
        }
        space.tell("mcp/proposal", payload, id=id, about=[*about], to=[by], by=by, context="r1")
        return payload

    def choose(id: str, option: str, *, by: str = "ada") -> None:
        payload = propose(id, f"told-{id}")
        params = {"name": "permission", "arguments": {"options": options, "option": option}}
        payload = {**payload, "params": params}
        space.tell("mcp/request", payload, id=f"y-{id}", about=id, to=["helper"], by=by)

    def decisions() -> dict[str, str]:
        steps = thoughts.steps(only(thoughts).facts.key)
        return {step.id: step.work.decision for step in steps if step.work and not step.into}

    space.tell("reasoning/start", {"message": "x"}, id="r1")
    chosen = {f"q{n}": kind for n, kind in enumerate(kinds)}
    for id in (*chosen, "rejected", "foreign", "edited"):
        space.tell("reasoning/thought", call_of(id, "pending"), id=f"told-{id}", context="r1")
    for id, kind in chosen.items():
        choose(id, kind, by="ada\u202e")
    propose("rejected", "told-rejected")
    space.tell("mcp/reject", {"reason": "no"}, by="ada", about="rejected")
    space.tell("mcp/withdraw", {"reason": "cancelled"}, about="rejected")
    propose("foreign", "told-foreign", "told-rejected", by="mallory")
    space.tell("mcp/reject", {"reason": "no"}, by="bob", about="foreign")
    choose("edited", "allow_once")
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"isError": True, "content": []}}
    space.tell("mcp/response", answer, about="y-edited", to=["ada"])
    for id in chosen:  # a later state keeps it
        space.tell("reasoning/thought", call_of(id, "failed"), context="r1")
    told = ["allowed", "always allowed", "rejected", "always rejected", "“N 4” chosen"]
    by = "ada\\u202e"
    assert decisions() == {
        **{f"told-{id}": f"{words} by {by}" for id, words in zip(chosen, told, strict=True)},
        "told-rejected": "rejected by ada", "told-foreign": "", "told-edited": "",
    }  # fmt: skip
