"""What was said in a space, to whom, and who has seen it?  The chat of one participant, and what it can do with it.

Each message stands with its acknowledgements. What awaits this participant's own is `chats.pending` of the participant,
and the same here. Only its author, or this participant for itself, takes attention off a message; a cancel by anybody
else is told as a claim.

Two messages may bear one id. What is said about an id means the first that is held: the other neither waits, nor can
it be acknowledged or called off.

Holds the newest 2000 messages, 64 KiB of each and 16 Mi characters in all, their contexts and addressees among them;
200 addressees and 200 acknowledgements of each. Written on the loop's thread alone; what other threads read is
replaced, not changed.

Spec: §3.4, §3.4.1, §3.4.2, ruling R6.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mew_lab.errors import MewError
from mew_lab.ledger.entry import Entry
from mew_lab.protocol.envelope import MAX_ID, Envelope
from mew_lab.protocol.kinds import GATEWAY
from mew_lab.protocol.text import MAX_NAME, cut, cut_names
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.chats import ChatChange
from mew_lab.sdk.participant import MEWParticipant

__all__ = ["REASONS", "STATUSES", "Said", "Seen", "Talk"]

MAX_MESSAGES = 2000
MAX_TEXT = 64 * 1024
MAX_CHARACTERS = 16 * 1024 * 1024
MAX_SEEN_BY = 200
MAX_TO = 200
MAX_CONTEXT = 300
SHORT = 1000  # characters of an envelope in which nothing needs to be cut
MAX_WORD = 80
MAX_SAY = 256 * 1024  # characters of a message that is written here

# What an acknowledgement may say. Spec: §3.4.1.
STATUSES = {"received": "it has arrived", "read": "it was read"}
# Why a message needs no attention any more. Spec: §3.4.2.
REASONS = {
    "handled_elsewhere": "somebody has seen to it",
    "duplicate": "it was said before",
    "timeout": "it is too old",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """One acknowledgement: who, with which status, when (epoch, seconds)."""

    by: str
    status: str
    t: float


class Said(NamedTuple):
    """One message as it stands; `n` counts from 1 without gaps, `seq` is its row in the feed.

    `text` is at most 64 KiB, `more` how many characters are left out; `to` has at most 200 names in at most 128
    characters each, `context` 300 characters. `markdown` tells whether its author asks for it to be shown so, `answers`
    the number of the message that it correlates to, 0 for none. `awaits` tells that this participant has not
    acknowledged it; `cancelled` by whom it was called off, `claims` who else has tried to.
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
    awaits: bool = False
    seen: tuple[Seen, ...] = ()
    cancelled: str = ""
    reason: str = ""
    claims: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """The addressees of an own message that have not acknowledged it."""
        seen = {one.by for one in self.seen}
        return tuple(one for one in self.to if one not in seen and one != self.sender) if self.mine else ()


