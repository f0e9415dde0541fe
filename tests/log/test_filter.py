"""The filter language: what each filter selects from a session written by hand, and what its errors say."""

from __future__ import annotations

import json
import random
import re
from datetime import timedelta, timezone
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from mew_lab.errors import FilterError
from mew_lab.ledger.calls import Proposal, Request
from mew_lab.ledger.chats import ChatMessage
from mew_lab.ledger.grants import Grant
from mew_lab.ledger.reasoning import ReasoningSequence
from mew_lab.ledger.streams import StreamFacts
from mew_lab.log.entries import RecordedEntry
from mew_lab.log.filter.fields import FIELDS, NO_FACTS, Facts
from mew_lab.log.filter.grammar import parse_filter
from mew_lab.log.filter.indexed import select_places
from mew_lab.log.filter.literals import FilterClock
from mew_lab.log.filter.predicate import compile_predicate
from mew_lab.log.filter.sql import compile_sql
from tests.log.filter_table import START, index_of, make_entries, reads_columns, record

# START is 12:00 on 1 March 2026 in UTC. The clock of the reader shows 12:10, two hours ahead of UTC.
CLOCK = FilterClock(lambda: START + timedelta(minutes=10), timezone(timedelta(hours=2)))


def call(tool: str, arguments: object) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": tool, "arguments": arguments}}


RECORDS = [
    record(1, {"id": "c1", "from": "human", "kind": "chat", "payload": {"text": "Please fix the Typo"}}),
    record(
        2,
        {"id": "p1", "from": "agent", "to": ["files"], "kind": "mcp/proposal", "payload": call("write_file", {"path": "a.txt"})},
        t=60,
        pattern='{"kind":"mcp/proposal"}',
    ),
    record(
        3,
        {"id": "r1", "from": "human", "to": ["files"], "kind": "mcp/request", "correlation_id": ["p1"], "payload": call("write_file", {"path": "a.txt", "mode": 1})},
        t=120,
    ),
    record(
        4,
        {"id": "a1", "from": "files", "to": ["human", "agent"], "kind": "mcp/response", "correlation_id": ["r1"], "payload": {"result": {"isError": True, "content": [{"text": "disk full"}]}}},
        t=180,
    ),
    record(
        5,
        {"id": "r2", "from": "agent", "to": ["git"], "kind": "mcp/request", "context": "e-3/inner", "payload": call("git_log", {"count": 1.0})},
        t=240,
        verdict="refused",
        code="capability_violation",
        participant="agent",
    ),
    record(
        6,
        {"id": "e1", "from": "system:gateway", "to": ["agent"], "kind": "system/error", "correlation_id": ["r2"], "payload": {"error": "capability_violation", "tags": ["x", "y"], "n": "1", "none": None}},
        t=300,
        verdict="sent",
    ),
    record(7, {"id": "x1", "from": "helper", "kind": "x/y", "payload": ["no", "object"]}, t=360),
    record(8, "no json at all", t=420, verdict="refused", code="invalid_json", participant="helper"),
    record(9, {"id": "m1", "from": "helper", "to": ["Agent", "human"], "kind": "mcp/request", "payload": {"a.b": {"": {"0": "deep"}}, "list": [[1], 2, "zwei", {"k": 3}]}}, t=480),
]  # fmt: skip
FACTS = {
    2: Facts(state="fulfilled", latency=60.0, decided_by="human"),
    3: Facts(state="answered", latency=1.5),
    5: Facts(state="refused", severity="warn", rules=("denied",)),
    8: Facts(severity="error", rules=("unreadable", "denied")),
    9: Facts(state="waiting"),
}
ALL = {each.seq for each in RECORDS}

