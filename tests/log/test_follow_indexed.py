"""An exchange that is found by the index of a file is the one that is found by reading the whole file."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mew_lab.errors import JournalError
from mew_lab.log.files import Files
from mew_lab.log.follow import ExchangeFinder
from mew_lab.log.line import MAX_SEQ, write_line
from mew_lab.log.links import IndexedExchanges, LinkedRows
from mew_lab.log.log import Log, open_log
from mew_lab.space.events import Record

from ..conftest import seeds

START = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = (
    *["chat", "mcp/request", "mcp/response", "mcp/proposal", "mcp/withdraw", "space/unknown"],
    *["reasoning/start", "reasoning/start", "reasoning/thought", "reasoning/conclusion", "reasoning/cancel"],
    *["stream/request", "stream/open", "stream/open", "stream/close", "stream/data", "system/presence"],
)


def random_member(dice: random.Random, ids: list[str]) -> dict[str, Any]:
    """The members of a message that claims to be related to others, some of which exist."""

    def claim() -> Any:
        return dice.choice([*ids, "nobody", "", "2", "#3", 7])

    members: dict[str, Any] = {
        "id": dice.choice(ids),
        "from": dice.choice(["anna", "bot", "system:gateway"]),
        "kind": dice.choice(KINDS),
        "payload": {},
    }
    if dice.random() < 0.5:
        about = [claim() for _ in range(dice.choice([1, 1, 1, 2, 5, 40]))]
        members["correlation_id"] = about if dice.random() < 0.9 else about[0]
    if dice.random() < 0.4:
        parts = [str(claim()) for _ in range(dice.choice([1, 1, 2, 3, 20]))]
        members["context"] = "/".join(parts)
    if members["kind"].startswith("stream/") or dice.random() < 0.1:
        members["payload"] = {"stream_id": dice.choice(["s-1", "s-2", *ids[:2], 5, None, ""])}
    if members["kind"] == "system/presence":
        members["payload"] = {"event": "leave", "participant": {"id": "bot"}}
    return members


def random_records(dice: random.Random, count: int) -> list[Record]:
    """Records of one journal, with events between the messages, refusals, and texts that are no envelopes."""
    ids = [*(f"m{n}" for n in range(dice.choice([2, count // 3, 2 * count]) + 2)), "2", "#3"]
    records, seq = list[Record](), dice.choice([-1, 1, 50])
    for _ in range(count):
        seq += dice.choice([1, 1, 1, 4])
        now = START + timedelta(seconds=seq)
        if dice.random() < 0.1:
            records.append(Record(seq, now, "joined", "demo", "bot"))
            continue
        raw: str | None = json.dumps(random_member(dice, ids))
        verdict = "refused" if dice.random() < 0.2 else "accepted"
        if dice.random() < 0.05:
            raw, verdict = dice.choice([(None, "refused"), ("no JSON", "refused"), ('"m1"', "accepted")])
        records.append(Record(seq, now, "received", "demo", "bot", verdict=verdict, raw=raw))
    return records


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every journal counts as large; no process finds its facts, which takes longer than such a short journal."""
    monkeypatch.setattr("mew_lab.log.files.LARGE", 1)
    monkeypatch.setattr("mew_lab.log.child_process.COMMAND", ("no-such-program",))


def write(path: Path, records: Iterable[Record]) -> Path:
    path.write_bytes(b"".join(map(write_line, records)))
    return path


def said_of(finder: ExchangeFinder | IndexedExchanges | Log, which: str | int, most: int) -> tuple[Any, ...]:
    """What is told of an exchange; a message that is not found tells nothing."""
    name = f"id:{which}" if isinstance(which, str) and isinstance(finder, Log) else which
    try:
        found = finder.follow(name, most=most)
    except JournalError as fault:
        assert "no such message" in str(fault)
        return ()
    entries = [(entry.seq, entry.place, entry.record) for entry in found.entries]
    return found.selected.seq, entries, found.parents, found.left_out


def whole(log: Log) -> ExchangeFinder:
    """Reads all of a log, and holds all of it."""
    finder = ExchangeFinder(most=1 << 60)
    finder.add(log.records)
    return finder


