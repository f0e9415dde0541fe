"""What a person does to one participant by code: each verb is its message, and says what was seen of its effect."""

from __future__ import annotations

import asyncio
import json
import re
import stat
import sys
from collections.abc import Callable
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest

from mew_lab.errors import (
    CapabilityViolation,
    ConfigError,
    LocalProtocolError,
    MewError,
    NoReply,
    NoSuchName,
    NoSuchParticipant,
    Refused,
)
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect
from mew_lab.lab.listing import Listing, Note
from mew_lab.lab.participant_verbs import Losses, LossPreview, ParticipantVerbs
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.controls import Compacted

from ..failing import failing
from .looking import eventually, sent


@pytest.fixture
def coder(lab: Lab) -> ParticipantVerbs:
    lab.join("coder", can="agent")
    return lab.of("coder")


def seat_mute(lab: Lab, name: str = "mute", can: str = "agent") -> None:
    """A participant that is connected and never answers."""
    lab.enrol(name, can=can)
    assert lab.host is not None
    client = lab.host.client_for(name)
    lab.loop.submit(client.connect()).result(20)
    eventually(lambda: name in lab.me.participant.client.participants)


# --- each verb is its message ---


@pytest.mark.parametrize(
    ("verb", "kind", "payload"),
    [
        (lambda it: it.pause(minutes=5, reason="lunch"), "participant/pause", {"timeout_seconds": 300.0, "reason": "lunch"}),
        (lambda it: it.pause(), "participant/pause", {}),
        (lambda it: it.status(), "participant/request-status", {}),
        (lambda it: it.forget(3, direction="newest", sure=True), "participant/forget", {"direction": "newest", "entries": 3}),
        (lambda it: it.compact(tokens=4000), "participant/compact", {"target_tokens": 4000}),
        (lambda it: it.clear(sure=True, reason="new task"), "participant/clear", {"reason": "new task"}),
        (lambda it: it.restart(sure=True), "participant/restart", {}),
        (lambda it: it.shutdown(sure=True, reason="done"), "participant/shutdown", {"reason": "done"}),
    ],
)  # fmt: skip
def test_each_verb_is_the_message_of_the_specification(
    lab: Lab, coder: ParticipantVerbs, verb: Callable[[Any], Any], kind: str, payload: dict[str, Any]
) -> None:
    verb(coder)
    [told] = sent(lab, kind)
    assert (told["from"], told["to"], told["payload"]) == ("human", ["coder"], payload)


def test_a_pause_and_its_end_are_told_as_the_gateway_has_them(lab: Lab, coder: ParticipantVerbs) -> None:
    assert re.match(r"coder is paused until \S+", str(coder.pause(minutes=5)))
    assert "paused by human" in repr(coder)
    assert coder.status()[0].is_.startswith("paused by human until ")
    assert str(coder.resume()) == "coder may send again"
    with pytest.raises(MewError, match="Cannot resume coder: It is not paused"):
        coder.resume()


def test_a_status_is_a_listing_of_what_was_told(lab: Lab, coder: ParticipantVerbs) -> None:
    lab.seats["coder"].participant.telemetry.set_context_usage(tokens=120, messages=4)
    status = coder.status()
    assert isinstance(status, Listing)
    assert dict(status)["state"] == "here"
    assert (dict(status)["tokens"], dict(status)["messages in context"]) == (120, 4)


def test_a_status_of_hostile_members_is_one_line_each(lab: Lab) -> None:
    bot = lab.join("bot", can="agent")
    bot.participant.telemetry.add_metric("mood", lambda: "a\n\x1b[31mred" + "x" * 900)
    told = dict(lab.of("bot").status())
    assert "\n" not in str(told) and "\x1b" not in str(told)
    assert len(str(told.get("mood", ""))) <= 300


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        (lambda it: it.forget(3, sure=True), "coder was asked to forget the oldest 3: it says that it has forgotten them"),
        (lambda it: it.clear(sure=True), "coder was asked to erase its context: it says that it has erased its context"),
        (lambda it: it.restart(sure=True), "coder was asked to restart: it says that it has restarted"),
        (lambda it: it.shutdown(sure=True), "coder was asked to shut down: it has left"),
        (lambda it: it.kick(sure=True), "coder was removed, and its tokens are invalid"),
    ],
)  # fmt: skip
def test_what_the_participant_tells_of_it_is_said(
    lab: Lab, coder: ParticipantVerbs, verb: Callable[[Any], Any], said: str
) -> None:
    assert str(verb(coder)) == said


