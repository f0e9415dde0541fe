"""The magics `%mew`, `%%mew` and `%%agent`: each parses its line, calls one method of a lab, and returns the result.

Nothing is decided or formatted here: a line of Python does the same as each sub-command.
"""

from __future__ import annotations

import functools
import getpass
import os
import re
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.error import StdinNotImplementedError, UsageError
from IPython.core.magic import (
    Magics,
    cell_magic,
    line_cell_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
)

from mew_lab.errors import HeadsDiffer
from mew_lab.lab.shared_options import executor_arguments, person_arguments, writes_by_server, writes_of
from mew_lab.notebook.commands import COMMANDS, command_help, overview
from mew_lab.notebook.parser import ParsedLine, parse
from mew_lab.protocol.permit import PROFILES
from mew_lab.views.views import PARTS

if TYPE_CHECKING:
    from mew_lab.lab.lab import Lab
    from mew_lab.sdk.result_store import ResultLimits

__all__ = ["RULES", "MewMagics"]

Rule = Callable[[Namespace, Any], object]
GIVES_LAB = frozenset({"up", "connect", "use"})


def _lab() -> Lab:
    from mew_lab.lab.labs import current

    return current()


# --- the sub-commands, in the order of commands.py ----------------------------------------------------------


def up(options: Namespace, tail: Any) -> object:
    import mew_lab
    from mew_lab.gateway.space_file import names_file, read_space_file

    journal = None if options.no_journal else options.journal or "auto"
    name = options.name or "demo"
    if names_file(name):
        file = read_space_file(name)
        for remark in file.remarks:
            print(f"note: {remark}")
        # The programs will run with the user's rights, so their commands are shown before they start.
        for line in () if options.no_auto_start else file.command_lines:
            print(f"starting {line} in {file.folder}", flush=True)
    start = functools.partial(
        mew_lab.up,
        name,
        as_id=options.as_id,
        journal=journal,
        port=options.port,
        auto_start=not options.no_auto_start,
        resume=options.resume,
        results=_limits(options),
        **person_arguments(options),
    )
    try:
        return start()
    except HeadsDiffer as differ:
        _ask_to_ignore_heads(differ)
    return start(heads="ignore")


def _ask_to_ignore_heads(differ: HeadsDiffer) -> None:
    """Shows what is missing, and asks for a typed yes.

    Raises:
        HeadsDiffer: No yes was typed.
    """
    for sentence in differ.missing:
        print(f"note: {sentence}")
    try:
        answer = input("The kept heads do not vouch for this journal. Type yes to go on all the same: ")
    except (StdinNotImplementedError, EOFError):
        answer = ""
    if answer.strip().lower() != "yes":
        raise differ


def connect(options: Namespace, tail: Any) -> object:
    import mew_lab

    token = None
    if options.url is None:  # the space of this folder has its token
        if options.token_env is not None or options.token_file is not None:
            raise UsageError("%mew connect: a token and no URL to send it to; give the URL, too")
    elif options.space is None:
        raise UsageError("%mew connect: with URL it needs the name of the space: --space S")
    elif options.token_env is None and options.token_file is None:
        token = _ask_token(options.space)
    elif options.token_env is not None and options.token_env not in os.environ:
        raise UsageError(
            f"%mew connect: the environment variable {options.token_env} is not set in this kernel"
        )
    return mew_lab.connect(
        options.url,
        space=options.space,
        token=token,
        token_file=options.token_file,
        token_env=options.token_env,
        as_id=options.as_id,
        name=options.name,
        results=_limits(options),
        **person_arguments(options),
    )


def _limits(options: Namespace) -> ResultLimits | None:
    """How much is kept of results that no message can hold; None where no option says so."""
    from mew_lab.sdk.result_store import ResultLimits

    return ResultLimits.stated(options)


def _ask_token(space: str) -> str:
    try:
        token = getpass.getpass(f"Token for the space {space}: ").strip()
    except (StdinNotImplementedError, EOFError):
        token = ""
    if not token:
        raise UsageError("%mew connect: no token was entered; use --token-env NAME or --token-file PATH")
    return token


