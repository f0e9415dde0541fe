"""One envelope as somebody saw it: what a gateway recorded, or what a client received.

Its members are parsed once, by whoever makes the entry, and are nothing but JSON: a member that is absent, or of another
type than the specification gives it, reads as the empty value. What is derived is made when it is asked for, once.

Spec: §3.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from mew_lab.errors import ProtocolError
from mew_lab.protocol.describe import describe
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.intake import malformed

__all__ = ["Entry"]

_NOTHING: Mapping[str, Any] = {}


class Entry:
    """One envelope.

    Attributes:
        seq: Its place among all envelopes that were seen, from 1; in a lab, its row in the feed.
        t: When the gateway had it, in seconds of the epoch; 0 where that is not known.
        raw: Its exact text.
        verdict: What the gateway decided: `accepted`, `refused`, `sent`; `accepted` for what a client received.
        code: Why it was refused.
        pattern: The capability by which it passed, as JSON; `grant` is the id of the grant that gave it.
        sender: Who sent it, as the gateway knows; what a refused envelope says of that may be why it was refused.
        members: The members of its JSON object; empty where it holds none.
        to: Whom it is addressed to; empty for everybody.
        correlation_id: The ids that it refers to; an id that stands alone counts as one (R4).
        payload: Its payload; empty where there is none, or no object.
    """

    t: float = 0.0
    verdict: str = "accepted"
    code: str = ""
    pattern: str = ""
    grant: str = ""

    def __init__(
        self,
        seq: int,
        t: float,
        raw: str,
        verdict: str,
        code: str,
        pattern: str,
        sender: str,
        members: Mapping[str, Any],
        grant: str = "",
    ) -> None:
        self.seq = seq
        self.t = t
        self.raw = raw
        self.verdict = verdict
        self.code = code
        self.pattern = pattern
        self.sender = sender
        self.members = members
        self.grant = grant
        # Every reader asks for these, of every envelope; without a call for each, which would cost as much again.
        kind, id, context = members.get("kind"), members.get("id"), members.get("context")
        to, about, payload = members.get("to"), members.get("correlation_id"), members.get("payload")
        self.kind: str = kind if isinstance(kind, str) else ""
        self.id: str = id if isinstance(id, str) else ""
        self.context: str = context if isinstance(context, str) else ""
        self.to: tuple[str, ...] = _texts(to) if to else ()
        self.correlation_id: tuple[str, ...] = _texts(about) if about else ()
        self.payload: Mapping[str, Any] = payload if isinstance(payload, dict) else _NOTHING

    @classmethod
    def of(cls, envelope: Envelope, seq: int, *, malformed: bool | None = None) -> Entry:
        """The entry of an envelope that a client received.

        Args:
            malformed: Whether it is, where somebody has looked at it already.
        """
        # Every message of a space passes here, so what the envelope read is not read again.
        self = cls.__new__(cls)
        self.seq = seq
        self.raw = envelope.raw
        self.sender = envelope.sender
        self.members = envelope.members
        self.kind = envelope.kind
        self.id = envelope.id
        self.context = envelope.context or ""
        self.to = envelope.to
        self.correlation_id = envelope.correlation_id
        payload = envelope.members.get("payload")
        self.payload = payload if isinstance(payload, dict) else _NOTHING
        self.envelope = envelope
        if malformed is not None:
            self.malformed = malformed
        return self

    @property
    def refused(self) -> bool:
        """Whether the gateway let nobody have it."""
        return self.verdict == "refused"

    @property
    def what(self) -> str:
        """One line about its payload."""
        return describe(self.kind, self.payload) if self.kind else "unreadable message"

    @cached_property
    def envelope(self) -> Envelope:
        """The same as an `Envelope`.

        Raises:
            ProtocolError: when its members are not those of an envelope, as those of a refused one may be.
        """
        return Envelope.from_members({**self.members, "from": self.sender}, raw=self.raw)

    @cached_property
    def malformed(self) -> bool:
        """Whether no participant acts on it (`protocol.intake`). Spec: §4.3, §8.2."""
        try:
            return bool(malformed(self.envelope))
        except ProtocolError:
            return True


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple([text for text in value if isinstance(text, str)]) if isinstance(value, list) else ()
