"""Rules about a session between an MCP client and its server, as a tap sees it.

A tap has no space: no presence, no permissions, no proposals. What can be wrong is the session itself: lines that are no
messages, an order that MCP does not allow, ids, answers, and lists that change without a notice.

Over stdio one log is one session, so its order and its ids can be judged. Over HTTP several sessions may share a log and
answers may be sent twice, so there only single messages are judged. Where the tap lost bytes or a message was too long
to be kept, nothing is said about what that may have been.

Spec: MCP 2025-11-25, base protocol, lifecycle, transports, list changed notifications.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from mew_lab.ledger.calls import error_text, method_of, tool_of
from mew_lab.ledger.ledger import LedgerChange
from mew_lab.log.diagnose.findings import OF_TAPS, Rule, RuleContext, RuleFamily, word
from mew_lab.log.record_ledger import Mark, PlacedEntry
from mew_lab.log.tap import LINE_KIND, LOST, key_of
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.intake import answer_fault, malformed, unknown_outcome
from mew_lab.protocol.visible import one_line
from mew_lab.space.events import Record

__all__ = ["TapRules"]

SLOW_START: Final = 10.0  # seconds; the shortest time after which a client in the field gives up
NOTICE: Final = 5.0  # seconds within which the notice of a changed list may follow
MAX_IDS: Final = 100_000  # of one side that are remembered
MAX_WAITING: Final = 20_000
MAX_ENTRIES: Final = 20_000  # of one list that is compared
MAX_TEXT: Final = 80  # characters of a line or an error in a sentence

NO_MESSAGE = Rule(
    "line-without-message",
    "error",
    "{sender} wrote a line to its {stream} that is no JSON-RPC message: {text}; {help}",
    holds=OF_TAPS,
)
MALFORMED = Rule(
    "malformed-message", "error", "{sender}'s message is no correct JSON-RPC: {why}", holds=OF_TAPS
)
EARLY = Rule("request-before-initialized", "error", "{sender} asked for {call} before {event}", holds=OF_TAPS)
ID_TWICE = Rule(
    "request-id-twice",
    "error",
    "{sender}'s {call} has an id that its {first} had before in this session",
    holds=OF_TAPS,
)
NO_ID = Rule(
    "request-without-id",
    "error",
    "{sender} asked for {call} with the id null, so no answer can name it",
    holds=OF_TAPS,
)
NO_REQUEST = Rule(
    "answer-without-request",
    "error",
    "{sender} answered {id}, and {other} has sent no request with this id",
    holds=OF_TAPS,
    needs_whole=True,
)
ANSWERED_TWICE = Rule(
    "answer-repeated", "error", "{sender} answered {call} of {other} more than once", holds=OF_TAPS
)
NOT_READ = Rule(
    "message-not-read", "warn", "{sender} could not read a message of {other}: {error}", holds=OF_TAPS
)
ERROR = Rule("error-answer", "note", "{sender} answered {call} with an error: {error}", holds=OF_TAPS)
NO_ANSWER = Rule(
    "request-without-answer",
    "warn",
    "{sender}'s {call} was not answered by the end of the log, {seconds:.1f} s later",
    holds=OF_TAPS,
)
# A server over HTTP may have answered with a status alone, such as 401.
NO_ANSWER_SHOWN = NO_ANSWER._replace(
    severity="note", sentence=f"{NO_ANSWER.sentence}; a tap does not see the status of an answer over HTTP"
)
SLOW = Rule(
    "slow-start",
    "warn",
    "{sender} answered {call} {seconds:.1f} s after it was asked; some clients give up after {limit:.0f} s",
    holds=OF_TAPS,
)
CHANGED = Rule(
    "list-changed-without-notice",
    "warn",
    "{sender}'s {list} differs from the one before ({difference}), and no {notice} told {other}",
    holds=OF_TAPS,
)


_MODERN: Final = "io.modelcontextprotocol/protocolVersion"
"""The member of `_meta` of requests of the revisions without `initialize`."""
_STARTS: Final = ("initialize", "server/discover")
_ANY_TIME: Final = ("ping", *_STARTS)  # requests that may come before the session is initialized
_UNENDING: Final = ("subscriptions/listen",)  # requests that are answered when the session ends, if at all
# list -> the member of its result, the name of an entry, the notice of a change
_LISTS: Final[Mapping[str, tuple[str, str, str]]] = {
    "tools/list": ("tools", "name", "notifications/tools/list_changed"),
    "prompts/list": ("prompts", "name", "notifications/prompts/list_changed"),
    "resources/list": ("resources", "uri", "notifications/resources/list_changed"),
    "resources/templates/list": (
        "resourceTemplates",
        "uriTemplate",
        "notifications/resources/list_changed",
    ),
}
_OTHER: Final = {"client": "server", "server": "client"}
_EVENTS: Final = {
    "new": "client had sent initialize",
    "asked": "server had answered initialize",
    "answered": "client had sent notifications/initialized",
}


class _Asked(NamedTuple):
    """A request that waits for its answer; `early` before the session was initialized."""

    mark: Mark
    call: str
    method: str
    t: float
    cursor: object
    notices: int
    early: bool
    over_stdio: bool


class _WholeList(NamedTuple):
    """A list that was read to its last page; `notices` had come when its first page was asked for."""

    entries: Mapping[str, bytes]
    notices: int


class _Pages:
    """The pages of one list so far."""

    def __init__(self, notices: int) -> None:
        self.notices = notices
        self.entries: dict[str, bytes] = {}
        self.next: object = None


class _Suspicion(NamedTuple):
    """A list that has changed, until the notice of it comes or is too late."""

    mark: Mark
    t: float
    words: dict[str, str]


class TapRules(RuleFamily):
    """The rules about a session that a tap recorded."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self.kinds = {
            "mcp/request": self._on_request,
            "mcp/response": self._on_response,
            LINE_KIND: self._on_line,
            "": self._on_line,
        }
        self.events = {"oversize": self._on_gap, LOST: self._on_gap}
        self._waiting: BoundedDict[str, _Asked] = BoundedDict(MAX_WAITING)
        self._gaps: set[str] = set()  # sides of which a message is not known
        # Of the session: a key of `_EVENTS`, or `ready`; None before its first request, "" where it is not known.
        self._phase: str | None = None
        self._begin()

    def _begin(self) -> None:
        """Begins a session: its ids and its lists are new."""
        # side -> JSON-RPC id of a request of it -> that request and its envelope
        self._ids: dict[str, BoundedDict[Any, tuple[str, str]]] = {
            side: BoundedDict(MAX_IDS) for side in _OTHER
        }
        # side -> JSON-RPC id of an answered request of it -> that request; empty for an id that it used twice
        self._answered: dict[str, BoundedDict[Any, str]] = {side: BoundedDict(MAX_IDS) for side in _OTHER}
        self._notices = dict.fromkeys((notice for _, _, notice in _LISTS.values()), 0)
        self._pages: dict[str, _Pages] = {}
        self._lists: dict[str, _WholeList] = {}
        self._suspicions: dict[str, _Suspicion] = {}

    def finish(self) -> None:
        self._report_changes(None)
        for asked in self._waiting.values():
            self._report_unanswered_request(asked)

    # --- steps ---

    def _on_line(self, entry: PlacedEntry, _: Sequence[LedgerChange]) -> None:
        if not _is_tapped(entry) or not _over_stdio(entry):
            return  # a server over HTTP has other bodies, too, such as those of OAuth
        text = json.dumps(entry.payload, ensure_ascii=False) if entry.kind else entry.raw
        server = entry.sender == "server"
        self.report(
            NO_MESSAGE,
            entry,
            stream="stdout" if server else "server's stdin",
            text=one_line(text, MAX_TEXT) or "no text",
            help="what is no message belongs on stderr" if server else "a server may stop reading there",
        )

    def _on_request(self, entry: PlacedEntry, _: Sequence[LedgerChange]) -> None:
        if not _is_tapped(entry):
            return
        self._report_changes(entry.t)
        if entry.malformed:
            self._report_malformed_message(entry)
            return
        method, payload = method_of(entry.payload), entry.payload
        key = key_of(payload.get("id"))
        if key is None and "id" not in payload:
            self._on_notification(entry, method)
            return
        call = _name_call(entry)
        if key is None:
            self.report(NO_ID, entry, call=call)
            return
        if _over_stdio(entry):
            self._judge_order(entry, method, call)
            self._judge_id(entry, key, call)
        if method not in _UNENDING:
            cursor = _object(payload.get("params")).get("cursor")
            notices = self._notices[_LISTS[method][2]] if method in _LISTS else 0
            self._waiting[entry.id] = _Asked(
                entry.mark, call, method, entry.t, cursor, notices, self._phase in _EVENTS, _over_stdio(entry)
            )

    def _on_notification(self, entry: PlacedEntry, method: str) -> None:
        if method == "notifications/initialized" and entry.sender == "client":
            self._phase = self._phase and "ready"
        elif method == "notifications/cancelled":
            for id in entry.correlation_id:
                asked = self._waiting.get(id)
                if asked is not None and asked.mark.sender == entry.sender:
                    del self._waiting[id]
        elif method in self._notices and entry.sender == "server":
            self._notices[method] += 1
            for list, suspicion in [*self._suspicions.items()]:
                if suspicion.words["notice"] == method:
                    del self._suspicions[list]

    def _on_response(self, entry: PlacedEntry, _: Sequence[LedgerChange]) -> None:
        if not _is_tapped(entry):
            return
        self._report_changes(entry.t)
        key = key_of(entry.payload.get("id"))
        if not entry.correlation_id:
            self._judge_unasked_answer(entry, key)
            return
        asked = next((found for id in entry.correlation_id if (found := self._waiting.pop(id, None))), None)
        if asked is None:
            return  # one that was cancelled, or forgotten
        if asked.over_stdio:
            self._answered[asked.mark.sender].setdefault(key, asked.call)
        result = entry.payload.get("result")
        error = _error_of(entry)
        if error and not answer_fault(entry.payload) and not unknown_outcome(entry.payload):  # else told so
            self.report(ERROR, entry, asked.mark.id, call=asked.call, error=error)
        if not asked.over_stdio:
            return
        self._follow_start(entry, asked, failed=bool(error))
        # A server may complete its lists while it is initialized; without `initialize`, notices are subscribed to.
        if asked.method in _LISTS and not error and not asked.early:
            self._take_page(entry, asked, _object(result))

    def _on_gap(self, record: Record, _: int) -> None:
        sides = {record.participant} & _OTHER.keys() or set(_OTHER)
        self._gaps |= sides
        if record.event == LOST:
            self._phase = ""
        for id, asked in [*self._waiting.items()]:
            if _OTHER[asked.mark.sender] in sides:  # what is not known may be its answer
                del self._waiting[id]
        self._pages.clear()
        self._lists.clear()
        self._suspicions.clear()

    # --- judgements ---

    def _judge_order(self, entry: PlacedEntry, method: str, call: str) -> None:
        """Judges whether a request may come at this time of a session, and follows `initialize`."""
        if self._phase is None:
            self._phase = "new" if self.context.whole() and not self._gaps else ""
        if method == "initialize" and entry.sender == "client":
            if self._phase not in ("new", "asked"):
                self._report_changes(None)
                self._begin()
            self._phase = "asked"
            return
        event = _EVENTS.get(self._phase or "")
        if not event or method in _ANY_TIME or _is_modern(entry):
            return
        if entry.sender == "server":
            event = _EVENTS["answered"]
        self.report(EARLY, entry, call=call, event=event)

    def _judge_id(self, entry: PlacedEntry, key: Any, call: str) -> None:
        """Judges the JSON-RPC id of a request. Which of two requests with one id is answered cannot be known."""
        first, envelope = self._ids[entry.sender].setdefault(key, (call, entry.id))
        if envelope != entry.id:
            self.report(ID_TWICE, entry, envelope, call=call, first=first)
            self._answered[entry.sender][key] = ""
            self._waiting.pop(envelope, None)

    def _follow_start(self, entry: PlacedEntry, asked: _Asked, *, failed: bool) -> None:
        if asked.method == "initialize" and self._phase == "asked":
            self._phase = "new" if failed else "answered"
        seconds = entry.t - asked.t
        if asked.method in _STARTS and seconds >= SLOW_START:
            self.report(SLOW, entry, asked.mark.id, call=asked.call, seconds=seconds, limit=SLOW_START)

    def _judge_unasked_answer(self, entry: PlacedEntry, key: Any) -> None:
        """Judges an answer that names no open request."""
        if not _over_stdio(entry):
            return
        other = _OTHER[entry.sender]
        if key is None and "error" in entry.payload:
            self.report(NOT_READ, entry, other=other, error=_error_of(entry))
        elif (call := self._answered[other].get(key)) is not None:
            if call:
                self.report(ANSWERED_TWICE, entry, other=other, call=call)
        elif other not in self._gaps:  # else the request may be what is not known
            self.report(NO_REQUEST, entry, other=other, id=_name_id(entry.payload.get("id")))

    def _take_page(self, entry: PlacedEntry, asked: _Asked, result: Mapping[str, Any]) -> None:
        """Takes a page of a list; compares the list with the one before when it is whole."""
        member, name, notice = _LISTS[asked.method]
        pages = self._pages.get(asked.method)
        if asked.cursor is None:
            pages = self._pages[asked.method] = _Pages(asked.notices)
        elif pages is None or pages.next != asked.cursor:
            return
        items = result.get(member)
        if not isinstance(items, list) or "ttlMs" in result:  # a list that says how long it holds
            self._pages.pop(asked.method, None)
            return
        for item in items:
            key = _object(item).get(name)
            pages.entries[key if isinstance(key, str) else ""] = _digest(item)
        pages.next = result.get("nextCursor")
        if len(pages.entries) > MAX_ENTRIES:
            self._pages.pop(asked.method)
        elif pages.next is None:
            del self._pages[asked.method]
            whole = _WholeList(pages.entries, pages.notices)
            before = self._lists.get(asked.method)
            self._lists[asked.method] = whole
            told = before is None or self._notices[notice] > before.notices
            if before is not None and not told and (difference := _compare(before.entries, whole.entries)):
                words = {"other": _OTHER[entry.sender], "list": asked.method}
                words |= {"difference": difference, "notice": notice}
                self._suspicions.setdefault(asked.method, _Suspicion(entry.mark, entry.t, words))

    # --- reports ---

    def _report_changes(self, t: float | None) -> None:
        """Reports the changed lists whose notice is overdue; with None, all."""
        if not self._suspicions:
            return
        for list, suspicion in [*self._suspicions.items()]:
            if t is None or t - suspicion.t > NOTICE:
                del self._suspicions[list]
                self.report(CHANGED, suspicion.mark, **suspicion.words)

    def _report_malformed_message(self, entry: PlacedEntry) -> None:
        why = malformed(entry) or "its members have other types than those of JSON-RPC"
        self.report(MALFORMED, entry, why=one_line(why, MAX_TEXT))

    def _report_unanswered_request(self, asked: _Asked) -> None:
        rule = NO_ANSWER if asked.over_stdio else NO_ANSWER_SHOWN
        seconds = max(0.0, self.context.now().timestamp() - asked.t)
        self.report(rule, asked.mark, call=asked.call, seconds=seconds)


