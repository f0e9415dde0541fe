"""Keeps what the participants of a log said of their tools: the digest of the entry of each, and its hints.

An answer to `tools/list` counts where its sender was asked. A list of one page replaces what its sender listed before,
and several pages add to it. The first entry of a name counts; a name that stands twice has no digest, because nobody can
say which of the entries a call means.

Spec: §3.1.
"""

from __future__ import annotations

from typing import NamedTuple

from mew_lab.errors import ProtocolError
from mew_lab.ledger.calls import Request
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import list_of, mapping_of, member
from mew_lab.protocol.envelope import digest
from mew_lab.protocol.tool_hints import hint_words

__all__ = ["ListedTools", "ToolEntry"]

MAX_LISTERS = 1_000
MAX_TOOLS = 1_000  # of one participant
METHOD = "tools/list"


class ToolEntry(NamedTuple):
    """What a list says of a tool: the SHA-256 of its entry, empty where it is listed twice, and its hints."""

    sha256: str
    hints: tuple[str, ...]


class ListedTools:
    """The newest list of each participant, by its own name."""

    def __init__(self) -> None:
        self._lists: BoundedDict[str, dict[str, ToolEntry]] = BoundedDict(MAX_LISTERS, refresh=True)

    def take(self, participant: str, request: Request) -> None:
        """Takes the answer of a participant to a request, where that is a list of tools."""
        if request.method != METHOD or request.response is None:
            return
        result = mapping_of(request.response.payload.get("result"))
        pages = bool(result.get("nextCursor")) or bool(member(request.payload, "params", "cursor"))
        known = dict(self._lists.get(participant, {})) if pages else {}
        seen: set[str] = set()
        for entry in list_of(result.get("tools"))[: 2 * MAX_TOOLS]:
            name = entry.get("name") if isinstance(entry, dict) else None
            if not isinstance(name, str) or (name not in known and len(known) >= MAX_TOOLS):
                continue
            listed = ToolEntry(_digest_of(entry), hint_words(mapping_of(entry.get("annotations"))))
            known[name] = known[name]._replace(sha256="") if name in seen else listed
            seen.add(name)
        self._lists[participant] = known

    def find(self, participant: str, tool: str) -> ToolEntry | None:
        """What the participant said last of that tool; None where it did not list it."""
        return self._lists.get(participant, {}).get(tool)


def _digest_of(entry: object) -> str:
    try:
        return digest(entry)
    except ProtocolError:  # a lone surrogate in a file of another make
        return ""
