"""The rights of one participant as they change: it grants, revokes, and acknowledges grants to itself.

The client holds its present capabilities, from the welcome; `ledger.grants` holds the grants. This module acts on their
changes. A gateway relays a grant before or after the welcome that it causes, so a grant is acknowledged after both.

A participant knows its runtime id but not its name in the configuration, which a grant may use. A grant to a name that
no present participant has counts as its own in two cases: it is addressed to this participant alone, or the very next
welcome brings its capabilities and nothing else explains that.

Spec: §3.6.1 to §3.6.4, ruling R13.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from mew_lab.errors import LocalProtocolError
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.grants import Grant, GrantChange, GrantLedger, Revocation
from mew_lab.protocol.difference import are_equal
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.payloads.payload import CapabilityPattern
from mew_lab.protocol.permit import CLOSED, NARROW
from mew_lab.protocol.text import write_rfc3339
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.sender import MessageSender, given
from mew_lab.sdk.signal import Signal

__all__ = ["CapabilitiesChange", "OwnCapabilities"]

logger = logging.getLogger(__name__)
MAX_AWAITED = 100  # grants that await their welcome

Patterns = tuple[CapabilityPattern, ...]


class CapabilitiesChange(NamedTuple):
    """The capabilities of this participant before and after a change, as in its welcomes."""

    before: Patterns
    after: Patterns


class OwnCapabilities:
    """The rights of one participant as they change.

    Args:
        grants: The grants and revokes of the space; their owner passes each change to `follow`.
    """

    def __init__(self, sender: MessageSender, grants: GrantLedger) -> None:
        self.grants = grants
        self._sender = sender
        self._held: Patterns | None = None
        self._awaited: dict[str, Grant] = {}
        self._possible: dict[str, Grant] = {}
        self._names: set[str] = set()
        self._changes: Signal[CapabilitiesChange] = Signal(on_fault=sender.client.report)
        self._grants_changed: Signal[Grant | Revocation] = Signal(on_fault=sender.client.report)
        sender.client.on_welcome(self._on_welcome)

    # --- handlers; each method returns a function that removes the handler ---

    def on_capabilities_changed(self, handler: Callable[[CapabilitiesChange], object]) -> Callable[[], None]:
        """Calls `handler` when a later welcome, also of a reconnection, brings other capabilities."""
        return self._changes.add(handler)

    def on_grants_changed(self, handler: Callable[[Grant | Revocation], object]) -> Callable[[], None]:
        """Calls `handler` with each grant or revocation that is new or changed."""
        return self._grants_changed.add(handler)

    # --- grants and revokes ---

    async def grant(
        self,
        recipient: str,
        capabilities: Iterable[Mapping[str, Any]],
        *,
        reason: str | None = None,
        expires_at: datetime | None = None,
        max_uses: int | None = None,
    ) -> Grant:
        """Grants capabilities to `recipient`; returns the grant once the gateway has accepted it.

        Its `id` is the `grant_id` for `revoke`. `grants.get(id).acknowledged` later holds acknowledgements.

        Args:
            expires_at: The time at which the gateway ends it, with a time zone; None: never.
            max_uses: The number of messages after which the gateway ends it; None: never. Both are an extension: a
                gateway of mew_lab applies them, others ignore them.

        Raises:
            Refused: the gateway refused it: this participant lacks the capability, the recipient is unknown …
            CapabilityViolation: this participant may not grant.
            NoReply, ConnectionLost, LocalProtocolError: as `MessageSender.say_accepted`.

        Spec: §3.6.1.
        """
        sent = await self._sender.send_accepted(
            self.complete_grant(
                recipient, capabilities, reason=reason, expires_at=expires_at, max_uses=max_uses
            )
        )
        return self.grants.get(sent.id) or Grant.of(Entry.of(sent, 0))

    def complete_grant(
        self,
        recipient: str,
        capabilities: Iterable[Mapping[str, Any]],
        *,
        reason: str | None = None,
        expires_at: datetime | None = None,
        max_uses: int | None = None,
    ) -> Envelope:
        """The envelope that `grant` would send, so that its id is known before.

        Raises:
            CapabilityViolation: this participant may not grant.
            LocalProtocolError: it is no envelope, `expires_at` has no time zone, or a capability is closed and the
                gateway would give it as an open one.
        """
        capabilities = tuple(capabilities)
        self.check_extensions(capabilities)
        if expires_at is not None and expires_at.tzinfo is None:
            raise LocalProtocolError(
                f"Cannot grant to {recipient!r} until {expires_at}: the time needs its zone", section="§3.6.1"
            )
        payload = given(
            recipient=recipient,
            capabilities=[dict(pattern) for pattern in capabilities],
            reason=reason,
            expires_at=None if expires_at is None else write_rfc3339(expires_at),
            max_uses=max_uses,
        )
        return self._sender.complete("capability/grant", payload, to=recipient)

    def check_extensions(self, capabilities: Iterable[Mapping[str, Any]]) -> None:
        """Checks that the gateway knows closed capabilities, where one of these is closed.

        Raises:
            LocalProtocolError: it does not, so it would give more than they say.

        Spec: ruling R34.
        """
        client = self._sender.client
        if client.pattern_edition < NARROW and any(pattern.get(CLOSED) is True for pattern in capabilities):
            raise LocalProtocolError(
                f"Cannot give a closed capability as {client.id!r}: the gateway of this space ignores {CLOSED}, so any "
                "other arguments would be allowed too; leave it out if you want to allow them",
                section="§3.6.1",
            )

    async def revoke(
        self,
        recipient: str,
        *,
        grant_id: str | None = None,
        capabilities: Iterable[Mapping[str, Any]] | None = None,
        reason: str | None = None,
    ) -> Revocation:
        """Revokes one grant of `recipient`, or all capabilities that patterns match.

        Returns once the gateway has accepted it. The gateway later reports overlapping capabilities that it kept:
        they then stand in `grants.revocation(id).remaining` and in the log.

        Raises:
            LocalProtocolError: neither a grant nor patterns are given.
            Refused, CapabilityViolation, NoReply, ConnectionLost: as `grant`.

        Spec: §3.6.2, ruling R13.
        """
        if grant_id is None and capabilities is None:
            raise LocalProtocolError(
                f"Cannot revoke from {recipient!r} without an object: name a grant_id, or patterns (capabilities=)",
                section="§3.6.2",
            )
        patterns = None if capabilities is None else [dict(pattern) for pattern in capabilities]
        payload = given(recipient=recipient, grant_id=grant_id, capabilities=patterns, reason=reason)
        sent = await self._sender.say_accepted("capability/revoke", payload, to=recipient)
        return self.grants.revocation(sent.id) or Revocation.of(Entry.of(sent, 0))

    # --- events ---

    def follow(self, change: GrantChange) -> None:
        """Applies a change of the ledger of grants."""
        item = change.item
        if isinstance(item, Revocation):
            self._awaited.pop(item.grant_id, None)
            self._possible.pop(item.grant_id, None)
            if change.what == "remaining":
                logger.warning(
                    "%s keeps %d permissions that overlap what was revoked",
                    one_line(item.recipient, 80),
                    len(item.remaining),
                )
        self._grants_changed(item)
        if change.what == "granted" and isinstance(item, Grant):
            self._note_grant(item)

    def lost(self) -> None:
        """Forgets grants that await their welcome, because the connection ended."""
        self._possible.clear()

    def _note_grant(self, grant: Grant) -> None:
        me = self._sender.client.id
        if grant.recipient in (me, *self._names) or (self._is_nobody(grant.recipient) and grant.to == (me,)):
            if _holds(self._sender.client.capabilities.patterns, grant):
                self._acknowledge(grant)
            elif len(self._awaited) < MAX_AWAITED:
                self._awaited[grant.id] = grant
        elif self._is_nobody(grant.recipient) and not grant.to and len(self._possible) < MAX_AWAITED:
            self._possible[grant.id] = grant

    def _is_nobody(self, name: str) -> bool:
        return name not in self._sender.client.participants and name != self._sender.client.id

    def _on_welcome(self, _: object) -> None:
        before, after = self._held, self._sender.client.capabilities.patterns
        self._held = after
        due = [grant for grant in self._awaited.values() if _holds(after, grant)]
        if not due and before is not None:
            gained = Counter(map(_write, after)) - Counter(map(_write, before))
            due = [
                grant
                for grant in self._possible.values()
                if all(gained[_write(p)] for p in grant.capabilities)
            ]
            due = due[-1:]
            self._names |= {grant.recipient for grant in due}
        self._possible.clear()
        for grant in due:
            self._awaited.pop(grant.id, None)
            self._acknowledge(grant)
        if before is not None and not are_equal([*before], [*after]):
            self._changes(CapabilitiesChange(before, after))

    def _acknowledge(self, grant: Grant) -> None:
        payload = {"status": "accepted", **grant.ends}
        self._sender.quietly("capability/grant-ack", payload, to=grant.granter, about=grant.id)


def _holds(patterns: Patterns, grant: Grant) -> bool:
    held = {*map(_write, patterns)}
    return all(_write(pattern) in held for pattern in grant.capabilities)


def _write(pattern: Mapping[str, Any]) -> str:
    return json.dumps(pattern, sort_keys=True)
