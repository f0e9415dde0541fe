"""The rows that a person reads of a request, and the request that such rows say.

A row is a JSON pointer (RFC 6901) into `{"to", "payload"}` and the JSON text of the value that stands there. A row for
each tool argument, each member beside the arguments and each member of the payload: nothing of the request is without
one, so no member can stand for another. `rebuild_request` is the inverse of `rows_of`; what the rows do not rebuild
exactly is never sent.

Spec: §3.2.1, ruling R17; threat 35.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mew_lab.errors import LocalProtocolError
from mew_lab.protocol.envelope import canonical, compact, read_strict
from mew_lab.protocol.visible import visible

__all__ = [
    "ID",
    "TO",
    "Rows",
    "argument_of",
    "escape_key",
    "find_mismatch",
    "rebuild_request",
    "row_name",
    "rows_of",
    "write_value",
]

Rows = tuple[tuple[str, str], ...]

TO = "/to"
ID = "/payload/id"
PARAMS = "/payload/params"
ARGUMENTS = "/payload/params/arguments"


def write_value(value: Any) -> str:
    """A JSON value as the text that a row holds."""
    return json.dumps(value, ensure_ascii=False)


def escape_key(key: str) -> str:
    """A key as one part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def rows_of(request: Mapping[str, Any]) -> Rows:
    """The rows of `{"to", "payload"}`: a tool's arguments first, then all else, each in its own order."""
    first: list[tuple[str, str]] = []
    rest: list[tuple[str, str]] = [(TO, write_value(request["to"]))]
    payload = request["payload"]
    if not payload:
        rest.append(("/payload", "{}"))
    for key, value in payload.items():
        if key != "params" or not isinstance(value, Mapping) or not value:
            rest.append((f"/payload/{escape_key(key)}", write_value(value)))
            continue
        for name, inner in value.items():
            if name != "arguments" or not isinstance(inner, Mapping) or not inner:
                rest.append((f"{PARAMS}/{escape_key(name)}", write_value(inner)))
                continue
            first += [
                (f"{ARGUMENTS}/{escape_key(argument)}", write_value(text)) for argument, text in inner.items()
            ]
    return (*first, *rest)


def rebuild_request(rows: Rows) -> dict[str, Any]:
    """The request that the rows say.

    Raises:
        LocalProtocolError: two rows stand at one place, or a row's text is no JSON.
    """
    request: dict[str, Any] = {}
    taken: set[str] = set()
    for pointer, text in rows:
        parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
        if pointer in taken or not parts:
            raise _unfaithful(f"two rows stand at {pointer[:80]!r}")
        taken.add(pointer)
        here = request
        for part in parts[:-1]:
            inner = here.setdefault(part, {})
            if not isinstance(inner, dict):
                raise _unfaithful(f"{pointer[:80]!r} lies inside of what another row says")
            here = inner
        if parts[-1] in here:
            raise _unfaithful(f"another row lies inside of {pointer[:80]!r}")
        try:
            here[parts[-1]] = json.loads(text)
        except (ValueError, RecursionError) as fault:
            raise _unfaithful(f"the text at {pointer[:80]!r} is no JSON: {fault}") from None
    return request


def find_mismatch(rows: Rows, request: Mapping[str, Any]) -> str:
    """Finds why the rows do not say exactly the request as it is written when it is sent; empty when they do."""
    try:
        text = compact({"to": request["to"], "payload": request["payload"]})
        as_sent = read_strict(text, limit=4 * len(text) + 1)
        if canonical(rebuild_request(rows)) == canonical(as_sent):
            return ""
        return "what its rows say is not what would be sent"
    except Exception as fault:  # whatever cannot be compared is not approved
        return f"what would be sent cannot be shown: {fault}"


def argument_of(pointer: str) -> str | None:
    """The name of the tool argument that the pointer names; None where it names something else."""
    if not pointer.startswith(f"{ARGUMENTS}/"):
        return None
    return pointer[len(ARGUMENTS) + 1 :].replace("~1", "/").replace("~0", "~")


def is_routine(pointer: str, text: str) -> bool:
    """Whether the row only says what the title of a card, or every request, says too."""
    named = pointer in ("/payload/method", f"{PARAMS}/name") and text[:1] == '"'
    usual = (pointer, text) in (("/payload/jsonrpc", '"2.0"'), (ARGUMENTS, "{}"))
    return named or usual or pointer in (TO, ID)


def row_name(pointer: str) -> str:
    """The name under which a row is shown: an argument's own, else the whole pointer. No two pointers share one.

    A name that could be taken for a pointer or for another name is given as its pointer, and one with characters that
    cannot be seen or a backslash as a JSON string, in which backslashes are doubled.
    """
    name = argument_of(pointer)
    if name is None or name[:1] in ("", "/", '"') or name != name.strip():
        name = pointer
    if "\\" in name or visible(name) != name or name != name.strip():
        return visible(write_value(name))
    return name


def _unfaithful(why: str) -> LocalProtocolError:
    return LocalProtocolError(
        f"The rows of a card say no request: {why}", code="rows_mismatch", section="§3.2.1"
    )
