"""The roster tells who is here and lets the human steer them; every click has its effect on the wire."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable

import pytest
from access import accessible, focus_path
from playwright.sync_api import Locator
from real_lab import Notebook

SETUP = """
import json, mew_lab
lab = mew_lab.up('demo', journal=None)
agent = lab.join('agent', can='agent')
helper = lab.join('helper')
view = lab.view.roster
"""
SHOW = "view"
SCENE = """
lab.join('weather-service', can='tool')
reader = lab.join('reader', can='observer')
git = lab.join('git', can='tool')
agent.send('participant/status', {'messages_in_context': 14, 'tokens': 7440, 'max_tokens': 8000, 'status': 'near_limit', 'latency_ms': 120})
helper.send('participant/status', {'messages_in_context': 3, 'tokens': 1210, 'max_tokens': 8000, 'status': 'active'})
git.send('participant/status', {'messages_in_context': 0, 'status': 'idle', 'latency_ms': 12})
lab.loop.submit(view._members.steering.perform('pause', 'helper', {'timeout_seconds': 42, 'reason': 'the build is broken'})).result(5)
lab.leave('reader')
"""


DEEDS = {
    "status": "Request status", "pause": "Pause…", "resume": "Resume", "forget": "Shorten context…",
    "compact": "Compact context…", "clear": "Clear context…", "restart": "Restart…", "shutdown": "Shut down…",
    "kick": "Remove…",
}  # fmt: skip


def root(book: Notebook, index: int) -> Locator:
    return book.area(index).locator("section.mew-roster")


def row(book: Notebook, index: int, name: str) -> Locator:
    return root(book, index).locator(f"li.mew-row[data-id='{name}']")


def deed(book: Notebook, index: int, name: str, which: str) -> Locator:
    """Opens the menu of a row and chooses; the form that asks for more, if there is one."""
    one = row(book, index, name)
    book.click(one.locator("button.mew-menu-button"))
    book.click(one.get_by_role("menuitem", name=re.compile(f"^{DEEDS[which]}")))
    return one.locator(".mew-ask")


def said(book: Notebook, index: int, name: str, text: str) -> None:
    line = row(book, index, name).locator(".mew-said")
    book.page.until(lambda: text in (line.text_content() or ""), f"the row to say {text!r}")


def sure(book: Notebook, form: Locator) -> None:
    """Waits until the second button is armed, then clicks it."""
    button = form.locator("button.mew-sure")
    book.page.until(lambda: button.get_attribute("aria-disabled") != "true", "the button to arm")
    book.click(button)


WIRE = """
kinds = ('participant/', 'space/')
for one in lab.log:
    if one.get('kind', '').startswith(kinds) and one.get('from') == 'human':
        print(one['kind'], one.get('to'), json.dumps(one['payload']))
