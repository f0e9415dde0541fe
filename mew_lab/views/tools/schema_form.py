"""Plans the fields of a form for a JSON Schema, in bounds.

A plan consists of plain dictionaries, so that it can be sent as it is. Its texts are visible text; `key`, `default` and
the values of options are exact, because they are sent back. A default is an offer: nobody sends it without taking it. A
name, a constant or a choice is never cut: one that is too long is left to be written as JSON. A field that no other kind
fits has the kind `json`, so a person can enter every value that the schema allows. Fields are planned breadth first, so
that one deep branch does not use up the limit. `mew_lab.protocol.json_schema` validates the values, and ui/form.js draws
the form.

Bounds: 400 fields, 100 members of an object, 8 levels (references counted as levels), 200 options, 1000 characters of a
description, 4000 of a default or a constant, 120 of a name. A form that a server asks to be filled in is bounded by
`mew_lab.protocol.elicitation`, and `plan` of its schema is `whole`: all of its texts are shown.

Spec: MCP `inputSchema` (JSON Schema 2020-12).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from mew_lab.protocol.elicitation import choices_of
from mew_lab.protocol.json_schema import gives_default, members_of, resolve_reference
from mew_lab.protocol.visible import one_line, visible, visible_json

__all__ = ["FormField", "plan", "summary"]

MAX_FIELDS = 400
MAX_MEMBERS = 100
MAX_LEVELS = 8
MAX_OPTIONS = 200
MAX_ABOUT = 1000  # characters
MAX_DEFAULT = 4000
MAX_LABEL = 120  # characters of a name
ENDLESS = 10_000_000  # characters, where a text is not cut
SHORT = 200  # a string of more characters gets several lines

TOO_MUCH = "This part is too large for a form: write it as JSON."

FormField = dict[str, Any]
"""`kind` is string, number, integer, boolean, null, choice, constant, array, tuple, object, variants or json.

