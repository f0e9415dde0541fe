"""What a space wants done is done: tokens minted for one pair of eyes, tokens voided, doors shut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mew_lab.gateway.config import ParticipantConfig, SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.local import attach
from mew_lab.space.events import TOKEN_PLACEHOLDER
from mew_lab.transport.link import HandshakeRefused, Link

from .conftest import CHAT, House, Open, closed_with, take

STARTER = [
    "chat",
    "mcp/proposal",
    "mcp/withdraw",
    "mcp/response",
    "capability/grant-ack",
    "participant/status",
]


async def invite(house: House, link: Link, name: str) -> dict[str, Any]:
    """The acknowledgement's payload."""
    house.gateway.enrol("demo", "anna", [{"kind": "*"}])
    await take(link, "system/welcome")
    await link.send(json.dumps({"id": "i1", "kind": "space/invite", "payload": {"participant_id": name}}))
    ack = await take(link, "space/invite-ack")
    payload: dict[str, Any] = ack["payload"]
    assert (ack["from"], ack["to"], ack["correlation_id"]) == ("system:gateway", ["anna"], ["i1"])
    return payload


@pytest.mark.req("P-3.6.5-2", "P-3.6.5-3", "P-3.6.5-4", "P-3.6.6-1", "P-3.6.6-5", "P-5.2-3")
async def test_who_was_invited_joins_with_the_token_at_the_address_that_the_inviter_was_told(
    house: House,
) -> None:
    anna = await house.join("anna")
    ack = await invite(house, anna, "newcomer")
    assert ack["status"] == "created" and ack["participant_id"] == "newcomer"
    assert ack["connection_url"] == f"ws://{house.at}/ws"
    link = await house.open("/ws?space=demo", {"Authorization": f"Bearer {ack['token']}"})
    welcome = await take(link)
    assert welcome["kind"] == "system/welcome" and welcome["payload"]["you"]["id"] == "newcomer"
    assert [one["kind"] for one in welcome["payload"]["you"]["capabilities"]] == STARTER
    await link.send(json.dumps(CHAT))
    assert (await take(link, "chat"))["from"] == "newcomer"


@pytest.mark.req("P-3.6.6-4", "P-3.6.6-3", "P-3.6.5-5")
@pytest.mark.threat(6)
async def test_the_token_of_an_invited_stands_in_one_frame_and_nowhere_else(house: House) -> None:
    anna, bert = await house.join("anna"), await house.join("bert")
    token = (await invite(house, anna, "newcomer"))["token"]
    assert len(token) >= 43 and token != TOKEN_PLACEHOLDER
    seen = []
    while not seen or seen[-1]["kind"] != "system/presence" or seen[-1]["payload"]["event"] != "invited":
        seen.append(await take(bert))
    assert "space/invite-ack" not in [one["kind"] for one in seen]
    cora = await house.open("/ws?space=demo", house.bearer("cora"))
    late = await take(cora)
    told = await house.http("GET", "/participants/anna/messages", headers=house.bearer("anna"))
    acks = [one for one in told.json()["messages"] if one["kind"] == "space/invite-ack"]
    assert [one["payload"]["token"] for one in acks] == [TOKEN_PLACEHOLDER]
    for text in (json.dumps(seen), json.dumps(late), told.text, repr(house.records), repr(house.gateway)):
        assert token not in text


@pytest.mark.req("P-3.6.6-1", "P-3.6.6-3")
async def test_who_invites_by_http_is_answered_with_the_token(house: House) -> None:
    house.gateway.enrol("demo", "anna", [{"kind": "*"}])
    body = {"kind": "space/invite", "payload": {"participant_id": "newcomer"}}
    response = await house.post("anna", body)
    said = response.json()
    assert (response.status_code, said["status"]) == (200, "created")
    headers = {"Authorization": f"Bearer {said['token']}"}
    assert (
        await house.http("POST", "/participants/newcomer/messages", json=CHAT, headers=headers)
    ).status_code == 200
    again = await house.post("anna", body)
    assert (again.status_code, again.json()["status"]) == (409, "already_exists")
    assert "token" not in again.json()


@pytest.mark.req("P-3.6.6-5")
async def test_while_nobody_serves_the_gateway_no_address_is_told() -> None:
    gateway = Gateway()
    people = {"anna": ParticipantConfig(capabilities=[{"kind": "*"}])}
    gateway.add_space(SpaceConfig(name="demo", participants=people))
    anna = attach(gateway, "demo", "anna")
    await anna.send('{"kind":"space/invite","payload":{"participant_id":"newcomer"}}')
    payload = (await take(anna, "space/invite-ack"))["payload"]
    assert set(payload) == {"status", "participant_id", "token"}
    await anna.close()


@pytest.mark.req("P-3.6.7-1")
@pytest.mark.threat(13)
async def test_who_is_kicked_is_closed_and_its_token_opens_nothing_any_more(house: House) -> None:
    anna, bert = await house.join("anna"), await house.join("bert")
    house.gateway.enrol("demo", "anna", [{"kind": "*"}])
    kick = {"kind": "space/kick", "payload": {"participant_id": "bert", "reason": "rude"}}
    await anna.send(json.dumps(kick))
    assert await closed_with(bert) == (4403, "removed by anna: rude")
    left = await take(anna, "system/presence")
    if left["payload"]["event"] == "join":
        left = await take(anna, "system/presence")
    assert left["payload"] == {"event": "leave", "participant": {"id": "bert"}}
    assert (await house.post("bert", CHAT)).status_code == 403
    with pytest.raises(HandshakeRefused) as refused:
        await house.open("/ws?space=demo", house.bearer("bert"))
    assert refused.value.status == 401
    stranger = await house.open("/")
    await stranger.send(house.join_frame("bert"))
    assert (await closed_with(stranger))[0] == 4401


