"""Whatever is said wrongly is one error to who said it, and leaves everything as it was: the table of tests/malformed.py."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mew_lab.space.events import Mint, Received
from mew_lab.space.refusal import KEPT_BYTES
from mew_lab.space.snapshot import snapshot

from ..malformed import READER, ROWS, TOO_LARGE, refused
from .stage import Stage

ONE = {"stream_id": "stream-1"}


def state(stage: Stage) -> dict[str, Any]:
    """All that the space holds, but for its two counters."""
    members = json.loads(snapshot(stage.space))
    return {name: value for name, value in members.items() if name not in ("messages", "records")}


def a_stage() -> Stage:
    """Bert owns the space and its stream-1; anna may send every kind, cora little."""
    stage = Stage(owner="bert", anna="*", bert=["chat", "stream/*"], cora=["chat", READER])
    assert stage.open("bert") == "stream-1"
    return stage


WRONG = [row for row in ROWS if row not in TOO_LARGE]  # a stage knows no limit of a message
OF_ITS_OWNER = [
    refused(
        "to nobody", "participant_not_found", "stream/grant-write", {**ONE, "participant_id": "zoe"}, 404
    ),
    refused("its own", "invalid_operation", "stream/revoke-write", {**ONE, "participant_id": "bert"}),
    *(
        refused(f"without {names}", "invalid_request", f"stream/{verb}", payload)
        for verb in ("grant-write", "revoke-write", "transfer-ownership")
        for names, payload in (("all", {}), ("a stream", {"stream_id": 7}), ("a participant", ONE))
    ),
]
OF_ITS_OWNER = [row._replace(by="bert") for row in OF_ITS_OWNER]


@pytest.mark.req("P-3-1", "P-3-2", "P-3-6", "P-3-9", "P-3-17", "P-3-21")
@pytest.mark.req("P-6.1-1", "P-6.1-2", "P-6.5-1", "P-7.1-2")
@pytest.mark.threat(8, 10, 11, 27)
def test_whatever_is_said_wrongly_is_one_error_to_its_sender_and_changes_nothing() -> None:
    stage = a_stage()
    before = state(stage)
    for row in [*WRONG, *OF_ITS_OWNER]:
        step = stage.raw(row.by, row.data)
        assert (step.error["error"], step.error.get("code", "")) == (row.error, row.code), row.name
        assert (step.hearers, step.closed, step.of(Mint)) == ({row.by}, {}, []), row.name
        assert step.record.raw == row.data[:KEPT_BYTES], row.name
        assert state(stage) == before, row.name
    assert stage.send("anna", "chat").told("chat") == {"anna", "bert", "cora"}


@pytest.mark.req("P-5.3-2")
def test_by_http_each_is_answered_with_its_status_and_with_what_its_sender_is_told() -> None:
    stage = a_stage()
    for row in [*WRONG, *OF_ITS_OWNER]:
        step = stage.step(Received(row.data, None, row.by, row.by))
        told = step.said("system/error")
        assert (step.reply.status, step.told("system/error")) == (row.status, {row.by}), row.name
        if '"kind": "stream/' in row.data and row.error != "invalid_request":  # the whole error is told
            assert step.reply.body == told.members, row.name
        else:
            assert step.reply.body.items() <= told.payload.items(), row.name
            assert {"error", "message"} <= step.reply.body.keys(), row.name
