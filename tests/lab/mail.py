"""A participant that says of its tools what it likes, and what a lab remarks on a call of one."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.lab.lab import Lab

from .looking import approve, eventually, sent

CALL: dict[str, Any] = {"method": "tools/call", "params": {"name": "send", "arguments": {"body": "hello"}}}


def tool(description: str = "Sends a letter.", **more: Any) -> dict[str, Any]:
    return {"name": "send", "description": description, "inputSchema": {"type": "object"}, **more}


class Mail:
    """A participant that is called `mail`, and says of its tools what it likes."""

    def __init__(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lab = lab
        self.seat = lab.join("mail", can="tool")
        self.bot = lab.join("bot", can="proposer")
        self.page: dict[str, Any] = {}
        self.answer_with = lambda answer: monkeypatch.setattr(self.seat.participant.tools, "answer", answer)
        self.answer_with(self.answer)
        lab.local.seats.pop("mail")  # as one of another process

    async def answer(self, method: str, params: Any) -> dict[str, Any]:
        return self.page if method == "tools/list" else {"content": []}

    def lists(self, *tools: Any, cursor: str = "", params: Any = None, **more: Any) -> None:
        self.page = {"tools": list(tools), **more}
        params = {"cursor": cursor} if cursor else params
        payload = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/list",
            **({"params": params} if params else {}),
        }
        asked = self.lab.send("mcp/request", payload, to="mail").id
        eventually(
            lambda: any(asked in (one.get("correlation_id") or ()) for one in sent(self.lab, "mcp/response"))
        )

    def grant(self, name: str = "send") -> str:
        payload = {"method": "tools/call", "params": {"name": name}}
        giving = self.lab.granting.grant("bot", [{"kind": "mcp/request", "to": "mail", "payload": payload}])
        return self.lab.loop.run(giving, timeout=10, doing="granting")

    def why_ended(self, grant: str) -> str:
        """Why a grant was revoked, once it is."""
        given = self.lab.granting
        return eventually(
            lambda: next((one.why for one in given.given if (one.id, one.state) == (grant, "revoked")), "")
        )

    def stands(self, grant: str) -> bool:
        return next(one.state for one in self.lab.granting.given if one.id == grant) == "stands"

    def card(self, name: str = "send") -> Any:
        call = {**CALL, "params": {**CALL["params"], "name": name}}
        sent = self.bot.send("mcp/proposal", call, to="mail")
        return eventually(
            lambda: next((one for one in self.lab.decisions.pending() if one.id == sent.id), None)
        )

    def remarks(self) -> list[str]:
        card = self.card()
        self.lab.reject(card.id)
        return [line for line in card.warnings if line.startswith(("changed", "not listed"))]

    def approve(self) -> None:
        approve(self.lab, self.card().id)
