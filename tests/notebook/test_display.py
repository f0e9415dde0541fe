"""What objects look like: safe as HTML, plain as text."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

import mew_lab
from mew_lab.notebook.display import FAMILIES, TYPES, family_of
from mew_lab.notebook.safe_html import ATTRIBUTES, TAGS
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.kinds import KINDS
from mew_lab.sdk.results import ToolResult
from mew_lab.workbench.listing import Listing, Note, Sent

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    '"><svg onload=alert(1)>',
    "'-alert(1)-'",
    "</td></table><iframe src=javascript:alert(1)>",
    "\u202eevil\u2066",
    "\x1b[31mred\x1b[0m",
    "a\x00b",
    "\U000e0041tag",
    "javascript:alert(1)",
    "&lt;b&gt;",
    "<!--",
    "]]>",
]


class Elements(HTMLParser):
    """The tags, attributes and text of a picture."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, "elements are closed in order"

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment")


def envelope(text: str) -> Envelope:
    members: dict[str, Any] = {
        "protocol": "mew/v0.4",
        "id": "e-1",
        "ts": "2026-11-21T12:00:00Z",
        "from": text,
        "to": [text],
        "kind": text or "x",
        "payload": {"text": text, text: [text]},
    }
    return Envelope.of(members)


def shown(shell: InteractiveShell, value: object) -> tuple[str, str]:
    data, _ = shell.display_formatter.format(value)  # type: ignore[union-attr]
    return data.get("text/html", ""), data["text/plain"]


def objects(text: str) -> list[object]:
    result = {"content": [{"type": "text", "text": text}, {"type": text}], "structuredContent": {text: text}}
    return [
        Listing(text, ("a", text), [(text, 1)], note=text),
        Listing(text, ("a",), [], empty=text, note=text),
        Note(text),
        Sent(envelope(text)),
        envelope(text),
        ToolResult(result),
    ]


@pytest.mark.threat(3)
@pytest.mark.threat(17)
@pytest.mark.trap("T-14")
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text_in_every_picture(loaded: InteractiveShell, text: str) -> None:
    for value in objects(text):
        html, plain = shown(loaded, value)
        found = Elements(html)
        assert found.tags <= TAGS, type(value)
        assert found.attributes <= ATTRIBUTES, type(value)
        assert not found.open, "every element is closed"
        seen = found.text.replace("\n", "")
        assert seen.isprintable(), f"{type(value)} shows what cannot be seen"
        assert plain.replace("\n", "").isprintable(), type(value)


def test_the_text_itself_arrives_in_the_picture(loaded: InteractiveShell) -> None:
    for value in objects("<img src=x onerror=alert(1)>"):
        html, _ = shown(loaded, value)
        assert "<img src=x onerror=alert(1)>" in Elements(html).text, type(value)


def test_what_cannot_be_shown_is_named_and_raises_nothing(loaded: InteractiveShell) -> None:
    broken = Listing("t", ("a",), [(1,)])
    broken.columns = None  # type: ignore[assignment]
    html, plain = shown(loaded, broken)
    assert "<Listing> cannot be shown" in plain
    assert "&lt;Listing&gt; cannot be shown" in html


def test_every_family_has_its_own_glyph_and_accent() -> None:
    assert len({glyph for glyph, _ in FAMILIES.values()}) == len(FAMILIES)
    assert len({accent for _, accent in FAMILIES.values()}) == len(FAMILIES)


@pytest.mark.parametrize(
    ("kind", "glyph"),
    [
        ("chat", "CH"),
        ("mcp/request", "MC"),
        ("mcp/proposal", "PR"),
        ("mcp/reject", "ER"),
        ("system/error", "ER"),
        ("space/invite", "CA"),
        ("capability/grant", "CA"),
        ("system/welcome", "SY"),
        ("x/unknown", "SY"),
    ],
)
def test_a_kind_has_the_glyph_of_its_family(kind: str, glyph: str) -> None:
    assert family_of(kind)[0] == glyph


def test_every_kind_of_the_specification_has_a_family_of_its_own() -> None:
    system = {kind for kind in KINDS if family_of(kind)[0] == "SY"}
    assert system == {"system/presence", "system/welcome"}


@pytest.mark.trap("T-16")
def test_unloading_puts_back_the_formatters_that_were_there(shell: InteractiveShell) -> None:
    formatters = shell.display_formatter.formatters  # type: ignore[union-attr]
    formatters["text/html"].for_type(Note, lambda note: "before")
    mew_lab.load_ipython_extension(shell)
    assert "before" not in shown(shell, Note("x"))[0]
    mew_lab.unload_ipython_extension(shell)
    assert shown(shell, Note("x"))[0] == "before"
    assert shown(shell, Listing("t", ("a",), []))[0] == ""
    left = [name for module, name, *_ in TYPES if (module, name) in formatters["text/html"].deferred_printers]
    assert left == []
