"""Makes the frames of a log: its requests, proposals, decisions and all else that the ledger tracks, as tables.

All frames of a log come from one pass of the ledger over its records. A live log is passed on from where the last pass
ended, so a frame in a cell costs what is new. Values of rows that cannot change any more are computed once and kept;
the other rows are computed for each frame. The index beside a large journal keeps the frames (`stored_frame`).

`print(log.frames["requests"])` shows the columns of a frame with their units (`log.frame_columns`).

Spec: §3.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import le
from typing import TYPE_CHECKING, Any, Protocol

from mew_lab.errors import ConfigError
from mew_lab.log.frame_columns import FRAMES, FrameColumn, FrameSpec
from mew_lab.log.ledger_rows import LedgerPass, whole_number
from mew_lab.log.rare_collection import rare_collection
from mew_lab.log.table import share_equal
from mew_lab.space.events import Record

if TYPE_CHECKING:
    import pandas as pd

    from mew_lab.log.index import LogIndex

__all__ = [
    "UNSEEN_BY_AGENTS",
    "UNSEEN_CONTENTS",
    "UNSEEN_IN_FRAMES",
    "FrameCatalog",
    "FrameMaker",
    "FrameSource",
    "stored_frame",
]

UNSEEN_IN_FRAMES = (
    "Seen as a participant: verdicts, refused messages and the permissions that let messages pass could not be seen. "
    "Calls between others are in it only as far as this participant received them."
)
UNSEEN_BY_AGENTS = (
    "Recorded by a coding agent: what let a call pass is not in it, nor who decided one without a proposal."
)
UNSEEN_CONTENTS = (
    "The contents of messages are not recorded, so calls, grants and chats are missing in its frames."
)


class FrameSource(Protocol):
    """Anything that has frames, such as a `Log`."""

    def frame(self, name: str) -> pd.DataFrame:
        """The frame of that name."""


class FrameCatalog(Mapping[str, FrameSpec]):
    """The frames of a log by name; printed, one line for each."""

    def __getitem__(self, name: str) -> FrameSpec:
        return _spec(name)

    def __iter__(self) -> Iterator[str]:
        return iter(FRAMES)

    def __len__(self) -> int:
        return len(FRAMES)

    def __repr__(self) -> str:
        wide = max(map(len, FRAMES))
        return "\n".join(f"{frame.name:{wide}}  {frame.about}" for frame in FRAMES.values())


def _spec(name: str) -> FrameSpec:
    if name not in FRAMES:
        raise ConfigError(f"there is no frame {name!r:.80} of a log; there are {', '.join(FRAMES)}")
    return FRAMES[name]


class _SettledValues:
    """The values of the rows of one frame that cannot change any more, by column, with the place of each row."""

    def __init__(self, columns: Sequence[FrameColumn]) -> None:
        self.places: list[int] = []
        self.values: list[list[Any]] = [[] for _ in columns]
        self._columns = columns
        self._shared: list[dict[Any, Any]] = [{} for _ in columns]

    def add(self, rows: Sequence[Any]) -> None:
        self.places += [row.place for row in rows]
        for column, values, shared in zip(self._columns, self.values, self._shared, strict=True):
            new = list(map(column.value, rows))
            values += share_equal(new, shared) if column.dtype == "object" else new


class FrameMaker:
    """The frames of one log, made as its records come.

    Args:
        columns: Other columns than those of `FRAMES`, by frame.
        verdicts: Whether the frame `verdicts` can be made.
        unseen: A sentence on what the vantage of the log cannot show; each frame carries it as `attrs["unseen"]`.
        grows: Whether records may come after the first pass; otherwise the values of a frame are held only once.
    """

    def __init__(
        self,
        columns: Mapping[str, Sequence[FrameColumn]] | None = None,
        *,
        verdicts: bool = False,
        unseen: str = "",
        grows: bool = True,
    ) -> None:
        self._columns = {
            name: tuple((columns or {}).get(name) or frame.columns) for name, frame in FRAMES.items()
        }
        self._verdicts = verdicts
        self._unseen = unseen
        self._grows = grows
        self._begin()
        # A cell and a view may ask at the same time, each in its own thread; a pass has one position.
        self._lock = threading.Lock()

    def _begin(self) -> None:
        self._settled = {name: _SettledValues(of) for name, of in self._columns.items()}
        self._pass = LedgerPass(verdicts=self._verdicts)
        # By frame: the number of records when it was made, and the frame.
        self._made: dict[str, tuple[int, pd.DataFrame]] = {}

    def frame(self, name: str, new: Callable[[int], Iterable[Record]]) -> pd.DataFrame:
        """The frame after all records; `new(n)` gives those after the first `n`.

        Changes to it do not change the next one.
        """
        with self._lock, rare_collection:
            try:
                self._read(new(self._pass.places))
            except (
                BaseException
            ):  # such as an interrupt of the cell: half of a pass must not count as a whole one
                self._begin()
                raise
            places, made = self._made.get(name, (-1, None))
            if made is None or places != self._pass.places:
                made = self._make(name)
                self._made[name] = self._pass.places, made
            return made.copy(deep=False)

    def _read(self, records: Iterable[Record]) -> None:
        for record in records:
            self._pass.observe(record)
            if self._pass.due:
                for settled, rows in self._pass.settle().items():
                    self._settled[settled].add(rows)

    def _make(self, name: str) -> pd.DataFrame:
        import pandas as pd

        from mew_lab.log.shown_frame import ShownFrame, show_few

        columns, settled = self._columns[name], self._settled[name]
        if name == "traffic":
            rows: list[Any] = sorted(self._pass.traffic.items())
        elif name == "talk":
            rows = [*self._pass.talk.items()]
        else:
            rows = self._pass.rows[name]
        places = settled.places + [row.place for row in rows] if settled.places else []
        in_order = all(map(le, places, islice(places, 1, None)))
        order = [] if in_order else sorted(range(len(places)), key=places.__getitem__)
        made: dict[str, pd.Series[Any]] = {}
        for at, column in enumerate(columns):
            whole = [*settled.values[at], *map(column.value, rows)]
            if not self._grows:
                settled.values[at] = []
            ordered = [whole[n] for n in order] if order else whole
            try:
                made[column.name] = pd.Series(ordered, dtype=column.dtype)
            except (OverflowError, TypeError, ValueError):
                if column.dtype.lower() != "int64":
                    raise
                # A journal may state any number, also one that no column of pandas holds.
                missing = 0 if column.dtype == "int64" else None
                fitting = [missing if whole_number(value) is None else value for value in ordered]
                made[column.name] = pd.Series(fitting, dtype=column.dtype)
        if not self._grows:
            settled.places = []
        frame = show_few(ShownFrame(made, copy=False), _spec(name).shown)
        if self._unseen:
            frame.attrs["unseen"] = self._unseen
        return frame


def stored_frame(index: LogIndex, name: str, unseen: str = "") -> pd.DataFrame:
    """The frame that an index keeps; it equals the one that a `FrameMaker` makes of the same records."""
    import pandas as pd

    from mew_lab.log.shown_frame import ShownFrame, show_few

    stored = index.frame_values(name)
    made: dict[str, pd.Series[Any]] = {}
    for column in _spec(name).columns:
        values, missing = stored[column.name]
        if column.dtype == "Int64":
            made[column.name] = pd.Series(pd.arrays.IntegerArray(values, missing))
        elif column.dtype == "boolean":
            made[column.name] = pd.Series(pd.arrays.BooleanArray(values, missing))
        else:
            made[column.name] = pd.Series(values, dtype=column.dtype)
    frame = show_few(ShownFrame(made, copy=False), _spec(name).shown)
    if unseen:
        frame.attrs["unseen"] = unseen
    return frame
