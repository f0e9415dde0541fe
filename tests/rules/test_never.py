"""What no rule approves, over generated calls that try to pass: 0 automatic decisions, whatever the rule says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from mew_lab.rules.approvals import Approvals, ancestors
from mew_lab.rules.conditions import Anything, Below, Between, Ending, TextOf
from mew_lab.rules.decided_calls import AskedCall, DecidedCall
from mew_lab.rules.judgements import judge
from mew_lab.rules.learner import learn
from mew_lab.rules.never import names_protected
from mew_lab.rules.rule import ApprovalRule, parse_rule

from ..conftest import examples

HASH = "0" * 64
TIME = 1.8e9


def call(**members: Any) -> AskedCall:
    given = {
        "proposer": "coder",
        "target": "files",
        "tool": "edit",
        "tool_hash": HASH,
        "hints": ("writes data",),
    }
    return AskedCall(**{"arguments": {"path": "docs/a.md", "n": 5, "note": "hello"}, **given, **members})


def decided(seq: int, asked: AskedCall, *, yes: bool = True, **members: Any) -> DecidedCall:
    return DecidedCall(
        **{
            "seq": seq,
            "t": TIME + 200.0 * seq,
            "proposal": f"p{seq}",
            "proposer": asked.proposer,
            "target": asked.target,
            "tool": asked.tool,
            "tool_hash": asked.tool_hash,
            "hints": asked.hints,
            "proposed": asked.arguments,
            "sent": asked.arguments if yes else None,
            "verdict": "approved" if yes else "rejected",
            "by": "ada",
            "how": "click",
            **members,
        }
    )


def good(dice: Random) -> AskedCall:
    path = f"docs/{dice.choice(['', 'api/', 'guide/'])}f{dice.randrange(50)}.md"
    return call(
        arguments={
            "path": path,
            "n": dice.randint(1, 100),
            "note": dice.choice(["hello", "a b c", "see docs"]),
        }
    )


TAUGHT = [decided(n, good(Random(n))) for n in range(80)]
APPROVALS = Approvals(TAUGHT)
# As wide as a person may write by hand: what is not approved falls by the rest of the judgement.
WIDE = [
    ApprovalRule(
        "coder",
        "files",
        "edit",
        {"path": path, "n": Between(-(10**9), 10**9), "note": Anything("text")},
        HASH,
    )
    for path in (Anything("text"), Below("docs/"), Ending(".md"), TextOf(9999))
]


def judged(rule: ApprovalRule, asked: AskedCall, *, approvals: Approvals = APPROVALS) -> str:
    return judge(rule, asked, approvals, now=TIME).says


def test_what_was_approved_before_is_approved() -> None:
    """The negative tests are worth something: without a reason against it, each such call passes."""
    for n in range(1000):
        assert [judged(rule, good(Random(n))) for rule in WIDE[:3]] == ["approve"] * 3
    [learned, *_] = learn(TAUGHT)
    assert "below docs/" in learned.rule.text and "ending in .md" in learned.rule.text
    assert sum(judged(learned.rule, good(Random(n))) == "approve" for n in range(1000)) > 950


PROTECTED = [
    *(
        "mew-rules.yaml",
        ".mew/space.yaml",
        ".mcp.json",
        ".claude/settings.json",
        ".vscode/tasks.json",
        ".git/hooks/pre-commit",
    ),
    *(".MEW/x", ".Claude/x", "MEW-RULES.YAML", ".mcp.JSON", ".git/config", ".git", ".cursor/mcp.json"),
]


def _disguised(dice: Random, name: str) -> str:
    form = dice.randrange(9)
    if form == 0:
        return "".join(f"%{ord(c):02x}" if dice.random() < 0.5 else c for c in name)
    if form == 1:
        at = dice.randrange(len(name))
        return name[:at] + dice.choice("\u200b\u200d\u2060\ufeff\u00ad") + name[at:]
    if form == 2:
        return name.translate(str.maketrans("aceopyi", "асеорyі"))
    if form == 3:
        return name.replace("/", dice.choice(["\\", "//", "/./", "∕", "⁄", "\uff0f"]))
    if form == 4:
        return "".join(chr(ord(c) + 0xFEE0) if c.isalnum() else c for c in name)
    if form == 5:
        return name.upper()
    if form == 6:
        return "".join(f"%25{ord(c):02x}" for c in name)
    return name


def protected(dice: Random) -> AskedCall:
    name = _disguised(dice, dice.choice(PROTECTED))
    arguments: dict[str, Any] = dict(good(dice).arguments)
    place = dice.randrange(4)
    if place == 0:
        arguments["path"] = f"{dice.choice(['docs/', 'docs/api/', '', './', '/home/a/'])}{name}"
    elif place == 1:
        arguments["note"] = dice.choice(["{}", "echo x > {}", '"{}"', "see {} there", "x;cat {}"]).format(
            name
        )
    elif place == 2:
        arguments["note"] = {"deep": [{"name": name}]}
    else:
        arguments[name] = "x"
    return call(arguments=arguments)


def elsewhere(dice: Random) -> AskedCall:
    """A folder that was not approved before, or text that leads there."""
    path = dice.choice(
        ["src/a.md", "a.md", "/etc/a.md", "docs/../src/a.md", "docs/api/../../x.md", "docs//a.md", "docs/./a.md", "Docs/a.md",
         "docs\\..\\a.md", "docs/%2e%2e/a.md", "~/docs/a.md", "./docs/a.md", "docs/a\n.md", "docs/а.md", "https://evil.example/a.md",
         "docs /a.md", "dосs/a.md", "//docs/a.md", "file:///docs/a.md", "docs/$HOME/a.md", "docs/GIT~1/a.md", "docs/.. /a.md",
         "..", "~", "$HOME", "%USERPROFILE%", "/etc/my a.md", " /etc/a.md", "../x y.md", "C:\\a b.md", "~ada/a b.md"]
    )  # fmt: skip
    return call(arguments={**good(dice).arguments, "path": path})


def other_shape(dice: Random) -> AskedCall:
    arguments: dict[str, Any] = dict(good(dice).arguments)
    what = dice.randrange(5)
    if what == 0:
        arguments[dice.choice(["force", "mode", "path ", "Path", "", "__proto__", "n\u200b"])] = dice.choice(
            [True, 1, None, ""]
        )
    elif what == 1:
        del arguments[dice.choice([*arguments])]
    elif what == 2:
        arguments = {}
    elif what == 3:
        arguments["path"] = dice.choice([[arguments["path"]], {"a": 1}, None, True, 7])
    else:
        arguments["n"] = dice.choice([True, "5", None, [5], float("inf"), float("nan"), 10**400, -(10**400)])
    return call(arguments=arguments)


def other_call(dice: Random) -> AskedCall:
    one = good(dice)
    return dice.choice(
        [
            replace(one, proposer=dice.choice(["Coder", "coder ", "coder-2", "eve", "соder", ""])),
            replace(one, target=dice.choice(["Files", "files2", "", "mail"])),
            replace(one, tool=dice.choice(["Edit", "edit ", "delete", "edіt"])),
            replace(one, method=dice.choice(["resources/read", "tools/list", "", "prompts/get"])),
            replace(one, tool_hash=dice.choice(["", "1" * 64, "0" * 63])),
        ]
    )


def by_its_card(dice: Random) -> AskedCall:
    flags: list[dict[str, Any]] = [
        {"warnings": ("address: http",)},
        {"after_unknown": True},
    ]
    flags += [{"has_options": True}, {"rejected": True}, {"hints": ("destructive",)}]
    return replace(good(dice), **dice.choice(flags))


ATTACKS = [protected, elsewhere, other_shape, other_call, by_its_card]


def attacks(count: int) -> Iterator[tuple[str, AskedCall]]:
    dice = Random(count)
    for n in range(count):
        attack = ATTACKS[n % len(ATTACKS)]
        yield attack.__name__, attack(dice)


def check_attacks(count: int) -> Counter[str]:
    rules = [*WIDE, *(candidate.rule for candidate in learn(TAUGHT))]
    said: Counter[str] = Counter()
    for name, asked in attacks(count):
        for rule in rules:
            judgement = judge(rule, asked, APPROVALS, now=TIME)
            assert not judgement, (name, asked, rule.text)
            assert judgement.why
            said[judgement.says] += 1
    return said


def test_no_adversarial_call_is_approved() -> None:
    said = check_attacks(examples(3000))
    assert min(said.values()) > 500, "some fall by what no rule approves, and others by the rule itself"


@pytest.mark.nightly
def test_of_100_000_adversarial_calls_none_is_approved() -> None:
    check_attacks(100_000)


@pytest.mark.parametrize("attack", ATTACKS)
def test_each_attack_alone_is_why_it_falls(attack: Callable[[Random], AskedCall]) -> None:
    """Most of them fall by the judgement itself, with the widest rule of all."""
    says = Counter(judged(WIDE[0], attack(Random(n))) for n in range(300))
    assert says["approve"] == 0 and (says["never"] > 30 or attack is other_shape), says


@pytest.mark.parametrize(
    "innocent",
    ["docs/mew.md", "x/y.git", ".gitignore", "camew/x", "claude.mdx", "rules.yaml", "session.mew.md"],
)
def test_names_that_only_resemble_protected_ones_are_free(innocent: str) -> None:
    assert not names_protected({"path": innocent})


@pytest.mark.parametrize(
    "parts", [{"path": [".git", "hooks"]}, {"a": {".mew": 1}}, {"x": "a" * 300_000}, {"x": ["a"] * 20_000}]
)
def test_a_name_in_parts_or_beyond_what_is_looked_through_counts(parts: dict[str, Any]) -> None:
    assert names_protected(parts)


def test_a_rule_approves_no_more_in_an_hour_than_its_rate() -> None:
    rule = replace_rate(WIDE[1], 5)
    used = [TIME - 3599, TIME - 3000, TIME - 10, TIME - 5, TIME - 1]
    assert (
        judge(rule, good(Random(1)), APPROVALS, now=TIME, used=used).why
        == "the rule has approved 5 calls in an hour"
    )
    assert judge(rule, good(Random(1)), APPROVALS, now=TIME + 2, used=used)


def replace_rate(rule: ApprovalRule, an_hour: int) -> ApprovalRule:
    return replace(rule, an_hour=an_hour)


def test_a_folder_is_known_by_two_places_below_it_and_never_from_its_root() -> None:
    def knows(*paths: str, asked: str) -> bool:
        approvals = Approvals([decided(n, call(arguments={"path": path})) for n, path in enumerate(paths)])
        return not approvals.find_new(call(arguments={"path": asked}))

    assert knows("docs/a", asked="docs/b")
    assert not knows("docs/a", asked="docs/api/b")
    assert knows("docs/a", "docs/api/b", asked="docs/new/c")
    assert knows("docs/x/a", "docs/y/b", asked="docs/z/c")
    assert not knows("docs/x/a", "docs/x/b", asked="docs/z/c")
    assert not knows("docs/x/a", "src/x/a", asked="etc/x/a")
    assert not knows("/a/x/1", "/b/x/1", asked="/c/x/1")
    assert knows("https://a.example/x/1", "https://a.example/y/1", asked="https://a.example/z/1")
    assert not knows("https://a.example/x/1", "https://b.example/y/1", asked="https://c.example/z/1")
    assert [*ancestors("/srv/a/b")] == ["/srv/a/", "/srv/"]
    assert [*ancestors("https://h/a/b")] == ["https://h/a/", "https://h/"]
    assert [*ancestors("a")] == []


@pytest.mark.parametrize("hints", [("read-only",), ("writes data",)])
@pytest.mark.parametrize(
    "names",
    [
        ["docs", "src", "notes"],
        ["my notes", "a plan", "the list of all", "notes"],
        ["a.md", "b.md", "notes.txt"],
    ],
)
def test_a_text_that_leads_elsewhere_is_none_of_the_names_that_were_approved(
    names: list[str], hints: tuple[str, ...]
) -> None:
    """Names without a slash were approved, such as those of one folder: no other folder is among them."""
    made = [
        call(arguments={"path": f"{names[n % len(names)]}", "n": n % 50}, hints=hints) for n in range(120)
    ]
    taught = [decided(n, one) for n, one in enumerate(made)]
    approvals, wide = Approvals(taught), [Anything("text"), TextOf(9999), TextOf(9999, word=True)]
    rules = [ApprovalRule("coder", "files", "edit", {"path": one, "n": Between(0, 50)}, HASH) for one in wide]
    rules += [candidate.rule for candidate in learn(taught)]
    assert all(judged(rules[0], one, approvals=approvals) == "approve" for one in made)
    for path in (
        *(
            "..",
            "../",
            "~",
            "~ada",
            "$HOME",
            "%APPDATA%",
            "/",
            "/etc/passwd",
            "/etc/passwd ",
            " /etc/passwd",
            "\t/etc/x",
        ),
        *(
            "../my notes",
            "a plan/../../b c",
            "../../etc/my keys",
            "~/my notes",
            "C:\\my notes",
            "C:/my notes",
            ".. /x",
        ),
        *(
            "file:///etc/my keys",
            "$HOME/my notes",
            "${HOME}",
            "/my notes",
            "./../my notes",
            "c:x",
            "\\\\host\\a b",
        ),
    ):
        for rule in rules:
            asked = call(arguments={"path": path, "n": 1}, hints=hints)
            assert judged(rule, asked, approvals=approvals) != "approve", (path, rule.text)


# --- hostile histories ---


def test_a_flood_of_harmless_calls_earns_no_more_than_their_own_kind() -> None:
    """A peer floods to earn a rule: the rule covers the flood, and nothing that it was made for."""
    flood = [
        decided(n, call(arguments={"path": f"docs/{n % 3}.md", "n": 1, "note": "hi"}), t=TIME + n)
        for n in range(400)
    ]
    approvals = Approvals(flood)
    for candidate in learn(flood):
        assert any("came within ten minutes" in remark for remark in candidate.remarks)
        for n, (_, asked) in enumerate(attacks(500)):
            assert not judge(candidate.rule, asked, approvals, now=TIME), (n, asked)
        other = call(arguments={"path": "docs/0.md", "n": 2, "note": "hi"})
        assert not judge(candidate.rule, other, approvals, now=TIME)


def test_equal_calls_earn_a_rule_for_equal_calls_alone() -> None:
    same = call(arguments={"path": "docs/a.md", "n": 1, "note": "hi"})
    [candidate] = learn([decided(n, same) for n in range(100)])
    assert candidate.rule.covers(same.arguments)
    for name, value in (("path", "docs/b.md"), ("n", 2), ("note", "ho")):
        assert not candidate.rule.covers({**same.arguments, name: value})


def test_a_history_of_hostile_values_is_learned_from_without_a_fault() -> None:
    dice = Random(5)
    odd = [
        "\ud800",
        "\x00",
        "/" * 2000,
        "a/" * 500,
        "https://" + "a." * 300,
        float("nan"),
        float("inf"),
        10**400,
        -0.0,
    ]
    odd += [
        None,
        True,
        [],
        {},
        [[]] * 50,
        "x" * 30_000,
        {"a": {"b": ["c"]}},
        "..",
        "../..",
        "%2e",
        "a@b@c",
        "https://[::1]/",
    ]
    names = ["path", "", "\ud800", "x" * 500, "and nothing else", '"']
    calls = []
    for n in range(400):
        arguments = {name: dice.choice(odd) for name in dice.sample(names, 2)}
        calls.append(decided(n, call(arguments=arguments), yes=dice.random() < 0.9))
    for names in ({"target": ""}, {"tool": "\ud800"}, {"proposer": ""}, {"tool": "x" * 5000}):
        calls += [decided(n, call(**names)) for n in range(40)]
    for candidate in learn(calls):
        assert parse_rule(candidate.rule.text).arguments == candidate.rule.arguments
        assert candidate.rule.text and candidate.rule.sha256
        covered = [one for one in calls if one.arguments is not None and candidate.rule.covers(one.arguments)]
        assert covered and {id(one) for one in (*candidate.approved, *candidate.rejected)} <= {
            id(one) for one in covered
        }
