"""Rules about coding agents: what one tried again and again, and what it did after a denial.

In its own session the calls are requests. In the journal of a space, an agent that speaks the Agent Client Protocol
tells of its calls in its reasoning, and asks for permission by a proposal to itself; there a call counts once it has
ended. One that was asked about was decided by a participant, so it is no way around a denial.

Spec: §3.1 to §3.3, §3.5, ruling R41.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from mew_lab.ledger.calls import Change, Proposal, is_failure, tool_of
from mew_lab.ledger.ledger import LedgerChange
from mew_lab.log.diagnose.calls import MAX_REPEATED, REPEATED, REPEATED_CALL
from mew_lab.log.diagnose.findings import (
    OF_AGENTS,
    OF_SPACES,
    Rule,
    RuleContext,
    RuleFamily,
    changes_of,
    word,
)
from mew_lab.log.record_ledger import PlacedEntry
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import line_of
from mew_lab.protocol.difference import equality_key

__all__ = ["AgentRules"]

FAILURES = 3  # of one tool in a row
MAX_CALLERS = 2000
MAX_WAITING = 20_000  # calls
MAX_DENIED = 100  # denied calls of a turn that later ones are compared with
MAX_ARGUMENT = 64 * 1024  # characters of an argument that is searched
MAX_NAMED = 20  # files that are taken from the arguments of a denied call

FAILING = Rule(
    "repeated-failure",
    "warn",
    "{sender}'s calls of {tool} failed {count} times in a row",
    holds=OF_AGENTS | OF_SPACES,
)
OTHERWISE = Rule(
    "denied-then-otherwise",
    "warn",
    "{sender} was denied {denied} in {about}, and then called {tool} with the same {what}: {value}",
    holds=OF_AGENTS | OF_SPACES,
)

# Tools of coding agents that only read; another tool of such a name is no less suspect for it.
_READING = frozenset({"Read", "Grep", "Glob", "LS", "NotebookRead", "view_image", "read_file", "list_dir"})
_READING_KINDS = frozenset({"read", "search", "think"})  # of the Agent Client Protocol
_SHOWN = ("title", "rawInput", "locations")  # what a told call says that it does
_ASKED = ("question", *_SHOWN, "told_before")  # what a permission says of its call
_FILE = re.compile(r"[\w.~-]*[/\\][\w./\\~-]{3,}|[\w-]{2,}\.[A-Za-z]\w{0,7}\b")


class _Denied(NamedTuple):
    """A denied call of the turn, and the texts by which another way to do the same is known."""

    id: str
    tool: str
    texts: frozenset[str]
    files: frozenset[str]

    def find(self, texts: frozenset[str]) -> tuple[str, str]:
        """What a call with these texts has in common with it, `argument` or `file`, and its value; empty for nothing."""
        if same := self.texts & texts:
            return "argument", min(same)
        return "file", next((file for file in sorted(self.files) if any(file in text for text in texts)), "")


class AgentRules(RuleFamily):
    """The rules about coding agents."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self.kinds = {
            "chat": self._on_chat,
            "mcp/request": self._on_request,
            "mcp/response": self._on_response,
            "mcp/reject": self._on_reject,
            "reasoning/thought": self._on_thought,
        }
        self._tools: BoundedDict[str, tuple[str, str]] = BoundedDict(MAX_WAITING)  # request -> sender, tool
        self._failures: BoundedDict[tuple[str, str], int] = BoundedDict(MAX_CALLERS)
        self._denied: dict[str, list[_Denied]] = {}  # by agent, of its turn
        # In a space: a message that told of a call -> its sender and call, and the denied ones of these.
        self._told: BoundedDict[str, tuple[str, str]] = BoundedDict(MAX_WAITING)
        self._refused: BoundedDict[tuple[str, str], None] = BoundedDict(MAX_WAITING)
        self._last: BoundedDict[str, tuple[str, int]] = BoundedDict(MAX_CALLERS)

    def _on_chat(self, entry: PlacedEntry, _: Sequence[LedgerChange]) -> None:
        # A prompt, by which a person may allow what was denied; one to everybody may be one to each.
        for agent in entry.to or [agent for agent in self._denied if agent != entry.sender]:
            self._denied.pop(agent, None)

    def _on_request(self, entry: PlacedEntry, changes: Sequence[LedgerChange]) -> None:
        if self.context.vantage() not in OF_AGENTS:
            for change in changes_of(changes, Change, "fulfilled"):
                if (choice := change.call.choice) is not None:
                    (self._deny if choice.is_refusal else self._allow)(change.call)
            return
        tool = tool_of(entry.payload) or ""
        self._tools[entry.id] = entry.sender, tool
        if any(changes_of(changes, Change, "fulfilled")) or tool in _READING:
            return
        texts = frozenset(_texts(_arguments(entry)))
        self._compare(entry, tool, texts)

    def _compare(self, entry: PlacedEntry, tool: str, texts: frozenset[str]) -> None:
        """Reports a call whose texts say that it does what was denied before."""
        for denied in self._denied.get(entry.sender, ()):
            what, value = denied.find(texts)
            if value:
                words = {"tool": word(tool), "denied": word(denied.tool), "value": word(value)}
                self.report(OTHERWISE, entry, denied.id, what=what, **words)
                return

    def _on_thought(self, entry: PlacedEntry, _: Sequence[LedgerChange]) -> None:
        """Judges a call of which an agent tells in a space, once it has ended."""
        call = entry.payload.get("tool_call")
        if not isinstance(call, dict) or not isinstance(id := call.get("id"), str):
            return
        self._told[entry.id] = key = entry.sender, id
        status, tool = call.get("status"), line_of(call.get("kind"), 40) or "tool"
        if status not in ("completed", "failed") or key in self._refused:
            return
        self._count_failures((entry.sender, tool), entry, failed=status == "failed")
        shown = [call.get(name) for name in _SHOWN]
        if len(entry.raw) <= MAX_REPEATED:
            same = equality_key([tool, *shown])
            before, count = self._last.get(entry.sender, ("", 0))
            count = count + 1 if before == same else 1
            self._last[entry.sender] = same, count
            if count == REPEATED:
                self.report(REPEATED_CALL, entry, to=word(tool), count=count)
        if call.get("asked") is False and tool not in _READING_KINDS:
            self._compare(entry, tool, frozenset(_texts(shown)))

    def _count_failures(self, call: tuple[str, str], entry: PlacedEntry, *related: str, failed: bool) -> None:
        """Counts the failures in a row of one tool of a sender."""
        count = self._failures[call] = self._failures.get(call, 0) + 1 if failed else 0
        if count == FAILURES:
            sender, tool = call
            self.report(FAILING, entry, *related, sender=word(sender), tool=word(tool), count=count)

    def _on_response(self, entry: PlacedEntry, _: Sequence[LedgerChange]) -> None:
        for id in entry.correlation_id:
            if (call := self._tools.pop(id, None)) is not None:
                self._count_failures(call, entry, id, failed=is_failure(entry.payload))

    def _on_reject(self, entry: PlacedEntry, changes: Sequence[LedgerChange]) -> None:
        for change in changes_of(changes, Change, "rejected"):
            if self.context.vantage() in OF_AGENTS or change.call.permission is not None:
                self._deny(change.call)

    def _allow(self, proposal: Proposal) -> None:
        """Forgets the denied calls of a sender that are like one which was allowed now."""
        texts = frozenset(_texts([_arguments(proposal).get(name) for name in _ASKED]))
        of_turn = self._denied.get(proposal.entry.sender, [])
        of_turn[:] = [denied for denied in of_turn if not denied.find(texts)[1]]

    def _deny(self, proposal: Proposal) -> None:
        """Remembers a denied call of the turn, and of a space the call about which it was asked."""
        sender, arguments, tool = proposal.entry.sender, _arguments(proposal), tool_of(proposal.payload) or ""
        if proposal.permission is not None:
            tool = line_of(arguments.get("kind"), 40) or tool
            arguments = [arguments.get(name) for name in _ASKED]
            for id in proposal.entry.correlation_id:
                if (key := self._told.get(id)) is not None and key[0] == sender:
                    self._refused[key] = None
        texts = [text for text in _texts(arguments) if len(text) >= 8]
        files = [file for text in texts for file in _FILE.findall(text)][:MAX_NAMED]
        of_turn = self._denied.setdefault(sender, [])
        if len(of_turn) < MAX_DENIED:
            of_turn.append(_Denied(proposal.id, tool, frozenset(texts), frozenset(files)))


def _arguments(call: Any) -> Any:
    params = call.payload.get("params")
    return params.get("arguments") if isinstance(params, dict) else None


def _texts(value: Any) -> Iterator[str]:
    """The texts in a value."""
    if isinstance(value, str):
        yield value[:MAX_ARGUMENT]
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)
