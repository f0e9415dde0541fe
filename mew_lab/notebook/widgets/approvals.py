"""How does a human decide about proposals, so that what is shown is what is done?

The view shows cards; the browser sends back an id, the digest of what was shown, a decision and a nonce,
never a payload: the request is built by the workbench from the proposal that the kernel holds. A message is
refused, with a notice on the view, when its nonce is not this widget's (it comes from a saved notebook or
another kernel), when its digest is not that of the card, when it says more than it may, when a long argument
was never opened, or when the card is decided already. Nothing that decides is synced state, so nothing of it
is saved.

It does not know how a decision is carried out, nor who else decides.

Spec: §3.2.1, §3.3.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
import time
from collections import deque
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from mew_lab.notebook.widgets.live import INSTALL, LiveWidget, counted, front_end
from mew_lab.notebook.widgets.pictures import clock_time, picture
from mew_lab.protocol.visible import middle, one_line, visible
from mew_lab.workbench.cards import REASONS, Card, Decisions

if TYPE_CHECKING:
    from mew_lab.workbench.lab import Lab

__all__ = ["ApprovalsView", "view_of"]

_ESM, _CSS = front_end("approvals")

KEPT = 200
FOLD_LINES, FOLD_CHARACTERS, WHOLE_CHARACTERS = 6, 480, 2_000_000
_MEMBERS = frozenset({"t", "id", "digest", "decision", "reason", "target", "nonce"})


def view_of(lab: Lab) -> ApprovalsView:
    """The one of this lab."""
    return ApprovalsView(lab.decisions)


class ApprovalsView(LiveWidget):
    """The cards of one seat. Show it as often as you like: all views show the same state."""

    _esm = _ESM
    _css = _CSS
    title = "approvals"

    def __init__(self, decisions: Decisions, **traits: Any) -> None:
        self._decisions = decisions
        self._nonce = secrets.token_hex(16)
        # Guards the tables below: cards change on the workbench's thread, messages come on the kernel's.
        self._book = threading.Lock()
        self._cards: dict[str, Card] = {}
        self._fresh: dict[str, None] = {}
        self._opened: dict[str, set[int]] = {}
        self._sent: set[str] = set()
        self._values: deque[tuple[str, int]] = deque(maxlen=1000)
        self._waiting = 0
        self._head: dict[str, Any] = {}
        super().__init__(**traits)
        self._leave = decisions.subscribe(self._on_change)
        # What changed since the subscription is newer than this list.
        for card in [*decisions.decided(), *decisions.pending()]:
            with self._book:
                self._cards.setdefault(card.id, card)

    def waiting(self) -> AbstractContextManager[None]:
        """For as long as a cell waits for a decision: live views say once a second that they are heard."""
        return counted(self._count)

    def unheard_for(self) -> float | None:
        """Seconds since a view was last heard; None when no view was ever heard."""
        return None if self.last_ping is None else time.monotonic() - self.last_ping

    def _count(self, change: int) -> None:
        with self._book:
            self._waiting += change
        self.wake()

    def _on_change(self, card: Card) -> None:
        with self._book:
            self._cards[card.id] = card
            self._fresh[card.id] = None
            if not card.is_open:
                self._sent.discard(card.id)
                self._opened.pop(card.id, None)
                closed = [one.id for one in self._cards.values() if not one.is_open]
                for old in closed[: max(0, len(closed) - KEPT)]:
                    del self._cards[old]
                    self._fresh.pop(old, None)
        self.wake()

    # What the writer sends.

    def _snapshot(self, start: int) -> dict[str, Any]:
        self._head = self._heading()
        cards = [_shown(card) for card in self._in_order()]
        return {"nonce": self._nonce, "now": self.clock().timestamp(), "cards": cards} | self._head

    def _news(self) -> list[dict[str, Any]]:
        with self._book:
            fresh = [self._cards[one] for one in self._fresh if one in self._cards]
            self._fresh.clear()
        items: list[dict[str, Any]] = [{"t": "card", "card": _shown(card)} for card in fresh]
        while self._values:
            items.append(self._value(*self._values.popleft()))
        head = self._heading()
        if head != self._head:
            self._head = head
            items.append({"t": "head"} | head)
        return items

    def _heading(self) -> dict[str, Any]:
        return {
            "banner": visible(self._decisions.banner()),
            "targets": [[name, middle(name, 40)] for name in self._decisions.targets()],
            "reasons": [list(pair) for pair in REASONS.items()],
            "waiting": self._waiting > 0,
        }

    def _value(self, proposal: str, index: int) -> dict[str, Any]:
        card = self._cards.get(proposal)
        if card is None or not 0 <= index < len(card.arguments):
            return {"t": "notice", "text": "That argument is not held here any more."}
        text = "\n".join(_lines(card.arguments[index][1]))
        if len(text) > WHOLE_CHARACTERS:
            return self._said(
                proposal, "This argument is too long to be shown whole, so it cannot be approved here."
            )
        with self._book:
            self._opened.setdefault(proposal, set()).add(index)
        return {"t": "value", "proposal": proposal, "index": index, "text": text}

    # What the views send.

    def _handle(self, message: dict[str, Any]) -> None:
        kind = message.get("t")
        if kind == "value":
            proposal, index = message.get("id"), message.get("index")
            if isinstance(proposal, str) and isinstance(index, int):
                self._values.append((proposal, index))
                self.wake()
        elif kind == "decide":
            self._decide(message)

    def _decide(self, message: dict[str, Any]) -> None:
        proposal = message.get("id")
        proposal = proposal if isinstance(proposal, str) else ""
        with self._book:
            card = self._cards.get(proposal)
            refusal = self._refusal(message, card)
            if not refusal:
                self._sent.add(proposal)
        if refusal or card is None:
            self.post(self._said(proposal, refusal))
            return
        target = message.get("target", "")
        try:
            # The digest is the card's own: it was compared, and it is what the workbench compares once more.
            future = self._decisions.decide(
                card.id,
                digest=card.digest,
                decision=message["decision"],
                reason=message.get("reason", ""),
                target=(target,) if target else (),
            )
        except Exception as error:
            self._failed(card.id, error)
            return
        future.add_done_callback(lambda done: self._settled(card.id, done))

    def _refusal(self, message: dict[str, Any], card: Card | None) -> str:
        """Why this message decides nothing, as a sentence; empty when it may."""
        decision, reason, target = (
            message.get("decision"),
            message.get("reason", ""),
            message.get("target", ""),
        )
        if not _same(message.get("nonce"), self._nonce):
            return (
                "This view does not belong to the running kernel, so nothing was decided. Run its cell again."
            )
        if card is None:
            return "That proposal is not known here, so nothing was decided."
        if not _same(message.get("digest"), card.digest):
            return "What was shown is not what is proposed, so nothing was decided. Run its cell again."
        if not card.is_open:
            return f"Already {_past(card)}; the second decision changed nothing."
        if card.id in self._sent:
            return "A decision about this proposal is under way; the second one changed nothing."
        strings = isinstance(reason, str) and isinstance(target, str) and len(reason) <= 500
        if set(message) - _MEMBERS or decision not in ("approve", "reject") or not strings:
            return "The view sent something other than a decision, so nothing was decided."
        if decision == "reject":
            return "A rejection names no target; nothing was decided." if target else ""
        if unopened := _folded(card) - self._opened.get(card.id, set()):
            names = ", ".join(one_line(card.arguments[n][0], 40) for n in sorted(unopened)[:3])
            return f"Not approved: {names} was not opened. Open what is folded first."
        if card.to and target:
            return "Not approved: the proposal names its target itself."
        if not card.to and target not in self._decisions.targets():
            return "Not approved: choose one of the participants to run it."
        return ""

    def _settled(self, proposal: str, future: Future[str]) -> None:
        try:
            error = future.exception()
        except CancelledError:
            error = RuntimeError("the decision was cancelled before it was sent")
        if error is not None:
            self._failed(proposal, error)

    def _failed(self, proposal: str, error: BaseException) -> None:
        with self._book:
            self._sent.discard(proposal)
            # The card goes out again, so that a view which waits for an answer offers its buttons once more.
            if proposal in self._cards:
                self._fresh[proposal] = None
        self.post(self._said(proposal, one_line(str(error) or type(error).__name__, 400)))

    def _said(self, proposal: str, text: str) -> dict[str, Any]:
        return {"t": "notice", "proposal": proposal, "text": text}

    # Pictures.

    def _in_order(self) -> list[Card]:
        with self._book:
            return sorted(self._cards.values(), key=lambda card: card.seq)

    def _static_text(self) -> str:
        cards = self._in_order()
        waiting = [card for card in cards if card.is_open]
        first = f", first: {waiting[0].request}" if waiting else ""
        return f"Approvals: {len(waiting)} open, {len(cards) - len(waiting)} decided{first}"

    def _static_html(self) -> str:
        cards = self._in_order()
        rows = [
            (
                "waits" if card.is_open else card.state,
                card.request,
                "\n".join(f"{one_line(name, 60)}  {one_line(value, 300)}" for name, value in card.arguments)
                or "none",
                "\n".join(card.warnings),
                _short(card.digest),
                clock_time(card.since),
                "" if card.is_open else _past(card),
            )
            for card in cards
        ]
        moment = clock_time(self.clock())
        title = f"Approvals as of {moment}, {sum(card.is_open for card in cards)} open, {len(cards)} in all"
        notes = [
            ""
            if cards
            else "Nothing was proposed yet. bot.call(…) of a participant that may only propose fills this.",
            f"A picture: nothing can be decided here. The live view {INSTALL}. Until then: %mew approve ID.",
        ]
        columns = ("state", "request", "arguments", "warnings", "digest", "since", "decision")
        return picture(title, columns, rows, notes=filter(None, notes), code=("arguments", "digest"))


def _same(given: Any, expected: str) -> bool:
    return isinstance(given, str) and hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _past(card: Card) -> str:
    """What became of a card, by whom and when."""
    by = f" by {one_line(card.by, 64)}" if card.by else ""
    at = f" at {clock_time(card.decided_at)}" if card.decided_at is not None else ""
    outcome = f": {one_line(card.outcome, 200)}" if card.outcome else ""
    return f"{card.decision}{' (edited)' if card.edited else ''}{by}{at}{outcome}"


def _short(digest: str) -> str:
    return f"{digest[:4]} {digest[4:8]}"


def _lines(text: str) -> list[str]:
    """A JSON value as lines that hide nothing: structure indented, a string broken after each `\\n` that it
    holds."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return [visible(text)]
    if isinstance(value, str):
        # Quoted as JSON, where a line end is `\n` and a backslash is doubled, so nothing is ambiguous.
        quoted = json.dumps(value, ensure_ascii=False)
        return [visible(line) for line in _broken(quoted)]
    if isinstance(value, dict | list) and len(text) > 100:
        # One line an item: denser than full indentation, and a long item still stands there whole.
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
    """Breaks a quoted string after each escaped line end, and not after an escaped backslash before an n."""
    lines, start, at = [], 0, 0
    while (at := quoted.find("\\", at)) >= 0:
        end = quoted[at + 1 : at + 2] == "n"
        at += 2
        if end and at < len(quoted) - 1:
            lines.append(quoted[start:at])
            start = at
    return [*lines, quoted[start:]]