def test_a_compaction_says_what_it_freed(lab: Lab, coder: ParticipantVerbs) -> None:
    controls = lab.seats["coder"].participant.controls
    lab.loop.call(lambda: controls.on_compact(lambda reason, target: Compacted(900, 12)))
    assert str(coder.compact()) == "coder has freed 900 tokens and 12 messages"


def test_a_failure_of_the_participant_is_said(lab: Lab, coder: ParticipantVerbs) -> None:
    def fail() -> None:
        raise ValueError("no disk")

    lab.loop.call(lambda: lab.seats["coder"].participant.controls.on_clear(fail))
    assert str(coder.clear(sure=True)).endswith("it says error: ValueError: no disk")


@pytest.mark.parametrize(
    ("verb", "unseen"),
    [
        (lambda it: it.clear(sure=True, timeout=0.2), "it has not said that it has erased its context within 0.2 s"),
        (lambda it: it.forget(sure=True, timeout=0.2), "it has not said that it has forgotten them within 0.2 s"),
        (lambda it: it.restart(sure=True, timeout=0.2), "it has not said that it has restarted within 0.2 s"),
    ],
)  # fmt: skip
def test_no_effect_is_claimed_that_was_not_seen(lab: Lab, verb: Callable[[Any], Any], unseen: str) -> None:
    seat_mute(lab)
    assert str(verb(lab.of("mute"))).endswith(unseen)


