"""Exports data of the feed: one envelope as a line of Python, and the whole log as a file."""

from __future__ import annotations

import ast
import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mew_lab.errors import MewError
from mew_lab.log.line import read_members
from mew_lab.log.log import Log

__all__ = ["as_python", "log_name", "save_log"]

LONGEST = 200_000
INSTEAD = "Copy it as JSON instead."


def as_python(raw: str, *, as_id: str | None = None) -> str:
    """A line `lab.send(kind, payload, to=…)` that sends the same kind, payload, addressees, correlation and context.

    Id, time and sender become those of the new envelope; other members of the old one are left out.

    Args:
        as_id: The participant of this process that is to send it, where it is not you.

    Raises:
        MewError: the text holds no envelope, or a value that cannot be written as a line of Python.
    """
    members = read_members(raw, exact=True) or {}
    kind, payload = members.get("kind"), members.get("payload")
    lists = [(name, _listed(members.get(name))) for name in ("to", "correlation_id")]
    context = members.get("context")
    if (
        not isinstance(kind, str)
        or not isinstance(payload, dict | None)
        or not isinstance(context, str | None)
        or any(texts is None for _, texts in lists)
    ):
        raise MewError(f"This text is no envelope with a kind and a payload. {INSTEAD}")
    arguments: list[tuple[str, Any]] = [("", kind)]
    if payload:
        arguments.append(("", payload))
    arguments += [(f"{name}=", texts) for name, texts in lists if texts]
    if context is not None:
        arguments.append(("context=", context))
    if as_id is not None:
        arguments.append(("as_id=", as_id))
    try:
        line = f"lab.send({', '.join(name + repr(value) for name, value in arguments)})"
        if len(line) > LONGEST:
            raise MewError(f"That would be a line of {len(line)} characters. {INSTEAD}")
        for _, value in arguments:
            ast.literal_eval(repr(value))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise MewError(
            f"It holds a value that cannot be written as Python, or is nested too deep. {INSTEAD}"
        ) from None
    return line


def _listed(value: Any) -> list[str] | None:
    """The strings of a member that is a string, a list of strings or absent; None for any other value."""
    texts = [value] if isinstance(value, str) else [] if value is None else value
    good = isinstance(texts, list) and all(isinstance(text, str) for text in texts)
    return texts if good else None


def log_name(space: str, now: datetime) -> str:
    """The file name for a log that is saved now: `<space>-<utc>.jsonl`, in characters that every system allows."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", space)[:60].strip("-") or "space"
    return f"{name}-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}.jsonl"


async def save_log(log: Log, folder: Path, now: datetime) -> str:
    """Writes the log so far to a file in the folder, readable by its owner alone; returns the path.

    Raises:
        JournalError: the file cannot be written.
    """
    target = folder / log_name(log.space, now)
    try:
        return str(await asyncio.to_thread(log.save, target))
    except RuntimeError:  # no threads here
        return str(log.save(target))
