"""A payment that ran when its kernel was killed is still unknown in the lab that goes on, and at the bridge. R35."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.errors import ConfigError, NotApproved, OutcomeUnknown
from mew_lab.lab.decisions.policies import Policy
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect, up
from mew_lab.lab.resuming import PastCalls
from mew_lab.log.ledger_rows import LedgerPass
from mew_lab.log.reading import read_journal
from mew_lab.protocol.envelope import compact
from mew_lab.sdk.tools import unknown_outcome_error
from mew_lab.space.events import Record

from ..conftest import examples
from .looking import eventually

pytestmark = [pytest.mark.ruling("R35"), pytest.mark.timeout(120)]

ROOT = Path(__file__).resolve().parents[2]
TOOL = """
import asyncio, json, sys
from pathlib import Path
import mew_lab

async def pay(amount: int) -> str:
    with open(sys.argv[1], "a") as account:
        account.write(f"{amount}\\n")
    await asyncio.sleep(0 if amount == 1 else 3600)
    return "paid"

lab = mew_lab.up("demo")
bank = lab.join("bank", can="tool")
lab.loop.call(lambda: bank.participant.tools.add(pay))
lab.join("clerk", can="proposer")
ids = {amount: lab.call("bank/pay", {"amount": amount}).id for amount in (1, 7, 8)}
lab.call("bank/pay", {"amount": 1}).result(20)
while len(Path(sys.argv[1]).read_text().split()) < 4:
    pass
