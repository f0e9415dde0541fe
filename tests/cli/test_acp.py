"""`mew-lab acp` as an editor starts it: a process over stdio, by the official client, with a space of another process."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp
import pytest
from acp.schema import (
    AcceptElicitationResponse,
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    RequestPermissionResponse,
)

from mew_lab.lab.lab import Lab
from mew_lab.protocol.envelope import Envelope

from ..lab.looking import sent
from ..waiting import eventually, until

ROOT = Path(__file__).resolve().parents[2]
FULL = ROOT / "tests" / "bridge" / "full_server.py"
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("MEW_")},
    "PYTHONPATH": str(ROOT),
}


class Panel:
    """The panel of an editor: what it was sent, and the questions that wait for `press`."""

    def __init__(self) -> None:
        self.updates: list[dict[str, Any]] = []
        self.questions: list[tuple[Any, asyncio.Future[Any]]] = []
        self.forms: list[tuple[str, dict[str, Any]]] = []

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        told = update.model_dump(mode="json", by_alias=True, exclude_none=True)
        self.updates.append({"session": session_id, **told})

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **more: Any) -> Any:
        answer = asyncio.get_running_loop().create_future()
        self.questions.append(((session_id, tool_call, options), answer))
        chosen = await answer
        outcome = (
            DeniedOutcome(outcome="cancelled")
            if chosen is None
            else AllowedOutcome(outcome="selected", option_id=chosen)
        )
        return RequestPermissionResponse(outcome=outcome)

    async def create_elicitation(self, message: str, mode: Any, **more: Any) -> Any:
        self.forms.append((message, mode.model_dump(mode="json", by_alias=True, exclude_none=True)))
        await asyncio.sleep(0.6)  # a person reads it
        return AcceptElicitationResponse(action="accept", content={"size": 3})

    async def question(self, number: int = 0) -> tuple[Any, asyncio.Future[Any]]:
        await until(lambda: len(self.questions) > number)
        # A person reads it: what comes faster than a card is armed is refused.
        await asyncio.sleep(0.6)
        return self.questions[number]

    def text(self, kind: str) -> str:
        pieces = [one["content"]["text"] for one in self.updates if one["sessionUpdate"] == kind]
        return "".join(pieces)

    def row(self, id: str) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for one in self.updates:
            if one.get("toolCallId") == id:
                row |= one
        return row


def words_of(lab: Lab, *more: str, name: str = "coder") -> list[str]:
    file = lab.token_file()
    return [
        "-m",
        "mew_lab.cli",
        "acp",
        lab.url,
        "--space",
        lab.space,
        "--agent",
        name,
        "--token-file",
        str(file),
        "--as",
        "human-2",  # the lab has the other connection of that person
        *more,
    ]


@asynccontextmanager
async def editor(words: Sequence[str], cwd: Path | None = None) -> AsyncIterator[tuple[Any, Panel, Any]]:
    panel = Panel()
    async with acp.spawn_agent_process(
        panel, sys.executable, *words, env=ENVIRONMENT, cwd=cwd, use_unstable_protocol=True,
        transport_kwargs={"limit": 1 << 24},
    ) as (agent, process):  # fmt: skip
        yield agent, panel, process


class Coder:
    """An agent of the lab that a test moves by hand."""

    def __init__(self, lab: Lab, can: Any = "agent") -> None:
        self.lab = lab
        self.seat = lab.join("coder", can=can)
        self.me = self.seat.participant
        self.asked: list[Envelope] = []
        lab.loop.call(lambda: self.me.on_chat(self.asked.append))

    def say(self, kind: str, payload: dict[str, Any], **more: Any) -> str:
        return str(self.seat.send(kind, payload, **more).id)

    async def prompted(self, number: int = 0) -> Envelope:
        await until(lambda: len(self.asked) > number)
        return self.asked[number]

    def answer(self, prompt: Envelope, text: str) -> None:
        self.say("chat", {"text": text}, to=prompt.sender, correlation_id=prompt.id)


async def test_a_turn_from_the_prompt_to_the_answer(lab: Lab) -> None:
    coder = Coder(lab)
    async with editor(words_of(lab)) as (agent, panel, _):
        hello = await agent.initialize(protocol_version=1)
        assert hello.protocol_version == 1 and hello.agent_info.title == f"coder in {lab.space}"
        assert (
            not hello.agent_capabilities.load_session
            and hello.agent_capabilities.session_capabilities.list is None
        )
        session = (await agent.new_session(cwd="/", mcp_servers=[])).session_id
        turn = asyncio.create_task(agent.prompt(session_id=session, prompt=[acp.text_block("dig the bed")]))
        prompt = await coder.prompted()
        assert (prompt.payload["text"], prompt.to) == ("dig the bed", ("coder",))
        start = coder.say("reasoning/start", {"message": "Looking"}, correlation_id=prompt.id)
        coder.say("reasoning/thought", {"message": "It is stony"}, context=start)
        coder.say(
            "reasoning/thought",
            {"message": "Plan", "plan": [{"content": "dig", "status": "in_progress", "priority": "odd"}]},
            context=start,
        )
        coder.say("participant/status", {"participant_id": "coder", "tokens": 10, "max_tokens": 100})
        coder.say("reasoning/conclusion", {"message": "Done"}, context=start)
        coder.answer(prompt, "dug **all** of it")
        assert (await turn).stop_reason == "end_turn"
        assert panel.text("agent_thought_chunk") == "Looking\n\nIt is stony\n\nDone\n\n"
        assert panel.text("agent_message_chunk") == "dug **all** of it\n\n"
        [plan] = [one for one in panel.updates if one["sessionUpdate"] == "plan"]
        assert plan["entries"] == [{"content": "dig", "priority": "medium", "status": "in_progress"}]
        [usage] = [one for one in panel.updates if one["sessionUpdate"] == "usage_update"]
        assert (usage["used"], usage["size"]) == (10, 100)


async def test_a_proposal_is_a_question_and_its_receipt_says_editor(
    lab: Lab, adding: Callable[[int, int], Any]
) -> None:
    coder = Coder(lab, can="proposer")
    async with editor(words_of(lab)) as (agent, panel, _):
        await agent.initialize(protocol_version=1)
        session = (await agent.new_session(cwd="/", mcp_servers=[])).session_id
        turn = asyncio.create_task(agent.prompt(session_id=session, prompt=[acp.text_block("add")]))
        prompt = await coder.prompted()
        call = coder.seat.call("notebook/add", a=1, b=2)
        (where, row, options), press = await panel.question()
        assert where == session
        assert [(one.name, one.kind) for one in options] == [
            ("Approve once", "allow_once"),
            ("Reject", "reject_once"),
        ]
        text = row.content[0].content.text
        card = lab.decisions.card(call.id)
        assert text.startswith("```text\n") and text.endswith("\n```")
        assert card.digest[:8] in text and "a  1" in text and "b  2" in text
        press.set_result(options[0].option_id)
        assert str(await asyncio.to_thread(call.result, 20)) == "3"
        coder.answer(prompt, "3")
        assert (await turn).stop_reason == "end_turn"
        await until(lambda: panel.row(row.tool_call_id)["status"] == "completed")
    found = eventually(lambda: lab.log.verify().consents.reported or lab.log.verify().consents.consented)
    [one] = found
    note = one.receipt.note
    assert (one.proposal, note.how, note.on_screen, note.digest) == (call.id, "editor", None, card.digest)
    assert "1 in an editor" in str(lab.log.verify().consents)
    assert lab.log.verify().ok


async def test_a_question_of_a_server_is_a_form_of_an_editor_that_shows_forms(lab: Lab) -> None:
    coder = Coder(lab, can="proposer")
    await asyncio.to_thread(lab.bridge, "shop", [sys.executable, str(FULL), "legacy"])
    able = ClientCapabilities.model_validate({"elicitation": {"form": {}}})
    async with editor(words_of(lab)) as (agent, panel, _):
        await agent.initialize(protocol_version=1, client_capabilities=able)
        session = (await agent.new_session(cwd="/", mcp_servers=[])).session_id
        turn = asyncio.create_task(agent.prompt(session_id=session, prompt=[acp.text_block("order")]))
        prompt = await coder.prompted()
        call = coder.seat.call("shop/order", what="pears")
        (_, _, options), press = await panel.question()
        press.set_result(options[0].option_id)
        assert str(await asyncio.to_thread(call.result, 20)).startswith("accept 3")
        coder.answer(prompt, "ordered")
        assert (await turn).stop_reason == "end_turn"
    [(message, form)] = panel.forms
    assert "How many pears?" in message and 'order({"what":"pears"})' in message
    assert form["sessionId"] == session and "size" in form["requestedSchema"]["properties"]


@pytest.mark.parametrize("knows", [True, False])
async def test_what_is_decided_elsewhere_is_withdrawn_by_a_cancel_that_an_editor_may_not_know(
    lab: Lab, adding: Callable[[int, int], Any], knows: bool
) -> None:
    coder = Coder(lab, can="proposer")
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words_of(lab), env=ENVIRONMENT, stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE, limit=1 << 24,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    read = process.stdout

    def write(**message: Any) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    told: list[dict[str, Any]] = []

    async def line(holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The next message of which that is true."""
        while True:
            told.append(json.loads(await asyncio.wait_for(read.readline(), 60)))
            if holds(told[-1]):
                return told[-1]

    write(id=1, method="initialize", params={"protocolVersion": 1})
    write(id=2, method="session/new", params={"cwd": "/", "mcpServers": []})
    await line(lambda one: one.get("id") == 2)
    call = coder.seat.call("notebook/add", a=1, b=2)
    asked = await line(lambda one: one.get("method") == "session/request_permission")
    row = asked["params"]["toolCall"]["toolCallId"]
    entry = next(one for one in lab.proposals() if one.id == call.id and str(one))
    await asyncio.to_thread(lab.approve, entry)
    cancel = await line(lambda one: one.get("method") == "$/cancel_request")
    assert cancel["params"] == {"requestId": asked["id"]} and "id" not in cancel
    if knows:
        write(id=asked["id"], error={"code": -32800, "message": "Request cancelled"})
    else:
        answer = {"outcome": "selected", "optionId": asked["params"]["options"][0]["optionId"]}
        write(id=asked["id"], result={"outcome": answer})
        await line(lambda one: "this decision changed nothing" in json.dumps(one))
    write(id=3, method="session/close", params={"sessionId": asked["params"]["sessionId"]})
    await line(lambda one: one.get("id") == 3)
    process.stdin.close()
    assert await process.wait() == 0
    last = [one["params"]["update"] for one in told if one.get("method") == "session/update"]
    content = [one for one in last if one.get("toolCallId") == row][-1]["content"]
    assert ("this decision changed nothing" in json.dumps(content)) is not knows
    assert "Nothing was decided here" not in json.dumps(content)
    assert str(await asyncio.to_thread(call.result, 20)) == "3"
    assert len([one for one in sent(lab, "mcp/request") if one["payload"].get("method") == "tools/call"]) == 1


