"""Keeps the calls whose outcome is unknown, to find a call that repeats one of them.

A repeat is a call of the same target, method, tool and canonical arguments as an unresolved unknown one, whoever sends
it, within a day. To execute it could do the same thing twice. This module only finds it: cards, policies, executors and
the diagnosis say what follows.

Methods that only read, such as `tools/list`, have no effect that could happen twice, so they never repeat anything.

Spec: R35.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from mew_lab.errors import ConfigError
from mew_lab.ledger.calls import Change, Request, method_of, tool_of
from mew_lab.ledger.entry import Entry
from mew_lab.protocol.coerce import mapping_of
from mew_lab.protocol.difference import equality_key
from mew_lab.protocol.intake import first_unknown

__all__ = [
    "DAY",
    "UnknownCall",
    "UnknownCalls",
    "arguments_of",
    "call_key",
    "check_repeats_within",
    "has_effect",
    "may_repeat",
    "only_reads",
]

DAY = 24 * 3600.0  # seconds in which a call counts as a repeat
MAX_CALLS = 10_000  # unknown calls that are held
_READS = frozenset(
    {
        *("initialize", "ping", "tools/list", "resources/list", "resources/templates/list", "prompts/list"),
        *("resources/read", "prompts/get", "completion/complete", "logging/setLevel"),
        *("resources/subscribe", "resources/unsubscribe"),
    }
)


def has_effect(method: str) -> bool:
    """Whether a request of this MCP method may change something; unknown methods may."""
    return bool(method) and method not in _READS and not method.startswith("notifications/")


def only_reads(hints: Mapping[str, Any]) -> bool:
    """Whether a tool of these annotations says that it only reads."""
    return hints.get("readOnlyHint") is True and hints.get("destructiveHint") is not True


def may_repeat(hints: Mapping[str, Any]) -> bool:
    """Whether a tool of these annotations says that it only reads, or that a second call does no more than the first."""
    return only_reads(hints) or hints.get("idempotentHint") is True


def check_repeats_within(seconds: object) -> float:
    """The seconds for which an equal call counts as a repeat, as a setting states them.

    Raises:
        ConfigError: it is no number of seconds.
    """
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not seconds >= 0:
        raise ConfigError(
            f"Cannot set repeats_within to {seconds!r:.40}: it is a number of seconds, from 0",
            key="repeats_within",
        )
    return float(min(seconds, sys.float_info.max))


class UnknownCall(NamedTuple):
    """A call whose outcome is unknown: the request that went out, and since when nobody knows, in seconds."""

    request: Entry
    since: float


class UnknownCalls:
    """The unresolved unknown calls of a space, as one participant or one journal saw them.

    Args:
        within: The seconds after which a call is no repeat any more.
        limit: How many are held. The sender with the most loses its oldest, so that none drives out those of others.

    Raises:
        ConfigError: `within` is no number of seconds.
    """

    def __init__(self, *, within: float = DAY, limit: int = MAX_CALLS) -> None:
        self.within = check_repeats_within(within)
        self._limit = limit
        self._calls: dict[str, tuple[str, UnknownCall]] = {}  # id of the request -> key, call
        self._by_key: dict[str, dict[str, None]] = {}  # key -> ids, the oldest first
        self._by_sender: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[UnknownCall]:
        """All that are held, the one that became unknown first before the others."""
        return iter([call for _, call in self._calls.values()])

    def follow(self, change: Change, now: float) -> bool:
        """Takes a change of the ledger of calls at the time `now`, in seconds; returns whether the held ones changed."""
        call = change.call
        request = call.entry if isinstance(call, Request) else call.request
        if request is None:
            return False
        if change.what == "unknown":
            # An executor that refused a repeat names the first call: that one counts, and the repeat did nothing.
            refused = call.response is not None and first_unknown(call.response.payload)
            if request.id not in self._calls and has_effect(method_of(request.payload)) and not refused:
                self._add(request, now)
                return True
        elif change.what in (
            "answered",
            "resolved",
            "requested",
        ):  # one that takes the id anew is another call
            return self.drop(request.id)
        return False

    def find(
        self, to: Collection[str], payload: Mapping[str, Any], now: float, *, but: str = ""
    ) -> UnknownCall | None:
        """The oldest unknown call that a call with these addressees and this payload repeats; None where there is none.

        Args:
            to: The addressees; none, as of a proposal that leaves its target open, means any.
            now: The present time, in seconds.
            but: The id of a request that does not count.
        """
        if not self._calls or not has_effect(method_of(payload)):
            return None
        targets = frozenset(to)
        for id in tuple(self._by_key.get(call_key(payload), ())):
            _, call = self._calls[id]
            if now - call.since > self.within:
                self.drop(id)
            elif id != but and (not targets or not targets.isdisjoint(call.request.to)):
                return call
        return None

    def _add(self, request: Entry, now: float) -> None:
        key = call_key(request.payload)
        self._calls[request.id] = key, UnknownCall(request, now)
        self._by_key.setdefault(key, {})[request.id] = None
        self._by_sender.setdefault(request.sender, {})[request.id] = None
        if len(self._calls) > self._limit:
            most = max(self._by_sender.values(), key=len)
            self.drop(next(iter(most)))

    def drop(self, id: str) -> bool:
        """Forgets the call of that request; returns whether it was held."""
        held = self._calls.pop(id, None)
        if held is None:
            return False
        key, call = held
        for index, name in ((self._by_key, key), (self._by_sender, call.request.sender)):
            del index[name][id]
            if not index[name]:
                del index[name]
        return True


def call_key(payload: Mapping[str, Any]) -> str:
    """One digest for all calls of the same method and tool with equal arguments."""
    return equality_key([method_of(payload), tool_of(payload), arguments_of(payload)])


def arguments_of(payload: Mapping[str, Any]) -> Any:
    """The arguments of the call of a tool; the `params` of any other method, without `_meta`."""
    given = mapping_of(payload.get("params"))
    if tool_of(payload) is None:
        return {name: member for name, member in given.items() if name != "_meta"}
    arguments = given.get("arguments")
    return {} if arguments is None else arguments
