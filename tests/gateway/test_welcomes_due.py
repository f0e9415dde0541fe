"""What a gateway does with welcomes that one event could not tell: by its timer, in between the messages of others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mew_lab.gateway import hosted_space
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.shares import Shares
from mew_lab.log.replay import replay_records

from ..waiting import until
from .fakes import Disk, Listener, Scene

pytestmark = [pytest.mark.ruling("R24"), pytest.mark.threat(37)]

HERE = 40
WELCOME = 4000  # bytes, about


class Crowd(Scene):
    """`giver` has given each of forty participants something; `root` may put it out. Nothing owes a welcome yet."""

    def __init__(self, **limits: int) -> None:
        names = [f"p{n}" for n in range(HERE)]
        people = dict.fromkeys(names, ("mcp/proposal",))
        people |= {"root": ("*",), "giver": ("chat", "capability/grant")}
        super().__init__(people, tape=Disk(), wall=True, limits={"welcome_bytes": 16_384, **limits})
        for name in names:
            given = {"recipient": name, "capabilities": [{"kind": "chat"}]}
            self.say("giver", "capability/grant", given)
        for peer in self.peers.values():
            peer.heard.clear()

    def kick(self) -> None:
        self.say("root", "space/kick", {"participant_id": "giver"})

    def welcomed(self) -> list[str]:
        return [name for name, peer in self.peers.items() if "system/welcome" in peer.kinds]

    @property
    def due(self) -> dict[str, str]:
        return self.space.state.due

    async def settle(self) -> None:
        await until(lambda: not self.due)


async def test_everybody_is_told_though_nobody_says_anything_and_others_speak_in_between() -> None:
    scene = Crowd()
    scene.kick()
    assert 0 < len(scene.welcomed()) < HERE and scene.due
    late = next(iter(reversed(scene.due)))
    name = next(name for name, connection in scene.of.items() if connection == late)
    scene.say("root", "chat", {"text": "meanwhile"})
    assert scene.peers[name].kinds[-1] == "chat", "its welcome is still to come"
    await scene.settle()
    assert sorted(scene.welcomed()) == sorted(f"p{n}" for n in range(HERE))
    assert all(peer.kinds.count("system/welcome") <= 1 for peer in scene.peers.values())
    assert scene.peers[name].heard[-1]["payload"]["you"]["capabilities"] == [
        {"kind": "mcp/proposal"},
        {"kind": "mcp/response"},
    ]
    assert len(scene.events("welcomes_due")) > 1
    again = replay_records(scene.tape.records)
    assert again.unwritten == () and again.space.state.due == {}
    scene.gateway.close()


def test_without_a_loop_each_message_is_followed_by_a_portion() -> None:
    scene = Crowd()
    scene.kick()
    for _ in range(HERE):
        scene.say("root", "chat", {"text": "next"})
    assert not scene.due and len(scene.welcomed()) == HERE
    replay_records(scene.tape.records)


async def test_a_gateway_that_was_killed_in_between_owes_nothing_to_whom_is_gone() -> None:
    scene = Crowd()
    scene.kick()
    past = replay_records(scene.tape.records)
    assert past.space.state.due
    gateway = Gateway(clock=lambda: datetime.now(UTC))
    gateway.resume_space(past.space, since=past.last, connections=past.connections, journal=scene.tape)
    assert not past.space.state.due
    back = Listener()
    gateway.admit("demo", "p7", back)
    assert back.kinds == ["system/welcome"]
    assert replay_records(scene.tape.records).unwritten == ()


async def test_a_journal_that_is_full_in_between_has_them_all_later() -> None:
    scene = Crowd()
    scene.kick()
    scene.tape.full = True
    await scene.settle()
    told = len(scene.welcomed())
    assert told < HERE, "nothing is delivered that no journal has"
    scene.tape.full = False
    scene.say("root", "chat", {"text": "there is room again"})
    assert len(scene.welcomed()) == HERE
    assert replay_records(scene.tape.records).unwritten == ()


async def test_whoever_caused_them_pays_for_them_and_they_are_told_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Shares] = []

    def make_shares(*about: Any) -> Shares:
        made.append(Shares(*about))
        return made[-1]

    monkeypatch.setattr(hosted_space, "Shares", make_shares)
    scene = Crowd(journal_burst=1024 * 1024, journal_bytes_per_second=1)
    root = made[0].of("root", datetime.now(UTC))
    used = root.used
    scene.kick()
    first = root.used - used
    chats = 0
    while "system/error" not in scene.peers["root"].kinds:  # its share is used up before all are told
        scene.say("root", "chat", {"text": "x" * 3000})
        chats += 1
        assert chats < 1000
    used_by_chats = root.used - used - first
    await scene.settle()
    assert len(scene.welcomed()) == HERE
    sent = [one for one in scene.tape.records if one.raw and '"system/welcome"' in one.raw][-HERE:]
    assert root.used - used - used_by_chats >= sum(len(one.raw or "") for one in sent) > first
