"""A table with the columns of an index, made here from records, and random records and filters for it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb

from mew_lab.log.answers import DirectAnswers, LogOrigin
from mew_lab.log.diagnose.findings import SEVERITIES
from mew_lab.log.entries import RecordedEntry
from mew_lab.log.files import CopiedLines, RecentRecords
from mew_lab.log.filter.fields import FIELDS, NO_FACTS, STATES, Facts
from mew_lab.log.filter.tree import Conjunction, Disjunction, FilterTree, Inversion, TextSearch
from mew_lab.log.held_records import LiveRecords
from mew_lab.log.index import LogIndex
from mew_lab.space.events import Record

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TYPES = {
    "integer": "BIGINT",
    "seconds": "DOUBLE",
    "time": "TIMESTAMPTZ",
    "list": "VARCHAR[]",
    "text": "VARCHAR",
    "severity": "VARCHAR",
}


def record(seq: int, envelope: object, *, t: float = 0.0, verdict: str = "accepted", **more: Any) -> Record:
    """A record of this envelope, received `t` seconds after START; a text stands for itself."""
    raw = envelope if isinstance(envelope, str | None) else json.dumps(envelope, ensure_ascii=False)
    return Record(seq, START + timedelta(seconds=t), "received", verdict=verdict, raw=raw, **more)


def passing(records: Iterable[Record], tree: FilterTree) -> list[tuple[int, Record]]:
    """The records that pass a filter, with their places, as a log answers directly."""
    held = LiveRecords(None)
    for each in records:
        held.observe(each)
    return [*DirectAnswers(held, LogOrigin("gateway", "#", ""), lambda: index_of(())).passing(tree)]


def index_of(records: Iterable[Record]) -> LogIndex:
    """An index of the lines of these records."""
    lines = CopiedLines()
    lines.add(RecentRecords(0, [*records]))
    return LogIndex(lines, keep=False).build()


def make_entries(
    records: Sequence[Record], facts: Sequence[Facts] = (), *, empty: bool = False
) -> duckdb.DuckDBPyConnection:
    """A database with the table; with `empty`, empty texts and lists are NULL in it, as an index may have them."""
    database = duckdb.connect(config={"threads": 1})
    database.execute("SET TimeZone = 'UTC'")
    columns = [field for field in FIELDS.values() if field.type != "json" and field.name != "text"]
    typed = ", ".join(f"{field.column} {TYPES[field.type]}" for field in columns)
    database.execute(f"CREATE TABLE entries ({typed})")
    rows = []
    for place, (each, fact) in enumerate(zip(records, facts or [NO_FACTS] * len(records), strict=True), 1):
        entry = RecordedEntry(each, place)
        row: list[Any] = []
        for field in columns:
            value = field.value(entry, fact)
            value = list(value) if isinstance(value, tuple) else value
            row.append(None if empty and value in ("", []) else value)
        rows.append(row)
    marks = ", ".join("?" * len(columns))
    if rows:
        database.executemany(f"INSERT INTO entries VALUES ({marks})", rows)
    return database


def reads_columns(tree: FilterTree) -> bool:
    """Whether a filter reads nothing but columns."""
    if isinstance(tree, Inversion):
        return reads_columns(tree.part)
    if isinstance(tree, Conjunction | Disjunction):
        return all(map(reads_columns, tree.parts))
    if isinstance(tree, TextSearch):
        return False
    return tree.reference.field.type != "json" and tree.reference.field.name != "text"


# --- random ---

WORDS = [
    "chat",
    "mcp/request",
    "agent",
    "helper",
    "Ärger",
    "ärger",
    "K",
    "k",
    "\u212a",
    "ſ",
    "s",
    "",
    "a.b",
    "0",
    "1",
    "1.0",
]
WORDS += [
    "true",
    "null",
    "é",
    "e\u0301",
    "İ",
    "ß",
    "ẞ",
    "😀",
    "a\nb",
    'q"t',
    "back\\slash",
    "x" * 300,
    "a*c",
    "*",
    "~1",
    "a/b",
    "\u2028",
]
NUMBERS: list[Any] = [
    0,
    1,
    1.0,
    -1,
    2,
    0.5,
    2**53,
    2**53 + 1,
    float(2**53),
    2**63,
    2**63 - 1,
    -(2**63),
    2**64 - 1,
]
NUMBERS += [1e22, 1.5e300, -0.0, 5e-324, 0.1, 1e-7, 9007199254740991.0, 123456789.125]
KEYS = ["name", "a", "b", "a.b", "0", "1", "", "a/b", "~", "x y", 'q"', "é", "method", "params"]


def random_json(dice: random.Random, depth: int = 3) -> Any:
    what = dice.random()
    if depth == 0 or what < 0.35:
        return dice.choice([*WORDS, *NUMBERS, *NUMBERS, True, False, None])
    if what < 0.65:
        return [random_json(dice, depth - 1) for _ in range(dice.choice([0, 1, 2, 3]))]
    return {dice.choice(KEYS): random_json(dice, depth - 1) for _ in range(dice.choice([0, 1, 2, 4]))}


def random_record(dice: random.Random, seq: int) -> Record:
    envelope: dict[str, Any] = {"protocol": "mew/v0.4"}
    for name in ("id", "from", "kind", "context", "ts"):
        if dice.random() < 0.8:
            envelope[name] = dice.choice(WORDS) if dice.random() < 0.9 else random_json(dice, 1)
    for name in ("to", "correlation_id"):
        if dice.random() < 0.6:
            some = [dice.choice(WORDS) for _ in range(dice.choice([0, 1, 1, 2, 3]))]
            envelope[name] = some if dice.random() < 0.9 else random_json(dice, 2)
    if dice.random() < 0.9:
        envelope["payload"] = random_json(dice) if dice.random() < 0.4 else _random_payload(dice)
    verdict = dice.choice(["accepted", "accepted", "accepted", "sent", "refused", ""])
    raw: object = json.dumps(envelope, ensure_ascii=dice.random() < 0.5)
    if verdict in ("refused", "") and dice.random() < 0.5:
        raw = dice.choice(ODD)
    elif dice.random() < 0.05:
        raw = None
    return record(
        seq if dice.random() < 0.95 else dice.choice([0, 2**53 + 1, 2**62]),
        raw,
        t=dice.choice([0, 1, 59.5, 60, 1800.000001, 86400]),
        verdict=verdict,
        code=dice.choice(["", "", "capability_violation"]),
        participant=dice.choice(["", "agent", "Ärger"]),
        via=dice.choice(["", "memory", "websocket"]),
    )


ODD = [
    "no json", "[1]", '{"a":NaN}', '{"payload":{"a":1e400}}', '{"payload":{"a":1,"a":2}}', '{"payload":{"a":"\\ud800"}}',
    '{"payload":{"a":123456789012345678901234567890}}', '{"payload":{"a":1,}}', "[" * 3000, "", " ", "\ud800 chat",
    '{"kind":"chat","kind":"mcp/request","payload":{"name":"a"}}', '{"payload":' + '{"a":' * 80 + "1" + "}" * 80 + "}",
]  # fmt: skip


def _random_payload(dice: random.Random) -> dict[str, Any]:
    return {
        "method": "tools/call",
        "name": random_json(dice, 2),
        "a": random_json(dice, 2),
        "params": random_json(dice),
    }


def random_facts(dice: random.Random) -> Facts:
    if dice.random() < 0.4:
        return NO_FACTS
    return Facts(
        dice.choice(["", "waiting", "answered", "open", "fulfilled"]),
        dice.choice([None, 0.0, 0.5, 2.0, 2.0000001, 61.0]),
        dice.choice(["", "agent", "human"]),
        dice.choice(["", *SEVERITIES]),
        tuple(dice.sample(["loop", "skew", "Ärger"], dice.choice([0, 1, 2]))),
    )


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def random_filter(dice: random.Random, depth: int = 3) -> str:
    what = dice.random()
    if depth == 0 or what < 0.55:
        return random_condition(dice)
    parts = [random_filter(dice, depth - 1) for _ in range(dice.choice([1, 2, 3]))]
    if what < 0.65:
        return f"not ({parts[0]})"
    if what < 0.7:
        return f"-({parts[0]})"
    return "(" + dice.choice([" and ", " or ", " "]).join(parts) + ")"


def _value(dice: random.Random) -> str:
    if dice.random() < 0.5:
        return quoted(dice.choice(WORDS))
    number = dice.choice(NUMBERS)
    return dice.choice(
        [str(number), repr(float(number)), str(number) + ("" if isinstance(number, float) else ".0")]
    )


def _value_of(subject: str, dice: random.Random) -> str:
    """A value to compare it with: of a closed list, one of its values."""
    return dice.choice(STATES) if subject == "state" else _value(dice)


def _path(dice: random.Random) -> str:
    steps = dice.choice(
        [
            ["name"],
            ["a"],
            ["a", "b"],
            ["a", "0"],
            ["params", "a"],
            ["0"],
            ["a", "0", "a"],
            ["params", "0"],
            [],
        ]
    )
    if dice.random() < 0.3:
        steps = [dice.choice(KEYS) for _ in range(dice.choice([1, 2, 3]))]
    return "payload" + "".join(
        f"[{step}]" if step.isdigit() and dice.random() < 0.5 else f".{quoted(step)}" for step in steps
    )


TEXTS = [
    "from",
    "kind",
    "what",
    "context",
    "verdict",
    "code",
    "id",
    "ts",
    "method",
    "tool",
    "participant",
    "event",
]
TEXTS += ["connection", "via", "state", "decided_by", "pattern", "grant", "text"]
LISTS = ["to", "correlation_id", "diag.rule"]
GLOBS = ["*", "mcp/*", "?", "*r*", "Ä*", "a?b", "a\\*c", "", "*k", "**", "x*"]
EXPRESSIONS = [
    "^a",
    "k$",
    "(?i)ärger",
    "a.b",
    "[a-c]/",
    "\\d+",
    "",
    "(?s)a.b",
    "^$",
    "\\p{Lu}",
    "\\bchat\\b",
    "a|b",
    "(?m)^b$",
    "\\x00",
]


def random_condition(dice: random.Random) -> str:
    what = dice.random()
    if what < 0.1:
        return quoted(dice.choice([word for word in WORDS if word]))
    if what < 0.2:
        field = dice.choice(["from", "to", "kind", "tool", "id", "context", "verdict", "method"])
        return f"{field}:{quoted(dice.choice([word for word in WORDS if word]))}"
    if what < 0.3:
        name, values = dice.choice(
            [
                ("seq", ["0", "3", "20.5", "1e3", "9007199254740992", "9007199254740992.0", "9007199254740993", "1e30", "-1e30"]),
                ("size", ["0", "100B", "1KiB", "0.5KiB"]),
                ("latency", ["0", "2s", "500ms", "1m", "0.5", "1h"]),
                ("time", ["2026-03-01", '"2026-03-01 12:01"', "2026-03-01T12:30:00.000001Z", "-1h", "12:30"]),
                ("diag.severity", [*SEVERITIES]),
            ]
        )  # fmt: skip
        if name != "diag.severity" and dice.random() < 0.3:
            some = [value for value in values if not value.startswith(("-", '"'))]
            return f"{name} {dice.choice(some)}..{dice.choice(some)}"
        return f"{name} {dice.choice(['==', '!=', '<', '<=', '>', '>='])} {dice.choice(values)}"
    if what < 0.4:
        return (
            f"{dice.choice([*TEXTS, *LISTS, 'seq', 'latency', 'diag.severity', 'time', _path(dice)])} exists"
        )
    subject = dice.choice([dice.choice(TEXTS), dice.choice(LISTS), _path(dice), _path(dice)])
    if subject not in TEXTS and dice.random() < 0.3:
        subject = f"{dice.choice(['any', 'all'])} {subject}"
    how = dice.random()
    if how < 0.15:
        return f"{subject} {dice.choice(['~', '!~'])} {quoted(dice.choice(GLOBS))}"
    if how < 0.3:
        return f"{subject} =~ {quoted(dice.choice(EXPRESSIONS))}"
    if how < 0.45:
        return f"{subject} in ({', '.join(_value_of(subject, dice) for _ in range(dice.choice([1, 2, 3])))})"
    if how < 0.6:
        return f"{subject} has {_value(dice)}"
    if how < 0.7 and "payload" in subject:
        return f"{subject} {dice.choice(['==', '!='])} {dice.choice(['true', 'false', 'null'])}"
    return f"{subject} {dice.choice(['==', '!=', '<', '<=', '>', '>='])} {_value_of(subject, dice)}"
