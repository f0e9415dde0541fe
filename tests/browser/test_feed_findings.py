"""What the diagnosis finds, in the feed of a real JupyterLab: a column, its sentence, its order and its filter."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from access import accessible
from axe import axe_source, axe_violations
from playwright.sync_api import Locator
from pytest import TempPathFactory
from real_lab import Notebook
from test_feed_view import all_here, shown

UP = """
import json, mew_lab
lab = mew_lab.up("demo", journal=None)
bot, other = lab.join("bot", can="proposer"), lab.join("other", can="agent")
files = lab.join("files", can="tool")
@files.participant.tools.add
def read(path: str) -> str:
    return path
lab.chat("Please read the file.")
p = bot.call("files/read", {"path": "a.txt"})
lab.approve(lab.proposals()[-1]); p.result(10)
lab.view.feed
"""
FAULTS = """
from mew_lab.errors import CapabilityViolation, Refused
p = bot.call("files/read", {"path": "b.txt"})
other.send("mcp/withdraw", {"reason": "no_longer_needed"}, correlation_id=[p.id])
try: bot.send("capability/grant", {"recipient": "bot", "capabilities": [{"kind": "*"}]}, to="bot")
except (Refused, CapabilityViolation): pass
"""
TOLD = """
rows = {r.id: r.seq for r in lab.rows.since(0, 999)}
print(json.dumps([lab.rows.last_seq, [[rows[f.id], f.severity, f.rule, f.sentence] for f in lab.log.diagnose("warn") if f.rule in ("foreign-withdraw", "denied")]]))
"""


@pytest.mark.slow
def test_findings_are_a_column_that_comes_with_the_first_of_them(
    plain: Callable[..., Notebook], tmp_path_factory: TempPathFactory
) -> None:
    book = plain([UP, FAULTS, TOLD]).run(0)
    feed = book.view(0)
    book.page.until(lambda: "What" in feed.locator("th").all_inner_texts(), "the columns")
    book.run(1).run(2)
    last, told = json.loads(book.text(2))
    [(withdraw, _, _, sentence)] = [one for one in told if one[2] == "foreign-withdraw"]
    [denied] = {one[0] for one in told if one[2] == "denied"}
    all_here(book, 0, last)

    def cell(seq: int) -> Locator:
        return feed.locator(f"tr[data-seq='{seq}'] .mew-finding")

    # The column was not there before, and has a word for each severity.
    book.page.until(lambda: "Finding" in feed.locator("th").all_inner_texts(), "the column")
    mark = cell(withdraw).locator(".mew-severity")
    book.page.until(lambda: mark.all_inner_texts() == ["error"], "the severity")
    assert cell(denied).inner_text() == "warn"

    # The sentence is told on hover, and stands in the opened row.
    mark.hover()
    book.page.until(lambda: mark.get_attribute("title") == f"error: {sentence}", "the sentence")
    book.click(cell(withdraw))
    findings = feed.get_by_role("list", name="Findings")
    book.page.until(lambda: sentence in findings.inner_text(), "the sentence in the opened row")

    # The worst stand first, and a filter takes what is as bad.
    book.click(feed.get_by_role("button", name="Finding", exact=True))
    book.page.until(lambda: shown(book, 0)[:1] == [withdraw], "the worst first")
    assert feed.locator("th[data-name=finding]").get_attribute("aria-sort") == "descending"
    box = feed.get_by_label("Filter by text")
    box.fill("diag.severity >= error")
    book.page.until(lambda: shown(book, 0) == [withdraw], "the errors")
    box.fill("diag.rule == denied")
    book.page.until(lambda: shown(book, 0) == [denied], "the denial")
    box.fill("")
    book.page.until(lambda: len(shown(book, 0)) > 2, "everything")
    cell(denied).click(button="right")
    book.click(feed.get_by_role("menuitem", name="Apply as filter"))
    book.page.until(lambda: box.input_value() == "diag.rule == denied", "the filter of the cell")
    book.page.until(lambda: shown(book, 0) == [denied], "the denial by its cell")
    box.fill("")
    book.page.until(lambda: len(shown(book, 0)) > 2, "everything again")

    accessible(book, feed)
    source = axe_source(tmp_path_factory.getbasetemp())
    for theme in ("light", "dark"):
        book.page.theme(theme)
        assert axe_violations(feed, source) == []


def test_a_feed_without_findings_has_no_column_for_them(plain: Callable[..., Notebook]) -> None:
    quiet = """
import mew_lab
lab = mew_lab.up("demo", journal=None)
lab.chat("hello")
lab.view.feed
"""
    book = plain([quiet, "print(lab.rows.last_seq, len(lab.log.diagnose()))"]).run(0).run(1)
    last, found = map(int, book.text(1).split())
    assert found == 0
    all_here(book, 0, last)
    feed = book.view(0)
    titles = ["#", "Time", "From → To", "What", "Took"]
    assert feed.locator("th").all_inner_texts() == titles
    # The reader may choose it all the same.
    book.click(feed.get_by_role("button", name="Columns"))
    book.click(feed.get_by_role("menuitemcheckbox", name="Finding"))
    book.page.until(lambda: feed.locator("th").all_inner_texts() == [*titles, "Finding"], "the column")
