"""More than yes and no: edits, grants, groups and the ledger, clicked in a real space, asserted on the wire."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from access import accessible, focus_path
from corpus import PAYLOADS, harmless, listen
from playwright.sync_api import Locator
from real_lab import Notebook
from scenes import armed, choose, dwell

SETUP = """
import json, mew_lab
lab = mew_lab.up(journal=None)
@lab.tool
def git_commit(repo_path: str, message: str, files: list[str] = []) -> str:
    "Commits."
    return f"committed {message}"
@lab.tool
def read_file(path: str) -> str:
    "Reads."
    return "text of " + path
@lab.tool
def write_note(path: str) -> str:
    "Notes."
    return path
bot = lab.join("bot", can="proposer")
def sent(kind):
    told = [json.loads(record.raw) for record in lab.log.held if record.raw]
    return [one for one in told if one.get("kind") == kind]
"""
SHOW = "lab.view.approvals"


def said(book: Notebook, index: int) -> Any:
    book.run(index)
    return json.loads(book.text(index))


def card(book: Notebook, index: int, number: int = 0) -> Locator:
    return book.area(index).locator("li.mew-card:not([hidden])").nth(number)


def press(book: Notebook, button: Locator) -> None:
    armed(book.page, button)
    book.click(button)


def review_all(book: Notebook, area: Locator) -> None:
    """Opens the cards that are one line because there are many."""
    left = area.locator("button.mew-review-open:visible")
    while left.count():
        book.click(left.first)


def allow(book: Notebook, one: Locator, text: str = "Approve and allow…") -> None:
    press(book, one.locator("button.mew-allow"))
    choose(one, text)


def test_what_another_person_rejected_is_approved_by_a_second_press_and_not_by_the_first(
    plain: Callable[..., Notebook],
) -> None:
    seats = """
ada = lab.join("ada", can="human")
async def firm(path):
    return bot.participant.call("notebook/write_note", {"path": path}, resilient=True).id
"""
    propose = "id = bot.run(firm('a.txt'))"
    reject = "_ = ada.run(ada.participant.reject(id, 'unsafe'))"
    wire = "print(json.dumps([r for r in sent('mcp/request') if r.get('correlation_id') == [id]]))"
    book = plain([SETUP + seats, SHOW, propose, reject, wire]).run(0).run(1).run(2)
    one = card(book, 1)
    one.locator("button.mew-approve").wait_for()
    book.run(3)
    one.get_by_text("rejected by ada; still asked for").first.wait_for()
    press(book, one.locator("button.mew-approve"))
    assert "Approve all the same" in one.locator("button.mew-approve").inner_text()
    assert said(book, 4) == []
    press(book, one.locator("button.mew-approve"))
    one.locator(".mew-outcome").wait_for()
    assert len(said(book, 4)) == 1
    assert "Approved by you" in one.inner_text()


SEATS = """
ada = lab.join("ada", can="human")
def propose(tool, path, **more):
    # A proposer that neither goes on asking nor gives up, unless it says so.
    payload = {"method": "tools/call", "params": {"name": tool, "arguments": {"path": path}}}
    draft = {"kind": "mcp/proposal", "to": ["notebook"], "payload": payload}
    return bot.run(bot.participant.send_accepted(draft)).id
def reject(*ids):
    for id in ids: ada.run(ada.participant.reject(id, "unsafe"))
"""
WIRE = "print(json.dumps([[r['correlation_id'][0], r['payload']['params']['arguments']['path']] for r in sent('mcp/request') if r.get('correlation_id')]))"


@pytest.mark.ruling("R32")
@pytest.mark.parametrize("by", ["mouse", "keys"])
@pytest.mark.sampled(2)
def test_what_a_rejection_alone_has_ended_is_approved_from_its_line_by_two_presses_once(
    plain: Callable[..., Notebook], by: str
) -> None:
    begin = """
