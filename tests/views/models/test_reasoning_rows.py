"""Rows of steps and of calls tell what the ledger knows of them, in words of a bounded length."""

from __future__ import annotations

from typing import Any

import pytest
from heard import Space

from mew_lab.ledger.calls import Change
from mew_lab.ledger.ledger import Ledger, LedgerChange
from mew_lab.ledger.reasoning import parts_of
from mew_lab.views.reasoning.rows import MAX_CLAIMS, CallRow, apply_change, row_of, text_of

ADD = {"method": "tools/call", "params": {"name": "add", "arguments": {"a": 1}}}


class Calls:
    """Keeps the row of each call, and every state of the call `call`."""

    def __init__(self) -> None:
        self.rows: dict[str, CallRow] = {}
        self.states: list[CallRow] = []
        self.space = Space(self)

    def take_changes(self, changes: tuple[LedgerChange, ...], ledger: Ledger) -> None:
        for change in changes:
            if not isinstance(change, Change):
                continue
            id = change.call.id
            made = change.entry is change.call.entry
            self.rows[id] = row_of(change.call) if made else apply_change(self.rows[id], change)
            if id == "call":
                self.states.append(self.rows[id])

    def begin(self, kind: str = "mcp/proposal", **more: Any) -> CallRow:
        self.space.tell(kind, ADD, **{"by": "helper", "id": "call", "to": ["tools"], **more})
        return self.last

    @property
    def last(self) -> CallRow:
        return self.states[-1]


@pytest.mark.req("P-3.2.1-1")
def test_a_proposal_waits_is_fulfilled_and_answered() -> None:
    calls = Calls()
    assert calls.begin().state == "proposed"
    calls.space.tell("mcp/request", ADD, by="human", id="req", about="call", to=["tools"])
    assert (calls.last.state, calls.last.by, calls.last.is_open) == ("waiting", "human", True)
    answer = {"result": {"content": [{"type": "text", "text": "3"}]}}
    calls.space.tell("mcp/response", answer, by="tools", about="req", to=["human"])
    assert (calls.last.state, calls.last.ended, calls.last.result) == ("answered", 3.0, "“3”")
    assert (calls.last.by, calls.last.result_seq, calls.last.is_open) == ("human", 3, False)


@pytest.mark.parametrize(
    ("payload", "state"),
    [
        ({"result": {"content": []}}, "answered"),
        ({"result": {"isError": True, "content": []}}, "failed"),
        ({"error": {"code": -32000, "message": "no"}}, "failed"),
    ],
)
def test_a_request_is_answered_by_whom_it_asked(payload: dict[str, Any], state: str) -> None:
    calls = Calls()
    assert calls.begin("mcp/request").state == "waiting"
    calls.space.tell("mcp/response", payload, by="tools", about="call", to=["helper"])
    assert calls.last.state == state


@pytest.mark.threat(13)
def test_what_others_say_of_a_call_is_a_claim_and_changes_nothing() -> None:
    calls = Calls()
    calls.begin()
    other = {"method": "tools/call", "params": {"name": "delete"}}
    calls.space.tell("mcp/request", other, by="human", about="call", to=["tools"])
    calls.space.tell("mcp/request", ADD, by="human", about="call", to=["elsewhere"])
    calls.space.tell("mcp/response", {"result": {}}, by="tools", about="call")
    calls.space.tell("mcp/withdraw", {}, by="mallory", about="call")
    assert calls.last.state == "proposed"
    assert calls.last.claims == (
        "human claims to approve it", "human claims to approve it", "tools claims to answer it",
        "mallory claims to withdraw it",
    )  # fmt: skip
    for _ in range(9):
        calls.space.tell("mcp/withdraw", {}, by="mallory", about="call")
    assert len(calls.last.claims) == MAX_CLAIMS
    calls.space.tell("mcp/request", ADD, by="human", id="req", about="call", to=["tools"])
    calls.space.tell("mcp/response", {"result": {}}, by="mallory", about="req")
    assert calls.last.state == "waiting"


