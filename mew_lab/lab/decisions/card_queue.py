"""Keeps one card for each proposal that the human may decide, and updates it until nothing can change it any more.

A card is open only while the ledger holds its proposal; when nobody can decide it any more, its state is `lapsed`. A
proposer that was admitted anew may use an id again (R6). The second proposal then has its own card, and the first one
stays among the decided cards under its id followed by `(earlier …)`. Nothing is decided here.

Everything runs on the loop's thread, so there is no lock; the readers may be called from any thread.

Spec: §3.2.1, §3.3, rulings R6, R17, R18.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import count
from typing import Any

from mew_lab.bridge.acp_modes import SET_CONFIG_OPTION, SET_MODE, ProposedChange, describe_change
from mew_lab.errors import MewError, NotApproved
from mew_lab.lab.decisions.cards import (
    Card,
    CardState,
    DecidingRule,
    LastCalls,
    call_of,
    details,
    read_card,
    unread_card,
    values_of,
)
from mew_lab.lab.decisions.edits import Edits
from mew_lab.lab.decisions.gate import LEAST_DIGITS, Gate
from mew_lab.lab.decisions.old_files import FindWrite, OldFiles
from mew_lab.lab.decisions.outcomes import Outcomes
from mew_lab.lab.decisions.pinned_tools import PinnedTools
from mew_lab.lab.decisions.reading_queue import ReadingQueue
from mew_lab.lab.decisions.risks import stated_risks
from mew_lab.lab.decisions.running_calls import RunningCalls
from mew_lab.lab.decisions.sources import Sources
from mew_lab.lab.subscribers import Subscribers
from mew_lab.ledger.calls import Change, Proposal, Request, tool_of
from mew_lab.ledger.chats import ChatLedger
from mew_lab.ledger.reasoning import ReasoningLedger
from mew_lab.protocol.coerce import mapping_of, member
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.steps import Steps
from mew_lab.protocol.text import count_of
from mew_lab.protocol.tool_hints import DESTRUCTIVE
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.kept_results import KeptAnswer
from mew_lab.sdk.participant import MEWParticipant

__all__ = ["Behalf", "CardQueue", "CardStore"]


MAX_SIZE = 64 * 1024 * 1024
SHARE = 6000  # characters for which a card counts when the shares of proposers are compared


class CardStore:
    """Cards by id, in the order in which they were first added.

    `is_over` is true for more than `most` cards, or more than `size` characters of shown text; a single card is never
    over.
    """

    def __init__(self, most: int, *, size: int = MAX_SIZE) -> None:
        self.cards: OrderedDict[str, Card] = OrderedDict()
        self._most = most
        self._most_size = size
        self._size = 0
        self._shares: Counter[str] = Counter()  # proposer -> characters of its cards, each counted with SHARE

    @property
    def largest(self) -> Card | None:
        """The oldest card of the proposer whose cards take the most room; None when there is no card."""
        proposer = max(self._shares, key=self._shares.__getitem__, default="")
        return next((card for card in self.cards.values() if card.proposer == proposer), None)

    @property
    def first(self) -> Card | None:
        """The card that was added first."""
        return next(iter(self.cards.values()), None)

    @property
    def is_over(self) -> bool:
        """Whether a limit is exceeded, so that a card should be dropped."""
        return len(self.cards) > self._most or (self._size > self._most_size and len(self.cards) > 1)

    def put(self, card: Card) -> None:
        """Adds a card; it replaces a card of the same id, at the same position."""
        known = self.cards.get(card.id)
        if known is None or known.arguments is not card.arguments:
            if known is not None:
                self._add(known, -1)
            self._add(card, 1)
        self.cards[card.id] = card

    def drop(self, id: str) -> None:
        """Removes the card; does nothing when it is not there."""
        if (card := self.cards.pop(id, None)) is not None:
            self._add(card, -1)

    def _add(self, card: Card, times: int) -> None:
        size = times * _size(card)
        self._size += size
        self._shares[card.proposer] += size + times * SHARE
        if not self._shares[card.proposer]:
            del self._shares[card.proposer]


def _size(card: Card) -> int:
    return sum(len(name) + len(value) for name, value in (*card.arguments, *(card.last or ())))


MAX_OPEN = 10_000  # as many as the ledger holds
MAX_DECIDED = 200
MAX_NAMED = 10  # ids in an error
MAX_REFERENCES = 20  # ids in a proposal that are looked up
MAX_ADDRESSEES = 20
MAX_QUOTED = 200  # characters of a message
MAX_MESSAGES = 3

AMBIGUOUS = "its text can be read in two ways, so nobody can approve it"
UNREADABLE = "it could not be read here"
TOO_MUCH = "dropped here because too many proposals are open; its outcome is unknown"
ANEW = "its proposer has used its id for another proposal before a decision was received here"

STATES: Mapping[str, CardState] = {
    "open": "open",
    "rejected": "rejected",
    "withdrawn": "withdrawn",
    "fulfilled": "fulfilled",
    "answered": "done",
    "unknown": "unknown",
    "resolved": "resolved",
}


class CardQueue:
    """The cards of one human, open and decided.

    `meet` takes each card that was read before anybody sees it, and gives it with what else is known; `judge` is called
    with each card that may be decided without the human. `logical` gives the participant that an id
    means, `folders(participant)` the folders that a person gave to it, `find_write` the file that a call writes, and
    `review` who else looks at an open card. `gate` records what was shown, `files` of which files, `editing` keeps
    edits, and `tools` remembers the earlier descriptions of tools.
    """

    def __init__(
        self,
        me: MEWParticipant,
        *,
        judge: Callable[[Card], None],
        meet: Callable[[Card], Card],
        logical: Callable[[str], str],
        clock: Callable[[], float],
        folders: Callable[[str], Sequence[str]] = lambda participant: (),
        find_write: FindWrite = lambda to, tool, arguments: None,
        review: Callable[[Card], str] = lambda card: "",
    ) -> None:
        self._me = me
        self._review = review
        self._judge = judge
        self._meet = meet
        self.files = OldFiles(find_write)
        self._folders = folders
        self._logical = logical
        self._clock = clock
        self._open = CardStore(MAX_OPEN)  # in the order in which they were proposed
        self._past = CardStore(MAX_DECIDED)  # in the order in which they were decided
        self.anew: set[str] = set()  # proposals that replaced an open one
        self.deciding: dict[str, str] = {}  # proposal -> the person or policy that is deciding it now
        self.by_policy: dict[
            str, str
        ] = {}  # proposal -> the policy or rule that decided it in the human's name
        self.by_rule: dict[str, DecidingRule] = {}
        self._alike: dict[
            tuple[Any, ...], dict[str, None]
        ] = {}  # open cards by what they call, the oldest first
        self.asked: dict[str, float] = {}  # proposal -> when its person was asked to approve it once more
        me.ledger.calls.hold_all_requests()  # a card names the request behind an answer of anybody
        self._outcomes = Outcomes(me.ledger.calls.requests)
        self.subscribers: Subscribers[Card] = Subscribers()
        self._sources = Sources(me.ledger.calls.requests)
        self._reading = ReadingQueue()
        self._behalf = Behalf(me.ledger.chats, me.ledger.reasoning)
        self.tools = PinnedTools(me.client, me.ledger.calls.requests, logical=logical, clock=clock)
        self._last = LastCalls()
        self.running = RunningCalls(me, clock=clock)
        self.gate = Gate(time.monotonic)
        self.editing = Edits(
            me,
            request_id=lambda id: card.request_id if (card := self.find(id)) else "",
            hints=lambda rows, by: self._sources.quoted_in(values_of(details(rows)), by=by),
            folders=self._folders_of,
        )
        me.client.on_message(self._observe)
        me.on_change(self._on_call_change)
        me.unknown_changed.add(self._on_unknown_change)

    def close(self) -> None:
        """Reads no further: what is being read stays undecided."""
        self._reading.close()

    # --- who asks ---

    def pending(self) -> list[Card]:
        """The open cards, oldest first."""
        return list(self._open.cards.values())

    def decided(self) -> list[Card]:
        """The last decided cards, oldest first; at most 200."""
        past = self._past.cards.values()
        return sorted(past, key=lambda card: card.decided_at or 0.0)[-MAX_DECIDED:]

    def card(self, prefix: str, *, digest: str = "") -> Card:
        """The card whose proposal id is `prefix` or begins with it; of several, the one with the digest.

        Ids are free text, so another participant can use the beginning of an id for a proposal of its own. Therefore
        even a whole id is ambiguous while an older open one begins with it: a person who types it may mean the older
        one. The beginning of the shown digest resolves this.

        Raises:
            MewError: There is no such card, or more than one.
        """
        cards = (*self._open.cards.values(), *self._past.cards.values())
        matches = [card for card in cards if prefix and card.id.startswith(prefix)]
        if exact := self.find(prefix):
            matches = [exact, *(card for card in matches if card.is_open and card.seq < exact.seq)]
        if len(matches) > 1 and len(digest) >= LEAST_DIGITS:
            matches = [card for card in matches if card.digest.startswith(digest)] or matches
        if len(matches) == 1:
            return matches[0]
        named = ", ".join(one_line(card.id, 100) for card in (matches or self.pending())[:MAX_NAMED])
        what = f"Cannot decide {prefix[:80]!r}"
        if matches:
            raise MewError(
                f"{what}: more than one proposal begins with {prefix[:80]!r} here: {named}; name one by an entry of "
                "lab.proposals(), such as lab.proposals()[0], or, for an approval, by its shown digest"
            )
        raise MewError(f"{what}: there is no proposal {prefix[:80]!r} here; open: {named or 'none is open'}")

    def was_decided_by_policy(self, proposal: str) -> bool:
        """Whether a policy has decided the proposal in the human's name."""
        return proposal in self.by_policy

    def check_same(self, shown: Card) -> None:
        """Checks that the card under this id is the one that was shown, and not another with the same text.

        Raises:
            NotApproved: Another proposal with the same text has this id now. A different text is detected by the
                digest.
        """
        card = self.find(shown.id)
        if card is not None and card.seq != shown.seq and card.digest == shown.digest:
            raise NotApproved(
                f"{shown.request}: not decided, because another proposal has taken its id since; look at that one",
                code="another_proposal",
            )

    def find(self, id: str) -> Card | None:
        """The card of that proposal, open or decided; None where there is none."""
        return self._open.cards.get(id) or self._past.cards.get(id)

    # --- following the space ---

    def _observe(self, envelope: Envelope) -> None:
        if (listed := self.tools.observe(envelope)) is not None:
            self._reading.add_text(self._logical(envelope.sender), listed, len(envelope.raw), leave=None)
        noted = self._sources.read(envelope, me=self._me.client.id)
        self._last.observe(envelope)
        if envelope.kind == "mcp/proposal" and envelope.sender != self._me.client.id:
            self._take(envelope, noted)
        else:
            self._note_text(envelope, noted)
            if not envelope.kind.startswith("mcp/"):
                return
            self._take_answer(envelope)
        self._lapse()

    def _note_text(self, envelope: Envelope, noted: Steps[None]) -> None:
        """Reads a message as a source of quotes."""
        who = self._logical(envelope.sender)
        size = 0 if envelope.sender == self._me.client.id else len(envelope.raw)
        self._reading.add_text(who, noted, size, leave=lambda: self._sources.leave_unread(envelope))

    def _take(self, envelope: Envelope, noted: Steps[None]) -> None:
        """Creates the card of a new proposal, and lets the policy judge it once it was read."""
        proposal = self._me.proposals.get(envelope.id)
        if proposal is None or proposal.envelope is not envelope:
            self._note_text(envelope, noted)
            return
        # Before the new card: views hear of the end of the earlier proposal while the id is still its own.
        if (known := self.find(proposal.id)) is not None:
            self._retire(known)
        self._begin(proposal, noted)

    def _begin(self, proposal: Proposal, noted: Steps[None]) -> None:
        """Begins to read a proposal for its card."""
        card = unread_card(
            proposal,
            since=self._clock(),
            request_id=self._me.client.new_id(),
            why=self._behalf.of(proposal),
            repeats=self.repeated(proposal.to, proposal.payload),
            unmet=proposal.unmet,
        )
        steps = self._read(card, proposal, noted)
        who, size = self._logical(proposal.proposer), len(proposal.entry.raw)
        if not self._reading.add(who, card.seq, steps, lambda read: self._take_read(card, read), size=size):
            self.put(card)

    def _take_read(self, card: Card, read: Card | str) -> None:
        """Takes a card that was read, or the reason why it could not be; lets the policy judge it."""
        shown = self.find(card.id)
        if isinstance(read, str):
            if shown is not None:
                # One that was decided meanwhile keeps its decision, and cannot be approved all the same.
                decided = replace(shown, refusal=read, rejected="")
                self.put(self._as_lapsed(shown, read) if shown.is_open else decided)
            return
        proposal = self._me.proposals.get(card.id)
        if shown is not None and proposal is not None:  # its state may have changed meanwhile
            told = replace(
                read,
                repeats=shown.repeats,
                caller=shown.caller,
                caller_after=shown.caller_after,
                decided_at=shown.decided_at,
                on_screen=shown.on_screen,
            )
            read = self._advance(told, proposal)
        if not read.is_open:
            self.put(read)
            return
        alike = [self._open.cards[id] for id in self._alike.get(call_of(read), ())]
        older = min(
            (other for other in alike if other.seq < read.seq), key=lambda other: other.seq, default=None
        )
        self.put(self._meet(replace(read, twin=older.id if older else "")))
        for younger in alike if older is None else ():
            if not younger.twin:  # it was read before this one
                self.put(replace(younger, twin=read.id))
        self._judge(self._open.cards[read.id])
        self._lapse()  # only now it takes room

    def _take_answer(self, envelope: Envelope) -> None:
        """Updates the cards that a message concerns from the ledger."""
        about = [id for id in dict.fromkeys(envelope.correlation_id) if self.find(id) is not None]
        for card in map(self.find, about) if envelope.kind == "mcp/request" else ():
            assert card is not None
            proposal, mine = self._me.proposals.get(card.id), envelope.sender == self._me.client.id
            believed = (
                proposal is not None and proposal.seq == card.seq and proposal.fulfilment == envelope.id
            )
            self._outcomes.note_request(card, envelope, mine=mine, believed=believed)
        if envelope.kind == "mcp/response":
            about += self._outcomes.find_proposals(envelope)
        for id in dict.fromkeys(about):
            self.refresh(id)

    def refresh(self, id: str, *, sent: CardState | None = None) -> None:
        """Updates a card from the ledger, or from `sent` where the ledger has forgotten the proposal."""
        card, proposal = self.find(id), self._me.proposals.get(id)
        if card is None or id in self.deciding:
            return
        if proposal is not None and proposal.seq == card.seq:
            if proposal.unmet != card.unmet and not proposal.decided:
                self._renew(card, proposal)
            elif (advanced := self._advance(card, proposal)) != card:
                if advanced.caller != card.caller:
                    # what is to be decided has changed, which takes its time to be seen
                    self.gate.forget_views(id)
                    self.asked.pop(id, None)
                self.put(advanced)
                if card.caller and not advanced.caller:
                    self._judge(advanced)
        elif card.is_open and sent:
            rule = self.by_rule.get(id)
            by = self._name_decider(rule.approver if rule and rule.approver else self._me.client.id, id)
            self.put(self._stamp_decision(replace(card, state=sent, by=by, rule=rule)))
        elif card.is_open:
            self.put(self._as_lapsed(card, TOO_MUCH))
        elif card.rejected:
            self.put(replace(card, rejected=""))  # what the ledger has forgotten is approved no more

    def _on_call_change(self, change: Change) -> None:
        """Updates the card of a proposal that no message of its own changed.

        Its client cancels, leaves or returns; the ledger has forgotten it; or its outcome is unknown, or found out.
        """
        if change.what in ("caller", "forgotten", "unknown", "resolved"):
            self.refresh(change.call.id)

    def repeated(self, to: Collection[str], payload: Mapping[str, Any]) -> str:
        """The sentence about the call of unknown outcome that such a call would repeat; empty where there is none."""
        found = self._me.unknown_calls.find(to, payload, self._clock())
        if found is None:
            return ""
        if not self._me.strict_unknown and self.tools.may_repeat(to, tool_of(payload) or ""):
            return ""
        sender, id = one_line(found.request.sender, 60), one_line(found.request.id, 40)
        since = datetime.fromtimestamp(found.since).astimezone()
        return (
            f"{sender} sent the same call before (request {id}), and since {since:%Y-%m-%d %H:%M:%S} it is not known "
            "whether it took effect; it may run twice"
        )

    def _on_unknown_change(self, change: Change) -> None:
        """Updates the cards that a call concerns which became unknown, or whose outcome is known now.

        These are the open ones of the same tool, and that of a proposal for which it came too late.
        """
        for id in change.call.entry.correlation_id:
            self.refresh(id)
        for card in self.pending():
            if (card.method, card.tool) != (change.call.method, change.call.tool):
                continue
            proposal = self._me.proposals.get(card.id)
            if proposal is None or proposal.seq != card.seq or card.id in self.deciding:
                continue
            repeats = self.repeated(proposal.to, proposal.payload) or _what_became(card, change)
            if repeats != card.repeats:
                self.put(replace(card, repeats=repeats))
                if not repeats:  # a policy left it to a person until now
                    self._judge(self._open.cards.get(card.id, card))

    def _lapse(self) -> None:
        """Closes cards while a limit is exceeded: each time the oldest of the proposer whose cards take most room."""
        while self._open.is_over and (card := self._open.largest) is not None:
            if card.id in self.deciding:
                return
            self.put(self._as_lapsed(card, TOO_MUCH))

    def _as_lapsed(self, card: Card, why: str) -> Card:
        return replace(card, state="lapsed", by="", outcome=why, decided_at=self._clock())

    def _retire(self, card: Card) -> None:
        """Keeps the outcome of this card under another id, because another proposal takes its id."""
        self._forget(card.id)
        if card.is_open:
            self.anew.add(card.id)
            card = self._as_lapsed(card, ANEW)
        names = (f"{card.id} (earlier {n})" for n in count(card.seq))
        self.put(replace(card, id=next(name for name in names if self.find(name) is None)))

    def _renew(self, card: Card, proposal: Proposal) -> None:
        """Makes a new card of a proposal that is open again, because a quorum was missing for a request (R39).

        The card of that request stays, under another id: it says who refused it. The new one is shown and read anew,
        since it is sent under another id, and no policy judges it.
        """
        outcome = self._outcomes.describe(card, proposal, me=self._me.client.id)
        named = card.to[0] if len(card.to) == 1 else ""
        self._forget(card.id)
        refused = replace(
            card,
            state="rejected",
            by=named,
            rejected="",
            outcome=outcome or "a quorum was missing, so nothing was executed",
            decided_at=self._clock(),
        )
        names = (f"{card.id} (refused {n})" for n in count(proposal.unmet))
        self.put(replace(refused, id=next(name for name in names if self.find(name) is None)))
        self._begin(proposal, _nothing())

    def _describe_change(self, proposal: Proposal) -> ProposedChange | None:
        """What a proposed change of the mode or an option of a coding agent means; None for any other proposal."""
        if proposal.tool not in (SET_MODE, SET_CONFIG_OPTION) or len(set(proposal.to)) != 1:
            return None
        [target] = {*proposal.to}
        status = self._me.telemetry.statuses.get(self._logical(target)) or self._me.telemetry.statuses.get(
            target
        )
        return describe_change(
            proposal.tool,
            mapping_of(member(proposal.payload, "params", "arguments")),
            self.tools.schema(target, proposal.tool),
            {} if status is None else status.payload.model_extra or {},
        )

    def _read(self, card: Card, proposal: Proposal, noted: Steps[None]) -> Steps[Card | str]:
        """Reads a proposal for its card, as the space is now; returns a reason where it cannot be read."""
        last, until = self._last.of(proposal), self._sources.count
        present = (self._me.client.id or "", *self._me.client.participants)
        folders = self._folders_of(proposal.to)

        def steps() -> Steps[Card | str]:
            try:
                yield from noted
                # An agent that asks lists no such tool: what it asks is its own word, and is told so.
                is_tool = card.permission is None
                # The lists that came before it have been read by now.
                remarks = self.tools.remarks(proposal) if is_tool else ()
                about, hints = self.tools.statement(proposal) if is_tool else ("", ())
                # Each is told once: what destroys as a warning, all else as a word beside the description.
                change = self._describe_change(proposal)
                setting, remarks = (change.about, (*change.warnings, *remarks)) if change else ("", remarks)
                stated = self.tools.hints(proposal) if is_tool else set[str]()
                file = self.files.note(proposal)
                if file is not None and file.is_known:  # what it would destroy is shown
                    stated -= {DESTRUCTIVE}
                read = read_card(
                    replace(
                        card,
                        misfits=self.tools.misfits(proposal) if is_tool else (),
                        file=file,
                        setting=setting,
                    ),
                    proposal,
                    of_the_tool=(*stated_risks(stated - {*hints} | stated & {DESTRUCTIVE}), *remarks),
                    about=about,
                    hints=tuple(hint for hint in hints if hint != DESTRUCTIVE or hint not in stated),
                    sources=self._sources,
                    last=last if is_tool else None,  # each of its questions is another one
                    logical=self._logical,
                    present=present,
                    folders=folders,
                    until=until,
                )
                return (yield from read) or AMBIGUOUS
            except Exception as fault:  # a card of which not all was looked at is not approved
                return f"{UNREADABLE}: {one_line(repr(fault), 160)}"

        return steps()

    def _folders_of(self, to: Sequence[str]) -> Sequence[str]:
        """The folders of the only addressee; another one would know them as foreign."""
        return self._folders(to[0]) if len(set(to)) == 1 else ()

    def _advance(self, card: Card, proposal: Proposal) -> Card:
        # A proposer that gives up on a rejection withdraws; the rejection is what was decided.
        state = STATES["rejected" if proposal.was_rejected else proposal.state]
        rejection = proposal.rejections[-1] if proposal.rejections else None
        by = (rejection.by if rejection else "") if state == "rejected" else proposal.by
        reason = rejection.reason if rejection and state == "rejected" else proposal.reason
        rejected = ""
        if proposal.state == "rejected":
            by_whom = ", ".join(dict.fromkeys(one_line(one.by, 64) for one in proposal.rejections))
            rejected = f"rejected by {one_line(by_whom, 160)}"
            if proposal.resilient:
                state, reason, rejected = "open", "", f"{rejected}; still asked for"
        elif card.rejected and state not in ("open", "rejected"):
            card = replace(card, decided_at=None)  # decided once more, after its rejection
        outcome = self._outcomes.describe(card, proposal, me=self._me.client.id)
        if state == "open" and not card.is_read:
            state = "reading"
        is_open = state in ("open", "reading")
        caller = proposal.caller if is_open else ""
        after = self._clock() - card.since if caller != card.caller else card.caller_after
        response, about = proposal.response, {"method": card.method, "call": card.id}
        return self._stamp_decision(
            replace(
                card,
                state=state,
                by="" if is_open else self._name_decider(by, card.id),
                rule=None if is_open else self._find_rule(by, card.id),
                edited=proposal.edited,
                choice=proposal.choice,
                outcome="; ".join(filter(None, (one_line(reason, 120), outcome))),
                sent=self._outcomes.last_sent(card.id),
                failed=self._outcomes.has_failed(card.id),
                caller=caller,
                caller_after=max(after, 0.0),
                rejected=rejected,
                kept=card.kept if response is None else KeptAnswer.of(response.envelope, **about),
            )
        )

    def _find_rule(self, by: str, id: str) -> DecidingRule | None:
        """The rule of this person by which a participant decided, she or her approver."""
        rule = self.by_rule.get(id)
        return rule if rule is not None and by == (rule.approver or self._me.client.id) else None

    def _name_decider(self, by: str, id: str) -> str:
        if (rule := self._find_rule(by, id)) is not None and rule.approver:
            return f"{by} by rule {rule.number} of {rule.owner}"
        policy = self.by_policy.get(id) if by == self._me.client.id else None
        return f"{by} by {policy}" if policy else by

    def _stamp_decision(self, card: Card) -> Card:
        decided_at = None if card.is_open else card.decided_at or self._clock()
        if card.is_open or card.decided_at is not None:
            return replace(card, decided_at=decided_at)
        return replace(card, decided_at=decided_at, on_screen=self.gate.on_screen(card))

    def put(self, card: Card) -> None:
        """Keeps a card in place of an earlier one of its id, and tells the subscribers."""
        card = replace(card, review=self._review(card) if card.is_open else "")
        if card.is_open:
            if card.is_read:
                self._alike.setdefault(call_of(card), {})[card.id] = None
            self._past.drop(card.id)  # where it is approved despite a rejection
            self._open.put(card)
        else:
            if not card.rejected:  # what was rejected may still be approved, once it was read (R32)
                self._reading.drop(card.seq)
            self._past.put(card)
            self._close(card.id)
            self.editing.forget(card.id)
            self.gate.forget(card.id)
            self.files.forget(card.id)
            self.asked.pop(card.id, None)
            while self._past.is_over and (old := self._past.first) is not None:
                self._forget(old.id)
        self.subscribers.tell(card)

    def _close(self, id: str) -> None:
        if (card := self._open.cards.get(id)) is not None and card.is_read:
            alike = self._alike[call_of(card)]
            del alike[id]
            if not alike:
                del self._alike[call_of(card)]
        self._open.drop(id)

    def _forget(self, id: str) -> None:
        if (card := self.find(id)) is not None:
            self._reading.drop(card.seq)
        self._close(id)
        self._past.drop(id)
        self.gate.forget(id)
        self.files.forget(id)
        self.by_policy.pop(id, None)
        self.by_rule.pop(id, None)
        self._outcomes.forget(id)
        self.anew.discard(id)
        self.editing.forget(id)
        self.tools.forget(id)


