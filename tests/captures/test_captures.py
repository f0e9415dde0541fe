"""Ten sessions of the TypeScript gateway, done again: in a space of ours, and over real sockets to the byte."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from mew_lab.gateway.config import ParticipantConfig, SpaceConfig
from mew_lab.gateway.delivery import Frame
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.server import Server
from mew_lab.log.replay import replay_records
from mew_lab.protocol.token import Token
from mew_lab.transport.link import Link
from mew_lab.transport.websocket import connect

from .divergences import CAPTURES, DIVERGENCES
from .session import BASELINE, Delivery, Line, Step, comparable, configured, differences, read, steps

ROOT = Path(__file__).resolve().parents[2]
INBOUND = {
    "1-basic": 23,
    "2-mcp": 13,
    "3-proposals": 14,
    "5-reasoning": 14,
    "7-mcp-bridge": 7,
    "8-typescript-agent": 12,
    "9-typescript-proposals": 12,
    "11-chat-controls": 11,
    "12-stream-controls": 8,
    "15-stream-visibility": 5,
}
"""Lines of event `received` of each capture, as `grep -c` counts them."""


def test_there_are_the_captures_that_this_speaks_of(shared: Path) -> None:
    assert sorted(path.name for path in (shared / "captures").iterdir()) == sorted(CAPTURES)
    for name, count in INBOUND.items():
        text = (shared / "captures" / name / "envelope-history.jsonl").read_text(encoding="utf-8")
        assert text.count('"event":"received"') == count, name


@pytest.mark.parametrize("name", CAPTURES)
@pytest.mark.req("P-8.1-8", "C-1", "C-4", "C-14", "C-16")
def test_a_captured_session_goes_as_it_went_but_for_what_is_recorded(name: str, shared: Path) -> None:
    session, ours = steps(read(shared / "captures" / name))
    found = Counter(told for step in session for told in differences(step))
    recorded = {one.what: one.times for one in DIVERGENCES if one.capture == name}
    assert dict(found) == recorded
    assert [one.line.number for one in session if one.status not in (0, 200)] == []
    assert replay_records(ours.records).unwritten == ()


def test_every_divergence_names_the_ruling_that_wants_it(shared: Path) -> None:
    rulings = (shared / "rulings.md").read_text(encoding="utf-8")
    rows = (ROOT / "mew_lab" / "conformance" / "requirements.csv").read_text(encoding="utf-8")
    for one in DIVERGENCES:
        known = f"**{one.row}" in rulings if one.row.startswith("R") else f"\n{one.row}," in rows
        assert known, one
        assert re.fullmatch(r"[A-Z].*\.", one.why)
    assert len({(one.capture, one.what) for one in DIVERGENCES}) == len(DIVERGENCES)
    print(f"{len(DIVERGENCES)} recorded divergences in {len(CAPTURES)} captured sessions")


def test_what_is_not_recorded_is_seen() -> None:
    """The comparison can fail: each kind of difference, on a step made by hand."""
    sent = {"id": "m-1", "kind": "chat", "from": "a", "payload": {"text": "hi"}}
    line = Line(1, "received", "websocket", "a", sent, "")
    told = Delivery("b", {**sent, "ts": "x"})

    def of(theirs: list[Delivery], ours: list[Delivery]) -> list[str]:
        return list(differences(Step(line, tuple(theirs), tuple(ours), 0)))

    assert of([told], [Delivery("b", {**sent, "ts": "y"})]) == []  # a time that the gateway filled in
    assert of([told], []) == ["chat to others: only there"]
    assert of([], [Delivery("a", sent)]) == ["chat to the sender: only here"]
    assert of([told], [Delivery("b", {**told.members, "id": "m-2"})]) == ['chat id: "m-1" there, "m-2" here']
    assert of([told], [Delivery("b", {**told.members, "payload": {"text": 1}})]) == [
        'chat payload.text: "hi" there, 1 here'
    ]
    assert of([told], [Delivery("b", {**told.members, "to": ["b"]})]) == ["chat to: only here"]
    other = Delivery("b", {**sent, "kind": "x", "ts": "x"})
    assert of([told, other], [other, told]) == ["order: chat, x there, x, chat here"]


# --- over sockets -------------------------------------------------------------------------------------------


class Sink:
    """A log sink's peer: it keeps what it is given."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def put(self, frame: Frame) -> None:
        self.heard.append(str(frame.message))

    def close(self, code: int, reason: str, *, drop: bool = False) -> None: ...

    async def alive(self, timeout: float) -> bool:
        return True


