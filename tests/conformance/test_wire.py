"""One end of a WebSocket and one HTTP request, against a gateway that does as the test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from mew_lab.conformance.transcript import WireTranscript
from mew_lab.conformance.wire import BARRIER, GatewayAddress, NotObserved, WirePeer
from mew_lab.protocol.token import Token
from mew_lab.transport.link import Link
from mew_lab.transport.memory import pair

from .conftest import Serve

TIMEOUT = 0.3


class Scene:
    """A peer, and the other end of its link."""

    def __init__(self) -> None:
        ours, self.gateway = pair()
        self.transcript = WireTranscript()
        self.peer = WirePeer(ours, "human", transcript=self.transcript, timeout=TIMEOUT)

    async def says(self, **members: Any) -> None:
        await self.gateway.send(json.dumps(members))

    async def receive(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(await self.gateway.receive())
        return told

    async def refuse(self, message: dict[str, Any], **payload: Any) -> None:
        await self.says(
            kind="system/error", correlation_id=[message["id"]], payload={"error": "x", **payload}
        )


@pytest.fixture
def scene() -> Scene:
    return Scene()


Play = Coroutine[Any, Any, None]


async def with_gateway(scene: Scene, gateway: Callable[[], Play], act: Coroutine[Any, Any, Any]) -> Any:
    """What `act` gives while `gateway` answers."""
    playing = asyncio.ensure_future(gateway())
    try:
        return await act
    finally:
        await playing


async def test_a_message_goes_out_as_it_is_written(scene: Scene) -> None:
    for raw in ("not json", b"\x00binary"):
        await scene.peer.send(raw)
        assert await scene.gateway.receive() == raw
    await scene.peer.send({"kind": "é"})
    assert await scene.gateway.receive() == '{"kind": "é"}'


async def test_what_does_not_come_is_named(scene: Scene) -> None:
    await scene.says(kind="chat")
    with pytest.raises(NotObserved, match=r"human waited 0\.3 s for its welcome, which did not come"):
        await scene.peer.wait_for("its welcome", lambda one: one.kind == "system/welcome")
    assert [one.kind for one in scene.peer.inbox] == ["chat"]


async def test_a_connection_that_ends_while_one_waits_is_named(scene: Scene) -> None:
    await scene.gateway.close(4403, "out")
    with pytest.raises(NotObserved, match=r"waited for news, but its connection ended .*4403"):
        await scene.peer.wait_for("news", lambda one: True)
    with pytest.raises(NotObserved, match="before it could send"):
        await scene.peer.send("x")
    assert (await scene.peer.wait_closed()).code == 4403


async def test_a_connection_that_does_not_end_is_named(scene: Scene) -> None:
    with pytest.raises(NotObserved, match=r"was not closed within 0\.3 s"):
        await scene.peer.wait_closed()


async def test_a_refused_message_has_an_error_and_no_echo(scene: Scene) -> None:
    async def gateway() -> None:
        await scene.refuse(await scene.receive(), code="y")
        await scene.refuse(await scene.receive())

    outcome = await with_gateway(scene, gateway, scene.peer.attempt({"id": "a", "kind": "chat"}))
    assert (outcome.refused, outcome.echo, outcome.code) == (True, None, "y")
    assert outcome.refused_with("x") and outcome.refused_with("z", "y") and not outcome.refused_with("z")
    assert len(scene.peer.inbox) == 1


async def test_an_accepted_message_has_an_echo_and_no_error(scene: Scene) -> None:
    async def gateway() -> None:
        await scene.says(**await scene.receive())
        await scene.refuse({"id": "of somebody else"})
        await scene.refuse(await scene.receive())

    outcome = await with_gateway(scene, gateway, scene.peer.attempt({"id": "a", "kind": "chat"}))
    assert outcome.echo is not None and outcome.echo.id == "a"
    assert (outcome.refused, outcome.code, outcome.refused_with("x")) == (False, "", False)


async def test_the_barrier_ends_with_a_violation_without_its_id_and_with_an_echo_too(scene: Scene) -> None:
    async def violation() -> None:
        await scene.receive()
        await scene.says(kind="system/error", payload={"attempted_kind": BARRIER})

    async def echo() -> None:
        await scene.says(**await scene.receive())

    for gateway in (violation, echo):
        await with_gateway(scene, gateway, scene.peer.settle())
    assert scene.peer.inbox == []
    assert str(scene.transcript) == "human ← " + json.dumps(
        {"kind": "system/error", "payload": {"attempted_kind": BARRIER}}
    )


async def test_barriers_of_others_are_not_listened_to(scene: Scene) -> None:
    await scene.says(kind=BARRIER, id="conformance-barrier-of-another")
    await scene.says(kind="chat")
    await scene.peer.wait_for("a chat", lambda one: one.kind == "chat")
    assert [one.kind for one in scene.peer.inbox] == ["chat"]


async def test_its_rights_are_those_of_the_newest_welcome_of_its_own(scene: Scene) -> None:
    def welcome(id: str, *kinds: str) -> dict[str, Any]:
        you = {"id": id, "capabilities": [{"kind": kind} for kind in kinds]}
        return {"kind": "system/welcome", "payload": {"you": you}}

    assert (scene.peer.id, scene.peer.capabilities) == ("", [])
    for told in (welcome("human", "chat"), welcome("human", "chat", "mcp/*"), welcome("reader", "x")):
        await scene.says(**told)
    await scene.says(kind="system/welcome", payload={"you": None})
    scene.peer.welcome = await scene.peer.wait_for("", lambda one: one.kind == "system/welcome")
    await scene.peer.wait_for("", lambda one: one.payload.get("you") is None)
    assert scene.peer.id == "human"
    assert scene.peer.capabilities == [{"kind": "chat"}, {"kind": "mcp/*"}]


async def test_frames_and_odd_texts_are_kept_as_they_came(scene: Scene) -> None:
    for raw in (b"#s#\xff", "#s#text", "no json", "[]", '{"payload":5,"correlation_id":"a"}'):
        await scene.gateway.send(raw)
    await scene.peer.wait_for("the last", lambda one: "payload" in one.members)
    frame, text, odd, array, last = scene.peer.inbox
    assert (frame.data, text.data) == (b"#s#\xff", b"#s#text")
    assert [one.data for one in (odd, array, last)] == [None, None, None]
    assert (odd.members, array.members, last.payload, last.related) == ({}, {}, {}, ["a"])


# --- over real sockets ---


@pytest.fixture
async def nobody() -> AsyncIterator[str]:
    """An address that takes connections and says nothing."""
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


@pytest.mark.parametrize("form", ["ws://{}", "ws://{}/", "ws://{}/ws", "http://{}", "ws://{}/ws?space=other"])
async def test_every_form_of_a_url_leads_there(serve: Serve, form: str) -> None:
    ours = await serve()
    address = GatewayAddress(form.format(f"127.0.0.1:{ours.server.port}"))
    transcript = WireTranscript()
    how = {"token": ours.profile.tokens["human"], "transcript": transcript, "timeout": 5.0}
    peer = await address.open("human", space=ours.profile.space, **how)
    assert (await peer.wait_for("its welcome", lambda one: one.kind == "system/welcome")).payload
    await peer.leave()
    with pytest.raises(NotObserved, match="its connection ended"):
        await peer.wait_for("a message", lambda one: False, since=peer.mark)
    answer = await address.request("POST", "/participants/human/messages", body={"kind": "chat"}, **how)
    assert (answer.status, answer.body["status"]) == (200, "accepted")
    assert "POST /participants/human/messages" in str(transcript)
    answer = await address.request("GET", "/nowhere", **{**how, "token": None})
    assert answer.status == 404


async def test_who_says_nothing_is_waited_for_no_longer_than_was_said(nobody: str) -> None:
    address = GatewayAddress(f"ws://{nobody}")
    how: dict[str, Any] = {"token": Token("x"), "transcript": WireTranscript(), "timeout": TIMEOUT}
    with pytest.raises(NotObserved):
        await address.open("human", space="s", **how)
    with pytest.raises(NotObserved, match="GET /health was not answered: timed out"):
        await address.request("GET", "/health", **how)


def test_a_link_is_all_that_a_peer_needs() -> None:
    ours, _ = pair()
    link: Link = ours
    assert WirePeer(link, "human", transcript=WireTranscript(), timeout=1).mark == 0
