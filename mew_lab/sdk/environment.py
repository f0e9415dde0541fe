"""What of our environment does a program of somebody else's get, and what does `${NAME}` in a setting mean?

Both answers are small on purpose: what is not named is not handed on. It starts nothing and reads no file.

Spec: threat 28, api.md (environment and folder of a bridge).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

__all__ = ["INHERITED", "filled", "inherited", "unset"]

INHERITED = ("PATH", "HOME", "LANG", "TMPDIR", "SYSTEMROOT")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def inherited(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What every program is given: where programs and the home are, the language, the place for scratch files."""
    return {name: environ[name] for name in INHERITED if name in environ}


def filled(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """`text` with each `${NAME}` replaced by that variable, once; one that is not set stays as it stands."""
    return _VARIABLE.sub(lambda found: environ.get(found[1], found[0]), text)


def unset(text: str, environ: Mapping[str, str] = os.environ) -> list[str]:
    """The names of the variables that `text` asks for and that are not set, each once."""
    return list(dict.fromkeys(name for name in _VARIABLE.findall(text) if name not in environ))
