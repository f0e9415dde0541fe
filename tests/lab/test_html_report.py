"""The report of a session: one HTML page without script or request, made from a real lab."""

from __future__ import annotations

import json
import re
import stat
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from mew_lab.errors import ConfigError, ProposalRejected, ToolFailed
from mew_lab.lab import html_report
from mew_lab.lab.decisions.policies import Policy
from mew_lab.lab.html_report import session_page
from mew_lab.lab.lab import Lab
from mew_lab.log.log import Log
from mew_lab.space.events import Record

from .looking import approve

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style></title></textarea></pre><svg onload=alert(1)>",
    "javascript:alert(1)",
    "\u202egnp.exe",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "]]>--><!--",
    "http://127.0.0.1:9/pixel.png",
)


class Page(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def check_is_harmless(page: str) -> Page:
    read = Page(page)
    forbidden = {
        "script",
        "img",
        "iframe",
        "link",
        "a",
        "form",
        "object",
        "embed",
        "image",
        "use",
        "base",
        "video",
    }
    assert not {tag for tag, _ in read.tags} & forbidden
    for _, attributes in read.tags:
        assert not [
            name for name in attributes if name.startswith("on") or name in ("href", "src", "style", "action")
        ]
    assert "url(" not in page and "@import" not in page
    assert "default-src 'none'" in page
    return read


def report(lab: Lab, tmp_path: Path) -> str:
    path = tmp_path / "report.html"
    lab.report(path, overwrite=True)
    return path.read_text(encoding="utf-8")


def section(page: str, title: str) -> str:
    found = re.search(rf"<h2>{title}</h2>(.*?)</section>", page, re.DOTALL)
    assert found is not None, title
    return found[1]


def test_a_report_tells_decisions_calls_chat_and_messages(lab: Lab, adding: Any, tmp_path: Path) -> None:
    @lab.tool
    def crash() -> str:
        raise ValueError("no water")

    bot = lab.join("bot")
    lab.chat("Hello <everybody>", to="bot")
    first = bot.call("notebook/add", a=3, b=4)
    approve(lab, first.id)
    assert str(first.result(10)) == "7"
    second = bot.call("notebook/add", a=5, b=6)
    lab.reject(second.id, "unsafe")
    with pytest.raises(ProposalRejected):
        second.result(10)
    third = bot.call("notebook/crash")
    approve(lab, third.id)
    with pytest.raises(ToolFailed):
        third.result(10)
    lab.decide = Policy.approve()
    assert str(bot.call("notebook/add", a=1, b=1).result(10)) == "2"
    lab.decide = None
    bot.call("notebook/add", a=9, b=9)
    page = report(lab, tmp_path)
    read = check_is_harmless(page)
    assert "Session of demo" in read.text and "notebook" in section(page, "Participants")
    decisions = section(page, "Decisions")
    assert re.search(r'<b class="good">Approved</b> by human after [\d.]+ m?s', decisions)
    assert re.search(r'<b class="bad">Rejected</b> by human: unsafe after ', decisions)
    assert "automatically (policy “approve”)" in decisions
    assert "<b>Open</b>" in decisions
    assert '<b class="bad">Failed</b>' in decisions and "no water" in decisions
    assert decisions.count("<svg") == 4
    calls = section(page, "Calls")
    assert calls.count("<b>add</b>") == 2 and calls.count("<b>crash</b>") == 1
    assert "Hello &lt;everybody&gt;" in section(page, "Chat")
    messages = section(page, "Messages")
    assert re.search(r"<summary>\d+ messages? to keep the space going</summary>", messages)
    assert f"{len(lab.log)} messages" in read.text.replace("\u202f", "")


def test_a_report_folds_the_messages_that_the_list_of_messages_hides(lab: Lab, tmp_path: Path) -> None:
    git, bot = lab.join("git", can="admin"), lab.join("bot", can="admin")
    lists = [bot.send("mcp/request", {"method": "tools/list"}, to="git") for _ in range(2)]
    git.send("mcp/response", {"result": {"tools": []}}, to="bot", correlation_id=lists[0].id)
    git.send(
        "mcp/response", {"error": {"code": -1, "message": "no list"}}, to="bot", correlation_id=lists[1].id
    )
    git.send("participant/status", {"status": "crashed"})
    git.send("participant/status", {"status": "idle"})
    messages = section(report(lab, tmp_path), "Messages")
    folded = set(
        re.findall(
            r'<td class="number">#(\d+)</td>', "".join(re.findall(r"<details>.*?</details>", messages, re.S))
        )
    )
    every = set(re.findall(r'<td class="number">#(\d+)</td>', messages))
    hidden = {str(row.seq) for row in lab.rows.since(0, 999) if row.plumbing}
    assert folded == hidden and every - hidden and len(every) == len(lab.log)


def test_a_report_holds_the_reasoning_step_by_step(lab: Lab, tmp_path: Path) -> None:
    seat = lab.join("thinker", can="agent")
    start = seat.send("reasoning/start", {"message": "How many?"})
    seat.send("reasoning/thought", {"message": "Count <them> first."}, context=start.id)
    seat.send("reasoning/conclusion", {"message": "There are 3."}, context=start.id)
    reasoning = section(report(lab, tmp_path), "Reasoning")
    assert "Count &lt;them&gt; first." in reasoning and "There are 3." in reasoning
    assert "thinker: concluded after" in reasoning and "3 steps" in reasoning


def test_an_empty_session_says_what_is_missing() -> None:
    page = session_page(Log.live(space="empty"))
    read = check_is_harmless(page)
    for sentence in ("Nothing was proposed.", "Nothing was called.", "Nobody has chatted.", "No messages."):
        assert sentence in read.text


def records(payloads: list[dict[str, Any]]) -> Log:
    log = Log.live(space=HOSTILE[0])
    now = datetime(2026, 11, 22, 8, 0, tzinfo=UTC)
    for seq, members in enumerate(payloads, 1):
        message = {
            "protocol": "mew/v0.4",
            "id": f"m{seq}",
            "ts": "2026-11-22T08:00:00Z",
            "from": "bot",
            **members,
        }
        raw = json.dumps(message)
        at = now + timedelta(seconds=seq)
        log.observe(
            Record(seq, at, "received", "demo", message["from"], via="websocket", raw=raw, verdict="accepted")
        )
    return log


def test_text_of_a_peer_stays_text_everywhere() -> None:
    messages: list[dict[str, Any]] = []
    for text in HOSTILE:
        messages += [
            {"kind": "chat", "from": text, "to": [text], "payload": {"text": text}},
            {"kind": text, "payload": {text: text}},
            {
                "kind": "mcp/proposal",
                "id": text,
                "to": [text],
                "payload": {"method": "tools/call", "params": {"name": text, "arguments": {text: [text]}}},
            },
            {
                "kind": "mcp/request",
                "id": f"r{text}",
                "from": "human",
                "to": [text],
                "correlation_id": [text],
                "payload": {"method": "tools/call", "params": {"name": text, "arguments": {text: [text]}}},
            },
            {
                "kind": "mcp/response",
                "from": text,
                "to": ["human"],
                "correlation_id": [f"r{text}"],
                "payload": {"result": {"content": [{"type": text, "text": text}], text: text}},
            },
            {"kind": "reasoning/start", "id": f"s{text}", "payload": {"message": text}},
            {"kind": "reasoning/thought", "context": f"s{text}", "payload": {"message": text}},
            {"kind": "mcp/reject", "correlation_id": [text], "payload": {"reason": text}},
        ]
    page = session_page(records(messages), me=HOSTILE[1], roles={HOSTILE[0]: HOSTILE[2]})
    read = check_is_harmless(page)
    assert HOSTILE[0] in read.text and "\u202e" not in page and "\\u202e" in page


def test_a_long_session_is_bounded_and_says_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_report, "MOST_MESSAGES", 50)
    monkeypatch.setattr(html_report, "MOST_CHATS", 20)
    page = session_page(records([{"kind": "chat", "payload": {"text": "x" * 5000}} for _ in range(120)]))
    assert "70 earlier messages left out." in section(page, "Messages")
    assert "100 earlier chat messages left out." in section(page, "Chat")
    assert "more characters left out]" in page
    assert len(page) < 200_000


def test_a_file_is_replaced_on_demand_alone_and_is_private(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    assert "Wrote the report of" in str(lab.report(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("mine")
    with pytest.raises(ConfigError, match=r"x\.html exists\. Take another name, or .*overwrite=True"):
        lab.report(path)
    assert path.read_text() == "mine"
    lab.report(str(path), overwrite=True)
    assert path.read_text().startswith("<!DOCTYPE html>")
    with pytest.raises(ConfigError, match="Cannot write the report"):
        lab.report(tmp_path / "no" / "folder" / "x.html")
    with pytest.raises(ConfigError, match="exists"):
        lab.report(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".x")] == []


def test_a_report_can_be_written_when_the_space_has_ended(lab: Lab, tmp_path: Path) -> None:
    lab.chat("the end")
    lab.down()
    assert "the end" in report(lab, tmp_path)


def test_saving_over_a_file_says_so(lab: Lab, tmp_path: Path) -> None:
    assert "replaces" not in str(lab.save(tmp_path / "a.jsonl"))
    assert "It replaces an earlier file." in str(lab.save(tmp_path / "a.jsonl"))
