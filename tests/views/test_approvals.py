from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pages import picture
from seat import Seat

from mew_lab.lab.decisions.cards import folded, lines_of
from mew_lab.ledger.options import PermissionOption, PermissionRequest
from mew_lab.protocol.visible import visible
from mew_lab.views.approvals.widget import KEPT, ApprovalsView


class Human:
    """A view on a page and the messages that it sends."""

    def __init__(self, browser: Callable[..., Any], **seat: Any) -> None:
        self.seat = Seat(**seat)
        self.seat.now = 0.0
        self.view = ApprovalsView(self.seat)
        self.page = browser(self.view)
        self.snapshot = self.page.appear()

    def message(self, proposal: str = "proposal-1", **changes: Any) -> dict[str, Any]:
        card = self.seat.cards.get(proposal)
        message = {
            "t": "decide",
            "id": proposal,
            "digest": card.digest if card else "",
            "decision": "approve",
            "nonce": self.snapshot["nonce"],
            "view": "v1",
        }
        if card is not None:
            self.shows(self.page, card)
        return {name: value for name, value in (message | changes).items() if value is not None}

    def shows(self, page: Any, card: Any, *, seconds: float = 0.5) -> None:
        """The page has the card in sight for that long."""
        page.send({"t": "seen", "view": "v1", "id": card.id, "digest": card.digest})
        self.seat.now = (self.seat.now or 0.0) + seconds

    def notice(self) -> str:
        return str(self.page.until(lambda: self.page.of("notice"))[-1]["text"])


@pytest.fixture
def human(browser: Callable[..., Any]) -> Human:
    return Human(browser)


def test_an_approval_reaches_the_seat_once_with_the_digest_that_was_shown(human: Human) -> None:
    outcome = human.seat.propose()
    human.page.send(human.message())
    assert outcome.result(10) == "fulfilled"
    assert human.seat.fulfilled == [("proposal-1", "approve", "", ())]
    card = human.page.until(lambda: [i for i in human.page.of("card") if i["card"]["state"] == "fulfilled"])[
        0
    ]["card"]
    assert card["decision"].startswith("Approved by human (you)")
    assert card["arguments"] == []


@pytest.mark.ruling("R32")
def test_a_decided_card_that_a_rejection_alone_has_ended_is_shown_whole_and_approved_once_more(
    human: Human,
) -> None:
    human.seat.propose()
    card = human.seat.cards["proposal-1"]
    human.seat.put(replace(card, state="rejected", by="ada", outcome="unsafe", rejected="rejected by ada"))
    line = human.page.until(lambda: [i["card"] for i in human.page.of("card") if i["card"]["by"] == "ada"])[0]
    assert (line["state"], line["rejected"], line["arguments"]) == ("rejected", "rejected by ada", [])
    again = human.page.act("again", id="proposal-1", digest=card.digest)["value"]
    assert (again["state"], again["digest"]) == ("open", card.digest)
    assert [row["text"] for row in again["arguments"]] == ['"."']
    assert again["notices"] == [
        "rejected by ada; a second press of its button, “Approve all the same”, runs it despite that"
    ]
    human.page.send(human.message())
    assert "not approved, because it was rejected already by ada (unsafe)" in human.notice()
    human.page.send(human.message(decision="reject", despite="rejected"))
    human.page.until(lambda: len(human.page.of("notice")) == 2)
    assert "changed nothing" in human.notice() and human.seat.fulfilled == []
    human.page.send(human.message(despite="rejected"))
    assert human.seat.outcomes["proposal-1"].result(10) == "fulfilled"
    assert human.seat.despite == [("rejected",)]
    human.page.send(human.message(despite="rejected"))
    human.page.until(lambda: len(human.page.of("notice")) == 3)
    assert "fulfilled already by human (you); this decision changed nothing" in human.notice()
    assert len(human.seat.fulfilled) == 1


ALLOW = PermissionOption("yes", "Allow", "allow_once")


