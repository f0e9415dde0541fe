"""What a click needs: a view that has shown the card for the arming time, and everything opened that was folded."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from looking import eventually, sent

from mew_lab.errors import NotApproved
from mew_lab.workbench.cards import Card
from mew_lab.workbench.decide import Policy
from mew_lab.workbench.gate import Gate
from mew_lab.workbench.lab import Lab
from mew_lab.workbench.labs import connect


@pytest.fixture(autouse=True)
def arming(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mew_lab.workbench.cards.ARMING", 0.5)


def card(**changes: Any) -> Card:
    fields: dict[str, Any] = {
        "id": "p", "seq": 1, "proposer": "bot", "to": ("git",), "method": "tools/call", "tool": "log",
        "arguments": (("/payload/params/arguments/n", "3"), ("/to", '["git"]')), "digest": "a" * 64, "since": 0.0,
    }  # fmt: skip
    return Card(**(fields | changes))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


# --- the gate alone -----------------------------------------------------------------------------------------------


@pytest.mark.threat(36)
@pytest.mark.ruling("R29")
@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_ruling_29_a_click_is_refused_before_the_arming_time_and_where_no_view_showed_the_card(
    decision: str,
) -> None:
    clock = Clock()
    gate = Gate(clock)
    with pytest.raises(NotApproved, match="no view has shown it yet") as caught:
        gate.check_click(card(), decision)
    assert caught.value.code == "never_seen"
    gate.seen("p")
    for passed in (0.0, 0.3, 0.499):
        clock.now = 100.0 + passed
        with pytest.raises(NotApproved, match=f"then {decision} it once more") as caught:
            gate.check_click(card(), decision)
        assert caught.value.code == "too_fast"
    clock.now = 100.5
    gate.seen("p")  # another view shows it: the first look counts
    assert gate.check_click(card(), decision) == 0.5
    gate.forget("p")
    with pytest.raises(NotApproved, match="no view"):
        gate.check_click(card(), decision)


@pytest.mark.threat(16, 36)
def test_threat_36_what_was_opened_counts_for_what_it_was_opened_of_alone() -> None:
    gate = Gate(Clock())
    rows = (("/payload/params/arguments/t", json.dumps("x" * 600)), ("/to", '["git"]'))
    long = card(arguments=rows)
    gate.opened("p", "b" * 64, 0)
    gate.opened("q", "a" * 64, 0)
    gate.opened("p", "a" * 64, 1)
    with pytest.raises(NotApproved, match="t was not opened") as caught:
        gate.check_rows(long, rows, long.digest)
    assert caught.value.code == "not_opened"
    gate.opened("p", "a" * 64, 0)
    gate.check_rows(long, rows, long.digest)
    gate.forget("p")
    gate.told(card(digest="c" * 64))
    with pytest.raises(NotApproved):
        gate.check_rows(long, rows, long.digest)
    gate.told(long)
    gate.check_rows(long, rows, long.digest)


def test_a_long_name_of_an_argument_and_many_addressees_are_folded_too() -> None:
    gate = Gate(Clock())
    for rows in (
        ((f"/payload/params/arguments/{'n' * 81}", "1"),),
        (("/to", json.dumps([f"r{n}" for n in range(30)])),),
        (("/payload/params/name", json.dumps("x" * 500)),),
    ):
        with pytest.raises(NotApproved, match="was not opened"):
            gate.check_rows(card(arguments=rows), rows, "a" * 64)


# --- in a lab -----------------------------------------------------------------------------------------------------


def notes(lab: Lab) -> list[dict[str, Any]]:
    return [json.loads(record.detail) for record in lab.log.held if record.event == "decided"]


def proposed(lab: Lab, **arguments: Any) -> Card:
    bot = lab.seats.get("bot") or lab.join("bot")
    pending = bot.call("notebook/add", arguments)
    return eventually(lambda: [one for one in lab.decisions.pending() if one.id == pending.id])[0]


@pytest.mark.threat(36)
@pytest.mark.ruling("R29")
def test_ruling_29_a_click_in_a_lab_waits_for_the_arming_time_and_its_note_says_how_long(
    lab: Lab, adding: Callable[..., Any]
) -> None:
    one = proposed(lab, a=1, b=2)

    def click() -> str:
        return lab.decisions.decide(one.id, digest=one.digest, decision="approve").result(10)

    with pytest.raises(NotApproved, match="no view has shown it yet"):
        click()
    lab.decisions.seen(one.id)
    with pytest.raises(NotApproved, match=r"look at it for 0\.5 s"):
        click()
    assert notes(lab) == [] == sent(lab, "mcp/request")
    shown = lab.decisions.gate.on_screen
    eventually(lambda: (shown(one.id) or 0.0) >= 0.5)
    assert click().startswith("approved: bot asks notebook to run add")
    [request] = sent(lab, "mcp/request")
    [note] = notes(lab)
    assert note.pop("on_screen") >= 500
    assert note == {
        "proposal": one.id,
        "decision": "approve",
        "by": "human",
        "digest": one.digest,
        "request": request["id"],
        "edited": False,
    }
    assert request["payload"]["id"] == request["id"] == one.request_id


@pytest.mark.ruling("R29")
def test_ruling_29_the_note_of_a_policy_holds_its_text_and_that_of_a_typed_approval_no_time(
    lab: Lab, adding: Callable[..., Any]
) -> None:
    one, two, three = (proposed(lab, a=1, b=n) for n in range(3))
    assert one.digest[:8] in str(lab.proposals())
    lab.approve(one.id, digest=one.digest[:9].upper())
    with pytest.raises(NotApproved):
        lab.approve(two.id)
    lab.approve(two.id)
    lab.decide = Policy("small", lambda card: None)
    lab.decide = Policy.approve()
    eventually(lambda: len(notes(lab)) == 3)
    typed = [
        (note["digest"], note.get("typed"), note.get("policy"), "on_screen" in note) for note in notes(lab)
    ]
    assert typed == [
        (one.digest, one.digest[:9], None, False),
        (two.digest, "yes", None, False),
        (three.digest, None, {"name": "approve", "text": "approves whatever is proposed"}, False),
    ]
    by_request = {request["id"]: request["correlation_id"][0] for request in sent(lab, "mcp/request")}
    assert [by_request[note["request"]] for note in notes(lab)] == [one.id, two.id, three.id]


@pytest.mark.ruling("R29")
def test_ruling_29_the_receipts_for_a_space_elsewhere_stand_in_the_labs_own_log(
    lab: Lab, adding: Callable[..., Any], tmp_path: Any
) -> None:
    other = connect(lab.url, space="demo", token_file=lab.token_file(), as_id="human-2", name="two")
    one = proposed(lab, a=1, b=2)
    card = eventually(lambda: [found for found in other.decisions.pending() if found.id == one.id])[0]
    assert card.digest == one.digest and card.participants == () and card.request_id != one.request_id
    other.approve(other.proposals()[0])
    [note] = notes(other)
    assert (note["typed"], note["request"]) == (card.digest[:8], card.request_id)
    other.save(tmp_path / "log.jsonl")
    assert card.request_id in (tmp_path / "log.jsonl").read_text()
    assert notes(lab) == []


@pytest.mark.threat(35)
def test_threat_35_a_card_whose_rows_do_not_say_the_request_is_approved_by_nobody(
    lab: Lab, adding: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mew_lab.workbench import faces

    whole = faces.rows_of
    monkeypatch.setattr(faces, "rows_of", lambda request: whole(request)[1:])
    one = proposed(lab, a=1, b=2)
    assert "not what would be sent" in one.refusal
    lab.decisions.seen(one.id)
    eventually(lambda: (lab.decisions.gate.on_screen(one.id) or 0.0) >= 0.5)
    for decide in (
        lambda: lab.decisions.decide(one.id, digest=one.digest, decision="approve").result(10),
        lambda: lab.approve(lab.proposals()[0]),
        lambda: lab.approve(one.id, digest=one.digest),
    ):
        with pytest.raises(NotApproved, match="cannot be approved, because what its rows say") as caught:
            decide()
        assert caught.value.code == "rows_mismatch"
    lab.decide = Policy.approve()
    lab.decide = None
    assert sent(lab, "mcp/request") == [] and lab.decisions.card(one.id).is_open
    lab.reject(one.id)


@pytest.mark.threat(36)
@pytest.mark.ruling("R29")
def test_ruling_29_an_edit_is_looked_at_for_the_arming_time_too(lab: Lab, adding: Callable[..., Any]) -> None:
    bot = lab.join("bot")
    bot.propose("notebook/add", a=1, b=0)
    [one] = eventually(lab.decisions.pending)
    clock = Clock()
    lab.decisions.gate._clock = clock
    lab.decisions.seen(one.id)
    clock.now += 60
    edit = lab.loop.call(lambda: lab.decisions.editing.review(one.id, [{"index": 0, "json": "2"}]))
    clock.now += 0.4

    def confirm() -> str:
        return lab.decisions.decide(one.id, digest=edit.digest, decision="approve").result(10)

    with pytest.raises(NotApproved) as caught:
        confirm()
    assert caught.value.code == "too_fast" and sent(lab, "mcp/request") == []
    lab.loop.call(
        lambda: lab.decisions.editing.review(one.id, [{"index": 0, "json": "2"}])
    )  # the first look counts
    clock.now += 0.2
    assert "edited" in confirm()
