"""Turns the Markdown of a participant into a small tree of permitted elements, without anything active.

Markdown becomes HTML (markdown-it-py), in which HTML of the author is text. An allow list cleans that HTML (nh3). The
rest becomes lists: a node is a text, or `[tag, attributes, child, …]`. A page makes elements of it by its own allow
list, so no string of a peer is ever parsed there as HTML. A picture is not loaded: its alternative text and host are
shown. A link shows its host beside its text. Headings are bold lines. Invisible characters are escapes.

Spec: §3.4, threats 3, 4 and 17.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlsplit

import nh3
from markdown_it import MarkdownIt

from mew_lab.protocol.visible import one_line, visible

__all__ = ["LONGEST", "TAGS", "plain", "tree"]

LONGEST = 8000  # characters; what is longer is shown as it was written
MOST_NODES = 2000
MOST_LEVELS = 60
MAX_HREF = 2000

TAGS = frozenset(
    {"p", "strong", "em", "s", "code", "pre", "ul", "ol", "li", "blockquote", "hr", "br", "a"}
    | {"table", "thead", "tbody", "tr", "th", "td"}
)  # the front end has the same list
_VOID = frozenset({"hr", "br"})
_SCHEMES = frozenset({"http", "https", "mailto"})

_MARKDOWN = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False}).enable(
    ["table", "strikethrough"]
)
_MARKDOWN.add_render_rule("image", lambda self, tokens, at, options, env: _picture(tokens[at]))


def plain(text: str) -> str:
    """A text of several lines as it may be shown: line ends and tabs stay, other invisible characters are escapes."""
    return "\n".join(
        "\t".join(map(visible, line.split("\t"))) for line in text.replace("\r\n", "\n").split("\n")
    )


def tree(text: str) -> list[Any] | None:
    """The nodes of a text in Markdown; None when it is too long or too deeply nested to be formatted."""
    return _tree(text) if len(text) <= LONGEST else None


@lru_cache(maxsize=256)
def _tree(text: str) -> list[Any] | None:
    try:
        html = _MARKDOWN.render(text)
    except (RecursionError, ValueError):
        return None
    clean = nh3.clean(
        html,
        tags=set(TAGS) | {f"h{n}" for n in range(1, 7)},
        attributes={"a": {"href"}, "ol": {"start"}},
        url_schemes=set(_SCHEMES),
        link_rel=None,  # the front end sets it on every link
    )
    grower = _Grower()
    grower.feed(clean)
    grower.close()
    return None if grower.nodes > MOST_NODES else grower.root[2:]


def _picture(token: Any) -> str:
    alternative = one_line("".join(child.content for child in token.children or ()), 200)
    host = _host(str(token.attrGet("src") or ""))
    label = f"[picture{': ' if alternative else ''}{alternative}{f', at {host}' if host else ''}, not loaded]"
    return _escape(label)


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _host(href: str) -> str:
    """The host of a link, or the address of a `mailto:` link; empty when there is none."""
    try:
        parts = urlsplit(href)
        return parts.path.partition("?")[0] if parts.scheme == "mailto" else parts.hostname or ""
    except ValueError:
        return ""


class _Grower(HTMLParser):
    """Makes the tree of cleaned HTML; a tag that is not in the list is left out, its text stays."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root: list[Any] = ["", {}]
        self.nodes = 0
        self._open: list[list[Any]] = [self.root]

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag[0] == "h" and tag[1:].isdigit():
            self._begin("p", {})
            self._begin("strong", {})
        elif tag == "a":
            href = attributes.get("href") or ""
            self._begin("a", {"href": href} if _leads(href) else {})
        elif tag == "ol" and (attributes.get("start") or "").isdigit():
            self._begin("ol", {"start": str(int((attributes["start"] or "1")[:9]))})
        elif tag in TAGS:
            self._begin(tag, {})
            if tag in _VOID:
                self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag[0] == "h" and tag[1:].isdigit():
            self._end("strong")
            self._end("p")
        elif tag == "a":
            node = self._open[-1]
            self._end("a")
            _tell_where(node)
        elif tag not in _VOID:
            self._end(tag)

    def handle_data(self, data: str) -> None:
        fixed = any(node[0] == "pre" for node in self._open)
        # A line end within a paragraph is a space, as in any Markdown; blocks have none between them.
        shown = plain(data) if fixed else visible(data.replace("\n", " "))
        if shown.strip() or self._open[-1][0] not in (
            "",
            "ul",
            "ol",
            "blockquote",
            "table",
            "thead",
            "tbody",
            "tr",
        ):
            self.nodes += 1
            self._open[-1].append(shown)

    def _begin(self, tag: str, attributes: dict[str, str]) -> None:
        self.nodes += 1
        node: list[Any] = [tag, attributes]
        if len(self._open) > MOST_LEVELS:
            self.nodes += MOST_NODES
        self._open[-1].append(node)
        self._open.append(node)

    def _end(self, tag: str) -> None:
        if len(self._open) > 1 and self._open[-1][0] == tag:
            self._open.pop()


def _tell_where(node: list[Any]) -> None:
    """Appends the host of a link to its text, unless the text is the address itself."""
    href = node[1].get("href", "")
    if not href:
        node[0] = "em"
        node.append(" [a link that is not followed here]")
    elif node[2:] != [href]:
        node.append(f" [{one_line(_host(href), 120)}]")


def _leads(href: str) -> bool:
    """Whether a link may have this address."""
    try:
        parts = urlsplit(href)
    except ValueError:
        return False
    plain = len(href) <= MAX_HREF and visible(href) == href and not any(char.isspace() for char in href)
    return plain and parts.scheme in _SCHEMES and bool(_host(href)) and "@" not in parts.netloc
