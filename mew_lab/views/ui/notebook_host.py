"""Shows views in a notebook: makes the widget whose comm is the outlet of a view, and keeps the picture that is stored.

Says also whether a person's click is handled while a cell runs, which depends on the kernel and its front end.

The main thread may be busy. From ipykernel 7.4 on a widget's messages follow the last cell that touched it, back to the
main thread; `free_the_comm` undoes that for our widgets, so that a blocked cell does not block its own answer.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from typing import Any, NamedTuple, Protocol

import anywidget
import traitlets

from mew_lab.views.ui.front_end import caller_module, notebook_module
from mew_lab.views.ui.stored_picture import StoredPicture

__all__ = [
    "ClickProbe",
    "NotebookCaller",
    "NotebookHost",
    "NotebookView",
    "NotebookWidget",
    "attended",
    "can_click_while_waiting",
    "free_the_comm",
    "is_displayed_here",
    "message_threads",
]

# Threads on which messages from any front end were handled so far: no front end declares whether it uses subshells,
# so this is observed.
message_threads: set[str] = set()


class NotebookView(Protocol):
    """What a notebook needs of a view that it shows; `LiveView` describes the members."""

    displayed_in: str

    @property
    def part(self) -> str: ...
    @property
    def more_css(self) -> str: ...
    @property
    def parts(self) -> Mapping[str, Any]: ...
    def attach(self, outlet: NotebookWidget) -> None: ...
    def receive(self, message: object, outlet: NotebookWidget) -> None: ...
    def draw(self, *, hidden: bool = False) -> tuple[object, dict[str, str]]: ...
    def fault(self, error: BaseException) -> None: ...


class NotebookWidget(anywidget.AnyWidget):
    """The outlet of one view in the notebooks of this kernel; a front end may show it several times.

    `parts` names the widgets of the parts of a view that has some, as front ends know them.
    """

    parts = traitlets.Dict().tag(sync=True)

    def __init__(self, view: NotebookView) -> None:
        super().__init__(
            parts={name: f"anywidget:{part.widget.model_id}" for name, part in view.parts.items()}
        )
        self.freed = free_the_comm(self.comm)
        self._view = view
        self.on_msg(self._take)
        view.attach(self)

    def _take(self, _widget: object, message: object, _buffers: object) -> None:
        is_main = threading.current_thread() is threading.main_thread()
        message_threads.add("main" if is_main else "subshell")
        self._view.receive(message, self)


@cache
def _widget_class(view: type, part: str, more_css: str) -> type[NotebookWidget]:
    """A class of its own for each class of views: front ends keep one style sheet for each name of a class."""
    module, css = notebook_module(part)
    members = {"_esm": module, "_css": f"{css}\n{more_css}", "__module__": view.__module__}
    return type(f"{view.__name__}Widget", (NotebookWidget,), members)


class NotebookCaller(anywidget.AnyWidget):
    """Calls the person in each page of this kernel that shows no card of what waits; it is never displayed.

    `waiting` counts what waits in `space`. It is made on the main thread; then one thread alone sets `waiting`.
    """

    _esm, _css = caller_module()
    waiting = traitlets.Int().tag(sync=True)
    space = traitlets.Unicode().tag(sync=True)


class NotebookHost:
    """One view as the notebooks of this kernel show it; for the main thread, but for `mark` and `store`."""

    def __init__(self, view: NotebookView) -> None:
        self._view = view
        self._stored: StoredPicture | None = None
        self.widget = _widget_class(type(view), view.part, view.more_css)(view)

    def display(self) -> None:
        """Displays the picture, which later updates replace, and beside it the live view, which they leave alone.

        Raises:
            NotImplementedError: There is no kernel; IPython then takes the MIME bundle.
        """
        from IPython import get_ipython

        shell = get_ipython()
        kernel = _kernel()
        if kernel is None:
            raise NotImplementedError
        self._view.displayed_in = _running_cell(kernel)
        if self._stored is None:
            publish, view = shell.display_pub.publish, self._view
            self._stored = StoredPicture(publish, view.draw, view.fault, f"mew-lab-{self.widget.model_id}")
        data, metadata = self._live()
        live = {kind: value for kind, value in data.items() if not kind.startswith("text/")}
        # Hidden until the first update: a page that shows the live view has its style sheet by then.
        self._stored.show(self._view.draw(hidden=bool(live))[1])
        if live:
            shell.display_pub.publish(live, metadata)

    def bundle(self, **choices: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The picture, and the live view where there may be one, as a MIME bundle."""
        data, metadata = self._live(**choices)
        return self._view.draw()[1] | data, metadata

    def _live(self, **choices: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        bundle = self.widget._repr_mimebundle_(**choices)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        data = dict(data) | {"text/plain": repr(self._view)}
        kernel = _kernel()
        # A page made without a human would keep the live view, which needs a kernel, in place of the picture.
        if os.environ.get("MEW_LAB_RENDER") == "html" or (kernel is not None and not attended(kernel)):
            data = {kind: value for kind, value in data.items() if kind.startswith("text/")}
        return data, metadata

    def mark(self, *, decided: bool = False) -> None:
        """Says that the view has changed, by a decision where `decided`. Cheap, and for any thread."""
        if self._stored is not None:
            self._stored.mark(decided=decided)

    def store(self, *, last: bool = False) -> None:
        """Stores the picture as it is now, where the view was displayed; for any thread."""
        if self._stored is not None:
            self._stored.store(last=last)

    def end(self) -> None:
        """Ends the updates of the picture."""
        if self._stored is not None:
            self._stored.end()

    def close(self) -> None:
        """Closes the widget, which removes it from the pages that show it."""
        self.widget.close()


class ClickProbe(NamedTuple):
    """Whether a click in this kernel's front end is handled while a cell runs.

    Attributes:
        awaiting: Whether it is handled while a cell awaits.
        blocking: Whether it is handled while a cell blocks the main thread.
        advice: The alternative for the person where it is not; else empty.
    """

    awaiting: bool
    blocking: bool
    advice: str


def can_click_while_waiting() -> ClickProbe:
    """Examines the kernel, and the threads on which earlier messages arrived, without waiting."""
    kernel = _kernel()
    if kernel is None:
        return ClickProbe(
            False, False, "There is no notebook front end here: decide in code, or set a policy."
        )
    text = _version()
    numbers = [int(part) for part in re.findall(r"\d+", text)[:2]]
    version, name = (*numbers, 0, 0)[:2], f"ipykernel {text}"
    if version < (7, 0):
        advice = "click first, then await in the next cell, or install ipykernel 7.4."
        return ClickProbe(False, False, f"{name} handles clicks only between cells: {advice}")
    subshells = bool(getattr(kernel, "_supports_kernel_subshells", False)) and message_threads != {"main"}
    if version < (7, 4):
        advice = f"With {name} this front end's clicks are handled only between cells: install ipykernel 7.4."
        return ClickProbe(subshells, subshells, "" if subshells else advice)
    blocking = subshells and _routable()
    advice = f"With {name} and this front end a click is handled while a cell awaits: use await."
    return ClickProbe(True, blocking, "" if blocking else advice)


def _kernel() -> Any:
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None)


