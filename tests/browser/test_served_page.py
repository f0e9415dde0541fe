"""The page of a space without Jupyter, in a real browser: on a phone, through a TLS proxy, by keyboard, and attacked."""

from __future__ import annotations

import contextlib
import json
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe import axe_source, axe_violations
from lab_server import DEADLINE, wait_until
from playwright.sync_api import BrowserContext, Locator, WebSocketRoute
from playwright.sync_api import Page as Tab
from tls_proxy import TlsProxy

from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import close_all, up
from mew_lab.views.ui.preferences import preferences_path
from mew_lab.views.views import close_views

pytestmark = [pytest.mark.ruling("R38")]
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
WIDE = {"viewport": {"width": 1300, "height": 800}}
TABS = ["Reasoning", "Chat", "Streams", "Tools", "Timeline", "Permissions", "Messages"]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.chdir(tmp_path)
    lab = up("garden", journal=None)

    @lab.tool
    def water(litres: int, bed: str) -> str:
        """Waters a bed of the garden."""
        return f"{litres} litres on the {bed} bed"

    lab.join("bot", "proposer")
    yield lab
    close_views()
    close_all()
    preferences_path().unlink(missing_ok=True)


def propose(lab: Lab, **arguments: object) -> Any:
    return lab.seats["bot"].propose("notebook/water", {"litres": 50, "bed": "north"} | arguments)


