"""The suite against our own gateway, over real sockets: every row that can be seen, and what a run does besides."""

from __future__ import annotations

import asyncio
import csv
import re
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import mew_lab.conformance
from mew_lab.conformance.profile import fresh
from mew_lab.conformance.rows import ROWS
from mew_lab.conformance.session import Check, CheckSession
from mew_lab.conformance.suite import CHECKS, FAILED, PASSED, UNSEEN, play
from mew_lab.conformance.wire import NotObserved
from mew_lab.errors import ConfigError, ConnectionLost

from .conftest import Ours, Serve


@pytest.mark.req(
    "P-2.1-1", "P-2.1-2", "P-2.2-3", "P-3-1", "P-3-2", "P-3-4", "P-3-6", "P-3-7", "P-3-8", "P-3-9", "P-3-14",
    "P-3-17", "P-3-21", "P-3.1.2-3", "P-3.2.1-4", "P-3.2.1-6", "P-3.3.2-1", "P-3.3.2-7", "P-3.5.6-1",
    "P-3.5.6-4", "P-3.5.6-5", "P-3.6-1", "P-3.6-2", "P-3.6-3", "P-3.6-4", "P-3.6.1-1", "P-3.6.1-3",
    "P-3.6.1-4", "P-3.6.1-5", "P-3.6.1-6", "P-3.6.1-7", "P-3.6.1-8", "P-3.6.1-9", "P-3.6.1-11", "P-3.6.1-12",
    "P-3.6.2-1", "P-3.6.2-2", "P-3.6.2-3", "P-3.6.4-1", "P-3.6.4-2", "P-3.6.4-3", "P-3.6.4-4", "P-3.6.4-5",
    "P-3.6.5-2", "P-3.6.5-3", "P-3.6.5-4", "P-3.6.5-5", "P-3.6.5-7", "P-3.6.6-1", "P-3.6.6-2", "P-3.6.6-3",
    "P-3.6.6-4", "P-3.6.6-5", "P-3.6.7-1", "P-3.6.7-2", "P-3.6.8-1", "P-3.6.8-2", "P-3.6.8-4", "P-3.7-1",
    "P-3.7-2", "P-3.7-3", "P-3.7-4", "P-3.7-5", "P-3.7-6", "P-3.8.1-1", "P-3.8.1-2", "P-3.8.1-3", "P-3.8.1-4",
    "P-3.8.1-5", "P-3.8.1-6", "P-3.8.1-7", "P-3.8.1-8", "P-3.8.2-1", "P-3.8.2-2", "P-3.9.1-3", "P-3.9.3-1",
    "P-3.9.9-3", "P-3.9.10-3", "P-3.10.1-4", "P-3.10.1-5", "P-3.10.1-6", "P-3.10.1-7", "P-3.10.1-8",
    "P-3.10.1-9", "P-3.10.1-11", "P-3.10.2-1", "P-3.10.2-2", "P-3.10.2-3", "P-3.10.2-4", "P-3.10.2-5",
    "P-3.10.3-2", "P-3.10.3-3", "P-3.10.3-4", "P-3.10.4-1", "P-3.10.4-2", "P-3.10.4-3", "P-3.10.4-4",
    "P-3.10.5-1", "P-3.10.5-2", "P-3.10.5-3", "P-3.10.5-4", "P-3.10.5-5", "P-3.10.5-6", "P-3.10.5-7",
    "P-3.10.6-1", "P-3.10.6-2", "P-3.10.6-3", "P-3.10.6-4", "P-3.10.6-5", "P-3.10.6-6", "P-3.10.6-7",
    "P-3.10.6-8", "P-3.10.6-9", "P-3.10.7-1", "P-3.10.7-2", "P-3.10.7-3", "P-3.10.7-4", "P-3.10.7-5",
    "P-3.10.7-6", "P-3.10.7-7", "P-3.10.7-8", "P-3.10.8-1", "P-3.10.8-3", "P-4.1-1", "P-4.1-3", "P-4.1-4",
    "P-4.1-5", "P-4.1-6", "P-4.1-8", "P-4.1-9", "P-4.1-10", "P-4.1-11", "P-4.1-12", "P-4.1-13", "P-4.2-1",
    "P-4.2-2", "P-4.2-3", "P-4.2-4", "P-4.2-5", "P-4.2-6", "P-4.2-7", "P-4.2-8", "P-4.2-9", "P-5.1-1",
    "P-5.2-1", "P-5.2-2", "P-5.2-3", "P-5.2-4", "P-5.2-5", "P-5.2-6", "P-5.2-9", "P-5.3-1", "P-5.3-2",
    "P-5.3-3", "P-5.3-4", "P-5.3-5", "P-5.3-6", "P-5.3-7", "P-5.4-1", "P-6.1-1", "P-6.4-1", "P-7.1-1",
    "P-7.1-2", "P-7.2-1", "P-7.3-1", "P-8.1-1", "P-8.1-2", "P-8.1-3", "P-8.1-4", "P-8.1-5", "P-8.1-6",
    "P-8.1-7", "P-8.1-8", "P-8.1-9", "P-8.1-10", "P-9.1-1", "P-9.3-1", "P4-3.6.4-1", "S-L2-8", "S-SEC-1",
    "C-1", "C-2", "C-4", "C-5", "C-7", "C-8", "C-9", "C-10", "C-11", "C-12", "C-13", "C-14", "C-15", "C-16",
    "C-17", "C-18", "C-19", "C-20", "C-21", "C-25", "C-26",
)  # fmt: skip
async def test_our_gateway_passes_every_row_that_can_be_seen(
    serve: Serve, request: pytest.FixtureRequest
) -> None:
    ours = await serve()
    results = await ours.play()
    told = {id: one.detail for id, one in results.items() if one.result != PASSED}
    assert {id: why for id, why in told.items() if results[id].result == FAILED} == {}
    (mark,) = request.node.iter_markers("req")
    assert set(results) - set(told) == set(mark.args)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