# Each filter with the numbers of the messages that it selects, by the rules in grammar.py and fields.py.
MEANT: list[tuple[str, set[int]]] = [
    ("", ALL),
    (" \n\t", ALL),
    # words
    ("typo", {1}),
    ("TYPO please", {1}),
    ("write_file a.txt", {2, 3}),
    ("-agent", {1, 3, 7, 8}),
    ('"fix the typo"', {1}),
    ("disk", {4}),  # in the payload alone
    ("capability_violation", {5, 6}),
    ("from:agent", {2, 5}),
    ("-from:agent", ALL - {2, 5}),
    ("FROM:AGENT", {2, 5}),
    ("to:agent", {4, 6, 9}),
    ('to:"human, agent"', {4}),
    ("kind:mcp/ -kind:request", {2, 4}),
    ("tool:git_", {5}),
    ("id:R", {3, 5}),
    ("context:e-3", {5}),
    ("verdict:refused", {5, 8}),
    ("verdict:sent", {6}),
    ("verdict:capability_violation", {5}),
    ("since:5m", {6, 7, 8, 9}),
    ("since:14:04:30", {6, 7, 8, 9}),
    ("method:tools", {2, 3, 5}),
    # texts
    ("kind == chat", {1}),
    ('kind == "chat"', {1}),
    ("kind == Chat", set()),
    ("kind != chat", ALL - {1}),
    ('kind ~ "mcp/*"', {2, 3, 4, 5, 9}),
    ("kind ~ mcp/re*t", {3, 5, 9}),
    ("kind ~ m??/*", {2, 3, 4, 5, 9}),
    ('kind !~ "mcp/*"', {1, 6, 7, 8}),
    ('kind ~ "mcp"', set()),
    (r'from ~ "system\\:gateway"', {6}),
    ('kind =~ "^mcp/re"', {3, 4, 5, 9}),
    ('kind =~ "(?i)CHAT$"', {1}),
    ("from in (agent, helper)", {2, 5, 7, 9}),
    ("from IN (agent)", {2, 5}),
    ("not from in (agent, helper)", {1, 3, 4, 6, 8}),
    ("kind has MCP", {2, 3, 4, 5, 9}),
    ("context exists", {5}),
    ("not context exists", ALL - {5}),
    ('context == ""', ALL - {5}),
    ("from < b", {2, 5, 8}),  # the unreadable message has the empty text
    ('id >= "r1" and id <= "r2"', {3, 5}),
    ('text has "\\"mode\\": 1"', {3}),
    ("verdict in (sent, refused) kind ~ *", {5, 6, 8}),
    # lists
    ("to == agent", {4, 6}),
    ("to == human", {4, 9}),
    ("to != human", ALL - {4, 9}),
    ("any to != human", {2, 3, 4, 5, 6, 9}),
    ("all to == human", set()),
    ("all to in (human, agent)", {4, 6}),
    ("any to in (human, agent)", {4, 6, 9}),
    ("to in (git, files)", {2, 3, 5}),
    ("all to ~ *gent", {6}),
    ("all to !~ *gent", {2, 3, 5}),
    ("to !~ *gent", {1, 2, 3, 5, 7, 8}),
    ("to has files", {2, 3}),
    ("to exists", {2, 3, 4, 5, 6, 9}),
    ("correlation_id == p1", {3}),
    ("diag.rule == denied", {5, 8}),
    # numbers
    ("seq 3..5", {3, 4, 5}),
    ("seq in (1, 3..4)", {1, 3, 4}),
    ("seq in 8..9", {8, 9}),
    ("seq >= 8.5", {9}),
    ("seq == 3.0", {3}),
    ("size < 20B", {8}),
    ("size > 1KiB", set()),
    ("latency > 2s", {2}),
    ("latency >= 1500ms", {2, 3}),
    ("latency == 1m", {2}),
    ("latency < 1h", {2, 3}),
    ("not latency < 1h", ALL - {2, 3}),
    ("latency exists", {2, 3}),
    ("latency 1..2", {3}),
    # times
    ("time > -2m", set()),
    ("time >= -2m", {9}),
    ("time >= 14:07", {8, 9}),
    ("time 14:01..14:02", {2, 3}),
    ("time < 2026-03-01T12:01:00Z", {1}),
    ('time <= "2026-03-01 14:01:00"', {1, 2}),
    ("time > 2026-03-01", ALL),
    ("time > 2026-03-02", set()),
    # facts
    ("state == fulfilled", {2}),
    ("state in (waiting, answered)", {3, 9}),
    ("decided_by == human", {2}),
    ("diag.severity >= warn", {5, 8}),
    ("diag.severity > warn", {8}),
    ("diag.severity == WARN", {5}),
    ("diag.severity < fatal", {5, 8}),
    ("diag.severity != warn", ALL - {5}),
    ("diag.severity exists", {5, 8}),
    # the payload
    ('payload.params.name == "write_file"', {2, 3}),
    ("payload.params.name == write_file", {2, 3}),
    ("payload.params.name != write_file", ALL - {2, 3}),
    ("payload.params.name ~ *_*", {2, 3, 5}),
    ("payload.params.arguments.mode == 1", {3}),
    ("payload.params.arguments.mode == 1.0", {3}),
    ('payload.params.arguments.mode == "1"', set()),
    ("payload.params.arguments.count == 1", {5}),
    ("payload.n == 1", set()),
    ('payload.n == "1"', {6}),
    ("payload.n < 5", set()),
    ('payload.n < "5"', {6}),
    ("payload.result.isError == true", {4}),
    ('payload.result.isError == "true"', set()),
    ("payload.result.isError != true", ALL - {4}),
    ("payload.none == null", {6}),
    ("payload.none exists", {6}),
    ("payload.nothing == null", set()),
    ("payload.nothing exists", set()),
    ("payload.result.content[0].text has DISK", {4}),
    ("payload.result.content.0.text has disk", {4}),
    ("payload.result.content[1] exists", set()),
    ("payload[0] exists", set()),  # a payload that is no object has no members
    ('payload."a.b"."".0 == deep', {9}),
    ("payload.list == 2", {9}),
    ("payload.list == zwei", {9}),
    ("payload.list == 1", set()),  # arrays in arrays are not searched
    ("payload.list has 2", {9}),
    ("payload.list[3] has k", {9}),
    ("all payload.tags ~ ?", {6}),
    ("all payload.tags == x", set()),
    ("any payload.tags == x", {6}),
    ("payload exists", {1, 2, 3, 4, 5, 6, 9}),
    ("payload has text", {1}),
    # joined
    (
        'kind ~ "mcp/*" and latency > 2s and from in (agent, helper) and payload.params.name == "write_file"',
        {2},
    ),
    ("from == agent or from == human and kind == chat", {1, 2, 5}),
    ("(from == agent or from == human) and kind == chat", {1}),
    ("not (from == agent or from == human)", {4, 6, 7, 8, 9}),
    ("not not from == agent", {2, 5}),
    ("-(from == agent)", ALL - {2, 5}),
    ("from == agent AND NOT kind == mcp/request", {2}),
    ("from == agent kind == mcp/request", {5}),
    ("from==agent", {2, 5}),
    ('"from == agent"', set()),
]


