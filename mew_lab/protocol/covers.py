"""temporary"""

from typing import Any, NamedTuple


class Coverage(NamedTuple):
    answer: str
    reason: str = ""
    witness: Any = None


def covers(a, b):
    if a.pattern == b.pattern or a.pattern == {"kind": "*"}:
        return Coverage("yes")
    if a.kind == b.kind and a.payload is None and a.to is None:
        return Coverage("yes")
    k = b.pattern["kind"]
    if isinstance(k, str) and a.kind.matches(k) and a.payload is None and a.to is None:
        return Coverage("yes")
    return Coverage("no", "not covered")


def disjoint(a, b):
    return isinstance(b.pattern["kind"], str) and not a.kind.matches(b.pattern["kind"])


def possesses(held, wanted):
    for h in held:
        if covers(h, wanted).answer == "yes":
            return Coverage("yes")
    return Coverage("no", "nothing covers it")
