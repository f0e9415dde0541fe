"""Reads the answer of an MCP request as parts, and describes each part for each of its readers; pure.

How it works. `read_parts` turns an answer into `ContentPart`s: the content of a tool's result, of a read resource, of a
filled prompt, or a value of any other shape. Each reader has a function that takes these parts:

```
model                       for_model     text, and pictures where the model takes them
card, feed, error           for_line      one short line
terminal, report, Markdown  for_text      text, with a line in place of each part that is no text
page, cell                  for_page      blocks: text, JSON, checked pictures, tables, notes
```

Nothing here believes a peer. The first bytes of a picture decide its type. Its size is that of the bytes that came.
Base64 that is none is named as that. Every text for a person is made visible, and every reader has its bounds. `_meta`
is never described.

A result may hold its value twice: as content, and as `structuredContent`. A model and a text get the structured value
only where the content holds nothing for them to read. A page shows it unless the content holds the same value.

Spec: §3.1.2; MCP "Content", "Structured Content", "Resources", "Prompts".
"""

from __future__ import annotations

import base64
import binascii
import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple

from mew_lab.errors import ProtocolError
from mew_lab.protocol.coerce import mapping_of, text_of
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.image_head import PICTURE_TYPES, image_size, image_type
from mew_lab.protocol.layout import lay_out
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line, visible, visible_lines

__all__ = [
    "MAX_COLUMNS",
    "MAX_ROWS",
    "MAX_SHOWN_PARTS",
    "Block",
    "CheckedPicture",
    "ContentPart",
    "ModelContent",
    "describe_part",
    "for_line",
    "for_model",
    "for_page",
    "for_phrase",
    "for_text",
    "holds_content",
    "json_text",
    "picture_of",
    "pictures_of",
    "raw_text",
    "read_parts",
    "size_text",
    "without_bytes",
]

Kind = Literal["text", "image", "audio", "resource", "link", "structured", "note", "unknown"]

MAX_SHOWN_PARTS = 50  # parts that a person is shown
MAX_MODEL_PARTS = 500  # the others are counted: a server sends as many as it likes
MAX_MODEL_PICTURES = 4  # pictures of one result that a model is shown
MAX_MODEL_PICTURE = 5_000_000  # characters of base64: usual APIs of models refuse a picture of more
MAX_TEXT = 50_000  # characters of one block
META_LEVELS = 6  # from an answer to the resource in a message of a prompt
MAX_LAID_OUT = 5_000_000  # characters of JSON that are indented before the text is cut
MAX_PICTURE = 2_000_000  # characters of base64
MAX_PIXELS = 40_000_000  # a few bytes may unpack to a picture that fills the memory of a browser
MAX_PICTURES = 8_000_000  # characters of base64 of all pictures that are shown at once
MAX_ROWS, MAX_COLUMNS = 200, 100  # of a table
MAX_CELL = 1_000  # characters
MAX_WHY = 500  # characters of a fault
_HEAD = 1_024  # characters of base64 from which the type of a picture is read
_SAME_TYPE = {"image/jpg": "image/jpeg", "image/x-png": "image/png", "image/pjpeg": "image/jpeg"}
_NOUN = {"image": "picture", "audio": "sound", "resource": "resource"}
TABLE = "text/csv"
_EMPTY: tuple[Any, ...] = ("", [], {})


@dataclass(frozen=True, slots=True)
class ContentPart:
    """One part of an answer, as it came.

    `text` is that of a text or of a resource, and `data` the base64 of a picture, a sound or a resource; None where it
    has none. `value` is the structured value. `mime`, `uri`, `name` and `size` are claims of the peer. `name` is the
    type of an unknown part, or the words of a note about the whole. `role` is that of a prompt's message.
    """

    kind: Kind
    text: str | None = None
    data: str | None = None
    value: Any = None
    mime: str = ""
    uri: str = ""
    name: str = ""
    size: int | None = None
    role: str = ""

    @property
    def is_table(self) -> bool:
        """Whether it claims to be a table in CSV."""
        return self.text is not None and self.mime.partition(";")[0].strip().lower() == TABLE


class CheckedPicture(NamedTuple):
    """A picture whose bytes were checked: its type by its first bytes, and its base64."""

    mime: str
    data: str


class ModelContent(NamedTuple):
    """What a model gets of an answer. The text names each picture as well."""

    text: str
    pictures: tuple[CheckedPicture, ...] = ()


