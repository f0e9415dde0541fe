"""The grants editor says what a grant would change before it is given; every click has its effect on the wire."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from access import accessible, focus_path
from corpus import PAYLOADS, as_python, harmless, listen
from playwright.sync_api import Locator
from real_lab import Notebook

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
    view.locator("select[aria-label='who gets it']").select_option(to)
    return view


def armed(book: Notebook, button: Locator) -> Locator:
    book.page.until(lambda: button.get_attribute("aria-disabled") == "false", "the button to arm")
    return button


def answer(book: Notebook, view: Locator, text: str) -> None:
    book.page.until(
        lambda: text in (view.locator(".mew-answer").text_content() or ""), f"the answer {text!r}"
    )


def test_a_grant_is_asked_about_given_and_taken_back(notebook: Callable[..., Notebook]) -> None:
    book = notebook([SETUP, SCENE, SHOW, WIRE]).run(0).run(1).run(2)
    root(book, 2).locator("tr[data-origin=granted]").wait_for()
    view = open_form(book, 2, "agent")
    give = view.locator("button.mew-give")
    # By the pickers: they write the pattern, and the kernel answers for it.
    view.locator("select[aria-label='MCP method']").select_option("tools/call")
    view.locator("input[aria-label=tool]").fill("git_log")
    view.locator("select[aria-label='of whom']").select_option("git")
    answer(book, view, "may then call the tool git_log with any arguments, only to “git”")
    answer(
        book,
        view,
        "It would allow 1 of 4 logged envelopes of agent that it may not send now (1 of them were refused).",
    )
    answer(book, view, "1 proposal of agent could have been sent as requests, without your approval.")
    smallest = json.loads(view.locator(".mew-answer code").last.text_content() or "")
    assert smallest == {
        "kind": "mcp/request",
        "to": ["git"],
        "payload": {"method": "tools/call", "params": {"name": "git_log"}},
    }
    # By hand: what may not be granted says why, and cannot be sent; nor can what adds nothing pass for more.
    text = view.locator("textarea")
    text.fill('{"kind": "space/kick"}')
    answer(book, view, "You may not grant this")
    assert give.get_attribute("aria-disabled") == "true"
    text.fill('{"kind": "chat", "paylod": {}}')
    answer(book, view, "did you mean 'payload'?")
    text.fill('{"kind": "chat", "payload": {"format": "plain"}}')
    answer(book, view, "It adds nothing: agent may send all of it already.")
    # From a profile.
    view.locator("select[aria-label='a pattern of a profile']").select_option('{"kind":"stream/*"}')
    answer(book, view, "agent may then open, share and close streams.")
    view.locator("select[aria-label='for how long']").select_option("m10")
    book.click(armed(book, give))
    row = view.locator("tr[data-who=agent][data-origin=granted]")
    row.wait_for()
    assert "until" in row.locator(".mew-from").inner_text() and row.locator(".mew-since").inner_text()
    given = "agent may now open, share and close streams for 10 min"
    book.page.until(lambda: given in view.locator(".mew-said").inner_text(), "the sentence about it")
    # Kept after all: nothing is said, and it can be asked for again.
    book.click(row.locator("button", has_text="Revoke…"))
    armed(book, row.locator("button.mew-grave"))
    book.click(row.locator("button", has_text="Keep"))
    assert row.locator("button:focus").text_content() == "Revoke…"
    assert row.count() == 1 and row.locator("button.mew-grave").count() == 0
    # A form that is given up gives nothing, and the keyboard is back where it was opened from.
    open_form(book, 2, "helper")
    view.locator("textarea").fill('{"kind": "stream/*"}')
    armed(book, give)
    book.click(view.get_by_role("button", name="Cancel", exact=True))
    assert view.locator(".mew-ask").count() == 0 and view.locator("button.mew-new:focus").count() == 1
    assert view.locator("button.mew-new").get_attribute("aria-expanded") == "false"
    # Taken back, after a second thought.
    book.click(row.locator("button", has_text="Revoke"))
    assert row.locator("button:focus").text_content() == "Keep"
    book.click(armed(book, row.locator("button.mew-grave")))
    row.wait_for(state="detached")
    book.run(3)
    assert book.text(3).splitlines()[-2:] == [
        'capability/grant {"recipient": "agent", "capabilities": [{"kind": "stream/*"}]} False True',
        'capability/revoke {"recipient": "agent"} True False',
    ]


def test_tools_are_looked_up_and_rows_of_one_holder_chosen(notebook: Callable[..., Notebook]) -> None:
    tool = "@lab.tool\ndef add(a: int, b: int) -> int:\n    'Sum.'\n    return a + b"
    book = notebook([SETUP, tool, SHOW]).run(0).run(1).run(2)
    view = open_form(book, 2, "agent")
    view.locator("select[aria-label='MCP method']").select_option("tools/call")
    book.click(view.locator("button", has_text="Look up tools"))
    book.page.until(lambda: view.locator("datalist option").count() == 1, "the tools")
    assert view.locator("datalist option").get_attribute("value") == "add"
    view.locator("select[aria-label='Whose capabilities']").select_option("git")
    book.page.until(
        lambda: set(view.locator("tbody tr").evaluate_all("r => r.map(x => x.dataset.who)")) == {"git"},
        "git alone",
    )


HOSTILE = """
import mew_lab.views.grants.widget as part
from mew_lab.lab.decisions.limited_grants import Example
from mew_lab.views.grants.model import Holding
from mew_lab.views.grants.probe import Probe
view._session.space = PAYLOADS[0]
view._holdings.holders = ('agent', 'late', *PAYLOADS)
view._holdings.rows = tuple(Holding(
    key=f'{n}{p}', holder=p if n < 200 else 'late', pattern=p, phrase=p, origin='granted', grant=p, granter=p, since=1.0, ends=p, against=p
) for n, p in enumerate(PAYLOADS))
part._choices = lambda: [[json.dumps({'kind': 'chat'}), p, [p]] for p in PAYLOADS]
async def probe(lab, to, text, *, wanted):
    return Probe(phrase=PAYLOADS[2], adds=True, fresh=1, refused=0, already=0, proposals=0, looked_at=1, smallest=PAYLOADS[3],
        examples=tuple(Example(1.0, p, (p,), p, p) for p in PAYLOADS), barred=PAYLOADS[4], warnings=tuple(PAYLOADS))
