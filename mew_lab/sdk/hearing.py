"""What does a participant do with what it hears?  Checks each message, then hands it on: books first, parts after.

It decides nothing: the books say what is believed, the parts what follows. A malformed message is dropped and
counted against its sender.

Spec: §4.3, §8.2, rulings R1, R17.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from mew_lab.errors import MewError
from mew_lab.ledger.calls import Change, Proposal
from mew_lab.ledger.chats import ChatChange
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.ledger import Ledger
from mew_lab.ledger.reasoning import ReasoningChange
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.intake import malformed
from mew_lab.protocol.kinds import GATEWAY
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.accepting import Accepting
from mew_lab.sdk.answering import Answering
from mew_lab.sdk.asking import Asking
from mew_lab.sdk.calls import Calls
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.handlers import Handlers
from mew_lab.sdk.words import refusal

__all__ = ["Hearing", "Part"]

logger = logging.getLogger(__name__)
MAX_NAMES = 10_000  # senders whose faults are counted one by one


class Part(Protocol):
    """One chapter of what a participant does. Runs on the reading task: it returns at once."""

    def observe(self, envelope: Envelope) -> None:
        """Takes note of one well-formed message of the space, own echoes and the gateway's included."""

    def lost(self) -> None:
        """The connection ended; another may follow."""


class Hearing:
    """The ears of one participant."""

    def __init__(
        self,
        client: MEWClient,
        *,
        calls: Calls,
        ledger: Ledger,
        asking: Asking,
        accepting: Accepting,
        answering: Answering,
    ) -> None:
        self.misbehaviour: Counter[str] = Counter()
        self.parts: Sequence[Part] = ()
        self.ready: Handlers[dict[str, Any]] = Handlers(on_fault=client.report)
        self.joins: Handlers[dict[str, Any]] = Handlers(on_fault=client.report)
        self.changes: Handlers[Change] = Handlers(on_fault=client.report)
        self.chat_changes: Handlers[ChatChange] = Handlers(on_fault=client.report)
        self.reasoning_changes: Handlers[ReasoningChange] = Handlers(on_fault=client.report)
        self._client = client
        self._calls = calls
        self._ledger = ledger
        self._count = 0  # envelopes of the space so far
        self._asking = asking
        self._accepting = accepting
        self._answering = answering
        self.requests: Handlers[Envelope] = Handlers(on_fault=client.report)
        self.proposed: Handlers[Envelope] = Handlers(on_fault=client.report)
        self._admitted = False
        client.on_connected(self._connected)
        client.on_welcome(self._welcomed)
        client.on_message(self._observe)
        client.on_disconnected(self._lost)

    def _connected(self, _: None) -> None:
        self._admitted = False

    def _welcomed(self, welcome: dict[str, Any]) -> None:
        if not self._admitted:  # later ones only tell of other rights
            self._admitted = True
            self.ready(welcome)

    def _observe(self, envelope: Envelope) -> None:
        self._count += 1
        if envelope.sender == GATEWAY:
            self._from_gateway(envelope)
        else:
            mine = envelope.sender == self._client.id
            if mine:
                self._accepting.echoed(envelope)
                self._asking.echoed(envelope)
            fault = malformed(envelope)
            if fault:
                if not mine:
                    self._misbehaved(envelope, fault)
                return
            for id in self._calls.observe(envelope):
                logger.warning(
                    "%s claims to answer %s, which it was not asked", one_line(envelope.sender, 80), id
                )
        changes = self._ledger.observe(Entry.of(envelope, self._count), checked=True)
        for change in changes:
            if isinstance(change, Change) and isinstance(change.call, Proposal):
                self._asking.changed(change)
                self.changes(change)
        for part in self.parts:
            part.observe(envelope)
        for change in changes:
            if isinstance(change, ChatChange):
                self.chat_changes(change)
            elif isinstance(change, ReasoningChange):
                self.reasoning_changes(change)
        if envelope.sender == self._client.id:
            return
        if envelope.kind == "mcp/request" and self._client.id in envelope.to:
            self.requests(envelope)
            self._answering.take(envelope)
        elif envelope.kind == "mcp/proposal":
            self.proposed(envelope)

    def _misbehaved(self, envelope: Envelope, fault: str) -> None:
        sender = envelope.sender if len(self.misbehaviour) < MAX_NAMES else "others"
        self.misbehaviour[sender] += 1
        first = self.misbehaviour[sender] == 1  # a flood of them shall not flood the log
        level = logging.WARNING if first else logging.DEBUG
        logger.log(level, "%s of %s was dropped: %s", envelope.kind, one_line(envelope.sender, 80), fault)

    def _from_gateway(self, envelope: Envelope) -> None:
        if envelope.kind == "system/error":
            self._refused(envelope)
        elif envelope.kind == "system/presence":
            participant = envelope.payload.get("participant")
            event = envelope.payload.get("event")
            if event == "leave":
                self._asking.left()
            elif (
                event == "join" and isinstance(participant, dict) and participant.get("id") != self._client.id
            ):
                self.joins(participant)

    def _refused(self, error: Envelope) -> None:
        name, capabilities = self._client.id, self._client.capabilities
        awaited = False
        for id in error.correlation_id:
            sent = self._accepting.sent(id) or self._asking.sent(id)
            if sent is not None:
                fault = refusal(error, sent=sent, name=name, capabilities=capabilities)
                awaited = self._accepting.refused(id, fault) or self._asking.refused(id, fault) or awaited
        if not awaited:
            self._client.report(refusal(error, sent=None, name=name, capabilities=capabilities))

    def _lost(self, error: MewError | None) -> None:
        self._ledger.interrupted()
        self._asking.lost(error)
        self._accepting.lost(error)
        for part in self.parts:
            part.lost()
