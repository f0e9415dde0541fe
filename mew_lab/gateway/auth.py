"""Mints tokens, finds the participant of each, and keeps them in files that only their owner can read.

It decides nothing about admission and knows neither capabilities nor the wire.

Spec: §5.1, §5.2.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import logging
import os
import secrets
import shlex
import stat
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from mew_lab.errors import ConfigError
from mew_lab.protocol.filename import folder_name, is_plain
from mew_lab.protocol.token import LEAST_TOKEN, Token, forget, remember
from mew_lab.transport.folder import KEPT, find_tracked, hide, open_below, open_folder

__all__ = [
    "SHORT_TOKENS",
    "Tokens",
    "ensure_token_file",
    "known_tokens",
    "mint",
    "read_token_file",
    "remark_tracked",
    "short_allowed",
    "token_from",
    "token_path",
    "write_token_file",
]

logger = logging.getLogger(__name__)

TOKEN_BYTES = 32  # 256 bits: nobody guesses a token
SHORT_TOKENS = (
    "MEW_SHORT_TOKENS"  # an environment variable that allows short tokens in files of other programs
)
MAX_TOKEN = 4096  # characters; a longer text is not a token but the wrong file
_POSIX = os.name == "posix"  # on other systems the mode bits do not show which users may read a file
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)


def mint() -> Token:
    """A fresh token of 256 random bits."""
    return Token(secrets.token_urlsafe(TOKEN_BYTES))


class _TokenOwner(NamedTuple):
    digest: bytes
    space: str
    participant: str
    token: Token | None = None  # for `forget` alone; the digest is compared


# How many entries of all registries of this process name a secret: a token void in one space may be valid in another.
# Written on the loops of gateways, in single operations.
_known: Counter[str] = Counter()


class Tokens:
    """Maps tokens to the participants of spaces; a participant may have several tokens, all valid at once.

    Keyed hashes are compared. A wrong token costs the same work as a right one, so that time reveals nothing. A token
    that no registry of this process knows any more is no longer masked either.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._entries: dict[bytes, _TokenOwner] = {}
        self._nobody = _TokenOwner(secrets.token_bytes(32), "", "")
        self.on_mint: Callable[[str, str, Token], None] | None = None
        """Called with space, participant and token after each minting; None where nothing stores tokens."""

    def _digest(self, space: str, token: str) -> bytes:
        secret = token.reveal() if isinstance(token, Token) else token
        named = hmac.new(self._key, space.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()
        return hmac.new(named, secret.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()

    def add(self, space: str, participant: str, token: Token) -> None:
        """Adds `token` to those of the participant.

        Raises:
            ConfigError: when it is empty, or belongs to another participant already.
        """
        if not token.reveal():
            raise ConfigError(
                f"participant {participant!r} of space {space!r} has an empty token", key="tokens"
            )
        digest = self._digest(space, token)
        entry = self._entries.get(digest)
        if entry is None:
            entry = self._entries[digest] = _TokenOwner(digest, space, participant, token)
            _known[token.reveal()] += 1
            remember(token)
        elif entry.participant != participant:
            raise ConfigError(
                f"the token {token} of participant {participant!r} in space {space!r} belongs to "
                f"{entry.participant!r} already; give each participant its own",
                key="tokens",
            )

    def mint(self, space: str, participant: str) -> Token:
        """Mints a token and adds it to those of the participant."""
        token = mint()
        self.add(space, participant, token)
        if self.on_mint is not None:
            self.on_mint(space, participant, token)
        return token

    def participant_of(self, space: str, token: str) -> str | None:
        """The participant to which `token` belongs; None when the token or the space is unknown."""
        digest = self._digest(space, token)
        entry = self._entries.get(digest, self._nobody)
        return entry.participant if hmac.compare_digest(entry.digest, digest) else None

    def void(self, space: str, participant: str, token: Token | None = None) -> int:
        """Voids one token of a participant, or all of them; returns how many.

        Spec: §3.6.7.
        """
        if token is not None:
            mine = [self._digest(space, token)] if self.participant_of(space, token) == participant else []
        else:
            mine = [digest for digest, entry in self._entries.items() if entry[1:3] == (space, participant)]
        self._drop(mine)
        return len(mine)

    def void_space(self, space: str) -> None:
        """Voids all tokens of a space that no longer runs here."""
        self._drop([digest for digest, entry in self._entries.items() if entry.space == space])

    def _drop(self, digests: Iterable[bytes]) -> None:
        for digest in digests:
            token = self._entries.pop(digest).token
            assert token is not None
            secret = token.reveal()
            _known[secret] -= 1
            if _known[secret] <= 0:
                del _known[secret]
                forget(token)


# --- files ------------------------------------------------------------------------------------------------


def _private_folder(folder: Path) -> None:
    """Makes the folder and its missing parents, readable by their owner alone."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        with contextlib.suppress(FileExistsError):
            place.mkdir(mode=0o700)
    if _POSIX:
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise ConfigError(
                f"tokens cannot be kept in {folder}: it is not a folder of yours", path=str(folder)
            )
        if stat.S_IMODE(status.st_mode) & 0o077:
            folder.chmod(0o700)


def token_path(folder: Path | str, space: str, participant: str) -> Path:
    """The path of a participant's token file in a folder of tokens: `<folder>/<space>/<participant>.token`.

    Raises:
        ConfigError: when the participant's name cannot be a file name.
    """
    if not is_plain(participant):
        raise ConfigError(f"{participant[:80]!r} cannot be part of a token file's name", key=participant[:80])
    place = Path(folder)
    try:
        there = [entry.name for entry in place.iterdir()]
    except OSError:
        there = []
    return place / folder_name(space, among=there) / f"{participant}.token"


def write_token_file(folder: Path | str, space: str, participant: str, token: Token) -> Path:
    """Writes `<folder>/<space>/<participant>.token`, readable by its owner alone; returns its path.

    An older file of that name is replaced atomically; a link in its place is never followed.

    Raises:
        ConfigError: when the names cannot be file names, or the file cannot be written.
    """
    path = token_path(folder, space, participant)
    place = path.parent
    fresh = place / f".{participant}.{secrets.token_hex(8)}"
    try:
        if KEPT in place.absolute().parts:
            within = open_folder(place, make=True)  # raises with the fault of a name
            if within is not None:
                os.close(within)
        _private_folder(Path(folder))
        _private_folder(place)
        descriptor = open_below(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(token.reveal() + "\n")
            fresh.replace(path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
    except UnicodeError:
        raise ConfigError(
            f"the token of {participant!r} holds characters beyond ASCII, so no header can carry it",
            path=str(path),
        ) from None
    except OSError as fault:
        raise ConfigError(
            f"the token file of {participant!r} could not be written at {path}: {fault.strerror}",
            path=str(path),
        ) from None
    return path


def ensure_token_file(folder: Path | str, space: str, participant: str) -> Path:
    """The path of `token_path`; a file with a fresh token is written where there is none.

    Git ignores the content of `folder` then. That others may have its token, because git keeps it, is logged.

    Raises:
        ConfigError: as `write_token_file`.
    """
    path = token_path(folder, space, participant)
    if not os.path.lexists(path):
        write_token_file(folder, space, participant, mint())
    elif find_tracked([path]):
        logger.warning("the token in %s %s", path, remark_tracked(path))
    hide(Path(folder))
    return path


def remark_tracked(path: Path) -> str:
    """What is the matter with a token file that `find_tracked` has found, as a predicate; names no token."""
    return (
        "is under version control, so everybody that has the repository has it; run: git rm --cached "
        f"{shlex.quote(str(path))}, then delete the file, and one is made at the next start"
    )


def short_allowed() -> bool:
    """Whether the environment allows short tokens in token files of other programs."""
    return os.environ.get(SHORT_TOKENS, "").strip().lower() in {"1", "true", "yes", "on"}


def token_from(
    token: str | None = None, *, file: str | Path | None = None, variable: str | None = None
) -> Token:
    """The token from the argument, a file or an environment variable.

    Raises:
        ConfigError: Not exactly one of them is set, or the token in the file is too short (unless MEW_SHORT_TOKENS
            permits it).
    """
    sources = [source for source in (token, file, variable) if source is not None]
    if len(sources) != 1:
        raise ConfigError(
            "Give exactly one of token_file, token_env and token: the gateway needs it to identify you"
        )
    if token is not None:
        return Token(token)
    if file is not None:
        return read_token_file(file, short=short_allowed())
    secret = os.environ.get(variable or "", "")
    if not secret:
        raise ConfigError(
            f"The environment variable {variable!r} holds no token", path="environment", key=variable or ""
        )
    return Token(secret)


def read_token_file(path: Path | str, *, short: bool = True) -> Token:
    """The token in a file; it must have at least 16 characters unless `short`.

    Raises:
        ConfigError: when it cannot be read, other users than its owner may read it, or it holds no such token.
    """
    path = Path(path)
    try:
        # a pipe must not block this process
        descriptor = open_below(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ConfigError(f"the token file {path} is not a plain file", path=str(path))
            if _POSIX and stat.S_IMODE(status.st_mode) & 0o077:
                raise ConfigError(
                    f"the token file {path} can be read by others than its owner; run: chmod 600 {path}. Where it came "
                    "with a copy of the folder, others have it: then delete it, and one is made",
                    path=str(path),
                )
            data = file.read(MAX_TOKEN + 1)
    except OSError as fault:
        raise ConfigError(
            f"the token file {path} could not be read: {fault.strerror}", path=str(path)
        ) from None
    try:
        secret = data.decode("ascii").strip()
    except UnicodeError:
        secret = ""
    if not secret or len(secret) > MAX_TOKEN or not secret.isprintable() or " " in secret:
        raise ConfigError(
            f"the token file {path} holds no token: one line of printable characters is expected",
            path=str(path),
        )
    if len(secret) < LEAST_TOKEN and not short:
        raise ConfigError(
            f"the token file {path} holds a token of fewer than {LEAST_TOKEN} characters, which could be guessed; "
            f"have another made, or set {SHORT_TOKENS}=1 to use it all the same",
            path=str(path),
        )
    return Token(secret)


def known_tokens(folder: Path | str, space: str) -> list[Token]:
    """The tokens of a space, read from files that only their owner can read; they are masked from now on."""
    tokens = []
    for path in sorted(token_path(folder, space, "any").parent.glob("*.token")):
        with contextlib.suppress(ConfigError):
            tokens.append(read_token_file(path))
    return tokens
