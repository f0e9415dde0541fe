"""What does the offline model say?  Who it is, what it can call, and what a tool answered; pure.

Whatever a tool said stays a quotation of it: nothing is concluded from it here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mew_lab.agent.model import ToolSpec
from mew_lab.agent.offline.finding import MAX_SEEN

__all__ = ["MAX_TOLD", "SELF", "abilities", "failed", "refused", "shortened", "told"]

SELF = "I am the offline model of mew_lab: rules, not a language model."
MAX_LISTED = 40
MAX_TOLD = 300  # characters of one tool's answer
MAX_KEYS = 10


def abilities(tools: Sequence[ToolSpec]) -> str:
    """Who it is and which tools it can call, forty of them with the beginning of what they do."""
    if not tools:
        return f"{SELF} No tools are here for me to call."
    listed = []
    for tool in tools[:MAX_LISTED]:
        about = shortened(tool.description, limit=60)
        listed.append(f"{tool.name} ({about})" if about else tool.name)
    more = f", and {len(tools) - MAX_LISTED} more" if len(tools) > MAX_LISTED else ""
    return f"{SELF} I can call these tools: {', '.join(listed)}{more}."


def failed(observation: str) -> bool:
    """Whether a tool's answer says that the call did not work."""
    return observation.lstrip()[:5].lower() == "error" or refused(observation)


def refused(observation: str) -> bool:
    """Whether somebody said no to the call."""
    start = observation.lstrip()[:200].lower()
    return (
        re.match(
            r"(?:error\W.{0,80}?)?(?:the )?(?:proposal|call|request)\b.{0,80}?\b(?:rejected|denied|refused)",
            start,
        )
        is not None
    )


def shortened(text: str, *, limit: int = MAX_TOLD) -> str:
    """The text in one line of at most `limit` characters, the end cut with an ellipsis."""
    line = re.sub(r"\s*\n+\s*", "; ", text[: limit * 4].strip())
    line = re.sub(r"\s+", " ", line).replace(":;", ":")
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def told(observation: str) -> str:
    """What a tool said, in at most 300 characters; a small JSON object as "key: value, key: value"."""
    text = observation.strip()
    if text[:1] in ("{", "[") and len(text) <= MAX_SEEN:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return shortened(text)
        if (
            isinstance(value, list)
            and value
            and all(isinstance(one, (str, int, float)) for one in value[:50])
        ):
            return shortened(", ".join(str(one) for one in value[:50]))
        pairs = list(_pairs(value))
        if pairs and len(pairs) <= MAX_KEYS:
            return shortened(", ".join(f"{key}: {one}" if key else str(one) for key, one in pairs))
    return shortened(text) if text else "nothing"


def _pairs(value: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and depth < 3:
        for name, inner in list(value.items())[: MAX_KEYS + 1]:
            yield from _pairs(inner, f"{key} {name}".strip(), depth + 1)
    elif isinstance(value, str):
        yield key, value
    else:
        yield key, json.dumps(value, ensure_ascii=False)
