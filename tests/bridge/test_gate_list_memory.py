"""A gate whose token was served before: its first list waits for nobody, and says nothing that is not checked."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, MCPError

from mew_lab.bridge import announcements, gate, list_memory
from mew_lab.bridge.list_memory import ListMemory
from mew_lab.protocol.token import Token
from mew_lab.sdk.participant import MEWParticipant

from .conftest import Site, until
from .desk import PROPOSER, text

OWN = {"proposal_result", "proposal_withdraw"}
TOKEN = Token("a-token-of-thirty-two-characters-0")
CHANGED = "notifications/tools/list_changed"
RIGHT = [*PROPOSER, {"kind": "mcp/request", "payload": {"method": "tools/call"}}]


class Peer:
    """Lists `tools`, once `is_ready`; answers a call with its name and arguments."""

    def __init__(self, *tools: str) -> None:
        self.tools = list(tools)
        self.description = "a tool"
        self.is_ready = asyncio.Event()
        self.is_ready.set()
        self.asked = 0
        self.called: list[str] = []

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        if method == "tools/call":
            self.called.append(params["name"])
            return {"content": [{"type": "text", "text": params["name"]}]}
        self.asked += 1
        await self.is_ready.wait()
        schema = {"type": "object"}
        return {
            "tools": [
                {"name": name, "description": self.description, "inputSchema": schema} for name in self.tools
            ]
        }


class Space:
    """A space with peers, and gates of one token in it, one after the other."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site = site
        self.folder = folder
        self.told: list[str] = []
        self._count = 0

    async def seat(self, name: str, peer: Peer) -> MEWParticipant:
        return await self.site.seat(name, "tool", tools=peer)  # type: ignore[arg-type]

    def memory(self, token: Token = TOKEN) -> ListMemory:
        return ListMemory(lambda: self.folder, space="demo", token=token)

    def gate(self, can: Any = RIGHT, **how: Any) -> gate.McpGate:
        self._count += 1
        client = self.site.client(f"coder{self._count}", can)
        return gate.McpGate(MEWParticipant(client), lists=self.memory(**how))

    def client(self, made: gate.McpGate) -> Client:
        async def note(message: Any) -> None:
            self.told.append(message.method)

        self.told.clear()
        return Client(made.server, mode="legacy", message_handler=note)

    async def serve_once(self) -> None:
        """A gate that has read the lists, and has ended."""
        async with self.gate() as made:
            await made.wait_for_first_list()

    def files(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*") if path.is_file())


@pytest.fixture
def space(site: Site, tmp_path: Path) -> Space:
    return Space(site, tmp_path / "state")


async def names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


async def test_the_first_list_of_a_known_token_waits_for_nobody_and_equal_lists_are_not_announced(
    space: Space,
) -> None:
    peers = [Peer("t") for _ in range(20)]
    for n, peer in enumerate(peers):
        await space.seat(f"p{n}", peer)
    await space.serve_once()
    for peer in peers:
        peer.is_ready.clear()
    begun = time.perf_counter()
    async with space.gate() as made, space.client(made) as client:
        assert await names(client) == OWN | {f"p{n}_t" for n in range(20)}
        assert time.perf_counter() - begun < gate.DISCOVER_WITHIN / 2
        for peer in peers:
            peer.is_ready.set()
        await until(lambda: not made.participant.discovery.get_undiscovered_participants())
        await made.participant.discovery.wait_for_pending_discoveries(5)
        await asyncio.sleep(0.1)  # an announcement would follow at once
        assert await names(client) == OWN | {f"p{n}_t" for n in range(20)}
        assert space.told == []


async def test_a_client_that_has_listed_nothing_yet_is_not_told_of_changes(space: Space) -> None:
    peer = Peer("a")
    await space.seat("one", peer)
    await space.serve_once()
    peer.tools = ["b"]
    async with space.gate() as made, space.client(made) as client:
        await made.participant.discovery.wait_for_first_answers(5)
        await space.seat("two", Peer("a"))
        await until(lambda: not made.participant.discovery.get_undiscovered_participants())
        await asyncio.sleep(0.1)  # an announcement would follow at once
        assert space.told == []
        assert await names(client) == OWN | {"one_b", "two_a"}
        await space.seat("three", Peer("a"))
        await until(lambda: CHANGED in space.told)
        assert await names(client) == OWN | {"one_b", "two_a", "three_a"}


async def test_one_that_never_answers_holds_up_no_first_list_of_a_known_token(space: Space) -> None:
    await space.seat("one", Peer("t"))
    silent = Peer("t")
    silent.is_ready.clear()
    await space.seat("silent", silent)
    await space.serve_once()
    begun = time.perf_counter()
    async with space.gate() as made:
        await until(lambda: made.participant.discovery.get_undiscovered_participants() == ["silent"])
        async with space.client(made) as client:
            assert await names(client) == OWN | {"one_t"}
            assert time.perf_counter() - begun < gate.DISCOVER_WITHIN / 2


async def test_slow_answers_are_announced_together_once(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcements, "ANNOUNCE_EVERY", 0)
    peers = {name: Peer("a") for name in ("one", "two", "three")}
    for name, peer in peers.items():
        await space.seat(name, peer)
    await space.serve_once()
    for peer in peers.values():
        peer.tools = ["z"]
        peer.is_ready.clear()
    async with space.gate() as made, space.client(made) as client:
        assert await names(client) == OWN | {f"{name}_a" for name in peers}
        discovery = made.participant.discovery
        for name, peer in peers.items():
            peer.is_ready.set()
            await until(lambda name=name: name in discovery.get_whole_lists())
        await until(lambda: CHANGED in space.told)
        assert await names(client) == OWN | {f"{name}_z" for name in peers}
        assert space.told.count(CHANGED) == 1


async def test_a_remembered_tool_is_called_only_as_its_participant_lists_it_now(space: Space) -> None:
    peer = Peer("old", "kept")
    await space.seat("one", peer)
    await space.serve_once()
    peer.tools = ["kept"]
    peer.is_ready.clear()
    async with space.gate() as made, space.client(made) as client:
        assert await names(client) == OWN | {"one_old", "one_kept"}
        calls = [asyncio.create_task(client.call_tool(name, {})) for name in ("one_old", "one_kept")]
        await until(lambda: peer.asked >= 2)
        await asyncio.sleep(0.05)
        assert peer.called == []  # it has not listed them yet
        peer.is_ready.set()
        with pytest.raises(MCPError, match=r"one/old is not offered any more, so one_old was not called"):
            await calls[0]
        assert text(await calls[1]) == "kept"
    assert peer.called == ["kept"]


async def test_a_participant_that_lists_nothing_any_more_is_not_called_and_not_offered_for_long(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = Peer("t")
    await space.seat("one", peer)
    await space.serve_once()
    peer.is_ready.clear()
    monkeypatch.setattr(gate, "DISCOVER_WITHIN", 0.1)
    monkeypatch.setattr(gate, "AT_ONCE", gate.AT_ONCE._replace(timeout=0.5))
    async with space.gate() as made, space.client(made) as client:
        assert await names(client) == OWN | {"one_t"}
        answer = await client.call_tool("one_t", {})
        assert answer.is_error and "known from an earlier list alone, and a new one did not come" in text(
            answer
        )
        await until(lambda: CHANGED in space.told)
        assert await names(client) == OWN
    assert peer.called == []


async def test_tools_of_one_that_is_not_there_or_may_not_be_called_are_not_offered(space: Space) -> None:
    gone = await space.seat("gone", Peer("t"))
    peer = Peer("t")
    await space.seat("one", peer)
    await space.serve_once()
    await gone.stop()
    peer.is_ready.clear()
    async with space.gate() as made, space.client(made) as client:
        assert await names(client) == OWN | {"one_t"}
    nothing = [pattern for pattern in PROPOSER if pattern["kind"] != "mcp/proposal"]
    async with space.gate(nothing) as made, space.client(made) as client:
        assert await names(client) == OWN


async def test_a_participant_that_was_away_is_remembered_all_the_same(space: Space) -> None:
    peer = Peer("t")
    away = await space.seat("away", peer)
    await space.serve_once()
    await away.stop()
    await space.serve_once()
    peer.is_ready.clear()
    await space.seat("away", peer)
    async with space.gate() as made, space.client(made) as client:
        assert await names(client) == OWN | {"away_t"}


async def test_the_file_is_its_users_alone_and_holds_no_token(space: Space) -> None:
    await space.seat("one", Peer("t"))
    await space.serve_once()
    [file] = space.files()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(space.folder.stat().st_mode) == stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    held = file.read_text() + str(file)
    assert TOKEN.reveal() not in held and json.loads(file.read_text())["one"][0]["name"] == "t"


async def test_another_token_has_lists_of_its_own(space: Space) -> None:
    peer = Peer("t")
    await space.seat("one", peer)
    await space.serve_once()
    peer.is_ready.clear()
    another = space.memory(Token("another-token-of-32-characters-00"))
    assert set(await space.memory().load()) == {"one"} and await another.load() == {}


async def test_lists_are_kept_when_they_change_not_only_at_the_end(space: Space) -> None:
    peer = Peer("t")
    one = await space.seat("one", peer)
    async with space.gate():
        await until(lambda: space.files())
        peer.tools.append("u")
        await one.notify(CHANGED)
        await until(lambda: '"u"' in space.files()[0].read_text())


async def test_a_gate_that_ends_with_its_process_keeps_its_lists_and_leaves(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    human = await space.site.seat("human")
    await space.seat("one", Peer("t"))
    async with space.gate() as made:
        await made.wait_for_first_list()
        name = made.participant.client.id

        async def start_no_thread(*work: Any) -> None:
            raise RuntimeError("cannot schedule new futures after shutdown")

        monkeypatch.setattr(asyncio, "to_thread", start_no_thread)
    monkeypatch.undo()
    assert set(await space.memory().load()) >= {"one"}
    await until(lambda: name not in human.client.participants)


DAMAGE = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [
            b"[" * 100_000,
            b'{"one":3}',
            b'{"one":[3,{"name":4},{"name":"a/b"},{"name":"x","inputSchema":7}]}',
            b'{"one":[{"name":"t","inputSchema":{"a":NaN}}]}',
            b'{"one":[{"name":"\\ud800"}]}',
            b'["one"]',
            b"x" * (9 * 1024 * 1024),
        ]
    ),
)


@given(DAMAGE)
def test_a_damaged_file_costs_the_memory_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, damage: bytes
) -> None:
    folder = tmp_path_factory.mktemp("state")

    async def check() -> None:
        def memory() -> ListMemory:
            return ListMemory(lambda: folder, space="demo", token=TOKEN)

        await memory().keep({"two": ({"name": "t", "inputSchema": {"type": "object"}},)})
        [file] = (path for path in folder.rglob("*") if path.is_file())
        file.write_bytes(damage)
        damaged = memory()
        for reading in (await damaged.load()).values():
            assert all(tool.name == "x" for tool in reading.tools)
        entry = {"name": "t", "inputSchema": {"type": "object"}}
        await damaged.keep({"one": (entry,)})
        assert [tool.name for tool in (await memory().load())["one"].tools] == ["t"]

    asyncio.run(check())