kept, gone = propose("write_note", "a.txt"), propose("read_file", "b.txt")
reject(kept, gone)
_ = bot.run(bot.participant.withdraw(gone))
"""
    book = plain([SETUP + SEATS, SHOW, begin, WIRE]).run(0).run(1).run(2)
    area = book.area(1)
    lines, again = area.locator("li.mew-past"), area.locator("li.mew-past button.mew-again")
    line = lines.filter(has_text="write_note")
    book.page.until(lambda: lines.count() == 2 and again.count() == 1, "the way past the one rejection")
    assert line.locator("button.mew-again").count() == 1, "and none past what was withdrawn"
    one = area.locator("li.mew-card:not(.mew-past)")

    def open_again() -> None:
        if by == "mouse":
            book.click(again)
        else:
            line.focus()
            book.tab.keyboard.press("Tab")
            book.tab.keyboard.press("Enter")
        one.wait_for()

    def approve() -> None:
        button = one.locator("button.mew-approve")
        if by == "mouse":
            press(book, button)
            return
        one.focus()
        book.page.until(lambda: button.get_attribute("aria-disabled") != "true", "the button to arm")
        book.tab.keyboard.press("a")

    open_again()
    assert "a.txt" in one.locator("table.mew-arguments").first.inner_text(), "all that is sent is shown"
    assert "rejected by ada; a second press" in one.locator(".mew-told").inner_text()
    assert one.locator("button.mew-reject, button.mew-allow:visible").count() == 0
    assert one.evaluate("n => n === document.activeElement")
    leave = one.get_by_role("button", name="Leave it rejected")
    book.click(leave)
    one.wait_for(state="detached")
    assert line.evaluate("n => n === document.activeElement") and "Rejected by ada" in line.inner_text()
    if by == "mouse":  # the history leads to the line, also to one that is out of sight
        book.click(area.locator("button.mew-history"))
        book.click(area.locator(".mew-ledger").get_by_role("button", name="Open"))
        book.page.until(lambda: line.evaluate("n => n === document.activeElement"), "the line")
        assert area.locator(".mew-ledger").is_hidden()
    open_again()
    assert one.locator("button.mew-approve").get_attribute("aria-disabled") == "true", "not before it is read"
    approve()
    book.page.until(
        lambda: "Approve all the same" in one.locator("button.mew-approve").inner_text(), "the question"
    )
    assert said(book, 3) == []
    approve()
    book.page.until(lambda: "Approved by you" in line.inner_text(), "the approval")
    assert [path for _, path in said(book, 3)] == ["a.txt"]
    assert again.count() == 0
    book.execute("seen = str(lab.log.verify())")
    book.execute("assert '1 despite=rejected' in seen, seen")


@pytest.mark.slow
@pytest.mark.ruling("R32")
def test_rows_of_a_table_that_somebody_rejected_say_so_and_have_their_way_past_it(
    plain: Callable[..., Notebook],
) -> None:
    begin = """
