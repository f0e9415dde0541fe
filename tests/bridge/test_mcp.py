"""MCP servers as participants: the real git server, and one that misbehaves."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from mew_lab.bridge import mcp as bridges
from mew_lab.bridge.mcp import McpBridge
from mew_lab.bridge.process import ServerProcess
from mew_lab.errors import CapabilityViolation, MewError, NoReply, OutcomeUnknown, ToolFailed
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.permit import PROFILES
from mew_lab.sdk.discovery import CHANGED

from .conftest import ODD, Site, alive, until

# --- the real thing ---


@pytest.mark.req("P-2.1-4", "P-3.1.2-3", "P-9.1-1", "S-L2-1", "S-TST-2")
async def test_the_git_server_answers_a_fulfilled_proposal(site: Site, repository: Path) -> None:
    bridge = await site.bridge(["python", "-m", "mcp_server_git", "--repository", str(repository)])
    assert bridge.command_line == shlex.join(
        [sys.executable, "-m", "mcp_server_git", "--repository", str(repository)]
    )
    human, bot = await site.seat("human"), await site.seat("bot", "proposer")
    tools = {tool["name"]: tool for tool in await human.list_tools("git")}
    assert "git_log" in tools and tools["git_log"]["inputSchema"]["type"] == "object"
    call = bot.call("git/git_log", {"repo_path": str(repository)})
    await until(lambda: human.proposals.open())
    await human.approve(call.id)
    result = await call
    assert "The first of them" in result.text
    assert set(result.raw) <= {"content", "isError", "structuredContent"}
    assert bridge.hints_of("git_log")["readOnlyHint"] is True
    with pytest.raises(ToolFailed):
        await human.call("git/git_log", {"repo_path": str(repository.parent / "elsewhere")})
    await bridge.stop()
    await until(lambda: "git" not in human.client.participants)
    assert not alive(bridge.pid) and site.ended == []


# --- unchanged ---


@pytest.mark.req("P-2.1-4", "P-3.1.2-3")
async def test_results_and_errors_go_out_as_the_server_gave_them(site: Site) -> None:
    await site.odd()
    human = await site.seat("human")
    answer = await human.call("git/odd", {"nothing": None})
    assert answer.raw == {
        "content": [{"type": "text", "text": "as it came", "annotations": None}],
        "x-own": {"a_b": None, "cD": 1},
        "_meta": {"k": 1},
    }
    with pytest.raises(ToolFailed) as caught:
        await human.call("git/nope")
    assert (caught.value.code, caught.value.data) == (-32602, {"why": None})
    assert "git/nope failed: Unknown: tools/call" in str(caught.value)
    assert [tool["name"] for tool in await human.list_tools("git")] == [
        "env",
        "die",
        "odd",
        "sleep",
        "change",
    ]
    assert await human.mcp_request("git", {"method": "ping"}) == {}
    assert (await human.mcp_request("git", {"method": "initialize"}))["serverInfo"] == {
        "name": "odd",
        "version": "1",
    }
    with pytest.raises(ToolFailed, match="Method not found: tasks/list"):
        await human.mcp_request("git", {"method": "tasks/list"})


async def test_a_changed_tool_list_is_relayed_where_the_bridge_may(site: Site) -> None:
    notify = {"kind": "mcp/request", "payload": {"method": "notifications/**"}}
    await site.odd(can=[notify])
    human = await site.seat("human")
    notices: list[Envelope] = []
    human.client.on_message(notices.append)
    await human.call("git/change")
    await until(
        lambda: any(notice.payload.get("method") == "notifications/tools/list_changed" for notice in notices)
    )
    [note] = [
        notice for notice in notices if notice.payload.get("method") == "notifications/tools/list_changed"
    ]
    assert (note.sender, note.kind, note.to, "id" in note.payload) == ("git", "mcp/request", (), False)


@pytest.mark.parametrize("begins_busy", [False, True])
async def test_an_error_about_the_tools_takes_none_away_and_they_are_asked_for_again(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins_busy: bool
) -> None:
    monkeypatch.setattr(bridges, "ASK_AGAIN_AFTER", (0.05,) * 400)
    busy = tmp_path / "busy"
    if begins_busy:
        busy.touch()
    bridge = await site.odd(
        "busy", str(busy), can=[*PROFILES["tool"], {"kind": "mcp/request", "payload": {"method": CHANGED}}]
    )
    human = await site.seat("human")
    notices: list[Envelope] = []
    human.client.on_message(notices.append, kinds=["mcp/request"])
    if not begins_busy:
        assert (len(bridge.listed.tools), bridge.hints_of("env")) == (5, {"readOnlyHint": True})
        busy.touch()
        await human.call("git/change")
        await until(lambda: busy.read_text())
        await human.call("git/odd")  # its answer comes after the refusal
        assert (len(bridge.listed.tools), bridge.hints_of("env")) == (5, {"readOnlyHint": True})
    announced = len(notices)
    busy.unlink()
    await until(lambda: "late" in [tool.name for tool in bridge.listed.tools])
    await until(lambda: len(notices) > announced)
    assert notices[-1].payload["method"] == CHANGED


async def test_without_the_capability_nothing_is_relayed_and_nothing_breaks(site: Site) -> None:
    bridge = await site.odd()
    human = await site.seat("human")
    assert (await human.call("git/change")).text == "changed"
    assert bridge.participant is not None and not bridge.participant.can_send("mcp/request")


async def test_progress_goes_to_who_asked_for_it_with_her_token(site: Site) -> None:
    await site.odd(can=PROFILES["tool"])
    human, other = await site.seat("human"), await site.seat("other", "admin")
    notices: list[Envelope] = []
    human.client.on_message(notices.append)

    def params(**more: Any) -> dict[str, Any]:
        return {"method": "tools/call", "params": {"name": "steps", "arguments": {}, **more}}

    call = human.mcp_request("git", params(_meta={"progressToken": "mine", "own": 1}))
    server = json.loads((await call).text)
    assert server["own"] == 1 and server["progressToken"] != "mine"
    told = [note for note in notices if note.payload.get("method") == "notifications/progress"]
    assert [note.payload["params"]["progress"] for note in told] == [1, 2, 3]
    assert {(note.to, note.correlation_id) for note in told} == {(("human",), (call.id,))}
    assert told[-1].payload["params"] == {
        "progressToken": "mine",
        "progress": 3,
        "total": 3,
        "message": "step 3",
    }
    # Without a token nothing is reported.
    assert json.loads((await other.mcp_request("git", params())).text) == {}
    assert len([note for note in notices if note.payload.get("method") == "notifications/progress"]) == 3


# --- what it is given ---


@pytest.mark.threat(28, 1)
async def test_the_server_gets_the_named_environment_and_no_more(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_TOKEN", "canary-secret")
    monkeypatch.setenv("MEW_TEST_NAMED", "given")
    monkeypatch.setenv("LANG", "C.UTF-8")
    bridge = await site.odd(env=["MEW_TEST_NAMED"], cwd=tmp_path)
    human = await site.seat("human")
    seen = json.loads((await human.call("git/env")).text)
    allowed = {"PATH", "HOME", "LANG", "TMPDIR", "SYSTEMROOT", "MEW_TEST_NAMED"}
    assert (
        set(seen["env"]) - {"LC_CTYPE", "__CF_USER_TEXT_ENCODING"} <= allowed
    )  # Python's own coercion of LANG
    assert seen["env"]["MEW_TEST_NAMED"] == "given" and seen["cwd"] == str(tmp_path)
    assert seen["pid"] == bridge.pid and seen["sid"] != os.getsid(0)


@pytest.mark.threat(28)
@pytest.mark.usefixtures("short_grace")
async def test_a_server_that_hangs_in_a_call_is_gone_after_stop(site: Site) -> None:
    bridge = await site.odd()
    human = await site.seat("human")
    call = human.call("git/sleep")
    answering = bridge.participant.request_server
    await until(lambda: len(answering) == 1)
    await bridge.stop()
    await bridge.stop()
    with pytest.raises(NoReply, match="git left space 'demo' before answering git/sleep"):
        await call
    assert not alive(bridge.pid)


@pytest.mark.threat(28)
async def test_noise_on_either_output_is_neither_shown_nor_harmful(
    site: Site, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    processes: list[ServerProcess] = []

    def make_process(*about: Any, **how: Any) -> ServerProcess:
        processes.append(ServerProcess(*about, **how))
        return processes[-1]

    monkeypatch.setattr("mew_lab.bridge.mcp.ServerProcess", make_process)
    await site.odd("noisy")
    human = await site.seat("human")
    assert (await human.call("git/odd")).text == "as it came"
    (process,) = processes
    await until(lambda: process.stderr_since(0)[0][-1:] == ["quiet now"])
    assert len(process.stderr_since(0)[0]) <= 64
    assert capfd.readouterr() == ("", "")


@pytest.mark.threat(28)
@pytest.mark.parametrize(
    ("members", "fault"),
    [
        ({"result": [1, 2]}, "it has a result that is no object"),
        ({"result": None}, "it has a result that is no object"),
        ({}, "it holds neither a result nor an error"),
        ({"error": "broken"}, "it has an error that is no object: 'broken'"),
        ({"error": {"code": "x", "message": "broken"}}, "it has an error whose code is no integer: 'x'"),
        ({"error": {"code": 1}}, "it has an error whose message is no text: None"),
        ({"jsonrpc": "1.0", "result": {}}, "it is no response of JSON-RPC 2.0"),
    ],
)
async def test_a_malformed_answer_of_the_server_leaves_its_call_unknown_at_once(
    site: Site, members: dict[str, Any], fault: str
) -> None:
    await site.odd("malformed")
    human = await site.seat("human")
    async with asyncio.timeout(5):
        with pytest.raises(OutcomeUnknown, match=f"The MCP server sent a malformed answer: {fault}"):
            await human.call("git/odd", members)
        listed = await human.mcp_request("git", {"method": "tools/list", "params": {}})
    assert "tools" in listed


async def test_a_server_without_tools_is_a_server(site: Site) -> None:
    await site.odd("toolless")
    assert site.bridges[0].listed.tools == ()


# --- what goes wrong ---


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (
            ["python", "-m", "no_such_module_of_anybody"],
            r"-m no_such_module_of_anybody: it ended \(exit 1\): .*No module named",
        ),
        (
            ["python", str(ODD), "exit"],
            r"odd_server.py exit: it ended \(exit 1\): ModuleNotFoundError: No module named 'nope'",
        ),
        (
            ["no-such-program-of-anybody", "--x"],
            "cannot run no-such-program-of-anybody --x: there is no program",
        ),
        (["python", "-c", "print('hello')"], r"it ended \(exit 0\)$"),
    ],
)
async def test_a_server_that_does_not_start_is_told_in_one_line(
    site: Site, command: list[str], sentence: str
) -> None:
    with pytest.raises(MewError, match=sentence) as caught:
        await site.bridge(command)
    assert "\n" not in str(caught.value)
    assert site.gateway.connections("demo") == 0 and site.ended == []


@pytest.mark.usefixtures("short_grace")
async def test_a_server_that_never_answers_is_given_up_and_ended(site: Site) -> None:
    with pytest.raises(
        MewError, match=r"odd_server.py mute did not answer `initialize` within 0.3 s\. Is it an MCP"
    ):
        await site.odd("mute", start_timeout=0.3)
    await until(lambda: not alive(site.bridges[0].pid))


async def test_a_participant_that_is_not_admitted_leaves_no_server_behind(site: Site) -> None:
    first = await site.odd()
    second = McpBridge("git", ["python", str(ODD)])
    with pytest.raises(MewError, match="participant id 'git' is taken"):
        await second.start(site.client("git", "tool"))
    assert not alive(second.pid) and alive(first.pid)


@pytest.mark.threat(28)
async def test_when_the_server_dies_what_is_asked_is_answered_and_the_participant_leaves(site: Site) -> None:
    bridge = await site.odd()
    human = await site.seat("human")
    sentence = (
        r"the MCP server of participant git ended \(exit 3\); its last lines: one line \| the last words"
    )
    with pytest.raises(OutcomeUnknown, match=sentence) as caught:
        await human.call("git/die")
    assert caught.value.data == {"code": "outcome_unknown"}
    await until(lambda: "git" not in human.client.participants and site.ended)
    assert bridge.command_line in site.ended[0] and len(site.ended) == 1
    assert not alive(bridge.pid)


async def test_leaving_the_space_ends_the_server(site: Site) -> None:
    bridge = await site.odd()
    site.gateway.close(1000, "enough")
    await until(lambda: site.ended)
    assert "left the space, so its MCP server was ended" in site.ended[0]
    await until(lambda: not alive(bridge.pid))


async def test_a_tool_profile_lets_a_bridge_answer_and_no_more(site: Site) -> None:
    bridge = await site.odd()
    with pytest.raises(CapabilityViolation):
        await bridge.participant.notify("notifications/cancelled")
    assert repr(bridge).startswith("<McpBridge git: ")


def test_a_bridge_knows_the_folders_to_which_its_server_is_given_access(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "c").mkdir()
    words = ["server", "c", f"--root={tmp_path}", "no-folder", "\0", "x" * 5000]
    bridge = McpBridge("files", words, cwd=tmp_path, roots=[tmp_path / "a b"])
    assert bridge.folders == [tmp_path / "c", tmp_path, tmp_path / "a b"]
