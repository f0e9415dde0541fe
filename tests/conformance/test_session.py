"""What a check works with: ids, claims, and looking at who has heard what."""

from __future__ import annotations

import pytest

from mew_lab.conformance.profile import fresh
from mew_lab.conformance.session import CheckGroup, CheckSession, all_in, open_session
from mew_lab.conformance.wire import GatewayAddress, NotObserved

from .conftest import Serve


def stage_at(url: str = "ws://127.0.0.1:1", **how: object) -> CheckSession:
    return CheckSession(GatewayAddress(url), how.get("profile", fresh()), timeout=5.0, run="r")  # type: ignore[arg-type]


def test_a_chapter_keeps_its_checks_in_order_and_with_their_rows() -> None:
    checks = CheckGroup()

    @checks.shows("P-1", "P-2")
    async def one_thing_is_so(session: CheckSession) -> None: ...

    @checks.shows("P-3", second=True)
    async def another_is_so(session: CheckSession) -> None: ...

    assert [(one.name, one.rows, one.second) for one in checks.checks] == [
        ("one_thing_is_so", ("P-1", "P-2"), False),
        ("another_is_so", ("P-3",), True),
    ]


def test_a_claim_that_fails_carries_its_words_and_the_exchange() -> None:
    session = stage_at()
    session.rows = ("P-1", "P-2")
    session.transcript.record_event("human", "was there")
    assert session.report(True, "unused")
    assert not session.report(False, "it was otherwise", "P-3")
    session.cannot_tell("nobody can", "P-4")
    assert [tuple(one) for one in session.findings] == [
        ("P-1", True, "", ""),
        ("P-2", True, "", ""),
        ("P-3", False, "it was otherwise", "human · was there"),
        ("P-4", None, "nobody can", ""),
    ]


def test_no_two_messages_or_names_are_alike() -> None:
    session = stage_at()
    ids = [session.chat()["id"] for _ in range(5)] + [session.new_name() for _ in range(5)]
    assert len(set(ids)) == 10
    message = session.message("chat", {"text": "x"}, from_="human", to=["admin"])
    assert message["from"] == "human" and "from_" not in message


@pytest.mark.parametrize(
    ("wanted", "found", "same"),
    [
        ([{"kind": "chat"}], [{"id": "x", "kind": "chat", "description": "y"}], True),
        ([{"kind": "chat"}], [{"kind": "chat", "payload": {}}], False),
        ([{"kind": "chat", "x-note": 1}], [{"kind": "chat"}, "odd"], True),
        ([{"kind": "chat"}], [], False),
        ([], [], True),
    ],
)
def test_remarks_on_a_capability_do_not_count(wanted: list[object], found: list[object], same: bool) -> None:
    assert all_in(wanted, found) is same


async def test_what_one_says_is_heard_by_those_who_may_and_a_private_answer_by_nobody_else(
    serve: Serve,
) -> None:
    ours = await serve()
    async with open_session(stage_at(ours.url, profile=ours.profile)) as session:
        human, admin, observer = await session.join_all("human", "admin", "observer")
        chat = session.chat()
        await human.attempt(chat)
        assert await session.arrivals(chat["id"], admin, observer) == [True, True]
        assert await session.reaches(chat["id"], admin) and not await session.hidden(chat["id"], admin)
        refused = session.chat()
        outcome = await session.expect_refusal(observer, refused, admin, human)
        assert outcome.refused_with("capability_violation")
        assert await session.hidden(refused["id"], admin, human, observer)
    assert human.closed is not None


async def test_what_a_check_leaves_is_undone_in_reverse_whatever_came_of_it() -> None:
    done: list[int] = []

    async def undo(number: int) -> None:
        done.append(number)
        raise NotObserved("the gateway is gone")

    with pytest.raises(NotObserved, match="the check itself"):
        async with open_session(stage_at()) as session:
            session.on_close(lambda: undo(1))
            session.on_close(lambda: undo(2))
            raise NotObserved("the check itself")
    assert done == [2, 1]


async def test_who_is_not_let_in_is_told_by_name(serve: Serve) -> None:
    ours = await serve()
    async with open_session(stage_at(ours.url)) as session:
        with pytest.raises(NotObserved, match="human was refused with HTTP 401 instead of being let in"):
            await session.join("human")
