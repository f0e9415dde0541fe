"""What does a conformance run look like as a table?  One pandas row for each requirement. Knows no check.

pandas is loaded by the first table, not before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mew_lab.conformance.suite import Result

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["to_frame"]


def to_frame(results: Iterable[Result]) -> pd.DataFrame:
    """Columns as the fields of `Result`, in the order of the specification."""
    import pandas as pd

    return pd.DataFrame([tuple(one) for one in results], columns=list(Result._fields), dtype="object")
