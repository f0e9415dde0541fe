"""An MCP server, of the official SDK over streamable HTTP, with the tools, resources and prompts that the MCP conformance suite asks for.

`python suite_server.py` prints its port and serves until it is ended.
"""

import asyncio
import json
import socket
import sys

import mcp.types as t
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.shared.exceptions import MCPError

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
ANYTHING = {"type": "object"}
DRAFT = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "address",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "allOf": [{"anyOf": [{"required": ["name"]}, {"type": "object"}]}],
    "if": {"required": ["address"]},
    "then": {"required": ["name"]},
    "else": {"type": "object"},
    "additionalProperties": False,
}
BY_HEADER = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "required": ["region"],
}


def text(value):
    return {"type": "text", "text": value}


def embedded(uri, mime, value):
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": value}}


# What a tool answers with at once.
CONTENTS = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}],
    "test_embedded_resource": [
        embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        IMAGE,
        embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
    "json_schema_2020_12_tool": [text("done")],
    "test_argument_in_a_header": [text("done")],
}
# The members of the form by which a tool asks its user.
FORMS = {
    "test_elicitation": {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    },
    "test_elicitation_sep1034_defaults": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
    "test_elicitation_sep1330_enums": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {
            "type": "string",
            "oneOf": [{"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate("ABC", 1)],
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array",
            "items": {"type": "string", "enum": ["option1", "option2", "option3"]},
        },
        "titledMulti": {
            "type": "array",
            "items": {
                "anyOf": [
                    {"const": f"value{n}", "title": f"{word} Choice"} for n, word in enumerate("ABC", 1)
                ]
            },
        },
    },
}


async def log(context, *, pause):
    for what in ("started", "processing data", "completed"):
        await context.session.send_log_message("info", f"Tool {what}", related_request_id=context.request_id)
        await asyncio.sleep(pause)
    return "logged"


async def progress(context):
    for done in (0, 50, 100):
        await context.session.report_progress(done, 100)
        await asyncio.sleep(0.2)  # a bridge passes on ten reports a second
    return "done"


async def sample(context, prompt):
    message = t.SamplingMessage(role="user", content=t.TextContent(type="text", text=prompt))
    answer = await context.session.create_message(
        [message], max_tokens=100, related_request_id=context.request_id
    )
    return f"LLM response: {answer.content.text}"


async def ask(context, name, message):
    schema = {"type": "object", "properties": FORMS[name]}
    answer = await context.session.elicit_form(message, schema, context.request_id)
    return f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}"


async def reconnect(context):
    if context.close_sse_stream is not None:  # the latest revision has no streams that go on
        await context.close_sse_stream()
    await asyncio.sleep(0.2)  # the client comes again meanwhile
    return "Reconnection test completed"


OTHERS = {
    "test_tool_with_logging": lambda context, _: log(context, pause=0.05),
    "test_tool_with_progress": lambda context, _: progress(context),
    "test_sampling": lambda context, given: sample(context, given["prompt"]),
    "test_reconnection": lambda context, _: reconnect(context),
}


async def call_tool(context, params):
    name, given = params.name, params.arguments or {}
    if name in CONTENTS:
        return t.CallToolResult.model_validate({"content": CONTENTS[name]})
    try:
        if name in FORMS:
            said = await ask(context, name, given.get("message", "Please fill in the form"))
        elif name in OTHERS:
            said = await OTHERS[name](context, given)
        else:
            raise ValueError("This tool intentionally returns an error for testing")
    except (MCPError, ValueError) as fault:
        return t.CallToolResult.model_validate({"content": [text(str(fault))], "isError": True})
    return t.CallToolResult.model_validate({"content": [text(said)]})


async def list_tools(_context, _params):
    names = [*CONTENTS, *FORMS, *OTHERS, "test_error_handling"]
    schemas = {"json_schema_2020_12_tool": DRAFT, "test_argument_in_a_header": BY_HEADER}
    tools = [
        {"name": name, "description": f"The tool {name}", "inputSchema": schemas.get(name, ANYTHING)}
        for name in names
    ]
    return t.ListToolsResult.model_validate({"tools": tools})


RESOURCES = {
    "test://static-text": {
        "mimeType": "text/plain",
        "text": "This is the content of the static text resource.",
    },
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
    "test://watched-resource": {"mimeType": "text/plain", "text": "watched"},
}


async def list_resources(_context, _params):
    found = [
        {"uri": uri, "name": uri, "description": f"The resource {uri}", "mimeType": content["mimeType"]}
        for uri, content in RESOURCES.items()
    ]
    return t.ListResourcesResult.model_validate({"resources": found})


async def list_templates(_context, _params):
    template = {
        "uriTemplate": "test://template/{id}/data",
        "name": "template",
        "mimeType": "application/json",
    }
    return t.ListResourceTemplatesResult.model_validate({"resourceTemplates": [template]})


async def read_resource(_context, params):
    uri = str(params.uri)
    content = RESOURCES.get(uri)
    if content is None:
        id = uri.split("/")[3]
        value = {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}
        content = {"mimeType": "application/json", "text": json.dumps(value)}
    return t.ReadResourceResult.model_validate({"contents": [{"uri": uri, **content}]})


def prompts(given):
    """The contents of the messages of each prompt, with the arguments put in."""
    one, two, uri = given.get("arg1"), given.get("arg2"), given.get("resourceUri", "test://none")
    return {
        "test_simple_prompt": [text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments": [text(f"Prompt with arguments: arg1='{one}', arg2='{two}'")],
        "test_prompt_with_embedded_resource": [
            embedded(uri, "text/plain", "Embedded resource content for testing."),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image": [IMAGE, text("Please analyze the image above.")],
    }


async def list_prompts(_context, _params):
    needed = {
        "test_prompt_with_arguments": ["arg1", "arg2"],
        "test_prompt_with_embedded_resource": ["resourceUri"],
    }
    found = [
        {
            "name": name,
            "description": f"The prompt {name}",
            "arguments": [{"name": key, "required": True} for key in needed.get(name, [])],
        }
        for name in prompts({})
    ]
    return t.ListPromptsResult.model_validate({"prompts": found})


async def get_prompt(_context, params):
    contents = prompts(params.arguments or {})[params.name]
    return t.GetPromptResult.model_validate(
        {"messages": [{"role": "user", "content": content} for content in contents]}
    )


async def complete(_context, _params):
    return t.CompleteResult.model_validate(
        {"completion": {"values": ["paris"], "total": 1, "hasMore": False}}
    )


async def accept(_context, _params):
    return t.EmptyResult()


class Events(EventStore):
    """The events of all streams, in order, for clients that come again."""

    def __init__(self):
        self._events = []

    async def store_event(self, stream_id, message):
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id, send_callback):
        stream = self._events[int(last_event_id) - 1][0]
        for n, (id, message) in enumerate(self._events, 1):
            if id == stream and n > int(last_event_id) and message is not None:
                await send_callback(EventMessage(message, str(n)))
        return stream


def main():
    server = Server(
        "suite server",
        version="1",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=accept,
        on_unsubscribe_resource=accept,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
        on_set_logging_level=accept,
    )
    app = server.streamable_http_app(event_store=Events(), retry_interval=100)
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


if __name__ == "__main__":
    sys.exit(main())
