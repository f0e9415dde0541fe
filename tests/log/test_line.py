"""One record, one line: every text comes back to the byte, and no line of a stranger's raises."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mew_lab.errors import ProtocolError
from mew_lab.log.line import members_of, read_line, read_members, write_line
from mew_lab.protocol.envelope import read_strict
from mew_lab.space.events import Record

NOW = datetime(2026, 11, 21, 22, 40, 1, 123456, UTC)
CHAT = '{"protocol":"mew/v0.4","id":"m-1","ts":"t","from":"bot","kind":"chat","payload":{"text":"hi"}}'

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
# Objects as senders may write them: any order of keys, spaced or not, escaped or not, over several lines.
written = st.builds(
    json.dumps,
    st.dictionaries(st.text(), values, max_size=5),
    ensure_ascii=st.booleans(),
    indent=st.sampled_from([None, 0, 2, "\t"]),
    separators=st.sampled_from([None, (",", ":"), (" , ", " : ")]),
)
any_text = st.text(st.characters(exclude_categories=()))


def record(raw: str | None = CHAT, **fields: Any) -> Record:
    given: dict[str, Any] = {"participant": "bot", "connection": "c2", "via": "memory", "verdict": "accepted"}
    return Record(seq=12, now=NOW, event="received", space="demo", raw=raw, **{**given, **fields})


def test_the_envelope_is_last_and_is_the_text_itself() -> None:
    line = write_line(record(pattern='{"kind":"chat"}'))
    assert line.endswith(b',"envelope":' + CHAT.encode() + b"}\n")
    assert json.loads(line) == {
        "seq": 12,
        "now": "2026-11-21T22:40:01.123456Z",
        "event": "received",
        "space": "demo",
        "participant": "bot",
        "connection": "c2",
        "via": "memory",
        "verdict": "accepted",
        "code": "",
        "pattern": '{"kind":"chat"}',
        "detail": "",
        "received": None,
        "envelope": json.loads(CHAT),
    }


@given(written)
@example('{"b":1,"a":2,"n":12345678901234567890,"f":1.10,"e":1E+2}')
@example('{"emoji":"\\ud83d\\ude00","same":"😀","line":"\u2028\u0085"}')
@example('{"x":",\\"envelope\\":{}}"}')
@example('{\r\n"a":1}')
def test_an_accepted_text_comes_back_to_the_byte(raw: str) -> None:
    read_strict(raw)  # what a space accepts
    line = write_line(record(raw))
    assert line.count(b"\n") == 1
    assert read_line(line) == record(raw)


@given(any_text | written)
@example("\ud83d\ude00")  # two halves that are no character: not the same text as the character
@example("\ud800")
@example("{not json}\n")
@example('{"a":1}}{"b":2}')
@example("")
def test_a_refused_text_comes_back_to_the_byte(raw: str) -> None:
    refused = record(raw, verdict="refused", code="invalid_json")
    line = write_line(refused)
    assert line.count(b"\n") == 1
    assert read_line(line) == refused


@given(st.text(), st.text(), st.lists(st.text(), max_size=3), st.text(), st.text())
@example(',"envelope":{}', '"},"envelope":{"kind":"chat"}', ["c1"], '","envelope":{}', "")
def test_a_header_comes_back_whatever_its_texts_hold(
    detail: str, received: str, to: list[str], grant: str, runtime_id: str
) -> None:
    told = record(detail=detail, received=received, to=tuple(to), grant=grant, runtime_id=runtime_id)
    assert read_line(write_line(told)) == told


def test_grant_and_runtime_id_stand_in_a_line_only_where_they_say_something() -> None:
    assert b"grant" not in write_line(record())
    assert b"runtime_id" not in write_line(record())
    line = write_line(record(grant="g-1", runtime_id="client-7"))
    header = json.loads(line)
    assert (header["grant"], header["runtime_id"]) == ("g-1", "client-7")
    assert line.endswith(b',"envelope":' + CHAT.encode() + b"}\n")


def test_half_a_character_in_a_header_is_spelt_out() -> None:
    again = read_line(write_line(record(None, detail="reason \ud800")))
    assert again is not None
    assert again.detail == "reason \\ud800"


@given(written)
def test_what_the_strict_reader_takes_the_lenient_one_takes(raw: str) -> None:
    assert read_members(raw) is not None
    assert read_members(raw.encode()) == read_members(raw)


def test_a_line_that_another_program_wrote_anew_keeps_its_members() -> None:
    raw = '{"kind":"chat","n":123456789012345678901234567890}'
    anew = json.dumps(json.loads(write_line(record(raw)))) + "\n"
    assert read_line(anew.encode()) == record(raw)
    assert read_line(anew.encode().replace(b'"kind": "chat"', b'"kind": "\\ud800"')) is None


def test_nesting_ends_at_64_as_in_the_strict_reader() -> None:
    deep = '{"a":' * 63 + "{}" + "}" * 63
    assert read_members(deep) == read_strict(deep)
    with pytest.raises(ProtocolError):
        read_strict('{"a":' + deep + "}")
    assert read_members('{"a":' + deep + "}") is None
    assert read_members(b'{"a":' + b"[" * 100_000) is None


@pytest.mark.threat(8)
def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert read_members('{"a":[' + ",".join(["[]"] * 500) + "]}") == {"a": [[]] * 500}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"[]\n",
        b'"text"\n',
        b"7\n",
        b'{"seq":1}\n',
        b'{"seq":"1","now":"2026-11-21T22:40:01Z","event":"left"}\n',
        b'{"seq":true,"now":"2026-11-21T22:40:01Z","event":"left"}\n',
        b'{"seq":1,"now":1,"event":"left"}\n',
        b'{"seq":1,"now":"yesterday","event":"left"}\n',
        b'{"seq":1,"now":"2026-11-21T22:40:01Z","event":null}\n',
        b'{"seq":1,"now":"2026-11-21T22:40:01Z","event":"left","participant":{}}\n',
        b'{"seq":1,"now":"2026-11-21T22:40:01Z","event":"left","to":"c1"}\n',
        b'{"seq":1,"now":"2026-11-21T22:40:01Z","event":"left","grant":1}\n',
        b'{"seq":1,"now":"2026-11-21T22:40:01Z","event":"left","runtime_id":null}\n',
        b'{"seq":1,"now":"2026-11-21T22:40:01Z","event":"left","to":[1]}\n',
        b'{"seq":1,"now":"2026-11-21T22:40:01Z","event":"left","received":[]}\n',
        b'{"seq":1,"now":"2026-11-21T22:40:01Z","event":"left","text":[]}\n',
        b'{"seq":1,"now":"2026-11-21T22:40:01Z","event":"left","base64":"?"}\n',
        b'{"seq":1,"now":"2026-11-21T22:40:01Z","event":"left","base64":4}\n',
        b'{"seq":1,"now":"0001-01-01T00:00:00+23:59","event":"left"}\n',
        b'{"seq":1,"now":"2026-11-21T22:40:01Z","event":"received","envelope":{"kind":"chat"}\n',
        b'{"seq":1,"now":"2026-11-21T22:40:01Z","event":"received","envelope":[]}\n',
        b'{"seq":1,"now":"2026-11-21T22:40:01Z","event":"received","envelope":{"a":"\xff"}}\n',
        b'{"x":{"a":1,"envelope":{}},"seq":1,"now":"2026-11-21T22:40:01Z","event":"received"}\n',
    ],
)
@pytest.mark.threat(32)
def test_a_line_that_is_no_record_is_none(line: bytes) -> None:
    assert read_line(line) is None


@pytest.mark.threat(32)
@given(st.binary())
def test_no_bytes_raise(data: bytes) -> None:
    assert read_line(data) is None


@pytest.mark.threat(32)
@given(st.data())
def test_no_damage_to_a_line_raises(data: st.DataObject) -> None:
    line = bytearray(write_line(record(detail='{"x":1}', to=("c1", "c2"))))
    for _ in range(data.draw(st.integers(1, 4))):
        line[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(line)))
    assert read_line(bytes(line)) is None or isinstance(read_line(bytes(line)), Record)
    assert read_line(bytes(line[:cut])) is None or cut >= len(line) - 1


def test_a_time_without_a_zone_is_utc_and_another_zone_is_brought_there() -> None:
    head = b'{"seq":1,"event":"left","now":'
    for text in (b'"2026-11-21T22:40:01.123456"', b'"2026-11-22T00:40:01.123456+02:00"'):
        again = read_line(head + text + b"}\n")
        assert again is not None
        assert again.now == NOW
        assert again.now.tzinfo is UTC


class Unhashable(str):
    """A text that no cache takes, so that a header with it is written the long way."""

    __hash__ = None  # type: ignore[assignment]


def test_the_usual_header_is_the_header() -> None:
    """A message that says nothing unusual is written by a shorter way, to the same bytes."""
    texts = ("", "x", 'a "quoted" é\n', "\ud800", "received")
    for seq, text in enumerate(texts):
        for now in (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 2, 3, 4, 500, tzinfo=UTC)):
            for grant in ("", "g-1"):
                usual = ("received", text, text, "c1", "memory", "accepted", "", text)
                record = Record(seq, now, *usual, raw="{}", grant=grant)
                assert write_line(record._replace(event=Unhashable("received"))) == write_line(record)


@pytest.mark.parametrize("name", ['"seq"', '"\\u0073eq"', '"s\\u0065q"'])
def test_of_a_member_that_a_header_states_twice_the_last_counts(name: str) -> None:
    line = write_line(record())
    for _ in range(2):  # a header that was read before is known
        assert read_line(line) == record()
        again = line.replace(b',"space":', f',{name}:99,"space":'.encode())
        assert read_line(again) == record()._replace(seq=99)


def test_an_exact_reading_keeps_integers_of_any_size() -> None:
    text = '{"n":123456789012345678901}'
    assert read_members(text, exact=True) == {"n": 123456789012345678901}
    assert type((read_members(text) or {})["n"]) is float


hostile = st.sampled_from(
    [
        *(
            "[]",
            "[" * 100_000,
            '{"a":NaN}',
            '{"a":"\\ud800"}',
            '{"a":' + "9" * 5000 + "}",
            '{"a":1e400}',
            "{",
            "",
        ),
        *('{"a":' + "[" * depth + "]" * depth + "}" for depth in (62, 63, 64, 65, 500)),
    ]
)


@given(written | hostile | any_text)
def test_an_exact_reading_reads_no_text_that_the_fast_one_does_not(text: str) -> None:
    fast, exact = read_members(text), read_members(text, exact=True)
    assert (fast is None) == (exact is None)
    if fast is not None and exact is not None:
        assert fast.keys() == exact.keys()


@given(st.lists(written, min_size=1, max_size=4), st.data())
def test_the_members_of_a_record_are_its_own_whatever_was_read_since(
    raws: list[str], data: st.DataObject
) -> None:
    lines = [write_line(record(raw)) for raw in raws]
    read = [read_line(line) for line in lines]
    for _ in range(3):
        at = data.draw(st.integers(0, len(raws) - 1))
        read[data.draw(st.integers(0, len(raws) - 1))] = read_line(lines[at])
        for found in read:
            assert found is not None
            assert members_of(found) == (read_members(found.raw or "") or {})
