"""What is a sentence about, and which steps does it ask for?  Its words and clauses; pure.

What is not English has words too, but only its own ones meet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from mew_lab.agent.offline.vocabulary import QUESTIONS, STOP, VERBS, stem

__all__ = ["MAX_REQUEST", "asks", "opening", "stems", "steps_of", "verb_of", "words"]

MAX_REQUEST = 8_000  # characters of a request that are read
MAX_STEPS = 12

_POLITE = re.compile(
    r"(?:please|kindly|can you|could you|would you|will you|can i|may i|let's|and|then|now|also|first|next|finally|"
    r"after that|hey|hi|hello|so|ok|okay|help me(?: to)?|go and|do you know|tell me|let me know|let me see|thanks|"
    r"show me(?= (?:what|when|who|which|how|where)\b)|i wonder|i(?: want| would like|'d like| need)(?: you)? to|"
    r"i want|i need|give me)\b[\s,:]*",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[.!?;](?=\s|$)|\n+")
_JOINT = re.compile(
    r"\s*,\s*(?:(?:and|but|or)\s+)?(?:(?:then|also)\s+)?|\s+and\s+(?:(?:then|also|after that)\s+)?|\s+then\s+",
    re.IGNORECASE,
)
_KEPT = re.compile(
    r"\"[^\"\n]{0,2000}\"|“[^”\n]{0,2000}”|`[^`\n]{0,2000}`|(?<!\w)'[^'\n]{0,2000}'(?!\w)|https?://\S+"
)
# What stands before the comma is no step of its own: "If it is 14:30 in Berlin, …", "In /srv/app, …".
_CONDITION = re.compile(
    r"\s*(?:if|in|on|at|for|from|under|inside|with|"
    r"(?:when|once|while|after|before)\s+(?!is|was|were|did|does|do|will|are|has|have|am)\w+)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SIGNS = (
    (re.compile(r"(?<=\d)\s*%"), " percent "),
    (re.compile(r"(?<=[\d)])\s*(?:[*×]|(?:\bx|\btimes)\s)\s*(?=[\d($])"), " multiplied "),
    (re.compile(r"\btimes\s+(?=[\d($])"), "multiplied "),
    (re.compile(r"(?<=[\d)])\s*\+\s*(?=[\d($])"), " plus "),
    (re.compile(r"(?<=[\d)])\s+[-−]\s+(?=[\d($])"), " minus "),
    (re.compile(r"(?<=[\d)])\s*÷\s*(?=[\d($])|(?<=[\d)])\s+/\s+(?=[\d($])"), " divided "),
    (re.compile(r"\blook(?:ing)?\s+up\b|\blook(?:ing)?\s+for\b", re.IGNORECASE), " search "),
    (re.compile(r"\bcheck(?:ing)?\s+out\b", re.IGNORECASE), "checkout"),
    (re.compile(r"\bhow (?:do|would|can) (?:you|i|we) say\b", re.IGNORECASE), "translate "),
    (re.compile(r"\bo['’]clock\b", re.IGNORECASE), " oclock "),
    (re.compile(r"\b(?:time\s+zone)", re.IGNORECASE), "timezone"),
    (re.compile(r"\bset\s+up\b|\b(?:open|make)\s+(?=(?:an?|new|me an?)\b)", re.IGNORECASE), "create "),
    (re.compile(r"\bnot\s+(?:yet\s+|been\s+)*(?=[a-z]{3,}ed\b)", re.IGNORECASE), "un"),
)


def words(text: str) -> list[str]:
    """Every word as it is written, names in snake_case and camelCase taken apart."""
    return _WORD.findall(_CAMEL.sub(" ", text.replace("_", " ")))


def stems(text: str) -> list[str]:
    """The stems of the words that say something, in their order."""
    return [stem(word) for word in words(_spelt(text)) if word.lower() not in STOP]


def _spelt(text: str) -> str:
    """The text with signs and idioms as words."""
    for sign, said in _SIGNS:
        text = sign.sub(said, text)
    return text


def opening(text: str) -> str:
    """The text from its verb or question word on, without the polite words before it."""
    text = text.strip(" ,:-\t\n")
    for _ in range(6):
        found = _POLITE.match(text)
        if not found or found.end() == len(text):
            break
        text = text[found.end() :]
    before = _CONDITION.match(text)
    comma = text.find(", ", before.end(), before.end() + 200) if before else -1
    return text if comma < 0 else opening(text[comma + 2 :])


def verb_of(step: str) -> str:
    """The word that a step begins with, polite ones left out, in small letters; nothing where there is none."""
    found = words(_spelt(opening(step)[:80]))
    return found[0].lower().partition("'")[0] if found else ""


def asks(step: str) -> bool:
    """Whether a step begins as a question or an order does."""
    first = verb_of(step)
    return first in QUESTIONS or stem(first) in VERBS


def steps_of(request: str, *, verbs: Collection[str] = ()) -> list[str]:
    """The steps that a request asks for, one text each: its sentences, cut where a new verb or question begins.

    What is quoted stays whole. At most twelve steps and 8000 characters are read.

    Args:
        verbs: stems that may begin a step besides the general ones.
    """
    request = request[:MAX_REQUEST]
    kept = [found.span() for found in _KEPT.finditer(request)]
    starts = VERBS | set(verbs)

    def free(place: int) -> bool:
        return not any(start < place < end for start, end in kept)

    steps: list[str] = []
    begin = 0
    ends = [found.span() for found in _SENTENCE.finditer(request) if free(found.start())]
    for end, after in [*ends, (len(request), len(request))]:
        steps += _clauses(request, begin, end, starts, free)
        begin = after
    return [text for text in (step.strip(" ,:-\t\n") for step in steps) if re.search(r"\w", text)][:MAX_STEPS]


def _clauses(
    request: str, begin: int, end: int, starts: Collection[str], free: Callable[[int], bool]
) -> list[str]:
    clauses, start = [], begin
    subordinate = _CONDITION.match(request, begin, end) is not None
    for joint in _JOINT.finditer(request, begin, end):
        if joint.start() < start or not free(joint.start()):
            continue
        if subordinate and "," in joint[0]:
            subordinate = False
            continue
        rest = opening(request[joint.end() : min(end, joint.end() + 80)])
        first = _WORD.match(rest)
        if first is None:
            continue
        word = first[0].lower().partition("'")[0]
        also = joint[0].strip().lower() == "and" and re.match(r"(?:in|for|at)\s+[A-Z]", rest)
        relative = joint[0].strip() == "," and word in ("which", "who", "where", "when")
        if also or (word in QUESTIONS and not relative) or stem(word) in starts:
            clauses.append(request[start : joint.start()])
            start = joint.end()
    return [*clauses, request[start:end]]
