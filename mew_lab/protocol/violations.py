"""The errors for a message that is not permitted, or that the gateway refused; they state what would help.

Spec: §3.8.2, §4.1, §8.2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mew_lab.errors import CapabilityViolation, Refused
from mew_lab.protocol.coerce import mapping_of
from mew_lab.protocol.describe import reword_refusal
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.permit import CapabilitySet
from mew_lab.protocol.visible import one_line

__all__ = ["refusal", "require", "violation"]


def require(capabilities: CapabilitySet, draft: Mapping[str, Any], *, name: str) -> None:
    """Raises the CapabilityViolation that `name` would get for sending `draft`."""
    kind, to, payload = draft["kind"], draft.get("to") or (), draft["payload"]
    if not capabilities.permit(kind, to, payload).allowed:
        raise violation(kind, payload=payload, to=to, name=name, capabilities=capabilities)


def violation(
    kind: str,
    *,
    payload: Mapping[str, Any],
    to: Sequence[str],
    name: str,
    capabilities: CapabilitySet,
    envelope: Envelope | None = None,
) -> CapabilityViolation:
    """The error for a message that `name` may not send, with its capabilities and what would help."""
    method = payload.get("method")
    message = (
        _of_a_call(kind, str(method), payload, to, name, capabilities) if isinstance(method, str) else ""
    )
    if not message:
        nearest = capabilities.permit(kind, to, payload).nearest
        near = f" Nearest: {reword_refusal(nearest)}." if nearest else ""
        message = f"Cannot send {kind} as {name!r}: it does not hold it.{near} Grant {_written(kind)}."
    return CapabilityViolation(
        message, attempted_kind=kind, capabilities=capabilities.patterns, envelope=envelope
    )


def _of_a_call(
    kind: str,
    method: str,
    payload: Mapping[str, Any],
    to: Sequence[str],
    name: str,
    capabilities: CapabilitySet,
) -> str:
    if kind not in ("mcp/request", "mcp/proposal"):
        return ""
    tool = mapping_of(payload.get("params")).get("name", method)
    what = one_line("/".join([", ".join(to), str(tool)]) if to else str(tool), 120)
    request = _written("mcp/request", {"method": method})
    may_propose = capabilities.permit("mcp/proposal", to, payload).allowed
    short = one_line(method, 80)
    if kind == "mcp/request" and may_propose:
        return (
            f'Cannot call {what} as "{name}": it holds mcp/proposal, not mcp/request for {short}. '
            f"Use {name}.call(…) to propose it, or grant {request}."
        )
    if kind == "mcp/proposal" and capabilities.permit("mcp/request", to, payload).allowed:
        return (
            f'Cannot propose {what} as "{name}": it holds mcp/request, not mcp/proposal. '
            f"Use {name}.call(…) to request it, or grant {_written('mcp/proposal')}."
        )
    return (
        f'Cannot call {what} as "{name}": it holds neither mcp/request nor mcp/proposal for {short}. '
        f"Grant {_written('mcp/proposal')} to let it propose, or {request} to let it call."
    )


def refusal(error: Envelope, *, sent: Envelope | None, name: str, capabilities: CapabilitySet) -> Refused:
    """The exception for a `system/error`; `sent` is the message that it refuses, where that is known.

    Spec: §3.8.2.
    """
    payload = error.payload
    code = str(payload.get("code") or payload.get("error") or "invalid_request")
    if payload.get("error") == "capability_violation":
        kind = str(payload.get("attempted_kind", sent.kind if sent else "a message"))
        return violation(
            kind,
            payload=sent.payload if sent else {},
            to=sent.to if sent else (),
            name=name,
            capabilities=capabilities,
            envelope=error,
        )
    what = sent.kind if sent else "a message"
    message = one_line(reword_refusal(str(payload.get("message") or code)), 300)
    return Refused(f"The gateway refused {what} of {name!r}: {message} ({code})", code=code, envelope=error)


def _written(kind: str, payload: Mapping[str, Any] | None = None) -> str:
    pattern = {"kind": kind, "payload": dict(payload)} if payload else {"kind": kind}
    return one_line(json.dumps(pattern, ensure_ascii=False), 200)
