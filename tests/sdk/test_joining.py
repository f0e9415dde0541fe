"""Addresses, join frames, and the sentences for doors that stay shut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mew_lab.errors import ConfigError, ConnectionLost, NotAdmitted
from mew_lab.protocol.token import Token
from mew_lab.sdk.connection import Endpoint, address
from mew_lab.transport.link import HandshakeRefused, LinkClosed
from mew_lab.transport.memory import pair

SECRET = "canary-secret-0123456789"
ENDPOINT = Endpoint("ws://127.0.0.1:8080", "demo", Token(SECRET), "bot-2")


@pytest.mark.req("P-5.2-7")
@pytest.mark.parametrize(
    ("gateway", "expected"),
    [
        ("ws://127.0.0.1:8080", "ws://127.0.0.1:8080/ws?space=a+b"),
        ("http://127.0.0.1:8080/", "ws://127.0.0.1:8080/ws?space=a+b"),
        ("https://example.org/mew/", "wss://example.org/mew?space=a+b"),
        ("ws://[::1]:9/ws?space=other", "ws://[::1]:9/ws?space=a+b"),
    ],
)
def test_an_address_names_the_space_and_nothing_else(gateway: str, expected: str) -> None:
    assert address(gateway, "a b") == expected


@pytest.mark.threat(1)
@pytest.mark.parametrize(
    "gateway", ["", "127.0.0.1:8080", "ftp://x", "ws://", f"ws://me:{SECRET}@host", "ws://u@h"]
)
def test_what_is_no_address_or_holds_a_secret_is_refused(gateway: str) -> None:
    with pytest.raises(ConfigError, match="is no address of a gateway") as caught:
        address(gateway, "demo")
    assert SECRET not in str(caught.value)


@pytest.mark.threat(1, 24)
async def test_the_token_goes_into_the_header_and_the_join_frame_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[Any] = []
    here, there = pair()

    async def connect(url: str, **options: Any) -> Any:
        opened.append((url, options))
        return here

    monkeypatch.setattr("mew_lab.transport.websocket.connect", connect)
    assert await ENDPOINT.open(timeout=3.0, heartbeat=7.0) is here
    [(url, options)] = opened
    assert url == "ws://127.0.0.1:8080/ws?space=demo"
    assert options["headers"] == {"Authorization": f"Bearer {SECRET}"}
    assert (options["open_timeout"], options["ping_interval"], options["ping_timeout"]) == (3.0, 7.0, 7.0)
    frame = await there.receive()
    assert json.loads(frame) == {"type": "join", "space": "demo", "token": SECRET, "participantId": "bot-2"}
    assert SECRET not in repr(ENDPOINT)


async def test_without_a_token_or_an_id_neither_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = pair()

    async def connect(url: str, *, headers: Any, **options: Any) -> Any:
        assert headers == {}
        return here

    monkeypatch.setattr("mew_lab.transport.websocket.connect", connect)
    await Endpoint("ws://h", "demo", None, None).open(timeout=1.0, heartbeat=None)
    assert json.loads(await there.receive()) == {"type": "join", "space": "demo"}


async def test_a_link_that_closes_under_the_join_frame_tells_by_its_first_receive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here, there = pair()
    there.shut(4401, "token or space unknown")

    async def connect(url: str, **options: Any) -> Any:
        return here

    monkeypatch.setattr("mew_lab.transport.websocket.connect", connect)
    link = await ENDPOINT.open(timeout=1.0, heartbeat=None)
    with pytest.raises(LinkClosed):
        await link.receive()


@pytest.mark.req("S-ERR-4")
@pytest.mark.parametrize(
    ("fault", "welcomed", "kind", "said"),
    [
        (
            HandshakeRefused(401, "x"),
            False,
            NotAdmitted,
            "Cannot join space 'demo' at ws://127.0.0.1:8080 as 'bot': the token or",
        ),
        (
            LinkClosed(4401, "why"),
            False,
            NotAdmitted,
            "ask the space's owner for the token of this space (why)",
        ),
        (
            LinkClosed(4403),
            True,
            NotAdmitted,
            "'bot' can no longer be in space 'demo' at ws://127.0.0.1:8080: it was removed",
        ),
        (
            LinkClosed(4409),
            False,
            NotAdmitted,
            "its id is taken. End the other connection of that id, or join under another",
        ),
        (
            HandshakeRefused(421, "Host\x1b[31m"),
            False,
            ConnectionLost,
            "the gateway answered with HTTP 421 (Host\\u001b[31m)",
        ),
        (
            HandshakeRefused(403),
            False,
            ConnectionLost,
            "HTTP 403. Check the address, and which hosts and origins",
        ),
        (
            LinkClosed(1006, "nothing there"),
            False,
            ConnectionLost,
            "the link closed with 1006 (nothing there). Check the address",
        ),
        (
            LinkClosed(1012, "restart"),
            True,
            ConnectionLost,
            "'bot' lost the connection to space 'demo' at ws://127.0.0.1:8080: 1012 (restart)",
        ),
        (
            LinkClosed(1008, "slow reader"),
            True,
            ConnectionLost,
            "closed the connection of 'bot': 1008 (slow reader); connect() joins again",
        ),
    ],
)
def test_a_shut_door_is_explained(fault: Any, welcomed: bool, kind: type, said: str) -> None:
    error = ENDPOINT.explain(fault, name="bot", welcomed=welcomed)
    assert type(error) is kind and said in str(error) and SECRET not in str(error)


def test_only_these_closings_count_as_broken_links() -> None:
    def code(fault: LinkClosed) -> Any:
        return getattr(ENDPOINT.explain(fault, name="bot", welcomed=True), "close_code", None)

    assert code(LinkClosed(1011, "keepalive ping timeout")) == 1006
    assert code(LinkClosed(1011, "internal error")) == 1011
    clean = ENDPOINT.explain(LinkClosed(1000), name="bot", welcomed=True)
    assert isinstance(clean, ConnectionLost) and clean.clean
