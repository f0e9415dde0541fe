"""A dictionary that forgets its oldest entries.

The number of messages from peers is unlimited, so every table that they fill is bounded. The oldest entry is the one
that was added first; with `refresh` it is the one that was set least recently.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["BoundedDict"]

K = TypeVar("K")
V = TypeVar("V")
_MISSING: Any = object()


class BoundedDict(OrderedDict[K, V]):
    """The newest entries, at most `most`; setting one more forgets the oldest.

    Args:
        most: Entries; at least one is kept.
        refresh: Whether setting an existing key makes it the newest. Otherwise it keeps its place, as in any
            dictionary.
        max_size: The limit for the sum of `size_of` of all values, such as bytes. The newest stays even if it alone
            exceeds the limit.
        size_of: The size of a value; it must not change.
        owner_of: The owner of a value, where one owner shall not drive out the entries of others: the oldest of the
            owner that has the most is then forgotten. It costs a pass over all values, so it suits small tables.
        on_forget: Called with the key and the value of each forgotten entry, after its removal.
    """

    def __init__(
        self,
        most: int,
        *,
        refresh: bool = False,
        max_size: int = 0,
        size_of: Callable[[V], int] | None = None,
        owner_of: Callable[[V], str] | None = None,
        on_forget: Callable[[K, V], object] | None = None,
    ) -> None:
        super().__init__()
        self.size = 0
        self._most = most
        self._refresh = refresh
        self._max_size = max_size
        self._size_of = size_of
        self._owner_of = owner_of
        self._on_forget = on_forget

    def __setitem__(self, key: K, value: V) -> None:
        if self._size_of is not None:
            old = self.get(key, _MISSING)
            self.size += self._size_of(value) - (0 if old is _MISSING else self._size_of(old))
        super().__setitem__(key, value)
        if self._refresh:
            self.move_to_end(key)
        while len(self) > 1 and (len(self) > self._most or self._is_too_large()):
            key = next(iter(self)) if self._owner_of is None else self._find_first(self._owner_of)
            value = self.pop(key)
            if self._on_forget is not None:
                self._on_forget(key, value)

    def _find_first(self, owner_of: Callable[[V], str]) -> K:
        """The key of the oldest entry of the owner that has the most."""
        owners = [owner_of(value) for value in self.values()]
        most = Counter(owners).most_common(1)[0][0]
        return next(key for key, owner in zip(self, owners, strict=True) if owner == most)

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
