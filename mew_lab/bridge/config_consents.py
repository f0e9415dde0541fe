"""Asks a person whether the servers of a file may be started, once for each entry and each change of it.

A file of MCP servers comes with a project, and so from others: to start its servers is to run their programs. A yes
holds for one file, by its absolute path, and for the digest of one entry. It is kept in the user's own state folder,
where no project reaches. Without a person, a digest that was given beforehand (`--trust-config`) stands for the yes.

Spec: threat 28.
"""

from __future__ import annotations

import hmac
import os
import re
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from mew_lab.bridge.mcp_config import ConfiguredServer, Input, McpConfig
from mew_lab.errors import ConfigError
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.visible import one_line
from mew_lab.settings.environment import state_folder
from mew_lab.transport.files import replace_small

__all__ = ["PARALLEL", "AdmittedServer", "ConsentStore", "Person", "admit_servers", "check_digest"]

PARALLEL = 16
"""Servers of a file that are started at the same time."""
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Person(Protocol):
    """Who can be asked."""

    def show(self, text: str) -> None:
        """Shows some lines."""

    def allow(self, path: Path, name: str, lines: Sequence[str]) -> bool | None:
        """Whether the server of that name in a file may be started; None where nobody answers.

        Args:
            lines: All of what would be started, as a person reads it.
        """

    def ask(self, question: str, *, is_secret: bool = False) -> str | None:
        """The typed answer, without an echo where it is a secret; None where nobody answers."""


class AdmittedServer(NamedTuple):
    """A server that may be started: its name in the file, the command or address, and the options of its `McpBridge`."""

    name: str
    command: list[str] | str
    options: dict[str, Any]

    def __repr__(self) -> str:  # the command and the options may hold secrets
        return f"<AdmittedServer {self.name!r}>"


class ConsentStore:
    """The entries that a person has allowed, a file each.

    Args:
        folder: the user's state folder; None keeps nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    @classmethod
    def beside(cls, folder: Path) -> ConsentStore:
        """The user's own store, unless that lies in the folder of the file, where others may have put it."""
        try:
            is_home = Path.home().resolve().is_relative_to(folder)
        except (OSError, RuntimeError):
            is_home = False
        # A file in the home itself is the user's own, and her state folder lies below it.
        return cls(state_folder(outside=[] if is_home else [folder]))

    def has(self, path: Path, digest: str) -> bool:
        """Whether an entry of this digest was allowed in the file at this path."""
        if self._folder is None:
            return False
        try:
            status = (self._folder / self._name(path, digest)).lstat()
        except OSError:
            return False
        owned = os.name != "posix" or (
            status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o022
        )
        return stat.S_ISREG(status.st_mode) and owned

    def keep(self, path: Path, name: str, digest: str) -> str:
        """Keeps a yes; returns a sentence where that is not possible, else an empty text."""
        if self._folder is None:
            return "it is not kept: this user has no folder for it outside the project"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            data = compact({"file": str(path), "server": name, "digest": digest}) + "\n"
            replace_small(self._folder, self._name(path, digest), data.encode("utf-8", "replace"))
        except OSError as fault:
            return f"it is not kept: {fault.strerror or 'the file cannot be written'}"
        return ""

    @staticmethod
    def _name(path: Path, digest: str) -> str:
        whole = compact([str(path), digest]).encode("utf-8", "surrogatepass")
        return f"servers/{sha256(whole).hexdigest()}.json"


def check_digest(word: str) -> str:
    """A digest as it was given.

    Raises:
        ConfigError: it is no SHA-256.
    """
    if not _DIGEST.fullmatch(word.strip().lower()):
        raise ConfigError(
            "a digest is a SHA-256, 64 characters of 0-9 and a-f, as it is shown for the entry", key="digest"
        )
    return word.strip().lower()


