"""A column of payloads: dicts when taken out, texts within."""

from __future__ import annotations

import pandas as pd
import pytest

from mew_lab.log.payloads import PayloadArray, PayloadDtype, read_payload

RAWS = [f'{{"payload":{{"n":{n}}}}}' for n in range(4)]


@pytest.fixture
def column() -> pd.Series:  # type: ignore[type-arg]
    return pd.Series(PayloadArray.of_messages([*RAWS, None]))


def test_a_payload_is_read_from_its_text() -> None:
    assert read_payload('{"payload":{"a":[1]}}') == {"a": [1]}
    assert read_payload('{"payload":7}') == {}
    assert read_payload("{}") == {}
    assert read_payload("no json") == {}


@pytest.mark.threat(8)
def test_a_number_of_thousands_of_digits_is_no_fault() -> None:
    assert read_payload('{"payload":{"n":' + "1" * 5000 + "}}") == {}
    assert read_payload('{"payload":{"n":' + "1" * 308 + "}}") == {"n": int("1" * 308)}


def test_taking_out_gives_dicts(column: pd.Series) -> None:  # type: ignore[type-arg]
    assert column[2] == {"n": 2}
    assert column.iloc[-1] is None
    assert list(column[:2]) == [{"n": 0}, {"n": 1}]
    assert list(column[column.notna()].map(lambda payload: payload["n"])) == [0, 1, 2, 3]
    doubled = column.map(lambda payload: 2 * payload["n"] if payload else 0)
    assert (str(doubled.dtype), doubled.tolist()) == ("int64", [0, 2, 4, 6, 0])
    words = column.map(lambda payload: str(payload))
    assert words.tolist() == ["{'n': 0}", "{'n': 1}", "{'n': 2}", "{'n': 3}", "None"]
    assert column.isna().tolist() == [False] * 4 + [True]


def test_changing_what_was_taken_out_changes_nothing(column: pd.Series) -> None:  # type: ignore[type-arg]
    column[0]["n"] = 99
    assert column[0] == {"n": 0}


def test_order_selection_and_growth_keep_the_type(column: pd.Series) -> None:  # type: ignore[type-arg]
    assert list(column.iloc[[3, 0]]) == [{"n": 3}, {"n": 0}]
    assert list(column.reindex([0, 77])) == [{"n": 0}, None]
    assert list(column.array.take([1, -1])) == [{"n": 1}, None]
    both = pd.concat([column, column], ignore_index=True)
    assert isinstance(both.dtype, PayloadDtype)
    assert both[7] == {"n": 2}
    assert list(column.copy()) == list(column)
    assert column.to_numpy()[1] == {"n": 1}


def test_payloads_compare_with_dicts_and_with_each_other(column: pd.Series) -> None:  # type: ignore[type-arg]
    assert (column == {"n": 1}).tolist() == [False, True, False, False, False]
    assert (column.array == column.array).all()


def test_dicts_can_be_put_in() -> None:
    column = pd.Series([{"é": 10**30}, None], dtype="mew_payload")
    assert column[0] == {"é": 10**30}
    assert column[1] is None
    with pytest.raises(TypeError, match="payloads are dicts"):
        pd.Series(["text"], dtype="mew_payload")


def test_a_row_costs_a_pointer(column: pd.Series) -> None:  # type: ignore[type-arg]
    assert isinstance(column.array, PayloadArray)
    assert column.array.nbytes == 8 * len(column)


def test_a_long_column_is_shown_short(column: pd.Series) -> None:  # type: ignore[type-arg]
    assert "{'n': 0}" in repr(column)
    assert "mew_payload" in repr(column)


def test_a_text_with_half_a_surrogate_pair_can_be_written_as_parquet_holds_it() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    texts = pd.Series(["a\ud800", "é", None], dtype="mew_text")
    assert pyarrow.array(texts.array).to_pylist() == ["a\\ud800", "é", None]
