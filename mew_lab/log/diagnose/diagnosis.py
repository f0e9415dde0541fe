"""Diagnoses a log: passes its records through the ledger and the families of rules, and collects the findings.

How it works
------------
`DiagnosisPass.observe` takes every record of a log, in order. A record with a message becomes a `PlacedEntry`. The
ledger observes it, and then the steps of its kind and of each change judge it. Findings come out at once; `finish` adds
what the end of the log leaves open. The sessions of a log of several are judged apart. Each record costs the same,
however long the log is, and all tables are bounded.

Each rule names the vantages for which it holds (`Rule.holds`): a tap has neither presence nor permissions, so no rule
about them speaks of it.

`diagnose` keeps at most 10,000 findings of each rule and severity; it counts all. `judge_messages` also says which
messages have any.

Spec: §3, §4.1.
"""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mew_lab.errors import ConfigError
from mew_lab.log.diagnose import (
    agents,
    calls,
    chats,
    messages,
    participants,
    permissions,
    reasoning,
    streams,
    taps,
)
from mew_lab.log.diagnose.findings import (
    OF_ALL,
    SEVERITIES,
    ChangeStep,
    EntryStep,
    LogFinding,
    RecentIds,
    RecordStep,
    Rule,
    RuleContext,
    RuleFamily,
    rules_of,
    words_of,
)
from mew_lab.log.entries import PAYLOAD, is_message, lacks
from mew_lab.log.line import read_members
from mew_lab.log.rare_collection import rare_collection
from mew_lab.log.reading import Vantage
from mew_lab.log.record_ledger import MAX_IDS, Mark, PlacedEntry, RecordLedger
from mew_lab.log.redaction import masked_markup
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import visible
from mew_lab.space.events import Record

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "FAMILIES",
    "RULES",
    "Diagnosis",
    "DiagnosisPass",
    "FindingCollector",
    "MessageJudgement",
    "at_least",
    "diagnose",
    "judge_messages",
]

MAX_FINDINGS = 10_000  # of one rule that are kept
MAX_RELATED = 8  # ids of other messages of a finding
SHOWN = 20  # findings that are printed
SHOWN_HTML = 200

NOT_WHOLE = "an earlier record may show it, and this log does not hold all of them"
UNREADABLE = Rule("unreadable-lines", "error", "the log is not complete: {fault}", holds=OF_ALL)

_MODULES = (calls, reasoning, streams, participants, permissions, messages, chats, taps, agents)
RULES: Final[Mapping[str, Rule]] = {
    rule.id: rule for rule in (*(rule for module in _MODULES for rule in rules_of(vars(module))), UNREADABLE)
}
"""Every rule by its id."""

FAMILIES: Final[tuple[Callable[[RuleContext], RuleFamily], ...]] = (
    *(calls.CallRules, reasoning.ReasoningRules, streams.StreamRules, participants.ParticipantRules),
    *(permissions.PermissionRules, chats.ChatRules, taps.TapRules, agents.AgentRules),
    messages.MessageRules,  # the last: it remembers the ids, and the others ask for earlier ones
)


class MessageJudgement(NamedTuple):
    """The findings about one message, for the columns `diag.severity` and `diag.rule` of an index.

    `place` is the place of the record among all records of the log, from 1; unique, unlike `seq`. `severity` is the
    highest of its findings, and `rules` are the ids of their rules in alphabetical order.
    """

    place: int
    severity: str
    rules: tuple[str, ...]


