"""The pending calls of an agent framework are proposals: approved, edited, rejected, given up, or ordered by nobody."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mew_lab.bridge.tool_approvals import PendingCall, ToolApprovals
from mew_lab.errors import CapabilityViolation, ConnectionLost, ToolFailed
from mew_lab.sdk.participant import MEWParticipant

from .conftest import Site, until

ROOT = Path(__file__).resolve().parents[2]
WRITE = {"path": "a.txt", "text": "hello"}


class Trio(NamedTuple):
    """The approvals of an agent that proposes to the host of its tools, and a person that decides."""

    approvals: ToolApprovals
    person: MEWParticipant


@pytest.fixture
async def trio(site: Site) -> Trio:
    agent, tools = await site.seat("agent", "proposer"), await site.seat("agent-tools", "tool")
    return Trio(ToolApprovals(agent, tools), await site.seat("person", "human"))


async def open_proposals(person: MEWParticipant, count: int) -> list[Any]:
    def still_open() -> list[Any]:
        return [one for one in person.proposals if one.state == "open"]

    await until(lambda: len(still_open()) >= count)
    return still_open()


async def test_an_approved_call_is_decided_with_the_arguments_of_the_request(trio: Trio) -> None:
    approvals, person = trio
    deciding = asyncio.create_task(approvals.decide("write", WRITE, description="Writes a file."))
    (proposal,) = await open_proposals(person, 1)
    assert proposal.envelope.to == ("agent-tools",)
    assert proposal.envelope.payload["params"] == {"name": "write", "arguments": WRITE}
    (listed,) = await person.list_tools("agent-tools")
    assert (listed["name"], listed["description"]) == ("write", "Writes a file.")
    await person.approve(proposal.id)
    decision = await asyncio.wait_for(deciding, 10)
    assert (decision.approved, decision.arguments, decision.edited) == (True, WRITE, False)


async def test_an_edited_call_is_decided_with_what_the_person_sent(trio: Trio) -> None:
    approvals, person = trio
    deciding = asyncio.create_task(approvals.decide("write", WRITE))
    (proposal,) = await open_proposals(person, 1)
    other = {"path": "b.txt", "text": "hello"}
    await person.approve(proposal.id, params={"name": "write", "arguments": other})
    decision = await asyncio.wait_for(deciding, 10)
    assert (decision.approved, decision.arguments, decision.edited) == (True, other, True)


async def test_a_rejected_call_says_who_rejected_it_and_why(trio: Trio) -> None:
    approvals, person = trio
    deciding = asyncio.create_task(approvals.decide("write", WRITE))
    (proposal,) = await open_proposals(person, 1)
    await person.reject(proposal.id, "not this file")
    decision = await asyncio.wait_for(deciding, 10)
    assert (decision.approved, decision.arguments) == (False, WRITE)
    assert "person" in decision.reason and "not this file" in decision.reason


async def test_who_gives_up_withdraws_the_proposal(trio: Trio) -> None:
    approvals, person = trio
    deciding = asyncio.create_task(approvals.decide("write", WRITE))
    (proposal,) = await open_proposals(person, 1)
    deciding.cancel()
    await until(lambda: person.proposals.get(proposal.id).state == "withdrawn")  # type: ignore[union-attr]


async def test_a_call_that_was_not_proposed_is_refused_and_changes_no_decision(trio: Trio) -> None:
    approvals, person = trio
    first = asyncio.create_task(approvals.decide("write", WRITE))
    second = asyncio.create_task(approvals.decide("remove", {"path": "a.txt"}))
    write, remove = await open_proposals(person, 2)
    for about in ((), remove.id, "nobody's"):  # no proposal, that of another tool, none at all
        with pytest.raises(ToolFailed, match=r"[Nn]o open proposal|has not seen proposal nobody's"):
            await person.call("agent-tools/write", {"path": "evil"}, correlation_id=about)
    await person.approve(write.id)
    decision = await asyncio.wait_for(first, 10)
    assert decision.approved and decision.arguments == WRITE
    with pytest.raises(ToolFailed):  # an approval counts once
        await person.call("agent-tools/write", WRITE, correlation_id=write.id)
    assert not second.done()
    second.cancel()


@pytest.mark.ruling("R17")
async def test_a_request_beside_the_proposal_decides_nothing(trio: Trio) -> None:
    """It goes to others, too, so the ledger takes it for a request by its sender's own right."""
    approvals, person = trio
    deciding = asyncio.create_task(approvals.decide("write", WRITE))
    (proposal,) = await open_proposals(person, 1)
    params = {"name": "write", "arguments": {"path": "evil", "text": "hello"}}
    payload = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    answers: list[Any] = []
    person.client.on_message(answers.append, kinds=("mcp/response",))
    beside = {"kind": "mcp/request", "to": ["agent-tools", "agent"], "correlation_id": [proposal.id]}
    sent = await person.send_accepted({**beside, "payload": payload})
    await until(lambda: any(one.sender == "agent-tools" and sent.id in one.correlation_id for one in answers))
    assert not deciding.done()
    await person.approve(proposal.id)
    decision = await asyncio.wait_for(deciding, 10)
    assert (decision.approved, decision.arguments, decision.edited) == (True, WRITE, False)


