"""Tracks chat messages, their acknowledgements and cancels, and the participants whose attention they await.

How it works
------------
`ChatLedger.observe` takes every entry of a space, in order, and returns what it changed. A `ChatMessage` is a snapshot:
it never changes, and the ledger holds the newest one of each id.

    open ── cancelled        its author alone cancels it for everybody

A message counts only where its sender may decide what it claims:

- an id names the first message that took it; a later message under that id is only reported as `repeated` (R6);
- every participant but the author may acknowledge a message; the newest status of each participant counts;
- an acknowledgement that comes after the cancel is a claim, and so is a second cancel;
- a cancel by another participant than the author takes the message off that participant's own queue only
  (`dismissed`).

So a message awaits every participant but its author that has neither acknowledged nor dismissed it, until its author
cancels it. Messages that no participant acts on (`protocol.intake`) and those that the gateway refused are ignored.
The module has no clock, runs no loop and sends nothing.

Spec: §3.4, §3.4.1, §3.4.2, ruling R6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from mew_lab.ledger.entry import Entry
from mew_lab.protocol.coerce import line_of
from mew_lab.protocol.envelope import MAX_ID
from mew_lab.protocol.text import MAX_NAME, cut_names

__all__ = ["CHAT_KINDS", "ChatChange", "ChatLedger", "ChatMessage", "ChatReceipt", "Dismissal"]

CHAT_KINDS = frozenset({"chat", "chat/acknowledge", "chat/cancel"})
MAX_MESSAGES = 10_000  # of a space; participants send as many as they like
MAX_WEIGHT = 16 * 1024 * 1024  # characters of all messages and of what is kept beside them
MAX_TEXT = 4000  # characters of a message that are kept
MAX_TO = 200  # addressees of a message
MAX_REMARKS = 200  # acknowledgements, and dismissals, of one message
MAX_STATUS = 80  # characters of a status or a reason
OVERHEAD = 100  # characters for which a message counts at least


class ChatReceipt(NamedTuple):
    """One acknowledgement: the participant, its status, and the time of its arrival (`Entry.t`)."""

    by: str
    status: str
    t: float


class Dismissal(NamedTuple):
    """A participant's cancel of another's message, which no longer needs that participant's attention."""

    by: str
    reason: str


class ChatMessage(NamedTuple):
    """One chat message and its state.

    Attributes:
        id: The id of its envelope, unique in the ledger.
        seq: The place of its envelope among all that the ledger observed; `t` is the time of its arrival.
        to: The addressees, at most 200; empty for everybody.
        text: Its first 4000 characters.
        state: `open`, or `cancelled` by its author; `reason` is the reason of that cancel.
        receipts: The newest acknowledgement of each participant, in order.
        dismissed: The participants that cancelled it for themselves.
    """

    id: str
    seq: int
    t: float
    sender: str
    to: tuple[str, ...]
    text: str
    state: Literal["open", "cancelled"] = "open"
    reason: str = ""
    receipts: tuple[ChatReceipt, ...] = ()
    dismissed: tuple[Dismissal, ...] = ()

    def awaits(self, name: str) -> bool:
        """Whether it needs the attention of the participant `name`."""
        return self.state == "open" and name != self.sender and not self._settled_by(name)

    @property
    def weight(self) -> int:
        """The characters that the ledger holds of it, plus 100."""
        weight = OVERHEAD + len(self.text)
        if self.to:
            weight += sum(map(len, self.to))
        if self.receipts or self.dismissed:
            weight += sum(len(receipt.by) + len(receipt.status) for receipt in self.receipts)
            weight += sum(len(dismissal.by) + len(dismissal.reason) for dismissal in self.dismissed)
        return weight

    def _settled_by(self, name: str) -> bool:
        return any(receipt.by == name for receipt in self.receipts) or any(
            dismissal.by == name for dismissal in self.dismissed
        )


class ChatChange(NamedTuple):
    """The change of one message by one entry.

    `repeated` reports another message under the id of `message`. `claimed` reports an entry that changes nothing, for
    the reason `why`. `unknown` reports a reference to an `id` of no message that is held.
    """

    what: Literal["said", "repeated", "acknowledged", "dismissed", "cancelled", "claimed", "unknown"]
    id: str
    message: ChatMessage | None
    entry: Entry
    why: str = ""


class _Author:
    """What the ledger holds of one author: the ids of its messages, the oldest first, and their characters."""

    __slots__ = ("ids", "weight")

    def __init__(self) -> None:
        self.ids: dict[str, None] = {}
        self.weight = 0


