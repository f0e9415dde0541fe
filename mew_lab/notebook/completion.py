"""Completes `%mew` lines: answers IPython's completer from the sub-commands and the current lab.

It is called while a person types: names come from snapshots, no request is sent, and a failure gives no completions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)

from mew_lab.notebook.commands import COMMANDS, Command, CommandOption
from mew_lab.views.views import PARTS

__all__ = ["candidates", "mew_matcher"]

# `%mew …`, `%%mew …` and `x = %mew …`, up to the cursor; `%%agent …` stands for `%%mew agent …`.
_LINE = re.compile(r"^\s*(?:(?:[\w.\[\]'\", ]+=\s*)?%{1,2}mew[ \t](?P<rest>.*)|%%(?P<agent>agent[ \t].*))$")
MOST = 200


@context_matcher(identifier="mew_lab.mew_matcher")  # type: ignore[untyped-decorator]
def mew_matcher(context: CompletionContext) -> SimpleMatcherResult:
    """Returns completions for the word under the cursor; IPython adds none of its own."""
    match = _LINE.match(context.text_until_cursor)
    if match is None:
        return {"completions": [], "suppress": False}
    texts, word = candidates(match["rest"] if match["agent"] is None else match["agent"])
    completions = [SimpleCompletion(text=text, type=type_) for text, type_ in texts[:MOST]]
    return {"completions": completions, "suppress": bool(texts), "matched_fragment": word, "ordered": True}


def candidates(rest: str) -> tuple[list[tuple[str, str]], str]:
    """The completions at the end of the text after `%mew`, each with its type, and the word that they complete."""
    words = rest.split()
    word = "" if not rest or rest[-1].isspace() else words.pop()
    if not words:
        return _complete([(name, "sub-command") for name in COMMANDS], word), word
    command = COMMANDS.get(words[0])
    if command is None or "--" in words[1:]:
        return [], word
    return _complete(_next(command, words[1:], word), word), word


def _next(command: Command, words: list[str], word: str) -> list[tuple[str, str]]:
    flags = {option.flag: option for option in command.options if option.is_flag}
    open_flag, filled = _state(flags, words)
    if open_flag is not None:
        return _named(open_flag)
    places = [option for option in command.options if not option.is_flag]
    place = places[filled] if filled < len(places) else None
    if word.startswith("-") or place is None:
        return _open_flags(command, flags, words)
    return _named(place)


def _state(flags: Mapping[str, CommandOption], words: list[str]) -> tuple[CommandOption | None, int]:
    """The flag whose value follows, and the number of positions that are filled."""
    waiting: CommandOption | None = None
    filled = 0
    for word in words:
        if waiting is not None:
            waiting = None
        elif word in flags:
            waiting = None if flags[word].alone else flags[word]
        elif not word.startswith("--"):
            filled += 1
    return waiting, filled


def _open_flags(
    command: Command, flags: Mapping[str, CommandOption], words: list[str]
) -> list[tuple[str, str]]:
    used = {word for word in words if word in flags}
    if used & set(command.either):
        used |= set(command.either)
    many = {flag for flag, option in flags.items() if option.settings.get("action") == "append"}
    options = [(flag, "option") for flag in flags if flag not in used or flag in many]
    return [*options, ("--", "the command")] if command.tail == "command" else options


def _complete(texts: Iterable[tuple[str, str]], word: str) -> list[tuple[str, str]]:
    return [(text, type_) for text, type_ in texts if text.startswith(word)]


# --- names from the lab -------------------------------------------------------------------------------------


def _named(option: CommandOption) -> list[tuple[str, str]]:
    source = SOURCES.get(option.names)
    if source is None:
        return []
    try:
        return [(name, option.names) for name in source()]
    except Exception:
        # No lab is up, or it is going down: there are no names.
        return []


def _kinds() -> Iterable[str]:
    from mew_lab.protocol.kinds import KINDS

    return [kind for kind, row in KINDS.items() if row.sender == "participant"]


def _profiles() -> Iterable[str]:
    from mew_lab.protocol.permit import PROFILES

    return list(PROFILES)


def _labs() -> Iterable[str]:
    from mew_lab.lab.labs import labs

    return list(labs())


def _current() -> Any:
    from mew_lab.lab.labs import current

    return current()


def _participants() -> Iterable[str]:
    return [str(row[0]).removesuffix(" (you)") for row in _current().who()]


def _tools() -> Iterable[str]:
    return [str(row[0]) for row in _current().tools()]


def _proposals() -> Iterable[str]:
    return [str(row[0]) for row in _current().proposals()]


def _agents() -> Iterable[str]:
    return [str(row[0]) for row in _current().agents()]


SOURCES: Mapping[str, Callable[[], Iterable[str]]] = {
    "agent": _agents,
    "command": lambda: list(COMMANDS),
    "part": lambda: list(PARTS),
    "kind": _kinds,
    "lab": _labs,
    "model": lambda: ["offline"],
    "participant": _participants,
    "profile": _profiles,
    "proposal": _proposals,
    "seat": lambda: list(_current().seats),
    "tool": _tools,
}
