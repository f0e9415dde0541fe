"""Reasoning in a real JupyterLab: followed live, opened and cancelled with mouse and keyboard, seen on the wire."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from access import accessible, focus_path
from playwright.sync_api import Locator
from real_lab import Notebook

HERE = Path(__file__).parent
UP = """
import asyncio, json, time
import mew_lab
lab = mew_lab.up('demo', journal=None)
@lab.tool
def weather_of(city: str) -> str:
    'The weather of a city.'
    return f'{city}: 22 degrees, a shower at 15:00, wind from the south-west.'
helper = lab.join('helper', can='agent')
bot = lab.join('bot', can='agent')
garden = lab.join('garden-service', can='admin')
"""
SHOW = "lab.view.reasoning"
SCENE = """
ask = lab.chat('Will it rain in Tokyo tomorrow?', 'helper')
def think(who, text, about, **more):
    return who.send('reasoning/thought', {'message': text}, context=about, **more)
first = bot.send('reasoning/start', {'message': 'Looking through the seed catalogue for beans that can still be sown in September.'})
think(bot, 'Three kinds remain; two of them need fourteen weeks, which is too long.', first.id)
bot.send('reasoning/conclusion', {'message': 'Only the dwarf bean is worth ordering.'}, context=first.id)
one = helper.send('reasoning/start', {'message': 'Working on: Will it rain in Tokyo tomorrow?'}, correlation_id=ask.id)
helper.send('reasoning/thought', {'message': 'I need the forecast. The notebook offers weather_of, so I ask for Tokyo.', 'usage': {'input_tokens': 300, 'output_tokens': 20}, 'duration_ms': 1500}, context=one.id)
call = garden.send('mcp/request', {'jsonrpc': '2.0', 'id': 1, 'method': 'tools/call', 'params': {'name': 'weather_of', 'arguments': {'city': 'Tokyo'}}}, to='notebook', correlation_id=one.id)
p = helper.propose('notebook/weather_of', {'city': 'Tokyo'})
helper.send('mcp/proposal', {'method': 'tools/call', 'params': {'name': 'water_beds', 'arguments': {'litres': 40, 'beds': ['beans', 'tomatoes', 'herbs']}}}, to='garden-service', correlation_id=one.id)
rejected = helper.send('mcp/proposal', {'method': 'tools/call', 'params': {'name': 'open_valve', 'arguments': {'valve': 3}}}, to='garden-service', correlation_id=one.id)
garden.send('mcp/reject', {'reason': 'unsafe'}, to='helper', correlation_id=rejected.id)
think(helper, 'A shower at 15:00 is enough for the beans; the tomatoes stand under glass and get nothing of it.', one.id + '/watering')
think(helper, 'Two litres for the tomatoes, then.', one.id + '/watering')
inner = helper.send('reasoning/start', {'message': 'How dry is the soil under glass?'}, context=one.id)
think(helper, 'The sensor was read at 07:50: 18 per cent.', inner.id)
long = garden.send('reasoning/start', {'message': 'Planning the pumps for the week. ' + 'The order of the beds follows from the slope, ' * 12})
think(garden, 'Pump 2 first. ' * 60, long.id)
stream = lab.loop.submit(helper.participant.streams.request_stream('upload', description='reasoning:' + one.id, correlation_id=(one.id,))).result(10)
async def tokens():
    for word in ('So the answer is: yes, it will rain, but only after three in the afternoon, and the tomatoes still need water. ' * 3).split(' '):
        await stream.write_json({'context': one.id, 'type': 'token', 'text': word + ' '})
lab.loop.submit(tokens()).result(10)
"""


def branch(book: Notebook, index: int, text: str) -> Locator:
    return book.view(index).locator(".mew-sequence").filter(has_text=text).first


def active(book: Notebook, index: int, count: int) -> None:
    book.page.until(lambda: book.view(index).get_attribute("data-active") == str(count), f"{count} active")


@pytest.mark.req("P-3.5.5-1", "P-3.5.5-2", "P-3.5.5-5", "S-L3-9", "S-L3-10")
def test_a_thinking_agent_is_followed_live_and_cancelled_on_the_wire(
    plain: Callable[..., Notebook],
) -> None:
    agent = """
del helper
thinker = lab.agent('thinker')
answer = lab.ask('thinker', 'What is the weather in Tokyo?')
"""
    told = """
