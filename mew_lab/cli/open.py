"""`mew-lab open`: opens a log in a notebook: its summary, its calls, its diagnosis and a table of its messages.

The notebook is written into a private temporary folder, which ends with JupyterLab; nothing is written beside the log.
`--latest` finds the newest session of a coding agent that worked in this folder.
"""

from __future__ import annotations

import argparse
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
from mew_lab.log.log import open_log
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
    about = "prints the path of the log and ends"
    parser.add_argument("--where", action="store_true", help=about)


def run(options: argparse.Namespace) -> None:
    """Runs the command with these options.

    Raises:
        MewError: There is no log there, or no JupyterLab is installed.
    """
    path = latest_session(options.latest, Path.cwd()) if options.latest else Path(options.source).absolute()
    open_log(path, index=False)  # what is no log is told at once
    if options.where:
        return shell.say(visible(str(path)))
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
