"""Takes the notes that participants send beside their messages: a receipt of a decision, or what became of a call.

A note goes to no participant. Its record has the name of the authenticated participant, and is that participant's own
account: a *report*, and not what the gateway saw. A receipt is taken only for an id of its own, a resolution only from
a participant that may send a request to the target. What a note says of its request is checked where a log is read.

Spec: ruling R42.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from mew_lab.errors import ProtocolError
from mew_lab.protocol.envelope import compact, read_strict
from mew_lab.protocol.text import timestamp
from mew_lab.space.controls import held_back
from mew_lab.space.ends import standing
from mew_lab.space.events import NOTE_BYTES, REPORTED, HttpReply, Reported
from mew_lab.space.refusal import Refusal
from mew_lab.space.turn import Turn

__all__ = ["HOW", "RECEIPT", "RESOLUTION", "report"]

RECEIPT, RESOLUTION = "receipt", "resolution"
HOW: Final = ("click", "typed", "script", "policy")
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_STATUS: Final = {"invalid_request": 400, "message_too_large": 413}
_SINCE = 4  # edition

Check = Callable[[object], bool]


def _text(most: int, least: int = 0) -> Check:
    return lambda value: isinstance(value, str) and least <= len(value) <= most


def _is_names(value: object) -> bool:
    return isinstance(value, list) and 0 < len(value) <= 16 and all(map(_text(64, 1), value))


def _is_policy(value: object) -> bool:
    return (
        isinstance(value, dict) and value.keys() <= {"name", "text"} and all(map(_text(500), value.values()))
    )


_id, _bool = _text(256, 1), lambda value: isinstance(value, bool)
# By what a note is about: its members, the required ones first.
_FORMS: Mapping[str, tuple[Mapping[str, Check], Mapping[str, Check]]] = {
    RECEIPT: (
        {
            "proposal": _id,
            "request": _id,
            "decision": lambda value: value == "approve",
            "how": lambda value: value in HOW,
        },
        {
            "by": _text(200),
            "digest": lambda value: isinstance(value, str) and _DIGEST.match(value) is not None,
            "typed": _text(64),
            "edited": _bool,
            "policy": _is_policy,
            "to": _is_names,
        },
    ),
    RESOLUTION: ({"request": _id, "to": _is_names, "happened": _bool}, {"note": _text(1000)}),
}


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
    if not isinstance(about, str) or about not in _FORMS:
        raise Refusal("invalid_request", f"a note is about a {RECEIPT} or a {RESOLUTION}; name one as about")
    required, optional = _FORMS[about]
    checks = {**required, **optional}
    missing = [name for name in required if name not in note]
    wrong = [name for name in note if name != "about" and not (name in checks and checks[name](note[name]))]
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
    rights = standing(state, member.name, turn.now, meter=turn.meter)
    if not rights.capabilities.reaches("mcp/request", to, meter=turn.meter):
        raise Refusal(
            "capability_violation",
            f"{member.name} may not send mcp/request to {', '.join(to)[:200]}, so it cannot tell what became of a "
            "call there; ask a participant that may",
        )
