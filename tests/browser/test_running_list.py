"""The calls that run stand above the cards: what a person is about to press stays where it is, and so does the focus."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from bare import Bare
from seat import Seat

from mew_lab.lab.decisions.running_calls import RunningCall
from mew_lab.sdk.progress import Progress
from mew_lab.sdk.signal import Signal
from mew_lab.views.approvals.widget import ApprovalsView


class Running:
    """The calls that a test says run."""

    def __init__(self) -> None:
        self.calls: dict[str, RunningCall] = {}
        self.changed: Signal[None] = Signal(on_fault=lambda fault: pytest.fail(str(fault)))

    def all(self) -> list[RunningCall]:
        return list(self.calls.values())

    async def cancel(self, id: str) -> str:
        raise AssertionError

    def begin(self, id: str, text: str = "git/push", message: str = "") -> None:
        progress = Progress(2, 4, message) if message else None
        self.calls[id] = RunningCall(id, text, time.time() - 60, progress, True, frozenset({id}))
        self.changed(None)

    def end(self, id: str) -> None:
        del self.calls[id]
        self.changed(None)


class Scene:
    def __init__(self, bare: Callable[..., Bare]) -> None:
        self.seat, self.running = Seat(), Running()
        self.view = ApprovalsView(self.seat, me="human", running=self.running, submit=self.submit)  # type: ignore[arg-type]
        self.page = bare(self.view, width=600, height=700)
        self.rows = self.page.tab.locator("li.mew-running-call")
        self.approve = self.page.tab.locator("button.mew-approve:visible")

    def submit(self, work: Any) -> Future[Any]:
        work.close()
        return Future()

    def look(self) -> float:
        """Where the button of the card is, once the page has drawn what came some time ago."""
        until = time.monotonic() + 1.5
        self.page.until(lambda: time.monotonic() > until, "some looks of the list at what runs")
        box = self.approve.bounding_box()
        assert box is not None
        return box["y"]


@pytest.fixture
def scene(bare: Callable[..., Bare]) -> Scene:
    return Scene(bare)


@pytest.mark.parametrize("held", ["hover", "focus"])
@pytest.mark.sampled(2)
def test_a_button_that_may_be_pressed_stays_while_calls_begin_report_and_end(scene: Scene, held: str) -> None:
    scene.seat.propose("write", {"path": "a.md"})
    scene.running.begin("first")
    scene.page.until(lambda: scene.rows.count() == 1, "the call")
    getattr(scene.approve, held)()
    place = scene.look()
    scene.running.begin("second")
    assert scene.look() == place
    scene.running.begin("first", message="a report that takes several lines of the page " * 5)
    assert scene.look() == place
    scene.running.end("first")
    assert scene.look() == place and scene.rows.first.locator("bdi").inner_text().startswith(
        "git/push runs no more"
    )
    assert scene.rows.first.get_by_role("button").count() == 0, "nothing cancels what has ended"
    scene.page.tab.mouse.move(1, 690)
    scene.page.tab.evaluate("document.activeElement.blur()")
    scene.page.until(
        lambda: [text[:18] for text in scene.rows.locator("bdi").all_inner_texts()] == ["git/push runs, 1:0"],
        "the row of what has ended to go, and that of what began to come",
    )


def test_the_pointer_on_the_button_of_one_call_is_not_given_that_of_another(scene: Scene) -> None:
    tab = scene.page.tab
    for name in ("first", "second"):
        scene.running.begin(name, text=f"git/{name}")
    scene.page.until(lambda: scene.rows.count() == 2, "the calls")
    box = scene.rows.first.get_by_role("button").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.mouse.move(x, y)
    scene.running.end("first")
    scene.page.until(lambda: "no more" in scene.rows.first.inner_text(), "the end of the call")
    under = tab.evaluate("([x, y]) => document.elementFromPoint(x, y).closest('li')?.textContent", [x, y])
    assert under.startswith("◌git/first")
    tab.mouse.move(1, 690)
    scene.page.until(lambda: scene.rows.count() == 1, "the row of what has ended to go")


def test_the_focus_of_a_call_that_ends_goes_to_the_next_and_then_to_the_cards(scene: Scene) -> None:
    focused = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.className"
    scene.seat.propose("write", {"path": "a.md"})
    for name in ("first", "second"):
        scene.running.begin(name, text=f"git/{name}")
    scene.page.until(lambda: scene.rows.count() == 2, "the calls")
    scene.rows.first.get_by_role("button").focus()
    scene.running.end("first")
    scene.page.until(lambda: scene.page.tab.evaluate(focused) == "Cancel git/second", "the next button")
    scene.running.end("second")
    scene.page.until(
        lambda: "mew-card" in scene.page.tab.evaluate("document.activeElement.className"), "the card"
    )
