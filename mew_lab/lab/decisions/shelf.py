"""Which cards are kept, in which order, and are they too many?  It knows not why a card comes or goes."""

from __future__ import annotations

from collections import OrderedDict

from mew_lab.lab.decisions.cards import Card

__all__ = ["Shelf"]

MAX_SIZE = 64 * 1024 * 1024


class Shelf:
    """Cards by id, in the order in which they were put here first.

    `is_over` when there are more than `most`, or when what they show has more than `size` characters; the last one is
    never too much.
    """

    def __init__(self, most: int, *, size: int = MAX_SIZE) -> None:
        self.cards: OrderedDict[str, Card] = OrderedDict()
        self._most = most
        self._most_size = size
        self._size = 0

    @property
    def first(self) -> Card | None:
        """The one that has been here longest."""
        return next(iter(self.cards.values()), None)

    @property
    def is_over(self) -> bool:
        """Whether the first one should go."""
        return len(self.cards) > self._most or (self._size > self._most_size and len(self.cards) > 1)

    def put(self, card: Card) -> None:
        """Keeps a card; one with its id and digest makes room for it, and it stands where that stood."""
        if card.id not in self.cards:
            self._size += _size(card)
        self.cards[card.id] = card

    def drop(self, id: str) -> None:
        """Keeps that card no longer; one that is not here is no fault."""
        if (card := self.cards.pop(id, None)) is not None:
            self._size -= _size(card)


def _size(card: Card) -> int:
    return sum(len(name) + len(value) for name, value in (*card.arguments, *(card.last or ())))
