"""Reads the decisions of a log for rules and for the history of a call, from the frame of decisions.

The frame is the same for a live log and for files, so these are, too.

Spec: §9.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from mew_lab.errors import ConfigError, JournalError
from mew_lab.protocol.coerce import json_of
from mew_lab.protocol.visible import one_line
from mew_lab.rules.decided_calls import AskedCall, CallHistory, DecidedCall, Verdict

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LoggedHistory", "asked_call", "decided_calls"]

_COLUMNS = (
    *(
        "seq",
        "time",
        "proposal",
        "participant",
        "target",
        "method",
        "tool",
        "tool_hash",
        "tool_hints",
        "proposed",
    ),
    *("arguments", "outcome", "edited", "decided_by", "how", "teaches", "teaches_not"),
)


def decided_calls(frame: pd.DataFrame) -> tuple[DecidedCall, ...]:
    """The proposals of a frame of decisions, decided or not, in its order; requests by one's own right are none."""
    chosen = frame[frame["proposal"] != ""]
    columns = [chosen[name].tolist() for name in _COLUMNS]
    read: dict[str, Mapping[str, Any] | None] = {"": None}
    found = []
    for row in zip(*columns, strict=True):
        (seq, time, proposal, proposer, target, method, tool, tool_hash, hints, proposed) = row[:10]
        (sent, outcome, edited, by, how, teaches, teaches_not) = row[10:]
        for text in (proposed, sent):
            if text not in read:
                value = json_of(text)
                read[text] = value if isinstance(value, dict) else None
        found.append(
            DecidedCall(
                seq=seq,
                t=time.timestamp(),
                proposal=proposal,
                proposer=proposer,
                target=target,
                method=method,
                tool=tool,
                tool_hash=tool_hash,
                hints=hints,
                proposed=read[proposed],
                sent=read[sent],
                verdict=_verdict(outcome),
                edited=edited is True,
                by=by,
                how=how,
                teaches=teaches and (edited is True or edited is False or outcome == "rejected"),
                teaches_not=teaches_not,
            )
        )
    return tuple(found)


_UNDECIDED = frozenset({"open", "withdrawn", "expired"})


def _verdict(outcome: str) -> Verdict:
    if outcome in _UNDECIDED:
        return "undecided"
    return "rejected" if outcome == "rejected" else "approved"


class LoggedHistory(NamedTuple):
    """The history of a call in a log; printed, the sentence of it."""

    history: CallHistory
    now: datetime

    @property
    def equal(self) -> tuple[DecidedCall, ...]:
        """The decisions on equal calls, the oldest first."""
        return self.history.equal

    @property
    def alike(self) -> tuple[DecidedCall, ...]:
        """The decisions on alike calls, equal ones included, the oldest first."""
        return self.history.alike

    def __str__(self) -> str:
        return self.history.sentence(self.now) or "no call like this was decided before"

    def __repr__(self) -> str:
        return str(self)


def asked_call(call: object, decided: Sequence[DecidedCall]) -> tuple[AskedCall | DecidedCall, str]:
    """The call that is meant, and the id of its proposal: the id of a proposal, an `AskedCall`, or an object with
    `proposer`, `to`, `tool` and `arguments`.

    Raises:
        JournalError: There is no such proposal.
        ConfigError: It is none of these.
    """
    if isinstance(call, AskedCall):
        return call, ""
    if isinstance(call, DecidedCall):
        return call, call.proposal
    if isinstance(call, str):
        found = next((one for one in reversed(decided) if one.proposal == call), None)
        if found is None:
            raise JournalError(f"There is no proposal {one_line(call, 80)!r} in this log")
        return found, found.proposal
    if isinstance(call, Mapping):
        names = ("proposer", "to", "tool")
        texts = {name: call.get(name) for name in names}
        arguments = call.get("arguments", {})
        if all(isinstance(text, str) for text in texts.values()) and isinstance(arguments, Mapping):
            return AskedCall(
                proposer=str(texts["proposer"]),
                target=str(texts["to"]),
                tool=str(texts["tool"]),
                arguments=arguments,
            ), ""
    raise ConfigError(
        "A call is named by the id of its proposal, or by an object with proposer, to, tool and arguments, not by "
        f"{type(call).__name__}"
    )


def present(now: datetime | None) -> datetime:
    """The present time where none is given, in the time zone of the reader."""
    return datetime.now(UTC).astimezone() if now is None else now
