"""A large JSON text is parsed in steps that are short, and its value is that of `json.loads`."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.protocol import json_steps
from mew_lab.protocol.json_steps import parse_steps
from mew_lab.protocol.steps import finish

TEXTS = st.text(max_size=60) | st.text(alphabet='"\\,[]{}:é😀\n', max_size=60)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(TEXTS, inner, max_size=8),
    max_leaves=60,
)
SPACES = st.text(alphabet=" \t\r\n", max_size=80)


def outcome(data: bytes, *, in_steps: bool) -> str:
    """The value as text, for an int is no float; a word for a fault."""
    try:
        return repr(finish(parse_steps(data)) if in_steps else json.loads(data.decode()))
    except (ValueError, RecursionError):
        return "a fault"


@pytest.fixture(autouse=True, scope="module")
def windows() -> Any:
    """Windows that are as small as a number, so that small values have many of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_steps, "WINDOW", 32)
        yield


@given(VALUES, st.booleans(), SPACES, st.none() | st.integers(0, 5))
def test_the_value_is_the_same(value: Any, is_ascii: bool, space: str, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent, separators=("," + space, space + ":"))
    data = f"{space}{text}{space}".encode(errors="replace")
    assert repr(finish(parse_steps(data))) == repr(json.loads(data.decode()))


@given(VALUES, st.booleans(), st.integers(0), st.binary(max_size=2) | st.sampled_from([*b',:"\\[]{}0e']))
def test_what_is_no_json_is_a_fault(value: Any, is_ascii: bool, place: int, other: Any) -> None:
    data = bytearray(json.dumps(value, ensure_ascii=is_ascii).encode(errors="replace"))
    place %= len(data) + 1
    data[place : place + 1] = bytes([other]) if isinstance(other, int) else other
    assert outcome(data, in_steps=True) == outcome(data, in_steps=False)


@pytest.mark.parametrize(
    "text", ["[1,  ,2]", "[1,2,]", '{"a":1,}', '{"a" 1}', "[1 2]", "{1:2}", '["a"', "[]]", "\ufeff[]"]
)
def test_a_fault_anywhere_in_a_long_text_is_found(text: str) -> None:
    for before in ("[" + "1," * 99, "[" + '{"a":[1,2]},' * 99, '{"é":' + "[" * 50):
        for after in ("", ",1" * 99 + "]", "]" * 50 + "}"):
            data = f"{before}{text}{after}".encode()
            assert outcome(data, in_steps=True) == outcome(data, in_steps=False)


def test_halves_of_a_character_meet_wherever_a_string_is_cut() -> None:
    for before in range(200):
        data = json.dumps(["x" * before + "😀" * 40 + "\ud83d"]).encode()
        assert finish(parse_steps(data)) == json.loads(data)


def test_one_that_is_nested_too_deeply_is_a_fault() -> None:
    with pytest.raises(RecursionError):
        finish(parse_steps(b"[" * 100_000 + b"]" * 100_000))


def test_no_step_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(json_steps, "WINDOW", 16 * 1024)
    for piece in ("[],", '{"a":[1,[2,"é"]]},', "1.5,", "[" * 30 + "]" * 30 + ","):
        steps = parse_steps(("[" + (piece * (2_000_000 // len(piece)))[:-1] + "]").encode())
        longest, begin = 0.0, time.thread_time()
        with pytest.raises(StopIteration):
            while True:
                next(steps)
                longest, begin = max(longest, time.thread_time() - begin), time.thread_time()
        assert longest < 0.05, piece


def test_a_number_longer_than_a_step_is_a_fault_and_strings_and_lists_may_be_cut_anywhere() -> None:
    with pytest.raises(ValueError, match="a number of more than"):
        finish(parse_steps(b"[" + b"1" * 3 * json_steps.WINDOW + b"]"))
    for before in range(5):
        data = json.dumps(["x" * before + "é€😀" * json_steps.WINDOW], ensure_ascii=False).encode()
        assert finish(parse_steps(data)) == json.loads(data)
    for before in range(14):
        pair = json.dumps(["x" * (4 * json_steps.WINDOW - before) + "😀"]).encode()
        assert finish(parse_steps(pair)) == json.loads(pair)
    for values in (
        [["a,b" * 9] * 40],
        [{"k": "x],y"}] * 40,
        [[1, 2]] * 90,
        ['",' * 50] * 9,
        [1, 'a],b},c",d,' + "e" * 99],
    ):
        data = json.dumps(values).encode()
        assert finish(parse_steps(data)) == json.loads(data)
