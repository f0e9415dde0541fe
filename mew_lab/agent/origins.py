"""Where does an argument come from?  Finds the texts in it that a tool has said and the request has not; pure.

Text out of a tool's output is data that somebody else wrote: an argument that quotes it may be what an injected
instruction asked for. Numbers and short words are nobody's; what is longer is looked for word by word.

Spec: threat 29.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mew_lab.protocol.visible import one_line

__all__ = ["quoted"]

SHORTEST = 6  # characters: what is shorter stands everywhere
MAX_ORIGINS = 20
MAX_LEAVES = 1000
MAX_COMPARED = 100_000_000  # characters that texts are looked for in: what is beyond is not looked for


def quoted(arguments: Mapping[str, Any], *, outputs: Sequence[tuple[str, str]], request: str) -> list[str]:
    """One line for each argument whose text stands in a tool's output and not in the request.

    Args:
        outputs: which tool said what.
    """
    found: list[str] = []
    if not outputs:
        return found
    asked = request.casefold()
    folded = [(tool, said.casefold()) for tool, said in outputs]
    size = sum(len(said) for _, said in folded) + len(asked)
    left = MAX_COMPARED
    for path, text in _texts(arguments):
        needle = text.strip().casefold()
        left -= size
        if left < 0:
            break
        if len(needle) < SHORTEST or needle in asked:
            continue
        source = next((tool for tool, said in folded if needle in said), None)
        if source is not None:
            found.append(f"{path} quotes what {one_line(source, 120)} returned")
        if len(found) >= MAX_ORIGINS:
            break
    return found


def _texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    waiting = [(path, value)]
    for _ in range(MAX_LEAVES):
        if not waiting:
            return
        where, one = waiting.pop()
        if isinstance(one, str):
            yield one_line(where, 120), one
        elif isinstance(one, Mapping):
            waiting += [(f"{where}.{key}".lstrip("."), part) for key, part in one.items()]
        elif isinstance(one, list | tuple):
            waiting += [(f"{where}[{n}]", part) for n, part in enumerate(one)]
