"""Runs the command `mew-lab` as `python -m mew_lab.cli`."""

from __future__ import annotations

import sys

from mew_lab.cli import main

__all__: list[str] = []

sys.exit(main())