async def test_calls_of_one_tool_are_decided_each_for_itself(trio: Trio) -> None:
    approvals, person = trio
    asked = [asyncio.create_task(approvals.decide("write", {"n": n})) for n in range(8)]
    for proposal in reversed(await open_proposals(person, 8)):
        number = proposal.envelope.payload["params"]["arguments"]["n"]
        await (person.approve(proposal.id) if number % 2 else person.reject(proposal.id, f"even {number}"))
    decisions = await asyncio.wait_for(asyncio.gather(*asked), 10)
    assert [one.arguments for one in decisions] == [{"n": n} for n in range(8)]
    assert [one.approved for one in decisions] == [n % 2 == 1 for n in range(8)]
    assert all(f"even {n}" in decisions[n].reason for n in range(0, 8, 2))


async def test_an_agent_that_may_not_propose_is_told(site: Site) -> None:
    agent, tools = await site.seat("agent", "observer"), await site.seat("agent-tools", "tool")
    with pytest.raises(CapabilityViolation):
        await ToolApprovals(agent, tools).decide("write", WRITE)


@pytest.mark.parametrize(
    ("proposed", "sent"), [(0, False), (1, 1.5), (1, True), ([1], [True]), ({"a": 0}, {"a": False})]
)
async def test_arguments_that_only_python_calls_equal_are_edited(
    trio: Trio, proposed: Any, sent: Any
) -> None:
    approvals, person = trio
    deciding = asyncio.create_task(approvals.decide("pay", {"x": proposed}))
    (proposal,) = await open_proposals(person, 1)
    await person.approve(proposal.id, params={"name": "pay", "arguments": {"x": sent}})
    decision = await asyncio.wait_for(deciding, 10)
    assert decision.approved and decision.edited


@pytest.mark.parametrize(
    "odd",
    [PendingCall("no tool!", {}), PendingCall("pay", None), PendingCall(None, {}), PendingCall("pay", [1])],
)
async def test_a_call_that_cannot_be_asked_for_is_refused_and_the_others_are_decided(
    trio: Trio, odd: PendingCall
) -> None:
    approvals, person = trio
    calls = [PendingCall("pay", {"n": 10}), odd, PendingCall("pay", {"n": 20})]
    deciding = asyncio.create_task(approvals.decide_all(calls))
    for proposal in await open_proposals(person, 2):
        await person.approve(proposal.id)
    first, refused, last = await asyncio.wait_for(deciding, 10)
    assert (first.arguments, last.arguments) == ({"n": 10}, {"n": 20}) and first.approved and last.approved
    assert not refused.approved and refused.reason.startswith("Not approved: ")
    assert (first.decided, refused.decided, last.decided) == (True, False, True)


async def test_where_a_run_cannot_go_on_the_cards_of_its_other_calls_are_withdrawn(trio: Trio) -> None:
    approvals, person = trio
    decide = approvals.decide

    async def fail_second(name: str, arguments: Any, **about: Any) -> Any:
        if arguments["n"] == 2:
            await until(lambda: len([one for one in person.proposals if one.state == "open"]) == 2)
            raise ConnectionLost("it is gone")
        return await decide(name, arguments)

    vars(approvals)["decide"] = fail_second
    with pytest.raises(ConnectionLost, match="it is gone"):
        await approvals.decide_all([PendingCall("pay", {"n": n}) for n in (1, 2, 3)])
    await until(lambda: all(one.state == "withdrawn" for one in person.proposals))
    assert len(list(person.proposals)) == 2


async def test_who_gives_up_a_run_withdraws_all_its_proposals(trio: Trio) -> None:
    approvals, person = trio
    calls = [PendingCall("pay", {"n": n}) for n in range(3)]
    deciding = asyncio.create_task(approvals.decide_all(calls))
    await open_proposals(person, 3)
    deciding.cancel()
    await until(lambda: all(one.state == "withdrawn" for one in person.proposals))