class Opened:
    """A tab that was opened by a link."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.context = context
        self.tab: Tab = context.new_page()
        self.tab.set_default_timeout(DEADLINE * 1000)
        self.errors: list[str] = []
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))
        self.tab.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.tab.goto(url)

    @property
    def cards(self) -> Locator:
        return self.tab.locator("li.mew-card:not([hidden]):not(.mew-past)")

    @property
    def approve(self) -> Locator:
        return self.cards.first.locator("button.mew-approve")

    def until(self, probe: Callable[[], Any], what: str) -> Any:
        return wait_until(probe, what, pause=lambda s: self.tab.wait_for_timeout(s * 1000))

    def armed(self) -> None:
        self.cards.first.wait_for()
        self.until(lambda: self.approve.get_attribute("aria-disabled") == "false", "Approve is armed")


@pytest.fixture
def opened(window: BrowserContext) -> Iterator[Callable[..., Opened]]:
    contexts: list[BrowserContext] = []
    pages: list[Opened] = []

    def make(url: str, **how: Any) -> Opened:
        assert window.browser is not None
        contexts.append(window.browser.new_context(**how))
        pages.append(Opened(contexts[-1], url))
        return pages[-1]

    yield make
    for context in contexts:
        context.close()
    assert [page.errors for page in pages] == [[]] * len(pages)


@pytest.fixture
def proxy() -> Iterator[TlsProxy]:
    proxy = TlsProxy()
    yield proxy
    proxy.close()


def test_a_phone_decides_in_two_touches_through_a_tls_proxy(
    lab: Lab, opened: Callable[..., Opened], proxy: TlsProxy
) -> None:
    first = propose(lab)
    link = lab.serve_ui(origin=proxy.origin)
    assert link.url.startswith(f"{proxy.origin}/ui#")  # type: ignore[attr-defined]
    proxy.target = lab.page.port
    trusting = ssl.create_default_context()
    proxy.authority.configure_trust(trusting)
    page = opened(link.url, ignore_https_errors=True, **PHONE)  # type: ignore[attr-defined]
    page.armed()
    box, button = page.cards.first.bounding_box(), page.approve.bounding_box()
    assert box is not None and button is not None
    assert box["x"] >= 0 and box["x"] + box["width"] <= 360 and box["y"] + box["height"] <= 740, (
        "it fits the screen"
    )
    assert button["height"] >= 40, "a finger hits it"
    page.approve.tap()  # one touch
    assert first.result(20).text == "50 litres on the north bed"
    second = propose(lab, bed="south")
    page.armed()
    assert "south" in page.cards.first.inner_text()
    page.cards.first.get_by_role("button", name="Reject").first.tap()  # two touches: this one, and the reason
    page.cards.first.get_by_role("group", name="Usual reasons").get_by_role("button").first.tap()
    page.until(lambda: second.state == "rejected", "rejected")
    assert page.tab.url == f"{proxy.origin}/ui", "the code is no longer in the address"
    assert page.tab.evaluate("[document.cookie, Object.keys(localStorage).length]") == ["", 0]


def test_a_button_arms_as_in_a_notebook(lab: Lab, opened: Callable[..., Opened]) -> None:
    page = opened(lab.serve_ui().url, **WIDE)  # type: ignore[attr-defined]
    page.tab.get_by_text("Nothing to approve").wait_for()
    # The page notes for how long the button stays unarmed. A busy machine may not press in time: then another card.
    note = """() => { let start = 0; window.mewArmed = null; window.mewSince = () => performance.now() - start;
          const timer = setInterval(() => {
            const button = document.querySelector("li.mew-card:not(.mew-past) button.mew-approve");
            if (!button) return;
            start ||= performance.now();
            if (button.getAttribute("aria-disabled") === "true") return;
            window.mewArmed = performance.now() - start;
            clearInterval(timer);
          }, 5); }"""
    pressed = 0
    for _ in range(10):
        page.tab.evaluate(note)
        pending = propose(lab)
        page.approve.wait_for()
        place = page.approve.bounding_box()
        assert place is not None
        while page.tab.evaluate("window.mewArmed === null && window.mewSince() < 250"):
            page.tab.mouse.click(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
            pressed += 1
        page.until(lambda: page.tab.evaluate("window.mewArmed"), "armed")
        assert page.tab.evaluate("window.mewArmed") > 400
        assert pending.state == "open", "what was pressed before it was armed decided nothing"
        page.armed()
        page.approve.click()
        assert pending.result(20)
        if pressed:
            break
        page.approve.wait_for(state="hidden")
    assert pressed > 0


def test_an_act_of_a_part_that_a_link_opens_waits_for_the_first_snapshot_of_the_part(
    lab: Lab, opened: Callable[..., Opened]
) -> None:
    bot = lab.join("agent", "agent")
    step = bot.send("reasoning/start", {"message": "Which bed is dry?"})
    call = {"method": "tools/call", "params": {"name": "water", "arguments": {"litres": 50, "bed": "north"}}}
    bot.send("mcp/proposal", call, to="notebook", context=step.id)
    page = opened(lab.serve_ui().url, **WIDE)  # type: ignore[attr-defined]
    page.cards.first.wait_for()
    sent: list[str] = []
    held: list[Callable[[], None]] = []
    holding = False

    def pass_on(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def to_page(text: str | bytes) -> None:
            held.append(lambda: socket.send(text)) if holding else socket.send(text)

        def to_lab(text: str | bytes) -> None:
            sent.append(json.loads(text).get("message", {}).get("t"))
            server.send(text)

        server.on_message(to_page)
        socket.on_message(to_lab)

    page.tab.route_web_socket("**/ui/ws", pass_on)
    page.tab.reload()
    page.cards.first.locator("button.mew-details-open").click()
    link = page.cards.first.get_by_role("button", name="Show its reasoning")
    link.wait_for()
    holding, before = True, len(sent)
    began = time.monotonic()
    link.click()
    page.until(lambda: "snapshot" in sent[before:], "the request of the opened part")
    assert "act" not in sent[before:]
    holding = False
    for release in held:
        release()
    late = time.monotonic() - began > 2.5  # after 3 s the part says that it waits, and the link tries again
    step_shown = page.tab.locator("section.mew-reasoning .mew-hit")
    step_shown.wait_for()
    assert "water" in step_shown.inner_text()
    assert sent[before:].count("act") == 1
    assert late or not page.tab.locator("section.mew-reasoning .mew-notice").count()


def test_decisions_go_on_by_keyboard(lab: Lab, opened: Callable[..., Opened]) -> None:
    calls = [propose(lab, litres=n, bed=f"bed {n}", note=["x"] * n) for n in (1, 2)]
    page = opened(lab.serve_ui().url, **WIDE)  # type: ignore[attr-defined]
    page.cards.first.wait_for()
    on_card = "() => document.activeElement.matches('li.mew-card')"
    for _ in range(40):
        page.tab.keyboard.press("Tab")
        if page.tab.evaluate(on_card):
            break
    here = page.tab.locator("li.mew-card:focus button.mew-approve")

    def decided() -> int:
        return sum(call.state != "open" for call in calls)

    for done in (1, 2):
        # By nothing but the key of the card that has the focus. A decision gives the next card the time to read it anew.
        def goes_on(done: int = done) -> bool:
            if decided() < done and here.count() and here.first.get_attribute("aria-disabled") == "false":
                page.tab.keyboard.press("a")
            return decided() == done

        page.until(goes_on, "the card with the focus is decided")
    # After the last one the focus stays where the approvals are.
    assert page.tab.evaluate("() => Boolean(document.activeElement.closest('.mew-approvals'))")


@pytest.mark.slow
def test_a_server_that_is_gone_greys_the_page_which_goes_on_when_it_is_back(
    lab: Lab, opened: Callable[..., Opened], proxy: TlsProxy
) -> None:
    pending = propose(lab)
    link = lab.serve_ui(origin=proxy.origin)
    proxy.target = lab.page.port
    page = opened(link.url, ignore_https_errors=True, **PHONE)  # type: ignore[attr-defined]
    page.armed()
    proxy.cut()
    panel = page.tab.locator("section.mew-panel")
    page.until(lambda: panel.get_attribute("data-off") == "gone", "it is grey")
    assert "The server of this page does not answer" in panel.inner_text()
    assert (
        page.approve.count() == 0
        or not page.approve.is_visible()
        or page.approve.get_attribute("aria-disabled") == "true"
    )
    proxy.target = lab.page.port
    lab.chat("still here")
    page.until(lambda: panel.get_attribute("data-off") is None, "it is live again")
    page.armed()
    page.approve.tap()
    assert pending.result(20)
    page.until(lambda: "still here" in panel.inner_text(), "what happened meanwhile")
    lab.down()
    page.until(lambda: panel.get_attribute("data-off") in ("gone", "over"), "the space has stopped")
    # The browser itself reports each connection that it could not open.
    page.errors[:] = [error for error in page.errors if "WebSocket" not in error and "net::ERR" not in error]


def test_sessions_end_and_a_link_is_for_one_browser(lab: Lab, opened: Callable[..., Opened]) -> None:
    url = lab.serve_ui().url  # type: ignore[attr-defined]
    page = opened(url, **WIDE)
    page.tab.get_by_text("Nothing to approve").wait_for()
    page.tab.reload()
    page.tab.get_by_text("Nothing to approve").wait_for()
    thief = opened(url, **WIDE)
    thief.tab.get_by_text("This link was used already").wait_for()
    thief.errors.clear()  # the browser reports the refusal
    lab.end_ui()
    page.tab.get_by_text("The session of this page has ended").wait_for()
    assert page.tab.locator("section.mew").count() == 0, "nothing of the space is left on the screen"
    page.tab.reload()
    page.tab.get_by_role("heading", name="Not signed in").wait_for()
    # Another link in the same tab signs in again.
    page.tab.evaluate("url => { location.href = url; }", lab.serve_ui().url)  # type: ignore[attr-defined]
    page.tab.get_by_text("Nothing to approve").wait_for()


@pytest.mark.threat(24)
def test_another_page_can_neither_frame_it_nor_use_it(lab: Lab, opened: Callable[..., Opened]) -> None:
    url = lab.serve_ui().url  # type: ignore[attr-defined]
    base, _, code = url.partition("/ui#")
    evil = opened("about:blank", **WIDE)
    evil.tab.route("http://evil.test/", lambda route: route.fulfill(content_type="text/html", body="<p>evil"))
    evil.tab.goto("http://evil.test/")
    got = evil.tab.evaluate(
        """async ([base, code]) => {
          const got = [];
          const tell = (name) => (value) => got.push(name + ":" + value);
          for (const mode of ["cors", "no-cors"])
            for (const type of ["application/json", "text/plain"])
              await fetch(base + "/ui/session", { method: "POST", mode, headers: { "content-type": type }, body: JSON.stringify({ code }) })
                .then((answer) => got.push("post:" + answer.type + answer.status), tell("error"));
          await new Promise((done) => { const ws = new WebSocket(base.replace("http", "ws") + "/ui/ws");
            ws.onopen = () => { got.push("OPEN"); done(); }; ws.onerror = () => { got.push("closed"); done(); }; });
          const frame = document.createElement("iframe"); frame.src = base + "/ui"; document.body.append(frame);
          await new Promise((done) => { frame.onload = done; });
          return got;
        }""",
        [base, code],
    )
    assert "OPEN" not in got and "closed" in got and not any("200" in one for one in got), got
    assert "mew" not in "".join(
        frame.content() for frame in evil.tab.frames[1:] if "chrome-error" not in frame.url
    )
    evil.errors.clear()
    page = opened(url, **WIDE)
    page.tab.get_by_text("Nothing to approve").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.sampled(2)
def test_all_parts_fit_a_phone_and_break_no_rule(
    lab: Lab, opened: Callable[..., Opened], scheme: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    source = axe_source(tmp_path_factory.getbasetemp())
    propose(lab)
    lab.chat("hello")
    how = {"color_scheme": scheme, "bypass_csp": True}  # axe-core is no script of the page
    page = opened(lab.serve_ui().url, **PHONE, **how)  # type: ignore[attr-defined]
    page.armed()
    assert page.tab.evaluate("document.body.dataset.jpThemeLight") == str(scheme == "light").lower()
    faults = axe_violations(page.tab.locator("section.mew-panel"), source)
    for name in TABS:
        page.tab.get_by_role("tab", name=name).tap()
        part = page.tab.locator(".mew-sheet:not([hidden]) section.mew")
        page.until(lambda part=part: part.get_attribute("data-link") == "connected", name)
        assert page.tab.evaluate("document.documentElement.scrollWidth") <= 360, name
        faults += axe_violations(part, source)
    assert faults == [], "\n".join(faults)


def test_a_phone_chats(lab: Lab, opened: Callable[..., Opened]) -> None:
    page = opened(lab.serve_ui().url, **PHONE)  # type: ignore[attr-defined]
    page.tab.get_by_role("tab", name="Chat").tap()
    chat = page.tab.locator("section.mew-chat")
    page.until(lambda: chat.get_attribute("data-link") == "connected", "the chat is connected")
    chat.locator("textarea").fill("from a phone")
    chat.get_by_role("button", name="Send").tap()
    page.until(
        lambda: any("from a phone" in str(one.raw) for one in lab.log.held), "the message is in the log"
    )


def test_the_page_loads_nothing_from_elsewhere(lab: Lab, opened: Callable[..., Opened]) -> None:
    asked: list[str] = []
    page = opened("about:blank", **WIDE)
    page.tab.on("request", lambda request: asked.append(request.url))
    url = lab.serve_ui().url  # type: ignore[attr-defined]
    page.tab.goto(url)
    page.tab.get_by_text("Nothing to approve").wait_for()
    for name in TABS:
        page.tab.get_by_role("tab", name=name).click()
    base = url.partition("/ui#")[0]
    others = [one for one in asked if not one.startswith((f"{base}/ui", "data:"))]
    assert asked and others == [] and not any("?" in one for one in asked)
    with contextlib.suppress(IndexError):
        assert url.partition("#")[2] not in "".join(one for one in asked if "#" not in one)


def test_on_the_page_ctrl_dot_stops_wherever_the_focus_is_and_a_phone_has_a_button(
    lab: Lab, opened: Callable[..., Opened]
) -> None:
    propose(lab)
    page = opened(lab.serve_ui().url, **WIDE)  # type: ignore[attr-defined]
    page.armed()
    page.tab.locator("body").evaluate("body => document.activeElement.blur()")
    page.tab.keyboard.press("Control+.")
    stopped = page.tab.locator(".mew-panel > .mew-stopped")
    page.until(stopped.is_visible, "the line that says who stopped it")
    assert str(lab.go()).startswith(stopped.locator("b").inner_text())

    def refused() -> bool:
        page.approve.click()  # again: a press does not count where the line has just moved what is under it
        return "this lab was stopped by" in page.tab.locator("body").inner_text()

    page.until(refused, "the refusal")
    lab.go()
    page.until(stopped.is_hidden, "the line to go")
    phone = opened(lab.serve_ui().url, **PHONE)  # type: ignore[attr-defined]
    phone.tab.locator("button.mew-stop").tap()
    for shown in (page, phone):
        shown.until(shown.tab.locator(".mew-panel > .mew-stopped").is_visible, "the line in each browser")
