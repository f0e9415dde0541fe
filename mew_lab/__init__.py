"""A workbench for the MEW Protocol v0.4 inside Jupyter.

The import loads nothing else: the module of a public name is loaded when the name is first used. `%load_ext mew_lab`
adds `%mew` to a notebook; a script needs only the names. A library that is not installed is told with its extra.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from mew_lab import errors as errors
    from mew_lab.agent.agent import MEWAgent as MEWAgent
    from mew_lab.agent.model import Model as Model
    from mew_lab.agent.offline import OfflineModel as OfflineModel
    from mew_lab.gateway.config import SpaceConfig as SpaceConfig
    from mew_lab.gateway.gateway import Gateway as Gateway
    from mew_lab.lab.decisions.policies import Policy as Policy
    from mew_lab.lab.lab import Lab as Lab
    from mew_lab.lab.labs import connect as connect
    from mew_lab.lab.labs import labs as labs
    from mew_lab.lab.labs import up as up
    from mew_lab.lab.pending import Pending as Pending
    from mew_lab.lab.proposals import Proposal as Proposal
    from mew_lab.lab.seat import Seat as Seat
    from mew_lab.log.log import Log as Log
    from mew_lab.log.log import open_log as open_log
    from mew_lab.protocol.covers import covers as covers
    from mew_lab.protocol.envelope import Envelope as Envelope
    from mew_lab.protocol.permit import PROFILES as PROFILES
    from mew_lab.protocol.permit import Capability as Capability
    from mew_lab.protocol.permit import permit as permit
    from mew_lab.sdk.client import MEWClient as MEWClient
    from mew_lab.sdk.participant import MEWParticipant as MEWParticipant
    from mew_lab.sdk.results import ToolResult as ToolResult
    from mew_lab.sdk.stream import Stream as Stream
    from mew_lab.sdk.tools import ToolBox as ToolBox
    from mew_lab.space.core import Space as Space

_HOMES = {
    "up": "lab.labs",
    "connect": "lab.labs",
    "labs": "lab.labs",
    "open_log": "log.log",
    "Lab": "lab.lab",
    "Seat": "lab.seat",
    "Pending": "lab.pending",
    "Policy": "lab.decisions.policies",
    "Proposal": "lab.proposals",
    "MEWClient": "sdk.client",
    "MEWParticipant": "sdk.participant",
    "MEWAgent": "agent.agent",
    "Model": "agent.model",
    "OfflineModel": "agent.offline",
    "ToolBox": "sdk.tools",
    "ToolResult": "sdk.results",
    "Stream": "sdk.stream",
    "Gateway": "gateway.gateway",
    "SpaceConfig": "gateway.config",
    "Space": "space.core",
    "Envelope": "protocol.envelope",
    "Capability": "protocol.permit",
    "permit": "protocol.permit",
    "covers": "protocol.covers",
    "PROFILES": "protocol.permit",
    "Log": "log.log",
    "errors": "",
}

__all__ = [
    "PROFILES",
    "Capability",
    "Envelope",
    "Gateway",
    "Lab",
    "Log",
    "MEWAgent",
    "MEWClient",
    "MEWParticipant",
    "Model",
    "OfflineModel",
    "Pending",
    "Policy",
    "Proposal",
    "Seat",
    "Space",
    "SpaceConfig",
    "Stream",
    "ToolBox",
    "ToolResult",
    "connect",
    "covers",
    "errors",
    "labs",
    "open_log",
    "permit",
    "up",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    home = _HOMES.get(name)
    if name == "__version__":
        value = import_module("mew_lab.version").VERSION
    elif home is None:
        raise AttributeError(f"mew_lab has no {name!r}")
    else:
        value = getattr(import_module(f"mew_lab.{home}"), name) if home else import_module(f"mew_lab.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# The objects of higher rooms that a lower room uses. They are resolved at their first use, so no room imports upwards,
# and the order of imports changes nothing. A row that names a library applies only when that library is loaded.
_ABOVE: dict[str, tuple[str, str]] = {
    "Views": ("views.views", ""),  # makes `lab.view`
    "report_log": ("lab.html_report", ""),  # writes the page of a log
    "LogViews": ("views.views", ""),  # makes `log.view`
    "PageServer": ("views.page.server", ""),  # serves `lab.view.panel` to a browser
    "prepare": ("views.views", "ipykernel"),  # loads the widgets early; a script shows none
    "before_wait": (
        "notebook.waiting",
        "IPython",
    ),  # may refuse a wait; a script waits for decisions elsewhere
    "watch_question": ("notebook.waiting", "IPython"),  # a card in a cell; a script types
}


def find_above(name: str) -> Any:
    """Returns the function or class of a higher room with this name in `_ABOVE`; None where the row does not apply."""
    from importlib import import_module

    home, library = _ABOVE[name]
    if library and library not in sys.modules:
        return None
    return getattr(import_module(f"mew_lab.{home}"), name)


# What an installation may lack: what each extra of pyproject.toml serves, and the modules that it brings.
_EXTRAS: dict[str, tuple[str, str]] = {
    "notebook": (
        "what a notebook or a page shows, or the hook of a lab,",
        "IPython anywidget comm ipykernel ipywidgets jupyter_core markdown_it nest_asyncio2 nh3 segno standardwebhooks "
        "traitlets",
    ),
    "frames": ("the frames and the index of a log", "duckdb numpy pandas"),
    "models": ("a language model", "openai"),
    "acp": ("a coding agent in a space, or an agent of one in an editor,", "acp"),
    "pydantic-ai": ("the approval of its agents' calls", "pydantic_ai"),
    "openai-agents": ("the approval of its agents' calls", "agents"),
    "langgraph": ("the approval of its agents' calls", "langgraph"),
}


class _MissingLibraries:
    """The last finder of modules: raises the sentence for a library that a module of mew_lab imports and nobody found.

    So each import in the package may stand where it is needed. Imports by others get Python's own error.
    """

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        extra = next((one for one, (_, modules) in _EXTRAS.items() if name in modules.split()), None)
        if extra is None:
            return
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
            frame = frame.f_back
        if frame.f_globals.get("__name__", "").startswith("mew_lab."):
            from mew_lab.errors import MissingLibrary

            message = (
                f"{name} is not installed, and {_EXTRAS[extra][0]} cannot do without it: install the extra {extra!r}, "
                f'with pip install "mew_lab[{extra}]"'
            )
            raise MissingLibrary(message, name=name, extra=extra)


sys.meta_path.append(_MissingLibraries)


def load_ipython_extension(ip: InteractiveShell) -> None:
    """Loads the extension; IPython calls this for `%load_ext mew_lab`."""
    from mew_lab.notebook.extension import load

    load(ip)


def unload_ipython_extension(ip: InteractiveShell) -> None:
    """Ends the labs and restores the shell; IPython calls this for `%unload_ext mew_lab`."""
    from mew_lab.notebook.extension import unload

    unload(ip)
