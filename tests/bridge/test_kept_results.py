"""Results that no message can hold: kept by their executor, sent to those who may read them, and never lost in silence."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.bridge.process import LONGEST, GrowingLine, LongLine
from mew_lab.errors import CapabilityViolation, MewError, OutcomeUnknown, ToolFailed
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.kept import ResultHead, ResultUri, reads_result
from mew_lab.protocol.permit import PROFILES
from mew_lab.sdk.kept_results import may_exceed
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.result_store import ResultLimits, ResultStore
from mew_lab.sdk.results import ToolResult
from mew_lab.sdk.tools import ToolBox

from .conftest import Site, files, until
from .heavy_server import SHAPES
from .heavy_server import shape as written

pytestmark = pytest.mark.ruling("R43")
HEAVY = Path(__file__).parent / "heavy_server.py"
MIB = 1 << 20


def text(size: int) -> dict[str, Any]:
    """The arguments of a call whose result has about so many bytes."""
    return {"size": size}


async def whole(reader: MEWParticipant, result: Any) -> dict[str, Any]:
    head = ResultHead.of(result.raw)
    assert head is not None, result
    async with asyncio.timeout(120):
        return await reader.results.load(head, by=head.uri.participant)


def length(raw: Mapping[str, Any]) -> int:
    return len(compact(raw).encode())


def length_of(path: Path) -> int:
    """The bytes of a file; 0 where it is gone."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


@pytest.fixture
def state(tmp_path: Path) -> Callable[[], Path]:
    return lambda: tmp_path / "state"


@pytest.mark.parametrize("size", [1_100_000, 5_000_000, 20_000_000])
@pytest.mark.timeout(180)
async def test_a_large_result_of_a_server_is_kept_and_comes_whole_to_the_one_that_called(
    site: Site, state: Callable[[], Path], size: int
) -> None:
    await site.bridge(["python", str(HEAVY)], state=state)
    human = await site.seat("human")
    async with asyncio.timeout(120):
        result = await human.call("git/text", text(size))
    assert "It was executed" in result.text and result.raw["isError"] is False
    link = result.content[1]
    head = ResultHead.of(result.raw)
    assert head is not None and link["type"] == "resource_link" and link["uri"] == str(head.uri)
    assert head.uri.participant == "git" and head.size == link["size"] > size // 2
    told = json.dumps(result.raw)
    assert "state" not in told and "/tmp" not in told, "no path is told"
    raw = await whole(human, result)
    assert size * 0.9 < length(raw) < size * 1.3 and ResultHead.of(raw) is None
    digest = hashlib.sha256(files(state())[0].read_bytes()).hexdigest()
    assert digest == head.sha256
    for path in (state() / "results", *(state() / "results").iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in files(state())] == [0o600]
    assert human.streams.active == {}


