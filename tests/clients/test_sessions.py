"""The sessions that today's coding agents write, whole and damaged, open as logs without the loss of a line."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from mew_lab.log.log import Log, open_log

from .coding_agents import run_agent
from .model_server import ModelServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PROMPTS = {
    "claude": 'CALL Bash {"command":"echo beans","description":"says"}\n'
    'CALL Bash {"command":"exit 3","description":"fails"}\n'
    'CALL Agent {"description":"dig","prompt":"Dig it.","subagent_type":"general-purpose","run_in_background":false}',
    "codex": 'CALL exec_command {"cmd":"echo beans"}\nCALL exec_command {"cmd":"exit 3"}',
}
SETTINGS = {"claude": '{"mcpServers": {}}', "codex": ""}
PLACES = {"claude": ".claude/projects/*/*.jsonl", "codex": ".codex/sessions/*/*/*/rollout-*.jsonl"}
DAMAGED = 10  # variants of each session


async def session_of(agent: str, place: Path) -> Path:
    async with ModelServer() as model:
        await run_agent(agent, place, SETTINGS[agent], model.root, PROMPTS[agent])
    [path] = (place / "home").glob(PLACES[agent])
    return path


def lines_of(log: Log) -> list[str]:
    return [record.received for record in log.records if record.received is not None]


def damaged(lines: list[str], pick: random.Random, how: int) -> str:
    """The text of the file, cut, with foreign lines, with lines in another order, or of a later version."""
    lines = [*lines]
    match how % 4:
        case 0:
            return "\n".join(lines)[: -pick.randint(1, len(lines[-1]) - 1)]
        case 1:
            lines.insert(pick.randrange(len(lines)), "killed {")
        case 2:
            pick.shuffle(lines)
        case _:
            lines = [
                line.replace('"type":"', '"type":"x-', 1) if pick.random() < 0.3 else line for line in lines
            ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("agent", PROMPTS)
async def test_the_session_of_a_real_agent_opens_whole_and_damaged(agent: str, tmp_path: Path) -> None:
    path = await session_of(agent, tmp_path / "run")
    log = open_log(path)
    text = path.read_text()
    below = [one.read_text() for one in sorted(path.with_suffix("").glob("subagents/*.jsonl"))]
    assert sorted(lines_of(log)) == sorted("".join([text, *below]).splitlines())
    assert log.faults == ()  # of a newer version the unknown lines stand here
    calls = log.requests()
    assert calls["failed"].tolist()[:2] == [False, True]
    assert (calls["latency"].dropna() >= 0).all()
    assert "chat" in set(log.df["kind"])
    assert log.diagnose("warn").counts == {}
    if agent == "claude":
        [name] = [name for name in log.participants()["participant"] if name.startswith("general-purpose-")]
        assert log.filter(f'from == "{name}"').df["kind"].tolist()[0] == "chat"
    pick = random.Random(agent)
    for how in range(DAMAGED):
        other = tmp_path / f"{how}.jsonl"
        data = damaged(text.splitlines(), pick, how)
        other.write_text(data)
        broken = open_log(other)
        assert lines_of(broken) == data[: data.rfind("\n") + 1].splitlines()
        assert broken.faults or how % 4 == 2