def select(text: str) -> set[int]:
    predicate = compile_predicate(parse_filter(text, clock=CLOCK))
    return {each.seq for each in RECORDS if predicate(RecordedEntry(each), FACTS.get(each.seq, NO_FACTS))}


@pytest.mark.parametrize(("text", "meant"), MEANT)
def test_the_predicate_selects_what_the_rules_say(text: str, meant: set[int]) -> None:
    assert select(text) == meant


def test_the_sql_selects_what_the_rules_say() -> None:
    database = make_entries(RECORDS, [FACTS.get(each.seq, NO_FACTS) for each in RECORDS], empty=True)
    wrong, judged = [], 0
    for text, meant in MEANT:
        tree = parse_filter(text, clock=CLOCK)
        if reads_columns(tree):
            sql = compile_sql(tree)
            rows = database.execute(f"SELECT seq FROM entries WHERE {sql.where}", sql.parameters).fetchall()
            judged += 1
            if {seq for (seq,) in rows} != meant:
                wrong.append((text, rows, meant))
    assert wrong == [] and judged > 50


def test_no_text_of_the_filter_stands_in_the_sql() -> None:
    words = ["qzjx1", "qzjx2", "qzjx3", "qzjx4", "qzjx5", "qzjx6"]
    one, two, three, four, five, six = words
    text = f'kind == {one} id:"{two}" from in ({three}) to =~ "{four}" tool ~ "{five}*" context has "{six}\'; DROP"'
    sql = compile_sql(parse_filter(text))
    assert sql.parameters and not [word for word in [*words, "DROP", "'; "] if word in sql.where]
    assert "qzjx" not in compile_sql(parse_filter("qzjx7")).where


