"""The one builder of HTML."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.notebook.safe_html import Html, box, lines, table, tag


class Elements(HTMLParser):
    """Tags and text of a picture."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

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
