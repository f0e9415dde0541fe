"""Every code example of both SDK texts, translated by the five rules of `typescript`, at work in a real space.

An example is named by its text and the line of its fence. A declaration is held against the classes: each option is
accepted, each handler called with as many arguments as the text gives it, each method called as it is declared.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from textwrap import indent
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from mew_lab.agent.agent import MEWAgent
from mew_lab.agent.attention import read_classification
from mew_lab.agent.completion_request import build_request
from mew_lab.agent.model import Reply, ToolCall, ToolSpec
from mew_lab.agent.prompts import step_messages
from mew_lab.agent.react import CallTools, FinalAnswer, Move, Thought, next_move, write_scratchpad
from mew_lab.agent.run import Run
from mew_lab.errors import MewError
from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.limits import Limits
from mew_lab.gateway.local import attach
from mew_lab.gateway.server import Server
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.text import ToolNames
from mew_lab.protocol.token import Token
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.discovery import DiscoveryStatus, State
from mew_lab.sdk.options import OPTIONS
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.settings import read_settings
from mew_lab.space.events import Record
from mew_lab.transport.link import Link

from ..waiting import until
from .conftest import Script
from .typescript import Block, Declaration, Parameter, member, read, snake, some

NEWER, OLDER = "sdk-v0.4.md", "sdk-v0.3-older.md"
ALL = [{"kind": "*"}]
KINDS: Mapping[str, type[Any]] = {
    "MEWClient": MEWClient,
    "MEWParticipant": MEWParticipant,
    "MEWAgent": MEWAgent,
}
OPTIONS_OF = {
    "ClientOptions": (MEWClient, MEWParticipant, MEWAgent),
    "ParticipantOptions": (MEWParticipant, MEWAgent),
    "AgentConfig": (MEWAgent,),
    "ChatResponseConfig": (MEWAgent,),
}
# What is declared, or stands in a fence, and cannot be run, with the reason.
LEFT_OUT = {
    f"{OLDER}:369 discoveredTools": "the newer text gives the same name another value",
    f"{NEWER}:1137": "lists packages of npm",
    f"{OLDER}:572": "lists packages of npm",
}


class World:
    """A space `test` in this process, served on a port; whoever took part leaves at its end."""

    def __init__(self, shared: Path, folder: Path) -> None:
        self.shared, self.folder = shared, folder
        self.records: list[Record] = []
        self.gateway = Gateway(observe=self.records.append)
        self.gateway.add_space(SpaceConfig(name="test"))
        self.server = Server(self.gateway, limits=Limits(refusal_delay=0.0))
        self.made: list[Any] = []
        for name, token in (
            *(("client", "client-token"), ("calculator", "participant-token")),
            ("assistant", "agent-token"),
        ):
            self.gateway.enrol("test", name, ALL)
            self.gateway.tokens.add("test", name, Token(token))

    def client(self, name: str, can: Sequence[Mapping[str, Any]] = ALL) -> MEWClient:
        self.gateway.enrol("test", name, can)

        async def link() -> Link:
            return attach(self.gateway, "test", name)

        return MEWClient(space="test", connect_link=link)

    async def seat(
        self, name: str, can: Sequence[Mapping[str, Any]] = ALL, **tools: Callable[..., Any]
    ) -> MEWParticipant:
        participant = MEWParticipant(self.client(name, can))
        for tool, function in tools.items():
            participant.register_tool(function, name=tool)
        self.made.append(participant)
        await participant.connect()
        return participant

    async def agent(self, name: str, model: Any = None, **options: Any) -> MEWAgent:
        agent = MEWAgent(MEWParticipant(self.client(name)), model=model, **options)
        self.made.append(agent)
        await agent.connect()
        return agent

    async def run(self, block: Block, me: Any = None, **names: Any) -> dict[str, Any]:
        """Runs the program of a block, with `me` as `this`; returns its names."""
        program = "\n".join(block.program).replace(
            "ws://localhost:8080", f"ws://localhost:{self.server.port}"
        )
        here: dict[str, Any] = {**KINDS, "member": member, "some": some, "JSON": JSON, **names}
        here.setdefault("log", print)
        exec(f"async def example(self):\n{indent(program, '    ')}\n    return locals()", here)  # noqa: S102
        made: dict[str, Any] = await here["example"](me)
        self.made += [one for one in made.values() if isinstance(one, tuple(KINDS.values()))]
        return made

    async def accepted(self, kind: str, sender: str) -> Envelope:
        """The first message of a kind and a sender that the gateway accepted, once it is there."""

        def find() -> list[Envelope]:
            raws = [one.raw for one in self.records if one.verdict == "accepted" and one.raw]
            envelopes = [Envelope.from_members(json.loads(raw), raw=raw) for raw in raws]
            return [one for one in envelopes if (one.kind, one.sender) == (kind, sender)]

        return (await until(find, what=f"{kind} of {sender}"))[0]

    async def close(self) -> None:
        for one in reversed(self.made):
            await one.disconnect()
        await self.server.stop()
        self.gateway.close()


class JSON:
    """What the language has under this name."""

    @staticmethod
    def stringify(value: Any, _: None, width: int) -> str:
        plain = [one._asdict() if isinstance(one, ToolSpec) else one for one in value]
        return json.dumps(plain, indent=width)


@pytest.fixture
async def world(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-some-length")
    made = World(shared, tmp_path)
    await made.server.start()
    async with asyncio.timeout(50):
        yield made
        await made.close()


def fences(text: str) -> dict[int, tuple[str, str]]:
    """The language and the code of each fence that names a language, by its line."""
    found, lines = {}, text.split("\n")
    starts = [n for n, line in enumerate(lines) if line.startswith("```")][::2]
    for start in starts:
        if language := lines[start].removeprefix("```").strip():
            end = lines.index("```", start + 1)
            found[start + 1] = (language, "\n".join(lines[start + 1 : end]))
    return found


# --- declarations ---


def sample(field: Parameter) -> Any:
    """A value of the declared type; of a choice, the first."""
    if "|" in field.of and field.of[0][0] == "'":
        return field.of[0].strip("'")
    if field.of[0] == "{":
        return dict.fromkeys(field.members, "x")
    address = "ws://localhost:1" if field.name == "gateway" else "http://localhost:1/v1"
    text = address if field.name in ("gateway", "baseURL") else "x"
    return {"string": text, "number": 1, "boolean": True}.get(field.of[0], [])


def check_method(of: Any, name: str, parameters: Sequence[Parameter]) -> None:
    """Calls a registrar with a handler as it is declared; binds the arguments of any other method."""
    target = getattr(of, snake(name))
    if [one.name for one in parameters] == ["handler"]:
        handlers: Sequence[Callable[..., None]] = (lambda: None, lambda one: None)
        assert callable(target(handlers[parameters[0].arity])), name
    elif name.startswith("on"):  # a hook

        async def hook(self: Any) -> None: ...

        own = type("Own", (type(of),), {snake(name): hook})
        assert getattr(own, snake(name)) == getattr(type(of), snake(name))  # the one that adds handlers
    else:
        placed = [one for one in parameters if not one.name.endswith("_ms")]
        named = {"timeout": 1.0} if len(placed) < len(parameters) else {}
        inspect.signature(target).bind(*placed, **named)


async def declares(world: World, block: Block, at: str) -> None:
    kinds = {"MEWClient": MEWClient(), "MEWParticipant": MEWParticipant(), "MEWAgent": MEWAgent()}
    base_names = [
        name
        for language, code in fences((world.shared / "specs" / NEWER).read_text()).values()
        if language == "typescript"
        for declared in read(code).declared
        if declared.name == "MEWClient"
        for name in declared.methods
        if name != "constructor"
    ]
    for declared in (*block.declared, block.loose):
        if f"{at} {declared.name}" in LEFT_OUT:
            continue
        if declared.kind == "enum":
            assert [one.of[0].strip("'") for one in declared.fields] == list(get_args(State))
        elif declared.name in OPTIONS_OF:
            options = {snake(one.name): sample(one) for one in declared.fields}
            for kind in OPTIONS_OF[declared.name]:
                kind(**options)
        elif declared.name == "Tool":
            await check_tool(world, declared)
        elif declared.kind == "interface":
            of = await made_by_us(world, declared.name)
            assert [one.name for one in declared.fields if not hasattr(of, snake(one.name))] == []
        else:
            made = kinds[declared.name or "MEWParticipant"]
            for name in {"MEWClient": base_names, "EventEmitter": ["on"]}.get(declared.base, []):
                assert hasattr(made, snake(name)), name
            for one in declared.fields:
                if f"{at} {one.name}" not in LEFT_OUT:
                    value = getattr(made, snake(one.name))
                    assert not (kind_of := KINDS.get(one.of[0])) or isinstance(value, kind_of)
            for name, (parameters, _) in declared.methods.items():
                if name != "constructor":
                    check_method(made, name, parameters)
    for value in block.values:
        await lists_tools(world, value)


async def made_by_us(world: World, name: str) -> Any:
    """Our value of a declared interface."""
    runs: list[Any] = []

    class Watched(MEWAgent):
        async def reason(
            self, request: str, previous_thoughts: Sequence[Thought], *, run: Run | None = None
        ) -> Move:
            runs.append(run)
            return FinalAnswer("", "done")

    if name == "ReActContext":
        agent = Watched(MEWParticipant(world.client("watched")))
        world.made.append(agent)
        await agent.connect()
        await agent.ask("Go")
        assert runs[0].final_response == "done"
    values = {"ParticipantDiscoveryStatus": DiscoveryStatus(), "LLMTool": ToolSpec("a/b", "", {})}
    return (values | {"Thought": Thought("")}).get(name) or runs[0]


async def check_tool(world: World, declared: Declaration) -> None:
    """A tool with every declared member, whose `execute` is called as declared: with one object."""
    got: list[Any] = []

    async def execute(args: Any) -> str:
        got.append(args)
        return "done"

    tool = {
        **{one.name: "x" for one in declared.fields},
        "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}},
        "execute": execute,
    }
    human, owner = await world.seat("human"), await world.seat("owner")
    for fewer in ((), ("inputSchema", "description")):
        owner.register_tool({key: value for key, value in tool.items() if key not in fewer})
        assert (await human.call("owner/x", {"a": 1})).text == "done"
    assert got == [{"a": 1}] * 2


async def lists_tools(world: World, listed: Sequence[Mapping[str, Any]]) -> None:
    """The example's list of tools is what an agent shows its model: their names, attribution in the description."""

    def add(a: float, b: float) -> float:
        return a + b

    for one in listed:
        await world.seat(one["name"].split("/")[0], add=add)
    agent = await world.agent("agent")
    await agent.wait_for_pending_discoveries(timeout=10.0)
    tools = {tool.name: tool for tool in agent.prepare_llm_tools()}
    assert set(tools) == {one["name"] for one in listed}
    assert all(tool.participant in tool.description for tool in tools.values())


