"""The grants editor says what a grant would change before it is given; every click has its effect on the wire."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from access import accessible, focus_path
from playwright.sync_api import Locator
from real_lab import Notebook
from scenes import armed

SETUP = """
import json, mew_lab
lab = mew_lab.up('demo', journal=None)
agent = lab.join('agent', can='agent')
helper = lab.join('helper')
git = lab.join('git', can='tool')
view = lab.view.grants
"""
SHOW = "view"
SCENE = """
lab.join('weather-service', can='tool'); lab.join('reader', can='observer')
agent.chat('The tests have passed, shall I commit?')
agent.propose('git/git_log', {'repo_path': '.'})
agent.propose('git/git_commit', {'repo_path': '.', 'message': 'Fix typo in README'})
def refused():
    client = agent.participant.client
    client.post({'kind': 'mcp/request', 'to': ['git'], 'payload': {'jsonrpc': '2.0', 'id': 1, 'method': 'tools/call', 'params': {'name': 'git_log', 'arguments': {'repo_path': '..'}}}})
lab.loop.call(refused)
grant = lambda to, p, **kw: lab.loop.submit(lab.granting.grant(to, [p], **kw)).result(5)
grant('helper', {'kind': 'mcp/request', 'payload': {'method': 'tools/call', 'params': {'name': 'git_status'}}}, minutes=10)
"""


def root(book: Notebook, index: int) -> Locator:
    return book.area(index).locator("section.mew-grants")


WIRE = """
for one in lab.log:
    if one.get('kind') in ('capability/grant', 'capability/revoke'):
        told = one['payload']
        rest = {k: v for k, v in told.items() if k not in ('grant_id', 'expires_at')}
        print(one['kind'], json.dumps(rest), *(k in told for k in ('grant_id', 'expires_at')))
