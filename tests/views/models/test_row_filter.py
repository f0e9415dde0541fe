"""A filter in a person's words: the page's own (views/feed/filter.js) keeps the rule of the reference beside this."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from row_filter import asks, compile_filter

from mew_lab.errors import MewError
from mew_lab.lab.rows import Row
from mew_lab.protocol.visible import visible
from mew_lab.views.feed.columns import SIGNS
from mew_lab.views.ui.front_end import VIEWS

from ...conftest import examples

CASES = json.loads((Path(__file__).parents[1] / "filter_cases.json").read_text("utf-8"))
# Reads a filter and packed rows a line, and says which rows pass, or why none is looked at.
SCRIPT = """
import { createInterface } from "node:readline";
const { compileFilter } = await import(process.argv[1]);
for await (const line of createInterface({ input: process.stdin })) {
  const [text, rows] = JSON.parse(line);
  let answer;
  try { answer = rows.filter(compileFilter(text, { now: 1000120, zone: 3600 })).map((row) => row[0]); } catch (error) { answer = error.message; }
  console.log(JSON.stringify(answer));
}
"""

# 13:48:40 UTC of a day in January 1970; the reader's clock is an hour ahead.
NOW, ZONE = 1_000_120.0, 3600

Judge = Callable[[str, Sequence[Row]], Any]


def row_of(members: dict[str, Any]) -> Row:
    return Row(**{"t": 0.0, "id": ""} | members | {"correlates": 0, "size": 0, "to": tuple(members["to"])})


def pack(row: Row) -> list[Any]:
    """A row as the page has it."""
    shown = [visible(text) for text in (row.sender, ", ".join(row.to), row.kind, row.what, row.context)]
    verdict = f"{SIGNS.get(row.verdict, '')} {visible(row.code)}".strip()
    return [row.seq, row.t, *shown, 0, verdict, 0, [], visible(row.id[:80]), row.tool, 0]


def judge(text: str, rows: Sequence[Row]) -> Any:
    """What the reference says: the numbers of the rows that pass, or why none is looked at."""
    try:
        holds = compile_filter(text, NOW, ZONE)
    except MewError as refused:
        return str(refused)
    return [row.seq for row in rows if holds(row)]


ROWS = [row_of(members) for members in CASES["rows"]]


@pytest.fixture(scope="module")
def page(node: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """The filter of the page, run by Node."""
    module = tmp_path_factory.mktemp("filter") / "filter.mjs"
    shutil.copyfile(VIEWS / "feed" / "filter.js", module)
    command = [node, "--input-type=module", "-e", SCRIPT, module.as_uri()]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=module.parent
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        ask, answers = process.stdin, process.stdout

        def judge_there(text: str, rows: Sequence[Row]) -> Any:
            print(json.dumps([text, list(map(pack, rows))]), file=ask, flush=True)
            return json.loads(answers.readline())

        yield judge_there
        ask.close()


@pytest.mark.parametrize(("text", "expected"), CASES["meant"])
def test_the_rows_that_are_meant(text: str, expected: list[int]) -> None:
    assert judge(text, ROWS) == expected


@pytest.mark.parametrize(("text", "expected"), CASES["asks"])
def test_a_filter_asks_for_plumbing_by_words_and_kinds(text: str, expected: bool) -> None:
    assert asks(text) is expected


@pytest.mark.parametrize(("text", "reason"), CASES["refused"])
def test_what_cannot_be_understood_says_where_and_what_would_do(text: str, reason: str) -> None:
    with pytest.raises(MewError) as refused:
        compile_filter(text)
    assert reason in str(refused.value)


WORDS = st.sampled_from(
    [
        "typo",
        "Typo fix",
        "bot",
        "é",
        "Ä",
        "ß",
        "İ",
        "Σ",
        "\u202e",
        "😀",
        "1",
        "chat",
        "mcp/request",
        ":",
        "-",
        "\\",
    ]
)
PIECES = st.one_of(
    WORDS,
    st.sampled_from(
        [
            "from:",
            "TO:",
            "kind:",
            "context:",
            "verdict:",
            "other:",
            "tool:",
            "id:",
            "since:",
            "since:2m",
            '"',
            '"typo fix"',
            " ",
            "  -",
            "\t",
            "accepted",
        ]
    ),
)
FILTERS = st.lists(PIECES, max_size=12).map("".join)
TEXTS = st.lists(WORDS, max_size=4).map(" ".join)
DRAWN_ROWS = st.lists(
    st.builds(
        Row,
        seq=st.integers(1, 20),
        t=st.just(0.0),
        sender=TEXTS,
        to=st.lists(TEXTS, max_size=3).map(tuple),
        kind=TEXTS,
        what=TEXTS,
        context=TEXTS,
        correlates=st.just(0),
        verdict=st.sampled_from(["accepted", "refused", "sent", ""]),
        code=TEXTS,
        id=st.just(""),
        size=st.just(0),
    ),
    max_size=6,
)


@settings(max_examples=examples(1200), deadline=None)
@given(text=FILTERS, rows=DRAWN_ROWS)
@example(text='"2 bot git, files mcp/proposal tools/call"', rows=[])  # a row is one text, column after column
@example(text='"typo e-3/inner accepted mcp/proposal"', rows=[])
@example(text="a" * 500, rows=[])
@example(text="😀" * 500, rows=[])
@example(text="a" * 501, rows=[])
@example(text=" ".join("a" * 50), rows=[])
@example(text=" ".join("a" * 51), rows=[])
def test_the_page_lets_the_rows_through_that_the_reference_does(
    page: Judge, text: str, rows: list[Row]
) -> None:
    rows = [*ROWS, *rows]
    assert page(text, rows) == judge(text, rows)


@pytest.mark.threat(32)
@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ('kind:chat or process.exit(1) "touch here"', False),
        ("process.exit(1)", False),
        ("globalThis.touched=1", False),
        ("from:process.exit(1)", False),
        ("constructor:constructor", True),
        ("__proto__:x", False),
        ("toString:x", True),
        ("${process.exit(1)}", False),
        ("eval:0", True),
    ],
)
def test_threat_32_a_filter_is_words_to_look_for_and_never_code(
    page: Judge, text: str, refused: bool
) -> None:
    answer = page(text, ROWS)
    if refused:  # what stands before a colon is a column, and there are few
        assert answer.startswith('Messages have no field "')
    else:
        assert answer == []
        row = ROWS[0]._replace(what=text, kind="chat", sender=text.removeprefix("from:"))
        assert page(text, [row]) == [row.seq]
    source = (VIEWS / "feed" / "filter.js").read_text("utf-8")
    source = re.sub(r"/\*\*.*?\*/", "", source, flags=re.DOTALL)  # a type names its module by `import`
    assert not re.search(r"\b(eval|Function|import|setTimeout|setInterval|document|globalThis)\b", source)
