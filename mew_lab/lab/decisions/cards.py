"""What does a view need to know of a proposal and of a row of the log?  Data, and the two seams behind which
they are.

`Decisions` is what the approvals view asks and tells, `Rows` what the feed reads. The workbench implements
both; the views know nothing else of it. Nothing here decides, sends, or renders. All methods may be called
from any thread and return at once; callbacks come on any thread and must do next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from mew_lab.lab.decisions.risks import SHOWN_TO
from mew_lab.protocol.visible import middle
from mew_lab.sdk.request_rows import is_routine, row_name

__all__ = ["ARMING", "POLICY", "REASONS", "Card", "CardState", "Click", "Decisions", "Row", "Rows"]

ARMING = 0.5  # seconds that a view shows a card before a click decides

POLICY = "policy "  # in `by`, before the name of the policy that decided

CardState = Literal["open", "deciding", "fulfilled", "rejected", "withdrawn", "done", "lapsed"]

# The standardised reason codes with what they say to the proposer. Spec: §3.3.3.
REASONS: Mapping[str, str] = {
    "disagree": "does not agree with the action",
    "inappropriate": "not suitable here",
    "unsafe": "could cause harm",
    "busy": "handling other work",
    "incapable": "tools or access are missing",
    "policy": "against a policy",
    "duplicate": "already being handled",
    "invalid": "malformed or impossible",
    "timeout": "too old",
    "resource_limit": "would exceed a limit",
    "no_longer_needed": "not needed any more",
    "other": "another reason",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One proposal as a human judges it; a change is a new Card with the same id and digest.

    `arguments` are the rows of the request that will be sent: pairs of a JSON pointer and the whole value as JSON text,
    which rebuild its payload and addressees (`sdk.request_rows`). `digest` is the sha-256 (hex) of the canonical bytes
    from which the request will be built; `since` and `decided_at` are seconds of the epoch.
    `outcome` is one line: the result or the reason; `lapsed` is what nobody decided and nobody can any more. A proposal
    without `to` names its possible targets in `Decisions.targets`. `last` are the arguments of the last request for the
    same tool of the same target (None: there was none), `on_screen` the seconds from when a view first showed it to the
    decision (None: no view told). `participants` are the ids on it that their participants chose for a connection, each
    with the participant's own name. `request_id` is the id under which the request will be sent, `sent` the id of one
    that was sent in this person's name. `refusal` says why it cannot be approved; empty when it can.
    """

    id: str
    seq: int
    proposer: str
    to: tuple[str, ...]
    method: str
    tool: str
    arguments: tuple[tuple[str, str], ...]
    digest: str
    since: float
    warnings: tuple[str, ...] = ()
    why: str = ""
    state: CardState = "open"
    by: str = ""
    outcome: str = ""
    decided_at: float | None = None
    edited: bool = False
    last: tuple[tuple[str, str], ...] | None = None
    on_screen: float | None = None
    participants: tuple[tuple[str, str], ...] = ()
    request_id: str = ""
    sent: str = ""
    refusal: str = ""

    @property
    def shape(self) -> tuple[Any, ...]:
        """Equal for cards that differ in nothing but the values of their arguments."""
        types = tuple(sorted((name, _type(value)) for name, value in self.arguments))
        return (self.proposer, self.to, self.method, self.tool, types)

    @property
    def is_open(self) -> bool:
        """Whether it still waits for somebody."""
        return self.state in ("open", "deciding")

    @property
    def decision(self) -> str:
        """What was decided, in the specification's word: a fulfilment stays one when its answer has come."""
        if self.state == "withdrawn" and self.sent:
            return "withdrawn after it was sent"
        return "fulfilled" if self.state == "done" else self.state

    @property
    def details(self) -> tuple[tuple[str, str], ...]:
        """The rows that say more than the title: arguments, and whatever stands beside them."""
        return tuple(row for row in self.arguments if not is_routine(*row))

    def named(self, id: str) -> str:
        """An id in few characters, and the participant that has it where that has another name."""
        names = dict(self.participants)
        return middle(id, 40) + (f" (participant {middle(names[id], 40)})" if id in names else "")

    @property
    def target(self) -> str:
        """Whom it asks, in few words."""
        to = list(dict.fromkeys(self.to))
        names = ", ".join(self.named(one) for one in to[:SHOWN_TO])
        return f"{names} and {len(to) - SHOWN_TO} more" if len(to) > SHOWN_TO else names or "anybody"

    @property
    def request(self) -> str:
        """Who asks whom for what, as one line: none of the three pushes another out of it."""
        return f"{self.named(self.proposer)} asks {self.target} to run {middle(self.tool or self.method, 60)}"

    @property
    def call(self) -> str:
        """The tool and all that the title does not say, whole."""
        shown = ", ".join(f"{row_name(pointer)}={value}" for pointer, value in self.details)
        return f"{self.tool or self.method}({shown})"


