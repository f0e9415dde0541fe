from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.protocol.visible import for_terminal, middle, one_line, visible, visible_json, visible_lines


@pytest.mark.threat(17)
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ASCII ~ stays", "plain ASCII ~ stays"),
        ("Grüße, 日本語, “quotes” – …", "Grüße, 日本語, “quotes” – …"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x1b[31mred\x00", "\\u001b[31mred\\u0000"),
        ("user\u202e\u2066txt", "user\\u202e\\u2066txt"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("soft\u00adhyphen no\u00a0break", "soft\\u00adhyphen no\\u00a0break"),
        ("filler\u3164\u115f\uffa0\u2800", "filler\\u3164\\u115f\\uffa0\\u2800"),
        ("selector\ufe0f\U000e0100", "selector\\ufe0f\\U000e0100"),
        ("line\u2028\u2029", "line\\u2028\\u2029"),
        ("half\ud800", "half\\ud800"),
        ("private\ue000", "private\\ue000"),
    ],
)
def test_what_a_reader_would_not_see_is_an_escape(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.threat(17)
@given(st.text(st.characters()))
def test_nothing_unseen_is_left_and_the_rest_is_untouched(text: str) -> None:
    shown = visible(text)
    assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") for c in shown)
    assert visible(shown) == shown


def test_a_line_is_cut_at_its_limit_and_says_so() -> None:
    assert one_line("x" * 120) == "x" * 120
    assert one_line("x" * 121) == "x" * 119 + "…"
    assert len(one_line("\n" * 10**6)) == 120


def test_a_long_id_keeps_both_ends() -> None:
    assert middle("short") == "short"
    assert middle("abcdefghijklmnopqrstuvwxyz0123456789", 11) == "abcde…56789"


@given(st.text())
def test_a_terminal_is_given_no_hidden_character_but_line_breaks_and_our_colours(text: str) -> None:
    shown = for_terminal(text)
    assert all(visible(c) == c for c in shown if c != "\n") or "\x1b[" in text
    assert shown.count("\n") == text.count("\n")
    assert for_terminal(f"\x1b[38;5;117m{visible(text)}\x1b[0m") == f"\x1b[38;5;117m{visible(text)}\x1b[0m"
    assert "\x1b" not in for_terminal("\x1b[8m\x1b[2J\x1b]0;title\x07\x9b1m")


@given(st.text(st.characters() | st.sampled_from("\n\t\r")))
def test_of_the_lines_of_a_text_only_ends_and_tabs_are_left_as_they_are(text: str) -> None:
    shown = visible_lines(text)
    assert [line.split("\t") for line in shown.split("\n")] == [
        [visible(part) for part in line.split("\t")] for line in text.split("\n")
    ]


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_in_which_all_is_visible_says_the_same(value: object) -> None:
    shown = visible_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(shown) == value
    assert all(visible(c) == c for c in shown if c != "\n")
