"""Whichever way a person or a policy approves in a lab, the journal has its receipt, and what goes around it has none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mew_lab.cli.join import obey
from mew_lab.errors import MewError, NotApproved
from mew_lab.lab.decisions.policies import Policy
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect
from mew_lab.log.log import open_log
from mew_lab.log.receipts import CheckedRequest
from mew_lab.sdk.tools import RpcError

from .looking import approve, eventually

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
    lab: Lab, adding: Adding, tmp_path: Path, at_a_prompt: None
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
        assert (one.proposal, one.receipt.note.how, found.without) == (pending.id, "typed", ())
    found = eventually(lambda: reported(lab))
    [one] = found
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


@pytest.fixture
def at_a_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel replaces `input`: there a person may type."""
    monkeypatch.setattr("builtins.input", lambda prompt="": "")


def test_what_a_person_typed_and_what_a_program_ran_are_told_apart(
    lab: Lab, adding: Adding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("sys.ps1", raising=False)  # a shell of another test sets it
    bot = lab.join("bot")
    for how in ("script", "typed"):
        if how == "typed":
            monkeypatch.setattr("builtins.input", lambda prompt="": "")
        for decision in ("approve", "reject"):
            pending = bot.call("notebook/add", a=1, b=2)
            eventually(lambda id=pending.id: [one for one in lab.decisions.pending() if one.id == id])
            if decision == "approve":
                approve(lab, pending.id)
                pending.result(10)
            else:
                lab.reject(pending.id)
            rows = eventually(lambda id=pending.id: rows_of(lab, id))
            row = rows[-1]
            assert (row["how"], row["teaches"]) == (how, how == "typed"), (decision, row["teaches_not"])
            assert row["participant"] == "bot" and row["target"] == "notebook"
    digests = {row["tool_hash"] for row in rows_of(lab)}
    assert len(digests) == 1 and digests != {""}, "the receipt states the tool that the card showed"
    assert lab.log.verify().consents.without == ()


def rows_of(lab: Lab, proposal: str = "") -> list[dict[str, Any]]:
    found = [row for row in lab.log.decisions().to_dict("records") if row["decided_by"]]
    return [row for row in found if not proposal or row["proposal"] == proposal]


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
    assert (one.receipt.note.how, one.receipt.note.digest, one.receipt.decider) == (
        "script",
        "",
        "a script of human",
    )
    assert lab.log.verify().ok
    row = lab.log.decisions().iloc[-1]
    assert (row["how"], row["receipt"]) == ("script", "reported")


@pytest.mark.ruling("R42")
@pytest.mark.parametrize("way", ["click", "typed", "script", "policy", "terminal"])
def test_a_rejection_that_is_made_elsewhere_is_reported_with_the_way_it_was_made(
    lab: Lab, adding: Adding, way: str, at_a_prompt: None
) -> None:
    far = connect(lab.url, space=lab.space, token_file=lab.token_file(), as_id="human-2", name="far")
    if way == "policy":
        far.decide = Policy.deny("not on Sundays")
    pending = lab.join("bot").call("notebook/add", a=1, b=2)
    eventually(lambda: far.me.participant.proposals.get(pending.id))
    if way == "click":
        card = eventually(lambda: [one for one in far.decisions.pending() if one.id == pending.id])[0]
        far.decisions.record_shown(pending.id, view="v1", digest=card.digest)
        press = far.decisions.click("v1")
        far.decisions.decide(pending.id, digest=card.digest, decision="reject", click=press).result(10)
    elif way == "typed":
        far.reject(pending.id)
    elif way == "terminal":
        assert "Rejected" in obey(far, f"/reject {pending.id} no")
    elif way == "script":
        far.me.run(far.me.participant.reject(pending.id))

    def decided() -> list[Any]:
        rows = lab.log.decisions()
        return list(rows[rows["receipt"] == "reported"].itertuples())

    [row] = eventually(decided)
    assert (row.proposal, row.how) == (pending.id, "typed" if way == "terminal" else way)
    assert (row.digest != "") == (way in ("click", "policy"))
    assert far.faults == [] and lab.log.verify().ok


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


# --- what became of a call of unknown outcome ---


def open_shop(lab: Lab) -> None:
    """A participant that answers each call with the error that says that nobody knows whether it took effect."""

    def answer(params: Any) -> Any:
        raise RpcError(-32001, "the server ended", data={"code": "outcome_unknown"})

    shop = lab.join("shop", can=[{"kind": "mcp/response"}])
    lab.loop.call(lambda: shop.participant.register_method("tools/call", answer))


def lose(lab: Lab) -> str:
    """A call of the human whose outcome is unknown; returns the id of the request."""
    sent = lab.me.send("mcp/request", {"jsonrpc": "2.0", "id": 1, **CALL}, to="shop").id
    eventually(lambda: state_of(lab, sent) == "unknown")
    return str(sent)


def state_of(lab: Lab, id: str) -> str:
    call = lab.me.participant.ledger.calls.requests.get(id)
    return "" if call is None else call.state


@pytest.mark.ruling("R42", "R35")
@pytest.mark.parametrize("happened", [True, False])
def test_what_a_person_found_out_about_an_unknown_call_is_on_record_in_its_name(
    lab: Lab, adding: Adding, happened: bool, tmp_path: Path
) -> None:
    open_shop(lab)
    id = lose(lab)
    told = str(lab.resolve(id, happened=happened, note="the invoice is there"))
    assert told == f"Recorded in your name, human: it {'happened' if happened else 'did not happen'}"
    eventually(lambda: state_of(lab, id) == "resolved")
    found = lab.me.participant.ledger.calls.requests.get(id)
    assert found.resolution[:] == (happened, "human", "the invoice is there")
    lab.save(tmp_path / "saved.jsonl")
    for log in (lab.log, open_log(tmp_path / "saved.jsonl")):
        rows = log.requests().set_index("id")
        words = "happened" if happened else "did not happen"
        assert (rows.loc[id]["state"], rows.loc[id]["resolution"]) == (
            "resolved",
            f"{words} (human: the invoice is there)",
        )
        assert len(log.filter("state == resolved").df) == 1
    [record] = [one for one in lab.log.records if one.event == "reported"]
    assert (record.participant, record.via) == ("human", "memory")
    again = lab.resolve(id, happened=not happened)
    assert "Recorded" in str(again)


@pytest.mark.ruling("R42", "R35")
def test_what_a_person_in_a_lab_elsewhere_found_out_reaches_the_gateway_and_its_lab(
    lab: Lab, adding: Adding
) -> None:
    open_shop(lab)
    id = lose(lab)
    far = connect(lab.url, space=lab.space, token_file=lab.token_file(), as_id="human-2", name="far")
    other = {**CALL, "params": {"name": "add", "arguments": {"a": 9, "b": 9}}}
    sent = far.me.send("mcp/request", {"jsonrpc": "2.0", "id": 2, **other}, to="shop").id
    eventually(lambda: state_of(far, sent) == "unknown")
    far.resolve(sent, happened=False)
    eventually(lambda: state_of(lab, sent) == "resolved" and state_of(far, sent) == "resolved")
    assert (state_of(lab, id), lab.log.verify().ok) == ("unknown", True)


@pytest.mark.ruling("R42", "R35")
def test_a_call_whose_outcome_is_known_is_not_resolved(lab: Lab, adding: Adding) -> None:
    done = lab.me.call("notebook/add", a=1, b=2)
    assert str(done.result(10)) == "3"
    with pytest.raises(MewError, match="it is answered; only a call of unknown outcome is resolved"):
        lab.resolve(done.id, happened=True)
    with pytest.raises(MewError, match="no call with this id is known here"):
        lab.resolve("nothing", happened=True)
    pending = lab.join("bot").call("notebook/add", a=1, b=2)
    eventually(lambda: lab.me.participant.proposals.get(pending.id))
    for name in (pending.id, pending.id[:8]):
        with pytest.raises(MewError, match="a proposal that nobody approved, so nothing was sent"):
            lab.resolve(name, happened=True)


@pytest.mark.ruling("R37")
def test_each_verb_takes_the_beginning_of_the_id_of_a_proposal(lab: Lab, adding: Adding) -> None:
    open_shop(lab)
    bot = lab.join("bot")
    lost, again, wrong, done, _ = ids = [f"{word}-abc" for word in ("lost", "again", "wrong", "done", "twin")]
    for id in (*ids, "twin-xyz"):
        to = ["shop" if id == lost else "notebook"]
        bot.run(bot.participant.send_accepted({"kind": "mcp/proposal", "id": id, "to": to, "payload": CALL}))
    eventually(lambda: len(lab.decisions.pending()) == 6)
    for id in (lost, done):
        with pytest.raises(NotApproved):  # it shows the card
            lab.approve(id[:4])
        lab.approve(id[:4])
    lab.reject(wrong[:4])
    lab.withdraw(again[:4])
    eventually(
        lambda: (found := lab.me.participant.proposals.get(lost)) is not None and found.state == "unknown"
    )
    eventually(lambda: "mcp/response" in str(lab.log.follow(done)))
    assert "Recorded" in str(lab.resolve(lost[:4], happened=False))
    for find in (lab.log.follow, lab.log.audit, lambda id: lab.view.timeline.select(id), lab.log.select):
        assert str(find(done[:4])) == str(find(done))
    assert done in lab.log.select(done[:4]).to_jsonl() and wrong not in lab.log.select(done[:4]).to_jsonl()
    for verb in (
        lab.log.follow, lab.log.audit, lab.log.select, lab.withdraw, lab.approve, lab.reject,
        lambda id: lab.view.timeline.select(id), lambda id: lab.resolve(id, happened=True),
    ):  # fmt: skip
        with pytest.raises(MewError, match=r"twin-abc, twin-xyz|begin"):
            verb("twin")


@pytest.mark.ruling("R37", "R42")
def test_a_peer_that_begins_its_id_alike_is_taken_for_no_call_of_the_person(lab: Lab, adding: Adding) -> None:
    open_shop(lab)
    id, bot = lose(lab), lab.join("bot").participant
    draft = {"id": f"{id[:4]}-bot", "kind": "mcp/proposal", "to": ["shop"], "payload": CALL}

    async def propose() -> None:
        await bot.send_accepted(draft)
        await lab.me.participant.approve(f"{id[:4]}-bot", despite="unknown")

    lab.me.run(propose())
    calls = lab.me.participant.ledger.calls
    eventually(lambda: (one := calls.proposals.get(f"{id[:4]}-bot")) and one.state == "unknown")
    for ask in (lambda: lab.resolve(id[:4], happened=True), lambda: lab.load(id[:4])):
        with pytest.raises(MewError, match="2 begin so"):
            ask()
    assert "resolved" not in {one.state for one in (*calls.requests, *calls.proposals)}
    lab.resolve(id[:8], happened=True)
    eventually(lambda: state_of(lab, id) == "resolved")
