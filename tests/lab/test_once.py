"""Several people, policies and programs decide the same proposals: each is executed once, and all are told the truth."""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from mew_lab.cli.join import obey
from mew_lab.errors import MewError, NotApproved, ProposalRejected
from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.policies import Decision, Policy
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect
from mew_lab.lab.loop import the_loop
from mew_lab.lab.mcp_access import McpSeat
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.request_server import ASKED

from .looking import call, eventually, propose

pytestmark = pytest.mark.ruling("R32")

RACES = [
    pytest.param(20, id="short"),
    pytest.param(1000, id="long", marks=[pytest.mark.slow, pytest.mark.timeout(1800)]),
]
AT_ONCE = 50
LOST = re.compile(
    r"already approved by \w+; not executed|\w+ approved it before|(?:fulfilled|being decided) already by \w+"
)


@pytest.fixture
def joined(lab: Lab) -> Callable[[str], Lab]:
    """Opens a lab of another person over a socket."""

    def join(name: str) -> Lab:
        lab.enrol(name, "human")
        return connect(lab.url, space=lab.space, token_file=lab.token_file(name), name=name)

    return join


@pytest.mark.req("C-22")
@pytest.mark.parametrize("calls", RACES)
def test_two_labs_a_policy_a_program_a_terminal_and_gates_execute_each_proposal_once(
    lab: Lab, joined: Callable[[str], Lab], calls: int
) -> None:
    executed: Counter[str] = Counter()
    by_right: Counter[int] = Counter()

    @lab.tool
    def count(n: int) -> int:
        "Counts."
        request = ASKED.get()
        executed.update(request.correlation_id)
        if not request.correlation_id:
            by_right[n] += 1
        return n

    ada, ben, term = joined("ada"), joined("ben"), joined("term")
    bot = lab.join("bot")
    lab.enrol("prog", "human")
    program = MEWParticipant(
        MEWClient(lab.url, space=lab.space, token=lab.token_file("prog").read_text().strip())
    )
    told: list[str] = []
    tasks: set[asyncio.Task[None]] = set()

    async def approve(id: str) -> None:
        try:
            await program.approve(id)
        except MewError as fault:
            told.append(str(fault))

    def decide(proposal: Any) -> None:
        task = asyncio.ensure_future(approve(proposal.id))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def start() -> None:
        program.on_mcp_proposal(decide)
        await program.start()

    the_loop().run(start(), timeout=10, doing="joining")
    ada.decide = Policy.approve()
    ben.decide = Policy.approve()

    def type_approvals(card: Card) -> None:
        if card.is_open:
            threading.Thread(target=answer, args=(card,), daemon=True).start()

    def answer(card: Card) -> None:
        # A card that is still being read has no digest; then the second line is the yes.
        for words in ("", card.digest and f"digest={card.digest[:8]}"):
            try:
                obey(term, f"/approve {card.id} {words}")
            except NotApproved:
                continue
            except MewError as fault:
                told.append(str(fault))
            return

    term.decisions.subscribe(type_approvals)
    # A gate proposes what its client may not do, and sends by right what it may; it decides nothing of others.
    shares = [range(calls, calls + calls // 2), range(0, calls, 4)]
    gates = [lab.serve_mcp("coder"), lab.serve_mcp("trusted", can=[{"kind": "mcp/request"}])]
    try:
        with ThreadPoolExecutor() as clients:
            work = [clients.submit(asyncio.run, use(*one)) for one in zip(gates, shares, strict=True)]
            pending = []
            for first in range(0, calls, AT_ONCE):
                some = [bot.call("notebook/count", n=n) for n in range(first, min(first + AT_ONCE, calls))]
                assert [int(str(one.result(60))) for one in some] == list(range(first, first + len(some)))
                pending += some
            assert [one.result() for one in work] == [list(share) for share in shares]
    finally:
        the_loop().run(program.stop(), timeout=10, doing="leaving")
    proposals = lab.log.proposals()
    assert executed == Counter(proposals["id"]) and len(executed) == calls + calls // 2
    assert set(proposals["id"]) > {one.id for one in pending} and set(proposals["from"]) == {"bot", "coder"}
    assert by_right == Counter(shares[1])
    for other in (ada, ben, term):
        cards = eventually(
            lambda other=other: [
                card
                for card in other.decisions.decided()
                if card.state == "done" and "not answered" not in card.outcome
            ][-min(calls, 200) :]
        )
        for card in cards:
            lost = card.sent and card.by.partition(" ")[0] != other.me.name
            assert not lost or "; not executed" in card.outcome, card
    assert not [words for words in told if not LOST.search(words)]
    eventually(lambda: all(finding.rule != "approved-twice" for finding in lab.log.diagnose()))


async def use(gate: McpSeat, share: range) -> list[int]:
    """What the official client of a gate is answered, with several calls at once."""
    headers = {"Authorization": f"Bearer {gate.token_file.read_text().strip()}"}
    numbers, answers = iter(share), dict[int, int]()
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as web,
        Client(streamable_http_client(gate.url, http_client=web)) as client,
    ):

        async def call() -> None:
            for n in numbers:
                result = await client.call_tool("notebook_count", {"n": n})
                assert not result.is_error, result
                answers[n] = int(result.content[0].text)

        await client.list_tools()
        await asyncio.gather(*(call() for _ in range(4)))
    return [answers[n] for n in share]


def test_a_resilient_proposal_stays_on_every_card_and_only_a_second_yes_approves_it(
    lab: Lab, adding: Callable[..., Any], joined: Callable[[str], Lab]
) -> None:
    ada, ben = joined("ada"), joined("ben")
    bot = lab.join("bot")
    pending = bot.call("notebook/add", a=1, b=2)
    firm = bot.run(_resilient(bot.participant))
    card = _card(ada, firm)
    ada.reject(firm, "unsafe")
    ada.reject(pending.id, "unsafe")
    with pytest.raises(ProposalRejected, match="rejected by ada: unsafe"):
        pending.result(10)
    eventually(lambda: [one for one in ben.decisions.decided() if one.id == pending.id])
    for other in (lab, ada, ben):
        eventually(lambda other=other: _card(other, firm).rejected)
        card = _card(other, firm)
        assert (card.is_open, card.rejected) == (True, "rejected by ada; still asked for")
        assert "  rejected by ada; still asked for" in str(other.proposals())
        [gone] = [one for one in other.decisions.decided() if one.id == pending.id]
        assert (gone.state, gone.by, gone.outcome) == ("rejected", "ada", "unsafe")
    judged: list[str] = []

    def judge(card: Card) -> Decision:
        judged.append(card.id)
        return Decision("approve")

    ben.decide = Policy("all", judge, text="approves all")  # what was rejected is no matter of a policy
    assert judged == [firm] and _card(ben, firm).is_open
    ben.decide = None
    [entry] = ben.proposals()
    with pytest.raises(
        MewError, match=r"not approved, because it was rejected by ada; still asked for.*despite"
    ):
        ben.approve(entry)
    with pytest.raises(NotApproved):
        obey(ben, f"/approve {firm}")
    assert obey(ben, f"/approve {firm} despite=rejected").startswith("Approved: ")
    eventually(lambda: lab.decisions.decided() and _decided(lab, firm).state == "done")
    assert _decided(lab, firm).by == "ben"
    with pytest.raises(MewError, match="rejected"):  # and what was withdrawn is never approved
        ben.approve(pending.id, despite="rejected")


def test_what_a_rejection_alone_has_ended_is_approved_by_a_click_that_says_so_with_the_gates_of_every_approval(
    lab: Lab, adding: Callable[..., Any], joined: Callable[[str], Lab]
) -> None:
    ada = joined("ada")
    plain, given_up = _proposed(lab, 1), _proposed(lab, 2)
    for id in (plain, given_up):
        _card(ada, id)
        ada.reject(id, "unsafe")
    lab.seats["bot"].run(lab.seats["bot"].participant.withdraw(given_up))
    card, gone = (eventually(lambda id=id: _decided(lab, id)) for id in (plain, given_up))
    assert (card.state, card.by, card.rejected, card.can_be_approved) == (
        *("rejected", "ada", "rejected by ada"),
        True,
    )
    assert eventually(lambda: not _decided(lab, given_up).rejected)
    assert lab.decisions.rows(given_up, gone.digest) is None
    assert lab.decisions.pending() == [], "what waits for nobody's decision is no open card"

    def click(*despite: str) -> str:
        press = lab.decisions.click("v")
        return lab.decisions.decide(
            plain, digest=card.digest, decision="approve", click=press, despite=despite
        ).result(10)

    with pytest.raises(NotApproved, match="has not shown it yet"):
        click("rejected")
    assert not lab.decisions.record_shown(plain, view="v", digest="0" * 64)
    assert lab.decisions.record_shown(plain, view="v", digest=card.digest)
    refused = lab.decisions.refusal(
        plain,
        digest=card.digest,
        decision="approve",
        click=lab.decisions.click("w"),
        despite=("rejected",),
    )
    assert "has not shown it yet" in refused
    with pytest.raises(MewError, match="rejected already by ada"):
        click()
    assert click("rejected", "unknown").startswith("Approved: ")
    done = eventually(lambda: (found := _decided(lab, plain)).state == "done" and found)
    assert (done.by, done.rejected, done.on_screen is not None) == ("human", "", True)
    assert done.decided_at > card.decided_at
    with pytest.raises(MewError, match="fulfilled already by human"):
        click("rejected")
    [note] = [one for one in lab.log.verify().consents.consented if one.proposal == plain]
    assert note.receipt is not None and note.receipt.note.despite == ("rejected",)
    assert "1 despite=rejected" in str(lab.log.verify())


def test_the_receipt_of_a_space_elsewhere_says_that_a_rejection_was_disregarded(
    lab: Lab, adding: Callable[..., Any], joined: Callable[[str], Lab]
) -> None:
    ada, ben = joined("ada"), joined("ben")
    id = _proposed(lab, 1)
    _card(ada, id)
    ada.reject(id)
    eventually(lambda: [one for one in ben.decisions.decided() if one.id == id])
    with pytest.raises(NotApproved, match="this is what would be sent"):
        ben.approve(id, despite="rejected")
    ben.approve(id, despite="rejected")
    [one] = eventually(lambda: lab.log.verify().consents.reported)
    assert one.receipt is not None and one.receipt.note.despite == ("rejected",)


def _proposed(lab: Lab, n: int) -> str:
    """A proposal whose proposer neither goes on asking nor gives up."""
    return propose(lab, call(a=n, b=4)).id


async def _resilient(bot: MEWParticipant) -> str:
    return bot.call("notebook/add", {"a": 3, "b": 4}, resilient=True).id


def _card(lab: Lab, id: str) -> Card:
    [card] = eventually(lambda: [one for one in lab.decisions.pending() if one.id == id])
    return card


def _decided(lab: Lab, id: str) -> Card:
    return next(one for one in lab.decisions.decided() if one.id == id)


@pytest.mark.ruling("R35")
def test_the_card_of_one_that_was_late_says_that_nothing_is_known_once_the_executor_is_gone(
    lab: Lab, joined: Callable[[str], Lab]
) -> None:
    ada = joined("ada")
    lab.enrol("git", "tool")
    git = MEWClient(lab.url, space=lab.space, token=lab.token_file("git").read_text().strip())
    the_loop().run(git.connect(), timeout=10, doing="joining")  # it answers the first request alone
    bot = lab.join("bot")
    pending = bot.call("git/push")
    card = _card(ada, pending.id)
    ada.approve(next(one for one in ada.proposals() if one.id == pending.id))
    eventually(lambda: _decided(lab, pending.id).by == "ada")
    late = {"method": "tools/call", "params": {"name": "push", "arguments": {}}, "jsonrpc": "2.0", "id": 1}
    lab.send("mcp/request", late, to="git", correlation_id=card.id)
    eventually(lambda: "already approved by ada; not executed" in _decided(lab, pending.id).outcome)
    first = lab.me.participant.proposals.get(pending.id).fulfilment  # type: ignore[union-attr]
    answer = {"kind": "mcp/response", "correlation_id": [first], "payload": {"result": {"content": []}}}
    the_loop().run(git.send(answer), timeout=10, doing="answering")
    eventually(lambda: _decided(lab, pending.id).state == "done")
    the_loop().run(git.disconnect(), timeout=10, doing="leaving")
    end = "was sent as you all the same: no answer came"
    eventually(lambda: end in _decided(lab, pending.id).outcome)
    assert _decided(lab, pending.id).state == "done"
