"""Transcripts of a space, to be read by somebody who knows the protocol and no Python.

`# owner NAME` as the first line names who owns the space. A step is one event above the line and its effects below it; `--rewrite` writes the effects anew, and the difference is
then read. The clock stands at 2026-01-01T00:00:00Z and `at SECONDS` moves it; the epoch is 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mew_lab.space.core import Space
from mew_lab.space.events import (
    Close,
    Deliver,
    Effect,
    Enrolled,
    Event,
    FrameReceived,
    GrantEnded,
    HttpReply,
    Joined,
    Left,
    Limited,
    Mint,
    Noted,
    Oversize,
    Received,
    Record,
    Relay,
    Void,
)

FOLDER = Path(__file__).parent.parent / "conversations"
START = datetime(2026, 1, 1, tzinfo=UTC)
LINE = "----"


def read_event(line: str) -> Event:
    word, _, rest = line.partition(" ")
    match word:
        case "enrol":
            name, _, patterns = rest.partition(" ")
            return Enrolled(name, tuple(json.loads(patterns)))
        case "join":
            connection, name, *alias = rest.split()
            return Joined(connection, name, alias[0] if alias else name, "websocket")
        case "sink":
            connection, name = rest.split()
            return Joined(connection, name, name, "log")
        case "leave":
            connection, _, reason = rest.partition(" ")
            return Left(connection, reason)
        case "send":
            connection, _, text = rest.partition(" ")
            return Received(text, connection)
        case "post":
            name, _, text = rest.partition(" ")
            name, _, alias = name.partition("/")
            return Received(text, None, name, alias or name)
        case "frame":
            connection, _, text = rest.partition(" ")
            return FrameReceived(connection, text.encode(), False)
        case "text-frame":
            connection, _, text = rest.partition(" ")
            return FrameReceived(connection, text.encode(), True)
        case "oversize":
            connection, size, sha = rest.split()
            return Oversize(connection, int(size), sha)
        case "limited":
            connection, count = rest.split()
            return Limited(connection, int(count))
        case "note":
            event, name, detail = rest.split(" ", 2)
            return Noted(event, name, detail)
        case "grants-end":
            return GrantEnded()
    raise ValueError(f"no such event: {line}")


def written(effect: Effect) -> str:
    match effect:
        case Record():
            parts = [
                f"journal {effect.seq} {effect.event}",
                effect.participant,
                effect.connection,
                effect.verdict,
            ]
            parts += [effect.code, effect.pattern, effect.detail]
            if effect.received is not None:
                parts.append(f"received {effect.received}")
            if effect.event == "received" and effect.verdict == "refused":
                parts.append(f"text {effect.raw}")
            if effect.to:
                parts.append(f"privately {' '.join(effect.to)}")
            if effect.grant:
                parts.append(f"under {effect.grant}")
            if effect.runtime_id:
                parts.append(f"as {effect.runtime_id}")
            return " | ".join(part for part in parts if part)
        case Deliver():
            secret = " with the token" if effect.secret else ""
            return f"to {' '.join(effect.connections)}{secret}: {effect.envelope.raw}"
        case Relay():
            what = "text" if effect.text else "binary"
            return f"to {' '.join(effect.connections)} {what} frame: {effect.data!r}"
        case Mint():
            return f"mint a token for {effect.participant}"
        case Void():
            return f"void the tokens of {effect.participant}"
        case Close():
            return f"close {effect.connection} {effect.code} {effect.reason}"
        case HttpReply():
            return f"reply {effect.status} {json.dumps(effect.body, separators=(',', ':'))}"


def steps(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """(comments and event, effects) of each block."""
    for block in text.strip().split("\n\n"):
        lines = block.split("\n")
        at = lines.index(LINE) if LINE in lines else len(lines)
        yield lines[:at], lines[at + 1 :]


def replayed(text: str) -> str:
    owner = text.split("\n", 1)[0].removeprefix("# owner ") if text.startswith("# owner ") else ""
    space, now, blocks = Space("demo", epoch=1, owner=owner), START, []
    for above, _ in steps(text):
        effects: list[str] = []
        for line in above:
            if line.startswith("at "):
                now = START + timedelta(seconds=float(line[3:]))
            elif not line.startswith("#"):
                effects += [written(effect) for effect in space.step(read_event(line), now)]
        only_comments = all(line.startswith("#") for line in above)
        blocks.append("\n".join(above if only_comments else [*above, LINE, *effects]))
    return "\n\n".join(blocks) + "\n"


# What each transcript shows, to the byte; no other test of this room says it again.
SHOWN: dict[str, list[pytest.MarkDecorator]] = {
    "01-join-and-chat": [
        pytest.mark.req("P-3.7-1", "P-3.7-2", "P-3.7-3", "P-3.7-5", "P-3.7-6", "P-3.8.1-1", "C-1")
    ],
    "03-capabilities": [
        pytest.mark.req(
            "P-3-14", "P-3.6.8-5", "P-3.8.2-1", "P-3.8.2-2", "P-4.2-3", "P-4.2-4", "P-5.4-1", "P-8.1-6",
        )
    ],
    "05-names": [pytest.mark.req("P-3.7-4", "P-3.8.1-1", "P-5.2-5", "C-2", "C-26")],
    "06-http": [pytest.mark.req("P-3.8.2-2", "P-5.3-2")],
    "08-grants": [
        pytest.mark.req(
            "P-3.6.1-4", "P-3.6.1-5", "P-3.6.1-6", "P-3.6.1-8", "P-3.6.1-9", "P-3.6.1-11", "P-3.6.1-12",
            "P-3.6.4-1", "P-3.6.4-3", "P-3.6.4-4", "P-3.6.4-5", "P-3.6.8-2", "P-3.8.1-2", "P-4.1-13",
            "P-5.1-2", "P-5.2-9",
        )
    ],
    "09-revokes": [pytest.mark.req("P-3.6.1-3", "P-3.6.2-1", "P-3.6.2-2", "P-3.6.8-4", "C-10")],
    "10-invite-and-kick": [
        pytest.mark.threat(7),
        pytest.mark.req(
            "P-3.6.2-1", "P-3.6.5-2", "P-3.6.5-3", "P-3.6.5-5", "P-3.6.6-1", "P-3.6.6-2", "P-3.6.7-1",
            "P-3.6.8-2", "P-3.7-2", "P-7.3-1", "P4-3.6.4-1", "C-9", "C-11",
        ),
    ],
    "11-pause-and-shutdown": [pytest.mark.req("P-3.6.4-3", "P-3.9.1-3")],
    "12-streams": [
        pytest.mark.threat(26),
        pytest.mark.req(
            "P-3.8.1-3", "P-3.8.1-5", "P-3.8.1-8", "P-3.10.1-4", "P-3.10.1-7", "P-3.10.2-1", "P-3.10.2-2",
            "P-3.10.2-3", "P-3.10.2-4", "P-3.10.2-5", "P-3.10.3-3", "C-4", "C-5",
        ),
    ],
    "13-stream-rights": [
        pytest.mark.req(
            "P-3.10.5-1", "P-3.10.5-3", "P-3.10.5-4", "P-3.10.5-6", "P-3.10.6-1", "P-3.10.6-4",
            "P-3.10.6-5", "P-3.10.6-9", "P-3.10.7-1", "P-3.10.7-3", "P-3.10.7-4", "P-3.10.7-5",
            "P-3.10.7-7", "P-3.10.8-1", "P-3.10.8-3", "P-5.3-2", "C-19",
        )
    ],
    "16-proposals": [
        pytest.mark.req(
            "P-2.1-2", "P-3.2.1-4", "P-3.2.1-6", "P-3.3.2-1", "P-3.3.2-7", "P-9.1-1", "C-1",
        )
    ],
    "20-own-messages": [pytest.mark.ruling("R14"), pytest.mark.ruling("R36")],
}  # fmt: skip


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=SHOWN.get(path.stem, ()))
        for path in sorted(FOLDER.glob("*.txt"))
    ],
)
def test_the_space_says_what_the_transcript_says(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text()
    actual = replayed(text)
    if request.config.getoption("--rewrite"):
        path.write_text(actual)
    assert actual == text


def test_there_are_transcripts() -> None:
    assert len(list(FOLDER.glob("*.txt"))) >= 6
