"""Which text of a proposal has a tool said, and not the human?  Listens to answers and to chat; decides nothing.

What a tool returns may hold an instruction of somebody who has no business here. An argument that quotes it is
marked for the human who decides, seen from the human's own seat: what the proposer says of itself counts for
nothing. Holds the newest 50 answers and 50 messages, 20 000 characters of each, and 1000 calls with 50 addressees each.

Spec: §7.1, threat 29.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from mew_lab.agent.memory import shortened
from mew_lab.agent.origins import quoted
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.results import ToolResult
from mew_lab.workbench.names import MAX_NAME, cut, cut_names

__all__ = ["Sources"]

MAX_KEPT = 50  # answers, and chat messages
MAX_TEXT = 20_000  # characters of each
MAX_CALLS = 1000
MAX_TO = 50  # addressees of a call; of one with more, whoever answers counts as asked
MAX_TOOL = 128
SHOWN_TO = 3
_NOBODY: frozenset[str] = frozenset()


class Sources:
    """What tools and people have said lately."""

    def __init__(self) -> None:
        self._asked: OrderedDict[str, tuple[str, frozenset[str] | None]] = OrderedDict()
        self._outputs: deque[tuple[str, str]] = deque(maxlen=MAX_KEPT)
        self._said: deque[str] = deque(maxlen=MAX_KEPT)

    def observe(self, envelope: Envelope, *, me: str) -> None:
        """Takes note of one message of the space; `me` is the human who decides."""
        payload = envelope.payload
        if envelope.kind == "mcp/request":
            params = payload.get("params")
            if payload.get("method") == "tools/call" and isinstance(params, dict):
                name = params.get("name")
                tool = cut(name, MAX_TOOL) if isinstance(name, str) else ""
                shown = ", ".join(cut_names(envelope.to, most=SHOWN_TO))
                self._asked[envelope.id] = (f"{shown}/{tool}", _addressees(envelope.to))
                if len(self._asked) > MAX_CALLS:
                    self._asked.popitem(last=False)
        elif envelope.kind == "mcp/response":
            for id in envelope.correlation_id:
                tool, to = self._asked.get(id, ("", _NOBODY))
                if (to is None or envelope.sender in to) and isinstance(payload.get("result"), dict):
                    text = shortened(ToolResult(payload["result"]).text, MAX_TEXT)
                    self._outputs.append((tool, text))
        elif envelope.kind == "chat" and envelope.sender == me and isinstance(payload.get("text"), str):
            self._said.append(payload["text"][:MAX_TEXT])

    def quoted_in(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """One line for each argument with text that a tool has said and the human has not."""
        if not self._outputs:
            return ()
        found = quoted(arguments, outputs=tuple(self._outputs), request="\n".join(self._said))
        return tuple(f"out of a tool's answer, not of your words: {one}" for one in found)


def _addressees(names: Sequence[str]) -> frozenset[str] | None:
    """Who may answer; None where they are too many to be kept, so that no crowd hides a tool from the human."""
    real = frozenset(one for one in names if len(one) <= MAX_NAME)
    return real if len(real) <= MAX_TO else None
