"""What does one member hold, and what does each capability rest on?  Values and one computation, no message.

A capability was configured (or is the baseline), or came with a grant or an invite. What was granted stands only
while its granter could still grant it, not counting what rests on the grant itself: the least set that follows
from what was configured.

Spec: §3.6.1, §3.6.2, §3.6.8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mew_lab.protocol.covers import possesses
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.permit import Capability, CapabilitySet

__all__ = ["Held", "Rights", "lapsed"]


class Held(NamedTuple):
    """One capability and its origin: the grant's id and who gave it, both empty for what was configured.

    `rooted` stands by itself, whatever becomes of its giver: what was configured, and the starter profile
    of an invite.
    """

    capability: Capability
    grant: str = ""
    granter: str = ""
    rooted: bool = True


class Rights:
    """Everything that one member holds, each capability once, in the order in which it came."""

    __slots__ = ("capabilities", "grants", "held", "texts")

    def __init__(self, held: Iterable[Held] = ()) -> None:
        self.held = tuple(held)
        first: dict[str, Held] = {}
        for one in self.held:
            first.setdefault(compact(one.capability.pattern), one)
        self.texts = tuple(first)  # as records quote them
        self.grants = tuple(one.grant for one in first.values())
        self.capabilities = CapabilitySet([one.capability.pattern for one in first.values()])

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