# --- messages and replies of models ---


async def sends(world: World, block: Block, at: str) -> None:
    """Each message is sent as it stands by its sender, and accepted."""
    senders = {one["from"]: await world.seat(one["from"]) for one in block.values if "from" in one}
    nobody = await world.seat("somebody") if len(senders) < len(block.values) else None
    for one in block.values:
        sender = senders.get(one.get("from"), nobody)
        assert sender is not None
        heard = await sender.send_accepted({"id": f"own-{one['kind']}", **one})
        assert {**heard.members, **one} == heard.members


def step_of(value: Any) -> CallTools:
    """The move that our agent makes of a model's reply in the text."""
    move = next_move((), Reply(json.dumps(value)), format="scratchpad", max_iterations=10)
    assert isinstance(move, CallTools)
    return move


async def prompts(world: World, block: Block, at: str) -> None:
    """The prompt of the text is what the model gets, and its reply what the agent acts on."""
    tools = [
        ToolSpec("weather-service/get_weather", "The weather.", {}),
        ToolSpec("calculator/multiply", "", {}),
    ]
    names = {"llm_tools": tools, "agent": SimpleNamespace(tools=tools), "message": {"text": "Warm?"}}
    made = await world.run(block, **names)
    [prompt] = [value for name, value in made.items() if name.endswith("_prompt")]
    if "${" in prompt or "classification_prompt" in made:
        assert "Warm?" in prompt and "calculator/multiply" in prompt
        answer = prompt[prompt.rindex("{") :].replace("boolean", "true").replace("string", '"it is mine"')
        classification = read_classification(answer.replace("number (0-1)", "0.9"))
        assert classification is not None and classification.above(0.5)
        return
    [reply] = block.values
    if isinstance(reply, str):
        move = next_move((), Reply(reply), format="native", max_iterations=10)
        assert isinstance(move, FinalAnswer) and move.text == reply.strip()
        phase, after = "respond", [Reply("a draft"), Reply(reply)]
    else:
        [call] = step_of(reply).calls
        assert (call.name, call.arguments) == (
            reply["actionInput"]["tool"],
            reply["actionInput"]["arguments"],
        )
        phase, after = "reason", [Reply(json.dumps(reply)), Reply(json.dumps({"action": "respond"}))]
    user, script = await world.seat("user"), Script(*after)
    format = "native" if phase == "respond" else "scratchpad"
    agent = await world.agent("agent", script, prompts={phase: prompt}, reasoning_format=format)
    await user.ask("Go", agent.id, timeout=30.0)
    asked = script.asked[len(after) - 1 if phase == "respond" else 0]
    assert prompt.strip() in "\n".join(one.content for one in asked)