@pytest.mark.parametrize("seed", seeds(80))
def test_an_exchange_found_by_the_index_is_the_one_found_by_reading(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    files = [random_records(dice, dice.choice([0, 1, 30, 120])) for _ in range(dice.choice([1, 1, 2]))]
    log = open_log([write(tmp_path / f"{n}.jsonl", records) for n, records in enumerate(files)], index=False)
    expected = whole(log)
    entries = expected.tree()[0]
    names = {
        *(entry.id for entry in entries),
        *(entry.seq for entry in entries),
        3,
        "2",
        "",
        "\ud800",
        -1,
        10**20,
    }
    for which in sorted(names, key=str):
        most = dice.choice([1, 3, 200])
        assert said_of(log, which, most) == said_of(expected, which, most), which


def test_the_exchanges_of_the_captured_sessions_are_those_found_by_reading(shared: Path) -> None:
    for folder in (shared / "captures").iterdir():
        log = open_log(folder, index=False)
        expected = whole(log)
        found = IndexedExchanges(log.index, sign=log.sign)
        for entry in expected.tree()[0]:
            assert said_of(found, entry.seq, 200) == said_of(expected, entry.seq, 200), (
                folder.name,
                entry.seq,
            )


def message(n: int, id: str, *about: str, **members: Any) -> Record:
    said = {"id": id, "from": "bot", "kind": "chat", "payload": {}, "correlation_id": list(about)} | members
    return Record(n, START + timedelta(seconds=n), "received", "demo", "bot", raw=json.dumps(said))


def test_a_group_is_read_alone_and_an_id_that_nobody_has_links_nothing(tmp_path: Path) -> None:
    records = [
        message(1, "a", context="main"),
        message(2, "b", "a", context="main"),
        message(3, "c", "lost", context="main/part"),
        message(4, "d", "lost", kind="stream/close", payload={"stream_id": "s-1"}),
        message(5, "e", kind="stream/close", payload={"stream_id": "s-1"}),
    ]
    index = open_log(write(tmp_path / "log.jsonl", records), index=False).index
    links = LinkedRows(index)
    groups = [links.group_of(links.places[n : n + 1], most=10_000).tolist() for n in range(5)]
    assert groups == [[1, 2], [1, 2], [3], [4], [5]]


def test_a_chain_of_ten_thousand_replies_is_one_group_from_either_end(tmp_path: Path) -> None:
    order = list(range(1, 10_001))
    random.Random(7).shuffle(order)  # the links lead back and forth
    records = [message(n, f"m{id}", f"m{id - 1}") for n, id in enumerate(order, 1)]
    log = open_log(write(tmp_path / "log.jsonl", [*records, message(20_000, "alone")]), index=False)
    links = LinkedRows(log.index)
    assert (
        len(links.group_of(links.places[:1], most=10_000))
        == len(links.group_of(links.places[9_999:10_000], most=10_000))
        == 10_000
    )
    assert log.follow("m5000", most=10).left_out == 9_990
    assert len(log.follow("alone")) == 1


def test_of_too_many_linked_messages_the_nearest_in_the_log_are_read(tmp_path: Path) -> None:
    records = [message(n, f"m{n}", f"m{n - 1}") for n in range(1, 101)]
    finder = IndexedExchanges(open_log(write(tmp_path / "log.jsonl", records), index=False).index, most=10)
    for which, ids in {1: range(1, 11), 50: range(45, 55), 100: range(91, 101)}.items():
        assert [entry.seq for entry in finder.follow(which).entries] == [*ids]


def test_a_file_that_grows_is_followed_into_what_was_appended(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", [message(1, "a"), message(2, "b")])
    log = open_log(path, index=False)
    assert [entry.id for entry in log.follow("a").entries] == ["a"]
    with path.open("ab") as file:
        file.write(write_line(message(3, "c", "a")))
    assert [entry.id for entry in log.follow("a").entries] == ["a", "c"]
    with pytest.raises(JournalError, match="no such message; 3 in the log, from #1 on"):
        log.follow("d")


@pytest.mark.parametrize(
    "seqs", [[1, -MAX_SEQ, 3], [-MAX_SEQ] * 3, [5, MAX_SEQ, 7, 8], [MAX_SEQ] * 2], ids=str
)
def test_numbers_at_the_ends_of_their_range_are_those_of_reading(tmp_path: Path, seqs: list[int]) -> None:
    chat = {"kind": "chat", "from": "helper", "payload": {"text": "hello"}}
    records = [
        Record(seq, START, "received", verdict="accepted", raw=json.dumps(chat | {"id": f"m{n}"}))
        for n, seq in enumerate(seqs)
    ]
    path = tmp_path / "j.jsonl"
    path.write_bytes(b"".join(map(write_line, records)))
    read, log = ExchangeFinder(most=1 << 60), open_log(path, index=False)
    read.add(Files((path,)).read([]))
    for n in range(len(seqs)):
        number = read.follow(f"m{n}").selected.seq
        assert log.follow(f"m{n}").selected.seq == log.follow(number).selected.seq == number