@pytest.mark.ruling("R41")
def test_an_option_is_chosen_for_one_card_alone_and_with_no_rejection(human: Human) -> None:
    human.seat.propose()
    card = replace(human.seat.cards["proposal-1"], permission=PermissionRequest("Write?", (ALLOW,)))
    human.seat.put(card)
    human.page.send(human.message(decision="reject", option="yes"))
    assert human.notice().startswith("A rejection has no target and no option")
    done = human.page.act("decide_all", view="v1", cards=[["proposal-1", card.digest]], decision="approve")
    assert done["t"] == "failed" and "agent asks for permission: Write? is decided by itself" in done["said"]
    for wrong in (5, None, ["yes"]):
        before = len(human.page.of("notice"))
        human.page.send(human.message() | {"option": wrong})
        human.page.until(lambda before=before: len(human.page.of("notice")) > before)
        assert human.notice() == "The view sent a malformed decision, so nothing was decided."
    assert human.seat.fulfilled == []
    human.page.send(human.message(option="yes"))
    assert human.seat.outcomes["proposal-1"].result(10) == "fulfilled" and human.seat.options == ["yes"]


@pytest.mark.ruling("R32")
@pytest.mark.parametrize("state", ["withdrawn", "rejected", "done", "unknown", "lapsed"])
def test_what_was_withdrawn_executed_or_forgotten_is_not_shown_again(human: Human, state: Any) -> None:
    human.seat.propose()
    card = human.seat.cards["proposal-1"]
    human.seat.put(replace(card, state=state, by="ada"))
    told = human.page.act("again", id="proposal-1", digest=card.digest)
    assert (told["t"], "can no longer be approved" in told["said"]) == ("failed", True)
    human.page.send(human.message(despite="rejected"))
    assert "changed nothing" in human.notice()
    assert human.seat.fulfilled == [] and human.seat.despite == []


@pytest.mark.req("P-3.3.2-1")
def test_a_rejection_takes_a_code_or_free_text(human: Human) -> None:
    human.seat.propose()
    human.seat.propose()
    human.page.send(human.message("proposal-1", decision="reject", reason="unsafe"))
    human.page.send(human.message("proposal-2", decision="reject", reason="not on a Friday"))
    assert human.seat.outcomes["proposal-2"].result(10) == "rejected"
    assert [entry[2] for entry in human.seat.fulfilled] == ["unsafe", "not on a Friday"]


def test_what_somebody_has_rejected_is_approved_only_by_a_press_that_says_so(human: Human) -> None:
    human.seat.propose(rejected="rejected by ada; still asked for")
    human.page.send(human.message())
    assert "not approved, because it was rejected by ada; still asked for" in human.notice()
    assert human.seat.fulfilled == []
    human.page.send(human.message(despite="rejected"))
    assert human.seat.outcomes["proposal-1"].result(10) == "fulfilled"
    assert human.seat.despite == [("rejected",)]


def test_the_twelve_standard_reasons_are_offered(human: Human) -> None:
    codes = [code for code, _ in human.snapshot["reasons"]]
    assert codes == [
        *("disagree", "inappropriate", "unsafe", "busy", "incapable", "policy"),
        *("duplicate", "invalid", "timeout", "resource_limit", "no_longer_needed", "other"),
    ]


@pytest.mark.threat(5, 14)
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"nonce": "0" * 32}, "does not belong to the running kernel"),
        ({"nonce": None}, "does not belong to the running kernel"),
        ({"nonce": 7}, "does not belong to the running kernel"),
        ({"nonce": "\ud800"}, "does not belong to the running kernel"),
        ({"digest": "0" * 64}, "what was shown is not what is proposed"),
        ({"digest": None}, "a malformed decision"),
        ({"id": "proposal-9"}, "That proposal is unknown"),
        ({"id": ["proposal-1"]}, "a malformed decision"),
        ({"arguments": {"repo_path": "/"}}, "a malformed decision"),
        ({"payload": {}}, "a malformed decision"),
        ({"decision": "Approve"}, "a malformed decision"),
        ({"decision": None}, "a malformed decision"),
        ({"decision": "reject", "reason": {"code": "unsafe"}}, "a malformed decision"),
        ({"despite": "unknown"}, "a malformed decision"),
        ({"despite": ["rejected"]}, "a malformed decision"),
        ({"target": "files"}, "it names its target itself"),
        ({"decision": "reject", "target": "files"}, "has no target"),
    ],
)
def test_a_message_that_is_not_the_shown_decision_is_refused_with_a_notice(
    human: Human, change: dict[str, Any], says: str
) -> None:
    human.seat.propose()
    human.page.send(human.message(**change))
    assert says in human.notice()
    assert human.seat.fulfilled == [] and list(human.view.faults) == []
    assert human.seat.cards["proposal-1"].is_open


