"""Begins a new journal with the state of a space at one point of another journal, so that the space goes on from there.

The new journal begins with a snapshot, as a pruned one does, and with the place that it comes from. It has an epoch of
its own, so that no id of the gateway repeats. The other journal is only read.

Spec: §3.6.8, ruling R20.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from mew_lab.errors import JournalError
from mew_lab.log.integrity import check_evidence
from mew_lab.log.journal import Journal
from mew_lab.log.kept_heads import KeptHead
from mew_lab.log.line import read_members
from mew_lab.log.reading import first_record
from mew_lab.log.replay import SERVED, snapshot_records
from mew_lab.log.resumption import goes_quickly, resume_verified

__all__ = ["begin_branch"]


def begin_branch(
    paths: Sequence[Path], seq: int, *, target: Path, now: datetime, with_heads: bool = True
) -> KeptHead:
    """Writes a journal that begins with the state behind the record `seq` of another; returns its head.

    Args:
        paths: The files of the other journal, in their order.
        target: The path of the new journal.
        now: The time of its beginning; it is never before that of the record.
        with_heads: Whether heads that were kept elsewhere are to vouch for the other journal.

    Raises:
        HeadsDiffer: when they do not.
        JournalError: when the other journal was changed after it was written, has no such record, or has no chain.
        ReplayMismatch: when a fresh space would have recorded something else.
    """
    first = paths[0]
    integrity, resumed = resume_verified(paths, name=str(first), until=seq, with_heads=with_heads)
    check_evidence(integrity, f"go on from #{seq} of the journal {first}", with_heads=with_heads)
    if not goes_quickly(paths, integrity):
        why = "it has no chain from its first line on, so nothing vouches for its state"
        raise JournalError(f"Cannot go on from #{seq} of the journal {first}: {why}.", path=str(first))
    opened = first_record(first)
    if resumed is None or opened is None:
        raise JournalError(
            f"Cannot go on from #{seq} of the journal {first}: it has no event there.", path=str(first)
        )
    replayed = resumed.replayed
    served = read_members(resumed.notes[SERVED]) or {} if SERVED in resumed.notes else {}
    about = {
        key: value
        for key, value in (read_members(opened.detail) or {}).items()
        if key not in ("previous", "pruned", "branched")
    }
    about["epoch"] = secrets.randbits(63)
    about["branched"] = {"journal": first.name, "seq": seq}
    begin = max(now, replayed.last)
    # The port is that of the other journal's gateway, which may run.
    carried = {**replayed.carried, "port": 0}
    records = snapshot_records(
        replayed._replace(carried=carried), opened.space, about, "branched",
        now=begin, enrolled=resumed.enrolled, port=0, settings=served.get("settings"),
    )  # fmt: skip
    journal = Journal(target)
    try:
        journal.append(records)
    finally:
        journal.close()
    return KeptHead(begin, journal.head.seq, journal.head.chain.decode())