class Block(NamedTuple):
    """One part as a page shows it.

    `kind` is text, json, table, image or note. The `text` of an image is base64 and `mime` its type. A table has
    `rows`, the first of them its head, and its `text` says what is left out.
    """

    kind: str
    text: str
    mime: str = ""
    rows: tuple[tuple[str, ...], ...] = ()


# --- reading ----------------------------------------------------------------------------------------------------------


def read_parts(raw: Any, method: str = "tools/call", *, most: int | None = None) -> tuple[ContentPart, ...]:
    """The parts of the answer to a request of this method, in their order; a structured value is the last.

    Args:
        most: reads so many items, and then a note on how many there are besides; for a reader of one line, because a
            peer may send some hundred thousand. None reads all.
    """
    members = mapping_of(raw)
    if method == "resources/read" and isinstance(members.get("contents"), list):
        items, more = _first(members["contents"], most)
        return tuple([_read_resource(item) for item in items] + more)
    if method == "prompts/get" and isinstance(members.get("messages"), list):
        about = members.get("description")
        described = [ContentPart("note", name=about)] if isinstance(about, str) and about else []
        items, more = _first(members["messages"], most)
        return tuple(described + list(_read_messages(items)) + more)
    if method == "tools/call":
        structured = members.get("structuredContent")
        last = [ContentPart("structured", value=structured)] if structured is not None else []
        if isinstance(members.get("content"), list):
            items, more = _first(members["content"], most)
            return tuple([_read_block(item) for item in items] + more + last)
        if last:
            return tuple(last)
    if isinstance(raw, str):
        return (ContentPart("text", raw),)
    return (ContentPart("structured", value=_without_meta(raw)),)


def _without_meta(value: Any, levels: int = META_LEVELS) -> Any:
    """The value without the members `_meta` that an answer of MCP may have, which are for programs alone."""
    if levels and isinstance(value, dict):
        return {key: _without_meta(inner, levels - 1) for key, inner in value.items() if key != "_meta"}
    if levels and isinstance(value, list):
        return [_without_meta(inner, levels - 1) for inner in value]
    return value


def _first(items: list[Any], most: int | None) -> tuple[list[Any], list[ContentPart]]:
    if most is None or len(items) <= most:
        return items, []
    return items[:most], [ContentPart("note", name=count_of(len(items) - most, "more part"))]


def holds_content(raw: Any) -> str:
    """The method whose answer a result looks like, for a reader that does not know the request; empty for none."""
    members = mapping_of(raw)
    shapes = {"content": "tools/call", "contents": "resources/read", "messages": "prompts/get"}
    return next((method for key, method in shapes.items() if isinstance(members.get(key), list)), "")


def _read_messages(messages: Sequence[Any]) -> Iterator[ContentPart]:
    for message in messages:
        if not isinstance(message, Mapping):
            yield ContentPart("unknown")
            continue
        content = message.get("content")
        for item in content if isinstance(content, list) else [content]:
            yield _read_block(item, role=text_of(message.get("role")) or "no role")


def _read_block(block: Any, *, role: str = "") -> ContentPart:
    if not isinstance(block, Mapping):
        return ContentPart("unknown", role=role)
    kind, text = block.get("type"), block.get("text")
    if kind in ("text", None) and isinstance(text, str):  # some servers leave out the type of a text
        return ContentPart("text", text, role=role)
    if kind == "image" or kind == "audio":
        data = text_of(block["data"]) if isinstance(block.get("data"), str) else None
        return ContentPart(kind, data=data, mime=text_of(block.get("mimeType")), role=role)
    if kind == "resource" and isinstance(block.get("resource"), Mapping):
        return _read_resource(block["resource"], role=role)
    if kind == "resource_link":
        size = block.get("size")
        return ContentPart(
            "link",
            mime=text_of(block.get("mimeType")),
            uri=text_of(block.get("uri")),
            name=text_of(block.get("title")) or text_of(block.get("name")),
            size=size if type(size) is int and 0 <= size < 1 << 53 else None,
            role=role,
        )
    return ContentPart("unknown", name=text_of(kind) or raw_text(kind)[0][:80], role=role)


def _read_resource(item: Any, *, role: str = "") -> ContentPart:
    if not isinstance(item, Mapping):
        return ContentPart("unknown", role=role)
    text, blob = item.get("text"), item.get("blob")
    text = text if isinstance(text, str) else None
    return ContentPart(
        "resource",
        text,
        data=blob if isinstance(blob, str) and text is None else None,
        mime=text_of(item.get("mimeType")),
        uri=text_of(item.get("uri")),
        role=role,
    )


