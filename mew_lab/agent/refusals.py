"""Words why a server gave no reply, and whether it would help to ask again: `Refusal`; pure.

From a status, headers and the body of an error to one sentence for a human. What a server says is quoted
without keys, in one line. It knows no connection and waits for nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from mew_lab.agent.redaction import Redaction
from mew_lab.errors import ModelFailed
from mew_lab.protocol.visible import one_line

__all__ = ["Refusal", "of_error", "of_status"]

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


class Refusal(NamedTuple):
    """No reply. `why` and `help` make the sentence.

    `again`: the same request may succeed later. `broken`: the connection broke. `about_usage`,
    `about_form`, `about_messages`, `about_sampling`: the server names what it was to count, the form of its answer,
    a message, or how to choose and end its words. `about_limit`: it names another word for the greatest length.
    `empty`: there was an answer without a byte in it.
    """

    why: str
    help: str = ""
    status: int | None = None
    retry_after_s: float | None = None
    again: bool = False
    broken: bool = False
    about_usage: bool = False
    about_form: bool = False
    about_messages: bool = False
    about_sampling: bool = False
    about_limit: bool = False
    empty: bool = False

    def failed(self, *, model: str, host: str) -> ModelFailed:
        """The error to raise."""
        sentence = f"the model {one_line(model, 80)} at {host} gave no reply: {self.why}."
        return ModelFailed(
            f"{sentence} {self.help}".rstrip(),
            model=model,
            status=self.status,
            retry_after_s=self.retry_after_s,
        )


def of_status(
    status: int, headers: Mapping[str, str], body: bytes, *, redaction: Redaction, now: datetime
) -> Refusal:
    """What an HTTP status other than success means."""
    text = body.decode("utf-8", "replace")
    said, code = _complaint(text)
    said = redaction.complaint(said)
    help = _HELP.get(status, "")
    if status == 400 and "tool" in said.lower():
        help = 'A model without native tool calls may still work with the format "scratchpad".'
    return Refusal(
        f"{status}{_quoted(said)}",
        help or ("Its server is in trouble; try again later." if status >= 500 else "Check base_url=."),
        status=status,
        retry_after_s=_retry_after(headers, now),
        again=status in _AGAIN and code != "insufficient_quota",
        about_usage="stream_options" in text or "include_usage" in text,
        about_form="response_format" in text or "json_schema" in text,
        about_messages="messages" in text and ("string" in text or "content" in text),
        about_limit="max_completion_tokens" in text,
        about_sampling=any(word in text for word in ("max_tokens", "temperature", "top_p")),
    )


def of_error(error: Any, *, redaction: Redaction) -> Refusal:
    """What an error in the midst of an answer means: some servers send one with the status of success."""
    said, code = _complaint(json.dumps({"error": error}, ensure_ascii=False))
    said = redaction.complaint(said)
    status = int(code) if code in map(str, range(400, 600)) else None
    return Refusal(
        f"its server reports an error{_quoted(said)}",
        _HELP.get(status or 0, ""),
        status=status,
        again=status in _AGAIN,
    )


def _quoted(said: str) -> str:
    return f' ("{one_line(said, _QUOTED)}")' if said else ""


def _complaint(text: str) -> tuple[str, str]:
    """What an error says, and its code. Servers nest it in `error`, `message` or `detail`, or write plain text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text.strip(), ""
    code = ""
    for _ in range(3):
        if not isinstance(value, dict):
            break
        code = code or str(value.get("code") or "")[:40]
        value = next((value[name] for name in ("error", "message", "detail") if value.get(name)), "")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), code


def _retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds until a server wants to be asked again, as far as it says."""
    told = headers.get("retry-after", "").strip()
    try:
        seconds = float(told)
    except ValueError:
        try:
            when = parsedate_to_datetime(told)
        except ValueError:
            return None
        seconds = ((when if when.tzinfo else when.replace(tzinfo=UTC)) - now).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None
