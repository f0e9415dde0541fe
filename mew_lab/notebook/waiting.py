"""May this cell wait for a human?  Says no at once, with advice, where no click could ever be handled.

A click is a message to the kernel. Whether the kernel handles one while a cell waits depends on its version,
on the front end, and on whether the cell awaits or blocks; where nobody sits in front of the notebook nobody
will click at all. Called on the waiting thread before the wait; what it returns is told each second that the
wait still lasts. It decides no proposal, and a refusal to wait leaves the proposal open.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from mew_lab.errors import CannotWait
from mew_lab.log.line import read_members
from mew_lab.protocol.permit import permit

if TYPE_CHECKING:
    from mew_lab.lab.decisions.cards import Card
    from mew_lab.lab.lab import Lab
    from mew_lab.lab.pending import Pending
    from mew_lab.views.approvals.widget import ApprovalsView
    from mew_lab.views.ui.live import ClickProbe

__all__ = ["Watch", "before_wait"]

SILENCE = 3.0  # seconds without a sign of life from a view before the waiting cell gives advice


def before_wait(pending: Pending, blocking: bool) -> Watch | QuestionWatch | None:
    """What watches over the wait, or None when nothing needs to.

    Raises:
        CannotWait: when nobody could decide the proposal while this waits; it stays open.
    """
    ip = _shell()
    if ip is None or pending.state != "open" or pending.kind not in ("mcp/proposal", "chat"):
        return None
    lab = _lab_of(pending)
    if lab is None or _decided_elsewhere(lab, pending):
        return None
    if pending.kind == "chat":  # whether an answer takes a decision shows only when something is proposed
        return QuestionWatch(lab, ip, pending, blocking=blocking)
    return _watched(lab, ip, _what(pending), id=pending.id, blocking=blocking)


def _watched(lab: Lab, ip: Any, what: str, *, id: str, blocking: bool) -> Watch | None:
    kernel = getattr(ip, "kernel", None)
    if kernel is None:
        raise CannotWait(
            f"nobody can decide {what} while this terminal waits; decide first "
            f"(%mew approve {id}), then wait, or set lab.decide = Policy.approve()"
        )
    if not _attended(kernel):
        raise CannotWait(
            f"nobody sits in front of this notebook to decide {what}; set MEW_LAB_DECIDE=approve "
            "or deny in the environment, or lab.decide = Policy.approve() in an earlier cell"
        )
    if threading.current_thread() is threading.main_thread():
        _check_clicks(what, blocking)
    view = lab.view.made("approvals")
    return None if view is None else Watch(view)


def _check_clicks(what: str, blocking: bool) -> None:
    probe = _probe()
    if blocking and not probe.blocking:
        if probe.awaiting:
            raise CannotWait(
                f"p.result() would block the very click that decides {what}; write `await p` instead"
            )
        raise CannotWait(f"p.result() cannot wait for a click on {what}. {_ADVICE} {probe.advice}")
    if not blocking and not probe.awaiting:
        raise CannotWait(f"`await p` cannot wait for a click on {what}. {_ADVICE} {probe.advice}")


_ADVICE = "Decide first, by its card or %mew approve ID, and run this in the next cell."


class Watch:
    """While a cell waits, the approvals view is asked whether it is heard; silence is named once."""

    def __init__(self, view: ApprovalsView) -> None:
        self._view = view
        self._since = time.monotonic()
        self._said = False
        self._waiting = view.waiting()
        self._waiting.__enter__()

    def tick(self) -> None:
        """Prints one line into the waiting cell when a view is shown but was not heard for three seconds."""
        if self._said or not self._view.has_view:
            return
        waited = time.monotonic() - self._since
        unheard = self._view.unheard_for()
        if waited >= SILENCE and (unheard is None or unheard >= SILENCE):
            self._said = True
            print(
                f"The approvals view was not heard for {SILENCE:.0f} s while this cell waits: a click may be "
                "handled only when the cell ends. Interrupt the cell, decide, and run it again; "
                "the proposal stays open."
            )

    def end(self) -> None:
        """The wait is over."""
        self._waiting.__exit__(None, None, None)


class QuestionWatch:
    """While a cell waits for an answer in words: a wait for a proposal, once who was asked has made one for it.

    That it was made for it is told by what its envelopes name. One that names nothing may have been; one that is older,
    that was made for something else or by somebody else is not.
    """

    def __init__(self, lab: Lab, ip: Any, pending: Pending, *, blocking: bool) -> None:
        self._lab = lab
        self._ip = ip
        self._question = pending.id
        self._sender = lab.seats[pending.seat].participant.client.id
        self._blocking = blocking
        self._watch: Watch | None = None
        self._judged: set[str] = set()

    def tick(self) -> None:
        """Looks for a proposal.

        Raises:
            CannotWait: one waits, and nobody could decide it while this waits; both stay open.
        """
        if self._watch is not None:
            self._watch.tick()
            return
        cards = self._lab.loop.call(lambda: self._lab.decisions.pending())
        new = [card for card in cards if card.id not in self._judged]
        said = self._said() if new else None
        for card in new:
            self._judged.add(card.id)
            if waits := _waits(self._question, card, said):
                what = f"the proposal {card.id} of {card.proposer}, which the answer {waits} for"
                self._watch = _watched(self._lab, self._ip, what, id=card.id, blocking=self._blocking)
                return

    def _said(self) -> dict[str, Said] | None:
        """What was said since the question, by id; None when the question is not held any more."""
        said: dict[str, Said] = {}
        for record in reversed(self._lab.log.held):
            members = read_members(record.raw) if record.raw is not None else None
            if members is None or record.verdict == "refused":
                continue
            id, one = str(members.get("id")), _heard(members)
            said[id] = one
            if id == self._question and one.sender == self._sender:
                return said
        return None

    def end(self) -> None:
        """The wait is over."""
        if self._watch is not None:
            self._watch.end()


class Said(NamedTuple):
    """An envelope: who said it to whom, and which others it names."""

    sender: str
    to: tuple[str, ...]
    names: tuple[str, ...]


def _heard(members: dict[str, Any]) -> Said:
    to, names, context = (members.get(key) for key in ("to", "correlation_id", "context"))
    path = context.split("/") if isinstance(context, str) else []
    named = [*(names if isinstance(names, list) else ()), *path]
    return Said(
        str(members.get("from")),
        tuple(map(str, to)) if isinstance(to, list) else (),
        tuple(one for one in named if isinstance(one, str) and one),
    )


def _waits(question: str, card: Card, said: dict[str, Said] | None) -> str:
    """How the answer to a question stands to a proposal: `waits`, `may wait`, or empty when it does not wait for it."""
    if said is None:
        return "may wait"
    if card.id not in said or card.proposer not in said[question].to:
        return ""
    left, seen, elsewhere = [card.id], set[str](), False
    while left:
        id = left.pop()
        if id == question:
            return "waits"
        if id in seen:
            continue
        seen.add(id)
        one = said.get(id)
        if one is None or not (one.names or one.sender == card.proposer):
            elsewhere = True  # older than the question, or begun by somebody else
        else:
            left.extend(one.names)
    return "" if elsewhere else "may wait"


def _what(pending: Pending) -> str:
    return f"the proposal {pending.id} ({pending.what})"


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def _probe() -> ClickProbe:
    from mew_lab.views.ui.live import can_click_while_waiting

    return can_click_while_waiting()


def _attended(kernel: Any) -> bool:
    from mew_lab.views.ui.live import attended

    return attended(kernel)


def _lab_of(pending: Pending) -> Lab | None:
    """The lab in whose seat the proposal was made."""
    from mew_lab.lab.labs import labs

    with_seat = [lab for lab in labs().values() if pending.seat in lab.seats]
    mine = [lab for lab in with_seat if lab.seats[pending.seat].participant.proposals.get(pending.id)]
    found = mine or with_seat
    return found[-1] if found else None


def _decided_elsewhere(lab: Lab, pending: Pending) -> bool:
    """Whether a policy decides here, or the space or a human in it is elsewhere."""
    if lab.decide is not None and lab.decide.decides:
        return True
    if lab.vantage != "gateway":
        return True
    participant = lab.seats[pending.seat].participant
    proposal = participant.proposals.get(pending.id)
    if proposal is None:
        return False
    return any(
        permit(capabilities, "mcp/request", to=proposal.to, payload=proposal.payload).allowed
        for name, capabilities in tuple(participant.client.participants.items())
        if name not in lab.seats
    )
