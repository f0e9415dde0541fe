"""Reads the payload of an MCP response: a typed result, or the error of the tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mew_lab.errors import OutcomeUnknown, ToolFailed
from mew_lab.protocol.coerce import line_of, list_of, mapping_of, member
from mew_lab.protocol.content import MAX_SHOWN_PARTS, for_line, for_text, raw_text, read_parts
from mew_lab.protocol.difference import are_equal
from mew_lab.protocol.intake import SENT_UNKNOWN, answer_fault, first_unknown, unknown_outcome
from mew_lab.protocol.text import cut
from mew_lab.sdk.returned_values import blocks_of

__all__ = ["ToolResult", "result_of"]

MAX_SHOWN = 500  # characters of a peer's words inside one of our sentences


class ToolResult:
    """The result of a tool.

    `content` is the list of MCP content blocks, `structured` the structured value or None, `raw` the unchanged
    result, and `text` the text of its text blocks and embedded resources. `str()` is that text with invisible
    characters as escapes, and with a line for each part that is no text, such as `[image/png, 34 kB]`.

    Spec: §3.1.2.
    """

    __slots__ = ("raw",)

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    @classmethod
    def of(cls, *values: Any, error: bool = False) -> ToolResult:
        """A result to return from a tool, of what a notebook shows, in this order.

        Args:
            values: texts, figures and pictures, DataFrames (as CSV, cut with a count), bytes or `(bytes, type)`; any
                other value is written as JSON.
            error: whether it is an error of the tool.
        """
        return cls({"content": blocks_of(*values), "isError": error})

    @property
    def content(self) -> list[dict[str, Any]]:
        """The content blocks that are objects; empty where there are none."""
        return [block for block in list_of(member(self.raw, "content")) if isinstance(block, dict)]

    @property
    def structured(self) -> Any:
        """The value of `structuredContent`; None where there is none."""
        return member(self.raw, "structuredContent")

    @property
    def text(self) -> str:
        """The texts of its blocks and of embedded resources, separated by line ends. Without content, the result as
        JSON, or as Python writes values that JSON does not have, such as NaN."""
        if not isinstance(self.raw, dict) or not isinstance(self.raw.get("content"), list):
            return self.raw if isinstance(self.raw, str) else raw_text(self.raw)[0]
        return "\n".join(part.text for part in read_parts(self.raw) if part.text is not None)

    def __str__(self) -> str:
        return for_text(read_parts(self.raw))

    def __repr__(self) -> str:
        shown = repr(cut(self.text, 80)) if self.text else for_line(read_parts(self.raw), 80)
        return f"<ToolResult {shown or 'without content'}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolResult) and are_equal(self.raw, other.raw)

    __hash__ = None  # type: ignore[assignment]


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
        fields = mapping_of(error)
        code = fields.get("code")
        code = code if isinstance(code, int) and not isinstance(code, bool) else None
        stated = line_of(fields.get("message"), MAX_SHOWN)
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
    if member(raw, "isError") is True:
        raise ToolFailed(
            f"{what} failed: {for_line(read_parts(raw, most=MAX_SHOWN_PARTS), MAX_SHOWN)}", data=raw
        )
    return result
