"""Says in a sentence which argument of a verb has another type than the verb takes, in place of a traceback.

`explains_arguments` wraps a function, or the public methods of a class. One that raises a TypeError, an AttributeError
or a ValueError for an argument that does not fit its annotation raises a MewError instead. All other errors pass
unchanged, so it may still say more about a wrong argument, or take one that its annotation does not foresee.
"""

from __future__ import annotations

import functools
import inspect
import numbers
import types
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from mew_lab.errors import MewError
from mew_lab.protocol.visible import one_line

__all__ = ["explains_arguments"]

Explained = TypeVar("Explained", bound=Callable[..., Any])
_WORDS: Mapping[object, str] = {
    str: "a text",
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    type(None): "None",
    Mapping: "a mapping such as a dict",
    Sequence: "a list",
    Callable: "a function",
}


def explains_arguments(owner: Explained) -> Explained:
    """Decorator of a function or a class: a wrong argument of it, or of a public method that is no coroutine function,
    is told in a sentence."""
    if not isinstance(owner, type):
        return cast(Explained, _explain(owner))
    for name, member in list(vars(owner).items()):
        if (
            not name.startswith("_")
            and inspect.isfunction(member)
            and not inspect.iscoroutinefunction(member)
        ):
            setattr(owner, name, _explain(member))
    return owner


def _explain(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except (TypeError, AttributeError, ValueError):
            why = _find_misfit(method, args, kwargs)
            if not why:
                raise
        raise MewError(why)

    return call


def _find_misfit(method: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """The sentence about the first argument that does not fit its annotation; empty where all do."""
    signature = inspect.signature(method)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError as fault:
        return f"Cannot {method.__name__} so: {fault}"
    for name, value in given.items():
        parameter = signature.parameters[name]
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        hint = _hint_of(method, name)
        if not _fits(value, hint):
            return f"Cannot {method.__name__} so: {name} takes {_name(hint)}, and not {_describe(value)}"
    return ""


def _hint_of(method: Callable[..., Any], name: str) -> Any:
    """The annotation of a parameter; Any where there is none, or it names what only a type checker imports."""
    annotations = {name: method.__annotations__.get(name, Any)}
    try:
        return get_type_hints(type("_Of", (), {"__annotations__": annotations}), method.__globals__)[name]
    except Exception:  # whatever an annotation of a subclass holds
        return Any


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type; True where that cannot be said."""
    origin, within = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, one) for one in within)
    if origin is Literal:
        return value in within
    if hint in (int, float):
        kind = numbers.Integral if hint is int else numbers.Real
        return isinstance(value, kind) and not isinstance(value, bool)
    if hint is None:
        return value is None
    kind = origin or hint
    if not isinstance(kind, type):
        return True
    if issubclass(kind, Sequence | AbstractSet) and not issubclass(kind, str | bytes):
        is_many = isinstance(value, kind) and not isinstance(value, str | bytes)
        return is_many and (not within or all(_fits(item, within[0]) for item in value))
    try:
        return isinstance(value, kind)
    except TypeError:  # a protocol
        return True


def _describe(value: Any) -> str:
    """A number, a truth value or None as it is; of all else the type alone, because it may hold a secret."""
    if value is None or isinstance(value, bool | int | float):
        return one_line(f"{value!r:.200}", 60)
    if isinstance(value, str):
        return "a text"
    kind = one_line(type(value).__name__, 60)
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def _name(hint: Any) -> str:
    """A type in words, such as `a text, a list or None`."""
    origin, within = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        words = list(dict.fromkeys(map(_name, within)))
        return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
    if origin is Literal:
        return f"one of {', '.join(map(repr, within))}"
    kind = origin or hint
    if isinstance(kind, type):
        # A text is a sequence too, and so is a named tuple, which no list replaces.
        if issubclass(kind, Sequence) and not issubclass(kind, str) and not hasattr(kind, "_fields"):
            kind = Sequence
        elif issubclass(kind, Mapping):
            kind = Mapping
    return _WORDS.get(kind, getattr(kind, "__name__", str(kind)))
