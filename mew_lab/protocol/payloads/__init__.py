"""The payload models by kind, one file a chapter of the specification. All of them are loaded here.

A model describes; it refuses nothing on the wire: the gateway checks the payloads of the kinds on which it
acts, and no others. Only `mew_lab.protocol.kinds` asks for these, so that a participant which never looks at
a model never loads one.

Spec: §3.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# Each enters its models into `KIND_OF`.
from mew_lab.protocol.payloads import chat, controls, mcp, reasoning, space_management, streams, system  # noqa: F401
from mew_lab.protocol.payloads.payload import KIND_OF, Payload

__all__ = ["KIND_OF", "MODELS"]

MODELS: Final[Mapping[str, type[Payload]]] = MappingProxyType(
    {kind: model for model, kind in KIND_OF.items()}
)
"""All 40 kinds of §3."""
