"""Displays objects in a notebook: as HTML that is safe by construction, and as text.

`install` registers a formatter for each type by its name, so that loading this module loads none of the types. It
returns a function that removes the formatters. A formatter never raises: an object that cannot be shown is named with
the reason.
"""

from __future__ import annotations

import base64
import contextlib
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mew_lab.errors import MewError
from mew_lab.lab.safe_html import CODE, FAINT, MOST_TEXT, Html, bounded, box, lines, picture, table, tag
from mew_lab.protocol.content import (
    Block,
    ContentPart,
    describe_part,
    for_page,
    json_text,
    pictures_of,
    read_parts,
)
from mew_lab.protocol.describe import describe
from mew_lab.protocol.families import family_of
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import middle, one_line, visible

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["TYPES", "install"]

MOST_PARTS = 50  # parts of a result other than text, each named


def _chip(kind: str) -> Html:
    style = f"{CODE};border-left:3px solid {family_of(kind).light};padding:0 6px;margin-right:6px"
    return tag("span", kind, style=style)


def _code(text: str) -> Html:
    return tag("code", text, style=CODE, dir="ltr")


def _id(text: str) -> Html:
    return tag("span", middle(text), style=f"{CODE};opacity:.75", title=text)


# --- HTML ---------------------------------------------------------------------------------------------------


def listing(value: Any) -> Html:
    """A listing as a table; or, without rows, its sentence for the empty case."""
    title = tag("b", value.title) if value.title else ""
    if not value.rows:
        return box(title, tag("div", value.empty, style=FAINT), tag("div", value.note, style=FAINT))
    return box(title, table(value.columns, value.rows, notes=[value.note], whole=".rows"))


def tool_test(value: Any) -> Html:
    """The calls of a test of a tool as a table, the pictures in their results, and the final answer. Spec: TA-45."""
    title, calls = tag("b", value.title), value.execution.calls
    pictures = [
        part
        for record, blocks in zip(calls, pictures_of(value.execution.results), strict=True)
        for part in _pictures(blocks, record.call.name)
    ]
    return box(
        title,
        table(value.columns, value.rows, whole=".rows") if calls else tag("div", value.empty, style=FAINT),
        *pictures,
        lines(value.answer, whole=".answer"),
        tag("div", value.remark, style=FAINT) if value.remark else "",
    )


def _pictures(blocks: list[Block], tool: str) -> list[Html]:
    """The pictures of a result, each named for a reader who does not see it, and the notes on its other parts."""
    pictures = []
    for number, block in enumerate(blocks, 1):
        if block.kind == "image":
            pictures.append(picture(block.text, f"picture {number} in the answer of {tool}"))
        else:
            pictures.append(tag("div", f"{one_line(tool, 120)}: {block.text}", style=FAINT))
    return pictures


def whole(value: Any) -> Html:
    """The uncut text of a value, because a person may approve a proposal by it, or copy it."""
    text = str(value)
    return box(lines(text, limit=len(text)))


def note(value: Any) -> Html:
    """A note as one sentence."""
    return box(value.text)


def sent(value: Any) -> Html:
    """The kind, addressees and sender of a sent message."""
    envelope = value.envelope
    to = f"to {', '.join(envelope.to)} " if envelope.to else "to everybody "
    note = tag("div", f"Note: {value.note}", style=FAINT) if value.note else ""
    return box(_chip(envelope.kind), to, f"as {envelope.sender} ", _id(envelope.id), note)


def envelope(value: Any) -> Html:
    """An envelope as one line, with its exact text below."""
    to = f" to {', '.join(value.to)}" if value.to else ""
    head = tag("div", _chip(value.kind), f"{value.sender}{to}: ", describe(value.kind, value.payload))
    return box(head, tag("details", tag("summary", "exact text"), lines(value.raw, whole=".raw")))


def page_link(value: Any) -> Html:
    """The link to a page, and its QR code."""
    code = base64.b64encode(value.qr_png()).decode()
    return box(value.text, picture(code, "the same link as a QR code"))


def lab(value: Any) -> Html:
    """The address and members of a lab, and the shell line with which another process joins."""
    head = tag("div", tag("b", value.name), f" · space {value.space} · ", _code(value.url or "in memory"))
    if value.closed:
        return box(head, tag("div", "This space has stopped; its log can still be read.", style=FAINT))
    members = value.who()
    below = [tag("div", *((text, _code(code)) if code else (text,))) for text, code in _below(value)]
    return box(head, table(members.columns, members.rows, notes=[members.note]), *below)


