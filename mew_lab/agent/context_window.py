"""Keeps the conversation of an agent, and fits each prompt into the context of its model.

`Memory` is the conversation: a list, its size in tokens, and its trimming; pure. Only chat outside of any context is
kept, so that other agents' reasoning and welcomes to others never reach a prompt. Tokens are estimated from the text,
because no two models count alike.

`ContextWindow` trims. Before each call of the model it frees 30 % of the context: first the oldest conversation, then
the middle of the longest message. Every trimming is announced and reported by `participant/status`. It also carries
out the controls of other participants: forget, compact, clear, restart, shutdown.

Spec: §3.5.6, §3.9.5 to §3.9.10, SDK "Conversation History", "Automatic Context Compaction".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from mew_lab.agent.model import Message, estimate_prompt, estimate_tokens
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.intake import malformed
from mew_lab.protocol.text import abridge
from mew_lab.sdk.controls import Compacted
from mew_lab.sdk.participant import MEWParticipant

__all__ = ["ContextWindow", "Freed", "Memory", "Remembered"]

MAX_ENTRIES = 1000
MAX_TEXT = 100_000  # characters of one message that are kept
HEADROOM = 0.3  # of the context that stays free


class Remembered(NamedTuple):
    """One message of the conversation."""

    id: str
    sender: str
    text: str
    tokens: int


class Freed(NamedTuple):
    """The result of a trimming: tokens and messages that were freed."""

    tokens: int
    messages: int


class Memory:
    """The conversation of one agent, the oldest message first. `mark` words the sender of a message for the model."""

    def __init__(self, *, mark: Callable[[str], str] = str) -> None:
        self._mark = mark
        self._entries: list[Remembered] = []
        self._tokens = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> Sequence[Remembered]:
        """The remembered messages."""
        return tuple(self._entries)

    @property
    def tokens(self) -> int:
        """About how many tokens all of it takes."""
        return self._tokens

    def observe(self, envelope: Envelope) -> bool:
        """Keeps a chat message, the agent's own or another's, unless it belongs to a context; returns whether it did."""
        if envelope.kind != "chat" or envelope.context is not None:
            return False
        text = envelope.payload.get("text")
        if not isinstance(text, str):
            return False
        text = abridge(text, MAX_TEXT)
        self._entries.append(Remembered(envelope.id, envelope.sender, text, estimate_tokens(text)))
        self._tokens += self._entries[-1].tokens
        if len(self._entries) > MAX_ENTRIES:
            self._drop(slice(0, 1))
        return True

    def restore(self, envelopes: Iterable[Envelope], *, me: str) -> None:
        """Puts the conversation of these earlier messages before what is remembered, as the agent `me` kept it then.

        What it was told to forget or to clear stays forgotten.
        """
        recent = self._entries
        known = {entry.id for entry in recent}
        self._entries, self._tokens = [], 0
        for envelope in envelopes:
            if envelope.id not in known:
                self.observe(envelope)
            if me not in envelope.to or malformed(envelope):
                continue
            if envelope.kind in ("participant/clear", "participant/restart"):
                self.clear()
            elif envelope.kind == "participant/forget":
                self.forget(envelope.payload["direction"], envelope.payload.get("entries"))
        self._entries += recent
        self._drop(slice(0, max(0, len(self._entries) - MAX_ENTRIES)))
        self._tokens = sum(entry.tokens for entry in self._entries)

    def before(self, id: str, *, length: int, me: str) -> list[Message]:
        """The last `length` messages before the message `id`, as prompt messages; those of `me` as the assistant's."""
        entries = self._entries
        end = next((n for n, entry in enumerate(entries) if entry.id == id), len(entries))
        chosen = entries[max(0, end - length) : end] if length > 0 else []
        return [
            Message("assistant", entry.text)
            if entry.sender == me
            else Message("user", f"{self._mark(entry.sender)}: {entry.text}")
            for entry in chosen
        ]

    def forget(self, direction: str, entries: int | None = None) -> Freed:
        """Drops messages from one end, `oldest` or `newest`; half of them where the number is None."""
        count = -(-len(self._entries) // 2) if entries is None else max(0, min(entries, len(self._entries)))
        cut = slice(0, count) if direction == "oldest" else slice(len(self._entries) - count, None)
        return self._drop(cut)

    def compact(self, target: int) -> Freed:
        """Drops the oldest messages until the rest takes at most `target` tokens."""
        left, count = self.tokens, 0
        for entry in self._entries:
            if left <= target:
                break
            left -= entry.tokens
            count += 1
        return self._drop(slice(0, count))

    def clear(self) -> Freed:
        """Forgets everything."""
        return self._drop(slice(None))

    def _drop(self, cut: slice) -> Freed:
        dropped = self._entries[cut]
        del self._entries[cut]
        freed = sum(entry.tokens for entry in dropped)
        self._tokens -= freed
        return Freed(freed, len(dropped))


SHORTEST = 200  # characters of a message that are left at least
COMPACTED = 0.5  # of the memory that is left after a compaction without a target


class ContextWindow:
    """The context window of one agent's model.

    Args:
        max_tokens: the length of its model's context; None when it is not known: then nothing is trimmed.
        stop_work: ends all work, with a reason.
    """

    def __init__(
        self,
        participant: MEWParticipant,
        memory: Memory,
        *,
        max_tokens: int | None,
        stop_work: Callable[[str], Awaitable[object]],
    ) -> None:
        self._participant = participant
        self._memory = memory
        self._max_tokens = max_tokens
        self._stop_work = stop_work
        self._prompt_tokens = 0  # tokens of the last prompt, as the model counted

    def set_limit(self, max_tokens: int | None) -> None:
        """Sets the length of the model's context, once it is known."""
        self._max_tokens = self._participant.telemetry.max_tokens = max_tokens

    def attach(self) -> list[Callable[[], None]]:
        """Connects to the participant's telemetry and controls; returns functions that end this."""
        telemetry, controls = self._participant.telemetry, self._participant.controls
        telemetry.automatic = False
        telemetry.max_tokens = self._max_tokens
        return [
            controls.keep_context("participant/forget", self._forget),
            controls.keep_context("participant/compact", self._compact),
            controls.keep_context("participant/clear", lambda: self._clear("cleared")),
            controls.keep_context("participant/restart", lambda: self._clear("restart")),
            controls.keep_context("participant/shutdown", lambda: self._stop_work("shutdown")),
        ]

    # --- counting ---

    def record_usage(self, tokens: int) -> None:
        """Records the tokens of one exchange with the model."""
        self._prompt_tokens = tokens
        self.update_telemetry()

    def update_telemetry(self) -> None:
        """Updates the telemetry."""
        tokens = max(self._prompt_tokens, self._memory.tokens)
        self._participant.telemetry.set_context_usage(tokens=tokens, messages=len(self._memory))

    def excess(self, messages: list[Message]) -> int:
        """The estimated tokens by which the messages exceed the context less its free part; 0 when they fit."""
        if self._max_tokens is None:
            return 0
        return max(0, _size(messages) - int(self._max_tokens * (1 - HEADROOM)))

    # --- trimming ---

    def ensure_context_headroom(self, target: int | None = None) -> Freed:
        """Drops the oldest conversation until at most `target` tokens are left; announces and reports it.

        None is the context less its free part, where its length is known and the conversation takes more.
        """
        if target is None:
            target = (
                self._memory.tokens if self._max_tokens is None else int(self._max_tokens * (1 - HEADROOM))
            )
            if self._memory.tokens <= target:
                return Freed(0, 0)
        telemetry = self._participant.telemetry
        telemetry.tell("compacting")
        freed = self._report_freed(self._memory.compact(target))
        telemetry.report_compaction(freed_tokens=freed.tokens, freed_messages=freed.messages)
        return freed

    def shorten(self, messages: list[Message]) -> list[Message]:
        """Leaves out pictures, the oldest first, then shortens the longest message repeatedly, until all fit or each
        has its minimal length."""
        messages = list(messages)
        while self.excess(messages):
            pictured = next((n for n, message in enumerate(messages) if message.pictures), None)
            if pictured is not None:
                del messages[pictured]  # its answer names them
                continue
            longest = max(range(len(messages)), key=lambda n: len(messages[n].content))
            size = len(messages[longest].content)
            if size <= SHORTEST:
                break
            content = abridge(messages[longest].content, max(SHORTEST - 60, size // 2))
            messages[longest] = messages[longest]._replace(content=content)
        return messages

    def _report_freed(self, freed: Freed) -> Freed:
        self._prompt_tokens = 0
        self.update_telemetry()
        return freed

    # --- controls of other participants ---

    def _forget(self, direction: str, entries: int | None) -> None:
        self._report_freed(self._memory.forget(direction, entries))

    def _compact(self, reason: str | None, target_tokens: int | None) -> Compacted | None:
        target = int(self._memory.tokens * COMPACTED) if target_tokens is None else target_tokens
        freed = self._report_freed(self._memory.compact(target))
        return Compacted(freed.tokens, freed.messages) if freed.messages else None

    async def _clear(self, why: str) -> None:
        await self._stop_work(why)
        self._report_freed(self._memory.clear())


def _size(messages: list[Message]) -> int:
    calls = [str(call.arguments) + call.name for message in messages for call in message.tool_calls]
    return estimate_prompt(messages) + estimate_tokens(*calls)
