"""The tables of a log: frames of pandas that print no control character of a peer.

The values are unchanged, and so is what is exported. Only the text for a terminal has invisible characters as escapes:
that of a table, of a part or a column of it, of its counts, and what `to_string` gives. An index, an array and the
results of functions of pandas such as `crosstab` and `describe` are those of pandas, and print as pandas prints them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from mew_lab.protocol.visible import visible_lines

__all__ = ["ShownFrame"]


class ShownFrame(pd.DataFrame):
    """A table whose text is safe for a terminal."""

    @property
    def _constructor(self) -> Callable[..., ShownFrame]:
        return ShownFrame

    @property
    def _constructor_sliced(self) -> Callable[..., _ShownColumn]:
        return _ShownColumn

    def __repr__(self) -> str:
        return visible_lines(super().__repr__())

    def to_string(self, *args: Any, **options: Any) -> Any:
        return _show(super().to_string(*args, **options))

    # pandas makes it without the constructors above.
    def value_counts(self, *args: Any, **options: Any) -> _ShownColumn:
        return _ShownColumn(super().value_counts(*args, **options))


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
        return _show(super().to_string(*args, **options))

    def value_counts(self, *args: Any, **options: Any) -> _ShownColumn:
        return _ShownColumn(super().value_counts(*args, **options))


def _show(text: str | None) -> str | None:
    """The text without invisible characters; None where pandas has written it into a file."""
    return None if text is None else visible_lines(text)
