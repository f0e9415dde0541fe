"""The view of rules tells what was decided and nothing of what waits, and adopts what a person has read, and no sooner."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pages import Page, picture, settle

from mew_lab.lab.labs import close_all
from mew_lab.views.rules.widget import view_of

from ..lab.looking import eventually
from ..lab.test_owned_rules import TEXT, Ruled

HOSTILE = "<img src=x onerror=alert(1)>\u202eevil\u200b\x1b[31m"


@pytest.fixture
def ruled(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Ruled]:
    """A lab whose person has approved two calls below docs/."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    monkeypatch.setattr("mew_lab.lab.decisions.cards.ARMING", 0.0)  # one test has a real one
    monkeypatch.setattr("mew_lab.lab.decisions.cards.MOST_READING", 0.0)
    yield Ruled()
    close_all()


@pytest.fixture
def page(ruled: Ruled, browser: Callable[[Any], Page]) -> Page:
    page = browser(view_of(ruled.lab))
    page.appear()
    page.until(lambda: page.appear()["ready"])
    return page


def rows(page: Page) -> list[dict[str, Any]]:
    """What a page that is loaded now gets."""
    told: list[dict[str, Any]] = page.appear()["rows"]
    return told


def written(page: Page, text: str = TEXT) -> str:
    """The SHA-256 of the rule that a sentence states, which the kernel has read."""
    told = page.act("check", text=text)["value"]
    assert "fault" not in told, told
    return str(told["rule"])


def read(page: Page, rule: str) -> dict[str, Any]:
    """The words of a rule, all of which were in sight."""
    words: dict[str, Any] = page.act("read", view="v1", rule=rule)["value"]
    page.act("in_sight", view="v1", rule=rule, digest=words["digest"])
    return words


def confirm(page: Page, rule: str, digest: str, step: str = "adopted") -> dict[str, Any]:
    return page.act("confirm", step=step, view="v1", rule=rule, digest=digest)


def adopt(page: Page, text: str = TEXT) -> str:
    rule = written(page, text)
    assert confirm(page, rule, read(page, rule)["digest"])["t"] == "done"
    page.until(lambda: any(row["key"] == rule and row["state"] == "active" for row in rows(page)))
    return rule


def test_a_suggestion_is_listed_with_its_evidence_and_is_tried(ruled: Ruled, page: Page) -> None:
    for n in range(14):
        ruled.click(ruled.propose(f"docs/t{n}.md"))
    ruled.click(ruled.propose("secrets/key"), "reject")
    [row] = page.until(lambda: rows(page))
    page.until(lambda: "16 of 16" in rows(page)[0]["about"])
    assert (row["number"], row["state"], row["why"]) == (1, "candidate", "")
    assert row["text"].startswith("When coder asks notebook to run read with path")
    evidence = page.act("evidence", rule=rows(page)[0]["key"])["value"]
    fulfilled = {
        one.seq for one in ruled.lab.log.decided_calls() if one.verdict == "approved"
    }  # as the log numbers them
    assert {one["seq"] for one in evidence["rows"]} == fulfilled and evidence["more"] == 0
    assert [one["seq"] for one in evidence["rows"]] == sorted(fulfilled, reverse=True)
    told = page.act("try", rule=rows(page)[0]["key"])
    assert told["said"] == "Rule 1 judges in silence from now on and approves nothing."
    page.until(lambda: rows(page)[0]["state"] == "shadow")
    assert page.act("stop", rule=rows(page)[0]["key"])["said"] == "Rule 1 judges no more."
    page.until(lambda: rows(page)[0]["state"] == "candidate")
    assert [one["what"] for one in ruled.notes("rule")] == ["tried", "stopped"]
    assert {one["how"] for one in ruled.notes("rule")} == {"click"}


