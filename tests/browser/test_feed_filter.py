"""The filter of the feed in a real JupyterLab: conditions that the kernel evaluates, and the menu of a cell."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from real_lab import Notebook
from test_feed_view import all_here, cells, shown

UP = """
import json, mew_lab
lab = mew_lab.up("demo", journal=None)
bot = lab.join("bot", can="proposer")
files = lab.join("files", can="tool")
@files.participant.tools.add
def read(path: str) -> str:
    return path
lab.chat("Please read the file.")
bot.chat("I propose a call.")
p = bot.call("files/read", {"path": "a.txt"})
lab.approve(lab.proposals()[-1]); p.result(10)
bot.chat("It says: disk full.")
lab.view.feed.columns = ["seq", "from", "kind", "what"]
"""
ROWS = "print(json.dumps([lab.rows.last_seq, {row.seq: [row.kind, row.sender] for row in lab.rows.since(0, 99)}]))"


@pytest.mark.slow
def test_conditions_filter_live_and_a_cell_becomes_a_filter(plain: Callable[..., Notebook]) -> None:
    book = plain([UP, "lab.view.feed", ROWS, 'bot.chat("Later.")', 'bot.chat("No word of it.", to="human")'])
    book.run(0).run(1).run(2)
    last, rows = json.loads(book.text(2))
    kinds = {int(seq): kind for seq, (kind, _) in rows.items()}
    senders = {int(seq): sender for seq, (_, sender) in rows.items()}
    all_here(book, 1, last)
    feed = book.view(1)
    box = feed.get_by_label("Filter by text")

    # Each key press is a filter of its own; the last one counts.
    box.press_sequentially('kind ~ "mcp/*" and payload.params.name == read')
    calls = [seq for seq, kind in kinds.items() if kind in ("mcp/proposal", "mcp/request")]
    called = {seq for seq in calls if senders[seq] in ("bot", "human")}
    book.page.until(
        lambda: (
            set(shown(book, 1)) <= called
            and {kinds[seq] for seq in shown(book, 1)} == {"mcp/proposal", "mcp/request"}
        ),
        "the calls",
    )
    assert feed.locator(".mew-reason").is_hidden()

    # A fault is told with its place, and hides nothing.
    box.fill("knid == chat")
    book.page.until(lambda: "did you mean kind?" in feed.locator(".mew-reason").inner_text(), "the fault")
    assert feed.locator(".mew-reason mark").inner_text() == "knid"
    book.page.until(lambda: len(shown(book, 1)) > 3, "what a fault hides nothing of")

    # Fields and values that may follow are offered, those of the messages here among them.
    offered = feed.locator("datalist option")
    for text, whole in (
        ("kind == chat and from == bo", "kind == chat and from == bot"),
        ("payload.params.name == re", "payload.params.name == read"),
        ("kind == chat and diag.sev", "kind == chat and diag.severity"),
    ):
        box.fill(text)
        book.page.until(
            lambda whole=whole: whole in offered.evaluate_all("all => all.map(o => o.value)"), whole
        )

    # Messages that arrive pass as well.
    box.fill("kind == chat and from == bot")
    chats = [seq for seq, kind in kinds.items() if kind == "chat" and senders[seq] == "bot"]
    book.page.until(lambda: shown(book, 1) == chats, "the bot's chat")
    book.run(3)
    book.page.until(lambda: len(shown(book, 1)) == len(chats) + 1, "what arrived")
    assert shown(book, 1)[:-1] == chats and shown(book, 1)[-1] > last

    # The menu of a cell: its value is applied, and another one is excluded.
    box.fill("")
    book.page.until(lambda: len(set(cells(book, 1, "from"))) > 2, "everything")
    feed.locator(f"tr[data-seq='{chats[0]}'] td.mew-kind").click(button="right")
    book.click(feed.get_by_role("menuitem", name="Apply as filter"))
    book.page.until(lambda: box.input_value() == "kind == chat", "the filter of the cell")
    book.page.until(lambda: set(cells(book, 1, "kind")) == {"chat"}, "chat alone")
    feed.locator(f"tr[data-seq='{chats[0]}'] td.mew-from").click(button="right")
    book.click(feed.get_by_role("menuitem", name="Exclude"))
    book.page.until(lambda: set(cells(book, 1, "from")) == {"human"}, "without the bot")
    assert box.input_value() == "(kind == chat) and not (from == bot)"


@pytest.mark.slow
def test_selected_messages_are_copied_in_four_forms(plain: Callable[..., Notebook]) -> None:
    code = "before = lab.rows.last_seq"
    again = "print(json.dumps([[r.sender, r.what] for r in lab.rows.since(before, 99) if r.kind == 'chat']))"
    book = plain([UP, "lab.view.feed", ROWS, code, "", again]).run(0).run(1).run(2)
    book.tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    last, rows = json.loads(book.text(2))
    all_here(book, 1, last)
    feed = book.view(1)
    chats = [int(seq) for seq, (kind, _) in rows.items() if kind == "chat"]
    copy = feed.get_by_role("button", name="Copy as ▾")
    assert not copy.is_visible()
    feed.locator(f"tr[data-seq='{chats[0]}'] td.mew-kind").click()
    for seq in chats[1:]:
        feed.locator(f"tr[data-seq='{seq}'] td.mew-kind").click(modifiers=["ControlOrMeta"])
    texts = {}
    for name in ("JSONL", "Markdown", "Mermaid", "Python"):
        book.click(copy)
        book.click(feed.get_by_role("menuitem", name=name))
        told = f"{len(chats)} messages copied as {name}."
        book.page.until(lambda told=told: told in feed.locator(".mew-copied").inner_text(), told)
        texts[name] = book.tab.evaluate("() => navigator.clipboard.readText()")
    assert len(texts["JSONL"].splitlines()) == len(chats)
    assert all(f"## #{seq} " in texts["Markdown"] for seq in chats)
    assert texts["Mermaid"].startswith("sequenceDiagram")
    # The Python runs, and says the same again.
    book.run(3)
    book.write(4, texts["Python"])
    book.run(4).run(5)
    wanted = ["“Please read the file.”", "“I propose a call.”", "“It says: disk full.”"]
    assert [what for _, what in json.loads(book.text(5))] == wanted
    assert [sender for sender, _ in json.loads(book.text(5))] == ["human", "bot", "bot"]
