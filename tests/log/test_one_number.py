"""Every reader names a message by the number of its record in the journal, and every verb takes that number (R37)."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mew_lab.cli.tail import journal_lines
from mew_lab.errors import JournalError
from mew_lab.lab.entry_feed import EntryFeed
from mew_lab.lab.html_report import session_page
from mew_lab.lab.rows import Rows
from mew_lab.ledger.entry import Entry
from mew_lab.log.filter.grammar import parse_filter
from mew_lab.log.journal import Journal
from mew_lab.log.line import read_members
from mew_lab.log.log import Log, open_log
from mew_lab.log.numbering import name_of
from mew_lab.log.prune import prune
from mew_lab.space.core import Space
from mew_lab.space.events import Record
from mew_lab.space.opening import opening_record

from .sessions import session

pytestmark = pytest.mark.ruling("R37")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Heard:
    """A follower of the entries of a log."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def take(self, entry: Entry) -> None:
        self.entries.append(entry)


def written(folder: Path, seed: int, events: int, *, rotate_at: int) -> tuple[Path, list[Record]]:
    """A session with refusals, private messages and frames in a journal of several files, closed and resumed once."""
    space = Space("demo", epoch=seed)
    path = folder / "journal.jsonl"
    journal = Journal(path, rotate_at=rotate_at)
    records = [opening_record(space, NOW)]
    journal.append(records)
    for number, event in enumerate(session(space, seed, events)):
        made = [
            effect
            for effect in space.step(event, NOW + timedelta(milliseconds=7 * number))
            if type(effect) is Record
        ]
        journal.append(made)
        records += made
        if number == events // 2:
            journal.close()
            journal = Journal.resume(path, rotate_at=rotate_at)
    journal.close()
    return path, records