@pytest.mark.parametrize("what", ["link", "pipe", "folder", "no state", "state is a file"])
async def test_what_is_no_file_of_ones_own_is_neither_read_nor_written(
    space: Space, tmp_path: Path, what: str
) -> None:
    await space.seat("one", Peer("t"))
    await space.serve_once()
    [file] = space.files()
    text_before = file.read_text()
    file.unlink()
    other = tmp_path / "other"
    other.write_text(text_before)
    state: Path | None = space.folder
    if what == "link":
        file.symlink_to(other)
    elif what == "pipe":
        os.mkfifo(file)
    elif what == "folder":
        file.mkdir()
    else:
        state = None if what == "no state" else other
    memory = ListMemory(lambda: state, space="demo", token=TOKEN)
    assert await memory.load() == {}
    await memory.keep({"one": ({"name": "z"},)})
    assert other.read_text() == text_before


async def test_a_large_memory_keeps_the_newest_lists(tmp_path: Path) -> None:
    entries = [{"name": f"t{n}", "description": "x" * 10_000} for n in range(100)]  # 1 MB
    memory = ListMemory(lambda: tmp_path, space="demo", token=TOKEN)
    for n in range(12):
        await memory.keep({f"p{n}": entries})
    loaded = await ListMemory(lambda: tmp_path, space="demo", token=TOKEN).load()
    assert "p11" in loaded and "p0" not in loaded and all(len(one.tools) == 100 for one in loaded.values())