class ChatLedger:
    """The chat messages of a space, as one participant or one journal saw them.

    Beyond a limit, the author with the most loses its oldest message. So no author drives out the messages of others.

    Args:
        limit: How many messages are held.
        weight: The characters held of all messages.
    """

    def __init__(self, *, limit: int = MAX_MESSAGES, weight: int = MAX_WEIGHT) -> None:
        self.limit = limit
        self.weight = weight
        self._messages: dict[str, ChatMessage] = {}
        self._authors: dict[str, _Author] = {}
        self._total = 0
        self._rules: dict[str, Callable[[Entry], Iterable[ChatChange]]] = {
            "chat": self._on_chat,
            "chat/acknowledge": self._on_acknowledge,
            "chat/cancel": self._on_cancel,
        }

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[ChatMessage]:
        """All messages that are held, in the order of their arrival."""
        return iter(tuple(self._messages.values()))

    def get(self, id: str) -> ChatMessage | None:
        """The newest state of the message; None where the id is unknown or forgotten."""
        return self._messages.get(id)

    def observe(self, entry: Entry) -> tuple[ChatChange, ...]:
        """Records one entry and returns the changes. It needs every entry of the space in order, own echoes included."""
        rule = self._rules.get(entry.kind)
        if rule is None or entry.refused or entry.malformed:
            return ()
        if len(entry.id) > MAX_ID or len(entry.sender) > MAX_NAME:
            return ()  # its id or its sender is too long to be an id or a name
        return tuple(rule(entry))

    # --- one rule a kind ---

    def _on_chat(self, entry: Entry) -> tuple[ChatChange]:
        known = self._messages.get(entry.id)
        if known is not None:
            return (ChatChange("repeated", known.id, known, entry, "its id is taken"),)
        text = entry.payload.get("text")
        message = ChatMessage(
            entry.id,
            entry.seq,
            entry.t,
            entry.sender,
            cut_names(entry.to, most=MAX_TO) if entry.to else (),
            text[:MAX_TEXT] if isinstance(text, str) else "",
        )
        # Every chat message passes here, at each participant.
        self._messages[entry.id] = message
        author = self._authors.get(entry.sender)
        if author is None:
            author = self._authors[entry.sender] = _Author()
        author.ids[entry.id] = None
        weight = message.weight
        author.weight += weight
        self._total += weight
        if len(self._messages) > self.limit or self._total > self.weight:
            self._evict()
        return (ChatChange("said", entry.id, message, entry),)

    def _on_acknowledge(self, entry: Entry) -> Iterator[ChatChange]:
        receipt = ChatReceipt(entry.sender, _word(entry, "status"), entry.t)
        for id in dict.fromkeys(entry.correlation_id):
            message = self._messages.get(id)
            if message is None:
                yield ChatChange("unknown", id, None, entry)
            elif message.sender == entry.sender:
                yield ChatChange("claimed", id, message, entry, "its author cannot acknowledge it")
            elif message.state == "cancelled":
                yield ChatChange("claimed", id, message, entry, "it comes after the cancel")
            else:
                others = tuple(known for known in message.receipts if known.by != entry.sender)
                if len(others) < MAX_REMARKS:
                    message = self._put(message._replace(receipts=(*others, receipt)))
                yield ChatChange("acknowledged", id, message, entry)
        self._evict()

    def _on_cancel(self, entry: Entry) -> Iterator[ChatChange]:
        reason = _word(entry, "reason")
        for id in dict.fromkeys(entry.correlation_id):
            message = self._messages.get(id)
            if message is None:
                yield ChatChange("unknown", id, None, entry)
            elif message.sender != entry.sender:
                new = all(known.by != entry.sender for known in message.dismissed)
                if new and len(message.dismissed) < MAX_REMARKS:
                    dismissed = (*message.dismissed, Dismissal(entry.sender, reason))
                    message = self._put(message._replace(dismissed=dismissed))
                yield ChatChange("dismissed", id, message, entry)
            elif message.state == "cancelled":
                yield ChatChange("claimed", id, message, entry, "it was cancelled before")
            else:
                message = self._put(message._replace(state="cancelled", reason=reason))
                yield ChatChange("cancelled", id, message, entry)
        self._evict()

    # --- storage ---

    def _put(self, message: ChatMessage) -> ChatMessage:
        known = self._messages[message.id]
        self._messages[message.id] = message
        more = message.weight - known.weight
        self._authors[message.sender].weight += more
        self._total += more
        return message

    def _evict(self) -> None:
        while len(self._messages) > 1 and (len(self._messages) > self.limit or self._total > self.weight):
            too_large = self._total > self.weight
            name, author = max(
                self._authors.items(), key=lambda item: item[1].weight if too_large else len(item[1].ids)
            )
            oldest = next(iter(author.ids))
            del author.ids[oldest]
            weight = self._messages.pop(oldest).weight
            author.weight -= weight
            self._total -= weight
            if not author.ids:
                del self._authors[name]


def _word(entry: Entry, name: str) -> str:
    return line_of(entry.payload.get(name), MAX_STATUS)
