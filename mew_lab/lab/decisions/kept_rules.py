"""Keeps the rules of one person for one space, outside the project: which are tried or adopted, and what became of them.

A file of rules in a project is text that anybody may have written. What a person adopted stands in a file of the user's
own state folder instead, which nobody else may read or write, named by the person, the space and its place. It is read
strictly: a record that is not as it was written gives no rule. A lock beside it lets one process at a time use it.

Spec: §9.4, rulings R27.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

from mew_lab.errors import ConfigError, MewError
from mew_lab.protocol.envelope import compact, read_strict
from mew_lab.protocol.visible import one_line
from mew_lab.rules.conditions import MAX_VALUE
from mew_lab.rules.decided_calls import DecidedCall
from mew_lab.rules.life import Life, State
from mew_lab.rules.rule import ApprovalRule, parse_rule
from mew_lab.transport.files import FileLock, read_small, replace_small

__all__ = ["KeptRule", "Origin", "RuleStore", "StoredRules", "evidence_of"]

FOLDER: Final = "rules"
VERSION: Final = 1
MAX_FILE: Final = 4 * 1024 * 1024  # bytes
MAX_RULES: Final = 200
MAX_EVIDENCE: Final = 200  # approved calls of one rule
MAX_RECENT: Final = 1_000
Origin = Literal["learned", "written", "others"]
"""Where the text of a rule is from: the person's decisions, her own hand, or a file that others may have written."""


@dataclass(slots=True)
class KeptRule:
    """A rule of one person.

    Attributes:
        number: Its number in this space, which no other rule gets.
        life: Its state.
        origin: Where its text is from.
        approved: Approved calls that it rests on: what was approved before reaches no further.
        covered: How many calls it has covered since the process began, whether it acted or not.
    """

    number: int
    rule: ApprovalRule
    life: Life
    origin: Origin = "learned"
    approved: list[DecidedCall] = field(default_factory=list)
    covered: int = 0

    @property
    def name(self) -> str:
        """Such as `rule 3`."""
        return f"rule {self.number}"


class StoredRules(NamedTuple):
    """All kept rules of a person in a space, and the number of the next one."""

    rules: tuple[KeptRule, ...] = ()
    next: int = 1


