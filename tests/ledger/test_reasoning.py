"""The ledger of reasoning is bounded, and one that begins sequences without end drives nobody's out."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.ledger.entry import Entry
from mew_lab.ledger.reasoning import ReasoningChange, ReasoningLedger
from mew_lab.protocol.envelope import Envelope


class Reasoning:
    """A ledger that is told of envelopes."""

    def __init__(self, **options: int) -> None:
        self.ledger = ReasoningLedger(**options)
        self._count = 0

    def tell(
        self, sender: str, kind: str, *, id: str = "", payload: dict[str, Any] | None = None, **members: Any
    ) -> list[ReasoningChange]:
        self._count += 1
        first = {"id": id or f"e{self._count}", "from": sender, "kind": kind, "payload": payload or {}}
        envelope = Envelope.of({**first, **members})
        return list(self.ledger.observe(Entry.of(envelope, self._count)))


@pytest.mark.threat(9, 12)
@pytest.mark.parametrize("context", ["", "made-up"])
def test_one_that_begins_without_end_drives_nobodys_sequence_out(context: str) -> None:
    reasoning = Reasoning(limit=50)
    reasoning.tell("bot", "reasoning/start", id="r")
    for n in range(500):
        if context:
            reasoning.tell("eve", "reasoning/thought", context=f"{context}{n}")
        else:
            reasoning.tell(f"eve{n % 3}", "reasoning/start")
    assert len(reasoning.ledger) == 50
    [change] = reasoning.tell("human", "reasoning/cancel", context="r")[-1:]
    assert (change.what, change.sequence.owner) == ("cancelled", "bot")


@pytest.mark.threat(9, 12)
def test_one_that_ends_nothing_drives_out_its_own_before_what_others_have_ended() -> None:
    reasoning = Reasoning(limit=50)
    reasoning.tell("bot", "reasoning/start", id="r")
    reasoning.tell("bot", "reasoning/conclusion", context="r")
    forgotten = [
        change.sequence.owner
        for _ in range(500)
        for change in reasoning.tell("eve", "reasoning/start")
        if change.what == "forgotten"
    ]
    assert set(forgotten) == {"eve"} and len(forgotten) == 451
    known = reasoning.ledger.get("r")
    assert known is not None and known.state == "concluded"


def test_of_one_owner_what_is_over_is_forgotten_first() -> None:
    reasoning = Reasoning(limit=3)
    for id in ("a", "b", "c"):
        reasoning.tell("bot", "reasoning/start", id=id)
    reasoning.tell("bot", "reasoning/conclusion", context="b")
    reasoning.tell("bot", "reasoning/start", id="d")
    assert [sequence.id for sequence in reasoning.ledger] == ["a", "c", "d"]
    reasoning.tell("bot", "reasoning/start", id="e")
    assert [sequence.id for sequence in reasoning.ledger] == ["c", "d", "e"]


def test_of_owners_that_have_as_many_the_one_with_an_end_gives_way() -> None:
    reasoning = Reasoning(limit=2)
    reasoning.tell("human", "reasoning/start", id="a")
    reasoning.tell("bot", "reasoning/start", id="b")
    reasoning.tell("bot", "reasoning/conclusion", context="b")
    reasoning.tell("helper", "reasoning/start", id="c")
    assert [sequence.id for sequence in reasoning.ledger] == ["a", "c"]


@pytest.mark.req("P-3.5.5-1")
def test_each_entry_tells_what_it_changed() -> None:
    reasoning = Reasoning()
    told = [
        reasoning.tell("bot", "reasoning/start", id="r"),
        reasoning.tell("eve", "reasoning/start", id="r"),
        reasoning.tell("bot", "reasoning/start", id="s", context="r/plan"),
        reasoning.tell("eve", "reasoning/conclusion", context="r"),
        reasoning.tell("eve", "reasoning/cancel", context="r/s"),
        reasoning.tell("eve", "reasoning/cancel", context="s"),
        reasoning.tell("bot", "reasoning/conclusion", context="s"),
        reasoning.tell("bot", "stream/request", id="w", payload={"description": "reasoning:r"}),
        reasoning.tell("eve", "stream/open", correlation_id=["w"], payload={"stream_id": "stream-1"}),
        reasoning.tell(
            "system:gateway", "stream/open", correlation_id=["w"], payload={"stream_id": "stream-1"}
        ),
        reasoning.tell("eve", "stream/close", payload={"stream_id": "stream-1"}),
        reasoning.tell("bot", "stream/close", correlation_id=["w"]),
        reasoning.tell("bot", "reasoning/start", id="r"),
    ]
    assert [[(change.what, change.sequence.key) for change in changes] for changes in told] == [
        [("began", 1)],
        [("claimed", 1)],
        [("began", 2), ("stepped", 1)],
        [("stepped", 1), ("claimed", 1)],
        [("stepped", 2), ("claimed", 2)],
        [("stepped", 2), ("cancelled", 2)],
        [("stepped", 2), ("claimed", 2)],
        [],
        [],
        [("streamed", 1)],
        [],
        [("streamed", 1)],
        [("left", 1), ("began", 3)],
    ]


def test_a_participant_takes_no_steps_and_knows_the_ends_as_a_journal_does() -> None:
    journal, participant = Reasoning(), Reasoning(takes_steps=False)
    for ledger in (journal, participant):
        ledger.tell("bot", "reasoning/start", id="r", correlation_id=["q"])
        ledger.tell("bot", "reasoning/thought", context="r")
        ledger.tell("eve", "reasoning/thought", context="made-up")
        ledger.tell("bot", "reasoning/start", id="s", context="r")
        ledger.tell("eve", "reasoning/conclusion", context="r")
        ledger.tell("bot", "stream/request", id="w", payload={"description": "reasoning:r"})
        ledger.tell("system:gateway", "stream/open", correlation_id=["w"], payload={"stream_id": "stream-1"})
        ledger.tell("eve", "reasoning/cancel", context="s", payload={"reason": "superseded"})
        ledger.tell("bot", "reasoning/conclusion", context="r")
        ledger.tell("bot", "reasoning/start", id="t")
        presence = {"event": "leave", "participant": {"id": "bot"}}
        ledger.tell("system:gateway", "system/presence", payload=presence)
    known, ours = (
        [(one.id, one.owner, one.about, one.state, one.by, one.reason) for one in of.ledger if one.seq]
        for of in (journal, participant)
    )
    assert ours == known and [state for _, _, _, state, _, _ in ours] == ["concluded", "cancelled", "left"]
    assert not any(one.steps or one.place or one.stream for one in participant.ledger)
    assert len(participant.ledger) == 3  # without the context that nobody started


@pytest.mark.parametrize("before", [True, False])
def test_a_thought_in_a_context_that_nobody_started_takes_no_call_from_the_sequence_it_is_about(
    before: bool,
) -> None:
    reasoning = Reasoning()
    if before:
        reasoning.tell("eve", "reasoning/thought", context="nowhere")
    reasoning.tell("bot", "reasoning/start", id="r")
    call = {"method": "tools/call", "params": {"name": "add"}}
    [step] = reasoning.tell("bot", "mcp/proposal", payload=call, context="nowhere", correlation_id=["r"])
    assert (step.what, step.sequence.id, step.sequence.steps) == ("stepped", "r", 1)
