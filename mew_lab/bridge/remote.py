"""The address of an MCP server that runs elsewhere, with the headers that its requests need.

Spec: MCP 2025-11-25 (transports), threat 28.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mew_lab.bridge.process import Spool
from mew_lab.bridge.secrets import remember_secret
from mew_lab.errors import ConfigError
from mew_lab.protocol.address import Address, is_this_machine
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.token import Token
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.result_store import UnreadResult
from mew_lab.settings.environment import fill_settings

__all__ = ["TRANSPORTS", "RemoteServer", "is_lost_answer", "is_url"]

# Code and beginning of the library's own errors where it sent a request, and no answer came that can be read.
_LOST = (
    (-32700, "Failed to parse SSE message: "),
    (-32700, "Failed to parse JSON response: "),
    (-32600, "Unexpected content type: "),
    (-32600, "server answered a request with 202 Accepted"),
    (-32000, "SSE stream failed: "),
    (-32000, "SSE stream ended without a response"),
    (-32000, "SSE stream ended and reconnection attempts were exhausted"),
)

TRANSPORTS = ("http", "sse")
MAX_UNREAD = 256
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_VALUE = re.compile(r"[\x20-\x7e]{0,8192}")


def is_url(text: str) -> bool:
    """Whether a text is the address of a server, and no command."""
    return text.lower().startswith(("http://", "https://"))


class RemoteServer:
    """An MCP server at a URL. Its headers are in no text of it. `fault` is why the last request failed, or empty.

    Args:
        url: an `http` or `https` address without a user name.
        headers: names and values; `${NAME}` in a value is that environment variable. A `Token` is taken as it stands.
        transport: `http` for streamable HTTP, `sse` for the older one; None takes `sse` where the path of the URL ends
            with `/sse`.
        spool: makes the files for long answers; without it, only both ends of them are kept.

    Raises:
        ConfigError: the address or a header is not valid, a variable is not set, or headers would leave this machine
            unencrypted.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        transport: str | None = None,
        spool: Spool | None = None,
    ) -> None:
        self.spool = spool
        # Results whose keys are on their way through the library. A call that was cancelled leaves its own.
        self.unread: BoundedDict[str, UnreadResult] = BoundedDict(MAX_UNREAD)
        self.url = Address(url)
        try:
            parts = self.url.parts
            host = parts.hostname
        except ValueError:
            raise ConfigError(f"{self.url!r} is no URL of an MCP server", key="url") from None
        if parts.scheme not in ("http", "https") or not host:
            problem = "the address of an MCP server begins with http:// or https:// and has a host"
            raise ConfigError(f"{self.url!r} is no URL of an MCP server: {problem}", key="url")
        if self.url.find_secret() == "a user or password":
            problem = (
                "a user name or password does not belong into a URL; give a header, such as Authorization"
            )
            raise ConfigError(f"Cannot use {self.url!r}: {problem}", key="url")
        if transport not in (None, *TRANSPORTS):
            raise ConfigError(
                f"{one_line(str(transport), 40)!r} is no transport of an MCP server at a URL; take http or sse",
                key="transport",
            )
        self.fault = ""
        self.transport = transport or ("sse" if parts.path.endswith("/sse") else "http")
        self._headers = {name: _header(name, value) for name, value in (headers or {}).items()}
        if self._headers and parts.scheme == "http" and not is_this_machine(host):
            raise ConfigError(
                f"Cannot send headers to {self.url}: the connection is not encrypted; use https",
                key="headers",
            )

    def __repr__(self) -> str:
        return f"<RemoteServer {self.command_line}>"

    @property
    def command_line(self) -> str:
        """The address without its query, the transport, and the names of the headers; no value of a header."""
        word = "streamable HTTP" if self.transport == "http" else "SSE"
        names = f", with {', '.join(self._headers)}" if self._headers else ""
        return f"{self.url} ({word}{names})"

    @property
    def headers(self) -> dict[str, str]:
        """The headers of each request, secrets included."""
        return dict(self._headers)

    @property
    def pid(self) -> int:
        """0: the server is no process of this machine."""
        return 0

    async def start(self) -> None:
        """Does nothing: the server runs already."""

    async def stop(self) -> None:
        """Does nothing: the server belongs to somebody else."""

    async def describe_end(self) -> str:
        """A short text on how the connection ended, or why there is none."""
        return self.fault or "closed the connection"


def _header(name: str, value: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{one_line(name, 80)!r} is no name of a header", key="headers")
    filled = value.reveal() if isinstance(value, Token) else str(fill_settings(value, key=f"header {name}"))
    if not _VALUE.fullmatch(filled):
        raise ConfigError(
            f"The value of the header {name} is not printable ASCII text of at most 8192 characters",
            key="headers",
        )
    for word in filled.split():
        remember_secret(word)
    return filled


def is_lost_answer(code: int, message: str) -> bool:
    """Whether an error says that a request went out over HTTP and no answer came that can be read.

    The library reports this like an error of the server, with a message of its own.
    """
    return any(code == own and message.startswith(begin) for own, begin in _LOST)
