"""Which chat messages await an acknowledgement?  The queue in both directions, and the words that end it.

It does not know what an acknowledgement is worth, nor whether anybody means to answer. A message needs no
attention any more when its author says so, or this participant itself; what anybody else says about it is told
to `on_change` as claimed and changes nothing.

Spec: §3.4, §3.4.1, §3.4.2, SDK "Chat Acknowledgement Helpers".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.sender import MessageSender
from mew_lab.sdk.signal import Signal

__all__ = ["AwaitingChat", "ChatChange", "Chats", "OwnChat"]

logger = logging.getLogger(__name__)
MAX_CHATS = 1000  # in each direction; the oldest goes
MAX_TEXT = 4000  # characters of a message that are kept for the queue
MAX_KNOWN = 10_000  # messages whose author, or whose cancel, is remembered
MAX_SEEN_BY = 200  # participants whose acknowledgement of one message is kept
MAX_STATUS = 80


class AwaitingChat(NamedTuple):
    """A message of `sender` that this participant has neither acknowledged nor seen cancelled.

    `text` is cut after 4000 characters, `since` is when it was heard, `addressed` whether this participant stands in
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
        return not self.acknowledged or any(one not in self.acknowledged for one in self.to)


class ChatChange(NamedTuple):
    """What happened to which message, by whom; `claimed` is a cancel that nobody has to believe, `dropped` the
    fate of the oldest of too many."""

    what: Literal["arrived", "said", "acknowledged", "cancelled", "claimed", "dropped"]
    id: str
    by: str


class Chats:
    """What one participant hears and answers in chat. At most 1000 messages wait in each direction."""

    def __init__(
        self, saying: MessageSender, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._saying = saying
        self._clock = clock
        self._heard: Signal[Envelope] = Signal(on_fault=saying.client.report)
        self._changes: Signal[ChatChange] = Signal(on_fault=saying.client.report)
        self._pending: dict[str, AwaitingChat] = {}
        self._own: dict[str, OwnChat] = {}
        self._authors: BoundedDict[str, str] = BoundedDict(MAX_KNOWN)
        self._cancelled: BoundedDict[str, None] = BoundedDict(MAX_KNOWN)

    # --- who wants to be told; each returns a function that ends it ---

    def on_chat(self, handler: Callable[[Envelope], Any]) -> Callable[[], None]:
        """Chat messages of others."""
        return self._heard.add(handler)

    def on_change(self, handler: Callable[[ChatChange], Any]) -> Callable[[], None]:
        """Each change of the queue."""
        return self._changes.add(handler)

    # --- the queue ---

    @property
    def pending(self) -> list[AwaitingChat]:
        """Messages of others that await this participant's acknowledgement, the oldest first. Spec: §3.4.1."""
        return list(self._pending.values())

    @property
    def unacknowledged(self) -> list[OwnChat]:
        """Own messages that an addressee has not acknowledged (a broadcast: nobody has), the oldest first."""
        return [one for one in self._own.values() if one.missing]

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
                sent.append(await self._saying.say(kind, payload, to=chat.sender, about=chat.id))
                self.settle(chat.id, "acknowledged" if kind == "chat/acknowledge" else "cancelled")
        return sent

    def settle(self, id: str, how: Literal["acknowledged", "cancelled"]) -> None:
        """This participant has said so itself; an unknown id is harmless."""
        waiting = self._pending.pop(id, None)
        new = waiting is not None
        if how == "cancelled" and id in self._authors and id not in self._cancelled:
            new = True
            self._own.pop(id, None)
            self._cancelled[id] = None
        if new:
            self._tell(how, id, self._saying.client.id)

    def drop(self, direction: Literal["oldest", "newest"] = "oldest", entries: int | None = None) -> None:
        """Forgets messages of others that wait, from one end; None forgets all. Nobody is told but `on_change`.

        Spec: §3.9.5, §3.9.8.
        """
        waiting = list(self._pending) if direction == "oldest" else list(reversed(self._pending))
        for id in waiting[:entries]:
            del self._pending[id]
            self._tell("dropped", id, self._saying.client.id)

    # --- what is heard ---

    def observe(self, envelope: Envelope) -> None:
        """Takes note of one message of the space."""
        mine = envelope.sender == self._saying.client.id
        if envelope.kind == "chat":
            self._note(envelope, mine=mine)
            if not mine:
                self._heard(envelope)
        elif envelope.kind == "chat/acknowledge":
            for id in dict.fromkeys(envelope.correlation_id):
                if mine:
                    self.settle(id, "acknowledged")
                else:
                    self._acknowledged(id, envelope)
        elif envelope.kind == "chat/cancel":
            for id in dict.fromkeys(envelope.correlation_id):
                if mine:
                    self.settle(id, "cancelled")
                else:
                    self._called_off(id, envelope.sender)

    def lost(self) -> None:
        """The connection ended; what waits goes on waiting."""

    def _note(self, envelope: Envelope, *, mine: bool) -> None:
        id, me = envelope.id, self._saying.client.id
        text = str(envelope.payload.get("text", ""))[:MAX_TEXT]
        if id in self._authors:  # who took the id first keeps it
            return
        self._authors[id] = envelope.sender
        if mine:
            to = tuple(one for one in envelope.to if one != me)
            self._own[id] = OwnChat(id, text, to, self._clock(), {})
        else:
            self._pending[id] = AwaitingChat(id, envelope.sender, text, self._clock(), me in envelope.to)
        self._tell("said" if mine else "arrived", id, envelope.sender)
        waiting: dict[str, Any] = self._own if mine else self._pending
        if len(waiting) > MAX_CHATS:
            oldest = next(iter(waiting))
            del waiting[oldest]
            self._tell("dropped", oldest, me)

    def _acknowledged(self, id: str, envelope: Envelope) -> None:
        chat = self._own.get(id)
        if chat is None or (
            envelope.sender not in chat.acknowledged and len(chat.acknowledged) >= MAX_SEEN_BY
        ):
            return
        status = one_line(str(envelope.payload.get("status") or ""), MAX_STATUS)
        self._own[id] = chat._replace(acknowledged={**chat.acknowledged, envelope.sender: status})
        self._tell("acknowledged", id, envelope.sender)

    def _called_off(self, id: str, sender: str) -> None:
        if self._authors.get(id) != sender:
            logger.info("%s cancels a chat message that is not its own", one_line(sender, 80))
            self._tell("claimed", id, sender)
        elif id not in self._cancelled:
            self._pending.pop(id, None)
            self._cancelled[id] = None
            self._tell("cancelled", id, sender)

    def _tell(self, what: Any, id: str, by: str) -> None:
        self._changes(ChatChange(what, id, by))
