"""Rules about the session of a coding agent: what it tried again and again, and what it did after a denial.

Spec: §3.1 to §3.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from mew_lab.ledger.calls import Change, Proposal, is_failure, tool_of
from mew_lab.ledger.ledger import LedgerChange
from mew_lab.log.diagnose.findings import OF_AGENTS, Rule, RuleContext, RuleFamily, changes_of, word
from mew_lab.log.record_ledger import PlacedEntry
from mew_lab.protocol.bounded import BoundedDict

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
    holds=OF_AGENTS,
)
OTHERWISE = Rule(
    "denied-then-otherwise",
    "warn",
    "{sender} was denied {denied} in {about}, and then called {tool} with the same {what}: {value}",
    holds=OF_AGENTS,
)

# Tools of coding agents that only read; another tool of such a name is no less suspect for it.
_READING = frozenset({"Read", "Grep", "Glob", "LS", "NotebookRead", "view_image", "read_file", "list_dir"})
_FILE = re.compile(r"[\w.~-]*[/\\][\w./\\~-]{3,}|[\w-]{2,}\.[A-Za-z]\w{0,7}\b")


class _Denied(NamedTuple):
    """A denied call of the turn, and the texts by which another way to do the same is known."""

    id: str
    tool: str
    texts: frozenset[str]
    files: frozenset[str]


class AgentRules(RuleFamily):
    """The rules about the session of a coding agent."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self.kinds = {
            "chat": self._on_chat,
            "mcp/request": self._on_request,
            "mcp/response": self._on_response,
            "mcp/reject": self._on_reject,
        }
        self._tools: BoundedDict[str, tuple[str, str]] = BoundedDict(MAX_WAITING)  # request -> sender, tool
        self._failures: BoundedDict[tuple[str, str], int] = BoundedDict(MAX_CALLERS)
        self._denied: dict[str, list[_Denied]] = {}  # by agent, of its turn

    def _on_chat(self, entry: PlacedEntry, _: Sequence[LedgerChange]) -> None:
        for agent in entry.to:  # a prompt, by which a person may allow what was denied
            self._denied.pop(agent, None)

    def _on_request(self, entry: PlacedEntry, changes: Sequence[LedgerChange]) -> None:
        tool = tool_of(entry.payload) or ""
        self._tools[entry.id] = entry.sender, tool
        if any(changes_of(changes, Change, "fulfilled")) or tool in _READING:
            return
        texts = frozenset(_texts(_arguments(entry)))
        for denied in self._denied.get(entry.sender, ()):
            same = next(iter(sorted(denied.texts & texts)), "")
            value = same or next((file for file in sorted(denied.files) if any(file in t for t in texts)), "")
            if value:
                words = {"tool": word(tool), "denied": word(denied.tool), "value": word(value)}
                self.report(OTHERWISE, entry, denied.id, what="argument" if same else "file", **words)
                return

    def _on_response(self, entry: PlacedEntry, _: Sequence[LedgerChange]) -> None:
        for id in entry.correlation_id:
            if (call := self._tools.pop(id, None)) is None:
                continue
            sender, tool = call
            count = self._failures.get(call, 0) + 1 if is_failure(entry.payload) else 0
            self._failures[call] = count
            if count == FAILURES:
                self.report(FAILING, entry, id, sender=word(sender), tool=word(tool), count=count)

    def _on_reject(self, entry: PlacedEntry, changes: Sequence[LedgerChange]) -> None:
        for change in changes_of(changes, Change, "rejected"):
            proposal: Proposal = change.call
            texts = [text for text in _texts(_arguments(proposal)) if len(text) >= 8]
            files = [file for text in texts for file in _FILE.findall(text)][:MAX_NAMED]
            denied = _Denied(proposal.id, tool_of(proposal.payload) or "", frozenset(texts), frozenset(files))
            of_turn = self._denied.setdefault(proposal.entry.sender, [])
            if len(of_turn) < MAX_DENIED:
                of_turn.append(denied)


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
