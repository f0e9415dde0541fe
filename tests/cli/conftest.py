"""Labs for tests, as in tests/lab."""

from __future__ import annotations

import sys
from pathlib import Path

# tests/ is no package; what several folders share stands in tests/lab.
sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))

from lab_fixtures import adding, lab, nothing_is_left

__all__ = ["adding", "lab", "nothing_is_left"]
