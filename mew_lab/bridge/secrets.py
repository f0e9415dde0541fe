"""Recognises secrets in what starts a server: variables, arguments, headers. None of them is shown.

A secret is known by the name of its variable or option, or by its form. It is remembered, so that `mask` removes it from
texts of others, such as the error output of the server. A short one is only hidden where it stands: its removal would
damage ordinary text.

Spec: threat 28.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mew_lab.protocol.address import Address
from mew_lab.protocol.token import Token, mask

__all__ = [
    "HIDDEN",
    "SECRET_LENGTH",
    "hide_arguments",
    "hide_in_lines",
    "names_secret",
    "remember_secret",
    "remember_variables",
]

SECRET_LENGTH = 8  # a shorter value is no secret that could be masked in ordinary text
HIDDEN = "…"
"""Stands for a secret."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORDS = frozenset(
    {
        *(
            "token",
            "secret",
            "password",
            "passwd",
            "passphrase",
            "passcode",
            "pass",
            "pwd",
            "pw",
            "pin",
            "otp",
        ),
        *("key", "apikey", "credential", "credentials", "auth", "authorization", "cookie", "bearer", "jwt"),
        *("pat", "dsn", "session", "signature", "pgpass"),
    }
)
_PARTS = ("token", "secret", "passw", "apikey", "credential")
_OF_NO_SECRET = frozenset(
    {
        *("file", "path", "dir", "folder", "name", "url", "env", "endpoint", "host", "port", "type"),
        *("timeout", "limit", "max"),
    }
)  # as the last word
_KNOWN = re.compile(
    r"(?:sk[-_]|pk_|gh[opsu]_|github_pat_|glpat-|xox[a-z]-|AKIA|ASIA|AIza|ya29\.|eyJ|hf_|npm_|pypi-|shpat_|SG\.)"
    r"[\w.-]{8,}"
)
_RUN = re.compile(r"[A-Za-z0-9]{20,}")
_PLAIN = re.compile(r"[\w.~+/=@:%,-]+")  # one word: neither a command for a shell nor code
# Only the characters that a credential may have (RFC 9110, token68): a command must not be hidden as one.
_CREDENTIAL = re.compile(r"\b(Bearer|Basic|token)(\s+)([A-Za-z0-9._~+/=-]+)(?![^\s\"',])", re.IGNORECASE)
_VARIABLES = re.compile(r"(?:\$\{[^{}]*\})+")
_DEFAULT = re.compile(r"\$\{([^{}:]*):-([^{}]*)\}")
# A value behind a name that says so, as a file of settings has it. The value is one word, and no call or expression.
_SETTING = re.compile(
    r"(?i)(?<![\w-])([\w.-]{0,40}(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|"
    r"credential)[\w.-]{0,40})([\"']?\s{0,9}[:=]\s{0,9})([\"']?)([^\s\"'(){}\[\]<>,;$]{4,512}+)(?![(\[])"
)
_IN_ADDRESS = re.compile(r"(?<=://)([^\s/@:]{0,128}:)([^\s/@]{1,256})(?=@)")
_PRIVATE_KEY = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY-----")
_NAME = re.compile(r"[\w.-]{1,128}")  # of a variable or an option; the padding of base64 follows no name
_HEADER = re.compile(r"([\w-]{1,128})(:\s*)(.+)", re.DOTALL)


def names_secret(name: str) -> bool:
    """Whether a variable, option or header of this name has a secret as its value."""
    words = [word for word in re.split(r"[^a-z0-9]+", _CAMEL.sub("_", name).lower()) if word]
    if not words or words[-1] in _OF_NO_SECRET or words[0] == "max":
        return False
    return not _WORDS.isdisjoint(words) or any(part in "".join(words) for part in _PARTS)


def _looks_secret(value: str) -> bool:
    if _KNOWN.fullmatch(value):
        return True
    run = _RUN.search(value)
    return run is not None and not run[0].isalpha() and not run[0].isdigit() and "/" not in value


def remember_secret(value: str) -> None:
    """Has `mask` remove a value, and each of its lines, if it is long enough."""
    for text in {value, *(line.strip() for line in value.splitlines())}:
        if len(text) >= SECRET_LENGTH and mask(text) == text:
            Token(text)


