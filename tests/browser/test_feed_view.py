"""The feed of a real space in a real JupyterLab: choosing, opening, following, copying, saving."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from access import accessible, focus_path
from playwright.sync_api import Locator
from real_lab import Notebook

UP = """
import json, mew_lab
lab = mew_lab.up("demo", journal=None)
def kinds(): return [json.loads(r.raw)["kind"] for r in lab.log.records if r.raw]
"""
SCENE = """
import time
from mew_lab.errors import CapabilityViolation, Refused
weather = lab.join("weather-service", can="tool")
@weather.participant.tools.add
def forecast(city: str) -> str:
    "What the weather will be."
    return f"{city}: rain until noon, then 17 degrees and some sun."
helper = lab.join("helper", can="agent")
bot = lab.join("bot", can="proposer")
files = lab.join("files", can="tool")
watcher = lab.join("watcher", can="human")
lab.chat("Please find out whether the walk to the lake can take place on Saturday.")
helper.chat("I ask the weather service, and tell you what it says.", to="human")
p = bot.call("weather-service/forecast", {"city": "Zürich"})
lab.approve(lab.proposals()[-1]); p.result(10)
try: bot.send("capability/grant", {"recipient": "bot", "capabilities": [{"kind": "*"}]}, to="bot")
except (Refused, CapabilityViolation): pass
thought = helper.send("reasoning/start", {"message": "The forecast says rain until noon; the walk begins at two."})
helper.send("reasoning/thought", {"message": "A dry afternoon is likely enough."}, context=thought.id)
helper.send("reasoning/conclusion", {"message": "The walk can take place."}, context=thought.id)
helper.chat("Yes: rain until noon, then 17 degrees. Leave at two.", to="human")
watcher.chat("I bring the umbrellas anyway.")
lab.view.feed
"""
COLUMNS = "lab.view.feed.columns = ['seq', 'from', 'kind', 'what', 'follows', 'verdict']\n"


def all_here(book: Notebook, index: int, expected: int) -> None:
    book.page.until(lambda: book.view(index).get_attribute("data-last") == str(expected), f"row {expected}")


def shown(book: Notebook, index: int) -> list[int]:
    script = "r => [...r.querySelectorAll('tbody tr')].map(t => Number(t.dataset.seq))"
    return list(book.view(index).evaluate(script))


def cells(book: Notebook, index: int, column: str) -> list[str]:
    script = "(r, c) => [...r.querySelectorAll(`tbody td.mew-${c}`)].map(t => t.textContent)"
    return list(book.view(index).evaluate(script, column))


def row(book: Notebook, index: int, seq: int) -> Locator:
    return book.view(index).locator(f"tr[data-seq='{seq}'] .mew-what")


def told(book: Notebook, index: int) -> Any:
    return json.loads(book.text(index))


@pytest.mark.slow
def test_rows_are_chosen_opened_followed_copied_and_saved(plain: Callable[..., Notebook]) -> None:
    where = (
        "where = {k: [r.seq for r in lab.rows.since(0, 999) if r.kind == k] for k in kinds()}\n"
        "print(json.dumps([lab.rows.last_seq, where]))"
    )
    selected = "print(json.dumps([one['kind'] for one in lab.view.feed.selection]))"
    pasted = "from pathlib import Path\nprint(json.dumps([kinds().count('chat'), [str(p) for p in Path('.').glob('demo-*Z.jsonl')]]))"
    book = plain(
        [
            UP,
            SCENE.replace("lab.view.feed\n", f"{COLUMNS}lab.view.feed\n"),
            where,
            selected,
            "",
            pasted,
            "lab.view.feed.columns = ['seq', 'context', 'what']",
        ]
    )
    book.tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    book.run(0).run(1).run(2)
    last, seqs = told(book, 2)
    all_here(book, 1, last)
    feed = book.view(1)
    [proposal] = seqs["mcp/proposal"]
    request, response = seqs["mcp/request"][-1], seqs["mcp/response"][-1]

    # A bad filter says why and hides nothing; a good one hides; chips of participants add to it.
    box = feed.get_by_label("Filter by text")
    everything = feed.locator("table").get_attribute("aria-rowcount")
    box.fill("sender:bot")
    book.page.until(
        lambda: 'have no field "sender:"' in feed.locator(".mew-reason").inner_text(), "the reason"
    )
    assert feed.locator("table").get_attribute("aria-rowcount") == everything
    box.fill("kind:mcp/ verdict:accepted")
    book.page.until(
        lambda: set(cells(book, 1, "kind")) <= {f"mcp/{k}" for k in ("proposal", "request", "response")},
        "MCP only",
    )
    assert feed.locator(".mew-reason").is_hidden()
    book.click(feed.get_by_role("button", name="From: all"))
    book.click(feed.get_by_role("button", name=re.compile(r"^bot \d+, From")))
    book.tab.keyboard.press("Escape")
    book.page.until(
        lambda: proposal in shown(book, 1) and set(cells(book, 1, "from")) == {"bot"}, "the bot's own"
    )

    # The chain leads to rows that are filtered out, and says so.
    book.click(row(book, 1, proposal))
    chain = feed.locator(".mew-chain")
    book.page.until(lambda: f"{response} mcp/response" in chain.inner_text(), "the chain")
    assert [one.split(" ")[0] for one in chain.locator("li").all_inner_texts()] == [
        f"#{proposal}",
        f"#{request}",
        f"#{response}",
    ]
    book.click(chain.get_by_role("button", name=f"Go to #{response},"))
    assert f"#{response} is filtered out." in feed.locator(".mew-hint").inner_text()
    book.click(feed.get_by_role("button", name="Clear the filter and go there"))
    book.page.until(lambda: feed.locator(".mew-which").inner_text() == f"#{response}", "the answer, opened")
    assert feed.locator("tr[aria-selected=true]").get_attribute("data-seq") == str(response)
    assert '\n  "kind": "mcp/response"' in feed.locator(".mew-pretty").inner_text()
    book.click(feed.get_by_role("tab", name="Raw"))
    assert "rain until noon" in feed.locator(".mew-exact").inner_text()
    assert feed.locator(".mew-pretty").is_hidden()
    assert "has a permission that allows it" in feed.locator(".mew-why").inner_text()

    # The count leads to what answers a row; the verdict's sentence comes with the mouse.
    book.click(feed.locator(f"tr[data-seq='{proposal}'] .mew-follows button"))
    book.page.until(
        lambda: feed.locator("tr[aria-selected=true]").get_attribute("data-seq") == str(request),
        "the fulfilment",
    )
    refused = seqs["capability/grant"][-1]
    feed.locator(f"tr[data-seq='{refused}'] .mew-verdict").hover()
    book.page.until(
        lambda: (
            "Refused: capability_violation."
            in (feed.locator(f"tr[data-seq='{refused}'] .mew-verdict").get_attribute("title") or "")
        ),
        "why",
    )

    # Several rows are read from Python.
    chats = seqs["chat"]
    book.click(row(book, 1, chats[0]))
    row(book, 1, chats[1]).click(modifiers=["ControlOrMeta"])
    row(book, 1, proposal).click(modifiers=["ControlOrMeta"])
    book.page.until(lambda: "3 selected" in feed.locator(".mew-note").inner_text(), "three rows")
    book.page.until(
        lambda: told(book.run(3), 3) == ["chat", "chat", "mcp/proposal"], "the selection in Python"
    )
    book.click(row(book, 1, chats[0]))
    row(book, 1, chats[0] + 2).click(modifiers=["Shift"])
    book.page.until(lambda: len(told(book.run(3), 3)) == 3, "the range in Python")

    # A copy is the exact text, a line of Python sends it again, the log is saved.
    book.click(row(book, 1, chats[0]))
    book.page.until(lambda: feed.locator(".mew-which").inner_text() == f"#{chats[0]}", "the first chat")
    read = "() => navigator.clipboard.readText()"
    book.click(feed.get_by_role("button", name="Copy as JSON"))
    book.page.until(lambda: "copied as JSON" in feed.locator(".mew-copied").inner_text(), "the copy")
    assert json.loads(book.tab.evaluate(read))["payload"]["text"].startswith("Please find out whether")
    book.click(feed.get_by_role("button", name="Copy as Python"))
    book.page.until(lambda: "line of Python" in feed.locator(".mew-copied").inner_text(), "the line")
    book.write(4, book.tab.evaluate(read))
    book.run(4)
    book.click(feed.get_by_role("button", name="Save log"))
    book.page.until(lambda: "Saved" in feed.locator(".mew-notices").inner_text(), "the file")
    count, files = told(book.run(5), 5)
    assert count == len(chats) + 1 and len(files) == 1
    book.run(6)
    book.page.until(lambda: feed.locator("th").all_inner_texts() == ["#", "Context", "What"], "the columns")

    # A word and a button hide rows; "clear" takes both away and puts the keyboard where the next word goes.
    count, everything = feed.locator("table"), feed.locator("table").get_attribute("aria-rowcount")
    clear = feed.get_by_role("button", name="Clear", exact=True)
    assert not clear.is_visible()
    kinds = feed.get_by_role("button", name="Kind: ")
    book.click(kinds)
    chats_only = feed.get_by_role("button", name=re.compile(r"^Chat \d+, Kinds"))
    book.click(chats_only)
    assert (
        chats_only.get_attribute("aria-pressed") == "true"
        and kinds.get_attribute("aria-label") == "Kind: Chat"
    )
    box.fill("umbrellas")
    book.page.until(lambda: shown(book, 1) == [chats[-1]], "one row")
    book.click(clear)
    book.page.until(lambda: count.get_attribute("aria-rowcount") == everything, "every row")
    assert box.input_value() == "" and kinds.get_attribute("aria-label") == "Kind: all"
    assert box.evaluate("b => b === document.activeElement") and not clear.is_visible()


@pytest.mark.slow
def test_an_opened_row_learns_of_its_answers_and_a_closed_clipboard_is_no_end(
    plain: Callable[..., Notebook],
) -> None:
    answer = "lab.send('chat', {'text': 'yes'}, correlation_id=[question])"
    show = "lab.chat('hello'); question = lab.rows.since(0, 999)[-1].id\nlab.view.feed"
    book = plain([UP, show, "print(lab.rows.last_seq)", answer, answer]).run(0).run(1).run(2)
    last = int(book.text(2))
    all_here(book, 1, last)
    feed = book.view(1)
    book.click(row(book, 1, last))
    book.page.until(lambda: "no message answers it" in feed.locator(".mew-story").inner_text(), "the row")
    book.run(3)
    chain = feed.locator(".mew-chain")
    book.page.until(lambda: f"{last + 1} chat" in chain.inner_text(), "the answer in the chain")
    assert last in shown(book, 1)
    book.click(feed.get_by_role("button", name="Pause"))
    book.run(4)
    book.page.until(lambda: "1 new" in feed.locator("button.mew-follow").inner_text(), "one that waits")
    book.tab.evaluate(
        "() => { Object.defineProperty(navigator, 'clipboard', { value: undefined, configurable: true }); }"
    )
    book.click(feed.get_by_role("button", name="Copy as Python"))
    text = feed.get_by_label("The text to copy")
    text.wait_for()
    chosen = "t => [document.activeElement === t, t.value.slice(t.selectionStart, t.selectionEnd)]"
    assert text.evaluate(chosen) == [True, "lab.send('chat', {'text': 'hello'})"]
    book.tab.evaluate("() => { delete navigator.clipboard; }")
    # Opened anew the row knows the answer that waits, and how to come to it.
    book.click(row(book, 1, last))
    book.click(chain.get_by_role("button", name=f"Go to #{last + 2},"))
    assert f"#{last + 2} waits until you resume." in feed.locator(".mew-hint").inner_text()
    book.click(feed.get_by_role("button", name="Resume and go there"))
    book.page.until(
        lambda: feed.locator("tr[aria-selected=true]").get_attribute("data-seq") == str(last + 2), "the row"
    )


@pytest.mark.slow
def test_keys_alone_do_it_in_both_themes_at_every_width(notebook: Callable[..., Notebook]) -> None:
    book = notebook([UP, SCENE, "print(lab.rows.last_seq)"]).run(0).run(1).run(2)
    last = int(book.text(2))
    all_here(book, 1, last)
    feed = book.view(1)
    for name in ("Kind", "From", "Context"):
        book.click(feed.get_by_role("button", name=f"{name}: all"))
        listed = feed.get_by_role("dialog", name=name)
        assert listed.locator(":focus").count() == 1
        accessible(book, feed)
        book.tab.keyboard.press("Escape")
        assert not listed.count() and name in feed.locator(":focus").inner_text()
    feed.get_by_label("Filter by text").fill("-")
    feed.locator(".mew-reason").wait_for()
    feed.get_by_label("Filter by text").fill("")
    feed.locator("table").focus()
    for key in ("End", "ArrowUp", "Shift+ArrowUp", "Enter"):
        book.tab.keyboard.press(key)
    feed.locator(".mew-chain li").first.wait_for()
    assert feed.locator("tr[aria-selected=true]").count() == 2
    accessible(book, feed, pictures="feed-view")
    feed.evaluate("r => { r.style.width = '360px'; }")
    book.page.until(lambda: feed.locator("th").all_inner_texts() == ["#", "From → To", "What"], "what fits")
    feed.evaluate("r => { r.style.width = ''; }")
    path = focus_path(book, feed)
    wanted = [
        "input Filter by text",
        "input Find in the messages",
        "button Kind: all",
        "button From: all",
        "button Context: all",
        "button Columns",
        "button Pause",
        "button Save log",
        "table Messages",
        "button Time",
        "button Copy as JSON",
        "button Close",
        "pre Laid out",
    ]
    missing = [begin for begin in wanted if not any(one.startswith(begin) for one in path)]
    assert not missing, path
    places = [next(n for n, one in enumerate(path) if one.startswith(begin)) for begin in wanted]
    assert places == sorted(places)
    # Left goes to what a row answers, right to what answers it.
    answered = (feed.locator(".mew-answered").first.text_content() or "").removeprefix("⇠#")
    row(book, 1, int(answered)).click()
    feed.locator("table").focus()
    chosen = feed.locator("tr[aria-selected=true]")
    book.tab.keyboard.press("ArrowRight")
    book.page.until(lambda: f"⇠#{answered}" in chosen.inner_text(), "what answers it")
    book.tab.keyboard.press("ArrowLeft")
    book.page.until(lambda: chosen.get_attribute("data-seq") == answered, "what it answers")

    # A row whose text is still on its way when it is shut stays shut.
    book.tab.keyboard.press("ArrowRight")
    book.tab.keyboard.press("Escape")
    book.tab.evaluate(
        "async () => { await jupyterapp.shell.currentWidget.sessionContext.session.kernel.requestKernelInfo(); return 0; }"
    )
    book.page.until(lambda: feed.locator(".mew-detail").is_hidden(), "the row to be shut")
    assert book.tab.locator(".jp-Notebook .jp-Cell").count() == 3
    for seq in (shown(book, 1)[-2], shown(book, 1)[-4]):
        row(book, 1, seq).click()
        feed.locator(".mew-chain li").first.wait_for()
    book.page.until(lambda: "/s" not in feed.locator(".mew-counts-line").inner_text(), "the rate to fall")
