"""The feed shows every envelope once, in order, and leaves the reader where she is."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator
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


def view(book: Notebook, index: int) -> Locator:
    return book.area(index).locator("section.mew-feed")


def last(book: Notebook, index: int) -> int:
    return int(view(book, index).get_attribute("data-last") or 0)


def sequence(book: Notebook, index: int) -> list[int]:
    """The numbers of the rows that are in the page now, from the top."""
    script = "r => [...r.querySelectorAll('tbody tr')].map(t => Number(t.dataset.seq))"
    return list(view(book, index).evaluate(script))


def settled(book: Notebook, index: int, expected: int) -> None:
    book.page.until(lambda: last(book, index) == expected, f"row {expected} to arrive")


def test_every_row_is_shown_once_and_in_order(plain: Callable[..., Notebook]) -> None:
    book = (
        plain([SETUP, SHOW, "for n in range(1200): log.add(what=f'row {n}')", COUNT])
        .run(0)
        .run(1)
        .run(2)
        .run(3)
    )
    settled(book, 1, 1200)
    assert view(book, 1).get_attribute("data-rows") == "1200"
    seen: set[int] = set()
    scroller = view(book, 1).locator(".mew-scroller")
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


PRODUCERS, EACH = 4, 1500
PRODUCE = f"""
def produce(name):
    for n in range({EACH}):
        log.add(what=f"{{name}}:{{n}}", sender=f"p{{name}}")
        if n % 10 == 0:
            time.sleep(0.01)
sent, publish = [], feed.send
def counted(content, *more):
    sent.append((time.monotonic(), threading.get_ident()))
    publish(content, *more)
feed.send = counted
began = time.monotonic()
threads = [threading.Thread(target=produce, args=(name,)) for name in range({PRODUCERS})]
for thread in threads: thread.start()
for thread in threads: thread.join()
took = time.monotonic() - began
"""
HELD = """
import json
print(json.dumps({"rows": [row.what for row in log.rows], "faults": len(feed.faults), "threads": len({thread for _, thread in sent}),
                  "batches": len(sent), "took": took, "interval": feed.interval}))
