"""Envelopes are read strictly, keep their text, and are completed by insertion alone."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Iterator
from itertools import product
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mew_lab.errors import ProtocolError
from mew_lab.protocol.envelope import (
    MAX_DEPTH,
    Draft,
    Envelope,
    canonical,
    check_shape,
    compact,
    complete,
    digest,
    find_id,
    read_canonical,
    read_strict,
    write_steps,
)
from mew_lab.protocol.steps import finish

from ..conftest import examples
from .large_values import LARGE

FULL = (
    '{"protocol":"mew/v0.4","id":"env-1","ts":"2025-08-26T14:00:00Z","from":"robot-alpha","to":["coordinator"],'
    '"kind":"mcp/request","correlation_id":["env-0"],"context":"workflow-123/step-1","payload":{"method":"tools/list"}}'
)


def read_draft(text: str) -> Draft:
    members = read_strict(text)
    check_shape(members, raw=text)
    return Draft(text, members)


def completed(text: str, **kwargs: object) -> Envelope:
    return complete(read_draft(text), id="new", ts="2026-01-01T00:00:00.000Z", sender="me", **kwargs)  # type: ignore[arg-type]


@pytest.mark.req("P-3-1", "P-3-2", "P-3-3", "P-3-6", "P-3-9", "P-3-17", "P-3-21")
def test_an_envelope_says_what_its_members_say() -> None:
    envelope = Envelope.from_members(json.loads(FULL), raw=FULL)
    assert (envelope.id, envelope.ts, envelope.sender) == ("env-1", "2025-08-26T14:00:00Z", "robot-alpha")
    assert (envelope.to, envelope.kind) == (("coordinator",), "mcp/request")
    assert (envelope.correlation_id, envelope.context) == (("env-0",), "workflow-123/step-1")
    assert envelope.payload == {"method": "tools/list"}
    assert envelope.raw == FULL


@pytest.mark.req("P-3-7", "P-3.9.8-3")
def test_absent_members_read_as_nothing() -> None:
    envelope = Envelope.of({"kind": "participant/clear"})
    assert (envelope.to, envelope.correlation_id, envelope.context, envelope.payload) == ((), (), None, {})
    assert envelope.raw == '{"kind":"participant/clear"}'


def test_envelopes_are_equal_when_their_texts_are() -> None:
    one, same, other = (Envelope.of({"kind": kind}) for kind in ("chat", "chat", "mcp/request"))
    assert one == same and hash(one) == hash(same)
    assert one != other and one != one.raw
    assert (
        repr(Envelope.of({"kind": "chat", "id": "a", "from": "b", "to": ["c"]}))
        == "<Envelope chat 'a' from b to c>"
    )
    assert repr(Envelope.of({"kind": "chat", "id": "a", "from": "b"})) == "<Envelope chat 'a' from b>"


@pytest.mark.req("P-8.1-9")
@pytest.mark.parametrize("blank", ["", "\n", "  \t"])
def test_a_complete_message_keeps_its_text_to_the_byte(blank: str) -> None:
    text = blank + FULL.replace('","', '" ,\n "').replace('{"method"', '{ "n":1.0e2, "method"') + blank
    assert completed(text).raw == text


@pytest.mark.req("P-5.3-1", "P-3-5", "P-8.1-9")
def test_missing_members_are_inserted_and_nothing_else_changes() -> None:
    envelope = completed(' {"kind" : "chat", "payload":{"n":1.50,"t":"{\\u00e9"}, "x":[ ]}')
    assert envelope.raw == (
        ' {"protocol":"mew/v0.4","id":"new","ts":"2026-01-01T00:00:00.000Z","from":"me",'
        '"kind" : "chat", "payload":{"n":1.50,"t":"{\\u00e9"}, "x":[ ]}'
    )
    assert json.loads(envelope.raw) == envelope.members


@pytest.mark.req("P-6.4-1", "P-3-9")
def test_a_correlation_id_that_is_a_string_is_wrapped_in_place() -> None:
    text = FULL.replace('["env-0"]', ' "env,\\"0"').replace("robot-alpha", "me")
    envelope = completed(text)
    assert envelope.correlation_id == ('env,"0',)
    assert envelope.raw == text.replace('"env,\\"0"', '["env,\\"0"]')


def test_addressees_are_replaced_in_place() -> None:
    envelope = completed(
        '{"id":"1","to" : [ "agent" ,"b"],"kind":"chat","correlation_id":"x"}', to=("client-1", "b")
    )
    assert envelope.to == ("client-1", "b")
    assert '"to" : ["client-1","b"],"kind":"chat","correlation_id":["x"]}' in envelope.raw


# Integers at which readers of JSON with 64 bits begin to differ: RFC 8259 §6 leaves it to them.
TAKEN = (
    "0",
    "-0",
    "-1",
    "9007199254740993",
    "9223372036854775808",
    "18446744073709551615",
    "-9223372036854775808",
)
REFUSED = (
    *(
        "18446744073709551616",
        "18446744073709551617",
        "-9223372036854775809",
        "123456789012345678901234567890",
    ),
    *("1" + "0" * 309, "9" * 400, "9" * 5000, "-" + "9" * 5000),
)
SPELT = ("1e2", "1.50", "0.1000000000000000055", "1E-400", "18446744073709551616.0", "1e22", "-0.0", "5e-324")
PLACES = (
    '{{"a":{}}}',
    '{{"a":[0,{{"b":[{}]}}]}}',
    '{{"pad":"' + "x" * 2000 + '","a":{}}}',
    '{{"a":"1","b": {} }}',
)


@pytest.mark.ruling("R22")
@pytest.mark.parametrize("place", PLACES, ids=["short", "deep", "long", "spaced"])
def test_an_integer_beyond_64_bits_is_refused_and_no_other_number_for_its_spelling(place: str) -> None:
    for number in REFUSED:
        for text in (place.format(number), place.format(number).encode()):
            with pytest.raises(ProtocolError, match="send it as a string") as caught:
                read_strict(text)
            assert caught.value.code == "invalid_number"
            assert len(str(caught.value)) < 250
    for number in (*TAKEN, *SPELT):
        assert read_strict(place.format(number)) == orjson.loads(place.format(number))
    for number in REFUSED:  # as text it may be as long as it likes
        assert read_strict(place.format(f'"{number}"')) == orjson.loads(place.format(f'"{number}"'))


@pytest.mark.ruling("R22")
def test_what_an_earlier_version_took_can_still_be_read() -> None:
    assert read_strict('{"a":18446744073709551617}', any_integer=True) == {"a": 18446744073709551617}
    largest = int(sys.float_info.max)
    assert read_strict(f'{{"a":{largest}}}', any_integer=True) == {"a": largest}
    for number in ("9" * 309, "-" + "9" * 309, "9" * 311, "9" * 400):
        with pytest.raises(ProtocolError, match="too large for a double") as caught:
            read_strict(f'{{"a":{number}}}', any_integer=True)
        assert caught.value.code == "invalid_json"
    assert read_strict('{"a":-1.5e2}', early_floats=True) == {"a": -150.0}
    # And what it refused is refused with the code of then.
    for earlier, pad in product(({"any_integer": True}, {"early_floats": True}), ("", "x" * 2000)):
        with pytest.raises(ProtocolError, match="too large for a double") as caught:
            read_strict(f'{{"pad":"{pad}","a":1e400}}', **earlier)
        assert caught.value.code == "invalid_json"


def alike(one: Any, other: Any) -> bool:
    """Whether two readings are the same in value and type, zeros with their signs."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(map(alike, one.values(), other.values()))
    if isinstance(one, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return repr(one) == repr(other) if isinstance(one, float) else bool(one == other)


PARTS = (
    *(
        *TAKEN,
        *REFUSED[:4],
        *SPELT,
        "1e400",
        "-1e400",
        "1.7976931348623157e308",
        "1.7976931348623159e308",
        "2.5e-324",
    ),
    *(
        "9007199254740993.0",
        "0.30000000000000004",
        "1e",
        "01",
        "1.",
        "+1",
        ".5",
        "NaN",
        "-Infinity",
        "--1",
        "0x10",
    ),
    *(
        '"a"',
        '"\\u0061"',
        '"\\ud83d\\ude00"',
        '"\\ud800"',
        '"\u00e9"',
        '"\\/"',
        '"\\x"',
        '"\t"',
        "true",
        "null",
        "nul",
    ),
    *(
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        " ",
        "\n",
        "\x00",
        "\ufeff",
        "\u00a0",
        '{"k":1}',
        '{"k":1,"k":2}',
        "[]",
        "1" * 19,
        "e",
        "E+",
        "-",
        ".",
    ),
)


def mutants(seed: int, count: int) -> Iterator[str]:
    """Texts near JSON: built of numbers, strings and structure, then cut, doubled and exchanged here and there."""
    chance = random.Random(seed)
    for _ in range(count):
        digits = "".join(chance.choices("0123456789", k=chance.randint(1, 40)))
        at = chance.randint(0, len(digits))
        made = (
            chance.choice(["", "-"])
            + digits[:at]
            + chance.choice(["", ".", "e", "e-", "E+"])
            + digits[at : at + 5]
        )
        values = [*chance.choices(PARTS, k=chance.randint(1, 4)), made, made.lstrip("0") or "0"]
        chance.shuffle(values)
        text = chance.choice(
            [
                '{"v":[' + ",".join(values) + "]}",
                "{" + ",".join(f'"k{n}":{value}' for n, value in enumerate(values)) + "}",
                '{"v":' + values[0] + "}",
                '{"v":' + values[0] + ',"pad":"' + "x" * 1100 + '"}',
            ]
        )
        for _ in range(chance.choice([0, 0, 1, 2])):
            at = chance.randrange(len(text))
            text = text[:at] + chance.choice(["", text[at] * 2, *PARTS]) + text[at + 1 :]
        yield text


def differences(seed: int, count: int) -> tuple[list[str], int]:
    """Texts that the strict reader takes and the clients' reader takes otherwise; and how many were taken."""
    found, taken = [], 0
    for text in mutants(seed, count):
        try:
            strict = read_strict(text)
        except ProtocolError as fault:
            assert fault.code in ("invalid_json", "invalid_number"), text
            continue
        taken += 1
        try:
            clients = orjson.loads(text)
        except ValueError:
            clients = None
        if not alike(strict, clients):
            found.append(text)
    return found, taken


@pytest.mark.threat(8, 35)
@pytest.mark.ruling("R22")
def test_what_the_strict_reader_takes_the_clients_reader_reads_alike() -> None:
    found, taken = differences(1, 5000)
    assert found == []
    assert taken > 500


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.threat(8, 35)
@pytest.mark.ruling("R22")
def test_what_the_strict_reader_takes_the_clients_reader_reads_alike_over_many_mutants() -> None:
    """MUTANTS sets how many; a million take about a minute."""
    count = int(os.environ.get("MUTANTS", "100000"))
    found, taken = differences(2, count)
    print(f"{count} mutants, {taken} taken, {len(found)} read differently")
    assert found == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["id", "ts", "from", "x", "y\n", "}", "correlation_id", "to"]), json_values
    )
)
def test_completion_agrees_with_the_parsed_members_for_any_members(extra: dict[str, object]) -> None:
    members = {"kind": "chat", **extra}
    text = json.dumps(members, indent=1)
    try:
        draft = read_draft(text)
    except ProtocolError:
        return
    envelope = complete(draft, id="new", ts="t", sender="me", to=("z",) if draft.members.get("to") else None)
    assert json.loads(envelope.raw) == envelope.members
    for key, value in members.items():
        if key not in ("to", "correlation_id"):
            assert envelope.members[key] == value


