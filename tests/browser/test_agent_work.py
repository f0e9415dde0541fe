"""The work of a coding agent in the reasoning: tool calls with the sign of their state, and a plan that ticks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from bare import Bare

from mew_lab.lab.labs import up

AGENT = ["python", str(Path(__file__).parents[1] / "bridge" / "acp_agent.py")]
LONG = "write " + "a-very-long-name/" * 12 + "\u202e<blink>x</blink>"


def keep_look(page: Bare, name: str) -> None:
    if folder := os.environ.get("MEW_LAB_LOOKS"):
        page.tab.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


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


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1000, False)])
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
    keep_look(page, f"work-{width}")


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1000, False)])
def test_a_write_and_a_change_of_mode_are_cards_that_say_what_they_do(
    bare: Callable[..., Bare], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int, dark: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    lab = up(journal=None)
    (tmp_path / "plan.txt").write_text("".join(f"bed {n}: beans\n" for n in range(30)))
    lab.coding_agent(AGENT, "coder", mode="default", cwd=tmp_path, files=tmp_path)
    new = (tmp_path / "plan.txt").read_text().replace("bed 12: beans", "bed 12: leeks <blink>")
    lab.ask(
        "coder", "client fs/write_text_file " + json.dumps({"path": f"{tmp_path}/plan.txt", "content": new})
    )
    lab.join("helper").propose("coder/set_mode", {"mode": "yolo"})
    page = bare(lab.view.approvals, width=width, height=1400, dark=dark)
    tab = page.tab
    page.until(lambda: tab.locator("li.mew-card").count() >= 2, "both cards")
    page.until(
        lambda: "leeks <blink>" in " ".join(tab.locator(".mew-filediff").all_inner_texts()), "the difference"
    )
    text = tab.locator("section.mew").first.inner_text()
    assert "asks for permission: Write plan.txt inside" in text
    assert (
        "coder asks by its own rules: mode default; what it does not ask about runs with your rights" in text
    )
    assert "bed 2: beans" not in text and tab.locator("blink").count() == 0
    # The difference stands in the place of what it shows; that stays at hand, as it is sent.
    card = tab.locator("li.mew-card", has_text="Write plan.txt").first
    assert [row.split()[0] for row in card.locator(".mew-face-front > .mew-arguments tr").all_inner_texts()] == [
        "unchanged", "old", "new",
    ]  # fmt: skip
    folded = card.locator("details.mew-covered")
    assert folded.locator("summary").inner_text() == "content as sent" and "newText" not in card.inner_text()
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    keep_look(page, f"cards-{width}")
    folded.locator("summary").click()
    page.until(lambda: "newText" in folded.inner_text(), "the content as it is sent")
    folded.locator("summary").click()
    write = tab.get_by_role("button", name="Write", exact=False).first
    page.until(lambda: write.get_attribute("aria-disabled") != "true", "the time before a press counts")
    write.click()
    page.until(lambda: "leeks" in (tmp_path / "plan.txt").read_text(), "the write")
    page.until(
        lambda: "Mode yolo is not known to ask" in tab.locator("section.mew").inner_text(), "the warning"
    )
    assert "mode: default now, yolo after" in tab.locator("section.mew").inner_text()
    keep_look(page, f"mode-{width}")
