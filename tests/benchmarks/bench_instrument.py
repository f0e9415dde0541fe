"""What does it cost to open, filter, search and follow a large log?  Prints a table beside DuckDB, polars and pandas.

    python tests/benchmarks/bench_instrument.py [megabytes] [folder]

Makes a journal of that size (100 MB; 1000 takes some minutes) in a temporary folder or in `folder`, where it is left
and used again. All readers read the same file in one run. Imports are not counted. Seconds are wall time and, in
brackets, processor time, that of child processes included: on a busy machine only the second says something, and with
two threads or processes it may be the larger. A mark is held by the processor time, scaled to the number of messages
where it is one for a million. What is found by processes beside the caller is held by the wall time, as the issue says
for two cores; both work then, and the table says `wall`. What takes less than a fifth of a second is run five times, and
the middle one counts. Each part runs in a process of its own, so that the peak of its memory is its own; the peak of
the largest process that it has begun, and whose end it has seen, is added.
Above `LARGE` megabytes only the parts run that the size is a question for.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from journals import write_journal

from mew_lab.log.sidecar import index_path, remove_index, seal_index

LARGE = 2000
COLUMNS = 'kind == "mcp/proposal" and from == agent-3'
PAYLOAD = "payload.params.name == git_log"
TEXT = "third/7"  # in the paths of some messages


class Mark(NamedTuple):
    """The most seconds that a row may take, of a million messages or of any number, and the most MiB of its process.

    `wall` is set where two processes do the work: then the wall time holds the mark, and not the processor time.
    """

    seconds: float
    of_million: bool = False
    mebibytes: int | None = None
    wall: bool = False


MARKS = {
    "first 5,000 rows": Mark(0.1),
    "index": Mark(8, True, 500, wall=True),
    "second opening": Mark(0.1),
    "filter on columns": Mark(0.03),
    "first filter on state": Mark(30, True, wall=True),
    "filter on state": Mark(0.03),
    "first filter on diag.severity": Mark(30, True, wall=True),
    "filter on diag.severity": Mark(0.03),
    "filter on a payload path": Mark(1.5, True),
    "text search": Mark(1, True),
    "frame of all rows": Mark(1, True),
    "frame without pyarrow": Mark(4, True),
    "follow": Mark(0.1),
    "at(seq)": Mark(0.1),
    "audit of one envelope": Mark(0.1),
    "decisions of one envelope": Mark(0.1),
    "first decisions": Mark(30, True, wall=True),
    "first diagnose": Mark(20, True, wall=True),
    "resume": Mark(6, True, wall=True),
}


class Row(NamedTuple):
    """One line of the printed table."""

    what: str
    wall: float
    cpu: float
    found: int
    peak: int


def measure(name: str, run: Callable[[], Any], rows: list[Row]) -> Any:
    """Runs it, five times where it is short and nothing of it is kept; the peak is that of the process so far, in MiB."""
    took: list[tuple[float, float]] = []
    while not took or (len(took) < 5 and took[0][0] < 0.2 and not name.startswith(("first", "frame"))):
        wall, cpu = time.perf_counter(), time.process_time() + children_cpu()
        result = run()
        took.append((time.process_time() + children_cpu() - cpu, time.perf_counter() - wall))
    cpu, wall = (statistics.median(column) for column in zip(*took, strict=True))
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    peak = sum(resource.getrusage(each).ru_maxrss for each in whose) >> 10
    found = len(result) if hasattr(result, "__len__") else int(isinstance(result, int) and result)
    rows.append(Row(name, wall, cpu, found, peak))
    return result


def children_cpu() -> float:
    """The processor time of the children of this process, also of those that still run (on Linux)."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = ended.ru_utime + ended.ru_stime
    for listed in Path("/proc/self/task").glob("*/children"):
        for child in listed.read_text().split():
            with suppress(OSError):
                fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


def forget_index(path: Path) -> None:
    """Deletes the index of a journal."""
    if (index := index_path(path)) is not None:
        remove_index(index)


def forget_facts(path: Path) -> None:
    """Puts the index in place that holds the columns alone, as it was when it had just been built."""
    plain = path.with_name(f"{path.name}.plain")
    index = index_path(path)
    if plain.exists() and index is not None:  # a small journal has no index file
        shutil.copy2(plain, index)
        seal_index(index, path)


def ours_first(path: Path, rows: list[Row]) -> None:
    """What a log without an index answers."""
    import duckdb  # noqa: F401 - imports are not counted
    import pandas as pd  # noqa: F401

    import mew_lab.log.filter.filtered
    import mew_lab.log.index
    import mew_lab.log.line_frame  # noqa: F401
    from mew_lab.log.log import open_log

    measure("first 5,000 rows", lambda: open_log(path).head(5000), rows)
    measure("first opening and filter", lambda: len(open_log(path).filter(COLUMNS)), rows)