@pytest.mark.drawn
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 10_000), events=st.integers(20, 80), rotate_at=st.sampled_from([20_000, 10_000_000])
)
def test_every_reader_names_a_message_by_the_number_of_its_record(
    tmp_path_factory: pytest.TempPathFactory, seed: int, events: int, rotate_at: int
) -> None:
    path, records = written(tmp_path_factory.mktemp("one"), seed, events, rotate_at=rotate_at)
    texts = {record.seq: record.raw for record in records if record.raw is not None}

    rows, live, heard = Rows(lambda: ("demo", 1)), Log.live(space="demo"), Heard()
    following = EntryFeed(live)
    following.add(heard)
    for record in records:
        live.observe(record)
        rows.observe(record)
        following.observe(record)
    assert {row.seq: rows.raw(row.seq) for row in rows.since(0, 10_000)} == texts
    assert rows.count() == len(texts) and rows.last_seq == max(texts)
    assert {entry.seq: entry.raw for entry in heard.entries} == texts

    log = open_log(path, index=False)
    numbers = [line.split()[0] for line in journal_lines(path)]
    assert numbers == [f"#{seq}" for seq in texts]
    assert set(texts) <= set(log.df["seq"])
    for seq in list(texts)[:: max(1, len(texts) // 6)]:
        name, filtered = f"#{seq}", parse_filter(f"seq {seq}..{seq}")
        assert [line.split()[0] for line in journal_lines(path, tree=filtered)] == [name]
        assert list(journal_lines(path, tree=filtered, exact=True)) == list(
            journal_lines(path, tree=parse_filter(f"seq == {seq}"), exact=True)
        )
        for which in (seq, name, f"~{seq}"):
            assert log.audit(which).record.raw == texts[seq]
            for reader in (log, live):
                selected = reader.follow(which).selected
                assert (selected.seq, selected.raw) == (seq, texts[seq])
                assert [entry.raw for entry in reader.select(which).entries] == [texts[seq]]
        assert f", {name}, " in str(log.audit(seq)).splitlines()[0]
        assert f"around {name}" in log.follow(seq).to_markdown()
        assert f"behind {name}, " in str(log.at(name))


def test_numbers_go_on_behind_what_was_pruned(tmp_path: Path) -> None:
    path, records = written(tmp_path, 3, 150, rotate_at=20_000)
    texts = {f"#{record.seq}": record.raw for record in records if record.raw is not None}
    prune(path, keep=1, agree=lambda pruned: True)
    lines = list(journal_lines(path))
    exact = list(journal_lines(path, exact=True))
    assert 0 < len(lines) < len(texts)
    for line, text in zip(lines, exact, strict=True):
        assert (read_members(text) or {}).get("id") == (read_members(texts[line.split()[0]] or "") or {}).get(
            "id"
        )


def readings(log: Log, seq: int) -> dict[str, str]:
    """What each reader of a log tells of its message with this number."""
    filtered = log.filter("kind exists")
    return {
        "audit": str(log.audit(seq)),
        "diagnose": "\n".join(log.diagnose().lines()),
        "diagnose in a notebook": str(log.diagnose()._repr_html_()),
        "filter": filtered.entries[0].name,
        "follow": log.follow(seq).to_markdown(),
        "select": log.select(seq).to_markdown(),
        "tree": log.tree()[0][0].name,
        "report": session_page(log),
        "verify": str(log.verify()),
        "no such": failure(lambda: log.follow(999_999)),
        "no such audit": failure(lambda: log.audit(999_999)),
    }


def failure(act: Callable[[], object]) -> str:
    with pytest.raises(JournalError) as told:
        act()
    return str(told.value)


def talk() -> list[Record]:
    """A talk with a proposal of bot, a request of ann for it that is another call, and a private message to nobody."""
    said = [
        ("bot", "p-1", '"kind":"mcp/proposal","payload":{"method":"tools/call","params":{"name":"x","arguments":{}}}'),
        ("ann", "q-1", '"kind":"mcp/request","to":["bot"],"correlation_id":["p-1"],'
         '"payload":{"method":"tools/call","params":{"name":"y","arguments":{}}}'),
        ("bot", "c-1", '"kind":"chat","to":["nobody"],"payload":{"text":"Hello."}'),
    ]  # fmt: skip
    opened = Record(0, NOW, "opened", "demo", detail='{"format":1,"epoch":1}')
    messages = [
        Record(
            seq, NOW + timedelta(seconds=seq), "received", "demo", who, verdict="accepted",
            raw=f'{{"protocol":"mew/v0.4","id":"{id}","ts":"2026-01-01T00:00:00Z","from":"{who}",{rest}}}',
        )
        for seq, (who, id, rest) in enumerate(said, 11)
    ]  # fmt: skip
    return [opened, *messages]


def test_a_log_without_the_journal_tells_its_own_places_as_such(tmp_path: Path, shared: Path) -> None:
    """In each reader; a log of the gateway, beside it, tells the numbers of its records."""
    live = {vantage: Log.live(space="demo", vantage=vantage) for vantage in ("gateway", "participant")}
    for record in talk():
        for log in live.values():
            log.observe(record)
    saved = {vantage: open_log(log.save(tmp_path / f"{vantage}.jsonl").path) for vantage, log in live.items()}
    peers = open_log(shared / "captures" / "3-proposals" / "envelope-history.jsonl")
    peers_seq = next(entry.seq for entry in peers.tree()[0] if entry.kind == "mcp/proposal")
    for log, seq, own in (
        (live["gateway"], 12, False),
        (saved["gateway"], 12, False),
        (live["participant"], 12, True),
        (saved["participant"], 12, True),
        (peers, peers_seq, True),
    ):
        assert log.sign == ("~" if own else "#")
        for reader, told in readings(log, seq).items():
            told = re.sub(r"#[0-9a-f]{6}\b|&#[x0-9a-f]+;|<style>.*?</style>", "", told, flags=re.DOTALL)
            if reader not in ("verify", "diagnose", "diagnose in a notebook") or log is not peers:
                assert bool(re.search(r"~[0-9]", told)) == own, (reader, told)
            assert bool(re.search(r"#[0-9]", told)) <= (not own), (reader, told)

    for path, own in ((tmp_path / "participant.jsonl", True), (tmp_path / "gateway.jsonl", False)):
        for follow in (False, True):
            first = next(iter(journal_lines(path, follow=follow)))
            assert first.split()[0] == ("~11" if own else "#11")
    [peers_file] = peers.source.paths if peers.source is not None else ()
    assert next(iter(journal_lines(peers_file, follow=True))).split()[0] == "~1"


def test_an_id_that_looks_like_a_number_is_written_with_its_kind() -> None:
    assert [name_of(text) for text in ("#13", "~13", "13", "id:#13", "id:~13", "id:id:x", "p-1")] == [
        13, 13, "13", "#13", "~13", "id:x", "p-1",
    ]  # fmt: skip


def test_the_first_four_characters_of_a_proposals_id_name_it(tmp_path: Path) -> None:
    log = Log.live(space="demo")
    ids = ("52ab-1", "52ab-2", "77cd-1")
    for number, id in enumerate(ids, 11):
        raw = (
            f'{{"protocol":"mew/v0.4","id":"{id}","ts":"2026-01-01T00:00:00Z","from":"bot","kind":"mcp/proposal",'
            '"payload":{"method":"tools/call","params":{"name":"x","arguments":{}}}}'
        )
        log.observe(Record(number, NOW, "received", "demo", "bot", verdict="accepted", raw=raw))
    assert log.follow("77cd").selected.id == log.follow("#13").selected.id == "77cd-1"
    assert log.follow("52ab-2").selected.seq == 12
    with pytest.raises(JournalError, match="2 begin so, such as 52ab-1, 52ab-2"):
        log.follow("52ab")
    with pytest.raises(JournalError, match="no such message"):
        log.follow("77c")
