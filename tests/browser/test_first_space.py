"""The first lesson's story in a real browser: propose, look, click, and see the real MCP server's answer."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator
from real_lab import Notebook
from scenes import choose, look_at

MARKER = f"commit {secrets.token_hex(6)}"
UP = "%load_ext mew_lab\n%mew up"
REPO = f"""
import os, pathlib, subprocess, tempfile
os.chdir(tempfile.mkdtemp())
repo = str(pathlib.Path('repo').resolve())
env = dict(os.environ, GIT_CONFIG_GLOBAL='/dev/null', GIT_CONFIG_NOSYSTEM='1', GIT_AUTHOR_NAME='A', GIT_AUTHOR_EMAIL='a@example.org',
           GIT_COMMITTER_NAME='A', GIT_COMMITTER_EMAIL='a@example.org')
subprocess.run(['git', 'init', '-q', repo], check=True, env=env)
subprocess.run(['git', '-C', repo, 'commit', '-q', '--allow-empty', '-m', {MARKER!r}], check=True, env=env)
"""
BRIDGE = "%mew bridge git -- python -m mcp_server_git --repository $repo"
JOIN = "bot = lab.join('bot', can='proposer')"
CARDS = "%mew approvals"
FEED = "%mew feed"
CALL = "p = bot.call('git/git_log', {'repo_path': repo})\np"
AWAIT = "import time\nprint((await p).text)\nprint('woke', time.time())"
BLOCK = "import time\nprint(p.result(30).text)\nprint('woke', time.time())"
STORY = [UP, REPO, BRIDGE, JOIN, CARDS, FEED, CALL, AWAIT]


def told(
    notebook: Callable[..., Notebook], last: str = AWAIT, kernel: str = "here", after: tuple[str, ...] = ()
) -> Notebook:
    """The story up to the waiting cell, which is number 7; `after` are cells below it, not run yet."""
    book = notebook([*STORY[:-1], last, *after], kernel=kernel)
    for n in range(7):
        book.run(n)
        assert "Error" not in book.text(n), book.text(n)
    return book


def card(book: Notebook, number: int = 0) -> Locator:
    return book.area(4).locator("li.mew-card").nth(number)


def armed(book: Notebook, button: Locator) -> Locator:
    look_at(button)
    book.page.until(lambda: button.get_attribute("aria-disabled") == "false", "the button to arm")
    return button


def approve_while_waiting(book: Notebook) -> float:
    """Clicks with the mouse while cell 7 waits; returns the seconds from the click to the cell's waking."""
    book.run(7, wait=False)
    button = armed(book, card(book).locator("button.mew-approve"))
    assert book.running(7)
    before = time.time()
    book.click(button)
    book.wait(7)
    text = book.text(7)
    assert MARKER in text, text
    return float(text.rsplit("woke", 1)[1]) - before


@pytest.mark.slow
@pytest.mark.trap("T-1")
@pytest.mark.req("P-9.1-1", "P-3.2.1-1", "P-3.2.1-6", "P-3.2.1-7")
def test_a_click_approves_and_the_waiting_cell_shows_what_git_answered(
    notebook: Callable[..., Notebook],
) -> None:
    book = told(notebook)
    seconds = approve_while_waiting(book)
    print(f"\nclick to result, real space and real MCP server: {seconds:.2f} s (mark 1 s)")
    feed = book.area(5).locator("section.mew-feed")
    kinds = "r => [...r.querySelectorAll('tbody tr .mew-dot')].map(dot => dot.title)"
    book.page.until(
        lambda: any("mcp/response" in text for text in feed.evaluate(kinds)), "the answer in the feed"
    )
    book.page.shots("first-space-feed", feed)
    assert book.page.errors == [] and book.page.dialogs == []


@pytest.mark.slow
def test_the_feed_shows_every_envelope_of_the_journal_once(notebook: Callable[..., Notebook]) -> None:
    count = "print(len(lab.log), lab.rows.count(), len(lab.log.df), lab.log.df['id'].is_unique, lab.rows.last_seq)"
    book = told(notebook, after=(count,))
    approve_while_waiting(book)
    book.run(8)
    envelopes, rows, frame, unique, newest = book.text(8).split()
    assert envelopes == rows == frame and unique == "True"
    feed = book.area(5).locator("section.mew-feed")
    book.page.until(lambda: feed.get_attribute("data-last") == newest, "the last row")
    assert feed.get_attribute("data-rows") == rows


