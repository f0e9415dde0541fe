"""A lab from the outside, as a person at a prompt uses it: real gateway, real sockets, real journal."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mew_lab
from mew_lab.errors import (
    CannotWait,
    CapabilityViolation,
    ConfigError,
    ConnectionLost,
    LocalProtocolError,
    MewError,
    NoReply,
    NotAdmitted,
    ProposalRejected,
    ProposalWithdrawn,
    Refused,
    ToolFailed,
)
from mew_lab.lab.decisions.policies import Policy
from mew_lab.lab.lab import NAMES, Lab
from mew_lab.lab.labs import connect, current, labs, up, use
from mew_lab.log.log import open_log
from mew_lab.protocol.steps import finish
from mew_lab.sdk.request_rows import read_request, read_values

from .looking import approve, eventually

Adding = Callable[[int, int], Any]


def kinds(lab: Lab) -> list[str]:
    return [json.loads(record.raw or "{}").get("kind", "") for record in lab.log.records if record.raw]


# --- the story --------------------------------------------------------------------------------------------------


@pytest.mark.req("P-9.1-1", "P-3.2.1-1", "P-3.2.1-3", "P-3.2.1-5", "S-L2-14", "S-L2-15", "S-L2-16", "S-L2-17")
def test_what_one_proposes_and_another_approves_is_done_and_all_of_it_is_in_the_log(
    lab: Lab, adding: Adding
) -> None:
    bot = lab.join("bot", can="proposer")
    pending = bot.call("notebook/add", {"a": 3}, b=4)
    assert (pending.kind, pending.state) == ("mcp/proposal", "open")
    [row] = lab.proposals()
    assert row[0] == pending.id and row[1:4] == ("bot", "notebook", "add(a=3, b=4)")
    assert "Approved: bot asks notebook to run add" in str(approve(lab, pending.id))
    assert str(pending.result(10)) == "7"
    assert (pending.state, pending.by) == ("answered", "human")
    sent = [json.loads(record.raw) for record in lab.log.records if record.raw]
    proposal, request, response = (
        next(one for one in sent if one["kind"] == kind)
        for kind in ("mcp/proposal", "mcp/request", "mcp/response")
    )
    assert request["correlation_id"] == [proposal["id"]] and request["to"] == proposal["to"] == ["notebook"]
    assert request["payload"]["params"] == proposal["payload"]["params"] and request["from"] == "human"
    assert response["correlation_id"] == [request["id"]] and response["to"] == ["human"]


def test_who_may_asks_directly(lab: Lab, adding: Adding) -> None:
    pending = lab.call("notebook/add", a=1, b=2)
    assert pending.kind == "mcp/request" and pending.result(10).structured == {"result": 3}
    assert lab.propose("notebook/add", a=1, b=2).kind == "mcp/proposal"


async def test_everything_awaits_in_a_running_loop(lab: Lab, adding: Adding) -> None:
    bot = await lab.join("bot")
    pending = bot.call("notebook/add", a=3, b=4)
    await approve(lab, pending.id)
    assert str(await pending) == "7"
    assert len(await lab.who()) == 3 and len(await lab.tools()) == 1


def test_a_rejection_raises_what_the_specification_says(lab: Lab, adding: Adding) -> None:
    pending = lab.join("bot").call("notebook/add", a=3, b=4)
    lab.reject(pending.id[:8], "unsafe")
    with pytest.raises(ProposalRejected, match=r"^Proposal rejected by human: unsafe$"):
        pending.result(10)
    assert lab.history()[0][3:5] == ("rejected", "human")


@pytest.mark.trap("T-4")
@pytest.mark.threat(18, 19)
def test_only_the_first_decision_counts(lab: Lab, adding: Adding) -> None:
    pending = lab.join("bot").call("notebook/add", a=3, b=4)
    card = lab.decisions.card(pending.id)
    lab.decisions.record_shown(card.id, view="v", digest=card.digest)
    press = lab.decisions.click("v")
    futures = [
        lab.decisions.decide(card.id, digest=card.digest, decision="approve", click=press) for _ in range(20)
    ]
    outcomes = [future.exception(10) for future in futures]
    assert sum(outcome is None for outcome in outcomes) == 1
    assert all(isinstance(outcome, MewError) and "already" in str(outcome) for outcome in outcomes if outcome)
    assert str(pending.result(10)) == "7"
    assert kinds(lab).count("mcp/request") == 1
    with pytest.raises(MewError, match="fulfilled already by human"):
        approve(lab, pending.id)


@pytest.mark.threat(14)
def test_what_was_not_shown_is_not_sent(lab: Lab, adding: Adding) -> None:
    pending = lab.join("bot").call("notebook/add", a=3, b=4)
    with pytest.raises(MewError, match="what was shown is not what is proposed"):
        press = lab.decisions.click("v")
        lab.decisions.decide(pending.id, digest="0" * 64, decision="approve", click=press).result(10)
    assert "mcp/request" not in kinds(lab) and pending.state == "open"
    approve(lab, pending.id)
    assert str(pending.result(10)) == "7"


@pytest.mark.req("P-3.3.1-4", "P-3.3.1-1")
def test_a_withdrawn_proposal_cannot_be_approved(lab: Lab, adding: Adding) -> None:
    pending = lab.join("bot").call("notebook/add", a=3, b=4)
    assert "bot has withdrawn" in str(lab.withdraw(pending.id[:10]))
    with pytest.raises(ProposalWithdrawn):
        pending.result(10)
    with pytest.raises(MewError, match="withdrawn already by bot"):
        approve(lab, pending.id)


def test_a_proposal_to_nobody_needs_a_target_and_is_marked_as_edited(lab: Lab, adding: Adding) -> None:
    bot = lab.join("bot")
    payload = {"method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 1}}}
    id = bot.send("mcp/proposal", payload).id
    with pytest.raises(MewError):
        approve(lab, id)
    assert lab.decisions.targets() == ["bot", "notebook"]
    approve(lab, id, to="notebook")
    card = eventually(lambda: [one for one in lab.decisions.decided() if one.state == "done"])[0]
    assert card.edited and card.outcome == "2"


@pytest.mark.threat(16)
def test_a_card_shows_all_that_will_be_sent(lab: Lab) -> None:
    bot = lab.join("bot")
    payload = {
        "method": "tools/call",
        "params": {"name": "t", "arguments": {"a": 1}, "_meta": {"x": 2}},
        "extra": [3],
    }
    id = bot.send("mcp/proposal", payload, to="human").id
    card = lab.decisions.card(id)
    assert card.details == (
        ("/payload/params/arguments/a", "1"),
        ("/payload/params/_meta", '{"x": 2}'),
        ("/payload/extra", "[3]"),
    )
    request = finish(read_request(card.arguments, finish(read_values(card.arguments))))
    assert request["payload"] == payload | {"jsonrpc": "2.0", "id": card.request_id}


# --- policies ---------------------------------------------------------------------------------------------------


@pytest.mark.trap("T-6")
@pytest.mark.req("P-7.3-4")
def test_a_policy_decides_aloud_and_its_name_is_in_the_journal(lab: Lab, adding: Adding) -> None:
    bot = lab.join("bot")
    early = bot.call("notebook/add", a=1, b=1)
    lab.decide = Policy.approve()
    assert str(early.result(10)) == "2"
    assert str(bot.call("notebook/add", a=2, b=2).result(10)) == "4"
    assert "policy" in lab.decisions.banner().lower() and "policy approve" in str(lab.status())
    decided = [json.loads(record.detail) for record in lab.log.records if record.event == "decided"]
    assert [one["by"] for one in decided] == ["policy approve"] * 2
    assert [row[4] for row in lab.history()] == ["human by policy approve"] * 2
    lab.decide = Policy.deny()
    with pytest.raises(ProposalRejected, match="policy"):
        bot.call("notebook/add", a=2, b=2).result(10)


@pytest.mark.divergence("P-9.4-2")
def test_what_was_approved_many_times_is_asked_for_again(lab: Lab, adding: Adding) -> None:
    bot = lab.join("bot")
    for _ in range(5):
        call = bot.call("notebook/add", a=1, b=1)
        eventually(lab.proposals)
        _ = str(lab.proposals()[0])
        lab.approve(call.id)
        assert str(call.result(10)) == "2"
    again, other = bot.call("notebook/add", a=1, b=1), bot.call("notebook/add", a=2, b=2)
    eventually(lambda: len(lab.proposals()) == 2)
    lab.reject(other.id, "no")
    with pytest.raises(ProposalRejected):
        other.result(10)
    assert again.state == "open" and lab.decide is None  # though it came before the one that was decided


def test_the_environment_sets_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEW_LAB_DECIDE", "approve")
    lab = up("headless")

    @lab.tool
    def ping() -> str:
        return "pong"

    assert str(lab.join("bot").call("notebook/ping").result(10)) == "pong"


# --- waiting ----------------------------------------------------------------------------------------------------


@pytest.mark.trap("T-5")
def test_a_wait_that_is_given_up_leaves_the_proposal_open(lab: Lab, adding: Adding) -> None:
    pending = lab.join("bot").call("notebook/add", a=3, b=4)
    with pytest.raises(NoReply, match="it stays open"):
        pending.result(0.05)

    async def impatient() -> None:
        async with asyncio.timeout(0.05):
            await pending

    with pytest.raises(TimeoutError):
        asyncio.run(impatient())
    assert pending.state == "open" and "mcp/withdraw" not in kinds(lab)
    approve(lab, pending.id)
    assert str(pending.result(10)) == "7"


def test_waiting_on_the_loop_itself_names_the_other_form(lab: Lab, adding: Adding) -> None:
    pending = lab.join("bot").call("notebook/add", a=3, b=4)

    async def inside() -> None:
        pending.result(1)

    with pytest.raises(CannotWait, match="await p"):
        lab.loop.run(inside(), timeout=5, doing="x")


# --- bad input --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "error", "says"),
    [
        (lambda lab: lab.join("gateway"), ConfigError, "cannot be a participant id"),
        (lambda lab: lab.join("a\nb"), ConfigError, "cannot be a participant id"),
        (lambda lab: lab.join("bot", can="wizard"), ConfigError, "There is no profile 'wizard'"),
        (lambda lab: lab.join("bot", can=[{"knd": "chat"}]), ConfigError, "knd"),
        (lambda lab: lab.join("human"), MewError, "already exists"),
        (lambda lab: lab.call("nowhere"), MewError, "participant/tool"),
        (lambda lab: lab.approve("zzz"), MewError, "there is no proposal 'zzz'"),
        (lambda lab: lab.withdraw("zzz"), MewError, "no open proposal of a seat of this process"),
        (lambda lab: lab.chat("x", as_id="nobody"), MewError, "has no seat here"),
        (lambda lab: lab.leave("nobody"), MewError, "has no seat here"),
        (lambda lab: lab.leave("human"), MewError, "lab.down"),
        (lambda lab: lab.tools("nobody"), MewError, "is not here"),
        (lambda lab: lab.send("system/register"), MewError, "reserved for the gateway"),
        (lambda lab: lab.send("chat", {"x": float("nan")}), MewError, "JSON"),
        (lambda lab: lab.send("capability/grant", {}), Refused, "requires recipient"),
        (lambda lab: up("demo"), MewError, "is up already"),
        (lambda lab: up("a\nb"), ConfigError, "Cannot open the space"),
        (lambda lab: use("zzz"), MewError, "There is no lab 'zzz'"),
        (lambda lab: connect(lab.url, space="demo", name="x"), ConfigError, "exactly one of"),
        (
            lambda lab: connect(lab.url, space="demo", token="wrong", name="x"),
            NotAdmitted,
            "token or the space is unknown",
        ),
        (
            lambda lab: connect(lab.url, space="else", token="wrong"),
            NotAdmitted,
            "token or the space is unknown",
        ),
        (lambda lab: connect(lab.url, space="demo", token_env="NO_SUCH", name="x"), ConfigError, "NO_SUCH"),
        (lambda lab: connect(lab.url, space="demo", token_file="no-such", name="x"), ConfigError, "no-such"),
        (
            lambda lab: connect("ws://127.0.0.1:9/ws", space="demo", token="t", name="x"),
            ConnectionLost,
            "nothing could be reached at ws://127.0.0.1:9",
        ),
        (lambda lab: connect("ftp://x", space="demo", token="t", name="x"), ConfigError, "ftp://x"),
    ],
)
def test_bad_input_gets_one_sentence_and_the_space_goes_on(
    lab: Lab, act: Callable[[Lab], Any], error: type[MewError], says: str
) -> None:
    with pytest.raises(error, match=says) as caught:
        act(lab)
    assert "\n" not in str(caught.value) and "wrong" not in str(caught.value)
    assert list(labs()) == ["demo"]
    lab.chat("still here")
    assert kinds(lab)[-1] == "chat"


def test_an_unknown_tool_and_wrong_arguments_are_the_tools_own_errors(lab: Lab, adding: Adding) -> None:
    async def call_unchecked(target: str, arguments: dict[str, Any]) -> object:
        return await lab.me.participant.call(target, arguments)

    with pytest.raises(ToolFailed, match="nosuch"):
        lab.me.run(call_unchecked("notebook/nosuch", {}))
    with pytest.raises(ToolFailed, match="must be an integer") as caught:
        lab.me.run(call_unchecked("notebook/add", {"a": "x", "b": 1}))
    assert caught.value.code == -32602


def test_a_call_that_cannot_succeed_is_refused_before_it_is_sent(lab: Lab, adding: Adding) -> None:
    with pytest.raises(LocalProtocolError, match=r"no tool 'ad' \(did you mean 'notebook/add'\?\)"):
        lab.call("notebook/ad", a=1, b=2)
    with pytest.raises(LocalProtocolError, match=r"a must be an integer; it takes a, b"):
        lab.call("notebook/add", a="x", b=1)
    with pytest.raises(NoReply, match=r"nobody here is called 'notebok' \(did you mean 'notebook'\?\)"):
        lab.call("notebok/add", a=1, b=2)
    assert not [kind for kind in kinds(lab) if kind.startswith("mcp/")]
    assert lab.join("bot").call("notebook/add", a="x", b=1).kind == "mcp/proposal"  # an approval may edit it


def test_a_tool_that_is_newer_than_the_known_list_is_called(lab: Lab) -> None:
    lab.enrol("other", can="tool")
    other = connect(lab.url, space="demo", token_file=lab.token_file("other"), name="other")
    eventually(lambda: "other" in lab.me.participant.client.participants)

    async def offer(name: str) -> None:
        other.me.participant.register_tool(lambda: "pong", name=name, description="Answers.")

    other.me.run(offer("pong"))
    assert len(lab.tools("other")) == 1
    other.me.run(offer("ping"))
    assert str(lab.call("other/ping").result(10)) == "pong"
    assert lab.tools("other")
    with pytest.raises(LocalProtocolError, match=r"other has no tool 'pin' \(did you mean 'other/ping'\?\)"):
        lab.call("other/pin")


def test_a_tool_that_raises_answers_and_lives_on(lab: Lab) -> None:
    @lab.tool
    async def crash(hard: bool = True) -> str:
        if hard:
            raise ValueError("boom")
        return "fine"

    with pytest.raises(ToolFailed, match="boom"):
        lab.call("notebook/crash").result(10)
    assert str(lab.call("notebook/crash", hard=False).result(10)) == "fine"


def test_running_the_cell_again_replaces_the_tool(lab: Lab) -> None:
    for answer in ("one", "two"):

        @lab.tool
        def say(answer: str = answer) -> str:
            return answer

    assert str(lab.call("notebook/say").result(10)) == "two"
    assert [row[0] for row in lab.tools()] == ["notebook/say"]


def test_who_may_neither_ask_nor_propose_is_told_what_would_help(lab: Lab, adding: Adding) -> None:
    watcher = lab.join("watcher", can="observer")
    with pytest.raises(CapabilityViolation, match="watcher"):
        watcher.call("notebook/add", a=1, b=2)


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            ConfigError, match=f"port {port} of 127.0.0.1 is in use already; choose another port"
        ):
            up("demo", port=port)
    assert labs() == {}
    up("demo")


def test_without_a_lab_the_sentence_says_how_to_get_one() -> None:
    with pytest.raises(MewError, match="%mew up"):
        current()


# --- several labs, and the end of them ----------------------------------------------------------------------------


def test_labs_are_kept_by_name_and_one_is_current(lab: Lab) -> None:
    other = up("second")
    assert list(labs()) == ["demo", "second"] and current() is other
    assert use("demo") is lab and current() is lab
    note = str(lab.down())
    assert note.startswith("demo is down") and current() is other
    assert "down already" in str(lab.down())
    with pytest.raises(MewError, match="is down; start one"):
        lab.join("bot")


def test_down_says_what_was_pending_and_leaves_nothing_open(lab: Lab, adding: Adding) -> None:
    pending = lab.join("bot").call("notebook/add", a=3, b=4)
    port = int(lab.url.split(":")[2].split("/")[0])
    token_file = lab.token_file()
    note = str(lab.down())
    assert pending.id in note and "journal stays in" in note
    with socket.socket() as free:
        free.bind(("127.0.0.1", port))
    assert not token_file.exists()
    with pytest.raises(MewError):
        pending.result(5)


def test_down_names_some_of_very_many_that_were_pending(lab: Lab, adding: Adding) -> None:
    bot = lab.join("bot")
    made = [bot.call("notebook/add", a=n, b=4).id for n in range(25)]
    note = str(lab.down())
    assert all(id in note for id in made[:20]) and made[20] not in note
    assert "and 5 more" in note


def test_the_journal_is_the_log(lab: Lab, tmp_path: Path) -> None:
    lab.chat("one")
    lab.chat("two", to="nobody")
    [path] = (tmp_path / ".mew" / "demo").glob("*.jsonl")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (tmp_path / ".mew" / ".gitignore").read_text() == "*\n"
    saved = lab.save(tmp_path / "session.jsonl")
    assert "session.jsonl" in str(saved)
    lab.down()
    mine = [record.raw for record in lab.log.records if record.raw]
    for file in (path, tmp_path / "session.jsonl"):
        again = [record.raw for record in open_log(file).records if record.raw]
        assert again[: len(mine)] == mine[: len(again)] and len(again) >= 4
    assert mew_lab.open_log(tmp_path / "session.jsonl").df["kind"].tolist()[-1] == "chat"


def test_a_lab_without_a_journal_writes_nothing(tmp_path: Path) -> None:
    lab = up("quiet", journal=None, port=None)
    lab.chat("x")
    assert list(tmp_path.iterdir()) == [] and lab.url == ""


# --- a space elsewhere --------------------------------------------------------------------------------------------


def test_a_second_lab_sees_and_decides_what_a_participant_can(lab: Lab, adding: Adding) -> None:
    bot = lab.join("bot")
    other = connect(lab.url, space="demo", token_file=lab.token_file(), as_id="human-2", name="two")
    assert other.vantage == "participant" and other.me.participant.client.id == "human-2"
    pending = bot.call("notebook/add", a=3, b=9)
    assert eventually(other.proposals)[0][0] == pending.id
    approve(other, pending.id[:12])
    assert (str(pending.result(10)), pending.by) == ("12", "human-2")
    eventually(lambda: lab.decisions.decided() and lab.decisions.decided()[0].state == "done")
    assert lab.decisions.decided()[0].by == "human-2"
    with pytest.raises(MewError, match="runs elsewhere"):
        other.join("x")
    assert str(other.down()).startswith("two is down")
    assert not lab.closed and list(labs()) == ["demo"]


def test_a_connected_lab_notices_that_the_space_went_down(lab: Lab) -> None:
    other = connect(lab.url, space="demo", token_file=lab.token_file(), as_id="human-2", name="two")
    lab.down()
    eventually(lambda: other.me.participant.client.state != "ready")
    with pytest.raises(ConnectionLost):
        other.chat("hello?")
    assert "connecting" in str(other.status())
    assert str(other.down()).startswith("two is down")


@pytest.mark.trap("T-23", "T-24")
@pytest.mark.threat(1)
def test_no_token_shows_anywhere_but_in_its_file(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    path = lab.token_file()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    token = path.read_text().strip()
    other = connect(lab.url, space="demo", token=token, as_id="human-2", name="two")
    told = [lab.join_line(), lab.status(), lab.who(), lab, other, other.status(), other.me, caplog.text]
    told += [vars(other.me.participant.client), list(lab.log.records)]
    assert token not in " ".join(map(repr, told)) + " ".join(map(str, told))
    assert "--token-file" in lab.join_line() and "127.0.0.1" in lab.url


# --- without threads ------------------------------------------------------------------------------------------------


@pytest.mark.trap("T-25")
async def test_without_threads_a_space_in_memory_runs_on_the_loop_that_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from mew_lab.lab import labs as labs_module
    from mew_lab.lab.loop import LoopThread

    def no_threads(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_threads)
    loop = LoopThread()
    monkeypatch.setattr(labs_module, "the_loop", lambda: loop)
    lab = await up("pyodide", journal=None, port=None)  # type: ignore[misc]
    bot = await lab.join("bot")
    helper = await lab.join("helper", can="tool")
    lab.tool(lambda: "pong", seat=helper, name="ping")
    lab.tool(lambda: "pong", seat="helper", name="by_name")
    assert {"ping", "by_name"} <= set(helper.participant.tools.tools)
    with pytest.raises(MewError, match=r"'helpr' has no seat here \(did you mean 'helper'\?\)"):
        lab.tool(lambda: "pong", seat="helpr", name="nowhere")
    pending = await bot.call("helper/ping")
    await approve(lab, pending.id)
    assert str(await pending) == "pong"
    with pytest.raises(CannotWait, match="await p"):
        pending.result()
    await lab.down()
    assert labs() == {}


@pytest.mark.trap("T-9")
def test_a_fault_in_the_background_is_told_by_status(lab: Lab) -> None:
    bot = lab.join("bot")

    def broken(envelope: object) -> None:
        raise ValueError("a handler of mine")

    lab.loop.call(lambda: bot.participant.client.on_message(broken))
    lab.chat("anything")
    eventually(lambda: lab.faults)
    assert "bot: " in lab.faults[-1] and "a handler of mine" in str(lab.status())


def test_a_seat_runs_what_it_has_no_verb_for(lab: Lab) -> None:
    bot = lab.join("bot", can="agent")

    async def count() -> tuple[str, bool]:
        stream = await bot.participant.streams.request_stream(description="numbers")
        await stream.write("1\n")
        await stream.close()
        return stream.description, lab.loop.is_current()

    assert bot.run(count()) == ("numbers", True)

    with pytest.raises(NoReply, match=r"Running .*sleep as 'bot' took longer than 0\.05 s"):
        bot.run(asyncio.sleep(5), timeout=0.05)


def test_a_lab_that_cannot_end_its_grants_goes_down_all_the_same(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = lab.join("bot")

    async def fail() -> None:
        raise RuntimeError("no more")

    monkeypatch.setattr(lab.granting, "close", fail)
    with pytest.raises(RuntimeError, match="no more"):
        lab.down()
    assert lab.closed and bot.participant.client.state != "ready"
    assert lab.name not in mew_lab.labs()


# --- names --------------------------------------------------------------------------------------------------------


def test_dir_names_what_a_person_uses_and_nothing_else(lab: Lab) -> None:
    shown = {name for name in dir(lab) if not name.startswith("_")}
    assert shown == set(NAMES.split())
    for name in shown:
        assert getattr(lab, name) is not None or name in ("decide", "quorum")


def test_each_documented_name_is_shown() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    lessons = " ".join(
        file.read_text("utf-8") for file in (Path(__file__).parents[2] / "notebooks").glob("*.ipynb")
    )
    documented = set(re.findall(r"(?<![\w.])lab\.([a-z]\w*)", readme + lessons)) - {"py", "lab", "labs"}
    assert documented <= set(NAMES.split())


def test_each_method_with_a_docstring_for_a_person_names_no_section(lab: Lab) -> None:
    for name in NAMES.split():
        about = inspect.getdoc(getattr(Lab, name, None)) or ""
        assert "Spec:" not in about, name