Always: `label`, `about`, `limits` (one line), `required`. Where they apply: `key`, `title`, `default` (JSON text),
`offered` (a default to be read), `format`, `hint`, `lines` (whether more than one), `options` ([label, JSON text], and
the value to be read where the label is a title of it), `value` (JSON text) and `shown` of a constant, `items`, `parts`,
`members`, `other`, `variants`, `note`, `more` (the other members of a schema that is planned whole, as JSON), `sample`
(shown in an empty field).
"""

_ORDER = ("object", "array", "string", "number", "integer", "boolean", "null")
_FORMATS: Mapping[str, str] = {
    "date": "2026-03-31",
    "date-time": "2026-03-31T14:00:00Z",
    "time": "14:00:00Z",
    "duration": "P3DT4H",
    "uri": "https: and so on",
    "uri-reference": "../readme",
    "email": "somebody@example",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "regex": "^[a-z]+$",
}
# What a form shows of a schema in places of its own.
_SHOWN = frozenset(
    {
        *("type", "default", "const", "minimum", "maximum"),
        *(
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
        ),
        *("minProperties", "maxProperties", "uniqueItems"),
    }
)
_LONG_FORMATS = {"multi-line", "multiline", "textarea", "markdown", "html"}


def plan(schema: Any, *, whole: bool = False) -> FormField:
    """The field for a whole value; for the arguments of a tool its kind is `object`.

    Malformed parts of the schema are left out; nothing is raised. `whole` is for a bounded schema, of which no text is
    cut or left out.
    """
    return SchemaForm(schema, whole=whole).plan_whole()


def summary(schema: Any, limit: int = 12) -> list[tuple[str, str, bool]]:
    """The arguments of a tool as (name, type, whether required), the required ones first."""
    ordered = sorted(members_of(schema).items(), key=lambda item: not item[1].required)
    return [(one_line(key, 60), _name_type(of), needed) for key, (of, needed) in ordered[:limit]]


class SchemaForm:
    """The plan of one form under construction; `plan_whole` returns the field of the whole value."""

    def __init__(self, schema: Any, *, whole: bool) -> None:
        self._root = schema
        self._whole = whole
        self._left = MAX_FIELDS
        self._todo: deque[tuple[FormField, Any, int]] = deque()

    def plan_whole(self) -> FormField:
        field = self._field(self._root, 0, label="arguments", required=True)
        while self._todo:
            self._fill(*self._todo.popleft())
        return field

    def _field(
        self, schema: Any, level: int, *, label: str, required: bool = False, key: str | None = None
    ) -> FormField:
        """Returns an empty field and queues it to be filled."""
        field: FormField = {
            "kind": "json",
            "label": one_line(label, ENDLESS if self._whole else MAX_LABEL),
            "about": "",
            "limits": "",
            "required": required,
        }
        if key is not None:
            field["key"] = key
        self._left -= 1
        if self._left < 0 or level > MAX_LEVELS:
            field["note"] = TOO_MUCH
        else:
            self._todo.append((field, schema, level))
        return field

    def _has_room(self, field: FormField, count: int) -> bool:
        """Whether `count` more fields fit; if not, this field remains one for JSON and gets a note."""
        if count > self._left:
            field["note"] = TOO_MUCH
        return count <= self._left

    def _fill(self, field: FormField, schema: Any, level: int) -> None:
        schema, level = self._resolve(schema, level)
        if not isinstance(schema, Mapping):
            if schema is False:
                field["note"] = "The schema allows no value here."
            return
        _describe(field, schema, whole=self._whole)
        options = self._options(schema)
        if "const" in schema:
            text = _json(schema["const"])
            if len(text) > MAX_DEFAULT and not self._whole:
                field["note"] = f"The one value that fits has {len(text)} characters: write it as JSON."
            else:
                field |= {"kind": "constant", "value": text, "shown": _read(schema["const"])}
        elif options:
            self._choice(field, options)
        elif forms := self._forms(schema):
            if not self._has_room(field, len(forms)):
                return
            field["kind"] = "variants"
            field["variants"] = [
                self._field(form, level + 1, label=_name_form(self._resolve(form, 0)[0], n))
                for n, form in enumerate(forms, 1)
            ]
        else:
            self._fill_typed(field, schema, level)

    def _resolve(self, schema: Any, level: int) -> tuple[Any, int]:
        """The schema behind a reference, merged with its siblings. Each reference is a level, so that cycles end."""
        while isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str) and level <= MAX_LEVELS:
            target = resolve_reference(self._root, schema["$ref"])
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            if not isinstance(target, Mapping):
                return beside, level
            schema, level = {**target, **beside}, level + 1
        if isinstance(schema, Mapping) and isinstance(schema.get("allOf"), list):
            schema = self._merge(schema)
        return schema, level

    def _merge(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """The members of `allOf` merged one level deep, for the form; the validator applies them exactly."""
        whole: dict[str, Any] = {}
        for part in [*schema["allOf"][:20], {k: v for k, v in schema.items() if k != "allOf"}]:
            part = (
                resolve_reference(self._root, part["$ref"])
                if isinstance(part, Mapping) and isinstance(part.get("$ref"), str)
                else part
            )
            if not isinstance(part, Mapping):
                continue
            properties = {**_mapping(whole.get("properties")), **_mapping(part.get("properties"))}
            required = [*_names(whole.get("required")), *_names(part.get("required"))]
            whole |= {key: value for key, value in part.items() if key != "allOf"}
            whole |= {"properties": properties} if properties else {}
            whole |= {"required": required} if required else {}
        return whole

    def _options(self, schema: Mapping[str, Any]) -> list[tuple[str, Any]] | None:
        """The values of which one is chosen, with their titles; None where there are other values, too."""
        if options := choices_of({key: schema[key] for key in ("enum", "oneOf", "anyOf") if key in schema}):
            return options
        for keyword in ("anyOf", "oneOf"):
            forms = schema.get(keyword)
            fixed = [_fixed(self._resolve(form, 0)[0]) for form in forms] if isinstance(forms, list) else []
            if fixed and all(fixed):
                return [option for values in fixed for option in values]
        return None

    def _forms(self, schema: Mapping[str, Any]) -> list[Any]:
        """The schemas of `anyOf` or `oneOf`, of which one is chosen; empty when there are none."""
        for keyword in ("anyOf", "oneOf"):
            forms = schema.get(keyword)
            if isinstance(forms, list) and forms:
                common = {
                    key: value for key, value in schema.items() if key in ("type", "properties", "required")
                }
                return [
                    {**common, **form} if isinstance(form, Mapping) else form for form in forms[:MAX_OPTIONS]
                ]
        kinds = schema.get("type")
        if isinstance(kinds, list) and len(kinds) > 1:
            return [{**schema, "type": kind, "title": kind, "default": None} for kind in kinds[: len(_ORDER)]]
        return []

    def _choice(self, field: FormField, options: list[tuple[str, Any]]) -> None:
        texts = [_json(option) for _, option in options[:MAX_OPTIONS]]
        size = sum(map(len, texts)) + sum(len(title) for title, _ in options[:MAX_OPTIONS])
        if not self._whole and (len(options) > MAX_OPTIONS or size > 50_000):
            all_text = all(isinstance(option, str) for _, option in options)
            shown = ", ".join(one_line(str(option), 40) for _, option in options[:5])
            field |= {"kind": "string" if all_text else "json", "lines": False}
            field["note"] = f"One of {len(options)} values: {shown} …"
            return
        field["kind"] = "choice"
        field["options"] = [
            [visible(title), text, _read(option)] if title and title != option else [_read(option), text]
            for (title, option), text in zip(options, texts, strict=True)
        ]

    def _fill_typed(self, field: FormField, schema: Mapping[str, Any], level: int) -> None:
        kind = _kind(schema)
        if kind == "object":
            self._object(field, schema, level)
        elif kind == "array":
            self._array(field, schema, level)
        elif kind == "string":
            form = schema.get("format")
            form = one_line(form, ENDLESS if self._whole else 40) if isinstance(form, str) else ""
            longest = schema.get("maxLength")
            field |= {"kind": "string", "format": form, "hint": _FORMATS.get(form, "")}
            default = schema.get("default")
            field["lines"] = (
                form in _LONG_FORMATS
                or isinstance(schema.get("contentMediaType"), str)
                or (isinstance(longest, int) and longest > SHORT)
                or (isinstance(default, str) and "\n" in default)
            )
        elif kind:
            field["kind"] = kind

    def _object(self, field: FormField, schema: Mapping[str, Any], level: int) -> None:
        properties = _mapping(schema.get("properties"))
        needed = _names(schema.get("required"))
        if not self._whole:  # a server that asks a person wants a whole answer
            needed = [key for key in needed if not gives_default(self._root, properties.get(key))]
        keys = sorted(
            properties, key=lambda key: key not in needed
        )  # sorted is stable: else as they were written
        keys += [key for key in dict.fromkeys(needed) if key not in properties]
        keys = [key for key in keys if _can_travel(str(key))]
        named = [key for key in keys if self._whole or len(str(key)) <= MAX_LABEL]
        if not self._has_room(field, min(len(named), MAX_MEMBERS)):
            return
        left_out = len(keys) - len(named[:MAX_MEMBERS])
        field["kind"] = "object"
        field["members"] = [
            self._field(
                properties.get(key, True), level + 1, label=str(key), required=key in needed, key=str(key)
            )
            for key in named[:MAX_MEMBERS]
        ]
        if left_out:
            field["note"] = f"{left_out} more members are not shown: add them by name, or edit as JSON."
        other = schema.get("additionalProperties", not properties or left_out > 0)
        patterns = _mapping(schema.get("patternProperties"))
        if patterns:
            other = next(iter(patterns.values()))
        if other is not False or left_out:
            field["other"] = self._field(
                other if other is not False else True, level + 1, label="value", required=True
            )

    def _array(self, field: FormField, schema: Mapping[str, Any], level: int) -> None:
        items, parts = schema.get("items", True), schema.get("prefixItems")
        if isinstance(items, list):  # before 2020-12
            items, parts = schema.get("additionalItems", False), items
        elif parts:
            items = schema.get("items", False)
        if not isinstance(parts, list) or not parts:
            field["kind"] = "array"
        elif self._has_room(field, min(len(parts), MAX_MEMBERS)):
            field["kind"] = "tuple"
            field["parts"] = [
                self._field(part, level + 1, label=_title(part) or f"item {n}", required=True)
                for n, part in enumerate(parts[:MAX_MEMBERS], 1)
            ]
        if items is not False and field["kind"] != "json":
            field["items"] = self._field(items, level + 1, label="item", required=True)


def _fixed(form: Any) -> list[tuple[str, Any]]:
    """The fixed values of which a form consists, with their title; none where it allows others."""
    if not isinstance(form, Mapping):
        return []
    rules = set(form) - {"title", "description", "deprecated", "$comment"}
    words = [text for key in ("title", "description") if isinstance(text := form.get(key), str)]
    if "const" in form and rules <= {"const", "type"}:
        return [(": ".join(words), form["const"])]
    if isinstance(values := form.get("enum"), list) and rules <= {"enum", "type"}:
        return [("", value) for value in values]
    return [(": ".join(words), None)] if form.get("type") == "null" and rules == {"type"} else []


def _describe(field: FormField, schema: Mapping[str, Any], *, whole: bool) -> None:
    about, title = schema.get("description"), schema.get("title")
    most = ENDLESS if whole else MAX_ABOUT
    if isinstance(about, str):
        field["about"] = visible(about[:most].replace("\n", " ")) + ("…" if len(about) > most else "")
    same = (field["label"],) if whole else (field["label"].lower(), field["label"].replace("_", " ").lower())
    if isinstance(title, str) and title and (title if whole else title.lower()) not in same:
        field["title"] = one_line(title, ENDLESS if whole else MAX_LABEL)
    field["limits"] = ", ".join(_limits(schema, whole=whole))
    if "default" in schema and schema["default"] is not None:
        text = _json(schema["default"])
        if len(text) > MAX_DEFAULT and not whole:
            field["note"] = f"The default has {len(text)} characters and is not offered."
        else:
            field |= {"default": text, "offered": _read(schema["default"])}
    if whole and (more := {key: schema[key] for key in schema if not _has_place(key, schema)}):
        field["more"] = visible_json(json.dumps(more, ensure_ascii=False))


def _has_place(key: str, schema: Mapping[str, Any]) -> bool:
    """Whether a form shows that member of the schema of a flat field by itself."""
    # Only the first of these that has choices is drawn, and a constant instead of them.
    drawn = next((one for one in ("enum", "oneOf", "anyOf") if choices_of({one: schema.get(one)})), "")
    kind = "" if "const" in schema or drawn else schema.get("type")
    if key in ("enum", "oneOf", "anyOf"):
        return "const" not in schema and key == drawn
    if key in ("title", "description", "pattern", "format"):
        return isinstance(schema[key], str) and (key != "format" or kind == "string")
    if key in ("properties", "required"):
        return kind == "object"
    return key in _SHOWN or (key == "items" and kind == "array")


def _limits(schema: Mapping[str, Any], *, whole: bool) -> Iterable[str]:
    phrases = (
        ("minimum", "at least {}"), ("exclusiveMinimum", "more than {}"), ("maximum", "at most {}"),
        ("exclusiveMaximum", "less than {}"), ("multipleOf", "a multiple of {}"),
        ("minLength", "at least {} characters"), ("maxLength", "at most {} characters"),
        ("minItems", "at least {} items"), ("maxItems", "at most {} items"),
        ("minProperties", "at least {} members"), ("maxProperties", "at most {} members"),
    )  # fmt: skip
    for key, phrase in phrases:
        value = schema.get(key)
        if (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and not (key.startswith("min") and value == 0 and "L" in key)
        ):
            text = phrase.format(one_line(f"{value}", ENDLESS if whole else 30))
            yield text.removesuffix("s") if value == 1 and " 1 " in text else text
    if schema.get("uniqueItems") is True:
        yield "all items different"
    if isinstance(schema.get("pattern"), str):
        yield f"matches {one_line(schema['pattern'], ENDLESS if whole else 80)}"


def _kind(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0] if kind else None
    if isinstance(kind, str):
        return kind if kind in _ORDER else ""
    if "properties" in schema:
        return "object"
    return "array" if "items" in schema or "prefixItems" in schema else ""


def _name_type(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return "anything"
    if isinstance(schema.get("enum"), list):
        return "choice"
    if isinstance(schema.get("$ref"), str):
        return one_line(schema["$ref"].rsplit("/", 1)[-1], 30)
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list):
            return " or ".join(dict.fromkeys(_name_type(form) for form in schema[keyword][:4]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(one_line(str(name), 20) for name in kind[:4])
    if _kind(schema) == "array" and isinstance(schema.get("items"), Mapping):
        inner = schema["items"].get("type")
        return f"array of {inner}" if isinstance(inner, str) and inner in _ORDER else "array"
    return _kind(schema) or "anything"


def _name_form(schema: Any, n: int) -> str:
    if schema == {"type": "null"}:
        return "null"
    return _title(schema) or (_name_type(schema) if isinstance(schema, Mapping) else f"form {n}")


def _title(schema: Any) -> str:
    title = schema.get("title") if isinstance(schema, Mapping) else None
    return one_line(title, 60) if isinstance(title, str) else ""


def _can_travel(key: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in key)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _names(value: Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _json(value: Any) -> str:
    return json.dumps(value)  # escaped: a lone surrogate cannot be sent otherwise


def _read(value: Any) -> str:
    """A value to be read, whole: a plain text as it is, anything else as JSON."""
    if isinstance(value, str) and value.strip() and visible(value) == value:
        return value
    return visible_json(json.dumps(value, ensure_ascii=False))
