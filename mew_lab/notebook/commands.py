"""The sub-commands of `%mew` and their options, as one table, and the help that is made from it.

The parser, the help and the completion all read this table, so a new sub-command is one row here and one function in
`magics.py`. Every option is passed as an argument of one method, which the row names in `method`; `WITHOUT_COMMAND` has
the methods that no command calls, each with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType
from typing import Any, NamedTuple

from mew_lab.lab.shared_options import EXECUTOR, PERSON, RESULTS, WRITES, usage_of
from mew_lab.protocol.profiles import SEE
from mew_lab.views.views import PARTS

__all__ = [
    "COMMANDS",
    "GROUPS",
    "STREAM_ACTS",
    "WITHOUT_COMMAND",
    "Command",
    "CommandOption",
    "Help",
    "command_help",
    "method_of",
    "overview",
]


class CommandOption(NamedTuple):
    """One argument of a command: a flag (`--to`) or a position (`NAME`).

    `names` is the source of its completions (see `completion.py`), `settings` are keywords for argparse, `alone` tells
    whether the flag takes no value.
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
    """One sub-command. `usage` lists its arguments, `tail` names the format of the rest of the line.

    `tail`: `text` is plain text, `filter` a filter of messages, `arguments` a JSON object or `name=value` words, `body`
    a JSON object, `command` words after `--`; empty means no tail. `body` tells whether the body of a cell may replace
    the tail; `either` are flags of which at most one is permitted. `lenient` ignores what stands behind the command,
    because nothing may keep it from acting. `method` is what does the same in Python, such as
    `lab.of(NAME).pause`; empty for the method of a lab that has the command's name.
    """

    about: str
    usage: str = ""
    options: tuple[CommandOption, ...] = ()
    tail: str = ""
    body: bool = False
    either: tuple[str, ...] = ()
    note: str = ""
    method: str = ""
    lenient: bool = False


# argparse would append to one default of the table, so none is given; the parser makes tuples.
_MANY = {"action": "append"}
_MAYBE = {"nargs": "?"}


def _switch(flag: str, about: str) -> CommandOption:
    """A flag that takes no value."""
    return CommandOption(flag, about, "", {"action": "store_true"})


_AS = CommandOption("--as", "the seat that sends it; default: you", "seat", {"dest": "as_id"})
_TO = CommandOption("--to", "an addressee; may be repeated", "participant", _MANY)
_ID = CommandOption("ID", "the proposal's id, or a unique beginning of it", "proposal")
_TARGET = CommandOption("PARTICIPANT/TOOL", "the participant and its tool", "tool", {"dest": "target"})
_OF = CommandOption("NAME", "the participant", "participant")
_SURE = _switch(
    "--sure", "does it at once; without it, the first time says what is lost, and the second does it"
)
_TIMEOUT = CommandOption("--timeout", "seconds to wait for what is seen of it", "", {"type": float})
_MINUTES = CommandOption("--minutes", "the minutes after which it ends", "", {"type": float})
_REASON = "REASON: any text."
_RESULTS = tuple(CommandOption(*option) for option in RESULTS)
_RESULT_USAGE = usage_of(RESULTS)
_PERSON = tuple(CommandOption(*option) for option in PERSON)
_PERSON_USAGE = usage_of(PERSON)
_EXECUTOR = (*(CommandOption(*option) for option in EXECUTOR), CommandOption(*WRITES))
_EXECUTOR_USAGE = usage_of((*EXECUTOR, WRITES))
_MODEL_SERVER = (
    CommandOption("--base-url", "the address of a server of the chat completions API"),
    CommandOption("--key-env", "the environment variable that holds that server's key"),
)
_ARGUMENTS = (
    """ARGUMENTS: {"name": value} as strict JSON, or name=value words; name=$x takes the variable x."""
)

STREAM_ACTS = ("list", "open", "take", "write", "read", "grant", "revoke", "transfer", "close")

