"""One port, over real sockets: hosts and origins, what HTTP answers, how it starts and stops."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import threading
import time

import pytest

from mew_lab.errors import ConfigError
from mew_lab.gateway.config import ParticipantConfig, SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.local import attach
from mew_lab.gateway.server import Server
from mew_lab.transport.link import HandshakeRefused, Link
from mew_lab.transport.listener import Listener

from .conftest import CHAT, UPGRADE, House, Open, closed_with, raw_request, take, until

# --- Host and Origin ---


@pytest.mark.threat(25)
@pytest.mark.parametrize("path", ["/health", "/ws", "/participants", "/nowhere"])
@pytest.mark.parametrize("host", ["evil.test", "evil.test:{port}", "localhost", "localhost:1"])
async def test_a_foreign_host_is_misdirected_whatever_it_asks(house: House, path: str, host: str) -> None:
    host = host.format(port=house.server.port)
    for extra in ("Connection: close\n", UPGRADE if path == "/ws" else "Connection: close\n"):
        status, body = await raw_request(house, f"GET {path} HTTP/1.1\nHost: {host}\n{extra}\n")
        assert (status, json.loads(body)["error"]) == (421, "misdirected_request")


@pytest.mark.threat(24)
@pytest.mark.parametrize("origin", ["http://evil.test", "null", "http://localhost:8888", "http://127.0.0.1"])
async def test_a_web_page_is_refused_before_the_upgrade_even_with_a_token(house: House, origin: str) -> None:
    with pytest.raises(HandshakeRefused) as refused:
        await house.open("/ws?space=demo", {**house.bearer("anna"), "Origin": origin})
    assert refused.value.status == 403
    response = await house.http("GET", "/health", headers={"Origin": origin})
    assert response.status_code == 403
    assert "access-control-allow-origin" not in response.headers


@pytest.mark.threat(24, 25)
async def test_configured_hosts_and_origins_are_let_in(open_house: Open) -> None:
    house = await open_house(allowed_hosts=["lab.example"], allowed_origins=["http://localhost:8888"])
    link = await house.open("/ws", {**house.bearer("anna"), "Origin": "http://localhost:8888"})
    assert (await take(link))["kind"] == "system/welcome"
    response = await house.http("GET", "/health", headers={"Host": "lab.example"})
    assert response.status_code == 200


# --- everything together ---


@pytest.mark.req("P-5.2-1", "P-5.3-1")
async def test_all_ways_in_see_one_stream_in_one_order(house: House) -> None:
    by_header = await house.join("anna")
    by_frame = await house.open("/")
    await by_frame.send(house.join_frame("bert"))
    await take(by_frame, "system/welcome")
    in_kernel = attach(house.gateway, "demo", "cora")
    links = (by_header, by_frame, in_kernel)

    async def talk(link: Link, name: str) -> None:
        for n in range(20):
            await link.send(json.dumps({"kind": "chat", "payload": {"text": f"{name} {n}"}}))

    async def posts() -> None:
        for n in range(20):
            assert (
                await house.post("anna", {"kind": "chat", "payload": {"text": f"post {n}"}})
            ).status_code == 200

    async def hear(link: Link) -> list[str]:
        return [(await take(link, "chat"))["payload"]["text"] for _ in range(80)]

    heard, *_ = await asyncio.gather(
        asyncio.gather(*(hear(link) for link in links)),
        *(talk(link, name) for link, name in zip(links, ("anna", "bert", "cora"), strict=True)),
        posts(),
    )
    assert heard[0] == heard[1] == heard[2]
    for name in ("anna", "bert", "cora", "post"):
        assert [one for one in heard[0] if one.startswith(name)] == [f"{name} {n}" for n in range(20)]
    await in_kernel.close()


# --- start and stop ---


async def test_clients_see_1012_when_it_stops_and_the_port_is_free(house: House) -> None:
    anna = await house.join("anna")
    stranger = await house.open()
    port = house.server.port
    await house.server.stop()
    assert await closed_with(anna) == (1012, "the gateway stops")
    assert await closed_with(stranger) == (1012, "the gateway stops")
    with socket.create_server(("127.0.0.1", port)):
        pass
    await house.server.stop()  # twice is harmless


async def test_stopping_waits_for_no_client_and_leaves_no_socket_open(house: House) -> None:
    await house.join("anna")
    deaf, to_deaf = await asyncio.open_connection("127.0.0.1", house.server.port)
    to_deaf.write(
        f"GET /ws HTTP/1.1\r\nHost: {house.at}\r\n".encode()
        + UPGRADE.replace("\n", "\r\n").encode()
        + b"\r\n"
    )
    assert (await deaf.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
    half, to_half = await asyncio.open_connection("127.0.0.1", house.server.port)
    to_half.write(b"POST /participants/anna/messages HTTP/1.1\r\nContent-Le")
    started = time.monotonic()
    await house.server.stop()
    assert time.monotonic() - started < 5  # a hang, not a figure: the figure is a row of the benchmark
    for reader, writer in ((deaf, to_deaf), (half, to_half)):
        with contextlib.suppress(ConnectionResetError):
            while await reader.read(4096):
                pass
        writer.close()
    assert house.gateway.connections() == 0


async def test_a_port_in_use_is_named_with_what_would_help() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        with pytest.raises(
            ConfigError, match=rf"port {port} of 127\.0\.0\.1 is in use already; choose another"
        ):
            await (server := Server(Gateway(), port=port)).start()
    assert await server.start() == port  # it is free now
    await server.stop()


async def test_a_server_starts_once(house: House) -> None:
    with pytest.raises(RuntimeError, match="starts once"):
        await house.server.start()


async def test_a_server_that_cannot_start_leaves_its_port_free(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_sockets(self: object, make_protocol: object) -> None:
        raise NotImplementedError("no sockets here")

    monkeypatch.setattr(Listener, "start", no_sockets)
    one = Server(Gateway())
    with pytest.raises(NotImplementedError):
        await one.start()
    with socket.create_server(("127.0.0.1", one.port)):
        pass
    assert logging.getLogger("uvicorn.error").filters == []


async def test_an_address_that_is_not_here_is_named() -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on port 0 of 203\.0\.113\.7"):
        await Server(Gateway(), host="203.0.113.7").start()


@pytest.mark.trap("T-16")
async def test_starting_and_stopping_leaves_nothing_behind() -> None:
    before = (
        threading.active_count(),
        logging.getLogger("uvicorn.error").filters[:],
        len(asyncio.all_tasks()),
    )
    for _ in range(3):
        one = Server(Gateway())
        await one.start()
        await one.stop()
        await until(lambda: len(asyncio.all_tasks()) == before[2])
    after = (
        threading.active_count(),
        logging.getLogger("uvicorn.error").filters[:],
        len(asyncio.all_tasks()),
    )
    assert after == before


@pytest.mark.trap("T-8")
async def test_nothing_is_printed_whatever_clients_do(
    house: House, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    anna = await house.join("anna")
    with pytest.raises(HandshakeRefused):
        await house.open("/ws", {"Authorization": "Bearer wrong-wrong"})
    with pytest.raises(HandshakeRefused):
        await house.open("/ws", {"Origin": "http://evil.test"})
    stranger = await house.open()
    await stranger.send("nonsense")
    await closed_with(stranger)
    for rubbish in (
        b"\x16\x03\x01rubbish\r\n\r\n",
        b"GET / HTTP/1.1\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", house.server.port)
        writer.write(rubbish)
        await reader.read()
        writer.close()
    await house.post("anna", CHAT)
    await take(anna)
    await house.server.stop()
    assert capfd.readouterr() == ("", "")
    ours = [one for one in caplog.records if one.name.startswith(("uvicorn", "mew_lab"))]
    wrong = "refused since the last such line, for an unknown token or space: 1"
    assert [one.getMessage() for one in ours if one.getMessage() != wrong] == []
    assert house.tokens["anna"].reveal() not in caplog.text


def test_it_runs_in_the_loop_of_a_background_thread() -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    gateway = Gateway()
    gateway.add_space(SpaceConfig(name="demo", participants={"anna": ParticipantConfig()}))
    served = Server(gateway)
    try:
        port = asyncio.run_coroutine_threadsafe(served.start(), loop).result(30)
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(
                f"GET /health HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n".encode()
            )
            assert client.recv(100).startswith(b"HTTP/1.1 200")
        asyncio.run_coroutine_threadsafe(served.stop(), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@pytest.mark.threat(8, 9)
async def test_a_text_frame_that_is_no_text_ends_its_connection_and_fills_no_log(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    bert = await house.join("bert")
    reader, writer = await asyncio.open_connection("127.0.0.1", house.server.port)
    head = f"GET /ws HTTP/1.1\nHost: {house.at}\nAuthorization: {house.bearer('anna')['Authorization']}\n{UPGRADE}\n"
    writer.write(head.replace("\n", "\r\n").encode())
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"\x81\x82\0\0\0\0\xc0\xaf")  # masked with zeros
    heard = await reader.read(-1)
    assert (1007).to_bytes(2) in heard
    writer.close()
    await house.post("bert", CHAT)
    assert (await take(bert, "chat"))["from"] == "bert"
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []
