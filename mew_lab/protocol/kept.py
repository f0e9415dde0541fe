"""Results that no message can hold: how they are named, what is sent in their place, and who may ask for them.

The participant that executed the call keeps the result, and answers with a head: a result of the same method that says
in a sentence, and in its `_meta`, what is kept and where. A gateway of ours lets everybody ask for it, by a request that
says nothing else. The participant that keeps it decides who gets it.

Spec: ruling R43.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mew_lab.protocol.coerce import member, text_of, texts_of

__all__ = [
    "EDITION_OF_KEPT",
    "KEPT",
    "KEPT_METHODS",
    "READ_RESULT",
    "ResultHead",
    "ResultUri",
    "is_result_uri",
    "reads_result",
]

KEPT = "mew-lab/kept"
"""The member of `_meta` that makes a result the head of a kept one."""
KEPT_METHODS = frozenset({"tools/call", "resources/read", "prompts/get"})
"""The methods whose results may be kept."""
READ_RESULT = "resources/read"
EDITION_OF_KEPT = 4
"""The edition from which on a gateway of ours lets everybody ask."""
MAX_RPC_ID = 64  # characters
MAX_HELD, MAX_HOLDS = 6, 200  # items that a head describes, and characters of each
_SCHEME = "mew-result://"
_RESULT = re.compile(
    r"mew-result://([A-Za-z0-9][A-Za-z0-9._-]{0,63})/([0-9a-f]{32})(?:\?part=([1-9][0-9]{0,5}))?"
)
_DIGEST = re.compile("[0-9a-f]{64}")


class ResultUri(NamedTuple):
    """The address of a kept result: the participant that keeps it, its id, and the number of a part; 0 for the whole."""

    participant: str
    id: str
    part: int = 0

    @classmethod
    def read(cls, uri: object) -> ResultUri | None:
        """The address in a URI; None where it is none."""
        match = _RESULT.fullmatch(uri) if isinstance(uri, str) else None
        return None if match is None else cls(match[1], match[2], int(match[3] or 0))

    def __str__(self) -> str:
        return f"{_SCHEME}{self.participant}/{self.id}" + (f"?part={self.part}" if self.part else "")


def is_result_uri(uri: object) -> bool:
    """Whether it has the scheme of kept results."""
    return isinstance(uri, str) and uri.startswith(_SCHEME)


class ResultHead(NamedTuple):
    """What is sent in place of a kept result.

    Attributes:
        uri: Its address.
        size: The bytes of the whole result, a JSON text in UTF-8, and `sha256` their digest.
        expires: When it is deleted, as an RFC 3339 text.
        parts: The number of its parts, each of which fits into a message.
        holds: What it holds, a few words for each of its first items, by the account of its participant.
    """

    uri: ResultUri
    size: int
    sha256: str
    expires: str
    parts: int
    holds: tuple[str, ...] = ()

    @classmethod
    def of(cls, result: object) -> ResultHead | None:
        """The head that a result is; None where it is a whole result."""
        told = member(result, "_meta", KEPT)
        if not isinstance(told, Mapping):
            return None
        uri = ResultUri.read(told.get("uri"))
        size, digest, expires, parts = (told.get(name) for name in ("size", "sha256", "expires", "parts"))
        if uri is None or not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            return None
        if type(size) is not int or size < 0 or type(parts) is not int or parts < 0:
            return None
        holds = tuple(text[:MAX_HOLDS] for text in texts_of(told.get("holds"))[:MAX_HELD])
        return cls(uri, size, digest, text_of(expires), parts, holds)

    @property
    def meta(self) -> dict[str, Any]:
        """The member of `_meta` that tells it."""
        told = {"uri": str(self.uri), "type": "application/json", "size": self.size, "sha256": self.sha256}
        told |= {"expires": self.expires, "parts": self.parts, "part": f"{self.uri}?part=1"}
        return {**told, "holds": list(self.holds)} if self.holds else told


def reads_result(kind: str, payload: Mapping[str, Any], to: Sequence[str], about: Sequence[str] = ()) -> bool:
    """Whether a message does no more than to ask one participant for a kept result."""
    params, id = payload.get("params"), payload.get("id", 0)
    return (
        kind == "mcp/request"
        and payload.get("method") == READ_RESULT
        and payload.keys() <= {"jsonrpc", "id", "method", "params"}
        and payload.get("jsonrpc", "2.0") == "2.0"
        and (isinstance(id, int) or (isinstance(id, str) and len(id) <= MAX_RPC_ID))
        and isinstance(params, Mapping)
        and params.keys() == {"uri"}
        and ResultUri.read(params["uri"]) is not None
        and len(to) == 1
        and not about
    )
