"""When a call is unknown, how it stops being unknown, and which calls repeat one. Rulings R35, R42."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.bridge import waiting_calls
from mew_lab.ledger.calls import Change, Proposal, Request, Resolution
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.ledger import Ledger
from mew_lab.ledger.unknown_calls import DAY, UnknownCalls, call_key, has_effect, may_repeat
from mew_lab.protocol.difference import are_equal
from mew_lab.protocol.envelope import Envelope

from ..conftest import examples

CALL = {"method": "tools/call", "params": {"name": "pay", "arguments": {"to": "bob", "amount": 7}}}
LOST = {"error": {"code": -32001, "message": "it ended", "data": {"code": "outcome_unknown"}}}
NO_ANSWERS: list[dict[str, Any]] = [
    LOST,
    {},
    {"error": "as a text"},
    {"error": {"message": "without a code"}},
    {"error": {"code": "NOT_FOUND"}},
    {"error": {"code": "NOT_FOUND", "message": "no such tool"}, "result": {}},
    {"result": {}, "error": {"code": 1, "message": "both"}},
    {"id": 1.5, "result": {}},
]
ANSWERS: list[dict[str, Any]] = [
    {"result": {}},
    {"result": {"isError": True}},
    {"error": {"code": -32000, "message": "the MCP server ended", "data": {"code": "gone"}}},
    {"error": {"code": "NOT_FOUND", "message": "no such tool"}},
]


class Space:
    """A ledger, and short ways to tell it something."""

    def __init__(self, me: str | None = None) -> None:
        self.ledger = Ledger(me=me)
        self.unknown = UnknownCalls()
        self.count = 0
        self.now = 0.0

    def tell(self, kind: str, sender: str, id: str, payload: Any, **members: Any) -> list[Change]:
        self.count += 1
        envelope = Envelope.of({"id": id, "from": sender, "kind": kind, "payload": payload, **members})
        return self._take(self.ledger.observe(Entry.of(envelope, self.count)))

    def _take(self, changes: Any) -> list[Change]:
        calls = [change for change in changes if isinstance(change, Change)]
        for change in calls:
            self.unknown.follow(change, self.now)
        return calls

    def request(
        self, id: str = "r1", sender: str = "ann", to: Any = ("bank",), payload: Any = CALL, **how: Any
    ) -> Any:
        return self.tell("mcp/request", sender, id, payload, to=list(to), **how)

    def propose(self, id: str = "p1", sender: str = "bot", to: Any = ("bank",)) -> Any:
        return self.tell("mcp/proposal", sender, id, CALL, to=list(to))

    def answer(self, payload: Any, about: str = "r1", sender: str = "bank") -> Any:
        return self.tell("mcp/response", sender, f"a{self.count}", payload, correlation_id=[about])

    def leave(self, who: str, sender: str = "system:gateway") -> Any:
        return self.presence("leave", who, sender)

    def join(self, who: str, sender: str = "system:gateway") -> Any:
        return self.presence("join", who, sender)

    def presence(self, event: str, who: str, sender: str) -> Any:
        payload = {"event": event, "participant": {"id": who, "capabilities": []}}
        return self.tell("system/presence", sender, f"l{self.count}", payload)

    def interrupt(self) -> Any:
        return self._take(self.ledger.interrupt())

    def resolve(self, id: str, happened: bool = True) -> Any:
        return self._take(self.ledger.calls.resolve(id, happened, "ada", "looked at the account"))

    def state(self, id: str = "r1") -> str:
        request = self.ledger.calls.requests.get(id)
        return "" if request is None else request.state

    def proposal(self, id: str = "p1") -> Proposal:
        found = self.ledger.calls.proposals.get(id)
        assert found is not None
        return found


def approved(me: str | None = None) -> Space:
    """A space in which ann has approved bot's proposal, by the request r1 to the bank."""
    space = Space(me)
    space.propose()
    space.request(correlation_id=["p1"])
    return space


@pytest.mark.ruling("R35")
@pytest.mark.parametrize("payload", NO_ANSWERS)
def test_an_answer_that_tells_no_outcome_makes_a_call_and_its_proposal_unknown(
    payload: dict[str, Any],
) -> None:
    space = approved()
    changes = space.answer(payload)
    assert [(change.what, change.call.id) for change in changes] == [("unknown", "r1"), ("unknown", "p1")]
    assert (space.state(), space.proposal().state) == ("unknown", "unknown")
    assert not space.proposal().failed and space.proposal().response is changes[0].entry


