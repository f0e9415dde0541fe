"""What objects look like: safe as HTML, plain as text."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

import mew_lab
from mew_lab.agent.model import ToolCall
from mew_lab.agent.run import CallRecord
from mew_lab.lab.listing import Listing, Note, SentEnvelope
from mew_lab.lab.safe_html import ATTRIBUTES, TAGS
from mew_lab.lab.tools_agent_seat import ToolReplay, ToolTest
from mew_lab.notebook.display import TYPES
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.families import family_of
from mew_lab.sdk.results import ToolResult
from mew_lab.tools_agent.executor import Execution
from mew_lab.tools_agent.replay import RecordedCall

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
        SentEnvelope(envelope(text)),
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


MEGABYTE = "<b>" + "x" * 1_000_000 + "the end"


@pytest.mark.trap("T-14")
@pytest.mark.threat(9)
@pytest.mark.parametrize(
    ("value", "whole"),
    [
        (Listing("t", ("a", "b"), [("short", MEGABYTE)]), ".rows"),
        (Listing(MEGABYTE, ("a", MEGABYTE), [("short", 1)], note=MEGABYTE), ""),
        (Listing("t", (), [], empty=MEGABYTE), ""),
        (Note(MEGABYTE), ""),
        (ToolResult({"content": [{"type": "text", "text": MEGABYTE}]}), ".text"),
        (ToolResult({"content": [], "structuredContent": {"a": MEGABYTE}}), ".structured"),
        (ToolResult({"content": [{"type": MEGABYTE}] * 100}), ".content"),
        (envelope(MEGABYTE), ".raw"),
    ],
)
def test_a_megabyte_is_cut_with_how_much_is_left_out_and_what_has_it(
    loaded: InteractiveShell, value: object, whole: str
) -> None:
    html, plain = shown(loaded, value)
    found = Elements(html)
    # A cell ends at 1000 characters, any other text at 20 000.
    assert len(found.text) < 65_000 and len(html) < 400_000
    assert len(plain) < 100_000
    assert "the end" not in html and "the end" not in plain
    assert whole in found.text
    if value.__class__ is not ToolResult or whole != ".content":
        assert "more characters" in found.text
    assert found.tags <= TAGS


@pytest.mark.trap("T-14")
def test_a_cut_cell_says_exactly_how_much_is_missing(loaded: InteractiveShell) -> None:
    html, _ = shown(loaded, Listing("t", ("a",), [("y" * 1_000,), ("z" * 1_001,), ("z" * 1_000_000,)]))
    text = Elements(html).text
    assert "y" * 1_000 in text
    assert "[not shown: 1 more character; .rows has all]" in text
    assert "[not shown: 999 000 more characters; .rows has all]" in text


@pytest.mark.trap("T-14")
def test_a_text_of_a_result_is_whole_when_it_is_printed(loaded: InteractiveShell) -> None:
    _, plain = shown(loaded, ToolResult({"content": [{"type": "text", "text": MEGABYTE}]}))
    assert plain.endswith("… [not shown: 980 010 more characters; print() has all]")
    assert str(ToolResult({"content": [{"type": "text", "text": MEGABYTE}]})) == MEGABYTE


@pytest.mark.trap("T-14")
@pytest.mark.parametrize(
    ("value", "shows"),
    [
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        ({"a": [float("-inf")]}, "{'a': [-inf]}"),
        ({"a": float("nan"), "b": "<i>"}, "{'a': nan, 'b': '<i>'}"),
        (b"\x00\xff", "b'\\x00\\xff'"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_json_cannot_say_is_shown_as_python_writes_it(
    loaded: InteractiveShell, value: Any, shows: str
) -> None:
    beside = {"content": [{"type": "text", "text": "beside it"}], "structuredContent": value}
    for raw in (value, beside):
        html, plain = shown(loaded, ToolResult(raw))
        text = Elements(html).text
        assert shows in text
        assert "cannot be shown" not in text + plain
        assert (raw is beside and plain == "beside it") or shows in plain
        if raw != "\ud800":
            assert "shown as Python writes it; .raw has it" in text


@pytest.mark.trap("T-14")
def test_a_number_of_400_digits_keeps_them_and_one_of_5000_is_named(loaded: InteractiveShell) -> None:
    number = 7 * 10**399 + 1
    for raw in (number, {"a": number}, {"content": [], "structuredContent": {"a": number}}):
        assert str(number) in Elements(shown(loaded, ToolResult(raw))[0]).text
    assert str(number) in Elements(shown(loaded, Listing("t", ("a",), [(number,)]))[0]).text
    html, plain = shown(
        loaded, ToolResult({"content": [{"type": "text", "text": "hi"}], "structuredContent": 10**5000})
    )
    assert "hi" in html and plain == "hi"
    assert "<int without a text" in Elements(html).text


def test_what_cannot_be_shown_is_named_and_raises_nothing(loaded: InteractiveShell) -> None:
    broken = Listing("t", ("a",), [(1,)])
    broken.columns = None  # type: ignore[assignment]
    html, plain = shown(loaded, broken)
    assert "<Listing> cannot be shown" in plain
    assert "&lt;Listing&gt; cannot be shown" in html


@pytest.mark.parametrize("kind", ["chat", "mcp/reject", "space/invite", "x/unknown"])
def test_a_kind_is_shown_with_the_accent_of_its_family(loaded: InteractiveShell, kind: str) -> None:
    html, _ = shown(loaded, envelope(kind))
    assert f"3px solid {family_of(kind).light};" in html


def test_a_cell_shows_how_clients_reach_a_gate_and_what_to_paste(loaded: InteractiveShell) -> None:
    lab = mew_lab.up("shown", journal=None)
    try:
        gate = lab.serve_mcp("ann")
        for value, words in (
            (gate, ("claude mcp add-json", gate.url, ".settings(CLIENT)")),
            (
                gate.settings("codex"),
                ("bearer_token_env_var", "~/.codex/config.toml", "export MEW_TOKEN_ANN"),
            ),
        ):
            html, plain = shown(loaded, value)
            for word in words:
                assert word in Elements(html).text and word in plain
    finally:
        lab.down()


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


PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
SVG = "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIG9ubG9hZD0iYWxlcnQoMSkiLz4="  # with a script


def tool_test(*parts: dict[str, Any], tool: str = "eye/look") -> ToolTest:
    """The test of a tool whose session called one other, which answered with these parts."""
    record = CallRecord(ToolCall("c1", tool, {}), "[image]", "m-1", 0.1, {"content": list(parts)})
    return ToolTest(Execution("ask", "Seen.", calls=(record,)))


def test_a_result_shows_its_pictures_and_tables_and_names_what_it_cannot_show(
    loaded: InteractiveShell,
) -> None:
    picture = {"type": "image", "data": PNG, "mimeType": "text/html"}
    csv = {"uri": "t:1", "mimeType": "text/csv", "text": "bed,<i>\nnorth,12\n"}
    parts = [{"type": "text", "text": "before"}, picture, {"type": "resource", "resource": csv},
             {"type": "image", "data": SVG, "mimeType": "image/svg+xml"}, {"type": "text", "text": "after"}]  # fmt: skip
    html, plain = shown(loaded, ToolResult({"content": parts}))
    assert f'<img src="data:image/png;base64,{PNG}" alt="picture 2 of the result"' in html
    found = Elements(re.sub(r"<img [^>]*>", "", html))
    assert found.tags <= TAGS and {"table", "th", "td"} <= found.tags and found.text.count("<i>") == 1
    assert "image/svg+xml, 59 bytes is not shown; see .content" in found.text
    assert found.text.index("before") < found.text.index("north") < found.text.index("after")
    assert (
        plain
        == "before\n[image/png, 70 bytes, sent as text/html]\nbed,<i>\nnorth,12\n\n[image/svg+xml, 59 bytes]\nafter"
    )


@pytest.mark.threat(3, 9)
@pytest.mark.parametrize(
    "mime",
    [
        "image/png",
        "image/svg+xml",
        "text/html",
        'image/png" onerror="alert(1)',
        "image/png;base64,AAAA",
        "",
        None,
        7,
    ],
)
@pytest.mark.parametrize("replayed", [False, True])
def test_a_test_of_a_tool_shows_the_pictures_of_its_results_whatever_they_are_called(
    loaded: InteractiveShell, mime: Any, replayed: bool
) -> None:
    test = tool_test({"type": "image", "data": PNG, "mimeType": mime}, tool='eye/look"><script>')
    if replayed:
        recorded = RecordedCall(id="r-1", caller="human", to=("desk",), tool="ask", arguments={})
        test = ToolReplay(recorded, test.execution)
    html, plain = shown(loaded, test)
    assert html.count("<img ") == 1 and f'<img src="data:image/png;base64,{PNG}" alt="picture 1 in ' in html
    found = Elements(re.sub(r"<img [^>]*>", "", html))  # an image has no end
    assert found.tags <= TAGS and found.attributes <= ATTRIBUTES
    assert PNG not in plain


def test_an_answer_of_several_lines_and_what_is_said_of_it_stand_apart(loaded: InteractiveShell) -> None:
    recorded = RecordedCall("r-1", "human", ("desk",), "ask", {}, answer="Eleven plants.")
    replay = ToolReplay(recorded, Execution("ask", "Twelve plants.\nAll are well."))
    html, plain = shown(loaded, replay)
    assert "Twelve plants.\nAll are well.</pre>" in html and "\\n" not in html
    assert "The answer then: Eleven plants.</div>" in html and "no model replied" in html
    assert plain.splitlines()[-2:-1] == ["All are well."]


@pytest.mark.threat(3, 9)
def test_a_script_that_is_called_a_picture_is_a_line_in_the_test_of_a_tool(loaded: InteractiveShell) -> None:
    html, _ = shown(loaded, tool_test({"type": "image", "data": SVG, "mimeType": "image/png"}))
    assert "<img" not in html and SVG not in html and "is not shown" in Elements(html).text


def test_more_pictures_than_a_page_bears_are_counted_out(loaded: InteractiveShell) -> None:
    large = base64.b64encode(base64.b64decode(PNG) + bytes(1_400_000)).decode()
    one = {"type": "image", "data": large}
    html, _ = shown(loaded, tool_test(*[one] * 5))
    assert len(html) < 20_000 and "there are too many" in html
