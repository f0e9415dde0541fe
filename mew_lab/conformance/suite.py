"""Runs every check against the URL of a gateway, and makes one result for each row of their findings.

It has no access to the gateway of mew_lab: all its observations come over the wire. Checks run one after the other,
each with fresh connections. A gateway that stops answering fails all remaining checks at once.

Spec: all sections; `rows.py` lists them.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from mew_lab.conformance import (
    admission,
    capabilities,
    controls,
    delegation,
    envelope,
    frames,
    http,
    identity,
    membership,
    patterns,
    proposals,
    revocation,
    routing,
    spaces,
    streams,
    writers,
)
from mew_lab.conformance.profile import Profile, read_profile
from mew_lab.conformance.rows import MAY, ROWS, RULING, SpecRow, group_of
from mew_lab.conformance.session import Check, CheckSession, Finding, open_session
from mew_lab.conformance.wire import GatewayAddress, NotObserved
from mew_lab.errors import ConfigError, ConnectionLost
from mew_lab.protocol.address import Address
from mew_lab.protocol.token import mask

__all__ = ["CHECKS", "FAILED", "NOT_OFFERED", "PASSED", "UNSEEN", "Result", "decides", "play"]

PASSED, FAILED, UNSEEN = "passed", "failed", "not testable from outside"
NOT_OFFERED = "not offered"  # a row of level MAY that the gateway does not offer, which is no fault
PATIENCE = 6  # times the timeout: the limit for one check

CHECKS: tuple[Check, ...] = tuple(
    check
    for module in (
        admission,
        identity,
        envelope,
        routing,
        capabilities,
        patterns,
        delegation,
        revocation,
        membership,
        controls,
        proposals,
        streams,
        frames,
        writers,
        http,
        spaces,
    )
    for check in module.checks.checks
)


CAN_FAIL = frozenset(row.id for row in ROWS if group_of(row.level) != MAY)


class Result(NamedTuple):
    """One row of the table. `group` is MUST, SHOULD or MAY, each with its negation, or `ruling`."""

    id: str
    section: str
    level: str
    statement: str
    result: str
    detail: str
    exchange: str
    group: str


def decides(result: Result) -> bool:
    """Whether this row alone fails a run: rulings of this project bind no other gateway."""
    return result.result == FAILED and result.group != RULING


class _CheckResult(NamedTuple):
    """The findings of one check, one for each of its rows, and whether the gateway kept every deadline."""

    claims: list[Finding]
    in_time: bool


Progress = Callable[[str], object]


async def play(
    url: str,
    *,
    tokens: Profile | Path | str,
    only: Iterable[str] = (),
    timeout: float = 5.0,
    progress: Progress | None = None,
    checks: Sequence[Check] = CHECKS,
) -> list[Result]:
    """Runs the checks; returns a result for each selected row, in the order of the specification.

    Args:
        tokens: a profile, or the file that holds one.
        only: ids or globs of ids; empty means all.
        timeout: seconds for each answer of the gateway.
        progress: called with one line for each check.
        checks: the checks to run.

    Raises:
        ConfigError: the URL, the tokens file or `only` cannot be used.
        ConnectionLost: no gateway answers at `url`, or the admin of the profile is not admitted.
    """
    profile = tokens if isinstance(tokens, Profile) else read_profile(tokens)
    try:
        address = GatewayAddress(url)
    except ValueError as fault:
        raise ConfigError(f"{Address(url)!r} is no address of a gateway: {fault}", key="url") from None
    rows = _select(tuple(only))
    name = secrets.token_hex(3)

    def session(number: int) -> CheckSession:
        return CheckSession(address, profile, timeout=timeout, run=f"{name}{number}")

    absent = await _why_unreachable(session(0))
    if absent:
        raise ConnectionLost(
            f"no conformance run at {Address(url)}: {absent}. Is a gateway running there, with a space "
            f"{profile.space!r} that has the participants and tokens of this profile?"
        )
    chosen = [check for check in checks if rows.intersection(check.rows)]
    claims: list[Finding] = []
    silent = ""
    for number, check in enumerate(chosen, 1):
        if silent:
            claims += [Finding(row, False, silent, "") for row in check.rows]
            continue
        findings, in_time = await _run_check(check, session(number))
        claims += findings
        if progress:
            bad = sorted({claim.row for claim in findings if claim.ok is False} & rows & CAN_FAIL)
            progress(f"{number}/{len(chosen)} {check.name}{': failed ' + ' '.join(bad) if bad else ''}")
        if not in_time and (reason := await _why_unreachable(session(number))):
            silent = f"not tried, because the gateway had stopped answering: {reason}"
    if not silent:
        await _revoke_leftovers(session(0))
    return [_result(row, claims) for row in ROWS if row.id in rows]


def _select(only: tuple[str, ...]) -> set[str]:
    ids = {row.id for row in ROWS}
    if not only:
        return ids
    for glob in only:
        if not any(fnmatchcase(id, glob) for id in ids):
            raise ConfigError(
                f"{glob!r} is no row that binds a gateway, nor a glob of such; ids read like P-3.6.8-2, P-3.10*, C-15",
                key="only",
            )
    return {id for id in ids if any(fnmatchcase(id, glob) for glob in only)}


async def _why_unreachable(session: CheckSession) -> str:
    """The reason why the gateway cannot be reached; '' when it can."""
    async with open_session(session):
        try:
            await (await session.join("admin")).settle()
        except NotObserved as fault:
            return str(fault)
    return ""


async def _revoke_leftovers(session: CheckSession) -> None:
    """Revokes the rights that the checks granted, so that a gateway can be checked many times."""
    async with open_session(session):
        with contextlib.suppress(NotObserved):
            admin = await session.join("admin")
            for recipient in ("spare", "worker"):
                for kind in ("lent/*", "capability/grant"):
                    await admin.attempt(session.revoke(recipient, capabilities=[{"kind": kind}]))


async def _why_no_second(session: CheckSession) -> str:
    """The reason why there is no second space to check; '' when there is one. A gateway may serve only one space."""
    if session.profile.second is None:
        return "needs a second space on the same gateway: give the tokens file a `second`"
    async with open_session(session):
        try:
            await session.join("admin", second=True)
        except NotObserved as fault:
            return f"the gateway serves no second space {session.profile.second.space!r} with these tokens: {fault}"
    return ""


async def _run_check(check: Check, session: CheckSession) -> _CheckResult:
    if check.second and (why := await _why_no_second(session)):
        return _CheckResult([Finding(row, None, why, "") for row in check.rows], True)
    why, in_time = "", True
    session.rows = check.rows
    async with open_session(session):
        try:
            async with asyncio.timeout(PATIENCE * session.timeout):
                await check.run(session)
        except NotObserved as fault:
            why, in_time = str(fault), False
        except TimeoutError:
            why, in_time = f"{check.name} did not end within {PATIENCE * session.timeout:g} s", False
        except Exception as fault:  # an answer that the check cannot read is a fault of the gateway
            why = f"an answer was of a form that could not be read ({type(fault).__name__}: {fault})"
    if not why:
        reported = {claim.row for claim in session.findings}
        open_rows = [row for row in check.rows if row not in reported]
        why = "the check ended before it came to this row"
    else:  # a check that has not ended shows nothing
        failed = {claim.row for claim in session.findings if claim.ok is False}
        open_rows = [row for row in check.rows if row not in failed]
    left = [Finding(row, False, why, str(session.transcript)) for row in open_rows]
    return _CheckResult([*session.findings, *left], in_time)


def _result(row: SpecRow, claims: Iterable[Finding]) -> Result:
    mine = [claim for claim in claims if claim.row == row.id]
    failed = [claim for claim in mine if claim.ok is False]
    about = row[:4]
    group = group_of(row.level)
    if failed:
        exchange = next((claim.exchange for claim in failed if claim.exchange), "")
        # A detail quotes messages of the wire, and may contain a token.
        detail = mask("; ".join(dict.fromkeys(claim.detail for claim in failed)))
        return Result(*about, FAILED if row.id in CAN_FAIL else NOT_OFFERED, detail, exchange, group)
    if any(claim.ok for claim in mine):
        return Result(*about, PASSED, "", "", group)
    why = next((claim.detail for claim in mine), row.unseen) or "no check shows it"
    return Result(*about, UNSEEN, mask(why), mask(why), group)
