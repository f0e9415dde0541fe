"""Which part of the gateway stands behind which rows, and how is it taken away?  Data of `removal_plugin.py`.

A row that is marked as tested has to go red without the part that does what it says. `ROWS` names that part for each
row that binds the gateway, `PARTS` takes it away: a message is then only passed on, a check passes everything,
a voice is silent.
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import pytest

from mew_lab.gateway import auth, effects, gateway, ring, routes, sockets
from mew_lab.protocol import covers, permit
from mew_lab.protocol.envelope import Envelope, compact
from mew_lab.space import core, grants, invites, membership, refusal, state, streams, turn
from mew_lab.space.events import Deliver, HttpReply, Relay

Remove = Callable[[pytest.MonkeyPatch], None]


def without_rule(kind: str) -> Remove:
    """A kind on which the gateway acts is a message like any other."""
    return lambda patch: patch.delitem(core.RULES, kind)  # type: ignore[arg-type]


def silent(*kinds: str) -> Remove:
    """The gateway composes these and says them to nobody."""

    def remove(patch: pytest.MonkeyPatch) -> None:
        say = turn.Turn.say

        def quiet(self: Any, kind: str, payload: Any, **how: Any) -> Any:
            if kind not in kinds:
                return say(self, kind, payload, **how)
            how.pop("privately", None), how.pop("secret", None)
            return self.compose(kind, payload, **how)

        patch.setattr(turn.Turn, "say", quiet)

    return remove


def loud(patch: pytest.MonkeyPatch) -> None:
    """What is private is said to all."""
    say = turn.Turn.say
    patch.setattr(turn.Turn, "say", lambda self, *said, **how: say(self, *said, **{**how, "privately": None}))


def unheard(patch: pytest.MonkeyPatch) -> None:
    """What a participant sends is accepted, and given to nobody."""
    route = core.Space._route

    def keep(self: Any, planned: Any, *rest: Any) -> None:
        before = len(planned._effects)
        route(self, planned, *rest)
        planned._effects[before:] = [one for one in planned._effects[before:] if not isinstance(one, Deliver)]

    patch.setattr(core.Space, "_route", keep)


def addressees_only(patch: pytest.MonkeyPatch) -> None:
    """What has a `to` goes there alone."""
    route = core.Space._route

    def keep(self: Any, planned: Any, sender: Any, envelope: Any, *rest: Any) -> None:
        before = len(planned._effects)
        route(self, planned, sender, envelope, *rest)
        for at in range(before, len(planned._effects)):
            one = planned._effects[at]
            if isinstance(one, Deliver) and envelope.to:
                some = [
                    name for name in one.connections if self.state.connections[name].runtime_id in envelope.to
                ]
                planned._effects[at] = one._replace(connections=tuple(some))

    patch.setattr(core.Space, "_route", keep)


def rewritten(patch: pytest.MonkeyPatch) -> None:
    """Messages are written anew, with the members that we know."""
    complete = core.complete
    known = "protocol id ts from to kind correlation_id context payload".split()

    def anew(draft: Any, **how: Any) -> Envelope:
        members = complete(draft, **how).members
        members = {key: members[key] for key in sorted(members) if key in known}
        return Envelope(members, raw=compact(members))

    patch.setattr(core, "complete", anew)


def incomplete(patch: pytest.MonkeyPatch) -> None:
    """What is missing stays missing, and a string stays a string."""
    patch.setattr(
        core, "complete", lambda draft, **how: Envelope({"id": how["id"], **draft.members}, raw=draft.raw)
    )


def one_state(patch: pytest.MonkeyPatch) -> None:
    """All spaces are one."""
    first: list[Any] = []
    made = core.State

    def same(*given: Any, **named: Any) -> Any:
        first.append(made(*given, **named))
        return first[0]

    patch.setattr(core, "State", same)


def everyone_writes(patch: pytest.MonkeyPatch) -> None:
    """Frames go to everybody, whoever sends them and whatever they are."""

    def relay(planned: Any, sender: Any, event: Any) -> None:
        planned.do(Relay(event.data, event.text, planned.state.audience))

    patch.setattr(streams, "frame", relay)


def any_token(patch: pytest.MonkeyPatch) -> None:
    """Every token is the first participant's."""

    def whose(self: Any, space: str, token: Any) -> str | None:
        return next((one.participant for one in self._entries.values() if one.space == space), None)

    patch.setattr(auth.Tokens, "participant_of", whose)


def no_sockets(patch: pytest.MonkeyPatch) -> None:
    """No upgrade is taken."""

    async def serve(self: Any, headers: Any, query: Any, receive: Any, send: Any) -> None:
        await sockets.refuse_upgrade(send, 404, "not_found")

    patch.setattr(sockets.Sockets, "serve", serve)


