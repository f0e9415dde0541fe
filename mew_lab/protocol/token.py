"""How is a secret held so that it cannot be shown by accident?  `Token`, and masking for what others write.

A secret of ours that became a `Token` is known to `mask` for the life of the process, so that a log line, an
error or a traceback which quotes it by another way is still clean. It mints nothing and knows no file.

Spec: §5.2.
"""

from __future__ import annotations

import hmac
import logging
import traceback
from typing import Any, NoReturn

__all__ = ["LEAST_TOKEN", "SecretFilter", "Token", "mask"]

LEAST_TOKEN = 16  # characters; a token of fewer could be guessed
_SHOWN = 4  # characters of the end that tell two tokens apart
_LONG = 12  # a shorter secret shows nothing of itself
_MASKABLE = 4  # a shorter text stands everywhere, so masking it would only destroy what surrounds it

# secret -> what stands for it. One dict, written and read whole in single operations: no lock needed.
_live: dict[str, str] = {}


class Token(str):
    """A secret that looks like `tok_…last4` to everybody; only `reveal()` tells it.

    As a `str` its value is the mask: whatever prints, formats, joins, pickles or serialises it gets the mask.
    Two tokens are equal when their secrets are; a token never equals plain text. What a stranger claims to be
    a token is not to be remembered: it would let the stranger choose what `mask` blots out.
    """

    __slots__ = ("_secret",)

    _secret: str

    def __new__(cls, secret: str, *, remember: bool = True) -> Token:
        if isinstance(secret, Token):
            return secret
        shown = f"tok_…{secret[-_SHOWN:]}" if len(secret) >= _LONG else "tok_…"
        token = super().__new__(cls, shown)
        object.__setattr__(token, "_secret", secret)
        if remember and len(secret) >= _MASKABLE:
            _live[secret] = shown
        return token

    def reveal(self) -> str:
        """The secret itself: for a header, a file of its own, a comparison. Never for showing."""
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


def mask(text: str) -> str:
    """`text` with every known secret replaced by its mask."""
    for secret in sorted((one for one in tuple(_live) if one in text), key=len, reverse=True):
        text = text.replace(secret, _live[secret])
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


class _Silent(logging.NullHandler):
    """Prints nothing; being there keeps the last resort of `logging` from printing into a notebook's cell. It is
    the first to see each record of this package, so what other handlers write of it is clean."""

    def handle(self, record: logging.LogRecord) -> bool:
        return SecretFilter().filter(record)


logging.getLogger("mew_lab").addHandler(_Silent())
