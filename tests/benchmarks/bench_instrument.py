"""What does it cost to open, filter and search a large log?  Prints a table beside DuckDB, polars and pandas.

    python tests/benchmarks/bench_instrument.py [megabytes] [folder]

Makes a journal of that size (100 MB; 1000 takes some minutes) in a temporary folder or in `folder`, where it is left
and used again. All readers read the same file in one run. Imports are not counted. Seconds are wall time and, in
brackets, processor time: on a busy machine only the second says something, and with two threads it may be the larger.
Each of ours runs in a process of its own, so that the peak of its memory is its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from journals import write_journal

# Each part runs in a process of its own and prints its rows as JSON: name, wall, processor time, what was found.
MARKS = {
    "first 5,000 rows": "≤ 0.1 s",
    "index": "≤ 8 s a million, ≤ 500 MiB",
    "second opening": "≤ 0.1 s",
    "filter on columns": "≤ 0.03 s",
    "filter on a payload path": "≤ 1.5 s a million",
    "text search": "≤ 1 s a million",
    "frame of all rows": "≤ 1 s a million with pyarrow",
    "frame without pyarrow": "≤ 4 s a million",
}


class Row(NamedTuple):
    """One line of the printed table."""

    what: str
    wall: float
    cpu: float
    found: int
    peak: int
    mark: str = ""


def measure(name: str, run: Callable[[], Any], rows: list[Row]) -> Any:
    """Runs once; the peak is that of the process so far, in MiB."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    found = len(result) if hasattr(result, "__len__") else int(result or 0)
    rows.append(Row(name, wall, cpu, found, peak, MARKS.get(name, "")))
    return result


def ours_first(path: Path, rows: list[Row]) -> None:
    """The head and the building of the index."""
    import duckdb  # noqa: F401 - imports are not counted
    import pandas as pd  # noqa: F401

    from mew_lab.log.index import LogIndex
    from mew_lab.log.line_frame import line_frame  # noqa: F401
    from mew_lab.log.log import open_log

    log = open_log(path)
    measure("first 5,000 rows", lambda: log.head(5000), rows)
    log = open_log(path)
    measure("index", lambda: log.index, rows)
    assert isinstance(log.index, LogIndex)


def ours_second(path: Path, rows: list[Row]) -> None:
    """Everything that a built index answers."""
    import mew_lab.log.index as module
    from mew_lab.log.line_frame import line_frame
    from mew_lab.log.log import open_log

    index = measure("second opening", lambda: open_log(path).index, rows)
    for _ in range(2):
        found = index.rows('kind = ? AND "from" = ?', ["mcp/proposal", "agent-3"])
    measure(
        "filter on columns", lambda: index.rows('kind = ? AND "from" = ?', ["mcp/proposal", "agent-3"]), rows
    )
    measure("message by id", lambda: index.rows("id = ?", ["human-1d1"]), rows)
    measure(
        "filter on a payload path",
        lambda: index.rows("json->>'$.payload.params.name' = ?", ["git_log"], texts=True),
        rows,
    )
    measure("text search", lambda: index.search("src/third/77.py"), rows)
    measure("text of one message", lambda: index.text(int(found[-1])), rows)
    measure("frame of all rows", lambda: line_frame(index), rows)
    module.find_spec = lambda name: None  # type: ignore[attr-defined,assignment]
    measure("frame without pyarrow", lambda: line_frame(index), rows)


