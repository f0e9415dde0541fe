"""What a view asks for is done once, for the live kernel's page alone, and told in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import pytest

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


class Page:
    """Takes what the writer would send, at once."""

    def __init__(self, bell: Bell) -> None:
        self.bell = bell

    def act(self, name: str, given: Any = None, *, job: int = 1, nonce: Any = None) -> dict[str, Any]:
        message = {"t": "act", "view": "v", "job": job, "act": name, "with": {} if given is None else given}
        self.bell._on_message(None, message | {"nonce": self.bell._nonce if nonce is None else nonce}, [])
        items = self.bell._gather()
        return items[-1] if items else {}


@pytest.fixture
def page() -> Page:
    return Page(Bell())


def test_an_act_is_done_and_its_sentence_goes_to_the_view_that_asked(page: Page) -> None:
    assert page.act("ring", {"loud": True}, job=7) == {
        "t": "done", "view": "v", "job": 7, "said": "It rang.", "value": {"times": 1},
    }  # fmt: skip
    assert page.bell.rung == [{"loud": True}]


def test_what_takes_time_is_told_when_it_has_ended(page: Page) -> None:
    assert page.act("later") == {}
    page.bell.later.set_result("Done at last.")
    (item,) = page.bell._gather()
    assert (item["t"], item["said"], item["value"]) == ("done", "Done at last.", None)


def test_a_refusal_is_a_sentence_and_a_fault_is_kept(page: Page) -> None:
    assert page.act("refuse")["said"] == "cannot ring: the bell is asleep"
    told = page.act("break")
    assert (told["t"], told["said"]) == ("failed", "ZeroDivisionError: no bell")
    assert [type(fault) for fault in page.bell.faults] == [ZeroDivisionError]


@pytest.mark.threat(5)
@pytest.mark.parametrize("nonce", ["", "0" * 32, 7, [], "\ud800"])
def test_a_page_without_this_kernels_nonce_does_nothing(page: Page, nonce: Any) -> None:
    assert page.act("ring", nonce=nonce)["said"] == acts.STALE
    assert page.bell.rung == [] and not page.bell.faults


@pytest.mark.parametrize("given", ["text", [1], {"text": "x" * 1_000_001}])
def test_what_is_no_choice_of_a_person_is_refused(page: Page, given: Any) -> None:
    assert page.act("ring", given)["t"] == "failed"
    assert page.act("rooster")["t"] == "failed"
    assert page.bell.rung == []


def test_acts_that_never_end_are_bounded(page: Page) -> None:
    for job in range(acts.MOST_UNDER_WAY):
        assert page.act("later", job=job) == {}
    assert "are still running" in page.act("later", job=99)["said"]
    page.bell.later.cancel()
    page.bell.later.set_running_or_notify_cancel()
    told = page.bell._gather()
    assert len(told) == acts.MOST_UNDER_WAY and told[0]["t"] == "failed"
    assert page.act("ring", job=100)["t"] == "done"


def test_the_nonce_travels_in_a_snapshot_alone_and_differs_from_kernel_to_kernel(
    browser: Callable[[Any], Any],
) -> None:
    bell = Bell()
    page = browser(bell)
    assert page.appear()["nonce"] == bell._nonce != Bell()._nonce
    page.send({"t": "act", "view": "v1", "job": 1, "act": "ring", "with": {}, "nonce": bell._nonce})
    page.until(lambda: page.of("done"))
    assert [bell._nonce in str(item) for item in page.items] == [True, False]
    assert bell._nonce not in str(bell.get_state())