COMMANDS: Mapping[str, Command] = MappingProxyType(
    {
        "up": Command(
            "starts a space in this kernel, with you in it",
            "[NAME] [--as ID] [--port N] [--journal PATH | --no-journal | --resume FILE] [--no-auto-start] "
            f"{_RESULT_USAGE} {_PERSON_USAGE}",
            (
                CommandOption(
                    "NAME", "the name of the space, default: demo; or its space.yaml", "path", _MAYBE
                ),
                CommandOption("--as", "your own participant id; default: human", "", {"dest": "as_id"}),
                CommandOption(
                    "--port", "the port on 127.0.0.1; default: a free one", "", {"type": int, "default": 0}
                ),
                CommandOption("--journal", "the journal file; default: a new one below .mew", "path"),
                _switch("--no-journal", "writes no journal"),
                CommandOption(
                    "--resume", "the journal of a space that ran before and is to be resumed", "path"
                ),
                _switch("--no-auto-start", "does not start the programs of the space.yaml"),
                *_RESULTS,
                *_PERSON,
            ),
            either=("--journal", "--no-journal", "--resume"),
            method="mew_lab.up",
        ),
        "down": Command("stops the current space and lists the proposals that are still open"),
        "use": Command(
            "makes another lab the current one",
            "NAME",
            (CommandOption("NAME", "the lab's name", "lab"),),
            method="mew_lab.lab.labs.use",
        ),
        "connect": Command(
            "joins a space of another process",
            "[URL --space S [--token-env NAME | --token-file PATH]] [--as ID] [--name N] "
            f"{_RESULT_USAGE} {_PERSON_USAGE}",
            (
                CommandOption(
                    "URL", "ws://… or http://… of the gateway; default: the space that runs here", "", _MAYBE
                ),
                CommandOption("--space", "the name of the space"),
                CommandOption("--token-env", "the environment variable that holds the token"),
                CommandOption("--token-file", "the file that holds the token, readable by you alone", "path"),
                CommandOption("--as", "the participant id to join with", "", {"dest": "as_id"}),
                CommandOption("--name", "the name of this lab; default: the name of the space"),
                *_RESULTS,
                *_PERSON,
            ),
            either=("--token-env", "--token-file"),
            note="Without URL it joins the space that mew-lab up or serve runs in the kernel's folder, else that of "
            "MEW_GATEWAY, MEW_SPACE and MEW_TOKEN. With URL and no token option it asks for the token and does not show "
            "it.",
            method="mew_lab.connect",
        ),
        "bridge": Command(
            "connects an MCP server as a participant, so that its tools can be called",
            "NAME [--env VARIABLE] [--can PROFILE] [--sampling MODEL] [--root FOLDER] [--strict-unknown] "
            f"{_RESULT_USAGE} {_EXECUTOR_USAGE} -- COMMAND… | URL",
            (
                CommandOption("NAME", "the participant id of the server"),
                CommandOption("--env", "an environment variable to pass to it; may be repeated", "", _MANY),
                CommandOption(
                    "--can", "its profile of permissions; default: tool", "profile", {"default": "tool"}
                ),
                CommandOption(
                    "--sampling",
                    "the model that the server may ask for replies; you approve each prompt",
                    "model",
                ),
                CommandOption(
                    "--root", "a folder that the server is told of; may be repeated", "path", _MANY
                ),
                _switch(
                    "--strict-unknown",
                    "refuses to repeat a call of unknown outcome even where the tool only reads, or is idempotent",
                ),
                *_RESULTS,
                *_EXECUTOR,
            ),
            tail="command",
            note="As the program, python means the interpreter of this kernel. $name and {expression} are filled in. "
            "lab.bridge(NAME, URL, headers=…) gives a server at a URL its headers.",
        ),
        "bridge-all": Command(
            "connects the MCP servers of a client's file, such as .mcp.json; you allow each",
            f"[FILE] [--only SERVER] [--can PROFILE] [--trust SHA256] {_EXECUTOR_USAGE}",
            (
                CommandOption(
                    "FILE", "the file; default: .mcp.json", "path", {"nargs": "?", "default": ".mcp.json"}
                ),
                CommandOption("--only", "a server of the file; may be repeated; default: all", "", _MANY),
                CommandOption("--can", "the profile of each; default: tool", "profile", {"default": "tool"}),
                CommandOption(
                    "--trust", "the digest of an entry that is allowed; may be repeated", "", _MANY
                ),
                *_EXECUTOR,
            ),
            note="A yes holds for that file and that entry, until the entry changes. A TOOL is SERVER/TOOL here.",
        ),
        "code": Command(
            "starts a coding agent, such as claude, as a participant",
            "AGENT [--name NAME] [--mode MODE] [--session ID] [--files FOLDER] [--turns N] [--minutes N] "
            "[--tokens N] [--env VARIABLE] [--tools [--ask-once]] [--can PROFILE] [-- COMMAND…]",
            (
                CommandOption("AGENT", "claude, codex, gemini, opencode or qwen; of another, a name for it"),
                CommandOption("--name", "its participant id; default: the name of the agent"),
                CommandOption("--mode", "the mode to set; default: the one that asks most"),
                CommandOption("--session", "the id of an earlier session to go on with"),
                CommandOption(
                    "--files",
                    "the folder of which it may read files by this lab, and write them as you decide",
                    "path",
                ),
                CommandOption("--turns", "prompts after which it asks whether to go on", "", {"type": int}),
                CommandOption("--minutes", "minutes of work after which it asks", "", {"type": float}),
                CommandOption(
                    "--tokens", "tokens, as it counts them, after which it asks", "", {"type": int}
                ),
                CommandOption("--env", "an environment variable to pass to it; may be repeated", "", _MANY),
                _switch("--tools", "gives it the tools of the space; its calls of them are proposals"),
                _switch("--ask-once", "with --tools: your permission counts for that call of a tool, too"),
                CommandOption(
                    "--can", "its profile of permissions; default: agent", "profile", {"default": "agent"}
                ),
            ),
            tail="command",
            note="It asks by its own rules: what it does not ask about runs with your rights.",
            method="lab.coding_agent",
        ),
        "join": Command(
            "adds another participant to the space, which you control from here",
            "NAME [--can PROFILE | --rules-of YOU]",
            (
                CommandOption("NAME", "its participant id"),
                CommandOption("--can", "its profile of permissions; default: proposer", "profile"),
                CommandOption(
                    "--rules-of",
                    "your own name: it sends what your adopted rules approve, in its name",
                    "person",
                ),
            ),
            either=("--can", "--rules-of"),
        ),
        "agent": Command(
            "adds an agent; or changes, controls or shows one that is here",
            "NAME [--model M] [--base-url URL] [--key-env VARIABLE] [--can PROFILE] [--start | --stop | --cancel] "
            "[SYSTEM PROMPT]",
            (
                CommandOption("NAME", "its participant id", "agent"),
                CommandOption("--model", "offline (the built-in model), or the name of a model", "model"),
                *_MODEL_SERVER,
                CommandOption("--can", "its profile of permissions; default: agent", "profile"),
                _switch("--start", "joins the space again after --stop"),
                _switch("--stop", "ends its work and leaves the space"),
                _switch("--cancel", "ends its work; it stays in the space"),
            ),
            tail="text",
            body=True,
            either=("--start", "--stop", "--cancel"),
            note="%%agent NAME is the same as %%mew agent NAME: the body of the cell is the system prompt.",
        ),
        "tools-agent": Command(
            "makes, edits, tests or serves an agent file, whose tools are prompts",
            "ACTION FILE [--tool TOOL] [--call ID] [--log PATH] [--model M] [--base-url URL] [--key-env VARIABLE] "
            "[ARGUMENTS]",
            (
                CommandOption(
                    "ACTION",
                    "new writes a first file and opens it; edit opens it; test runs a tool; serve seats the agent; "
                    "replay makes a call of the log again",
                    "action",
                    {"choices": ("new", "edit", "test", "serve", "replay")},
                ),
                CommandOption("FILE", "the agent file, YAML or JSON", "path"),
                CommandOption("--tool", "test: the tool; default: the first one"),
                CommandOption("--call", "replay: the id of the request of a call in the log"),
                CommandOption("--log", "replay: the file of the log; default: that of the space", "path"),
                CommandOption("--model", "another model than that of the file", "model"),
                *_MODEL_SERVER,
            ),
            tail="arguments",
            body=True,
            note=_ARGUMENTS + " They are those of the tested tool.",
            method="lab.tools_agent",
        ),
        "agents": Command("lists the agents of this kernel and what they work on"),
        "ask": Command(
            "asks an agent or another participant; await the value for the answer",
            "NAME [--as SEAT] TEXT",
            (CommandOption("NAME", "the participant that is asked", "participant"), _AS),
            tail="text",
            body=True,
        ),
        "who": Command("lists the participants and what they may send"),
        "invite": Command(
            "invites a participant; writes its token to a file, and shows the line that joins",
            "NAME [--can PROFILE] [--mail ADDRESS] [--timeout SECONDS] [REASON]",
            (
                CommandOption("NAME", "its participant id"),
                CommandOption(
                    "--can", "its profile of permissions; default: to chat and to propose", "profile"
                ),
                CommandOption("--mail", "an address that gets the line, by the command in MEW_LAB_MAIL"),
                _TIMEOUT,
            ),
            tail="text",
            note=_REASON + " %mew kick NAME takes the invitation back.",
        ),
        "enrol": Command(
            "enrols a participant of another process, and shows the line that joins",
            "NAME [--can PROFILE]",
            (
                CommandOption("NAME", "its participant id"),
                CommandOption(
                    "--can", "its profile of permissions; default: agent", "profile", {"default": "agent"}
                ),
            ),
        ),
        "leave": Command(
            "makes a participant of this kernel leave the space",
            "NAME",
            (CommandOption("NAME", "its name", "seat"),),
        ),
        "pause": Command(
            "pauses a participant: it sends nothing new",
            "NAME [--minutes N] [--timeout SECONDS] [REASON]",
            (_OF, _MINUTES, _TIMEOUT),
            tail="text",
            note=_REASON + " Without --minutes it lasts until resume.",
            method="lab.of(NAME).pause",
        ),
        "resume": Command(
            "ends the pause of a participant",
            "NAME [--timeout SECONDS] [REASON]",
            (_OF, _TIMEOUT),
            tail="text",
            note=_REASON,
            method="lab.of(NAME).resume",
        ),
        "pause-all": Command(
            "pauses all agents; tools and people go on", "[REASON]", tail="text", note=_REASON
        ),
        "resume-all": Command(
            "resumes the agents that you have paused", "[REASON]", tail="text", note=_REASON
        ),
        "forget": Command(
            "makes a participant drop messages from one end of its context",
            "NAME [--entries N] [--direction D] [--sure] [--timeout SECONDS]",
            (
                _OF,
                CommandOption("--entries", "how many; default: as it decides", "", {"type": int}),
                CommandOption(
                    "--direction",
                    "the end: oldest (default) or newest",
                    "",
                    {"choices": ("oldest", "newest"), "default": "oldest"},
                ),
                _SURE,
                _TIMEOUT,
            ),
            method="lab.of(NAME).forget",
        ),
        "compact": Command(
            "makes a participant summarize its context",
            "NAME [--tokens N] [--timeout SECONDS] [REASON]",
            (_OF, CommandOption("--tokens", "the tokens to aim at", "", {"type": int}), _TIMEOUT),
            tail="text",
            note=_REASON,
            method="lab.of(NAME).compact",
        ),
        **{
            name: Command(
                about,
                "NAME [--sure] [--timeout SECONDS] [REASON]",
                (_OF, _SURE, _TIMEOUT),
                tail="text",
                note=_REASON,
                method=f"lab.of(NAME).{name}",
            )
            for name, about in {
                "clear": "makes a participant erase its whole context",
                "restart": "makes a participant return to its initial state",
                "shutdown": "makes a participant end all activity and leave",
                "kick": "removes a participant; its tokens become invalid",
            }.items()
        },
        "cancel-reasoning": Command(
            "cancels the reasoning of a participant that goes on",
            "NAME [--id ID] [REASON]",
            (_OF, CommandOption("--id", "the id of one sequence, or its beginning; default: all")),
            tail="text",
            note="REASON: default cancelled.",
            method="lab.of(NAME).cancel_reasoning",
        ),
        "grant": Command(
            "gives a participant permissions",
            "NAME [--can PROFILE | --tool PARTICIPANT/TOOL] [--minutes N] [--uses N] [--session] [--preview] [PATTERN]",
            (
                _OF,
                CommandOption("--can", "the permissions of a profile", "profile"),
                CommandOption("--tool", "to call this tool, with any arguments", "tool"),
                _MINUTES,
                CommandOption("--uses", "the messages after which it ends", "", {"type": int}),
                _switch("--session", "it also ends when this lab goes down"),
                _switch("--preview", "tells what that would allow, and gives nothing"),
            ),
            tail="body",
            body=True,
            either=("--can", "--tool"),
            note='PATTERN: such as {"kind": "chat"}. %mew undo revokes what was given last.',
            method="lab.of(NAME).grant",
        ),
        "revoke": Command(
            "revokes a permission of a participant",
            "NAME [--grant ID] [--sure] [PATTERN]",
            (_OF, CommandOption("--grant", "the id of a grant, or its beginning", "grant"), _SURE),
            tail="body",
            body=True,
            note="PATTERN: all that it matches. Without either, the one grant that you gave it.",
            method="lab.of(NAME).revoke",
        ),
        "tools": Command(
            "shows the tools, with a form for each; with PARTICIPANT: lists its tools",
            "[PARTICIPANT]",
            (
                CommandOption(
                    "PARTICIPANT", "lists only the tools of this participant", "participant", _MAYBE
                ),
            ),
            method="lab.tools",
        ),
        "chat": Command(
            "shows the chat; with TEXT: sends it",
            "[--to ID] [--as SEAT] TEXT",
            (_TO, _AS),
            tail="text",
            body=True,
            method="lab.chat",
        ),
        "acknowledge": Command(
            "acknowledges a chat message that waits for you; without ID: all of them",
            "[ID] [--status S] [--as SEAT]",
            (
                CommandOption("ID", "the id or the number of the message", "chat", _MAYBE),
                CommandOption("--status", "such as received (default) or read", "", {"default": "received"}),
                _AS,
            ),
        ),
        "stream": Command(
            "opens, writes, reads, shares or closes a stream",
            "ACT [ID] [--to ID] [--download] [--description D] [--timeout SECONDS] [--as SEAT] [TEXT]",
            (
                CommandOption(
                    "ACT",
                    "list; open; or, with ID: take, write TEXT, read a frame, grant, revoke or transfer to the "
                    "participant TEXT, close",
                    "act",
                    {"choices": STREAM_ACTS},
                ),
                CommandOption("ID", "the id of the stream, or its beginning", "stream", _MAYBE),
                _TO,
                _switch("--download", "open: you read, and others whom you grant it write"),
                CommandOption("--description", "open: what it is for"),
                CommandOption("--timeout", "read: seconds to wait for a frame", "", {"type": float}),
                _AS,
            ),
            tail="text",
            note="s = %mew stream take ID gives the stream for `async for data in s`.",
            method="lab.stream",
        ),
        "send": Command(
            "sends a message of any kind",
            "KIND [--to ID] [--correlation ID] [--context C] [--as SEAT] [BODY]",
            (
                CommandOption("KIND", "the kind, such as chat or mcp/request", "kind"),
                _TO,
                CommandOption(
                    "--correlation", "the id of a message that this one answers; may be repeated", "", _MANY
                ),
                CommandOption("--context", "the context of the message"),
                _AS,
            ),
            tail="body",
            body=True,
            note="The payload is BODY, or the body of a %%mew cell: JSON where it begins with {, else YAML.",
        ),
        "call": Command(
            "calls a tool; where that needs an approval, proposes the call",
            "PARTICIPANT/TOOL [--as SEAT] [ARGUMENTS]",
            (_TARGET, _AS),
            tail="arguments",
            body=True,
            note=_ARGUMENTS,
        ),
        "propose": Command(
            "proposes a call, which somebody has to approve",
            "PARTICIPANT/TOOL [--as SEAT] [ARGUMENTS]",
            (_TARGET, _AS),
            tail="arguments",
            body=True,
            note=_ARGUMENTS,
        ),
        "proposals": Command(
            "lists the open proposals",
            "[--all]",
            (_switch("--all", "lists the decided proposals too"),),
        ),
        "approve": Command(
            "approves a proposal, once its whole card was shown",
            "ID [--option NAME] [--digest D] [--to ID] [--despite WHAT]",
            (
                _ID,
                CommandOption("--option", "the id or name of an option of an agent that asks", "option"),
                CommandOption("--digest", "the first 8 characters of the shown digest"),
                CommandOption("--to", "the target, for a proposal that names none", "participant", _MANY),
                CommandOption(
                    "--despite",
                    "approves it though a participant has rejected it, or an equal call's outcome is unknown",
                    "",
                    {"choices": ["rejected", "unknown"], "action": "append"},
                ),
            ),
            note="Without --digest the first call shows the whole card, and the second approves it.",
        ),
        "reject": Command(
            "rejects a proposal", "ID [REASON]", (_ID,), tail="text", note="REASON: default disagree."
        ),
        "withdraw": Command(
            "withdraws a proposal of a seat of this kernel",
            "ID [REASON]",
            (_ID,),
            tail="text",
            note="REASON: default no_longer_needed.",
        ),
        "cancel": Command(
            "cancels a call that runs, or a chat message",
            "ID [REASON]",
            (CommandOption("ID", "the id of the request, of the proposal or of the message", "call"),),
            tail="text",
            note="REASON: default no_longer_needed. The outcome of a call is its answer if one comes, else unknown.",
        ),
        "stop": Command(
            "stops all at once: nothing is approved, calls are cancelled, agents paused",
            note="It tells what was seen to happen. Rejecting and withdrawing still work.",
            lenient=True,
        ),
        "go": Command(
            "goes on after stop: lists what that undoes, and repeated, does it",
            note="Calls that were cancelled are not made again.",
        ),
        "load": Command(
            "gives the whole result of an answered call, loaded where it was too large",
            "ID [--timeout SECONDS]",
            (
                CommandOption("ID", "the id of the request or of the proposal", "call"),
                CommandOption("--timeout", "seconds that loading may take", "", {"type": float}),
            ),
        ),
        "resolve": Command(
            "records what you found out about a call whose outcome is unknown",
            "ID (--happened | --not-happened) [NOTE]",
            (
                CommandOption("ID", "the id of the request or of the proposal", "call"),
                _switch("--happened", "the call took effect"),
                _switch("--not-happened", "the call took no effect"),
            ),
            tail="text",
            either=("--happened", "--not-happened"),
            note="NOTE: what you found out, and how. It is recorded in your name.",
        ),
        "questions": Command("shows what MCP servers ask you"),
        "answer": Command(
            "answers a question of an MCP server, once its text was shown",
            "ID [--decline | --cancel] [ARGUMENTS]",
            (
                CommandOption("ID", "the id of the question, or its beginning", "question"),
                _switch("--decline", "says no to it"),
                _switch("--cancel", "dismisses it without an answer"),
            ),
            tail="arguments",
            body=True,
            either=("--decline", "--cancel"),
            note=_ARGUMENTS + " They are the values of its form.",
        ),
        "rules": Command(
            "lists the rules that your decisions suggest; tries, adopts or stops one",
            "[ACT] [--sure] [RULE]",
            (
                CommandOption(
                    "ACT",
                    "try judges in silence; adopt approves calls, after it has shown what it would have decided; stop "
                    "ends that, of all where no RULE is named; look goes on with one that paused; show shows its words",
                    "",
                    {**_MAYBE, "choices": ("try", "adopt", "stop", "look", "show")},
                ),
                _SURE,
            ),
            tail="text",
            note="RULE: its number, or a sentence that begins with When.",
        ),
        "undo": Command("revokes the permission that you gave last"),
        "view": Command(
            "shows one part of the control room",
            "PART",
            (CommandOption("PART", "the name of the part", "part"),),
            method="lab.view",
        ),
        # `chat` and `tools` are actions too, where something stands behind them; `rules` lists and acts.
        **{
            name: Command(f"shows {about}", method=f"lab.view.{name}")
            for name, about in PARTS.items()
            if name not in ("chat", "rules", "tools")
        },
        "history": Command("lists the decisions so far, and who or what made each"),
        "log": Command(
            "returns the log, or the messages that pass a filter; .df is the table",
            "[FILTER]",
            tail="filter",
            note='FILTER: such as kind ~ "mcp/*" and from in (agent, helper); words search the text.',
            method="lab.log.filter",
        ),
        "diagnose": Command(
            "reports the faults and oddities of the log, the worst first",
            "[SEVERITY]",
            (
                CommandOption(
                    "SEVERITY",
                    "the least severity: note (default), warn, error or fatal",
                    "severity",
                    {"nargs": "?", "default": "note"},
                ),
            ),
            method="lab.log.diagnose",
        ),
        "save": Command(
            "writes the log to a file that mew_lab.open_log opens",
            "PATH",
            (CommandOption("PATH", "the file to write", "path"),),
        ),
        "report": Command(
            "writes the session as one HTML page: decisions, calls, chat, messages",
            "PATH [--overwrite]",
            (
                CommandOption("PATH", "the file to write, such as session.html", "path"),
                _switch("--overwrite", "replaces an existing file"),
            ),
        ),
        "ui": Command(
            "serves the panel to a browser without Jupyter, and shows a link to it",
            "[ACT] [--port N] [--origin URL]",
            (
                CommandOption("ACT", "end signs every browser out", "", {**_MAYBE, "choices": ("end",)}),
                CommandOption(
                    "--port", "the port on 127.0.0.1; default: a free one", "", {"type": int, "default": 0}
                ),
                CommandOption(
                    "--origin",
                    "the address of your TLS proxy that leads there, such as https://lab.example.org",
                ),
            ),
            note="The link is good for one use within two minutes. A browser stays signed in for 12 hours of rest.",
            method="lab.serve_ui",
        ),
        "status": Command(
            "shows the state: participants, journal, policy, faults; with NAME: asks that one",
            "[NAME] [--timeout SECONDS]",
            (CommandOption("NAME", "the participant that is asked", "participant", _MAYBE), _TIMEOUT),
            note="lab.of(NAME).status() asks a participant.",
        ),
        "faults": Command(
            "lists the errors of the background, such as those of your own handlers",
            method="lab.faults",
        ),
        "help": Command(
            "shows this list, or the options of one command",
            "[COMMAND]",
            (CommandOption("COMMAND", "the name of the command", "command", _MAYBE),),
            method="mew_lab.notebook.commands.overview",
        ),
    }
)


