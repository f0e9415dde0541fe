"""Turns what a tool of a notebook returns into the content of an MCP result: figures, pictures, tables, bytes; pure.

A notebook shows an object by the methods that IPython asks for (`_repr_mimebundle_`, `_repr_png_`); a tool may return
the same objects. No library is loaded for it: an object is known by its methods, or by the module of its class.

```
figure of matplotlib, and what has `savefig`   a picture
_repr_mimebundle_, _repr_png_, _repr_jpeg_     a picture, else its text
DataFrame and Series of pandas and polars      a resource in CSV, which pages draw as a table; its first 200 rows
bytes, (bytes, "audio/wav")                    a picture, a sound, a text or a resource, by its type
{"content": [{"type": …}]}                     a result as MCP has it, unchanged
several of these in a list or a tuple          their parts, in their order
```

Any other value is none of this module's: `ToolBox` writes it as JSON.

Spec: MCP "Tool Result".
"""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Any

from mew_lab.errors import ProtocolError
from mew_lab.protocol.content import MAX_COLUMNS, MAX_ROWS
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.image_head import PICTURE_TYPES, image_type
from mew_lab.protocol.text import count_of

__all__ = ["blocks_of", "call_result_of", "content_of", "text_block"]

MAX_TABLE = 100_000  # characters of it as CSV
_MIME = re.compile(r"[\w.+-]{1,80}/[\w.+-]{1,80}(?:\s*;.{0,200})?\Z", re.ASCII)
_RESULT = frozenset({"content", "structuredContent", "isError", "_meta"})
_TEXTS = ("text/markdown", "text/latex", "text/plain", "text/html")
_HEADS = (
    (b"%PDF-", "application/pdf"), (b"ID3", "audio/mpeg"), (b"OggS", "audio/ogg"), (b"fLaC", "audio/flac"),
    (b"PK\x03\x04", "application/zip"), (b"\x1f\x8b", "application/gzip"),
)  # fmt: skip
# What a block of each type has beside its type.
_MEMBERS = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource": ("resource",),
    "resource_link": ("uri",),
}
Block = dict[str, Any]
_PLAIN = (NoneType, str, int, float, Mapping)


def text_block(text: str) -> Block:
    """A text as a block of MCP."""
    return {"type": "text", "text": text}


def call_result_of(value: Any) -> dict[str, Any] | None:
    """A value of the shape of an MCP result as that result; None for any other value.

    It has no members but those of a result, and blocks of known types. Bytes in a block become base64.
    """
    if (dumped := _dump_mcp(value)) is not None:
        value = {key: member for key, member in dumped.items() if key in _RESULT}
    if (
        not isinstance(value, Mapping)
        or not value.keys() <= _RESULT
        or not isinstance(value.get("content"), list)
    ):
        return None
    marked = isinstance(value.get("isError"), bool) or isinstance(value.get("structuredContent"), Mapping)
    content = [_dump_mcp(block) or block for block in value["content"]]
    if not all(map(_is_block, content)) or not (content or marked):
        return None
    return {"isError": False, **value, "content": [_encode(block) for block in content]}


def _dump_mcp(value: Any) -> dict[str, Any] | None:
    """An object of the library `mcp` as its JSON; None for any other value."""
    if (
        type(value).__module__.partition(".")[0] not in ("mcp", "mcp_types")
        or (dump := _method(value, "model_dump")) is None
    ):
        return None
    dumped: dict[str, Any] = dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def _encode(block: Mapping[str, Any]) -> Block:
    return {
        key: base64.b64encode(member).decode()
        if isinstance(member, bytes)
        else _encode(member)
        if key == "resource"
        else member
        for key, member in block.items()
    }


def _is_block(value: Any) -> bool:
    kind = value.get("type") if isinstance(value, Mapping) else None
    if not isinstance(kind, str) or kind not in _MEMBERS:
        return False
    if kind == "resource":
        inner = value.get("resource")
        return isinstance(inner, Mapping) and isinstance(inner.get("uri"), str)
    takes: Any = str | bytes if kind in ("image", "audio") else str
    return all(isinstance(value.get(name), takes) for name in _MEMBERS[kind])


