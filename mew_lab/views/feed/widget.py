"""Shows every message in the browser, once and in order, at thousands a second.

The feed has a cursor in the log. The writer sends the rows after the cursor, in one message each twentieth of a
second. Each message names the row after which it begins. A view that missed a message notices the gap, and requests
the rows after its last one, which moves the cursor back, and the rows before its first one. A view that has the rows
already ignores them. So a reload, a second view and a message that the server dropped are the same case.

A view that has nothing yet gets the newest rows at once, and then the earlier ones backwards, so that it
opens as fast on a long log as on a short one. A view holds 20 000 rows, so earlier ones are not sent. The exact text
and the details of an envelope are sent only when its row is opened.

Views filter by words, count and select by themselves. They report the selection to the kernel, so that code can read it.
The kernel evaluates the other filters (`row_filter`), some rows in each message; a view's newest filter ends the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from mew_lab.errors import FilterError, MewError
from mew_lab.lab.decisions.running_calls import RunningCall, RunningCalls
from mew_lab.lab.entry_feed import EntryFeed
from mew_lab.lab.rows import Row, Rows
from mew_lab.lab.session import Session
from mew_lab.log.copying import MessageSelection
from mew_lab.log.diagnose.findings import LogFinding
from mew_lab.log.line import read_members
from mew_lab.log.log import Log
from mew_lab.log.numbering import NumberedEntry
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import visible
from mew_lab.sdk.kept_results import KeptResults
from mew_lab.views.feed.calls import CallState, CallStates
from mew_lab.views.feed.columns import COLUMNS, DEFAULT, SIGNS, VALUES, FeedColumn, RowFacts, select_columns
from mew_lab.views.feed.detail import detail, kept_of, why
from mew_lab.views.feed.extract import as_python, save_log
from mew_lab.views.feed.findings import FileFindings, LiveFindings, RowFindings, rank_of
from mew_lab.views.feed.row_filter import EXPRESSION_FIELDS, RowFilter, condition_of, suggest_filters
from mew_lab.views.ui.acts import ANEW, Act, ActingView, ActResult, Submit
from mew_lab.views.ui.kept import KeptLoads
from mew_lab.views.ui.log_rows import RING, NewestRecords
from mew_lab.views.ui.pictures import MOST_ROWS, clock_time, picture
from mew_lab.views.ui.running import RunningList

__all__ = ["Desk", "FeedView", "view_of", "view_of_log"]

CHUNK = 2_000
FIRST = 400  # rows that a view gets at once: more than any screen shows
MOST_BRIEF = 12  # rows in the stored picture of a page with other views
MOST_COPIED = 4_000_000
COPIES = {"jsonl": "JSONL", "markdown": "Markdown", "mermaid": "Mermaid", "python": "Python"}
MOST_ID = 80  # characters of an id that the views get
PICTURED = 1000  # the newest rows, among which those of a saved picture are looked for
MOST_FILTERS = 20  # views whose filters are evaluated here
STEP = 1_500  # rows that each of them judges in one message
JUDGED = 500  # records that the diagnosis judges in one message, once the rows are sent
DAY = 86_400


LIVE = "lab.log"
NO_MESSAGES = 'No messages yet. lab.chat("hello") sends one.'


class Desk(Protocol):
    """The actions that the feed needs from its lab."""

    def save(self) -> Future[str]:
        """Writes the log to a file; the result is the path."""

    def as_id(self, sender: str) -> str | None:
        """The name of the seat of this process that sends as `sender`; None for you, and where there is no such seat."""


class _SessionDesk:
    def __init__(self, session: Session) -> None:
        self._session = session

    def save(self) -> Future[str]:
        return self._session.loop.submit(save_log(self._session.log, Path.cwd(), datetime.now(UTC)))

    def as_id(self, sender: str) -> str | None:
        return sender if sender in self._session.seats and sender != self._session.me.name else None


def view_of(session: Session, rows: Rows) -> FeedView:
    """Makes the view of this space."""
    calls = CallStates()
    findings = LiveFindings(session.log, rows, ring=RING, ended=lambda: session.closed)
    view = FeedView(rows, desk=_SessionDesk(session), calls=calls, findings=findings, me=session.me.name)
    view.allow_loads(session.me.participant.results, session.loop.submit)
    view.allow_cancels(session.decisions.running, session.loop.submit)
    session.loop.call(lambda: session.following.add(calls))
    view.on_close(lambda: session.loop.post(lambda: session.following.remove(calls)))
    return view


def view_of_log(log: Log, newest: NewestRecords) -> FeedView:
    """Makes the view of a log from files: of its newest messages, with nothing to come."""
    calls = CallStates()
    following = EntryFeed(log)
    following.add(calls, earlier=False)
    for record in newest.records:
        following.observe(record)
    findings = FileFindings(newest.records, ring=RING, vantage=log.vantage)
    return FeedView(newest.rows, calls=calls, findings=findings, log="log", clock=newest.end)


class FeedView(ActingView):
    """The live table of one log. Show it as often as you like.

    A view holds the newest 20 000 rows; older ones are in `lab.log.df`.
    """

    part = "feed"
    title = "feed"
    interval = 0.05

    def __init__(
        self,
        source: Rows,
        *,
        desk: Desk | None = None,
        calls: CallStates | None = None,
        findings: RowFindings | None = None,
        me: str = "",
        log: str = LIVE,
        **settings: Any,
    ) -> None:
        self._log_name = log  # the name by which a reader finds what this view does not hold
        self._source = source
        self._calls = calls or CallStates()
        self._findings = findings
        self._me = me
        self._desk = desk
        self._loads: KeptLoads | None = None
        self._running: RunningList | None = None
        self._is_unplaced = False  # whether the row of a call that runs was not known when it was told
        # Only the writer moves these: the last row sent, the earlier rows (after, up to) still to be sent, and whether
        # a view has just been given its first ones.
        self._cursor = 0
        self._earlier = (0, 0)
        self._opening = False
        self._missing: deque[int] = deque(maxlen=20)  # the rows up to these did not arrive in a view
        self._asked_for: deque[tuple[str, str, int, bool]] = deque(maxlen=100)
        # The newest filter of each view: what was asked for, and what the writer evaluates.
        self._wanted_filters: BoundedDict[str, tuple[int, str, int]] = BoundedDict(MOST_FILTERS)
        self._filters: BoundedDict[str, tuple[int, RowFilter]] = BoundedDict(MOST_FILTERS)
        self._columns = select_columns(DEFAULT)
        self._chosen = False  # whether code has chosen the columns
        self._selected: tuple[int, ...] = ()
        super().__init__(**settings)
        self.on_close(source.subscribe(self.wake))
        self.on_close(self._calls.changed.add(self.wake))

    # The interface for code in the notebook.

    @property
    def selection(self) -> list[dict[str, Any]]:
        """The envelopes of the selected rows, oldest first, as dicts; the last selection of all views counts.

        There are at most 2 000. A row is left out when it is no JSON object or is no longer held.
        """
        envelopes = (read_members(self._source.raw(seq), exact=True) for seq in self._selected)
        return [envelope for envelope in envelopes if envelope is not None]

    @property
    def columns(self) -> tuple[FeedColumn, ...]:
        """The columns that are shown, as FeedColumns; may be set to names such as `["seq", "from", "what"]` too.

        The names are seq, time, elapsed, route, from, to, kind, what, took, finding, context, follows, verdict and
        size. Any other name raises a MewError. What code sets here takes the place of the columns that a person has
        chosen.
        """
        return self._columns

    @columns.setter
    def columns(self, wanted: Iterable[str | FeedColumn]) -> None:
        self._columns, self._chosen = select_columns(wanted), True
        self.post({"t": "columns"} | self._pack_columns())

    def allow_loads(self, results: KeptResults, submit: Submit) -> None:
        """Lets the views load results that were too large for a message."""
        self._submit_act = submit
        self._loads = KeptLoads(results, post=self.post)

    def allow_cancels(self, running: RunningCalls, submit: Submit) -> None:
        """Lets the views cancel the calls that run, where this person may."""
        self._submit_act = submit
        self._running = RunningList(running, wake=self.wake, place=self._place)
        self.on_close(self._running.end)

    def _place(self, call: RunningCall) -> dict[str, Any]:
        seq = self._calls.row_of(call.id)
        self._is_unplaced = self._is_unplaced or not seq
        return {"seq": seq}

    def _pack_columns(self) -> dict[str, Any]:
        """The columns to show, all columns that there are, and whether code has chosen them."""
        ours = {column.name: column for column in self._columns}
        known = [ours.get(name, column) for name, column in COLUMNS.items()]
        return {
            "columns": [column.name for column in self._columns],
            "known": [column._asdict() | {"title": visible(column.title)} for column in known],
            "chosen": self._chosen,
        }

    # Messages to the views.

    def _snapshot(self, start: int) -> dict[str, Any]:
        last = self._source.last_seq
        oldest = self._source.back(last, RING)
        asked = start
        # The view has nothing, has rows of an earlier log, or would have a gap.
        if start > last or start < oldest or not start:
            start = self._source.back(last, min(FIRST, RING))
            self._earlier, self._opening = (oldest, start), True
        # Without another view, no view waits for the rows between.
        self._cursor = start if len(self._views) <= 1 else min(self._cursor, start)
        first = self._source.since(0, 1)
        count = self._source.count()
        return {
            "last": last,
            "start": start,
            "oldest": oldest + 1,
            "earlier": count - self._source.count(oldest),
            "count": count - self._source.count(start),
            "sign": self._source.sign,
            "ring": RING,
            "log": self._log_name,
            "live": self._log_name == LIVE,
            "began": round(first[0].t, 3) if first else None,
            "me": visible(self._me),
            "fields": EXPRESSION_FIELDS,
            # The rows that the view holds may have been answered in a message that it missed.
            "calls": [_pack_call(seq, state) for seq, state in self._calls.between(oldest + 1, start)]
            if start == asked
            else [],
            "findings": self._pack_ranks(self._findings.between(oldest + 1, start))
            if self._findings is not None and start == asked
            else [],
            "running": self._running.all() if self._running else [],
        } | self._pack_columns()

    def _heading(self) -> dict[str, Any]:
        name, members = self._source.title()
        return {"space": visible(name), "members": members}

    def _news(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        last = self._source.last_seq
        after = max(self._cursor, self._source.back(last, RING))
        rows = self._source.since(after, CHUNK) if last > after else []
        if rows:
            # Rows between `after` and the first one are no longer held, so they are no loss.
            gap = self._source.count(self._cursor) > self._source.count(rows[0].seq - 1)
            count = self._source.count() - self._source.count(rows[-1].seq)
            about = {"after": self._cursor, "gap": gap, "count": count}
            items.append({"t": "rows", "rows": self._pack_rows(rows)} | about)
            self._cursor = rows[-1].seq
            if self._cursor < last:
                self.wake()
        while self._missing:
            lacking, (after, upto) = min(self._missing.popleft(), last), self._earlier
            self._earlier = self._source.back(last, RING), max(lacking, upto if upto > after else 0)
        after, upto = self._earlier
        if upto > after:
            if not self._opening:  # the first screen goes in a message of its own
                at = max(after, self._source.back(upto, CHUNK))
                older = [row for row in self._source.since(at, CHUNK) if row.seq <= upto]
                if not older:  # they were dropped meanwhile
                    at = after
                items.append({"t": "earlier", "rows": self._pack_rows(older), "after": at, "upto": upto})
                self._earlier = (after, at)
            self._opening = False
            self.wake()
        if changed := [_pack_call(seq, state) for seq, state in self._calls.drain()]:
            items.append({"t": "calls", "calls": changed})
            if self._running and self._is_unplaced:
                self._is_unplaced = False
                self._running.renew()
        items += self._running.news() if self._running else []
        changed_findings: list[int] = []
        if self._findings is not None:
            all_sent = self._cursor == last and self._earlier[1] <= self._earlier[0]
            if all_sent and not self._findings.step(JUDGED):
                self.wake()
            changed_findings = self._findings.take()
            if changed_findings:
                items.append({"t": "findings", "findings": self._pack_ranks(changed_findings)})
        items += self._filter_items(changed_findings)
        while self._asked_for:
            items.append(self._answer(*self._asked_for.popleft()))
        return items

    def _pack_rows(self, rows: Iterable[Row]) -> list[list[Any]]:
        known = self._calls.get
        return [_pack(row, known(row.seq), rank_of(self._findings_of(row.seq))) for row in rows]

    def _findings_of(self, seq: int) -> tuple[LogFinding, ...]:
        return self._findings.get(seq) if self._findings is not None else ()

    def _pack_ranks(self, rows: Iterable[int]) -> list[tuple[int, int]]:
        return [(seq, rank_of(self._findings_of(seq))) for seq in rows]

    def _filter_items(self, changed_findings: list[int]) -> Iterator[dict[str, Any]]:
        for view in list(self._wanted_filters):
            number, text, zone = self._wanted_filters.pop(view)
            self._filters.pop(view, None)
            if not text:
                continue
            about = {"view": view, "n": number}
            if suggested := suggest_filters(self._source, text):
                yield {"t": "suggested", "texts": suggested} | about
            try:
                row_filter = RowFilter(
                    self._source,
                    text,
                    oldest=self._source.back(self._source.last_seq, RING) + 1,
                    now=self.clock,
                    zone=zone,
                    findings=self._findings,
                )
            except MewError as fault:
                start, end = (fault.start, fault.end) if isinstance(fault, FilterError) else (0, 0)
                sentence = str(fault).split("\n", 1)[0]
                yield {"t": "unfit", "sentence": visible(sentence), "start": start, "end": end} | about
            else:
                self._filters[view] = (number, row_filter)
                yield {"t": "passed", "seqs": [], "failed": [], "first": True} | about
        for view, (number, row_filter) in list(self._filters.items()):
            step = row_filter.step(STEP, changed_findings)
            if not step.done:
                self.wake()
            if step.passed or step.failed:
                answer = {"t": "passed", "view": view, "n": number, "first": False}
                yield answer | {"seqs": step.passed, "failed": step.failed}

    def _answer(self, kind: str, view: str, seq: int, whole: bool) -> dict[str, Any]:
        item = {"t": kind, "view": view, "seq": seq}
        if kind == "raw":
            found = [list(map(visible, _told(finding))) for finding in self._findings_of(seq)]
            details = detail(self._source, seq, whole=whole)
            return item | details | {"findings": found, "loads": self._loads is not None}
        if kind == "finding":
            told = (visible(f"{found.severity}: {found.sentence}") for found in self._findings_of(seq))
            return item | {"text": "\n".join(told)}
        held = self._source.since(seq - 1, 1)
        sentence, pattern = why(self._source, held[0]) if held and held[0].seq == seq else ("", "")
        return item | {"text": f"{sentence}\n{pattern[:2000]}".strip()}

    # Messages from the views.

    def _messages(self) -> Mapping[str, Callable[..., None]]:
        return {
            "filter": self._take_filter,
            "earlier": self._take_earlier,
            "select": self._select,
            "raw": self._ask_raw,
            "why": self._ask_why,
            "finding": self._ask_finding,
        }

    def _take_earlier(self, view: str, upto: int) -> None:
        self._missing.append(upto)
        self.wake()

    def _ask_raw(self, view: str, seq: int, all: bool = False) -> None:
        self._ask_for("raw", view, seq, whole=all)

    def _ask_why(self, view: str, seq: int) -> None:
        self._ask_for("why", view, seq)

    def _ask_finding(self, view: str, seq: int) -> None:
        self._ask_for("finding", view, seq)

    def _ask_for(self, kind: str, view: str, seq: int, *, whole: bool = False) -> None:
        if self._is_row(seq):
            self._asked_for.append((kind, view, seq, whole))
            self.wake()

    def _is_row(self, seq: int) -> bool:
        return self._source.record(seq) is not None

    def _name(self, seq: int) -> str:
        return f"{self._source.sign}{seq}"

    def _select(self, view: str, seqs: list[int]) -> None:
        if all(map(self._is_row, seqs)):
            self._selected = tuple(sorted(set(seqs)))

    def _take_filter(self, view: str, n: int, text: str, zone: int = 0) -> None:
        self._wanted_filters[view] = (n, text, zone if abs(zone) < DAY else 0)
        self.wake()

    def _acts(self) -> Mapping[str, Act]:
        return {
            "json": self._copy_json,
            "python": self._copy_python,
            "copy": self._copy_selected,
            "save": self._save,
            "condition": self._make_condition,
            **({"load": self._load, "stop_load": self._loads.stop} if self._loads else {}),
            **(self._running.acts() if self._running else {}),
        }

    async def _load(self, key: str, seq: int) -> ActResult:
        assert self._loads is not None  # else there is no such act
        return await self._loads.load(key, kept_of(self._held(seq)))

    def _copy_json(self, seq: int) -> ActResult:
        raw = self._held(seq)
        if len(raw) > MOST_COPIED:
            raise MewError(
                f"This message has {len(raw)} characters, which is too many to copy; {self._log_name} has it."
            )
        return ActResult(f"{self._name(seq)} is copied as JSON, exactly as it was sent.", raw)

    def _copy_python(self, seq: int) -> ActResult:
        raw = self._held(seq)
        [row] = self._source.since(seq - 1, 1)
        as_id = self._desk.as_id(row.sender) if self._desk is not None else None
        return ActResult(f"{self._name(seq)} is copied as a line of Python.", as_python(raw, as_id=as_id))

    def _copy_selected(self, form: str, seqs: list[int]) -> ActResult:
        if form not in COPIES or not seqs:
            raise MewError("The view asked for a copy of no messages. Select some, and choose a form.")
        numbers = sorted(set(filter(self._is_row, seqs)))
        held = {seq: record for seq in numbers if (record := self._source.record(seq)) is not None}
        selection = MessageSelection.of(
            NumberedEntry(record, seq, seq, self._name(0)[0]) for seq, record in held.items()
        )
        text = str(getattr(selection, f"to_{form}")())
        if len(text) > MOST_COPIED:
            raise MewError(
                f"That would be {len(text)} characters, which is too many to copy. Select fewer, or use "
                f"{self._log_name}.filter(…).to_{form}()."
            )
        gone = (
            f" {count_of(len(numbers) - len(held), 'message')} no longer held."
            if held.keys() ^ numbers
            else ""
        )
        return ActResult(f"{count_of(len(held), 'message')} copied as {COPIES[form]}.{gone}", text)

    def _make_condition(self, seq: int, column: str) -> ActResult:
        if not self._is_row(seq):
            raise MewError(f"The view asked for the filter of no row. {ANEW}")
        condition = condition_of(self._source, seq, column, self._findings)
        return ActResult("The filter was taken from the message.", condition)

    def _held(self, seq: int) -> str:
        if self._is_row(seq) and (raw := self._source.raw(seq)):
            return raw
        raise MewError(f"The text of that row is no longer held in this view; {self._log_name}.df has it.")

    def _save(self) -> Future[str]:
        if self._desk is None:
            raise MewError(
                "This feed has no lab, so there is no log to save."
                if self._log_name == LIVE
                else "This log stands in a file already; log.save(PATH) makes a copy."
            )
        return self._desk.save()

    # Pictures.

    def _newest(self, rows: int) -> list[Row]:
        return self._source.since(self._source.back(self._source.last_seq, rows), rows)

    def _static_text(self) -> str:
        name, members = self._source.title()
        count = self._source.count()
        return f"Messages of {name}: {count_of(count, 'message')}, {count_of(members, 'participant')}"

    def _brief_html(self) -> str:
        newest = self._newest(20 * MOST_BRIEF)
        rows = [row for row in newest if not row.plumbing][-MOST_BRIEF:]
        if not rows:
            return ""
        cells = [
            (self._name(row.seq), clock_time(row.t), f"{row.sender} → {', '.join(row.to) or 'all'}", row.what)
            for row in rows
        ]
        count = self._source.count()
        title = f"The newest {len(rows)} of {count_of(count, 'message')}" if count > len(rows) else "Messages"
        return picture(title, ("#", "Time", "From → To", "What"), cells)

    def _static_html(self) -> str:
        last = self._source.last_seq
        recent = self._newest(PICTURED)
        rows = [row for row in recent if not row.plumbing][-MOST_ROWS:]
        first = rows[0].seq if rows else last + 1
        left_out = sum(row.plumbing for row in recent if row.seq >= first)
        facts = RowFacts(self._calls.get, self._findings_of, self._name)
        found = self._chosen or any(map(self._findings_of, (row.seq for row in rows)))
        columns = [
            column
            for column in self._columns
            if column.name in VALUES and (found or column.name != "finding")
        ]
        cells = [tuple(VALUES[column.name](row, facts) for column in columns) for row in rows]
        name, members = self._source.title()
        count = self._source.count()
        title = f"{name} · {count_of(members, 'participant')} · {count_of(count, 'message')}"
        before = count - self._source.count(first - 1)
        notes = [
            f"{count_of(before, 'earlier message')} not shown: {self._log_name}.df has all."
            if before
            else "",
            f"Plumbing is not shown: {count_of(left_out, 'message')}." if left_out else "",
        ]
        titles = ["Time" if column.name == "elapsed" else visible(column.title) for column in columns]
        code = [title for title, column in zip(titles, columns, strict=True) if column.code]
        empty = "" if last else NO_MESSAGES if self._log_name == LIVE else "There is no message in this log."
        return picture(title, titles, cells, notes=notes, empty=empty, code=code)


def _pack_call(seq: int, call: CallState) -> list[Any]:
    return [seq, call.state, round(call.seconds, 4), int(call.approves)]


PLUMBING, FAILED, RANK = 1, 2, 4


def _told(finding: LogFinding) -> tuple[str, ...]:
    return finding.severity, finding.sentence, finding.requirement, finding.rule


def _pack(row: Row, call: CallState | None, rank: int) -> list[Any]:
    """The values of a row as the views get them, in the order of cells.js."""
    packed: list[Any] = [
        row.seq,
        round(row.t, 3),
        visible(row.sender),
        visible(", ".join(row.to)),
        visible(row.kind),
        visible(row.what),
        visible(row.context),
        row.correlates,
        f"{SIGNS.get(row.verdict, '')} {visible(row.code)}".strip(),
        row.size,
        row.also,
        visible(row.id[:MOST_ID]),
        row.tool,
        row.plumbing * PLUMBING + row.failed * FAILED + rank * RANK,
    ]
    if call is not None:
        packed.append(_pack_call(row.seq, call)[1:])
    return packed
