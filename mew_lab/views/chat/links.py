"""Finds addresses in a plain text and makes links of them, by the allow list of Markdown.

Only `http` and `https` count. Each address is rendered and cleaned as the author's own link would be (`ui/markdown.py`),
so what may not be a link there is no link here.

Spec: §3.4, threats 3, 4 and 17.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from mew_lab.views.ui.markdown import LONGEST, plain, tree

__all__ = ["link_addresses"]

MAX_LINKS = 50  # of one message
_ADDRESS = re.compile(r"https?://[^\s<>\"'`\\^{}|]+")
_AFTER = ".,;:!?*_~"  # signs that end a sentence, not an address


def link_addresses(text: str) -> list[Any] | None:
    """The text as texts and links, in the form of `markdown.tree`; None where it has no address or is too long."""
    return _link(text) if "://" in text and len(text) <= LONGEST else None


@lru_cache(maxsize=256)
def _link(text: str) -> list[Any] | None:
    shown = plain(text)
    nodes: list[Any] = []
    end = links = 0
    for match in _ADDRESS.finditer(shown):
        address = _trim(match[0])
        link = _make_link(address) if links < MAX_LINKS else None
        if link is None:
            continue
        links += 1
        nodes += [shown[end : match.start()], link]
        end = match.start() + len(address)
    return [node for node in (*nodes, shown[end:]) if node] if links else None


def _trim(address: str) -> str:
    """The address without what follows it in a sentence; a bracket belongs to it where it was opened in it."""
    while address:
        last = address[-1]
        unopened = last in ")]" and address.count(last) > address.count("(["[")]".index(last)])
        if not unopened and last not in _AFTER:
            break
        address = address[:-1]
    return address


def _make_link(address: str) -> list[Any] | None:
    match tree(f"<{address}>"):
        case [["p", _, ["a", {"href": str()}, *_] as link]]:
            return list(link)
    return None
