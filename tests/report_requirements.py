"""Which requirements does a test show?  Reads the marks of all tests and lays them beside the rows.

    python tests/report_requirements.py            every row that a test shows or a divergence records, then the figures
    python tests/report_requirements.py --missing  every row that is open, with its sentence
    python tests/report_requirements.py --short    the figures alone

A mark is `@pytest.mark.req("P-3.6.8-2")`, `@pytest.mark.threat(15)`, `@pytest.mark.trap("T-4")` or `@pytest.mark.ruling("R22")`, on a
test, on a class, on a parameter set, or as `pytestmark` of a module. `@pytest.mark.divergence("P-3.4.1-3")` pins what happens
instead of a row that `divergences.py` records. Marks are read from the source: nothing is run, so the report says
what tests claim, and `pytest` says whether they hold.
"""

from __future__ import annotations

import argparse
import ast
import csv
import functools
import gc
import runpy
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
_RECORDED = runpy.run_path(str(HERE / "divergences.py"))
DIVERGENCES: tuple[Any, ...] = _RECORDED["DIVERGENCES"]
EXTENSIONS: tuple[Any, ...] = _RECORDED["EXTENSIONS"]
OURS = ("gateway", "all")  # whom a row binds that a gateway has to keep
TRAPS = [f"T-{n}" for n in range(1, 28)]
THREATS = [*range(1, 53), 54, 55]
RULINGS = [
    f"R{n}" for n in (*range(22, 40), 41, 42, 43)
]  # those that stand on their own, beside the rows that they decide
EARLIER = {
    *(f"R{n}" for n in range(1, 22)),
    "R8b",
    "R8c",
}  # may be marked; the rows that name them are counted
MARKS = ("req", "threat", "trap", "ruling", "divergence", "extension")


class Row(NamedTuple):
    """One normative sentence."""

    id: str
    source: str
    level: str
    binds: str
    statement: str
    unseen: str = ""  # why a conformance run cannot test it


class Mark(NamedTuple):
    """One test that says that it shows one row."""

    kind: str
    row: str | int
    test: str


class Report(NamedTuple):
    """What is shown, what is not, and what nobody can place."""

    rows: tuple[Row, ...]
    shown: dict[tuple[str, str | int], tuple[str, ...]]  # by mark and row: a trap may be called like a row
    unknown: tuple[Mark, ...]

    def figure(self, binds: str | None = None) -> tuple[int, int]:
        """Rows with a test, and all rows; of those that bind one party, or of all."""
        mine = [row for row in self.rows if binds in (None, row.binds)]
        return sum(("req", row.id) in self.shown for row in mine), len(mine)

    def diverges(self, row: Row) -> bool:
        """Whether a divergence is recorded for the row, and pinned by a test."""
        return ("divergence", row.id) in self.shown

    @property
    def open(self) -> tuple[Row, ...]:
        """The rows that no test shows and no divergence records."""
        return tuple(row for row in self.rows if ("req", row.id) not in self.shown and not self.diverges(row))


def read_rows(path: Path = HERE.parent / "mew_lab" / "conformance" / "requirements.csv") -> tuple[Row, ...]:
    """The rows of the table, in its order."""
    with path.open(encoding="utf-8", newline="") as file:
        return tuple(Row(**row) for row in csv.DictReader(file))


def marks_in(source: str, *, name: str) -> Iterator[Mark]:
    """The marks of one test module."""

    def visit(node: ast.AST, place: str) -> Iterator[Mark]:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            place = f"{place}::{node.name}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MARKS:
            owner = node.func.value
            if isinstance(owner, ast.Attribute) and owner.attr == "mark":
                for argument in node.args:
                    yield Mark(node.func.attr, ast.literal_eval(argument), place)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, place)

    yield from visit(ast.parse(source), name)


