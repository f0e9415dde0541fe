"""What a person found out about a call reaches its executor, in the lab's process and in another one. R35, R42."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mew_lab.errors import MewError, OutcomeUnknown
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import up
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.tools import unknown_outcome_error

from ..conftest import examples
from .looking import eventually
from .test_unknown_after_restart import Process

pytestmark = [pytest.mark.ruling("R35", "R42"), pytest.mark.timeout(120)]


class Till:
    """The tools of an executor: `pay` counts what it paid, and loses the answers that it is told to lose."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.loses: set[int] = set()

    def offer(self, participant: MEWParticipant) -> None:
        async def pay(params: Any) -> dict[str, Any]:
            self.paid.append(n := params["arguments"]["n"])
            if n in self.loses:
                raise unknown_outcome_error("the till ended")
            return {"content": [{"type": "text", "text": "paid"}]}

        participant.register_method("tools/call", pay)


class Shop:
    """A lab with the same executor twice: `near` in its process, `far` over a socket with a file of its own."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self.tills = {"near": Till(), "far": Till()}
        self.clerk = lab.join("clerk", can="proposer")
        lab.join("shop", can="tool")
        self.reporters = {
            "human": lab.me,
            "eve": lab.join("eve", can=[{"kind": "chat"}]),
            "aide": lab.join("aide", can=[{"kind": "mcp/request", "to": "shop"}]),
        }
        lab.enrol("far", can="tool")
        self.token = lab.token_file("far").read_text().strip()
        self.far: MEWParticipant | None = None
        self.admitted = 0  # how often the executor elsewhere was
        self.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.lab.loop.run(work, timeout=20, doing="a test")

    def start(self) -> None:
        """Starts both executors, again where they ran before."""
        if "near" in self.lab.seats:
            self.lab.leave("near")
            self.run(self.far.stop())
        near = self.lab.join("near", can="tool")
        self.lab.loop.call(lambda: self.tills["near"].offer(near.participant))
        self.run(self._start_far())
        eventually(lambda: {"near", "far"} <= set(self.lab.me.participant.client.participants))

    async def _start_far(self) -> None:
        client = MEWClient(self.lab.url, space="demo", token=self.token, reconnect_delay=0.01)
        self.far = MEWParticipant(client, state=lambda: self.folder)
        self.tills["far"].offer(self.far)
        self.far.on_ready(self._count)
        await self.far.start()

    def _count(self, welcome: object) -> None:
        self.admitted += 1

    def break_link(self) -> None:
        """Breaks the connection of the executor elsewhere, and waits until it is back."""
        lab, admitted = self.lab, self.admitted
        gateway = lab.host.gateway
        peer = eventually(lambda: lab.loop.call(lambda: gateway.holder("demo", "far")))
        lab.loop.call(lambda: peer.close(1012, "a test"))
        eventually(lambda: self.admitted > admitted and "far" in lab.me.participant.client.participants)

    def lose(self, n: int) -> dict[str, str]:
        """A call that is proposed and approved, and whose answer is lost; the ids of its requests."""
        sent: dict[str, str] = {}
        me = self.lab.me.participant
        for name, till in self.tills.items():
            till.loses.add(n)
            pending = self.clerk.propose(f"{name}/pay", {"n": n})
            eventually(lambda pending=pending: me.proposals.get(pending.id))
            sent[name] = self.run(me.approve(pending.id)).id
            eventually(lambda pending=pending: pending.state == "unknown")
            till.loses.discard(n)
        return sent

    def repeat(self, n: int) -> dict[str, str]:
        """What each executor answers to the same call by the human's own right."""
        outcomes: dict[str, str] = {}
        for name in self.tills:
            try:
                outcomes[name] = self.lab.call(f"{name}/pay", {"n": n}).result(20).text
            except OutcomeUnknown as unknown:
                assert "Not executed again" in str(unknown)
                outcomes[name] = "refused"
        return outcomes


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(up("demo"), tmp_path / "state")
    yield shop
    if shop.far is not None:
        shop.run(shop.far.stop())


