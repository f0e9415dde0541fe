"""Checks whether a cell may wait for a human, and refuses at once, with advice, where no click could be handled.

A click is a message to the kernel. Whether the kernel handles one while a cell waits depends on its version, on the
front end, and on whether the cell awaits or blocks. A notebook without a person at it gets no click at all.
`before_wait` is called on the waiting thread. The watch that it returns is called each second of the wait. It decides
no proposal, and a refusal to wait leaves the proposal open. The cell shows the card of each proposal that it comes to
wait for, one after another or several at once, and each question of a server, so that they can be decided there. A call
that runs is told with its seconds and its progress, and so is who thinks about an answer: in the view of the cards,
where a call can be cancelled, or as a line where a click could not be handled while the cell waits.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from mew_lab.errors import CannotWait
from mew_lab.log.line import read_members
from mew_lab.protocol.permit import permit
from mew_lab.protocol.text import elapsed
from mew_lab.protocol.visible import middle, one_line, visible

if TYPE_CHECKING:
    from mew_lab.lab.decisions.cards import Card
    from mew_lab.lab.decisions.running_calls import RunningCall
    from mew_lab.lab.pending import Pending
    from mew_lab.lab.session import Session
    from mew_lab.ledger.reasoning import ReasoningSequence
    from mew_lab.views.approvals.widget import ApprovalsView

__all__ = ["ApprovalsWatch", "StoryWatch", "before_wait", "watch_question"]

# Seconds without a message from a view before the waiting cell gives advice: views send a ping each second.
SILENCE = 3.0
FIRST_SIGN = 8.0  # seconds that a page has to draw its first card
MOST_NAMED = 3  # participants that think


def before_wait(pending: Pending, blocking: bool) -> StoryWatch | None:
    """Returns the watch over a wait, or None when the wait needs none.

    Raises:
        CannotWait: The proposal cannot be decided while this waits; it stays open.
    """
    shell = _shell()
    if pending.kind == "mcp/proposal" and pending.state == "open":
        _check_repeat(shell, pending)
    if shell is None and _in_marimo() and pending.kind == "mcp/proposal" and pending.state == "open":
        place = _session_of(pending)
        if place is not None and not _is_decided_elsewhere(place.session, pending):
            raise CannotWait(
                f"marimo handles no click on the proposal {pending.id} ({pending.what}) while a cell waits. Decide "
                "first, by its card in lab.view.approvals, and run this cell then"
            )
    waits = {"mcp/proposal": ("open", "fulfilled"), "mcp/request": ("open",), "chat": ("open",)}
    if shell is None or pending.state not in waits.get(pending.kind, ()):
        return None
    place = _session_of(pending)
    if place is None:
        return None
    is_needed = pending.kind == "mcp/request" or not _is_decided_elsewhere(place.session, pending)
    begin = _Beginning(shell, place, blocking, pending.id, is_needed)
    watch = None
    # All else needs a person only if that turns out.
    if pending.kind == "mcp/proposal" and pending.state == "open":
        watch = begin.watch(f"the proposal {pending.id} ({pending.what})", id=pending.id)
    return StoryWatch(place.session, pending, begin, watch)


def watch_question(session: Session, id: str) -> ApprovalsWatch | None:
    """Watches a question of this process, shown in the cell that waits; None where nobody could answer it there."""
    shell = _shell()
    if shell is None or threading.current_thread() is not threading.main_thread():
        return None
    try:
        watch = _Beginning(shell, _place_of(session), True, id, True).watch(f"the question {id}", id=id)
    except CannotWait:
        return None
    if watch is not None:
        watch.follow(id)
    return watch


def _check_repeat(shell: Any, pending: Pending) -> None:
    """Refuses to wait for a policy that leaves the repeat of a call of unknown outcome to a person who is not there.

    Spec: R35.
    """
    place = _session_of(pending)
    if place is None or place.session.log.vantage != "gateway":
        return
    decisions, envelope = place.session.decisions, pending.envelope
    if decisions.policy is None or not decisions.policy.decides:
        return
    kernel = getattr(shell, "kernel", None)
    sentence = place.session.loop.call(lambda: decisions.queue.repeated(envelope.to, envelope.payload))
    if sentence and (kernel is None or not _notebook_host().attended(kernel)):
        raise CannotWait(
            f"The proposal {pending.id} ({pending.what}) waits for a person: {sentence}. Find out first, or "
            f'approve it with lab.approve({pending.id!r}, despite="unknown") before you wait'
        )


class _Beginning(NamedTuple):
    """The start of a wait for a decision: the shell, the place of the decision, whether it blocks, and what waits.

    `is_needed` is whether nothing but a click here can decide. Otherwise a card is shown where it can be clicked, and a
    wait is never refused.
    """

    shell: Any
    place: _DecisionPlace
    blocking: bool
    root: str
    is_needed: bool

    def watch(self, what: str, *, id: str, answer: str = "") -> ApprovalsWatch | None:
        """Checks that a click can decide `what`, and watches the approvals view and the cards; None without both.

        `answer` is the command that decides it; `%mew approve ID` where empty.

        Raises:
            CannotWait: No click could be handled.
        """
        is_main = threading.current_thread() is threading.main_thread()
        try:
            self._check(what, answer or f"%mew approve {id}", is_main)
        except CannotWait:
            if self.is_needed:
                raise
            return None
        view = self.place.approvals()
        if is_main:
            return ApprovalsWatch(view, cards=_CardOutput(self.place, self.root))
        return None if view is None else ApprovalsWatch(view)

    def _check(self, what: str, answer: str, is_main: bool) -> None:
        kernel = getattr(self.shell, "kernel", None)
        if kernel is None:
            raise CannotWait(
                f"{what} cannot be decided while this terminal waits; decide first "
                f"({answer}), then wait, or set lab.decide = Policy.approve()"
            )
        if not _notebook_host().attended(kernel):
            raise CannotWait(
                f"This notebook runs without a person who could decide {what}; set MEW_LAB_DECIDE=approve "
                "or deny in the environment, or lab.decide = Policy.approve() in an earlier cell"
            )
        if is_main:
            _check_clicks(what, self.blocking)


def _check_clicks(what: str, blocking: bool) -> None:
    probe = _notebook_host().can_click_while_waiting()
    if blocking and not probe.blocking:
        if probe.awaiting:
            raise CannotWait(f"p.result() would block the click that decides {what}; write `await p` instead")
        raise CannotWait(f"p.result() cannot wait for a click on {what}. {_ADVICE} {probe.advice}")
    if not blocking and not probe.awaiting:
        raise CannotWait(f"`await p` cannot wait for a click on {what}. {_ADVICE} {probe.advice}")


_ADVICE = "Decide first, by its card or %mew approve ID, and run this in the next cell."


class _CardOutput:
    """The cards of one wait in the output of the cell that waits, in one view."""

    def __init__(self, place: _DecisionPlace, root: str) -> None:
        self._place = place
        self._root = root
        self._ids: set[str] = set()
        self._has_story = False
        self._view: ApprovalsView | None = None

    @property
    def view(self) -> ApprovalsView | None:
        """What is displayed; None so far."""
        return self._view

    def follow(self, id: str) -> None:
        """Shows the card of this proposal, and what servers ask about it or about this call."""
        self._ids.add(id)
        if self._view is not None:
            self._view.follow(id)

    def show(self) -> None:
        """Displays the view, once, if there is something to show and this cell does not show all approvals."""
        if self._view is not None or not self._is_open() or self._is_displayed():
            return
        from IPython.display import display

        self._view = self._place.card(self._root)
        for id in self._ids:
            self._view.follow(id)
        display(self._view)  # type: ignore[no-untyped-call]

    def _is_displayed(self) -> bool:
        view = self._place.approvals()
        return view is not None and _notebook_host().is_displayed_here(view)

    def tell_story(
        self, text: str, *, since: float, over: bool = False, thinking: Sequence[ReasoningSequence] = ()
    ) -> None:
        """Tells what is waited for while nothing needs a decision, in the view, which is shown for it."""
        if not over and text and not self._has_story:
            self._has_story = True
            self.show()
        if self._view is not None:
            self._view.tell_story(text, since=since, over=over, thinking=thinking)

    def _is_open(self) -> bool:
        if self._has_story:
            return True
        session = self._place.session
        cards = session.loop.call(session.decisions.pending)
        return (
            any(card.id in self._ids for card in cards)
            or any(not self._ids.isdisjoint(question.about) for question in session.asked.pending())
            or any(not self._ids.isdisjoint(call.about) for call in _running_calls(session))
        )

    def end(self) -> None:
        """Lets the stored picture say what was decided, where cards were shown."""
        if self._view is not None:
            self._view.store_picture()


class _RunningLine:
    """A line of output about what is waited for, with its seconds and its progress, which changes in its place."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._since = 0.0
        self._handle: Any = None

    def show(self, call: RunningCall, *, own: bool) -> None:
        """Shows how far a call has come, and how it is cancelled while no click can do it; whether it is `own`."""
        progress = "" if call.progress is None else f" · {call.progress}"
        then = f", then %mew cancel {call.id[:4]}" if call.may_cancel else " for it"
        what = self._what if own else call.text
        self._tell(f"{what} runs", call.since, f"{progress} · interrupt the cell to stop waiting{then}")

    def tell_story(self, text: str, *, since: float, thinking: Sequence[ReasoningSequence] = ()) -> None:
        """Shows who thinks about the answer, and since when, and how that is cancelled while no click can do it."""
        then = f", then %mew cancel-reasoning {one_line(thinking[0].owner, 40)}" if thinking else " for it"
        self._tell(text, since, f" · interrupt the cell to stop waiting{then}")

    def end(self, pending: Pending) -> None:
        """Says, where it was shown, that it has ended, or that it goes on and is not waited for any more."""
        if self._handle is not None:
            ended = "answered" if pending.kind == "chat" else "ran"
            took = f"{ended}, {elapsed(time.time() - self._since)}"
            self._write(f"{self._what} {took if pending.done else 'is not waited for any more'}")

    def _tell(self, text: str, since: float, more: str) -> None:
        self._since = since
        self._write(f"{text}, {elapsed(time.time() - since)}{more}")

    def _write(self, text: str) -> None:
        from IPython.display import display

        shown = {"text/plain": visible(text)}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(shown, raw=True)