@pytest.mark.threat(8)
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a":1,"a":2}', "stands twice"),
        ('{"a":{"b":1,"c":2,"b":3}}', "'b' stands twice"),
        ('{"a":NaN}', "NaN is not JSON"),
        ('{"a":-Infinity}', "-Infinity is not JSON"),
        ('{"a":1e400}', "too large for a double"),
        ('{"a":-1e400}', "too large for a double"),
        ('{"a":"\\ud800"}', "lone surrogate"),
        ('{"a":"\ud800"}', "lone surrogate"),
        ('{"\\uDC00":1}', "lone surrogate"),
        ("{" * 3, "not strict JSON"),
        ('{"a":' + "[" * 64 + "]" * 64 + "}", "nested more than 64"),
        ("[" * 100_000, "nested more than 64"),
        ("\ufeff{}", "not strict JSON"),
        ("", "not strict JSON"),
        ("[]", "must be a JSON object"),
        ("1", "must be a JSON object"),
        (b"\xff\xfe", "UTF-8"),
        (b'{"a":"\xed\xa0\x80"}', "UTF-8"),
        ("{'a':1}", "not strict JSON"),
        ('{"a":1,}', "not strict JSON"),
        ('{"a":01}', "not strict JSON"),
        ('{"a":1} {"b":2}', "not strict JSON"),
        ('{"a":"\n"}', "not strict JSON"),
    ],
)
def test_json_that_two_readers_could_read_differently_is_refused(text: str | bytes, says: str) -> None:
    with pytest.raises(ProtocolError, match=says) as caught:
        read_strict(text)
    assert caught.value.code == ("invalid_number" if "double" in says else "invalid_json")


