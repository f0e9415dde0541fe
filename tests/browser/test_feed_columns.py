"""What a reader arranges in the feed: columns, order, plumbing, search, and links from other parts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator
from real_lab import Notebook
from scenes import ADDING, PROPOSE

HERE = Path(__file__).parent
SETUP = f"""
import sys; sys.path.insert(0, {str(HERE)!r})
from seat import Rows_
from mew_lab.views.feed.widget import FeedView
log = Rows_()
feed = FeedView(log)
"""
SHOW = "feed"

ADD = """
for n in range(40):
    log.add("system/presence" if n % 2 else "chat", f"“talk number {n}”", sender=("bot", "ada")[n // 2 % 2], to=("git",) if n % 4 else (), plumbing=bool(n % 2))
log.add("mcp/request", 'git_log(repo_path=".")', sender="bot", verdict="refused", code="capability_violation", tool="git_log")
"""
WIDTHS = "r => Object.fromEntries([...r.querySelectorAll('th')].map(h => [h.dataset.name, Math.round(h.getBoundingClientRect().width)]))"


def settled(book: Notebook, index: int, expected: int) -> None:
    book.page.until(lambda: book.view(index).get_attribute("data-last") == str(expected), f"row {expected}")


def sequence(book: Notebook, index: int) -> list[int]:
    script = "r => [...r.querySelectorAll('tbody tr')].map(t => Number(t.dataset.seq))"
    return list(book.view(index).evaluate(script))


def widths(feed: Locator) -> dict[str, int]:
    return dict(feed.evaluate(WIDTHS))


@pytest.mark.slow
def test_columns_are_resized_sorted_hidden_and_remembered(plain: Callable[..., Notebook]) -> None:
    stored = "from mew_lab.views.ui.preferences import preferences\nimport json\nprint(json.dumps(preferences.read()['feedColumns']))"
    book = plain([SETUP, ADD, SHOW, stored, "FeedView(log)"]).run(0).run(1).run(2)
    settled(book, 2, 41)
    feed = book.view(2)
    begun = widths(feed)
    # What a message says has at least half of the width, at every width.
    for room in (1600, 1000, 700, 500, 360):
        feed.evaluate("(r, w) => { r.style.width = `${w}px`; }", room)
        book.page.until(lambda: widths(feed)["what"] * 2 >= sum(widths(feed).values()) - 2, f"half of {room}")
    feed.evaluate("r => { r.style.width = ''; }")
    book.page.until(lambda: widths(feed) == begun, "the widths of before")

    # The line between two columns moves with the arrows and with the mouse.
    line = feed.get_by_role("separator", name="Width of From → To")
    line.focus()
    for _ in range(3):
        book.tab.keyboard.press("ArrowRight")
    book.page.until(lambda: widths(feed)["route"] == begun["route"] + 24, "a wider column")
    assert line.get_attribute("aria-valuenow") == str(begun["route"] + 24)
    box = feed.get_by_role("separator", name="Width of Took").bounding_box()
    assert box is not None
    book.tab.mouse.move(box["x"] + 2, box["y"] + 10)
    book.tab.mouse.down()
    book.tab.mouse.move(box["x"] - 38, box["y"] + 10, steps=4)
    book.tab.mouse.up()
    book.page.until(lambda: abs(widths(feed)["took"] - begun["took"] - 40) <= 2, "a wider last column")

    # A heading sorts, and says so.
    heading = feed.locator("th[data-name=route]")
    book.click(heading.locator("button"))
    assert heading.get_attribute("aria-sort") == "ascending"
    book.page.until(lambda: "ada" in feed.locator("tbody td.mew-route").first.inner_text(), "ada first")
    book.click(heading.locator("button"))
    assert heading.get_attribute("aria-sort") == "descending"
    book.page.until(lambda: "bot" in feed.locator("tbody td.mew-route").first.inner_text(), "bot first")

    # The menu hides a column and shows another one.
    for name in ("Took", "Kind"):
        book.click(feed.get_by_role("button", name="Columns"))
        book.click(book.tab.get_by_role("menuitemcheckbox", name=name))
    book.page.until(lambda: list(widths(feed)) == ["seq", "time", "route", "kind", "what"], "the columns")

    # Another view of the user, made anew, has all of it.
    kept = json.loads(book.run(3).text(3))
    assert kept["shown"] == ["seq", "time", "route", "kind", "what"] and kept["sort"] == {
        "by": "route",
        "desc": True,
    }
    book.run(4)
    other = book.view(4)
    book.page.until(lambda: list(widths(other)) == kept["shown"], "the columns that were kept")
    assert widths(other)["route"] == begun["route"] + 24
    assert other.locator("th[data-name=route]").get_attribute("aria-sort") == "descending"
    book.click(feed.get_by_role("button", name="Columns"))
    book.click(book.tab.get_by_role("menuitem", name="Standard columns"))
    book.page.until(lambda: widths(feed) == begun and widths(other) == begun, "the standard in both")


@pytest.mark.slow
def test_plumbing_is_hidden_and_counted_and_words_are_found_one_after_the_other(
    plain: Callable[..., Notebook],
) -> None:
    book = plain([SETUP, ADD, SHOW, "log.add('chat', '“talk number 100”')"]).run(0).run(1).run(2)
    settled(book, 2, 41)
    feed = book.view(2)
    count, toggle = feed.locator("table"), feed.get_by_role("button", name="Hide plumbing")

    def rows(expected: int) -> None:
        book.page.until(lambda: count.get_attribute("aria-rowcount") == str(expected + 1), f"{expected} rows")

    rows(21)
    assert toggle.get_attribute("aria-pressed") == "true" and "(20)" in toggle.inner_text()
    denied = feed.locator("tr[data-seq='41']")
    assert "Denied · git_log" in denied.locator(".mew-what").inner_text()
    # A filter that asks for a kind finds what is hidden; the button shows everything.
    box = feed.get_by_label("Filter by text")
    box.fill("kind:presence")
    rows(20)
    box.fill("from:bot")
    rows(11)
    box.fill("tool:git_")
    rows(1)
    box.fill("from:b")
    assert feed.locator("datalist option").evaluate_all("all => all.map(o => o.value)") == ["from:bot"]
    box.fill("")
    book.click(toggle)
    rows(41)
    assert toggle.get_attribute("aria-pressed") == "false"
    book.click(toggle)
    rows(21)

    # One match after the other, in both directions, each marked.
    find, told = feed.get_by_label("Find in the messages"), feed.locator(".mew-found")
    find.fill("TALK number 1")
    book.page.until(lambda: told.inner_text() == "5 found", "the count")  # 10, 12, 14, 16, 18
    assert feed.locator("mark").first.inner_text() == "talk number 1"
    chosen = feed.locator("tr[aria-selected=true]")
    for key, place, seq in (
        ("Enter", 1, 11),
        ("Enter", 2, 13),
        ("Shift+Enter", 1, 11),
        ("Shift+Enter", 5, 19),
    ):
        find.press(key)
        book.page.until(lambda place=place: told.inner_text() == f"{place} of 5", f"match {place}")  # type: ignore[misc]
        assert chosen.get_attribute("data-seq") == str(seq)
    book.run(3)
    book.page.until(lambda: told.inner_text() == "5 of 6", "the match that arrived")
    find.fill("nothing like it")
    book.page.until(lambda: told.inner_text() == "No match", "that there is none")
    find.fill("")
    assert feed.locator("mark").count() == 0


@pytest.mark.slow
def test_a_link_from_another_part_shows_its_row_and_says_what_was_cleared(
    plain: Callable[..., Notebook],
) -> None:
    book = plain([SETUP, ADD, SHOW]).run(0).run(1).run(2)
    settled(book, 2, 41)
    feed = book.view(2)
    chosen, hint = feed.locator("tr[aria-selected=true]"), feed.locator(".mew-hint")
    go = "(r, target) => r.mewOpen(target)"
    assert feed.evaluate(go, {"id": "e-3"}) is True
    assert chosen.get_attribute("data-seq") == "3" and hint.is_hidden()
    feed.locator(".mew-pretty").wait_for()
    assert feed.evaluate(go, {"id": "e-2"}) is True
    assert chosen.get_attribute("data-seq") == "2"
    assert hint.inner_text() == "Plumbing is shown, so that #2 is in sight."
    feed.get_by_label("Filter by text").fill("from:nobody")
    book.page.until(lambda: sequence(book, 2) == [], "no row")
    assert feed.evaluate(go, {"id": "e-5"}) is True
    assert chosen.get_attribute("data-seq") == "5" and "The filter was cleared" in hint.inner_text()
    assert feed.get_by_label("Filter by text").input_value() == ""
    assert feed.evaluate(go, {"id": "e-999"}) is False

    # A time that was chosen elsewhere is a chip that can be taken away.
    moments = feed.evaluate("r => Date.now() / 1000")
    assert feed.evaluate(go, {"since": moments + 60, "until": moments + 120}) is True
    book.page.until(lambda: sequence(book, 2) == [], "nothing in that time")
    book.click(feed.get_by_role("button", name="Remove the time"))
    book.page.until(lambda: 41 in sequence(book, 2) or 5 in sequence(book, 2), "every row")
    assert feed.locator(".mew-span").is_hidden()


def test_an_answer_that_arrives_between_two_sets_of_columns_is_taken(
    plain: Callable[..., Notebook],
) -> None:
    """A page that is not painted, as in another tab, takes messages while its lines still have the columns of before."""
    book = plain([ADDING + PROPOSE, "lab.view.feed"]).run(0).run(1)
    feed = book.view(1)
    waiting = feed.locator("td.mew-took.mew-waiting")
    waiting.wait_for()
    seq = waiting.locator("xpath=..").get_attribute("data-seq")
    hold = "() => { window.frames_ = []; window.paint_ = window.requestAnimationFrame; window.requestAnimationFrame = run => window.frames_.push(run); }"
    free = "() => { window.requestAnimationFrame = window.paint_; for (const run of window.frames_) run(performance.now()); }"
    book.tab.evaluate(hold)
    book.execute("lab.view.feed.columns = ['seq', 'kind', 'what', 'took']")
    book.execute("lab.reject(lab.proposals()[0])")
    took = feed.locator(f"tr[data-seq='{seq}'] td.mew-took")
    book.page.until(
        lambda: took.inner_text() not in ("", "waiting"), "the decision, in the columns of before"
    )
    assert "kind" not in widths(feed)
    book.tab.evaluate(free)
    book.page.until(lambda: "kind" in widths(feed), "the columns that were chosen")
    assert took.inner_text() not in ("", "waiting") and book.page.errors == []
