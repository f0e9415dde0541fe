"""Every kind has its family, and Python, the page and the looks agree on which."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mew_lab.protocol.families import FAMILIES, STARTS, family_index, family_of
from mew_lab.protocol.kinds import KINDS

WIDGETS = Path(__file__).parents[2] / "mew_lab" / "views" / "ui"


@pytest.mark.parametrize(
    ("kind", "glyph"),
    [
        ("chat", "CH"),
        ("chat/acknowledge", "CH"),
        ("mcp/request", "MC"),
        ("mcp/response", "MC"),
        ("mcp/proposal", "PR"),
        ("mcp/reject", "ER"),
        ("mcp/withdraw", "ER"),
        ("system/error", "ER"),
        ("reasoning/thought", "RE"),
        ("capability/grant", "CA"),
        ("space/invite", "CA"),
        ("participant/pause", "PA"),
        ("stream/open", "ST"),
        ("system/presence", "SY"),
        ("x/unheard-of", "SY"),
        ("", "SY"),
    ],
)
def test_a_kind_belongs_to_the_family_that_the_looks_give_it(kind: str, glyph: str) -> None:
    assert family_of(kind).glyph == glyph == FAMILIES[family_index(kind)].glyph


def test_glyphs_are_two_letters_and_each_stands_for_one_family() -> None:
    assert len({one.glyph for one in FAMILIES}) == len({one.name for one in FAMILIES}) == len(FAMILIES) == 9
    assert all(re.fullmatch("[A-Z]{2}", one.glyph) for one in FAMILIES)
    assert {family_of(kind).name for kind in KINDS} == {one.name for one in FAMILIES}


def test_the_page_has_the_same_table() -> None:
    script = (WIDGETS / "live.js").read_text("utf-8")
    table = script[script.index("MEW_FAMILIES") : script.index("];")]
    rows = re.findall(r'\["([^"]+)", "([A-Z]{2})", "([a-z]+)"\]', table)
    glyph_of = {one.name: one.glyph for one in FAMILIES}
    assert [(start, name) for start, _, name in rows] == list(STARTS)
    assert all(glyph_of[name] == glyph for _, glyph, name in rows)


def test_the_style_sheet_has_the_same_accents() -> None:
    style = (WIDGETS / "live.css").read_text("utf-8")
    light, dark = style.split('[data-jp-theme-light="false"]', 1)
    for one in FAMILIES:
        if one.name == "system":
            continue
        assert f"--mew-{one.name}: {one.light};" in light
        assert one.light == one.dark or f"--mew-{one.name}: {one.dark};" in dark
