"""What a view asks for is done once, for the live kernel's page alone, and told in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import pytest
from pages import Page

from mew_lab.errors import MewError
from mew_lab.views.ui import acts
from mew_lab.views.ui.acts import Act, ActingWidget, ActResult


class Bell(ActingWidget):
    """Rings."""

    title = "bell"

    def __init__(self) -> None:
        self.rung: list[Mapping[str, Any]] = []
        self.later: Future[Any] = Future()
        super().__init__()

    def _acts(self) -> Mapping[str, Act]:
        return {
            "ring": self._ring,
            "later": lambda given: self.later,
            "break": self._break,
            "refuse": self._refuse,
        }

    def _ring(self, given: Mapping[str, Any]) -> ActResult:
        self.rung.append(given)
        return ActResult("It rang.", {"times": len(self.rung)})

    def _break(self, given: Mapping[str, Any]) -> str:
        raise ZeroDivisionError("no bell")

    def _refuse(self, given: Mapping[str, Any]) -> str:
        raise MewError("cannot ring: the bell is asleep")


class BellPage:
    """A page that shows the bell. `act` gives how the act has ended."""

    def __init__(self, bell: Bell, page: BellPage) -> None:
        self.bell = bell
        self.page = page
        self.nonce = page.appear()["nonce"]

    def begin(self, name: str, given: Any = None, *, job: int = 1, nonce: Any = None) -> None:
        message = {"t": "act", "view": "v", "job": job, "act": name, "with": {} if given is None else given}
        self.page.send(message | {"nonce": self.nonce if nonce is None else nonce})

    def act(self, name: str, given: Any = None, *, job: int = 1, nonce: Any = None) -> dict[str, Any]:
        before = len(self.page.ended(job))
        self.begin(name, given, job=job, nonce=nonce)
        ended: dict[str, Any] = self.page.until(lambda: self.page.ended(job)[before:])[0]
        return ended


@pytest.fixture
def page(browser: Callable[[Any], Page]) -> BellPage:
    bell = Bell()
    bell.interval = 0.001
    return BellPage(bell, browser(bell))


def test_an_act_is_done_and_its_sentence_goes_to_the_view_that_asked(page: BellPage) -> None:
    assert page.act("ring", {"loud": True}, job=7) == {
        "t": "done", "view": "v", "job": 7, "said": "It rang.", "value": {"times": 1},
    }  # fmt: skip
    assert page.bell.rung == [{"loud": True}]


def test_what_takes_time_is_told_when_it_has_ended(page: BellPage) -> None:
    page.begin("later")
    assert page.act("ring", job=2)["t"] == "done" and page.page.ended(1) == []
    page.bell.later.set_result("Done at last.")
    (item,) = page.page.until(lambda: page.page.ended(1))
    assert (item["t"], item["said"], item["value"]) == ("done", "Done at last.", None)


def test_a_refusal_is_a_sentence_and_a_fault_is_kept(page: BellPage) -> None:
    assert page.act("refuse")["said"] == "cannot ring: the bell is asleep"
    told = page.act("break")
    assert (told["t"], told["said"]) == ("failed", "ZeroDivisionError: no bell")
    assert [type(fault) for fault in page.bell.faults] == [ZeroDivisionError]


@pytest.mark.threat(5)
@pytest.mark.parametrize("nonce", ["", "0" * 32, 7, [], "\ud800"])
def test_a_page_without_this_kernels_nonce_does_nothing(page: BellPage, nonce: Any) -> None:
    assert page.act("ring", nonce=nonce)["said"] == acts.STALE
    assert page.bell.rung == [] and not page.bell.faults


@pytest.mark.parametrize("given", ["text", [1], {"text": "x" * 1_000_001}])
def test_what_is_no_choice_of_a_person_is_refused(page: BellPage, given: Any) -> None:
    assert page.act("ring", given)["t"] == "failed"
    assert page.act("rooster")["t"] == "failed"
    assert page.bell.rung == []


def test_acts_that_never_end_are_bounded(page: BellPage) -> None:
    for job in range(acts.MOST_UNDER_WAY):
        page.begin("later", job=job)
    assert "are still running" in page.act("later", job=99)["said"]
    page.bell.later.cancel()
    page.bell.later.set_running_or_notify_cancel()
    page.page.until(lambda: all(page.page.ended(job) for job in range(acts.MOST_UNDER_WAY)))
    assert page.page.ended(0)[0]["t"] == "failed"
    assert page.act("ring", job=100)["t"] == "done"


def test_the_nonce_travels_in_a_snapshot_alone_and_differs_from_kernel_to_kernel(
    browser: Callable[[Any], Page],
) -> None:
    bell = Bell()
    page = browser(bell)
    nonce = page.appear()["nonce"]
    assert len(nonce) >= 32 and nonce != browser(Bell()).appear()["nonce"]
    page.send({"t": "act", "view": "v1", "job": 1, "act": "ring", "with": {}, "nonce": nonce})
    page.until(lambda: page.of("done"))
    assert [nonce in str(item) for item in page.items] == [True, False]
    assert nonce not in str(bell.get_state())
