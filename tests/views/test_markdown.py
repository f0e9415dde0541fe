"""Markdown of anybody becomes a small tree of what may be shown; nothing in it acts, loads or deceives."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mew_lab.views.ui.markdown import LONGEST, TAGS, plain, tree

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))


def shown(text: str) -> list[Any]:
    nodes = tree(text)
    assert nodes is not None
    return nodes


def everything(nodes: list[Any]) -> list[Any]:
    """All elements of a tree."""
    found = [node for node in nodes if isinstance(node, list)]
    return [*found, *(inner for node in found for inner in everything(node[2:]))]


def texts(nodes: list[Any]) -> str:
    return "".join(node if isinstance(node, str) else texts(node[2:]) for node in nodes)


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("*a* **b** `c`", [["p", {}, ["em", {}, "a"], " ", ["strong", {}, "b"], " ", ["code", {}, "c"]]]),
        ("# Title", [["p", {}, ["strong", {}, "Title"]]]),
        ("- a\n- b", [["ul", {}, ["li", {}, "a"], ["li", {}, "b"]]]),
        ("3. a", [["ol", {"start": "3"}, ["li", {}, "a"]]]),
        ("> a", [["blockquote", {}, ["p", {}, "a"]]]),
        ("```py\nx\n\ty\n```", [["pre", {}, ["code", {}, "x\n\ty\n"]]]),
        ("a\n\n---\n\nb", [["p", {}, "a"], ["hr", {}], ["p", {}, "b"]]),
        ("a  \nb\nc", [["p", {}, "a", ["br", {}], " b c"]]),
    ],
)
def test_what_markdown_says_becomes_elements_of_the_list(text: str, nodes: list[Any]) -> None:
    assert shown(text) == nodes


def test_a_table_has_its_rows() -> None:
    (table,) = shown("| a | b |\n|---|---|\n| 1 | 2 |")
    assert [node[0] for node in everything([table])].count("td") == 2
    assert texts([table]) == "ab12"


@pytest.mark.threat(4)
def test_a_link_shows_its_host_and_leads_only_where_links_may_lead() -> None:
    assert shown("[my bank](http://evil.example/x)") == [
        ["p", {}, ["a", {"href": "http://evil.example/x"}, "my bank", " [evil.example]"]]
    ]
    assert shown("<https://a.example/b>") == [
        ["p", {}, ["a", {"href": "https://a.example/b"}, "https://a.example/b"]]
    ]
    assert shown("[m](mailto:a@b.example)")[0][2][2:] == ["m", " [a@b.example]"]
    assert shown("[p](http://p\u0430ypal.example)")[0][2][3].startswith(" [xn--"), (
        "a look-alike shows as what it is"
    )
    for address in (
        "javascript:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "//h/x",
        "/x",
        "http://good@evil.example/",
    ):
        nodes = shown(f"[x]({address}) <{address}>")
        assert not [node for node in everything(nodes) if node[1].get("href")], address


@pytest.mark.threat(4)
def test_a_picture_is_told_and_not_loaded() -> None:
    (paragraph,) = shown("![a **cat**](http://tracker.example/pixel.png?id=1)")
    assert paragraph == ["p", {}, "[picture: a cat, at tracker.example, not loaded]"]
    assert texts(shown('![<img src=x>"](x)')) == '[picture: <img src=x>", not loaded]'


@pytest.mark.threat(3, 4)
def test_no_payload_becomes_anything_but_the_list() -> None:
    from corpus import PAYLOADS

    assert len(PAYLOADS) >= 200
    for payload in PAYLOADS:
        for text in (
            payload,
            f"[{payload}](http://a.example)",
            f"![{payload}]({payload})",
            f"```\n{payload}\n```",
        ):
            for node in everything(tree(text) or []):
                assert node[0] in TAGS
                assert set(node[1]) <= {"href", "start"}
                href = node[1].get("href", "https:")
                assert href.startswith(("http:", "https:", "mailto:")), payload


@pytest.mark.threat(17)
def test_characters_that_cannot_be_seen_are_escapes() -> None:
    assert texts(shown("a\u202eb `c\u200bd` *e\U000e0041*")) == "a\\u202eb c\\u200bd e\\U000e0041"
    assert plain("a\r\nb\tc\u202e\rd") == "a\nb\tc\\u202e\\rd"
    assert texts(shown("    x\u2066y")) == "x\\u2066y\n"


def test_what_is_too_long_or_too_intricate_is_shown_as_it_was_written() -> None:
    assert tree("x" * (LONGEST + 1)) is None
    assert tree("- a\n" * 1900) is None


@pytest.mark.parametrize(
    "bad", ["[", "![", "*a_", "> ", "- ", "[a](<b", "*a **a ", "|", "[a][b]", "`", "a\n", "<a "]
)
def test_nothing_that_is_written_to_be_slow_takes_long(bad: str) -> None:
    began = time.monotonic()
    tree((bad * LONGEST)[:LONGEST])
    assert time.monotonic() - began < 10, "a deadline against hanging; the usual time is below a second"