async def test_the_token_is_nowhere_and_stdout_has_protocol_alone(lab: Lab) -> None:
    Coder(lab)
    secret = lab.token_file().read_text().strip()
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words_of(lab), env=ENVIRONMENT, stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}},
        {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}},
        {"jsonrpc": "2.0", "id": 3, "method": "_private/steal", "params": {"x": secret}},
        {
            "jsonrpc": "2.0",
            "id": 4,
            "method": "session/prompt",
            "params": {"sessionId": "none", "prompt": []},
        },
        {"jsonrpc": "2.0", "id": 5, "method": "session/prompt", "params": {"sessionId": 5}},
    ]
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(
        b"no json\n[1,2]\n\xff\xfe\n{}\n" + b"".join(json.dumps(one).encode() + b"\n" for one in asked)
    )
    process.stdin.write(
        b'{"jsonrpc": "2.0", "id": 6, "method": "x", "params": {"a": "' + b"a" * 20_000_000 + b'"}}\n'
    )
    process.stdin.write(
        json.dumps({"jsonrpc": "2.0", "id": 7, "method": "session/load", "params": {}}).encode() + b"\n"
    )
    answers: dict[Any, Any] = {}
    while len(answers) < 7:
        line = json.loads(await asyncio.wait_for(process.stdout.readline(), 40))
        answers[line["id"]] = line
    process.stdin.close()
    out, error = await process.communicate()
    assert out == b"" and process.returncode == 0
    assert answers[1]["result"]["protocolVersion"] == 1 and answers[2]["result"]["sessionId"]
    assert answers[3]["error"]["code"] == answers[7]["error"]["code"] == -32601
    assert "There is no session 'none'" in answers[4]["error"]["message"]
    assert answers[5]["error"]["code"] == -32602 and "too long" in answers[6]["error"]["message"]
    assert secret not in json.dumps(answers[1]) + json.dumps(answers[2]) + error.decode()
    assert b"Traceback" not in error


