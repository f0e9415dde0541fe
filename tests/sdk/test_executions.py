"""One fulfilment of each proposal is executed: races of deciders, restarts of the executor, and each rule by itself."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.errors import OutcomeUnknown, ProposalEnded, ToolFailed
from mew_lab.protocol.address import Address
from mew_lab.protocol.envelope import Envelope, compact
from mew_lab.protocol.intake import SENT_UNKNOWN
from mew_lab.sdk import executions
from mew_lab.sdk.calls import Call
from mew_lab.sdk.connection import identify_gateway
from mew_lab.sdk.decisions import draft_fulfilment
from mew_lab.sdk.executions import ExecutionFile, SpaceIdentity
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.request_server import ASKED
from mew_lab.sdk.tools import ToolBox

from ..conftest import examples
from .conftest import Room, until

pytestmark = pytest.mark.ruling("R32")

RACES = [
    pytest.param(40, id="short"),
    pytest.param(1000, id="long", marks=[pytest.mark.slow, pytest.mark.timeout(1800)]),
]
AT_ONCE = 8


class Target:
    """A tool that counts its executions by the proposal, in whichever participant it is offered."""

    git: MEWParticipant

    def __init__(self, *, waits: bool = False) -> None:
        self.executed: Counter[str] = Counter()
        self.may_end = asyncio.Event()
        if not waits:
            self.may_end.set()

    def tools(self) -> ToolBox:
        async def push(n: int) -> str:
            request = ASKED.get()
            self.executed.update(request.correlation_id or [request.id])
            await self.may_end.wait()
            if n % 7 == 3:
                raise ValueError(f"no branch {n}")
            return f"pushed {n}"

        tools = ToolBox(name="git")
        tools.add(push)
        return tools


class Decider:
    """A participant that approves what is proposed, and what it was told of each proposal."""

    def __init__(self, participant: MEWParticipant) -> None:
        self.participant = participant
        self.told: dict[str, str] = {}
        self.sent: dict[str, str] = {}  # request -> proposal
        self._tasks: set[asyncio.Task[None]] = set()

    def note(self, proposal: Envelope) -> None:
        task = asyncio.ensure_future(self.approve(proposal))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def approve(self, proposal: Envelope) -> None:
        """As a program of ours decides."""
        id = self.participant.client.new_id()
        self.sent[id] = proposal.id
        try:
            await self.participant.approve(proposal.id, request_id=id)
        except ProposalEnded as ended:
            self.told[proposal.id] = str(ended)
        else:
            self.told[proposal.id] = "approved"


class Hasty(Decider):
    """Sends its request at once, whatever its ledger says, as the reference's fulfiller."""

    async def approve(self, proposal: Envelope) -> None:
        known = self.participant.proposals.get(proposal.id)
        assert known is not None
        request = self.participant.client.new_id()
        self.sent[request] = proposal.id
        self.participant.client.post(draft_fulfilment(known, id=request))
        held = self.participant.ledger.calls.requests
        await until(lambda: (call := held.get(request)) is not None and call.state != "waiting")
        call = held.get(request)
        self.told[proposal.id] = (
            f"Proposal {proposal.id}: {call.late}; not executed" if call.late else "approved"
        )


async def race(room: Room, kinds: Sequence[type[Decider]], calls: int, *, seed: int) -> None:
    """Each of the deciders approves each call; the target executes each once, and all others are told."""
    target, dice = Target(), random.Random(seed)
    await room.seat("git", "tool", tools=target.tools())
    deciders = [kind(await room.seat(f"d{n}", "human")) for n, kind in enumerate(kinds)]
    for decider in deciders:
        decider.participant.on_mcp_proposal(decider.note)
    bot = await room.seat("bot", "proposer")
    numbers = iter(range(calls))
    outcomes: dict[str, str] = {}

    async def propose() -> None:
        for n in numbers:
            call = bot.call("git/push", {"n": n})
            try:
                outcomes[call.id] = str(await asyncio.wait_for(call.outcome(), 30))
            except ToolFailed as failed:
                outcomes[call.id] = "failed" if f"no branch {n}" in str(failed) else str(failed)
            assert outcomes[call.id] == ("failed" if n % 7 == 3 else f"pushed {n}")
            await asyncio.sleep(dice.choice([0, 0, 0.001]))

    await asyncio.gather(*(propose() for _ in range(AT_ONCE)))
    assert target.executed == Counter(outcomes.keys()) and len(outcomes) == calls
    await until(lambda: all(set(decider.told) == set(outcomes) for decider in deciders))
    crossed = 0
    requests = {envelope.id: envelope for envelope in room.sent("mcp/request")}
    for id in outcomes:
        proposal = bot.proposals.get(id)
        told = {decider.participant.client.id: decider.told[id] for decider in deciders}
        assert [name for name, word in told.items() if word == "approved"] == [proposal.by]
        by = proposal.by
        assert set(told.values()) <= {
            "approved",
            f"Proposal {id}: already approved by {by}; not executed",
            f"Cannot approve proposal {id}: {by} approved it before",
        }
        crossed += sum("not executed" in word for word in told.values())
    assert crossed, "no two decisions crossed"
    late = {
        request
        for decider in deciders
        for request, id in decider.sent.items()
        if request in requests and (won := bot.proposals.get(id)) is not None and won.fulfilment != request
    }
    await until(lambda: len(room.sent("mcp/response")) == calls + len(late))
    answers = {answer.correlation_id[0]: answer for answer in room.sent("mcp/response")}
    for request in late:
        error = answers[request].payload["error"]
        won = bot.proposals.get(requests[request].correlation_id[0])
        assert won is not None and error["code"] == -32001
        assert error["data"] == {"code": "already_fulfilled", "by": won.by, "request": won.fulfilment}


