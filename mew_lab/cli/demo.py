"""`mew-lab demo`: shows in half a minute how a participant proposes, a human decides and a real server acts.

It makes a git repository with one commit. A participant that may only propose then proposes a call of the tool
`git_log` of the MCP server of git. `show_demo` prints by `say` and puts its question by `ask`.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mew_lab.bridge.process import ServerProcess
from mew_lab.cli import shell
from mew_lab.cli.terminal import row_line
from mew_lab.errors import MewError, ProposalEnded
from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.decisions import HumanDecisions
from mew_lab.lab.decisions.policies import Policy
from mew_lab.lab.decisions.text import card_lines
from mew_lab.lab.labs import close_all, up
from mew_lab.lab.seat import Seat
from mew_lab.protocol.text import count_of

__all__ = ["MESSAGE", "add_options", "check", "make_repository", "run", "show_demo"]

MESSAGE = "Add the first page"
DEADLINE = 30.0  # seconds for git, for a proposal to arrive, and for its result

# No git settings of the user are read, and the same message always gives the same commit.
_GIT: Mapping[str, str] = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": "2026-01-01T12:00:00+00:00",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_COMMITTER_DATE": "2026-01-01T12:00:00+00:00",
    "LC_ALL": "C.UTF-8",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("--message", metavar="TEXT", help="the message of the one commit in the repository")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="an empty or new folder for repository and journal"
    )
    parser.add_argument("--no-color", action="store_true", help="prints no colours")
    parser.add_argument("--yes", action="store_true", help="lets a policy approve instead of asking")


def run(options: argparse.Namespace) -> None:
    """Runs the command with these options.

    Raises:
        MewError: The folder is not empty; or as `show_demo`.
    """
    check()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="mew-lab-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise MewError(f"The folder {folder} is not empty; name an empty or a new one")
    ask = None if options.yes or not sys.stdin.isatty() else shell.ask_yes_or_no
    more: dict[str, Any] = {} if options.message is None else {"message": options.message}
    try:
        show_demo(folder.resolve(), say=shell.say, ask=ask, colour=shell.use_colour(options), **more)
    finally:
        close_all()


def check() -> None:
    """Checks that git and its MCP server are installed.

    Raises:
        MewError: git or mcp-server-git is missing.
    """
    if shutil.which("git") is None:
        raise MewError("The demo needs git, which is not on PATH; install git and run the demo again")
    if importlib.util.find_spec("mcp_server_git") is None:
        raise MewError(
            'The demo needs the MCP server of git; install it with: pip install "mew_lab[lessons]"'
        )


def make_repository(folder: Path, *, message: str = MESSAGE) -> Path:
    """Makes a small git repository in `folder`, with one commit by a fixed author at a fixed date.

    Raises:
        MewError: git failed; with the last line of its output.
    """
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("# The first page\n", encoding="utf-8")
    environment = {key: os.environ[key] for key in ("PATH", "SYSTEMROOT") if key in os.environ}
    for command in (
        ("init", "--quiet", "--initial-branch=main"),
        ("add", "README.md"),
        ("commit", "--quiet", "--no-gpg-sign", "--no-verify", f"--message={message}"),
    ):
        done = subprocess.run(
            ["git", *command],
            cwd=folder,
            env={**environment, "HOME": str(folder), **_GIT},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
            raise MewError(f"git {command[0]} failed in {folder}: {lines[-1]}")
    return folder


def show_demo(
    folder: Path,
    *,
    message: str = MESSAGE,
    say: Callable[[str], object],
    ask: Callable[[str], bool] | None,
    colour: bool = False,
) -> None:
    """Runs the demo in `folder`, which it fills with a repository and a journal.

    Args:
        ask: Asks the human a yes-or-no question; with None a policy approves, and the output says so.

    Raises:
        MewError: A part of the demo is missing or does not start.
    """
    check()
    repository = make_repository(folder / "repository", message=message)
    lab = up("demo", journal=folder / "journal.jsonl")
    try:
        say(f"A space is up at {lab.url}. You are {lab.me.name!r}, its human.")
        command = ["python", "-m", "mcp_server_git", "--repository", repository.name]
        say(f"Starting {ServerProcess(command, cwd=folder).command_line}")
        lab.bridge("git", command, cwd=folder)
        tools = lab.tools()  # a card warns of a tool that no list has shown
        say(f"git has joined: the MCP server of git, with {count_of(len(tools), 'tool')}.")
        bot = lab.join("bot", can="proposer")
        say("bot has joined. It may propose; it may not act.")

        def decide(card: Card) -> str:
            """Decides the proposal; returns the name of the approver for the case of an approval."""
            if ask is None:
                say("No question is asked here: the policy “approve” decides instead of you.")
                lab.decide = Policy.approve()
                return f"the policy “approve” in the name of {lab.me.name}"
            say(str(lab.approve(card) if ask("Approve it?") else lab.reject(card.id)))
            return f"you ({lab.me.name})"

        _propose(bot, {"repo_path": f"./{repository.name}"}, lab.decisions, decide=decide, say=say)
        say("\nThe conversation, one line a message:")
        rows = lab.rows.since(0, 1000)
        for row in rows:
            say(row_line(row, start=rows[0].t, colour=colour))
    finally:
        lab.down()
    say(f"\nEvery message is in the journal {folder / 'journal.jsonl'}")


def _propose(
    bot: Seat,
    arguments: dict[str, str],
    decisions: HumanDecisions,
    *,
    decide: Callable[[Card], str],
    say: Callable[[str], object],
) -> None:
    """Makes `bot` propose a call, has it decided when its card has arrived, and prints the result."""
    arrived = threading.Event()
    cards: list[Card] = []

    def on_change(card: Card) -> None:
        if card.is_open:
            cards.append(card)
            arrived.set()

    unsubscribe = decisions.subscribe(on_change)
    try:
        pending = bot.call("git/git_log", arguments)
        if not arrived.wait(DEADLINE):
            raise MewError(f"The proposal {pending.id} of bot did not reach you in {DEADLINE:.0f} s")
    finally:
        unsubscribe()
    say("\nA proposal waits for your decision:")
    for line in card_lines(cards[0]):
        say(f"  {line}")
    by = decide(cards[0])
    try:
        result = pending.result(DEADLINE)
    except ProposalEnded as ended:
        say(f"The decision: {ended}")
        return
    say(f"The decision: approved by {by}. The result, from git itself:")
    for line in str(result).splitlines():
        say(f"  {line}")
