"""The calls that run, above the cards: who runs what since when, how far it has come, and a cancel where it is heeded."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from mew_lab.errors import OutcomeUnknown
from mew_lab.lab.decisions.running_calls import MOST
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect

from ..bridge.conftest import until


class Slow:
    """A participant that reports its progress and never ends by itself."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.running = lab, 0
        self.seat = lab.join("git", can="tool")
        self.seat.participant.register_method("tools/call", self.answer)

    async def answer(self, params: Any) -> dict[str, Any]:
        self.running += 1
        await asyncio.Event().wait()
        return {}

    def report(self, seat: Any, about: str, **params: Any) -> None:
        payload = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        seat.send("mcp/request", payload, to="human", correlation_id=about)


@pytest.fixture
def slow(lab: Lab) -> Slow:
    return Slow(lab)


def started(lab: Lab, slow: Slow, seat: Any) -> Any:
    before = slow.running
    pending = seat.call("git/push")
    lab.me.run(until(lambda: slow.running > before))
    return pending


def told(page: Any) -> Any:
    """The calls that the page shows now."""
    lists = [
        one["calls" if one["t"] == "running" else "running"]
        for one in page.items
        if one["t"] in ("running", "snapshot")
    ]
    return lists[-1] if lists else None


def test_a_call_is_told_with_its_progress_and_cancelled_from_the_page(
    lab: Lab, slow: Slow, browser: Callable[[Any], Any]
) -> None:
    page = browser(lab.view.approvals)
    page.appear()
    pending = started(lab, slow, lab.me)
    [call] = page.until(lambda: told(page))
    assert (call["text"], call["progress"], call["cancel"]) == ("git/push", "", True)
    [began] = [one.since for one in lab.decisions.running.all()]
    mallory = lab.join("mallory", can="admin")
    slow.report(slow.seat, pending.id, progress=2, total=4, message="down\u202eloading")
    page.until(lambda: (told(page) or [{}])[0].get("progress") == "2 of 4 · down\\u202eloading")
    slow.report(mallory, pending.id, progress=4, total=4)
    marker = mallory.chat("reported").id
    page.until(lambda: any(entry.get("id") == marker for entry in lab.log))
    [running] = lab.decisions.running.all()
    assert lab.decisions.running.all()[0].since == running.since, "since its request, whenever it is told"
    assert running.progress is not None and running.progress.done == 2
    assert running.since == began, "other messages do not set its seconds back"
    assert page.act("cancel_call", id=pending.id)["said"].startswith("git was asked to stop. The outcome is")
    with pytest.raises(OutcomeUnknown):
        pending.result(timeout=10.0)
    page.until(lambda: told(page) == [])
    for made_up in (pending.id, "nothing"):
        assert "does not run any more" in page.act("cancel_call", id=made_up)["said"]


def test_the_calls_of_others_are_named_and_a_proposal_runs_once_it_is_approved(
    lab: Lab, slow: Slow, browser: Callable[[Any], Any]
) -> None:
    page = browser(lab.view.approvals)
    page.appear()
    waiting = lab.join("bot").call("git/push")
    assert not told(page)
    started(lab, slow, lab.join("carol", can="human"))
    [call] = page.until(lambda: told(page))
    assert (call["text"], call["cancel"]) == ("carol: git/push", True)  # as the owner of the space
    assert "bot asks git" in str(lab.proposals()[0])
    lab.approve(waiting.id)
    page.until(lambda: [one["text"] for one in told(page)] == ["carol: git/push", "git/push"])


def test_the_view_of_a_waiting_cell_shows_its_own_call_alone(
    lab: Lab, slow: Slow, browser: Callable[[Any], Any]
) -> None:
    first, second = started(lab, slow, lab.me), started(lab, slow, lab.me)
    page = browser(lab.view.card(first.id))
    page.appear()
    assert [one["id"] for one in page.until(lambda: told(page))] == [first.id]
    assert second.id not in json.dumps(page.items)


