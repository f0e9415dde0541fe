"""What is learned: the narrowest rule that covers what a person approved, from what she decided herself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from mew_lab.rules.backtests import back_test, draw_frontier, find_remark, learned_frontier, read_rules
from mew_lab.rules.decided_calls import DecidedCall
from mew_lab.rules.learner import Candidate, learn
from mew_lab.rules.rule import parse_rule

from .policies import EXPRESSIBLE, FIRST
from .simulation import drift, live
from .test_never import call, decided

Make = Callable[[Random], Mapping[str, Any]]


def history(
    make: Make, good: Callable[[Mapping[str, Any]], bool], count: int = 100, **members: Any
) -> list[DecidedCall]:
    dice, made = Random(count), []
    for n in range(count):
        arguments = make(dice)
        made.append(decided(n, call(arguments=arguments, **members), yes=good(arguments)))
    return made


def text_of(decisions: list[DecidedCall]) -> list[str]:
    found = learn(decisions)
    check(found, decisions)
    return [
        one.rule.text.removeprefix("When coder asks files to run edit with ").removesuffix(
            ", and nothing else: approve"
        )
        for one in found
    ]


def check(found: tuple[Candidate, ...], decisions: list[DecidedCall]) -> None:
    """The evidence of each candidate is what its rule covers, and its text says all of it."""
    for one in found:
        rule = one.rule
        limits = {"an_hour": rule.an_hour, "days": rule.days, "uses": rule.uses}
        assert parse_rule(rule.text, tool_hash=rule.tool_hash, **limits) == rule
        yes = [
            d
            for d in decisions
            if d.teaches and d.verdict == "approved" and d.arguments is not None and rule.covers(d.arguments)
        ]
        assert [d.seq for d in one.approved] == [d.seq for d in yes]
        assert all(rule.covers(d.arguments or {}) or rule.covers(d.proposed or {}) for d in one.rejected)


PARTS = [
    *(
        "docs",
        "src",
        "a",
        "a",
        "b",
        "a,b",
        "-x",
        ".md",
        "x.md",
        "y.md",
        "z.md",
        "v.py",
        "x y.md",
        "..",
        "%2e",
        "~",
        "",
    ),
    *("p?q=c", "r?s=/t,u/w.md", "x.tar.md", "k" * 600, "c:", "#1.md"),
]
STARTS = [
    *("", "", "", "/", "//", "docs/", "docs/", "https://a.example.org/", "https://b.a.example.org:80/"),
    *("https://example.org?", "http://a.example.org/", "ada@", "b@example.org", "https://x@a.example.org/"),
]


@pytest.mark.parametrize("seed", range(60))
def test_the_evidence_is_all_that_a_rule_covers_whatever_the_values_are(seed: int) -> None:
    """Otherwise a rejection might not count against the rule that covers it."""
    dice = Random(seed)
    parts, starts = dice.sample(PARTS, 6), dice.sample(STARTS, 3)

    def make(dice: Random) -> dict[str, Any]:
        depth = dice.choice([1, 2, 3, 3, 4, 40 if max(map(len, parts)) < 20 else 5])
        text = dice.choice(starts) + "/".join(dice.choices(parts, k=depth))
        return {"x": text, "n": dice.choice([1, 2, 2.5, 3.0, 10**400, -4, 1e300])} | (
            {"y": text} if seed % 3 else {}
        )

    hints = ("read-only",) if seed % 2 else ("writes data",)
    made = history(make, lambda a: dice.random() < 0.97, 150, hints=hints)
    found = learn(made)
    check(found, made)
    for one in found:
        rejected = [d.seq for d in made if d.verdict == "rejected" and one.rule.covers(d.arguments or {})]
        assert [d.seq for d in one.rejected] == rejected, one.rule.text


def paths(*folders: str, ending: str = ".md") -> Make:
    return lambda dice: {"path": f"{dice.choice(folders)}f{dice.randrange(40)}{ending}"}


def test_the_narrowest_folder_and_ending_that_cover_all() -> None:
    assert text_of(history(paths("docs/api/", "docs/api/x/"), lambda a: True)) == [
        "path below docs/api/ ending in .md"
    ]
    found = text_of(history(paths("docs/", "src/"), lambda a: a["path"].startswith("docs/")))
    assert found == ["path below docs/ ending in .md"]


def test_one_of_a_few_values_and_a_range() -> None:
    made = history(
        lambda dice: {"mode": dice.choice(["r", "rb", "w"]), "bytes": dice.randint(1, 4000)},
        lambda a: a["mode"] != "w" and a["bytes"] <= 2000,
        400,
    )
    [text] = text_of(made)
    assert text.endswith('mode "r" or "rb"') or 'mode "r" or "rb"' in text
    rule = learn(made)[0].rule
    assert rule.covers({"mode": "r", "bytes": 1000}) and not rule.covers({"mode": "r", "bytes": 2001})


@pytest.mark.parametrize(
    ("hints", "expected"),
    [(("read-only",), "any text"), (("writes data",), "a text of at most"), ((), "a text")],
)
def test_anything_is_for_tools_that_only_read(hints: tuple[str, ...], expected: str) -> None:
    def make(dice: Random) -> dict[str, Any]:
        return {"text": " ".join(dice.choices(["red", "green", "blue"], k=dice.randint(2, 9)))}

    [text] = text_of(history(lambda dice: {**make(dice), "to": "ada"}, lambda a: True, hints=hints))
    assert expected in text


def test_a_length_says_nothing_of_what_a_tool_would_change() -> None:
    """A rule with lengths alone approves whatever its tool is asked for, which is for tools that only read."""

    def make(dice: Random) -> dict[str, Any]:
        return {
            "service": f"{dice.choice('abcdef')}-{dice.randrange(40)}",
            "why": " ".join(dice.choices("xyz", k=4)),
        }

    assert text_of(history(make, lambda a: True)) == []
    assert (
        text_of(history(lambda dice: {**make(dice), "to": dice.choice(["ada", "bert"])}, lambda a: True))
        != []
    )


@pytest.mark.parametrize("name", ["command", "cmd", "bashCommand", "sql", "source_code", "script"])
def test_no_length_is_learned_for_what_is_run(name: str) -> None:
    words = "npm run lint test build ls src docs git status diff log show".split()

    def make(dice: Random) -> dict[str, Any]:
        return {name: " ".join(dice.sample(words, 3)), "timeout": dice.choice([10, 30]), "folder": "src"}

    found = learn(history(make, lambda a: True))
    assert not any(one.rule.covers({name: "rm -rf src", "timeout": 10, "folder": "src"}) for one in found)


@pytest.mark.parametrize(
    ("usual", "single", "between"),
    [
        (lambda n: 1 + n, 10_000, 5_000),
        (lambda n: 1_000 + n, -50_000, 0),
        (lambda n: f"/srv/app/f{n}.md", "/srv/docs/x.md", "/srv/billing/keys.md"),
        (lambda n: f"docs/api/f{n}.md", "docs/b/x.md", "docs/legal/x.md"),
        (lambda n: f"docs/{n % 5}/f{n}.md", "docs/1/x.sh", "docs/1/install.sh"),
        (lambda n: f"https://a.example.org/{n % 3}/{n}", "https://b.example.org/1/2", "https://c.example.org/1/2"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_approvals_make_no_rule_wider(
    usual: Callable[[int], Any], single: Any, between: Any, count: int
) -> None:
    """An approval may be a slip, too, or was given to this call alone."""
    made = [decided(n, call(arguments={"x": usual(n % 60)})) for n in range(90)]
    for n in range(count):
        made[40 + 20 * n] = decided(40 + 20 * n, call(arguments={"x": single}))
    found = learn(made)
    assert any(one.rule.covers({"x": usual(30)}) for one in found)
    assert not any(one.rule.covers({"x": value}) for one in found for value in (single, between))


def test_too_few_decisions_and_too_few_different_ones_suggest_nothing_wide() -> None:
    assert text_of(history(paths("docs/"), lambda a: True, 11)) == []
    same = [decided(n, call(arguments={"path": "docs/a.md"})) for n in range(40)]
    assert text_of(same) == ['path "docs/a.md"']


def test_one_slip_does_not_end_a_rule_and_a_second_rejection_of_the_same_place_does() -> None:
    made = history(paths("docs/a/", "docs/b/"), lambda a: True, 200)
    slipped = [replace(one, verdict="rejected", sent=None) if n == 100 else one for n, one in enumerate(made)]
    assert text_of(slipped) == ["path below docs/ ending in .md"]
    [candidate] = learn(slipped)
    assert (candidate.rejected, candidate.evidence) == ((slipped[100],), "199 of 200, wrong in at most 3 %")
    forbidden = [
        replace(one, verdict="rejected", sent=None) if n > 180 and "/b/" in str(one.proposed) else one
        for n, one in enumerate(made)
    ]
    assert text_of(forbidden) == ["path below docs/a/ ending in .md"]


def test_a_rejection_that_is_not_answered_ends_a_rule_at_once() -> None:
    made = history(paths("docs/"), lambda a: True, 60)
    assert text_of([*made[:-1], replace(made[-1], verdict="rejected", sent=None)]) == []


def test_an_edit_approves_what_was_sent_and_rejects_what_was_proposed() -> None:
    made = history(paths("docs/", "src/"), lambda a: True, 100)
    edited = [
        replace(one, edited=True, sent={"path": str((one.proposed or {})["path"]).replace("src/", "docs/")})
        if str((one.proposed or {})["path"]).startswith("src/")
        else one
        for one in made
    ]
    assert text_of(edited) == ["path below docs/ ending in .md"]


@pytest.mark.parametrize(
    ("count", "taken_back", "learned"), [(60, True, True), (60, False, False), (30, True, False)]
)
def test_a_rejection_that_was_taken_back_counts_unless_it_is_the_only_one_of_many(
    count: int, taken_back: bool, learned: bool
) -> None:
    made = history(paths("docs/"), lambda a: True, count)
    rejected = replace(made[-2], verdict="rejected", sent=None)
    back = replace(made[-1], proposal=rejected.proposal, proposed=rejected.proposed, sent=rejected.proposed)
    assert bool(text_of([*made[:-2], rejected, back if taken_back else made[-1]])) is learned


def test_what_does_not_teach_and_what_is_of_another_tool_counts_for_nothing() -> None:
    made = history(paths("docs/"), lambda a: True, 40)
    assert text_of([replace(one, teaches=False, teaches_not="a script decided it") for one in made]) == []
    assert text_of([replace(one, verdict="undecided", sent=None) for one in made]) == []
    assert text_of([replace(one, tool_hash="") for one in made]) == []
    assert text_of([*made, replace(made[0], seq=99, tool_hash="1" * 64)]) == [], "its description has changed"
    assert (
        text_of([*made, *(replace(one, proposer="eve", verdict="rejected", sent=None) for one in made)]) != []
    )
    half = [replace(one, proposer="coder" if n % 2 else "eve") for n, one in enumerate(made[:22])]
    assert text_of(half) == [], "each proposer earns its own"


def test_the_rate_is_that_of_the_busiest_hour_and_30_at_most() -> None:
    made = history(paths("docs/"), lambda a: True, 60)
    for seconds, rate in ((1.0, 30), (360.0, 11), (10_000.0, 3)):
        [candidate] = learn([replace(one, t=n * seconds) for n, one in enumerate(made)])
        assert candidate.rule.an_hour == rate


def test_the_order_of_groups_does_not_matter_and_the_same_decisions_give_the_same_candidates() -> None:
    made = history(paths("docs/", "src/"), lambda a: a["path"].startswith("docs/"), 90)
    others = [replace(one, proposer="zed") for one in made]
    assert learn([*made, *others]) == learn([*others, *made]) == learn([*made, *others])


def test_values_that_were_good_by_chance_make_no_rule() -> None:
    """Each of 60 values has three decisions at most, and a yes comes by chance: those with three are no rule together."""
    for seed in range(5):
        dice = Random(seed)
        made = []
        for n in range(180):
            arguments = {"name": f"x{n % 60}", "note": "a b"}
            made.append(decided(n, call(arguments=arguments), yes=dice.random() < 0.7))
        assert text_of(made) == [], seed


# --- back-tests ---


def test_a_back_test_shows_the_wrong_ones_first_and_asks_what_was_known_at_the_time() -> None:
    made = history(paths("docs/"), lambda a: True, 30)
    made[20] = replace(made[20], verdict="rejected", sent=None)
    rule = learn(history(paths("docs/"), lambda a: True, 40))[0].rule
    found = back_test([rule], made)
    assert (len(found.wrong), found.wrong[0], found.shown[0]) == (1, made[20], made[20])
    assert found.never == (made[0],), "the first call came before anything was approved"
    assert len(found.right) == 28 and found.coverage == 28 / 29
    assert str(found).startswith("of 30 decisions it would have made 29, 1 of them wrong (at most 15.3 %)")
    assert str(back_test([rule], [])) == "of 0 decisions it would have made none"


def test_a_frontier_grows_with_its_rules() -> None:
    made = history(
        paths("docs/a/", "docs/b/", "src/"), lambda a: "docs" in a["path"] or a["path"].endswith("1.md"), 300
    )
    found = learned_frontier(made)
    assert found.learned == 150 and found.points[-1].coverage > 0.8 and found.points[-1].wrong == 0
    sentences = [
        f"When coder asks files to run edit with path below {folder}/, and nothing else: approve"
        for folder in ("docs", "src")
    ]
    points = draw_frontier(read_rules(sentences, made), made).points
    assert [point.rules for point in points] == [1, 2] and points[1].wrong > points[0].wrong == 0
    assert points[1].coverage >= points[0].coverage


def test_a_rule_for_a_tool_that_left_gets_a_sentence_and_approves_nothing() -> None:
    made = history(paths("docs/"), lambda a: True, 40)
    rule = learn(made)[0].rule
    later = [*made, replace(made[-1], seq=99, tool_hash="1" * 64)]
    assert find_remark(rule, made) == ""
    assert find_remark(rule, later) == "files describes edit otherwise by now"
    assert find_remark(rule, []) == "no call of files/edit by coder is in this log"
    assert find_remark(rule, [replace(made[0], tool_hash="")]) == "what files says of edit is not in this log"
    assert not back_test([rule], [replace(one, tool_hash="1" * 64) for one in made]).covered


def test_a_log_that_tells_of_no_tool_and_no_receipt_is_replayed_all_the_same() -> None:
    made = [
        replace(one, tool_hash="", teaches=False, hints=())
        for one in history(paths("docs/"), lambda a: True, 40)
    ]
    taught = [replace(one, teaches=True) for one in made]
    [rule] = read_rules(
        ["When coder asks files to run edit with path below docs/, and nothing else: approve"], made
    )
    assert not back_test([rule], taught).covered, "a rule that acts needs to know its tool"
    assert back_test([rule], taught, any_how=True).covered == 39
    assert back_test([rule.bound("a" * 64)], taught, any_how=True).covered == 39


# --- marks, small; `python -m tests.rules` prints them whole ---


def test_expressible_policies_are_covered_after_200_calls() -> None:
    outcomes = [live(FIRST.history(kind, 1), kind, 1, 280).part(200, 280) for kind in EXPRESSIBLE]
    covered = sum(one.covered for one in outcomes) / sum(one.deserving for one in outcomes)
    assert covered >= 0.65 and not sum(one.wrong for one in outcomes), [one.calls for one in outcomes]


@pytest.mark.nightly
def test_the_marks_hold_on_many_histories() -> None:
    from .__main__ import bootstrap, life_of

    outcomes = [life_of(FIRST, seed) for seed in range(120)]
    chosen = [one for one in outcomes if one.kind in EXPRESSIBLE]
    for first, least in ((200, 0.65), (1000, 0.85)):
        parts = [one.part(first, first + 200) for one in chosen]
        assert sum(one.covered for one in parts) >= least * sum(one.deserving for one in parts)
        assert bootstrap([one.part(first, first + 200) for one in outcomes]) <= 0.01
    assert bootstrap(outcomes) <= 0.01


@pytest.mark.slow
def test_a_change_of_policy_lets_few_wrong_calls_pass() -> None:
    found = sorted(wrong for seed in range(20) if (wrong := drift(FIRST, seed)) is not None)
    assert len(found) >= 15 and found[len(found) // 2] <= 4 and found[-1] <= 10, found
