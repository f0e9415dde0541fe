"""The line down which every message runs: reading, identity, reserved kinds, capability, routing.

Chapters with rules of their own have their own modules; what the transcripts show as text is not repeated here.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from mew_lab.protocol.kinds import ACTED_ON, KINDS, RESERVED
from mew_lab.space.core import RULES, Space
from mew_lab.space.events import TOKEN_PLACEHOLDER, Deliver, Enrolled, HttpReply, Received, Record

from .stage import START, Rights, Stage

CALL = {"jsonrpc": "2.0", "id": 42, "method": "tools/call", "params": {"name": "read_file", "arguments": {}}}


# --- reading (R4, R5, R7) ---


@pytest.mark.req("P-3-2", "P-6.1-1")
def test_our_version_is_v0_4_whether_it_is_said_or_not() -> None:
    stage = Stage(alice="*", bob="*")
    assert stage.send("alice", "chat", protocol="mew/v0.4").accepted
    assert stage.send("alice", "chat").said("chat").members["protocol"] == "mew/v0.4"


@pytest.mark.req("P-8.1-9", "C-16", "S-SEC-7", "P-3.1.2-3")
def test_a_whole_message_goes_out_as_the_bytes_that_came_in() -> None:
    stage = Stage(alice="*", bob=[])
    raw = (
        '{ "signature":"not one", "payload":{"jsonrpc":"2.0","id":1,"result":{"n":1.10,"e":1E2,"big":12345678901234567890}},\n'
        '"kind":"mcp/response","from":"alice","ts":"1999-12-31T23:59:59+01:00","id":"m-1","protocol":"mew/v0.4","x":"\\u00e9 é"}'
    )
    step = stage.raw("alice", raw)
    assert step.told("mcp/response") == {"alice", "bob"}
    assert step.said("mcp/response").raw == raw
    assert (step.record.raw, step.record.received) == (raw, None)


@pytest.mark.req("C-14", "C-16", "P-3-3", "P-3-4", "P-3-5")
def test_what_a_message_lacks_is_filled_in_once_and_nothing_of_it_is_written_anew() -> None:
    stage = Stage(alice="*")
    body = '"kind":"chat", "payload":{"n":1.50}}'
    envelope = stage.raw("alice", "{" + body).said("chat")
    assert envelope.raw.endswith(body) and json.loads(envelope.raw) == envelope.members
    assert envelope.members["protocol"] == "mew/v0.4"
    assert (envelope.sender, envelope.ts) == ("alice", "2026-01-01T00:00:00.000Z")
    assert envelope.id.startswith("gw-0000000000000001-")
    claimed = stage.raw("alice", '{"ts":"1999-01-01T00:00:00Z","id":"mine",' + body).said("chat")
    assert (claimed.ts, claimed.id) == ("1999-01-01T00:00:00Z", "mine")  # as it was said, and never judged


@pytest.mark.req("P-6.4-1", "P-3-9")
def test_a_correlation_id_that_is_a_string_goes_out_as_an_array() -> None:
    stage = Stage(alice="*")
    for said in ("r1", ["r1"], ["r1", "r2"]):
        heard = json.loads(stage.send("alice", "mcp/response", correlation_id=said).said("mcp/response").raw)
        assert heard["correlation_id"] == ([said] if isinstance(said, str) else said)


@pytest.mark.req("C-20", "P-3-21")
@pytest.mark.parametrize("kind", ["participant/clear", "chat", "mcp/request"])
def test_a_payload_may_be_absent_and_counts_as_an_empty_object(kind: str) -> None:
    stage = Stage(alice=[{"kind": kind, "payload": {}}], bob=[])
    said = stage.send("alice", kind).said(kind)
    assert "payload" not in said.members and said.payload == {}
    stage.enrol("alice", [{"kind": kind, "payload": {"text": "*"}}])
    assert not stage.send("alice", kind).accepted


@pytest.mark.req("C-17", "P-7.1-2", "P-4.2-5", "P-4.2-6", "P-4.2-7", "P-8.1-10")
@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("chat", {}),
        ("chat", {"text": 7}),
        ("mcp/request", {"result": {}}),
        ("mcp/request", {"jsonrpc": "1.0", "id": None, "method": 7}),
        ("mcp/response", {"method": "tools/call"}),
        ("mcp/response", {"result": {}, "error": {}}),
        ("mcp/proposal", {"text": "hello"}),
        ("reasoning/thought", {"message": "no context"}),
        ("participant/status", {"messages_in_context": "many"}),
    ],
)
def test_what_a_payload_means_is_not_the_gateways_to_judge(kind: str, payload: dict[str, Any]) -> None:
    stage = Stage(alice="*", bob=[])
    step = stage.send("alice", kind, payload)
    assert step.told(kind) == {"alice", "bob"}
    assert step.said(kind).payload == payload


def test_bytes_are_read_like_text() -> None:
    stage = Stage(alice="*")
    assert stage.raw("alice", b'{"kind":"chat","payload":{"text":"\xc3\xa9"}}').said("chat").payload == {
        "text": "é"
    }
    step = stage.raw("alice", b"\xff")
    assert (step.error["code"], step.record.raw) == ("invalid_json", "\udcff")


@pytest.mark.ruling("R22")
@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 400, "1" + "0" * 309, "-" + "9" * 5000])
def test_a_number_beyond_a_double_is_refused_by_the_id_of_its_message(number: str) -> None:
    """So that a proposer does not wait for what nobody got."""
    stage = Stage(alice="*", bot="*")
    for pad in ("", "x" * 2000):
        text = (
            f'{{"kind":"mcp/proposal","payload":{{"pad":"{pad}","n":[1.5,2,{number}]}},"id":"n-{len(pad)}"}}'
        )
        step = stage.raw("alice", text)
        assert step.error["code"] == "invalid_number"
        assert step.said("system/error").correlation_id == (f"n-{len(pad)}",)
        assert not step.heard("bot")


@pytest.mark.threat(35)
@pytest.mark.ruling("R22")
def test_a_number_that_readers_take_differently_is_refused_with_its_own_code_and_others_pass_as_written() -> (
    None
):
    stage = Stage(alice="*", bot="*")
    step = stage.raw("alice", '{"id":"n-1","kind":"chat","payload":{"n":18446744073709551617}}')
    assert (step.error["error"], step.error["code"]) == ("invalid_request", "invalid_number")
    assert step.said("system/error").correlation_id == ("n-1",)
    assert (
        "18446744073709551617 lies outside -9223372036854775808 to 18446744073709551615"
        in step.error["message"]
    )
    assert not step.heard("bot")
    for spelt in (
        "1e2",
        "1.50",
        "0.1000000000000000055",
        "18446744073709551615",
        "-9223372036854775808",
        "1e300",
    ):
        step = stage.raw("alice", f'{{"kind":"chat","payload":{{"n":{spelt}}}}}')
        assert f'"n":{spelt}}}' in step.said("chat").raw


@pytest.mark.ruling("R22")
@pytest.mark.parametrize(
    "text",
    [
        '{"id":"n-1","id":"n-2","kind":"chat","payload":{"n":18446744073709551617}}',
        '{"id":"n-1","kind":"chat","payload":{"n":18446744073709551617},"id":"n-2"}',
        '{"kind":"chat","payload":{"n":18446744073709551617},"id":"n-1","id":"n-2"}',
    ],
)
def test_such_a_message_is_named_only_where_all_readers_read_the_same_id(text: str) -> None:
    step = Stage(alice="*", bot="*").raw("alice", text)
    assert step.error["code"] == "invalid_number" and step.hearers == {"alice"}
    assert step.said("system/error").correlation_id == ()


def test_of_a_text_that_is_too_large_only_size_and_digest_are_kept() -> None:
    space = Space("demo", epoch=1, participants={"alice": [{"kind": "chat"}]}, limit=1024)
    text = '{"kind":"chat","payload":{"text":"' + "é" * 600 + '"}}'
    record, reply = space.step(Received(text, None, "alice", "alice"), START)
    assert isinstance(record, Record) and isinstance(reply, HttpReply)
    assert (record.event, record.code, record.raw) == ("oversize", "message_too_large", None)
    assert reply.status == 413
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert json.loads(record.detail) == {"size": len(text.encode()), "sha256": digest}


# --- identity (R2) ---


@pytest.mark.req("P-4.1-1", "P-7.1-1")
@pytest.mark.threat(10, 11)
@pytest.mark.parametrize("sender", ["bob", "Alice", "alice ", "аlice", "system:gateway", "gateway", ""])
@pytest.mark.parametrize("kind", ["chat", "mcp/request", "capability/grant"])
@pytest.mark.parametrize("how", ["socket", "http"])
def test_a_foreign_from_is_refused_for_every_kind_and_by_every_way(sender: str, kind: str, how: str) -> None:
    stage = Stage(alice="*", bob="*")
    say = stage.send if how == "socket" else stage.post
    step = say("alice", kind, {}, **{"from": sender})
    assert step.error["error"] == "identity_mismatch" and step.hearers == {"alice"}
    assert say("alice", "chat", {}, **{"from": "alice"}).said("chat").sender == "alice"


@pytest.mark.req("P-4.1-1", "C-26")
def test_who_chose_an_id_speaks_under_it_and_no_longer_under_its_name() -> None:
    stage = Stage(bot="*", absent=["bot"])
    stage.join("bot", as_="client-7")
    assert stage.send("client-7", "chat").said("chat").sender == "client-7"
    assert stage.send("client-7", "chat", **{"from": "bot"}).error["error"] == "identity_mismatch"


# --- reserved kinds (R10) ---


@pytest.mark.req("P-4.1-8", "P-4.1-9", "C-5", "P-4.2-9")
@pytest.mark.threat(10)
@pytest.mark.parametrize("kind", [*sorted(RESERVED), "system/register", "system/x/y", "system"])
@pytest.mark.parametrize("how", ["socket", "http"])
def test_what_is_the_gateways_to_say_nobody_else_says_whatever_it_holds(kind: str, how: str) -> None:
    stage = Stage(alice=["*", kind], bob=[])
    step = (stage.send if how == "socket" else stage.post)("alice", kind, {})
    assert step.hearers == {"alice"}
    assert (step.error["error"], step.error["code"]) == ("invalid_request", "reserved_kind")
    assert step.error["message"] == f"{kind} is reserved for the gateway. Use capability/grant instead."
    assert stage.send("alice", "chat").accepted


@pytest.mark.req("C-5")
def test_the_reserved_kinds_are_those_of_the_ruling() -> None:
    assert {
        *("system/welcome", "system/presence", "system/error", "space/invite-ack"),
        *("stream/write-granted", "stream/write-revoked", "stream/ownership-transferred"),
    } == RESERVED


# --- capability (R11) ---


@pytest.mark.req(
    "P-4.1-3",
    "P-4.1-10",
    "P-4.1-11",
    "P-4.1-12",
    "P-4.2-1",
    "P-4.2-3",
    "P-4.2-9",
    "P-8.1-5",
    "P-8.1-6",
    "C-8",
    "C-13",
)
@pytest.mark.parametrize(
    ("held", "kind", "payload", "passes"),
    [
        (["mcp/*", "chat"], "mcp/request", CALL, True),
        (["mcp/*", "chat"], "mcp/withdraw", {}, True),
        (["mcp/*", "chat"], "chat", {}, True),
        (["mcp/*", "chat"], "stream/request", {}, False),
        (["chat"], "chat/acknowledge", {}, False),
        (["chat"], "chat/cancel", {}, False),
        (["mcp/proposal", "mcp/response", "chat"], "mcp/request", CALL, False),
        (["mcp/proposal", "mcp/response", "chat"], "mcp/proposal", CALL, True),
        ([{"kind": "mcp/request", "payload": {"params": {"name": "read_*"}}}], "mcp/request", CALL, True),
        ([{"kind": "mcp/request", "payload": {"params": {"name": "!read_*"}}}], "mcp/request", CALL, False),
        (["a/*"], "a/b/c", {}, True),
        (["a*"], "a/b", {}, False),
        (["a/*/c"], "a/b/b/c", {}, False),
        (["a/**/c"], "a/b/b/c", {}, True),
        (["*"], "a/b/c", {}, True),
        (["chat*"], "chat", {}, True),
        ([], "chat", {}, False),
    ],
)
def test_a_message_passes_where_one_capability_permits_it_and_is_blocked_where_none_does(
    held: Rights, kind: str, payload: dict[str, Any], passes: bool
) -> None:
    stage = Stage(bot=held, alice=[])
    step = stage.send("bot", kind, payload)
    assert step.accepted is passes
    assert step.kinds("alice") == ([kind] if passes else [])
    if not passes:
        assert step.error["error"] == "capability_violation"


@pytest.mark.req("P-4.2-5", "P-8.1-10", "P-4.2-6")
def test_patterns_compare_payloads_as_plain_data() -> None:
    """What JSON-RPC calls a notification, an error or a batch is an object with members here."""
    stage = Stage(bot=[{"kind": "mcp/request", "payload": {"id": 1}}])
    assert stage.send("bot", "mcp/request", {"id": 1.0}).accepted
    assert not stage.send("bot", "mcp/request", {"id": True}).accepted
    assert not stage.send("bot", "mcp/request", {"id": "1"}).accepted
    assert not stage.send("bot", "mcp/request", {"method": "notifications/progress"}).accepted


@pytest.mark.req("P-5.2-6", "P-5.3-2", "P-3.6-4")
def test_a_capability_binds_each_message_by_every_way() -> None:
    stage = Stage(bot=["chat"])
    stage.join("bot", as_="bot-2")
    for _ in range(3):
        assert stage.send("bot", "chat").accepted and stage.post("bot", "chat").reply.status == 200
        assert not stage.send("bot-2", "mcp/request").accepted
        assert stage.post("bot", "mcp/request").reply.status == 403


@pytest.mark.req("P-3-8", "P-3.9.3-1")
def test_an_unknown_kind_is_matched_and_routed_like_any_other() -> None:
    stage = Stage(bot=["weather/*", "participant/request-status"], alice=[])
    assert stage.send("bot", "weather/report").told("weather/report") == {"bot", "alice"}
    assert stage.send("bot", "participant/request-status").accepted
    assert not stage.send("bot", "participant/requestStatus").accepted
    assert not stage.send("bot", "climate/report").accepted


def test_the_kinds_acted_on_are_those_of_the_rules() -> None:
    assert set(RULES) == ACTED_ON


# --- routing (R1) ---


@pytest.mark.req("P-2.1-1", "P-2.2-1", "P-8.1-8", "P-3-7", "C-1", "P-5.4-1")
@pytest.mark.parametrize("to", [None, [], ["bob"], ["cat", "bob"], ["nobody"], ["gateway"]])
def test_everybody_hears_everything_whomever_it_is_addressed_to(to: list[str] | None) -> None:
    stage = Stage(alice="*", bob=[], cat=[])
    members = {} if to is None else {"to": to}
    step = stage.send("alice", "chat", {"text": "hi"}, **members)
    assert step.told("chat") == {"alice", "bob", "cat"}
    assert step.said("chat").members.get("to") == to


@pytest.mark.req("P-2.1-1")
def test_all_hear_one_stream_in_one_order() -> None:
    stage = Stage(alice="*", bob="*", cat=[])
    steps = [stage.send(name, "chat", id=f"{name}-{n}") for n in range(3) for name in ("alice", "bob")]
    heard = {name: [one.id for step in steps for one in step.heard(name)] for name in ("alice", "bob", "cat")}
    assert (
        heard["alice"]
        == heard["bob"]
        == heard["cat"]
        == [f"{name}-{n}" for n in range(3) for name in ("alice", "bob")]
    )


@pytest.mark.req("P-3.5.6-1", "P-3.5.6-4", "P-3.5.6-5", "P-3-17")
def test_contexts_come_through_as_they_are_and_keep_two_reasonings_apart() -> None:
    stage = Stage(one=["reasoning/*"], two=["reasoning/*"], alice=[])
    said = [
        stage.send(name, kind, {"message": "…"}, context=context, id=id)
        for name, kind, context, id in (
            ("one", "reasoning/start", "job", "s1"),
            ("two", "reasoning/start", "job", "s2"),
            ("one", "reasoning/thought", "job/s1/search", "t1"),
            ("two", "reasoning/thought", "job/s2", "t2"),
            ("one", "reasoning/conclusion", "job/s1", "e1"),
        )
    ]
    heard = [envelope for step in said for envelope in step.heard("alice")]
    assert [(one.sender, one.context) for one in heard] == [
        ("one", "job"),
        ("two", "job"),
        ("one", "job/s1/search"),
        ("two", "job/s2"),
        ("one", "job/s1"),
    ]


def test_a_post_into_an_empty_space_is_kept_though_nobody_hears_it() -> None:
    stage = Stage(alice=["chat"], absent=["alice"])
    assert [type(effect) for effect in stage.post("alice", "chat").effects] == [Record, HttpReply]


@pytest.mark.req("P-5.3-4")
def test_by_http_an_accepted_message_is_answered_with_its_id_and_its_time() -> None:
    step = Stage(alice=["chat"]).post("alice", "chat", id="mine")
    assert step.record.via == "http"
    assert step.reply == HttpReply(
        200, {"id": "mine", "status": "accepted", "timestamp": "2026-01-01T00:00:00.000Z"}
    )


@pytest.mark.threat(6)
def test_a_placeholder_of_a_token_is_filled_where_an_invite_was_answered_and_nowhere_else() -> None:
    """Whatever else says the same as a token's place is text like any other."""
    stage = Stage(alice="*")
    for kind, payload in (
        ("chat", {"token": TOKEN_PLACEHOLDER}),
        ("space/invite", {"participant_id": "a b", "token": TOKEN_PLACEHOLDER}),
        ("system/x", {"token": TOKEN_PLACEHOLDER}),
        ("stream/request", {"token": TOKEN_PLACEHOLDER}),
    ):
        step = stage.post("alice", kind, payload)
        assert not any(one.secret for one in step.of(Deliver) + step.of(HttpReply)), kind