def test_a_waiting_cell_cancels_the_reasoning_that_it_told_and_no_other(
    lab: Lab, browser: Callable[[Any], Any]
) -> None:
    """Spec: §3.5.5."""
    coder = lab.join("coder", can="agent")

    def think(about: str) -> Any:
        sent = coder.send("reasoning/start", {"message": about}, to="human")
        reasoning = lab.me.participant.ledger.reasoning
        return lab.me.run(until(lambda: reasoning.get(sent.id))) or reasoning.get(sent.id)

    def buttons() -> list[dict[str, Any]]:
        return [one["story"]["thinking"] for one in page.items if "story" in one][-1]

    first, second = think("first"), think("second")
    view = lab.view.card("r-1")
    page = browser(view)
    page.appear()
    view.tell_story("coder is thinking", since=0.0, thinking=[first])
    page.until(lambda: buttons() == [{"key": first.key, "owner": "coder"}])
    for other in (second.key, 10**6):
        assert "nothing was cancelled" in page.act("cancel_thinking", key=other)["said"]
    said = page.act("cancel_thinking", key=first.key)["said"]
    assert said == "The reasoning of coder was cancelled (superseded)."
    assert [one.id for one in lab.me.participant.ledger.reasoning.active()] == [second.id]
    view.tell_story("no answer of coder yet", since=0.0)
    page.until(lambda: buttons() == [])
    assert "nothing was cancelled" in page.act("cancel_thinking", key=first.key)["said"]


def test_a_waiting_cell_of_who_may_not_cancel_reasoning_has_no_button(
    lab: Lab, browser: Callable[[Any], Any]
) -> None:
    lab.enrol("guest", can="observer")
    guest = connect(lab.url, name="guest-lab", space=lab.space, token_file=lab.token_file("guest"))
    reasoning = guest.me.participant.ledger.reasoning
    sent = lab.join("coder", can="agent").send("reasoning/start", {"message": "first"})
    guest.me.run(until(lambda: reasoning.get(sent.id)))
    view = guest.view.card("r-1")
    page = browser(view)
    page.appear()
    view.tell_story("coder is thinking", since=0.0, thinking=[reasoning.get(sent.id)])
    page.until(lambda: [one["story"] for one in page.items if "story" in one][-1]["text"])
    assert [one["story"]["thinking"] for one in page.items if "story" in one][-1] == []
    assert "Cannot send reasoning/cancel as 'guest'" in page.act("cancel_thinking", key=1)["said"]
    guest.down()


@pytest.mark.parametrize("can", ["observer", "human"])  # which may not send a cancel, or is not heeded
def test_who_may_not_cancel_sees_the_call_without_a_button(
    lab: Lab, slow: Slow, browser: Callable[[Any], Any], can: str
) -> None:
    lab.enrol("guest", can=can)
    guest = connect(lab.url, name="guest-lab", space=lab.space, token_file=lab.token_file("guest"))
    page = browser(guest.view.approvals)
    page.appear()
    started(lab, slow, lab.me)
    [call] = page.until(lambda: told(page))
    assert (call["text"], call["cancel"]) == ("human: git/push", False)
    if can == "observer":
        assert "it holds neither mcp/request nor" in page.act("cancel_call", id=call["id"])["said"]
    guest.down()


