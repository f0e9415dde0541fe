"""A JupyterLab of a test's own: a process, folders that nobody else uses, and kernels.

Nothing of the user's is read or written; every wait has a deadline.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 30.0

# What JupyterLab is told before it starts: nothing that phones home, nothing that pops up over a button.
SETTINGS: dict[str, dict[str, Any]] = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "docmanager-extension/plugin": {"autosave": False},
}


def wait_until(
    probe: Callable[[], Any], what: str, *, deadline: float = DEADLINE, pause: Callable[[float], Any]
) -> Any:
    """The first true value of `probe`; `pause(seconds)` lets the world go on in between.

    Raises:
        TimeoutError: after `deadline` seconds, saying `what` did not happen.
    """
    end = time.monotonic() + deadline
    while True:
        if value := probe():
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"waited {deadline:.0f} s for {what}")
        pause(0.05)


class LabServer:
    """A `jupyter lab` on a free port of 127.0.0.1, with a folder of its own for everything it writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.preferences = folder / "config" / "mew_lab.json"
        self.data = folder / "data"
        self.token = secrets.token_hex(16)
        self.kernels: dict[str, str] = {}  # those that wait for the next notebook, by the name of their kind
        for part in (
            "root",
            "data",
            "runtime",
            "config",
            "settings/@jupyterlab",
            "workspaces",
            "home",
            "ipython",
        ):
            (folder / part).mkdir(parents=True)
        for name, value in SETTINGS.items():
            path = folder / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(value))
        # As the wheel installs it.
        (self.data / "labextensions").mkdir()
        (self.data / "labextensions" / "mew_lab").symlink_to(ROOT / "mew_lab" / "labextension")
        self.add_kernel("here", sys.executable)
        self.process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def _environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "IPYTHON", "MEW_"))}
        folders = {
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
            "HOME": "home",
            "IPYTHONDIR": "ipython",
        }
        return kept | {name: str(self.folder / part) for name, part in folders.items()}

    def add_kernel(self, name: str, python: str, *, environment: dict[str, str] | None = None) -> str:
        """Makes a kernel of that interpreter known under `name`; this checkout comes first on its path."""
        folder = self.data / "kernels" / name
        if not folder.exists():
            folder.mkdir(parents=True)
            spec = {
                "argv": [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                "display_name": name,
                "language": "python",
                "env": {"PYTHONPATH": str(ROOT), "PYDEVD_DISABLE_FILE_VALIDATION": "1"} | (environment or {}),
            }
            (folder / "kernel.json").write_text(json.dumps(spec))
        return name

    def start(self) -> None:
        """Starts the server and returns when it answers.

        Raises:
            RuntimeError: with the end of the server's log, when it ends or is not up in time.
        """
        log = self.folder / "server.log"
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", "--port=0"),
                    *("--allow-root", "--expose-app-in-browser", f"--ServerApp.root_dir={self.root}"),
                    f"--IdentityProvider.token={self.token}",
                    "--LabApp.news_url=",
                    "--LabApp.check_for_updates_class=jupyterlab.handlers.announcements.NeverCheckForUpdate",
                ],
                env=self._environment(),
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

        def up() -> str:
            assert self.process is not None
            if self.process.poll() is not None:
                raise RuntimeError(
                    f"jupyter lab ended with {self.process.returncode}:\n{log.read_text()[-2000:]}"
                )
            for path in (self.folder / "runtime").glob("jpserver-*.json"):
                with contextlib.suppress(ValueError):
                    return str(json.loads(path.read_text())["url"])
            return ""

        self.url = wait_until(up, f"the server to start, see {log}", deadline=120, pause=time.sleep).rstrip(
            "/"
        )

    def stop(self) -> None:
        """Ends the server and with it its kernels, by process id."""
        if self.process is None:
            return
        group = self.process.pid
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(group, signal.SIGKILL)
            self.process.wait(15)


def write_notebook(path: Path, cells: Sequence[str], *, kernel: str) -> None:
    """A notebook file of code cells; a cell that starts with `#md ` is text."""
    path.write_text(
        json.dumps(
            {
                "nbformat": 4,
                "nbformat_minor": 5,
                "metadata": {"kernelspec": {"name": kernel, "display_name": kernel, "language": "python"}},
                "cells": [_cell(n, source) for n, source in enumerate(cells)],
            }
        )
    )


def _cell(number: int, source: str) -> dict[str, Any]:
    if source.startswith("#md "):
        return {"cell_type": "markdown", "id": f"c{number}", "metadata": {}, "source": source[4:]}
    return {
        "cell_type": "code",
        "id": f"c{number}",
        "metadata": {},
        "source": source,
        "outputs": [],
        "execution_count": None,
    }
