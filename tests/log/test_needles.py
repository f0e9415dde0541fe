"""The lines in which a filter's messages are looked for: none that passes is left out, however it is spelt."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path

import numpy as np
import pytest

from mew_lab.log.entries import RecordedEntry
from mew_lab.log.files import Files
from mew_lab.log.filter.fields import NO_FACTS
from mew_lab.log.filter.grammar import parse_filter
from mew_lab.log.filter.indexed import Needle, needles_of
from mew_lab.log.filter.literals import FilterClock
from mew_lab.log.filter.predicate import compile_predicate, needs_facts
from mew_lab.log.filter.tree import FilterTree
from mew_lab.log.line import write_line
from tests.log.filter_table import START, random_filter, random_record, record
from tests.log.hostile import hostile_journal

CLOCK = FilterClock(lambda: START)

NEEDED = [
    ("kind == chat", [{b'"chat'}]),
    ('kind == chat and from == "bob"', [{b'"chat'}, {b'"bob'}]),
    ('from in (alice, "bob")', [{b'"alice', b'"bob'}]),
    ("kind == chat or to == bob", [{b'"chat', b'"bob'}]),
    ('kind ~ "mcp/*"', [{b"mcp/"}]),
    ('payload.text ~ "*one?two three*"', [{b"two three"}, {b'"text'}]),
    ("payload.params.name == x", [{b'"params'}, {b'"name'}, {b'"x'}]),
    ("payload.number > 5", [{b'"number'}]),
    ("payload.list[0].name exists", [{b'"list'}, {b'"name'}]),
    ('id == "a\\"bcd"', [{b"bcd"}]),
    ('id == "\u00e9tude"', [{b"tude"}]),
    ("kind == chat or size > 3", []),
    ("not kind == chat", []),
    ("payload.name != x", []),
    ("typo", []),
    ("latency > 2s", []),
    ("verdict == accepted", []),
    ('kind == ""', []),
    ("", []),
]


@pytest.mark.parametrize(("text", "meant"), NEEDED)
def test_a_filter_needs_these_texts(text: str, meant: list[set[bytes]]) -> None:
    found = needles_of(parse_filter(text, clock=CLOCK))
    assert sorted(sorted(needle.texts) for needle in found) == sorted(map(sorted, meant))


def found_rows(path: Path, text: FilterTree) -> list[int]:
    """The numbers of the rows whose lines may pass, from 0; blank lines are no rows."""
    data = path.read_bytes()
    data += b"" if data.endswith(b"\n") else b"\n"
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
    held = set.intersection(*({*needle.lines(data, ends).tolist()} for needle in needles_of(text)))
    rows = [n for n, line in enumerate(data.split(b"\n")[:-1]) if line.strip()]
    return [row for row, n in enumerate(rows) if n in held]


def check(path: Path, dice: random.Random, filters: int) -> int:
    """Compares the lines that are found with all that pass; returns how many filters leave out most lines."""
    records = [RecordedEntry(each, place) for place, each in enumerate(Files((path,)).read([]))]
    narrow = 0
    for _ in range(filters):
        text = random_filter(dice, 2)
        tree = parse_filter(text, clock=CLOCK)
        if not needles_of(tree) or needs_facts(tree):
            continue
        predicate = compile_predicate(tree)
        rows = found_rows(path, tree)
        assert {entry.place for entry in records if predicate(entry, NO_FACTS)} <= set(rows), text
        narrow += len(rows) < len(records) / 2
    return narrow


@pytest.mark.parametrize("seed", range(4))
def test_no_line_that_passes_is_left_out(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    lines = [write_line(random_record(dice, seq)) for seq in range(1, 80)]
    for n in range(0, 80, 9):
        lines.insert(n, dice.choice([b"\n", b" \t\n", b"\x0b\x0c\r\n", b"{}\n"]))
    (tmp_path / "j.jsonl").write_bytes(b"".join(lines))
    assert check(tmp_path / "j.jsonl", dice, 150) > 5


@pytest.mark.parametrize("seed", range(3))
def test_no_hostile_line_that_passes_is_left_out(tmp_path: Path, seed: int) -> None:
    (tmp_path / "j.jsonl").write_bytes(hostile_journal(seed))
    check(tmp_path / "j.jsonl", random.Random(seed), 60)


def test_a_message_in_any_spelling_is_found(tmp_path: Path) -> None:
    message = json.dumps({"id": "x", "from": "bob", "kind": "mcp/request", "payload": {}})
    odd = message.replace("mcp/request", "\\u006dcp\\/request")
    head = json.dumps({"seq": 1, "now": "2026-11-21T22:40:01.123456Z", "event": "received"})[:-1]
    exact = base64.b64encode(message.encode()).decode()
    lines = [
        write_line(record(1, message)).decode(),
        write_line(record(2, odd)).decode(),
        write_line(record(3, odd + "\n")).decode(),
        f'{head},"base64":"{exact}"}}\n',
        f'{head},"b\\u0061se64":"{exact}"}}\n',
        f'{head},"text":{json.dumps(message)}}}\n',
        f'{head},"text":{json.dumps(odd)}}}\n',
        f'{head},"envelope" : {message}}}\n',
        write_line(record(9, message.replace("mcp/request", "chat"))).decode(),
        write_line(record(10, message)).decode().rstrip("\n"),
    ]
    path = tmp_path / "j.jsonl"
    path.write_text("".join(lines))
    tree = parse_filter("kind == mcp/request")
    predicate = compile_predicate(tree)
    passing = [
        n for n, each in enumerate(Files((path,)).read([])) if predicate(RecordedEntry(each), NO_FACTS)
    ]
    assert passing == [0, 1, 2, 3, 4, 5, 6, 7, 9]
    assert found_rows(path, tree) == passing


@pytest.mark.parametrize("seed", range(20))
def test_the_lines_that_hold_a_text_are_found_wherever_it_stands(seed: int) -> None:
    dice = random.Random(seed)
    # Few characters, so that each text also begins where it does not go on.
    lines = ["".join(dice.choices('ab"/', k=dice.randrange(40))).encode() for _ in range(200)]
    data = b"\n".join([*lines, b""])
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
    for _ in range(60):
        texts = {
            "".join(dice.choices('ab"/', k=dice.randrange(1, 21))).encode()
            for _ in range(dice.randrange(1, 4))
        }
        texts.add(dice.choice(lines)[-dice.randrange(1, 21) :] or b"a")  # one at the end of a line
        found = Needle(frozenset(texts)).lines(data, ends).tolist()
        assert found == [n for n, line in enumerate(lines) if any(text in line for text in texts)]


@pytest.mark.parametrize("spelt", ["\\u0063hat/x", "chat\\/x", "\\u0063hat\\/x", "ch\\u0061t\\u002fx"])
def test_each_escape_of_an_ascii_character_is_a_spelling(tmp_path: Path, spelt: str) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(b"".join(write_line(record(n, f'{{"kind":"{spelt}"}}')) for n in range(1, 4)))
    assert found_rows(path, parse_filter("kind == chat/x")) == [0, 1, 2]