def test_a_rule_is_adopted_only_after_its_words_were_in_sight(ruled: Ruled, page: Page) -> None:
    rule = written(page)
    words = page.act("read", view="v1", rule=rule)["value"]
    assert words["text"] == TEXT and "of 2 decisions it would have made" in words["tested"]
    for given_digest in (words["digest"], "0" * 64):
        failed = confirm(page, rule, given_digest)
        assert failed["t"] == "failed" and "has not shown all of its words yet" in failed["said"]
    page.act("in_sight", view="another", rule=rule, digest=words["digest"])
    page.act("in_sight", view="v1", rule=rule, digest="0" * 64)
    assert confirm(page, rule, words["digest"])["t"] == "failed"
    page.act("in_sight", view="v1", rule=rule, digest=words["digest"])
    assert confirm(page, rule, words["digest"])["said"] == "Rule 1 approves calls from now on."
    [noted] = ruled.notes("rule")
    assert (noted["what"], noted["how"], noted["rule"]["text"]) == ("adopted", "click", TEXT)
    assert confirm(page, rule, words["digest"])["t"] == "failed", "a press is worth one adoption"
    page.until(lambda: rows(page)[0]["state"] == "active")
    about = rows(page)[0]["about"]
    assert about.startswith("written by hand; adopted at ") and "0 calls approved since, 0 reviewed" in about
    assert "expires on " in about and about.endswith("or after 200 more calls")