def _below(value: Any) -> list[tuple[str, str]]:
    """The lines below the members of a lab: pairs of text and code."""
    waiting = len(value.decisions.pending())
    pairs = [(f"{count_of(waiting, 'proposal')} to approve: ", "%mew approvals")]
    line = _join_line(value)
    return (pairs if waiting else []) + ([("Join from another process: ", line)] if line else [])


def _join_line(value: Any) -> str:
    """The shell line with which another process joins; empty where this process cannot enrol participants."""
    if value.url:
        with contextlib.suppress(MewError):
            return str(value.join_line())
    return ""


def seat(value: Any) -> Html:
    """The participant of a seat, and its capabilities."""
    head = tag("div", tag("b", value.name), f" in {value.lab.space}")
    rows = [
        (n, _code(json.dumps(pattern, ensure_ascii=False))) for n, pattern in enumerate(value.capabilities)
    ]
    return box(head, table(("#", "may send"), rows))


def pending(value: Any) -> Html:
    """The call, its state, and the next step."""
    by = f" by {value.by}" if value.by else ""
    head = tag(
        "div",
        _chip(value.kind),
        f"{value.what} as {value.seat}: ",
        tag("b", value.state),
        by,
        " ",
        _id(value.id),
    )
    return box(head, tag("div", _next_step(value), style=FAINT))


def _next_step(value: Any) -> str:
    if value.done:
        return "Await it for the result." if value.state == "answered" else "Await it for the reason."
    if value.kind == "mcp/proposal" and value.state == "open":
        return "Waiting for approval. Run %mew approvals, or lab.approve(p)."
    if value.kind == "chat":
        return "Sent. Await it for the answer. The agent may ask for approval: run %mew approvals."
    return "Sent, no answer yet. Await it for the result."


def tool_result(value: Any) -> Html:
    """The texts, pictures and tables of a result, its structured value, and the names of its other parts.

    A value that JSON cannot express, such as NaN, is shown as Python writes it, with a note.
    """
    shown: list[Html] = []
    parts, room = read_parts(value.raw), MOST_TEXT
    for number, part in enumerate(parts[:MOST_PARTS], 1):
        if part.kind == "structured":
            shown += _structured(part, whole=".structured" if value.structured is not None else ".text")
            continue
        block = for_page((part,))[-1]
        if block.kind == "image":
            shown.append(picture(block.text, f"picture {number} of the result"))
        elif block.kind == "table":
            head, *rows = block.rows
            shown.append(table(head, rows, notes=[block.text], whole=".text"))
        elif part.text is not None:
            shown.append(lines(part.text, limit=room, whole=".text"))
            room = max(200, room - len(part.text))
        else:
            shown.append(tag("div", f"{describe_part(part)} is not shown; see .content", style=FAINT))
    if len(parts) > MOST_PARTS:
        shown.append(tag("div", f"Not shown: {count_of(len(parts) - MOST_PARTS, 'more part')}", style=FAINT))
    return box(*(shown or [tag("div", "an empty result", style=FAINT)]))


def _structured(part: ContentPart, *, whole: str) -> list[Html]:
    text, why = json_text(part.value)
    shown = [lines(text, whole=whole)]
    if whole == ".structured":
        shown = [tag("details", tag("summary", "structured"), *shown)]
    note = f"shown as Python writes it; .raw has it: {why}"
    return [*shown, tag("div", note, style=FAINT)] if why else shown


def log(value: Any) -> Html:
    """The size of the log, and the observer that recorded it."""
    return box(
        tag("b", f"log of {value.space or 'a space'}"),
        f": {count_of(len(value), 'message')}, as the {value.vantage} saw them; ",
        _code(".df"),
        " is the table",
    )


def usage(value: Any) -> Html:
    """Help: the usage, and the meaning of each argument."""
    head = tag("div", _code(value.usage), " ", value.about)
    parts: list[Html | str] = []
    for title, group in value.grouped:
        rows = [(_code(argument), about) for argument, about in group]
        parts += [tag("b", title)] if title else []
        parts += [table(("", ""), rows)] if rows else []
    return box(head, *parts, tag("div", value.note, style=FAINT) if value.note else "")


# --- text ---------------------------------------------------------------------------------------------------


def _plain(text: str) -> str:
    return "\n".join(visible(line) for line in text.split("\n"))


