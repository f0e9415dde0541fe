"""Writes earlier steps as text of a prompt, and reads them back; pure.

What a tool said is indented, so that no line of it can pass for a line of ours. Spec: SDK "Scratchpad Format".
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from mew_lab.agent.model import ToolCall
from mew_lab.agent.react import Thought

__all__ = ["read", "write"]

HEAD = "Previous actions and observations:"
TAIL = "Based on the above context, continue processing the user's request."
_INDENT = "  "


def write(thoughts: Sequence[Thought]) -> str:
    """The steps so far as one text. Several calls of one step stand as steps of their own, in their order."""
    blocks = [HEAD]
    for thought in thoughts:
        calls: Sequence[ToolCall | None] = thought.calls or (None,)
        observations = (*thought.observations, *("",) * len(calls))
        blocks += [
            _block(thought.reasoning, call, said) for call, said in zip(calls, observations, strict=False)
        ]
    return "\n\n".join([*blocks, TAIL])


def _block(reasoning: str, call: ToolCall | None, observation: str) -> str:
    lines = [f"Reasoning: {_folded(reasoning)}", f"Action: {'tool' if call else 'continue'}"]
    if call is not None:
        lines.append(f"Tool used: {_folded(call.name)}")
        lines.append(f"Arguments: {json.dumps(dict(call.arguments), ensure_ascii=False)}")
    lines.append(f"Observation: {_folded(observation)}")
    return "\n".join(lines)


def _folded(text: str) -> str:
    return f"\n{_INDENT}".join(text.splitlines())


def read(text: str) -> tuple[Thought, ...]:
    """The steps that `write` wrote; what is none of its lines is passed over."""
    thoughts: list[Thought] = []
    values: dict[str, str] = {}
    label = ""

    def end() -> None:
        if "Observation" in values:
            name = values.get("Tool used", "")
            calls = (ToolCall("", name, _arguments(values.get("Arguments", ""))),) if name else ()
            said = values["Observation"]
            thoughts.append(Thought(values.get("Reasoning", ""), calls, (said,) if calls or said else ()))
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


def _arguments(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
