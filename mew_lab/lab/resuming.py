"""Restores a space that ran before from its journal, with its port and its tokens.

Nothing is started here: a host continues with the result. Connections and their streams are gone; grants, invitations,
pauses and messages are restored.

Calls whose answer the journal does not have may have taken effect; who repeats one of them is told so (`PastCalls`).

The chain of the journal is verified, with the heads that were kept beside the tokens. A journal that is vouched
for is replayed only where it changes the state; one of an earlier version, without a chain, is replayed in full. Where
kept heads do not vouch for it, nothing is resumed unless whoever asks for it says that they are to be ignored.

Spec: §3.6.8, ruling R35.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from mew_lab.errors import ConfigError, JournalError
from mew_lab.gateway.auth import read_token_file, token_path
from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.keyring import Key
from mew_lab.gateway.shares import UNCOUNTED, journal_bytes
from mew_lab.ledger.calls import Change
from mew_lab.ledger.unknown_calls import UnknownCalls
from mew_lab.log.integrity import check_evidence
from mew_lab.log.journal import Journal
from mew_lab.log.record_ledger import RecordLedger
from mew_lab.log.replay import CAUSED, Replayed, replay
from mew_lab.log.resumption import note_resolution, resume_verified
from mew_lab.protocol.envelope import compact
from mew_lab.space.events import RESUMED, Record
from mew_lab.space.reports import Resolutions

__all__ = ["SERVED", "SETTINGS", "Past", "PastCalls", "folder_of"]

SERVED = "served"  # the note with the port and the settings of a space
# settings of a space that the first line of its journal does not have
SETTINGS = {"hosts", "origins", "limits", "queue_bytes"}


def _ignore(record: Record) -> None: ...


def folder_of(journal: Path) -> Path:
    """The folder that contains `.mew`: the one above the journal, else the working directory."""
    above = (path.parent for path in journal.resolve().parents if path.name == ".mew")
    return next(above, Path.cwd())


class PastCalls:
    """The calls of a journal whose outcome is unknown: `unknown`, each since the time of a record.

    Where its gateway ended, the calls that waited are unknown since the last record before.
    """

    def __init__(self) -> None:
        self.unknown = UnknownCalls()
        self._ledger = RecordLedger(("calls",))
        self._place = 0
        self._now = 0.0

    def observe(self, record: Record) -> None:
        """Takes the next record."""
        if record.event == RESUMED:
            self.end()
        self._place += 1
        self._now = record.now.timestamp()
        self._ledger.observe(record, self._place)
        self._follow(self._ledger.changes)

    def end(self) -> None:
        """Takes the end of the gateway that wrote the records so far."""
        self._follow(self._ledger.ledger.calls.interrupt())

    def _follow(self, changes: Iterable[object]) -> None:
        for change in changes:
            if isinstance(change, Change):
                self.unknown.follow(change, self._now)


class Past:
    """A space that ran before, restored from its journal, to which it then appends.

    `port` is its last port, 0 where it had none; `folder` the one that contains its `.mew`.

    Raises:
        HeadsDiffer: Kept heads do not vouch for the journal.
        JournalError: There is no such journal, another process is writing it, it was changed after it was written, or
            it cannot be replayed.
        ReplayMismatch: A new space would have decided otherwise than the journal records.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        heads: Literal["check", "ignore"] = "check",
        observe: Callable[[Record], None] | None = None,
        meet: Callable[[str, Journal], None] = lambda name, journal: None,
        pass_over: Callable[[int, int, int], None] = lambda records, envelopes, unknown: None,
    ) -> None:
        """Reads the journal.

        Args:
            heads: Whether the heads that were kept elsewhere are to vouch for it.
            observe: Receives the newest records; all of them where the journal is short.
            meet: Receives the name and the journal before that.
            pass_over: Receives before that how many records, messages and unknown messages `observe` does not get.
        """
        self.path = Path(path)
        self.port = 0
        self.remark = ""
        """A sentence on what the kept heads do not show; empty where there is none."""
        self._heads = heads
        self._settings: dict[str, Any] | None = None
        self.resolutions = Resolutions()
        """What participants reported of calls whose outcome was unknown."""
        self.used: dict[str, int] = {}
        """The approximate number of journal bytes that each participant has caused."""
        self._payer = ""
        self._enrolled: dict[str, str] = {}
        self.journal = Journal.resume(self.path)
        try:
            meet(self.journal.space, self.journal)
            self._replayed: Replayed = self._replay(observe or _ignore, pass_over, reads=observe is not None)
            if self._replayed.unwritten:
                self.journal.append(self._replayed.unwritten)
                for record in self._replayed.unwritten:
                    (observe or _ignore)(record)
        except BaseException:
            self.journal.close()
            raise
        carried = self._replayed.carried
        self._enrolled = {**carried.get("enrolled", {}), **self._enrolled}
        self.port = self.port or carried.get("port", 0)
        if self._settings is None:
            self._settings = carried.get("settings", {})
        self.space = self._replayed.space
        self.since = self._replayed.last
        self.connections = self._replayed.connections

    def _replay(
        self, observe: Callable[[Record], None], pass_over: Callable[[int, int, int], None], *, reads: bool
    ) -> Replayed:
        paths = self.journal.paths
        integrity, quick = resume_verified(paths, name=str(self.path), with_heads=self._heads == "check")
        check_evidence(integrity, f"go on with the journal {self.path}", with_heads=self._heads == "check")
        self.remark = integrity.remark
        if quick is None:

            def take(record: Record) -> None:
                self._remember(record)
                observe(record)

            return replay(self.path, observe=take)
        self.used, self._enrolled, self.resolutions = quick.used, quick.enrolled, quick.resolutions
        if SERVED in quick.notes:
            self._take_port(quick.notes[SERVED])
        if reads:
            pass_over(*quick.before)
            for record in quick.recent():
                observe(record)
        return quick.replayed

    def _take_port(self, detail: str) -> None:
        note = json.loads(detail)
        self.port, self._settings = int(note["port"]), note.get("settings", {})

    @property
    def name(self) -> str:
        """The name of the space."""
        return self.space.name

    @property
    def owner(self) -> str:
        """The owner of the space; empty where it had none."""
        return self.space.state.owner

    @property
    def folder(self) -> Path:
        """The folder that contains `.mew`: the one above the journal, else the working directory."""
        return folder_of(self.path)

    def config(self) -> SpaceConfig:
        """The settings of the space apart from its participants, as far as port and journal need them.

        Raises:
            JournalError: The journal records settings that are not valid.
        """
        try:
            return SpaceConfig.model_validate(
                {"name": self.name, "owner": self.owner or None, **(self._settings or {})}
            )
        except (TypeError, ValueError):
            raise JournalError(
                f"Cannot go on with the journal {self.path}: its last note on a port holds settings that are "
                "not valid. Open the space anew from its space.yaml.",
                path=str(self.path),
            ) from None

    def _remember(self, record: Record) -> None:
        note_resolution(self.resolutions, record)
        if record.event not in CAUSED:
            self._payer = "" if record.via in UNCOUNTED or not record.via else record.participant
        if self._payer:
            self.used[self._payer] = self.used.get(self._payer, 0) + journal_bytes((record,))
        if record.event == "enrolled":
            self._enrolled[record.participant] = record.detail
        elif record.event == SERVED:
            self._take_port(record.detail)

    def is_enrolled(self, participant: str, capabilities: Sequence[Mapping[str, Any]]) -> bool:
        """Whether the participant was enrolled with exactly these rights, which it may have lost, and not removed."""
        member = self.space.state.members.get(participant)
        text = compact([dict(pattern) for pattern in capabilities])
        return member is not None and not member.kicked and self._enrolled.get(participant) == text

    def keys(self) -> dict[str, Key]:
        """The tokens that are still valid and whose files exist, readable by this user alone."""
        keys: dict[str, Key] = {}
        for name in self.space.state.members:
            path = token_path(self.folder / ".mew" / "tokens", self.name, name)
            if name in self._replayed.void or not os.path.lexists(path):
                continue
            try:
                keys[name] = Key(read_token_file(path), path)
            except ConfigError:
                continue
        return keys