# --- numbers ---

LITERALS = [
    "0",
    "-0",
    "1",
    "1.0",
    "1e0",
    "0.1",
    "1.5",
    "-1",
    "9007199254740992",
    "9007199254740993",
    "9007199254740992.0",
]
LITERALS += [
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e300",
    "5e-324",
]
LITERALS += ["-9223372036854775808", "-9223372036854775809", "123456789012345678901234567890"]


def exact(text: str) -> Fraction:
    """The number that JSON readers with 64 bits take it for: an integer exactly, anything else as the nearest double."""
    if set("e.") & set(text) or not -(2**63) <= int(text) < 2**64:
        return Fraction(float(text))
    return Fraction(int(text))


@pytest.mark.parametrize("op", ["==", "!=", "<", "<=", ">", ">="])
def test_numbers_are_compared_exactly(op: str) -> None:
    """Both ways: an integer in the message and a double in the filter, and the reverse."""
    records = [
        record(seq, f'{{"kind":"x","payload":{{"n":{text}}}}}') for seq, text in enumerate(LITERALS, 1)
    ]
    index = index_of(records)
    compare = {
        "==": Fraction.__eq__, "!=": lambda a, b: a != b, "<": Fraction.__lt__, "<=": Fraction.__le__,
        ">": Fraction.__gt__, ">=": Fraction.__ge__,
    }[op]  # fmt: skip
    for literal in LITERALS:
        tree = parse_filter(f"payload.n {op} {literal}")
        meant = {seq for seq, text in enumerate(LITERALS, 1) if compare(exact(text), exact(literal))}
        predicate = compile_predicate(tree)
        assert {each.seq for each in records if predicate(RecordedEntry(each), NO_FACTS)} == meant, literal
        of_index = select_places(index, tree)
        assert {*of_index.tolist()} == meant, literal
        of_seq = select_places(index, parse_filter(f"seq {op} {literal}"))
        assert {*of_seq.tolist()} == {
            seq for seq in range(1, len(LITERALS) + 1) if compare(Fraction(seq), exact(literal))
        }


# --- errors ---