"""


@pytest.mark.slow
def test_every_deed_of_the_menu_is_a_message_on_the_wire(plain: Callable[..., Notebook]) -> None:
    book = plain([SETUP, SHOW, WIRE]).run(0).run(1)
    row(book, 1, "agent").wait_for()
    form = deed(book, 1, "agent", "pause")
    form.locator("input[type=number]").fill("90")
    form.locator("input[type=text]").fill("lunch")
    sure(book, form)
    left = row(book, 1, "agent").locator(".mew-left-time")
    book.click(row(book, 1, "agent").locator("button.mew-chips"))
    book.page.until(lambda: "Resumes in 1:2" in (left.text_content() or ""), "the countdown")
    assert row(book, 1, "agent").get_attribute("data-presence") == "paused"
    assert re.fullmatch(r"paused until \d\d:\d\d", row(book, 1, "agent").locator(".mew-state").inner_text())
    deed(book, 1, "agent", "resume")
    said(book, 1, "agent", "agent may send again")
    deed(book, 1, "agent", "status")
    said(book, 1, "agent", "agent: 0 messages in context")
    form = deed(book, 1, "agent", "forget")
    form.locator("select").select_option("newest")
    form.locator("input").fill("3")
    sure(book, form)
    said(book, 1, "agent", "was asked to forget the newest 3")
    sure(book, deed(book, 1, "agent", "compact"))
    said(book, 1, "agent", "agent had nothing to compact")
    for which, word in (
        ("clear", "erase its context"),
        ("restart", "asked to restart"),
        ("shutdown", "shut down"),
    ):
        form = deed(book, 1, "agent", which)
        assert form.locator("button.mew-sure").get_attribute("aria-disabled") == "true", (
            "it must not be armed at once"
        )
        assert form.locator("button:focus").text_content() == "Cancel"
        sure(book, form)
        said(book, 1, "agent", word)
    form = deed(book, 1, "helper", "kick")
    form.locator("input").fill("spam")
    sure(book, form)
    book.page.until(lambda: row(book, 1, "helper").get_attribute("data-presence") == "removed", "the removal")
    book.run(2)
    assert book.text(2).splitlines() == [
        'participant/pause [\'agent\'] {"timeout_seconds": 90.0, "reason": "lunch"}',
        "participant/resume ['agent'] {}",
        "participant/request-status ['agent'] {}",
        'participant/forget [\'agent\'] {"direction": "newest", "entries": 3}',
        "participant/compact ['agent'] {}",
        "participant/clear ['agent'] {}",
        "participant/restart ['agent'] {}",
        "participant/shutdown ['agent'] {}",
        'space/kick None {"participant_id": "helper", "reason": "spam"}',
    ]


@pytest.mark.threat(1)
@pytest.mark.slow
def test_threat_01_the_token_of_an_invitation_is_shown_once_behind_a_click(
    notebook: Callable[..., Notebook],
) -> None:
    token = "[host_key] = [key for name, key in lab.host.minted.items() if name == 'reviewer']\nprint(host_key.token.reveal())"
    book = notebook([SETUP, SHOW, SHOW, token]).run(0).run(1).run(2)
    frames: list[str] = []
    taps = book.tab.context.new_cdp_session(book.tab)
    taps.send("Network.enable")
    taps.on("Network.webSocketFrameReceived", lambda event: frames.append(event["response"]["payloadData"]))
    view = root(book, 1)
    book.click(view.locator("button.mew-invite"))
    view.locator("input[aria-label^='id of']").fill("reviewer")
    view.locator("select[aria-label='what it may do']").select_option("observer")
    book.click(view.locator(".mew-form-place button", has_text="Invite"))
    show = view.locator("li.mew-invitation button")
    show.wait_for()
    book.tab.evaluate(
        "() => jupyterapp.commands.execute('@jupyter-widgets/jupyterlab-manager:saveWidgetState')"
    )
    saved, before = json.dumps(book.save()), len(frames)
    book.click(show)
    shown = view.locator("code.mew-secret")
    shown.wait_for()
    secret = shown.text_content() or ""
    assert len(secret) > 20
    assert before > 0 and not any(_holds(one, secret) for one in frames[:before]), (
        "it came before it was asked for"
    )
    assert any(_holds(one, secret) for one in frames[before:])
    assert secret not in saved and secret not in root(book, 2).inner_text()
    book.tab.evaluate(
        "() => jupyterapp.commands.execute('@jupyter-widgets/jupyterlab-manager:saveWidgetState')"
    )
    assert secret not in json.dumps(book.save())
    book.click(view.locator("button", has_text="Hide for good"))
    book.page.until(
        lambda: "was shown at" in view.locator("li.mew-invitation").inner_text(), "when it was shown"
    )
    assert secret not in view.evaluate("r => r.outerHTML")
    assert root(book, 2).locator("li.mew-invitation button").count() == 0
    book.run(3)
    assert book.text(3).strip() == secret
    for line in json.dumps(book.save()["cells"][:3]), view.inner_text():
        assert secret not in line


def _holds(frame: str, secret: str) -> bool:
    """Whether a WebSocket frame, text or bytes in base64, holds the secret."""
    if secret in frame:
        return True
    try:
        return secret.encode() in base64.b64decode(frame)
    except ValueError:
        return False


@pytest.mark.slow
def test_the_roster_can_be_used_without_a_mouse_and_at_any_width(plain: Callable[..., Notebook]) -> None:
    tells = "git.send('participant/status', {'messages_in_context': 7, 'tokens': 500, 'max_tokens': 8000})"
    book = plain([SETUP, SCENE, SHOW, WIRE, tells]).run(0).run(1).run(2)
    row(book, 2, "git").wait_for()
    book.page.until(
        lambda: row(book, 2, "reader").get_attribute("data-presence") == "left", "the reader to leave"
    )
    book.page.shot("roster", book.area(2))
    view = root(book, 2)
    book.run(4)
    meter = row(book, 2, "git").locator("[role=meter]")
    meter.wait_for()
    assert meter.get_attribute("aria-valuetext") == "500 of 8\u202f000 tokens, 6 %"
    assert view.locator(".mew-counts-line .mew-pill").first.inner_text() == "demo"
    path = focus_path(book, view)
    assert path[:2] == ["button Pause agents", "button Invite…"] and "permissions of hum" in path[3]
    assert len(path) == 3 + 2 * 6
    agent = row(book, 2, "agent")
    agent.locator("button.mew-menu-button").focus()
    keys = book.tab.keyboard
    keys.press("Enter")
    assert (agent.locator("[role=menuitem]:focus").text_content() or "").startswith("Show messages")
    keys.press("End")
    assert (agent.locator("[role=menuitem]:focus").text_content() or "").startswith("Remove…")
    keys.press("Escape")
    assert (
        agent.locator("button.mew-menu-button:focus").count() == 1
        and agent.locator("[role=menu]").count() == 0
    )
    keys.press("Enter")
    keys.press("ArrowDown")
    keys.press("ArrowDown")
    keys.press("Enter")
    keys.type("30")
    keys.press("Enter")
    book.page.until(lambda: agent.get_attribute("data-presence") == "paused", "the pause")
    agent.locator("button.mew-chips").click()
    view.locator("button.mew-invite").click()
    accessible(book, view, widths=(240, 360, 1600), pictures="roster-menu")
    view.evaluate("r => { r.style.width = '360px'; }")
    book.click(row(book, 2, "helper").locator("button.mew-menu-button"))
    book.click(row(book, 2, "helper").get_by_role("menuitem", name="Clear context…"))
    book.page.shot("roster-360", view)
    book.run(3)
    assert '"timeout_seconds": 30' in book.text(3)


STATES = """
@lab.tool
def water(bed: str) -> str:
    raise KeyError(bed)
