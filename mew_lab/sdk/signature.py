"""Derives the JSON Schema of a typed Python function, checks the arguments of its calls and converts them.

All use of pydantic for tools stands here. The module handles no MCP method and runs no function.

Spec: SDK "Tool Registry".
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError

from mew_lab.errors import ConfigError
from mew_lab.protocol.json_schema import Path, Validator, Violation
from mew_lab.protocol.visible import one_line
from mew_lab.settings.faults import place

__all__ = ["BadArguments", "Bound", "GivenSchema", "Signature", "documentation"]

MAX_FAULTS = 20
MAX_REASON = 200  # characters of one fault

_P = inspect.Parameter
_SECTION = re.compile(r"(Args|Arguments|Parameters):\s*\Z")
_HEADING = re.compile(r"[A-Z][A-Za-z ]*:\s*\Z")
_ENTRY = re.compile(r"(\s+)\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)")


class BadArguments(Exception):
    """Arguments that a tool does not accept. `faults` lists each fault: `{"path": "arguments.a", "message": …}`."""

    def __init__(self, faults: list[dict[str, str]]) -> None:
        super().__init__("; ".join(f"{fault['path']}: {fault['message']}" for fault in faults))
        self.faults = faults


class Bound(NamedTuple):
    """The arguments with which to call the function."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def documentation(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The first paragraph of the docstring as one line, and the text of its section `Args:` for each parameter."""
    lines = (inspect.getdoc(function) or "").splitlines()
    first: list[str] = []
    for line in lines:
        if not line.strip():
            break
        first.append(line.strip())
    parameters: dict[str, str] = {}
    start = next((at for at, line in enumerate(lines) if _SECTION.match(line)), len(lines))
    depth, name = "", ""
    for line in lines[start + 1 :]:
        if _HEADING.match(line):
            break
        entry = _ENTRY.match(line)
        if entry and (not depth or entry[1] == depth):
            depth, name = entry[1], entry[2]
            parameters[name] = entry[3].strip()
        elif name and line.strip():
            parameters[name] = f"{parameters[name]} {line.strip()}".strip()
    return " ".join(first), parameters


