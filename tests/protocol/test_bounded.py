"""A bounded dictionary is a dictionary that holds the newest entries alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.protocol.bounded import BoundedDict

DEEDS = ["set"] * 6 + ["default", "update", "del", "pop", "oldest", "newest", "clear"]
deeds = st.lists(st.tuples(st.sampled_from(DEEDS), st.integers(0, 5), st.integers(0, 9)), max_size=30)


@given(deeds, st.integers(1, 4), st.booleans(), st.none() | st.integers(0, 20), st.booleans())
def test_it_holds_what_a_list_of_the_newest_would(
    deeds: list[tuple[str, int, int]], most: int, refresh: bool, max_size: int | None, owned: bool
) -> None:
    forgotten: list[tuple[int, int]] = []
    sized: dict[str, Any] = {} if max_size is None else {"max_size": max_size, "size_of": lambda value: value}
    if owned:
        sized["owner_of"] = lambda value: str(value % 3)
    real: BoundedDict[int, int] = BoundedDict(
        most, refresh=refresh, on_forget=lambda *entry: forgotten.append(entry), **sized
    )
    model: list[tuple[int, int]] = []
    gone: list[tuple[int, int]] = []

    def put(key: int, value: int) -> None:
        at = next((n for n, (one, _) in enumerate(model) if one == key), None)
        if at is not None and not refresh:
            model[at] = (key, value)
        else:
            model[:] = [one for one in model if one[0] != key] + [(key, value)]
        while len(model) > 1 and (
            len(model) > most or (max_size is not None and sum(value for _, value in model) > max_size)
        ):
            owners = [value % 3 if owned else 0 for _, value in model]
            gone.append(model.pop(owners.index(max(owners, key=owners.count))))

    for deed, key, value in deeds:
        if deed == "set":
            real[key] = value
            put(key, value)
        elif deed == "default":
            if key not in dict(model):
                put(key, value)
            real.setdefault(key, value)
        elif deed == "update":
            real.update({key: value, (key + 1) % 6: value})
            put(key, value)
            put((key + 1) % 6, value)
        elif deed in ("del", "pop"):
            if key in dict(model):
                if deed == "del":
                    del real[key]
                else:
                    assert real.pop(key) == dict(model)[key]
                model[:] = [one for one in model if one[0] != key]
            else:
                with pytest.raises(KeyError):
                    real.pop(key)
                assert real.pop(key, None) is None
        elif deed == "clear":
            real.clear()
            model.clear()
        elif model:
            expected = model.pop(0 if deed == "oldest" else -1)
            assert real.popitem(last=deed == "newest") == expected
        assert list(real.items()) == model
        assert real.size == (sum(value for _, value in model) if max_size is not None else 0)
    assert forgotten == gone


def test_the_oldest_goes_whether_anybody_is_told_or_not() -> None:
    bounded: BoundedDict[int, str] = BoundedDict(2)
    for n in range(4):
        bounded[n] = "x"
    assert list(bounded) == [2, 3]


def test_the_size_follows_what_is_taken_out() -> None:
    bounded: BoundedDict[int, str] = BoundedDict(9, max_size=5, size_of=len)
    bounded[1], bounded[2] = "ab", "cde"
    del bounded[1]
    assert (bounded.size, bounded.pop(2), bounded.size) == (3, "cde", 0)
    bounded[3] = "longer than that"
    assert list(bounded) == [3]


def test_forgetting_costs_no_pass_over_all_entries() -> None:
    asked = 0

    def owner_of(value: int) -> str:
        nonlocal asked
        asked += 1
        return "eve" if value else "ada"

    bounded: BoundedDict[int, int] = BoundedDict(1000, owner_of=owner_of)
    bounded[0] = 0
    for n in range(1, 3000):
        bounded[n] = n
    assert bounded[0] == 0 and len(bounded) == 1000  # the oldest, of another owner, stays
    assert asked < 4 * 3000


def test_what_it_does_not_hold_cannot_be_taken_out() -> None:
    held: BoundedDict[str, int] = BoundedDict(3)
    with pytest.raises(KeyError):
        del held["x"]
