"""Turns the result of a tool into blocks that a view can show: bounded visible text, and checked pictures. Pure.

A result comes from a peer. Text becomes visible text in bounds. The first bytes of a picture decide its type. Each part
that cannot be shown gets a line that names it.

Spec: §3.1.2; MCP content blocks.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line, visible
from mew_lab.sdk.results import raw_text
from mew_lab.views.ui.image_head import image_size, image_type
from mew_lab.views.ui.layout import lay_out

__all__ = ["Block", "answer_blocks", "blocks", "picture_of", "pictures_of"]

Shown = TypeVar("Shown")
MAX_BLOCKS = 50
MAX_TEXT = 50_000  # characters of one block
MAX_LAID_OUT = 5_000_000  # characters of JSON that are indented before the text is cut
MAX_PICTURE = 2_000_000  # characters of base64
MAX_PIXELS = 40_000_000
MAX_PICTURES = 8_000_000  # characters of base64 of all pictures that are shown at once


class Block(NamedTuple):
    """One part of a result. `kind` is text, json, image or note. The `text` of an image is base64, `mime` its type."""

    kind: str
    text: str
    mime: str = ""


def blocks(raw: Any) -> list[Block]:
    """The parts of a tool's result in their order, then its structured value unless a text part equals it."""
    if not isinstance(raw, Mapping) or not isinstance(raw.get("content"), list):
        return [_as_json(raw)]
    content = raw["content"]
    shown = [_block(part) for part in islice(content, MAX_BLOCKS)]
    if len(content) > MAX_BLOCKS:
        shown.append(Block("note", f"Not shown: {count_of(len(content) - MAX_BLOCKS, 'more part')}."))
    structured = raw.get("structuredContent")
    if structured is not None and not any(
        _holds_value(part, structured) for part in islice(content, MAX_BLOCKS)
    ):
        shown.append(_as_json(structured))
    return shown


def pictures_of(results: Iterable[Any]) -> list[list[Block]]:
    """The pictures in each result of one run, and notes on the parts that are not shown; in bounds over all of them.

    Spec: TA-45.
    """
    room = MAX_PICTURES
    pictures = []
    for raw in results:
        shown = [block for block in blocks(raw) if block.kind in ("image", "note")]
        size = sum(len(block.text) for block in shown)
        if size > room:
            shown = [Block("note", "The pictures are not shown: there are too many.")]
        else:
            room -= size
        pictures.append(shown)
    return pictures


def answer_blocks(method: str, raw: Any) -> list[Block]:
    """The parts of the answer to any method: of a tool, of a read resource, of a filled prompt; else its JSON."""
    if method == "tools/call":
        return blocks(raw)
    if method == "resources/read" and isinstance(raw, Mapping) and isinstance(raw.get("contents"), list):
        return _each(raw["contents"], _resource) or [Block("note", "The resource is empty.")]
    if method == "prompts/get" and isinstance(raw, Mapping) and isinstance(raw.get("messages"), list):
        about = raw.get("description")
        shown = [Block("note", one_line(about, 300))] if isinstance(about, str) and about else []
        return shown + [block for pair in _each(raw["messages"], _prompt_message) for block in pair]
    return [_as_json(raw)]


def _each(parts: list[Any], show: Callable[[Any], Shown]) -> list[Shown]:
    return [show(part) for part in islice(parts, MAX_BLOCKS)]


def _resource(part: Any) -> Block:
    """The content of a resource: its text, or a picture in its bytes."""
    if not isinstance(part, Mapping):
        return Block("note", "A part that is no object is not shown.")
    if isinstance(part.get("text"), str):
        return _as_text(part["text"])
    blob, mime = part.get("blob"), part.get("mimeType")
    if not isinstance(blob, str):
        return Block(
            "note", f"A resource without text and without bytes: {one_line(str(part.get('uri')), 200)}"
        )
    if isinstance(mime, str) and mime.startswith("image/"):
        return picture_of(blob)
    kind = f" of type {one_line(mime, 80)}" if isinstance(mime, str) and mime else ""
    return Block("note", f"Not shown: {count_of(len(blob) * 3 // 4, 'byte')}{kind}.")


def _prompt_message(part: Any) -> tuple[Block, ...]:
    """A message of a prompt: its role, and its content."""
    if not isinstance(part, Mapping):
        return (Block("note", "A message that is no object is not shown."),)
    return Block("note", f"{one_line(str(part.get('role')), 40)}:"), _block(part.get("content"))


def _holds_value(part: Any, value: Any) -> bool:
    """Whether a part is a text that holds the same value as JSON."""
    text = part.get("text") if isinstance(part, Mapping) else None
    if not isinstance(text, str) or text[:1] not in ("{", "["):
        return False
    try:
        return raw_text(json.loads(text)) == raw_text(value)
    except (ValueError, RecursionError):
        return False


def _block(part: Any) -> Block:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return _as_text(part["text"])
    if kind == "image":
        return picture_of(part.get("data"))
    if kind == "resource" and isinstance(resource := part.get("resource"), Mapping):
        if isinstance(resource.get("text"), str):
            return _as_text(resource["text"])
        return Block(
            "note", f"A resource that is not text is not shown: {one_line(str(resource.get('uri')), 200)}"
        )
    if kind == "resource_link":
        return Block("note", f"A link to a resource: {one_line(str(part.get('uri')), 200)}")
    return Block("note", f"A part of type {one_line(str(kind), 40)} is not shown.")


def _as_text(text: str) -> Block:
    if text[:1] in ("{", "["):
        try:
            # The numbers keep their digits: 1e400, parsed and written again, would be another number.
            if not raw_text(json.loads(text))[1]:
                return Block("json", _bound(lay_out(text, MAX_LAID_OUT)))
        except (ValueError, RecursionError):
            pass
    return Block("text", _bound(text))


def _as_json(value: Any) -> Block:
    text, why = raw_text(value)
    if why:
        return Block("text", _bound(text))
    return Block("json", _bound(json.dumps(value, ensure_ascii=False, indent=2)))


def _bound(text: str) -> str:
    """The text with its lines, with escapes for invisible characters, and with the number of characters cut off."""
    lines = "\n".join(visible(line).replace("\\t", "    ") for line in text[:MAX_TEXT].split("\n"))
    return (
        lines
        if len(text) <= MAX_TEXT
        else f"{lines}\n… {count_of(len(text) - MAX_TEXT, 'more character')}: lab.log.df has all"
    )


def picture_of(data: Any) -> Block:
    """The picture in a base64 text if it is a PNG, JPEG, GIF or WebP of an acceptable size, else a note."""
    if not isinstance(data, str):
        return Block("note", "A picture without data is not shown.")
    if len(data) > MAX_PICTURE:
        return Block(
            "note", f"A picture of {len(data)} characters of base64 is not shown; at most {MAX_PICTURE} are."
        )
    try:
        body = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return Block("note", "A picture that is not valid base64 is not shown.")
    mime = image_type(body)
    width, height = image_size(mime, body)
    if not mime:
        return Block("note", "A picture that is not a PNG, JPEG, GIF or WebP is not shown.")
    if not 0 < width * height <= MAX_PIXELS:
        return Block("note", f"A picture of {width} × {height} pixels is not shown.")
    return Block("image", base64.b64encode(body).decode(), mime)
