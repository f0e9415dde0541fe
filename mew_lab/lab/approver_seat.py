"""`ApproverSeat`: a participant that sends what the adopted rules of the person of this lab approve (§9.4).

How it works. The rules stay where they are (`decisions/owned_rules.py`) and judge as ever: reviews, bars and falls do
not change. Where a rule approves a call, this participant sends the request in its own name, and the receipt in the
journal is its own. Its permissions are grants of the person, one for each rule that acts: the tool of the rule with its
conditions, for the calls and the time that the rule has left. They come and go with the rules (`settle`), and the
gateway applies them.

While it is paused or not connected nothing is approved, and the calls wait for the person. It approves nothing that it
has proposed itself, or that an agent proposes which obeys it.

Spec: §3.6.1, §9.4, rulings R25, R32, R34.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from mew_lab.errors import MewError, NotApproved, Refused
from mew_lab.lab.coding_agent_seat import CodingAgentSeat
from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.kept_rules import KeptRule
from mew_lab.lab.seat import Seat
from mew_lab.lab.session import Session
from mew_lab.lab.standing import logical, standings
from mew_lab.lab.subscribers import wait_while
from mew_lab.protocol.envelope import Envelope, compact
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.group import RunningTasks
from mew_lab.sdk.participant import MEWParticipant

__all__ = ["APPROVER", "ApproverSeat"]

APPROVER: Final[list[dict[str, Any]]] = [
    {"kind": ["mcp/response", "capability/grant-ack", "participant/status"]},
]
"""What it may send beside the calls of the rules: that it answers no question, has its permissions, and how it is."""
MOST_NAMED = 5  # rules in a sentence
READY_WITHIN = 5.0  # seconds for a proposal, or a permission, that has reached the person to reach it too


class _Adoption(NamedTuple):
    """One adoption of a rule: another one of the same rule has its uses and its time anew."""

    sha256: str
    at: float


class ApproverSeat(Seat):
    """A participant of this process that sends what the rules of its person approve."""

    def __init__(self, session: Session, participant: MEWParticipant, *, name: str) -> None:
        super().__init__(
            session, participant, name=name, what=f"approver: rules of {one_line(session.me.name, 64)}"
        )
        self._grants: dict[
            _Adoption, str
        ] = {}  # the ids of its grants; empty for one that could not be given
        self._lock = asyncio.Lock()
        self._tasks = RunningTasks(report=lambda fault: session.fault(f"{name}: {one_line(str(fault), 300)}"))
        self._is_over = False
        self._unfollow: Callable[[], None] = lambda: None

    @staticmethod
    def check_name(session: Session, name: str) -> None:
        """Checks that no other participant of the space has that name, whose permissions it would share.

        Raises:
            MewError: Another one has it, or this lab has an approver.
        """
        doing = f"Cannot seat the approver {one_line(name, 64)!r}"
        seated = next((one.name for one in session.seats.values() if isinstance(one, ApproverSeat)), "")
        if seated:
            raise MewError(
                f"{doing}: {seated!r} runs the rules of {session.me.name} already; lab.leave({seated!r}) ends that"
            )
        for known in standings(session):
            own = [right.pattern for right in known.rights if not right.grant and not right.baseline]
            if known.name == name and (known.ids or own != APPROVER):
                raise MewError(
                    f"{doing}: this space has another participant of that name, which would share its permissions; "
                    "take a name that is new here"
                )

    async def open(self) -> None:
        """Joins the space with the permissions of the rules that act now, and with no earlier one.

        Raises:
            MewError: As `start` of a participant; or an earlier permission cannot be revoked.
        """
        rights = self.lab.me.participant.rights
        known = next((one for one in standings(self.lab) if one.name == self.name), None)
        for id in dict.fromkeys(right.grant for right in (known.rights if known else ()) if right.grant):
            await rights.revoke(self.name, grant_id=id, reason="an approver begins with none")
        await self.participant.start()
        self._unfollow = self.lab.decisions.rules.changed.add(self._follow)
        self.lab.decisions.approver = self
        await self.settle()

    async def aclose(self) -> None:
        """Revokes its permissions and leaves; from then on rules approve in the name of their person again."""
        self._is_over = True
        self._unfollow()
        if self.lab.decisions.approver is self:
            self.lab.decisions.approver = None
        await self.settle()
        await self.participant.stop()

    @property
    def left_behind(self) -> str:
        """Which rules act in the name of the person from then on."""
        names = [kept.name for kept in self.lab.decisions.rules.active]
        told = ", ".join(names[:MOST_NAMED]) + (" and others" if len(names) > MOST_NAMED else "")
        act = f"{told[:1].upper()}{told[1:]} {'approves' if len(names) == 1 else 'approve'}"
        return f"{act} in your own name again; lab.rules.stop() ends that" if names else ""

    # --- its permissions ---

    def _wanted(self) -> dict[_Adoption, KeptRule]:
        """The rules that act now."""
        active = () if self._is_over else self.lab.decisions.rules.active
        return {_Adoption(kept.rule.sha256, kept.life.adopted or 0.0): kept for kept in active}

    def _follow(self) -> None:
        if self._wanted().keys() != self._grants.keys():
            self._tasks.start(self.settle())

    async def settle(self) -> None:
        """Makes its permissions those of the rules that act now. What cannot be done is a fault of the lab."""
        async with self._lock:
            for adoption in [*self._grants]:
                if adoption not in self._wanted():
                    await self._revoke(adoption)
            for adoption, kept in self._wanted().items():
                if adoption not in self._grants:
                    self._grants[adoption] = await self._grant(kept)

    async def _grant(self, kept: KeptRule) -> str:
        """Gives it the permission of a rule, for what the rule has left; returns the id of the grant."""
        rule, life = kept.rule, kept.life
        if rule.ceiling is None or life.adopted is None:
            return ""
        try:
            grant = await self.lab.me.participant.rights.grant(
                self.name,
                [rule.ceiling],
                reason=f"{kept.name} of {one_line(self.lab.me.name, 64)}",
                expires_at=datetime.fromtimestamp(life.adopted, UTC) + timedelta(days=rule.days),
                max_uses=rule.uses - life.uses,
            )
        except MewError as fault:
            self.lab.fault(
                f"{self.name} approves nothing by {kept.name}, because it could not be given the permission: "
                f"{one_line(str(fault), 300)}"
            )
            return ""
        return grant.id

    async def _revoke(self, adoption: _Adoption) -> None:
        id = self._grants[adoption]
        try:
            if id:
                await self.lab.me.participant.rights.revoke(
                    self.name, grant_id=id, reason="its rule acts no more"
                )
        except MewError as fault:
            if not (isinstance(fault, Refused) and fault.code == "grant_not_found"):  # else it has ended
                self.lab.fault(
                    f"The permission {one_line(id, 60)} of {self.name} may still be in force although its rule acts no "
                    f"more: {one_line(str(fault), 300)}"
                )
                return
        self._grants.pop(adoption, None)

    # --- what it approves ---

    def tell(self) -> str:
        """What it approves and what not, in sentences."""
        sends = f"{self.name} sends what they approve, in its own name."
        if why := self._find_idle():
            return f"{sends} Such calls wait for you now, because {why}."
        names = [kept.name for adoption, kept in self._wanted().items() if not self._grants.get(adoption)]
        return (
            f"{sends} It has no permission for {', '.join(names)}: such calls wait for you."
            if names
            else sends
        )

    def find_bar(self, card: Card) -> str:
        """Why it may not approve a card now; empty where nothing stands against that."""
        if why := self._find_idle():
            return why
        proposer = logical(self.lab, card.proposer)
        if proposer == self.name:
            return f"its proposer is {self.name} itself"
        return f"its proposer works for {self.name}" if self._is_obeyed_by(proposer) else ""

    def _find_idle(self) -> str:
        if self.participant.client.state != "ready":
            return f"{self.name} is not connected"
        pause = self.participant.controls.pause_state
        return "" if pause is None else f"{self.name} is {pause}"

    def _is_obeyed_by(self, proposer: str) -> bool:
        """Whether a participant works on what it asks. An agent and its gate for tools are one."""
        own = [
            seat for seat in self.lab.seats.values() if isinstance(seat, Seat) and proposer in _names(seat)
        ]
        if own:
            return any(seat.obeys(self.participant.client.id) for seat in own)
        # The settings of another process are not known here; it can only obey a participant that may speak to it.
        return self.participant.can_send("chat", {"text": "?"}, to=[proposer])

    async def prepare(self, card: Card) -> None:
        """Waits until it knows a proposal and may send its call.

        Raises:
            NotApproved: It does not, or may not, within five seconds.
        """
        await self.settle()
        until = asyncio.get_running_loop().time() + READY_WITHIN
        await wait_while(lambda: bool(self._find_lack(card)), self._subscribe, until=until)
        if why := self._find_lack(card):
            raise NotApproved(f"{card.request}: not approved by {self.name}, because {why}", code="approver")

    def _find_lack(self, card: Card) -> str:
        known = self.participant.proposals.get(card.id)
        shown = self.lab.me.participant.proposals.get(card.id)
        if known is None or shown is None or known.envelope.raw != shown.envelope.raw:
            return "it has not received the proposal"
        may = self.participant.can_send("mcp/request", known.payload, to=known.to)
        return "" if may else "it has no permission for that call"

    def _subscribe(self, changed: Callable[[object], object]) -> Callable[[], None]:
        client = self.participant.client
        ends = (client.on_message(changed), client.on_welcome(changed))
        return lambda: [end() for end in ends].clear()

    def note(self, event: str, detail: dict[str, Any]) -> None:
        """Writes a record of a decision of its own into the journal."""
        host = self.lab.host
        assert host is not None  # it was enrolled there
        host.gateway.note(self.lab.space, event, participant=self.name, detail=compact(detail))

    async def wait_seen(self, request: Envelope) -> None:
        """Waits until the person has received a request that it has sent: her cards tell the decision then."""
        await self.lab.seen.wait(request.id, unless=lambda: False)


def _names(seat: Seat) -> tuple[str, ...]:
    gate = seat.gate if isinstance(seat, CodingAgentSeat) else None
    return (seat.name,) if gate is None else (seat.name, gate.name)
