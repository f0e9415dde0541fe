"""Reads what a model wrote into the text of its reply: reasoning in `<think>` tags, calls in `<tool_call>` tags; pure.

Models without a parser at their server write both as text. Reasoning counts only as the first text of a reply. Calls
(the format of Hermes) count only where a model is set to write them (`text_calls`), and only as the end of a reply,
outside of fences, quotes and code: a text that shows such a call makes none.

A tool or a participant may hold the text of a call for a model to repeat. `is_quoted` finds a call that stands in such
a text, whatever its spaces, escapes and the order of its members.

Spec: SDK "LLM Tool Preparation"; threat 29.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from mew_lab.protocol.coerce import json_of, mapping_of, text_of
from mew_lab.protocol.difference import are_equal

__all__ = ["TextCall", "is_quoted", "split_calls", "split_reasoning"]

MAX_CALLS = 32  # at the end of one reply
MAX_COMPARED = 256  # calls in the texts of others that are compared by their values
_THINK, _THOUGHT = "<think>", "</think>"
_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
_CODE_LINE = re.compile(r"(?: {4}| {0,3}\t| {0,3}>)")
_IGNORED = re.compile(r"[\s\\]+")


class TextCall(NamedTuple):
    """One call in the text of a reply. `text` is the call as it was written; `name` is empty where it names none."""

    name: str
    arguments: Any
    text: str


def split_reasoning(text: str) -> tuple[str, str]:
    """The reasoning with which a text begins, and the rest. Reasoning that does not end is all of the text."""
    start = text.lstrip()
    if not start.startswith(_THINK):
        return "", text
    reasoning, _, rest = start.removeprefix(_THINK).partition(_THOUGHT)
    return reasoning.strip(), rest.lstrip()


def split_calls(text: str) -> tuple[str, tuple[TextCall, ...]]:
    """The text before the calls with which it ends, and these calls. A call within code or a quote is text."""
    rest = text.rstrip()
    calls: list[TextCall] = []
    while rest.endswith(_CLOSE) and len(calls) < MAX_CALLS:
        start = rest.rfind(_OPEN)
        inner = rest[start + len(_OPEN) : -len(_CLOSE)]
        if start < 0 or _CLOSE in inner:
            break
        calls.append(_read_call(inner))
        before = rest[:start]
        # the indent before the first one stays
        rest = before.rstrip() if before.rstrip().endswith(_CLOSE) else before
    if not calls or _is_code(rest):
        return text, ()
    return rest.rstrip(), tuple(reversed(calls))


def _is_code(before: str) -> bool:
    """Whether what follows this text stands in a fence, in code or in a quote."""
    fence = ""
    for match in _FENCE.finditer(before):
        marks = match[1]
        if not fence:
            fence = marks
        elif marks[0] == fence[0] and len(marks) >= len(fence):
            fence = ""
    line = before.rpartition("\n")[2]
    return bool(fence) or _CODE_LINE.match(line) is not None or line.count("`") % 2 == 1


def _read_call(inner: str) -> TextCall:
    members = mapping_of(json_of(inner))
    arguments = members.get("arguments", members.get("parameters", {}))
    if isinstance(arguments, str):
        arguments = json_of(arguments, arguments)
    return TextCall(text_of(members.get("name")), arguments, inner)


def is_quoted(call: str, texts: Iterable[str]) -> bool:
    """Whether the written call stands in one of these texts of others, or has the values of a call in one of them."""
    wanted, value = _squeeze(call), _read_call(call)
    texts = list(texts)
    # In a row, for a call may be spread over two answers.
    if wanted in "".join(map(_squeeze, texts)):
        return True
    compared = 0
    for text in texts:
        for other in _calls_in(html.unescape(text)):
            compared += 1
            if compared > MAX_COMPARED:  # a text of nothing but calls is written to be repeated
                return True
            # The tool has other names elsewhere, so arguments alone tell; without any, the name does.
            try:
                alike = are_equal(other.arguments, value.arguments)
            except RecursionError:  # too deep to be compared, so it is not known to be the model's own
                return True
            if alike and (value.arguments or _bare(other) == _bare(value)):
                return True
    return False


def _bare(call: TextCall) -> str:
    return call.name.replace("/", "_")


def _squeeze(text: str) -> str:
    return _IGNORED.sub("", html.unescape(text))


def _calls_in(text: str) -> Iterator[TextCall]:
    for piece in text.split(_OPEN)[1:]:
        inner, close, _ = piece.partition(_CLOSE)
        if close:
            yield _read_call(inner)
            if "\\" in inner:
                yield _read_call(inner.replace('\\"', '"').replace("\\n", "\n"))
