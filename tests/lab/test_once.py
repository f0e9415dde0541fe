"""Several people, policies and programs decide the same proposals: each is executed once, and all are told the truth."""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from looking import eventually

from mew_lab.cli.join import obey
from mew_lab.errors import MewError, NotApproved, ProposalRejected
from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.policies import Decision, Policy
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect
from mew_lab.lab.loop import the_loop
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.request_server import ASKED

pytestmark = pytest.mark.ruling("R32")

RACES = [
    pytest.param(20, id="short"),
    pytest.param(1000, id="long", marks=[pytest.mark.slow, pytest.mark.timeout(1800)]),
]
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
def test_two_labs_a_policy_a_program_and_a_terminal_execute_each_proposal_once(
    lab: Lab, joined: Callable[[str], Lab], calls: int
) -> None:
    executed: Counter[str] = Counter()

    @lab.tool
    def count(n: int) -> int:
        "Counts."
        request = ASKED.get()
        assert request is not None
        executed.update(request.correlation_id)
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
        for words in ("", f"digest={card.digest[:8]}"):
            try:
                obey(term, f"/approve {card.id} {words}")
            except NotApproved:
                continue
            except MewError as fault:
                told.append(str(fault))
            return

    term.decisions.subscribe(type_approvals)
    try:
        pending = [bot.call("notebook/count", n=n) for n in range(calls)]
        assert [int(str(one.result(60))) for one in pending] == list(range(calls))
    finally:
        the_loop().run(program.stop(), timeout=10, doing="leaving")
    assert executed == Counter(one.id for one in pending)
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


async def _resilient(bot: MEWParticipant) -> str:
    return bot.call("notebook/add", {"a": 3, "b": 4}, resilient=True).id


def _card(lab: Lab, id: str) -> Card:
    [card] = eventually(lambda: [one for one in lab.decisions.pending() if one.id == id])
    return card


def _decided(lab: Lab, id: str) -> Card:
    return next(one for one in lab.decisions.decided() if one.id == id)
