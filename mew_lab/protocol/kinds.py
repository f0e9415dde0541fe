"""The table of kinds. A new kind is one line.

`sender` may send the kind: `participant`, or `gateway` for reserved ones. `acted_on` is whether the gateway does more
with it than check and relay it: exactly those kinds stand in `space.core.RULES`.

Spec: §3.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mew_lab.protocol.payloads.payload import Payload

__all__ = [
    "ACTED_ON",
    "AFTER_SHUTDOWN",
    "CLOSE_KICKED",
    "CLOSE_TAKEN",
    "CLOSE_UNKNOWN",
    "EXTENSION",
    "GATEWAY",
    "HANDLES",
    "KINDS",
    "RESERVED",
    "WHILE_PAUSED",
    "Kind",
    "is_reserved",
]


GATEWAY = "system:gateway"  # the sender of everything that the gateway says (§3.7, §3.8)
# The codes with which a gateway closes a WebSocket for good: a client of ours does not come back by itself (R8c).
CLOSE_UNKNOWN = 4401  # its token or its space is unknown, or it showed none
CLOSE_KICKED = 4403  # it was removed from the space
CLOSE_TAKEN = 4409  # its id is another's, or that of a connection that answers
EXTENSION = "x-mew-lab"  # the member of a welcome that says what a gateway of ours does beyond the specification (R34)


class Kind(NamedTuple):
    """One row of the table."""

    section: str
    sender: str = "participant"
    acted_on: bool = False
    handle: bool = False

    def model(self, kind: str) -> type[Payload]:
        """The payload model of `kind`; loads the models at the first call."""
        return _load_models()[kind]


@cache
def _load_models() -> Mapping[str, type[Payload]]:
    from mew_lab.protocol.payloads import MODELS

    return MODELS


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "mcp/request": Kind("§3.1.1", handle=True),
        "mcp/response": Kind("§3.1.2"),
        "mcp/proposal": Kind("§3.2", handle=True),
        "mcp/withdraw": Kind("§3.3.1"),
        "mcp/reject": Kind("§3.3.2"),
        "chat": Kind("§3.4"),
        "chat/acknowledge": Kind("§3.4.1"),
        "chat/cancel": Kind("§3.4.2"),
        "reasoning/start": Kind("§3.5.2", handle=True),
        "reasoning/thought": Kind("§3.5.3"),
        "reasoning/conclusion": Kind("§3.5.4"),
        "reasoning/cancel": Kind("§3.5.5"),
        "capability/grant": Kind("§3.6.1", acted_on=True, handle=True),
        "capability/revoke": Kind("§3.6.2", acted_on=True),
        "capability/grant-ack": Kind("§3.6.3"),
        "space/invite": Kind("§3.6.5", acted_on=True, handle=True),
        "space/invite-ack": Kind("§3.6.6", sender="gateway"),
        "space/kick": Kind("§3.6.7", acted_on=True),
        "system/presence": Kind("§3.7", sender="gateway"),
        "system/welcome": Kind("§3.8.1", sender="gateway"),
        "system/error": Kind("§3.8.2", sender="gateway"),
        "participant/pause": Kind("§3.9.1", acted_on=True),
        "participant/resume": Kind("§3.9.2", acted_on=True),
        "participant/request-status": Kind("§3.9.3"),
        "participant/status": Kind("§3.9.4"),
        "participant/forget": Kind("§3.9.5"),
        "participant/compact": Kind("§3.9.6"),
        "participant/compact-done": Kind("§3.9.7"),
        "participant/clear": Kind("§3.9.8"),
        "participant/restart": Kind("§3.9.9", acted_on=True),
        "participant/shutdown": Kind("§3.9.10", acted_on=True),
        "stream/request": Kind("§3.10.1", acted_on=True, handle=True),
        "stream/open": Kind("§3.10.2", acted_on=True),
        "stream/close": Kind("§3.10.4", acted_on=True),
        "stream/grant-write": Kind("§3.10.5", acted_on=True),
        "stream/revoke-write": Kind("§3.10.6", acted_on=True),
        "stream/transfer-ownership": Kind("§3.10.7", acted_on=True),
        "stream/write-granted": Kind("§3.10.5", sender="gateway"),
        "stream/write-revoked": Kind("§3.10.6", sender="gateway"),
        "stream/ownership-transferred": Kind("§3.10.7", sender="gateway"),
    }
)

ACTED_ON = frozenset(kind for kind, row in KINDS.items() if row.acted_on)
HANDLES = frozenset(kind for kind, row in KINDS.items() if row.handle)
RESERVED = frozenset(kind for kind, row in KINDS.items() if row.sender == "gateway")

# What may be sent under a pause, and after a shutdown (§3.9.1, §3.9.10, ruling R14).
WHILE_PAUSED = frozenset(
    {
        "capability/grant-ack",
        "chat/acknowledge",
        "chat/cancel",
        "mcp/reject",
        "mcp/withdraw",
        "participant/compact-done",
        "participant/resume",
        "participant/status",
        "reasoning/cancel",
        "stream/close",
    }
)
AFTER_SHUTDOWN = frozenset({"chat/acknowledge", "participant/status", "stream/close"})


def is_reserved(kind: str) -> bool:
    """Whether only the gateway may send `kind`: everything under `system/`, and the table's gateway rows.

    Spec: §4.1 (Reserved Namespace).
    """
    return kind in RESERVED or kind.startswith("system/") or kind == "system"