@pytest.mark.ruling("R35")
@pytest.mark.parametrize("payload", ANSWERS)
def test_an_answer_that_tells_the_outcome_settles_a_call_whether_it_was_unknown_or_not(
    payload: dict[str, Any],
) -> None:
    for before in (lambda space: None, lambda space: space.answer(LOST), lambda space: space.leave("bank")):
        space = approved()
        before(space)
        space.answer(payload)
        assert (space.state(), space.proposal().state) == ("answered", "answered")
        assert space.proposal().failed == (payload != {"result": {}})
        assert len(space.unknown) == 0


@pytest.mark.ruling("R35")
def test_the_leave_of_the_only_addressee_makes_a_waiting_call_unknown() -> None:
    space = approved()
    space.request("both", to=("bank", "shop"))
    space.request("note", payload={"method": "notifications/progress"})
    space.leave("bank", sender="eve")  # only the gateway tells who left
    space.leave("shop")
    assert space.state() == "waiting"
    changes = space.leave("bank")
    assert [(change.what, change.call.id) for change in changes] == [("unknown", "r1"), ("unknown", "p1")]
    assert [space.state(id) for id in ("both", "note")] == ["waiting", "sent"]
    assert space.leave("bank") == [] and space.proposal().response is None


@pytest.mark.ruling("R35")
def test_an_approval_that_its_absent_target_never_got_is_unknown_as_soon_as_that_joins_anew() -> None:
    """Another approval may reach the target then, and it has seen neither the proposal nor this request."""
    space = approved()
    space.request("own")
    space.join("bank", sender="eve")
    space.join("shop")
    assert (space.state(), space.proposal().state) == ("waiting", "fulfilled")
    changes = space.join("bank")
    assert [(change.what, change.call.id) for change in changes] == [("unknown", "r1"), ("unknown", "p1")]
    assert space.state("own") == "waiting"  # nobody else can send that one
    space.answer({"result": {}})
    assert (space.state(), space.proposal().state) == ("answered", "answered")


REFUSAL = {"error": {"code": -32001, "message": "late", "data": {"code": "already_fulfilled"}}}


@pytest.mark.ruling("R32", "R35")
@pytest.mark.parametrize("end", ["leave", "interrupt"])
def test_a_late_request_without_an_answer_is_unknown_when_its_executor_is_gone(end: str) -> None:
    """An executor that started again may have seen neither the proposal nor its fulfilment, and executed this one."""
    space = approved()
    space.leave("bank")
    space.request("never got", correlation_id=["p1"])
    space.join("bank")
    for id in ("told", "not told"):
        space.request(id, correlation_id=["p1"])
    space.answer(REFUSAL, "told")
    space.leave("bank") if end == "leave" else space.interrupt()
    assert [space.state(id) for id in ("told", "not told", "never got")] == ["refused", "unknown", "refused"]
    assert [call.request.id for call in space.unknown] == ["r1", "not told"]
    space.answer(REFUSAL, "not told")  # by its next process, which knows what it executed
    assert space.state("not told") == "refused" and space.proposal().state == "unknown"
    space.answer({"result": {}}, "told")
    assert space.state("told") == "answered"


@pytest.mark.ruling("R35")
def test_the_end_of_the_own_connection_makes_the_own_calls_unknown() -> None:
    space = approved("ann")
    space.propose("p2", sender="ann")
    space.request("r2", sender="eve", to=("ann",))
    space.interrupt()
    assert (space.state("r1"), space.proposal().state) == ("unknown", "unknown")
    assert space.proposal("p2").uncertain and space.proposal("p2").state == "open"
    assert space.state("r2") == "waiting"  # a call of another
    proposer = approved("bot")
    proposer.interrupt()
    assert proposer.proposal().state == "unknown"


@pytest.mark.ruling("R35")
def test_the_end_of_the_gateway_makes_the_calls_of_all_in_its_journal_unknown() -> None:
    journal = approved()
    journal.request("note", payload={"method": "notifications/progress"})
    journal.request("r2", sender="eve", to=("bank", "shop"))
    journal.request("done", sender="eve")
    journal.answer({"result": {}}, "done")
    journal.interrupt()
    states = [journal.state(id) for id in ("r1", "r2", "done", "note")]
    assert (states, journal.proposal().state) == (["unknown", "unknown", "answered", "sent"], "unknown")


@pytest.mark.ruling("R35")
def test_an_unknown_call_from_before_is_taken_once_and_a_true_answer_ends_it() -> None:
    before, after = approved(), Space("human")
    before.leave("bank")
    [unknown] = before.unknown
    after.request("taken", sender="eve")
    assert [change.what for change in after.ledger.calls.adopt(unknown.request)] == ["unknown"]
    assert after.ledger.calls.adopt(unknown.request) == () and after.state("r1") == "unknown"
    assert [change.what for change in after.answer({"result": {}}, "r1")] == ["answered"]


