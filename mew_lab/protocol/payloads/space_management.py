"""Payloads of grants, revokes, invites and kicks. The space checks their senders and contents.

Spec: §3.6.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from mew_lab.protocol.payloads.payload import CapabilityPattern, Payload

__all__ = [
    "CapabilityGrant",
    "CapabilityGrantAck",
    "CapabilityRevoke",
    "SpaceInvite",
    "SpaceInviteAck",
    "SpaceKick",
]


class CapabilityGrant(Payload, kind="capability/grant"):
    """Grants capabilities to `recipient`. The envelope's id is the `grant_id`.

    Spec: §3.6.1.
    """

    recipient: str
    capabilities: list[CapabilityPattern]
    reason: str | None = None


class CapabilityRevoke(Payload, kind="capability/revoke"):
    """Revokes from `recipient` one grant by its `grant_id`, or every capability that patterns match.

    Spec: §3.6.2.
    """

    recipient: str
    grant_id: str | None = None
    capabilities: list[CapabilityPattern] | None = None
    reason: str | None = None

    @model_validator(mode="after")
    def _names_what_is_revoked(self) -> Self:
        if self.grant_id is None and self.capabilities is None:
            raise ValueError("a revoke needs a grant_id or a list of capabilities")
        return self


class CapabilityGrantAck(Payload, kind="capability/grant-ack"):
    """The recipient's acknowledgement of a grant; `status` such as `accepted`.

    Spec: §3.6.3.
    """

    status: str | None = None


class SpaceInvite(Payload, kind="space/invite"):
    """Invites a new participant. `email` is for the gateway alone.

    Spec: §3.6.5.
    """

    participant_id: str
    initial_capabilities: list[CapabilityPattern]
    email: str | None = None
    reason: str | None = None


class SpaceInviteAck(Payload, kind="space/invite-ack"):
    """The gateway's answer, to the inviter alone. `token` is a secret and is not in the `repr`.

    Spec: §3.6.6.
    """

    status: Literal["created", "already_exists", "error"]
    participant_id: str
    token: str | None = Field(default=None, repr=False)
    connection_url: str | None = None


class SpaceKick(Payload, kind="space/kick"):
    """Removes a participant from the space.

    Spec: §3.6.7.
    """

    participant_id: str
    reason: str | None = None