def lab_text(value: Any) -> str:
    """The lab in a few lines."""
    head = f"{value.name}: space {value.space} at {value.url or 'no address, in memory'}"
    if value.closed:
        return f"{head}; this space has stopped; its log can still be read"
    return "\n".join([head, str(value.who()), *(text + code for text, code in _below(value))])


def envelope_text(value: Any) -> str:
    """An envelope as one line."""
    to = f" to {', '.join(value.to)}" if value.to else ""
    return one_line(f"{value.kind} {value.sender}{to}: {describe(value.kind, value.payload)}", 200)


def log_text(value: Any) -> str:
    """The log in one line."""
    return f"log of {value.space or 'a space'}: {count_of(len(value), 'message')}, as the {value.vantage} saw them"


def seat_text(value: Any) -> str:
    """The seat in one line."""
    return f"seat {value.name} in {value.lab.space}: {count_of(len(value.capabilities), 'permission')}"


def pending_text(value: Any) -> str:
    """The pending call in one line, with the next step."""
    return f"{value!r}; {_next_step(value)}"


def short(value: Any) -> str:
    """The text of a value, cut at `MOST_TEXT` characters; `print` has no such limit."""
    return bounded(str(value), MOST_TEXT, whole="print()")


# --- registration -------------------------------------------------------------------------------------------

# The module of the type, its name, its HTML, its text.
TYPES: tuple[tuple[str, str, Callable[[Any], Html], Callable[[Any], str]], ...] = (
    ("mew_lab.lab.listing", "Listing", listing, short),
    ("mew_lab.lab.tools_agent_seat", "ToolTest", tool_test, short),
    ("mew_lab.lab.decisions.text", "Proposals", whole, str),
    ("mew_lab.lab.decisions.text", "ListedProposal", whole, str),
    ("mew_lab.lab.listing", "Note", note, short),
    ("mew_lab.views.page.link", "PageLink", page_link, str),
    ("mew_lab.lab.listing", "SentEnvelope", sent, short),
    ("mew_lab.lab.lab", "Lab", lab, lab_text),
    ("mew_lab.lab.seat", "Seat", seat, seat_text),
    ("mew_lab.lab.mcp_access", "McpSeat", whole, str),
    ("mew_lab.bridge.client_settings", "ClientSettings", whole, str),
    ("mew_lab.lab.pending", "Pending", pending, pending_text),
    ("mew_lab.sdk.results", "ToolResult", tool_result, short),
    ("mew_lab.protocol.envelope", "Envelope", envelope, envelope_text),
    ("mew_lab.log.log", "Log", log, log_text),
    ("mew_lab.notebook.commands", "Help", usage, str),
)


def _printer(text_of: Callable[[Any], str]) -> Callable[[Any, Any, bool], None]:
    def show(value: Any, printer: Any, _cycle: bool) -> None:
        try:
            text = text_of(value)
        except Exception as fault:  # a display that fails must not hide that there is a value
            text = _not_shown(value, fault)
        printer.text(_plain(text))

    return show


def _html(of: Callable[[Any], Html]) -> Callable[[Any], str]:
    def show(value: Any) -> str:
        try:
            return of(value)
        except Exception as fault:
            return box(_not_shown(value, fault))

    return show


def _not_shown(value: Any, fault: Exception) -> str:
    return f"<{type(value).__name__}> cannot be shown: {type(fault).__name__}: {fault}"


def install(ip: InteractiveShell) -> Callable[[], None]:
    """Registers the formatters; returns a function that restores the earlier ones."""
    formatters = ip.display_formatter.formatters  # type: ignore[union-attr]
    undo: list[Callable[[], None]] = []
    for module, name, to_html, to_text in TYPES:
        for kind, show in (("text/html", _html(to_html)), ("text/plain", _printer(to_text))):
            formatter = formatters[kind]
            # By its name where it is not loaded; for a loaded type another formatter would take precedence.
            old = formatter.pop(f"{module}.{name}", None)  # of this type, not of a base class
            formatter.for_type(getattr(sys.modules.get(module), name, f"{module}.{name}"), show)
            undo.append(_undo(formatter, f"{module}.{name}", old))

    def remove() -> None:
        for callback in undo:
            callback()

    return remove


def _undo(formatter: Any, path: str, old: Any) -> Callable[[], None]:
    def back() -> None:
        formatter.pop(path, None)
        if old is not None:
            formatter.for_type(path, old)

    return back