async def said_by(link: Link) -> str | bytes:
    """The next frame of a stream, whatever envelopes come before it."""
    while True:
        message = await link.receive()
        if message[:1] in ("#", b"#"):
            return message


@pytest.mark.req("P-3.10.3-1", "P-3.10.3-2", "P-3.10.3-3", "P-3.10.3-4", "P-3.8.1-5", "P-3.10.6-9")
async def test_frames_cross_real_sockets_to_the_byte_and_in_the_kind_that_they_came_in(house: House) -> None:
    for name in ("anna", "bert", "cora"):
        house.gateway.enrol("demo", name, [{"kind": "stream/*"}, {"kind": "chat"}])
    anna, bert = await house.join("anna"), await house.join("bert")
    await anna.send('{"kind":"stream/request","payload":{"direction":"upload"}}')
    await anna.send('{"kind":"stream/request","payload":{"direction":"upload","target":["bert"]}}')
    first, second = [(await take(anna, "stream/open"))["payload"]["stream_id"] for _ in range(2)]
    cora = await house.open("/ws?space=demo", house.bearer("cora"))
    active = (await take(cora, "system/welcome"))["payload"]["active_streams"]
    assert [one["stream_id"] for one in active] == [first, second]
    frames = [
        f"#{first}#text # and é",
        b"#" + first.encode() + b"#\x00\xff#\n#",
        b"#" + second.encode() + b"#for bert",
        b"#" + first.encode() + b"#",
    ]
    for frame in frames:
        await anna.send(frame)
    assert [await said_by(bert) for _ in range(4)] == frames
    assert [await said_by(cora) for _ in range(3)] == [frames[0], frames[1], frames[3]]
    await cora.send(f"#{first}#not mine")
    assert (await take(cora, "system/error"))["payload"]["error"] == "unauthorized_stream_write"
    await cora.send(json.dumps(CHAT))
    assert (await take(bert, "chat"))["from"] == "cora"  # a frame before it would be no JSON


@pytest.mark.req("P-2.2-2")
async def test_a_space_without_a_journal_keeps_nothing_for_those_who_come_late() -> None:
    gateway = Gateway()
    people = {name: ParticipantConfig(capabilities=[{"kind": "chat"}]) for name in ("anna", "bert")}
    gateway.add_space(SpaceConfig(name="demo", participants=people))
    anna = attach(gateway, "demo", "anna")
    await anna.send(json.dumps(CHAT))
    assert (await take(anna, "chat"))["payload"] == CHAT["payload"]
    bert = attach(gateway, "demo", "bert")
    await anna.send('{"kind":"chat","payload":{"text":"later"}}')
    assert (await take(bert))["kind"] == "system/welcome"
    assert (await take(bert))["payload"] == {"text": "later"}  # and nothing between them
    await anna.close()
    await bert.close()


@pytest.mark.req("P-5.1-1", "P-5.1-2", "P-5.2-9", "P-5.2-4", "P-7.2-1", "P-8.1-1", "P-8.1-3", "S-SEC-1")
async def test_the_token_decides_who_one_is_and_what_one_may_do(open_house: Open) -> None:
    house = await open_house()
    house.gateway.enrol("demo", "bert", [{"kind": "mcp/proposal"}])
    for name, kinds in (
        ("anna", {"chat", "chat/*", "mcp/*", "participant/status"}),
        ("bert", {"mcp/proposal"}),
    ):
        link = await house.open("/ws?space=demo", house.bearer(name))
        you = (await take(link, "system/welcome"))["payload"]["you"]
        assert you["id"] == name
        assert {one["kind"] for one in you["capabilities"]} == {*kinds, "mcp/response"}
        await link.send(json.dumps(CHAT))
        answer = await take(link, "chat" if name == "anna" else "system/error")
        assert (
            answer["payload"] == CHAT["payload"]
            or answer["payload"]["your_capabilities"] == you["capabilities"]
        )
    house.gateway.enrol("demo", "bert", [{"kind": "chat"}])  # during the session: told, and enforced
    you = (await take(link, "system/welcome"))["payload"]["you"]
    assert [one["kind"] for one in you["capabilities"]] == ["chat", "mcp/response"]
    await link.send(json.dumps(CHAT))
    assert (await take(link, "chat"))["from"] == "bert"


@pytest.mark.req("S-SEC-1", "P-5.2-2", "P-8.1-2")
async def test_before_its_token_is_good_nobody_hears_of_a_stranger_nor_it_of_anybody(house: House) -> None:
    anna = await house.join("anna")
    with pytest.raises(HandshakeRefused):
        await house.open("/ws?space=demo", {"Authorization": "Bearer not-a-token"})
    stranger = await house.open("/ws?space=demo")
    await house.post("bert", CHAT)
    await stranger.send(
        json.dumps({"type": "join", "space": "demo", "token": "not-a-token", "participantId": "x"})
    )
    assert (await closed_with(stranger))[0] == 4401
    assert (await take(anna))["kind"] == "chat"
    await house.join("cora")
    assert (await take(anna))["payload"]["participant"]["id"] == "cora"
