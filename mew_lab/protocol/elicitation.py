"""What an MCP server may ask a person, and what may be answered: forms of flat fields, addresses to open. Pure.

Both ends check: the bridge of a server before it asks and before it passes an answer on, and the participant of the
person before a form is shown. A schema that is no flat form is refused, not repaired.

Spec: MCP 2025-11-25 and 2026-07-28 "Elicitation".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from mew_lab.errors import ProtocolError
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.json_schema import Validator
from mew_lab.protocol.visible import one_line

__all__ = [
    "ACTIONS",
    "ASKED_AS",
    "CREATE_MESSAGE",
    "DECIDER",
    "ELICIT",
    "OWNER",
    "Elicitation",
    "answer_faults",
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
MAX_FIELDS = 50
MAX_URL = 4096
_TYPES = ("string", "number", "integer", "boolean")
_NESTING = frozenset(
    {
        *("$ref", "$dynamicRef", "$id", "$schema", "$defs", "definitions", "properties", "patternProperties"),
        *("additionalProperties", "allOf", "anyOf", "not", "if", "then", "else", "prefixItems", "contains"),
        *("propertyNames", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties"),
    }
)
_OF_THE_FORM = frozenset({"type", "properties", "required", "title", "description", "$schema"})
_SECRET = re.compile(
    r"passw|passphrase|secret|token|api.?key|credential|private.?key|\bpin\b|\bcvv\b|\bcvc\b|\bssn\b|card.?number",
    re.I,
)


class Elicitation(NamedTuple):
    """One question of a server to a person.

    Attributes:
        message: What the server says.
        schema: The flat schema of the form; empty for an address.
        url: The address that the server wants to be opened; empty for a form.
        secrets: The fields that look as if they asked for a secret.
    """

    message: str
    schema: Mapping[str, Any]
    url: str = ""
    secrets: tuple[str, ...] = ()

    @property
    def host(self) -> str:
        """The host of the address."""
        return urlsplit(self.url).netloc if self.url else ""


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
        return Elicitation(message, {}, url=_read_url(params.get("url")))
    if mode != "form":
        raise _bad(f"has the mode {one_line(str(mode), 40)!r}; there are form and url")
    schema = params.get("requestedSchema")
    _check_schema(schema)
    assert isinstance(schema, Mapping)
    fields = schema["properties"]
    secrets = tuple(name for name, field in fields.items() if _looks_secret(name, field))
    return Elicitation(message, schema, secrets=secrets)


def _bad(what: str) -> ProtocolError:
    return ProtocolError(what, code="invalid_params")


def _read_url(url: object) -> str:
    if not isinstance(url, str) or len(url) > MAX_URL:
        raise _bad(f"has no URL of at most {MAX_URL} characters")
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError as fault:
        raise _bad(f"has no valid URL: {one_line(str(fault), 80)}") from None
    if parts.scheme not in ("http", "https") or not host or not url.isprintable() or " " in url:
        raise _bad(f"has no URL that begins with https:// and names a host: {one_line(url, 80)!r}")
    return url


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


def _looks_secret(name: str, field: Mapping[str, Any]) -> bool:
    texts = (name, field.get("title"), field.get("description"), field.get("format"))
    return any(isinstance(text, str) and _SECRET.search(text) for text in texts)


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
    action = result.get("action") if isinstance(result, Mapping) else None
    if action not in ACTIONS:
        raise _bad(f"it has no action of {', '.join(ACTIONS)}")
    assert isinstance(result, Mapping)
    if action != "accept" or asked.url:
        return {"action": action}
    content = result.get("content")
    if why := answer_faults(asked, content):
        raise _bad(why)
    return {"action": "accept", "content": content}
