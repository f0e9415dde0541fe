"""Formats a conformance run for a terminal: the summary, each failure with its exchange, then every row.

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
DIFFERS = "differs"  # the name of FAILED for a row that is a ruling of this project


def by_group(results: Iterable[Result]) -> dict[str, dict[str, int]]:
    """The number of rows for each result, by MUST, SHOULD, MAY and ruling; groups without a row are omitted."""
    seen = [(result.group, result.result) for result in results]
    return {
        group: {outcome: seen.count((group, outcome)) for outcome in OUTCOMES}
        for group in GROUPS
        if any(group == other for other, _ in seen)
    }


def summary(results: Sequence[Result]) -> str:
    """The figures of the specification's rows in one line, without the rulings of this project."""
    text = [result for result in results if result.group != RULING]
    count = {outcome: sum(result.result == outcome for result in text) for outcome in OUTCOMES}
    figures = ", ".join(f"{number} {word}" for word, number in count.items())
    rows = "1 row" if len(text) == 1 else f"{len(text)} rows"
    more = len(results) - len(text)
    return f"{rows} of the specification: {figures}" + (f"; beside them {_rulings(more)}" if more else "")


def _rulings(number: int) -> str:
    return "1 ruling of this project" if number == 1 else f"{number} rulings of this project"


def lines(results: Sequence[Result]) -> Iterator[str]:
    """The whole report. Texts of a gateway are shown with their invisible characters visible.

    First the figures, then the failures, then every row; rulings stand apart, because they bind no other gateway.
    """
    text = [result for result in results if result.group != RULING]
    rulings = [result for result in results if result.group == RULING]
    yield summary(results)
    for group, counts in by_group(results).items():
        figures = ", ".join(
            f"{number} {DIFFERS if group == RULING and word == FAILED else word}"
            for word, number in counts.items()
            if number
        )
        yield f"  {group:<6}  {figures}"
    for result in text:
        if result.result in (FAILED, NOT_OFFERED):
            yield from _explain(result, "FAILED" if result.result == FAILED else "not offered:")
    yield ""
    width = max((len(result.id) for result in results), default=0)
    for result in text:
        yield _line(result, SHORT[result.result], width)
    if not rulings:
        return
    yield ""
    yield f"{_rulings(len(rulings))}, which bind no other gateway and do not decide the exit status:"
    for result in rulings:
        if result.result == FAILED:
            yield from _explain(result, f"{DIFFERS}:")
    yield ""
    for result in rulings:
        yield _line(result, DIFFERS if result.result == FAILED else SHORT[result.result], width)


def _explain(result: Result, word: str) -> Iterator[str]:
    yield ""
    yield f"{word} {result.id} ({result.section}, {result.level}): {result.statement}"
    yield f"  {visible(result.detail)}"
    yield from (f"    {visible(line)}" for line in (result.exchange.split("\n") if result.exchange else ()))


def _line(result: Result, word: str, width: int) -> str:
    why = f" [{result.detail}]" if result.result == UNSEEN else ""
    return f"{result.id:<{width}}  {word:<11}  {result.level:<8}  {result.statement}{visible(why)}"


def to_json(results: Iterable[Result]) -> str:
    """The rows as a JSON array of objects."""
    return json.dumps([result._asdict() for result in results], ensure_ascii=False, indent=1) + "\n"
