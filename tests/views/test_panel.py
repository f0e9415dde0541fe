"""The panel puts the parts in their places and tells their counts; it is no writer of theirs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pages import picture

from mew_lab.lab.lab import Lab
from mew_lab.views.panel.widget import PARTS_SHOWN, PanelView, RoomCounts
from mew_lab.views.ui.live import LiveView


class Part(LiveView):
    """A part with a count."""

    def __init__(self, name: str) -> None:
        self.title = name
        self.count = ""
        self.brief = ""
        super().__init__()

    def badge(self) -> str:
        return self.count

    def _static_html(self) -> str:
        return f"<p>the picture of {self.title}</p>"

    def _brief_html(self) -> str:
        return self.brief

    def _static_text(self) -> str:
        return f"{self.title} as text"


def panel() -> tuple[PanelView, dict[str, Part]]:
    parts = {name: Part(name) for name in PARTS_SHOWN}
    return PanelView("demo", parts, lambda: RoomCounts(2, 5, 1)), parts


def test_a_snapshot_names_every_part_its_place_and_its_widget(browser: Callable[[Any], Any]) -> None:
    view, parts = panel()
    told = browser(view).appear()
    assert [one["name"] for one in told["parts"]] == list(PARTS_SHOWN)
    places = {one["name"]: one["place"] for one in told["parts"] if one["place"] != "tab"}
    assert places == {"approvals": "side", "roster": "strip"}
    assert [one["title"] for one in told["parts"]][2:4] == ["Messages", "Reasoning"]
    assert told["counts"] == {"participants": 2, "messages": 5, "waiting": 1}
    assert view.widget.parts == {name: f"anywidget:{part.widget.model_id}" for name, part in parts.items()}


def test_counts_are_sent_when_they_change_and_not_otherwise(browser: Callable[[Any], Any]) -> None:
    view, parts = panel()
    view.interval = 0.0
    page = browser(view)
    page.appear()
    view.wake()
    parts["chat"].count = "3 new"
    view.wake()
    page.until(lambda: page.of("head"))
    view.wake()
    parts["chat"].count = ""
    view.wake()
    page.until(lambda: len(page.of("head")) == 2)
    assert [item["badges"]["chat"] for item in page.of("head")] == ["3 new", ""]


def test_its_picture_is_the_room_with_approvals_first_and_the_newest_messages() -> None:
    view, parts = panel()
    parts["chat"].count, parts["approvals"].brief = "3 new", "<p>cards</p>"
    parts["feed"].brief = "<p>messages</p>"
    html = picture(view)
    order = (
        "demo",
        "2 participants",
        "5 messages",
        "1 needs your approval",
        "Chat 3 new",
        "<p>cards",
        "<p>messages",
    )
    assert sorted(order, key=html.index) == list(order)
    assert "the picture of" not in html and html.count("Snapshot of") == 1 and "<script" not in html
    assert repr(view).startswith("Panel of demo: approvals as text; ")


def test_its_end_is_not_the_end_of_its_parts() -> None:
    view, parts = panel()
    ended: list[str] = []
    view.on_close(lambda: ended.append("left"))
    view.close()
    assert ended == ["left"]
    assert parts["feed"].widget.comm is not None


def test_the_header_pauses_the_agents_and_writes_the_session(
    lab: Lab, browser: Callable[[Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lab.agent("helper")
    page = browser(lab.view.panel)
    assert page.appear()["acts"] == ["pause", "report", "resume", "save"]
    assert page.act("pause")["said"] == "1 agent paused: helper"
    page.until(lambda: page.of("head") and page.of("head")[-1]["paused"] == 1)
    assert page.act("pause")["said"] == "No agent is running, so nothing was paused"
    assert page.act("resume")["t"] == "done"
    page.until(lambda: page.of("head")[-1]["paused"] == 0)
    for act, ending in (("report", "html"), ("save", "jsonl")):
        said = page.act(act)["said"]
        [written] = tmp_path.glob(f"*.{ending}")
        assert written.name in said and written.stat().st_mode & 0o777 == 0o600
