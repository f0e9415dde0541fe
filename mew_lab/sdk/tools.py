"""The tools, resources and prompts that a participant offers: typed functions, called and listed as an MCP server would.

A `ToolBox` reads no envelope: `answer(method, params)` returns the `result` of a JSON-RPC response, or raises
the `RpcError` that takes its place. A fault *inside* a tool is a result marked `isError`, so that a model can
read it; a fault of the request is an error. A function without `async` runs in a thread of its own: a tool that
never returns must hold up neither the loop nor the end of the process.

Spec: §3.1, §8.2, SDK "Tool Registry".
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import logging
import re
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from types import NoneType
from typing import Any, Protocol, TypeVar, overload
from urllib.parse import unquote

from pydantic import TypeAdapter

from mew_lab.errors import ConfigError, ProtocolError
from mew_lab.protocol.coerce import mapping_of
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.intake import OUTCOME_UNKNOWN
from mew_lab.protocol.text import TOOL_NAME
from mew_lab.protocol.token import mask
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.group import run_aside
from mew_lab.sdk.quorum import Quorum
from mew_lab.sdk.results import ToolResult
from mew_lab.sdk.returned_values import call_result_of, content_of, text_block
from mew_lab.sdk.signal import Signal
from mew_lab.sdk.signature import BadArguments, Bound, GivenSchema, Signature, documentation
from mew_lab.version import VERSION

__all__ = ["Answerer", "RpcError", "Tool", "ToolBox", "ToolResult", "unknown_outcome_error"]

logger = logging.getLogger(__name__)

INVALID_PARAMS, METHOD_NOT_FOUND, INTERNAL_ERROR, RESOURCE_NOT_FOUND = -32602, -32601, -32603, -32002
UNKNOWN = -32001
CANCELLED = "notifications/cancelled"
MCP_VERSION = "2025-06-18"

Function = TypeVar("Function", bound=Callable[..., Any])
_VARIABLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_any: TypeAdapter[Any] = TypeAdapter(Any)


class RpcError(Exception):
    """The error of a JSON-RPC response. It is no MewError, because it is sent as a message."""

    def __init__(self, code: int, message: str, *, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def payload(self) -> dict[str, Any]:
        """The member `error`."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        return error if self.data is None else {**error, "data": self.data}


def unknown_outcome_error(message: str, **data: str) -> RpcError:
    """The error of an executor that sent a call on and cannot tell whether it took effect; `data` is added to its own.

    Spec: R35.
    """
    return RpcError(UNKNOWN, message, data={"code": OUTCOME_UNKNOWN, **data})


