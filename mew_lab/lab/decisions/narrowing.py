"""Which is the narrowest capability that would have let somebody do by itself what it proposed?  Pure.

What a peer wrote must not widen what is granted: a tool called `*`, an addressee called so (a proposal may name whom
there is not), or an argument that reads like a wildcard, is written so that it means itself alone. Where the pattern
language cannot say a value, nothing is offered: a pattern for an object says nothing of members that it does not name,
so `{}` is any object, and a list of patterns means any of them, so no list can be asked for as a whole.

Spec: §4.1, rulings R11, R12; threat 22.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from mew_lab.errors import ConfigError, MewError
from mew_lab.protocol.pattern import Literal, compile_pattern, compile_strings
from mew_lab.protocol.visible import one_line

__all__ = ["literal", "narrowest"]

_MANY = ("$", "*", "?")


def narrowest(to: Sequence[str], payload: Mapping[str, Any], *, values: bool) -> dict[str, Any]:
    """The pattern of `mcp/request` with this method, this tool, these addressees.

    With `values` each argument has to have the value that it has here; arguments that do not stand here stay free,
    because no pattern can forbid them. Without it the arguments are free.

    Raises:
        MewError: when the pattern language cannot say it, with the place.
    """
    params = payload.get("params")
    params = params if isinstance(params, Mapping) else {}
    wanted: dict[str, Any] = {"method": literal(str(payload.get("method", "")), "the method")}
    tool = params.get("name")
    inner: dict[str, Any] = {"name": literal(tool, "the tool's name")} if isinstance(tool, str) else {}
    if values:
        arguments = params.get("arguments")
        if not isinstance(arguments, Mapping) or not arguments:
            raise MewError("cannot grant exactly this: a pattern without arguments means any arguments")
        inner["arguments"] = {_key(name): _value(value, name) for name, value in arguments.items()}
    if inner:
        wanted["params"] = inner
    pattern: dict[str, Any] = {"kind": "mcp/request"}
    if to:
        addressees = [literal(one, "an addressee") for one in to]
        pattern["to"] = addressees[0] if len(to) == 1 else addressees
        compile_strings(pattern["to"], key="to")
    return pattern | {"payload": wanted}


def literal(text: str, what: str) -> str:
    """A string pattern that matches `text` and nothing else; `what` it is, for the error.

    Raises:
        MewError: when no pattern does.
    """
    with contextlib.suppress(ConfigError):  # such as a lone "!"
        if isinstance(compile_pattern(text), Literal):
            return text
    escaped = f"/{''.join(_escaped(one) for one in text)}/"
    try:
        compile_pattern(escaped)
    except ConfigError as fault:
        raise MewError(
            f"cannot grant exactly this: {what} ({one_line(text, 40)}) cannot be said by a pattern: {fault}"
        ) from None
    return escaped


def _escaped(one: str) -> str:
    return one if one.isalnum() or one == "_" or not one.isascii() else f"\\x{ord(one):02x}"


def _key(name: object) -> str:
    text = str(name)
    if text[:1] == "$" or any(sign in text for sign in _MANY):
        raise MewError(
            f"cannot grant exactly this: an argument called {one_line(text, 40)} reads like a wildcard"
        )
    return text


def _value(value: Any, name: object) -> Any:
    if isinstance(value, str):
        return literal(value, f"the value of {one_line(str(name), 40)}")
    if isinstance(value, Mapping) and value:
        return {_key(key): _value(inner, f"{name}.{key}") for key, inner in value.items()}
    if isinstance(value, Mapping | list):
        kind = "an empty object" if isinstance(value, Mapping) else "a list"
        raise MewError(
            f"cannot grant exactly this: {one_line(str(name), 40)} is {kind}, which no pattern can ask for as a whole"
        )
    return value
