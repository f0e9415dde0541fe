"""Streams: who opens one, who may write, who gets the frames, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.space.events import Relay
from mew_lab.space.state import SpaceLimits

from .stage import Stage, Step


def parties(**rights: Any) -> Stage:
    """Everybody may do everything with streams."""
    return Stage(**(rights or {"ann": "stream/*", "bob": "stream/*", "cat": "stream/*"}))


def grant(stage: Stage, owner: str, stream: str, to: str) -> Step:
    return stage.send(owner, "stream/grant-write", {"stream_id": stream, "participant_id": to})


def revoke(stage: Stage, owner: str, stream: str, of: str) -> Step:
    return stage.send(owner, "stream/revoke-write", {"stream_id": stream, "participant_id": of})


def transfer(stage: Stage, owner: str, stream: str, to: str) -> Step:
    return stage.send(owner, "stream/transfer-ownership", {"stream_id": stream, "new_owner": to})


def writes(stage: Stage, writer: str, stream: str) -> bool:
    """Whether a frame of this writer is relayed; where it is not, nobody but the writer hears of it."""
    step = stage.frame(writer, f"#{stream}#data".encode())
    if step.of(Relay):
        return True
    assert step.error["error"] == "unauthorized_stream_write" and step.hearers == {writer}
    return False


# --- request and open ---


@pytest.mark.req("P-3.10.1-9")
@pytest.mark.parametrize("to", [["gateway"], ["system:gateway"], ["bob"], ["nobody"], []])
def test_the_gateway_answers_whomever_the_request_was_addressed_to(to: list[str]) -> None:
    step = parties().send("ann", "stream/request", {}, to=to)
    assert step.said("stream/open").payload["stream_id"] == "stream-1"


@pytest.mark.req("C-21", "P-3.6-4")
def test_a_request_needs_the_capability_like_any_kind() -> None:
    stage = Stage(ann=["chat"], bob=["stream/*"])
    refused = stage.send("ann", "stream/request", {})
    assert refused.error["error"] == "capability_violation" and refused.hearers == {"ann"}
    assert stage.open("bob") == "stream-1"


@pytest.mark.threat(9)
def test_a_space_has_so_many_streams_at_a_time_and_describes_them_in_so_many_bytes() -> None:
    stage = Stage(ann="stream/*", limits=SpaceLimits(streams=1))
    stream = stage.open("ann")
    assert stage.send("ann", "stream/request", {}).error["error"] == "limit_exceeded"
    stage.send("ann", "stream/close", {"stream_id": stream})
    assert stage.open("ann") == "stream-2"
    stage = Stage(ann="stream/*", limits=SpaceLimits(description_bytes=1000, share=1))
    assert stage.send("ann", "stream/request", {"description": "x" * 1000}).error["error"] == "limit_exceeded"
    assert stage.open("ann") == "stream-1"


@pytest.mark.threat(9)
def test_the_requests_of_all_active_streams_may_have_exactly_so_many_bytes() -> None:
    def said(limit: int) -> list[bool]:
        stage = Stage(ann="stream/*", limits=SpaceLimits(description_bytes=limit, share=1))
        return [stage.send("ann", "stream/request", {}, id=f"q{n}").accepted for n in range(3)]

    whole = Stage(ann="stream/*").send("ann", "stream/request", {}, id="q0").record.raw
    assert whole is not None
    described = len(whole) + 128 + 70  # and what the gateway says of it, its one writer included
    assert said(2 * described) == [True, True, False]
    assert said(2 * described - 1) == [True, False, False]
    for limit, accepted in ((described + 70, True), (described + 69, False)):  # another writer
        limits = SpaceLimits(description_bytes=limit, share=1)
        stage = Stage(ann="stream/*", bob=[], limits=limits)
        assert stage.send("ann", "stream/request", {}, id="q0").accepted
        assert grant(stage, "ann", "stream-1", "bob").accepted is accepted


# --- what late joiners learn ---


@pytest.mark.req(
    "P-3.8.1-5", "P-3.8.1-6", "P-3.8.1-7", "P-3.10.1-6", "P-3.10.1-8", "P-3.10.8-1", "P-3.10.8-3"
)
def test_a_late_joiner_learns_everything_that_the_request_said_and_whose_the_stream_is() -> None:
    stage = parties()
    asked = {
        "direction": "download",
        "expected_size_bytes": 10485760,
        "description": "Large dataset export",
        "content_type": "application/json",
        "format": "jsonl",
        "target": ["bob"],
        "metadata": {"compression": "gzip", "schema_version": "1.0"},
        "x-custom": {"any": [1, 2.50, None]},
    }
    stage.at(90)
    stream = stage.open("ann", **asked)
    grant(stage, "ann", stream, "cat")
    assert stage.streams() == [
        {
            **asked,
            "stream_id": stream,
            "owner": "ann",
            "authorized_writers": ["ann", "cat"],
            "created": "2026-01-01T00:01:30.000Z",
        }
    ]


@pytest.mark.req("P-3.8.1-5")
def test_a_stream_without_a_direction_is_told_as_an_upload() -> None:
    stage = parties()
    stage.send("ann", "stream/request", {})
    assert stage.streams()[0]["direction"] == "upload"


@pytest.mark.req("P-3.8.1-4", "P-3.10.4-4")
def test_without_active_streams_the_list_is_empty() -> None:
    stage = parties()
    assert stage.streams() == []
    stream = stage.open("ann")
    assert len(stage.streams()) == 1
    stage.send("ann", "stream/close", {"stream_id": stream})
    assert stage.streams() == []


# --- frames ---


@pytest.mark.req("P-3.10.3-4", "P-3.10.1-5", "P-3.8.1-8")
@pytest.mark.parametrize("asked", [{}, {"target": None}, {"target": []}])
def test_frames_without_a_target_go_to_everybody_their_writer_included(asked: dict[str, Any]) -> None:
    stage = parties()
    stream = stage.open("ann", **asked)
    step = stage.frame("ann", f"#{stream}#data".encode())
    assert step.hearers == {"ann", "bob", "cat"}
    assert step.frames("bob") == [f"#{stream}#data".encode()]


@pytest.mark.req("P-3.10.1-4")
def test_a_target_is_the_connection_that_was_there_and_what_listens_with_it() -> None:
    stage = parties()
    stage.sink("bob", on="log")
    stage.open("ann", target=["bob"])
    stage.join("bob", as_="bob-2")
    assert stage.frame("ann", b"#stream-1#data").hearers == {"bob", "log"}
    stage.leave("bob")
    assert stage.frame("ann", b"#stream-1#data").hearers == {"log"}
    stage.leave("log")
    assert stage.frame("ann", b"#stream-1#data").effects == ()


@pytest.mark.req("P-3.10.1-11")
def test_a_target_that_is_not_here_opens_no_stream() -> None:
    stage = parties(ann="stream/*", bob="stream/*", away=[])
    stage.leave("away")
    step = stage.send("ann", "stream/request", {"target": ["bob", "nobody", "away"]}, id="q1")
    assert step.hearers == {"ann"}
    error = step.said("system/error")
    assert (error.payload["error"], error.correlation_id) == ("target_not_found", ("q1",))
    assert error.payload["targets"] == ["nobody", "away"]
    assert stage.streams() == []
    assert stage.open("ann", target=["bob"]) == "stream-1"


def test_targets_come_as_a_list_of_ids() -> None:
    stage = parties()
    for target in ("bob", [7], {"bob": 1}):
        assert stage.send("ann", "stream/request", {"target": target}).error["error"] == "invalid_request"


@pytest.mark.req("P-3.10.3-1", "P-3.10.3-2", "C-18")
@pytest.mark.parametrize("text", [True, False])
def test_frames_of_streams_at_the_same_time_keep_their_bytes_and_their_kind(text: bool) -> None:
    stage = parties()
    first, second = stage.open("ann"), stage.open("bob")
    for writer, stream, data in (
        ("ann", first, b"a#b#\n\x00"),
        ("bob", second, b""),
        ("ann", first, b"#stream-2#not mine"),
    ):
        whole = b"#" + stream.encode() + b"#" + data
        step = stage.frame(writer, whole, text=text)
        assert step.frames("cat") == [whole]
        [relay] = step.effects
        assert relay.text is text


@pytest.mark.req("P-3.10.6-9", "C-18")
@pytest.mark.threat(26)
@pytest.mark.parametrize(
    "data", [b"#stream-1#x", b"#stream-7#x", b"#stream-1", b"##x", b"#", b"#" + b"x" * 300 + b"#y"]
)
def test_a_frame_of_who_may_not_write_reaches_nobody_and_its_sender_is_told(data: bytes) -> None:
    stage = parties()
    stage.open("ann")
    step = stage.frame("bob", data)
    assert step.hearers == {"bob"}
    named = data[1:].split(b"#")[0][:256].decode()
    assert (step.error["error"], step.error["stream_id"]) == ("unauthorized_stream_write", named)
    assert step.error["message"] == f"You are not authorized to write to stream {named}"
    assert writes(stage, "ann", "stream-1")


@pytest.mark.threat(9)
def test_of_refused_frames_ten_a_second_are_told_and_the_rest_counted() -> None:
    stage = parties()
    told = [stage.frame("bob", b"#stream-1#x").kinds("bob") for _ in range(15)]
    assert told == [["system/error"]] * 10 + [[]] * 5
    assert stage.frame("cat", b"#stream-1#x").kinds("cat") == ["system/error"]  # each for itself
    stage.at(1)
    assert stage.frame("bob", b"#stream-1#x").error["refused_before"] == 5
    assert "refused_before" not in stage.frame("bob", b"#stream-1#x").error


# --- close ---


@pytest.mark.req("P-3.10.4-1", "P-3.10.4-2", "P-3.10.4-3", "P-3.10.4-4")
@pytest.mark.parametrize("by", ["stream_id", "request", "open"])
def test_the_owner_closes_by_the_id_or_by_what_the_close_answers_and_no_frame_passes_after(by: str) -> None:
    stage = parties()
    opened = stage.send("ann", "stream/request", {}, id="q1").said("stream/open")
    assert writes(stage, "ann", "stream-1")
    said: dict[str, Any] = {
        "stream_id": {"payload": {"stream_id": "stream-1", "reason": "cancelled"}},
        "request": {"payload": {"reason": "cancelled"}, "correlation_id": ["q1"]},
        "open": {"payload": {"reason": "cancelled"}, "correlation_id": [opened.id]},
    }[by]
    step = stage.send("ann", "stream/close", said.pop("payload"), **said)
    assert step.told("stream/close") == {"ann", "bob", "cat"}
    assert step.said("stream/close").payload["reason"] == "cancelled"
    assert not writes(stage, "ann", "stream-1")
    assert stage.streams() == []


@pytest.mark.req("P-3.10.4-1")
@pytest.mark.threat(26)
def test_a_stranger_and_a_mere_writer_close_nothing() -> None:
    stage = parties()
    stage.send("ann", "stream/request", {}, id="q1")
    grant(stage, "ann", "stream-1", "bob")
    for closer in ("bob", "cat"):
        by_id = stage.send(closer, "stream/close", {"stream_id": "stream-1"})
        by_correlation = stage.send(closer, "stream/close", correlation_id=["q1"])
        for step in (by_id, by_correlation):
            assert step.error["error"] == "unauthorized" and step.hearers == {closer}
    assert writes(stage, "ann", "stream-1")


@pytest.mark.req("P-3.10.6-5", "C-18", "P-3.10.4-1", "P-3.10.4-2", "P-3.10.4-3", "C-4")
def test_when_the_owner_goes_the_gateway_closes_its_streams() -> None:
    stage = parties()
    opened = stage.send("ann", "stream/request", {}).said("stream/open")
    grant(stage, "ann", "stream-1", "bob")
    step = stage.leave("ann")
    assert step.kinds("bob") == ["system/presence", "stream/close"]
    closed = step.said("stream/close")
    assert (closed.sender, closed.correlation_id) == ("system:gateway", (opened.id,))
    assert closed.payload == {"stream_id": "stream-1", "reason": "owner_left"}
    assert not writes(stage, "bob", "stream-1")
    stage.join("ann")
    assert not writes(stage, "ann", "stream-1")
    assert stage.streams() == []


@pytest.mark.req("P-3.6.7-1", "P-3.10.6-5")
def test_who_is_kicked_takes_its_streams_and_its_writing_with_it() -> None:
    stage = Stage(ann="*", bob="stream/*", cat="stream/*")
    of_bob, of_cat = stage.open("bob"), stage.open("cat")
    grant(stage, "cat", of_cat, "bob")
    step = stage.send("ann", "space/kick", {"participant_id": "bob"})
    assert step.said("stream/close").payload["stream_id"] == of_bob
    assert step.said("stream/write-revoked").payload["stream_id"] == of_cat
    assert [one["authorized_writers"] for one in stage.streams()] == [["cat"]]


# --- who may write: grant-write ---


@pytest.mark.req("P-3.10.5-2", "P-3.10.5-7")
@pytest.mark.parametrize("name", ["nobody", "away"])
def test_write_access_is_granted_to_who_is_here(name: str) -> None:
    stage = parties(ann="stream/*", away="stream/*")
    stage.leave("away")
    stage.open("ann")
    step = grant(stage, "ann", "stream-1", name)
    assert (step.error["error"], step.error["participant_id"]) == ("participant_not_found", name)
    assert step.hearers == {"ann"}
    assert stage.streams()[0]["authorized_writers"] == ["ann"]


@pytest.mark.req("P-3.6.4-3", "P-3.10.5-2")
def test_a_logical_name_means_its_newest_connection_and_that_one_alone() -> None:
    stage = parties(ann="stream/*", bob="stream/*")
    stage.join("bob", as_="bob-2")
    stage.open("ann")
    stage.leave("bob")
    stage.join("bob", as_="bob-3")
    granted = grant(stage, "ann", "stream-1", "bob").said("stream/write-granted")
    assert granted.payload["participant_id"] == "bob-3"
    assert writes(stage, "bob-3", "stream-1") and not writes(stage, "bob-2", "stream-1")


@pytest.mark.req("P-3.10.5-5", "P-3.10.6-6", "P-3.10.7-6")
@pytest.mark.parametrize("deed", [grant, revoke, transfer])
@pytest.mark.parametrize("stream", ["stream-9", "stream-1"])
def test_a_stream_that_is_not_there_any_more_is_not_found_whoever_asks(deed: Any, stream: str) -> None:
    stage = parties()
    stage.open("ann")
    stage.send("ann", "stream/close", {"stream_id": "stream-1"})
    step = deed(stage, "bob", stream, "nobody")
    assert (step.error["error"], step.error["stream_id"]) == ("stream_not_found", stream)
    assert step.said("system/error").correlation_id != () and step.hearers == {"bob"}
    assert stage.streams() == []


@pytest.mark.parametrize("deed", [grant, revoke, transfer])
def test_to_be_no_owner_comes_before_that_a_participant_is_not_found(deed: Any) -> None:
    stage = parties()
    stage.open("ann")
    assert deed(stage, "bob", "stream-1", "nobody").error["error"] == "unauthorized"


# --- revoke-write ---


@pytest.mark.req("P-3.10.6-1", "P-3.10.6-9")
@pytest.mark.parametrize("allowed", [["bob"], ["bob-1"], ["bob-1", "bob-2"]])
def test_a_participant_whose_write_access_is_revoked_by_its_name_writes_on_no_connection(
    allowed: list[str],
) -> None:
    """Also on one that was allowed to before a newer one came."""
    stage = Stage(ann="stream/*", bob="stream/*")
    stage.join("bob", as_="bob-1", on="b1")
    stage.leave("bob")
    stage.open("ann")
    grant(stage, "ann", "stream-1", allowed[0])
    stage.join("bob", as_="bob-2", on="b2")
    if "bob-2" in allowed:
        grant(stage, "ann", "stream-1", "bob-2")
    assert writes(stage, "b1", "stream-1")
    step = revoke(stage, "ann", "stream-1", "bob")
    told = [one.payload for one in step.heard("ann", "stream/write-revoked")]
    assert [one["participant_id"] for one in told] == (["bob-1", "bob-2"] if len(allowed) > 1 else ["bob-1"])
    assert told[-1]["authorized_writers"] == ["ann"]
    assert not writes(stage, "b1", "stream-1") and not writes(stage, "b2", "stream-1")
    assert writes(stage, "ann", "stream-1")


@pytest.mark.ruling("R20")
def test_in_a_space_of_the_edition_before_a_name_means_the_newest_connection_there_too() -> None:
    stage = Stage(ann="stream/*", bob="stream/*")
    stage.space.state.edition = 1
    stage.join("bob", as_="bob-1", on="b1")
    stage.leave("bob")
    stage.open("ann")
    grant(stage, "ann", "stream-1", "bob-1")
    stage.join("bob", as_="bob-2", on="b2")
    revoke(stage, "ann", "stream-1", "bob")
    assert writes(stage, "b1", "stream-1")


@pytest.mark.req("P-3.10.6-1")
def test_write_access_that_is_revoked_by_the_id_of_a_connection_is_that_connections_alone() -> None:
    stage = Stage(ann="stream/*", bob="stream/*")
    stage.join("bob", as_="bob-2", on="b2")
    stage.open("ann")
    for name in ("bob", "bob-2"):
        grant(stage, "ann", "stream-1", name)
    revoke(stage, "ann", "stream-1", "bob")  # it is the first one's id as well
    assert not writes(stage, "bob", "stream-1") and writes(stage, "b2", "stream-1")


@pytest.mark.req("P-3.10.6-3")
@pytest.mark.parametrize("name", ["cat", "nobody"])
def test_to_revoke_from_who_could_not_write_changes_nothing_and_is_no_fault(name: str) -> None:
    stage = parties()
    stage.open("ann")
    grant(stage, "ann", "stream-1", "bob")
    step = revoke(stage, "ann", "stream-1", name)
    assert step.said("stream/write-revoked").payload == {
        "stream_id": "stream-1",
        "participant_id": name,
        "authorized_writers": ["ann", "bob"],
    }
    assert writes(stage, "bob", "stream-1")


@pytest.mark.req("P-3.10.6-1", "P-3.10.6-7")
def test_nobody_but_the_owner_revokes_write_access() -> None:
    stage = parties()
    stage.open("ann")
    grant(stage, "ann", "stream-1", "bob")
    for name, of in (("cat", "bob"), ("bob", "ann"), ("bob", "bob")):
        step = revoke(stage, name, "stream-1", of)
        assert step.error["error"] == "unauthorized" and step.hearers == {name}
    assert writes(stage, "bob", "stream-1") and writes(stage, "ann", "stream-1")


@pytest.mark.req("P-3.10.6-2", "P-3.10.6-8", "P-3.10.8-3")
@pytest.mark.parametrize("own", ["ann", "ann-2"])
def test_an_owner_cannot_take_its_own_write_access(own: str) -> None:
    stage = Stage(ann="stream/*", bob="stream/*", absent=["ann"])
    stage.join("ann", as_="ann-2", on="ann")
    stage.open("ann")
    step = revoke(stage, "ann", "stream-1", own)
    assert (step.error["error"], step.error["stream_id"]) == ("invalid_operation", "stream-1")
    assert step.hearers == {"ann"}
    assert writes(stage, "ann", "stream-1")


# --- transfer-ownership ---


@pytest.mark.req("P-3.10.7-2", "P-3.10.7-1", "P-3.10.7-7")
def test_the_new_owner_has_every_right_of_an_owner_and_the_former_none() -> None:
    stage = parties()
    stage.open("ann")
    transfer(stage, "ann", "stream-1", "bob")
    for deed in (grant, revoke, transfer):
        assert deed(stage, "ann", "stream-1", "cat").error["error"] == "unauthorized"
    assert stage.send("ann", "stream/close", {"stream_id": "stream-1"}).error["error"] == "unauthorized"
    assert grant(stage, "bob", "stream-1", "cat").accepted and writes(stage, "cat", "stream-1")
    assert revoke(stage, "bob", "stream-1", "cat").accepted and not writes(stage, "cat", "stream-1")
    assert transfer(stage, "bob", "stream-1", "cat").accepted and writes(stage, "cat", "stream-1")
    assert stage.send("cat", "stream/close", {"stream_id": "stream-1"}).accepted
    assert stage.streams() == []


@pytest.mark.req("P-3.10.7-8")
@pytest.mark.parametrize("name", ["nobody", "away"])
def test_a_transfer_to_an_absent_member_is_refused(name: str) -> None:
    stage = parties(ann="stream/*", away="stream/*")
    stage.leave("away")
    stage.open("ann")
    step = transfer(stage, "ann", "stream-1", name)
    assert (step.error["error"], step.error["participant_id"]) == ("participant_not_found", name)
    assert step.hearers == {"ann"}
    assert writes(stage, "ann", "stream-1") and stage.streams()[0]["owner"] == "ann"


# --- over HTTP ---


@pytest.mark.req("P-5.3-2", "P-3.10.1-7")
def test_by_http_the_owner_is_the_posters_newest_connection_or_the_one_it_names_or_its_log() -> None:
    stage = parties(ann="stream/*", bob=[])
    stage.join("ann", as_="ann-2")
    for named, owner in (("ann-2", "ann-2"), ("ann", "ann")):
        step = stage.post("ann", "stream/request", {}, as_=named)
        opened = step.said("stream/open")
        assert opened.payload["owner"] == owner
        assert step.reply.status == 200
        assert step.reply.body == {
            "id": opened.id,
            "status": "stream_opened",
            "stream_id": opened.payload["stream_id"],
            "timestamp": "2026-01-01T00:00:00.000Z",
        }
    stage.leave("ann")
    assert stage.post("ann", "stream/request", {}).said("stream/open").payload["owner"] == "ann-2"
    stage.leave("ann-2")
    refused = stage.post("ann", "stream/request", {})
    assert (refused.reply.status, refused.reply.body["payload"]["error"]) == (409, "not_connected")
    stage.sink("ann", on="log")
    assert stage.post("ann", "stream/request", {}).reply.status == 200
