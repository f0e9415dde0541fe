"""A space that is served until it is told to stop."""

from __future__ import annotations

import asyncio
import shlex
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mew_lab.errors import ConfigError, MewError
from mew_lab.gateway.auth import read_token_file
from mew_lab.log.reading import read_journal
from mew_lab.sdk.client import MEWClient
from mew_lab.workbench.serve import serve


@asynccontextmanager
async def served(folder: Path, **changes: Any) -> AsyncIterator[list[str]]:
    """What a space that is served has printed; it is down afterwards."""
    said: list[str] = []
    ended, told = asyncio.Event(), asyncio.Event()

    def say(text: str) -> None:
        said.append(text)
        if text.startswith("bot: "):
            told.set()

    given: dict[str, Any] = {
        "owner": "human",
        "enrolled": [("bot", "proposer")],
        "folder": folder,
        "journal": None,
        "host": "127.0.0.1",
        "port": 0,
    } | changes
    running = asyncio.create_task(serve("demo", say=say, ended=ended, **given))
    telling = asyncio.create_task(told.wait())
    try:
        await asyncio.wait({running, telling}, return_when=asyncio.FIRST_COMPLETED, timeout=20)
        if running.done():
            running.result()
        yield said
    finally:
        telling.cancel()
        ended.set()
        await running


def token_file(line: str) -> Path:
    words = shlex.split(line)
    return Path(words[words.index("--token-file") + 1])


async def test_each_participant_gets_a_line_that_joins_as_it(tmp_path: Path) -> None:
    async with served(tmp_path) as said:
        url = said[0].removeprefix("space demo at ")
        for line, name, kind in ((said[2], "human", "mcp/request"), (said[3], "bot", "mcp/proposal")):
            assert line.startswith(f"{name}: mew-lab join {url} --space demo --token-file ")
            client = MEWClient(url, space="demo", token=read_token_file(token_file(line)))
            await client.connect()
            assert client.id == name
            assert client.capabilities.permit(kind, to=("x",), payload={"method": "tools/call"}).allowed
            await client.disconnect()
    assert said[-1].startswith("space demo is down; the journal stays in ")


@pytest.mark.threat(1)
@pytest.mark.trap("T-23")
async def test_no_token_is_printed_or_journaled(tmp_path: Path) -> None:
    async with served(tmp_path) as said:
        secrets = [read_token_file(token_file(line)).reveal() for line in said[2:4]]
    (journal,) = (tmp_path / ".mew" / "demo").glob("*.jsonl")
    assert all(len(secret) > 20 for secret in secrets)
    text = "\n".join(said) + journal.read_text()
    assert not any(secret in text for secret in secrets)
    assert [record.event for record in read_journal(journal)].count("enrolled") == 2


async def test_the_port_is_free_again(tmp_path: Path) -> None:
    async with served(tmp_path) as said:
        port = int(said[0].split(":")[-1].split("/")[0])
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


async def test_a_port_in_use_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(MewError, match=f"{port}"):
            async with served(tmp_path, port=port):
                pass


async def test_a_profile_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no profile 'emperor'"):
        async with served(tmp_path, enrolled=[("bot", "emperor")]):
            pass