class Stage:
    """A served space of a capture, with the sockets of those who joined it."""

    def __init__(self, lines: list[Line]) -> None:
        joins = {one.participant: one.envelope for one in lines if one.joins}
        self.space = next((one["space"] for one in joins.values()), "capture")
        people = {name: ParticipantConfig(capabilities=can) for name, can in configured(lines).items()}
        self.gateway = Gateway()
        self.gateway.add_space(SpaceConfig(name=self.space, participants=people, baseline=[BASELINE]))
        self.tokens = {name: self.gateway.tokens.mint(self.space, name) for name in people}
        for name, join in joins.items():
            self.gateway.tokens.add(self.space, name, Token(join["token"]))
        self.server = Server(self.gateway)
        self.links: dict[str, Link] = {}
        self.sinks: dict[str, Sink] = {}

    async def enter(self, line: Line) -> None:
        """The line comes in, as the very bytes that stand in the log."""
        name = line.participant
        if line.joins:
            self.links[name] = await connect(f"ws://127.0.0.1:{self.server.port}/")
            await self.links[name].send(line.text)
        elif line.appears:
            self.sinks[name] = Sink()
            self.gateway.admit(self.space, name, self.sinks[name], via="log")
        elif line.transport == "websocket":
            await self.links[name].send(line.text)
        else:
            headers = {
                "Authorization": f"Bearer {self.tokens[name].reveal()}",
                "Content-Type": "application/json",
            }
            at = f"http://127.0.0.1:{self.server.port}/participants/{name}/messages"
            async with httpx.AsyncClient(trust_env=False) as client:
                answer = await client.post(at, content=line.text.encode(), headers=headers)
            assert answer.status_code == 200, answer.text

    async def hear(self, receiver: str, count: int) -> list[str]:
        """The next messages that a receiver gets; a sink has them at once."""
        if receiver in self.links:
            return [str(await self.links[receiver].receive()) for _ in range(count)]
        heard = self.sinks[receiver].heard
        told, heard[:] = heard[:count], heard[count:]
        return told

    async def close(self) -> None:
        await self.server.stop()
        for link in self.links.values():
            await link.close()


@pytest.mark.sampled
@pytest.mark.parametrize("name", CAPTURES)
@pytest.mark.req("P-8.1-9", "C-14", "C-16")
async def test_the_lines_of_a_capture_go_over_sockets_byte_for_byte(name: str, shared: Path) -> None:
    lines = read(shared / "captures" / name)
    session, _ = steps(lines)
    stage = Stage(lines)
    async with asyncio.timeout(50):
        await stage.server.start()
        try:
            for step in session:
                await stage.enter(step.line)
                for receiver in dict.fromkeys(one.receiver for one in step.ours):
                    expected = [one.members for one in step.ours if one.receiver == receiver]
                    heard = await stage.hear(receiver, len(expected))
                    assert [comparable(step.line, json.loads(text)) for text in heard] == [
                        comparable(step.line, members) for members in expected
                    ], step.line.number
                    if _complete(step.line.envelope) and not step.line.appears and len(step.ours) > 1:
                        assert step.line.text in heard, "a complete message is passed on to the byte"
            assert all(not sink.heard for sink in stage.sinks.values())
        finally:
            await stage.close()


def _complete(members: dict[str, Any]) -> bool:
    return {"protocol", "id", "ts", "from"} <= members.keys() and not isinstance(
        members.get("correlation_id"), str
    )
