"""The shell that the programs run in: output, a yes-or-no question, signals and the event loop.

All output goes through `say`, `warn` and `tell_failure`, so that no text of a peer moves the cursor or hides.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mew_lab.errors import ConfigError, MewError
from mew_lab.protocol.address import Address
from mew_lab.protocol.visible import for_terminal
from mew_lab.sdk.connection import address

if TYPE_CHECKING:
    from mew_lab.sdk.client import MEWClient

__all__ = [
    "Formatter",
    "add_elsewhere",
    "add_mcp_config",
    "add_model_server",
    "ask_yes_or_no",
    "check_address",
    "end_on_signal",
    "end_when_lost",
    "is_terminal",
    "log_to_stderr",
    "new_runner",
    "raise_failure",
    "read_key",
    "ring",
    "say",
    "tell_error",
    "tell_failure",
    "use_colour",
    "warn",
    "width",
]


def say(text: str) -> None:
    """Prints a text to stdout, with control characters made visible."""
    print(for_terminal(text), flush=True)


def is_terminal() -> bool:
    """Whether a person types into a terminal that moves its cursor, and reads there."""
    is_plain = os.environ.get("TERM", "dumb") in ("", "dumb", "unknown") and os.name != "nt"
    return sys.stdin.isatty() and sys.stdout.isatty() and not is_plain


def width() -> int:
    """The columns of the terminal, or 0 where the output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def ring() -> None:
    """Rings the bell of the terminal, once; nothing where the output goes elsewhere."""
    if sys.stdout.isatty():
        print("\a", end="", flush=True)


def warn(text: str) -> None:
    """Prints a line to stderr, with control characters made visible."""
    print(for_terminal(text), file=sys.stderr, flush=True)


def tell_failure(command: str, sentence: str) -> None:
    """Prints the reason why a command failed, as one line on stderr."""
    warn(f"mew-lab {command}: {' '.join(sentence.split())}")


def tell_error(error: BaseException | None) -> None:
    """Prints a traceback to stderr, with control characters made visible: it may quote a peer."""
    if error is not None:
        warn("".join(traceback.format_exception(error)).rstrip("\n"))


class Formatter(logging.Formatter):
    """Formats log lines for a terminal, with control characters made visible."""

    def format(self, record: logging.LogRecord) -> str:
        return for_terminal(super().format(record))


def log_to_stderr(level: str) -> None:
    """Sends the log of this process to stderr, from `level` on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])


def use_colour(options: argparse.Namespace) -> bool:
    """Whether lines are coloured: on a terminal, unless --no-color or NO_COLOR is set."""
    return not options.no_color and not os.environ.get("NO_COLOR") and sys.stdout.isatty()


def ask_yes_or_no(question: str) -> bool:
    """Asks until the answer is yes or no; returns whether it is yes. The end of the input is a no."""
    while True:
        try:
            answer = input(f"{question} [y/n] ").strip().lower()
        except EOFError:
            return False
        if answer in ("y", "yes", "n", "no"):
            return answer.startswith("y")


def check_address(url: str, options: argparse.Namespace) -> None:
    """Checks `url`, and that the options name the space and the token with which it is joined.

    Raises:
        MewError: One of them is missing, or `url` is no address of a gateway.
    """
    address(url, options.space or "")
    url = Address(url)
    if not options.space:
        raise MewError(f"Cannot join {url}: give --space NAME, as printed when the space was started")
    if options.token_file is None and options.token_env is None:
        raise MewError(f"Cannot join {url}: give --token-file PATH or --token-env NAME")


def add_elsewhere(parser: argparse.ArgumentParser) -> None:
    """Adds the options that name a space of another process, its token and the participant."""
    parser.add_argument("--space", metavar="S", help="the name of the space")
    token = parser.add_mutually_exclusive_group()
    token.add_argument(
        "--token-file", metavar="PATH", type=Path, help="the file that holds the token, readable by you alone"
    )
    token.add_argument("--token-env", metavar="NAME", help="the environment variable that holds the token")
    parser.add_argument("--as", dest="as_id", metavar="ID", help="the participant id to join with")


def add_mcp_config(parser: argparse.ArgumentParser) -> None:
    """Adds the options for the servers of the file of an MCP client."""
    about = "the file of an MCP client, such as .mcp.json, whose servers take part; each is asked for once"
    parser.add_argument("--mcp-config", type=Path, metavar="FILE", help=about)
    about = "allows the entry of this digest without a question; may be repeated"
    parser.add_argument("--trust-config", action="append", default=[], metavar="SHA256", help=about)


def add_model_server(parser: argparse.ArgumentParser) -> None:
    """Adds the options for the server of a model, whose key `read_key` reads."""
    about = "the address of a server of the chat completions API that has the model"
    parser.add_argument("--base-url", metavar="URL", help=about)
    about = "the environment variable that holds that server's key; default: OPENAI_API_KEY"
    parser.add_argument("--key-env", metavar="NAME", help=about)


def read_key(variable: str | None) -> str | None:
    """The key in an environment variable; None where no variable is named.

    Raises:
        ConfigError: The variable is not set.
    """
    if variable is None:
        return None
    if not os.environ.get(variable):
        raise ConfigError(f"The environment variable {variable[:80]} is not set", key="key_env")
    return os.environ[variable]


def new_runner() -> asyncio.Runner:
    """Returns a runner of uvloop's event loop where that is installed, else of the standard one."""
    try:
        import uvloop
    except ImportError:
        return asyncio.Runner()
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return asyncio.Runner(loop_factory=factory)


def end_on_signal() -> asyncio.Event:
    """Returns an event that SIGINT or SIGTERM sets. To be called on the running loop."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, ended.set)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(ended.set))
    return ended


def end_when_lost(client: MEWClient, ended: asyncio.Event) -> None:
    """Sets `ended` when the client's connection is lost for good; `raise_failure` then says why."""
    client.on_disconnected(lambda _: ended.set() if client.state == "disconnected" else None)


def raise_failure(client: MEWClient) -> None:
    """Raises the error that disconnected the client for good, where there is one."""
    if isinstance(client.failure, MewError):
        raise client.failure
