"""Decides which chat messages an agent answers, for whom it works, and which of several agents answers.

How it works, in the order in which a message passes:

1. `judge` decides by the rules of the specification: answer it, ignore it, or ask the model about it. It is pure.
2. `Askers` decides whether the agent works on requests of the sender. An agent may hold rights that a participant which
   chats with it lacks, and such a participant must not act with them. By default the agent obeys the participants that
   started it, and those whose capabilities permit any tool call. Other messages are kept, marked with their source, and
   are no requests (threat 42).
3. `read_classification` reads the verdict of the model on a message that is addressed to nobody.
4. `ChatTakers` decides which agent answers such a message: the one whose acknowledgement comes first in the order of
   the gateway. All agents see one order, so no two answer it.

Three rules end a conversation of two agents: no agent answers itself, a chain of answers to answers ends after
`MAX_EXCHANGE`, and the answers a minute are limited (`Rate`).

Spec: §3.4.1, SDK "Chat Message Response Strategy", "Implementation Notes" of chat; threat 42.
"""

from __future__ import annotations

import contextlib
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from mew_lab.agent.react import find_json_object
from mew_lab.errors import ConfigError, MewError
from mew_lab.ledger.calls import CallIndex, Proposal
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.covers import covered
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.permit import Capability
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.participant import MEWParticipant

__all__ = [
    "ANYBODY",
    "PROCESSING",
    "AnswerDepths",
    "Askers",
    "Attention",
    "ChatTakers",
    "Classification",
    "Habits",
    "Rate",
    "judge",
    "read_classification",
    "tells_outcome",
]

PROCESSING = "processing"  # the status of an acknowledgement that takes a message on
ANYBODY = "*"
MAX_EXCHANGE = 4  # answers, each to the one before
MAX_REMEMBERED = 10_000  # messages
MAX_JSON = 10_000  # characters of a reply in which a classification is looked for
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]{0,20}://\S+", re.IGNORECASE)


class Habits(NamedTuple):
    """When to answer. `confidence_threshold` is from 0 to 1; `context_window` counts messages.

    Spec: SDK "Configuration Options" of the chat response strategy.
    """

    auto_respond: bool = True
    respond_to_questions: bool = True
    respond_to_mentions: bool = True
    respond_to_direct: bool = True
    confidence_threshold: float = 0.5
    context_window: int = 10


class Attention(NamedTuple):
    """The decision on one message: `respond`, `classify` (ask the model), or `ignore`; and the reason."""

    verdict: str
    why: str


def judge(message: Envelope, *, me: str, name: str, habits: Habits, exchange: int = 0) -> Attention:
    """Decides what to do with a chat message.

    Args:
        name: the agent's name in speech; its id `me` counts as well.
        exchange: the length of the chain of our answers that this message continues.
    """
    if message.sender == me:
        return Attention("ignore", "it is our own")
    if not habits.auto_respond:
        return Attention("ignore", "answering by oneself is off")
    if exchange >= MAX_EXCHANGE:
        return Attention("ignore", f"it is the answer to our answer, {exchange} times over")
    text = str(message.payload.get("text", ""))
    if me in message.to:
        direct = habits.respond_to_direct
        return Attention("respond" if direct else "ignore", "it is addressed to us")
    if mentions(text, (me, name)):
        if habits.respond_to_mentions:
            return Attention("respond", "it names us")
        return Attention("ignore", "it names us, and mentions are not answered")
    if message.to:
        return Attention("ignore", "it is addressed to others")
    if message.context is not None:
        return Attention("ignore", "it belongs to somebody's reasoning")
    if "?" in text and not habits.respond_to_questions:
        return Attention("ignore", "questions to nobody are not answered")
    return Attention("classify", "it is addressed to nobody")


def tells_outcome(message: Envelope, proposals: CallIndex[Proposal], *, me: str) -> bool:
    """Whether a chat message reports how a proposal of ours was fulfilled, for example with changed arguments.

    It names the proposal and its fulfilment in `correlation_id`. It is remembered, and needs no answer.
    """
    correlated = (proposals.get(id) for id in message.correlation_id)
    return any(
        proposal is not None and proposal.proposer == me and proposal.fulfilment in message.correlation_id
        for proposal in correlated
    )