async def test_our_gateway_keeps_to_it(check: Check, serve: Serve) -> None:
    ours = await serve()
    results = await ours.play(*check.rows, checks=[check])
    assert {id: one.detail for id, one in results.items() if one.result != PASSED} == {}


@pytest.mark.slow
async def test_a_gateway_can_be_held_against_the_specification_twice(serve: Serve) -> None:
    ours = await serve()
    assert await ours.failed() == set()
    held = ours.gateway.participants(ours.profile.space)
    assert await ours.failed() == set()
    after = {one["id"]: one["capabilities"] for one in ours.gateway.participants(ours.profile.space)}
    assert {one["id"]: one["capabilities"] for one in held}.items() <= after.items()


async def test_without_a_second_space_its_rows_cannot_be_seen(serve: Serve) -> None:
    ours = await serve(second=False)
    results = await ours.play("P-3.6-*", "P-2.2-3")
    assert {one.result for one in results.values()} == {UNSEEN}
    assert all("second" in one.detail for one in results.values())


async def test_only_the_rows_asked_for_are_looked_at(serve: Serve) -> None:
    ours = await serve()
    told: list[str] = []
    results = await ours.play("P-3.10.7-*", "C-15", progress=told.append)
    assert set(results) == {"C-15", *(f"P-3.10.7-{n}" for n in range(1, 9))}
    assert {one.result for one in results.values()} == {PASSED}
    assert len(told) == sum(any(row in results for row in check.rows) for check in CHECKS)


async def test_the_table_is_a_frame_of_one_row_a_requirement(serve: Serve) -> None:
    ours = await serve(second=False)
    frame = await mew_lab.conformance.arun(ours.url, tokens=ours.profile, only=["C-1", "P-RL-1"])
    assert list(frame.columns) == [
        "id",
        "section",
        "level",
        "statement",
        "result",
        "detail",
        "exchange",
        "group",
    ]
    assert frame[["id", "result"]].to_numpy().tolist() == [["P-RL-1", UNSEEN], ["C-1", PASSED]]
    frame = await asyncio.to_thread(mew_lab.conformance.run, ours.url, tokens=ours.profile, only=["C-1"])
    assert list(frame.result) == [PASSED]


async def test_the_table_can_be_had_where_a_loop_runs_when_the_gateway_is_elsewhere() -> None:
    elsewhere = asyncio.new_event_loop()
    thread = threading.Thread(target=elsewhere.run_forever)
    thread.start()
    ours = Ours(second=False)
    try:
        asyncio.run_coroutine_threadsafe(ours.server.start(), elsewhere).result(10)
        frame = mew_lab.conformance.run(ours.url, tokens=ours.profile, only=["C-1"])
        asyncio.run_coroutine_threadsafe(ours.server.stop(), elsewhere).result(10)
    finally:
        elsewhere.call_soon_threadsafe(elsewhere.stop)
        thread.join(10)
        elsewhere.close()
    assert list(frame.result) == [PASSED]


# --- the rows ----------------------------------------------------------------------------------------------------


def test_there_is_a_row_for_everything_that_binds_a_gateway(shared: Path) -> None:
    """The specification was read row by row into another table; ours has the same rows in shorter sentences."""
    with (shared / "requirements.csv").open(encoding="utf-8", newline="") as file:
        binding = [row for row in csv.DictReader(file) if row["binds"] in ("gateway", "all")]
    assert [row.id for row in ROWS] == [row["id"] for row in binding]
    assert [row.level for row in ROWS] == [row["level"].replace("(implied)", "") for row in binding]
    for row in ROWS:
        assert re.fullmatch(r"§\d+(\.\d+)*|R\d+b?|Language", row.section), row
        assert 8 < len(row.statement) < 100, row


def test_every_row_has_a_check_or_a_reason() -> None:
    shown = {row for check in CHECKS for row in check.rows}
    assert shown <= {row.id for row in ROWS}
    for row in ROWS:
        assert (row.id in shown) is (row.unseen == ""), row.id