plan = agent.send('reasoning/start', {'message': 'a plan'})
asked = helper.propose('notebook/water', bed='west')
"""


def state(book: Notebook, index: int, name: str, text: str) -> None:
    word = row(book, index, name).locator(".mew-state")
    book.page.until(lambda: text in (word.text_content() or ""), f"{name} to be {text!r}")


@pytest.mark.slow
def test_in_a_strip_each_participant_is_a_button_that_opens_its_row(
    plain: Callable[..., Notebook],
) -> None:
    fails = "lab.approve(lab.proposals()[0])"
    book = plain([SETUP, STATES, SHOW, fails, "lab.down()"]).run(0).run(1).run(2)
    view = root(book, 2)
    state(book, 2, "helper", "waiting for you")
    state(book, 2, "agent", "thinking")
    book.page.shots("roster-states", book.area(2))
    view.evaluate("r => { r.style.width = '56px'; }")
    avatar = row(book, 2, "helper").locator("button.mew-avatar")
    book.page.until(lambda: avatar.get_attribute("tabindex") == "0", "the strip")
    assert avatar.get_attribute("aria-label") == "helper, agent, waiting for you"
    assert "Its proposal of water is open" in (avatar.get_attribute("title") or "")
    assert not row(book, 2, "helper").locator(".mew-name").is_visible()
    path = focus_path(book, view)
    assert [name.split(",")[0] for name in path] == [
        "button human", "button agent", "button helper", "button notebook", "button Invite a participant",
    ]  # fmt: skip
    book.page.shots("roster-strip", view)
    book.click(avatar)
    box = view.get_by_role("dialog", name="helper")
    box.wait_for()
    assert box.locator(".mew-state").inner_text() == "waiting for you"
    assert box.locator(".mew-patterns").is_visible()
    book.page.shot("roster-flyout")
    # The menu and its forms work beside the avatar, too.
    book.click(box.locator("button.mew-menu-button"))
    book.click(box.get_by_role("menuitem", name="Pause…"))
    sure(book, box.locator(".mew-ask"))
    book.page.until(lambda: row(book, 2, "helper").get_attribute("data-presence") == "paused", "the pause")
    book.tab.keyboard.press("Escape")
    book.page.until(lambda: box.count() == 0, "the flyout to close")
    book.click(view.locator("button.mew-plus"))
    invite = view.get_by_role("dialog", name="Invite a participant")
    invite.get_by_label("id of the new participant").fill("reviewer")
    book.click(invite.get_by_role("button", name="Invite", exact=True))
    invite.get_by_role("button", name="Show the token of reviewer").wait_for()
    book.tab.keyboard.press("Escape")
    view.evaluate("r => { r.style.width = ''; }")
    book.run(3)
    state(book, 2, "helper", "paused")
    state(book, 2, "notebook", "failed: water")
    book.run(4)


def test_reasoning_is_cancelled_from_the_menu_by_keyboard_alone(plain: Callable[..., Notebook]) -> None:
    """Spec: §3.5.5."""
    book = plain([SETUP, STATES, SHOW, "print(lab.me.participant.ledger.reasoning.get(plan.id).state)"])
    book.run(0).run(1).run(2)
    state(book, 2, "agent", "thinking")
    one, key = row(book, 2, "agent"), book.tab.keyboard.press
    opener = one.locator("button.mew-menu-button")
    has_focus = "node => node === document.activeElement"

    def choose_by_keys() -> Locator:
        opener.focus()
        key("Enter")
        item = one.get_by_role("menuitem", name=re.compile("^Cancel reasoning"))
        item.wait_for()
        for _ in range(12):
            if not item.evaluate(has_focus):
                key("ArrowDown")
        key("Enter")
        return one.get_by_role("group", name=re.compile("^Cancel reasoning of agent"))

    form = choose_by_keys()
    # No word for leaving the form is the one for what it does.
    assert form.locator("button").all_inner_texts() == ["Keep", "Cancel reasoning"]
    assert form.locator(".mew-question").inner_text() == "Cancel reasoning of agent"
    assert form.get_by_label("reason", exact=True).evaluate(has_focus)
    key("Escape")
    assert form.count() == 0 and opener.evaluate(has_focus)
    form = choose_by_keys()
    book.tab.keyboard.type("superseded")
    key("Enter")
    said(book, 2, "agent", "The reasoning of agent was cancelled (superseded)")
    assert opener.evaluate(has_focus)
    assert book.run(3).text(3) == "cancelled\n"


def test_a_visitor_is_not_offered_what_it_has_no_permission_for(plain: Callable[..., Notebook]) -> None:
    there = """
lab.enrol('visitor', 'human')
far = mew_lab.connect(lab.url, space=lab.space, token_file=lab.token_file('visitor'), name='far')
far.view.roster
"""
    book = plain([SETUP, SHOW, there, "far.down(); lab.down()"]).run(0).run(1).run(2)
    for index, offered in ((1, 1), (2, 0)):
        row(book, index, "helper").wait_for()
        assert root(book, index).locator("button.mew-invite:visible").count() == offered
        book.click(row(book, index, "helper").locator("button.mew-menu-button"))
        assert row(book, index, "helper").get_by_role("menuitem", name="Pause…").count() == 1
        assert row(book, index, "helper").get_by_role("menuitem", name="Remove…").count() == offered
        book.tab.keyboard.press("Escape")
    book.run(3)
