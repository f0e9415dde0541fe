"""The reading of the message that an entry holds."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.errors import ProtocolError
from mew_lab.ledger.entry import Entry
from mew_lab.protocol.envelope import Envelope

CHAT = {"id": "m", "from": "bot", "kind": "chat", "payload": {"text": "Hello"}}


def recorded(sender: str = "bot", **members: Any) -> Entry:
    return Entry(1, 0.0, "{}", "accepted", "", "", sender, {**CHAT, **members})


def test_its_envelope_comes_from_the_participant_that_the_gateway_knows() -> None:
    entry = recorded(**{"from": "human"})
    assert (entry.sender, entry.envelope.sender) == ("bot", "bot")
    assert entry.members["from"] == "human"


@pytest.mark.parametrize(
    ("members", "malformed"),
    [({}, False), ({"payload": {"text": 7}}, True), ({"id": ""}, True), ({"to": "human"}, True)],
)
def test_what_no_participant_acts_on_is_malformed(members: dict[str, Any], malformed: bool) -> None:
    assert recorded(**members).malformed is malformed


def test_names_and_ids_that_stand_alone_are_read_as_lists_of_one() -> None:
    entry = recorded(to="human", correlation_id="x")
    assert (entry.to, entry.correlation_id) == (("human",), ("x",))
    with pytest.raises(ProtocolError):
        _ = entry.envelope


def test_an_entry_of_an_envelope_reads_as_that_of_a_record() -> None:
    members = {**CHAT, "to": ["human"], "correlation_id": "x", "context": "c"}
    received, kept = Entry.of(Envelope.of(members), 1), recorded(**members)
    for name in ("kind", "id", "sender", "to", "correlation_id", "context", "payload", "malformed", "what"):
        assert getattr(received, name) == getattr(kept, name), name