class DiagnosisPass:
    """The findings of a log, as its records come.

    Args:
        emit: Called with each finding.
        source: The ledger of the first session, where other readers share it.
        vantage: Who recorded the log, where no `opened` says it.

    Attributes:
        places: The number of records so far; `messages` is that of the messages.
    """

    def __init__(
        self,
        emit: Callable[[LogFinding], None],
        *,
        source: RecordLedger | None = None,
        vantage: Vantage = "gateway",
    ) -> None:
        self.places = self.messages = 0
        self._emit = emit
        self._now = datetime.fromtimestamp(0, UTC)
        self._told: set[str] = set()  # rules reported about the message at hand
        self._seq = 0  # of the newest message
        self._begin(RecordLedger(vantage=vantage) if source is None else source)

    def _begin(self, source: RecordLedger) -> None:
        """Begins a session: no call, stream or participant of an earlier one in the log is one of this."""
        self._source = source
        context = RuleContext(
            self._report,
            source.ledger,
            RecentIds(MAX_IDS),
            source.names,
            source.assumed,
            lambda: self._now,
            lambda: source.whole,
            lambda: source.vantage,
        )
        self._families = [family(context) for family in FAMILIES]
        self._always: list[EntryStep] = [
            family.always for family in self._families if family.always is not None
        ]
        self._refusals: list[RecordStep] = [
            family.refusals for family in self._families if family.refusals is not None
        ]
        self._kinds: dict[str, list[EntryStep]] = {}
        self._changes: dict[type, list[ChangeStep]] = {}
        self._events: dict[str, list[Callable[[Record, int], None]]] = {}
        for family in self._families:
            for kind, step in family.kinds.items():
                self._kinds.setdefault(kind, []).append(step)
            for change, change_step in family.changes.items():
                self._changes.setdefault(change, []).append(change_step)
            for event, event_step in family.events.items():
                self._events.setdefault(event, []).append(event_step)

    def observe(self, record: Record) -> None:
        """Judges the next record of the log."""
        self.places += 1
        self.messages += is_message(record)
        if record.event == "opened":
            self._open(record)
        elif record.seq < self._seq and record.raw is not None:  # logs of other gateways have no `opened`
            self.finish()
            self._begin(RecordLedger(vantage=self._source.vantage))
        self._now = record.now
        if self._told:
            self._told.clear()
        self._source.observe(record, self.places)
        entry, changes = self._source.entry, self._source.changes
        if entry is None:
            self._on_event(record)
            return
        self._seq = record.seq
        if lacks(record, PAYLOAD):  # what is wrong with it would be that of the log
            return
        if entry.refused:
            for refusal in self._refusals:
                refusal(record, entry, self.places)
            return
        for change in changes:
            for change_step in self._changes.get(type(change), ()):
                change_step(change, entry)
        for step in self._kinds.get(entry.kind, ()):
            step(entry, changes)
        for step in self._always:
            step(entry, changes)

    def finish(self) -> None:
        """Reports what the end of the log, or of a session in it, leaves open."""
        for family in self._families:
            self._told.clear()
            family.finish()

    def _open(self, record: Record) -> None:
        about = read_members(record.detail) or {}
        if "previous" in about:  # a later file of the same session
            return
        source = self._source
        if self.places > 1:
            self.finish()
            source = RecordLedger()
        self._seq = 0
        self._begin(source)

    def _on_event(self, record: Record) -> None:
        if record.verdict == "refused":
            for refusal in self._refusals:
                refusal(record, None, self.places)
        for step in self._events.get(record.event, ()):
            step(record, self.places)

    def _report(self, rule: Rule, about: PlacedEntry | Mark, /, *related: str, **words: object) -> None:
        if self._source.vantage not in rule.holds:
            return
        words = words_of(about, related) | words
        if isinstance(about, PlacedEntry):
            if rule.id in self._told:
                return  # one message may change several calls, and is still one finding
            self._told.add(rule.id)
            about = about.mark
        place, seq, time, id, *_ = about
        others = tuple(dict.fromkeys(other for other in related if other and other != id))[:MAX_RELATED]
        severity, sentence = rule.severity, rule.sentence.format(**words)
        if rule.needs_whole and not self._source.whole:
            severity, sentence = "note", f"{sentence}; {NOT_WHOLE}"
        self._emit(LogFinding(severity, rule.id, rule.requirement, sentence, place, seq, time, id, others))


