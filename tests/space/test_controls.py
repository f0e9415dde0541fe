"""Pause, resume, restart and shutdown: what the gateway holds back, from whom, and until when."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.protocol.kinds import AFTER_SHUTDOWN, KINDS, WHILE_PAUSED, is_reserved

from .stage import Stage

# As ruling R14 lists them.
PASS_A_PAUSE = {
    *(
        "participant/status",
        "participant/resume",
        "participant/compact-done",
        "chat/acknowledge",
        "chat/cancel",
    ),
    *("reasoning/cancel", "stream/close", "mcp/withdraw", "mcp/reject", "capability/grant-ack"),
}
PASS_A_SHUTDOWN = {"participant/status", "chat/acknowledge", "stream/close"}
SENT = sorted(kind for kind in KINDS if not is_reserved(kind))


def paused(**payload: Any) -> Stage:
    stage = Stage(alice="*", bot="*")
    assert stage.send("alice", "participant/pause", payload or None, to=["bot"]).accepted
    return stage


# --- pause ---


@pytest.mark.req("P-3.9.1-3")
@pytest.mark.parametrize("kind", SENT)
def test_while_paused_acknowledgements_and_cancellations_pass_and_the_rest_does_not(kind: str) -> None:
    stage = paused()
    step = stage.send("bot", kind, {}, to=["bot"])
    if kind in PASS_A_PAUSE:
        assert step.accepted and step.hearers == {"alice", "bot"}
    else:
        assert step.error["error"] == "paused"
        assert step.hearers == {"bot"}


@pytest.mark.req("P-3.9.1-3")
def test_a_pause_binds_every_connection_http_and_frames_and_outlives_a_reconnect() -> None:
    stage = Stage(alice="*", bot="*")
    stage.join("bot", as_="bot-2")
    stream = stage.open("bot")
    stage.send("alice", "participant/pause", to=["bot"])
    assert not stage.send("bot-2", "chat").accepted
    posted = stage.post("bot", "chat")
    assert (posted.reply.status, posted.reply.body["error"]) == (409, "paused")
    frame = stage.frame("bot", f"#{stream}#x".encode())
    assert frame.frames("alice") == [] and frame.error["error"] == "paused"
    stage.leave("bot")
    stage.join("bot")
    assert not stage.send("bot", "chat").accepted


def test_a_time_beyond_the_calendar_is_a_long_time() -> None:
    stage = paused(timeout_seconds=1e300)
    stage.at(10**9)
    assert stage.send("bot", "chat").error["error"] == "paused"


@pytest.mark.threat(14)
def test_who_may_control_whom_is_a_matter_of_capabilities_alone() -> None:
    stage = Stage(alice="*", bot="*", eve=["chat"])
    assert stage.send("eve", "participant/pause", to=["bot"]).error["error"] == "capability_violation"
    assert stage.send("bot", "participant/pause", to=["alice"]).accepted
    assert stage.send("alice", "chat").error["error"] == "paused"


# --- shutdown and restart ---


@pytest.mark.req("P-3.9.10-3")
@pytest.mark.parametrize("kind", SENT)
def test_after_a_shutdown_next_to_nothing_passes_until_the_next_admission(kind: str) -> None:
    stage = Stage(alice="*", bot="*")
    assert stage.send("alice", "participant/shutdown", to=["bot"]).told("participant/shutdown") == {
        "alice",
        "bot",
    }
    step = stage.send("bot", kind, {}, to=["bot"])
    if kind in PASS_A_SHUTDOWN:
        assert step.accepted
    else:
        assert step.error["error"] == "shut_down" and step.hearers == {"bot"}
    stage.leave("bot")
    stage.join("bot")
    assert stage.send("bot", "chat").accepted


@pytest.mark.req("P-3.9.10-3")
def test_a_shutdown_binds_frames_and_http_and_no_resume_ends_it() -> None:
    stage = Stage(alice="*", bot="*")
    stream = stage.open("bot")
    stage.send("alice", "participant/shutdown", to=["bot"])
    assert stage.frame("bot", f"#{stream}#x".encode()).error["error"] == "shut_down"
    assert stage.post("bot", "chat").reply.body["error"] == "shut_down"
    for kind in ("participant/resume", "participant/restart"):
        assert stage.send("alice", kind, to=["bot"]).accepted
        assert not stage.send("bot", "chat").accepted


@pytest.mark.req("P-3.9.10-3")
@pytest.mark.parametrize("kind", ["participant/resume", "participant/restart"])
def test_for_who_only_posts_somebody_elses_resume_or_restart_is_the_next_admission(kind: str) -> None:
    stage = Stage(alice="*", bot="*", absent=["bot"])
    stage.send("alice", "participant/shutdown", to=["bot"])
    assert stage.post("bot", kind, to=["bot"]).reply.status == 409
    assert stage.post("bot", "chat").reply.status == 409
    stage.send("alice", kind, to=["bot"])
    assert stage.post("bot", "chat").reply.status == 200


def test_a_log_sink_that_is_attached_ends_no_shutdown() -> None:
    stage = Stage(alice="*", bot="*", absent=["bot"])
    stage.send("alice", "participant/shutdown", to=["bot"])
    stage.sink("bot", on="log")
    assert stage.post("bot", "chat").reply.status == 409


def test_a_restart_is_relayed_as_it_is_whomever_it_names() -> None:
    stage = Stage(alice="*", bot=[])
    assert stage.send("alice", "participant/restart", to=["bot", "nobody"]).told("participant/restart") == {
        "alice",
        "bot",
    }
    assert stage.send("alice", "participant/restart").accepted


def test_the_lists_are_those_of_the_ruling() -> None:
    assert WHILE_PAUSED == PASS_A_PAUSE
    assert AFTER_SHUTDOWN == PASS_A_SHUTDOWN
