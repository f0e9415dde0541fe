"""The roster view: a person sees the participants of the space, controls them and invites new ones.

Each participant has a row with its presence, kind, capabilities and context usage, and a menu of actions. Changed rows
are sent, at most 200 in a message; the rest of a large space is sent page by page on request. The token of an invitation
stays in the kernel. It is sent once, as the answer to the click of the person that requests it.

`lab.actions` performs the actions.

Spec: §3.6.5, §3.6.7, §3.7, §3.9.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from mew_lab.errors import MewError
from mew_lab.lab.actions import ACTIONS, Agents
from mew_lab.lab.host import join_line
from mew_lab.lab.invitations import Invitation, check_invitation, invite
from mew_lab.lab.sentences import sentence
from mew_lab.lab.session import Session
from mew_lab.ledger.members import PauseFacts
from mew_lab.protocol.profiles import PROFILES, refer_to_patterns
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import middle, one_line, visible
from mew_lab.views.roster.model import GONE, Activity, MemberRow, MemberStatus, RosterModel
from mew_lab.views.ui.acts import Act, ActingView, ActResult
from mew_lab.views.ui.pictures import MOST_ROWS, clock_time, picture
from mew_lab.views.ui.sent_rows import SentRows
from mew_lab.views.ui.space_model import follow_space

__all__ = ["RosterView", "view_of"]

MOST_PATTERNS, PATTERN = 60, 500


def view_of(session: Session) -> RosterView:
    """Makes the view of this space."""
    return RosterView(session, RosterModel(session))


class RosterView(ActingView):
    """The participants of one space. Show it as often as you like."""

    part = "roster"
    title = "roster"
    interval = 0.2

    def __init__(self, session: Session, members: RosterModel, **settings: Any) -> None:
        self._session = session
        self._members = members
        self._sent: SentRows[str, MemberRow] = SentRows()
        # Guards the two below: an invitation ends on the loop's thread, a click arrives on the kernel's.
        self._book = threading.Lock()
        self._tokens: dict[str, Invitation] = {}
        # The invited participant, the time of the invitation, the time at which the token was shown.
        self._invited: dict[str, tuple[str, float, float | None]] = {}
        super().__init__(submit=session.loop.submit, **settings)
        self.on_close(follow_space(session, members, self.wake))

    # Messages to the views.

    def _snapshot(self, start: int) -> dict[str, Any]:
        rows = self._first_who_is_here()
        return {
            "profiles": [[name, sentence(patterns)] for name, patterns in PROFILES.items()],
            "deeds": [[name, action.about, action.grave] for name, action in ACTIONS.items()],
            "rows": [_pack(row) for row in rows[:MOST_ROWS]],
        }

    def _news(self) -> list[dict[str, Any]]:
        changed, _, is_cut = self._sent.take({row.name: row for row in self._members.rows})
        if is_cut:
            self.wake()
        # Most changes are a new state or status alone, which is sent without the capabilities.
        fresh = [_pack(row) for row, known in changed if not _is_status_alone(row, known)]
        statuses = [
            [row.name, _pack_status(row.status), _pack_doing(row.doing)]
            for row, known in changed
            if _is_status_alone(row, known)
        ]
        items: list[dict[str, Any]] = [{"t": "rows", "rows": fresh}] if fresh else []
        return [*items, {"t": "told", "told": statuses}] if statuses else items

    def _first_who_is_here(self) -> list[MemberRow]:
        """The rows with the present participants first, so that a page leaves out those that are gone."""
        return sorted(self._members.rows, key=lambda row: row.presence in GONE)

    def _heading(self) -> dict[str, Any]:
        rows = self._members.rows
        counts: dict[str, int] = {}
        for row in rows:
            counts[row.presence] = counts.get(row.presence, 0) + 1
        with self._book:
            invited = [
                {"id": id, "name": visible(name), "at": at, "shown": shown}
                for id, (name, at, shown) in self._invited.items()
            ]
        return {
            "space": visible(self._session.space),
            "total": len(rows),
            "agents": [len(names) for names in self._members.agents],
            "counts": list(counts.items()),
            "barred": self._barred(),
            "may": self._may(),
            "invited": invited,
        }

    def _barred(self) -> str:
        """The reason why the human may not invite; empty when that is allowed."""
        if not self._is_connected():
            return "You are not connected to the space."
        return "" if self._may()["invite"] else "You don't have permission to invite people."

    def _is_connected(self) -> bool:
        return not self._session.closed and self._session.me.participant.client.state == "ready"

    def _may(self) -> dict[str, bool]:
        """Whether the human has the permissions for acts that are not shown without them."""
        me = self._session.me.participant
        return {
            "invite": me.can_send("space/invite", {"participant_id": "somebody"}),
            "kick": self._members.steering.may_remove(),
            "pause": me.can_send("participant/pause", {}, ("somebody",)),
        }

    # Requests of the views.

    def _acts(self) -> Mapping[str, Act]:
        return {
            "do": self._do,
            "pause all": self.pause_agents,
            "resume all": self.resume_agents,
            "invite": self._invite,
            "reveal": self._reveal,
            "more": self._more,
        }

    def _do(
        self,
        deed: str,
        target: str,
        reason: str = "",
        timeout_seconds: float | None = None,
        direction: str = "",
        entries: float | None = None,
        target_tokens: float | None = None,
    ) -> Coroutine[Any, Any, str]:
        if self._members.find(target) is None:
            raise MewError("That participant is not in this list, so nothing was sent.")
        choices = {
            "reason": reason,
            "timeout_seconds": timeout_seconds,
            "direction": direction,
            "entries": entries,
            "target_tokens": target_tokens,
        }
        made = {name: value for name, value in choices.items() if value not in (None, "")}
        return self._members.steering.perform(deed, target, made)

    def _invite(
        self, name: str, can: str = "", patterns: str = "", reason: str = ""
    ) -> Coroutine[Any, Any, ActResult]:
        if not name.strip():
            raise MewError(
                "Cannot invite a participant without an id: give one of letters, digits, dots and dashes."
            )
        chosen = _read_patterns(can, patterns)
        check_invitation(self._session, chosen)
        return self._create_invitation(name.strip(), chosen, reason)

    async def _create_invitation(
        self, name: str, patterns: list[dict[str, Any]] | None, reason: str
    ) -> ActResult:
        invitation = await invite(self._session.me.participant, name, patterns, reason=reason or None)
        with self._book:
            self._tokens[invitation.id] = invitation
            self._invited[invitation.id] = (invitation.participant, self.clock().timestamp(), None)
        self.wake()
        return ActResult(f"{name} is invited; its token is ready, and can be shown once")

    def _reveal(self, id: str) -> ActResult:
        with self._book:
            invitation = self._tokens.pop(id, None)
            name, at, shown = self._invited.get(id, ("", 0.0, None))
            if invitation is not None:
                shown = self.clock().timestamp()
                self._invited[invitation.id] = (name, at, shown)
        if invitation is None:
            when = f" at {clock_time(shown)}" if shown is not None else ""
            again = "; to create a new one, remove the participant and invite it again"
            raise MewError(
                f"The token was shown{when}, and is not shown twice{again}."
                if name
                else "There is no such token."
            )
        self.wake()
        line = join_line(invitation.url or "URL", space=self._session.space, token_env="MEW_TOKEN")
        return ActResult(
            f"The token of {name} is shown this once",
            {"token": invitation.token.reveal(), "url": visible(invitation.url), "line": visible(line)},
        )

    def _more(self, after: int) -> ActResult:
        rows = self._first_who_is_here()[max(0, after) :][:MOST_ROWS]
        return ActResult(f"{len(rows)} more", [_pack(row) for row in rows])

    # Saved pictures.

    @property
    def paused_agents(self) -> tuple[str, ...]:
        """The agents that this human has paused."""
        return self._members.agents.paused

    @property
    def present(self) -> int:
        """The number of present participants."""
        return sum(bool(row.ids) for row in self._members.rows)

    @property
    def agents(self) -> Agents:
        """The agents that run, and those that this human has paused. For any thread."""
        return self._members.agents

    def pause_agents(self) -> Future[str]:
        """Pauses all agents that run; the result is one sentence. Spec: §3.9.1."""
        return self._session.loop.submit(self._members.steering.pause_all())

    def resume_agents(self) -> Future[str]:
        """Resumes the agents that this human has paused; the result is one sentence. Spec: §3.9.2."""
        return self._session.loop.submit(self._members.steering.resume_all())

    def badge(self) -> str:
        """The number of present participants, as text."""
        return f"{self.present} here"

    def _static_text(self) -> str:
        rows = self._members.rows
        here = sum(bool(row.ids) for row in rows)
        return f"Participants of {self._session.space}: {len(rows)}, {here} connected"

    def _static_html(self) -> str:
        rows = self._first_who_is_here()
        cells = [
            (
                _describe(row),
                f"{row.name}{' (you)' if row.you else ''}",
                row.kind,
                " · ".join(row.chips) or "none",
                _status(row.status),
            )
            for row in rows[:MOST_ROWS]
        ]
        left_out = len(rows) - len(cells)
        title = f"Participants of {self._session.space}: {len(rows)} in all"
        note = (
            f"Not shown: {count_of(left_out, 'more participant')}; lab.who() lists all." if left_out else ""
        )
        empty = 'No participant is here yet. lab.join("helper") adds one.'
        columns = ("state", "participant", "kind", "permissions", "status")
        return picture(title, columns, cells, notes=[note], empty=empty, code=("participant",))


def _read_patterns(can: str, text: str) -> list[dict[str, Any]] | None:
    """The capability patterns chosen in the form; None for the starter profile."""
    if can in ("", "starter"):
        return None
    if can in PROFILES:
        return [dict(pattern) for pattern in PROFILES[can]]
    try:
        patterns = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise MewError(refer_to_patterns(f"The patterns are not JSON: {one_line(str(fault), 200)}")) from None
    patterns = [patterns] if isinstance(patterns, dict) else patterns
    if not isinstance(patterns, list) or not all(isinstance(pattern, dict) for pattern in patterns):
        raise MewError(refer_to_patterns('The patterns must be a list such as [{"kind": "chat"}].'))
    return patterns


def _is_status_alone(row: MemberRow, known: MemberRow | None) -> bool:
    """Whether only the state or the status of a row has changed."""
    return known is not None and replace(known, status=row.status, doing=row.doing) == row


def _pack(row: MemberRow) -> dict[str, Any]:
    """A row as the views get it: `id`, which a view sends back, and visible text."""
    patterns = [one_line(pattern, PATTERN) for pattern in row.patterns[:MOST_PATTERNS]]
    return {
        "id": row.name,
        "name": middle(row.name, 40),
        "whole": visible(row.name[:300]),
        "you": row.you,
        "what": one_line(row.what, 80),
        "kind": row.kind,
        "hue": row.hue,
        "doing": _pack_doing(row.doing),
        "chips": list(row.chips),
        "presence": row.presence,
        "since": row.since,
        "ids": [one_line(id, 80) for id in row.ids if id != row.name][:8],
        "sentence": row.sentence,
        "patterns": patterns,
        "left": len(row.patterns) - len(patterns),
        "told": _pack_status(row.status),
        "paused": None if row.paused is None else _pack_pause(row.paused),
        "against": dict(row.against),
    }


def _pack_doing(doing: Activity) -> list[Any]:
    return [doing.state, doing.since, one_line(doing.about, 200)]


def _pack_pause(paused: PauseFacts) -> dict[str, Any]:
    return {
        "by": one_line(paused.by, 64),
        "reason": paused.reason,
        "since": paused.since,
        "until": paused.until,
    }


def _pack_status(status: MemberStatus | None) -> dict[str, Any] | None:
    if status is None:
        return None
    return status._asdict() | {
        "usage": status.usage,
        "near_limit": status.near_limit,
        "more": [list(p) for p in status.more],
    }


def _describe(row: MemberRow) -> str:
    """The state of a participant in words, as the live view has it."""
    if row.presence != "here":
        return row.presence + (f" {_until(row.paused)}" if row.paused else "")
    words = {"waiting": "waiting for you", "failed": f"failed: {row.doing.about}"}
    return words.get(row.doing.state, row.doing.state)


def _until(paused: PauseFacts) -> str:
    by = f"by {one_line(paused.by, 64)}"
    return f"{by} until resumed" if paused.until is None else f"{by} until {clock_time(paused.until)}"


def _status(status: MemberStatus | None) -> str:
    if status is None:
        return ""
    parts = [status.status] if status.status else []
    if status.tokens is not None:
        most = status.max_tokens
        parts.append(f"{status.tokens} of {most} tokens" if most else count_of(status.tokens, "token"))
    if status.messages is not None:
        parts.append(count_of(status.messages, "message"))
    if status.latency_ms is not None:
        parts.append(f"{status.latency_ms:g} ms")
    return f"{', '.join(parts)} (reported at {clock_time(status.at)})"
