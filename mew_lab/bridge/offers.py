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

from mew_lab.protocol.coerce import line_of
from mew_lab.protocol.difference import are_equal
from mew_lab.protocol.text import client_names, letters
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.discovery import DiscoveredTool
from mew_lab.sdk.peer_lists import PeerEntry

__all__ = [
    "ANSWER_AFTER_KEY",
    "APPS",
    "EDITED",
    "GATE",
    "LISTING",
    "PENDING",
    "PENDING_LINE",
    "PROPOSAL",
    "REFUSED",
    "RESULT",
    "STATE",
    "WITHDRAW",
    "OfferedTool",
    "OfferedTools",
    "offered_entry",
    "offered_link",
    "offered_meta",
    "offered_name",
    "offered_uri",
    "own_uri",
]

GATE = "mew-lab"  # the name of the server that a gate is
RESULT, WITHDRAW = "proposal_result", "proposal_withdraw"
_OWN_META = "mew-lab/"  # the beginning of members of `_meta` that only a gate writes
_OWN_KEY = letters(_OWN_META)
STATE, PROPOSAL, EDITED = f"{_OWN_META}state", f"{_OWN_META}proposal", f"{_OWN_META}edited"
ANSWER_AFTER_KEY = f"{_OWN_META}answer-after"  # of a request: its client says how long it waits
PENDING_LINE = "This is no result yet, and no refusal."  # the first line of each pending result
PENDING, REFUSED = -32050, -32051  # codes of errors, where a result could not say it
LISTING: Final[list[dict[str, Any]]] = [
    {
        "kind": "mcp/request",
        "payload": {
            "method": [
                *("tools/list", "resources/list", "resources/templates/list", "prompts/list"),
                *("completion/complete", "notifications/cancelled"),
            ]
        },
    }
]
"""The capability to ask what others offer, to complete arguments of it, and to cancel calls. Without it, a gate has
nothing to offer."""

APPS = "io.modelcontextprotocol/ui"  # the extension by which clients show pages of servers
_UI = "ui://"  # of the pages of MCP Apps; a client shows no page of another scheme
_OFFERED_URI = re.compile(r"(mew|ui)://([^/]+)/(.+)", re.DOTALL)
# An address that a client may read as one of a gate: it may ignore case, blanks before it, and breaks within it.
_LIKE_OFFERED = re.compile(r"[\x00-\x20]*(m\s*e\s*w|u\s*i)\s*:", re.IGNORECASE)
_WEB = re.compile(r"https?:", re.IGNORECASE)  # a client may load these itself
_ICON = re.compile(r"https:|data:image/", re.IGNORECASE)
_MAX_SHOWN = 80
_MAX_TITLE = 200  # characters


def offered_name(participant: str, name: str) -> str:
    """The name of `participant/name` for MCP clients; see `client_names`."""
    return _names_of(participant, name)[0]


def _names_of(participant: str, name: str, *, bare: bool = False) -> list[str]:
    names = client_names(participant, name, bare=bare)
    return [form for form in names if form not in (RESULT, WITHDRAW)]


def offered_uri(participant: str, uri: str) -> str:
    """The URI of a resource of a participant for clients: `mew://files/file:///a.txt`, `ui://clock/clock/page.html`."""
    if uri.startswith(_UI):
        return f"{_UI}{participant}/{uri.removeprefix(_UI)}"
    return f"mew://{participant}/{uri}"


def own_uri(uri: str) -> tuple[str, str] | None:
    """The participant, and its own URI; None for a URI of another form."""
    match = _OFFERED_URI.fullmatch(uri)
    if match is None:
        return None
    return match[2], (match[3] if match[1] == "mew" else _UI + match[3])


def offered_meta(participant: str, meta: Mapping[str, Any]) -> dict[str, Any]:
    """A `_meta` of a participant for clients: without members of the gate, and with its pages under their addresses."""
    return {
        name: _with_offered_uris(participant, member)
        for name, member in meta.items()
        if not letters(name).startswith(_OWN_KEY)
    }


def _with_offered_uris(participant: str, value: Any) -> Any:
    if isinstance(value, str):
        return offered_uri(participant, value) if _LIKE_OFFERED.match(value) else value
    if isinstance(value, list):
        return [_with_offered_uris(participant, item) for item in value]
    if isinstance(value, dict):
        return {name: _with_offered_uris(participant, member) for name, member in value.items()}
    return value


def offered_link(participant: str, uri: str) -> str:
    """The URI of a link in a result, as clients read it; that of the web stays as it is."""
    return uri if _WEB.match(uri) else offered_uri(participant, uri)


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

    def is_of(self, participant: str, name: str) -> bool:
        """Whether it is the tool of that name of that participant."""
        return (self.tool.participant, self.tool.name) == (participant, name)

    def described(self, *, with_results: bool = True, with_more: bool = True) -> dict[str, Any]:
        """Its entry in `tools/list`.

        Args:
            with_results: whether it has the schema of its results. A pending result follows none, so a client that
                may get one is not given it.
            with_more: whether it has what only some clients use: a title, icons, the schema, `_meta`.
        """
        tool = self.tool
        where = f"Tool {tool.name} of participant {tool.participant}."
        asks = " A person has to approve each call, so an answer may take a while." if self.asks else ""
        entry: dict[str, Any] = {
            "name": self.name,
            "description": "\n\n".join(filter(None, [tool.description, where + asks])),
            "inputSchema": {**tool.input_schema, "type": "object"},
        }
        annotations = dict(tool.annotations)
        if title := self._title(annotations.get("title")):
            annotations["title"] = title
        if annotations:
            entry["annotations"] = annotations
        return {**entry, **self._more(with_results=with_results)} if with_more else entry

    def _more(self, *, with_results: bool) -> dict[str, Any]:
        more = self.tool.more
        schema, meta, icons = more.get("outputSchema"), more.get("_meta"), more.get("icons")
        members: dict[str, Any] = {"title": self._title(more.get("title"))}
        # Data that is no object is given as text. A client checks results by the schema, and may load what that names.
        is_of_object = isinstance(schema, dict) and schema.get("type") == "object"
        if with_results and is_of_object and not _refers_elsewhere(schema):
            members["outputSchema"] = schema
        if isinstance(icons, list):
            members["icons"] = [icon for icon in icons if _is_icon(icon)]
        if isinstance(meta, dict):
            members["_meta"] = offered_meta(self.tool.participant, meta)
        return {name: member for name, member in members.items() if member}

    def _title(self, title: object) -> str:
        """A title for clients, which show it in place of the name: so it says its participant as well."""
        shown = line_of(title, _MAX_TITLE)
        return f"{self.tool.participant}: {shown}" if shown.strip() else ""


def _refers_elsewhere(schema: object) -> bool:
    """Whether a schema refers to another document."""
    if isinstance(schema, list):
        return any(map(_refers_elsewhere, schema))
    if not isinstance(schema, dict):
        return False
    targets = (schema.get("$ref"), schema.get("$dynamicRef"), schema.get("$recursiveRef"))
    return any(isinstance(target, str) and not target.startswith("#") for target in targets) or any(
        map(_refers_elsewhere, schema.values())
    )


def _is_icon(icon: object) -> bool:
    return isinstance(icon, dict) and isinstance(icon.get("src"), str) and bool(_ICON.match(icon["src"]))


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
