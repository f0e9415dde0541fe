"""The chat messages that await an acknowledgement, in both directions, and what ends their waiting.

What became of a message is the ledger's to say (`ledger.chats`). This is the queue of one participant: it has a limit,
a moment since when each message waits, and takes what this participant has sent itself for done before its echo comes.

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
MAX_CHATS = 1000  # in each direction; the oldest goes
MAX_CANCELLED = 10_000  # messages whose cancel is remembered


class AwaitingChat(NamedTuple):
    """A message of `sender` that this participant has neither acknowledged nor seen cancelled.

    `text` is cut after 4000 characters, `since` is when it came, `addressed` whether this participant stands in
    its `to`.
    """

    id: str
    sender: str
    text: str
    since: datetime
    addressed: bool


class OwnChat(NamedTuple):
    """A message of this participant, and who acknowledged it with which status (name -> status).

    `text` is cut after 4000 characters; `to` are the addressees besides this participant, empty for a broadcast.
    """

    id: str
    text: str
    to: tuple[str, ...]
    since: datetime
    acknowledged: Mapping[str, str]

    @property
    def missing(self) -> bool:
        """Whether an addressee has not acknowledged it; of a broadcast, whether nobody has."""
        return not self.acknowledged or any(name not in self.acknowledged for name in self.to)


class QueueChange(NamedTuple):
    """What happened to which message, by whom.

    `claimed` is a cancel by another than its author, and changes nothing here; `dropped` tells that the oldest of too
    many goes.
    """

    what: Literal["arrived", "said", "acknowledged", "cancelled", "claimed", "dropped"]
    id: str
    by: str


class Chats:
    """The chat of one participant. At most 1000 messages wait in each direction.

    Args:
        ledger: What became of each message; its changes are to be told to `follow`.
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

    # --- handlers; each method returns a function that ends it ---

    def on_chat(self, handler: Callable[[Envelope], object]) -> Callable[[], None]:
        """Chat messages of others."""
        return self._messages.add(handler)

    def on_change(self, handler: Callable[[QueueChange], object]) -> Callable[[], None]:
        """Each change of the queue."""
        return self._changes.add(handler)

    # --- the queue ---

    @property
    def pending(self) -> list[AwaitingChat]:
        """Messages of others that await this participant's acknowledgement, the oldest first. Spec: §3.4.1."""
        return list(self._pending.values())

    def awaiting(self, id: str) -> AwaitingChat | None:
        """The message of that id that awaits this participant's acknowledgement; None where none does."""
        return self._pending.get(id)

    def author(self, id: str) -> str:
        """Who took that id first; empty where that is not known."""
        message = self._ledger.get(id)
        return message.sender if message else ""

    @property
    def unacknowledged(self) -> list[OwnChat]:
        """Own messages that an addressee has not acknowledged (a broadcast: nobody has), the oldest first."""
        return [chat for chat in self._own.values() if chat.missing]

    def own(self, id: str) -> OwnChat | None:
        """An own message with its acknowledgements, complete or not; None for another's and the long forgotten."""
        return self._own.get(id)

    def cancelled(self, id: str) -> bool:
        """Whether a message needs no answer any more: its author, or this participant, cancelled it.

        Whoever works on an answer asks again before saying it. Spec: §3.4.2.
        """
        return id in self._cancelled

    async def acknowledge_all(self, status: str = "received") -> list[Envelope]:
        """Empties the queue: one `chat/acknowledge` to the author of each message; returns them.

        Raises:
            CapabilityViolation: this participant may not; what was not acknowledged still waits.
            LocalProtocolError, ConnectionLost: as `MessageSender.say`.

        Spec: §3.4.1.
        """
        return await self._end_all("chat/acknowledge", {"status": status})

    async def cancel_all(self, reason: str = "handled_elsewhere") -> list[Envelope]:
        """Empties the queue by one `chat/cancel` a message; raises as `acknowledge_all`. Spec: §3.4.2."""
        return await self._end_all("chat/cancel", {"reason": reason})

    async def _end_all(self, kind: str, payload: Mapping[str, Any]) -> list[Envelope]:
        sent = []
        for chat in self.pending:
            if chat.id in self._pending:  # else it was cancelled while an earlier one was sent
                sent.append(await self._sender.say(kind, payload, to=chat.sender, about=chat.id))
                self.settle(chat.id, "acknowledged" if kind == "chat/acknowledge" else "cancelled")
        return sent

    def settle(self, id: str, how: Literal["acknowledged", "cancelled"]) -> None:
        """Notes that this participant has said so itself; an unknown id is harmless."""
        me = self._sender.client.id
        if how == "cancelled" and self._ledger.get(id) is not None:
            self._cancel(id, me)
        elif self._pending.pop(id, None) is not None:
            self._tell(how, id, me)

    def drop(self, direction: Literal["oldest", "newest"] = "oldest", entries: int | None = None) -> None:
        """Forgets messages of others that wait, from one end; None forgets all. Nobody is told but `on_change`.

        Spec: §3.9.5, §3.9.8.
        """
        waiting = list(self._pending) if direction == "oldest" else list(reversed(self._pending))
        for id in waiting[:entries]:
            del self._pending[id]
            self._tell("dropped", id, self._sender.client.id)

    # --- following the ledger ---

    def follow(self, changes: Sequence[ChatChange]) -> None:
        """Takes note of what one message changed in the ledger."""
        foreign = list(filter(self._note_change, changes))
        if foreign:  # one line: a message may name thousands
            what = "a chat message that is" if len(foreign) == 1 else f"{len(foreign)} chat messages that are"
            logger.info("%s cancels %s not its own", one_line(foreign[0].entry.sender, 80), what)

    def _note_change(self, change: ChatChange) -> bool:
        """Takes note of one change; returns whether another cancels what is not its own."""
        entry, message = change.entry, change.message
        mine = entry.sender == self._sender.client.id
        if change.what == "said" and message is not None:
            self._note(message, entry.to, mine=mine)
        elif change.what == "acknowledged" and message is not None:
            self._note_acknowledgement(message, entry.sender, mine=mine)
        elif change.what == "cancelled" or (change.what == "dismissed" and mine):
            self._cancel(change.id, entry.sender)
        elif entry.kind == "chat/cancel" and not mine and change.what != "claimed":
            self._tell("claimed", change.id, entry.sender)
            return True
        return False

    def register(self, dispatcher: Dispatcher) -> None:
        """Adds the handler that tells of chat messages of others; the queue follows the ledger before that."""
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
        if id not in self._cancelled:  # else this participant has told of its own before the echo came
            self._pending.pop(id, None)
            self._own.pop(id, None)
            self._cancelled[id] = None
            self._tell("cancelled", id, by)

    def _tell(self, what: Any, id: str, by: str) -> None:
        if self._changes:  # most participants have no handler, and each message passes here twice
            self._changes(QueueChange(what, id, by))
