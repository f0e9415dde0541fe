"""Lets a permission that the person gave a coding agent count for the call that the agent then makes at its gate.

The agent matches the call to a permission of its own session (`bridge.acp_once`). Here is judged whether that counts:
the person of this lab chose it, on its card or typed, and may send the call itself. The card of the call must hold
nothing that the person has not seen: no warning, no notice, and no file whose change a view would show. What a policy, a
rule or another participant chose counts for nothing.

Each card is looked at once, when it was read. A permission that fits is used up by that, also where the card waits for
the person all the same. Everything runs on the loop's thread.

Spec: §3.2.1, rulings R29, R32, R35, R39, R41.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mew_lab.errors import MewError
from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.policies import Decision, Policy
from mew_lab.ledger.calls import shown
from mew_lab.ledger.options import ALLOW_ONCE, PermissionOption
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import mapping_of
from mew_lab.sdk.participant import MEWParticipant

__all__ = ["AskOnce", "CountedPermission", "FindPermission"]

FindPermission = Callable[[str, str, Mapping[str, Any]], str]
"""Gives the permission for a call, by its participant, tool and arguments: the id of its proposal, empty for none."""
MAX_CHOSEN = 1000  # permissions of which it is remembered that the person gave them
MAX_SEEN = 10_000  # cards of gates that were looked at
MEMBERS = {"name", "arguments", "_meta"}  # of the params of a call at a gate


class CountedPermission(NamedTuple):
    """A permission that counts for a call: the id of its proposal, and that of the request that the person sent."""

    proposal: str
    request: str

    @property
    def policy(self) -> Policy:
        """The policy that the decision about the call names."""
        text = (
            f"counts the permission {self.proposal}, which the person gave by request {self.request}, for the call of "
            "that agent: the same tool and arguments, once, within 60 s"
        )
        return Policy("ask once", lambda card: Decision("approve"), text=text)


class AskOnce:
    """The permissions of one lab, and the gates where they count."""

    def __init__(self, me: MEWParticipant, *, logical: Callable[[str], str]) -> None:
        self._me = me
        self._logical = logical
        self._finders: dict[str, FindPermission] = {}  # by the participant of the gate
        self._chosen: BoundedDict[str, str] = BoundedDict(MAX_CHOSEN)  # proposal -> the request of the person
        self._seen: BoundedDict[tuple[str, int], None] = BoundedDict(MAX_SEEN)

    def attach(self, gate: str, find: FindPermission) -> None:
        """Lets permissions count for the calls of a gate."""
        self._finders[gate] = find

    def detach(self, gate: str) -> None:
        """Lets none count there any more."""
        self._finders.pop(gate, None)

    def clear(self) -> None:
        """Forgets all permissions so far, as a stop does."""
        self._chosen.clear()

    def note(self, proposal: str, chosen: PermissionOption | None, request: str) -> None:
        """Notes that the person sends that request, which chooses an option of a permission."""
        if self._finders and chosen is not None and chosen.kind == ALLOW_ONCE:
            self._chosen[proposal] = request

    def forget(self, proposal: str) -> None:
        """Forgets a permission that was not sent."""
        self._chosen.pop(proposal, None)

    def find(self, card: Card) -> CountedPermission | None:
        """The permission that counts for the call of a card that was read just now; None where the person is asked."""
        find = self._finders.get(self._logical(card.proposer))
        if find is None or not card.is_read or (card.id, card.seq) in self._seen:
            return None
        self._seen[card.id, card.seq] = None
        proposal = self._me.proposals.get(card.id)
        if proposal is None or proposal.seq != card.seq or len(card.to) != 1:
            return None
        try:
            payload = shown(proposal.envelope)["payload"]
        except MewError:
            return None
        params = mapping_of(payload.get("params"))
        name, arguments = params.get("name"), params.get("arguments")
        is_call = payload.get("method") == "tools/call" and params.keys() <= MEMBERS
        if not is_call or not isinstance(name, str) or not isinstance(arguments, Mapping):
            return None
        permission = find(card.to[0], name, arguments)
        request = self._chosen.pop(permission, "") if permission else ""
        if not request or not self._is_clear(card):
            return None
        if not self._me.can_send("mcp/request", payload, card.to):
            return None
        return CountedPermission(permission, request)

    @staticmethod
    def _is_clear(card: Card) -> bool:
        """Whether the card of a call holds nothing that a person would have to look at."""
        shows_file = card.file is not None and card.file.is_known
        return not (card.warnings or card.notices or card.refusal or card.repeats or card.unmet or shows_file)
