"""A space that is served until it is told to stop."""

from __future__ import annotations

import asyncio
import json
import shlex
import socket
import sys
import urllib.error
import urllib.request
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import websockets

from mew_lab.cli import main
from mew_lab.cli.serve import Service, serve, serve_again, serve_files
from mew_lab.errors import ConfigError, MewError
from mew_lab.gateway.auth import read_token_file
from mew_lab.gateway.space_file import read_space_file
from mew_lab.log.reading import read_journal
from mew_lab.protocol.token import Token
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.tools import ToolBox


@asynccontextmanager
async def served(folder: Path, **changes: Any) -> AsyncIterator[list[str]]:
    """What a space that is served has printed; it is down afterwards."""
    said: list[str] = []
    ended, told = asyncio.Event(), asyncio.Event()

    def say(text: str) -> None:
        said.append(text)
        if text.startswith("bot: "):
            told.set()

    service = Service("127.0.0.1", 0, say, ended, [("bot", "proposer")])._replace(**changes)
    running = asyncio.create_task(serve("demo", service, owner="human", folder=folder))
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


@pytest.mark.parametrize("how", ["new", "files", "again"])
async def test_all_token_files_exist_when_the_first_line_is_printed(tmp_path: Path, how: str) -> None:
    """A program that reads the address and then a token file finds it."""
    names = [f"p{n}" for n in range(20)]
    enrolled = [(name, "tool") for name in names]
    before: list[bool] = []
    ended = asyncio.Event()

    def say(text: str) -> None:
        if text.startswith("space "):
            before.append(all(any(tmp_path.rglob(f"{name}.token")) for name in names))
            ended.set()

    given: dict[str, Any] = {"host": "127.0.0.1", "port": 0, "say": say, "ended": ended, "enrolled": enrolled}
    async with asyncio.timeout(30):
        if how == "files":
            await serve_files([read_space_file(space_yaml(tmp_path, "red"))], Service(**given))
        elif how == "new":
            await serve("demo", Service(**given), owner="human", folder=tmp_path)
        else:
            journal = tmp_path / "journal.jsonl"
            first = Service(**{**given, "enrolled": [], "journal": journal})
            await serve("demo", first, owner="human", folder=tmp_path)
            before.clear()
            ended.clear()
            await serve_again(journal, Service(**given))
    assert before[0]


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
    with pytest.raises(ConfigError, match="There is no profile 'emperor'"):
        async with served(tmp_path, enrolled=[("bot", "emperor")]):
            pass


# --- several spaces on one port ----------------------------------------------------------------------------------

SHARED = "one-token-of-one-person-that-is-in-both-spaces"
CANARY = {"red": "said-in-red-alone", "blue": "said-in-blue-alone"}


def space_yaml(folder: Path, name: str, **more: Any) -> Path:
    """A space with a human whose token is good in every such space, and with a bot of its own."""
    participants = {
        "human": {"tokens": [SHARED], "capabilities": [{"kind": "*"}], "output_log": f"{name}-human.log"},
        f"{name}-bot": {"capabilities": [{"kind": "chat"}]},
    }
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps({"space": {"id": name, **more}, "participants": participants}))
    path.chmod(0o600)
    return path


@asynccontextmanager
async def both(*paths: Path, **changes: Any) -> AsyncIterator[list[str]]:
    """What is told while the spaces of the files are served on one port."""
    said: list[str] = []
    ended, told = asyncio.Event(), asyncio.Event()

    def say(text: str) -> None:
        said.append(text)
        if text.startswith(f"{paths[-1].stem}-bot: "):
            told.set()

    service = Service("127.0.0.1", 0, say, ended, **changes)
    running = asyncio.create_task(serve_files([read_space_file(path) for path in paths], service))
    telling = asyncio.create_task(told.wait())
    try:
        await asyncio.wait({running, telling}, return_when=asyncio.FIRST_COMPLETED, timeout=20)
        if running.done():
            running.result()
        yield said
    finally:
        telling.cancel()
        ended.set()
        if not running.done():
            await running