print(json.dumps([str(lab.host.journal.path), ids]), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def killed(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """The journal of a space whose kernel was killed while it paid 7 and 8, and the ids of the requests by amount."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MEW_LAB_")}
    with subprocess.Popen(
        [sys.executable, "-c", TOOL, str(tmp_path / "account")],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment | {"PYTHONPATH": str(ROOT)},
        text=True,
    ) as kernel:
        try:
            path, ids = json.loads(kernel.stdout.readline())
        finally:
            kernel.send_signal(signal.SIGKILL)
    return Path(path), ids


def test_a_payment_that_ran_when_its_kernel_was_killed_is_not_made_again_unseen(
    killed: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    path, ids = killed
    ended = list(read_journal(path))[-1].now.timestamp()
    for again in range(2):  # what was resumed is resumed once more
        lab = up(resume=path, port=None)
        known = {call.request.id: call.since for call in lab.me.participant.unknown_calls}
        assert known == {ids[amount]: pytest.approx(ended, abs=0.01) for amount in ("7", "8")}, again
        if not again:
            lab.down()
    lab.decide = Policy.approve()
    bank, clerk = lab.join("bank", can="tool"), lab.join("clerk", can="proposer")
    paid: list[int] = []

    def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    lab.loop.call(lambda: bank.participant.tools.add(pay))
    assert lab.call("bank/pay", {"amount": 1}).result(20).text == "paid"
    with pytest.raises(OutcomeUnknown, match="Not executed again: human sent the same call before"):
        lab.call("bank/pay", {"amount": 7}).result(20)
    proposed = clerk.propose("bank/pay", {"amount": 7})
    [card] = eventually(lambda: [one for one in lab.decisions.pending() if one.id == proposed.id])
    assert card.repeats.startswith(f"human sent the same call before (request {ids['7'][:12]}")
    assert f"since {datetime.fromtimestamp(ended):%Y-%m-%d %H:%M}" in card.repeats
    with pytest.raises(NotApproved, match=r"despite=.unknown"):
        lab.approve(lab.proposals()[0])
    assert paid == [1]
    lab.resolve(ids["7"], happened=False, note="the account shows nothing")
    assert eventually(lambda: proposed.state == "answered") and paid == [1, 7]
    lab.down()
    lab = up(resume=path, port=None)
    assert [call.request.id for call in lab.me.participant.unknown_calls] == [ids["8"]]
    lab.down()


# --- settings ---


def idempotent_shop(lab: Lab) -> list[int]:
    """A seat with a tool that calls itself idempotent and loses its first answer; returns what it did."""
    shop, did = lab.join("shop", can="tool"), list[int]()

    async def answer(params: Any) -> dict[str, Any]:
        did.append(params["arguments"]["n"])
        if len(did) == 1:
            raise unknown_outcome_error("the shop burned down")
        return {"content": [{"type": "text", "text": "done"}]}

    def offer() -> None:
        shop.participant.tools.add(lambda n: "", name="put", annotations={"idempotentHint": True})
        shop.participant.register_method("tools/call", answer)

    lab.loop.call(offer)
    with pytest.raises(OutcomeUnknown, match="the shop burned down"):
        lab.call("shop/put", {"n": 1}).result(20)
    return did


@pytest.mark.parametrize("strict", [False, True])
def test_a_lab_that_is_strict_repeats_no_idempotent_call_either(strict: bool) -> None:
    lab = up("demo", journal=None, port=None, strict_unknown=strict)
    did = idempotent_shop(lab)
    if strict:
        with pytest.raises(OutcomeUnknown, match="Not executed again"):
            lab.call("shop/put", {"n": 1}).result(20)
    else:
        assert lab.call("shop/put", {"n": 1}).result(20).text == "done"
    assert did == ([1] if strict else [1, 1])


def test_the_time_in_which_an_equal_call_is_a_repeat_is_a_setting(tmp_path: Path) -> None:
    lab = up("demo", strict_unknown=True, repeats_within=0)
    assert idempotent_shop(lab) == [1]
    assert lab.call("shop/put", {"n": 1}).result(20).text == "done"
    far = connect(
        lab.url, space="demo", token_file=lab.token_file(), as_id="far", name="far", repeats_within=7.5
    )
    assert (far.me.participant.unknown_calls.within, far.me.participant.strict_unknown) == (7.5, False)
    words = ["python", str(Path(__file__).with_name("paying_server.py")), str(tmp_path / "account")]
    for name, options, expected in (
        ("a", {}, (True, 0.0)),
        ("b", {"strict_unknown": False}, (False, 0.0)),
        ("c", {"repeats_within": 9}, (True, 9.0)),
    ):
        bridge = lab.bridge(name, words, **options).participant  # type: ignore[arg-type]
        assert (bridge.strict_unknown, bridge.unknown_calls.within) == expected
    with pytest.raises(ConfigError, match="Cannot set repeats_within to -1: it is a number of seconds"):
        lab.bridge("d", words, repeats_within=-1)


@pytest.mark.parametrize(
    ("settings_of_file", "expected"),
    [("{}", (True, 5.0)), ("{strictUnknown: false, repeatsWithin: 7500}", (False, 7.5))],
)
def test_an_agent_of_tools_and_its_servers_take_these_settings_from_their_file_else_from_the_lab(
    tmp_path: Path, settings_of_file: str, expected: tuple[bool, float]
) -> None:
    lab = up("demo", journal=None, strict_unknown=True, repeats_within=5)
    words = [str(Path(__file__).with_name("paying_server.py")), str(tmp_path / "account")]
    tool = "{name: explain, description: explains, prompt: 'Explain {term}', parameters: {type: object, properties: {term: {type: string}}}}"
    (tmp_path / "clerk.yaml").write_text(
        f"metadata: {{name: clerk, version: 1.0.0, tools: [{tool}]}}\nsettings: {settings_of_file}\n"
        f"mcpServers: {{bank: {{type: stdio, command: python, args: {json.dumps(words)}}}}}\n"
    )
    lab.tools_agent(tmp_path / "clerk.yaml")
    for name in ("clerk", "bank"):
        executor = lab.seats[name].participant
        assert (executor.strict_unknown, executor.unknown_calls.within) == expected, name


@pytest.mark.parametrize("bad", [-1, float("nan"), "1 h", None, True])
def test_a_time_that_is_no_number_of_seconds_is_refused(bad: Any) -> None:
    with pytest.raises(ConfigError, match="it is a number of seconds"):
        up("demo", journal=None, port=None, repeats_within=bad)


# --- a bridge in a process of its own ---


class Process:
    """`mew-lab bridge` with the bank, in a process of its own, with a folder for state."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        lab.enrol("bank", can="tool")
        self.token, self.url = lab.token_file("bank").absolute(), lab.url
        self.running: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> None:
        words = ["bridge", self.url, "--space", "demo", "--as", "bank", "--token-file", str(self.token)]
        server = ["--", sys.executable, str(Path(__file__).with_name("paying_server.py"))]
        state = os.environ | {"XDG_STATE_HOME": str(self.folder / "state"), "PYTHONPATH": str(ROOT)}
        (self.folder / "bank").mkdir(exist_ok=True)
        self.running = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "mew_lab.cli",
                *words,
                *options,
                *server,
                str(self.folder / "bank" / "account"),
            ],
            cwd=self.folder / "bank",
            env=state,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # A process loads its libraries first, which takes long on a busy machine.
        eventually(lambda: "bank" in self.lab.me.participant.client.participants, within=60.0)

    def kill_only(self) -> None:
        """Kills the process; nobody waits until the space knows it."""
        if self.running is not None:
            self.running.kill()
            self.running.wait(10)

    def kill(self) -> None:
        if self.running is not None:
            self.kill_only()
            eventually(lambda: "bank" not in self.lab.me.participant.client.participants)

    @property
    def paid(self) -> list[str]:
        account = self.folder / "bank" / "account"
        return account.read_text().split() if account.exists() else []

    @property
    def executions(self) -> Path:
        [file] = (self.folder / "state" / "mew-lab" / "executions").iterdir()
        return file

    def flag(self, name: str) -> Path:
        return self.folder / "bank" / name


@pytest.fixture
def bank(lab: Lab, tmp_path: Path) -> Iterator[Process]:
    process = Process(lab, tmp_path)
    process.start()
    yield process
    process.flag("hangs").unlink(missing_ok=True)
    process.kill()


@pytest.mark.parametrize("fate", ["killed", "server died"])
@pytest.mark.sampled(3)
def test_a_bridge_that_starts_again_repeats_no_approved_call_that_it_did_not_answer(
    lab: Lab, bank: Process, fate: str
) -> None:
    bank.flag("dies" if fate == "server died" else "hangs").touch()
    clerk = lab.join("clerk", can="proposer")

    def approve(amount: int) -> Any:
        pending = clerk.propose("bank/pay", {"amount": amount})
        eventually(lambda: any(card.id == pending.id for card in lab.decisions.pending()))
        lab.approve(lab.proposals()[0])
        return pending

    lost = approve(7)
    eventually(lambda: bank.paid == ["7"])
    if fate == "killed":
        bank.kill()
    eventually(lambda: lost.state == "unknown")
    eventually(lambda: "bank" not in lab.me.participant.client.participants)
    for flag in ("dies", "hangs"):
        bank.flag(flag).unlink(missing_ok=True)
    bank.start()
    assert approve(8).result(20).text == "paid"
    eventually(lambda: '"answered":true' in bank.executions.read_text())  # it is noted behind the answer
    bank.kill()
    bank.start()
    with pytest.raises(
        OutcomeUnknown, match="Not executed again: human sent the same call before, as "
    ) as caught:
        lab.call("bank/pay", {"amount": 7.0}).result(20)
    request = lab.log.proposals().set_index("id").loc[lost.id]["request"]
    assert caught.value.data == {"code": "outcome_unknown", "request": request}
    for amount in (8, 9):  # one that was answered, and one that was never sent
        assert lab.call("bank/pay", {"amount": amount}).result(20).text == "paid"
    assert bank.paid == ["7", "8", "8", "9"]
    bank.kill()
    bank.start("--strict-unknown", "--repeats-within", "0")
    assert lab.call("bank/pay", {"amount": 7.0}).result(20).text == "paid"
    again = clerk.propose("bank/pay", {"amount": 7})
    eventually(lambda: any(card.id == again.id for card in lab.decisions.pending()))
    lab.approve(lab.proposals()[0], despite="unknown")  # somebody decides
    assert again.result(20).text == "paid" and bank.paid[-1] == "7"


# --- the reader of the journal, against the words of the ruling ---

START = datetime(2026, 1, 1, tzinfo=UTC)


class Told(NamedTuple):
    """What becomes of one call: the moment that it is sent, and then what is said of it at later moments."""

    to: tuple[str, ...]
    news: Sequence[str]


CALLS = st.lists(
    st.builds(
        Told,
        st.sampled_from([("bank",), ("bank", "shop")]),
        st.lists(st.sampled_from(["answer", "lost", "resolve", "resume", "leave"]), max_size=4),
    ),
    max_size=4,
)


@pytest.mark.drawn
@settings(max_examples=examples(150), deadline=None)
@given(CALLS)
def test_of_a_journal_those_calls_are_unknown_of_which_nothing_tells_the_outcome(calls: list[Told]) -> None:
    past, records = PastCalls(), list[Record]()

    def note(event: str, raw: Any = None, detail: Any = "", who: str = "human") -> float:
        at, text = len(records), None if raw is None else compact(raw)
        now = START + timedelta(seconds=at)
        told = detail if isinstance(detail, str) else compact(detail)
        records.append(
            Record(at, now, event, "demo", who, verdict="accepted" if raw else "", detail=told, raw=text)
        )
        past.observe(records[-1])
        return now.timestamp()

    def say(kind: str, sender: str, payload: Any, **members: Any) -> float:
        id = members.pop("id", f"m{len(records)}")
        envelope = {
            "protocol": "mew/v0.4",
            "id": id,
            "ts": "2026-01-01T00:00:00Z",
            "from": sender,
            "kind": kind,
        }
        return note("received", {**envelope, "payload": payload, **members}, who=sender)

    unknown: dict[str, float] = {}  # since when
    waiting: dict[str, Told] = {}
    last = note("opened", detail={"edition": 4})
    for n, call in enumerate(calls):
        id = f"r{n}"
        payload = {"method": "tools/call", "params": {"name": "pay", "arguments": {"n": n}}}
        last = say("mcp/request", "human", payload, id=id, to=list(call.to))
        waiting[id] = call
        for what in call.news:
            if what == "answer":
                last = say("mcp/response", "bank", {"result": {}}, correlation_id=[id])
                waiting.pop(id, None)
                unknown.pop(id, None)
            elif what == "lost":
                lost = {"code": -32001, "message": "it ended", "data": {"code": "outcome_unknown"}}
                last = say("mcp/response", "bank", {"error": lost}, correlation_id=[id])
                if waiting.pop(id, None):
                    unknown[id] = last
            elif what == "resolve":
                about = {"about": "resolution", "request": id, "to": list(call.to), "happened": True}
                last = note("reported", detail=about)
                unknown.pop(id, None)
            elif what == "resume":
                unknown.update(dict.fromkeys(waiting, last))
                waiting.clear()
                last = note("resumed", detail={"edition": 4})
            else:
                gone = {"event": "leave", "participant": {"id": "bank", "capabilities": []}}
                last = say("system/presence", "system:gateway", gone)
                alone = [one for one, sent in waiting.items() if sent.to == ("bank",)]
                unknown.update(dict.fromkeys(alone, last))
                for one in alone:
                    del waiting[one]
    rows = LedgerPass()
    for record in records:
        rows.observe(record)
    assert {row.opened.id for row in rows.rows["requests"] if row.state == "unknown"} == unknown.keys()
    past.end()
    unknown.update(dict.fromkeys(waiting, last))
    assert {call.request.id: call.since for call in past.unknown} == unknown