def _version() -> str:
    """The version of ipykernel; the kernel reports that of IPython as its implementation version."""
    try:
        return metadata.version("ipykernel")
    except metadata.PackageNotFoundError:
        return "0"


def attended(kernel: Any) -> bool:
    """Whether the running cell was sent by a front end with a human; False for nbclient and similar runners."""
    request = kernel.get_parent("shell") or {}
    return bool(request.get("content", {}).get("allow_stdin", False))


def _running_cell(kernel: Any) -> str:
    """The id of the request to run the cell that runs now."""
    return str((kernel.get_parent("shell") or {}).get("header", {}).get("msg_id", ""))


def is_displayed_here(view: NotebookView) -> bool:
    """Whether the cell that runs now displays this view already."""
    kernel = _kernel()
    return kernel is not None and view.displayed_in != "" and view.displayed_in == _running_cell(kernel)


def _routable() -> bool:
    """Whether the one private method that `free_the_comm` replaces is still where it was."""
    try:
        from ipykernel.comm.comm import BaseComm
    except ImportError:
        return False
    return callable(getattr(BaseComm, "_reply_subshell_for", None))


def free_the_comm(comm: Any) -> bool:
    """Delivers the messages of this comm to the shell that the front end chose; returns whether this was needed.

    ipykernel 7.4 delivers a comm's incoming messages to the shell that last published on it. For a widget of an
    ordinary cell that is the main shell, so a blocking cell would wait for a click that waits for the cell.
    """
    if not hasattr(comm, "_reply_subshell_for"):
        return False
    comm._reply_subshell_for = lambda data, default: default
    return True