async def formats(world: World, block: Block, at: str) -> None:
    """An earlier step stands in the prompt as the text writes it; our names of functions keep hyphens (S-L3-5)."""
    if len(block.values) == 1:
        theirs = block.values[0]["content"]
        thought = Thought(
            "The user needs weather information for Tokyo",
            (ToolCall("", "weather-service/get_weather", {"city": "Tokyo"}),),
            ("Tokyo: 22°C, partly cloudy",),
        )
        ours = write_scratchpad([thought])
        needed = [line for line in theirs.splitlines() if ": " in line and not line.startswith("Action: ")]
        assert [line for line in needed if line not in ours] == [] and len(needed) == 3
        return
    said, answered = block.values
    [call] = said["tool_calls"]
    tool = "weather-service/get_weather"
    thought = Thought(
        said["content"],
        (ToolCall(call["id"], tool, json.loads(call["function"]["arguments"])),),
        (answered["content"],),
    )
    messages = step_messages("How is Tokyo?", [thought], id="agent", tools=[ToolSpec(tool, "", {})])
    names = ToolNames([tool])
    sent = build_request(messages, model="any", names=names)["messages"]
    written = call["function"]["name"].replace("weather_service", "weather-service")
    call["function"] |= {"name": written}
    found = [one for one in sent if one["role"] in ("assistant", "tool")]
    for one in found[0]["tool_calls"]:
        assert json.loads(one["function"].pop("arguments")) == json.loads(call["function"].pop("arguments"))
    assert found == [said, answered]


