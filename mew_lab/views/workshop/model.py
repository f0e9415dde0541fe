"""The draft of an agent file: its content, the changes that a person makes, and how to undo them; pure.

A change is a named operation on the content. It returns a new content and a sentence, so that each earlier content can
be restored. A draft may have faults while it is edited; only saving requires that there are none.

Spec: tools-agent.md "Tool Definition Interface", TA-55 to TA-59.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mew_lab.errors import MewError, ProtocolError
from mew_lab.protocol.difference import are_equal
from mew_lab.protocol.envelope import read_strict
from mew_lab.protocol.visible import one_line
from mew_lab.settings.faults import Fault, place
from mew_lab.tools_agent.agent_file import check_agent
from mew_lab.tools_agent.definition import ToolDefinition
from mew_lab.tools_agent.schema import CHOICE, CHOICES, KEYWORDS, TYPES, kind_of
from mew_lab.tools_agent.template import TokenKind, fill_prompt, lint, rename_references, tokens

__all__ = [
    "AgentDraft",
    "ParameterRow",
    "ToolRow",
    "definition_of",
    "parameter_rows",
    "preview",
    "prompt_remarks",
    "prompt_tokens",
    "sample_arguments",
]

MAX_SHOWN = 160  # characters of a prompt or description in the list
Document = dict[str, Any]
Edit = Callable[[Document], str]


class ParameterRow(NamedTuple):
    """One parameter: its schema's members as JSON texts, the description as it is."""

    name: str
    type: str
    required: bool
    description: str
    members: Mapping[str, str]
    items: str = ""  # the type of the items of an array
    nested: bool = False  # whether it has parts that only its JSON shows


class ToolRow(NamedTuple):
    """One tool of the list: its texts, cut, and its parameters as (name, type, whether required)."""

    name: str
    description: str
    prompt: str
    parameters: tuple[tuple[str, str, bool], ...]
    faults: int