class ApprovalsWatch:
    """Shows the cards in the waiting cell, and prints advice once where no message of the approvals view arrives."""

    def __init__(self, view: ApprovalsView | None, *, cards: _CardOutput | None = None) -> None:
        self._view = view
        self._cards = cards
        self._since = time.monotonic()
        self._has_warned = False
        self._waiting = contextlib.nullcontext() if view is None else view.waiting()
        self._waiting.__enter__()

    def follow(self, id: str) -> None:
        """Goes on with this proposal or call."""
        if self._cards is not None:
            self._cards.follow(id)

    def tell_story(
        self, text: str, *, since: float, over: bool = False, thinking: Sequence[ReasoningSequence] = ()
    ) -> None:
        """Tells what is waited for while nothing needs a decision, or how that ended."""
        if self._cards is not None:
            self._cards.tell_story(text, since=since, over=over, thinking=thinking)

    def tick(self) -> None:
        """Shows the cards; prints one line when a shown view has sent no message for three seconds."""
        if self._cards is not None:
            self._cards.show()
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

    @property
    def is_silent(self) -> bool:
        """Whether no page has said anything of these cards, some seconds after they were shown."""
        view = (self._cards and self._cards.view) or self._view
        waited = time.monotonic() - self._since
        return waited >= FIRST_SIGN and (view is None or view.unheard_for() is None)

    def end(self) -> None:
        """Ends the watch."""
        self._waiting.__exit__(None, None, None)
        if self._cards is not None:
            self._cards.end()