def test_another_gateway_is_not_believed_to_have_paused_or_removed_anybody(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = failing(monkeypatch)
    fails.update({"participant/pause": "relayed", "space/kick": "relayed"})
    lab.enrol("visitor", can="admin")
    seat_mute(lab)
    lab.join("coder", can="agent")
    far = connect(lab.url, space=lab.space, token_file=lab.token_file("visitor"), name="far")
    assert str(far.of("mute").pause(timeout=0.2)) == (
        "mute was asked to pause until it is resumed: it has not said that it is paused within 0.2 s"
    )
    assert str(far.of("coder").pause()).endswith("until it is resumed: it says that it is paused")
    assert str(far.of("mute").kick(sure=True, timeout=0.2)) == (
        "The gateway accepted the removal of mute: it was not seen to leave within 0.2 s"
    )


@pytest.mark.parametrize("verb", ["status", "compact"])
def test_a_verb_without_an_answer_in_its_time_says_so(lab: Lab, verb: str) -> None:
    seat_mute(lab)
    with pytest.raises(NoReply, match="mute"):
        getattr(lab.of("mute"), verb)(timeout=0.2)


def test_a_report_of_another_participant_does_not_count(lab: Lab) -> None:
    seat_mute(lab)
    liar = lab.join("liar", can=[{"kind": "*"}]).participant

    def forge(envelope: Envelope) -> None:
        for word in ("cleared", "error: stolen"):
            payload = {"messages_in_context": 0, "status": word}
            liar.sender.quietly("participant/status", payload, about=envelope.id)

    lab.loop.call(lambda: liar.client.on_message(forge, kinds=("participant/clear",)))
    assert str(lab.of("mute").clear(sure=True, timeout=0.5)).endswith("it has not said that it has erased its context within 0.5 s")  # fmt: skip
    assert len(sent(lab, "participant/status")) >= 2


def test_a_status_about_something_else_does_not_count(lab: Lab) -> None:
    other = lab.join("other", can="agent").participant

    async def clear() -> None:
        other.sender.quietly("participant/status", {"messages_in_context": 0, "status": "cleared"})
        await asyncio.Event().wait()

    lab.loop.call(lambda: other.controls.on_clear(clear))
    assert "it has not said" in str(lab.of("other").clear(sure=True, timeout=0.3))
    assert [one["payload"]["status"] for one in sent(lab, "participant/status")] == ["cleared"]


# --- what is lost is said first ---

LOSING: dict[str, Callable[..., Any]] = {
    "forget": lambda it, **more: it.forget(3, **more),
    "clear": lambda it, **more: it.clear(**more),
    "restart": lambda it, **more: it.restart(**more),
    "shutdown": lambda it, **more: it.shutdown(**more),
    "kick": lambda it, **more: it.kick(**more),
}


@pytest.mark.parametrize("verb", LOSING)
def test_what_loses_something_says_so_and_is_done_when_repeated(
    lab: Lab, coder: ParticipantVerbs, verb: str
) -> None:
    before = len(lab.log)
    preview = LOSING[verb](coder)
    assert isinstance(preview, LossPreview)
    assert "coder: " in str(preview) and "Lost: " in str(preview)
    assert str(preview).endswith("Nothing was sent yet. Repeat it to do it.")
    assert len(lab.log) == before
    done = LOSING[verb](lab.of("coder"))
    assert isinstance(done, Note) and not isinstance(done, LossPreview)
    assert len(lab.log) > before


def test_a_second_word_is_for_that_act_alone(lab: Lab, coder: ParticipantVerbs) -> None:
    lab.join("bot", can="agent")
    assert isinstance(coder.forget(3), LossPreview)
    for other in (
        lambda: coder.forget(4),
        lambda: coder.forget(3, direction="newest"),
        lambda: coder.clear(),
        lambda: lab.of("bot").forget(3),
    ):
        assert isinstance(other(), LossPreview)
    assert not isinstance(coder.forget(3), LossPreview)
    assert isinstance(coder.forget(3), LossPreview)  # each is said anew
    assert len(sent(lab, "participant/forget")) == 1


def test_a_second_word_is_forgotten_after_five_minutes() -> None:
    now = [0.0]
    losses = Losses(clock=lambda: now[0])
    assert losses.confirm("kick coder", "It goes.") is not None
    now[0] = 301.0
    assert losses.confirm("kick coder", "It goes.") is not None
    now[0] = 600.0
    assert losses.confirm("kick coder", "It goes.") is None


def test_a_preview_says_what_is_open_there_now(lab: Lab, coder: ParticipantVerbs) -> None:
    lab.join("git", can="tool")
    lab.seats["coder"].propose("git/push")
    eventually(lab.proposals)
    assert "It has 1 open proposal." in str(coder.restart())


@pytest.mark.parametrize(
    "verb",
    [
        lambda it: it.forget(1.5),
        lambda it: it.forget(0),
        lambda it: it.forget(direction="midle"),
        lambda it: it.clear(reason="x" * 301),
        lambda it: it.clear(timeout=0),
        lambda it: it.clear(timeout=-3.0),
    ],
)
def test_what_cannot_be_is_refused_before_its_loss_is_shown(
    lab: Lab, coder: ParticipantVerbs, verb: Callable[[Any], Any]
) -> None:
    before = len(lab.log)
    for _ in range(2):
        with pytest.raises(MewError):
            verb(coder)
    assert len(lab.log) == before


# --- wrong names, units and orders ---


@pytest.mark.parametrize(
    ("verb", "sentence"),
    [
        (lambda it: it.pause(5), "it takes nothing by place, and minutes, reason, timeout by name"),
        (lambda it: it.pause(seconds=5), "did you mean 'minutes', which is in minutes?"),
        (lambda it: it.pause(timeout_seconds=5), "did you mean 'minutes', which is in minutes?"),
        (lambda it: it.pause(minuts=5), "did you mean 'minutes'?"),
        (lambda it: it.pause(minutes="5"), "minutes takes a number or None, and not a text"),
        (lambda it: it.pause(minutes=0), "minutes is above 0"),
        (lambda it: it.pause(minutes=True), "Cannot pause coder for True minutes"),
        (lambda it: it.status(timeout=True), "True is no number of seconds"),
        (lambda it: it.grant({"kind": "chat"}, minutes=True), "Cannot grant for True minutes"),
        (lambda it: it.pause(minutes=float("nan")), "minutes is above 0"),
        (lambda it: it.status(timeoutMs=500), "did you mean 'timeout', which is in seconds?"),
        (lambda it: it.status(500), "a timeout by name, in seconds"),
        (lambda it: it.forget(direction="old"), "direction is 'oldest' or 'newest'"),
        (lambda it: it.paus(), "did you mean 'pause'?"),
        (lambda it: it.grant(), "give a pattern, a list of them or a profile, or tool="),
        (lambda it: it.grant({"kind": "chat"}, tool="a/b"), "give a pattern"),
        (lambda it: it.grant("humn"), "did you mean 'human'?"),
        (lambda it: it.grant({"knd": "chat"}), "coder"),
        (lambda it: it.grant(tool="git"), "is not a full tool name"),
        (lambda it: it.grant({"kind": "chat"}, minutes=0), "Cannot grant for 0 minutes"),
        (lambda it: it.revoke("nothing-such"), "no such grant stands"),
        (lambda it: it.revoke(), "you gave it none that stands"),
        (lambda it: it.cancel_reasoning(), "none goes on, so nothing was sent"),
    ],
)
def test_a_wrong_argument_is_a_sentence_with_the_right_one(
    lab: Lab, coder: ParticipantVerbs, verb: Callable[[Any], Any], sentence: str
) -> None:
    before = len(lab.log)
    with pytest.raises(MewError) as told:
        verb(coder)
    assert sentence in str(told.value)
    assert len(lab.log) == before


def test_nobody_of_that_name_is_told_with_the_nearest_one(lab: Lab, coder: ParticipantVerbs) -> None:
    with pytest.raises(NoSuchParticipant, match=r"'codr' \(did you mean 'coder'\?\)"):
        lab.of("codr")
    with pytest.raises(MewError, match="name takes a text, and not 7"):
        lab.of(7)  # type: ignore[arg-type]
    with pytest.raises(NoSuchName):
        _ = coder.kik


def test_a_wrong_name_on_a_seat_is_told_with_the_nearest_one(lab: Lab) -> None:
    seat = lab.join("helper")
    for name in ("acknowledge", "call", "chat", "leave", "propose", "send", "stream", "tool"):
        for n in range(1, len(name) - 1):
            swapped = name[:n] + name[n + 1] + name[n] + name[n + 2 :]
            if not hasattr(type(seat), swapped):
                with pytest.raises(
                    NoSuchName, match=rf"The seat 'helper' has no '{swapped}' \(did you mean '{name}'"
                ):
                    getattr(seat, swapped)
    with pytest.raises(NoSuchName, match="it has acknowledge, ask, "):
        _ = seat.zzz
    assert not hasattr(seat, "_repr_html_") and getattr(seat, "nothing", 7) == 7


def test_nothing_is_done_to_yourself_or_to_one_that_has_left(lab: Lab, coder: ParticipantVerbs) -> None:
    with pytest.raises(MewError, match="This is you"):
        lab.of("human").pause()
    with pytest.raises(MewError, match="this is you"):
        lab.of("human").grant({"kind": "chat"})
    lab.leave("coder")
    with pytest.raises(MewError, match="It is not connected"):
        coder.clear()
    assert dict(coder.status()) == {"state": "not connected"}


def test_a_verb_without_its_right_is_refused_beforehand(lab: Lab, coder: ParticipantVerbs) -> None:
    lab.enrol("human", can=[{"kind": "chat"}])
    with pytest.raises(MewError, match=r"You don't have permission to pause coder \(participant/pause\)"):
        coder.pause()


def test_a_lab_that_is_down_says_so(lab: Lab, coder: ParticipantVerbs) -> None:
    lab.down()
    for verb in (
        coder.pause,
        coder.status,
        lab.streams,
        lab.stream,
        lab.acknowledge,
        lambda: lab.of("coder"),
    ):
        with pytest.raises(MewError, match="is down"):
            verb()


# --- permissions ---


def test_a_grant_is_held_and_revoked_and_undone(lab: Lab, coder: ParticipantVerbs) -> None:
    pattern = {"kind": "participant/pause"}
    said = str(coder.grant(pattern, minutes=5))
    assert said.startswith("coder may now pause participants for 5 min (grant ")
    seat = lab.seats["coder"]
    eventually(lambda: pattern in seat.capabilities)
    assert "Revoke a permission of coder: pause participants." in str(coder.revoke())
    assert pattern in seat.capabilities
    assert str(coder.revoke()) == "The permission of coder is revoked: pause participants"
    eventually(lambda: pattern not in seat.capabilities)
    coder.grant(pattern)
    eventually(lambda: pattern in seat.capabilities)
    lab.undo()
    eventually(lambda: pattern not in seat.capabilities)


def test_a_grant_of_a_tool_is_the_narrowest_pattern(lab: Lab, coder: ParticipantVerbs) -> None:
    coder.grant(tool="git/git_log", uses=2)
    [told] = sent(lab, "capability/grant")
    assert told["payload"]["capabilities"] == [
        {
            "kind": "mcp/request",
            "to": "git",
            "payload": {"method": "tools/call", "params": {"name": "git_log"}},
        }
    ]
    assert told["payload"]["max_uses"] == 2


def test_a_preview_of_a_grant_gives_nothing(lab: Lab, coder: ParticipantVerbs) -> None:
    lab.join("git", can="tool")
    lab.seats["coder"].propose("git/git_log")
    eventually(lab.proposals)
    said = str(coder.grant(tool="git/git_log", preview=True))
    assert "1 past proposal would have run without asking you." in said
    assert said.endswith("Nothing was granted yet.")
    assert sent(lab, "capability/grant") == []


def test_what_the_owner_keeps_is_not_passed_on(lab: Lab, coder: ParticipantVerbs) -> None:
    with pytest.raises(MewError, match="only the owner of a space invites and removes"):
        coder.grant({"kind": "space/kick"})
    assert sent(lab, "capability/grant") == []


def test_several_grants_have_to_be_named_and_a_beginning_or_a_number_names_one(
    lab: Lab, coder: ParticipantVerbs
) -> None:
    coder.grant({"kind": "participant/pause"})
    coder.grant({"kind": "participant/resume"})
    first, second = sent(lab, "capability/grant")
    with pytest.raises(MewError, match="you gave it 2") as told:
        coder.revoke()
    assert first["id"] in str(told.value) and second["id"] in str(told.value)
    assert str(coder.revoke(first["id"][:8], sure=True)).endswith("pause participants")
    number = next(row.seq for row in lab.rows.since(0, 10_000) if row.id == second["id"])
    assert str(coder.revoke(f"#{number}", sure=True)).endswith("resume participants")


def test_a_pattern_revokes_what_it_matches(lab: Lab, coder: ParticipantVerbs) -> None:
    assert "Revoke a permission of coder: chat." in str(coder.revoke({"kind": "chat"}))
    coder.revoke({"kind": "chat"})
    eventually(lambda: {"kind": "chat"} not in lab.seats["coder"].capabilities)


# --- reasoning ---


def test_reasoning_that_goes_on_is_cancelled(lab: Lab, coder: ParticipantVerbs) -> None:
    seat = lab.seats["coder"]
    first = seat.send("reasoning/start", {"message": "hm"})
    second = seat.send("reasoning/start", {"message": "hm hm"})
    with pytest.raises(MewError, match=f"it does not go on; {first.id}"):
        coder.cancel_reasoning("other")
    assert str(coder.cancel_reasoning(second.id[:8])) == "The reasoning of coder was cancelled (cancelled)."
    coder.cancel_reasoning(reason="superseded")
    told = [(one["context"], one["to"], one["payload"]) for one in sent(lab, "reasoning/cancel")]
    assert told == [
        (second.id, ["coder"], {"reason": "cancelled"}),
        (first.id, ["coder"], {"reason": "superseded"}),
    ]


# --- invitations ---


@pytest.mark.threat(1)
def test_threat_01_an_invitation_is_a_file_and_its_token_is_in_no_text(lab: Lab) -> None:
    said = str(lab.invite("ann"))
    file = Path(re.search(r"--token-file (\S+)", said)[1])  # type: ignore[index]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    secret = file.read_text().strip()
    assert len(secret) > 20
    assert secret not in said and secret not in str(lab.log.df.to_dict())
    ann = connect(lab.url, space=lab.space, token_file=file, name="ann")
    assert ann.me.name == "ann"
    with pytest.raises(Refused, match="known in this space already"):
        lab.invite("ann")


def test_an_invitation_from_elsewhere_is_kept_beside_and_git_ignores_it(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.enrol("visitor", can="admin")
    far = connect(lab.url, space=lab.space, token_file=lab.token_file("visitor"), name="far")
    there = tmp_path / "there"
    there.mkdir()
    monkeypatch.chdir(there)
    said = str(far.invite("ann", "observer", reason="look"))
    file = Path(re.search(r"--token-file (\S+)", said)[1])  # type: ignore[index]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and file.is_relative_to(there)
    assert (there / ".mew" / ".gitignore").read_text() == "*\n"
    assert connect(lab.url, space=lab.space, token_file=file, name="ann").me.name == "ann"


TAKES = "import sys, pathlib; pathlib.Path('mail').write_bytes(sys.stdin.buffer.read()); pathlib.Path('argv').write_text(str(sys.argv[1:]))"


@pytest.mark.threat(1)
def test_a_mail_has_the_line_that_joins_and_no_token(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEW_LAB_MAIL", json.dumps([sys.executable, "-c", TAKES, "-t"]))
    line, told = str(lab.invite("ann", mail="ann@example.org", reason="look\nhere")).split("\n")
    secret = Path(line.split()[-1]).read_text().strip()
    mail = message_from_bytes((tmp_path / "mail").read_bytes(), policy=policy.default)
    assert (mail["To"], mail["Subject"]) == ("ann@example.org", f"Invitation to the space {lab.space}")
    text = mail.get_content()
    assert f"mew-lab join {lab.url} --space {lab.space} --token-file FILE" in text and "“look\\nhere”" in text
    assert secret not in text and "the token is not in it" in told
    assert (tmp_path / "argv").read_text() == "['-t']", "neither address nor token is an argument"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["no-such-program"], "No such file"),
        (
            [sys.executable, "-c", "import sys; sys.stdin.read(); sys.exit('no relay')"],
            "ended with 1: no relay",
        ),
        ([sys.executable, "-c", "import time; time.sleep(60)"], "did not end within 0.5 s"),
    ],
)
def test_a_mail_that_is_not_taken_is_told_and_the_invitation_stands(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, command: list[str], why: str
) -> None:
    monkeypatch.setattr("mew_lab.lab.invitations.MAILED_WITHIN", 0.5 if "0.5" in why else 30.0)
    monkeypatch.setenv("MEW_LAB_MAIL", json.dumps(command))
    line, told = str(lab.invite("ann", mail="ann@example.org")).split("\n")
    assert told.startswith("The invitation stands, and ") and why in told
    assert connect(lab.url, space=lab.space, token_file=line.split()[-1], name="ann").me.name == "ann"


