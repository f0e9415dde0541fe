"""A WebSocket from its upgrade to its end: who is let in, who is replaced, who is told to go."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import socket
import statistics
from collections.abc import Callable
from typing import Any

import pytest

from mew_lab.gateway import delivery
from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.server import Server
from mew_lab.transport.link import HandshakeRefused, Link, LinkClosed

from .conftest import ANYTHING, CHAT, UPGRADE, House, Open, closed_with, take, until

# --- coming in by WebSocket ---


@pytest.mark.req("P-5.2-1", "P-5.2-5")
async def test_a_token_in_the_header_admits_under_the_logical_name(house: House) -> None:
    link = await house.open("/ws?space=demo", house.bearer("anna"))
    welcome = await take(link)
    assert welcome["kind"] == "system/welcome"
    assert welcome["payload"]["you"]["id"] == "anna"


@pytest.mark.req("P-5.2-7", "C-25")
@pytest.mark.parametrize("path", ["/", "/ws", "/ws?space=demo", "/participants/x/ws", "/anything/else?a=b"])
async def test_a_join_frame_alone_admits_on_any_path_under_the_id_it_chose(house: House, path: str) -> None:
    link = await house.open(path)
    await link.send(house.join_frame("anna", participantId="client-17"))
    assert (await take(link))["payload"]["you"]["id"] == "client-17"


async def test_the_other_form_of_join_frame_admits_too(house: House) -> None:
    link = await house.open()
    payload = {"space": "demo", "token": house.tokens["bert"].reveal(), "participantId": "b-1"}
    await link.send(json.dumps({"kind": "system/join", "payload": payload}))
    assert (await take(link))["payload"]["you"]["id"] == "b-1"


async def test_a_join_frame_without_space_and_id_means_the_only_space_and_the_logical_name(
    house: House,
) -> None:
    link = await house.open()
    await link.send(json.dumps({"type": "join", "token": house.tokens["cora"].reveal()}))
    assert (await take(link))["payload"]["you"]["id"] == "cora"


async def test_header_and_join_frame_may_both_come_and_agree(house: House) -> None:
    second = house.gateway.tokens.mint("demo", "anna")
    link = await house.open("/ws?space=demo", house.bearer("anna"))
    await link.send(house.join_frame("anna", token=second.reveal(), participantId="a-2"))
    assert (await take(link))["payload"]["you"]["id"] == "a-2"


async def test_with_a_header_the_first_frame_may_be_an_ordinary_message(house: House) -> None:
    link = await house.open("/ws?space=demo", house.bearer("anna"))
    await link.send(json.dumps(CHAT))
    assert (await take(link))["kind"] == "system/welcome"
    echo = await take(link)
    assert (echo["kind"], echo["from"]) == ("chat", "anna")


@pytest.mark.parametrize("name", ["token", "access_token", "participant", "Authorization"])
async def test_a_token_in_the_address_opens_nothing(open_house: Open, name: str) -> None:
    house = await open_house(limits={"first_frame": 0.05})
    token = house.tokens["anna"].reveal()
    link = await house.open(f"/ws?space=demo&{name}={token}")
    assert (await closed_with(link))[0] == 4401
    for query in (f"{name}={token}", f"space=demo&{name}={token}"):
        assert (await house.http("GET", f"/participants/anna/messages?{query}")).status_code == 401
    assert [one.event for one in house.records if one.event == "joined"] == []


@pytest.mark.parametrize(
    "other",
    [{"token": "wrong-wrong-wrong"}, {"space": "nowhere"}, {"token": "", "space": "demo"}],
    ids=["token", "space", "no token"],
)
@pytest.mark.req("P-5.2-2")
@pytest.mark.threat(26)
async def test_unknown_token_and_unknown_space_are_told_alike(house: House, other: dict[str, Any]) -> None:
    link = await house.open()
    await link.send(house.join_frame("anna", **other))
    assert await closed_with(link) == (4401, "token or space unknown")
    assert [one.event for one in house.records if one.event == "joined"] == []


@pytest.mark.threat(26)
async def test_a_wrong_header_is_refused_before_the_upgrade_and_alike(house: House) -> None:
    answers = []
    for path, header in (
        ("/ws?space=demo", "Bearer wrong-wrong-wrong"),
        ("/ws?space=nowhere", house.bearer("anna")["Authorization"]),
    ):
        with pytest.raises(HandshakeRefused) as refused:
            await house.open(path, {"Authorization": header})
        answers.append((refused.value.status, json.loads(refused.value.body)))
    assert answers == [(401, {"error": "token or space unknown"})] * 2
    with pytest.raises(HandshakeRefused) as refused:
        await house.open("/ws", {"Authorization": "Basic abc"})
    assert json.loads(refused.value.body) == {"error": "Missing or invalid authorization header"}


async def test_header_and_join_frame_that_disagree_are_refused(house: House) -> None:
    for other in ({"token": house.tokens["bert"].reveal()}, {"space": "nowhere"}):
        link = await house.open("/ws?space=demo", house.bearer("anna"))
        await link.send(house.join_frame("anna", **other))
        assert (await closed_with(link))[0] == 4401
    link = await house.open("/ws?space=elsewhere")
    await link.send(house.join_frame("anna"))
    assert (await closed_with(link))[0] == 4401


@pytest.mark.parametrize(
    "first",
    [
        json.dumps(CHAT),
        "not json",
        "[]",
        b"#s#x",
        '{"type":"join","token":7}',
        '{"type":"join","pad":"' + "x" * 5000 + '"}',
    ],
    ids=["envelope", "text", "array", "binary", "token no string", "over 4 KiB"],
)
@pytest.mark.threat(8)
async def test_without_a_token_anything_but_a_join_frame_closes_the_socket(
    house: House, first: str | bytes
) -> None:
    link = await house.open()
    await link.send(first)
    assert (await closed_with(link))[0] == 4401


async def test_without_a_token_silence_closes_the_socket(open_house: Open) -> None:
    house = await open_house(limits={"first_frame": 0.05})
    link = await house.open()
    assert await closed_with(link) == (4401, "no join frame came within 0.05 s")


async def test_who_comes_is_told_to_the_others_and_who_goes_too(house: House) -> None:
    anna = await house.join("anna")
    bert = await house.join("bert", runtime_id="bert-9")
    join = await take(anna)
    assert (join["kind"], join["payload"]["event"]) == ("system/presence", "join")
    assert join["payload"]["participant"]["id"] == "bert-9"
    await bert.close(1000, "home")
    leave = await take(anna)
    assert (leave["payload"]["event"], leave["payload"]["participant"]["id"]) == ("leave", "bert-9")
    assert [one.detail for one in house.records if one.event == "left"] == ["closed with 1000 home"]


@pytest.mark.req("P-5.2-6")
async def test_messages_go_through_the_space_and_everybody_gets_the_very_same_text(house: House) -> None:
    anna, bert = await house.join("anna"), await house.join("bert")
    members = '"protocol":"mew/v0.4", "id":"m-1","ts":"2026-01-01T00:00:00Z","from":"bert"'
    raw = f'{{{members},  "kind":"chat","payload":{{}}}}'
    await bert.send(raw)
    await bert.send(json.dumps({"kind": "space/kick", "payload": {}}))
    assert await bert.receive() == raw
    assert (await take(anna))["kind"] == "system/presence"
    assert await anna.receive() == raw
    assert (await take(bert))["payload"]["error"] == "capability_violation"


@pytest.mark.threat(1)
async def test_a_late_join_frame_is_refused_and_its_token_stays_out_of_the_journal(house: House) -> None:
    anna = await house.join("anna")
    await anna.send(house.join_frame("bert"))
    assert (await take(anna))["payload"]["code"] == "reserved_kind"
    assert house.tokens["bert"].reveal() not in repr(house.records)
    await anna.send(json.dumps(CHAT))
    assert (await take(anna))["kind"] == "chat"


# --- one id, two connections ---


async def test_an_id_whose_connection_answers_is_not_taken_over(house: House) -> None:
    first = await house.join("anna")
    second = await house.open("/ws?space=demo", house.bearer("anna"))
    reading = asyncio.ensure_future(first.receive())  # a client that reads answers pings
    assert await closed_with(second) == (4409, "'anna' is connected already, and answers")
    await first.send(json.dumps(CHAT))
    assert json.loads(await reading)["kind"] == "chat"


async def test_a_dead_connection_is_replaced_by_its_successor(open_house: Open) -> None:
    house = await open_house(limits={"probe": 0.1})
    bert = await house.join("bert")
    ghost = socket.create_connection(("127.0.0.1", house.server.port))
    upgrade = (
        f"GET /ws?space=demo HTTP/1.1\r\nHost: {house.at}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
        f"Authorization: {house.bearer('anna')['Authorization']}\r\n\r\n"
    )
    ghost.sendall(upgrade.encode())
    assert (await take(bert))["payload"]["event"] == "join"
    anna = await house.join("anna")
    seen = [(await take(bert))["payload"] for _ in range(2)]
    assert [(one["event"], one["participant"]["id"]) for one in seen] == [("leave", "anna"), ("join", "anna")]
    ghost.settimeout(5)
    received = b""
    while b"\x11\x39" not in received:  # 4409
        received += ghost.recv(65536)
    ghost.close()
    await anna.send(json.dumps(CHAT))
    assert (await take(anna))["kind"] == "chat"


async def test_the_id_of_another_participant_is_refused_without_asking_it(house: House) -> None:
    await house.join("bert")
    link = await house.open()
    await link.send(house.join_frame("anna", participantId="bert"))
    code, reason = await closed_with(link)
    assert code == 4409
    assert "taken" in reason


# --- sizes, rates and numbers ---


@pytest.mark.threat(8)
@pytest.mark.parametrize("form", ["text", "binary", "wide text"])
async def test_a_message_over_the_limit_is_refused_and_the_connection_lives(
    open_house: Open, form: str
) -> None:
    house = await open_house(space={"message_bytes": 10_000})
    anna, bert = await house.join("anna"), await house.join("bert")
    await take(anna)
    message = {"text": "x" * 10_001, "binary": b"#s#" + b"x" * 10_000, "wide text": "€" * 3334}[form]
    await anna.send(message)
    error = await take(anna)
    assert (error["kind"], error["payload"]["code"]) == ("system/error", "message_too_large")
    assert "x" * 100 not in repr(house.records)
    await anna.send(json.dumps(CHAT))
    assert (await take(bert))["kind"] == "chat"


@pytest.mark.threat(8, 9)
async def test_a_message_over_four_times_the_limit_closes_the_socket_with_1009(open_house: Open) -> None:
    house = await open_house(space={"message_bytes": 10_000})
    bert = await house.join("bert")
    anna = await house.join("anna")
    await take(bert)
    with pytest.raises(LinkClosed) as closed:
        await anna.send("x" * 40_001)
        await anna.receive()
    assert closed.value.code == 1009
    assert (await take(bert))["payload"]["event"] == "leave"


# --- rates ---


def numbered(count: int) -> list[str]:
    return [json.dumps({"kind": "chat", "payload": {"text": str(n)}}) for n in range(count)]


async def heard(link: Link, count: int) -> list[str]:
    """The texts of so many chats, in the order in which they come."""
    return [(await take(link, "chat"))["payload"]["text"] for _ in range(count)]


@pytest.mark.extension("slowed_reading")
@pytest.mark.threat(9, 37)
@pytest.mark.ruling("R23")
@pytest.mark.parametrize("inside", [True, False], ids=["", "without the server's inside"])
async def test_who_sends_too_fast_is_slowed_and_loses_nothing(
    open_house: Open, monkeypatch: pytest.MonkeyPatch, inside: bool
) -> None:
    if not inside:
        monkeypatch.setattr(delivery, "wire_of", lambda send: None)
    house = await open_house(limits={"burst": 200, "messages_per_second": 2000})
    anna, bert = await house.join("anna"), await house.join("bert")
    started = asyncio.get_running_loop().time()
    sending = asyncio.gather(*(anna.send(text) for text in numbered(1200)))
    assert await heard(bert, 1200) == [str(n) for n in range(1200)]
    assert asyncio.get_running_loop().time() - started >= 0.45  # 1000 of them at 2000 a second
    await sending
    assert await heard(anna, 1200) == [str(n) for n in range(1200)]
    assert [one for one in house.records if one.code] == []


@pytest.mark.slow
@pytest.mark.threat(9, 37)
@pytest.mark.ruling("R23")
async def test_six_thousand_at_once_all_arrive_in_order_and_nobody_else_waits(
    house: House, record_property: Callable[[str, object], None]
) -> None:
    anna, bert, cora = [await house.join(name) for name in ("anna", "bert", "cora")]
    got: list[str] = []
    echoes: asyncio.Queue[float] = asyncio.Queue()
    now = asyncio.get_running_loop().time

    async def listen() -> None:
        while len(got) < 6000:
            text = (await take(cora, "chat"))["payload"]["text"]
            if text.startswith("ping"):
                echoes.put_nowait(now())
            else:
                got.append(text)

    async def latency(count: int) -> float:
        times = []
        for _ in range(count):
            sent = now()
            await bert.send(json.dumps({"kind": "chat", "payload": {"text": "ping"}}))
            times.append(await echoes.get() - sent)
            await asyncio.sleep(0.01)
        return statistics.median(times)

    async def swallow(link: Link) -> None:
        while True:
            await link.receive()

    tasks = [asyncio.ensure_future(one) for one in (listen(), swallow(bert), swallow(anna))]
    alone = await latency(100)
    sending = asyncio.gather(*(anna.send(text) for text in numbered(6000)))
    await asyncio.sleep(0.5)  # the burst is through: from here on it is slowed
    beside = await latency(100)
    assert len(got) < 6000, "it was not slowed while the other was measured"
    await sending
    await tasks[0]
    for one in tasks:
        one.cancel()
    assert got == [str(n) for n in range(6000)]
    print(
        f"another's echo: {alone * 1000:.2f} ms alone, {beside * 1000:.2f} ms beside, ratio {beside / alone:.2f}"
    )
    record_property("latency ratio beside a slowed sender", round(beside / alone, 2))


@pytest.mark.ruling("R23")
async def test_bytes_slow_a_sender_as_well(open_house: Open) -> None:
    house = await open_house(limits={"bytes_per_second": 1_000_000, "burst_bytes": 65536})
    anna, bert = await house.join("anna"), await house.join("bert")
    started = asyncio.get_running_loop().time()
    for _ in range(6):
        await anna.send(json.dumps({"kind": "chat", "payload": {"text": "x" * 100_000}}))
    assert [len(text) for text in await heard(bert, 6)] == [100_000] * 6
    # One message costs no more than the burst: the first one empties it, five times 65,536 are waited for.
    assert asyncio.get_running_loop().time() - started >= 0.25


@pytest.mark.ruling("R23")
async def test_what_a_slowed_sender_sent_before_it_left_arrives_and_its_leave_is_told(
    open_house: Open,
) -> None:
    house = await open_house(limits={"burst": 200, "messages_per_second": 2000})
    anna, bert = await house.join("anna"), await house.join("bert")
    await take(anna, "system/presence")
    for text in numbered(600):
        await bert.send(text)
    await bert.close(1000, "done")
    assert await heard(anna, 600) == [str(n) for n in range(600)]
    leave = await take(anna, "system/presence")
    assert leave["payload"]["event"] == "leave"


@pytest.mark.ruling("R23")
async def test_a_slowed_sender_that_is_replaced_stops_at_once(open_house: Open) -> None:
    house = await open_house(limits={"burst": 200, "messages_per_second": 0.5})
    anna = await house.join("anna")
    for text in numbered(400):
        await anna.send(text)
    await until(lambda: sum(one.event == "received" for one in house.records) >= 200)
    house.gateway.replace("demo", "anna")
    assert (await closed_with(anna))[0] == 4409
    assert sum(one.event == "received" for one in house.records) <= 202


@pytest.mark.ruling("R23")
async def test_a_slowed_sender_is_not_read(open_house: Open) -> None:
    house = await open_house(limits={"burst": 200, "messages_per_second": 0.2})
    await house.join("bert")
    anna = socket.socket()
    anna.connect(("127.0.0.1", house.server.port))
    token = house.bearer("anna")["Authorization"]
    upgrade = f"GET /ws?space=demo HTTP/1.1\nHost: {house.at}\n{UPGRADE}Authorization: {token}\n\n"
    anna.sendall(upgrade.replace("\n", "\r\n").encode())
    await until(lambda: any(one.participant == "anna" for one in house.records if one.event == "joined"))
    text = b"x" * 50_000  # refused with a short error, so that nothing big comes back
    stream = itertools.cycle(b"\x81\xfe" + len(text).to_bytes(2) + bytes(4) + text)
    anna.setblocking(False)
    rest, sent, stuck = b"", 0, 0
    async with asyncio.timeout(20):
        while stuck < 50:  # it takes nothing more, and goes on taking nothing
            rest = rest or bytes(itertools.islice(stream, 1_000_000))
            try:
                taken = anna.send(rest)
                rest, sent, stuck = rest[taken:], sent + taken, 0
            except BlockingIOError:
                stuck += 1
            await asyncio.sleep(0.005)
    assert sum(one.event == "refused" for one in house.records) <= 202
    assert (
        sent < 201 * len(text) + 40_000_000
    )  # what was within the burst, and what the operating system holds
    anna.close()


@pytest.mark.ruling("R23")
async def test_neither_the_probe_nor_the_ping_limit_counts_while_a_socket_is_not_read(
    open_house: Open,
) -> None:
    house = await open_house(limits={"burst": 200, "messages_per_second": 300, "probe": 0.1, "ping": 0.15})
    anna, bert = await house.join("anna"), await house.join("bert")
    sending = asyncio.gather(*(anna.send(text) for text in numbered(600)))
    # Clients that read answer pings: she behind what she sent.
    reading, others = asyncio.ensure_future(heard(anna, 600)), asyncio.ensure_future(heard(bert, 600))
    await until(lambda: sum(one.event == "received" for one in house.records) >= 220)
    second = await house.open("/ws?space=demo", house.bearer("anna"))
    assert (await closed_with(second))[0] == 4409
    await sending
    assert await others == await reading == [str(n) for n in range(600)]


@pytest.mark.ruling("R23")
async def test_pings_and_pieces_of_messages_count_too(open_house: Open) -> None:
    house = await open_house(limits={"burst": 200, "messages_per_second": 500})
    await house.join("bert")
    reader, writer = await asyncio.open_connection("127.0.0.1", house.server.port)
    token = house.bearer("anna")["Authorization"]
    upgrade = f"GET /ws?space=demo HTTP/1.1\nHost: {house.at}\n{UPGRADE}Authorization: {token}\n\n"
    writer.write(upgrade.replace("\n", "\r\n").encode())
    await reader.readuntil(b"\r\n\r\n")
    await until(lambda: any(one.participant == "anna" for one in house.records if one.event == "joined"))
    started = asyncio.get_running_loop().time()
    for _ in range(4):
        for _ in range(100):
            writer.write(b"\x89\x80" + bytes(4))
        await asyncio.sleep(0.05)
    answered = b""
    while answered.count(b"\x8a\x00") < 400:
        answered += await reader.read(65536)
    assert asyncio.get_running_loop().time() - started >= 0.15
    writer.close()


@pytest.mark.threat(9)
async def test_the_oldest_stranger_makes_room_for_the_next_and_a_participant_never_does(
    open_house: Open,
) -> None:
    house = await open_house(limits={"unauthenticated": 3})
    anna = await house.join("anna")
    strangers = [await house.open() for _ in range(3)]
    await strangers[1].send(house.join_frame("bert"))
    assert (await take(strangers[1]))["kind"] == "system/welcome"
    for _ in range(6):
        await house.open()
    for stranger in (strangers[0], strangers[2]):
        assert await closed_with(stranger) == (1006, "")
    assert (await take(anna, "system/presence"))["payload"]["event"] == "join"
    await anna.send(json.dumps(CHAT))
    assert (await take(strangers[1], "chat"))["from"] == "anna"


@pytest.mark.threat(9)
async def test_a_space_takes_only_so_many_connections(open_house: Open) -> None:
    house = await open_house(limits={"connections": 1})
    await house.join("anna")
    with pytest.raises(HandshakeRefused) as refused:
        await house.open("/ws?space=demo", house.bearer("bert"))
    assert (refused.value.status, json.loads(refused.value.body)["error"]) == (503, "limit_exceeded")
    link = await house.open()
    await link.send(house.join_frame("bert"))
    assert await closed_with(link) == (1013, "limit_exceeded: this space takes no more connections")


@pytest.mark.threat(9)
async def test_a_socket_that_never_says_anything_is_hung_up_on(open_house: Open) -> None:
    house = await open_house(limits={"first_frame": 0.05})
    reader, writer = await asyncio.open_connection("127.0.0.1", house.server.port)
    assert await reader.read() == b""
    writer.close()


@pytest.mark.threat(26)
async def test_many_wrong_tokens_slow_nobody_else_down(open_house: Open) -> None:
    house = await open_house(limits={"refusal_delay": 0.2})
    anna = await house.join("anna")

    async def guess(number: int) -> int:
        with pytest.raises(HandshakeRefused) as refused:
            await house.open("/ws?space=demo", {"Authorization": f"Bearer guess-{number}-guess"})
        return refused.value.status

    guesses = asyncio.gather(*(guess(n) for n in range(100)))
    await anna.send(json.dumps(CHAT))
    assert (await take(anna))["kind"] == "chat"
    assert not guesses.done()
    assert set(await guesses) == {401}


@pytest.mark.threat(9)
async def test_a_reader_that_does_not_read_is_cut_and_named_and_nobody_waits(open_house: Open) -> None:
    house = await open_house(space={"queue_bytes": 1024 * 1024})
    anna = await house.join("anna")
    stalled = socket.socket()
    stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stalled.connect(("127.0.0.1", house.server.port))
    token = house.bearer("bert")["Authorization"]
    upgrade = f"GET /ws?space=demo HTTP/1.1\nHost: {house.at}\n{UPGRADE}Authorization: {token}\n\n"
    stalled.sendall(upgrade.replace("\n", "\r\n").encode())
    assert (await take(anna))["payload"]["event"] == "join"
    message = json.dumps({"kind": "chat", "payload": {"text": "x" * 500_000}})
    for _ in range(20):  # 10 MB: more than the limit and what the operating system takes
        await anna.send(message)
        while (await take(anna))["kind"] != "chat":
            pass
    await until(lambda: any(one.event == "left" for one in house.records))
    left = next(one for one in house.records if one.event == "left")
    assert left.participant == "bert"
    assert left.detail.startswith("slow reader: ")
    await until(lambda: house.gateway.connections() == 1)
    stalled.close()


async def test_each_space_has_its_own_limits(open_house: Open) -> None:
    house = await open_house(space={"message_bytes": 10_000})
    config = {"name": "large", "message_bytes": 100_000, "participants": {"dora": {"capabilities": ANYTHING}}}
    house.gateway.add_space(SpaceConfig.model_validate(config))
    house.tokens["dora"] = house.gateway.tokens.mint("large", "dora")
    other = Server(house.gateway)  # a server knows the spaces that run when it starts
    await other.start()
    house.server, first = other, house.server
    anna, dora = await house.join("anna"), await house.open("/ws?space=large", house.bearer("dora"))
    await take(dora)
    await dora.send(json.dumps({"kind": "chat", "payload": {"text": "x" * 60_000}}))
    assert (await take(dora))["kind"] == "chat"
    await anna.send("x" * 40_001)
    assert await closed_with(anna) == (1009, "a message of over 40000 bytes")
    await first.stop()


async def test_a_fault_of_ours_ends_one_connection_and_is_told_to_our_log_alone(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    anna, bert = await house.join("anna"), await house.join("bert")
    secret = house.tokens["anna"].reveal()
    receive = house.gateway.receive

    def fail(space: str, connection: str, message: str | bytes) -> None:
        if "fault" in str(message):
            raise RuntimeError("a fault")
        receive(space, connection, message)

    def fail_too(space: str) -> list[dict[str, Any]]:
        raise RuntimeError(f"a fault that quotes {secret}")

    monkeypatch.setattr(house.gateway, "receive", fail)
    monkeypatch.setattr(house.gateway, "participants", fail_too)
    await anna.send("fault")
    assert await closed_with(anna) == (1011, "internal error")
    response = await house.http("GET", "/participants", headers=house.bearer("bert"))
    assert response.status_code == 500
    assert [one["event"] for one in [(await take(bert))["payload"]]] == ["leave"]
    await bert.send(json.dumps(CHAT))
    assert (await take(bert))["kind"] == "chat"
    faults = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert {one.name for one in faults} == {"mew_lab.gateway.sockets", "mew_lab.gateway.http_server"}
    assert "a fault that quotes tok_…" in caplog.text
    assert secret not in caplog.text
