"""The feed shows every envelope once, in order, and leaves the reader where she is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from real_lab import Notebook

HERE = Path(__file__).parent
SETUP = f"""
import sys; sys.path.insert(0, {str(HERE)!r})
import threading, time
from seat import Rows_
from mew_lab.views.feed.widget import FeedView
log = Rows_()
feed = FeedView(log)
def stream(rate, seconds):
    "Adds rows at that rate from a thread of its own."
    def run():
        end, step = time.monotonic() + seconds, max(1, rate // 100)
        while time.monotonic() < end:
            for _ in range(step):
                log.add()
            time.sleep(step / rate)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread
"""
SHOW = "feed"
COUNT = "print(log.last_seq, len(feed.faults))"


def last(book: Notebook, index: int) -> int:
    """The number of the newest row; -1 until the page has drawn the view."""
    return int(book.view(index).get_attribute("data-last") or -1)


def sequence(book: Notebook, index: int) -> list[int]:
    """The numbers of the rows that are in the page now, from the top."""
    script = "r => [...r.querySelectorAll('tbody tr')].map(t => Number(t.dataset.seq))"
    return list(book.view(index).evaluate(script))


def settled(book: Notebook, index: int, expected: int) -> None:
    book.page.until(lambda: last(book, index) == expected, f"row {expected} to arrive")


def test_every_row_is_shown_once_and_in_order(plain: Callable[..., Notebook]) -> None:
    book = plain([SETUP, SHOW, "for n in range(1200): log.add(what=f'row {n}')", COUNT]).run(0).run(1)
    settled(book, 1, 0)  # a view that opens later gets the newest rows alone
    book.run(2).run(3)
    settled(book, 1, 1200)
    assert book.view(1).get_attribute("data-rows") == "1200"
    seen: set[int] = set()
    scroller = book.view(1).locator(".mew-scroller")
    for top in range(0, 1201 * 28, 600):
        scroller.evaluate("(s, top) => { s.scrollTop = top; }", top)
        book.tab.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        here = sequence(book, 1)
        assert here == list(range(here[0], here[0] + len(here)))
        seen.update(here)
    assert seen == set(range(1, 1201))
    assert book.text(3).strip() == "1200 0"


@pytest.mark.slow
@pytest.mark.trap("T-7")
def test_the_table_goes_on_while_the_main_thread_is_busy(notebook: Callable[..., Notebook]) -> None:
    busy = "stream(200, 8)\nend = time.monotonic() + 5\nwhile time.monotonic() < end: sum(range(1000))"
    book = notebook([SETUP, SHOW, busy]).run(0).run(1)
    settled(book, 1, 0)
    book.run(2, wait=False)
    before = int(book.view(1).get_attribute("data-paints") or 0)
    book.wait(2)
    painted = int(book.view(1).get_attribute("data-paints") or 0) - before
    print(f"\nrepaints in 5 s of a busy main thread: {painted} (mark 40)")
    assert painted >= 40


@pytest.mark.trap("T-12")
@pytest.mark.slow
def test_appends_leave_scroll_position_and_selection_alone(plain: Callable[..., Notebook]) -> None:
    book = plain([SETUP, SHOW, "for n in range(500): log.add()", "for n in range(500): log.add()"])
    book.run(0).run(1).run(2)
    settled(book, 1, 500)
    scroller = book.view(1).locator(".mew-scroller")
    scroller.hover()
    book.tab.mouse.wheel(0, -3000)
    tops: list[float] = []

    def still() -> bool:
        tops.append(scroller.evaluate("s => s.scrollTop"))
        return len(tops) > 10 and tops[-1] < 11500 and len(set(tops[-10:])) == 1

    book.page.until(still, "the wheel to run out")
    row = book.view(1).locator("tbody tr").nth(8)
    book.click(row.locator(".mew-what"))
    seq = row.get_attribute("data-seq")
    book.view(1).locator(".mew-detail pre.mew-pretty").wait_for()
    before = (scroller.evaluate("s => s.scrollTop"), sequence(book, 1))
    book.run(3)
    settled(book, 1, 1000)
    assert (scroller.evaluate("s => s.scrollTop"), sequence(book, 1)) == before
    assert book.view(1).locator("tr[aria-selected=true]").get_attribute("data-seq") == seq
    assert "500 new" in book.view(1).locator("button.mew-follow").inner_text()
    book.click(book.view(1).locator("button.mew-follow"))
    book.page.until(lambda: sequence(book, 1)[-1] == 1000, "the newest row")


@pytest.mark.slow
@pytest.mark.trap("T-12")
def test_a_long_log_opens_with_its_newest_rows_and_earlier_ones_move_nothing(
    plain: Callable[..., Notebook],
) -> None:
    slowly = "feed.interval = 1.5\nfor n in range(7000): log.add(correlates=n if n == 5000 else 0)\nfeed"
    book = plain([SETUP, slowly, COUNT]).run(0).run(1)
    settled(book, 1, 7000)
    feed, scroller = book.view(1), book.view(1).locator(".mew-scroller")
    held = int(feed.get_attribute("data-rows") or 0)
    assert held < 7000 and sequence(book, 1)[-1] == 7000
    feed.locator("table").focus()
    book.tab.keyboard.press("Home")
    first = 7001 - held
    place = (
        "(r, seq) => { const row = r.querySelector(`tr[data-seq='${seq}']`), box = r.querySelector('.mew-scroller');"
        " return row ? row.getBoundingClientRect().top - box.getBoundingClientRect().top : null; }"
    )
    book.page.until(lambda: first in sequence(book, 1), "the first row that is held")
    before = feed.evaluate(place, first)
    book.page.until(lambda: feed.get_attribute("data-rows") == "7000", "the earlier rows")
    assert feed.evaluate(place, first) == before
    assert feed.locator("tr[aria-selected=true]").get_attribute("data-seq") == str(first)
    book.click(feed.get_by_role("button", name="Kind: all"))
    assert feed.locator("[data-value=chat] .mew-count").inner_text() == "7\u202f000"
    book.tab.keyboard.press("Escape")
    assert "earlier" not in feed.inner_text() and "rows before" not in feed.inner_text()
    # A row of the first message is known as the answer to one that came after it.
    scroller.evaluate("s => { s.scrollTop = 4990 * 28; }")
    book.page.until(lambda: 5000 in sequence(book, 1), "row 5000")
    book.click(feed.locator("tr[data-seq='5000'] .mew-what"))
    feed.locator("table").focus()
    book.tab.keyboard.press("ArrowRight")
    book.page.until(
        lambda: feed.locator("tr[aria-selected=true]").get_attribute("data-seq") == "5001", "its answer"
    )
    assert book.run(2).text(2).strip() == "7000 0"


@pytest.mark.slow
@pytest.mark.trap("T-12")
def test_nothing_is_painted_when_nothing_arrives(plain: Callable[..., Notebook]) -> None:
    book = plain([SETUP, SHOW, "for n in range(100): log.add()"]).run(0).run(1).run(2)
    settled(book, 1, 100)
    # The rate falls to nothing within three seconds; after that the page is quiet.
    book.page.until(
        lambda: "/s" not in book.view(1).locator(".mew-counts-line").inner_text(), "the rate to fall"
    )
    before = book.view(1).get_attribute("data-paints")
    book.page.pause(1.5)  # nothing is to be painted in this time
    assert book.view(1).get_attribute("data-paints") == before


@pytest.mark.slow
@pytest.mark.trap("T-13")
def test_a_reload_and_a_second_view_catch_up_during_a_stream(notebook: Callable[..., Notebook]) -> None:
    book = notebook(
        [SETUP, SHOW, "for n in range(50): log.add()", SHOW, "rows = stream(300, 3)", f"rows.join()\n{COUNT}"]
    )
    book.run(0).run(1).run(2).save()
    book.run(4).run(3)
    book.page.until(lambda: last(book, 3) > 100, "the second view to catch up")
    book.save()
    book.reload()
    book.page.until(lambda: last(book, 1) > 200, "the view to catch up after the reload")
    book.run(5)
    total = int(book.text(5).split()[0])
    settled(book, 1, total)
    settled(book, 3, total)
    assert book.view(1).get_attribute("data-rows") == str(total)


@pytest.mark.threat(3)
def test_what_a_peer_writes_is_text_in_the_feed(plain: Callable[..., Notebook]) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    add = (
        f"h = {hostile!r}\nlog.name, unseen = h, h + '\\u202e'\n"
        "log.add(h, unseen, raw=unseen + 'x' * 70000, sender=h, to=(h,), context=h, code=h, id=h)"
    )
    book = plain([SETUP, add, SHOW]).run(0).run(1).run(2)
    settled(book, 2, 1)
    book.click(book.view(2).locator("tbody tr .mew-what"))
    exact = book.view(2).locator(".mew-detail pre.mew-exact")
    exact.wait_for()
    assert exact.inner_text().startswith(hostile + "\\u202e")
    assert len(exact.inner_text()) < 66000
    book.click(book.view(2).get_by_role("button", name="Show the rest"))
    book.page.until(lambda: len(exact.inner_text()) > 70000, "the rest")
    assert book.view(2).inner_text().count(hostile) >= 6
    assert book.view(2).locator("img").count() == 0
    assert book.page.dialogs == []


@pytest.mark.threat(4)
def test_threat_04_markdown_of_a_peer_is_no_link_and_loads_nothing(plain: Callable[..., Notebook]) -> None:
    markdown = (
        "[here](javascript:alert(1)) ![pixel](http://127.0.0.1:9/pixel.png) "
        "<img src=http://127.0.0.1:9/image.png onerror=alert(1)> <button>Approve</button>"
    )
    chat = {"kind": "chat", "from": "eve", "payload": {"text": markdown, "format": "markdown"}}
    add = f"text = {markdown!r}\nlog.add('chat', text, sender='eve', raw={json.dumps(chat)!r})"
    book = plain([SETUP, add, SHOW])
    asked: list[str] = []
    book.tab.on("request", lambda request: asked.append(request.url))
    book.run(0).run(1).run(2)
    settled(book, 2, 1)
    book.click(book.view(2).locator("tbody tr .mew-what"))
    book.view(2).locator(".mew-detail pre.mew-pretty").wait_for()
    assert markdown in book.view(2).inner_text()
    assert book.view(2).locator("a, img, iframe, script, style, object").count() == 0
    assert book.view(2).get_by_role("button", name="Approve").count() == 0
    assert [url for url in asked if "127.0.0.1:9/" in url] == []
    assert book.page.dialogs == []


@pytest.mark.slow
def test_paused_rows_come_when_the_pause_ends(plain: Callable[..., Notebook]) -> None:
    book = (
        plain([SETUP, SHOW, "for n in range(10): log.add()", "for n in range(12): log.add()"])
        .run(0)
        .run(1)
        .run(2)
    )
    settled(book, 1, 10)
    book.click(book.view(1).get_by_role("button", name="Pause"))
    book.run(3)
    book.page.until(lambda: "12 new" in book.view(1).inner_text(), "the count of what waits")
    assert sequence(book, 1)[-1] == 10
    book.click(book.view(1).get_by_role("button", name="Resume"))
    book.page.until(lambda: sequence(book, 1)[-1] == 22, "what waited")


def test_arrow_keys_select_and_enter_opens(plain: Callable[..., Notebook]) -> None:
    book = plain([SETUP, "for n in range(100): log.add()", SHOW]).run(0).run(1).run(2)
    settled(book, 2, 100)
    book.view(2).locator("table").focus()
    for key in ("ArrowUp", "ArrowUp", "Home", "ArrowDown", "Enter"):
        book.tab.keyboard.press(key)
    book.view(2).locator(".mew-detail pre.mew-pretty").wait_for()
    assert '"id": "e-2"' in book.view(2).locator(".mew-detail").inner_text()
    assert book.view(2).locator("tr[aria-selected=true]").get_attribute("aria-rowindex") == "3"
    book.tab.keyboard.press("Escape")
    assert book.view(2).locator(".mew-detail").is_hidden()
    assert book.tab.locator(".jp-Notebook .jp-Cell").count() == 3


@pytest.mark.slow
@pytest.mark.trap("T-12", "T-26")
def test_what_arrives_undoes_nothing_that_the_reader_asked_for_and_the_keyboard_is_never_lost(
    notebook: Callable[..., Notebook],
) -> None:
    long = "for n in range(1, 101): log.add(raw='x ' * 40000 if n == 95 else None, correlates=12 if n == 98 else 0)"
    # A cell that is run takes the keyboard: what it adds comes after that.
    answer = "threading.Timer(.7, lambda: log.add(correlates=95)).start()"
    slowly = f"feed.interval = 1.5\n{answer}"
    many = "feed.interval = .05\nfor n in range(200): log.add()"
    shown = "feed.columns = ['seq', 'what', 'follows']"
    book = notebook(
        [SETUP, f"{long}\n{shown}\nfeed", answer, slowly, many, "feed.interval = 1.5; log.add()"]
    ).run(0)
    book.run(1)
    settled(book, 1, 100)
    feed = book.view(1)
    table, chain, exact = feed.locator("table"), feed.locator(".mew-chain"), feed.locator("pre.mew-exact")
    focused = "n => n === document.activeElement"

    def opened(seq: int) -> None:
        book.page.until(
            lambda: feed.locator(".mew-which").all_inner_texts() == [f"#{seq}"], f"row {seq}, opened"
        )

    # The whole text stays whole, where the reader is, when an answer to it comes.
    book.click(feed.locator("tr[data-seq='95'] .mew-what"))
    opened(95)
    book.click(feed.get_by_role("button", name="Show the rest"))
    book.page.until(lambda: len(exact.text_content() or "") == 80_000, "the rest")
    assert exact.evaluate(focused)
    exact.evaluate("e => { e.scrollTop = 300; }")
    place = exact.evaluate("e => e.scrollTop")
    assert place > 0
    book.run(2)
    link = chain.get_by_role("button", name="Go to #101,")
    link.wait_for()
    assert len(exact.text_content() or "") == 80_000 and exact.evaluate("e => e.scrollTop") == place
    assert feed.get_by_role("button", name="Show the rest").count() == 0

    # A link of the chain keeps the keyboard when the chain grows.
    book.run(2)
    link.focus()
    chain.get_by_role("button", name="Go to #102,").wait_for()
    assert link.evaluate(focused)

    # A row that was asked for while an answer to the opened one came opens.
    book.run(3)
    feed.evaluate(
        """r => new Promise(done => { const look = () => {
             if (r.dataset.last !== "103") return requestAnimationFrame(look);
             r.querySelector("table").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowUp", bubbles: true }));
             done(); }; look(); })"""
    )
    opened(94)

    # Who goes from row to row does so with the arrows, whatever has led there and is out of sight now.
    book.run(4)
    settled(book, 1, 303)
    table.focus()
    book.tab.keyboard.press("ArrowDown")
    opened(95)
    book.click(feed.locator("tr[data-seq='98'] .mew-what button"))
    opened(12)
    assert feed.locator("tr[data-seq='98']").count() == 0
    book.tab.keyboard.press("ArrowDown")
    opened(13)
    book.tab.keyboard.press("ArrowUp")
    opened(12)
    book.click(chain.get_by_role("button", name="Go to #98,"))
    opened(98)
    assert table.evaluate(focused)
    button = feed.locator("tr[data-seq='95'] .mew-follows button")
    button.evaluate("b => b.focus({ preventScroll: true })")
    assert button.evaluate(focused)
    feed.locator(".mew-scroller").evaluate("s => { s.scrollTop = 0; }")
    button.wait_for(state="detached")
    assert table.evaluate(focused)

    # Text to copy that comes late leaves the keyboard with who writes elsewhere by then.
    book.run(5)
    settled(book, 1, 304)
    book.tab.evaluate(
        "() => { Object.defineProperty(navigator, 'clipboard', { value: undefined, configurable: true }); }"
    )
    book.click(feed.get_by_role("button", name="Copy as JSON"))
    box = feed.get_by_label("Filter by text")
    book.click(box)
    book.tab.keyboard.type("from:")
    feed.get_by_label("The text to copy").wait_for()
    book.tab.keyboard.type("agent")
    assert (
        box.input_value() == "from:agent" and "select this text" in feed.locator(".mew-copied").inner_text()
    )
    book.tab.evaluate("() => { delete navigator.clipboard; }")