@pytest.mark.parametrize(
    ("command", "address"),
    [
        (None, "ann@example.org"),
        ("sendmail -t", "ann@example.org"),
        ("[]", "ann@example.org"),
        ('["sendmail", 1]', "ann@example.org"),
        ('["true"]', "ann"),
        ('["true"]', ""),
        ('["true"]', "ann@example.org\nBcc: eve@example.org"),
        ('["true"]', "ann@example.org, eve@example.org"),
        ('["true"]', "-oQ/tmp ann@example.org"),
        ('["true"]', "\u202eann@example.org"),
        ('["true"]', "a" * 10_000 + "@"),
    ],
)
def test_a_mail_that_cannot_be_sent_invites_nobody(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, command: str | None, address: str
) -> None:
    monkeypatch.delenv("MEW_LAB_MAIL", raising=False)
    if command is not None:
        monkeypatch.setenv("MEW_LAB_MAIL", command)
    with pytest.raises(ConfigError, match="Cannot mail an invitation"):
        lab.invite("ann", mail=address)
    assert not [one for one in lab.log if one["kind"] == "space/invite"]


def test_a_removal_takes_an_invitation_back_and_another_one_gives_a_new_token(lab: Lab) -> None:
    first = str(lab.invite("ann")).split()[-1]
    old = Path(first).read_text()
    lab.of("ann").kick(sure=True)
    again = str(lab.invite("ann")).split()[-1]
    assert Path(again).read_text() != old


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        (lambda lab: lab.invite("two words"), Refused),
        (lambda lab: lab.invite("ann", "observr"), ConfigError),
        (lambda lab: lab.invite("ann", [{"kind": "space/kick"}]), MewError),
        (lambda lab: lab.invite("ann", timeout=0), ConfigError),
        (lambda lab: lab.invite("../up"), Refused),
    ],
)
def test_an_invitation_that_cannot_be_is_a_sentence(
    lab: Lab, call: Callable[[Lab], Any], fault: type[Exception]
) -> None:
    with pytest.raises(fault):
        call(lab)
    assert not list(Path().rglob("ann.token")) and not list(Path().rglob("up.token"))


