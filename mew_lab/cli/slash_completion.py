"""Completes a typed line: commands, the names that they take, and the arguments of a tool by its JSON Schema.

It is called while a person types: names come from what is known, no request is sent. Names come from peers, so one that
would not stand in a line as it reads is not offered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from mew_lab.cli.slash_commands import COMMANDS, SlashArgument
from mew_lab.protocol.json_schema import SchemaMember, members_of, resolve_reference
from mew_lab.protocol.visible import one_line, visible, visible_json

__all__ = ["Completions", "KnownNames", "Suggestion", "complete_json", "complete_line"]

MOST = 100  # completions of one word
LONGEST = 200  # characters of a completion
ABOUT = 60  # characters of what is told beside it
DEEPEST = 32  # objects within objects of typed arguments


class Suggestion(NamedTuple):
    """A completion, and what it is in a few words."""

    text: str
    about: str = ""


class Completions(NamedTuple):
    """What may stand at the end of a line in place of `word`, which was typed so far."""

    choices: list[Suggestion]
    word: str


class KnownNames(Protocol):
    """The names that are known without asking anybody."""

    def names(self, source: str) -> Iterable[Suggestion]:
        """The names of a source that the table of commands names, such as `participant`."""

    def schema(self, tool: str) -> object:
        """The schema of the arguments of `participant/tool`; None where it is not known."""


def complete_line(line: str, known: KnownNames) -> Completions:
    """The completions at the end of a typed line."""
    if not line.startswith("/") or line.startswith("//"):
        return Completions([], "")
    typed = line[1:]
    name = next((name for name in _longest_first() if typed.startswith(f"{name} ")), "")
    if not name:
        return _complete_command(line)
    rest = typed[len(name) + 1 :].lstrip()
    words = rest.split()
    word = "" if not rest or rest[-1].isspace() else words.pop()
    arguments = COMMANDS[name].arguments
    keywords = {f"{one.keyword}=": one for one in arguments if one.keyword}
    filled = sum(not one.startswith(tuple(keywords)) for one in words) if keywords else len(words)
    places = [one for one in arguments if not one.keyword]
    place = places[min(filled, len(places) - 1)] if places else None
    if place is not None and filled >= len(places) and not (place.many or place.rest):
        place = None
    if place is not None and place.names == "arguments":
        _, _, text = rest.partition(words[0])
        return complete_json(text.lstrip(), known.schema(words[0]))
    for keyword, argument in keywords.items():
        if word.startswith(keyword):
            return _fit([Suggestion(f"{keyword}{text}") for text in argument.choices], word)
    found = [] if place is None else list(_names_of(place, known))
    return _fit([*found, *(Suggestion(keyword, "option") for keyword in keywords if words)], word)


def _longest_first() -> list[str]:
    return sorted(COMMANDS, key=len, reverse=True)


def _complete_command(line: str) -> Completions:
    choices = [
        Suggestion(f"/{name}{' ' if command.arguments else ''}", command.about.split("\n")[0])
        for name, command in COMMANDS.items()
    ]
    return _fit(choices, line)


def _names_of(argument: SlashArgument, known: KnownNames) -> Iterator[Suggestion]:
    yield from map(Suggestion, argument.choices)
    if argument.names == "command":
        yield from map(Suggestion, COMMANDS)
    elif argument.names:
        for source in argument.names.split("|"):
            yield from known.names(source)


def _fit(choices: Iterable[Suggestion], word: str) -> Completions:
    """The choices that begin with a word and stand in a line as they read, each once."""
    found = {
        text: Suggestion(text, one_line(about, ABOUT))
        for text, about in choices
        if text.startswith(word) and len(text) <= LONGEST and visible(text) == text
    }
    return Completions(list(found.values())[:MOST], word)


# --- the arguments of a tool -------------------------------------------------------------------------------------


@dataclass
class _OpenLevel:
    """An object or a list that is open at the end of the text."""

    opening: str
    phase: str = "key"  # what comes next: key, colon, value or comma
    keys: list[str] = field(default_factory=list)


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|"(?:[^"\\]|\\.)*\\?\Z|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
_CLOSING = {"}": "{", "]": "["}


def complete_json(text: str, schema: object) -> Completions:
    """The completions at the end of JSON that is typed in part, by a schema of the whole."""
    if not isinstance(schema, Mapping):
        return Completions([], "")
    if not text:
        return Completions([Suggestion("{" if members_of(schema) else "{}", "arguments")], "")
    place = _find_place(text)
    if place is None:
        return Completions([], "")
    levels, word = place
    at: object = schema
    for level in levels[:-1]:
        at = _descend(schema, at, level)
    level = levels[-1]
    match level.phase:
        case "key":
            choices = [*_keys(_whole(schema, at), level.keys), *_end(schema, at, level)]
        case "colon":
            choices = [Suggestion(": ")]
        case "value":
            choices = list(_values(_whole(schema, _descend(schema, at, level))))
        case _:
            more = level.opening == "[" or any(_keys(_whole(schema, at), level.keys))
            choices = [*([Suggestion(", ")] if more else []), *_end(schema, at, level)]
    if level.phase == "key" and word and not word.startswith('"'):  # a name without its quotes
        word_choices = [choice for choice in choices if choice.text.startswith(f'"{word}')]
        return Completions(word_choices[:MOST], word)
    return _fit(choices, word)


def _find_place(text: str) -> tuple[list[_OpenLevel], str] | None:
    """The levels that are open at the end of a text, and its last word where that is in part; None if it is no JSON."""
    levels: list[_OpenLevel] = []
    end = 0
    while end < len(text):
        if text[end].isspace():
            end += 1
            continue
        found = _TOKEN.match(text, end)
        if found is None:
            return None
        token, end = found[0], found.end()
        is_text = token[0] == '"'
        if levels and end == len(text) and token not in _PUNCTUATION and not (is_text and _is_closed(token)):
            return levels, token
        if not _take(levels, token) or len(levels) > DEEPEST:
            return None
    return (levels, "") if levels else None


_PUNCTUATION = frozenset("{}[]:,")


def _is_closed(token: str) -> bool:
    return re.fullmatch(r'"(?:[^"\\]|\\.)*"', token, re.DOTALL) is not None


def _take(levels: list[_OpenLevel], token: str) -> bool:
    """Takes one token; returns whether it may stand there."""
    level = levels[-1] if levels else None
    phase = level.phase if level else "value"
    if token in ("{", "["):
        if phase != "value" or (level is None and token == "["):
            return False
        levels.append(_OpenLevel(token, "key" if token == "{" else "value"))
        return True
    if level is None:
        return False
    if token in _CLOSING:
        levels.pop()
        if level.opening != _CLOSING[token] or not levels:
            return False
        levels[-1].phase = "comma"
        return True
    expected = {":": "colon", ",": "comma"}.get(token, phase if phase in ("key", "value") else "")
    if phase != expected:
        return False
    if phase == "key":
        if token[0] != '"':
            return False
        try:
            level.keys.append(str(json.loads(token)))
        except ValueError:
            return False
    following = {"key": "colon", "colon": "value", "value": "comma"}
    level.phase = following.get(phase, "key" if level.opening == "{" else "value")
    return True


def _whole(root: Mapping[str, Any], part: object) -> dict[str, Any]:
    """A part of a schema with what the root defines beside it, and what it refers to."""
    found = dict(part) if isinstance(part, Mapping) else {}
    if isinstance(reference := found.get("$ref"), str):
        target = resolve_reference(root, reference)
        found = (dict(target) if isinstance(target, Mapping) else {}) | found
    return {key: root[key] for key in ("$defs", "definitions") if key in root} | found


def _descend(root: Mapping[str, Any], part: object, level: _OpenLevel) -> object:
    """The schema of the value that comes next, or that is open, at a level."""
    whole = _whole(root, part)
    if level.opening == "[":
        return whole.get("items")
    member = members_of(whole).get(level.keys[-1]) if level.keys else None
    return member.schema if member else None


def _keys(schema: Mapping[str, Any], given: Sequence[str]) -> list[Suggestion]:
    """The members that are not given yet, those that are required first."""
    left = [(name, member) for name, member in members_of(schema).items() if name not in given]
    left.sort(key=lambda pair: not pair[1].required)
    return [Suggestion(f"{_json(name)}: ", _about(member)) for name, member in left]


def _end(root: Mapping[str, Any], part: object, level: _OpenLevel) -> list[Suggestion]:
    """The end of a level, where nothing that is required is missing."""
    if level.opening == "[":
        return [Suggestion("]")]
    members = members_of(_whole(root, part)).items()
    missing = [name for name, member in members if member.required and name not in level.keys]
    trailing = level.phase == "key" and level.keys  # behind a comma
    return [] if missing or trailing else [Suggestion("}")]


def _about(member: SchemaMember) -> str:
    schema = member.schema if isinstance(member.schema, Mapping) else {}
    kind = schema.get("type")
    words = ["required" if member.required else "optional", kind if isinstance(kind, str) else ""]
    description = schema.get("description")
    about = ", ".join(filter(None, words))
    return f"{about}: {description}" if isinstance(description, str) and description else about


def _values(schema: Mapping[str, Any]) -> Iterator[Suggestion]:
    """The values that a schema names."""
    for key in ("enum", "examples"):
        values = schema.get(key)
        if isinstance(values, list):
            yield from (
                Suggestion(_json(value), "example" if key == "examples" else "") for value in values[:MOST]
            )
    yield from (Suggestion(_json(schema[key]), key) for key in ("const", "default") if key in schema)
    kinds = schema.get("type")
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        yield from map(Suggestion, _BY_TYPE.get(kind, ()) if isinstance(kind, str) else ())
    for forms in (schema.get("anyOf"), schema.get("oneOf")):
        for form in forms[:MOST] if isinstance(forms, list) else ():
            whole = _whole(schema, form)
            if not {"anyOf", "oneOf"} & whole.keys():  # a form may refer to itself
                yield from _values(whole)


_BY_TYPE: Mapping[str, tuple[str, ...]] = {
    "boolean": ("true", "false"),
    "null": ("null",),
    "object": ("{",),
    "array": ("[",),
}


def _json(value: object) -> str:
    """A value as JSON of one line, with every invisible character as an escape."""
    return visible_json(json.dumps(value, ensure_ascii=False))
