"""What a participant may send about its own messages, whatever its capabilities, at a gateway of ours.

The gateway accepts it where every message in `correlation_id` is the sender's own, and remembered. Its welcome names the
kinds in `x-mew-lab.own`. It also accepts from everybody a request to read a result that was too large for a message. The
participant that keeps the result decides who may read it.

Spec: §3.3.1, §3.4.2, rulings R36, R43.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

__all__ = [
    "KEPT_METHODS",
    "MAX_IDS",
    "MAX_REASON",
    "OWN",
    "READ_RESULT",
    "ResultUri",
    "is_modest",
    "is_result_uri",
    "reads_result",
]

OWN: Mapping[str, str] = MappingProxyType({"mcp/withdraw": "mcp/proposal", "chat/cancel": "chat"})
"""The kinds, each with the kind of message that it ends."""
MAX_IDS = 16
MAX_REASON = 64  # characters


def is_modest(payload: Mapping[str, Any], about: Sequence[str]) -> bool:
    """Whether it names 1 to 16 messages and says nothing but a short reason."""
    reason = payload.get("reason", "")
    return (
        1 <= len(about) <= MAX_IDS
        and payload.keys() <= {"reason"}
        and isinstance(reason, str)
        and len(reason) <= MAX_REASON
    )


# --- results that are kept ---

KEPT_METHODS = frozenset({"tools/call", "resources/read", "prompts/get"})
"""The methods whose results may be kept."""
READ_RESULT = "resources/read"
_SCHEME = "mew-result://"
_RESULT = re.compile(
    r"mew-result://([A-Za-z0-9][A-Za-z0-9._-]{0,63})/([0-9a-f]{32})(?:\?part=([1-9][0-9]{0,5}))?"
)


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


def reads_result(kind: str, payload: Mapping[str, Any], to: Sequence[str], about: Sequence[str] = ()) -> bool:
    """Whether a message does no more than to ask one participant for a kept result. Spec: ruling R43."""
    params, id = payload.get("params"), payload.get("id", 0)
    return (
        kind == "mcp/request"
        and payload.get("method") == READ_RESULT
        and payload.keys() <= {"jsonrpc", "id", "method", "params"}
        and payload.get("jsonrpc", "2.0") == "2.0"
        and (isinstance(id, int) or (isinstance(id, str) and len(id) <= MAX_REASON))
        and isinstance(params, Mapping)
        and params.keys() == {"uri"}
        and ResultUri.read(params["uri"]) is not None
        and len(to) == 1
        and not about
    )
