"""Tries other permissions of a participant against the messages so far, without giving any.

`suppose` asks `log.what_if` for the messages that would have been allowed or denied instead. It reads the log on a
thread of its own, one question at a time. A question that is asked meanwhile waits; of those that wait only the newest
is answered.

Spec: §4.2, ruling R30.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mew_lab.errors import MewError
from mew_lab.lab.decisions.grant_probe import read_pattern
from mew_lab.log.log import Log
from mew_lab.log.what_if import OtherVerdict, WhatIf
from mew_lab.protocol.permit import PROFILES
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line, visible

__all__ = ["Playground", "Supposition", "pack_answer", "read_supposition"]

ALONE = "Each message is judged alone: what would have followed from it is not counted."
MOST_LISTED = 100  # messages of each list


class Supposition(NamedTuple):
    """What is supposed of a participant: a profile in the place of its configuration, or one more permission."""

    participant: str
    profile: str = ""
    pattern: Mapping[str, Any] | None = None


def read_supposition(to: str, profile: str, text: str) -> Supposition:
    """The supposition of a form.

    Raises:
        MewError: there is no such profile, or the text is no pattern.
    """
    if not to:
        raise MewError("Pick a participant.")
    if not profile:
        return Supposition(to, pattern=read_pattern(text))
    if profile not in PROFILES:
        raise MewError(f"There is no profile {one_line(profile, 40)!r}; there are {', '.join(PROFILES)}.")
    return Supposition(to, profile)


class Playground:
    """Answers the newest supposition about one log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._turn = asyncio.Lock()

    async def suppose(self, supposed: Supposition, *, wanted: Callable[[], bool]) -> WhatIf | None:
        """The messages so far with another verdict; None where the answer is not wanted any more.

        Raises:
            MewError: the log does not know the participant, or cannot be replayed.
        """
        async with self._turn:
            if not wanted():
                return None
            try:
                return await asyncio.to_thread(self._ask, supposed)
            except RuntimeError:  # no threads here
                return self._ask(supposed)

    def _ask(self, supposed: Supposition) -> WhatIf:
        if supposed.profile:
            return self._log.what_if(capabilities={supposed.participant: supposed.profile})
        return self._log.what_if(more={supposed.participant: [dict(supposed.pattern or {})]})


def pack_answer(supposed: Supposition, answer: WhatIf) -> dict[str, Any]:
    """The answer as the page gets it: a sentence, and the messages of both sides."""
    name = one_line(supposed.participant, 64)
    allowed, denied = answer.allowed, answer.denied
    unknown = (
        f" {count_of(answer.unknown, 'refused message')} of which only the beginning is kept could not be judged."
        if answer.unknown
        else ""
    )
    return {
        "sentence": f"Of {count_of(answer.judged, 'message')} of {name} so far, {len(allowed)} more would have been "
        f"allowed, and {len(denied)} denied.{unknown}",
        "about": f"{ALONE} {answer.remark}".strip(),
        "allowed": _pack_rows(allowed),
        "denied": _pack_rows(denied),
        "counts": [len(allowed), len(denied)],
    }


def _pack_rows(rows: Sequence[OtherVerdict]) -> list[list[Any]]:
    return [
        [
            row.time.timestamp(),
            visible(row.kind),
            visible(row.id[:200]),
            one_line(row.was_code or row.would_code, 80),
        ]
        for row in rows[-MOST_LISTED:]
    ]