def _nothing() -> Steps[None]:
    return
    yield


class Behalf:
    """Finds the chat messages that a proposal, or its reasoning sequence, answers.

    The proposer names the message. The text, the sender and the addressees come from the ledger of the human's own
    seat.

    Spec: §3.5, threat 42.
    """

    def __init__(self, chats: ChatLedger, reasoning: ReasoningLedger) -> None:
        self._chats = chats
        self._reasoning = reasoning

    def of(self, proposal: Proposal) -> str:
        """The chat messages that the proposal answers, as one line; empty where it names none that is known."""
        lines: dict[str, None] = {}
        for id in proposal.envelope.correlation_id[:MAX_REFERENCES]:
            sequence = self._reasoning.get(id)
            own = sequence.about if sequence and sequence.owner == proposal.proposer else ()
            for about in (id, *own):
                message = self._chats.get(about)
                if message is None or message.sender == proposal.proposer:
                    continue
                sender, text = one_line(message.sender, 60), one_line(message.text, MAX_QUOTED)
                if message.to and proposal.proposer not in message.to:
                    addressees = one_line(", ".join(message.to[:MAX_ADDRESSEES]), 60)
                    lines[f"refers to a message of {sender} to {addressees}: “{text}”"] = None
                else:
                    lines[f"asked by {sender}: “{text}”"] = None
        left = len(lines) - MAX_MESSAGES
        more = [f"and {count_of(left, 'more message')}"] if left > 0 else []
        return "; ".join([*tuple(lines)[:MAX_MESSAGES], *more])


def _what_became(card: Card, change: Change) -> str:
    """The sentence that stays on a repeat, which was left to a person, after its first call is no longer unknown.

    Empty where that call did nothing, so that a policy may decide. One that took effect would take effect twice.
    """
    call = change.call
    first = call.entry if isinstance(call, Request) else call.request
    if not card.repeats or first is None or one_line(first.id, 40) not in card.repeats:
        return card.repeats
    did_nothing = call.failed if call.resolution is None else not call.resolution.happened
    if did_nothing:
        return ""
    return (
        f"{one_line(first.sender, 60)} sent the same call before (request {one_line(first.id, 40)}), and it took "
        "effect; it may run twice"
    )
