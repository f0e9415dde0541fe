"""What does one rule of a JSON Schema say of a value, and what may all of them cost?

jsonschema walks the schema; here stand the rules that it would follow to other addresses, give to an engine that may
run for ever, or compare each with each. Every rule is paid for, by what it looks at and by what it says. It knows no
tool, and copies no schema.

Spec: SDK "Tool Registry"; MCP `inputSchema` (JSON Schema 2020-12).
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from typing import Any

from mew_lab.errors import ConfigError
from mew_lab.protocol.node import BUDGET, TOO_COSTLY, Meter
from mew_lab.protocol.strings import Regex
from mew_lab.protocol.visible import one_line

__all__ = ["Enough", "Work", "at_pointer", "linear_rules", "load", "loaded", "size", "work"]

MAX_REFERENCES = 24  # references inside references
MAX_POINTER = 48
TEXT_A_STEP = 50  # characters
PROGRAM_A_STEP = 20  # instructions of a compiled pattern
UNPAID = 10**9  # steps of a rule that no check pays for
REFUSED_PATTERN = 5000  # steps: the engine finds out that a pattern is too large by trying

_EACH = ("items", "contains", "additionalProperties", "propertyNames", "patternProperties")
_WHOLE = ("enum", "const", "uniqueItems")


class Enough(Exception):
    """The check has cost what a check may cost."""


class Work:
    """What one check may still do, and what it had to leave out.

    `refused` are patterns of the schema that the engine did not take, kept from check to check.
    """

    def __init__(self, root: Any, *, steps: int, refused: set[str] | None = None) -> None:
        self.root = root
        self.steps = steps
        self.refused: set[str] = set() if refused is None else refused
        self.references = 0
        self.notes: dict[str, None] = {}

    def spend(self, steps: int) -> None:
        """Takes from what is left.

        Raises:
            Enough: when it is less.
        """
        self.steps -= steps
        if self.steps < 0:
            raise Enough

    def searcher(self, pattern: str) -> Regex | None:
        """What finds the pattern in a text, in linear time; None where the engine does not take it.

        Raises:
            Enough: as `spend`.
        """
        if pattern in self.refused:
            return None
        try:
            found = _searcher(pattern)
        except ConfigError:
            self.refused.add(pattern)
            self.spend(REFUSED_PATTERN)
            return None
        self.spend(1 + found.program_size // PROGRAM_A_STEP)
        return found

    def leave(self, what: str) -> None:
        """Takes note of what cannot be checked."""
        self.notes[f"Not checked here: {what}."] = None


work: ContextVar[Work] = ContextVar("work")


@cache
def load() -> Any:
    """The class of validators with these rules. The first call takes up to a second: jsonschema is loaded with it,
    for which a loop should not wait."""
    from mew_lab.sdk.schema_library import jsonschema

    draft = jsonschema.Draft202012Validator
    own: dict[str, Callable[..., Any]] = {
        "$ref": _reference,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional,
        "multipleOf": _multiple,
        "uniqueItems": _unique,
    }
    known: dict[str, Callable[..., Any]] = {**draft.VALIDATORS, **own}
    rules = {name: _paid(name, rule) for name, rule in known.items()}
    # The library follows references for these by itself, elsewhere too, and knows no linear patterns.
    for name in ("$dynamicRef", "unevaluatedItems", "unevaluatedProperties", "format"):
        del rules[name]
    return jsonschema.validators.create(draft.META_SCHEMA, rules, type_checker=draft.TYPE_CHECKER)


async def loaded() -> None:
    """`load`, while the loop goes on, where there are threads."""
    if load.cache_info().currsize or sys.platform == "emscripten":
        load()
    else:
        await asyncio.to_thread(load)


def linear_rules() -> dict[str, Callable[..., Any]]:
    """The rules that hold text against a pattern, for a validator of somebody's own; they pass what they cannot
    tell."""
    return {"pattern": _pattern, "patternProperties": _pattern_properties}


def at_pointer(root: Any, reference: str) -> Any:
    """What `#/a/b` means inside `root`; None where it is elsewhere or nowhere."""
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return None
    here = root
    for part in reference[2:].split("/")[:MAX_POINTER]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(here, Mapping) and name in here:
            here = here[name]
        elif isinstance(here, list) and name.isdecimal() and len(name) < 7 and int(name) < len(here):
            here = here[int(name)]
        else:
            return None
    return here if isinstance(here, (Mapping, bool)) else None


def size(value: Any) -> int:
    """How much there is to look at: one for each value, and one more for each fifty characters."""
    total, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        total += 1
        if isinstance(one, str):
            total += len(one) // TEXT_A_STEP
        elif isinstance(one, Mapping):
            total += sum(len(key) for key in one if isinstance(key, str)) // TEXT_A_STEP
            waiting.extend(one.values())
        elif isinstance(one, (list, tuple)):
            waiting.extend(one)
    return total


def _paid(name: str, rule: Callable[..., Any]) -> Callable[..., Any]:
    def apply(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        here = work.get()
        here.spend(_price(name, value, instance))
        for error in rule(validator, value, instance, schema) or ():
            yield error
            here.spend(len(error.message) // TEXT_A_STEP)  # it repeats the value

    return apply


def _price(name: str, value: Any, instance: Any) -> int:
    several = len(value) if isinstance(value, (list, Mapping)) else 1
    if name in _WHOLE:
        return several * size(instance)
    each = len(instance) if name in _EACH and isinstance(instance, (list, Mapping)) else 0
    return several + each


def _error(said: str) -> Any:
    from mew_lab.sdk.schema_library import jsonschema

    return jsonschema.ValidationError(said)


def _reference(validator: Any, reference: str, instance: Any, schema: Any) -> Iterator[Any]:
    here = work.get()
    found = at_pointer(here.root, reference)
    if found is None or here.references >= MAX_REFERENCES:
        here.leave(f"what {one_line(reference, 80)} says")
        return
    here.references += 1
    try:
        yield from validator.descend(instance, found)
    finally:
        here.references -= 1


def _holds(pattern: str, text: str) -> bool:
    """Whether the pattern is found in the text; True, with a note, where that cannot be told in bounded time."""
    here = work.get(None) or Work(None, steps=UNPAID)
    here.spend(1 + len(text) // TEXT_A_STEP)
    found = here.searcher(pattern)
    why = "which only an engine that may run for ever would understand"
    if found is not None:
        meter = Meter()
        try:
            return found.accepts(text, meter)
        except TOO_COSTLY:
            why = "which takes too long with this text"
        finally:
            here.spend(BUDGET - max(meter.left, 0))
    here.leave(f"the pattern {one_line(pattern, 80)}, {why}")
    return True


def _searcher(pattern: str) -> Regex:
    return Regex.of(f"(?s:.*)(?:{pattern})(?s:.*)", key="pattern")


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, str) and not _holds(pattern, instance):
        yield _error(f"must contain a match of {one_line(pattern, 80)}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    for pattern, inner in patterns.items():
        for key, value in instance.items():
            if _holds(pattern, key):
                yield from validator.descend(value, inner, path=key)


def _additional(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    known = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    for key in instance:
        if key in known or any(_holds(pattern, key) for pattern in patterns):
            continue
        if allowed is False:
            error = _error("is not known to this tool")
            error.path.appendleft(key)
            yield error
        else:
            yield from validator.descend(instance[key], allowed, path=key)


def _multiple(validator: Any, step: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(instance, (int, float)) or isinstance(instance, bool):
        return
    try:
        whole = instance % step == 0 if isinstance(instance, int) and isinstance(step, int) else None
        quotient = instance / step if whole is None else 0.0
    except OverflowError:
        return
    if whole is False or (
        math.isfinite(quotient) and abs(quotient - round(quotient)) > 1e-9 * max(1.0, abs(quotient))
    ):
        yield _error(f"must be a multiple of {step}")


def _unique(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if wanted and isinstance(instance, list) and len(set(map(_identity, instance))) < len(instance):
        yield _error("must not hold the same item twice")


def _identity(value: Any) -> Any:
    """Equal for equal JSON: 1 is 1.0, and neither is true."""
    if isinstance(value, Mapping):
        return "object", frozenset((key, _identity(one)) for key, one in value.items())
    if isinstance(value, list):
        return "array", tuple(map(_identity, value))
    return isinstance(value, bool), value
