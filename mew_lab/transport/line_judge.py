"""A program that reads costly JSON lines of a server, so that nobody else parses them.

It is a script of its own and imports only the standard library. It answers each line of stdin with a line of JSON:

- A number announces so many bytes of JSON. The answer is `{"values": n, "containers": n, "answers": id}`: the id
  of the request that it answers, or null.
- `{"file": path}` names a file with one JSON-RPC response. Its answer is `{"id": id}`, and where it has a result, the
  text of that alone is left in the file, to the byte. Then the answer also has its `size` in bytes, its `sha256`,
  `is_error`, whether it `is_costly` to parse, and its `kinds`: the type, MIME type and characters of its first parts.

- `{"file": path, "list": name}` names a file with the result of a list, whose entries are the member `name`. Lines take
  its place: the first one has the other members, and each further one an entry. Its answer is
  `{"omitted": [name, …], "count": n}`: the number of entries that nobody should parse, and the first of their names.

The answer is `{}` for what is no JSON, no response or no list. It ends with its stdin.

Reading JSON keeps the lock of the interpreter, so a thread would hold the loop for as long as the loop itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import re
import sys
from json.decoder import JSONDecoder, scanstring  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

__all__ = ["MAX_CONTAINERS", "MAX_VALUES", "answered_id", "count", "kinds_of", "split_list", "take_result"]

MAX_VALUES, MAX_CONTAINERS = 40_000, 20_000  # of a line: what becomes of it costs a loop some µs for each
MEMORY = 2 << 30  # bytes of addresses; a line that takes more to read is not read
MAX_KINDS = 20  # parts of a result that are described; a server sends as many as it likes
MAX_ENTRY = 1 << 20  # bytes of an entry of a list
MAX_ENTRIES = 20_000  # of a list
MAX_BESIDE = 64 * 1024  # bytes of the members of a list beside its entries
MAX_OMITTED = 5  # entries whose names are told
MAX_ID = 256  # characters of the id of a request
PART = 1 << 20  # bytes of one write
_SPACE = re.compile(r"[ \t\r\n]*")
_PARTS = ("content", "contents", "messages")  # of the results of tools, resources and prompts


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


def count(value: Any, *, most: float = math.inf) -> tuple[int, int]:
    """The values in a JSON value, itself and the names of members included, and the lists and objects in it.

    It stops soon after `most` values.
    """
    values, containers, waiting = 0, 0, [value]
    while waiting and values <= most:
        inner = waiting.pop()
        values += 1
        if isinstance(inner, dict | list):
            containers += 1
            values += len(inner) if isinstance(inner, dict) else 0
            waiting.extend(inner.values() if isinstance(inner, dict) else inner)
    return values, containers


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_decode = JSONDecoder(parse_constant=_refuse_constant).raw_decode


def members(text: str) -> dict[str, tuple[Any, int, int]]:
    """The members of a JSON object, each with the places at which its text begins and ends.

    Raises:
        ValueError: the text is no JSON object.
    """

    def skip(at: int) -> int:
        return _SPACE.match(text, at).end()  # type: ignore[union-attr]

    found: dict[str, tuple[Any, int, int]] = {}
    at = skip(0)
    if text[at : at + 1] != "{":
        raise ValueError("no object")
    at = skip(at + 1)
    while text[at : at + 1] != "}":
        if found:
            if text[at : at + 1] != ",":
                raise ValueError("no comma")
            at = skip(at + 1)
        if text[at : at + 1] != '"':
            raise ValueError("no name")
        name, at = scanstring(text, at + 1)
        at = skip(at)
        if text[at : at + 1] != ":":
            raise ValueError("no colon")
        begin = skip(at + 1)
        value, end = _decode(text, begin)
        if name in found:
            raise ValueError("a name twice")
        found[name] = value, begin, end
        at = skip(end)
    if skip(at + 1) != len(text):
        raise ValueError("more than an object")
    return found


def kinds_of(result: dict[str, Any]) -> list[list[Any]]:
    """The type, the MIME type and the number of characters of the first parts of a result."""
    parts: list[Any] = next((result[name] for name in _PARTS if isinstance(result.get(name), list)), [])
    found = []
    for part in parts[:MAX_KINDS]:
        outer: dict[str, Any] = part if isinstance(part, dict) else {}
        embedded = outer.get("resource")
        inner: dict[str, Any] = embedded if isinstance(embedded, dict) else outer
        texts = [inner.get(name) for name in ("text", "data", "blob")]
        kind, mime = outer.get("type"), inner.get("mimeType")
        found.append(
            [
                kind[:40] if isinstance(kind, str) else "",
                mime[:80] if isinstance(mime, str) else "",
                sum(len(one) for one in texts if isinstance(one, str)),
            ]
        )
    return found


def take_result(path: str) -> dict[str, Any]:
    """Leaves only the text of the result in a file that holds a response; returns what it was.

    Raises:
        ValueError: it holds no response.
        OSError: it cannot be read or written.
    """
    with Path(path).open("rb") as file:
        text = file.read().decode("utf-8")
    response = members(text)
    id = response["id"][0] if "id" in response else None
    if "method" in response or not isinstance(id, str | int) or isinstance(id, bool):
        raise ValueError("no response")
    if "error" in response or "result" not in response or response.get("jsonrpc", ("",))[0] != "2.0":
        return {"id": id}
    result, begin, end = response["result"]
    if not isinstance(result, dict):
        return {"id": id}
    if "\\ud" in text or "\\uD" in text:  # a lone surrogate cannot be sent on
        json.dumps(result, ensure_ascii=False).encode()
    data = memoryview(text[begin:end].encode())
    digest, size = hashlib.sha256(data).hexdigest(), len(data)
    with Path(path).open("r+b") as file:
        while data:
            data = data[file.write(data[:PART]) :]
        file.truncate()
        file.flush()
    values, containers = count(result, most=MAX_VALUES)
    return {
        "id": id,
        "is_costly": values > MAX_VALUES or containers > MAX_CONTAINERS,
        "size": size,
        "sha256": digest,
        "is_error": result.get("isError") is True,
        "kinds": kinds_of(result),
    }


def split_list(path: str, member: str) -> dict[str, Any]:
    """Puts lines in the place of a list in a file: its other members, then an entry each.

    Raises:
        ValueError: it holds no such list, or too much beside it.
        OSError: it cannot be read or written.
    """
    result = json.loads(Path(path).read_bytes(), parse_constant=_refuse_constant)
    entries = result.pop(member, None)
    beside = json.dumps(result).encode()
    if not isinstance(entries, list) or len(beside) > MAX_BESIDE:
        raise ValueError("no list")
    omitted: list[Any] = entries[MAX_ENTRIES:]
    with Path(path).open("r+b") as file:
        file.write(beside)
        for entry in entries[:MAX_ENTRIES]:
            text = json.dumps(entry, separators=(",", ":")).encode()
            values, containers = count(entry, most=MAX_VALUES)
            if len(text) > MAX_ENTRY or values > MAX_VALUES or containers > MAX_CONTAINERS:
                omitted.append(entry)
            else:
                file.write(b"\n" + text)
        file.truncate()
    names = [entry.get("name", entry.get("uri")) if isinstance(entry, dict) else "" for entry in omitted]
    return {"count": len(names), "omitted": [str(name)[:80] for name in names[:MAX_OMITTED]]}


def _answer(asked: Any, source: Any) -> dict[str, Any]:
    if isinstance(asked, dict):
        return split_list(asked["file"], asked["list"]) if "list" in asked else take_result(asked["file"])
    message = json.loads(source.read(asked))
    values, containers = count(message)
    return {"values": values, "containers": containers, "answers": answered_id(message)}


def main() -> None:
    """Judges until stdin ends."""
    if resource is not None:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while asked := source.readline():
        try:
            answer = _answer(json.loads(asked), source)
        except (ValueError, RecursionError, OSError):
            answer = {}
        target.write(json.dumps(answer).encode() + b"\n")
        target.flush()


if __name__ == "__main__":
    main()