class Answerer(Protocol):
    """The protocol of objects that answer MCP requests: a ToolBox, or an MCP server behind a bridge."""

    async def answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of an MCP request.

        Raises:
            RpcError: the error that is sent in place of a result.
        """


@dataclass(frozen=True, slots=True)
class Tool:
    """One function as a tool; `described` is its entry in `tools/list`."""

    name: str
    function: Callable[..., Any]
    signature: Signature | GivenSchema
    described: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource; `read` returns its text or bytes, `described` is its entry in `resources/list`."""

    uri: str
    read: Callable[[], Any]
    described: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ResourceTemplate:
    """Resources of one form: `read` is called with the variables of a URI that `pattern` matches."""

    pattern: re.Pattern[str]
    read: Callable[..., Any]
    described: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One function as a prompt; `described` is its entry in `prompts/list`."""

    name: str
    function: Callable[..., Any]
    signature: Signature
    described: dict[str, Any]


class ToolBox:
    """The tools, resources and prompts of one participant. A new definition replaces an older one of its name.

    Args:
        name: the name that it tells MCP clients.
        quorum: how many of the participants in `deciders` must have said yes before a call is executed, each with a lab
            that shares its reviews (`share_review`); a call for which too few have is refused, and uses nothing up. None
            asks for no more than one approval.

    Raises:
        ConfigError: `quorum` is no count of the deciders.

    Spec: ruling R39.
    """

    def __init__(
        self, *, name: str = "mew_lab", quorum: int | None = None, deciders: Collection[str] = ()
    ) -> None:
        self.name = name
        self.quorum = Quorum.of(quorum, deciders)
        self.tools: dict[str, Tool] = {}
        self.resources: dict[str, Resource] = {}
        self.templates: dict[str, ResourceTemplate] = {}
        self.prompts: dict[str, Prompt] = {}
        self.changed: Signal[str] = Signal()
        self._methods: dict[str, Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]] = {
            "initialize": self._initialize,
            "ping": self._ping,
            "tools/list": partial(_list, "tools", self.tools),
            "tools/call": self._call_tool,
            "resources/list": partial(_list, "resources", self.resources),
            "resources/templates/list": partial(_list, "resourceTemplates", self.templates),
            "resources/read": self._read_resource,
            "prompts/list": partial(_list, "prompts", self.prompts),
            "prompts/get": self._get_prompt,
        }

    # --- definitions ---

    @overload
    def tool(self, function: Function, /) -> Function: ...

    @overload
    def tool(
        self,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        annotations: Mapping[str, Any] | None = None,
    ) -> Callable[[Function], Function]: ...

    def tool(self, function: Any = None, /, **options: Any) -> Any:
        """Decorator that offers a typed function as a tool and returns the function unchanged.

        The function may return what a notebook shows, such as a figure or a DataFrame; see `ToolResult.of`.

        Raises:
            ConfigError: when its name or signature is not fit for a tool.
        """
        if function is None:
            return lambda later: self.tool(later) if not options else (self.add(later, **options), later)[1]
        self.add(function)
        return function

    def add(
        self,
        function: Callable[..., Any] | Mapping[str, Any],
        *,
        name: str | None = None,
        description: str | None = None,
        annotations: Mapping[str, Any] | None = None,
        input_schema: Mapping[str, Any] | None = None,
    ) -> Tool:
        """Adds a typed function as a tool, or an object `{"name", "description", "inputSchema", "execute"}`.

        Args:
            input_schema: a JSON Schema of the arguments, which the function then gets unconverted; None derives it
                from the annotations, to which arguments are converted.
            name: 1 to 128 of `A-Z a-z 0-9 . _ -`; None takes that of the function.
            description: None takes the first paragraph of the docstring.
            annotations: hints of MCP for approvers, such as `{"readOnlyHint": True}`.

        Raises:
            ConfigError: when its name or signature is not fit for a tool.
        """
        if isinstance(function, Mapping):
            return self._add_object(function, annotations=annotations)
        name = _name_of(function, name, "tool")
        signature = (
            Signature(function, name=name) if input_schema is None else GivenSchema(input_schema, name=name)
        )
        description = documentation(function)[0] if description is None else description
        described: dict[str, Any] = {"name": name}
        if description:
            described["description"] = description
        described["inputSchema"] = signature.schema
        if annotations:
            described["annotations"] = dict(annotations)
        tool = self.tools[name] = Tool(name, function, signature, described)
        self.changed("tools")
        return tool

    def _add_object(self, tool: Mapping[str, Any], *, annotations: Mapping[str, Any] | None) -> Tool:
        execute, name = tool.get("execute"), tool.get("name")
        if not callable(execute) or not isinstance(name, str):
            raise ConfigError(
                "A tool as an object has a `name` and an `execute`, which runs it", key="execute"
            )
        schema = tool.get("inputSchema")
        return self.add(
            _pass_object(execute) if _takes_object(execute, schema) else execute,
            name=name,
            description=tool.get("description"),
            annotations=annotations or tool.get("annotations"),
            input_schema=schema,
        )

    def hints_of(self, tool: str) -> Mapping[str, Any]:
        """The annotations of a tool; empty where it has none, or is unknown."""
        known = self.tools.get(tool)
        return {} if known is None else mapping_of(known.described.get("annotations"))

    def remove(self, name: str) -> None:
        """Removes a tool, if it exists."""
        if self.tools.pop(name, None) is not None:
            self.changed("tools")

    def add_resource(
        self,
        uri: str | Mapping[str, Any],
        content: str | bytes | Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        description: str = "",
        mime_type: str = "text/plain",
    ) -> None:
        """Serves `content`, or the result of calling it, under `uri`; or an object with both, as in `resources/list`:
        `{"uri", "name", "description", "mimeType", "content"}`.

        Args:
            uri: a URI; or a template such as `notes://{name}`, whose variables `content` is then called with. A
                variable stands for a text without `/`, and there is at most one between two of them.

        Raises:
            ConfigError: when the template is not valid, or has a content that cannot be called; when there is none.
        """
        if isinstance(uri, Mapping):
            options = {"name": "name", "description": "description", "mimeType": "mime_type"}
            given = {argument: uri[key] for key, argument in options.items() if uri.get(key) is not None}
            self.add_resource(uri.get("uri", ""), uri.get("content"), **given)
            return
        if content is None or not uri:
            raise ConfigError(
                "A resource has a `uri` and a `content`: a text, bytes, or a function that returns them",
                key="content" if uri else "uri",
            )
        is_template = "{" in uri
        described = {"uriTemplate" if is_template else "uri": uri, "name": name or uri, "mimeType": mime_type}
        if description:
            described["description"] = description
        if not is_template:
            read = content if callable(content) else lambda: content
            self.resources[uri] = Resource(uri, read, described)
        elif callable(content):
            self.templates[uri] = ResourceTemplate(_template_pattern(uri), content, described)
        else:
            raise ConfigError(
                f"The resource template {one_line(uri, 80)!r} needs a function of its variables", key=uri
            )
        self.changed("resources")

    def prompt(self, function: Function, /, *, name: str | None = None) -> Function:
        """Decorator that offers a function as a prompt, and returns it unchanged.

        Its parameters are the arguments of the prompt, which are texts. It returns the text of the user's message, or
        the list of messages of MCP.

        Raises:
            ConfigError: when its name or signature is not fit for a prompt.
        """
        name = _name_of(function, name, "prompt")
        signature = Signature(function, name=name)
        described: dict[str, Any] = {"name": name}
        if description := documentation(function)[0]:
            described["description"] = description
        required = signature.schema.get("required", ())
        described["arguments"] = [
            {
                "name": key,
                **({"description": schema["description"]} if "description" in schema else {}),
                "required": key in required,
            }
            for key, schema in signature.schema.get("properties", {}).items()
        ]
        self.prompts[name] = Prompt(name, function, signature, described)
        self.changed("prompts")
        return function

    def resource(self, uri: str, **options: Any) -> Callable[[Function], Function]:
        """Decorator that serves the result of the function under `uri`; see `add_resource` for the options."""

        def register(function: Function) -> Function:
            described = documentation(function)[0]
            self.add_resource(uri, function, **{"description": described, **options})
            return function

        return register

    # --- answers ---

    async def answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of an MCP request.

        Raises:
            RpcError: -32601 for an unknown method, -32602 for an unknown tool or arguments that do not fit
                (`data` lists each fault), -32002 for an unknown resource, -32603 for a fault of this side.
        """
        handler = self._methods.get(method)
        if handler is None:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {one_line(method, 80)}")
        try:
            return await handler(params)
        except RpcError:
            raise
        except Exception as fault:
            logger.exception("answering %s failed", one_line(method, 80))
            raise RpcError(INTERNAL_ERROR, f"Internal error: {type(fault).__name__}") from None

    async def _initialize(self, params: Mapping[str, Any]) -> dict[str, Any]:
        version = params.get("protocolVersion")
        return {
            "protocolVersion": version if isinstance(version, str) else MCP_VERSION,
            "capabilities": {"tools": {"listChanged": True}, "resources": {}, "prompts": {}},
            "serverInfo": {"name": self.name, "version": VERSION},
        }

    async def _ping(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {}

    async def _get_prompt(self, params: Mapping[str, Any]) -> dict[str, Any]:
        name, arguments = params.get("name"), params.get("arguments")
        prompt = self.prompts.get(name) if isinstance(name, str) else None
        if prompt is None:
            known = ", ".join(self.prompts) or "none"
            raise RpcError(
                INVALID_PARAMS, f"Unknown prompt: {one_line(str(name), 128)}. Prompts here: {known}"
            )
        bound = _bind(prompt, mapping_of(arguments))
        value = await _run(prompt.function, *bound.args, **bound.kwargs)
        if isinstance(value, str):
            value = [{"role": "user", "content": {"type": "text", "text": value}}]
        described = prompt.described.get("description")
        messages = {"messages": _any.dump_python(value, mode="json")}
        return messages if described is None else {"description": described, **messages}

    async def _call_tool(self, params: Mapping[str, Any]) -> dict[str, Any]:
        name = params.get("name")
        tool = self.tools.get(name) if isinstance(name, str) else None
        if tool is None:
            known = ", ".join(self.tools) or "none"
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {one_line(str(name), 128)}. Tools here: {known}")
        arguments = params.get("arguments")
        if not isinstance(arguments, dict | None):
            raise RpcError(INVALID_PARAMS, f"Invalid arguments for {tool.name}: they must be an object")
        bound = _bind(tool, arguments or {})
        try:
            return await _make_result(await _run(tool.function, *bound.args, **bound.kwargs))
        except (Exception, SystemExit, asyncio.CancelledError) as fault:
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # the caller cancelled the call and reads no answer
                raise
            message = mask(f"{type(fault).__name__}: {fault}")
            return {"content": [{"type": "text", "text": message}], "isError": True}

    def _find_resource(self, uri: str) -> tuple[Callable[..., Any], dict[str, str], Mapping[str, Any]] | None:
        """What reads a resource, the variables that it takes, and its description."""
        if (resource := self.resources.get(uri)) is not None:
            return resource.read, {}, resource.described
        for template in self.templates.values():
            if (match := template.pattern.fullmatch(uri)) is not None:
                variables = {name: unquote(value) for name, value in match.groupdict().items()}
                return template.read, variables, template.described
        return None

    async def _read_resource(self, params: Mapping[str, Any]) -> dict[str, Any]:
        uri = params.get("uri")
        found = self._find_resource(uri) if isinstance(uri, str) else None
        if found is None:
            raise RpcError(RESOURCE_NOT_FOUND, "Resource not found", data={"uri": uri})
        read, variables, described = found
        value = await _run(read, **variables)
        contents: dict[str, Any] = {"uri": uri, "mimeType": described["mimeType"]}
        if isinstance(value, bytes):
            contents["blob"] = base64.b64encode(value).decode()
        else:
            contents["text"] = (
                value if isinstance(value, str) else compact(_any.dump_python(value, mode="json"))
            )
        return {"contents": [contents]}


def _takes_object(execute: Callable[..., Any], schema: Any) -> bool:
    """Whether a function takes all arguments of a call as one object, as the specification's `execute: (args) => …`."""
    try:
        parameters = list(inspect.signature(execute).parameters.values())
    except (TypeError, ValueError):
        return False
    if len(parameters) != 1 or parameters[0].kind > inspect.Parameter.POSITIONAL_OR_KEYWORD:
        return False
    name = parameters[0].name
    return (
        name in ("args", "arguments")
        if schema is None
        else name not in mapping_of(mapping_of(schema).get("properties"))
    )


def _pass_object(execute: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(execute):

        async def run(**arguments: Any) -> Any:
            return await execute(arguments)

        return run
    return lambda **arguments: execute(arguments)


def _name_of(function: Callable[..., Any], name: str | None, what: str) -> str:
    name = name or str(getattr(function, "__name__", type(function).__name__))
    if not TOOL_NAME.match(name):
        raise ConfigError(
            f"{one_line(name, 80)!r} cannot name a {what}: it takes 1 to 128 of A-Z a-z 0-9 . _ -; "
            "give another with name=",
            key=name,
        )
    return name


async def _list(
    member: str,
    offers: Mapping[str, Tool | Resource | ResourceTemplate | Prompt],
    params: Mapping[str, Any],
) -> dict[str, Any]:
    return {member: [offer.described for offer in offers.values()]}


def _bind(offer: Tool | Prompt, arguments: Mapping[str, Any]) -> Bound:
    try:
        return offer.signature.bind(arguments)
    except BadArguments as fault:
        message = f"Invalid arguments for {offer.name}: {fault}"
        raise RpcError(INVALID_PARAMS, message, data=fault.faults) from None


def _template_pattern(uri: str) -> re.Pattern[str]:
    """Matches the URIs of a template, each variable a group. Spec: RFC 6570, level 1."""
    literals, names = _VARIABLE.split(uri)[::2], _VARIABLE.findall(uri)
    between = literals[1:-1]  # without a `/` between two variables, a match could take long
    if len(set(names)) < len(names) or "{" in "".join(literals) or not all("/" in one for one in between):
        raise ConfigError(
            f"{one_line(uri, 80)!r} is no resource template: it has variables such as {{name}}, each once and with a "
            "`/` between two of them",
            key=uri,
        )
    parts = [re.escape(literals[0])]
    for name, literal in zip(names, literals[1:], strict=True):
        parts += [f"(?P<{name}>[^/]+)", re.escape(literal)]
    return re.compile("".join(parts))


async def _make_result(value: Any) -> dict[str, Any]:
    """The return value of a tool as a CallToolResult of MCP. What may have to be drawn is drawn in a thread."""
    if isinstance(value, NoneType | str | int | float | Mapping | ToolResult) or sys.platform == "emscripten":
        return _wrapped(value)
    drawn: dict[str, Any] = await _in_thread(lambda: _wrapped(value))
    return drawn


def _wrapped(value: Any) -> dict[str, Any]:
    if isinstance(value, ToolResult):
        return dict(value.raw) if isinstance(value.raw, Mapping) else _wrapped(value.raw)
    if value is None:
        return {"content": [], "isError": False}
    if (result := call_result_of(value)) is not None:
        dumped: dict[str, Any] = _any.dump_python(result, mode="json", fallback=str)
        return dumped
    if isinstance(value, str):
        return {"content": [text_block(value)], "isError": False}
    if (content := content_of(value)) is not None:
        return {"content": content, "isError": False}
    plain = _any.dump_python(value, mode="json", fallback=str)
    try:
        text = plain if isinstance(plain, str) else compact(plain)
    except ProtocolError as fault:
        message = f"the tool returned a {type(value).__name__} that JSON cannot carry: {fault}"
        raise TypeError(message) from None
    made: dict[str, Any] = {"content": [text_block(text)], "isError": False}
    if not isinstance(plain, str):
        made["structuredContent"] = plain if isinstance(plain, dict) else {"result": plain}
    return made


async def _run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls a function: on the loop if it is async, else in a thread of its own where threads exist."""
    called = function if inspect.isroutine(function) else type(function).__call__
    if inspect.iscoroutinefunction(called) or sys.platform == "emscripten":
        value = function(*args, **kwargs)
    else:
        value = await _in_thread(lambda: function(*args, **kwargs))
    return await value if inspect.isawaitable(value) else value


async def _in_thread(work: Callable[[], Any]) -> Any:
    """What `work` returns. A thread cannot be stopped: one whose call is cancelled goes on, and still answers (R35)."""
    done = run_aside(work, name="mew-lab-tool")
    while True:
        try:
            await asyncio.wait([done])
        except asyncio.CancelledError as cancelled:
            task = asyncio.current_task()
            if task is None or cancelled.args != (CANCELLED,):
                done.cancel()  # nobody reads what comes
                raise
            task.uncancel()
        else:
            return done.result()
