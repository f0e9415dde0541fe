"""The card of an agent that asks for a permission: a button for each of its options, and no key that chooses for a person."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from access import accessible
from axe import ALL, OF_COLOURS, axe_source, axe_violations
from playwright.sync_api import Locator
from real_lab import Notebook
from scenes import armed

pytestmark = pytest.mark.ruling("R41")

# The agent proposes to itself, and answers by the option that it is told.
AGENT = """%load_ext mew_lab
import mew_lab
lab = mew_lab.up(journal=None)
claude, told = lab.join("claude", "agent"), []
@lab.tool(seat=claude)
def permission(question: str = "", options: list = [], option: str = "", title: str = "", content: list = []) -> str:
    "Answers a permission request of this agent."
    told.append(option)
    return f"told {option}"
OPTIONS = [
    {"id": "always", "name": "Always allow edits in this session", "kind": "allow_always"},
    {"id": "once", "name": "Allow", "kind": "allow_once"},
    {"id": "no", "name": "No, and tell it what to do instead", "kind": "reject_once"},
    {"id": "never", "name": "Never", "kind": "reject_always"},
    {"id": "craft", "name": "Allow in the sandbox", "kind": "craft/sandboxed"},
]
DIFF = {"type": "diff", "path": "/srv/garden/plan.txt", "oldText": "bed 1: beans\\nbed 2: peas\\n", "newText": "bed 1: beans\\nbed 2: leeks\\n"}
def ask(options=OPTIONS, question="Edit plan.txt?", about=None, **more):
    arguments = {"question": question, "options": options, **more}
    params = {"name": "permission", "arguments": arguments}
    correlation = {"correlation_id": about} if about else {}
    claude.send("mcp/proposal", {"method": "tools/call", "params": params}, to="claude", **correlation)
