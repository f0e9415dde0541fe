"""The first record of a journal: all that a second space needs to repeat the first.

It is the first line of a journal, a record `opened`. A writer of journals adds members of its own.

Spec: §3.6.8.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from mew_lab.errors import MewError, ProtocolError
from mew_lab.protocol.envelope import MAX_MESSAGE, compact
from mew_lab.space.core import BASELINE, Space
from mew_lab.space.events import Record
from mew_lab.space.state import EDITION, UNBOUNDED, SpaceLimits

__all__ = ["opening_record", "reopen"]


def opening_record(space: Space, now: datetime) -> Record:
    """The first record of the journal of `space`, before its events."""
    about = {
        "epoch": space.epoch,
        "owner": space.state.owner,
        "message_bytes": space.limit,
        "baseline": [capability.pattern for capability in space.state.baseline],
        "limits": space.state.limits._asdict(),
        "edition": space.state.edition,
    }
    return Record(0, now, "opened", space.name, detail=compact(about))


def reopen(record: Record) -> Space:
    """A space without events, with the settings of the space whose journal begins with `record`.

    Settings that a journal of an earlier version lacks had the same value for every space.

    Raises:
        ProtocolError: when the record lacks a setting of a space.
    """
    try:
        about: dict[str, Any] = json.loads(record.detail)
        return Space(
            record.space,
            epoch=_whole(about["epoch"]),
            owner=str(about.get("owner", "")),
            limit=_whole(about.get("message_bytes", MAX_MESSAGE)),
            baseline=about.get("baseline", BASELINE),
            edition=_known(about.get("edition", 0)),
            limits=SpaceLimits(
                **{key: _whole(most) for key, most in (UNBOUNDED | about.get("limits", {})).items()}
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, MewError) as fault:
        raise ProtocolError(
            f"this is no space's first record: it does not say what a second one would need ({fault})",
            code="invalid_journal",
            section="§3.6.8",
            raw=record.detail,
        ) from None


def _known(edition: object) -> int:
    if not 0 <= _whole(edition) <= EDITION:
        raise ValueError(f"its rules are of edition {edition}, and this version knows those up to {EDITION}")
    return _whole(edition)


def _whole(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r:.40} is no whole number")
    return value
