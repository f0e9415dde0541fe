"""Random sessions in which people decide on proposals, honestly and not, and each request has a known place.

A session knows the place of each request when it sends it, because it knows what it does: it approves, edits, repeats,
goes around a card, answers for another.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from mew_lab.protocol.envelope import digest
from mew_lab.space.events import Enrolled, Joined, Left, Noted, Received

from .stage import Stage, says

__all__ = ["ACTIONS", "Session", "approves", "play"]

HUMANS = ("ada", "eve")
TOOLS = ("fs", "git")
GRANT = {"kind": "mcp/request", "to": "fs"}


class Proposed(NamedTuple):
    id: str
    to: tuple[str, ...]
    call: dict[str, Any]


class Decided(NamedTuple):
    """An approval whose request was not sent yet."""

    proposal: Proposed
    request: str
    by: str
    call: dict[str, Any]
    to: tuple[str, ...]


class Session:
    """A random session, and the place of each request that the gateway relayed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.stage = Stage(owner="ada")
        self.places: dict[str, list[tuple[str, str]]] = {}  # place -> (id of the request, sender)
        self.proposals: list[Proposed] = []
        self.decided: list[Decided] = []  # approvals that no request has used
        self.sent: list[Decided] = []  # approvals whose request was relayed
        self.unsent: set[tuple[str, str]] = (
            set()
        )  # deciders and requests of approvals, until such a request is relayed
        self.granted: set[str] = set()
        self.count = 0
        for name in HUMANS:
            self.stage.play(Enrolled(name, ({"kind": "*"},)))
        for name in ("bot", "cara"):
            self.stage.play(Enrolled(name, ({"kind": "mcp/proposal"}, {"kind": "chat"})))
        for name in TOOLS:
            self.stage.play(Enrolled(name, ({"kind": "mcp/response"},)))
        for name in (*HUMANS, "bot", "cara", *TOOLS):
            self.stage.play(Joined(f"c-{name}", name, name, "memory"))

    def new_id(self, what: str) -> str:
        self.count += 1
        return f"{what}-{self.count}"

    def call(self, name: str = "write") -> dict[str, Any]:
        return {"method": "tools/call", "params": {"name": name, "arguments": {"n": self.dice.randrange(99)}}}

    def propose(self, id: str = "") -> Proposed:
        to = self.dice.choice([("fs",), ("fs",), ("git", "fs"), ()])
        proposal = Proposed(id or self.new_id("p"), to, self.call())
        self.stage.play(Received(says("mcp/proposal", proposal.id, proposal.call, to=list(to)), "c-bot"))
        self.proposals = [one for one in self.proposals if one.id != proposal.id] + [proposal]
        self.decided = [one for one in self.decided if one.proposal.id != proposal.id]
        return proposal

    def decide(self, proposal: Proposed, *, edited: bool = False, request: str = "", by: str = "") -> Decided:
        """Writes the receipt, as a lab does before it sends the request."""
        by = by or self.dice.choice(HUMANS)
        call = self.call() if edited else proposal.call
        edited = call != proposal.call
        to = proposal.to or (self.dice.choice(TOOLS),)
        shown = {"id": proposal.id, "from": "bot", "to": list(proposal.to), "payload": call}
        note: dict[str, Any] = {"proposal": proposal.id, "decision": "approve", "by": "human"}
        note |= {"digest": digest(shown), "request": request or self.new_id("q"), "edited": edited}
        how = self.dice.choice(["click", "typed", "policy"])
        if how == "click":
            note["on_screen"] = self.dice.randrange(400, 90_000)
        elif how == "typed":
            note["typed"] = note["digest"][:8]
        else:
            note |= {"policy": {"name": "night", "text": "approves all"}, "by": "policy night"}
        if not proposal.to:
            note["to"] = list(to)
        self.stage.play(Noted("decided", by, json.dumps(note)))
        self.unsent.add((by, note["request"]))
        return Decided(proposal, note["request"], by, call, to)

    def send(
        self,
        place: str,
        sender: str,
        call: dict[str, Any],
        to: tuple[str, ...],
        about: list[str],
        id: str = "",
    ) -> bool:
        """Sends a request; notes its place where the gateway relays it."""
        id = id or self.new_id("q")
        payload = {"jsonrpc": "2.0", "id": self.count, **call}
        members = {"correlation_id": about} if about else {}
        self.stage.play(Received(says("mcp/request", id, payload, to=list(to), **members), f"c-{sender}"))
        record = next(one for one in reversed(self.stage.records) if one.event == "received")
        relayed = record.verdict == "accepted"
        if relayed:
            self.places.setdefault(place, []).append((id, sender))
            self.unsent.discard((sender, id))
        return relayed

    def pick(self) -> Proposed:
        return self.dice.choice(self.proposals) if self.proposals else self.propose()

    def carry_out(self, decided: Decided) -> None:
        if self.send(
            "consented", decided.by, decided.call, decided.to, [decided.proposal.id], decided.request
        ):
            self.sent.append(decided)

    def rejoin(self, name: str) -> None:
        """A participant may use its own ids again after it joined anew (R6)."""
        self.stage.play(Left(f"c-{name}", "gone"), Joined(f"c-{name}", name, name, "memory"))


