"""Sessions of any kind, made from a seed: members come, speak, quarrel and go; some of them by HTTP or as a log sink."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from mew_lab.space.core import Space
from mew_lab.space.events import (
    Enrolled,
    Event,
    FrameReceived,
    GrantEnded,
    Joined,
    Left,
    Limited,
    Noted,
    Oversize,
    Received,
)

ANY = {"kind": "*"}
PEOPLE: dict[str, list[dict[str, Any]]] = {
    "anna": [ANY],
    "bert": [{"kind": "chat"}, {"kind": "mcp/*", "payload": {"method": "tools/*"}}],
    "cora": [{"kind": "chat"}, {"kind": "stream/*"}, {"kind": "capability/*"}],
    "dan": [{"kind": ["chat", "mcp/proposal"]}],
    "lazy": [{"kind": "chat"}],
}
TEXTS = ["hi", "höh \u2028 😀", 'a"b\\c', "\x00", "x" * 3000, "<b>", ""]
ODD = [
    "no json",
    "[1]",
    '{"kind":"chat","id":"\\ud800"}',
    '{"a":NaN}',
    "[" * 5000,
    '{"kind":1}',
    "{}",
    '{"kind":',
]


def session(space: Space, seed: int, events: int) -> Iterator[Event]:
    """So many events; each must have happened in `space` before the next is asked for."""
    dice = random.Random(seed)
    count = 0

    def number() -> int:
        nonlocal count
        count += 1
        return count

    for name, can in PEOPLE.items():
        yield Enrolled(name, tuple(can))
    for _ in range(events):
        state = space.state
        here = list(state.connections.values())
        name = dice.choice([*PEOPLE, *state.members])
        what = dice.random()
        if what < 0.08 or not here:
            via = "log" if name == "lazy" else dice.choice(["websocket", "memory"])
            yield Joined(f"c{number()}", name, dice.choice([name, f"{name}-{dice.randint(1, 3)}"]), via)
        elif what < 0.11:
            yield Left(dice.choice(here).name, dice.choice(["gone", "", "slow reader"]))
        elif what < 0.15:
            yield _frame(dice, dice.choice(here).name, list(state.streams))
        elif what < 0.16:
            yield Oversize(dice.choice(here).name, 2_000_000, "0" * 64)
        elif what < 0.17:
            yield Limited(dice.choice(here).name, 3)
        elif what < 0.19:
            beside: list[Event] = [GrantEnded(), Noted("decided", name, "{}")]
            yield dice.choice([*beside, Enrolled(name, ({"kind": "chat/*"},))])
        else:
            text: str | bytes = _message(dice, space, number)
            if dice.random() < 0.05:
                text = b"\xff\xfe" if dice.random() < 0.2 else dice.choice(ODD)
            if dice.random() < 0.3:
                member = state.logical(name)
                yield Received(text, None, member, name if member in state.members else member)
            else:
                yield Received(text, dice.choice(here).name)


def _frame(dice: random.Random, connection: str, streams: list[str]) -> Event:
    stream = dice.choice([*streams, "stream-99", "é"])
    data = dice.choice([f"#{stream}#".encode() + bytes(dice.randint(0, 40)), b"nothing", b"#" + b"y" * 400])
    text = dice.random() < 0.3 and data.startswith(b"#")
    return FrameReceived(connection, data.decode("utf-8", "replace").encode() if text else data, text)


def _message(dice: random.Random, space: Space, number: Any) -> str:
    names = list(space.state.members)
    other = dice.choice([*names, "nobody"])
    streams = [*space.state.streams, "stream-99"]
    kind, payload = dice.choice(
        [
            ("chat", {"text": dice.choice(TEXTS), "n": dice.choice([1, 1.5, 1e100, -0.0, None])}),
            ("chat", {"text": dice.choice(TEXTS)}),
            ("chat", {"text": dice.choice(TEXTS)}),
            ("mcp/request", {"method": dice.choice(["tools/list", "tools/call", "x"]), "params": {"name": "f"}}),
            ("mcp/proposal", {"method": "tools/call", "params": {"name": "f", "arguments": {"a": [1, 2]}}}),
            ("mcp/response", {"result": {"ok": True}}),
            (
                "capability/grant",
                {"recipient": other, "capabilities": [{"kind": dice.choice(["mcp/request", "chat/*", "x"])}]},
            ),
            ("capability/revoke", {"recipient": other, "capabilities": [{"kind": "mcp/*"}]}),
            ("space/invite", {"participant_id": f"guest-{dice.randint(1, 9)}", "email": "a@b"}),
            ("space/kick", {"participant_id": other, "reason": "why"}),
            ("participant/pause", {"timeout_seconds": 1}),
            ("participant/resume", {}),
            ("participant/shutdown", {}),
            ("participant/status", {"tokens": 4}),
            ("stream/request", {"direction": "upload", "target": dice.choice([[], [other]])}),
            ("stream/close", {"stream_id": dice.choice(streams)}),
            ("stream/grant-write", {"stream_id": dice.choice(streams), "participant_id": other}),
            ("stream/transfer-ownership", {"stream_id": dice.choice(streams), "new_owner": other}),
            ("reasoning/start", {"message": "m"}),
            ("system/register", {}),
            ("unheard/of", {"long": "z" * dice.choice([1, 6000])}),
            ("gone/wrong", {"long": "z" * 5000}),
        ]
    )  # fmt: skip
    members: dict[str, Any] = {"kind": kind, "payload": payload}
    if dice.random() < 0.7:
        members["id"] = f"m-{number() if dice.random() < 0.9 else 1}"
    if dice.random() < 0.3 or kind.startswith("participant/"):
        members["to"] = [other]
    if dice.random() < 0.2:
        members["correlation_id"] = dice.choice(["m-1", ["m-2", "m-3"], []])
    if dice.random() < 0.2:
        members["protocol"] = dice.choice(["mew/v0.4", "mew/v0.4", "mew/v9"])
    if dice.random() < 0.1:
        members["from"] = dice.choice(names)
    if dice.random() < 0.2:
        members["ts"] = "2026-01-01T00:00:00Z"
    spaces = dice.choice([None, 1, (",", ":")])
    return json.dumps(
        members,
        ensure_ascii=dice.random() < 0.5,
        indent=spaces if spaces == 1 else None,
        separators=spaces if isinstance(spaces, tuple) else None,
    )
