"""The outcome of a rule that accepts a message, and the reading of payloads for rules.

A rule decides before any effect: it raises a `Refusal` or returns an `Outcome`. The outcome's `then` runs after the
message itself was sent, so that receivers get a cause before its consequences.

Spec: §3.6, §3.9, §3.10.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mew_lab.errors import ConfigError
from mew_lab.protocol.cost import compile_cost
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.node import Meter, OverBudget
from mew_lab.protocol.permit import Capability
from mew_lab.space.events import HttpReply
from mew_lab.space.refusal import Refusal
from mew_lab.space.state import Member, Sender, State
from mew_lab.space.turn import Turn

__all__ = ["Outcome", "Rule", "capabilities_in", "named", "text_in", "too_costly"]


EACH = 200
"""The steps for a capability that is granted or revoked: compiling, comparing and listing it."""


class Outcome(NamedTuple):
    """`then` adds the effects of the message, and may return the HTTP reply; `relayed` is sent in its place."""

    then: Callable[[], HttpReply | None]
    relayed: Envelope | None = None


Rule = Callable[[Turn, Sender, Envelope], Outcome | None]


def text_in(envelope: Envelope, key: str) -> str:
    """A member of the payload that must be a non-empty string.

    Raises:
        Refusal: when it is not.
    """
    value = envelope.payload.get(key)
    if not isinstance(value, str) or not value:
        raise Refusal("invalid_request", f"{envelope.kind} requires {key}, a string, in its payload")
    return value


def named(state: State, name: str) -> Member:
    """The participant that a payload or `to` names, whether it is connected or not.

    Raises:
        Refusal: when no participant has that name.

    Spec: §3.6.4.
    """
    member = state.participant(name)
    if member is None or member.kicked:
        raise Refusal(
            "participant_not_found",
            f"nobody in this space is called {name[:80]!r}; use the name or the id of a participant",
            participant_id=name[:80],
        )
    return member


def too_costly(sender: Sender, envelope: Envelope, what: str) -> Refusal:
    """The refusal of a message whose judging costs more than a turn may."""
    return Refusal(
        "limit_exceeded",
        f"{envelope.kind[:80]} of {sender.runtime_id} costs more to judge than one message may ({what}); send it in "
        "several messages with fewer or simpler patterns each",
    )


def capabilities_in(
    envelope: Envelope, key: str, *, edition: int, empty: bool = False, meter: Meter | None = None
) -> list[Capability]:
    """The capability patterns of a payload, read by the rules of `edition`; the cost is charged to `meter` beforehand.

    Raises:
        Refusal: with the key path of the fault, or `limit_exceeded`.

    Spec: §4.1 (Capability Pattern Structure).
    """
    value: Any = envelope.payload.get(key)
    if not isinstance(value, list) or not (value or empty):
        raise Refusal(
            "invalid_request", f"{envelope.kind} requires {key}, a list of capabilities, in its payload"
        )
    if meter is not None:
        try:
            for pattern in value:
                meter.spend(EACH + compile_cost(pattern))
        except OverBudget:
            raise Refusal(
                "limit_exceeded",
                f"{envelope.kind}: the patterns of {key} cost more to read than one message may; send them in several "
                "messages, or with fewer expressions and shorter repetitions",
            ) from None
    try:
        return [
            Capability.of(pattern, key=f"payload.{key}[{at}]", edition=edition)
            for at, pattern in enumerate(value)
        ]
    except ConfigError as fault:
        raise Refusal("invalid_capability", f"{envelope.kind}: {fault}", key=fault.key or "") from None
