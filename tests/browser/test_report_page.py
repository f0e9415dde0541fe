"""The report of a session in a real Chromium: hostile text stays text, nothing is asked for, nothing complains."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from corpus import PAYLOADS
from lab_server import wait_until
from playwright.sync_api import BrowserContext

from mew_lab.lab.html_report import session_page
from mew_lab.lab.labs import close_all, up
from mew_lab.log.log import Log
from mew_lab.space.events import Record


def log_of(messages: list[dict[str, Any]]) -> Log:
    log = Log.live(space="demo")
    began = datetime(2026, 11, 22, 8, 0, tzinfo=UTC)
    for seq, members in enumerate(messages, 1):
        message = {
            "protocol": "mew/v0.4",
            "id": f"m{seq}",
            "ts": "2026-11-22T08:00:00Z",
            "from": "bot",
            **members,
        }
        at, raw = began + timedelta(seconds=seq), json.dumps(message)
        log.observe(
            Record(seq, at, "received", "demo", message["from"], via="websocket", raw=raw, verdict="accepted")
        )
    return log


def hostile_messages() -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for n, text in enumerate(PAYLOADS):
        call = {"method": "tools/call", "params": {"name": text, "arguments": {text: text}}}
        messages += [
            {"kind": "chat", "from": text[:60], "payload": {"text": text}},
            {"kind": "mcp/proposal", "id": f"p{n}", "to": [text[:60]], "payload": call},
            {"kind": "mcp/reject", "correlation_id": [f"p{n}"], "payload": {"reason": text}},
            {"kind": "reasoning/start", "payload": {"message": text}},
        ]
    return messages


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_report_of_hostile_text_runs_asks_and_reports_nothing(
    window: BrowserContext, tmp_path: Path, scheme: Any
) -> None:
    file = tmp_path / "report.html"
    file.write_text(session_page(log_of(hostile_messages()), me="human"), encoding="utf-8")
    tab = window.new_page()
    complaints: list[str] = []
    asked: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("dialog", lambda dialog: (complaints.append("dialog"), dialog.dismiss()))
    tab.on("request", lambda request: asked.append(request.url))
    tab.emulate_media(color_scheme=scheme)
    tab.goto(file.as_uri())
    tab.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert asked == [file.as_uri()] and complaints == []
    assert tab.evaluate("window.mewTaken ?? null") is None
    names = set(tab.evaluate("[...document.body.querySelectorAll('*')].map((node) => node.localName)"))
    assert not names & {"script", "img", "iframe", "a", "link", "form", "input", "object", "embed"}
    background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(13, 17, 23)")
    assert tab.evaluate("document.documentElement.scrollWidth") <= tab.evaluate("innerWidth")
    tab.close()


# The least contrast of a text with the ground behind it, as WCAG 2 defines it, and that text. Text of a drawing has its
# colour as `fill`.
FAINTEST = """() => {
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const back = parts(getComputedStyle(at).backgroundColor);
      if (back.length === 3 || back[3] > 0) return back;
    }
    return [255, 255, 255];
  };
  const all = [...document.querySelectorAll("body *")].filter((node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()) && node.getClientRects().length);
  const found = all.map((node) => {
    const style = getComputedStyle(node), colour = parts(node instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(colour), light(ground(node))].sort((x, y) => y - x);
    return [(a + 0.05) / (b + 0.05), node.textContent.slice(0, 60)];
  });
  return { count: found.length, drawn: document.querySelectorAll("svg text").length, least: found.sort((x, y) => x[0] - y[0])[0] };
}"""


def test_the_report_of_a_lab_is_read_in_both_themes_and_keeps_hostile_text_as_text(
    window: BrowserContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hostile = "<script>window.mewTaken = 1</script><img src=x onerror='window.mewTaken = 2'>"
    lab = up("demo", journal=None)
    try:

        @lab.tool
        def echo(text: str) -> str:
            return text

        bot = lab.join("bot", can="proposer")
        lab.chat(hostile, to="bot")
        asked = bot.call("notebook/echo", {"text": hostile})
        wait_until(lab.proposals, "the proposal", pause=time.sleep)
        lab.approve(lab.proposals()[0])
        asked.result(timeout=20)
        lab.report("x.html")
    finally:
        close_all()
    tab = window.new_page()
    tab.goto((tmp_path / "x.html").as_uri())
    tab.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert tab.evaluate("[window.mewTaken ?? null, document.scripts.length, document.images.length]") == [
        None,
        0,
        0,
    ]
    assert hostile in tab.evaluate("document.body.textContent")
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        faintest = tab.evaluate(FAINTEST)
        assert faintest["count"] > 50 and faintest["drawn"] > 4, faintest
        assert faintest["least"][0] >= 4.5, (scheme, faintest)
    tab.close()
