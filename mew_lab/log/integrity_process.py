"""Verifies the chain of a large journal in a process of its own, while its caller replays the journal.

A short journal is verified by the caller: a process would begin later than that ends. So is one whose process failed or
has found a flaw.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from mew_lab.log.child_process import begin_module, end_with_parent
from mew_lab.log.integrity import Integrity, verify_chain, verify_with
from mew_lab.log.reading import list_files

__all__ = ["IntegrityProcess", "main"]

WITHOUT: Final = "without-heads"
LARGE: Final = 32 * 1024 * 1024  # bytes of a journal that are worth a process


class IntegrityProcess:
    """The verification of a journal, with the heads that were kept beside its tokens.

    It begins with the object, and ends at the end of the `with` block at the latest.

    Args:
        first: The first file of the journal.
        with_heads: Whether the kept heads are to be in the chain.
        large: The number of bytes from which on it runs in a process.
    """

    def __init__(self, first: Path, *, with_heads: bool = True, large: int = LARGE) -> None:
        self._first = first
        self._with_heads = with_heads
        self._process = None
        if sum(path.stat().st_size for path in list_files(first)) >= large:
            with suppress(OSError):  # `wait` verifies then
                self._process = begin_module(
                    __name__, str(first.absolute()), *([] if with_heads else [WITHOUT])
                )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.stop()
            with self._process:  # closes its pipes, and waits
                pass

    @property
    def runs_beside(self) -> bool:
        """Whether it runs, or ran, in a process."""
        return self._process is not None

    def stop(self) -> None:
        """Ends the process; `wait` verifies then."""
        if self._process is not None:
            self._process.kill()

    def wait(self) -> Integrity:
        """Waits for the result.

        Raises:
            JournalError: when there is no mew_lab journal.
        """
        if self._process is not None and self._process.stdout is not None:
            told = self._process.stdout.read()
            if self._process.wait() == 0:
                members = json.loads(told)
                latest, doubts = members.pop("latest"), members.pop("doubts")
                return Integrity(
                    self._first,
                    latest=datetime.fromisoformat(latest) if latest else None,
                    flaw=None,
                    doubts=tuple(doubts),
                    **members,
                )
        return verify_with(self._first) if self._with_heads else verify_chain(self._first)


def main(argv: Sequence[str]) -> int:
    """Prints the result for the journal that begins with this file; returns 1 where it has a flaw, which is not told."""
    end_with_parent()
    first = Path(argv[0])
    integrity = verify_chain(first) if WITHOUT in argv[1:] else verify_with(first)
    members = integrity._asdict()
    del members["path"], members["flaw"]
    print(json.dumps({**members, "latest": integrity.latest.isoformat() if integrity.latest else None}))
    return 0 if integrity.flaw is None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
