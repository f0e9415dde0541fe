"""The chat of a space as rows: each message with its acknowledgements, and the actions of one participant on them.

The ledger knows the state of each message (`ledger.chats`). The queue of the participant knows which messages await its
acknowledgement (`chats.pending`). This module makes the rows that a view shows.

Two messages may bear the same id. An acknowledgement or a cancellation of that id concerns the first of them. The
second does not wait, and cannot be acknowledged or cancelled here.

The model holds the newest 2000 messages, 64 KiB of each, and 16 Mi characters in all, contexts and addressees included.
Of each message it holds 200 addressees and 200 acknowledgements. Only the loop's thread writes. A row is replaced, never
changed, so other threads may read it.

Spec: §3.4, §3.4.1, §3.4.2, ruling R6.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mew_lab.errors import MewError
from mew_lab.lab.chat_acts import acknowledge_chat, cancel_chat, check_label
from mew_lab.ledger.chats import ChatChange, ChatMessage, ChatReceipt
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.ledger import Ledger, LedgerChange
from mew_lab.protocol.envelope import MAX_ID, Envelope
from mew_lab.protocol.kinds import GATEWAY
from mew_lab.protocol.text import MAX_NAME, count_of, cut, cut_names
from mew_lab.sdk.chats import QueueChange
from mew_lab.sdk.participant import MEWParticipant

__all__ = ["REASONS", "STATUSES", "ChatModel", "ChatRow"]

MAX_MESSAGES = 2000
MAX_TEXT = 64 * 1024
MAX_CHARACTERS = 16 * 1024 * 1024
MAX_CLAIMS = 5  # cancellations of one message by participants other than its author
MAX_TO = 200
MAX_CONTEXT = 300
SHORT = 1000  # characters of an envelope in which nothing needs to be cut

# The statuses of an acknowledgement, with their meanings. Spec: §3.4.1.
STATUSES = {"received": "it has arrived", "read": "it was read"}
# The reasons for cancelling a message, with their meanings. Spec: §3.4.2.
REASONS = {
    "handled_elsewhere": "another participant handles it",
    "duplicate": "it repeats an earlier message",
    "timeout": "it is too old",
}


class ChatRow(NamedTuple):
    """One message as it stands; `n` counts from 1 without gaps, `seq` is its row in the feed.

    `text` has at most 64 KiB; `more` is the number of characters left out. `to` has at most 200 names of at most 128
    characters each, `context` at most 300 characters. `markdown` is whether the author asks for Markdown. `answers` is
    the number of the message that this one correlates to, 0 for none. `first` is whether no earlier message bears its
    id. `awaits` is whether it awaits this participant's acknowledgement; `seen` holds the acknowledgements of others.
    `cancelled` names its author or this participant once that has cancelled it; `claims` names others that tried to.
    """

    n: int
    seq: int
    id: str
    t: float
    sender: str
    to: tuple[str, ...]
    text: str
    more: int
    markdown: bool
    context: str
    answers: int
    mine: bool
    addressed: bool
    first: bool = True
    awaits: bool = False
    seen: tuple[ChatReceipt, ...] = ()
    cancelled: str = ""
    reason: str = ""
    claims: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """The addressees of an own message that have not acknowledged it."""
        seen = {receipt.by for receipt in self.seen}
        return (
            tuple(name for name in self.to if name not in seen and name != self.sender) if self.mine else ()
        )


class ChatModel:
    """The chat of a space as one participant sees it; a follower of `lab.following`.

    `on_change` is called on the loop's thread with the number of a new or changed message. The number is 0 when the
    participants that are present, or the rights of this one, may have changed.
    """

    kinds = ("chat",)

    def __init__(self, me: MEWParticipant, *, on_change: Callable[[int], None] = lambda n: None) -> None:
        self._me = me
        self.on_change = on_change
        self._ledger = Ledger()  # that of the feed, once an envelope has come
        self._rows: dict[int, ChatRow] = {}
        self._awaiting: dict[int, None] = {}
        self._numbers: dict[str, int] = {}  # id -> the first row that bears it
        self._sizes: deque[int] = deque()  # characters of each row
        self._characters = 0
        self._count = 0
        self._leave = (me.chats.on_change(self._on_queue_change), me.client.on_message(self._note_presence))

    def close(self) -> None:
        """Stops following the participant."""
        for leave in self._leave:
            leave()

    # --- for any thread ---

    @property
    def last(self) -> int:
        """The number of the newest message, 0 before the first."""
        return self._count

    def messages(self, *, after: int = 0, before: int | None = None, limit: int = 200) -> list[ChatRow]:
        """The newest messages held behind `after` and before `before`, at most `limit`, oldest first."""
        first = self._count - len(self._rows) + 1
        end = self._count if before is None else min(self._count, before - 1)
        numbers = range(max(first, after + 1, end - limit + 1), end + 1)
        return [row for n in numbers if (row := self._rows.get(n)) is not None]

    def message(self, n: int) -> ChatRow | None:
        """One message; None when it is not held."""
        return self._rows.get(n)

    @property
    def queue(self) -> list[ChatRow]:
        """The messages that await this participant's acknowledgement, oldest first."""
        held = (self._rows.get(n) for n in sorted(self._awaiting.copy()))
        return [row for row in held if row is not None and row.awaits]

    @property
    def people(self) -> list[str]:
        """The names of the participants that are present, sorted, without the gateway."""
        return sorted(name for name in self._me.client.participants.copy() if name != GATEWAY)

    @property
    def me(self) -> str:
        """The id of this participant in the space."""
        return self._me.client.id

    def may(self, kind: str) -> bool:
        """Whether this participant may send a message of that kind. Spec: §4.1."""
        payload = {"chat": {"text": ""}, "chat/acknowledge": {"status": "received"}}
        return self._me.sender.permitted(kind, payload.get(kind, {"reason": next(iter(REASONS))}))

    # --- actions on the loop; each returns one sentence ---

    async def say(self, text: str, to: Sequence[str] = (), *, markdown: bool = False) -> str:
        """Sends a chat message to all participants, or to those in `to`; returns once the gateway has accepted it.

        Raises:
            MewError: the text is blank.
            CapabilityViolation, Refused, NoReply, ConnectionLost: as `MessageSender.say_accepted`.

        Spec: §3.4.
        """
        if not text.strip():
            raise MewError("Cannot send an empty message: write its text first")
        payload = {"text": text, "format": "markdown"} if markdown else {"text": text}
        await self._me.sender.say_accepted("chat", payload, to=tuple(to))
        return f"Sent to {', '.join(to) if to else 'everybody'}."

    async def acknowledge(self, n: int, status: str = "received") -> str:
        """Acknowledges one message to its author.

        Raises:
            MewError: the message is no longer held or no longer waits, or its id means another message.
            CapabilityViolation, Refused, NoReply, ConnectionLost: as `MessageSender.say_accepted`.

        Spec: §3.4.1.
        """
        row = self._held(n, "acknowledged")
        if not row.awaits:
            raise MewError(
                f"Nothing was acknowledged: the message of {row.sender} no longer awaits your acknowledgement"
            )
        await acknowledge_chat(self._me, row.id, row.sender, check_label(status, "status"))
        return f"Acknowledged to {row.sender} ({status})."

    async def acknowledge_all(self, status: str = "received", *, until: int | None = None) -> str:
        """Acknowledges each message that waits, up to number `until`, each to its author; raises as `acknowledge`.

        Spec: §3.4.1.
        """
        status, done = check_label(status, "status"), 0
        for row in self.queue:
            if until is None or row.n <= until:
                current = self._rows.get(row.n)
                if (
                    current is not None and current.awaits
                ):  # else it was cancelled while an earlier one was sent
                    await acknowledge_chat(self._me, row.id, row.sender, status)
                    done += 1
        return f"{count_of(done, 'message')} acknowledged ({status})."

    async def read(self, numbers: Sequence[int]) -> str:
        """Acknowledges messages that the person has had in sight, as read; one that no longer waits is left out.

        Raises:
            CapabilityViolation, Refused, NoReply, ConnectionLost: as `MessageSender.say_accepted`.

        Spec: §3.4.1.
        """
        done = 0
        for n in dict.fromkeys(numbers):
            row = self._rows.get(n)
            if row is not None and row.awaits:
                await acknowledge_chat(self._me, row.id, row.sender, "read")
                done += 1
        return f"{count_of(done, 'message')} read."

    async def cancel(self, n: int, reason: str = "handled_elsewhere") -> str:
        """Cancels a message: an own message for all participants, a message of another for this participant alone.

        Raises:
            MewError: the message is no longer held or is already cancelled, or its id means another message.
            CapabilityViolation, Refused, NoReply, ConnectionLost: as `MessageSender.say_accepted`.

        Spec: §3.4.2.
        """
        row = self._held(n, "cancelled")
        if row.cancelled:
            raise MewError(f"Nothing was cancelled: {row.cancelled} has already cancelled that message")
        to = tuple(name for name in row.to if name != self.me) if row.mine else (row.sender,)
        await cancel_chat(self._me, row.id, to, reason)
        return f"The message of {row.sender} was cancelled ({reason})."

    def _held(self, n: int, action: str) -> ChatRow:
        row = self._rows.get(n)
        if row is None:
            raise MewError(
                f"Nothing was {action}: that message is no longer held in this view; lab.log.df has it"
            )
        author = self._me.chats.author(row.id)
        if not row.first and not author and self._ledger.chats.get(row.id) is None:
            raise MewError(
                f"Nothing was {action}: this message of {row.sender} is malformed, and other participants drop it; "
                "answer it with a message"
            )
        if not row.first or author not in ("", row.sender):
            raise MewError(
                f"Nothing was {action}: this message of {row.sender} bears the id of an earlier one, which would be "
                f"{action} instead; answer it with a message"
            )
        return row

    # --- following ---

    def take_changes(self, changes: tuple[LedgerChange, ...], ledger: Ledger) -> None:
        """Updates the rows of known messages by the changes by one envelope."""
        self._ledger = ledger
        for change in changes:
            if isinstance(change, ChatChange) and change.entry.kind != "chat" and change.message is not None:
                row = self._rows.get(self._numbers.get(change.id, 0))
                if row is not None and row.first:
                    self._put(self._with_state(row, change.message))

    def take(self, entry: Entry) -> None:
        """Adds the message in an envelope; the ledger knows none of one that participants drop."""
        if entry.kind == "chat" and not entry.refused:
            message = self._ledger.chats.get(entry.id)
            self._add(entry, first=message is not None and message.seq == entry.seq)

    def _add(self, entry: Entry, *, first: bool) -> None:
        payload = entry.payload
        id, text = entry.id, payload.get("text")
        if not id or not isinstance(text, str):
            return
        n = self._count + 1
        shown, to, context, size = text[:MAX_TEXT], entry.to, entry.context, len(entry.raw)
        addressed = self.me in to
        if size > SHORT:
            if len(id) > MAX_ID or len(entry.sender) > MAX_NAME:
                return
            to, context = cut_names(to, most=MAX_TO), cut(context, MAX_CONTEXT)
            size = len(shown) + len(context) + sum(map(len, to))
        answers = 0
        for about in entry.correlation_id:
            if answers := self._numbers.get(about, 0):
                break
        if first:
            self._numbers[id] = n
        self._characters += size
        self._sizes.append(size)
        row = ChatRow(  # by position: names cost twice as much, thousands of times a second
            n,
            entry.seq,
            id,
            entry.t,
            entry.sender,
            to,
            shown,
            len(text) - len(shown),
            payload.get("format") == "markdown",
            context,
            answers,
            entry.sender == self.me,
            addressed,
            first,
            first and self._awaits(id, entry.sender),
        )
        self._rows[n] = row
        self._count = n
        while len(self._rows) > MAX_MESSAGES or (self._characters > MAX_CHARACTERS and len(self._rows) > 1):
            oldest = self._rows.pop(n - len(self._rows) + 1)
            self._awaiting.pop(oldest.n, None)
            self._characters -= self._sizes.popleft()
            if self._numbers.get(oldest.id) == oldest.n:
                del self._numbers[oldest.id]
        self._put(row)

    def _with_state(self, row: ChatRow, message: ChatMessage) -> ChatRow:
        """The row with the state of its message in the ledger."""
        own = next((dismissal for dismissal in message.dismissed if dismissal.by == self.me), None)
        cancelled, reason = (own.by, own.reason) if own is not None else ("", "")
        if message.state == "cancelled":
            cancelled, reason = message.sender, message.reason
        return row._replace(
            seen=message.receipts,
            cancelled=cancelled,
            reason=reason,
            claims=tuple(dismissal.by for dismissal in message.dismissed if dismissal.by != self.me)[
                :MAX_CLAIMS
            ],
            awaits=self._awaits(row.id, row.sender),
        )

    def _awaits(self, id: str, sender: str) -> bool:
        waiting = self._me.chats.awaiting(id)
        return waiting is not None and waiting.sender == sender

    def _on_queue_change(self, change: QueueChange) -> None:
        row = self._rows.get(self._numbers.get(change.id, 0))
        if row is not None and row.first and not row.mine:
            awaits = self._awaits(row.id, row.sender)
            if awaits != row.awaits:
                self._put(row._replace(awaits=awaits))

    def _note_presence(self, envelope: Envelope) -> None:
        if envelope.kind in ("system/presence", "system/welcome"):
            self.on_change(0)

    def _put(self, row: ChatRow) -> None:
        self._rows[row.n] = row
        if row.awaits:
            self._awaiting[row.n] = None
        else:
            self._awaiting.pop(row.n, None)
        self.on_change(row.n)
