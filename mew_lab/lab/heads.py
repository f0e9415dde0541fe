"""Writes the heads of a journal's hash chain beside the tokens: each minute, and when the space ends.

A journal proves by itself that no record within it was changed. Only a head that was kept elsewhere proves that its end
is complete and that it was not rewritten. The file is readable by its owner alone and only grows.

Runs on the loop; log/kept_heads.py reads the file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from mew_lab.log.journal import Journal
from mew_lab.log.kept_heads import KeptHead, heads_path, keep_head

__all__ = ["EVERY", "HeadKeeper"]

EVERY = 60.0  # seconds


class HeadKeeper:
    """Appends the head of one journal to its file of heads, while it grows.

    Args:
        folder: The folder that contains `.mew`.
        fault: Receives one sentence when the file cannot be written; this has no other effect.
    """

    def __init__(
        self,
        journal: Journal,
        folder: Path,
        *,
        every: float = EVERY,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        fault: Callable[[str], object],
    ) -> None:
        self._journal = journal
        self._folder = folder
        self._every = every
        self._clock = clock
        self._fault = fault
        self._written = b""
        self._failed = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Writes the present head, then one each minute."""
        self.keep()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Writes the last head. To be called before the journal is closed."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
            self.keep()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            self.keep()

    def keep(self) -> None:
        """Appends the head, unless it was written already."""
        head, epoch = self._journal.head, self._journal.epoch
        if head.chain == self._written or epoch is None:
            return
        try:
            keep_head(
                heads_path(self._folder, self._journal.space),
                epoch,
                KeptHead(self._clock(), head.seq, head.chain.decode()),
                self._journal.paths[0],
            )
            self._written = head.chain
        except OSError as fault:
            if not self._failed:
                self._failed = True
                self._fault(
                    f"the head of the journal is not kept beside the tokens: {fault.strerror or fault}"
                )
