"""A row of the list of streams, with bounds for every text of a peer, and the kinds of content that can be shown.

The bytes of a stream may differ from its description, so a person can always choose another kind.

Spec: §3.10.1, §3.10.2, ruling R16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mew_lab.ledger.streams import StreamFacts
from mew_lab.sdk.participant import MEWParticipant

__all__ = [
    "FLOATS",
    "KINDS",
    "MAX_TEXT",
    "NAMES",
    "NUMERIC",
    "OWNER_ACTIONS",
    "PICTURES",
    "Kind",
    "StreamRow",
    "fields_of",
    "kind_of",
    "people",
    "row_of",
    "text_in",
]

Kind = Literal["text", "json", "hex", "numbers", "image"]
KINDS: tuple[Kind, ...] = ("text", "json", "hex", "numbers", "image")
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
FLOATS = {"float32": "<f", "float64": "<d"}
NUMERIC = ("text/x-numbers", "application/x-numbers", "text/csv", "text/tab-separated-values")


def kind_of(content_type: str, format: str) -> Kind:
    """The kind in which a stream is shown first, from the content type and the format of its request; `text` by default.

    Only the four types of picture that cannot hold script are `image`; SVG and HTML are `text`.
    """
    mime = content_type.split(";")[0].strip().lower()
    form = format.strip().lower()
    if mime in PICTURES:
        return "image"
    if form in FLOATS or form in ("numbers", "number") or mime in NUMERIC:
        return "numbers"
    if form in ("jsonl", "ndjson", "json", "json-lines") or mime.endswith(("json", "jsonl", "-json-seq")):
        return "json"
    if form.startswith("binary") or mime == "application/octet-stream":
        return "hex"
    if mime.startswith(("audio/", "video/", "font/", "image/")) and not mime.endswith("+xml"):
        return "hex"
    return "text"


MAX_TEXT = 300  # characters of a text that a peer chose
NAMES = 100  # writers or targets that a row names
OWNER_ACTIONS = ("close", "grant-write", "revoke-write", "transfer-ownership")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRow:
    """The present state of one stream, or of a request for one. `key` is unique in this process; times are in seconds
    of the epoch.

    `id` is empty until the gateway has opened the stream. `reason` is why it was closed or refused. `reaches` is whether
    its frames are sent to this human. `may` holds the OWNER_ACTIONS that the human may take: the human owns the stream
    and holds the capability.
    """

    key: int
    id: str
    state: Literal["requested", "open", "closed", "refused"]
    owner: str
    reason: str = ""
    writers: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    direction: str = "upload"
    description: str = ""
    content_type: str = ""
    format: str = ""
    encoding: str = ""
    expected: int | None = None
    since: float = 0.0
    until: float | None = None
    late: bool = False
    mine: bool = False
    reaches: bool = True
    may: frozenset[str] = frozenset()

    @property
    def kind(self) -> Kind:
        """The kind in which it is shown first."""
        return kind_of(self.content_type, self.format)


def text_in(fields: Mapping[str, Any], key: str) -> str:
    """The text of that field, at most 300 characters of it; empty when it is not a text."""
    value = fields.get(key)
    return value[:MAX_TEXT] if isinstance(value, str) else ""


def people(names: Sequence[str]) -> tuple[str, ...]:
    """The first 100 names, at most 300 characters of each."""
    return tuple(name[:MAX_TEXT] for name in names[:NAMES])


def fields_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The description of a stream in its request, as members of a `StreamRow`. Spec: §3.10.1."""
    size = fields.get("expected_size_bytes")
    return {
        "direction": text_in(fields, "direction") or "upload",
        "description": text_in(fields, "description"),
        "content_type": text_in(fields, "content_type"),
        "format": text_in(fields, "format"),
        "encoding": text_in(fields, "encoding"),
        "expected": size if type(size) is int and 0 <= size < 2**53 else None,
    }


def row_of(stream: StreamFacts, *, key: int, me: MEWParticipant, since: float) -> StreamRow:
    """The row of an open stream as `me` sees it; `since` is used when its time of opening is not known."""
    about, mine = {"stream_id": stream.id}, stream.owner == me.client.id
    may = {name for name in OWNER_ACTIONS if mine and me.can_send(f"stream/{name}", about, "gateway")}
    return StreamRow(
        key=key,
        id=stream.id,
        state="open",
        owner=stream.owner[:MAX_TEXT],
        writers=people(stream.writers),
        target=people(stream.target),
        since=stream.created.timestamp() if stream.created else since,
        late=stream.late,
        mine=mine,
        reaches=not stream.target or me.client.id in stream.target,
        may=frozenset(may),
        **fields_of(stream.fields),
    )