def bridge(options: Namespace, tail: Any) -> object:
    if not tail:
        raise UsageError(
            f"%mew bridge: the command of the server is missing; write %mew bridge {COMMANDS['bridge'].usage}"
        )
    from mew_lab.bridge.process import ServerProcess
    from mew_lab.bridge.remote import is_url

    lab = _lab()
    if options.name in lab.seats:
        raise UsageError(
            f"%mew bridge: a participant named {options.name!r} already exists. "
            f"Use another name, or lab.leave({options.name!r})"
        )
    asks: dict[str, Any] = {"sampling": options.sampling} if options.sampling else {}
    asks |= {"roots": options.root} if options.root else {}
    asks |= {"strict_unknown": True} if options.strict_unknown else {}
    asks |= {} if (limits := _limits(options)) is None else {"results": limits}
    asks |= executor_arguments(options)
    asks |= {"writes": writes_of(options.writes)} if options.writes else {}
    if len(tail) == 1 and is_url(tail[0]):
        return lab.bridge(options.name, tail[0], can=options.can, **asks)
    server = ServerProcess(tail, cwd=Path.cwd(), env=options.env)
    # A foreign program will run with the user's rights, so its command is shown before it starts.
    print(f"starting {server.command_line} in {server.cwd}", flush=True)
    return lab.bridge(options.name, tail, env=options.env, can=options.can, **asks)


def code(options: Namespace, tail: Any) -> object:
    stated = {
        name: getattr(options, name) for name in ("mode", "session", "files", "turns", "minutes", "tokens")
    }
    more = {name: value for name, value in stated.items() if value is not None}
    more |= {name: True for name in ("tools", "ask_once") if getattr(options, name)}
    agent: Any = list(tail) if tail else options.agent
    if tail:
        # A foreign program will run with the user's rights, so its command is shown before it starts.
        from mew_lab.bridge.process import ServerProcess

        print(f"starting {ServerProcess(agent, cwd=Path.cwd()).command_line} in {Path.cwd()}", flush=True)
    return _lab().coding_agent(agent, options.name or options.agent, env=options.env, can=options.can, **more)


def bridge_all(options: Namespace, tail: Any) -> object:
    more: dict[str, Any] = {"writes": writes_by_server(options.writes)} if options.writes else {}
    more |= executor_arguments(options)
    return _lab().bridge_all(options.file, only=options.only, trust=options.trust, can=options.can, **more)


def agent(options: Namespace, tail: Any) -> object:
    lab = _lab()
    if options.name not in lab.seats:
        if options.start or options.stop or options.cancel:
            raise UsageError(
                f"%mew agent: there is no agent {options.name!r} in this kernel; %mew agent {options.name} seats one"
            )
        key = _from_environment(options.key_env) if options.key_env else None
        settings = {"system_prompt": tail} if tail else {}
        return lab.agent(
            options.name,
            model=options.model,
            base_url=options.base_url,
            api_key=key,
            can=options.can or "agent",
            **settings,
        )
    from mew_lab.lab.agent_seat import as_agent_seat

    seat = as_agent_seat(lab.seat(options.name))
    if options.model or options.base_url or options.key_env or options.can:
        raise UsageError(
            f"%mew agent: {options.name!r} is here already, with {seat.agent.model.name}; "
            f"lab.leave({options.name!r}) first"
        )
    for verb in ("start", "stop", "cancel"):
        if getattr(options, verb):
            return getattr(seat, verb)()
    return seat.configure(system_prompt=tail) if tail else seat.status()


def _from_environment(name: str) -> str:
    if name not in os.environ:
        raise UsageError(f"The environment variable {name} is not set in this kernel")
    return os.environ[name]


def rules(options: Namespace, tail: Any) -> object:
    listed, act, which = _lab().rules, options.act, (tail or "").strip()
    if act is None:
        return listed
    if not which and act != "stop":
        raise UsageError(f"%mew rules {act}: name the rule, such as %mew rules {act} 1")
    if options.sure and act != "adopt":
        raise UsageError(f"%mew rules {act}: only adopt takes --sure")
    if act == "adopt":
        return listed.adopt(which, sure=options.sure)
    if act == "show":
        return listed.show(which)
    return (
        listed.stop(which or None) if act == "stop" else {"try": listed.try_, "look": listed.look}[act](which)
    )


