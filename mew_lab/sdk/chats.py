"""The chat messages that await an acknowledgement, in both directions.

`ledger.chats` holds the state of each message. This is the queue of one participant: it is bounded, it has the time
since which each message waits, and it counts an acknowledgement of this participant before its echo arrives.

Spec: §3.4, §3.4.1, §3.4.2, SDK "Chat Acknowledgement Helpers".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from mew_lab.ledger.chats import ChatChange, ChatLedger, ChatMessage
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.payloads.chat import Chat
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.dispatcher import Dispatcher
from mew_lab.sdk.sender import MessageSender
from mew_lab.sdk.signal import Signal

__all__ = ["AwaitingChat", "Chats", "OwnChat", "QueueChange"]

logger = logging.getLogger(__name__)
MAX_CHATS = 1000  # in each direction; the oldest is dropped
MAX_CANCELLED = 10_000  # messages whose cancel is remembered


class AwaitingChat(NamedTuple):
    """A message of `sender` that this participant has not acknowledged and that was not cancelled.

    `text` is cut after 4000 characters; `since` is the time of its arrival; `addressed` is whether its `to` names
    this participant.
    """

    id: str
    sender: str
    text: str
    since: datetime
    addressed: bool


class OwnChat(NamedTuple):
    """A message of this participant, with the status of each participant that acknowledged it (name -> status).

    `text` is cut after 4000 characters; `to` are the addressees besides this participant, empty for a broadcast.
    """

    id: str
    text: str
    to: tuple[str, ...]
    since: datetime
    acknowledged: Mapping[str, str]

    @property
    def missing(self) -> bool:
        """Whether an addressee has not acknowledged it; for a broadcast, whether no participant has."""
        return not self.acknowledged or any(name not in self.acknowledged for name in self.to)


class QueueChange(NamedTuple):
    """The change of one message in the queue by one participant.

    `claimed` is a cancel by another participant than the author, which changes nothing here. `dropped` means that the
    message was removed without an acknowledgement.
    """

    what: Literal["arrived", "said", "acknowledged", "cancelled", "claimed", "dropped"]
    id: str
    by: str


class Chats:
    """The chat of one participant. At most 1000 messages wait in each direction.

    Args:
        ledger: The state of each message; its owner passes each change to `follow`.
    """

    def __init__(
        self,
        sender: MessageSender,
        ledger: ChatLedger,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._sender = sender
        self._ledger = ledger
        self._clock = clock
        self._messages: Signal[Envelope] = Signal(on_fault=sender.client.report)
        self._changes: Signal[QueueChange] = Signal(on_fault=sender.client.report)
        self._pending: dict[str, AwaitingChat] = {}
        self._own: dict[str, OwnChat] = {}
        self._cancelled: BoundedDict[str, None] = BoundedDict(MAX_CANCELLED)

    # --- handlers; each method returns a function that removes the handler ---

    def on_chat(self, handler: Callable[[Envelope], object]) -> Callable[[], None]:
        """Calls `handler` with each chat message of another participant."""
        return self._messages.add(handler)

    def on_change(self, handler: Callable[[QueueChange], object]) -> Callable[[], None]:
        """Calls `handler` with each change of the queue."""
        return self._changes.add(handler)

    # --- the queue ---

    @property
    def pending(self) -> list[AwaitingChat]:
        """Messages of others that await this participant's acknowledgement, the oldest first. Spec: §3.4.1."""
        return list(self._pending.values())

    def awaiting(self, id: str) -> AwaitingChat | None:
        """The message of that id if it awaits the acknowledgement of this participant; else None."""
        return self._pending.get(id)

    def author(self, id: str) -> str:
        """The author of the first message with that id; empty where it is not known."""
        message = self._ledger.get(id)
        return message.sender if message else ""

    @property
    def unacknowledged(self) -> list[OwnChat]:
        """Own messages without all acknowledgements (for a broadcast: without any), the oldest first."""
        return [chat for chat in self._own.values() if chat.missing]

    def own(self, id: str) -> OwnChat | None:
        """An own message with its acknowledgements; None for a message of another or a forgotten one."""
        return self._own.get(id)

    def cancelled(self, id: str) -> bool:
        """Whether its author or this participant cancelled the message, so that it needs no answer.

        A participant that prepares an answer checks this again before it sends it. Spec: §3.4.2.
        """
        return id in self._cancelled

    async def acknowledge_all(self, status: str = "received") -> list[Envelope]:
        """Empties the queue by one `chat/acknowledge` to the author of each message; returns the envelopes.

        Raises:
            CapabilityViolation: this participant may not send it; the other messages stay in the queue.
            LocalProtocolError, ConnectionLost: as `MessageSender.say`.

        Spec: §3.4.1.
        """
        return await self._end_all("chat/acknowledge", {"status": status})

    async def cancel_all(self, reason: str = "handled_elsewhere") -> list[Envelope]:
        """Empties the queue by one `chat/cancel` for each message; raises as `acknowledge_all`. Spec: §3.4.2."""
        return await self._end_all("chat/cancel", {"reason": reason})

    async def _end_all(self, kind: str, payload: Mapping[str, Any]) -> list[Envelope]:
        self._sender.client.check_loop()
        sent = []
        for chat in self.pending:
            if chat.id in self._pending:  # else it was cancelled while an earlier one was sent
                sent.append(await self._sender.say(kind, payload, to=chat.sender, about=chat.id))
                self.settle(chat.id, "acknowledged" if kind == "chat/acknowledge" else "cancelled")
        return sent

    def settle(self, id: str, how: Literal["acknowledged", "cancelled"]) -> None:
        """Removes a message that this participant has acknowledged or cancelled; ignores an unknown id."""
        me = self._sender.client.id
        if how == "cancelled" and self._ledger.get(id) is not None:
            self._cancel(id, me)
        elif self._pending.pop(id, None) is not None:
            self._tell(how, id, me)

    def drop(self, direction: Literal["oldest", "newest"] = "oldest", entries: int | None = None) -> None:
        """Drops messages of others from one end of the queue; None drops all. Only `on_change` reports it.

        Spec: §3.9.5, §3.9.8.
        """
        waiting = list(self._pending) if direction == "oldest" else list(reversed(self._pending))
        for id in waiting[:entries]:
            del self._pending[id]
            self._tell("dropped", id, self._sender.client.id)

    # --- following the ledger ---

    def follow(self, changes: Sequence[ChatChange]) -> None:
        """Applies the changes of one message in the ledger to the queue."""
        foreign = [change for change in changes if self._note_change(change)]
        if foreign:  # one line: a message may name thousands
            what = "a chat message that is" if len(foreign) == 1 else f"{len(foreign)} chat messages that are"
            logger.info("%s cancels %s not its own", one_line(foreign[0].entry.sender, 80), what)

    def _note_change(self, change: ChatChange) -> bool:
        """Applies one change; returns whether it is a cancel by another participant than the author."""
        what, id, message, entry, _ = change
        mine = entry.sender == self._sender.client.id
        if what == "said" and message is not None:
            self._note(message, entry.to, mine=mine)
        elif what == "acknowledged" and message is not None:
            self._note_acknowledgement(message, entry.sender, mine=mine)
        elif what == "cancelled" or (what == "dismissed" and mine):
            self._cancel(id, entry.sender)
        elif entry.kind == "chat/cancel" and not mine and what != "claimed":
            self._tell("claimed", id, entry.sender)
            return True
        return False

    def register(self, dispatcher: Dispatcher) -> None:
        """Adds the handler that reports chat messages of others; the queue has followed the ledger by then."""
        dispatcher.on(Chat, self._take_chat)

    def _take_chat(self, envelope: Envelope, payload: Chat) -> None:
        if envelope.sender != self._sender.client.id:
            self._messages(envelope)

    def _note(self, message: ChatMessage, to: tuple[str, ...], *, mine: bool) -> None:
        id, me = message.id, self._sender.client.id
        if mine:
            others = tuple(name for name in to if name != me)
            self._own[id] = OwnChat(id, message.text, others, self._clock(), {})
        else:
            self._pending[id] = AwaitingChat(id, message.sender, message.text, self._clock(), me in to)
        self._tell("said" if mine else "arrived", id, message.sender)
        waiting: dict[str, OwnChat] | dict[str, AwaitingChat] = self._own if mine else self._pending
        if len(waiting) > MAX_CHATS:
            oldest = next(iter(waiting))
            del waiting[oldest]
            self._tell("dropped", oldest, me)

    def _note_acknowledgement(self, message: ChatMessage, by: str, *, mine: bool) -> None:
        own = self._own.get(message.id)
        if mine:
            self.settle(message.id, "acknowledged")
        elif own is not None:
            statuses = {receipt.by: receipt.status for receipt in message.receipts}
            self._own[message.id] = own._replace(acknowledged=statuses)
            self._tell("acknowledged", message.id, by)

    def _cancel(self, id: str, by: str) -> None:
        if id not in self._cancelled:  # else its own cancel was reported before the echo came
            self._pending.pop(id, None)
            self._own.pop(id, None)
            self._cancelled[id] = None
            self._tell("cancelled", id, by)

    def _tell(self, what: Any, id: str, by: str) -> None:
        if self._changes:  # most participants have no handler, and each message passes here twice
            self._changes(QueueChange(what, id, by))
