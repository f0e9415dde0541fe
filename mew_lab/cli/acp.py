"""`mew-lab acp`: offers one agent of a running space to an editor, such as Zed, over the Agent Client Protocol.

The editor starts it, speaks with it over stdin and stdout, and is the person whose token is given: prompts are that
person's chat, and the proposals that wait for that person are questions in the editor. It ends with its editor, and
cancels and withdraws nothing then.

What fails is one line on stderr, and the error of the editor's requests.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mew_lab.cli import shell
from mew_lab.errors import ConfigError, MewError

if TYPE_CHECKING:
    from mew_lab.bridge.acp_server import EditorLink, StdioLines

__all__ = ["add_options", "run"]

LAST_ANSWERS = 2.0  # seconds in which an editor is told why this ends
STARTED_WITHIN = 30.0  # seconds
ENDED_WITHIN = 10.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    about = (
        "ws://… of the gateway, or the name of the space that runs in this folder; default: the space of this folder, "
        "else that of MEW_GATEWAY"
    )
    parser.add_argument("where", metavar="SPACE", nargs="?", help=about)
    about = "the participant to whom the prompts go"
    parser.add_argument("--agent", metavar="NAME", required=True, help=about)
    shell.add_elsewhere(parser)


def run(options: argparse.Namespace) -> None:
    """Runs the command with these options.

    Raises:
        MewError: The space cannot be joined, or the connection is lost for good.
    """
    # Here, because it takes a while: the help does not wait for it, and the loop shall not.
    from mew_lab.bridge.acp_server import EditorLink, StdioLines
    from mew_lab.lab.labs import close_all
    from mew_lab.lab.loop import the_loop

    loop, ended = the_loop(), threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())

    async def open_link() -> tuple[StdioLines, EditorLink]:
        lines = StdioLines()
        link = EditorLink(lines, on_unread=lambda why: shell.warn(f"mew-lab acp: the editor: {why}"))
        link.open()
        return lines, link

    async def wait_for_end(*events: asyncio.Event) -> None:
        waits = {asyncio.ensure_future(event.wait()) for event in events}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        ended.set()

    lines, link = loop.run(open_link(), timeout=STARTED_WITHIN, doing="listening to the editor")
    loop.submit(wait_for_end(link.ended, lines.lost))
    try:
        _serve(options, link, ended)
    finally:
        loop.run(link.close(), timeout=ENDED_WITHIN, doing="leaving the editor")
        lines.close()
        close_all()


def _serve(options: argparse.Namespace, link: EditorLink, ended: threading.Event) -> None:
    from mew_lab.lab.call_check import name_absent
    from mew_lab.lab.editor import EditorSessions
    from mew_lab.lab.labs import connect
    from mew_lab.lab.loop import the_loop
    from mew_lab.protocol.visible import one_line

    loop, name = the_loop(), options.agent
    try:
        lab = connect(**_find_space(options))
        me = lab.me.participant
        if name == me.client.id:
            raise MewError(
                f"Cannot offer {one_line(name, 64)!r} to an editor: that is you, and --agent names another one"
            )
    except MewError as fault:
        why = fault
        loop.call(lambda: link.refuse(why))
        loop.run(link.drain(within=LAST_ANSWERS), timeout=ENDED_WITHIN, doing="telling the editor")
        raise
    sessions = EditorSessions(lab, name, link, on_proposal=lab.on_proposal)

    def begin() -> None:
        me.client.on_disconnected(lambda _: ended.set() if me.client.state == "disconnected" else None)
        me.discovery.enable_auto_discovery()  # a card warns of a tool that nobody lists
        sessions.open()
        link.serve(sessions)
        if name not in me.client.participants:
            absent = name_absent([name], me.client.participants)
            shell.warn(f"mew-lab acp: {absent}; no prompt is sent before it is here")

    loop.call(begin)
    ended.wait()
    if me.client.failure is not None:
        loop.run(link.drain(within=LAST_ANSWERS), timeout=ENDED_WITHIN, doing="telling the editor")
    loop.run(sessions.close(), timeout=ENDED_WITHIN, doing="leaving the space")
    shell.raise_failure(me.client)


def _find_space(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `connect` that the options state.

    Raises:
        MewError: An option is missing, or no space is found.
    """
    from mew_lab.lab.folder_space import find_space

    token = {"token_file": options.token_file, "token_env": options.token_env, "as_id": options.as_id}
    where = options.where
    if where is not None and "://" in where:
        shell.check_address(where, options)
        return {"url": where, "space": options.space, **token}
    named = where or options.space
    if options.token_file is None and options.token_env is None:
        return {"url": None, "space": named, **token}
    found = find_space(Path.cwd())
    if named not in (None, found.space):
        raise ConfigError(
            f"The space here is {found.space!r}, and not {named[:64]!r}; leave the name out, or give the address of its "
            "gateway with --space",
            key="space",
        )
    return {"url": found.url, "space": found.space, **token}
