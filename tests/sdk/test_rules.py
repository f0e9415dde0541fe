"""Single rules of a JSON Schema; what a whole schema makes of them is in test_fitting."""

from __future__ import annotations

import threading
from typing import Any

import jsonschema
import pytest

from mew_lab.sdk.fitting import Fitting
from mew_lab.sdk.rules import Enough, Work, at_pointer, load, loaded, size


def test_a_pointer_leads_to_a_schema_of_the_same_document_or_nowhere() -> None:
    root = {"$defs": {"a/b": {"type": "null"}, "list": {"prefixItems": [{"type": "string"}]}}, "n": 1}
    assert at_pointer(root, "#") is root
    assert at_pointer(root, "#/$defs/a~1b") == {"type": "null"}
    assert at_pointer(root, "#/$defs/list/prefixItems/0") == {"type": "string"}
    for nowhere in ("#/n", "#/$defs/list/prefixItems/7", "other.json#/a", "#anchor", "#/$defs/none"):
        assert at_pointer(root, nowhere) is None


# JSON Schema core 4.2.2: numbers are equal by value, objects by members, and a boolean is no number.
@pytest.mark.parametrize(
    ("items", "unique"),
    [
        ([1, 1.0], False),
        ([1, True], True),
        ([0, False, "", None, [], {}], True),
        ([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}], False),
        ([[1, 2], [2, 1]], True),
        (["1", 1], True),
        ([[True], [1]], True),
        ([{}, []], True),
    ],
)
def test_items_are_the_same_when_their_json_is(items: list[Any], unique: bool) -> None:
    assert (Fitting({"uniqueItems": True}).check(items).faults == ()) is unique


def test_the_size_of_a_value_grows_with_its_values_and_its_text() -> None:
    assert size([]) == 1 and size({"a": [1, 2]}) == 4
    assert size("x" * 5000) == 101 and size({"x" * 5000: None}) == 102


def test_work_ends_when_it_is_spent_and_a_refused_pattern_is_tried_once() -> None:
    refused: set[str] = set()
    work = Work({}, steps=5500, refused=refused)
    assert work.searcher("(?=a)") is None
    left = work.steps
    assert work.searcher("(?=a)") is None and work.steps == left < 5500 and refused == {"(?=a)"}
    assert work.searcher("a+") is not None
    with pytest.raises(Enough):
        work.searcher("(?=b)")


async def test_the_library_is_loaded_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    create, where = jsonschema.validators.create, []

    def seen(*args: Any, **kwargs: Any) -> Any:
        where.append(threading.current_thread())
        return create(*args, **kwargs)

    monkeypatch.setattr(jsonschema.validators, "create", seen)
    load.cache_clear()
    await loaded()
    await loaded()
    assert len(where) == 1 and where[0] is not threading.current_thread()
    assert load()({}).is_valid(1)