def _is_tapped(entry: PlacedEntry) -> bool:
    """Whether an entry is one of a tap, by its sides: the families of rules judge the logs of spaces, too."""
    return entry.sender in _OTHER and not entry.record.verdict


def _over_stdio(entry: PlacedEntry) -> bool:
    return entry.record.via == "stdio"


def _is_modern(entry: PlacedEntry) -> bool:
    meta = _object(_object(entry.payload.get("params")).get("_meta"))
    return isinstance(meta.get(_MODERN), str)


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _name_call(entry: PlacedEntry) -> str:
    """The method of a request, the tool of a call, and its JSON-RPC id."""
    method = method_of(entry.payload)
    tool = tool_of(entry.payload) if method in ("tools/call", "prompts/get") else None
    named = f"{word(method)} {word(tool)}" if tool else word(method)
    return f"{named} ({_name_id(entry.payload.get('id'))})"


def _name_id(id: object) -> str:
    return "no id" if id is None else f"id {one_line(json.dumps(id, ensure_ascii=False), MAX_TEXT)}"


def _error_of(entry: PlacedEntry) -> str:
    """The error of an answer, with its code; empty where it is none."""
    error, result = entry.payload.get("error"), _object(entry.payload.get("result"))
    if error is None and result.get("isError") is not True:
        return ""
    code = _object(error).get("code")
    text = one_line(error_text(entry), MAX_TEXT) or "without a message"
    return f"{code} {text}" if type(code) is int else text


def _digest(item: object) -> bytes:
    return blake2b(json.dumps(item, sort_keys=True).encode(), digest_size=16).digest()


def _compare(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    """What is new, gone and changed in a list; empty where only the order differs."""
    parts = (
        ("new", after.keys() - before.keys()),
        ("gone", before.keys() - after.keys()),
        ("changed", {name for name in after.keys() & before.keys() if after[name] != before[name]}),
    )
    return ", ".join(
        f"{len(names)} {what}, such as {word(min(names))}"
        if len(names) > 1
        else f"{what}: {word(min(names))}"
        for what, names in parts
        if names
    )
