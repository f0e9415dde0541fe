"""The ledger of reasoning is bounded, and one that begins sequences without end drives nobody's out."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.ledger.entry import Entry
from mew_lab.ledger.reasoning import ReasoningChange, ReasoningLedger
from mew_lab.protocol.envelope import Envelope


class Reasoning:
    """A ledger that is told of envelopes."""

    def __init__(self, **bounds: int) -> None:
        self.ledger = ReasoningLedger(**bounds)
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
