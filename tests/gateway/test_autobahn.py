"""The WebSocket below us keeps RFC 6455: the Autobahn cases against an echo that is served by our own settings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import kosoku
import pytest

from mew_lab.gateway.http_server import HttpServer
from mew_lab.gateway.sockets import OVERSIZE
from mew_lab.gateway.wire import wire_of

LARGEST = 16 * 1024 * 1024  # bytes of the largest message in the cases
# After a close frame came, the rest of an unfinished message is no fault of its own (RFC 6455 §5.5.1 is silent on
# it); the library below ends with 1002 where the case wants 1000.
KNOWN = {"7.1.5"}
FIRST = [f"{group}.*" for group in range(1, 8)]


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """An application that says back what it hears, to a participant that was welcomed: its pieces are counted."""
    await receive()
    await send({"type": "websocket.accept"})
    if wire := wire_of(send):
        wire.count_extras(lambda size, messages: 0.0)
    while (message := await receive())["type"] == "websocket.receive":
        key = "bytes" if message.get("text") is None else "text"
        await send({"type": "websocket.send", key: message[key]})


@pytest.fixture
async def address() -> AsyncIterator[str]:
    server = HttpServer(echo, frame_bytes=OVERSIZE * LARGEST)
    port = server.bind("127.0.0.1", 0)
    await server.start()
    yield f"ws://127.0.0.1:{port}"
    await server.stop(within=1.0)


async def results(address: str, cases: list[str]) -> list[kosoku._kosoku.CaseResult]:
    try:
        return await kosoku.run_fuzzingclient(address, cases=cases, concurrency=4)
    except kosoku.FailureError as fault:
        found: list[kosoku._kosoku.CaseResult] = fault.results
        return found


def faults(found: list[kosoku._kosoku.CaseResult]) -> dict[str, str]:
    return {
        one.case_id: f"{one.behavior.value}/{one.behavior_close.value}: {one.result} {one.result_close}"
        for one in found
        if not one.passed and one.case_id not in KNOWN
    }


@pytest.mark.threat(8)
async def test_the_cases_of_groups_1_to_7_pass(address: str) -> None:
    found = await results(address, FIRST)
    assert faults(found) == {}
    assert len(found) == 246
    assert {one.case_id for one in found if not one.passed} == KNOWN  # else the exception has lost its reason


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_the_other_cases_pass_too(address: str) -> None:
    """Limits, fragments and performance (9, 10); compression is off here, so 12 and 13 are not implemented."""
    found = await results(address, ["9.*", "10.*"])
    assert faults(found) == {}
    assert len(found) == 55
    compressed = await results(address, ["12.1.1", "13.1.1"])
    assert {one.behavior.value for one in compressed} == {"UNIMPLEMENTED"}
