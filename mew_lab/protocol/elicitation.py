"""What an MCP server may ask a person, and what may be answered: forms of flat fields, addresses to open. Pure.

Both ends check: the bridge of a server before it asks and before it passes an answer on, and the participant of the
person before a form is shown. A schema that is no flat form is refused, not repaired.

Spec: MCP 2025-11-25 and 2026-07-28 "Elicitation".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from mew_lab.errors import ProtocolError
from mew_lab.protocol.address import read_host
from mew_lab.protocol.coerce import member
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.json_schema import Validator
from mew_lab.protocol.text import fold
from mew_lab.protocol.visible import one_line, visible

__all__ = [
    "ACTIONS",
    "ASKED_AS",
    "CREATE_MESSAGE",
    "DECIDER",
    "ELICIT",
    "OWNER",
    "Elicitation",
    "answer_faults",
    "choices_of",
    "read_answer",
    "read_elicitation",
]

ELICIT: Final = "elicitation/create"
CREATE_MESSAGE: Final = "sampling/createMessage"

ASKED_AS: Final = "mew_lab/asked-as"
"""The member of `_meta` that tells a person why she is asked: as `DECIDER` of the call, or as `OWNER` of the bridge."""
DECIDER: Final = "decider"
OWNER: Final = "owner"

ACTIONS: Final = ("accept", "decline", "cancel")
MAX_MESSAGE = 8000  # characters
MAX_SCHEMA = 64 * 1024  # characters of its JSON
MAX_FIELDS = 50  # that a server may ask a person to fill in at once
MAX_CHOICES = 200  # of a field
MAX_URL = 4096  # characters; a server writes it, and a person reads it
_TYPES = ("string", "number", "integer", "boolean")
_NESTING = frozenset(
    {
        *("$ref", "$dynamicRef", "$id", "$schema", "$defs", "definitions", "properties", "patternProperties"),
        *("additionalProperties", "allOf", "anyOf", "not", "if", "then", "else", "prefixItems", "contains"),
        *("propertyNames", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties"),
    }
)
_RULES = frozenset(
    {"type", "format", "pattern", "minLength", "maxLength", "minimum", "maximum", "uniqueItems"}
)
_NO_WORDS = (_RULES - {"format"}) | {"$schema", "required"}
_CHOICES = frozenset({"enum", "enumNames", "oneOf", "anyOf", "items", "const", "default"})
_OF_THE_FORM = frozenset({"type", "properties", "required", "title", "description", "$schema"})
# Of texts in words: folded, with one blank between two words.
_SECRET = re.compile(
    r"passw(?:or|rd)|\bpass w(?:or|rd)|pass ?phrase|\bpass ?(?:code|key)|\bpwd\b|secret|token|api ?key|credential|"
    r"\bbearer\b|\bjwt\b|session ?(?:id|cookie|key)|"
    r"private ?key|\bpins?\b|\bpin(?:code|number)|\bcv[vc]2?\b|\bssn\b|social security|card ?number|"
    r"\bt?otps?(?:code)?\b|\b[2m]fa\b|two factor|one ?time|mnemonic|"
    r"\b(?:verification|security|log ?in|sign ?in|backup|recovery|seed|auth(?:entication|enticator)?|access) ?"
    r"(?:code|key|phrase|word)"
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BETWEEN = re.compile(r"[\W_]+")
_SPACED = re.compile(r"\b(\w) (?=\w\b)")


class Elicitation(NamedTuple):
    """One question of a server to a person.

    Attributes:
        message: What the server says.
        schema: The flat schema of the form; empty for an address.
        url: The address that the server wants to be opened; empty for a form.
        host: The host of the address, as a browser reads it.
        remarks: What a person should know of that host, one sentence each.
        secrets: The fields that look as if they asked for a secret.
        is_secret: Whether the message, or a text of the form as a whole, asks for one.
    """

    message: str
    schema: Mapping[str, Any]
    url: str = ""
    host: str = ""
    remarks: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    is_secret: bool = False

    @property
    def texts(self) -> dict[str, Any]:
        """The texts that a person reads, each by its place: the message, the form, its fields."""
        own = {"message": self.message}
        form = {name: self.schema[name] for name in ("title", "description") if name in self.schema}
        fields = {
            f"the field {name}": {"name": name}
            | {key: value for key, value in field.items() if key not in _RULES}
            for name, field in self.schema.get("properties", {}).items()
        }
        return own | ({"the form": form} if form else {}) | fields


def read_elicitation(params: Mapping[str, Any]) -> Elicitation:
    """The question in the params of `elicitation/create`.

    Raises:
        ProtocolError: they hold no question that can be shown; the message is a predicate, such as "has no message".
    """
    message, mode = params.get("message"), params.get("mode", "form")
    if not isinstance(message, str):
        raise _bad("has no message")
    if len(message) > MAX_MESSAGE:
        raise _bad(f"has a message of {len(message)} characters; at most {MAX_MESSAGE} can be shown")
    if mode == "url":
        return _read_url(message, params.get("url"))
    if mode != "form":
        raise _bad(f"has the mode {one_line(str(mode), 40)!r}; there are form and url")
    schema = params.get("requestedSchema")
    _check_schema(schema)
    assert isinstance(schema, Mapping)
    fields = schema["properties"]
    secrets = tuple(name for name, field in fields.items() if _asks_secret(name, field))
    known = {"message", "mode", "requestedSchema", "_meta"}
    more = {name: value for name, value in params.items() if name not in known}
    form = {name: value for name, value in schema.items() if name != "properties"}
    whole = _asks_secret(message, form, more)
    return Elicitation(message, schema, secrets=secrets, is_secret=whole)


def _bad(what: str) -> ProtocolError:
    return ProtocolError(what, code="invalid_params")


def _read_url(message: str, url: object) -> Elicitation:
    if not isinstance(url, str) or len(url) > MAX_URL:
        raise _bad(f"has no URL of at most {MAX_URL} characters")
    try:
        host = read_host(url)
    except ValueError as fault:
        raise _bad(f"{fault}: {one_line(url, 200)!r}") from None
    return Elicitation(message, {}, url=url, host=host.text, remarks=host.remarks)


def _check_schema(schema: object) -> None:
    """Refuses what is no flat form, before anything walks through it."""
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise _bad("has no schema of the type object")
    try:
        size = len(compact(schema))
    except (ProtocolError, RecursionError, ValueError):
        raise _bad("has a schema that is no JSON") from None
    if size > MAX_SCHEMA:
        raise _bad(f"has a schema of {size} characters; a form has at most {MAX_SCHEMA}")
    if more := sorted(set(schema) - _OF_THE_FORM):
        raise _bad(f"has a schema with {one_line(', '.join(more), 80)}; a form has properties alone")
    fields = schema.get("properties")
    if not isinstance(fields, Mapping) or not fields:
        raise _bad("has a schema without fields")
    if len(fields) > MAX_FIELDS:
        raise _bad(f"has a schema of {len(fields)} fields; a form has at most {MAX_FIELDS}")
    for name, field in fields.items():
        if why := _not_flat(field):
            raise _bad(f"has a field {one_line(name, 60)!r} {why}; a form has flat fields alone")
        choices = choices_of(field) or []
        if len(choices) > MAX_CHOICES:
            most = f"at most {MAX_CHOICES} can be shown"
            raise _bad(f"has a field {one_line(name, 60)!r} of {len(choices)} choices; {most}")
        if alike := _find_alike(value for _, value in choices):
            raise _bad(f"has a field {one_line(name, 60)!r} whose choices {alike} look the same")
    if alike := _find_alike(fields):
        raise _bad(f"has fields whose names {alike} look the same")
    if gaps := Validator(schema).gaps():
        raise _bad(f"has a schema that cannot be checked: {_tell(gaps)}")


def _not_flat(field: object) -> str:
    if not isinstance(field, Mapping):
        return "that is no schema"
    nested = _NESTING.intersection(field)
    kind = field.get("type")
    if nested:
        return f"with {min(nested)}"
    if kind == "array":
        items = field.get("items")
        if not isinstance(items, Mapping) or (_NESTING - {"anyOf"}).intersection(items):
            return "that is a list without fixed choices"
        options = items.get("enum", items.get("anyOf", items.get("oneOf")))
        return "" if _are_options(options) else "that is a list without fixed choices"
    if kind not in _TYPES:
        return f"of the type {one_line(str(kind), 40)}"
    return "" if "oneOf" not in field or _are_options(field["oneOf"]) else "whose choices are no texts"


def _are_options(options: object) -> bool:
    """Whether these are choices: texts, or `{"const": text, "title": text}`."""
    return isinstance(options, list) and all(
        isinstance(option, str)
        or (
            isinstance(option, Mapping)
            and set(option) <= {"const", "title"}
            and isinstance(option.get("const"), str)
        )
        for option in options
    )


def choices_of(field: Mapping[str, Any]) -> list[tuple[str, Any]] | None:
    """The values of which one is chosen, each with the server's title for it; None where there are none.

    A list has the choices of its items.
    """
    items = field.get("items")
    field = items if field.get("type") == "array" and isinstance(items, Mapping) else field
    for keyword in ("enum", "oneOf", "anyOf"):
        options = field.get(keyword)
        if isinstance(options, list) and options and (keyword == "enum" or _are_options(options)):
            return [
                (str(option.get("title", "")), option["const"])
                if keyword != "enum" and isinstance(option, Mapping)
                else ("", option)
                for option in options
            ]
    return None


def _find_alike(values: Iterable[Any]) -> str:
    """Two different values that are shown alike, as JSON; empty where there are none. Blanks do not tell them apart."""
    shown: dict[str, str] = {}
    for value in values:
        exact = compact(value)
        text = value if isinstance(value, str) else exact
        other = shown.setdefault(" ".join(visible(text).split()), exact)
        if other != exact:
            return f"{one_line(other, 60)} and {one_line(exact, 60)}"
    return ""


def _asks_secret(*texts: object) -> bool:
    """Whether a text asks for a secret, however it is spelt; of a field its name and each text of its schema.

    What is only chosen is no secret: of a field with choices, the choices are not read.
    """
    for text in _texts_of(*texts):
        words = _BETWEEN.sub(" ", fold(_CAMEL.sub(" ", unicodedata.normalize("NFKC", text))))
        if _SECRET.search(words) or _SECRET.search(_SPACED.sub(r"\1", words)):
            return True
    return False


def _texts_of(*values: object) -> Iterator[str]:
    """The texts in some values, however deep they lie, but for rules of a schema and choices."""
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            unread = _NO_WORDS | _CHOICES if choices_of(value) is not None else _NO_WORDS
            waiting += [member for key, member in value.items() if key not in unread]
        elif isinstance(value, list):
            waiting += value


def answer_faults(asked: Elicitation, content: object) -> str:
    """Why `content` is no answer to the form, as one text; empty where it fits."""
    if not isinstance(content, dict):
        return "there are no values"
    if unknown := sorted(set(content) - set(asked.schema["properties"])):
        return f"the form has no field {one_line(', '.join(unknown), 80)}"
    result = Validator(asked.schema).validate(content)
    return _tell(result.violations) or "; ".join(result.notes[:3])


def _tell(violations: Iterable[Any]) -> str:
    told = [
        f"{one_line('/'.join(map(str, fault.path)), 60)} {fault.message}".strip()
        for fault in list(violations)[:5]
    ]
    return "; ".join(told)


def read_answer(asked: Elicitation, result: object) -> dict[str, Any]:
    """The answer of a person as the server may get it: `action`, and for an accepted form its `content`.

    Raises:
        ProtocolError: it is no answer to this question; the message says why.
    """
    action, content = member(result, "action"), member(result, "content")
    if action not in ACTIONS:
        raise _bad(f"it has no action of {', '.join(ACTIONS)}")
    if action != "accept" or asked.url:
        return {"action": action}
    if why := answer_faults(asked, content):
        raise _bad(why)
    return {"action": "accept", "content": content}