@pytest.mark.threat(5)
def test_the_nonce_is_nowhere_but_in_the_message_to_a_live_view(
    human: Human, browser: Callable[..., Any]
) -> None:
    nonce = human.snapshot["nonce"]
    assert nonce not in repr(human.view.widget.get_state()) + repr(human.view) + picture(human.view)
    assert browser(ApprovalsView(Seat())).appear()["nonce"] != nonce


@pytest.mark.trap("T-3")
@pytest.mark.parametrize("where", ["main", "a subshell's thread", "a service thread"])
async def test_a_decision_is_taken_on_whatever_thread_it_arrives(human: Human, where: str) -> None:
    outcome = human.seat.propose()
    waiter = asyncio.wrap_future(outcome)

    def click() -> None:
        human.page.send(human.message())

    async def click_on_a_loop() -> None:
        click()

    if where == "main":
        click()
    elif where == "a subshell's thread":
        threading.Thread(target=lambda: asyncio.run(click_on_a_loop())).start()
    else:
        threading.Thread(target=click).start()
    assert await asyncio.wait_for(waiter, 10) == "fulfilled"
    assert list(human.view.faults) == []


@pytest.mark.trap("T-4")
@pytest.mark.threat(18)
def test_two_views_and_a_hundred_clicks_decide_once(human: Human, browser: Callable[..., Any]) -> None:
    other = browser(ApprovalsView(human.seat))
    human.seat.propose()
    card = human.seat.cards["proposal-1"]
    other.send({"t": "seen", "view": "v1", "id": card.id, "digest": card.digest})
    theirs = human.message(nonce=other.appear()["nonce"])
    ours = human.message()
    clicks = [lambda: human.page.send(ours), lambda: other.send(theirs)] * 50
    threads = [threading.Thread(target=click) for click in clicks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert human.seat.outcomes["proposal-1"].result(10) == "fulfilled"
    assert len(human.seat.fulfilled) == 1
    assert list(human.view.faults) == [] == list(other.view.faults)


@pytest.mark.trap("T-4")
def test_a_second_click_while_the_first_is_under_way_changes_nothing_and_says_so(human: Human) -> None:
    human.seat.propose()
    human.seat.hold.clear()
    human.page.send(human.message())
    human.page.send(human.message(decision="reject"))
    assert "under way" in human.notice()
    human.seat.hold.set()
    assert human.seat.outcomes["proposal-1"].result(10) == "fulfilled"


@pytest.mark.trap("T-4")
@pytest.mark.threat(19)
def test_a_click_after_the_withdrawal_sends_nothing_and_says_by_whom(human: Human) -> None:
    human.seat.propose()
    human.seat.withdraw("proposal-1")
    human.page.send(human.message())
    assert "withdrawn already by agent" in human.notice()
    assert human.seat.fulfilled == []


def test_a_decision_that_could_not_be_carried_out_can_be_tried_again(human: Human) -> None:
    human.seat.propose()
    human.seat.fail_with = RuntimeError("Cannot approve: git left the space.")
    human.page.send(human.message())
    assert human.notice() == "Cannot approve: git left the space."
    human.seat.fail_with = None
    human.page.send(human.message())
    assert human.seat.outcomes["proposal-1"].result(10) == "fulfilled"


def test_a_proposal_without_target_is_approved_with_one_that_exists(human: Human) -> None:
    human.seat.propose(to=())
    human.page.send(human.message())
    assert "choose one of the participants" in human.notice()
    human.page.send(human.message(target="nobody"))
    assert human.seat.fulfilled == []
    human.page.send(human.message(target="files"))
    assert human.seat.outcomes["proposal-1"].result(10) == "fulfilled"
    assert human.seat.fulfilled == [("proposal-1", "approve", "", ("files",))]


@pytest.mark.threat(16)
def test_a_folded_argument_must_have_been_opened_before_an_approval(human: Human) -> None:
    human.seat.propose(arguments={"path": "a", "content": "line\n" * 5000})
    card = human.page.until(lambda: human.page.of("card"))[0]["card"]
    assert card["arguments"][1]["folded"] == "5000 lines"
    human.page.send(human.message())
    assert human.notice().endswith(": not approved, because content was not opened; expand it first")
    human.page.send({"t": "value", "id": "proposal-1", "index": 1})
    text = human.page.until(lambda: human.page.of("value"))[0]["text"]
    assert json.loads(text.replace("\n", "\\n")) == "line\n" * 5000
    human.page.send(human.message())
    assert human.seat.outcomes["proposal-1"].result(10) == "fulfilled"


@pytest.mark.threat(12, 16)
def test_what_was_opened_of_a_proposal_is_not_opened_of_another_under_its_id(human: Human) -> None:
    human.seat.propose(arguments={"content": "line\n" * 5000})
    human.page.send({"t": "value", "id": "proposal-1", "index": 0})
    human.page.until(lambda: human.page.of("value"))
    human.seat.put(replace(human.seat.cards["proposal-1"], seq=2))
    human.page.send(human.message())
    assert human.notice().endswith(": not approved, because content was not opened; expand it first")


def test_a_rejection_needs_no_opening(human: Human) -> None:
    human.seat.propose(arguments={"content": "line\n" * 5000})
    human.page.send(human.message(decision="reject", reason="unsafe"))
    assert human.seat.outcomes["proposal-1"].result(10) == "rejected"


# Beyond U+FFFF an escape has eight digits, which JSON does not know; within it the lines can be read back.
BASIC = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=("Cs",)), max_size=200)