raws = [json.loads(lab.rows.raw(row.seq)) for row in lab.rows.since(0, 10000)]
cancel = next(one for one in raws if one['kind'] == 'reasoning/cancel')
start = next(one for one in raws if one['kind'] == 'reasoning/start')
print(json.dumps([cancel['from'], cancel['to'], cancel['context'] == start['id'], cancel['correlation_id'] == [answer.id], cancel['payload']]))
print(json.dumps([lab.view.reasoning._thoughts.sequences[0].facts.state, len(lab.view.reasoning.faults)]))
"""
    book = plain([UP, SHOW, agent, told, "lab.down()"]).run(0).run(1)
    book.view(1).get_by_text('lab.ask("helper", "…")').wait_for()
    book.run(2)
    active(book, 1, 1)
    one = branch(book, 1, "thinker")
    # The call waits for a decision, in place, and the stream is read along.
    one.locator(".mew-step[data-state=proposed]").wait_for()
    assert "waiting for approval" in one.inner_text() and "weather_of" in one.inner_text()
    book.page.until(lambda: "live on stream-" in one.inner_text(), "the stream beside it")
    book.click(one.locator(".mew-step[data-state=proposed]").get_by_role("button", name="Show all of it"))
    one.locator("pre.mew-whole").wait_for()
    assert '"city"' in one.locator("pre.mew-whole").inner_text()
    book.click(one.get_by_role("button", name="Cancel the reasoning of thinker"))
    one.get_by_label("Reason", exact=True).select_option("timeout")
    book.click(one.get_by_role("button", name="Cancel the reasoning", exact=True))
    active(book, 1, 0)
    book.page.until(lambda: "cancelled by human (timeout)" in one.inner_text(), "the end to be told")
    assert one.get_by_role("button", name="Cancel the reasoning of thinker").count() == 0
    book.page.until(lambda: "withdrawn" in one.inner_text(), "the agent to take its call back")
    book.run(3).run(4)
    first, second = book.text(3).strip().splitlines()
    assert json.loads(first) == ["human", ["thinker"], True, True, {"reason": "timeout"}]
    assert json.loads(second) == ["cancelled", 0]


def timeless(line: Locator) -> str:
    """The text of a line without how long it has waited so far."""
    return re.sub(r"for [\d.:]+( s)?", "", line.inner_text())


@pytest.mark.slow
def test_text_is_searched_all_is_folded_and_links_lead_to_the_message_and_back(
    plain: Callable[..., Notebook],
) -> None:
    book = (
        plain([UP, SHOW, SCENE, "lab.view.feed", "lab.view.approvals", "lab.down()"])
        .run(0)
        .run(1)
        .run(2)
        .run(3)
        .run(4)
    )
    active(book, 1, 3)
    one = book.view(1)
    pills = one.locator(".mew-counts-line .mew-pill").all_inner_texts()
    assert pills[:3] == ["3 active", "1 ended", "1 waiting"], pills
    assert "Working on" not in one.inner_text()
    # The bars lie where their time lies; the cost stands where it is reported, and nowhere else.
    bars = one.locator(".mew-step .mew-bar-fill").evaluate_all(
        "all => all.every(b => b.style.left && parseFloat(b.style.width) >= 1)"
    )
    assert bars and one.locator(".mew-cost").all_inner_texts() == ["320 tokens · 1.5 s"]
    book.click(one.get_by_role("button", name="Collapse all"))
    assert one.locator("[role=treeitem][aria-expanded=true]:visible").count() == 0
    search = one.get_by_role("searchbox")
    search.fill("TOMATOES")
    hit = one.locator(".mew-hit > .mew-row")
    book.page.until(
        lambda: "1 of " in one.locator(".mew-hit-count").inner_text() and hit.count(), "the first hit"
    )
    number = int(one.locator(".mew-hit-count").inner_text().split()[-1])
    seen = []
    for _ in range(number):
        assert (
            hit.locator("mark").first.inner_text().lower() == "tomatoes" or "water_beds" in hit.inner_text()
        )
        assert hit.is_visible()
        seen.append(timeless(hit))
        before = one.locator(".mew-hit-count").inner_text()
        search.press("Enter")
        book.page.until(
            lambda before=before: one.locator(".mew-hit-count").inner_text() != before, "the next hit"
        )
        book.page.until(lambda: hit.count() == 1, "its mark")
    assert number >= 3 and len(set(seen)) == number and timeless(hit) == seen[0]
    search.press("Shift+Enter")
    book.page.until(lambda: hit.count() and timeless(hit) == seen[-1], "the previous hit")
    assert search.evaluate("s => s === document.activeElement")
    book.click(one.get_by_role("button", name="Expand all"))
    # A line leads to its message in Messages, and a context leads back here.
    line = one.locator(".mew-step", has_text="I need the forecast")
    line.focus()
    asked = "window.asked = []; for (const part of document.querySelectorAll('section.mew')) if (part.mewOpen) { const show = part.mewOpen; part.mewOpen = (target) => { window.asked.push([part.mewPart, target]); return show(target); }; }"
    book.tab.evaluate(f"() => {{ {asked} }}")
    book.tab.keyboard.press("m")
    proposal = one.locator(".mew-step", has_text="open_valve")
    proposal.focus()
    book.tab.keyboard.press("c")
    shown = one.evaluate("(n, id) => n.mewOpen({ context: id })", "none")
    assert shown is False
    assert one.evaluate("n => Boolean(n.mewOpen)")


@pytest.mark.slow
def test_the_page_is_not_laid_out_once_for_each_active_sequence(plain: Callable[..., Notebook]) -> None:
    many = "for n in range(60):\n    one = bot.send('reasoning/start', {'message': f'question {n}'})\n    bot.send('reasoning/thought', {'message': 'Well.'}, context=one.id)"
    book = plain([UP, SHOW, many]).run(0).run(1)
    devtools = book.tab.context.new_cdp_session(book.tab)
    devtools.send("Performance.enable")

    def layouts() -> float:
        [count] = [
            m["value"]
            for m in devtools.send("Performance.getMetrics")["metrics"]
            if m["name"] == "LayoutCount"
        ]
        return float(count)

    book.run(2)
    active(book, 1, 60)
    # The times of all 60 change at each tick.
    time, ticks = book.view(1).locator(".mew-sequence > .mew-row > .mew-time").last, 4
    before = layouts()
    for _ in range(ticks):
        text = time.text_content()
        book.page.until(lambda text=text: time.text_content() != text, "a later time")
    assert layouts() - before < 30 * ticks


@pytest.mark.slow
def test_reasoning_is_used_by_keyboard_and_read_at_any_width(notebook: Callable[..., Notebook]) -> None:
    book = notebook([UP, SHOW, SCENE, "lab.down()"]).run(0).run(1).run(2)
    active(book, 1, 3)
    book.page.until(lambda: "three in the afternoon" in book.view(1).inner_text(), "the stream")
    lines = book.view(1).locator(".mew-row").all_inner_texts()
    at = [
        next(n for n, line in enumerate(lines) if text in line)
        for text in ("I need the", "open_valve", "How dry", "The sensor")
    ]
    assert at == sorted(at), "what began within a sequence stands where it began"
    accessible(book, book.view(1))
    here = "() => document.getElementById(document.activeElement.getAttribute('aria-labelledby'))?.textContent ?? document.activeElement.textContent"

    def press(*keys: str) -> str:
        for key in keys:
            book.tab.keyboard.press(key)
        return str(book.tab.evaluate(here))

    path = focus_path(book, book.view(1))
    assert len([stop for stop in path if stop.startswith("div")]) == 1, "the tree is one stop"
    book.view(1).locator("[role=treeitem][tabindex='0']").focus()
    assert "seed catalogue" in press("Home")
    assert "Three kinds remain" in press("ArrowDown")
    assert "seed catalogue" in press("ArrowLeft")
    press("ArrowLeft")
    assert branch(book, 1, "seed catalogue").get_attribute("aria-expanded") == "false"
    assert "Will it rain" in press("ArrowDown")
    assert "I need the forecast" in press("ArrowRight")
    assert "seed catalogue" in press("ArrowUp", "ArrowUp")
    press("ArrowRight")
    assert branch(book, 1, "seed catalogue").get_attribute("aria-expanded") == "true"
    press("End")
    while "Planning the pumps" not in press("ArrowUp"):
        pass
    # From a line, Tab goes to its buttons: all of it, its message, then Cancel; Escape gives back the line.
    press("Tab")
    assert press("Tab") == "Message"
    assert press("Tab") == "Cancel…"
    press("Enter")
    assert book.tab.evaluate("() => document.activeElement.getAttribute('aria-label')") == "Reason"
    press("Escape")
    assert book.view(1).locator(".mew-why-form").count() == 0
    assert press("Enter", "Tab", "Tab", "Tab") == "Cancel the reasoning"
    press("Enter")
    active(book, 1, 2)
    book.page.until(lambda: "cancelled by human (superseded)" in book.view(1).inner_text(), "the cancel")
    assert "Planning the pumps" in press("Shift")
    assert book.tab.locator(".jp-Notebook .jp-Cell").count() == 4, "no key reached the notebook"
    book.run(3)


@pytest.mark.slow
def test_what_ended_and_was_seen_folds_when_the_next_begins_and_the_reader_stays(
    plain: Callable[..., Notebook],
) -> None:
    first = """
