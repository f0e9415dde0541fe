"""Lines of a server of any size and shape: each call ends with an answer, and none of them holds the loop of a lab."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.bridge import process as processes
from mew_lab.bridge.process import LONGEST, LongLine, ServerProcess
from mew_lab.bridge.server_requests import ServerRequests
from mew_lab.bridge.session import McpSession, open_session
from mew_lab.errors import MewError, OutcomeUnknown
from mew_lab.sdk.result_store import ResultLimits, ResultStore
from mew_lab.sdk.tools import RpcError
from mew_lab.transport.line_judge import answered_id, count, split_list

from .conftest import Site, files
from .heavy_server import LIGHT, SHAPES

HEAVY = Path(__file__).parent / "heavy_server.py"
MARK = 0.05  # seconds
SIZES = [200_000, 260_000, 1_900_000, 7_000_000]


@contextmanager
def frozen() -> Iterator[None]:
    """What this process holds already is not collected meanwhile: its size is that of the test suite."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@asynccontextmanager
async def watched() -> AsyncIterator[dict[str, float]]:
    """The longest processor time of the loop's thread, and the longest lag, between two ticks of a timer of 1 ms."""
    longest = {"busy": 0.0, "lag": 0.0}

    async def tick() -> None:
        while True:
            begin, busy = time.perf_counter(), time.thread_time()
            await asyncio.sleep(0.001)
            longest["busy"] = max(longest["busy"], time.thread_time() - busy)
            longest["lag"] = max(longest["lag"], time.perf_counter() - begin - 0.001)

    ticking = asyncio.create_task(tick())
    yield longest
    await asyncio.sleep(0.01)
    ticking.cancel()


async def outcome(call: Any) -> str:
    try:
        async with asyncio.timeout(60):
            await call
    except OutcomeUnknown as fault:
        return f"unknown: {fault}"
    except MewError as fault:
        return f"failed: {fault}"
    return "answered"


@asynccontextmanager
async def opened(
    folder: Path, *words: str, spool: ResultStore | None = None, told: list[Any] | None = None
) -> AsyncIterator[McpSession]:
    """A session without a space, which takes no message of such sizes. `told` gets the notifications."""

    async def ignore(*_: Any) -> None:
        pass

    async def tell(method: str, params: Any) -> None:
        if told is not None:
            told.append(params)

    process = ServerProcess(["python", str(HEAVY), *words], cwd=folder, spool=spool)
    await process.start()
    requests = ServerRequests(report=ignore)
    async with open_session(
        process, on_notification=tell, on_request=requests, at_end=lambda: None
    ) as session:
        yield session


async def ask(session: McpSession, tool: str, arguments: dict[str, Any]) -> str:
    try:
        async with asyncio.timeout(60):
            await session.request("tools/call", {"name": tool, "arguments": arguments})
    except RpcError as refusal:
        assert refusal.data == {"code": "outcome_unknown"}
        return refusal.message
    return "answered"


@pytest.mark.sampled
@pytest.mark.threat(28, 37)
@pytest.mark.ruling("R35")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("shape", SHAPES)
async def test_no_line_of_a_server_holds_the_loop_and_each_call_has_an_end(
    tmp_path: Path, shape: str
) -> None:
    held: dict[int, float] = {}
    async with opened(tmp_path) as session:
        assert await ask(session, shape, {"size": 10}) == "answered"
        with frozen():
            async with watched() as idle:
                await asyncio.sleep(0.5)
            for size in SIZES:
                for more in ({}, {"malformed": True}, {"id_last": True}):
                    if more and size < 260_000:
                        continue
                    async with watched() as busy:
                        answer = await ask(session, shape, {"size": size, **more})
                    held[size] = max(held.get(size, 0.0), busy["busy"])
                    if size > 2 * LONGEST:
                        assert f"longer than {LONGEST} bytes" in answer
                    elif "malformed" in more:
                        assert re.search("malformed answer|more than|longer than", answer)
        assert await ask(session, shape, {"size": 10}) == "answered"
    assert max(held.values()) < MARK + idle["busy"], held


