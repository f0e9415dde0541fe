"""Our own gateway with a port, for the roles of the suite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mew_lab.conformance.profile import ROLES, SECOND_ROLES, Profile, fresh, write_profile
from mew_lab.conformance.suite import FAILED, NOT_OFFERED, Result, play
from mew_lab.gateway.config import ParticipantConfig, SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.limits import Limits
from mew_lab.gateway.server import Server


class Ours:
    """A gateway that runs the spaces of a profile, and the suite played against it."""

    def __init__(self, *, second: bool) -> None:
        self.profile = fresh(second=second)
        self.gateway = Gateway()
        self._enrol(self.profile, ROLES)
        if self.profile.second:
            self._enrol(self.profile.second, SECOND_ROLES)
        self.server = Server(self.gateway, limits=Limits(refusal_delay=0.0))

    def _enrol(self, profile: Profile, roles: Any) -> None:
        participants = {
            role: ParticipantConfig(capabilities=[dict(one) for one in capabilities])
            for role, capabilities in roles.items()
        }
        self.gateway.add_space(SpaceConfig(name=profile.space, participants=participants))
        for role, token in profile.tokens.items():
            self.gateway.tokens.add(profile.space, role, token)

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.server.port}"

    def tokens_file(self, folder: Path) -> Path:
        path = folder / "tokens.json"
        write_profile(path, self.profile)
        return path

    async def play(self, *only: str, **how: Any) -> dict[str, Result]:
        """The results by row."""
        results = await play(self.url, tokens=self.profile, only=only, **how)
        return {one.id: one for one in results}

    async def failed(self, *only: str) -> set[str]:
        """The rows that are not kept, those that say MAY among them."""
        return {id for id, one in (await self.play(*only)).items() if one.result in (FAILED, NOT_OFFERED)}


Serve = Callable[..., Awaitable[Ours]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts our gateway; with a second space unless told otherwise."""
    running: list[Ours] = []

    async def started(*, second: bool = True) -> Ours:
        ours = Ours(second=second)
        await ours.server.start()
        running.append(ours)
        return ours

    async with asyncio.timeout(200):
        yield started
        for ours in running:
            await ours.server.stop()
