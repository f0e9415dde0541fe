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
├─ NotAdmitted              .space .close_code    token unknown or revoked, id taken, …
├─ NoReply (also TimeoutError)  .after_s .waiting_for
│   ├─ NoSuchParticipant                          nobody of that name takes part, so nothing was sent
│   ├─ StillRunning                               the caller's time is over, the call goes on
│   └─ OutcomeUnknown           .data             it was sent; whether it took effect is not known
│       └─ OutcomeLost (also ConnectionLost)      the caller's own connection ended meanwhile
├─ ConfigError              .path .key
├─ ModelFailed              .model .status .retry_after_s   a model gave no reply
├─ NotApproved              .code                 the proposal was not shown in full
├─ CannotWait                                     the waiting thread would have to answer
├─ JournalError             .path                 a journal cannot be read or written
│   └─ HeadsDiffer              .missing          the heads that were kept do not vouch for it
├─ FilterError              .filter .start .end   a text is no filter of messages
├─ ReplayMismatch           .index .expected .actual
├─ MissingLibrary (also ModuleNotFoundError)  .extra .name   a library of an extra is not installed
├─ NoSuchRow (also IndexError)                    a listing or a log is shorter
└─ NoSuchName (also AttributeError)               an object of mew_lab has no such member
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
    "FilterError",
    "HeadsDiffer",
    "JournalError",
    "LocalProtocolError",
    "MewError",
    "MissingLibrary",
    "ModelFailed",
    "NoReply",
    "NoSuchName",
    "NoSuchParticipant",
    "NoSuchRow",
    "NotAdmitted",
    "NotApproved",
    "OutcomeLost",
    "OutcomeUnknown",
    "ProposalEnded",
    "ProposalRejected",
    "ProposalWithdrawn",
    "ProtocolError",
    "Refused",
    "RemoteProtocolError",
    "ReplayMismatch",
    "StillRunning",
    "ToolFailed",
]


class MewError(Exception):
    """The base class of every exception that mew_lab raises on purpose."""


class ProtocolError(MewError):
    """A message breaks the specification.

    `code` is the code that a gateway puts into `system/error`, `section` the section of the specification, and `raw`
    the whole text at fault; code that shows it shortens it.
    """

    def __init__(
        self, message: str, *, code: str = "invalid_envelope", section: str = "§3", raw: str = ""
    ) -> None:
        super().__init__(message)
        self.code = code
        self.section = section
        self.raw = raw


class LocalProtocolError(ProtocolError):
    """A message that this side was about to send; the caller is at fault, and nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """A message that a peer sent; the receiver reports it and goes on."""


class Refused(MewError):
    """The gateway answered with `system/error`. `code` is `payload.code`, or `payload.error` where there is none."""

    def __init__(self, message: str, *, code: str, envelope: Envelope | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.envelope = envelope


class CapabilityViolation(Refused):
    """The sender lacks the capability for a message. `capabilities` are those that it holds. Spec: §3.8.2."""

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
    """An approval was refused because its proposal was not shown in full, or because its client waits no more.

    Nothing was sent. `code` is `being_read`, `not_shown`, `not_opened`, `too_fast`, `never_seen`, `digest_mismatch`,
    `rows_mismatch`, `stopped`, `cancelled_by_client`, or `client_gone`, after which the same approval is taken.
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
    """A participant rejected the proposal; the text is that of the SDK specification. Spec: §3.3.2."""

    def __init__(self, *, proposal: str, by: str, reason: str) -> None:
        super().__init__(f"Proposal rejected by {by}: {reason}", proposal=proposal, by=by, reason=reason)


class ProposalWithdrawn(ProposalEnded):
    """The proposer withdrew the proposal. Spec: §3.3.1."""

    def __init__(self, *, proposal: str, by: str, reason: str) -> None:
        super().__init__(f"Proposal withdrawn by {by}: {reason}", proposal=proposal, by=by, reason=reason)


