"""Makes records of the bytes between an MCP client and an MCP server, as a relay passes them on.

A `TapRecorder` gets the bytes of each direction in pieces of any size. Each complete line is one JSON-RPC message and
becomes one record whose envelope is an `mcp/request` (a notification, too: it has no `id`) or an `mcp/response`. The
payload is the exact text of the message, and the response's `correlation_id` names the request that it answers. What is
no JSON-RPC message is kept as it came, as a line that cannot be read. An object that is none is the payload of an
envelope of the kind `tap/line`, so that it is not read as an envelope of its own making. Of a line over `MAX_MESSAGE`
only the size and the SHA-256 are kept. Secrets are masked here, and only here: the relay passes on what came.

Nobody decides anything at this vantage, so the records have no verdict. This module has no clock, no input and no
output.

Spec: §3.1, §3.6.8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, Literal

from mew_lab.log.line import CHAIN_BYTES, read_members, write_line
from mew_lab.log.reading import LINE_LIMIT
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import PROTOCOL, compact
from mew_lab.protocol.text import count_of, timestamp
from mew_lab.protocol.token import mask
from mew_lab.space.events import Record

__all__ = ["LINE_KIND", "LOST", "MASKED", "MAX_MESSAGE", "Side", "TapRecorder", "key_of", "mask_secrets"]

Side = Literal["client", "server"]
MAX_MESSAGE: Final = 4 * 1024 * 1024  # bytes of a line that is kept whole
MAX_OPEN: Final = 20_000  # two for each of the requests of one side that may still be answered
MASKED: Final = "<masked>"
NO_LINE: Final = "not a JSON-RPC message"
LINE_KIND: Final = "tap/line"
"""The kind of an object that is no JSON-RPC message."""
LOST: Final = "lost"
"""The event of bytes or records that are not in the log."""

# Names of members whose text is a secret. A progress token is none, and a schema's member is an object, not a text.
_NAMED_SECRET = re.compile(
    r'("(?!progress_?token")[\w.-]*(?:token|secret|password|passwd|api[-_]?key|authorization|cookie)"\s*:\s*)'
    r'"(?:[^"\\]|\\.)*"',
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b(Bearer|Basic)(\s+)[A-Za-z0-9._~+/=-]{8,}")


def mask_secrets(text: str) -> tuple[str, int]:
    """The text with its secrets masked, and their number: known tokens, credentials, and members named like one."""
    known = mask(text)
    found = known != text
    text, named = _NAMED_SECRET.subn(rf'\1"{MASKED}"', known)
    text, bearers = _BEARER.subn(rf"\1\2{MASKED}", text)
    return text, found + named + bearers


class _LineSplitter:
    """The complete lines of one direction; of a line over `MAX_MESSAGE` only its size and digest."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._digest = sha256()
        self._skipping = False  # up to the end of a line whose beginning was lost

    def feed(self, data: bytes) -> Iterator[bytes | tuple[int, str]]:
        """The lines that end in `data`, without their line feeds, and size and SHA-256 of those that are too long."""
        *ended, rest = data.split(b"\n")
        for part in ended:
            self._add(part)
            yield from self.end()
        self._add(rest)

    def end(self) -> Iterator[bytes | tuple[int, str]]:
        """The line up to here."""
        if self._size and not self._skipping:
            yield (
                b"".join(self._parts) if self._size <= MAX_MESSAGE else (self._size, self._digest.hexdigest())
            )
        self._parts, self._size, self._digest, self._skipping = [], 0, sha256(), False

    def skip(self) -> None:
        """Forgets the line that has begun, and leaves out the rest of it."""
        self._parts, self._size, self._digest, self._skipping = [], 0, sha256(), True

    def _add(self, part: bytes) -> None:
        if not part or self._skipping:
            return
        self._size += len(part)
        self._digest.update(part)
        if self._size <= MAX_MESSAGE:
            self._parts.append(part)
        else:
            self._parts = []


