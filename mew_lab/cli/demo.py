"""What is MEW, shown in a terminal in half a minute?  A participant proposes, a human decides, a real server acts.

The story makes a git repository with a commit whose message the caller gives, and lets a participant that may
only propose ask for the log of it. It prints through `say` and asks through `ask`; it reads no arguments and
no keyboard.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from mew_lab.bridge.process import ServerProcess
from mew_lab.cli.terminal import row_line
from mew_lab.errors import MewError, ProposalEnded
from mew_lab.lab.decisions.approving import card_lines
from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.policies import Policy
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import up

__all__ = ["MESSAGE", "check", "make_repository", "tell"]

MESSAGE = "Add the first page"
DEADLINE = 30.0

# Nothing of the user's git is read, and the same message always gives the same commit.
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


def check() -> None:
    """Nothing, where everything that the demo needs is installed.

    Raises:
        MewError: one sentence, when git or mcp-server-git is missing.
    """
    if shutil.which("git") is None:
        raise MewError("the demo needs git, and there is none on PATH; install git and run it again")
    if importlib.util.find_spec("mcp_server_git") is None:
        raise MewError(
            'the demo needs the MCP server of git; install it with: pip install "mew_lab[lessons]"'
        )


def make_repository(folder: Path, *, message: str = MESSAGE) -> Path:
    """A small git repository in `folder` with one commit by a fixed author at a fixed date.

    Raises:
        MewError: what git said, when it failed.
    """
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("# The first page\n", encoding="utf-8")
    environment = {key: os.environ[key] for key in ("PATH", "SYSTEMROOT") if key in os.environ}
    for words in (
        ("init", "--quiet", "--initial-branch=main"),
        ("add", "README.md"),
        ("commit", "--quiet", "--no-gpg-sign", "--no-verify", f"--message={message}"),
    ):
        done = subprocess.run(
            ["git", *words],
            cwd=folder,
            env={**environment, "HOME": str(folder), **_GIT},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
            raise MewError(f"git {words[0]} failed in {folder}; it said: {said[-1]}")
    return folder


def tell(
    folder: Path,
    *,
    message: str = MESSAGE,
    say: Callable[[str], object],
    ask: Callable[[str], bool] | None,
    colour: bool = False,
) -> None:
    """Tells the story in `folder`, which it fills with a repository and a journal.

    Args:
        ask: Asks the human a yes-or-no question; None lets a policy approve, and says so.

    Raises:
        MewError: one sentence, when a part of it cannot be had.
    """
    check()
    repository = make_repository(folder / "repository", message=message)
    lab = up("demo", journal=folder / "journal.jsonl")
    try:
        say(f"A space is up at {lab.url}. You are {lab.me.name!r}, its human.")
        command = ["python", "-m", "mcp_server_git", "--repository", str(repository)]
        say(f"Starting {ServerProcess(command, cwd=folder).command_line}")
        lab.bridge("git", command, cwd=folder)
        say("git has joined: the MCP server of git, with its tools.")
        lab.join("bot", can="proposer")
        say("bot has joined. It may propose; it may not act.")
        _decide(lab, {"repo_path": str(repository)}, say=say, ask=ask)
        say("\nThe conversation, one line an envelope:")
        rows = lab.rows.since(0, 1000)
        for row in rows:
            say(row_line(row, start=rows[0].t, colour=colour))
    finally:
        lab.down()
    say(f"\nEvery message stands in the journal {folder / 'journal.jsonl'}")


def _decide(
    lab: Lab, arguments: dict[str, str], *, say: Callable[[str], object], ask: Callable[[str], bool] | None
) -> None:
    arrived = threading.Event()
    cards: list[Card] = []

    def on_change(card: Card) -> None:
        if card.is_open:
            cards.append(card)
            arrived.set()

    end = lab.decisions.subscribe(on_change)
    try:
        pending = lab.seats["bot"].call("git/git_log", arguments)
        if not arrived.wait(DEADLINE):
            raise MewError(f"the proposal {pending.id} of bot did not reach you in {DEADLINE:.0f} s")
    finally:
        end()
    say("\nA proposal waits for you:")
    for line in card_lines(cards[0]):
        say(f"  {line}")
    who = f"you ({lab.me.name})"
    if ask is None:
        who = f"the policy “approve” in the name of {lab.me.name}"
        say("Nobody is asked here: the policy “approve” decides instead of you.")
        lab.decide = Policy.approve()
    elif ask("Approve it?"):
        say(str(lab.approve(cards[0])))
    else:
        say(str(lab.reject(pending.id)))
    try:
        result = pending.result(DEADLINE)
    except ProposalEnded as ended:
        say(f"The decision: {ended}")
        return
    say(f"The decision: approved by {who}. The result, from git itself:")
    for line in result.text.splitlines():
        say(f"  {line}")