# --- what happens; each is one thing that a participant or an attacker does ---


def approves(s: Session) -> None:
    s.carry_out(s.decide(s.propose()))


def approves_with_an_edit(s: Session) -> None:
    s.carry_out(s.decide(s.propose(), edited=True))


def approves_and_waits(s: Session) -> None:
    s.decided.append(s.decide(s.propose(), edited=s.dice.random() < 0.3))


def sends_what_waited(s: Session) -> None:
    if s.decided:
        s.carry_out(s.decided.pop(s.dice.randrange(len(s.decided))))


def decides_afterwards(s: Session) -> None:
    proposal, id = s.propose(), s.new_id("q")
    s.send("without", "ada", proposal.call, proposal.to or ("fs",), [proposal.id], id)
    s.decide(proposal, request=id, by="ada")


def rejects_and_sends(s: Session) -> None:
    proposal = s.propose()
    note = {"proposal": proposal.id, "decision": "reject", "by": "human", "digest": "0" * 64, "typed": "0"}
    s.stage.play(Noted("decided", "ada", json.dumps(note)))
    s.send("without", "ada", proposal.call, proposal.to or ("fs",), [proposal.id])


def goes_around_the_card(s: Session) -> None:
    proposal = s.pick()
    s.send("without", s.dice.choice(HUMANS), proposal.call, proposal.to or ("git",), [proposal.id])


def changes_what_was_shown(s: Session) -> None:
    decided = s.decide(s.propose())
    n = decided.call["params"]["arguments"]["n"] + 1
    call = {**decided.call, "params": {"name": "write", "arguments": {"n": n}}}
    if s.dice.random() < 0.3:
        call = {**decided.call, "more": True}
    if s.send("without", decided.by, call, decided.to, [decided.proposal.id], decided.request):
        s.rejoin(decided.by)
        s.carry_out(decided)  # its receipt covers no request yet


def makes_another_call(s: Session) -> None:
    proposal = s.propose()
    decided = s.decide(proposal)
    call, to = s.dice.choice(
        [
            ({"method": "tools/list"}, decided.to),
            (s.call("delete"), decided.to),
            (proposal.call, ()),
            *([(proposal.call, ("git",))] if proposal.to else []),
        ]
    )
    s.send("other_calls", decided.by, call, to, [proposal.id], decided.request)


def repeats_its_request(s: Session) -> None:
    if s.sent:
        decided = s.dice.choice(s.sent)
        if decided.proposal in s.proposals:
            s.rejoin(decided.by)
            s.send("without", decided.by, decided.call, decided.to, [decided.proposal.id], decided.request)


