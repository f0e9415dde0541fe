"""What became of a call?  Follows requests and proposals that were made while somebody reasoned, to their ends.

What is believed is what every participant may believe: a proposal is fulfilled by the first request of somebody else
with the same addressees, method and tool; a request is answered by whom it asked; a proposal is withdrawn by whoever
made it. What anybody else says about a call is a claim. It does not know where a call is shown.

Compared are names, methods and tools as a whole, so a call with longer ones than anybody has is not followed.

Spec: §3.2.1, §3.3, ruling R17.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from mew_lab.protocol.describe import describe
from mew_lab.protocol.text import compared, cut, cut_names
from mew_lab.protocol.visible import one_line
from mew_lab.workbench.following import Heard

__all__ = ["Call", "CallState", "Fates"]

MAX_CALLS = 10_000  # followed at a time; the oldest goes
MAX_CLAIMS = 5  # kept of one call
MAX_TO = 16  # addressees of a call
MAX_WORD = 256  # characters of a method, or of a tool's name
RESULT = 200  # characters of a result that are kept

CallState = Literal["proposed", "waiting", "answered", "failed", "rejected", "withdrawn", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call as it stands; a change is a new Call with the same id.

    `state` is `proposed` while nobody has decided, `waiting` while the tool has not answered. `by` is who decided,
    `ended` when it ended (epoch, seconds), `result` one line of the answer or the reason, `result_seq` the row of the
    feed with the whole of it. `claims` are what others said about it that nobody has to believe.
    """

    id: str
    sender: str
    to: tuple[str, ...]
    method: str
    tool: str
    state: CallState
    by: str = ""
    ended: float | None = None
    result: str = ""
    result_seq: int = 0
    claims: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether something may still come of it."""
        return self.state in ("proposed", "waiting")


class Fates:
    """The calls that are followed, by their ids: at most 10 000, with 16 addressees each."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self._fulfilments: dict[
            str, tuple[str, tuple[str, ...]]
        ] = {}  # request -> its proposal, whom it asked
        self._rules: dict[str, Callable[[str, Heard], Call | None]] = {
            "mcp/request": self._requested,
            "mcp/response": self._responded,
            "mcp/reject": self._rejected,
            "mcp/withdraw": self._withdrawn,
            "system/error": self._error,
        }

    def begin(self, heard: Heard) -> Call | None:
        """Follows this `mcp/request` or `mcp/proposal` from now on; one that was refused has ended at once.

        None where it is not followed: the id is that of a call by somebody else, or of one that is still open; it has
        more than 16 addressees, one with more than 128 characters, or a method or tool with more than 256.
        """
        method, tool = _asked(heard.payload)
        if heard.refused:
            return Call(
                id=heard.id,
                sender=heard.sender,
                to=cut_names(heard.to, most=MAX_TO),
                method=cut(method, MAX_WORD),
                tool=cut(tool, MAX_WORD),
                state="refused",
                by="the gateway",
                ended=heard.t,
                result=one_line(heard.code),
            )
        to, earlier = compared(heard.to, most=MAX_TO), self._calls.get(heard.id)
        if to is None or max(len(method), len(tool)) > MAX_WORD:
            return None
        if earlier is not None and (earlier.is_open or earlier.sender != heard.sender):
            return None
        call = Call(
            id=heard.id,
            sender=heard.sender,
            to=to,
            method=method,
            tool=tool,
            state="proposed" if heard.kind == "mcp/proposal" else "waiting",
        )
        _keep(self._calls, call.id, call)
        return call

    def take(self, heard: Heard) -> list[Call]:
        """The calls that this envelope has changed."""
        rule = self._rules.get(heard.kind)
        if rule is None or heard.refused:
            return []
        found = []
        for id in dict.fromkeys(heard.correlation_id):
            if changed := rule(id, heard):
                self._calls[changed.id] = changed
                found.append(changed)
        return found

    def forget(self, id: str) -> None:
        """Follows it no longer."""
        self._calls.pop(id, None)

    def _requested(self, id: str, heard: Heard) -> Call | None:
        call = self._calls.get(id)
        if call is None or call.sender == heard.sender:
            return None
        to = compared(heard.to, most=MAX_TO) or ()
        fits = to and _asked(heard.payload) == (call.method, call.tool) and set(to) == set(call.to or to)
        if call.state not in ("proposed", "rejected") or not fits:
            return _claimed(call, heard, "to fulfil it")
        _keep(self._fulfilments, heard.id, (id, to))
        return replace(call, state="waiting", by=heard.sender, ended=None, result="")

    def _responded(self, id: str, heard: Heard) -> Call | None:
        proposal, asked = self._fulfilments.get(id, ("", ()))
        call = self._calls.get(proposal or id)
        if call is None:
            return None
        if call.state != "waiting" or heard.sender not in (asked or call.to):
            return _claimed(call, heard, "to answer it")
        failed = "error" in heard.payload or _is_error(heard.payload.get("result"))
        said = one_line(describe("mcp/response", heard.payload), RESULT)
        state: CallState = "failed" if failed else "answered"
        return replace(call, state=state, ended=heard.t, result=said, result_seq=heard.seq)

    def _rejected(self, id: str, heard: Heard) -> Call | None:
        call = self._calls.get(id)
        if call is None or call.state != "proposed":
            return _claimed(call, heard, "to reject it")
        return replace(call, state="rejected", by=heard.sender, ended=heard.t, result=_reason(heard))

    def _withdrawn(self, id: str, heard: Heard) -> Call | None:
        call = self._calls.get(id)
        if call is None or call.sender != heard.sender or call.state not in ("proposed", "rejected"):
            return _claimed(call, heard, "to withdraw it")
        return replace(call, state="withdrawn", by=heard.sender, ended=heard.t, result=_reason(heard))

    def _error(self, id: str, heard: Heard) -> Call | None:
        call = self._calls.get(id)
        if (
            call is None
            or not call.is_open
            or heard.sender != "system:gateway"
            or call.sender not in heard.to
        ):
            return None
        said = one_line(describe("system/error", heard.payload), RESULT)
        return replace(call, state="refused", by="the gateway", ended=heard.t, result=said)


def _asked(payload: Mapping[str, Any]) -> tuple[str, str]:
    params = payload.get("params")
    tool = params.get("name") if isinstance(params, dict) else ""
    method = payload.get("method")
    return (method if isinstance(method, str) else "", tool if isinstance(tool, str) else "")


def _is_error(result: Any) -> bool:
    return isinstance(result, dict) and result.get("isError") is True


def _reason(heard: Heard) -> str:
    reason = heard.payload.get("reason")
    return one_line(reason, RESULT) if isinstance(reason, str) else ""


def _claimed(call: Call | None, heard: Heard, what: str) -> Call | None:
    if call is None or len(call.claims) >= MAX_CLAIMS:
        return None
    return replace(call, claims=(*call.claims, f"{one_line(heard.sender, 64)} claims {what}"))


def _keep(book: dict[str, Any], id: str, value: object) -> None:
    """Adds an entry; the oldest goes."""
    book[id] = value
    if len(book) > MAX_CALLS:
        del book[next(iter(book))]