class Diagnosis(Sequence[LogFinding]):
    """The findings of a log, in the order of the messages; printed, the worst first.

    `df` is their table, `counts` has the number of findings of each rule, and `worst` the highest severity. Of a rule
    with very many findings of one severity the first 10,000 are kept; `unkept` counts the others.
    """

    def __init__(
        self,
        findings: Iterable[LogFinding],
        *,
        messages: int = 0,
        unkept: Mapping[tuple[str, str], int] | None = None,
        sign: str = "#",
    ) -> None:
        self._findings = sorted(findings, key=lambda finding: (finding.place, finding.rule))
        self.messages = messages
        self._unkept = dict(unkept or {})  # (severity, rule) -> number of findings
        self._sign = sign  # before the number of a message, as in `Log.sign`

    @classmethod
    def of_rows(cls, rows: Iterable[tuple[int, str]], faults: Iterable[str], *, sign: str = "#") -> Diagnosis:
        """The diagnosis whose parts were written as `rows`, with the findings on lines that could not be read.

        The parts are of the same messages, and of different rules.
        """
        findings, messages, unkept = list(map(_unreadable, faults)), 0, dict[tuple[str, str], int]()
        for number, text in rows:
            if number:
                findings.append(_read_finding(text))
            else:
                counts = json.loads(text)
                messages = counts["messages"]
                unkept |= {(severity, rule): count for severity, rule, count in counts["unkept"]}
        return cls(findings, messages=messages, unkept=unkept, sign=sign)

    @property
    def rows(self) -> Iterator[tuple[int, str]]:
        """The diagnosis as numbered texts of JSON, for an index; `of_rows` reads them."""
        unkept = [(*key, count) for key, count in self._unkept.items()]
        yield 0, json.dumps({"messages": self.messages, "unkept": unkept})
        for number, finding in enumerate(self._findings, 1):
            time = None if finding.time is None else finding.time.isoformat()
            yield number, json.dumps(finding._replace(time=time))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self._findings)

    def __iter__(self) -> Iterator[LogFinding]:
        return iter(self._findings)

    def __getitem__(self, index: Any) -> Any:
        return self._findings[index]

    @property
    def unkept(self) -> dict[str, int]:
        """The number of findings of each rule that were counted and not kept."""
        unkept = Counter[str]()
        for (_, rule), count in self._unkept.items():
            unkept[rule] += count
        return dict(unkept)

    @property
    def counts(self) -> dict[str, int]:
        """The number of findings of each rule, the worst and most frequent first."""
        counts, worst = Counter[str](), dict[str, int]()
        each = Counter((finding.severity, finding.rule) for finding in self._findings)
        for (severity, rule), count in (each + Counter(self._unkept)).items():
            counts[rule] += count
            worst[rule] = max(worst.get(rule, 0), SEVERITIES.index(severity))
        return {
            rule: counts[rule]
            for rule in sorted(counts, key=lambda rule: (-worst[rule], -counts[rule], rule))
        }

    @property
    def worst(self) -> str:
        """The highest severity of all findings; empty where there is none."""
        found = {finding.severity for finding in self._findings}
        return next((severity for severity in reversed(SEVERITIES) if severity in found), "")

    def at_least(self, severity: str) -> Diagnosis:
        """The findings of at least this severity.

        Raises:
            ConfigError: when there is no such severity.
        """
        kept = at_least(severity)
        findings = (finding for finding in self._findings if finding.severity in kept)
        unkept = {key: count for key, count in self._unkept.items() if key[0] in kept}
        return Diagnosis(findings, messages=self.messages, unkept=unkept, sign=self._sign)

    @property
    def df(self) -> pd.DataFrame:
        """A row for each finding: severity, rule, requirement, sentence, place, seq, time (UTC), id, related."""
        import pandas as pd

        severity = pd.CategoricalDtype([*SEVERITIES], ordered=True)
        types: dict[str, Any] = {
            **dict.fromkeys(("rule", "requirement", "sentence", "id", "related"), "object"),
            **dict.fromkeys(("place", "seq"), "int64"),
            "severity": severity,
            "time": "datetime64[us, UTC]",
        }
        columns = {
            name: pd.Series([getattr(finding, name) for finding in self._findings], dtype=types[name])
            for name in LogFinding._fields
        }
        return pd.DataFrame(columns, copy=False)

    @property
    def summary(self) -> str:
        """The number of findings of each severity, in one line."""
        total = Counter(finding.severity for finding in self._findings)
        for (severity, _), count in self._unkept.items():
            total[severity] += count
        told = ", ".join(
            f"{total[severity]} {severity}" for severity in reversed(SEVERITIES) if total[severity]
        )
        return f"{count_of(self.messages, 'message')}: {told or 'nothing was found'}"

    def lines(self, most: int | None = None) -> Iterator[str]:
        """The findings as lines of text, the worst first; with `most`, that many and the number of the others."""
        rows = self._worst_first()
        shown = rows if most is None else rows[:most]
        for finding in shown:
            where = self._name(finding) or "log"
            requirement = f" [{finding.requirement}]" if finding.requirement else ""
            yield f"{finding.severity:5}  {where:>10}  {finding.rule}: {visible(finding.sentence)}{requirement}"
        left = len(rows) - len(shown) + sum(self.unkept.values())
        if left:
            yield f"and {count_of(left, 'more finding')}; .df has those that are kept, .counts counts all"

    def __repr__(self) -> str:
        return "\n".join([self.summary, *self.lines(SHOWN)])

    def _repr_html_(self) -> str:
        head = "".join(f"<th style='text-align:left'>{name}</th>" for name in _HEAD)
        rows = self._worst_first()
        body = "".join(
            "<tr>"
            + "".join(f"<td style='text-align:left'>{cell}</td>" for cell in self._cells(finding))
            + "</tr>"
            for finding in rows[:SHOWN_HTML]
        )
        left = len(rows) - len(rows[:SHOWN_HTML]) + sum(self.unkept.values())
        more = f"<div>and {count_of(left, 'more finding')}</div>" if left else ""
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
        return masked_markup(f"<div><div>{html.escape(self.summary)}</div>{table}{more}</div>")

    def _cells(self, finding: LogFinding) -> tuple[str, ...]:
        cells = (
            finding.severity,
            self._name(finding),
            visible(finding.sentence),
            finding.rule,
            finding.requirement,
        )
        return tuple(map(html.escape, cells))

    def _name(self, finding: LogFinding) -> str:
        """The message of a finding; empty for one about the log."""
        return f"{self._sign}{finding.seq}" if finding.place else ""

    def _worst_first(self) -> list[LogFinding]:
        return sorted(
            self._findings, key=lambda finding: (-SEVERITIES.index(finding.severity), finding.place)
        )