def content_of(value: Any) -> list[Block] | None:
    """The blocks of a returned value; None for a value that has no form of its own here.

    It may draw, which takes a while, and raises what an object raises while it is drawn.
    """
    if isinstance(value, list | tuple) and not _is_typed_bytes(value):
        found = _draw_each(value)
        return _join(value, found) if any(found) else None
    return _blocks_of(value, 1)


def blocks_of(*values: Any) -> list[Block]:
    """The blocks of some values, in their order; a value without a form of its own is a text."""
    return _join(values, _draw_each(values))


def _draw_each(values: Sequence[Any]) -> list[list[Block] | None]:
    found: list[list[Block] | None] = []
    figures: set[int] = set()
    for value in values:
        figure = None if isinstance(value, _PLAIN) else _figure_of(value)
        if figure is not None and id(figure) in figures:  # `return plt.subplots()` has it twice
            found.append([])
            continue
        figures |= {id(figure)} if figure is not None else set()
        found.append(_blocks_of(value, len(found) + 1))
    return found


def _join(values: Sequence[Any], found: Sequence[list[Block] | None]) -> list[Block]:
    blocks: list[Block] = []
    for value, own in zip(values, found, strict=True):
        blocks += [text_block(_plain(value))] if own is None else own
    return blocks


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return compact(value)
    except ProtocolError:
        return str(value)


def _blocks_of(value: Any, number: int) -> list[Block] | None:
    if isinstance(value, _PLAIN):
        return None
    if (dumped := _dump_mcp(value)) is not None:
        return [dumped] if _is_block(dumped) else None
    if _is_typed_bytes(value):
        return [_typed(bytes(value[0]), value[1].strip(), number)]
    if isinstance(value, bytes | bytearray | memoryview):
        return _untyped(bytes(value), number)
    if (table := _table_of(value)) is not None:
        return list(_describe_table(*table, number))
    if (figure := _figure_of(value)) is not None:
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", bbox_inches="tight")
        return [_picture(buffer.getvalue(), "image/png")]
    return _shown(value)


# --- bytes ------------------------------------------------------------------------------------------------------------


def _is_typed_bytes(value: Any) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and isinstance(value[0], bytes | bytearray | memoryview)
        and isinstance(value[1], str)
        and _MIME.match(value[1].strip()) is not None
    )


def _untyped(data: bytes, number: int) -> list[Block] | None:
    """Bytes by their first ones; None for those that are a text."""
    mime = image_type(data) or next((mime for head, mime in _HEADS if data.startswith(head)), "")
    if not mime and data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        mime = "audio/wav"
    if mime:
        return [_typed(data, mime, number)]
    try:
        data.decode()
    except UnicodeDecodeError:
        return [_typed(data, "application/octet-stream", number)]
    return None


def _typed(data: bytes, mime: str, number: int) -> Block:
    kind = mime.partition(";")[0].strip().lower()
    if kind in PICTURE_TYPES:
        return _picture(data, mime)
    if kind.startswith("audio/"):
        return {"type": "audio", "data": base64.b64encode(data).decode(), "mimeType": mime}
    resource = {"uri": f"result:{number}", "mimeType": mime}
    if kind.startswith("text/") or kind in ("application/json", "image/svg+xml"):
        try:
            return {"type": "resource", "resource": {**resource, "text": data.decode()}}
        except UnicodeDecodeError:
            pass
    return {"type": "resource", "resource": {**resource, "blob": base64.b64encode(data).decode()}}


def _picture(data: bytes | str, mime: str) -> Block:
    # IPython takes bytes, and base64 with line ends.
    text = base64.b64encode(data).decode() if isinstance(data, bytes) else "".join(data.split())
    return {"type": "image", "data": text, "mimeType": mime}


# --- tables -----------------------------------------------------------------------------------------------------------


def _table_of(value: Any) -> tuple[Any, str] | None:
    """A DataFrame with the name of its library, also that of a Series; None for any other value."""
    for base in type(value).__mro__:
        library = base.__module__.partition(".")[0]
        if library in ("pandas", "polars"):
            if base.__name__ == "Series":
                return value.to_frame(), library
            if base.__name__ == "DataFrame":
                return value, library
    return None


