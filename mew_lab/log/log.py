"""The log of a space, from files or while it grows: one object, read in the order received.

A `Log` decides nothing and draws nothing: its records are held by `held_records`, and its questions are answered by
`answers`.
"""

from __future__ import annotations

import errno
import operator
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, overload

from mew_lab import find_above
from mew_lab.errors import ConfigError, JournalError, NoSuchRow
from mew_lab.log.entries import is_message
from mew_lab.log.files import CopiedLines, JournalSource, files_of, is_large
from mew_lab.log.held_records import MAX_CHARACTERS, MAX_RECORDS, FileRecords, LiveRecords
from mew_lab.log.journal import FORMAT
from mew_lab.log.line import read_members, write_line
from mew_lab.log.numbering import complete_id, name_of, numbered
from mew_lab.log.reading import Vantage, are_journals, first_record, is_of_peers, vantage_of
from mew_lab.log.table import COLUMNS, Column, to_frame
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line, visible
from mew_lab.space.events import Record
from mew_lab.space.refusal import KEPT_BYTES
from mew_lab.transport.scratch import written_beside

if TYPE_CHECKING:
    import pandas as pd

    from mew_lab.log.answers import Answers, DirectAnswers, IndexedAnswers, LogOrigin
    from mew_lab.log.audit import Audit
    from mew_lab.log.charts import Charts
    from mew_lab.log.copying import MessageSelection
    from mew_lab.log.decided_calls import LoggedHistory
    from mew_lab.log.diagnose.diagnosis import Diagnosis
    from mew_lab.log.filter.filtered import FilteredLog
    from mew_lab.log.follow import FollowedExchange
    from mew_lab.log.frame_columns import FrameColumn
    from mew_lab.log.frames import FrameCatalog
    from mew_lab.log.index import LogIndex, Progress
    from mew_lab.log.moment import Moment
    from mew_lab.log.moments import Moments
    from mew_lab.log.numbering import NumberedEntry
    from mew_lab.log.otlp import SavedTraces
    from mew_lab.log.verification import Verification
    from mew_lab.log.what_if import WhatIf
    from mew_lab.rules.backtests import BackTest, Frontier
    from mew_lab.rules.decided_calls import AskedCall, DecidedCall
    from mew_lab.rules.learner import Candidate
    from mew_lab.rules.rule import ApprovalRule

__all__ = ["Log", "SavedLog", "open_log"]

T = TypeVar("T")

_BEGINNING = datetime.fromtimestamp(0, UTC)
UNSEEN = (
    "Seen as a participant: verdicts, refused messages and messages private to others could not be seen "
    "and are not in it."
)


class SavedLog(NamedTuple):
    """A saved log: its path, its number of envelopes, a sentence on what its vantage could not see, and the number of
    likely secrets that were masked, as text."""

    path: Path
    envelopes: int
    unseen: str
    masked: str = ""

    def __str__(self) -> str:
        masked = f", {self.masked}" if self.masked else ""
        count = count_of(self.envelopes, "message")
        return f"Saved {count}{masked} to {visible(str(self.path))}. {self.unseen}".rstrip()


