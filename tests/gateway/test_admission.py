"""Hosts, join frames, tokens in headers: read and judged."""

from __future__ import annotations

import json

import pytest

from mew_lab.errors import ProtocolError
from mew_lab.gateway.admission import Hosts, Identity, JoinFrame, bearer, identify, read_join, without_join
from mew_lab.gateway.auth import Tokens
from mew_lab.protocol.token import Token

SECRET = "canary-0123456789-door"


@pytest.mark.threat(25)
@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1:8080", "[::1]:8080", "LocalHost:8080"])
def test_loopback_names_with_our_port_mean_us(host: str) -> None:
    assert host in Hosts(8080)


@pytest.mark.threat(25)
@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.test",
        "evil.test:8080",
        "localhost",
        "localhost:80",
        "localhost:8081",
        "localhost:8080:8080",
        "localhost:8080@evil.test",
        "127.0.0.1.evil.test:8080",
        "localhost.:8080",
        "::1:8080",
        "0.0.0.0:8080",
        "[::ffff:127.0.0.1]:8080",
        " localhost:8080",
        "localhost:8080,evil.test",
    ],
)
def test_every_other_name_does_not(host: str) -> None:
    assert host not in Hosts(8080)
    assert host not in Hosts(8080, bound="0.0.0.0")


@pytest.mark.threat(25)
def test_a_configured_name_is_good_with_the_port_it_names_or_with_any() -> None:
    hosts = Hosts(8080, allowed=["lab.example", "hub.example:9000"])
    assert all(host in hosts for host in ("lab.example", "LAB.example:443", "hub.example:9000"))
    assert not any(
        host in hosts for host in ("hub.example", "hub.example:9001", "x.lab.example", "lab.example:x")
    )


def test_an_address_that_was_chosen_to_listen_on_is_ours() -> None:
    assert "192.0.2.7:8080" in Hosts(8080, bound="192.0.2.7")
    assert "[2001:db8::1]:8080" in Hosts(8080, bound="2001:db8::1")
    assert "192.0.2.7:8081" not in Hosts(8080, bound="192.0.2.7")


def test_on_port_80_a_client_leaves_the_port_out() -> None:
    assert "localhost" in Hosts(80)
    assert "localhost:81" not in Hosts(80)


@pytest.mark.parametrize(
    ("header", "secret"),
    [
        (f"Bearer {SECRET}", SECRET),
        (f"bearer   {SECRET} ", SECRET),
        (f"Basic {SECRET}", None),
        (SECRET, None),
        ("Bearer", None),
        ("Bearer  ", None),
        ("", None),
        (None, None),
    ],
)
def test_a_bearer_token_is_read_from_the_header(header: str | None, secret: str | None) -> None:
    token = bearer(header)
    assert (token and token.reveal()) == secret


BOTH_FORMS = pytest.mark.parametrize(
    "frame",
    [
        {"type": "join", "space": "demo", "token": SECRET, "participantId": "bot-1", "capabilities": []},
        {"kind": "system/join", "payload": {"space": "demo", "token": SECRET, "participantId": "bot-1"}},
    ],
    ids=["type", "kind"],
)


@BOTH_FORMS
def test_a_join_frame_is_read_in_both_forms(frame: dict[str, object]) -> None:
    claim = read_join(json.dumps(frame), limit=4096)
    assert claim == JoinFrame("demo", Token(SECRET), "bot-1")


@BOTH_FORMS
def test_a_join_frame_over_the_limit_is_none(frame: dict[str, object]) -> None:
    text = json.dumps(frame)
    assert read_join(text, limit=len(text)) is not None
    assert read_join(text, limit=len(text) - 1) is None


def test_what_a_join_frame_leaves_out_is_empty() -> None:
    assert read_join('{"type":"join"}', limit=4096) == JoinFrame("", None, "")
    assert read_join('{"kind":"system/join"}', limit=4096) == JoinFrame("", None, "")
    assert read_join('{"type":"join","token":null,"participantId":""}', limit=4096) == JoinFrame("", None, "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "[]",
        '{"kind":"chat"}',
        '{"type":"join","type":"join"}',
        '{"type":["join"]}',
        "#stream-1#join",
    ],
)
def test_anything_else_is_no_join_frame(text: str) -> None:
    assert read_join(text, limit=4096) is None


@pytest.mark.parametrize("member", ["space", "token", "participantId"])
def test_a_join_frame_whose_members_are_no_strings_is_a_fault(member: str) -> None:
    with pytest.raises(ProtocolError, match="must be strings"):
        read_join(json.dumps({"type": "join", member: {"a": 1}}), limit=4096)


@pytest.mark.threat(1)
@pytest.mark.parametrize(
    "text",
    [
        f'{{"type":"join","token":"{SECRET}"}}',
        f'{{"kind":"system/join","payload":{{"token":"{SECRET}"}}}}',
        f'{{"type":"\\u006a\\u006f\\u0069\\u006e","token":"{SECRET}"}}',
        f'{{"kind":"system\\u002fjoin","payload":{{"token":"{SECRET}"}}}}',
        f'{{"token":"{SECRET}","\\u0074ype":"\\u006aoin"}}',
    ],
)
def test_a_late_join_frame_leaves_nothing_but_its_kind(text: str) -> None:
    assert without_join(text, limit=4096) == '{"kind":"system/join"}'


@pytest.mark.threat(1)
def test_a_late_join_frame_that_is_no_strict_json_has_its_secret_masked() -> None:
    Token(SECRET)
    cleaned = without_join(f'{{"type":"join","token":"{SECRET}",}}', limit=4096)
    assert cleaned == '{"type":"join","token":"tok_…door",}'


@pytest.mark.threat(1)
def test_a_secret_in_escapes_in_what_is_no_strict_json_is_masked_too() -> None:
    Token(SECRET)
    escaped = "".join(f"\\u{ord(c):04x}" for c in SECRET)
    for form in (escaped, escaped.upper().replace("\\U", "\\u"), f"c{escaped[6:]}"):
        cleaned = without_join(f'{{"type":"join","token":"{form}","x":"\\u00e4",}}', limit=4096)
        assert cleaned == '{"type":"join","token":"tok_…door","x":"\\u00e4",}'


@pytest.mark.parametrize(
    "text",
    [
        '{"kind":"chat","payload":{"text":"please join us"}}',
        '{"kind":"chat","payload":{"text":"\\u00e4"}}',
        "joined",
    ],
)
def test_an_ordinary_message_stays_to_the_byte(text: str) -> None:
    assert without_join(text, limit=4096) is text or without_join(text, limit=4096) == text


def test_a_token_is_looked_up_in_the_space_asked_for_or_in_the_only_one_that_knows_it() -> None:
    tokens, token, twice = Tokens(), Token(SECRET), Token(SECRET + "-twice")
    tokens.add("one", "anna", token)
    tokens.add("one", "bert", twice)
    tokens.add("two", "bert", twice)
    spaces = ("one", "two")
    assert identify(tokens, token, spaces=spaces, requested="one") == Identity("one", "anna")
    assert identify(tokens, token, spaces=spaces, requested="") == Identity("one", "anna")
    assert identify(tokens, token, spaces=spaces, requested="two") is None
    assert identify(tokens, token, spaces=("two",), requested="one") is None  # that space is closed by now
    assert identify(tokens, twice, spaces=spaces, requested="two") == Identity("two", "bert")
    assert identify(tokens, twice, spaces=spaces, requested="") is None
