"""Does what a client scenario of the MCP conformance suite asks for, through a bridge in a space.

`python bridge_client.py URL` bridges the server at the URL, and another participant calls what it offers. The suite
names special calls in the variable `MCP_CONFORMANCE_CONTEXT`.
"""

import asyncio
import json
import os
import sys
from contextlib import suppress

from mew_lab.bridge.mcp import McpBridge
from mew_lab.bridge.server_requests import ASKING
from mew_lab.errors import ToolFailed
from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.local import attach
from mew_lab.protocol.elicitation import ELICIT
from mew_lab.protocol.permit import PROFILES
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant

EXAMPLES = {
    "integer": 3,
    "number": 1.5,
    "string": "text",
    "boolean": True,
    "object": {},
    "array": [],
    "null": None,
}


async def fill_in(params):
    """Accepts a form with its defaults."""
    properties = params["requestedSchema"]["properties"]
    filled = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
    return {"action": "accept", "content": filled}


def arguments_for(tool):
    """Arguments that the schema of a tool allows."""
    properties = tool["inputSchema"].get("properties") or {}
    return {name: EXAMPLES.get(schema.get("type"), "text") for name, schema in properties.items()}


def calls_of(tools):
    """The calls that the suite names, else one of each tool."""
    named = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")).get("toolCalls")
    if named:
        return [(call["name"], call.get("arguments") or {}) for call in named]
    return [(tool["name"], arguments_for(tool)) for tool in tools]


async def use_all(human):
    """Calls each tool, reads each resource and gets each prompt of the bridged server."""
    tools = await human.list_tools("suite")
    for name, arguments in calls_of(tools):
        with suppress(ToolFailed):
            await human.call(f"suite/{name}", arguments)
    for listed, key, method in (("resources", "uri", "resources/read"), ("prompts", "name", "prompts/get")):
        with suppress(ToolFailed):
            for entry in (await human.mcp_request("suite", {"method": f"{listed}/list"})).get(listed, ()):
                await human.mcp_request("suite", {"method": method, "params": {key: entry[key]}})


async def main(url):
    gateway = Gateway()
    gateway.add_space(SpaceConfig(name="suite"))

    def client_of(name, can):
        gateway.enrol("suite", name, can)

        async def link():
            return attach(gateway, "suite", name)

        return MEWClient(space="suite", connect_link=link)

    bridge = McpBridge("suite", url, start_timeout=120)
    human = MEWParticipant(client_of("human", PROFILES["human"]))
    human.register_method(ELICIT, fill_in)
    await human.start()
    await bridge.start(client_of("suite", [*PROFILES["tool"], *ASKING[ELICIT]]))
    try:
        await use_all(human)
    finally:
        await bridge.stop()
        await human.stop()
        gateway.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
