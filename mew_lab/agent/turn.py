"""Reads the current turn from a prompt, and puts a reply into the form of a schema; pure.

It serves models that are made of rules: their reply is a function of the request, the calls that were made for it, and
the observations of these calls. A language model reads the messages themselves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mew_lab.agent.model import Message, Reply, ToolCall
from mew_lab.agent.react import FAULTY, SCRATCHPAD_HEAD, read_scratchpad

__all__ = ["CurrentTurn", "MadeCall", "format_reply", "read_turn"]

MAX_REQUEST = 8_000  # characters of a request that are read


class MadeCall(NamedTuple):
    """A call of this turn and its observation."""

    name: str
    observation: str


class CurrentTurn(NamedTuple):
    """A request in work: its text, the calls that were made for it in their order, and the number of steps."""

    request: str
    done: tuple[MadeCall, ...]
    steps: int


def read_turn(messages: Sequence[Message]) -> CurrentTurn:
    """The turn in the last messages, in either format; earlier conversation is ignored."""
    end = len(messages)
    while end and messages[end - 1].role == "user":
        end -= 1
    start = end
    while start and _is_step(messages, start - 1):
        start -= 1
    steps = messages[start:end] if start and messages[start - 1].role == "user" else ()
    request = messages[start - 1].content if steps else _last_request(messages)
    observations = {message.tool_call_id: message.content for message in steps if message.role == "tool"}
    calls: list[MadeCall] = []
    taken = 0
    for message in steps:
        taken += bool(message.tool_calls)
        calls += [MadeCall(call.name, observations.get(call.id, "")) for call in message.tool_calls]
        if message.role == "assistant" and message.content.startswith(SCRATCHPAD_HEAD):
            for thought in read_scratchpad(message.content):
                taken += bool(thought.calls)
                pairs = zip(thought.calls, thought.observations, strict=False)
                calls += [MadeCall(call.name, observation) for call, observation in pairs]
    return CurrentTurn(_request(request), tuple(calls), taken)


def format_reply(reply: Reply, schema: Mapping[str, Any] | None, *, attends: bool = True) -> Reply:
    """The reply in the form of the schema: a step or an attention of `prompts`; `{}` for one that is not known.

    Args:
        attends: whether to answer a message that is addressed to nobody.
    """
    if schema is None:
        return reply
    title = schema.get("title")
    if title == "Attention":
        reason = "It is what I answer." if attends else "It is nothing that I answer."
        value: dict[str, Any] = {
            "shouldRespond": attends,
            "confidence": 0.9 if attends else 0.1,
            "reason": reason,
        }
    elif title == "Step":
        call: ToolCall | None = reply.tool_calls[0] if reply.tool_calls else None
        action_input = (
            {"tool": call.name, "arguments": dict(call.arguments)} if call else {"message": reply.text or " "}
        )
        action = "tool_call" if call else "respond"
        value = {"reasoning": reply.reasoning, "action": action, "actionInput": action_input}
    else:
        value = {}
    return Reply(json.dumps(value, ensure_ascii=False), reply.reasoning, usage=reply.usage, cut=reply.cut)


def _is_step(messages: Sequence[Message], place: int) -> bool:
    """Whether a message is a step: a call, its answer, the steps so far, or an invalid reply."""
    message = messages[place]
    if message.role == "user":
        return bool(message.pictures) or message.content.startswith(FAULTY)
    if message.role == "assistant":
        faulty = place + 1 < len(messages) and messages[place + 1].content.startswith(FAULTY)
        return bool(message.tool_calls) or message.content.startswith(SCRATCHPAD_HEAD) or faulty
    return message.role == "tool"


def _last_request(messages: Sequence[Message]) -> str:
    texts = (message.content for message in reversed(messages) if message.role == "user")
    return next((text for text in texts if not text.startswith(FAULTY)), "")


def _request(text: str) -> str:
    """The request without what a template puts around it, and without the name that it calls."""
    lines = [line for line in text[: 16 * MAX_REQUEST].split("\n") if not line.startswith('{"name"')]
    text = "\n".join(lines)
    worded = re.search(
        r"^(?:user )?request:\s*(.+?)(?:\n\n|\Z)", text, re.IGNORECASE | re.DOTALL | re.MULTILINE
    )
    return re.sub(r"^\s*@[\w.-]+[\s,:]*", "", (worded[1] if worded else text)[:MAX_REQUEST])
