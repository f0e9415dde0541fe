"""Every kind has its family; that the page has the same table is shown in tests/views/test_front_end.py."""

from __future__ import annotations

import re

import pytest

from mew_lab.protocol.families import FAMILIES, family_index, family_of
from mew_lab.protocol.kinds import KINDS


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
