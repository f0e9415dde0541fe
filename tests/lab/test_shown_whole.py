"""Whatever a person is asked, a text and a page have all of it: a card, a question of a server, the options of a permission."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.errors import NotApproved, ProtocolError
from mew_lab.lab.decisions.gate import Gate
from mew_lab.lab.decisions.questions import Question, find_more, question_lines
from mew_lab.lab.decisions.text import tell_whole_card
from mew_lab.protocol.elicitation import read_elicitation
from mew_lab.protocol.visible import visible, visible_json
from mew_lab.views.approvals.question_cards import question_data

from .test_cards import call, card_from

END = "PAY-1000"
# Texts of a peer: short, with lines and hidden characters, and long ones whose end decides.
WORDS = (
    st.text(alphabet='abZ"\\\n\u202e\u00a0é{}<', max_size=12)
    | st.sampled_from(
        ['say "yes"', "back\\slash", "two\nlines", "\u202eright", "a  b", "é", "host  github.com"]
    )
    | st.integers(300, 700).map(lambda n: f"{n} " + "harmless " * (n // 9) + END)
)
TITLED = st.fixed_dictionaries({"const": WORDS}, optional={"title": WORDS})
ABOUT = {"title": WORDS, "description": WORDS, "examples": st.lists(WORDS, max_size=2), "x-note": WORDS}
FIELD = st.one_of(
    st.fixed_dictionaries({"type": st.just("string")}, optional=ABOUT | {"default": WORDS}),
    st.fixed_dictionaries({"type": st.just("string"), "const": WORDS}, optional={"default": WORDS}),
    st.fixed_dictionaries({"type": st.just("string"), "enum": st.lists(WORDS, max_size=4)}, optional=ABOUT),
    st.fixed_dictionaries({"type": st.just("string"), "oneOf": st.lists(TITLED, max_size=3)}, optional=ABOUT),
    st.fixed_dictionaries(
        {
            "type": st.just("array"),
            "items": st.fixed_dictionaries({"type": st.just("string"), "enum": st.lists(WORDS, min_size=1)}),
        },
        optional=ABOUT,
    ),
    st.fixed_dictionaries({"type": st.just("integer")}, optional=ABOUT | {"minimum": st.integers()}),
    # What no form has a place for, or for one of them alone.
    st.fixed_dictionaries(
        {"type": st.just("string"), "enum": st.lists(WORDS, min_size=1, max_size=2)},
        optional={"oneOf": st.lists(TITLED, min_size=1, max_size=2), "const": WORDS},
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["string", "integer", "boolean"])},
        optional={
            "const": WORDS,
            "format": WORDS,
            "pattern": st.just("[a-z]"),
            "title": st.lists(WORDS, max_size=2),
            "description": st.dictionaries(WORDS, WORDS, max_size=2),
        },
    ),
)
FORM = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(WORDS, FIELD, min_size=1, max_size=3)},
    optional={"title": WORDS, "description": WORDS, "required": st.lists(WORDS, max_size=2)},
)
QUESTION = st.fixed_dictionaries(
    {"message": WORDS, "requestedSchema": FORM},
    optional={"x-more": st.dictionaries(WORDS, WORDS, max_size=2)},
) | st.fixed_dictionaries(
    {"message": WORDS, "mode": st.just("url"), "url": WORDS.map(lambda end: "https://a.example/" + end)},
    optional={"elicitationId": WORDS, "requestedSchema": FORM},
)
# Lines that a text shows of itself, which a server would like to write.
OURS = ("host  github.com", "! nothing was found", "Nothing is opened here.", "for your call: order({})")
FORGED = {f"  {line}" for line in OURS[:2]}
OPTIONS = st.lists(
    st.fixed_dictionaries(
        {"id": WORDS, "name": WORDS, "kind": st.sampled_from(["allow_once", "reject_once"])}
    ),
    min_size=1,
    max_size=4,
)
# Names of the schema language, and the words that say of which kind something is: they are no texts of a peer.
KINDS = {"type", "mode", "kind"}


def texts(value: Any) -> Iterator[str]:
    """All texts of a peer in a JSON value, and the names of its members that no specification names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, member in value.items():
            if name not in KINDS:
                yield from texts(member)
    elif isinstance(value, list):
        for member in value:
            yield from texts(member)


