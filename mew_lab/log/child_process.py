"""Begins a module of this package as a process that reads a journal, so that both cores work.

The process sees few variables of the environment and no modules of the working directory. It ends with the process that
began it: their pipe closes then.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

__all__ = ["COMMAND", "PACKAGE", "begin_module", "end_with_parent", "module_environment"]

# This interpreter, with this package and without modules from the working directory.
COMMAND: Final = (sys.executable, "-P", "-X", "utf8", "-m")
PACKAGE: Final = Path(__file__).resolve().parents[2]
SEEN: Final = (
    "HOME",
    "LD_LIBRARY_PATH",
    "PATH",
    "SYSTEMROOT",
    "TMPDIR",
)  # variables that are passed on; others may hold tokens


def module_environment() -> dict[str, str]:
    """The environment of a process that runs a module of this package by `COMMAND`."""
    return {name: os.environ[name] for name in SEEN if name in os.environ} | {"PYTHONPATH": str(PACKAGE)}


def begin_module(module: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A process of this interpreter that runs the module; what it prints can be read from its `stdout`.

    Raises:
        OSError: when no process can be begun.
    """
    return subprocess.Popen(
        [*COMMAND, module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=module_environment(),
        start_new_session=True,  # an interrupt of a cell is not meant for it
    )


def end_with_parent() -> None:
    """Ends this process, which `begin_module` began, when the process that began it has ended."""
    threading.Thread(target=_await_end, daemon=True).start()


def _await_end() -> None:
    while os.read(0, 1):  # until nobody holds the other end of the pipe
        pass
    os._exit(1)