KINDS: list[Any] = [
    pytest.param([Hasty, Hasty], id="two of the reference's kind"),
    pytest.param([Decider, Decider], id="two programs"),
    pytest.param([Hasty, Decider, Hasty, Decider, Decider], id="five"),
]


@pytest.mark.req("C-22")
@pytest.mark.parametrize("calls", RACES)
@pytest.mark.parametrize("kinds", KINDS)
async def test_however_many_decide_at_once_each_proposal_is_executed_once_and_each_loser_is_told(
    either: Room, kinds: list[type[Decider]], calls: int
) -> None:
    await race(either, kinds, calls, seed=calls)


class Reference:
    """Proposes by the rules of the reference's clients: `told` is what its callers get, by the id of the proposal.

    A call ends with the first answer of anybody to any request of anybody that correlates to its proposal, with the first
    `mcp/reject`, or once its time is over (`expire`), which it tells by a withdraw. What comes later is passed over.
    """

    def __init__(self, participant: MEWParticipant) -> None:
        self.client = participant.client
        self.told: dict[str, Any] = {}
        self._open: set[str] = set()
        self._about: dict[str, str] = {}  # a request -> the proposal that it is about
        participant.client.on_message(self._observe)

    def propose(self, n: int) -> str:
        payload = {key: request([], n)["payload"][key] for key in ("method", "params")}
        id = self.client.post({"kind": "mcp/proposal", "to": ["git"], "payload": payload}).id
        self._open.add(id)
        return id

    def expire(self, id: str) -> None:
        self._end(id, "timeout")
        self.client.post({"kind": "mcp/withdraw", "correlation_id": [id], "payload": {"reason": "timeout"}})

    def _end(self, id: str, outcome: Any) -> None:
        if id in self._open:
            self._open.remove(id)
            self.told[id] = outcome

    def _observe(self, envelope: Envelope) -> None:
        for id in envelope.correlation_id:
            if envelope.kind == "mcp/request" and id in self._open:
                self._about[envelope.id] = id
            elif envelope.kind == "mcp/reject":
                self._end(id, "rejected")
            elif envelope.kind == "mcp/response" and id in self._about:
                payload = envelope.payload
                self._end(self._about[id], payload.get("result", payload.get("error")))


class Doubtful(Hasty):
    """Rejects every other proposal, and approves the others."""

    async def approve(self, proposal: Envelope) -> None:
        if proposal.payload["params"]["arguments"]["n"] % 2:
            await super().approve(proposal)
        else:
            self.participant.client.post(
                {"kind": "mcp/reject", "correlation_id": [proposal.id], "payload": {}}
            )


def outcome_of(n: int) -> str:
    return f"no branch {n}" if n % 7 == 3 else f"pushed {n}"


@pytest.mark.req("C-22")
@pytest.mark.parametrize("other", [Hasty, Doubtful])
async def test_a_proposer_by_the_rules_of_the_reference_gets_the_true_answer_100_of_100(
    either: Room, other: type[Decider]
) -> None:
    target, dice, calls = Target(), random.Random(100), 100
    await either.seat("git", "tool", tools=target.tools())
    deciders = [kind(await either.seat(f"d{n}", "human")) for n, kind in enumerate((Hasty, other))]
    for decider in deciders:
        decider.participant.on_mcp_proposal(decider.note)
    bot = Reference(await either.seat("bot", "proposer"))
    wanted: dict[str, str] = {}
    for n in range(calls):
        wanted[bot.propose(n)] = outcome_of(n)
        await asyncio.sleep(dice.choice([0, 0, 0.001]))
    await until(lambda: len(bot.told) == calls and target.executed.total() == calls)

    def order_of() -> dict[str, int]:
        return {one.correlation_id[0]: n for n, one in enumerate(either.sent("mcp/reject", "mcp/response"))}

    calls_sent = {one.id for one in either.sent("mcp/request") if one.payload["method"] == "tools/call"}
    await until(lambda: calls_sent <= order_of().keys())  # a told rejection may come before the answer
    order = order_of()
    for id, text in wanted.items():
        told = bot.told[id]
        if told == "rejected":
            [request] = [one.id for one in either.sent("mcp/request") if id in one.correlation_id]
            assert other is Doubtful and order[id] < order[request]
        else:
            assert text in told["content"][0]["text"], (id, told)
    assert target.executed == Counter(wanted.keys())


