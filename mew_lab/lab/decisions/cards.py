"""Cards: one proposal as data for the human who decides it, with long values folded.

A card is data. `read_card` makes it once, from the proposal's own text, and compares it with the last request for the
same tool of the same target; until then there is an `unread_card`. A change of its state is a new card with the same id
and digest. Nothing here decides, sends or renders.

The lines of a value hide nothing. Long values are folded, in views and texts alike.

Spec: §3.2; threats 14, 16, 17, 35, 36.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from mew_lab.bridge.acp_modes import quote_word
from mew_lab.errors import MewError, OutcomeUnknown, ToolFailed
from mew_lab.lab.decisions.risks import (
    SHOWN_TO,
    find_inside,
    read_alike,
    read_risks,
    risks,
    risks_of_title,
)
from mew_lab.lab.decisions.sources import Sources
from mew_lab.ledger.calls import CallerState, Proposal, shown
from mew_lab.ledger.options import MAX_OPTION_ID, PermissionOption, PermissionRequest
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import member, text_of
from mew_lab.protocol.content import MAX_SHOWN_PARTS, for_line, read_parts
from mew_lab.protocol.envelope import Envelope, read_canonical
from mew_lab.protocol.steps import Steps, finish
from mew_lab.protocol.visible import middle, one_line, visible
from mew_lab.sdk.decisions import request_of
from mew_lab.sdk.kept_results import KeptAnswer
from mew_lab.sdk.request_rows import (
    ARGUMENTS,
    Rows,
    argument_of,
    is_routine,
    read_mismatch,
    read_rows,
    read_values,
    row_name,
    rows_of,
)
from mew_lab.sdk.results import ToolResult, result_of

__all__ = [
    "ARMING",
    "BEING_READ",
    "BY_ITS_OWN_RULES",
    "CANCELLED",
    "FOLD_LINES",
    "FURTHER",
    "LONG_NAME",
    "MAX_PATH",
    "MOST_READING",
    "POLICY",
    "READING",
    "Answer",
    "Card",
    "CardState",
    "Click",
    "DecidingRule",
    "FileNote",
    "LastCalls",
    "answer_of",
    "call_of",
    "dangers",
    "details",
    "folded",
    "is_folded",
    "lines_of",
    "read_card",
    "type_anywhere",
    "type_in_terminal",
    "unopened",
    "unread_card",
    "whole",
]


ARMING = 0.5  # seconds that a view shows a card before a click decides
FURTHER = 1.0  # seconds before a click approves a further card, beside the time to read it
READING = 40.0  # characters of new text a second, faster than anybody reads
MOST_READING = 15.0  # seconds, in all, that a further card waits at most

CANCELLED = "cancelled by its client"
POLICY = "policy "  # in `by`, before the name of the policy that decided
BY_ITS_OWN_RULES = "asks by its own rules: {mode}what it does not ask about runs with your rights"
MOST_NAME = 120  # characters of the name of an option
MOST_QUESTION = 200  # characters of a question in a title
# rows of a permission
QUESTION, OPTIONS, MODE = f"{ARGUMENTS}/question", f"{ARGUMENTS}/options", f"{ARGUMENTS}/mode"
BEING_READ = "being read: it can be decided when all of it was looked through"


def type_anywhere(id: str, option: str, value: str) -> str:
    """What approves a proposal with an option, such as `digest`, wherever a person types it."""
    id, value = visible(id), _typed(value)
    return (
        f"lab.approve('{id}', {option}='{value}'), %mew approve {id} --{option} {value}, or "
        f"{type_in_terminal(id, option, value)} in a terminal"
    )


def type_in_terminal(id: str, option: str, value: str) -> str:
    """The same in `mew-lab join`, which has no other verbs."""
    value = _typed(value)
    return f"/approve {visible(id)} {value if option == 'option' else f'{option}={value}'}"


def _typed(value: str) -> str:
    """A value as it is typed; where quotes would be needed, a word for it."""
    return value if re.fullmatch(r"[\w.:@/+-]+", value, re.ASCII) else "OPTION"


CardState = Literal[
    "reading",
    "open",
    "deciding",
    "fulfilled",
    "rejected",
    "withdrawn",
    "done",
    "unknown",
    "resolved",
    "lapsed",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileNote:
    """What a card says of the file that its call would write. It holds nothing of the old content.

    `path` is that of the call. After a comparison, `place` is the path within a folder that the owner gave, `told` how
    many lines it would change, and `at` when the file was read, in seconds of the epoch. `why` is the reason why that is
    not known, `changed` a sentence where the file was changed after it was shown. With `is_known` the file can be looked
    up here, so that a view shows what would change; with `is_stated` the agent that asks has stated that. `covers` are
    the rows of the request that the shown change holds whole, `reads` the characters of the lines that differ.
    """

    path: str
    place: str = ""
    told: str = ""
    at: float = 0.0
    why: str = ""
    changed: str = ""
    is_known: bool = True
    is_stated: bool = False
    covers: tuple[str, ...] = ()
    reads: int = 0


class DecidingRule(NamedTuple):
    """The rule that approved a call: its number, its SHA-256 and its text.

    `approver` is the id of the participant that sent the call by a rule of `owner`; both are empty where the call was
    sent in the name of this person.
    """

    number: int
    sha256: str
    text: str
    approver: str = ""
    owner: str = ""

    @property
    def name(self) -> str:
        """Such as `rule 3`, or `approver, rule 3 of ada`."""
        name = f"rule {self.number}"
        return (
            f"{one_line(self.approver, 64)}, {name} of {one_line(self.owner, 64)}" if self.approver else name
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One proposal to be decided by a human; a change is a new Card with the same id and digest.

    In the state `reading` it is still looked through. Then it has no rows, no digest and no warnings, and nobody can
    decide it.

    `arguments` are the rows of the request that will be sent: pairs of a JSON pointer and the whole value as JSON text,
    which rebuild its payload and addressees (`sdk.request_rows`). `digest` is the sha-256 (hex) of the canonical bytes
    from which the request will be built; `since` and `decided_at` are seconds of the epoch.
    `outcome` is one line: the result or the reason; `lapsed` is what nobody decided and nobody can any more.
    `last` are the arguments of the last request for the same tool of the same target (None: there was none), `on_screen`
    the seconds from when a view first showed it to the decision (None: no view told).
    `participants` are the ids on it that their participants chose for a connection, each with the participant's own
    name. `request_id` is the id under which the request will be sent, `sent` the id of one
    that was sent in this person's name. `refusal` says why it cannot be approved; empty when it can. `edited` is None
    where the request was not compared with the proposal. `rejected` says who has rejected it while it is not withdrawn;
    then a second yes approves it all the same, also where it is decided, because its proposer does not go on asking.
    `about` is the description that the target gives of its tool, `hints` the words for its annotations, such as
    `read-only`; both are its own statements. `failed` says that it was approved and that the tool, or the call of it,
    failed; where nobody knows whether it took effect, its state is `unknown`, and `resolved` after a person found out.
    `repeats` names the call of unknown outcome that it would repeat; only a person approves it then (R35). `twin` is
    the id of an older open proposal of the same call. `caller` is what the proposer tells of the client for which it
    proposes, `caller_after` the seconds from the proposal to that. `kept` tells of a result that was too large for a
    message. `file` is the file that the call would write; None for a call that writes none, as far as that is known.
    `inside` are the rows whose path leads into a folder that the owner gave to the target, each with that folder's name.
    `permission` has the question and the options of an agent; None for any other proposal. `choice` is the option that
    was chosen of it (R41). `setting` says what a change of the mode or an option of a coding agent would change.
    `review` says who else looks at it and who said yes; `unmet` counts the requests for it that its executor refused
    because a quorum was missing (R39). `rule` is the rule of this person that approved it; None where none did.
    `history` says what was decided on calls like it; empty where nothing was, or where it is not to be told.
    """

    id: str
    seq: int
    proposer: str
    to: tuple[str, ...]
    method: str
    tool: str
    arguments: tuple[tuple[str, str], ...]
    digest: str
    since: float
    warnings: tuple[str, ...] = ()
    why: str = ""
    state: CardState = "open"
    by: str = ""
    outcome: str = ""
    decided_at: float | None = None
    edited: bool | None = False
    last: tuple[tuple[str, str], ...] | None = None
    on_screen: float | None = None
    participants: tuple[tuple[str, str], ...] = ()
    request_id: str = ""
    sent: str = ""
    refusal: str = ""
    about: str = ""
    hints: tuple[str, ...] = ()
    failed: bool = False
    repeats: str = ""
    twin: str = ""
    caller: CallerState = ""
    caller_after: float = 0.0
    rejected: str = ""
    misfits: tuple[str, ...] = ()
    review: str = ""
    unmet: int = 0
    kept: KeptAnswer | None = None
    file: FileNote | None = None
    inside: tuple[tuple[str, str], ...] = ()
    permission: PermissionRequest | None = None
    choice: PermissionOption | None = None
    rule: DecidingRule | None = None
    history: str = ""
    setting: str = ""

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences about the proposal as a whole, which are no warnings of its content."""
        seconds = f"{round(self.caller_after, 1 if self.caller_after < 10 else None):g} s"
        of_caller = {
            "": "",
            "cancelled": CANCELLED,
            "gone": f"its client gave up after {seconds} and may ask again",
        }[self.caller]
        twin = f"the same as the one above, proposal {middle(self.twin, 40)}; approving both runs it twice"
        being_read = BEING_READ if self.state == "reading" else ""
        changed = self.file.changed if self.file is not None else ""
        notices = (
            self.setting,
            being_read,
            self.rejected,
            twin if self.twin else "",
            of_caller,
            changed,
            *self.misfits,
        )
        return tuple(filter(None, notices))

    @property
    def shape(self) -> tuple[Any, ...]:
        """A key that is equal for cards that differ only in their proposers and in the values of their arguments."""
        types = tuple(sorted((name, _type(value)) for name, value in self.arguments))
        return (self.to, self.method, self.tool, types)

    @property
    def is_open(self) -> bool:
        """Whether it still waits for a decision."""
        return self.state in ("reading", "open", "deciding")

    @property
    def is_read(self) -> bool:
        """Whether all of it was looked through; only then can it be decided."""
        return bool(self.digest)

    @property
    def can_be_approved(self) -> bool:
        """Whether a person may approve it: it was read, and it is open or a rejection alone has ended it (R32)."""
        return self.is_read and (self.is_open or bool(self.rejected))

    @property
    def decision(self) -> str:
        """The decision in the specification's term; it stays `fulfilled` after the answer has arrived."""
        if self.state == "withdrawn" and self.sent:
            return "withdrawn after it was sent"
        return "fulfilled" if self.state in ("done", "unknown", "resolved") else self.state

    @property
    def decided_as(self) -> str:
        """The decision in a usual word, such as `approved`; of a permission with the option that it means."""
        if self.choice is not None:
            return f"{self.choice.quoted} chosen"
        if self.decision == "rejected" and self.permission is not None:
            return f"rejected ({self.permission.told_by_rejection})"
        return "approved" if self.decision == "fulfilled" else self.decision

    @property
    def told(self) -> str:
        """The outcome, and before it that nobody knows whether the call took effect, where that is so (R35)."""
        return (
            f"not known whether it took effect: {self.outcome}" if self.state == "unknown" else self.outcome
        )

    @property
    def writes(self) -> str:
        """The file that the call would write, as one line: how many lines would change, and no old content."""
        if (file := self.file) is None:
            return ""
        place = one_line(file.place or file.path, MAX_PATH)
        if file.is_stated:
            told = f"{file.told}, " if file.told else ""
            return f"writes {place}: {told}as {self.named(self.proposer)} states it"
        when = " against the file as it was when it was shown" if file.told.startswith("+") else ""
        about = f"{file.told}{when}" or file.why
        return f"writes {place}: {about}" if about else f"writes {place}"

    @property
    def details(self) -> tuple[tuple[str, str], ...]:
        """The rows that the title does not show: arguments and other members of the request."""
        return tuple(row for row in self.arguments if not is_routine(*row))

    @property
    def to_read(self) -> tuple[tuple[str, str], ...]:
        """The details that a person reads; the shown change of a file stands in place of the rows that it holds."""
        covered = self.file.covers if self.file is not None else ()
        return tuple(row for row in self.details if row[0] not in covered and row[0] not in self.retold)

    @property
    def retold(self) -> tuple[str, ...]:
        """The rows that every view and text tells whole in another form: a short question, and plain options."""
        if (asked := self.permission) is None or asked.fault:
            return ()
        rows = []
        if asked.question == one_line(asked.question, MOST_QUESTION).strip():
            rows.append(QUESTION)
        if asked.mode and asked.mode == quote_word(asked.mode):
            rows.append(MODE)
        return (*rows, OPTIONS) if asked.is_plain else tuple(rows)

    @property
    def foot(self) -> str:
        """What stands at the end of a permission: the agent, and not the space, decides what it asks."""
        if (asked := self.permission) is None:
            return ""
        mode = f"mode {quote_word(asked.mode)}; " if asked.mode else ""
        return f"{self.named(self.proposer)} {BY_ITS_OWN_RULES.format(mode=mode)}"

    @property
    def reads(self) -> int:
        """The characters that are read beside these rows."""
        file = self.file.reads if self.file is not None else 0
        return file + sum(len(name) + len(about) for name, about, _ in self.option_lines)

    @property
    def option_lines(self) -> tuple[tuple[str, str, str], ...]:
        """The options of a permission as visible text: the name, what a choice of it means, and the id."""
        if (asked := self.permission) is None:
            return ()
        agent = self.named(self.proposer)
        return tuple(
            (one_line(one.name, MOST_NAME), one.explain(agent), one_line(one.id, MAX_OPTION_ID))
            for one in asked.options
        )

    def named(self, id: str) -> str:
        """A shortened id, with the name of its participant where that is different."""
        names = dict(self.participants)
        return middle(id, 40) + (f" (participant {middle(names[id], 40)})" if id in names else "")

    @property
    def target(self) -> str:
        """The addressees as a short text."""
        to = list(dict.fromkeys(self.to))
        names = ", ".join(self.named(id) for id in to[:SHOWN_TO])
        return f"{names} and {len(to) - SHOWN_TO} more" if len(to) > SHOWN_TO else names or "anybody"

    @property
    def request(self) -> str:
        """Proposer, addressees and tool as one line; each is cut by itself, so none hides another."""
        if (asked := self.permission) is not None:
            question = one_line(asked.question, MOST_QUESTION).strip() or "no question is stated"
            return f"{self.named(self.proposer)} asks for permission: {question}"
        return f"{self.named(self.proposer)} asks {self.target} to run {middle(self.tool or self.method, 60)}"

    @property
    def call(self) -> str:
        """The tool with all rows that the title does not show, uncut."""
        shown = ", ".join(f"{row_name(pointer)}={value}" for pointer, value in self.details)
        return f"{self.tool or self.method}({shown})"