class AgentDraft:
    """An agent file that is being edited. `document` is its content, `saved` the content of the file."""

    def __init__(self, document: object) -> None:
        self.document: Document = copy.deepcopy(document) if isinstance(document, dict) else {}
        self.saved: Document = copy.deepcopy(self.document)
        self._before: list[tuple[str, Document]] = []
        self._after: list[tuple[str, Document]] = []
        self._last = ""  # what was changed last: further changes of the same text are one step

    # --- reading ---

    @property
    def changed(self) -> bool:
        """Whether it differs from the file."""
        return not are_equal(self.document, self.saved)

    @property
    def undoable(self) -> str:
        """The sentence of the change that `undo` takes back; empty for none."""
        return self._before[-1][0] if self._before else ""

    @property
    def redoable(self) -> str:
        """The sentence of the change that `redo` makes again; empty for none."""
        return self._after[-1][0] if self._after else ""

    @property
    def tools(self) -> list[Document]:
        """The entries of the tools; entries that are no mappings stand as empty ones."""
        metadata = self.document.get("metadata")
        listed = metadata.get("tools") if isinstance(metadata, Mapping) else None
        return [tool if isinstance(tool, dict) else {} for tool in listed] if isinstance(listed, list) else []

    def tool(self, number: int) -> Document:
        """The entry of one tool.

        Raises:
            MewError: there is no such tool.
        """
        tools = self.tools
        if not 0 <= number < len(tools):
            raise MewError("That tool is no longer in the file.")
        return tools[number]

    def faults(self) -> list[Fault]:
        """The faults of the content, each with its place."""
        return check_agent(self.document)

    def rows(self, faults: Sequence[Fault]) -> list[ToolRow]:
        """The tools as a list; at most 200."""
        rows = []
        for n, entry in enumerate(self.tools):
            at = place("metadata.tools", n)
            tool = definition_of(entry)
            parameters = tuple(
                (row.name, _type_of(row), row.required) for row in parameter_rows(tool.parameters)
            )
            count = sum(fault.key == at or fault.key.startswith((f"{at}.", f"{at}[")) for fault in faults)
            rows.append(
                ToolRow(
                    one_line(tool.name, MAX_SHOWN) or "(no name)",
                    one_line(tool.description, MAX_SHOWN),
                    one_line(tool.prompt, MAX_SHOWN),
                    parameters,
                    count,
                )
            )
        return rows

    # --- changing ---

    def change(self, what: str, edit: Edit) -> str:
        """Makes a change and returns its sentence; `what` names the place, so that typing in it is one step.

        Raises:
            MewError: the change cannot be made; nothing is changed then.
        """
        before = self.document
        after = copy.deepcopy(before)
        sentence = edit(after)
        if are_equal(after, before):
            return sentence
        if not (what and what == self._last and self._before):
            self._before.append((sentence, before))
        self._after.clear()
        self._last = what
        self.document = after
        return sentence

    def undo(self) -> str:
        """Takes the last change back.

        Raises:
            MewError: there is none.
        """
        return self._step(self._before, self._after, "undo")

    def redo(self) -> str:
        """Makes the change again that was taken back last; raises as `undo`."""
        return self._step(self._after, self._before, "redo")

    def _step(self, source: list[tuple[str, Document]], target: list[tuple[str, Document]], verb: str) -> str:
        if not source:
            raise MewError(f"There is nothing to {verb}.")
        sentence, document = source.pop()
        target.append((sentence, self.document))
        self.document, self._last = document, ""
        return f"{'Undone' if verb == 'undo' else 'Done again'}: {sentence}"

    # --- the changes of tools ---

    def add_tool(self) -> str:
        """Adds a tool with a name that no other has."""

        def edit(document: Document) -> str:
            name = _free("new_tool", [str(tool.get("name")) for tool in _tools(document)])
            parameters = {"type": "object", "properties": {}, "required": []}
            _tools(document).append({"name": name, "description": "", "parameters": parameters, "prompt": ""})
            return f"Added the tool {name}."

        return self.change("", edit)

    def copy_tool(self, number: int) -> str:
        """Adds a copy of a tool behind it."""
        self.tool(number)

        def edit(document: Document) -> str:
            tools = _tools(document)
            twin = copy.deepcopy(tools[number])
            names = [str(tool.get("name")) for tool in tools]
            twin["name"] = _free(f"{twin.get('name') or 'tool'}_copy", names)
            tools.insert(number + 1, twin)
            return f"Added {twin['name']}, a copy."

        return self.change("", edit)

    def remove_tool(self, number: int) -> str:
        """Removes a tool."""
        name = one_line(str(self.tool(number).get("name")), 80)

        def edit(document: Document) -> str:
            del _tools(document)[number]
            return f"Removed the tool {name}."

        return self.change("", edit)

    def set_text(self, number: int, key: str, text: str) -> str:
        """Sets the name, the description or the prompt of a tool."""
        if key not in ("name", "description", "prompt"):
            raise MewError("A tool has a name, a description and a prompt.")
        self.tool(number)

        def edit(document: Document) -> str:
            _tools(document)[number][key] = text
            return f"Changed the {key} of {one_line(str(_tools(document)[number].get('name')), 80)}."

        return self.change(f"{number}.{key}", edit)

    def set_schema(self, number: int, text: str, *, key: str = "parameters") -> str:
        """Sets the `parameters` or the `outputSchema` of a tool from JSON; an empty text removes the latter.

        Raises:
            MewError: the text is not the JSON of an object; nothing is changed.
        """
        self.tool(number)
        if key not in _SCHEMAS:
            raise MewError(f"A tool has the schemas {' and '.join(_SCHEMAS)}.")
        if key == "outputSchema" and not text.strip():
            return self.change(f"{number}.{key}", lambda document: _drop_output(_tools(document)[number]))
        try:
            schema = read_strict(text)
        except ProtocolError as fault:
            reason = str(fault).replace("the message is not strict JSON", "it is not JSON")
            raise MewError(f"The schema was not taken: {reason}") from None

        def edit(document: Document) -> str:
            _tools(document)[number][key] = schema
            return f"Changed the schema of the {_SCHEMAS[key]}."

        return self.change(f"{number}.{key}", edit)

    # --- the changes of parameters ---

    def add_parameter(self, number: int) -> str:
        """Adds a text as a parameter, with a name that no other has."""

        def edit(schema: Document) -> str:
            name = _free("parameter", list(schema["properties"]))
            schema["properties"][name] = {"type": "string"}
            return f"Added the parameter {name}."

        return self._change_schema(number, "", edit)

    def remove_parameter(self, number: int, name: str) -> str:
        """Removes a parameter; the prompt keeps its references, which the remarks list."""

        def edit(schema: Document) -> str:
            del _properties(schema, name)[name]
            schema["required"] = [other for other in schema["required"] if other != name]
            return f"Removed the parameter {one_line(name, 80)}."

        return self._change_schema(number, "", edit)

    def move_parameter(self, number: int, name: str, by: int) -> str:
        """Moves a parameter up or down in the order."""

        def edit(schema: Document) -> str:
            names = list(_properties(schema, name))
            at = names.index(name)
            to = min(max(at + by, 0), len(names) - 1)
            names.insert(to, names.pop(at))
            schema["properties"] = {each: schema["properties"][each] for each in names}
            return f"Moved {one_line(name, 80)} to place {to + 1} of {len(names)}."

        return self._change_schema(number, "", edit)

    def rename_parameter(self, number: int, name: str, to: str, *, references: bool) -> str:
        """Renames a parameter; with `references` also where the prompt refers to it. Spec: TA-57."""
        if not to or len(to) > 200:
            raise MewError("A parameter has a name of 1 to 200 characters.")

        def edit(document: Document) -> str:
            tool = _tools(document)[number]
            schema = _schema(tool)
            before = definition_of(tool)
            properties = _properties(schema, name)
            if to != name and to in properties:
                raise MewError(f"There is a parameter {one_line(to, 80)} already.")
            schema["properties"] = {to if key == name else key: value for key, value in properties.items()}
            schema["required"] = [to if key == name else key for key in schema["required"]]
            sentence = f"Renamed {one_line(name, 80)} to {one_line(to, 80)}"
            if not references:
                return f"{sentence}."
            prompt, count = rename_references(before, name, to)
            tool["prompt"] = prompt
            return f"{sentence}, and {count} reference{'s' if count != 1 else ''} in the prompt."

        self.tool(number)
        return self.change("", edit)

    def set_type(self, number: int, name: str, kind: str) -> str:
        """Changes the type of a parameter; keywords that the new type does not have are dropped, and named."""
        if kind not in TYPES:
            raise MewError(f"The types are {', '.join(TYPES)}.")

        def edit(schema: Document) -> str:
            before = _parameter(schema, name)
            # Values of the former type would not fit the new one.
            other = before.get("type") != kind
            values = (
                {"default", "enum", "examples", *(CHOICES if "type" not in before else ())}
                if other
                else set()
            )
            dropped = [
                key
                for key in before
                if key != "type" and ((key in _ANY_KEYWORD and key not in KEYWORDS[kind]) or key in values)
            ]
            kept = {key: value for key, value in before.items() if key not in dropped}
            kept["type"] = kind
            if kind == "array":
                kept.setdefault("items", {"type": "string"})
            schema["properties"][name] = kept
            loss = f" Dropped: {', '.join(dropped)}." if dropped else ""
            return f"{one_line(name, 80)} is of type {kind} now.{loss}"

        return self._change_schema(number, "", edit)

    def set_required(self, number: int, name: str, required: bool) -> str:
        """Makes a parameter required or optional."""

        def edit(schema: Document) -> str:
            _parameter(schema, name)
            others = [other for other in schema["required"] if other != name]
            wanted = {*others, name} if required else set(others)
            schema["required"] = [key for key in schema["properties"] if key in wanted]
            return f"{one_line(name, 80)} is {'required' if required else 'optional'} now."

        return self._change_schema(number, "", edit)

    def set_keyword(self, number: int, name: str, keyword: str, text: str) -> str:
        """Sets one keyword of a parameter from its text; an empty text removes it.

        A description is the text itself, and so are values of a parameter of type string. `enum` and `examples` have
        one value in each line. `items` is the type of the items. All other texts are JSON.

        Raises:
            MewError: the text cannot be read; nothing is changed.
        """

        def edit(schema: Document) -> str:
            parameter = _parameter(schema, name)
            kind = str(parameter.get("type"))
            if keyword not in KEYWORDS.get(kind, ()) or keyword in ("type", "properties", "required"):
                raise MewError(f"A parameter of type {one_line(kind, 40)} has no {one_line(keyword, 40)}.")
            if not text.strip():
                parameter.pop(keyword, None)
                return f"Removed {keyword} of {one_line(name, 80)}."
            parameter[keyword] = _read_keyword(keyword, kind, text)
            return f"Changed {keyword} of {one_line(name, 80)}."

        return self._change_schema(number, f"{number}.{name}.{keyword}", edit)

    def _change_schema(self, number: int, what: str, edit: Edit) -> str:
        self.tool(number)
        return self.change(what, lambda document: edit(_schema(_tools(document)[number])))


