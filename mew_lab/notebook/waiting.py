"""Checks whether a cell may wait for a human, and refuses at once, with advice, where no click could be handled.

A click is a message to the kernel. Whether the kernel handles one while a cell waits depends on its version, on the
front end, and on whether the cell awaits or blocks. A notebook without a person at it gets no click at all.
`before_wait` is called on the waiting thread. The watch that it returns is called each second of the wait. It decides
no proposal, and a refusal to wait leaves the proposal open. After the first second the cell shows the card of the
proposal that it waits for, so that it can be decided there; and what a server asks about the call that it waits for.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from mew_lab.errors import CannotWait
from mew_lab.log.line import read_members
from mew_lab.protocol.permit import permit

if TYPE_CHECKING:
    from mew_lab.lab.decisions.cards import Card
    from mew_lab.lab.decisions.questions import Question
    from mew_lab.lab.pending import Pending
    from mew_lab.lab.session import Session
    from mew_lab.views.approvals.widget import ApprovalsView
    from mew_lab.views.ui.live import ClickProbe

__all__ = ["ApprovalsWatch", "QuestionWatch", "ServerQuestionWatch", "before_wait"]

SILENCE = 3.0  # seconds without a message from a view before the waiting cell gives advice


def before_wait(
    pending: Pending, blocking: bool
) -> ApprovalsWatch | QuestionWatch | ServerQuestionWatch | None:
    """Returns the watch over a wait, or None when the wait needs none.

    Raises:
        CannotWait: The proposal cannot be decided while this waits; it stays open.
    """
    shell = _shell()
    if (
        shell is None
        or pending.state != "open"
        or pending.kind not in ("mcp/proposal", "mcp/request", "chat")
    ):
        return None
    place = _session_of(pending)
    if place is not None and pending.kind == "mcp/request":
        return ServerQuestionWatch(place.session, pending.id, _Beginning(shell, place, blocking))
    if place is None or _is_decided_elsewhere(place.session, pending):
        return None
    begin = _Beginning(shell, place, blocking)
    if pending.kind == "chat":  # only a proposal shows that the answer needs a decision
        return QuestionWatch(place.session, pending, begin)
    return begin.watch(f"the proposal {pending.id} ({pending.what})", id=pending.id)


class _Beginning(NamedTuple):
    """The start of a wait for a decision: the shell, the place of the decision, and whether it blocks."""

    shell: Any
    place: _DecisionPlace
    blocking: bool

    def watch(self, what: str, *, id: str, answer: str = "") -> ApprovalsWatch | None:
        """Checks that a click can decide `what`, and watches the approvals view and the card; None without both.

        `answer` is the command that decides it; `%mew approve ID` where empty.

        Raises:
            CannotWait: No click could be handled.
        """
        kernel = getattr(self.shell, "kernel", None)
        if kernel is None:
            raise CannotWait(
                f"{what} cannot be decided while this terminal waits; decide first "
                f"({answer or f'%mew approve {id}'}), then wait, or set lab.decide = Policy.approve()"
            )
        if not _is_attended(kernel):
            raise CannotWait(
                f"This notebook runs without a person who could decide {what}; set MEW_LAB_DECIDE=approve "
                "or deny in the environment, or lab.decide = Policy.approve() in an earlier cell"
            )
        if threading.current_thread() is threading.main_thread():
            _check_clicks(what, self.blocking)
            return ApprovalsWatch(self.place.approvals(), card=_CardOutput(self.place, id))
        view = self.place.approvals()
        return None if view is None else ApprovalsWatch(view)


def _check_clicks(what: str, blocking: bool) -> None:
    probe = _probe()
    if blocking and not probe.blocking:
        if probe.awaiting:
            raise CannotWait(f"p.result() would block the click that decides {what}; write `await p` instead")
        raise CannotWait(f"p.result() cannot wait for a click on {what}. {_ADVICE} {probe.advice}")
    if not blocking and not probe.awaiting:
        raise CannotWait(f"`await p` cannot wait for a click on {what}. {_ADVICE} {probe.advice}")


_ADVICE = "Decide first, by its card or %mew approve ID, and run this in the next cell."


class _CardOutput:
    """The card of one proposal in the output of the cell that waits for it."""

    def __init__(self, place: _DecisionPlace, proposal: str) -> None:
        self._place = place
        self._proposal = proposal
        self._card: ApprovalsView | None = None

    def show(self) -> None:
        """Shows the card, once, if it or a question about it is open and this cell does not show all approvals."""
        if self._card is not None:
            return
        session = self._place.session
        cards = session.loop.call(session.decisions.pending)
        is_open = self._proposal in (card.id for card in cards)
        if not (is_open or _questions_about(session, self._proposal)) or _is_displayed_here(
            self._place.approvals()
        ):
            return
        from IPython.display import display

        self._card = self._place.card(self._proposal)
        display(self._card)  # type: ignore[no-untyped-call]

    def end(self) -> None:
        """Lets the stored picture say what was decided, where the card was shown."""
        if self._card is not None:
            self._card.store_picture()


class ApprovalsWatch:
    """Shows the card in the waiting cell, and prints advice once where no message of the approvals view arrives."""

    def __init__(self, view: ApprovalsView | None, *, card: _CardOutput | None = None) -> None:
        self._view = view
        self._card = card
        self._since = time.monotonic()
        self._has_warned = False
        self._waiting = contextlib.nullcontext() if view is None else view.waiting()
        self._waiting.__enter__()

    def tick(self) -> None:
        """Shows the card; prints one line when a shown view has sent no message for three seconds."""
        if self._card is not None:
            self._card.show()
        if self._has_warned or self._view is None or not self._view.has_view:
            return
        waited = time.monotonic() - self._since
        unheard = self._view.unheard_for()
        if waited >= SILENCE and (unheard is None or unheard >= SILENCE):
            self._has_warned = True
            print(
                f"No message of the approvals view has arrived for {SILENCE:.0f} s while this cell waits: a click "
                "may be handled only when the cell ends. Interrupt the cell, decide, and run it again; "
                "the proposal stays open."
            )

    def end(self) -> None:
        """Ends the watch."""
        self._waiting.__exit__(None, None, None)
        if self._card is not None:
            self._card.end()


class QuestionWatch:
    """Watches a wait for a chat answer, which becomes a wait for a decision when the asked participant proposes.

    The envelopes that a proposal names show whether it was made for the question. A proposal that names none may have
    been. One that is older, or was made for another message or by another participant, was not.
    """

    def __init__(self, session: Session, pending: Pending, begin: _Beginning) -> None:
        self._session = session
        self._question = pending.id
        self._sender = session.seats[pending.seat].participant.client.id
        self._begin = begin
        self._watch: ApprovalsWatch | None = None
        self._judged: set[str] = set()

    def tick(self) -> None:
        """Looks for a proposal for the question.

        Raises:
            CannotWait: There is one, and it cannot be decided while this waits; both stay open.
        """
        if self._watch is not None:
            self._watch.tick()
            return
        cards = self._session.loop.call(self._session.decisions.pending)
        new = [card for card in cards if card.id not in self._judged]
        mentions = self._mentions() if new else None
        for card in new:
            self._judged.add(card.id)
            if waits := _relation(self._question, card, mentions):
                what = f"the proposal {card.id} of {card.proposer}, for which the answer {waits}"
                self._watch = self._begin.watch(what, id=card.id)
                return

    def _mentions(self) -> dict[str, Mention] | None:
        """The envelopes since the question, by id; None when the log no longer holds the question."""
        mentions: dict[str, Mention] = {}
        for record in reversed(self._session.log.held):
            members = read_members(record.raw) if record.raw is not None else None
            if members is None or record.verdict == "refused":
                continue
            id, mention = str(members.get("id")), Mention.of(members)
            mentions[id] = mention
            if id == self._question and mention.sender == self._sender:
                return mentions
        return None

    def end(self) -> None:
        """Ends the watch."""
        if self._watch is not None:
            self._watch.end()


class ServerQuestionWatch:
    """Watches a wait for a call, which becomes a wait for a person when its server asks about it."""

    def __init__(self, session: Session, call: str, begin: _Beginning) -> None:
        self._session = session
        self._call = call
        self._begin = begin
        self._watch: ApprovalsWatch | None = None

    def tick(self) -> None:
        """Looks for a question about the call.

        Raises:
            CannotWait: There is one, and it cannot be answered while this waits; both stay open.
        """
        if self._watch is not None:
            self._watch.tick()
        elif asked := _questions_about(self._session, self._call):
            what = f"the question {asked[0].id} of the server {asked[0].server}"
            self._watch = self._begin.watch(what, id=self._call, answer=f"%mew answer {asked[0].id}")
            if self._watch is not None:
                self._watch.tick()

    def end(self) -> None:
        """Ends the watch."""
        if self._watch is not None:
            self._watch.end()


def _questions_about(session: Session, id: str) -> list[Question]:
    return [question for question in session.asked.pending() if id in question.about]


class Mention(NamedTuple):
    """An envelope: its sender, its addressees, and the ids of the envelopes that it names."""

    sender: str
    to: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, members: dict[str, Any]) -> Mention:
        """The `Mention` of an envelope with these members."""
        to, names, context = (members.get(key) for key in ("to", "correlation_id", "context"))
        path = context.split("/") if isinstance(context, str) else []
        named = [*(names if isinstance(names, list) else ()), *path]
        return cls(
            str(members.get("from")),
            tuple(map(str, to)) if isinstance(to, list) else (),
            tuple(id for id in named if isinstance(id, str) and id),
        )


def _relation(question: str, card: Card, mentions: dict[str, Mention] | None) -> str:
    """The dependence of the answer on a proposal: `waits`, `may wait`, or empty when there is none."""
    if mentions is None:
        return "may wait"
    if card.id not in mentions or card.proposer not in mentions[question].to:
        return ""
    left, visited, elsewhere = [card.id], set[str](), False
    while left:
        id = left.pop()
        if id == question:
            return "waits"
        if id in visited:
            continue
        visited.add(id)
        mention = mentions.get(id)
        if mention is None or not (mention.names or mention.sender == card.proposer):
            elsewhere = True  # older than the question, or begun by another participant
        else:
            left.extend(mention.names)
    return "" if elsewhere else "may wait"


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def _probe() -> ClickProbe:
    from mew_lab.views.ui.live import can_click_while_waiting

    return can_click_while_waiting()


def _is_attended(kernel: Any) -> bool:
    from mew_lab.views.ui.live import attended

    return attended(kernel)


def _is_displayed_here(view: ApprovalsView | None) -> bool:
    if view is None:
        return False
    from mew_lab.views.ui.live import is_displayed_here

    return is_displayed_here(view)


class _DecisionPlace(NamedTuple):
    """The session in which a proposal is decided, its approvals view if one was made, and the view of one card."""

    session: Session
    approvals: Callable[[], ApprovalsView | None]
    card: Callable[[str], ApprovalsView]


def _session_of(pending: Pending) -> _DecisionPlace | None:
    """The session with the seat that made the proposal, and its approvals view if one was made."""
    from mew_lab.lab.labs import labs

    with_seat = [lab for lab in labs().values() if pending.seat in lab.seats]
    own = [lab for lab in with_seat if lab.seats[pending.seat].participant.proposals.get(pending.id)]
    if not (candidates := own or with_seat):
        return None
    lab = candidates[-1]
    return _DecisionPlace(lab, lambda: lab.view.made("approvals"), lambda proposal: lab.view.card(proposal))


def _is_decided_elsewhere(session: Session, pending: Pending) -> bool:
    """Whether a policy decides here, or the proposal can be decided in another process."""
    policy = session.decisions.policy
    if policy is not None and policy.decides:
        return True
    if session.log.vantage != "gateway":
        return True
    participant = session.seats[pending.seat].participant
    proposal = participant.proposals.get(pending.id)
    if proposal is None:
        return False
    return any(
        permit(
            capabilities,
            "mcp/request",
            to=proposal.to,
            payload=proposal.payload,
            edition=participant.client.pattern_edition,
        ).allowed
        for name, capabilities in tuple(participant.client.participants.items())
        if name not in session.seats
    )
