"""Labs for tests, as in tests/lab."""

from __future__ import annotations

from ...lab.conftest import adding, lab, nothing_is_left

__all__ = ["adding", "lab", "nothing_is_left"]
