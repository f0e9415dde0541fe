"""Every kind has its family; that the page has the same table is shown in tests/views/test_front_end.py."""

from __future__ import annotations

import re

import pytest

from mew_lab.protocol.families import FAMILIES, family_index, family_of
from mew_lab.protocol.kinds import KINDS


@pytest.mark.parametrize(
    ("kind", "label"),
    [
        ("chat", "Chat"),
        ("chat/acknowledge", "Chat"),
        ("mcp/request", "Call"),
        ("mcp/response", "Call"),
        ("mcp/proposal", "Proposal"),
        ("mcp/reject", "Error"),
        ("mcp/withdraw", "Error"),
        ("system/error", "Error"),
        ("reasoning/thought", "Reasoning"),
        ("capability/grant", "Permission"),
        ("space/invite", "Permission"),
        ("participant/pause", "Status"),
        ("stream/open", "Stream"),
        ("system/presence", "System"),
        ("x/unheard-of", "System"),
        ("", "System"),
    ],
)
def test_a_kind_belongs_to_the_family_that_the_looks_give_it(kind: str, label: str) -> None:
    assert family_of(kind).label == label == FAMILIES[family_index(kind)].label


def test_labels_are_words_and_each_stands_for_one_family() -> None:
    assert len({one.label for one in FAMILIES}) == len({one.name for one in FAMILIES}) == len(FAMILIES) == 9
    assert all(re.fullmatch("[A-Z][a-z]{3,}", one.label) for one in FAMILIES)
    assert {family_of(kind).name for kind in KINDS} == {one.name for one in FAMILIES}
