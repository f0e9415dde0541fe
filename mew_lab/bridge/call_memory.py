"""Keeps on disk which calls wait, and which outcomes did not reach their client, for a gate that starts after a crash.

How it works
------------
Two kinds of files, so that the bulk of the outcomes cannot cost what safety needs:

- the *index*, one line a call: its id, its key, and whether it waits, has ended, or is unknown. It is small and bounded,
  so it can always be read again. It is replaced as a whole at each change, before the change has an effect;
- the *outcomes*, one file a call, bounded each and in all. A thread writes them, and marks the call as ended in the
  index only once its outcome is on the disk. The oldest ones are removed first, and the index still says that these
  calls have ended.

Whether a remembered call that was waiting has been decided is not known. So the gate withdraws it, says so to the next
request for it, and keeps it as unknown for a day. It is never sent again on its own.

A gate holds the place of its memory by a lock. Where another process holds it, as one that was stopped and not ended, a
gate takes the next place. It reads what was left in all places of its name, puts that into its own, and tells the
process that holds another one, which keeps nothing of it any more: the gateway has given the seat to the later gate.

A file that cannot be read or written costs this memory and nothing else. A line of the index that is damaged is looked
through for the call that it held, and what was lost is told in the log. No link on the way to a file is followed.

Spec: §3.3.1, rulings R18, R35, threat 27.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple, get_args

from mew_lab.errors import ProtocolError
from mew_lab.ledger.unknown_calls import DAY
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.text import cut
from mew_lab.protocol.visible import one_line
from mew_lab.transport.files import FileLock, list_names, read_small, remove, replace_small
from mew_lab.transport.folder import KEPT

__all__ = ["CallMemory", "RememberedCall"]

logger = logging.getLogger(__name__)
MAX_PLACES = 8  # gates of one name that have not ended
MAX_CALLS = 400  # in the index; unknown ones, then ended ones, then waiting ones are left out first
MAX_ID = 256  # characters, as R6 has it, and of a key
MAX_WHAT = 300  # characters
MAX_LINE = 12 * (2 * MAX_ID + MAX_WHAT) + 256  # bytes: ASCII JSON has at most 12 for a character
MAX_FILE = MAX_CALLS * MAX_LINE  # bytes of the index, so none that was written is longer
MAX_OUTCOME = 256 * 1024  # bytes of JSON; a larger one is not kept
MAX_OUTCOMES = 16 * 1024 * 1024  # bytes of all of them
MAX_NAMED = 20  # lost calls that one line of the log names

State = Literal["waits", "ended", "unknown"]
_LEFT_OUT_FIRST: tuple[State, ...] = ("unknown", "ended", "waits")
# What is left of a damaged line; the writer has the members in this order.
_LEFT = re.compile(
    r'"key":"([0-9a-f]{64})","id":"([^"\\\x00-\x1f]{1,256})"(?:,"what":"([^"\\\x00-\x1f]{1,300})")?'
)


class RememberedCall(NamedTuple):
    """One call: its `key`, the `id` of its proposal or request, and its name `what`.

    `result` and `refusal` are its outcome, both empty while it waits. `is_tool` if it is a tool call. `at` is the time
    of its last change, in seconds of the epoch.
    """

    key: str
    id: str
    what: str
    is_tool: bool
    result: Any = None
    refusal: str = ""
    at: float = 0.0

    @property
    def waits(self) -> bool:
        """Whether it had not ended."""
        return self.result is None and not self.refusal


class _Entry(NamedTuple):
    """One line of the index."""

    key: str
    id: str
    what: str
    is_tool: bool
    at: float
    state: State

    @property
    def call(self) -> RememberedCall:
        return RememberedCall(self.key, self.id, self.what, self.is_tool, at=self.at)


class CallMemory:
    """The files of one gate: `path` is the index, in a folder of its own, which is made where it is missing.

    The outcomes lie beside it, in a folder with its name and `.outcomes`.
    """

    def __init__(self, path: Path) -> None:
        parts = path.absolute().parts
        # From `.mew` on, no folder may be a link; without one, this holds for the folder of the file.
        at = parts.index(KEPT) if KEPT in parts[:-1] else max(len(parts) - 2, 1)
        self.path = path
        self._root, name = Path(*parts[:at]), PurePosixPath(*parts[at:])
        more = (str(name.with_name(f"{name.stem}.{n}{name.suffix}")) for n in range(2, MAX_PLACES + 1))
        self._places = (str(name), *more)
        self._name = self._places[0]  # of the index; empty while others hold all places
        self._held: FileLock | None = None
        self._entries: dict[str, _Entry] = {}  # by id, the oldest change first
        self._lines: dict[str, bytes] = {}
        self._sizes: dict[str, int] = {}  # of the outcomes on the disk, the oldest first
        # Of the entries, their lines, the index and the place. The sizes are the affair of the thread of the outcomes.
        self._lock = threading.Lock()
        # starts with its first outcome
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="call-memory")
        self._unknown: set[str] = set()  # ids of calls of which it is not known whether they took effect
        self._told: set[str] = set()
        self._is_closed = False

    # --- its place ---

    def find_holder(self) -> str:
        """Another process that holds the place of such a memory, such as `process 712`; empty where none does."""
        held = self._held
        for name in self._places:
            is_own = held is not None and name == self._name
            if not is_own and (holder := FileLock.find_holder(self._root, _lock_of(name))):
                return holder
        return ""

    def _hold(self) -> None:
        """Holds a place, where it does not already: the first that no other process holds. None once it is closed."""
        if self._is_closed:
            return
        held, was_taken = self._held, False
        if held is not None:
            was_taken = held.was_taken
            if held.is_at_path and not was_taken:
                return
            held.release()
        self._held = None
        if was_taken:
            self._tell_once(
                "%s: a later gate of this name has taken over the calls that were kept there",
                self._root / self._name,
            )
            self._entries.clear()
            self._lines.clear()
        why = ""
        for name in self._places:
            if was_taken and self._is_there(name):
                continue  # the later gate may have been killed before it had read that
            if (self._root / name).is_dir():
                why = "a folder is in its place"
                continue
            try:
                self._held = FileLock(self._root, _lock_of(name))
            except BlockingIOError:
                continue
            except OSError as fault:
                why = str(fault.strerror or fault)
                continue
            self._name = name
            return
        self._name = self._places[0] if why else ""
        if why:
            self._tell_once(
                "%s cannot be locked, so another gate of this name could overwrite it: %s",
                self._root / self._name,
                why,
            )
            return
        self._tell_once(
            "%s other gates of this name have not ended, so waiting calls do not outlive this process; end those",
            MAX_PLACES,
        )

    def _is_there(self, name: str) -> bool:
        return os.path.lexists(self._root / name)  # a link to nowhere is told, too

    def _tell_once(self, text: str, *about: object) -> None:
        if text not in self._told:
            self._told.add(text)
            logger.warning(text, *about)

    # --- reading ---

    def load(self, *, max_age: float) -> list[RememberedCall]:
        """The calls that were remembered: those that wait, and outcomes of the last `max_age` seconds.

        Empty where there is no index. What cannot be read is told in the log, with the calls that it held as far as
        they can be made out; these are among those that wait. To be called while the gate has its seat: what other
        gates of its name left is taken over.
        """
        with self._lock:
            self._hold()
            others = [name for name in self._places if name != self._name and self._is_there(name)]
            calls = self._read(self._name, max_age) if self._name else {}
            self._entries = {id: entry for id, (entry, _) in calls.items()}
            self._lines = {id: _line_of(entry) for id, entry in self._entries.items()}
            self._remove_strangers()
            for name in others:
                calls = self._take_over(name, max_age) | calls
            self._unknown = {entry.id for entry in self._entries.values() if entry.state == "waits"}
        return [call for _, call in calls.values() if call is not None]

    def _take_over(self, name: str, max_age: float) -> dict[str, tuple[_Entry, RememberedCall | None]]:
        """The calls in another place, which are in this one when it returns, and not there any more."""
        lock = _lock_of(name)
        holder = FileLock.find_holder(self._root, lock)
        if holder and self._name:
            self._tell_once(
                "%s keeps the calls of this gate in %s and has not ended, though the gateway has given its seat to this "
                "gate. Its calls are taken over: those that wait are withdrawn. End it",
                holder,
                self._root / name,
            )
            try:
                FileLock.take(self._root, lock)
            except OSError as fault:
                self._tell_lost(name, [], str(fault.strerror or fault))
                return {}
        taken = self._read(name, max_age)
        new = {id: pair for id, pair in taken.items() if id not in self._entries}
        self._entries |= {id: entry for id, (entry, _) in new.items()}
        self._lines |= {id: _line_of(entry) for id, (entry, _) in new.items()}
        self._leave_out()
        if not self._write():
            return new
        for entry, call in new.values():
            if entry.state == "ended" and call is not None:
                self._write_outcome(call)
        with suppress(OSError):
            remove(self._root, name)
            if not holder and self._is_there(lock):
                remove(self._root, lock)
            if self._is_there(f"{name}.outcomes"):
                for outcome in list_names(self._root, f"{name}.outcomes", most=10 * MAX_CALLS):
                    remove(self._root, f"{name}.outcomes/{outcome}")
                (self._root / f"{name}.outcomes").rmdir()
        return new

    def _read(self, name: str, max_age: float) -> dict[str, tuple[_Entry, RememberedCall | None]]:
        """The calls in a place by id: the entry of each, and what is known of it where a client may ask for it."""
        try:
            data = read_small(self._root, name, most=MAX_FILE + 1, end=True)
        except FileNotFoundError:
            return {}
        except OSError as fault:
            self._tell_lost(name, [], str(fault.strerror or fault))
            return {}
        now = time.time()
        entries, damaged = _read_index(data.decode(errors="replace"))
        if damaged or len(data) > MAX_FILE:
            why = "it is damaged" if len(data) <= MAX_FILE else f"it has more than {MAX_FILE} bytes"
            self._tell_lost(name, [entry for entry in entries if entry.id in damaged], why)
        recent = [
            entry
            for entry in entries
            if entry.state == "waits" or now - entry.at < (DAY if entry.state == "unknown" else max_age)
        ]
        calls: dict[str, tuple[_Entry, RememberedCall | None]] = {}
        for entry in recent:
            call = self._read_outcome(name, entry) if entry.state == "ended" else entry.call
            calls[entry.id] = entry, None if entry.state == "unknown" else call
        return calls

    def _tell_lost(self, name: str, calls: list[_Entry], why: str) -> None:
        names = [one_line(f"{entry.what} ({entry.id})", MAX_WHAT + MAX_ID) for entry in calls[:MAX_NAMED]]
        more = f" and {len(calls) - MAX_NAMED} more" if len(calls) > MAX_NAMED else ""
        held = (
            f"It held {', '.join(names)}{more}: whether these were executed is not known"
            if names
            else "Which calls waited in it is not known, so none of them is withdrawn; look at the open proposals"
        )
        logger.warning("%s cannot be read as the memory of a gate: %s. %s", self._root / name, why, held)

    def _read_outcome(self, name: str, entry: _Entry) -> RememberedCall:
        not_kept = f"{entry.what} has ended, but its outcome was not kept after the gate had ended"
        try:
            data = read_small(self._root, _outcome_of(name, entry.id), most=2 * MAX_OUTCOME)
            outcome = json.loads(data)
            compact(outcome)  # what cannot be written can neither be sent
            result, refusal = outcome["result"], outcome["refusal"]
            if not isinstance(refusal, str) or (result is None and not refusal):
                raise ValueError("it is no outcome")
        except (OSError, ValueError, TypeError, KeyError, RecursionError, ProtocolError):
            return entry.call._replace(refusal=not_kept)
        if name == self._name:
            self._sizes[entry.id] = len(data)
        return entry.call._replace(result=result, refusal=refusal)

    def _remove_strangers(self) -> None:
        """Removes outcomes of calls that the index does not have."""
        if not self._name:
            return
        known = {_outcome_of(self._name, id) for id in self._sizes}
        folder = f"{self._name}.outcomes"
        with suppress(OSError):
            for name in list_names(self._root, folder, most=10 * MAX_CALLS):
                if f"{folder}/{name}" not in known:
                    with suppress(OSError):
                        remove(self._root, f"{folder}/{name}")

    # --- writing ---

    def put(self, call: RememberedCall) -> None:
        """Remembers a call, or its outcome. That a call waits is on the disk when this returns, an outcome later.

        What is said of a call of unknown outcome is no outcome of it, and is not kept.
        """
        known = self._entries.get(call.id)
        if call.id in self._unknown or (known is not None and known.state == "unknown"):
            return
        if call.waits or known is None:
            what = one_line(call.what, MAX_WHAT)
            self._set(_Entry(call.key, call.id, what, call.is_tool, time.time(), "waits"))
        if not call.waits:
            self._submit(self._put_outcome, call)

    def note_unknown(self, id: str) -> None:
        """Notes that the outcome of a call is not known: a later process takes it as one that waited."""
        self._unknown.add(id)

    def find_unknown(self, key: str) -> RememberedCall | None:
        """A call with this key whose outcome is not known; None where there is none.

        It counts for a day after its client was told so.
        """
        now = time.time()
        with self._lock:
            for entry in self._entries.values():
                is_unknown = entry.state == "unknown" or entry.id in self._unknown
                if entry.key == key and is_unknown and now - entry.at < DAY:
                    return entry.call
        return None

    def settle(self, id: str) -> None:
        """Notes that the outcome of a call of unknown outcome is known now. One that was not dropped may be put."""
        self._unknown.discard(id)
        with self._lock:
            self._hold()
            entry = self._entries.get(id)
            if entry is not None and entry.state == "unknown":
                del self._entries[id], self._lines[id]
                self._write()

    def drop(self, id: str) -> None:
        """Forgets a call, because its outcome was delivered; of an unknown one it stays known that it is."""
        is_unknown = id in self._unknown
        self._unknown.discard(id)  # the entry says it from now on
        with self._lock:
            self._hold()
            entry = self._entries.get(id)
            if entry is None or entry.state == "unknown":
                return
            del self._entries[id], self._lines[id]
            if not is_unknown:
                self._write()
        if is_unknown:
            self._set(entry._replace(state="unknown", at=time.time()))
        else:
            self._submit(self._remove_outcome, id)

    def close(self) -> None:
        """Waits until the outcomes are on the disk, and gives the place back. Nothing is written after that: the place
        may be another gate's by then."""
        self._worker.shutdown()
        with self._lock:
            self._is_closed, self._name = True, ""
            if self._held is not None:
                self._held.release()
                self._held = None

    def _submit(self, work: Any, about: Any) -> None:
        try:
            self._worker.submit(work, about)
        except RuntimeError:  # it was closed
            work(about)

    def _set(self, entry: _Entry) -> None:
        with self._lock:
            self._hold()
            self._entries.pop(entry.id, None)
            self._entries[entry.id] = entry
            self._lines[entry.id] = _line_of(entry)
            self._leave_out()
            self._write()

    def _leave_out(self) -> None:
        """Keeps the index in its bounds."""
        while len(self._entries) > MAX_CALLS:
            id = min(self._entries, key=lambda id: _LEFT_OUT_FIRST.index(self._entries[id].state))
            if self._entries[id].state == "waits":
                self._tell_once(
                    "more than %s calls wait, so the oldest do not outlive this process", MAX_CALLS
                )
            del self._entries[id], self._lines[id]

    def _write(self) -> bool:
        return bool(self._name) and self._try_to_write(self._name, b"".join(self._lines.values()))

    def _try_to_write(self, name: str, data: bytes) -> bool:
        try:
            replace_small(self._root, name, data)
        except OSError as fault:
            self._tell_once(
                "%s cannot be written, so waiting calls do not outlive this process: %s",
                self._root / name,
                fault,
            )
            return False
        return True

    # --- in the thread ---

    def _put_outcome(self, call: RememberedCall) -> None:
        with self._lock:
            self._hold()
            if call.id not in self._entries:  # it was delivered
                return
        self._write_outcome(call)
        with self._lock:
            entry = self._entries.get(call.id)
            if entry is not None:
                self._entries[call.id] = entry = entry._replace(at=time.time(), state="ended")
                self._lines[call.id] = _line_of(entry)
                self._write()

    def _write_outcome(self, call: RememberedCall) -> None:
        data = _outcome_data(call)
        self._sizes.pop(call.id, None)
        name = self._name
        if name and self._try_to_write(_outcome_of(name, call.id), data):
            self._sizes[call.id] = len(data)
        while len(self._sizes) > MAX_CALLS or sum(self._sizes.values()) > MAX_OUTCOMES:
            self._remove_outcome(next(iter(self._sizes)))

    def _remove_outcome(self, id: str) -> None:
        if self._sizes.pop(id, None) is not None and self._name:
            with suppress(OSError):
                remove(self._root, _outcome_of(self._name, id))


