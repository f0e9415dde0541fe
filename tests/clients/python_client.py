"""Calls the tools of a gate by one MCP library of Python, in an environment that has that library and not mew_lab.

    python python_client.py LIBRARY '{"settings": …, "calls": [[name, arguments], …], "prompt": …, "model": …}'

It prints a JSON object: the tools' names, and for each call its answers, each of which is [text, pictures].
"""

import asyncio
import json
import sys

LIBRARY, TASK = sys.argv[1], json.loads(sys.argv[2])
SECONDS = 100  # of one call


def read(result):
    """The answer in a result of any version of `mcp`."""
    blocks = list(result.content)
    pictures = sum(block.type == "image" for block in blocks)
    return ["\n".join(block.text for block in blocks if block.type == "text"), pictures]


async def all_calls(call):
    """Makes each call, and again while its answer says that it waits."""
    answers = []
    for name, arguments in TASK["calls"]:
        got = [await call(name, arguments)]
        while "is no result yet" in got[-1][0] and len(got) < 40:
            got.append(await call(name, arguments))
        answers.append(got)
    return answers


def server():
    return next(iter(json.loads(TASK["settings"])["mcpServers"].values()))


async def mcp1():
    from datetime import timedelta

    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    where = StdioServerParameters(command=server()["command"], args=server()["args"])
    async with stdio_client(where) as streams, ClientSession(*streams) as session:
        await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]

        async def call(name, arguments):
            return read(await session.call_tool(name, arguments, timedelta(seconds=SECONDS)))

        return tools, await all_calls(call)


async def mcp2():
    from mcp import Client, StdioServerParameters

    where = StdioServerParameters(command=server()["command"], args=server()["args"])
    async with Client(where) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]

        async def call(name, arguments):
            return read(await client.call_tool(name, arguments, read_timeout_seconds=SECONDS))

        return tools, await all_calls(call)


async def fastmcp():
    from fastmcp import Client

    async with Client(
        {"mcpServers": {"garden": {name: server()[name] for name in ("command", "args")}}}
    ) as client:
        tools = [tool.name for tool in await client.list_tools()]

        async def call(name, arguments):
            return read(await client.call_tool(name, arguments, raise_on_error=False, timeout=SECONDS))

        return tools, await all_calls(call)


async def langchain():
    from langchain_core.tools import ToolException
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from langchain_mcp_adapters.tools import load_mcp_tools

    where = {"transport": "stdio", "command": server()["command"], "args": server()["args"]}
    async with MultiServerMCPClient({"garden": where}).session("garden") as session:
        tools = {tool.name: tool for tool in await load_mcp_tools(session)}

        async def call(name, arguments):
            asked = {"type": "tool_call", "id": "1", "name": name, "args": arguments}
            try:
                content = (await tools[name].ainvoke(asked)).content
            except ToolException as fault:
                content = str(fault)
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            pictures = sum(block["type"] in ("image", "image_url") for block in blocks)
            return ["\n".join(block.get("text", "") for block in blocks), pictures]

        return list(tools), await all_calls(call)


async def openai_agents():
    from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    names = {}
    exec(TASK["settings"], names)  # noqa: S102  it is to be pasted into a program
    model = OpenAIResponsesModel("own", AsyncOpenAI(base_url=TASK["model"], api_key="none"))
    async with names["server"] as made:
        agent = Agent(name="a", model=model, mcp_servers=[made])
        await Runner.run(agent, TASK["prompt"], max_turns=60)


async def pydantic_ai():
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(base_url=TASK["model"], api_key="none"))
    config = {"mcpServers": {"garden": {name: server()[name] for name in ("command", "args")}}}
    agent = Agent(model, toolsets=[MCPToolset(config, read_timeout=SECONDS)])
    async with agent:
        await agent.run(TASK["prompt"])


print(json.dumps(asyncio.run(globals()[LIBRARY]())))
