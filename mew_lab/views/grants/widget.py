"""The grants editor: a person sees the capabilities of each participant, grants capabilities and revokes them.

A table has every capability with its origin. A form turns the choices of the person into one pattern, which it shows as
text. While the pattern is written, the kernel computes what it would change; only the newest request is computed to its
end. Changed rows are sent, at most 200 in a message. A view shows 200 rows, of one participant or of all.

Spec: §3.6.1, §3.6.2, §3.6.8; threat 22.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mew_lab.errors import MewError
from mew_lab.lab.decisions.grant_probe import Probe, describe_effect, probe
from mew_lab.lab.decisions.limited_grants import LimitedGrants
from mew_lab.lab.report import gather_tools
from mew_lab.lab.sentences import phrase
from mew_lab.lab.session import Session
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.permit import PROFILES
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import middle, one_line, visible
from mew_lab.views.grants.model import Holding, Holdings
from mew_lab.views.grants.playground import Playground, pack_answer, read_supposition
from mew_lab.views.ui.acts import Act, ActingView, ActResult
from mew_lab.views.ui.pictures import MOST_ROWS, clock_time, picture
from mew_lab.views.ui.sent_rows import SentRows
from mew_lab.views.ui.space_model import follow_space

__all__ = ["GrantsView", "view_of"]

PATTERN = 2000
MOST_HOLDERS = 1000
MOST_TOOLS = 300
GROUPS = ("mine", "granted", "configured", "everybody", "told")
PATIENCE = 3.0  # seconds for the answers to the requests for tools


def view_of(session: Session, granting: LimitedGrants) -> GrantsView:
    """Makes the view of this space."""
    return GrantsView(session, Holdings(session, granting))


class GrantsView(ActingView):
    """The grants editor of one space. Show it as often as you like."""

    part = "grants"
    title = "grants"
    interval = 0.1

    def __init__(self, session: Session, holdings: Holdings, **settings: Any) -> None:
        self._session = session
        self._holdings = holdings
        self._sent: SentRows[str, Holding] = SentRows()
        self._question = 0
        self._supposed = 0
        self._playground = Playground(session.log)
        super().__init__(submit=session.loop.submit, **settings)
        self.on_close(follow_space(session, holdings, self.wake))
        self.on_close(holdings.close)

    # Messages to the views.

    def _snapshot(self, start: int) -> dict[str, Any]:
        # What this human granted comes first: a view shows it before anything else is chosen.
        rows = sorted(self._holdings.rows, key=lambda row: not row.mine)[:MOST_ROWS]
        return {
            "choices": _choices(),
            "profiles": list(PROFILES),
            "rows": [_pack(row) for row in rows],
        }

    def _news(self) -> list[dict[str, Any]]:
        rows = {row.key: row for row in self._holdings.rows}
        changed, gone, is_cut = self._sent.take(rows)
        if is_cut:
            self.wake()
        if not changed and not gone:
            return []
        # Each row is inserted after its predecessor, so that the rows of one holder stay together.
        before = dict(zip(rows, ("", *rows), strict=False))
        packed = [_pack(row) | {"after": before[row.key]} for row, _ in changed]
        return [{"t": "rows", "rows": packed, "gone": gone}]

    def _heading(self) -> dict[str, Any]:
        rows = self._holdings.rows
        holders = [[name, middle(name, 40)] for name in self._holdings.holders[:MOST_HOLDERS]]
        return {
            "space": visible(self._session.space),
            "total": len(rows),
            "groups": [[group, sum(_group(row) == group for row in rows)] for group in GROUPS],
            "holders": holders,
        }

    # Requests of the views.

    def _acts(self) -> Mapping[str, Act]:
        return {
            "probe": self._probe,
            "suppose": self._suppose,
            "grant": self._grant,
            "revoke": self._holdings.revoke,
            "restore": self._holdings.restore,
            "tools": self._tools,
            "of": self._of,
        }

    async def _probe(self, to: str, pattern: str) -> ActResult:
        number = self._question = self._question + 1
        try:
            result = await probe(self._session, to, pattern, wanted=lambda: number == self._question)
        except MewError as fault:
            # A half-written pattern is no failure that a person has to dismiss.
            return ActResult("", {"fault": one_line(str(fault), 300)})
        return ActResult("", _pack_probe(result, to))

    async def _suppose(self, to: str, profile: str, pattern: str) -> ActResult:
        number = self._supposed = self._supposed + 1
        try:
            supposed = read_supposition(to, profile, pattern)
            answer = await self._playground.suppose(supposed, wanted=lambda: number == self._supposed)
        except MewError as fault:
            return ActResult("", {"fault": visible(one_line(str(fault), 400))})
        return ActResult("", None if answer is None else pack_answer(supposed, answer))

    async def _grant(
        self,
        to: str,
        pattern: str,
        minutes: float | None = None,
        uses: int | None = None,
        session: bool = False,
    ) -> ActResult:
        granted = await self._holdings.grant(to, pattern, minutes=minutes, uses=uses, session=session)
        return ActResult(granted.sentence, {"key": granted.key})

    async def _tools(self) -> ActResult:
        found = await gather_tools(self._session, None, patience=PATIENCE)
        names = [
            [owner, str(tool.get("name"))[:128], one_line(f"{owner}/{tool.get('name')}", 80)]
            for owner, tool in found.listed[:MOST_TOOLS]
        ]
        text = "; ".join([count_of(len(found.listed), "tool"), *found.remarks])
        return ActResult(one_line(text, 200), names)

    def _of(self, holder: str, group: str) -> ActResult:
        rows = [
            row for row in self._holdings.rows if holder in ("", row.holder) and group in ("", _group(row))
        ]
        return ActResult(count_of(len(rows), "permission"), [_pack(row) for row in rows[:MOST_ROWS]])

    # Saved pictures.

    def badge(self) -> str:
        """The number of granted capabilities, as text; empty for none."""
        granted = sum(bool(row.grant) for row in self._holdings.rows)
        return f"{granted} granted" if granted else ""

    def _static_text(self) -> str:
        rows = self._holdings.rows
        granted = sum(bool(row.grant) for row in rows)
        return f"Permissions in {self._session.space}: {len(rows)}, {granted} of them granted"

    def _static_html(self) -> str:
        # Of many rows the granted ones are the most important.
        rows = sorted(self._holdings.rows, key=lambda row: bool(row.grant))
        cells = [(row.holder, row.phrase, row.pattern[:PATTERN], _origin(row)) for row in rows]
        title = f"Permissions in {self._session.space}: {len(rows)} in all"
        columns = ("participant", "may", "pattern", "from")
        empty = 'No participant holds a permission yet. lab.join("helper") adds a participant.'
        return picture(title, columns, cells, empty=empty, code=("participant", "pattern"))


def _choices() -> list[list[Any]]:
    """Each pattern of the profiles once, as [its JSON, its description, the profiles with it]."""
    profiles_by_text: dict[str, list[str]] = {}
    for name, patterns in PROFILES.items():
        for pattern in patterns:
            profiles_by_text.setdefault(compact(pattern), []).append(name)
    return [[text, phrase(json.loads(text)), profiles] for text, profiles in profiles_by_text.items()]


def _origin(row: Holding) -> str:
    since = f" at {clock_time(row.since)}" if row.since is not None else ""
    ends = f", {row.ends}" if row.ends else ""
    origins = {
        "granted": f"granted by {row.granter}{since}{ends} ({row.grant})",
        "everybody": "default for everyone",
        "configured": "from configuration",
        "told": "held when it joined",
    }
    return origins[row.origin]


def _group(row: Holding) -> str:
    """The group under which a view lists a row; one of GROUPS."""
    return "mine" if row.mine else row.origin


def _pack(row: Holding) -> dict[str, Any]:
    """A row as the views get it: `key` and `who`, which a view sends back, and visible text."""
    return {
        "key": row.key,
        "who": row.holder,
        "holder": middle(row.holder, 40),
        "phrase": row.phrase,
        "pattern": one_line(row.pattern, PATTERN),
        "origin": row.origin,
        "group": _group(row),
        "undoable": row.mine and not row.ends,
        "grant": middle(row.grant, 13),
        "whole": one_line(row.grant, 300),
        "granter": middle(row.granter, 40),
        "since": row.since,
        "ends": one_line(row.ends, 80),
        "against": row.against,
    }


def _pack_probe(result: Probe, to: str) -> dict[str, Any]:
    examples = [
        [example.t, visible(example.kind), visible(", ".join(example.to[:8])), example.what]
        for example in result.examples
    ]
    return {
        "phrase": result.phrase,
        "adds": result.adds,
        "lines": describe_effect(result, one_line(to, 64)),
        "examples": examples,
        "smallest": result.smallest,
        "barred": result.barred,
        "warnings": list(result.warnings),
    }
