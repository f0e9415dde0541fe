"""One envelope as a gateway recorded it or a client received it.

Its members are parsed once, before the entry is made, and are plain JSON. A member that is absent, or of another type
than the specification gives it, reads as the empty value. Derived values are computed at first use and kept.

Spec: §3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mew_lab.errors import ProtocolError
from mew_lab.protocol.coerce import texts_of
from mew_lab.protocol.describe import describe
from mew_lab.protocol.envelope import Envelope, check_shape
from mew_lab.protocol.intake import malformed

__all__ = ["Entry"]

_NOTHING: Mapping[str, Any] = {}


class Entry:
    """One envelope.

    Attributes:
        seq: Its number, which rises from envelope to envelope; in a log that of its record.
        sign: `#` where `seq` is the number of the record in a journal, `~` where it is a place in this reader alone.
        t: When the gateway received or sent it, in seconds since the epoch; 0 where that is not known.
        raw: Its exact text.
        verdict: The decision of the gateway: `accepted`, `refused` or `sent`. It is `accepted` for every envelope that
            a client received.
        code: The error code of a refusal.
        pattern: The capability by which it passed, as JSON; `grant` is the id of the grant that gave it.
        sender: The participant that the gateway authenticated. `from` of a refused envelope may claim another.
        members: The members of its JSON object; empty where its text is no object.
        to: The addressees; empty for everybody.
        correlation_id: The ids that it refers to; a single string counts as a list of one (R4).
        payload: Its payload; empty where there is none, or where it is no object.
        envelope: The entry as an `Envelope` from `sender`. Reading it raises a ProtocolError where its members are not
            those of an envelope, which may be why it was refused.
        malformed: Whether no participant acts on it (`protocol.intake`). Spec: §4.3, §8.2.
    """

    sign: str = "#"
    t: float = 0.0
    verdict: str = "accepted"
    code: str = ""
    pattern: str = ""
    grant: str = ""
    envelope: Envelope
    malformed: bool

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
        # Every reader needs these of every envelope. They are read inline: a helper would double the cost.
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
            malformed: Whether it is malformed, where that was checked already; None checks it at first use.
        """
        # Every message of a space passes here, so members that the envelope has parsed are copied.
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

    def __getattr__(self, name: str) -> Any:
        # Made at first use. A `functools.cached_property` would take a lock, which costs more than these values.
        if name == "envelope":
            self.envelope = self._read_envelope()
            return self.envelope
        if name == "malformed":
            self.malformed = self._is_malformed()
            return self.malformed
        raise AttributeError(name)

    @property
    def name(self) -> str:
        """Its number as a reader sees it and every verb takes it."""
        return f"{self.sign}{self.seq}"

    @property
    def refused(self) -> bool:
        """Whether the gateway refused it and relayed it to no participant."""
        return self.verdict == "refused"

    @property
    def what(self) -> str:
        """A summary of its payload in one line."""
        if self.kind:
            return describe(self.kind, self.payload)
        return "unreadable message" if self.raw else "message whose text was not kept"

    def _read_envelope(self) -> Envelope:
        stated = self.members.get("from") == self.sender
        members = self.members if stated else {**self.members, "from": self.sender}
        return Envelope.from_members(members, raw=self.raw)

    def _is_malformed(self) -> bool:
        # Every entry of a log passes here; most are never needed as an `Envelope`, so none is made.
        if "envelope" in self.__dict__:
            return bool(malformed(self.envelope))
        stated = type(self.members.get("from")) is str
        members = self.members if stated else {**self.members, "from": self.sender}
        try:
            check_shape(members, raw="")
        except ProtocolError:
            return True
        return bool(malformed(self))


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return texts_of(value)
