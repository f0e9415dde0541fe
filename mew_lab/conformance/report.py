"""How is a conformance run told in a terminal?  The summary, each failure with its exchange, then every row.

It prints nothing and runs nothing: results in, lines out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from mew_lab.conformance.suite import FAILED, PASSED, UNSEEN, Result
from mew_lab.protocol.visible import visible

__all__ = ["lines", "summary", "to_json"]

SHORT = {PASSED: "passed", FAILED: "FAILED", UNSEEN: "-"}


def summary(results: Sequence[Result]) -> str:
    """The figures in one line, and those of the rows that bind without exception."""
    count = {one: sum(result.result == one for result in results) for one in (PASSED, FAILED, UNSEEN)}
    must = [one for one in results if one.level.startswith("MUST") and one.result != UNSEEN]
    kept = sum(one.result == PASSED for one in must)
    told = ", ".join(f"{number} {word}" for word, number in count.items())
    rows = "1 row" if len(results) == 1 else f"{len(results)} rows"
    return f"{rows}: {told}; of {len(must)} MUST and MUST NOT rows that can be seen, {kept} passed"


def lines(results: Sequence[Result]) -> Iterator[str]:
    """Everything that there is to tell. What a gateway has sent is shown with its invisible characters visible."""
    yield summary(results)
    for one in results:
        if one.result == FAILED:
            yield ""
            yield f"FAILED {one.id} ({one.section}, {one.level}): {one.statement}"
            yield f"  {visible(one.detail)}"
            yield from (f"    {visible(line)}" for line in (one.exchange.split("\n") if one.exchange else ()))
    yield ""
    width = max((len(one.id) for one in results), default=0)
    for one in results:
        why = f" [{one.detail}]" if one.result == UNSEEN else ""
        yield f"{one.id:<{width}}  {SHORT[one.result]:<6}  {one.level:<8}  {one.statement}{visible(why)}"


def to_json(results: Iterable[Result]) -> str:
    """The rows as a JSON array of objects."""
    return json.dumps([one._asdict() for one in results], ensure_ascii=False, indent=1) + "\n"
