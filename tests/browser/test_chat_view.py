"""Chat in a real JupyterLab: read, answered, acknowledged and called off with mouse and keyboard, seen on the wire."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from access import accessible, focus_path
from corpus import PAYLOADS, as_python, harmless, listen
from playwright.sync_api import Locator
from real_lab import Notebook

HERE = Path(__file__).parent
UP = """
import asyncio, json, time
import mew_lab
lab = mew_lab.up('demo', journal=None)
helper = lab.join('helper', can='proposer')
weather = lab.join('weather-service', can='proposer')
"""
SCENE = """
bot = lab.join('bot', can='proposer'); garden = lab.join('garden-service', can='proposer'); reader = lab.join('reader', can='observer')
ask = lab.chat('Will it rain in Tokyo tomorrow, and should the beds be watered tonight?', ['helper', 'garden-service'])
helper.send('chat/acknowledge', {'status': 'processing'}, to='human', correlation_id=ask.id)
weather.chat('Forecast for Tokyo updated: 22 degrees, a shower at 15:00, wind from the south-west.')
helper.send('chat', {'format': 'markdown', 'text': '''## Tomorrow in Tokyo

It will rain **after 15:00**, about `4 mm`. Two things follow:

1. no watering tonight;
2. the greenhouse stays *closed* from noon.

| bed | soil | water |
|---|---|---|
| beans | moist | none |
| tomatoes | dry | 2 l |

> Source: [weather service](https://weather.example/tokyo), read at 08:10.

```
pump.schedule(bed="tomatoes", litres=2)
```'''}, to='human', correlation_id=ask.id)
dup = bot.chat('Shall I order seeds for the autumn? The usual three kinds are in stock.')
bot.send('chat/cancel', {'reason': 'duplicate'}, correlation_id=dup.id)
bot.chat('Shall I order seeds for the autumn? The usual three kinds are in stock, the beans are sold out.', ['human'])
lab.chat('Thank you, both.')
"""
SHOW = "lab.view.chat"
WIRE = """
def wire(kind, by='human'):
    raws = (json.loads(lab.rows.raw(row.seq)) for row in lab.rows.since(0, 10000))
    return [{k: one.get(k) for k in ('to', 'correlation_id', 'payload')} for one in raws if one['kind'] == kind and one['from'] == by]
def names(ids):
    texts = {one['id']: one['payload'].get('text') for one in (json.loads(lab.rows.raw(row.seq)) for row in lab.rows.since(0, 10000))}
    return [texts.get(id) for id in ids]
"""


def message(book: Notebook, index: int, text: str) -> Locator:
    return book.view(index).locator("li.mew-message").filter(has_text=text)


def choose(book: Notebook, message: Locator, item: str) -> None:
    """Opens the menu of a message and chooses."""
    message.hover()
    book.click(message.locator(".mew-message-menu"))
    book.click(message.get_by_role("menuitem", name=item))


def tall(message: Locator) -> float:
    box = message.locator(".mew-body").bounding_box()
    assert box is not None
    return box["height"]


def waiting(book: Notebook, index: int, count: int) -> None:
    book.page.until(lambda: book.view(index).get_attribute("data-waiting") == str(count), f"{count} to wait")


@pytest.mark.slow
@pytest.mark.req("P-3.4-1", "P-3.4.1-1", "P-3.4.1-4", "P-3.4.1-5", "P-3.4.2-1", "P-3.4.2-2")
def test_everything_that_can_be_done_is_done_on_the_wire(
    plain: Callable[..., Notebook], tmp_path: Path
) -> None:
    talk = """
for n in range(3): helper.chat(f'Question {n} of the helper?', 'human')
weather.chat('A broadcast for everybody.')
"""
    told = """
print(json.dumps([wire('chat'), [[one['to'], names(one['correlation_id']), one['payload']] for kind in ('chat/acknowledge', 'chat/cancel') for one in wire(kind)]]))
"""
    hold = f"""
from pathlib import Path
def hold():
    until = time.monotonic() + 20
    while not Path({str(tmp_path / "go")!r}).exists() and time.monotonic() < until: time.sleep(.01)
