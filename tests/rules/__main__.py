"""Prints the marks of learned rules on generated histories: `python -m tests.rules --histories 1000`.

With `--held-out`, histories are of the generator that the learner was not tuned on; `--also` prints drift, catch rates and
other methods; `--keep FILE` lets a run be continued. All figures are those of simulated persons under generated policies; they are no figures of people.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from random import Random
from statistics import median

from .baselines import METHODS, compare
from .held_out import HELD_OUT
from .policies import FIRST, Generator
from .simulation import ATTENTION, Outcome, catch_rates, drift, live

WINDOWS = (200, 1000)
NEXT = 200


def life_of(generator: Generator, seed: int) -> Outcome:
    kind = generator.kind_of(seed)
    return live(generator.history(kind, seed), kind, seed, WINDOWS[-1] + NEXT)


def lives(generator: Generator, seeds: Sequence[int], workers: int, keep: Path | None) -> list[Outcome]:
    """The outcomes of these seeds. What stands in the file `keep` is not lived again, and what is new is added to it."""
    known: dict[int, Outcome] = {}
    if keep is not None and keep.exists():
        for line in keep.read_text().splitlines():
            seed, outcome = json.loads(line)
            known[seed] = Outcome(**outcome)
    rest = [seed for seed in seeds if seed not in known]
    with ExitStack() as stack:
        file = stack.enter_context(keep.open("a")) if keep is not None else None
        made: Iterable[Outcome]
        if workers > 1:
            pool = stack.enter_context(ProcessPoolExecutor(workers))
            made = pool.map(partial(life_of, generator), rest, chunksize=2)
        else:
            made = map(partial(life_of, generator), rest)
        for seed, outcome in zip(rest, made, strict=True):
            known[seed] = outcome
            if file is not None:
                print(json.dumps([seed, asdict(outcome)]), file=file, flush=True)
    return [known[seed] for seed in seeds]


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


def table(generator: Generator, outcomes: Sequence[Outcome]) -> str:
    lines = [
        "after  kind        histories  covered of deserving   wrong of automatic   upper 95 %   cards saved"
    ]
    for first in WINDOWS:
        parts = [one.part(first, first + NEXT) for one in outcomes]
        rows = [("all", parts), ("expressible", [one for one in parts if one.kind in generator.expressible])]
        rows += [(kind, [one for one in parts if one.kind == kind]) for kind in generator.kinds]
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


def compare_all(generator: Generator, seeds: Sequence[int]) -> str:
    """The table of all methods on the same histories, whose first decisions are all a person's."""
    lines = ["after  method               covered of deserving   wrong of approved"]
    for first in WINDOWS:
        found = [compare(generator, seed, first) for seed in seeds]
        for name in METHODS:
            of = [one[name] for one in found]
            right, wrong = sum(one.right for one in of), sum(one.wrong for one in of)
            covered = rate(right, sum(one.deserving for one in of))
            lines.append(
                f"{first:5}  {name:20} {covered:>20}   {wrong:5} of {right + wrong:6}{rate(wrong, right + wrong)}"
            )
    return "\n".join(lines)


def drifts(generator: Generator) -> str:
    """Wrong approvals after a planted change of policy."""
    lines = []
    for affected in (1, 2):
        lived = (drift(generator, seed, affected=affected) for seed in range(20))
        found = sorted(wrong for wrong in lived if wrong is not None)
        lines.append(
            f"change of policy, {affected} folder(s): {len(found)} lives, median {median(found)} wrong, worst {found[-1]}"
        )
    return "\n".join(lines)


def catches(generator: Generator, count: int) -> str:
    """How many planted bad proposals a simulated person catches, without rules and with them."""
    lines = [
        "simulated attention P(miss) = 1 - exp(-k cards an hour / 100); planted bad proposals that are caught"
    ]
    for name, strength in ATTENTION.items():
        found = [catch_rates(generator, seed, strength) for seed in range(count)]
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
    parser.add_argument(
        "--held-out", action="store_true", help="takes the generator that the learner was not tuned on"
    )
    parser.add_argument("--keep", type=Path, help="a file of outcomes: those in it are not computed again")
    options = parser.parse_args()
    generator = HELD_OUT if options.held_out else FIRST
    began = time.monotonic()
    seeds = range(options.first, options.first + options.histories)
    outcomes = lives(generator, seeds, options.workers, options.keep)
    print(table(generator, outcomes))
    print(
        f"adopted {sum(one.adopted for one in outcomes)}, suspended {sum(one.suspended for one in outcomes)}",
        flush=True,
    )
    if options.also:
        for told in (
            lambda: compare_all(generator, seeds[:60]),
            lambda: drifts(generator),
            lambda: catches(generator, min(12, options.histories)),
        ):
            print(f"\n{told()}", flush=True)
    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
