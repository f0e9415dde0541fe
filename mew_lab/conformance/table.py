"""Shows a conformance run as a pandas table: one row for each requirement.

pandas is loaded with the first table.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from mew_lab.conformance.profile import Profile
from mew_lab.conformance.report import by_group
from mew_lab.conformance.suite import Result, play

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["arun", "by_level", "run", "to_frame"]


def run(
    url: str,
    *,
    tokens: Profile | Path | str,
    only: Iterable[str] = (),
    timeout: float = 5.0,
    progress: Callable[[str], object] | None = None,
) -> pd.DataFrame:
    """The conformance table of the gateway at `url`: one row per requirement, columns as the fields of `Result`.

    Where an event loop runs, as in a notebook, another thread does the work and this one waits, so the gateway must
    run elsewhere. In a coroutine that shares its loop with the gateway, `await arun(…)`.

    Args:
        tokens: a profile, or the file that holds one; `mew-lab conform --write-space` makes it.
        only: ids or globs of ids; empty means all.
        timeout: seconds for each answer of the gateway.
        progress: called with one line for each check.

    Raises:
        ConfigError: the URL, the tokens file or `only` cannot be used.
        ConnectionLost: no gateway answers at `url`, or the admin of the profile is not admitted.
    """

    def work() -> pd.DataFrame:
        return asyncio.run(arun(url, tokens=tokens, only=only, timeout=timeout, progress=progress))

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


async def arun(
    url: str,
    *,
    tokens: Profile | Path | str,
    only: Iterable[str] = (),
    timeout: float = 5.0,
    progress: Callable[[str], object] | None = None,
) -> pd.DataFrame:
    """Like `run`, on a running event loop."""
    return to_frame(await play(url, tokens=tokens, only=only, timeout=timeout, progress=progress))


def to_frame(results: Iterable[Result]) -> pd.DataFrame:
    """Columns as the fields of `Result`, in the order of the specification."""
    import pandas as pd

    return pd.DataFrame([tuple(result) for result in results], columns=list(Result._fields), dtype="object")


def by_level(table: pd.DataFrame) -> pd.DataFrame:
    """The summary of a conformance table: a row for MUST, SHOULD, MAY and ruling, a column for each result."""
    import pandas as pd

    counts = by_group(Result(*row) for row in table.itertuples(index=False, name=None))
    return pd.DataFrame.from_dict(counts, orient="index").rename_axis("level")
