"""The moments view: the state of a space at each place of its log, by a slider."""

from __future__ import annotations

import random
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pytest
from pages import Page, picture

import mew_lab
from mew_lab.errors import NoSuchName
from mew_lab.lab.lab import Lab
from mew_lab.log.log import Log, open_log
from mew_lab.views.moments.model import LogPlaces
from mew_lab.views.moments.widget import MomentsView, view_of


@pytest.fixture
def log() -> Log:
    return open_log(str(files("mew_lab") / "data" / "garden.jsonl"))


def ask(page: Page, n: int, seq: Any, way: str = "", view: str = "v1") -> dict[str, Any]:
    page.send({"t": "at", "view": view, "n": n, "seq": seq, "way": way})
    [answer] = page.until(
        lambda: [
            one
            for kind in ("moment", "unfit")
            for one in page.of(kind)
            if (one["n"], one["view"]) == (n, view)
        ]
    )[-1:]
    return dict(answer)


def rows(answer: dict[str, Any], name: str) -> list[list[str]]:
    [table] = [table for table in answer["tables"] if table["name"] == name]
    return list(table["rows"])


def test_the_places_of_the_log_know_the_open_proposals_and_the_changes_of_its_moments(log: Log) -> None:
    places = LogPlaces(log)
    while not places.read(7):
        assert places.proposals(places.last + 1) is None
    moments = {seq: log.at(seq) for seq in range(places.last + 1)}
    for seq, moment in moments.items():
        found = places.proposals(seq)
        assert found is not None
        assert [one.id for one in found] == [one.id for one in moment.proposals], seq
    parts = ("members", "rights", "streams", "pauses", "connections")
    state = {
        seq: ([getattr(moment, part) for part in parts], [one.id for one in moment.proposals])
        for seq, moment in moments.items()
    }
    changed = [seq for seq in range(1, places.last + 1) if state[seq] != state[seq - 1]]
    assert set(changed) <= set(places.changes), "no change is left out"
    assert len(places.changes) < len(moments)
    assert places.changes == sorted(set(places.changes))


def test_a_place_shows_what_log_at_knows(browser: Callable[..., Page], log: Log) -> None:
    page = browser(MomentsView(log))
    page.appear()
    for n, seq in enumerate(random.Random(1).sample(range(90), 12)):
        answer, moment = ask(page, n, seq), log.at(seq)
        while answer["reading"]:
            answer = page.until(lambda: [one for one in page.of("moment") if not one["reading"]])[-1]
        assert (answer["seq"], answer["first"], answer["last"]) == (seq, 0, 89)
        assert [row[0] for row in rows(answer, "members")] == [one.participant for one in moment.members]
        assert [int(row[2]) for row in rows(answer, "members")] == [one.rights for one in moment.members]
        present = {one.participant for one in moment.connections}
        shown = {row[0] for row in rows(answer, "members") if row[1] in ("present", "paused")}
        assert shown == present & {one.participant for one in moment.members}
        given_first = sorted(moment.rights, key=lambda one: not one.grant)
        assert [row[:2] for row in rows(answer, "rights")] == [
            [one.participant, one.pattern] for one in given_first
        ]
        assert [row[0] for row in rows(answer, "proposals")] == [f"#{one.seq}" for one in moment.proposals]
        assert len(rows(answer, "streams")) == len(moment.streams)
        assert answer["what"]


def test_a_view_goes_from_change_to_change_and_to_the_ends(browser: Callable[..., Page], log: Log) -> None:
    page = browser(MomentsView(log))
    page.appear()
    assert ask(page, 1, None)["seq"] == 89
    page.until(lambda: not page.of("moment")[-1]["reading"])
    places = LogPlaces(log)
    while not places.read(100):
        pass
    at = places.changes[3]
    assert ask(page, 2, at, "next")["seq"] == places.changes[4]
    assert ask(page, 3, at, "previous")["seq"] == places.changes[2]
    assert ask(page, 4, -5)["seq"] == 0 and ask(page, 5, 10**9)["seq"] == 89
    assert ask(page, 6, 89, "next")["seq"] == 89 and ask(page, 7, 0, "previous")["seq"] == 0


def test_only_the_newest_request_of_a_view_is_answered(browser: Callable[..., Page], log: Log) -> None:
    view = MomentsView(log)
    page = browser(view)
    page.appear()
    ask(page, 0, 1)
    view.interval = 0.3  # what comes within it is one turn of the writer
    ask(page, 1, 2)
    for n in range(2, 40):
        page.send({"t": "at", "view": "v1", "n": n, "seq": n})
    page.send({"t": "at", "view": "v2", "n": 1, "seq": 5})
    page.until(lambda: [one for one in page.of("moment") if one["view"] == "v2"])
    page.until(lambda: [one for one in page.of("moment") if one["n"] == 39])
    assert len([one for one in page.of("moment") if one["view"] == "v1"]) < 15
    assert page.of("moment")[-1]["seq"] in (5, 39)


def test_a_log_without_a_state_says_so(browser: Callable[..., Page]) -> None:
    view = MomentsView(Log.live())
    page = browser(view)
    page.appear()
    answer = ask(page, 1, None)
    assert answer["t"] == "unfit" and len(answer["sentence"]) > 10, answer
    assert answer["sentence"] in picture(view)


def test_the_picture_has_the_moment_that_was_shown_last(browser: Callable[..., Page], log: Log) -> None:
    view = MomentsView(log)
    before = picture(view)
    assert "State behind #89" in before and "Participants: 5" in before and "<script" not in before
    page = browser(view)
    page.appear()
    ask(page, 1, 31)
    assert "State behind #31" in picture(view) and "Participants: 3" in picture(view)
    assert repr(view).startswith("State of garden behind #31")


def test_a_live_log_has_its_newest_moment_and_a_view_of_its_own(
    browser: Callable[..., Page], lab: Lab
) -> None:
    lab.join("bot", can="proposer")
    view = lab.log.view.moments
    assert lab.log.view.moments is view and dir(lab.log.view) == ["moments"]
    page = browser(view)
    page.appear()
    assert {row[0] for row in rows(ask(page, 1, None), "members")} >= {"human", "bot"}
    seat = lab.join("late", can="proposer")
    assert "late" in {row[0] for row in rows(ask(page, 2, None), "members")}
    seat.call("bot/x", {})
    page.until(lambda: rows(ask(page, 3 + len(page.of("moment")), None), "proposals"))
    with pytest.raises(NoSuchName, match="it has moments"):
        _ = lab.log.view.feed


def test_a_hostile_log_is_text(browser: Callable[..., Page]) -> None:
    lab = mew_lab.up("hostile", journal=None)
    try:
        lab.chat("<b>\u202e</b>\n\x00")
        page = browser(view_of(lab.log))
        page.appear()
        sent = lab.log.df.seq.iloc[-1]
        assert "\\u202e" in ask(page, 1, int(sent))["what"]
    finally:
        lab.down()
