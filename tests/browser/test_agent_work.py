"""The work of a coding agent in the reasoning: tool calls with the sign of their state, and a plan that ticks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from bare import Bare

from mew_lab.lab.labs import up

AGENT = ["python", str(Path(__file__).parents[1] / "bridge" / "acp_agent.py")]
LONG = "write " + "a-very-long-name/" * 12 + "\u202e<blink>x</blink>"


@pytest.fixture
def showing(
    bare: Callable[..., Bare], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Bare]:
    monkeypatch.chdir(tmp_path)

    def show(*lines: str, **how: object) -> Bare:
        lab = up(journal=None)
        (tmp_path / "plan.txt").write_text("beans\npeas\n")
        lab.coding_agent(AGENT, "coder", mode="default", cwd=tmp_path, files=tmp_path)
        page = bare(lab.view.reasoning, **how)
        lab.ask("coder", "\n".join(lines)).result(timeout=20)
        return page

    return show


@pytest.mark.parametrize(("width", "dark"), [(360, False), (360, True), (1000, False), (1000, True)])
def test_calls_and_plan_are_rows_that_tick(showing: Callable[..., Bare], width: int, dark: bool) -> None:
    page = showing(
        "plan dig the bed=in_progress; sow the beans=pending; water=pending",
        "think The bed is dry.",
        "call one mkdir shed | pending",
        "call two " + LONG + " | pending",
        "call one mkdir shed | completed",
        'client fs/read_text_file {"path": "CWD/plan.txt"}',
        "call two " + LONG + " | failed",
        "call three water the bed | in_progress",
        "plan dig the bed=completed; sow the beans=completed; water=pending",
        'update {"sessionUpdate": "current_mode_update", "currentModeId": "yolo"}',
        "say done",
        width=width,
        dark=dark,
    )
    tab = page.tab
    page.until(lambda: tab.locator(".mew-kind-conclusion").count(), "the end of the turn")
    branch = tab.locator(".mew-sequence").first
    if branch.get_attribute("aria-expanded") != "true":
        branch.locator(".mew-row").first.click()
    page.until(lambda: tab.locator(".mew-plan").is_visible(), "the plan")
    rows = tab.locator(".mew-row:has(> .mew-work)")
    assert [sign.inner_text() for sign in rows.locator("> .mew-work").all()] == ["✓", "✗", "◌"]
    assert [one.get_attribute("aria-label") for one in rows.locator("> .mew-work").all()] == [
        "completed", "failed", "in_progress",
    ]  # fmt: skip
    assert tab.locator(".mew-unasked").all_inner_texts() == ["not asked"] * 2
    ticks = tab.locator(".mew-plan > li .mew-work").all_inner_texts()
    assert ticks == ["✓", "✓", "◌"] and tab.locator(".mew-plan").count() == 1
    assert tab.get_by_text("mode yolo is not known to ask").count() == 1
    assert tab.locator("blink").count() == 0
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if folder := os.environ.get("MEW_LAB_LOOKS"):
        name = f"work-{width}-{'dark' if dark else 'light'}.png"
        tab.screenshot(path=str(Path(folder) / name), full_page=True)