# --- programs ---


async def discovers_with_retry(world: World, block: Block, at: str) -> None:
    loop, ran = asyncio.get_running_loop(), []

    def set_timeout(work: Callable[[], Any], ms: int) -> None:
        ran.append(ms)
        loop.call_soon(lambda: loop.create_task(work()))

    here: dict[str, Any] = {"MEWParticipant": MEWParticipant, "set_timeout": set_timeout}
    body = indent("\n".join(block.methods), "    ")
    exec(f"class Example(MEWParticipant):\n{body}", here)  # noqa: S102
    await world.seat("mute", [{"kind": "chat"}])
    await world.seat("git", log=lambda: "nothing")
    example = here["Example"](world.client("example"))
    world.made.append(example)
    await world.run(block, example, set_timeout=set_timeout)
    await example.connect()
    await until(lambda: "git" in example.discovered_tools)
    assert ran[0] == 3000
    ran.clear()
    await example.discover_tools_with_retry("nobody")
    await until(lambda: len(ran) == 2)
    assert ran == [5000, 10000]


async def checks_rights(world: World, block: Block, at: str) -> None:
    can = [{"kind": "chat"}, {"kind": "mcp/request", "payload": {"method": "!tools/call"}}]
    participant = await world.seat("participant", can)
    answers: list[bool] = []
    watched = SimpleNamespace(can_send=lambda one: answers.append(participant.can_send(one)))
    await world.run(block, participant=watched)
    assert answers == [True, False]


async def requests(world: World, block: Block, at: str) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    await world.seat("target-participant", add=add)
    proposer = await world.seat("proposer", [{"kind": "mcp/proposal"}, {"kind": "mcp/withdraw"}])
    made = await world.run(block, participant=await world.seat("caller"))
    assert made["result"].text == "3"
    assert (await world.accepted("mcp/request", "caller")).to == ("target-participant",)
    with pytest.raises(MewError):  # nobody approves it within the seconds of the example, so it ends
        call = await limited(world.run(block, participant=proposer))
        assert call is None
    assert (await world.accepted("mcp/proposal", "proposer")).to == ("target-participant",)


