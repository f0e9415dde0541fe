"""Decides whether an agent answers a chat message; pure: what was said and what is known of it in, a verdict out.

Whether an unaddressed message is worth an answer is a model's to say; that it is asked at all, and what its
answer means, is decided here. Three rules keep two agents from talking for ever: nobody answers themselves, an
exchange of answers to answers ends after `MAX_EXCHANGE`, and answers a minute are limited.

Spec: SDK "Chat Message Response Strategy".
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from mew_lab.ledger.calls import CallIndex, Proposal
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope

__all__ = [
    "Attention",
    "Classification",
    "Exchanges",
    "Habits",
    "Rate",
    "judge",
    "read_classification",
    "tells_outcome",
]

MAX_EXCHANGE = 4
MAX_REMEMBERED = 10_000
MAX_JSON = 10_000  # characters of a classification that are read
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
    """What to do with one message: `respond`, `classify` (ask the model), or `ignore`; and why."""

    verdict: str
    why: str


def judge(message: Envelope, *, me: str, name: str, habits: Habits, exchange: int = 0) -> Attention:
    """What to do with a chat message.

    Args:
        name: what the agent is called in speech; its id `me` counts as well.
        exchange: how many answers of ours it answers, each of which answered the one before.
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
    """Whether a chat message tells how a proposal of ours was fulfilled, such as what was changed in it.

    It names the proposal and its fulfilment in `correlation_id`. It is kept in mind and wants no answer.
    """
    named = (proposals.get(id) for id in message.correlation_id)
    return any(
        one is not None and one.proposer == me and one.fulfilment in message.correlation_id for one in named
    )


def mentions(text: str, names: Sequence[str]) -> bool:
    """Whether one of the names stands in the text as a word of its own, in whatever case; not in an address."""
    said = _ADDRESS.sub(" ", text)
    return any(
        re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|[.@]\w)", said, re.IGNORECASE)
        for name in names
        if name
    )


class Classification(NamedTuple):
    """What a model says of a message that is addressed to nobody."""

    should_respond: bool
    confidence: float
    reason: str

    def above(self, threshold: float) -> bool:
        """Whether to answer."""
        return self.should_respond and self.confidence > threshold


def read_classification(text: str) -> Classification | None:
    """What the model's JSON says; None when it is no such JSON. Prose around it is passed over."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end - start > MAX_JSON:
        return None
    try:
        said = json.loads(text[start : end + 1])
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    should, confidence = said.get("shouldRespond"), said.get("confidence")
    if (
        not isinstance(should, bool)
        or isinstance(confidence, bool)
        or not isinstance(confidence, int | float)
    ):
        return None
    if not 0 <= confidence <= 1:
        return None
    return Classification(should, float(confidence), str(said.get("reason", ""))[:300])


class Exchanges:
    """How often answers have answered answers; remembers the newest messages alone."""

    def __init__(self) -> None:
        self._depths: BoundedDict[str, int] = BoundedDict(MAX_REMEMBERED)

    def depth(self, message: Envelope) -> int:
        """How many of our answers stand one upon the other below this message."""
        return max((self._depths.get(id, 0) for id in message.correlation_id), default=0)

    def answered(self, message: Envelope, answer_id: str) -> None:
        """`answer_id` is our answer to the message."""
        self._depths[answer_id] = self.depth(message) + 1


class Rate:
    """How many answers a minute: in all, and to one sender. Time is an argument, in seconds."""

    def __init__(self, *, in_all: int = 60, to_one: int = 12, window: float = 60.0) -> None:
        self._in_all, self._to_one, self._window = in_all, to_one, window
        self._answers: deque[tuple[float, str]] = deque()

    def take(self, sender: str, *, now: float) -> bool:
        """Whether one more answer to `sender` is within the limits; if so, it is counted."""
        while self._answers and self._answers[0][0] <= now - self._window:
            self._answers.popleft()
        if len(self._answers) >= self._in_all:
            return False
        if sum(one == sender for _, one in self._answers) >= self._to_one:
            return False
        self._answers.append((now, sender))
        return True
