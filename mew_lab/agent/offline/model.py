"""What does an agent think with where there is no model?  `OfflineModel`: rules that choose tools; it says so.

The next step is a function of the messages, the tools and the schema: no clock, no dice, no file but the time
zones. It knows no tool and no participant by name; what it knows of a tool is its definition.

Spec: SDK "Layer 3", "Dynamic Tool Selection".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mew_lab.agent import scratchpad
from mew_lab.agent.model import Message, Reply, ToolSpec
from mew_lab.agent.offline.choosing import Catalogue, Choice
from mew_lab.agent.offline.finding import Text
from mew_lab.agent.offline.fitting import least
from mew_lab.agent.offline.plan import MAX_STEP, Done, Next, Plan
from mew_lab.agent.offline.supplying import Sources
from mew_lab.agent.offline.telling import abilities, shortened
from mew_lab.agent.offline.wording import MAX_REQUEST, asks, steps_of
from mew_lab.agent.react import FAULTY

__all__ = ["OfflineModel"]

MAX_GATHERED = 2000  # characters of what was gathered that an answer repeats
_ABOUT_SELF = re.compile(
    r"\b(?:who|what) are you\b(?! (?:doing|able))|\b(?:what (?:kind of )?|which )model\b|\byour name\b|"
    r"\bare you (?:an? )?(?:\w+ ){0,2}(?:model|ai|bot|human|llm|robot|person|machine)\b",
    re.IGNORECASE,
)
_ABOUT_TOOLS = re.compile(
    r"\bwhat (?:else )?can (?:you|i|we) do\b|\bwhat are you able to\b|\bhow can you help\b|^\s*help\s*[.!?]*\s*$|"
    r"\b(?:what|which|list|show)\b[^.!?\n]{0,40}\b(?:tools?|abilities|skills)\b",
    re.IGNORECASE,
)


class OfflineModel:
    """A model made of rules, for lessons and places without a key: the same input gives the same reply.

    It serves requests in plain English that are sequences of steps, each of which one of the offered tools does:
    "When was the last commit in /some/repo, and what time was that in Tokyo?". A step is cut off where a new
    verb or question begins; its tool is the one whose name, description and parameters share most of its words,
    rare words counting most; its arguments are values that stand in the request (quoted text, paths, addresses,
    numbers, percentages, amounts, dates, times, time zones and cities, ids, names, words of an enum, switches) or,
    where the step points back ("that", "it", "the first one") or lacks them, in what tools answered before.

    Limits: one call a reply; no knowledge of its own, no conclusions, no conversation; English only. A tool that
    changes something is called only for a verb that says so. A required argument that nothing gives is asked for;
    a switch not mentioned is off; an option not restricted is "all" where there is such a one. After a call that
    failed it tries at most one other tool; after one that was refused, none. It reads the first 8000 characters
    of a request, twelve steps and 500 tools. It raises nothing.

    Spec: SDK "Dynamic Tool Selection", "Error Handling".
    """

    name = "offline (rules, not a language model)"
    max_tokens: int | None = 8192

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, Any] | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        """The next call, or the answer. With a schema: its "Step", its "Attention", or the least that fits it."""
        reply = _reply(messages, tools, schema)
        if on_text is not None:
            for piece in re.findall(r"\s*\S+\s*\Z|\s*\S+", reply.text):
                on_text(piece)
        return reply

    async def aclose(self) -> None:
        """Nothing to let go of."""


def _reply(messages: Sequence[Message], tools: Sequence[ToolSpec], schema: Mapping[str, Any] | None) -> Reply:
    title = schema.get("title") if isinstance(schema, Mapping) else None
    if schema is not None and title not in ("Step", "Attention"):
        return Reply(json.dumps(least(schema), ensure_ascii=False))
    if title == "Attention":
        return Reply(json.dumps(_attention(messages, tools), ensure_ascii=False))
    step = _next(*_turn(messages), tools)
    if schema is None:
        return Reply(step.text, step.why, (step.call,) if step.call else ())
    given: dict[str, Any] = {"message": step.text}
    if step.call:
        given = {"tool": step.call.name, "arguments": step.call.arguments}
    action = "tool_call" if step.call else "respond"
    said = {"reasoning": step.why, "action": action, "actionInput": given}
    return Reply(json.dumps(said, ensure_ascii=False), step.why)


def _turn(messages: Sequence[Message]) -> tuple[str, list[Done]]:
    """The request that is being served, and the calls that were made for it."""
    end = len(messages)
    while end and messages[end - 1].role == "user":
        end -= 1
    start = end
    while start and _of_turn(messages, start - 1):
        start -= 1
    steps = messages[start:end] if start and messages[start - 1].role == "user" else ()
    asked = messages[start - 1].content if steps else _last_said(messages)
    said = {one.tool_call_id: one.content for one in steps if one.role == "tool"}
    done: list[Done] = []
    for message in steps:
        done += [Done(call.name, said.get(call.id, "")) for call in message.tool_calls]
        if message.role == "assistant" and message.content.startswith(scratchpad.HEAD):
            for thought in scratchpad.read(message.content):
                pairs = zip(thought.calls, thought.observations, strict=False)
                done += [Done(call.name, seen) for call, seen in pairs]
    return asked, done


def _of_turn(messages: Sequence[Message], place: int) -> bool:
    """Whether a message is a step: a call, its answer, the steps so far, or a reply that led nowhere."""
    message = messages[place]
    if message.role == "user":
        return message.content.startswith(FAULTY)
    if message.role == "assistant":
        told_faulty = place + 1 < len(messages) and messages[place + 1].content.startswith(FAULTY)
        return bool(message.tool_calls) or message.content.startswith(scratchpad.HEAD) or told_faulty
    return message.role == "tool"


def _last_said(messages: Sequence[Message]) -> str:
    said = (one.content for one in reversed(messages) if one.role == "user")
    return next((text for text in said if not text.startswith(FAULTY)), "")


def _request(text: str) -> str:
    """The request without what a template puts around it, and without the name that it calls."""
    lines = [line for line in text[: 16 * MAX_REQUEST].split("\n") if not line.startswith('{"name"')]
    text = "\n".join(lines)
    worded = re.search(
        r"^(?:user )?request:\s*(.+?)(?:\n\n|\Z)", text, re.IGNORECASE | re.DOTALL | re.MULTILINE
    )
    return re.sub(r"^\s*@[\w.-]+[\s,:]*", "", (worded[1] if worded else text)[:MAX_REQUEST])


def _next(text: str, done: Sequence[Done], tools: Sequence[ToolSpec]) -> Next:
    gathered = re.search(r"\bInformation gathered:\n(.*?)(?:\n\n|\Z)", text[: 4 * MAX_REQUEST], re.DOTALL)
    if gathered and not tools:
        return Next("What was gathered is the answer.", None, shortened(gathered[1], limit=MAX_GATHERED))
    request = _request(text)
    if not done and (_ABOUT_SELF.search(request) or _ABOUT_TOOLS.search(request)):
        return Next("It asks about me.", None, abilities(tools))
    return Plan(request, Catalogue(tools), done).next()


def _attention(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> dict[str, Any]:
    request = _request(_last_said(messages))
    if _ABOUT_TOOLS.search(request):
        return {"shouldRespond": True, "confidence": 0.9, "reason": "It asks what can be done here."}
    catalogue = Catalogue(tools)
    best: Choice | None = None
    for step in steps_of(request, verbs=catalogue.verbs):
        for choice in catalogue.choose(Sources(Text.of(step[:MAX_STEP])))[:1]:
            if (asks(step) or "?" in request) and (best is None or choice.share > best.share):
                best = choice
    if best is None:
        return {"shouldRespond": False, "confidence": 0.1, "reason": "No tool here fits what was said."}
    confidence = round(min(0.95, 0.45 + 0.5 * best.share) - 0.25 * bool(best.filled.missing), 2)
    reason = f"It asks for what {best.tool.name[:200]} does."
    return {"shouldRespond": confidence >= 0.5, "confidence": confidence, "reason": reason}
