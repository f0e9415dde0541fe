"""The whole life of a rule, by mouse and by keyboard: suggested, tried, adopted, reviewed, suspended, adopted again, stopped."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from access import accessible, focus_path
from playwright.sync_api import Locator
from real_lab import Notebook
from scenes import armed

SETUP = """
import mew_lab
lab = mew_lab.up(NAME, journal=None)  # rules are kept for the next lab of that name
@lab.tool
def read_file(path: str) -> str:
    "The text of a file."
    return "beans"
lab.tools("notebook")
coder = lab.join("coder", can="proposer")
def ask(*paths):
    for path in paths: coder.call("notebook/read_file", {"path": path})
"""
# All of them wait before the cards are shown, for later ones do not join a table.
TEACH = """
import time
ask(*(f'docs/t{n}.md' for n in range(18)))
end = time.monotonic() + 30
while len(lab.proposals()) < 18: assert time.monotonic() < end; time.sleep(0.01)
"""
# Rules of each state, without decisions: the sentences name what a peer may have written.
MANY = r"""
hostile = '<img src=x onerror=alert(1)>' + chr(0x202e) + 'evil' + chr(0x1b) + '[31m'
from mew_lab.rules.rule import parse_rule
import json
owned, tool = lab.decisions.rules, lab.loop.call(lambda: lab.decisions.tools.digest_of("notebook", "read_file"))
def begin(what, condition):
    rule = parse_rule(f"When coder asks notebook to run read_file with path {condition}, and nothing else: approve", tool_hash=tool)
    return lab.loop.call(lambda: owned.begin(what, rule, how="click", origin="written"))
begin("tried", json.dumps(hostile))
for n in range(29):
    kept = begin("tried" if n % 3 == 2 else "adopted", f"below docs/part-{n}/")
    if n % 3 == 1: lab.loop.call(lambda: owned.stop(kept, how="click"))
