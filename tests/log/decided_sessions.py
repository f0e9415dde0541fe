"""Sessions of proposals and decisions, with receipts as a lab writes them, played in a real space."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from random import Random
from typing import Any

from mew_lab.ledger.calls import shown
from mew_lab.log.entries import RecordedEntry
from mew_lab.protocol.envelope import digest
from mew_lab.space.events import Enrolled, Joined, Left, Noted, Received

from .stage import Stage, says

ANY = ({"kind": "*"},)
TOOLS = [
    {"name": "read_file", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "drop", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": True}},
]


class DecidedSession:
    """A space with a proposer `coder`, whose connection has another id, a server `files`, and the person `ada`."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.count = 0
        for name in ("coder", "files", "ada", "bert"):
            self.stage.play(
                Enrolled(name, ANY), Joined(name, name, f"{name}-1" if name == "coder" else name, "memory")
            )

    def wait(self, seconds: float) -> None:
        self.stage.now += timedelta(seconds=seconds)

    def send(self, who: str, kind: str, payload: Any, *about: str, to: str = "") -> str:
        self.count += 1
        id = f"{kind.split('/')[-1]}-{self.count}"
        members: dict[str, Any] = {"to": [to] if to else []} | (
            {"correlation_id": list(about)} if about else {}
        )
        self.stage.play(Received(says(kind, id, payload, **members), who))
        return id

    def list_tools(self, tools: Any = TOOLS) -> None:
        asked = self.send("ada", "mcp/request", {"method": "tools/list"}, to="files")
        self.send("files", "mcp/response", {"result": {"tools": tools}}, asked, to="ada")

    def propose(self, tool: str = "read_file", **arguments: Any) -> str:
        call = {"method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        return self.send("coder", "mcp/proposal", call, to="files")

    def approve(self, proposal: str, tool: str = "read_file", *, note: Any = None, **arguments: Any) -> str:
        """Approves it by a click, or with another note; an empty one leaves no receipt."""
        request = f"approval-of-{proposal}"
        how = {"on_screen": 2400} if note is None else note
        if how:
            stated = {"proposal": proposal, "decision": "approve", "by": "human", "request": request}
            stated["digest"] = self.digest_of(proposal, tool, arguments)
            self.stage.play(Noted("decided", "ada", json.dumps(stated | how)))
        call = {"method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        members = {"to": ["files"], "correlation_id": [proposal]}
        self.stage.play(Received(says("mcp/request", request, call, **members), "ada"))
        self.send("files", "mcp/response", {"result": {}}, request, to="ada")
        return request

    def digest_of(self, proposal: str, tool: str, arguments: Mapping[str, Any]) -> str:
        """The digest of what a card shows of a proposal, or of an edit of it."""
        entries = (RecordedEntry(record) for record in self.stage.records if record.raw is not None)
        said = dict(shown(next(entry for entry in entries if entry.id == proposal).envelope))
        params = {"name": tool, "arguments": dict(arguments)}
        return digest(said | {"payload": said["payload"] | {"params": params}})

    def reject(self, proposal: str, *, note: Any = None) -> None:
        stated = {"proposal": proposal, "decision": "reject", "by": "human", "digest": "d" * 64}
        self.stage.play(
            Noted("decided", "ada", json.dumps(stated | ({"on_screen": 900} if note is None else note)))
        )
        self.send("ada", "mcp/reject", {"reason": "no"}, proposal)

    def leave(self, who: str) -> None:
        self.stage.play(Left(who, ""))


def hash_of(tool: Mapping[str, Any]) -> str:
    return digest(tool)


def random_session(seed: int, proposals: int = 60) -> DecidedSession:
    """Proposals of a few kinds, decided in all ways or not at all."""
    dice, session = Random(seed), DecidedSession()
    session.list_tools()
    ways: list[Any] = [
        None,
        {"typed": "abc"},
        {"how": "script", "typed": "abc"},
        {"policy": {"name": "p", "text": "t"}},
        {},
    ]
    ways.append({"rule": {"sha256": "e" * 64, "text": "When …"}})
    for n in range(proposals):
        session.wait(dice.expovariate(1 / 100))
        path = f"{dice.choice(['docs', 'src'])}/{n % 7}.md"
        proposal = session.propose(path=path)
        what = dice.random()
        if what < 0.6:
            sent = {"path": path} if dice.random() < 0.8 else {"path": f"{path}.bak"}
            edited = {"edited": True} if sent["path"] != path else {}
            way = dice.choice(ways)
            session.approve(proposal, note=way if not way else way | edited, **sent)
        elif what < 0.8:
            session.reject(proposal)
        elif what < 0.9:
            session.send("coder", "mcp/withdraw", {"reason": "no_longer_needed"}, proposal)
        if dice.random() < 0.05:
            session.list_tools(TOOLS[: dice.randint(1, 2)])
    session.leave("coder")
    return session
