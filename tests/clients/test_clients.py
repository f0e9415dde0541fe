"""Real clients of MCP through the gate of a space that `mew-lab serve` runs: what each of them gets, and what was executed.

A coding agent, or an agent of a framework, works with a model of these tests and is judged by what that model was given; a
library by what its calls returned. A table of all rows is printed at the end, with `-s`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ..bridge.real_servers import npm_package, python_package
from .coding_agents import AGENTS, run_agent, run_to_the_end
from .model_server import Given, ModelServer
from .space import LARGE, PENDING_AFTER, REASON, Space, environment, serve

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
HERE = Path(__file__).parent
PYTHON = {
    "mcp 1.9.4": ("mcp1", "mcp==1.9.4", "pydantic<2.12"),  # a later one lacks what it imports
    "mcp 1.30": ("mcp1", "mcp==1.30.0"),
    "mcp 2.3": ("mcp2", "mcp==2.3.0"),
    "fastmcp": ("fastmcp", "fastmcp==4.2.3"),
    "openai-agents": ("openai_agents", "openai-agents==0.24.0"),
    "pydantic-ai": ("pydantic_ai", "pydantic-ai-slim[mcp,openai]==2.68.0"),
    "langchain": ("langchain", "langchain-mcp-adapters==0.3.2"),
}
TYPESCRIPT = {
    "typescript sdk": ("@modelcontextprotocol/sdk", "1.32.2"),
    "typescript client": ("@modelcontextprotocol/client", "2.4.0"),
}
CALLS: list[tuple[str, dict[str, str]]] = [
    ("water", {"bed": "north"}),
    ("cut", {"bed": "south"}),
    ("fail", {}),
    ("picture", {}),
    ("report", {}),
    ("wait", {"bed": "east"}),
]
OFFERED = {*(f"world_{name}" for name, _ in CALLS), "proposal_result", "proposal_withdraw"}
EXECUTED = ["water north", "fail", "picture", "report", "wait east"]
PROMPT = "\n".join(f"CALL world_{name} {json.dumps(arguments)}" for name, arguments in CALLS)
ROUNDS = {"claude", "fastmcp", "pydantic-ai"}  # they wait in rounds: what waits is no result to them
WAITS = {"openai-agents"}  # its settings have the gate wait as long as it does
rows: dict[str, list[str]] = {}


@pytest.fixture
async def space(tmp_path: Path) -> AsyncIterator[Space]:
    async with serve(tmp_path / "space", {"world": "tool", "coder": "agent"}) as space:
        await space.plant()
        await space.decide()
        yield space


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.fixture(scope="module", autouse=True)
def table() -> Iterator[None]:
    yield
    for name, cells in rows.items():
        print(f"\n{name}: " + " | ".join(cells), end="")


def check(client: str, tools: list[str], answers: list[list[Given]], space: Space) -> None:
    """Checks a row of the table."""
    water, cut, fail, picture, report, wait = answers
    cells = [f"{len(tools)} tools", *(got[-1].text[:60].replace("\n", " ") for got in answers)]
    cells += [
        f"pending {len(wait) - 1}",
        f"pictures {picture[-1].pictures}",
        f"report {len(report[-1].text)}",
    ]
    rows[client] = [*cells, f"approved {len(space.approved)}, executed {len(space.executed)}"]
    assert space.executed == space.approved == EXECUTED
    missing = {name for name in OFFERED if not any(tool.endswith(name) for tool in tools)}
    assert not missing, f"the tools are {tools}"
    assert "watered north" in water[-1].text
    assert REASON in cut[-1].text and "not executed" in cut[-1].text
    assert "the beans are gone" in fail[-1].text
    assert picture[-1].pictures or "image/png" in picture[-1].text
    assert "report of the garden" in report[-1].text or f"{LARGE:,} characters" in report[-1].text
    assert "waited for east" in wait[-1].text
    assert (len(wait) > 1) == (client not in ROUNDS | WAITS)


def by_call(results: list[Given]) -> list[list[Given]]:
    """The results of a model, of each call: those that it waits for, and the one that ends it."""
    answers: list[list[Given]] = [[]]
    for result in results:
        answers[-1].append(result)
        if not result.is_pending:
            answers.append([])
    return answers[: len(CALLS)]


@pytest.mark.parametrize("name", AGENTS)
async def test_a_coding_agent(name: str, space: Space, model: ModelServer, tmp_path: Path) -> None:
    settings = await space.settings(name, "--answer-after", str(PENDING_AFTER))
    await run_agent(name, tmp_path / name, settings, model.root, PROMPT)
    check(name, model.turns[0].tools, by_call(model.results), space)


@pytest.mark.parametrize("name", PYTHON)
async def test_a_client_of_python(name: str, space: Space, model: ModelServer) -> None:
    library, *packages = PYTHON[name]
    python = python_package(*packages) / "python"
    if name == "openai-agents":
        settings = await space.settings("openai-agents")
    else:
        settings = await space.settings("claude", "--answer-after", str(PENDING_AFTER))
    words = [str(python), str(HERE / "python_client.py"), library]
    done = json.loads(
        await run_to_the_end([*words, task(settings, model)], space.home, environment(space.home))
    )
    if done is None:  # it works with a model
        check(name, model.turns[0].tools, by_call(model.results), space)
    else:
        check_library(name, done, space)


@pytest.mark.parametrize("name", TYPESCRIPT)
async def test_a_client_of_typescript(name: str, space: Space, model: ModelServer) -> None:
    package, version = TYPESCRIPT[name]
    modules = npm_package(f"{package}@{version}")
    settings = await space.settings("claude", "--answer-after", str(PENDING_AFTER))
    words = ["node", str(HERE / "typescript_client.mjs"), str(modules), package, task(settings, model)]
    done = json.loads(await run_to_the_end(words, space.home, environment(space.home)))
    check_library(name, done, space)


def task(settings: str, model: ModelServer) -> str:
    calls = [(f"world_{name}", arguments) for name, arguments in CALLS]
    return json.dumps({"settings": settings, "calls": calls, "prompt": PROMPT, "model": model.url})


def check_library(name: str, done: tuple[list[str], list[list[tuple[str, int]]]], space: Space) -> None:
    tools, answers = done
    given = [[Given(*answer) for answer in got] for got in answers]
    check(name, tools, given, space)
    assert len(given[4][-1].text) == LARGE  # a library cuts nothing