async def test_what_a_proposer_by_the_rules_of_the_reference_withdrew_for_its_time_does_not_run(
    room: Room, target: Target, ada: MEWParticipant
) -> None:
    bot = Reference(await room.seat("bot", "proposer"))
    late, running = bot.propose(1), bot.propose(2)
    await until(lambda: all(one.proposals.get(running) is not None for one in (ada, target.git)))
    await ada.send_accepted(request([running], 2))
    bot.expire(late)
    bot.expire(running)
    await until(lambda: len(room.sent("mcp/withdraw")) == 2)
    refused = await ada.send_accepted(request([late]))
    target.may_end.set()
    await until(lambda: len(answers(room)) == 2)
    assert answers(room)[refused.id] == {"code": "withdrawn", "by": "bot"}
    assert bot.told == {late: "timeout", running: "timeout"} and target.executed == {running: 1}

    def states() -> list[str]:
        return [known.state for id in (late, running) if (known := target.git.proposals.get(id))]

    # What the approval had started runs on, and the record has its outcome.
    await until(lambda: states() == ["withdrawn", "answered"])


# --- each rule ---


@pytest.fixture
async def bot(room: Room) -> MEWParticipant:
    return await room.seat("bot", "proposer")


@pytest.fixture
async def ada(room: Room) -> MEWParticipant:
    return await room.seat("ada", "human")


@pytest.fixture
async def target(room: Room) -> Target:
    """The tool `push` of `git`, whose executions wait until they are released."""
    target = Target(waits=True)
    target.git = await room.seat("git", "tool", tools=target.tools())
    return target


@pytest.fixture
async def ben(room: Room) -> MEWParticipant:
    return await room.seat("ben", "human")


async def seen(call: Call, *by: MEWParticipant) -> None:
    await until(lambda: all(one.proposals.get(call.id) is not None for one in by))


def request(about: Sequence[str], n: int = 1, **more: Any) -> dict[str, Any]:
    params = {"name": "push", "arguments": {"n": n}}
    payload = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return {"kind": "mcp/request", "to": ["git"], "correlation_id": list(about), "payload": payload, **more}


def answers(room: Room) -> dict[str, Any]:
    """The answers by the request, in their order: the text of a result, or the `data` of an error."""
    told = {}
    for answer in room.sent("mcp/response"):
        payload = answer.payload
        error = payload.get("error")
        told[answer.correlation_id[0]] = (
            error.get("data", error["message"]) if error else payload["result"]["content"][0]["text"]
        )
    return told


async def answer_to(sent: Envelope, room: Room) -> Any:
    """What its answer says, once there is one."""
    await until(lambda: sent.id in answers(room))
    return answers(room)[sent.id]


@pytest.mark.extension("one_fulfilment")
async def test_the_loser_is_refused_after_the_answer_of_the_executed_request_and_not_before(
    room: Room, target: Target, bot: MEWParticipant, ada: MEWParticipant, ben: MEWParticipant
) -> None:
    call = bot.call("git/push", {"n": 1})
    await seen(call, ada, ben, target.git)
    first = await ada.approve(call.id)
    late = await ben.send_accepted(request([call.id], 2))
    assert ben.ledger.calls.requests.get(late.id).late == "already approved by ada"  # type: ignore[union-attr]
    await ben.chat("still there")
    assert answers(room) == {}
    target.may_end.set()
    await until(lambda: len(answers(room)) == 2)
    assert list(answers(room).items()) == [
        (first.id, "pushed 1"),
        (late.id, {"code": "already_fulfilled", "by": "ada", "request": first.id}),
    ]
    assert str(await call) == "pushed 1" and target.executed == {call.id: 1}


async def test_a_loser_does_not_wait_for_an_answer_for_longer_than_peers_do(
    room: Room, target: Target, bot: MEWParticipant, ada: MEWParticipant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executions, "REFUSED_WITHIN", 0.01)
    call = bot.call("git/push", {"n": 1})
    await seen(call, ada, target.git)
    first = await ada.approve(call.id)
    late = await ada.send_accepted(request([call.id]))
    await until(lambda: answers(room))
    data = {"code": "already_fulfilled", "by": "ada", "request": first.id, "unknown": True}
    assert answers(room) == {late.id: data}


