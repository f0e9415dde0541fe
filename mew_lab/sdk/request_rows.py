"""The rows in which a person reads a request, and the request that such rows state.

A row is a JSON pointer (RFC 6901) into `{"to", "payload"}` and the JSON text of the value there. Each tool argument,
each member beside the arguments and each member of the payload has its row, so no part of the request is hidden.
`read_request` is the inverse of `rows_of`; a request that the rows do not rebuild exactly is never sent.

Spec: §3.2.1, ruling R17; threat 35.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from mew_lab.errors import LocalProtocolError
from mew_lab.protocol.envelope import read_canonical, write_steps
from mew_lab.protocol.steps import Steps, finish
from mew_lab.protocol.visible import visible

__all__ = [
    "ARGUMENTS",
    "ID",
    "TO",
    "Rows",
    "argument_of",
    "escape_key",
    "is_routine",
    "read_mismatch",
    "read_rows",
    "read_values",
    "routine_word",
    "row_name",
    "rows_of",
    "write_value",
]

Rows = tuple[tuple[str, str], ...]

TO = "/to"
ID = "/payload/id"
PARAMS = "/payload/params"
META = "/payload/params/_meta"
ARGUMENTS = "/payload/params/arguments"


def write_value(value: Any) -> str:
    """The text of a JSON value in a row."""
    return json.dumps(value, ensure_ascii=False)


def escape_key(key: str) -> str:
    """A key as one part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def rows_of(request: Mapping[str, Any]) -> Rows:
    """The rows of a request, in one piece; see `read_rows`."""
    return finish(read_rows(request))


def read_rows(request: Mapping[str, Any]) -> Steps[Rows]:
    """The rows of `{"to", "payload"}`: first the arguments of a tool, then all other members, each in order."""

    def row(pointer: str, value: Any) -> Steps[tuple[str, str]]:
        text = yield from write_steps(value, write_value, comma=", ", colon=": ")
        return pointer, text

    first: list[tuple[str, str]] = []
    rest = [(yield from row(TO, request["to"]))]
    payload = request["payload"]
    if not payload:
        rest.append(("/payload", "{}"))
    for key, value in payload.items():
        if key != "params" or not isinstance(value, Mapping) or not value:
            rest.append((yield from row(f"/payload/{escape_key(key)}", value)))
            continue
        for name, inner in value.items():
            if name != "arguments" or not isinstance(inner, Mapping) or not inner:
                rest.append((yield from row(f"{PARAMS}/{escape_key(name)}", inner)))
                continue
            for argument, text in inner.items():
                first.append((yield from row(f"{ARGUMENTS}/{escape_key(argument)}", text)))
                yield
    return (*first, *rest)


def read_values(rows: Rows) -> Steps[dict[str, Any]]:
    """The value of each row, by its pointer.

    Raises:
        LocalProtocolError: The text of a row is no JSON.
    """
    values: dict[str, Any] = {}
    for pointer, text in rows:
        try:
            values[pointer] = json.loads(text)
        except (ValueError, RecursionError) as fault:
            raise _unfaithful(f"the text at {pointer[:80]!r} is no JSON: {fault}") from None
        yield
    return values


def read_request(rows: Rows, values: Mapping[str, Any]) -> Steps[dict[str, Any]]:
    """The request that the rows with these values state.

    Raises:
        LocalProtocolError: Two rows have one place.
    """
    request: dict[str, Any] = {}
    taken: set[str] = set()
    for pointer, _ in rows:
        parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
        if pointer in taken or not parts:
            raise _unfaithful(f"two rows stand at {pointer[:80]!r}")
        taken.add(pointer)
        here = request
        for part in parts[:-1]:
            inner = here.setdefault(part, {})
            if not isinstance(inner, dict):
                raise _unfaithful(f"{pointer[:80]!r} lies inside of another row")
            here = inner
        if parts[-1] in here:
            raise _unfaithful(f"another row lies inside of {pointer[:80]!r}")
        here[parts[-1]] = values[pointer]
        yield
    return request


def read_mismatch(
    rows: Rows, request: Mapping[str, Any], *, values: Mapping[str, Any] | None = None
) -> Steps[str]:
    """The reason why the rows do not state exactly the request that is sent; empty where they do.

    `values` are those of the rows, where they were read before.
    """
    try:
        # What is read from the sent text has the same canonical form: JSON writes each value in one way.
        as_sent = yield from read_canonical({"to": request["to"], "payload": request["payload"]})
        yield
        if values is None:
            values = yield from read_values(rows)
        stated = yield from read_request(rows, values)
        if as_sent == (yield from read_canonical(stated)):
            return ""
        return "its rows do not state the request that would be sent"
    except Exception as fault:  # a request that cannot be compared is not approved
        return f"the request that would be sent cannot be shown: {fault}"


def argument_of(pointer: str) -> str | None:
    """The name of the tool argument at the pointer; None where it names another member."""
    if not pointer.startswith(f"{ARGUMENTS}/"):
        return None
    return pointer[len(ARGUMENTS) + 1 :].replace("~1", "/").replace("~0", "~")


def is_routine(pointer: str, text: str) -> bool:
    """Whether the row only repeats the title of a card, is the same in every request, or is an id without a meaning."""
    named = pointer in ("/payload/method", f"{PARAMS}/name") and text[:1] == '"'
    usual = (pointer, text) in (("/payload/jsonrpc", '"2.0"'), (ARGUMENTS, "{}"))
    progress = pointer == META and _PROGRESS.fullmatch(text) is not None
    return named or usual or progress or pointer in (TO, ID)


# of a client; it names a call
_PROGRESS = re.compile(r'\{"progressToken": (?:"[\w-]{1,20}"|\d{1,15})\}', re.ASCII)


_ROUTINE_WORDS = {
    TO: "recipient",
    ID: "request id",
    "/payload/jsonrpc": "protocol version",
    "/payload/method": "method",
    f"{PARAMS}/name": "tool name",
    META: "progress token",
    ARGUMENTS: "empty arguments",
}


def routine_word(pointer: str) -> str:
    """What a row that is routine is, in words, such as `request id`."""
    return _ROUTINE_WORDS[pointer]


def row_name(pointer: str) -> str:
    """The name under which a row is shown: that of an argument, else the whole pointer. It is unique.

    A name that could be mistaken for a pointer or another name is shown as its pointer. A name with invisible
    characters or a backslash is shown as a JSON string, in which backslashes are doubled.
    """
    name = argument_of(pointer)
    if name is None or name[:1] in ("", "/", '"') or name != name.strip():
        name = pointer
    if "\\" in name or visible(name) != name or name != name.strip():
        return visible(write_value(name))
    return name


def _unfaithful(why: str) -> LocalProtocolError:
    return LocalProtocolError(
        f"The rows of a card state no request: {why}", code="rows_mismatch", section="§3.2.1"
    )