# Each wrong filter, the part that the carets point at, and a part of the sentence.
WRONG = [
    ("knid == chat", "knid", "did you mean kind?"),
    ("Kind == chat", "Kind", "did you mean kind?"),
    ("sender == bob", "sender", "did you mean from?"),
    ("params.name == x", "params.name", "did you mean payload.params.name?"),
    ("zzzzzz == 1", "zzzzzz", "Fields are place, seq, time"),
    ("knid in (chat)", "knid", "did you mean kind?"),
    ("kind = chat", "=", "did you mean ==?"),
    ("kind ! chat", "!", "did you mean !=?"),
    ('kind contains "cha"', "contains", "did you mean has?"),
    ('payload.text MATCHES "x"', "MATCHES", "did you mean =~?"),
    ("any to like a*", "like", "did you mean ~?"),
    ("from startswith a", "startswith", 'did you mean ~ "text*"?'),
    ("(kind eq chat)", "eq", "did you mean ==?"),
    ("-latency gt 2s", "gt", "did you mean >?"),
    ("seq between 1 5", "between", "did you mean in 10..20?"),
    ("payload.n between 1 5", "between", "did you mean >= 10 and payload.n <= 20?"),
    ("from is bob", "is", 'To search for the words, write "from is".'),
    ("kind == chat && from == bob", "&&", "did you mean and?"),
    ("a || b", "||", "did you mean or?"),
    ("kind ==", "", "A value is missing after =="),
    ("all payload.list exists", "exists", "cannot stand here"),
    ("kind == chat and", "and", "A condition is missing after and"),
    ("or chat", "or", "needs a condition before it"),
    ("chat and or bob", "or", "needs a condition before it"),
    ("not", "not", "A condition is missing"),
    ("(a or b", "(", "not closed"),
    ("a)", ")", "closes nothing"),
    ("()", ")", "missing before this parenthesis"),
    ("== x", "==", "needs a field before it"),
    ("<img src", "<", "needs a field before it"),
    ("from in (a,", "(", "not closed"),
    ("from in (a,,b)", ",", "A value is missing before this comma"),
    ("from in ()", ")", "missing"),
    ("from in agent", "agent", "in takes a list, such as from in (agent)"),
    ("from in ((a))", "(", "no parentheses in it"),
    ("from == a,b", ",", "in a list alone"),
    ("seq ~ 1", "~", "seq is no text"),
    ('seq == "1"', '"1"', "without quotation marks"),
    ("seq == one", "one", "no number"),
    ("seq == 1s", "1s", "s is no unit here"),
    ("seq 10..", "10..", "no range"),
    ("seq == 1e999", "1e999", "too large"),
    ("latency > 2KiB", "2KiB", "units are ms, s, m, min, h, d"),
    ("size > 2KB", "2KB", "Did you mean KiB?"),
    ("time > yesterday", "yesterday", "is no time"),
    ("time > 25:00", "25:00", "is no time"),
    ("time > 2026-13-01", "2026-13-01", "is no time"),
    ("since:yesterday", "yesterday", "is no time: write since:5m"),
    ("diag.severity >= bad", "bad", "note, warn, error, fatal"),
    ("state == opne", "opne", "did you mean open?"),
    ("state in (open, pending)", "pending", "they are waiting, answered"),
    ("payload.x < true", "true", "has no order"),
    ("payload.x in 1..2", "1..2", "takes no range"),
    ("all seq == 1", "all", "seq is no list"),
    ('kind =~ "(?=x)"', '"(?=x)"', "no regular expression of RE2"),
    ('kind =~ "((a{1000}){1000}){1000}"', '"((a{1000}){1000}){1000}"', "no regular expression of RE2"),
    (f'kind =~ "{"a" * 300}"', f'"{"a" * 300}"', "at most 256 characters"),
    ('"abc', '"', "not closed"),
    (r'kind == "a\q"', r"\q", "no escape"),
    ('""', '""', "need a word"),
    ("from:", "from:", "needs a word after it"),
    ("from: bot", "from:", "needs a word after it"),
    ("sender:bot", "sender:", "Did you mean from:?"),
    ("seq:10", "seq:", "write a comparison such as seq == 10"),
    ("-", "-", "needs a word after it"),
    ("typo - commit", "-", "needs a word after it"),
    ("(" * 31 + "a" + ")" * 31, "(", "at most 30 parentheses"),
    ("x " * 101, "x", "at most 100 words"),
    ("payload" + ".a" * 40 + " exists", "payload" + ".a" * 40, "at most 32 steps"),
]