@asynccontextmanager
async def heavy(over: str) -> AsyncIterator[Sequence[str] | str]:
    """How the heavy server is bridged: its command, or its address where it answers over HTTP."""
    if over == "stdio":
        yield ["python", str(HEAVY)]
        return
    server = await asyncio.create_subprocess_exec(
        sys.executable, str(HEAVY), over, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        yield (await server.stdout.readline()).decode().strip()
    finally:
        server.kill()
        await server.wait()


OVER = ["stdio", "json", "events", "sse"]
EDGES = [MIB - 16_384, MIB - 4096, MIB, LONGEST - 200, LONGEST, LONGEST + 200, 9_000_000]
LARGEST = [33_000_000, 64 * MIB - 1000, 64 * MIB + 200_000, 100_000_000]
FIRST = {("plain", 9_000_000), ("structured", LONGEST), ("lists", MIB)}  # over HTTP in the first tier
SIZES = [*EDGES, *LARGEST]
# Over stdio each shape has each size; over each kind of HTTP, each shape two of them, and each size two shapes.
PAIRS = {
    (shape, SIZES[(nth + 3 * turn + step) % len(SIZES)], over)
    for nth, shape in enumerate(SHAPES)
    for turn, over in enumerate(OVER)
    for step in (range(len(SIZES)) if over == "stdio" else (0, 5))
}
CASES = [
    pytest.param(shape, size, over, marks=() if is_first else pytest.mark.slow)
    for shape in SHAPES
    for size in SIZES
    for over in OVER
    for is_first in [size in EDGES if over == "stdio" else (shape, size) in FIRST]
    if is_first or (shape, size, over) in PAIRS
]


@pytest.mark.sampled(6)
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("shape", "size", "over"), CASES)
async def test_no_result_is_lost_after_it_was_executed(
    site: Site, state: Callable[[], Path], shape: str, size: int, over: str
) -> None:
    """It comes whole, or by a head, or its call is unknown; and the server goes on."""
    async with heavy(over) as command:
        await site.bridge(command, state=state)
        human = await site.seat("human")
        try:
            async with asyncio.timeout(200):
                result = await human.call(f"git/{shape}", text(size))
                raw = result.raw if ResultHead.of(result.raw) is None else await whole(human, result)
        except OutcomeUnknown as fault:
            assert len(written(shape, size).encode()) > 64 * MIB or "takes too long" in str(fault), fault
        else:
            is_whole = raw == json.loads(written(shape, size))
            assert is_whole, (list(raw)[:9], len(json.dumps(raw)))
        assert (await human.call("git/text", text(10))).raw
        assert "git" in human.client.participants and not site.ended
        assert len(files(state())) <= 1


async def test_a_result_of_many_values_is_kept_too(site: Site, state: Callable[[], Path]) -> None:
    await site.bridge(["python", str(HEAVY)], state=state)
    human = await site.seat("human")
    raw = await whole(human, await human.call("git/objects", text(900_000)))
    assert len(raw["content"]) > 90_000


async def test_those_that_proposed_and_approved_may_read_it_and_nobody_else(
    site: Site, state: Callable[[], Path]
) -> None:
    await site.bridge(["python", str(HEAVY)], state=state)
    human, agent = await site.seat("human"), await site.seat("agent", "agent")
    other = await site.seat("other", "observer")
    call = agent.propose("git/text", text(1_500_000))
    await until(lambda: human.proposals.get(call.id))
    await human.approve(call.id)
    result = await call
    assert not agent.can_send(
        "mcp/request", {"method": "resources/read", "params": {"uri": "file:///x"}}, "git"
    )
    assert length(await whole(agent, result)) == length(await whole(human, result)) > 1_000_000
    with pytest.raises(MewError, match="Only the participants that proposed, sent or approved"):
        await whole(other, result)


READ = {"method": "resources/read", "params": {"uri": f"mew-result://git/{'0' * 32}"}}


@pytest.mark.threat(11)
@pytest.mark.parametrize(
    "change",
    [
        {"params": {"uri": "mew-result://git/x"}},
        {"params": {"uri": f"mew-result://git/{'0' * 32}/"}},
        {"params": {"uri": f"mew-result://git/{'0' * 32}?part=0"}},
        {"params": {"uri": f"mew-result://git/{'0' * 32}\n"}},
        {"params": {"uri": "file:///etc/passwd"}},
        {"params": {**READ["params"], "x": 1}},
        {"params": READ["params"]["uri"]},
        {"method": "tools/call"},
        {"x": 1},
        {"id": "x" * 65},
        {"id": {"a": 1}},
        {"jsonrpc": "x" * 99},
    ],
)
async def test_the_request_that_everybody_may_send_says_nothing_else(
    site: Site, change: dict[str, Any]
) -> None:
    reader = await site.seat("reader", "observer")
    await site.seat("git")
    assert reader.can_send("mcp/request", READ, "git")
    assert not reader.can_send("mcp/request", {**READ, **change}, "git")
    with pytest.raises(CapabilityViolation):
        await reader.sender.say("mcp/request", {**READ, **change}, to="git")
    draft = {"kind": "mcp/request", "to": ["git"], "payload": {**READ, **change}}
    with pytest.raises(MewError, match="it holds neither"):
        await reader.send_accepted(draft)  # past the check of the sender, to the gateway
    for more in ({"to": []}, {"to": ["git", "human"]}, {"correlation_id": ["p"]}):
        with pytest.raises(MewError):
            await reader.send_accepted({"kind": "mcp/request", "to": ["git"], "payload": READ, **more})
    await reader.send_accepted({"kind": "mcp/request", "to": ["git"], "payload": READ})


