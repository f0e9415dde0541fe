"""The tables of a log: frames of pandas that print no control character of a peer.

The values are unchanged; only their text on a terminal has invisible characters as escapes. A part of such a table, or
a column, prints so, too.
"""

from __future__ import annotations

from collections.abc import Callable

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


class _ShownColumn(pd.Series):
    @property
    def _constructor(self) -> Callable[..., _ShownColumn]:
        return _ShownColumn

    @property
    def _constructor_expanddim(self) -> Callable[..., ShownFrame]:
        return ShownFrame

    def __repr__(self) -> str:
        return visible_lines(super().__repr__())
