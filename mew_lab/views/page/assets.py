"""The files of the page, as its server answers with them: HTML, and a module and a style sheet for each view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mew_lab.views.ui.front_end import front_end
from mew_lab.views.ui.live import LiveView

__all__ = ["Asset", "make_assets"]

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>mew_lab</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/ui/page.css">
<script type="module" src="/ui/start.js"></script>
</head>
<body><noscript>This page needs JavaScript, which comes from its own server alone.</noscript></body>
</html>
"""
START = 'import page from "./page.js";\npage.render({ el: document.body });\n'


class Asset(NamedTuple):
    """One file: its media type, and its bytes."""

    media: str
    body: bytes


def make_assets(views: Mapping[str, LiveView]) -> Mapping[str, Asset]:
    """The files by their path, for the page and these views of it by name."""
    files = {
        "/ui": Asset("text/html", PAGE.encode()),
        "/ui/": Asset("text/html", PAGE.encode()),
        "/ui/start.js": Asset("text/javascript", START.encode()),
    }
    sources = {"page": ("page", "")} | {name: (view.part, view.more_css) for name, view in views.items()}
    for name, (part, more_css) in sources.items():
        module, css = front_end(part)
        files[f"/ui/{name}.js"] = Asset("text/javascript", module.encode())
        files[f"/ui/{name}.css"] = Asset("text/css", f"{css}\n{more_css}".encode())
    return files