async def test_a_cancelled_execution_counts_and_the_loser_is_told_that_its_effect_is_not_known(
    room: Room, target: Target, bot: MEWParticipant, ada: MEWParticipant, ben: MEWParticipant
) -> None:
    call = bot.call("git/push", {"n": 1})
    await seen(call, ada, ben, target.git)
    first = await ada.approve(call.id)
    late = await ben.send_accepted(request([call.id]))
    await ada.notify("notifications/cancelled", {"requestId": first.payload["id"]}, to="git")
    data = {"code": "already_fulfilled", "by": "ada", "request": first.id, "unknown": True}
    assert await answer_to(late, room) == data
    again = await ben.send_accepted(request([call.id]))  # it is over by now
    assert await answer_to(again, room) == data and target.executed == {call.id: 1}


async def test_requests_that_decide_no_proposal_use_nothing_up(
    room: Room, bot: MEWParticipant, ada: MEWParticipant, ben: MEWParticipant
) -> None:
    target = Target()
    git = await room.seat("git", "tool", tools=target.tools())
    git.register_tool(lambda: "other", name="other")
    chat = await ada.chat("please push")
    call = bot.call("git/push", {"n": 1})
    await seen(call, ada, ben, git)
    other = request([call.id])
    other["payload"] = {**other["payload"], "params": {"name": "other", "arguments": {}}}
    own = [
        await ada.send_accepted(other),  # another tool
        await ada.send_accepted(request([chat.id], 4)),  # about a message that is no proposal
        await ada.send_accepted(request([chat.id], 4)),
        await ada.send_accepted(
            request(["before-git-came"], 4, context="before-git-came/1")
        ),  # its reasoning
        await ada.send_accepted(request([call.id], 4, to=["git", "ben"])),  # other addressees
    ]
    await until(lambda: {one.id for one in own} <= set(answers(room)))
    assert [answers(room)[one.id] for one in own] == ["other", *["pushed 4"] * 4]
    await ada.approve(call.id)
    assert str(await call) == "pushed 1"
    late = [await ben.send_accepted(request([call.id])), await ben.send_accepted(other)]
    await answer_to(late[1], room)
    assert answers(room)[late[0].id]["code"] == "already_fulfilled" and answers(room)[late[1].id] == "other"


async def test_of_a_proposal_to_nobody_one_target_executes_and_the_others_refuse_after_its_answer(
    room: Room, bot: MEWParticipant, ada: MEWParticipant, ben: MEWParticipant
) -> None:
    target = Target(waits=True)
    seats = [await room.seat(name, "tool", tools=target.tools()) for name in ("git", "svn")]
    proposal = await bot.send_accepted(
        {
            "kind": "mcp/proposal",
            "payload": {"method": "tools/call", "params": request(())["payload"]["params"]},
        }
    )
    await until(lambda: all(one.proposals.get(proposal.id) for one in (*seats, ada, ben)))
    first = await ada.approve(proposal.id, to="svn")
    late = await ben.send_accepted(request([proposal.id]))
    await ben.chat("still there")
    assert answers(room) == {}
    target.may_end.set()
    await until(lambda: len(answers(room)) == 2)
    assert list(answers(room)) == [first.id, late.id]
    assert answers(room)[late.id] == {"code": "already_fulfilled", "by": "ada", "request": first.id}


@pytest.mark.extension("one_fulfilment")
async def test_a_plain_participant_executes_no_proposal_that_it_has_not_seen(
    room: Room, bot: MEWParticipant, ada: MEWParticipant
) -> None:
    proposal = await bot.send_accepted(
        {"kind": "mcp/proposal", "to": ["git"], "payload": request(())["payload"]}
    )
    target = Target()
    await room.seat("git", "tool", tools=target.tools())
    sent = await ada.send_accepted(request([proposal.id]))
    await until(lambda: answers(room))
    assert answers(room)[sent.id] == {"code": "proposal_not_seen"} and not target.executed
    [answer] = room.sent("mcp/response")
    assert answer.payload["error"]["message"].endswith("propose it again")


# --- restarts ---


class Lasting:
    """A target with a file of what it executed; `start` starts it again, as another process does."""

    def __init__(self, room: Room, folder: Path) -> None:
        self.room, self.folder = room, folder
        self.target = Target()
        self.participant: MEWParticipant | None = None
        room.enrol("git", "tool")

    async def start(self) -> MEWParticipant:
        if self.participant is not None:
            await self.participant.stop()
        self.participant = MEWParticipant(
            self.room.client("git"), tools=self.target.tools(), state=lambda: self.folder
        )
        self.room.seated.append(self.participant)
        await self.participant.start()
        return self.participant

    @property
    def file(self) -> Path:
        [file] = (self.folder / "executions").iterdir()
        return file


