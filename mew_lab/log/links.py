"""Finds the rows of an index that may belong to one exchange, so that only these rows are read.

Messages are related by texts (`chains`): `correlation_id` or a part of `context` is the id of another message, or both
name one stream. Such a text links all rows that have it, and rows that are linked, directly or through others, are a
group. Nothing else relates messages. So an exchange lies within one group, and whatever decides what belongs to it lies
there too: read alone, in the order received, a group gives the same exchange as the whole log.

The groups of a million rows are found in about a second, with DuckDB and NumPy, and take 20 bytes a row.

Spec: §3 (correlation_id, context).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mew_lab.log.chains import Chains, no_such, number_in
from mew_lab.log.follow import MOST_MESSAGES, MOST_TEXT, FollowedExchange, followed
from mew_lab.log.index import LogIndex
from mew_lab.log.line import read_members
from mew_lab.log.numbering import NumberedEntry

__all__ = ["IndexedExchanges", "LinkedRows"]

Array = np.ndarray[Any, np.dtype[Any]]
_FAR = 1 << 62

# Of each row, the texts by which it may be linked; `names` is whether others name it by this text. An id that nobody has
# links nothing: else all messages with a context like "main" would be one group.
_LINKS = """
SELECT place - 1 AS row, hash("text") AS link, names FROM (
    SELECT place, id AS "text", true AS names FROM lines WHERE id <> ''
    UNION ALL SELECT place, unnest(correlation_id), false FROM lines
    UNION ALL SELECT place, unnest(string_split(context, '/')), false FROM lines WHERE context <> ''
    UNION ALL SELECT place, stream::VARCHAR, opens FROM streams WHERE stream IS NOT NULL
)
"""


class IndexedExchanges:
    """Finds exchanges in a large log of files by its index: it reads only the messages linked to the one asked for.

    Of more than `most` linked messages, the nearest in the log are read.
    """

    def __init__(self, index: LogIndex, *, most: int = MOST_MESSAGES, sign: str = "#") -> None:
        self._index, self._most, self._sign = index, most, sign
        self._links: LinkedRows | None = None
        # The places of the messages of the newest exchange, and these messages.
        self._read: tuple[bytes, Chains] | None = None

    def follow(self, which: str | int, *, most: int = 200) -> FollowedExchange:
        """The exchange of the message with an id or a number, of at most `most` messages, the nearest.

        Raises:
            JournalError: when there is no such message, or a file was changed.
        """
        links = self._links
        if links is None or links.rows != len(self._index):
            links, self._read = LinkedRows(self._index), None
            self._links = links
        found = links.find(which)
        if not len(found):
            count = len(links.places)
            held = (
                f"{count} in the log, from {self._sign}{links.numbers[0]} on" if count else "the log is empty"
            )
            raise no_such(which, held, self._sign)
        places = links.group_of(found, most=self._most)
        key = places.tobytes()
        if self._read is None or self._read[0] != key:
            chains = Chains(most=self._most, characters=MOST_TEXT)
            numbers = links.numbers_of(places).tolist()
            for record, number, place in zip(
                self._index.records(places), numbers, places.tolist(), strict=True
            ):
                chains.add(NumberedEntry(record, number, place, self._sign))
            self._read = key, chains
        return followed(self._read[1], which, most)


class LinkedRows:
    """The groups of the rows that an index has now, and the numbers of its messages (`numbering`).

    Attributes:
        rows: The number of rows.
        places: The places of the messages, in their order; `numbers` are their numbers, which rise.
    """

    def __init__(self, index: LogIndex) -> None:
        self._index = index
        self.rows = len(index)
        self.places, self.numbers = _number_messages(index)
        self._groups = _find_groups(*_read_links(index), self.rows)

    def find(self, which: str | int) -> Array:
        """The places of the messages that an id or a number may name; `Chains` decides between them."""
        number = number_in(which) if isinstance(which, str) else which
        at = np.searchsorted(self.numbers, [number, number + 1]) if number is not None else (0, 0)
        found = self.places[at[0] : at[1]]
        # No message has an id that is no valid Unicode: its text is not read as JSON.
        if isinstance(which, str) and which and which.encode("utf-8", "ignore").decode() == which:
            found = np.concatenate([self._index.rows("id = ?", [which]), found])
        return found

    def group_of(self, places: Array, *, most: int) -> Array:
        """The places in the groups of some rows, in their order; of more than `most`, those around the first row."""
        wanted = np.unique(self._groups[places - 1])
        found = np.flatnonzero(np.isin(self._groups, wanted)) + 1
        first = int(np.searchsorted(found, places[0])) - most // 2
        first = max(0, min(first, len(found) - most))
        return found[first : first + most]

    def numbers_of(self, places: Array) -> Array:
        """The numbers of the messages at some places."""
        return self.numbers[np.searchsorted(self.places, places)]


def _number_messages(index: LogIndex) -> tuple[Array, Array]:
    """The places and the numbers of the messages."""
    found = index.fetch("SELECT place, seq FROM lines WHERE message ORDER BY place")
    places, seqs = found["place"], found["seq"]
    if len(seqs) and max(-int(seqs.min()), int(seqs.max())) > _FAR:  # no type of NumPy holds the numbers
        seqs = seqs.astype(object)
    # Each number is the record's own or the one after the number before it, whichever is larger (`numbered`).
    ranks = np.arange(1, len(seqs) + 1)
    return places, np.maximum(np.maximum.accumulate(seqs - ranks), 0) + ranks if len(seqs) else seqs


def _read_links(index: LogIndex) -> tuple[Array, Array, Array]:
    """Of each text that a row has: the row from 0, a number of the text, and whether it is a name of the row."""
    streams = index.fetch(
        "SELECT place, kind = 'stream/open' AS opens FROM entries WHERE message AND starts_with(kind, 'stream/')"
    )
    named = [_stream_in(text) for text in index.texts(streams["place"])]
    streams["stream"] = np.array([*named, None], dtype=object)[:-1]
    links = index.fetch(_LINKS, tables={"streams": streams})
    return links["row"], links["link"], links["names"]


def _stream_in(text: str | None) -> str | None:
    """The id of the stream that a message names; None where it names none."""
    payload = (read_members(text) or {}).get("payload") if text is not None else None
    stream = payload.get("stream_id") if isinstance(payload, dict) else None
    return stream if isinstance(stream, str) and stream else None


def _find_groups(rows: Array, links: Array, names: Array, count: int) -> Array:
    """The group of each of `count` rows, which is the first row of the group."""
    groups = np.arange(count, dtype=np.int32)
    if not len(links):
        return groups
    order = np.argsort(links)
    rows, links, names = rows[order], links[order], names[order]
    starts = np.flatnonzero(np.concatenate([[True], links[1:] != links[:-1]]))
    sizes = np.diff(starts, append=len(links))
    is_link = np.logical_or.reduceat(names, starts) & (sizes > 1)
    rows, sizes = rows[np.repeat(is_link, sizes)], sizes[is_link]
    starts = np.cumsum(sizes) - sizes
    # In each round every group that has a neighbour joins one: the rounds are few however long the chain of links is.
    while len(rows):
        least = np.repeat(np.minimum.reduceat(groups[rows], starts), sizes)
        joins = least < groups[rows]
        if not joins.any():
            break
        np.minimum.at(groups, groups[rows[joins]], least[joins])
        while not np.array_equal(nearer := groups[groups], groups):
            groups = nearer
    return groups
