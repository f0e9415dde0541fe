"""Discovery in a real space: who is asked and when, what is remembered, and what hostile lists come to.

The clock goes when a test says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from mew_lab.errors import CapabilityViolation, ConnectionLost, NoReply, ToolFailed
from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.local import attach
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.discovery import Discovery, ToolsChange
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.scheduler import Pace
from mew_lab.sdk.tools import RpcError

from .conftest import Hours, Room, settle, until

AT_ONCE = Pace(stagger=0.0)
QUIET = Pace(stagger=0.0, timeout=0.01)
CHANGED = "notifications/tools/list_changed"


class Service:
    """Answers `tools/list` with what `tells` gives, or raises; counts how often it was asked."""

    def __init__(self, *names: str) -> None:
        self.tells: Any = [{"name": name} for name in names]
        self.asked = 0
        self.hold: asyncio.Event | None = None

    async def answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.asked += 1
        told = self.tells
        if self.hold is not None:
            await self.hold.wait()
        if isinstance(told, Exception):
            raise told
        return {"tools": told}


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> Hours:
    made = Hours()
    monkeypatch.setattr("mew_lab.sdk.participant.Discovery", partial(Discovery, clock=made, wait=made.wait))
    return made


@pytest.fixture
async def git(room: Room) -> Service:
    service = Service("log", "diff")
    await room.seat("git", [{"kind": "mcp/*"}], tools=service)
    return service


@pytest.fixture
async def human(room: Room, hours: Hours, git: Service) -> MEWParticipant:
    return await room.seat("human")


def known(participant: MEWParticipant) -> list[str]:
    return sorted(f"{one.participant}/{one.name}" for one in participant.discovery.get_available_tools())


def states(participant: MEWParticipant) -> dict[str, str]:
    return {name: one.state for name, one in participant.discovery.get_discovery_status().items()}


def to_git(room: Room) -> list[Envelope]:
    return [one for one in room.sent("mcp/request") if one.to == ("git",)]


# --- by hand ---


@pytest.mark.req("S-L2-3", "S-L2-28", "S-L2-30", "S-L2-31", "S-L2-32")
async def test_nobody_is_asked_until_somebody_wants_to_know(
    room: Room, hours: Hours, git: Service, human: MEWParticipant
) -> None:
    await hours.go(1000)
    assert git.asked == 0 and states(human) == {"git": "not_started"}
    assert human.discovery.get_undiscovered_participants() == ["git"]
    entries = await human.discovery.discover_tools("git")
    assert entries == [{"name": "log"}, {"name": "diff"}]
    assert known(human) == ["git/diff", "git/log"]
    status = human.discovery.get_discovery_status()["git"]
    assert (status.state, status.attempts, status.has_tools, status.error) == ("completed", 1, True, "")
    assert status.last_attempt is not None and status.last_attempt.tzinfo is not None
    assert human.discovery.get_undiscovered_participants() == []
    assert not human.discovery.has_discoveries_in_progress()


async def test_who_asks_at_the_same_time_shares_one_request(git: Service, human: MEWParticipant) -> None:
    git.hold = asyncio.Event()
    asking = [asyncio.ensure_future(human.discovery.discover_tools("git")) for _ in range(5)]
    await until(lambda: git.asked)
    assert states(human) == {"git": "in_progress"} and human.discovery.has_discoveries_in_progress()
    asking[0].cancel()  # one who stops waiting stops nobody else
    git.hold.set()
    assert [len(one) for one in await asyncio.gather(*asking[1:])] == [2, 2, 2, 2]
    assert git.asked == 1


@pytest.mark.req("S-L2-28", "S-L2-29")
async def test_no_tools_is_told_from_a_discovery_that_failed(git: Service, human: MEWParticipant) -> None:
    git.tells = []
    assert await human.discovery.discover_tools("git") == []
    assert human.discovery.get_discovery_status()["git"][:1] == ("no_tools",)
    assert human.discovery.get_undiscovered_participants() == []
    git.tells = RpcError(-32601, "Method not found")
    with pytest.raises(ToolFailed):
        await human.discovery.discover_tools("git")
    status = human.discovery.get_discovery_status()["git"]
    assert (status.state, status.has_tools) == ("failed", False)
    assert status.error == "git/tools/list failed: Method not found (-32601)"


@pytest.mark.req("S-L1-16", "S-L2-31")
async def test_a_cached_list_will_do_while_it_is_fresh(
    room: Room, hours: Hours, git: Service, human: MEWParticipant
) -> None:
    human.discovery.pace = Pace(ttl=60.0)
    await human.discovery.discover_tools("git", cached=True)
    await hours.go(59)
    assert len(await human.discovery.discover_tools("git", cached=True)) == 2
    assert git.asked == 1
    await hours.go(2)
    assert known(human) == ["git/diff", "git/log"]  # old, but known
    await human.discovery.discover_tools("git", cached=True)
    assert git.asked == 2
    await room.seated[0].notify(CHANGED)
    await settle()
    await human.discovery.discover_tools("git", cached=True)
    assert git.asked == 3


async def test_asking_who_is_not_here_fails_and_leaves_no_trace(human: MEWParticipant) -> None:
    with pytest.raises(NoReply):
        await human.discovery.discover_tools("nobody")
    assert states(human) == {"git": "not_started"}


async def test_what_changes_is_told(room: Room, git: Service, human: MEWParticipant) -> None:
    told: list[ToolsChange] = []
    human.discovery.on_tools_changed(told.append)
    await human.discovery.discover_tools("git")
    await human.discovery.discover_tools("git")
    git.tells = [{"name": "log"}]
    await human.discovery.discover_tools("git")
    await room.seated[0].stop()
    await until(lambda: len(told) == 3)
    assert [(one.participant, [tool.name for tool in one.tools]) for one in told] == [
        ("git", ["log", "diff"]),
        ("git", ["log"]),
        ("git", []),
    ]
    assert known(human) == [] and states(human) == {}


# --- who may be asked, and by whom ---


@pytest.mark.req("S-L1-12")
@pytest.mark.parametrize(
    ("can", "asked"),
    [
        ([{"kind": "mcp/response"}], True),
        ([{"kind": "mcp/*"}], True),
        ([{"kind": "*"}], True),
        ([{"kind": "mcp/response", "to": "human"}], True),
        ([{"kind": "mcp/request"}], False),
        ([], False),
    ],
)
async def test_who_may_respond_is_asked(room: Room, hours: Hours, can: Any, asked: bool) -> None:
    room.gateway.add_space(SpaceConfig(name="bare", baseline=[]))
    service = Service("x")

    def seat(name: str, can: Any, **more: Any) -> MEWParticipant:
        async def link() -> Any:
            return attach(room.gateway, "bare", name)

        room.gateway.enrol("bare", name, can)
        room.seated.append(MEWParticipant(MEWClient(space="bare", connect_link=link), **more))
        return room.seated[-1]

    await seat("service", can, tools=service).start()
    human = seat("human", [{"kind": "*"}])
    human.discovery.enable_auto_discovery(AT_ONCE)
    await human.start()
    await settle()
    assert (service.asked, states(human)) == ((1, {"service": "completed"}) if asked else (0, {}))


@pytest.mark.req("P-8.2-12")
async def test_who_may_not_ask_never_proposes_it(room: Room, hours: Hours, git: Service) -> None:
    bot = await room.seat("bot", "proposer")
    bot.discovery.enable_auto_discovery(AT_ONCE)
    await hours.go(100)
    status = bot.discovery.get_discovery_status()["git"]
    assert (status.state, status.attempts) == ("failed", 1)
    assert status.error.startswith("may not ask: Cannot call git/tools/list")
    with pytest.raises(CapabilityViolation):
        await bot.discovery.discover_tools("git")
    assert (room.sent("mcp/proposal"), room.sent("mcp/request"), git.asked) == ([], [], 0)
    assert not bot.discovery.has_discoveries_in_progress()


async def test_who_comes_to_hold_the_right_asks_then(
    room: Room, hours: Hours, git: Service, human: MEWParticipant
) -> None:
    bot = await room.seat("bot", "proposer")
    bot.discovery.enable_auto_discovery(AT_ONCE)
    await hours.go(1)
    assert states(bot)["git"] == "failed"
    await human.rights.grant("bot", [{"kind": "mcp/request", "payload": {"method": "tools/list"}}])
    await settle()
    assert known(bot) == ["git/diff", "git/log"]


# --- by itself ---


@pytest.mark.req("S-L1-12", "S-L1-14", "S-L2-30", "S1-L3-1", "S-L2-3")
async def test_everybody_who_is_here_is_asked_and_everybody_who_joins(
    room: Room, hours: Hours, git: Service
) -> None:
    bot = room.prepare("bot")
    bot.discovery.enable_auto_discovery(AT_ONCE)  # before it has joined
    await bot.start()
    await settle()
    assert known(bot) == ["git/diff", "git/log"]
    late = Service("status")
    await room.seat("late", "tool", tools=late)
    await settle()
    assert known(bot) == ["git/diff", "git/log", "late/status"]
    await room.seated[-1].stop()
    await settle()
    assert known(bot) == ["git/diff", "git/log"]
    await room.seat("late", "tool", tools=late)
    await settle()
    assert known(bot) == ["git/diff", "git/log", "late/status"] and (git.asked, late.asked) == (1, 2)


@pytest.mark.req("S-L1-13")
async def test_many_are_asked_one_after_the_other(room: Room, hours: Hours) -> None:
    services = [Service(f"t{n}") for n in range(4)]
    for n, service in enumerate(services):
        await room.seat(f"s{n}", "tool", tools=service)
    human = await room.seat("human")
    human.discovery.enable_auto_discovery(Pace(stagger=1.0, longest=3.0))
    asked = []
    for _ in range(7):
        await hours.go(0.0)
        asked.append(sum(service.asked for service in services))
        await hours.go(1.0)
    assert asked == [1, 2, 2, 3, 3, 3, 4]  # gaps of 1, 2 and 3 seconds


@pytest.mark.req("S-L1-13")
async def test_a_newcomer_is_not_asked_by_all_in_the_same_moment(room: Room, hours: Hours) -> None:
    for name in ("a", "b", "c"):
        one = await room.seat(name, "human", tools=Service())
        one.discovery.enable_auto_discovery(Pace(stagger=1.0))
    await hours.go(100)
    new = Service("x")
    await room.seat("new", "tool", tools=new)
    asked = []
    for _ in range(3):
        await hours.go(0.0)
        asked.append(new.asked)
        await hours.go(1.0)
    assert asked == [1, 2, 3]


@pytest.mark.req("S-L1-18", "S-L1-19", "S-L2-28")
@pytest.mark.divergence("S-L1-15")
async def test_what_fails_is_repeated_after_5_10_and_15_seconds_and_a_slow_starter_is_found(
    hours: Hours, git: Service, human: MEWParticipant
) -> None:
    tools, git.tells = git.tells, RpcError(-32000, "starting")
    human.discovery.enable_auto_discovery()
    asked = []
    for seconds in (0.0, 4.9, 0.1, 9.9, 0.1, 14.9):
        await hours.go(seconds)
        asked.append(git.asked)
    assert asked == [1, 1, 2, 2, 3, 3]
    status = human.discovery.get_discovery_status()["git"]
    assert (status.state, status.attempts) == ("failed", 3)
    assert human.discovery.has_discoveries_in_progress()  # one repetition is to come
    git.tells = tools
    await hours.go(0.1)
    assert (states(human)["git"], git.asked) == ("completed", 4)
    assert not human.discovery.has_discoveries_in_progress()


@pytest.mark.req("S-L1-20")
async def test_the_last_failure_is_a_warning_and_work_goes_on_with_the_others(
    room: Room, hours: Hours, git: Service, human: MEWParticipant, caplog: pytest.LogCaptureFixture
) -> None:
    errors: list[Exception] = []
    human.client.on_error(errors.append)
    broken = Service()
    broken.tells = RpcError(-32000, "no \x1b[2Jserver")
    await room.seat("broken", "tool", tools=broken)
    human.discovery.enable_auto_discovery(AT_ONCE)
    with caplog.at_level(logging.INFO, "mew_lab.sdk.discovery"):
        await hours.go(1000)
    assert broken.asked == 4 and errors == []
    [warning] = [one for one in caplog.records if one.levelno >= logging.WARNING]
    said = "the tools of broken are not known after 4 requests; broken/tools/list failed: no \\u001b[2Jserver (-32000)"
    assert (warning.levelname, warning.getMessage()) == ("WARNING", said)
    assert states(human)["broken"] == "failed" and known(human) == ["git/diff", "git/log"]
    assert human.discovery.get_undiscovered_participants() == ["broken"]


@pytest.mark.req("S-L1-19")
async def test_no_answer_counts_as_failure(hours: Hours, git: Service, human: MEWParticipant) -> None:
    git.hold = asyncio.Event()
    human.discovery.enable_auto_discovery(QUIET)
    await hours.go(0.0)
    await until(lambda: states(human)["git"] == "failed")
    assert "did not answer git/tools/list within" in human.discovery.get_discovery_status()["git"].error
    git.hold = None
    await hours.go(5.0)
    assert states(human)["git"] == "completed"


@pytest.mark.req("S-L1-16", "S-L1-17")
async def test_a_list_is_asked_for_again_when_it_is_old_and_stands_meanwhile(
    hours: Hours, git: Service, human: MEWParticipant
) -> None:
    human.discovery.enable_auto_discovery()
    await hours.go(299)
    assert (git.asked, known(human)) == (1, ["git/diff", "git/log"])
    git.hold, git.tells = asyncio.Event(), [{"name": "blame"}]
    await hours.go(1)
    assert (git.asked, states(human)["git"]) == (2, "in_progress")
    assert known(human) == ["git/diff", "git/log"]
    git.hold.set()
    await until(lambda: known(human) == ["git/blame"])
    git.tells = RpcError(-32000, "down")
    await hours.go(300 + 30)
    status = human.discovery.get_discovery_status()["git"]
    assert (status.state, status.has_tools, git.asked) == ("failed", True, 6)
    assert known(human) == ["git/blame"]
    git.tells = [{"name": "log"}]
    await hours.go(300)
    assert known(human) == ["git/log"]


@pytest.mark.req("S-L1-17")
async def test_who_says_that_its_tools_changed_is_asked_again_and_a_flood_of_that_is_one_request_a_second(
    room: Room, hours: Hours, git: Service, human: MEWParticipant
) -> None:
    human.discovery.enable_auto_discovery(AT_ONCE)
    await hours.go(10)
    git.tells = [{"name": "blame"}]
    await room.seated[0].notify(CHANGED, to="human")
    await settle()
    assert known(human) == ["git/blame"] and git.asked == 2
    for _ in range(200):
        await room.seated[0].notify(CHANGED)
    await settle()
    assert git.asked == 2 and human.discovery.has_discoveries_in_progress()
    await hours.go(1.0)
    assert git.asked == 3 and not human.discovery.has_discoveries_in_progress()


@pytest.mark.threat(9)
async def test_a_flood_of_notices_does_not_put_off_a_newcomer(
    room: Room, hours: Hours, git: Service, human: MEWParticipant
) -> None:
    human.discovery.enable_auto_discovery(Pace(stagger=1.0, longest=10.0))
    await hours.go(10)
    for _ in range(200):
        await room.seated[0].notify(CHANGED)
    late = Service("x")
    await room.seat("late", "tool", tools=late)
    await hours.go(4.0)  # two notices count, so it is third: gaps of one and two, and one for its place
    assert late.asked == 1


async def test_a_change_that_is_told_while_the_list_is_on_its_way_is_not_missed(
    room: Room, hours: Hours, git: Service, human: MEWParticipant
) -> None:
    git.hold = asyncio.Event()
    human.discovery.enable_auto_discovery(AT_ONCE)
    await until(lambda: git.asked)
    git.tells = [{"name": "blame"}]  # the answer on its way does not say so
    await room.seated[0].notify(CHANGED)
    await settle()
    git.hold.set()
    await until(lambda: known(human) == ["git/diff", "git/log"])
    assert human.discovery.has_discoveries_in_progress()
    await hours.go(1.0)
    assert known(human) == ["git/blame"]


@pytest.mark.req("S-L1-18")
async def test_who_says_that_it_has_started_is_asked_before_the_repetition_is_due(
    room: Room, hours: Hours, git: Service, human: MEWParticipant
) -> None:
    tools, git.tells = git.tells, RpcError(-32000, "starting")
    human.discovery.enable_auto_discovery(AT_ONCE)
    await hours.go(2)
    assert states(human)["git"] == "failed"
    git.tells = tools
    await room.seated[0].notify(CHANGED)
    await settle()
    assert known(human) == ["git/diff", "git/log"]


@pytest.mark.req("S-L2-32")
async def test_what_is_scheduled_can_be_waited_for_and_not_for_ever(
    hours: Hours, git: Service, human: MEWParticipant
) -> None:
    discovery = human.discovery
    assert await discovery.wait_for_pending_discoveries(5.0)  # nothing is
    git.hold = asyncio.Event()
    discovery.enable_auto_discovery(AT_ONCE)
    assert discovery.has_discoveries_in_progress() and states(human) == {"git": "not_started"}
    patient, hasty = (
        asyncio.ensure_future(discovery.wait_for_pending_discoveries(limit)) for limit in (5.0, 2.0)
    )
    await hours.go(2.0)
    assert await hasty is False and not patient.done()
    git.hold.set()
    assert await patient is True
    assert known(human) == ["git/diff", "git/log"]


async def test_first_answers_are_waited_for_while_they_come_and_a_silent_participant_has_its_time_once(
    room: Room, hours: Hours, git: Service, human: MEWParticipant
) -> None:
    late = [Service("x") for _ in range(3)]
    services = [git, *late]
    for n, service in enumerate(late):
        await room.seat(f"late{n}", "tool", tools=service)
    for service in services:
        service.hold = asyncio.Event()
    human.discovery.enable_auto_discovery(AT_ONCE)
    begin = hours.now
    waiting = asyncio.ensure_future(human.discovery.wait_for_first_answers(2.0))
    for service in late:  # 1.5 s apart: the last one answers after 4.5 s
        await hours.go(1.5)
        assert not waiting.done()
        service.hold.set()
    await hours.go(1.9)
    assert not waiting.done() and hours.now - begin == pytest.approx(6.4)
    await hours.go(0.2)
    assert waiting.done(), "nothing came for 2 s"
    again = asyncio.ensure_future(human.discovery.wait_for_first_answers(2.0))
    await settle()
    assert again.done()


async def test_no_first_answer_is_waited_for_longer_however_many_others_come_one_after_the_other(
    room: Room, hours: Hours, git: Service, human: MEWParticipant
) -> None:
    git.hold = asyncio.Event()
    human.discovery.enable_auto_discovery(AT_ONCE)
    begin = hours.now
    waiting = asyncio.ensure_future(human.discovery.wait_for_first_answers(2.0))
    for n in range(12):
        await hours.go(1.0)
        await room.seat(f"more{n}", "tool", tools=Service("x"))
        if waiting.done():
            break
    assert 10.0 <= hours.now - begin <= 11.0


async def test_switched_off_nobody_is_asked_and_what_is_known_stays(
    room: Room, hours: Hours, git: Service, human: MEWParticipant
) -> None:
    human.discovery.enable_auto_discovery(AT_ONCE)
    await hours.go(1)
    human.discovery.disable_auto_discovery()
    late = Service("x")
    await room.seat("late", "tool", tools=late)
    await hours.go(1000)
    assert (git.asked, late.asked, known(human)) == (1, 0, ["git/diff", "git/log"])


async def test_asked_by_hand_while_a_repetition_waits_the_repetition_is_not_needed(
    hours: Hours, git: Service, human: MEWParticipant
) -> None:
    tools, git.tells = git.tells, RpcError(-32000, "starting")
    human.discovery.enable_auto_discovery()
    await hours.go(1)
    git.tells = tools
    assert len(await human.discovery.discover_tools("git")) == 2
    assert not human.discovery.has_discoveries_in_progress()
    await hours.go(200)
    assert git.asked == 2


# --- ends ---


async def test_a_list_outlives_a_lost_connection_and_is_asked_for_again(
    room: Room, hours: Hours, git: Service
) -> None:
    human = room.prepare("human", client={"reconnect_delay": 0.0})
    gone = await room.seat("gone", "tool", tools=Service("x"))
    human.discovery.enable_auto_discovery(AT_ONCE)
    await human.start()
    await until(lambda: len(known(human)) == 3)
    again = asyncio.Event()
    human.client.on_welcome(lambda _: again.set())
    git.hold, git.tells = asyncio.Event(), [{"name": "blame"}]
    lost = asyncio.ensure_future(human.discovery.discover_tools("git"))
    await until(lambda: git.asked == 2)
    await room.links["human"].close(1001)
    with pytest.raises(ConnectionLost):
        await lost
    assert known(human) == ["git/diff", "git/log", "gone/x"]
    await gone.stop()
    await again.wait()
    git.hold.set()
    await until(lambda: known(human) == ["git/blame"])


async def test_after_the_stop_nothing_runs_and_who_waited_is_told(
    hours: Hours, git: Service, human: MEWParticipant
) -> None:
    git.hold = asyncio.Event()
    human.discovery.enable_auto_discovery(AT_ONCE)
    asked = asyncio.ensure_future(human.discovery.discover_tools("git"))
    await until(lambda: git.asked)
    await human.stop()
    with pytest.raises(ConnectionLost):
        await asked
    running = [
        task for task in asyncio.all_tasks() if "sdk/discovery" in str(task) or "sdk/scheduler" in str(task)
    ]
    assert running == [] and not human.discovery.has_discoveries_in_progress()


async def test_closed_while_the_connection_stands_a_request_ends_for_those_who_wait(
    hours: Hours, git: Service, human: MEWParticipant
) -> None:
    git.hold = asyncio.Event()
    asked = asyncio.ensure_future(human.discovery.discover_tools("git"))
    await until(lambda: git.asked)
    await human.discovery.close()
    with pytest.raises(ConnectionLost, match="closed before git listed its tools"):
        await asked


# --- hostile lists ---


@pytest.mark.threat(9)
@pytest.mark.parametrize(
    ("tells", "count", "error"),
    [
        (
            [{"name": f"t{n}"} for n in range(20_000)],
            500,
            "tools left out: 500 beyond 500 (such as t500), 19000 beyond the first 1000 of the list",
        ),
        ([{"name": "a"}, {"name": "a"}], 1, "tools left out: 1 with the name of another (such as a)"),
        (
            [{"name": "a/b"}, {"name": "\u202ea"}, {"name": "ok"}],
            1,
            "tools left out: 2 without a name that can be called (such as a/b)",
        ),
        (
            [{"name": "big", "inputSchema": {"x": "y" * 140_000}}],
            0,
            "tools left out: 1 with a schema that is too large (such as big)",
        ),
    ],
)
async def test_what_is_too_much_or_cannot_be_called_is_left_out_and_said(
    human: MEWParticipant, git: Service, tells: Any, count: int, error: str
) -> None:
    git.tells = tells
    assert len(await human.discovery.discover_tools("git")) == count
    status = human.discovery.get_discovery_status()["git"]
    assert (status.error, status.has_tools) == (error, count > 0)


@pytest.mark.threat(9)
async def test_pages_without_end_end_at_the_first_that_is_too_much(room: Room, hours: Hours) -> None:
    class Pages(Service):
        async def answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
            self.asked += 1
            tools = [{"name": f"t{self.asked}-{n}"} for n in range(200)]
            return {"tools": tools, "nextCursor": str(self.asked)}

    endless = Pages()
    await room.seat("endless", "tool", tools=endless)
    human = await room.seat("human")
    assert len(await human.discovery.discover_tools("endless")) == 500
    assert endless.asked == 3


@pytest.mark.threat(9)
async def test_pages_that_trickle_in_are_given_up(room: Room, hours: Hours) -> None:
    class Trickle(Service):
        async def answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
            self.asked += 1
            await asyncio.sleep(0.02)
            return {"tools": [{"name": f"t{self.asked}"}], "nextCursor": str(self.asked)}

    await room.seat("slow", "tool", tools=Trickle())
    human = await room.seat("human")
    human.discovery.pace = Pace(timeout=0.2)
    with pytest.raises(NoReply, match=r"slow has not listed all of its tools within 1\.2 s"):
        await human.discovery.discover_tools("slow")
    assert states(human)["slow"] == "failed"


async def test_a_handler_that_raises_harms_nobody(human: MEWParticipant) -> None:
    def fails(change: ToolsChange) -> Callable[[], None]:
        raise ValueError("odd")

    errors: list[Exception] = []
    human.client.on_error(errors.append)
    human.discovery.on_tools_changed(fails)
    assert len(await human.discovery.discover_tools("git")) == 2
    assert [str(one) for one in errors] == ["odd"]