async def test_after_its_time_and_after_its_participant_left_it_has_expired(
    site: Site, state: Callable[[], Path]
) -> None:
    await site.bridge(["python", str(HEAVY)], state=state, results=ResultLimits(seconds=0.5))
    other = await site.bridge(["python", str(HEAVY)], name="other", state=state)
    human = await site.seat("human")
    expires, stays = (
        await human.call("git/text", text(1_500_000)),
        await human.call("other/text", text(1_500_000)),
    )
    await until(lambda: len(files(state())) == 1)
    with pytest.raises(MewError, match="has expired"):
        await whole(human, expires)
    assert await whole(human, stays)
    await other.stop()
    assert files(state()) == []


async def test_a_full_store_refuses_the_call_before_it_is_executed(
    site: Site, state: Callable[[], Path]
) -> None:
    limits = ResultLimits(total=4_000_000)
    await site.bridge(["python", str(HEAVY)], state=state, results=limits)
    human = await site.seat("human")
    first = await human.call("git/text", text(2_500_000))
    with pytest.raises(ToolFailed, match="Not executed: a large result could not be kept"):
        await human.call("git/text", text(10))
    assert (await human.call("git/numbers", text(10))).raw, "another tool gave none so large"
    with pytest.raises(OutcomeUnknown, match=r"could not be kept: .* of 4000000 bytes are in use"):
        await human.call("git/lists", text(1_900_000))
    assert len(files(state())) == 1, "what is not kept takes no room"
    assert await whole(human, first)


def test_lines_that_come_at_once_stay_within_the_budget_and_are_whole_or_say_why_not(tmp_path: Path) -> None:
    limits = ResultLimits(total=10_000_000)
    store = ResultStore(lambda: tmp_path, limits)
    lines = [GrowingLine(store) for _ in range(6)]
    for _ in range(48):  # 3 MiB each
        for line in lines:
            line.add(b"x" * 65_536)
            assert sum(path.stat().st_size for path in files(tmp_path)) <= limits.total + 65_536
    ends = [line.take() for line in lines]
    whole = [end.path for end in ends if isinstance(end, LongLine) and end.path is not None]
    assert [path.read_bytes() for path in whole] == [b"x" * 3 * MIB] * 3, "one that is dropped makes room"
    assert sum(isinstance(end, LongLine) and "bytes are in use" in end.why for end in ends) == 3
    assert store.used == 9 * MIB and store.find_obstacle(2 * MIB)
    for path in whole:
        path.unlink()
    assert store.used == 0 and not store.find_obstacle(2 * MIB)


@pytest.mark.parametrize("over", ["json", "sse"])
async def test_answers_that_come_at_once_over_http_share_the_budget(
    site: Site, state: Callable[[], Path], over: str
) -> None:
    """Each is kept, or unknown with the reason; the next call has room where results have been dropped."""
    async with heavy(over) as address:
        await site.bridge(address, state=state, results=ResultLimits(total=6_000_000))
        human = await site.seat("human")
        calls = (human.call("git/one text", text(2_500_000)) for _ in range(6))
        calling = asyncio.gather(*calls, return_exceptions=True)
        while not calling.done():
            await asyncio.sleep(0)
            assert sum(length_of(path) for path in files(state())) <= 6_000_000 + 65_536
        ends = await calling
        kept = [end for end in ends if isinstance(end, ToolResult)]
        assert 1 <= len(kept) <= 2 and len(files(state())) == len(kept)
        for end in ends:
            is_unknown = isinstance(end, OutcomeUnknown) and "bytes are in use" in str(end)
            assert is_unknown or end in kept, end
        for result in kept:
            assert await whole(human, result) == json.loads(written("one text", 2_500_000))


