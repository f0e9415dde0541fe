"""Reads a call of a tool back from a log, so that it can be made again and compared. Pure.

The result of a call names the version of its tool (`executor.VERSION`): whether the tool has changed since is read from
the two results.

Spec: TA-70.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from mew_lab.errors import ConfigError
from mew_lab.ledger.calls import CallLedger
from mew_lab.ledger.entry import Entry
from mew_lab.protocol.coerce import mapping_of, member
from mew_lab.protocol.content import for_text, read_parts
from mew_lab.protocol.text import abridge
from mew_lab.protocol.token import mask
from mew_lab.protocol.visible import one_line
from mew_lab.tools_agent.executor import VERSION, Execution

__all__ = ["RecordedCall", "read_call"]

MAX_ANSWER = 500  # characters of the answer then


class RecordedCall(NamedTuple):
    """A call of a tool in a log. `answer` is its text, empty where none came; `version` is of the tool, if named."""

    id: str
    caller: str
    to: tuple[str, ...]
    tool: str
    arguments: Mapping[str, Any]
    answer: str = ""
    version: Mapping[str, Any] = {}

    def compare(self, done: Execution) -> str:
        """What has changed between this call and another one, as sentences."""
        answer = (
            f"The answer then: {abridge(self.answer, MAX_ANSWER)}" if self.answer else "No answer came then."
        )
        return f"{self._compare_versions(done.version)} {answer}"

    def _compare_versions(self, now: Mapping[str, str]) -> str:
        then = {
            key: one_line(str(value), 40) for key in ("version", "hash") if (value := self.version.get(key))
        }
        if "hash" not in then:
            return "Whether the tool has changed since is not known: the answer in the log does not name its hash."
        if not now:
            return "Whether the tool has changed since is not known: this call was not made."
        if then["hash"] == now["hash"]:
            return f"The tool is the same as then: hash {now['hash']}."
        versions = f"version {then.get('version', 'unknown')}, hash {then['hash']}"
        return (
            f"The tool has changed since: {versions} then, version {now['version']}, hash {now['hash']} now."
        )


def read_call(entries: Iterable[Entry], id: str) -> RecordedCall:
    """The call of a tool whose request has this id.

    Args:
        entries: the messages of a log, in order.

    Raises:
        ConfigError: there is no such request, or it calls no tool; the message tells what the id is.
    """
    shown, calls = one_line(id, 80), CallLedger()
    for entry in entries:
        if id in (entry.id, *entry.correlation_id):
            calls.observe(entry)
    request, proposal = calls.requests.get(id), calls.proposals.get(id)
    if request is None and proposal is not None:
        sent = (
            f"it was approved by the request {proposal.fulfilment}"
            if proposal.fulfilment
            else "nobody approved it"
        )
        raise ConfigError(f"{shown} is a proposal, and {sent}; name the request of a call", key="call")
    if request is None:
        raise ConfigError(f"The log has no request {shown}; name the id of the request of a call", key="call")
    arguments = member(request.payload, "params", "arguments")
    if request.method != "tools/call" or not request.tool or not isinstance(arguments, Mapping | None):
        raise ConfigError(f"The request {shown} calls no tool with arguments", key="call")
    answer = request.response.payload.get("result") if request.response is not None else None
    return RecordedCall(
        request.id,
        request.sender,
        request.to,
        request.tool,
        dict(arguments or {}),
        mask(for_text(read_parts(answer))) if answer is not None else "",
        mapping_of(member(answer, "_meta", VERSION)),
    )
