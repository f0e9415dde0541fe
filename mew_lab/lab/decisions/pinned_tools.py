"""Compares the descriptions of tools with those at the last approval of a call of the same tool.

An answer to `tools/list` counts where its sender was asked, as for the requester: both take the same tools from it
(`ToolReader`). A description is the target's own statement, which may be false. So a change is shown to the person who
approves: another text, a name that is listed twice, a tool that is gone, a tool that is not remembered any more. Nothing
here sends or decides. Each participant has a share of what is remembered, however many connections it has.

Spec: §3.1, threats 41 and 52.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

from mew_lab.errors import ConfigError, MewError
from mew_lab.lab.call_check import misfits
from mew_lab.ledger.calls import CallIndex, Proposal, Request, tool_of
from mew_lab.ledger.unknown_calls import may_repeat
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import mapping_of, member
from mew_lab.protocol.envelope import Envelope, read_canonical
from mew_lab.protocol.permit import Capability
from mew_lab.protocol.steps import Steps, finish
from mew_lab.protocol.text import MAX_NAME
from mew_lab.protocol.tool_hints import READ_ONLY, hint_words
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.discovery import DiscoveredTool, ToolReader, ToolReading, Written
from mew_lab.sdk.results import result_of

__all__ = ["ListedTool", "PinnedTools", "rests_on"]

MAX_TOOLS = 10_000  # of all participants; above it, the lists of the participant with the most are forgotten
SHARE = 1_000  # tools of one participant, those that it lists no more included
MAX_IDS = 20  # connections of one participant that listed tools
MAX_READINGS = 32  # lists of several pages of which the next page is awaited
MAX_LOOKED_UP = 20  # addressees of one proposal
KEPT = 400  # characters of a description or a schema, to be shown
SHOWN = 120
MOST_MISFITS = 3
MOST_JUDGED = 16 * 1024  # characters of a proposal; to judge a larger one would hold the loop
MOST_SCHEMA = 4096  # characters of a schema from elsewhere by which calls are judged, and
MOST_CHECKED = 2_000  # steps of a check: such a schema may be costly on purpose

GONE, FORGOTTEN = "it is not listed any more", "what it was listed with is not remembered any more"

Key = tuple[str, str]  # the id of a connection, a tool
Local = Callable[[str], ToolReading | None]
Changes = Mapping[str, str]  # tools of one participant, and the difference of each as text


class ListedTool(NamedTuple):
    """A tool as its participant describes it, with its texts cut; `written` covers all of its entries.

    `schema` is the whole text of the schema of its arguments, empty where that is long.
    """

    written: Written
    texts: Mapping[str, str]
    description: str
    hints: tuple[str, ...] = ()
    may_repeat: bool = False
    schema: str = ""

    @property
    def digest(self) -> str:
        """The SHA-256 of its entry; empty where the list has several entries of its name."""
        return self.written.first if self.written.times == 1 else ""

    @classmethod
    def of(cls, tool: DiscoveredTool, entry: Mapping[str, Any], written: Written) -> ListedTool:
        """A `ListedTool` from its entry in a list, in one piece."""
        return finish(cls.read(tool, entry, written))

    @classmethod
    def read(cls, tool: DiscoveredTool, entry: Mapping[str, Any], written: Written) -> Steps[ListedTool]:
        """A `ListedTool` from its entry in a list."""
        schema = yield from _text(tool.input_schema)
        kept = {
            "description": _kept(tool.description),
            "arguments": _kept(schema),
            "annotations": _kept((yield from _text(tool.annotations))),
            "title": _kept((yield from _text(entry.get("title", "")))),
            "results": _kept((yield from _text(entry.get("outputSchema", {})))),
            "_meta": _kept((yield from _text(entry.get("_meta", {})))),
            "all else": _kept(
                (yield from _text({name: entry[name] for name in entry if name not in _NAMED}))
            ),
        }
        hints = hint_words(tool.annotations)
        judged = schema if len(schema) <= MOST_SCHEMA else ""
        return cls(written, kept, kept["description"], hints, may_repeat(tool.annotations), judged)

    def changes(self, now: ListedTool) -> str:
        """The differences as text, each with its old and new value."""
        pairs = ((name, text, now.texts[name]) for name, text in self.texts.items())
        texts = [f"{name}: {_around(old, new)}" for name, old, new in pairs if old != new]
        if self.written.times != now.written.times:
            texts.append(f"it is listed {now.written.times} times, before {self.written.times}")
        return "; ".join(texts) or "a part of it that is not shown"


@dataclass(slots=True)
class _Lister:
    """What is remembered of one participant."""

    tools: dict[Key, ListedTool] = field(default_factory=dict)  # those that were listed last come last
    ids: BoundedDict[str, None] = field(default_factory=lambda: BoundedDict(MAX_IDS, refresh=True))
    absent: set[Key] = field(default_factory=set)  # tools that are not listed any more
    pinned: BoundedDict[str, ListedTool] = field(default_factory=lambda: BoundedDict(SHARE, refresh=True))
    # listed since the pin, and not what was pinned
    other: dict[Key, ListedTool] = field(default_factory=dict)
    changed: BoundedDict[str, float] = field(default_factory=lambda: BoundedDict(SHARE, refresh=True))

    def find(self, key: Key) -> ListedTool | None:
        """The tool as that connection listed it last, else as another connection did."""
        if key in self.tools:
            return self.tools[key]
        others = ((id, key[1]) for id in reversed(self.ids))
        return next((self.tools[other] for other in others if other in self.tools), None)

    def shrink(self, most: int) -> Iterator[tuple[str, str]]:
        """Forgets the tools that were listed longest ago; yields those that no other connection lists alike."""
        while len(self.tools) > most:
            key = next(iter(self.tools))
            tool = self.tools.pop(key)
            self.absent.discard(key)
            self.other.pop(key, None)
            alike = self.find(key)
            if alike is None or alike.written != tool.written:
                yield key[1], FORGOTTEN
        if not most:
            self.ids.clear()


class PinnedTools:
    """The tools whose calls a human approved, with their descriptions at that time.

    `client` is the human's; its id is known once it has joined. `requests` are those of the ledger, which has observed a
    message before it comes here. `logical` gives the participant that an id means.
    """

    def __init__(
        self,
        client: MEWClient,
        requests: CallIndex[Request],
        *,
        logical: Callable[[str], str],
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._requests = requests
        self._logical = logical
        self._clock = clock
        self._local: Local = lambda participant: None
        self._changed: Callable[[str, Changes], object] = lambda participant, changes: None
        self._listers: dict[str, _Lister] = {}
        self._size = 0  # of all tools, and one for each lister
        # Keys: the lister, and the requester, which has one reading of it.
        self._readings: BoundedDict[tuple[str, str], ToolReader] = BoundedDict(
            MAX_READINGS, owner_of=lambda reader: logical(reader.participant)
        )
        self._shown: dict[str, dict[Key, ListedTool]] = {}  # of a proposal its tool as it was shown

    def attach(self, *, local: Local, changed: Callable[[str, Changes], object]) -> None:
        """Connects it to a lab.

        Args:
            local: Gives the tools of a participant of this process; None for any other participant.
            changed: Is called with a participant and those of its tools whose description has changed.
        """
        self._local, self._changed = local, changed

    def observe(self, envelope: Envelope) -> Steps[None] | None:
        """Records one message of the space; returns the steps that read it, where it is a list of tools.

        Lists are to be read in the order in which they came.
        """
        if envelope.kind == "mcp/request":
            if envelope.sender == self._client.id and (tool := tool_of(envelope.payload)):
                for id in envelope.correlation_id:
                    self._pin(id, tool)
        elif envelope.kind == "mcp/response" and len(envelope.sender) <= MAX_NAME:
            return self._take_answer(envelope)
        return None

    def forget(self, proposal: str) -> None:
        """Forgets what was shown of a proposal, which nobody can approve any more."""
        self._shown.pop(proposal, None)

    def remarks(self, proposal: Proposal) -> tuple[str, ...]:
        """One line for each addressee that never listed the proposed tool, lists it twice, or changed it.

        From now on an approval of this proposal refers to the present description.
        """
        if not proposal.tool:
            return ()
        shown: dict[Key, ListedTool] = {}
        lines = []
        for who in tuple(dict.fromkeys(proposal.to))[:MAX_LOOKED_UP]:
            what = one_line(f"{who}/{proposal.tool}", SHOWN)
            key, now = self._look_up(who, proposal.tool)
            if now is None:
                lines.append(self._unlisted(who, what))
                continue
            if now.written.times > 1:
                lines.append(
                    f"listed twice: {one_line(who, 60)} describes {what} {now.written.times} times; "
                    "this card shows the first description"
                )
            lister = self._listers.get(self._logical(who))
            shown[key] = lister.other.get(key, now) if lister else now
            pinned = lister.pinned.get(proposal.tool) if lister else None
            if pinned is not None and pinned.written != shown[key].written:
                lines.append(
                    f"changed: {what} has another description than when it was last approved; "
                    + pinned.changes(shown[key])
                )
        if shown:
            self._shown[proposal.id] = shown
        return tuple(lines)

    def shown(self, proposal: str) -> ListedTool | None:
        """The tool of an open proposal as its card shows it; None where it has no or several addressees that list it."""
        shown = self._shown.get(proposal, {})
        return next(iter(shown.values())) if len(shown) == 1 else None

    def digest_of(self, participant: str, tool: str) -> str:
        """The SHA-256 of the entry of a tool as it is listed now; empty where it is not known, or listed twice."""
        now = self._now(participant, tool)
        return "" if now is None else now.digest

    def statement(self, proposal: Proposal) -> tuple[str, tuple[str, ...]]:
        """The description and the hints of the proposed tool, as its only addressee gives them; else nothing."""
        if len(set(proposal.to)) != 1:
            return "", ()
        tool = self._now(proposal.to[0], proposal.tool)
        return ("", ()) if tool is None else (one_line(tool.description, SHOWN), tool.hints)

    def misfits(self, proposal: Proposal) -> tuple[str, ...]:
        """Where the arguments do not fit the tool as its only addressee lists it; at most three.

        Nothing is said of a large proposal, of a tool that is not known, and of a long schema of another process.
        """
        if len(proposal.envelope.raw) > MOST_JUDGED or not proposal.tool or len(set(proposal.to)) != 1:
            return ()
        key, params = (proposal.to[0], proposal.tool), proposal.payload.get("params")
        arguments = params.get("arguments", {}) if isinstance(params, Mapping) else None
        if not isinstance(arguments, Mapping):
            return ()
        if self._local(key[0]) is not None:
            return misfits(self.schema(*key), arguments)[:MOST_MISFITS]
        return misfits(self.schema(*key), arguments, most=MOST_CHECKED)[:MOST_MISFITS]

    def schema(self, participant: str, tool: str) -> Mapping[str, Any]:
        """The schema of the arguments of a tool, as its participant lists it; empty where that is not known."""
        if (reading := self._local(participant)) is not None:
            return next((one.input_schema for one in reading.tools if one.name == tool), {})
        listed = self._now(participant, tool)
        return {} if listed is None or not listed.schema else mapping_of(json.loads(listed.schema))

    def hints(self, proposal: Proposal) -> set[str]:
        """The hints of the proposed tool, of all its addressees."""
        targets = tuple(dict.fromkeys(proposal.to))[:MAX_LOOKED_UP] if proposal.tool else ()
        known = [self._now(who, proposal.tool) for who in targets]
        return {hint for tool in known if tool is not None for hint in tool.hints}

    def may_repeat(self, to: Collection[str], tool: str) -> bool:
        """Whether all targets list the tool as one that only reads, or is idempotent. Spec: R35."""
        known = [self._now(who, tool) for who in set(to)] if tool else []
        return bool(known) and all(tool is not None and tool.may_repeat for tool in known)

    def read_only_tools(self, participant: str) -> list[str]:
        """The names of the tools that the participant lists as read-only, sorted."""
        names = {tool.name for tool in own.tools} if (own := self._local(participant)) else set()
        if lister := self._listers.get(self._logical(participant)):
            names |= {name for _, name in lister.tools}
        tools = {name: self._now(participant, name) for name in names}
        return sorted(name for name, tool in tools.items() if tool is not None and READ_ONLY in tool.hints)

    def changed_since(self, pattern: Mapping[str, Any], since: float) -> str:
        """The tool that a right depends on and whose description has changed since then; empty where there is none.

        Args:
            since: Epoch, seconds.

        Spec: threat 41.
        """
        for who, lister in self._listers.items():
            if tool := rests_on(pattern, who, (name for name, at in lister.changed.items() if at > since)):
                return f"{who}/{tool}"
        return ""

    # --- what is known ---

    def _now(self, who: str, tool: str) -> ListedTool | None:
        return self._look_up(who, tool)[1]

    def _look_up(self, who: str, tool: str) -> tuple[Key, ListedTool | None]:
        """The tool of a name in `to`: of the connection that it means, or of a participant of this process."""
        lister, present = self._listers.get(self._logical(who)), self._client.participants
        named = (who, *reversed(lister.ids)) if lister and who == self._logical(who) else (who,)
        ids = [id for id in named if lister and id in lister.ids]
        key = (next((id for id in ids if id in present), ids[0] if ids else who), tool)
        if lister and ids:
            return key, None if key in lister.absent else lister.tools.get(key)
        return key, self._own(key)

    def _own(self, key: Key) -> ListedTool | None:
        """The tool as a participant of this process would list it."""
        reading = self._local(key[0])
        rows = zip(reading.tools, reading.entries, reading.written, strict=True) if reading else ()
        return next((ListedTool.of(*row) for row in rows if row[0].name == key[1]), None)

    def _unlisted(self, who: str, what: str) -> str:
        lister = self._listers.get(self._logical(who))
        is_known = lister is not None and (
            who in lister.ids or (bool(lister.ids) and who == self._logical(who))
        )
        if is_known or self._local(who) is not None:
            return f"not listed: {what} is no tool that {one_line(who, 60)} lists"
        return (
            f"not listed: no list of the tools of {one_line(who, 60)} is known here, so {what} is not known"
        )

    def _take_answer(self, envelope: Envelope) -> Steps[None] | None:
        """Reads a page of a list as its requester reads it: the first answer of a participant that was asked."""
        known = (self._requests.get(id) for id in dict.fromkeys(envelope.correlation_id))
        asked = [
            request
            for request in known
            if request is not None
            and request.method == "tools/list"
            and any(answer.envelope is envelope for answer in request.answers)
        ]
        if not asked:
            return None
        try:
            result = result_of(envelope.payload, method="tools/list", what="tools/list")
        except MewError:
            return None
        # An answer to several requests is read once; for one of them it may be the whole list.
        request = min(asked, key=lambda request: bool(_cursor_of(request.payload)))
        return self._read(envelope.sender, request, result)

    def _read(self, id: str, request: Request, result: Mapping[str, Any]) -> Steps[None]:
        cursor = _cursor_of(request.payload)
        reader = self._readings.get((id, request.sender)) if cursor else ToolReader(id)
        follows = reader is not None and reader.next_cursor == cursor
        if reader is None or not follows:
            reader = ToolReader(id)
        yield from reader.take(result)
        if follows:
            self._readings.pop((id, request.sender), None)
            if reader.next_cursor:
                self._readings[id, request.sender] = reader
        reading, whole = reader.reading(), follows and not reader.next_cursor
        made: dict[str, ListedTool] = {}
        for row in zip(reading.tools, reading.entries, reading.written, strict=True):
            before = self._before((id, row[0].name))
            if before is None or not before.written.is_same(row[2], whole=whole):
                made[row[0].name] = yield from ListedTool.read(*row)
                yield
        self._take(id, reading, made, whole=whole)

    def _before(self, key: Key) -> ListedTool | None:
        """The tool as it was listed, or pinned, before."""
        if (lister := self._listers.get(self._logical(key[0]))) is None:
            return self._own(key)
        return lister.find(key) or (None if lister.ids else self._own(key)) or lister.pinned.get(key[1])

    def _take(self, id: str, reading: ToolReading, made: Mapping[str, ListedTool], *, whole: bool) -> None:
        """Takes over a list, or pages of it: they take nothing away, and say nothing of a name that comes twice.

        `made` holds those that were read already, by name.
        """
        who = self._logical(id)
        lister = self._listers.get(who)
        if lister is None:
            lister = self._listers[who] = _Lister()
            self._size += 1
        before_size, changes = len(lister.tools), dict[str, str]()
        for tool, entry, written in zip(reading.tools, reading.entries, reading.written, strict=True):
            key = (id, tool.name)
            before = self._before(key)
            is_same = before is not None and before.written.is_same(written, whole=whole)
            now = before if is_same else made.get(tool.name)
            if now is None:  # the earlier one was forgotten meanwhile
                now = ListedTool.of(tool, entry, written)
            lister.tools.pop(key, None)
            lister.tools[key] = now
            lister.absent.discard(key)
            pinned = lister.pinned.get(tool.name)
            if pinned is not None and pinned.written != now.written:
                lister.other[key] = now
            if before is not None and not is_same:
                changes[tool.name] = before.changes(now)
        lister.ids[id] = None
        if whole:
            names = {tool.name for tool in reading.tools}
            gone = {key for key in lister.tools if key[0] == id and key[1] not in names} - lister.absent
            lister.absent |= gone
            changes.update((name, GONE) for _, name in gone)
        changes.update(lister.shrink(SHARE))
        self._size += len(lister.tools) - before_size
        self._tell(who, changes)
        while self._size > MAX_TOOLS and len(self._listers) > 1:
            self._forget_lists(max(self._listers, key=lambda name: len(self._listers[name].tools)))

    def _forget_lists(self, who: str) -> None:
        lister = self._listers[who]
        self._size -= len(lister.tools)
        if not lister.tools:
            self._size -= 1
            del self._listers[who]
        self._tell(who, dict(lister.shrink(0)))

    def _tell(self, who: str, changes: Changes) -> None:
        if not changes:
            return
        if (lister := self._listers.get(who)) is not None:
            lister.changed.update(dict.fromkeys(changes, self._clock()))
        self._changed(who, changes)

    def _pin(self, proposal: str, tool: str) -> None:
        for key, shown in self._shown.pop(proposal, {}).items():
            if key[1] != tool:
                continue
            who = self._logical(key[0])
            if who not in self._listers:  # of this process
                self._listers[who] = _Lister()
                self._size += 1
            lister = self._listers[who]
            lister.pinned[tool] = shown
            lister.other.pop(key, None)
            if (now := lister.tools.get(key)) is not None and now.written != shown.written:
                lister.other[key] = now  # it changed after the card was made


_NAMED = frozenset({"name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta"})


def rests_on(pattern: Mapping[str, Any], participant: str, tools: Iterable[str]) -> str:
    """The first of these tools that a right names, alone or among others, and may be called by it; empty if none is.

    A right for all tools depends on none of them.
    """
    name = member(pattern, "payload", "params", "name")
    if name is None or name in ("*", "**"):
        return ""
    part = {name: pattern[name] for name in ("kind", "to") if name in pattern}
    named = {**part, "payload": {"params": {"name": name}}}
    try:  # the widest reading: it depends on the tool in any
        of_participant, right = Capability.of(part, edition=0), Capability.of(named, edition=0)
    except ConfigError:
        return ""
    to = (participant,)
    kinds = [kind for kind in ("mcp/request", "mcp/proposal") if of_participant.permits(kind, to, {})]
    for tool in tools if kinds else ():
        asked = {"method": "tools/call", "params": {"name": tool}}
        if any(right.permits(kind, to, asked) for kind in kinds):
            return tool
    return ""


def _cursor_of(payload: Mapping[str, Any]) -> str:
    """The cursor of a request for a page; empty where it asks for the beginning of the list."""
    cursor = member(payload, "params", "cursor")
    return "" if cursor is None else finish(_text(cursor))


def _text(value: Any) -> Steps[str]:
    return value if isinstance(value, str) else (yield from read_canonical(value)).decode()


def _kept(text: str) -> str:
    """The text, or its beginning and its end around the digest of the whole."""
    if len(text) <= KEPT:
        return text
    whole = sha256(text.encode()).hexdigest()[:8]
    return f"{text[: KEPT // 2]}…[{len(text)} characters, {whole}]…{text[-KEPT // 2 :]}"


def _around(old: str, new: str) -> str:
    """Both texts from shortly before their first difference."""
    same = next(
        (n for n, (c, d) in enumerate(zip(old, new, strict=False)) if c != d),
        min(len(old), len(new)),
    )
    start = max(0, same - 20)
    before = "…" if start else ""
    return f"“{one_line(before + old[start:], SHOWN)}” → “{one_line(before + new[start:], SHOWN)}”"