lab.loop.post(hold)
"""
    book = plain([UP + WIRE, SHOW, talk, told, hold, "lab.down()"]).run(0).run(1).run(2)
    # What was in sight is read, and its author is told so.
    waiting(book, 1, 0)
    one = message(book, 1, "Question 0")
    book.page.until(lambda: "✓ human: read" in one.inner_text(), "the acknowledgement to show")
    text = book.view(1).get_by_label("Message", exact=True)
    # A name after @ is completed and marked as a recipient; Enter sends it.
    book.click(text)
    book.tab.keyboard.type("Dear @hel")
    book.view(1).get_by_role("option", name="helper").wait_for()
    book.tab.keyboard.press("Enter")
    book.tab.keyboard.type("please go on.")
    assert text.input_value() == "Dear @helper please go on."
    book.tab.keyboard.press("Shift+Enter")
    book.tab.keyboard.type("Soon.")
    assert text.input_value() == "Dear @helper please go on.\nSoon."
    book.tab.keyboard.press("Enter")
    book.page.until(lambda: text.input_value() == "", "the message to be sent")
    # With the mouse: to everybody, in Markdown.
    book.click(book.view(1).locator("button.mew-whom"))
    book.click(book.view(1).locator("fieldset").get_by_label("helper"))
    book.click(book.view(1).get_by_label("Markdown"))
    text.fill("It is **done**.")
    book.click(book.view(1).get_by_role("button", name="Send"))
    message(book, 1, "It is done.").locator("strong").wait_for()
    # One that was addressed is set aside with a word of the list, an own one cancelled with a word of one's own.
    choose(book, message(book, 1, "Question 1"), "Dismiss…")
    message(book, 1, "Question 1").get_by_label("Reason", exact=True).select_option("duplicate")
    book.click(message(book, 1, "Question 1").get_by_role("button", name="Dismiss the message", exact=True))
    book.page.until(lambda: "cancelled by human" in message(book, 1, "Question 1").inner_text(), "the cancel")
    # What was said to everybody is another's, and is not offered.
    book.click(message(book, 1, "A broadcast").locator(".mew-message-menu"))
    assert book.view(1).get_by_role("menuitem", name="Reply").count() == 1
    assert book.view(1).get_by_role("menuitem", name=re.compile("Cancel|Dismiss")).count() == 0
    book.tab.keyboard.press("Escape")
    choose(book, message(book, 1, "please go on"), "Cancel…")
    message(book, 1, "please go on").get_by_label("Reason in your own words").fill("no longer true")
    book.tab.keyboard.press("Tab")
    book.tab.keyboard.press("Tab")
    book.tab.keyboard.press("Enter")
    book.page.until(lambda: "cancelled by human: no longer true" in book.view(1).inner_text(), "the cancel")
    book.run(3)
    chats, others = json.loads(book.text(3))
    assert chats == [
        {"to": ["helper"], "correlation_id": None, "payload": {"text": "Dear @helper please go on.\nSoon."}},
        {"to": None, "correlation_id": None, "payload": {"text": "It is **done**.", "format": "markdown"}},
    ]
    assert others == [
        [["helper"], ["Question 0 of the helper?"], {"status": "read"}],
        [["helper"], ["Question 1 of the helper?"], {"status": "read"}],
        [["helper"], ["Question 2 of the helper?"], {"status": "read"}],
        [["weather-service"], ["A broadcast for everybody."], {"status": "read"}],
        [["helper"], ["Question 1 of the helper?"], {"reason": "duplicate"}],
        [["helper"], ["Dear @helper please go on.\nSoon."], {"reason": "no longer true"}],
    ]
    # What takes a while takes the keyboard from nobody: the answer comes when something else is written already.
    book.run(4)
    done = message(book, 1, "It is done.")
    choose(book, done, "Cancel…")
    book.click(done.get_by_role("button", name="Cancel the message", exact=True))
    book.click(text)
    book.tab.keyboard.type("One more ")
    assert "cancelled" not in done.inner_text()
    (tmp_path / "go").touch()
    book.page.until(lambda: "cancelled by human" in done.inner_text(), "the cancel to come")
    book.page.until(lambda: done.locator(".mew-why-form").count() == 0, "the form to be shut")
    book.tab.keyboard.type("thing.")
    assert text.input_value() == "One more thing."
    book.run(5)


HOSTILE = f"""
import sys; sys.path[:0] = [{str(HERE.parent / "lab")!r}]
from heard import Space
from mew_lab.views.chat.widget import ChatView
from mew_lab.views.chat.model import ChatModel
{as_python()}
pairs = list(zip(PAYLOADS[::2], PAYLOADS[1::2]))
me = lab.me.participant
me.client.participants.update({{one: [] for one in PAYLOADS[:190]}})
talk = lab.loop.call(lambda: ChatModel(me))
space = Space(talk)
for n, (one, two) in enumerate(pairs):
    for format, between in (('plain', '\\n'), ('markdown', '\\n\\n')):
        id = f'{{format}}-{{n}}'
        space.tell('chat', {{'text': one + between + two, 'format': format}}, by=one, to=[two, 'human'], context=two, id=id)
        space.tell('chat/acknowledge', {{'status': one}}, by=two, about=id)
        space.tell('chat/cancel', {{'reason': two}}, by='x' + one, about=id)
        space.tell('chat/cancel', {{'reason': two}}, by=one, about=id)