class StoryWatch:
    """Watches a wait to its end: it becomes a wait for a person whenever a proposal or a question belongs to it.

    A proposal belongs to what is waited for where the envelopes that it names lead there. Each of them must come from
    the sender or an addressee of the one that it names. A proposal of an asked participant that names none may belong to
    the question. A question of a server belongs to it by the calls that it names.
    """

    def __init__(
        self, session: Session, pending: Pending, begin: _Beginning, watch: ApprovalsWatch | None
    ) -> None:
        self._session = session
        self._pending = pending
        self._root = pending.id
        self._is_chat = pending.kind == "chat"
        self._sender = session.seats[pending.seat].participant.client.id
        self._begin = begin
        self._watch = watch
        self._judged: set[str] = set()
        self._line = _RunningLine(one_line(pending.what, 120))
        self._since = time.time()
        self._runs: set[str] = set()  # the calls that lead to what is waited for
        self._tries_view = True
        if watch is not None:
            self._judged.add(pending.id)
            watch.follow(pending.id)

    def tick(self) -> None:
        """Looks for new proposals and questions that belong to the wait, and shows what is open.

        Raises:
            CannotWait: There is one, and it cannot be decided while this waits; all stay open.
        """
        for what, id, answer in self._find_new():
            self._watch = self._watch or self._begin.watch(what, id=id, answer=answer)
            if self._watch is not None:
                self._watch.follow(id)
        self._show_running()
        if self._watch is not None:
            self._watch.tick()

    def _show_running(self) -> None:
        """Shows what runs, and who thinks: in the view, where a click on a button can be handled, else as a line."""
        kernel = getattr(self._begin.shell, "kernel", None)
        if kernel is None or not _notebook_host().attended(kernel):
            return
        calls = self._find_running()
        thinking = self._find_thinking() if self._is_chat else []
        story = self._tell_thinking(thinking) if self._is_chat else ""
        if not calls and not story:
            return
        if self._watch is None and self._tries_view:
            self._tries_view = False
            self._watch = self._begin._replace(is_needed=False).watch(f"the call {self._root}", id=self._root)
        if self._watch is None:
            if calls:
                self._line.show(calls[0], own=self._root in calls[0].about and not self._is_chat)
            else:
                self._line.tell_story(story, since=self._since, thinking=thinking)
            return
        for id in (self._root, *(call.id for call in calls)):
            self._watch.follow(id)
        self._watch.tell_story(story, since=self._since, thinking=thinking)

    def _find_running(self) -> list[RunningCall]:
        """The calls that run for what is waited for: that itself, and what leads to it."""
        calls = _running_calls(self._session)
        fresh = [call for call in calls if call.id not in self._judged and self._root not in call.about]
        if fresh and (mentions := self._mentions()) is not None:
            for call in fresh:
                self._judged.add(call.id)
                if _trace(call.id, self._root, mentions) == "waits":
                    self._runs.add(call.id)
        return [call for call in calls if self._root in call.about or call.id in self._runs]

    def _find_thinking(self) -> list[ReasoningSequence]:
        """The reasoning that goes on and leads to the answer."""
        active = self._session.loop.call(self._session.me.participant.ledger.reasoning.active)
        mentions = self._mentions() if active else None
        if mentions is None:
            return []
        return [one for one in active if _trace(one.id, self._root, mentions) == "waits"]

    def _tell_thinking(self, thinking: Sequence[ReasoningSequence]) -> str:
        """Who thinks about the answer, as a part of a sentence."""
        if names := list(dict.fromkeys(sequence.owner for sequence in thinking)):
            return f"{_name_some(names)} {'is' if len(names) == 1 else 'are'} thinking"
        return f"no answer of {_name_some(self._pending.envelope.to)} yet"

    def _find_new(self) -> Iterator[tuple[str, str, str]]:
        """Each new proposal or question: it in words, what to follow, and the command that decides it."""
        cards = [
            card
            for card in self._session.loop.call(self._session.decisions.pending)
            if card.id not in self._judged
        ]
        questions = [one for one in self._session.asked.pending() if one.id not in self._judged]
        if not cards and not questions:
            return
        mentions = self._mentions()
        for card in cards:
            self._judged.add(card.id)
            if waits := self._relation(card, mentions):
                what = f"the proposal {card.id} of {card.proposer}, for which the answer {waits}"
                yield what, card.id, ""
        for question in questions:
            self._judged.add(question.id)
            for id in question.about:
                if id == self._root or (mentions and _trace(id, self._root, mentions) == "waits"):
                    what = f"the question {question.id} of the server {question.server}"
                    yield what, id, f"%mew answer {question.id}"
                    break

    def _relation(self, card: Card, mentions: dict[str, Mention] | None) -> str:
        """The dependence of the answer on a proposal: `waits`, `may wait`, or empty when there is none."""
        if card.id == self._root:
            return "waits"
        if mentions is None:
            return "may wait" if self._is_chat else ""
        relation = _trace(card.id, self._root, mentions) if card.id in mentions else ""
        is_asked = self._is_chat and card.proposer in mentions[self._root].to
        return relation if relation == "waits" or is_asked else ""

    def _mentions(self) -> dict[str, Mention] | None:
        """The envelopes since the beginning, by id; None when the log no longer holds that."""
        mentions: dict[str, Mention] = {}
        for record in reversed(self._session.log.held):
            members = read_members(record.raw) if record.raw is not None else None
            if members is None or record.verdict == "refused":
                continue
            id, mention = str(members.get("id")), Mention.of(members)
            mentions[id] = mention
            if id == self._root and mention.sender == self._sender:
                return mentions
        return None

    def end(self) -> None:
        """Ends the watch."""
        self._line.end(self._pending)
        if self._watch is None:
            return
        if self._is_chat:
            who = _name_some(self._pending.envelope.to)
            over = f"{who} answered" if self._pending.done else f"{who} is not waited for any more"
            self._watch.tell_story(over, since=self._since, over=True)
        self._watch.end()