async def test_an_executor_that_starts_again_knows_what_it_has_executed(
    room: Room, bot: MEWParticipant, ada: MEWParticipant, ben: MEWParticipant, tmp_path: Path
) -> None:
    lasting = Lasting(room, tmp_path / "state")
    git = await lasting.start()
    call, failing, hung = (bot.call("git/push", {"n": n}) for n in (1, 3, 5))
    await seen(hung, ada, ben, git)
    first = await ada.approve(call.id)
    await call
    failed = await ada.approve(failing.id)
    with pytest.raises(ToolFailed):
        await failing
    lasting.target.may_end.clear()
    halted = await ada.approve(hung.id)
    await until(lambda: lasting.target.executed[hung.id])
    await until(lambda: lasting.file.read_text().count('"answered":true') == 2)
    assert lasting.file.stat().st_mode & 0o777 == 0o600
    await lasting.start()
    late = [
        await ben.send_accepted(request([one.id], context=f"{one.id}/1")) for one in (call, failing, hung)
    ]
    await answer_to(late[-1], room)
    by = {"code": "already_fulfilled", "by": "ada"}
    assert [answers(room)[one.id] for one in late] == [
        {**by, "request": first.id},
        {**by, "request": failed.id},
        {**by, "request": halted.id, "unknown": True},
    ]
    assert lasting.target.executed == {call.id: 1, failing.id: 1, hung.id: 1}


async def test_an_executor_with_a_file_executes_an_unseen_proposal_once(
    room: Room, bot: MEWParticipant, ada: MEWParticipant, ben: MEWParticipant, tmp_path: Path
) -> None:
    proposal = await bot.send_accepted(
        {"kind": "mcp/proposal", "to": ["git"], "payload": request(())["payload"]}
    )
    lasting = Lasting(room, tmp_path)
    await lasting.start()
    sent = [await one.send_accepted(request([proposal.id])) for one in (ada, ben)]
    await until(lambda: len(answers(room)) == 2)
    assert answers(room)[sent[0].id] == "pushed 1"
    assert answers(room)[sent[1].id] == {"code": "already_fulfilled", "by": "ada", "request": sent[0].id}
    await lasting.start()
    again = await ben.send_accepted(request([proposal.id]))
    assert (await answer_to(again, room))["request"] == sent[0].id and lasting.target.executed == {
        proposal.id: 1
    }


async def test_an_id_that_its_proposer_takes_anew_is_another_proposal(
    room: Room, ada: MEWParticipant, tmp_path: Path
) -> None:
    lasting = Lasting(room, tmp_path)
    await lasting.start()
    draft = {"kind": "mcp/proposal", "id": "p-1", "to": ["git"], "payload": request(())["payload"]}
    for count in (1, 2):
        bot = await room.seat("bot", "proposer") if count == 1 else room.seated[-1]
        if count == 2:  # its admission is over, so it may count its ids from the start (R6)
            bot = await room.seat("bot", None)
        await bot.send_accepted(draft)
        sent = await ada.send_accepted(request(["p-1"]))
        assert await answer_to(sent, room) == "pushed 1" and lasting.target.executed == {"p-1": count}
        late = await ada.send_accepted(request(["p-1"]))
        assert (await answer_to(late, room))["request"] == sent.id
        await bot.stop()


