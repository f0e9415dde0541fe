"""Rules as text: what is written is read back, what is not a rule gets a pointed sentence, and no rule is wider than it
reads."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.errors import ConfigError
from mew_lab.protocol.permit import Capability
from mew_lab.rules.approvals import Approvals
from mew_lab.rules.conditions import (
    Anything,
    Below,
    Between,
    Condition,
    Ending,
    InDomain,
    OneOf,
    TextOf,
    is_plain,
)
from mew_lab.rules.decided_calls import AskedCall, DecidedCall
from mew_lab.rules.rule import ApprovalRule, parse_rule
from mew_lab.rules.statistics import at_least, upper_bound

from ..conftest import examples

NAMES = st.one_of(
    st.sampled_from(
        ["coder", "files", "read_file", "a/b", "and", "with", "to run", 'q"u', "ä", "x: approve", "nothing"]
    ),
    st.text(min_size=1, max_size=12).filter(lambda text: text.isprintable()),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**9), 10**9),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
FOLDERS = st.sampled_from(["docs/", "docs/api/", "https://api.example.org/", "/srv/data/", "größe/", "a(b)/"])
ENDINGS = st.sampled_from([".md", ".tar.gz", "_test.py", "x"])
NUMBERS = st.integers(-(10**6), 10**6) | st.floats(-1e9, 1e9)


@st.composite
def ranges(draw: st.DrawFn) -> Condition:
    low, high = sorted([draw(NUMBERS), draw(NUMBERS)])
    return Between(low, high)


CONDITIONS: st.SearchStrategy[Condition] = st.one_of(
    st.lists(VALUES, min_size=1, max_size=4).map(lambda values: OneOf(tuple(values))),
    st.builds(Below, FOLDERS, st.just("") | ENDINGS),
    st.builds(Ending, ENDINGS),
    st.builds(InDomain, st.sampled_from(["example.org", "a.b.example"]), st.booleans()),
    ranges(),
    st.builds(TextOf, st.integers(1, 9999), st.booleans()),
    st.sampled_from([Anything("text"), Anything("number")]),
)
RULES = st.builds(
    ApprovalRule,
    NAMES,
    NAMES,
    NAMES,
    st.dictionaries(NAMES, CONDITIONS, max_size=4),
    st.sampled_from(["", "0" * 64]),
    st.integers(1, 30),
    st.integers(1, 30),
    st.integers(1, 200),
)


@given(rule=RULES)
@settings(max_examples=examples(300), deadline=None)
def test_a_rule_is_read_back_from_its_text(rule: ApprovalRule) -> None:
    again = parse_rule(
        rule.text, tool_hash=rule.tool_hash, an_hour=rule.an_hour, days=rule.days, uses=rule.uses
    )
    assert (again.text, again.canonical, again.sha256) == (rule.text, rule.canonical, rule.sha256)
    assert again == rule and dict(again.arguments) == dict(rule.arguments)


@given(rule=RULES, at=st.integers(0, 400), other=st.characters(exclude_categories=["Cs"]))
@settings(max_examples=examples(300), deadline=None)
def test_a_changed_character_makes_another_rule_or_none(rule: ApprovalRule, at: int, other: str) -> None:
    at %= len(rule.text)
    changed = rule.text[:at] + other + rule.text[at + 1 :]
    try:
        again = parse_rule(
            changed, tool_hash=rule.tool_hash, an_hour=rule.an_hour, days=rule.days, uses=rule.uses
        )
    except ConfigError as fault:
        assert str(fault).startswith("this is no rule") and "\n" not in str(fault)
        return
    assert (again.text == rule.text) is (again.sha256 == rule.sha256)


SENTENCE = 'When coder asks files to run read_file with path below docs/, mode "r" or "rb", and nothing else: approve'


def test_the_sentence_of_the_issue_is_a_rule() -> None:
    rule = parse_rule(SENTENCE)
    assert rule.data["arguments"] == {"mode": {"one of": ["r", "rb"]}, "path": {"below": "docs/"}}
    assert rule.covers({"path": "docs/a/b.md", "mode": "r"})
    for arguments in (
        {"path": "docs/a.md"},
        {"path": "docs/a.md", "mode": "r", "force": True},
        {"path": "docs/../secrets", "mode": "r"},
        {"path": "docs/./a", "mode": "r"},
        {"path": "docs//a", "mode": "r"},
        {"path": "docs/", "mode": "r"},
        {"path": "docs/a/", "mode": "r"},
        {"path": "docs/%2e%2e/a", "mode": "r"},
        {"path": "docs/a\nb", "mode": "r"},
        {"path": "docs/\u202ea", "mode": "r"},
        {"path": "docs/аb", "mode": "r"},  # a Cyrillic a
        {"path": "docs/a\\..\\b", "mode": "r"},
        {"path": "docs/$HOME", "mode": "r"},
        {"path": ["docs/a"], "mode": "r"},
        {"path": "Docs/a", "mode": "r"},
        {"path": "docs/a", "mode": "R"},
    ):
        assert not rule.covers(arguments) and rule.uncovered(arguments), arguments
    assert parse_rule("When a asks b to run c with nothing: approve").covers({})
    assert not parse_rule("When a asks b to run c with nothing: approve").covers({"x": None})


@pytest.mark.parametrize(
    ("condition", "holds", "fails"),
    [
        (Between(1, 2000), [1, 2000, 2000.0, 7], [0, 2001, 2000.5, True, "7", None, math.inf, math.nan, -1, 10**400]),
        (Between(0.5, 2.5), [0.5, 1, 2.5], [0.49, 2.51, True]),
        (InDomain("example.org"), ["https://example.org/a", "https://api.example.org/a?b=1", "https://example.org"],
         ["http://example.org/", "https://example.org.evil.example/", "https://evil.example/?x=.example.org/",
          "https://a@evil.example/.example.org/", "https://user:pw@example.org/", "https://evilexample.org/",
          "https://EXAMPLE.org/", "https://example.org\\@evil.example/", "https://example.org/../x"]),
        (InDomain("example.org", mail=True), ["ada@example.org", "a.b+c@example.org"],
         ["ada@x.example.org", "ada@example.org@evil.example", "ada@example.org,eve@evil.example", "@example.org",
          "ada@example.org\n", "eve@evil.example <ada@example.org"]),
        (Ending(".md"), ["a.md", "x/a.md"], [".md", "x/.md", "a.md ", "a.MD", "a.md/..", "../a.md", "a.md\n", "a b.md"]),
        (TextOf(10), ["a text", "", "ten chars!"], ["eleven char", 3, None, "a/b", "\u200b", "\x00"]),
        (TextOf(5, word=True), ["abc", "a-b.c"], ["a b", "a/b", "../a", ".a", "abcdef", "", "~a", "а"]),
        (Anything("number"), [1, 2.5], [True, "1", None]),
        (Anything("text"), ["", "x/y", "\n"], [1, "\x00", "\u202e"]),
        (OneOf((1, "1", None, True, [1])), [1, 1.0, "1", None, True, [1.0]], [False, 2, [True], "", 0]),
    ],
    ids=lambda value: getattr(value, "text", ""),
)  # fmt: skip
def test_what_a_condition_permits(condition: Condition, holds: list[Any], fails: list[Any]) -> None:
    assert [value for value in holds if not condition.holds(value)] == []
    assert [value for value in fails if condition.holds(value)] == []


PARTS = st.sampled_from(
    ["docs", "docs/", "/", "..", ".", "a", ".md", "\\", "%2e", "~", "$x", " ", "\n", "\u200b", "а", "é", "https://", "example.org",
     "api.", "@", "?", "#", ":443", "*", "**", "x"]
)  # fmt: skip


@given(
    rule=RULES,
    texts=st.lists(st.lists(PARTS, max_size=6).map("".join), min_size=1, max_size=6),
    more=st.booleans(),
)
@settings(max_examples=examples(400), deadline=None)
def test_a_rule_covers_nothing_that_its_capability_does_not_permit(
    rule: ApprovalRule, texts: list[str], more: bool
) -> None:
    arguments = {name: texts[n % len(texts)] for n, name in enumerate(rule.arguments)} | (
        {"more": 1} if more else {}
    )
    if not rule.covers(arguments):
        return
    payload = {"method": "tools/call", "params": {"name": rule.tool, "arguments": arguments}}
    for capability in filter(None, (rule.capability, rule.ceiling)):
        assert Capability.of(capability).permits("mcp/request", [rule.target], payload)


@given(folder=FOLDERS, ending=st.just("") | ENDINGS, parts=st.lists(PARTS, max_size=6))
@settings(max_examples=examples(400), deadline=None)
def test_a_path_that_is_covered_is_permitted_by_the_capability_that_is_shown(
    folder: str, ending: str, parts: list[str]
) -> None:
    value = f"{folder}{''.join(parts)}{ending}"
    rule = ApprovalRule("coder", "files", "read", {"path": Below(folder, ending)})
    if not rule.covers({"path": value}) or rule.capability is None:
        return
    assert is_plain(value) and "/../" not in value
    payload = {"method": "tools/call", "params": {"name": "read", "arguments": {"path": value}}}
    assert Capability.of(rule.capability).permits("mcp/request", ["files"], payload)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "here stands “When”"),
        ("When coder asks files: approve", "here stands “to run”"),
        ("When coder asks files to run rm with path below docs/: approve", "here stands “,”"),
        ("When coder asks files to run rm with path below docs/, and nothing else: approve.", "ends with “: approve”"),
        ("When coder asks files to run rm with path below docs, and nothing else: approve", "a folder ends with a slash"),
        ("When coder asks files to run rm with path below ../, and nothing else: approve", "could lead elsewhere"),
        ("When coder asks files to run rm with path anything, and nothing else: approve", "a value as JSON"),
        ("When coder asks files to run rm with n from 2 to 1, and nothing else: approve", "not smaller"),
        ("When coder asks files to run rm with n NaN, and nothing else: approve", "a value as JSON"),
        ("When coder asks files to run rm with n {\"a\":1,\"a\":2}, and nothing else: approve", "a value as JSON"),
        ("When coder asks files to run rm with a 1, a 2, and nothing else: approve", "has two conditions"),
        ("When coder asks files to run rm with a 1, and everything else: approve", "here stands"),
        ("When coder asks files to run rm with a a text of at most 0 characters, and nothing else: approve", "as JSON"),
        ("When coder asks files to run rm with u in domain Example.org, and nothing else: approve", "small letters"),
        (SENTENCE + "x" * 5000, "at most 4000 characters"),
    ],
)  # fmt: skip
def test_what_is_no_rule_gets_a_sentence(text: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_rule(text)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "limits", [{"an_hour": 31}, {"an_hour": 0}, {"days": 31}, {"uses": 201}, {"uses": True}, {"days": 1.5}]
)
def test_no_limit_is_wider_than_the_widest(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="a rule has"):
        parse_rule(SENTENCE, **limits)


# --- statistics ---


@pytest.mark.parametrize(
    ("wrong", "of", "bound"),
    [(0, 12, 0.2209), (0, 300, 0.00994), (1, 10, 0.3942), (2, 10, 0.5069), (5, 5, 1)],
)
def test_the_bound_is_that_of_clopper_and_pearson(wrong: int, of: int, bound: float) -> None:
    assert upper_bound(wrong, of) == pytest.approx(bound, abs=1e-4)


@given(of=st.integers(1, 400), part=st.floats(0, 0.999))
@settings(max_examples=examples(100), deadline=None)
def test_at_the_bound_so_few_wrong_ones_come_in_one_of_twenty_cases(of: int, part: float) -> None:
    wrong = int(part * of)
    bound = upper_bound(wrong, of)
    exact = math.fsum(math.comb(of, k) * bound**k * (1 - bound) ** (of - k) for k in range(wrong + 1))
    assert exact == pytest.approx(0.05, abs=1e-6)
    assert at_least(wrong + 1, of, bound) == pytest.approx(0.95, abs=1e-6)


# A program that splits its input, or has options, would read more than one path below docs/ in each of these.
SEVERAL = [
    "a b",
    "a & b",
    "a&b",
    "a,b",
    "a:b",
    "a(b)",
    "a!b",
    "a#b",
    "a[b]",
    "a?b",
    "a^b",
    "-rf",
    "a/-o",
    "a\u00a0b",
]


@pytest.mark.parametrize("name", SEVERAL)
def test_what_may_be_read_as_several_words_is_below_no_folder_and_has_no_ending(name: str) -> None:
    for value in (f"docs/{name}", f"docs/{name}/x.md", f"docs/x/{name}.md"):
        assert not Below("docs/").holds(value) and not Below("docs/", ".md").holds(value)
    last = name.rpartition("/")[2]  # the folders before it were approved
    assert not Ending(".md").holds(f"{last}.md") and not Ending(".md").holds(f"docs/{last}.md")
    assert Below("docs/").holds("docs/a-b_c.d=e@f+g/h") and Ending(".md").holds("docs/a-b.md")
    assert Below("https://example.org/").holds("https://example.org/a?b=c&d,e:f")
    assert not Below("https://example.org/").holds("https://example.org/a?b c")


def test_a_text_with_a_blank_is_new_where_no_approved_one_had_any() -> None:
    about: dict[str, Any] = {"proposer": "coder", "target": "files", "tool": "read"}

    def approve(value: str) -> DecidedCall:
        return DecidedCall(seq=0, t=0.0, **about, proposed={"name": value}, verdict="approved")

    def new(value: str, *before: str) -> str:
        asked = AskedCall(**about, arguments={"name": value})
        return Approvals(map(approve, before)).find_new(asked)

    for value in ("/etc/shadow ", " a", "a /etc/shadow", "a\tb", "a\u2003b"):
        assert "a text with a blank as name was not approved before" in new(value, "a.md", "b.md")
    assert new("c d", "a b", "b.md") == "" and new("c", "a.md", "b.md") == ""
