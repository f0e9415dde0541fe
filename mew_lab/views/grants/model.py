"""The capabilities of all participants as rows of the grants editor, each with its origin.

A row is one capability of one participant. It comes from the configuration, from the baseline of all participants, or
from a grant or an invitation. In a space that runs elsewhere, the rows are the capabilities with which a participant
joined and the grants observed since. Rows are replaced, never changed, so any thread may read `rows`; at most 2000.

`probe` computes what a grant would allow; `decisions.limited_grants` ends the limited grants of this human.

Spec: §3.6.1, §3.6.2, §3.6.8, ruling R13.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from mew_lab.errors import MewError
from mew_lab.lab.decisions.grant_probe import read_pattern
from mew_lab.lab.decisions.limited_grants import LimitedGrants
from mew_lab.lab.decisions.permissions import grant_patterns, revoke_permission
from mew_lab.lab.sentences import phrase
from mew_lab.lab.session import Session
from mew_lab.lab.standing import HeldRight, ParticipantStanding, logical, standings
from mew_lab.lab.subscribers import Subscribers
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.ledger import Ledger, LedgerChange
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.visible import one_line
from mew_lab.views.ui.debounce import Debounce

if TYPE_CHECKING:
    from mew_lab.lab.decisions.limited_grants import GivenGrant

__all__ = ["Granted", "Holding", "Holdings"]

MOST_ROWS = 2000
CHANGING = ("capability/", "space/", "system/")  # prefixes of the kinds that change capabilities
GATHERED = 0.05  # seconds; changes within this time cause one refresh


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """One capability of one participant. `pattern` is its JSON, `phrase` a description of the messages it allows.

    `origin` is `configured`, `everybody` (the baseline), `granted`, or `told` (held when it joined a space elsewhere).
    `grant` is the grant's id, `granter` the participant that gave it, `since` its time in seconds of the epoch. `ends`
    describes its limit, and whether its tool has changed since, which ends only grants given here. `against` is the
    reason why the human may not revoke it, empty when that is allowed. `mine` is whether this human granted it.
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
    mine: bool = False


class Granted(NamedTuple):
    """A grant that was given: one sentence, and the key of its row."""

    sentence: str
    key: str