# --- the host ---


def test_an_impossible_enrolment_leaves_no_trace() -> None:
    stage = Stage(alice=["chat"])
    state = stage.space.state
    before = (dict(state.members), state.records, state.messages)
    with pytest.raises(ValueError, match="cannot be"):
        stage.step(Enrolled("gateway", ()))
    assert (dict(state.members), state.records, state.messages) == before


def test_a_participant_has_at_most_eight_connections() -> None:
    stage = Stage(agent=[])
    for n in range(7):
        assert stage.join("agent", as_=f"run-{n}").closed == {}
    step = stage.join("agent", as_="run-7")
    assert step.closed == {"run-7": 4409} and "limit_exceeded" in step.record.detail
    stage.leave("agent")
    assert stage.join("agent", as_="run-7").closed == {}


def test_a_plan_that_is_dropped_never_was() -> None:
    stage = Stage(alice="*")
    message = Received('{"id":"p1","kind":"mcp/proposal","payload":{"method":"tools/list"}}', "alice")
    first = stage.space.plan(message, START)
    again = stage.space.plan(message, START)
    assert first.effects == again.effects and any(isinstance(one, Deliver) for one in first.effects)
    again.commit()
    assert stage.step(message).record.code == "duplicate_id"


@pytest.mark.req("P-3-8")
@pytest.mark.parametrize("kind", sorted(kind for kind in KINDS if kind not in RESERVED))
def test_every_kind_of_the_table_that_a_participant_may_send_is_known(kind: str) -> None:
    """With what it needs to be meant, and from who may send it, none of the 40 is refused."""
    stage = Stage(alice="*", bob=[])
    stream = stage.open("alice") if kind != "stream/open" else "stream-9"
    stage.grant("alice", "bob", "chat", id="g1")
    payload = {
        "recipient": "bob",
        "capabilities": [{"kind": "chat"}],
        "stream_id": stream,
        "new_owner": "bob",
        "participant_id": "new" if kind == "space/invite" else "bob",
    }
    assert stage.send("alice", kind, payload, to=["bob"]).told(kind) >= {"alice", "bob"}