class Log:
    """The records of a space, in the order received.

    `vantage` is `gateway` (with verdicts and refusals), `participant` (with what one participant receives), `tap`
    (between an MCP client and its server), or `agent` (the session of a coding agent). `is_masked`: it is a copy in
    which likely secrets were masked.

    Iteration yields the members of each message, `log[0]` gives those of the first, and `len` counts messages.
    `records` are all records, `df` is the table. `open_log` and `Log.live` return one.
    """

    def __init__(
        self,
        records: FileRecords | LiveRecords,
        *,
        space: str,
        vantage: Vantage,
        contents: bool = True,
        masked: bool = False,
        index: bool | str | os.PathLike[str] = True,
        progress: Progress | None = None,
    ) -> None:
        self.space = space
        self.vantage = vantage
        self._contents = contents
        self.is_masked = masked
        self._records = records
        self._keep_index = index if isinstance(index, bool) else Path(index)
        self._progress = progress
        self._direct: tuple[object, DirectAnswers] | None = None  # with the state of the files
        self._indexed: IndexedAnswers | None = None
        self._index: LogIndex | None = None
        self._copied: CopiedLines | None = None  # what the index is of, where no journal is there
        self._by_copy: tuple[object, IndexedAnswers, CopiedLines] | None = None  # with the state of the files
        self._moments: Moments | None = None
        self._views: Any = None  # made at first use
        self._sign: str | None = None

    @classmethod
    def live(
        cls,
        *,
        space: str = "",
        vantage: Vantage = "gateway",
        journal: JournalSource | None = None,
        max_records: int = MAX_RECORDS,
        max_characters: int = MAX_CHARACTERS,
    ) -> Log:
        """A log that grows by `observe`.

        Args:
            journal: The journal to which the same records are written before they are observed; older ones are read
                back from it. With None, records that are not kept in memory are lost.
            max_records: The least number of newest records kept in memory.
            max_characters: The limit of their texts together; it takes precedence over `max_records`.
        """
        records = LiveRecords(journal, most=max_records, characters=max_characters)
        return cls(records, space=space, vantage=vantage)

    def observe(self, record: Record) -> None:
        """Adds the next record. Only the thread that runs the gateway calls it."""
        assert isinstance(self._records, LiveRecords), "only a live log observes"
        self._records.observe(record)

    def pass_over(self, records: int, envelopes: int, unknown: int) -> None:
        """Counts records that stay in the journal, and the messages among them; called before the first `observe`."""
        assert isinstance(self._records, LiveRecords), "only a live log observes"
        self._records.pass_over(records, envelopes, unknown)

    @property
    def records(self) -> Iterable[Record]:
        """All records up to now, the oldest first; those of large files are read during iteration."""
        return self._records.all()

    @property
    def is_live(self) -> bool:
        """Whether it grows by `observe`."""
        return self._records.grows

    @property
    def source(self) -> JournalSource | None:
        """The files of the log, or the journal to which its records are written; None where there is neither."""
        return self._records.source

    @property
    def sign(self) -> str:
        """`#` where a number is that of a record in a journal, `~` where it is a place in this log alone (R37)."""
        if self._sign is None:
            own = self.vantage in ("participant", "agent") or self._is_of_peers()
            self._sign = "~" if own else "#"
        return self._sign

    def _is_of_peers(self) -> bool:
        """Whether another gateway wrote one of its files."""
        paths = () if self.is_live or self.source is None else self.source.paths
        return any(map(is_of_peers, paths))

    @property
    def held(self) -> list[Record]:
        """The newest records of a live log, those in memory; none for a log of files."""
        return self._records.recent.records if self.is_live else []

    def held_after(self, seq: int, most: int) -> list[Record]:
        """Of the records in memory, the first `most` after the record `seq`."""
        return self._records.held_after(seq, most) if isinstance(self._records, LiveRecords) else []

    @property
    def df(self) -> pd.DataFrame:
        """A table with one row for each envelope, in the order received; changes to it do not change the log.

        While a returned table is in use, the next one is made from it and the newer records. The memory of a large
        table is freed with the last one in use. The table of a log of several sessions has three columns more:
        `session`, its number from 1, `file` and `space`. Displayed, it shows five of its columns.
        """
        from mew_lab.log.shown_frame import show_few
        from mew_lab.log.table import SHOWN

        return show_few(self._answers().table(), SHOWN)

    @property
    def index(self) -> LogIndex:
        """The index of the log, up to now: `index.rows("kind = ?", ["chat"])` are the places of its messages.

        Raises:
            JournalError: when a file cannot be read any more.
        """
        index = self._opened_index()
        if self._copied is not None:
            self._copied.add(self._records.recent)
        return index.build()

    def _opened_index(self) -> LogIndex:
        """The index, as far as it is built; that of a log which still grows is kept in memory."""
        from mew_lab.log.index import LogIndex

        if self._index is None:
            source = self.source
            if source is None or not are_journals(source.paths):
                source = self._copied = CopiedLines()
            keep = False if self.is_live or self._copied is not None else self._keep_index
            self._index = LogIndex(source, keep=keep, progress=self._progress)
        return self._index

    def _answers(self) -> Answers:
        """What answers questions, up to now: the tables of an index where files are large, else the records."""
        from mew_lab.log.answers import IndexedAnswers

        records = self._records
        if (
            self._indexed is None
            and isinstance(records, FileRecords)
            and is_large(records.source.paths)
            and are_journals(records.source.paths)
        ):
            self._indexed = IndexedAnswers(self._opened_index(), self._origin(), records.source.faults)
        if self.vantage == "agent" and isinstance(records, FileRecords) and is_large(records.source.paths):
            return self._indexed or self._answer_by_copy(records)
        return self._indexed or self._answer_directly()

    def _answer_by_copy(self, records: FileRecords) -> IndexedAnswers:
        """The answers from the index of a private copy as a journal, which is made anew where a file has grown."""
        from mew_lab.log.answers import IndexedAnswers
        from mew_lab.log.index import LogIndex

        state = records.state()
        if self._by_copy is None or self._by_copy[0] != state:
            copied = CopiedLines()
            copied.write(records.all())
            faults = records.count().faults
            index = LogIndex(copied, keep=False, progress=self._progress)
            self._by_copy = state, IndexedAnswers(index, self._origin(), faults, copied=True), copied
        return self._by_copy[1]

    def _answer_directly(self) -> DirectAnswers:
        """The answers from records, which begin anew where a file was changed since, or has grown."""
        from mew_lab.log.answers import DirectAnswers

        state = self._records.state()
        if self._direct is None or self._direct[0] != state:
            self._direct = state, DirectAnswers(self._records, self._origin(), lambda: self.index)
        return self._direct[1]

    def _origin(self) -> LogOrigin:
        from mew_lab.log.answers import LogOrigin
        from mew_lab.log.frames import UNSEEN_BY_AGENTS, UNSEEN_CONTENTS, UNSEEN_IN_FRAMES

        unseen = {"participant": UNSEEN_IN_FRAMES, "agent": UNSEEN_BY_AGENTS}.get(self.vantage, "")
        unseen = unseen if self._contents else f"{UNSEEN_CONTENTS} {unseen}".rstrip()
        return LogOrigin("peers" if self._is_of_peers() else self.vantage, self.sign, unseen)

    def head(self, messages: int = 5000) -> pd.DataFrame:
        """The table of the first messages, at once: only so much of the log is read."""
        return to_frame(_first_messages(self.records, messages))

    def to_parquet(self, path: str | os.PathLike[str], *, secrets: str = "mask") -> SavedLog:
        """Writes the log as one Parquet file, events included, readable by its owner alone; `open_log` reads it.

        Likely secrets are masked unless `secrets` is `keep`, and nothing can be verified by such a file then.

        Raises:
            ConfigError: `secrets` is another word.
            JournalError: when it cannot be written.
        """
        from mew_lab.log.parquet import write_parquet
        from mew_lab.log.redaction import holds_secrets, masked_records, secrets_mask

        mask = secrets_mask(secrets)
        self._check_target(path)
        unseen = UNSEEN if self.vantage == "participant" else ""
        if mask is not None and holds_secrets(self.records):
            write_parquet(masked_records(self._saved_records(unseen), mask), Path(path))
        else:
            write_parquet(self.records, Path(path))
        return SavedLog(Path(path), len(self), unseen, "" if mask is None else str(mask))

    def table(self, columns: Sequence[Column] = COLUMNS, *, events: bool = False) -> pd.DataFrame:
        """A table with other columns; with `events`, records without an envelope have rows too."""
        return to_frame(self.records, columns, events=events)

    # --- frames of the ledger ---

    @property
    def frames(self) -> FrameCatalog:
        """The frames by name; `print(log.frames["requests"])` shows the columns of one, with their units."""
        from mew_lab.log.frames import FrameCatalog

        return FrameCatalog()

    @property
    def view(self) -> Any:
        """The views of this log: `log.view.feed` shows the messages of a log from files as a table, and
        `log.view.moments` the state of the space at each place."""
        if self._views is None:
            self._views = find_above("LogViews")(self)
        return self._views

    @property
    def charts(self) -> Charts:
        """The charts of this log, such as `log.charts.latency()`."""
        from mew_lab.log.charts import Charts

        return Charts(self)

    def frame(self, name: str, columns: Sequence[FrameColumn] | None = None) -> pd.DataFrame:
        """The frame of that name, with other columns where they are given; see `frames`.

        The first frame reads the log once; all others come from the same pass. The index beside a large journal keeps
        the frames, but for `verdicts`: they are made in the background as soon as it is built, and a frame that is asked
        for earlier waits for them. A frame of a log that was seen as a participant, or that has no contents of messages,
        has `attrs["unseen"]`, a sentence on what it cannot show.

        Raises:
            ConfigError: when there is no such frame.
        """
        spec = self.frames[name]
        if columns is not None:
            return self._answer_directly().frame_of(spec.name, columns)
        # The verdicts have a row for each message, so no index keeps them.
        answers = self._answer_directly() if name == "verdicts" else self._answers()
        return answers.frame(spec.name)

    def requests(self) -> pd.DataFrame:
        """The requests, what became of each, and when; see `log.frames["requests"]`."""
        return self.frame("requests")

    def proposals(self) -> pd.DataFrame:
        """The proposals, and what was decided on each, by whom and when; see `log.frames["proposals"]`."""
        return self.frame("proposals")

    def decisions(self) -> pd.DataFrame:
        """The executed calls: what let each pass, who gave that, who decided and what was shown, and the rejections."""
        return self.frame("decisions")

    # --- what rules learn from ---

    def decided_calls(self) -> tuple[DecidedCall, ...]:
        """The proposals of the log, each with its decision, in the order of `decisions`; what rules learn from."""
        from mew_lab.log.decided_calls import decided_calls

        return decided_calls(self.decisions())

    def history_of(
        self, call: str | DecidedCall | AskedCall | Mapping[str, Any], *, now: datetime | None = None
    ) -> LoggedHistory:
        """All decisions on calls that are equal or alike to one, and a sentence of it: `print(log.history_of("c2f1"))`.

        Alike are calls of the same participant to the same target and tool with the same names of arguments. The
        decision on the call itself does not count.

        Args:
            call: The id or number of a proposal, or an object with `proposer`, `to`, `tool` and `arguments`.
            now: The present time, by which days are named; by default that of the clock.

        Raises:
            JournalError: There is no such proposal.
            ConfigError: `call` is none of these.
        """
        from mew_lab.log.decided_calls import LoggedHistory, asked_call, present
        from mew_lab.rules.decided_calls import CallHistories

        decided = self.decided_calls()
        if isinstance(call, str | int):
            call = self._find(call, lambda which: self._proposal_of(which, decided))
        asked, own = asked_call(call, decided)
        return LoggedHistory(CallHistories(decided).of(asked, but=own), present(now))

    def _proposal_of(self, which: str | int, decided: Sequence[DecidedCall]) -> str:
        """The id of the proposal with an id or a number.

        Raises:
            JournalError: There is none.
        """
        if isinstance(which, int):
            proposals = self.proposals()
            found = proposals[proposals["seq"] == which]["id"].tolist()
            if not found:
                raise JournalError(f"There is no proposal {self.sign}{which} in this log")
            return str(found[-1])
        if not any(one.proposal == which for one in decided):
            raise JournalError(f"There is no proposal {one_line(which, 80)!r} in this log")
        return which

    def learn_rules(self, *, unverified: bool = False) -> tuple[Candidate, ...]:
        """The rules that the decisions of persons in this log suggest, those with the most evidence first.

        A candidate is text with its evidence; nothing acts by it. Only decisions with a receipt of this gateway teach
        (`decisions()["teaches"]`).

        Args:
            unverified: Whether to learn from a log of files whose chain or receipts do not verify, or that has none.

        Raises:
            JournalError: The log does not verify, so that anybody may have written its decisions.

        Spec: §9.4.
        """
        from mew_lab.rules.learner import learn

        if not self.is_live and not unverified and not (verified := self.verify()).ok:
            why = "it has calls that nobody decided" if verified.intact else str(verified).splitlines()[0]
            raise JournalError(
                f"Learned nothing from this log, because it does not verify: {one_line(why, 200)}. Its decisions may be "
                "anybody's; log.verify() tells more. unverified=True, or --unverified, learns from them all the same"
            )
        return learn(self.decided_calls())

    def back_test(self, rules: Sequence[ApprovalRule]) -> BackTest:
        """What these rules together would have decided in this log; decisions without a receipt are replayed, too."""
        from mew_lab.rules.backtests import back_test

        return back_test(rules, self.decided_calls(), any_how=True)

    # --- end of what rules learn from ---

    def reasoning(self) -> pd.DataFrame:
        """The sequences of reasoning; see `log.frames["reasoning"]`."""
        return self.frame("reasoning")

    def streams(self) -> pd.DataFrame:
        """The streams, with their owners and writers; see `log.frames["streams"]`."""
        return self.frame("streams")

    def participants(self) -> pd.DataFrame:
        """The participants, and how much each sent; see `log.frames["participants"]`."""
        return self.frame("participants")

    def grants(self) -> pd.DataFrame:
        """The grants, and how often each was used; see `log.frames["grants"]`."""
        return self.frame("grants")

    def verdicts(self) -> pd.DataFrame:
        """The gateway's verdict on each message of a participant; see `log.frames["verdicts"]`."""
        return self.frame("verdicts")

    def chat(self) -> pd.DataFrame:
        """The chat messages and their acknowledgements; see `log.frames["chat"]`."""
        return self.frame("chat")

    def tool_calls(self) -> pd.DataFrame:
        """The tool calls of coding agents: tool, state, seconds, and whether each was asked about.

        The columns are the same for an agent's own session and for the journal of a space with such an agent. `asked` is
        missing where the log does not tell it. `decision` and `decided_by` tell the newest decision on the call.
        """
        from mew_lab.log.tool_calls import tool_calls_of

        return tool_calls_of(self)

    # --- diagnosis ---

    def diagnose(self, severity: str = "note") -> Diagnosis:
        """The faults and oddities of the log of at least this severity: `note`, `warn`, `error` or `fatal`.

        Printed, the worst come first; `.df` is their table. The index beside a large journal keeps them: the log is read
        for the first diagnosis alone.

        Raises:
            ConfigError: when there is no such severity.
        """
        from mew_lab.log.diagnose.diagnosis import at_least

        at_least(severity)
        return self._answers().diagnose(lambda: self.faults).at_least(severity)

    # --- end of the diagnosis ---

    # --- end of the frames of the ledger ---

    def filter(self, text: str) -> FilteredLog:
        """The messages that pass a filter such as `kind ~ "mcp/*" and latency > 2s`; see `mew_lab.log.filter.grammar`.

        Raises:
            FilterError: the text is no filter; the message points at the fault.
        """
        from mew_lab.log.filter.filtered import FilteredLog

        return FilteredLog(text, self._answers, grows=self.is_live, sign=self.sign)

    # --- exchanges, and what goes out ---

    def follow(self, id: str | int, *, most: int = 200) -> FollowedExchange:
        """The whole exchange of a message, such as a proposal, its fulfilment and the response, or a chat thread.

        The message is named by its id, by its number (`13` or `"#13"`), or, for a proposal, by the first four
        characters of its id. In a log of several journals the number is the one that the exchange shows. For a large log
        of files, the first call groups the rows of the index, in about a second a million.

        Raises:
            JournalError: when there is no such message; in a live log, among the newest 200,000.
        """
        return self._find(id, lambda which: self._answers().follow(which, most=most))

    def _find(self, name: object, find: Callable[[str | int], T]) -> T:
        """What `find` gives for the message with a number or an id, or for the proposal whose id begins so (R37)."""
        which = name_of(name)
        try:
            return find(which)
        except JournalError:
            if isinstance(which, int):
                raise
            if (id := complete_id(which, self.proposals()["id"])) is None:
                raise
            return find(id)

    def tree(self) -> tuple[list[NumberedEntry], dict[int, int]]:
        """The newest 200,000 messages, and by their numbers the number of the message that each follows from."""
        return self._answer_directly().exchanges().tree()

    def export_otlp(
        self,
        to: str | os.PathLike[str],
        *,
        content: bool = False,
        headers: Mapping[str, str] | None = None,
        secrets: str = "mask",
    ) -> SavedTraces:
        """Sends the log as OpenTelemetry spans to a receiver such as `http://localhost:4318`, or writes them to a file.

        The spans form the trees that `follow` shows. `open_log` reads the file; only with `content` does it have what
        was said. `headers` are those of the receiver, such as its authorization. Likely secrets are masked unless
        `secrets` is `keep`.

        Raises:
            ConfigError: `secrets` is another word.
            JournalError: when the receiver does not take it, or the file cannot be written.
        """
        from mew_lab.log.otlp import TracedLog, export_otlp

        self._check_target(to)
        calls = [row for frame in (self.requests(), self.proposals()) for row in frame.to_dict("records")]
        source = TracedLog(self.space, self.vantage, len(self), *self.tree(), calls)
        return export_otlp(source, to, content=content, headers=headers, secrets=secrets)

    def select(self, *ids: str | int) -> MessageSelection:
        """The messages with these ids or numbers, or all without any, for `to_jsonl`, `to_markdown`, `to_mermaid`
        and `to_python`. For a proposal the beginning of its id suffices."""
        from mew_lab.log.copying import MessageSelection

        wanted = set(map(name_of, ids))
        if begun := {id for id in wanted if isinstance(id, str)}:
            for entry in numbered(self.records, sign=self.sign):
                begun.discard(entry.id)
            completed = [complete_id(id, self.proposals()["id"]) for id in begun]
            wanted.update(id for id in completed if id is not None)
        entries = numbered(self.records, sign=self.sign)
        return MessageSelection.of(one for one in entries if not ids or one.id in wanted or one.seq in wanted)

    # --- end of what goes out ---

    def audit(self, id: str | int) -> Audit:
        """The report on the envelope with an id: its sender, capability and grants, or the reason of its refusal.

        It is named as for `follow`; a number also names a record without an envelope.

        Raises:
            JournalError: when there is no such envelope or record.

        Spec: §3.6.8.
        """
        from mew_lab.log.audit import audit_match

        moments = self._states()
        return self._find(id, lambda which: audit_match(moments.find(which), moments.history(), self.sign))

    def at(self, seq: int | str) -> Moment:
        """The state of the space behind a record: members, rights, grants, proposals, streams, pauses.

        The record is named by its number, `13` or `"#13"`.
        The verdicts of the journal are taken as they are; `verify` shows whether it was changed. The first call reads
        the log once. A log of another gateway, or of a participant, has a past as far as its messages tell it: what they
        do not tell is `unknown`, or None for a number, and the `notes` of the moment say so.

        Raises:
            JournalError: when there is no such record, or a journal of mew_lab cannot be replayed.

        Spec: §3.6.8.
        """
        return self._states().at(name_of(seq))

    def verify(self, *, heads: str | os.PathLike[str] | None = None) -> Verification:
        """Verifies the chain of the journal, then the consent receipt of each request that carries out a proposal.

        The result lists the requests by their place: approved before they were sent, with a receipt here or a reported
        one; decided elsewhere; by the sender's own right; another call than the proposed one; and those that nobody
        decided.

        Args:
            heads: A file of heads that were kept elsewhere; by default that of the lab beside the tokens.

        Raises:
            JournalError: when a file cannot be read.

        Spec: §3.2.1, §3.6.8.
        """
        from mew_lab.log.verification import verify_log

        return verify_log(self, heads)

    @overload
    def what_if(
        self, *, rules: Iterable[ApprovalRule | Candidate | str] | Literal["learned"]
    ) -> Frontier: ...
    @overload
    def what_if(
        self,
        *,
        capabilities: Mapping[str, Sequence[Mapping[str, Any]] | str] | None = None,
        more: Mapping[str, Sequence[Mapping[str, Any]] | str] | None = None,
        grants: Mapping[str, Sequence[Mapping[str, Any]] | str | None] | None = None,
        exact: bool = False,
    ) -> WhatIf: ...
    def what_if(
        self,
        *,
        capabilities: Mapping[str, Sequence[Mapping[str, Any]] | str] | None = None,
        more: Mapping[str, Sequence[Mapping[str, Any]] | str] | None = None,
        grants: Mapping[str, Sequence[Mapping[str, Any]] | str | None] | None = None,
        exact: bool = False,
        rules: Iterable[ApprovalRule | Candidate | str] | Literal["learned"] | None = None,
    ) -> WhatIf | Frontier:
        """The messages that other rights would have allowed or denied instead, or what rules would have decided.

        Args:
            capabilities: By participant, its configured capabilities, or the name of a profile, in the place of its own.
            more: By participant, capabilities that it holds besides.
            grants: By id of a grant or invitation, the capabilities that it gives instead; None for none at all.
            exact: Whether to replay all events under the other rights, with all consequences in the space. By default
                each message is judged alone; in a log of another gateway, by what its messages tell of the rights.
            rules: Rules, candidates or sentences, in the order in which they are added; `learned` for those that the
                first half of the decisions suggests, tried on the other half. A rule without the SHA-256 of a tool is
                tried with that of the newest call of its tool.

        Raises:
            ConfigError: when a capability or a rule is none, or a profile, participant or grant is unknown.
            JournalError: when the log cannot be replayed.

        Spec: §4.2, ruling R30.
        """
        from mew_lab.log.what_if import OtherRights

        if rules is not None:
            if capabilities or more or grants or exact:
                raise ConfigError("what_if takes either rules or other rights", key="rules")
            return self._rules_what_if(rules)
        rights = OtherRights(capabilities=capabilities, more=more, grants=grants)
        return self._states().what_if(rights, exact=exact)

    def _rules_what_if(self, rules: Iterable[ApprovalRule | Candidate | str]) -> Frontier:
        from mew_lab.rules.backtests import draw_frontier, learned_frontier, read_rules

        decided = self.decided_calls()
        if isinstance(rules, str):
            if rules != "learned":
                raise ConfigError(f"rules is a list of rules, or 'learned', not {rules!r:.80}", key="rules")
            return learned_frontier(decided)
        return draw_frontier(read_rules(rules, decided), decided, any_how=True)

    def _states(self) -> Moments:
        from mew_lab.log.moments import Moments

        self._moments = self._moments or Moments(self)
        return self._moments

    @property
    def faults(self) -> tuple[str, ...]:
        """Sentences on lines that could not be read and messages that are not known."""
        counts = self._answers().count()
        bare = () if self._contents else ("the contents of its messages are not recorded",)
        masked = ("likely secrets in it were masked when it was written",) if self.is_masked else ()
        return (*counts.faults, *bare, *masked, *_report_unknown(counts.unknown))

    def __len__(self) -> int:
        return self._answers().count().messages

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for record in self.records:
            members = read_members(record.raw) if record.raw is not None else None
            if members is not None:
                yield members

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        """The members of one message, or of several; the log is read up to there."""
        if isinstance(index, slice):
            return list(self)[index]
        at = operator.index(index)
        if at >= 0:
            found = list(islice(self, at, at + 1))
        else:
            last = deque(self, maxlen=-at)
            found = [last[0]] if len(last) == -at else []
        if not found:
            raise NoSuchRow(f"There is no log[{at}]: this log has {count_of(len(self), 'message')}")
        return found[0]

    def __repr__(self) -> str:
        known = self._records.counts
        count = "not read yet" if known is None else count_of(known.messages, "message")
        article = "an" if self.vantage == "agent" else "a"
        return f"<Log of {one_line(self.space) or 'a space'}: {count}, seen as {article} {self.vantage}>"

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        filter: str = "",
        redact: Sequence[str] = (),
        redact_where: str = "",
        secrets: str = "mask",
        overwrite: bool = False,
    ) -> str:
        """Writes the session as one HTML page for a colleague, readable by its owner alone; returns a sentence.

        The page needs no network and runs no script. It holds arguments and results, as the log does, but for likely
        secrets, which are masked and counted.

        Args:
            filter: The messages that the page holds, as `filter` takes it; empty for all.
            redact: Values that are replaced by `[redacted]` wherever they stand.
            redact_where: A filter of messages of which only kind, sender, addressees, method and tool stay.
            secrets: `keep` leaves likely secrets as they are.
            overwrite: Whether an existing file may be replaced.

        Raises:
            ConfigError: The file exists, or cannot be written; or a value is none.
            FilterError: A filter is none.
        """
        chosen: dict[str, Any] = {
            "filter": filter,
            "redact": redact,
            "redact_where": redact_where,
            "secrets": secrets,
        }
        chosen["overwrite"] = overwrite
        return str(find_above("report_log")(self, os.fspath(path), **chosen))

    def save(self, path: str | os.PathLike[str], *, secrets: str = "keep") -> SavedLog:
        """Writes the log as one journal, readable by its owner alone; an existing file is replaced atomically.

        It is a whole copy for oneself. With `secrets="mask"` it is one to pass on: likely secrets are masked, and
        nothing can be verified by it.

        Raises:
            ConfigError: `secrets` is another word.
            JournalError: when it cannot be written.
        """
        from mew_lab.log.redaction import holds_secrets, masked_records, secrets_mask

        mask = secrets_mask(secrets)
        masks = mask is not None and holds_secrets(self.records)
        # A file is replaced by the same records; a journal that grows would lose those to come.
        target = self._check_target(path) if self.is_live else Path(path)
        unseen = UNSEEN if self.vantage == "participant" else ""
        try:
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, "it is a folder")
            count = 0
            with written_beside(target, durably=True) as file:
                records = self._saved_records(unseen)
                for record in masked_records(records, mask) if mask is not None and masks else records:
                    file.write(write_line(record))
                    count += is_message(record)
        except (OSError, ValueError) as fault:
            why = getattr(fault, "strerror", None) or fault
            raise JournalError(
                f"Cannot save the log to {target}: {why}. Name a file in a folder that can be written to.",
                path=str(target),
            ) from None
        return SavedLog(target, count, unseen, "" if mask is None else str(mask))

    def _check_target(self, path: str | os.PathLike[str]) -> Path:
        """The path of a file to be written, which is none of those of the log.

        Raises:
            JournalError: when it is one.
        """
        target = Path(path)
        for own in self.source.paths if self.source is not None else ():
            with suppress(OSError, ValueError):
                if own.samefile(target):
                    raise JournalError(
                        f"Cannot write to {target}: it is the journal of this log. Name another file.",
                        path=str(target),
                    )
        return target

    def _saved_records(self, unseen: str) -> Iterator[Record]:
        """The records after a first line that states the vantage of the log: that of its journal, where it does."""
        records = iter(self.records)
        first = next(records, None)
        about: dict[str, Any] = {}
        if first is not None and first.event == "opened":
            about = read_members(first.detail) or {}
        for name, value in (("format", FORMAT), ("epoch", None)):
            about.setdefault(name, value)
        about["vantage"] = self.vantage
        if unseen:
            about["unseen"] = unseen
        now = first.now if first is not None else _BEGINNING
        yield Record(0, now, "opened", self.space, detail=compact(about))
        for record in chain(() if first is None else (first,), records):
            # The first line of a later file of the journal: the chain, and so each kept head, has it.
            if record.event != "opened" or (
                record is not first and "previous" in (read_members(record.detail) or {})
            ):
                yield record