async def limited(work: Awaitable[Any]) -> Any:
    async with asyncio.timeout(20):
        return await work


async def shows_tools(world: World, block: Block, at: str) -> None:
    await world.seat("calculator-service", add=lambda a, b: a + b)
    made = await world.run(block)
    shown: list[Any] = []
    human = made["HumanInterface"](world.client("human"))
    human.ui = SimpleNamespace(show_tools=shown.append)
    world.made.append(human)
    await human.connect()
    await until(lambda: shown)
    assert [(tool.participant, tool.name) for tool in shown[0]] == [("calculator-service", "add")]


async def waits_for_tools(world: World, block: Block, at: str) -> None:
    agent = await world.agent("agent")
    await world.seat("calculator", add=lambda a, b: a + b)
    await until(agent.has_discoveries_in_progress)
    lines: list[str] = []
    await world.run(block, agent, previous_thoughts=[], log=lines.append)
    assert lines == ["Tool discovery completed. 1 tools available."]


async def observes(world: World, block: Block, at: str) -> None:
    await world.seat("target", add=lambda a, b: a + b)
    caller, thought = await world.seat("caller"), SimpleNamespace(observation=None)
    names = {"target": "target", "thought": thought}
    await world.run(block, caller, payload={"method": "tools/list"}, **names)
    assert [tool["name"] for tool in thought.observation["tools"]] == ["add"]
    await world.run(block, caller, payload={"method": "tools/none"}, **names)
    assert thought.observation.startswith("Error: ") and "tools/none" in thought.observation


async def configures(world: World, block: Block, at: str) -> None:
    agent = (await world.run(block))["agent"]
    if "conversation_history_length" in block.program[0]:
        assert agent.options.conversation_history_length == 10
    else:
        assert agent.options.prompts.act.startswith("Select and execute the best tool for: {objective}")


async def calls_what_a_model_chose(world: World, block: Block, at: str) -> None:
    got: list[Any] = []
    await world.seat("calculator", add=lambda a, b: got.append((a, b)))
    agent = await world.agent("agent")
    await agent.wait_for_pending_discoveries(timeout=10.0)
    made = await world.run(block, agent)
    assert [tool.name for tool in made["llm_tools"]] == ["calculator/add"] and got == [(5, 3)]


async def chats(world: World, block: Block, at: str) -> None:
    await world.run(block)
    assert (await world.accepted("chat", "client")).payload == {"text": "Hello!"}


async def has_tools(world: World, block: Block, at: str) -> None:
    await world.seat("another-participant", look=lambda: "seen")
    human = await world.seat("human")
    made = await world.run(block)
    assert [tool["name"] for tool in made["result"]["tools"]] == ["look"]
    assert (await human.call("calculator/add", {"a": 2, "b": 3})).text == "5"


async def answers_by_itself(world: World, block: Block, at: str) -> None:
    human = await world.seat("human")
    made = await world.run(block)
    assert made["reasoning_agent"].model.name == "o1-preview"
    assert made["specialized_agent"].options.prompts.system.startswith("You are a medical assistant.")
    assert await human.ask("Hello?", "assistant", timeout=30.0)
    assert (await world.accepted("reasoning/start", "assistant")).payload


async def reads_environment(world: World, code: str, at: str) -> None:
    environ = {name: value.strip("'") for name, _, value in (one.partition("=") for one in code.splitlines())}
    settings = read_settings(environ=environ)
    own = (settings.gateway, settings.space, settings.participant_id)
    assert own == ("ws://localhost:8080", "default", "my-agent")
    assert MEWAgent.from_settings(settings).options.reasoning_enabled


async def reads_file(world: World, code: str, at: str) -> None:
    path = world.folder / "agent-config.yaml"
    path.write_text(code)
    agent = MEWAgent.from_settings(read_settings(path, environ={"AGENT_TOKEN": "a-token-of-some-length"}))
    assert (agent.options.max_iterations, agent.options.reasoning_enabled) == (10, True)
    assert agent.participant.client.space == "production"


