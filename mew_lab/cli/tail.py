"""`mew-lab tail`: prints the messages of a journal or of a running space, one a line."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from mew_lab.cli import shell
from mew_lab.cli.journal import opened_plain
from mew_lab.cli.terminal import Console, row_line
from mew_lab.errors import MewError
from mew_lab.lab.labs import close_all, connect
from mew_lab.lab.rows import Rows
from mew_lab.log.entries import RecordedEntry
from mew_lab.log.filter.facts import collect_facts
from mew_lab.log.filter.fields import NO_FACTS
from mew_lab.log.filter.grammar import parse_filter
from mew_lab.log.filter.literals import FilterClock
from mew_lab.log.filter.predicate import compile_predicate, needs_facts
from mew_lab.log.filter.tree import Conjunction, FilterTree
from mew_lab.log.log import open_log
from mew_lab.protocol.visible import visible_json
from mew_lab.space.events import Record

__all__ = ["add_options", "journal_lines", "run"]

POLL = 0.2  # seconds between two readings of a followed file


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    about = "a log, or ws://… of a gateway; default: the space that runs in this folder"
    parser.add_argument("source", metavar="FILE|URL", nargs="?", help=about)
    parser.add_argument(
        "--follow", "-f", action="store_true", help="waits for new records at the end of a file"
    )
    parser.add_argument(
        "--filter",
        default="",
        metavar="TEXT",
        help="prints only the messages that pass a filter, such as 'kind ~ \"mcp/*\" and from == agent'",
    )
    parser.add_argument("--json", action="store_true", help="prints the exact text of each message")
    parser.add_argument("--no-color", action="store_true", help="prints no colours")
    shell.add_elsewhere(parser)


def run(options: argparse.Namespace) -> None:
    """Runs the command with these options.

    Raises:
        MewError: The space cannot be joined, the connection is lost for good, or the file is no journal.
    """
    if options.source is None or "://" in options.source:
        return _tail_space(options)
    path = Path(options.source)
    tree = parse_filter(options.filter, clock=FilterClock(zone=_local_zone())) if options.filter else None
    colour = shell.use_colour(options)
    for line in journal_lines(path, follow=options.follow, exact=options.json, colour=colour, tree=tree):
        shell.say(line)
    return None


def _tail_space(options: argparse.Namespace) -> None:
    if options.source is not None:
        shell.check_address(options.source, options)
    tree = parse_filter(options.filter, clock=FilterClock(zone=_local_zone())) if options.filter else None
    if tree is not None and needs_facts(tree):
        raise MewError(
            "A filter of a running space has no state, latency, decided_by or diag: they are not known when a message "
            "arrives. Use them with a journal: mew-lab tail FILE --filter …"
        )
    try:
        lab = connect(
            options.source,
            space=options.space,
            token_file=options.token_file,
            token_env=options.token_env,
            as_id=options.as_id,
        )
        console = Console(
            lab.rows,
            lab.me.participant.client,
            url=lab.url,
            say=shell.say,
            colour=shell.use_colour(options),
            exact=options.json,
            tree=tree,
        )
        for _ in console.lines(reading=False):
            pass
    finally:
        close_all()


def journal_lines(
    path: Path,
    *,
    follow: bool = False,
    exact: bool = False,
    colour: bool = False,
    tree: FilterTree | None = None,
) -> Iterator[str]:
    """Yields the messages of a log, one line each; with `follow`, of a file, it waits for more and never ends.

    With `exact` each line is the text of the envelope instead of a summary. With the tree of a filter only messages
    that pass have lines; one that does not pass when it is read gets none later.

    Raises:
        JournalError: There is no log there, or none that can be followed.
    """
    start: float | None = None
    read = 0
    predicate = compile_predicate(tree if tree is not None else Conjunction(()))
    rows = Rows(lambda: ("", 0))

    def records() -> Iterable[Record]:
        return opened_plain(path) if follow else log.records

    while True:
        size = path.stat().st_size if follow else 0
        # Opened each time: an empty file does not tell yet whose log it becomes.
        log = open_log(path, index=False)
        shown, read = read, 0
        facts = collect_facts(records, tree) if tree is not None and needs_facts(tree) else {}
        for record in records():
            read += 1
            # A journal that grew is read again from its beginning; the records that were shown are skipped.
            if read <= shown or record.raw is None:
                continue
            rows.observe(record)
            start = record.now.timestamp() if start is None else start
            number = rows.last_seq
            entry = RecordedEntry(record, read, number)
            if tree is not None and not predicate(entry, facts.get(read, NO_FACTS)):
                continue
            (row,) = rows.since(number - 1, 1)
            yield (
                visible_json(record.raw)
                if exact
                else row_line(row, start=start, colour=colour, sign=log.sign)
            )
        if not follow:
            for fault in log.faults or (() if read else ("the log holds no record",)):
                shell.warn(f"mew-lab tail: {fault}")
            return
        while path.stat().st_size == size:
            time.sleep(POLL)


def _local_zone() -> tzinfo:
    """The zone of this computer's clock."""
    return datetime.now().astimezone().tzinfo or UTC
