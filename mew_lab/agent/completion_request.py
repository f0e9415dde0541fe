"""Builds the JSON of a chat completions request from messages and tools; pure.

Not every server supports every feature of the API. `ServerSupport` lists the features to use. After a failure that may
be about one of them, `ask_for_less` returns the features for the next try.

Spec: SDK "Native Format", "LLM Tool Preparation".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from mew_lab.agent.completion_errors import CompletionFailure
from mew_lab.agent.model import Message, ToolSpec
from mew_lab.protocol.text import ToolNames, mend_surrogates

__all__ = ["SAMPLING", "ServerSupport", "ask_for_less", "build_request"]

SAMPLING = frozenset({"max_tokens", "temperature", "top_p"})
OTHER_LIMIT = "max_completion_tokens"  # newer models of the API's maker take it in place of max_tokens
_DESCRIBED = 1024  # characters of a tool's description that providers take


class ServerSupport(NamedTuple):
    """The features that a server is assumed to have.

    `usage`: it counts tokens on request. `null`: a message with only calls may have no content. `form`: the index of
    the way to request a schema. `sampling`: it takes the sampling figures. `limit`: its name for the greatest length
    of a reply. `images`: a message may hold pictures.
    """

    usage: bool = True
    null: bool = True
    form: int = 0
    sampling: bool = True
    limit: str = "max_tokens"
    images: bool = True


def build_request(
    messages: Sequence[Message],
    *,
    model: str,
    names: ToolNames,
    tools: Sequence[ToolSpec] = (),
    schema: Mapping[str, Any] | None = None,
    support: ServerSupport = ServerSupport(),  # noqa: B008
    temperature: float | None = None,
    tool_choice: str | None = None,
    sampling: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, Any]:
    """The body of a request. `names` must know every tool, also those of calls made before."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [_wire_message(message, names, support) for message in messages],
        "stream": True,
    }
    if support.usage:
        body["stream_options"] = {"include_usage": True}
    if support.sampling:
        body |= {support.limit if key == "max_tokens" else key: value for key, value in sampling.items()}
    if temperature is not None:
        body["temperature"] = temperature
    if tools:
        body["tools"] = [_wire_tool(tool, names) for tool in tools]
        if choice := _tool_choice(tool_choice, messages, tools, names):
            body["tool_choice"] = choice
    if schema is not None and (form := _forms(schema)[support.form]):
        body["response_format"] = form
    return body


def _tool_choice(
    choice: str | None, messages: Sequence[Message], tools: Sequence[ToolSpec], names: ToolNames
) -> str | dict[str, Any] | None:
    """The `tool_choice` of a request; None leaves it to the server.

    A choice that forces a call holds until a tool has answered; else the model could never give an answer.
    """
    if choice is None or choice in ("auto", "none"):
        return choice
    if any(message.role == "tool" for message in messages):
        return None
    if choice == "required":
        return choice
    if any(tool.name == choice for tool in tools):
        return {"type": "function", "function": {"name": names.wire[choice]}}
    return None


def _wire_message(message: Message, names: ToolNames, support: ServerSupport) -> dict[str, Any]:
    """Spec: SDK "Native Format"."""
    if message.role == "tool":
        return {
            "role": "tool",
            "tool_call_id": message.tool_call_id,
            "content": mend_surrogates(message.content),
        }
    wire: dict[str, Any] = {"role": message.role, "content": mend_surrogates(message.content)}
    if message.pictures and support.images:
        addresses = [f"data:{picture.mime};base64,{picture.data}" for picture in message.pictures]
        shown = [{"type": "image_url", "image_url": {"url": address}} for address in addresses]
        wire["content"] = [{"type": "text", "text": wire["content"]}, *shown]
    elif message.pictures:
        wire["content"] += " This server takes no pictures, so they are not shown."
    if message.tool_calls:
        wire["content"] = wire["content"] or (None if support.null else "")
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": names.wire[call.name],
                    "arguments": json.dumps(dict(call.arguments), ensure_ascii=False),
                },
            }
            for call in message.tool_calls
        ]
    return wire


def _wire_tool(tool: ToolSpec, names: ToolNames) -> dict[str, Any]:
    """A tool in the form of the API. Its description begins with the whole name, as the name itself may be shortened."""
    function = {
        "name": names.wire[tool.name],
        "description": mend_surrogates(f"{tool.name}: {tool.description}"[:_DESCRIBED]),
        "parameters": {"properties": {}, **tool.parameters, "type": "object"},
    }
    return {"type": "function", "function": function}


def _forms(schema: Mapping[str, Any]) -> tuple[dict[str, Any] | None, ...]:
    """The ways to request a schema from a server, the best first."""
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", str(schema.get("title") or "Reply"))[:64]
    return (
        {"type": "json_schema", "json_schema": {"name": name, "schema": dict(schema), "strict": False}},
        {"type": "json_object", "schema": dict(schema)},
        {"type": "json_object"},
        None,
    )


def ask_for_less(
    support: ServerSupport, body: Mapping[str, Any], failure: CompletionFailure
) -> ServerSupport | None:
    """The features for the next try after a failure that may be about one of them; None where no other try is left.

    Some servers report it with status 500, so the text counts as much as the status.
    """
    objects, about = failure.status in (400, 422), failure.about
    if "limit" in about and objects and "max_tokens" in body:
        return support._replace(limit=OTHER_LIMIT)
    sampled = support.sampling and not (SAMPLING | {OTHER_LIMIT}).isdisjoint(body)
    nulls = any(message["content"] is None for message in body["messages"])
    pictured = any(isinstance(message["content"], list) for message in body["messages"])
    # First what the text names, then what is most often missing: each try leaves out one feature.
    if pictured and ("images" in about or ("messages" in about and not nulls)):
        return support._replace(images=False)
    if "stream_options" in body and "usage" in about:
        return support._replace(usage=False)
    if "sampling" in about and objects and sampled:
        return support._replace(sampling=False)
    if "response_format" in body and (objects or "form" in about):
        return support._replace(form=support.form + 1)
    if nulls and (objects or "messages" in about):
        return support._replace(null=False)
    if objects and "stream_options" in body:
        return support._replace(usage=False)
    if objects and sampled:
        return support._replace(sampling=False)
    return support._replace(images=False) if objects and pictured else None
