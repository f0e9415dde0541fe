"""The last calls are kept with what they gave, in bounds; who answers uninvited is not believed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mew_lab.errors import MewError, ToolFailed
from mew_lab.ledger.calls import CallLedger
from mew_lab.ledger.entry import Entry
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.calls import Call
from mew_lab.sdk.results import ToolResult
from mew_lab.views.tools.runs import MAX_RUNS, ToolRuns

Tell = Callable[[Entry], None]


async def _withdraw(call: Call, reason: str) -> None:
    call.fail(MewError("no longer waited for"))


CALL = {"method": "tools/call", "params": {"name": "log", "arguments": {}}}
PAYLOADS = {
    "mcp/request": {"jsonrpc": "2.0", "id": 1, **CALL},
    "mcp/proposal": CALL,
    "mcp/response": {"jsonrpc": "2.0", "id": 1, "result": {"content": []}},
    "mcp/reject": {"reason": "no"},
    "chat": {"text": "r-1"},
}


def members(id: str, sender: str, kind: str, *, to: str, about: str = "", **params: Any) -> dict[str, Any]:
    correlation = {"correlation_id": [about]} if about else {}
    payload = PAYLOADS[kind] | ({"params": params} if params else {})
    return {"protocol": "mew/v0.4", "id": id, "ts": "2026-01-01T00:00:00Z", "from": sender, "to": [to], "kind": kind,
            "payload": payload} | correlation  # fmt: skip


def call(n: int = 1, kind: str = "mcp/request") -> Call:
    return Call(Envelope.of(members(f"r-{n}", "human", kind, to="git")), what="git/log", withdraw=_withdraw)


def entry(
    seq: int,
    sender: str,
    kind: str = "mcp/response",
    *,
    id: str = "x",
    to: str = "human",
    about: str = "r-1",
    verdict: str = "accepted",
    **params: Any,
) -> Entry:
    known = members(id, sender, kind, to=to, about=about, **params)
    return Entry(seq, 1000.0 + seq, "", verdict, "", "", sender, known)


@pytest.fixture
def tell(runs: ToolRuns) -> Tell:
    """Tells the runs what an entry of the space changed."""
    ledger = CallLedger()
    return lambda entry: runs.take_changes(ledger.observe(entry))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
def runs() -> ToolRuns:
    return ToolRuns(lambda: None)


@pytest.mark.threat(13)
async def test_the_row_of_the_answer_is_that_of_who_was_asked(runs: ToolRuns, tell: Tell) -> None:
    asked = call()
    runs.follow(asked, target="git/log", text="{}")
    tell(entry(4, "human", "mcp/request", id="r-1", to="git", about=""))
    tell(entry(5, "mallory"))
    assert (runs.all[0].seq, runs.all[0].answer_seq) == (4, 0)
    tell(entry(6, "git"))
    asked.finish(ToolResult({"content": []}), by="git")
    await settle()
    assert (runs.all[0].answer_seq, runs.all[0].state, runs.all[0].by) == (6, "answered", "git")


async def test_an_answer_that_the_log_shows_after_the_call_has_ended_has_its_row(
    runs: ToolRuns, tell: Tell
) -> None:
    asked = call()
    runs.follow(asked, target="git/log", text="{}")
    asked.finish(ToolResult({"content": []}), by="git")
    await settle()
    tell(entry(4, "human", "mcp/request", id="r-1", to="git", about=""))
    tell(entry(6, "git"))
    assert (runs.all[0].seq, runs.all[0].answer_seq, runs.all[0].state) == (4, 6, "answered")


@pytest.mark.threat(13)
async def test_only_a_fulfilment_by_the_rules_of_the_ledger_leads_to_the_answer(
    runs: ToolRuns, tell: Tell
) -> None:
    proposed = call(kind="mcp/proposal")
    runs.follow(proposed, target="git/log", text="{}")
    tell(entry(4, "human", "mcp/proposal", id="r-1", to="git", about=""))
    tell(entry(5, "mallory", "mcp/request", id="f-1", to="git", name="push", arguments={}))  # another tool
    tell(entry(6, "git", to="mallory", about="f-1"))
    assert (runs.all[0].state, runs.all[0].decided, runs.all[0].answer_seq) == ("open", None, 0)
    tell(entry(7, "ann", "mcp/reject"))
    assert (runs.all[0].state, runs.all[0].by, runs.all[0].waits) == ("rejected", "ann", True)
    tell(entry(8, "bob", "mcp/request", id="f-2", to="git"))
    assert (runs.all[0].state, runs.all[0].by, runs.all[0].decided) == ("fulfilled", "bob", 1008.0)
    tell(entry(9, "git", to="bob", about="f-2"))
    assert (runs.all[0].seq, runs.all[0].answer_seq) == (4, 9)
    runs.close()


@pytest.mark.threat(13)
async def test_what_the_gateway_refused_is_neither_the_call_nor_its_answer(
    runs: ToolRuns, tell: Tell
) -> None:
    runs.follow(call(), target="git/log", text="{}")
    tell(entry(3, "mallory", "mcp/request", id="r-1", to="git", about="", verdict="refused"))
    tell(entry(4, "human", "mcp/request", id="r-1", to="git", about=""))
    tell(entry(5, "git", verdict="refused"))
    tell(entry(6, "mallory", "chat", id="r-1", about=""))
    assert (runs.all[0].seq, runs.all[0].answer_seq) == (4, 0)


async def test_an_error_of_the_tool_keeps_what_the_tool_said(runs: ToolRuns) -> None:
    asked = call()
    runs.follow(asked, target="git/log", text="{}")
    raw = {"content": [{"type": "text", "text": "no such folder"}], "isError": True}
    asked.fail(ToolFailed("git/log failed: no such folder", data=raw))
    await settle()
    assert (runs.all[0].state, runs.all[0].error) == ("failed", "git/log failed: no such folder")
    assert runs.result(1) == raw


async def test_the_last_calls_are_kept_and_those_that_wait(runs: ToolRuns) -> None:
    first = call(0)
    runs.follow(first, target="git/log", text="{}")
    for n in range(1, MAX_RUNS + 10):
        asked = call(n)
        runs.follow(asked, target="git/log", text="{}")
        asked.finish(ToolResult({"content": []}), by="git")
        await settle()
    assert len(runs.all) == MAX_RUNS
    assert runs.all[0].waits and runs.all[0].number == 1
    assert runs.result(2) is None and runs.result(runs.all[-1].number) is not None


async def test_so_many_may_wait_and_no_more(runs: ToolRuns) -> None:
    for n in range(MAX_RUNS):
        runs.check_room("call git/log")
        runs.follow(call(n), target="git/log", text="{}")
    with pytest.raises(MewError, match="Cannot call git/log: 20 calls wait already"):
        runs.check_room("call git/log")
    assert await runs.stop(1) == "git/log is no longer awaited. It may have run already."
    await settle()
    runs.check_room("call git/log")
    runs.close()


@pytest.mark.threat(9)
async def test_a_result_beyond_bounds_is_cut_and_says_so(runs: ToolRuns) -> None:
    asked = call()
    runs.follow(asked, target="git/log", text="{}")
    asked.finish(ToolResult({"content": [{"type": "text", "text": "x" * 1_100_000}]}), by="git")
    await settle()
    (block,) = runs.result(1)["content"]
    assert len(block["text"]) < 1100 and block["text"].endswith("lab.log.df has all")


def test_nothing_is_held_of_a_call_that_never_was(runs: ToolRuns) -> None:
    result: Any = runs.result(7)
    assert result is None