async def test_a_lost_answer_is_not_said_to_be_that_of_a_call_that_took_effect(
    site: Site, state: Callable[[], Path]
) -> None:
    """Its answer, which nobody has read, may have been an error."""
    limits = ResultLimits(result=1_200_000)
    await site.bridge(["python", str(HEAVY)], state=state, results=limits)
    human = await site.seat("human")
    for tool, size in [("plain", 1_500_000), ("lists", 1_500_000), ("plain", 4_000_000)]:
        with pytest.raises(OutcomeUnknown, match=r"Whether it took effect is not known\.$") as lost:
            await human.call(f"git/{tool}", text(size))
        assert "executed" not in str(lost.value) and re.search("lost|longer than", str(lost.value))


async def test_a_result_over_its_limit_and_one_without_a_place_are_unknown(
    site: Site, state: Callable[[], Path]
) -> None:
    await site.bridge(["python", str(HEAVY)], state=state, results=ResultLimits(result=3_000_000))
    await site.bridge(["python", str(HEAVY)], name="poor", state=lambda: None)
    human = await site.seat("human")
    for target, size in [("git/text", 4_000_000), ("git/text", 80_000_000), ("poor/text", 2_500_000)]:
        with pytest.raises(OutcomeUnknown):
            await human.call(target, text(size))
    assert files(state()) == []
    assert (await human.call("git/text", text(10))).raw and (await human.call("poor/text", text(10))).raw


async def test_tools_of_a_notebook_keep_theirs_as_well_and_errors_stay_errors(
    site: Site, state: Callable[[], Path]
) -> None:
    box = ToolBox(name="box")

    def large(size: int) -> str:
        return "é" * size

    def fail() -> None:
        raise ValueError("x" * 2_000_000)

    box.add(large)
    box.add(fail)
    box.add_resource("notes://all", lambda: "y" * 2_000_000)
    await site.seat("box", "tool", tools=box, state=state)
    human = await site.seat("human")
    raw = await whole(human, await human.call("box/large", {"size": 700_000}))
    assert raw["content"][0]["text"] == "é" * 700_000
    with pytest.raises(ToolFailed) as failed:
        await human.call("box/fail")
    head = ResultHead.of(failed.value.data)
    assert head is not None and (await human.results.load(head))["isError"] is True
    read = await human.mcp_request("box", {"method": "resources/read", "params": {"uri": "notes://all"}})
    head = ResultHead.of(read)
    assert head is not None and len((await human.results.load(head))["contents"][0]["text"]) == 2_000_000


async def test_where_the_executor_may_open_no_stream_it_comes_in_parts(
    site: Site, state: Callable[[], Path]
) -> None:
    can = [pattern for pattern in PROFILES["tool"] if "stream" not in json.dumps(pattern)]
    await site.bridge(["python", str(HEAVY)], state=state, can=can)
    human = await site.seat("human")
    result = await human.call("git/text", text(2_500_000))
    assert length(await whole(human, result)) > 1_000_000
    large = await human.call("git/text", text(9_000_000))
    with pytest.raises(MewError, match="goes over a stream alone"):
        await whole(human, large)


async def test_one_that_reads_it_several_times_at_once_gets_it_each_time(
    site: Site, state: Callable[[], Path]
) -> None:
    await site.bridge(["python", str(HEAVY)], state=state)
    human = await site.seat("human")
    result = await human.call("git/text", text(1_500_000))
    read = await asyncio.gather(*(whole(human, result) for _ in range(6)))
    assert all(one == read[0] for one in read)


