"""What do journal, table and the session of a coding agent cost?  Prints figures beside their marks and beside a control of the same run.

    python tests/benchmarks/bench_log.py [envelopes] [repeats]

The control parses each line of the same file with the standard library and keeps nothing; the relation to it
moves less with the load of the machine than seconds do. Times are processor time, the median of the repeats.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import orjson
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[2]))

from mew_lab.log.journal import Journal, read_journal
from mew_lab.log.log import open_log
from mew_lab.log.table import to_frame
from mew_lab.space.events import Record
from tests.log.agent_sessions import claude_story

NOW = datetime(2026, 11, 21, 22, 40, 1, 123456, UTC)
STAMP = "2026-11-21T22:40:01.123Z"


class Row(NamedTuple):
    """One line of the printed table."""

    what: str
    value: str
    mark: str = ""


def message(n: int) -> str:
    """A chat of 200 bytes, a tool call, a response: a third each."""
    members: dict[str, object] = {"protocol": "mew/v0.4", "id": f"env-1795292746745262707-{n}", "ts": STAMP}
    members |= {"from": f"participant-{n % 5}", "to": [f"participant-{n % 3}"]}
    if n % 3 == 0:
        members |= {"kind": "chat", "payload": {"text": "x" * 200}}
    elif n % 3 == 1:
        params = {"name": "git_log", "arguments": {"repo_path": f"/tmp/repository/{n}", "max_count": 10}}
        call = {"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params}
        members |= {"kind": "mcp/request", "payload": call}
    else:
        members |= {"kind": "mcp/response", "correlation_id": [f"env-1795292746745262707-{n - 1}"]}
        result = {"content": [{"type": "text", "text": f"commit {n}"}]}
        members |= {"payload": {"jsonrpc": "2.0", "id": n, "result": result}}
    return json.dumps(members, separators=(",", ":"))


def records(count: int) -> list[Record]:
    return [
        Record(
            n, NOW, "received", "demo", "bot", "c1", "memory", "accepted", "", '{"kind":"*"}', raw=message(n)
        )
        for n in range(count)
    ]


def seconds(run: Callable[[], object], repeats: int) -> float:
    """The median of the processor's time."""
    taken = []
    for _ in range(repeats):
        begin = time.process_time()
        run()
        taken.append(time.process_time() - begin)
    return statistics.median(taken)


def control(path: Path) -> None:
    with path.open("rb") as file:
        for line in file:
            json.loads(line)


def session_rows(folder: Path, turns: int) -> list[Row]:
    """The session of a coding agent, 3.4 MB of 1,750 lines where it has 150 turns, beside orjson on its lines."""
    path = claude_story(1, turns, size=3).write(folder / "session.jsonl")
    size = path.stat().st_size

    def read_json() -> int:
        with path.open("rb") as file:
            return len([orjson.loads(line) for line in file])

    ratios = []
    for _ in range(5):  # in turn, so that both meet the same load
        plain = seconds(read_json, 3)
        ratios.append(seconds(lambda: len(open_log(path)), 3) / plain)
    median = statistics.median(ratios)
    what = f"opening a session of {size / 1e6:.1f} MB"
    return [Row(what, f"{median:.2f} × orjson on its lines (control)", "≤ 3 ×")]


def run(count: int, repeats: int) -> list[Row]:
    """All figures, for a journal of `count` envelopes."""
    with tempfile.TemporaryDirectory() as folder:
        given = records(count)
        raw_bytes = sum(len(one.raw or "") for one in given)
        appended: list[Journal] = []

        def append() -> None:
            journal = Journal(Path(folder) / f"j{len(appended)}.jsonl", epoch=1, rotate_at=1 << 40)
            appended.append(journal)
            for one in given:
                journal.append((one,))
            journal.close()

        append_s = seconds(append, repeats)
        given.clear()
        path = appended[0].path
        to_frame([])  # pandas is loaded before anything is timed
        base_s = seconds(lambda: control(path), repeats)
        read_s = seconds(lambda: sum(1 for _ in read_journal(path)), repeats)
        frame_s = seconds(lambda: to_frame(read_journal(path)), repeats)
        pandas_s = seconds(lambda: pd.read_json(path, lines=True), 1)

        tracemalloc.start()
        frame = to_frame(read_journal(path))
        held, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(frame) == count

        log = open_log(path)
        save_s = seconds(lambda: log.save(Path(folder) / "saved.jsonl"), 1)
        of_session = session_rows(Path(folder), 150 if count >= 10_000 else 2)
    per = 1e6 / count
    return [
        Row("envelopes", f"{count}"),
        Row(
            "append, one write a record", f"{append_s * per:.1f} µs", "≤ 20 % of the gateway's CPU a delivery"
        ),
        Row("control: json.loads of each line", f"{base_s:.2f} s"),
        Row("reading the records", f"{read_s:.2f} s, {read_s / base_s:.1f} × control"),
        Row(
            "journal -> DataFrame", f"{frame_s:.2f} s, {frame_s / base_s:.1f} × control", "≤ 2 s for 100 000"
        ),
        Row("control: pandas.read_json of the file", f"{pandas_s:.2f} s, {pandas_s / base_s:.1f} × control"),
        Row("held beyond the raw bytes", f"{(held - raw_bytes) / count:.0f} bytes an envelope", "≤ 1024"),
        Row("at most, while it is made", f"{(peak - raw_bytes) / count:.0f} bytes an envelope"),
        Row("saving", f"{save_s:.2f} s"),
        *of_session,
    ]


def main(argv: list[str]) -> None:
    """Prints the table."""
    count = int(argv[0]) if argv else 100_000
    repeats = int(argv[1]) if len(argv) > 1 else 3
    for row in run(count, repeats):
        print(f"{row.what:40}{row.value:32}{row.mark}".rstrip())


if __name__ == "__main__":
    main(sys.argv[1:])