def admit_servers(
    config: McpConfig,
    *,
    person: Person | None,
    store: ConsentStore,
    trusted: Collection[str] = (),
    only: Collection[str] = (),
    skipped: Mapping[str, str] | None = None,
    answers: Mapping[str, str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> tuple[list[AdmittedServer], dict[str, str]]:
    """The servers of a file that may be started, and a sentence for each other one.

    Args:
        person: who is asked; None where nobody is there.
        trusted: digests of entries that are allowed.
        only: the names of the servers that are wanted; empty for all.
        skipped: a sentence for each server that is not wanted, about which nobody is asked.
        answers: answers to inputs, by id; the person is asked for the others.

    Raises:
        ConfigError: a name in `only` or a digest is none.
    """
    trusted = {check_digest(word) for word in trusted}
    known = {**config.servers, **config.left_out}
    for name in only:
        if name not in known:
            named = ", ".join(one_line(other, 60) for other in list(known)[:20]) or "none"
            raise ConfigError(f"{config.path} has no server {one_line(name, 60)!r}; it has {named}", key=name)
    left_out = {name: why for name, why in config.left_out.items() if not only or name in only}
    admitted: list[AdmittedServer] = []
    given = dict(answers or {})
    for name, server in config.servers.items():
        if only and name not in only:
            continue
        why = "it is disabled in the file" if server.disabled else (skipped or {}).get(name, "")
        why = why or _refuse(config, server, person, store, trusted) or _ask_inputs(server, person, given)
        if not why:
            try:
                admitted.append(AdmittedServer(name, *server.fill(given, environ)))
            except ConfigError as fault:
                why = str(fault)
        if why:
            left_out[name] = why
    return admitted, left_out


def _refuse(
    config: McpConfig,
    server: ConfiguredServer,
    person: Person | None,
    store: ConsentStore,
    trusted: Collection[str],
) -> str:
    """Why a server may not be started; empty where it may."""
    digest = server.digest
    if any(hmac.compare_digest(digest, word) for word in trusted) or store.has(config.path, digest):
        return ""
    if hidden := server.find_hidden():
        return (
            f"{hidden} holds what looks like a secret and may be code, so nobody could be shown what it starts. Give "
            f"the secret in env, or as --option=${{VARIABLE}}. If you have read the entry, give its digest: {digest} "
            "(--trust-config of a command, trust=[…] of bridge_all)"
        )
    if person is not None:
        is_allowed = person.allow(config.path, server.name, server.question())
        if is_allowed:
            if remark := store.keep(config.path, server.name, digest):
                person.show(f"note: {remark}")
            return ""
        if is_allowed is not None:
            return f"it was not allowed; its digest is {digest}"
    return (
        "nobody has allowed it on this computer, and nobody can be asked here. Read its entry, then give its digest: "
        f"{digest} (--trust-config of a command, trust=[…] of bridge_all)"
    )


def _ask_inputs(server: ConfiguredServer, person: Person | None, answers: dict[str, str]) -> str:
    """Asks for the inputs of a server that have no answer yet; returns why it cannot be started, or an empty text."""
    for one in server.inputs:
        if one.id in answers:
            continue
        answer = _ask_input(one, person.ask) if person is not None else None
        if answer is None:
            return f"it asks for the input {one_line(one.id, 60)!r}, and nobody answered"
        answers[one.id] = answer
    return ""


def _ask_input(one: Input, ask: Callable[..., str | None]) -> str | None:
    """The answer to an input; nothing typed means its default. None where nobody answers, or none of its options."""
    question = one_line(one.description or one.id, 300)
    if one.options:
        question += f" ({', '.join(one_line(option, 60) for option in one.options[:50])})"
    if one.default is not None:
        question += (
            " [Enter: the default of the file]" if one.is_secret else f" [{one_line(one.default, 60)}]"
        )
    for _ in range(3):
        answer = ask(f"{question}: ", is_secret=one.is_secret)
        if answer is None:
            return None
        if not answer and one.default is not None:
            answer = one.default
        if answer and (not one.options or answer in one.options):
            return answer
    return None