"""


def open_form(book: Notebook, index: int, to: str) -> Locator:
    view = root(book, index)
    book.click(view.locator("button.mew-new"))
    view.get_by_label("Who is allowed").select_option(to)
    return view


def write(view: Locator, pattern: str) -> None:
    """Writes a pattern by hand, under Advanced."""
    view.evaluate("r => { r.querySelector('.mew-advanced').open = true; }")
    view.get_by_label("Pattern as JSON", exact=True).fill(pattern)


def tools_known(view: Locator) -> int:
    """How many tools the form suggests; it suggests each participant, for any of its tools, besides."""
    people = view.get_by_label("Whose permissions").locator("option").count() - 1
    return view.locator("datalist option").count() - people


def choose_group(book: Notebook, view: Locator, group: str) -> None:
    view.get_by_label("Which permissions").select_option(group)
    book.page.until(lambda: view.get_by_label("Which permissions").input_value() == group, "the choice")


def answer(book: Notebook, view: Locator, text: str) -> None:
    book.page.until(
        lambda: text in (view.locator(".mew-answer").text_content() or ""), f"the answer {text!r}"
    )


def test_a_grant_is_asked_about_given_and_taken_back(plain: Callable[..., Notebook]) -> None:
    book = plain([SETUP, SCENE, SHOW, WIRE]).run(0).run(1).run(2)
    root(book, 2).locator("tr[data-origin=granted]").wait_for()
    view = open_form(book, 2, "agent")
    give = view.locator("button.mew-give")
    assert view.locator(".mew-counts-line .mew-pill").first.inner_text() == "demo"
    # By the sentence: its choices write the pattern, and the kernel answers for it.
    assert "Granted by you (1)" in view.get_by_label("Which permissions").inner_text()
    assert view.get_by_label("For how long").input_value() == "u10"
    view.get_by_label("Tool", exact=True).fill("git/git_log")
    answer(book, view, "may then call the tool git_log with any arguments, only to “git”")
    answer(
        book,
        view,
        "1 of agent's 4 past messages would newly be allowed. It was refused.",
    )
    answer(book, view, "1 past proposal would have run without asking you.")
    smallest = json.loads(view.locator(".mew-answer code").last.text_content() or "")
    assert smallest == {
        "kind": "mcp/request",
        "to": ["git"],
        "payload": {"method": "tools/call", "params": {"name": "git_log"}},
    }
    # With these arguments alone; what is no object allows nothing.
    view.get_by_label("Which arguments").select_option("these")
    view.get_by_label("Arguments as JSON").fill("{")
    answer(book, view, "The arguments are not JSON")
    assert give.get_attribute("aria-disabled") == "true"
    view.get_by_label("Arguments as JSON").fill('{"repo_path": ".."}')
    answer(book, view, "call the tool git_log where repo_path is “..”")
    # By hand: what may not be granted says why, and cannot be sent; nor can what adds nothing pass for more.
    write(view, '{"kind": "space/kick"}')
    answer(book, view, "You may not grant this")
    assert give.get_attribute("aria-disabled") == "true"
    write(view, '{"kind": "chat", "paylod": {}}')
    answer(book, view, "did you mean 'payload'?")
    write(view, '{"kind": "chat", "payload": {"format": "plain"}}')
    answer(book, view, "It adds nothing: agent may already send all of this.")
    assert view.get_by_label("What is allowed").input_value() == "own"
    # From a profile.
    view.get_by_label("What is allowed").select_option('{"kind":"stream/*"}')
    answer(book, view, "agent may then open, share and close streams.")
    view.get_by_label("For how long").select_option("m30")
    book.click(armed(book.page, give))
    row = view.locator("tr[data-who=agent][data-origin=granted]")
    row.wait_for()
    assert "until" in row.locator(".mew-from").inner_text() and row.locator(".mew-since").inner_text()
    given = "agent may now open, share and close streams for 30 min"
    book.page.until(lambda: given in view.locator(".mew-toasts").inner_text(), "the sentence about it")
    assert view.locator(".mew-toasts").get_by_role("button", name="Undo").count() == 1
    # Kept after all: nothing is said, and it can be asked for again.
    book.click(row.locator("button", has_text="Revoke…"))
    armed(book.page, row.locator("button.mew-danger"))
    book.click(row.locator("button", has_text="Keep"))
    assert row.locator("button:focus").text_content() == "Revoke…"
    assert row.count() == 1 and row.locator("button.mew-danger").count() == 0
    # A form that is given up gives nothing, and the keyboard is back where it was opened from.
    open_form(book, 2, "helper")
    write(view, '{"kind": "stream/*"}')
    armed(book.page, give)
    book.click(view.get_by_role("button", name="Cancel", exact=True))
    assert view.locator(".mew-ask").count() == 0 and view.locator("button.mew-new:focus").count() == 1
    assert view.locator("button.mew-new").get_attribute("aria-expanded") == "false"
    # Taken back, after a second thought.
    book.click(row.locator("button", has_text="Revoke"))
    assert row.locator("button:focus").text_content() == "Keep"
    book.click(armed(book.page, row.locator("button.mew-danger")))
    row.wait_for(state="detached")
    book.run(3)
    assert book.text(3).splitlines()[-2:] == [
        'capability/grant {"recipient": "agent", "capabilities": [{"kind": "stream/*"}]} False True',
        'capability/revoke {"recipient": "agent"} True False',
    ]


def test_tools_are_looked_up_and_rows_of_one_holder_chosen(plain: Callable[..., Notebook]) -> None:
    tool = "@lab.tool\ndef add(a: int, b: int) -> int:\n    'Sum.'\n    return a + b"
    book = plain([SETUP, tool, SHOW]).run(0).run(1).run(2)
    # The view begins with what this human granted: nothing yet.
    view = root(book, 2)
    view.get_by_text("You have granted no permission yet.").wait_for()
    assert view.locator("tbody tr").count() == 0
    view = open_form(book, 2, "agent")
    book.page.until(lambda: tools_known(view) == 1, "the tools")
    suggested = view.locator("datalist option").evaluate_all("all => all.map(one => one.value)")
    assert suggested[0] == "notebook/add" and {"agent/", "git/", "notebook/"} <= set(suggested)
    choose_group(book, view, "")
    book.page.until(lambda: view.locator("tbody tr").count() > 10, "all of them")
    view.get_by_label("Whose permissions").select_option("git")
    book.page.until(
        lambda: set(view.locator("tbody tr").evaluate_all("r => r.map(x => x.dataset.who)")) == {"git"},
        "git alone",
    )


@pytest.mark.slow
def test_the_grants_can_be_used_without_a_mouse_and_at_any_width(plain: Callable[..., Notebook]) -> None:
    book = plain([SETUP, SCENE, SHOW]).run(0).run(1).run(2)
    view = root(book, 2)
    view.locator("tr[data-origin=granted]").wait_for()
    book.page.shot("grants", book.area(2))
    path = focus_path(book, view, most=9)
    assert [name.split(" ", 1)[0] for name in path[:2]] == ["select", "select"]
    assert path[2:4] == ["button What if…", "button Allow…"]
    assert path[5].startswith("div Table of permissions")
    assert path[6].startswith("button helper may")
    keys = book.tab.keyboard
    view.locator("button.mew-new").focus()
    keys.press("Enter")
    assert view.get_by_label("Who is allowed").evaluate("n => n === document.activeElement")
    keys.type("agent")
    view.locator("summary").focus()
    keys.press("Enter")
    view.get_by_label("Pattern as JSON", exact=True).focus()
    keys.press("Control+a")
    keys.type('{"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "git_*"}}}')
    armed(book.page, view.locator("button.mew-give"))
    view.locator("tr[data-origin=granted] button.mew-may").click()
    accessible(book, view, pictures="grants-form")
    view.locator("button.mew-give").focus()
    keys.press("Enter")
    view.locator("tr[data-who=agent][data-origin=granted]").wait_for()
    book.page.until(lambda: view.locator("button.mew-new:focus").count() == 1, "the form to be closed")


@pytest.mark.slow
def test_a_grant_and_a_revoke_are_undone_by_one_press(plain: Callable[..., Notebook]) -> None:
    book = plain([SETUP, SHOW, WIRE]).run(0).run(1)
    view = open_form(book, 1, "agent")
    view.get_by_label("Tool", exact=True).fill("git/git_log")
    view.get_by_label("For how long").select_option("session")
    book.click(armed(book.page, view.locator("button.mew-give")))
    row = view.locator("tr[data-who=agent][data-origin=granted]")
    row.wait_for()
    assert row.locator(".mew-from").inner_text().startswith("You")
    undo = view.locator(".mew-toasts").get_by_role("button", name="Undo")
    book.click(undo)
    row.wait_for(state="detached")
    # A revoke, too: the same pattern is granted once more.
    open_form(book, 1, "agent")
    view.get_by_label("Tool", exact=True).fill("git/git_log")
    view.get_by_label("For how long").select_option("")
    book.click(armed(book.page, view.locator("button.mew-give")))
    row.wait_for()
    book.click(row.locator("button", has_text="Revoke…"))
    book.click(armed(book.page, row.locator("button.mew-danger")))
    row.wait_for(state="detached")
    book.page.until(lambda: "is revoked" in view.locator(".mew-toasts").inner_text(), "the toast")
    book.click(undo)
    row.wait_for()
    book.run(2)
    kinds = [line.split(" ")[0] for line in book.text(2).splitlines()]
    assert kinds == ["capability/grant", "capability/revoke"] * 2 + ["capability/grant"]
    assert len({line for line in book.text(2).splitlines() if "grant {" in line}) == 1
