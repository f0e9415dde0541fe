"""Reads the newest records of a log from files, once for all of its views."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from mew_lab.lab.rows import Rows
from mew_lab.ledger.members import GATEWAYS
from mew_lab.log.log import Log
from mew_lab.space.events import Record

__all__ = ["RING", "NewestRecords", "read_newest"]

RING = 20_000
MOST_EVENTS = 4 * RING  # records without a message beside those
MAX_EXACT = 2**53 - 1  # the greatest number that is exact in a page


class NewestRecords(NamedTuple):
    """The newest records of a log, the oldest first, and the rows of those that hold a message.

    Attributes:
        sign: The sign of their numbers, see `Log.sign`.
    """

    records: list[Record]
    rows: Rows
    sign: str

    def end(self) -> datetime:
        """When the log ends."""
        return self.records[-1].now if self.records else datetime.now(UTC)


def read_newest(log: Log) -> NewestRecords:
    """Reads them."""
    index = log.index

    def find_place(which: str, back: int) -> int:
        sql = f"SELECT place FROM entries WHERE {which} ORDER BY place DESC LIMIT 1 OFFSET ?"
        found = index.query(sql, [back - 1])
        return int(found[0][0]) if found else 1

    first, first_event = find_place("message", 2 * RING), find_place("NOT message", MOST_EVENTS)
    recent = index.rows("place >= ? AND (message OR place >= ?)", [first, first_event], events=True)
    records, sign = [*index.records(recent)], log.sign
    if records and max(record.seq for record in records) > MAX_EXACT:
        # A page would take neighbours for one row. Places are shown instead, as where there is no journal (R37).
        places, sign = recent.tolist(), "~"
        records = [record._replace(seq=place) for place, record in zip(places, records, strict=True)]
    [(before,)] = index.query("SELECT count(*) FROM entries WHERE message AND place < ?", [first])
    senders = {sender for (sender,) in index.query('SELECT DISTINCT "from" FROM lines')} - {"", *GATEWAYS}
    rows = Rows(lambda: (log.space, len(senders)), sign=sign)
    rows.pass_over(before)
    for record in records:
        rows.observe(record)
    return NewestRecords(records, rows, sign)
