"""A coding agent that speaks ACP takes part in a space: a real process by the official library, and what it may do wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mew_lab.bridge import acp as acp_bridge
from mew_lab.bridge.acp import AcpBridge
from mew_lab.errors import ConfigError, MewError, ProposalEnded
from mew_lab.log.journal import Journal
from mew_lab.log.log import open_log
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.token import Token
from mew_lab.sdk.participant import MEWParticipant

from ..log.agent_sessions import claude_story
from ..room import Room
from ..waiting import alive, until

AGENT = Path(__file__).parent / "acp_agent.py"
OPTIONS = [
    {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "once", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
MKDIR = {
    "toolCallId": "m1",
    "title": "mkdir shed",
    "kind": "execute",
    "rawInput": {"command": "mkdir shed"},
    "content": [{"type": "diff", "path": "/a", "oldText": "x\n", "newText": "y\n"}],
    "locations": [{"path": "/a", "line": 3}],
}


def ask(options: Any = OPTIONS, call: Any = MKDIR) -> str:
    return "ask " + json.dumps({"toolCall": call, "options": options})


class Shed(Room):
    """A space with a coding agent and the person that started it."""

    human: MEWParticipant
    bridge: AcpBridge

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.kept = folder / "kept.txt"
        self.ended: list[str] = []
        self.bridges: list[AcpBridge] = []

    async def open(self, *words: str, name: str = "coder", **options: Any) -> AcpBridge:
        self.human = await self.seat("human")
        return await self.add(*words, name=name, **options)

    async def add(self, *words: str, name: str = "coder", can: str = "agent", **options: Any) -> AcpBridge:
        env = {"ACP_KEPT": str(self.kept), **options.pop("env", {})}
        bridge = self.bridge = AcpBridge(
            name,
            ["python", str(AGENT), *words],
            cwd=self.folder,
            env=env,
            on_end=self.ended.append,
            starters=("human",),
            state=lambda: self.folder / "state",
            **options,
        )
        self.bridges.append(bridge)
        await bridge.start(self.client(name, can))
        return bridge

    def outcomes(self) -> list[Any]:
        """What the agent was answered, in order."""
        lines = self.kept.read_text().splitlines() if self.kept.exists() else []
        return [json.loads(line) if line.startswith("{") else line for line in lines]

    async def ask(self, *lines: str, name: str = "coder") -> str:
        return str(await self.human.ask("\n".join(lines), name))

    def told(self, kind: str) -> list[Envelope]:
        """What the agent sent of one kind."""
        return self.sent(kind, sender=self.bridge.name)

    async def card(self, by: MEWParticipant | None = None) -> Any:
        who = by or self.human
        [proposal] = await until(
            lambda: [
                one
                for one in who.proposals.open()
                if one.proposer == self.bridge.name and one.state == "open"
            ],
            what="a question",
        )
        return proposal

    async def close(self) -> None:
        for bridge in self.bridges:
            await bridge.stop()
        await super().close()


@pytest.fixture
async def shed(tmp_path: Path) -> AsyncIterator[Shed]:
    made = Shed(tmp_path)
    yield made
    await made.close()


async def test_a_chat_is_a_turn_of_one_reasoning_and_one_chat(shed: Shed) -> None:
    await shed.open()
    answer = await shed.ask(
        "think I look ", "think around", "say Hello, ", "plan dig=completed; sow=pending", "say you"
    )
    assert answer == "Hello, you"
    [start] = shed.told("reasoning/start")
    thoughts = shed.told("reasoning/thought")
    assert [one.context for one in (*thoughts, *shed.told("reasoning/conclusion"))] == [start.id] * 3
    assert thoughts[0].payload["message"] == "I look around"
    assert [(one["content"], one["status"]) for one in thoughts[1].payload["plan"]] == [
        ("dig", "completed"), ("sow", "pending"),
    ]  # fmt: skip
    assert "1 of 2 done" in thoughts[1].payload["message"]


async def test_the_mode_that_asks_most_is_set_and_said(shed: Shed) -> None:
    await shed.open(mode="default")
    assert shed.bridge.mode == "default"
    [status, *_] = await until(lambda: shed.told("participant/status"))
    assert status.payload["rule"] == (
        "asks by its own rules: mode default; what it does not ask about runs with your rights"
    )


async def test_a_mode_that_the_agent_takes_by_itself_is_told(shed: Shed) -> None:
    await shed.open(mode="default")
    await shed.ask('update {"sessionUpdate": "current_mode_update", "currentModeId": "yolo"}', "say done")
    assert shed.bridge.mode == "yolo"
    assert any(one.payload.get("mode") == "yolo" for one in shed.told("participant/status"))
    [told] = [
        one.payload for one in shed.told("reasoning/thought") if "The mode is" in one.payload["message"]
    ]
    assert told["message"] == "The mode is yolo now; it was default; mode yolo is not known to ask"
    assert told["warning"] == "mode yolo is not known to ask"
    assert shed.told("participant/status")[-1].payload["warning"] == told["warning"]


async def test_a_tool_call_that_ran_without_a_question_is_told_as_not_asked(shed: Shed) -> None:
    await shed.open()
    asked = shed.human.ask(
        "\n".join(
            ["call x1 rm -rf / | pending", "call x1 rm -rf / | completed", ask(), "call m1 mkdir | completed"]
        ),
        "coder",
    )
    await shed.human.approve((await shed.card()).id)
    await asked
    told = {
        one.payload["message"]: one.payload["tool_call"]
        for one in shed.told("reasoning/thought")
        if "tool_call" in one.payload
    }
    assert list(told) == [
        "execute: rm -rf / [pending]", "execute: rm -rf / [completed, not asked]", "execute: mkdir shed [pending]",
        "execute: mkdir [completed]",
    ]  # fmt: skip
    assert [call["asked"] for call in told.values()] == [False, False, True, True]


@pytest.mark.ruling("R41")
async def test_its_journal_has_its_tool_calls_in_the_columns_of_an_agents_own_session(
    shed: Shed, tmp_path: Path
) -> None:
    await shed.open()
    questions = {"m1": "always", "m2": "once", "m3": "no", "m4": None}
    lines = ["think so", "call x1 ls | pending", "call x1 ls | completed"]
    for id in questions:
        lines += [ask(call={**MKDIR, "toolCallId": id}), f"call {id} mkdir | failed"]
    asked = shed.human.ask("\n".join(lines), "coder")
    proposals = []
    for option in questions.values():
        proposals.append(proposal := await shed.card())
        if option is None:
            await shed.human.reject(proposal.id, "unsafe")
        else:
            await shed.human.approve(proposal.id, option=option)
    await asked
    proposal = proposals[0]
    assert "toolCallId" not in json.dumps(proposal.payload)
    journal = Journal(tmp_path / "journal.jsonl", epoch=1)
    journal.append(shed.records)
    journal.close()
    log = open_log(tmp_path / "journal.jsonl")
    calls = log.tool_calls()
    told = calls[["agent", "id", "tool", "title", "state"]].to_numpy().tolist()
    assert told == [
        ["coder", "x1", "execute", "ls", "answered"],
        *(["coder", id, "execute", "mkdir", "failed"] for id in questions),
    ]
    assert calls["asked"].tolist() == [False, True, True, True, True]
    assert calls["decision"].tolist() == ["", "always allowed", "allowed", "rejected", "rejected"]
    assert calls["decided_by"].tolist() == ["", "human", "human", "human", "human"]
    assert (calls["latency"] >= 0).all()
    own = open_log(claude_story(1).write(tmp_path / "s.jsonl")).tool_calls()
    assert own.columns.tolist() == calls.columns.tolist() and (own.dtypes == calls.dtypes).all()
    row, *_ = log.proposals().to_dict("records")
    assert (row["tool"], row["option"], row["decided_by"]) == ("permission", OPTIONS[0]["optionId"], "human")
    markdown = log.follow(proposal.id).to_markdown()
    assert OPTIONS[0]["name"] in markdown
    [sequence] = log.reasoning().to_dict("records")
    assert (sequence["from"], sequence["state"]) == ("coder", "concluded")


# --- permissions (R41) ---


@pytest.mark.ruling("R32")
async def test_a_permission_is_a_proposal_of_the_agent_to_itself_that_shows_it_whole(shed: Shed) -> None:
    await shed.open()
    asked = shed.human.ask(ask(), "coder")
    card = await shed.card()
    assert card.to == ("coder",) and card.tool == "permission"
    arguments = card.payload["params"]["arguments"]
    assert arguments["question"] == "mkdir shed"
    assert arguments["options"] == [
        {"id": one["optionId"], "name": one["name"], "kind": one["kind"]} for one in OPTIONS
    ]
    assert {name: arguments[name] for name in MKDIR if name != "toolCallId"} == {
        name: value for name, value in MKDIR.items() if name != "toolCallId"
    }
    sent = await shed.human.approve(card.id, option="always")
    assert json.loads(str(await asked)) == {"outcome": "selected", "optionId": "always"}
    [response] = shed.told("mcp/response")
    assert response.correlation_id == (sent.id,) and response.payload["result"]["isError"] is False


async def fulfil(shed: Shed, card: Any, **added: Any) -> None:
    """Sends the request of a participant that judges nothing by itself, with these arguments added."""
    params = card.payload["params"]
    params = {**params, "arguments": {**params["arguments"], **added}}
    payload = {**card.payload, "jsonrpc": "2.0", "id": 1, "params": params}
    await shed.human.send_accepted(
        {"kind": "mcp/request", "to": ["coder"], "correlation_id": [card.id], "payload": payload}
    )


async def asked_anew(shed: Shed, card: Any) -> Any:
    [again] = await until(
        lambda: [one for one in shed.human.proposals.open() if one.id != card.id and one.state == "open"]
    )
    assert shed.outcomes() == []
    return again


async def test_without_an_option_it_means_the_only_allow_once(shed: Shed) -> None:
    await shed.open()
    asked = shed.human.ask(ask(), "coder")
    await shed.human.approve((await shed.card()).id)
    assert json.loads(str(await asked))["optionId"] == "once"


@pytest.mark.parametrize(
    "options",
    [
        [OPTIONS[0], OPTIONS[2]],
        [*OPTIONS, {"optionId": "once2", "name": "Yes, too", "kind": "allow_once"}],
        [{"optionId": "x", "name": "Do it", "kind": "allow_everything"}, OPTIONS[2]],
    ],
    ids=["none", "two", "unknown kind"],
)
async def test_nothing_is_chosen_where_no_option_is_the_only_allow_once_and_the_agent_asks_anew(
    shed: Shed, options: list[dict[str, str]]
) -> None:
    await shed.open()
    asked = shed.human.ask(ask(options), "coder")
    card = await shed.card()
    await fulfil(shed, card)
    again = await asked_anew(shed, card)
    assert shed.human.proposals.get(card.id).failed
    await shed.human.approve(again.id, option=options[0]["optionId"])
    assert json.loads(str(await asked)) == {"outcome": "selected", "optionId": options[0]["optionId"]}


@pytest.mark.parametrize(
    "change", [{"option": "nope"}, {"option": 1}, {"title": "ls"}, {"rawInput": {"command": "ls"}}]
)
async def test_a_changed_call_or_an_unknown_option_chooses_nothing(
    shed: Shed, change: dict[str, Any]
) -> None:
    await shed.open()
    asked = shed.human.ask(ask(), "coder")
    card = await shed.card()
    await fulfil(shed, card, **{"option": "once", **change})
    await shed.human.reject((await asked_anew(shed, card)).id, "no")
    assert json.loads(str(await asked))["optionId"] == "no"


async def test_of_options_with_one_id_twice_none_is_chosen_by_anybody(shed: Shed) -> None:
    await shed.open()
    twice = [*OPTIONS, {"optionId": "once", "name": "Something else", "kind": "allow_always"}]
    asked = shed.human.ask(ask(twice), "coder")
    card = await shed.card()
    await fulfil(shed, card, option="always")
    await shed.human.reject((await asked_anew(shed, card)).id, "no")
    assert json.loads(str(await asked)) == {"outcome": "cancelled"}


async def test_a_rejection_means_the_only_reject_once(shed: Shed) -> None:
    await shed.open()
    asked = shed.human.ask(ask(), "coder")
    await shed.human.reject((await shed.card()).id, "not here")
    assert json.loads(str(await asked)) == {"outcome": "selected", "optionId": "no"}


@pytest.mark.parametrize("kind", ["reject_always", "reject_once"])
async def test_where_no_option_is_the_only_reject_once_none_is_sent_and_the_turn_says_so(
    shed: Shed, kind: str
) -> None:
    await shed.open()
    options = [*OPTIONS[:2], *({"optionId": id, "name": id, "kind": kind} for id in ("a", "b"))]
    asked = shed.human.ask(ask(options), "coder")
    await shed.human.reject((await shed.card()).id, "not here")
    assert json.loads(str(await asked)) == {"outcome": "cancelled"}
    assert any("human rejected it" in one.payload["message"] for one in shed.told("reasoning/thought"))


async def test_the_reason_of_a_rejection_is_the_next_prompt_where_that_is_asked_for(shed: Shed) -> None:
    await shed.open(reasons=True)
    asked = shed.human.ask(ask(), "coder")
    await shed.human.reject((await shed.card()).id, "say better in the garden")
    await asked
    start = await until(
        lambda: [one for one in shed.told("reasoning/start") if "rejected" in one.payload["message"]]
    )
    assert "human rejected “mkdir shed”: say better in the garden" in start[0].payload["message"]


@pytest.mark.ruling("R17")
async def test_a_request_by_own_right_answers_no_question(shed: Shed) -> None:
    """Neither without a proposal, nor beside the open one with other addressees, which the ledger takes for none."""
    await shed.open()
    other = await shed.seat("other")
    asked = shed.human.ask(ask(), "coder")
    card = await shed.card()
    from mew_lab.errors import ToolFailed

    arguments = {**card.payload["params"]["arguments"], "option": "always"}
    with pytest.raises(ToolFailed, match="no open question"):
        await other.call("coder/permission", arguments)
    payload = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": "permission", "arguments": arguments},
    }
    request = await other.send_accepted(
        {"kind": "mcp/request", "to": ["coder", "human"], "correlation_id": [card.id], "payload": payload}
    )
    [response] = await until(
        lambda: [one for one in shed.told("mcp/response") if request.id in one.correlation_id]
    )
    assert response.payload["result"]["isError"] is True
    assert shed.outcomes() == []
    await shed.human.reject(card.id, "no")
    assert json.loads(str(await asked))["optionId"] == "no"


@pytest.mark.ruling("R32")
async def test_the_first_decision_wins_and_the_loser_is_told(shed: Shed) -> None:
    await shed.open()
    ann = await shed.seat("ann")
    asked = shed.human.ask(ask(), "coder")
    card = await shed.card()
    await shed.card(ann)

    async def decide(who: MEWParticipant, option: str) -> str:
        try:
            await who.approve(card.id, option=option)
        except ProposalEnded as fault:
            return str(fault)
        return option

    told = await asyncio.gather(decide(shed.human, "once"), decide(ann, "always"))
    [won] = [one for one in told if one in ("once", "always")]
    [lost] = [one for one in told if one not in ("once", "always")]
    assert "approved" in lost
    assert json.loads(str(await asked)) == {"outcome": "selected", "optionId": won}


async def test_a_permission_outside_a_turn_is_asked_all_the_same(shed: Shed) -> None:
    await shed.open()
    await shed.ask("later" + ask()[3:], "say done")
    await shed.human.approve((await shed.card()).id)
    await until(lambda: shed.outcomes() == [{"outcome": "selected", "optionId": "once"}])


# --- cancelling ---


@pytest.mark.parametrize("kind", ["chat/cancel", "reasoning/cancel"])
async def test_a_cancelled_turn_ends_at_the_agent_and_withdraws_its_question(shed: Shed, kind: str) -> None:
    await shed.open()
    chat = await shed.human.chat(ask() + "\nwait", "coder")
    card = await shed.card()
    [start] = shed.told("reasoning/start")
    if kind == "chat/cancel":
        await shed.human.cancel_chat(chat.id)
    else:
        await shed.human.sender.say(kind, {"reason": "enough"}, context=start.id)
    await until(lambda: shed.human.proposals.get(card.id).state == "withdrawn")
    await until(lambda: not shed.bridge.busy)
    assert shed.outcomes() == [{"outcome": "cancelled"}]
    assert shed.told("chat") == []
    assert await shed.ask("say still here") == "still here"
    assert len(shed.told("reasoning/cancel")) == (kind == "chat/cancel")


async def test_what_comes_in_the_middle_of_a_turn_waits_and_is_told_so(shed: Shed) -> None:
    await shed.open()
    first = shed.human.ask(ask() + "\nsay one", "coder")
    card = await shed.card()
    second = shed.human.ask("say two", "coder")
    acknowledged = await until(
        lambda: [one for one in shed.told("chat/acknowledge") if second.id in one.correlation_id]
    )
    assert acknowledged[0].payload["status"] == "queued"
    assert len(shed.told("reasoning/start")) == 1
    await shed.human.approve(card.id)
    assert str(await first).endswith("one") and str(await second) == "two"


@pytest.mark.threat(42)
async def test_only_those_whom_it_obeys_prompt_it(shed: Shed) -> None:
    await shed.open()
    stranger = await shed.seat("stranger", "proposer")
    await stranger.chat("say hello", "coder")
    [refusal] = await until(lambda: shed.told("chat"))
    assert "I take requests from human" in refusal.payload["text"]
    assert shed.told("reasoning/start") == []


async def test_an_agent_that_does_not_end_a_cancelled_turn_is_ended(
    shed: Shed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acp_bridge, "CANCELLED_WITHIN", 0.2)
    await shed.open()
    chat = await shed.human.chat("deaf", "coder")
    await until(lambda: shed.bridge.busy)
    pid = shed.bridge.pid
    await shed.human.cancel_chat(chat.id)
    await until(lambda: not alive(pid))
    assert await shed.ask("say back") == "back"


# --- budgets ---


async def test_after_its_turns_it_asks_whether_to_go_on(shed: Shed) -> None:
    await shed.open(turns=1)
    assert await shed.ask("say one") == "one"
    second = shed.human.ask("say two", "coder")
    card = await shed.card()
    assert "1 turn" in card.payload["params"]["arguments"]["question"]
    assert len(shed.told("reasoning/start")) == 1
    await shed.human.approve(card.id)
    assert str(await second) == "two"
    third = shed.human.ask("say three", "coder")
    await shed.human.reject((await shed.card()).id)
    assert "limit of 1 turn" in str(await third)
    assert len(shed.told("reasoning/start")) == 2


@pytest.mark.parametrize(
    ("limits", "line"), [({"minutes": 0.005}, "say x"), ({"tokens": 100}, "usage 150 1000")]
)
async def test_at_a_limit_within_a_turn_the_turn_is_cancelled(
    shed: Shed, limits: dict[str, Any], line: str
) -> None:
    await shed.open(**limits)
    asked = shed.human.ask(f"{line}\nwait", "coder")
    card = await shed.card()
    assert "Go on?" in card.payload["params"]["arguments"]["question"]
    [cancel] = await until(lambda: shed.told("reasoning/cancel"))
    assert "limit" in cancel.payload["reason"]
    await shed.human.approve(card.id)
    start = await until(
        lambda: [one for one in shed.told("reasoning/start") if "Go on." in one.payload["message"]]
    )
    assert start
    assert "Done" in str(await asked)


@pytest.mark.parametrize("limits", [{"turns": 0}, {"minutes": -1}, {"tokens": "many"}])
def test_a_limit_that_is_none_is_told(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(limits))):
        AcpBridge("coder", ["x"], **limits)


# --- its life ---


async def test_an_agent_that_dies_in_a_turn_is_started_again_in_its_session(shed: Shed) -> None:
    await shed.open("sessions")
    session = shed.bridge.session
    asked = shed.human.ask("\n".join(["say half", "later" + ask()[3:], "wait"]), "coder")
    card = await shed.card()
    os.kill(shed.bridge.pid, 9)
    answer = str(await asked)
    assert "half" in answer and "was ended by signal 9" in answer
    assert (await until(lambda: shed.told("reasoning/cancel")))[0].payload["reason"]
    await until(lambda: shed.human.proposals.get(card.id).state == "withdrawn")
    assert await shed.ask("say back") == "back"
    assert shed.bridge.session == session
    assert shed.ended == []


async def test_an_agent_that_loads_its_session_when_it_is_started_again_tells_nothing_of_before(
    shed: Shed,
) -> None:
    await shed.open()
    os.kill(shed.bridge.pid, 9)
    await until(lambda: any(one.payload["status"] == "restarted" for one in shed.told("participant/status")))
    assert shed.bridge.history
    assert await shed.ask("say back") == "back"
    assert not any("The mode is" in one.payload["message"] for one in shed.told("reasoning/thought"))
    assert len(shed.told("reasoning/start")) == 1


async def test_an_agent_that_ends_too_often_leaves_with_its_last_words(shed: Shed) -> None:
    await shed.open(restarts=0)
    asked = shed.human.ask("die", "coder")
    assert "the shed is on fire" in str(await asked)
    [why] = await until(lambda: shed.ended)
    assert "ended (exit 3): the shed is on fire" in why
    await until(lambda: "coder" not in shed.human.client.participants)


async def test_its_processes_end_with_it(shed: Shed) -> None:
    await shed.open("sessions")
    pid = shed.bridge.pid
    await shed.bridge.stop()
    assert not alive(pid)
    assert shed.outcomes() == ["closed"]


async def test_a_session_that_is_loaded_is_history_and_nothing_else(shed: Shed) -> None:
    await shed.open(session="old", tokens=1000)
    said = [("user", "What is here?"), ("agent", "A garden."), ("tool", "rm -rf old"), ("agent", "<b>\u202e")]
    assert shed.bridge.history == said
    assert await shed.ask("say new") == "new"
    assert [one.payload["text"] for one in shed.told("chat")] == ["new"]
    assert len(shed.told("reasoning/start")) == 1 and shed.told("mcp/proposal") == []
    told = [one.payload["message"] for one in shed.told("reasoning/thought")]
    assert not any("rm -rf" in one or "mode" in one for one in told)
    assert shed.bridge.mode == "yolo" and shed.bridge.budget.find_limit(in_turn=False) == ""


async def test_a_clear_of_its_context_is_a_new_session(shed: Shed) -> None:
    await shed.open()
    before = shed.bridge.session
    await shed.human.chat("wait", "coder")
    await until(lambda: shed.bridge.busy)
    await shed.human.controls.clear("coder")
    await until(lambda: not shed.bridge.busy)
    assert await shed.ask("say anew") == "anew"
    assert shed.bridge.session != before


async def test_its_sessions_are_listed(shed: Shed) -> None:
    await shed.open("sessions")
    assert await shed.bridge.sessions() == [{"id": "old", "title": "The garden", "updated": ""}]


async def test_an_agent_without_a_list_of_sessions_says_so(shed: Shed) -> None:
    await shed.open()
    with pytest.raises(MewError, match="keeps no list"):
        await shed.bridge.sessions()


@pytest.mark.parametrize(
    ("words", "options", "told"),
    [
        (["version"], {}, "version 9"),
        (["login"], {}, r"Authentication required.*Sign in with a browser"),
        (["slow"], {"start_timeout": 1.0}, "began no session within 1 s"),
        (["no-load"], {"session": "old"}, "neither load nor resume"),
    ],
)
async def test_a_start_that_fails_says_why(
    shed: Shed, words: list[str], options: dict[str, Any], told: str
) -> None:
    with pytest.raises(MewError, match=told):
        await shed.open(*words, **options)
    assert not alive(shed.bridge.pid)


async def test_a_program_that_is_not_there_is_told_with_what_installs_it(
    shed: Shed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(shed.folder))
    bridge = AcpBridge("claude", "claude", cwd=shed.folder)
    with pytest.raises(MewError, match="npm install -g"):
        await bridge.start(shed.client("claude", "agent"))


def test_an_unknown_agent_is_told_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="did you mean 'claude'"):
        AcpBridge("x", "claud")


@pytest.mark.threat(28)
async def test_it_gets_only_the_variables_that_it_is_given(
    shed: Shed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET_OF_THIS_PROCESS", "nobody's")
    await shed.open(env={"OWN": "mine"})
    answer = await shed.ask("environment A_SECRET_OF_THIS_PROCESS", "environment OWN")
    assert answer == "Nonemine"


@pytest.mark.threat(28)
async def test_a_secret_that_it_was_given_is_masked_in_all_that_it_sends(shed: Shed) -> None:
    secret = "sk-hoe-and-rake-4711-rows"
    await shed.open(env={"API_KEY": secret})
    asked = shed.human.ask(
        "\n".join(
            [
                f"think {secret}",
                f"call x {secret} | completed",
                f"plan {secret}=pending",
                ask(call={"toolCallId": "k", "title": secret, "rawInput": {secret: [secret]}}),
                "environment API_KEY",
            ]
        ),
        "coder",
    )
    await shed.human.approve((await shed.card()).id)
    await asked
    assert [one for one in shed.sent(sender="coder") if secret in one.raw] == []


@pytest.mark.threat(28)
async def test_a_secret_that_it_was_given_is_masked_in_its_status_its_errors_and_the_answers_of_its_tools(
    shed: Shed,
) -> None:
    secret = "sk-hoe-and-rake-4711-rows"
    await shed.open(env={"API_KEY": secret}, restarts=0)
    option: dict[str, Any] = {"id": "mode", "name": "Mode", "type": "select", "currentValue": secret}
    option["options"] = [{"value": one, "name": one} for one in (secret, "plain")]
    config = {"sessionUpdate": "config_option_update", "configOptions": [option]}
    commands = {"sessionUpdate": "available_commands_update", "availableCommands": [{"name": secret}]}
    cost = {"amount": 1.0, "currency": secret}
    usage = {"sessionUpdate": "usage_update", "used": 1, "size": 9, "cost": cost}
    lines = [f"update {json.dumps(one)}" for one in (config, commands, usage)]
    await shed.ask(*lines, f"stop {secret}")
    assert shed.bridge.mode == secret and secret in shed.bridge.commands
    await shed.human.ask("fail " + secret, "coder")
    another = {**config, "configOptions": [option, {**option, "id": secret}]}
    await shed.ask(f"update {json.dumps(another)}", "say done")
    for tool, arguments in (
        ("set_mode", {"mode": "nope"}),
        ("set_config_option", {"option": "nope", "value": "x"}),
    ):
        with contextlib.suppress(MewError):
            await shed.human.call(f"coder/{tool}", arguments)
    shed.bridge.participant.telemetry.tell("active")
    asked = shed.human.ask(f"raw {secret} is no message\ndie {secret} burns", "coder")
    assert "burns" in str(await asked)
    [why] = await until(lambda: shed.ended)
    assert "burns" in why and secret not in why
    sent = shed.sent(sender="coder")
    assert {one.kind for one in sent} >= {"participant/status", "chat", "mcp/response", "reasoning/thought"}
    assert [one.raw for one in sent if secret in one.raw] == []


# --- what an agent does wrong ---


async def test_a_flood_is_cut_and_the_space_goes_on(shed: Shed) -> None:
    await shed.open()
    answer = await shed.ask("flood 3000", "say end")
    assert answer.startswith("x" * 20) and answer.endswith("end")
    thoughts = shed.told("reasoning/thought")
    assert len(thoughts) <= 1001
    assert "2000 messages of this turn are not shown" in thoughts[-1].payload["message"]
    assert await shed.ask("say on") == "on"


@pytest.mark.parametrize("at_once", [True, False])
async def test_two_questions_under_one_id_are_both_ended(shed: Shed, at_once: bool) -> None:
    """An answer under that id could be taken for either."""
    await shed.open()
    one, two = (
        json.dumps(
            {
                "jsonrpc": "2.0", "id": "same", "method": "session/request_permission",
                "params": {"sessionId": "SESSION", "toolCall": {"toolCallId": title, "title": title}, "options": OPTIONS},
            }
        )
        for title in ("ls", "rm -rf /")
    )  # fmt: skip
    lines = [f"raw {one}\\n{two}"] if at_once else [f"raw {one}", f"raw {two}"]
    asked = shed.human.ask("\n".join([*lines, "wait"]), "coder")
    await until(
        lambda: any(
            "asked twice under one id" in o.payload["message"] for o in shed.told("reasoning/thought")
        )
    )
    await until(lambda: all(p.state == "withdrawn" for p in shed.human.proposals if p.proposer == "coder"))
    await asked.withdraw()


@pytest.mark.parametrize(
    "line",
    [
        "not json at all",
        "[1, 2]",
        '{"jsonrpc": "2.0", "id": 99, "result": {"outcome": "selected"}}',
        '{"jsonrpc": "2.0", "id": [1], "result": null}',
        '{"jsonrpc": "2.0", "id": 0, "error": "gone"}',
        '{"jsonrpc": "2.0", "method": 7}',
        '{"jsonrpc": "2.0", "id": 5, "method": "craft/drainMidTurnQueue", "params": {}}',
        '{"jsonrpc": "2.0", "id": 6, "method": "terminal/create", "params": {"command": "ls"}}',
        '{"jsonrpc": "2.0", "id": 7, "method": "fs/read_text_file", "params": {"path": "/etc/passwd"}}',
        '{"jsonrpc": "2.0", "id": 8, "method": "session/request_permission", "params": [1]}',
        '{"jsonrpc": "2.0", "id": 9, "method": "session/request_permission", "params": {"options": [{}]}}',
        '{"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "SESSION", "update": {"sessionUpdate": "plan", "entries": 7}}}',
        '{"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "SESSION", "update": {"sessionUpdate": ["x"]}}}',
        '{"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "SESSION", "update": {"sessionUpdate": "usage_update", "used": -1, "size": "x"}}}',
        '{"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "another", "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "lie"}}}}',
        '{"a": ' + "[" * 5000 + "]" * 5000 + "}",
        '{"jsonrpc": "2.0", "id": NaN, "method": "x"}',
    ],
    ids=range(17),
)
async def test_a_line_that_is_no_good_message_changes_nothing(
    shed: Shed, line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    await shed.open()
    assert (await shed.ask(f"raw {line}", "say fine")).endswith("fine")
    assert await shed.ask("say on") == "on"
    assert shed.told("mcp/proposal") == []
    assert "Traceback" not in capfd.readouterr().err


HOSTILE = "\u202emv /\x1b[2J\ud800\u0000"


async def test_hostile_text_is_shown_by_its_escapes(shed: Shed) -> None:
    await shed.open()
    call = {"toolCallId": "h", "title": "\u202erm\x1b[2J", "kind": "execute", "rawInput": {"\u202e": "\x1b"}}
    lines = [
        f"update {json.dumps({'sessionUpdate': 'tool_call', 'status': 'completed', **call})}",
        f"update {json.dumps({'sessionUpdate': 'plan', 'entries': [{'content': HOSTILE, 'status': HOSTILE}]})}",
        f"update {json.dumps({'sessionUpdate': 'agent_thought_chunk', 'content': {'type': 'text', 'text': HOSTILE}})}",
        ask([{"optionId": "\u202eonce", "name": HOSTILE[:8], "kind": "allow_once"}], call),
    ]
    asked = shed.human.ask("\n".join(lines), "coder")
    card = await shed.card()
    await shed.human.approve(card.id)
    assert json.loads(str(await asked))["optionId"] == "\u202eonce"
    messages = [one.payload["message"] for one in shed.told("reasoning/thought")]
    assert len(messages) == 3
    assert not any(c in "".join(messages) for c in "\u202e\x1b\x00\ud800")


async def test_a_question_that_no_message_can_hold_is_not_asked_and_answered_as_cancelled(shed: Shed) -> None:
    size = 1_100_000  # more than a message of the space takes, less than a line that is read
    await shed.open()
    answer = await shed.ask(f"big {size}")
    assert json.loads(answer) == {"outcome": "cancelled"}
    assert any(
        "No option was sent for big" in one.payload["message"] for one in shed.told("reasoning/thought")
    )


async def test_an_error_of_the_agent_is_the_answer(shed: Shed) -> None:
    await shed.open()
    assert "coder answered with an error" in await shed.ask("fail")
    assert await shed.ask("say on") == "on"


async def test_a_turn_that_stops_early_says_why(shed: Shed) -> None:
    await shed.open()
    assert await shed.ask("say so far", "stop max_tokens") == "so far\n\n[stopped: max_tokens]"


async def test_an_agent_that_prints_on_its_output_is_understood_all_the_same(shed: Shed) -> None:
    await shed.open("chatty")
    assert await shed.ask("say hello") == "hello"


async def test_two_agents_have_two_sessions(shed: Shed) -> None:
    await shed.open()
    first = shed.bridge
    second = await shed.add(name="other")
    asked = [shed.human.ask(ask(call={**MKDIR, "title": name}), name) for name in ("coder", "other")]
    cards = await until(lambda: found if len(found := shed.human.proposals.open()) == 2 else None)
    for card in cards:
        assert card.payload["params"]["arguments"]["title"] == card.proposer
        option = "once" if card.proposer == "coder" else "always"
        await shed.human.approve(card.id, option=option)
    assert [json.loads(str(await one))["optionId"] for one in asked] == ["once", "always"]
    assert first.session != second.session


def test_a_token_is_masked_in_the_command_line() -> None:
    Token("a-secret-of-some-length")
    bridge = AcpBridge("x", ["prog", "--token", "a-secret-of-some-length"])
    assert "a-secret" not in repr(bridge)


@pytest.mark.slow
async def test_a_permission_through_the_space_takes_hardly_longer_than_without(shed: Shed) -> None:
    """At most 1.2 times the round trip of ACP itself, and 5 ms; the median, of an answer that comes at once."""
    import acp

    words: list[str] = []

    class Editor(acp.Client):  # the official client, which allows at once
        async def request_permission(self, **kwargs: Any) -> Any:
            return {"outcome": {"outcome": "selected", "optionId": "once"}}

        async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
            words.append(update.content.text)

    line = "asks 100 " + ask()[4:]
    async with acp.spawn_agent_process(Editor(), sys.executable, str(AGENT)) as (agent, _):  # type: ignore[abstract]
        await agent.initialize(protocol_version=1)
        session = await agent.new_session(cwd=str(shed.folder), mcp_servers=[])
        await agent.prompt(session_id=session.session_id, prompt=[acp.text_block(line)])
    await shed.open()

    async def allow(envelope: Envelope) -> None:
        await shed.human.approve(envelope.id)

    shed.human.on_mcp_proposal(allow)
    through = float(await shed.ask(line))
    assert through <= 1.2 * float("".join(words)) + 5, (through, words)