class TapRecorder:
    """The records of one session between a client and a server, from the bytes of each direction.

    The `seq` of all records is 0: who writes them numbers them.

    Args:
        space: The name that the records have as their space.
        prefix: The beginning of the ids of envelopes, different for each session.
        via: `stdio` or `http`.
    """

    def __init__(self, *, space: str, prefix: str, via: str) -> None:
        self.space = space
        self.messages = 0
        self._prefix = prefix
        self._via = via
        self._lines: dict[Side, _LineSplitter] = {"client": _LineSplitter(), "server": _LineSplitter()}
        # JSON-RPC id, and progress token, of each side's open requests -> the id of the envelope
        self._open: dict[Side, BoundedDict[Any, str]] = {
            "client": BoundedDict(MAX_OPEN),
            "server": BoundedDict(MAX_OPEN),
        }
        self._progress: dict[Side, BoundedDict[Any, str]] = {
            "client": BoundedDict(MAX_OPEN),
            "server": BoundedDict(MAX_OPEN),
        }

    def began(self, side: Side, now: datetime, about: str = "") -> Record:
        """The record of the beginning of a side; `about` describes it, with its secrets masked."""
        return self._record("joined", side, now, detail=mask_secrets(about)[0])

    def feed(self, side: Side, data: bytes, now: datetime) -> Iterator[Record]:
        """The records of the lines that `data` ends, which `side` sent."""
        for line in self._lines[side].feed(data):
            yield from self._read(side, line, now)

    def ended(self, side: Side, now: datetime, why: str = "") -> Iterator[Record]:
        """The records of a line without its end, and of the end of a side."""
        for line in self._lines[side].end():
            yield from self._read(side, line, now)
        yield self._record("left", side, now, detail=why)

    def lost(self, side: Side, size: int, now: datetime) -> Record:
        """The record of bytes that were passed on and are not in the log; the line that they cut is left out."""
        self._lines[side].skip()
        return self._record(LOST, side, now, detail=compact({"bytes": size}))

    def message(self, side: Side, data: bytes, now: datetime, *, connection: str = "") -> Iterator[Record]:
        """The records of one message, or of a batch, that `side` sent whole."""
        if len(data) > MAX_MESSAGE:
            yield from self._read(side, (len(data), sha256(data).hexdigest()), now, connection)
        elif data.strip():
            yield from self._read(side, data, now, connection)

    def _read(
        self, side: Side, line: bytes | tuple[int, str], now: datetime, connection: str = ""
    ) -> Iterator[Record]:
        if isinstance(line, tuple):
            yield self._oversize(side, now, *line, connection)
            return
        if not line.strip():
            return
        text, masked = mask_secrets(line.strip(b" \t\r").decode("utf-8", "surrogateescape"))
        note = f"{count_of(masked, 'secret')} masked" if masked else ""
        if text.startswith("["):
            batch = read_members(b'{"batch":' + text.encode("utf-8", "surrogateescape") + b"}") or {}
            parts = batch.get("batch") or ()
            if parts and all(type(part) is dict for part in parts):
                for part in parts:
                    yield from self._envelope(side, part, compact(part), now, note, connection)
                return
        try:
            members = read_members(text.encode())
        except UnicodeEncodeError:  # invalid UTF-8
            members = None
        if members is None:
            detail = f"{NO_LINE}; {note}" if note else NO_LINE
            yield self._record("received", side, now, detail=detail, raw=text, connection=connection)
            return
        yield from self._envelope(side, members, text, now, note, connection)

    def _envelope(
        self, side: Side, members: dict[str, Any], text: str, now: datetime, note: str, connection: str
    ) -> Iterator[Record]:
        other: Side = "server" if side == "client" else "client"
        self.messages += 1
        id = f"{self._prefix}-{self.messages}"
        method, key = members.get("method"), key_of(members.get("id"))
        about: str | None = None
        if not {"method", "result", "error"} & members.keys():
            kind, note = LINE_KIND, f"{NO_LINE}; {note}" if note else NO_LINE
        elif method is not None:
            kind = "mcp/request"
            params = members.get("params")
            params = params if type(params) is dict else {}
            meta = params.get("_meta")
            if key is not None:
                self._open[side][key] = self._open[side][connection, key] = id
                token = key_of(meta.get("progressToken")) if type(meta) is dict else None
                if token is not None:
                    self._progress[side][token] = id
            elif method == "notifications/cancelled":
                about = self._open[side].get(key_of(params.get("requestId")))
            elif method == "notifications/progress":
                about = self._progress[other].get(key_of(params.get("progressToken")))
        else:
            kind = "mcp/response"
            about = self._answered(other, key, connection)
        head = {
            "protocol": PROTOCOL,
            "id": id,
            "ts": timestamp(now),
            "from": side,
            "to": [other],
            "kind": kind,
        }
        if about is not None:
            head["correlation_id"] = [about]
        raw = f'{compact(head)[:-1]},"payload":{text}}}'
        record = self._record("received", side, now, detail=note, raw=raw, connection=connection)
        # Only a text with many escapes is longer in the journal than here.
        if len(text) > LINE_LIMIT // 8 and len(write_line(record)) + CHAIN_BYTES > LINE_LIMIT:
            data = text.encode("utf-8", "surrogateescape")
            record = self._oversize(side, now, len(data), sha256(data).hexdigest(), connection)
        yield record

    def _answered(self, asker: Side, key: Any, connection: str) -> str | None:
        """The id of the request that a response answers: one of its own connection before one of another."""
        requests = self._open[asker]
        id = requests.pop((connection, key), None) or requests.get(key)
        if id is not None and requests.get(key) == id:
            del requests[key]
        return id

    def _oversize(self, side: Side, now: datetime, size: int, digest: str, connection: str) -> Record:
        detail = compact({"size": size, "sha256": digest})
        return self._record("oversize", side, now, detail=detail, connection=connection)

    def _record(
        self,
        event: str,
        side: Side,
        now: datetime,
        *,
        detail: str,
        raw: str | None = None,
        connection: str = "",
    ) -> Record:
        return Record(
            0,
            now,
            event,
            self.space,
            side,
            connection,
            self._via,
            detail=detail,
            raw=raw,
        )


def key_of(value: object) -> Any:
    """A JSON-RPC id as a key, in which `1`, `1.0` and `"1"` differ; None for what is no id."""
    return (type(value).__name__, value) if type(value) in (str, int, float) else None