class RuleStore:
    """The file of one person and one space.

    Args:
        folder: Gives the user's state folder; None where a server of this process is given access to it.
        person: The participant whose rules these are.
        place: Where the space is: its folder, or the address of its gateway.
    """

    def __init__(self, folder: Callable[[], Path | None], *, person: str, place: str, space: str) -> None:
        self._folder = folder
        self._about = {"person": person, "place": place, "space": space}
        key = sha256(compact(self._about).encode("utf-8", "surrogatepass")).hexdigest()
        self._name, self._lock_name = f"{FOLDER}/{key}.json", f"{FOLDER}/{key}.lock"
        self._lock: FileLock | None = None

    @property
    def is_held(self) -> bool:
        """Whether this process may use it."""
        return self._lock is not None and self._lock.is_at_path

    @property
    def exists(self) -> bool:
        """Whether anything is kept."""
        folder = self._folder()
        return folder is not None and (folder / self._name).exists()

    def acquire(self) -> str:
        """Takes the lock; returns the reason why it cannot be had, empty where it is held now."""
        if self.is_held:
            return ""
        folder = self._folder()
        if folder is None:
            return "this user has no folder for it that no server of this lab can reach"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = FileLock(folder, self._lock_name)
        except BlockingIOError:
            holder = FileLock.find_holder(folder, self._lock_name) or "another process"
            return f"the rules of {one_line(self._about['space'], 60)} are in use in {holder}"
        except OSError as fault:
            return f"their lock cannot be taken: {fault.strerror or 'the file cannot be opened'}"
        return ""

    def release(self) -> None:
        """Gives the lock back."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def read(self) -> StoredRules:
        """What is kept; nothing where there is no file.

        Raises:
            ConfigError: The file cannot be read, may have been written by others, or is not as it was written.
        """
        folder = self._folder()
        if folder is None or (not (folder / self._name).is_symlink() and not self.exists):
            return StoredRules()
        path = folder / self._name
        try:
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):
                raise OSError(0, "it is no plain file")
            if os.name == "posix" and (status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o022):
                raise OSError(0, "others may have written it")
            text = read_small(folder, self._name, most=MAX_FILE).decode()
            return _read(read_strict(text, limit=MAX_FILE), self._about)
        except (OSError, UnicodeDecodeError, MewError) as fault:
            why = (fault.strerror if isinstance(fault, OSError) else str(fault)) or "it cannot be read"
            raise ConfigError(
                f"No rule acts: {path} has the rules that you adopted, and {one_line(why, 200)}. Remove that file to "
                "begin without rules",
                path=str(path),
            ) from None

    def write(self, stored: StoredRules) -> None:
        """Keeps all rules, in place of what is kept.

        Raises:
            OSError: It cannot be written, it is more than can be read again, or another process uses it.
        """
        folder = self._folder()
        if folder is None or not self.is_held:
            raise OSError(0, "this process does not hold the rules of this space")
        if len(stored.rules) > MAX_RULES:
            raise OSError(0, f"there are {MAX_RULES} rules that are tried or act already; stop one first")
        data = compact(
            {"version": VERSION, **self._about, "next": stored.next, "rules": [*map(_write, stored.rules)]}
        )
        text = f"{data}\n".encode()
        if len(text) > MAX_FILE:
            raise OSError(0, f"they would be larger than {MAX_FILE // 1024**2} MiB; stop one first")
        replace_small(folder, self._name, text)


def _write(kept: KeptRule) -> dict[str, Any]:
    rule, life = kept.rule, kept.life
    return {
        "number": kept.number,
        "sha256": rule.sha256,
        "text": rule.text,
        "tool_sha256": rule.tool_hash,
        "an_hour": rule.an_hour,
        "days": rule.days,
        "uses": rule.uses,
        "origin": kept.origin,
        "life": {name: getattr(life, name) for name in _LIFE if name != "recent"}
        | {"recent": list(life.recent)},
        "approved": [{"t": one.t, "arguments": one.arguments} for one in kept.approved[-MAX_EVIDENCE:]],
    }


_NUMBERS: Final = ("since", "adopted")
_COUNTS: Final = ("uses", "confirmed", "whole", "agreed", "disagreed")
_LIFE: Final = ("owner", "state", "why", "recent", *_NUMBERS, *_COUNTS)


def _read(found: Mapping[str, Any], about: Mapping[str, str]) -> StoredRules:
    _require(found.get("version") == VERSION, "it is of another version")
    _require({name: found.get(name) for name in about} == about, "it is about another person or space")
    rules, following = found.get("rules"), found.get("next", 0)
    _require(isinstance(rules, list) and len(rules) <= MAX_RULES, "it has no list of rules")
    kept = tuple(_read_rule(one, about["person"]) for one in rules or ())
    numbers = [one.number for one in kept]
    _require(
        _is_count(following) and len({*numbers}) == len(numbers), "its numbers are not as they were written"
    )
    _require(all(number < following for number in numbers), "its numbers are not as they were written")
    return StoredRules(kept, int(following))


def _read_rule(one: Any, person: str) -> KeptRule:
    _require(isinstance(one, dict), "an entry is no rule")
    limits = {name: one.get(name) for name in ("an_hour", "days", "uses")}
    text, tool = one.get("text"), one.get("tool_sha256")
    _require(
        isinstance(text, str) and isinstance(tool, str) and _is_count(one.get("number")),
        "an entry is no rule",
    )
    _require(one.get("origin") in get_args(Origin), "an entry does not say where it is from")
    rule = parse_rule(text, tool_hash=tool, **limits)
    _require(rule.sha256 == one.get("sha256"), "a rule is not the one that was adopted")
    approved = one.get("approved")
    _require(isinstance(approved, list) and len(approved) <= MAX_EVIDENCE, "what a rule rests on is missing")
    calls = [_read_call(call, rule, person) for call in approved or ()]
    return KeptRule(one["number"], rule, _read_life(one.get("life"), person), one["origin"], calls)


def _read_call(call: Any, rule: ApprovalRule, person: str) -> DecidedCall:
    _require(
        isinstance(call, dict) and isinstance(call.get("arguments"), dict) and _is_time(call.get("t")),
        "what a rule rests on is not as it was written",
    )
    return evidence_of(rule, call["arguments"], t=float(call["t"]), by=person)


def evidence_of(rule: ApprovalRule, arguments: Mapping[str, Any], *, t: float, by: str) -> DecidedCall:
    """An approved call that a rule rests on. Of a value only what tells a place is kept: of a long text nothing."""
    arguments = {name: value if len(compact(value)) <= MAX_VALUE else "" for name, value in arguments.items()}
    return DecidedCall(
        seq=0,
        t=t,
        proposer=rule.proposer,
        target=rule.target,
        tool=rule.tool,
        tool_hash=rule.tool_hash,
        proposed=arguments,
        sent=arguments,
        verdict="approved",
        by=by,
    )


def _read_life(life: Any, person: str) -> Life:
    fault = "the state of a rule is not as it was written"
    _require(isinstance(life, dict) and life.keys() == {*_LIFE} and life["owner"] == person, fault)
    recent: Sequence[Any] = life["recent"] if isinstance(life["recent"], list) else [None]
    _require(life["state"] in get_args(State) and isinstance(life["why"], str), fault)
    _require(all(map(_is_time, recent)) and len(recent) <= MAX_RECENT and _is_time(life["since"]), fault)
    _require(life["adopted"] is None or _is_time(life["adopted"]), fault)
    _require(all(_is_count(life[name]) for name in _COUNTS), fault)
    # What was adopted has a time of that, so that it ends.
    _require(life["adopted"] is not None or life["state"] in ("candidate", "shadow"), fault)
    return Life(**{**life, "recent": tuple(map(float, recent))})


def _require(holds: bool, why: str) -> None:
    if not holds:
        raise ConfigError(why)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 10**9


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and 0 <= value < 10**12