class Signature:
    """The parameters of one function. `schema` is a JSON Schema (2020-12) of its arguments as one object.

    Raises:
        ConfigError: when a parameter cannot be passed by name, or has a type that JSON cannot carry.
    """

    def __init__(self, function: Callable[..., Any], *, name: str) -> None:
        self._name = name
        self._parameters: dict[str, inspect.Parameter] = {}
        self._rest = ""
        self._adapters = self._compile(function)
        self.schema = self._described(documentation(function)[1])
        self._validator = Validator(self.schema)

    def bind(self, arguments: Mapping[str, Any]) -> Bound:
        """The arguments, checked against the schema and converted to the annotated types.

        Raises:
            BadArguments: with all faults, at most 20.
        """
        # The annotated types check what the schema could not. pydantic alone would accept "1" for 1.
        validation = self._validator.validate(dict(arguments))
        faults = _faults(validation.violations)
        if not faults and not validation.complete:
            faults = [_fault((), "they are nested too deeply to be checked against the schema")]
        if faults:
            raise BadArguments(faults)
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for key, value in arguments.items():
            adapter = self._adapters[key if key in self._parameters else self._rest]
            try:
                kwargs[key] = adapter.validate_python(value)
            except ValidationError as error:
                faults += [
                    _fault((key, *fault["loc"]), fault["msg"])
                    for fault in error.errors(include_url=False)[:MAX_FAULTS]
                ]
        if faults:
            raise BadArguments(faults[:MAX_FAULTS])
        for key, parameter in self._parameters.items():
            if parameter.kind is _P.POSITIONAL_ONLY:
                args.append(kwargs.pop(key, parameter.default))
        return Bound(tuple(args), kwargs)

    def _compile(self, function: Callable[..., Any]) -> dict[str, TypeAdapter[Any]]:
        try:
            hints = typing.get_type_hints(
                function if inspect.isroutine(function) else type(function).__call__, include_extras=True
            )
            parameters = inspect.signature(function).parameters
        except (NameError, TypeError, ValueError) as fault:
            raise self._unfit(f"its signature cannot be read: {fault}") from None
        adapters: dict[str, TypeAdapter[Any]] = {}
        for key, parameter in parameters.items():
            if parameter.kind is _P.VAR_POSITIONAL:
                raise self._unfit(
                    f"MCP gives arguments by name, so *{key} can never be filled; name them instead"
                )
            try:
                adapters[key] = TypeAdapter(hints.get(key, Any))
                adapters[key].json_schema()
            except (PydanticSchemaGenerationError, PydanticUserError) as fault:
                reason = str(fault).splitlines()[0]
                raise self._unfit(
                    f"the type of {key} has no JSON form: {one_line(reason, MAX_REASON)}"
                ) from None
            if parameter.kind is _P.VAR_KEYWORD:
                self._rest = key
            else:
                self._parameters[key] = parameter
        return adapters

    def _described(self, documented: Mapping[str, str]) -> dict[str, Any]:
        inputs = [(key, "validation", adapter) for key, adapter in self._adapters.items()]
        schemas, shared = TypeAdapter.json_schemas(inputs)  # type: ignore[arg-type]
        properties: dict[str, Any] = {}
        for key, parameter in self._parameters.items():
            described = properties[key] = dict(schemas[key, "validation"])
            if documented.get(key):
                described.setdefault("description", documented[key])
            if parameter.default is not _P.empty:
                try:
                    described["default"] = self._adapters[key].dump_python(
                        parameter.default, mode="json", warnings=False
                    )
                except ValueError:  # a default that JSON cannot say is still a default
                    pass
        rest: Any = schemas[self._rest, "validation"] or True if self._rest else False
        required = [key for key, parameter in self._parameters.items() if parameter.default is _P.empty]
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        schema["additionalProperties"] = rest
        if "$defs" in shared:
            schema["$defs"] = shared["$defs"]
        return schema

    def _unfit(self, why: str) -> ConfigError:
        return ConfigError(f"{self._name} cannot be a tool: {why}", key=self._name)


class GivenSchema:
    """The parameters or the result of a tool by an explicit JSON Schema. A value is checked and passed on unconverted.

    The check is bounded and resolves no reference over the network. A value that it cannot decide about is refused.

    Args:
        root: the name of the value in the paths of faults.

    Raises:
        ConfigError: when it is no JSON Schema of an object, or uses a keyword that cannot be checked here: a reference
            to another document, a pattern with lookaround or back-reference, `unevaluatedProperties`.
    """

    def __init__(self, schema: Mapping[str, Any], *, name: str, root: str = "arguments") -> None:
        self.schema = dict(schema)
        self._root = root
        self._validator = Validator(self.schema)
        if gaps := self._validator.gaps():
            raise ConfigError(
                f"{name} cannot be a tool: its inputSchema is no JSON Schema against which calls can be checked: "
                f"{place('inputSchema', *gaps[0].path)}: {gaps[0].message}",
                key=name,
            )
        if self.schema.get("type") != "object":
            raise ConfigError(
                f'{name} cannot be a tool: the type of its inputSchema must be "object"', key=name
            )

    def bind(self, arguments: Mapping[str, Any]) -> Bound:
        """The arguments, checked; raises as `Signature.bind`, also when the check would take too long."""
        validation = self._validator.validate(dict(arguments))
        faults = _faults(validation.violations, self._root) or [
            _fault((), f"it cannot be checked against the schema. {note}", self._root)
            for note in validation.notes
        ]
        if faults:
            raise BadArguments(faults[:MAX_FAULTS])
        return Bound((), dict(arguments))


def _faults(violations: Iterable[Violation], root: str = "arguments") -> list[dict[str, str]]:
    return [_fault(violation.path, violation.message, root) for violation in islice(violations, MAX_FAULTS)]


def _fault(path: Path, message: str, root: str = "arguments") -> dict[str, str]:
    return {"path": place(root, *path), "message": one_line(message, MAX_REASON)}
