"""What of an transcript is shown, and what never is."""

from __future__ import annotations

import json

from mew_lab.conformance.transcript import LONGEST, MOST, WireTranscript
from mew_lab.protocol.token import Token


def test_lines_say_who_and_which_way() -> None:
    transcript = WireTranscript()
    transcript.record_sent("human", '{"kind":"chat"}')
    transcript.record_received("admin", b"#stream-1#\x00")
    transcript.record_event("human", "closes its connection")
    assert str(transcript) == "\n".join(
        [
            'human → {"kind":"chat"}',
            "admin ← binary b'#stream-1#\\x00'",
            "human · closes its connection",
        ]
    )


def test_one_message_is_one_line_of_a_bounded_length() -> None:
    transcript = WireTranscript()
    transcript.record_sent("human", "a\nb" + "- " * 2500)
    (line,) = str(transcript).split("\n")
    assert line.startswith("human → a\\nb- - -")
    assert line.endswith("(5004 characters)")
    assert len(line) < LONGEST + 60


def test_the_last_lines_are_shown_and_the_others_counted() -> None:
    transcript = WireTranscript()
    for number in range(MOST + 7):
        transcript.record_event("human", f"step {number}")
    lines = str(transcript).split("\n")
    assert lines[0] == "… 7 earlier lines"
    assert lines[1:] == [f"human · step {number}" for number in range(7, MOST + 7)]


def test_a_known_token_is_masked_wherever_it_stands() -> None:
    token = Token("a-secret-of-the-tests-abcd")
    transcript = WireTranscript()
    transcript.record_sent("human", json.dumps({"type": "join", "token": token.reveal()}))
    assert token.reveal() not in str(transcript)
    assert "tok_…abcd" in str(transcript)


def test_a_token_that_is_told_later_is_masked_in_what_came_before() -> None:
    transcript = WireTranscript()
    secret = "minted-for-somebody-wxyz"
    transcript.record_event("admin", f"saw {secret}")
    transcript.record_received("admin", json.dumps({"payload": [{"deep": {"token": secret}}]}))
    assert secret not in str(transcript)
    assert str(transcript).count("tok_…wxyz") == 2


def test_what_looks_like_json_and_is_none_is_shown_as_it_is() -> None:
    transcript = WireTranscript()
    transcript.record_received("admin", '{"token": "not closed')
    assert str(transcript) == 'admin ← {"token": "not closed'
