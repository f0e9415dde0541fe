"""The commands of a terminal that takes part in a space, as one table: the help, the parser and the completion read it.

`join.py` has the function of each command, and `slash_completion.py` the names that an argument may have.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from mew_lab.errors import MewError
from mew_lab.lab.call_check import hint
from mew_lab.protocol.visible import one_line

__all__ = [
    "COMMANDS",
    "HELP",
    "WIDTH",
    "SlashArgument",
    "SlashCommand",
    "SlashWords",
    "explain",
    "read_command",
    "read_words",
    "tell_help",
    "tell_usage",
]

COLUMN = 32  # characters of a usage in the help
WIDTH = 118  # where no terminal says another
INDENT = 4  # characters before what continues, where there is no room for two columns
UNITS = {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600}


class SlashArgument(NamedTuple):
    """One argument of a command.

    `names` is the source of its completions. `choices` are the only words that are permitted, `number` is the unit of a
    number, which may have to be `whole`. `rest` takes the rest of the line, `many` each further word. `keyword` is what
    stands before a `=`.
    """

    name: str
    names: str = ""
    optional: bool = False
    rest: bool = False
    many: bool = False
    choices: tuple[str, ...] = ()
    number: str = ""
    whole: bool = False
    keyword: str = ""

    @property
    def usage(self) -> str:
        """How the help writes it."""
        text = f"{self.keyword}={self.name}" if self.keyword else f"{self.name}{'…' if self.many else ''}"
        return f"[{text}]" if self.optional else text


class SlashCommand(NamedTuple):
    """One command; `lenient` ignores what is typed behind its arguments, because nothing may keep it from acting."""

    about: str
    arguments: tuple[SlashArgument, ...] = ()
    needs: str = ""
    lenient: bool = False

    @property
    def usage(self) -> str:
        """Its arguments as the help writes them."""
        return " ".join(argument.usage for argument in self.arguments)


class SlashWords:
    """The arguments of a typed line, by their names in the usage; `name` is that of the command."""

    def __init__(self, name: str, values: Mapping[str, Sequence[str]]) -> None:
        self.name = name
        self._values = values

    def __getitem__(self, name: str) -> str:
        """The argument, empty where it was not given."""
        return next(iter(self._values.get(name, ())), "")

    def all(self, name: str) -> list[str]:
        """Each word of an argument that may be repeated."""
        return list(self._values.get(name, ()))

    def number(self, name: str) -> float | None:
        """The argument as a number; None where it was not given."""
        return float(self[name]) if self[name] else None

    def whole(self, name: str) -> int | None:
        """The argument as a whole number; None where it was not given."""
        return int(self[name]) if self[name] else None


_ID = SlashArgument("ID", "proposal")
_REASON = SlashArgument("REASON", optional=True, rest=True)
_TARGET = SlashArgument("PARTICIPANT/TOOL", "tool")
_JSON = SlashArgument("JSON", "arguments", optional=True, rest=True)
_PARTICIPANT = SlashArgument("PARTICIPANT", "participant")
_QUESTION = SlashArgument("ID", "question")
_SECONDS = SlashArgument("SECONDS", optional=True, number="seconds")
_STREAM = SlashArgument("ID", "stream")
_STREAM_ID = "the id of a stream"
_SWITCH = SlashArgument("on|off", optional=True, choices=("on", "off"))
_PROPOSAL_ID = "the id of a proposal"

COMMANDS: Mapping[str, SlashCommand] = MappingProxyType(
    {
        "approve": SlashCommand(
            "approves a proposal: the first time shows its card, the second approves it;\n"
            "without ID it is the only one that waits;\n"
            "or at once with the first 8 characters of the shown digest;\n"
            "despite=rejected approves what a participant has rejected, despite=unknown a repeat of a call of which "
            "nobody knows whether it took effect;\n"
            "PARTICIPANT is the target of a proposal that names none;\n"
            "OPTION is the id or name of an option, where an agent asks for a permission",
            (
                SlashArgument("ID", "proposal", optional=True),
                SlashArgument("D", optional=True, keyword="digest"),
                SlashArgument(
                    "WHAT", optional=True, many=True, keyword="despite", choices=("rejected", "unknown")
                ),
                SlashArgument("PARTICIPANT|OPTION", "participant|option", optional=True, many=True),
            ),
        ),
        "reject": SlashCommand("rejects a proposal", (_ID, _REASON), _PROPOSAL_ID),
        "withdraw": SlashCommand("withdraws your own proposal", (_ID, _REASON), _PROPOSAL_ID),
        "cancel": SlashCommand(
            "cancels a call that runs: yours, one that you proposed, or any as the owner;\n"
            "or a message: yours for everybody, another's for you",
            (SlashArgument("ID", "cancel"), _REASON),
            "the id of a call or of a message",
        ),
        "reason-cancel": SlashCommand(
            "cancels reasoning that goes on: the only one, that of a participant, or that of an id",
            (SlashArgument("PARTICIPANT|ID", "reasoning", optional=True), _REASON),
        ),
        "ack": SlashCommand(
            "acknowledges a message that waits for you, those of a participant, or all; without a word the only one",
            (
                SlashArgument("ID|PARTICIPANT|all", "chat", optional=True),
                SlashArgument("STATUS", optional=True, rest=True),
            ),
        ),
        "stop": SlashCommand(
            "stops everything at once: nothing is approved, calls are cancelled, agents paused", lenient=True
        ),
        "go": SlashCommand("goes on: lists what that undoes, and typed again does it"),
        "propose": SlashCommand("proposes a tool call", (_TARGET, _JSON), "participant/tool"),
        "call": SlashCommand(
            "calls a tool, or proposes the call where you may only propose",
            (_TARGET, _JSON),
            "participant/tool",
        ),
        "answer": SlashCommand(
            "answers a question of an MCP server; JSON has the values of its form",
            (_QUESTION, SlashArgument("JSON", optional=True, rest=True)),
            "the id of a question",
        ),
        "decline": SlashCommand("says no to a question", (_QUESTION,), "the id of a question"),
        "dismiss": SlashCommand(
            "dismisses a question without an answer", (_QUESTION,), "the id of a question"
        ),
        "questions": SlashCommand("lists the questions of MCP servers"),
        "proposals": SlashCommand("lists the open proposals"),
        "who": SlashCommand("lists the participants and what they may send"),
        "tools": SlashCommand(
            "lists the tools of all, or of one participant",
            (SlashArgument("PARTICIPANT", "participant", optional=True),),
        ),
        "status": SlashCommand(
            "shows the state: address, participants, policy, faults;\n"
            "with PARTICIPANT: asks for its status, or for these fields of it",
            (
                SlashArgument("PARTICIPANT", "participant", optional=True),
                SlashArgument("FIELD", optional=True, many=True),
            ),
        ),
        "pause": SlashCommand(
            "pauses a participant until it is resumed, or for so many seconds",
            (_PARTICIPANT, _SECONDS, _REASON),
        ),
        "resume": SlashCommand("ends its pause", (_PARTICIPANT, _REASON)),
        "forget": SlashCommand(
            "makes it drop messages from one end of its context; COUNT: only so many",
            (
                _PARTICIPANT,
                SlashArgument("oldest|newest", optional=True, choices=("oldest", "newest")),
                SlashArgument("COUNT", optional=True, number="messages", whole=True),
            ),
        ),
        "compact": SlashCommand(
            "makes it summarize its context, down to so many tokens",
            (_PARTICIPANT, SlashArgument("TOKENS", optional=True, number="tokens", whole=True), _REASON),
        ),
        "clear": SlashCommand("makes it erase its whole context", (_PARTICIPANT, _REASON)),
        "restart": SlashCommand("makes it return to its initial state", (_PARTICIPANT, _REASON)),
        "shutdown": SlashCommand("makes it end all activity and leave", (_PARTICIPANT, _REASON)),
        "kick": SlashCommand("removes it from the space; its tokens become invalid", (_PARTICIPANT, _REASON)),
        "invite": SlashCommand(
            "invites a participant: writes its token to a file of yours, and shows the line that joins",
            (SlashArgument("NAME"), SlashArgument("PROFILE", "profile", optional=True)),
        ),
        "grant": SlashCommand(
            "gives a permission: a tool, a kind of message, a profile, or a pattern as JSON; it may end",
            (
                _PARTICIPANT,
                SlashArgument("N", optional=True, keyword="minutes", number="minutes"),
                SlashArgument("COUNT", optional=True, keyword="uses", number="messages", whole=True),
                SlashArgument("PARTICIPANT/TOOL|KIND|PROFILE|JSON", "permission", rest=True),
            ),
        ),
        "revoke": SlashCommand(
            "revokes a grant, or all that a pattern matches; without either the only grant that you gave it",
            (_PARTICIPANT, SlashArgument("ID|JSON", "grant", optional=True, rest=True)),
        ),
        "undo": SlashCommand("revokes the permission that you gave last"),
        "stream request": SlashCommand(
            "opens a stream to a participant: upload, you write; download, you read",
            (
                _PARTICIPANT,
                SlashArgument("upload|download", choices=("upload", "download")),
                SlashArgument("DESCRIPTION", optional=True, rest=True),
                SlashArgument("BYTES", optional=True, keyword="size", number="bytes", whole=True),
            ),
        ),
        "stream write": SlashCommand(
            "writes a text to an open stream", (_STREAM, SlashArgument("TEXT", rest=True)), _STREAM_ID
        ),
        "stream close": SlashCommand("closes a stream of yours", (_STREAM, _REASON), _STREAM_ID),
        "streams": SlashCommand("lists the open streams; on shows their frames as they come", (_SWITCH,)),
        "target": SlashCommand(
            "sends what you type to these participants alone; none: to all again; without a word: shows it",
            (SlashArgument("PARTICIPANT|none", "target", optional=True, many=True),),
        ),
        "verbose": SlashCommand("shows each message whole, as JSON, or as one line again", (_SWITCH,)),
        "help": SlashCommand(
            "lists the commands, or explains one",
            (SlashArgument("COMMAND", "command", optional=True, rest=True),),
        ),
        "quit": SlashCommand("leaves the space; //TEXT sends a text that begins with a slash"),
    }
)


_AS_JSON = '{"kind": …}'


def _help(width: int) -> Iterator[str]:
    yield _explain("TEXT", "sends a chat message to all participants, or to those of /target", width)
    yield _explain(
        _AS_JSON, "sends this message as JSON; a chat message without “to” goes where TEXT does", width
    )
    for name in COMMANDS:
        yield explain(name, width)
    yield textwrap.fill("For an ID its beginning will do, such as the four characters that are told.", width)


def explain(name: str, width: int = WIDTH) -> str:
    """The usage of a command, and beside it, or below it where that is long, what it does, in so many columns."""
    return _explain(f"/{name} {COMMANDS[name].usage}".rstrip(), COMMANDS[name].about, width)


def _explain(usage: str, about: str, width: int) -> str:
    column = COLUMN if width >= 2 * COLUMN else INDENT
    about = "\n".join(textwrap.fill(line, width - column) for line in about.split("\n"))
    about = textwrap.indent(about, " " * column)
    if len(usage) < column:
        return f"{usage:<{column}}{about[column:]}"
    return f"{textwrap.fill(usage, width, subsequent_indent=' ' * INDENT)}\n{about}"


def tell_help(width: int = WIDTH) -> str:
    """All commands, in so many columns."""
    return "\n".join(_help(width))


HELP = tell_help()


def read_command(line: str) -> tuple[str, str]:
    """The name of the command of a line without its slash, and what follows it.

    Raises:
        MewError: There is no such command; the message names the nearest.
    """
    word, _, rest = line.partition(" ")
    second, _, more = rest.lstrip().partition(" ")
    if f"{word} {second}" in COMMANDS:
        return f"{word} {second}", more.strip()
    if word in COMMANDS:
        return word, rest.strip()
    kinds = [name.partition(" ")[2] for name in COMMANDS if name.startswith(f"{word} ")]
    if kinds:
        raise MewError(f"/{word} needs {' or '.join(kinds)}{hint(second, kinds)}; /help lists the commands")
    near = hint(word, COMMANDS)
    raise MewError(f"There is no command /{one_line(word, 40)}{near}; /help lists the commands")


def read_words(name: str, text: str) -> SlashWords:
    """The arguments of a command that are typed behind its name.

    Raises:
        MewError: One is missing, is not valid, or is too many; the message has the usage.
    """
    command = COMMANDS[name]
    values: dict[str, list[str]] = {}
    keywords = {argument.keyword: argument for argument in command.arguments if argument.keyword}
    if keywords:
        text = _take_keywords(name, text, keywords, values)
    for argument in command.arguments:
        if argument.keyword:
            continue
        whole = text
        if argument.rest:
            word, text = text, ""
        else:
            word, text = _split(text)
        if not word:
            if not argument.optional:
                is_first = argument is command.arguments[0]
                needs = command.needs if is_first and command.needs else argument.name
                raise MewError(f"/{name} needs {needs}{tell_usage(name)}")
            continue
        if not _fits(name, argument, word):  # an optional argument that was left out
            text = whole
            continue
        values[argument.name] = [word]
        while argument.many and text:
            word, text = _split(text)
            values[argument.name].append(word)
    if text and not command.lenient:
        raise MewError(_tell_surplus(name, text, values))
    return SlashWords(name, values)


def _split(text: str) -> tuple[str, str]:
    word, *rest = text.split(None, 1)[:2] if text.strip() else ("",)
    return word, rest[0] if rest else ""


def _take_keywords(
    name: str, text: str, keywords: Mapping[str, SlashArgument], values: dict[str, list[str]]
) -> str:
    """Takes the words `key=value` out of a text, but not out of JSON in it; returns the rest of it."""
    before, brace, json = text.partition("{")

    def take(found: re.Match[str]) -> str:
        argument, value = keywords[found[1]], found[2]
        if not value:
            raise MewError(f"/{name} needs {argument.name} behind {argument.keyword}={tell_usage(name)}")
        if not _fits(name, argument, value):
            raise MewError(_tell_misfit(name, argument, value))
        values.setdefault(argument.name, []).append(value)
        return ""

    pattern = rf"(?<!\S)({'|'.join(map(re.escape, keywords))})=(\S*)\s*"
    return f"{re.sub(pattern, take, before)}{brace}{json}".strip()


def _fits(name: str, argument: SlashArgument, word: str) -> bool:
    """Whether a word may be that argument; False for one that belongs to the next.

    Raises:
        MewError: It was meant for this argument and is not valid.
    """
    if argument.number:
        if _is_number(word, whole=argument.whole):
            return True
        if argument.optional and not argument.keyword and not word[0].isdigit() and word[0] not in "+-.":
            return False
        raise MewError(_tell_misfit(name, argument, word))
    if argument.choices and word not in argument.choices:
        others = [one for one in COMMANDS[name].arguments if not one.keyword]
        follows = others.index(argument) + 1 < len(others) if argument in others else False
        if argument.optional and follows and not hint(word, argument.choices):
            return False
        raise MewError(_tell_misfit(name, argument, word))
    return True


def _is_number(word: str, *, whole: bool = False) -> bool:
    """Whether a word is a number of what there is none below zero."""
    if not re.fullmatch(r"\d{1,15}(?:\.\d{1,9})?", word, re.ASCII):
        return False
    return not whole or "." not in word


def _tell_misfit(name: str, argument: SlashArgument, word: str) -> str:
    shown = one_line(word, 40)
    if argument.choices:
        words = " or ".join(argument.choices)
        return f"/{name} takes {words}, not {shown!r}{hint(word, argument.choices)}{tell_usage(name)}"
    figures = word.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = word[len(figures) :]
    meant = ""
    if argument.number == "seconds" and unit in UNITS and _is_number(figures):
        meant = f": {shown} is {float(figures) * UNITS[unit]:g}"
    number = "whole number" if argument.whole else "plain number"
    return f"/{name} takes {argument.name} as a {number} of {argument.number}, not {shown!r}{meant}{tell_usage(name)}"


def _tell_surplus(name: str, text: str, values: Mapping[str, Sequence[str]]) -> str:
    command = COMMANDS[name]
    if not command.arguments:
        return f"/{name} takes nothing behind it, but {one_line(text, 40)!r} stands there"
    word = text.split()[0]
    for argument in command.arguments:  # one that would fit earlier was typed in another order
        fits = word in argument.choices or bool(argument.number and _is_number(word, whole=argument.whole))
        if fits and argument.name not in values:
            return f"{one_line(word, 40)!r} stands in the wrong place{tell_usage(name)}"
    return f"/{name} does not know what to do with {one_line(text, 40)!r}{tell_usage(name)}"


def tell_usage(name: str) -> str:
    """How a command is written, as the end of a sentence."""
    return f"; it is written /{name} {COMMANDS[name].usage}".rstrip()
