"""Journals of a chosen size, written by a real space: 25 participants that reason, propose, call tools and answer.

The messages are judged by `Space` as a gateway has them judged, and the lines are chained as a journal chains them.
A line has about 900 bytes. Times are made up: 40 ms pass from one message to the next.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mew_lab.log.line import NO_CHAIN, chain_line, write_line
from mew_lab.space.core import Space
from mew_lab.space.events import Enrolled, Joined, Received, Record
from mew_lab.space.opening import opening_record

__all__ = ["write_journal"]

START = datetime(2026, 11, 21, 22, 40, 1, 123456, UTC)
STEP = timedelta(milliseconds=40)
PEOPLE = [*(f"agent-{n}" for n in range(16)), *(f"tool-{n}" for n in range(7)), "human", "observer"]
WORDS = (
    "the file was read and its third line holds a date that no parser of this project accepts so far".split()
)


def _texts(dice: random.Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Senders with the members of their messages, without end."""
    count = 0

    def message(sender: str, kind: str, payload: dict[str, Any], **more: Any) -> tuple[str, dict[str, Any]]:
        nonlocal count
        count += 1
        members = {
            "protocol": "mew/v0.4",
            "id": f"{sender}-{count:x}",
            "ts": START.isoformat(),
            "from": sender,
        }
        return sender, members | more | {"kind": kind, "payload": payload}

    def prose(words: int) -> str:
        return " ".join(dice.choices(WORDS, k=words))

    while True:
        agent, tool = f"agent-{dice.randrange(16)}", f"tool-{dice.randrange(7)}"
        goal = message(agent, "reasoning/start", {"message": prose(40)})
        yield goal
        about = goal[1]["id"]
        for _ in range(dice.randint(1, 3)):
            yield message(agent, "reasoning/thought", {"message": prose(90)}, context=about)
        name = dice.choice(["write_file", "read_file", "git_log", "search"])
        arguments = {"path": f"src/{dice.choice(WORDS)}/{count}.py", "content": prose(40), "n": count}
        call = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        offer = message(agent, "mcp/proposal", call, to=[tool], context=about)
        yield offer
        if dice.random() < 0.1:
            yield message("human", "mcp/reject", {"reason": "disagree"}, correlation_id=[offer[1]["id"]])
        else:
            request = message(
                "human", "mcp/request", {**call, "id": count}, to=[tool], correlation_id=[offer[1]["id"]]
            )
            yield request
            result = {"content": [{"type": "text", "text": prose(80)}]}
            answer = {"jsonrpc": "2.0", "id": request[1]["payload"]["id"], "result": result}
            yield message(tool, "mcp/response", answer, to=["human"], correlation_id=[request[1]["id"]])
        yield message(agent, "reasoning/conclusion", {"message": prose(60)}, context=about)
        if dice.random() < 0.3:
            yield message(dice.choice(PEOPLE[:23]), "chat", {"text": prose(30), "format": "plain"})
        if dice.random() < 0.01:
            yield message(
                "observer", "mcp/request", {"method": "tools/call", "params": {"name": name}}, to=[tool]
            )


def write_journal(path: Path, size: int, *, seed: int = 1) -> int:
    """Writes a journal of at least `size` bytes; returns the number of its messages."""
    space = Space("bench", epoch=1)
    texts = _texts(random.Random(seed))
    now, written, messages, chain = START, 0, 0, NO_CHAIN

    with path.open("wb", buffering=1 << 20) as file:

        def append(record: Record) -> None:
            nonlocal written, messages, chain
            line, chain = chain_line(write_line(record), chain)
            file.write(line)
            written += len(line)
            messages += record.raw is not None

        append(opening_record(space, now))
        for name in PEOPLE:
            rights = {"kind": "chat"} if name == "observer" else {"kind": "*"}
            for event in (Enrolled(name, (rights,)), Joined(f"c-{name}", name, name, "websocket")):
                for effect in space.step(event, now):
                    if isinstance(effect, Record):
                        append(effect)
        while written < size:
            sender, members = next(texts)
            now += STEP
            for effect in space.step(
                Received(json.dumps(members, separators=(",", ":")), f"c-{sender}"), now
            ):
                if isinstance(effect, Record):
                    append(effect)
    return messages
