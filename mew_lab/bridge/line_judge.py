"""A program that reads JSON lines of a server and tells how much they hold, so that nobody else parses a costly one.

It is a script of its own and imports only the standard library. On stdin comes a number of bytes as a line of text, then
so many bytes. On stdout goes one line of JSON for each: `{"values": n, "containers": n, "answers": id}`, or `{}` for
what is no JSON. It ends with its stdin.

Reading JSON keeps the lock of the interpreter, so a thread would hold the loop for as long as the loop itself.
"""

from __future__ import annotations

import json
import sys
from typing import Any

__all__ = ["answered_id", "count"]

MAX_ID = 256  # characters of the id of a request


def answered_id(message: Any) -> int | str | None:
    """The id of the request that a message answers; None where it answers none."""
    if not isinstance(message, dict) or "method" in message:
        return None
    id = message.get("id")
    if isinstance(id, float) and id.is_integer():
        return int(id)
    if isinstance(id, str) and len(id) <= MAX_ID:
        return id
    return id if isinstance(id, int) and not isinstance(id, bool) else None


def count(value: Any) -> tuple[int, int]:
    """The values in a JSON value, itself and the names of members included, and the lists and objects in it."""
    values, containers, waiting = 0, 0, [value]
    while waiting:
        inner = waiting.pop()
        values += 1
        if isinstance(inner, dict | list):
            containers += 1
            values += len(inner) if isinstance(inner, dict) else 0
            waiting.extend(inner.values() if isinstance(inner, dict) else inner)
    return values, containers


def main() -> None:
    """Judges until stdin ends."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while size := source.readline():
        try:
            message = json.loads(source.read(int(size)))
            values, containers = count(message)
            answer = {"values": values, "containers": containers, "answers": answered_id(message)}
        except (ValueError, RecursionError):
            answer = {}
        target.write(json.dumps(answer).encode() + b"\n")
        target.flush()


if __name__ == "__main__":
    main()