@pytest.mark.slow
@pytest.mark.req("P-3.3.2-1", "S-L2-24", "S-L2-25")
def test_a_rejection_reaches_the_cell_that_waits(notebook: Callable[..., Notebook]) -> None:
    book = told(notebook)
    book.run(7, wait=False)
    armed(book, card(book).locator("button.mew-approve"))
    reject = card(book).locator("button.mew-reject")
    book.click(reject)
    choose(card(book), "Unsafe")
    book.wait(7)
    assert "ProposalRejected" in book.text(7) and "Proposal rejected by human" in book.text(7)
    assert "Traceback" not in book.text(7)


@pytest.mark.slow
@pytest.mark.threat(3, 14, 17)
@pytest.mark.trap("T-14")
def test_hostile_text_everywhere_is_only_text(notebook: Callable[..., Notebook]) -> None:
    evil = "<img src=x onerror='window.pwned=1'><script>window.pwned=2</script>\u202e\x1b[31m"
    plant = f"""
evil = {evil!r}
bot.chat(evil)
bot.send('chat', {{'text': evil, evil: evil}}, context=evil, correlation_id=evil.replace('\\x1b', '').replace('\\u202e', ''))
q = bot.propose('git/' + evil, {{evil: evil, 'nested': {{evil: [evil]}}}})
lab.reject(q.id, evil)
r = bot.propose('git/git_log', {{'repo_path': evil}})
"""
    book = notebook(
        [UP, REPO, BRIDGE, JOIN, CARDS, FEED, plant, "%mew proposals", "lab.log.df.tail(3)", "%mew history"]
    )
    for n in range(10):
        book.run(n)
        assert "Error" not in book.text(n), book.text(n)
    armed(book, card(book, 0).locator("button.mew-approve"))
    feed = book.area(5).locator("section.mew-feed")
    book.page.until(lambda: int(feed.get_attribute("data-last") or 0) >= 8, "the rows")
    for number in (0, 1):  # the open one, and the rejected one, which is one line now
        assert "onerror" in (card(book, number).text_content() or "")
    assert book.tab.evaluate("() => window.pwned") is None
    assert book.tab.locator(".jp-OutputArea img, .jp-OutputArea script").count() == 0
    assert book.page.dialogs == []


@pytest.mark.slow
@pytest.mark.trap("T-15", "T-23")
@pytest.mark.threat(1, 5)
def test_the_saved_notebook_keeps_a_picture_and_no_secret(notebook: Callable[..., Notebook]) -> None:
    tell = "import shutil; print(shutil.copy(lab.token_file(), 'copy.txt') and os.path.abspath('copy.txt'))"
    book = told(notebook, after=(tell,))
    approve_while_waiting(book)
    book.run(8)
    token = Path(book.text(8).split()[-1]).read_text().strip()
    saved = json.dumps(book.save())
    assert len(token) > 20 and token not in saved
    assert "object at 0x" not in saved
    assert "Snapshot of" in saved and "mcp/proposal" in saved


@pytest.mark.slow
@pytest.mark.trap("T-1")
@pytest.mark.timeout(1500)
def test_on_ipykernel_6_31_the_wait_advises_at_once(
    notebook: Callable[..., Notebook], kernel_of: Callable[[str], str]
) -> None:
    book = told(notebook, kernel=kernel_of("6.31.0"))
    began = time.monotonic()
    book.run(7)
    assert "CannotWait" in book.text(7) and "next cell" in book.text(7)
    print(f"\nadvice on ipykernel 6.31 after {time.monotonic() - began:.2f} s")
    book.click(armed(book, card(book).locator("button.mew-approve")))
    book.page.until(lambda: "mew-past" in (card(book).get_attribute("class") or ""), "the decision")
    book.run(7)
    assert MARKER in book.text(7)
