"""Maps the names of tools to names that an API of models takes, and back; pure.

An API of models takes `[a-zA-Z0-9_-]`, at most 64 of them; a tool is `participant/tool`. `Names` maps any set of
names one to one. It knows no tool and no model.

Spec: SDK "Tool Preparation and Namespacing".
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType

__all__ = ["Names"]

LONGEST = 64
_HASHED = 8  # characters of the hash that tells apart what reads the same
_FITS = re.compile(rf"[a-zA-Z0-9_-]{{1,{LONGEST}}}")
_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")
# Its first underscore was the slash, so two of these never read the same.
_PLAIN = re.compile(r"[a-zA-Z0-9-]+/[a-zA-Z0-9_-]+")


class Names:
    """Both directions for one set of names: `wire[name]` and `name[wire]`. Distinct in, distinct out.

    A slash becomes an underscore, as the specification shows it. A name gets a short hash at its end if it is
    too long, if it has characters that an API does not take, or if it reads like another one. The order of the
    names does not matter; a name whose participant has no underscore keeps its form whichever others are added.
    """

    def __init__(self, names: Iterable[str]) -> None:
        wire: dict[str, str] = {}
        taken: set[str] = set()
        # Those that keep their form come first: nobody may choose a name that takes it from them.
        distinct = sorted(set(names), key=lambda name: (_keeps(name) is None, name))
        alike = Counter(_readable(name) for name in distinct)
        for name in distinct:
            form = _keeps(name) or _form(name, alone=alike[_readable(name)] == 1, taken=taken)
            wire[name] = form
            taken.add(form)
        self.wire: Mapping[str, str] = MappingProxyType(wire)
        self.name: Mapping[str, str] = MappingProxyType({form: name for name, form in wire.items()})


def _readable(name: str) -> str:
    return name.replace("/", "_")


def _keeps(name: str) -> str | None:
    form = _readable(name)
    return form if len(form) <= LONGEST and _PLAIN.fullmatch(name) else None


def _form(name: str, *, alone: bool, taken: set[str]) -> str:
    form = _readable(name)
    if alone and _FITS.fullmatch(form) and form not in taken:
        return form
    stem = _FOREIGN.sub("_", form)[: LONGEST - _HASHED - 1] or "tool"
    for salt in itertools.count():
        text = f"{salt}:{name}" if salt else name
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASHED]
        if (form := f"{stem}-{digest}") not in taken:
            return form
    raise AssertionError("hashes never run out")