async def firm(path): return bot.participant.call("notebook/write_note", {"path": path}, resilient=True).id
firms = [bot.run(firm(f"firm-{n}.txt")) for n in range(3)]
plain = [propose("read_file", f"plain-{n}.txt") for n in range(3)]
"""
    some = "reject(firms[1], plain[1])"
    book = plain([SETUP + SEATS, begin, SHOW, some, WIRE]).run(0).run(1).run(2)
    area = book.area(2)
    firm, plain = (area.locator("li.mew-group").filter(has_text=name) for name in ("firm-0", "plain-0"))
    firm.wait_for()
    plain.wait_for()
    book.run(3)
    row = firm.locator(".mew-rows tbody tr").filter(has_text="firm-1")
    row.get_by_text("rejected by ada; still asked for").wait_for()
    review_all(book, area)
    press(book, firm.locator("button.mew-approve-all"))
    book.page.until(
        lambda: "Approve all the same" in firm.locator("button.mew-approve-all").inner_text(), "the question"
    )
    assert said(book, 4) == []
    # What was asked about was this row as well.
    row.locator("input").uncheck()
    assert "Approve 2" in firm.locator("button.mew-approve-all").inner_text()
    row.locator("input").check()
    press(book, firm.locator("button.mew-approve-all"))
    press(book, firm.locator("button.mew-approve-all"))
    firm.wait_for(state="detached")
    assert sorted(path for _, path in said(book, 4)) == ["firm-0.txt", "firm-1.txt", "firm-2.txt"]
    # The row that a rejection alone has ended leads to its card, and the others stay.
    book.click(plain.locator(".mew-rows tbody tr").filter(has_text="plain-1").locator("button.mew-again"))
    one = area.locator("li.mew-card:not(.mew-past):not(.mew-group)")
    one.wait_for()
    assert plain.locator(".mew-rows tbody tr").count() == 2
    press(book, one.locator("button.mew-approve"))
    assert "Approve all the same" in one.locator("button.mew-approve").inner_text()
    press(book, one.locator("button.mew-approve"))
    one.wait_for(state="detached")
    assert [path for _, path in said(book, 4)][3:] == ["plain-1.txt"]


@pytest.mark.slow
@pytest.mark.threat(14)
def test_threat_14_an_edit_is_shown_as_a_difference_and_confirmed_by_a_second_press(
    plain: Callable[..., Notebook],
) -> None:
    propose = (
        "p = bot.call('notebook/git_commit', {'repo_path': '.', 'message': 'Fix typo', 'files': ['a.py']})"
    )
    wire = "print(json.dumps({k: sent(k) for k in ('mcp/request', 'chat')}))"
    book = plain([SETUP, SHOW, propose, wire]).run(0).run(1).run(2)
    one = card(book, 1)
    press(book, one.locator("button.mew-edit"))
    one.locator("textarea").nth(1).fill("Fix typo in README")
    one.locator(".mew-field-array input.mew-give").uncheck()
    press(book, one.locator("button.mew-review"))
    review = one.locator(".mew-face-review")
    review.wait_for()
    assert review.locator("del").all_inner_texts() == ['"Fix typo"', '["a.py"]']
    assert review.locator("ins").all_inner_texts() == ['"Fix typo in README"']
    assert "removed" in review.inner_text() and "as proposed" in review.inner_text()
    assert not [r for r in said(book, 3)["mcp/request"] if r.get("correlation_id")], (
        "nothing goes out before the second press"
    )
    press(book, review.locator("button.mew-confirm"))
    one.locator(".mew-outcome").wait_for()
    assert "with changes" in one.inner_text()
    told = said(book, 3)
    [request] = [r for r in told["mcp/request"] if r.get("correlation_id")]
    assert request["payload"]["params"]["arguments"] == {"repo_path": ".", "message": "Fix typo in README"}
    assert request["from"] == "human" and request["to"] == ["notebook"]
    [chat] = told["chat"]
    assert chat["to"] == ["bot"] and chat["correlation_id"][0] == request["id"]
    assert '"Fix typo" → "Fix typo in README"' in chat["payload"]["text"]
    # The same once more, with second thoughts: what is sent is what was reviewed last.
    book.run(2)
    one = card(book, 1)
    press(book, one.locator("button.mew-edit"))
    edit, review = one.locator(".mew-face-edit"), one.locator(".mew-face-review")
    edit.locator("textarea").nth(1).fill("Fix typos")
    book.click(edit.get_by_role("button", name="Edit as JSON"))
    whole = edit.get_by_label("Arguments as JSON")
    written = json.loads(whole.input_value())
    assert written == {"repo_path": ".", "message": "Fix typos", "files": ["a.py"]}
    whole.fill(json.dumps(written | {"sign": True}))
    press(book, edit.locator("button.mew-review"))
    review.wait_for()
    assert review.locator("tr.mew-how-added").inner_text().split() == ["sign", "true", "added"]
    first = review.locator(".mew-digest").get_attribute("title")
    book.click(review.get_by_role("button", name="Change again"))
    edit.wait_for()
    assert review.count() == 0 and json.loads(whole.input_value()) == written | {"sign": True}
    whole.fill(json.dumps(written | {"sign": False, "message": "Fix all typos"}))
    press(book, edit.locator("button.mew-review"))
    review.wait_for()
    assert review.locator("ins").all_inner_texts() == ['"Fix all typos"']
    assert review.locator(".mew-digest").get_attribute("title") != first
    press(book, review.locator("button.mew-confirm"))
    one.locator(".mew-outcome").wait_for()
    told = [r["payload"]["params"] for r in said(book, 3)["mcp/request"] if r.get("correlation_id")]
    assert [params["arguments"] for params in told[1:]] == [
        {"repo_path": ".", "message": "Fix all typos", "files": ["a.py"], "sign": False}
    ]
    # Back from a change is back at what was proposed, and that is what is approved then.
    book.run(2)
    one = card(book, 1)
    press(book, one.locator("button.mew-edit"))
    message = one.locator(".mew-face-edit textarea").nth(1)
    message.fill("Something else")
    book.click(one.locator(".mew-face-edit").get_by_role("button", name="Back"))
    assert one.evaluate("n => n === document.activeElement"), "the keyboard is at the card"
    assert one.locator(".mew-face-edit").count() == 0 and "Something else" not in one.inner_text()
    press(book, one.locator("button.mew-edit"))
    assert message.input_value() == "Something else", "what was written is not lost"
    press(book, one.locator("button.mew-review"))
    book.click(one.locator(".mew-face-review").get_by_role("button", name="Back"))
    assert one.evaluate("n => n === document.activeElement"), "the keyboard is at the card"
    assert "Fix typo" in one.inner_text() and "Something else" not in one.inner_text()
    press(book, one.locator("button.mew-approve"))
    one.locator(".mew-outcome").wait_for()
    assert "with changes" not in one.inner_text()
    told = [r["payload"]["params"] for r in said(book, 3)["mcp/request"] if r.get("correlation_id")]
    assert [params["arguments"] for params in told[2:]] == [
        {"repo_path": ".", "message": "Fix typo", "files": ["a.py"]}
    ]


@pytest.mark.threat(14)
def test_threat_14_an_edit_leaves_the_name_that_no_box_can_show_as_it_was(
    plain: Callable[..., Notebook],
) -> None:
    propose = "p = bot.call('notebook/write_note', {'path': 'a', 'two\\nlines': 1})"
    book = plain([SETUP, SHOW, propose]).run(0).run(1).run(2)
    one = card(book, 1)
    press(book, one.locator("button.mew-edit"))
    one.locator(".mew-face-edit textarea").first.fill("b")
    press(book, one.locator("button.mew-review"))
    review = one.locator(".mew-face-review")
    review.wait_for()
    rows = review.locator("tr[class^=mew-how]").evaluate_all("all => all.map(r => r.className)")
    assert [row for row in rows if row != "mew-how-same"] == ["mew-how-changed"]


@pytest.mark.threat(22)
@pytest.mark.slow
def test_threat_22_a_grant_is_shown_as_a_pattern_with_what_it_would_have_matched(
    plain: Callable[..., Notebook],
) -> None:
    propose = """
