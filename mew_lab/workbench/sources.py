"""Which text of a proposal has a tool said, and not the human?  Listens to answers and to chat; decides nothing.

What a tool returns may hold an instruction of somebody who has no business here. An argument that quotes it is
marked for the human who decides, seen from the human's own seat: what the proposer says of itself counts for
nothing. Spec: §7.1, threat 29.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Any

from mew_lab.agent.memory import shortened
from mew_lab.agent.origins import quoted
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.results import ToolResult

__all__ = ["Sources"]

MAX_KEPT = 50  # answers, and chat messages
MAX_TEXT = 20_000  # characters of each
MAX_CALLS = 1000


class Sources:
    """What tools and people have said lately."""

    def __init__(self) -> None:
        self._asked: OrderedDict[str, tuple[str, tuple[str, ...]]] = OrderedDict()
        self._outputs: deque[tuple[str, str]] = deque(maxlen=MAX_KEPT)
        self._said: deque[str] = deque(maxlen=MAX_KEPT)

    def observe(self, envelope: Envelope, *, me: str) -> None:
        """Takes note of one message of the space; `me` is the human who decides."""
        payload = envelope.payload
        if envelope.kind == "mcp/request":
            params = payload.get("params")
            if payload.get("method") == "tools/call" and isinstance(params, dict):
                tool = f"{', '.join(envelope.to)}/{params.get('name')}"
                self._asked[envelope.id] = (tool, tuple(envelope.to))
                if len(self._asked) > MAX_CALLS:
                    self._asked.popitem(last=False)
        elif envelope.kind == "mcp/response":
            for id in envelope.correlation_id:
                tool, to = self._asked.get(id, ("", ()))
                if envelope.sender in to and isinstance(payload.get("result"), dict):
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
