"""Payloads of reasoning in the open. The envelope's `context` names the sequence to which a message belongs.

Spec: §3.5.
"""

from __future__ import annotations

from mew_lab.protocol.payloads.payload import Payload

__all__ = ["ReasoningCancel", "ReasoningConclusion", "ReasoningStart", "ReasoningThought"]


class ReasoningStart(Payload):
    """A sequence begins; the envelope's id is its context.

    Spec: §3.5.2.
    """

    message: str


class ReasoningThought(Payload):
    """A step of the monologue; nobody need answer.

    Spec: §3.5.3.
    """

    message: str


class ReasoningConclusion(Payload):
    """The sequence ends with a result.

    Spec: §3.5.4.
    """

    message: str


class ReasoningCancel(Payload):
    """The sequence ends without one; `reason` such as `timeout`, `superseded`, `error`.

    Spec: §3.5.5.
    """

    reason: str | None = None