# The commands as `%mew help` groups them.
GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Start": ("up", "down", "connect", "use", "status", "faults", "help"),
        "People": (
            *(
                "who",
                "join",
                "invite",
                "enrol",
                "leave",
                "bridge",
                "bridge-all",
                "code",
                "agent",
                "tools-agent",
                "agents",
                "ask",
            ),
            *("chat", "acknowledge"),
        ),
        "Control": (
            *(
                "pause",
                "resume",
                "pause-all",
                "resume-all",
                "forget",
                "compact",
                "clear",
                "restart",
                "shutdown",
                "kick",
            ),
            *("cancel-reasoning", "grant", "revoke", "undo"),
        ),
        "Calls": ("tools", "call", "propose", "send", "stream", "withdraw", "cancel", "load", "stop", "go"),
        "Decide": ("proposals", "approve", "reject", "questions", "answer", "resolve", "rules", "history"),
        "Look": (
            "view",
            "panel",
            *(name for name in PARTS if name not in ("chat", "panel", "rules", "tools")),
            "ui",
        ),
        "Log": ("log", "diagnose", "save", "report"),
    }
)


# The methods that no command calls, and why.
WITHOUT_COMMAND: Mapping[str, str] = MappingProxyType(
    {
        "lab.allow_sampling": "takes a Model; %mew bridge --sampling names one",
        "lab.end_ui": "is %mew ui end",
        "lab.join_line": "%mew enrol and %mew invite show the line",
        "lab.of": "%mew pause NAME … are its methods",
        "lab.on_proposal": "takes a function",
        "lab.seat": "is --as SEAT",
        "lab.serve_mcp": "runs a server for coding agents; mew-lab mcp is its command",
        "lab.set_roots": "takes the roots of a server anew; %mew bridge --root names them",
        "lab.streams": "is %mew stream list; %mew streams shows the view",
        "lab.token_file": "%mew enrol and %mew invite write the file",
        "lab.tool": "is a decorator",
        "lab.tool_approvals": "is an object for the code of an agent framework",
        "lab.of(NAME).status": "is %mew status NAME",
        "seat.run": "takes a coroutine",
        "seat.tool": "is a decorator",
        "seat.obeys": "what an approver asks of the seat of an agent",
        "seat.check_draft": "belongs to the views",
    }
)


