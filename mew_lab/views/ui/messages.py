"""Reads what the pages of the views send; the method that takes a message is the one declaration of it.

The parameters of that method are the members of the message, with their types; one with a default may be absent. A
parameter whose name Python keeps for itself ends with `_`. So there is no second list of them, and no method checks a
type by hand. A test holds the front ends against the same parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import signature
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

__all__ = ["MessageMember", "members_of", "read_message"]


class MessageMember(NamedTuple):
    """A member of a message: the parameter that takes it, its type, and whether it may be absent."""

    parameter: str
    form: Any
    optional: bool


def members_of(take: Callable[..., Any]) -> Mapping[str, MessageMember]:
    """The members of the message that a method takes, by name."""
    function = getattr(take, "__func__", take)
    return _members(function, bound=function is not take)


def read_message(take: Callable[..., Any], given: object) -> dict[str, Any] | None:
    """The arguments for `take`; None where a member is missing, is of another type, or is not declared."""
    declared = members_of(take)
    if not isinstance(given, dict) or not given.keys() <= declared.keys():
        return None
    fits = all(
        _fits(given[name], member.form) if name in given else member.optional
        for name, member in declared.items()
    )
    return {declared[name].parameter: value for name, value in given.items()} if fits else None


@cache  # by function: a bound method would keep its view alive
def _members(function: Callable[..., Any], *, bound: bool) -> Mapping[str, MessageMember]:
    forms = get_type_hints(function)
    parameters = list(signature(function).parameters.items())[bound:]
    return {
        name.removesuffix("_"): MessageMember(name, forms[name], parameter.default is not parameter.empty)
        for name, parameter in parameters
    }


def _fits(value: object, form: Any) -> bool:
    parts = get_args(form)
    match get_origin(form):
        case origin if origin in (Union, UnionType):
            return any(_fits(value, part) for part in parts)
        case origin if origin is Literal:
            return any(type(value) is type(part) and value == part for part in parts)
        case origin if origin in (list, Sequence):
            return isinstance(value, list) and all(_fits(item, parts[0]) for item in value)
        case origin if origin in (dict, Mapping):
            return isinstance(value, dict)
    if form is float:
        return type(value) in (int, float)
    return form is Any or type(value) is form  # so that True is no number
