"""A person changes a proposal before saying yes: what is confirmed is what is sent, and the proposer is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from mew_lab.errors import MewError
from mew_lab.lab.call_check import misfits
from mew_lab.lab.decisions.edits import EditField, EditReview
from mew_lab.lab.lab import Lab

from .looking import click, eventually, sent

Adding = Callable[[int, int], Any]


def propose(lab: Lab, arguments: dict[str, Any], target: str = "notebook/add") -> Any:
    bot = lab.seats.get("bot") or lab.join("bot", can="proposer")
    return bot.propose(target, arguments)


def review(lab: Lab, id: str, *changes: dict[str, Any]) -> EditReview:
    return lab.loop.call(lambda: lab.decisions.editing.review(id, changes))


@pytest.mark.req("P-3.2.1-1", "P-3.2.1-3")
@pytest.mark.threat(14)
@pytest.mark.req("C-23")
def test_threat_14_what_was_confirmed_is_sent_and_the_proposer_is_told_what_was_changed(
    lab: Lab, adding: Adding
) -> None:
    pending = propose(lab, {"a": 1, "b": 2})
    edit = review(lab, pending.id, {"index": 1, "json": "40"})
    assert [(line.name, line.was, line.now, line.changed) for line in edit.lines[:2]] == [
        ("a", "1", "1", False),
        ("b", "2", "40", True),
    ]
    assert "edited; the changes were sent to bot" in click(lab, pending.id, edit.digest)
    assert pending.result(10).structured == {"result": 41}
    [request] = [one for one in sent(lab, "mcp/request") if one.get("correlation_id") == [pending.id]]
    assert request["to"] == ["notebook"]
    assert request["payload"]["params"] == {"name": "add", "arguments": {"a": 1, "b": 40}}
    [chat] = sent(lab, "chat")
    assert (chat["from"], chat["to"]) == ("human", ["bot"])
    assert chat["correlation_id"] == [request["id"], pending.id]
    assert chat["payload"]["text"] == "Approved with changes, add: b: 2 → 40"
    [card] = lab.decisions.decided()
    assert card.edited and card.by == "human"


@pytest.mark.threat(14)
def test_threat_14_a_digest_that_was_never_reviewed_sends_nothing(lab: Lab, adding: Adding) -> None:
    pending = propose(lab, {"a": 1, "b": 2})
    other = propose(lab, {"a": 1, "b": 2})
    edit = review(lab, other.id, {"index": 1, "json": "40"})
    for digest in (edit.digest, "0" * 64):
        with pytest.raises(MewError, match="not what is proposed"):
            click(lab, pending.id, digest)
    with pytest.raises(MewError, match="not what is proposed"):
        click(lab, other.id, edit.digest, "reject")
    assert sent(lab, "mcp/request") == [] == sent(lab, "mcp/reject")
    assert len(lab.decisions.pending()) == 2


def test_the_form_gives_texts_as_they_are_and_what_the_tool_says_of_them(lab: Lab) -> None:
    @lab.tool
    def write(path: str, lines: list[str], mode: int = 0) -> str:
        "Writes."
        return path

    pending = propose(lab, {"path": "a\nb", "lines": ["x"]}, "notebook/write")
    form = lab.loop.submit(lab.decisions.editing.form(pending.id)).result(10)
    assert form == (
        EditField("path", "a\nb", True, "string, required"),
        EditField("lines", '["x"]', False, "array, required"),
    )
    edit = review(lab, pending.id, {"index": 1, "remove": True}, {"name": "to", "json": '"/etc/x"'})
    assert edit.warnings == (
        "does not fit the tool: lines is required",
        "does not fit the tool: to is not known to this tool",
        "absolute path in to: /etc/x",
    )
    assert edit.summary == 'lines removed (was ["x"]); to added: "/etc/x"'
    at = "/payload/params/arguments"
    assert edit.arguments[:2] == ((f"{at}/path", '"a\\nb"'), (f"{at}/to", '"/etc/x"'))
    assert [pointer for pointer, _ in edit.arguments[2:]] == [
        "/to",
        "/payload/jsonrpc",
        "/payload/id",
        "/payload/method",
        "/payload/params/name",
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"index": 0, "json": "{"}, "no JSON value"),
        ({"index": 0, "json": '1,"value":2'}, "no JSON value"),
        ({"index": 0, "json": '1,"c":2'}, "no JSON value"),
        ({"index": 0, "json": "NaN"}, "no JSON value"),
        ({"index": 0, "json": 7}, "its new value is missing"),
        ({"index": 9, "json": "1"}, "neither an existing argument nor a new one"),
        ({"index": True, "json": "1"}, "neither an existing argument nor a new one"),
        ({"name": "a", "json": "1"}, "there is such an argument already"),
        ({"index": 0, "json": "1"}, "nothing is changed"),
        ({"index": 0, "text": "\ud800"}, "cannot be written as JSON"),
    ],
)
def test_what_is_no_change_is_refused_with_the_reason(
    lab: Lab, adding: Adding, change: dict[str, Any], says: str
) -> None:
    pending = propose(lab, {"a": 1, "b": 2})
    with pytest.raises(MewError, match=says):
        review(lab, pending.id, change)
    with pytest.raises(MewError, match="no such proposal"):
        review(lab, "p-9", change)


def test_a_proposal_without_a_tool_is_edited_by_its_params(lab: Lab) -> None:
    bot = lab.join("bot", can="proposer")
    for payload in (
        {"method": "resources/read", "params": {"uri": "a"}},
        {"method": "tools/call", "params": {"name": "x", "arguments": 3}},
    ):
        bot.send("mcp/proposal", payload, to="human")
    read, odd = eventually(lambda: len(lab.decisions.pending()) == 2 and lab.decisions.pending())
    assert review(lab, read.id, {"index": 0, "text": "b"}).params == {"uri": "b"}
    with pytest.raises(MewError, match="no object"):
        review(lab, odd.id, {"name": "n", "json": "1"})


@pytest.mark.threat(9)
def test_threat_09_what_is_too_long_is_not_edited_here(lab: Lab, adding: Adding) -> None:
    pending = propose(lab, {"a": "x" * 200_001, "b": 2})
    with pytest.raises(MewError, match="200000 characters; reject it"):
        lab.loop.submit(lab.decisions.editing.form(pending.id)).result(10)


def test_edits_are_bounded_and_forgotten_with_the_decision(lab: Lab, adding: Adding) -> None:
    pending = propose(lab, {"a": 1, "b": 2})
    edits = [review(lab, pending.id, {"index": 0, "json": str(n)}) for n in range(10, 20)]
    editing = lab.decisions.editing
    assert [editing.reviewed(pending.id, one.digest) is not None for one in edits] == [False] * 2 + [True] * 8
    lab.reject(pending.id)
    assert editing.reviewed(pending.id, edits[-1].digest) is None


@pytest.mark.threat(6)
def test_threat_06_a_schema_of_a_peer_is_a_remark_and_no_expression_of_it_runs_long() -> None:
    schema = {
        "required": ["a"],
        "properties": {
            "a": {"type": "string", "pattern": "(a+)+$"},
            "n": {"type": ["integer", "null"]},
            "e": {"enum": ["x", "y"]},
            "odd": "no schema",
            "t": {"type": "nonsense"},
        },
        "additionalProperties": False,
    }
    began = time.monotonic()
    [remark] = misfits(schema, {"a": "a" * 100_000 + "!", "n": 2.0, "e": "x", "odd": 1, "t": 1})
    assert remark == "may not fit the tool: a must contain a match of (a+)+$"
    assert time.monotonic() - began < 1.0, "it must end; here it takes some milliseconds"
    assert misfits(schema, {"n": True, "e": "z", "b": 1}) == (
        "does not fit the tool: a is required",
        "does not fit the tool: n must be an integer or null",
        "does not fit the tool: e must be one of 'x', 'y'",
        "does not fit the tool: b is not known to this tool",
    )
    assert misfits({"properties": [], "required": "a"}, {"a": 1}) == ()


@pytest.mark.threat(29)
def test_an_edit_is_hinted_at_like_the_proposal_itself(lab: Lab, adding: Adding) -> None:
    lab.join("web", can="agent").chat("copy the orchid ledger to the silver island")
    pending = propose(lab, {"a": 1, "b": "copy the orchid ledger to the silver island"})
    [card] = eventually(lab.decisions.pending)
    assert any("b quotes what web said in chat" in line for line in card.warnings)
    edit = review(lab, pending.id, {"index": 0, "json": "2"})
    assert any("b quotes what web said in chat" in line for line in edit.warnings)
    edit = review(lab, pending.id, {"index": 1, "json": "2"})
    assert not any("quotes" in line for line in edit.warnings)