hostile = ChatView(talk, submit=lab.loop.submit)
hostile
"""
ALLOWED = (
    "section header div span b strong em s p ul ol li pre code blockquote hr br a table thead tbody tr th td bdi time button "
    "label select option input textarea fieldset legend"
)


@pytest.mark.slow
@pytest.mark.threat(3)
@pytest.mark.threat(4)
def test_threat_03_and_04_hostile_text_is_text_and_markdown_loads_nothing(
    plain: Callable[..., Notebook],
) -> None:
    book = plain([UP, HOSTILE, "hostile.close(); lab.down()"])
    asked = listen(book)
    book.run(0).run(1)
    count = 2 * (len(PAYLOADS) // 2)
    book.page.until(lambda: book.view(1).get_attribute("data-last") == str(count), "the hostile messages")
    book.click(book.view(1).get_by_role("button", name="Show earlier messages"))
    book.page.until(lambda: book.view(1).locator("li.mew-message").count() == count, "the earlier ones")
    book.click(book.view(1).locator("button.mew-whom"))
    book.view(1).locator("fieldset label").nth(150).wait_for()
    harmless(book, book.view(1), allowed=ALLOWED.split(), asked=asked)
    for link in book.view(1).locator("a").all()[:20]:
        assert (link.get_attribute("rel"), link.get_attribute("target")) == (
            "noopener noreferrer nofollow",
            "_blank",
        )
    assert book.view(1).get_by_role("button", name="Approve", exact=True).count() == 0
    assert "\u202e" not in book.view(1).inner_text()
    book.run(2)


@pytest.mark.slow
def test_chat_is_used_by_keyboard_and_read_at_any_width(notebook: Callable[..., Notebook]) -> None:
    long = """
