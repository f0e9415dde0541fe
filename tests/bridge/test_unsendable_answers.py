"""Answers of a server that no message can hold end their calls all the same, and its notifications end nothing."""

from __future__ import annotations

import json

import pytest

from mew_lab.errors import OutcomeUnknown, ToolFailed

from .conftest import Site

HUGE = "9" * 400  # a double holds 308 digits


def failure(data: str, *, message: str = "no room", code: str = "-32000") -> str:
    return f'{{"jsonrpc":"2.0","id":ID,"error":{{"code":{code},"message":"{message}","data":{data}}}}}'


def result(value: str) -> str:
    return f'{{"jsonrpc":"2.0","id":ID,"result":{{"content":[],"structuredContent":{{"n":{value}}}}}}}'


ANSWERS = {
    "the data of an error is longer than a message": (failure('"LONG"'), ToolFailed, "no room"),
    "its message is": (failure("null", message="no room LONG"), ToolFailed, "no room"),
    "its data is nested too deeply": (failure("[" * 70 + "]" * 70), ToolFailed, "no room"),
    "its data has a number that is none": (failure("NaN"), ToolFailed, "no room"),
    "its data has an integer of more than 64 bits": (failure(str(1 << 65)), ToolFailed, "no room"),
    "its code has": (failure("null", code=str(1 << 65)), ToolFailed, "no room"),
    "its data has one that no double holds": (failure(HUGE), OutcomeUnknown, "malformed answer"),
    "it says unknown": (failure(f'{{"code":"outcome_unknown","n":{1 << 65}}}'), OutcomeUnknown, "no room"),
    "a result has an integer of more than 64 bits": (result(str(1 << 65)), OutcomeUnknown, "cannot be sent"),
    "a result has one that no double holds": (result(HUGE), OutcomeUnknown, "malformed answer"),
    "a result has a number that is none": (result("NaN"), OutcomeUnknown, "cannot be sent"),
}


@pytest.mark.threat(28, 37)
@pytest.mark.ruling("R35")
@pytest.mark.parametrize(("lines", "ends", "told"), ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_that_cannot_be_sent_ends_its_call_and_not_its_server(
    site: Site, lines: str, ends: type[Exception], told: str
) -> None:
    await site.odd()
    human = await site.seat("human")
    with pytest.raises(ends, match=told) as ended:
        await human.call("git/raw", {"lines": lines}, timeout=60)
    assert type(ended.value) is ends and len(str(ended.value)) < 2000
    assert (await human.call("git/odd", {})).text == "as it came"
    assert not site.ended


@pytest.mark.threat(28)
@pytest.mark.parametrize("member", ["progress", "total"])
async def test_a_progress_that_no_double_holds_ends_no_server(site: Site, member: str) -> None:
    await site.odd()
    human = await site.seat("human")
    params = {"progressToken": "TOKEN", "progress": 1, "total": 2, member: "HUGE"}
    report = json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    report = report.replace('"TOKEN"', "TOKEN").replace('"HUGE"', HUGE)
    call = human.call("git/raw", {"lines": report + "\n" + result("1")}, timeout=60, progress=True)
    call.on_progress(lambda _: None)
    assert (await call).raw["structuredContent"] == {"n": 1}
    assert not site.ended


@pytest.mark.threat(28)
async def test_a_server_that_reports_the_whole_again_and_again_does_not_flood_the_space(site: Site) -> None:
    await site.odd()
    human = await site.seat("human")
    seen: list[float] = []
    report = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":TOKEN,"progress":%d,"total":2}}'
    lines = "\n".join(report % done for done in range(1, 301))
    call = human.call("git/raw", {"lines": lines + "\n" + result("1")}, timeout=60, progress=True)
    call.on_progress(lambda progress: seen.append(progress.done))
    assert (await call).raw["structuredContent"] == {"n": 1}
    assert len(seen) < 100 and 2 in seen, "the first report of the whole comes, and of the others some"