def anybodys_mail(patch: pytest.MonkeyPatch) -> None:
    """A token is good for every participant's path."""
    patch.setattr(routes.Routes, "_owner", routes.Routes._identity)


def set_to(place: Any, name: str, value: Any) -> Remove:
    """One function, or one class's method, replaced."""
    return lambda patch: patch.setattr(place, name, value)


def unasked(patch: pytest.MonkeyPatch) -> None:
    """Everybody possesses everything."""
    for module in (grants, invites):
        patch.setattr(module, "possession", lambda held, wanted, meter: covers.Coverage("yes"))


def speechless(patch: pytest.MonkeyPatch) -> None:
    """Whoever is refused is not told."""
    for module in (refusal, grants):
        patch.setattr(module, "complain", lambda *said, **how: None)


ALLOWED = permit.Verdict(True, 0)

PARTS: dict[str, Remove] = {
    "grant": without_rule("capability/grant"),
    "revoke": without_rule("capability/revoke"),
    "invite": without_rule("space/invite"),
    "kick": without_rule("space/kick"),
    "pause": without_rule("participant/pause"),
    "shutdown": without_rule("participant/shutdown"),
    "stream/request": without_rule("stream/request"),
    "stream/close": without_rule("stream/close"),
    "stream/grant-write": without_rule("stream/grant-write"),
    "stream/revoke-write": without_rule("stream/revoke-write"),
    "stream/transfer-ownership": without_rule("stream/transfer-ownership"),
    "capability check": set_to(core.Space, "_check_capability", lambda self, *about: ALLOWED),
    "identity check": set_to(core.Space, "_check_identity", lambda self, *about: None),
    "reserved kinds": set_to(core, "is_reserved", lambda kind: False),
    "handles": set_to(core.Space, "_check_handle", lambda self, *about: None),
    "shape check": set_to(core, "check_shape", lambda *about, **how: None),
    "completion": incomplete,
    "raw text": rewritten,
    "names": set_to(core.Space, "_resolve_addressees", lambda self, members: None),
    "aliases": set_to(state.State, "participant", lambda self, name: self.members.get(name)),
    "audience": unheard,
    "broadcast": addressees_only,
    "privacy": loud,
    "isolation": one_state,
    "possession": unasked,
    "matcher": set_to(permit.CapabilitySet, "permit", lambda self, *about: permit.Verdict(True, 0, {})),
    "payload patterns": set_to(permit.Capability, "holds_body", lambda self, to, payload, meter: True),
    "complaints": speechless,
    "welcome": silent("system/welcome"),
    "presence": silent("system/presence"),
    "invite-ack": silent("space/invite-ack"),
    "write-granted": silent("stream/write-granted"),
    "write-revoked": silent("stream/write-revoked"),
    "ownership-transferred": silent("stream/ownership-transferred"),
    "late joiners": set_to(membership, "described_streams", lambda planned: []),
    "new welcomes": set_to(grants, "welcome_anew", lambda planned, member: None),
    "departures": set_to(membership, "abandon", lambda planned, gone: None),
    "forgetting": set_to(turn.Turn, "_forget", lambda self, name: None),
    "frames": set_to(streams, "frame", lambda *about: None),
    "frame checks": everyone_writes,
    "journal": set_to(turn.Turn, "record", lambda self, event, **told: None),
    "tokens": any_token,
    "token in the ack": set_to(effects, "_add_token", lambda said, token, url: dict(said)),
    "sockets": no_sockets,
    "posting": set_to(gateway.Gateway, "post", lambda self, *said: HttpReply(200, {})),
    "mail of others": anybodys_mail,
    "history": set_to(ring.Ring, "take", lambda self, record: None),
    "private history": set_to(ring.Ring, "_addressees", lambda self, text: None),
}