OWN = ("human", "its own")
REPORTS = [("human", "shop"), ("eve", "its own"), ("eve", "shop"), ("aide", "its own"), ("aide", "shop")]
MOVES = st.sampled_from(["", "restart", "break"])
ROUNDS = st.tuples(
    st.lists(st.tuples(st.sampled_from(REPORTS), st.booleans(), MOVES, MOVES), min_size=1, max_size=3),
    st.tuples(st.just(OWN), st.booleans(), MOVES, MOVES),
)


@pytest.mark.drawn
@pytest.mark.timeout(500)
def test_after_a_report_an_executor_elsewhere_does_what_one_of_the_labs_process_does(shop: Shop) -> None:
    numbers = count()

    def move(how: str) -> None:
        if how:
            (shop.start if how == "restart" else shop.break_link)()

    def report(requests: dict[str, str], who: str, to: str, happened: bool) -> None:
        send = shop.reporters[who].participant.report_outcome
        for name, request in requests.items():
            stated = name if to == "its own" else to
            with contextlib.suppress(MewError):
                shop.run(send(request, stated, happened=happened, note="looked"))

    @settings(
        max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(ROUNDS)
    def check(rounds: Any) -> None:
        n = next(numbers)
        requests = shop.lose(n)
        others, own = rounds
        for how, happened, before, after in (*others, own):  # only the last tells of its own target, and may
            move(before)
            report(requests, *how, happened)
            move(after)
            outcome = "paid" if how == OWN else "refused"
            assert shop.repeat(n) == {"near": outcome, "far": outcome}
        assert shop.tills["near"].paid == shop.tills["far"].paid

    check()


@pytest.mark.sampled
@pytest.mark.parametrize("fate", ["runs on", "starts again", "its gateway starts again"])
def test_a_bridge_elsewhere_pays_again_once_a_person_said_that_it_did_not_pay(
    tmp_path: Path, fate: str
) -> None:
    lab = up("demo")
    bank = Process(lab, tmp_path)
    bank.start()
    try:
        clerk = lab.join("clerk", can="proposer")
        bank.flag("dies").touch()
        lost = clerk.propose("bank/pay", {"amount": 7})
        eventually(lambda: any(card.id == lost.id for card in lab.decisions.pending()))
        lab.approve(lab.proposals()[0])
        eventually(lambda: lost.state == "unknown")
        eventually(lambda: "bank" not in lab.me.participant.client.participants)
        bank.flag("dies").unlink()
        if fate != "starts again":
            bank.start()
            with pytest.raises(OutcomeUnknown, match="Not executed again"):
                lab.call("bank/pay", {"amount": 7}).result(20)
        lab.resolve(lost, happened=False, note="the account shows nothing")
        if fate == "its gateway starts again":
            path = lab.host.journal.path
            lab.down()
            bank.kill_only()
            lab = bank.lab = up(resume=path)
            bank.token, bank.url = lab.token_file("bank").absolute(), lab.url
            bank.start()
        elif fate == "starts again":
            bank.start()
        assert lab.call("bank/pay", {"amount": 7}).result(20).text == "paid"
        assert bank.paid == ["7", "7"]
    finally:
        bank.kill_only()


def test_a_request_that_its_sender_cancels_while_the_executor_asks_is_not_executed(shop: Shop) -> None:
    n = 5
    shop.lose(n)
    me = shop.lab.me.participant
    payload: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 77,
        "method": "tools/call",
        "params": {"name": "pay", "arguments": {"n": n}},
    }
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}}

    async def both() -> str:
        me.client.post(
            {"kind": "mcp/request", "to": ["near"], "payload": cancel | {"params": {"requestId": 1}}}
        )
        sent = me.client.post({"kind": "mcp/request", "to": ["near"], "payload": payload})
        me.client.post({"kind": "mcp/request", "to": ["near"], "payload": cancel})
        return sent.id

    id = shop.run(both())
    requests: Callable[[str], Any] = me.ledger.calls.requests.get
    answer = eventually(lambda: (call := requests(id)) is not None and call.response).payload
    assert "error" in answer and shop.tills["near"].paid == [n]