@pytest.mark.threat(16, 17)
@given(
    value=BASIC
    | st.lists(BASIC | st.integers(), max_size=20)
    | st.dictionaries(BASIC, st.lists(BASIC, max_size=3))
)
@example(value="\n")
@example(value="\n0")
@example(value="0\n")
@example(value="\\n\\\n\r\n")
@settings(deadline=None)
def test_the_lines_of_a_value_hold_all_of_it_and_nothing_unseen(value: Any) -> None:
    lines = lines_of(json.dumps(value, ensure_ascii=False))
    assert all(line == visible(line) for line in lines)
    # A line end in a text is a new line, and nothing else is.
    joint = "\\n" if isinstance(value, str) else ""
    assert json.loads(joint.join(lines)) == value


@pytest.mark.threat(17)
def test_what_cannot_be_seen_is_shown_as_an_escape_wherever_it_stands(human: Human) -> None:
    hidden = "a\u202eb\u200bc\U000e0041d\x1b[31m"
    human.seat.propose(
        hidden, {hidden: hidden}, proposer=hidden, to=(hidden,), warnings=(hidden,), why=hidden
    )
    card = human.page.until(lambda: human.page.of("card"))[0]["card"]
    shown = json.dumps(
        {name: value for name, value in card.items() if name not in ("id", "digest")}, ensure_ascii=False
    )
    assert not set(shown) & set("\u202e\u200b\U000e0041\x1b")
    assert card["proposer"] == "a\\u202eb\\u200bc\\U000e0041d\\u001b[31m"


def test_a_policy_in_force_and_new_members_are_told(human: Human) -> None:
    human.seat.policy = "Policy “reads” approves git_log."
    human.seat.names.append("late")
    human.seat.propose()
    head = human.page.until(lambda: human.page.of("head"))[-1]
    assert head["banner"] == "Policy “reads” approves git_log."
    assert ["late", "late"] in head["targets"]


def test_live_views_are_asked_to_ping_only_while_a_cell_waits(human: Human) -> None:
    assert human.snapshot["waiting"] is False
    with human.view.waiting():
        human.page.until(lambda: human.page.of("head") and human.page.of("head")[-1]["waiting"])
        human.page.send({"t": "ping", "view": "v1"})
        unheard = human.view.unheard_for()
        assert unheard is not None and unheard < 5
    human.page.until(lambda: not human.page.of("head")[-1]["waiting"])