def test_a_must_that_cannot_be_seen_is_about_what_no_message_shows() -> None:
    unseen = [row for row in ROWS if row.level.startswith("MUST") and row.unseen]
    assert [row.id for row in unseen] == ["P-RL-1", "P-3.6.8-5"]
    assert all("no message shows" in row.unseen for row in unseen)


def test_names_of_checks_are_sentences_and_no_two_are_alike() -> None:
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+){2,}", name) for name in names)


# --- a run that cannot be ----------------------------------------------------------------------------------------


async def test_nobody_at_the_url_is_no_run() -> None:
    with pytest.raises(
        ConnectionLost, match=r"no conformance run at ws://127.0.0.1:1: nothing could be reached"
    ):
        await play("ws://127.0.0.1:1", tokens=fresh(), timeout=2)


async def test_tokens_of_another_gateway_are_no_run(serve: Serve) -> None:
    ours = await serve()
    with pytest.raises(ConnectionLost, match="admin was refused with HTTP 401"):
        await play(ours.url, tokens=fresh())


@pytest.mark.parametrize("url", ["", "127.0.0.1:80", "ftp://127.0.0.1", "ws://me:secret@127.0.0.1", "ws://"])
async def test_what_is_no_url_is_no_run_and_is_not_repeated_with_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match="is no address of a gateway") as caught:
        await play(url, tokens=fresh())
    assert "secret" not in str(caught.value)


async def test_rows_that_nobody_knows_are_named() -> None:
    with pytest.raises(ConfigError, match=r"'P-99\*' is no row"):
        await play("ws://127.0.0.1:1", tokens=fresh(), only=["C-1", "P-99*"])


# --- what a check comes to ---------------------------------------------------------------------------------------


def check(run: Callable[[CheckSession], Awaitable[None]], *rows: str) -> Check:
    return Check("a_check_of_the_tests", rows, run, False)


async def results_of(ours: Ours, *checks: Check, timeout: float = 5.0) -> dict[str, tuple[str, str, str]]:
    rows = {row for one in checks for row in one.rows}
    found = await play(ours.url, tokens=ours.profile, only=rows, checks=checks, timeout=timeout)
    return {one.id: (one.result, one.detail, one.exchange) for one in found}


async def test_of_a_check_that_could_not_end_every_row_has_failed_with_the_exchange(serve: Serve) -> None:
    async def run(session: CheckSession) -> None:
        human = await session.join("human")
        session.report(True, "", "C-1")
        session.report(False, "the reverse was seen", "C-2")
        await human.send(session.chat("the last thing said"))
        raise NotObserved("an answer did not come")

    found = await results_of(await serve(), check(run, "C-1", "C-2", "C-4"))
    assert found["C-2"][:2] == (FAILED, "the reverse was seen")
    for row in ("C-1", "C-4"):  # C-1 held so far, but what else would have shown it was not tried
        assert found[row][:2] == (FAILED, "an answer did not come")
        assert "the last thing said" in found[row][2]


async def test_a_row_that_a_check_forgets_has_failed_and_one_that_cannot_be_told_has_not(
    serve: Serve,
) -> None:
    async def run(session: CheckSession) -> None:
        session.cannot_tell("not here", "C-2")

    found = await results_of(await serve(), check(run, "C-1", "C-2"))
    assert found["C-1"][:2] == (FAILED, "the check ended before it came to this row")
    assert found["C-2"][:2] == (UNSEEN, "not here")


async def test_one_claim_that_does_not_hold_is_enough_to_fail(serve: Serve) -> None:
    async def good(session: CheckSession) -> None:
        session.report(True, "", "C-1")

    async def bad(session: CheckSession) -> None:
        session.report(False, "it was otherwise", "C-1")

    found = await results_of(await serve(), check(good, "C-1"), check(bad, "C-1"), check(good, "C-1"))
    assert found["C-1"][:2] == (FAILED, "it was otherwise")


async def test_an_answer_that_cannot_be_read_fails_its_row_and_not_the_run(serve: Serve) -> None:
    async def run(session: CheckSession) -> None:
        raise KeyError("payload")

    found = await results_of(await serve(), check(run, "C-1"))
    assert found["C-1"][:2] == (
        FAILED,
        "an answer was of a form that could not be read (KeyError: 'payload')",
    )


async def test_no_token_stands_in_an_exchange(serve: Serve) -> None:
    ours = await serve()

    async def run(session: CheckSession) -> None:
        admin = await session.join("admin")
        invite = session.message(
            "space/invite", {"participant_id": session.new_name(), "initial_capabilities": []}
        )
        await admin.attempt(invite)
        ack = next(one for one in admin.inbox if one.kind == "space/invite-ack")
        seen.append(ack.payload["token"])
        session.report(False, f"told: {ack.payload['token']}", "C-1")

    seen: list[str] = []
    found = await results_of(ours, check(run, "C-1"))
    secrets = [*seen, *(token.reveal() for token in ours.profile.tokens.values())]
    assert len(seen) == 1
    assert "space/invite-ack" in found["C-1"][2]
    assert not [one for one in secrets if one in str(found)]
