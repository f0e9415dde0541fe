"""Matches a call of a coding agent at its gate to a permission of the same session that a person gave it before.

The agent asks twice for one call of a tool of the space: once by its own rules, and once because the gate proposes what
it may not send. With `ask_once` the first decision counts for the second one. Nothing that the agent says is evidence:
what counts is what the person was shown, and only where the call is exactly that one.

How it works. `note` keeps a permission for which an option of the kind `allow_once` was chosen, and reads from what was
shown the name of a tool, as the MCP client of the agent spells it, and its arguments. `take` gives the permission for a
call: of the same session, with the name that the gate has for that tool, equal arguments, within `WITHIN` seconds, and
once. It is deterministic, and has no clock.

Spec: rulings R32, R41.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from mew_lab.ledger.options import ALLOW_ONCE, read_arguments
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import mapping_of
from mew_lab.protocol.difference import equality_key

__all__ = ["TOLD_BEFORE", "WITHIN", "AllowedOnce", "read_shown_call"]

WITHIN = 60.0  # seconds from the decision to the call
MAX_KEPT = 64  # permissions that no call has used yet
TOLD_BEFORE = "told_before"  # of a shown permission: what the agent said of that call before it asked
CUT = "left_out"  # of what was shown: names of members that were too large
WRAPPED = {"server", "tool", "arguments"}  # members of an input that names the tool beside its arguments
# What an MCP client puts before the name of a tool, for its server; and whether its input is wrapped.
_PREFIXES = (("mcp__{}__", False), ("{}_", False), ("mcp.{}.", True))


class _Allowed(NamedTuple):
    call: str
    span: Hashable
    at: float


def read_shown_call(arguments: Mapping[str, Any], server: str) -> tuple[str, Mapping[str, Any]] | None:
    """The name at the gate, and the arguments, of the call for which a permission was shown; None where it shows none.

    Args:
        arguments: those of the proposal, as a person was shown them.
        server: the name of the gate among the MCP servers of the agent.
    """
    told = mapping_of(arguments.get(TOLD_BEFORE))
    if (
        CUT in arguments
        or CUT in told
        or any(name in told and name in arguments for name in ("title", "rawInput"))
    ):
        return None
    shown = {**told, **arguments}
    title, given = shown.get("title"), shown.get("rawInput")
    if not isinstance(title, str) or not isinstance(given, Mapping):
        return None
    for form, is_wrapped in _PREFIXES:
        prefix = form.format(server)
        if not title.startswith(prefix):
            continue
        name = title.removeprefix(prefix)
        if not is_wrapped:
            return name, given
        inner = given.get("arguments")
        if given.keys() == WRAPPED and (given["server"], given["tool"]) == (server, name):
            return (name, inner) if isinstance(inner, Mapping) else None
    return None


class AllowedOnce:
    """The permissions of one agent that no call has used yet.

    Args:
        server: the name of the gate among the MCP servers of the agent.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._kept: BoundedDict[str, _Allowed] = BoundedDict(MAX_KEPT)  # by the id of the proposal

    def __len__(self) -> int:
        return len(self._kept)

    def note(
        self, proposal: str, arguments: Mapping[str, Any], option: str, *, span: Hashable, now: float
    ) -> None:
        """Keeps a permission where the chosen option allows the call once, and the call was shown whole.

        Args:
            span: what the permission is bound to, such as the session.
        """
        chosen = read_arguments(arguments).find(option)
        shown = read_shown_call(arguments, self._server)
        if chosen is not None and chosen.kind == ALLOW_ONCE and shown is not None:
            self._kept[proposal] = _Allowed(equality_key(list(shown)), span, now)

    def take(self, name: str, arguments: Mapping[str, Any], *, span: Hashable, now: float) -> str:
        """The id of the oldest permission for that call, which is used up by this; empty where there is none.

        Args:
            name: that of the tool at the gate.
        """
        call = equality_key([name, arguments])
        for proposal, allowed in tuple(self._kept.items()):
            if allowed.span != span or not 0 <= now - allowed.at <= WITHIN:
                del self._kept[proposal]
            elif allowed.call == call:
                del self._kept[proposal]
                return proposal
        return ""
