"""What a page has of the rows of a view is, message by message, what the view has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mew_lab.views.ui.sent_rows import ChangedKeys, SentRows

ROWS = st.dictionaries(st.integers(0, 12), st.integers(0, 2))


@given(states=st.lists(ROWS), most=st.integers(1, 5))
def test_a_page_that_gets_each_message_ends_with_the_rows_and_none_is_too_long(
    states: list[dict[int, int]], most: int
) -> None:
    sent, page = SentRows[int, int](most=most), dict[int, int]()
    for rows in states:
        while True:
            before, news = dict(page), sent.take(rows)
            assert len(news.changed) <= most and len(news.gone) <= most
            for key in news.gone:
                del page[key]
            fresh = [key for key, row in rows.items() if before.get(key) != row][:most]
            assert news.changed == [(rows[key], before.get(key)) for key in fresh]
            page.update((key, rows[key]) for key in fresh)
            if not news.is_cut:
                break
        assert page == rows
        assert sent.take(rows) == ([], [], False), "what was sent is not sent again"


@given(steps=st.lists(st.integers(0, 9) | st.none()), most=st.integers(1, 4))
def test_each_noted_key_is_taken_once_in_order_until_it_is_noted_anew(
    steps: list[int | None], most: int
) -> None:
    changed, waiting = ChangedKeys[int](), list[int]()
    for key in steps:
        if key is None:
            assert changed.take(most) == waiting[:most]
            del waiting[:most]
        else:
            changed.add(key)
            waiting += [key] if key not in waiting else []
        assert len(changed) == len(waiting)
    assert changed.take() == waiting and changed.take() == []
