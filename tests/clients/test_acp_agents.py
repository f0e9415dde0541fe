"""Real coding agents that speak ACP, as participants: each with a model of these tests, and a person who decides."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mew_lab.bridge.acp import AcpBridge
from mew_lab.bridge.acp_tools import AgentTools
from mew_lab.errors import MewError
from mew_lab.lab.labs import up
from mew_lab.sdk.participant import MEWParticipant

from ..bridge.real_servers import npm_package
from ..lab.looking import click
from ..room import Room
from ..waiting import eventually, until
from .coding_agents import codex, gemini, opencode
from .model_server import ModelServer
from .space import environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Real(NamedTuple):
    """How an agent is installed and started, and the tool by which it runs a command."""

    package: str
    words: tuple[str, ...]
    tool: str
    home: Callable[[Path, Path, str], dict[str, str]]
    more: str = ""
    scripts: bool = True
    argument: str = "command"


def _claude(home: Path, project: Path, model: str) -> dict[str, str]:
    more = {
        "ANTHROPIC_BASE_URL": model,
        "ANTHROPIC_API_KEY": "none",
        "IS_SANDBOX": "1",
        "ENABLE_TOOL_SEARCH": "false",
    }
    return {**more, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}


def _codex(home: Path, project: Path, model: str) -> dict[str, str]:
    return {**codex(home, project, "", model, "").environment, "OPENAI_API_KEY": "none"}


def _gemini(home: Path, project: Path, model: str) -> dict[str, str]:
    return gemini(home, project, "{}", model, "").environment


def _opencode(home: Path, project: Path, model: str) -> dict[str, str]:
    return opencode(home, project, "{}", model, "").environment


AGENTS = {
    "claude": Real(
        "@agentclientprotocol/claude-agent-acp@0.101.0", ("claude-agent-acp",), "Bash", _claude, '"description": "make", '
    ),
    "gemini": Real(
        "@google/gemini-cli@0.61.0", ("gemini", "--acp", "--skip-trust", "--model", "gemini-2.5-pro"),
        "run_shell_command", _gemini, scripts=False,
    ),
    "codex": Real(
        "@agentclientprotocol/codex-acp@2.6.0", ("codex-acp",), "exec_command", _codex,
        # else it runs in the sandbox of Codex, and nobody is asked
        '"sandbox_permissions": "require_escalated", "justification": "make", ', argument="cmd",
    ),
    "opencode": Real("opencode-ai@1.18.33", ("opencode", "acp"), "bash", _opencode, '"description": "make", '),
}  # fmt: skip


class Garden(Room):
    """A space with people, and the real agents that they start."""

    def __init__(self, folder: Path, model: ModelServer) -> None:
        super().__init__()
        self.folder = folder
        self.model = model
        self.bridges: list[AcpBridge] = []
        self.people: list[MEWParticipant] = []

    async def start(self, which: str, name: str = "coder", **options: Any) -> AcpBridge:
        real = AGENTS[which]
        home, project = self.folder / f"home-{name}", self.folder / "project"
        home.mkdir(exist_ok=True)
        project.mkdir(exist_ok=True)
        program = npm_package(real.package, scripts=real.scripts) / ".bin" / real.words[0]
        env = environment(home, **real.home(home, project, self.model.root))
        bridge = AcpBridge(
            name,
            [str(program), *real.words[1:]],
            cwd=project,
            env=env,
            starters=("human",),
            start_timeout=60.0,
            **options,
        )
        self.bridges.append(bridge)
        await bridge.start(self.client(name, "agent"))
        return bridge

    def call(self, which: str, folder: str) -> str:
        real = AGENTS[which]
        return f'CALL {real.tool} {{{real.more}"{real.argument}": "mkdir {folder}"}}'

    def made(self, folder: str) -> bool:
        return (self.folder / "project" / folder).is_dir()

    def open(self, person: MEWParticipant, proposer: str = "coder") -> list[Any]:
        return [one for one in person.proposals.open() if one.proposer == proposer and one.state == "open"]

    async def card(self, person: MEWParticipant, proposer: str = "coder") -> Any:
        [card] = await until(
            lambda: [
                one for one in person.proposals.open() if one.proposer == proposer and one.state == "open"
            ],
            what=f"a question of {proposer}",
        )
        return card

    async def close(self) -> None:
        for bridge in self.bridges:
            await bridge.stop()
        await super().close()


@pytest.fixture
async def garden(tmp_path: Path) -> AsyncIterator[Garden]:
    async with ModelServer() as model:
        made = Garden(tmp_path, model)
        made.people = [await made.seat("human"), await made.seat("ann")]
        yield made
        await made.close()


def option_of(card: Any, kind: str) -> str:
    options = card.payload["params"]["arguments"]["options"]
    ids = [one["id"] for one in options if one["kind"] == kind]
    assert ids, options
    return str(ids[0])


each = pytest.mark.parametrize("which", AGENTS)


@each
async def test_allowed_once_it_runs_and_is_asked_again(garden: Garden, which: str) -> None:
    human = garden.people[0]
    await garden.start(which)
    asked = human.ask("\n".join(garden.call(which, one) for one in ("one", "two")), "coder")
    card = await garden.card(human)
    assert "mkdir one" in str(card.payload["params"]["arguments"])
    await human.approve(card.id, option=option_of(card, "allow_once"))
    await until(lambda: garden.made("one"))
    second = await garden.card(human)
    assert second.id != card.id
    await human.reject(second.id, "no")
    try:
        await asked
    except MewError:
        pass  # an agent may end the turn with a rejection
    assert garden.made("one") and not garden.made("two")
    thoughts = [one.payload["message"] for one in garden.sent("reasoning/thought", sender="coder")]
    assert any("[completed]" in one for one in thoughts), thoughts


@pytest.mark.parametrize(
    "which", ["gemini", "opencode"]
)  # Claude offers no such option, Codex for this one command
async def test_allowed_always_it_asks_no_more_and_that_is_told(garden: Garden, which: str) -> None:
    human = garden.people[0]
    await garden.start(which)
    asked = human.ask("\n".join(garden.call(which, one) for one in ("one", "two")), "coder")
    card = await garden.card(human)
    await human.approve(card.id, option=option_of(card, "allow_always"))
    assert "all is done" in str(await asked)
    assert garden.made("one") and garden.made("two")
    assert len(garden.sent("mcp/proposal", sender="coder")) == 1
    thoughts = [one.payload["message"] for one in garden.sent("reasoning/thought", sender="coder")]
    assert any("[completed, not asked]" in one for one in thoughts), thoughts


@each
async def test_cancelled_while_it_waits_it_runs_nothing_and_goes_on(garden: Garden, which: str) -> None:
    human = garden.people[0]
    bridge = await garden.start(which)
    chat = await human.chat(garden.call(which, "one"), "coder")
    card = await garden.card(human)
    await human.cancel_chat(chat.id)
    await until(lambda: human.proposals.get(card.id).state == "withdrawn")
    await until(lambda: not bridge.busy)
    assert not garden.made("one")
    asked = human.ask("What is here?", "coder")
    while not asked.done:  # the model of a session makes a call anew that has no result
        await until(lambda: asked.done or garden.open(human))
        for again in garden.open(human):
            await human.reject(again.id, "no")
    assert not garden.made("one")


@each
async def test_of_two_people_one_decides(garden: Garden, which: str) -> None:
    human, ann = garden.people
    await garden.start(which)
    asked = human.ask(garden.call(which, "one"), "coder")
    card = await garden.card(human)
    await garden.card(ann)

    async def decide(person: MEWParticipant) -> bool:
        try:
            await person.approve(card.id, option=option_of(card, "allow_once"))
        except MewError:
            return False
        return True

    told = await asyncio.gather(decide(human), decide(ann))
    assert sorted(told) == [False, True]
    assert "all is done" in str(await asked)
    assert garden.made("one")


@each
async def test_killed_it_comes_back_and_works(garden: Garden, which: str) -> None:
    human = garden.people[0]
    bridge = await garden.start(which)
    first = bridge.pid
    os.kill(first, 9)
    await until(lambda: bridge.pid not in (0, first) and bridge.session)
    asked = human.ask(garden.call(which, "one"), "coder")
    card = await garden.card(human)
    await human.approve(card.id, option=option_of(card, "allow_once"))
    assert "all is done" in str(await asked)
    assert garden.made("one")


@each
async def test_two_of_them_work_at_once(garden: Garden, which: str) -> None:
    human = garden.people[0]
    await garden.start(which)
    await garden.start(which, name="other")
    asked = {name: human.ask(garden.call(which, f"of-{name}"), name) for name in ("coder", "other")}
    for name, answer in asked.items():
        card = await garden.card(human, name)
        await human.approve(card.id, option=option_of(card, "allow_once"))
        assert "all is done" in str(await answer)
        assert garden.made(f"of-{name}")


class Watered(NamedTuple):
    """What became of calls of one tool: what it did, by whom the calls were decided, and how often a person was asked."""

    done: list[str]
    decided: list[str]
    asked: list[str]


async def water(folder: Path, which: str, *beds: str, **options: Any) -> Watered:
    """Has an agent water beds by a tool of a lab, whose person approves whatever is asked."""
    home, project, real = folder / "home", folder / "project", AGENTS[which]
    home.mkdir()
    project.mkdir()
    program = npm_package(real.package, scripts=real.scripts) / ".bin" / real.words[0]
    done, asked_of = list[str](), list[str]()

    def work(model: str) -> list[str]:
        lab = up()
        try:

            @lab.tool
            def water(bed: str, litres: float = 1.0) -> str:
                "Waters a bed."
                done.append(bed)
                return f"watered {bed}"

            env = environment(home, **real.home(home, project, model))
            command = [str(program), *real.words[1:]]
            lab.coding_agent(command, "coder", cwd=project, env=env, tools=True, timeout=60, **options)
            lines = (f'CALL notebook_water {{"bed": "{bed}", "litres": 2.0}}' for bed in beds)
            asked = lab.ask("coder", "\n".join(lines))
            while not asked.done:
                eventually(lambda: asked.done or lab.proposals())
                for proposal in lab.proposals():
                    if proposal.card.state == "open" and proposal.id not in asked_of:
                        click(lab, proposal.id, proposal.card.digest)
                        asked_of.append(proposal.card.proposer)
            assert "all is done" in str(asked.result(timeout=5))
            return [card.by for card in lab.decisions.decided() if card.proposer == "coder-tools"]
        finally:
            lab.down()

    async with ModelServer() as model:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("ARMING", "MOST_READING"):  # its person has read each card at once
                patch.setattr(f"mew_lab.lab.decisions.cards.{name}", 0.0)
            decided = await asyncio.to_thread(work, model.root)
    return Watered(done, decided, asked_of)


@pytest.mark.parametrize(
    ("which", "over"),
    [
        *((which, "http") for which in AGENTS),
        *((which, "stdio") for which in AGENTS if which != "codex"),  # Codex waits for no server over stdio
    ],
)
async def test_it_uses_a_tool_of_the_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str, over: str
) -> None:
    """The agent asks for its own permission, where its rules say so, and the call is a proposal besides."""
    monkeypatch.chdir(tmp_path)
    entries = []
    given = AgentTools.entry

    def entry(tools: AgentTools, *, http: bool) -> dict[str, Any]:
        assert http  # each of them takes it
        entries.append(given(tools, http=over == "http"))
        return entries[-1]

    monkeypatch.setattr(AgentTools, "entry", entry)
    assert await water(tmp_path, which, "north") == Watered(
        ["north"], ["human"], [*(["coder"] if which != "opencode" else []), "coder-tools"]
    )
    assert [one.get("type", "stdio") for one in entries] == [over]


@pytest.mark.parametrize("which", ["claude", "codex"])  # the others show no input of the tool, or ask nothing
async def test_asked_once_its_first_call_passes_by_the_permission_and_an_equal_one_asks_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    monkeypatch.chdir(tmp_path)
    found = await water(tmp_path, which, "north", "north", "south", ask_once=True)
    assert found == Watered(["north", "north", "south"], ["human by policy ask once"] * 3, ["coder"] * 3)


async def test_asked_once_where_the_agent_shows_no_input_the_space_asks_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = await water(tmp_path, "gemini", "north", ask_once=True)
    assert found == Watered(["north"], ["human"], ["coder", "coder-tools"])


# --- files by the bridge (fs/*): Gemini writes by it; it would take the error for a missing file for a fault ---


async def test_a_file_of_gemini_is_written_by_the_bridge(garden: Garden) -> None:
    human, project = garden.people[0], garden.folder / "project"
    project.mkdir()
    (project / "plan.txt").write_text("beans\npeas\n")
    await garden.start("gemini", files=project)
    olds = {"plan.txt": "beans\npeas\n", "new.txt": None}
    calls = [
        f"CALL write_file {json.dumps({'file_path': str(project / name), 'content': f'leeks in {name}'})}"
        for name in olds
    ]
    asked = human.ask("\n".join(calls), "coder")
    for name, old in olds.items():
        own = await garden.card(human)  # of the agent's own rules
        await human.approve(own.id, option=option_of(own, "allow_once"))
        ours = await garden.card(human)
        arguments = ours.payload["params"]["arguments"]
        assert name in arguments["question"] and arguments["content"] == [
            {"type": "diff", "path": name, "oldText": old, "newText": f"leeks in {name}"}
        ]
        assert (project / name).exists() == (old is not None)
        await human.approve(ours.id)
    await asked
    told = [one.payload for one in garden.sent("reasoning/thought", sender="coder")]
    assert [one["file_written"]["path"] for one in told if "file_written" in one] == ["plan.txt", "new.txt"]


async def test_a_write_of_gemini_that_is_rejected_leaves_the_file(garden: Garden) -> None:
    human, project = garden.people[0], garden.folder / "project"
    project.mkdir()
    (project / "plan.txt").write_text("beans\n")
    await garden.start("gemini", files=project)
    path = str(project / "plan.txt")
    asked = human.ask(f"CALL write_file {json.dumps({'file_path': path, 'content': 'leeks'})}", "coder")
    own = await garden.card(human)
    await human.approve(own.id, option=option_of(own, "allow_once"))
    await human.reject((await garden.card(human)).id, "not now")
    await asked
    assert (project / "plan.txt").read_text() == "beans\n"
