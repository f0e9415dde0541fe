"""One step of the loop of reasoning and acting: reads the next move in a model's reply, and writes steps as text; pure.

`next_move` calls nothing and waits for nothing. The driver (`run`) asks the model, makes the calls of a move, and
passes both back as the history of the next step. Every reply becomes a move, an invalid one too.

Two formats are read. In `native` the API of the model carries calls. In `scratchpad` the reply is one JSON object, and
earlier steps stand in the prompt as text (`write_scratchpad`, `read_scratchpad`).

Spec: SDK "ReAct Loop", "Loop Termination Conditions", "Scratchpad Format".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from mew_lab.agent.model import Reply, ToolCall
from mew_lab.protocol.coerce import json_of, mapping_of, text_of
from mew_lab.protocol.content import CheckedPicture
from mew_lab.protocol.difference import are_equal
from mew_lab.protocol.visible import one_line

__all__ = [
    "FAULTY",
    "FILTERED",
    "SCRATCHPAD_HEAD",
    "CallTools",
    "FinalAnswer",
    "Format",
    "GiveUp",
    "Move",
    "Observation",
    "Think",
    "Thought",
    "find_json_object",
    "next_move",
    "read_scratchpad",
    "write_scratchpad",
]

Format = Literal["native", "scratchpad"]
MAX_SAME = 3  # times that one and the same call is made in a row
MAX_EMPTY = 2  # steps in a row that lead nowhere
MAX_STARTS = 64  # braces at which an object may begin: each is read at most once
FAULTY = "That reply could not be read"
CUT = "it was cut off at the greatest length of a reply"
FILTERED = "the content filter of the model's provider stopped its reply"


class Observation(str):
    """The answer of a call as text, with its pictures for a model that takes them.

    It is a text with an attribute, so that an overridden `act` may pass it on as the text that it is.
    """

    pictures: tuple[CheckedPicture, ...] = ()

    @classmethod
    def of(cls, text: str, pictures: tuple[CheckedPicture, ...]) -> Observation:
        """A text with these pictures."""
        observation = cls(text)
        observation.pictures = pictures
        return observation


@dataclass(frozen=True, slots=True)
class Thought:
    """One step of the past: its reasoning, its calls, and the observation of each call, in their order.

    A step without a call may have one observation: its fault. Spec: SDK "Data Structures".
    """

    reasoning: str
    calls: tuple[ToolCall, ...] = ()
    observations: tuple[str, ...] = ()

    @property
    def action(self) -> str:
        """`tool_call`, or `continue` for a step without a call."""
        return "tool_call" if self.calls else "continue"

    @property
    def action_input(self) -> dict[str, Any]:
        """The `tool` and `arguments` of its first call; empty where it has none."""
        return {"tool": self.calls[0].name, "arguments": self.calls[0].arguments} if self.calls else {}

    @property
    def observation(self) -> str:
        """Its observations as one text."""
        return "\n".join(self.observations)


class Think(NamedTuple):
    """A step without a call. `observation` is the fault of the reply for the model; empty where there is none."""

    reasoning: str
    observation: str = ""


class CallTools(NamedTuple):
    """A step with calls, which are made all at once."""

    reasoning: str
    calls: tuple[ToolCall, ...]


class FinalAnswer(NamedTuple):
    """The final answer. `cut` is whether it ended at the model's greatest length."""

    reasoning: str
    text: str
    cut: bool = False


class GiveUp(NamedTuple):
    """The end without an answer, for the reason `reason`."""

    reason: str


Move = Think | CallTools | FinalAnswer | GiveUp


def next_move(history: Sequence[Thought], reply: Reply, *, format: Format, max_iterations: int) -> Move:
    """The next move by a model's reply, after these steps.

    Args:
        max_iterations: the number of steps that a model may take in all, without its answer.
    """
    if reply.filtered:
        return _filtered(reply, format=format)
    move = _native(reply) if format == "native" else _scratchpad(reply)
    # Before the limits: an answer at the last step is an answer.
    if isinstance(move, FinalAnswer):
        return move
    if len(history) >= max_iterations:
        return GiveUp(f"there was no answer after {max_iterations} steps")
    if isinstance(move, Think) and _leads_nowhere(history):
        return GiveUp(f"the model led nowhere {MAX_EMPTY + 1} times in a row")
    if isinstance(move, CallTools) and _repeats(history, move):
        names = ", ".join(call.name for call in move.calls)
        return GiveUp(f"the model asked for the same call of {one_line(names, 120)} {MAX_SAME + 1} times")
    return move


def _filtered(reply: Reply, *, format: Format) -> Move:
    """The end of a run whose reply was filtered: its calls may be parts of calls, so none is made."""
    text = reply.text.strip()
    if not text or format == "scratchpad":
        return GiveUp(FILTERED)
    return FinalAnswer(reply.reasoning.strip(), f"{text}\n(This answer is not whole: {FILTERED}.)")


def _native(reply: Reply) -> Move:
    reasoning = (reply.reasoning or reply.text).strip()
    if reply.tool_calls:
        return CallTools(reasoning, reply.tool_calls)
    if reply.text.strip():
        return FinalAnswer(reply.reasoning.strip(), reply.text.strip(), reply.cut)
    if reply.cut:
        return Think(reply.reasoning.strip(), f"{FAULTY}: {CUT}, before a call or an answer. Be brief.")
    return Think(reply.reasoning.strip(), f"{FAULTY}: it was empty. Call a tool, or answer in words.")


