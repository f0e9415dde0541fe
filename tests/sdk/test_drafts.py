"""What a draft becomes; pure, so no space is needed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from mew_lab.errors import LocalProtocolError
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.client import complete_draft

NOW = datetime(2026, 11, 21, 23, 59, 59, 7_999, tzinfo=UTC)


def made(draft: Any, *, sender: str = "bot", limit: int = 1024) -> Envelope:
    return complete_draft(draft, id="i-1", now=NOW, sender=sender, limit=limit)


@pytest.mark.req("S-L1-3", "S1-L3-2")
def test_what_lacks_is_added_and_the_version_is_0_4() -> None:
    assert json.loads(made({"kind": "chat", "payload": {"text": "x"}}).raw) == {
        "protocol": "mew/v0.4",
        "id": "i-1",
        "ts": "2026-11-21T23:59:59.007Z",
        "from": "bot",
        "kind": "chat",
        "payload": {"text": "x"},
    }
    with pytest.raises(LocalProtocolError, match=r"Invalid protocol version: mew/v0\.3"):
        made({"kind": "chat", "protocol": "mew/v0.3"})


def test_what_is_given_stays() -> None:
    draft = {"kind": "chat", "id": "own", "ts": "2026-01-01T00:00:00Z", "from": "bot", "x-more": [1]}
    assert made(draft).members == {"protocol": "mew/v0.4", **draft}


@pytest.mark.parametrize(
    ("given", "told"), [("one", ["one"]), (("a", "b"), ["a", "b"]), ([], []), (None, None)]
)
@pytest.mark.parametrize("key", ["to", "correlation_id"])
def test_one_addressee_and_one_correlation_become_a_list(key: str, given: Any, told: Any) -> None:
    assert made({"kind": "chat", key: given}).members.get(key) == told


def test_an_envelope_that_lacks_nothing_keeps_its_text() -> None:
    raw = '{ "kind":"chat", "protocol":"mew/v0.4", "id":"i", "ts":"t", "from":"bot", "payload":{} }'
    whole = Envelope.from_members(json.loads(raw), raw=raw)
    assert made(whole) is whole


@pytest.mark.parametrize(
    ("draft", "code", "said"),
    [
        ({"kind": "chat", "from": "human"}, "identity_mismatch", "this is 'bot'; leave `from` out"),
        ({"kind": "system/welcome"}, "reserved_kind", "Cannot send system/welcome as 'bot': it is reserved"),
        ({"kind": "chat", "payload": {"text": "é" * 600}}, "message_too_large", "takes at most 1024"),
        ({"kind": "chat", "payload": {1, 2}}, "invalid_envelope", "Cannot send chat as 'bot'"),
    ],
)
def test_a_refusal_says_what_was_tried_and_by_whom(draft: Any, code: str, said: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        made(draft)
    assert caught.value.code == code and said in str(caught.value)


def test_what_is_nested_too_deep_is_not_sent_for_the_gateway_could_not_say_what_it_refuses() -> None:
    def nested(depth: int) -> dict[str, Any]:
        return {"a": nested(depth - 1)} if depth else {}

    made({"kind": "x", "payload": nested(60)})
    with pytest.raises(LocalProtocolError, match="nested more than 64 levels"):
        made({"kind": "x", "payload": nested(64)})
