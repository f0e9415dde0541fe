"""Holds the capabilities of one member, and determines which of them lapse.

A capability was configured (or is the baseline), or came with a grant or an invite. A configured one is `rooted`: it
stands by itself. So does the starter profile of an invite. Any other one stands only while its granter could still
grant it.

How lapsing is decided. The rights that stand are the least set that follows from the rooted ones (`_least`). A granted
right is added when rights of its granter that were added before cover it, until nothing more is added. So two members
that grant each other the same right uphold nothing. `lapsed_of` starts from the members whose rights became less. It
asks only about rights whose granter is one of them, or holds rights by one of them, directly or through others. A
right that cannot be decided before the meter ends does not stand. `lapsed` checks every right and has no meter: it is
the rule of journals that were written before there was a budget.

A right of limited uses upholds only rights that cost these uses (`End.rests_on`, `_Standing.by`). Otherwise a right
that was granted by it would continue by another limited right, and cost nothing.

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
    """The end of a recipient's grant: at a time, after so many uses, or both.

    `uses` is the number that is left of `max_uses`. `rests_on` holds the grants of limited uses by whose right this
    one was granted. A use of this grant costs a use of each of them.
    """

    recipient: str
    expires_at: datetime | None = None
    max_uses: int | None = None
    uses: int | None = None
    rests_on: tuple[str, ...] = ()

    @property
    def counted(self) -> bool:
        """Whether a message costs uses: of this grant, or of those that it rests on."""
        return self.uses is not None or bool(self.rests_on)


class Held(NamedTuple):
    """One capability and its origin: the id of the grant and its giver, both empty for a configured one.

    A `rooted` right stands by itself, independent of its granter: a configured one, or the starter profile of an
    invite. `limited` is whether its grant ends by itself; `State.ends` has the end.
    """

    capability: Capability
    grant: str = ""
    granter: str = ""
    rooted: bool = True
    limited: bool = False


class Rights:
    """All capabilities of one member, each once, in the order of their arrival.

    `origins` has, for each capability, every right that holds it, the oldest first. `given` has the bytes by granter,
    and `resting` the granters on whose rights a part of it rests.
    """

    __slots__ = (
        *("_patterns_json", "capabilities", "given", "grants", "held"),
        *("limited", "origins", "resting", "size", "texts"),
    )

    def __init__(self, held: Iterable[Held] = ()) -> None:
        self.held = tuple(held)
        by_text: dict[str, list[Held]] = {}
        given_bytes: dict[str, int] = {}
        for right in self.held:
            by_text.setdefault(right.capability.text, []).append(right)
            if right.grant:
                given_bytes[right.granter] = given_bytes.get(right.granter, 0) + right.capability.size + 1
        self.given = given_bytes
        self.resting = frozenset(right.granter for right in self.held if not right.rooted)
        self.limited = any(right.limited for right in self.held)
        self.texts = tuple(by_text)  # as records quote them
        self.origins = tuple(map(tuple, by_text.values()))
        self.grants = tuple(first.grant for first, *_ in self.origins)
        self.size = sum(first.capability.size + 1 for first, *_ in self.origins)
        self.capabilities = CapabilitySet.compiled(first.capability for first, *_ in self.origins)
        self._patterns_json = ""

    @classmethod
    def of(cls, capabilities: Iterable[Capability]) -> Rights:
        """The rights of a participant with these configured capabilities."""
        return cls(Held(capability) for capability in capabilities)

    @property
    def patterns_json(self) -> str:
        """The patterns of all capabilities as compact JSON for welcomes; written once."""
        self._patterns_json = self._patterns_json or f"[{','.join(self.texts)}]"
        return self._patterns_json

    def without(self, gone: Iterable[Held]) -> Rights:
        """The rights without those in `gone`."""
        ids = {id(right) for right in gone}
        return Rights(right for right in self.held if id(right) not in ids)


def possession(held: CapabilitySet, wanted: Capability, meter: Meter | None) -> Coverage:
    """Decides whether a participant that holds `held` may send everything that `wanted` permits; charged to `meter`.

    Only capabilities of the same kind can cover a literal kind, so the others are skipped. A capability that is held in
    equal form needs no proof.

    Raises:
        OverBudget: when `meter` ends first.
    """
    if meter is not None:  # None: a journal of earlier rules, where a proof could be too costly even so
        meter.spend(len(held.capabilities) // LOOKED_AT)
        if any(capability.text == wanted.text for capability in held.capabilities):
            return Coverage("yes")
    return possesses(_near(held, wanted, meter), wanted, meter=meter)


def _near(held: CapabilitySet, wanted: Capability, meter: Meter | None) -> Sequence[Capability]:
    if meter is None or not isinstance(wanted.kind, Literal):
        return held.capabilities
    return held.candidates(wanted.kind.text, meter) or held.capabilities[:1]


class _Standing:
    """The rights that stand so far, by holder, and those of them that uphold grants of their holder."""

    def __init__(self, ends: Mapping[str, End]) -> None:
        self._ends = ends
        self._held: dict[str, list[tuple[Capability, str]]] = {}  # with the grant whose uses it costs, if any
        self._sets: dict[str, dict[tuple[str, ...], CapabilitySet]] = {}

    def add(self, name: str, right: Held) -> None:
        end = self._ends.get(right.grant) if right.limited else None
        self._held.setdefault(name, []).append((right.capability, right.grant if end and end.counted else ""))
        self._sets.pop(name, None)

    def by(self, right: Held, meter: Meter | None) -> CapabilitySet:
        """The granter's rights without limited uses, and those by the grants that `right` rests on."""
        end = self._ends.get(right.grant) if right.limited else None
        grants = end.rests_on if end else ()
        sets = self._sets.setdefault(right.granter, {})
        if grants not in sets:
            held = self._held.get(right.granter, [])
            if meter is not None:
                meter.spend(len(held))
            sets[grants] = CapabilitySet.compiled(
                capability for capability, grant in held if not grant or grant in grants
            )
        return sets[grants]


