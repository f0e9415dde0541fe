"""The findings of a diagnosis: severities, rules as data, findings, and what all families of rules share.

A rule is data: an id, a severity, the requirement that it rests on, and its sentence. A family of rules (`RuleFamily`)
is a class with steps. A step takes a message and the changes that the ledger made of it, and reports a rule. The ledger
alone decides what became of a call, a stream or a sequence of reasoning; a step only judges what the ledger says.

Severities:

- `note`: worth knowing, and permitted or harmless;
- `warn`: a departure from what the specification recommends, or a fault that the log suggests without a proof;
- `error`: a participant did what the specification forbids, or a call did not end as it must;
- `fatal`: the gateway let pass what no gateway may let pass, so the log itself is in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol

from mew_lab.ledger.ledger import Ledger, LedgerChange
from mew_lab.log.reading import Vantage
from mew_lab.log.record_ledger import Mark, PlacedEntry
from mew_lab.protocol.visible import one_line
from mew_lab.space.events import Record

__all__ = [
    "OF_AGENTS",
    "OF_ALL",
    "OF_GATEWAYS",
    "OF_OUR_GATEWAY",
    "OF_SPACES",
    "OF_TAPS",
    "SEVERITIES",
    "LogFinding",
    "RecentIds",
    "Report",
    "Rule",
    "RuleContext",
    "RuleFamily",
    "changes_of",
    "refused_mark",
    "rules_of",
    "word",
    "words",
    "words_of",
]

SEVERITIES = ("note", "warn", "error", "fatal")
"""The severities, the least first."""

Vantages = frozenset[Vantage]
OF_OUR_GATEWAY: Final[Vantages] = frozenset({"gateway"})
"""Of events that only a journal of ours has, such as refused frames of a stream."""
OF_GATEWAYS: Final[Vantages] = OF_OUR_GATEWAY | {"peers"}
"""Of what a gateway accepts, refuses and times: a participant sees nothing of it."""
OF_SPACES: Final[Vantages] = OF_GATEWAYS | {"participant"}
"""Of messages in a space."""
OF_TAPS: Final[Vantages] = frozenset({"tap"})
"""Of a session between an MCP client and its server, which has no space."""
OF_AGENTS: Final[Vantages] = frozenset({"agent"})
"""Of the session of a coding agent, which has no space."""
OF_ALL: Final[Vantages] = OF_SPACES | OF_TAPS | OF_AGENTS
"""Of JSON-RPC as such, and of the file."""

MAX_WORD = 64  # characters of a name or an id in a sentence
MAX_NAMES = 3  # names in a sentence


class Rule(NamedTuple):
    """One rule.

    Attributes:
        id: Its name, as `diag.rule` has it.
        severity: One of `SEVERITIES`.
        sentence: The sentence of a finding, a format string over the words that `words_of` and the step give.
        requirement: The row of the requirements that says what is broken; empty where no row says it.
        holds: The vantages for which it holds; about a log of another it says nothing.
        needs_whole: Whether it says that something is missing which another record may show. Where the log does not
            hold all records from the opening of its space, such a finding is a note.
    """

    id: str
    severity: str
    sentence: str
    requirement: str = ""
    holds: Vantages = OF_SPACES
    needs_whole: bool = False


def rules_of(names: Mapping[str, object]) -> Iterator[Rule]:
    """The rules among the names of a module, in their order; a variant under the id of an earlier one is left out."""
    found = dict[str, Rule]()
    for rule in names.values():
        if isinstance(rule, Rule):
            found.setdefault(rule.id, rule)
    yield from found.values()


class LogFinding(NamedTuple):
    """One fault or oddity.

    Attributes:
        severity: One of `SEVERITIES`; `rule` is the id of the rule.
        requirement: The row of the requirements that is broken; empty where no row says it.
        sentence: What is wrong, in one line.
        place: The place of the message among all records of the log, from 1; unique. 0 where no message is meant.
        seq: The place of the message in its journal, as in `Log.df`.
        time: When the gateway received it; None where no message is meant.
        id: Its id; `related` are the ids of the other messages that the finding is about.
    """

    severity: str
    rule: str
    requirement: str
    sentence: str
    place: int
    seq: int
    time: datetime | None
    id: str
    related: tuple[str, ...] = ()


class Report(Protocol):
    """Reports a finding of a rule about a message, and about others by their ids.

    `words` fill its sentence, besides those that `words_of` gives.
    """

    def __call__(self, rule: Rule, about: PlacedEntry | Mark, /, *related: str, **words: object) -> None: ...


class RecentIds:
    """The ids of the newest messages, with their senders and kinds: at least `limit` of them, at most twice as many."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._new: dict[str, tuple[str, str]] = {}
        self._old: dict[str, tuple[str, str]] = {}

    def get(self, id: str) -> tuple[str, str] | None:
        """The sender and the kind of the first message of that id; None where it is unknown or too old."""
        return self._new.get(id) or self._old.get(id)

    def add(self, id: str, sender: str, kind: str) -> None:
        """Remembers a message."""
        self._new[id] = sender, kind
        if len(self._new) >= self._limit:
            self._old, self._new = self._new, {}


