"""Relays the progress of a request that is being answered to its sender, where the sender asked for it, and reads it.

Spec: §3.1, MCP "Progress".
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeGuard

from mew_lab.errors import MewError
from mew_lab.protocol.coerce import is_number, member, text_of
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.request_server import ASKED

__all__ = ["PROGRESS", "OnProgress", "Progress", "progress_relay", "read_progress", "token_of"]

PROGRESS = "notifications/progress"
MAX_MESSAGE = 200  # characters of the text of a progress
EVERY = 0.1  # seconds between two reports of one request; the last one is always relayed


class Progress(NamedTuple):
    """How far a call has come: `done` of `total`, which is None where it is not known, and a text of the participant."""

    done: float
    total: float | None
    message: str

    def __str__(self) -> str:
        """Such as `2 of 4 · downloading`."""
        of = "" if self.total is None else f" of {self.total:.6g}"
        return " · ".join(filter(None, (f"{self.done:.6g}{of}", self.message)))


class OnProgress(Protocol):
    """What takes the progress of a request: how much is done, of how much if that is known, and a text."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


class Connected(Protocol):
    """A participant, of which only the connection is needed."""

    client: MEWClient


def progress_relay(participant: Connected) -> OnProgress | None:
    """What relays progress to the sender of the request that `participant` is answering; None where none is wanted."""
    client = participant.client
    asked = ASKED.get()
    if asked is None or (token := token_of(asked.payload.get("params"))) is None:
        return None
    last, is_whole = -EVERY, False

    async def relay(progress: float, total: float | None, message: str | None) -> None:
        nonlocal last, is_whole
        now, was_whole = asyncio.get_running_loop().time(), is_whole
        is_whole = is_whole or (total is not None and progress >= total)
        # The first report of the whole does not wait. A server may send any number of them.
        if now - last < EVERY and is_whole == was_whole:
            return
        last = now
        report = {"progressToken": token, "progress": progress, "total": total, "message": message}
        known = {name: value for name, value in report.items() if value is not None}
        draft = {
            "kind": "mcp/request",
            "to": [asked.sender],
            "correlation_id": [asked.id],
            "payload": {"jsonrpc": "2.0", "method": PROGRESS, "params": known},
        }
        if (fitting := client.fit(draft)) is not None:
            with contextlib.suppress(MewError):
                client.post(fitting)

    return relay


def token_of(params: object) -> str | int | None:
    """The progress token in the params of a request; None where it has none."""
    token = member(params, "_meta", "progressToken")
    return token if isinstance(token, str | int) and not isinstance(token, bool) else None


def read_progress(payload: Mapping[str, Any]) -> tuple[Any, Progress] | None:
    """The token and the progress in a `notifications/progress`; None for a payload that is not a valid one."""
    params = payload.get("params")
    if payload.get("method") != PROGRESS or not isinstance(params, Mapping):
        return None
    done, total, message = params.get("progress"), params.get("total"), params.get("message")
    if not _is_amount(done):
        return None
    text = one_line(" ".join(text_of(message, 4 * MAX_MESSAGE).split()), MAX_MESSAGE)
    known = float(total) if _is_amount(total) and total > 0 else None
    return params.get("progressToken"), Progress(float(done), known, text)


def _is_amount(value: Any) -> TypeGuard[float]:
    return is_number(value) and 0 <= value < 1e15  # nor NaN