def lapsed_of(
    all_rights: Mapping[str, Rights], changed: Iterable[str], ends: Mapping[str, End], meter: Meter
) -> dict[str, list[Held]]:
    """Returns the rights that no longer stand, by member, after the rights of `changed` became less.

    Only rights that rest on them, directly or through others, are checked; the others stand unchanged. `ends` are the
    ends of grants, by id. A right that cannot be decided before `meter` ends does not stand.

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
        for right in whose.held if whose else ():
            if right.rooted or right.granter not in doubtful:
                standing.add(name, right)
            else:
                asked.append((name, right))
    try:
        asked = _least(standing, asked, meter)
    except OverBudget as over:
        asked = list(over.args[0])
    lost: dict[str, list[Held]] = {}
    for name, right in asked:
        lost.setdefault(name, []).append(right)
    return {name: lost[name] for name in all_rights if name in lost}


def _least(standing: _Standing, asked: list[tuple[str, Held]], meter: Meter) -> list[tuple[str, Held]]:
    """Returns the rights in `asked` that no standing right covers; covered ones are added to `standing`.

    Raises:
        OverBudget: with the rights that were not decided, and those that were refused so far.
    """
    while True:
        proved: list[tuple[str, Held]] = []
        still: list[tuple[str, Held]] = []
        for at, (name, right) in enumerate(asked):
            try:
                near = _near(standing.by(right, meter), right.capability, meter)
                stands = covered(near, right.capability, meter=meter)
            except OverBudget:
                raise OverBudget([*still, *asked[at:]]) from None
            (proved if stands else still).append((name, right))
        if not proved:
            return still
        for name, right in proved:
            standing.add(name, right)
        asked = still


def lapsed(all_rights: Mapping[str, Rights], ends: Mapping[str, End]) -> dict[str, list[Held]]:
    """Returns the rights that no longer stand, by member, given all rights and the ends of grants.

    Spec: §3.6.8 (Delegation Security).
    """
    standing = _Standing(ends)
    for name, rights in all_rights.items():
        for right in rights.held:
            if right.rooted:
                standing.add(name, right)
    waiting = [
        (name, right) for name, rights in all_rights.items() for right in rights.held if not right.rooted
    ]
    progress = True
    while progress:
        progress, still = False, []
        for name, right in waiting:
            if possesses(standing.by(right, None).capabilities, right.capability).answer == "yes":
                standing.add(name, right)
                progress = True
            else:
                still.append((name, right))
        waiting = still
    lapsing: dict[str, list[Held]] = {}
    for name, right in waiting:
        lapsing.setdefault(name, []).append(right)
    return lapsing
