"""Explains why a server gave no reply, without the key, and whether another try may succeed; pure.

`failure_of_status` and `failure_of_error` make one sentence for a person from a status, headers and the body of an
error. `Redaction` removes the key from everything that the server sends. A server knows the key, so it can write it
into an error, a text or the arguments of a call, in one piece or over two. `mask` handles other secrets.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from mew_lab.errors import ModelFailed
from mew_lab.protocol.coerce import json_of
from mew_lab.protocol.token import Token, mask
from mew_lab.protocol.visible import one_line

__all__ = ["KEY", "SECRET", "CompletionFailure", "Redaction", "failure_of_error", "failure_of_status"]

KEY = "[api key]"
SECRET = 8  # a shorter key ("none", "ollama") protects nothing, and its removal would damage ordinary text
_PART = 4  # characters of a key that a server may show to identify it
_SHOWN = 4000


class Redaction:
    """Removes one key from texts of a server. Without a key, or with one that is no secret, it changes nothing."""

    def __init__(self, key: Token | None) -> None:
        self._key = key if key is not None and len(key.reveal()) >= SECRET else None
        self._held = ""

    def text(self, text: str) -> str:
        """The text without the key."""
        return text.replace(self._key.reveal(), KEY) if self._key is not None else text

    def value(self, value: Any) -> Any:
        """The same for every text in a value that was JSON, names of members included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(member) for member in value]
        if isinstance(value, dict):
            return {self.text(name): self.value(member) for name, member in value.items()}
        return value

    def complaint(self, text: str) -> str:
        """An error of a server, cut to a bound, without the key, parts of it, and any other secret of this process."""
        text = mask(self.text(text[:_SHOWN]))
        if self._key is None:
            return text
        key = self._key.reveal()
        parts = {key[at : at + _PART] for at in range(len(key) - _PART + 1)}
        shown = list(text)
        for at in range(len(text) - _PART + 1):
            if text[at : at + _PART] in parts:
                shown[at : at + _PART] = ["*"] * _PART
        return "".join(shown)

    def piece(self, piece: str, *, last: bool = False) -> str:
        """The next piece of a streamed text. An end that may be the beginning of the key is held back."""
        text = self.text(self._held + piece)
        held = 0
        if self._key is not None and not last:
            key = self._key.reveal()
            held = next(
                (n for n in range(min(len(key) - 1, len(text)), 0, -1) if key.startswith(text[-n:])), 0
            )
        self._held = text[len(text) - held :]
        return text[: len(text) - held]


# What a server may object to, by the words of its text: one of each group.
_SUBJECTS = {
    "usage": (("stream_options", "include_usage"),),
    "form": (("response_format", "json_schema"),),
    "messages": (("messages",), ("string", "content")),
    "limit": (("max_completion_tokens",),),
    "images": (("image",),),
    "sampling": (("max_tokens", "temperature", "top_p"),),
}
_QUOTED = 300
_AGAIN = frozenset({408, 409, 425, 429, *range(500, 600)})
_HELP = {
    400: "The request does not suit this server: is it too long for the model, or does it use what the model cannot do?",
    401: "Check api_key= or OPENAI_API_KEY.",
    402: "Check the account that the key belongs to.",
    403: "Check api_key= or OPENAI_API_KEY, and whether the key may use this model.",
    404: "Check model= and base_url=: the server does not know one of them.",
    413: "The request is too long for this server.",
    422: "The request does not suit this server.",
    429: "Ask less often, or check the limits of the account.",
}


class CompletionFailure(NamedTuple):
    """The reason of a missing reply. `why` and `help` make the sentence.

    `retryable`: the same request may succeed later. `broken`: the connection broke. `empty`: the answer had no byte.
    `about` has the subjects of the server's text, of those in `_SUBJECTS`; the text itself is not kept, for it may hold
    the key.
    """

    why: str
    help: str = ""
    status: int | None = None
    retry_after_s: float | None = None
    retryable: bool = False
    broken: bool = False
    about: frozenset[str] = frozenset()
    empty: bool = False

    def error(self, *, model: str, host: str) -> ModelFailed:
        """The exception to raise."""
        sentence = f"the model {one_line(model, 80)} at {host} gave no reply: {self.why}."
        return ModelFailed(
            f"{sentence} {self.help}".rstrip(),
            model=model,
            status=self.status,
            retry_after_s=self.retry_after_s,
        )


def failure_of_status(
    status: int, headers: Mapping[str, str], body: bytes, *, redaction: Redaction, now: datetime
) -> CompletionFailure:
    """The failure of an HTTP status other than success."""
    text = body.decode("utf-8", "replace")
    message, code = _complaint(text)
    message = redaction.complaint(message)
    help = _HELP.get(status, "")
    if status == 400 and "tool" in message.lower():
        help = 'A model without native tool calls may still work with the format "scratchpad".'
    return CompletionFailure(
        f"{status}{_quoted(message)}",
        help or ("Its server is in trouble; try again later." if status >= 500 else "Check base_url=."),
        status=status,
        retry_after_s=_retry_after(headers, now),
        retryable=status in _AGAIN and code != "insufficient_quota",
        about=frozenset(
            what
            for what, groups in _SUBJECTS.items()
            if all(any(word in text for word in group) for group in groups)
        ),
    )


def failure_of_error(error: Any, *, redaction: Redaction) -> CompletionFailure:
    """The failure of an error inside an answer; some servers send one with the status of success."""
    message, code = _complaint(json.dumps({"error": error}, ensure_ascii=False))
    message = redaction.complaint(message)
    status = int(code) if code in map(str, range(400, 600)) else None
    return CompletionFailure(
        f"its server reports an error{_quoted(message)}",
        _HELP.get(status or 0, ""),
        status=status,
        retryable=status in _AGAIN,
    )


def _quoted(message: str) -> str:
    return f' ("{one_line(message, _QUOTED)}")' if message else ""


def _complaint(text: str) -> tuple[str, str]:
    """The text of an error, and its code. Servers nest it in `error`, `message` or `detail`, or write plain text."""
    value, code = json_of(text, text.strip()), ""
    for _ in range(3):
        if not isinstance(value, dict):
            break
        code = code or str(value.get("code") or "")[:40]
        value = next((value[name] for name in ("error", "message", "detail") if value.get(name)), "")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), code


def _retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """The seconds after which a server allows another request; None where it states none."""
    header = headers.get("retry-after", "").strip()
    try:
        seconds = float(header)
    except ValueError:
        try:
            when = parsedate_to_datetime(header)
        except ValueError:
            return None
        seconds = ((when if when.tzinfo else when.replace(tzinfo=UTC)) - now).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None
