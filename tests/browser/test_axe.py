"""No part breaks a rule of WCAG level A or AA that axe-core knows, busy and empty, in both themes and in the panel.

The first tier looks at each part once: in the panel of a busy space, in the light theme.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from axe import ALL, OF_COLOURS, axe_source, axe_violations
from real_lab import Notebook
from scenes import BUSY

from mew_lab.views.views import PARTS

EMPTY = "%load_ext mew_lab\nimport mew_lab\nlab = mew_lab.up(journal=None)"
ALONE = [part for part in PARTS if part != "panel"]
LIGHT, DARK = ("light", ALL), ("dark", OF_COLOURS)


@pytest.mark.parametrize(
    ("scene", "alone", "themes"),
    [
        pytest.param(BUSY, [], [LIGHT], id="panel"),
        pytest.param(EMPTY, ALONE, [LIGHT, DARK], id="empty", marks=pytest.mark.slow),
        pytest.param(BUSY, ALONE, [LIGHT, DARK], id="busy", marks=pytest.mark.slow),
    ],
)
@pytest.mark.timeout(300)
@pytest.mark.slow
def test_no_part_breaks_a_rule(
    notebook: Callable[..., Notebook],
    tmp_path_factory: pytest.TempPathFactory,
    scene: str,
    alone: list[str],
    themes: list[tuple[str, dict[str, Any]]],
) -> None:
    source = axe_source(tmp_path_factory.getbasetemp())
    book = notebook([scene, *[f"lab.view.{part}" for part in alone], "%mew panel"]).run(0, deadline=60)
    assert "Error" not in book.text(0) and book.text(0).endswith("ready\n" if scene is BUSY else ""), (
        book.text(0)
    )
    faults: list[str] = []
    for index, part in enumerate([*alone, "panel"], 1):
        book.run(index)
        root = book.area(index).locator(f"section.mew-{part}").first
        book.page.until(lambda root=root: root.get_attribute("data-link") == "connected", part)
        for theme, rules in themes:
            book.page.theme(theme)
            tabs = root.locator("> .mew-room [role=tab]").all() if part == "panel" else [None]
            for tab in tabs:
                if tab is not None:
                    book.click(tab)
                    name = tab.get_attribute("data-part")
                    shown = root.locator(f"section.mew-{name}[data-link=connected]")
                    shown.wait_for()
                where = f"{part} {theme} {'' if tab is None else tab.inner_text()}"
                faults += [f"{where}: {one}" for one in axe_violations(root, source, rules)]
    assert faults == [], "\n".join(faults)