"""
HOSTILE_KEPT = "() => [...document.querySelectorAll('section.mew-rules *')].some(n => n.tagName === 'IMG' || n.hasAttribute('onerror'))"


def begin(plain: Callable[..., Notebook], name: str, *cells: str) -> Notebook:
    book = plain([f"NAME = {name!r}{SETUP}", *cells])
    for index in range(len(cells) + 1):
        book.run(index)
    return book


def rules_of(book: Notebook, index: int) -> Locator:
    return book.area(index).locator("section.mew-rules")


def row_in(view: Locator, state: str) -> Locator:
    return view.locator(f"article.mew-rule[data-state={state}]")


def press(book: Notebook, button: Locator, *, by: str) -> None:
    """Presses a button by the mouse, or by the keyboard: the focus goes to it, and then Enter."""
    if by == "mouse":
        book.click(button)
    else:
        button.focus()
        book.tab.keyboard.press("Enter")


def holds_focus(view: Locator) -> bool:
    return bool(view.evaluate("view => view.contains(document.activeElement)"))


def adopt(book: Notebook, view: Locator, row: Locator, *, by: str) -> None:
    """Opens the words of a rule, looks at all of them, and adopts it."""
    press(book, row.locator("button.mew-rule-adopt"), by=by)
    card = view.locator(".mew-rule-card")
    card.wait_for()
    assert card.locator("button:focus").text_content() == "Cancel", "what adopts has not the focus"
    confirm = card.locator("button.mew-rule-confirm")
    for part in card.locator("dd, tbody tr").all():
        part.scroll_into_view_if_needed()
    # A press of a script adopts nothing, armed or not.
    confirm.evaluate("button => button.click()")
    armed(book.page, confirm)
    confirm.evaluate("button => button.click()")
    assert card.count() == 1
    press(book, confirm, by=by)
    active, moved = row_in(view, "active"), card.get_by_text("the button moved while it was pressed")
    book.page.until(lambda: active.count() or moved.is_visible(), "the rule to act, or why not")
    if not active.count():  # what stands above it was drawn meanwhile
        press(book, confirm, by=by)
    active.wait_for()
    assert card.count() == 0 and holds_focus(view)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_the_whole_life_of_a_rule(plain: Callable[..., Notebook], by: str) -> None:
    parts = [f"lab.view.{name}" for name in ("approvals", "rules", "feed")]
    book = begin(plain, by, TEACH, *parts)
    approvals, view = book.area(2).locator("section.mew-approvals"), rules_of(book, 3)
    view.get_by_text("No rule is suggested yet.").wait_for()
    group = approvals.locator("li.mew-group")
    book.click(armed(book.page, group.locator("button.mew-approve-all")))
    # Suggested below Recent, and tried there.
    suggestion = approvals.locator(".mew-suggestion")
    suggestion.get_by_role("button", name="Try this rule").wait_for()
    assert "like this approved. Try a rule?" in suggestion.inner_text()
    press(book, suggestion.get_by_role("button", name="Try this rule"), by=by)
    shadow = row_in(view, "shadow")
    shadow.wait_for()
    assert "as you decided 0 times, otherwise 0" in shadow.inner_text()
    # Its evidence is one press away, and leads to the rows of the messages.
    press(book, shadow.locator("button.mew-rule-evidence"), by=by)
    book.page.until(lambda: shadow.locator(".mew-rule-past tbody tr").count() == 18, "the evidence")
    press(book, shadow.locator("button.mew-rule-in-feed"), by=by)
    feed = book.area(4).locator("section.mew-feed")
    book.page.until(
        lambda: "seq in (" in feed.locator("input[type=search]").first.input_value(), "the filter"
    )
    adopt(book, view, shadow, by=by)
    active = row_in(view, "active")
    assert "0 calls approved since, 0 reviewed; expires on " in active.inner_text()
    # Of three calls two go by the rule; one waits, and no word here or there says that it does.
    book.execute("ask(*(f'docs/a{n}.md' for n in range(3)))")
    book.page.until(lambda: "2 calls approved since, 0 reviewed" in active.inner_text(), "two approvals")
    waiting = approvals.locator("li.mew-card:not(.mew-past):visible")
    book.page.until(lambda: waiting.count() == 1, "the one that waits")
    assert "rule" not in waiting.inner_text().lower()
    book.page.until(lambda: "by rule 1" in approvals.inner_text(), "Recent to say which rule it was")
    book.click(armed(book.page, waiting.locator("button.mew-approve")))
    book.page.until(lambda: "2 calls approved since, 1 reviewed" in active.inner_text(), "the review")
    # One is rejected: the rule approves nothing from then on.
    book.execute("ask(*(f'docs/b{n}.md' for n in range(3)))")
    book.page.until(lambda: waiting.count() == 1, "the next one that waits")
    armed(book.page, waiting.locator("button.mew-reject"))
    waiting.focus()
    book.tab.keyboard.press("r")
    book.tab.keyboard.type("not this one")
    book.tab.keyboard.press("Enter")
    suspended = row_in(view, "suspended")
    suspended.wait_for()
    assert "A call that it covers was rejected." in suspended.inner_text()
    # Adopted again, with the wrong one first.
    press(book, suspended.locator("button.mew-rule-adopt"), by=by)
    first = view.locator(".mew-rule-card tbody tr").first
    assert "you rejected it" in first.inner_text() and "✕" in first.inner_text()
    book.tab.keyboard.press("Escape")
    book.page.until(lambda: suspended.locator("button.mew-rule-adopt:focus").count() == 1, "the way back")
    adopt(book, view, suspended, by=by)
    press(book, active.locator("button.mew-rule-stop"), by=by)
    suspended.wait_for()
    assert "Its owner stopped it." in suspended.inner_text() and holds_focus(view)
    assert book.page.errors == [] and book.page.dialogs == []


def test_a_sentence_is_written_by_hand_and_tried(plain: Callable[..., Notebook]) -> None:
    book = begin(plain, "written", "lab.view.rules")
    view = rules_of(book, 1)
    view.get_by_text("No rule is suggested yet.").wait_for()
    book.page.shot("rules-empty", view)
    path = focus_path(book, view, most=6)
    assert "button Write a rule…" in path, path
    view.locator("button.mew-new").focus()
    keys = book.tab.keyboard
    keys.press("Enter")
    keys.type("When coder asks notebook to run read_file with path below docs")
    answer, attempt = view.locator(".mew-answer"), view.locator(".mew-ask button.mew-rule-try")
    book.page.until(lambda: "a folder ends with a slash: docs/" in answer.inner_text(), "the fault")
    assert attempt.get_attribute("aria-disabled") == "true"
    keys.type("/, and nothing else: approve")
    book.page.until(lambda: answer.inner_text().startswith("Understood."), "the answer")
    accessible(book, view, pictures="rules-form")
    attempt.focus()
    keys.press("Enter")
    row = row_in(view, "shadow")
    row.wait_for()
    assert "When coder asks notebook to run read_file with path below docs/" in row.inner_text()
    assert holds_focus(view) and view.locator(".mew-ask").count() == 0


@pytest.mark.slow
def test_thirty_rules_with_hostile_values_stand_at_any_width(plain: Callable[..., Notebook]) -> None:
    book = begin(plain, "many", MANY, "lab.view.rules")
    assert "Error" not in book.text(1), book.text(1)
    view = rules_of(book, 2)
    book.page.until(lambda: view.locator("article.mew-rule").count() == 30, "all of them")
    assert "\\u202eevil" in view.inner_text() and not book.tab.evaluate(HOSTILE_KEPT)
    book.click(row_in(view, "shadow").first.locator("button.mew-rule-adopt"))
    view.locator(".mew-rule-card").wait_for()
    accessible(book, view, pictures="rules-busy")
    assert book.page.errors == [] and book.page.dialogs == []