for n in range(2): bot.call('notebook/read_file', {'path': f'notes/{n}.md'}); lab.approve(lab.proposals()[-1])
p = bot.call('notebook/read_file', {'path': 'notes/2.md'})
"""
    wire = "print(json.dumps(sent('capability/grant')))"
    again = "q = bot.call('notebook/read_file', {'path': 'notes/9.md'}); print(json.dumps(q.kind))"
    book = plain([SETUP, propose, SHOW, wire, again]).run(0).run(1).run(2)
    one = book.area(2).locator("li.mew-card:not(.mew-past)")
    allow(book, one)
    pattern = one.locator("pre.mew-pattern")
    pattern.wait_for()
    assert "notes/2.md" in pattern.inner_text() and "matches 1 call or proposal of bot" in one.inner_text()
    one.get_by_label("any arguments").click()
    book.page.until(
        lambda: (
            "notes/2.md" not in one.locator(".mew-offer").inner_text().split("}")[0]
            and one.locator("pre").count()
        ),
        "the wider offer",
    )
    assert "matches 3 calls and proposals of bot" in one.inner_text()
    one.get_by_label("How long, or how often").select_option("10 uses")
    book.page.until(lambda: "(10 uses)" in one.locator(".mew-offer").inner_text(), "the limit")
    shown = json.loads(one.locator("pre").inner_text())
    press(book, one.locator("button.mew-confirm"))
    book.page.until(lambda: said(book, 3), "the grant")
    [grant] = said(book, 3)
    assert grant["payload"]["recipient"] == "bot" and grant["payload"]["capabilities"] == [shown]
    assert said(book, 4) == "mcp/request"
    # What was allowed can be taken back at once; the approval was sent and stands.
    toast = book.area(2).locator(".mew-toast")
    assert "Approved, and allowed for bot (10 uses)." in toast.inner_text()
    book.click(toast.get_by_role("button", name="Undo"))
    book.page.until(lambda: "The permission is revoked" in toast.inner_text(), "the undo")
    book.execute("print(json.dumps(sent('capability/revoke')[-1]['payload']['grant_id']))")
    assert said(book, 4) == "mcp/proposal"


@pytest.mark.slow
@pytest.mark.threat(30)
def test_threat_30_what_is_alike_is_one_table_and_each_row_is_decided_by_its_own_digest(
    plain: Callable[..., Notebook],
) -> None:
    propose = """
