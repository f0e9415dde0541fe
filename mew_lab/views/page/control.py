"""Lets a person's shell ask the process that serves a page for a link, or to end its sessions.

The process keeps a token in a file below `.mew/pages`, which its user alone can read. It holds the port, too.
"""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Literal, NamedTuple

from mew_lab.errors import ConfigError, ConnectionLost
from mew_lab.gateway.auth import read_token_file, token_path, write_token_file
from mew_lab.protocol.token import Token

__all__ = ["Answered", "ask_page", "forget_control", "keep_control"]

NAME = "page"
WITHIN = 10.0  # seconds


class Answered(NamedTuple):
    """The sentence with which a page has answered, and the link in it; empty where there is none."""

    said: str
    url: str


def keep_control(folder: Path, space: str, token: Token) -> None:
    """Writes the token of the page of this space. ConfigError when that is not possible."""
    write_token_file(_pages(folder), space, NAME, token)


def forget_control(folder: Path, space: str) -> None:
    """Deletes it."""
    token_path(_pages(folder), space, NAME).unlink(missing_ok=True)


def ask_page(folder: Path, space: str, act: Literal["link", "end"]) -> Answered:
    """Asks the process that serves the page of this space from `folder`.

    Raises:
        ConfigError: None does, or what it keeps cannot be read.
        ConnectionLost: It does not answer.
    """
    path = token_path(_pages(folder), space, NAME)
    if not path.is_file():
        raise ConfigError(
            f"No page of the space {space[:80]!r} is served from {folder}; start it there with mew-lab serve --ui",
            key="ui",
        )
    token = read_token_file(path)
    port = token.reveal().partition(".")[0]
    try:
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=WITHIN)
        headers = {"authorization": f"Bearer {token.reveal()}", "content-type": "application/json"}
        connection.request("POST", "/ui/control", json.dumps({"act": act}), headers)
        answer = connection.getresponse()
        body = answer.read(64 * 1024).decode("utf-8", "replace")
        connection.close()
    except (OSError, ValueError, http.client.HTTPException):
        raise ConnectionLost(
            f"The page of the space {space[:80]!r} does not answer; was its process ended?"
        ) from None
    if answer.status != 200:
        raise ConfigError(f"The page of the space {space[:80]!r} refused that: {body[:200]}", key="ui")
    members = json.loads(body)
    return Answered(str(members["said"]), str(members["url"]))


def _pages(folder: Path) -> Path:
    return folder / ".mew" / "pages"
