"""Tells the others what the person of this lab looks at and approves, and counts their yes where a quorum is set.

A lab does so only where `share_review` is on, because everybody in the space sees it, the proposer too. It sends a
status at most once a second. What the others share is shown on the cards, whether or not this lab shares anything.

A quorum of the lab binds this lab alone: an approval of its person is kept as her yes, and is sent when enough deciders
have said yes to exactly that digest. Whoever may send such requests can do so without it, and the card says who. It is
enforced where the executor has a quorum of its own (`sdk.reviews`).

Everything runs on the loop's thread, so there is no lock.

Spec: ruling R39.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from mew_lab.errors import ConfigError
from mew_lab.lab.decisions.cards import Card
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.permit import read_capabilities
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.decisions import digest_of_choice
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.quorum import Quorum
from mew_lab.sdk.reviews import MAX_ID, MAX_IDS, REVIEW

__all__ = ["NOT_SHARED", "Ballot", "SharedReviews"]

APART = 1.0  # seconds between two statuses, and between two updates of a card by those of others
NOT_SHARED = "A lab with a quorum needs share_review=True: the others count the yes that it shares"
MOST_NAMED = 3
MOST_JUDGED = 50  # participants whose permissions are looked at for one card
ENDED = ("rejected", "withdrawn", "done", "unknown", "resolved", "lapsed")


class Ballot(NamedTuple):
    """A yes of the person of this lab: to the proposal with that place among all messages, in the form of that digest.

    `send` sends it, with a card of now.
    """

    seq: int
    digest: str
    send: Callable[[Card], None]


class SharedReviews:
    """The reviews of one lab.

    `refresh` is called with the id of each card whose `describe` may have changed, `find` gives a card by its id.
    `logical` maps the id of a connection to the name of its participant. `enforced` gives the quorum of an executor of
    this process.
    """

    def __init__(
        self,
        me: MEWParticipant,
        *,
        refresh: Callable[[str], object],
        find: Callable[[str], Card | None],
        logical: Callable[[str], str],
        enforced: Callable[[str], Quorum | None],
    ) -> None:
        self._me = me
        self._refresh = refresh
        self._find = find
        self._logical = logical
        self._enforced = enforced
        self.shares = False
        self.quorum: Quorum | None = None
        self._ballots: dict[str, Ballot] = {}
        self._sent: set[str] = set()  # those whose yes was complete: each is sent once
        self._open: BoundedDict[str, int] = BoundedDict(MAX_IDS, refresh=True)  # proposal -> its place
        self._last = -APART
        self._telling: asyncio.TimerHandle | None = None
        self._told: asyncio.Future[bool] | None = None
        self._stale: dict[str, None] = {}
        self._updating: asyncio.TimerHandle | None = None
        me.reviews.changed.add(self._on_review)
        me.on_participant_join(lambda _: self._share_again())
        me.on_ready(lambda _: self._share_again())
        me.client.on_disconnected(lambda _: self._lose_ballots())

    # --- settings ---

    def set(self, *, shares: bool, quorum: Quorum | None) -> None:
        """Sets what this lab shares, and the quorum that it asks for.

        Raises:
            ConfigError: It asks for a quorum and shares nothing, so that nobody could count its yes.
        """
        if quorum is not None and not shares:
            raise ConfigError(NOT_SHARED, key="quorum")
        was, self.shares, self.quorum = self.shares, shares, quorum
        if not shares:
            self._lose_ballots()
        if was or shares:
            self._share(last=True)

    # --- what the person does ---

    def note_shown(self, card: Card) -> None:
        """Takes that a view shows a card."""
        if self._open.get(card.id) != card.seq and len(card.id) <= MAX_ID:
            self._open[card.id] = card.seq
            self._share()

    def follow(self, card: Card) -> None:
        """Takes a new state of a card: what is decided is looked at no more, and a yes to it is none any more."""
        if card.state in ENDED and self._open.pop(card.id, None) is not None:
            self._share()
        ballot = self._ballots.get(card.id)
        is_same = ballot is not None and ballot.seq == card.seq
        if ballot is not None and (card.state in ENDED or not is_same):
            self.take_back(card.id)

    def _lose_ballots(self) -> None:
        """Forgets each yes, because nobody counts it any more."""
        self._ballots.clear()
        self._sent.clear()

    def take_back(self, proposal: str) -> None:
        """Takes back a yes; does nothing where there is none."""
        self._sent.discard(proposal)
        if self._ballots.pop(proposal, None) is not None:
            self._share()

    def take_back_all(self) -> int:
        """Takes back each yes; returns how many there were."""
        for id in (taken := tuple(self._ballots)):
            self.take_back(id)
        return len(taken)

    async def vote(self, card: Card, ballot: Ballot) -> str:
        """Shares a yes; returns the yes that is missing, as a phrase, and empty where the call is sent now.

        Raises:
            ValueError: It cannot be shared; the message says why.
        """
        if len(card.id) > MAX_ID:
            raise ValueError("the id of its proposal is too long to be named in a status")
        if card.id not in self._ballots and len(self._ballots) >= MAX_IDS:
            raise ValueError(f"{MAX_IDS} of your yes wait for others, and a status has room for no more")
        before = self._ballots.get(card.id)
        self._ballots[card.id] = ballot
        self._sent.discard(card.id)
        self._share()
        if not await self._is_told():
            if self._ballots.get(card.id) is ballot:
                self._ballots.pop(card.id)
                if before is not None:
                    self._ballots[card.id] = before
            raise ValueError("you may not send participant/status here, or there is no connection")
        return self._missing(card, ballot)

    def _missing(self, card: Card, ballot: Ballot) -> str:
        if self.quorum is None:
            return ""
        yes = {*self._me.reviews.say_yes(card.id, ballot.digest), self._name}
        return self.quorum.describe_missing(yes, proposer=self._logical(card.proposer))

    # --- what a card says ---

    def describe(self, card: Card) -> str:
        """Who else looks at a card and who said yes, and the quorum that is asked for; empty where there is nothing."""
        reviews, own = self._me.reviews, self._ballots.get(card.id)
        looks = sorted(reviews.look_at(card.id) - {self._name})
        approvals = {
            name: digest for name, digest in reviews.approvals(card.id).items() if name != self._name
        }
        parts = [f"shown to {_names(looks)}"] if looks else []
        parts += self._tell_choices(card, approvals, own)
        same = sorted(name for name, digest in approvals.items() if digest == card.digest)
        other = sorted(name for name, digest in approvals.items() if digest != card.digest)
        if own is not None and own.seq == card.seq and card.permission is None:
            same = ["you", *same] if own.digest == card.digest else same
            parts += ["you said yes to your edit of it"] if own.digest != card.digest else []
        parts += [f"{_names(same)} said yes"] if same else []
        parts += [f"{_names(other)} said yes to another form of it"] if other else []
        enforced = self._enforced(card.to[0]) if len(card.to) == 1 else None
        if enforced is not None:
            parts.append(f"{enforced}, or {one_line(card.to[0], 64)} refuses it")
        elif self.quorum is not None:
            can = self._tell_alone(card)
            waits = "" if own is None else self._missing(card, own)
            asked = f"it waits for {waits}" if waits else str(self.quorum)
            parts.append(f"{asked}: asked for by this lab; {can}")
        return "; ".join(parts)

    def _tell_choices(self, card: Card, approvals: dict[str, str], own: Ballot | None) -> list[str]:
        """Who said yes to which option of a permission; takes these out of `approvals`."""
        proposal = self._me.proposals.get(card.id) if approvals or own is not None else None
        if card.permission is None or card.permission.fault or proposal is None:
            return []
        parts = []
        for option in card.permission.options:
            digest = digest_of_choice(proposal, option.id)
            names = sorted(name for name, yes in approvals.items() if yes == digest)
            for name in names:
                del approvals[name]
            if own is not None and (own.seq, own.digest) == (card.seq, digest):
                names = ["you", *names]
            parts += [f"{_names(names)} said yes to {option.quoted}"] if names else []
        return parts

    def _tell_alone(self, card: Card) -> str:
        """Who else may send the call without anybody's yes, as far as so many participants can be looked at."""
        proposal = self._me.proposals.get(card.id)
        client, names = self._me.client, set[str]()
        others = [
            id for id in tuple(client.participants) if id != client.id and self._logical(id) != self._name
        ]
        to = tuple(map(self._logical, card.to))
        for id in others[:MOST_JUDGED] if proposal is not None else ():
            held, _ = read_capabilities(client.participants.get(id, ()), edition=client.pattern_edition)
            if proposal is not None and held.permit("mcp/request", to, proposal.payload).allowed:
                names.add(self._logical(id))
        more = len(others) - MOST_JUDGED
        if names:
            return f"{_names(sorted(names))}{' and perhaps others' if more > 0 else ''} can send alone"
        if more > 0:
            return (
                f"others may be able to send alone: {more} of {len(others)} participants were not looked at"
            )
        return "nobody else here can send alone"

    @property
    def _name(self) -> str:
        return self._logical(self._me.client.id or "")

    # --- what others say ---

    def _on_review(self, ids: frozenset[str]) -> None:
        """Updates the cards at most once a second, and sends the own yes that others have made complete."""
        for id in ids:
            card, ballot = self._find(id), self._ballots.get(id)
            if card is None:
                continue
            self._stale[id] = None
            if self.quorum is None or ballot is None or card.state != "open" or ballot.seq != card.seq:
                continue
            if id not in self._sent and not card.unmet and not self._missing(card, ballot):
                self._sent.add(id)
                ballot.send(card)
        if self._stale and self._updating is None:
            self._updating = asyncio.get_running_loop().call_later(APART, self._update)

    def _update(self) -> None:
        self._updating = None
        stale, self._stale = self._stale, {}
        for id in stale:
            self._refresh(id)

    # --- telling the others ---

    def _share_again(self) -> None:
        if self.shares and (self._ballots or self._open):  # who comes now has seen none of it
            self._share()

    def _share(self, *, last: bool = False) -> None:
        if self._telling is not None or not (self.shares or last):
            return
        loop = asyncio.get_running_loop()
        self._told = loop.create_future()
        self._telling = loop.call_at(max(loop.time(), self._last + APART), self._tell)

    def _tell(self) -> None:
        self._last = asyncio.get_running_loop().time()
        self._telling = None
        yes = {id: ballot.digest for id, ballot in self._ballots.items()}
        review = {"open": [*self._open], "yes": yes} if self.shares else {"open": [], "yes": {}}
        more: dict[str, Any] = {REVIEW: review}
        sent = self._me.telemetry.tell(None, **more)
        if self._told is not None and not self._told.done():
            self._told.set_result(sent is not None)

    async def _is_told(self) -> bool:
        return self._told is not None and await asyncio.shield(self._told)


def _names(names: list[str]) -> str:
    named = [one_line(name, 64) for name in names[:MOST_NAMED]]
    more = len(names) - MOST_NAMED
    return (
        f"{', '.join(named)} and {more} more"
        if more > 0
        else " and ".join(filter(None, [", ".join(named[:-1]), named[-1]]))
    )