@pytest.mark.parametrize(
    "text",
    [
        '{"a":' + "[" * 63 + "]" * 63 + "}",
        '{"a":"' + "[{" * 100 + '"}',
        '{"a":1' + "0" * 308 + ".0}",
        '{"a":"' + "9" * 400 + '"}',
        '{"a":"\\ud83d\\ude00"}',
        '{"a":[{},{}' + ",{}" * 80 + "]}",
        '{"a":1e308}',
        b'{"a":"\xc3\xa9"}',
    ],
)
def test_what_every_reader_reads_alike_passes(text: str | bytes) -> None:
    assert read_strict(text) == json.loads(text)
    assert MAX_DEPTH == 64


def test_size_counts_in_bytes() -> None:
    text = '{"a":"é"}'
    assert read_strict(text, limit=10) == {"a": "é"}
    for over in (text, text.encode()):
        with pytest.raises(ProtocolError, match="10 bytes") as caught:
            read_strict(over, limit=9)
        assert caught.value.code == "message_too_large"


@pytest.mark.req("P-6.1-1", "P-3-8")
@pytest.mark.parametrize(
    ("members", "code", "says"),
    [
        ({}, "invalid_envelope", "kind is required"),
        ({"kind": ""}, "invalid_envelope", "kind is required"),
        ({"kind": 1}, "invalid_envelope", "kind is required"),
        ({"kind": "chat", "protocol": "mew/v0.3"}, "unsupported_protocol", "mew/v0.3"),
        ({"kind": "chat", "protocol": None}, "unsupported_protocol", "None"),
        ({"kind": "chat", "id": ""}, "invalid_envelope", "id must be"),
        ({"kind": "chat", "id": "x" * 257}, "invalid_envelope", "id must be"),
        ({"kind": "chat", "id": "a\nb"}, "invalid_envelope", "id must be"),
        ({"kind": "chat", "id": 7}, "invalid_envelope", "id must be"),
        ({"kind": "chat", "ts": 7}, "invalid_envelope", "ts must be"),
        ({"kind": "chat", "from": []}, "invalid_envelope", "from must be"),
        ({"kind": "chat", "to": "bob"}, "invalid_envelope", "to must be"),
        ({"kind": "chat", "to": [1]}, "invalid_envelope", "to must be"),
        ({"kind": "chat", "correlation_id": {}}, "invalid_envelope", "correlation_id must be"),
        ({"kind": "chat", "correlation_id": [None]}, "invalid_envelope", "correlation_id must be"),
        ({"kind": "chat", "context": 5}, "invalid_envelope", "context must be"),
        ({"kind": "chat", "payload": []}, "invalid_envelope", "payload must be"),
        ({"kind": "chat", "payload": None}, "invalid_envelope", "payload must be"),
    ],
)
def test_a_wrong_shape_names_its_member(members: dict[str, object], code: str, says: str) -> None:
    with pytest.raises(ProtocolError, match=says) as caught:
        read_draft(json.dumps(members))
    assert caught.value.code == code
    with pytest.raises(ProtocolError, match=says):
        Envelope.of(members)


