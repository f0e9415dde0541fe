"""Writes the state of a space at one moment, and restores it: a snapshot replaces all records before it.

All attributes of `State` are written by their names. A class that is added to it is written, too, as long as it is a
named tuple. A snapshot is text, so that a journal can contain it.

Spec: §3.6.8.
"""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from mew_lab.errors import MewError, ProtocolError
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.permit import Capability
from mew_lab.space import rights, state
from mew_lab.space.core import Space
from mew_lab.space.rights import Rights
from mew_lab.space.state import LiveConnection, Member, PauseState, StreamState

__all__ = ["restore", "snapshot"]

OPENED = frozenset({"owner", "baseline", "message_bytes"})  # the first record of a journal tells these
MAPPINGS: Mapping[type, str] = {dict: "dict", OrderedDict: "ordered", Counter: "counter"}
# The format of journals does not follow the names of classes: these were written under other names before.
WRITTEN: Mapping[type, str] = {LiveConnection: "Connection", PauseState: "Pause", StreamState: "Stream"}
TUPLES: Mapping[str, Any] = {
    WRITTEN.get(tuple_type, name): tuple_type
    for module in (state, rights)
    for name, tuple_type in vars(module).items()
    if isinstance(tuple_type, type) and issubclass(tuple_type, tuple) and hasattr(tuple_type, "_fields")
}


def snapshot(space: Space) -> str:
    """Returns the state of a space as JSON text.

    Raises:
        TypeError: when it holds a value that cannot be written; a fault of this package.
    """
    return compact({name: _dump(value) for name, value in vars(space.state).items() if name not in OPENED})


def restore(space: Space, text: str) -> None:
    """Restores the state in a `snapshot` into a space without events.

    Raises:
        ProtocolError: when the text is no snapshot of such a space.
    """
    try:
        snapshot = json.loads(text)
        known = vars(space.state)
        for name in snapshot:
            if name not in known or name in OPENED:
                raise ValueError(f"a space knows no {name[:40]!r}")
        values = {name: _make(value, snapshot.get("edition", 0)) for name, value in snapshot.items()}
        for name, value in values.items():
            before = known[name]
            if before is not None and type(before) is not type(value):
                raise TypeError(f"{name} is a {type(value).__name__}")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, IndexError, MewError) as fault:
        raise ProtocolError(
            f"this is no snapshot of a space ({fault})", code="invalid_journal", section="§3.6.8"
        ) from None
    known.update(values)


# A value is itself where JSON has it; what JSON does not tell apart is a list that begins with its name.


def _dump(value: Any) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is Capability:
        return {"": value.pattern}
    if type(value) is Rights:
        return ["rights", *map(_dump, value.held)]
    if type(value) is Member:
        return ["member", *(_dump(getattr(value, name)) for name in Member.__slots__)]
    name = WRITTEN.get(type(value), type(value).__name__)
    if TUPLES.get(name) is type(value):
        return [name, *map(_dump, value)]
    if isinstance(value, datetime):
        return ["time", value.isoformat()]
    if type(value) in MAPPINGS:
        return [MAPPINGS[type(value)], *([_dump(key), _dump(entry)] for key, entry in value.items())]
    if type(value) in (list, tuple):
        return [type(value).__name__, *map(_dump, value)]
    raise TypeError(f"a {type(value).__name__} cannot stand in a snapshot")


def _member(*values: Any) -> Member:
    member = Member.__new__(Member)
    for name, value in zip(Member.__slots__, values, strict=True):
        setattr(member, name, value)
    return member


MAKERS: Mapping[str, Callable[..., Any]] = {
    "rights": lambda *held: Rights(held),
    "member": _member,
    "time": datetime.fromisoformat,
    "list": lambda *values: list(values),
    "tuple": lambda *values: tuple(values),
    **TUPLES,
}


def _make(value: Any, edition: int) -> Any:
    if isinstance(value, dict):
        return Capability.kept(value[""], edition=edition)
    if not isinstance(value, list):
        return value
    name, *parts = value
    for kind, called in MAPPINGS.items():
        if name == called:
            return kind({_make(key, edition): _make(entry, edition) for key, entry in parts})
    return MAKERS[name](*(_make(part, edition) for part in parts))
