"""Prints the marks of learned rules on generated histories: `python -m tests.rules --histories 1000`.

All figures are those of simulated persons under generated policies; they are no figures of people.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from random import Random
from statistics import median

from .baselines import METHODS, compare
from .policies import EXPRESSIBLE, KINDS
from .simulation import ATTENTION, Outcome, catch_rates, drift, live

WINDOWS = (200, 1000)
NEXT = 200


def history(seed: int) -> Outcome:
    kind = [*KINDS][seed % len(KINDS)]
    return live(KINDS[kind](Random(seed)), seed, WINDOWS[-1] + NEXT)


def bootstrap(outcomes: Sequence[Outcome], *, rounds: int = 2000, seed: int = 1) -> float:
    """The upper 95 % bound of the pooled rate of wrong approvals, by drawing whole histories anew."""
    dice, pairs = Random(seed), [(one.wrong, one.automatic) for one in outcomes]
    rates = []
    for _ in range(rounds):
        drawn = dice.choices(pairs, k=len(pairs))
        rates.append(sum(wrong for wrong, _ in drawn) / max(1, sum(of for _, of in drawn)))
    return sorted(rates)[int(0.95 * rounds)]


def rate(part: int, whole: int) -> str:
    return f"{100 * part / whole:6.2f} %" if whole else "     –  "


def table(outcomes: Sequence[Outcome]) -> str:
    lines = [
        "after  kind        histories  covered of deserving   wrong of automatic   upper 95 %   cards saved"
    ]
    for first in WINDOWS:
        parts = [one.part(first, first + NEXT) for one in outcomes]
        rows = [("all", parts), ("expressible", [one for one in parts if one.kind in EXPRESSIBLE])]
        rows += [(kind, [one for one in parts if one.kind == kind]) for kind in KINDS]
        for name, chosen in rows:
            if not chosen:
                continue
            covered, deserving = sum(one.covered for one in chosen), sum(one.deserving for one in chosen)
            wrong, automatic = sum(one.wrong for one in chosen), sum(one.automatic for one in chosen)
            calls = sum(len(one.calls) for one in chosen)
            lines.append(
                f"{first:5}  {name:11} {len(chosen):9}  {rate(covered, deserving):>20} "
                f"{wrong:7} of {automatic:6}{rate(wrong, automatic)} {100 * bootstrap(chosen):8.2f} %  {rate(automatic, calls)}"
            )
    wrong, automatic = sum(one.wrong for one in outcomes), sum(one.automatic for one in outcomes)
    lines.append(
        f"whole lives: {wrong} of {automatic} wrong, {rate(wrong, automatic)}, upper 95 % {100 * bootstrap(outcomes):.2f} %"
    )
    return "\n".join(lines)


def compare_all(seeds: Sequence[int]) -> str:
    """The table of all methods on the same histories, whose first decisions are all a person's."""
    lines = ["after  method               covered of deserving   wrong of approved"]
    for first in WINDOWS:
        found = [compare(seed, first) for seed in seeds]
        for name in METHODS:
            of = [one[name] for one in found]
            right, wrong = sum(one.right for one in of), sum(one.wrong for one in of)
            covered = rate(right, sum(one.deserving for one in of))
            lines.append(
                f"{first:5}  {name:20} {covered:>20}   {wrong:5} of {right + wrong:6}{rate(wrong, right + wrong)}"
            )
    return "\n".join(lines)


def drifts() -> str:
    """Wrong approvals after a planted change of policy."""
    lines = []
    for affected in (1, 2):
        found = sorted(wrong for seed in range(20) if (wrong := drift(seed, affected=affected)) is not None)
        lines.append(
            f"change of policy, {affected} folder(s): {len(found)} lives, median {median(found)} wrong, worst {found[-1]}"
        )
    return "\n".join(lines)


def catches(count: int) -> str:
    """How many planted bad proposals a simulated person catches, without rules and with them."""
    lines = [
        "simulated attention P(miss) = 1 - exp(-k cards an hour / 100); planted bad proposals that are caught"
    ]
    for name, strength in ATTENTION.items():
        found = [catch_rates(seed, strength) for seed in range(count)]
        of = sum(one[2] for one in found)
        lines.append(
            f"{name:7} k = {strength:<4} without rules {rate(sum(one[0] for one in found), of)}, "
            f"with rules {rate(sum(one[1] for one in found), of)}, of {of}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--histories", type=int, default=60)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--also", action="store_true", help="prints drift, catch rates and baselines, too")
    options = parser.parse_args()
    began = time.monotonic()
    seeds = range(options.first, options.first + options.histories)
    if options.workers > 1:
        with ProcessPoolExecutor(options.workers) as pool:
            outcomes = list(pool.map(history, seeds, chunksize=2))
    else:
        outcomes = [history(seed) for seed in seeds]
    print(table(outcomes))
    print(
        f"adopted {sum(one.adopted for one in outcomes)}, suspended {sum(one.suspended for one in outcomes)}"
    )
    if options.also:
        print(compare_all(seeds[:60]), drifts(), catches(min(12, options.histories)), sep="\n\n")
    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
