"""Decides which chat messages an agent answers, for whom it works, and which of several agents answers.

How it works, in the order in which a message passes:

1. `judge` decides by the rules of the specification: answer it, ignore it, or ask the model about it. It is pure.
2. `Askers` (`sdk.askers`) decides whether the agent works on requests of the sender. Other messages are kept, marked
   with their source, and are no requests (threat 42).
3. `read_classification` reads the verdict of the model on a message that is addressed to nobody.
4. `ChatTakers` decides which agent answers such a message: the one whose acknowledgement comes first in the order of
   the gateway. All agents see one order, so no two answer it.

Three rules end a conversation of two agents: no agent answers itself, a chain of answers to answers ends after
`MAX_EXCHANGE`, and the answers a minute are limited (`Rate`).

Spec: §3.4.1, SDK "Chat Message Response Strategy", "Implementation Notes" of chat; threat 42.
"""

from __future__ import annotations

from typing import NamedTuple

from mew_lab.agent.react import find_json_object
from mew_lab.errors import MewError
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.askers import mentions
from mew_lab.sdk.participant import MEWParticipant

__all__ = [
    "PROCESSING",
    "AnswerDepths",
    "Attention",
    "ChatTakers",
    "Classification",
    "Habits",
    "judge",
    "read_classification",
]

PROCESSING = "processing"  # the status of an acknowledgement that takes a message on
MAX_EXCHANGE = 4  # answers, each to the one before
MAX_REMEMBERED = 10_000  # messages
MAX_JSON = 10_000  # characters of a reply in which a classification is looked for


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
