"""Records how much of each card was shown, and for how long: nothing else may be approved.

Every approval is checked here. A click requires that its own view has shown this digest, of the card or of an edit, for
the arming time before the click arrived. A typed approval requires the digest of the shown card, or a second approval
after the whole card was printed. Folded rows must have been opened, except for a policy, which reads all of them. The
question of a server is shown as a card is, and its answer is checked here as an approval is.

A first approval needs `ARMING` seconds. A further one needs the time that nobody can beat who reads: one second, and the
text that is new beside the card decided before, at 40 characters a second, at most 15 s. Cards are read one after the
other, so this time begins when the card is shown, or when the card decided before could have been read, whichever is
later. A person who has read several cards before the first click does not wait again.

A lab that was stopped (`lab/stop.py`) approves and answers nothing: `check_going` refuses it, whoever or whatever asks.

Any thread may record what was shown and opened.

Spec: §3.2.1, ruling R29; threats 14, 30, 36.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from mew_lab.errors import MewError, NotApproved
from mew_lab.lab.decisions import cards
from mew_lab.lab.decisions.cards import Card, Click, folded, lines_of, unopened
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.sdk.request_rows import row_name

__all__ = ["LEAST_DIGITS", "MOST_FACES", "MOST_ROWS", "Gate", "Shown", "lines_to_read", "reading_time"]

LEAST_DIGITS = 8  # characters of a digest that identify it
MOST_ROWS = 40  # rows of a card in a listing
MOST_FACES = 200  # pairs of view and digest that are recorded of one proposal


class Shown(Protocol):
    """What a view shows before a person decides it: a card, or a question of a server."""

    @property
    def id(self) -> str: ...
    @property
    def seq(self) -> int: ...
    @property
    def digest(self) -> str: ...
    @property
    def request(self) -> str: ...
    @property
    def to_read(self) -> tuple[tuple[str, str], ...]: ...
    @property
    def reads(self) -> int: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...


def lines_to_read(card: Shown) -> frozenset[str]:
    """The lines of a card that a person reads: its title, its rows without the routine ones, and its warnings."""
    rows = [
        f"{row_name(pointer)} {line}" if n == 0 else line
        for pointer, value in card.to_read
        for n, line in enumerate(lines_of(value))
    ]
    return frozenset((card.request, *rows, *card.warnings))


def reading_time(card: Shown, read: frozenset[str]) -> float:
    """Seconds before a further card may be approved, when the lines in `read` were read before."""
    new = sum(map(len, lines_to_read(card) - read)) + card.reads
    return min(cards.MOST_READING, cards.FURTHER + new / cards.READING)


_Shown = tuple[int, str]  # the sequence number of the proposal among all messages, and its digest


class Gate:
    """A record of what the views and texts of one human have shown. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # proposal -> its sequence number, a view, and the digest shown there -> start time
        self._seen: dict[str, dict[tuple[int, str, str], float]] = {}
        self._opened: dict[str, dict[str, set[int]]] = {}  # proposal -> shown digest -> opened rows
        self._whole: dict[str, _Shown] = {}  # proposal -> the card that was shown whole as text
        self._listed: dict[str, _Shown] = {}  # proposal -> the card that a listing showed whole
        self._read: frozenset[str] | None = (
            None  # the lines of the card decided before; None before the first click
        )
        self._read_by = 0.0  # when that card could have been read
        self._last: Click | None = None  # the click that decided it; one click may decide several alike
        self.stopped = ""  # “Stopped by ada at 12:03:22”; empty while the lab is not stopped
        # How a person goes on, in sentences that ask for it; a terminal has its own word.
        self.to_go_on = "lab.go(), %mew go or “Go on” in a view"

    def check_going(self, card: Shown, *, done: str = "approved") -> None:
        """Checks that the lab was not stopped; `done` is what is refused where it was.

        Raises:
            NotApproved: It was stopped, and not gone on with since.
        """
        if self.stopped:
            raise NotApproved(f"{card.request}: not {done}, because {self._why_stopped}", code="stopped")

    def check_sending(self, doing: str) -> None:
        """Checks the same for a request that this lab would send; `doing` says what cannot be done.

        Raises:
            MewError: The lab was stopped, and not gone on with since.
        """
        if self.stopped:
            raise MewError(f"{doing}: {self._why_stopped}")

    @property
    def _why_stopped(self) -> str:
        return f"this lab was {self.stopped[:1].lower()}{self.stopped[1:]}; {self.to_go_on} goes on"

    def record_shown(self, card: Shown, *, view: str, digest: str) -> None:
        """Records that a view shows that digest, of the card or of an edit, from now on; an earlier start stands."""
        with self._lock:
            faces = self._seen.setdefault(card.id, BoundedDict(MOST_FACES))
            faces.setdefault((card.seq, view, digest), self._clock())

    def click(self, view: str) -> Click:
        """A click in that view that arrives now."""
        return Click(view, self._clock())

    def record_opened(self, proposal: str, digest: str, index: int) -> None:
        """Records that a view shows a folded row in full."""
        self._opened.setdefault(proposal, {}).setdefault(digest, set()).add(index)

    def record_whole(self, card: Shown) -> None:
        """Records that a text has shown the whole card or question."""
        self._whole[card.id] = (card.seq, card.digest)

    def record_listed(self, card: Card) -> None:
        """Records that a listing has shown the whole card, with the beginning of its digest."""
        self._listed[card.id] = (card.seq, card.digest)

    def was_shown_whole(self, card: Shown) -> bool:
        """Whether this card or question, with this digest, was shown whole as text."""
        return self._whole.get(card.id) == (card.seq, card.digest)

    def was_listed(self, card: Card) -> bool:
        """Whether this card, with this digest, was shown whole, alone or in a listing."""
        return self.was_shown_whole(card) or self._listed.get(card.id) == (card.seq, card.digest)

    def on_screen(self, card: Shown) -> float | None:
        """Seconds since a view first showed the proposal or an edit of it; None when none has."""
        with self._lock:
            faces = self._seen.get(card.id, {})
            began = min((at for (seq, _, _), at in faces.items() if seq == card.seq), default=None)
        return None if began is None else max(0.0, self._clock() - began)

    def forget_views(self, proposal: str, *, texts: bool = False) -> None:
        """Makes each view, or each text too, show the proposal anew before it is approved; opened rows stay opened."""
        with self._lock:
            self._seen.pop(proposal, None)
        for table in (self._whole, self._listed) if texts else ():
            table.pop(proposal, None)

    def forget(self, proposal: str) -> None:
        """Discards the record of a proposal that was decided, or whose id another one takes."""
        with self._lock:
            self._seen.pop(proposal, None)
        for table in (self._opened, self._whole, self._listed):
            table.pop(proposal, None)

    def seconds_left(self, card: Shown, *, view: str, digest: str) -> float:
        """Seconds until a click in that view may approve what it shows; 0 when it may, or when it shows nothing."""
        with self._lock:
            began = self._seen.get(card.id, {}).get((card.seq, view, digest))
        return 0.0 if began is None else max(0.0, self._ready(card, began, digest) - self._clock())

    def record_decided(self, card: Shown, click: Click) -> None:
        """Records that a click decided the card, so that the next one is a further one."""
        with self._lock:
            if self._last == click and self._read is not None:
                self._read |= lines_to_read(card)
                return
            seen = self._seen.get(card.id, {})
            began = min((at for (seq, _, _), at in seen.items() if seq == card.seq), default=click.at)
            self._read_by = min(click.at, self._ready(card, began, card.digest))
            self._read, self._last = lines_to_read(card), click

    def _ready(self, card: Shown, began: float, digest: str) -> float:
        """When a view that shows the digest since `began` may approve it. An edit was written by the person herself."""
        if self._read is None or digest != card.digest:
            return began + cards.ARMING
        return max(began + cards.ARMING, max(began, self._read_by) + reading_time(card, self._read))

    def check_click(self, card: Shown, click: Click | None, *, digest: str, decision: str) -> float:
        """Checks that the clicked view had shown that digest for long enough; returns for how many seconds.

        A rejection needs no time to read.

        Raises:
            NotApproved: That view has not shown it, or not for the arming time.
        """
        began = None
        if click is not None:
            with self._lock:
                began = self._seen.get(card.id, {}).get((card.seq, click.view, digest))
        if click is None or began is None:
            raise NotApproved(
                f"{card.request}: not decided, because the view that was clicked has not shown it yet; "
                f"look at it, then {decision} it once more",
                code="never_seen",
            )
        seconds = max(0.0, click.at - began)
        if seconds < cards.ARMING:
            raise NotApproved(
                f"{card.request}: not decided, because it was on screen for {seconds:.2f} s; look at it for "
                f"{cards.ARMING:g} s, then {decision} it once more",
                code="too_fast",
            )
        left = self._ready(card, began, digest) - click.at
        if decision == "approve" and click != self._last and left > 0:
            raise NotApproved(
                f"{card.request}: not approved, because nobody reads it within {seconds:.2f} s; approve it once more "
                f"in {left:.1f} s",
                code="too_fast",
            )
        return seconds

    def check_rows(self, card: Card, rows: tuple[tuple[str, str], ...], digest: str) -> None:
        """Checks that every row of the request could be read in full.

        Raises:
            NotApproved: A row was folded and not opened.
        """
        if self._whole.get(card.id) == (card.seq, digest):
            return
        opened = self._opened.get(card.id, {}).get(digest, set()) | _retold(card, rows)
        if closed := unopened(rows, opened):
            raise NotApproved(f"{card.request}: {closed}", code="not_opened")

    def is_cut(self, card: Card) -> bool:
        """Whether a short text of the card omits something, and the whole card was not shown as text."""
        closed = folded(card.arguments) - _retold(card, card.arguments)
        cut = len(card.arguments) > MOST_ROWS or bool(closed)
        return cut and not self.was_shown_whole(card)


def _retold(card: Card, rows: Sequence[tuple[str, str]]) -> set[int]:
    """The indexes of the rows that are told whole in another form."""
    return {n for n, (pointer, _) in enumerate(rows) if pointer in card.retold}
