"""Promised: no holder of a token fills the disk, neither by what is refused nor by what is accepted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from attempts import SCRATCH, Raw, reached, verdict

COMMAND = [str(Path(sys.executable).with_name("mew-lab")), "serve"]
SECONDS = 4.0
MIB = 1 << 20


def served(*words: str) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url = process.stdout.readline().split(" at ")[1].strip()
    for _ in range(4):
        process.stdout.readline()
    return process, url


async def flood(url: str, kind: str) -> tuple[int, int, set[str], bool]:
    """Sends messages of a megabyte for some seconds: how many, how much the journal grew, and whether another may
    still speak."""
    tokens = {
        name: (SCRATCH / f".mew/tokens/demo/{name}.token").read_text().strip() for name in ("eve", "bob")
    }
    eve, bob = await Raw(url, "demo", tokens["eve"]).open(), await Raw(url, "demo", tokens["bob"]).open()
    raw = json.dumps({"kind": kind, "payload": {"text": "a" * 1_000_000}})
    errors: set[str] = set()
    echoes: list[str] = []

    async def listen(one: Raw, mine: bool) -> None:
        with contextlib.suppress(Exception):
            async for text in one.ws:
                message = json.loads(text)
                if message["kind"] == "system/error" and mine:
                    errors.add(message["payload"]["error"])
                elif not mine and message.get("from") == "bob":
                    echoes.append(message["id"])

    listening = [asyncio.create_task(listen(eve, True)), asyncio.create_task(listen(bob, False))]
    begun, sent = time.perf_counter(), 0
    with contextlib.suppress(Exception):
        while time.perf_counter() - begun < SECONDS:
            await eve.ws.send(raw)
            sent += 1
    with contextlib.suppress(Exception):
        await bob.ws.send('{"id":"b-1","kind":"chat","payload":{"text":"still here"}}')
    end = time.monotonic() + 10
    while not echoes and time.monotonic() < end:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    for task in listening:
        task.cancel()
    size = sum(file.stat().st_size for file in (SCRATCH / ".mew/demo").iterdir())
    return sent, size, errors, bool(echoes)


def attempt(title: str, profile: str, kind: str, most: int) -> None:
    process, url = served("--space", "demo", "--enrol", f"eve={profile}", "--enrol", "bob=proposer")
    try:
        sent, size, errors, heard = asyncio.run(flood(url, kind))
        reached("more was sent than a bounded piece", sent * 1_000_000 > 21 * MIB)
        told = f"{sent} sent, journal {size / MIB:.1f} MiB, errors {sorted(errors)}"
        verdict(title, size < most, told)
        verdict("and the others may still speak", heard)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)
        shutil.rmtree(SCRATCH / ".mew")


attempt("what is refused costs the journal a bounded piece", "observer", "chat", 20 * MIB)
# Accepted ones: at once 64 MiB, then two a second; each stands there as it came and as it was completed.
attempt(
    "what is accepted costs the journal no more than a share",
    "proposer",
    "chat",
    int((64 + 2 * 10 + 8) * MIB),
)