def remember_variables(variables: Mapping[str, str]) -> None:
    """Has `mask` remove the secrets among some environment variables."""
    for name, value in variables.items():
        if "://" in value:
            Address(value)  # it remembers the secrets in it
        if names_secret(name) or _looks_secret(value):
            remember_secret(value)


def hide_arguments(words: Sequence[str]) -> list[str]:
    """The words of a command as they may be shown: what is a secret is `…`, and is remembered."""
    shown, before = list(words[:1]), ""
    for word in words[1:]:
        shown.append(_hide(word, before))
        before = word
    return [mask(word) for word in shown]


def hide_in_lines(lines: Sequence[str]) -> list[str]:
    """The lines of a file as they may be shown: secrets that are known by their name or form are `…`.

    None of them is remembered. A private key is hidden from its first line to its last.
    """
    shown, in_key = [], False
    for line in lines:
        if border := _PRIVATE_KEY.search(line):
            in_key = border[1] == "BEGIN" and not _PRIVATE_KEY.search(line, border.end())
            shown.append(border[0] if border.span() == (0, len(line)) else f"{border[0]}{HIDDEN}")
        elif in_key:
            shown.append(HIDDEN)
        else:
            line = _KNOWN.sub(HIDDEN, mask(line))
            line = _SETTING.sub(_hide_setting, line)
            shown.append(_IN_ADDRESS.sub(rf"\1{HIDDEN}", line))
    return shown


def _hide_setting(match: re.Match[str]) -> str:
    name, sign, quote, _ = match.groups()
    return f"{name}{sign}{quote}{HIDDEN}" if names_secret(name) else match[0]


def _hide(word: str, before: str) -> str:
    """One argument without its secrets; `before` is the argument before it."""
    if _DEFAULT.search(word):
        return _DEFAULT.sub(lambda match: _hide_default(match, before), word)
    if _VARIABLES.fullmatch(word.rpartition("=")[2]):
        return word  # it names a secret, and is none
    if before.startswith("-") and "=" not in before and names_secret(before) and not word.startswith("-"):
        remember_secret(word)
        return HIDDEN
    if "://" in word:
        head = word[: word.index("://")].rpartition("=")[0]
        head = f"{head}=" if head else ""
        return head + str(Address(word[len(head) :]))
    name, equals, value = word.partition("=")
    if equals and _NAME.fullmatch(name) and names_secret(name) and value:
        remember_secret(value)
        return f"{name}={HIDDEN}"
    if (header := _HEADER.fullmatch(word)) is not None and names_secret(header[1]):
        for part in header[3].split():
            remember_secret(part)
        return f"{header[1]}{header[2]}{HIDDEN}"
    if _looks_secret(value if equals else word) and not _PLAIN.fullmatch(word):
        return _RUN.sub(_hide_run, word)  # a command, or JSON: only what is a secret is hidden of it
    if _looks_secret(word) or (equals and _looks_secret(value)):
        remember_secret(value if equals else word)
        return f"{name}={HIDDEN}" if equals else HIDDEN
    return _CREDENTIAL.sub(_hide_credential, word)


def _hide_run(match: re.Match[str]) -> str:
    if not _looks_secret(match[0]):
        return match[0]
    remember_secret(match[0])
    return HIDDEN


def _hide_credential(match: re.Match[str]) -> str:
    """What follows `Bearer`, `Basic` or `token`, without a credential; an ordinary word stays, and is not remembered."""
    scheme, space, text = match.groups()
    is_header = scheme in ("Bearer", "Basic") and any(map(str.isdigit, text))
    if not _looks_secret(text) and not is_header:
        return match[0]
    remember_secret(text)
    return f"{scheme}{space}{HIDDEN}"


def _hide_default(match: re.Match[str], before: str) -> str:
    """An expression without its default, where that is a secret."""
    if names_secret(match[1]) or names_secret(before) or _looks_secret(match[2]):
        remember_secret(match[2])
        return f"${{{match[1]}:-{HIDDEN}}}"
    return match[0]
