"""Invites a participant through the gateway, and holds its token without showing it.

The gateway answers the inviter alone. From the first moment its token is a `Token`, so that nothing of this process
can show it by accident; a caller that hands it on has to call `reveal()`.

Spec: §3.6.5, §3.6.6, ruling R15.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from mew_lab.errors import NoReply, Refused
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.kinds import GATEWAY
from mew_lab.protocol.token import Token
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.participant import MEWParticipant

__all__ = ["Invitation", "invite"]

ANSWERED_WITHIN = 10.0  # seconds


class Invitation(NamedTuple):
    """Who may join, with which token, and where (empty where the gateway does not say)."""

    id: str
    participant: str
    token: Token
    url: str


async def invite(
    inviter: MEWParticipant,
    name: str,
    capabilities: Iterable[Mapping[str, Any]] | None = None,
    *,
    reason: str | None = None,
    timeout: float = ANSWERED_WITHIN,
) -> Invitation:
    """Lets `name` join; returns once the gateway has made the token.

    Args:
        capabilities: None gives the restricted starter profile.
        timeout: seconds.

    Raises:
        Refused: the gateway says why: the name is known already, or the inviter may not give that.
        CapabilityViolation: the inviter may not invite.
        NoReply: no answer came in time.
        LocalProtocolError, ConnectionLost: as `MessageSender.say`.

    Spec: §3.6.5, §3.6.6.
    """
    payload: dict[str, Any] = {"participant_id": name}
    if capabilities is not None:
        payload["initial_capabilities"] = [dict(one) for one in capabilities]
    if reason:
        payload["reason"] = reason
    envelope = inviter.sender.complete("space/invite", payload)
    answer: asyncio.Future[Envelope] = asyncio.get_running_loop().create_future()

    def take(heard: Envelope) -> None:
        is_answer = heard.kind == "space/invite-ack" and heard.sender == GATEWAY
        if is_answer and envelope.id in heard.correlation_id and not answer.done():
            answer.set_result(heard)

    end = inviter.client.on_message(take)
    # A refusal of the name comes as an answer without an echo, any other as an error without an answer.
    sending = asyncio.ensure_future(inviter.sender.send_accepted(envelope, timeout=timeout))
    try:
        await asyncio.wait({sending, answer}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            if sending.done():
                await sending
            await asyncio.wait({answer}, timeout=timeout)
        if not answer.done():
            said = f"The gateway did not answer the invitation of {one_line(name, 64)!r} within {timeout:g} s"
            raise NoReply(said, after_s=timeout, waiting_for="the gateway")
        return _invitation(envelope.id, name, answer.result())
    finally:
        end()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


def _invitation(id: str, name: str, answer: Envelope) -> Invitation:
    payload = answer.payload
    token, url, status = payload.get("token"), payload.get("connection_url"), payload.get("status")
    if status != "created" or not isinstance(token, str) or not token:
        why = one_line(str(payload.get("message") or "it says no more"), 300)
        said = f"The gateway did not invite {one_line(name, 64)!r}: {why} ({one_line(str(status), 40)})"
        raise Refused(said, code=str(status), envelope=None)
    return Invitation(id, name, Token(token), one_line(url, 300) if isinstance(url, str) else "")