def test_a_view_made_late_shows_what_was_decided_before(browser: Callable[..., Any]) -> None:
    seat = Seat()
    seat.propose()
    seat.withdraw("proposal-1")
    seat.propose()
    snapshot = browser(ApprovalsView(seat)).appear()
    assert [(card["id"], card["state"]) for card in snapshot["cards"]] == [
        ("proposal-1", "withdrawn"),
        ("proposal-2", "open"),
    ]


def test_decided_cards_are_forgotten_beyond_a_bound_and_open_ones_never(human: Human) -> None:
    human.seat.propose(id="the open one")
    for n in range(KEPT + 50):
        human.seat.propose(id=f"p{n}")
        human.seat.withdraw(f"p{n}")
    ids = kept(human)
    assert len(ids) == KEPT + 1
    assert "the open one" in ids and "p0" not in ids


def kept(human: Human) -> list[str]:
    """The cards that a page gets that looks now."""
    return [card["id"] for card in human.page.appear()["cards"]]


def told(human: Human, id: str) -> str:
    """What the views were told last of a card."""
    cards = [*human.snapshot["cards"], *(item["card"] for item in human.page.of("card"))]
    return next((str(card["state"]) for card in reversed(cards) if card["id"] == id), "")


def test_the_decision_about_the_oldest_is_told_though_as_many_as_are_kept_were_decided_before_it(
    human: Human,
) -> None:
    human.seat.propose(id="the old one")
    human.page.until(lambda: told(human, "the old one") == "open")
    for n in range(KEPT):
        human.seat.propose(id=f"p{n}")
        human.seat.withdraw(f"p{n}")
    human.seat.withdraw("the old one")
    human.page.until(lambda: told(human, "the old one") == "withdrawn")
    ids = kept(human)
    assert len(ids) == KEPT
    assert "the old one" in ids and "p0" not in ids


def test_no_card_stays_open_in_a_view_when_more_than_are_kept_are_decided_at_once(human: Human) -> None:
    names = [f"p{n}" for n in range(KEPT + 50)]
    for name in names:
        human.seat.propose(id=name)
    human.page.until(lambda: told(human, names[KEPT - 1]) == "open")
    human.view.interval = 0.5
    for name in names:
        human.seat.withdraw(name)
    human.page.until(lambda: all(told(human, name) == "withdrawn" for name in names[:KEPT]))
    human.page.until(lambda: len(kept(human)) == KEPT)


@pytest.mark.trap("T-15")
@pytest.mark.threat(3, 5)
def test_the_picture_shows_every_card_as_text_and_offers_nothing_to_press() -> None:
    hostile = "<img src=x onerror=alert(1)>"
    seat = Seat()
    view = ApprovalsView(seat, clock=lambda: datetime(2026, 11, 21, 14, 3, 22, tzinfo=UTC))
    seat.propose(hostile, {hostile: hostile}, proposer=hostile, to=(hostile,), warnings=(hostile,))
    seat.propose()
    seat.withdraw("proposal-2")
    html = picture(view)
    assert "Approvals: 1 open, 1 decided" in html
    assert hostile not in html and html.count("&lt;img src=x onerror=alert(1)&gt;") >= 5
    for word in ("<script", "<button", "<a ", "onclick", "href"):
        assert word not in html
    assert repr(view).startswith("Approvals: 1 open, 1 decided, first: <img")
    assert "Withdrawn by agent" in html


def test_an_empty_view_says_what_would_fill_it() -> None:
    assert "Nothing to approve" in picture(ApprovalsView(Seat()))


def test_closing_ends_the_subscription(human: Human) -> None:
    assert len(human.seat.subscribers) == 1
    human.view.close()
    assert human.seat.subscribers == []


def test_folding_is_by_lines_and_by_length(human: Human) -> None:
    human.seat.propose(
        arguments={"short": "x" * 400, "long": "x" * 600, "lines": "\n" * 7, "list": list(range(300))}
    )
    assert folded(human.seat.cards["proposal-1"].arguments) == {1, 2, 3}
