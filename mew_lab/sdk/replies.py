"""Who answers a question that is no MCP request?  One wait for each, and only the asked is believed.

Spec: §3.9.3, §3.9.6.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from mew_lab.errors import ConnectionLost, NoReply
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.sender import MessageSender

__all__ = ["Replies"]


class _Question:
    """One that waits: whom it asked, and its answer."""

    def __init__(self, asked: str) -> None:
        self.asked = frozenset({asked})
        self.answer: asyncio.Future[Envelope] = asyncio.get_running_loop().create_future()
        # Whoever asked may have gone; an error that nobody fetched must not be reported from a destructor.
        self.answer.add_done_callback(lambda future: future.cancelled() or future.exception())


class Replies:
    """The open questions of one kind of one participant: `question` is what it sends, `answer` what ends one."""

    def __init__(self, saying: MessageSender, *, question: str, answer: str) -> None:
        self._saying = saying
        self._question = question
        self._answer = answer
        self._open: dict[str, _Question] = {}

    def __len__(self) -> int:
        return len(self._open)

    async def ask(self, target: str, payload: Mapping[str, Any], *, timeout: float) -> Envelope:
        """Sends the question; the answer of `target` that correlates to it.

        Raises:
            Refused: the gateway refused the question (CapabilityViolation: it may not be sent).
            NoReply: no answer came within `timeout` seconds, or `target` is not there.
            LocalProtocolError: this participant is paused.
            ConnectionLost: there is no connection, or it ended meanwhile.
        """
        envelope = self._saying.complete(self._question, payload, to=target)
        question = self._open[envelope.id] = _Question(target)
        try:
            async with asyncio.timeout(timeout):
                await self._saying.send_accepted(envelope)
                self._miss(question)
                return await question.answer
        except NoReply:
            raise
        except TimeoutError:
            said = f"{target} did not answer {self._question} within {timeout:g} s; is it busy, or of another make?"
            raise NoReply(said, after_s=timeout, waiting_for=target) from None
        finally:
            del self._open[envelope.id]

    def observe(self, envelope: Envelope) -> None:
        """Takes note of one message of the space."""
        if envelope.kind == self._answer:
            for id in envelope.correlation_id:
                question = self._open.get(id)
                if question is not None and envelope.sender in question.asked and not question.answer.done():
                    question.answer.set_result(envelope)
        elif envelope.kind == self._question:
            question = self._open.get(envelope.id)
            if question is not None and envelope.sender == self._saying.client.id:
                question.asked |= frozenset(envelope.to)  # a logical name became the id behind it
        elif envelope.kind == "system/presence":
            for question in self._open.values():
                self._miss(question)

    def lost(self) -> None:
        """No answer can come any more."""
        for question in self._open.values():
            if not question.answer.done():
                question.answer.set_exception(
                    ConnectionLost(f"The connection ended before {self._question} was answered")
                )

    def _miss(self, question: _Question) -> None:
        client = self._saying.client
        if question.answer.done() or any(
            one == client.id or one in client.participants for one in question.asked
        ):
            return
        names = ", ".join(sorted(question.asked))
        said = f"Nobody can answer {self._question}: no participant {names} is in space {client.space!r} now"
        question.answer.set_exception(NoReply(said, after_s=0.0, waiting_for=names))
