"""A model made of rules, so that lessons need no key: `OfflineModel`.

Read in this order: `model` (what it is told and says), `plan` (steps and what came of them), `choosing` (which tool),
`filling` (with which arguments).
"""

from __future__ import annotations

from mew_lab.agent.offline.model import OfflineModel

__all__ = ["OfflineModel"]