"""


@pytest.mark.slow
@pytest.mark.trap("T-19")
def test_four_threads_at_once_leave_the_page_with_what_python_holds(
    plain: Callable[..., Notebook],
) -> None:
    book = plain([SETUP, SHOW, PRODUCE, HELD]).run(0).run(1)
    settled(book, 1, 0)
    book.run(2)
    book.run(3)
    settled(book, 1, PRODUCERS * EACH)
    held = json.loads(book.text(3))
    assert view(book, 1).get_attribute("data-rows") == str(PRODUCERS * EACH) == str(len(held["rows"]))
    scroller, shown = view(book, 1).locator(".mew-scroller"), dict[int, str]()
    read = "r => [...r.querySelectorAll('tbody tr[data-seq]')].map(t => [Number(t.dataset.seq), t.querySelector('.mew-what').innerText])"
    for top in range(0, (PRODUCERS * EACH + 20) * 28, 3000):
        scroller.evaluate("(s, top) => { s.scrollTop = top; }", top)
        book.tab.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        shown |= dict(view(book, 1).evaluate(read))
    assert len(shown) > 1000 and max(shown) == PRODUCERS * EACH and min(shown) == 1
    wrong = {seq: text for seq, text in shown.items() if held["rows"][seq - 1] not in text}
    assert wrong == {}
    assert held["faults"] == 0 and held["threads"] == 1
    assert held["batches"] <= held["took"] / held["interval"] + 3
    assert book.page.errors == []


@pytest.mark.slow
@pytest.mark.trap("T-7")
def test_the_table_goes_on_while_the_main_thread_is_busy(notebook: Callable[..., Notebook]) -> None:
    busy = "stream(200, 8)\nend = time.monotonic() + 5\nwhile time.monotonic() < end: sum(range(1000))"
    book = notebook([SETUP, SHOW, busy]).run(0).run(1)
    settled(book, 1, 0)
    book.run(2, wait=False)
    before = int(view(book, 1).get_attribute("data-paints") or 0)
    book.wait(2)
    painted = int(view(book, 1).get_attribute("data-paints") or 0) - before
    print(f"\nrepaints in 5 s of a busy main thread: {painted} (mark 40)")
    assert painted >= 40


@pytest.mark.trap("T-12")
def test_appends_leave_scroll_position_and_selection_alone(plain: Callable[..., Notebook]) -> None:
    book = plain([SETUP, SHOW, "for n in range(500): log.add()", "for n in range(500): log.add()"])
    book.run(0).run(1).run(2)
    settled(book, 1, 500)
    scroller = view(book, 1).locator(".mew-scroller")
    scroller.hover()
    book.tab.mouse.wheel(0, -3000)
    tops: list[float] = []

    def still() -> bool:
        tops.append(scroller.evaluate("s => s.scrollTop"))
        return len(tops) > 10 and tops[-1] < 11500 and len(set(tops[-10:])) == 1

    book.page.until(still, "the wheel to run out")
    row = view(book, 1).locator("tbody tr").nth(8)
    book.click(row.locator(".mew-what"))
    seq = row.get_attribute("data-seq")
    view(book, 1).locator(".mew-detail pre.mew-pretty").wait_for()
    before = (scroller.evaluate("s => s.scrollTop"), sequence(book, 1))
    book.run(3)
    settled(book, 1, 1000)
    assert (scroller.evaluate("s => s.scrollTop"), sequence(book, 1)) == before
    assert view(book, 1).locator("tr[aria-selected=true]").get_attribute("data-seq") == seq
    assert "500 new" in view(book, 1).locator("button.mew-follow").inner_text()
    book.click(view(book, 1).locator("button.mew-follow"))
    book.page.until(lambda: sequence(book, 1)[-1] == 1000, "the newest row")


@pytest.mark.slow
@pytest.mark.trap("T-12")
def test_a_long_log_opens_with_its_newest_rows_and_earlier_ones_move_nothing(
    plain: Callable[..., Notebook],
) -> None:
    slowly = "feed.interval = 1.5\nfor n in range(7000): log.add(correlates=n if n == 5000 else 0)\nfeed"
    book = plain([SETUP, slowly, COUNT]).run(0).run(1)
    settled(book, 1, 7000)
    feed, scroller = view(book, 1), view(book, 1).locator(".mew-scroller")
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
        lambda: "/s" not in view(book, 1).locator(".mew-counts-line").inner_text(), "the rate to fall"
    )
    before = view(book, 1).get_attribute("data-paints")
    book.page.pause(1.5)
    assert view(book, 1).get_attribute("data-paints") == before


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
    assert view(book, 1).get_attribute("data-rows") == str(total)


@pytest.mark.slow
@pytest.mark.trap("T-13")
def test_a_second_view_gets_its_rows_while_a_cell_is_busy(notebook: Callable[..., Notebook]) -> None:
    busy = "display(feed)\nend = time.monotonic() + 4\nwhile time.monotonic() < end: time.sleep(.01)"
    book = notebook([SETUP, "for n in range(50): log.add()", SHOW, busy]).run(0).run(1).run(2)
    settled(book, 2, 50)
    book.run(3, wait=False)
    began = time.monotonic()
    settled(book, 3, 50)
    assert book.running(3), "the second view got its rows only after the cell"
    print(f"\nsnapshot while a cell is busy: {time.monotonic() - began:.2f} s (mark 1 s)")


@pytest.mark.threat(3)
def test_what_a_peer_writes_is_text_in_the_feed(plain: Callable[..., Notebook]) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    add = (
        f"h = {hostile!r}\nlog.name, unseen = h, h + '\\u202e'\n"
        "log.add(h, unseen, raw=unseen + 'x' * 70000, sender=h, to=(h,), context=h, code=h, id=h)"
    )
    book = plain([SETUP, add, SHOW]).run(0).run(1).run(2)
    settled(book, 2, 1)
    book.click(view(book, 2).locator("tbody tr .mew-what"))
    exact = view(book, 2).locator(".mew-detail pre.mew-exact")
    exact.wait_for()
    assert exact.inner_text().startswith(hostile + "\\u202e")
    assert len(exact.inner_text()) < 66000
    book.click(view(book, 2).get_by_role("button", name="Show the rest"))
    book.page.until(lambda: len(exact.inner_text()) > 70000, "the rest")
    assert view(book, 2).inner_text().count(hostile) >= 6
    assert view(book, 2).locator("img").count() == 0
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
    book.click(view(book, 2).locator("tbody tr .mew-what"))
    view(book, 2).locator(".mew-detail pre.mew-pretty").wait_for()
    assert markdown in view(book, 2).inner_text()
    assert view(book, 2).locator("a, img, iframe, script, style, object").count() == 0
    assert view(book, 2).get_by_role("button", name="Approve").count() == 0
    assert [url for url in asked if "127.0.0.1:9/" in url] == []
    assert book.page.dialogs == []


@pytest.mark.slow
def test_kinds_and_text_filter_the_rows(plain: Callable[..., Notebook]) -> None:
    add = "for n in range(20): log.add('chat', f'“talk {n}”'); log.add('mcp/request', f't{n}()')"
    book = plain([SETUP, add, SHOW]).run(0).run(1).run(2)
    settled(book, 2, 40)
    table = view(book, 2).locator("table")
    book.click(view(book, 2).get_by_role("button", name="Kind: all"))
    book.click(view(book, 2).locator("[data-value=mcp]"))
    book.page.until(lambda: table.get_attribute("aria-rowcount") == "21", "requests only")
    view(book, 2).get_by_label("Filter by text").fill("t19")
    book.page.until(lambda: table.get_attribute("aria-rowcount") == "2", "one row")
    assert sequence(book, 2) == [40]
    view(book, 2).get_by_label("Filter by text").fill("nothing like it")
    book.page.until(lambda: "No message matches the filter" in view(book, 2).inner_text(), "the empty state")


def test_paused_rows_come_when_the_pause_ends(plain: Callable[..., Notebook]) -> None:
    book = (
        plain([SETUP, SHOW, "for n in range(10): log.add()", "for n in range(12): log.add()"])
        .run(0)
        .run(1)
        .run(2)
    )
    settled(book, 1, 10)
    book.click(view(book, 1).get_by_role("button", name="Pause"))
    book.run(3)
    book.page.until(lambda: "12 new" in view(book, 1).inner_text(), "the count of what waits")
    assert sequence(book, 1)[-1] == 10
    book.click(view(book, 1).get_by_role("button", name="Resume"))
    book.page.until(lambda: sequence(book, 1)[-1] == 22, "what waited")


def test_arrow_keys_select_and_enter_opens(plain: Callable[..., Notebook]) -> None:
    book = plain([SETUP, "for n in range(100): log.add()", SHOW]).run(0).run(1).run(2)
    settled(book, 2, 100)
    view(book, 2).locator("table").focus()
    for key in ("ArrowUp", "ArrowUp", "Home", "ArrowDown", "Enter"):
        book.tab.keyboard.press(key)
    view(book, 2).locator(".mew-detail pre.mew-pretty").wait_for()
    assert '"id": "e-2"' in view(book, 2).locator(".mew-detail").inner_text()
    assert view(book, 2).locator("tr[aria-selected=true]").get_attribute("aria-rowindex") == "3"
    book.tab.keyboard.press("Escape")
    assert view(book, 2).locator(".mew-detail").is_hidden()
    assert book.tab.locator(".jp-Notebook .jp-Cell").count() == 3


@pytest.mark.slow
@pytest.mark.trap("T-12", "T-26")
def test_what_arrives_undoes_nothing_that_the_reader_asked_for_and_the_keyboard_is_never_lost(
    plain: Callable[..., Notebook],
) -> None:
    long = "for n in range(1, 101): log.add(raw='x ' * 40000 if n == 95 else None, correlates=12 if n == 98 else 0)"
    # A cell that is run takes the keyboard: what it adds comes after that.
    answer = "threading.Timer(.7, lambda: log.add(correlates=95)).start()"
    slowly = f"feed.interval = 1.5\n{answer}"
    many = "feed.interval = .05\nfor n in range(200): log.add()"
    shown = "feed.columns = ['seq', 'what', 'follows']"
    book = plain(
        [SETUP, f"{long}\n{shown}\nfeed", answer, slowly, many, "feed.interval = 1.5; log.add()"]
    ).run(0)
    book.run(1)
    settled(book, 1, 100)
    feed = view(book, 1)
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


@pytest.mark.slow
def test_what_no_view_can_hold_is_said_and_the_counts_are_of_what_is_held(
    plain: Callable[..., Notebook],
) -> None:
    small = "from mew_lab.views.feed import widget as module; module.RING = 100"
    add = "for n in range(800): log.add(sender='bot' if n % 2 else 'git', context='' if n else 'c')"
    book = plain([SETUP, small, SHOW, "log.add()", add]).run(0).run(1).run(2).run(3)
    settled(book, 2, 1)
    book.run(4)
    settled(book, 2, 801)
    feed = view(book, 2)
    held = int(feed.get_attribute("data-rows") or 0)
    assert held <= 600
    book.page.until(
        lambda: (
            f"Messages before #{802 - held}: lab.log.df, lab.log.filter(…)"
            in feed.locator(".mew-note").inner_text()
        ),
        "where",
    )
    book.click(feed.get_by_role("button", name="Kind: all"))
    assert feed.locator("[data-value=chat] .mew-count").inner_text() == str(held)
    book.click(feed.get_by_role("button", name="From: all"))
    bots = str(sum(seq % 2 for seq in range(802 - held, 802)))
    book.page.until(lambda: feed.locator("[data-value=bot] .mew-count").inner_text() == bots, "the bot's")


LOAD = """
import resource
rows = stream(5000, 30)
sent, publish = [], feed.send
def counted(content, *more):
    sent.append(time.monotonic())
    publish(content, *more)
