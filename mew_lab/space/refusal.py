"""Refuses messages and frames, and data that was never read. It decides nothing.

A refused message is not relayed. Its sender gets one `system/error` that names it, and over HTTP also the reply.

Spec: §3.8.2, §5.3.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from mew_lab.protocol.envelope import MAX_ID, Envelope, compact, find_id
from mew_lab.space.events import HttpReply, Outline, Record, outline
from mew_lab.space.state import LiveConnection, Sender
from mew_lab.space.turn import Turn

__all__ = ["KEPT_BYTES", "Refusal", "complain", "refuse", "refuse_again", "refuse_unread"]

KEPT_BYTES = 4096  # of a refused message
KEPT_WHY = 1024  # characters of the reason, where it stands beside an outline

# HTTP statuses of refusals; 400 for all others. Spec: §5.3.
STATUSES = {
    "already_exists": 409,
    "cannot_grant": 403,
    "capability_violation": 403,
    "duplicate_id": 409,
    "grant_not_found": 404,
    "identity_mismatch": 403,
    "limit_exceeded": 429,
    "message_too_large": 413,
    "not_connected": 409,
    "owner_protected": 403,
    "participant_not_found": 404,
    "paused": 409,
    "shut_down": 409,
    "stream_not_found": 404,
    "unauthorized": 403,
}


class Refusal(Exception):
    """Raised within one step to refuse the message. It never leaves the space.

    `kind` is the kind that the sender gets instead of a `system/error`; `whole` is whether an HTTP reply carries the
    whole envelope, as for streams.
    """

    def __init__(
        self,
        error: str,
        message: str,
        *,
        code: str = "",
        pattern: str = "",
        kind: str = "system/error",
        whole: bool = False,
        **fields: Any,
    ) -> None:
        super().__init__(message)
        self.code = code or error
        self.pattern = pattern
        self.kind = kind
        self.whole = whole
        head = {"error": error} if kind == "system/error" else {}
        if self.code != error:
            head["code"] = self.code
        self.payload: dict[str, Any] = {**head, **fields, "message": message}


def refuse(
    turn: Turn,
    sender: Sender,
    refusal: Refusal,
    text: str,
    envelope: Envelope | None,
    members: Mapping[str, Any],
) -> None:
    """Journals a refused message with its text, or the beginning of a long one, and sends the reason to its sender."""
    raw, detail = _kept(text, refusal.pattern or str(refusal), turn.messages)
    _record(turn, sender, refusal.code, detail, raw)
    named = envelope.id if envelope else members.get("id", "")
    if not members and turn.state.edition >= 4:  # it was refused before its members were read
        named = find_id(text)
    correlation = (named,) if isinstance(named, str) and 0 < len(named) <= MAX_ID else ()
    error = complain(turn, sender, refusal.payload, correlation, kind=refusal.kind)
    if sender.connection is None:
        short = ("error", "code", "message") if refusal.kind == "system/error" else tuple(refusal.payload)
        body = {key: refusal.payload[key] for key in short if key in refusal.payload}
        if refusal.whole:
            error = error or turn.compose(
                refusal.kind, refusal.payload, to=(sender.runtime_id,), correlation=correlation
            )
            body = error.members
        turn.do(HttpReply(STATUSES.get(refusal.code, 400), body))


def refuse_again(turn: Turn, sender: Sender, record: Record) -> None:
    """Repeats a refusal of the journal, with its own record; the reply to its sender is not known.

    Raises:
        ValueError: when the record lacks a member of such a record.
    """
    known = outline(record)
    if known is None:
        raise ValueError("it does not tell what was refused")
    turn.skip_to(known.messages)
    _record(turn, sender, record.code, record.detail, record.raw or "")
    message = f"a message of {known.size} bytes was refused; only its beginning is kept"
    complain(turn, sender, {"error": record.code, "message": message})


def _record(turn: Turn, sender: Sender, code: str, detail: str, raw: str) -> None:
    turn.record("received", **sender.recorded, verdict="refused", code=code, detail=detail, raw=raw)


def _kept(text: str, why: str, messages: int) -> tuple[str, str]:
    """The text that the journal keeps of a refused message, and the detail of its record."""
    if len(text) * 4 <= KEPT_BYTES:  # no character has more than four bytes
        return text, why
    data = _utf8(text)
    if len(data) <= KEPT_BYTES:
        return text, why
    beginning = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode(data[:KEPT_BYTES])
    about = Outline(
        len(data),
        sha256(data).hexdigest(),
        messages,
        why[:KEPT_WHY].encode("utf-8", "backslashreplace").decode(),
    )
    return beginning, compact(about._asdict())


def _utf8(text: str) -> bytes:
    """The received bytes: those that are no UTF-8 are lone surrogates in the text."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def refuse_unread(
    turn: Turn,
    sender: Sender,
    what: str,
    about: Mapping[str, Any],
    payload: dict[str, Any],
    *,
    named: str = "",
    tell: bool = True,
) -> None:
    """Refuses data that was never read as an envelope, and so cannot be quoted; `named` is its id, where known."""
    code = payload.get("code", payload["error"])
    turn.record(what, **sender.recorded, verdict="refused", code=code, detail=compact(about))
    if tell:
        complain(turn, sender, payload, (named,) if named else ())
    if sender.connection is None:
        turn.do(HttpReply(STATUSES.get(code, 400), payload))


def complain(
    turn: Turn,
    sender: Sender,
    payload: dict[str, Any],
    correlation: tuple[str, ...] = (),
    *,
    kind: str = "system/error",
) -> Envelope | None:
    """Sends the error to the sending connection; for HTTP, to all connections and log sinks of the poster."""
    to: tuple[LiveConnection, ...] = (sender.connection,) if sender.connection else ()
    if not to:
        to = (*sender.member.connections, *sender.member.sinks)
    if not to:  # nobody to tell but the caller of the HTTP request, who gets the reply
        return None
    ids = tuple(dict.fromkeys(connection.runtime_id for connection in to))
    return turn.say(kind, payload, to=ids, correlation=correlation, privately=to)
