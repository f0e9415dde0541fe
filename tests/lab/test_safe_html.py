"""The one builder of HTML."""

from __future__ import annotations

import base64
import struct
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.lab.safe_html import Html, box, lines, picture, table, tag

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + struct.pack(">II", 2, 3) + b"\x08\x06\0\0\0"
GIF = b"GIF89a" + struct.pack("<HH", 3, 4) + b"\0\0\0;"
JPEG = b"\xff\xd8\xff\xc0\x00\x0b\x08" + struct.pack(">HH", 7, 9) + b"\x01\x01\x11\x00"
WEBP = b"RIFF\x1a\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + (4).to_bytes(3, "little") + (5).to_bytes(3, "little")
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"


def base64_of(body: bytes) -> str:
    return base64.b64encode(body).decode()


class Elements(HTMLParser):
    """Tags and text of a picture."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.threat(3)
@given(st.text())
def test_no_text_makes_a_tag(text: str) -> None:
    assert Elements(tag("div", text, title=text)).tags == ["div"]
    assert set(Elements(lines(text)).tags) == {"pre"}


@given(st.text(alphabet="<>&\"'/=abc \n"))
def test_every_text_arrives_as_it_is(text: str) -> None:
    assert Elements(lines(text)).text == text


@pytest.mark.threat(17)
def test_what_cannot_be_seen_is_an_escape() -> None:
    assert tag("div", "a\u202eb\x1b[0m\u200b") == r"<div>a\u202eb\u001b[0m\u200b</div>"


def test_only_what_the_builder_made_is_markup() -> None:
    assert tag("div", tag("b", "x"), "<b>") == "<div><b>x</b>&lt;b&gt;</div>"
    assert isinstance(box("x"), Html)


@pytest.mark.parametrize("name", ["script", "img", "a", "iframe", "style", "svg", "object", "form", "button"])
def test_a_tag_that_could_load_or_run_cannot_be_written(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        tag(name, "x")


@pytest.mark.parametrize("name", ["onclick", "href", "src", "onerror", "id"])
def test_an_attribute_that_could_load_or_run_cannot_be_written(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        tag("div", "x", **{name: "y"})


def test_a_megabyte_is_cut_and_the_rest_is_counted() -> None:
    html = lines("x" * 1_000_000)
    assert len(html) < 30_000
    assert "not shown: 980 000 more characters" in html


def test_a_table_shows_the_last_200_rows_and_says_so() -> None:
    found = Elements(table(("n",), [(f"row {n};",) for n in range(1000)]))
    assert "Not shown: 800 earlier rows" in found.text
    assert "row 800;" in found.text
    assert "row 799;" not in found.text


def test_a_column_of_numbers_stands_right_and_a_mixed_one_does_not() -> None:
    html = table(("n", "b", "mixed"), [(1.5, True, 1), (2, False, "x")])
    assert html.count("text-align:right") == 3  # two cells and their heading
    assert ">True<" in html


@pytest.mark.threat(3)
@pytest.mark.parametrize(
    ("body", "mime"),
    [(PNG, "image/png"), (JPEG, "image/jpeg"), (GIF, "image/gif"), (WEBP, "image/webp")],
)
@given(alt=st.text())
def test_a_picture_is_an_image_of_its_own_bytes_with_a_text_beside_it(
    body: bytes, mime: str, alt: str
) -> None:
    found = Elements(picture(base64_of(body), alt))
    assert found.tags == ["img"] and found.text == ""
    assert [name for name, _ in found.attributes] == ["src", "alt", "style"]
    assert found.attributes[0][1] == f"data:{mime};base64,{base64_of(body)}"


def test_the_text_of_a_picture_is_what_was_given() -> None:
    assert ("alt", 'a "chart" <b>') in Elements(picture(base64_of(PNG), 'a "chart" <b>')).attributes


@pytest.mark.threat(3, 9)
@given(st.binary() | st.binary().map(lambda rest: PNG + rest) | st.binary().map(lambda rest: GIF[:6] + rest))
def test_no_bytes_make_an_image_of_another_kind(body: bytes) -> None:
    found = Elements(picture(base64_of(body), "x"))
    kinds = (
        "data:image/png;base64,",
        "data:image/jpeg;base64,",
        "data:image/gif;base64,",
        "data:image/webp;base64,",
    )
    assert found.tags == ["div"] or (found.tags == ["img"] and str(found.attributes[0][1]).startswith(kinds))


@pytest.mark.threat(3, 9)
@pytest.mark.parametrize(
    "data",
    [base64_of(SVG), base64_of(b"<html><script>alert(1)</script>"), "https://example.org/a.png", None, 7, [],
     "data:image/png;base64," + base64_of(SVG), "data:text/html,<script>", base64_of(PNG) + '" onerror="alert(1)', "A" * 2_000_001],
)  # fmt: skip
def test_what_is_no_picture_is_a_line_that_tells_why(data: object) -> None:
    found = Elements(picture(data, "x"))
    assert found.tags == ["div"] and "not shown" in found.text
