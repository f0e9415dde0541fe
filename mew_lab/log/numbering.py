"""Numbers the messages of a log so that a number names one message, also where several journals are read together.

`#13` is the number of the record in the journal that a reader reads. A reader without that journal shows its own place
as `~13`. Every verb takes both, and ids; an id of that form is written `id:#13`.

Spec: R37.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator

from mew_lab.errors import JournalError
from mew_lab.log.entries import RecordedEntry, is_message, number_after
from mew_lab.space.events import Record

__all__ = ["NumberedEntry", "name_of", "numbered"]


class NumberedEntry(RecordedEntry):
    """The entry of a record whose `seq` is its number: the record's own, or the next free one where that is taken."""

    def __init__(self, record: Record, number: int, place: int, sign: str = "#") -> None:
        super().__init__(record, place, number)
        self.sign = sign


def numbered(
    records: Iterable[Record], after: int = 0, *, first: int = 1, sign: str = "#"
) -> Iterator[NumberedEntry]:
    """The messages among the records, with rising numbers above `after`; `first` is the place of the first record."""
    for place, record in enumerate(records, first):
        if is_message(record):
            after = number_after(record, after)
            yield NumberedEntry(record, after, place, sign)


_NUMBER = re.compile(r"[#~]([0-9]{1,18})")
_ID = "id:"


def name_of(which: object) -> str | int:
    """The id or the number that names a message; a number may also be one of NumPy, as a frame has them.

    A text like `#13` or `~13` is a number, and `id:#13` the id `#13`.

    Raises:
        JournalError: it is neither.
    """
    if isinstance(which, str):
        number = _NUMBER.fullmatch(which)
        return int(number[1]) if number else which.removeprefix(_ID)
    try:
        if not isinstance(which, bool):
            return operator.index(which)  # type: ignore[arg-type]  # that is what is tried
    except TypeError:
        pass
    raise JournalError(
        f"A message is named by its id or by its number, such as '#13', not by {str(which)[:40]!r}; log.df has both, "
        "the number as seq."
    )