def test_an_envelope_is_an_object() -> None:
    with pytest.raises(ProtocolError, match="must be a JSON object"):
        Envelope.from_members([], raw="[]")


def test_the_canonical_form_sorts_keys_and_is_utf_8() -> None:
    assert canonical({"b": [1, None], "a": "é"}) == '{"a":"é","b":[1,null]}'.encode()
    # SHA-256 of `{}`, as any other tool computes it.
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert compact({"b": 1, "a": "é"}) == '{"b":1,"a":"é"}'


@pytest.mark.parametrize("value", [float("nan"), b"bytes", {"a": "\ud800"}, {1, 2}])
def test_what_json_cannot_say_is_refused(value: object) -> None:
    for write in (compact, canonical):
        with pytest.raises(ProtocolError, match="cannot be written as JSON"):
            write(value)


@given(
    st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,21})?([eE][+-]?[0-9]{1,5})?", fullmatch=True),
    st.sampled_from(["", "e999", "e+000", "0" * 30]),
)
@pytest.mark.drawn
def test_a_number_has_the_same_verdict_in_a_short_text_and_in_a_long_one(number: str, beside: str) -> None:
    def verdict(padding: str) -> Any:
        try:
            return repr(read_strict(f'{{"a":[{number}],"b":"{padding}{beside}"}}')["a"])
        except ProtocolError as fault:
            return fault.code

    assert verdict("") == verdict("x" * 2000)


