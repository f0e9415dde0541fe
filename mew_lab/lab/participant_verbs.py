"""`ParticipantVerbs`: what the human of a lab does to one other participant, for synchronous and asynchronous code.

Get one from `lab.of(name)`. Each method sends one message of the specification, blocks until its outcome is known, and
returns one sentence about what was seen. A participant that does not answer in time is told as such. Its value awaits to
itself; on the loop's own thread it is an `Underway` to await.

A method by which something is lost says first what that is and sends nothing. The same call, once more within five
minutes, does it; so does `sure=True` at once.

`lab.actions` sends the controls; `lab.decisions.permissions` grants and revokes. The views use both.

Spec: §3.5.5, §3.6.1, §3.6.2, §3.6.7, §3.9.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Never, TypeVar

from mew_lab.errors import MewError, NoSuchName, NoSuchParticipant
from mew_lab.lab.actions import ACTIONS, ParticipantActions, cancel_sequence
from mew_lab.lab.call_check import hint, name_absent
from mew_lab.lab.decisions.grant_preview import narrowest
from mew_lab.lab.decisions.grant_probe import describe_effect, probe
from mew_lab.lab.decisions.limited_grants import MOST_MINUTES, LimitedGrants, is_minutes
from mew_lab.lab.decisions.permissions import grant_patterns, revoke_permission
from mew_lab.lab.host import capabilities_of
from mew_lab.lab.listing import Listing, Note, Settled
from mew_lab.lab.sentences import phrase
from mew_lab.lab.session import Session, run_work
from mew_lab.lab.standing import ParticipantStanding, logical, standings
from mew_lab.ledger.reasoning import ReasoningSequence
from mew_lab.log.numbering import complete_id
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.text import count_of, local_time
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.arguments import explains_arguments
from mew_lab.sdk.sender import names, tool_call
from mew_lab.settings.waiting import check_seconds

__all__ = ["LossPreview", "Losses", "ParticipantVerbs", "find_standing"]

T = TypeVar("T")
SEEN_WITHIN = 5.0  # seconds to wait for the report of a participant
ANSWERED_WITHIN = 10.0  # seconds to wait for a status
COMPACTED_WITHIN = 60.0  # seconds: a model may have to summarize
REPEATED_WITHIN = 300.0  # seconds for the second call of a method by which something is lost
MOST_SHOWN = 100  # previews that are remembered
MOST_ROWS = 50  # members of a status
MOST_TEXT = 300


class LossPreview(Note):
    """What a method would lose; nothing was sent. The same call once more does it."""


class Losses:
    """The previews of losses that one lab has shown, and when. To be used on the loop."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._shown: BoundedDict[str, float] = BoundedDict(MOST_SHOWN)

    def confirm(self, act: str, text: str) -> LossPreview | None:
        """The preview, where it was not shown within five minutes; None where it was, so that the act may be done."""
        shown = self._shown.pop(act, None)
        if shown is not None and self._clock() - shown <= REPEATED_WITHIN:
            return None
        self._shown[act] = self._clock()
        return LossPreview(f"{text} Nothing was sent yet. Repeat it to do it.")


