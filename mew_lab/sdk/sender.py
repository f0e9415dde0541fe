"""Sends the messages of one participant: drafts, checks, completes and posts them.

`say` raises where a message may not be sent. `quietly` is for automatic messages, such as an acknowledgement or a
status, whose refusal no caller would read.

Spec: §4.1, §4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypedDict, Unpack

from mew_lab.errors import ConnectionLost, LocalProtocolError
from mew_lab.ledger.ledger import Ledger
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.violations import violation
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.correlations import ACCEPTED_WITHIN, Correlations
from mew_lab.sdk.signal import Sending, at_once

__all__ = ["ACCEPTED_WITHIN", "MessageFields", "MessageSender", "Names", "given", "names", "tool_call"]

logger = logging.getLogger(__name__)

Names = str | Sequence[str]


def names(value: Names) -> tuple[str, ...]:
    """The names as a tuple; `value` is one name or several."""
    return (value,) if isinstance(value, str) else tuple(value)


def given(**members: Any) -> dict[str, Any]:
    """The members of a payload that are not None."""
    return {name: value for name, value in members.items() if value is not None}


class MessageFields(TypedDict, total=False):
    """The members of a message besides kind and payload: its addressees, correlations and context."""

    to: Names
    about: Names
    context: str | None


def _draft_message(kind: str, payload: Mapping[str, Any], **fields: Unpack[MessageFields]) -> dict[str, Any]:
    """The draft of a message."""
    return given(
        kind=kind,
        to=names(fields.get("to", ())) or None,
        payload=dict(payload),
        correlation_id=names(fields.get("about", ())) or None,
        context=fields.get("context"),
    )


def tool_call(target: str, arguments: Mapping[str, Any] | None) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The addressee of a call of `participant/tool`, and its payload.

    Raises:
        LocalProtocolError: `target` is not of the form `participant/tool`.
    """
    participant, _, tool = target.partition("/")
    if not participant or not tool:
        raise LocalProtocolError(
            f"{one_line(target, 80)!r} is not a full tool name. Use participant/tool, e.g. 'git/git_log'"
        )
    return (participant,), {
        "method": "tools/call",
        "params": {"name": tool, "arguments": dict(arguments or {})},
    }


class MessageSender:
    """Sends the messages of one participant, as far as its capabilities permit.

    Args:
        ledger: Knows the senders of proposals and chat messages.
    """

    def __init__(self, client: MEWClient, correlations: Correlations, ledger: Ledger) -> None:
        self.client = client
        self.correlations = correlations
        self._ledger = ledger

    def permitted(self, kind: str, payload: Mapping[str, Any], **fields: Unpack[MessageFields]) -> bool:
        """Whether a capability permits it, or it needs none. Spec: §4.1, ruling R36."""
        return self.fit(_draft_message(kind, payload, **fields)) is not None

    def fit(self, draft: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The draft as it may be sent (`MEWClient.fit`); None where it may not, or would end a message of another."""
        fitting = self.client.fit(draft)
        if fitting is None or self.client.capabilities.permit(
            draft["kind"], draft.get("to") or (), draft["payload"]
        ):
            return fitting
        known = self._ledger.calls.proposals if draft["kind"] == "mcp/withdraw" else self._ledger.chats
        ended = map(known.get, names(draft.get("correlation_id") or ()))
        return fitting if all(one is None or one.sender == self.client.id for one in ended) else None

    def require(self, draft: Mapping[str, Any]) -> Mapping[str, Any]:
        """The draft as it may be sent.

        Raises:
            CapabilityViolation: this participant may not send it.
        """
        self.client.check_loop()
        fitting = self.fit(draft)
        if fitting is None:
            raise violation(
                draft["kind"],
                payload=draft["payload"],
                to=draft.get("to") or (),
                name=self.client.id,
                capabilities=self.client.capabilities,
            )
        return fitting

    def _draft(
        self, kind: str, payload: Mapping[str, Any], **fields: Unpack[MessageFields]
    ) -> Mapping[str, Any]:
        return self.require(_draft_message(kind, payload, **fields))

    @at_once
    def say(
        self, kind: str, payload: Mapping[str, Any], **fields: Unpack[MessageFields]
    ) -> Coroutine[Any, Any, Envelope]:
        """Sends a message; awaiting it, which need not be done, gives it as it was sent.

        Raises:
            CapabilityViolation: this participant may not send it.
            LocalProtocolError: it is no envelope, or this participant is paused.
            ConnectionLost: there is no connection.
        """
        return self.hand_over(kind, payload, **fields)

    def hand_over(
        self, kind: str, payload: Mapping[str, Any], **fields: Unpack[MessageFields]
    ) -> Sending[Envelope]:
        """Like `say`, for callers on the loop of the connection."""
        return self.client.hand_over(self._draft(kind, payload, **fields))

    async def say_accepted(
        self, kind: str, payload: Mapping[str, Any], **fields: Unpack[MessageFields]
    ) -> Envelope:
        """Like `say`, and waits until the gateway has accepted it; returns its echo.

        Raises:
            Refused: the gateway refused it.
            NoReply: the gateway neither accepted nor refused it.
            CapabilityViolation, LocalProtocolError, ConnectionLost: as `say`.
        """
        return await self.correlations.send_accepted(self._draft(kind, payload, **fields))

    def complete(self, kind: str, payload: Mapping[str, Any], **fields: Unpack[MessageFields]) -> Envelope:
        """The envelope that would be sent, so that its id is known before.

        Raises:
            CapabilityViolation: this participant may not send it.
            LocalProtocolError: it is no envelope.
        """
        return self.client.complete(self._draft(kind, payload, **fields))

    async def send_accepted(self, envelope: Envelope, *, timeout: float = ACCEPTED_WITHIN) -> Envelope:
        """Sends an envelope of `complete` and waits until the gateway has accepted it; raises as `say_accepted`."""
        return await self.correlations.send_accepted(envelope, timeout=timeout)

    def quietly(
        self, kind: str, payload: Mapping[str, Any], **fields: Unpack[MessageFields]
    ) -> Envelope | None:
        """Posts a message if that is permitted and possible; else returns None and writes to the log."""
        draft = self.fit(_draft_message(kind, payload, **fields))
        if draft is None:
            logger.debug("%s may not send %s, so it was not sent", self.client.id, kind)
            return None
        try:
            return self.client.post(draft)
        except (ConnectionLost, LocalProtocolError) as fault:
            logger.info("%s was not sent: %s", kind, fault)
            return None