# The first line that matches a row counts.
ROWS: tuple[tuple[str, str], ...] = (
    ("P-2.1-1", "audience"),
    ("P-2.1-2", "capability check"),
    ("P-2.2-3 P-3.6-1 P-3.6-2 P-3.6-3", "isolation"),
    ("P-3-1 P-3-6 P-3-17 P-3-21 P-6.1-1 P-6.1-2 P-6.5-1 P-3-2", "shape check"),
    ("P-3-4 P-3-9 P-6.4-1 C-14 C-16", "completion"),
    ("P-3-7 P-3-8 P-3.2.1-6 P-3.5.6-5", "audience"),
    ("P-3-14", "complaints"),
    ("P-3.2.1-4 P-3.3.2-1", "capability check"),
    ("P-3.3.2-7 P-3.5.6-* P-3.9.3-1", "audience"),
    ("P-3.6-4", "capability check"),
    ("P-3.6.1-1 P-3.6.1-7 P-3.6.2-3 P-3.6.5-7 P-3.6.7-2 P-3.6.8-1 C-21", "capability check"),
    ("P-3.6.1-9 P-3.6.1-11", "new welcomes"),
    ("P-3.6.1-12 P-3.6.4-1 P-3.6.4-3 P-3.6.4-4", "aliases"),
    ("P-3.6.4-2 P-3.6.4-5", "names"),
    ("P-3.6.1-* P-3.9.9-3 P-4.1-13", "grant"),
    ("P-3.6.2-*", "revoke"),
    ("P-3.6.5-2", "invite"),
    ("P-3.6.5-4 P-3.6.6-1 P-3.6.6-2", "invite-ack"),
    ("P-3.6.5-5 C-11", "presence"),
    ("P-3.6.6-3 P-3.6.6-4", "privacy"),
    ("P-3.6.6-5", "token in the ack"),
    ("P-3.6.5-* P4-3.6.4-1 P-7.3-1", "invite"),
    ("P-3.6.7-*", "kick"),
    ("P-3.6.8-2 C-9", "possession"),
    ("P-3.6.8-3 P-3.6.8-5", "journal"),
    ("P-3.6.8-4 C-10", "revoke"),
    ("P-3.7-5", "welcome"),
    ("P-3.7-*", "presence"),
    ("P-3.8.1-5 P-3.8.1-6 P-3.8.1-7 P-3.10.1-6 P-3.10.1-8 P-3.10.8-*", "late joiners"),
    ("P-3.8.1-8 P-3.10.1-4 P-3.10.1-5 P-3.10.3-3 P-3.10.3-4 P-3.10.3-2", "frames"),
    ("P-3.8.1-* P-5.2-5 P-5.2-9 C-12", "welcome"),
    ("P-3.8.2-1 P-4.2-4", "complaints"),
    ("P-3.8.2-2", "capability check"),
    ("P-3.9.1-3", "pause"),
    ("P-3.9.10-3", "shutdown"),
    ("P-3.10.1-* P-3.10.2-*", "stream/request"),
    ("P-3.10.4-*", "stream/close"),
    ("P-3.10.5-4", "write-granted"),
    ("P-3.10.5-*", "stream/grant-write"),
    ("P-3.10.6-4", "write-revoked"),
    ("P-3.10.6-5 C-18", "departures"),
    ("P-3.10.6-9", "frame checks"),
    ("P-3.10.6-*", "stream/revoke-write"),
    ("P-3.10.7-5", "ownership-transferred"),
    ("P-3.10.7-* C-19", "stream/transfer-ownership"),
    ("P-4.1-1 P-7.1-1", "identity check"),
    ("P-4.1-8 P-4.1-9 C-5", "reserved kinds"),
    ("P-4.1-6 P-4.1-12 P-4.2-2 P-9.3-1 S-L2-8", "payload patterns"),
    ("P-4.1-* P-4.2-1 P-4.2-3 P-4.2-8 P-4.2-9 P-8.1-5 C-7 C-8 C-13", "matcher"),
    ("P-4.2-5 P-4.2-6 P-4.2-7 P-7.1-2 P-8.1-10 C-17 C-20", "audience"),
    ("P-5.1-1 P-5.2-2 P-5.2-3 P-7.2-1 P-8.1-2 P-8.1-3 S-SEC-1", "tokens"),
    ("P-5.1-2 P-5.2-4", "grant"),
    ("P-5.2-1 P-8.1-1 C-25", "sockets"),
    ("P-5.2-6 P-5.3-2 P-5.4-1 P-8.1-6", "capability check"),
    ("P-5.3-3", "mail of others"),
    ("P-5.3-1 P-5.3-4", "posting"),
    ("P-5.3-5 P-5.3-6", "history"),
    ("P-5.3-7", "private history"),
    ("P-8.1-4", "forgetting"),
    ("P-8.1-7", "complaints"),
    ("P-8.1-8 C-1", "broadcast"),
    ("P-8.1-9", "raw text"),
    ("C-2", "privacy"),
    ("C-4", "stream/request"),
    ("C-15", "handles"),
    ("C-26", "welcome"),
    ("P-9.1-1", "capability check"),
)

# Rows that no part of the gateway stands behind: how to read the text, what is left open, what others do.
NOT_OURS = frozenset({"P-RL-1", "P-2.2-1", "P-2.2-2", "P-3.1.2-3", "P-3.6.4-6", "S-SEC-7"})


def part_behind(row: str) -> str | None:
    """The part without which a row's tests must go red; None where the table names none."""
    for patterns, part in ROWS:
        if any(fnmatchcase(row, pattern) for pattern in patterns.split()):
            return part
    return None