class Click(NamedTuple):
    """A press that decides: the view in which it was, and when it arrived, in seconds of the gate's clock."""

    view: str
    at: float


def _type(text: str) -> str:
    """The JSON type of a JSON text."""
    return {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}.get(
        text[:1], "number"
    )


class Decisions(Protocol):
    """The seat of the human who decides. The first decision wins; the second is told by whom."""

    def pending(self) -> list[Card]:
        """The open cards, oldest first."""

    def decided(self) -> list[Card]:
        """The cards that were decided last, oldest first; at most 200."""

    def targets(self) -> list[str]:
        """The participants that a proposal without `to` could be given to."""

    def banner(self) -> str:
        """The policy in force that decides instead of the human, as one sentence; empty when there is
        none."""

    def rows(self, proposal: str, digest: str) -> tuple[tuple[str, str], ...] | None:
        """The rows of what has that digest, an open proposal or a kept edit of it; None where there is none."""

    def seen(self, proposal: str, *, view: str, digest: str) -> bool:
        """A view shows what has that digest from now on; whether there is such a thing."""

    def opened(self, proposal: str, digest: str, index: int) -> None:
        """A view shows the whole of a folded row of what has that digest."""

    def click(self, view: str) -> Click:
        """A click in that view, which arrives now."""

    def refusal(self, proposal: str, *, digest: str, decision: str, click: Click) -> str:
        """Why that click would decide nothing, whatever stands in the way beside it; empty when it would."""

    def decide(
        self,
        proposal: str,
        *,
        digest: str,
        decision: str,
        click: Click,
        reason: str = "",
        target: tuple[str, ...] = (),
    ) -> Future[str]:
        """Decides (`approve` or `reject`) by a click the proposal, or its kept edit, that has that digest.

        A click decides what its own view had shown for `ARMING` seconds when it arrived, and what is folded of it was
        opened. The request is built from the proposal that the kernel holds. The future's result is one sentence; its
        exception (a MewError) says why nothing was sent.
        """

    def subscribe(self, on_change: Callable[[Card], None]) -> Callable[[], None]:
        """Calls back with each new state of a card; returns what ends it.

        A card with a known id and another `seq` is another proposal (ruling R6); before it comes what became of the
        earlier one, under an id of its own.
        """


class Row(NamedTuple):
    """One envelope in the feed. `t` in seconds of the epoch as the gateway received it, `size` in bytes of
    its text.

    `correlates` is the `seq` of the row that this one answers, 0 for none, `also` those of the others that its
    `correlation_id` names; `verdict` is `accepted`, `refused`, `sent` or empty where it cannot be known; `code`
    the error code or the pattern that decided, in few words.
    """

    seq: int
    t: float
    sender: str
    to: tuple[str, ...]
    kind: str
    what: str
    context: str
    correlates: int
    verdict: str
    code: str
    id: str
    size: int
    also: tuple[int, ...] = ()


class Rows(Protocol):
    """Where the feed's rows come from; `seq` begins at 1 and has no gaps."""

    @property
    def last_seq(self) -> int:
        """The newest row's `seq`, 0 before the first."""

    def since(self, seq: int, limit: int) -> list[Row]:
        """The rows after `seq`, oldest first, at most `limit`; what was dropped already is missing at the
        front."""

    def ties(self, seq: int) -> list[tuple[int, tuple[int, ...]]]:
        """Those of the rows after `seq` that name others, oldest first, each with the rows that it names."""

    def raw(self, seq: int) -> str:
        """The exact text of that row's envelope; empty when it is not held any more."""

    def pattern(self, seq: int) -> str:
        """The whole capability that let that row's envelope pass; empty where none did, or it is not known."""

    def title(self) -> tuple[str, int]:
        """The name of the space and the number of its members."""

    def subscribe(self, on_change: Callable[[], None]) -> Callable[[], None]:
        """Calls back after rows were added; returns what ends it."""