def fulfils_again(s: Session) -> None:
    if s.sent:
        decided = s.dice.choice(s.sent)
        if decided.proposal in s.proposals:
            s.send("without", s.dice.choice(HUMANS), decided.call, decided.to, [decided.proposal.id])


def fulfils_for_another(s: Session) -> None:
    decided = s.decide(s.propose(), by="ada")
    s.send("without", "eve", decided.call, decided.to, [decided.proposal.id], decided.request)
    relayed = s.send("consented", "ada", decided.call, decided.to, [decided.proposal.id], decided.request)
    assert not relayed  # the id is taken now


def calls_by_own_right(s: Session) -> None:
    s.send("own", s.dice.choice(HUMANS), s.call(), ("fs",), s.dice.choice([[], [], ["gone"], ["m-1"]]))


def carries_out_its_own(s: Session) -> None:
    proposal = s.propose()
    if "bot" in s.granted:
        s.send("own", "bot", proposal.call, ("fs",), [proposal.id])
    else:
        assert not s.send("own", "bot", proposal.call, ("fs",), [proposal.id])


def is_granted(s: Session) -> None:
    payload = {"recipient": "bot", "capabilities": [GRANT]}
    s.stage.play(Received(says("capability/grant", s.new_id("g"), payload, to=["bot"]), "c-ada"))
    s.granted.add("bot")


def is_revoked(s: Session) -> None:
    payload = {"recipient": "bot", "capabilities": [GRANT]}
    s.stage.play(Received(says("capability/revoke", s.new_id("r"), payload, to=["bot"]), "c-ada"))
    s.granted.discard("bot")
    assert not s.send("own", "bot", s.call(), ("fs",), [])


def proposes_anew(s: Session) -> None:
    """Another proposal under an id that was decided: the receipt is not for it."""
    decided = s.decide(s.propose(), by="ada")
    s.rejoin("bot")
    again = s.propose(decided.proposal.id)
    s.send("without", "ada", again.call, again.to or ("fs",), [again.id], decided.request)


def names_two(s: Session) -> None:
    first, second = s.decide(s.propose(), by="ada"), Proposed("", (), {})
    s.proposals.append(Proposed(s.new_id("p"), first.proposal.to, first.proposal.call))
    second = s.proposals[-1]
    s.stage.play(Received(says("mcp/proposal", second.id, second.call, to=list(second.to)), "c-bot"))
    place = s.dice.choice(["consented", "without"])
    if place == "consented":
        shown = {"id": second.id, "from": "bot", "to": list(second.to), "payload": second.call}
        note = {"proposal": second.id, "decision": "approve", "by": "human", "typed": "x", "edited": False}
        note |= {"digest": digest(shown), "request": first.request, "to": list(first.to)}
        s.stage.play(Noted("decided", "ada", json.dumps(note)))
    s.send(place, "ada", first.call, first.to, [first.proposal.id, second.id], first.request)


def withdraws(s: Session) -> None:
    s.stage.play(Received(says("mcp/withdraw", s.new_id("w"), {}, correlation_id=[s.pick().id]), "c-bot"))


def damages(s: Session) -> None:
    detail = s.dice.choice(["", "[]", '{"proposal":1}', '{"proposal":"p-1","decision":[]}', "{" * 99])
    s.stage.play(Noted("decided", "ada", detail), Received("{broken", "c-bot"))


ACTIONS: tuple[Callable[[Session], None], ...] = (
    *(approves, approves_with_an_edit, approves_and_waits, sends_what_waited, decides_afterwards),
    *(rejects_and_sends, goes_around_the_card, changes_what_was_shown, makes_another_call),
    *(repeats_its_request, fulfils_again, fulfils_for_another, calls_by_own_right, carries_out_its_own),
    *(is_granted, is_revoked, proposes_anew, names_two, withdraws, damages),
)


def play(seed: int, actions: int) -> Session:
    session = Session(seed)
    for _ in range(actions):
        session.dice.choice(ACTIONS)(session)
    return session