_SHOWN = (
    "title", "default", "examples", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
    "uniqueItems", "additionalProperties", "minProperties", "maxProperties",
)  # fmt: skip
"""The keywords that a row has a field for, in the order of the fields."""
_SCHEMAS = {"parameters": "parameters", "outputSchema": "results"}
_ANY_KEYWORD = frozenset().union(*KEYWORDS.values())


def definition_of(entry: Mapping[str, Any]) -> ToolDefinition:
    """The tool of an entry that may have faults: what is no text is empty, what is no schema has no parameters."""
    texts = {
        key: value if isinstance(value := entry.get(key), str) else "" for key in ("name", "description")
    }
    prompt, parameters = entry.get("prompt"), entry.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    required = parameters.get("required") if isinstance(parameters, Mapping) else None
    known = {**parameters} if isinstance(parameters, Mapping) else {"type": "object"}
    known["properties"] = (
        {str(key): value if isinstance(value, Mapping) else {} for key, value in properties.items()}
        if isinstance(properties, Mapping)
        else {}
    )
    known["required"] = [str(name) for name in required] if isinstance(required, list) else []
    return ToolDefinition(
        texts["name"], texts["description"], known, prompt if isinstance(prompt, str) else ""
    )


def parameter_rows(schema: Mapping[str, Any]) -> list[ParameterRow]:
    """The parameters of a schema as rows of the builder."""
    rows = []
    for name, parameter in schema.get("properties", {}).items():
        kind = kind_of(parameter) or str(parameter.get("type", ""))
        items = parameter.get("items")
        item_kind = str(items.get("type", "")) if isinstance(items, Mapping) else ""
        simple = items is None or (isinstance(items, Mapping) and set(items) <= {"type"})
        shown = [key for key in _SHOWN if key in KEYWORDS.get(kind, ())]
        description = parameter.get("description")
        rows.append(
            ParameterRow(
                name,
                kind,
                name in schema.get("required", ()),
                description if isinstance(description, str) else "",
                {key: _write_keyword(key, kind, parameter[key]) if key in parameter else "" for key in shown},
                item_kind,
                not simple
                or bool(parameter.get("properties"))
                or bool(set(parameter) - _ANY_KEYWORD - {"type"}),
            )
        )
    return rows


