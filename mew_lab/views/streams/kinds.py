"""The ways in which a stream can be shown, and the one that is shown first.

The bytes may be something else than its request said, so a person can always choose another way.

Spec: §3.10.1.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["FLOATS", "KINDS", "PICTURES", "Kind", "kind_of"]

Kind = Literal["text", "json", "hex", "numbers", "image"]
KINDS: tuple[Kind, ...] = ("text", "json", "hex", "numbers", "image")
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
FLOATS = {"float32": "<f", "float64": "<d"}


def kind_of(content_type: str, format: str) -> Kind:
    """How a stream is looked at first, by what its request said of it; text where that tells nothing.

    Only the four kinds of picture that cannot hold script are `image`; SVG and HTML are text like any other.
    """
    mime = content_type.split(";")[0].strip().lower()
    form = format.strip().lower()
    if mime in PICTURES:
        return "image"
    if form in FLOATS or form in ("numbers", "number"):
        return "numbers"
    if form in ("jsonl", "ndjson", "json", "json-lines") or mime.endswith(("json", "jsonl", "-json-seq")):
        return "json"
    if form.startswith("binary") or mime == "application/octet-stream":
        return "hex"
    if mime.startswith(("audio/", "video/", "font/", "image/")) and not mime.endswith("+xml"):
        return "hex"
    return "text"
