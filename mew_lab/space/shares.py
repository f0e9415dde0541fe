"""The share of a space that one participant may take: parts of its limits, and the sizes of capabilities.

An invited participant counts together with its inviter, up to a participant of the configuration: an invite creates no
new share. The owner of a space has no share, since it may use the whole limit. Every refusal is `limit_exceeded` and
names the holder of the share.

Spec: §3.6.8, §3.8.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mew_lab.errors import ConfigError
from mew_lab.protocol.cost import REFERENCE
from mew_lab.protocol.permit import Capability
from mew_lab.space.refusal import Refusal
from mew_lab.space.rights import Rights
from mew_lab.space.state import Member, SpaceLimits, State, StreamState

__all__ = [
    "admissible",
    "configurable",
    "configured_size",
    "described_bytes",
    "fits",
    "roomy",
    "share_of",
    "within",
]

ENTRY = 128
"""Bytes of a participant in a welcome beside its capabilities, and of a stream beside its request."""
WRITER = 70
"""Bytes of an authorized writer in a welcome."""


def share_of(limits: SpaceLimits, limit: int) -> int:
    """The part of a limit that one participant may take."""
    return max(1, limit // max(1, limits.share))


def within(state: State, member: Member, taken: int, limit: int, what: str) -> None:
    """Checks that `member`, with the participants that it invited, may take one more of a `limit` of the space.

    Raises:
        Refusal: when its share is used up.
    """
    root = state.root(member.name)
    most = share_of(state.limits, limit)
    if state.limits.share <= 1 or root == state.owner or taken < most:
        return
    invited = "" if root == member.name else f", who brought in {member.name!r},"
    raise Refusal(
        "limit_exceeded",
        f"{root!r}{invited} has taken its share of this space's {what}: {most} of {limit}; end some of its own, or "
        "ask the owner of the space for a larger limit",
    )


def fits(
    state: State, giver: Member, member: Member, rights: Rights, capabilities: Sequence[Capability]
) -> None:
    """Checks that `member` may hold `rights`, of which `giver` grants it `given`.

    Raises:
        Refusal: when a capability is too large, the set too costly to judge, a welcome would grow too large, or
            the grants of `giver` exceed its share of a welcome.
    """
    limits = state.limits
    largest = max((capability.size for capability in capabilities), default=0)
    if limits.capability_bytes and largest > limits.capability_bytes:
        raise Refusal(
            "limit_exceeded",
            f"a capability of {largest} bytes cannot be given: every welcome repeats it, so one has at most "
            f"{limits.capability_bytes}; split it, or say it with a glob",
        )
    if limits.steps and rights.capabilities.cost > limits.steps:
        raise Refusal(
            "limit_exceeded",
            f"{member.name!r} would hold capabilities that cannot be judged within the budget of a message: up to "
            f"{rights.capabilities.cost} steps for {REFERENCE} bytes, of {limits.steps}; give fewer patterns that "
            "search (`**`, `$..`, wildcards in the middle, regular expressions), or narrower ones",
        )
    if not limits.rights_bytes:
        return
    now, then = (size * max(1, len(member.connections)) for size in (member.rights.size, rights.size))
    total = described_bytes(state) + then - now + (0 if member.name in state.members else ENTRY)
    if total > limits.rights_bytes:
        raise Refusal(
            "limit_exceeded",
            f"the capabilities of all participants would have {total} bytes, and a welcome tells at most "
            f"{limits.rights_bytes} of them; revoke some first",
        )
    root = state.root(giver.name)
    fresh = sum(capability.size + 1 for capability in capabilities)
    taken = fresh + sum(
        size
        for holder in state.members.values()
        for name, size in holder.rights.given.items()
        if state.root(name) == root
    )
    most = share_of(limits, limits.rights_bytes)
    if limits.share > 1 and root != state.owner and taken > most:
        raise Refusal(
            "limit_exceeded",
            f"what {root!r} and those it invited have given would have {taken} bytes, and its share of a welcome is "
            f"{most}; revoke some of it first",
        )


def described_bytes(state: State) -> int:
    """The bytes of all participants in a welcome, each as if present, under each of its ids."""
    return sum(
        (member.rights.size + ENTRY) * max(1, len(member.connections))
        for member in state.members.values()
        if not member.kicked
    )


def admissible(state: State, member: Member, runtime_id: str) -> str:
    """The reason why one more connection of `member` exceeds a limit; empty where it does not."""
    limits = state.limits
    root = state.root(member.name)
    if limits.share > 1 and root != state.owner:
        if runtime_id not in state.aliases:
            most = share_of(limits, limits.runtime_ids)
            used = sum(1 for owner in state.aliases.values() if owner == member.name)
            if used >= most:
                return f"{member.name!r} has had its share of {most} ids; come back under one of them"
        most = max(8, share_of(limits, limits.connections))
        here = sum(
            1 for connection in state.connections.values() if state.root(connection.participant) == root
        )
        if here >= most:
            return f"{root!r} and those it invited have their share of {most} connections; close some of them"
    if member.connections and limits.rights_bytes:
        total = described_bytes(state) + member.rights.size + ENTRY
        if total > limits.rights_bytes:
            return (
                f"the participants would have {total} bytes in a welcome, of {limits.rights_bytes}; "
                f"close another connection of {member.name!r}"
            )
    return ""


def roomy(state: State, member: Member, size: int) -> None:
    """Checks that the active streams leave room in a welcome for `size` bytes more, or one more writer.

    Raises:
        Refusal: when they do not, or the share of `member` is used up.
    """
    limits = state.limits
    count = _stream_bytes if limits.rights_bytes else _request_bytes
    total = sum(count(stream) for stream in state.streams.values())
    more = size
    if limits.rights_bytes:
        more += WRITER + (ENTRY if size else 0)
    if total + more > limits.description_bytes:
        raise Refusal(
            "limit_exceeded",
            f"the requests of all active streams together may have {limits.description_bytes} bytes, since "
            "every welcome repeats them; describe the stream in fewer words",
        )
    root = state.root(member.name)
    own = sum(count(stream) for stream in state.streams.values() if state.root(stream.by) == root)
    most = share_of(limits, limits.description_bytes)
    if limits.share > 1 and root != state.owner and own + more > most:
        raise Refusal(
            "limit_exceeded",
            f"the streams of {root!r} and those it invited would have {own + more} bytes in a welcome, and its share "
            f"is {most}; close some, or describe them in fewer words",
        )


def _request_bytes(stream: StreamState) -> int:
    return stream.size


def _stream_bytes(stream: StreamState) -> int:
    """The most bytes of a stream in a welcome."""
    return stream.size + ENTRY + WRITER * (1 + len(stream.granted))


def configurable(
    participants: Mapping[str, Iterable[Mapping[str, object]]],
    baseline: Iterable[Mapping[str, object]],
    limits: SpaceLimits,
) -> None:
    """Checks that the configuration of a space keeps its limits.

    Raises:
        ConfigError: with the key path of a capability that is too large, or too costly to judge.
    """
    common = [Capability.of(pattern, key=f"baseline[{at}]") for at, pattern in enumerate(baseline)]
    total = 0
    for name, patterns in participants.items():
        key = f"participants.{name}.capabilities"
        own = [Capability.of(pattern, key=f"{key}[{at}]") for at, pattern in enumerate(patterns)]
        total += configured_size([*own, *common], key, limits) + ENTRY
        if limits.rights_bytes and total > limits.rights_bytes:
            raise ConfigError(
                f"the capabilities of all participants up to this one have {total} bytes, and a welcome tells at most "
                f"{limits.rights_bytes} of them: say them with globs, or raise limits.rights_bytes",
                key=key,
            )


def configured_size(capabilities: Sequence[Capability], key: str, limits: SpaceLimits) -> int:
    """Returns the bytes of the capabilities that one participant is configured to hold.

    Raises:
        ConfigError: with the key path of the capability that is too large, or too costly to judge.
    """
    for at, capability in enumerate(capabilities):
        size = capability.size
        if limits.capability_bytes and size > limits.capability_bytes:
            raise ConfigError(
                f"a capability of {size} bytes; every welcome repeats it, so one has at most "
                f"{limits.capability_bytes} (limits.capability_bytes)",
                key=f"{key}[{at}]",
            )
    cost = Rights.of(capabilities).capabilities.cost
    if limits.steps and cost > limits.steps:
        raise ConfigError(
            f"these capabilities cannot be judged within the budget of a message: up to {cost} steps for {REFERENCE} "
            f"bytes, of {limits.steps} (limits.steps); use fewer patterns that search (`**`, `$..`, wildcards in the "
            "middle, regular expressions)",
            key=key,
        )
    return sum(capability.size + 1 for capability in capabilities)