@pytest.mark.req("P-3.3.3-3")
def test_a_rejection_says_by_whom_and_why_and_somebody_else_may_still_fulfil() -> None:
    calls = Calls()
    calls.begin()
    calls.space.tell("mcp/reject", {"reason": "unsafe"}, by="human", about="call")
    assert (calls.last.state, calls.last.by, calls.last.result) == ("rejected", "human", "unsafe")
    calls.space.tell("mcp/request", ADD, by="other", about="call", to=["tools"])
    assert (calls.last.state, calls.last.by, calls.last.result) == ("waiting", "other", "")


def test_its_proposer_withdraws_and_the_gateway_refuses() -> None:
    calls = Calls()
    calls.begin()
    calls.space.tell("mcp/withdraw", {"reason": "no_longer_needed"}, by="helper", about="call")
    assert (calls.last.state, calls.last.result) == ("withdrawn", "no_longer_needed")
    refused = Calls().begin("mcp/request", verdict="refused", code="capability_violation")
    assert (refused.state, refused.by, refused.result) == ("refused", "the gateway", "capability_violation")


def test_what_the_gateway_says_of_a_later_message_with_its_id_changes_nothing() -> None:
    """A second message under the id is refused, and the gateway's error names that id; the first one still waits."""
    calls = Calls()
    calls.begin("mcp/request")
    error = {"error": "duplicate_id", "message": "the id already names an earlier message"}
    calls.space.tell("system/error", error, by="system:gateway", about="call", to=["helper"])
    assert calls.last.state == "waiting"
    calls.space.tell("mcp/response", {"result": {}}, by="tools", about="call", to=["helper"])
    assert calls.last.state == "answered"


def test_a_call_whose_id_is_taken_anew_waits_for_nothing() -> None:
    calls = Calls()
    first = calls.begin()
    [change] = calls.space.ledger.calls.observe(
        Space().tell("mcp/proposal", ADD, by="helper", id="call", to=["tools"])
    )
    assert apply_change(first, change).state == "withdrawn"
    assert row_of(change.call).state == "proposed"


def test_a_row_is_bounded_whatever_a_peer_says() -> None:
    big = {"method": "m" * 99_999, "params": {"name": "t" * 99_999}}
    for verdict in ("refused", "accepted"):
        calls = Calls()
        calls.space.tell(
            "mcp/request", big, id="call", to=["n" * 99_999] * 99, verdict=verdict, code="c" * 9999
        )
        row = calls.last
        assert (len(row.method), len(row.tool), [len(one) for one in row.to]) == (256, 256, [128] * 16)
        assert len(row.result) <= 1000


@pytest.mark.parametrize(
    ("context", "parts"),
    [
        ("", []),
        ("//", []),
        ("r", ["r"]),
        ("/r//plan/", ["r", "plan"]),
        ("x" * 256 + "/" + "y" * 257, ["x" * 256]),
        ("a/" * 100_000, ["a"] * 16),
    ],
)
def test_parts_are_neither_empty_nor_longer_than_an_id_and_sixteen_at_most(
    context: str, parts: list[str]
) -> None:
    assert parts_of(context) == parts


@pytest.mark.parametrize(
    ("kind", "payload", "told"),
    [
        ("reasoning/thought", {"message": " Look at\nthe sky "}, ("Look at\\nthe sky", False)),
        ("reasoning/thought", {"message": "x" * 351}, ("x" * 349 + "…", True)),
        ("reasoning/thought", {"message": "x" * 350}, ("x" * 350, False)),
        ("chat", {"text": "Who knows?"}, ("Who knows?", False)),
    ],
)
def test_a_message_is_told_in_one_line(kind: str, payload: Any, told: tuple[str, bool]) -> None:
    assert text_of(Space().tell(kind, payload)) == told
