"""Payloads of the messages about streams. The frames themselves are no envelopes.

Spec: §3.10.
"""

from __future__ import annotations

from typing import Any, Literal

from mew_lab.protocol.payloads.payload import Payload

__all__ = [
    "StreamClose",
    "StreamGrantWrite",
    "StreamOpen",
    "StreamOwnershipTransferred",
    "StreamRequest",
    "StreamRevokeWrite",
    "StreamTransferOwnership",
    "StreamWriteGranted",
    "StreamWriteRevoked",
]


class StreamRequest(Payload):
    """A stream is wanted. Without `target`, or with none in it, everybody gets the frames. Custom fields are
    kept.

    `direction` is required; that peers leave it out is for the gateway to allow.

    Spec: §3.10.1.
    """

    direction: Literal["upload", "download"]
    expected_size_bytes: int | None = None
    description: str | None = None
    content_type: str | None = None
    format: str | None = None
    target: list[str] | None = None
    metadata: dict[str, Any] | None = None


class StreamOpen(Payload):
    """A stream is open under `stream_id`.

    Spec: §3.10.2.
    """

    stream_id: str
    encoding: str | None = None
    owner: str | None = None
    authorized_writers: list[str] | None = None
    target: list[str] | None = None


class StreamClose(Payload):
    """A stream ends; `reason` such as `complete`, `cancelled`, `timeout`.

    Without `stream_id` the stream is the one whose request or open stands in `correlation_id`.

    Spec: §3.10.4.
    """

    stream_id: str | None = None
    reason: str | None = None


class StreamGrantWrite(Payload):
    """The owner lets `participant_id` write.

    Spec: §3.10.5.
    """

    stream_id: str
    participant_id: str
    reason: str | None = None


class StreamRevokeWrite(Payload):
    """The owner lets `participant_id` write no longer.

    Spec: §3.10.6.
    """

    stream_id: str
    participant_id: str
    reason: str | None = None


class StreamTransferOwnership(Payload):
    """The owner gives the whole stream to `new_owner`.

    Spec: §3.10.7.
    """

    stream_id: str
    new_owner: str
    reason: str | None = None


class StreamWriteGranted(Payload):
    """The gateway tells all that somebody may write.

    Spec: §3.10.5.
    """

    stream_id: str
    participant_id: str | None = None
    authorized_writers: list[str] | None = None


class StreamWriteRevoked(Payload):
    """The gateway tells all that somebody may write no longer.

    Spec: §3.10.6.
    """

    stream_id: str
    participant_id: str | None = None
    authorized_writers: list[str] | None = None


class StreamOwnershipTransferred(Payload):
    """The gateway tells all that a stream has another owner.

    Spec: §3.10.7.
    """

    stream_id: str
    new_owner: str | None = None
    previous_owner: str | None = None
    authorized_writers: list[str] | None = None
