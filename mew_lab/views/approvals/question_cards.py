"""The questions of MCP servers beside the cards: their data for a page, and the acts that answer them.

The page gets visible text, and for a form the plan of its fields, both whole. It sends back an id, the digest of what it
shows, an action, and for a form the values as JSON text. The kernel validates these.

Spec: MCP "Elicitation", "Sampling"; threats 3, 16, 17.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from concurrent.futures import Future
from typing import Any

from mew_lab.errors import MewError, ProtocolError
from mew_lab.lab.decisions.questions import Question, Questions, more_of, sent_to
from mew_lab.protocol.envelope import compact, read_strict
from mew_lab.protocol.visible import one_line, visible
from mew_lab.views.tools.schema_form import plan
from mew_lab.views.ui.acts import ANEW, Act, ActResult

__all__ = ["QuestionCards", "question_data"]


class QuestionCards:
    """The questions of one lab for its approvals view; `changed` is called when there is something new to send.

    With `only` it has those alone that the calls or proposals of these ids have led to; the set may grow, by `follow`.
    `end` ends the subscription.
    """

    def __init__(
        self,
        questions: Questions,
        changed: Callable[[], None],
        *,
        only: Set[str] = frozenset(),
    ) -> None:
        self._questions = questions
        self._only = only
        self._fresh: dict[str, Question] = {}
        self._changed = changed
        self.end: Callable[[], None] = questions.subscribe(self._take)

    def open(self) -> list[Question]:
        """The open questions, the oldest first."""
        return list(filter(self._concerns, self._questions.pending()))

    def ended(self) -> list[Question]:
        """The last ended questions, the newest first."""
        return list(filter(self._concerns, reversed(self._questions.decided())))

    def _concerns(self, question: Question) -> bool:
        return not self._only or not self._only.isdisjoint(question.about)

    def follow(self, id: str) -> None:
        """Tells the open questions to which this call or proposal has led."""
        for question in self._questions.pending():
            if id in question.about:
                self._take(question)

    def all(self) -> list[dict[str, Any]]:
        """The open questions as data."""
        return [question_data(question) for question in self.open()]

    def news(self) -> list[dict[str, Any]]:
        """What has changed since the last call, as messages to the page."""
        fresh, self._fresh = self._fresh, {}
        return [{"t": "question", "question": question_data(question)} for question in fresh.values()]

    def acts(self) -> Mapping[str, Act]:
        """The acts of a page, by name."""
        return {"see_question": self._see, "answer_question": self._answer}

    def _take(self, question: Question) -> None:
        if self._concerns(question):
            self._fresh[question.id] = question
            self._changed()

    def _see(self, view: str, id: str, digest: str) -> ActResult:
        """Records that a view shows a question; returns the seconds until it may be accepted there."""
        question = self._named(view, id, digest)
        self._questions.gate.record_shown(question, view=view, digest=question.digest)
        left = self._questions.gate.seconds_left(question, view=view, digest=question.digest)
        return ActResult("The question is shown.", round(left, 3))

    def _answer(self, view: str, id: str, digest: str, action: str, values: str | None = None) -> Future[str]:
        click = self._questions.gate.click(view)
        question, content = self._named(view, id, digest), None
        if action == "accept" and question.kind == "form":
            try:
                content = None if values is None else read_strict(values)
            except ProtocolError as fault:
                raise MewError(f"Nothing was sent, because the values are no JSON: {fault}") from None
        return self._questions.decide(
            question.id, digest=question.digest, action=action, content=content, click=click
        )

    def _named(self, view: str, id: str, digest: str) -> Question:
        """The open question that the page means and shows."""
        if not view:
            raise MewError(f"The page did not say which view was clicked, so nothing was sent. {ANEW}")
        question = next((one for one in self.open() if one.id == id), None)
        if question is None:
            raise MewError("That question is not open any more, so nothing was sent.")
        if digest != question.digest:
            raise MewError(f"What was shown is not what is asked, so nothing was sent. {ANEW}")
        return question


def question_data(question: Question) -> dict[str, Any]:
    """A question as a page gets it: `id` and `digest` to be sent back, everything else visible text."""
    asked = question.asked
    return {
        "id": question.id,
        "digest": question.digest,
        "kind": question.kind,
        "state": question.state,
        "title": visible(question.request),
        "calls": [visible(call) for call in question.calls],
        "warnings": [visible(warning) for warning in question.warnings],
        "message": "" if asked is None else _lines(asked.message),
        "url": "" if asked is None else visible(asked.url),
        "host": "" if asked is None else visible(asked.host),
        "prompt": [[role, _lines(text)] for role, text in question.prompt] if question.is_open else [],
        "form": _form_texts(asked.schema) if asked is not None else [],
        "plan": plan(asked.schema, whole=True)
        if asked is not None and question.kind == "form" and question.is_open
        else None,
        "more": [list(pair) for pair in more_of(question)] if question.is_open else [],
        "sent": visible(sent_to(question)) if question.kind in ("form", "start") else "",
        "outcome": one_line(question.outcome, 200),
        "since": question.since,
    }


def _form_texts(schema: Mapping[str, Any]) -> list[str]:
    """The title and the description of a form."""
    texts = (schema.get(key) for key in ("title", "description"))
    return [_lines(text if isinstance(text, str) else compact(text)) for text in texts if text]


def _lines(text: str) -> str:
    return "\n".join(visible(line) for line in text.split("\n"))
