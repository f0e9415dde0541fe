"""What became of calls, as the feed shows it: how long each took, which requests approve, and what waits."""

from __future__ import annotations

import json
from typing import Any

from mew_lab.ledger.entry import Entry
from mew_lab.ledger.ledger import Ledger
from mew_lab.views.feed.calls import CallState, CallStates

CALL = {"method": "tools/call", "params": {"name": "git_log"}}


class Space:
    """Feeds messages to a ledger and to the states."""

    def __init__(self) -> None:
        self.states, self._ledger, self._last = CallStates(), Ledger(), 0

    def say(self, id: str, sender: str, kind: str, payload: dict[str, Any], t: float, **members: Any) -> int:
        self._last += 1
        verdict = members.pop("verdict", "accepted")
        whole = {"id": id, "from": sender, "kind": kind, "payload": payload, **members}
        entry = Entry(self._last, t, json.dumps(whole), verdict, "", "", sender, whole)
        self.states.take_changes(self._ledger.observe(entry), self._ledger)
        return self._last

    def propose(self, id: str, t: float) -> int:
        return self.say(id, "bot", "mcp/proposal", CALL, t, to=["git"])

    def request(self, id: str, t: float, about: str = "") -> int:
        related = {"correlation_id": [about]} if about else {}
        return self.say(id, "human", "mcp/request", CALL, t, to=["git"], **related)

    def answer(self, about: str, t: float, **payload: Any) -> int:
        result = payload or {"result": {"content": []}}
        return self.say(f"of {about}", "git", "mcp/response", result, t, to=["human"], correlation_id=[about])


def test_a_request_waits_until_its_answer_and_then_has_taken_some_time() -> None:
    space = Space()
    seq = space.request("r", 10.0)
    assert space.states.get(seq) == CallState("waiting")
    space.say("x", "eve", "mcp/response", {"result": {}}, 11.0, to=["human"], correlation_id=["r"])
    assert space.states.get(seq) == CallState("waiting"), "only its addressee answers it"
    space.answer("r", 12.5)
    assert space.states.get(seq) == CallState("answered", 2.5)
    space.answer("r", 20.0, error={"code": -1})
    assert space.states.get(seq) == CallState("answered", 2.5), "the first answer counts"


def test_an_approval_is_known_at_the_proposal_and_at_the_request() -> None:
    space = Space()
    proposal = space.propose("p", 0.0)
    request = space.request("r", 38.0, "p")
    assert space.states.get(proposal) == CallState("approved", 38.0)
    assert space.states.get(request) == CallState("waiting", 0.0, True)
    space.answer("r", 38.5)
    assert space.states.get(request) == CallState("answered", 0.5, True)
    assert space.states.get(proposal) == CallState("approved", 38.0)


def test_a_tool_that_fails_after_an_approval_is_told_at_both() -> None:
    space = Space()
    proposal, request = space.propose("p", 0.0), space.request("r", 4.0, "p")
    space.answer("r", 5.0, result={"isError": True, "content": []})
    assert space.states.get(proposal) == CallState("failed", 4.0)
    assert space.states.get(request) == CallState("failed", 1.0, True)


def test_the_first_decision_says_how_long_a_proposal_waited() -> None:
    space = Space()
    rejected, withdrawn = space.propose("a", 0.0), space.propose("b", 0.0)
    space.say("x", "human", "mcp/reject", {}, 3.0, correlation_id=["a"])
    assert space.states.get(rejected) == CallState("rejected", 3.0)
    space.request("r", 9.0, "a")
    assert space.states.get(rejected) == CallState("approved", 3.0)
    space.say("y", "bot", "mcp/withdraw", {}, 7.0, correlation_id=["b"])
    assert space.states.get(withdrawn) == CallState("withdrawn", 7.0)


def test_what_waits_for_nothing_has_no_state() -> None:
    space = Space()
    notification = {"method": "notifications/progress"}
    told = space.say("n", "human", "mcp/request", notification, 0.0, to=["git"])
    refused = space.say("x", "bot", "mcp/request", CALL, 0.0, to=["git"], verdict="refused")
    assert space.states.get(told) is None and space.states.get(refused) is None


def test_changes_are_told_once_and_a_view_that_missed_them_can_have_them_again() -> None:
    space = Space()
    first, second = space.request("r", 0.0), space.request("s", 1.0)
    space.answer("r", 2.0)
    assert space.states.drain() == [(first, CallState("answered", 2.0)), (second, CallState("waiting"))]
    assert space.states.drain() == []
    assert [seq for seq, _ in space.states.between(2, 9)] == [second]
