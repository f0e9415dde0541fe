"""The life of a rule as data: what happened to it gives its next state. It has no clock and no storage.

How it works
------------
    candidate ── tried ── shadow ── adopted ── active ─┬─ suspended ── adopted ── active
        └──────────────── adopted ─────────────┘       ├─ paused ── looked ── active
                                                       └─ expired ── adopted ── active

`advance(life, event, rule)` gives the next life, and raises where the event makes no sense. A rule acts only while it
is active. A rejection, an edit or a stop of a covered call by its owner suspends it at once, and so do a changed tool,
an unknown outcome and the stop of the lab. A rejection by another person pauses it until the owner looks. It expires
after its days or uses. Only the owner adopts, and each adoption begins anew with days and uses.

Some covered calls wait for the person as if there were no rule: `is_review` chooses them, by a secret of the process.
One call at a random place of each block of 3 is one. After two adoptions that ended by their uses alone, blocks are of
4, after four of 5, and never longer. The place depends on the secret, on what calls the rule covers and on how many
came, and on nothing else: whether the rule is active or suspended changes no choice.

Spec: §2.1, §9.4.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from mew_lab.errors import ConfigError
from mew_lab.rules.judgements import HOUR
from mew_lab.rules.rule import ApprovalRule

__all__ = [
    "BLOCKS",
    "LONGEST_BLOCK",
    "Happened",
    "Life",
    "State",
    "advance",
    "block_of",
    "end_of",
    "is_review",
]

State = Literal["candidate", "shadow", "active", "paused", "suspended", "expired"]
What = Literal[
    "tried", "adopted", "used", "confirmed", "rejected", "edited", "stopped", "looked", "tool_changed", "unknown",
    "lab_stopped", "passed", "agreed", "disagreed",
]  # fmt: skip
DAY: Final = 86_400.0
BLOCKS: Final = (3, 3, 4, 4, 5)
"""The length of a block, by how many adoptions in a row ended by their uses alone; the last one for all later."""
LONGEST_BLOCK: Final = 5
_WHY: Final[Mapping[str, str]] = {
    "rejected": "a call that it covers was rejected",
    "edited": "a call that it covers was edited",
    "stopped": "its owner stopped it",
    "tool_changed": "its tool has changed",
    "unknown": "nobody knows whether a call that it approved took effect",
    "lab_stopped": "the lab was stopped",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """One event in the life of a rule, at the time `t` in seconds.

    `what` is one of: `tried` (it judges in shadow from now on), `adopted`, `used` (it approved a call), `confirmed` (the
    person approved a reviewed call), `rejected`, `edited`, `stopped`, `looked` (the owner saw why it paused),
    `tool_changed`, `unknown`, `lab_stopped`, `passed` (time passed), and in shadow `agreed` and `disagreed`. `by` is the
    person who did it.
    """

    what: What
    t: float
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """The state of a rule of one person, with the reason.

    Attributes:
        owner: The person whose rule it is.
        since: The time from which it is in this state; `adopted` that of the last adoption, None before any.
        uses: The calls that it has approved since then; `recent` are their times within the last hour.
        confirmed: The reviewed calls since then that the person approved.
        whole: The adoptions in a row that ended by their uses alone.
        agreed: In shadow, the decisions that were as it said; `disagreed` those that were not.
    """

    owner: str
    state: State = "candidate"
    why: str = ""
    since: float = 0.0
    adopted: float | None = None
    uses: int = 0
    recent: tuple[float, ...] = ()
    confirmed: int = 0
    whole: int = 0
    agreed: int = 0
    disagreed: int = 0

    @property
    def block(self) -> int:
        """The length of a block of covered calls, one of which is reviewed."""
        return BLOCKS[min(self.whole, len(BLOCKS) - 1)]

    @property
    def acts(self) -> bool:
        """Whether it approves calls."""
        return self.state == "active"


def advance(life: Life, event: Happened, rule: ApprovalRule) -> Life:
    """The life of a rule after an event.

    Raises:
        ConfigError: The event makes no sense in its state, or is not that person's to do.
    """
    what, t = event.what, event.t
    life = _expire(life, t, rule)
    if what == "passed":
        return life
    if what in ("tried", "adopted", "looked", "stopped", "edited") and event.by != life.owner:
        if what == "edited":
            what = "rejected"
        else:
            raise ConfigError(
                f"only {life.owner} decides about a rule of {life.owner}, not {event.by or 'nobody'}"
            )
    if what == "tried":
        return _moved(life, "shadow", "", t, among=("candidate", "suspended", "expired"))
    if what == "adopted":
        adopted = _moved(
            life, "active", "", t, among=("candidate", "shadow", "suspended", "expired", "paused")
        )
        whole = life.whole if life.state != "suspended" else 0
        return replace(adopted, adopted=t, uses=0, recent=(), confirmed=0, whole=whole)
    if what in ("agreed", "disagreed"):
        if life.state != "shadow":
            return life
        return replace(
            life, agreed=life.agreed + (what == "agreed"), disagreed=life.disagreed + (what == "disagreed")
        )
    if what == "looked":
        return _moved(life, "active", "", t, among=("paused",))
    if what in ("used", "confirmed"):
        return _counted(life, event, rule)
    if life.state not in ("active", "paused"):
        return life  # what is no rule in force cannot fall
    if what == "rejected" and event.by != life.owner:
        who = event.by or "another participant"
        return replace(life, state="paused", why=f"{who} decided otherwise on a call that it covers", since=t)
    return replace(life, state="suspended", why=_WHY[what], since=t)


def _moved(life: Life, to: State, why: str, t: float, *, among: tuple[State, ...]) -> Life:
    if life.state not in among:
        raise ConfigError(f"a rule that is {life.state} cannot become {to}")
    return replace(life, state=to, why=why, since=t)


def _counted(life: Life, event: Happened, rule: ApprovalRule) -> Life:
    if life.state != "active":
        if event.what == "used":
            raise ConfigError(f"a rule that is {life.state} approves nothing")
        return life
    if event.what == "confirmed":
        return replace(life, confirmed=life.confirmed + 1)
    recent = (*(t for t in life.recent if event.t - HOUR < t), event.t)
    return _expire(replace(life, uses=life.uses + 1, recent=recent), event.t, rule)


def _expire(life: Life, t: float, rule: ApprovalRule) -> Life:
    if life.state not in ("active", "paused") or life.adopted is None:
        return life
    if life.uses >= rule.uses:
        why = f"it has approved {rule.uses} calls"
        return replace(life, state="expired", why=why, since=t, whole=life.whole + (life.state == "active"))
    if t >= end_of(life.adopted, rule):
        return replace(life, state="expired", why=f"its {rule.days} days are over", since=t)
    return life


def end_of(adopted: float, rule: ApprovalRule) -> float:
    """The time at which a rule that was adopted at `adopted` expires; both in seconds."""
    return adopted + rule.days * DAY


# --- reviews ---


def block_of(number: int, size: int) -> tuple[int, int]:
    """The block of the covered call with a number from 0, and its place in it."""
    return divmod(number, size)


def is_review(secret: bytes, rule: ApprovalRule, number: int, *, size: int = BLOCKS[0]) -> bool:
    """Whether a covered call waits for the person as if there were no rule: one of each block does.

    Args:
        secret: At least 16 random bytes of the process, which nobody else knows.
        number: How many calls that the rule covers came before, whether it was active or not.
        size: The length of a block, from 1 to 5.
    """
    if len(secret) < 16:
        raise ValueError("the secret has at least 16 bytes")
    if not 1 <= size <= LONGEST_BLOCK:
        raise ValueError(f"a block has 1 to {LONGEST_BLOCK} calls")
    block, place = block_of(number, size)
    drawn = hmac.digest(secret, f"{rule.sha256}:{size}:{block}".encode(), "sha256")
    return (
        int.from_bytes(drawn) % size == place
    )  # 256 bits: no place is likelier than another by more than 2**-250
