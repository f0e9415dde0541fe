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


class StreamRequest(Payload, kind="stream/request"):
    """Requests a stream. Without `target`, or with an empty one, everybody gets the frames. Custom fields are
    kept.

    `direction` is required; a gateway may accept requests without it.

    Spec: §3.10.1.
    """

    direction: Literal["upload", "download"]
    expected_size_bytes: int | None = None
    description: str | None = None
    content_type: str | None = None
    format: str | None = None
    target: list[str] | None = None
    metadata: dict[str, Any] | None = None


class StreamOpen(Payload, kind="stream/open"):
    """Announces an open stream under `stream_id`.

    Spec: §3.10.2.
    """

    stream_id: str
    encoding: str | None = None
    owner: str | None = None
    authorized_writers: list[str] | None = None
    target: list[str] | None = None


class StreamClose(Payload, kind="stream/close"):
    """Closes a stream; `reason` such as `complete`, `cancelled`, `timeout`.

    Without `stream_id` the stream is the one whose request or open stands in `correlation_id`.

    Spec: §3.10.4.
    """

    stream_id: str | None = None
    reason: str | None = None


class StreamGrantWrite(Payload, kind="stream/grant-write"):
    """The owner grants write access to `participant_id`.

    Spec: §3.10.5.
    """

    stream_id: str
    participant_id: str
    reason: str | None = None


class StreamRevokeWrite(Payload, kind="stream/revoke-write"):
    """The owner revokes the write access of `participant_id`.

    Spec: §3.10.6.
    """

    stream_id: str
    participant_id: str
    reason: str | None = None


class StreamTransferOwnership(Payload, kind="stream/transfer-ownership"):
    """The owner transfers the stream to `new_owner`.

    Spec: §3.10.7.
    """

    stream_id: str
    new_owner: str
    reason: str | None = None


class StreamWriteGranted(Payload, kind="stream/write-granted"):
    """The gateway announces a grant of write access.

    Spec: §3.10.5.
    """

    stream_id: str
    participant_id: str | None = None
    authorized_writers: list[str] | None = None


class StreamWriteRevoked(Payload, kind="stream/write-revoked"):
    """The gateway announces a revoke of write access.

    Spec: §3.10.6.
    """

    stream_id: str
    participant_id: str | None = None
    authorized_writers: list[str] | None = None


class StreamOwnershipTransferred(Payload, kind="stream/ownership-transferred"):
    """The gateway announces a new owner of a stream.

    Spec: §3.10.7.
    """

    stream_id: str
    new_owner: str | None = None
    previous_owner: str | None = None
    authorized_writers: list[str] | None = None
