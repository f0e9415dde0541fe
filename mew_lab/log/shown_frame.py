"""The tables of a log: frames of pandas that print no control character of a peer.

The values are unchanged, and so is what is exported. Only what is printed or displayed has invisible characters as
escapes, and a tuple of texts as these texts (`human`, or nothing where it is empty): a table, a part or a column of it,
what its methods make of it, and what `to_string` gives. The arrays of a column of text (`unique`, `values`, `array`)
have Python objects, which print as escapes.

What is printed or displayed has likely secrets masked, too, and their number below it.

A wide table of a log shows five of its columns, and says how many others it has. `frame.columns` names them all, and
`to_string`, `to_html` or a choice of columns shows them.

An index, a categorical, and the results of functions of pandas such as `crosstab` are those of pandas, and print as
pandas prints them: an index of a class of ours is another to `assert_frame_equal`, and pandas joins and adds it in
another way, for it asks whether the class is Index itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from mew_lab.log.redaction import shown_mask
from mew_lab.protocol.likely_secrets import SecretMask
from mew_lab.protocol.visible import visible_lines

__all__ = ["ShownFrame", "show_few"]

FEW = "shown"  # in `attrs`: the columns that are shown of a whole table, and how many it has
MOST_SHOWN = 8  # columns of a table that is shown whole


def show_few(frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """The frame, of which these columns are shown by default where it is wide."""
    if columns and len(frame.columns) > MOST_SHOWN and set(columns) <= set(frame.columns):
        frame.attrs[FEW] = {"columns": list(columns), "of": len(frame.columns)}
    return frame


class ShownFrame(pd.DataFrame):
    """A table whose text is safe for a terminal."""

    @property
    def _constructor(self) -> Callable[..., ShownFrame]:
        return ShownFrame

    @property
    def _constructor_sliced(self) -> Callable[..., _ShownColumn]:
        return _ShownColumn

    def __repr__(self) -> str:
        if (few := self._few()) is not None:
            # All of the five, however narrow the terminal is: they were chosen because they say what a row is.
            with pd.option_context("display.expand_frame_repr", False, "display.max_columns", None):
                return f"{few!r}\n{self._others(few)}"
        return visible_lines(super().__repr__())

    def _repr_html_(self) -> str | None:
        if (few := self._few()) is not None:
            return f"{few._repr_html_()}<p>{self._others(few)}</p>"
        plain, masked = _printable(pd.DataFrame(self, copy=False), pd.get_option("display.max_rows"))
        shown = _show(plain._repr_html_())  # type: ignore[operator]
        return f"{shown}<p>{masked}.</p>" if shown is not None and masked else shown

    def _few(self) -> ShownFrame | None:
        """The columns that are shown; None where all are, as where somebody has chosen some."""
        told = self.attrs.get(FEW)
        if not isinstance(told, dict) or told["of"] != len(self.columns):
            return None
        return self[told["columns"]] if set(told["columns"]) <= set(self.columns) else None

    def _others(self, few: ShownFrame) -> str:
        more = len(self.columns) - len(few.columns)
        return f"and {more} more columns; frame.columns names them, frame.to_string() prints all"

    def to_string(self, *args: Any, **options: Any) -> Any:
        plain, masked = _printable(pd.DataFrame(self, copy=False), options.get("max_rows"))
        return _show(plain.to_string(*args, **options), masked)

    def to_html(self, *args: Any, **options: Any) -> Any:
        plain, _ = _printable(pd.DataFrame(self, copy=False), options.get("max_rows"))
        return _show(plain.to_html(*args, **options))

    # pandas makes these without the constructors above.
    def value_counts(self, *args: Any, **options: Any) -> _ShownColumn:
        return _ShownColumn(super().value_counts(*args, **options))

    def describe(self, *args: Any, **options: Any) -> ShownFrame:  # type: ignore[misc]
        return ShownFrame(super().describe(*args, **options))


class _ShownColumn(pd.Series):
    @property
    def _constructor(self) -> Callable[..., _ShownColumn]:
        return _ShownColumn

    @property
    def _constructor_expanddim(self) -> Callable[..., ShownFrame]:
        return ShownFrame

    def __repr__(self) -> str:
        return visible_lines(super().__repr__())

    def to_string(self, *args: Any, **options: Any) -> Any:
        plain, masked = _printable(pd.Series(self, copy=False).to_frame(), options.get("max_rows"))
        return _show(plain.iloc[:, 0].to_string(*args, **options), masked)

    def value_counts(self, *args: Any, **options: Any) -> _ShownColumn:
        return _ShownColumn(super().value_counts(*args, **options))

    def describe(self, *args: Any, **options: Any) -> _ShownColumn:  # type: ignore[misc]
        return _ShownColumn(super().describe(*args, **options))

    def unique(self) -> Any:
        return _objects(super().unique())

    @property
    def values(self) -> Any:
        return _objects(super().values)

    @property
    def array(self) -> Any:  # type: ignore[override]
        array = super().array
        return pd.array(_objects(array), dtype=object) if isinstance(array.dtype, pd.StringDtype) else array


def _printable(frame: pd.DataFrame, most: int | None) -> tuple[pd.DataFrame, str]:
    """The frame as it is printed, in the rows that are shown when it shows `most`, and how many secrets it lacks.

    Tuples of texts are texts, and likely secrets are masked.
    """
    mask, count = shown_mask(), len(frame)
    # Of a long table, pandas shows the first and the last rows; it may have a million.
    shown = range(count) if not most or count <= 2 * most else (*range(most), *range(count - most, count))
    for at in range(len(frame.columns)):
        column = frame.iloc[:, at]
        if getattr(column.dtype, "kind", "O") == "O":
            values = {row: _printed(column.iloc[row], mask) for row in shown}
            if changed := {row: value for row, value in values.items() if value is not column.iloc[row]}:
                cells = column.astype(object).to_numpy(copy=True)
                for row, value in changed.items():
                    cells[row] = value
                frame.isetitem(at, cells)
    return frame, "" if mask is None else str(mask)


def _printed(value: Any, mask: SecretMask | None) -> Any:
    """A value as it is printed; the same object where nothing changes."""
    if isinstance(value, tuple) and all(isinstance(one, str) for one in value):
        value = ", ".join(one if one and "," not in one else repr(one) for one in value)
    if mask is None or not isinstance(value, str | dict | list):
        return value
    before, masked = mask.found, mask.value(value)
    return masked if mask.found > before else value


def _objects(values: Any) -> Any:
    """An array of text as one of Python objects; another one as it is."""
    return values.astype(object) if isinstance(values.dtype, pd.StringDtype) else values


def _show(text: str | None, masked: str = "") -> str | None:
    """The text without invisible characters; None where pandas has written it into a file."""
    if text is None:
        return None
    return visible_lines(f"{text}\n{masked}." if masked else text)
