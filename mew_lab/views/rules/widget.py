"""Shows the rules of a person: what her decisions suggest, what judges in silence, what approves calls, what fell.

A row is a rule, with its evidence as rows of the feed on request. Its buttons try it, stop it, or show the words that a
person reads before she adopts it. A sentence that is written by hand, or edited, is read by the kernel while it is
typed: the page gets what it states and what it covers, or the place where it states nothing.

What the page gets is in `model`: it tells of no call that waits.

Spec: §2.1, §9.4, ruling R29.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mew_lab.errors import MewError
from mew_lab.lab.lab_rules import STATES, RuleWords
from mew_lab.lab.session import Session
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line, visible
from mew_lab.rules.rule import MAX_TEXT
from mew_lab.views.rules.model import CheckedSentence, RuleEvidence, RuleRow, RuleRows, Step
from mew_lab.views.ui.acts import Act, ActingView, ActResult
from mew_lab.views.ui.pictures import MOST_ROWS, picture
from mew_lab.views.ui.sent_rows import SentRows

__all__ = ["RulesView", "view_of"]

MOST_EVIDENCE = 60  # decisions that are listed; a filter of the feed takes fewer than 100 numbers
MOST_TEXT = 600
STATE_WORDS = {
    "active": "active",
    "paused": "paused",
    "suspended": "suspended",
    "expired": "expired",
    "shadow": "judging in silence",
    "candidate": "suggested",
}


def view_of(session: Session) -> RulesView:
    """Makes the view of this space."""
    return RulesView(session, RuleRows(session))


class RulesView(ActingView):
    """The rules of the person of one lab. Show it as often as you like."""

    part = "rules"
    title = "rules"
    interval = 0.1

    def __init__(self, session: Session, rules: RuleRows, **settings: Any) -> None:
        self._session = session
        self._rules = rules
        self._sent: SentRows[str, RuleRow] = SentRows()
        self._question = 0
        super().__init__(submit=session.loop.submit, **settings)
        self.on_close(rules.changed.add(self.wake))
        self.on_close(rules.close)
        session.loop.call(rules.refresh)

    # Messages to the views.

    def _snapshot(self, start: int) -> dict[str, Any]:
        self._rules.look()
        return {"rows": [_pack(row) for row in self._rules.rows[:MOST_ROWS]], "most": MAX_TEXT}

    def _news(self) -> list[dict[str, Any]]:
        rows = {row.rule.sha256: row for row in self._rules.rows[:MOST_ROWS]}
        changed, gone, is_cut = self._sent.take(rows)
        if is_cut:
            self.wake()
        if not changed and not gone:
            return []
        return [{"t": "rows", "rows": [_pack(row) for row, _ in changed], "gone": gone}]

    def _heading(self) -> dict[str, Any]:
        rows = self._rules.rows
        counts = [[state, sum(row.state == state for row in rows), STATE_WORDS[state]] for state in STATES]
        return {
            "space": visible(self._session.space),
            "counts": counts,
            "total": len(rows),
            "notes": [visible(note) for note in self._rules.notes],
            "ready": self._rules.is_ready,
        }

    # Requests of the views.

    def _acts(self) -> Mapping[str, Act]:
        return {
            "try": self._try,
            "stop": self._stop,
            "evidence": self._show_evidence,
            "read": self._read,
            "in_sight": self._take_sight,
            "confirm": self._confirm,
            "check": self._check,
        }

    async def _try(self, rule: str) -> str:
        return await self._rules.try_(rule)

    async def _stop(self, rule: str) -> str:
        return self._rules.stop(rule)

    async def _show_evidence(self, rule: str) -> ActResult:
        found = await self._rules.find_evidence(rule)
        shown = found[:MOST_EVIDENCE]
        value = {
            "rows": [_pack_evidence(one) for one in shown],
            "more": len(found) - len(shown),
            "sign": self._session.log.sign,
        }
        return ActResult(count_of(len(found), "decision"), value)

    async def _read(self, view: str, rule: str) -> ActResult:
        words, digest = await self._rules.read(view, rule)
        return ActResult(f"Rule {words.number}", _pack_words(words, digest, self._session.log.sign))

    async def _take_sight(self, view: str, rule: str, digest: str) -> str:
        self._rules.take_sight(view, rule, digest)
        return ""

    async def _confirm(self, step: Step, view: str, rule: str, digest: str) -> str:
        return await self._rules.confirm(step, view, rule, digest)

    async def _check(self, text: str, base: str = "") -> ActResult:
        number = self._question = self._question + 1
        try:
            checked = await self._rules.check(text[: MAX_TEXT + 1], base)
        except MewError as fault:
            # A half-written sentence is no failure that a person has to dismiss.
            return ActResult("", {"fault": visible(one_line(str(fault), 400))})
        return ActResult("", _pack_checked(checked) if number == self._question else None)

    # Saved pictures.

    def badge(self) -> str:
        """How many rules approve calls, else how many are suggested, as text; empty for none."""
        for state, word in (("active", "active"), ("candidate", "suggested")):
            if count := sum(row.state == state for row in self._rules.rows):
                return f"{count} {word}"
        return ""

    def _static_text(self) -> str:
        rows = self._rules.rows
        active = sum(row.state == "active" for row in rows)
        return f"Rules in {self._session.space}: {len(rows)}, {active} of them active"

    def _static_html(self) -> str:
        rows = self._rules.rows
        # A picture shows the last rows: what acts is the most important.
        cells = [
            (str(row.number), _state(row), visible(row.rule.text[:MOST_TEXT]), row.about)
            for row in reversed(rows)
        ]
        columns = ("rule", "state", "sentence", "evidence")
        empty = "No rule is suggested yet. Decide some calls that are alike, or write one by hand."
        title = f"Rules in {self._session.space}: {len(rows)} in all"
        return picture(title, columns, cells, empty=empty, notes=self._rules.notes)


def _state(row: RuleRow) -> str:
    return STATE_WORDS[row.state] + (f": {row.why}" if row.why else "")


def _pack(row: RuleRow) -> dict[str, Any]:
    """A row as the views get it: `key`, which a view sends back, and visible text."""
    return {
        "key": row.rule.sha256,
        "number": row.number,
        "state": row.state,
        "word": STATE_WORDS[row.state],
        "rank": STATES.index(row.state),
        "text": visible(row.rule.text),
        "why": visible(one_line(row.why, 200)),
        "about": visible(one_line(row.about, 400)),
    }


def _pack_evidence(one: RuleEvidence) -> dict[str, Any]:
    return {
        "seq": one.seq,
        "t": one.t,
        "what": visible(one.what),
        "against": one.is_against,
        "values": visible(one.values),
    }


def _pack_words(words: RuleWords, digest: str, sign: str) -> dict[str, Any]:
    return {
        "number": words.number,
        "text": visible(words.rule.text),
        "evidence": visible(words.evidence),
        "limits": words.limits,
        "permission": visible(words.permission),
        "tested": words.tested,
        "past": [
            {
                "seq": one.seq,
                "t": one.t,
                "what": one.what,
                "against": one.is_wrong,
                "values": visible(one.values),
            }
            for one in words.past
        ],
        "more": words.more,
        "digest": digest,
        "sign": sign,
    }


def _pack_checked(checked: CheckedSentence) -> dict[str, Any]:
    is_bound = bool(checked.rule.tool_hash)
    return {
        "rule": checked.rule.sha256,
        "text": visible(checked.rule.text),
        "state": STATE_WORDS[checked.state] if checked.state else "",
        "tested": checked.tested,
        "beyond": count_of(checked.beyond, "decision") if checked.beyond else "",
        "remark": visible(checked.remark),
        "bound": is_bound,
        "tries": is_bound and checked.state in (None, "candidate", "suspended", "expired"),
        "adopts": is_bound and checked.state != "active",
    }