def test_a_call_is_told_with_the_time_when_it_came_whatever_else_happens(
    lab: Lab, slow: Slow, browser: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.enrol("guest", can="admin")
    guest = connect(lab.url, name="guest-lab", space=lab.space, token_file=lab.token_file("guest"))
    before = time.time()
    pending = started(lab, slow, lab.me)
    after = time.time()
    for one in (lab, guest):
        one.me.run(until(one.decisions.running.all))
        page = browser(one.view.approvals)
        page.appear()
        [told_at_first] = page.until(lambda page=page: told(page))
        monkeypatch.setattr(time, "time", lambda: after + 100)
        slow.report(slow.seat, pending.id, progress=1)
        page.until(lambda page=page: (told(page) or [{}])[0].get("progress") == "1")
        monkeypatch.undo()
        slow.report(slow.seat, pending.id, progress=0)
        [call] = page.until(lambda page=page: told(page))
        assert before - 0.1 <= call["since"] == told_at_first["since"] <= after + 0.1
    guest.down()


def test_many_calls_of_others_hide_no_call_of_the_person(lab: Lab, slow: Slow) -> None:
    carol = lab.join("carol", can="human")
    for _ in range(MOST):
        started(lab, slow, carol)
    own = started(lab, slow, lab.me)
    told = lab.decisions.running.all()
    assert len(told) == MOST and told[-1].id == own.id
    assert [call.since for call in told] == sorted(call.since for call in told)


def stop_word(page: Any) -> str:
    """What the button of the newest call of the tools view says; empty where there is none."""
    return str([item["run"] for item in page.items if item["t"] == "run"][-1]["stop"])


def begin(page: Any, how: str) -> None:
    page.until(lambda: page.act("find", query="push")["value"]["total"])
    page.act("start", what="tool", tool="git/push", text="{}", how=how)
    page.until(lambda: page.of("run"))


@pytest.fixture
def listed(lab: Lab, slow: Slow) -> None:
    async def listing(params: Any) -> dict[str, Any]:
        return {"tools": [{"name": "push", "inputSchema": {"type": "object"}}]}

    lab.loop.call(lambda: slow.seat.participant.register_method("tools/list", listing))


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize(("how", "word"), [("call", "Cancel"), ("propose", "Withdraw")])
def test_the_tools_view_ends_its_call_in_the_way_that_it_may(
    lab: Lab, browser: Callable[[Any], Any], how: str, word: str
) -> None:
    page = browser(lab.view.tools)
    page.appear()
    begin(page, how)
    assert stop_word(page) == word


@pytest.mark.usefixtures("listed")
def test_the_tools_view_has_no_cancel_where_none_may_be_sent(lab: Lab, browser: Callable[[Any], Any]) -> None:
    lab.enrol("guest", can=[{"kind": "mcp/request", "payload": {"method": "tools/*"}}, {"kind": "chat"}])
    guest = connect(lab.url, name="guest-lab", space=lab.space, token_file=lab.token_file("guest"))
    page = browser(guest.view.tools)
    page.appear()
    begin(page, "call")
    assert stop_word(page) == ""
    guest.down()


@pytest.mark.usefixtures("listed")
@pytest.mark.ruling("R13")
def test_each_view_renews_its_cancel_when_a_permission_to_send_it_comes_or_goes(
    lab: Lab, browser: Callable[[Any], Any]
) -> None:
    lab.enrol("guest", can=[{"kind": "mcp/request", "payload": {"method": "tools/*"}}])
    guest = connect(lab.url, name="guest-lab", space=lab.space, token_file=lab.token_file("guest"))
    tools, cards = browser(guest.view.tools), browser(guest.view.approvals)
    for page in (tools, cards):
        page.appear()
    begin(tools, "call")
    cards.until(lambda: [one["cancel"] for one in told(cards) or ()] == [False])
    assert stop_word(tools) == ""
    grant = lab.me.participant.rights.grant
    given = lab.me.run(grant("guest", [{"kind": "mcp/request", "payload": {"method": "notifications/*"}}]))
    tools.until(lambda: stop_word(tools) == "Cancel")
    cards.until(lambda: [one["cancel"] for one in told(cards)] == [True])
    lab.me.run(lab.me.participant.rights.revoke("guest", grant_id=given.id))
    tools.until(lambda: stop_word(tools) == "")
    cards.until(lambda: [one["cancel"] for one in told(cards)] == [False])
    guest.down()


@pytest.mark.usefixtures("listed")
def test_the_rows_and_the_form_of_the_tools_view_are_asked_for_anew_with_other_permissions(
    lab: Lab, browser: Callable[[Any], Any]
) -> None:
    listing = {"kind": "mcp/request", "payload": {"method": "tools/list"}}
    lab.enrol("guest", can=[listing])
    guest = connect(lab.url, name="guest-lab", space=lab.space, token_file=lab.token_file("guest"))
    page = browser(guest.view.tools)
    page.appear()
    page.until(lambda: page.act("find", query="push")["value"]["total"])
    assert page.act("find", query="push")["value"]["rows"][0]["may"] == "neither"
    assert not page.of("rights")
    lab.me.run(lab.me.participant.rights.grant("guest", [{"kind": "mcp/proposal"}]))
    page.until(lambda: page.of("rights"))
    assert page.act("find", query="push")["value"]["rows"][0]["may"] == "propose"
    guest.down()