async def test_a_space_that_cannot_be_joined_is_one_line_and_the_error_of_the_first_request(lab: Lab) -> None:
    words = words_of(lab)
    words[words.index(lab.space)] = "elsewhere"
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, env=ENVIRONMENT, stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(
        json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
        ).encode()
        + b"\n"
    )
    out, error = await process.communicate()
    assert process.returncode == 1 and error.count(b"\n") == 1, error
    [line] = out.splitlines()
    assert json.loads(line)["error"]["message"] in error.decode()


@pytest.mark.slow
async def test_an_editor_that_dies_in_the_middle_of_a_question_leaves_the_proposal_to_others(
    lab: Lab, adding: Callable[[int, int], Any]
) -> None:
    coder = Coder(lab, can="proposer")
    async with editor(words_of(lab)) as (agent, panel, process):
        await agent.initialize(protocol_version=1)
        session = (await agent.new_session(cwd="/", mcp_servers=[])).session_id
        turn = asyncio.create_task(agent.prompt(session_id=session, prompt=[acp.text_block("add")]))
        await coder.prompted()
        call = coder.seat.call("notebook/add", a=1, b=2)
        await until(lambda: panel.questions)
        process.kill()
        with pytest.raises(ConnectionError):
            await turn
    eventually(lambda: "human-2" not in lab.me.participant.client.participants)
    assert lab.decisions.card(call.id).state == "open"
    kinds = {json.loads(record.raw).get("kind") for record in lab.log.held if record.raw}
    assert not kinds & {"chat/cancel", "mcp/withdraw", "mcp/reject"}
    lab.approve(next(one for one in lab.proposals() if one.id == call.id and str(one)))
    assert str(await asyncio.to_thread(call.result, 20)) == "3"