class Holdings:
    """The capabilities of all participants of one lab's space. Made on any thread, followed on the loop's."""

    def __init__(self, session: Session, granting: LimitedGrants) -> None:
        self.rows: tuple[Holding, ...] = ()
        self.holders: tuple[str, ...] = ()
        self._session = session
        self._granting = granting
        self._ledger = Ledger()  # that of the feed, once an envelope has come
        self._revoked: dict[str, Holding] = {}  # here, and can be granted again
        self.changed: Subscribers[()] = Subscribers()
        self._soon = Debounce(self.refresh)
        self._leave = (
            granting.on_change.add(self._on_grant_change),
            granting.on_tool_change.add(lambda: self._soon.within(GATHERED)),
        )

    # --- actions of the human, on the loop ---

    async def grant(
        self,
        to: str,
        text: str,
        *,
        minutes: float | None = None,
        uses: int | None = None,
        session: bool = False,
    ) -> Granted:
        """Grants the pattern in `text` to the participant `to`.

        Args:
            minutes: The minutes after which it ends, and `uses` the number of messages; None for no such limit.
            session: Whether it ends with this lab.

        Raises:
            MewError: the pattern is not valid, the human may not grant it, or the gateway refused it.

        Spec: §3.6.1.
        """
        pattern = read_pattern(text)
        id, sentence = await grant_patterns(
            self._session, self._granting, to, [pattern], minutes=minutes, uses=uses, until_down=session
        )
        return Granted(sentence, _key(to, id, compact(pattern)))

    async def restore(self, key: str) -> str:
        """Grants once more what was revoked here; only a grant of this human without an end.

        Raises:
            MewError: nothing was revoked under that key, or as `grant`.

        Spec: §3.6.1.
        """
        row = self._revoked.pop(key, None)
        if row is None:
            raise MewError("That permission was restored already, or it had an end. Grant it again instead.")
        return (await self.grant(row.holder, row.pattern)).sentence

    async def revoke(self, key: str) -> str:
        """Revokes the grant of a row, or, for a capability without a grant, all that its pattern matches.

        Raises:
            MewError: the row no longer exists or may not be revoked, or the gateway refused it.

        Spec: §3.6.2.
        """
        row = next((row for row in self.rows if row.key == key), None)
        if row is None:
            raise MewError("That permission is no longer held, so nothing was revoked.")
        if row.against:
            raise MewError(row.against)
        sentence = await revoke_permission(
            self._session, self._granting, row.holder, grant=row.grant, patterns=[json.loads(row.pattern)]
        )
        if row.mine and not row.ends:
            self._revoked[row.key] = row
        return sentence

    # --- following, on the loop's thread ---

    def take_changes(self, changes: tuple[LedgerChange, ...], ledger: Ledger) -> None:
        """Takes the ledger, which has the times of grants."""
        self._ledger = ledger

    def take(self, entry: Entry) -> None:
        """Updates the rows soon if one accepted envelope may change them."""
        if not entry.refused and (entry.kind.startswith(CHANGING) or self._uses_limit(entry.grant)):
            self._soon.within(GATHERED)

    def _uses_limit(self, grant: str) -> bool:
        """Whether an envelope that this grant permits uses up one of its uses."""
        core = self._session.host.core if self._session.host is not None else None
        return core is not None and grant in core.state.ends

    def close(self) -> None:
        """Stops following the human's own grants."""
        for leave in self._leave:
            leave()

    def _on_grant_change(self, _: GivenGrant) -> None:
        """Updates the rows soon, because a grant of this human was used or has ended."""
        self._soon.within(GATHERED)

    def refresh(self) -> None:
        """Rebuilds `rows`; calls the subscribers if a row has changed."""
        self._soon.cancel()
        ends = {grant.id: grant.left for grant in self._granting.given if grant.ends or grant.uses}
        all_standings = standings(self._session)
        rows: list[Holding] = []
        for standing in all_standings:
            if len(rows) >= MOST_ROWS:
                break
            against = self._against(standing)
            seen: set[str] = set()
            for right in standing.rights:
                row = self._row(standing, right, right.ends or ends.get(right.grant, ""), against)
                if row.key not in seen:
                    seen.add(row.key)
                    rows.append(row)
        held, holders = tuple(rows[:MOST_ROWS]), tuple(standing.name for standing in all_standings)
        if (held, holders) != (self.rows, self.holders):
            self.rows, self.holders = held, holders
            self.changed.tell()

    def _row(self, standing: ParticipantStanding, right: HeldRight, ends: str, against: str) -> Holding:
        text, since = compact(right.pattern), self._ledger.grants.given_at(right.grant)
        if right.grant and right.grant not in self._granting:
            tool = self._session.decisions.tools.changed_since(right.pattern, since or 0.0)
            changed = f"its tool {one_line(tool, 50)} changed since" if tool else ""
            ends = ", ".join(filter(None, (changed, ends)))
        granter = logical(self._session, right.granter) if right.granter else ""
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
            key=_key(standing.name, right.grant, text),
            holder=standing.name,
            pattern=text,
            phrase=_phrase(text),
            origin=origin,
            grant=right.grant,
            granter=granter,
            since=since,
            ends=ends,
            against=against,
            mine=bool(right.grant) and granter == self._session.me.name,
        )

    def _against(self, standing: ParticipantStanding) -> str:
        me = self._session.me
        if self._session.closed or me.participant.client.state != "ready":
            return "You are not connected to the space."
        if standing.owner:
            return f"{standing.name} owns this space, so its permissions cannot be revoked; change the configuration."
        payload: Mapping[str, Any] = {"recipient": standing.name, "grant_id": "x"}
        if not me.participant.can_send("capability/revoke", payload, (standing.name,)):
            name = one_line(standing.name, 64)
            return f"You don't have permission to revoke permissions of {name} (capability/revoke)."
        return ""


def _key(holder: str, grant: str, text: str) -> str:
    return f"{holder}\n{grant}\n{text}"


@lru_cache(maxsize=5000)
def _phrase(text: str) -> str:
    return phrase(json.loads(text))
