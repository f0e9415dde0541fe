"""Which part of the gateway stands behind which rows, and how is it taken away?  A plugin of pytest, and its data.

A row that is marked as tested has to go red without the part that does what it says. `ROWS` names that part for each
row that binds the gateway, `PARTS` takes it away: a message is then only passed on, a check passes everything,
a voice is silent.

    REMOVED=grant ROWS=P-3.6.1-5 TOLD=told.json python -m pytest -p removals tests/space

runs, without the part, the tests marked with those rows alone, and writes what became of each row's tests.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from mew_lab.gateway import auth, effects, gateway, ring, routes, sockets
from mew_lab.protocol import covers, permit
from mew_lab.protocol.envelope import Envelope, compact
from mew_lab.space import controls, core, grants, invites, membership, refusal, rights, state, streams, turn
from mew_lab.space.events import Deliver, HttpReply, Relay


def without_rule(kind: str) -> Callable[[], None]:
    """A kind on which the gateway acts is a message like any other."""
    return lambda: core.RULES.pop(kind)  # type: ignore[attr-defined]


def silent(*kinds: str) -> Callable[[], None]:
    """The gateway composes these and says them to nobody."""

    def remove() -> None:
        say = turn.Turn.say

        def quiet(self: Any, kind: str, payload: Any, **how: Any) -> Any:
            if kind not in kinds:
                return say(self, kind, payload, **how)
            how.pop("privately", None), how.pop("secret", None)
            return self.compose(kind, payload, **how)

        turn.Turn.say = quiet  # type: ignore[method-assign, assignment]

    return remove


def loud() -> None:
    """What is private is said to all."""
    say = turn.Turn.say
    turn.Turn.say = lambda self, *said, **how: say(self, *said, **{**how, "privately": None})  # type: ignore[method-assign]


def unheard() -> None:
    """What a participant sends is accepted, and given to nobody."""
    route = core.Space._route

    def keep(self: Any, planned: Any, *rest: Any) -> None:
        before = len(planned._effects)
        route(self, planned, *rest)
        planned._effects[before:] = [one for one in planned._effects[before:] if not isinstance(one, Deliver)]

    core.Space._route = keep  # type: ignore[method-assign]


def addressees_only() -> None:
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

    core.Space._route = keep  # type: ignore[method-assign]


def rewritten() -> None:
    """Messages are written anew, with the members that we know."""
    complete = core.complete
    known = "protocol id ts from to kind correlation_id context payload".split()

    def anew(draft: Any, **how: Any) -> Envelope:
        members = complete(draft, **how).members
        members = {key: members[key] for key in sorted(members) if key in known}
        return Envelope(members, raw=compact(members))

    core.complete = anew


def incomplete() -> None:
    """What is missing stays missing, and a string stays a string."""
    core.complete = lambda draft, **how: Envelope({"id": how["id"], **draft.members}, raw=draft.raw)


def one_state() -> None:
    """All spaces are one."""
    first: list[Any] = []
    made = core.State

    def same(*given: Any, **named: Any) -> Any:
        first.append(made(*given, **named))
        return first[0]

    core.State = same  # type: ignore[misc, assignment]


def everyone_writes() -> None:
    """Frames go to everybody, whoever sends them and whatever they are."""
    streams.frame = lambda planned, sender, event: planned.do(
        Relay(event.data, event.text, planned.state.audience)
    )


def any_token() -> None:
    """Every token is the first participant's."""

    def whose(self: Any, space: str, token: Any) -> str | None:
        return next((one.participant for one in self._entries.values() if one.space == space), None)

    auth.Tokens.participant_of = whose  # type: ignore[method-assign]


def no_sockets() -> None:
    """No upgrade is taken."""

    async def serve(self: Any, headers: Any, query: Any, receive: Any, send: Any) -> None:
        await sockets.refuse_upgrade(send, 404, "not_found")

    sockets.Sockets.serve = serve  # type: ignore[method-assign]


def anybodys_mail() -> None:
    """A token is good for every participant's path."""
    routes.Routes._owner = routes.Routes._identity  # type: ignore[method-assign]


