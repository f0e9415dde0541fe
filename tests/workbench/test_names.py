"""What is kept of names is bounded, and nothing that was cut passes for somebody."""

from __future__ import annotations

from mew_lab.workbench.names import MAX_NAME, compared, cut, cut_names


def test_a_name_that_was_cut_is_nobodys_and_one_as_long_as_a_name_may_be_stays() -> None:
    longest = "n" * MAX_NAME
    assert cut_names(["bot", longest, longest + "x", "late"], most=3) == ("bot", longest, "n" * 127 + "…")
    assert (cut("12345", 5), cut("123456", 5)) == ("12345", "1234…")


def test_names_that_are_compared_stand_once_and_whole_or_not_at_all() -> None:
    assert compared(["bot", "helper", "bot"], most=2) == ("bot", "helper")
    assert compared(["bot", "helper", "tools"], most=2) is None
    assert compared(["n" * MAX_NAME], most=2) == ("n" * MAX_NAME,)
    assert compared(["n" * (MAX_NAME + 1)], most=2) is None