def report(rows: Iterable[Row], marks: Iterable[Mark]) -> Report:
    """Lays the marks beside the rows."""
    rows = tuple(rows)
    known: dict[str, set[str | int]] = {
        "req": {row.id for row in rows},
        "divergence": {one.row for one in DIVERGENCES},
        "extension": {one.name for one in EXTENSIONS},
        "threat": set(THREATS),
        "trap": set(TRAPS),
        "ruling": EARLIER.union(RULINGS),
    }
    shown: dict[tuple[str, str | int], list[str]] = defaultdict(list)
    unknown = []
    for mark in marks:
        if mark.row not in known[mark.kind]:
            unknown.append(mark)
        elif mark.test not in shown[mark.kind, mark.row]:
            shown[mark.kind, mark.row].append(mark.test)
    return Report(rows, {row: tuple(tests) for row, tests in shown.items()}, tuple(unknown))


@functools.cache
def read_report(tests: Path = HERE) -> Report:
    """The report on the tests of this checkout, read once."""
    # A collection while a tree is built can run another thread's parser, and Python 3.11 counts both as one.
    gc.disable()
    try:
        marks = [
            mark
            for path in sorted(tests.rglob("test_*.py"))
            if not any(
                part.startswith(".") for part in path.relative_to(tests).parts
            )  # environments made by tests
            for mark in marks_in(path.read_text(encoding="utf-8"), name=str(path.relative_to(tests.parent)))
        ]
    finally:
        gc.enable()
    return report(read_rows(), marks)


def lines_of_shown(found: Report) -> Iterator[str]:
    """Each row with a test: id, level, how many tests, the first of them."""
    for row in found.rows:
        if tests := found.shown.get(("req", row.id)):
            yield f"{row.id:<14} {row.level:<18} {len(tests):>3}  {tests[0]}"
    for one in DIVERGENCES:
        pinned = found.shown.get(("divergence", one.row), ("no test",))[0]
        yield f"{one.row:<14} {'by ' + one.ruling:<18}   -  {one.note} ({pinned})"


def lines_of_missing(found: Report) -> Iterator[str]:
    """Each open row: id, whom it binds, its sentence."""
    for row in found.open:
        yield f"{row.id:<14} {row.binds:<12} {row.statement}"


def lines_of_figures(found: Report) -> Iterator[str]:
    """The figures: all rows, rows by whom they bind, those of the gateway apart, threats, traps, rulings."""
    shown, of = found.figure()
    yield f"requirements  {shown:>3} of {of} rows have a test"
    for binds in sorted({row.binds for row in found.rows}):
        mine = found.figure(binds)
        yield f"  {binds:<11} {mine[0]:>3} of {mine[1]}"
    ours = [row for row in found.rows if row.binds in OURS]
    diverging = sum(found.diverges(row) for row in ours)
    unshown = sum(row in ours for row in found.open)
    yield (
        f"{len(ours)} rows of {of} bind the gateway: {len(ours) - diverging - unshown} tested, "
        f"{diverging} recorded divergences, {unshown} open"
    )
    for title, mark, ids in (
        ("threats", "threat", THREATS),
        ("traps", "trap", TRAPS),
        ("rulings", "ruling", RULINGS),
    ):
        without = [str(one) for one in ids if (mark, one) not in found.shown]
        yield f"{title:<13} {len(ids) - len(without):>3} of {len(ids)} have a test" + (
            f"; without: {', '.join(without)}" if without else ""
        )
    for unknown in found.unknown:
        yield f"unknown row {unknown.row!r} in {unknown.test}"


def main(arguments: list[str]) -> int:
    """Prints the report; 1 when a test names a row that does not exist."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--missing", action="store_true", help="the rows that are open")
    which.add_argument("--short", action="store_true", help="the figures alone")
    options = parser.parse_args(arguments)
    found = read_report()
    if options.missing:
        print(*lines_of_missing(found), sep="\n")
    elif not options.short:
        print(*lines_of_shown(found), sep="\n")
    print(*lines_of_figures(found), sep="\n")
    return 1 if found.unknown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
