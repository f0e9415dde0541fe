"""Grants and revokes permissions in the name of the human of a lab, and says in one sentence what was done.

The views and the methods of a lab do it by these functions. `grant_probe` computes the effect beforehand.

Spec: §3.6.1, §3.6.2, rulings R12, R13.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mew_lab.errors import ConfigError, MewError
from mew_lab.lab.decisions.grant_probe import find_grant_obstacle
from mew_lab.lab.decisions.limited_grants import ENDS_HERE, LimitedGrants
from mew_lab.lab.sentences import phrase
from mew_lab.lab.session import Session
from mew_lab.protocol.describe import reword_refusal
from mew_lab.protocol.visible import one_line

__all__ = ["grant_patterns", "revoke_permission"]


async def grant_patterns(
    session: Session,
    granting: LimitedGrants,
    to: str,
    patterns: Sequence[Mapping[str, Any]],
    *,
    minutes: float | None = None,
    uses: int | None = None,
    reason: str = "",
    until_down: bool = False,
) -> tuple[str, str]:
    """Grants patterns to the participant `to`; returns the id of the grant, and one sentence.

    Args:
        minutes: The minutes after which it ends, and `uses` the number of messages; None for no such limit.
        until_down: Whether it ends with this lab.

    Raises:
        MewError: A pattern is not valid, the human may not grant it, or the gateway refused it.

    Spec: §3.6.1.
    """
    for pattern in patterns:
        try:
            why = find_grant_obstacle(session, pattern)
        except ConfigError as fault:
            why = reword_refusal(str(fault))
            raise ConfigError(f"Cannot grant to {one_line(to, 64)!r}: {why}", key=fault.key) from None
        if why:
            raise MewError(why)
    id = await granting.grant(to, patterns, minutes=minutes, uses=uses, reason=reason, session=until_down)
    end = "" if minutes is None else f" for {minutes:g} min"
    end += "" if uses is None else f" for {uses} {'use' if uses == 1 else 'uses'}"
    end += " for this session" if until_down else ""
    remark = f". {ENDS_HERE}" if end and not until_down and not granting.kept else ""
    what = "; ".join(phrase(pattern) for pattern in patterns)
    return id, f"{one_line(to, 64)} may now {what}{end}{remark}"


async def revoke_permission(
    session: Session,
    granting: LimitedGrants,
    holder: str,
    *,
    grant: str = "",
    patterns: Sequence[Mapping[str, Any]] = (),
    reason: str = "",
) -> str:
    """Revokes a grant of `holder`, or, where none is named, all that the patterns match; returns one sentence.

    Raises:
        MewError: The gateway refused it, or no answer came.

    Spec: §3.6.2.
    """
    rights = session.me.participant.rights
    known = rights.grants.get(grant) if grant else None
    what = "; ".join(phrase(pattern) for pattern in patterns or (known.left if known is not None else ()))
    if not grant:
        await rights.revoke(holder, capabilities=patterns, reason=reason or None)
    elif known is not None or grant in granting:
        await granting.revoke(grant, reason=reason)
    else:  # an invitation, or a grant from before this participant joined
        await rights.revoke(holder, grant_id=grant, reason=reason or None)
    # Another permission may still allow it.
    return f"The permission of {one_line(holder, 64)} is revoked{f': {what}' if what else ''}"
