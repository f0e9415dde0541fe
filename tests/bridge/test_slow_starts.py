"""A start that takes long is told of, with the server's own words, and a server that ends with its last ones."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from mew_lab.bridge.mcp import McpBridge
from mew_lab.bridge.process import may_fetch, start_seconds
from mew_lab.errors import MewError

from .conftest import Site, until

SLOW = Path(__file__).parent / "slow_server.py"
CANARY = "canary-5ecret-0123456789"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mew_lab.bridge.process.TELL_AFTER", 0.1)
    monkeypatch.setattr("mew_lab.bridge.process.QUIET", 0.1)


def command(go: Path, lines: int, *more: str) -> list[str]:
    return [sys.executable, str(SLOW), str(go), str(lines), *more]


async def start(site: Site, words: list[str], told: list[str]) -> asyncio.Task[McpBridge]:
    work = site.bridge(words, env={"API_KEY": CANARY}, on_start=told.append)
    return asyncio.get_running_loop().create_task(work)


@pytest.mark.threat(28)
async def test_a_long_start_shows_what_the_server_says_and_that_it_goes_on(
    site: Site, tmp_path: Path
) -> None:
    told: list[str] = []
    starting = await start(site, command(tmp_path / "go", 3), told)
    await until(lambda: sum("has been starting for" in line for line in told) >= 2)
    await until(lambda: any("part 2" in line for line in told))
    said = [line for line in told if "has been starting for" not in line]
    assert [line.split(" with ")[0] for line in said] == [f"git: fetching part {n}" for n in range(3)]
    waited = next(line for line in told if "has been starting for" in line)
    assert "of 30 s at most" in waited and "download" not in waited
    assert not any(CANARY in line for line in told)
    (tmp_path / "go").touch()
    await starting
    await until(lambda: not any("tell_start" in repr(task.get_coro()) for task in asyncio.all_tasks()))


async def test_a_start_that_says_too_much_is_told_of_in_a_hundred_lines(site: Site, tmp_path: Path) -> None:
    told: list[str] = []
    starting = await start(site, command(tmp_path / "go", 5000), told)
    await until(lambda: any("part 4999" in line for line in told))
    (tmp_path / "go").touch()
    await starting
    assert len(told) <= 101


async def test_a_quick_start_is_silent(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mew_lab.bridge.process.TELL_AFTER", 60.0)
    told: list[str] = []
    (tmp_path / "go").touch()
    await (await start(site, command(tmp_path / "go", 3), told))
    assert told == []


@pytest.mark.threat(28)
async def test_a_server_that_ends_is_told_with_its_last_lines_without_its_stack(
    site: Site, tmp_path: Path
) -> None:
    (tmp_path / "go").touch()
    with pytest.raises(MewError) as caught:
        await (await start(site, command(tmp_path / "go", 2, "end"), []))
    text = str(caught.value)
    assert "ended (exit 5); its last lines: fetching part 0 with" in text
    assert text.endswith("| Error: no such region | Node.js v20") and "server.js:1" not in text
    assert CANARY not in text


async def test_a_server_that_never_answers_is_told_with_what_it_said(site: Site, tmp_path: Path) -> None:
    with pytest.raises(
        MewError, match=r"did not answer `initialize` within 0\.5 s.*Its last lines: fetching part 0"
    ):
        await site.bridge(command(tmp_path / "never", 1), start_timeout=0.5)


@pytest.mark.parametrize(
    "words",
    [
        ["npx", "-y", "x"],
        ["/usr/bin/uvx", "x"],
        ["cmd", "/c", "npx.cmd", "x"],
        ["docker", "run", "x"],
        [r"C:\n\npx.exe", "x"],
    ],
)
def test_a_command_that_downloads_its_server_may_take_minutes(words: list[str]) -> None:
    assert may_fetch(words) and start_seconds(words) == 300


def test_other_commands_may_take_half_a_minute() -> None:
    assert start_seconds(["node", "server.js", "--with", "npx"]) == start_seconds([]) == 30


def test_a_secret_of_a_command_is_in_no_text_of_its_bridge() -> None:
    bridge = McpBridge("git", ["run", "--api-key", CANARY, f"--db=postgres://ada:{CANARY}@h/"])
    assert CANARY not in f"{bridge!r}{bridge.command_line}" and "--api-key" in bridge.command_line