def tools_agent(options: Namespace, tail: Any) -> object:
    from mew_lab.lab.tools_agent_seat import replay_call, run_tool
    from mew_lab.log.log import open_log
    from mew_lab.tools_agent.agent_file import read_agent_file, write_first_file

    lab, file = _lab(), Path(options.file).expanduser()
    for option, action in (("call", "replay"), ("log", "replay"), ("tool", "test")):
        if getattr(options, option) and options.action != action:
            raise UsageError(f"%mew tools-agent {options.action}: only {action} takes --{option}")
    if tail and options.action != "test":
        raise UsageError(f"%mew tools-agent {options.action}: only test takes arguments of a tool")
    how = {
        "base_url": options.base_url,
        "api_key": _from_environment(options.key_env) if options.key_env else None,
    }
    if options.action == "serve":
        return lab.tools_agent(file, model=options.model, **how)
    if options.action == "test":
        agent = read_agent_file(file).with_model(options.model)
        tool = options.tool or next((tool.name for tool in agent.tools), "")
        return run_tool(lab.loop, agent, tool, tail or {}, folder=file.absolute().parent, **how)
    if options.action == "replay":
        if options.call is None:
            raise UsageError("%mew tools-agent replay: name the request of a call in the log with --call ID")
        log = open_log(options.log) if options.log else lab.log
        agent = read_agent_file(file).with_model(options.model)
        return replay_call(lab.loop, agent, log, options.call, folder=file.absolute().parent, **how)
    if options.action == "new":
        write_first_file(file)
    workshop = lab.view.workshop
    workshop.open_file(file, model=options.model, **how)
    return workshop


def ask(options: Namespace, tail: Any) -> object:
    if not tail:
        raise UsageError(f"%mew ask: the question is missing; write %mew ask {COMMANDS['ask'].usage}")
    return _lab().seat(options.as_id).ask(tail, options.name)


def chat(options: Namespace, tail: Any) -> object:
    if not tail:
        if options.to or options.as_id:
            raise UsageError(f"%mew chat: the text is missing; write %mew chat {COMMANDS['chat'].usage}")
        return _lab().view.chat
    return _lab().seat(options.as_id).chat(tail, to=options.to)


def approve(options: Namespace, tail: Any) -> object:
    shown = {"digest": options.digest} if options.digest else {}
    shown |= {"despite": options.despite} if options.despite else {}
    shown |= {"option": options.option} if options.option else {}
    return _lab().approve(options.id, to=options.to or None, **shown)


def resolve(options: Namespace, tail: Any) -> object:
    if not (options.happened or options.not_happened):
        raise UsageError(
            f"%mew resolve: say whether it happened; write %mew resolve {COMMANDS['resolve'].usage}"
        )
    return _lab().resolve(options.id, happened=options.happened, **({"note": tail} if tail else {}))


def answer(options: Namespace, tail: Any) -> object:
    action = "decline" if options.decline else "cancel" if options.cancel else "accept"
    return _lab().answer(options.id, tail or None, action=action)


def view(options: Namespace, tail: Any) -> object:
    if options.part not in PARTS:
        raise UsageError(
            f"%mew view: there is no part {options.part[:40]!r}; the parts are {', '.join(PARTS)}"
        )
    return getattr(_lab().view, options.part)


def ui(options: Namespace, tail: Any) -> object:
    if options.act == "end":
        return _lab().end_ui()
    return _lab().serve_ui(port=options.port, origin=options.origin)


def faults(options: Namespace, tail: Any) -> object:
    from mew_lab.lab.listing import Listing

    rows: list[tuple[Any, ...]] = [(text,) for text in _lab().faults]
    return Listing("errors of the background", ("what",), rows, empty="no errors so far")


def _use(name: str) -> Lab:
    from mew_lab.lab.labs import use

    return use(name)


def _timeout(options: Namespace) -> dict[str, Any]:
    return {} if options.timeout is None else {"timeout": options.timeout}


