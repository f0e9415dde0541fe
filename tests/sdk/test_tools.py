"""Typed functions become MCP tools: their schemas, checks, results, errors."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import enum
import json
import math
import threading
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from pydantic import BaseModel, Field

from mew_lab.errors import ConfigError
from mew_lab.protocol.token import Token
from mew_lab.sdk.tools import RpcError, ToolBox, ToolResult


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


class Address(BaseModel):
    street: str


@pytest.fixture
def box() -> ToolBox:
    return ToolBox()


async def call(box: ToolBox, name: str, arguments: Any = None) -> dict[str, Any]:
    return await box.answer("tools/call", {"name": name, "arguments": arguments or {}})


def schema(box: ToolBox, name: str) -> dict[str, Any]:
    return box.tools[name].described["inputSchema"]


def text(result: Mapping[str, Any]) -> str:
    return ToolResult(dict(result)).text


@pytest.mark.req("S-L2-1", "S-L2-27", "P-2.1-4", "P-3.1.2-3")
async def test_a_typed_function_is_listed_as_an_mcp_tool(box: ToolBox) -> None:
    @box.tool
    def add(a: int, b: int = 2) -> int:
        """Sum of two
        numbers.

        A longer story that does not belong into a list.

        Args:
            a: the first one,
                which may be negative
            b (int): the second

        Returns:
            nothing: of interest
        """
        return a + b

    assert add(1, 2) == 3
    assert await box.answer("tools/list", {}) == {
        "tools": [
            {
                "name": "add",
                "description": "Sum of two numbers.",
                "inputSchema": {
                    "type": "object",
                    "properties": {
                        "a": {"type": "integer", "description": "the first one, which may be negative"},
                        "b": {"type": "integer", "description": "the second", "default": 2},
                    },
                    "required": ["a"],
                    "additionalProperties": False,
                },
            }
        ]
    }
    assert await call(box, "add", {"a": 1}) == {
        "content": [{"type": "text", "text": "3"}],
        "isError": False,
        "structuredContent": {"result": 3},
    }


async def test_rich_types_become_schemas_and_arrive_as_those_types(box: ToolBox) -> None:
    seen: dict[str, Any] = {}

    @box.tool
    async def paint(
        colour: Colour,
        where: list[Point],
        who: Address,
        mode: Literal["fast", "slow"] = "slow",
        limit: Annotated[int, Field(ge=1, description="how many")] = 5,
        note: str | None = None,
        extra: dict[str, float] | None = None,
    ) -> None:
        seen.update(locals())

    declared = schema(box, "paint")
    jsonschema.Draft202012Validator.check_schema(declared)
    assert declared["required"] == ["colour", "where", "who"]
    assert declared["properties"]["mode"]["enum"] == ["fast", "slow"]
    assert declared["properties"]["limit"] == {
        "type": "integer",
        "minimum": 1,
        "description": "how many",
        "default": 5,
    }
    assert declared["$defs"]["Colour"]["enum"] == ["red", "blue"]
    result = await call(
        box,
        "paint",
        {"colour": "red", "where": [{"x": 1}], "who": {"street": "s"}, "mode": "fast", "note": None},
    )
    assert result == {"content": [], "isError": False}
    assert (seen["colour"], seen["where"], seen["who"]) == (
        Colour.RED,
        [Point(1.0, 0.0)],
        Address(street="s"),
    )
    assert (seen["mode"], seen["limit"], seen["note"], seen["extra"]) == ("fast", 5, None, None)


@pytest.mark.req("S-SEC-4", "S-ERR-6", "P-4.3-5", "S-ERR-3")
@pytest.mark.parametrize(
    ("arguments", "paths"),
    [
        ({}, ["arguments.a", "arguments.b"]),
        ({"a": "1", "b": True}, ["arguments.a", "arguments.b"]),
        ({"a": 1, "b": 1, "c": 1}, ["arguments.c"]),
        ({"a": 1, "b": 1.5}, ["arguments.b"]),
        ({"a": 1, "b": 1, "tags": ["x", 2]}, ["arguments.tags[1]"]),
    ],
)
async def test_arguments_that_break_the_schema_are_listed_and_nothing_runs(
    box: ToolBox, arguments: Any, paths: list[str]
) -> None:
    ran = []

    @box.tool
    def pair(a: int, b: int, tags: list[str] | None = None) -> None:
        ran.append((a, b))

    with pytest.raises(RpcError, match="Invalid arguments for pair") as caught:
        await call(box, "pair", arguments)
    assert caught.value.code == -32602
    listed = caught.value.payload()["data"]
    assert sorted(one["path"] for one in listed) == sorted(paths)
    assert all(one["message"] for one in listed) and ran == []


async def test_a_whole_number_written_as_a_float_is_an_integer(box: ToolBox) -> None:
    box.add(lambda n: type(n).__name__, name="untyped")

    def typed(n: int) -> str:
        return type(n).__name__

    box.add(typed)
    assert text(await call(box, "typed", {"n": 3.0})) == "int"
    assert text(await call(box, "untyped", {"n": 3.0})) == "float"


async def test_what_a_schema_cannot_say_is_checked_by_the_type(box: ToolBox) -> None:
    @box.tool
    def day(when: date) -> str:
        return when.isoformat()

    assert text(await call(box, "day", {"when": "2026-11-21"})) == "2026-11-21"
    with pytest.raises(RpcError) as caught:
        await call(box, "day", {"when": "tomorrow"})
    assert caught.value.code == -32602 and caught.value.data[0]["path"] == "arguments.when"


async def test_a_hostile_argument_is_quoted_short_and_harmless(box: ToolBox) -> None:
    @box.tool
    def n(a: int) -> int:
        return a

    with pytest.raises(RpcError) as caught:
        await call(box, "n", {"a": "\x1b[31m" + "x" * 100_000})
    said = caught.value.data[0]["message"]
    assert len(said) <= 200 and "\x1b" not in said


async def test_keyword_rest_takes_what_its_type_says(box: ToolBox) -> None:
    @box.tool
    def many(first: str, **rest: int) -> str:
        return json.dumps([first, rest])

    assert schema(box, "many")["additionalProperties"] == {"type": "integer"}
    assert text(await call(box, "many", {"first": "a", "b": 1, "rest": 2})) == '["a", {"b": 1, "rest": 2}]'
    with pytest.raises(RpcError):
        await call(box, "many", {"first": "a", "b": "no"})
    box.add(lambda **anything: len(anything), name="anything")
    assert schema(box, "anything")["additionalProperties"] is True
    assert text(await call(box, "anything", {"a": 1, "b": None})) == "2"


async def test_positional_only_parameters_are_filled_in_order(box: ToolBox) -> None:
    @box.tool
    def divide(a: int, b: int = 2, /, *, places: int = 0) -> str:
        return f"{a / b:.{places}f}"

    assert text(await call(box, "divide", {"places": 1, "b": 4, "a": 1})) == "0.2"
    assert text(await call(box, "divide", {"a": 1})) == "0"


def test_what_cannot_be_a_tool_is_refused_with_a_sentence(box: ToolBox) -> None:
    with pytest.raises(
        ConfigError, match=r"add cannot be a tool: MCP gives arguments by name, so \*numbers can never"
    ):

        @box.tool
        def add(*numbers: int) -> int:
            return sum(numbers)

    with pytest.raises(ConfigError, match="the type of lock has no JSON form"):

        @box.tool
        def wait(lock: threading.Thread) -> None: ...

    with pytest.raises(ConfigError, match="its signature cannot be read: name 'Nowhere' is not defined"):

        @box.tool
        def lost(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ConfigError, match="cannot name a tool: it takes 1 to 128 of"):
        box.add(lambda: None)
    with pytest.raises(ConfigError, match="cannot name a tool"):
        box.add(lambda: None, name="a/b")
    assert box.tools == {}


async def test_running_a_definition_again_replaces_the_tool_and_tells(box: ToolBox) -> None:
    told: list[str] = []
    stop = box.changed.add(told.append)
    box.add(lambda: "old", name="t")
    box.add(lambda: "new", name="t")
    assert text(await call(box, "t")) == "new" and len(box.tools) == 1
    box.remove("t")
    box.remove("t")
    assert box.tools == {} and told == ["tools"] * 3
    stop()
    box.add(lambda: None, name="t")
    assert told == ["tools"] * 3


async def test_a_tool_can_have_another_name_a_description_and_hints(box: ToolBox) -> None:
    @box.tool(name="read.it", description="Reads.", annotations={"readOnlyHint": True})
    def anything() -> str:
        "Not this."
        return "ok"

    assert anything() == "ok"
    described = box.tools["read.it"].described
    assert (described["description"], described["annotations"]) == ("Reads.", {"readOnlyHint": True})


async def test_methods_and_callable_objects_are_tools_too(box: ToolBox) -> None:
    class Counter:
        def __init__(self) -> None:
            self.n = 0

        def more(self, by: int = 1) -> int:
            "Counts."
            self.n += by
            return self.n

        async def __call__(self, by: int) -> int:
            return by

    counter = Counter()
    box.add(counter.more)
    box.add(counter, name="later")
    assert text(await call(box, "more", {"by": 5})) == "5"
    assert text(await call(box, "later", {"by": 7})) == "7"


# --- results ---


@pytest.mark.parametrize(
    ("value", "said", "structured"),
    [
        ("plain", "plain", None),
        (None, "", None),
        (True, "true", {"result": True}),
        (1.5, "1.5", {"result": 1.5}),
        ({"a": [1]}, '{"a":[1]}', {"a": [1]}),
        ([1, "é"], '[1,"é"]', {"result": [1, "é"]}),
        (Point(1), '{"x":1,"y":0.0}', {"x": 1, "y": 0.0}),
        (Address(street="s"), '{"street":"s"}', {"street": "s"}),
        (Colour.RED, "red", None),
        (frozenset({2}), "[2]", {"result": [2]}),
    ],
)
async def test_whatever_a_tool_returns_becomes_content(
    box: ToolBox, value: Any, said: str, structured: Any
) -> None:
    box.add(lambda: value, name="t")
    result = await call(box, "t")
    assert (text(result), result.get("structuredContent"), result["isError"]) == (said, structured, False)


async def test_a_ready_result_goes_out_as_it_is(box: ToolBox) -> None:
    ready = {
        "content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}],
        "isError": False,
        "_meta": {},
    }
    box.add(lambda: ToolResult(ready), name="t")
    assert await call(box, "t") == ready


async def test_what_json_cannot_carry_is_an_error_of_the_tool(box: ToolBox) -> None:
    box.add(lambda: [math.nan], name="t")
    result = await call(box, "t")
    assert result["isError"] is True or result["structuredContent"] == {"result": [None]}
    json.dumps(result, allow_nan=False)


# --- errors ---


@pytest.mark.req("S-ERR-5")
@pytest.mark.parametrize(
    ("fault", "asynchronous"),
    [
        (ValueError("no such file"), False),
        (ValueError("no such file"), True),
        (SystemExit(3), False),
        (SystemExit(3), True),
        (StopIteration("x"), False),
        (KeyboardInterrupt(), False),  # on the loop itself, Ctrl-C is the process's own
    ],
)
async def test_an_exception_is_a_result_marked_as_error(
    box: ToolBox, fault: BaseException, asynchronous: bool
) -> None:
    def fails() -> None:
        raise fault

    async def fails_later() -> None:
        raise fault

    box.add(fails_later if asynchronous else fails, name="t")
    result = await call(box, "t")
    assert result["isError"] is True and type(fault).__name__ in text(result) and str(fault) in text(result)


@pytest.mark.threat(1)
async def test_a_secret_in_an_exception_does_not_travel(box: ToolBox) -> None:
    secret = Token("canary-secret-0123456789")

    def leaks() -> None:
        raise ValueError(f"cannot log in with {secret.reveal()}")

    box.add(leaks)
    assert "canary-secret" not in text(await call(box, "leaks"))


async def test_a_tool_whose_own_work_was_cancelled_still_answers(box: ToolBox) -> None:
    async def gives_up() -> None:
        raise asyncio.CancelledError("inner")

    box.add(gives_up)
    assert (await call(box, "gives_up"))["isError"] is True


@pytest.mark.req("S-ERR-3")
@pytest.mark.parametrize(
    ("method", "params", "code", "said"),
    [
        ("tools/cal", {}, -32601, "Method not found: tools/cal"),
        ("tools/call", {"name": "nope"}, -32602, "Unknown tool: nope. Tools here: t"),
        ("tools/call", {}, -32602, "Unknown tool: None"),
        ("tools/call", {"name": ["t"]}, -32602, "Unknown tool"),
        ("tools/call", {"name": "t", "arguments": [1]}, -32602, "they must be an object"),
        ("resources/read", {"uri": "file:///etc/passwd"}, -32002, "Resource not found"),
        ("tasks/list", {}, -32601, "Method not found"),
    ],
)
async def test_a_wrong_request_is_a_json_rpc_error(
    box: ToolBox, method: str, params: Any, code: int, said: str
) -> None:
    box.add(lambda: 1, name="t")
    with pytest.raises(RpcError, match=said) as caught:
        await box.answer(method, params)
    assert caught.value.payload()["code"] == code


async def test_a_fault_of_this_side_is_internal_and_says_no_more(box: ToolBox) -> None:
    box.add_resource("mem://broken", lambda: 1 / 0)
    with pytest.raises(RpcError) as caught:
        await box.answer("resources/read", {"uri": "mem://broken"})
    assert caught.value.payload() == {"code": -32603, "message": "Internal error: ZeroDivisionError"}


# --- where it runs ---


async def test_a_plain_function_runs_off_the_loop_and_an_async_one_on_it(box: ToolBox) -> None:
    here = threading.get_ident()
    box.add(lambda: threading.get_ident() != here and threading.current_thread().daemon, name="plain")

    async def on_loop() -> bool:
        return threading.get_ident() == here

    box.add(on_loop)
    assert text(await call(box, "plain")) == "true"
    assert text(await call(box, "on_loop")) == "true"


async def test_a_plain_function_that_blocks_holds_up_nobody(box: ToolBox) -> None:
    release = threading.Event()
    box.add(lambda: release.wait(30), name="slow")
    box.add(lambda: "quick", name="quick")
    slow = asyncio.ensure_future(call(box, "slow"))
    await asyncio.sleep(0)
    assert text(await call(box, "quick")) == "quick" and not slow.done()
    release.set()
    assert text(await slow) == "true"


async def test_cancelling_stops_an_async_tool_and_forgets_a_plain_one(box: ToolBox) -> None:
    stopped = asyncio.Event()
    started = asyncio.Event()
    release = threading.Event()

    async def sleeps() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    box.add(sleeps)
    box.add(lambda: release.wait(30), name="blocks")
    running = [asyncio.ensure_future(call(box, "sleeps")), asyncio.ensure_future(call(box, "blocks"))]
    await started.wait()
    for task in running:
        task.cancel()
    for task in running:
        with pytest.raises(asyncio.CancelledError):
            await task
    assert stopped.is_set()
    release.set()


async def test_where_threads_do_not_exist_a_plain_function_runs_directly(
    box: ToolBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "emscripten")
    here = threading.get_ident()
    box.add(lambda: threading.get_ident() == here, name="t")
    assert text(await call(box, "t")) == "true"


# --- the rest of MCP ---


@pytest.mark.req("S-L2-2", "S-L2-3", "P-8.2-6")
async def test_resources_are_listed_and_read(box: ToolBox) -> None:
    box.add_resource("mem://text", "hello", name="greeting", description="A word.")
    box.add_resource("mem://bytes", b"\x00\x01", mime_type="application/octet-stream")

    async def computed() -> dict[str, int]:
        return {"n": 1}

    box.add_resource("mem://json", computed, mime_type="application/json")
    assert await box.answer("resources/list", {}) == {
        "resources": [
            {"uri": "mem://text", "name": "greeting", "mimeType": "text/plain", "description": "A word."},
            {"uri": "mem://bytes", "name": "mem://bytes", "mimeType": "application/octet-stream"},
            {"uri": "mem://json", "name": "mem://json", "mimeType": "application/json"},
        ]
    }

    async def read(uri: str) -> dict[str, Any]:
        return (await box.answer("resources/read", {"uri": uri}))["contents"][0]

    assert await read("mem://text") == {"uri": "mem://text", "mimeType": "text/plain", "text": "hello"}
    assert base64.b64decode((await read("mem://bytes"))["blob"]) == b"\x00\x01"
    assert (await read("mem://json"))["text"] == '{"n":1}'


@pytest.mark.req("P-8.2-6")
async def test_initialize_and_ping_are_answered(box: ToolBox) -> None:
    answer = await box.answer("initialize", {"protocolVersion": "2025-03-26"})
    assert answer["protocolVersion"] == "2025-03-26" and answer["serverInfo"]["name"] == "mew_lab"
    assert set(answer["capabilities"]) == {"tools", "resources", "prompts"}
    assert await box.answer("ping", {}) == {}


# --- tools as objects, resources by decorator ---

ADD = {
    "name": "add",
    "description": "Sum of two numbers.",
    "inputSchema": {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": True},
}


@pytest.mark.req("S-L2-27")
async def test_an_object_with_name_schema_and_execute_is_a_tool(box: ToolBox) -> None:
    async def execute(a: float, b: float) -> float:
        return a + b

    box.add({**ADD, "execute": execute})
    [listed] = (await box.answer("tools/list", {}))["tools"]
    assert listed == ADD
    assert (await call(box, "add", {"a": 5, "b": 3}))["structuredContent"] == {"result": 8}
    for wrong in ({"a": 5}, {"a": 5, "b": "3"}, {"a": 5, "b": 3, "c": 1}):
        with pytest.raises(RpcError) as caught:
            await call(box, "add", wrong)
        assert caught.value.code == -32602 and caught.value.data


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ({"name": "add"}, "has a `name` and an `execute`"),
        ({"execute": print}, "has a `name` and an `execute`"),
        ({"name": "a b", "execute": print}, "cannot name a tool"),
        ({"name": "add", "execute": print, "inputSchema": {"type": "objekt"}}, "is no JSON Schema"),
        ({"name": "add", "execute": print, "inputSchema": {"type": "array"}}, 'must be "object"'),
    ],
)
def test_an_object_that_cannot_be_a_tool_is_refused_with_a_sentence(
    box: ToolBox, tool: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        box.add(tool)
    assert box.tools == {}


@pytest.mark.req("S-L2-2")
async def test_a_decorated_function_serves_a_resource(box: ToolBox) -> None:
    @box.resource("notes://today", mime_type="text/markdown")
    def today() -> str:
        """What is to be done today."""
        return "# Water the beans"

    [listed] = (await box.answer("resources/list", {}))["resources"]
    assert (listed["uri"], listed["description"]) == ("notes://today", "What is to be done today.")
    [read] = (await box.answer("resources/read", {"uri": "notes://today"}))["contents"]
    assert (read["text"], read["mimeType"]) == (today(), "text/markdown")
