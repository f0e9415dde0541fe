"""A poll that waits: `GET …/messages?wait=`, over real sockets."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.ring import MAX_WAIT, Ring
from mew_lab.space.events import Record

from .conftest import House, Open, raw_request, until

LONG = 30  # seconds that a poll may wait which is to be answered earlier
SOON = 10.0  # seconds in which such a poll is answered on a busy machine


def path(name: str, **query: Any) -> str:
    return f"/participants/{name}/messages?{httpx.QueryParams(query)}"


async def poll(house: House, name: str, **query: Any) -> httpx.Response:
    async with httpx.AsyncClient(base_url=f"http://{house.at}", trust_env=False, timeout=MAX_WAIT) as client:
        return await client.get(path(name, **query), headers=house.bearer(name))


def said(response: httpx.Response) -> list[str]:
    assert response.status_code == 200, response.text
    return [one["payload"]["text"] for one in response.json()["messages"] if one["kind"] == "chat"]


async def say(house: House, text: str, name: str = "anna") -> None:
    assert (await house.post(name, {"kind": "chat", "payload": {"text": text}})).status_code == 200


WAITING: dict[int, int] = {}  # of each gateway, the polls that wait


@pytest.fixture(autouse=True)
def _count_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Gateway.watch

    def counted(self: Gateway, *args: Any) -> Callable[[], None]:
        forget = watch(self, *args)
        WAITING[id(self)] = WAITING.get(id(self), 0) + 1

        def forgotten() -> None:
            WAITING[id(self)] -= 1
            forget()

        return forgotten

    monkeypatch.setattr(Gateway, "watch", counted)
    WAITING.clear()


def watched(house: House) -> int:
    """How many polls wait."""
    return WAITING.get(id(house.gateway), 0)


async def waiting(house: House, *names: str, **query: Any) -> list[asyncio.Task[httpx.Response]]:
    """Polls that wait already."""
    tasks = [asyncio.ensure_future(poll(house, name, **{"wait": LONG, **query})) for name in names]
    before = watched(house)
    await until(lambda: watched(house) == before + len(names))
    return tasks


@pytest.mark.req("P-5.3-5")
async def test_a_poll_waits_for_the_next_message_and_gets_it_at_once(house: House) -> None:
    await say(house, "before")
    async with asyncio.timeout(SOON):
        first = await poll(house, "bert", wait=LONG)
    assert said(first) == ["before"], "what is there already is not waited for"
    (task,) = await waiting(house, "bert", since=first.json()["next"])
    began = time.monotonic()
    await say(house, "after")
    assert said(await task) == ["after"] and time.monotonic() - began < SOON
    assert watched(house) == 0


async def test_a_poll_that_nothing_comes_for_is_answered_empty_after_its_time(house: House) -> None:
    began = time.monotonic()
    response = await poll(house, "bert", wait=0.3)
    assert (said(response), response.json()["more"]) == ([], False)
    assert time.monotonic() - began >= 0.3
    await say(house, "later")
    assert said(await poll(house, "bert", since=response.json()["next"], wait=LONG)) == ["later"]


@pytest.mark.parametrize(
    "wait", ["61", "-1", "", "soon", "nan", "inf", "1_0", " 1", "1e3", "٣", "1" * 30, "--"]
)
async def test_the_seconds_are_bounded(house: House, wait: str) -> None:
    response = await poll(house, "bert", wait=wait)
    assert response.status_code == 400
    assert response.json()["error"].startswith(
        f"wait must be a number of seconds from 0 to {MAX_WAIT}, and not "
    )


@pytest.mark.parametrize("wait", ["0", "0.0", "1e-3"])
async def test_none_or_few_are_seconds_too(house: House, wait: str) -> None:
    assert said(await poll(house, "bert", wait=wait)) == []


@pytest.mark.req("P-5.3-7")
async def test_a_private_message_of_another_wakes_nobody(house: House) -> None:
    anna = await house.join("anna")
    since = (await poll(house, "bert")).json()["next"]
    (task,) = await waiting(house, "bert", since=since)
    await anna.send('{"kind":"space/kick","payload":{}}')
    assert json.loads(await anna.receive())["kind"] == "system/error"
    assert not task.done() and watched(house) == 1
    await say(house, "for all")
    assert said(await task) == ["for all"]


@pytest.mark.req("P-5.3-7")
async def test_a_token_of_another_does_not_wait(house: House) -> None:
    for headers, status in (({}, 401), ({"Authorization": "Bearer wrong"}, 403), (house.bearer("anna"), 403)):
        response = await house.http("GET", path("bert", wait=LONG), headers=headers)
        assert response.status_code == status
    assert watched(house) == 0


async def test_a_participant_that_is_removed_while_it_waits_gets_nothing_more(house: House) -> None:
    house.gateway.enrol("demo", "anna", [{"kind": "*"}])
    since = (await poll(house, "bert")).json()["next"]
    kept, removed = await waiting(house, "cora", "bert", since=since)
    assert (
        await house.post("anna", {"kind": "space/kick", "payload": {"participant_id": "bert"}})
    ).status_code == 200
    assert (await removed).status_code == 403
    assert (await kept).status_code == 200


@pytest.mark.parametrize("which", ["server", "gateway"])
async def test_polls_that_wait_are_answered_when_the_gateway_stops(house: House, which: str) -> None:
    tasks = await waiting(house, *["bert"] * 5)
    began = time.monotonic()
    if which == "server":
        await house.server.stop()
        assert [said(await task) for task in tasks] == [[]] * 5
    else:
        house.gateway.close()
        assert {(await task).status_code for task in tasks} == {403}
    assert time.monotonic() - began < SOON
    assert watched(house) == 0


async def test_a_client_that_goes_is_not_waited_for(house: House) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", house.server.port)
    head = f"GET {path('bert', wait=LONG)} HTTP/1.1\r\nHost: {house.at}\r\nAuthorization: {house.bearer('bert')['Authorization']}\r\n\r\n"
    writer.write(head.encode())
    await until(lambda: watched(house) == 1)
    writer.close()
    await until(lambda: watched(house) == 0, within=SOON)


@pytest.mark.slow
async def test_many_that_wait_cost_nothing_until_a_message_comes(
    open_house: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = await open_house()
    count = 100
    tasks = await waiting(house, *(["bert"] * (count // 2) + ["cora"] * (count // 2)))
    looked = 0
    history = house.gateway.history

    def counted(*args: Any, **named: Any) -> Any:
        nonlocal looked
        looked += 1
        return history(*args, **named)

    monkeypatch.setattr(house.gateway, "history", counted)
    await poll(house, "anna", wait=0.3)
    assert looked == 2, "those that wait look at nothing"
    await say(house, "news")
    assert [said(response) for response in await asyncio.gather(*tasks)] == [["news"]] * count
    assert looked == 2 + count
    assert watched(house) == 0


async def test_who_polls_again_and_again_gets_each_message_once_in_order(house: House) -> None:
    got: dict[str, list[str]] = {"bert": [], "cora": []}
    texts = [str(n) for n in range(40)]

    async def follow(name: str) -> None:
        query: dict[str, Any] = {}
        while len(got[name]) < len(texts):
            response = await poll(house, name, wait=LONG, **query)
            got[name] += said(response)
            query = {"since": response.json()["next"], "limit": 3}

    followers = [asyncio.ensure_future(follow(name)) for name in got]
    for text in texts:
        await say(house, text)
    await asyncio.gather(*followers)
    assert got == {"bert": texts, "cora": texts}


async def test_a_poll_counts_as_one_message(open_house: Open) -> None:
    house = await open_house(limits={"burst": 3, "messages_per_second": 0.001})
    assert [(await poll(house, "bert", wait=0.01)).status_code for _ in range(4)][-1] == 429
    assert watched(house) == 0


async def test_the_time_of_a_request_does_not_end_a_poll(open_house: Open) -> None:
    house = await open_house(limits={"first_frame": 0.2, "body": 0.2})
    head = f"GET {path('bert', wait=1)} HTTP/1.1\nHost: {house.at}\nAuthorization: {house.bearer('bert')['Authorization']}\nConnection: close\n\n"
    began = time.monotonic()
    status, body = await raw_request(house, head)
    assert status == 200 and '"messages":[]' in body and time.monotonic() - began >= 1


steps = st.lists(
    st.one_of(
        st.tuples(st.just("say")),
        st.tuples(st.just("tell"), st.sampled_from("abc")),
        st.tuples(st.just("refused")),
        st.tuples(st.just("watch"), st.sampled_from("abc")),
        st.tuples(st.just("forget"), st.integers(0, 5)),
        st.tuples(st.just("end")),
    ),
    max_size=30,
)


@given(steps)
def test_whoever_watches_is_called_once_with_the_first_message_that_it_may_see(steps: list[Any]) -> None:
    """Against a plain list of who watches."""
    ring, calls, taken_back = Ring(lambda name: name), list[int](), list[Any]()
    watching: dict[int, str] = {}
    expected: list[int] = []
    now = datetime(2026, 1, 1, tzinfo=UTC)
    for n, (step, *about) in enumerate(steps):
        now += timedelta(seconds=1)
        if step == "watch":
            watching[n] = about[0]
            taken_back.append((n, ring.watch(about[0], lambda n=n: calls.append(n))))  # type: ignore[misc]
        elif step == "forget" and taken_back:
            number, forget = taken_back[about[0] % len(taken_back)]
            forget()
            watching.pop(number, None)
        elif step in ("say", "tell", "refused", "end"):
            if step == "end":
                ring.end()
            elif step == "tell":
                members = {"from": "system:gateway", "kind": "system/error", "to": about, "payload": {}}
                ring.take(
                    Record(1, now, "sent", "demo", "system:gateway", verdict="sent", raw=json.dumps(members))
                )
            else:
                verdict = "refused" if step == "refused" else "accepted"
                ring.take(Record(1, now, "received", "demo", "a", verdict=verdict, raw='{"kind":"chat"}'))
            woken = (
                []
                if step == "refused"
                else [k for k, who in watching.items() if step != "tell" or who == about[0]]
            )
            expected += woken
            for number in woken:
                del watching[number]
    assert sorted(calls) == sorted(expected)
