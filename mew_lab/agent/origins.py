"""Where does an argument come from?  Finds the texts in it that a tool has said and the request has not; pure.

Text out of a tool's output is data that somebody else wrote: an argument that quotes it may be what an injected
instruction asked for. Numbers and short words are nobody's; what is longer is looked for word by word.

Spec: threat 29.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mew_lab.protocol.visible import middle, one_line

__all__ = ["quoted", "texts"]

SHORTEST = 6  # characters: what is shorter stands everywhere
MAX_ORIGINS = 20
MAX_LEAVES = 1000  # texts, lists and objects
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
    for path, text in texts(arguments, most=MAX_LEAVES):
        if text is None:
            break
        needle = text.strip().casefold()
        left -= size
        if left < 0:
            break
        if len(needle) < SHORTEST or needle in asked:
            continue
        source = next((tool for tool, said in folded if needle in said), None)
        if source is not None:
            found.append(f"{middle(path, 120)} quotes what {one_line(source, 120)} returned")
        if len(found) >= MAX_ORIGINS:
            break
    return found


def texts(value: Any, *, most: int, names: bool = False) -> Iterator[tuple[str, str | None]]:
    """Every text in a JSON value, in its order, with the place where it stands; a None for the text, and the end, when
    there are more than `most` texts, lists and objects.

    A long place is cut in its middle, so that no depth and no long name makes it grow.

    Args:
        names: Also the name of each member of an object, before its value.
    """
    waiting: list[Iterator[tuple[str, Any]]] = [iter([("", value)])]
    left = most
    while waiting:
        for where, one in waiting[-1]:
            if not isinstance(one, str | Mapping | list | tuple):
                continue
            if not left:
                yield where, None
                return
            left -= 1
            if isinstance(one, str):
                yield where, one
            else:
                waiting.append(
                    _members(where, one, names) if isinstance(one, Mapping) else _items(where, one)
                )
                break
        else:
            waiting.pop()


def _members(where: str, value: Mapping[Any, Any], names: bool) -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if not names and _holds_no_text(inner):
            continue
        text = str(name)
        at = _cut(f"{where}.{_cut(text, 60)}" if where else _cut(text, 60), 200)
        if names:
            yield f"the name {at}", text
        yield at, inner


def _items(where: str, value: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    return ((_cut(f"{where}[{n}]", 200), inner) for n, inner in enumerate(value) if not _holds_no_text(inner))


def _holds_no_text(value: Any) -> bool:
    return value is None or isinstance(value, int | float)


def _cut(place: str, most: int) -> str:
    half = most // 2
    return place if len(place) <= most else f"{place[: half - 1]}…{place[-half:]}"
