"""How does jsonschema come in without a second's wait?  Its check of the format `iri` is loaded with its first use.

Where the package rfc3987_syntax is installed, as in every environment of Jupyter, jsonschema imports it, and that
compiles some forty grammars: more than a second in which the loop of a space stands still, at the first tool, for a
format that hardly a schema names. Here jsonschema finds a stand-in for the time of its own import; the first value that
is checked against such a format brings the real one. It knows no schema.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType

__all__ = ["jsonschema"]

_SLOW = "rfc3987_syntax"


def _is_valid_syntax(*given: str) -> bool:
    from rfc3987_syntax import is_valid_syntax

    return bool(is_valid_syntax(*given))


@contextlib.contextmanager
def _stand_in() -> Iterator[None]:
    """Nothing is put in place of what is loaded already, or is not there to be loaded."""
    if _SLOW in sys.modules or "jsonschema" in sys.modules or importlib.util.find_spec(_SLOW) is None:
        yield
        return
    module = ModuleType(_SLOW)
    module.__dict__["is_valid_syntax"] = _is_valid_syntax
    sys.modules[_SLOW] = module
    try:
        yield
    finally:
        if sys.modules.get(_SLOW) is module:
            del sys.modules[_SLOW]


with _stand_in():
    import jsonschema