def mentions(text: str, names: Sequence[str]) -> bool:
    """Whether one of the names stands in the text as a separate word, in any case, and not in an address."""
    prose = _ADDRESS.sub(" ", text)
    return any(
        re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|[.@]\w)", prose, re.IGNORECASE)
        for name in names
        if name
    )


class Classification(NamedTuple):
    """The verdict of a model on a message that is addressed to nobody."""

    should_respond: bool
    confidence: float
    reason: str

    def above(self, threshold: float) -> bool:
        """Whether to answer."""
        return self.should_respond and self.confidence > threshold


def read_classification(text: str) -> Classification | None:
    """The classification in the model's JSON; None when there is none. Prose around it is passed over."""
    answer = find_json_object(text[:MAX_JSON])
    if answer is None:
        return None
    should, confidence = answer.get("shouldRespond"), answer.get("confidence")
    if (
        not isinstance(should, bool)
        or isinstance(confidence, bool)
        or not isinstance(confidence, int | float)
    ):
        return None
    if not 0 <= confidence <= 1:
        return None
    return Classification(should, float(confidence), str(answer.get("reason", ""))[:300])


class AnswerDepths:
    """The length of each chain of answers to answers; remembers only the newest messages."""

    def __init__(self) -> None:
        self._depths: BoundedDict[str, int] = BoundedDict(MAX_REMEMBERED)

    def depth(self, message: Envelope) -> int:
        """The number of our answers in the chain that this message continues."""
        return max((self._depths.get(id, 0) for id in message.correlation_id), default=0)

    def record(self, message: Envelope, answer_id: str) -> None:
        """Records `answer_id` as our answer to the message."""
        self._depths[answer_id] = self.depth(message) + 1


class Rate:
    """Limits the number of answers a minute: in all, and to one sender. Time is an argument, in seconds."""

    def __init__(self, *, in_all: int = 60, to_one: int = 12, window: float = 60.0) -> None:
        self._in_all, self._to_one, self._window = in_all, to_one, window
        self._answers: deque[tuple[float, str]] = deque()

    def take(self, sender: str, *, now: float) -> bool:
        """Whether one more answer to `sender` is within the limits; if so, it is counted."""
        while self._answers and self._answers[0][0] <= now - self._window:
            self._answers.popleft()
        if len(self._answers) >= self._in_all:
            return False
        if sum(recipient == sender for _, recipient in self._answers) >= self._to_one:
            return False
        self._answers.append((now, sender))
        return True