def _name_some(names: Sequence[str]) -> str:
    """The names of participants, as a part of a sentence."""
    more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    return " and ".join([*(middle(name, 40) for name in names[:MOST_NAMED]), *more])


def _running_calls(session: Session) -> list[RunningCall]:
    """The calls that run; none where a session does not follow them."""
    running = getattr(session.decisions, "running", None)
    return [] if running is None else running.all()


class Mention(NamedTuple):
    """An envelope: its sender, its addressees, the ids of the envelopes that it names, and whether it is a request."""

    sender: str
    to: tuple[str, ...]
    names: tuple[str, ...]
    is_request: bool

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
            members.get("kind") == "mcp/request",
        )

    def may_follow(self, other: Mention) -> bool:
        """Whether it can have come from the other: its sender sent or received that one, or carries it out."""
        return self.is_request or self.sender == other.sender or self.sender in other.to


def _trace(id: str, root: str, mentions: dict[str, Mention]) -> str:
    """Where the names of an envelope lead: `waits` for the root, `may wait` for nothing else, empty for elsewhere."""
    proposer = mentions[id].sender if id in mentions else ""
    left, visited, elsewhere = [id], set[str](), False
    while left:
        id = left.pop()
        if id == root:
            return "waits"
        if id in visited:
            continue
        visited.add(id)
        mention = mentions.get(id)
        if mention is None or not (mention.names or mention.sender == proposer):
            elsewhere = True  # older than the root, or begun by another participant
            continue
        for name in mention.names:
            if (named := mentions.get(name)) is None or mention.may_follow(named):
                left.append(name)
            else:
                elsewhere = True  # a stranger's message, which anybody can name
    return "" if elsewhere else "may wait"


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def _in_marimo() -> bool:
    """Whether this is a notebook of marimo, whose kernel is no IPython and handles one message at a time."""
    marimo = sys.modules.get("marimo")
    return marimo is not None and bool(marimo.running_in_notebook())


def _notebook_host() -> ModuleType:
    """The module that knows of pages and clicks; it is loaded with the views alone."""
    from mew_lab.views.ui import notebook_host

    return notebook_host


class _DecisionPlace(NamedTuple):
    """The session in which a proposal is decided, its approvals view if one was made, and the view of one wait."""

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
    return _place_of(candidates[-1])


def _place_of(lab: Any) -> _DecisionPlace:
    return _DecisionPlace(lab, lambda: lab.view.made("approvals"), lambda proposal: lab.view.card(proposal))


def _is_decided_elsewhere(session: Session, pending: Pending) -> bool:
    """Whether a policy decides here, or the proposal can be decided in another process."""
    policy = session.decisions.policy
    if policy is not None and policy.decides:
        payload, to = pending.envelope.payload, pending.envelope.to
        if not session.loop.call(lambda: session.decisions.queue.repeated(to, payload)):
            return True  # else the policy leaves it to a person
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
