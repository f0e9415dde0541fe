"""Says in a sentence which argument of a verb has a wrong name, place, unit or type, in place of a traceback.

`explains_arguments` wraps a function, or the public methods of a class. One that raises a TypeError, an AttributeError
or a ValueError for arguments that its signature or an annotation does not fit raises a MewError instead. All other
errors pass unchanged, so it may still say more about a wrong argument, or take one that its annotation does not foresee.
"""

from __future__ import annotations

import functools
import inspect
import numbers
import re
import types
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from mew_lab.errors import MewError
from mew_lab.protocol.visible import one_line
from mew_lab.settings.faults import did_you_mean

__all__ = ["explains_arguments", "snake_case", "unexplained"]

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
# Other names of a time, where a verb has `minutes`.
_IN_MINUTES = frozenset({"seconds", "timeout_seconds", "hours", "duration", "minute", "mins", "min"})


def explains_arguments(owner: Explained) -> Explained:
    """Decorator of a function or a class: a wrong argument of it, or of a public method, is told in a sentence.

    A constructor has it for itself. A method with the decorator `unexplained` is left out.
    """
    if not isinstance(owner, type):
        return cast(Explained, _explain(owner))
    explained: dict[object, Callable[..., Any]] = {}  # a method of two names stays one
    for name, member in list(vars(owner).items()):
        if not name.startswith("_") and inspect.isfunction(member) and not hasattr(member, "unexplained"):
            explained.setdefault(member, _explain(member))
            setattr(owner, name, explained[member])
    return owner


def unexplained(method: Explained) -> Explained:
    """Decorator of a method that every message passes, and that the package calls itself."""
    method.unexplained = True  # type: ignore[attr-defined]
    return method


def snake_case(name: str) -> str:
    """A name as Python spells it: `max_iterations` for `maxIterations`, `on_mcp_request` for `onMCPRequest`."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return apart.lower()


def _explain(method: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def wait(*args: Any, **kwargs: Any) -> Any:
            try:
                return await method(*args, **kwargs)
            except (TypeError, AttributeError, ValueError):
                why = _find_misfit(method, args, kwargs)
                if not why:
                    raise
            raise MewError(why)

        return wait

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
    made = method.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    so = (
        f"Cannot make a {made} so" if method.__name__ == "__init__" else f"Cannot call {method.__name__}() so"
    )
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError as fault:
        return f"{so}: {_find_unbound(signature, args, kwargs) or fault}"
    for name, value in given.items():
        parameter = signature.parameters[name]
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        hint = _hint_of(method, name)
        if not _fits(value, hint):
            options = f"; options are keywords: {made}({name}=…)" if isinstance(value, Mapping) else ""
            options = options if method.__name__ == "__init__" else ""
            return f"{so}: {name} takes {_name(hint)}, and not {_describe(value)}{options}"
    return ""


def _find_unbound(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """The sentence about an argument of an unknown name, or one by place that has no place; empty where neither is."""
    parameters = [each for each in signature.parameters.values() if each.kind < each.VAR_KEYWORD]
    takes = [each.name for each in parameters if each.name != "self"]
    for name in kwargs:
        if name in takes:
            continue
        word, shown = snake_case(name), one_line(name, 60)
        in_ms = word.removesuffix("ms").rstrip("_")
        if word in takes:
            return f"{shown!r} is no argument of it; did you mean {word!r}?"
        if "minutes" in takes and word in _IN_MINUTES:
            return f"{shown!r} is no argument of it; did you mean 'minutes', which is in minutes?"
        if word.endswith("ms") and in_ms in takes:
            return f"{shown!r} is no argument of it; did you mean {in_ms!r}, which is in seconds?"
        return f"{shown!r} is no argument of it; {did_you_mean(word, takes) or f'it takes {_list(takes)}'}"
    placed = [each.name for each in parameters if each.kind < each.VAR_POSITIONAL]
    if len(args) > len(placed):
        shown = _list([name for name in placed if name != "self"]) or "nothing"
        named = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
        is_number = isinstance(args[len(placed)], int | float)
        if "timeout" in named and "minutes" not in named and is_number:
            return f"it takes {shown} by place, and a timeout by name, in seconds, such as timeout=5.0"
        rest = f", and {_list(named)} by name" if named else ""
        return f"it takes {shown} by place{rest}"
    return ""


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (" …" if len(names) > 12 else "")


def _hint_of(method: Callable[..., Any], name: str) -> Any:
    """The annotation of a parameter; Any where there is none, or it names what only a type checker imports."""
    annotations = {name: method.__annotations__.get(name, Any)}
    try:
        known = inspect.unwrap(method).__globals__  # not those of a decorator
        return get_type_hints(type("_Of", (), {"__annotations__": annotations}), known)[name]
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