part.probe = probe
async def gather(lab, who, *, patience):
    return [(p, {'name': p}) for p in PAYLOADS], list(PAYLOADS)
part.gather_tools = gather
view.wake()
"""
ELEMENTS = set(
    "section div span bdi ul li button code select option input label textarea table thead tbody tr th td datalist".split()
)


@pytest.mark.threat(3, 17)
def test_threat_03_hostile_text_is_text_in_every_field_of_the_grants(
    notebook: Callable[..., Notebook],
) -> None:
    book = notebook([SETUP, as_python(), HOSTILE, SHOW], fresh=True).run(0).run(1).run(2)
    asked = listen(book)
    book.run(3)
    view = root(book, 3)
    view.locator("tbody tr").first.wait_for()
    view = open_form(book, 3, "agent")
    view.locator("textarea").fill("{}")
    book.page.until(lambda: view.locator(".mew-answer li").count() == len(PAYLOADS), "the answer")
    view.locator("select[aria-label='MCP method']").select_option("tools/call")
    book.click(view.locator("button", has_text="Look up tools"))
    book.page.until(lambda: view.locator("datalist option").count() == len(PAYLOADS), "the tools")
    view.evaluate("r => r.querySelectorAll('button.mew-may').forEach(b => b.click())")
    assert view.locator("tbody tr").count() == 200
    harmless(book, view, allowed=ELEMENTS, asked=asked)
    # The table shows 200 at a time; the others are asked for by their holder.
    view.locator("select[aria-label='Whose capabilities']").select_option("late")
    book.page.until(lambda: view.locator("tbody tr").count() == len(PAYLOADS) - 200, "the others")
    view.evaluate("r => r.querySelectorAll('button.mew-may').forEach(b => b.click())")
    harmless(book, view, allowed=ELEMENTS, asked=asked)


def test_the_grants_can_be_used_without_a_mouse_and_at_any_width(notebook: Callable[..., Notebook]) -> None:
    book = notebook([SETUP, SCENE, SHOW]).run(0).run(1).run(2)
    view = root(book, 2)
    view.locator("tr[data-origin=granted]").wait_for()
    book.page.shot("grants", book.area(2))
    path = focus_path(book, view, most=8)
    assert (
        path[1] == "button Grant…"
        and path[2].startswith("div Table of capabilities")
        and path[3].startswith("button human may")
    )
    keys = book.tab.keyboard
    view.locator("button.mew-new").focus()
    keys.press("Enter")
    assert view.locator("select[aria-label='who gets it']:focus").count() == 1
    keys.type("agent")
    view.locator("textarea").focus()
    keys.type('{"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "git_*"}}}')
    armed(book, view.locator("button.mew-give"))
    view.locator("tr[data-origin=granted] button.mew-may").click()
    accessible(book, view, pictures="grants-form")
    view.locator("button.mew-give").focus()
    keys.press("Enter")
    view.locator("tr[data-who=agent][data-origin=granted]").wait_for()
    assert view.locator("button.mew-new:focus").count() == 1
