"""Words a conformance run for a terminal: the summary, each failure with its exchange, then every row.

Pure: results in, lines out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from mew_lab.conformance.rows import GROUPS, RULING
from mew_lab.conformance.suite import FAILED, NOT_OFFERED, PASSED, UNSEEN, Result
from mew_lab.protocol.visible import visible

__all__ = ["by_group", "lines", "summary", "to_json"]

OUTCOMES = (PASSED, FAILED, NOT_OFFERED, UNSEEN)
SHORT = {PASSED: "passed", FAILED: "FAILED", NOT_OFFERED: "not offered", UNSEEN: "-"}
DIFFERS = "differs"  # what FAILED is called where a row is a ruling of ours


def by_group(results: Iterable[Result]) -> dict[str, dict[str, int]]:
    """The number of rows for each result, by MUST, SHOULD, MAY and ruling; groups without a row are left out."""
    seen = [(one.group, one.result) for one in results]
    return {
        group: {outcome: seen.count((group, outcome)) for outcome in OUTCOMES}
        for group in GROUPS
        if any(group == one for one, _ in seen)
    }


def summary(results: Sequence[Result]) -> str:
    """The figures of the specification's rows in one line; rulings of ours are not among them."""
    text = [one for one in results if one.group != RULING]
    count = {one: sum(result.result == one for result in text) for one in OUTCOMES}
    told = ", ".join(f"{number} {word}" for word, number in count.items())
    rows = "1 row" if len(text) == 1 else f"{len(text)} rows"
    more = len(results) - len(text)
    return f"{rows} of the specification: {told}" + (f"; beside them {_rulings(more)}" if more else "")


def _rulings(number: int) -> str:
    return "1 ruling of this project" if number == 1 else f"{number} rulings of this project"


def lines(results: Sequence[Result]) -> Iterator[str]:
    """The whole report. Texts of a gateway are shown with their invisible characters visible.

    First the figures, then the failures, then every row; rulings stand apart, because they bind no other gateway.
    """
    text = [one for one in results if one.group != RULING]
    rulings = [one for one in results if one.group == RULING]
    yield summary(results)
    for group, counts in by_group(results).items():
        told = ", ".join(
            f"{number} {DIFFERS if group == RULING and word == FAILED else word}"
            for word, number in counts.items()
            if number
        )
        yield f"  {group:<6}  {told}"
    for one in text:
        if one.result in (FAILED, NOT_OFFERED):
            yield from _explain(one, "FAILED" if one.result == FAILED else "not offered:")
    yield ""
    width = max((len(one.id) for one in results), default=0)
    for one in text:
        yield _line(one, SHORT[one.result], width)
    if not rulings:
        return
    yield ""
    yield f"{_rulings(len(rulings))}, which bind no other gateway and do not decide the exit status:"
    for one in rulings:
        if one.result == FAILED:
            yield from _explain(one, f"{DIFFERS}:")
    yield ""
    for one in rulings:
        yield _line(one, DIFFERS if one.result == FAILED else SHORT[one.result], width)


def _explain(one: Result, word: str) -> Iterator[str]:
    yield ""
    yield f"{word} {one.id} ({one.section}, {one.level}): {one.statement}"
    yield f"  {visible(one.detail)}"
    yield from (f"    {visible(line)}" for line in (one.exchange.split("\n") if one.exchange else ()))


def _line(one: Result, word: str, width: int) -> str:
    why = f" [{one.detail}]" if one.result == UNSEEN else ""
    return f"{one.id:<{width}}  {word:<11}  {one.level:<8}  {one.statement}{visible(why)}"


def to_json(results: Iterable[Result]) -> str:
    """The rows as a JSON array of objects."""
    return json.dumps([one._asdict() for one in results], ensure_ascii=False, indent=1) + "\n"
