"""Maps names to participants: for capabilities on payloads, and to decide when a name is free for a newcomer.

A participant may appear under ids that it chose. They name it, also after its leave, until another participant is
enrolled or invited under that name.

Spec: §3.6.4, rulings R8b and R26.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.kinds import ACTED_ON
from mew_lab.space.state import State
from mew_lab.space.turn import Turn

__all__ = ["NAMING", "free_name", "is_free", "is_known", "naming_participants"]

NAMING = ("participant_id", "recipient", "new_owner", "target")  # members of payloads that name participants


def naming_participants(state: State, envelope: Envelope) -> Mapping[str, Any]:
    """The payload in the form in which capabilities are matched.

    For kinds on which the gateway acts, each runtime id is replaced by its participant, as in `to`. An invited
    participant is not known yet, so its name stays unchanged.

    Spec: §3.6.4, ruling R26.
    """
    payload = envelope.payload
    if envelope.kind not in ACTED_ON or envelope.kind == "space/invite" or not state.edition:
        return payload
    named = {key: _logical(state, payload[key]) for key in NAMING if key in payload}
    return {**payload, **named} if named else payload


def _logical(state: State, value: Any) -> Any:
    if isinstance(value, list):
        return [state.logical(item) if isinstance(item, str) else item for item in value]
    return state.logical(value) if isinstance(value, str) else value


def is_free(turn: Turn, name: str, owner: str) -> bool:
    """Whether a name that a participant has used as a runtime id may be given to another.

    Spec: §3.6.4, ruling R8b.
    """
    state = turn.state
    return state.edition > 0 and owner.casefold() != name.casefold() and not state.holders(name)


def is_known(turn: Turn, name: str) -> bool:
    """Whether a name is that of a participant, or one of its runtime ids that cannot be given to another."""
    owner = turn.state.runtime_owners.get(name.casefold())
    return owner is not None and not is_free(turn, name, owner)


def free_name(turn: Turn, name: str) -> None:
    """Assigns the name to this participant; the journal notes the participant that used it as a runtime id.

    Spec: §3.6.4, ruling R8b.
    """
    state, folded = turn.state, name.casefold()
    former = state.runtime_owners.get(folded, name)

    def rename() -> None:
        for alias in [alias for alias in state.aliases if alias.casefold() == folded]:
            del state.aliases[alias]
        state.runtime_owners[folded] = name

    if former == name:
        turn.then(lambda: state.runtime_owners.setdefault(folded, name))
        return
    turn.record("name_freed", participant=former, detail=name)
    turn.then(rename)