def test_who_may_not_invite_is_told_so(lab: Lab) -> None:
    lab.enrol("human", can=[{"kind": "chat"}])
    with pytest.raises(CapabilityViolation, match="space/invite"):
        lab.invite("ann")


# --- chat ---


def test_messages_are_acknowledged_to_their_authors(lab: Lab) -> None:
    bot = lab.join("bot", can="agent")
    first, second, third = (bot.chat(text) for text in ("one", "two", "three"))
    eventually(lambda: len(lab.me.participant.chats.pending) == 3)
    number = next(row.seq for row in lab.rows.since(0, 10_000) if row.id == second.id)
    assert str(lab.acknowledge(first.id[:8], status="read")) == "Acknowledged to bot (read)."
    assert str(lab.acknowledge(f"#{number}")) == "Acknowledged to bot (received)."
    assert str(lab.acknowledge()) == "1 message acknowledged (received)."
    told = [(one["to"], one["correlation_id"], one["payload"]) for one in sent(lab, "chat/acknowledge")]
    assert told == [
        (["bot"], [first.id], {"status": "read"}),
        (["bot"], [second.id], {"status": "received"}),
        (["bot"], [third.id], {"status": "received"}),
    ]
    with pytest.raises(MewError, match="no message with this id awaits an acknowledgement of human"):
        lab.acknowledge(first.id)
    with pytest.raises(MewError, match="no chat has this number"):
        lab.acknowledge("#99999")