# --- names ------------------------------------------------------------------------------------------------------------


def describe_part(part: ContentPart, *, limit: int = 200) -> str:
    """What a part is, for a reader that is not shown it: `image/png, 34 kB`. One visible line.

    Args:
        limit: characters of each claim of the peer, such as an address.
    """
    uri = one_line(part.uri, limit)
    if part.kind == "link":
        facts = [one_line(part.mime, 80), f"{size_text(part.size)} by its own account" if part.size else ""]
        known = ", ".join(filter(None, facts))
        name = one_line(part.name, 80)
        address = (
            f"to {name}: {uri}" if name and uri else f"to {uri}" if uri else f"{name} without an address"
        )
        return f"link {address.strip()}" + (f" ({known})" if known else "")
    if part.kind == "note":
        return one_line(part.name, 300)
    if part.kind == "unknown":
        return f"a part of type {one_line(part.name, 40)}" if part.name else "a part that is no object"
    if part.kind == "text":
        return count_of(len(part.text or ""), "character")
    if part.kind == "structured":
        return "a structured value"
    where = f", {uri}" if part.kind == "resource" and uri else ""
    if part.text is not None:
        mime = one_line(part.mime, 80) or "text"
        return f"{mime}, {count_of(len(part.text), 'character')}{where}"
    return _describe_bytes(part) + where


def _describe_bytes(part: ContentPart) -> str:
    noun = _NOUN[part.kind]
    if part.data is None:
        return f"a {noun} without content"
    head = _decode(part.data[:_HEAD], cut=len(part.data) > _HEAD)
    claimed = one_line(part.mime, 80)
    if head is None:
        return f"{claimed or f'a {noun}'}, {count_of(len(part.data), 'character')} that are no base64"
    size = size_text(_decoded_size(part.data))
    true = image_type(head)
    plain = _plain_type(part.mime)
    if true:
        return f"{true}, {size}" + (f", sent as {claimed}" if plain not in ("", true) else "")
    if plain in PICTURE_TYPES:
        return f"no {plain}, though sent as one, {size}"
    return f"{claimed or f'a {noun} of no named type'}, {size}"


def _plain_type(mime: str) -> str:
    plain = mime.partition(";")[0].strip().lower()
    return _SAME_TYPE.get(plain, plain)


def size_text(size: int) -> str:
    """A number of bytes as a person reads it: `812 bytes`, `34 kB`, `3.7 MB`."""
    if size < 1_000:
        return count_of(size, "byte")
    return f"{size / 1_000:.0f} kB" if size < 999_500 else f"{size / 1_000_000:.1f} MB"


def _bare(data: str) -> str:
    """Base64 without what some servers put around it: the head of a data URL, and line ends."""
    if data.startswith("data:"):
        data = data[data.find(",", 0, 200) + 1 :]
    return "".join(data.split())