def _read_finding(text: str) -> LogFinding:
    severity, rule, requirement, sentence, place, seq, time, id, related = json.loads(text)
    at = None if time is None else datetime.fromisoformat(time)
    return LogFinding(severity, rule, requirement, sentence, place, seq, at, id, tuple(related))


_HEAD = ("Severity", "#", "Finding", "Rule", "Requirement")


def at_least(severity: str) -> tuple[str, ...]:
    """This severity and the higher ones.

    Raises:
        ConfigError: when there is no such severity.
    """
    if severity not in SEVERITIES:
        raise ConfigError(f"there is no severity {severity!r:.40}; there are {', '.join(SEVERITIES)}")
    return SEVERITIES[SEVERITIES.index(severity) :]


class FindingCollector:
    """Keeps the findings of a log, at most 10,000 of each rule and severity, and the judgement of each message."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], list[LogFinding]] = {}
        self._unkept = Counter[tuple[str, str]]()
        self._found: dict[int, list[tuple[str, str]]] = {}  # place -> (severity, rule)

    def add(self, finding: LogFinding) -> None:
        """Adds a finding of the log."""
        key = finding.severity, finding.rule
        findings = self._kept.setdefault(key, [])
        if len(findings) < MAX_FINDINGS:
            findings.append(finding)
        else:
            self._unkept[key] += 1
        if finding.place:
            self._found.setdefault(finding.place, []).append(key)

    @property
    def judgements(self) -> list[MessageJudgement]:
        """The judgement of each message that has findings, in the order of the log."""
        return [
            MessageJudgement(
                place,
                max((severity for severity, _ in found), key=SEVERITIES.index),
                tuple(sorted({rule for _, rule in found})),
            )
            for place, found in sorted(self._found.items())
        ]

    def diagnosis(self, messages: int, faults: Iterable[str] = (), *, sign: str = "#") -> Diagnosis:
        """The diagnosis of a log of so many messages; `faults` are sentences on lines that could not be read."""
        every = [finding for findings in self._kept.values() for finding in findings]
        found = [*every, *map(_unreadable, faults)]
        return Diagnosis(found, messages=messages, unkept=self._unkept, sign=sign)


def diagnose(
    records: Iterable[Record],
    faults: Callable[[], Iterable[str]] = tuple,
    *,
    sign: str = "#",
    vantage: Vantage = "gateway",
) -> Diagnosis:
    """The findings of a log.

    Args:
        records: Its records, in order; read once.
        faults: Returns the sentences on lines that could not be read, after the records were read.
        sign: What stands before a number; see `Log.sign`.
        vantage: Who recorded the log, where no `opened` says it.
    """
    return _judge(records, faults, sign, vantage)[1]


def judge_messages(records: Iterable[Record]) -> tuple[list[MessageJudgement], Diagnosis]:
    """The judgement of each message that has findings, in the order of the log, and the diagnosis, from one pass."""
    findings, diagnosis = _judge(records)
    return findings.judgements, diagnosis


def _judge(
    records: Iterable[Record],
    faults: Callable[[], Iterable[str]] = tuple,
    sign: str = "#",
    vantage: Vantage = "gateway",
) -> tuple[FindingCollector, Diagnosis]:
    findings = FindingCollector()
    judge = DiagnosisPass(findings.add, vantage=vantage)
    with rare_collection:
        for record in records:
            judge.observe(record)
        judge.finish()
        return findings, findings.diagnosis(judge.messages, faults(), sign=sign)


def _unreadable(fault: str) -> LogFinding:
    sentence = UNREADABLE.sentence.format(fault=fault)
    return LogFinding(UNREADABLE.severity, UNREADABLE.id, "", sentence, 0, 0, None, "")
