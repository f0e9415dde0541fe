"""The capabilities that one member holds, and what each of them rests on. Values and one computation, no message.

A capability was configured (or is the baseline), or came with a grant or an invite. What was granted stands only
while its granter could still grant it, not counting what rests on the grant itself: the least set that follows
from what was configured. A right of some uses upholds only what costs these uses: else what was granted by one such
right would go on by another one, and cost nothing.

Spec: §3.6.1, §3.6.2, §3.6.8, rulings R13 and R25.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from mew_lab.protocol.covers import Coverage, covered, possesses
from mew_lab.protocol.node import Meter, OverBudget
from mew_lab.protocol.permit import Capability, CapabilitySet
from mew_lab.protocol.strings import Literal

__all__ = ["End", "Held", "Rights", "lapsed", "lapsed_of", "possession"]


LOOKED_AT = 16  # capabilities whose text is compared for one step


class End(NamedTuple):
    """How the grant of a recipient ends by itself: at a time, after so many uses, or both.

    `uses` is how many are left of `max_uses`. `rests_on` are the grants of some uses by whose right it was given:
    what costs a use of this one costs a use of each of them.
    """

    recipient: str
    expires_at: datetime | None = None
    max_uses: int | None = None
    uses: int | None = None
    rests_on: tuple[str, ...] = ()

    @property
    def counted(self) -> bool:
        """Whether a message costs uses: its own, or those that it rests on."""
        return self.uses is not None or bool(self.rests_on)


class Held(NamedTuple):
    """One capability and its origin: the grant's id and who gave it, both empty for what was configured.

    `rooted` stands by itself, whatever becomes of its giver: what was configured, and the starter profile
    of an invite. `limited` says that its grant ends by itself; `State.ends` tells when.
    """

    capability: Capability
    grant: str = ""
    granter: str = ""
    rooted: bool = True
    limited: bool = False


class Rights:
    """Everything that one member holds, each capability once, in the order in which it came.

    `origins` are, for each capability, all those that are held of it, the oldest first; `given` are bytes by who gave
    them, `resting` those on whose rights something of it rests.
    """

    __slots__ = (
        *(
            "_told",
            "capabilities",
            "given",
            "grants",
            "held",
            "limited",
            "origins",
            "resting",
            "size",
            "texts",
        ),
    )

    def __init__(self, held: Iterable[Held] = ()) -> None:
        self.held = tuple(held)
        found: dict[str, list[Held]] = {}
        given: dict[str, int] = {}
        for one in self.held:
            found.setdefault(one.capability.text, []).append(one)
            if one.grant:
                given[one.granter] = given.get(one.granter, 0) + one.capability.size + 1
        self.given = given
        self.resting = frozenset(one.granter for one in self.held if not one.rooted)
        self.limited = any(one.limited for one in self.held)
        self.texts = tuple(found)  # as records quote them
        self.origins = tuple(map(tuple, found.values()))
        self.grants = tuple(first.grant for first, *_ in self.origins)
        self.size = sum(first.capability.size + 1 for first, *_ in self.origins)
        self.capabilities = CapabilitySet.compiled(first.capability for first, *_ in self.origins)
        self._told = ""

    @classmethod
    def of(cls, capabilities: Iterable[Capability]) -> Rights:
        """The rights of a participant that was configured with these capabilities."""
        return cls(Held(one) for one in capabilities)

    @property
    def told(self) -> str:
        """The patterns of all capabilities as compact JSON, as welcomes tell them; written once."""
        self._told = self._told or f"[{','.join(self.texts)}]"
        return self._told

    def without(self, gone: Iterable[Held]) -> Rights:
        """What is left of them."""
        ids = {id(one) for one in gone}
        return Rights(one for one in self.held if id(one) not in ids)


def possession(held: CapabilitySet, wanted: Capability, meter: Meter | None) -> Coverage:
    """Whether a participant that holds `held` may send everything that `wanted` permits, paid from `meter`.

    A kind that is written out can be covered only by capabilities of that kind: the others are not asked. What it holds
    to the letter needs no proof.

    Raises:
        OverBudget: when `meter` ends first.
    """
    if meter is not None:  # None: a journal of earlier rules, where a proof could be too costly even so
        meter.spend(len(held.capabilities) // LOOKED_AT)
        if any(one.text == wanted.text for one in held.capabilities):
            return Coverage("yes")
    return possesses(_near(held, wanted, meter), wanted, meter=meter)


def _near(held: CapabilitySet, wanted: Capability, meter: Meter | None) -> Sequence[Capability]:
    if meter is None or not isinstance(wanted.kind, Literal):
        return held.capabilities
    return held.candidates(wanted.kind.text, meter) or held.capabilities[:1]


class _Standing:
    """What stands so far, by holder, and what of it upholds what its holder gave on."""

    def __init__(self, ends: Mapping[str, End]) -> None:
        self._ends = ends
        self._held: dict[str, list[tuple[Capability, str]]] = {}  # with the grant whose uses it costs, if any
        self._sets: dict[str, dict[tuple[str, ...], CapabilitySet]] = {}

    def add(self, name: str, one: Held) -> None:
        end = self._ends.get(one.grant) if one.limited else None
        self._held.setdefault(name, []).append((one.capability, one.grant if end and end.counted else ""))
        self._sets.pop(name, None)

    def by(self, given: Held, meter: Meter | None) -> CapabilitySet:
        """What its granter holds without limited uses, and what it holds by the grants that `given` rests on."""
        end = self._ends.get(given.grant) if given.limited else None
        grants = end.rests_on if end else ()
        sets = self._sets.setdefault(given.granter, {})
        if grants not in sets:
            held = self._held.get(given.granter, [])
            if meter is not None:
                meter.spend(len(held))
            sets[grants] = CapabilitySet.compiled(one for one, grant in held if not grant or grant in grants)
        return sets[grants]


def lapsed_of(
    all_rights: Mapping[str, Rights], changed: Iterable[str], ends: Mapping[str, End], meter: Meter
) -> dict[str, list[Held]]:
    """What no longer stands, by member, after the rights of `changed` became less.

    Only what rests on them, directly or through others, is asked about; the rest stands as it stood. `ends` are those
    of grants, by id. What cannot be decided before `meter` ends does not stand.

    Spec: §3.6.8 (Delegation Security).
    """
    resting: dict[str, list[str]] = {}
    for name, rights in all_rights.items():
        for granter in rights.resting:
            resting.setdefault(granter, []).append(name)
    doubtful = dict.fromkeys(changed)
    waiting = list(doubtful)
    while waiting:
        for name in resting.get(waiting.pop(), ()):
            if name not in doubtful:
                doubtful[name] = None
                waiting.append(name)
    affected = [name for name in all_rights if all_rights[name].resting & doubtful.keys()]
    if not affected:
        return {}
    standing = _Standing(ends)
    asked: list[tuple[str, Held]] = []
    for name in dict.fromkeys((*affected, *doubtful)):
        whose = all_rights.get(name)
        for one in whose.held if whose else ():
            if one.rooted or one.granter not in doubtful:
                standing.add(name, one)
            else:
                asked.append((name, one))
    try:
        asked = _least(standing, asked, meter)
    except OverBudget as over:
        asked = list(over.args[0])
    lost: dict[str, list[Held]] = {}
    for name, one in asked:
        lost.setdefault(name, []).append(one)
    return {name: lost[name] for name in all_rights if name in lost}


def _least(standing: _Standing, asked: list[tuple[str, Held]], meter: Meter) -> list[tuple[str, Held]]:
    """What of `asked` is not covered by what stands; `standing` grows by what is.

    Raises:
        OverBudget: with what was not decided, and what was refused so far.
    """
    while True:
        found: list[tuple[str, Held]] = []
        still: list[tuple[str, Held]] = []
        for at, (name, one) in enumerate(asked):
            try:
                near = _near(standing.by(one, meter), one.capability, meter)
                stands = covered(near, one.capability, meter=meter)
            except OverBudget:
                raise OverBudget([*still, *asked[at:]]) from None
            (found if stands else still).append((name, one))
        if not found:
            return still
        for name, one in found:
            standing.add(name, one)
        asked = still


def lapsed(all_rights: Mapping[str, Rights], ends: Mapping[str, End]) -> dict[str, list[Held]]:
    """What no longer stands, by member, given what everybody holds, and the ends of grants.

    Spec: §3.6.8 (Delegation Security).
    """
    standing = _Standing(ends)
    for name, rights in all_rights.items():
        for one in rights.held:
            if one.rooted:
                standing.add(name, one)
    waiting = [(name, one) for name, rights in all_rights.items() for one in rights.held if not one.rooted]
    found = True
    while found:
        found, still = False, []
        for name, one in waiting:
            if possesses(standing.by(one, None).capabilities, one.capability).answer == "yes":
                standing.add(name, one)
                found = True
            else:
                still.append((name, one))
        waiting = still
    gone: dict[str, list[Held]] = {}
    for name, one in waiting:
        gone.setdefault(name, []).append(one)
    return gone
