"""Reads the file in which an MCP client keeps its servers: `mcpServers` or `servers`, with comments.

How it works. `read_mcp_config` gives a `McpConfig`. Each of its servers is a `ConfiguredServer` or, where its entry has
a fault, a sentence in `left_out`: one faulty entry costs no other. A server is started in three steps. `question` tells
a person what would run, without a value that may be a secret. `digest` is the SHA-256 of its entry: a consent holds for
this digest alone. `fill` replaces the expressions, once, and gives the arguments of `McpBridge`.

- Expressions stand in `env`, `headers` and `args`; `command`, `cwd` and `envFile` take folders alone. An address takes
  none, so that no variable leaves this computer in it.
- Relative paths start in the folder of the file, or in the one above where that is a client's own (`.vscode`).
- The file with variables (`envFile`) lies in that folder, no link leads to it, and only its owner may read it.

Spec: threats 26 and 28.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from mew_lab.bridge.remote import RemoteServer
from mew_lab.bridge.secrets import HIDDEN, hide_arguments, names_secret, remember_secret, remember_variables
from mew_lab.bridge.server_entries import TRANSPORTS, ServerEntry, ServerReader
from mew_lab.errors import ConfigError
from mew_lab.protocol.address import Address, read_host
from mew_lab.protocol.coerce import list_of
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.token import Token
from mew_lab.protocol.visible import one_line, visible
from mew_lab.settings.documents import read_file, read_jsonc
from mew_lab.settings.environment import Expression, fill_expressions, find_expressions
from mew_lab.settings.faults import did_you_mean, kind_of, place, printable
from mew_lab.transport.folder import open_within

__all__ = ["ConfiguredServer", "Input", "McpConfig", "read_mcp_config"]

CHAPTERS = ("mcpServers", "servers")
TYPES = ("stdio", "http", "sse")
# What clients other than the first write for one of them.
_ALIASES = {"streamable-http": "http", "streamableHttp": "http", "local": "stdio"}
CLIENT_FOLDERS = frozenset({".vscode", ".cursor", ".gemini", ".kiro", ".roo", ".vs", ".mew"})
MAX_SERVERS = 200
MAX_SHOWN = 8_000  # characters of a command; a person is shown all of it
MAX_ENV_FILE = 64 * 1024  # bytes
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,255}")
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(.*)")
# What may be left out of a command that a person is shown: no text that a shell or a program could run.
_PLAIN = r"[\w.~+%=&:@,-]*"
_CREDENTIAL = re.compile(
    r"[\w-]+: *(?:(?:Bearer|Basic|token) +)?[\w+=-][\w.~+/=-]*", re.IGNORECASE | re.ASCII
)
_NAMED = re.compile(r"([\w.-]+)=", re.ASCII)
# It has no fragment, which may be a commit, of a repository or of any fork of it.
_URL = re.compile(r"(?:[\w.-]+=)?[\w+.-]+://[\w.~+%=&:@,/?\[\]-]*", re.ASCII)
_USER = re.compile(rf"://{_PLAIN}@", re.ASCII)
# Variables that decide which code a program runs.
_LOADERS = re.compile(
    r"PATH|LD_.*|DYLD_.*|NODE_OPTIONS|NODE_PATH|PYTHON(?:PATH|STARTUP|HOME)|PERL5?(?:OPT|LIB)|RUBY(?:OPT|LIB)"
    r"|JAVA_TOOL_OPTIONS|BASH_ENV|ENV|GIT_SSH.*|NPM_CONFIG_.*|UV_.*|PIP_.*",
    re.IGNORECASE,
)


class Input(NamedTuple):
    """A value that a person is asked for. `options` are those to choose from; empty where any text will do."""

    id: str
    description: str = ""
    default: str | None = None
    is_secret: bool = False
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class ConfiguredServer:
    """One server of a file, as it stands there. Nothing of it has been filled in."""

    entry: ServerEntry
    folder: Path
    env_file: str = ""
    at: str = ""
    disabled: bool = False
    inputs: tuple[Input, ...] = field(default=(), repr=False)
    file_variables: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """Its name in the file."""
        return self.entry.name

    @property
    def is_remote(self) -> bool:
        """Whether it is a server at a URL."""
        return self.entry.type in TRANSPORTS

    @property
    def variables(self) -> list[str]:
        """The names of the environment variables of this process that it reads, sorted."""
        return sorted({one.name for one in self._expressions() if one.kind == "variable"})

    @property
    def digest(self) -> str:
        """The SHA-256 (hex) of everything that decides what runs and what it gets, but for values from outside.

        Of the file with variables it has the names, and the values of those that decide which code runs.
        """
        entry = self.entry
        loaders = {name: value for name, value in self.file_variables.items() if _LOADERS.fullmatch(name)}
        whole = {
            **{key: value for key, value in vars(entry).items() if key != "command"},
            "command": list(entry.command),
            "env": dict(entry.env),
            "headers": dict(entry.headers),
            "envFile": self.env_file,
            "file": sorted(self.file_variables),
            "loaders": loaders,
            "inputs": [tuple(one) for one in self.inputs],
        }
        return sha256(compact(whole).encode("utf-8", "surrogatepass")).hexdigest()

    def _expressions(self) -> list[Expression]:
        entry = self.entry
        texts = [*entry.command[1:], *entry.env.values(), *entry.headers.values()]
        return [one for text in texts for one in find_expressions(text)]

    def question(self) -> list[str]:
        """The lines that a person reads before she allows the server; no value that may be a secret."""
        entry = self.entry
        if self.is_remote:
            address = Address(entry.url)
            lines = [f"address  {visible(str(address))}", f"headers  {_listed(entry.headers)}"]
            lines += [f"! {remark}" for remark in read_host(entry.url).remarks]
        else:
            lines = [
                f"command  {visible(shlex.join(hide_arguments(entry.command)))}",
                f"folder   {visible(str(self._cwd()))}",
            ]
            if entry.env or self.file_variables:
                lines.append(f"sets     {_listed([*entry.env, *self.file_variables])}")
            if self.env_file:
                lines.append(f"from     {visible(self.env_file)}, which only you can read")
            if loaders := sorted(
                {name for name in [*entry.env, *self.file_variables] if _LOADERS.fullmatch(name)}
            ):
                lines.append(f"! {_listed(loaders)} may decide which code it runs")
        lines.append(f"reads    {_listed(self.variables)}")
        if self.inputs:
            lines.append(f"asks for {_listed([one.id for one in self.inputs])}")
        return [*lines, f"digest   {self.digest}"]

    def find_hidden(self) -> str:
        """Where `question` would leave out what may be code, such as `argument 2`; empty where nowhere.

        What looks like a secret is not shown. A file could write its code so, and nobody would see it.
        """
        if self.is_remote:
            return "" if _is_shown(self.entry.url, str(Address(self.entry.url))) else "its address"
        for number, (word, shown) in enumerate(
            zip(self.entry.command, hide_arguments(self.entry.command), strict=True)
        ):
            if not _is_shown(word, shown):
                return f"argument {number}" if number else "its command"
        return ""

    @property
    def env_path(self) -> Path:
        """The file with variables."""
        return self.folder / fill_expressions(self.env_file, self._folder_value)

    def _cwd(self) -> Path:
        given = fill_expressions(self.entry.cwd or "", self._folder_value)
        return self.folder / given

    def _folder_value(self, expression: Expression) -> str:
        return {
            "workspaceFolder": str(self.folder),
            "workspaceFolderBasename": self.folder.name,
            "userHome": str(Path.home()),
        }.get(expression.name, os.sep)

    def fill(
        self, answers: Mapping[str, str], environ: Mapping[str, str] = os.environ
    ) -> tuple[list[str] | str, dict[str, Any]]:
        """The command or the address, and the options of its `McpBridge`.

        Args:
            answers: the answers to its inputs, by id.
            environ: the environment variables.

        Raises:
            ConfigError: a variable is not set, or the server cannot be addressed so; no value is shown.
        """
        entry, at = self.entry, self.at

        def fill(text: str, *steps: str | int) -> str:
            def value_of(expression: Expression) -> str:
                if expression.kind == "folder":
                    return self._folder_value(expression)
                if expression.kind == "input":
                    return answers[expression.name]
                value = environ.get(expression.name, "")
                if not value and expression.default is not None:
                    return expression.default
                if expression.name not in environ:
                    key = place(at, *steps)
                    raise ConfigError(
                        f"{key} asks for the variable {expression.name}, which is not set; set it, or write "
                        f"${{{expression.name}:-default}}",
                        key=key,
                    )
                remember_variables({expression.name: value})
                return value

            return fill_expressions(text, value_of)

        for one in self.inputs:
            if one.is_secret:
                remember_secret(answers.get(one.id, ""))
        if self.is_remote:
            headers = {
                name: Token(fill(value, "headers", name), remember=False)
                for name, value in entry.headers.items()
            }
            options: dict[str, Any] = {"headers": headers, "transport": TRANSPORTS[entry.type]}
            RemoteServer(entry.url, **options)
            return entry.url, options
        program, *words = entry.command
        env = {name: fill(value, "env", name) for name, value in entry.env.items()}
        command = [
            fill_expressions(program, self._folder_value),
            *(fill(word, "args", n) for n, word in enumerate(words)),
        ]
        hide_arguments(command)  # remembers what is secret in it
        if command[0] == "python":  # a bridge takes that for this interpreter; the file means the one on PATH
            command[0] = shutil.which("python") or sys.executable
        return command, {"env": {**self.file_variables, **env}, "cwd": self._cwd()}


def _is_shown(word: str, shown: str) -> bool:
    """Whether a text is shown but for plain words that belong to a name in it: their places have `…`.

    A plain word alone may be the program: `npx --api-key a b` runs the package a.
    """
    if shown == word or _CREDENTIAL.fullmatch(word):
        return True
    named = _NAMED.match(shown)
    if not _URL.fullmatch(word) and (named is None or not names_secret(named[1])):
        return False
    rest = _USER.sub("://", word, count=1)
    return re.fullmatch(_PLAIN.join(map(re.escape, shown.split(HIDDEN))), rest, re.ASCII) is not None


def _listed(names: Any) -> str:
    return ", ".join(visible(printable(name, 200)) for name in dict.fromkeys(names)) or "nothing"


@dataclass(frozen=True)
class McpConfig:
    """The servers of a file. `left_out` has a sentence for each entry that cannot be used."""

    path: Path
    folder: Path
    servers: Mapping[str, ConfiguredServer]
    left_out: Mapping[str, str]


def read_mcp_config(path: str | Path) -> McpConfig:
    """The servers of the file of an MCP client.

    Raises:
        ConfigError: it cannot be read, it is no JSON, or it has no servers; no value of it is shown.
    """
    source = printable(str(path), 300)
    text = read_file(path, what="file of MCP servers")
    document = read_jsonc(text, path=source)
    file = Path(path).resolve()
    return _ConfigReader(file, source).config(document)


class _ConfigReader(ServerReader):
    """Reads a file; the faults of one entry leave that entry out."""

    def __init__(self, file: Path, source: str) -> None:
        super().__init__()
        self.file = file
        self.source = source
        own = file.parent.name in CLIENT_FOLDERS
        self.folder = file.parent.parent if own else file.parent

    def config(self, document: object) -> McpConfig:
        if not isinstance(document, Mapping):
            raise ConfigError(
                f"{self.source} is no file of MCP servers: it must be a mapping with mcpServers or servers, not "
                f"{kind_of(document)}",
                path=self.source,
            )
        chapters = [key for key in CHAPTERS if document.get(key) is not None]
        if not chapters:
            raise ConfigError(
                f"{self.source} has neither mcpServers nor servers{self._advice(document)}", path=self.source
            )
        inputs = self._inputs(document.get("inputs"))
        servers: dict[str, ConfiguredServer] = {}
        left_out: dict[str, str] = {}
        for chapter in chapters:
            entries = document[chapter]
            if not isinstance(entries, Mapping):
                raise ConfigError(
                    f"{self.source}: {chapter} must be a mapping of names to servers, not {kind_of(entries)}",
                    path=self.source,
                    key=chapter,
                )
            if len(entries) + len(servers) > MAX_SERVERS:
                raise ConfigError(
                    f"{self.source} has more than {MAX_SERVERS} servers", path=self.source, key=chapter
                )
            for name, entry in entries.items():
                self.faults = []
                if name in servers or name in left_out:
                    self.fault(place(chapter, name), "a server of this name stands in mcpServers already")
                    left_out[f"{name} ({chapter})"] = self._sentence()
                    continue
                server = self._server(name, entry, place(chapter, name), inputs)
                if server is None or self.faults:
                    left_out[name] = self._sentence()
                else:
                    servers[name] = server
        return McpConfig(self.file, self.folder, servers, left_out)

    def _sentence(self) -> str:
        return "; ".join(str(fault) for fault in self.faults[:5])

    @staticmethod
    def _advice(document: Mapping[str, Any]) -> str:
        for key in list(document)[:100]:
            if hint := did_you_mean(key, CHAPTERS):
                return f" ({printable(key, 40)}: {hint})"
        if document and all(
            isinstance(entry, Mapping) and ("command" in entry or "url" in entry)
            for entry in document.values()
        ):
            return ": put its servers into a mapping of that name"
        return "" if document else ", it is empty"

    def _server(
        self, name: str, value: object, at: str, inputs: Mapping[str, Input | str]
    ) -> ConfiguredServer | None:
        if not isinstance(value, Mapping):
            self.fault(at, f"a server must be a mapping, not {kind_of(value)}")
            return None
        # its other members are nobody's business
        if self.flag(value, "disabled", at, False) or value.get("enabled") is False:
            entry = ServerEntry(name=name, type="stdio")
            return ConfiguredServer(entry, self.folder, at=at, disabled=True)
        entry = self._entry(name, value, at)
        env_file = self.text(value, "envFile", at)
        used = self._check(entry, env_file, at)
        asked = []
        for id in dict.fromkeys(one.name for one in used if one.kind == "input"):
            found = inputs.get(id, f"there is no input {printable(id, 40)!r} in inputs")
            if isinstance(found, str):
                self.fault(at, found)
            else:
                asked.append(found)
        if self.faults:
            return None
        server = ConfiguredServer(entry, self.folder, env_file, at, inputs=tuple(asked))
        if not env_file:
            return server
        return replace(server, file_variables=self._read_env_file(server.env_path, place(at, "envFile")))

    def _entry(self, name: str, value: Mapping[str, Any], at: str) -> ServerEntry:
        """The server of an entry, with the type that it has, or that its members tell."""
        kind = self.text(value, "type", at)
        kind = _ALIASES.get(kind, kind)
        if not kind:
            has_url = value.get("url") is not None and value.get("command") is None
            url = str(value.get("url"))
            kind = ("sse" if url.rstrip("/").endswith("/sse") else "http") if has_url else "stdio"
        if kind not in TYPES:
            hint = did_you_mean(kind, TYPES)
            self.fault(
                place(at, "type"),
                f"this type of server is not known; known are {', '.join(TYPES)}{hint and '; '}{hint}",
            )
            return ServerEntry(name=name, type="stdio")
        return self.server(name, {**value, "type": kind}, at)

    def _check(self, entry: ServerEntry, env_file: str, at: str) -> list[Expression]:
        """Checks the places of expressions, and names; returns the expressions of the entry."""
        used: list[Expression] = []
        for n, word in enumerate(entry.command[1:]):
            used += self._find(word, place(at, "args", n))
        for chapter, values in (("env", entry.env), ("headers", entry.headers)):
            for name, value in values.items():
                here = place(at, chapter, name)
                used += self._find(value, here)
                if chapter == "env" and (not _NAME.fullmatch(name) or "\0" in value):
                    self.fault(here, "this is no environment variable")
        for key, value in (
            ("command", (*entry.command, "")[0]),
            ("cwd", entry.cwd or ""),
            ("envFile", env_file),
        ):
            if any(one.kind != "folder" for one in self._find(value, place(at, key))):
                self.fault(
                    place(at, key), "it takes no variables; they are filled in in env, headers and args"
                )
            if "\0" in value:
                self.fault(place(at, key), "it has a character that no path has")
        program = (*entry.command, "")[0]
        if len(program.split()) > 1 and "${" not in program and shutil.which(program) is None:
            self.fault(place(at, "command"), "it is one program; its arguments stand in args")
        if any("\0" in word for word in entry.command[1:]):
            self.fault(place(at, "args"), "they have a character that no argument has")
        if entry.type in TRANSPORTS and "${" in entry.url:
            self.fault(
                place(at, "url"),
                "an address takes no ${…}: what it stands for would leave this computer; write it out",
            )
        elif entry.type in TRANSPORTS and entry.url:
            try:
                read_host(entry.url)
            except ValueError as fault:
                self.fault(place(at, "url"), f"it {fault}")
        names = [*entry.env, *entry.headers, entry.url, entry.cwd or "", *(one.name for one in used)]
        if sum(map(len, names)) > MAX_SHOWN:
            self.fault(at, f"its names have more than {MAX_SHOWN} characters, so nobody could read them")
        if sum(map(len, entry.command)) > MAX_SHOWN:
            self.fault(
                place(at, "args"),
                f"the command has more than {MAX_SHOWN} characters, so nobody could read it",
            )
        return used

    def _find(self, text: str, at: str) -> list[Expression]:
        try:
            return find_expressions(text)
        except ValueError as fault:
            self.fault(at, str(fault))
            return []

    def _inputs(self, value: object) -> dict[str, Input | str]:
        """The inputs by id; a sentence for one that cannot be asked for."""
        inputs: dict[str, Input | str] = {}
        for n, item in enumerate(list_of(value)):
            at = place("inputs", n)
            if not isinstance(item, Mapping) or not isinstance(id := item.get("id"), str) or not id:
                continue
            if id in inputs:
                inputs[id] = f"{at}: the id {printable(id, 40)!r} stands in inputs twice"
                continue
            kind, options = item.get("type", "promptString"), item.get("options") or []
            texts = (item.get("description") or "", item.get("default") or "")
            if kind not in ("promptString", "pickString"):
                inputs[id] = f"{at}: its type is not known; known are promptString and pickString"
            elif not all(isinstance(text, str) for text in texts):
                inputs[id] = f"{at}: description and default must be text"
            elif not isinstance(options, list) or not all(_option(option) is not None for option in options):
                inputs[id] = f"{at}: options must be a list of texts"
            elif kind == "pickString" and not options:
                inputs[id] = f"{at}: it has no options"
            else:
                inputs[id] = Input(
                    id,
                    texts[0],
                    item.get("default"),
                    item.get("password") is True,
                    tuple(str(_option(option)) for option in options) if kind == "pickString" else (),
                )
        return inputs

    # --- the file with variables ---

    def _read_env_file(self, path: Path, at: str) -> dict[str, str]:
        try:
            text = _read_private(self.folder, path)
        except OSError as fault:
            self.fault(
                at, f"the file with variables cannot be used: {fault.strerror or 'it cannot be opened'}"
            )
            return {}
        except UnicodeError:
            self.fault(at, "the file with variables is not UTF-8 text")
            return {}
        variables: dict[str, str] = {}
        for number, line in enumerate(text.splitlines(), 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            if (found := _LINE.fullmatch(line)) is None or "\0" in line:
                self.fault(at, f"line {number} of the file with variables is not NAME=value")
                return {}
            variables[found[1]] = _unquote(found[2])
        remember_variables(variables)
        return variables


def _option(option: object) -> str | None:
    """The text of a choice, which may be a text, or a label with a value."""
    value = option.get("value") if isinstance(option, Mapping) else option
    return value if isinstance(value, str) else None


def _unquote(value: str) -> str:
    """The value of a line: within quotes as it stands, else without a comment behind it."""
    for quote in ('"', "'"):
        if value.startswith(quote) and (end := value.find(quote, 1)) > 0:
            return value[1:end]
    return re.split(r"\s+#", value, maxsplit=1)[0].strip()


def _read_private(folder: Path, path: Path) -> str:
    """The text of a file below a folder that only its owner can read; no link is followed.

    Raises:
        OSError: it is none; its `strerror` is the reason.
    """
    whole = Path(os.path.normpath(path))
    if not whole.is_relative_to(folder) or whole == folder:
        raise OSError(0, f"it lies outside {one_line(str(folder), 200)}")
    parts = whole.relative_to(folder).parts
    within = open_within(folder, parts[:-1], make=False)
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        if within is None:
            if whole.resolve() != whole:
                raise OSError(0, "a link leads to it")
            file = os.open(whole, flags)
        else:
            file = os.open(parts[-1], flags, dir_fd=within)
    except OSError as fault:
        if fault.errno == errno.ELOOP or whole.is_symlink():
            raise OSError(0, "it is a link; put the file itself there") from None
        raise
    finally:
        if within is not None:
            os.close(within)
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is no plain file")
        if os.name == "posix" and (stat.S_IMODE(status.st_mode) & 0o077 or status.st_uid != os.geteuid()):
            raise OSError(
                0, f"others than you can read it; run: chmod 600 {shlex.quote(one_line(str(whole), 300))}"
            )
        data = opened.read(MAX_ENV_FILE + 1)
    if len(data) > MAX_ENV_FILE:
        raise OSError(0, f"it has more than {MAX_ENV_FILE} bytes")
    return data.decode("utf-8-sig")
