"""Says which messages of a log would have been allowed or denied under other rights.

How it works
------------
The first-order answer judges each message alone: in the state of the space in which it came, with the rights of its
sender replaced. What would have followed from a message that was denied, or allowed, instead is not followed: a grant
that would not have been given still counts for later messages. The state in between is that of `StateReplay`. Where the
kind of a message decides, its text is not read; a message whose outcome may depend on more is planned by the space.

The exact answer replays every event in a new space whose enrolments and grants are the changed ones. It follows all
consequences within the space. It cannot know what participants would have sent instead.

Of a long refused message only the beginning is kept (R30). Where its text decides, it is counted as unknown.

Spec: §3.6.8, §4.2, rulings R11 and R30.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from mew_lab.errors import ConfigError, JournalError, MewError
from mew_lab.log.line import read_line, read_members
from mew_lab.log.reading import vantage_of
from mew_lab.log.redaction import masked_markup
from mew_lab.log.replay import CAUSED, Player, event_of
from mew_lab.log.state_replay import LineHeader, StateReplay, top_level
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.kinds import HANDLES
from mew_lab.protocol.own import OWN
from mew_lab.protocol.permit import CLOSED, NARROW, Capability, CapabilitySet
from mew_lab.protocol.profiles import PROFILES, refer_to_patterns
from mew_lab.protocol.text import count_of, parse_timestamp
from mew_lab.protocol.visible import one_line, visible
from mew_lab.space.core import RULES, Space
from mew_lab.space.events import Enrolled, Event, Received, Record, RefusedBefore, outline
from mew_lab.space.rights import Held, Rights
from mew_lab.space.state import Handle, Member

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BEFORE_RIGHTS", "OtherRights", "OtherVerdict", "WhatIf", "judge_alone", "replay_changed"]

Patterns = Sequence[Mapping[str, Any]] | str
"""Capabilities, or the name of a profile."""
BEFORE_RIGHTS = frozenset(
    {
        *("invalid_json", "invalid_envelope", "invalid_number", "unsupported_protocol", "identity_mismatch"),
        *("reserved_id", "reserved_kind", "paused", "shut_down", "message_too_large"),
    }
)
"""Codes of refusals that are decided before the rights of the sender."""
RIGHTS = "capability_violation"
ABSENT = "absent"
"""The code of a message that would not have come, because its sender would not have been there."""
SHOWN = 30  # rows in a notebook
_GIVING = frozenset({"capability/grant", "space/invite"})
_MEMBERS = {"capability/grant": "capabilities", "space/invite": "initial_capabilities"}
_TAKING = frozenset(kind.encode() for kind in {*HANDLES, "chat"} - RULES.keys())
_GRANTING = frozenset(kind.encode() for kind in _GIVING)
_PLANNED = frozenset(kind.encode() for kind in {*RULES, *OWN})  # capabilities alone do not decide these
_LONG = 64 * 1024  # bytes of a line that may cost more to judge than a message may
_CHEAP = 64  # of the limit of a message, so many times over: sets that cost less never reach it


class OtherVerdict(NamedTuple):
    """A message whose verdict would have been another one.

    `was` and `would` are `accepted` or `refused`, with the code of the refusal; `absent` where its sender would not have
    been in the space. `pattern` is the capability by which it
    was, or would have been, accepted.
    """

    seq: int
    time: datetime
    participant: str
    id: str
    kind: str
    was: str
    was_code: str
    would: str
    would_code: str
    pattern: str


class WhatIf:
    """The messages of a log that other rights would have allowed or denied instead.

    Attributes:
        rows: These messages, in the order of the log.
        judged: How many messages were judged: those of the participants whose rights are others; where `exact`, all.
        unknown: How many refused messages could not be judged, because only their beginning is kept.
        exact: Whether consequences were followed.
        snapshot: Whether only those behind the snapshot with which the journal begins were followed.
        edition: The edition of the rules at the end of the log.
        closed: Whether closed capabilities were supposed, which rules before NARROW read as open ones.
    """

    def __init__(
        self,
        rows: Sequence[OtherVerdict],
        *,
        judged: int,
        unknown: int,
        exact: bool,
        snapshot: bool = False,
        edition: int = NARROW,
        closed: bool = False,
    ) -> None:
        self.rows = tuple(rows)
        self.judged = judged
        self.unknown = unknown
        self.exact = exact
        self.snapshot = snapshot
        self.edition = edition
        self.closed = closed

    @property
    def allowed(self) -> tuple[OtherVerdict, ...]:
        """The messages that were refused and would have been accepted."""
        return tuple(row for row in self.rows if row.would == "accepted")

    @property
    def denied(self) -> tuple[OtherVerdict, ...]:
        """The messages that were accepted and would have been refused."""
        return tuple(row for row in self.rows if row.would == "refused")

    @property
    def about(self) -> str:
        """How the answer was found, as one sentence."""
        if self.exact and self.snapshot:
            return (
                "Exact from the snapshot on with which the journal begins: all events behind it were replayed under the "
                "other rights, with every consequence in the space; what stood in it stands."
            )
        if self.exact:
            return (
                "Exact: all events were replayed under the other rights, with every consequence in the space."
            )
        return (
            "First-order: each message is judged alone under the other rights; consequences of messages that would "
            "have been allowed or denied are not followed (exact=True follows them)."
        )

    @property
    def remark(self) -> str:
        """A sentence where the rules of the log ignore a part of what is supposed; empty where they do not."""
        if not self.closed or self.edition >= NARROW:
            return ""
        return f"The rules of this log (edition {self.edition}) ignore {CLOSED}: other arguments counted as allowed."

    @property
    def frame(self) -> pd.DataFrame:
        """The messages as a table, both verdicts side by side, with its columns also where it has no rows."""
        from mew_lab.log.shown_frame import ShownFrame

        frame = ShownFrame(list(self.rows), columns=list(OtherVerdict._fields))
        return frame.astype({"seq": "int64", "time": "datetime64[us, UTC]"})

    def __str__(self) -> str:
        text = (
            f"{count_of(len(self.allowed), 'message')} would have been allowed, "
            f"{count_of(len(self.denied), 'message')} denied, of {count_of(self.judged, 'message')} judged"
        )
        if self.unknown:
            text += (
                f"; {count_of(self.unknown, 'refused message')} not known, since only the beginning is kept"
            )
        ignored = f" {self.remark}" if self.remark else ""
        return f"{text}. {self.about}{ignored}"

    def __repr__(self) -> str:
        return f"<WhatIf: {self}>"

    def _repr_html_(self) -> str:
        names = OtherVerdict._fields
        head = "".join(f"<th>{name}</th>" for name in names)
        body = "".join(
            f"<tr>{''.join(f'<td>{html.escape(visible(one_line(str(value), 160)))}</td>' for value in row)}</tr>"
            for row in self.rows[:SHOWN]
        )
        more = f"<p>and {len(self.rows) - SHOWN} more</p>" if len(self.rows) > SHOWN else ""
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if self.rows else ""
        return masked_markup(f"<div><p>{html.escape(str(self))}</p>{table}{more}</div>")


class OtherRights:
    """The rights that are supposed.

    Args:
        capabilities: By participant, the configured capabilities in the place of its own, or the name of a profile.
        more: By participant, capabilities that it holds besides, or the name of a profile.
        grants: By id of a grant or invitation of the log, the capabilities that it gives instead; None: none at all.

    Raises:
        ConfigError: when a capability is none, or a profile is unknown; with its key path.
    """

    def __init__(
        self,
        *,
        capabilities: Mapping[str, Patterns] | None = None,
        more: Mapping[str, Patterns] | None = None,
        grants: Mapping[str, Patterns | None] | None = None,
    ) -> None:
        self.configured = _compile_all(capabilities, "capabilities")
        self.more = _compile_all(more, "more")
        self.grants = _compile_all(grants, "grants")
        if not (self.configured or self.more or self.grants):
            raise ConfigError(
                "nothing is supposed: give capabilities={participant: […]}, more={participant: […]} or grants={id: […]}"
            )

    @property
    def closed(self) -> bool:
        """Whether one of them is closed."""
        every = (*self.configured.values(), *self.more.values(), *self.grants.values())
        return any(capability.closed for capabilities in every for capability in capabilities)

    def of(self, space: Space, member: Member) -> Rights:
        """The rights that the member would hold where it holds its present ones, by the rules of the space."""
        name, held = member.name, member.rights.held
        edition = space.state.edition
        if name in self.configured:
            configured = space.state.configured_rights(_read(self.configured[name], edition)).held
        else:
            configured = tuple(right for right in held if not right.grant)
        own = [*configured, *(Held(capability) for capability in _read(self.more.get(name, ()), edition))]
        for right in held:
            if right.grant and right.grant not in self.grants:
                own.append(right)
        for id, capabilities in self.grants.items():
            given = next((right for right in held if right.grant == id), None)
            if given is not None:
                own += [given._replace(capability=capability) for capability in _read(capabilities, edition)]
        return Rights(own)

    def concerns(self, member: Member) -> bool:
        """Whether the rights of the member would be others."""
        return (
            member.name in self.configured
            or member.name in self.more
            or (bool(self.grants) and any(right.grant in self.grants for right in member.rights.held))
        )

    def apply(self, event: Event, record: Record) -> Event:
        """The event in the place of one of the log: another enrolment, or another grant."""
        if isinstance(event, Enrolled):
            name = event.participant
            own = (
                [capability.pattern for capability in self.configured[name]]
                if name in self.configured
                else list(event.capabilities)
            )
            return event._replace(
                capabilities=(*own, *(capability.pattern for capability in self.more.get(name, ())))
            )
        if isinstance(event, Received) and self.grants and record.verdict == "accepted":
            members = read_members(event.text) or {}
            kind, payload = members.get("kind"), members.get("payload")
            id = (read_members(record.raw or "") or {}).get("id")
            if kind in _GIVING and id in self.grants and isinstance(payload, dict):
                patterns = [capability.pattern for capability in self.grants[id]]
                return event._replace(
                    text=compact({**members, "payload": {**payload, _MEMBERS[kind]: patterns}})
                )
        return event

    def check_names(self, participants: Iterable[str], grants: Iterable[str]) -> None:
        """Checks that the log knows every participant and grant that is named.

        Raises:
            ConfigError: when it does not.
        """
        known = sorted(participants)
        for name in (*self.configured, *self.more):
            if name not in known:
                raise ConfigError(
                    f"no participant {one_line(name, 60)!r} is in this log; it has {one_line(', '.join(known), 300)}"
                )
        given = set(grants)
        for id in self.grants:
            if id not in given:
                raise ConfigError(
                    f"no grant {one_line(id, 60)!r} is in this log; log.at(seq).grants lists those of a point"
                )


def _read(capabilities: Iterable[Capability], edition: int) -> tuple[Capability, ...]:
    return tuple(Capability.kept(capability.pattern, edition=edition) for capability in capabilities)


def _compile_all(given: object, argument: str) -> dict[str, tuple[Capability, ...]]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        key = "id of a grant" if argument == "grants" else "participant"
        raise ConfigError(f"{argument} is a dict, such as {{'{key}': [{{'kind': 'chat'}}]}}", key=argument)
    return {
        key: () if patterns is None and argument == "grants" else _compile(patterns, f"{argument}.{key}")
        for key, patterns in given.items()
    }


def _compile(patterns: Patterns, key: str) -> tuple[Capability, ...]:
    if isinstance(patterns, str):
        if patterns not in PROFILES:
            raise ConfigError(
                f"there is no profile {patterns[:60]!r}; use {', '.join(PROFILES)} or a list of capabilities",
                key=key,
            )
        patterns = PROFILES[patterns]
    if isinstance(patterns, Mapping) or not isinstance(patterns, Iterable):
        raise ConfigError("capabilities are a list of objects with a kind, or the name of a profile", key=key)
    try:
        return tuple(Capability.of(pattern, key=f"{key}[{at}]") for at, pattern in enumerate(patterns))
    except ConfigError as fault:
        raise ConfigError(refer_to_patterns(str(fault)), key=fault.key) from None


# --- first order ---


def judge_alone(lines: Iterable[bytes], rights: OtherRights, *, name: str = "the journal") -> WhatIf:
    """Judges each message of a journal alone, under other rights of its sender.

    Args:
        lines: The lines of the journal that are whole and not blank, in order.

    Raises:
        JournalError: when the journal cannot be replayed.
        ConfigError: when a participant or grant that is named does not occur in it.
    """
    judge = _Judge(rights, name)
    for line in lines:
        judge.take(line)
    return judge.end()


class _Sets(NamedTuple):
    """The rights of one member, and those that it would hold instead; `by_kind` has what is known of a kind."""

    present: Rights
    instead: Rights
    by_kind: dict[bytes, bool | None]
    cheap: bool


class _Judge:
    """A first-order judgement, line by line."""

    def __init__(self, rights: OtherRights, name: str) -> None:
        self._rights = rights
        self._replay = StateReplay(name, keep_ids=True)
        self._sets: dict[str, _Sets | None] = {}
        self._present: dict[str, Rights] = {}
        self._rows: list[OtherVerdict] = []
        self._judged = self._unknown = 0
        self._grants: set[str] = set()
        self._began = False

    def take(self, line: bytes) -> None:
        header, mark = self._replay.read_header(line)
        if header is None or header.event != "received":
            self._take_other(line)
            return
        space = self._replay.space
        if space is not None:
            self._judge(space, header, line, mark)
        self._replay.take_line(line)
        # A message that is replayed takes its id there.
        if space is not None and header.verdict == "accepted":
            kind, id = top_level(line, mark)
            if kind is None or id is None:
                record = read_line(line)
                named = _named(record) if record is not None else (b"", "")
            elif kind in _TAKING or kind in _GRANTING:
                named = kind, id.decode("utf-8", "replace")
            else:
                return
            self._take_id(space, header.participant, *named, replayed=self._replay.holds_back)

    def _take_other(self, line: bytes) -> None:
        """Takes a line whose envelope is not at its end, or that is no message."""
        record = read_line(line) if b'"event":"received"' in line[:200] else None
        is_message = record is not None and record.event == "received"
        space = self._replay.space if is_message else None  # it replays what is held back
        if record is None or space is None:
            self._replay.take_line(line)
            return
        sets = self._sets_of(space, record.participant)
        if sets is not None:
            self._judged += 1
            self._plan(space, record, sets)
        self._replay.take_line(line)
        if record.verdict == "accepted":
            self._take_id(space, record.participant, *_named(record), replayed=self._replay.holds_back)

    def _take_id(self, space: Space, participant: str, kind: bytes, id: str, *, replayed: bool) -> None:
        """Records the id that an accepted message took, as the space does for those that it acts on."""
        member = space.state.members.get(participant)
        if kind in _TAKING:
            if member is None or replayed:
                return
            if kind == b"chat":
                space.state.take_chat(id, member.name)
            else:
                proposal = kind == b"mcp/proposal"
                space.state.take_handle(id, Handle(member.name, member.admissions, proposal=proposal))
        elif kind in _GRANTING:
            self._grants.add(id)

    def _sets_of(self, space: Space, name: str) -> _Sets | None:
        """The present and the other rights of a participant; None where they are the same ones."""
        if not self._began:  # grants of a snapshot, before which there is no message
            self._began = True
            self._grants.update(
                right.grant
                for member in space.state.members.values()
                for right in member.rights.held
                if right.grant
            )
        member = space.state.members.get(name)
        if member is None:
            return None
        if self._present.get(name) is not member.rights:
            self._present[name] = member.rights
            instead = self._rights.of(space, member) if self._rights.concerns(member) else None
            limit = space.state.limits.steps
            self._sets[name] = (
                None
                if instead is None
                else _Sets(
                    member.rights, instead, {}, not limit or instead.capabilities.cost * _CHEAP < limit
                )
            )
        return self._sets[name]

    def _judge(self, space: Space, header: LineHeader, line: bytes, mark: int) -> None:
        sets = self._sets_of(space, header.participant)
        if sets is None:
            return
        self._judged += 1
        accepted = header.verdict == "accepted"
        if not accepted and header.code in BEFORE_RIGHTS:
            return
        kind, id = top_level(line, mark)
        simple = kind is not None and sets.cheap and space.state.next_end is None
        if simple and kind not in _PLANNED and (accepted or header.code == RIGHTS):
            assert kind is not None
            allowed = sets.by_kind.get(kind, ...)
            if allowed is ...:
                allowed = sets.by_kind[kind] = _decide(sets.instead.capabilities, kind)
            if allowed is accepted:
                return
            if accepted and allowed is False and id is not None:
                self._add_denied(header, line, kind, id)
                return
        record = read_line(line)
        if record is None:
            return
        if simple and kind not in _PLANNED and len(line) < _LONG and (accepted or header.code == RIGHTS):
            known = outline(record) is None
            if known and _permits(space, sets, record) is accepted:
                return
        self._plan(space, record, sets)

    def _add_denied(self, header: LineHeader, line: bytes, kind: bytes, id: bytes) -> None:
        fields = line[: line.find(b',"event":')].split(b",", 1)
        seq = int(fields[0][len(b'{"seq":') :])
        now = parse_timestamp(fields[1][len(b'"now":"') : -1].decode())
        assert now is not None
        sent = (header.participant, id.decode(), kind.decode())
        self._rows.append(OtherVerdict(seq, now, *sent, "accepted", "", "refused", RIGHTS, header.pattern))

    def _plan(self, space: Space, record: Record, sets: _Sets) -> None:
        """Plans a message with the other rights of its sender, and drops the turn."""
        if outline(record) is not None:
            self._unknown += record.code not in BEFORE_RIGHTS
            return
        if record.verdict == "refused" and record.code in BEFORE_RIGHTS:
            return
        member = space.state.members[record.participant]
        before, member.rights = member.rights, sets.instead
        try:
            turn = space.plan(event_of(record), record.now)
        finally:
            member.rights = before
        _compare(self._rows, record, turn.effects)

    def end(self) -> WhatIf:
        space = self._replay.space
        if space is None:
            raise JournalError("it holds no record, so nothing can be supposed about it")
        self._rights.check_names(space.state.members, self._grants)
        return WhatIf(
            self._rows,
            judged=self._judged,
            unknown=self._unknown,
            exact=False,
            edition=space.state.edition,
            closed=self._rights.closed,
        )


def _named(record: Record) -> tuple[bytes, str]:
    """The kind and the id of a message, empty where it has none."""
    members = read_members(record.raw or "") or {}
    kind, id = (members.get(name) for name in ("kind", "id"))
    return (kind.encode("utf-8", "replace") if isinstance(kind, str) else b""), (
        id if isinstance(id, str) else ""
    )


def _permits(space: Space, sets: _Sets, record: Record) -> bool:
    """Whether the other rights permit a message on which the gateway does not act."""
    members = read_members(record.raw or "") or {}
    kind, payload, to = members.get("kind"), members.get("payload"), members.get("to")
    addressees = (
        [space.state.logical(name) for name in to if isinstance(name, str)] if isinstance(to, list) else []
    )
    return isinstance(kind, str) and sets.instead.capabilities.permit(kind, addressees, payload).allowed


def _decide(held: CapabilitySet, kind: bytes) -> bool | None:
    """Whether a holder may send every message of a kind, or none; None where that depends on the message."""
    candidates = [capability for capability in held.capabilities if capability.kind.matches(kind.decode())]
    if any(capability.payload is None and capability.to is None for capability in candidates):
        return True
    return None if candidates else False


def _compare(rows: list[OtherVerdict], record: Record, effects: Iterable[object]) -> None:
    """Adds a row where the effects of a message have another verdict than its record."""
    made = next((effect for effect in effects if type(effect) is Record and effect.raw is not None), None)
    if made is None or made.verdict == record.verdict:
        return
    would = made.verdict if made.verdict == "accepted" else "refused"
    # The id that the log has: one that the gateway would have given now may be that of another message there.
    members = read_members(record.raw or "") or read_members(made.raw or "") or {}
    code = "" if would == "accepted" else made.code
    rows.append(_other_verdict(record, members, would, code, made.pattern or record.pattern))


def _other_verdict(
    record: Record, members: Mapping[str, Any], would: str, code: str, pattern: str
) -> OtherVerdict:
    id, kind = (text if isinstance(text := members.get(name), str) else "" for name in ("id", "kind"))
    sent = (record.participant, id, kind)
    return OtherVerdict(record.seq, record.now, *sent, record.verdict, record.code, would, code, pattern)


# --- exact ---


def replay_changed(records: Iterable[Record], rights: OtherRights, *, name: str = "the journal") -> WhatIf:
    """Replays the events of a journal in a new space under other rights.

    Where the journal begins with a snapshot, the replay begins with the state in it: who is named holds the other rights
    from there on, and what stood by then stands.

    Raises:
        JournalError: when the journal does not begin with the opening of a space, or an event of it cannot be read.
        ReplayMismatch: when the snapshot with which it begins cannot be read.
        ConfigError: when a participant or grant that is named does not occur in it.
    """
    replay = _ChangedReplay(rights, name)
    for record in records:
        replay.take(record)
    return replay.end()


class _ChangedReplay:
    """A replay under other rights, record by record."""

    def __init__(self, rights: OtherRights, name: str) -> None:
        self._rights = rights
        self._name = name
        self._opening: Player | None = None  # until the last part of the snapshot
        self._space: Space | None = None
        self._rows: list[OtherVerdict] = []
        self._judged = self._unknown = 0
        self._participants: set[str] = set()
        self._grants: set[str] = set()
        self._waiting = {*rights.configured, *rights.more}  # who does not hold the other rights yet
        self._snapshot = False

    def take(self, record: Record) -> None:
        """Replays the next record."""
        if record.event == "opened" or self._opening is not None:
            self._open(record)
            return
        space = self._space
        if space is None:
            raise JournalError(
                f"{self._name} cannot be replayed: it does not begin with the opening of a space",
                path=self._name,
            )
        if record.event in CAUSED:
            return
        self._note_names(record)
        try:
            event = event_of(record)
            if isinstance(event, RefusedBefore):
                self._judged += 1
                self._unknown += record.code not in BEFORE_RIGHTS
                return
            effects = space.step(self._rights.apply(event, record), record.now)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, MewError) as fault:
            raise JournalError(
                f"{self._name} cannot be replayed at #{record.seq}: {fault}", path=self._name
            ) from None
        if isinstance(event, Enrolled):
            self._waiting.discard(event.participant)
        self._give(space)
        if isinstance(event, Received):
            self._judged += 1
            _compare(self._rows, record, effects)
            if record.verdict == "accepted" and not any(type(effect) is Record for effect in effects):
                members = read_members(record.raw or "") or {}
                self._rows.append(_other_verdict(record, members, "refused", ABSENT, record.pattern))

    def _open(self, record: Record) -> None:
        """Takes the first records: the opening of the space, and its snapshot where it has one."""
        if self._opening is None:
            about = read_members(record.detail) or {}
            if "previous" in about and self._space is not None:
                return
            if self._space is not None or vantage_of(about) != "gateway":
                raise JournalError(
                    f"{self._name} is not the whole journal of one gateway, so it cannot be replayed under other rights",
                    path=self._name,
                )
            self._opening = Player(self._name)
            self._snapshot = "pruned" in about or "branched" in about
        self._opening.take(record)
        if not self._opening.between:
            return
        space, self._opening = self._opening.space, None
        self._space = space
        for member in space.state.members.values():
            self._grants.update(right.grant for right in member.rights.held if right.grant)
            if self._rights.concerns(member):
                member.rights = self._rights.of(space, member)
                self._waiting.discard(member.name)

    def _give(self, space: Space) -> None:
        """Gives the other rights to who came by an invitation, which enrols nobody by an event."""
        for name in [name for name in self._waiting if name in space.state.members]:
            member = space.state.members[name]
            member.rights = self._rights.of(space, member)
            self._waiting.discard(name)

    def _note_names(self, record: Record) -> None:
        """Keeps the participants and grants of the log, which the changed space may never have."""
        self._participants.add(record.participant)
        if record.verdict != "accepted" or record.event != "received":
            return
        members = read_members(record.raw or "") or {}
        kind, id, payload = (members.get(name) for name in ("kind", "id", "payload"))
        if kind in _GIVING and isinstance(id, str):
            self._grants.add(id)
            if kind == "space/invite" and isinstance(payload, dict):
                self._participants.add(str(payload.get("participant_id", "")))

    def end(self) -> WhatIf:
        """The answer.

        Raises:
            ConfigError: when a participant or grant that is named does not occur in the journal.
        """
        if self._space is None:
            raise JournalError(f"{self._name} holds no record", path=self._name)
        self._participants.update(self._space.state.members)
        self._rights.check_names(self._participants - {""}, self._grants)
        return WhatIf(
            self._rows,
            judged=self._judged,
            unknown=self._unknown,
            exact=True,
            snapshot=self._snapshot,
            edition=self._space.state.edition,
            closed=self._rights.closed,
        )
