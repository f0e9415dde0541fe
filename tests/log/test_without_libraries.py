"""What answers directly about a small log needs no library beyond the pure ones: a page could run it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mew_lab.log.filter import patterns
from tests.log.stage import hostile, keep

BLOCKED = ("duckdb", "numpy", "orjson", "pandas", "pyarrow", "re2")

ASK = """
import sys
for name in sys.argv[2:]:
    sys.modules[name] = None  # an import of it fails
from mew_lab.log.ledger_rows import LedgerPass
from mew_lab.log.log import open_log
log = open_log(sys.argv[1])
print(len(log), log.faults)
for text in sys.stdin.read().splitlines():
    print(text, [members.get("id") for members in log.filter(text)])
rows = LedgerPass(verdicts=True)
for record in log.records:
    rows.observe(record)
for name, several in rows.rows.items():
    print(name, [(type(row).__name__, row.place, getattr(row, "state", "")) for row in several])
print(log.diagnose())
entries, parents = log.tree()
for entry in entries[:20]:
    exchange = log.follow(entry.seq)
    print(exchange.text, exchange.diagram.svg(), exchange.to_mermaid(), sep="\\n")
print([entry.name for entry in entries], parents)
"""

FILTERS = """
kind == "chat"
kind ~ "mcp/*"
kind ~ "m*c*/*e*t"
from ~ "?*"
é
a
payload.method exists and state exists
latency >= 0s
diag.severity exists
not (verdict == accepted)
"""


def ask(path: Path, *blocked: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(path), *blocked],
        input=FILTERS.strip(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("seed", range(2))
def test_the_answers_are_the_same_without_any_of_them(tmp_path: Path, seed: int) -> None:
    path = keep(hostile(seed, 150).records, tmp_path / "j.jsonl")
    answers = ask(path, *BLOCKED)
    assert answers == ask(path)
    assert "RequestRow" in answers and "<svg" in answers


@pytest.mark.parametrize(
    ("glob", "passing", "failing"),
    [
        ("a*b", ["ab", "a\nb", "a.b.b"], ["ab\n", "xab", "abc"]),
        ("*a*b*c", ["abc", "xaxbxc", "cabac-b-c"], ["acb", "abcx"]),
        ("*\\**", ["*", "x*y"], ["x", "\\"]),
        ("?.?", ["a.b", "\n.\n"], ["a.bc", "axb"]),
        ("*a\x00*b", ["a\x00b", "xa\x00yb"], ["a\x00b\n", "a0b"]),
        ("a\\\\*b", ["a\\b", "a\\xb"], ["a*b", "ab"]),
    ],
)
def test_a_glob_means_the_same_to_the_engine_of_python(
    glob: str, passing: list[str], failing: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expression = patterns.from_glob(glob)
    for engine in (patterns.re2, None):
        monkeypatch.setattr(patterns, "re2", engine)
        matches = patterns.compile_search(expression)
        assert [text for text in passing + failing if matches(text)] == passing


def test_the_engine_of_python_needs_no_endless_time_for_a_glob(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "re2", None)
    matches = patterns.compile_search(patterns.from_glob("*a*b*a*b*a*b*c"))
    assert not matches("ab" * 30_000) and matches("ab" * 30_000 + "c")


def test_an_expression_of_the_user_is_refused_without_its_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "re2", None)
    assert "google-re2 is not installed" in patterns.check_expression("(a+)+b")
