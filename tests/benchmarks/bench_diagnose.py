"""What does a diagnosis cost?  Prints seconds for a million messages, and the growth from a tenth of the log to all of it.

    python tests/benchmarks/bench_diagnose.py [exchanges]

The log is a conversation of a real space; an exchange is about four records. Times are processor time. The control is
the ledger alone over the same records.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from mew_lab.ledger.ledger import Ledger
from mew_lab.log.diagnose.diagnosis import diagnose
from mew_lab.log.entries import entry_of
from mew_lab.log.rare_collection import rare_collection
from mew_lab.space.events import Record
from tests.log.planted import calls, converse, greets, proposes, rejects, reports, thinks

KINDS = (greets, calls, calls, proposes, rejects, thinks, reports)  # what most of a long session is made of


def seconds(run: Callable[[], object]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def control(records: list[Record]) -> None:
    ledger = Ledger()
    with rare_collection:
        for place, record in enumerate(records, 1):
            if record.raw is not None:
                ledger.observe(entry_of(record, place))


def main(exchanges: int) -> None:
    records, _ = converse(1, exchanges, kinds=KINDS)
    messages = sum(record.raw is not None for record in records)
    tenth = records[: len(records) // 10]
    few = sum(record.raw is not None for record in tenth)
    short, whole = seconds(lambda: diagnose(tenth)), seconds(lambda: diagnose(records))
    alone = seconds(lambda: control(records))
    tracemalloc.start()
    found = diagnose(records)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    print(f"{messages} messages, {len(found)} findings")
    print(f"diagnose  {whole / messages * 1e6:6.1f} s for a million messages, mark 20")
    print(f"control   {alone / messages * 1e6:6.1f} s for a million messages: the ledger alone")
    print(
        f"growth    {(whole / messages) / (short / few):6.2f} times the time of a message in a tenth of the log"
    )
    print(f"memory    {peak:6.1f} MiB at the peak")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40_000)
