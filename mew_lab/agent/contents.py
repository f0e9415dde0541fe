"""Offers the resources and prompts of the other participants to a model, as the tools `read_resource` and `get_prompt`.

How it works: `refresh` asks the participants for their lists, when a request is worked on. `list_tools` makes the two
tools of the lists; their descriptions name what may be read. A model sees what its agent may request or propose, and a
tool without anything to read is not offered. `content_request` turns a call into the MCP request for its participant.

What is read is data of a peer, like the answer of a tool.

Spec: §3.1; MCP "Resources", "Prompts".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mew_lab.agent.model import ToolSpec
from mew_lab.protocol.coerce import list_of
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.group import run_all
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.peer_lists import METHODS, PeerEntry, PeerLists

__all__ = ["GET_PROMPT", "READ_RESOURCE", "Gate", "PeerContents", "content_request"]

READ_RESOURCE, GET_PROMPT = "read_resource", "get_prompt"
_METHOD = {READ_RESOURCE: "resources/read", GET_PROMPT: "prompts/get"}
MAX_LISTED = 50  # entries in the description of one tool
MAX_JUDGED = 200  # entries of one list whose reading is compared with the capabilities
MAX_LINE = 200  # characters of one entry
MAX_SHOWN = 80  # characters of one name

Gate = Callable[[str, Mapping[str, Any] | None], str]
"""Returns the reason why a tool may not be used, by its name or with these arguments; empty where it may."""


class PeerContents:
    """The resources and prompts of the other participants, as one participant may read them."""

    def __init__(self, participant: MEWParticipant) -> None:
        self._participant = participant
        self._lists = PeerLists(participant)
        self._refreshing: asyncio.Task[None] | None = None

    async def refresh(self, within: float) -> None:
        """Asks for the lists that are not known, or are old; waits at most `within` seconds for them."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._read_lists())
        await asyncio.wait({self._refreshing}, timeout=within)

    async def _read_lists(self) -> None:
        await run_all(self._lists.read(method) for method in METHODS)

    async def close(self) -> None:
        """Ends the requests for lists."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait({self._refreshing})
        await self._lists.close()

    def list_tools(self, gate: Gate | None = None) -> list[ToolSpec]:
        """The tools with which a model reads them; none where there is nothing that it may read."""
        resources = list(self._readable(READ_RESOURCE, "resources/list", gate))
        templates = list(self._readable(READ_RESOURCE, "resources/templates/list", gate))
        prompts = list(self._readable(GET_PROMPT, "prompts/list", gate))
        specs = []
        if resources or templates:
            uri = {"type": "string", "description": "The URI of the resource, as it is listed."}
            text = "\n".join(
                [
                    "Reads a resource of a participant.",
                    *_list_entries("Resources", "uri", resources),
                    *_list_entries("URIs of this form, with each {name} filled in", "uriTemplate", templates),
                ]
            )
            schema = _parameters(resources + templates, {"uri": uri}, required=["uri"])
            specs.append(ToolSpec(READ_RESOURCE, text, schema))
        if prompts:
            fields = {
                "name": {"type": "string", "description": "The name of the prompt, as it is listed."},
                "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
            }
            text = "\n".join(
                ["Gets a prompt of a participant, filled in.", *_list_entries("Prompts", "name", prompts)]
            )
            specs.append(ToolSpec(GET_PROMPT, text, _parameters(prompts, fields, required=["name"])))
        return specs

    def _readable(self, tool: str, listed: str, gate: Gate | None) -> Iterator[PeerEntry]:
        me = self._participant
        key = {"resources/list": "uri", "resources/templates/list": "uriTemplate"}.get(listed, "name")
        for peer in self._lists.kept(listed)[:MAX_JUDGED]:
            if peer.participant == me.client.id or not isinstance(peer.entry.get(key), str):
                continue
            given = {} if key == "uriTemplate" else {key: peer.entry[key]}
            payload = {"method": _METHOD[tool], "params": given}
            if gate is not None and gate(tool, {"participant": peer.participant, **given}):
                continue
            if any(me.can_send(kind, payload, peer.participant) for kind in ("mcp/request", "mcp/proposal")):
                yield peer


def content_request(tool: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """The participant and the payload of the request that a call of one of the two tools makes.

    None for a call of any other tool. What is missing or of a wrong type is an empty text; a participant refuses that.
    """
    method = _METHOD.get(tool)
    if method is None:
        return None
    if tool == READ_RESOURCE:
        params: dict[str, Any] = {"uri": _text(arguments.get("uri"))}
    else:
        filled = arguments.get("arguments")
        params = {"name": _text(arguments.get("name"))}
        if isinstance(filled, Mapping) and filled:
            params["arguments"] = {str(key): _text(value) for key, value in filled.items()}
    return _text(arguments.get("participant")), {"method": method, "params": params}


def _list_entries(title: str, key: str, peers: list[PeerEntry]) -> list[str]:
    """A title, and a line for each entry; empty for none. The words are those of the participants."""
    lines = []
    for peer in peers[:MAX_LISTED]:
        about = peer.entry.get("description") or (peer.entry.get("name") if key != "name" else "")
        names = [
            f"{argument.get('name')}{'*' if argument.get('required') is True else ''}"
            for argument in list_of(peer.entry.get("arguments"))
            if isinstance(argument, Mapping)
        ]
        takes = f" ({', '.join(names)})" if names else ""
        says = f": {about}" if isinstance(about, str) and about else ""
        lines.append("- " + one_line(f"{peer.participant} {peer.entry[key]}{takes}{says}", MAX_LINE))
    rest = len(peers) - MAX_LISTED
    return ([f"{title}:"] if lines else []) + lines + ([f"and {rest} more"] if rest > 0 else [])


def _parameters(peers: list[PeerEntry], fields: Mapping[str, Any], *, required: list[str]) -> dict[str, Any]:
    names = list(dict.fromkeys(peer.participant for peer in peers))
    return {
        "type": "object",
        "properties": {"participant": {"type": "string", "enum": names}, **fields},
        "required": ["participant", *required],
        "additionalProperties": False,
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