class RuleContext(NamedTuple):
    """What the steps of all families share.

    Attributes:
        report: Reports a finding.
        ledger: The ledger, after the message that is judged.
        ids: The ids of earlier messages.
        names: The participant of each id of a connection.
        assumed: Ids of connections whose join is not in the log, with the place of the first message of each. The
            participant is the one that the record of this message states.
        now: Returns the time of the newest record.
        whole: Returns whether the log holds all records from the opening of its space, so that nothing came before it.
        vantage: Returns who recorded the log.
    """

    report: Report
    ledger: Ledger
    ids: RecentIds
    names: Mapping[str, str]
    assumed: Mapping[str, int]
    now: Callable[[], datetime]
    whole: Callable[[], bool]
    vantage: Callable[[], Vantage]

    def logical(self, id: str) -> str:
        """The participant that an id of a connection means."""
        return self.names.get(id, id)


EntryStep = Callable[[PlacedEntry, Sequence[LedgerChange]], None]
ChangeStep = Callable[[Any, PlacedEntry], None]
RecordStep = Callable[[Record, PlacedEntry | None, int], None]


class RuleFamily:
    """A family of rules. It has steps for every accepted message, for kinds of messages, and for changes of the ledger.

    Attributes:
        always: A step for every message that was accepted or sent; None for none.
        kinds: Steps by kind, for messages that were accepted or sent.
        changes: Steps by the type of a change of the ledger.
        refusals: A step for records of what the gateway refused, with or without a message.
        events: Steps by the event of a record without a message.
    """

    def __init__(self, context: RuleContext) -> None:
        self.context = context
        self.report = context.report
        self.always: EntryStep | None = None
        self.kinds: Mapping[str, EntryStep] = {}
        self.changes: Mapping[type, ChangeStep] = {}
        self.refusals: RecordStep | None = None
        self.events: Mapping[str, Callable[[Record, int], None]] = {}

    def finish(self) -> None:
        """Reports what the end of the log leaves open."""


def changes_of(changes: Sequence[LedgerChange], type: type[Any], what: str) -> Iterator[Any]:
    """The changes of one type that are called `what`."""
    return (change for change in changes if isinstance(change, type) and change.what == what)


def refused_mark(record: Record, place: int, id: str = "") -> Mark:
    """The mark of what the gateway refused, with the id of its message, where that is known."""
    return Mark(place, record.seq, record.now, id, record.runtime_id or record.participant, ())


def words_of(about: PlacedEntry | Mark, related: Sequence[str]) -> dict[str, str]:
    """What a sentence may call a message: `sender`, `id`, `kind`, its addressees `to`, and `about` another one."""
    return {
        **{name: word(getattr(about, name, "")) for name in ("sender", "id", "kind")},
        "to": words(about.to),
        "about": word(related[0] if related else ""),
    }


def word(text: str) -> str:
    """A name or an id of a peer for a sentence: one line, at most 64 characters, no invisible ones."""
    return one_line(text, MAX_WORD) or "?"


def words(names: Sequence[str]) -> str:
    """Several names for a sentence; of many, the first three and the number of the others."""
    shown = ", ".join(map(word, names[:MAX_NAMES]))
    more = len(names) - MAX_NAMES
    return f"{shown} and {more} more" if more > 0 else shown or "nobody"