class Talk:
    """The chat of a space as one participant sees it; a follower of `lab.following`.

    `on_change` is told the number of a message that is new or changed, 0 when it is about who is there or what may be
    said, on the loop's thread.
    """

    kinds = ("chat",)

    def __init__(self, me: MEWParticipant, *, on_change: Callable[[int], None] = lambda n: None) -> None:
        self._me = me
        self.on_change = on_change
        self._said: dict[int, Said] = {}
        self._awaiting: dict[int, None] = {}
        self._numbers: dict[str, int] = {}
        self._waiting = {one.id: one.sender for one in me.chats.pending}
        self._sizes: deque[int] = deque()  # characters of each that is held
        self._characters = 0
        self._count = 0
        self._leave = (me.chats.on_change(self._queue_changed), me.client.on_message(self._heard))

    def close(self) -> None:
        """Listens to its participant no longer."""
        for leave in self._leave:
            leave()

    # --- what any thread may ask ---

    @property
    def last(self) -> int:
        """The number of the newest message, 0 before the first."""
        return self._count

    def messages(self, *, after: int = 0, before: int | None = None, limit: int = 200) -> list[Said]:
        """The newest messages held behind `after` and before `before`, at most `limit`, oldest first."""
        first = self._count - len(self._said) + 1
        end = self._count if before is None else min(self._count, before - 1)
        numbers = range(max(first, after + 1, end - limit + 1), end + 1)
        return [one for n in numbers if (one := self._said.get(n)) is not None]

    def message(self, n: int) -> Said | None:
        """One message; None when it is not held."""
        return self._said.get(n)

    @property
    def queue(self) -> list[Said]:
        """What awaits this participant's acknowledgement, oldest first."""
        held = (self._said.get(n) for n in sorted(self._awaiting.copy()))
        return [one for one in held if one is not None and one.awaits]

    @property
    def people(self) -> list[str]:
        """Who can be spoken to."""
        return sorted(name for name in self._me.client.participants.copy() if name != GATEWAY)

    @property
    def me(self) -> str:
        """What the space calls this participant."""
        return self._me.client.id

    def may(self, kind: str) -> bool:
        """Whether this participant may send a message of that kind. Spec: §4.1."""
        payload = {"chat": {"text": ""}, "chat/acknowledge": {"status": "received"}}
        return self._me.saying.permitted(kind, payload.get(kind, {"reason": next(iter(REASONS))}))

    # --- what it does; each gives one sentence ---

    async def say(self, text: str, to: Sequence[str] = (), *, markdown: bool = False) -> str:
        """Says something to everybody, or addressed to some; returns once the gateway has taken it.

        Raises:
            MewError: there is nothing to say, or too much.
            CapabilityViolation, Refused, NoReply, ConnectionLost: as `MessageSender.say_accepted`.

        Spec: §3.4.
        """
        if not text.strip():
            raise MewError("there is nothing to say: write something first")
        if len(text) > MAX_SAY:
            raise MewError(f"that is more than {MAX_SAY} characters; share a file, or say it in parts")
        payload = {"text": text, "format": "markdown"} if markdown else {"text": text}
        await self._me.saying.say_accepted("chat", payload, to=tuple(to))
        return f"Said to {', '.join(to) if to else 'everybody'}."

    async def acknowledge(self, n: int, status: str = "received") -> str:
        """Acknowledges one message to its author.

        Raises:
            MewError: it is not held, does not wait for that, or its id means another message.
            CapabilityViolation, Refused, NoReply, ConnectionLost: as `MessageSender.say_accepted`.

        Spec: §3.4.1.
        """
        one = self._held(n, "acknowledged")
        if not one.awaits:
            raise MewError(
                f"nothing was acknowledged: the message of {one.sender} does not wait for it any more"
            )
        await self._acknowledged(one, _word(status, "status"))
        return f"Acknowledged to {one.sender} ({status})."

    async def acknowledge_all(self, status: str = "received", *, until: int | None = None) -> str:
        """Acknowledges each message that waits, up to number `until`; one message to each author. As `acknowledge`.

        Spec: §3.4.1.
        """
        word, done = _word(status, "status"), 0
        for one in self.queue:
            if until is None or one.n <= until:
                current = self._said.get(one.n)
                if (
                    current is not None and current.awaits
                ):  # else it was cancelled while an earlier one was sent
                    await self._acknowledged(one, word)
                    done += 1
        return f"{done} message{'' if done == 1 else 's'} acknowledged ({status})."

    async def cancel(self, n: int, reason: str = "handled_elsewhere") -> str:
        """Says that a message needs no attention any more: an own one to all, another's for oneself.

        Raises:
            MewError: it is not held, it was cancelled before, or its id means another message.
            CapabilityViolation, Refused, NoReply, ConnectionLost: as `MessageSender.say_accepted`.

        Spec: §3.4.2.
        """
        one = self._held(n, "cancelled")
        if one.cancelled:
            raise MewError(f"nothing was cancelled: {one.cancelled} has cancelled that message already")
        to = tuple(name for name in one.to if name != self.me) if one.mine else (one.sender,)
        payload = {"reason": _word(reason, "reason")}
        await self._me.saying.say_accepted("chat/cancel", payload, to=self._present(to), about=one.id)
        self._me.chats.settle(one.id, "cancelled")
        return f"The message of {one.sender} was cancelled ({reason})."

    async def _acknowledged(self, one: Said, status: str) -> None:
        to = self._present((one.sender,))
        await self._me.saying.say_accepted("chat/acknowledge", {"status": status}, to=to, about=one.id)
        self._me.chats.settle(one.id, "acknowledged")

    def _present(self, names: Sequence[str]) -> tuple[str, ...]:
        # What is said to somebody who has left is said to all, so that it stands in the record.
        return tuple(name for name in names if name in self._me.client.participants)

    def _held(self, n: int, deed: str) -> Said:
        one = self._said.get(n)
        if one is None:
            raise MewError(f"message {n} is not held here any more; lab.log.df has it")
        first = self._numbers.get(one.id) == n and self._waiting.get(one.id, one.sender) == one.sender
        if not first or (not one.mine and self._me.chats.own(one.id) is not None):
            raise MewError(
                f"nothing was {deed}: this message of {one.sender} bears the id of an earlier one, which would be "
                f"{deed} instead; answer it in words"
            )
        return one

    # --- what is heard ---

    def take(self, heard: Entry) -> None:
        """Takes note of one envelope."""
        if heard.refused:
            return
        if heard.kind == "chat":
            self._message(heard)
        elif heard.kind in ("chat/acknowledge", "chat/cancel") and len(heard.sender) <= MAX_NAME:
            for id in dict.fromkeys(heard.correlation_id):
                one = self._said.get(self._numbers.get(id, 0))
                if one is None:
                    continue
                if heard.kind == "chat/acknowledge":
                    self._seen(one, heard)
                else:
                    self._cancelled(one, heard)

    def _message(self, heard: Entry) -> None:
        payload, me = heard.payload, self.me
        id, text = heard.id, payload.get("text")
        if not id or not isinstance(text, str):
            return
        n = self._count + 1
        shown, to, context, size = text[:MAX_TEXT], heard.to, heard.context, len(heard.raw)
        addressed = me in to
        if size > SHORT:
            if len(id) > MAX_ID or len(heard.sender) > MAX_NAME:
                return
            to, context = cut_names(to, most=MAX_TO), cut(context, MAX_CONTEXT)
            size = len(shown) + len(context) + sum(map(len, to))
        answers = 0
        for about in heard.correlation_id:
            if answers := self._numbers.get(about, 0):
                break
        first = self._numbers.setdefault(id, n) == n  # who took the id first keeps it
        self._characters += size
        self._sizes.append(size)
        one = Said(  # by position: names cost twice as much, thousands of times a second
            n,
            heard.seq,
            id,
            heard.t,
            heard.sender,
            to,
            shown,
            len(text) - len(shown),
            payload.get("format") == "markdown",
            context,
            answers,
            heard.sender == me,
            addressed,
            first and self._waiting.get(id) == heard.sender,
        )
        self._said[n] = one
        self._count = n
        while len(self._said) > MAX_MESSAGES or (self._characters > MAX_CHARACTERS and len(self._said) > 1):
            old = self._said.pop(n - len(self._said) + 1)
            self._awaiting.pop(old.n, None)
            self._characters -= self._sizes.popleft()
            if self._numbers.get(old.id) == old.n:
                del self._numbers[old.id]
        self._put(one)

    def _seen(self, one: Said, heard: Entry) -> None:
        status = heard.payload.get("status")
        said = Seen(heard.sender, one_line(status, MAX_WORD) if isinstance(status, str) else "", heard.t)
        others = tuple(seen for seen in one.seen if seen.by != heard.sender)
        if len(others) < MAX_SEEN_BY:
            self._put(one._replace(seen=(*others, said)))

    def _cancelled(self, one: Said, heard: Entry) -> None:
        if heard.sender not in (one.sender, self.me):
            if heard.sender not in one.claims and len(one.claims) < 5:
                self._put(one._replace(claims=(*one.claims, heard.sender)))
        elif not one.cancelled:
            reason = heard.payload.get("reason")
            said = one_line(reason, MAX_WORD) if isinstance(reason, str) else ""
            self._put(one._replace(cancelled=heard.sender, reason=said, awaits=False))

    def _queue_changed(self, change: ChatChange) -> None:
        if change.what == "arrived":
            self._waiting[change.id] = change.by
        elif change.what in ("acknowledged", "cancelled", "dropped"):
            self._waiting.pop(change.id, None)
        one = self._said.get(self._numbers.get(change.id, 0))
        if one is not None and not one.mine:
            awaits = self._waiting.get(change.id) == one.sender
            if awaits != one.awaits:
                self._put(one._replace(awaits=awaits))

    def _heard(self, envelope: Envelope) -> None:
        if envelope.kind in ("system/presence", "system/welcome"):
            self.on_change(0)

    def _put(self, one: Said) -> None:
        self._said[one.n] = one
        if one.awaits:
            self._awaiting[one.n] = None
        else:
            self._awaiting.pop(one.n, None)
        self.on_change(one.n)


def _word(given: str, what: str) -> str:
    if not given.strip() or len(given) > MAX_WORD:
        raise MewError(
            f"a {what} has 1 to {MAX_WORD} characters; choose one of the list, or write a shorter one"
        )
    return given.strip()
