"""`mew-lab rules`: prints the rules that the decisions of a journal suggest. Nothing acts by them."""

from __future__ import annotations

import argparse
from pathlib import Path

from mew_lab.cli import shell
from mew_lab.errors import ConfigError
from mew_lab.log.charts import frontier_of
from mew_lab.log.log import Log, open_log
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import visible, visible_lines
from mew_lab.rules.backtests import back_test, find_remark, read_rules
from mew_lab.rules.rule import ApprovalRule, parse_rules
from mew_lab.settings.faults import Fault, faults_error
from mew_lab.settings.rule_files import read_rule_file

__all__ = ["add_options", "run"]

MOST_EXAMPLES = 5


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("source", metavar="JOURNAL", help="a log: a file, or a folder of files")
    parser.add_argument(
        "--rules",
        metavar="FILE",
        help="a mew-rules.yaml: says what its rules would have decided, instead of learning any",
    )
    parser.add_argument(
        "--frontier",
        nargs="?",
        const="",
        metavar="FILE",
        help="how coverage and wrong approvals grow with the rules; with a name, the picture as an SVG file",
    )
    parser.add_argument(
        "--unverified",
        action="store_true",
        help="learns from a journal that does not verify, or has no chain; anybody may have written its decisions",
    )


def run(options: argparse.Namespace) -> None:
    """Runs the command with these options.

    Raises:
        MewError: There is no log there, it does not verify, the file of rules has faults, or the picture cannot be
            written.
    """
    log = open_log(options.source)
    if options.rules is not None:
        rules = read_rules(_of_file(options.rules), log.decided_calls())
        _tell_given(log, rules)
    else:
        rules = _tell_learned(log, unverified=options.unverified)
    if options.frontier is not None:
        found = log.what_if(rules=rules if options.rules is not None else "learned")
        shell.say(visible_lines(str(found)))
        if options.frontier:
            _write(Path(options.frontier), frontier_of(found).svg())
    for fault in log.faults:
        shell.warn(f"mew-lab rules: {fault}")


def _of_file(path: str) -> list[ApprovalRule]:
    rules, faults = parse_rules(read_rule_file(path))
    if faults:
        raise faults_error([Fault(*fault) for fault in faults], path)
    return rules


def _tell_given(log: Log, rules: list[ApprovalRule]) -> None:
    decided = log.decided_calls()
    for number, rule in enumerate(rules, 1):
        shell.say(visible_lines(f"{number}. {rule.text}"))
        if remark := find_remark(rule, decided):
            shell.say(visible_lines(f"   {remark}"))
            continue
        shell.say(visible_lines(f"   {back_test([rule], decided, any_how=True)}"))


def _tell_learned(log: Log, *, unverified: bool) -> list[ApprovalRule]:
    candidates = log.learn_rules(unverified=unverified)
    decided = log.decided_calls()
    teaching = sum(one.teaches for one in decided)
    if not candidates:
        told = f"{count_of(teaching, 'decision')} of persons in this log, too few alike to suggest a rule"
        shell.say(told if teaching else "No decision in this log teaches a rule: see log.decisions()")
    for number, candidate in enumerate(candidates, 1):
        rule = candidate.rule
        limits = f"at most {rule.an_hour} an hour, for {rule.days} days or {rule.uses} calls"
        shell.say(visible_lines(f"{number}. {rule.text}"))
        shell.say(visible_lines(f"   {candidate.evidence}; {limits}; rule {rule.sha256[:12]}"))
        for remark in candidate.remarks:
            shell.say(visible_lines(f"   {remark}"))
        for example in candidate.rejected[-MOST_EXAMPLES:]:
            what = "edited" if example.verdict == "approved" else "rejected"
            shell.say(visible_lines(f"   {what}: {log.sign}{example.seq} {dict(example.proposed or {})}"))
    return [candidate.rule for candidate in candidates]


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(
            f"{path} is there already; name another file for the picture", path=str(path)
        ) from None
    except OSError as fault:
        raise ConfigError(
            f"cannot write the picture to {path}: {fault.strerror or fault}", path=str(path)
        ) from None
    shell.say(f"The frontier as a picture: {visible(str(path))}")
