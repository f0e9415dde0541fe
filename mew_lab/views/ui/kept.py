"""Loads a result that was too large for a message, when a person asks for it in a view, and draws it in bounds.

A head (`protocol.kept`) came in place of such a result, and the view shows what it tells. The result itself is loaded
by an act of the view. While it comes, the views are told how much of it has come. It is checked and parsed in a thread,
and sent to the page that asked for it; neither this module nor the page's synced state keeps it.

Its text may be costly on purpose: a JSON text of 64 MB can hold twenty million lists. One of very many values is not
parsed here.

Spec: ruling R43.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from mew_lab.errors import MewError
from mew_lab.protocol.content import Block, for_page, read_parts, size_text
from mew_lab.protocol.steps import finish
from mew_lab.protocol.text import parse_timestamp
from mew_lab.protocol.visible import one_line, visible
from mew_lab.sdk.kept_results import KeptAnswer, KeptResults, holds_more_values, parse_result
from mew_lab.views.ui.acts import ActResult

__all__ = ["KeptLoads", "draw_kept", "pack_kept"]

TOLD_EVERY = 0.25  # seconds between two reports of what has come
MAX_LOADS = 4  # at once, of one widget
MAX_VALUES = 500_000  # in a result that is drawn; a second of the processor, about
MAX_PICTURE = 24_000_000  # characters of base64


class KeptLoads:
    """The loads of one widget.

    Args:
        results: Of the participant that reads.
        post: Sends an item to the views of the widget.
    """

    def __init__(
        self,
        results: KeptResults,
        *,
        post: Callable[[dict[str, Any]], None],
    ) -> None:
        self._results = results
        self._post = post
        self._loading: dict[str, asyncio.Task[bytearray]] = {}  # only the loop's thread uses it

    async def load(self, key: str, kept: KeptAnswer | None) -> ActResult:
        """Loads a result and returns what to draw.

        Args:
            key: The page makes it up for the place of the result.
            kept: The answer that says where the result is; None where the view holds it no longer.
        """
        if kept is None:
            raise MewError(
                "The answer with this result is no longer held in this view, so it cannot be loaded here."
            )
        if key in self._loading:
            raise MewError("It is being loaded already.")
        if len(self._loading) >= MAX_LOADS:
            raise MewError(f"{MAX_LOADS} results are being loaded; load this one when one of them has come.")
        told = 0.0

        def tell(count: int) -> None:
            nonlocal told
            if (now := time.monotonic()) - told >= TOLD_EVERY:
                told = now
                self._post({"t": "loading", "key": key, "bytes": count, "text": size_text(count)})

        task = asyncio.ensure_future(self._results.load_data(kept.head, by=kept.by, on_bytes=tell))
        self._loading[key] = task
        try:
            data = await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                task.cancel()
                raise
            raise MewError("Loading was cancelled. The result is still kept; Load begins anew.") from None
        finally:
            del self._loading[key]
        blocks = await asyncio.to_thread(draw_kept, data, kept)
        size = size_text(kept.head.size)
        return ActResult(f"Loaded {size}.", [block._asdict() for block in blocks])

    async def stop(self, key: str) -> str:
        """Stops the load of that key."""
        task = self._loading.get(key)
        if task is None:
            raise MewError("It is not being loaded any more.")
        task.cancel()
        return "Loading is cancelled."


def pack_kept(kept: KeptAnswer) -> dict[str, Any]:
    """What a view shows of a result that is kept, as far as its participant tells; visible text."""
    head = kept.head
    expires = parse_timestamp(head.expires)
    return {
        "size": size_text(head.size),
        "bytes": head.size,
        "by": visible(kept.by),
        "holds": [one_line(text, 200) for text in head.holds],
        "expires": None if expires is None else expires.timestamp(),
    }


def draw_kept(data: bytes | bytearray, kept: KeptAnswer) -> list[Block]:
    """A loaded result as a page shows it, and a note on how to get all of it.

    Raises:
        MewError: it is no JSON object.
    """
    begin = kept.call[:8] if kept.call.isprintable() else ""
    whole = f"lab.load({begin!r}) gives the whole" if begin else "lab.load(…) gives the whole"
    if holds_more_values(data, MAX_VALUES):
        return [Block("note", f"Not drawn, for it holds more than {MAX_VALUES} values. In a cell, {whole}.")]
    parts = read_parts(finish(parse_result(data)), kept.method)
    blocks = for_page(parts, empty="The result is empty.", rest=whole, largest=MAX_PICTURE)
    return [*blocks, Block("note", f"In a cell, {whole}.")]
