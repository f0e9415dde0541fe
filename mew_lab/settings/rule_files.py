"""Reads `mew-rules.yaml`: the texts of candidates of rules, beside a space.yaml. Nothing in it acts or is state.

    rules:
      - When coder asks files to run read_file with path below docs/, and nothing else: approve
      - rule: "When coder asks files to run list_files with nothing: approve"
        tool: 5f1c…            # the SHA-256 of the entry of the tool, where it is known
        an_hour: 10            # limits, each at most that of a rule without them
        days: 7
        uses: 50

A file may come from others, so any key that is not one of these is a fault, and so are anchors and aliases: what a rule
permits stands in its own lines. The sentences themselves are read by `rules.rule`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from mew_lab.settings.documents import has_aliases, read_document, read_file
from mew_lab.settings.faults import Fault, did_you_mean, faults_error, kind_of, place

__all__ = ["RULE_FILE", "RuleEntry", "read_rule_file"]

RULE_FILE: Final = "mew-rules.yaml"
MAX_FILE: Final = 256 * 1024  # bytes
MAX_RULES: Final = 200
_LIMITS: Final = ("an_hour", "days", "uses")
_KEYS: Final = ("rule", "tool", *_LIMITS)


class RuleEntry(NamedTuple):
    """One entry of the file: its key path, its sentence, the SHA-256 of its tool, and the limits that it states."""

    key: str
    text: str
    tool: str
    limits: Mapping[str, int]


def read_rule_file(path: str | Path) -> tuple[RuleEntry, ...]:
    """The entries of a file of rules, in its order.

    Raises:
        ConfigError: It cannot be read, or has faults, each with its key path.
    """
    source = str(path)
    text = read_file(path, what="file of rules", limit=MAX_FILE)
    document = read_document(text, path=source)
    faults: list[Fault] = []
    if has_aliases(text):
        faults.append(Fault("", "anchors and aliases are not read here; write each rule out"))
    elif not isinstance(document, Mapping):
        faults.append(Fault("", f"a file of rules is a mapping with the key rules, not {kind_of(document)}"))
    else:
        faults += [
            Fault(
                str(key),
                f"there is no such key here; {did_you_mean(str(key), ['rules']) or 'known is rules'}",
            )
            for key in document
            if key != "rules"
        ]
        if "rules" not in document:
            faults.append(Fault("", "the key rules is missing"))
    entries = [] if faults else _entries(document["rules"], faults)  # type: ignore[index]
    if faults:
        raise faults_error(faults, source)
    return tuple(entries)


def _entries(listed: object, faults: list[Fault]) -> list[RuleEntry]:
    if not isinstance(listed, list):
        faults.append(Fault("rules", f"it must be a list, not {kind_of(listed)}"))
        return []
    if len(listed) > MAX_RULES:
        faults.append(Fault("rules", f"it has {len(listed)} entries; {MAX_RULES} are read"))
        return []
    read = (_entry(value, place("rules", n), faults) for n, value in enumerate(listed))
    return [entry for entry in read if entry is not None]


def _entry(value: object, key: str, faults: list[Fault]) -> RuleEntry | None:
    if isinstance(value, str):
        return RuleEntry(key, value, "", {})
    if not isinstance(value, Mapping):
        faults.append(Fault(key, f"a rule is a sentence, not {kind_of(value)}"))
        return None
    # YAML reads a sentence without quotes that ends with `: approve` as a mapping.
    [first, *others] = [*value] or [""]
    if not others and value.get(first) == "approve" and str(first).startswith("When "):
        return RuleEntry(key, f"{first}: approve", "", {})
    before = len(faults)
    for name, given in value.items():
        if name not in _KEYS:
            hint = did_you_mean(str(name), _KEYS) or f"known are {', '.join(_KEYS)}"
            faults.append(Fault(place(key, str(name)), f"there is no such key here; {hint}"))
        elif name in _LIMITS and type(given) is not int:
            faults.append(Fault(place(key, name), f"it must be a whole number, not {kind_of(given)}"))
        elif name not in _LIMITS and not isinstance(given, str):
            faults.append(Fault(place(key, name), f"it must be text, not {kind_of(given)}"))
    if "rule" not in value:
        faults.append(Fault(key, "'rule' is missing; it is the sentence"))
    if len(faults) > before:
        return None
    limits = {name: value[name] for name in _LIMITS if name in value}
    return RuleEntry(key, value["rule"], value.get("tool", ""), limits)
