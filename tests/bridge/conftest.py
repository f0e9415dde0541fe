"""A space of this process, bridges in it, and a small repository to ask about."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mew_lab.bridge import process
from mew_lab.bridge.mcp import McpBridge
from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.local import attach
from mew_lab.protocol.permit import PROFILES
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.transport.link import Link

if TYPE_CHECKING:
    from .desk import Desk

ODD = Path(__file__).parent / "odd_server.py"


async def until(holds: Callable[[], Any]) -> None:
    """Returns when `holds()` does; fails after twenty seconds."""
    for _ in range(4000):
        if holds():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("never happened")


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def files(folder: Path) -> list[Path]:
    """The files below a folder, but for those that a store locks."""
    return [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]


class Site:
    """A gateway with a space `demo`, a human in it, and whatever is bridged."""

    def __init__(self) -> None:
        self.gateway = Gateway()
        self.gateway.add_space(SpaceConfig(name="demo"))
        self.bridges: list[McpBridge] = []
        self.seated: list[MEWParticipant] = []
        self.ended: list[str] = []

    def client(self, name: str, can: str | Sequence[Any]) -> MEWClient:
        self.gateway.enrol("demo", name, PROFILES[can] if isinstance(can, str) else can)

        async def link() -> Link:
            return attach(self.gateway, "demo", name)

        return MEWClient(space="demo", connect_link=link)

    async def seat(self, name: str, can: str | Sequence[Any] = "human", **options: Any) -> MEWParticipant:
        """Seats a participant; `options` are those of `MEWParticipant`, such as `tools`."""
        participant = MEWParticipant(self.client(name, can), **options)
        self.seated.append(participant)
        await participant.start()
        return participant

    async def bridge(
        self,
        command: Sequence[str] | str,
        *,
        name: str = "git",
        can: str | Sequence[Any] = "tool",
        **options: Any,
    ) -> McpBridge:
        made = McpBridge(name, command, on_end=self.ended.append, **options)
        self.bridges.append(made)
        await made.start(self.client(name, can))
        return made

    async def odd(self, mode: str = "good", *more: str, **options: Any) -> McpBridge:
        return await self.bridge(["python", str(ODD), mode, *more], **options)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    yield made
    for bridge in made.bridges:
        await bridge.stop()
    for participant in made.seated:
        await participant.stop()
    made.gateway.close()


@pytest.fixture
async def desk(site: Site) -> Desk:
    """A human, and a calculator whose calls are counted."""
    from .desk import Desk  # loads the gate, which most tests do without

    made = Desk(site)
    made.human = await site.seat("human")
    await made.seat()
    return made


@pytest.fixture(params=["legacy", "auto"])
def mode(request: pytest.FixtureRequest) -> str:
    """The era of a client: with a handshake, or the latest revision."""
    return str(request.param)


@pytest.fixture
async def leap(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[[float], None]]:
    """Moves the clock of the loop; every timer that is then due runs."""
    loop = asyncio.get_running_loop()
    real, ahead = loop.time, 0.0

    def leap(seconds: float) -> None:
        nonlocal ahead
        ahead += seconds

    monkeypatch.setattr(loop, "time", lambda: real() + ahead)
    yield leap
    monkeypatch.undo()


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that does not end when it is asked is ended sooner."""
    monkeypatch.setattr(process, "GRACE", 0.2)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with one commit."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "readme.txt").write_text("hello\n")
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        **{f"GIT_{who}_{what}": "Ann <a@b>" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "The first of them"]):
        subprocess.run(["git", *words], cwd=folder, env=env, check=True, stdin=subprocess.DEVNULL)
    return folder
