"""Fits a prompt into the context of a model: counts, trims, and reports both.

Before each call of the model 30 % of its context is made free: the oldest conversation goes first, then the
middle of what is longest. Every trimming is announced and reported by `participant/status`; what others order
(forget, compact, clear, restart) is carried out here, too.

Spec: §3.9.5 to §3.9.10, SDK "Automatic Context Compaction".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from mew_lab.agent.memory import HEADROOM, Freed, Memory, estimate, shortened
from mew_lab.agent.model import Message
from mew_lab.sdk.controls import Compacted
from mew_lab.sdk.participant import MEWParticipant

__all__ = ["Headroom"]

SHORTEST = 200  # characters of a message that are left at least
COMPACTED = 0.5  # of the memory that is left when somebody asks for a compaction and names no target


class Headroom:
    """The context of one agent.

    Args:
        max_tokens: how long its model's context is; None when that is not known: then nothing is trimmed.
        ended: ends all work, with a reason.
    """

    def __init__(
        self,
        participant: MEWParticipant,
        memory: Memory,
        *,
        max_tokens: int | None,
        ended: Callable[[str], Awaitable[None]],
    ) -> None:
        self._participant = participant
        self._memory = memory
        self._max_tokens = max_tokens
        self._ended = ended
        self._prompt = 0  # tokens of the last prompt, as the model counted

    def limit(self, max_tokens: int | None) -> None:
        """The model's context is so long, as was found out meanwhile."""
        self._max_tokens = self._participant.telemetry.max_tokens = max_tokens

    def take(self) -> list[Callable[[], None]]:
        """From now on it counts for the participant's telemetry and carries out its controls; what ends that."""
        telemetry, controls = self._participant.telemetry, self._participant.controls
        telemetry.automatic = False
        telemetry.max_tokens = self._max_tokens
        return [
            controls.on_forget(self._forget),
            controls.on_compact(self._compact),
            controls.on_clear(self._clear),
            controls.on_restart(self._restart),
            controls.on_shutdown(self._shutdown),
        ]

    # --- counting ---

    def used(self, tokens: int) -> None:
        """The model has counted so many tokens of one exchange."""
        self._prompt = tokens
        self.counted()

    def counted(self) -> None:
        """Brings the telemetry up to date."""
        tokens = max(self._prompt, self._memory.tokens)
        self._participant.telemetry.set_context_usage(tokens=tokens, messages=len(self._memory))

    def over(self, messages: list[Message]) -> int:
        """About how many tokens the messages are too many, the free part counted in; 0 when they fit."""
        if self._max_tokens is None:
            return 0
        return max(0, _size(messages) - int(self._max_tokens * (1 - HEADROOM)))

    # --- trimming ---

    def ensure_context_headroom(self, target: int) -> Freed:
        """Forgets the oldest conversation until at most `target` tokens of it are left; says so before and after."""
        telemetry = self._participant.telemetry
        telemetry.tell("compacting")
        freed = self._trimmed(self._memory.compact(target))
        telemetry.report_compaction(freed_tokens=freed.tokens, freed_messages=freed.messages)
        return freed

    def cut(self, messages: list[Message]) -> list[Message]:
        """The messages with the longest of them shortened until all fit, as far as that goes."""
        messages = list(messages)
        while self.over(messages):
            longest = max(range(len(messages)), key=lambda n: len(messages[n].content))
            size = len(messages[longest].content)
            if size <= SHORTEST:
                break
            content = shortened(messages[longest].content, max(SHORTEST - 60, size // 2))
            messages[longest] = replace(messages[longest], content=content)
        return messages

    def _trimmed(self, freed: Freed) -> Freed:
        self._prompt = 0
        self.counted()
        return freed

    # --- what others order ---

    def _forget(self, direction: str, entries: int | None) -> None:
        self._trimmed(self._memory.forget(direction, entries))

    def _compact(self, reason: str | None, target_tokens: int | None) -> Compacted | None:
        target = int(self._memory.tokens * COMPACTED) if target_tokens is None else target_tokens
        freed = self._trimmed(self._memory.compact(target))
        return Compacted(freed.tokens, freed.messages) if freed.messages else None

    async def _clear(self) -> None:
        await self._ended("cleared")
        self._trimmed(self._memory.clear())

    async def _restart(self, payload: object) -> None:
        await self._ended("restart")
        self._trimmed(self._memory.clear())

    async def _shutdown(self, payload: object) -> None:
        await self._ended("shutdown")


def _size(messages: list[Message]) -> int:
    calls = (str(call.arguments) + call.name for message in messages for call in message.tool_calls)
    return sum(estimate(message.content) for message in messages) + sum(estimate(text) for text in calls)