for path in ('a.md', '/etc/passwd', 'b.md', 'c.md'): bot.call('notebook/read_file', {'path': path})
"""
    later = "for path in ('/etc/late', 'd.md'): bot.call('notebook/read_file', {'path': path})"
    wire = "print(json.dumps([(r['correlation_id'], r['payload']['params']['arguments']['path']) for r in sent('mcp/request') if r.get('correlation_id')]))"
    many = "import time\nasync def flood():\n for n in range(90): bot.participant.propose('notebook/write_note', {'path': str(n)})\nlab.loop.run(flood(), timeout=9, doing='')\nwhile len(lab.decisions.pending()) < 90: time.sleep(0.01)"
    book = plain([SETUP, propose, SHOW, later, wire, many, SHOW]).run(0).run(1).run(2)
    group = book.area(2).locator("li.mew-group")
    group.wait_for()
    assert group.locator("tbody tr").count() == 3
    area, here = book.area(2), "n => n === document.activeElement"
    # What has a warning is no row: it stands above, as a card in full.
    single = area.locator("li.mew-card:not(.mew-group):not([hidden])")
    assert "/etc/passwd" in card(book, 2).inner_text() and card(book, 2).locator(".mew-buttons").is_visible()
    assert "1 with a warning · Next" in area.locator("button.mew-risky").inner_text()
    # The table is unfolded into its cards and folded again; each time the keyboard is there.
    assert area.locator("button.mew-together").is_hidden()
    book.click(group.locator("button.mew-unfold"))
    group.wait_for(state="detached")
    assert card(book, 2, 2).locator("button.mew-approve").is_visible()
    focused = area.locator("li.mew-card:focus")
    assert focused.count() == 1 and "a.md" in focused.inner_text()
    together = area.locator("button.mew-together")
    assert together.inner_text() == "Show 3 similar as a table"
    book.click(together)
    group.wait_for()
    assert group.locator(".mew-rows tbody tr").count() == 3 and group.evaluate(here)
    assert together.is_hidden() and area.locator("li.mew-card:not([hidden])").count() == 2
    book.run(3)
    book.page.until(lambda: single.count() == 3, "the later ones")
    assert group.locator(".mew-rows tbody tr").count() == 3, "who comes later does not join by itself"
    assert together.inner_text() == "Show 4 similar as a table"
    book.click(together)
    book.page.until(lambda: group.locator(".mew-rows tbody tr").count() == 4, "one table of all")
    assert group.count() == 1 and single.count() == 2 and together.is_hidden() and group.evaluate(here)
    # From one risk to the next, and from the last to the first.
    for one in (single.first, single.last, single.first):
        book.click(area.locator("button.mew-risky"))
        assert one.evaluate(here)
    press(book, group.locator("button.mew-approve-all"))
    group.wait_for(state="detached")
    decided = said(book, 4)
    assert sorted(path for _, path in decided) == ["a.md", "b.md", "c.md", "d.md"]
    assert len({id for [id], _ in decided}) == 4
    book.page.until(lambda: area.locator("li.mew-past:not([hidden])").count() == 4, "four decided cards")
    history = area.locator("button.mew-history")
    assert history.inner_text() == "History (4)" and area.locator(".mew-ledger").is_hidden()
    book.click(history)
    assert history.get_attribute("aria-expanded") == "true"
    ledger = area.locator(".mew-ledger tbody tr")
    assert ledger.count() == 4 and "notebook/read_file" in ledger.first.inner_text()
    assert re.search(r'read_file\(path="[abcd]\.md"\)', ledger.first.inner_text()), "its arguments"
    when, proposer, decision, result = ledger.first.locator("td").all_inner_texts()
    assert re.fullmatch(r"\d\d:\d\d:\d\d", when) and proposer == "bot" and "text of" in result
    assert re.fullmatch(r"Approved by you after \d+\.\d s", decision)
    book.click(history)
    assert area.locator(".mew-ledger").is_hidden() and history.get_attribute("aria-expanded") == "false"
    assert "4 of 4 decided by you" in area.locator(".mew-counts").inner_text()
    # A table longer than the page: what was not scrolled into sight was not seen.
    book.run(5)
    first = book.area(2).locator("section.mew-approvals")
    book.page.until(lambda: int(first.get_attribute("data-open") or 0) >= 90, "all of them to be there")
    book.run(6)
    group = book.area(6).locator("li.mew-group")
    button = group.locator("button.mew-approve-all")
    button.scroll_into_view_if_needed()
    book.page.until(
        lambda: "Scroll to review all 90 rows" in group.locator(".mew-hint").inner_text(), "the hint"
    )
    assert button.get_attribute("aria-disabled") == "true"
    for row in group.locator(".mew-rows tbody tr").all()[::6]:
        row.evaluate("row => row.scrollIntoView({ block: 'center' })")
        dwell(book.page.pause)
    press(book, button)
    group.wait_for(state="detached")
    assert len(said(book, 4)) == 94
    # The last five decisions stay in sight, the earlier ones are a press away.
    past = book.area(6).locator("li.mew-past:not([hidden])")
    book.page.until(lambda: past.count() == 5, "the last five")
    earlier = book.area(6).locator("button.mew-earlier")
    assert earlier.inner_text() == "Show all 94"
    book.click(earlier)
    assert book.area(6).locator(".mew-ledger tbody tr").count() == 94 and earlier.is_hidden()


@pytest.mark.threat(3)
def test_threat_03_hostile_text_is_text_on_every_face_of_a_card(plain: Callable[..., Notebook]) -> None:
    propose = f"""