def _control(verb: str, *names: str) -> Rule:
    """A command that is the method `verb` of a participant; `names` are the options that are its arguments."""

    number = next((name for name in names if name in ("minutes", "tokens")), "")

    def control(options: Namespace, tail: Any) -> object:
        if number and tail and re.match(r"[\d.]*\d", tail):
            raise UsageError(
                f"%mew {verb}: {tail[:30]!r} would be the reason; for a number write --{number} N, and begin a reason "
                "with a word"
            )
        given = {name: getattr(options, name) for name in names}
        given = {name: value for name, value in given.items() if value not in (None, False)}
        return getattr(_lab().of(options.name), verb)(**given, **_timeout(options), **_reason(tail))

    return control


def status(options: Namespace, tail: Any) -> object:
    if options.name:
        return _lab().of(options.name).status(**_timeout(options))
    return _lab().status()


def cancel_reasoning(options: Namespace, tail: Any) -> object:
    return _lab().of(options.name).cancel_reasoning(options.id, **_reason(tail))


def grant(options: Namespace, tail: Any) -> object:
    if sum(bool(given) for given in (options.can, options.tool, tail)) != 1:
        raise UsageError(
            f"%mew grant: give a pattern, --can or --tool; write %mew grant {COMMANDS['grant'].usage}"
        )
    given: dict[str, Any] = {"tool": options.tool, "minutes": options.minutes, "uses": options.uses}
    given = {name: value for name, value in given.items() if value is not None}
    given |= {name: True for name in ("session", "preview") if getattr(options, name)}
    return _lab().of(options.name).grant(*([tail or options.can] if tail or options.can else []), **given)


def revoke(options: Namespace, tail: Any) -> object:
    if options.grant and tail:
        raise UsageError("%mew revoke: give a pattern or --grant ID, one of them")
    sure: dict[str, Any] = {"sure": True} if options.sure else {}
    return _lab().of(options.name).revoke(tail or options.grant, **sure)


def invite(options: Namespace, tail: Any) -> object:
    if tail in PROFILES and not options.can:
        raise UsageError(f"%mew invite: {tail!r} would be the reason; for the profile write --can {tail}")
    return _lab().invite(options.name, options.can, mail=options.mail, **_timeout(options), **_reason(tail))


def stream(options: Namespace, tail: Any) -> object:
    act, lab = options.act, _lab()
    if act != "open" and (options.to or options.download or options.description):
        raise UsageError(f"%mew stream {act}: only open takes --to, --download and --description")
    if act != "read" and options.timeout is not None:
        raise UsageError(f"%mew stream {act}: only read takes --timeout")
    if (options.id is None) != (act in ("list", "open")):
        needs = "takes no ID" if options.id else "needs the ID of an open stream; %mew stream list has them"
        raise UsageError(f"%mew stream {act}: it {needs}")
    if act in ("write", "grant", "revoke", "transfer") and not tail:
        what = "text" if act == "write" else "participant"
        raise UsageError(
            f"%mew stream {act}: the {what} is missing; write %mew stream {act} ID {what.upper()}"
        )
    if act in ("list", "open", "take", "read") and tail:
        raise UsageError(f"%mew stream {act}: {tail[:30]!r} is too much")
    if act == "list":
        return lab.streams()
    seat = lab.seat(options.as_id)
    if act == "open":
        asked: dict[str, Any] = {"direction": "download"} if options.download else {}
        asked |= {"description": options.description} if options.description else {}
        return seat.stream(to=options.to, **asked)
    taken = seat.stream(options.id)
    if act == "take":
        return taken
    if act == "read":
        return taken.read(**_timeout(options))
    return getattr(taken, act)(*([tail] if tail else []))


def _reason(tail: Any) -> dict[str, Any]:
    return {"reason": tail} if tail else {}


def _send(options: Namespace, tail: Any) -> object:
    more = {"to": options.to, "correlation_id": options.correlation, "context": options.context}
    return _lab().seat(options.as_id).send(options.kind, tail, **more)


