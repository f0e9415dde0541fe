"""A message that is lost between kernel and page costs a view nothing but a moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from real_lab import Notebook

SETUP = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from concurrent.futures import Future
from seat import Rows_, Seat
from mew_lab.views.approvals.widget import ApprovalsView
from mew_lab.views.feed.widget import FeedView
class Desk:
    def save(self):
        saved = Future()
        saved.set_result("Saved.")
        return saved
    def as_id(self, sender):
        return None
seat, log = Seat(), Rows_()
cards, feed = ApprovalsView(seat), FeedView(log, desk=Desk())
lost, asked = [], []
def lose(view, kind):
    "The next message of this view with an item of this kind is lost on its way; the others pass."
    send = view.widget.send
    def once(content, buffers=None):
        if kind not in [item["t"] for item in content["items"]]:
            return send(content, buffers)
        del view.widget.send
        lost.append([item["t"] for item in content["items"]])
    view.widget.send = once
def listen(widget):
    ask = widget._ask
    def note(view: str, from_: int = 0) -> None:
        asked.append(widget.title)
        ask(view, from_)
    widget._ask = note
"""
TOLD = (
    "print(lost, sorted(set(asked)), len(cards.faults), len(feed.faults))"  # a slow page asks more than once
)


@pytest.mark.slow
@pytest.mark.trap("T-12", "T-13")
def test_a_lost_card_comes_again_and_a_button_whose_answer_was_lost_works_again(
    notebook: Callable[..., Notebook],
) -> None:
    add = "for n in range(40): log.add()"
    book = notebook(
        [
            SETUP,
            "cards",
            f"{add}\nfeed",
            "listen(cards); listen(feed); lose(cards, 'card'); p = seat.propose('git_commit')",
            TOLD,
            "lose(feed, 'done')",
            "lose(feed, 'rows'); log.add()",
            add,
            "feed._ask(next(iter(feed._views)), 10); log.add()",
            "slow = Future(); Desk.save = lambda self: slow",
            "slow.set_result('Saved late.')",
        ]
    )
    book.run(0).run(1).run(2)
    empty, feed = book.area(1).locator(".mew-empty-state"), book.area(2).locator("section.mew-feed")
    empty.wait_for()
    book.page.until(lambda: feed.get_attribute("data-last") == "40", "the rows")

    # Nothing follows the lost card, and it is there all the same; that view alone has asked.
    book.run(3)
    book.area(1).locator("li.mew-card", has_text="git_commit").wait_for()
    assert book.run(4).text(4).strip() == "[['card']] ['approvals'] 0 0"

    # What became of the press is not known, which is said; the button can be pressed again.
    book.run(5)
    save = feed.get_by_role("button", name="save")
    book.click(save)
    book.page.until(
        lambda: "not known whether this was done" in feed.locator(".mew-notices").inner_text(), "the truth"
    )
    book.page.until(lambda: save.get_attribute("aria-disabled") == "false", "the button")
    book.click(save)
    book.page.until(lambda: "Saved." in feed.locator(".mew-notices").inner_text(), "the second press")

    # A row that was lost comes again. What was still under way then is told when it has ended.
    book.run(9)
    book.click(save)
    book.run(6)
    book.page.until(lambda: feed.get_attribute("data-last") == "41", "the lost row")
    unknown = feed.locator(".mew-notice", has_text="not known whether this was done")
    book.page.until(lambda: unknown.count() == 2, "the truth")
    assert save.get_attribute("aria-disabled") == "false"
    book.run(10)
    book.page.until(lambda: "Saved late." in feed.locator(".mew-notices").inner_text(), "the end")

    # A second answer to the same question takes no row away, nor what waits.
    book.click(feed.get_by_role("button", name="pause"))
    book.run(7)
    book.page.until(lambda: "40 new" in feed.locator("button.mew-follow").inner_text(), "what waits")
    book.run(8)
    book.page.until(lambda: "41 new" in feed.locator("button.mew-follow").inner_text(), "one more")
    book.click(feed.get_by_role("button", name="resume"))
    book.page.until(lambda: feed.get_attribute("data-rows") == "82", "every row")
    # Both views have asked for what was lost, and neither has failed.
    assert book.run(4).text(4).strip().endswith("]] ['approvals', 'feed'] 0 0")


@pytest.mark.slow
@pytest.mark.trap("T-13")
def test_earlier_rows_that_were_lost_come_again(notebook: Callable[..., Notebook]) -> None:
    book = notebook([SETUP, "for n in range(9000): log.add()\nlose(feed, 'earlier')\nfeed", TOLD])
    book.run(0).run(1)
    feed = book.area(1).locator("section.mew-feed")
    book.page.until(lambda: feed.get_attribute("data-rows") == "9000", "every row")
    assert book.run(2).text(2).strip() == "[['earlier']] [] 0 0"
