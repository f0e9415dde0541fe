"""How the space says no: one error to the sender, nothing to anybody else, and a status over HTTP."""

from __future__ import annotations

import json
import timeit
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.protocol.envelope import MAX_ID, NEAR, find_id, is_id
from mew_lab.space.events import Limited, Oversize, Received, Record, RefusedBefore, outline
from mew_lab.space.refusal import Refusal
from mew_lab.space.snapshot import snapshot
from mew_lab.space.state import LIMITS

from ..conftest import examples
from .stage import Stage


@pytest.mark.req("P-4.2-4")
def test_a_refusal_says_which_capability_came_nearest() -> None:
    stage = Stage(bot=[{"kind": "mcp/request", "payload": {"params": {"name": "read_*"}}}, "chat"])
    step = stage.send("bot", "mcp/request", {"params": {"name": "write_it"}})
    assert 'wants payload.params.name "read_*", got "write_it"' in step.error["nearest"]
    assert step.record.detail == step.error["nearest"]


@pytest.mark.req("P-3-14")
@pytest.mark.parametrize(
    "message",
    [
        {"kind": "chat", "to": "bob"},
        {"kind": "chat", "protocol": "mew/v0.3"},
        {"kind": "chat", "payload": []},
        {"kind": "chat", "from": "somebody-else"},
        {"kind": "system/welcome"},
        {"kind": "mcp/request"},
        {"payload": {}},
    ],
)
def test_an_error_names_the_message_that_it_speaks_of_whatever_was_wrong(message: dict[str, Any]) -> None:
    step = Stage(bot=["chat"]).raw("bot", json.dumps({"id": "m-7", **message}))
    assert step.said("system/error").correlation_id == ("m-7",)


SENT = {
    "protocol": "mew/v0.4",
    "id": "m-7",
    "ts": "2026-01-01T00:00:00Z",
    "to": ["alice"],
    "correlation_id": ["id"],
}
MANY = "[" + ",".join(["[]"] * (LIMITS.turn_steps + 1)) + "]"
REFUSED = {  # what is wrong with it -> the kind and the payload, as text
    "too many values": ("chat", f'{{"x":{MANY}}}', "limit_exceeded"),
    "a key twice": ("chat", '{"x":1,"x":2}', "invalid_json"),
    "no JSON": ("chat", '{"x":NaN}', "invalid_json"),
    "cut": ("chat", '{"x":', "invalid_json"),
    "a surrogate": ("chat", r'{"x":"\ud800"}', "invalid_json"),
    "too deep": ("chat", '{"x":' + "[" * 70 + "]" * 70 + "}", "invalid_json"),
    "too large a number": ("chat", '{"x":1e999}', "invalid_number"),
    "too many bytes": ("chat", '{"x":"' + "x" * 1_100_000 + '"}', "message_too_large"),
    "no object": ("chat", "7", "invalid_envelope"),
    "no kind": ("", "{}", "invalid_envelope"),
    "reserved": ("system/welcome", "{}", "reserved_kind"),
    "no right": ("mcp/request", "{}", "capability_violation"),
    "nobody": ("space/kick", '{"participant_id":"nobody"}', "participant_not_found"),
}


@pytest.mark.req("P-3-14", "P-3.8.2-1")
@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("how", ["text", "bytes", "http"])
@settings(max_examples=examples(20))
@given(drawn=st.data())
def test_each_refusal_names_its_message_wherever_the_plain_members_stand(
    what: str, how: str, drawn: st.DataObject
) -> None:
    kind, payload, code = REFUSED[what]
    members = [f"{json.dumps(key)} : {json.dumps(value)}" for key, value in (*SENT.items(), ("kind", kind))]
    members = drawn.draw(st.permutations(members))
    cut = drawn.draw(st.integers(0, len(members))) if what != "cut" else len(members)
    blank = drawn.draw(st.sampled_from(["", " ", "\n\t"]))
    text = (
        blank + "{" + f"{blank},{blank}".join([*members[:cut], f'"payload":{payload}', *members[cut:]]) + "}"
    )
    stage = Stage(alice=[], bot=["chat", "space/*"])
    data = text.encode() if how == "bytes" else text
    step = stage.step(Received(data, None, "bot", "bot") if how == "http" else Received(data, "bot"))
    assert step.record.code == code
    assert step.said("system/error").correlation_id == ("m-7",)


@given(
    before=st.dictionaries(st.sampled_from(["a", "id", "b,", '"id":"x"', "}"]), st.deferred(lambda: HOSTILE)),
    indent=st.sampled_from([None, 1]),
)
def test_an_id_that_is_found_in_an_unread_message_is_the_one_that_a_reader_finds(
    before: dict[str, Any], indent: int | None
) -> None:
    text = json.dumps(before, indent=indent)
    assert find_id(text) in ("", before.get("id"))
    assert find_id(text.encode()) == find_id(text)


