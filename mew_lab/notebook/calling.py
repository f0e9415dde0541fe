"""Calls the person of a notebook to what waits, also where its page shows no view: by a widget that is never displayed.

After each cell, every lab of a kernel with a person at it has a `NotebookCaller`, whose comm tells the page how much
waits. The page is silent as long as a view of the same kernel calls by itself. A shell in a terminal gets one line
below the cell.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from mew_lab.views.views import ViewedSession

__all__ = ["call_after_cells"]

APART = 0.25  # seconds between two counts that a page is told


def call_after_cells(ip: InteractiveShell) -> Callable[[], object]:
    """Has each lab call the person, from the end of the cell on that has started it; returns what ends that."""
    callers: WeakKeyDictionary[ViewedSession, Any] = WeakKeyDictionary()
    told: WeakKeyDictionary[ViewedSession, int] = WeakKeyDictionary()

    def look(*_: object) -> None:
        if "mew_lab.lab.labs" not in sys.modules:
            return
        from mew_lab.lab.labs import labs

        for lab in labs().values():
            kernel = getattr(ip, "kernel", None)
            if kernel is None and not hasattr(
                ip, "simple_prompt"
            ):  # embedded somewhere: no terminal to print to
                continue
            if kernel is None:
                waiting = lab.loop.call(partial(_count, lab))
                if waiting > told.get(lab, 0):
                    verb = "waits" if waiting == 1 else "wait"
                    what = f"{count_of(waiting, 'request')} in {one_line(lab.space, 80)} {verb} for you"
                    print(f"{what}: print(lab.proposals()), print(lab.questions())")
                told[lab] = waiting
            elif lab not in callers and (caller := _make_caller(kernel, lab)) is not None:
                callers[lab] = caller

    ip.events.register("post_run_cell", look)

    def remove() -> None:
        if look in ip.events.callbacks["post_run_cell"]:
            ip.events.unregister("post_run_cell", look)
        for caller in callers.values():
            caller.close()

    return remove


def _count(lab: ViewedSession) -> int:
    """How much waits for the person of a lab; on its loop."""
    cards = sum(card.is_open for card in lab.decisions.pending())
    return cards + sum(question.is_open for question in lab.asked.pending())


def _make_caller(kernel: Any, lab: ViewedSession) -> Any:
    """The caller of a lab; None where no person is at this kernel, or no widget can be made."""
    try:
        from mew_lab.views.ui.notebook_host import NotebookCaller, attended
    except ImportError:
        return None
    if not attended(kernel):
        return None
    caller = NotebookCaller(space=one_line(lab.space, 80))
    due: list[asyncio.TimerHandle] = []

    def tell() -> None:
        due.clear()
        caller.waiting = 0 if lab.closed else _count(lab)

    def note(*_: object) -> None:
        if not due:  # a flood of cards is told a few times a second
            due.append(asyncio.get_running_loop().call_later(APART, tell))

    def begin() -> None:
        lab.decisions.subscribe(note)
        lab.asked.subscribe(note)
        note()

    lab.loop.call(begin)
    lab.on_down.append(lambda _: caller.close())
    return caller
