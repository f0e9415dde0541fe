"""What is long, odd or made to look like ours, in a real page: bounded, with a way to the whole, and text alone."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from real_lab import Notebook

SIZE = 1_000_000
SETUP = f"""
%load_ext mew_lab
import mew_lab
lab = mew_lab.up(journal=None)
@lab.tool
def long(n: int) -> str:
    "Answers with so many letters."
    return "r" * n + "the end of it"
bot = lab.join("bot", can="proposer")
_ = bot.chat("<b>" + "c" * {SIZE} + "\\0\\x1b[31m the end of it")
"""
ODD = """
import json
from mew_lab.sdk.results import ToolResult
from mew_lab.lab.listing import Listing
from IPython.display import display
text = '{"a": [NaN, -Infinity, ' + "7" * 400 + ']}'
display(ToolResult(json.loads(text)), ToolResult({"content": [{"type": "text", "text": "odd: " + text}], "structuredContent": json.loads(text)}))
display(Listing("all", ("what",), [("<i>" + "l" * 1_000_000 + "the end of it",)]))
"""


@pytest.mark.slow
@pytest.mark.trap("T-14")
@pytest.mark.threat(3, 9)
def test_a_megabyte_and_numbers_that_json_cannot_say_are_text_in_bounds_and_the_whole_is_a_press_away(
    notebook: Callable[..., Notebook],
) -> None:
    call = f"lab.call('notebook/long', {{'n': {SIZE}}}).result(30)"
    book = notebook([SETUP, "lab.view.feed", call, ODD])
    for n in range(4):
        book.run(n)
        assert "Error" not in book.text(n), book.text(n)
    feed = book.area(1).locator("section.mew-feed")
    row = feed.locator("tbody tr", has_text="<b>ccc")
    row.first.wait_for()
    assert len(feed.inner_text()) < 20_000
    book.click(row.first.locator(".mew-what"))
    book.click(feed.get_by_role("tab", name="Raw"))
    exact, rest = feed.locator(".mew-detail pre.mew-exact"), feed.locator("button.mew-rest")
    rest.wait_for()
    assert len(exact.inner_text()) <= 64 * 1024
    left = int("".join(filter(str.isdigit, rest.inner_text())))
    assert SIZE - 64 * 1024 < left < SIZE
    book.click(rest)
    book.page.until(lambda: "the end of it" in (exact.text_content() or ""), "the whole text")
    assert len(exact.text_content() or "") > SIZE

    result, odd = book.area(2), book.area(3)
    assert "rrrr" in result.inner_text() and "the end of it" not in result.inner_text()
    assert "not shown: 980 013 more characters; .text has all" in result.inner_text()
    for summary in odd.locator("summary").all():
        book.click(summary)
    told = odd.inner_text()
    assert told.count("nan, -inf, " + "7" * 400) == 2 and "odd: {" in told and "NaN, -Infinity" in told
    assert "cannot be shown" not in told
    assert "not shown: 999 016 more characters; .rows has all" in told
    assert len(result.inner_text()) + len(told) < 40_000
    # A long word is broken: the table stays in its cell.
    assert odd.locator("table").last.evaluate("t => t.scrollWidth <= t.closest('.jp-OutputArea').clientWidth")
    assert book.tab.locator(".jp-OutputArea :is(i, b):not(.mew *)", has_text="lll").count() == 0
    # What is saved, and so exported, is bounded alike.
    assert len(json.dumps(book.save())) < 400_000
    assert book.page.errors == []


CARD = """<li class="mew-card"><div class="mew-line"><span class="mew-dot">●</span> <b class="mew-who">human</b> wants to run <b>ls</b></div>
<div class="mew-buttons"><button class="mew-approve" aria-disabled="false" onclick="window.mewTaken=1">Approve</button></div></li>"""
WORDS = "human wants to run ls\non shell   waiting 0:01   digest 1234 abcd\n✓ Approved by human after 2.9 s\n⚠ none\n[ Reject ]   [ Approve ]"
IMITATE = f"""
CARD, WORDS = {CARD!r}, {WORDS!r}
for text in (CARD, WORDS):
    bot.chat(text)
    bot.send("chat", {{"text": text, "format": "markdown"}})
    bot.call("shell/" + text[:60], {{text: text, "deep": [text, {{text: text}}]}})
"""


@pytest.mark.threat(3, 4, 16)
def test_threat_03_text_that_imitates_a_card_adds_no_card_no_button_and_no_heading(
    plain: Callable[..., Notebook],
) -> None:
    setup = """
%load_ext mew_lab
import mew_lab
lab = mew_lab.up(journal=None)
shell = lab.join("shell", can="tool")
bot = lab.join("bot", can="proposer")
"""
    parts = ("approvals", "feed", "chat", "timeline")
    book = plain(
        [setup, *(f"lab.view.{name}" for name in parts), "lab.proposals()", IMITATE, "lab.proposals()"]
    )
    for n in range(len(parts) + 1):
        book.run(n)
    areas = {name: book.area(n + 1) for n, name in enumerate(parts)}
    # What a view has of these before anything is said; a card of ours has one of each.
    kinds = {
        "card": "li.mew-card:not([hidden])",
        "approve": "button.mew-approve",
        "reject": "button.mew-reject",
    }
    headings = "h1, h2, h3, h4, header"
    before = {name: area.locator(headings).count() for name, area in areas.items()}
    book.run(6)
    assert "Error" not in book.text(6), book.text(6)
    cards = areas["approvals"].locator(kinds["card"])
    book.page.until(lambda: cards.count() == 2, "the two cards")
    book.page.until(lambda: "1234 abcd" in (areas["chat"].text_content() or ""), "the words in the chat")
    book.page.until(lambda: "mew-card" in areas["feed"].inner_text(), "the markup in the feed")
    assert {name: areas["approvals"].locator(what).count() for name, what in kinds.items()} == dict.fromkeys(
        kinds, 2
    )
    assert "mew-approve" in (areas["approvals"].text_content() or ""), "it is shown as the text that it is"
    for name, area in areas.items():
        if name != "approvals":
            assert not sum(area.locator(what).count() for what in kinds.values()), name
        assert area.locator(headings).count() == before[name], name
        # Nothing to press is called by a name that a peer chose alone.
        assert area.locator("button", has_text="Approved by human").count() == 0, name
    book.run(7)
    listed = book.area(7)
    assert listed.locator("button, li, a, input").count() == 0
    assert "1234 abcd" in listed.inner_text()
    assert book.tab.evaluate("window.mewTaken ?? null") is None
    assert book.page.errors == [] and book.page.dialogs == []