HOSTILE = st.recursive(
    st.sampled_from(
        ["x", "y", ',"id":"x"', ',"id":"x"}', "\\", '"', "", "{", "\x1b", "é" * 300, 7, None, "id"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "c"]), inner),
    max_leaves=6,
)


@given(st.text(st.sampled_from('{}[]",:\\ id7')))
def test_any_text_may_be_looked_through_for_an_id(text: str) -> None:
    assert find_id("{" + text) == "" or is_id(find_id("{" + text))


def test_looking_for_an_id_takes_no_more_time_for_a_larger_text() -> None:
    small, large = ("{" + '"a":[],' * count + '"b":{' + ',"id":"x' * count for count in (NEAR, 20 * NEAR))
    took = [
        min(timeit.repeat(lambda text=text: find_id(text), number=3, repeat=3)) for text in (small, large)
    ]
    assert took[1] < 5 * took[0]


@pytest.mark.parametrize(
    "text", ["{", '{"kind":"chat","id":7}', '{"id":"' + "x" * (MAX_ID + 1) + '","kind":"chat"}', "[]"]
)
def test_where_there_is_no_id_to_name_none_is_named(text: str) -> None:
    step = Stage(bot=["chat"]).raw("bot", text)
    assert step.said("system/error").correlation_id == ()
    assert step.error["error"] == "invalid_request"


def test_an_error_about_a_message_without_an_id_that_was_read_names_the_id_it_was_given() -> None:
    step = Stage(bot=["chat"]).raw("bot", '{"kind":"mcp/request"}')
    [named] = step.said("system/error").correlation_id
    assert named.startswith("gw-")


@pytest.mark.parametrize(
    ("kind", "status", "body"),
    [
        ("mcp/request", 403, {"error": "capability_violation", "message": "Participant bot lacks capability for mcp/request"}),
        ("system/register", 400, {"error": "invalid_request", "code": "reserved_kind", "message": "system/register is reserved for the gateway. Use capability/grant instead."}),
    ],
)  # fmt: skip
def test_by_http_a_refusal_has_its_words_and_its_code(kind: str, status: int, body: dict[str, str]) -> None:
    reply = Stage(bot="space/*").post("bot", kind, {}).reply
    assert (reply.status, reply.body) == (status, body)


def test_under_which_id_a_poster_spoke_is_kept_where_it_was_not_its_name() -> None:
    stage = Stage(bot=["chat"], absent=["bot"])
    stage.join("bot", as_="client-7")
    said = stage.post("bot", "chat", as_="client-7")
    assert (said.said("chat").sender, said.record.runtime_id) == ("client-7", "client-7")
    assert stage.post("bot", "chat").record.runtime_id == ""
    assert stage.post("bot", "mcp/request", as_="client-7").record.runtime_id == "client-7"


# --- what was never read ---


@pytest.mark.req("P-3-1")
@pytest.mark.threat(8, 9)
def test_of_what_was_too_large_or_too_much_only_figures_are_kept_and_the_connection_lives() -> None:
    stage = Stage(bot=["chat"])
    large = stage.step(Oversize("bot", 2_000_000, "a" * 64))
    assert (large.error["error"], large.error["code"]) == ("invalid_request", "message_too_large")
    assert json.loads(large.record.detail) == {"size": 2_000_000, "sha256": "a" * 64}
    many = stage.step(Limited("bot", 12))
    assert (many.error["error"], many.error["messages"]) == ("limit_exceeded", 12)
    for step in (large, many):
        assert step.record.raw is None and step.closed == {} and step.hearers == {"bot"}
    assert stage.send("bot", "chat").accepted


@pytest.mark.req("P-3-1")
def test_by_http_too_large_is_413_and_after_a_kick_403() -> None:
    stage = Stage(alice="*", bot=[])
    oversize = Oversize(None, 2_000_000, "a" * 64, "bot", "bot")
    refused = stage.step(oversize)
    assert (refused.reply.status, refused.record.via) == (413, "http")
    stage.send("alice", "space/kick", {"participant_id": "bot"})
    assert stage.step(oversize).reply.status == 403
    assert stage.step(Received("{}", None, "bot", "bot")).reply.status == 403


def test_who_is_gone_is_told_nothing() -> None:
    stage = Stage(bot=[])
    stage.leave("bot")
    assert stage.step(Oversize("bot", 2_000_000, "a" * 64)).effects == ()
    assert stage.step(Limited("bot", 1)).effects == ()


def test_a_refusal_carries_its_code_beside_the_error_only_where_they_differ() -> None:
    assert Refusal("paused", "no").payload == {"error": "paused", "message": "no"}
    assert Refusal("invalid_request", "no", code="reserved_kind").payload == {
        "error": "invalid_request",
        "code": "reserved_kind",
        "message": "no",
    }


