"""Peers in the field work unchanged: exactly what the TypeScript client, participant, agent and bridge send.

Each message here stands as such a peer writes it. What our gateway answers otherwise than theirs is decided by a
ruling, which the test names.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from mew_lab.protocol.token import Token
from mew_lab.transport.link import Link

from .conftest import House, Open, closed_with, take

ALL = [{"kind": "*"}]


def ts_join(house: House, name: str, runtime_id: str, **other: Any) -> str:
    """The first text frame of the TypeScript client, in its order of keys."""
    said = {
        "type": "join",
        "space": "demo",
        "token": house.tokens[name].reveal(),
        "participantId": runtime_id,
    }
    return json.dumps({**said, "capabilities": [], **other}, separators=(",", ":"))


async def come(house: House, name: str, runtime_id: str = "", *, path: str = "/", **other: Any) -> Link:
    """Joins as the TypeScript client does: no header, a join frame; takes its welcome."""
    link = await house.open(path)
    await link.send(ts_join(house, name, runtime_id or name, **other))
    welcome = await take(link)
    assert (welcome["kind"], welcome["payload"]["you"]["id"]) == ("system/welcome", runtime_id or name)
    return link


async def hear(link: Link, kind: str) -> dict[str, Any]:
    return await take(link, kind)


# --- joining, §2.2 --------------------------------------------------------------------------------------------


@pytest.mark.req("C-25", "P-3.8.1-1")
@pytest.mark.parametrize("path", ["/", "/ws", "/ws?space=demo", "/participants/anna/ws"])
async def test_a_join_frame_is_enough_on_any_path(house: House, path: str) -> None:
    link = await come(house, "anna", path=path)
    await link.send('{"kind":"chat","payload":{"text":"hi"}}')
    assert (await hear(link, "chat"))["from"] == "anna"


async def test_the_other_form_of_the_join_frame_says_the_same(house: House) -> None:
    link = await house.open("/")
    payload = {"participantId": "bert", "space": "demo", "token": house.tokens["bert"].reveal()}
    await link.send(json.dumps({"kind": "system/join", "payload": payload}))
    assert (await take(link))["payload"]["you"]["id"] == "bert"


async def test_header_and_join_frame_together_are_one_admission(house: House) -> None:
    """As the participants of the end-to-end scripts send both."""
    link = await house.open("/ws?space=demo", house.bearer("anna"))
    await link.send(ts_join(house, "anna", "anna"))
    assert (await take(link))["kind"] == "system/welcome"
    assert len(house.gateway.runtime_ids("demo", "anna")) == 1


@pytest.mark.req("P-3.6.4-1")
async def test_a_client_goes_by_the_id_of_its_own_making(house: House) -> None:
    """`client-<ms>-<rand>` where nobody configured one; everything it does hangs on it."""
    other = await come(house, "anna")
    link = await come(house, "bert", "client-1795292743823-x7f3k2")
    presence = await hear(other, "system/presence")
    assert presence["payload"]["participant"]["id"] == "client-1795292743823-x7f3k2"
    await other.send('{"kind":"mcp/request","id":"r-1","to":["bert"],"payload":{"method":"tools/list"}}')
    asked = await hear(link, "mcp/request")
    assert asked["to"] == ["client-1795292743823-x7f3k2"], "or such a peer would not take it as meant for it"


async def test_capabilities_that_a_join_frame_claims_are_not_given(house: House) -> None:
    house.gateway.enrol("demo", "cora", [{"kind": "chat"}])
    link = await come(house, "cora", capabilities=[{"kind": "mcp/*"}])
    await link.send('{"kind":"mcp/request","payload":{"method":"tools/list"}}')
    assert (await hear(link, "system/error"))["payload"]["error"] == "capability_violation"


async def test_a_client_that_reconnects_finds_its_id_free(house: House) -> None:
    first = await come(house, "anna", "client-9")
    watcher = await come(house, "bert")
    await first.close()
    await hear(watcher, "system/presence")
    again = await come(house, "anna", "client-9")
    await again.send('{"kind":"mcp/request","id":"client-9-1","payload":{"method":"tools/list"}}')
    assert (await hear(again, "mcp/request"))["id"] == "client-9-1"


@pytest.mark.req("C-26")
async def test_an_id_that_is_in_use_is_not_taken_from_who_has_it(house: House) -> None:
    """That gateway let the newcomer replace the old one in silence (R8b)."""
    first = await come(house, "anna", "client-9")
    other = await house.open("/")
    await other.send(ts_join(house, "bert", "client-9"))
    assert (await closed_with(other))[0] == 4409
    await first.send('{"kind":"chat","payload":{"text":"still here"}}')
    assert (await hear(first, "chat"))["from"] == "client-9"


async def test_every_token_of_a_participant_opens_both_doors_at_any_time(house: House) -> None:
    """The literal token of a space.yaml and the generated one; in theirs the first was void after a disconnect."""
    literal = Token("anna-token")
    house.gateway.tokens.add("demo", "anna", literal)
    generated = house.tokens["anna"]
    for token in (literal, generated):
        house.tokens["anna"] = token
        link = await come(house, "anna")
        await link.close()
        assert (await house.post("anna", {"kind": "chat", "payload": {"text": "by HTTP"}})).status_code == 200


@pytest.mark.divergence("P-5.1-2")
async def test_who_is_unknown_does_not_join_with_some_defaults(house: House) -> None:
    """That gateway let it in with `chat` (R8)."""
    link = await house.open("/")
    await link.send(
        '{"type":"join","space":"demo","token":"no such token","participantId":"x","capabilities":[]}'
    )
    assert (await closed_with(link))[0] == 4401


# --- messages, §2.8, §2.12 ------------------------------------------------------------------------------------


@pytest.mark.req("C-14", "C-16")
async def test_a_bot_that_sends_no_id_and_no_from_is_completed(house: House) -> None:
    link = await come(house, "anna", "echo-agent")
    await link.send('{"kind":"chat","correlation_id":"msg-1","payload":{"text":"Echo: hi"}}')
    said = await hear(link, "chat")
    assert (said["protocol"], said["from"], said["correlation_id"]) == ("mew/v0.4", "echo-agent", ["msg-1"])
    assert said["id"] and said["ts"]


@pytest.mark.req("C-17")
async def test_mcp_messages_without_jsonrpc_and_id_are_passed_on_as_they_are(house: House) -> None:
    anna, bert = await come(house, "anna"), await come(house, "bert")
    await hear(anna, "system/presence")
    ask = (
        '{"protocol":"mew/v0.4","id":"anna-1","ts":"2026-11-21T20:29:27.198Z","from":"anna","to":["bert"],'
        '"kind":"mcp/request","payload":{"method":"tools/list","params":{}}}'
    )
    await anna.send(ask)
    assert await bert.receive() == ask
    tell = (
        '{"protocol":"mew/v0.4","id":"bert-1","ts":"2026-11-21T20:29:27.199Z","from":"bert","to":["anna"],'
        '"correlation_id":["anna-1"],"kind":"mcp/response","payload":{"result":{"tools":[]}}}'
    )
    await bert.send(tell)
    assert (await anna.receive(), await anna.receive()) == (ask, tell)  # its own echo first


async def test_reasoning_without_a_context_is_passed_on(house: House) -> None:
    house.gateway.enrol("demo", "anna", [{"kind": "reasoning/*"}])
    link = await come(house, "anna")
    for kind in ("reasoning/thought", "reasoning/conclusion", "reasoning/cancel"):
        await link.send(json.dumps({"kind": kind, "payload": {"reasoning": "r", "action": "answer"}}))
        assert (await hear(link, kind))["payload"]["action"] == "answer"


async def test_a_second_join_frame_on_a_socket_is_no_second_participant(house: House) -> None:
    link = await come(house, "anna")
    await link.send(ts_join(house, "anna", "anna-2"))
    assert (await hear(link, "system/error"))["payload"]["error"] == "invalid_request"
    assert house.gateway.runtime_ids("demo", "anna") == ("anna",)
    assert house.tokens["anna"].reveal() not in repr(house.records)


# --- streams, §2.9 --------------------------------------------------------------------------------------------


@pytest.mark.req("C-5")
async def test_a_participants_own_stream_open_and_a_close_by_correlation_alone_are_relayed(
    house: House,
) -> None:
    house.gateway.enrol("demo", "anna", [{"kind": "stream/*"}])
    anna, bert = await come(house, "anna"), await come(house, "bert")
    await anna.send(
        '{"kind":"stream/open","id":"o-1","correlation_id":["q-1"],"payload":{"stream_id":"stream-123","encoding":"text"}}'
    )
    assert (await hear(bert, "stream/open"))["payload"]["stream_id"] == "stream-123"
    await anna.send('{"kind":"stream/close","correlation_id":["q-1"],"payload":{"reason":"complete"}}')
    assert (await hear(bert, "stream/close"))["correlation_id"] == ["q-1"]


async def test_an_agents_reasoning_stream_carries_its_frames_as_text(house: House) -> None:
    """It asks without `direction`, and writes JSON behind `#id#`."""
    house.gateway.enrol("demo", "anna", [{"kind": "stream/*"}])
    anna, bert = await come(house, "anna"), await come(house, "bert")
    await anna.send('{"kind":"stream/request","id":"q-1","payload":{"description":"reasoning:r-1"}}')
    opened = await hear(anna, "stream/open")
    assert (opened["from"], opened["to"], opened["correlation_id"]) == ("system:gateway", ["anna"], ["q-1"])
    assert opened["payload"]["encoding"] == "text"
    await hear(bert, "stream/open")
    frame = f'#{opened["payload"]["stream_id"]}#{{"type":"token","text":"a#b"}}'
    await anna.send(frame)
    assert await bert.receive() == frame, "as the kind of frame that it came as"
    await anna.send(frame.encode())
    assert await bert.receive() == frame.encode()


# --- HTTP, §2.4 -----------------------------------------------------------------------------------------------


@pytest.mark.req("P-5.3-1")
async def test_a_script_posts_with_an_id_of_its_choice_and_hears_that_it_was_taken(house: House) -> None:
    link = await come(house, "bert")
    answer = await house.post("anna", {"id": "msg-123", "kind": "chat", "payload": {"text": "Test with ID"}})
    said = answer.json()
    assert (answer.status_code, said["id"], said["status"]) == (200, "msg-123", "accepted")
    assert "timestamp" in said
    assert (await hear(link, "chat"))["id"] == "msg-123"


async def test_a_script_may_post_under_the_id_that_the_client_has_now(house: House) -> None:
    link = await come(house, "anna", "client-5")
    answer = await house.post("anna", {"kind": "chat", "payload": {"text": "hi"}}, as_="client-5")
    assert answer.status_code == 200
    assert (await hear(link, "chat"))["from"] == "client-5"


@pytest.mark.req("C-5")
async def test_the_words_that_a_check_looks_for_stand_in_the_answer(house: House) -> None:
    house.gateway.enrol("demo", "anna", ALL)
    refused = await house.post("anna", {"kind": "system/register", "payload": {}})
    assert refused.status_code == 400
    assert (
        refused.json()["message"]
        == "system/register is reserved for the gateway. Use capability/grant instead."
    )
    created = await house.post("anna", {"kind": "space/invite", "payload": {"participant_id": "dora"}})
    assert '"status":"created"' in created.text, "compact JSON is looked for"
    assert created.json()["connection_url"].startswith("ws://")
    twice = await house.post("anna", {"kind": "space/invite", "payload": {"participant_id": "dora"}})
    assert (twice.status_code, twice.json()["status"]) == (409, "already_exists")
    house.tokens["dora"] = Token(created.json()["token"])
    assert (
        await house.post("dora", {"kind": "chat", "payload": {"text": "never connected"}})
    ).status_code == 200


# --- names, §2.7, §3 ------------------------------------------------------------------------------------------


@pytest.mark.req("P-3.6.4-2")
async def test_a_grant_reaches_a_participant_that_goes_by_another_id(house: House) -> None:
    """By its name or by its id, and the one that it has sees both the grant and what it holds now."""
    house.gateway.enrol("demo", "anna", ALL)
    house.gateway.enrol("demo", "bert", [{"kind": "chat"}])
    anna, bert = await come(house, "anna"), await come(house, "bert", "typescript-agent")
    for n, recipient in enumerate(("bert", "typescript-agent"), 1):
        given = {"recipient": recipient, "capabilities": [{"kind": f"mcp/{n}"}]}
        await anna.send(
            json.dumps({"kind": "capability/grant", "id": f"g-{n}", "to": [recipient], "payload": given})
        )
        granted = await hear(bert, "capability/grant")
        assert granted["to"] == ["typescript-agent"]
        welcome = await hear(bert, "system/welcome")
        assert {"kind": f"mcp/{n}"} in welcome["payload"]["you"]["capabilities"]
        assert "active_streams" in welcome["payload"]
        ack = {"status": "accepted"}
        await bert.send(json.dumps({"kind": f"mcp/{n}", "correlation_id": [f"g-{n}"], "payload": ack}))
        assert (await hear(anna, f"mcp/{n}"))["from"] == "typescript-agent"


async def test_a_capability_to_a_name_holds_for_whatever_id_it_goes_by(house: House) -> None:
    house.gateway.enrol("demo", "cora", [{"kind": "mcp/request", "to": "bert"}])
    cora, bert = await come(house, "cora"), await come(house, "bert", "client-3")
    for name in ("bert", "client-3"):
        await cora.send(
            json.dumps({"kind": "mcp/request", "to": [name], "payload": {"method": "tools/list"}})
        )
        assert (await hear(bert, "mcp/request"))["to"] == ["client-3"]
    await cora.send('{"kind":"mcp/request","to":["anna"],"payload":{"method":"tools/list"}}')
    assert (await hear(cora, "system/error"))["payload"]["error"] == "capability_violation"


async def test_nothing_that_a_gateway_says_would_crash_a_client(open_house: Open) -> None:
    """A message of `type` or `kind` `error` becomes an uncaught error there."""
    house = await open_house()
    house.gateway.enrol("demo", "anna", ALL)
    link = await come(house, "anna")
    said: list[dict[str, Any]] = []
    for text in (
        "{",
        "[]",
        '{"kind":"system/error"}',
        '{"kind":"stream/close","payload":{"stream_id":"stream-9"}}',
        "#x",
    ):
        await link.send(text)
        said.append(await take(link))
    assert all(one["kind"] != "error" and "type" not in one and one["protocol"] == "mew/v0.4" for one in said)
