"""Connects the model of a view to the space that it shows, for as long as the view is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mew_lab.lab.entry_feed import Follower, LedgerFollower
from mew_lab.lab.session import Session
from mew_lab.lab.subscribers import Subscribers

__all__ = ["SpaceModel", "follow_space"]


class SpaceModel(Follower, LedgerFollower, Protocol):
    """The rows behind a view, made from the entries of a space. Everything is called on the loop's thread."""

    def refresh(self) -> None:
        """Makes the rows anew."""

    @property
    def changed(self) -> Subscribers[()]:
        """Called after the rows were replaced."""


def follow_space(session: Session, model: SpaceModel, on_change: Callable[[], None]) -> Callable[[], None]:
    """Has a model follow the space, and `on_change` called after each change of its rows; returns what ends both.

    To be called on any thread but the loop's; what it returns, on any.
    """

    def begin() -> None:
        session.following.add(model)
        model.refresh()

    session.loop.call(begin)
    unsubscribe = model.changed.add(on_change)

    def leave() -> None:
        unsubscribe()
        session.loop.post(lambda: session.following.remove(model))

    return leave
