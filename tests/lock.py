"""How is a lock file read?  Pins with their hashes and markers; and what a set of requirements needs, transitively."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version


class Pin(NamedTuple):
    """One line of a lock file, with the lines of its hashes."""

    name: str
    requirement: Requirement
    hashes: tuple[str, ...]

    @property
    def version(self) -> Version:
        return Version(str(self.requirement.specifier).removeprefix("=="))

    def holds(self, environment: Mapping[str, str]) -> bool:
        """Whether it is installed there."""
        marker = self.requirement.marker
        return marker is None or marker.evaluate({**environment})


def read(path: Path, *, hashed: bool = True) -> list[Pin]:
    """The pins of a lock file, in its order; a line of another form is an error, one without hashes where it has some."""
    pins = []
    count = "+" if hashed else "{0}"
    for line in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        found = re.fullmatch(
            rf"(?P<what>[^\s;]+==[\w.+!]+(?: ; .*?)?)(?P<hashes>(?:\s+--hash=sha256:[0-9a-f]{{64}}){count})\s*",
            line,
        )
        assert found is not None, f"{path.name}: neither pinned nor hashed: {line[:80]}"
        requirement = Requirement(found["what"])
        hashes = tuple(re.findall(r"sha256:([0-9a-f]{64})", found["hashes"]))
        pins.append(Pin(canonicalize_name(requirement.name), requirement, hashes))
    return pins


def versions(pins: Iterable[Pin], environment: Mapping[str, str]) -> dict[str, Version]:
    """What is installed there; no package twice."""
    mine = [pin for pin in pins if pin.holds({**default_environment(), **environment})]
    assert len({pin.name for pin in mine}) == len(mine)
    return {pin.name: pin.version for pin in mine}


def write_out(roots: Iterable[Requirement], own: Mapping[str, Iterable[str]]) -> list[Requirement]:
    """The requirements, with the extras of the project itself replaced by what stands in them."""
    found: list[Requirement] = []
    left = [*roots]
    while left:
        one = left.pop()
        if canonicalize_name(one.name) == "mew-lab":
            left += [Requirement(text) for name in one.extras for text in own[name]]
        else:
            found.append(one)
    return found


def closure(
    roots: Iterable[Requirement],
    requires: Callable[[str], Iterable[str]],
    *,
    own: Mapping[str, Iterable[str]],
    environment: Mapping[str, str] | None = None,
) -> set[str]:
    """The names of all packages that the roots need, themselves among them.

    Args:
        roots: what is asked for.
        requires: what a package needs, by its name, as its metadata says it.
        own: the extras of the project itself, which a root may name.
        environment: where, for the markers; what it does not say is as here.
    """
    needed: set[str] = set()
    seen: set[tuple[str, str]] = set()
    left = [(root, extra) for root in roots for extra in ("", *root.extras)]
    while left:
        requirement, extra = left.pop()
        name = canonicalize_name(requirement.name)
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        if name == "mew-lab":
            told: Iterable[str] = own.get(extra, ())
        else:
            needed.add(name)
            told = requires(name)
        for one in map(Requirement, told):
            if one.marker is None or one.marker.evaluate({**(environment or {}), "extra": extra}):
                left += [(one, more) for more in ("", *one.extras)]
    return needed