feed.send = counted
before = resource.getrusage(resource.RUSAGE_SELF)
began = time.monotonic()
"""
TOLD = """
rows.join(); after = resource.getrusage(resource.RUSAGE_SELF); seconds = time.monotonic() - began
cpu = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / seconds
worst = max(sum(1 for s in sent if t <= s < t + 1) for t in sent)
print(log.last_seq, len(feed.faults), worst, round(cpu * 100), round(log.last_seq / seconds))
"""


@pytest.mark.slow
@pytest.mark.trap("T-10")
def test_five_thousand_rows_a_second_leave_no_gap(notebook: Callable[..., Notebook]) -> None:
    book = notebook([SETUP, SHOW, LOAD, "1", TOLD]).run(0).run(1).run(2)
    trips = []
    end = time.monotonic() + 28
    while time.monotonic() < end:
        began = time.monotonic()
        book.run(3)
        trips.append(time.monotonic() - began)
    book.run(4, deadline=60)
    total, faults, worst, cpu, rate = map(int, book.text(4).split())
    settled(book, 1, total)
    here = sequence(book, 1)
    assert here == list(range(here[0], total + 1))
    assert faults == 0 and worst <= 25
    assert int(view(book, 1).get_attribute("data-rows") or 0) <= 20_500
    trips.sort()
    print(f"\n{rate} rows/s: at most {worst} messages/s (mark 25), CPU {cpu} % with the producer (mark 15)")
    print(
        f"cell round trip with the test's own polling: p95 {trips[int(len(trips) * 0.95)]:.2f} s (mark 0.15)"
    )
