"""What of an exchange is shown, and what never is."""

from __future__ import annotations

import json

from mew_lab.conformance.exchange import LONGEST, MOST, Exchange
from mew_lab.protocol.token import Token


def test_lines_say_who_and_which_way() -> None:
    exchange = Exchange()
    exchange.sent("human", '{"kind":"chat"}')
    exchange.heard("admin", b"#stream-1#\x00")
    exchange.noted("human", "closes its connection")
    assert str(exchange) == "\n".join(
        [
            'human → {"kind":"chat"}',
            "admin ← binary b'#stream-1#\\x00'",
            "human · closes its connection",
        ]
    )


def test_one_message_is_one_line_of_a_bounded_length() -> None:
    exchange = Exchange()
    exchange.sent("human", "a\nb" + "- " * 2500)
    (line,) = str(exchange).split("\n")
    assert line.startswith("human → a\\nb- - -")
    assert line.endswith("(5004 characters)")
    assert len(line) < LONGEST + 60


def test_the_last_lines_are_shown_and_the_others_counted() -> None:
    exchange = Exchange()
    for number in range(MOST + 7):
        exchange.noted("human", f"step {number}")
    lines = str(exchange).split("\n")
    assert lines[0] == "… 7 earlier lines"
    assert lines[1:] == [f"human · step {number}" for number in range(7, MOST + 7)]


def test_a_known_token_is_masked_wherever_it_stands() -> None:
    token = Token("a-secret-of-the-tests-abcd")
    exchange = Exchange()
    exchange.sent("human", json.dumps({"type": "join", "token": token.reveal()}))
    assert token.reveal() not in str(exchange)
    assert "tok_…abcd" in str(exchange)


def test_a_token_that_is_told_later_is_masked_in_what_came_before() -> None:
    exchange = Exchange()
    secret = "minted-for-somebody-wxyz"
    exchange.noted("admin", f"saw {secret}")
    exchange.heard("admin", json.dumps({"payload": [{"deep": {"token": secret}}]}))
    assert secret not in str(exchange)
    assert str(exchange).count("tok_…wxyz") == 2


def test_what_looks_like_json_and_is_none_is_shown_as_it_is() -> None:
    exchange = Exchange()
    exchange.heard("admin", '{"token": "not closed')
    assert str(exchange) == 'admin ← {"token": "not closed'
