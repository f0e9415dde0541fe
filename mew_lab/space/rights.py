"""What does one member hold, and what does each capability rest on?  Values and one computation, no message.

A capability was configured (or is the baseline), or came with a grant or an invite. What was granted stands only
while its granter could still grant it, not counting what rests on the grant itself: the least set that follows
from what was configured.

Spec: §3.6.1, §3.6.2, §3.6.8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from mew_lab.protocol.covers import possesses
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.permit import Capability, CapabilitySet

__all__ = ["End", "Held", "Rights", "lapsed"]


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

    `origins` are, for each capability, all those that are held of it, the oldest first.
    """

    __slots__ = ("capabilities", "grants", "held", "limited", "origins", "texts")

    def __init__(self, held: Iterable[Held] = ()) -> None:
        self.held = tuple(held)
        found: dict[str, list[Held]] = {}
        for one in self.held:
            found.setdefault(compact(one.capability.pattern), []).append(one)
        self.texts = tuple(found)  # as records quote them
        self.origins = tuple(map(tuple, found.values()))
        self.grants = tuple(first.grant for first, *_ in self.origins)
        self.limited = any(one.limited for one in self.held)
        self.capabilities = CapabilitySet([first.capability.pattern for first, *_ in self.origins])

    def without(self, gone: Iterable[Held]) -> Rights:
        """What is left of them."""
        ids = {id(one) for one in gone}
        return Rights(one for one in self.held if id(one) not in ids)


def lapsed(all_rights: Mapping[str, Rights]) -> dict[str, list[Held]]:
    """What no longer stands, by member, given what everybody holds.

    Spec: §3.6.8 (Delegation Security).
    """
    standing: dict[str, list[Capability]] = {
        name: [one.capability for one in rights.held if one.rooted] for name, rights in all_rights.items()
    }
    waiting = [(name, one) for name, rights in all_rights.items() for one in rights.held if not one.rooted]
    found = True
    while found:
        found, still = False, []
        for name, one in waiting:
            if possesses(standing.get(one.granter, ()), one.capability).answer == "yes":
                standing[name].append(one.capability)
                found = True
            else:
                still.append((name, one))
        waiting = still
    gone: dict[str, list[Held]] = {}
    for name, one in waiting:
        gone.setdefault(name, []).append(one)
    return gone
