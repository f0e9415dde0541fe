"""The picture that a notebook stores follows the view: soon after a decision, slowly otherwise, and at the end."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from seat import Seat

from mew_lab.views.approvals.widget import ApprovalsView
from mew_lab.views.panel.widget import PARTS_SHOWN, PanelView, RoomCounts
from mew_lab.views.ui import stored_picture
from mew_lab.views.ui.live import LiveView
from mew_lab.views.ui.stored_picture import StoredPicture


class Counter(LiveView):
    """A view whose picture is a number."""

    title = "counter"

    def __init__(self) -> None:
        self.number = 0
        super().__init__()

    def _brief_html(self) -> str:
        return f"<i>brief {self.number}</i>"

    def _static_html(self) -> str:
        return f"<b>number {self.number}</b>"


class Publisher:
    """What a kernel publishes."""

    def __init__(self) -> None:
        self.outputs: list[dict[str, Any]] = []
        self.more = threading.Condition()

    def publish(self, data: dict[str, Any], metadata: Any = None, **words: Any) -> None:
        with self.more:
            self.outputs.append({"data": data, **words})
            self.more.notify_all()

    def wait(self, count: int) -> None:
        with self.more:
            assert self.more.wait_for(lambda: len(self.outputs) >= count, 10), self.outputs


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Publisher:
    return make_kernel(monkeypatch, asks=True)


def make_kernel(monkeypatch: pytest.MonkeyPatch, *, asks: bool) -> Publisher:
    publisher = Publisher()
    parent = {"content": {"allow_stdin": asks}}
    shell = SimpleNamespace(display_pub=publisher, kernel=SimpleNamespace(get_parent=lambda channel: parent))
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    for name in ("FIRST", "SOON", "QUIET"):
        monkeypatch.setattr(stored_picture, name, 0.05)
    return publisher


WIDGET = "application/vnd.jupyter.widget-view+json"


def test_the_picture_and_the_live_view_are_two_outputs_and_only_the_picture_is_updated(
    kernel: Publisher,
) -> None:
    view = Counter()
    view._ipython_display_()
    assert [WIDGET in output["data"] for output in kernel.outputs[:2]] == [False, True]
    assert " hidden>" in kernel.outputs[0]["data"]["text/html"]
    kernel.wait(3)
    id = f"mew-lab-{view.widget.model_id}"
    view.number = 1
    view.wake()
    kernel.wait(4)
    view.close()
    later = kernel.outputs[2:]
    assert all(output["update"] and WIDGET not in output["data"] for output in later)
    assert {output["transient"]["display_id"] for output in [kernel.outputs[0], *later]} == {id}
    assert "number 1" in later[-1]["data"]["text/html"] and " hidden>" not in later[-1]["data"]["text/html"]


def test_what_looks_the_same_is_not_stored_again() -> None:
    kernel, seen = Publisher(), ["one", "one", "two"]
    stored = StoredPicture(kernel.publish, lambda: (text := seen.pop(0), {"text/html": text}), print, "id")
    for _ in range(3):
        stored.store()
    assert [output["data"]["text/html"] for output in kernel.outputs] == ["one", "two"]


def test_a_slow_drawing_is_not_stored_after_the_last_one() -> None:
    kernel, begun, go_on = Publisher(), threading.Event(), threading.Event()

    def draw() -> tuple[object, dict[str, str]]:
        if threading.current_thread() is threading.main_thread():
            return "the end", {"text/html": "the end"}
        begun.set()
        assert go_on.wait(10)
        return "earlier", {"text/html": "earlier"}

    stored = StoredPicture(kernel.publish, draw, print, "id")
    slow = threading.Thread(target=stored.store)
    slow.start()
    assert begun.wait(10)
    stored.store(last=True)
    go_on.set()
    slow.join(10)
    assert [output["data"]["text/html"] for output in kernel.outputs] == ["the end"]


def test_the_end_of_a_space_stores_at_once_and_says_so(kernel: Publisher) -> None:
    view = Counter()
    view._ipython_display_()
    kernel.wait(3)
    view.number = 7
    view.end("The space has stopped.")
    html = kernel.outputs[-1]["data"]["text/html"]
    assert "number 7" in html and "· the space has stopped<" in html


def test_a_run_without_a_human_keeps_a_picture_that_follows_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = make_kernel(monkeypatch, asks=False)
    view = Counter()
    view._ipython_display_()
    (only,) = kernel.outputs
    assert set(only["data"]) == {"text/plain", "text/html"} and " hidden>" not in only["data"]["text/html"]
    view.number = 3
    view.end("The space has stopped.")
    assert "number 3" in kernel.outputs[-1]["data"]["text/html"]


def test_a_decision_in_one_part_is_stored_for_the_panel_too(kernel: Publisher) -> None:
    parts = {name: Counter() for name in PARTS_SHOWN}
    panel = PanelView("demo", parts, lambda: RoomCounts(1, 2, 0))
    panel._ipython_display_()
    kernel.wait(3)
    parts["approvals"].number = 9
    parts["approvals"].store_decision()
    kernel.wait(4)
    assert "brief 9" in kernel.outputs[-1]["data"]["text/html"]


def test_a_flood_is_stored_late_and_a_decision_does_not_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_picture, "QUIET", 3600.0)
    monkeypatch.setattr(stored_picture, "SOON", 0.05)
    kernel, numbers = Publisher(), iter(range(10_000))
    stored = StoredPicture(kernel.publish, lambda: (next(numbers), {}), print, "id")
    stored.store()
    for _ in range(5000):
        stored.mark()
    assert len(kernel.outputs) == 1
    stored.mark(decided=True)
    kernel.wait(2)
    stored.end()


def test_a_card_that_is_decided_is_a_decision_and_one_that_comes_is_none() -> None:
    seat, told = Seat(), list[str]()
    view = ApprovalsView(seat)
    view.on_decision.append(lambda: told.append("decided"))
    seat.propose()
    assert told == []
    seat.withdraw("proposal-1")
    assert told == ["decided"]