one = bot.send('reasoning/start', {'message': 'first'})
for n in range(40): bot.send('reasoning/thought', {'message': f'thought {n}'}, context=one.id)
"""
    end = "bot.send('reasoning/conclusion', {'message': 'done'}, context=one.id)"
    more = "for n in range(3): bot.send('reasoning/thought', {'message': f'more {n}'}, context=one.id)"
    second = "two = garden.send('reasoning/start', {'message': 'second'})"
    book = plain([UP, SHOW, first, more, end, second, "lab.down()"]).run(0).run(1).run(2)
    scroller = book.view(1).locator(".mew-thoughts")
    book.page.until(
        lambda: scroller.evaluate("s => s.scrollTop + s.clientHeight >= s.scrollHeight - 4"), "the end"
    )
    follow = book.view(1).locator("button.mew-follow")

    def scroll_back() -> bool:
        """A thought that arrives in the same frame follows once more; a reader scrolls again."""
        scroller.evaluate("s => { s.scrollTop = 0; }")
        return follow.is_visible()

    book.page.until(scroll_back, "the reader to be at the beginning")
    book.run(3)
    book.page.until(lambda: follow.inner_text() == "3 new ▾ follow", "the count of what is new")
    assert scroller.evaluate("s => s.scrollTop") == 0
    book.click(follow)
    book.run(4)
    active(book, 1, 0)
    book.tab.mouse.move(5, 5)
    book.page.pause(5.5)  # it is seen for some seconds; that is what is shown
    assert branch(book, 1, "first").get_attribute("aria-expanded") == "true", "nothing moves by itself"
    book.run(5)
    book.page.until(lambda: branch(book, 1, "first").get_attribute("aria-expanded") == "false", "it to fold")
    assert branch(book, 1, "second").get_attribute("aria-expanded") == "true"
    book.run(6)


@pytest.mark.slow
def test_a_part_that_goes_on_outlives_what_it_began_in(plain: Callable[..., Notebook]) -> None:
    scene = f"""
