"""Text is cut, measured and dated in one way everywhere."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mew_lab.protocol.text import (
    MAX_NAME,
    abridge,
    compared,
    count_of,
    cut,
    cut_middle,
    cut_names,
    fold,
    letters,
    local_time,
    mend_surrogates,
    parse_rfc3339,
    parse_timestamp,
    timestamp,
    utf8_size,
    write_rfc3339,
)
from mew_lab.protocol.visible import visible

texts = st.text(st.characters(), max_size=40)
# A minute of an offset and a year within ours on either side of it.
moments = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=st.just(UTC))
offsets = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(texts, st.integers(1, 50))
def test_a_text_is_cut_to_its_limit_only_where_it_is_longer(text: str, limit: int) -> None:
    for shorten in (cut, cut_middle):
        shown = shorten(text, limit)
        if len(text) <= limit:
            assert shown == text
        else:
            assert len(shown) == limit and "…" in shown
            head, tail = shown.rsplit("…", 1) if text.count("…") == 0 else ("", "")
            assert text.startswith(head) and text.endswith(tail)
    assert cut("123456", 5) == "1234…" and cut_middle("abcdefghijk", 5) == "ab…jk"


@given(texts)
def test_a_text_has_as_many_bytes_as_utf8_takes(text: str) -> None:
    assert utf8_size(text) == sum(
        1 if ord(c) < 0x80 else 2 if ord(c) < 0x800 else 3 if ord(c) < 0x10000 else 4 for c in text
    )


def test_a_name_that_was_cut_is_nobodys_and_one_as_long_as_a_name_may_be_stays() -> None:
    longest = "n" * MAX_NAME
    assert cut_names(["bot", longest, longest + "x", "late"], most=3) == ("bot", longest, "n" * 127 + "…")


@given(st.lists(st.text("ab", max_size=130), max_size=5), st.integers(0, 5))
def test_names_that_are_compared_stand_once_and_whole_or_not_at_all(names: list[str], most: int) -> None:
    found = compared(names, most=most)
    fit = len(set(names)) <= most and all(len(name) <= MAX_NAME for name in names)
    assert (found is not None) is fit
    assert found is None or (set(found) == set(names) and len(found) == len(set(found)))


def test_a_name_longer_than_any_is_never_compared() -> None:
    assert compared(["n" * MAX_NAME], most=1) == ("n" * MAX_NAME,)
    assert compared(["n" * (MAX_NAME + 1)], most=1) is None


@given(moments, offsets)
def test_a_timestamp_is_read_back_from_any_offset_to_its_millisecond(
    moment: datetime, offset: timezone
) -> None:
    exact = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    written = timestamp(moment)
    assert written.endswith("Z") and len(written) == 24
    assert parse_rfc3339(written) == exact == parse_timestamp(written)
    elsewhere = moment.astimezone(offset).isoformat()
    for read in (parse_rfc3339, parse_timestamp):
        found = read(elsewhere)
        assert found == moment and found is not None and found.tzinfo is UTC


# RFC 3339 section 5.6 and 5.8.
@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1985-04-12T23:20:50.52Z", datetime(1985, 4, 12, 23, 20, 50, 520_000, UTC)),
        ("1996-12-19t16:39:57-08:00", datetime(1996, 12, 20, 0, 39, 57, 0, UTC)),
        ("1990-12-31T23:59:60z", datetime(1991, 1, 1, tzinfo=UTC)),
        ("1990-12-31 15:59:60-08:00", datetime(1991, 1, 1, tzinfo=UTC)),
        ("1937-01-01T12:00:27.87+00:20", datetime(1937, 1, 1, 11, 40, 27, 870_000, UTC)),
        *(
            (text, None)
            for text in (
                "", "now", "20260101T000000Z", "2026-01-01", "2026-01-01T12:00:00", "2026-02-30T12:00:00Z",
                "2026-01-01T24:00:00Z", "2026-01-01T12:00:00+24:00", "2026-01-01T12:00:00Z\n", "٢026-01-01T12:00:00Z",
                "9999-12-31T23:59:59-01:00", None, 7,
            )
        ),
    ],
)  # fmt: skip
def test_rfc_3339_is_read_as_it_says_and_nothing_else(text: object, moment: datetime | None) -> None:
    assert parse_rfc3339(text) == moment


@pytest.mark.parametrize("text", ["", "never", None, 7, [], "9999-12-31T23:59:59-01:00"])
def test_what_is_no_time_is_none(text: object) -> None:
    assert parse_timestamp(text) is None


def test_a_time_without_an_offset_is_in_utc() -> None:
    assert parse_timestamp("2026-01-01T12:00:00") == datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_local_time_is_that_of_this_machine() -> None:
    noon = datetime(2026, 1, 1, 12, 30, 5)  # without a zone: the local one
    assert local_time(noon.timestamp()) == "12:30:05"


@given(moments, offsets)
def test_a_moment_is_written_whole_and_in_utc(moment: datetime, offset: timezone) -> None:
    for timespec in ("auto", "microseconds"):
        written = write_rfc3339(moment.astimezone(offset), timespec=timespec)
        assert written.endswith("Z") and parse_rfc3339(written) == moment
    assert write_rfc3339(datetime(2026, 1, 2, 3, tzinfo=UTC)) == "2026-01-02T03:00:00Z"


@given(st.text(max_size=400), st.integers(3, 60))
@example("abcdefghij" * 20, 60)
def test_an_abridged_text_keeps_both_ends_and_counts_what_is_left_out(text: str, limit: int) -> None:
    short = abridge(text, limit)
    if len(text) <= limit:
        assert short == text
        return
    head, tail = text[: limit * 2 // 3], text[-(limit // 3) :]
    assert short == f"{head}\n[… {len(text) - len(head) - len(tail)} characters left out …]\n{tail}"


@pytest.mark.parametrize(
    ("text", "mended"), [("plain é", "plain é"), ("\ud83d\ude00", "\U0001f600"), ("a\ud83db", "a\ufffdb")]
)
def test_a_mended_text_can_be_sent_as_utf_8(text: str, mended: str) -> None:
    assert mend_surrogates(text) == mended


def test_a_number_agrees_with_its_noun_and_its_thousands_stand_apart() -> None:
    assert [count_of(n, "message") for n in (0, 1, 2)] == ["0 messages", "1 message", "2 messages"]
    replies = count_of(12800, "reply", "replies")
    assert replies == "12 800 replies" == visible(replies)  # no escape of a space in a view or a terminal
    assert count_of(1, "reply", "replies") == "1 reply"


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Hello", "hello"),
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("e\u0301t\u00e9", "ete"),
        ("so\u00adft\u200b", "soft"),
        ("\uff30\uff21\uff39", "pay"),
        ("\u0440\u0430y", "pay"),
        ("\ud55c\uad6d", "\ud55c\uad6d"),
        ("a\x00b\x1b", "ab"),
    ],
)
def test_what_does_not_change_the_words_is_folded(text: str, folded: str) -> None:
    assert fold(text) == folded
    assert letters(f"- {text}_! ") == folded


@pytest.mark.threat(37)
def test_texts_of_any_characters_are_folded_alike_and_few_of_them_are_remembered() -> None:
    han = "".join(map(chr, range(0x4E00, 0xA000)))  # more than are remembered
    rare = "".join(map(chr, range(0x20000, 0x2A6E0)))
    assert fold(han) == han
    tracemalloc.start()
    try:
        assert fold(rare) == rare
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 8 * len(rare)  # bytes
    assert fold("\u0440\u0430y \u202e\u0400") == "pay e"
