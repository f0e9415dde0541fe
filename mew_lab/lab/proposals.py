"""Tells functions of the proposals of others, and of each change of their states: `lab.on_proposal`.

A function is called on the loop, with a `Proposal` that cannot be changed. It is told of each proposal that is open,
first at once and then as they come, and again when the state or the warnings of one change. Until all of a proposal was
read, nothing is told of it. A coroutine function runs as a task of its own; these may overlap, so one that waits holds
up nobody.

An exception goes to the log of the package as one line. A plain function that takes long holds the loop, as any code
there does, and is named in the log.

Spec: §3.2, §3.3.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast

from mew_lab.errors import ConfigError
from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.decisions import HumanDecisions
from mew_lab.ledger.calls import Proposal as LedgerProposal
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import mapping_of, member
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.group import RunningTasks
from mew_lab.sdk.signal import fit_handler

__all__ = ["LabProposal", "Proposal", "follow_proposals"]

logger = logging.getLogger(__name__)
MAX_TOLD = (
    11_000  # proposals of which the told state is remembered: all that are open, and the last decided ones
)
MAX_RUNNING = 1_000  # calls of a coroutine function that have not ended
LONG = 0.1  # seconds of a plain function on the loop


@dataclass(frozen=True, slots=True, kw_only=True)
class LabProposal:
    """A proposal as a function of `lab.on_proposal` gets it; it never changes.

    Attributes:
        id: Its id, for `lab.approve` and `lab.reject`.
        digest: The SHA-256, in hex, of what would be sent.
        proposer: The participant that proposes it.
        target: The participants that would run it, separated by commas; empty where it names none.
        method: The MCP method, such as `tools/call`; `tool` is the name of the tool, empty for another method.
        warnings: What its card warns of, as sentences.
        state: `open`, `deciding`, `fulfilled`, `done`, `rejected`, `withdrawn`, `unknown`, `resolved` or `lapsed`.
    """

    id: str
    digest: str
    proposer: str
    target: str
    method: str
    tool: str
    warnings: tuple[str, ...]
    state: str
    _params: Mapping[str, Any] = field(repr=False, compare=False)

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of the tool, of another method its params; made anew, with no part that can be changed."""
        given = self._params.get("arguments") if self.method == "tools/call" else self._params
        frozen: Mapping[str, Any] = _freeze(mapping_of(given))
        return frozen


Proposal = LabProposal  # the public name; that of the class is the ledger's


def _freeze(value: Any) -> Any:
    if isinstance(value, Mapping):
        return MappingProxyType({name: _freeze(one) for name, one in value.items()})
    return tuple(map(_freeze, value)) if isinstance(value, list) else value


def follow_proposals(
    decisions: HumanDecisions,
    find: Callable[[str], LedgerProposal | None],
    function: Callable[[LabProposal], object],
) -> Callable[[], None]:
    """Calls the function with each proposal; returns a function that ends it, and that may be called twice. On the loop.

    Args:
        find: Gives the proposal of that id, as the person's ledger has it.

    Raises:
        ConfigError: It is no function.
        MewError: It needs more than one argument.
    """
    if not callable(function):
        raise ConfigError(
            f"Cannot tell {one_line(repr(function), 60)} of proposals: it is no function that takes a proposal"
        )
    return _Listener(decisions, find, function).begin()


class _Listener:
    def __init__(
        self,
        decisions: HumanDecisions,
        find: Callable[[str], LedgerProposal | None],
        function: Callable[[LabProposal], object],
    ) -> None:
        self._decisions = decisions
        self._find = find
        self._name = one_line(getattr(function, "__qualname__", type(function).__name__), 80)
        self._function = fit_handler(function)
        self._told: BoundedDict[int, tuple[object, ...]] = BoundedDict(MAX_TOLD)
        self._running = RunningTasks(report=self._report)
        self._has_ended = self._has_fallen_behind = False

    def begin(self) -> Callable[[], None]:
        end = self._decisions.subscribe(self._take)

        def remove() -> None:
            self._has_ended = True
            end()

        for card in self._decisions.pending():
            self._take(card)
        return remove

    def _take(self, card: Card) -> None:
        if self._has_ended or card.state == "reading":
            return
        refusal = f"cannot be approved: {card.refusal}" if card.refusal else ""
        warnings = tuple(filter(None, (card.repeats, refusal, *card.warnings)))
        told = (card.state, card.digest, warnings)
        if self._told.get(card.seq) == told:
            return
        self._told[card.seq] = told
        known = self._find(card.id)
        params = mapping_of(member(known.payload, "params")) if known and known.seq == card.seq else {}
        self._call(
            LabProposal(
                id=card.id,
                digest=card.digest,
                proposer=card.proposer,
                target=", ".join(card.to),
                method=card.method,
                tool=card.tool,
                warnings=warnings,
                state=card.state,
                _params=params,
            )
        )

    def _call(self, proposal: LabProposal) -> None:
        if len(self._running) >= MAX_RUNNING:
            if not self._has_fallen_behind:
                logger.warning(
                    "%s is not told of proposals any more: %d of its calls have not ended",
                    self._name,
                    MAX_RUNNING,
                )
            self._has_fallen_behind = True
            return
        self._has_fallen_behind = False
        began = time.monotonic()
        try:
            result = self._function(proposal)
        except Exception as fault:
            self._report(fault)
            return
        if (took := time.monotonic() - began) > LONG:
            logger.warning(
                "%s held the loop for %.1f s with a proposal: make it a coroutine function, or use a thread",
                self._name,
                took,
            )
        if inspect.iscoroutine(result):
            self._running.start(cast(Coroutine[Any, Any, object], result))

    def _report(self, fault: Exception) -> None:
        logger.error(
            "%s failed with a proposal: %s", self._name, one_line(f"{type(fault).__name__}: {fault}", 300)
        )