async def test_one_that_joins_under_many_names_fills_neither_file_nor_memory(tmp_path: Path) -> None:
    memory = ListMemory(lambda: tmp_path, space="demo", token=TOKEN)
    held: list[weakref.ref[Any]] = []
    for n in range(2 * list_memory.MAX_PARTICIPANTS):
        entries = Entries([{"name": "t"}])
        held.append(weakref.ref(entries))
        await memory.keep({f"p{n}": entries})
        del entries
    kept = await ListMemory(lambda: tmp_path, space="demo", token=TOKEN).load()
    assert len(kept) == list_memory.MAX_PARTICIPANTS
    # A thread may still hold what it wrote last.
    assert sum(one() is not None for one in held) < list_memory.MAX_PARTICIPANTS + 10


class Entries(list[Any]):
    """A list that can be referred to weakly."""


# --- what holds without a memory ---


async def test_the_handshake_waits_for_the_first_list_and_no_longer_than_its_limit(
    site: Site, space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer, silent = Peer("t"), Peer("t")
    silent.is_ready.clear()
    await space.seat("one", peer)
    peer.is_ready.clear()
    async with space.gate() as made:
        opened = asyncio.Event()

        async def list_once() -> set[str]:
            async with space.client(made) as client:
                opened.set()
                return await names(client)

        listing = asyncio.create_task(list_once())
        await until(lambda: peer.asked)
        await asyncio.sleep(0.1)
        assert not opened.is_set()
        peer.is_ready.set()
        assert await asyncio.wait_for(listing, gate.DISCOVER_WITHIN / 2) == OWN | {"one_t"}
    await space.seat("silent", silent)
    monkeypatch.setattr(gate, "DISCOVER_WITHIN", 0.3)
    async with gate.McpGate(site.prepare("other", RIGHT)) as made:
        begun = time.perf_counter()
        async with space.client(made) as client:
            assert await names(client) == OWN | {"one_t"}
            assert time.perf_counter() - begun < 2.0
            silent.is_ready.set()
            await until(lambda: CHANGED in space.told)
            assert await names(client) == OWN | {"one_t", "silent_t"}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_gate_that_may_not_list_says_so_to_its_client(site: Site, space: Space, mode: str) -> None:
    await space.seat("one", Peer("t"))
    async with space.gate("proposer") as made, Client(made.server, mode=mode) as client:
        assert "may not send tools/list in this space" in str(client.instructions)
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == OWN
        assert (
            "There are no other tools: coder1 may not send tools/list" in tools["proposal_result"].description
        )
    async with space.gate() as made, Client(made.server, mode=mode) as client:
        assert "may not send" not in str(client.instructions)
        assert "no other tools" not in str((await client.list_tools()).tools)
