"""The Python that a filtered log is copied as, run in another space: it sends the same messages again."""

from __future__ import annotations

from typing import Any

import mew_lab
from mew_lab.lab.lab import Lab


def make(name: str) -> Lab:
    lab = mew_lab.up(name, journal=None)
    lab.join("bot", can="agent")
    lab.join("files", can="tool")
    return lab


def messages(lab: Lab, text: str) -> list[dict[str, Any]]:
    return list(lab.log.filter(text))


def test_the_code_sends_the_same_messages_with_their_relations_to_each_other() -> None:
    first = make("first")
    question = first.chat('Which "file"?\n\u202eabc', to="bot")
    start = first.send("reasoning/start", {"message": "A file"}, as_id="bot", correlation_id=[question.id])
    first.send("reasoning/thought", {"message": "a.txt"}, as_id="bot", context=start.id)
    first.send(
        "chat", {"text": "a.txt", "format": "plain"}, as_id="bot", to=["human"], correlation_id=[question.id]
    )
    kinds = 'kind in (chat, reasoning/start, "reasoning/thought")'
    code = first.log.filter(kinds).to_python()
    wanted = messages(first, kinds)

    second = make("second")
    before = len(messages(second, kinds))
    exec(code, {"lab": second})  # noqa: S102
    got = messages(second, kinds)[before:]
    assert len(wanted) == 4 and len(got) == 4
    places = {one["id"]: place for one, place in zip([*wanted, *got], [*range(4), *range(4)], strict=True)}
    for one, again in zip(wanted, got, strict=True):
        for key in ("kind", "from", "to", "payload"):
            assert one.get(key) == again.get(key), key
        related = [places[id] for id in one.get("correlation_id") or []]
        assert related == [places[id] for id in again.get("correlation_id") or []]
        assert places.get(one.get("context", "")) == places.get(again.get("context", ""))
        assert one["id"] != again["id"]
    assert "context" in wanted[2] and places[wanted[2]["context"]] == 1
