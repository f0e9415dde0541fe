"""The feed of a log from files: the rows, states and findings that the log itself has."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from pages import picture

from mew_lab.errors import NoSuchName
from mew_lab.log.line import write_line
from mew_lab.log.log import Log, open_log
from mew_lab.views.feed import widget as feed
from mew_lab.views.ui import log_rows

GARDEN = Path(str(files("mew_lab") / "data" / "garden.jsonl"))


def shown(page: Any, count: int) -> list[list[Any]]:
    """All rows that the page has, once it has so many."""

    def rows() -> list[list[Any]]:
        return [row for kind in ("rows", "earlier") for item in page.of(kind) for row in item["rows"]]

    page.until(lambda: len(rows()) >= count)
    return sorted(rows())


def test_the_feed_of_a_file_shows_each_of_its_messages_once(browser: Callable[..., Any]) -> None:
    log = open_log(GARDEN)
    frame = log.df
    page = browser(log.view.feed)
    page.appear()
    rows = shown(page, len(frame))
    assert [row[0] for row in rows] == list(frame["seq"])  # the numbers of the journal
    assert [row[2] for row in rows] == list(frame["from"])
    assert [row[4] for row in rows] == list(frame["kind"])
    assert [row[11] for row in rows] == list(frame["id"])


def test_the_feed_of_a_file_holds_its_newest_messages_whatever_stands_between_them(
    browser: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "RING", 20)
    monkeypatch.setattr(log_rows, "RING", 20)
    lines, messages, number = list[bytes](), list[int](), 0
    for place, record in enumerate(open_log(GARDEN).records):
        for between in range(9 if place else 0):  # records without a message
            number += 10 ** (between % 3)
            lines.append(write_line(record._replace(seq=number, event="note", raw=None, detail="")))
        number += 1 if place else 0
        lines.append(write_line(record._replace(seq=number)))
        messages += [number] if record.raw is not None else []
    path = tmp_path / "wide.jsonl"
    path.write_bytes(b"".join(lines))
    page = browser(open_log(path).view.feed)
    snapshot = page.appear()
    assert [row[0] for row in shown(page, 20)] == messages[-20:]
    assert snapshot["earlier"] == len(messages) - 20


def test_numbers_beyond_those_of_a_page_hide_no_message(browser: Callable[..., Any], tmp_path: Path) -> None:
    path, last = tmp_path / "far.jsonl", 2**63 - 1
    records = [*open_log(GARDEN).records]
    first = last - len(records) + 1
    path.write_bytes(b"".join(write_line(record._replace(seq=first + n)) for n, record in enumerate(records)))
    ids = [row[11] for row in shown_of(browser, open_log(GARDEN))]
    rows = shown_of(browser, open_log(path))
    assert [row[11] for row in rows] == ids
    assert len({float(row[0]) for row in rows}) == len(ids)


def shown_of(browser: Callable[..., Any], log: Log) -> list[list[Any]]:
    page = browser(log.view.feed)
    page.appear()
    return shown(page, len(log))


def test_the_feed_of_a_file_knows_what_the_diagnosis_finds(
    browser: Callable[..., Any], tmp_path: Path
) -> None:
    lines = GARDEN.read_text().splitlines(keepends=True)
    cut = tmp_path / "cut.jsonl"
    # Without its last third, requests of the session have no answer: what only the end of a log tells.
    cut.write_text("".join(lines[: len(lines) * 2 // 3]))
    log = open_log(cut)
    frame, found = log.df.reset_index(drop=True), log.diagnose().df
    rows_of = dict(zip(frame["place"], frame["seq"], strict=True))
    expected = {rows_of[place] for place in found["place"] if place in rows_of}
    assert expected
    page = browser(log.view.feed)
    page.appear()

    def marked() -> set[int]:
        return {row for item in page.of("findings") for row, rank in item["findings"] if rank}

    page.until(lambda: marked() >= expected)
    assert marked() == expected


def test_the_feed_of_a_file_shows_how_long_each_request_took(browser: Callable[..., Any]) -> None:
    log = open_log(GARDEN)
    answered = log.requests().dropna(subset=["latency"])
    expected = {row["id"]: round(row["latency"], 3) for _, row in answered.iterrows()}
    assert expected
    page = browser(log.view.feed)
    page.appear()
    rows = shown(page, len(log))
    took = {
        row[11]: round(row[14][1], 3)
        for row in rows
        if len(row) > 14 and row[14][0] in ("answered", "failed")
    }
    assert {id: took.get(id) for id in expected} == expected


def test_the_feed_of_a_file_filters_by_the_grammar_of_the_log(browser: Callable[..., Any]) -> None:
    log = open_log(GARDEN)
    text = 'kind == "mcp/proposal" and time > -30d'  # relative to the end of the log, as everywhere
    count = len(log.filter(text))
    assert count
    page = browser(log.view.feed)
    page.appear()
    page.send({"t": "filter", "view": "v1", "n": 1, "text": text, "zone": 0})
    page.until(lambda: sum(len(item["seqs"]) for item in page.of("passed")) == count)


def test_a_log_of_a_running_space_leaves_its_feed_to_the_lab() -> None:
    with pytest.raises(NoSuchName, match=r"those of lab\.view"):
        _ = Log.live(space="x").view.feed


def test_an_empty_log_has_an_empty_feed(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert "There is no message in this log." in picture(open_log(empty).view.feed)


def test_there_is_nothing_to_save_in_the_feed_of_a_file(browser: Callable[..., Any]) -> None:
    page = browser(open_log(GARDEN).view.feed)
    page.appear()
    assert page.act("save")["said"] == "This log stands in a file already; log.save(PATH) makes a copy."