def test_a_seat_acknowledges_for_itself(lab: Lab) -> None:
    bot = lab.join("bot", can="agent")
    said = lab.chat("hello")
    eventually(lambda: bot.participant.chats.pending)
    assert str(bot.acknowledge(said)) == "Acknowledged to human (received)."
    assert [one["from"] for one in sent(lab, "chat/acknowledge")] == ["bot"]


def test_an_own_message_is_cancelled_for_all_and_another_for_oneself(lab: Lab) -> None:
    carol = lab.join("carol", can="human")
    mine = lab.chat("help", to="carol")
    assert str(lab.cancel(mine)) == f"The message {mine.id} is cancelled for everybody (handled_elsewhere)."
    seats = carol.chat("look")
    assert "for everybody" in str(lab.cancel(seats.id, "done"))
    lab.enrol("dana", can="human")
    dana = connect(lab.url, space=lab.space, token_file=lab.token_file("dana"), name="dana")
    theirs = dana.chat("and you?")
    eventually(lambda: lab.me.participant.chats.awaiting(theirs.id))
    told = sent(lab, "chat/cancel")
    assert [(one["from"], one.get("to", []), one["payload"]["reason"]) for one in told] == [
        ("human", ["carol"], "handled_elsewhere"),
        ("carol", [], "done"),
    ]
    assert "for human alone" in str(lab.cancel(theirs.id))
    assert not lab.me.participant.chats.awaiting(theirs.id)


