"""Names the tools, resources and prompts of a space for MCP clients: one name for each, the same in every space.

A client knows a tool by one name of at most 64 characters of `[a-zA-Z0-9_-]`. A name depends on its participant and its
tool alone. So it stays what it is while others join and leave, and no participant can choose a tool name that takes the
name of another's tool.

Spec: §3.1, SDK "Tool Preparation and Namespacing"; MCP "Tools".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from mew_lab.protocol.difference import are_equal
from mew_lab.protocol.text import MAX_API_NAME
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.discovery import DiscoveredTool
from mew_lab.sdk.peer_lists import PeerEntry

__all__ = [
    "EDITED",
    "GATE",
    "LISTING",
    "OWN_META",
    "PENDING",
    "PROPOSAL",
    "REFUSED",
    "RESULT",
    "STATE",
    "WITHDRAW",
    "OfferedTool",
    "OfferedTools",
    "offered_entry",
    "offered_name",
    "offered_uri",
    "own_uri",
]

GATE = "mew-lab"  # the name of the server that a gate is
RESULT, WITHDRAW = "proposal_result", "proposal_withdraw"
OWN_META = "mew-lab/"  # the beginning of members of `_meta` that only a gate writes
STATE, PROPOSAL, EDITED = f"{OWN_META}state", f"{OWN_META}proposal", f"{OWN_META}edited"
PENDING, REFUSED = -32050, -32051  # codes of errors, where a result could not say it
LISTING: Final[list[dict[str, Any]]] = [
    {
        "kind": "mcp/request",
        "payload": {"method": ["tools/list", "resources/list", "resources/templates/list", "prompts/list"]},
    }
]
"""The capability to ask what others offer. Without it, a gate has nothing to offer to its clients."""

SCHEME = "mew://"
_OFFERED_URI = re.compile(r"mew://([^/]+)/(.+)", re.DOTALL)
_SEPARATOR = "--"
_HASHED = 16  # hexadecimal digits: nobody finds a second name with the same ones
# The first underscore of such a name was the slash, and none has the separator: two of these never read the same.
_PLAIN = re.compile(r"[a-zA-Z0-9-]+/[a-zA-Z0-9_-]+")
_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_SHOWN = 80


def offered_name(participant: str, name: str) -> str:
    """The name of `participant/name` for MCP clients. Distinct tools get distinct names.

    `git/git_log` becomes `git_git_log`. A name that is too long, has other characters, or could be read as that of
    another participant gets a separator and a hash at its end.
    """
    full = f"{participant}/{name}"
    form = full.replace("/", "_")
    plain = _PLAIN.fullmatch(full) and _SEPARATOR not in form and len(form) <= MAX_API_NAME
    if plain and form not in (RESULT, WITHDRAW):
        return form
    digits = hashlib.sha256(full.encode("utf-8", "surrogatepass")).hexdigest()[:_HASHED]
    stem = _FOREIGN.sub("_", form)[: MAX_API_NAME - _HASHED - len(_SEPARATOR)].rstrip("-")
    return f"{stem}{_SEPARATOR}{digits}"


def offered_uri(participant: str, uri: str) -> str:
    """The URI of a resource of a participant for clients: `mew://files/file:///a.txt`."""
    return f"{SCHEME}{participant}/{uri}"


def own_uri(uri: str) -> tuple[str, str] | None:
    """The participant, and its own URI; None for a URI of another form."""
    match = _OFFERED_URI.fullmatch(uri)
    return (match[1], match[2]) if match else None


def offered_entry(peer: PeerEntry) -> dict[str, Any]:
    """An entry under its name for clients: a URI where it has one, else the name of a prompt."""
    for key in ("uri", "uriTemplate"):
        if isinstance(uri := peer.entry.get(key), str):
            return {**peer.entry, key: offered_uri(peer.participant, uri)}
    return {**peer.entry, "name": offered_name(peer.participant, str(peer.entry.get("name")))}


class OfferedTool(NamedTuple):
    """A tool of another participant under its `name` for clients; `asks` if each call needs an approval."""

    name: str
    tool: DiscoveredTool
    asks: bool

    @property
    def target(self) -> str:
        """`participant/tool`, as in the space."""
        return f"{self.tool.participant}/{self.tool.name}"

    def described(self) -> dict[str, Any]:
        """Its entry in `tools/list`. An output schema is left out, because a pending answer does not follow one."""
        where = f"Tool {self.tool.name} of participant {self.tool.participant}."
        asks = " A person has to approve each call, so an answer may take a while." if self.asks else ""
        entry: dict[str, Any] = {
            "name": self.name,
            "description": "\n\n".join(filter(None, [self.tool.description, where + asks])),
            "inputSchema": {**self.tool.input_schema, "type": "object"},
        }
        if self.tool.annotations:
            entry["annotations"] = dict(self.tool.annotations)
        return entry


def _look_alike(before: OfferedTool, now: OfferedTool) -> bool:
    """Whether a client sees the same of two tools. A list that was not read anew has the same tools, as a rule."""
    if before.tool is now.tool and (before.name, before.asks) == (now.name, now.asks):
        return True
    return are_equal(before.described(), now.described())


class OfferedTools:
    """The tools that are offered now, by name; names of earlier tools are remembered, to say why they are gone."""

    def __init__(self, *, most_gone: int = 1000) -> None:
        self._tools: Mapping[str, OfferedTool] = {}
        self._gone: dict[str, str] = {}
        self._most_gone = most_gone

    def __iter__(self) -> Any:
        return iter(self._tools.values())

    def put(self, tools: Iterable[OfferedTool]) -> bool:
        """Replaces the tools; returns whether a client sees a difference."""
        before, self._tools = self._tools, {tool.name: tool for tool in tools}
        for name in before.keys() - self._tools.keys():
            self._gone[name] = before[name].target
        while len(self._gone) > self._most_gone:
            del self._gone[next(iter(self._gone))]
        if len(before) != len(self._tools):
            return True
        return not all(map(_look_alike, before.values(), self._tools.values()))

    def find(self, name: str) -> OfferedTool | None:
        """The tool of that name, or None."""
        return self._tools.get(name)

    def why_absent(self, name: str) -> str:
        """A sentence about a name that no tool has now."""
        shown = one_line(name, _MAX_SHOWN)
        if name in self._gone:
            gone = one_line(self._gone[name], _MAX_SHOWN)
            return f"{gone} is not offered any more, so {shown} was not called; list the tools again"
        return f"There is no tool {shown}; list the tools to see which there are"
