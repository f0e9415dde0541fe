"""Numbers the messages of a log so that a number names one message, also where several journals are read together."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator

from mew_lab.errors import JournalError
from mew_lab.log.entries import RecordedEntry, is_message
from mew_lab.space.events import Record

__all__ = ["NumberedEntry", "name_of", "numbered"]


class NumberedEntry(RecordedEntry):
    """The entry of a record whose `seq` is its number: the record's own, or the next free one where that is taken."""

    def __init__(self, record: Record, number: int, place: int) -> None:
        super().__init__(record, place, number)


def numbered(records: Iterable[Record], after: int = 0, *, first: int = 1) -> Iterator[NumberedEntry]:
    """The messages among the records, with rising numbers above `after`; `first` is the place of the first record."""
    for place, record in enumerate(records, first):
        if is_message(record):
            after = max(record.seq, after + 1)
            yield NumberedEntry(record, after, place)


def name_of(which: object) -> str | int:
    """The id or the number that names a message; a number may also be one of NumPy, as a frame has them.

    Raises:
        JournalError: it is neither.
    """
    if isinstance(which, str):
        return which
    try:
        if not isinstance(which, bool):
            return operator.index(which)  # type: ignore[arg-type]  # that is what is tried
    except TypeError:
        pass
    raise JournalError(
        f"A message is named by its id or by its seq, a whole number, not by {str(which)[:40]!r}; log.df has both."
    )