@explains_arguments
class ParticipantVerbs(Settled):
    """What you do to the participant `name`: pause it, ask for its status, give it permissions, remove it and so on.

    `timeout` is always the time, in seconds, to wait for what is seen of the effect.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        *,
        granting: LimitedGrants,
        losses: Losses,
        find_id: Callable[[str, str, tuple[str, ...]], str],
    ) -> None:
        self.name = name
        self._find_id = find_id
        self._session = session
        self._granting = granting
        self._losses = losses
        self._actions = ParticipantActions(session)

    # --- controls ---

    def pause(self, *, minutes: float | None = None, reason: str = "", timeout: float = SEEN_WITHIN) -> Note:
        """Pauses it: it sends nothing new until `resume`, or for so many minutes. Spec: §3.9.1."""
        if minutes is not None and not is_minutes(minutes):
            raise MewError(
                f"Cannot pause {self.name} for {minutes} minutes: minutes is above 0 and at most {MOST_MINUTES}; "
                "leave it out to pause until you resume it"
            )
        seconds = None if minutes is None else minutes * 60
        return self._act("pause", {"timeout_seconds": seconds, "reason": reason}, timeout)

    def resume(self, *, reason: str = "", timeout: float = SEEN_WITHIN) -> Note:
        """Ends its pause. Spec: §3.9.2."""
        return self._act("resume", {"reason": reason}, timeout)

    def status(self, *, fields: str | Sequence[str] = (), timeout: float = ANSWERED_WITHIN) -> Listing:
        """Asks for its status and lists what it tells, such as the used context, below what the space knows of it.

        Args:
            fields: The members to which the answer may be limited, such as `tokens`.

        Raises:
            NoReply: It did not answer in time.

        Spec: §3.9.3, §3.9.4.
        """

        async def ask() -> Listing:
            standing = self._standing()
            rows: list[tuple[Any, ...]] = [("state", self._state_of(standing))]
            why = self._actions.find_obstacle("status", standing)
            if why:
                return Listing(self.name, ("what", "is"), rows, note=f"It was not asked. {why}")
            telemetry = self._session.me.participant.telemetry
            told = await telemetry.request_participant_status(
                self.name, names(fields) or None, timeout=timeout
            )
            rows += [
                (one_line(key.replace("_", " "), 60), _value_of(value))
                for key, value in list(told.payload.model_dump(exclude_unset=True).items())[:MOST_ROWS]
            ]
            return Listing(self.name, ("what", "is"), rows)

        return self._run(ask(), f"asking {self.name} for its status", timeout)

    def forget(
        self,
        entries: int | None = None,
        *,
        direction: str = "oldest",
        sure: bool = False,
        timeout: float = SEEN_WITHIN,
    ) -> Note:
        """Makes it drop so many messages from the `oldest` or the `newest` end of its context. Spec: §3.9.5."""
        if direction not in ("oldest", "newest"):
            nearest = hint(direction, ("oldest", "newest"))
            raise MewError(
                f"Cannot make {self.name} forget from the {one_line(direction, 40)!r} end{nearest}: direction is "
                "'oldest' or 'newest'"
            )
        return self._act("forget", {"entries": entries, "direction": direction}, timeout, sure=sure)

    def compact(
        self, *, tokens: int | None = None, reason: str = "", timeout: float = COMPACTED_WITHIN
    ) -> Note:
        """Makes it summarize its context, down to so many tokens; returns what that freed. Spec: §3.9.6."""
        return self._act("compact", {"target_tokens": tokens, "reason": reason}, timeout)

    def clear(self, *, reason: str = "", sure: bool = False, timeout: float = SEEN_WITHIN) -> Note:
        """Makes it erase its whole context. Spec: §3.9.8."""
        return self._act("clear", {"reason": reason}, timeout, sure=sure)

    def restart(self, *, reason: str = "", sure: bool = False, timeout: float = SEEN_WITHIN) -> Note:
        """Makes it return to its initial state. Spec: §3.9.9."""
        return self._act("restart", {"reason": reason}, timeout, sure=sure)

    def shutdown(self, *, reason: str = "", sure: bool = False, timeout: float = SEEN_WITHIN) -> Note:
        """Makes it end all activity and leave. Spec: §3.9.10."""
        return self._act("shutdown", {"reason": reason}, timeout, sure=sure)

    def kick(self, *, reason: str = "", sure: bool = False, timeout: float = SEEN_WITHIN) -> Note:
        """Removes it from the space at once; its tokens become invalid. Spec: §3.6.7."""
        return self._act("kick", {"reason": reason}, timeout, sure=sure)

    def _act(self, action: str, options: Mapping[str, Any], timeout: float, *, sure: bool = False) -> Note:
        row = ACTIONS[action]

        async def act() -> Note:
            standing = self._standing()
            if why := self._actions.find_obstacle(action, standing):
                raise MewError(f"Cannot {row.verb} {self.name}: {why}")
            self._actions.check(options)
            if row.loses and not sure:
                preview = self._losses.confirm(
                    compact({"do": action, "to": self.name, **options}), self._tell_loss(action, standing)
                )
                if preview is not None:
                    return preview
            return Note(await self._actions.perform(action, self.name, options, within=timeout))

        return self._run(act(), f"{action} of {self.name}", timeout)

    # --- permissions ---

    def grant(
        self,
        can: str | Sequence[Mapping[str, Any]] | Mapping[str, Any] | None = None,
        *,
        tool: str | None = None,
        minutes: float | None = None,
        uses: int | None = None,
        session: bool = False,
        reason: str = "",
        preview: bool = False,
    ) -> Note:
        """Gives it permissions; `lab.undo()` revokes what was given last.

        Args:
            can: A pattern, a list of patterns, or a profile.
            tool: In their place, `participant/tool`, which it may then call with any arguments.
            minutes: The minutes after which the permission ends, and `uses` the number of messages.
            session: Whether it also ends when this lab goes down.
            preview: Tells what the permission would allow, and gives nothing.

        Raises:
            MewError: A pattern is not valid, you may not grant it, or the gateway refused it.

        Spec: §3.6.1.
        """
        patterns = self._read_patterns(can, tool)

        async def grant() -> Note:
            self._check_other("grant anything to")
            if preview:
                return Note(await self._tell_effect(patterns))
            id, sentence = await grant_patterns(
                self._session,
                self._granting,
                self.name,
                patterns,
                minutes=minutes,
                uses=uses,
                reason=reason,
                until_down=session,
            )
            return Note(f"{sentence} (grant {id})")

        return self._run(grant(), f"granting to {self.name}", None)

    def revoke(
        self,
        what: str | Mapping[str, Any] | None = None,
        *,
        reason: str = "",
        sure: bool = False,
    ) -> Note:
        """Revokes a permission; the same call of `grant` gives it again.

        Args:
            what: The id of a grant, or its beginning; or a pattern, for all that it matches. Default: the grant that
                you gave it, where that is one.

        Raises:
            MewError: There is no such grant, or several; or the gateway refused it.

        Spec: §3.6.2.
        """

        async def revoke() -> Note:
            self._check_other("revoke anything of")
            id = "" if isinstance(what, Mapping) else self._find_grant(what)
            known = self._session.me.participant.rights.grants.get(id) if id else None
            patterns = [what] if isinstance(what, Mapping) else list(known.left if known is not None else ())
            words = "; ".join(phrase(pattern) for pattern in patterns) or f"what the grant {id} gave"
            if not sure:
                act = compact({"do": "revoke", "to": self.name, "what": id or patterns})
                preview = self._losses.confirm(
                    act,
                    f"Revoke a permission of {self.name}: {words}. What it gave to others on it falls too.",
                )
                if preview is not None:
                    return preview
            return Note(
                await revoke_permission(
                    self._session,
                    self._granting,
                    self.name,
                    grant=id,
                    patterns=patterns,
                    reason=reason,
                )
            )

        return self._run(revoke(), f"revoking a permission of {self.name}", None)

    # --- reasoning ---

    def cancel_reasoning(self, which: str | None = None, *, reason: str = "cancelled") -> Note:
        """Cancels its reasoning that goes on: all of it, or the sequence whose id begins so. Spec: §3.5.5."""

        async def cancel() -> Note:
            me = self._session.me.participant
            active = {sequence.id: sequence for sequence in self._actions.find_reasoning(self.name)}
            chosen = self._choose_reasoning(active, which)
            return Note("\n".join([await cancel_sequence(me, sequence, reason) for sequence in chosen]))

        return self._run(cancel(), f"cancelling the reasoning of {self.name}", None)

    def _choose_reasoning(
        self, active: Mapping[str, ReasoningSequence], which: str | None
    ) -> list[ReasoningSequence]:
        if not active:
            raise MewError(f"Cannot cancel the reasoning of {self.name}: none goes on, so nothing was sent")
        if which is None:
            return list(active.values())
        which = self._find_id(which, "cancel the reasoning of", ("reasoning/start",))
        id = complete_id(which, active)
        if id is None:
            going = ", ".join(one_line(id, 60) for id in list(active)[:5])
            raise MewError(
                f"Cannot cancel the reasoning {one_line(which, 60)!r} of {self.name}: it does not go on; {going} does"
            )
        return [active[id]]

    # --- how ---

    def _standing(self) -> ParticipantStanding:
        found = find_standing(self._session, self.name)
        if found is None:
            here = [standing.name for standing in standings(self._session)]
            raise NoSuchParticipant(
                f"{name_absent([self.name], here)}, so nothing was sent", waiting_for=self.name
            )
        return found

    def _state_of(self, standing: ParticipantStanding) -> str:
        if standing.kicked:
            return "removed"
        if not standing.ids:
            return "not connected"
        if standing.shut_down:
            return "shut down"
        if paused_by := self._actions.find_pause(standing):
            until = "" if standing.until is None else f" until {local_time(standing.until)}"
            return f"paused by {one_line(paused_by, 64)}{until}"
        return "here"

    def _check_other(self, doing: str) -> None:
        if self._standing().name == self._session.me.name:
            raise MewError(f"Cannot {doing} {self.name}: this is you")

    def _tell_loss(self, action: str, standing: ParticipantStanding) -> str:
        row = ACTIONS[action]
        begin = f"{row.verb[:1].upper()}{row.verb[1:]} {self.name}: {row.about}. Lost: {row.loses}."
        now = ", ".join(self._at_stake(standing))
        again = " An invitation gives it a new token." if action == "kick" else ""
        return f"{begin}{f' It has {now}.' if now else ''}{again}"

    def _at_stake(self, standing: ParticipantStanding) -> list[str]:
        """What is open with the participant now, in words."""
        me, ids = self._session.me.participant, {*standing.ids, standing.name}
        statuses = [me.telemetry.statuses[id] for id in ids if id in me.telemetry.statuses]
        proposals = sum(one.sender in ids for one in me.ledger.calls.proposals.open())
        streams = sum(stream.owner in ids for stream in me.streams.active.values())
        reasoning = sum(one.owner in ids for one in me.ledger.reasoning.active())
        found = [
            f"{count_of(status.messages_in_context, 'message')} in context"
            for status in statuses[:1]
            if status.messages_in_context
        ]
        counted = (
            (proposals, "open proposal"),
            (streams, "open stream"),
            (reasoning, "open reasoning sequence"),
        )
        return found + [count_of(*each) for each in counted if each[0]]

    def _read_patterns(
        self, can: str | Sequence[Mapping[str, Any]] | Mapping[str, Any] | None, tool: str | None
    ) -> list[dict[str, Any]]:
        if (can is None) == (tool is None):
            raise MewError(
                f"Cannot grant to {self.name} so: give a pattern, a list of them or a profile, or tool='git/git_log'"
            )
        if tool is not None:
            to, payload = tool_call(tool, None)
            return [narrowest(to, payload, values=False)]
        return capabilities_of([can] if isinstance(can, Mapping) else can)  # type: ignore[arg-type]

    async def _tell_effect(self, patterns: Sequence[Mapping[str, Any]]) -> str:
        lines = []
        for pattern in patterns:
            effect = await probe(self._session, self.name, compact(pattern))
            lines += [f"{self.name} might then {effect.phrase}", *describe_effect(effect, self.name)]
            lines += [f"for example {effect.smallest}"] if effect.smallest else []
            lines += [*effect.warnings, *([effect.barred] if effect.barred else [])]
        return "\n  ".join([*lines, "Nothing was granted yet."])

    def _find_grant(self, which: str | None) -> str:
        """The id of a grant to the participant that stands, by its beginning; or of the only one of this person."""
        me = self._session.me
        mine = {me.name, me.participant.client.id}
        grants = [
            grant
            for grant in me.participant.rights.grants
            if grant.stands and logical(self._session, grant.recipient) == self.name
        ]
        held = {right.grant for right in self._standing().rights if right.grant}
        if which is not None:
            which = self._find_id(which, "revoke", ("capability/grant", "space/invite"))
            id = complete_id(which, [*(grant.id for grant in grants), *held])
            if id is None:
                raise MewError(
                    f"Cannot revoke {one_line(which, 60)!r} of {self.name}: no such grant stands"
                    f"{_name_ids([grant.id for grant in grants])}"
                )
            return id
        own = [grant.id for grant in grants if grant.granter in mine]
        if len(own) != 1:
            has = "you gave it none that stands" if not own else f"you gave it {len(own)}"
            raise MewError(
                f"Cannot revoke a permission of {self.name}: {has}{_name_ids(own)}; name a grant, or a pattern such as "
                '{"kind": "chat"}'
            )
        return own[0]

    def _run(self, work: Coroutine[Any, Any, T], doing: str, timeout: float | None) -> T:
        try:
            # The gateway has the time of the lab to accept the message; then the participant has its own.
            within = (
                None if timeout is None else check_seconds(timeout, key="timeout") + self._session.timeout
            )
        except BaseException:
            work.close()
            raise
        return run_work(self._session, work, doing, timeout=within)

    def __getattr__(self, name: str) -> Never:
        known = [each for each in dir(type(self)) if not each.startswith("_")]
        if name.startswith("_"):
            raise AttributeError(name)
        raise NoSuchName(
            f"There is no {one_line(name, 40)!r} for {self.name}{hint(name, known)}; there are {', '.join(known)}"
        )

    def __repr__(self) -> str:
        def look() -> str:
            standing = find_standing(self._session, self.name)
            return "unknown here" if standing is None else self._state_of(standing)

        state = self._session.loop.call(look)
        return f"<{one_line(self.name, 64)} in {self._session.name}: {state}>"


def find_standing(session: Session, name: str) -> ParticipantStanding | None:
    """The standing of a participant, one that has left included; None where nobody is known by that name."""
    name = logical(session, name)
    found = next((standing for standing in standings(session) if standing.name == name), None)
    if found is None and (member := session.me.participant.client.members.get(name)) is not None:
        return ParticipantStanding(member.name, (), (), (), certain=False)
    return found


def _value_of(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    return one_line(value if isinstance(value, str) else compact(value), MOST_TEXT)


def _name_ids(ids: Sequence[str]) -> str:
    shown = ", ".join(one_line(id, 60) for id in ids[:5])
    return f" ({shown}{' …' if len(ids) > 5 else ''})" if ids else ""
