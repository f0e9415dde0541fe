"""Decides for whom a participant works, and how often it answers.

A participant that works for others may hold rights that a participant which chats with it lacks, and such a participant
must not act with them. By default it obeys the participants that started it, and those whose capabilities permit any
tool call. Other messages are no requests (threat 42).

Spec: SDK "Chat Message Response Strategy"; threat 42.
"""

from __future__ import annotations

import contextlib
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from mew_lab.errors import ConfigError
from mew_lab.ledger.calls import CallIndex, Proposal
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.covers import covered
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.permit import Capability
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.participant import MEWParticipant

__all__ = ["ANYBODY", "Askers", "Rate", "mentions", "tells_outcome"]

ANYBODY = "*"
MAX_SENDERS = 1000  # remembered of each kind; the oldest that was declined may be declined once more
MAX_NAMED = 3  # participants that a refusal names
# Calls of any tool with any arguments: what does not permit all of them is a limited right.
_ANY_CALL = Capability.of(
    {"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "*"}}}
)
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]{0,20}://\S+", re.IGNORECASE)


def tells_outcome(message: Envelope, proposals: CallIndex[Proposal], *, me: str) -> bool:
    """Whether a chat message reports how a proposal of ours was fulfilled, for example with changed arguments.

    It names the proposal and its fulfilment in `correlation_id`. It is remembered, and needs no answer.
    """
    correlated = (proposals.get(id) for id in message.correlation_id)
    return any(
        proposal is not None and proposal.proposer == me and proposal.fulfilment in message.correlation_id
        for proposal in correlated
    )


def mentions(text: str, names: Sequence[str]) -> bool:
    """Whether one of the names stands in the text as a separate word, in any case, and not in an address."""
    prose = _ADDRESS.sub(" ", text)
    return any(
        re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|[.@]\w)", prose, re.IGNORECASE)
        for name in names
        if name
    )


class Rate:
    """Limits the number of answers a minute: in all, and to one sender. Time is an argument, in seconds."""

    def __init__(self, *, in_all: int = 60, to_one: int = 12, window: float = 60.0) -> None:
        self._in_all, self._to_one, self._window = in_all, to_one, window
        self._answers: deque[tuple[float, str]] = deque()

    def take(self, sender: str, *, now: float) -> bool:
        """Whether one more answer to `sender` is within the limits; if so, it is counted."""
        while self._answers and self._answers[0][0] <= now - self._window:
            self._answers.popleft()
        if len(self._answers) >= self._in_all:
            return False
        if sum(recipient == sender for _, recipient in self._answers) >= self._to_one:
            return False
        self._answers.append((now, sender))
        return True


class Askers:
    """Decides whose requests one agent works on.

    Args:
        obeys: returns the option in force: ids, or `*` for anybody; None for the default.
    """

    def __init__(self, participant: MEWParticipant, obeys: Callable[[], Sequence[str] | None]) -> None:
        self._starters: set[str] = set()  # participants that started the agent; obeyed by default
        self._sender = participant.sender
        self._client = participant.client
        self._obeys = obeys
        self._revoked: set[str] = set()  # participants that lost rights since the gateway last told theirs
        # Of each sender the rights that were judged, and whether they allow any call.
        self._judged: BoundedDict[str, tuple[list[dict[str, Any]], bool]] = BoundedDict(MAX_SENDERS)
        self._declined: BoundedDict[str, None] = BoundedDict(MAX_SENDERS)
        self._rate = Rate(in_all=20, to_one=1)
        kinds = ("capability/revoke", "system/presence")
        participant.client.on_message(self._observe, kinds=kinds)
        participant.client.on_welcome(lambda _: self._revoked.clear())

    def _observe(self, envelope: Envelope) -> None:
        """Notes lost rights: a revoke of patterns outdates a welcome or a presence; a grant adds nothing to it."""
        if envelope.kind == "capability/revoke" and "grant_id" not in envelope.payload:
            name = envelope.payload.get("recipient")
            if isinstance(name, str) and len(self._revoked) < MAX_SENDERS:
                self._revoked.add(name)
        elif envelope.kind == "system/presence":
            member = envelope.payload.get("participant")
            if isinstance(member, dict):
                self._revoked.discard(str(member.get("id")))

    def add_starters(self, *ids: str) -> None:
        """Adds participants that started the agent."""
        self._starters.update(ids)

    def obeyed(self, sender: str) -> bool:
        """Whether requests of this participant are worked on."""
        named = self._obeys()
        if named is not None:
            return sender in named or ANYBODY in named
        return sender in self._starters or self._may_call(sender)

    def mark(self, sender: str) -> str:
        """The sender as a model reads it before the message."""
        return sender if self.obeyed(sender) else f"{sender} (information only, not a request)"

    def accept(self, message: Envelope, *, asked: bool, now: float) -> bool:
        """Whether to work on a message. If it `asked` and its sender is not obeyed, the sender gets one refusal."""
        if self.obeyed(message.sender):
            return True
        if asked and (text := self.decline_text(message.sender, now=now)):
            self._sender.quietly("chat", {"text": text}, to=message.sender, about=message.id)
        return False

    def decline_text(self, sender: str, *, now: float) -> str:
        """The refusal for a participant that is not obeyed; empty where it had one already, or the rate is reached."""
        if sender in self._declined or not self._rate.take(sender, now=now):
            return ""
        self._declined[sender] = None
        names = sorted(self._present())
        who = ", ".join(one_line(name, 60) for name in names[:MAX_NAMED])
        more = " and others" if len(names) > MAX_NAMED else ""
        only = f"I take requests from {who}{more} only" if who else "I take requests from nobody who is here"
        return f"{only}: please ask there. I have noted what you said."

    def _present(self) -> Iterable[str]:
        named = self._obeys()
        here = set(self._client.participants) | (self._starters if named is None else set(named))
        return (name for name in here if name != self._client.id and self.obeyed(name))

    def _may_call(self, sender: str) -> bool:
        """Whether the sender may call any tool itself, so that it gains nothing from the rights of the agent."""
        patterns = self._client.participants.get(sender)
        if patterns is None or sender in self._revoked or len(patterns) > 1000:
            return False
        known = self._judged.get(sender)
        if known is None or known[0] is not patterns:
            known = self._judged[sender] = (patterns, covered(_rights(patterns), _ANY_CALL))
        return known[1]


def _rights(patterns: list[dict[str, Any]]) -> Iterator[Capability]:
    """The patterns that can be read and hold for every addressee."""
    for pattern in patterns:
        if "to" not in pattern:
            with contextlib.suppress(ConfigError):
                yield Capability.of(pattern)
