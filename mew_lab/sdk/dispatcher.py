"""Calls the handlers of each message: kind -> handlers, each with the envelope and its typed payload.

What happens to one envelope, on the client's reading task:

1. The echo of an own message goes to `on_echo`: the gateway accepted the message, whatever its content.
2. A message of a participant is checked by `protocol.intake`. The check builds the payload's model.
3. Every message goes to `on_entry` as an `Entry`, malformed ones too: the gateway acts on some of these, such as a
   revoke without a recipient, so the ledger must observe them.
4. A malformed message is dropped and counted against its sender (`misbehaviour`); no further handler gets it.
5. The handlers of its kind are called in the order in which they were added, those of `on_any` among them. A kind that
   the specification reserves for the gateway counts only from the gateway, and every other kind only from participants.
   A handler of `on_any` checks the sender itself.

A payload model is built once for an envelope, and only for a kind that is checked or that has a typed handler. A payload
of the gateway is read as far as it follows the specification (`Payload.read`), because other gateways leave out much.
Handlers get a model; members that the model does not declare are its attributes, too.

A handler must return at once: nothing is read from the connection meanwhile.

Spec: §4.3, §8.2, ruling R1.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from mew_lab.ledger.entry import Entry
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.intake import check_payload, read_payload
from mew_lab.protocol.kinds import GATEWAY, KINDS, RESERVED
from mew_lab.protocol.payloads import KIND_OF
from mew_lab.protocol.payloads.payload import Payload
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.signal import Signal, fit_handler, run_later

__all__ = ["Dispatcher"]

logger = logging.getLogger(__name__)
MAX_NAMES = 10_000  # senders whose faults are counted one by one
Model = TypeVar("Model", bound=Payload)


class Dispatcher:
    """The handlers of one participant.

    Attributes:
        misbehaviour: The number of malformed messages by sender; beyond 10,000 senders, under `others`.
        count: The number of well-formed messages of participants.
    """

    def __init__(self, client: MEWClient) -> None:
        self.misbehaviour: Counter[str] = Counter()
        self.count = 0
        self._client = client
        self._seen = 0  # envelopes of the space so far
        self._entry_handlers: list[Callable[[Entry], object]] = []
        self._echoes: Signal[Envelope] = Signal(on_fault=client.report)
        self._added: list[tuple[str, Callable[..., object]]] = []  # kind, empty for any; handler
        # Made of `_added` when a kind is first seen: the handlers of a kind, and whether each takes a payload.
        self._handlers: dict[str, Sequence[tuple[Callable[..., object], bool]]] = {}
        client.on_message(self.dispatch)

    def on(self, model: type[Model], handler: Callable[[Envelope, Model], object]) -> None:
        """Calls `handler(envelope, payload)` for each well-formed message of the kind that `model` describes."""
        self._add(KIND_OF[model], fit_handler(handler, 2))

    def on_any(self, handler: Callable[[Envelope], object]) -> None:
        """Calls `handler(envelope)` for each well-formed message, also of the gateway and of unknown kinds.

        The coroutine of a coroutine function runs as a task, as in all methods of this class.
        """
        self._add("", fit_handler(handler))

    def on_entry(self, handler: Callable[[Entry], object]) -> None:
        """Calls `handler(entry)` for each message before any other handler, malformed ones included.

        `seq` counts all messages.
        """
        self._entry_handlers.append(fit_handler(handler))

    def on_echo(self, handler: Callable[[Envelope], Any]) -> Callable[[], None]:
        """Calls `handler` with each echo of an own message, well-formed or not."""
        return self._echoes.add(handler)

    def dispatch(self, envelope: Envelope) -> None:
        """Passes one envelope of the space to the handlers."""
        kind, sender = envelope.kind, envelope.sender
        payload: Payload | None = None
        fault = ""
        mine = False
        if sender == GATEWAY:
            typed = kind in RESERVED
        else:
            mine = sender == self._client.id
            if mine:
                self._echoes(envelope)
            payload, fault = check_payload(envelope)
            typed = kind not in RESERVED
        self._seen += 1
        entry = Entry.of(envelope, self._seen, malformed=bool(fault))
        for note in self._entry_handlers:
            self._finish(note(entry))
        if fault:
            if not mine:
                self._count_fault(envelope, fault)
            return
        if sender != GATEWAY:
            self.count += 1
        handlers = self._handlers.get(kind)
        for handler, takes_payload in self._find_handlers(kind) if handlers is None else handlers:
            if not takes_payload:
                self._finish(handler(envelope))
            elif typed:
                if payload is None:
                    payload = read_payload(envelope)
                self._finish(handler(envelope, payload))

    def _finish(self, later: object) -> None:
        if later is not None:
            run_later(later, self._client.report)

    def _add(self, kind: str, handler: Callable[..., object]) -> None:
        self._added.append((kind, handler))
        self._handlers.clear()

    def _find_handlers(self, kind: str) -> Sequence[tuple[Callable[..., object], bool]]:
        handlers = [(handler, bool(of)) for of, handler in self._added if of in ("", kind)]
        if kind in KINDS:  # peers may invent any number of kinds
            self._handlers[kind] = handlers
        return handlers

    def _count_fault(self, envelope: Envelope, fault: str) -> None:
        sender = envelope.sender if len(self.misbehaviour) < MAX_NAMES else "others"
        self.misbehaviour[sender] += 1
        first = self.misbehaviour[sender] == 1  # a flood of messages must not flood the log
        level = logging.WARNING if first else logging.DEBUG
        logger.log(level, "%s of %s was dropped: %s", envelope.kind, one_line(envelope.sender, 80), fault)