# --- awaitable and blocking alike ---


def test_each_value_awaits_to_itself_and_on_the_loop_a_verb_blocks_nothing(
    lab: Lab, coder: ParticipantVerbs
) -> None:
    async def outside() -> Any:
        return dict(await coder.status())["state"], str(await lab.stream(description="x"))

    state, stream = asyncio.run(outside())
    assert state == "here" and stream.startswith("<LabStream stream-1 of human")

    async def inside() -> list[str]:
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                beats += 1
                await asyncio.sleep(0)

        beating = asyncio.ensure_future(beat())
        try:
            said = await asyncio.gather(
                coder.pause(), coder.status(), lab.chat("hello"), lab.withdraw("zzzz"), lab.undo(), return_exceptions=True
            )  # fmt: skip
        finally:
            beating.cancel()
        assert beats > 5
        return [str(one) for one in said]

    said = lab.loop.submit(inside()).result(20)
    assert said[0] == "coder is paused until it is resumed"
    assert said[1].startswith("coder\n") and said[2].startswith("chat as human")
    assert said[3].startswith("Cannot withdraw 'zzzz'")
    assert said[4].startswith("There is nothing to undo")


def test_a_verb_on_the_loop_that_nobody_awaits_says_what_to_write(lab: Lab, coder: ParticipantVerbs) -> None:
    async def inside() -> str:
        under_way = coder.pause()
        with pytest.raises(MewError, match=r"pause of coder: .* write `await` before it"):
            _ = under_way.text
        assert "write `await`" in repr(under_way)
        return str(await under_way)

    assert lab.loop.submit(inside()).result(20) == "coder is paused until it is resumed"


