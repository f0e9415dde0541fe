"""A person cancels a call that runs: from a cell, by a command, from a terminal; and sees how far it has come."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from mew_lab.cli.join import obey
from mew_lab.errors import MewError, OutcomeUnknown, ToolFailed
from mew_lab.lab.lab import Lab

from ..bridge.conftest import until


class Slow:
    """A server that reports two of four steps, and ends when it is cancelled."""

    def __init__(self, lab: Lab) -> None:
        self.cancelled = self.running = 0
        self.seat = lab.join("git", can="tool")
        self.seat.participant.register_method("tools/call", self.answer)

    async def answer(self, params: Any) -> dict[str, Any]:
        self.running += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return {}


@pytest.fixture
def slow(lab: Lab) -> Slow:
    return Slow(lab)


def wait(lab: Lab, holds: Callable[[], Any]) -> None:
    lab.me.run(until(holds))


def cancels(lab: Lab) -> list[dict[str, Any]]:
    sent = [json.loads(record.raw or "{}") for record in lab.log.held]
    return [one for one in sent if one.get("payload", {}).get("method") == "notifications/cancelled"]


@pytest.mark.parametrize("how", ["pending", "id", "beginning", "terminal"])
@pytest.mark.parametrize("who", ["human", "bot", "carol"])
def test_a_call_that_runs_is_cancelled_by_the_person_of_the_lab(
    lab: Lab, slow: Slow, how: str, who: str
) -> None:
    seat = lab.me if who == "human" else lab.join(who, can="human" if who == "carol" else "proposer")
    pending = seat.call("git/push")
    if who == "bot":
        assert "bot asks git to run push" in str(lab.proposals()[0])
        lab.approve(pending.id)
    wait(lab, lambda: slow.running)
    if how == "terminal":
        said = obey(lab, f"/cancel {pending.id} not this one")  # type: ignore[arg-type]
    else:
        named = {"pending": pending, "id": pending.id, "beginning": pending.id[:6]}[how]
        said = str(lab.cancel(named, "not this one"))
    by = who if who == "carol" else "human"
    assert said.startswith(f"git was asked by {by} to stop {pending.id} (not this one).")
    with pytest.raises(OutcomeUnknown, match="cancelled while it ran"):
        pending.result(timeout=10.0)
    [sent] = cancels(lab)
    assert sent["from"] == by and sent["payload"]["params"]["reason"] == "not this one"
    assert slow.cancelled == 1
    with pytest.raises(MewError, match="does not run"):
        lab.cancel(pending.id)
    assert len(cancels(lab)) == 1


def test_a_peer_that_begins_its_id_alike_draws_no_cancel_onto_its_call(lab: Lab, slow: Slow) -> None:
    own, bot = lab.me.call("git/push"), lab.join("bot").participant

    async def propose() -> None:
        call = {"method": "tools/call", "params": {"name": "push", "arguments": {}}}
        draft = {"id": f"{own.id[:4]}-bot", "kind": "mcp/proposal", "to": ["git"], "payload": call}
        sent = await bot.send_accepted(draft)
        await lab.me.participant.approve(sent.id)

    lab.me.run(propose())
    wait(lab, lambda: slow.running == 2)
    with pytest.raises(MewError, match="2 begin so"):
        lab.cancel(own.id[:4])
    assert not cancels(lab)
    assert str(lab.cancel(own.id[:8])).startswith(f"git was asked by human to stop {own.id}")


@pytest.mark.parametrize("how", ["returns", "raises"])
def test_a_tool_in_a_thread_goes_on_and_its_answer_is_the_outcome(lab: Lab, how: str) -> None:
    begun, end = threading.Event(), threading.Event()

    @lab.tool
    def push() -> str:
        "Waits, as a library does that knows no cancel."
        begun.set()
        assert end.wait(30.0)
        return "pushed" if how == "returns" else f"{1 / 0}"

    pending = lab.call("notebook/push")
    assert begun.wait(10.0)
    for _ in range(2):
        assert str(lab.cancel(pending)).startswith("notebook was asked by human to stop ")
        lab.chat("a message behind the cancel")
    assert pending.state == "open" and lab.decisions.running.all(), "it runs, and nobody says otherwise"
    end.set()
    if how == "returns":
        assert pending.result(timeout=10.0).text == "pushed"
    else:
        with pytest.raises(ToolFailed, match="ZeroDivisionError"):
            pending.result(timeout=10.0)
    wait(lab, lambda: not lab.decisions.running.all())


def test_a_tool_in_a_thread_that_never_ends_has_an_unknown_outcome_and_holds_no_end_of_its_lab(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mew_lab.sdk.correlations.CANCELLED_WITHIN", 0.3)
    begun, end = threading.Event(), threading.Event()

    @lab.tool
    def push() -> None:
        "Waits for ever."
        begun.set()
        end.wait()

    pending = lab.call("notebook/push")
    assert begun.wait(10.0)
    lab.cancel(pending)
    try:
        with pytest.raises(OutcomeUnknown, match=r"was cancelled after .* and no answer came"):
            pending.result(timeout=10.0)
        began = time.monotonic()
        lab.down()
        assert time.monotonic() - began < 10.0
    finally:
        end.set()


def test_a_proposal_that_waits_and_a_call_that_never_was_are_not_cancelled(lab: Lab, slow: Slow) -> None:
    pending = lab.join("bot").call("git/push")
    with pytest.raises(MewError, match=r"does not run; the proposal is open"):
        lab.cancel(pending)
    with pytest.raises(MewError, match=r"no call of that id is known here"):
        lab.cancel("nothing")
    with pytest.raises(MewError, match=r"no mcp/proposal and no mcp/request and no chat has this number"):
        lab.cancel("#1")
    assert not cancels(lab)
