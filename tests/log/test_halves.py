"""The halves of the facts of a log, each of which has a ledger of its own, find together what one ledger finds."""

from __future__ import annotations

import gc
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from mew_lab.log.diagnose.diagnosis import Diagnosis, diagnose
from mew_lab.log.fact_pass import HALVES, LEDGER, RULES, FactPass
from mew_lab.log.fact_store import TABLES, FactWriter, create_tables, join_tables
from mew_lab.log.files import Files
from mew_lab.log.ledger_rows import LedgerPass, LedgerRow
from mew_lab.log.line import write_line
from tests.log.hostile import honest_lines, hostile_journal
from tests.log.planted import CLEAN, FAULTS, converse


def write_tables(path: Path, passes: Sequence[FactPass], journal: Path) -> Path:
    with duckdb.connect(str(path)) as connection:
        create_tables(connection, TABLES.values())
        for each in passes:
            each.run(Files((journal,)).read([]), FactWriter(connection).put)
    return path


def joined_tables(databases: Sequence[Path]) -> dict[str, list[tuple[Any, ...]]]:
    with duckdb.connect() as connection:
        create_tables(connection, TABLES.values())
        join_tables(connection, databases)
        texts = {
            name: connection.sql(f"SELECT COLUMNS(*)::VARCHAR FROM {name}").fetchall() for name in TABLES
        }
    return {name: sorted(rows, key=repr) for name, rows in texts.items()}


def check_halves(folder: Path, journal: Path) -> dict[str, list[tuple[Any, ...]]]:
    whole = joined_tables([write_tables(folder / "whole", [LEDGER, RULES], journal)])
    halves = joined_tables([write_tables(folder / name, [half], journal) for name, half in HALVES.items()])
    for name in TABLES:
        if name != "diagnosis":
            assert halves[name] == whole[name], name
    told = diagnose(Files((journal,)).read([]))
    for tables in (whole, halves):
        rows = [(int(number), finding) for number, finding in tables["diagnosis"]]
        read = Diagnosis.of_rows(rows, ())
        assert [*read] == [*told] and (read.messages, read.unkept) == (told.messages, told.unkept)
    return halves


@pytest.mark.parametrize("sessions", [1, 2])
def test_halves_find_every_planted_fault_and_make_every_frame(tmp_path: Path, sessions: int) -> None:
    records = [
        record for seed in range(sessions) for record in converse(seed, 60, *FAULTS, kinds=[*CLEAN])[0]
    ]
    journal = tmp_path / "j.jsonl"
    journal.write_bytes(b"".join(map(write_line, records)))
    tables = check_halves(tmp_path, journal)
    assert [name for name, rows in tables.items() if not rows] == []


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))])
@pytest.mark.parametrize("hostile", [False, True])
def test_halves_of_a_journal_are_its_facts(tmp_path: Path, seed: int, hostile: bool) -> None:
    path = tmp_path / "j.jsonl"
    honest = b"\n".join(honest_lines(random.Random(seed), 400)) + b"\n"
    path.write_bytes(hostile_journal(seed, events=400) if hostile else honest)
    check_halves(tmp_path, path)


def test_no_row_leads_back_to_itself() -> None:
    """A pass lets the collector of cycles run hardly ever, so rows in one would make its memory grow with the log."""
    ledger = LedgerPass(verdicts=True)
    for record in converse(1, 100, *FAULTS)[0]:
        ledger.observe(record)
    for rows in ledger.rows.values():
        assert rows
        for row in rows:
            seen, waiting = set[int](), gc.get_referents(row)
            while waiting:
                value = waiting.pop()
                assert value is not row, row
                if isinstance(value, LedgerRow | list) and id(value) not in seen:
                    seen.add(id(value))
                    waiting += gc.get_referents(value)
