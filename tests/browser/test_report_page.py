"""The report of a session in a real Chromium: hostile text stays text, nothing is asked for, nothing complains."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from corpus import PAYLOADS
from playwright.sync_api import BrowserContext

from mew_lab.lab.html_report import session_page
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
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