report = weather.chat('\\n'.join(f'line {n} of the report' for n in range(1, 31)), 'human')
for n in range(12): bot.chat(f'Sentence {n}, which is short.', 'human')
helper.send('chat', {'text': 'I have read it.'}, to='human', correlation_id=report.id)
weather.chat('begin ' + 'data ' * 14_000 + 'end', 'human')
"""
    cells = [UP + WIRE, SHOW, SCENE, "print(len(wire('chat/acknowledge')))", long, "lab.down()"]
    book = notebook(cells).run(0).run(1)
    book.view(1).get_by_text('lab.chat("hello")').wait_for()
    book.run(2)
    book.page.until(lambda: book.view(1).get_attribute("data-last") == "6", "six messages")
    book.click(book.view(1).locator("button.mew-whom"))
    accessible(book, book.view(1))
    path = focus_path(book, book.view(1))
    assert [path[0], path[-1]] == ["input Search in the messages", "button Send"]
    assert "div Conversation" in path and "textarea Message" in path
    assert path.index("button Actions on the message of weather-service") < path.index("textarea Message")
    # What has been in sight is read already; the rest is too tall, or above.
    book.page.until(lambda: book.view(1).get_attribute("data-waiting") != "3", "one to be read")
    book.view(1).get_by_role("button", name="Mark all as read").focus()
    book.tab.keyboard.press("Enter")
    waiting(book, 1, 0)
    assert book.tab.locator(".jp-Notebook .jp-Cell").count() == 6, "no key reached the notebook"
    assert book.run(3).text(3).strip() == "3"
    # What is long is folded; what is longer than what travels is fetched; an answer leads to what it answers.
    book.run(4)
    report, answer = message(book, 1, "line 1 of the report"), message(book, 1, "I have read it.")
    message(book, 1, "begin data").wait_for()
    folded = report.get_by_role("button", name="show all 30 lines")
    small = tall(report)
    book.click(folded)
    fold = report.get_by_role("button", name="fold")
    book.page.until(lambda: fold.count() and fold.get_attribute("aria-expanded") == "true", "all of it")
    assert tall(report) >= 30 * 12 > small
    book.click(fold)
    book.page.until(lambda: tall(report) == small, "it to be folded again")
    book.click(answer.get_by_role("button", name="⇠ answers weather-service"))
    assert report.evaluate("n => n === document.activeElement")
    place, around = report.bounding_box(), book.view(1).locator(".mew-talk").bounding_box()
    assert place and around and around["y"] - 1 <= place["y"] < around["y"] + around["height"]
    data = message(book, 1, "begin data")
    # 65 536 characters of a message travel; it has 6 + 70 000 + 3.
    book.click(data.get_by_role("button", name="Show the rest, 4\u202f473 characters"))
    whole = data.locator(".mew-body")
    book.page.until(lambda: len(whole.text_content() or "") == 70_009, "the whole message")
    assert (whole.text_content() or "").endswith("data end")
    assert data.get_by_role("button", name="show the rest").count() == 0
    assert data.evaluate("n => n === document.activeElement")
    assert tall(data) > 1000
    book.click(data.get_by_role("button", name="fold"))
    assert tall(data) < 1000
    book.run(5)


@pytest.mark.trap("T-26")
@pytest.mark.slow
def test_what_streams_past_takes_nothing_from_the_reader(plain: Callable[..., Notebook]) -> None:
    flood = """
async def flood(count):
    for n in range(count):
        await weather.participant.client.send({'kind': 'chat', 'payload': {'text': f'line {n}'}})
lab.loop.submit(flood(FLOOD)).result(30)
"""
    first = "helper.chat('A question for you.', ['human'])"
    book = plain([UP, SHOW, first, "lab.down()"])
    book.run(0).run(1).run(2)
    one = message(book, 1, "A question for you.")
    one.wait_for()
    choose(book, one, "Dismiss…")
    words = one.get_by_label("Reason in your own words")
    words.click()
    book.tab.keyboard.type("half a")
    for count, last in ((300, 301), (700, 1001)):
        book.execute(flood.replace("FLOOD", str(count)))
        book.page.until(
            lambda last=last: book.view(1).get_attribute("data-last") == str(last), "the last line"
        )
        assert words.evaluate("n => n === document.activeElement") and words.input_value() == "half a"
    shown = "s => [...s.querySelectorAll('li.mew-message')].map(n => Number(n.dataset.n))"
    numbers = book.view(1).evaluate(shown)
    assert numbers == sorted(numbers) and numbers[0] == 1 and len(numbers) <= 601
    # What is between it and the rest can still be asked for, and comes where it belongs.
    before = len(numbers)
    book.click(book.view(1).get_by_role("button", name="Show earlier messages"))
    book.page.until(lambda: len(book.view(1).evaluate(shown)) > before, "the earlier ones")
    numbers = book.view(1).evaluate(shown)
    assert numbers == sorted(set(numbers)) and numbers[1:] == list(range(numbers[1], 1002))
    book.click(book.view(1).locator("button.mew-whom"))
    box = book.view(1).get_by_role("checkbox", name="weather-service")
    box.focus()
    book.execute("lab.join('a-new-one')")
    book.view(1).get_by_role("checkbox", name="a-new-one").wait_for()
    assert box.evaluate("n => n === document.activeElement")
    names = book.view(1).locator(".mew-recipients label").all_inner_texts()
    assert [name.strip() for name in names] == ["a-new-one", "helper", "weather-service"]
    book.run(3)


@pytest.mark.slow
def test_only_what_was_in_sight_is_read(plain: Callable[..., Notebook]) -> None:
    """Whole, and for a second: not what is folded, not what is scrolled away, and nothing in a page that is hidden."""
    talk = """
weather.chat('\\n'.join(f'line {n}' for n in range(40)), 'human')
for n in range(30): helper.chat(f'Short {n}.', 'human')
"""
    told = """