bad = json.loads({json.dumps(json.dumps(list(PAYLOADS)))})
from mew_lab.lab.decisions.risks import risks
from mew_lab.protocol.envelope import Envelope
wild = lab.join("wild", can=[{{"kind": "mcp/*"}}, {{"kind": "chat"}}])
for n in range(0, len(bad), 20):
    part = bad[n:n + 20]
    wild.send("mcp/proposal", {{"method": "tools/call", "params": {{"name": part[0], "arguments": {{one: one for one in part}} }}}}, to="notebook")
for n in range(3):
    wild.send("mcp/proposal", {{"method": bad[n], "params": {{"name": bad[5], "arguments": {{"x": bad[n]}} }}}}, to="notebook")
# What has no warning stands in a table, of two proposers.
plain = [one for one in bad if not risks({{"path": one}})][:60]
tame = lab.join("tame", can="proposer")
for n, one in enumerate(plain):
    (wild, tame)[n % 2].send("mcp/proposal", {{"method": "tools/call", "params": {{"name": "read_file", "arguments": {{"path": one}} }}}}, to="notebook")
p = wild.send("mcp/proposal", {{"method": "tools/call", "params": {{"name": "read_file", "arguments": {{one: one for one in bad[:40]}} }}}}, to="notebook")
from mew_lab.errors import MewError
for card in lab.decisions.pending()[:2]: lab.reject(card.id, card.tool)
None
"""
    book = plain([SETUP, propose, SHOW]).run(0).run(1)
    asked = listen(book)
    book.run(2)
    area = book.area(2)
    area.locator("li.mew-card").first.wait_for()
    # Where some were met before the others came, they come together on request.
    group, together = area.locator("li.mew-group"), area.locator("button.mew-together")

    def all_in_one() -> bool:
        if together.is_visible():
            together.click()
        return group.count() == 1 and group.locator(".mew-rows tbody tr").count() >= 40

    book.page.until(all_in_one, "the rows of both proposers in one table")
    review_all(book, area)
    last = area.locator("li.mew-card:not([hidden]):not(.mew-past)").last
    press(book, last.locator("button.mew-edit"))
    last.locator("textarea").first.fill("</textarea><img src=x onerror=alert(window.mewTaken=1)> changed")
    press(book, last.locator("button.mew-review"))
    last.locator(".mew-face-review").wait_for()
    other = area.locator("li.mew-card:not([hidden]):not(.mew-group):not(.mew-past)").first
    allow(book, other)
    book.page.until(lambda: other.locator(".mew-offer").inner_text().strip(), "the offer")
    area.locator("button.mew-history").click()
    allowed = "header kbd section div span b bdi ul li table thead tbody tr th td button select option input code del ins label pre textarea"
    harmless(book, area.locator("section.mew"), allowed=allowed.split(), asked=asked)


SCENE = """
helper, gardener = lab.join("helper", can="proposer"), lab.join("gardener", can="proposer")
lab.call("notebook/git_commit", repo_path=".", message="Add tests", files=["a.py"]).result(5)
bot.call("notebook/read_file", {"path": "notes/monday.md"})
lab.approve(lab.proposals()[-1])
bot.call("notebook/git_commit", {"repo_path": "..", "message": "Fix typo in README", "files": ["a.py", "README.md"]})
helper.call("notebook/read_file", {"path": "notes/tuesday.md", "text": "a line of the file\\n" * 40})
for path in ("beds/north.md", "/etc/passwd", "beds/south.md", "beds/west.md"): gardener.call("notebook/read_file", {"path": path, "lines": 20})
bot.call("notebook/git_commit", {"repo_path": ".", "message": "Water the beds\\n\\nThe north bed was dry.", "files": []})
bot.call("notebook/read_file", {"path": "plan.md"})
None
"""


@pytest.mark.slow
@pytest.mark.trap("T-26")
def test_every_face_can_be_used_by_everybody_and_by_keyboard_alone(plain: Callable[..., Notebook]) -> None:
    wire = "print(json.dumps([r['payload']['params']['arguments'] for r in sent('mcp/request') if r.get('correlation_id')]))"
    book = plain([SETUP, SCENE, SHOW, wire]).run(0).run(1).run(2)
    area = book.area(2)
    cards = area.locator("li.mew-card:not([hidden]):not(.mew-past):not(.mew-group)")
    cards.nth(4).wait_for()
    review_all(book, area)
    press(book, cards.nth(3).locator("button.mew-edit"))
    message = cards.nth(3).locator("textarea").nth(1)
    message.fill("Water the beds\n\nThe north bed was very dry.")
    book.page.shot("approvals-form", cards.nth(3))
    press(book, cards.nth(3).locator("button.mew-review"))
    cards.nth(3).locator(".mew-face-review").wait_for()
    allow(book, cards.nth(4))
    cards.nth(4).locator("pre").wait_for()
    area.locator("button.mew-history").click()
    book.tab.mouse.move(5, 5)
    section = area.locator("section.mew")
    accessible(book, section, pictures="approvals-faces")
    assert book.page.shot("approvals-grant", cards.nth(4)).stat().st_size > 5000
    path = focus_path(book, section)
    assert any(stop.startswith("button Approve as edited") for stop in path), path
    assert any(stop.startswith("button Approve all") for stop in path), path
    # By keyboard alone: to the card, edit, back to the card, and yes.
    cards.nth(4).locator("button.mew-back").focus()
    book.tab.keyboard.press("Enter")
    card_ = cards.nth(4)
    card_.locator(".mew-face-front").wait_for()
    card_.scroll_into_view_if_needed()
    book.page.until(
        lambda: card_.locator("button.mew-approve").get_attribute("aria-disabled") == "false",
        "the card to arm",
    )
    book.tab.keyboard.press("a")
    book.page.until(lambda: {"path": "plan.md"} in said(book, 3), "the approval")
    group = section.locator("li.mew-group")
    group.locator("button.mew-approve-all").scroll_into_view_if_needed()
    book.page.until(
        lambda: group.locator("button.mew-approve-all").get_attribute("aria-disabled") == "false",
        "the table to arm",
    )
    group.evaluate("n => n.focus({ preventScroll: true })")
    book.tab.keyboard.press("r")
    book.tab.keyboard.press("Enter")
    group.wait_for(state="detached")
    assert section.locator("li.mew-past", has_text="Rejected by you").count() == 3


@pytest.mark.slow
@pytest.mark.threat(14, 15)
def test_threat_15_a_proposal_that_takes_an_earlier_ones_id_has_a_card_of_its_own(
    plain: Callable[..., Notebook],
) -> None:
    scene = """
