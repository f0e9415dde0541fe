"""How a stream is looked at follows from what its request said; nothing that can hold script is a picture."""

from __future__ import annotations

import pytest

from mew_lab.views.streams.row import kind_of


@pytest.mark.parametrize(
    ("content_type", "format", "kind"),
    [
        ("application/json", "jsonl", "json"),
        ("application/x-ndjson", "", "json"),
        ("application/json; charset=utf-8", "", "json"),
        ("application/x-game-positions", "binary-vector3", "hex"),
        ("application/octet-stream", "", "hex"),
        ("text/plain", "utf8-newline-delimited", "text"),
        ("text/plain", "numbers", "numbers"),
        ("", "float32", "numbers"),
        ("image/PNG", "", "image"),
        ("image/webp", "", "image"),
        ("video/mp4", "", "hex"),
        ("", "", "text"),
        ("<img src=x>", "<svg>", "text"),
    ],
)
def test_content_type_and_format_choose_the_first_look(content_type: str, format: str, kind: str) -> None:
    assert kind_of(content_type, format) == kind


@pytest.mark.threat(3)
@pytest.mark.parametrize("content_type", ["image/svg+xml", "text/html", "application/xhtml+xml", "text/xml"])
def test_markup_is_text(content_type: str) -> None:
    assert kind_of(content_type, "") == "text"