def set_to(place: Any, name: str, value: Any) -> Callable[[], None]:
    """One function, or one class's method, replaced."""
    return lambda: setattr(place, name, value)


def no_lapse() -> None:
    """What rests on a right stays when the right goes."""
    grants.lapsed = grants.lapsed_of = lambda *asked: {}


def unasked() -> None:
    """Everybody possesses everything."""
    grants.possession = invites.possession = lambda held, wanted, meter: covers.Coverage("yes")


def speechless() -> None:
    """Whoever is refused is not told."""
    refusal.complain = grants.complain = lambda *said, **how: None


ALLOWED = permit.Verdict(True, 0)

PARTS: dict[str, Callable[[], None]] = {
    "grant": without_rule("capability/grant"),
    "revoke": without_rule("capability/revoke"),
    "invite": without_rule("space/invite"),
    "kick": without_rule("space/kick"),
    "pause": without_rule("participant/pause"),
    "shutdown": without_rule("participant/shutdown"),
    "stream/request": without_rule("stream/request"),
    "stream/open": without_rule("stream/open"),
    "stream/close": without_rule("stream/close"),
    "stream/grant-write": without_rule("stream/grant-write"),
    "stream/revoke-write": without_rule("stream/revoke-write"),
    "stream/transfer-ownership": without_rule("stream/transfer-ownership"),
    "capability check": set_to(core.Space, "_check_capability", lambda self, *about: ALLOWED),
    "identity check": set_to(core.Space, "_check_identity", lambda self, *about: None),
    "reserved kinds": set_to(core, "is_reserved", lambda kind: False),
    "handles": set_to(core.Space, "_check_handle", lambda self, *about: None),
    "held back": set_to(controls, "held_back", lambda *about: None),
    "shape check": set_to(core, "check_shape", lambda *about, **how: None),
    "strict reading": set_to(core, "read_strict", lambda text, limit=0: json.loads(text)),
    "completion": incomplete,
    "raw text": rewritten,
    "names": set_to(core.Space, "_resolve_addressees", lambda self, members: None),
    "aliases": set_to(state.State, "participant", lambda self, name: self.members.get(name)),
    "audience": unheard,
    "broadcast": addressees_only,
    "privacy": loud,
    "isolation": one_state,
    "possession": unasked,
    "chains": no_lapse,
    "matcher": set_to(permit.CapabilitySet, "permit", lambda self, *about: permit.Verdict(True, 0, {})),
    "payload patterns": set_to(permit.Capability, "holds_body", lambda self, to, payload, meter: True),
    "baseline": set_to(state.State, "configured", lambda self, given: rights.Rights(map(rights.Held, given))),
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
    "minting": set_to(auth.Tokens, "mint", lambda self, *whose: auth.mint()),
    "voiding": set_to(auth.Tokens, "void", lambda self, *whose: 0),
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
    ("P-4.1-* P-4.2-1 P-4.2-3 P-4.2-9 P-8.1-5 C-7 C-8 C-13", "matcher"),
    ("P-4.2-5 P-4.2-6 P-4.2-7 P-4.2-8 P-7.1-2 P-8.1-10 C-17 C-20", "audience"),
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


# --- the plugin ----------------------------------------------------------------------------------------------

_told: dict[str, dict[str, str]] = {}


def _rows_of(item: pytest.Item) -> set[str]:
    marked = {row for mark in item.iter_markers("req") for row in mark.args}
    return marked & set(os.environ["ROWS"].split())


def pytest_configure() -> None:
    """Takes the part away before any test module is read."""
    if "REMOVED" in os.environ:
        PARTS[os.environ["REMOVED"]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [one for one in items if _rows_of(one)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    report = yield
    if report.when == "call" or report.failed:
        for row in _rows_of(item):
            _told.setdefault(row, {})[item.nodeid] = report.outcome
    return report


def pytest_sessionfinish() -> None:
    Path(os.environ["TOLD"]).write_text(json.dumps(_told))
