"""How is what is wrong with a file of settings said?  A key path each, what is wrong, and what would help.

It knows models of settings, but no setting; it never tells a value, for that may be a secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel, ValidationError

from mew_lab.errors import ConfigError
from mew_lab.gateway.config import FaultyCapability

__all__ = ["Fault", "all_of", "told"]

MAX_TOLD = 50  # faults; a file with more is another kind of file


class Fault(NamedTuple):
    """One thing that is wrong, and where; `key` is empty where it is the whole file."""

    key: str
    said: str


def all_of(faults: list[Fault], path: Path) -> ConfigError:
    """One error about all of them, a line each."""
    many = f"{len(faults)} faults" if len(faults) != 1 else "1 fault"
    lines = [f"- {one.key}: {one.said}" if one.key else f"- {one.said}" for one in faults[:MAX_TOLD]]
    more = [f"- and {len(faults) - MAX_TOLD} more"] if len(faults) > MAX_TOLD else []
    text = "\n".join([f"{path} has {many}:", *lines, *more])
    return ConfigError(text, path=str(path), key=faults[0].key)


def told(fault: ValidationError, *, root: type[BaseModel]) -> Iterator[Fault]:
    """The faults that a model has found; `root` is the model of the whole file."""
    for error in fault.errors(include_url=False):
        steps = error["loc"]
        cause = error.get("ctx", {}).get("error")
        if isinstance(cause, FaultyCapability):
            for one in cause.faults:
                yield Fault(_path(steps) + (f".{one.key}" if one.key else ""), str(one))
        elif steps[-1:] == ("[key]",):
            yield Fault(_path(steps[:-1]), str(cause or error["msg"]))
        else:
            yield Fault(_path(steps), _sentence(error, root))


def _path(steps: tuple[int | str, ...]) -> str:
    """`participants.bot.capabilities[2]`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".")


def _sentence(error: Any, root: type[BaseModel]) -> str:
    """What is wrong and what would help, without the value."""
    kind, steps, given = error["type"], error["loc"], error["input"]
    if kind == "extra_forbidden":
        return f"there is no such key here{_did_you_mean(steps, root)}"
    if kind == "missing":
        return f"{steps[-1]!r} is missing" + ("; it is the space's name" if steps == ("space", "id") else "")
    if kind == "value_error":
        return str(error["ctx"]["error"])
    if kind == "literal_error":
        return f"it must be {error['ctx']['expected']}{_near(given, error['ctx']['expected'])}"
    wanted = next((words for start, words in WANTED.items() if kind.startswith(start)), "")
    if wanted:
        return f"it must be {wanted}, not {_kind_of(given)}"
    message: str = error["msg"]
    return message.replace("Input should be", "it must be")


WANTED = {
    "string_type": "text (in quotes, where it looks like something else)",
    "bool_": "true or false",
    "int_": "a whole number",
    "float_": "a number",
    "list_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_": "a mapping of keys to values",
}


def _kind_of(value: object) -> str:
    if value is None:
        return "nothing"
    names = {bool: "true or false", str: "text", dict: "a mapping", list: "a list", int: "a number"}
    return names.get(type(value), "a number with a fraction" if isinstance(value, float) else "this")


def _near(given: object, expected: str) -> str:
    near = difflib.get_close_matches(
        str(given), [word.strip("'") for word in expected.replace(" or ", ", ").split(", ")], 1
    )
    return f"; did you mean {near[0]!r}?" if near else ""


def _did_you_mean(steps: tuple[int | str, ...], root: type[BaseModel]) -> str:
    known = list(_section(steps, root).model_fields)
    near = difflib.get_close_matches(str(steps[-1]), known, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; known are {', '.join(known)}, and x-… for notes of your own"


def _section(steps: tuple[int | str, ...], root: type[BaseModel]) -> type[BaseModel]:
    """The model of the mapping in which a key stands."""
    model = root
    for step in steps[:-1]:
        field = model.model_fields.get(str(step))
        model = (_model_in(field.annotation) if field else None) or model
    return model


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)
