"""One result with a picture reads alike wherever a person meets it, and its base64 stands nowhere but in the journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mew_lab.lab.decisions.policies import Policy
from mew_lab.lab.lab import Lab
from mew_lab.sdk.results import ToolResult

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
NAME = "image/png, 70 bytes"
LINK = {"type": "resource_link", "uri": "https://a.example.org/b", "name": "b"}


def test_a_result_is_described_alike_in_cards_feed_report_markdown_and_print(
    lab: Lab, tmp_path: Path
) -> None:
    @lab.tool
    def draw() -> ToolResult:
        picture = {"type": "image", "data": PNG, "mimeType": "image/png"}
        return ToolResult({"content": [picture, {"type": "text", "text": "a bed"}, LINK], "isError": False})

    lab.decide = Policy.approve()
    result: Any = lab.join("bot").call("notebook/draw").result(10)
    assert str(result) == f"[{NAME}]\na bed\n[link to b: https://a.example.org/b]"
    assert result.content[0]["data"] == PNG and repr(result) == "<ToolResult 'a bed'>"
    lab.decide = None
    history, feed = str(lab.history()), lab.log.df["what"].to_list()
    report = tmp_path / "report.html"
    lab.report(report)
    shown = {
        "card": history,
        "feed": "\n".join(feed),
        "report": report.read_text(encoding="utf-8"),
        "markdown": lab.log.select().to_markdown(),
    }
    for reader, text in shown.items():
        assert NAME in text and "a bed" in text and PNG not in text, reader
    assert f"a bed [{NAME}] [link to b: " in history
    assert any(PNG in record.raw for record in lab.log.records if record.raw)
    assert repr(ToolResult({"content": result.content[:1]})) == f"<ToolResult [{NAME}]>"
