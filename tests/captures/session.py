"""A session of the TypeScript gateway, as its log files hold it, and the same session in a space of ours.

Its inbound lines are fed in their order; what our space delivers is held against what that gateway delivered.
Compared is what each receiver gets, message by message and in order, by everything that a message says. What only
one run can know is left out: the ids and times that a gateway makes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from mew_lab.space.core import Space
from mew_lab.space.events import Deliver, Enrolled, Event, HttpReply, Joined, Received, Record
from mew_lab.space.opening import opening_record

BASELINE = {"id": "mcp-response", "kind": "mcp/response"}
START = datetime(2026, 11, 21, tzinfo=UTC)


class Line(NamedTuple):
    """One line of an envelope-history.jsonl; `text` is the envelope as it stands there."""

    number: int
    event: str
    transport: str
    participant: str
    envelope: dict[str, Any]
    text: str

    @property
    def joins(self) -> bool:
        return self.envelope.get("type") == "join"

    @property
    def appears(self) -> bool:
        """Whether somebody is here from now on: by joining, or as a log sink, whose welcome is all that tells."""
        return self.joins or self.transport == "virtual"


class Delivery(NamedTuple):
    """A message that a receiver got."""

    receiver: str
    members: dict[str, Any]


class Step(NamedTuple):
    """Something that came in, and what it led to in both gateways."""

    line: Line
    theirs: tuple[Delivery, ...]
    ours: tuple[Delivery, ...]
    status: int


def read(folder: Path) -> list[Line]:
    """The lines of a capture.

    What that gateway refused on a WebSocket left no line but the refusal: what came in is put before it, as far as
    the log of capability checks tells.
    """
    lines: list[Line] = []
    denied = {one["envelope_id"]: one for one in _checks(folder) if one["result"] == "denied"}
    known: set[str] = set()
    text = (folder / "envelope-history.jsonl").read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        members = json.loads(line)
        start = line.index(',"envelope":') + len(',"envelope":')
        exact = line[start : json.JSONDecoder().raw_decode(line, start)[1]]
        envelope = members["envelope"]
        if members["event"] == "received":
            known.add(envelope.get("id", ""))
        cause = (envelope.get("correlation_id") or [""])[0]
        if envelope.get("kind") == "system/error" and cause in denied and cause not in known:
            lines.append(_denied(number, denied[cause]))
        lines.append(
            Line(
                number,
                members["event"],
                members["transport"],
                members["participant"],
                members["envelope"],
                exact,
            )
        )
    return lines


def _checks(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "capability-decisions.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _denied(number: int, check: dict[str, Any]) -> Line:
    members = {"protocol": "mew/v0.4", "id": check["envelope_id"], "ts": check["timestamp"]}
    members |= {"from": check["participant"], "kind": check["required_capability"]}
    members |= {"correlation_id": check["metadata"]["correlation_id"], "payload": {}}
    text = json.dumps(members, separators=(",", ":"))
    return Line(number, "received", "websocket", check["participant"], members, text)


def configured(lines: list[Line]) -> dict[str, list[dict[str, Any]]]:
    """What each participant held, as its welcome says, the baseline left out."""
    return {
        line.participant: [one for one in line.envelope["payload"]["you"]["capabilities"] if one != BASELINE]
        for line in lines
        if line.envelope.get("kind") == "system/welcome"
    }


class Ours:
    """The space of the same name, configured alike; `records` are its journal."""

    def __init__(self, lines: list[Line], *, start: datetime = START) -> None:
        self.space = Space("capture", epoch=1, baseline=[BASELINE])
        self.now = start
        self.records: list[Record] = [opening_record(self.space, start)]
        self._name: dict[str, str] = {}
        for name, capabilities in configured(lines).items():
            self.step(Enrolled(name, tuple(capabilities)))

    def step(self, event: Event) -> tuple[tuple[Delivery, ...], int]:
        """What is delivered, and the status of the HTTP reply, 0 where there is none."""
        self.now += timedelta(milliseconds=1)
        found: list[Delivery] = []
        status = 0
        for effect in self.space.step(event, self.now):
            if isinstance(effect, Deliver):
                members = json.loads(effect.envelope.raw)
                found += [Delivery(self._name[name], members) for name in effect.connections]
            elif isinstance(effect, Record):
                self.records.append(effect)
            elif isinstance(effect, HttpReply):
                status = effect.status
        return tuple(found), status

    def event(self, line: Line) -> Event:
        """What a line that came in was."""
        name = line.participant
        if line.appears:
            connection = f"c{len(self._name) + 1}"
            self._name[connection] = name
            return Joined(connection, name, name, "websocket" if line.joins else "log")
        if line.transport == "http":
            return Received(line.text, None, name, name)
        live = self.space.state.live[name]
        return Received(line.text, live.name)


def steps(lines: list[Line]) -> tuple[list[Step], Ours]:
    """The whole session, side by side."""
    ours = Ours(lines)
    found = []
    causes = [at for at, line in enumerate(lines) if line.event == "received" or line.appears]
    for at, following in zip(causes, [*causes[1:], len(lines)], strict=True):
        line = lines[at]
        led_to = lines[at + (line.event == "received") : following]
        delivered, status = ours.step(ours.event(line))
        theirs = tuple(Delivery(one.participant, one.envelope) for one in led_to if one.event == "delivered")
        found.append(Step(line, theirs, delivered, status))
    return found, ours


# --- differences --------------------------------------------------------------------------------------------


def differences(step: Step) -> Iterator[str]:
    """What our space did otherwise, one sentence a difference; the same ones read alike."""
    theirs, ours = list(step.theirs), list(step.ours)
    for kind, receiver in dict.fromkeys((_kind(one), one.receiver) for one in (*theirs, *ours)):
        their = [one for one in theirs if (_kind(one), one.receiver) == (kind, receiver)]
        our = [one for one in ours if (_kind(one), one.receiver) == (kind, receiver)]
        for one, other in zip(their, our, strict=False):
            for told in _unlike(comparable(step.line, one.members), comparable(step.line, other.members)):
                yield f"{kind} {told}"
        if len(their) > len(our):
            yield f"{kind} to {_role(step, receiver)}: only there"
        elif len(our) > len(their):
            yield f"{kind} to {_role(step, receiver)}: only here"
    for receiver in dict.fromkeys(one.receiver for one in theirs):
        there = [_kind(one) for one in theirs if one.receiver == receiver]
        here = [_kind(one) for one in ours if one.receiver == receiver]
        if sorted(there) == sorted(here) and there != here:
            yield f"order: {', '.join(there)} there, {', '.join(here)} here"


def _kind(delivery: Delivery) -> str:
    return str(delivery.members["kind"])


def _role(step: Step, receiver: str) -> str:
    return "the sender" if receiver == step.line.participant else "others"


def comparable(line: Line, members: dict[str, Any]) -> dict[str, Any]:
    """A message without what only one run can know: ids and times that a gateway made."""
    if members["from"] in ("gateway", "system:gateway"):
        made = {"id", "ts"}
        members = json.loads(json.dumps(members), object_hook=_timeless)
    else:
        made = {"id", "ts"} - line.envelope.keys()
    return {key: value for key, value in members.items() if key not in made}


def _timeless(members: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in members.items() if key != "created"}


def _unlike(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """How two values differ. A list of objects is taken as a set: nothing says in which order they stand."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys((*one, *other)):
            yield from _unlike(one.get(key, ...), other.get(key, ...), f"{path}.{key}" if path else key)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other) == 1:
        yield from _unlike(one[0], other[0], f"{path}[]")
    elif isinstance(one, list) and isinstance(other, list):
        yield from (f"{path}: {_shown(value)} only there" for value in one if value not in other)
        yield from (f"{path}: {_shown(value)} only here" for value in other if value not in one)
    elif one is ... or other is ...:
        yield f"{path}: only {'here' if one is ... else 'there'}"
    elif one != other:
        yield f"{path}: {_shown(one)} there, {_shown(other)} here"


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