def _scratchpad(reply: Reply) -> Move:
    text = reply.text.strip()
    if not text:
        return _native(reply)
    if "{" not in text:  # a model that answers in prose has answered
        return FinalAnswer(reply.reasoning.strip(), text, reply.cut)
    step = find_json_object(text)
    if reply.cut and (step is None or "action" not in step):  # the object may be part of one that was cut
        return Think("", f"{FAULTY}: {CUT}, so it is not one JSON object. Be brief.")
    if step is None:
        return Think("", f"{FAULTY}: it is not one JSON object.")
    reasoning, action, action_input = step.get("reasoning"), step.get("action"), step.get("actionInput")
    why, inputs = text_of(reasoning).strip(), mapping_of(action_input)
    if action == "continue":
        return Think(why)
    if action == "respond":
        message = inputs.get("message")
        if isinstance(message, str) and message.strip():
            return FinalAnswer(why, message.strip())
        return Think(why, f"{FAULTY}: to respond, actionInput.message must hold the answer.")
    if action in ("tool_call", "tool"):
        return _read_call(why, inputs)
    return Think(why, f'{FAULTY}: "action" must be "tool_call", "respond" or "continue".')


def _read_call(why: str, inputs: Mapping[str, Any]) -> Move:
    name, arguments = inputs.get("tool"), inputs.get("arguments", {})
    if not isinstance(name, str) or not name:
        return Think(why, f"{FAULTY}: to call a tool, actionInput.tool must name one.")
    if not isinstance(arguments, dict):
        return CallTools(why, (ToolCall("", name, {}, fault="the arguments must be a JSON object"),))
    return CallTools(why, (ToolCall("", name, arguments),))


def find_json_object(text: str) -> dict[str, Any] | None:
    """The JSON object that a model wrote, in a fence or among prose."""
    decoder = json.JSONDecoder()
    start = text.find("{")
    for _ in range(MAX_STARTS):
        if start < 0:
            break
        try:
            value, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            return value
        start = text.find("{", start + 1)
    return None


def _leads_nowhere(history: Sequence[Thought]) -> bool:
    last = history[-MAX_EMPTY:]
    return len(last) == MAX_EMPTY and not any(thought.calls for thought in last)


def _repeats(history: Sequence[Thought], move: CallTools) -> bool:
    last = history[-MAX_SAME:]
    return len(last) == MAX_SAME and all(_same(thought.calls, move.calls) for thought in last)


def _same(calls: Sequence[ToolCall], others: Sequence[ToolCall]) -> bool:
    return are_equal(*([[call.name, call.arguments] for call in some] for some in (calls, others)))


SCRATCHPAD_HEAD = "Previous actions and observations:"
SCRATCHPAD_TAIL = "Based on the above context, continue processing the user's request."
_INDENT = "  "


# --- the scratchpad format: earlier steps as text ---
# The output of a tool is indented, so that no line of it can be mistaken for a line of this format.


def write_scratchpad(thoughts: Sequence[Thought]) -> str:
    """The steps so far as one text. Several calls of one step stand as steps of their own, in their order."""
    blocks = [SCRATCHPAD_HEAD]
    for thought in thoughts:
        calls: Sequence[ToolCall | None] = thought.calls or (None,)
        observations = (*thought.observations, *("",) * len(calls))
        blocks += [
            _block(thought.reasoning, call, observation)
            for call, observation in zip(calls, observations, strict=False)
        ]
    return "\n\n".join([*blocks, SCRATCHPAD_TAIL])


def _block(reasoning: str, call: ToolCall | None, observation: str) -> str:
    lines = [f"Reasoning: {_indent(reasoning)}", f"Action: {'tool' if call else 'continue'}"]
    if call is not None:
        lines.append(f"Tool used: {_indent(call.name)}")
        lines.append(f"Arguments: {json.dumps(dict(call.arguments), ensure_ascii=False)}")
    lines.append(f"Observation: {_indent(observation)}")
    return "\n".join(lines)


def _indent(text: str) -> str:
    return f"\n{_INDENT}".join(text.splitlines())


def read_scratchpad(text: str) -> tuple[Thought, ...]:
    """The steps in a text of `write_scratchpad`; other lines are ignored."""
    thoughts: list[Thought] = []
    values: dict[str, str] = {}
    label = ""

    def end() -> None:
        if "Observation" in values:
            name = values.get("Tool used", "")
            arguments = mapping_of(json_of(values.get("Arguments", "")))
            calls = (ToolCall("", name, arguments),) if name else ()
            observation = values["Observation"]
            thoughts.append(
                Thought(values.get("Reasoning", ""), calls, (observation,) if calls or observation else ())
            )
        values.clear()

    for line in text.splitlines():
        head, colon, rest = line.partition(": ")
        if line.startswith(_INDENT) and label:
            values[label] += "\n" + line.removeprefix(_INDENT)
        elif colon or line.endswith(":"):
            label = head.removesuffix(":")
            if label == "Reasoning":
                end()
            values[label] = rest
        else:
            label = ""
    end()
    return tuple(thoughts)
