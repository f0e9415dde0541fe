"""Writes one session as an HTML page that stands alone: what was decided, called, said and thought, message by message.

How it works. One pass over the records of the log fills a ledger, from which every section is read. The page has no
script, no link and no loaded resource, and its own policy forbids them, so that text of a peer stays text even where an
escape were forgotten. `safe_html` alone makes tags. Sections are bounded; each says how much it leaves out.

The page is for reading, printing and passing on: it calls everybody by name. It holds what the log holds, arguments and
results as well, but for what is redacted (`log.redaction`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from mew_lab.errors import ConfigError
from mew_lab.lab.decisions.cards import POLICY, Card
from mew_lab.lab.rows import is_plumbing
from mew_lab.lab.safe_html import Html, escape, escape_lines, tag
from mew_lab.ledger.calls import Proposal, Request
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.ledger import Ledger
from mew_lab.ledger.reasoning import ReasoningChange
from mew_lab.log.chains import Chains
from mew_lab.log.decision_note import resolve_reported
from mew_lab.log.drawing import lasted
from mew_lab.log.entries import entry_of, number_after
from mew_lab.log.log import Log
from mew_lab.log.reading import Vantage
from mew_lab.log.redaction import LogRedaction
from mew_lab.log.sequence import sequence
from mew_lab.log.usage import ModelUsage, usage_of
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import member
from mew_lab.protocol.content import for_text, holds_content, raw_text, read_parts
from mew_lab.protocol.describe import describe
from mew_lab.protocol.intake import SENT_UNKNOWN
from mew_lab.protocol.kinds import GATEWAY
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import middle, one_line, visible_json
from mew_lab.space.events import REPORTED, Record
from mew_lab.transport.scratch import written_beside

__all__ = ["report_log", "session_page"]

_N = TypeVar("_N", int, float)

MOST_MESSAGES = 2000
MOST_DECISIONS = 500
MOST_CALLS = 500
MOST_CHATS = 500
MOST_SEQUENCES, MOST_STEPS = 100, 60
MOST_DIAGRAMS = 20
MOST_PARTICIPANTS = 200
MOST_TEXT = 2000  # characters of one value or message; a sum of 5 MB or so for all sections

NUMBERS = (
    *("#", "Messages sent", "Took"),
    *("Tokens read", "From a cache", "Tokens written", "Cost in USD"),
)  # columns of numbers
MOST_REQUESTS = 20_000  # whose answers are known as such

STYLE = """
:root{color-scheme:light dark;--fg:#1f2328;--fg2:#59636e;--bg:#fff;--bg2:#f6f8fa;--line:#d1d9e0;
--good:#1a7f37;--bad:#c4320a;--mew-fg2:var(--fg);--mew-fg3:var(--fg2);--mew-bg:var(--bg);--mew-bg2:var(--bg2);--mew-line-strong:var(--line)}
@media(prefers-color-scheme:dark){:root{--fg:#e6edf3;--fg2:#9198a1;--bg:#0d1117;--bg2:#161b22;--line:#3d444d;
--good:#57ab5a;--bad:#ff8f73}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1200px;padding:24px 16px 64px;background:var(--bg);color:var(--fg);
font:13px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
h1{font-size:22px;margin:0 0 4px}h2{font-size:15px;margin:32px 0 8px}
p{margin:4px 0}.faint{color:var(--fg2);font-size:12px}.good{color:var(--good)}.bad{color:var(--bad)}
.table{overflow-x:auto}table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:4px 12px 4px 0;border-bottom:1px solid var(--line)}
th{font-size:12px;font-weight:600;color:var(--fg2)}
td.number,th.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td.when{white-space:nowrap;font-variant-numeric:tabular-nums;color:var(--fg2)}
td.what{width:50%;min-width:14em;overflow-wrap:anywhere}td.who{overflow-wrap:anywhere;min-width:9em}b{white-space:nowrap}
code,pre{font:12px/1.45 ui-monospace,Menlo,Consolas,monospace}
pre{margin:4px 0;padding:8px;background:var(--bg2);white-space:pre-wrap;overflow-wrap:anywhere}
details>summary{cursor:pointer;color:var(--fg2)}details table{margin:4px 0 8px}
dl{display:grid;grid-template-columns:max-content 1fr;gap:0 16px;margin:8px 0}dt{color:var(--fg2)}dd{margin:0}
svg{max-width:100%;height:auto}
@media print{body{max-width:none;padding:0;font-size:11px}h2{break-after:avoid}tr,pre{break-inside:avoid}
details:not([open])>summary::after{content:" (folded)"}}
"""


def _tag(name: str, *children: object, css: str = "", title: str = "", span: int = 0) -> Html:
    attributes = {"class": css, "title": title, "colspan": str(span or "")}
    return tag(name, *children, **{name: value for name, value in attributes.items() if value})


def _text(text: str, limit: int = MOST_TEXT) -> Html:
    """Text of several lines, cut with a note."""
    more = len(text) - limit
    return _tag(
        "pre",
        escape_lines(text[:limit]),
        f"\n[{count_of(more, 'more character')} left out]" if more > 0 else "",
    )


def _json(value: object) -> Html:
    text, _ = raw_text(value)
    return _text(visible_json(text))


# --- times and names --------------------------------------------------------------------------------------------------


def _local(t: float) -> datetime:
    return datetime.fromtimestamp(t).astimezone()


def _when(t: float) -> Html:
    if not t:
        return _tag("td", "", css="when")
    utc = datetime.fromtimestamp(t, UTC)
    return _tag("td", f"{_local(t):%H:%M:%S}", css="when", title=f"{utc:%Y-%m-%d %H:%M:%S} UTC")


def _name(name: str) -> str:
    return middle("gateway" if name == GATEWAY else name, 40)


def _to(names: Sequence[str]) -> str:
    shown = ", ".join(map(_name, names[:4])) or "everybody"
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown


# --- one pass over the log --------------------------------------------------------------------------------------------


class ReportedLog(Protocol):
    """The log of a session."""

    @property
    def space(self) -> str: ...
    @property
    def vantage(self) -> Vantage: ...
    @property
    def sign(self) -> str: ...
    @property
    def records(self) -> Iterable[Record]: ...


class _Redacted(NamedTuple):
    """A log without what is redacted."""

    space: str
    vantage: Vantage
    sign: str
    records: Iterable[Record]


class _UsageSum:
    """What the answers of one participant by one model took together; None where no answer says it."""

    def __init__(self) -> None:
        self.read: int | None = None
        self.cached: int | None = None
        self.written: int | None = None
        self.cost: float | None = None
        self.total: float | None = None

    def add(self, usage: ModelUsage) -> None:
        self.read = _sum(self.read, usage.input)
        self.cached = _sum(self.cached, usage.cached)
        self.written = _sum(self.written, usage.output)
        self.cost = _sum(self.cost, usage.cost)
        self.total = self.total if usage.total_cost is None else usage.total_cost


def _sum(before: _N | None, more: _N | None) -> _N | None:
    return before if more is None else more if before is None else before + more


class _Session:
    """What one pass over the records found."""

    def __init__(self, log: ReportedLog) -> None:
        self.ledger = Ledger()
        self.chains = Chains()
        # The messages, each with whether it only keeps the space running.
        self.newest: deque[tuple[Entry, bool]] = deque(maxlen=MOST_MESSAGES)
        self._requests: BoundedDict[str, bool] = BoundedDict(MOST_REQUESTS)  # by id: whether it is plumbing
        self.count = 0
        self.first = self.last = 0.0
        self.sent: Counter[str] = Counter()
        self.usage: dict[tuple[str, str], _UsageSum] = {}  # by participant and model
        self.steps: dict[int, list[Entry]] = {}
        number = 0
        for record in log.records:
            if record.raw is not None:
                number = number_after(record, number)
                self._take(entry_of(record, number, sign=log.sign))
            elif record.event == REPORTED:
                resolve_reported(self.ledger.calls, record)

    def _take(self, entry: Entry) -> None:
        self.count += 1
        self.first = self.first or entry.t
        self.last = entry.t or self.last
        self.newest.append((entry, self._is_plumbing(entry)))
        self.sent[entry.sender] += 1
        if entry.kind == "participant/status":
            self._add_usage(entry)
        self.chains.add(entry)
        for change in self.ledger.observe(entry):
            if isinstance(change, ReasoningChange) and change.what not in (
                "claimed",
                "forgotten",
                "streamed",
            ):
                steps = self.steps.setdefault(change.sequence.key, [])
                if len(steps) < MOST_STEPS and (not steps or steps[-1] is not entry):
                    steps.append(entry)
                while len(self.steps) > 2 * MOST_SEQUENCES:
                    del self.steps[next(iter(self.steps))]

    def _add_usage(self, entry: Entry) -> None:
        usage = usage_of(entry.payload)
        if usage.tokens is None and usage.cost is None and usage.total_cost is None:
            return
        key = entry.sender, usage.model
        if key in self.usage or len(self.usage) < MOST_PARTICIPANTS:
            self.usage.setdefault(key, _UsageSum()).add(usage)

    def _is_plumbing(self, entry: Entry) -> bool:
        answered = next(iter(entry.correlation_id), "")
        plumbing = is_plumbing(
            entry.kind,
            entry.payload,
            entry.verdict,
            answers_plumbing=self._requests.get(answered, False),
        )
        # The first accepted message keeps its id.
        if entry.kind == "mcp/request" and entry.verdict != "refused" and entry.id not in self._requests:
            self._requests[entry.id] = plumbing
        return plumbing

    def proposals(self) -> list[Proposal]:
        return [call for call in self.ledger.calls.proposals if call.state != "refused"]

    def requests(self) -> list[Request]:
        calls = self.ledger.calls.requests
        return [
            call
            for call in calls
            if call.state != "sent" and not is_plumbing("mcp/request", call.entry.payload, "")
        ]


def _table(columns: Sequence[str], rows: Sequence[Html]) -> Html:
    head = _tag(
        "thead", _tag("tr", *(_tag("th", name, css="number" * (name in NUMBERS)) for name in columns))
    )
    return _tag("div", _tag("table", head, _tag("tbody", *rows)), css="table")


def _section(
    title: str, columns: Sequence[str], rows: Sequence[Html], *, empty: str, left_out: int, noun: str
) -> Html:
    """A section with a table of its rows, or them alone without columns; where there are none, a sentence says so."""
    if not rows:
        return _tag("section", _tag("h2", title), _tag("p", empty, css="faint"))
    note = (
        _tag("p", f"{count_of(left_out, f'earlier {noun}')} left out.", css="faint") if left_out > 0 else ""
    )
    return _tag("section", _tag("h2", title), note, _table(columns, rows) if columns else _tag("div", *rows))


# --- sections ---------------------------------------------------------------------------------------------------------


_APPROVED = ("answered", "fulfilled", "unknown", "resolved")


def _facts(log: ReportedLog, session: _Session, me: str, redacted: str) -> Html:
    began, ended = session.first, session.last
    zone = f"{_local(ended):%Z}" if ended else ""
    decided = [call for call in session.proposals() if call.state in _APPROVED]
    rejected = [call for call in session.proposals() if call.was_rejected]
    failed = sum(call.failed for call in session.requests())
    unknown = sum(call.state == "unknown" for call in session.requests())
    facts = [
        (
            "Time",
            f"{_local(began):%Y-%m-%d %H:%M:%S} to {_local(ended):%H:%M:%S} {zone} ({lasted(ended - began)})",
        ),
        ("Seen by", f"{me} ({log.vantage})" if me else log.vantage),
        ("Messages", count_of(session.count, "message")),
        ("Decisions", f"{len(decided)} approved, {len(rejected)} rejected"),
        (
            "Calls",
            f"{count_of(len(session.requests()), 'call')}, {failed} failed"
            + (f", {unknown} with an unknown outcome" if unknown else ""),
        ),
    ]
    if redacted:
        facts.append(("Redacted", redacted))
    return _tag("dl", *(part for key, value in facts for part in (_tag("dt", key), _tag("dd", value))))


def _participants(session: _Session, roles: Mapping[str, str]) -> Html:
    names = [name for name, _ in session.sent.most_common() if name and name != GATEWAY]
    rows = [
        _tag(
            "tr",
            _tag("td", _name(name), css="who"),
            _tag("td", one_line(roles.get(name, ""), 200), css="what"),
            _tag("td", str(session.sent[name]), css="number"),
        )
        for name in names[:MOST_PARTICIPANTS]
    ]
    columns, hidden = ("Participant", "Role here", "Messages sent"), len(names) - len(rows)
    empty = "Nobody has sent a message."
    return _section("Participants", columns, rows, empty=empty, left_out=hidden, noun="participant")


def _usage(session: _Session) -> Html | str:
    """The tokens and the cost that answers state; nothing where none states any."""
    if not session.usage:
        return ""

    def number(value: float | None, form: str = ",.0f") -> Html:
        return _tag(
            "td", "not recorded" if value is None else f"{value:{form}}".replace(",", " "), css="number"
        )

    rows = [
        _tag(
            "tr",
            _tag("td", _name(name), css="who"),
            _tag("td", one_line(model, 80) or "not recorded", css="who"),
            number(used.read),
            number(used.cached),
            number(used.written),
            number(used.cost if used.total is None else used.total, ".4f"),
        )
        for (name, model), used in session.usage.items()
    ]
    columns = ("Participant", "Model", "Tokens read", "From a cache", "Tokens written", "Cost in USD")
    return _section("Tokens and cost", columns, rows, empty="", left_out=0, noun="model")


def _decider(call: Proposal, card: Card | None) -> str:
    if card is not None and card.rule is not None:
        return f"by {card.rule.name}"
    by = card.by if card is not None and card.by else call.by
    if by.startswith(POLICY) or f" by {POLICY}" in by:
        return f"automatically (policy “{one_line(by.partition(POLICY)[2], 60)}”)"
    return f"by {_name(by)}" if by else ""


def _decision(call: Proposal, card: Card | None) -> Html:
    if call.state in _APPROVED:
        word, css = "Approved", "good"
        at = call.request.t if call.request is not None else 0.0
    elif call.was_rejected:
        word, css, at = "Rejected", "bad", 0.0
    elif call.state == "withdrawn":
        word, css, at = "Withdrawn", "", 0.0
    else:
        word, css, at = "Open", "", 0.0
    if card is not None and card.decided_at:
        at = card.decided_at
    by = _decider(call, card) if word != "Open" else ""
    if word == "Rejected" and call.rejections:
        rejection = call.rejections[-1]
        by = f"by {_name(rejection.by)}"
        by += f": {one_line(rejection.reason, 200)}" if rejection.reason else ""
    after = f" after {lasted(max(0.0, at - call.entry.t))}" if at and call.entry.t else ""
    edited = ", edited" if call.edited and word == "Approved" else ""
    if (asked := call.permission) is not None and word == "Rejected":
        by += f" ({asked.told_by_rejection})"
    elif (choice := call.choice) is not None and word == "Approved":
        word, by = "Chose", f"{choice.quoted} {by}"
    return _tag("td", _tag("b", word, css=css), f" {by}{after}{edited}".rstrip(), css="who")


def _call_cell(
    sender: str, to: Sequence[str], tool: str, payload: Mapping[str, Any], *, beside: Sequence[str] = ()
) -> Html:
    title = f"{_name(sender)} → {_to(to)}: "
    arguments = member(payload, "params", "arguments")
    arguments = payload.get("params") if arguments is None else arguments
    inside: list[object] = [title, _tag("b", one_line(tool, 80))]
    if arguments:
        line = _tag("summary", one_line(raw_text(arguments)[0], 100))
        inside.append(_tag("details", line, _json(arguments)))
    inside += [_tag("div", line) for line in beside]
    return _tag("td", *inside, css="what")


def _options(call: Proposal) -> list[str]:
    """The question of an agent and its options, as lines; none for any other proposal."""
    if (asked := call.permission) is None:
        return []
    names = [f"{option.quoted}: {option.explain(_name(call.sender))}" for option in asked.options]
    return [one_line(asked.question, 200), *names]


def _result(call: Request | Proposal, *, waiting: str) -> Html:
    response = call.response
    lost = call.state in ("unknown", "resolved")
    found = f" It {call.resolution}." if call.resolution is not None else ""
    if response is None:
        return _tag("td", f"{SENT_UNKNOWN}{found}" if lost else waiting, css="who")
    payload = response.payload
    value = payload.get("error") if "error" in payload else payload.get("result")
    word = _tag("b", "Failed" if call.failed else "Done", css="bad" if call.failed else "good")
    if lost:
        word = _tag("b", f"{SENT_UNKNOWN}{found}", css="bad")
    said = one_line(describe(response.kind, payload), 160)
    method = holds_content(value)
    whole = _text(for_text(read_parts(value, method), limit=MOST_TEXT)) if method else _json(value)
    return _tag("td", word, _tag("details", _tag("summary", said), whole), css="who")


def _decisions(session: _Session, cards: Mapping[str, Card]) -> Html:
    every = session.proposals()
    shown = every[-MOST_DECISIONS:]
    drawn = {call.id for call in [call for call in shown if call.state != "open"][-MOST_DIAGRAMS:]}
    rows = []
    for call in shown:
        waiting, card = "No answer yet" if call.state == "fulfilled" else "", cards.get(call.id)
        rows.append(
            _tag(
                "tr",
                _when(call.entry.t),
                _call_cell(
                    call.sender,
                    call.to,
                    call.tool or call.method,
                    call.payload,
                    beside=[*_options(call), *([card.writes] if card is not None and card.writes else [])],
                ),
                _decision(call, card),
                _result(call, waiting=waiting),
            )
        )
        if call.id in drawn and (picture := _diagram(session, call)):
            rows.append(_tag("tr", _tag("td", picture, span=4)))
    columns, hidden = ("Time", "Request", "Decision", "Result"), len(every) - len(shown)
    empty = "Nothing was proposed."
    return _section("Decisions", columns, rows, empty=empty, left_out=hidden, noun="proposal")


def _diagram(session: _Session, call: Proposal) -> Html | None:
    """The exchange of a proposal as a picture; None where it is not held any more."""
    if session.chains.find(call.entry.seq) is None:
        return None
    picture = sequence(session.chains.exchange(call.entry.seq, most=40), masks=False)
    return _tag("details", _tag("summary", picture.title), Html(picture.svg(masks=False)))


def _calls(session: _Session) -> Html:
    every = session.requests()
    shown = every[-MOST_CALLS:]
    rows = [
        _tag(
            "tr",
            _when(call.entry.t),
            _call_cell(call.sender, call.to, call.tool or call.method, call.payload),
            _result(call, waiting=_waiting(call)),
            _tag(
                "td",
                lasted(call.response.t - call.entry.t) if call.response and call.state == "answered" else "",
                css="number",
            ),
        )
        for call in shown
    ]
    columns, hidden = ("Time", "Call", "Result", "Took"), len(every) - len(shown)
    return _section("Calls", columns, rows, empty="Nothing was called.", left_out=hidden, noun="call")


def _waiting(call: Request) -> str:
    if call.late:
        return f"{call.late[:1].upper()}{call.late[1:]}; not executed"
    return "Refused by the gateway" if call.state == "refused" else "No answer yet"


def _chats(session: _Session) -> Html:
    every = list(session.ledger.chats)
    rows = [
        _tag(
            "tr",
            _when(chat.t),
            _tag("td", f"{_name(chat.sender)} → {_to(chat.to)}", css="who"),
            _tag("td", _text(chat.text), "Cancelled" if chat.state == "cancelled" else "", css="what"),
        )
        for chat in every[-MOST_CHATS:]
    ]
    columns, hidden = ("Time", "From → to", "Message"), len(every) - len(rows)
    return _section("Chat", columns, rows, empty="Nobody has chatted.", left_out=hidden, noun="chat message")


def _reasoning(session: _Session) -> Html:
    every = list(session.ledger.reasoning)
    rows = []
    for one in every[-MOST_SEQUENCES:]:
        took = f" after {lasted(one.ended - one.started)}" if one.ended else ""
        steps = session.steps.get(one.key, [])
        summary = f"{_local(one.started):%H:%M:%S} {_name(one.owner)}: {one.state}{took}, {count_of(len(steps), 'step')}"
        lines = [
            _tag(
                "tr",
                _when(step.t),
                _tag("td", one_line(step.kind.removeprefix("reasoning/"), 40), css="who"),
                _tag("td", _thought(step), css="what"),
            )
            for step in steps
        ]
        rows.append(_tag("details", _tag("summary", summary), _table(("Time", "Step", "Text"), lines)))
    hidden = len(every) - len(rows)
    return _section("Reasoning", (), rows, empty="Nobody has reasoned.", left_out=hidden, noun="sequence")


def _thought(step: Entry) -> object:
    for key in ("message", "text", "thought", "action", "reason"):
        if isinstance(value := step.payload.get(key), str) and step.kind.startswith("reasoning/"):
            return _text(value)
    return one_line(step.what, 200)


def _message(entry: Entry) -> Html:
    refused = _tag("b", f"Refused ({one_line(entry.code, 60)})" if entry.code else "Refused", css="bad")
    return _tag(
        "tr",
        _tag("td", entry.name, css="number"),
        _when(entry.t),
        _tag("td", f"{_name(entry.sender)} → {_to(entry.to)}", css="who"),
        _tag("td", one_line(entry.kind, 60), css="who"),
        _tag("td", entry.what, " ", refused if entry.verdict == "refused" else "", css="what"),
    )


def _messages(session: _Session) -> Html:
    rows: list[Html] = []
    for plumbing, entries in groupby(session.newest, itemgetter(1)):
        group = [_message(entry) for entry, _ in entries]
        if not plumbing:
            rows += group
            continue
        summary = _tag("summary", f"{count_of(len(group), 'message')} to keep the space going")
        inside = _tag("details", summary, _table(_COLUMNS, group))
        rows.append(_tag("tr", _tag("td", inside, span=len(_COLUMNS))))
    hidden = session.count - len(session.newest)
    return _section("Messages", _COLUMNS, rows, empty="No messages.", left_out=hidden, noun="message")


_COLUMNS = ("#", "Time", "From → to", "Kind", "What")


# --- the page ---------------------------------------------------------------------------------------------------------


def session_page(
    log: Log,
    *,
    cards: Iterable[Card] = (),
    me: str = "",
    roles: Mapping[str, str] | None = None,
    redaction: LogRedaction | None = None,
) -> str:
    """The page as text.

    Args:
        log: The log of the session, live or from a file.
        cards: The decided cards, for what a log does not hold: the policy, and the time of each decision.
        me: The participant that saw it; empty where nobody did.
        roles: A description of each participant, by name.
        redaction: What is left out.

    Raises:
        FilterError: A filter of the redaction is none.
    """
    if redaction is None or redaction.is_nothing:
        return _page(log, cards, me, roles or {}, "")
    kept = _Redacted(redaction.text(log.space), log.vantage, log.sign, redaction.records(log))
    cards = [
        replace(
            card,
            id=redaction.text(card.id),
            by=redaction.text(card.by),
            file=None
            if redaction.leaves_out
            else card.file,  # what it says of a file is not in the log, and no filter selects it
        )
        for card in cards
    ]
    roles = {redaction.text(name): redaction.text(role) for name, role in (roles or {}).items()}
    return _page(kept, cards, redaction.text(me), roles, redaction)


def _page(
    log: ReportedLog, cards: Iterable[Card], me: str, roles: Mapping[str, str], redacted: object
) -> str:
    session = _Session(log)  # after it the redaction knows what it did
    title = f"Session of {one_line(log.space or 'a space', 80)}"
    body = _tag(
        "main",
        _tag("h1", title),
        _facts(log, session, me, str(redacted)),
        _participants(session, roles),
        _usage(session),
        _decisions(session, {card.id: card for card in cards}),
        _calls(session),
        _chats(session),
        _reasoning(session),
        _messages(session),
    )
    made = f"Written {datetime.now().astimezone():%Y-%m-%d %H:%M %Z} by mew_lab. No script, no external resource."
    return "\n".join(_lines(title, body, _tag("p", made, css="faint")))


def _lines(title: str, *body: Html) -> Iterator[str]:
    yield "<!DOCTYPE html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">"""
    yield '<meta name="viewport" content="width=device-width,initial-scale=1">'
    yield '<meta name="referrer" content="no-referrer">'
    yield f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
    yield _tag("body", *body)
    yield "</html>"


def report_log(
    log: Log,
    path: str | Path,
    *,
    filter: str = "",
    redact: Sequence[str] = (),
    redact_where: str = "",
    secrets: str = "mask",
    overwrite: bool = False,
    again: str = "log.report({path!r}, overwrite=True)",
    **about: Any,
) -> str:
    """Writes the page of a log to a file; returns a sentence.

    Args:
        filter: The messages that it holds, as `log.filter` takes it; empty for all.
        redact: Values that are replaced wherever they stand.
        redact_where: A filter of messages of which only kind, sender, addressees, method and tool stay.
        secrets: `mask`, or `keep`: what becomes of likely secrets.
        again: What replaces an existing file.
        about: As `session_page` has it.

    Raises:
        ConfigError: The file exists, or cannot be written; or a value is none.
        FilterError: A filter is none.
    """
    redaction = LogRedaction(filter=filter, values=redact, contents=redact_where, secrets=secrets)
    page = session_page(log, redaction=redaction, **about)
    target = write_report(page, path, overwrite=overwrite, again=again)
    size = f"{len(page.encode('utf-8', 'replace')) / 1000:.0f} kB"
    messages = count_of(len(log) - redaction.left_out, "message")
    said = f" {told}." if (told := str(redaction)) else ""
    return f"Wrote the report of {messages} to {target} ({size}).{said}"


def write_report(page: str, path: str | Path, *, overwrite: bool, again: str) -> Path:
    """Writes the page to a file that its owner alone can read; an existing file stays unless `overwrite` is set.

    Raises:
        ConfigError: The file is there already, or cannot be written.
    """
    target = Path(path).expanduser()
    if target.exists() and not overwrite:
        raise ConfigError(
            f"Cannot write the report: {target} exists. Take another name, or "
            f"{again.format(path=str(target))} replaces it",
            path=str(target),
        )
    try:
        if target.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        with written_beside(target) as file:
            file.write(page.encode("utf-8", "replace"))
    except (OSError, ValueError) as fault:
        why = getattr(fault, "strerror", None) or fault
        raise ConfigError(
            f"Cannot write the report to {target}: {why}. Name a file in a folder that can be written to",
            path=str(target),
        ) from None
    return target
