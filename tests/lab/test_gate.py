"""What a click needs: a view that has shown the card for the arming time, and everything opened that was folded."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.errors import NotApproved
from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.gate import Gate
from mew_lab.lab.decisions.policies import Policy
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect

from .looking import call, eventually, propose, sent


@pytest.fixture(autouse=True)
def arming(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mew_lab.lab.decisions.cards.ARMING", 0.5)
    monkeypatch.setattr("mew_lab.lab.decisions.cards.MOST_READING", 15.0)


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


FACES = st.tuples(
    st.sampled_from(["v1", "v2"]), st.sampled_from(["p", "q"]), st.integers(1, 2), st.sampled_from(["d", "e"])
)
Face = tuple[str, str, int, str]


@pytest.mark.threat(30, 36)
@pytest.mark.ruling("R29")
@given(
    st.lists(st.tuples(FACES, st.floats(0, 1)), max_size=12), FACES, st.sampled_from(["approve", "reject"])
)
def test_ruling_29_a_click_counts_when_its_own_view_has_shown_just_this_digest_for_the_arming_time(
    told: list[tuple[Face, float]], clicked: Face, decision: str
) -> None:
    clock = Clock()
    gate = Gate(clock)
    first: dict[Face, float] = {}
    for face, pause in told:
        view, id, seq, digest = face
        gate.record_shown(card(id=id, seq=seq), view=view, digest=digest)
        first.setdefault(face, clock.now)
        clock.now += pause
    view, id, seq, digest = clicked
    click = gate.click(view)
    clock.now += 1000  # it is carried out much later: what counts is when it arrived
    wanted = click.at - first[clicked] if clicked in first else None

    def check() -> float:
        return gate.check_click(card(id=id, seq=seq), click, digest=digest, decision=decision)

    if wanted is not None and wanted >= 0.5:
        assert check() == wanted
        return
    with pytest.raises(NotApproved, match=f"then {decision} it once more") as caught:
        check()
    assert caught.value.code == ("never_seen" if wanted is None else "too_fast")


def test_a_click_that_no_view_made_decides_nothing_and_what_is_forgotten_was_not_shown() -> None:
    clock = Clock()
    gate = Gate(clock)
    gate.record_shown(card(), view="v", digest="d")
    clock.now += 1
    assert gate.on_screen(card()) == 1 and gate.on_screen(card(seq=2)) is None
    for click in (None, gate.click("")):
        with pytest.raises(NotApproved, match="has not shown it yet"):
            gate.check_click(card(), click, digest="d", decision="approve")
    gate.forget("p")
    with pytest.raises(NotApproved, match="has not shown it yet"):
        gate.check_click(card(), gate.click("v"), digest="d", decision="approve")
    assert gate.on_screen(card()) is None


@pytest.mark.threat(9)
def test_threat_09_of_each_proposal_a_bounded_number_of_faces_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mew_lab.lab.decisions.gate.MOST_FACES", 3)
    clock = Clock()
    gate = Gate(clock)
    for n in range(9):
        gate.record_shown(card(), view=f"v{n}", digest="d")
    clock.now += 1
    shown = [n for n in range(9) if _counts(gate, f"v{n}")]
    assert shown == [6, 7, 8]


def _counts(gate: Gate, view: str) -> bool:
    try:
        return gate.check_click(card(), gate.click(view), digest="d", decision="approve") > 0
    except NotApproved:
        return False


@pytest.mark.threat(16, 36)
def test_threat_36_what_was_opened_counts_for_what_it_was_opened_of_alone() -> None:
    gate = Gate(Clock())
    rows = (("/payload/params/arguments/t", json.dumps("x" * 600)), ("/to", '["git"]'))
    long = card(arguments=rows)
    gate.record_opened("p", "b" * 64, 0)
    gate.record_opened("q", "a" * 64, 0)
    gate.record_opened("p", "a" * 64, 1)
    with pytest.raises(NotApproved, match="t was not opened") as caught:
        gate.check_rows(long, rows, long.digest)
    assert caught.value.code == "not_opened"
    gate.record_opened("p", "a" * 64, 0)
    gate.check_rows(long, rows, long.digest)
    gate.forget("p")
    gate.record_whole(card(digest="c" * 64))
    with pytest.raises(NotApproved):
        gate.check_rows(long, rows, long.digest)
    gate.record_whole(long)
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


@pytest.mark.threat(36)
@pytest.mark.ruling("R29")
def test_ruling_29_a_click_in_a_lab_waits_for_the_arming_time_and_its_note_says_how_long(
    lab: Lab, adding: Callable[..., Any]
) -> None:
    one = propose(lab, call(a=1, b=2))

    def click(view: str = "v1") -> str:
        press = lab.decisions.click(view)
        why = lab.decisions.refusal(one.id, digest=one.digest, decision="approve", click=press)
        try:
            done = lab.decisions.decide(one.id, digest=one.digest, decision="approve", click=press).result(10)
        except NotApproved as refused:
            assert str(refused) == why
            raise
        assert why == ""
        return done

    with pytest.raises(NotApproved, match="has not shown it yet"):
        click()
    assert not lab.decisions.record_shown(one.id, view="v1", digest="0" * 64)
    assert not lab.decisions.record_shown("p-9", view="v1", digest=one.digest)
    assert lab.decisions.record_shown(one.id, view="v1", digest=one.digest)
    with pytest.raises(NotApproved, match=r"look at it for 0\.5 s"):
        click()
    on_screen = lab.decisions.gate.on_screen
    eventually(lambda: (on_screen(one) or 0.0) >= 0.5)
    with pytest.raises(NotApproved, match="has not shown it yet"):
        click("v2")
    lab.decisions.record_shown(one.id, view="v2", digest=one.digest)
    with pytest.raises(NotApproved, match=r"look at it for 0\.5 s"):
        click("v2")
    assert notes(lab) == [] == sent(lab, "mcp/request")
    assert click().startswith("Approved: bot asks notebook to run add")
    [request] = sent(lab, "mcp/request")
    [note] = notes(lab)
    assert note.pop("on_screen") >= 500
    assert re.fullmatch("[0-9a-f]{64}", note.pop("tool")["sha256"])
    assert note == {
        "proposal": one.id,
        "decision": "approve",
        "by": "human",
        "digest": one.digest,
        "request": request["id"],
        "edited": False,
    }
    assert request["payload"]["id"] == request["id"] == one.request_id


@pytest.mark.threat(30, 36)
@pytest.mark.ruling("R29")
def test_ruling_29_an_edit_is_clicked_where_the_edit_was_shown_and_the_proposal_where_that_was(
    lab: Lab, adding: Callable[..., Any]
) -> None:
    one = propose(lab, call(a=1, b=2))
    assert lab.decisions.rows(one.id, "0" * 64) is None is lab.decisions.rows("p-9", one.digest)
    edit = lab.loop.call(lambda: lab.decisions.editing.review(one.id, [{"index": 1, "json": "40"}]))
    assert dict(lab.decisions.rows(one.id, edit.digest) or ())["/payload/params/arguments/b"] == "40"
    lab.decisions.record_shown(one.id, view="v", digest=one.digest)
    eventually(lambda: (lab.decisions.gate.on_screen(one) or 0.0) >= 0.5)

    def click() -> str:
        press = lab.decisions.click("v")
        return lab.decisions.decide(one.id, digest=edit.digest, decision="approve", click=press).result(10)

    with pytest.raises(NotApproved, match="has not shown it yet"):
        click()
    assert lab.decisions.record_shown(one.id, view="v", digest=edit.digest)
    with pytest.raises(NotApproved, match="it was on screen for 0"):
        click()
    eventually(
        lambda: (
            not lab.decisions.refusal(
                one.id, digest=edit.digest, decision="approve", click=lab.decisions.click("v")
            )
        )
    )
    assert "edited" in click()
    [note] = notes(lab)
    assert note["digest"] == edit.digest and note["edited"] and note["on_screen"] >= 500


@pytest.mark.extension("decision_notes")
@pytest.mark.ruling("R29")
def test_ruling_29_the_note_of_a_policy_holds_its_text_and_that_of_a_typed_approval_no_time(
    lab: Lab, adding: Callable[..., Any]
) -> None:
    one, two, three = (propose(lab, call(a=1, b=n)) for n in range(3))
    assert one.digest[:8] in str(lab.proposals())
    lab.approve(one.id, digest=one.digest[:9].upper())
    with pytest.raises(NotApproved):
        lab.approve(two.id)
    lab.approve(two.id)
    lab.decide = Policy("small", lambda card: None)
    lab.decide = Policy.approve()
    eventually(lambda: len(notes(lab)) == len(sent(lab, "mcp/request")) == 3)  # noted, then sent
    typed = [
        (note["digest"], note.get("typed"), note.get("policy"), "on_screen" in note) for note in notes(lab)
    ]
    assert typed == [
        (one.digest, one.digest[:9], None, False),
        (two.digest, "yes", None, False),
        (three.digest, None, {"name": "approve", "text": "approves every proposal"}, False),
    ]
    by_request = {request["id"]: request["correlation_id"][0] for request in sent(lab, "mcp/request")}
    assert [by_request[note["request"]] for note in notes(lab)] == [one.id, two.id, three.id]


@pytest.mark.ruling("R29")
def test_ruling_29_the_receipts_for_a_space_elsewhere_stand_in_the_labs_own_log(
    lab: Lab, adding: Callable[..., Any], tmp_path: Any
) -> None:
    other = connect(lab.url, space="demo", token_file=lab.token_file(), as_id="human-2", name="two")
    one = propose(lab, call(a=1, b=2))
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
    from mew_lab.lab.decisions import cards

    whole = cards.read_rows

    def without_the_first(request: Any) -> Generator[None, None, Any]:
        return (yield from whole(request))[1:]

    monkeypatch.setattr(cards, "read_rows", without_the_first)
    one = propose(lab, call(a=1, b=2))
    assert "do not state the request that would be sent" in one.refusal
    lab.decisions.record_shown(one.id, view="v", digest=one.digest)
    eventually(lambda: (lab.decisions.gate.on_screen(one) or 0.0) >= 0.5)
    click = lab.decisions.click("v")
    for decide in (
        lambda: lab.decisions.decide(one.id, digest=one.digest, decision="approve", click=click).result(10),
        lambda: lab.approve(lab.proposals()[0]),
        lambda: lab.approve(one.id, digest=one.digest),
    ):
        with pytest.raises(NotApproved, match="cannot be approved, because its rows do not state") as caught:
            decide()
        assert caught.value.code == "rows_mismatch"
    lab.decide = Policy.approve()
    lab.decide = None
    assert sent(lab, "mcp/request") == [] and lab.decisions.card(one.id).is_open
    lab.reject(one.id)


# --- the time to read a further card ------------------------------------------------------------------------------


def writing(id: str, text: str, **changes: Any) -> Card:
    rows = (("/payload/params/arguments/content", json.dumps(text)),)
    return card(id=id, arguments=rows, digest=id * 64, **changes)


class Reader:
    """Shows cards in one view and decides them at given times."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.gate = Gate(self.clock)

    def show(self, *cards: Card) -> None:
        for one in cards:
            self.gate.record_shown(one, view="v", digest=one.digest)

    def left(self, one: Card) -> float:
        return self.gate.seconds_left(one, view="v", digest=one.digest)

    def decide(self, one: Card, decision: str = "approve") -> None:
        click = self.gate.click("v")
        self.gate.check_click(one, click, digest=one.digest, decision=decision)
        self.gate.record_decided(one, click)
        self.gate.forget(one.id)


