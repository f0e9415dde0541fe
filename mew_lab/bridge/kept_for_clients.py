"""Gives the clients of a gate the results that no message of the space can hold.

The gate loads such a result at once, and its client gets the whole, as far as clients take a message of that size. Of a
larger one it gets a tool error that says where the result is kept, for the call was executed. It may then read it in
parts, as a resource of the gate.

Spec: ruling R43.
"""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from mcp import MCPError

from mew_lab.bridge.offers import REFUSED, offered_uri
from mew_lab.errors import MewError
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.kept import ResultHead, ResultUri
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.kept_results import KeptResults, parse_result
from mew_lab.sdk.slices import in_slices
from mew_lab.sdk.tools import INVALID_PARAMS

__all__ = ["KeptForClients"]

MAX_WHOLE = 8 * 1024 * 1024  # bytes; clients of MCP end the session for a message of 10 MB
PART = 4 * 1024 * 1024  # bytes
MAX_HEADS = 1000  # results whose addresses were given to clients
HELD = 60.0  # seconds for which the last result is held, of which a client reads parts


class KeptForClients:
    """The kept results of others, for the clients of one gate."""

    def __init__(self, results: KeptResults) -> None:
        self._results = results
        self._heads: BoundedDict[str, ResultHead] = BoundedDict(MAX_HEADS)
        self._reading = asyncio.Lock()  # one result at a time is in memory
        self._held: tuple[ResultHead, bytearray] | None = None

    async def load(self, result: Any, what: str) -> Any:
        """The whole result of the call `what`; a tool error that says where it is kept, where it cannot be given.

        A result that is not kept stays as it is.
        """
        head = ResultHead.of(result)
        if head is None:
            return result
        why = f"it has {head.size} bytes, and this client is given {MAX_WHOLE} at once"
        participant = what.partition("/")[0]
        if head.size <= MAX_WHOLE:
            try:
                data = await self._results.load_data(head, by=participant)
                return await in_slices(parse_result(data))
            except MewError as fault:
                why = one_line(str(fault), 300)
        elif head.uri.participant == participant:
            self._heads[str(head.uri)] = head
        if "content" not in result:
            return result
        uri = offered_uri(head.uri.participant, str(head.uri))
        text = f"It was executed; the result is kept as {uri} until {head.expires}: {why}."
        link = {
            "type": "resource_link",
            "uri": str(head.uri),
            "name": "result",
            "mimeType": "application/json",
        }
        if str(head.uri) in self._heads:
            text += f" Read it in parts: {uri}?part=1 to {uri}?part={_parts(head)}."
        return {"content": [{"type": "text", "text": text}, {**link, "size": head.size}], "isError": True}

    async def read(self, uri: str) -> dict[str, Any]:
        """The result of `resources/read` for a kept result, or a part of it.

        Raises:
            MCPError: this gate gave no client that address, or the result cannot be read.
        """
        asked = ResultUri.read(uri)
        head = None if asked is None else self._heads.get(str(asked._replace(part=0)))
        if asked is None or head is None:
            raise MCPError(
                INVALID_PARAMS, f"There is no result {one_line(uri, 160)} here; it may have expired"
            )
        if not 0 < asked.part <= _parts(head):
            raise MCPError(
                REFUSED,
                f"The result has {head.size} bytes; read it in parts, ?part=1 to ?part={_parts(head)}",
            )
        async with self._reading:
            try:
                data = await self._data(head)
            except MewError as fault:
                raise MCPError(REFUSED, one_line(str(fault), 300)) from None
        part = data[(asked.part - 1) * PART : asked.part * PART]
        blob = base64.b64encode(part).decode()
        return {"contents": [{"uri": uri, "mimeType": "application/octet-stream", "blob": blob}]}

    async def _data(self, head: ResultHead) -> bytearray:
        if self._held is None or self._held[0] != head:
            self._held = None
            held = self._held = head, await self._results.load_data(head)
            asyncio.get_running_loop().call_later(HELD, self._drop, held)
        return self._held[1]

    def _drop(self, held: tuple[ResultHead, bytearray]) -> None:
        if self._held is held:
            self._held = None


def _parts(head: ResultHead) -> int:
    return -(-head.size // PART)
