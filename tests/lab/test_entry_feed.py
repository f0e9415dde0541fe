"""A follower hears every envelope once and in order, whenever it comes."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mew_lab.lab.entry_feed import EntryFeed
from mew_lab.lab.lab import Lab
from mew_lab.ledger.calls import Change
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.ledger import Ledger, LedgerChange
from mew_lab.log.log import Log
from mew_lab.space.events import Record

from ..waiting import until

START = datetime(2026, 1, 1, tzinfo=UTC)


class Ears:
    def __init__(self) -> None:
        self.heard: list[Entry] = []

    def take(self, heard: Entry) -> None:
        self.heard.append(heard)


class Deaf:
    def take(self, heard: Entry) -> None:
        raise ValueError("nothing pleases it")


def record(n: int, raw: str | None = None, **members: Any) -> Record:
    text = raw if raw is not None else json.dumps({"id": f"e-{n}", "from": "bot", "kind": "chat"} | members)
    return Record(n, START + timedelta(seconds=n), "envelope", "demo", "bot", verdict="accepted", raw=text)


class Feed(EntryFeed):
    """The feed of a log of its own."""

    def __init__(self, **options: Any) -> None:
        self.log = Log.live(space="demo", **options)
        super().__init__(self.log)

    def tell(self, *records: Record) -> None:
        for one in records:
            self.log.observe(one)
            self.observe(one)

    async def heard_all(self, *ears: Ears) -> None:
        await until(lambda: all(map(self.caught_up, ears)))


async def test_one_that_comes_late_hears_the_earlier_ones_first_and_each_once() -> None:
    following = Feed()
    following.tell(*(record(n) for n in range(1, 3501)))
    ears = Ears()
    following.add(ears)
    assert not ears.heard, "it must not hold the loop for all of them at once"
    assert not following.caught_up(ears)
    following.tell(record(3501))
    await following.heard_all(ears)
    following.tell(record(3502))
    assert [one.seq for one in ears.heard] == list(range(1, 3503))
    assert [one.id for one in ears.heard] == [f"e-{n}" for n in range(1, 3503)]


async def test_those_that_come_together_are_told_together_and_one_after_them_apart() -> None:
    following = Feed()
    following.tell(*(record(n) for n in range(1, 3001)))
    first, second, gone, third = Ears(), Ears(), Ears(), Ears()
    following.add(first)
    following.add(second)
    following.add(gone)
    following.remove(gone)
    await until(lambda: first.heard)
    following.add(third)
    await following.heard_all(first, second, third)
    assert [one.seq for one in third.heard] == list(range(1, 3001))
    assert all(mine is theirs for mine, theirs in zip(first.heard, second.heard, strict=True)), "read once"
    assert not gone.heard


async def test_the_loop_has_half_of_its_time_while_somebody_catches_up() -> None:
    following = Feed()
    following.tell(*(record(n) for n in range(1, 8001)))
    ears = Ears()
    following.add(ears)
    turns = 0
    async with asyncio.timeout(30):
        while not following.caught_up(ears):
            await asyncio.sleep(0)
            turns += bool(ears.heard)
    assert turns > 10


def test_where_no_loop_runs_it_hears_them_at_once() -> None:
    following = Feed()
    following.tell(*(record(n) for n in range(1, 2201)))
    ears = Ears()
    following.add(ears)
    assert len(ears.heard) == 2200 and following.caught_up(ears)


def test_what_holds_no_message_is_no_envelope_and_an_envelope_has_the_number_of_its_record() -> None:
    following = Feed()
    note = Record(1, START, "decided", "demo", "human")
    ears = Ears()
    following.tell(note, record(2))
    following.add(ears)
    following.tell(note, record(3))
    assert [(one.seq, one.id) for one in ears.heard] == [(2, "e-2"), (3, "e-3")]


def test_members_of_the_wrong_type_are_absent() -> None:
    following = Feed()
    ears = Ears()
    following.add(ears)
    wrong = {
        "id": 3,
        "kind": ["chat"],
        "to": {"a": 1},
        "correlation_id": [1, "x"],
        "payload": "text",
        "context": None,
    }
    following.tell(record(1, **wrong), record(2, raw="[" * 900), record(3, to="one", correlation_id="y"))
    first, second, third = ears.heard
    assert (first.id, first.kind, first.to, first.context, dict(first.payload)) == ("", "", (), "", {})
    assert first.correlation_id == ("x",)
    assert second.members == {} and second.sender == "bot"
    assert third.to == ("one",) and third.correlation_id == ("y",)


def test_one_that_raises_harms_no_other_and_one_removed_hears_no_more() -> None:
    following = Feed()
    ears = Ears()
    following.add(Deaf())
    following.add(ears)
    following.tell(record(1))
    following.remove(ears)
    following.tell(record(2))
    assert [one.seq for one in ears.heard] == [1]


def test_a_follower_of_a_lab_hears_what_was_said_before_it_came(lab: Lab) -> None:
    lab.chat("before")
    ears = Ears()
    lab.loop.call(lambda: lab.following.add(ears))
    assert [one.payload["text"] for one in ears.heard if one.kind == "chat"] == ["before"]
    assert len(ears.heard) == lab.rows.count()


async def test_one_that_asks_for_nothing_earlier_hears_what_comes_at_once() -> None:
    following = Feed()
    following.tell(*(record(n) for n in range(1, 3001)))
    ears = Ears()
    following.add(ears, earlier=False)
    assert following.caught_up(ears)
    following.tell(record(3001))
    assert [one.seq for one in ears.heard] == [3001]


async def test_one_that_names_kinds_is_told_of_those_alone_early_and_late() -> None:
    class Choosy(Ears):
        kinds = ("chat", "mcp/re")

    following, first, every = Feed(), Choosy(), Ears()
    following.add(first)
    kinds = ("chat", "chat/acknowledge", "mcp/request", "mcp/proposal", "system/presence", 7)
    following.tell(*(record(n, kind=kind) for n, kind in enumerate(kinds)))
    late = Choosy()
    following.add(late)
    following.add(every)
    following.tell(record(9, kind="mcp/reject"), record(10, kind="stream/open"))
    told = ["chat", "chat/acknowledge", "mcp/request", "mcp/reject"]
    assert [one.kind for one in first.heard] == told == [one.kind for one in late.heard]
    assert len(every.heard) == 8
    following.remove(first)
    following.tell(record(11))
    assert len(first.heard) == 4 and len(late.heard) == 5


class CallEars(Ears):
    def __init__(self) -> None:
        super().__init__()
        self.changes: list[Change] = []
        self.ledgers: dict[int, Ledger] = {}

    def take_changes(self, changes: tuple[LedgerChange, ...], ledger: Ledger) -> None:
        self.ledgers[id(ledger)] = ledger
        self.changes += [change for change in changes if isinstance(change, Change)]

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(change.what, change.call.id) for change in self.changes]


TOOL = {"method": "tools/call", "params": {"name": "add"}}
PROPOSED = record(1, kind="mcp/proposal", id="p", to=["git"], payload=TOOL)
FULFILLED = record(
    2, kind="mcp/request", id="r", to=["git"], payload=TOOL, correlation_id=["p"], **{"from": "human"}
)
ANSWERED = record(
    3, kind="mcp/response", id="a", payload={"result": {}}, correlation_id=["r"], **{"from": "git"}
)
# R17: a request to the addressees of the proposal, for its method and tool, fulfils it; its answer answers both.
LIFE = [("proposed", "p"), ("requested", "r"), ("fulfilled", "p"), ("answered", "r"), ("answered", "p")]


@pytest.mark.ruling("R17")
async def test_what_became_of_the_calls_is_computed_once_for_all_and_again_for_those_that_come_late() -> None:
    following, first, second, late, plain = Feed(), CallEars(), CallEars(), CallEars(), Ears()
    for follower in (first, plain, second):
        following.add(follower)
    following.tell(PROPOSED, *(record(n) for n in range(10, 2010)), FULFILLED)
    assert first.told == LIFE[:3]
    assert all(mine is theirs for mine, theirs in zip(first.changes, second.changes, strict=True))
    assert first.ledgers.keys() == second.ledgers.keys() and len(first.ledgers) == 1
    following.add(late)
    following.tell(ANSWERED)
    await following.heard_all(late)
    assert first.told == late.told == LIFE
    following.tell(record(4, kind="mcp/proposal", id="q", to=["git"], payload=TOOL))
    assert first.changes[-1] is late.changes[-1] and late.told == [*LIFE, ("proposed", "q")]
    assert [entry.id for entry in plain.heard[:2]] == ["p", "e-10"], "others need not know of changes"


@pytest.mark.ruling("R17")
@pytest.mark.parametrize("length", [1, 2000])
async def test_one_that_asks_for_nothing_earlier_learns_from_the_ledger_of_those_that_do(length: int) -> None:
    following, new, whole = Feed(), CallEars(), CallEars()
    following.tell(PROPOSED, *(record(n) for n in range(10, 10 + length)))
    following.add(new, earlier=False)
    following.tell(record(5))
    following.add(whole)
    await following.heard_all(whole)
    following.tell(FULFILLED)
    assert new.told == LIFE[1:3] and whole.told == LIFE[:3]
    following.remove(new)
    following.tell(ANSWERED)
    assert whole.told == LIFE


@pytest.mark.ruling("R17")
async def test_a_late_one_learns_of_a_call_that_the_log_does_not_hold_any_more() -> None:
    following, early, late = Feed(max_records=1), CallEars(), CallEars()
    following.add(early)
    following.tell(PROPOSED, *(record(n) for n in range(10, 2010)))
    assert following.log.held[0].raw != PROPOSED.raw
    following.add(late)
    await following.heard_all(late)
    following.tell(FULFILLED)
    assert late.told == LIFE[1:3] and early.told == LIFE[:3]


def test_where_nobody_reads_the_ledger_none_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    observed: list[str] = []
    observe_entry = Ledger.observe

    def count(ledger: Ledger, entry: Entry) -> tuple[LedgerChange, ...]:
        observed.append(entry.id)
        return observe_entry(ledger, entry)

    monkeypatch.setattr(Ledger, "observe", count)
    following, ears, reader = Feed(), Ears(), CallEars()
    following.add(ears)
    following.tell(PROPOSED)
    following.add(reader)
    following.tell(FULFILLED)
    assert observed == ["p", "r"], "each once"
    following.remove(reader)
    following.tell(ANSWERED)
    assert observed == ["p", "r"] and len(ears.heard) == 3


def test_an_envelope_that_the_ledger_cannot_take_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(ledger: Ledger, entry: Entry) -> tuple[LedgerChange, ...]:
        raise ValueError("nothing pleases it")

    monkeypatch.setattr(Ledger, "observe", fail)
    following, reader = Feed(), CallEars()
    following.add(reader)
    following.tell(PROPOSED, record(2))
    assert [entry.id for entry in reader.heard] == ["p", "e-2"] and not reader.changes


@pytest.mark.ruling("R35", "R42")
def test_who_reads_the_ledger_is_told_what_a_person_found_out() -> None:
    """A view would show a call as unknown for as long as no further message came about it."""
    told: list[str] = []

    class Reader:
        def take_changes(self, changes: tuple[LedgerChange, ...], ledger: Ledger) -> None:
            told.extend(change.what for change in changes if isinstance(change, Change))

    following = Feed()
    following.add(Reader())
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "pay", "arguments": {}}}
    error = {"code": -32000, "message": "its server ended", "data": {"code": "outcome_unknown"}}
    asked = {"from": "human", "to": ["till"], "kind": "mcp/request", "payload": call}
    lost = {"from": "till", "to": ["human"], "kind": "mcp/response", "correlation_id": ["e-1"]}
    following.tell(record(1, **asked))
    following.tell(record(2, **lost, payload={"jsonrpc": "2.0", "id": 1, "error": error}))
    assert told[-1] == "unknown"
    found = json.dumps({"request": "e-1", "to": ["till"], "happened": True})
    following.tell(Record(3, START, "reported", "demo", "human", detail=found))
    assert told[-1] == "resolved"
