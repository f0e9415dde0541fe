"""What a view asks for is done once, for the live kernel's page alone, and told in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple

import pytest
from pages import Page

from mew_lab.errors import MewError
from mew_lab.lab.lab import Lab
from mew_lab.views.chat.widget import view_of as chat_of
from mew_lab.views.grants.widget import view_of as grants_of
from mew_lab.views.reasoning.widget import view_of as reasoning_of
from mew_lab.views.roster.model import RosterModel
from mew_lab.views.roster.widget import RosterView
from mew_lab.views.streams.widget import view_of as streams_of
from mew_lab.views.ui import acts
from mew_lab.views.ui.acts import Act, ActingView, ActResult

from ..failing import HOWS, How, failing


class Bell(ActingView):
    """Rings."""

    title = "bell"

    def __init__(self) -> None:
        self.rung: list[bool] = []
        self.later: Future[Any] = Future()
        super().__init__()

    def _acts(self) -> Mapping[str, Act]:
        return {
            "ring": self._ring,
            "later": self._wait,
            "break": self._break,
            "refuse": self._refuse,
        }

    def _ring(self, loud: bool = False, bells: list[int] | None = None) -> ActResult:
        self.rung.append(loud)
        return ActResult("It rang.", {"times": len(self.rung)})

    def _wait(self) -> Future[Any]:
        return self.later

    def _break(self) -> str:
        raise ZeroDivisionError("no bell")

    def _refuse(self) -> str:
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
    assert page.bell.rung == [True]


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


@pytest.mark.parametrize(
    "given",
    [
        "text",
        [1],
        {"loud": 1},
        {"loud": None},
        {"text": "x"},
        {"bells": [True]},
        {"bells": [1, "2"]},
        {"bells": {}},
    ],
)
def test_what_is_no_choice_of_a_person_is_refused(page: BellPage, given: Any) -> None:
    told = page.act("ring", given)
    assert told["t"] == "failed" and told["said"].endswith(
        "nothing was done. Run its cell again, or load its page anew."
    )
    assert page.act("rooster")["t"] == "failed"
    assert page.bell.rung == [] and not page.bell.faults


def test_what_is_declared_is_taken(page: BellPage) -> None:
    for job, given in enumerate([{}, {"loud": True}, {"bells": None}, {"loud": False, "bells": [1, 2]}]):
        assert page.act("ring", given, job=job)["t"] == "done"


def test_an_act_that_is_ended_from_outside_has_failed(page: BellPage) -> None:
    page.begin("later")
    page.bell.later.cancel()
    page.bell.later.set_running_or_notify_cancel()
    assert page.page.until(lambda: page.page.ended(1))[0]["t"] == "failed"
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
    assert nonce not in str(bell.widget.get_state())


# --- each effect of a real view's act is made to fail, and its sentence is read ---


class Doing(NamedTuple):
    """An act of a view: what comes before it, the kind of its message, its sentence, and what only an effect allows.

    `prepare` acts in the space and returns what the page sends along. `enforced`: only of a gateway of ours is it known
    that it carries out the message, or the sentence needs the gateway's own answer.
    """

    view: Callable[[Lab], Any]
    act: str
    prepare: Callable[[Lab, Page], dict[str, Any]]
    kind: str
    said: str
    enforced: bool = False


def given(**params: Any) -> Callable[[Lab, Page], dict[str, Any]]:
    return lambda lab, page: params


def with_(
    prepare: Callable[[Lab, Page], dict[str, Any]], **params: Any
) -> Callable[[Lab, Page], dict[str, Any]]:
    return lambda lab, page: prepare(lab, page) | params


def shown(page: Page, *names: str) -> list[dict[str, Any]]:
    """All rows that the page was shown, by the members that hold them."""
    return [row for item in page.items for name in names for row in item.get(name, [])]


def message_of_bot(lab: Lab, page: Page) -> dict[str, Any]:
    lab.seats["bot"].chat("hello", to="human")
    return {"n": page.until(lambda: shown(page, "messages"))[-1]["n"]}


def own_stream(lab: Lab, page: Page) -> dict[str, Any]:
    work = lab.me.participant.streams.request_stream("upload")
    stream = lab.loop.run(work, timeout=10, doing="requesting")
    return {"key": page.until(lambda: page.view.streaming.open_row(stream.id)).key}


def own_reasoning(lab: Lab, page: Page) -> dict[str, Any]:
    lab.send("reasoning/start", {"message": "rain"})
    return {"key": page.until(lambda: shown(page, "sequences", "rows"))[-1]["key"], "reason": "timeout"}


def held_by_bot(lab: Lab, page: Page) -> dict[str, Any]:
    rows = page.until(lambda: [row for row in shown(page, "rows") if row["who"] == "bot"])
    return {"key": rows[0]["key"]}


def roster(lab: Lab) -> Any:
    return RosterView(lab, RosterModel(lab))


def chat(lab: Lab) -> Any:
    return chat_of(lab, lab.rows)


def reasoning(lab: Lab) -> Any:
    return reasoning_of(lab, lab.rows)


def grants(lab: Lab) -> Any:
    return grants_of(lab, lab.granting)


DOINGS = {
    "pause": Doing(roster, "do", given(deed="pause", target="bot"), "participant/pause", "bot is paused", True),
    "remove": Doing(roster, "do", given(deed="kick", target="bot"), "space/kick", "bot was removed", True),
    "invite": Doing(roster, "invite", given(name="eve", can="starter"), "space/invite", "eve is invited", True),
    "say": Doing(chat, "say", given(text="hi", to=[], markdown=False), "chat", "Sent to everybody."),
    "acknowledge": Doing(chat, "acknowledge", with_(message_of_bot, status="read"), "chat/acknowledge", "Acknowledged to bot"),
    "cancel": Doing(chat, "cancel", with_(message_of_bot, reason="late"), "chat/cancel", "The message of bot was cancelled"),
    "open": Doing(streams_of, "open", given(), "stream/request", "stream-1 is open", True),
    "close": Doing(streams_of, "close", own_stream, "stream/close", "stream-1 is closed"),
    "let write": Doing(streams_of, "grant", with_(own_stream, participant="bot"), "stream/grant-write", "bot may now write", True),
    "hand over": Doing(streams_of, "transfer", with_(own_stream, participant="bot"), "stream/transfer-ownership", "stream-1 belongs to bot", True),
    "end reasoning": Doing(reasoning, "cancel", own_reasoning, "reasoning/cancel", "The reasoning of human was cancelled"),
    "grant": Doing(grants, "grant", given(to="bot", pattern='{"kind":"chat/*"}'), "capability/grant", "bot may now"),
    "revoke": Doing(grants, "revoke", held_by_bot, "capability/revoke", "The permission of bot is revoked"),
}  # fmt: skip
FAILING: list[tuple[str, How | None]] = [(name, None) for name in DOINGS]
FAILING += [(name, how) for name in DOINGS for how in HOWS if how != "swallowed"]
FAILING += [("pause", "swallowed"), ("close", "swallowed"), ("revoke", "swallowed")]  # each takes ten seconds


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "how"), FAILING)
def test_an_act_says_that_it_had_its_effect_where_that_was_seen(
    name: str,
    how: How | None,
    browser: Callable[[Any], Page],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    doing = DOINGS[name]
    fails = failing(monkeypatch) if how is not None else {}
    lab: Lab = request.getfixturevalue("lab")
    lab.enrol("human", can="admin")
    lab.join("bot", can=[{"kind": "chat"}, {"kind": "participant/status"}])
    page = browser(doing.view(lab))
    page.appear()
    params = doing.prepare(lab, page)
    if how is not None:
        fails[doing.kind] = how
    ended = page.act(doing.act, **params)
    expected = how is None or (how == "relayed" and not doing.enforced)
    assert ended["said"].startswith(doing.said) is expected, ended
    assert ended["said"] and (ended["t"] == "done" or not expected)
    fails.clear()
