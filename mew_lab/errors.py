"""Every exception that mew_lab raises, and nothing else.

```
MewError
├─ ProtocolError            .code .section .raw   breaks the specification
│   ├─ LocalProtocolError                         we were about to send it
│   └─ RemoteProtocolError                        a peer sent it
├─ Refused                  .code .envelope       the gateway answered with system/error
│   └─ CapabilityViolation  .attempted_kind .capabilities
├─ ProposalEnded            .proposal             will not be fulfilled
│   ├─ ProposalRejected     .by .reason
│   └─ ProposalWithdrawn    .by .reason
├─ ToolFailed               .code .data           the tool's own JSON-RPC error
├─ ConnectionLost           .clean
├─ NotAdmitted              .space .close_code    token unknown or revoked, or the id is taken
├─ NoReply (also TimeoutError)  .after_s .waiting_for
├─ ConfigError              .path .key
├─ ModelFailed              .model .status .retry_after_s   a model gave no reply
├─ NotApproved              .code                 a human's yes that was not about what was shown
├─ CannotWait                                     nobody could answer while this call waits
├─ JournalError             .path                 a journal cannot be read or written
└─ ReplayMismatch           .index .expected .actual
```
Every message says what was tried, by whom or on what, and what would help.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mew_lab.protocol.envelope import Envelope

__all__ = [
    "CannotWait",
    "CapabilityViolation",
    "ConfigError",
    "ConnectionLost",
    "JournalError",
    "LocalProtocolError",
    "MewError",
    "ModelFailed",
    "NoReply",
    "NotAdmitted",
    "NotApproved",
    "ProposalEnded",
    "ProposalRejected",
    "ProposalWithdrawn",
    "ProtocolError",
    "Refused",
    "RemoteProtocolError",
    "ReplayMismatch",
    "ToolFailed",
]


class MewError(Exception):
    """Whatever mew_lab raises on purpose. Catch this to catch all of them."""


class ProtocolError(MewError):
    """A message breaks the specification.

    `code` is what a gateway would put into `system/error`, `section` the place in the specification,
    `raw` the text at fault (shortened by whoever shows it).
    """

    def __init__(
        self, message: str, *, code: str = "invalid_envelope", section: str = "§3", raw: str = ""
    ) -> None:
        super().__init__(message)
        self.code = code
        self.section = section
        self.raw = raw


class LocalProtocolError(ProtocolError):
    """We were about to send it: fix the caller."""


class RemoteProtocolError(ProtocolError):
    """A peer sent it: report it and go on."""


class Refused(MewError):
    """The gateway answered with `system/error`. `code` is payload.error, or the finer payload.code."""

    def __init__(self, message: str, *, code: str, envelope: Envelope | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.envelope = envelope


class CapabilityViolation(Refused):
    """The sender does not hold the capability. `capabilities` is what it does hold. Spec: §3.8.2."""

    def __init__(
        self,
        message: str,
        *,
        attempted_kind: str,
        capabilities: Sequence[Mapping[str, Any]] = (),
        envelope: Envelope | None = None,
    ) -> None:
        super().__init__(message, code="capability_violation", envelope=envelope)
        self.attempted_kind = attempted_kind
        self.capabilities = tuple(capabilities)


class NotApproved(MewError):
    """An approval was refused because its proposal was not shown, or not whole; nothing was sent.

    `code` is `not_shown`, `not_opened`, `too_fast`, `never_seen`, `digest_mismatch` or `rows_mismatch`.
    """

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


class ProposalEnded(MewError):
    """The proposal will not be fulfilled. `proposal` is its id."""

    def __init__(self, message: str, *, proposal: str, by: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.proposal = proposal
        self.by = by
        self.reason = reason


class ProposalRejected(ProposalEnded):
    """Somebody rejected it; the text is the SDK specification's. Spec: §3.3.2."""

    def __init__(self, *, proposal: str, by: str, reason: str) -> None:
        super().__init__(f"Proposal rejected by {by}: {reason}", proposal=proposal, by=by, reason=reason)


class ProposalWithdrawn(ProposalEnded):
    """Its proposer withdrew it. Spec: §3.3.1."""

    def __init__(self, *, proposal: str, by: str, reason: str) -> None:
        super().__init__(f"Proposal withdrawn by {by}: {reason}", proposal=proposal, by=by, reason=reason)


class ToolFailed(MewError):
    """The tool answered with an error: JSON-RPC `code` and `data`, or a result marked isError (code None)."""

    def __init__(self, message: str, *, code: int | None = None, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class ConnectionLost(MewError):
    """The connection is gone. `clean` when an end closed it on purpose; `close_code` as on the wire, or None."""

    def __init__(self, message: str, *, clean: bool = False, close_code: int | None = None) -> None:
        super().__init__(message)
        self.clean = clean
        self.close_code = close_code


class NotAdmitted(MewError):
    """The gateway did not admit us: token unknown or voided, space unknown, or the id is taken."""

    def __init__(self, message: str, *, space: str = "", close_code: int = 4401) -> None:
        super().__init__(message)
        self.space = space
        self.close_code = close_code


class NoReply(MewError, TimeoutError):
    """Nobody answered in time. Also a TimeoutError."""

    def __init__(self, message: str, *, after_s: float, waiting_for: str) -> None:
        super().__init__(message)
        self.after_s = after_s
        self.waiting_for = waiting_for


class ConfigError(MewError):
    """A setting is wrong. `path` is the file or source, `key` the key path in it."""

    def __init__(self, message: str, *, path: str = "", key: str = "") -> None:
        super().__init__(message)
        self.path = path
        self.key = key


class ModelFailed(MewError):
    """A model gave no reply. `status` is its server's HTTP status, `retry_after_s` when to ask again, if told."""

    def __init__(
        self, message: str, *, model: str, status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.model = model
        self.status = status
        self.retry_after_s = retry_after_s


class CannotWait(MewError):
    """Waiting here could never end: the thread that waits is the one that would have to answer."""


class JournalError(MewError):
    """A journal cannot be read or written. `path` names it."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class ReplayMismatch(MewError):
    """A replay gave another effect than the record. `index` is the record's place in the journal."""

    def __init__(self, message: str, *, index: int, expected: Any, actual: Any) -> None:
        super().__init__(message)
        self.index = index
        self.expected = expected
        self.actual = actual
