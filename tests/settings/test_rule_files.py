"""`mew-rules.yaml`: text of candidates alone; what is not understood is a fault with its place, and never a wider rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from mew_lab.errors import ConfigError
from mew_lab.rules.rule import parse_rules
from mew_lab.settings.rule_files import RuleEntry, read_rule_file

RULE = "When coder asks files to run read_file with path below docs/, and nothing else: approve"
OTHER = 'When coder asks files to run read_file with mode "r" or "rb", and nothing else: approve'


def read(tmp_path: Path, text: str) -> tuple[RuleEntry, ...]:
    path = tmp_path / "mew-rules.yaml"
    path.write_text(text, encoding="utf-8")
    return read_rule_file(path)


@pytest.mark.parametrize(
    "text",
    [
        f"rules:\n  - {RULE}\n  - {OTHER}\n",
        f"rules:\n  - '{RULE}'\n  - >-\n    {OTHER[:38]}\n    {OTHER[39:]}\n",
        f"rules:\n  - rule: '{RULE}'\n  - {{rule: '{OTHER}'}}\n",
        f'{{"rules": ["{RULE}", {{"rule": "{OTHER}"}}]}}'.replace('"r" or "rb"', '\\"r\\" or \\"rb\\"'),
    ],
)
def test_a_sentence_reads_the_same_in_each_form(text: str, tmp_path: Path) -> None:
    rules, faults = parse_rules(read(tmp_path, text))
    assert (faults, [rule.text for rule in rules]) == ([], [RULE, OTHER])


def test_limits_and_the_tool_are_read(tmp_path: Path) -> None:
    text = f"rules:\n  - rule: '{RULE}'\n    tool: {'a' * 64}\n    an_hour: 3\n    days: 7\n    uses: 20\n"
    [rule], faults = parse_rules(read(tmp_path, text))
    assert not faults and (rule.tool_hash, rule.an_hour, rule.days, rule.uses) == ("a" * 64, 3, 7, 20)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is a mapping with the key rules, not nothing"),
        ("- a\n", "is a mapping with the key rules, not a list"),
        (f"rule:\n  - {RULE}\n", "did you mean 'rules'?"),
        ("rules: all\n", "rules: it must be a list, not text"),
        ("rules: [1]\n", "rules[0]: a rule is a sentence, not a number"),
        (f"rules:\n  - rule: '{RULE}'\n    state: active\n", "rules[0].state: there is no such key here"),
        (f"rules:\n  - rule: '{RULE}'\n    use: 3\n", "rules[0].use: there is no such key here; did you mean"),
        (f"rules:\n  - rule: '{RULE}'\n    days: '3'\n", "rules[0].days: it must be a whole number, not text"),
        (f"rules:\n  - rule: '{RULE}'\n    days: true\n", "rules[0].days: it must be a whole number"),
        ("rules:\n  - tool: abc\n", "'rule' is missing"),
        (f"rules:\n  - {RULE.replace('approve', 'reject')}\n", "there is no such key here"),
        (f"a: &x\n  - '{RULE}'\nrules: *x\n", "anchors and aliases are not read here"),
        (f"rules:\n  - &x '{RULE}'\n", "anchors and aliases are not read here"),
        (f"rules:\n  - !!python/object:os.system '{RULE}'\n", "is neither YAML nor JSON that is read here"),
        (f"rules:\n  - !!binary '{RULE}'\n", "is neither YAML nor JSON that is read here"),
        (f"rules:\n  - '{RULE}'\nrules: []\n", "stands twice"),
        ("rules:\n  - 'x'\n---\nrules: []\n", "another document"),
        ("rules: [" + "'x', " * 201 + "]\n", "200 are read"),
    ],
)  # fmt: skip
def test_a_fault_is_a_sentence_with_its_place(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert told in str(caught.value) and "mew-rules.yaml" in str(caught.value)


def test_a_sentence_that_is_no_rule_is_a_fault_of_its_own(tmp_path: Path) -> None:
    text = f"rules:\n  - '{RULE}'\n  - approve everything\n  - rule: '{RULE}'\n    uses: 201\n  - rule: '{RULE}'\n    tool: no\n"
    rules, faults = parse_rules(read(tmp_path, text))
    assert [rule.text for rule in rules] == [RULE]
    assert [key for key, _ in faults] == ["rules[1]", "rules[2]", "rules[3]"]
    assert (
        "this is no rule" in faults[0][1]
        and "uses from 1 to 200" in faults[1][1]
        and "SHA-256" in faults[2][1]
    )


def test_a_file_that_is_none_or_too_large_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        read_rule_file(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="it is larger than"):
        read(tmp_path, "#" * 300_000)
