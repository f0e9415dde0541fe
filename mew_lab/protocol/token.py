"""Holds secrets so that they cannot be shown by accident: `Token`, and `mask` for other text.

A secret that became a `Token` is masked until it is forgotten. So a log line, an error or a traceback that contains it
otherwise is still clean. The module neither creates nor stores tokens.

Spec: §5.2.
"""

from __future__ import annotations

import hmac
import json
import logging
import traceback
from typing import Any, NamedTuple, NoReturn

try:
    import re2
except ImportError:  # as in a browser
    re2 = None

__all__ = ["LEAST_TOKEN", "SecretFilter", "Token", "forget", "mask", "remember"]

LEAST_TOKEN = 16  # characters; a token of fewer could be guessed
_SHOWN = 4  # characters of the end that tell two tokens apart
_LONG = 12  # a shorter secret shows nothing of itself
_MASKABLE = 4  # a shorter text stands everywhere, so masking it would only destroy what surrounds it

_AT_ONCE = 4096  # secrets in one expression; many more, and the engine would fall back to a slow search

# secret -> what stands for it. One dict, written and read whole in single operations: no lock needed.
known: dict[str, str] = {}


class _SecretSearch(NamedTuple):
    """Finds secrets in a text: expressions, and the secrets that no expression can contain."""

    made_of: object
    masks: dict[str, str]  # what stands for each secret, as it is and as JSON writes it
    expressions: tuple[Any, ...]
    others: tuple[str, ...]


# Of which set of secrets a search was made: another object after each change. A search that was made while another
# thread changed the set names the older one, and is made again.
_edition = object()
_search = _SecretSearch(None, {}, (), ())


class Token(str):
    """A secret that reads as `tok_…last4`; only `reveal()` returns it.

    As a `str` its value is the mask: printing, formatting, joining, pickling or serialising it gives the mask. Two
    tokens are equal when their secrets are; a token never equals plain text. Do not remember a token that an
    unauthenticated client claims: that client would choose the text that `mask` removes.
    """

    __slots__ = ("_secret",)

    _secret: str

    def __new__(cls, secret: str, *, remember: bool = True) -> Token:
        if isinstance(secret, Token):
            return secret
        shown = f"tok_…{secret[-_SHOWN:]}" if len(secret) >= _LONG else "tok_…"
        token = super().__new__(cls, shown)
        object.__setattr__(token, "_secret", secret)
        if remember:
            _remember(token)
        return token

    def reveal(self) -> str:
        """The secret itself: for a header, a file of its own, or a comparison. Never show it."""
        return self._secret

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Token) and hmac.compare_digest(self._secret.encode(), other._secret.encode())

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)

    def __repr__(self) -> str:
        return str.__str__(self)

    def __reduce_ex__(self, protocol: Any) -> tuple[type[str], tuple[str]]:
        return str, (str.__str__(self),)  # a pickle travels: it gets the mask, as plain text

    def __copy__(self) -> Token:
        return self

    def __deepcopy__(self, memo: object) -> Token:
        return self

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Token cannot be changed")


def remember(token: Token) -> None:
    """Adds the secret to `mask`, in plain form and in that of JSON, also when it was forgotten before."""
    global _edition
    secret, shown = token.reveal(), str.__str__(token)
    if len(secret) >= _MASKABLE and secret not in known:
        known[secret] = shown
        _edition = object()


_remember = remember  # where an argument has that name


def forget(token: Token) -> None:
    """Ends the masking of a secret that is no longer valid."""
    global _edition
    if known.pop(token.reveal(), None) is not None:
        _edition = object()


def _in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _compile() -> _SecretSearch:
    """The search for the secrets that are known now: one alternation, so that their number does not matter."""
    edition, plain_masks = _edition, known.copy()
    masks = {_in_json(secret): _in_json(shown) for secret, shown in plain_masks.items()} | plain_masks
    secrets = tuple(masks)
    if re2 is None:
        return _SecretSearch(edition, masks, (), secrets)
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    plain, others = list[str](), list[str]()
    expressions = []
    for secret in secrets:
        (plain if _is_unicode(secret) else others).append(secret)
    for at in range(0, len(plain), _AT_ONCE):
        some = plain[at : at + _AT_ONCE]
        try:
            expressions.append(re2.compile("|".join(map(re2.escape, some)), options))
        except re2.error:  # too long to be compiled
            others += some
    return _SecretSearch(edition, masks, tuple(expressions), tuple(others))


def _is_unicode(text: str) -> bool:
    """Whether it is free of lone surrogates, which UTF-8 does not have."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _holds_secret(search: _SecretSearch, text: str) -> bool:
    try:
        if any(expression.search(text) for expression in search.expressions):
            return True
    except UnicodeEncodeError:  # the engine reads UTF-8 alone
        return True
    return any(secret in text for secret in search.others)


def mask(text: str) -> str:
    """`text` with every known secret replaced by its mask. It takes some microseconds, for any number of secrets."""
    global _search
    search = _search
    if search.made_of is not _edition:
        search = _search = _compile()
    if not _holds_secret(search, text):
        return text
    for secret in sorted((secret for secret in search.masks if secret in text), key=len, reverse=True):
        text = text.replace(secret, search.masks[secret])
    return text


class SecretFilter(logging.Filter):
    """Masks known secrets in every record that passes: message, arguments, traceback and stack."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Always lets the record pass, cleaned."""
        try:
            record.msg = mask(record.getMessage())
        except Exception:  # wrong arguments: the handler would print them as they are to report that
            record.msg = f"a log record of {record.module}:{record.lineno} does not fit its arguments"
        record.args = None
        if record.exc_info and not record.exc_text:
            record.exc_text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        if record.exc_text:
            # Some handlers format the exception again, so it must not stay beside the clean text.
            record.exc_text, record.exc_info = mask(record.exc_text), None
        if record.stack_info:
            record.stack_info = mask(record.stack_info)
        return True


class _Cleaner(logging.NullHandler):
    """Prints nothing, but is the first to see each record below its logger, so what other handlers write is clean."""

    def handle(self, record: logging.LogRecord) -> bool:
        return SecretFilter().filter(record)


class _LibraryCleaner(_Cleaner):
    """One that `logging` does not notice: where no other handler is set, its last resort prints the record as before."""

    def handle(self, record: logging.LogRecord) -> bool:
        passes = super().handle(record)
        resort = logging.lastResort
        if resort is not None and record.levelno >= resort.level and not _has_handler(record.name):
            resort.handle(record)
        return passes


def _has_handler(name: str) -> bool:
    """Whether a record of that logger reaches a handler, except those that clean it."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        if any(not isinstance(handler, _LibraryCleaner) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


# Libraries log the addresses and headers that they are given. Their records are cleaned like those of this package.
_LIBRARIES = ("client", "httpcore", "httpcore2", "httpx", "httpx2", "mcp", "openai", "uvicorn", "websockets")

# Nothing of this package is printed into a cell unless a program sets a handler.
logging.getLogger("mew_lab").addHandler(_Cleaner())
for _name in _LIBRARIES:
    logging.getLogger(_name).addHandler(_LibraryCleaner())
