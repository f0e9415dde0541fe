"""Rules about sequences of reasoning.

Spec: §3.5, rulings R5, R6.
"""

from __future__ import annotations

from collections.abc import Sequence

from mew_lab.ledger.ledger import LedgerChange
from mew_lab.ledger.reasoning import ReasoningChange
from mew_lab.log.diagnose.findings import Rule, RuleContext, RuleFamily, word
from mew_lab.log.record_ledger import Mark, PlacedEntry
from mew_lab.protocol.bounded import BoundedDict

__all__ = ["ReasoningRules"]

MAX_OPEN = 10_000

AFTER_CANCEL = Rule(
    "thought-after-cancel",
    "warn",
    "{sender} sent a thought in {about}, {seconds:.1f} s after {by} cancelled it",
    "P-3.5.5-4",
)
AFTER_CONCLUSION = Rule(
    "thought-after-conclusion", "warn", "{sender} sent a thought in {about} after its conclusion", "P-3.5.4-1"
)
FOREIGN_CONCLUSION = Rule(
    "foreign-conclusion",
    "warn",
    "{sender} sent a conclusion in {about}, the reasoning of {owner}; only {owner} can conclude it",
)
WITHOUT_CONTEXT = Rule(
    "thought-without-context",
    "warn",
    "{sender}'s thought {id} has no context, so it belongs to no reasoning",
    "P-3.5.3-1",
)
CONCLUSION_WITHOUT_CONTEXT = Rule(
    "conclusion-without-context",
    "warn",
    "{sender}'s conclusion {id} has no context, so it ends no reasoning",
    "P-3.5.4-1",
)
CANCEL_NOTHING = Rule(
    "cancel-without-reasoning",
    "warn",
    "{sender}'s cancel {id} does not name the start of a reasoning in its context, so it stops nothing",
    "P-3.5.5-1",
)
CANCEL_UNKNOWN = CANCEL_NOTHING._replace(needs_whole=True)
LATE_CANCEL = Rule("late-cancel", "note", "{sender} cancelled {about} when it was over")
WITHOUT_START = Rule(
    "reasoning-without-start",
    "warn",
    "{sender}'s message {id} belongs to the reasoning {about}, whose start is not in this log",
    "P-3.5.3-1",
    needs_whole=True,
)
NO_MESSAGE = Rule(
    "start-without-message", "note", "{sender}'s start {id} of a reasoning has no message", "P-3.5.2-1"
)
NO_THOUGHT = Rule("thought-without-message", "note", "{sender}'s thought {id} has no message", "P-3.5.3-1")
NO_CONCLUSION = Rule(
    "conclusion-without-message", "note", "{sender}'s conclusion {id} has no message", "P-3.5.4-1"
)
UNFINISHED = Rule(
    "unfinished-reasoning", "note", "{sender}'s reasoning {id} was not concluded by the end of the log"
)

_WITHOUT_MESSAGE = {
    "reasoning/start": NO_MESSAGE,
    "reasoning/thought": NO_THOUGHT,
    "reasoning/conclusion": NO_CONCLUSION,
}
_WITHOUT_CONTEXT = {
    "reasoning/thought": WITHOUT_CONTEXT,
    "reasoning/conclusion": CONCLUSION_WITHOUT_CONTEXT,
    "reasoning/cancel": CANCEL_NOTHING,
}


class ReasoningRules(RuleFamily):
    """The rules about reasoning."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self.kinds = dict.fromkeys(
            ("reasoning/start", "reasoning/thought", "reasoning/conclusion", "reasoning/cancel"),
            self._on_message,
        )
        self.changes = {ReasoningChange: self._on_change}
        self._open: BoundedDict[int, Mark] = BoundedDict(
            MAX_OPEN, on_forget=lambda _, mark: self._report_unfinished_reasoning(mark)
        )

    def finish(self) -> None:
        for mark in self._open.values():
            self._report_unfinished_reasoning(mark)

    def _on_message(self, entry: PlacedEntry, changes: Sequence[LedgerChange]) -> None:
        kind, message = entry.kind, entry.payload.get("message")
        if entry.context and isinstance(message, str) and kind != "reasoning/cancel":
            return
        if not entry.context and kind in _WITHOUT_CONTEXT:
            self.report(_WITHOUT_CONTEXT[kind], entry)
        elif kind == "reasoning/cancel" and not changes:
            known = self.context.ids.get(entry.context) is not None
            self.report(CANCEL_NOTHING if known else CANCEL_UNKNOWN, entry, entry.context)
        if kind in _WITHOUT_MESSAGE and not isinstance(message, str):
            self.report(_WITHOUT_MESSAGE[kind], entry)

    def _on_change(self, change: ReasoningChange, entry: PlacedEntry) -> None:
        sequence, what = change.sequence, change.what
        if what == "stepped" and sequence.state == "active":
            return
        if what == "began" and sequence.seq:
            self._open[sequence.key] = entry.mark
            return
        if what in ("concluded", "cancelled", "left", "forgotten"):
            self._open.pop(sequence.key, None)
            return
        if what == "began":
            self.report(WITHOUT_START, entry, sequence.id)
        elif what == "stepped" and entry.kind == "reasoning/thought" and entry.sender == sequence.owner:
            if sequence.state == "cancelled":
                self.report(
                    AFTER_CANCEL,
                    entry,
                    sequence.id,
                    by=word(sequence.by),
                    seconds=max(0.0, entry.t - (sequence.ended or entry.t)),
                )
            elif sequence.state == "concluded":
                self.report(AFTER_CONCLUSION, entry, sequence.id)
        elif what == "claimed" and entry.kind == "reasoning/conclusion" and entry.sender != sequence.owner:
            self.report(FOREIGN_CONCLUSION, entry, sequence.id, owner=word(sequence.owner))
        elif what == "claimed" and entry.kind == "reasoning/cancel":
            if sequence.state != "active":
                self.report(LATE_CANCEL, entry, sequence.id)
            else:
                self.report(CANCEL_NOTHING, entry, sequence.id)

    def _report_unfinished_reasoning(self, mark: Mark) -> None:
        self.report(UNFINISHED, mark)