@pytest.mark.ruling("R35", "R42")
def test_a_resolution_says_what_happened_and_a_later_answer_still_counts() -> None:
    space = approved()
    assert space.resolve("r1") == [] and space.resolve("nothing") == []  # it still waits
    space.answer(LOST)
    changes = space.resolve("r1", happened=False)
    assert [change.what for change in changes] == ["resolved", "resolved"]
    found = Resolution(False, "ada", "looked at the account")
    assert space.proposal().resolution == found and space.state() == "resolved"
    assert str(found) == "did not happen (ada: looked at the account)"
    space.resolve("r1", happened=True)
    resolved = space.proposal().resolution
    assert resolved is not None and resolved.happened
    assert space.answer(LOST)[0].what == "claimed" and space.state() == "resolved"
    space.answer({"result": {}})
    assert space.state() == "answered" and space.proposal().resolution == resolved


events = st.one_of(
    st.tuples(st.just("request"), st.sampled_from(["me", "ann"]), st.sampled_from([("bank",), ("bank", "shop")])),
    st.tuples(st.just("propose"), st.sampled_from(["me", "bot"])),
    st.tuples(st.just("fulfil"), st.integers(0, 3)),
    st.tuples(st.just("answer"), st.integers(0, 5), st.sampled_from([*NO_ANSWERS, *ANSWERS]), st.sampled_from(["bank", "shop", "eve"])),
    st.tuples(st.just("leave"), st.sampled_from(["bank", "shop", "ann"])),
    st.tuples(st.just("interrupt")),
    st.tuples(st.just("resolve"), st.integers(0, 5), st.booleans()),
)  # fmt: skip


@pytest.mark.ruling("R35")
@settings(max_examples=examples(300), deadline=None)
@given(st.lists(events, max_size=25), st.sampled_from([None, "me"]))
def test_unknown_ends_only_by_an_answer_that_tells_the_outcome_or_by_a_resolution(
    script: list[Any], me: str | None
) -> None:
    space = Space(me)
    space.ledger.calls.hold_all_requests()
    requests: list[str] = []
    proposals: list[str] = []
    for n, (op, *given_) in enumerate(script):
        calls = space.ledger.calls
        before: dict[str, Request | Proposal] = {
            call.id: call for call in (*calls.requests, *calls.proposals)
        }
        if op == "request":
            requests.append(f"r{n}")
            space.request(f"r{n}", given_[0], given_[1])
        elif op == "propose":
            proposals.append(f"p{n}")
            space.propose(f"p{n}", given_[0])
        elif op == "fulfil" and proposals:
            requests.append(f"r{n}")
            about = proposals[given_[0] % len(proposals)]
            space.request(f"r{n}", "ann", correlation_id=[about])
        elif op == "answer" and requests:
            space.answer(given_[1], requests[given_[0] % len(requests)], given_[2])
        elif op == "leave":
            space.leave(given_[0])
        elif op == "interrupt":
            space.interrupt()
        elif op == "resolve" and requests:
            space.resolve(requests[given_[0] % len(requests)], given_[1])
        for call in (*calls.requests, *calls.proposals):
            known = before.get(call.id)
            if known is not None and known.state == "unknown" and call.state != "unknown":
                settles = op == "answer" and given_[1] in ANSWERS and given_[2] in ("bank", "shop")
                assert settles or op == "resolve", (op, call)
            if known is not None and call.state == "unknown" and known.state != "unknown":
                assert known.state in ("waiting", "fulfilled", "refused"), known.state
                assert op in ("answer", "leave", "interrupt")
        # A request and the proposals that it fulfilled are told alike.
        for proposal in calls.proposals:
            request = calls.requests.get(proposal.fulfilment or "")
            if request is not None and request.state not in ("waiting", "sent"):
                assert proposal.state == request.state
        assert len(space.unknown) == sum(call.state == "unknown" for call in calls.requests)


# --- repeats ---


def unknown_space() -> Space:
    space = Space()
    space.now = 1000.0
    space.request()
    space.answer(LOST)
    return space


