"""What became of a call is what every participant may believe of it."""

from __future__ import annotations

from typing import Any

import pytest
from heard import Space

from mew_lab.workbench import fates
from mew_lab.workbench.fates import Call, Fates

ADD = {"method": "tools/call", "params": {"name": "add", "arguments": {"a": 1}}}


class Calls:
    """Takes note of each state of each call."""

    def __init__(self) -> None:
        self.fates = Fates()
        self.states: list[Call] = []
        self.space = Space(self)

    def take(self, heard: Any) -> None:
        self.states += self.fates.take(heard)

    def begin(self, kind: str = "mcp/proposal", **more: Any) -> Call:
        heard = Space().tell(kind, ADD, by="helper", id="call", to=["tools"], **more)
        call = self.fates.begin(heard)
        assert call is not None
        return call

    @property
    def last(self) -> Call:
        return self.states[-1]


@pytest.mark.req("P-3.2.1-1")
def test_a_proposal_waits_is_fulfilled_and_answered() -> None:
    calls = Calls()
    assert (calls.begin().state, calls.states) == ("proposed", [])
    calls.space.tell("mcp/request", ADD, by="human", id="req", about="call", to=["tools"])
    assert (calls.last.state, calls.last.by, calls.last.is_open) == ("waiting", "human", True)
    answer = {"result": {"content": [{"type": "text", "text": "3"}]}}
    calls.space.tell("mcp/response", answer, by="tools", about="req", to=["human"])
    assert (calls.last.state, calls.last.ended, calls.last.result) == ("answered", 2.0, "“3”")
    assert (calls.last.by, calls.last.result_seq, calls.last.is_open) == ("human", 2, False)


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
        "human claims to fulfil it", "human claims to fulfil it", "tools claims to answer it",
        "mallory claims to withdraw it",
    )  # fmt: skip
    for _ in range(9):
        calls.space.tell("mcp/withdraw", {}, by="mallory", about="call")
    assert len(calls.last.claims) == fates.MAX_CLAIMS
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
    refused = calls.begin("mcp/request", verdict="refused", code="capability_violation")
    assert (refused.state, refused.by, refused.result) == ("refused", "the gateway", "capability_violation")
    calls.begin("mcp/request")
    error = {"error": "capability_violation", "attempted_kind": "mcp/request"}
    calls.space.tell("system/error", error, by="mallory", about="call", to=["helper"])
    assert calls.last.state == "withdrawn", "only the gateway refuses"
    calls.space.tell("system/error", error, by="system:gateway", about="call", to=["helper"])
    assert (calls.last.state, calls.last.ended is None) == ("refused", False)


def test_what_was_refused_or_forgotten_changes_nothing_and_the_oldest_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fates, "MAX_CALLS", 3)
    calls = Calls()
    for n in range(5):
        calls.fates.begin(Space().tell("mcp/request", ADD, id=f"c{n}", to=["tools"]))
    calls.fates.forget("c4")
    for n in (0, 1, 4):
        calls.space.tell("mcp/response", {"result": {}}, by="tools", about=f"c{n}")
    calls.space.tell("mcp/response", {"result": {}}, by="tools", about="c3", verdict="refused")
    assert calls.states == []
    calls.space.tell("mcp/response", {"result": {}}, by="tools", about="c3")
    assert calls.last.id == "c3"


def test_an_id_belongs_to_whoever_called_by_it_first_and_while_that_call_is_open() -> None:
    calls = Calls()
    calls.begin()
    again: dict[str, Any] = {"id": "call", "to": ["tools"]}
    assert calls.fates.begin(Space().tell("mcp/proposal", ADD, by="mallory", **again)) is None
    assert calls.fates.begin(Space().tell("mcp/proposal", ADD, by="helper", **again)) is None
    calls.space.tell("mcp/reject", {}, by="human", about="call")
    assert (calls.last.sender, calls.last.state) == ("helper", "rejected")
    assert calls.fates.begin(Space().tell("mcp/proposal", ADD, by="mallory", **again)) is None
    assert calls.begin().state == "proposed", "its own, after it came back"


@pytest.mark.threat(13)
def test_what_is_longer_than_any_name_is_not_followed_and_never_taken_for_something_like_it() -> None:
    tool = {"method": "tools/call", "params": {"name": "t" * 256}}
    longer = {"method": "tools/call", "params": {"name": "t" * 257}}
    calls = Calls()
    for payload, to in (
        (longer, ["tools"]),
        ({"method": "m" * 257}, ["tools"]),
        (ADD, ["n" * 129]),
        (ADD, [f"n{n}" for n in range(17)]),
    ):
        assert calls.fates.begin(Space().tell("mcp/proposal", payload, id="big", to=to)) is None
    assert calls.fates._calls == {}
    followed = calls.fates.begin(
        Space().tell("mcp/proposal", tool, by="helper", id="call", to=["n" * 128] * 9)
    )
    assert followed is not None and followed.to == ("n" * 128,)
    calls.space.tell("mcp/request", longer, by="human", about="call", to=["n" * 128])
    calls.space.tell("mcp/request", tool, by="human", about="call", to=["n" * 129])
    assert (calls.last.state, len(calls.last.claims)) == ("proposed", 2)
    calls.space.tell("mcp/request", tool, by="human", id="req", about="call", to=["n" * 128] * 9999)
    assert calls.last.state == "waiting"
    assert calls.fates._fulfilments == {"req": ("call", ("n" * 128,))}


def test_a_proposal_to_everybody_is_fulfilled_by_a_request_to_somebody() -> None:
    calls = Calls()
    assert calls.fates.begin(Space().tell("mcp/proposal", ADD, by="helper", id="call")) is not None
    calls.space.tell("mcp/request", ADD, by="human", about="call")
    assert calls.last.claims == ("human claims to fulfil it",)
    calls.space.tell("mcp/request", ADD, by="human", about="call", to=["tools"])
    assert (calls.last.state, calls.last.by) == ("waiting", "human")


def test_a_refused_call_is_told_in_a_few_words() -> None:
    big = {"method": "m" * 99_999, "params": {"name": "t" * 99_999}}
    heard = Space().tell("mcp/request", big, to=["n" * 99_999] * 99, verdict="refused")
    call = Calls().fates.begin(heard)
    assert call is not None
    assert (len(call.method), len(call.tool), [len(one) for one in call.to]) == (256, 256, [128] * 16)
