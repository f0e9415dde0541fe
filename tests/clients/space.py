"""A space of `mew-lab serve`: a participant with tools that counts what it executed, and a person who decides by a rule."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.results import ToolResult

from ..waiting import until

PROGRAM = Path(sys.executable).parent / "mew-lab"
REASON = "the beans are still growing"
PENDING_AFTER = 5  # seconds after which the gate answers a call that waits
DECIDED_AFTER = 8.5  # seconds after which the person approves `wait`
LARGE = 1_500_000  # characters of a report: more than a message of the space takes
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR42mNQmGCAFTEMLQkA3gM4AXTAU8oAAAAASUVORK5CYII="
)


def environment(home: Path, **more: str) -> dict[str, str]:
    """What a program of a user with this home folder has; it reaches the loopback and nothing else."""
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
    local = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", **nowhere, **local, **more}


class Space:
    """A space that runs; `executed` and `approved` hold the ids of what they say, in order."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.url = ""
        self.executed: list[str] = []
        self.approved: list[str] = []
        self._stack = stack
        self._seen: set[str] = set()

    def token(self, name: str) -> Path:
        return self.folder / ".mew" / "tokens" / "garden" / f"{name}.token"

    async def join(self, name: str) -> MEWParticipant:
        client = MEWClient(self.url, space="garden", token=self.token(name).read_text().strip())
        return MEWParticipant(client, state=lambda: self.home)

    async def enter(self, participant: MEWParticipant) -> None:
        await participant.start()
        self._stack.push_async_callback(participant.stop)

    async def settings(self, client: str, *more: str, name: str = "coder") -> str:
        """What `mew-lab mcp --config` prints for this client."""
        words = ["mcp", self.url, "--space", "garden", "--as", name, "--token-file", str(self.token(name))]
        run = await asyncio.create_subprocess_exec(
            PROGRAM, *words, "--config", client, *more,
            env=environment(self.home), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        out, fault = await run.communicate()
        assert run.returncode == 0, fault.decode()
        return out.decode()

    async def plant(self) -> None:
        """Seats `world` with its six tools."""
        world = await self.join("world")

        def done(what: str) -> str:
            self.executed.append(what)
            return what

        def water(bed: str) -> str:
            return f"watered {done(f'water {bed}')[6:]}, as you asked"

        def cut(bed: str) -> str:
            return done(f"cut {bed}")

        def fail() -> str:
            done("fail")
            raise ValueError("the beans are gone")

        def picture() -> ToolResult:
            done("picture")
            return ToolResult.of((PNG, "image/png"))

        def report() -> str:
            return (f"{done('report')} of the garden\n" + LARGE // 9 * "All beds are wet.\n")[:LARGE]

        def wait(bed: str) -> str:
            return f"waited for {done(f'wait {bed}')[5:]}"

        for tool in (water, cut, fail, picture, report, wait):
            world.register_tool(tool)
        await self.enter(world)

    async def decide(self) -> None:
        """Seats the person: `cut` is rejected, `wait` approved late, all else at once."""
        human = await self.join("human")
        await self.enter(human)
        task = asyncio.create_task(self._decide(human))

        async def end() -> None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

        self._stack.push_async_callback(end)

    async def _decide(self, human: MEWParticipant) -> None:
        loop = asyncio.get_running_loop()
        late: dict[str, float] = {}
        while True:
            for proposal in human.proposals.open():
                call = proposal.envelope.payload["params"]
                due = late.setdefault(
                    proposal.id, loop.time() + (DECIDED_AFTER if call["name"] == "wait" else 0)
                )
                if (
                    proposal.decided
                    or proposal.state != "open"
                    or proposal.id in self._seen
                    or loop.time() < due
                ):
                    continue
                self._seen.add(proposal.id)
                if call["name"] == "cut":
                    await human.reject(proposal.id, REASON)
                else:
                    self.approved.append(" ".join([call["name"], *call.get("arguments", {}).values()]))
                    await human.approve(proposal.id)
            await asyncio.sleep(0.02)


@asynccontextmanager
async def serve(folder: Path, enrolled: Mapping[str, str], *more: str) -> AsyncIterator[Space]:
    """Runs `mew-lab serve` in this folder, with these participants beside the person; all leave at the end."""
    (folder / "home").mkdir(parents=True)
    options = [word for name, profile in enrolled.items() for word in ("--enrol", f"{name}={profile}")]
    output = folder / "serve.txt"
    with output.open("w") as file:
        process = await asyncio.create_subprocess_exec(
            PROGRAM, "serve", "--space", "garden", *options, *more,
            cwd=folder, env=environment(folder / "home"), stdin=subprocess.DEVNULL, stdout=file, stderr=file,
        )  # fmt: skip
    try:
        async with AsyncExitStack() as stack:
            space = Space(folder, stack)
            last = list(enrolled)[-1]
            await until(
                lambda: f"\n{last}: " in output.read_text() or process.returncode is not None,
                what=f"{last} is enrolled",
            )
            assert process.returncode is None, output.read_text()
            await until(space.token(last).exists)
            space.url = output.read_text().split(" at ")[1].split()[0]
            yield space
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        await asyncio.wait_for(process.wait(), 30)
