"""Payloads of reasoning. The envelope's `context` names the sequence to which a message belongs.

Spec: §3.5.
"""

from __future__ import annotations

from mew_lab.protocol.payloads.payload import Payload

__all__ = ["ReasoningCancel", "ReasoningConclusion", "ReasoningStart", "ReasoningThought"]


class ReasoningStart(Payload, kind="reasoning/start"):
    """Begins a sequence; the envelope's id is its context.

    Spec: §3.5.2.
    """

    message: str


class ReasoningThought(Payload, kind="reasoning/thought"):
    """A step of the reasoning, which needs no answer.

    Spec: §3.5.3.
    """

    message: str


class ReasoningConclusion(Payload, kind="reasoning/conclusion"):
    """Ends the sequence with a result.

    Spec: §3.5.4.
    """

    message: str


class ReasoningCancel(Payload, kind="reasoning/cancel"):
    """Ends the sequence without a result; `reason` such as `timeout`, `superseded`, `error`.

    Spec: §3.5.5.
    """

    reason: str | None = None