def _describe_table(frame: Any, library: str, number: int) -> Iterator[Block]:
    rows, columns = frame.shape
    if not rows or not columns:
        yield text_block(f"A table of {count_of(rows, 'row')} and {count_of(columns, 'column')}.")
        return
    shown_rows, shown_columns = min(rows, MAX_ROWS), min(columns, MAX_COLUMNS)
    write = _write_pandas if library == "pandas" else _write_polars
    text = write(frame, shown_rows, shown_columns)
    while len(text) > MAX_TABLE and shown_rows > 1:
        shown_rows //= 2
        text = write(frame, shown_rows, shown_columns)
    cut = []
    if shown_rows < rows:
        cut.append(f"{shown_rows} of {count_of(rows, 'row')}")
    if shown_columns < columns:
        cut.append(f"{shown_columns} of {count_of(columns, 'column')}")
    if len(text) > MAX_TABLE:
        cut.append(f"{MAX_TABLE} of {count_of(len(text), 'character')}")
        text = text[:MAX_TABLE]
    resource = {"uri": f"result:{number}", "mimeType": "text/csv", "text": text}
    yield {"type": "resource", "resource": resource}
    if cut:
        yield text_block(f"The table is cut: it shows the first {' and the first '.join(cut)}.")


def _write_pandas(frame: Any, rows: int, columns: int) -> str:
    numbered = type(frame.index).__name__ == "RangeIndex" and frame.index.name is None
    return str(frame.iloc[:rows, :columns].to_csv(index=not numbered, lineterminator="\n"))


def _write_polars(frame: Any, rows: int, columns: int) -> str:
    buffer = io.StringIO(newline="")
    head = frame.head(rows).select(frame.columns[:columns])
    lines = csv.writer(buffer, lineterminator="\n")  # its own writer refuses lists and structures
    lines.writerow(head.columns)
    lines.writerows(head.iter_rows())
    return buffer.getvalue()


# --- what a notebook shows --------------------------------------------------------------------------------------------


def _figure_of(value: Any) -> Any:
    """A figure, or that of its axes; None for any other value."""
    if _method(value, "savefig") is not None:
        return value
    if type(value).__module__.partition(".")[0] == "matplotlib" and _method(value, "get_figure") is not None:
        figure = value.get_figure()
        return figure if _method(figure, "savefig") is not None else None
    return None


def _method(value: Any, name: str) -> Callable[..., Any] | None:
    """A method that the class has; an object that answers any name with something has none."""
    return getattr(value, name) if callable(getattr(type(value), name, None)) else None


def _shown(value: Any) -> list[Block] | None:
    """The picture of an object by its methods, else its text where it gives any."""
    if isinstance(value, type):
        return None
    bundle: Mapping[str, Any] = {}
    if (method := _method(value, "_repr_mimebundle_")) is not None:
        returned = method(include=None, exclude=None)
        data = returned[0] if isinstance(returned, tuple) and returned else returned
        bundle = data if isinstance(data, Mapping) else {}
    for mime in PICTURE_TYPES:
        if isinstance(data := bundle.get(mime), bytes | str) and data:
            return [_picture(data, mime)]
    for mime in ("image/png", "image/jpeg"):
        if (method := _method(value, f"_repr_{mime.removeprefix('image/')}_")) is not None:
            returned = method()
            data = returned[0] if isinstance(returned, tuple) and returned else returned
            if isinstance(data, bytes | str) and data:
                return [_picture(data, mime)]
    texts = [bundle.get(mime) for mime in _TEXTS]
    if type(value).__module__.partition(".")[0] == "IPython":  # Markdown, HTML and Latex have no bundle
        names = ("_repr_markdown_", "_repr_latex_", "_repr_html_")
        texts += [method() for name in names if (method := _method(value, name)) is not None]
    text = next((text for text in texts if isinstance(text, str) and text), None)
    return [text_block(text)] if text is not None else None
