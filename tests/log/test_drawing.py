"""A drawing is made of few kinds of shapes, and text stays text in it."""

from __future__ import annotations

import base64
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mew_lab.log import drawing
from mew_lab.log.drawing import Drawing, lasted, shape, text_line

HERE = Path(__file__).parents[1]
sys.path.insert(0, str(HERE / "browser"))
SPACE = "{http://www.w3.org/2000/svg}"


def test_only_listed_shapes_and_attributes_can_be_drawn() -> None:
    for tag in ("script", "a", "image", "foreignObject", "use", "style", "animate", "set"):
        with pytest.raises(ValueError, match=tag):
            shape(tag)
    for name in ("href", "onload", "style", "id", "fill"):
        with pytest.raises(ValueError, match=name):
            shape("rect", **{name: "x"})


@pytest.mark.threat(3)
def test_threat_03_markup_in_any_text_of_a_drawing_is_text() -> None:
    from corpus import PAYLOADS

    shapes = tuple(text_line(0, 0, one, one, data_seq=one) for one in PAYLOADS)
    picture = Drawing(PAYLOADS[0], PAYLOADS[1], 100, 100, shapes, tuple(PAYLOADS))
    root = ElementTree.fromstring(picture.svg())
    assert {node.tag.removeprefix(SPACE) for node in root.iter()} == {
        "svg",
        "title",
        "desc",
        "style",
        "rect",
        "text",
    }
    assert {name for node in root.iter() for name in node.attrib} == {
        "class", "role", "width", "height", "viewBox", "x", "y", "data-seq",
    }  # fmt: skip
    texts = [node.text or "" for node in root.iter(f"{SPACE}text")]
    assert [one for one in PAYLOADS if one.isprintable() and one not in texts] == []
    assert picture.html().count("<") == 3, "a style of ours and the image"


@pytest.mark.threat(17)
def test_what_cannot_be_seen_is_an_escape_in_every_form() -> None:
    picture = Drawing("a\u202eb", "\x00", 10, 10, (text_line(0, 0, "c\u2066d"),), ("e\u200bf",))
    for text in (picture.svg(), picture.html(), str(picture), repr(picture.data())):
        assert not re.search("[\u202e\u2066\u200b\x00]", text)
    assert "c\\u2066d" in picture.svg()


def test_a_notebook_gets_an_image_that_needs_nothing_from_elsewhere_and_words() -> None:
    picture = Drawing("Title", "What it says.", 10, 20, (text_line(1, 2, "here"),), ("One line.",))
    bundle = picture._repr_mimebundle_()
    assert set(bundle) == {"image/svg+xml", "text/html", "text/plain"}
    assert bundle["text/plain"] == "Title\nOne line."
    root = ElementTree.fromstring(bundle["image/svg+xml"])
    assert [root.findtext(f"{SPACE}title"), root.findtext(f"{SPACE}desc")] == ["Title", "What it says."]
    inside = re.search(
        r'</style><img class="mew-picture" alt="Title\. What it says\." [^>]*base64,([^"]+)">$',
        bundle["text/html"],
    )
    assert inside is not None
    # An image knows no variables of its page: it has the colours of a dark ground in itself.
    assert base64.b64decode(inside[1]).decode() == picture.svg().replace(
        "</style>", f"{drawing.DARK}</style>"
    )
    assert 'body[data-jp-theme-light="false"] .mew-picture{color-scheme:dark}' in bundle["text/html"]
    assert "url(" not in picture.svg() and "@import" not in picture.svg()


def test_the_data_for_a_front_end_is_the_same_tree() -> None:
    group = shape("g", shape("title", text="t"), text_line(1, 2.04, "w"), css="is-chat", data_seq=3)
    picture = Drawing("T", "A", 10, 20, (group,))
    assert picture.data()["shapes"] == [
        ["g", {"class": "is-chat", "data-seq": 3}, [["title", {}, "t"], ["text", {"x": 1, "y": 2.0}, "w"]]]
    ]


def test_the_page_allows_the_same_shapes() -> None:
    script = (HERE.parent / "mew_lab/views/timeline/view.js").read_text("utf-8")
    for name, allowed in (("SHAPES", drawing.TAGS), ("TRAITS", drawing.ATTRIBUTES)):
        listed = re.search(rf"const {name} = new Set\(\[(.*?)\]\)", script, re.DOTALL)
        assert listed is not None and set(re.findall(r'"([^"]+)"', listed[1])) == allowed


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0004, "0 ms"),
        (0.012, "12 ms"),
        (1.0, "1 s"),
        (4.13, "4.1 s"),
        (41.0, "41 s"),
        (150, "2.5 min"),
        (7200, "2 h"),
        (300_000, "3.5 d"),
    ],
)
def test_durations_have_a_unit(seconds: float, text: str) -> None:
    assert lasted(seconds) == text
