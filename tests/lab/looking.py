"""What a test looks at in a running lab: what was said so far, and what comes true in a while."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.lab import Lab

from ..waiting import eventually

__all__ = ["approve", "call", "click", "eventually", "propose", "sent"]


def sent(lab: Lab, kind: str) -> list[dict[str, Any]]:
    """The envelopes of that kind in the lab's log, in the order received."""
    told = [json.loads(record.raw) for record in lab.log.held if record.raw]
    return [one for one in told if one.get("kind") == kind]


def call(tool: str = "add", /, **arguments: Any) -> dict[str, Any]:
    """The payload of a call."""
    return {"method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def propose(
    lab: Lab,
    payload: dict[str, Any],
    to: Sequence[str] = ("notebook",),
    *,
    by: str = "bot",
    read: bool = True,
    **members: Any,
) -> Card:
    """What a participant of this lab proposes, as its card shows it; once it was read, unless told otherwise."""
    seat = lab.seats.get(by) or lab.join(by)
    draft = {"kind": "mcp/proposal", "to": list(to), "payload": payload, **members}

    def cards() -> list[Card]:
        return [*lab.decisions.pending(), *lab.decisions.decided()]

    before = max((card.seq for card in cards()), default=0)
    id = seat.run(seat.participant.send_accepted(draft)).id
    return eventually(
        lambda: next(
            (one for one in cards() if one.id == id and one.seq > before and (one.is_read or not read)), None
        )
    )


def click(
    lab: Lab, id: str, digest: str, decision: str = "approve", *, reason: str = "", option: str = ""
) -> str:
    """A view shows what has that digest, and somebody clicks there."""
    lab.decisions.record_shown(id, view="v", digest=digest)
    decided = lab.decisions.decide(
        id, digest=digest, decision=decision, reason=reason, click=lab.decisions.click("v"), option=option
    )
    return decided.result(10)


def approve(lab: Lab, id: str, **more: Any) -> Any:
    """What a person does who reads the whole of a proposal and says yes to it."""
    card = lab.decisions.card(id)
    entry = next((one for one in lab.proposals() if one.id == card.id), None)
    if entry is None:
        return lab.approve(id, **more)
    assert card.request in str(entry)
    return lab.approve(entry, **more)
