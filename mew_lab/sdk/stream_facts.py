"""What does the wire tell of a stream?  Read from a welcome, or from a stream/open and its request; pure.

What a gateway sends is read as carefully as anything else: what is no stream is left out. It remembers nothing.

Spec: §3.8.1, §3.10.1, §3.10.2, §3.10.8, ruling R16.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.frames import MAX_ID
from mew_lab.protocol.text import parse_timestamp

__all__ = [
    "MAX_STREAMS",
    "StreamFacts",
    "description_in",
    "facts_in_open",
    "facts_in_welcome",
    "is_stream_id",
    "names_in",
]

MAX_STREAMS = 1000  # active streams that a participant knows
_SERVER = frozenset({"stream_id", "owner", "authorized_writers", "created", "target"})


class StreamFacts(NamedTuple):
    """One stream: `target` empty is everybody; `fields` is all that its request said beside, custom fields too."""

    id: str
    owner: str
    writers: tuple[str, ...]
    target: tuple[str, ...]
    fields: dict[str, Any]
    created: datetime | None


def is_stream_id(value: object) -> bool:
    """Whether frames can name it: 1 to 256 ASCII characters without `#`. Spec: §3.10.3."""
    return isinstance(value, str) and 1 <= len(value) <= MAX_ID and value.isascii() and "#" not in value


def facts_in_welcome(payload: Mapping[str, Any]) -> list[StreamFacts] | None:
    """The active streams that a welcome lists, at most 1000; None where it says nothing of streams."""
    listed = payload.get("active_streams")
    if not isinstance(listed, list):
        return None
    found = (_facts(one, {}) for one in listed[:MAX_STREAMS] if isinstance(one, dict))
    return [one for one in found if one is not None]


def facts_in_open(opened: Envelope, request: Envelope | None) -> StreamFacts | None:
    """The stream that a stream/open tells of; its description stands in the request, where that is known."""
    asked = request.payload if request is not None else {}
    owner = request.sender if request is not None else next(iter(opened.to), "")
    return _facts({"owner": owner, "created": opened.ts, **opened.payload}, asked)


def description_in(said: Mapping[str, Any]) -> dict[str, Any]:
    """What a message says of a stream beside what is the gateway's to say. Spec: ruling R16."""
    return {key: value for key, value in said.items() if key not in _SERVER}


def names_in(value: object) -> tuple[str, ...] | None:
    """The participants that a list names, each once; None when it is no list."""
    if not isinstance(value, list):
        return None
    return tuple(dict.fromkeys(one for one in value if isinstance(one, str) and one))


def _facts(said: Mapping[str, Any], asked: Mapping[str, Any]) -> StreamFacts | None:
    id, owner = said.get("stream_id"), said.get("owner")
    if not is_stream_id(id) or not isinstance(owner, str) or not owner:
        return None
    writers = names_in(said.get("authorized_writers")) or ()
    target = names_in(said.get("target")) or names_in(asked.get("target")) or ()
    writers = (owner, *(one for one in writers if one != owner))
    fields = description_in({**asked, **said})
    return StreamFacts(str(id), owner, writers, target, fields, parse_timestamp(said.get("created")))