# --- what is kept of a long one (R30) ---

LONG = "x" * 5000


def refused_long(stage: Stage, **members: str) -> Record:
    """The record of a refused message of more than 4 KiB."""
    text = json.dumps({**members, "kind": "mcp/request", "payload": {"x": LONG}})
    record = stage.raw("bot", text).record
    assert record.verdict == "refused" and outline(record) is not None
    return record


@pytest.mark.ruling("R30")
@pytest.mark.parametrize("surrogates", ["\ud800", "\udc80\ud800", "\udfff"])
def test_of_a_long_text_with_lone_surrogates_size_and_digest_are_those_of_its_bytes(surrogates: str) -> None:
    text = surrogates * 3000
    record = Stage(bot=["chat"]).raw("bot", text).record
    known = outline(record)
    data = text.encode("utf-8", "surrogatepass")  # a surrogate has three bytes in any reader that takes one
    assert record.code == "invalid_json" and known is not None
    assert (known.size, known.sha256) == (3000 * len(surrogates) * 3, sha256(data).hexdigest())
    assert record.raw is not None and record.raw.isascii() and record.raw.startswith("\\xed\\x")


@pytest.mark.ruling("R30")
def test_a_refusal_that_is_not_kept_whole_is_told_as_not_known() -> None:
    known = outline(Stage(bot=["chat"]).raw("bot", LONG).record)
    assert str(known) == "not known: 5000 bytes were refused, and only the beginning is kept"


@pytest.mark.ruling("R30")
@pytest.mark.threat(32)
@pytest.mark.parametrize(
    "change",
    [
        {"verdict": "accepted"},
        {"event": "oversize"},
        {"detail": "{}"},
        {"detail": '{"size":'},
        {"detail": '{"size":1}'},
        {"detail": '{"size":1,"sha256":"a","messages":1,"why":"","more":1}'},
        {"detail": '{"size":true,"sha256":"a","messages":1,"why":""}'},
        {"detail": '{"size":1,"sha256":"a","messages":"1","why":""}'},
        {"detail": '{"size":1,"sha256":"a","messages":1,"why":null}'},
        {"detail": '{"size":' + "[" * 100_000},
    ],
)
def test_a_record_that_does_not_tell_what_is_kept_of_a_refusal_is_none_of_these(
    change: dict[str, str],
) -> None:
    stage = Stage(bot=["chat"])
    record = refused_long(stage)._replace(**change)  # type: ignore[arg-type]
    assert outline(record) is None
    before = snapshot(stage.space)
    with pytest.raises(ValueError, match="does not tell what was refused"):
        stage.step(RefusedBefore(record))
    assert snapshot(stage.space) == before


@pytest.mark.ruling("R30")
@pytest.mark.parametrize("members", [{"id": "m-1"}, {}])
def test_a_replay_takes_verdict_and_counter_from_the_record(members: dict[str, str]) -> None:
    stage, again = Stage(bot=["chat"]), Stage(bot=["chat"])
    record = refused_long(stage, **members)
    step = again.step(RefusedBefore(record))
    assert step.record == record and step.hearers == {"bot"}
    assert step.error["error"] == "capability_violation"
    assert snapshot(again.space) == snapshot(stage.space)
    assert stage.send("bot", "mcp/request").effects == again.send("bot", "mcp/request").effects


@pytest.mark.ruling("R30")
@pytest.mark.threat(32)
@pytest.mark.parametrize(("more", "possible"), [(-1, False), (0, True), (1, True), (2, False)])
def test_a_record_whose_counter_no_step_could_have_brought_there_is_not_replayed(
    more: int, possible: bool
) -> None:
    stage = Stage(bot=["chat"])
    record = refused_long(stage, id="m-1")
    again = Stage(bot=["chat"])
    known = outline(record)
    assert known is not None and known.messages == again.space.state.messages
    record = record._replace(
        detail=json.dumps(known._replace(messages=known.messages + more)._asdict()).replace(" ", "")
    )
    if possible:
        assert again.step(RefusedBefore(record)).record == record
        return
    before = snapshot(again.space)
    with pytest.raises(ValueError, match="messages of the gateway's own"):
        again.step(RefusedBefore(record))
    assert snapshot(again.space) == before


@pytest.mark.ruling("R30")
def test_a_refusal_of_a_connection_that_is_not_there_is_no_event_at_all() -> None:
    stage = Stage(bot=["chat"])
    record = refused_long(stage)
    before = snapshot(stage.space)
    for gone in (record._replace(connection="c-9"), record._replace(connection="", participant="nobody")):
        assert stage.step(RefusedBefore(gone)).effects == ()
    assert snapshot(stage.space) == before