def ours_index(path: Path, rows: list[Row]) -> None:
    """The building of the index."""
    import duckdb  # noqa: F401
    import pandas as pd  # noqa: F401

    from mew_lab.log.log import open_log

    forget_index(path)
    index = measure("index", lambda: open_log(path).index, rows)
    index.stop_passes()
    if index.path is not None:
        shutil.copy2(index.path, path.with_name(f"{path.name}.plain"))


def ours_second(path: Path, rows: list[Row]) -> None:
    """Everything that a built index answers."""
    import duckdb  # noqa: F401
    import pandas as pd  # noqa: F401

    import mew_lab.log.filter.filtered
    import mew_lab.log.line_frame  # noqa: F401
    from mew_lab.log.log import open_log

    measure("first opening of an index and filter", lambda: len(open_log(path).filter(COLUMNS)), rows)
    measure("second opening", lambda: open_log(path).index, rows)
    measure("second opening, number of messages", lambda: len(open_log(path)), rows)
    log = open_log(path)
    measure("filter on columns", lambda: len(log.filter(COLUMNS)), rows)
    measure("filter on columns, its table", lambda: log.filter(COLUMNS).df, rows)
    measure("filter on a payload path", lambda: len(log.filter(PAYLOAD)), rows)
    measure("text search", lambda: len(log.filter(TEXT)), rows)
    measure("text search, a word of every message", lambda: len(log.filter("jsonrpc or protocol")), rows)


def ours_frame(path: Path, rows: list[Row]) -> None:
    """The table of all messages; the records of the peak are those of the table."""
    import pandas as pd  # noqa: F401
    import pyarrow.compute  # noqa: F401

    import mew_lab.log.line_frame  # noqa: F401
    from mew_lab.log.log import open_log

    log = open_log(path)
    log.index.rows("seq = 1")
    measure("frame of all rows", lambda: log.df, rows)


def ours_without(path: Path, rows: list[Row]) -> None:
    """The same where pyarrow is not installed."""
    sys.modules["pyarrow"] = None  # type: ignore[assignment]
    import pandas as pd  # noqa: F401

    import mew_lab.log.index as module
    import mew_lab.log.line_frame  # noqa: F401
    from mew_lab.log.log import open_log

    module.find_spec = lambda name: None  # type: ignore[attr-defined,assignment]
    log = open_log(path)
    log.index.rows("seq = 1")
    measure("frame without pyarrow", lambda: log.df, rows)


def ours_ledger(path: Path, rows: list[Row]) -> None:
    """What follows from several messages: exchanges, moments, the resumption of a space."""
    import pandas as pd  # noqa: F401

    import mew_lab.log.filter.filtered
    import mew_lab.log.follow
    import mew_lab.log.moments  # noqa: F401
    from mew_lab.lab.resuming import Past
    from mew_lab.log.log import open_log

    def resume() -> int:
        """As `mew_lab.up(resume=…)` does: verified, replayed, and with the newest records for the views."""
        newest: list[object] = []
        Past(path, observe=newest.append).journal.close()
        return len(newest)

    log = open_log(path)
    [(proposal, seq)] = log.index.query(
        "SELECT id, seq FROM entries WHERE kind = 'mcp/proposal' ORDER BY place DESC LIMIT 1"
    )
    measure("first follow", lambda: log.follow(proposal).frame, rows)
    measure("follow", lambda: log.follow(proposal).frame, rows)
    measure("first at(seq)", lambda: log.at(int(seq)), rows)
    measure("at(seq)", lambda: log.at(int(seq)), rows)
    measure("first audit of one envelope", lambda: log.audit(proposal), rows)
    measure("audit of one envelope", lambda: log.audit(proposal), rows)
    measure("resume", resume, rows)


def ours_states(path: Path, rows: list[Row]) -> None:
    """Filters on states, the first of which waits for the pass that finds them."""
    import mew_lab.log.filter.filtered
    import mew_lab.log.index  # noqa: F401
    from mew_lab.log.log import open_log

    forget_facts(path)
    log = open_log(path)
    measure("first filter on state", lambda: len(log.filter("state == waiting")), rows)
    measure("filter on state", lambda: len(log.filter("state == waiting and from == observer")), rows)


def ours_frames(path: Path, rows: list[Row]) -> None:
    """Frames, the first of which waits for the same pass."""
    import pandas as pd  # noqa: F401

    import mew_lab.log.frames
    import mew_lab.log.index  # noqa: F401
    from mew_lab.log.log import open_log

    forget_facts(path)
    log = open_log(path)
    [(proposal,)] = log.index.query(
        "SELECT id FROM entries WHERE kind = 'mcp/proposal' ORDER BY place DESC LIMIT 1"
    )
    measure("first decisions", lambda: log.decisions(), rows)
    measure(
        "decisions of one envelope",
        lambda: log.decisions().query("proposal == @proposal", local_dict={"proposal": proposal}),
        rows,
    )
    measure("first frame of an index that holds them", lambda: open_log(path).requests(), rows)


