"""Work in steps: a generator that pauses after each short piece, so that a loop can serve others in between.

A function that may take long is written as a generator of pauses, which returns its result. `finish` runs it in one
piece; a loop runs it in slices of `SLICE`. Both give the same result, because the same code runs.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import TypeVar

__all__ = ["SLICE", "Steps", "find_steps", "finish"]

T = TypeVar("T")

Steps = Generator[None, None, T]

SLICE = 0.004  # seconds of processor time in one piece; the last step of a slice goes a little beyond
WINDOW = 8_000  # characters in which a match may begin before the next pause
EXTENT = 4_000  # characters that a match may take beyond it
NEAR = 500  # characters before the end of what was searched: there a match may depend on what follows


def finish(steps: Steps[T]) -> T:
    """Runs all steps in one piece; returns their result."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result


def find_steps(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str] | None]:
    """The same matches as those of `pattern.finditer(text)`, and None for a pause after each part of a long text.

    A match may depend on 4,000 characters from its beginning, and on 500 behind its end. A longer one is found all the
    same where those characters alone make it one. No match may be empty.
    """
    start = 0
    while (end := start + WINDOW + EXTENT) < len(text):
        limit, after = start + WINDOW, start + WINDOW
        for hit in pattern.finditer(text, start, end):
            if hit.start() >= limit:
                break
            if hit.end() > end - NEAR:  # what follows decides how it ends, or whether it is one
                whole = pattern.match(text, hit.start())
                after = hit.start() + 1 if whole is None else whole.end()
                yield whole  # None is a pause
                break
            yield hit
            after = max(after, hit.end())
        start = after
        yield None
    yield from pattern.finditer(text, start)
