"""The commands of a terminal by which a person acts on others: what reaches the space, and what she is told."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from mew_lab.cli.join import StreamFrames, TypedLast, obey, tell_status
from mew_lab.errors import MewError
from mew_lab.lab.lab import Lab
from mew_lab.lab.seat import Seat
from mew_lab.sdk.client import StreamData

from ..waiting import eventually


def sent(lab: Lab, kind: str) -> list[dict[str, Any]]:
    return [one for one in lab.log if one["kind"] == kind]


@pytest.fixture
def coder(lab: Lab) -> Seat:
    return lab.join("coder", can="human")


CONTROLS = [
    ("/pause coder", "participant/pause", {}),
    ("/pause coder 90", "participant/pause", {"timeout_seconds": 90}),
    ("/pause coder 90 too noisy", "participant/pause", {"timeout_seconds": 90, "reason": "too noisy"}),
    ("/compact coder 2000 full", "participant/compact", {"target_tokens": 2000, "reason": "full"}),
    ("/status coder", "participant/request-status", {}),
    ("/status coder tokens messages_in_context", "participant/request-status", {"fields": ["tokens", "messages_in_context"]}),
]  # fmt: skip
LOSSES = [
    ("/forget coder", "participant/forget", {"direction": "oldest"}),
    ("/forget coder newest 3", "participant/forget", {"direction": "newest", "entries": 3}),
    ("/clear coder over", "participant/clear", {"reason": "over"}),
    ("/restart coder", "participant/restart", {}),
    ("/shutdown coder", "participant/shutdown", {}),
    ("/kick coder", "space/kick", {"participant_id": "coder"}),
]


@pytest.mark.parametrize(("line", "kind", "payload"), CONTROLS)
def test_a_control_is_the_message_of_the_specification(
    lab: Lab, coder: Seat, line: str, kind: str, payload: dict[str, Any]
) -> None:
    assert "coder" in obey(lab, line)
    (message,) = sent(lab, kind)
    assert message["payload"] == payload and message["to"] == ["coder"]


@pytest.mark.parametrize(("line", "kind", "payload"), LOSSES)
def test_what_loses_something_is_told_first_and_done_when_it_is_typed_again(
    lab: Lab, coder: Seat, line: str, kind: str, payload: dict[str, Any]
) -> None:
    told = obey(lab, line)
    assert told.endswith("Nothing was sent yet. Repeat it to do it.") and "lab." not in told
    assert sent(lab, kind) == []
    obey(lab, line)
    (message,) = sent(lab, kind)
    assert message["payload"] == payload


def test_a_pause_is_ended_by_resume(lab: Lab, coder: Seat) -> None:
    obey(lab, "/pause coder")
    eventually(lambda: coder.participant.controls.pause_state)
    obey(lab, "/resume coder back to work")
    assert sent(lab, "participant/resume")[0]["payload"] == {"reason": "back to work"}
    eventually(lambda: coder.participant.controls.pause_state is None)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "/pause 30 coder",
            r"nobody here is called '30'.*; it is written /pause PARTICIPANT \[SECONDS\] \[REASON\]$",
        ),
        ("/pause codre", r"'codre' \(did you mean 'coder'\?\)"),
        ("/pause coder 0", "SECONDS above 0 and at most 604800, not 0"),
        ("/grant coder chta", r"\(did you mean 'chat'\?\): name a tool"),
        ("/grant coder {broken", r"/grant takes an object of JSON.*not strict JSON.*; it is written /grant "),
        ("/call coder/run path=a.txt", r"/call takes an object .* not 'path=a\.txt': it is not strict JSON"),
        (
            "/propose coder/run [1]",
            r"/propose takes an object .* not '\[1\]': it must be a JSON object; it is",
        ),
        ("/answer ab yes", r"/answer takes an object of JSON.* not 'yes'.*; it is written /answer ID"),
        ("/ack", "No message waits"),
        ("/reason-cancel", "No reasoning goes on"),
        ("/stream close stream-9", "No open stream is called 'stream-9'"),
        ("/stream request nobody upload", "nobody here is called 'nobody'"),
        ("/target codre", r"\(did you mean 'coder'\?\)"),
        ("/cancel nothing", "nothing"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_sent(
    lab: Lab, coder: Seat, line: str, sentence: str
) -> None:
    before = len(lab.log)
    with pytest.raises(MewError, match=sentence) as told:
        obey(lab, line)
    assert "\n" not in str(told.value)
    assert len(lab.log) == before


# --- chat --------------------------------------------------------------------------------------------------------


def test_what_is_typed_goes_to_the_target_alone_until_that_is_ended(lab: Lab, coder: Seat) -> None:
    lab.join("git", can="tool")
    shown = TypedLast()
    assert obey(lab, "/target", shown) == "What you type goes to all"
    assert obey(lab, "/target coder", shown) == "What you type goes to coder alone"
    obey(lab, "for you", shown)
    obey(lab, '{"kind": "chat", "payload": {"text": "as JSON"}}', shown)
    obey(lab, '{"kind": "chat", "to": ["git"], "payload": {"text": "for git"}}', shown)
    assert obey(lab, "/target none", shown) == "What you type goes to all"
    obey(lab, "for all", shown)
    obey(lab, '{"kind": "chat", "payload": {"text": "JSON for all"}}', shown)
    assert [(one["payload"]["text"], one.get("to") or []) for one in sent(lab, "chat")] == [
        ("for you", ["coder"]), ("as JSON", ["coder"]), ("for git", ["git"]), ("for all", []), ("JSON for all", []),
    ]  # fmt: skip


@pytest.mark.req("P-3.4.1-5")
def test_messages_that_wait_are_acknowledged_one_by_one_by_sender_or_all(lab: Lab, coder: Seat) -> None:
    git = lab.join("git", can="human")
    ids = [seat.chat(f"message {n}").id for n, seat in enumerate((coder, coder, git, git, coder))]
    eventually(lambda: len(lab.me.participant.chats.pending) == 5)
    for line, sentence in (
        ("/ack", r"5 messages wait .* /ack all, or /ack coder, /ack git$"),
        ("/ack gti", r"No message of 'gti' waits \(did you mean 'git'\?\)"),
        ("/ack 12345678", "takes a number as the line of the message shows it, such as ~12345678$"),
    ):
        with pytest.raises(MewError, match=sentence):
            obey(lab, line)

    def acknowledged() -> list[tuple[str, str]]:
        return [(one["correlation_id"][0], one["payload"]["status"]) for one in sent(lab, "chat/acknowledge")]

    obey(lab, f"/ack {ids[0]} read")
    assert acknowledged() == [(ids[0], "read")]
    number = next(row.seq for row in lab.rows.since(0, 100) if row.id == ids[4])
    near = lab.join(f"x{number}", can="human")  # a name that a number is nearly
    ids.append(near.chat("message 5").id)
    eventually(lambda: len(lab.me.participant.chats.pending) == 5)
    obey(lab, f"/ack #{number}")
    assert acknowledged()[1:] == [(numbered := ids.pop(4), "received")]
    assert obey(lab, "/ack git") == "2 messages of git acknowledged"
    assert acknowledged()[2:] == [(ids[2], "received"), (ids[3], "received")]
    obey(lab, "/ack all")
    assert [id for id, _ in acknowledged()] == [ids[0], numbered, ids[2], ids[3], ids[1], ids[4]]
    last = coder.chat("one more").id
    eventually(lambda: lab.me.participant.chats.pending)
    obey(lab, "/ack")
    assert acknowledged()[-1] == (last, "received")


@pytest.mark.req("P-3.4.2-1")
def test_cancel_takes_a_message_too(lab: Lab, coder: Seat) -> None:
    obey(lab, "never mind this")
    (chat,) = sent(lab, "chat")
    assert "cancelled for everybody" in obey(lab, f"/cancel {chat['id']} a slip")
    (cancel,) = sent(lab, "chat/cancel")
    assert cancel["correlation_id"] == [chat["id"]] and cancel["payload"] == {"reason": "a slip"}


# --- reasoning ---------------------------------------------------------------------------------------------------


@pytest.mark.req("P-3.5.5-5")
def test_reasoning_is_cancelled_by_its_participant_or_as_the_only_one(lab: Lab, coder: Seat) -> None:
    git = lab.join("git", can="human")
    first = coder.send("reasoning/start", {"message": "hm"}).id
    second = git.send("reasoning/start", {"message": "well"}).id
    eventually(lambda: len(lab.me.participant.ledger.reasoning.active()) == 2)
    assert "reasons: /reason-cancel" in tell_status(lab, TypedLast())
    with pytest.raises(MewError, match=r"say whose is meant: /reason-cancel coder, /reason-cancel git$"):
        obey(lab, "/reason-cancel")
    with pytest.raises(MewError, match=r"did you mean 'coder'"):
        obey(lab, "/reason-cancel codre")

    def cancelled() -> list[tuple[str, str]]:
        return [(one["context"], one["payload"]["reason"]) for one in sent(lab, "reasoning/cancel")]

    obey(lab, "/reason-cancel coder taking too long")
    assert cancelled() == [(first, "taking too long")]
    eventually(lambda: len(lab.me.participant.ledger.reasoning.active()) == 1)
    obey(lab, "/reason-cancel superseded by events")
    assert cancelled()[1:] == [(second, "superseded by events")]


# --- permissions and people --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "pattern"),
    [
        ("chat/cancel", {"kind": "chat/cancel"}),
        ('{"kind": "mcp/request", "to": "git"}', {"kind": "mcp/request", "to": "git"}),
        ("git/log", {"kind": "mcp/request", "to": "git", "payload": {"method": "tools/call", "params": {"name": "log"}}}),
    ],
)  # fmt: skip
def test_a_permission_is_given_by_a_kind_a_pattern_or_a_tool_and_undone(
    lab: Lab, what: str, pattern: dict[str, Any]
) -> None:
    bot = lab.join("bot")
    obey(lab, f"/grant bot {what}")
    (grant,) = sent(lab, "capability/grant")
    assert grant["payload"]["recipient"] == "bot" and grant["payload"]["capabilities"] == [pattern]
    eventually(lambda: pattern in [dict(one) for one in bot.capabilities])
    obey(lab, "/undo")
    eventually(lambda: pattern not in [dict(one) for one in bot.capabilities])


def test_a_permission_that_ends_says_so_on_the_wire_and_is_revoked_by_the_second_line(lab: Lab) -> None:
    bot = lab.join("bot")
    obey(lab, "/grant bot uses=3 chat/cancel")
    (grant,) = sent(lab, "capability/grant")
    assert grant["payload"]["max_uses"] == 3
    assert "Repeat it to do it" in obey(lab, "/revoke bot")
    obey(lab, "/revoke bot")
    assert sent(lab, "capability/revoke")[0]["payload"]["grant_id"] == grant["id"]
    eventually(lambda: "chat/cancel" not in [one["kind"] for one in bot.capabilities])


def test_an_invitation_shows_the_line_that_joins_and_no_token(lab: Lab) -> None:
    line = obey(lab, "/invite guest observer")
    assert "mew-lab join " in line and "--token-file " in line
    file = Path(line.partition("--token-file ")[2].split()[0])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text().strip() not in line


# --- streams -----------------------------------------------------------------------------------------------------


def test_a_stream_is_opened_written_listed_and_closed(lab: Lab, coder: Seat) -> None:
    assert obey(lab, "/streams").startswith("open streams\nNo stream is open; /stream request opens one")
    told = obey(lab, "/stream request coder upload the  notes size=10")
    (request,) = sent(lab, "stream/request")
    assert {key: request["payload"].get(key) for key in ("direction", "description", "expected_size_bytes", "target")} == {
        "direction": "upload", "description": "the  notes", "expected_size_bytes": 10, "target": ["coder"],
    }  # fmt: skip
    id = told.split()[0]
    reader = coder.stream(id)
    assert obey(lab, f"/stream write {id} some words").endswith(f"sent to {id}")
    assert reader.read(timeout=20) == b"some words"
    assert "the  notes" in obey(lab, "/streams")
    assert obey(lab, f"/stream close {id} that is all") == f"{id} is closed (that is all)"
    assert sent(lab, "stream/close")[0]["payload"]["reason"] == "that is all"


@pytest.mark.threat(17)
def test_frames_are_shown_while_they_are_on_a_few_a_second_and_without_what_moves_the_cursor() -> None:
    now = [100.0]
    lines: list[str] = []
    shown = TypedLast()
    frames = StreamFrames(shown, lines.append, clock=lambda: now[0])
    frames.take(StreamData("stream-1", b"unseen"))
    assert lines == []
    shown.frames = True
    for number in range(50):
        frames.take(StreamData("stream-1", b"\x1b[2Jframe\n%d\xff" % number))
    assert len(lines) == 20 and all(line.isprintable() for line in lines)
    now[0] += 1
    frames.take(StreamData("stream-1", b"x" * 500))
    assert lines[-1].startswith("stream-1: 5") and " bytes: xxx" in lines[-1] and len(lines[-1]) < 290
    assert lines[-1].endswith("(30 frames before it not shown)")