@pytest.mark.ruling("R35")
def test_a_repeat_has_the_same_target_method_tool_and_canonical_arguments() -> None:
    unknown = unknown_space().unknown

    def call(**arguments: Any) -> dict[str, Any]:
        return {"method": "tools/call", "params": {"name": "pay", "arguments": arguments}}

    found = unknown.find(["bank"], CALL, 1001.0)
    assert found is not None and (found.request.id, found.since) == ("r1", 1000.0)
    same = [
        call(amount=7, to="bob"),
        call(amount=7.0, to="bob"),
        {**CALL, "jsonrpc": "2.0", "id": 9},
        {**CALL, "params": {**CALL["params"], "_meta": {"progressToken": 1}}},  # type: ignore[dict-item]
    ]
    assert all(
        unknown.find(to, payload, 1001.0) for payload in same for to in (["bank"], ["shop", "bank"], [])
    )
    other = [
        call(amount=8, to="bob"),
        call(amount=True, to="bob"),
        call(amount="7", to="bob"),
        call(amount=7),
        {"method": "prompts/get", "params": CALL["params"]},
        {"method": "tools/call", "params": {**CALL["params"], "name": "Pay"}},  # type: ignore[dict-item]
    ]
    assert not any(unknown.find(["bank"], payload, 1001.0) for payload in other)
    assert unknown.find(["shop"], CALL, 1001.0) is None
    assert unknown.find(["bank"], CALL, 1001.0, but="r1") is None


ARGUMENTS = st.dictionaries(
    st.sampled_from("ab"),
    st.recursive(
        st.sampled_from(
            [0, 0.0, False, 1, 1.0, True, None, "1", 2**53, 2.0**53, 2**53 + 1, 2**63, 10**30, 1e30]
        ),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    ),
    max_size=2,
)


@pytest.mark.drawn
@pytest.mark.ruling("R35")
@settings(max_examples=examples(300), deadline=None)
@given(ARGUMENTS, ARGUMENTS)
def test_two_calls_repeat_each_other_where_their_arguments_are_equal_for_the_ledger_and_for_the_gate(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    for left, right in ((one, other), (one, one), (one, json.loads(json.dumps(one)))):
        first, second = (
            {"method": "tools/call", "params": {"name": "pay", "arguments": arguments}}
            for arguments in (left, right)
        )
        same = are_equal(left, right)
        assert (call_key(first) == call_key(second)) is same
        assert (waiting_calls.call_key("bank", first) == waiting_calls.call_key("bank", second)) is same


@pytest.mark.ruling("R35")
def test_a_call_is_a_repeat_for_a_day_or_for_the_time_that_is_set() -> None:
    unknown = unknown_space().unknown
    assert unknown.find(["bank"], CALL, 1000.0 + DAY) is not None
    assert unknown.find(["bank"], CALL, 1001.0 + DAY) is None and len(unknown) == 0


@pytest.mark.ruling("R35")
def test_what_was_found_out_or_answered_is_no_longer_repeated() -> None:
    for end in (lambda space: space.answer({"result": {}}), lambda space: space.resolve("r1")):
        space = unknown_space()
        end(space)
        assert space.unknown.find(["bank"], CALL, 1001.0) is None


@pytest.mark.ruling("R35")
def test_a_refused_repeat_is_not_repeated_itself() -> None:
    space = unknown_space()
    space.request("r2")
    error = {"code": -32001, "message": "not again", "data": {"code": "outcome_unknown", "request": "r1"}}
    space.answer({"error": error}, "r2")
    space.resolve("r1")
    assert space.unknown.find(["bank"], CALL, 1001.0) is None


def test_requests_that_only_read_have_no_effect_to_repeat() -> None:
    assert has_effect("tools/call") and has_effect("x/own")
    reads = (
        "tools/list",
        "resources/read",
        "prompts/get",
        "initialize",
        "ping",
        "notifications/cancelled",
        "",
    )
    assert not any(map(has_effect, reads))
    space = Space()
    space.request(payload={"method": "tools/list"})
    space.leave("bank")
    assert space.state() == "unknown" and len(space.unknown) == 0


@pytest.mark.parametrize(
    ("hints", "allowed"),
    [
        ({"readOnlyHint": True}, True),
        ({"idempotentHint": True, "destructiveHint": True}, True),
        ({"readOnlyHint": True, "destructiveHint": True}, False),
        ({"readOnlyHint": "yes"}, False),
        ({}, False),
    ],
)
def test_a_tool_may_say_that_a_second_call_does_no_harm(hints: dict[str, Any], allowed: bool) -> None:
    assert may_repeat(hints) is allowed


def test_nobody_drives_out_the_unknown_calls_of_others() -> None:
    space = Space()
    space.unknown = UnknownCalls(limit=10)
    space.request()
    space.answer(LOST)
    for n in range(50):
        space.request(f"e{n}", "eve", payload={"method": "tools/call", "params": {"name": f"t{n}"}})
        space.answer(LOST, f"e{n}")
    assert len(space.unknown) == 10 and space.unknown.find(["bank"], CALL, 0.0) is not None
