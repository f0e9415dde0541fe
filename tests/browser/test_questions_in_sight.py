"""The question of a server arms when all of it was in sight, and sends nothing that its form proposes by itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from bare import Bare
from playwright.sync_api import Locator
from scenes import dwell, read_through, rest

import mew_lab
from mew_lab.lab.lab import Lab

LINES = "\n".join(f"line {n} of a default" for n in range(1, 402)) + "\nand PAY-1000"
LONG = "harmless words, " * 150 + "and PAY-1000"


class Asked:
    """A lab, a participant that asks its person, and the approvals on a page."""

    def __init__(self, bare: Callable[..., Bare], width: int = 1000, height: int = 600) -> None:
        self.lab: Lab = mew_lab.up("demo", journal=None, port=None)
        self.shop = self.lab.join("shop", [{"kind": "mcp/request"}])
        self.page = bare(self.lab.view.approvals, width=width, height=height)
        self.tab = self.page.tab

    def ask(self, params: dict[str, Any]) -> Locator:
        own = {"_meta": {"mew_lab/asked-as": "owner"}, **params}
        request = {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": own}
        self.shop.send("mcp/request", request, to="human")
        card = self.tab.locator("li.mew-question")
        self.page.until(card.count, "the question")
        return card

    def answers(self) -> list[dict[str, Any]]:
        """What was sent in the person's name."""
        raw = [json.loads(one.raw) for one in self.lab.log.held if one.raw and '"mcp/response"' in one.raw]
        return [one["payload"]["result"] for one in raw if one["from"] == "human"]

    def press(self, card: Locator) -> None:
        """The button by keyboard, without looking at anything."""
        card.locator("button.mew-accept").evaluate("button => button.focus({ preventScroll: true })")
        self.tab.keyboard.press("Enter")

    def is_armed(self, card: Locator) -> bool:
        return card.locator("button.mew-accept").get_attribute("aria-disabled") == "false"

    def read(self, card: Locator) -> None:
        """Goes through the page from its beginning, through what has a window of its own, and to the button."""
        for top in range(0, int(self.tab.evaluate("() => document.body.scrollHeight")), 200):
            self.tab.evaluate("top => scrollTo(0, top)", top)
            dwell(self.page.pause)
        read_through(card, self.page.pause)
        card.locator("button.mew-accept").scroll_into_view_if_needed()
        self.page.until(lambda: self.is_armed(card), "the question to arm")


@pytest.fixture
def asked(bare: Callable[..., Bare]) -> Callable[..., Asked]:
    return partial(Asked, bare)


def form(fields: dict[str, Any], *required: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields, "required": list(required)}
    return {"message": "How many?", "requestedSchema": schema}


FORTY = {f"field{n}": {"type": "string", "default": f"value {n}"} for n in range(1, 41)}
CHOICES = [LONG + " for Ann", LONG + " for Mallory"]
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "the end of a default": (form({"it": {"type": "string", "default": LONG}}), {}),
    "the middle of a long default": (form({"it": {"type": "string", "default": LINES}}), {}),
    "field 20 of 40": (form(FORTY), {}),
    "the end of a constant": (form({"it": {"type": "string", "const": LONG * 3}}, "it"), {"it": LONG * 3}),
    "the end of a choice": (form({"it": {"type": "string", "enum": CHOICES}}), {}),
    "the end of a name": (form({"n" * 3000: {"type": "string"}}), {}),
}


@pytest.mark.slow
@pytest.mark.threat(50)
@pytest.mark.ruling("R29")
@pytest.mark.parametrize("name", CASES)
def test_a_question_is_answered_when_all_of_it_was_in_sight_and_never_by_what_it_proposes(
    asked: Callable[..., Asked], name: str
) -> None:
    params, sent = CASES[name]
    it = asked()
    card = it.ask(params)
    rest(it.page.pause)
    for _ in range(3):
        it.press(card)
        rest(it.page.pause)
    assert not it.is_armed(card) and it.answers() == []
    it.tab.evaluate("() => scrollTo(0, document.body.scrollHeight)")
    rest(it.page.pause)
    it.press(card)
    rest(it.page.pause)
    assert it.answers() == [], "its end was in sight, and not what lies before it"
    it.read(card)
    it.press(card)
    it.page.until(it.answers, "the answer")
    assert it.answers() == [{"action": "accept", "content": sent}]


@pytest.mark.slow
@pytest.mark.threat(50)
def test_what_a_server_proposes_is_sent_once_a_person_takes_it_and_a_choice_once_she_chose(
    asked: Callable[..., Asked],
) -> None:
    titled = [{"const": "10", "title": "Small"}, {"const": "1000000", "title": "Great"}]
    fields = {
        "kind": {"type": "string", "default": "css"},
        "size": {"type": "string", "oneOf": titled, "default": "1000000"},
        "sure": {"type": "boolean", "default": True},
    }
    it = asked(height=900)
    card = it.ask(form(fields))
    offered = card.locator(".mew-offered")

    def words(n: int) -> str:
        return " ".join(offered.nth(n).inner_text().split())

    assert words(0).startswith("Not sent; the tool's default: css")
    assert card.locator("textarea").first.input_value() == "" and card.locator("select").input_value() == ""
    assert [one.is_checked() for one in card.locator("input[type=radio]").all()] == [False, False, True]
    assert card.locator(".mew-radio").nth(1).inner_text().split() == ["Great", "1000000"]
    it.read(card)
    offered.nth(0).locator("button").click()
    card.locator("input[type=radio]").nth(0).check()
    assert words(0).startswith("The tool's default: css")
    assert words(2).startswith("Not sent; the tool's default: true")
    it.page.until(lambda: it.is_armed(card), "the question to arm again")
    it.press(card)
    it.page.until(it.answers, "the answer")
    assert it.answers() == [{"action": "accept", "content": {"kind": "css", "size": "10"}}]