class ToolFailed(MewError):
    """The tool answered with an error: JSON-RPC `code` and `data`, or a result marked isError (code None)."""

    def __init__(self, message: str, *, code: int | None = None, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class ConnectionLost(MewError):
    """The connection ended. `clean`: one end closed it on purpose. `close_code` is that of the wire, or None."""

    def __init__(self, message: str, *, clean: bool = False, close_code: int | None = None) -> None:
        super().__init__(message)
        self.clean = clean
        self.close_code = close_code


class NotAdmitted(MewError):
    """The gateway did not admit the participant, for example because its token is unknown or its id is taken."""

    def __init__(self, message: str, *, space: str = "", close_code: int = 4401) -> None:
        super().__init__(message)
        self.space = space
        self.close_code = close_code


class NoReply(MewError, TimeoutError):
    """No answer came in time; `after_s` is in seconds. Also a TimeoutError."""

    def __init__(self, message: str, *, after_s: float, waiting_for: str) -> None:
        super().__init__(message)
        self.after_s = after_s
        self.waiting_for = waiting_for


class NoSuchParticipant(NoReply):
    """Nobody of that name takes part, so no answer can come and nothing was sent; the message names the nearest one."""

    def __init__(self, message: str, *, waiting_for: str, after_s: float = 0.0) -> None:
        super().__init__(message, after_s=after_s, waiting_for=waiting_for)


class StillRunning(NoReply):
    """The caller ended its wait, or its `timeout` did; the call goes on, and its answer is recorded. Spec: R35."""


class OutcomeUnknown(NoReply):
    """A call was sent, and whether it took effect is not known; `data` is that of the executor's error. Spec: R35."""

    def __init__(
        self, message: str, *, after_s: float = 0.0, waiting_for: str = "", data: Any = None
    ) -> None:
        super().__init__(message, after_s=after_s, waiting_for=waiting_for)
        self.data = data


class OutcomeLost(OutcomeUnknown, ConnectionLost):
    """The caller's own connection ended while its call was out. Also a ConnectionLost. Spec: R35."""

    def __init__(
        self, message: str, *, after_s: float = 0.0, waiting_for: str = "", close_code: int | None = None
    ) -> None:
        super().__init__(message, after_s=after_s, waiting_for=waiting_for)
        self.clean = False
        self.close_code = close_code


class ConfigError(MewError):
    """A setting is wrong. `path` is the file or source, `key` the key path in it."""

    def __init__(self, message: str, *, path: str = "", key: str = "") -> None:
        super().__init__(message)
        self.path = path
        self.key = key


class ModelFailed(MewError):
    """A model gave no reply. `status` is the HTTP status, `retry_after_s` the server's delay; None where unknown."""

    def __init__(
        self, message: str, *, model: str, status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.model = model
        self.status = status
        self.retry_after_s = retry_after_s


class CannotWait(MewError):
    """This wait could never end: the waiting thread would have to give the answer, or the loop is another one."""


def _printable(message: str) -> str:
    """The message with control characters as escapes: whoever sends a file chooses its name."""
    if message.isprintable():
        return message
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)


class JournalError(MewError):
    """A journal cannot be read or written. `path` names it."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(_printable(message))
        self.path = path


class HeadsDiffer(JournalError):
    """Kept heads do not vouch for a journal, so no space goes on from it. `missing` has a sentence for each lack."""

    def __init__(self, message: str, *, path: str = "", missing: Sequence[str] = ()) -> None:
        super().__init__(message, path=path)
        self.missing = tuple(missing)


class FilterError(MewError):
    """A text is no filter of messages. `start` and `end` are the places in `filter` where the fault begins and ends."""

    def __init__(self, message: str, *, filter: str = "", start: int = 0, end: int = 0) -> None:
        super().__init__(message)
        self.filter = filter
        self.start = start
        self.end = end


class ReplayMismatch(MewError):
    """A journal and its replay differ. `index` is the `seq` of the first record that differs."""

    def __init__(self, message: str, *, index: int, expected: Any, actual: Any) -> None:
        super().__init__(_printable(message))
        self.index = index
        self.expected = expected
        self.actual = actual


class MissingLibrary(MewError, ModuleNotFoundError):
    """A library that mew_lab needs for this is not installed. `name` is the library, `extra` the extra that brings it.

    Also a ModuleNotFoundError.
    """

    def __init__(self, message: str, *, name: str = "", extra: str = "") -> None:
        super().__init__(message)
        self.name = name
        self.extra = extra


class NoSuchRow(MewError, IndexError):
    """A listing or a log has no entry of that number. Also an IndexError."""


class NoSuchName(MewError, AttributeError):
    """An object has no member of that name; the message names the right one. Also an AttributeError."""
