"""Numbers the messages of a log so that a number names one message, also where several journals are read together.

`#13` is the number of the record in the journal that a reader reads. A reader without that journal shows its own place
as `~13`. Every verb takes both, and ids; an id of that form is written `id:#13`. Of the id of a proposal the beginning
suffices.

Spec: R37.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator

from mew_lab.errors import JournalError
from mew_lab.log.entries import RecordedEntry, is_message, number_after
from mew_lab.protocol.visible import one_line
from mew_lab.space.events import Record

__all__ = ["NumberedEntry", "complete_id", "name_of", "numbered"]

LEAST_BEGINNING = 4  # characters of the id of a proposal that name it
MOST_NAMED = 5  # ids in an error


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


def complete_id(begin: str, ids: Iterable[str]) -> str | None:
    """The id that `begin` is or that alone begins with it, of at least four characters; None where there is none.

    Raises:
        JournalError: several begin so.
    """
    begun = [id for id in dict.fromkeys(ids) if id.startswith(begin)]
    if begin in begun:
        return begin
    if len(begin) < LEAST_BEGINNING or not begun:
        return None
    if len(begun) == 1:
        return begun[0]
    named = ", ".join(one_line(id, 60) for id in begun[:MOST_NAMED])
    raise JournalError(
        f"Cannot tell which message “{one_line(begin, 60)}” means: {len(begun)} begin so, such as {named}. "
        "Give more characters of the id."
    )
