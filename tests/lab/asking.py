"""An agent that asks for permissions with options: it proposes to itself, and answers by R41 alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.lab import Lab
from mew_lab.sdk.tools import RpcError

from .looking import call, propose

__all__ = ["FOUR", "ask", "seat_agent"]

FOUR = (
    {"id": "always", "name": "Always allow edits", "kind": "allow_always"},
    {"id": "once", "name": "Allow", "kind": "allow_once"},
    {"id": "no", "name": "No, and tell it what to do", "kind": "reject_once"},
    {"id": "never", "name": "Never", "kind": "reject_always"},
)


def seat_agent(lab: Lab, name: str = "claude") -> list[str]:
    """Seats an agent of that name; returns the list of the option ids that it is told, in order."""
    told: list[str] = []

    def permission(
        question: Any = None,
        options: Any = None,
        option: Any = None,
        title: Any = None,
        kind: Any = None,
        rawInput: Any = None,
        content: Any = None,
    ) -> str:
        offered = options if isinstance(options, list) else []
        if option is None:
            single = [
                one["id"] for one in offered if isinstance(one, dict) and one.get("kind") == "allow_once"
            ]
            if len(single) != 1:
                raise RpcError(-32602, "no single option allows it once")
            option = single[0]
        if option not in [one.get("id") for one in offered if isinstance(one, dict)]:
            raise RpcError(-32602, "no such option")
        told.append(option)
        return f"told {option}"

    lab.tool(permission, seat=lab.join(name, "agent"))
    return told


def ask(
    lab: Lab,
    options: Any = FOUR,
    *,
    question: Any = "Write notes.txt?",
    by: str = "claude",
    id: str | None = None,
    **more: Any,
) -> Card:
    """What the agent asks, as its card shows it once it was read."""
    offered = list(options) if isinstance(options, Sequence) and not isinstance(options, str) else options
    named: Mapping[str, Any] = {} if id is None else {"id": id}
    return propose(
        lab, call("permission", question=question, options=offered, **more), to=(by,), by=by, **named
    )
