"""`lab.on_proposal`: a function is told of each proposal and each change of its state, and harms nobody."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable
from typing import Any

import pytest

import mew_lab
from mew_lab.errors import ConfigError, MewError
from mew_lab.lab.lab import Lab

from .looking import approve, eventually, propose

Adding = Callable[[int, int], Any]


def call(**arguments: Any) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": "add", "arguments": arguments}}


def states(told: list[mew_lab.Proposal], id: str) -> list[str]:
    return [one.state for one in told if one.id == id]


def test_each_state_of_a_proposal_is_told_once_and_what_is_open_at_once(lab: Lab, adding: Adding) -> None:
    before = propose(lab, call(a=1, b=2))
    told: list[mew_lab.Proposal] = []
    remove = lab.on_proposal(told.append)
    assert states(told, before.id) == ["open"]
    approve(lab, before.id)
    eventually(lambda: "done" in states(told, before.id))
    assert states(told, before.id) == ["open", "deciding", "fulfilled", "done"]
    later = propose(lab, call(a=3, b=4), by="bob")
    lab.reject(later.id)
    eventually(lambda: "rejected" in states(told, later.id))
    [one] = [one for one in told if (one.id, one.state) == (later.id, "open")]
    assert (one.digest, one.proposer, one.target, one.method, one.tool) == (
        later.digest,
        "bob",
        "notebook",
        "tools/call",
        "add",
    )
    assert dict(one.arguments) == {"a": 3, "b": 4} and one.warnings == later.warnings
    remove()
    remove()
    last = propose(lab, call(a=5, b=6))
    assert states(told, last.id) == []


def test_what_has_not_changed_is_not_told_again_and_what_is_read_is_told_when_it_was(
    lab: Lab, adding: Adding
) -> None:
    told: list[mew_lab.Proposal] = []
    lab.on_proposal(told.append)
    card = propose(lab, call(a=1, b=2))
    lab.loop.call(lambda: lab.decisions.queue.put(card))
    large = propose(lab, call(a="x" * 300_000, b=[1] * 20_000))
    assert [(one.id, one.state, bool(one.digest)) for one in told] == [
        (card.id, "open", True),
        (large.id, "open", True),
    ]
    lab.loop.call(lambda: lab.decisions.queue.put(dataclasses.replace(card, warnings=("new",))))
    assert (told[-1].id, told[-1].warnings) == (card.id, ("new",))


def test_what_it_gets_cannot_be_changed_and_changes_nothing(lab: Lab, adding: Adding) -> None:
    told: list[mew_lab.Proposal] = []
    lab.on_proposal(told.append)
    hostile = {"a": 1, "b": {"deep": [{"x": "\u202e\x1b[2J"}]}, "__class__": "x", "": [[]] * 50}
    card = propose(lab, call(**hostile))
    [one] = told
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.id = "another"  # type: ignore[misc]
    for change in (
        lambda: one.arguments.update(a=2),  # type: ignore[attr-defined]
        lambda: one.arguments["b"].update(deep=[]),
        lambda: one.arguments["b"]["deep"].append(1),
    ):
        with pytest.raises(AttributeError):
            change()
    with pytest.raises(TypeError):
        one.arguments["a"] = 2  # type: ignore[index]
    assert one.arguments["b"]["deep"][0]["x"] == "\u202e\x1b[2J" and len(one.arguments[""]) == 50
    assert "\x1b" not in repr(one) and "\u202e" not in repr(one)
    assert card.digest == lab.decisions.card(card.id).digest


def test_one_that_raises_or_waits_holds_up_nobody(
    lab: Lab, adding: Adding, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []

    def stumbles(proposal: mew_lab.Proposal) -> None:
        raise RuntimeError("the beans \x1b[2J are gone")

    async def stumbles_later(proposal: mew_lab.Proposal) -> None:
        raise LookupError("no bed")

    async def waits(proposal: mew_lab.Proposal) -> None:
        await asyncio.Event().wait()

    for function in (stumbles, stumbles_later, waits, lambda proposal: told.append(proposal.state)):
        lab.on_proposal(function)
    card = propose(lab, call(a=1, b=2))
    approve(lab, card.id)
    eventually(lambda: told[-1:] == ["done"])
    messages = [record.getMessage() for record in caplog.records if record.name == "mew_lab.lab.proposals"]
    assert any(
        "stumbles failed with a proposal: RuntimeError: the beans \\x1b[2J are gone" in one
        or "stumbles failed with a proposal: RuntimeError: the beans \\u001b[2J are gone" in one
        for one in messages
    )
    assert any("stumbles_later failed with a proposal: LookupError: no bed" in one for one in messages)
    assert all(record.exc_info is None for record in caplog.records)
    assert "Traceback" not in "".join(capsys.readouterr()) and lab.faults == []


def test_one_that_holds_the_loop_is_named_in_the_log(
    lab: Lab, adding: Adding, caplog: pytest.LogCaptureFixture
) -> None:
    import time

    caplog.set_level(logging.WARNING, logger="mew_lab.lab.proposals")

    def dawdles(proposal: mew_lab.Proposal) -> None:
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            pass

    lab.on_proposal(dawdles)
    propose(lab, call(a=1, b=2))
    eventually(lambda: any("dawdles held the loop for" in record.getMessage() for record in caplog.records))


def test_a_coroutine_function_may_decide(lab: Lab, adding: Adding) -> None:
    async def decide(proposal: mew_lab.Proposal) -> None:
        if proposal.state == "open":
            await lab.reject(proposal.id, f"{proposal.tool} is not for today")

    lab.on_proposal(decide)
    card = propose(lab, call(a=1, b=2))
    done = eventually(lambda: [one for one in lab.decisions.decided() if one.id == card.id])
    assert (done[0].state, done[0].by) == ("rejected", "human")


def test_what_is_no_function_of_a_proposal_is_refused_with_a_sentence(lab: Lab) -> None:
    with pytest.raises(ConfigError, match="it is no function that takes a proposal"):
        lab.on_proposal("print")  # type: ignore[arg-type]
    with pytest.raises(MewError, match="it is called with 1 argument"):
        lab.on_proposal(lambda one, two: None)  # type: ignore[misc,arg-type]
    lab.down()
    with pytest.raises(MewError, match="is down"):
        lab.on_proposal(print)


def test_one_that_never_ends_is_told_no_more_beyond_a_limit(
    lab: Lab, adding: Adding, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mew_lab.lab.proposals.MAX_RUNNING", 3)
    begun: list[str] = []

    async def waits(proposal: mew_lab.Proposal) -> None:
        begun.append(proposal.id)
        await asyncio.Event().wait()

    lab.on_proposal(waits)
    for n in range(6):
        propose(lab, call(a=n, b=n))
    assert len(begun) == 3
    told = [one for one in caplog.records if "is not told of proposals any more" in one.getMessage()]
    assert len(told) == 1