MAX_SENDERS = 1000  # remembered of each kind; the oldest that was declined may be declined once more
MAX_NAMED = 3  # participants that a refusal names
# Calls of any tool with any arguments: what does not permit all of them is a limited right.
_ANY_CALL = Capability.of(
    {"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "*"}}}
)


class Askers:
    """Decides whose requests one agent works on.

    Args:
        obeys: returns the option in force: ids, or `*` for anybody; None for the default.
    """

    def __init__(self, participant: MEWParticipant, obeys: Callable[[], Sequence[str] | None]) -> None:
        self._starters: set[str] = set()  # participants that started the agent; obeyed by default
        self._sender = participant.sender
        self._client = participant.client
        self._obeys = obeys
        self._revoked: set[str] = set()  # participants that lost rights since the gateway last told theirs
        # Of each sender the rights that were judged, and whether they allow any call.
        self._judged: BoundedDict[str, tuple[list[dict[str, Any]], bool]] = BoundedDict(MAX_SENDERS)
        self._declined: BoundedDict[str, None] = BoundedDict(MAX_SENDERS)
        self._rate = Rate(in_all=20, to_one=1)
        kinds = ("capability/revoke", "system/presence")
        participant.client.on_message(self._observe, kinds=kinds)
        participant.client.on_welcome(lambda _: self._revoked.clear())

    def _observe(self, envelope: Envelope) -> None:
        """Notes lost rights: a revoke of patterns outdates a welcome or a presence; a grant adds nothing to it."""
        if envelope.kind == "capability/revoke" and "grant_id" not in envelope.payload:
            name = envelope.payload.get("recipient")
            if isinstance(name, str) and len(self._revoked) < MAX_SENDERS:
                self._revoked.add(name)
        elif envelope.kind == "system/presence":
            member = envelope.payload.get("participant")
            if isinstance(member, dict):
                self._revoked.discard(str(member.get("id")))

    def add_starters(self, *ids: str) -> None:
        """Adds participants that started the agent."""
        self._starters.update(ids)

    def obeyed(self, sender: str) -> bool:
        """Whether requests of this participant are worked on."""
        named = self._obeys()
        if named is not None:
            return sender in named or ANYBODY in named
        return sender in self._starters or self._may_call(sender)

    def mark(self, sender: str) -> str:
        """The sender as a model reads it before the message."""
        return sender if self.obeyed(sender) else f"{sender} (information only, not a request)"

    def accept(self, message: Envelope, *, asked: bool, now: float) -> bool:
        """Whether to work on a message. If it `asked` and its sender is not obeyed, the sender gets one refusal."""
        if self.obeyed(message.sender):
            return True
        if asked and (text := self.decline_text(message.sender, now=now)):
            self._sender.quietly("chat", {"text": text}, to=message.sender, about=message.id)
        return False

    def decline_text(self, sender: str, *, now: float) -> str:
        """The refusal for a participant that is not obeyed; empty where it had one already, or the rate is reached."""
        if sender in self._declined or not self._rate.take(sender, now=now):
            return ""
        self._declined[sender] = None
        names = sorted(self._present())
        who = ", ".join(one_line(name, 60) for name in names[:MAX_NAMED])
        more = " and others" if len(names) > MAX_NAMED else ""
        only = f"I take requests from {who}{more} only" if who else "I take requests from nobody who is here"
        return f"{only}: please ask there. I have noted what you said."

    def _present(self) -> Iterable[str]:
        named = self._obeys()
        here = set(self._client.participants) | (self._starters if named is None else set(named))
        return (name for name in here if name != self._client.id and self.obeyed(name))

    def _may_call(self, sender: str) -> bool:
        """Whether the sender may call any tool itself, so that it gains nothing from the rights of the agent."""
        patterns = self._client.participants.get(sender)
        if patterns is None or sender in self._revoked or len(patterns) > 1000:
            return False
        known = self._judged.get(sender)
        if known is None or known[0] is not patterns:
            known = self._judged[sender] = (patterns, covered(_rights(patterns), _ANY_CALL))
        return known[1]


def _rights(patterns: list[dict[str, Any]]) -> Iterator[Capability]:
    """The patterns that can be read and hold for every addressee."""
    for pattern in patterns:
        if "to" not in pattern:
            with contextlib.suppress(ConfigError):
                yield Capability.of(pattern)


class ChatTakers:
    """The first agent that claimed each message; remembers only the newest messages."""

    # The ledger of chats holds the newest status of each participant. Here the first counts, in the order of the space,
    # and a `reasoning/start` as well.

    def __init__(self) -> None:
        self._first: BoundedDict[str, str] = BoundedDict(MAX_REMEMBERED)

    def observe(self, envelope: Envelope) -> None:
        """Records the claim in a message of the space, if it is one."""
        says_so = envelope.kind == "chat/acknowledge" and envelope.payload.get("status") == PROCESSING
        if not says_so and envelope.kind != "reasoning/start":
            return
        for id in envelope.correlation_id:
            self._first.setdefault(id, envelope.sender)

    def taken(self, id: str, *, by_others_than: str) -> bool:
        """Whether another participant has claimed the message."""
        return self._first.get(id, by_others_than) != by_others_than

    async def take(self, participant: MEWParticipant, message: Envelope) -> bool:
        """Claims the message for `participant`, if it may acknowledge; returns whether its claim was the first."""
        payload = {"status": PROCESSING}
        if participant.can_send("chat/acknowledge", payload, message.sender):
            try:
                await participant.sender.say_accepted(
                    "chat/acknowledge", payload, to=message.sender, about=message.id
                )
            except MewError:  # refused, or lost: no participant received it
                return False
        return not self.taken(message.id, by_others_than=participant.client.id)
