"""A dictionary that forgets its oldest entries.

The number of messages from peers is unlimited, so every table that they fill is bounded. The oldest entry is the one
that was added first; with `refresh` it is the one that was set least recently.
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
    """The newest entries, at most `most`; setting one more forgets the oldest.

    Args:
        most: Entries; at least one is kept.
        refresh: Whether setting an existing key makes it the newest. Otherwise it keeps its place, as in any
            dictionary.
        max_size: The limit for the sum of `size_of` of all values, such as bytes. The newest stays even if it alone
            exceeds the limit.
        size_of: The size of a value; it must not change.
        owner_of: The owner of a value, where one owner shall not drive out the entries of others: the oldest of the
            owner that has the most is then forgotten. The owner of a value must not change.
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
        self._keys: dict[str, dict[K, int]] = {}  # of each owner, the oldest first, with their age
        self._sets = 0

    def __setitem__(self, key: K, value: V) -> None:
        if self._size_of is not None:
            old = self.get(key, _MISSING)
            self.size += self._size_of(value) - (0 if old is _MISSING else self._size_of(old))
        self._note_owner(key, value)
        super().__setitem__(key, value)
        if self._refresh:
            self.move_to_end(key)
        while len(self) > 1 and (len(self) > self._most or (self._size_of and self.size > self._max_size)):
            key = next(iter(self)) if self._owner_of is None else self._find_first()
            value = self.pop(key)
            if self._on_forget is not None:
                self._on_forget(key, value)

    def _find_first(self) -> K:
        """The key of the oldest entry of the owner that has the most; of several such owners, the oldest of all."""
        most = max(map(len, self._keys.values()))
        oldest = (next(iter(keys.items())) for keys in self._keys.values() if len(keys) == most)
        return min(oldest, key=lambda entry: entry[1])[0]

    def _note_owner(self, key: K, value: V) -> None:
        """Notes whose entry a key will be; the place of an entry that stays where it is does not change."""
        if self._owner_of is None:
            return
        self._sets += 1
        age, owner = self._sets, self._owner_of(value)
        if key in self:
            before = self._forget_owner(key, self[key])
            age = age if self._refresh else before
        keys = self._keys.setdefault(owner, {})
        keys[key] = age
        if age != self._sets:
            self._keys[owner] = dict(sorted(keys.items(), key=lambda entry: entry[1]))

    def _forget_owner(self, key: K, value: V) -> int:
        if self._owner_of is None:
            return 0
        keys = self._keys[owner := self._owner_of(value)]
        age = keys.pop(key)
        if not keys:
            del self._keys[owner]
        return age

    def __delitem__(self, key: K) -> None:
        if self._size_of is not None:
            self.size -= self._size_of(self[key])
        if key in self:
            self._forget_owner(key, self[key])
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
        self._forget_owner(key, value)
        if self._size_of is not None:
            self.size -= self._size_of(value)
        return key, value

    def clear(self) -> None:
        super().clear()
        self._keys.clear()
        self.size = 0