def names(params: Mapping[str, Any]) -> Iterator[str]:
    yield from params.get("requestedSchema", {}).get("properties", {})
    yield from params.get("x-more", {})


def is_shown(text: str, where: str) -> bool:
    """Whether the whole text stands there, at once or line by line, each as visible text or as JSON."""

    def stands(part: str) -> bool:
        exact = json.dumps(part, ensure_ascii=False)[1:-1]
        return any(one in where for one in (visible(part), visible_json(exact), json.dumps(part)[1:-1]))

    return stands(text) or all(map(stands, text.split("\n")))


def leaves(value: Any) -> Iterator[str]:
    for member in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from leaves(member)
    if isinstance(value, str):
        yield value


def asked(params: dict[str, Any]) -> Question | None:
    """The question that a person is shown; None where she is not asked."""
    try:
        found = read_elicitation(params)
    except ProtocolError:
        return None
    more = find_more(params, found)
    return Question(
        id="q", seq=1, server="shop", calls=(), about=(), digest="d", since=0.0, asked=found, more=more
    )


@pytest.mark.threat(50)
@pytest.mark.ruling("R29")
@settings(deadline=None, max_examples=400)
@given(QUESTION)
@pytest.mark.slow
def test_every_text_of_a_question_stands_whole_in_what_counts_as_shown_and_on_its_page(
    params: dict[str, Any],
) -> None:
    question = asked(params)
    if question is None:
        return
    told = "\n".join(question_lines(question))
    page = question_data(question)
    # What the page draws: not what it only sends back.
    drawn = json.loads(json.dumps(page))
    assert "more" not in (drawn["plan"] or {})  # the page has no place for it
    for field in (drawn["plan"] or {}).get("members", ()):
        for one in (field, field.get("items", {})):
            for exact in ("key", "value", "default"):
                one.pop(exact, None)
            for option in one.get("options", ()):
                option[1] = ""
    shown = "\n".join(leaves(drawn))
    for text in (*texts(params), *names(params)):
        assert is_shown(text, told), text
        assert is_shown(text.replace("\n", " "), shown) or is_shown(text, shown), text


@pytest.mark.threat(50)
@settings(deadline=None, max_examples=60)
@given(QUESTION, WORDS | st.lists(st.sampled_from(OURS)).map("\n".join))
def test_no_text_of_a_server_passes_for_a_line_of_ours(params: dict[str, Any], message: str) -> None:
    """Lines set in by four blanks are the server's; which others there are does not depend on its message."""
    question, other = asked(params), asked(params | {"message": message})
    if question is None or other is None:
        return
    of_ours = [
        [line for line in question_lines(one) if not line.startswith("    ")] for one in (question, other)
    ]
    assert of_ours[0] == of_ours[1]
    assert not {line.partition("  {")[0] for line in of_ours[0]} & FORGED


@pytest.mark.threat(50, 35)
@settings(deadline=None, max_examples=100)
@given(OPTIONS, WORDS, st.dictionaries(WORDS, WORDS, max_size=3))
def test_every_text_of_a_card_and_of_the_options_of_a_permission_stands_whole_in_what_counts_as_shown(
    options: list[dict[str, str]], question: str, more: dict[str, str]
) -> None:
    card = card_from(call("permission", question=question, options=options, more=more))
    gate = Gate(lambda: 0.0)
    try:
        told = tell_whole_card(card, gate)
    except NotApproved:
        assert not gate.was_shown_whole(card)
        return
    assert gate.was_shown_whole(card)
    for text in (question, *(option[name] for option in options for name in option), *more, *more.values()):
        assert is_shown(text, told), text