def _lock_of(index: str) -> str:
    return f"{index}.lock"


def _outcome_of(index: str, id: str) -> str:
    name = sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{index}.outcomes/{name}.json"


def _line_of(entry: _Entry) -> bytes:
    # ASCII, so that any text can be written, a lone surrogate, too.
    return json.dumps(entry._asdict(), separators=(",", ":")).encode() + b"\n"


def _outcome_data(call: RememberedCall) -> bytes:
    """The outcome as JSON; where that is too large or impossible, a sentence about it."""
    why = "was too large to be kept"
    try:
        data = compact({"result": call.result, "refusal": call.refusal}).encode()
        if len(data) <= MAX_OUTCOME:
            return data
    except ProtocolError:
        why = "could not be kept"
    if call.result is None:
        refusal = cut(call.refusal.encode(errors="replace").decode(), MAX_OUTCOME // 8)
    else:
        refusal = f"{call.what} was executed, but its result {why} after the gate had ended"
    return json.dumps({"result": None, "refusal": refusal}).encode()


def _read_index(text: str) -> tuple[list[_Entry], set[str]]:
    """The entries, and the ids of those that were made out in damaged lines; an empty id for a line with none."""
    entries: dict[str, _Entry] = {}
    damaged: set[str] = set()
    for line in text.split("\n"):
        if not line:
            continue
        try:
            entry = _read_entry(json.loads(line))
            entries[entry.id] = entry
        except (ValueError, TypeError, RecursionError):
            left = list(_salvage(line))
            damaged |= {entry.id for entry in left} or {""}
            entries |= {entry.id: entry for entry in left if entry.id not in entries}
    return list(entries.values())[-MAX_CALLS:], damaged


def _salvage(line: str) -> Iterable[_Entry]:
    now = time.time()
    for found in _LEFT.finditer(line):
        yield _Entry(found[1], found[2], found[3] or "a call", True, now, "waits")


def _read_entry(value: Any) -> _Entry:
    """Raises ValueError or TypeError where it is no entry."""
    entry = _Entry(**value)
    texts = (entry.key, entry.id, entry.what)
    if (
        not all(isinstance(text, str) for text in texts)
        or max(len(entry.key), len(entry.id)) > MAX_ID
        or len(entry.what) > MAX_WHAT
    ):
        raise ValueError("a text is of another type or too long")
    numbers = isinstance(entry.at, int | float) and isinstance(entry.is_tool, bool)
    if not numbers or isinstance(entry.at, bool) or entry.state not in get_args(State):
        raise ValueError("a member is of another type")
    now = time.time()
    if not 0 <= entry.at < math.inf:  # nor NaN
        raise ValueError("it has no time")
    return entry if entry.at <= now else entry._replace(at=now)  # the clock was ahead
