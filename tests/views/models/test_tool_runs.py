"""The last calls are kept with what they gave, in bounds; who answers uninvited is not believed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mew_lab.errors import MewError, ToolFailed
from mew_lab.ledger.entry import Entry
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.calls import Call
from mew_lab.sdk.results import ToolResult
from mew_lab.views.tools.runs import MAX_RUNS, ToolRuns


async def _nothing(call: Call, reason: str) -> None:
    call.fail(MewError("no longer waited for"))


def call(n: int = 1, kind: str = "mcp/request") -> Call:
    envelope = Envelope.of(
        {"protocol": "mew/v0.4", "id": f"r-{n}", "ts": "2026-01-01T00:00:00Z", "from": "human", "to": ["git"],
         "kind": kind, "payload": {"method": "tools/call"}}
    )  # fmt: skip
    return Call(envelope, what="git/log", withdraw=_nothing)


def heard(
    seq: int,
    sender: str,
    *,
    id: str = "x",
    kind: str = "mcp/response",
    about: str = "r-1",
    verdict: str = "accepted",
) -> Entry:
    members = {"id": id, "kind": kind, "correlation_id": [about], "payload": {}}
    return Entry(seq, 0.0, "", verdict, "", "", sender, members)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
def runs() -> ToolRuns:
    return ToolRuns(lambda: None)


@pytest.mark.threat(13)
async def test_the_row_of_the_answer_is_that_of_who_was_asked(runs: ToolRuns) -> None:
    one = call()
    runs.follow(one, target="git/log", text="{}")
    runs.take(heard(4, "human", id="r-1", kind="mcp/request", about="y"))
    runs.take(heard(5, "mallory"))
    assert (runs.all[0].seq, runs.all[0].answer_seq) == (4, 0)
    runs.take(heard(6, "git"))
    one.finish(ToolResult({"content": []}), by="git")
    await settle()
    assert (runs.all[0].answer_seq, runs.all[0].state, runs.all[0].by) == (6, "answered", "git")


@pytest.mark.threat(13)
async def test_what_the_gateway_refused_is_neither_the_call_nor_its_answer(runs: ToolRuns) -> None:
    runs.follow(call(), target="git/log", text="{}")
    runs.take(heard(3, "mallory", id="r-1", kind="mcp/request", about="y", verdict="refused"))
    runs.take(heard(4, "human", id="r-1", kind="mcp/request", about="y"))
    runs.take(heard(5, "git", verdict="refused"))
    runs.take(heard(6, "mallory", id="r-1", kind="chat", about="y"))
    assert (runs.all[0].seq, runs.all[0].answer_seq) == (4, 0)


async def test_an_error_of_the_tool_keeps_what_the_tool_said(runs: ToolRuns) -> None:
    one = call()
    runs.follow(one, target="git/log", text="{}")
    raw = {"content": [{"type": "text", "text": "no such folder"}], "isError": True}
    one.fail(ToolFailed("git/log failed: no such folder", data=raw))
    await settle()
    assert (runs.all[0].state, runs.all[0].error) == ("failed", "git/log failed: no such folder")
    assert runs.result(1) == raw


async def test_the_last_calls_are_kept_and_those_that_wait(runs: ToolRuns) -> None:
    first = call(0)
    runs.follow(first, target="git/log", text="{}")
    for n in range(1, MAX_RUNS + 10):
        one = call(n)
        runs.follow(one, target="git/log", text="{}")
        one.finish(ToolResult({"content": []}), by="git")
        await settle()
    assert len(runs.all) == MAX_RUNS
    assert runs.all[0].waits and runs.all[0].number == 1
    assert runs.result(2) is None and runs.result(runs.all[-1].number) is not None


async def test_so_many_may_wait_and_no_more(runs: ToolRuns) -> None:
    for n in range(MAX_RUNS):
        runs.room("call git/log")
        runs.follow(call(n), target="git/log", text="{}")
    with pytest.raises(MewError, match="Cannot call git/log: 20 calls wait already"):
        runs.room("call git/log")
    assert await runs.stop(1) == "Nobody waits for git/log any more; it may have run."
    await settle()
    runs.room("call git/log")
    runs.close()


@pytest.mark.threat(9)
async def test_a_result_beyond_bounds_is_cut_and_says_so(runs: ToolRuns) -> None:
    one = call()
    runs.follow(one, target="git/log", text="{}")
    one.finish(ToolResult({"content": [{"type": "text", "text": "x" * 1_100_000}]}), by="git")
    await settle()
    (block,) = runs.result(1)["content"]
    assert len(block["text"]) < 1100 and block["text"].endswith("lab.log.df has all")


async def test_a_proposal_with_many_claims_to_fulfil_it_stays_bounded(runs: ToolRuns) -> None:
    one = call(kind="mcp/proposal")
    runs.follow(one, target="git/log", text="{}")
    for n in range(1000):
        runs.take(heard(n, "mallory", id=f"f-{n}", kind="mcp/request"))
    assert len(runs._going[1].names) < 12
    runs.close()


def test_nothing_is_held_of_a_call_that_never_was(runs: ToolRuns) -> None:
    result: Any = runs.result(7)
    assert result is None
