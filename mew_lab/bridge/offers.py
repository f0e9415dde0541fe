"""Names the tools, resources and prompts of a space for MCP clients, and keeps which tools are offered.

A name depends on its participant and its tool alone. So it stays what it is while others join and leave, and no
participant can choose a tool name that takes the name of another's tool. Only a participant whose names are bare, and
a hash that somebody searched for, can make two tools ask for one name. The one that has it keeps it, as long as the
gate lives.

Spec: §3.1, SDK "Tool Preparation and Namespacing"; MCP "Tools".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from mew_lab.protocol.difference import are_equal
from mew_lab.protocol.text import client_names
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
_MAX_SHOWN = 80


def offered_name(participant: str, name: str) -> str:
    """The name of `participant/name` for MCP clients; see `client_names`."""
    return _names_of(participant, name)[0]


def _names_of(participant: str, name: str, *, bare: bool = False) -> list[str]:
    names = client_names(participant, name, bare=bare)
    return [form for form in names if form not in (RESULT, WITHDRAW)]


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


def _differ(one: Mapping[str, OfferedTool], other: Mapping[str, OfferedTool]) -> bool:
    """Whether a client sees a difference."""
    if one is other:
        return False
    return len(one) != len(other) or not all(map(_look_alike, one.values(), other.values()))


def _look_alike(before: OfferedTool, now: OfferedTool) -> bool:
    """Whether a client sees the same of two tools. A list that was not read anew has the same tools, as a rule."""
    if before.tool is now.tool and (before.name, before.asks) == (now.name, now.asks):
        return True
    return are_equal(before.described(), now.described())


class OfferedTools:
    """The tools that are offered now, by name; names of earlier tools are remembered, and mean no other tool later.

    Args:
        bare: the participant whose tools have their own names; empty for none.
        report: called with a sentence about a tool that has no name of its own.
    """

    def __init__(
        self,
        *,
        bare: str = "",
        report: Callable[[str, str], object] = lambda who, text: None,
        most_gone: int = 1000,
    ) -> None:
        self._tools: Mapping[str, OfferedTool] = {}
        self._gone: dict[str, str] = {}
        self._most_gone = most_gone
        self._bare = bare
        self._report = report
        self._listed: Mapping[str, OfferedTool] | None = None  # as clients know them
        self._is_mixed = False  # whether some know others

    def __iter__(self) -> Any:
        return iter(self._tools.values())

    def put(self, tools: Iterable[tuple[DiscoveredTool, bool]]) -> None:
        """Replaces the tools, each with whether its calls need an approval."""
        before, named = self._tools, dict[str, OfferedTool]()

        def place(pair: tuple[DiscoveredTool, bool]) -> tuple[bool, str]:
            # The order does not depend on who answers first. Those of the bare participant come last: no tool of another
            # loses its name to one.
            return pair[0].participant == self._bare, pair[0].participant

        for tool, asks in sorted(tools, key=place):
            self._name(tool, asks, named)
        self._tools = named
        for name in before.keys() - named.keys():
            self._gone[name] = before[name].target
        while len(self._gone) > self._most_gone:
            del self._gone[next(iter(self._gone))]

    @property
    def now(self) -> Mapping[str, OfferedTool]:
        """The tools by name; they do not change any more."""
        return self._tools

    def note_listed(self, listed: Mapping[str, OfferedTool], *, is_other: bool = False) -> None:
        """Notes that a client has got a list of these tools; `is_other` if it has got another one in its place."""
        if self._listed is None:
            self._listed = listed
        self._is_mixed |= is_other or _differ(self._listed, listed)

    def take_change(self) -> bool:
        """Whether some client knows other tools than those of now; from now on, these are what clients know.

        Never before a first client has got a list.
        """
        if self._listed is None:
            return False
        changed = self._is_mixed or _differ(self._listed, self._tools)
        self._listed, self._is_mixed = self._tools, False
        return changed

    def _name(self, tool: DiscoveredTool, asks: bool, named: dict[str, OfferedTool]) -> None:
        """Adds a tool under the first of its names that is no other's."""
        target = holder = f"{tool.participant}/{tool.name}"
        for name in _names_of(tool.participant, tool.name, bare=tool.participant == self._bare):
            known = named.get(name) or self._tools.get(name)
            holder = known.target if known is not None else self._gone.get(name, target)
            if holder == target:
                named[name] = OfferedTool(name, tool, asks)
                return
        target, other = one_line(target, _MAX_SHOWN), one_line(holder, _MAX_SHOWN)
        self._report(
            tool.participant,
            f"MCP clients are not offered {target}, because its name for them is that of {other}",
        )

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
