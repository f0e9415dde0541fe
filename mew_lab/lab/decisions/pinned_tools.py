"""Compares the descriptions of tools with those at the last approval of a call of the same tool.

Every answer to `tools/list` in the space is read. A description is the target's own statement, which may be false; a
change after an approval is shown to the person who approves. Nothing here sends or decides. The descriptions are kept
as long as the lab exists.

Spec: §3.1, threat 41.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from mew_lab.errors import ConfigError
from mew_lab.ledger.calls import CallIndex, Proposal, Request, method_of
from mew_lab.ledger.unknown_calls import may_repeat
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.permit import Capability
from mew_lab.protocol.text import MAX_NAME
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.discovery import DiscoveredTool, read_tools

__all__ = ["DESTRUCTIVE", "WRITES", "ListedTool", "PinnedTools", "rests_on"]

MAX_TOOLS = 5_000  # of all participants
MAX_OPEN = 10_000  # proposals whose tool was looked up
MAX_LOOKED_UP = 20  # addressees of one proposal
KEPT = 400  # characters of a description or a schema, to be shown
SHOWN = 120

READ_ONLY, WRITES, DESTRUCTIVE = "read-only", "writes data", "destructive"

Key = tuple[str, str]  # a participant, a tool
Local = Callable[[str], Sequence[Mapping[str, Any]] | None]


class ListedTool(NamedTuple):
    """A tool as its participant describes it; `digest` covers the whole description, the texts are cut."""

    digest: str
    description: str
    schema: str
    annotations: str
    hints: tuple[str, ...] = ()
    may_repeat: bool = False

    @classmethod
    def of(cls, tool: DiscoveredTool) -> ListedTool:
        """A `ListedTool` from the description in a list, with its texts cut."""
        parts = (tool.description, _written(tool.input_schema), _written(tool.annotations))
        digest = hashlib.sha256(_written(parts).encode("utf-8", "surrogatepass")).hexdigest()
        description, schema, annotations = (_kept(part) for part in parts)
        hints, may = _hints(tool.annotations), may_repeat(tool.annotations)
        return cls(digest, description, schema, annotations, hints, may)

    def changes(self, now: ListedTool) -> str:
        """The differences as text, each with its old and new value."""
        pairs = (
            ("description", self.description, now.description),
            ("arguments", self.schema, now.schema),
            ("annotations", self.annotations, now.annotations),
        )
        return "; ".join(f"{name}: {_around(old, new)}" for name, old, new in pairs if old != new)


class PinnedTools:
    """The tools whose calls a human approved, with their descriptions at that time.

    `client` is the human's; its id is known once it has joined. `requests` are those of the ledger, which has observed a
    message before it comes here.
    """

    def __init__(self, client: MEWClient, requests: CallIndex[Request]) -> None:
        self._client = client
        self._requests = requests
        self._local: Local = lambda participant: None
        self._changed: Callable[[str, str, str], object] = lambda participant, tool, how: None
        self._listed: BoundedDict[Key, ListedTool] = BoundedDict(MAX_TOOLS, refresh=True)
        self._absent: set[Key] = set()  # those of them that their participant does not list any more
        # Participants whose list was seen: the ledger knows that a list was asked for, and not what it said.
        self._listers: BoundedDict[str, None] = BoundedDict(MAX_TOOLS, refresh=True)
        self._pinned: BoundedDict[Key, ListedTool] = BoundedDict(MAX_TOOLS, refresh=True)
        # Of a proposal its tool as it was shown.
        self._shown: BoundedDict[str, dict[Key, ListedTool]] = BoundedDict(MAX_OPEN, refresh=True)
        self._other: dict[Key, ListedTool] = {}  # what was listed since the pin, and is not what was pinned

    def attach(self, *, local: Local, changed: Callable[[str, str, str], object]) -> None:
        """Connects it to a lab.

        Args:
            local: Gives the tools of a participant of this process; None for any other participant.
            changed: Is called with each tool whose description has changed, and the difference as text.
        """
        self._local, self._changed = local, changed

    def observe(self, envelope: Envelope) -> None:
        """Records one message of the space."""
        payload = envelope.payload
        if envelope.kind == "mcp/request":
            if envelope.sender == self._client.id and not _asks_for_whole_list(payload):
                for id in envelope.correlation_id:
                    self._pin(id)
        elif envelope.kind == "mcp/response":
            result = payload.get("result")
            if not isinstance(result, dict) or "content" in result:
                return
            if isinstance(listed := result.get("tools"), list):
                whole = not result.get("nextCursor") and any(
                    self._was_asked(envelope.sender, id) for id in envelope.correlation_id
                )
                self._take(envelope.sender, listed, whole=whole)

    def remarks(self, proposal: Proposal) -> tuple[str, ...]:
        """One line for each addressee that never listed the proposed tool, or has changed it since an approval.

        From now on an approval of this proposal refers to the present description.
        """
        if not proposal.tool:
            return ()
        shown: dict[Key, ListedTool] = {}
        lines = []
        for who in tuple(dict.fromkeys(proposal.to))[:MAX_LOOKED_UP]:
            key = (who, proposal.tool)
            what = one_line(f"{who}/{proposal.tool}", SHOWN)
            now = self._now(key)
            if now is None:
                lines.append(self._unlisted(who, what))
                continue
            shown[key] = self._other.get(key, now)
            pinned = self._pinned.get(key)
            if pinned is not None and pinned.digest != shown[key].digest:
                lines.append(
                    f"changed: {what} has another description than when it was last approved; "
                    + pinned.changes(shown[key])
                )
        if shown:
            self._shown[proposal.id] = shown
        return tuple(lines)

    def statement(self, proposal: Proposal) -> tuple[str, tuple[str, ...]]:
        """The description and the hints of the proposed tool, as its only addressee gives them; else nothing."""
        if len(set(proposal.to)) != 1 or (tool := self._now((proposal.to[0], proposal.tool))) is None:
            return "", ()
        return one_line(tool.description, SHOWN), tool.hints

    def may_repeat(self, to: Collection[str], tool: str) -> bool:
        """Whether all targets list the tool as one that only reads, or is idempotent. Spec: R35."""
        known = [self._now((who, tool)) for who in set(to)] if tool else []
        return bool(known) and all(tool is not None and tool.may_repeat for tool in known)

    def read_only_tools(self, participant: str) -> list[str]:
        """The names of the tools that the participant lists as read-only, sorted."""
        own = [str(entry.get("name")) for entry in self._local(participant) or ()]
        names = {name for who, name in self._listed if who == participant} | set(own)
        tools = {name: self._now((participant, name)) for name in names}
        return sorted(name for name, tool in tools.items() if tool is not None and READ_ONLY in tool.hints)

    # --- what is known ---

    def _was_asked(self, who: str, id: str) -> bool:
        """Whether that request asked a participant for its whole list."""
        request = self._requests.get(id)
        return (
            request is not None
            and _asks_for_whole_list(request.payload)
            and who in request.envelope.to[:MAX_LOOKED_UP]
        )

    def _now(self, key: Key) -> ListedTool | None:
        return None if key in self._absent else self._listed.get(key) or self._own(key)

    def _own(self, key: Key) -> ListedTool | None:
        """The tool as a participant of this process would list it."""
        if key[0] in self._listers:
            return None
        entries = [entry for entry in self._local(key[0]) or () if entry.get("name") == key[1]]
        tools = read_tools(key[0], entries).tools
        return ListedTool.of(tools[0]) if tools else None

    def _unlisted(self, who: str, what: str) -> str:
        if who in self._listers or self._local(who) is not None:
            return f"not listed: {what} is no tool that {one_line(who, 60)} lists"
        return (
            f"not listed: no list of the tools of {one_line(who, 60)} was seen here, so {what} is not known"
        )

    def _take(self, who: str, entries: Sequence[Any], *, whole: bool) -> None:
        if len(who) > MAX_NAME:
            return
        tools = read_tools(who, [entry for entry in entries if isinstance(entry, dict)]).tools
        self._listers[who] = None
        if whole:
            self._absent -= {key for key in self._absent if key[0] == who}
            names = {tool.name for tool in tools}
            self._absent |= {key for key in self._listed if key[0] == who and key[1] not in names}
        for tool in tools:
            self._take_tool((who, tool.name), ListedTool.of(tool))

    def _take_tool(self, key: Key, now: ListedTool) -> None:
        before = self._listed.get(key) or self._pinned.get(key)
        self._absent.discard(key)
        self._listed[key] = now
        pinned = self._pinned.get(key)
        if pinned is not None and pinned.digest != now.digest:
            self._other[key] = now
        if before is not None and before.digest != now.digest:
            self._changed(*key, before.changes(now))

    def _pin(self, proposal: str) -> None:
        for key, shown in self._shown.pop(proposal, {}).items():
            self._pinned[key] = shown
            self._other.pop(key, None)
            if (now := self._listed.get(key)) is not None and now.digest != shown.digest:
                self._other[key] = now  # it changed after the card was made


def rests_on(pattern: Mapping[str, Any], participant: str, tool: str) -> bool:
    """Whether a right names this tool, alone or among others, and permits calls of it at the participant.

    A right for all tools depends on none of them.
    """
    payload = pattern.get("payload")
    params = payload.get("params") if isinstance(payload, Mapping) else None
    name = params.get("name") if isinstance(params, Mapping) else None
    if name is None or name in ("*", "**"):
        return False
    part: dict[str, Any] = {"kind": pattern.get("kind"), "payload": {"params": {"name": name}}}
    if "to" in pattern:
        part["to"] = pattern["to"]
    try:
        right = Capability.of(part, edition=0)  # the widest reading: it depends on the tool in any
    except ConfigError:
        return False
    asked = {"method": "tools/call", "params": {"name": tool}}
    return any(right.permits(kind, (participant,), asked) for kind in ("mcp/request", "mcp/proposal"))


def _asks_for_whole_list(payload: Mapping[str, Any]) -> bool:
    """Whether a request asks for the list of tools from its beginning."""
    return method_of(payload) == "tools/list" and not payload.get("params")


def _hints(annotations: Mapping[str, Any]) -> tuple[str, ...]:
    """The words for what a tool says of itself; a tool that says two things that exclude each other is the worse one."""
    if annotations.get("destructiveHint") is True and annotations.get("readOnlyHint") is not True:
        return (DESTRUCTIVE,)
    if annotations.get("readOnlyHint") is False:
        return (WRITES,)
    is_mixed = annotations.get("destructiveHint") is True
    return (READ_ONLY,) if annotations.get("readOnlyHint") is True and not is_mixed else ()


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"))


def _kept(text: str) -> str:
    """The text, or its beginning and its end around the digest of the whole."""
    if len(text) <= KEPT:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{text[: KEPT // 2]}…[{len(text)} characters, {digest}]…{text[-KEPT // 2 :]}"


def _around(old: str, new: str) -> str:
    """Both texts from shortly before their first difference."""
    same = next(
        (n for n, (c, d) in enumerate(zip(old, new, strict=False)) if c != d),
        min(len(old), len(new)),
    )
    start = max(0, same - 20)
    before = "…" if start else ""
    return f"“{one_line(before + old[start:], SHOWN)}” → “{one_line(before + new[start:], SHOWN)}”"