import sys; sys.path[:0] = [{str(HERE.parent / "lab")!r}]
from heard import Space
from mew_lab.views.reasoning.widget import ReasoningView
from mew_lab.views.reasoning.model import ReasoningModel
thoughts = lab.loop.call(lambda: ReasoningModel(lab.me.participant))
space = Space(thoughts)
space.tell('reasoning/start', {{'message': 'the whole'}}, id='whole')
space.tell('reasoning/start', {{'message': 'a part'}}, id='part', context='whole')
space.tell('reasoning/start', {{'message': 'a part of the part'}}, id='inner', context='part')
space.tell('reasoning/thought', {{'message': 'within'}}, context='inner')
shown = ReasoningView(thoughts, submit=lab.loop.submit)
shown
"""
    much = (
        "for n in range(520): space.tell('reasoning/thought', {'message': f'thought {n}'}, context='whole')"
    )
    many = """
space.tell('reasoning/conclusion', {'message': 'done'}, context='whole')
for n in range(205):
    space.tell('reasoning/start', {'message': f'other {n}'}, id=f'o{n}')
    space.tell('reasoning/conclusion', {'message': 'done'}, context=f'o{n}')
"""
    book = plain([UP, scene, "lab.down()"]).run(0).run(1)
    levels = """s => [...s.querySelectorAll('.mew-sequence')].filter(n => /a part/.test(n.querySelector('.mew-what').textContent))
        .map(n => [n.querySelector('.mew-what').textContent, n.getAttribute('aria-level'), n.isConnected])"""
    active(book, 1, 3)
    book.execute(much)
    book.page.until(lambda: "21 earlier steps" in book.view(1).inner_text(), "the first steps to go")
    assert [one[:2] for one in book.view(1).evaluate(levels)] == [
        ["a part", "2"],
        ["a part of the part", "3"],
    ]
    inner = book.view(1).locator(".mew-sequence", has=book.tab.get_by_text("a part of the part")).last
    inner.focus()
    book.execute(many)
    book.page.until(lambda: book.view(1).get_by_text("the whole", exact=True).count() == 0, "the whole to go")
    assert [one[:2] for one in book.view(1).evaluate(levels)] == [
        ["a part", "1"],
        ["a part of the part", "2"],
    ]
    assert book.view(1).get_attribute("data-active") == "2"
    assert inner.evaluate("n => n === document.activeElement"), "the keyboard stays where it was"
    assert inner.locator(".mew-stop").count() == 1 and inner.locator(".mew-step").count() == 1
    book.run(2)