def http(url: str, path: str, token: str, body: Any = None) -> tuple[int, Any]:
    """One request to the port of `url`."""
    request = urllib.request.Request(
        f"http{url.removeprefix('ws').removesuffix('/ws')}{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read())


@pytest.mark.req("P-3.6-1", "P-3.6-2", "P-3.6-3", "P-2.2-3")
@pytest.mark.parametrize("apart", [True, False], ids=["two folders", "one folder"])
async def test_two_spaces_are_served_on_one_port_and_nothing_crosses(tmp_path: Path, apart: bool) -> None:
    folders = {name: tmp_path / name if apart else tmp_path for name in CANARY}
    paths = [space_yaml(folders[name], name) for name in CANARY]
    heard: dict[str, list[str]] = {name: [] for name in CANARY}
    clients = {}
    whole = asyncio.Event()

    def listener(name: str) -> Callable[[Any], None]:
        def listen(envelope: Any) -> None:
            heard[name].append(envelope.raw)
            if all(sum(CANARY[one] in raw for raw in heard[one]) >= 2 for one in CANARY):
                whole.set()

        return listen

    async with both(*paths) as said:
        urls = {line.split()[1]: line.split()[3] for line in said if line.startswith("space ")}
        assert set(urls) == set(CANARY) and len(set(urls.values())) == 1
        url = urls["red"]
        journals = {name: Path(said[said.index(f"space {name} at {url}") + 1].split()[1]) for name in CANARY}
        for name in CANARY:
            client = clients[name] = MEWClient(url, space=name, token=Token(SHARED))
            client.on_message(listener(name))
            await client.connect()
            assert await roster(url, name) == {"human", f"{name}-bot"}
        for name, client in clients.items():
            await client.send({"kind": "chat", "payload": {"text": CANARY[name]}})
            status, _ = await asyncio.to_thread(
                http, url, f"/participants/human/messages?space={name}", SHARED,
                {"kind": "chat", "payload": {"text": f"posted: {CANARY[name]}"}},
            )  # fmt: skip
            assert status == 200
        async with asyncio.timeout(10):
            await whole.wait()
        status, history = await asyncio.to_thread(
            http, url, "/participants/human/messages?space=blue", SHARED
        )
        assert status == 200 and CANARY["blue"] in str(history) and CANARY["red"] not in str(history)
        status, health = await asyncio.to_thread(http, url, "/health", SHARED)
        assert (status, health["spaces"], health["clients"]) == (200, 2, 2)
        for client in clients.values():
            await client.disconnect()
    assert [line for line in said if " is down; " in line] == [
        f"space {name} is down; the journal stays in {journals[name]}" for name in CANARY
    ]
    for name, other in (("red", "blue"), ("blue", "red")):
        assert not [one for one in heard[name] if CANARY[other] in one]
        assert {record.space for record in read_journal(journals[name])} == {name}
        assert CANARY[other] not in journals[name].read_text()
    kept = [path for path in files_below(tmp_path) if path.suffix in (".log", ".jsonl")]
    assert len(kept) >= 6  # journals, logs in the peers' format, output_logs
    begins = {record.raw[:60].split('"gw-')[1][:16] for record in _said_by_gateways(journals)}
    assert len(begins) == 2  # each space has an epoch of its own
    for path in kept:
        text = path.read_text()
        assert not all(one in text for one in CANARY.values()), f"{path} holds words of both spaces"


def _said_by_gateways(journals: dict[str, Path]) -> list[Any]:
    return [
        next(one for one in read_journal(path) if one.raw and '"id":"gw-' in one.raw[:60])
        for path in journals.values()
    ]


async def roster(url: str, space: str) -> set[str]:
    """The ids of who is enrolled."""
    _, found = await asyncio.to_thread(http, url, f"/participants?space={space}", SHARED)
    return {one["id"] for one in found["participants"]}


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.req("P-5.2-1")
async def test_the_space_of_the_address_decides_where_one_token_of_two_spaces_leads(tmp_path: Path) -> None:
    paths = [space_yaml(tmp_path / name, name) for name in CANARY]
    async with both(*paths) as said:
        url = said[[line.startswith("space ") for line in said].index(True)].split()[-1]
        for name in CANARY:
            async with websockets.connect(
                f"{url}?space={name}", additional_headers={"Authorization": f"Bearer {SHARED}"}
            ) as socket_:
                welcome = json.loads(await asyncio.wait_for(socket_.recv(), 10))
            assert welcome["kind"] == "system/welcome"
            assert await roster(url, name) == {"human", f"{name}-bot"}
            joined = [one for one in read_journal(journal_of(said, name)) if one.event == "joined"]
            assert len(joined) == 1  # the other space saw nothing of it
        for query in ("", "?space=green", "?space=", "?space=red&space=blue"):
            refused = query != "?space=red&space=blue"
            try:
                async with asyncio.timeout(10):
                    async with websockets.connect(
                        f"{url}{query}", additional_headers={"Authorization": f"Bearer {SHARED}"}
                    ):
                        assert not refused, query
            except websockets.InvalidStatus as no:
                assert refused and no.response.status_code == 401


def journal_of(said: list[str], name: str) -> Path:
    at = next(n for n, line in enumerate(said) if line.startswith(f"space {name} at "))
    return Path(said[at + 1].removeprefix("journal "))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": "red"}, "both describe a space 'red'"),
        ({"origins": ["http://localhost:8888"]}, "space.origins of .* differs"),
        ({"hosts": ["red.test"]}, "space.hosts of .* differs"),
        ({"journal": Path("j.jsonl")}, "--journal is for one space"),
        ({"enrolled": [("bot", "agent")]}, "--enrol is for one space"),
    ],
    ids=str,
)
async def test_what_cannot_stand_on_one_port_is_one_sentence_and_leaves_nothing(
    change: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    options = {key: value for key, value in change.items() if key in ("journal", "enrolled")}
    more = {key: value for key, value in change.items() if key in ("origins", "hosts")}
    first = space_yaml(tmp_path / "one", "red")
    second = space_yaml(tmp_path / "two", change.get("name", "blue"), **more)
    with pytest.raises(ConfigError, match=sentence):
        async with both(first, second, **options):
            pass
    assert {path.name for path in files_below(tmp_path)} == {"red.yaml", second.name}


async def test_two_spaces_do_not_write_into_one_output_log(tmp_path: Path) -> None:
    first, second = space_yaml(tmp_path, "red"), space_yaml(tmp_path, "blue")
    second.write_text(second.read_text().replace("blue-human.log", "red-human.log"))
    with pytest.raises(
        ConfigError, match=r"participants\.human\.output_log of .*blue\.yaml: the space 'red'"
    ):
        async with both(first, second):
            pass


@pytest.mark.ruling("R42")
async def test_a_call_that_a_person_approved_in_a_terminal_is_verified_with_its_reported_receipt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lines of the README: a space is served, a person joins it, a program proposes, a pipe has the lines `/approve`: a program."""
    async with served(tmp_path, enrolled=[("files", "tool"), ("bot", "proposer")]) as said:
        url = said[0].removeprefix("space demo at ")
        human, files, bot = (token_file(line) for line in said[2:5])
        tools = ToolBox()
        tools.add(lambda n: f"{n} files", name="count")
        command = ("join", url, "--space", "demo", "--token-file", str(human))
        terminal = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "mew_lab.cli", *command, stdin=PIPE, stdout=PIPE, stderr=STDOUT
        )
        assert terminal.stdin is not None and terminal.stdout is not None
        try:
            async with (
                MEWParticipant(gateway=url, space="demo", token=read_token_file(files), tools=tools),
                MEWParticipant(gateway=url, space="demo", token=read_token_file(bot)) as proposer,
                asyncio.timeout(60),
            ):
                while "You are human" not in (await terminal.stdout.readline()).decode():
                    pass
                call = proposer.propose("files/count", {"n": 3})
                while call.id not in (await terminal.stdout.readline()).decode():
                    pass
                terminal.stdin.write(f"/approve {call.id}\n/approve {call.id}\n/quit\n".encode())
                assert str(await call) == "3 files"
                await terminal.communicate()
        finally:
            if terminal.returncode is None:
                terminal.kill()
                await terminal.wait()
    (journal,) = (tmp_path / ".mew" / "demo").glob("*.jsonl")
    assert main(["verify", str(journal)]) == 0
    printed = capsys.readouterr().out
    assert "1 for proposals, with receipts that the deciders reported themselves:" in printed
    assert "1 by human: 1 by a script" in printed
