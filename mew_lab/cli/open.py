"""`mew-lab open`: opens a log in a notebook: its summary, its calls, its diagnosis and a table of its messages.

The notebook is written into a private temporary folder, which ends with JupyterLab; nothing is written beside the log.
With `--ui` it is a page of its own, for reading alone: nothing is sent to a space, and the sign-in is that of R38.
`--latest` finds the newest session of a coding agent that worked in this folder.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from mew_lab.cli import shell
from mew_lab.errors import ConfigError
from mew_lab.log.log import Log, open_log
from mew_lab.log.session_records import folder_in
from mew_lab.protocol.visible import visible
from mew_lab.transport.scratch import ScratchFolder

__all__ = ["add_options", "latest_session", "notebook_of", "run"]

MOST_LOOKED_AT: Final = 2000  # rollouts of which the folder is looked up
CELLS: Final = (
    "import mew_lab\n\nlog = mew_lab.open_log({path})\nlog",
    "log.faults  # what could not be read, or is not known here",
    "log.requests()",
    "log.decisions()",
    "log.diagnose()",
    "log.charts.latency()",
    "log.charts.tokens()",
    "log.view.feed",
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    what = parser.add_mutually_exclusive_group(required=True)
    about = "a log: a file, or a folder of files; sessions of Claude Code and Codex, too"
    what.add_argument("source", metavar="FILE", nargs="?", help=about)
    about = "the newest session of this agent that worked in this folder: claude or codex"
    what.add_argument("--latest", choices=tuple(FINDERS), help=about)
    how = parser.add_mutually_exclusive_group()
    about = "prints the path of the log and ends"
    how.add_argument("--where", action="store_true", help=about)
    about = "serves the messages, times and states of the log as a page, and prints a link for one browser; no Jupyter"
    how.add_argument("--ui", action="store_true", help=about)
    about = "the port of the page; default: a free one"
    parser.add_argument("--ui-port", type=int, default=0, metavar="N", help=about)
    about = "the address of your TLS proxy that leads to the page, such as https://lab.example.org"
    parser.add_argument("--ui-origin", metavar="URL", help=about)


def run(options: argparse.Namespace) -> None:
    """Runs the command with these options.

    Raises:
        MewError: There is no log there, or no JupyterLab is installed.
    """
    path = latest_session(options.latest, Path.cwd()) if options.latest else Path(options.source).absolute()
    log = open_log(path, index=options.ui)  # what is no log is told at once
    if options.where:
        return shell.say(visible(str(path)))
    if options.ui:
        with shell.new_runner() as runner:
            return runner.run(_serve_page(log, port=options.ui_port, origin=options.ui_origin))
    if find_spec("jupyterlab") is None:
        raise ConfigError(
            'Cannot open a notebook: JupyterLab is not installed. `pip install "mew_lab[lessons]"` installs it; '
            f"`mew-lab report {visible(str(path))}` writes a page instead"
        )
    scratch = ScratchFolder()
    target = scratch.path / "log.ipynb"
    target.write_text(json.dumps(notebook_of(path)), encoding="utf-8")
    shell.say(f"Opening {visible(str(path))} in JupyterLab; Ctrl-C ends it.")
    status = subprocess.call([sys.executable, "-m", "jupyterlab", str(target)])
    if status:
        raise ConfigError(f"JupyterLab ended with status {status}; its own lines above say why")
    return None


async def _serve_page(log: Log, *, port: int, origin: str | None) -> None:
    """Serves the page of a log until a signal comes."""
    # The views take a second to load.
    from mew_lab.views.page.link import qr_text
    from mew_lab.views.page.server import PageServer
    from mew_lab.views.panel.widget import panel_of_log
    from mew_lab.views.views import close_views

    ended = shell.end_on_signal()
    page = PageServer(
        await asyncio.to_thread(panel_of_log, log), space=log.space or "the log", port=port, origin=origin
    )
    await page.start()
    try:
        link = page.new_link()
        shell.say(str(link))
        if sys.stdout.isatty():
            shell.say(qr_text(link.url))
        for fault in log.faults:
            shell.warn(f"mew-lab open: {fault}")
        await ended.wait()
    finally:
        await page.stop()
        close_views()


def notebook_of(path: Path) -> dict[str, Any]:
    """A notebook on a log."""
    cells: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "id": f"cell-{number}",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": source.format(path=ascii(str(path))),
        }
        for number, source in enumerate(CELLS, 1)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def latest_session(agent: str, folder: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """The newest session of a coding agent that worked in a folder.

    Raises:
        ConfigError: there is none.
    """
    root, sessions = FINDERS[agent](folder, environ)
    if found := next(iter(sessions), None):
        return found
    raise ConfigError(
        f"There is no session of {agent} that worked in {visible(str(folder))}: none is below {visible(str(root))}. "
        "Run the command in the folder of the session, or name its file"
    )


def _home(environ: Mapping[str, str], variable: str, usual: str) -> Path:
    stated = environ.get(variable)
    return Path(stated) if stated else Path(environ.get("HOME") or Path.home()) / usual


def _of_claude(folder: Path, environ: Mapping[str, str]) -> tuple[Path, Iterator[Path]]:
    # The agent names the folder of its sessions by the path, with a dash for all but letters and digits.
    name = re.sub(r"[^A-Za-z0-9]", "-", str(folder))
    root = _home(environ, "CLAUDE_CONFIG_DIR", ".claude") / "projects" / name
    found = (path for path in root.glob("*.jsonl") if not path.name.startswith("agent-"))
    return root, iter(_by_age(found))


def _of_codex(folder: Path, environ: Mapping[str, str]) -> tuple[Path, Iterator[Path]]:
    root = _home(environ, "CODEX_HOME", ".codex") / "sessions"
    found = _by_age(root.glob("*/*/*/rollout-*.jsonl"))[:MOST_LOOKED_AT]
    return root, (path for path in found if _folder_of(path) == str(folder))


def _by_age(paths: Iterator[Path]) -> list[Path]:
    """The files, the newest first; those that are gone meanwhile are left out."""
    ages = [(path.stat().st_mtime_ns, str(path), path) for path in paths if path.is_file()]
    return [path for *_, path in sorted(ages, reverse=True)]


def _folder_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return folder_in(file)
    except OSError:
        return ""


FINDERS: Final = {"claude": _of_claude, "codex": _of_codex}