EXAMPLES: Mapping[str, Callable[[World, Any, str], Awaitable[None]]] = {
    **{f"{NEWER}:{n}": declares for n in (59, 90, 221, 366, 378, 418, 501, 554, 632, 1351)},
    **{f"{OLDER}:{n}": declares for n in (59, 90, 153, 292, 318, 369, 407, 789)},
    **{f"{NEWER}:{n}": sends for n in (310, 654, 672, 727, 743, 820, 861, 877)},
    **{f"{OLDER}:{n}": sends for n in (236,)},
    **{f"{NEWER}:{n}": prompts for n in (692, 786, 840, 1391)},
    **{f"{OLDER}:{n}": prompts for n in (829,)},
    **{f"{NEWER}:{n}": formats for n in (924, 955)},
    **{f"{NEWER}:{n}": configures for n in (978, 994)},
    f"{OLDER}:434": configures,
    f"{NEWER}:176": discovers_with_retry,
    **dict.fromkeys((f"{NEWER}:281", f"{OLDER}:207"), checks_rights),
    **dict.fromkeys((f"{NEWER}:299", f"{OLDER}:225"), requests),
    f"{NEWER}:433": shows_tools,
    f"{NEWER}:614": waits_for_tools,
    f"{NEWER}:902": observes,
    **dict.fromkeys((f"{NEWER}:1025", f"{OLDER}:465"), calls_what_a_model_chose),
    **dict.fromkeys((f"{NEWER}:1220", f"{OLDER}:655"), chats),
    **dict.fromkeys((f"{NEWER}:1235", f"{OLDER}:670"), has_tools),
    **dict.fromkeys((f"{NEWER}:1258", f"{OLDER}:693"), answers_by_itself),
    **dict.fromkeys((f"{NEWER}:1104", f"{OLDER}:539"), reads_environment),
    **dict.fromkeys((f"{NEWER}:1114", f"{OLDER}:549"), reads_file),
}


def test_every_fence_of_both_texts_is_run_or_left_out_with_a_reason(shared: Path) -> None:
    found = {
        f"{name}:{line}" for name in (NEWER, OLDER) for line in fences((shared / "specs" / name).read_text())
    }
    whole = {at for at in LEFT_OUT if " " not in at}
    assert found == set(EXAMPLES) | whole and not set(EXAMPLES) & whole
    assert {at.partition(" ")[0] for at in LEFT_OUT if " " in at} <= set(EXAMPLES)


@pytest.mark.parametrize("at", EXAMPLES)
async def test_the_example_runs(at: str, world: World) -> None:
    name, _, line = at.partition(":")
    language, code = fences((world.shared / "specs" / name).read_text())[int(line)]
    await EXAMPLES[at](world, read(code) if language == "typescript" else code, at)


@pytest.mark.req("S-L2-3", "S-L2-6", "S-L2-37", "S-L2-38", "S-L2-39")
def test_every_name_in_the_prose_is_one_of_an_agent_or_a_setting(shared: Path) -> None:
    text = (shared / "specs" / NEWER).read_text()
    names = {snake(one) for one in re.findall(r"`([a-z]+[A-Z][A-Za-z]*)[^`\n]*`", text)}
    assert len(names) > 15
    agent = MEWAgent()
    assert [name for name in names if name not in OPTIONS and not hasattr(agent, name)] == []


PING = """
class Pinger extends MEWParticipant {
  async onReady() {
    this.chat('ready');
  }
}

const participant = new Pinger({
  gateway: 'ws://localhost:8080',
  space: 'test',
  token: 'participant-token',
  requestTimeout: 5
});

participant.registerTool({ name: 'ping', execute: async (args) => 'pong' });
participant.onConnected(() => participant.canSend({ kind: 'chat' }));
participant.onMessage((envelope) => heard.push(envelope.kind));

await participant.connect();
"""


async def test_a_participant_that_answers_ping_is_written_from_the_specification_alone(world: World) -> None:
    human, kinds = await world.seat("human"), list[str]()
    await world.run(read(PING), heard=SimpleNamespace(push=kinds.append))
    assert (await world.accepted("chat", "calculator")).payload == {"text": "ready"}
    assert (await human.call("calculator/ping")).text == "pong"
    assert await human.mcp_request("calculator", {"method": "ping"}) == {}
    assert "mcp/request" in kinds
