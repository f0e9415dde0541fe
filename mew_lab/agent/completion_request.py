"""Makes the request for a chat completion, and says what to leave out for a server that objects; pure.

From messages and tools to the JSON of the API; pure, it sends nothing.

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
OTHER_LIMIT = "max_completion_tokens"  # what newer models of the API's maker take in place of max_tokens
_DESCRIBED = 1024  # characters of a tool's description that providers take


class ServerSupport(NamedTuple):
    """What not every server knows.

    `limit` is the name of the greatest length of a reply; `null` is the content of a message that only calls;
    `form` is the index of the way in which a schema is asked for; `sampling` are the figures that were asked for as
    a wish.
    """

    usage: bool = True
    null: bool = True
    form: int = 0
    sampling: bool = True
    limit: str = "max_tokens"


def build_request(
    messages: Sequence[Message],
    *,
    model: str,
    names: ToolNames,
    tools: Sequence[ToolSpec] = (),
    schema: Mapping[str, Any] | None = None,
    wishes: ServerSupport = ServerSupport(),  # noqa: B008
    temperature: float | None = None,
    tool_choice: str | None = None,
    sampling: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, Any]:
    """The body of a request. `names` must know every tool, also those of calls made before."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [_said(message, names, null=wishes.null) for message in messages],
        "stream": True,
    }
    if wishes.usage:
        body["stream_options"] = {"include_usage": True}
    if wishes.sampling:
        body |= {wishes.limit if key == "max_tokens" else key: value for key, value in sampling.items()}
    if temperature is not None:
        body["temperature"] = temperature
    if tools:
        body["tools"] = [_offer(tool, names) for tool in tools]
        if choice := _choice(tool_choice, messages, tools, names):
            body["tool_choice"] = choice
    if schema is not None and (form := _forms(schema)[wishes.form]):
        body["response_format"] = form
    return body


def _choice(
    wanted: str | None, messages: Sequence[Message], tools: Sequence[ToolSpec], names: ToolNames
) -> str | dict[str, Any] | None:
    """What to say of the choice of tools; None leaves it to the server.

    A choice that forces a call holds until a tool has answered: else a model could call for ever and never answer.
    """
    if wanted is None or wanted in ("auto", "none"):
        return wanted
    if any(message.role == "tool" for message in messages):
        return None
    if wanted == "required":
        return wanted
    if any(tool.name == wanted for tool in tools):
        return {"type": "function", "function": {"name": names.wire[wanted]}}
    return None


def _said(message: Message, names: ToolNames, *, null: bool) -> dict[str, Any]:
    """Spec: SDK "Native Format"."""
    if message.role == "tool":
        return {
            "role": "tool",
            "tool_call_id": message.tool_call_id,
            "content": mend_surrogates(message.content),
        }
    said: dict[str, Any] = {"role": message.role, "content": mend_surrogates(message.content)}
    if message.tool_calls:
        said["content"] = said["content"] or (None if null else "")
        said["tool_calls"] = [
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
    return said


def _offer(tool: ToolSpec, names: ToolNames) -> dict[str, Any]:
    """The description begins with the whole name: it says whose tool it is, which the short one may not."""
    function = {
        "name": names.wire[tool.name],
        "description": mend_surrogates(f"{tool.name}: {tool.description}"[:_DESCRIBED]),
        "parameters": {"properties": {}, **tool.parameters, "type": "object"},
    }
    return {"type": "function", "function": function}


def _forms(schema: Mapping[str, Any]) -> tuple[dict[str, Any] | None, ...]:
    """The ways in which servers are asked for a schema, the best first."""
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", str(schema.get("title") or "Reply"))[:64]
    return (
        {"type": "json_schema", "json_schema": {"name": name, "schema": dict(schema), "strict": False}},
        {"type": "json_object", "schema": dict(schema)},
        {"type": "json_object"},
        None,
    )


def ask_for_less(
    wishes: ServerSupport, body: Mapping[str, Any], refusal: CompletionFailure
) -> ServerSupport | None:
    """What to ask for after a refusal that may be about the wishes; None when it is not, or none are left.

    Some servers report it with a 500, so what they say counts as much as the status.
    """
    objects = refusal.status in (400, 422)
    if refusal.about_limit and objects and "max_tokens" in body:
        return wishes._replace(limit=OTHER_LIMIT)
    sampled = not (SAMPLING | {OTHER_LIMIT}).isdisjoint(body)
    nulls = any(message["content"] is None for message in body["messages"])
    if "stream_options" in body and refusal.about_usage:
        return wishes._replace(usage=False)
    if refusal.about_sampling and objects and wishes.sampling and sampled:
        return wishes._replace(sampling=False)
    if "response_format" in body and (objects or refusal.about_form):
        return wishes._replace(form=wishes.form + 1)
    if nulls and (objects or refusal.about_messages):
        return wishes._replace(null=False)
    if objects and "stream_options" in body:
        return wishes._replace(usage=False)
    return wishes._replace(sampling=False) if objects and wishes.sampling and sampled else None
