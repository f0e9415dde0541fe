"""Splits the lists of tools, resources and prompts that a participant answers with into pages that fit into a message.

How it works
------------
A list that fits is passed on as it came, with its cursor if it has one. Of a longer one the first page holds as many
entries as fit, in their order, and its cursor names the list by its digest and the next page by its number. The list
is kept for these pages, so that all of them are of one state of it, whoever asks and whatever changes meanwhile. Only a
few lists are kept; a cursor of one that is not kept any more is refused, and the list is to be asked for from its
beginning. An entry that no message can hold is left out by its name.

Spec: §3.1; MCP "Pagination".
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any, Final, NamedTuple

from mew_lab.errors import ProtocolError
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import mapping_of
from mew_lab.protocol.envelope import compact, read_strict, too_deep
from mew_lab.protocol.steps import Steps
from mew_lab.protocol.text import utf8_size
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.slices import in_slices
from mew_lab.sdk.tools import INVALID_PARAMS, Answerer, RpcError

__all__ = ["LISTED", "PagedLists"]

LISTED: Final[Mapping[str, str]] = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
"""The methods of MCP that list, and the member of the result that holds the entries."""

MAX_KEPT = 4  # lists
MAX_NAMED = 5
HEAD = 64 * 1024  # bytes that a message has besides its entries, at most
_CURSOR = re.compile(r"mew-lab-page:([0-9a-f]{32}):([1-9][0-9]{0,5})")
_ABOVE = "[" * 6  # what an entry is nested in, as part of a message
_BELOW = "]" * 6


class _LongList(NamedTuple):
    """A list that is kept: the other members of its result, its entries, and where each page begins."""

    others: Mapping[str, Any]
    entries: Sequence[Any]
    starts: Sequence[int]


class PagedLists:
    """An answerer whose lists come in pages; all else is answered by `answerer`.

    Args:
        room: gives the bytes of the longest message that can be sent now.
        on_left_out: awaited with a sentence about entries that no message can hold.
    """

    def __init__(
        self,
        answerer: Answerer,
        *,
        room: Callable[[], int],
        on_left_out: Callable[[str], Awaitable[None]],
    ) -> None:
        self._answerer = answerer
        self._room = room
        self._on_left_out = on_left_out
        self._kept: BoundedDict[str, _LongList] = BoundedDict(MAX_KEPT, refresh=True)

    async def answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of an MCP request.

        Raises:
            RpcError: as that of the answerer; -32602 for a cursor of a list that is not kept any more.
        """
        member = LISTED.get(method)
        if member is None:
            return await self._answerer.answer(method, params)
        cursor = params.get("cursor")
        if isinstance(cursor, str) and (ours := _CURSOR.fullmatch(cursor)):
            return self._page(member, ours[1], int(ours[2]))
        result = await self._answerer.answer(method, params)
        entries = mapping_of(result).get(member)
        if not isinstance(entries, list):
            return result
        page, left_out = await in_slices(self._split(member, result, entries))
        if left_out:
            await self._on_left_out(f"{member} left out, because no message can hold them: {left_out}")
        return page

    def _page(self, member: str, digest: str, number: int) -> dict[str, Any]:
        kept = self._kept.get(f"{member} {digest}")
        if kept is None or number >= len(kept.starts):
            raise RpcError(
                INVALID_PARAMS,
                f"Invalid params: this cursor is of a list of {member} that is not kept any more; ask for the list anew",
            )
        start, end = [*pairwise(kept.starts), (kept.starts[-1], len(kept.entries))][number]
        is_last = number + 1 == len(kept.starts)
        # The last page has the cursor of the answerer, if it gave one.
        next_page = {} if is_last else {"nextCursor": f"mew-lab-page:{digest}:{number + 1}"}
        return {**kept.others, member: list(kept.entries[start:end]), **next_page}

    def _split(
        self, member: str, result: Mapping[str, Any], entries: Sequence[Any]
    ) -> Steps[tuple[dict[str, Any], str]]:
        """The first page of a list, and the names of the entries that no message can hold."""
        others = {name: value for name, value in result.items() if name != member}
        try:
            beside = compact(others)
        except ProtocolError:  # it cannot be sent, and the answer will say why
            return dict(result), ""
        room = self._room()
        room -= min(HEAD, room // 4) + utf8_size(beside)
        fitting: list[Any] = []
        names: list[object] = []
        starts, filled = [0], 0
        digest = sha256(f"{member} {room} ".encode())
        for entry in entries:
            written = _written(entry)
            size = utf8_size(written) + 1
            if not written or size > room:
                names.append(entry.get("name", entry.get("uri")) if isinstance(entry, dict) else entry)
                continue
            if filled + size > room:
                starts.append(len(fitting))
                filled = 0
            filled += size
            fitting.append(entry)
            digest.update(written.encode())
            yield
        shown = ", ".join(one_line(str(name), 60) for name in names[:MAX_NAMED])
        left_out = f"{shown} and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else shown
        if len(starts) == 1:
            return {**result, member: fitting}, left_out
        digest.update(beside.encode())
        id = digest.hexdigest()[:32]
        self._kept[f"{member} {id}"] = _LongList(others, fitting, starts)
        return self._page(member, id, 0), left_out


_LARGE_INTEGER = re.compile(r"\d{19}")


def _written(entry: object) -> str:
    """An entry as JSON; empty where no gateway accepts it."""
    try:
        text = compact(entry)
        nested = f"{_ABOVE}{text}{_BELOW}"
        if _LARGE_INTEGER.search(text):
            read_strict(f'{{"":{text}}}', limit=4 * len(text) + HEAD)
    except ProtocolError:
        return ""
    return "" if too_deep(nested) else text