def test_a_press_that_comes_before_the_arming_time_adopts_nothing(
    ruled: Ruled, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = written(page)
    words = read(page, rule)
    monkeypatch.setattr("mew_lab.lab.decisions.cards.ARMING", 60.0)
    failed = confirm(page, rule, words["digest"])
    assert failed["t"] == "failed" and "look at them for 60 s, then press once more" in failed["said"]
    assert not ruled.notes("rule")


def test_what_was_decided_meanwhile_has_to_be_read_and_stands_first(ruled: Ruled, page: Page) -> None:
    rule = written(page)
    words = read(page, rule)
    ruled.click(ruled.propose("docs/bad.md"), "reject")
    eventually(lambda: len(ruled.lab.log.decided_calls()) == 3)
    failed = confirm(page, rule, words["digest"])
    assert failed["t"] == "failed" and "its words have changed since" in failed["said"]
    assert not ruled.notes("rule")
    again = read(page, rule)
    first = again["past"][0]
    assert (first["against"], first["what"], first["values"]) == (
        True,
        "you rejected it",
        'path="docs/bad.md"',
    )
    assert not any(one["against"] for one in again["past"][1:])
    assert confirm(page, rule, again["digest"])["t"] == "done"


@pytest.mark.parametrize("state", ["shadow", "suspended", "paused"])
def test_a_call_that_waits_changes_nothing_in_the_view(ruled: Ruled, page: Page, state: str) -> None:
    """Rules that approve nothing judge as well, and choose reviews: a page must not get to know any of it."""
    if state == "shadow":
        page.act("try", rule=written(page))
    else:
        rule = adopt(page)
        if state == "suspended":
            page.act("stop", rule=rule)
        else:
            card = ruled.waiting()
            ruled.lab.loop.call(lambda: ruled.rules.take_rejection(card, "ben"))
    page.until(lambda: [row["state"] for row in rows(page)] == [state])
    settle(page)
    before, told = page.appear(), len(page.items)
    cards = [ruled.settled(ruled.propose(f"docs/w{n}.md")) for n in range(6)]
    assert all(card.is_open for card in cards)
    settle(page)
    assert len(page.items) == told
    moving = {"now", "view"}
    after = page.appear()
    assert {name for name in after if after[name] != before[name]} <= moving
    evidence = page.act("evidence", rule=rows(page)[0]["key"])["value"]
    words = page.act("read", view="v1", rule=rows(page)[0]["key"])["value"]
    assert "docs/w" not in json.dumps([evidence, words])


def test_an_active_rule_counts_what_was_decided_alone(ruled: Ruled, page: Page) -> None:
    rule = adopt(page)
    cards = [ruled.settled(ruled.propose(f"docs/{n}.md")) for n in range(9)]
    waiting = [card for card in cards if card.is_open]
    assert len(waiting) == 3
    page.until(lambda: "6 calls approved since, 0 reviewed" in rows(page)[0]["about"])
    told = page.act("evidence", rule=rule)["value"]["rows"]
    assert not any(card.arguments[0][1] in one["values"] for card in waiting for one in told)
    assert sum(one["what"] == "approved by rule" for one in told) == 6
    ruled.click(waiting[0])
    page.until(lambda: "6 calls approved since, 1 reviewed" in rows(page)[0]["about"])
    ruled.click(waiting[1], "reject")
    page.until(lambda: rows(page)[0]["state"] == "suspended")
    assert rows(page)[0]["why"] == "a call that it covers was rejected"
    assert page.act("evidence", rule=rule)["value"]["rows"][0]["what"] == "rejected"


def test_a_paused_rule_goes_on_after_its_owner_has_looked(ruled: Ruled, page: Page) -> None:
    rule = adopt(page)
    card = ruled.waiting()
    ruled.lab.loop.call(lambda: ruled.rules.take_rejection(card, "ben"))
    page.until(lambda: rows(page)[0]["state"] == "paused")
    assert rows(page)[0]["why"] == "ben decided otherwise on a call that it covers"
    assert confirm(page, rule, "0" * 64, "looked")["t"] == "failed"
    assert confirm(page, rule, read(page, rule)["digest"], "looked")["t"] == "done"
    page.until(lambda: rows(page)[0]["state"] == "active")
    assert page.act("stop", rule=rule)["said"].startswith("Rule 1 is stopped: such calls wait for you again.")
    page.until(lambda: rows(page)[0]["state"] == "suspended")


def test_a_sentence_is_read_while_it_is_written(ruled: Ruled, page: Page) -> None:
    for n in range(16):
        ruled.click(ruled.propose(f"docs/deep/t{n}.md"))
    base = page.until(lambda: rows(page))[0]["key"]
    half = page.act("check", text="When coder asks notebook to run read with path belo")
    assert half["t"] == "done" and half["value"]["fault"].startswith("this is no rule: ")
    narrow = page.act("check", text=TEXT.replace("docs/", "docs/deep/"), base=base)["value"]
    assert narrow["bound"] and "of 18 decisions" in narrow["tested"]
    other = page.act("check", text=TEXT.replace("coder", "ada"))["value"]
    assert other["remark"] == "no call of notebook/read by ada is in this log"
    unlisted = page.act("check", text=TEXT.replace("run read", "run write"))["value"]
    assert not unlisted["bound"]
    assert page.act("try", rule=unlisted["rule"])["t"] == "failed"
    adopt(page, TEXT.replace("docs/", "docs/deep/"))
    wide = page.act(
        "check", text=TEXT, base=next(row for row in rows(page) if row["state"] == "active")["key"]
    )
    assert wide["value"]["beyond"] == "2 decisions"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.text(max_size=80),
        st.lists(st.sampled_from([*TEXT.split(), '"', "\u202e", "..", "any text", "or", ","])).map(" ".join),
    )
)
def test_no_sentence_does_anything_but_state_a_rule_or_a_fault(ruled: Ruled, page: Page, text: str) -> None:
    records = len(ruled.lab.log)
    told = page.act("check", text=text)
    assert told["t"] == "done" and not page.view.faults
    value = told["value"]
    shown = value["fault"] if "fault" in value else value["text"]
    assert shown and not {"\u202e", "\x1b", "\n"} & set(shown)
    assert "fault" in value or text.lstrip().startswith("When ")
    assert len(ruled.lab.log) == records and rows(page) == []


def test_hostile_values_are_visible_text_and_a_rule_that_is_none_does_nothing(
    ruled: Ruled, page: Page
) -> None:
    text = f"When coder asks notebook to run read with path {json.dumps(HOSTILE)}, and nothing else: approve"
    ruled.click(ruled.propose(HOSTILE))
    page.act("try", rule=written(page, text))
    [row] = page.until(lambda: rows(page))
    sent = json.dumps([page.batches, page.act("evidence", rule=row["key"])], ensure_ascii=False)
    assert "\\u202eevil" in row["text"] and not {"\u202e", "\u200b", "\x1b"} & set(sent)
    stored = picture(page.view)
    assert "<img src=x" not in stored and "judging in silence" in stored
    for name, more in (("try", {}), ("stop", {}), ("evidence", {}), ("read", {"view": "v1"})):
        failed = page.act(name, rule="0" * 64, **more)
        assert failed["t"] == "failed" and "listed no more, so nothing was done" in failed["said"]