print(json.dumps([[t for one in wire('chat/acknowledge') for t in names(one['correlation_id'])], [one['payload']['status'] for one in wire('chat/acknowledge')]]))
"""
    book = plain([UP + WIRE, SHOW, talk, told, told, told, "lab.down()"]).run(0).run(1)
    book.view(1).get_by_text("No messages yet.").wait_for()
    hide = "v => Object.defineProperty(document, 'hidden', { configurable: true, get: () => v })"
    book.tab.evaluate(hide, True)
    book.run(2)
    book.page.until(lambda: book.view(1).get_attribute("data-last") == "31", "the messages")
    book.page.pause(2.5)  # nothing is to happen in this time
    waiting(book, 1, 31)
    book.tab.evaluate(hide, False)
    book.tab.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
    shown = book.view(1).evaluate(
        """r => { const box = r.querySelector('.mew-talk').getBoundingClientRect();
        return [...r.querySelectorAll('li.mew-message')].filter(n => { const at = n.getBoundingClientRect(); return at.top >= box.top - 1 && at.bottom <= box.bottom + 1; }).length; }"""
    )
    assert 3 <= shown <= 20
    waiting(book, 1, 31 - shown)
    book.run(3)
    texts, statuses = json.loads(book.text(3))
    assert texts == [f"Short {n}." for n in range(30 - shown, 30)] and set(statuses) == {"read"}
    # The long one is at the top, in sight, and folded: it stays unread until its button is pressed.
    book.view(1).locator(".mew-talk").evaluate("n => { n.scrollTop = 0; }")
    report = message(book, 1, "line 0")
    first = message(book, 1, "Short 0.")
    book.page.until(lambda: "✓ human: read" in first.inner_text(), "the first short one to be read")
    assert "✓ human" not in report.inner_text()
    book.click(report.get_by_role("button", name="Mark the message of weather-service as read"))
    book.page.until(lambda: "✓ human: read" in report.inner_text(), "the long one to be read")
    # What nobody saw is told to have arrived, not to have been read.
    book.click(book.view(1).get_by_role("button", name="Mark all as read"))
    waiting(book, 1, 0)
    book.run(4)
    texts, statuses = json.loads(book.text(4))
    assert len(texts) == 31 and 0 < statuses.count("received") < 31 - shown
    book.run(6)


@pytest.mark.threat(4)
def test_addresses_are_links_that_show_their_host_and_messages_are_found_and_copied(
    plain: Callable[..., Notebook],
) -> None:
    talk = """
helper.chat('Read https://mew.example/a?b=1, or javascript:alert(1).')
helper.chat('Not https://mеw.example/ at all.')
for n in range(3): weather.chat(f'Rain {n} in Tokyo')
"""
    book = plain([UP, SHOW, talk, "lab.down()"]).run(0).run(1).run(2)
    links = book.view(1).locator(".mew-body a")
    book.page.until(lambda: links.count() == 2, "the links")
    told = [links.nth(0).get_attribute(name) for name in ("href", "rel", "target", "title", "referrerpolicy")]
    assert told == [
        "https://mew.example/a?b=1", "noopener noreferrer nofollow", "_blank",
        "mew.example\nhttps://mew.example/a?b=1", "no-referrer",
    ]  # fmt: skip
    # A Cyrillic letter in a host shows.
    assert (links.nth(1).get_attribute("title") or "").startswith("xn--")
    search = book.view(1).get_by_label("Search in the messages")
    search.fill("tokyo")
    found = book.view(1).locator(".mew-found")
    book.page.until(lambda: "Rain 2" in found.inner_text(), "the newest match")
    assert "1 of 3" in book.view(1).locator(".mew-header").inner_text()
    search.press("Enter")
    book.page.until(lambda: "Rain 1" in found.inner_text(), "the next match")
    search.press("Shift+Enter")
    book.page.until(lambda: "Rain 2" in found.inner_text(), "the previous match")
    search.fill("nowhere")
    book.page.until(lambda: "No match" in book.view(1).locator(".mew-header").inner_text(), "no match")
    book.tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    one = message(book, 1, "Rain 0")
    one.hover()
    book.click(one.get_by_role("button", name="Copy"))
    one.get_by_role("button", name="Copied").wait_for()
    assert book.tab.evaluate("() => navigator.clipboard.readText()") == "Rain 0 in Tokyo"
    book.run(3)
