"""The moments view in a real JupyterLab: the slider, the keyboard, what a saved notebook shows, both themes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from access import accessible
from axe import axe_source, axe_violations
from playwright.sync_api import Locator
from real_lab import Notebook

OPEN = """
import mew_lab
from importlib.resources import files
log = mew_lab.open_log(files("mew_lab") / "data" / "garden.jsonl")
log.view.moments
"""


def opened(plain: Callable[..., Notebook]) -> tuple[Notebook, Locator]:
    book = plain([OPEN]).run(0)
    view = book.area(0).locator("section.mew-moments")
    book.page.until(lambda: view.get_attribute("data-seq") == "89", "the end of the log")
    return book, view


def at(book: Notebook, view: Locator, seq: int) -> None:
    book.page.until(lambda: view.get_attribute("data-seq") == str(seq), f"record {seq}")


@pytest.mark.slow
def test_the_slider_and_the_keys_go_through_the_log(
    plain: Callable[..., Notebook], tmp_path_factory: pytest.TempPathFactory
) -> None:
    book, view = opened(plain)
    slider = view.get_by_label("Place in the log")
    assert (slider.input_value(), slider.get_attribute("max")) == ("89", "89")
    members = view.get_by_role("region", name="Participants")
    assert members.locator("tbody tr").count() == 5

    # The keyboard moves the slider, and the newest place is shown.
    slider.focus()
    book.tab.keyboard.press("Home")
    at(book, view, 0)
    assert view.locator(".mew-of-members tbody tr").count() == 0
    for _ in range(31):
        book.tab.keyboard.press("ArrowRight")
    at(book, view, 31)
    assert members.locator("tbody tr").count() == 3
    assert "water" in view.locator(".mew-record").inner_text()
    assert slider.evaluate("n => n === document.activeElement")
    assert (slider.get_attribute("aria-valuetext") or "").startswith("Record 31 of 89, human: mcp/request")
    # One request for many places: fewer answers than key presses.
    assert int(view.get_attribute("data-asked") or 0) < 34
    book.tab.keyboard.press("]")
    book.page.until(lambda: int(view.get_attribute("data-seq") or 0) > 31, "the next change")
    book.tab.keyboard.press("[")
    book.page.until(lambda: int(view.get_attribute("data-seq") or 99) <= 31, "the change before")

    # The mouse drags it; a number is typed.
    box = slider.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    book.tab.mouse.move(box["x"] + 8, middle)
    book.tab.mouse.down()
    for step in range(1, 20):
        book.tab.mouse.move(box["x"] + 8 + step * (box["width"] - 16) / 40, middle)
    book.tab.mouse.up()
    book.page.until(
        lambda: view.get_attribute("data-seq") == slider.input_value() != "0", "where it was left"
    )
    number = view.get_by_label("Number of the record")
    number.fill("45")
    number.press("Enter")
    at(book, view, 45)
    assert slider.input_value() == "45"

    accessible(book, view)
    source = axe_source(tmp_path_factory.getbasetemp())
    for theme in ("light", "dark"):
        book.page.theme(theme)
        assert axe_violations(view, source) == []
