"""Reads the payload of an MCP response: a typed result, or the error of the tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mew_lab.errors import OutcomeUnknown, ProtocolError, ToolFailed
from mew_lab.protocol.difference import are_equal
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.intake import SENT_UNKNOWN, answer_fault, first_unknown, unknown_outcome
from mew_lab.protocol.text import cut
from mew_lab.protocol.visible import one_line, visible_lines

__all__ = ["ToolResult", "raw_text", "result_of"]

MAX_SHOWN = 500  # characters of a peer's words inside one of our sentences


class ToolResult:
    """The result of a tool.

    `content` is the list of MCP content blocks, `structured` the structured value or None, `raw` the unchanged
    result, and `text` the text of its text blocks. `str()` is that text with invisible characters as escapes.

    Spec: §3.1.2.
    """

    __slots__ = ("raw",)

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    @property
    def content(self) -> list[dict[str, Any]]:
        """The content blocks that are objects; empty where there are none."""
        blocks = self.raw.get("content") if isinstance(self.raw, dict) else None
        return [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []

    @property
    def structured(self) -> Any:
        """The value of `structuredContent`; None where there is none."""
        return self.raw.get("structuredContent") if isinstance(self.raw, dict) else None

    @property
    def text(self) -> str:
        """The text blocks, separated by line ends. Without content, the result as JSON, or as Python writes values
        that JSON does not have, such as NaN."""
        if not isinstance(self.raw, dict) or not isinstance(self.raw.get("content"), list):
            return self.raw if isinstance(self.raw, str) else raw_text(self.raw)[0]
        texts = [block.get("text") for block in self.content if block.get("type") == "text"]
        return "\n".join(text for text in texts if isinstance(text, str))

    def __str__(self) -> str:
        return visible_lines(self.text)

    def __repr__(self) -> str:
        return f"<ToolResult {cut(self.text, 80)!r}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolResult) and are_equal(self.raw, other.raw)

    __hash__ = None  # type: ignore[assignment]


def raw_text(value: Any) -> tuple[str, str]:
    """A value as JSON text; where that is impossible, the text of Python with the reason. Never raises."""
    try:
        return compact(value), ""
    except ProtocolError as fault:
        why = one_line(str(fault), MAX_SHOWN)
    try:
        return repr(value), why
    except Exception as fault:  # a number of too many digits, too deep a nesting, an object that fails
        return f"<{type(value).__name__} without a text: {one_line(str(fault), MAX_SHOWN)}>", why


def result_of(payload: Mapping[str, Any], *, method: str, what: str) -> Any:
    """The result in a response's payload: a `ToolResult` for `tools/call`, else the unchanged value.

    Args:
        method: the method of the request.
        what: its name in error messages, such as `git/git_log`.

    Raises:
        ToolFailed: the answer is an error, or a tool result marked as one.
        OutcomeUnknown: the answer leaves open whether the call took effect. Spec: R35.
    """
    error = payload.get("error")
    unknown = unknown_outcome(payload)
    if error is not None or unknown:
        fields = error if isinstance(error, dict) else {}
        code, message = fields.get("code"), fields.get("message")
        code = code if isinstance(code, int) and not isinstance(code, bool) else None
        stated = one_line(message, MAX_SHOWN) if isinstance(message, str) else ""
        if unknown:
            wrong = f"its answer {unknown}" if unknown == answer_fault(payload) or not stated else ""
            said = "; ".join(filter(None, (wrong, stated))).rstrip(".")
            # A refused repeat was not executed: what is unknown is the outcome of the first call.
            if not first_unknown(payload):
                said = f"{said}. {SENT_UNKNOWN}"
            raise OutcomeUnknown(f"{what}: {said}", waiting_for=what, data=fields.get("data"))
        number = f" ({code})" if code is not None else ""
        reason = stated + number if stated else number.strip()
        raise ToolFailed(f"{what} failed: {reason}", code=code, data=fields.get("data"))
    raw = payload.get("result")
    if method != "tools/call":
        return raw
    result = ToolResult(raw)
    if isinstance(raw, dict) and raw.get("isError") is True:
        raise ToolFailed(f"{what} failed: {one_line(result.text, MAX_SHOWN)}", data=raw)
    return result
