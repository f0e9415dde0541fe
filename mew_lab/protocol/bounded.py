"""A dictionary that forgets its oldest entries.

Messages from peers have no end, so every table that is filled from them has one. The oldest entry is the one that was
added first; with `refresh` it is the one that was set least recently.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["BoundedDict"]

K = TypeVar("K")
V = TypeVar("V")
_MISSING: Any = object()


class BoundedDict(OrderedDict[K, V]):
    """At most `most` entries, the newest alone; setting one more forgets the oldest.

    Args:
        most: Entries; at least one is kept.
        refresh: Whether setting a key that is there makes it the newest. Without, it keeps its place, as in any
            dictionary.
        max_size: What all values together may measure by `size_of`, such as bytes. The newest stays even if it alone
            measures more.
        size_of: Measures a value; the same for the same value at any time.
        on_forget: Called with the key and the value of each entry that is forgotten, after it is gone.
    """

    def __init__(
        self,
        most: int,
        *,
        refresh: bool = False,
        max_size: int = 0,
        size_of: Callable[[V], int] | None = None,
        on_forget: Callable[[K, V], object] | None = None,
    ) -> None:
        super().__init__()
        self.size = 0
        self._most = most
        self._refresh = refresh
        self._max_size = max_size
        self._size_of = size_of
        self._on_forget = on_forget

    def __setitem__(self, key: K, value: V) -> None:
        if self._size_of is not None:
            old = self.get(key, _MISSING)
            self.size += self._size_of(value) - (0 if old is _MISSING else self._size_of(old))
        super().__setitem__(key, value)
        if self._refresh:
            self.move_to_end(key)
        while len(self) > 1 and (len(self) > self._most or self._is_too_large()):
            oldest, forgotten = self.popitem(last=False)
            if self._on_forget is not None:
                self._on_forget(oldest, forgotten)

    def __delitem__(self, key: K) -> None:
        if self._size_of is not None:
            self.size -= self._size_of(self[key])
        super().__delitem__(key)

    def pop(self, key: K, default: Any = _MISSING) -> Any:
        """Removes an entry and returns its value; `default` if there is none."""
        if key not in self:
            if default is _MISSING:
                raise KeyError(key)
            return default
        value = self[key]
        del self[key]
        return value

    def popitem(self, last: bool = True) -> tuple[K, V]:
        """Removes the newest entry, or the oldest."""
        key, value = super().popitem(last)
        if self._size_of is not None:
            self.size -= self._size_of(value)
        return key, value

    def clear(self) -> None:
        super().clear()
        self.size = 0

    def _is_too_large(self) -> bool:
        return self._size_of is not None and self.size > self._max_size
