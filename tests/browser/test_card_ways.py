"""The ways that lead away from a card: the presets that allow more than one call, and the links to the other parts."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator
from real_lab import Notebook
from scenes import armed, choose

SETUP = """%load_ext mew_lab
import mew_lab
lab = mew_lab.up(journal=None)
@lab.tool
def write_note(path: str) -> str:
    "Writes a note."
    return path
@lab.tool(annotations={"readOnlyHint": True})
def read_file(path: str) -> str:
    "Reads a file."
    return path
@lab.tool(annotations={"readOnlyHint": True})
def list_files(folder: str) -> str:
    "Lists a folder."
    return folder
bot, helper = lab.join("bot", can="proposer"), lab.join("helper", can="agent")
lab.tools();
"""
CALLS = """
for tool, value in (("write_note", {"path": "b"}), ("read_file", {"path": "b"}), ("list_files", {"folder": "b"})):
    print(bot.call("notebook/" + tool, value).kind)
"""
RUNS, ASKS = "mcp/request", "mcp/proposal"


def allow_by(book: Notebook, tool: str, preset: str, limit: str, scope: str) -> dict[str, object]:
    """Chooses a preset of the one open card in cell 1, which asks for `tool`; returns the pattern that was shown."""
    card = book.area(1).locator("li.mew-card:not(.mew-past)")
    # The cell is done before the page has taken away the cards that it decided.
    book.page.until(
        lambda: [tool in text for text in card.all_inner_texts()] == [True],
        f"the card of {tool} to be the only one",
    )
    book.click(armed(book.page, card.locator("button.mew-allow")))
    choose(card, preset)
    shown = card.locator("pre.mew-pattern")
    shown.wait_for()
    assert card.get_by_label("How long, or how often").input_value() == limit
    assert card.get_by_label(scope).is_checked()
    pattern: dict[str, object] = json.loads(shown.inner_text())
    book.click(armed(book.page, card.locator("button.mew-confirm")))
    return pattern


def revoke(book: Notebook, granted: Locator) -> None:
    """Revokes each permission that is listed there, by mouse."""
    while granted.count():
        row = granted.first
        key = row.locator(".mew-from").inner_text()
        book.click(row.get_by_role("button", name="Revoke"))
        sure = row.locator("button.mew-danger")
        book.page.until(lambda sure=sure: sure.get_attribute("aria-disabled") == "false", "the button to arm")  # type: ignore[misc]
        left = granted.count() - 1
        book.click(sure)
        book.page.until(lambda left=left: granted.count() <= left, f"{key} to be gone")  # type: ignore[misc]


def calls(book: Notebook, index: int) -> list[str]:
    return book.run(index).text(index).split()


@pytest.mark.slow
def test_a_preset_of_approve_is_a_permission_that_is_seen_holds_and_is_revoked(
    plain: Callable[..., Notebook],
) -> None:
    first = "p = bot.call('notebook/write_note', {'path': 'a'})"
    # What is still open is decided, so that one card is there.
    clear = "for p in lab.proposals(): lab.reject(p)"
    second = f"{clear}\nq = bot.call('notebook/read_file', {{'path': 'a'}})"
    book = plain([SETUP, "lab.view.approvals", "lab.view.grants", first, CALLS, second])
    for index in range(4):
        book.run(index)
    granted = book.area(2).locator("tr[data-who=bot][data-origin=granted]")
    assert granted.count() == 0

    # For this session: exactly this call.
    pattern = allow_by(
        book,
        "write_note",
        "Approve alike calls for this session",
        "this session",
        "only these values, nothing else",
    )
    assert pattern == {
        "kind": "mcp/request",
        "to": "notebook",
        "payload": {"method": "tools/call", "params": {"name": "write_note", "arguments": {"path": "a"}}},
        "x-closed": True,
    }
    granted.wait_for()
    assert "with no other arguments" in granted.inner_text()
    revoke(book, granted)
    book.run(3)  # asks again, so that one card is there

    # For this session: one tool, with any arguments.
    pattern = allow_by(
        book, "write_note", "Approve and allow for this session", "this session", "any arguments"
    )
    assert pattern == {
        "kind": "mcp/request",
        "to": "notebook",
        "payload": {"method": "tools/call", "params": {"name": "write_note"}},
    }
    granted.wait_for()
    assert "write_note" in granted.inner_text() and granted.locator(".mew-from").inner_text().startswith(
        "You"
    )
    assert "until " in granted.locator(".mew-ends").inner_text(), "at most a working day"
    assert calls(book, 4) == [RUNS, ASKS, ASKS]
    revoke(book, granted)
    assert calls(book, 4) == [ASKS, ASKS, ASKS]

    # The tools of a participant that are read-only, and no other.
    book.run(5)
    allow_by(
        book,
        "read_file",
        "Always allow read-only tools of notebook",
        "1 h",
        "all read-only tools of notebook",
    )
    granted.first.wait_for()
    words = " ".join(granted.all_inner_texts())
    assert "read_file" in words and "list_files" in words and "write_note" not in words
    assert calls(book, 4) == [ASKS, RUNS, RUNS]
    revoke(book, granted)
    assert calls(book, 4) == [ASKS, ASKS, ASKS]


PLAIN = """%load_ext mew_lab
import mew_lab, json, time
from mew_lab.space import membership
monkeypatch.setattr(membership, "PATTERNS", ())  # as another gateway, which does not know closed permissions
lab = mew_lab.up(journal=None)
@lab.tool
def write_note(path: str, force: bool = False) -> str:
    "Writes a note."
    return path
