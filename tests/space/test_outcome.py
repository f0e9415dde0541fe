"""What rules read in a payload."""

from __future__ import annotations

import pytest

from mew_lab.protocol.envelope import Envelope
from mew_lab.space.outcome import capabilities_in, named, text_in
from mew_lab.space.refusal import Refusal
from mew_lab.space.state import State


def envelope(**payload: object) -> Envelope:
    members = {"protocol": "mew/v0.4", "id": "m", "ts": "t", "from": "a", "kind": "x/y", "payload": payload}
    return Envelope.of(members)


@pytest.mark.parametrize("value", ["", None, 7, ["a"]])
def test_a_text_that_is_required_is_a_string_with_something_in_it(value: object) -> None:
    assert text_in(envelope(who="bob"), "who") == "bob"
    with pytest.raises(Refusal, match="x/y requires who, a string") as refused:
        text_in(envelope(who=value), "who")
    assert refused.value.code == "invalid_request"


def test_capabilities_are_compiled_and_a_fault_is_named_by_its_path() -> None:
    [one] = capabilities_in(envelope(can=[{"kind": "chat"}]), "can", edition=4)
    assert one.permits("chat")
    assert capabilities_in(envelope(can=[]), "can", edition=4, empty=True) == []
    with pytest.raises(Refusal) as refused:
        capabilities_in(
            envelope(can=[{"kind": "chat"}, {"kind": "chat", "payload": {"a": "/(/"}}]), "can", edition=4
        )
    assert (refused.value.code, refused.value.payload["key"]) == (
        "invalid_capability",
        "payload.can[1].payload.a",
    )


def test_a_name_that_nobody_has_is_not_found_and_not_repeated_at_length() -> None:
    with pytest.raises(Refusal) as refused:
        named(State(()), "x" * 1000)
    assert refused.value.payload["error"] == "participant_not_found"
    assert len(str(refused.value)) < 300