@pytest.mark.parametrize(("text", "part", "sentence"), WRONG)
def test_an_error_points_at_the_fault_and_says_what_is_meant(text: str, part: str, sentence: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse_filter(text)
    fault = caught.value
    assert sentence in str(fault)
    assert text[fault.start : fault.end].strip() == part
    problem, shown, carets = str(fault).splitlines()
    assert problem.endswith((".", "?"))
    first, last = carets.index("^"), carets.rindex("^")
    assert set(carets.strip()) == {"^"}
    assert (shown[first : last + 1].strip() == part) or len(part) > 100


def test_a_long_filter_is_refused_and_a_long_one_is_shown_in_part() -> None:
    with pytest.raises(FilterError, match="at most 2000"):
        parse_filter("a" * 2001)
    with pytest.raises(FilterError) as caught:
        parse_filter("word " * 80 + "knid == 1 " + "word " * 10)
    lines = str(caught.value).splitlines()
    assert len(lines[1]) < 200 and lines[1][lines[2].index("^") :].startswith("knid")


def test_hidden_characters_of_a_filter_are_shown_as_escapes() -> None:
    with pytest.raises(FilterError) as caught:
        parse_filter("\u202ekind\u200b == x knid == y")
    assert "\u202e" not in str(caught.value) and "\u200b" not in str(caught.value)


def test_any_text_is_a_filter_or_a_filter_error() -> None:
    dice = random.Random(16)
    parts = [
        "kind",
        "to",
        "payload",
        "payload.a",
        "seq",
        "time",
        "==",
        "=",
        "!~",
        "=~",
        "<",
        "in",
        "has",
        "exists",
        "(",
        ")",
    ]
    parts += [
        ",",
        "..",
        "1..2",
        '"',
        "\\",
        '"a"',
        "and",
        "or",
        "not",
        "any",
        "all",
        "-",
        "from:",
        "x",
        "\x00",
        "\ud800",
        "[0]",
        ".",
        "é",
    ]
    parsed = 0
    for _ in range(5000):
        text = "".join(dice.choice(parts) + dice.choice(["", " ", "  "]) for _ in range(dice.randint(1, 12)))
        try:
            predicate = compile_predicate(parse_filter(text))
        except FilterError as fault:
            assert 0 <= fault.start <= fault.end <= len(text) + 1, text
            continue
        parsed += 1
        for each in RECORDS:
            assert predicate(RecordedEntry(each), NO_FACTS) in (True, False)
    assert parsed > 300


def test_deeply_nested_and_long_hostile_messages_are_judged() -> None:
    deep = '{"payload":' + '{"a":' * 3000 + "1" + "}" * 3001
    predicate = compile_predicate(parse_filter("payload.a.a exists"))
    assert predicate(RecordedEntry(record(1, deep, verdict="refused")), NO_FACTS) is False
    surrogate = record(2, "\ud800 chat", verdict="refused")
    assert compile_predicate(parse_filter("CHAT"))(RecordedEntry(surrogate), NO_FACTS) is True
    assert compile_predicate(parse_filter("\\ufffd"))(RecordedEntry(surrogate), NO_FACTS) is False


def test_each_field_has_a_name_a_line_of_text_and_a_type() -> None:
    assert {
        "seq",
        "time",
        "from",
        "to",
        "kind",
        "what",
        "verdict",
        "payload",
        "text",
        "state",
        "latency",
    } <= set(FIELDS)
    for name, field in FIELDS.items():
        assert field.name == name and field.about and not field.about.endswith(".")
        assert json.dumps(field.examples)


def test_the_states_of_a_filter_are_those_of_the_ledger() -> None:
    states = {"claimed"}  # a message under an id that is taken opens nothing of the ledger
    for kept in (Request, Proposal, ChatMessage, ReasoningSequence, StreamFacts, Grant):
        states |= {*get_args(get_type_hints(kept)["state"])}
    assert {*FIELDS["state"].examples} == states and FIELDS["state"].closed


def test_each_filter_that_the_reference_shows_is_one() -> None:
    path = Path(__file__).parents[2] / "notebooks" / "reference" / "views.ipynb"
    cells = ["".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    [text] = [cell for cell in cells if cell.startswith("## The filter")]
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `")]
    shown = [part for row in rows for part in re.findall(r"`([^`]+)`", row)]
    shown = [part for part in shown if part not in ("and", "or", "not", "( )")]
    assert len(shown) > 20
    for part in shown:
        parse_filter(part)
