"""The roster sends rows that changed, does what a page with the nonce asks, and keeps tokens to itself."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pages import Page, picture

from mew_lab.lab.lab import Lab
from mew_lab.ledger.members import PauseFacts
from mew_lab.protocol.profiles import SEE
from mew_lab.views.roster.model import Activity, MemberRow, MemberStatus, RosterModel
from mew_lab.views.roster.widget import RosterView

HOSTILE = "<img src=x onerror=alert(1)>\u202e\x1b[31m"


@pytest.fixture
def lab(lab: Lab) -> Lab:
    lab.join("agent", can="agent")
    return lab


@pytest.fixture
def members(lab: Lab) -> RosterModel:
    return RosterModel(lab)


@pytest.fixture
def view(lab: Lab, members: RosterModel) -> RosterView:
    return RosterView(lab, members)


def crowd(view: RosterView, members: RosterModel, count: int, **more: Any) -> None:
    """Puts so many participants into the model."""
    status = MemberStatus(1.0, "active", 1, 2, 3, 4.0, ())
    base = MemberRow(
        name="p", you=False, what="elsewhere", presence="here", since=1.0, ids=(), sentence="may chat",
        patterns=('{"kind":"chat"}',), status=status, paused=None, against={},
    )  # fmt: skip
    members.rows = tuple(replace(base, name=f"p{n}", **more) for n in range(count))
    view.wake()


def shown(page: Page) -> dict[str, dict[str, Any]]:
    """The rows as the page would have them now, by name."""
    items = [item for item in page.items if item["t"] in ("snapshot", "rows")]
    return {row["id"]: row for item in items for row in item["rows"]}


def test_a_page_gets_everybody_and_then_what_changed(page: Page, lab: Lab) -> None:
    assert [row["id"] for row in page.snapshot["rows"]] == ["human", "agent"]
    assert page.snapshot["counts"] == [["here", 2]] or page.snapshot["counts"] == [("here", 2)]
    lab.join("helper")
    page.until(
        lambda: [name for name, row in shown(page).items() if row["since"]] == ["human", "agent", "helper"]
    )
    before = len(page.of("rows"))
    lab.chat("nothing that a roster shows")
    lab.join("reader", can="observer")
    page.until(lambda: "reader" in shown(page))
    sent = {row["id"] for item in page.of("rows")[before:] for row in item["rows"]}
    assert sent == {"reader"}


def test_a_status_goes_out_without_what_its_sender_may_do(page: Page, lab: Lab) -> None:
    page.until(lambda: shown(page).get("agent", {}).get("since"))
    before = len(page.of("rows"))
    payload = {"messages_in_context": 4, "tokens": 1200, "max_tokens": 8000, "status": "active"}
    lab.send("participant/status", payload, as_id="agent")
    page.until(lambda: page.of("told"))
    ((name, told, doing),) = page.of("told")[-1]["told"]
    assert doing == ["idle", 0.0, ""]
    assert (name, told["tokens"], told["usage"], told["near_limit"]) == ("agent", 1200, 0.15, False)
    assert len(page.of("rows")) == before


def test_a_click_pauses_and_the_sentence_comes_back(page: Page, lab: Lab) -> None:
    done = page.act("do", deed="pause", target="agent", timeout_seconds=30, reason="lunch")
    assert done["t"] == "done" and done["said"].startswith("agent is paused until")
    page.until(
        lambda: any(row["paused"] for item in page.of("rows") for row in item["rows"] if row["id"] == "agent")
    )
    (sent,) = [entry for entry in lab.log if entry.get("kind") == "participant/pause"]
    assert sent["payload"] == {"timeout_seconds": 30.0, "reason": "lunch"}


@pytest.mark.sampled
@pytest.mark.parametrize(
    "given",
    [
        {"deed": "dance", "target": "agent"},
        {"deed": "pause", "target": "nobody"},
        {"deed": "pause", "target": ["agent"]},
        {"deed": None, "target": "agent"},
        {"deed": "pause", "target": "agent", "timeout_seconds": "soon"},
        {"deed": "forget", "target": "agent", "entries": -1},
    ],
)
def test_what_is_no_choice_of_a_person_sends_nothing(page: Page, lab: Lab, given: dict[str, Any]) -> None:
    before = len(lab.log)
    assert page.act("do", **given)["t"] == "failed"
    assert len(lab.log) == before and not page.view.faults


@pytest.mark.threat(1)
def test_threat_01_a_token_goes_out_once_and_only_when_it_is_asked_for(page: Page, lab: Lab) -> None:
    assert page.act("invite", name="reviewer", can="observer")["t"] == "done"
    page.until(lambda: [item for item in page.of("head") if item["invited"]])
    view = page.view
    seen = json.dumps([page.batches, view.widget.get_state(), picture(view), repr(view)], default=str)
    id = page.of("head")[-1]["invited"][0]["id"]
    told = page.act("reveal", id=id)
    secret = told["value"]["token"]
    assert len(secret) >= 32 and secret not in told["said"] and secret not in seen
    again = page.act("reveal", id=id)
    assert again["t"] == "failed" and again["said"].startswith("The token was shown at ")
    assert again["value"] is None and secret not in json.dumps(page.appear("v2"))
    assert json.dumps(page.batches).count(secret) == 1
    assert secret not in json.dumps([view.widget.get_state(), picture(view), repr(view)], default=str)


def test_two_clicks_at_once_show_a_token_once(page: Page, lab: Lab) -> None:
    page.act("invite", name="reviewer", can="starter")
    id = page.until(lambda: page.of("head") and page.of("head")[-1]["invited"])[0]["id"]
    start = threading.Barrier(8)

    def click(job: int) -> None:
        start.wait()
        page.send(
            {"t": "act", "view": "v1", "job": job, "act": "reveal", "with": {"id": id}}
            | {"nonce": page.snapshot["nonce"]}
        )

    threads = [threading.Thread(target=click, args=(100 + n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    answers = page.until(
        lambda: len(every := [one for n in range(8) for one in page.ended(100 + n)]) == 8 and every
    )
    assert sorted(one["t"] for one in answers) == ["done", *["failed"] * 7]
    assert [bool(one["value"]) for one in answers if one["t"] == "done"] == [True]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": ""}, "Cannot invite a participant without an id"),
        ({"name": "x", "can": "patterns", "patterns": "{"}, "not JSON"),
        ({"name": "x", "can": "patterns", "patterns": "3"}, "a list such as"),
        (
            {"name": "x", "can": "patterns", "patterns": '[{"kind": "space/kick"}]'},
            "only the owner of a space",
        ),
        ({"name": "agent", "can": "starter"}, "already"),
        ({"name": "two words", "can": "starter"}, "invalid characters"),
    ],
)
def test_an_invitation_that_cannot_be_says_why(page: Page, given: dict[str, Any], said: str) -> None:
    failed = page.act("invite", **given)
    assert failed["t"] == "failed" and said in failed["said"]


@pytest.mark.parametrize("text", ["{", "3", '[{"kind": "chat", "paylod": {}}]'])
def test_an_own_list_that_is_no_pattern_is_not_sent_and_names_the_page_of_patterns(
    page: Page, lab: Lab, text: str
) -> None:
    failed = page.act("invite", name="x", can="patterns", patterns=text)
    assert failed["t"] == "failed" and failed["said"].endswith(SEE)
    assert "space/invite" not in set(lab.log.df["kind"])


def test_who_may_not_invite_sees_why_beforehand(page: Page, lab: Lab) -> None:
    assert page.snapshot["barred"] == ""
    assert page.snapshot["may"] == {"invite": True, "kick": True, "pause": True}
    lab.enrol("human", can="human")
    page.until(lambda: [item for item in page.of("head") if item["barred"]])
    assert page.of("head")[-1]["barred"] == "You don't have permission to invite people."
    assert page.of("head")[-1]["may"] == {"invite": False, "kick": False, "pause": True}


def test_one_click_pauses_all_agents_and_one_resumes_them(page: Page, lab: Lab) -> None:
    lab.join("git", can="tool")
    assert page.act("pause all")["said"] == "1 agent paused: agent"
    page.until(lambda: [item for item in page.of("head") if item["agents"] == [0, 1]])
    assert page.view.agents == ((), ("agent",))
    assert page.act("resume all")["said"] == "1 agent resumed: agent"
    page.until(lambda: page.of("head")[-1]["agents"] == [1, 0])


def test_a_state_goes_out_without_what_its_owner_may_do(page: Page, lab: Lab) -> None:
    page.until(lambda: shown(page).get("agent", {}).get("since"))
    before = len(page.of("rows"))
    lab.send("reasoning/start", {"message": "a plan"}, as_id="agent")
    page.until(lambda: page.of("told"))
    assert page.of("told")[-1]["told"][0][2][0] == "thinking"
    assert len(page.of("rows")) == before


def test_after_the_end_everybody_has_left_and_nothing_may_be_done(page: Page, lab: Lab) -> None:
    lab.down()
    page.until(lambda: [item for item in page.of("head") if item["counts"] == [("left", 2)]])
    assert page.of("head")[-1]["barred"] == "You are not connected to the space."
    failed = page.act("do", deed="pause", target="agent")
    assert failed["t"] == "failed" and not page.view.faults


def test_a_large_space_comes_in_pages(
    view: RosterView, members: RosterModel, browser: Callable[[Any], Any]
) -> None:
    crowd(view, members, 450)
    page = browser(view)
    page.appear()
    assert len(page.snapshot["rows"]) == 200 and page.snapshot["total"] == 450
    page.until(lambda: sum(len(item["rows"]) for item in page.of("rows")) == 450)
    assert max(len(item["rows"]) for item in page.of("rows")) == 200
    assert [row["id"] for row in page.act("more", after=400)["value"]] == [f"p{n}" for n in range(400, 450)]


def test_who_is_gone_is_left_out_first_where_not_all_can_be_shown(
    view: RosterView, members: RosterModel, browser: Callable[[Any], Any]
) -> None:
    crowd(view, members, 450)
    rows = members.rows
    members.rows = tuple(replace(row, presence="left") for row in rows[:300]) + rows[300:]
    page = browser(view)
    page.appear()
    here = [f"p{n}" for n in range(300, 450)]
    assert [row["id"] for row in page.snapshot["rows"]] == [*here, *(f"p{n}" for n in range(50))]
    assert [row["id"] for row in page.act("more", after=200)["value"]][:2] == ["p50", "p51"]
    assert "p449" in picture(view) and "p299" not in picture(view)


@pytest.mark.threat(3, 17)
def test_what_peers_write_leaves_the_kernel_as_visible_text(
    view: RosterView, members: RosterModel, browser: Callable[[Any], Any]
) -> None:
    crowd(
        view, members, 1, what=HOSTILE, patterns=(HOSTILE,), ids=(HOSTILE,),
        status=MemberStatus(1.0, "calm", 1, 2, 3, 4.0, ()), paused=PauseFacts(HOSTILE, "tea", 1.0, None),
        doing=Activity("failed", 1.0, HOSTILE),
    )  # fmt: skip
    sent = json.dumps(browser(view).appear()["rows"], ensure_ascii=False)
    assert "\u202e" not in sent and "\x1b" not in sent
    html = picture(view)
    assert "<img" not in html and "\u202e" not in html and "\\u202e" in html


def test_the_picture_says_when_it_was_and_how_many_are_left_out(
    view: RosterView, members: RosterModel
) -> None:
    crowd(view, members, 250)
    html = picture(view)
    assert "Participants of demo: " in html and "Not shown: 50 more participants" in html
    assert html.count("<tr>") == 201 and "<script" not in html and "<button" not in html
    assert repr(view) == "Participants of demo: 250, 0 connected"


def test_the_picture_of_an_empty_space_says_what_would_fill_it(
    view: RosterView, members: RosterModel
) -> None:
    members.rows = ()
    assert "lab.join(&quot;helper&quot;) adds one" in picture(view)
