"""A program that reads JSON lines of a server and tells how much they hold, so that nobody else parses a costly one.

It is a script of its own and imports only the standard library. On stdin comes a number of bytes as a line of text, then
so many bytes. On stdout goes one line of JSON for each: `{"values": n, "containers": n}`, or `{}` for what is no JSON.
It ends with its stdin.

Reading JSON keeps the lock of the interpreter, so a thread would hold the loop for as long as the loop itself.
"""

from __future__ import annotations

import json
import sys
from typing import Any

__all__ = ["count"]


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
            values, containers = count(json.loads(source.read(int(size))))
            answer = {"values": values, "containers": containers}
        except (ValueError, RecursionError):
            answer = {}
        target.write(json.dumps(answer).encode() + b"\n")
        target.flush()


if __name__ == "__main__":
    main()