def test_a_verb_on_the_loop_ends_with_its_time(lab: Lab) -> None:
    seat_mute(lab)

    async def inside() -> None:
        await lab.of("mute").status(timeout=0.2)

    with pytest.raises(NoReply, match="mute"):
        lab.loop.submit(inside()).result(20)


# --- tools of every seat ---


def test_every_seat_takes_tools_by_a_decorator(lab: Lab) -> None:
    calculator, weather = lab.join("calculator", can="tool"), lab.join("weather", can="tool")

    @calculator.tool
    def add(a: int, b: int) -> int:
        "Sum of two numbers."
        return a + b

    @weather.tool(name="forecast")
    def tell(city: str) -> str:
        return f"sun in {city}"

    assert str(lab.call("calculator/add", a=1, b=2).result(20)) == "3"
    assert str(lab.call("weather/forecast", city="Rome").result(20)) == "sun in Rome"

    @calculator.tool(name="add")
    def add_again(a: int, b: int) -> int:
        return 10 * (a + b)

    assert str(lab.call("calculator/add", a=1, b=2).result(20)) == "30"
    assert add(1, 2) == 3


def test_a_seat_whose_tools_come_from_elsewhere_says_so(lab: Lab) -> None:
    seat = lab.join("server", can="tool")
    seat.participant.tools = object()
    with pytest.raises(MewError, match="its tools come from elsewhere"):
        seat.tool(lambda: None)


def test_a_wrong_direction_is_not_sent(lab: Lab) -> None:
    with pytest.raises(LocalProtocolError, match="it is 'upload' or 'download'"):
        lab.stream(direction="sideways")
    assert sent(lab, "stream/request") == []