def requests(): return [one for one in lab.log.requests()["id"]]
"""
KINDS = ["always", "once", "no", "never", "craft"]


def opened(plain: Callable[..., Notebook], *cells: str) -> Notebook:
    """A notebook with the view of the approvals in cell 1; of the cells that follow, the first was run."""
    return plain([AGENT, "lab.view.approvals", *cells]).run(0).run(1).run(2)


def first_card(book: Notebook) -> Locator:
    card = book.area(1).locator("ul.mew-cards > li.mew-card:not(.mew-past):not(.mew-brief)").first
    card.wait_for()
    return card


def options_of(card: Locator) -> Locator:
    return card.locator("button.mew-option")


def focus(book: Notebook, card: Locator) -> None:
    """Puts the focus on a card, as Tab does, once its buttons may be pressed."""
    armed(book.page, options_of(card).first)
    card.focus()


def test_each_option_is_a_button_in_the_words_and_the_order_of_the_agent(
    plain: Callable[..., Notebook],
) -> None:
    book = opened(plain, "for _ in OPTIONS: ask()", "print(told)")
    lines = book.area(1).locator("ul.mew-decided .mew-outcome")
    for n, id in enumerate(KINDS):
        card = first_card(book)
        names = [text.split("\n")[0].removesuffix("A").strip() for text in options_of(card).all_inner_texts()]
        assert names == [
            "Always allow edits in this session",
            "Allow",
            "No, and tell it what to do instead",
            "Never",
            "Allow in the sandbox",
        ]
        about = card.locator(".mew-option-about").all_inner_texts()
        assert about[0] == "from then on claude does the like by itself, and this space is no longer asked"
        assert about[4].startswith("the kind “craft/sandboxed” is not known here")
        assert "asks by its own rules: what it does not ask about runs with your rights" in card.inner_text()
        assert card.locator(".mew-option.mew-primary").all_inner_texts() == [
            options_of(card).nth(1).inner_text()
        ]
        assert not card.locator(".mew-edit, .mew-allow, .mew-approve").count()
        book.click(armed(book.page, options_of(card).nth(n)))
        book.page.until(
            lambda n=n: lines.count() == n + 1 and "told" in lines.first.inner_text(), "the answer"
        )  # type: ignore[misc]
        assert lines.first.inner_text().startswith(f"Chose “{names[n]}” by you after")
        assert lines.first.inner_text().endswith(f"· told {id}")
    assert book.run(3).text(3).strip() == str(KINDS)


def test_the_key_takes_the_only_one_that_allows_it_once_and_the_keyboard_goes_on(
    plain: Callable[..., Notebook],
) -> None:
    # The second has two that allow it once: the key leads to the options, and Tab and Enter choose one of them.
    book = opened(
        plain,
        "ask(); ask([OPTIONS[0], OPTIONS[1], {**OPTIONS[1], 'id': 'once2'}], 'Edit it again?')",
        "print(told)",
        "print(len(requests()))",
    )
    card = first_card(book)
    focus(book, card)
    book.tab.keyboard.press("a")
    book.page.until(lambda: "Edit it again" in first_card(book).inner_text(), "the second card")
    second = first_card(book)
    armed(book.page, options_of(second).first)
    book.page.until(
        lambda: second.evaluate("card => card === document.activeElement"), "the focus on the next card"
    )
    group = second.locator(".mew-options")
    for key in ("a", "Enter", "Space"):
        book.tab.keyboard.press(key)
    assert group.evaluate("group => group === document.activeElement") and second.is_visible()
    assert [
        text.endswith(f"(id {id})")
        for text, id in zip(
            second.locator(".mew-option-about").all_inner_texts()[1:], ("once", "once2"), strict=True
        )
    ] == [True, True]
    assert book.run(3).text(3).strip() == "['once']" and book.run(4).text(4).strip() == "1"
    for _ in range(3):
        book.tab.keyboard.press("Tab")
    book.tab.keyboard.press("Enter")
    line = book.area(1).locator("ul.mew-decided .mew-outcome").first
    book.page.until(lambda: "told once2" in line.inner_text(), "the choice")
    assert book.run(3).text(3).strip() == "['once', 'once2']"


def test_no_key_of_the_card_chooses_what_is_not_known_or_lasts(plain: Callable[..., Notebook]) -> None:
    book = opened(plain, "ask([OPTIONS[4], OPTIONS[0], OPTIONS[3]])", "print(told, requests())")
    card = first_card(book)
    for key in ("a", "Enter", "A", "Space", "a"):
        focus(book, card)
        book.tab.keyboard.press(key)
    assert book.run(3).text(3).strip() == "[] []" and options_of(card).count() == 3
    # A rejection tells it that, and sends no option: it offers none that refuses it once.
    assert "Reject: no option sent" in card.inner_text()
    focus(book, card)
    book.tab.keyboard.press("r")
    book.tab.keyboard.press("Enter")
    line = book.area(1).locator("ul.mew-decided .mew-outcome").first
    book.page.until(lambda: "Rejected (no option sent) by you" in line.inner_text(), "the rejection")
    assert book.run(3).text(3).strip() == "[] []"


@pytest.mark.ruling("R32")
def test_what_was_rejected_is_chosen_by_two_presses_of_one_option(plain: Callable[..., Notebook]) -> None:
    book = opened(
        plain,
        "asked = lab.chat('Plant leeks.', to='claude'); ask(about=asked.id)",
        "lab.reject(lab.proposals()[0]);",
        "print(told)",
    )
    assert "why: asked by human: “Plant leeks.”" in first_card(book).inner_text()
    book.run(3)
    again = book.area(1).locator("button.mew-again")
    again.wait_for()
    book.click(again)
    options = options_of(first_card(book))
    for n in (0, 1, 0):  # each press of another option asks anew
        book.click(armed(book.page, options.nth(n)))
        book.page.until(lambda n=n: "all the same" in options.nth(n).inner_text(), "the question")  # type: ignore[misc]
        assert sum("all the same" in text for text in options.all_inner_texts()) == 1
    assert book.run(4).text(4).strip() == "[]"
    book.click(armed(book.page, options.nth(0)))
    line = book.area(1).locator("ul.mew-decided .mew-outcome").first
    book.page.until(lambda: "told always" in line.inner_text(), "the choice")


def test_what_cannot_be_chosen_from_has_no_button_and_can_be_rejected(plain: Callable[..., Notebook]) -> None:
    book = opened(plain, "ask([OPTIONS[1], OPTIONS[1]])", "print(told, requests())")
    card = first_card(book)
    assert options_of(card).count() == 0
    assert "options 1 and 2 have the same id, once" in card.inner_text().lower()
    card.focus()
    book.tab.keyboard.press("a")
    reject = card.locator("button.mew-reject")
    book.page.until(lambda: reject.get_attribute("aria-disabled") != "true", "the button to arm")
    book.click(reject)
    book.click(armed(book.page, card.locator("button.mew-reject-words")))
    book.page.until(lambda: card.count() == 0, "the rejection")
    assert book.run(3).text(3).strip() == "[] []"


def test_similar_questions_stay_cards_and_a_stated_change_is_shown_before_a_choice(
    plain: Callable[..., Notebook], tmp_path_factory: pytest.TempPathFactory
) -> None:
    book = opened(plain, "for n in range(4): ask(question=f'Edit bed {n}?', content=[DIFF])", "print(told)")
    card = first_card(book)
    diff = card.locator(".mew-filediff")
    diff.wait_for()
    assert diff.locator("del").all_inner_texts() == ["- bed 2: peas\n"]
    assert diff.locator("ins").all_inner_texts() == ["+ bed 2: leeks"]
    root = book.area(1).locator("section.mew-approvals")
    assert axe_violations(root, axe_source(tmp_path_factory.getbasetemp())) == []
    book.page.shots("permission-change", root)
    assert "As claude states it" in card.locator(".mew-file").inner_text()
    assert book.area(1).locator("li.mew-card:not(.mew-past)").count() == 4
    assert (
        not book.area(1).locator(".mew-group").count()
        and not book.area(1).locator(".mew-together").is_visible()
    )
    book.click(armed(book.page, options_of(card).nth(1)))
    book.page.until(lambda: "Edit bed 1" in first_card(book).inner_text(), "the next card")
    assert book.run(3).text(3).strip() == "['once']"


HOSTILE = "{'id': 'x\\u202e', 'name': 'Reject\\u202ewollA ' + 'long ' * 60, 'kind': 'allow_once'}"


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("name", "asks"),
    [
        ("permission", "ask(title='Edit plan.txt')"),
        ("permission-hostile", f"ask([OPTIONS[4], {HOSTILE}, OPTIONS[0]], 'And this?')"),
    ],
)
def test_the_card_breaks_no_rule_of_accessibility(
    plain: Callable[..., Notebook], tmp_path_factory: pytest.TempPathFactory, name: str, asks: str
) -> None:
    book = opened(plain, asks)
    card = first_card(book)
    options_of(card).first.wait_for()
    root, source = book.area(1).locator("section.mew-approvals"), axe_source(tmp_path_factory.getbasetemp())
    faults = []
    for theme, rules in (("light", ALL), ("dark", OF_COLOURS)):
        book.page.theme(theme)
        faults += [f"{theme}: {one}" for one in axe_violations(root, source, rules)]
    assert faults == [], "\n".join(faults)
    accessible(book, root, pictures=name)
