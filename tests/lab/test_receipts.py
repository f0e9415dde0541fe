"""Whichever way a person or a policy approves in a lab, the journal has its receipt, and what goes around it has none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from looking import approve, eventually

from mew_lab.lab.decisions.policies import Policy
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect
from mew_lab.log.log import open_log
from mew_lab.log.receipts import CheckedRequest

Adding = Callable[[int, int], Any]
CALL = {"method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}}


def click(lab: Lab, id: str, digest: str) -> None:
    lab.decisions.record_shown(id, view="v1", digest=digest)
    press = lab.decisions.click("v1")
    lab.decisions.decide(id, digest=digest, decision="approve", click=press).result(10)


@pytest.mark.ruling("R29")
def test_each_way_to_approve_leaves_a_receipt(lab: Lab, adding: Adding) -> None:
    bot = lab.join("bot")
    typed = bot.call("notebook/add", a=1, b=2)
    approve(lab, typed.id)
    clicked = bot.call("notebook/add", a=2, b=2)
    card = eventually(lambda: [one for one in lab.decisions.pending() if one.id == clicked.id])[0]
    click(lab, clicked.id, card.digest)
    edited = bot.call("notebook/add", a=3, b=2)
    eventually(lambda: [one for one in lab.decisions.pending() if one.id == edited.id])
    changes = [{"index": 1, "json": "40"}]
    review = lab.loop.call(lambda: lab.decisions.editing.review(edited.id, changes))
    click(lab, edited.id, review.digest)
    nobody = bot.send("mcp/proposal", CALL).id
    eventually(lambda: [one for one in lab.decisions.pending() if one.id == nobody])
    approve(lab, nobody, to="notebook")
    lab.decide = Policy.approve()
    judged = bot.call("notebook/add", a=5, b=2)
    results = [str(one.result(10)) for one in (typed, clicked, edited, judged)]
    assert results == ["3", "4", "43", "7"]
    found = lab.log.verify()
    assert (found.consents.requests, found.consents.without) == (5, ())
    assert found.ok, str(found)


@pytest.mark.ruling("R29")
def test_a_request_that_is_sent_around_the_card_has_none(lab: Lab, adding: Adding) -> None:
    bot = lab.join("bot")
    pending = bot.call("notebook/add", a=1, b=2)
    eventually(lambda: [one for one in lab.decisions.pending() if one.id == pending.id])
    payload = {**CALL, "params": {"name": "add", "arguments": {"a": 1, "b": 2000}}}
    around = lab.me.send("mcp/request", payload, to="notebook", correlation_id=pending.id)
    [one] = lab.log.verify().consents.without
    assert (one.id, one.sender, one.proposal, one.why) == (
        around.id,
        "human",
        pending.id,
        "it has no receipt",
    )


@pytest.mark.ruling("R29")
def test_a_request_into_a_space_elsewhere_has_its_receipt_in_the_log_of_the_lab_that_decided(
    lab: Lab, adding: Adding, tmp_path: Path
) -> None:
    """The human sits in another lab, under another id; the gateway's journal has the request, and its report."""
    far = connect(lab.url, space=lab.space, token_file=lab.token_file(), as_id="human-2", name="far")
    bot = lab.join("bot")
    pending = bot.call("notebook/add", a=1, b=2)
    eventually(lambda: [one for one in far.decisions.pending() if one.id == pending.id])
    approve(far, pending.id)
    assert str(pending.result(10)) == "3"
    eventually(lambda: far.log.verify().consents.consented)
    far.save(tmp_path / "far.jsonl")
    for log in (far.log, open_log(tmp_path / "far.jsonl")):
        found = log.verify().consents
        [one] = found.consented
        assert one.receipt is not None
        assert (one.proposal, one.receipt.note.how, found.without) == (pending.id, "typed", ())
    found = eventually(lambda: reported(lab))
    [one] = found
    assert one.receipt is not None
    note = one.receipt.note
    assert (one.proposal, one.sender, note.how, note.by, note.on_screen) == (
        pending.id,
        "human",
        "typed",
        "human",
        None,
    )
    assert lab.log.verify().ok


def reported(lab: Lab) -> tuple[CheckedRequest, ...]:
    return lab.log.verify().consents.reported


@pytest.mark.ruling("R42")
@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_an_approval_by_a_script_is_reported_as_one(lab: Lab, adding: Adding, where: str) -> None:
    """A program that approves by `MEWParticipant.approve`, in this process or over a WebSocket."""
    seat = (
        lab.me
        if where == "here"
        else connect(lab.url, space=lab.space, token_file=lab.token_file(), as_id="human-2", name="far").me
    )
    pending = lab.join("bot").call("notebook/add", a=1, b=2)
    eventually(lambda: seat.participant.proposals.get(pending.id))
    seat.run(seat.participant.approve(pending.id))
    assert str(pending.result(10)) == "3"
    [one] = eventually(lambda: reported(lab))
    assert one.receipt is not None
    assert (one.receipt.note.how, one.receipt.note.digest, one.receipt.decider) == (
        "script",
        "",
        "a script of human",
    )
    assert lab.log.verify().ok
    row = lab.log.decisions().iloc[-1]
    assert (row["how"], row["receipt"]) == ("script", "reported")


@pytest.mark.ruling("R42")
def test_at_a_gateway_that_takes_no_notes_an_approval_is_as_before(
    lab: Lab, adding: Adding, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = connect(lab.url, space=lab.space, token_file=lab.token_file(), as_id="human-2", name="far")
    far.loop.call(lambda: setattr(far.me.participant.client, "extension", {}))
    pending = lab.join("bot").call("notebook/add", a=1, b=2)
    eventually(lambda: [one for one in far.decisions.pending() if one.id == pending.id])
    approve(far, pending.id)
    assert str(pending.result(10)) == "3"
    [one] = lab.log.verify().consents.elsewhere
    assert (one.proposal, one.sender, far.faults) == (pending.id, "human", [])
    assert lab.log.verify().ok
