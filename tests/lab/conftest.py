"""Labs for tests: each in a folder of its own, all of them down afterwards."""

from __future__ import annotations

import sys
from pathlib import Path

# tests/ is no package; the helpers stand beside this file.
sys.path.insert(0, str(Path(__file__).parent))

from lab_fixtures import adding, lab, nothing_is_left

__all__ = ["adding", "lab", "nothing_is_left"]