@pytest.mark.drawn
@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["p-1", "p-2"])), max_size=6),
    st.integers(0, 3),
    st.booleans(),
)
def test_two_spaces_of_one_name_share_no_execution_and_a_resumed_or_restarted_one_keeps_its_own(
    written: list[tuple[int, str]], now: int, older: bool
) -> None:
    spaces = [
        SpaceIdentity("a" * 16, "ws://x:1"),
        SpaceIdentity("a" * 16, "ws://x:2"),
    ]  # resumed on another port
    spaces += [
        SpaceIdentity("b" * 16, "ws://x:1"),
        SpaceIdentity("c" * 16, ""),
    ]  # another run there; in a process
    executed: list[tuple[int, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        for n, (space, proposal) in enumerate(written):
            file = ExecutionFile(Path(folder), "demo", "git", space=lambda space=space: spaces[space])  # type: ignore[misc]
            one = executions.Executed("bot", proposal, f"r-{n}", "ada", "call", same="s", at=1.0)
            if file.find(proposal) is None:  # else an executor executes nothing
                file.write([file.tag(one)])
                executed.append((space, proposal))
        plain = ExecutionFile(Path(folder), "demo", "git")
        if older:
            plain.write([executions.Executed("bot", "p-2", "r-old", "ada", "call", same="s", at=1.0)])
        mine = ExecutionFile(Path(folder), "demo", "git", space=lambda: spaces[now])
        shared = {0: {0, 1, 2}, 1: {0, 1}, 2: {0, 2}, 3: {3}}[now]
        own = {proposal for space, proposal in executed if space in shared} | ({"p-2"} if older else set())
        assert {one.proposal for one in mine.unanswered()} == own
        assert {proposal for proposal in ("p-1", "p-2") if mine.find(proposal)} == own


SPELLINGS = (
    "ws://127.0.0.1:8080",
    "ws://localhost:8080/ws?space=demo",
    "http://[::1]:8080/",
    "WS://LOCALHOST:8080/ws/",
)


@pytest.mark.parametrize("before", SPELLINGS)
@pytest.mark.parametrize("now", SPELLINGS)
def test_a_gateway_is_the_same_however_its_address_is_spelt(tmp_path: Path, before: str, now: str) -> None:
    def made(gateway: str) -> ExecutionFile:
        identity = SpaceIdentity(address=Address(gateway))
        return ExecutionFile(tmp_path, "demo", "git", space=lambda: identity)

    file = made(before)
    file.write([file.tag(executions.Executed("bot", "p-1", "r-1", "ada", "call", same="s", at=1.0))])
    found = made(now).find("p-1")
    assert found is not None and found.request == "r-1" and len(made(now).unanswered()) == 1
    assert "demo" not in found.address


@pytest.mark.parametrize(
    "other", ["ws://127.0.0.1:8081", "ws://10.0.0.1:8080", "wss://127.0.0.1", "ws://127.0.0.1:8080/b/ws", ""]
)
def test_another_gateway_has_executions_of_its_own(tmp_path: Path, other: str) -> None:
    assert identify_gateway(other) not in {identify_gateway(one) for one in SPELLINGS}


def test_an_entry_of_an_earlier_version_names_the_same_gateway(tmp_path: Path) -> None:
    identity = SpaceIdentity(address="ws://127.0.0.1:8080/ws?space=demo")
    file = ExecutionFile(tmp_path, "demo", "git", space=lambda: identity)
    entry = executions.Executed("bot", "p-1", "r-1", "ada", "call", address="ws://127.0.0.1:8080/ws?…")
    file.path.parent.mkdir()
    file.path.write_text(compact(entry._asdict()) + "\n", "utf-8")
    assert file.find("p-1") is not None


@pytest.mark.parametrize("spoil", ["folder", "file", "link"])
async def test_where_the_file_cannot_be_used_only_seen_proposals_are_executed(
    room: Room, bot: MEWParticipant, ada: MEWParticipant, tmp_path: Path, spoil: str
) -> None:
    path = ExecutionFile(tmp_path, "demo", "git").path
    if spoil == "folder":
        path.parent.write_text("no folder")
    else:
        path.parent.mkdir()
        path.mkdir() if spoil == "file" else path.symlink_to(tmp_path / "elsewhere")
    git = await Lasting(room, tmp_path).start()
    unseen = await ada.send_accepted(request(["never-seen"]))
    assert await answer_to(unseen, room) == {"code": "proposal_not_seen"}
    call = bot.call("git/push", {"n": 1})
    await seen(call, ada, git)
    await ada.approve(call.id)
    assert str(await call) == "pushed 1"
    assert not (tmp_path / "elsewhere").exists()


async def test_what_cannot_be_noted_any_more_is_not_executed(
    room: Room, bot: MEWParticipant, ada: MEWParticipant, tmp_path: Path
) -> None:
    lasting = Lasting(room, tmp_path)
    git = await lasting.start()
    call, other = bot.call("git/push", {"n": 1}), bot.call("git/push", {"n": 2})
    await seen(other, ada, git)
    await ada.approve(call.id)
    await call
    file = lasting.file
    await until(lambda: '"answered":true' in file.read_text())
    file.unlink()
    file.mkdir()
    await ada.approve(other.id)
    with pytest.raises(ToolFailed, match=r"Not executed: it could not be noted in .*, so it might run twice"):
        await other
    assert lasting.target.executed == {call.id: 1}


def entry(n: int, *, proposer: str = "bot", answered: bool = False) -> executions.Executed:
    return executions.Executed(proposer, f"p-{n}", f"r-{n}", "ada", "call", answered)


def test_the_file_survives_what_a_killed_process_and_others_leave_in_it(tmp_path: Path) -> None:
    file = ExecutionFile(tmp_path, "demo", "git")
    file.write([entry(1), entry(2)])
    whole = file.path.read_bytes()
    for spoilt in (
        b'{"proposer":"bot","prop',
        b"\xff\xfe\n",
        b"[]\n",
        b"{}\n",
        b"7\n",
        b'{"proposer":7}\n',
        b"[" * 5000,
    ):
        file.path.write_bytes(whole + spoilt)
        other = ExecutionFile(tmp_path, "demo", "git")
        other.write([entry(3)])
        for reader in (file, other, ExecutionFile(tmp_path, "demo", "git")):
            assert [reader.find(f"p-{n}") for n in (1, 2, 3)] == [entry(1), entry(2), entry(3)]
    longest = executions.Executed(*['\U0001f600\x01"\\'[:4] * 64] * 4, "call")  # at most 256 characters each
    file.write([longest])
    assert ExecutionFile(tmp_path, "demo", "git").find(longest.proposal) == longest
    file.path.unlink()
    assert ExecutionFile(tmp_path, "demo", "git").find("p-1") is None
    assert ExecutionFile(tmp_path, "demo", "svn").path != file.path


def test_the_file_is_bounded_and_one_proposer_does_not_drive_out_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executions, "MAX_EXECUTED", 20)
    one, other = ExecutionFile(tmp_path, "demo", "git"), ExecutionFile(tmp_path, "demo", "git")
    one.write([entry(n) for n in range(5)])
    for n in range(100, 400, 2):
        one.write([entry(n, proposer="eve")])
        other.write([entry(n + 1, proposer="eve", answered=True)])
    fresh = ExecutionFile(tmp_path, "demo", "git")
    for reader in (one, other, fresh):
        assert all(reader.find(f"p-{n}") == entry(n) for n in range(5))
        assert reader.find("p-399") is not None and reader.find("p-100") is None
    assert len(fresh.path.read_text().splitlines()) <= 4 * 20 + 2
    assert fresh.path.stat().st_mode & 0o777 == 0o600


def test_lines_of_earlier_versions_are_read_and_tell_of_no_repeat(tmp_path: Path) -> None:
    file = ExecutionFile(tmp_path, "demo", "git")
    file.write([entry(1)])
    old = '{"proposer":"bot","proposal":"p-2","request":"r-2","by":"ada","call":"call","answered":false}\n'
    bad = [old.replace("p-2", f"p-{n}").replace("}", f',"{name}":{value}}}') for n, name, value in (
        (3, "same", 7), (4, "at", '"now"'), (5, "at", "true"), (6, "other", 1),
    )]  # fmt: skip
    file.path.write_text(file.path.read_text() + old + "".join(bad))
    fresh = ExecutionFile(tmp_path, "demo", "git")
    assert [fresh.find(f"p-{n}") for n in range(1, 7)] == [entry(1), entry(2), *[None] * 4]
    assert fresh.unanswered() == []


@pytest.mark.ruling("R35")
@pytest.mark.drawn
@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["execute", "answer", "settle", "open"]), st.integers(0, 5)), max_size=30
    )
)
def test_the_file_tells_what_was_executed_and_neither_answered_nor_found_out(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = ExecutionFile(Path(folder), "demo", "git")
        lost: dict[str, executions.Executed] = {}
        for what, n in steps:
            one = entry(n)._replace(same=f"s-{n}", at=float(n))
            if what == "execute":
                file.write([one])
                lost[one.request] = one
            elif what == "answer" and one.request in lost:
                file.write([one._replace(answered=True)])
                del lost[one.request]
            elif what == "settle":
                file.settle(one.request)
                lost.pop(one.request, None)
            elif what == "open":
                file = ExecutionFile(Path(folder), "demo", "git")
        assert {one.request: one for one in file.unanswered()} == lost


@pytest.mark.ruling("R35")
async def test_what_an_earlier_process_did_not_answer_is_repeated_only_by_a_decision(
    room: Room, bot: MEWParticipant, ada: MEWParticipant, tmp_path: Path
) -> None:
    lasting = Lasting(room, tmp_path)
    git = await lasting.start()
    calls = [bot.call("git/push", {"n": n}) for n in (1, 2, 3, 4)]
    await seen(calls[-1], ada, git)
    for call in (calls[0], calls[2]):  # one works, one fails: both are answered
        sent = await ada.approve(call.id)
        await answer_to(sent, room)
    lasting.target.may_end.clear()
    lost = [await ada.approve(calls[n].id) for n in (1, 3)]
    await until(lambda: lasting.target.executed.total() == 4)
    await until(lambda: lasting.file.read_text().count('"answered":true') == 2)
    running = await ada.send_accepted(request((), 2))  # the first one still runs, so its outcome is open
    await until(lambda: lasting.target.executed.total() == 5)
    git = await lasting.start()
    lasting.target.may_end.set()
    eve = await room.seat("eve")
    for n, first in zip((2, 4), lost, strict=True):
        sent = await eve.send_accepted(request((), n))
        assert await answer_to(sent, room) == {"code": "outcome_unknown", "request": first.id}
    for n in (1, 5):
        assert str(await eve.call("git/push", {"n": n})) == f"pushed {n}"
    git.resolve(lost[1].id, False, by="ada")
    assert str(await eve.call("git/push", {"n": 4})) == "pushed 4"
    await until(lambda: [one.request for one in lost_in(tmp_path)] == [lost[0].id])
    git = await lasting.start()
    git.unknown_calls.within = 0.0
    assert str(await eve.call("git/push", {"n": 2})) == "pushed 2"
    assert running.id in lasting.target.executed


def lost_in(folder: Path) -> list[executions.Executed]:
    return ExecutionFile(folder, "demo", "git").unanswered()


# --- ids of requests that are sent again ---


@pytest.mark.ruling("R6", "R32")
@pytest.mark.parametrize("running", [True, False])
async def test_a_decider_that_comes_back_and_sends_its_approval_again_changes_nothing(
    room: Room, target: Target, bot: MEWParticipant, ada: MEWParticipant, ben: MEWParticipant, running: bool
) -> None:
    call = bot.call("git/push", {"n": 1})
    await seen(call, ada, ben, target.git)
    await ada.send_accepted(request([call.id], id="r-1"))
    await until(lambda: target.executed[call.id])
    if not running:
        target.may_end.set()
        assert str(await call) == "pushed 1"
    await ada.stop()
    again = await room.seat("ada", None)
    await again.send_accepted(request([call.id], id="r-1"))
    await ben.chat("still there")
    target.may_end.set()
    assert str(await asyncio.wait_for(call, 10)) == "pushed 1" and target.executed == {call.id: 1}
    await until(lambda: again.ledger.calls.requests.get("r-1").decided)  # type: ignore[union-attr]
    for one in (ben, target.git, bot):
        known = one.proposals.get(call.id)
        assert known is not None and (known.state, known.failed) == ("answered", False)


@pytest.mark.ruling("R6", "R32", "R35")
async def test_an_approval_under_the_id_of_one_that_still_runs_gets_no_answer_of_that_one(
    room: Room, target: Target, bot: MEWParticipant, ada: MEWParticipant
) -> None:
    first, second = bot.call("git/push", {"n": 1}), bot.call("git/push", {"n": 2})
    await seen(second, ada, target.git)
    await ada.send_accepted(request([first.id], id="r-1"))
    await until(lambda: target.executed[first.id])
    await ada.stop()
    again = await room.seat("ada", None)
    await again.send_accepted(request([second.id], 2, id="r-1"))
    with pytest.raises(ToolFailed, match=r"Not executed: request r-1 of ada still runs.* under another id"):
        await asyncio.wait_for(second, 10)
    with pytest.raises(OutcomeUnknown, match=SENT_UNKNOWN):
        await asyncio.wait_for(first, 10)
    target.may_end.set()
    await until(lambda: len(room.sent("mcp/response")) == 2)
    assert target.executed == {first.id: 1}
    for one in (target.git, bot):
        known = [one.proposals.get(call.id) for call in (first, second)]
        assert [call and call.state for call in known] == ["unknown", "answered"]


@pytest.mark.ruling("R6")
async def test_a_request_that_is_sent_again_while_it_runs_is_executed_once(
    room: Room, target: Target, ada: MEWParticipant
) -> None:
    own = request([], id="r-1")
    await ada.send_accepted(own)
    await until(lambda: target.executed["r-1"])
    await ada.stop()
    again = await room.seat("ada", None)
    await again.send_accepted(own)
    other = await again.send_accepted(request([], 2))
    await until(lambda: target.executed[other.id])
    target.may_end.set()
    await until(lambda: len(answers(room)) == 2)
    assert answers(room) == {"r-1": "pushed 1", other.id: "pushed 2"}
    assert target.executed == {"r-1": 1, other.id: 1} and len(room.sent("mcp/response")) == 2


@pytest.mark.ruling("R6", "R32")
@pytest.mark.parametrize("running", [True, False])
async def test_a_late_approval_of_a_proposal_whose_id_was_taken_anew_does_not_run_it_again_as_an_edit(
    room: Room, target: Target, bot: MEWParticipant, ada: MEWParticipant, ben: MEWParticipant, running: bool
) -> None:
    draft = {"kind": "mcp/proposal", "id": "p-1", "to": ["git"]}
    await bot.send_accepted({**draft, "payload": request((), 1)["payload"]})
    await until(lambda: all(one.proposals.get("p-1") for one in (target.git, ada, ben)))
    first = await ada.send_accepted(request(["p-1"], 1))
    await until(lambda: target.executed["p-1"])
    if not running:
        target.may_end.set()
        await answer_to(first, room)
    await bot.stop()
    again = await room.seat("bot", None)
    await again.send_accepted({**draft, "payload": request((), 2)["payload"]})
    late = await ben.send_accepted(request(["p-1"], 1))  # what ben saw before
    target.may_end.set()
    await answer_to(late, room)
    assert list(answers(room).items()) == [
        (first.id, "pushed 1"),
        (late.id, {"code": "already_fulfilled", "by": "ada", "request": first.id}),
    ]
    assert target.executed == {"p-1": 1}
    await until(lambda: (known := again.proposals.get("p-1")) is not None and known.failed)
    await again.stop()
    third = await room.seat("bot", None)
    await third.send_accepted(
        {**draft, "payload": request((), 1)["payload"]}
    )  # it asks for the same once more
    sent = await ben.send_accepted(request(["p-1"], 1))
    assert await answer_to(sent, room) == "pushed 1" and target.executed == {"p-1": 2}
