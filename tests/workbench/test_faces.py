"""What stands on a card, and what it is compared with."""

from __future__ import annotations

from typing import Any

from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.proposals import ProposalBook
from mew_lab.workbench.faces import MAX_CALLS, LastCalls, arguments_of, card_of, outcome_of
from mew_lab.workbench.sources import Sources


def message(kind: str, payload: Any, id: str = "p", to: tuple[str, ...] = ("git",), **more: Any) -> Envelope:
    return Envelope.of({"id": id, "from": "bot", "kind": kind, "to": list(to), "payload": payload, **more})


def call(tool: str = "git_log", **arguments: Any) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def card(payload: dict[str, Any], last: LastCalls | None = None, **more: Any) -> Any:
    book = ProposalBook()
    book.observe(message("mcp/proposal", payload, **more))
    proposal = book.get("p")
    assert proposal is not None
    known = (last or LastCalls()).of(proposal)
    return card_of(proposal, since=1.0, of_the_tool=("writes",), sources=Sources(), last=known)


def test_everything_that_will_be_sent_has_a_row() -> None:
    payload = call(n=1) | {"id": 7, "jsonrpc": "2.0", "extra": [1]}
    payload["params"]["_meta"] = {"a": 1}
    assert arguments_of(payload, tool="git_log") == {"n": 1, "params._meta": {"a": 1}, "extra": [1]}
    assert arguments_of({"params": {"name": "x", "arguments": {"extra": 1}}, "extra": 2}, tool="x") == {
        "extra": 1,
        "extra (beside the arguments)": 2,
    }


def test_a_card_holds_the_whole_values_and_what_is_risky_in_them() -> None:
    found = card(call(path="/etc/passwd", n=1))
    assert found.arguments == (("path", '"/etc/passwd"'), ("n", "1"))
    assert found.warnings == ("writes", "absolute path in path: /etc/passwd")
    assert (found.since, found.last, len(found.digest)) == (1.0, None, 64)


def test_it_is_compared_with_the_last_request_for_the_same_tool_of_the_same_target() -> None:
    last = LastCalls()
    for n, to, kind in ((1, "git", "mcp/request"), (2, "files", "mcp/request"), (3, "git", "mcp/proposal")):
        last.observe(message(kind, call(n=n), id=str(n), to=(to,)))
    last.observe(message("mcp/request", call("git_add", n=4)))
    assert card(call(n=9), last).last == (("n", "1"),)
    assert card(call("git_push"), last).last is None
    last.observe(message("mcp/request", call(n=5)))
    assert card(call(n=9), last).last == (("n", "5"),)


def test_what_is_remembered_is_bounded() -> None:
    last = LastCalls()
    for n in range(MAX_CALLS + 10):
        last.observe(message("mcp/request", call(f"tool{n}")))
    last.observe(message("mcp/request", call("long", text="x" * 300_000)))
    last.observe(message("mcp/request", {"method": 7}))
    assert len(last._last) == MAX_CALLS
    assert card(call("tool0"), last).last is None and card(call("long"), last).last is None


def test_without_an_answer_there_is_no_outcome() -> None:
    book = ProposalBook()
    book.observe(message("mcp/proposal", call()))
    proposal = book.get("p")
    assert proposal is not None and outcome_of(proposal) == ""