def sample_arguments(schema: Mapping[str, Any], *, made: bool = True) -> dict[str, Any]:
    """Sample values of all parameters: the default, else an example, a value of the enum, or a made one. Spec: TA-59.

    With `made=False`, those alone that the schema gives.
    """
    properties = schema.get("properties")
    return _samples(properties, 0, made) if isinstance(properties, Mapping) else {}


_NO_SAMPLE = object()


def _samples(properties: Mapping[str, Any], depth: int, made: bool) -> dict[str, Any]:
    samples = {str(name): _sample(parameter, depth, made) for name, parameter in properties.items()}
    return {name: sample for name, sample in samples.items() if sample is not _NO_SAMPLE}


def _sample(schema: Any, depth: int, made: bool) -> Any:
    if not isinstance(schema, Mapping) or depth > 6:
        return "text" if made else _NO_SAMPLE
    if "default" in schema:
        return schema["default"]
    for key in ("examples", "enum"):
        values = schema.get(key)
        if isinstance(values, list) and values:
            return values[0]
    kind = kind_of(schema)
    if kind == CHOICE:
        forms = schema.get("anyOf") or schema.get("oneOf")
        return _sample(forms[0] if isinstance(forms, list) else None, depth + 1, made)
    if kind == "object":
        properties = schema.get("properties")
        inner = _samples(properties if isinstance(properties, Mapping) else {}, depth + 1, made)
        return inner if inner or made else _NO_SAMPLE
    if not made:
        return _NO_SAMPLE
    if kind in ("integer", "number"):
        return schema.get("minimum", schema.get("maximum", 1))
    if kind == "boolean":
        return True
    if kind == "array":
        items = schema.get("items")
        if isinstance(items, list):
            return [_sample(item, depth + 1, made) for item in items]
        least = schema.get("minItems")
        return [_sample(items, depth + 1, made)] * min(
            least if isinstance(least, int) and least > 0 else 1, 20
        )
    least = schema.get("minLength")
    return "text" if not isinstance(least, int) or least <= 4 else "text ".ljust(min(least, 200), "x")


