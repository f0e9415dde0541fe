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

from ..room import Room
from ..waiting import alive, until

if TYPE_CHECKING:
    from .desk import Desk

__all__ = ["Site", "alive", "until"]

ODD = Path(__file__).parent / "odd_server.py"


def files(folder: Path) -> list[Path]:
    """The files below a folder, but for those that a store locks."""
    return [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]


class Site(Room):
    """A gateway with a space `demo`, a human in it, and whatever is bridged."""

    def __init__(self) -> None:
        super().__init__()
        self.bridges: list[McpBridge] = []
        self.ended: list[str] = []

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

    async def close(self) -> None:
        for bridge in self.bridges:
            await bridge.stop()
        await super().close()

    async def odd(self, mode: str = "good", *more: str, **options: Any) -> McpBridge:
        return await self.bridge(["python", str(ODD), mode, *more], **options)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    yield made
    await made.close()


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
