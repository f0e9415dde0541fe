"""Addresses in plain text are links where Markdown would let them be, and nothing else is."""

from __future__ import annotations

import pytest

from mew_lab.views.chat.links import MAX_LINKS, link_addresses


def links(text: str) -> list[str]:
    return [node[1]["href"] for node in link_addresses(text) or [] if isinstance(node, list)]


def text_of(nodes: list[object]) -> str:
    return "".join(node if isinstance(node, str) else "".join(node[2:]) for node in nodes)  # type: ignore[arg-type, index]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see https://mew.example/a?b=1#c.", ["https://mew.example/a?b=1#c"]),
        ("(https://mew.example/a_(b))", ["https://mew.example/a_(b)"]),
        ("http://a.example, and https://b.example/!", ["http://a.example", "https://b.example/"]),
        ("no address: example.com, ftp://a.example, mailto:a@b.example", []),
        ("javascript://a.example/%0aalert(1)", []),
        ("https://user:secret@a.example/", []),
        ("https://", []),
        ("https://a.example/\u202egnp.exe", ["https://a.example/"]),
    ],
)
@pytest.mark.threat(3, 17)
def test_only_plain_web_addresses_are_links(text: str, expected: list[str]) -> None:
    assert links(text) == expected


@pytest.mark.threat(17)
def test_nothing_of_the_text_is_lost_and_what_is_invisible_is_an_escape() -> None:
    nodes = link_addresses("a\u202eb\nhttps://a.example/x\tend")
    assert nodes is not None and text_of(nodes) == "a\\u202eb\nhttps://a.example/x\tend"


def test_a_message_has_a_bounded_number_of_links() -> None:
    text = " ".join(f"https://a.example/{n}" for n in range(MAX_LINKS + 20))
    nodes = link_addresses(text)
    assert nodes is not None and len(links(text)) == MAX_LINKS and text_of(nodes) == text
    assert link_addresses("https://a.example/" + "x" * 10_000) is None