def many_values(count: int) -> dict[str, Any]:
    """The schema of a tool with about so many values."""
    return {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(count // 4)}}


def a_list(member: str, entries: int, values: int, more: int = 0) -> dict[str, Any]:
    schema = many_values(values)
    listed = [{"name": f"é{n}", "description": "d" * more, "inputSchema": schema} for n in range(entries)]
    return {member: listed, "nextCursor": "on", "_meta": {"own": [1.5, None]}}


@pytest.mark.threat(28, 37)
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("entries", "values", "more"),
    [
        pytest.param(344, 200, 0, id="many values"),
        pytest.param(344, 40, 7000, id="a long line"),
        pytest.param(10_000, 20, 900, id="many entries", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("member", ["tools", "resources", "prompts"])
async def test_a_list_that_is_costly_is_read_whole_and_does_not_hold_the_loop(
    tmp_path: Path, member: str, entries: int, values: int, more: int
) -> None:
    listed = a_list(member, entries, values, more)
    (tmp_path / "list").write_text(json.dumps(listed, separators=(",", ":")))
    async with opened(tmp_path, "list", spool=ResultStore(lambda: tmp_path)) as session:
        with frozen():
            async with watched() as idle:
                await asyncio.sleep(0.5)
            async with watched() as busy:
                found = await session.request(f"{member}/list", {})
    assert found == listed
    assert busy["busy"] < MARK + idle["busy"]
    assert files(tmp_path) == [tmp_path / "list"]


@pytest.mark.threat(28, 37)
async def test_an_entry_that_nobody_should_parse_costs_no_other_and_is_told(tmp_path: Path) -> None:
    listed = a_list("tools", 300, 150)
    heavy = {"values": many_values(100_000), "lists": [[]] * 30_000, "text": "x" * 2_000_000}
    for place, (name, schema) in enumerate(heavy.items()):
        listed["tools"].insert(100 * place, {"name": name, "inputSchema": schema})
    (tmp_path / "list").write_text(json.dumps(listed))
    told: list[Any] = []
    async with opened(tmp_path, "list", spool=ResultStore(lambda: tmp_path), told=told) as session:
        found = await session.request("tools/list", {})
    assert found == a_list("tools", 300, 150)
    [warning] = told
    assert warning["data"].startswith(
        "3 tools left out, because they are too large or too many: values, lists, text"
    )


@pytest.mark.threat(28, 37)
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"tools":{"a":[' + "[]," * 50_000 + "1]}}", "has no member tools with entries"),
        ('{"content":[' + "[]," * 50_000 + "1]}", "has no member tools with entries"),
        ('{"tools":[],"more":[' + "[]," * 50_000 + "1]}", "has no member tools with entries"),
        ('{"tools":[' + "1," * 9_000_000 + "1]}", "is too large for tools/list"),
    ],
)
async def test_a_list_that_cannot_be_read_is_an_error_and_the_server_goes_on(
    tmp_path: Path, text: str, says: str
) -> None:
    (tmp_path / "list").write_text(text)
    async with opened(tmp_path, "list", spool=ResultStore(lambda: tmp_path)) as session:
        with pytest.raises(RpcError, match=says):
            await session.request("tools/list", {})
        assert await ask(session, "text", {"size": 10}) == "answered"


ENTRY = st.recursive(
    st.none() | st.integers() | st.text(st.characters(codec="utf-8"), max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
)


@given(st.lists(ENTRY), st.dictionaries(st.text(max_size=5), ENTRY, max_size=3))
def test_the_lines_of_a_list_hold_its_entries_in_their_order(
    entries: list[Any], others: dict[str, Any]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "list"
        path.write_text(json.dumps({**others, "tools": entries}, indent=1))
        assert split_list(str(path), "tools") == {"count": 0, "omitted": []}
        first, *lines = path.read_bytes().split(b"\n")
    others.pop("tools", None)
    assert json.loads(first) == others and [json.loads(line) for line in lines] == entries


RAW = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    id, method = asked.get("id"), asked["method"]
    if id is None:
        continue
    if method == "initialize":
        result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "raw", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("write", "wait")]
        print(json.dumps({"jsonrpc": "2.0", "id": id, "result": {"tools": tools}}), flush=True)
    elif asked["params"]["name"] == "write":
        sys.stdout.write(asked["params"]["arguments"]["text"].replace("@", "x" * 3_000_000).replace("#", str(id)) + "\\n")
        sys.stdout.flush()
    else:
        waits = id
    if method == "tools/call" and "release" in asked["params"]["arguments"]:
        done = {"content": [{"type": "text", "text": "done"}]}
        print(json.dumps({"jsonrpc": "2.0", "id": waits, "result": done}), flush=True)
"""
HIDDEN = '{"jsonrpc":"2.0","before":"@","id":#,"result":{"content":[]},"after":"@"}'


@asynccontextmanager
async def raw_session(folder: Path, spool: ResultStore | None = None) -> AsyncIterator[McpSession]:
    """A session with a server that writes the line that a call names."""

    async def ignore(*_: Any) -> None:
        pass

    process = ServerProcess(["python", "-c", RAW], cwd=folder, spool=spool)
    await process.start()
    requests = ServerRequests(report=ignore)
    async with open_session(
        process, on_notification=ignore, on_request=requests, at_end=lambda: None
    ) as session:
        yield session


ANSWER, OTHER = '{"jsonrpc":"2.0","id":#,"result":{}}', '{"jsonrpc":"2.0","method":"notifications/x"}'
BATCHES = {
    "alone": (f"[{ANSWER}]", "answered"),
    "after a notification": (f" [ {OTHER}, {ANSWER} ] ", "answered"),
    "among what is no message": (f"[1, [], null, {{}}, {ANSWER}, []]", "answered"),
    "malformed": (f'[{OTHER},{{"jsonrpc":"2.0","id":#,"result":[]}}]', "a result that is no object"),
    "of many values": (f"[{OTHER},{'{},' * 300_000}{ANSWER}]", "has more than"),
    "long": (f'[{OTHER},"@",{ANSWER}]', "longer than"),
}


@pytest.mark.threat(28)
@pytest.mark.ruling("R35")
@pytest.mark.parametrize(("text", "told"), BATCHES.values(), ids=BATCHES)
async def test_an_answer_in_a_batch_ends_its_call(tmp_path: Path, text: str, told: str) -> None:
    """MCP 2025-03-26 has a client take batches; servers of that revision are still about."""
    async with raw_session(tmp_path) as session:
        assert told in await ask(session, "write", {"text": text})
        assert await ask(session, "write", {"text": ANSWER}) == "answered"


@pytest.mark.ruling("R35")
async def test_an_answer_whose_id_is_nowhere_to_be_found_is_that_of_the_call_that_is_left(
    tmp_path: Path,
) -> None:
    async with raw_session(tmp_path) as session:
        assert "longer than" in await ask(session, "write", {"text": HIDDEN}), "the only one that waits"
        waits = asyncio.create_task(ask(session, "wait", {}))
        await asyncio.sleep(0)
        lost = asyncio.create_task(ask(session, "write", {"text": HIDDEN}))
        noise = '{"log":"@"}'
        other = asyncio.create_task(ask(session, "write", {"text": noise, "release": True}))
        assert await waits == "answered", "it is not called unknown, for its answer came"
        assert "longer than" in await lost and "longer than" in await other
        assert await ask(session, "write", {"text": '{"jsonrpc":"2.0","id":#,"result":{}}'}) == "answered"


@pytest.mark.ruling("R35")
@pytest.mark.parametrize(
    "noise", ["@", '{"jsonrpc":"2.0","method":"notifications/x","params":{"text":"@"}}', "[@]", '"@"', "[{@"]
)
async def test_a_long_line_that_is_no_answer_ends_no_call_and_no_server(tmp_path: Path, noise: str) -> None:
    async with raw_session(tmp_path) as session:
        text = noise + '\n{"jsonrpc":"2.0","id":#,"result":{}}'
        assert await ask(session, "write", {"text": text}) == "answered"
        assert await ask(session, "write", {"text": text}) == "answered"


@pytest.mark.ruling("R35")
@pytest.mark.parametrize("more", [{}, {"id_last": True}])
async def test_an_answer_that_is_too_long_is_unknown_and_the_server_goes_on(
    site: Site, more: dict[str, Any]
) -> None:
    await site.bridge(["python", str(HEAVY)], results=ResultLimits(result=2_400_000))
    human = await site.seat("human")
    told = await outcome(human.call("git/text", {"size": 3_000_000, **more}))
    assert told.startswith("unknown") and re.search(r"longer than 24\d+ bytes", told)
    assert await outcome(human.call("git/text", {"size": 10})) == "answered"
    assert "git" in human.client.participants


@pytest.mark.ruling("R35")
@pytest.mark.threat(28, 37)
@pytest.mark.parametrize("shape", SHAPES)
async def test_an_answer_is_that_of_its_request_wherever_its_id_stands(tmp_path: Path, shape: str) -> None:
    async with opened(tmp_path) as session:
        for more in ({}, {"id_last": True}):
            answer = await ask(session, shape, {"size": 1_500_000, "id_within": True, **more})
            assert answer == "answered" if shape in LIGHT else "more than 40000 values" in answer
        assert await ask(session, shape, {"size": 10, "id_within": True}) == "answered"


@pytest.mark.ruling("R35")
@pytest.mark.parametrize("fault", ["cannot start", "takes too long"])
async def test_a_line_that_nobody_could_look_at_is_not_said_to_hold_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    async with opened(tmp_path) as session:
        if fault == "cannot start":
            monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
        else:
            monkeypatch.setattr(processes, "JUDGED_WITHIN", 0.0)
        text = {"size": 300_000}  # holds few brackets and commas, so it may be read at once
        assert await ask(session, "plain", text) == "answered"
        for shape in SHAPES.keys() - LIGHT:
            answer = await ask(session, shape, {"size": 1_500_000})
            assert answer == "The MCP server sent an answer that could not be looked at in time"
        assert await ask(session, "lists", {"size": 10}) == "answered"


MEMBERS = st.dictionaries(
    st.text(max_size=6).filter(lambda name: name not in ("id", "method")), st.integers()
)


@given(st.integers() | st.text(max_size=20), MEMBERS, MEMBERS)
def test_the_judge_names_the_request_that_a_line_answers(
    id: int | str, before: dict[str, int], after: dict[str, int]
) -> None:
    message = {**before, "id": id, **after}
    assert answered_id(json.loads(json.dumps(message))) == id
    assert answered_id(message | {"method": "ping"}) is None
    assert answered_id([message]) is None and answered_id({**message, "id": True}) is None


IDS = st.integers(-(10**14), 10**14) | st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20
)


@given(IDS, st.booleans(), st.booleans(), st.binary(max_size=200))
def test_the_id_of_a_long_answer_is_found_at_either_end_and_never_in_a_request(
    id: int | str, is_last: bool, spaced: bool, inner: bytes
) -> None:
    separators = (", ", ": ") if spaced else (",", ":")
    answer = {"jsonrpc": "2.0", "result": {"x": inner.decode("latin-1")}, "id": id}
    members = answer if is_last else {"jsonrpc": "2.0", "id": id, "result": answer["result"]}
    line = json.dumps(members, separators=separators).encode() + b"\n"
    long = LongLine(line[:4096], line[-4096:])
    assert long.answers == id and not long.is_request
    asked = json.dumps({"jsonrpc": "2.0", "id": id, "method": "ping", "params": {"id": 1}}).encode()
    request = LongLine(asked[:4096], asked[-4096:])
    assert request.answers is None and request.is_request


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=2), inner),
    )
)
def test_the_judge_counts_what_it_is_given(value: Any) -> None:
    def walk(inner: Any) -> tuple[int, int]:
        parts = inner.values() if isinstance(inner, dict) else inner if isinstance(inner, list) else ()
        below = [walk(part) for part in parts]
        names = len(inner) if isinstance(inner, dict) else 0
        return 1 + names + sum(one for one, _ in below), isinstance(inner, dict | list) + sum(
            two for _, two in below
        )

    assert count(value) == walk(value)
