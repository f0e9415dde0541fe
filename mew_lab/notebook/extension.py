"""Loads this package into an IPython shell, and unloads it.

Loading starts no thread, opens no socket, patches no event loop, and imports no data or model library. Each addition to
the shell is kept as a function that removes it. Unloading ends the labs and calls these functions in reverse order.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mew_lab.errors import MewError
from mew_lab.protocol.visible import one_line, visible

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["load", "unload"]

_undo: dict[int, list[Callable[[], object]]] = {}  # a shell's id -> the functions that remove our additions


def load(ip: InteractiveShell) -> None:
    """Adds `%mew`, its completion, the formatters and the one-line errors to the shell. Idempotent."""
    if id(ip) in _undo:
        return
    from mew_lab.notebook.calling import call_after_cells
    from mew_lab.notebook.display import install

    undo = _undo[id(ip)] = []
    undo.append(_add_magic(ip))
    undo.append(_add_matcher(ip))
    undo.append(_append(ip.input_transformer_manager.cleanup_transforms, questions))
    undo.append(install(ip))
    undo.append(_one_line_errors())
    undo.append(_tell_faults(ip))
    undo.append(_tell_of_running_loop(ip))
    undo.append(call_after_cells(ip))


def unload(ip: InteractiveShell) -> None:
    """Removes the additions of `load` and ends every lab of this process; does nothing when nothing is loaded."""
    undo = _undo.pop(id(ip), None)
    if undo is None:
        return
    # Labs first: their last lines are still written by our displays.
    _close_labs()
    while undo:
        undo.pop()()


def _close_labs() -> None:
    """Ends every lab, its views and the loop's thread. Loads no module for this."""
    if "mew_lab.lab.labs" in sys.modules:
        from mew_lab.lab.labs import close_all

        close_all()
    if "mew_lab.views.views" in sys.modules:
        from mew_lab.views.views import close_views

        close_views()


def _add_magic(ip: InteractiveShell) -> Callable[[], object]:
    from mew_lab.notebook.magics import MewMagics

    manager = ip.magics_manager
    tables: list[dict[str, Any]] = [manager.magics["line"], manager.magics["cell"]]
    names = ("mew", "agent")
    before = [{name: table[name] for name in names if name in table} for table in tables]
    magics = MewMagics(shell=ip)
    ip.register_magics(magics)

    def remove() -> None:
        for table, old in zip(tables, before, strict=True):
            for name in names:
                table.pop(name, None)
            table.update(old)
        manager.registry.pop("MewMagics", None)
        with contextlib.suppress(ValueError):
            ip.configurables.remove(magics)  # type: ignore[arg-type]

    return remove


def _add_matcher(ip: InteractiveShell) -> Callable[[], object]:
    from mew_lab.notebook.completion import mew_matcher

    return _append(ip.Completer.custom_matchers, mew_matcher)


def _append(items: list[Any], item: object) -> Callable[[], object]:
    """Adds an item to a list of the shell; returns the function that removes it."""
    items.append(item)

    def remove() -> None:
        with contextlib.suppress(ValueError):
            items.remove(item)

    return remove


# A line of text for a sub-command, and not a request for help on %mew itself.
_QUESTION = re.compile(r"(\s*(?:[\w.]+\s*=\s*)?)%mew\s+((?:ask|chat|agent|reject|withdraw|cancel)\s.*\?)\s*")


def questions(lines: list[str]) -> list[str]:
    """Rewrites the lines of a cell so that IPython does not take `%mew ask NAME …?` for a request for help."""
    if lines and lines[0].lstrip().startswith("%%"):
        return lines
    matches = [(line, _QUESTION.fullmatch(line)) for line in lines]
    return [
        f"{match[1]}get_ipython().run_line_magic('mew', {match[2]!r})\n" if match else line
        for line, match in matches
    ]


def _tell_faults(ip: InteractiveShell) -> Callable[[], object]:
    """Writes one line below a cell where a lab has met errors in the background since the cell before."""
    told: dict[str, int] = {}

    def tell(*_: object) -> None:
        if "mew_lab.lab.labs" not in sys.modules:
            return
        from mew_lab.lab.labs import labs

        here = labs()
        for name, lab in here.items():
            new = lab.fault_count - (told.get(name, 0) if lab.fault_count >= told.get(name, 0) else 0)
            told[name] = lab.fault_count
            if new:
                more = f" and {new - 1} more" if new > 1 else ""
                print(f"{one_line(lab.faults[-1], 300)}{more} (%mew faults)", file=sys.stderr)
        for name in told.keys() - here.keys():
            del told[name]

    return _when_cells_end(ip, tell)


_NESTED = re.compile(r"(asyncio\.run\(\)|Runner\.run\(\)) cannot be called from a running event loop")
_NESTED_HELP = (
    "A cell runs within an event loop: write `await main()` for `asyncio.run(main())`, or run "
    "`import nest_asyncio2; nest_asyncio2.apply()` first."
)


def _tell_of_running_loop(ip: InteractiveShell) -> Callable[[], object]:
    """Writes one line below the traceback of the first cell that asyncio.run refuses, because a loop runs already."""

    def tell(result: Any) -> None:
        error = result.error_in_exec
        if type(error) is RuntimeError and _NESTED.fullmatch(str(error)):
            print(_NESTED_HELP, file=sys.stderr)
            remove()

    return (remove := _when_cells_end(ip, tell))


def _when_cells_end(ip: InteractiveShell, call: Callable[[Any], None]) -> Callable[[], object]:
    """Calls a function with the result of each cell; returns the function that ends this."""
    ip.events.register("post_run_cell", call)

    def remove() -> None:
        with contextlib.suppress(ValueError):
            ip.events.unregister("post_run_cell", call)

    return remove


def _one_line_errors() -> Callable[[], object]:
    """Shows a MewError without its traceback: the message says what was tried and what would help."""

    def render(self: MewError) -> list[str]:
        text = f"{type(self).__name__}: {self}"  # a peer may have written part of it
        return ["\n".join(visible(line) for line in text.split("\n"))]

    MewError._render_traceback_ = render  # type: ignore[attr-defined]

    def remove() -> None:
        with contextlib.suppress(AttributeError):
            del MewError._render_traceback_  # type: ignore[attr-defined]

    return remove