def preview(tool: ToolDefinition, arguments: Mapping[str, Any]) -> str:
    """The prompt filled with the arguments, and with samples where there are none. Spec: TA-59."""
    filled = {**sample_arguments(tool.parameters), **arguments}
    return fill_prompt(tool.prompt, filled, tool=tool, preview=True)


def prompt_tokens(tool: ToolDefinition) -> list[tuple[str, TokenKind]]:
    """The prompt in pieces, each with its kind. Spec: TA-58."""
    return tokens(tool)


def prompt_remarks(tool: ToolDefinition) -> list[str]:
    """The remarks about the prompt. Spec: TA-25."""
    return [remark.problem for remark in lint(tool)]


# --- pieces ---


def _tools(document: Document) -> list[Document]:
    """The list of tools; made where there is none, and entries that are no mappings become empty ones."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        metadata = document["metadata"] = {}
    listed = metadata.get("tools")
    if not isinstance(listed, list):
        listed = metadata["tools"] = []
    listed[:] = [tool if isinstance(tool, dict) else {} for tool in listed]
    return listed


def _drop_output(tool: Document) -> str:
    tool.pop("outputSchema", None)
    return "Removed the schema of the results."


def _schema(tool: Document) -> Document:
    """The parameters of a tool as an object schema with `properties` and `required`."""
    schema = tool.get("parameters")
    if not isinstance(schema, dict):
        schema = tool["parameters"] = {}
    schema.setdefault("type", "object")
    if not isinstance(schema.get("properties"), dict):
        schema["properties"] = {}
    if not isinstance(schema.get("required"), list):
        schema["required"] = []
    return schema


def _properties(schema: Document, name: str) -> Document:
    """The properties of a schema, of which `name` is one."""
    _parameter(schema, name)
    properties: Document = schema["properties"]
    return properties


def _parameter(schema: Document, name: str) -> Document:
    parameter = schema["properties"].get(name)
    if parameter is None:
        raise MewError(f"There is no parameter {one_line(name, 80)} any more.")
    if isinstance(parameter, dict):
        return parameter
    fresh: Document = {"type": "string"}
    schema["properties"][name] = fresh
    return fresh


def _free(name: str, taken: Sequence[str]) -> str:
    return next(each for n in range(1, 10_000) if (each := f"{name}_{n}" if n > 1 else name) not in taken)


def _type_of(row: ParameterRow) -> str:
    return f"{row.type} of {row.items}" if row.items else row.type or "?"


def _read_keyword(keyword: str, kind: str, text: str) -> Any:
    if keyword in ("title", "description"):
        return text
    if keyword == "items":
        if text not in TYPES:
            raise MewError(f"The types of items are {', '.join(TYPES)}.")
        return {"type": text, "items": {"type": "string"}} if text == "array" else {"type": text}
    if keyword in ("enum", "examples"):
        return [_read_value(kind, line) for line in text.splitlines() if line.strip()]
    if keyword == "default":
        return _read_value(kind, text)
    return _read_json(text)


def _read_value(kind: str, text: str) -> Any:
    return text if kind == "string" else _read_json(text)


def _read_json(text: str) -> Any:
    try:
        return read_strict(f'{{"value":{text}}}')["value"]
    except (ProtocolError, KeyError):
        raise MewError(f"{one_line(text, 40)!r} is not JSON, such as 3, true or [1, 2].") from None


def _write_keyword(keyword: str, kind: str, value: Any) -> str:
    if keyword in ("enum", "examples") and isinstance(value, list):
        return "\n".join(_write_value(kind, each) for each in value)
    if keyword == "default":
        return _write_value(kind, value)
    return value if keyword == "title" and isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _write_value(kind: str, value: Any) -> str:
    return value if kind == "string" and isinstance(value, str) else json.dumps(value, ensure_ascii=False)