@pytest.mark.threat(54)
@pytest.mark.threat(37)
@given(value=LARGE, key=st.sampled_from(["a", "раура", 'q"\\']))
@pytest.mark.timeout(240)
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.drawn
def test_a_value_that_is_written_in_steps_has_the_text_that_it_has_in_one_piece(value: Any, key: str) -> None:
    value = {"z": [value, {key: value, "b": [value], "a": {}}], key: {}, "e": []}
    assert finish(read_canonical(value)) == canonical(value)
    assert finish(write_steps(value, compact)) == compact(value)
    assert finish(write_steps(value, json.dumps, comma=", ", colon=": ")) == json.dumps(value)


@pytest.mark.threat(54)
def test_a_value_that_is_written_in_steps_pauses_after_a_thousand_values() -> None:
    for value in (list(range(20_000)), {str(n): [n] for n in range(10_000)}, [list(range(900))] * 20):
        assert len(list(write_steps(value, compact))) >= 18
    assert list(write_steps(list(range(900)), compact)) == []


MIXED: dict[Any, int] = {**{str(n): n for n in range(3000)}, 1: 1}


@pytest.mark.parametrize(
    "value", [{1}, [float("nan")], {"x": b""}, MIXED], ids=["a set", "no number", "bytes", "mixed keys"]
)
def test_what_is_no_json_is_refused_in_steps_as_in_one_piece(value: Any) -> None:
    with pytest.raises(ProtocolError, match="cannot be written as JSON") as whole:
        canonical(value)
    with pytest.raises(ProtocolError, match="cannot be written as JSON") as steps:
        finish(read_canonical(value))
    assert (whole.value.code, steps.value.code) == ("invalid_json", "invalid_json")


def test_an_escape_that_json_does_not_know_is_part_of_no_id() -> None:
    assert find_id(r'{"id":"a\x","kind":"chat","payload":{}}') == ""
    assert find_id(r'{"\x":"b","id":"a","payload":{}}') == "a"