def ours_diagnosis(path: Path, rows: list[Row]) -> None:
    """The diagnosis, and filters on it; the first of them waits for the other pass."""
    import mew_lab.log.diagnose.diagnosis
    import mew_lab.log.filter.filtered
    import mew_lab.log.index  # noqa: F401
    from mew_lab.log.log import open_log

    forget_facts(path)
    log = open_log(path)
    measure("first diagnose", lambda: log.diagnose(), rows)
    measure("diagnose", lambda: open_log(path).diagnose(), rows)
    log.index.stop_passes()
    while log.index.passes:
        time.sleep(0.05)
    forget_facts(path)
    log = open_log(path)
    measure("first filter on diag.severity", lambda: len(log.filter("diag.severity >= warn")), rows)
    measure("filter on diag.severity", lambda: len(log.filter("diag.severity >= warn")), rows)


def by_duckdb(path: Path, rows: list[Row]) -> None:
    """DuckDB alone: the same three filters."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 2; SET enable_progress_bar = false")
    scan = (
        f"read_json('{path}', format='newline_delimited', ignore_errors=true, "
        "columns={seq: 'BIGINT', envelope: 'JSON'})"
    )
    payload = f"SELECT seq FROM {scan} WHERE envelope->>'$.payload.params.name' = 'git_log'"
    measure("DuckDB read_json: payload path", lambda: connection.execute(payload).fetchall(), rows)
    text = f"SELECT seq FROM {scan} WHERE regexp_matches(envelope, '(?i){TEXT}')"
    measure("DuckDB read_json: text", lambda: connection.execute(text).fetchall(), rows)
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


OURS_LARGE: dict[str, Callable[[Path, list[Row]], None]] = {
    "first": ours_first,
    "index": ours_index,
    "states": ours_states,
    "diagnosis": ours_diagnosis,
    "frames": ours_frames,  # the last that forgets the facts: what follows has an index that holds them
    "second": ours_second,
    "frame": ours_frame,
}
PARTS = OURS_LARGE | {
    "without": ours_without,
    "ledger": ours_ledger,
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


def judge(row: Row, messages: int) -> str:
    """The mark of a row, and whether it holds."""
    mark = MARKS.get(row.what)
    if mark is None:
        return ""
    most = mark.seconds * (messages / 1e6 if mark.of_million else 1)
    room = f", {mark.mebibytes} MiB" if mark.mebibytes else ""
    holds = (row.wall if mark.wall else row.cpu) <= most and (
        mark.mebibytes is None or row.peak <= mark.mebibytes
    )
    each = " a million" if mark.of_million else ""
    wall = " wall" if mark.wall else ""
    return f"{'holds' if holds else 'FAILS'}  ≤ {mark.seconds:g} s{wall}{each}{room}"


def report(path: Path, parts: Iterable[str]) -> None:
    """Prints the table of a journal."""
    forget_index(path)
    by: dict[str, Row] = {}
    with path.open("rb") as file:
        messages = sum(b',"envelope":' in line for line in file)
    print(f"{messages} messages in {path.stat().st_size} bytes")
    for name in parts:
        for row in run_part(name, path):
            by[row.what] = row
            print(
                f"{row.what:42}{row.wall:8.3f} s ({row.cpu:7.3f}){row.found:10} found{row.peak:7} MiB  "
                f"{judge(row, messages)}".rstrip(),
                flush=True,
            )
    for what, mark, least, slow, fast in RATIOS:
        if all(name in by for name in (*slow, *fast)):
            ratio = sum(by[name].cpu for name in slow) / sum(by[name].cpu for name in fast)
            holds = "holds" if (ratio >= mark if least else ratio <= mark) else "FAILS"
            print(f"{what:60}{ratio:8.2f} ×  {holds}  {'≥' if least else '≤'} {mark:g}")


PANDAS = ("pandas.read_json(lines=True)", "pandas: kind and sender")
RATIOS: tuple[tuple[str, float, bool, tuple[str, ...], tuple[str, ...]], ...] = (
    ("pandas to our first opening and filter", 6, True, PANDAS, ("first opening and filter",)),
    ("pandas to our index and filter", 6, True, PANDAS, ("index", "filter on columns")),
    ("pandas to our second opening and filter", 20, True, PANDAS, ("second opening", "filter on columns")),
    (
        "our payload path to DuckDB's",
        1.3,
        False,
        ("filter on a payload path",),
        ("DuckDB read_json: payload path",),
    ),
    ("our text search to DuckDB's", 1.3, False, ("text search",), ("DuckDB read_json: text",)),
    (
        "our first opening and filter to DuckDB's filter",
        1.3,
        False,
        ("first opening and filter",),
        ("DuckDB read_json: kind and sender",),
    ),
)
"""Name, mark, whether the ratio is to be at least that, and the rows whose processor time is divided."""


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
            write_journal(path, size)
        report(path, OURS_LARGE if size > LARGE * 1_000_000 else PARTS)


if __name__ == "__main__":
    main(sys.argv[1:])
