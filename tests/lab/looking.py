"""What a test looks at in a running lab: what was said so far, and what comes true in a while."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

from mew_lab.lab.lab import Lab


def sent(lab: Lab, kind: str) -> list[dict[str, Any]]:
    """The envelopes of that kind in the lab's log, in the order received."""
    told = [json.loads(record.raw) for record in lab.log.held if record.raw]
    return [one for one in told if one.get("kind") == kind]


def eventually(what: Callable[[], Any], *, deadline: float = 20.0) -> Any:
    """The first true value of `what`, within so many seconds."""
    until = time.monotonic() + deadline
    while time.monotonic() < until:
        if found := what():
            return found
        threading.Event().wait(0.01)
    raise AssertionError("it never came true")


def click(lab: Lab, id: str, digest: str, decision: str = "approve", *, reason: str = "") -> str:
    """A view shows what has that digest, and somebody clicks there."""
    lab.decisions.record_shown(id, view="v", digest=digest)
    decided = lab.decisions.decide(
        id, digest=digest, decision=decision, reason=reason, click=lab.decisions.click("v")
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
