"""Sends an answer to the sender of the question, exactly once, across pauses and broken links.

A run waits for `ready_to_send` before each step; `deliver` sends the answer. After a refusal because of a pause, or a
broken link, the answer is sent again under the same id. An answer that can never be sent is replaced by the reason.

Spec: §3.4, §3.9.1, ruling R14.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from mew_lab.errors import ConnectionLost, LocalProtocolError, MewError
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.text import abridge, mend_surrogates
from mew_lab.protocol.token import mask
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.participant import MEWParticipant

__all__ = ["deliver", "is_paused", "ready_to_send"]

logger = logging.getLogger(__name__)
MAX_ANSWER = 100_000  # characters; each takes at most six bytes, and a message is at most a mebibyte


async def ready_to_send(participant: MEWParticipant) -> bool:
    """Waits until there is a link and no pause; returns False if the participant is disconnected for good."""
    client = participant.client
    news = asyncio.Event()
    offs = [client.on_welcome(lambda _: news.set()), client.on_disconnected(lambda _: news.set())]
    try:
        while True:
            news.clear()
            if client.state == "disconnected":
                return False
            if client.state != "ready":
                await news.wait()
            elif participant.controls.pause_state is None:
                return True
            else:
                await participant.controls.wait_active()
    finally:
        for off in offs:
            off()


def is_paused(fault: BaseException) -> bool:
    """Whether an error means that a message was not sent because of a pause."""
    return getattr(fault, "code", None) == "paused"


async def deliver(
    participant: MEWParticipant, text: str, *, question: Envelope, on_id: Callable[[str], None]
) -> bool:
    """Sends the text to the sender of the question; returns whether the gateway accepted it.

    Args:
        on_id: called with the id of the answer before it is sent.
    """
    client = participant.client
    text = abridge(mend_surrogates(mask(text)), MAX_ANSWER)
    id, excused = "", False
    while await ready_to_send(participant) and not participant.chats.cancelled(question.id):
        try:
            payload = {"text": text}
            answer = participant.sender.complete(
                "chat", payload, to=question.sender, about=question.id, context=question.context
            )
            if id:
                # The same id: where both arrive, all readers take them for one answer.
                answer = client.complete({**answer.members, "id": id})
            id = answer.id
            on_id(id)
            await participant.sender.send_accepted(answer)
            return True
        except ConnectionLost as fault:
            logger.info("the answer to %s waits: %s", question.id, fault)
        except LocalProtocolError as fault:
            if is_paused(fault):
                continue
            if excused or fault.code == "shut_down":
                return False
            id, excused = "", True
            text = f"My answer cannot be sent: {one_line(str(fault), 300)}"
        except MewError as fault:
            if not is_paused(fault):
                logger.warning("the answer to %s was not accepted: %s", question.id, fault)
                return False
    return False