# What is one call of a method, or of the part of `lab.view` that has the command's name.
RULES: Mapping[str, Rule] = {
    **{name: lambda options, tail, part=name: getattr(_lab().view, part) for name in PARTS},  # type: ignore[misc]
    **{
        name: lambda options, tail, verb=name: getattr(_lab(), verb)()  # type: ignore[misc]
        for name in ("down", "agents", "who", "questions", "stop", "go", "undo", "history")
    },
    **{name: _control(name, "sure") for name in ("clear", "restart", "shutdown", "kick")},
    "rules": rules,
    "status": status,
    "pause": _control("pause", "minutes"),
    "resume": _control("resume"),
    "pause-all": lambda options, tail: _lab().pause_all(**_reason(tail)),
    "resume-all": lambda options, tail: _lab().resume_all(**_reason(tail)),
    "forget": _control("forget", "entries", "direction", "sure"),
    "compact": _control("compact", "tokens"),
    "cancel-reasoning": cancel_reasoning,
    "grant": grant,
    "revoke": revoke,
    "invite": invite,
    "enrol": lambda options, tail: _lab().enrol(options.name, options.can),
    "leave": lambda options, tail: _lab().leave(options.name),
    "acknowledge": lambda options, tail: _lab().acknowledge(
        options.id or "", status=options.status, as_id=options.as_id
    ),
    "stream": stream,
    "load": lambda options, tail: _lab().load(options.id, **_timeout(options)),
    "up": up,
    "ui": ui,
    "use": lambda options, tail: _use(options.name),
    "connect": connect,
    "bridge": bridge,
    "bridge-all": bridge_all,
    "code": code,
    "join": lambda options, tail: _lab().join(options.name, can=options.can, rules_of=options.rules_of),
    "agent": agent,
    "tools-agent": tools_agent,
    "ask": ask,
    "tools": lambda o, tail: _lab().tools(o.participant) if o.participant else _lab().view.tools,
    "chat": chat,
    "send": _send,
    "call": lambda options, tail: _lab().seat(options.as_id).call(options.target, tail),
    "propose": lambda options, tail: _lab().seat(options.as_id).propose(options.target, tail),
    "proposals": lambda options, tail: _lab().proposals(all=options.all),
    "approve": approve,
    "reject": lambda options, tail: _lab().reject(options.id, **_reason(tail)),
    "withdraw": lambda options, tail: _lab().withdraw(options.id, **_reason(tail)),
    "cancel": lambda options, tail: _lab().cancel(options.id, **_reason(tail)),
    "resolve": resolve,
    "answer": answer,
    "view": view,
    "log": lambda options, tail: _lab().log.filter(tail) if tail else _lab().log,
    "diagnose": lambda options, tail: _lab().log.diagnose(options.severity),
    "save": lambda options, tail: _lab().save(options.path),
    "report": lambda options, tail: _lab().report(options.path, overwrite=options.overwrite),
    "faults": faults,
    "help": lambda options, tail: command_help(options.command) if options.command else overview(),
}


@magics_class
class MewMagics(Magics):
    """The magics `%mew`, `%%mew` and `%%agent`."""

    @needs_local_scope
    @no_var_expand
    @line_cell_magic
    def mew(self, line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None) -> object:
        # The docstring, which %mew? shows, is the overview; it is set below.
        return self._obey(line, cell, local_ns)

    def _obey(self, line: str, cell: str | None, local_ns: dict[str, Any] | None) -> object:
        shell = self.shell
        assert shell is not None  # a magic runs in a shell
        names = {**shell.user_ns, **(local_ns or {})}
        request = parse(line, names=names, body=cell)
        if request.help:
            return command_help(request.command)
        value = self._run(request)
        if request.command in GIVES_LAB:
            shell.user_ns["lab"] = value
        return value

    @needs_local_scope
    @no_var_expand
    @cell_magic
    def agent(self, line: str, cell: str, local_ns: dict[str, Any] | None = None) -> object:
        """`%%agent NAME`: the body of the cell is the system prompt of that agent; see `%mew help agent`."""
        return self._obey(f"agent {line}", cell, local_ns)

    def _run(self, request: ParsedLine) -> object:
        try:
            return RULES[request.command](request.options, request.tail)
        except OSError as fault:
            if not fault.strerror:
                raise
            what = f"{fault.filename}: " if fault.filename else ""
            raise UsageError(f"%mew {request.command}: {what}{fault.strerror}") from None


MewMagics.mew.__doc__ = str(overview())
