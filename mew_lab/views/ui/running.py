"""Tells the pages of a view which calls run, and cancels one when a person presses its button.

Which calls these are, and whether this person may cancel one, is decided in `lab.decisions.running_calls` alone, so that
each view tells the same. The page's part is `cancel.js`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Set
from typing import Any

from mew_lab.errors import MewError
from mew_lab.lab.decisions.running_calls import CallEnd, RunningCall, RunningCalls, concerns
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.visible import visible
from mew_lab.views.ui.acts import Act
from mew_lab.views.ui.debounce import Debounce

__all__ = ["RunningList"]

MOST_ENDED = 20  # ended calls that are told, the newest
TOLD_ENDS = 1.0  # seconds that a call has run whose end is told
TOLD_WITHIN = 0.1  # seconds: under heavy traffic calls begin and end with every message


class RunningList:
    """The calls that run, for one widget.

    Args:
        wake: Has the widget send its news, to which `news` belongs.
        only: The ids of which the widget shows the calls; of none it shows all. It may grow. Such a widget tells the
            end of each, too, where no card of a proposal does.
        place: What else the pages get of a call, such as its row.
    """

    def __init__(
        self,
        running: RunningCalls,
        *,
        wake: Callable[[], None],
        only: Set[str] = frozenset(),
        place: Callable[[RunningCall], Mapping[str, Any]] = lambda call: {},
    ) -> None:
        self._running = running
        self._wake = wake
        self._only = only
        self._place = place
        self._seen: BoundedDict[str, RunningCall] = BoundedDict(MOST_ENDED * 5)
        self._ended: BoundedDict[str, tuple[RunningCall, CallEnd]] = BoundedDict(MOST_ENDED)
        self._told: list[dict[str, Any]] | None = None  # of which all pages were told
        self._is_stale = False
        soon = Debounce(self.renew)
        self.end: Callable[[], None] = running.changed.add(lambda _: soon.within(TOLD_WITHIN))

    def renew(self) -> None:
        """Has the pages told of what has changed."""
        self._is_stale = True
        self._wake()

    def all(self) -> list[dict[str, Any]]:
        """The calls as a page gets them in its snapshot, which the other pages do not get."""
        self._told = None
        return self._pack_all()

    def news(self) -> list[dict[str, Any]]:
        """The item for the pages; none where nothing has changed for them."""
        if not self._is_stale:
            return []
        self._is_stale = False  # first: a change from now on counts again
        calls = self._pack_all()
        if calls == self._told:
            return []
        self._told = calls
        return [{"t": "running", "calls": calls}]

    def acts(self) -> Mapping[str, Act]:
        """The act `cancel_call`, with the `id` of a call that was told."""
        return {"cancel_call": self._cancel}

    def _cancel(self, id: str) -> Coroutine[Any, Any, str]:
        if all(call.id != id for call in self._running.all()):
            raise MewError("That call does not run any more, so nothing was cancelled.")
        return self._running.cancel(id)

    def ended(self) -> list[tuple[str, CallEnd]]:
        """The calls whose end is told, in words and the oldest first."""
        return [(call.text, end) for call, end in list(self._ended.values())]

    def _pack_all(self) -> list[dict[str, Any]]:
        calls = [call for call in self._running.all() if concerns(call, self._only)]
        if self._only:
            self._note_ends({call.id: call for call in calls})
        ended = [self._pack(call) | {"end": end._asdict()} for call, end in list(self._ended.values())]
        return [*ended, *map(self._pack, calls)]

    def _note_ends(self, now: Mapping[str, RunningCall]) -> None:
        for id, call in list(self._seen.items()):
            if id in now:
                continue
            del self._seen[id]
            end = self._running.end_of(id)
            if end.at - call.since >= TOLD_ENDS and self._only.isdisjoint(call.fulfils):
                self._ended[id] = call._replace(may_cancel=False), end._replace(text=visible(end.text))
        self._seen.update(now)

    def _pack(self, call: RunningCall) -> dict[str, Any]:
        """A call as a page gets it: its `id` to be sent back, all else visible text."""
        return {
            "id": call.id,
            "text": visible(call.text),
            "since": round(call.since, 1),
            "progress": "" if call.progress is None else visible(str(call.progress)),
            "cancel": call.may_cancel,
            "fulfils": list(call.fulfils),
            **self._place(call),
        }