def method_of(name: str) -> str:
    """What does the same in Python as a command, such as `lab.of(NAME).pause`."""
    return COMMANDS[name].method or f"lab.{name.replace('-', '_')}"


@dataclass(frozen=True, slots=True, repr=False)
class Help:
    """The usage of a command, its effect, and the meaning of each argument."""

    usage: str
    about: str
    rows: tuple[tuple[str, str], ...]
    note: str = ""
    groups: tuple[tuple[str, int], ...] = ()  # the title of a group, and the number of its rows

    def __str__(self) -> str:
        width = max((len(argument) for argument, _ in self.rows), default=0)
        lines = [self.usage, self.about]
        for title, rows in self.grouped:
            lines += [title] if title else []
            lines += [f"  {argument.ljust(width)}  {about}" for argument, about in rows]
        return "\n".join([*lines, self.note] if self.note else lines)

    @property
    def grouped(self) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
        """The rows below the titles of their groups; one group without a title where there are none."""
        if not self.groups:
            return [("", self.rows)]
        ends = list(accumulate(count for _, count in self.groups))
        return [
            (title, self.rows[end - count : end])
            for (title, count), end in zip(self.groups, ends, strict=True)
        ]

    def __repr__(self) -> str:
        return str(self)


def overview() -> Help:
    """The help on all commands: one line each, by what they are for."""
    return Help(
        "%mew COMMAND …",
        "a space of the MEW Protocol in this notebook",
        tuple((name, COMMANDS[name].about) for names in GROUPS.values() for name in names),
        "%mew help COMMAND lists the options, and names the method that does the same in Python.",
        tuple((title, len(names)) for title, names in GROUPS.items()),
    )


def command_help(name: str) -> Help:
    """The help on one sub-command with its options."""
    command = COMMANDS[name]
    profiled = any(option.names == "profile" for option in command.options)
    own = f"Patterns of your own: can=[…] of the method. {SEE}" if profiled else ""
    cell = f"; %%mew {name} takes the rest from the body of the cell" if command.body else ""
    return Help(
        f"%mew {name} {command.usage}".rstrip(),
        command.about + cell,
        tuple((option.flag, option.about) for option in command.options),
        " ".join(filter(None, [command.note, own, f"In Python: {method_of(name)}"])),
    )