class Click(NamedTuple):
    """A click that decides: its view, and its time of arrival in seconds of the gate's clock."""

    view: str
    at: float


def _type(text: str) -> str:
    """The JSON type of a JSON text."""
    return {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}.get(
        text[:1], "number"
    )


FOLD_LINES, FOLD_CHARACTERS = 6, 480
LONG_NAME = 80  # characters of a row's name
MAX_PATH = 160  # characters of a path in a sentence


def lines_of(text: str) -> list[str]:
    """A JSON value as lines that hide nothing, indented, with strings broken at each line end in them."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return [visible(text)]
    if isinstance(value, str):
        # Quoted as JSON, where a backslash is doubled, but a line end is a new line, so nothing is ambiguous.
        quoted = json.dumps(value, ensure_ascii=False)
        return [visible(line) for line in _broken(quoted)]
    if isinstance(value, dict | list) and len(text) > 100:
        # One line for each item: denser than full indentation, and a long item is still shown whole.
        pairs = value.items() if isinstance(value, dict) else ((None, item) for item in value)
        items = [("" if key is None else f"{_compact(key)}: ") + _compact(item) for key, item in pairs]
        first, last = "{}" if isinstance(value, dict) else "[]"
        return [
            first,
            *(f"  {visible(item)}{',' * (n < len(items))}" for n, item in enumerate(items, 1)),
            last,
        ]
    return [visible(text)]


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def _broken(quoted: str) -> list[str]:
    """Breaks a quoted string at each escaped line end, and not at an escaped backslash before an n."""
    lines, start, at = [], 0, 0
    while (at := quoted.find("\\", at)) >= 0:
        end = quoted[at + 1 : at + 2] == "n"
        at += 2
        # the one at the very end stays an escape: it would leave a quote alone
        if end and at < len(quoted) - 1:
            lines.append(quoted[start : at - 2])
            start = at
    return [*lines, quoted[start:]]


def is_folded(pointer: str, value: str) -> bool:
    """Whether the row is shown only in part until it is opened."""
    lines = lines_of(value)
    too_long = len(lines) > FOLD_LINES or sum(map(len, lines)) > FOLD_CHARACTERS
    return too_long or len(row_name(pointer)) > LONG_NAME


def folded(rows: Sequence[tuple[str, str]]) -> set[int]:
    """The indexes of the rows that are folded."""
    return {n for n, row in enumerate(rows) if is_folded(*row)}


def whole(pointer: str, value: str) -> str:
    """The full text of a folded row: its value, below its name where the name is long."""
    name = row_name(pointer)
    return "\n".join([*([name] if len(name) > LONG_NAME else []), *lines_of(value)])


def unopened(rows: Sequence[tuple[str, str]], opened: set[int]) -> str:
    """The reason why the card cannot be approved before its folded rows are opened; empty when all were opened."""
    closed = sorted(folded(rows) - opened)
    names = ", ".join(one_line(row_name(rows[n][0]), 40) for n in closed[:3])
    return f"not approved, because {names} was not opened; expand it first" if closed else ""


MAX_CALLS = 500  # targets and tools whose last call is remembered
MAX_TEXT = 200_000  # characters of one call; a longer one is not remembered
MOST_BESIDE = 10  # remarks about the request itself

_PARAMS = "/payload/params"
_EXPECTED = ("/payload", "/payload/jsonrpc", "/payload/id", "/payload/method", _PARAMS)
_OF_A_CALL = (f"{_PARAMS}/name", f"{_PARAMS}/arguments", f"{_PARAMS}/_meta")


def details(rows: Rows) -> Rows:
    """The rows that the title of a card does not show."""
    return tuple(row for row in rows if not is_routine(*row))


def values_of(rows: Rows) -> dict[str, Any]:
    """The values by displayed name, and the names of arguments that are displayed in another form."""
    return finish(_name_values(rows, finish(read_values(rows))))


def _name_values(rows: Rows, values: Mapping[str, Any]) -> Steps[dict[str, Any]]:
    named: dict[str, Any] = {}
    others: dict[str, str] = {}
    for pointer, _ in rows:
        label, name = row_name(pointer), argument_of(pointer)
        named[label] = values[pointer]
        if name is not None and name != label:
            others[f"name of {label}"] = name
        yield
    return {**others, **named} if others else named


def dangers(rows: Rows, *, folders: Sequence[str] = ()) -> tuple[str, ...]:
    """The risks in everything that would be sent, except in ids that this process chose.

    `folders` are those that a person gave to the target.
    """
    return risks(values_of(_without_id(rows)), folders=folders)


def _without_id(rows: Rows) -> Rows:
    return tuple(row for row in rows if row[0] != "/payload/id")


class LastCalls:
    """The arguments of the last request for each tool of each target; at most the 500 most recently used."""

    def __init__(self) -> None:
        self._last: BoundedDict[tuple[Any, ...], Rows] = BoundedDict(MAX_CALLS, refresh=True)

    def observe(self, envelope: Envelope) -> None:
        """Records one message of the space."""
        payload = envelope.payload
        method = payload.get("method")
        if envelope.kind != "mcp/request" or not isinstance(method, str) or len(envelope.raw) > MAX_TEXT:
            return
        tool = text_of(member(payload, "params", "name"))
        rows = details(rows_of({"to": envelope.to, "payload": payload}))
        key = (tuple(sorted(envelope.to)), method, tool)
        self._last[key] = rows

    def of(self, proposal: Proposal) -> Rows | None:
        """The arguments of the last call of the same tool of the same target; None when there was none."""
        return self._last.get((tuple(sorted(proposal.to)), proposal.method, proposal.tool))


def unread_card(
    proposal: Proposal,
    *,
    since: float,
    request_id: str,
    why: str = "",
    repeats: str = "",
    unmet: int = 0,
) -> Card:
    """The card of a new proposal before it was read.

    `request_id` is the id under which the request will be sent.
    """
    return Card(
        id=proposal.id,
        seq=proposal.seq,
        proposer=proposal.proposer,
        to=proposal.to,
        method=proposal.method,
        tool=proposal.tool,
        arguments=(),
        digest="",
        since=since,
        state="reading",
        request_id=request_id,
        why=why,
        repeats=repeats,
        unmet=unmet,
        permission=proposal.permission,
    )


def read_card(
    card: Card,
    proposal: Proposal,
    *,
    of_the_tool: tuple[str, ...],
    sources: Sources,
    last: Rows | None,
    logical: Callable[[str], str] = lambda id: id,
    present: Iterable[str] = (),
    about: str = "",
    hints: tuple[str, ...] = (),
    folders: Sequence[str] = (),
    until: int | None = None,
) -> Steps[Card | None]:
    """Reads a proposal for its card; None when its text is ambiguous JSON, so that it may not be approved.

    `logical` gives the participant that an id means; `present` are the ids of the participants in the space, `folders`
    those that a person gave to the target. Sources after the message with the number `until` do not count.
    """
    try:
        said = shown(proposal.envelope)
        yield
        request = request_of(said, id=card.request_id)
        digest = sha256((yield from read_canonical(said))).hexdigest()
        rows = yield from read_rows(request)
        values = yield from read_values(rows)
    except MewError:
        return None
    names: dict[str, str] = {}
    for id in (proposal.proposer, *proposal.to):
        names[id] = logical(id)
        yield
    title = risks_of_title(
        tool=proposal.tool, method=proposal.method, to=proposal.to, proposer=proposal.proposer
    )
    yield
    beside = yield from _beside(proposal, rows, names)
    own, told, inside = list[str](), list[tuple[str, str]](), list[tuple[str, str]]()
    for row in rows:
        if name := argument_of(row[0]):
            own.append(name)
            value = values[row[0]]
            if isinstance(value, str) and (folder := find_inside(value, folders)):
                inside.append((row[0], folder))
        if not is_routine(*row):
            told.append(row)
        yield
    compared = yield from _name_values(tuple(told), values)
    looked_at = yield from _name_values(_without_id(rows), values)
    refusal = yield from read_mismatch(rows, request, values=values)
    if not refusal and card.permission is not None:
        refusal = card.permission.fault
    warnings = (
        *of_the_tool,
        *beside,
        *title,
        *(yield from read_alike((proposal.proposer, *proposal.to), "participant", among=present)),
        *(yield from read_alike(own, "argument")),
        *(yield from sources.read_quotes(compared, by=proposal.proposer, until=until)),
        *(yield from read_risks(looked_at, folders=folders)),
    )
    return replace(
        card,
        state="open",
        arguments=rows,
        digest=digest,
        warnings=warnings,
        last=last,
        participants=tuple((id, name) for id, name in names.items() if id != name),
        refusal=refusal,
        about=about,
        hints=hints,
        inside=tuple(inside),
    )


def call_of(card: Card) -> tuple[Any, ...]:
    """What is equal for equal calls: all but their proposers, the ids of the request and the token of its progress."""
    return (frozenset(card.to), card.method, card.tool, frozenset(card.details))


def _beside(proposal: Proposal, rows: Rows, names: dict[str, str]) -> Steps[tuple[str, ...]]:
    """Remarks on unusual members of the request itself, rather than of its arguments."""
    remarks = []
    if proposal.anew:
        remarks.append("another proposal under the same id: its proposer has used this id before")
    if proposal.permission is None and any(names[id] == names[proposal.proposer] for id in proposal.to):
        remarks.append(
            "the proposer is one of the targets that would run it: its own answer may be taken for the outcome"
        )
    values = dict(rows)
    if (version := values.get("/payload/jsonrpc")) not in ('"2.0"', None):
        remarks.append(f"the member jsonrpc is {one_line(version, 40)}; the protocol requires “2.0”")
    call = proposal.method == "tools/call"
    for pointer, _ in rows:
        yield
        known = pointer in _EXPECTED or argument_of(pointer) is not None or pointer == "/to"
        inside = pointer.startswith(f"{_PARAMS}/") and (not call or pointer in _OF_A_CALL)
        if not known and not inside:
            remarks.append(f"sent beside the call: {one_line(row_name(pointer), 60)}")
    return (*remarks[:MOST_BESIDE], *(["more is sent beside the call"] if len(remarks) > MOST_BESIDE else []))


class Answer(NamedTuple):
    """The payload of a response as one line, and whether it says that the call failed."""

    text: str
    failed: bool = False


def answer_of(response: Envelope, *, method: str, what: str) -> Answer:
    """Reads a response."""
    try:
        result = result_of(response.payload, method=method, what=what)
    except ToolFailed as fault:
        return Answer(one_line(str(fault), 160), failed=True)
    except OutcomeUnknown as fault:
        return Answer(one_line(str(fault), 300))
    raw = result.raw if isinstance(result, ToolResult) else result
    return Answer(for_line(read_parts(raw, method, most=MAX_SHOWN_PARTS), 160) or "no content")
