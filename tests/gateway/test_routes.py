"""What HTTP answers, over real sockets."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta, timezone
from typing import Any
from urllib.parse import urlencode

import pytest

from mew_lab.gateway import routes
from mew_lab.gateway.delivery import DeliveryQueue
from mew_lab.gateway.ring import MAX_ENVELOPES

from .conftest import CHAT, House, Open, raw_request, take, until


async def test_health_tells_no_names_and_asks_no_token(house: House) -> None:
    await house.join("anna")
    response = await house.http("GET", "/health")
    said = response.json()
    assert (said["status"], said["spaces"], said["clients"]) == ("ok", 1, 1)
    assert said["features"] == ["capabilities", "context", "validation", "http-io"]
    assert said["uptime"] >= 0
    assert said["run"] == house.server.run and len(said["run"]) == 32
    assert not any(name in response.text for name in ("demo", "anna", "bert"))


async def test_participants_are_told_to_who_has_a_token_of_the_space(house: House) -> None:
    await house.join("anna")
    response = await house.http("GET", "/participants?space=demo", headers=house.bearer("bert"))
    assert response.status_code == 200
    told = {one["id"]: one["connected"] for one in response.json()["participants"]}
    assert told == {"anna": True, "bert": False, "cora": False}
    assert (await house.http("GET", "/participants?space=demo")).status_code == 401
    wrong = await house.http("GET", "/participants?space=demo", headers={"Authorization": "Bearer wrong-one"})
    nowhere = await house.http("GET", "/participants?space=nowhere", headers=house.bearer("bert"))
    assert (wrong.status_code, wrong.content) == (nowhere.status_code, nowhere.content)
    assert wrong.status_code == 403


@pytest.mark.req("P-5.3-1", "P-5.3-3", "P-5.3-4")
async def test_a_post_is_delivered_like_any_message_and_answered(house: House) -> None:
    anna = await house.join("anna")
    response = await house.post("bert", {**CHAT, "id": "chosen-1"}, params={"space": "demo"})
    envelope = await take(anna)
    assert (envelope["from"], envelope["id"], envelope["kind"]) == ("bert", "chosen-1", "chat")
    said = response.json()
    assert (response.status_code, said["id"], said["status"]) == (200, "chosen-1", "accepted")
    assert said["timestamp"] == envelope["ts"]


async def test_what_a_post_causes_is_on_the_wire_before_its_answer(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.join("bert")
    order: list[str] = []
    flush, answer = DeliveryQueue.flush, routes.JSONResponse

    def flushed(self: DeliveryQueue) -> None:
        order.append("delivered")
        flush(self)

    def answered(*said: Any, **more: Any) -> Any:
        order.append("answered")
        return answer(*said, **more)

    monkeypatch.setattr(DeliveryQueue, "flush", flushed)
    monkeypatch.setattr(routes, "JSONResponse", answered)
    await house.post("anna", CHAT)
    assert order == ["delivered", "answered"]


async def test_a_body_that_does_not_come_is_not_waited_for(open_house: Open) -> None:
    house = await open_house(limits={"body": 0.05})
    head = (
        f"POST /participants/anna/messages HTTP/1.1\nHost: {house.at}\nContent-Type: application/json\n"
        f"Authorization: {house.bearer('anna')['Authorization']}\nContent-Length: 100\n\n"
    )
    status, body = await raw_request(house, head)
    assert (status, json.loads(body)) == (408, {"error": "the body did not come within 0.05 s"})


async def test_a_participant_may_post_under_the_runtime_id_it_has_now(house: House) -> None:
    anna = await house.join("anna", runtime_id="anna-7")
    response = await house.post("anna", CHAT, as_="anna-7")
    assert response.status_code == 200
    assert (await take(anna))["from"] == "anna-7"
    assert (await house.post("anna", CHAT, as_="anna-8")).status_code == 403


@pytest.mark.req("P-5.3-3")
async def test_a_token_of_another_participant_does_not_post(house: House) -> None:
    for asked in ({"as_": "bert"}, {"as_": "nobody"}, {"params": {"space": "nowhere"}}):
        response = await house.post("anna", CHAT, **asked)
        assert (response.status_code, response.json()) == (403, {"error": "Invalid token for participant"})


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Basic abc"}, {"Authorization": "Bearer"}])
async def test_a_post_without_a_token_is_refused(house: House, headers: dict[str, str]) -> None:
    response = await house.http("POST", "/participants/anna/messages", json=CHAT, headers=headers)
    assert response.status_code == 401
    assert response.json() == {"error": "Missing or invalid authorization header"}


async def test_a_body_without_a_kind_is_refused_in_the_words_of_the_specification(house: House) -> None:
    response = await house.post("anna", {"payload": {}})
    assert (response.status_code, response.json()["error"]) == (400, "Message kind is required")


@pytest.mark.threat(25)
@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_a_body_that_a_web_page_could_send_is_refused(house: House, content_type: str) -> None:
    headers = {**house.bearer("anna"), "Content-Type": content_type}
    response = await house.http("POST", "/participants/anna/messages", content=b"{}", headers=headers)
    assert response.status_code == 415


REFUSED = {
    "without a token": ("/participants/anna/messages", "", "application/json", 401),
    "by another": ("/participants/bert/messages", "anna", "application/json", 403),
    "of another type": ("/participants/anna/messages", "anna", "text/plain", 415),
    "nowhere": ("/nowhere", "anna", "application/json", 404),
}


@pytest.mark.parametrize("why", REFUSED)
async def test_who_sends_its_body_after_the_head_receives_its_refusal(house: House, why: str) -> None:
    path, name, type_, status = REFUSED[why]
    head = f"POST {path} HTTP/1.1\r\nHost: {house.at}\r\nContent-Type: {type_}\r\nContent-Length: 60000\r\n"
    if name:
        head += f"Authorization: {house.bearer(name)['Authorization']}\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", int(house.at.rpartition(":")[2]))
    for part in (head + "\r\n", "x" * 30_000, "x" * 30_000):
        writer.write(part.encode())
        await writer.drain()
        await asyncio.sleep(0.05)
    answer = await reader.read()
    writer.close()
    assert answer.split()[1] == str(status).encode()
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]


async def test_a_body_over_the_limit_is_refused_and_one_far_over_it_is_not_even_read(
    open_house: Open,
) -> None:
    house = await open_house(space={"message_bytes": 10_000})
    for size in (10_001, 40_001, 1_000_000):
        response = await house.post("anna", {"kind": "chat", "payload": {"text": "x" * size}})
        assert response.status_code == 413


@pytest.mark.threat(9, 37)
@pytest.mark.ruling("R23")
async def test_who_posts_too_fast_is_told_and_others_may_go_on(open_house: Open) -> None:
    house = await open_house(limits={"burst": 2, "messages_per_second": 0.001})
    answers = [await house.post("anna", CHAT) for _ in range(3)]
    assert [one.status_code for one in answers] == [200, 200, 429]
    assert answers[2].json()["error"] == "limit_exceeded"
    assert int(answers[2].headers["Retry-After"]) >= 1
    assert (await house.post("bert", CHAT)).status_code == 200


@pytest.mark.threat(37)
@pytest.mark.ruling("R23")
async def test_what_is_posted_again_after_the_time_that_was_told_passes(open_house: Open) -> None:
    house = await open_house(limits={"burst": 1, "messages_per_second": 2.0})
    assert (await house.post("anna", CHAT)).status_code == 200
    refused = await house.post("anna", CHAT)
    assert (refused.status_code, refused.json()["error"]) == (429, "limit_exceeded")
    await asyncio.sleep(int(refused.headers["Retry-After"]))
    assert (await house.post("anna", CHAT)).status_code == 200
    assert sum(one.event == "received" for one in house.records) == 2


async def test_what_does_not_exist_is_told_in_json(house: House) -> None:
    for method, path, status in (("GET", "/nowhere", 404), ("PUT", "/health", 405), ("GET", "/ws", 426)):
        response = await house.http(method, path)
        assert response.status_code == status
        assert set(response.json()) <= {"error", "message"}


# --- what went out lately ---


async def messages(house: House, name: str, **asked: Any) -> dict[str, Any]:
    response = await house.http(
        "GET", f"/participants/{name}/messages", headers=house.bearer(name), params=asked
    )
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    said: dict[str, Any] = response.json()
    return said


def texts(said: dict[str, Any]) -> list[str]:
    return [one["payload"]["text"] for one in said["messages"] if one["kind"] == "chat"]


async def say(house: House, *words: str) -> None:
    for word in words:
        assert (await house.post("anna", {"kind": "chat", "payload": {"text": word}})).status_code == 200


@pytest.mark.req("P-5.3-5", "P-5.3-6")
async def test_what_went_out_is_given_to_the_byte(house: House) -> None:
    bert = await house.join("bert")
    raw = '{ "protocol":"mew/v0.4","id":"m-1",\n "ts":"1999-01-01T00:00:00Z","from":"bert","kind":"chat","payload":{"text":"\\u00e4 é"}}'
    await bert.send(raw)
    assert await bert.receive() == raw
    response = await house.http("GET", "/participants/anna/messages", headers=house.bearer("anna"))
    assert raw.encode() in response.content
    whole = response.json()
    assert [one["id"] for one in whole["messages"] if one["kind"] == "chat"] == ["m-1"]
    assert whole["more"] is False


@pytest.mark.req("P-5.3-5")
@pytest.mark.threat(33)
async def test_who_polls_gets_each_message_once_whatever_time_it_claims(house: House) -> None:
    await say(house, "one", "two")
    first = await messages(house, "bert")
    assert texts(first) == ["one", "two"]
    await house.post("anna", {"kind": "chat", "ts": "1999-01-01T00:00:00Z", "payload": {"text": "old"}})
    await house.post("anna", {"kind": "chat", "ts": "2099-01-01T00:00:00Z", "payload": {"text": "new"}})
    second = await messages(house, "bert", since=first["next"])
    assert texts(second) == ["old", "new"]
    third = await messages(house, "bert", since=second["next"])
    assert third["messages"] == []


async def test_a_limit_makes_pages(house: House) -> None:
    await say(house, *"abcde")
    seen: list[str] = []
    asked: dict[str, Any] = {"limit": 2}
    for expected in (True, True, False):
        page = await messages(house, "bert", **asked)
        assert page["more"] is expected
        seen += texts(page)
        asked["since"] = page["next"]
    assert seen == list("abcde")


@pytest.mark.req("P-5.3-7")
async def test_private_messages_are_given_to_their_addressee_alone(house: House) -> None:
    anna = await house.join("anna", runtime_id="anna-7")
    await anna.send('{"kind":"space/kick","payload":{}}')
    assert (await take(anna))["kind"] == "system/error"
    kinds = {
        name: [one["kind"] for one in (await messages(house, name))["messages"]] for name in ("anna", "bert")
    }
    assert kinds["anna"] == ["system/welcome", "system/presence", "system/error"]
    assert kinds["bert"] == ["system/presence"]


@pytest.mark.req("P-5.3-7")
async def test_messages_need_the_token_of_the_participant_that_is_named(house: House) -> None:
    wrong = {"Authorization": "Bearer wrong-one"}
    for headers, status in (({}, 401), (wrong, 403), (house.bearer("bert"), 403)):
        response = await house.http("GET", "/participants/anna/messages", headers=headers)
        assert response.status_code == status
    await house.join("anna", runtime_id="anna-7")
    response = await house.http("GET", "/participants/anna-7/messages", headers=house.bearer("anna"))
    assert response.status_code == 200


@pytest.mark.parametrize(
    "since",
    [
        "2020-01-01T00:00:00Z",
        "2020-01-01t00:00:00.123456789z",
        "2020-01-01 05:30:00+05:30",
        "2019-12-31T18:29:60-05:30",
        "2020-01-01T00:00:00-00:00",
        "0001-01-01T00:00:00Z",
    ],
)
async def test_any_rfc_3339_timestamp_can_be_asked_from(house: House, since: str) -> None:
    await say(house, "hello")
    assert texts(await messages(house, "bert", since=since)) == ["hello"]
    unescaped = f"/participants/bert/messages?since={since.replace(' ', 'T')}"
    response = await house.http("GET", unescaped, headers=house.bearer("bert"))
    assert texts(response.json()) == ["hello"]


async def test_an_offset_is_reckoned_with(house: House) -> None:
    await say(house, "hello")
    (came,) = [one for one in house.records if one.raw and "hello" in one.raw]
    east = timezone(timedelta(hours=9))
    before, after = (
        (came.now + shift).astimezone(east).isoformat() for shift in (timedelta(hours=-1), timedelta(hours=1))
    )
    assert texts(await messages(house, "bert", since=before)) == ["hello"]
    assert texts(await messages(house, "bert", since=after)) == []


@pytest.mark.parametrize(
    "asked",
    [
        {"since": ""},
        {"since": "yesterday"},
        {"since": "2026-01-01"},
        {"since": "2026-01-01T00:00:00"},
        {"since": "2026-02-30T00:00:00Z"},
        {"since": "2026-01-01T24:00:00Z"},
        {"since": "0001-01-01T00:00:00+01:00"},
        {"since": "9999-12-31T23:59:60Z"},
        {"since": "٢٠٢٦-01-01T00:00:00Z"},
        {"since": "1767225600"},
        {"since": "2026-01-01T00:00:00Z\n"},
        {"limit": "0"},
        {"limit": "10001"},
        {"limit": "-1"},
        {"limit": "1e2"},
        {"limit": ""},
        {"limit": "9" * 5000},
    ],
)
async def test_a_time_or_limit_that_is_none_is_a_bad_request(house: House, asked: dict[str, str]) -> None:
    response = await house.http(
        "GET", "/participants/anna/messages", headers=house.bearer("anna"), params=asked
    )
    assert response.status_code == 400
    assert response.json()["error"].startswith(f"{next(iter(asked))} must be")


@pytest.mark.threat(9)
async def test_who_asks_for_what_is_no_longer_kept_is_told_so(house: House) -> None:
    before = (await messages(house, "bert"))["next"]
    for _ in range(MAX_ENVELOPES + 1):
        assert house.gateway.post("demo", "anna", '{"kind":"chat"}').status == 200
    response = await house.http(
        "GET", "/participants/bert/messages", headers=house.bearer("bert"), params={"since": before}
    )
    assert response.status_code == 410
    assert response.json()["error"] == "gone"
    assert response.json()["message"] == (
        "messages received after that time are not kept any more; leave since out to get all that are"
    )
    assert len((await messages(house, "bert"))["messages"]) == MAX_ENVELOPES


@pytest.mark.threat(9)
async def test_who_asks_too_often_is_told(open_house: Open) -> None:
    house = await open_house(limits={"burst": 1, "messages_per_second": 0.001})
    await messages(house, "anna")
    response = await house.http("GET", "/participants/anna/messages", headers=house.bearer("anna"))
    assert (response.status_code, response.json()["error"]) == (429, "limit_exceeded")


@pytest.mark.threat(9, 37)
@pytest.mark.ruling("R23")
async def test_who_asks_for_the_participants_too_often_is_told(open_house: Open) -> None:
    house = await open_house(limits={"burst": 1, "messages_per_second": 0.001})
    answers = [await house.http("GET", "/participants", headers=house.bearer("anna")) for _ in range(2)]
    assert [one.status_code for one in answers] == [200, 429]
    assert (await house.http("GET", "/participants", headers=house.bearer("bert"))).status_code == 200


@pytest.mark.threat(9, 37)
async def test_who_leaves_many_bodies_half_sent_makes_nobody_else_wait_and_has_few_of_them_read(
    house: House,
) -> None:
    host, port = "127.0.0.1", house.server.port
    head = (
        f"POST /participants/anna/messages HTTP/1.1\r\nHost: {host}:{port}\r\n"
        f"Authorization: {house.bearer('anna')['Authorization']}\r\n"
        "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
    )
    halves = [await asyncio.open_connection(host, port) for _ in range(routes.BODIES)]
    for _, writer in halves:
        writer.write(head.encode())

    async def stuck_post() -> asyncio.Task[Any] | None:
        posting = asyncio.create_task(house.post("anna", CHAT))
        done, _ = await asyncio.wait({posting}, timeout=0.2)
        return None if done else posting

    async with asyncio.timeout(20):
        while (waiting := await stuck_post()) is None:  # until all halves are being read
            pass
    assert (await house.post("bert", CHAT)).status_code == 200
    assert not waiting.done()
    halves[0][1].close()
    assert (await waiting).status_code == 200
    for _, writer in halves[1:]:
        writer.close()


@pytest.mark.threat(9)
async def test_an_answer_that_nobody_reads_is_given_up(open_house: Open) -> None:
    house = await open_house(limits={"body": 0.1, "burst": 10_000})
    large = json.dumps({"kind": "chat", "payload": {"text": "x" * 1_000_000}})
    for _ in range(15):
        assert house.gateway.post("demo", "anna", large).status == 200
    before = asyncio.all_tasks()
    reader, writer = await asyncio.open_connection("127.0.0.1", house.server.port)
    head = f"GET /participants/bert/messages HTTP/1.1\r\nHost: {house.at}\r\n"
    writer.write(f"{head}Authorization: {house.bearer('bert')['Authorization']}\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    assert asyncio.all_tasks() > before, "it is being answered"
    await until(lambda: asyncio.all_tasks() <= before)
    heard = len(await reader.read(-1))
    assert heard < 15_000_000
    writer.close()


async def test_the_description_is_there_for_everybody_but_a_foreign_host(house: House) -> None:
    response = await house.http("GET", "/openapi.json")
    assert response.status_code == 200
    assert response.json()["openapi"] == "3.1.0"
    response = await house.http("GET", "/openapi.json", headers={"Host": "evil.test"})
    assert response.status_code == 421


@pytest.mark.threat(1)
@pytest.mark.parametrize("form", ["join", "system/join", "with blanks", "broken", "no UTF-8"])
async def test_the_token_of_a_posted_join_frame_stands_in_no_journal(house: House, form: str) -> None:
    secret = house.tokens["bert"].reveal()
    payload = {"space": "demo", "token": secret, "participantId": "bert"}
    body = {
        "join": json.dumps({"type": "join", **payload}),
        "system/join": json.dumps({"kind": "system/join", "payload": payload}),
        "with blanks": json.dumps({"t": 1, "\u0074ype": "j\u006fin", **payload}, indent=3),
        "broken": json.dumps({"type": "join", **payload})[:-1],
        "no UTF-8": json.dumps({"type": "join", **payload})[:-1] + "\udcff}",
    }[form]
    headers = {**house.bearer("anna"), "Content-Type": "application/json"}
    content = body.encode("utf-8", "surrogateescape")
    answer = await house.http("POST", "/participants/anna/messages", content=content, headers=headers)
    assert answer.status_code == 400
    assert secret not in answer.text
    assert secret not in repr(house.records)


@pytest.mark.threat(26)
async def test_wrong_tokens_are_logged_without_the_token_and_not_each_of_them(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    for n in range(5):
        headers = {"Authorization": f"Bearer guess-number-{n}-of-many"}
        assert (await house.http("GET", "/participants", headers=headers)).status_code == 403
    assert [one.getMessage() for one in caplog.records] == [
        "refused since the last such line, for an unknown token or space: 1"
    ]
    assert "guess-number" not in caplog.text


# --- notes ---


@pytest.mark.ruling("R42")
async def test_a_note_is_taken_by_http_and_recorded_under_the_name_of_the_token(house: House) -> None:
    anna = await house.join("anna")
    body = {"id": "q-1", "kind": "mcp/request", "to": ["bert"], "payload": {"method": "tools/call"}}
    assert (await house.post("anna", body)).status_code == 200
    await take(anna)
    note = {"about": "receipt", "proposal": "p-1", "request": "q-1", "decision": "approve", "how": "typed"}

    async def report(name: str, of: str = "anna", **changes: Any) -> Any:
        headers = {"Content-Type": "application/json", **house.bearer(name)}
        content = json.dumps({**note, **changes})
        return await house.http("POST", f"/participants/{of}/notes", headers=headers, content=content)

    taken = await report("anna")
    assert (taken.status_code, taken.json()["status"]) == (200, "accepted")
    others = await report("bert", "bert")
    assert (others.status_code, others.json()["error"]) == (403, "not_yours")
    assert (await report("bert")).status_code == 403  # the token is not that of the path
    assert (await report("anna", how="seen")).status_code == 400
    assert (await report("anna", typed="x" * 3000)).status_code == 413
    plain = {**house.bearer("anna"), "Content-Type": "text/plain"}
    assert (
        await house.http("POST", "/participants/anna/notes", headers=plain, content="{}")
    ).status_code == 415
    [record] = [one for one in house.records if one.event == "reported"]
    assert (record.participant, record.via, json.loads(record.detail)) == ("anna", "http", note)
    await say(house, "after")
    assert json.loads(str(await anna.receive()))["kind"] == "chat"  # the note went to nobody


@pytest.mark.ruling("R42")
async def test_notes_take_from_the_bucket_of_messages(open_house: Open) -> None:
    house = await open_house(limits={"messages_per_second": 0.001, "burst": 3})
    headers = {"Content-Type": "application/json", **house.bearer("anna")}
    statuses = [
        (await house.http("POST", "/participants/anna/notes", headers=headers, content="{}")).status_code
        for _ in range(4)
    ]
    assert statuses == [400, 400, 400, 429]
    assert (await house.post("anna", CHAT)).status_code == 429


@pytest.mark.ruling("R35", "R42")
async def test_a_target_learns_what_was_reported_of_a_call_to_it_and_nobody_else_does(house: House) -> None:
    await house.join("anna")
    note = {"about": "resolution", "request": "q/1 é", "to": ["bert"], "happened": False, "note": "looked"}
    headers = {"Content-Type": "application/json", **house.bearer("anna")}
    sent = await house.http("POST", "/participants/anna/notes", headers=headers, content=json.dumps(note))
    assert sent.status_code == 200

    async def ask(name: str, *query: tuple[str, str], of: str = "") -> Any:
        path = f"/participants/{of or name}/notes?{urlencode(query)}"
        return await house.http("GET", path, headers=house.bearer(name))

    about = ("request", "q/1 é")
    found = {"request": "q/1 é", "happened": False, "by": "anna", "note": "looked"}
    assert (await ask("bert", about, ("to", "bert"))).json() == {"resolution": found}
    for name, *query in (
        ("anna", about, ("to", "bert")),
        ("bert", about, ("to", "anna")),
        ("bert", about, ("to", "bert"), ("to", "cora")),
        ("bert", ("request", "q"), ("to", "bert")),
    ):
        assert (await ask(name, *query)).json() == {"resolution": None}  # type: ignore[arg-type]
    assert (await ask("anna", about, ("to", "bert"), of="bert")).status_code == 403
    for bad in (
        [],
        [about],
        [("to", "bert")],
        [("request", "q" * 257), ("to", "bert")],
        [about, *[("to", "bert")] * 17],
    ):
        assert (await ask("bert", *bad)).status_code == 400
