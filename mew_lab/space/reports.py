"""Takes the notes that participants send beside their messages: a receipt of a decision, or what became of a call.

A note goes to no participant. Its record has the name of the authenticated participant, and is that participant's own
account: a *report*, and not what the gateway saw. A receipt of an approval is taken only for an id of its own, one of a
rejection only from a participant that may reject the proposal, a resolution only from one that may send a request to
the target. What a note says of its request is checked where a log is read.

No message tells of a note. `Resolutions` keeps those that say what became of a call, for the executors of that call: an
executor in another process asks before it refuses a repeat (R35).

Spec: rulings R35, R42.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from mew_lab.errors import ProtocolError
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.decision_ways import WAYS
from mew_lab.protocol.envelope import MAX_ID, compact, is_id, read_strict
from mew_lab.protocol.json_schema import Validator
from mew_lab.protocol.text import timestamp
from mew_lab.space.controls import held_back
from mew_lab.space.ends import standing
from mew_lab.space.events import NOTE_BYTES, REPORTED, HttpReply, Record, Reported
from mew_lab.space.refusal import Refusal
from mew_lab.space.turn import Turn

__all__ = ["NOTES", "KeptResolution", "Resolutions", "report"]

RECEIPT, RESOLUTION = "receipt", "resolution"
_REJECTION = "receipt of a rejection"
_STATUS: Final = {"invalid_request": 400, "message_too_large": 413}
_SINCE = 4  # edition
MAX_RESOLUTIONS = 10_000  # of a space; beyond that, the participant with the most loses its oldest

Schema = dict[str, Any]


def _text(most: int, about: str = "", **more: Any) -> Schema:
    described = {"description": about} if about else {}
    return {"type": "string", "maxLength": most, **more, **described}


def _id(about: str = "") -> Schema:
    return _text(MAX_ID, about, minLength=1)


def _names(about: str) -> Schema:
    return {"type": "array", "items": _text(64), "minItems": 1, "maxItems": 16, "description": about}


def _note(about: str, description: str, required: Mapping[str, Schema], **optional: Schema) -> Schema:
    members = {"about": {"const": about}, **required}
    properties = {**members, **optional}
    return {
        "type": "object",
        "required": [*members],
        "properties": properties,
        "additionalProperties": False,
        "description": description,
    }


_HOW: Schema = {
    "enum": [*WAYS],
    "description": "typed means: by a person; editor: a person answered the question of an editor",
}
_OPTION: Schema = {
    "type": "object",
    "properties": {"id": _text(128), "name": _text(80, "cut")},
    "additionalProperties": False,
    "description": "the option that was chosen of the permission of an agent",
}
_SHOWN: Mapping[str, Schema] = {
    "option": _OPTION,
    "by": _text(200, "human, or who or which policy decided in the sender's name"),
    "digest": {"type": "string", "pattern": "^[0-9a-f]{64}$", "description": "the SHA-256 of what was shown"},
    "typed": _text(64, "the characters of the digest that were typed, or yes"),
    "policy": {
        "type": "object",
        "properties": {"name": _text(500), "text": _text(500)},
        "additionalProperties": False,
    },
    "rule": {
        "type": "object",
        "properties": {"sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"}, "text": _text(500, "cut")},
        "required": ["sha256"],
        "additionalProperties": False,
        "description": "the rule that decided",
    },
}
NOTES: Final[Mapping[str, Schema]] = {
    RECEIPT: _note(
        RECEIPT,
        "the sender's account of a decision of its own; it never counts as seen on a screen",
        {
            "proposal": _id(),
            "request": _id("the sender's own request, accepted before"),
            "decision": {"const": "approve"},
            "how": _HOW,
        },
        **_SHOWN,
        edited={"type": "boolean"},
        to=_names("the chosen targets, where the proposal names none"),
        despite={
            "enum": [["rejected"], ["unknown"], ["rejected", "unknown"]],  # R32, R35
            "description": "what it disregarded on purpose: a rejection, that the call may run twice",
        },
    ),
    _REJECTION: _note(
        RECEIPT,
        "the sender's account of a rejection of its own",
        {
            "proposal": _id("of another participant, accepted before"),
            "decision": {"const": "reject"},
            "how": _HOW,
        },
        **_SHOWN,
    ),
    RESOLUTION: _note(
        RESOLUTION,
        "what a participant found out about a call whose outcome was unknown",
        {
            "request": _id(),
            "to": _names("the targets of that request"),
            "happened": {"type": "boolean", "description": "whether the call took effect"},
        },
        note=_text(1000, "what was found out, and how"),
    ),
}
"""The JSON Schemas of the notes, by what they are about. An id, and each name in `to`, is printable besides."""
_MEMBERS: Mapping[str, Mapping[str, Validator]] = {
    about: {name: Validator(member) for name, member in schema["properties"].items()}
    for about, schema in NOTES.items()
}


def _fits(about: str, name: str, value: Any) -> bool:
    member = _MEMBERS[about].get(name)
    if member is None or member.validate(value).violations:
        return False
    ids = value if name == "to" else [value] if name in ("proposal", "request") else []
    return all(map(is_id, ids))


def report(turn: Turn, event: Reported) -> None:
    """Records the note of a participant, or refuses it; the reply says which."""
    try:
        note = _read(event.text)
        _check(turn, event, note)
    except Refusal as refusal:
        turn.do(HttpReply(_STATUS.get(refusal.code, 403), refusal.payload))
        return
    turn.record(REPORTED, participant=event.participant, via=event.via, detail=compact(note))
    turn.do(HttpReply(200, {"status": "accepted", "timestamp": timestamp(turn.now)}))


def _read(text: str | bytes) -> dict[str, Any]:
    try:
        note = read_strict(text, limit=NOTE_BYTES)
    except ProtocolError as fault:
        code = fault.code if fault.code in _STATUS else "invalid_request"
        raise Refusal("invalid_request", f"the note cannot be read: {fault}", code=code) from None
    about = note.get("about")
    if about not in (RECEIPT, RESOLUTION):
        raise Refusal("invalid_request", f"a note is about a {RECEIPT} or a {RESOLUTION}; name one as about")
    if about == RECEIPT and note.get("decision") == "reject":
        about = _REJECTION
    missing = [name for name in NOTES[about]["required"] if name not in note]
    wrong = [name for name, value in note.items() if not _fits(about, name, value)]
    if missing or wrong:
        what = f"has no {missing[0]}" if missing else f"has a member {wrong[0][:60]!r} that it cannot have"
        raise Refusal("invalid_request", f"a {about} {what}; /openapi.json describes a note")
    return note


def _check(turn: Turn, event: Reported, note: Mapping[str, Any]) -> None:
    """Refuses a note that this participant may not send."""
    state = turn.state
    member = state.members.get(event.participant)
    if member is None or member.kicked or state.edition < _SINCE:
        raise Refusal("not_permitted", f"{event.participant} may send no notes to this space")
    if (held := held_back(member, "", turn.now)) is not None:
        raise held

    def reaches(kind: str, to: tuple[str, ...]) -> bool:
        rights = standing(state, member.name, turn.now, meter=turn.meter)
        return rights.capabilities.reaches(kind, to, meter=turn.meter)

    if note["about"] == RECEIPT and note["decision"] == "reject":
        proposed = state.handle(note["proposal"])
        if proposed is None or not proposed.proposal or proposed.participant == member.name:
            raise Refusal(
                "not_yours",
                f"{note['proposal'][:80]!r} is no accepted proposal of another participant, so {member.name} cannot "
                "have rejected it",
            )
        if not reaches("mcp/reject", (proposed.participant,)):
            raise Refusal(
                "capability_violation",
                f"{member.name} may not send mcp/reject to {proposed.participant}, so it cannot have rejected "
                f"{note['proposal'][:80]!r}",
            )
        return
    if note["about"] == RECEIPT:
        taken = state.handle(note["request"])
        if taken is None or taken.participant != member.name or taken.lasting or taken.proposal:
            raise Refusal(
                "not_yours",
                f"{note['request'][:80]!r} is no accepted request of {member.name}; a receipt is taken for one's own "
                "requests, after they were accepted",
            )
        return
    to = tuple(map(state.logical, note["to"]))
    if not reaches("mcp/request", to):
        raise Refusal(
            "capability_violation",
            f"{member.name} may not send mcp/request to {', '.join(to)[:200]}, so it cannot tell what became of a "
            "call there; ask a participant that may",
        )


class KeptResolution(NamedTuple):
    """What `by` reported of a request to `to`: whether the call `happened`. `record` is the record of the note."""

    request: str
    to: tuple[str, ...]
    happened: bool
    by: str
    note: str
    record: Record


class Resolutions:
    """What participants reported of calls whose outcome was unknown, the newest of each participant for each request."""

    def __init__(self) -> None:
        self._kept: BoundedDict[tuple[str, str], KeptResolution] = BoundedDict(
            MAX_RESOLUTIONS,
            owner_of=lambda kept: kept.by,
            on_forget=lambda key, kept: self._unlink(*key),
        )
        self._reporters: dict[str, dict[str, None]] = {}  # request -> participants, the newest report last

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Record]:
        """The records of all that are kept, the oldest first."""
        return (kept.record for kept in self._kept.values())

    def take(self, record: Record) -> None:
        """Keeps the resolution in a record `reported`; any other record is ignored."""
        if record.event != REPORTED:
            return
        try:
            note = _read(record.detail)
        except Refusal:  # a journal that was changed
            return
        if note["about"] != RESOLUTION:
            return
        request, by = note["request"], record.participant
        self._drop(request, by)
        self._reporters.setdefault(request, {})[by] = None
        self._kept[request, by] = KeptResolution(
            request, tuple(note["to"]), note["happened"], by, note.get("note", ""), record
        )

    def forget(self, id: str) -> None:
        """Takes that a message took this id: what was reported under it is about an earlier request (R6)."""
        for by in tuple(self._reporters.get(id, ())):
            self._drop(id, by)

    def find(
        self, request: str, to: Collection[str], logical: Callable[[str], str] = str
    ) -> KeptResolution | None:
        """The newest resolution of a request to these addressees that states them all; None where there is none."""
        named = set(map(logical, to))
        for by in reversed(self._reporters.get(request, ())):
            kept = self._kept[request, by]
            if named <= set(map(logical, kept.to)):
                return kept
        return None

    def _drop(self, request: str, by: str) -> None:
        if self._kept.pop((request, by), None) is not None:
            self._unlink(request, by)

    def _unlink(self, request: str, by: str) -> None:
        reporters = self._reporters[request]
        del reporters[by]
        if not reporters:
            del self._reporters[request]