def by_duckdb(path: Path, rows: list[Row]) -> None:
    """DuckDB alone: the same two filters."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 2; SET enable_progress_bar = false")
    scan = (
        f"read_json('{path}', format='newline_delimited', ignore_errors=true, "
        "columns={seq: 'BIGINT', envelope: 'JSON'})"
    )
    payload = f"SELECT seq FROM {scan} WHERE envelope->>'$.payload.params.name' = 'git_log'"
    measure("DuckDB read_json: payload path", lambda: connection.execute(payload).fetchall(), rows)
    kind = f"SELECT seq FROM {scan} WHERE envelope->>'$.kind' = 'mcp/proposal' AND envelope->>'$.from' = 'agent-3'"
    measure("DuckDB read_json: kind and sender", lambda: connection.execute(kind).fetchall(), rows)


def by_polars(path: Path, rows: list[Row]) -> None:
    """polars: a lazy scan with the schema of what is asked for."""
    import polars as pl

    schema = {"seq": pl.Int64, "envelope": pl.Struct({"kind": pl.String, "from": pl.String})}

    def run() -> Any:
        scanned = pl.scan_ndjson(path, schema=schema, ignore_errors=True)
        fields = pl.col("envelope").struct
        held = (fields.field("kind") == "mcp/proposal") & (fields.field("from") == "agent-3")
        return scanned.filter(held).select("seq").collect()

    measure("polars.scan_ndjson: kind and sender", run, rows)


def by_pandas(path: Path, rows: list[Row]) -> None:
    """pandas: reads everything."""
    import pandas as pd

    frame = measure("pandas.read_json(lines=True)", lambda: pd.read_json(path, lines=True), rows)
    envelopes = frame["envelope"].tolist()

    def run() -> list[int]:
        return [
            n
            for n, one in enumerate(envelopes)
            if isinstance(one, dict) and one.get("kind") == "mcp/proposal" and one.get("from") == "agent-3"
        ]

    measure("pandas: kind and sender", run, rows)


PARTS: dict[str, Callable[[Path, list[Row]], None]] = {
    "ours_first": ours_first,
    "ours_second": ours_second,
    "duckdb": by_duckdb,
    "polars": by_polars,
    "pandas": by_pandas,
}


def run_part(name: str, path: Path) -> list[Row]:
    """The rows of one part, from a process of its own; none where it fails, for want of memory or of a package."""
    command = [sys.executable, __file__, "--part", name, str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(f"{name}: {(done.stderr.splitlines() or ['no reason'])[-1]}")
        return []
    return [Row(*fields) for fields in json.loads(done.stdout)]


def report(path: Path) -> None:
    """Prints the table of a journal."""
    path.with_name(f"{path.name}.idx").unlink(missing_ok=True)
    rows = [row for name in PARTS for row in run_part(name, path)]
    for row in rows:
        print(
            f"{row.what:40}{row.wall:8.3f} s ({row.cpu:7.3f}){row.found:10} found{row.peak:7} MiB  {row.mark}".rstrip()
        )
    by = {row.what: row for row in rows}
    pandas = by.get("pandas.read_json(lines=True)")
    if pandas is None or "index" not in by:
        return
    whole = pandas.cpu + by["pandas: kind and sender"].cpu
    first = by["index"].cpu + by["filter on columns"].cpu
    second = by["second opening"].cpu + by["filter on columns"].cpu
    print(f"first opening and filter: {whole / first:.1f} × faster than pandas (mark: 6), by processor time")
    print(f"second opening and filter: {whole / second:.0f} × faster than pandas (mark: 20)")
    if duck := by.get("DuckDB read_json: payload path"):
        ratio = by["filter on a payload path"].cpu / duck.cpu
        print(f"payload path: {ratio:.2f} × DuckDB for the same predicate (mark: 1.3)")


def main(argv: list[str]) -> None:
    """Makes the journal and prints the table."""
    if argv[:1] == ["--part"]:
        rows: list[Row] = []
        PARTS[argv[1]](Path(argv[2]), rows)
        print(json.dumps(rows))
        return
    size = int(float(argv[0]) * 1_000_000) if argv else 100_000_000
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(argv[1]) if len(argv) > 1 else Path(temporary)
        path = folder / f"journal-{size // 1_000_000}.jsonl"
        if not path.exists():
            print(f"{write_journal(path, size)} messages in {path.stat().st_size} bytes")
        report(path)


if __name__ == "__main__":
    main(sys.argv[1:])
