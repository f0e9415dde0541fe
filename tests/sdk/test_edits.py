"""A changed proposal is another proposal: what may change, and what it is then known by."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest

from mew_lab.errors import MewError
from mew_lab.ledger.calls import Proposal
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.edits import edited

from ..ledger.book import Book


def proposed(payload: dict[str, Any]) -> Proposal:
    book = Book()
    members = {"id": "p", "from": "bot", "kind": "mcp/proposal", "to": ["git"], "payload": payload}
    book.observe(Envelope.of(members))
    found = book.get("p")
    assert found is not None
    return found


def call(**arguments: Any) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": "git_log", "arguments": arguments}}


@pytest.mark.threat(14)
def test_threat_14_the_digest_is_that_of_the_changed_bytes() -> None:
    edit = edited(proposed(call(n=1, repo=".")), {"name": "git_log", "arguments": {"n": 2, "repo": "."}})
    what = {"from": "bot", "id": "p", "payload": call(n=2, repo="."), "to": ["git"]}
    text = json.dumps(what, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert edit.digest == sha256(text.encode()).hexdigest()
    assert [(one.path, one.proposed, one.sent) for one in edit.difference] == [("params.arguments.n", 1, 2)]


def test_what_is_changed_afterwards_changes_no_edit() -> None:
    params: dict[str, Any] = {"name": "git_log", "arguments": {"n": 2}}
    edit = edited(proposed(call(n=1)), params)
    params["arguments"]["n"] = 3
    assert edit.params["arguments"] == {"n": 2}


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"name": "git_push", "arguments": {}}, "cannot run another tool"),
        ({"arguments": {"n": 1}}, "cannot run another tool"),
        ({"name": "git_log", "arguments": {"n": 1}}, "nothing is changed"),
        ({"name": "git_log", "arguments": {"n": float("nan")}}, "cannot be written as JSON"),
        ({"name": "git_log", "arguments": {"n": "\ud800"}}, "cannot be written as JSON"),
    ],
)
def test_what_is_no_edit_is_refused(params: dict[str, Any], says: str) -> None:
    with pytest.raises(MewError, match=says):
        edited(proposed(call(n=1)), params)


def test_a_method_without_a_tool_is_edited_too() -> None:
    edit = edited(proposed({"method": "resources/read", "params": {"uri": "a"}}), {"uri": "b"})
    assert edit.params == {"uri": "b"}
    assert edited(proposed({"method": "tools/list"}), {"cursor": "2"}).difference[0].path == "params"