def _decode(data: str, *, cut: bool = False) -> bytes | None:
    """The bytes of base64; None for other text. With `cut` it is the beginning of a longer one."""
    bare = _bare(data)
    try:
        return base64.b64decode(bare[: len(bare) // 4 * 4] if cut else bare, validate=True)
    except (binascii.Error, ValueError):
        return None


def _decoded_size(data: str) -> int:
    start = data.find(",", 0, 200) + 1 if data.startswith("data:") else 0
    return max(0, (len(data) - start) * 3 // 4 - data[-2:].count("="))


# --- a model ----------------------------------------------------------------------------------------------------------


def for_model(
    parts: Sequence[ContentPart], *, images: bool = False, empty: str = "(no output)"
) -> ModelContent:
    """What a model gets: texts, texts of resources with their addresses, and the names of all else.

    The structured value comes only where the content holds nothing that this model can read.

    Args:
        images: whether the model takes pictures; up to four come beside the text, which names them.
        empty: the text for an answer without anything.
    """
    texts: list[str] = []
    pictures: list[CheckedPicture] = []
    role = ""
    chosen = [part for part in _either(parts, images=images) if part.kind != "note"]
    several = len(chosen) > 1
    for part in islice(chosen, MAX_MODEL_PARTS):
        if images and part.data is not None and len(pictures) < MAX_MODEL_PICTURES:
            shown = _may_be_picture(part)
            block = picture_of(part.data, largest=MAX_MODEL_PICTURE) if shown else None
            if block is not None and block.kind == "image":
                pictures.append(CheckedPicture(block.mime, block.text))
                texts.append(f"[{describe_part(part, limit=2_000)}: picture {len(pictures)}]")
                continue
        text = _model_text(part, several=several)
        if part.role and (part.role != role or part.kind != "text"):
            text = f"{one_line(part.role, 80)}: {text}"
        role = part.role
        texts.append(text)
    if len(chosen) > MAX_MODEL_PARTS:
        texts.append(f"[{count_of(len(chosen) - MAX_MODEL_PARTS, 'more part')} left out]")
    return ModelContent("\n".join(texts) or empty, tuple(pictures))


def _model_text(part: ContentPart, *, several: bool) -> str:
    if part.kind == "text":
        return part.text or ""
    if part.kind == "structured":
        return raw_text(part.value)[0]
    if part.text is None:
        return f"[{describe_part(part, limit=2_000)}]"
    head = ", ".join(filter(None, (one_line(part.uri, 2_000), one_line(part.mime, 80))))
    return f"[{head}]\n{part.text}" if several and head else part.text


def _may_be_picture(part: ContentPart) -> bool:
    return part.kind == "image" or (part.kind == "resource" and part.mime.lower().startswith("image/"))


def _either(parts: Sequence[ContentPart], *, images: bool = False) -> Sequence[ContentPart]:
    """The content; or, where it holds nothing to read, the names of its bytes and the structured value."""
    if not parts or parts[-1].kind != "structured":
        return parts
    content, value = parts[:-1], parts[-1].value
    if any(_carries(part, images=images) for part in content):
        return content
    # An empty text, which FastMCP also sends as {"result": ""}, stays an empty text.
    if content and (
        value in _EMPTY or (isinstance(value, dict) and all(v in _EMPTY for v in value.values()))
    ):
        return content
    return [*(part for part in content if part.data), parts[-1]]


def _carries(part: ContentPart, *, images: bool) -> bool:
    """Whether a reader gets anything from a part: a text, an address, or a picture where it takes pictures."""
    if part.text is not None:
        return bool(part.text.strip())
    return bool(part.uri) if part.kind == "link" else images and bool(part.data) and _may_be_picture(part)


# --- one line, and text -----------------------------------------------------------------------------------------------


def for_line(parts: Sequence[ContentPart], limit: int = 120) -> str:
    """The answer as one visible line for a card, an error or a table: its texts, and the names of other parts."""
    texts: list[str] = []
    names: list[str] = []
    left = limit + 1
    for part in _either(parts):
        if left <= 0:
            break
        if part.text is None and part.kind != "structured":
            # The names come last, and only as many as there may be room for.
            if len(names) * 4 <= limit:
                names.append(f"[{describe_part(part)}]")
            continue
        text = raw_text(part.value)[0] if part.text is None else part.text
        if text:
            texts.append(text[:left])
            left -= len(text) + 1
    return one_line(" ".join(filter(None, ("\n".join(texts), *names))), limit)


def for_phrase(parts: Sequence[ContentPart], limit: int = 90) -> str:
    """The answer as a phrase for the line of a message: its first text in quotes, and what else there is."""
    chosen = _either(parts)
    texts = [part.text for part in chosen if part.text is not None]
    named = [part for part in chosen if part.text is None and part.kind != "structured"]
    phrases = [f"“{one_line(texts[0].strip(), limit)}”"] if texts else []
    if len(texts) > 1:
        phrases.append(count_of(len(texts) - 1, "more text"))
    if len(named) == 1:
        phrases.append(describe_part(named[0], limit=80))
    elif named:
        phrases.append(f"{describe_part(named[0], limit=80)} and {count_of(len(named) - 1, 'more part')}")
    if not phrases and chosen:
        return one_line(raw_text(chosen[0].value)[0], limit)
    return ", ".join(phrases)


def for_text(parts: Sequence[ContentPart], *, limit: int | None = None) -> str:
    """The answer as visible text of several lines, with a line in brackets for each part that is no text.

    Args:
        limit: characters of each text, with the number of those left out; None bounds nothing.
    """
    chosen = _either(parts)
    lines = [_shown_text(part, limit) for part in islice(chosen, MAX_SHOWN_PARTS)]
    # Texts alone stay whole: whoever prints a result gets all of it.
    for part in chosen[MAX_SHOWN_PARTS:] if limit is None else ():
        if part.text is not None:
            lines.append(_shown_text(part, limit))
    left_out = len(chosen) - len(lines)
    if left_out > 0:
        lines.append(f"[{count_of(left_out, 'more part')} left out]")
    return "\n".join(lines)


def _shown_text(part: ContentPart, limit: int | None) -> str:
    text = raw_text(part.value)[0] if part.kind == "structured" else part.text
    if text is None:
        shown = f"[{describe_part(part)}]"
    elif limit is not None and len(text) > limit:
        shown = f"{visible_lines(text[:limit])}\n[{count_of(len(text) - limit, 'more character')} left out]"
    else:
        shown = visible_lines(text)
    return f"{one_line(part.role, 80)}: {shown}" if part.role else shown


def without_bytes(value: Any) -> Any:
    """A payload or a result with the name of each picture, sound and other bytes in place of their base64.

    It is a copy where something is replaced, else the value itself.
    """
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("result"), dict):
        return {**value, "result": without_bytes(value["result"])}
    for key, method in (("content", "tools/call"), ("contents", "resources/read")):
        if isinstance(items := value.get(key), list):
            parts = read_parts({key: items}, method)
            named = [_without_data(item, part) for item, part in zip(items, parts, strict=True)]
            return {**value, key: named} if any(part.data is not None for part in parts) else value
    return value


def _without_data(item: Any, part: ContentPart) -> Any:
    if part.data is None or not isinstance(item, dict):
        return item
    if isinstance(inner := item.get("resource"), dict):
        return {**item, "resource": _without_data(inner, part)}
    key = "data" if part.kind != "resource" else "blob"
    return {**item, key: f"[{describe_part(part)}]"}


# --- a page -----------------------------------------------------------------------------------------------------------


def for_page(
    parts: Sequence[ContentPart],
    *,
    empty: str = "",
    rest: str = "lab.log.df has all",
    largest: int = MAX_PICTURE,
) -> list[Block]:
    """The blocks of an answer, in bounds. The structured value is left out where the content holds the same value.

    Args:
        empty: the note for an answer without any part.
        rest: where the rest of a text is that is cut.
        largest: characters of base64 of a picture that is shown.
    """
    content = parts[:-1] if parts and parts[-1].kind == "structured" else parts
    blocks: list[Block] = []
    for part in islice(content, MAX_SHOWN_PARTS):
        if part.role:
            blocks.append(Block("note", f"{one_line(part.role, 40)}:"))
        blocks.append(_page_block(part, rest=rest, largest=largest))
    if len(content) > MAX_SHOWN_PARTS:
        blocks.append(Block("note", f"Not shown: {count_of(len(content) - MAX_SHOWN_PARTS, 'more part')}."))
    for part in parts[len(content) :]:
        held = any(_holds_value(other, part.value) for other in islice(content, MAX_SHOWN_PARTS))
        if not held and not _repeats(part.value, content):
            blocks.append(_json_block(part.value, rest=rest))
    return blocks or ([Block("note", empty)] if empty else [])


def pictures_of(results: Iterable[Any]) -> list[list[Block]]:
    """The pictures in each result of one run, and notes on the parts that are not shown; in bounds over all of them.

    Spec: TA-45.
    """
    room = MAX_PICTURES
    pictures = []
    for raw in results:
        shown = [block for block in for_page(read_parts(raw)) if block.kind in ("image", "note")]
        size = sum(len(block.text) for block in shown)
        if size > room:
            shown = [Block("note", "The pictures are not shown: there are too many.")]
        else:
            room -= size
        pictures.append(shown)
    return pictures


def _page_block(part: ContentPart, *, rest: str, largest: int) -> Block:
    if part.text is not None:
        return (_table_block(part.text) if part.is_table else None) or _text_block(part.text, rest=rest)
    if part.data is not None and _may_be_picture(part):
        block = picture_of(part.data, largest=largest)
        return block if block.kind == "image" else Block("note", f"{block.text} It is {describe_part(part)}.")
    if part.kind in ("link", "note"):
        shown = describe_part(part)
        return Block("note", shown[:1].upper() + shown[1:])
    return Block("note", f"Not shown: {describe_part(part)}.")


def _repeats(value: Any, content: Sequence[ContentPart]) -> bool:
    """Whether a structured value says the content again: as its one member, the text or the list of the parts.

    Some servers send `{"result": text}` beside a text (FastMCP), or `{"content": …}` beside a text or a picture.
    """
    if not isinstance(value, dict) or len(value) != 1 or not content:
        return False
    [inner] = value.values()
    if isinstance(inner, str):
        return len(content) == 1 and content[0].text == inner
    return (
        isinstance(inner, list)
        and len(inner) == len(content)
        and read_parts({"content": inner}) == tuple(content)
    )


def _holds_value(part: ContentPart, value: Any) -> bool:
    """Whether a part is a text that holds the same value as JSON."""
    text = part.text
    if text is None or text[:1] not in ("{", "[") or len(text) > MAX_LAID_OUT:
        return False
    try:
        return raw_text(json.loads(text)) == raw_text(value)
    except (ValueError, RecursionError):
        return False


def _text_block(text: str, *, rest: str) -> Block:
    if text[:1] in ("{", "[") and len(text) <= MAX_LAID_OUT:
        try:
            # The numbers keep their digits: 1e400, parsed and written again, would be another number.
            if not raw_text(json.loads(text))[1]:
                return Block("json", _bound(lay_out(text, MAX_LAID_OUT), rest))
        except (ValueError, RecursionError):
            pass
    return Block("text", _bound(text, rest))


def _json_block(value: Any, *, rest: str) -> Block:
    text, why = json_text(value)
    return Block("text" if why else "json", _bound(text, rest))


def _bound(text: str, rest: str) -> str:
    """The text with its lines, with escapes for invisible characters, and with the number of characters cut off."""
    lines = "\n".join(visible(line).replace("\\t", "    ") for line in text[:MAX_TEXT].split("\n"))
    return (
        lines
        if len(text) <= MAX_TEXT
        else f"{lines}\n… {count_of(len(text) - MAX_TEXT, 'more character')}: {rest}"
    )


def picture_of(data: Any, *, largest: int = MAX_PICTURE) -> Block:
    """The picture in a base64 text if it is a PNG, JPEG, GIF or WebP of an acceptable size, else a note.

    Args:
        largest: characters of base64.
    """
    if not isinstance(data, str):
        return Block("note", "A picture without data is not shown.")
    if len(data) > largest:
        return Block(
            "note", f"A picture of {len(data)} characters of base64 is not shown; at most {largest} are."
        )
    body = _decode(data)
    if body is None:
        return Block("note", "A picture that is not valid base64 is not shown.")
    mime = image_type(body)
    width, height = image_size(mime, body)
    if not mime:
        return Block("note", "A picture that is not a PNG, JPEG, GIF or WebP is not shown.")
    if not 0 < width * height <= MAX_PIXELS:
        return Block("note", f"A picture of {width} × {height} pixels is not shown.")
    return Block("image", base64.b64encode(body).decode(), mime)


def _table_block(text: str) -> Block | None:
    """The table in a text of CSV; None where it is none, such as where a row is longer than its head."""
    if len(text) > MAX_LAID_OUT:
        return None
    rows: list[tuple[str, ...]] = []
    width = more = 0
    try:
        for row in csv.reader(io.StringIO(text, newline=""), strict=True):
            width = width or len(row)
            if len(row) > width:
                return None
            if len(rows) > MAX_ROWS:
                more += 1
                continue
            cells = [one_line(cell, MAX_CELL) for cell in row[:MAX_COLUMNS]]
            rows.append((*cells, *[""] * (min(width, MAX_COLUMNS) - len(cells))))
    except csv.Error:
        return None
    left_out = [count_of(more, "more row")] if more else []
    left_out += [count_of(width - MAX_COLUMNS, "more column")] if width > MAX_COLUMNS else []
    note = f"Not shown: {' and '.join(left_out)}." if left_out else ""
    return Block("table", note, rows=tuple(rows)) if width else None


# --- values -----------------------------------------------------------------------------------------------------------


def raw_text(value: Any) -> tuple[str, str]:
    """A value as JSON text; where that is impossible, the text of Python with the reason. Never raises."""
    try:
        return compact(value), ""
    except ProtocolError as fault:
        why = one_line(str(fault), MAX_WHY)
    try:
        return repr(value), why
    except Exception as fault:  # a number of too many digits, too deep a nesting, an object that fails
        return f"<{type(value).__name__} without a text: {one_line(str(fault), MAX_WHY)}>", why


def json_text(value: Any) -> tuple[str, str]:
    """A value as JSON text with a line for each member, else as `raw_text` does."""
    text, why = raw_text(value)
    return (text, why) if why else (json.dumps(value, ensure_ascii=False, indent=2), "")
