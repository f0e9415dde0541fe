"""What was shown of each card, how long, and how much of it: nothing else may be approved.

Every way to approve asks here: a click in a view, a typed approval, a policy. A click needs a view that has shown the
card for the arming time; a typed approval needs the digest of what was shown, or a second yes after the whole of it was;
what is folded must have been opened, whoever says yes but a policy, which reads all of it.

Spec: §3.2.1, ruling R29; threats 14, 30, 36.
"""

from __future__ import annotations

from collections.abc import Callable

from mew_lab.errors import NotApproved
from mew_lab.workbench import cards
from mew_lab.workbench.cards import Card
from mew_lab.workbench.folding import folded, unopened

__all__ = ["LEAST_DIGITS", "MOST_ROWS", "Gate"]

LEAST_DIGITS = 8  # characters of a digest that name it
MOST_ROWS = 40  # rows of a card that a listing tells


_Shown = tuple[int, str]  # which proposal of an id (its place among all messages), and its digest


class Gate:
    """What the views and texts of one human have shown. `clock` never goes back, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: dict[str, float] = {}  # proposal -> when a view first showed it
        self._opened: dict[
            str, dict[str, set[int]]
        ] = {}  # proposal -> digest of what was shown -> rows opened
        self._reviewed: dict[str, dict[str, float]] = {}  # proposal -> digest of an edit -> when it was made
        self._whole: dict[str, _Shown] = {}  # proposal -> what was told whole as text
        self._listed: dict[str, _Shown] = {}  # proposal -> what a listing told whole, with its digest

    def seen(self, proposal: str) -> None:
        """A view shows the card for the first time."""
        self._seen.setdefault(proposal, self._clock())

    def opened(self, proposal: str, digest: str, index: int) -> None:
        """A view shows the whole of a folded row."""
        self._opened.setdefault(proposal, {}).setdefault(digest, set()).add(index)

    def reviewed(self, proposal: str, digest: str) -> None:
        """An edit of that digest is there to be looked at."""
        self._reviewed.setdefault(proposal, {}).setdefault(digest, self._clock())

    def told(self, card: Card) -> None:
        """A text has told the whole of the card."""
        self._whole[card.id] = (card.seq, card.digest)

    def listed(self, card: Card) -> None:
        """A listing has told the whole of the card, with the beginning of its digest."""
        self._listed[card.id] = (card.seq, card.digest)

    def was_told(self, card: Card) -> bool:
        """Whether the whole of just this card was told as text."""
        return self._whole.get(card.id) == (card.seq, card.digest)

    def was_listed(self, card: Card) -> bool:
        """Whether the whole of just this card was told, alone or in a listing."""
        return self.was_told(card) or self._listed.get(card.id) == (card.seq, card.digest)

    def on_screen(self, proposal: str) -> float | None:
        """Seconds since a view first showed it; None when none has."""
        began = self._seen.get(proposal)
        return None if began is None else max(0.0, self._clock() - began)

    def forget(self, proposal: str) -> None:
        """It is decided, or another proposal takes its id."""
        for table in (self._seen, self._opened, self._reviewed, self._whole, self._listed):
            table.pop(proposal, None)

    def check_click(self, card: Card, decision: str, digest: str = "") -> float:
        """How long a view has shown it, or its edit of that digest, which is there from its review on.

        Raises:
            NotApproved: no view has shown it, or not for the arming time.
        """
        seconds = self.on_screen(card.id)
        if seconds is not None and (made := self._reviewed.get(card.id, {}).get(digest)) is not None:
            seconds = min(seconds, max(0.0, self._clock() - made))
        if seconds is None:
            raise NotApproved(
                f"{card.request}: not decided, because no view has shown it yet", code="never_seen"
            )
        if seconds < cards.ARMING:
            raise NotApproved(
                f"{card.request}: not decided, because it was on screen for {seconds:.2f} s; look at it for "
                f"{cards.ARMING:g} s, then {decision} it once more",
                code="too_fast",
            )
        return seconds

    def check_rows(self, card: Card, rows: tuple[tuple[str, str], ...], digest: str) -> None:
        """Whether all of what will be sent was there to be read.

        Raises:
            NotApproved: something of it was folded and not opened.
        """
        if self._whole.get(card.id) == (card.seq, digest):
            return
        opened = self._opened.get(card.id, {}).get(digest, set())
        if closed := unopened(rows, opened):
            raise NotApproved(f"{card.request}: {closed}", code="not_opened")

    def is_cut(self, card: Card) -> bool:
        """Whether a short text leaves something of it out that was not told whole."""
        cut = len(card.arguments) > MOST_ROWS or bool(folded(card.arguments))
        return cut and not self.was_told(card)