def propose(path):
    draft = {'kind': 'mcp/proposal', 'id': 'p-1', 'to': ['notebook'], 'payload': {'method': 'tools/call', 'params': {'name': 'read_file', 'arguments': {'path': path}}}}
    seat = lab.seats['bot']
    seat.run(seat.participant.send_accepted(draft))
def anew(path):
    lab.leave('bot'); lab.join('bot', can='proposer'); propose(path)
propose('first.md')
"""
    wire = "print(json.dumps([one['payload']['params']['arguments']['path'] for one in sent('mcp/request') if one.get('correlation_id')]))"
    book = plain([SETUP, SHOW, scene, wire, "lab.down()"]).run(0).run(1).run(2)
    cards = book.area(1).locator("li.mew-card")
    first = cards.nth(0)
    first.focus()
    book.execute("anew('second.md')")
    cards.nth(1).wait_for()
    assert "second.md" in cards.nth(1).inner_text() and "mew-past" not in (
        cards.nth(1).get_attribute("class") or ""
    )
    book.page.until(lambda: "mew-past" in (first.get_attribute("class") or ""), "the first to be over")
    assert "its proposer has used its id for another proposal" in first.inner_text()
    assert first.evaluate("n => n === n.parentNode.firstChild"), "it keeps its place while the focus is there"
    assert first.evaluate("n => n === document.activeElement"), (
        "the keyboard is where it was, and decides nothing"
    )
    book.tab.keyboard.press("a")
    press(book, cards.nth(1).locator("button.mew-approve"))
    approve, past = book.area(1).locator("button.mew-approve"), book.area(1).locator("li.mew-past")
    approve.wait_for(state="detached")
    book.page.until(lambda: past.count() == 2, "both to be over")
    assert said(book, 3) == ["second.md"]
    # The very same once more is another proposal, too.
    book.execute("anew('second.md')")
    approve.wait_for()
    press(book, approve)
    approve.wait_for(state="detached")
    book.page.until(lambda: past.count() == 3, "all to be over")
    assert said(book, 3) == ["second.md", "second.md"]
    assert cards.count() == 3
    book.run(4)