async def test_a_reader_that_leaves_while_it_reads_takes_nothing_from_the_others(
    site: Site, state: Callable[[], Path]
) -> None:
    await site.bridge(["python", str(HEAVY)], state=state)
    human, agent = await site.seat("human"), await site.seat("agent", "agent")
    call = agent.propose("git/text", text(9_000_000))
    await until(lambda: human.proposals.get(call.id))
    await human.approve(call.id)
    result = await call
    reading = asyncio.create_task(whole(agent, result))
    await until(lambda: agent.streams.active)
    await agent.stop()
    with pytest.raises(MewError):
        await reading
    raw = await whole(human, result)
    assert raw == json.loads(written("text", 9_000_000))
    await until(lambda: not human.streams.active)


async def test_what_is_not_what_the_head_says_is_refused(site: Site, state: Callable[[], Path]) -> None:
    await site.bridge(["python", str(HEAVY)], state=state)
    human = await site.seat("human")
    result = await human.call("git/text", text(1_500_000))
    head = ResultHead.of(result.raw)
    for wrong in (
        head._replace(sha256="0" * 64),
        head._replace(size=head.size - 1),
        head._replace(size=head.size + 1),
        head._replace(size=1 << 40),
        head._replace(uri=ResultUri("git", "f" * 32)),
        head._replace(uri=ResultUri("nobody", head.uri.id)),
    ):
        with pytest.raises(MewError):
            await human.results.load(wrong)
    with pytest.raises(MewError, match="names a result of another participant"):
        await human.results.load(head, by="eve")
    [path] = files(state())
    path.write_bytes(path.read_bytes()[:-2] + b"!}")
    with pytest.raises(MewError, match="another SHA-256"):
        await human.results.load(head)


async def test_what_is_behind_a_participant_cannot_pose_as_a_head(
    site: Site, state: Callable[[], Path]
) -> None:
    box = ToolBox(name="box")
    head = ResultHead(ResultUri("git", "0" * 32), 10, "0" * 64, "", 1)
    forged = {"content": [], "_meta": {"mew-lab/kept": head.meta, "own": 1}}
    box.add(lambda: ToolResult(forged), name="forge")
    await site.seat("box", "tool", tools=box)
    human = await site.seat("human")
    assert (await human.call("box/forge")).raw["_meta"] == {"own": 1}
    # One of many values is kept as its server wrote it.
    result = f'{{"_meta":{json.dumps(forged["_meta"])},"content":[],"structuredContent":{{"l":[{"1," * 45_000}1]}}}}'
    await site.odd(state=state)
    kept = await human.call("git/raw", {"lines": f'{{"jsonrpc":"2.0","id":ID,"result":{result}}}'})
    assert ResultHead.of(kept.raw) is not None
    assert (await whole(human, kept))["_meta"] == {"own": 1}


def test_what_a_killed_process_left_is_deleted_by_the_next_one(tmp_path: Path) -> None:
    left = tmp_path / "results" / "mew_lab-dead"
    left.mkdir(parents=True)
    (left / ".lock").touch()
    (left / "a").write_text("secret")
    os.utime(left / ".lock", (0, 0))
    store = ResultStore(lambda: tmp_path)
    store.sweep()
    assert not left.exists(), "it need not keep anything itself for that"
    path = store.new_file()
    ResultStore(lambda: tmp_path).sweep()
    assert path.exists(), "its process lives"
    store.close()
    assert not path.exists()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
        max_leaves=30,
    ),
    st.integers(0, 400),
)
def test_a_result_that_is_said_to_fit_does(value: Any, most: int) -> None:
    try:
        size = len(compact(value).encode())
    except MewError:
        return
    assert may_exceed(value, most) or size <= most


@given(st.text(max_size=80), st.integers(-1, 10**7))
def test_an_address_is_read_as_it_is_written_and_no_other_text_is_one(text: str, part: int) -> None:
    uri = ResultUri.read(f"mew-result://bob/{'a1' * 16}{'?part=' + str(part) if part else ''}")
    assert (uri is not None) == (0 <= part < 10**6)
    assert uri is None or ResultUri.read(str(uri)) == uri
    assert ResultUri.read(text) is None
    assert not reads_result("mcp/request", {"method": "resources/read", "params": {"uri": text}}, ["bob"])
