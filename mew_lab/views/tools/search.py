"""Ranks the tools that a few words may mean, best first.  Pure.

Every word must stand somewhere: in the tool's name, its participant, the names of its arguments, its description. Where
it stands decides the rank; ties go by participant and name, so that nothing moves without a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mew_lab.sdk.discovery import DiscoveredTool

__all__ = ["find_tools", "words_of"]

MAX_QUERY = 200  # characters
MAX_WORDS = 8


def words_of(query: str) -> list[str]:
    """The words that are looked for, in lower case; at most 8, of the first 200 characters."""
    return query[:MAX_QUERY].lower().split()[:MAX_WORDS]


def find_tools(tools: Sequence[DiscoveredTool], query: str) -> list[DiscoveredTool]:
    """The tools that hold all words, best first; without a word all of them, as they come."""
    words = words_of(query)
    if not words:
        return list(tools)
    ranked = [(_rank(one, words), one) for one in tools]
    fitting = [(rank, one) for rank, one in ranked if rank is not None]
    fitting.sort(key=lambda pair: (-pair[0], pair[1].participant, pair[1].name))
    return [one for _, one in fitting]


def _rank(tool: DiscoveredTool, words: Sequence[str]) -> int | None:
    name, participant = tool.name.lower(), tool.participant.lower()
    about = tool.description.lower()
    properties = tool.input_schema.get("properties")
    arguments = [str(key).lower() for key in properties] if isinstance(properties, Mapping) else []
    whole = 0
    for word in words:
        best = max(
            _in_name(word, name, participant),
            _in_words(word, participant, 30),
            _in_arguments(word, arguments),
        )
        if not best and word in about:
            best = 10
        if not best:
            return None
        whole += best
    return whole


def _in_name(word: str, name: str, participant: str) -> int:
    if word in (name, f"{participant}/{name}"):
        return 100
    return max(
        _in_words(word, name, 60), 50 if "/" in word and f"{participant}/{name}".startswith(word) else 0
    )


def _in_words(word: str, text: str, best: int) -> int:
    """`best` at the beginning, less at the beginning of a part, least inside."""
    if text.startswith(word):
        return best
    if any(f"{mark}{word}" in text for mark in "_-. "):
        return best - 10
    return best - 20 if word in text else 0


def _in_arguments(word: str, arguments: Sequence[str]) -> int:
    return max((_in_words(word, one, 25) for one in arguments), default=0)
