"""The panel puts the parts in their places and tells their counts; it is no writer of theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pages import picture

from mew_lab.views.panel.widget import PLACES, PanelView
from mew_lab.views.ui.live import LiveWidget


class Part(LiveWidget):
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
    parts = {name: Part(name) for name in PLACES}
    return PanelView("demo", parts), parts


def test_a_snapshot_names_every_part_its_place_and_its_widget(browser: Callable[[Any], Any]) -> None:
    view, parts = panel()
    told = browser(view).appear()
    assert [one["name"] for one in told["parts"]] == list(PLACES)
    assert [one["name"] for one in told["parts"] if one["place"] != "tab"] == ["approvals", "roster", "feed"]
    assert {one["name"]: one["ref"] for one in told["parts"]} == {
        name: f"anywidget:{part.model_id}" for name, part in parts.items()
    }


def test_counts_are_sent_when_they_change_and_not_otherwise(browser: Callable[[Any], Any]) -> None:
    view, parts = panel()
    view.interval = 0.0
    page = browser(view)
    page.appear()
    view.wake()
    parts["chat"].count = "3 new"
    view.wake()
    page.until(lambda: page.of("badges"))
    view.wake()
    parts["chat"].count = ""
    view.wake()
    page.until(lambda: len(page.of("badges")) == 2)
    assert [item["badges"]["chat"] for item in page.of("badges")] == ["3 new", ""]


def test_its_picture_is_the_room_with_approvals_first_and_the_newest_messages() -> None:
    view, parts = panel()
    parts["approvals"].count, parts["approvals"].brief = "3 open", "<p>cards</p>"
    parts["feed"].brief = "<p>messages</p>"
    html = picture(view)
    assert html.index("demo") < html.index("approvals 3 open") < html.index("cards") < html.index("messages")
    assert "the picture of" not in html and html.count("Snapshot of") == 1 and "<script" not in html


def test_its_end_is_not_the_end_of_its_parts() -> None:
    view, parts = panel()
    ended: list[str] = []
    view.on_close(lambda: ended.append("left"))
    view.close()
    assert ended == ["left"]
    assert parts["feed"].comm is not None