bot = lab.join("bot", can="proposer")
lab.tools();
"""


@pytest.mark.ruling("R34")
@pytest.mark.slow
def test_where_the_gateway_ignores_nothing_else_a_card_approves_alike_calls_or_asks_once_more(
    plain: Callable[..., Notebook],
) -> None:
    first = "p = bot.call('notebook/write_note', {'path': 'a'})"
    alike = (
        "r = bot.call('notebook/write_note', {'path': 'a'})\n"
        "while r.state == 'open': time.sleep(0.01)\n"
        "print(r.kind, len(lab.proposals()))\n"
        "q = bot.call('notebook/write_note', {'path': 'a', 'force': True}); print(len(lab.proposals()))"
    )
    wire = "print('x-closed' in json.dumps([r.raw for r in lab.log.held]), len(lab.granting.given))"
    book = plain([PLAIN, "lab.view.approvals", first, alike, wire])
    for index in range(3):
        book.run(index)
    card = book.area(1).locator("li.mew-card:not(.mew-past)")

    def open_face() -> None:
        book.click(armed(book.page, card.locator("button.mew-allow")))
        choose(card, "Approve and allow…")
        card.locator("pre.mew-pattern").wait_for()

    open_face()
    assert card.get_by_label("approve alike calls in this lab").is_checked()
    assert "These arguments and no others." in card.inner_text()
    assert "have these calls approved in this lab" in card.inner_text()
    card.get_by_label("How long, or how often").select_option("10 uses")
    book.page.until(lambda: "(10 uses)" in card.locator(".mew-offer").inner_text(), "the limit")
    book.click(armed(book.page, card.locator("button.mew-confirm")))
    book.page.until(lambda: card.count() == 0, "the card to be decided")
    assert book.run(3).text(3).split() == [ASKS, "0", "1"]

    # The other one goes out open, and only after a second press that says so.
    card.first.wait_for()
    open_face()
    card.get_by_label("only these values, and any others beside them").click()
    aware = card.get_by_role("button", name="This gateway ignores 'nothing else'")
    aware.wait_for()
    assert card.locator("button.mew-confirm").get_attribute("aria-disabled") == "true"
    book.click(aware)
    book.page.until(lambda: aware.count() == 0, "the answer to the second press")
    book.click(armed(book.page, card.locator("button.mew-confirm")))
    book.page.until(lambda: card.count() == 0, "the second card to be decided")
    assert book.run(4).text(4).split() == ["False", "1"]


@pytest.mark.slow
def test_a_card_leads_to_its_message_its_reasoning_and_its_exchange(
    plain: Callable[..., Notebook],
) -> None:
    think = """
started = helper.send("reasoning/start", {"message": "Which note is missing?"})
helper.send("mcp/proposal", {"method": "tools/call", "params": {"name": "write_note", "arguments": {"path": "beds.md"}}}, to="notebook", context=started.id)
"""
    book = plain([SETUP, "%mew panel", think]).run(0).run(1).run(2)
    room = book.area(1).locator("section.mew-panel")
    cards = room.locator("section.mew-approvals")
    armed(book.page, cards.locator("button.mew-approve"))
    book.click(cards.locator("button.mew-details-open"))

    def go(text: str) -> None:
        book.click(cards.get_by_role("button", name=text))

    def selected(part: str) -> bool:
        return room.locator(f"[role=tab][data-part={part}]").get_attribute("aria-selected") == "true"

    go("Show its reasoning")
    step = room.locator("section.mew-reasoning .mew-hit")
    step.wait_for()
    assert selected("reasoning") and "write_note" in step.inner_text()
    go("Show in timeline")
    stage = room.locator("section.mew-timeline .mew-stage svg")
    stage.wait_for()
    assert selected("timeline") and "write_note" in (stage.text_content() or "")
    go("Show in messages")
    row = room.locator("section.mew-feed tr[aria-selected=true]")
    row.wait_for()
    assert selected("feed") and "write_note" in row.inner_text()
    room.locator("section.mew-feed .mew-detail .mew-pretty").wait_for()
    assert "beds.md" in room.locator("section.mew-feed .mew-pretty").inner_text()
