"""What is to be done next for a request?  Its steps, the calls that were made, and what came of them; pure.

A plan is made anew for every reply, from the beginning of the request: calls that were made are taken in their
order, the first that was not is the next. What tools answered gives values and is told; it never becomes a step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from mew_lab.agent.model import ToolCall
from mew_lab.agent.offline.choosing import Catalogue, Choice
from mew_lab.agent.offline.finding import ANAPHOR, Text
from mew_lab.agent.offline.supplying import Sources
from mew_lab.agent.offline.telling import SELF, abilities, failed, refused, shortened, told
from mew_lab.agent.offline.wording import asks, opening, stems, steps_of

__all__ = ["Done", "Next", "Plan"]

MAX_STEP = 3000  # characters of a step that are read
# What only tells something gives values to other steps.
_STATEMENT = re.compile(r"(?:i|it|it['’]s|we|they|he|she|there|this|that|my|our)\b", re.IGNORECASE)
# "and in Oslo", "what about Oslo": the step before, with another value.
_ELLIPSIS = re.compile(r"(?:(?:and|what|how) about\b|(?:in|for|at|to)\s)", re.IGNORECASE)


class Done(NamedTuple):
    """A call of this turn and what came of it."""

    name: str
    observation: str


class Next(NamedTuple):
    """The next thing to do: a call, or an answer."""

    why: str
    call: ToolCall | None
    text: str = ""


class Plan:
    """A request worked off from its beginning, with the calls that were made already."""

    def __init__(self, request: str, catalogue: Catalogue, done: Sequence[Done]) -> None:
        self._catalogue = catalogue
        self._steps = [Text.of(step[:MAX_STEP]) for step in steps_of(request, verbs=catalogue.verbs)]
        self._left = list(done)
        self._made = len(done)
        self._seen: list[Text] = []
        self._pieces: list[str] = []
        self._calls: list[tuple[str, dict[str, Any]]] = []
        self._served = self._unfit = False

    def next(self) -> Next:
        """The first call that was not made yet; the answer, when all were."""
        words_of: str | None = None
        for place, step in enumerate(self._steps):
            if len(self._steps) > 1 and _STATEMENT.match(opening(step.text)):
                continue
            back = bool(self._seen or self._served) and ANAPHOR.search(step.text) is not None
            if back and not self._seen:
                self._pieces.append(f"“{shortened(step.text, limit=80)}” rests on what did not work.")
                continue
            others = (*reversed(self._steps[:place]), *self._steps[place + 1 :])
            sources = Sources(step, others, tuple(self._seen), back)
            choices = self._catalogue.choose(sources)
            if not choices and words_of and _ELLIPSIS.match(step.text):
                choices = self._catalogue.choose(sources, words_of=words_of)
                choices.sort(key=lambda one: all(one.tool.name != name for name, _ in self._calls[-1:]))
            else:
                words_of = step.text
            if not choices:
                self._pass_over(step.text)
            elif choices[0].filled.missing:
                self._ask(choices[0])
            elif call := self._take(step.text, choices):
                return call
        return self._answer()

    def _take(self, step: str, choices: Sequence[Choice]) -> Next | None:
        """The call that the step still needs; None when it was made, and another one where it failed."""
        best = choices[0]
        for choice in (best, *(one for one in choices[1:2] if _second(one, best))):
            name = choice.tool.name
            if (name, choice.filled.arguments) in self._calls:
                return None
            self._calls.append((name, choice.filled.arguments))
            observation = self._observed(name)
            if observation is None:
                return self._call(step, choice, again=choice is not best)
            self._served = True
            if not failed(observation):
                self._pieces.append(f"{name} says: {told(observation)}")
                if choice.filled.left:
                    left = ", ".join(choice.filled.left[:8])
                    self._pieces.append(
                        f"I left out {shortened(left, limit=120)}: ask for it in a sentence of its own."
                    )
                self._seen.insert(0, Text.of(observation))
                return None
            verb = "was refused" if refused(observation) else "failed"
            said = observation.strip().removeprefix("Error:").strip()
            self._pieces.append(f"{name} {verb}: {shortened(said)}")
            if refused(observation):
                return None
        return None

    def _observed(self, name: str) -> str | None:
        """What came of the first call of a tool that no step has taken yet; None: it was not made."""
        for at, one in enumerate(self._left):
            if one.name == name:
                del self._left[at]
                return one.observation
        return None

    def _call(self, step: str, choice: Choice, *, again: bool) -> Next:
        asked = shortened(step, limit=100)
        why = f"“{asked}” {'may also be' if again else 'is'} what {choice.tool.name} does"
        about = shortened(choice.tool.description, limit=100)
        why += f" (“{about}”)." if about else "."
        if choice.filled.from_seen:
            why += " It takes values that stand earlier."
        call = ToolCall(f"offline-{self._made + 1}", choice.tool.name, choice.filled.arguments)
        return Next(why, call)

    def _ask(self, choice: Choice) -> None:
        lacks = [
            f"`{key}`" + (f" ({shortened(about, limit=100)})" if about else "")
            for key, about in choice.filled.missing[:5]
        ]
        self._pieces.append(f"To call {choice.tool.name} I need {' and '.join(lacks)}. Please say which.")

    def _pass_over(self, step: str) -> None:
        """Says that nothing fits, of what was meant as a step."""
        if stems(step) and (asks(step) or len(self._steps) == 1):
            self._unfit = True
            self._pieces.append(f"No tool here fits “{shortened(step, limit=80)}”.")

    def _answer(self) -> Next:
        if not self._pieces:
            return Next("It asks for nothing that a tool does.", None, abilities(self._catalogue.tools))
        text = "\n".join(self._pieces)
        if self._unfit:
            text += f"\n{SELF} I can only call tools that fit the words of a request."
        return Next("Every step is done." if self._served else "There is nothing to call.", None, text)


def _second(one: Choice, best: Choice) -> bool:
    """Whether a tool may be tried after a better one failed."""
    return not one.changes and not one.filled.missing and one.score >= best.score / 2
