"""Completes `%mew` lines: answers IPython's completer from the sub-commands and the current lab.

It is called while a person types: names come from snapshots, no request is sent, and a failure gives no completions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)

from mew_lab.lab.known_names import known_names
from mew_lab.notebook.commands import COMMANDS, STREAM_ACTS, Command, CommandOption
from mew_lab.protocol.json_schema import members_of
from mew_lab.protocol.kinds import KINDS
from mew_lab.protocol.permit import PROFILES
from mew_lab.views.views import PARTS

__all__ = ["candidates", "mew_matcher"]

# `%mew …`, `%%mew …` and `x = %mew …`, up to the cursor; `%%agent …` stands for `%%mew agent …`.
_LINE = re.compile(r"^\s*(?:(?:[\w.\[\]'\", ]+=\s*)?%{1,2}mew[ \t](?P<rest>.*)|%%(?P<agent>agent[ \t].*))$")
MOST = 200
_BREAKS = re.compile(r"""[\s"'\\${}]""")  # characters of a file name that a shell would read otherwise


class _NoOthers:
    """Completions that exclude those of IPython though there are none: it asks for their number alone.

    Without it, a Tab behind `%mew approve` offers every magic of the shell where no proposal is open.
    """

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[SimpleCompletion]:
        return iter(())


@context_matcher(identifier="mew_lab.mew_matcher")  # type: ignore[untyped-decorator]
def mew_matcher(context: CompletionContext) -> SimpleMatcherResult:
    """Returns completions for the word under the cursor; IPython adds none of its own."""
    match = _LINE.match(context.text_until_cursor)
    if match is None:
        return {"completions": [], "suppress": False}
    texts, word = candidates(match["rest"] if match["agent"] is None else match["agent"])
    completions: Any = [
        SimpleCompletion(text=text, type=type_) for text, type_ in texts[:MOST]
    ] or _NoOthers()
    return {"completions": completions, "suppress": True, "matched_fragment": word, "ordered": True}


def candidates(rest: str) -> tuple[list[tuple[str, str]], str]:
    """The completions at the end of the text after `%mew`, each with its type, and the word that they complete."""
    words = rest.split()
    word = "" if not rest or rest[-1].isspace() else words.pop()
    if not words:
        return _complete([(name, "command") for name in COMMANDS], word), word
    command = COMMANDS.get(words[0])
    if command is None:
        return [], word
    if command.tail == "filter":
        return _filter(rest[rest.index(words[0]) + len(words[0]) :].lstrip())
    if "--" in words[1:]:
        return _complete(_paths(word) if command.tail == "command" else [], word), word
    return _complete(_next(command, words[1:], word), word), word


def _filter(text: str) -> tuple[list[tuple[str, str]], str]:
    """The completions at the end of a filter, with values that occur in the current log."""
    from mew_lab.log.filter.complete import FilterSamples, complete_filter

    try:
        records = _current().log.held
    except Exception:
        # No lab is up: the fields are known, and their values are not.
        records = []
    found = complete_filter(text, FilterSamples(records))
    return [(each.text, each.type) for each in found.completions], found.fragment


def _next(command: Command, words: list[str], word: str) -> list[tuple[str, str]]:
    flags = {option.flag: option for option in command.options if option.is_flag}
    open_flag, filled = _state(flags, words)
    if open_flag is not None:
        return _named(open_flag, word)
    places = [option for option in command.options if not option.is_flag]
    place = places[filled] if filled < len(places) else None
    if place is not None and not word.startswith("-"):
        return _named(place, word)
    if command.tail and filled > len(places):  # options come before the tail
        return _parameters(words) if command.tail == "arguments" else []
    open_flags = _open_flags(command, flags, words)
    return [*_parameters(words), *open_flags] if command.tail == "arguments" else open_flags


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


def _named(option: CommandOption, word: str) -> list[tuple[str, str]]:
    if option.names == "path":
        return _paths(word)
    source = SOURCES.get(option.names)
    if source is None:
        return []
    try:
        return [(name, option.names) for name in source()]
    except Exception:
        # No lab is up, or it is going down: there are no names.
        return []


def _paths(word: str) -> list[tuple[str, str]]:
    """The files and folders that begin with a word; hidden ones where the word names them."""
    folder, _, begin = word.rpartition("/")
    head = f"{folder}/" if "/" in word else ""
    try:
        with os.scandir(Path(head or ".").expanduser()) as entries:
            found = sorted(f"{head}{entry.name}{'/' if entry.is_dir() else ''}" for entry in entries)
    except OSError:
        return []
    shown = [name for name in found if begin.startswith(".") or not name[len(head) :].startswith(".")]
    return [(name, "path") for name in shown if not _BREAKS.search(name)]


def _parameters(words: list[str]) -> list[tuple[str, str]]:
    """`name=` for each parameter of the tool of a call that the line has no value for yet."""
    try:
        schema = next(tool for name, tool in _current().known_tools() if name == words[0]).get("inputSchema")
        names = list(members_of(schema))
    except Exception:
        # No lab is up, the tool is unknown, or it describes itself badly.
        return []
    given = {word.partition("=")[0] for word in words[1:]}
    return [(f"{name}=", "parameter") for name in names if name.isidentifier() and name not in given]


def _severities() -> Iterable[str]:
    from mew_lab.log.diagnose.findings import SEVERITIES

    return SEVERITIES


def _labs() -> Iterable[str]:
    from mew_lab.lab.labs import labs

    return list(labs())


def _current() -> Any:
    from mew_lab.lab.labs import current

    return current()


def _unknown_calls() -> list[str]:
    """The requests whose outcome is unknown."""
    calls = _current().me.participant.ledger.calls.requests
    return [request.id for request in calls if request.state == "unknown"]


def _grants() -> list[str]:
    return [grant.id for grant in _current().me.participant.rights.grants if grant.stands]


SOURCES: Mapping[str, Callable[[], Iterable[str]]] = {
    "act": lambda: STREAM_ACTS,
    "action": lambda: ["new", "edit", "test", "serve"],
    "agent": lambda: [str(row[0]) for row in _current().agents()],
    "chat": lambda: [chat.id for chat in _current().me.participant.chats.pending],
    "command": lambda: list(COMMANDS),
    "grant": _grants,
    "option": lambda: [option for option, _ in known_names(_current(), "option")],
    "part": lambda: list(PARTS),
    "person": lambda: [_current().me.name],
    "kind": lambda: [kind for kind, row in KINDS.items() if row.sender == "participant"],
    "lab": _labs,
    "model": lambda: ["offline"],
    "participant": lambda: [str(row[0]).removesuffix(" (you)") for row in _current().who()],
    "profile": lambda: list(PROFILES),
    "call": _unknown_calls,
    "proposal": lambda: [str(row[0]) for row in _current().proposals()],
    "question": lambda: [question.id for question in _current().asked.pending()],
    "seat": lambda: list(_current().seats),
    "severity": _severities,
    "stream": lambda: list(_current().me.participant.streams.active),
    "tool": lambda: [name for name, _ in _current().known_tools()],
}