# --- the real frameworks, each in an environment of its own ---


def environment_of(folder: Path, extra: str, *more: str) -> Path:
    """An interpreter with mew_lab, one extra and further packages from the index."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    environment = {key: value for key, value in os.environ.items() if not key.endswith("_CONSTRAINT")}
    command = [str(python), "-m", "pip", "install", "--quiet", f"{ROOT}[{extra}]", *more]
    made = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
    assert made.returncode == 0, made.stderr[-2000:]
    return python


@pytest.fixture(scope="module")
def interpreters(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The interpreter of a framework, made at its first use."""

    @functools.cache
    def find(extra: str) -> Path:
        # The middleware of LangChain stands in a package of its own.
        more = ["langchain>=1,<2"] if extra == "langgraph" else []
        return environment_of(tmp_path_factory.mktemp(extra), extra, *more)

    return find


def run_program(python: Path, name: str, *options: str) -> dict[str, Any]:
    program = [str(python), str(Path(__file__).parent / "frameworks" / f"{name}_program.py"), *options]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, cwd=python.parent)
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


Interpreters = Callable[[str], Path]
framework = pytest.mark.skipif(sys.platform == "emscripten", reason="no processes here")
PROGRAMS = [
    ("pydantic-ai", "pydantic_ai", "run"),
    ("pydantic-ai", "pydantic_ai", "handler"),
    ("openai-agents", "openai_agents", ""),
    ("langgraph", "langgraph", ""),
    ("langgraph", "langchain", "batched"),
    ("langgraph", "langchain", "per_call"),
    ("langgraph", "agent_inbox", ""),
]


@pytest.mark.slow
@pytest.mark.timeout(700)
@framework
@pytest.mark.parametrize("extra, name, option", PROGRAMS)
def test_a_framework_executes_what_was_approved_and_nothing_else(
    extra: str, name: str, option: str, interpreters: Interpreters
) -> None:
    found = run_program(interpreters(extra), name, *filter(None, [option]))
    # Of three calls the first was approved, the second rejected, the third approved with other arguments.
    edits = name != "openai_agents"
    expected = [{"path": "a"}, {"path": "edited"}] if edits else [{"path": "a"}]
    assert sorted(found["executed"], key=json.dumps) == expected
    assert found["decisions"] == ["approved", "rejected", "edited"]
    told = json.dumps(found["told"])
    assert "no, not b" in told
    if not edits:  # the model is told the arguments that were approved
        assert "Approved only with other arguments" in told
    if name in ("pydantic_ai", "openai_agents"):  # and that it wrote no JSON, which ended nothing
        assert "JSON" in told
    if name == "pydantic_ai":
        assert "Hello." in found["told"]["begins"]  # the history that it began with
        assert found["told"]["requests"] == 7  # the usage that it began with, and two requests
    if name == "openai_agents":
        assert "Write three files." in found["told"]["kept"] and "wrote a" in found["told"]["kept"]
        assert found["told"]["limited"]


@pytest.mark.slow
@pytest.mark.timeout(700)
@framework
def test_a_graph_that_interrupts_with_any_value_gets_what_the_person_answers(
    interpreters: Interpreters,
) -> None:
    found = run_program(interpreters("langgraph"), "questions")
    assert found["told"] == [False, True, "Ada", True]
    assert found["decisions"] == [
        "Delete it?",
        {"question": "Go on?", "draft": [1, 2]},
        "What is your name?",
        7,
    ]


@pytest.mark.slow
@pytest.mark.timeout(700)
@framework
def test_tools_that_ask_themselves_get_an_answer_of_their_form(interpreters: Interpreters) -> None:
    found = run_program(interpreters("openai-agents"), "approval_functions")
    assert found["decisions"] == [
        ["draw", {"name": "draw", "input": "a line"}],
        ["search", {"q": "x"}],
        ["shell", {"action": {"commands": ["rm -r build"], "timeout_ms": 5}}],
    ]
    shell, custom, hosted, broken = found["told"]
    assert shell == {"approve": True}
    assert custom["approve"] is False and "no drawing" in custom["reason"]
    assert hosted == {
        "approve": False,
        "reason": 'Approved only with other arguments: {"q": "other"}. Ask again with these.',
    }
    assert broken["approve"] is False and "are no JSON object" in broken["reason"]