def _is_folded(lines: list[str]) -> bool:
    return len(lines) > FOLD_LINES or sum(map(len, lines)) > FOLD_CHARACTERS


def _folded(card: Card) -> set[int]:
    """Which arguments are shown only in part until somebody opens them."""
    return {n for n, (_, value) in enumerate(card.arguments) if _is_folded(_lines(value))}


def _argument(name: str, value: str) -> dict[str, Any]:
    lines = _lines(value)
    if not _is_folded(lines):
        return {"name": visible(name), "text": "\n".join(lines)}
    structure = value[:1] in "[{"
    head = [one_line(value, 160)] if structure else [one_line(line, 160) for line in lines[:2]]
    size = (
        f"{len(lines) - 2} {'items' if value[:1] == '[' else 'fields'}"
        if structure
        else f"{len(lines)} lines"
    )
    if len(lines) <= FOLD_LINES:
        size = f"{sum(map(len, lines))} characters"
    return {"name": visible(name), "text": "\n".join(head), "folded": size}


def _shown(card: Card) -> dict[str, Any]:
    """A card as the views get it: `id` and `digest` to be sent back, everything else visible text."""
    return {
        "id": card.id,
        "seq": card.seq,
        "digest": card.digest,
        "short": _short(card.digest),
        "name": middle(card.id, 28),
        "proposer": visible(card.proposer),
        "to": [visible(one) for one in card.to],
        "method": visible(card.method),
        "tool": visible(card.tool),
        "arguments": [_argument(name, value) for name, value in card.arguments] if card.is_open else [],
        "warnings": [visible(one) for one in card.warnings],
        "why": visible(card.why),
        "since": card.since,
        "state": card.state,
        "past": "" if card.is_open else _past(card),
    }
