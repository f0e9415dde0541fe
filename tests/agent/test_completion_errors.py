"""A key that its server echoes: whole, in parts, over two pieces, inside JSON."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.agent.completion_errors import KEY, Redaction
from mew_lab.protocol.token import Token

SECRET = "sk-canary-8F3kQz71LmXw"  # gitleaks:allow
TOKEN = Token(SECRET)


@given(st.lists(st.integers(1, 40)), st.text(max_size=30))
def test_a_key_that_comes_in_pieces_never_gets_through(cuts: list[int], around: str) -> None:
    text = around + SECRET + around + SECRET[:7] + around
    redaction, pieces, at = Redaction(TOKEN), [], 0
    for cut in [*cuts, len(text)]:
        pieces.append(redaction.piece(text[at : at + cut]))
        at += cut
    shown = "".join([*pieces, redaction.piece("", last=True)])
    assert shown == text.replace(SECRET, KEY)


def test_text_without_the_key_is_told_at_once() -> None:
    redaction = Redaction(TOKEN)
    assert redaction.piece("Hello ") == "Hello "
    assert redaction.piece("task") == "ta"  # a key may begin here
    assert redaction.piece("y") == "sky"
    assert redaction.piece("", last=True) == ""


def test_names_and_values_of_json_lose_the_key() -> None:
    value = {"a": [f"x{SECRET}y", 1, None], SECRET: {"b": SECRET}}
    assert Redaction(TOKEN).value(value) == {"a": [f"x{KEY}y", 1, None], KEY: {"b": KEY}}


@pytest.mark.parametrize("shown", ["sk-c***mXw", "sk-canary-8F3k**************", "ends in 1LmXw", SECRET])
def test_a_complaint_shows_no_part_of_the_key_either(shown: str) -> None:
    complaint = Redaction(TOKEN).complaint(
        f"Incorrect API key provided: {shown}. Find yours in the settings."
    )
    assert not any(SECRET[at : at + 4] in complaint for at in range(len(SECRET) - 3))
    assert complaint.startswith("Incorrect API key provided: ")


def test_other_secrets_of_this_process_are_masked_in_a_complaint() -> None:
    other = Token("another-secret-of-ours-31")
    assert other.reveal() not in Redaction(None).complaint(f"who is {other.reveal()}?")


def test_a_key_that_is_no_secret_spoils_no_plain_words() -> None:
    for key in (None, Token("none", remember=False)):
        redaction = Redaction(key)
        assert redaction.text("there is none") == redaction.piece("there is none") == "there is none"
        assert redaction.complaint("there is none") == "there is none"
