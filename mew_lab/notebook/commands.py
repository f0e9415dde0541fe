"""The sub-commands of `%mew` and their options, as one table of data, and the help that is made from it.

The parser, the help and the completion all read this table, so a new sub-command is one row here and one function in
`magics.py`. Every option ends up as an argument of one method of a lab.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from mew_lab.views.views import PARTS

__all__ = ["COMMANDS", "Command", "CommandOption", "Help", "command_help", "overview"]


class CommandOption(NamedTuple):
    """One word of a command: a flag (`--to`) or a place (`NAME`).

    `names` is what completes it (see `completion.py`), `settings` what argparse is told, `alone` whether the
    flag takes no value.
    """

    flag: str
    about: str
    names: str = ""
    settings: Mapping[str, Any] = MappingProxyType({})

    @property
    def is_flag(self) -> bool:
        return self.flag.startswith("--")

    @property
    def alone(self) -> bool:
        return self.settings.get("action") == "store_true"

    @property
    def dest(self) -> str:
        return str(self.settings.get("dest") or self.flag.lstrip("-").replace("-", "_").lower())


class Command(NamedTuple):
    """One sub-command. `usage` is what stands behind its name, `tail` what the rest of the line is.

    `tail`: `text` is the rest as it stands, `arguments` a JSON object or `name=value` words, `body` a JSON
    object, `command` words behind `--`, nothing an empty one. `body` tells whether a cell's body may stand in
    place of the tail; `either` are flags of which at most one may be given.
    """

    about: str
    usage: str = ""
    options: tuple[CommandOption, ...] = ()
    tail: str = ""
    body: bool = False
    either: tuple[str, ...] = ()
    note: str = ""


_MANY = {"action": "append", "default": []}
_MAYBE = {"nargs": "?", "default": None}
_AS = CommandOption(
    "--as", "the seat that does it; you unless given", "seat", {"dest": "as_id", "default": None}
)
_TO = CommandOption("--to", "an addressee; may be repeated", "participant", _MANY)
_ID = CommandOption("ID", "the proposal's id, or a beginning that only it has", "proposal")
_TARGET = CommandOption("PARTICIPANT/TOOL", "whose tool, and which", "tool", {"dest": "target"})
_ARGUMENTS = (
    """ARGUMENTS: {"name": value} exactly as JSON, or name=value words; name=$x takes the variable x."""
)

COMMANDS: Mapping[str, Command] = MappingProxyType(
    {
        "up": Command(
            "starts a space in this kernel and seats you in it",
            "[NAME] [--as ID] [--port N] [--journal PATH | --no-journal | --resume FILE] [--no-auto-start]",
            (
                CommandOption(
                    "NAME", "the name of the space, demo unless given; or its space.yaml", "path", _MAYBE
                ),
                CommandOption(
                    "--as",
                    "your own participant id; human unless given",
                    "",
                    {"dest": "as_id", "default": None},
                ),
                CommandOption(
                    "--port",
                    "the port on 127.0.0.1; a free one unless given",
                    "",
                    {"type": int, "default": 0},
                ),
                CommandOption("--journal", "the file that records everything", "path", {"default": None}),
                CommandOption("--no-journal", "records nothing on disk", "", {"action": "store_true"}),
                CommandOption(
                    "--resume",
                    "the journal of a space that ran before, to go on with",
                    "path",
                    {"default": None},
                ),
                CommandOption(
                    "--no-auto-start", "starts no program of the space.yaml", "", {"action": "store_true"}
                ),
            ),
            either=("--journal", "--no-journal", "--resume"),
        ),
        "down": Command("ends the current lab and says what is still pending"),
        "use": Command(
            "makes another lab the current one", "NAME", (CommandOption("NAME", "the lab's name", "lab"),)
        ),
        "connect": Command(
            "joins a space of a gateway elsewhere",
            "URL --space S [--token-env NAME | --token-file PATH] [--as ID] [--name N]",
            (
                CommandOption("URL", "ws://… or http://… of the gateway"),
                CommandOption("--space", "the name of the space", "", {"required": True}),
                CommandOption(
                    "--token-env", "the environment variable that holds the token", "", {"default": None}
                ),
                CommandOption(
                    "--token-file",
                    "the file that holds the token, readable by you alone",
                    "path",
                    {"default": None},
                ),
                CommandOption(
                    "--as", "the participant id to join with", "", {"dest": "as_id", "default": None}
                ),
                CommandOption(
                    "--name",
                    "what this lab is called here; the space's name unless given",
                    "",
                    {"default": None},
                ),
            ),
            either=("--token-env", "--token-file"),
            note="Without either token option it asks for the token without showing it.",
        ),
        "bridge": Command(
            "starts an MCP server and seats it as a participant",
            "NAME [--env VARIABLE] [--can PROFILE] -- COMMAND…",
            (
                CommandOption("NAME", "the participant id of the server"),
                CommandOption("--env", "an environment variable that it may see; may be repeated", "", _MANY),
                CommandOption("--can", "what it may send", "profile", {"default": "tool"}),
            ),
            tail="command",
            note="The word python is this kernel's own interpreter. $name and {expression} are filled in.",
        ),
        "join": Command(
            "seats another participant in this kernel",
            "NAME [--can PROFILE]",
            (
                CommandOption("NAME", "its participant id"),
                CommandOption("--can", "what it may send", "profile", {"default": "proposer"}),
            ),
        ),
        "agent": Command(
            "seats an agent; again, sets its system prompt, steers it, or shows how it fares",
            "NAME [--model M] [--base-url URL] [--key-env VARIABLE] [--can PROFILE] [--start | --stop | --cancel] "
            "[SYSTEM PROMPT]",
            (
                CommandOption("NAME", "its participant id", "agent"),
                CommandOption(
                    "--model", "offline (the built-in one), or a model's name", "model", {"default": None}
                ),
                CommandOption("--base-url", "a server of the chat completions API", "", {"default": None}),
                CommandOption(
                    "--key-env",
                    "the environment variable that holds that server's key",
                    "",
                    {"default": None},
                ),
                CommandOption("--can", "what it may send; agent unless given", "profile", {"default": None}),
                CommandOption("--start", "lets it join again", "", {"action": "store_true"}),
                CommandOption("--stop", "ends its work and lets it leave", "", {"action": "store_true"}),
                CommandOption("--cancel", "ends its work; it stays", "", {"action": "store_true"}),
            ),
            tail="text",
            body=True,
            either=("--start", "--stop", "--cancel"),
            note="%%agent NAME is the same as %%mew agent NAME: the body of the cell is the system prompt.",
        ),
        "agents": Command("lists the agents of this kernel and what they work on"),
        "ask": Command(
            "asks an agent, or anybody, in words; gives a Pending for the answer",
            "NAME [--as SEAT] TEXT",
            (CommandOption("NAME", "whom to ask", "participant"), _AS),
            tail="text",
            body=True,
        ),
        "who": Command("lists the participants and what they may send"),
        "tools": Command(
            "lists the tools that can be called",
            "[PARTICIPANT]",
            (CommandOption("PARTICIPANT", "only this participant's", "participant", _MAYBE),),
        ),
        "chat": Command("says something", "[--to ID] [--as SEAT] TEXT", (_TO, _AS), tail="text", body=True),
        "send": Command(
            "sends an envelope of any kind",
            "KIND [--to ID] [--correlation ID] [--context C] [--as SEAT] [BODY]",
            (
                CommandOption("KIND", "the kind, such as chat or mcp/request", "kind"),
                _TO,
                CommandOption(
                    "--correlation", "the id of an envelope that this one answers; may be repeated", "", _MANY
                ),
                CommandOption("--context", "the context it belongs to", "", {"default": None}),
                _AS,
            ),
            tail="body",
            body=True,
            note="The payload is BODY, or the body of a %%mew cell: JSON where it begins with {, else YAML.",
        ),
        "call": Command(
            "calls a tool: a request where the seat may send one, else a proposal",
            "PARTICIPANT/TOOL [--as SEAT] [ARGUMENTS]",
            (_TARGET, _AS),
            tail="arguments",
            body=True,
            note=_ARGUMENTS,
        ),
        "propose": Command(
            "proposes a tool call for somebody else to fulfil",
            "PARTICIPANT/TOOL [--as SEAT] [ARGUMENTS]",
            (_TARGET, _AS),
            tail="arguments",
            body=True,
            note=_ARGUMENTS,
        ),
        "proposals": Command(
            "lists the proposals that wait",
            "[--all]",
            (CommandOption("--all", "the decided ones too", "", {"action": "store_true"}),),
        ),
        "approve": Command(
            "fulfils a proposal: sends its request as you, once its whole card was shown",
            "ID [--digest D] [--to ID]",
            (
                _ID,
                CommandOption(
                    "--digest", "the first 8 characters of the digest that was shown", "", {"default": None}
                ),
                CommandOption(
                    "--to", "who is to do it, where the proposal names nobody", "participant", _MANY
                ),
            ),
            note="Without --digest the first time shows the whole card, and the second says yes to it.",
        ),
        "reject": Command(
            "rejects a proposal", "ID [REASON]", (_ID,), tail="text", note="REASON: disagree unless given."
        ),
        "withdraw": Command(
            "withdraws a proposal of a seat of this kernel",
            "ID [REASON]",
            (_ID,),
            tail="text",
            note="REASON: no_longer_needed unless given.",
        ),
        "undo": Command("revokes the grant that you gave last, of those that stand"),
        "view": Command(
            "shows a part of the control room, alone", "PART", (CommandOption("PART", "which part", "part"),)
        ),
        # `chat` and `tools` are verbs here: %mew view shows those parts.
        **{name: Command(f"shows {about}") for name, about in PARTS.items() if name not in ("chat", "tools")},
        "history": Command("lists the decisions so far, and by whom or what"),
        "log": Command("gives the log; its .df is the DataFrame"),
        "save": Command(
            "writes the log to a file", "PATH", (CommandOption("PATH", "the file to write", "path"),)
        ),
        "status": Command("tells how the lab fares: members, journal, policy, faults"),
        "help": Command(
            "shows this overview, or one sub-command",
            "[SUB]",
            (CommandOption("SUB", "the sub-command", "command", _MAYBE),),
        ),
    }
)


@dataclass(frozen=True, slots=True, repr=False)
class Help:
    """The usage of a command, its effect, and the meaning of each word."""

    usage: str
    about: str
    rows: tuple[tuple[str, str], ...]
    note: str = ""

    def __str__(self) -> str:
        width = max((len(word) for word, _ in self.rows), default=0)
        lines = [self.usage, self.about, *(f"  {word.ljust(width)}  {about}" for word, about in self.rows)]
        return "\n".join([*lines, self.note] if self.note else lines)

    def __repr__(self) -> str:
        return str(self)


def overview() -> Help:
    """All sub-commands, one line each."""
    return Help(
        "%mew SUB …",
        "a space of the MEW Protocol in this notebook",
        tuple((f"{name} {command.usage}".rstrip(), command.about) for name, command in COMMANDS.items()),
        "%mew help SUB tells more. Each is one call of a method of `lab`, which works without %mew too.",
    )


def command_help(name: str) -> Help:
    """One sub-command with its options."""
    command = COMMANDS[name]
    cell = f"; %%mew {name} takes the rest from the cell's body" if command.body else ""
    return Help(
        f"%mew {name} {command.usage}".rstrip(),
        command.about + cell,
        tuple((option.flag, option.about) for option in command.options),
        command.note,
    )