@pytest.mark.slow
async def test_a_stop_ends_the_turn_and_two_answers_to_a_question_are_one_decision(
    lab: Lab, adding: Callable[[int, int], Any]
) -> None:
    coder = Coder(lab, can="proposer")
    async with editor(words_of(lab)) as (agent, panel, process):
        await agent.initialize(protocol_version=1)
        session = (await agent.new_session(cwd="/", mcp_servers=[])).session_id
        turn = asyncio.create_task(agent.prompt(session_id=session, prompt=[acp.text_block("add")]))
        prompt = await coder.prompted()
        with pytest.raises(acp.RequestError, match="a turn goes on in this session"):
            await agent.prompt(session_id=session, prompt=[acp.text_block("again")])
        call = coder.seat.call("notebook/add", a=1, b=2)
        (_, _, options), press = await panel.question()
        for chosen in (
            "nonsense",
            options[0].option_id,
            options[1].option_id,
        ):  # ids that its own client would not reuse
            answer = {"outcome": {"outcome": "selected", "optionId": chosen}}
            process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 0, "result": answer}).encode() + b"\n")
        press.set_result(options[0].option_id)
        await agent.cancel(session_id=session)
        assert (await turn).stop_reason == "cancelled"
        cancels = sent(lab, "chat/cancel")
        assert [one["correlation_id"] for one in cancels] == [[prompt.id]]
        # Nothing is what the first answer has chosen, and the others answer no question any more.
        assert lab.decisions.card(call.id).state == "open"


@pytest.mark.slow
async def test_without_a_place_it_is_the_space_of_the_folder_and_its_person(
    tmp_path: Path,
) -> None:
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mew_lab.cli", "serve", "--space", "garden", cwd=tmp_path, env=ENVIRONMENT,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert started.stdout is not None
        await asyncio.wait_for(started.stdout.readline(), 40)
        await until(lambda: (tmp_path / ".mew" / "run.json").exists())
        for words in (["--agent", "coder"], ["garden", "--agent", "coder"]):
            async with editor(["-m", "mew_lab.cli", "acp", *words], cwd=tmp_path) as (agent, _, _):
                hello = await agent.initialize(protocol_version=1)
                assert hello.agent_info.title == "coder in garden"
                session = (await agent.new_session(cwd="/", mcp_servers=[])).session_id
                with pytest.raises(acp.RequestError, match="Not sent: nobody here is called 'coder'"):
                    await agent.prompt(session_id=session, prompt=[acp.text_block("dig")])
        async with editor(["-m", "mew_lab.cli", "acp", "shed", "--agent", "coder"], cwd=tmp_path) as (
            agent,
            _,
            _,
        ):
            with pytest.raises(acp.RequestError, match="The space here is 'garden', and not 'shed'"):
                await agent.initialize(protocol_version=1)
    finally:
        started.terminate()
        await started.wait()
