"""The capabilities that everybody holds, as rows of the grants editor, each with its origin.

A row is one capability of one participant. It comes from the configuration, from the baseline that everybody holds, or
from a grant or invite. Where the space runs elsewhere, a participant holds what it joined with and what was seen to be
granted since. Rows are replaced, never changed, so any thread may read `rows`; at most 2000.

What a grant would allow is answered by `probe`; for how long a grant of this person stands, by `decisions.granting`.

Spec: §3.6.1, §3.6.2, §3.6.8, ruling R13.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mew_lab.errors import MewError
from mew_lab.lab.decisions.limited_grants import ENDS_HERE, LimitedGrants
from mew_lab.lab.sentences import phrase
from mew_lab.lab.session import Session
from mew_lab.lab.standing import HeldRight, ParticipantStanding, logical, standings
from mew_lab.lab.subscribers import Subscribers
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.grants import GrantLedger
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.visible import one_line
from mew_lab.views.grants.probe import find_grant_obstacle, read_pattern
from mew_lab.views.ui.debounce import Debounce

if TYPE_CHECKING:
    from mew_lab.lab.decisions.limited_grants import GivenGrant

__all__ = ["Holding", "Holdings"]

MOST_ROWS = 2000
MOST_GRANTS = 2000  # of which it is known when they were given
CHANGING = ("capability/", "space/", "system/")  # beginnings of the kinds that change what is held
GATHERED = 0.05  # seconds in which changes become one


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """One capability of one participant. `pattern` is its JSON, `phrase` what it allows.

    `origin` is `configured`, `everybody` (the baseline), `granted`, or `told` (as it joined; where it comes from is not
    known here). `grant` is the grant's id, `granter` who gave it, `since` when (epoch, seconds). `ends` is when it is
    over, in few words, and whether its tool changed since: only what was given here ends by that. `against` is why the
    human may not revoke it, empty when she may.
    """

    key: str
    holder: str
    pattern: str
    phrase: str
    origin: str
    grant: str = ""
    granter: str = ""
    since: float | None = None
    ends: str = ""
    against: str = ""


class Holdings:
    """What everybody of one lab's space holds. Made on any thread, `follow`ed on the loop's."""

    def __init__(self, session: Session, granting: LimitedGrants) -> None:
        self.rows: tuple[Holding, ...] = ()
        self.holders: tuple[str, ...] = ()
        self._session = session
        self._granting = granting
        self._ledger = GrantLedger(limit=MOST_GRANTS)
        self._subscribers: Subscribers[()] = Subscribers()
        self._soon = Debounce(self.refresh)
        self._leave = (
            granting.on_change.add(self._on_grant_change),
            granting.on_tool_change.add(lambda: self._soon.within(GATHERED)),
        )

    def subscribe(self, on_change: Callable[[], None]) -> Callable[[], None]:
        """Calls back, on the loop's thread, after `rows` were replaced; returns what ends it."""
        return self._subscribers.add(on_change)

    # --- what the human does, on the loop ---

    async def grant(
        self, to: str, text: str, *, minutes: float | None = None, uses: int | None = None
    ) -> str:
        """Lets `to` send what the pattern in `text` allows; one sentence about it.

        Raises:
            MewError: the text is no pattern, the human may not grant it, or the gateway refused it.

        Spec: §3.6.1.
        """
        pattern = read_pattern(text)
        why = find_grant_obstacle(self._session, pattern)
        if why:
            raise MewError(why)
        await self._granting.grant(to, [pattern], minutes=minutes, uses=uses)
        end = "" if minutes is None else f" for {minutes:g} min"
        end += "" if uses is None else f" for {uses} {'use' if uses == 1 else 'uses'}"
        remark = f". {ENDS_HERE}" if end and not self._granting.kept else ""
        return f"{one_line(to, 64)} may now {phrase(pattern)}{end}{remark}"

    async def revoke(self, key: str) -> str:
        """Takes back the grant of a row, or, where it was not granted, all that its pattern matches.

        Raises:
            MewError: the row is not there any more, may not be revoked, or the gateway refused it.

        Spec: §3.6.2.
        """
        row = next((row for row in self.rows if row.key == key), None)
        if row is None:
            raise MewError("That is not held any more, so nothing was revoked.")
        if row.against:
            raise MewError(row.against)
        rights = self._session.me.participant.rights
        if not row.grant:
            await rights.revoke(row.holder, capabilities=[json.loads(row.pattern)])
            return f"{one_line(row.holder, 64)} may no longer {row.phrase}"
        if rights.grants.get(row.grant) is not None:
            await self._granting.revoke(row.grant)
        else:  # an invite, or a grant from before this seat was taken
            await rights.revoke(row.holder, grant_id=row.grant)
        return f"the grant of {one_line(row.granter, 64)} to {one_line(row.holder, 64)} is revoked"

    # --- what is heard, on the loop's thread ---

    def take(self, entry: Entry) -> None:
        """Takes note of one envelope that the gateway let pass."""
        if entry.refused or not (entry.kind.startswith(CHANGING) or self._costs(entry.grant)):
            return
        self._ledger.observe(entry)
        self._soon.within(GATHERED)

    def _costs(self, grant: str) -> bool:
        """Whether what passes by this grant costs a use of it."""
        core = self._session.host.core if self._session.host is not None else None
        return core is not None and grant in core.state.ends

    def close(self) -> None:
        """Stops following the human's own grants."""
        for leave in self._leave:
            leave()

    def _on_grant_change(self, _: GivenGrant) -> None:
        """A grant of the human's own has changed: it was used, or is over."""
        self._soon.within(GATHERED)

    def refresh(self) -> None:
        """Makes `rows` anew; tells the subscribers where something is different."""
        self._soon.cancel()
        ends = {grant.id: grant.left for grant in self._granting.given if grant.ends or grant.uses}
        everybody = standings(self._session)
        rows: list[Holding] = []
        for standing in everybody:
            if len(rows) >= MOST_ROWS:
                break
            against = self._against(standing)
            seen: set[str] = set()
            for right in standing.rights:
                row = self._row(standing, right, right.ends or ends.get(right.grant, ""), against)
                if row.key not in seen:
                    seen.add(row.key)
                    rows.append(row)
        held, holders = tuple(rows[:MOST_ROWS]), tuple(standing.name for standing in everybody)
        if (held, holders) != (self.rows, self.holders):
            self.rows, self.holders = held, holders
            self._subscribers.tell()

    def _row(self, standing: ParticipantStanding, right: HeldRight, ends: str, against: str) -> Holding:
        text, since = compact(right.pattern), self._ledger.given_at(right.grant)
        if right.grant and right.grant not in self._granting:
            tool = self._granting.changed_since(right.pattern, since or 0.0)
            changed = f"its tool {one_line(tool, 50)} changed since" if tool else ""
            ends = ", ".join(filter(None, (changed, ends)))
        origin = (
            "granted"
            if right.grant
            else "everybody"
            if right.baseline
            else "configured"
            if standing.certain
            else "told"
        )
        return Holding(
            key=f"{standing.name}\n{right.grant}\n{text}",
            holder=standing.name,
            pattern=text,
            phrase=_phrase(text),
            origin=origin,
            grant=right.grant,
            granter=logical(self._session, right.granter) if right.granter else "",
            since=since,
            ends=ends,
            against=against,
        )

    def _against(self, standing: ParticipantStanding) -> str:
        me = self._session.me
        if self._session.closed or me.participant.client.state != "ready":
            return "You are not connected to the space."
        if standing.owner:
            return (
                f"{standing.name} owns this space: nothing can be taken from it; the configuration decides."
            )
        payload: Mapping[str, Any] = {"recipient": standing.name, "grant_id": "x"}
        if not me.participant.can_send("capability/revoke", payload, (standing.name,)):
            return f"You ({me.name}) do not hold capability/revoke for {one_line(standing.name, 64)}."
        return ""


@lru_cache(maxsize=5000)
def _phrase(text: str) -> str:
    return phrase(json.loads(text))
