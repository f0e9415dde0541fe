"""Verifies a log: first the chain of its journal, then the consent receipts of its requests.

The receipts are worth as much as the journal that holds them. So the result says first from which line on nothing
vouches for it, and whether a head was kept elsewhere.

Spec: §3.2.1, §3.6.8, rulings R29, R42.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from mew_lab.log.files import Files, JournalSource
from mew_lab.log.integrity import MASKED, Integrity, verify_with
from mew_lab.log.reading import Vantage, is_journal, list_files, opening_of
from mew_lab.log.receipts import Consents, check_consents
from mew_lab.protocol.visible import one_line
from mew_lab.space.events import Record

__all__ = ["FLAW", "NOT_VERIFIABLE", "UNDECIDED", "Verification", "verify_log"]

FLAW: Final = 1
NOT_VERIFIABLE: Final = 2
UNDECIDED: Final = 3
MAX_NAMED: Final = 5  # files


class VerifiedLog(Protocol):
    """The log that is verified: all its records, and the files that hold them, where there are any."""

    vantage: Vantage
    is_masked: bool

    @property
    def sign(self) -> str: ...
    @property
    def source(self) -> JournalSource | None: ...
    @property
    def records(self) -> Iterable[Record]: ...
    @property
    def faults(self) -> tuple[str, ...]: ...


class Verification(NamedTuple):
    """The result: the integrity of each journal, none where no file has a chain; the consents; and what was left out.

    `faults` are sentences on lines that could not be read: nothing is known about these. `unchained` are the names of
    files that are no journals, for whose records nothing vouches. In a `masked` copy no consent was checked: its calls
    are not those that were shown and sent.
    """

    integrity: tuple[Integrity, ...]
    consents: Consents
    faults: tuple[str, ...] = ()
    unchained: tuple[str, ...] = ()
    masked: bool = False

    @property
    def intact(self) -> bool:
        """Whether all its files are journals as they were written, as far as the chains and the kept heads show."""
        return bool(self.integrity) and all(one.intact for one in self.integrity) and not self.unchained

    @property
    def consented(self) -> bool:
        """Whether each request that names a proposal is the proposed call, and somebody decided it."""
        return not (self.consents.without or self.consents.other_calls)

    def status(self, *, unchained_ok: bool = False) -> int:
        """The exit status of `mew-lab verify`, the first that holds:

        `FLAW` (1) where a journal was changed, `UNDECIDED` (3) where a call was executed that nobody decided,
        `NOT_VERIFIABLE` (2) where it is not `intact`, unless that is `unchained_ok`; otherwise 0. A log that cannot be
        read has no such result: the command then ends with 2, whatever is `unchained_ok`.
        """
        if any(one.flaw is not None for one in self.integrity):
            return FLAW
        if not self.consented:
            return UNDECIDED
        return 0 if self.intact or unchained_ok else NOT_VERIFIABLE

    @property
    def ok(self) -> bool:
        """Whether its status is 0: it is intact, and somebody decided each call that was executed for a proposal."""
        return self.status() == 0

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        lines = [str(one) for one in self.integrity] or ["no chain: nothing vouches for this log"]
        if self.masked:
            return "\n".join([*lines, *([] if self.integrity else [MASKED]), *self.faults])
        flaws = [one.flaw for one in self.integrity if one.flaw is not None]
        if flaws:
            lines.append("what follows rests on a journal that was changed")
        if len(flaws) == len(self.integrity) == 1:
            behind = sum(one.seq > flaws[0].after for one in self.consents.consented)
            lines[-1] += f", and nothing vouches for it behind #{flaws[0].after}"
            if behind:
                lines[-1] += f": {behind} of the decided requests stand there"
        lines += [
            f"{name} is no journal: nothing vouches for its records" for name in self.unchained[:MAX_NAMED]
        ]
        if len(self.unchained) > MAX_NAMED:
            lines.append(f"and so are {len(self.unchained) - MAX_NAMED} more files")
        return "\n".join([*lines, *self.faults, str(self.consents)])

    def __repr__(self) -> str:
        return str(self)


def verify_log(log: VerifiedLog, heads: str | os.PathLike[str] | None = None) -> Verification:
    """Verifies a log; see `Log.verify`.

    Raises:
        JournalError: when a file cannot be read.
    """
    kept = None if heads is None else Path(heads)
    paths = log.source.paths if log.source is not None else ()
    unpacked = log.source.unpacked if isinstance(log.source, Files) else None
    places = unpacked.origins if unpacked is not None else {}
    integrity = tuple(verify_with(path, kept, place=places.get(path)) for path in _beginnings(paths))
    checked = () if log.is_masked else log.records
    consents = check_consents(checked, complete=log.vantage != "participant", sign=log.sign)
    others = [path for path in paths if not is_journal(path) and path.stat().st_size] if integrity else []
    return Verification(
        integrity, consents, log.faults, tuple(one_line(path.name, 200) for path in others), log.is_masked
    )


def _beginnings(paths: Sequence[Path]) -> list[Path]:
    """The first files of the journals of mew_lab among these files.

    A file that states that it continues another is none where that other is here and is followed by it.
    """
    own = [path for path in paths if is_journal(path) and path.stat().st_size]
    beginnings, covered = list[Path](), set[Path]()
    for path in sorted(own, key=lambda path: "previous" in opening_of(path)):
        if path not in covered:
            beginnings.append(path)
            covered.update(list_files(path))
    return [path for path in own if path in beginnings]