def _first_messages(records: Iterable[Record], most: int) -> Iterator[Record]:
    """The records up to the last of the first messages."""
    for record in records:
        if most <= 0:
            return
        yield record
        most -= is_message(record)


def _report_unknown(messages: int) -> Iterator[str]:
    if messages:
        subject = "1 refused message is" if messages == 1 else f"{messages} refused messages are"
        yield f"{subject} not known: only the beginning of a refused message over {KEPT_BYTES} bytes is kept"


# --- opening ---


def open_log(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    index: bool | str | os.PathLike[str] = True,
    most: int | None = None,
    progress: Progress | None = None,
) -> Log:
    """The log in a file, in a folder with its folders, in the files of a pattern, or in a list of them.

    A file is a journal of mew_lab (with the files that continue it), one of the peers' log files, a session of Claude
    Code (with those of its sub-agents), a rollout of Codex, or a Parquet file of `Log.to_parquet`; each may be
    compressed by gzip or zstd. Only the first line of each file is read at once; a packed file is unpacked into a
    private temporary folder. Lines that cannot be read are reported by `faults`.

    A smaller log answers from its records, which are kept. For journals of 16 MiB or more, the first question builds an
    index. It is kept in the user's cache folder (`~/.cache/mew-lab`, `XDG_CACHE_HOME`), readable by its owner alone; it
    may be deleted at any time. The next opening takes it from there as long as the journal has only grown, and nobody
    else changed the index. When it is built, a process finds the states, the findings and the frames, which are then
    kept in it: `log.index.passes` tells how far it is, and `log.index.stop_passes()` ends it.

    Args:
        index: False keeps the index in memory and writes nothing; a folder keeps index files there.
        most: The most bytes that a packed file may give; by default 8 GiB, and 200 times its packed bytes and 64 MiB.
        progress: Called with the bytes that are indexed and all bytes, while the index is built.

    Raises:
        JournalError: when there is no journal there.
    """
    files = files_of(path, most=most)
    whole = [one for one in files.paths if one.stat().st_size]
    first = first_record(whole[0]) if whole else None
    space, about = "", dict[str, Any]()
    if first is not None:
        space = first.space
        about = (read_members(first.detail) or {}) if first.event == "opened" else {}
    vantage = vantage_of(about)
    return Log(
        FileRecords(files),
        space=space,
        vantage=vantage,
        contents=about.get("contents") is not False,
        masked=about.get("masked") is True,
        index=index,
        progress=progress,
    )