@pytest.mark.threat(30)
def test_threat_30_a_further_card_waits_as_long_as_its_new_text_takes_to_read() -> None:
    it, one, two, long = Reader(), writing("a", "x" * 60), writing("b", "y" * 80), writing("c", "z" * 9000)
    it.show(one)
    assert it.left(one) == 0.5, "the first one is not slowed"
    it.clock.now += 0.5
    it.decide(one)
    it.show(two, long)
    line = len('content "') + 80 + len('"')
    assert it.left(two) == pytest.approx(1 + line / 40) and it.left(long) == 15
    it.clock.now += 1.5
    with pytest.raises(
        NotApproved, match=r"nobody reads it within 1\.50 s; approve it once more in 1\."
    ) as caught:
        it.decide(two)
    assert caught.value.code == "too_fast"
    it.decide(two, "reject")  # a rejection does not wait


@pytest.mark.threat(30)
def test_threat_30_text_that_the_card_before_had_counts_as_read_and_so_does_time_on_screen() -> None:
    it, first = Reader(), writing("a", "the same text " * 20)
    same, other, third = (
        writing("b", "the same text " * 20),
        writing("c", "another text " * 20),
        writing("d", "w" * 30),
    )
    it.show(first, same, other, third)
    it.clock.now += 0.5
    it.decide(first)
    assert it.left(same) == pytest.approx(1), "nothing new in it"
    assert it.left(other) > 6
    # Cards are read one after the other: who clicks blindly waits for each, who has read them for none.
    it.clock.now += 1
    it.decide(same)
    wait = it.left(other)
    it.clock.now += wait
    it.decide(other)
    assert it.left(third) > 1
    slow = Reader()
    slow.show(first, same, other, third)
    slow.clock.now += 60
    for one in (first, same, other, third):
        assert slow.left(one) == 0
        slow.decide(one)


@pytest.mark.threat(30)
def test_threat_30_one_click_decides_what_is_alike_and_an_edit_needs_no_second_reading() -> None:
    it, first = Reader(), writing("a", "x")
    alike = [writing(id, f"{id * 50}") for id in "bcd"]
    it.show(first, *alike)
    it.clock.now += 10
    it.decide(first)
    click = it.gate.click("v")
    for one in alike:
        it.gate.check_click(one, click, digest=one.digest, decision="approve")
    for one in alike:
        it.gate.check_click(one, click, digest=one.digest, decision="approve")
        it.gate.record_decided(one, click)
    edited = writing("e", "y" * 400)
    it.gate.record_shown(edited, view="v", digest="f" * 64)
    assert it.gate.seconds_left(edited, view="v", digest="f" * 64) == 0.5
