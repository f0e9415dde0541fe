"""Finds a rule that the last decisions suggest, quietly: one at a time, learned beside the loop. Nothing acts by it.

Spec: §2.1, §9.4.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from mew_lab.errors import MewError
from mew_lab.lab.decisions.owned_rules import OwnedRules
from mew_lab.lab.decisions.past_decisions import PastDecisions
from mew_lab.protocol.visible import one_line
from mew_lab.rules.decided_calls import AboutKey, DecidedCall
from mew_lab.rules.learner import Candidate, learn

__all__ = ["RuleSuggestions"]

MOST_LEARNED = 300  # decisions, the newest
MAX_TEXT = 400


class RuleSuggestions:
    """The suggestion of one lab. To be used on the loop's thread.

    Args:
        run: Starts a coroutine on the loop.
        in_threads: Whether the loop has a thread of its own, so that learning may have another one.
    """

    def __init__(
        self,
        past: PastDecisions,
        rules: OwnedRules,
        *,
        run: Callable[[Coroutine[Any, Any, None]], object],
        in_threads: bool,
    ) -> None:
        self._past = past
        self._rules = rules
        self._run = run
        self._in_threads = in_threads
        self._dismissed: set[tuple[str, str]] = set()  # the words of rules, each with the SHA-256 of its tool
        self._found: Candidate | None = None
        self._is_learning = False
        # The tool of a decision that came while one was learned from, as where a table of cards is approved at once.
        self._waiting: AboutKey | None = None

    @property
    def current(self) -> Candidate | None:
        """The rule that is suggested; None where there is none, or it was tried meanwhile."""
        found = self._found
        return None if found is None or self._rules.has_like(found.rule) else found

    def tell(self) -> dict[str, str] | None:
        """The suggestion as a page gets it: its SHA-256 is sent back."""
        if (found := self.current) is None:
            return None
        return {
            "sha256": found.rule.sha256,
            "text": f"{len(found.approved)} like this approved. Try a rule?",
            "rule": one_line(f"{found.rule.text} ({found.evidence})", MAX_TEXT),
        }

    def note(self, decided: DecidedCall) -> None:
        """Takes a new decision, and learns from it and from those of the same tool."""
        if not decided.teaches or self._rules.elsewhere:
            return
        self._waiting = decided.about
        if not self._is_learning:
            self._begin(self._waiting)

    def _begin(self, key: AboutKey) -> None:
        self._waiting = None
        alike = [one for one in self._past.calls if one.about == key]
        self._is_learning = True
        self._run(self._learn(alike[-MOST_LEARNED:]))

    async def _learn(self, calls: list[DecidedCall]) -> None:
        try:
            found = await asyncio.to_thread(learn, calls) if self._in_threads else learn(calls)
        finally:
            self._is_learning = False
        before, about = self.current, calls[-1].about
        new = [
            one
            for one in found
            if one.rule.words not in self._dismissed and not self._rules.has_like(one.rule)
        ]
        if new:
            self._found = new[0]
        elif before is not None and about == before.rule.about:
            self._found = None  # what was suggested is so no more
        if self.current != before:
            self._rules.changed.tell()
        if self._waiting is not None:
            self._begin(self._waiting)

    def take(self, sha256: str) -> str:
        """Tries the suggested rule, by a click; returns one sentence.

        Raises:
            MewError: Another rule is suggested now, or it cannot be tried.
        """
        found = self._of(sha256)
        kept = self._rules.begin("tried", found.rule, how="click", approved=self._past.calls)
        return f"{kept.name.capitalize()} judges in silence from now on and approves nothing; lab.rules tells of it."

    def dismiss(self, sha256: str) -> str:
        """Suggests it no more in this run."""
        found = self._of(sha256).rule
        self._dismissed.add(found.words)
        self._found = None
        self._rules.changed.tell()
        return "It is not suggested again; lab.rules lists it all the same."

    def _of(self, sha256: str) -> Candidate:
        found = self.current
        if found is None or found.rule.sha256 != sha256:
            raise MewError("Another rule is suggested by now, so nothing was done.")
        return found
