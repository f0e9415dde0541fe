"""A space written down as slowly and plainly as it can be said: what the real one is compared with.

Written from the rulings and the specification. Nothing is compiled, indexed or kept that could be worked out:
who may do what is asked of the slow matcher, one capability at a time, and what one capability covers is found by
trying every message of a small world. It shares no code with mew_lab; it is fed the events that a space is fed, and
says what ought to be heard.

What is said is a list of `(what, facts, receivers)` in order; facts are JSON text. Sentences meant for people, the
order of capabilities and the ids that the gateway makes up are left out.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import product
from typing import Any

from ..protocol.slow_matcher import slow_permit

Said = tuple[str, str, tuple[str, ...]]

BASELINE = [{"kind": "mcp/response"}]
STARTER = [
    {"kind": kind}
    for kind in "chat mcp/proposal mcp/withdraw mcp/response capability/grant-ack participant/status".split()
]
ACTED_ON = set(
    "capability/grant capability/revoke space/kick participant/pause participant/resume participant/restart "
    "participant/shutdown stream/request stream/open stream/close stream/grant-write stream/revoke-write "
    "stream/transfer-ownership".split()
)  # and space/invite, which names nobody that is there
NEVER = datetime.max.replace(tzinfo=UTC)
HANDLES = set("capability/grant mcp/proposal mcp/request reasoning/start stream/request space/invite".split())
FOR_EVER = {"capability/grant", "space/invite"}
RESERVED = set(
    "space/invite-ack stream/write-granted stream/write-revoked stream/ownership-transferred".split()
)
PASS_PAUSED = set(
    "participant/status participant/resume participant/compact-done chat/acknowledge chat/cancel reasoning/cancel "
    "stream/close mcp/withdraw mcp/reject capability/grant-ack".split()
)
PASS_SHUT_DOWN = {"participant/status", "chat/acknowledge", "stream/close"}
STATUSES = {  # peers.md §2.4 and what is like it
    "already_exists": 409, "cannot_grant": 403, "capability_violation": 403, "duplicate_id": 409,
    "grant_not_found": 404, "identity_mismatch": 403, "limit_exceeded": 429, "message_too_large": 413,
    "not_connected": 409, "owner_protected": 403, "participant_not_found": 404, "paused": 409, "shut_down": 409,
    "stream_not_found": 404, "unauthorized": 403,
}  # fmt: skip

# --- the small world -----------------------------------------------------------------------------------------

# One member of each pair stands for all those that no pattern in use names.
_KINDS = [
    *"chat chat/zz mcp/request mcp/proposal mcp/response mcp/zz capability/grant capability/revoke".split(),
    *"capability/zz space/invite space/kick space/zz participant/pause participant/zz stream/request".split(),
    *"stream/zz zz zz/zz mcp/withdraw capability/grant-ack participant/status reasoning/start reasoning/zz".split(),
]
_ADDRESSEES: list[list[str]] = [[], ["ann"], ["ben"], ["zz"], ["ann", "ben"], ["ann", "zz"]]
_PAYLOADS: list[dict[str, Any]] = [
    {},
    {"method": 1},
    *({"method": method} for method in ("tools/list", "tools/call", "tools/zz", "zz")),
    *(
        {"method": method, "params": {"name": name}}
        for method in ("tools/list", "tools/call", "zz")
        for name in ("read_a", "read_zz", "write", "zz", 1)
    ),
    {"method": "tools/call", "params": {}},
    *({key: name} for key, name in (("participant_id", "dan"), ("participant_id", "zz"))),
    *({"recipient": name} for name in ("ben", "zz")),
]
WORLD = list(product(_KINDS, _ADDRESSEES, _PAYLOADS))


def permitted(capability: dict[str, Any]) -> frozenset[int]:
    """Which messages of the world one capability permits."""
    return _permitted(json.dumps(capability))


@cache
def _permitted(text: str) -> frozenset[int]:
    capability = json.loads(text)
    return frozenset(at for at, message in enumerate(WORLD) if slow_permit(capability, *message))


def singles(pattern: Any) -> list[Any]:
    """What a pattern with lists comes to, one choice at a time."""
    if isinstance(pattern, list):
        return [one for part in pattern for one in singles(part)]
    if isinstance(pattern, dict):
        choices = [singles(part) for part in pattern.values()]
        return [dict(zip(pattern, chosen, strict=True)) for chosen in product(*choices)]
    return [pattern]


def single_capabilities(capability: dict[str, Any]) -> list[dict[str, Any]]:
    """As `singles`; who is addressed stays whole, since a list there may address some of both."""
    to = {"to": capability["to"]} if "to" in capability else {}
    rest = {key: part for key, part in capability.items() if key != "to"}
    return [{**one, **to} for one in singles(rest)]


def covered(held: list[dict[str, Any]], wanted: dict[str, Any]) -> bool:
    """R12: each single capability of what is wanted is covered by one that is held."""
    return all(
        any(permitted(single) <= permitted(one) for one in held) for single in single_capabilities(wanted)
    )


# --- what is remembered --------------------------------------------------------------------------------------


@dataclass
class Given:
    """One capability that somebody holds, and where it is from; `rooted` asks for no granter that holds it."""

    capability: dict[str, Any]
    grant: str = ""
    giver: str = ""
    rooted: bool = True


@dataclass
class Limit:
    """How a grant ends by itself, and the grants whose uses it costs besides its own. R25."""

    until: datetime | None
    left: int | None
    rests: list[str]


@dataclass
class Person:
    """A logical participant."""

    name: str
    held: list[Given]
    admissions: int = 0
    paused: bool = False
    paused_until: datetime | None = None
    shut_down: bool = False
    kicked: bool = False

    def capabilities(self) -> list[dict[str, Any]]:
        """What it may do, each once."""
        return list({json.dumps(one.capability): one.capability for one in self.held}.values())


@dataclass
class Here:
    """A connection, or a log sink, that is open."""

    name: str
    person: str
    id: str
    sink: bool


@dataclass
class Flow:
    """An active stream; the owner and the writers are names of connections."""

    id: str
    owner: str
    writers: list[str]
    targets: list[Here]
    fields: dict[str, Any]
    created: str
    request: str


@dataclass
class Speaker:
    """Who says something: by a connection, or by HTTP."""

    person: Person
    id: str
    here: Here | None


class No(Exception):
    """It is refused."""

    def __init__(self, code: str, **facts: Any) -> None:
        super().__init__(code)
        self.code = code
        self.facts = facts


def stamp(now: datetime) -> str:
    """RFC 3339, UTC, milliseconds."""
    return now.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def plain_id(text: str) -> str:
    """The gateway's own ids are all alike here."""
    return "gw" if text.startswith("gw-") else text


def by_text(values: list[Any]) -> list[Any]:
    return sorted(values, key=lambda one: json.dumps(one, sort_keys=True))


@dataclass
class SlowSpace:
    """The model: each kind of event is a method, and what ought to be heard of it is added to `said`."""

    owner: str
    limits: dict[str, int]
    people: dict[str, Person] = field(default_factory=dict)
    here: list[Here] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)  # every name and runtime id that ever was -> person
    handles: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    chats: set[tuple[str, str]] = field(default_factory=set)  # (id, person); as few as no limit of R36 is met
    flows: list[Flow] = field(default_factory=list)
    opened: dict[str, str] = field(default_factory=dict)  # stream -> id of the stream/open, told from outside
    frames_refused: dict[str, list[Any]] = field(default_factory=dict)
    limited: dict[str, Limit] = field(default_factory=dict)  # every grant that ever had an end
    streams_so_far: int = 0
    grants: int = 0
    invites: int = 0
    said: list[Said] = field(default_factory=list)
    now: datetime = datetime.min
    verdict: str = ""  # of the last message
    fallen: int = 0  # how many held capabilities have lapsed so far
    passed_by: list[tuple[str, str]] = field(
        default_factory=list
    )  # (capability, grant) that permit the last message

    # --- finding people ---

    def all_here(self) -> list[str]:
        return [one.name for one in self.here]

    def places_of(self, person: str) -> list[Here]:
        """Connections of somebody, oldest first, then its log sinks."""
        mine = [one for one in self.here if one.person == person]
        return [one for one in mine if not one.sink] + [one for one in mine if one.sink]

    def newest(self, name: str) -> Here | None:
        """Which connection (or log sink, where there is none) a name or runtime id means now."""
        for one in self.here:
            if one.id == name and not one.sink:
                return one
        connections = [one for one in self.here if one.person == name and not one.sink]
        sinks = [one for one in self.here if one.person == name and one.sink]
        return connections[-1] if connections else sinks[0] if sinks else None

    def person_of(self, name: str) -> Person:
        """Whom a name means, connected or not."""
        person = self.people.get(self.aliases.get(name, ""))
        if person is None or person.kicked:
            raise No("participant_not_found")
        return person

    def place(self, name: str) -> Here:
        return next(one for one in self.here if one.name == name)

    def id_of(self, connection: str) -> str:
        return self.place(connection).id

    # --- speaking ---

    def say(self, what: str, receivers: list[str], **facts: Any) -> None:
        if receivers:
            self.said.append((what, json.dumps(facts, sort_keys=True), tuple(sorted(receivers))))

    def duty(self, what: str, **facts: Any) -> None:
        self.said.append((what, json.dumps(facts, sort_keys=True), ()))

    def gateway(
        self,
        kind: str,
        payload: dict[str, Any],
        *,
        to: list[str] | None = None,
        about: list[str] | None = None,
        only: list[str] | None = None,
    ) -> None:
        receivers = self.all_here() if only is None else only
        about = [plain_id(one) for one in about or []]
        self.say(kind, receivers, to=to or [], correlation=about, payload=payload)

    def complain(self, who: Speaker, code: str, about: list[str], **facts: Any) -> None:
        places = [who.here] if who.here else self.places_of(who.person.name)
        about = [one for one in about if not one.startswith("gw-")]
        kind = "system/error"
        payload: dict[str, Any] = {"code": code, **facts}
        if code == "already_exists":
            kind, payload = "space/invite-ack", {"status": code, **facts}
        ids = list(dict.fromkeys(one.id for one in places))
        self.gateway(kind, payload, to=ids, about=about, only=[one.name for one in places])

    def described(self, one: Here) -> list[Any]:
        return [one.id, by_text(self.people[one.person].capabilities())]

    def welcome(self, to: Here) -> None:
        others: dict[str, list[Any]] = {}
        for one in self.here:
            if one.id != to.id:
                others[one.id] = self.described(one)
        streams = [
            {
                "direction": "upload",
                **flow.fields,
                "stream_id": flow.id,
                "owner": self.id_of(flow.owner),
                "authorized_writers": self.writer_ids(flow),
                "created": flow.created,
            }
            for flow in self.flows
        ]
        payload = {
            "you": self.described(to),
            "participants": by_text(list(others.values())),
            "streams": streams,
            "beyond": {
                "edition": 4,
                "own": ["mcp/withdraw", "chat/cancel"],
                "notes": 2048,
                "patterns": ["closed", "paths"],
                "message_bytes": 1024 * 1024,
            },
        }
        self.gateway("system/welcome", payload, to=[to.id], only=[to.name])

    def welcome_all_of(self, person: str) -> None:
        for one in self.places_of(person):
            self.welcome(one)

    def writers(self, flow: Flow) -> list[str]:
        return [flow.owner, *(one for one in flow.writers if one != flow.owner)]

    def writer_ids(self, flow: Flow) -> list[str]:
        return list(dict.fromkeys(self.id_of(one) for one in self.writers(flow)))

    # --- events ---

    def enrol(self, name: str, capabilities: list[dict[str, Any]]) -> None:
        """The host names somebody, or gives it other capabilities."""
        configured = [Given(one) for one in [*capabilities, *BASELINE]]
        person = self.people.get(name)
        if person is None:
            self.people[name] = Person(name, configured)
            self.aliases[name] = name
            return
        person.kicked = False
        person.held = configured + [one for one in person.held if one.grant]
        self.let_fall({name})

    def join(self, connection: str, name: str, id: str, sink: bool) -> None:
        person = self.people.get(name)
        if person is None:
            return self.duty("close", connection=connection, code=4401)
        if person.kicked:
            return self.duty("close", connection=connection, code=4403)
        whose = {known.casefold(): who for known, who in self.aliases.items()}
        others = whose.get(id.casefold(), name) != name
        live = not sink and any(one.id == id and not one.sink for one in self.here)
        mine = [one for one in self.here if one.person == name and not one.sink]
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", id) or id.lower() in ("gateway", "system"):
            return self.duty("close", connection=connection, code=4409)
        if others or live or len(mine) >= 8:
            return self.duty("close", connection=connection, code=4409)
        before = self.all_here()
        new = Here(connection, name, id, sink)
        known = any(one.id == id for one in self.here)
        self.here.append(new)
        self.aliases[id] = name
        if not sink:
            person.admissions += 1
            person.shut_down = False
        self.welcome(new)
        if not (sink and known):
            what = {"event": "join", "participant": self.described(new)}
            self.gateway("system/presence", what, only=before)
        return None

    def leave(self, connection: str) -> None:
        gone = [one for one in self.here if one.name == connection]
        self.depart(gone)

    def depart(self, gone: list[Here]) -> None:
        """They are gone: presence, then their streams and their rights to write. §3.7, §3.10.6."""
        self.here = [one for one in self.here if one not in gone]
        for id in dict.fromkeys(one.id for one in gone):
            if all(one.id != id for one in self.here):
                self.gateway("system/presence", {"event": "leave", "participant": [id, None]})
        for flow in list(self.flows):
            if flow.owner in [one.name for one in gone]:
                self.flows.remove(flow)
                payload = {"stream_id": flow.id, "reason": "owner_left"}
                self.gateway("stream/close", payload, about=[self.opened[flow.id]])
                continue
            silenced = [one for one in gone if one.name in flow.writers]
            flow.writers = [name for name in flow.writers if name in self.all_here()]
            for one in silenced:
                self.tell("stream/write-revoked", flow, None, participant_id=one.id, reason="disconnected")

    def speaker(self, connection: str | None, name: str, id: str) -> Speaker | None:
        if connection is None:
            person = self.people.get(name)
            if person is None or person.kicked:
                self.duty("reply", status=403, word="Invalid token for participant")
                return None
            return Speaker(person, id or name, None)
        for one in self.here:
            if one.name == connection and not one.sink:
                return Speaker(self.people[one.person], one.id, one)
        return None

    def receive(self, text: str, connection: str | None, name: str, id: str) -> None:
        who = self.speaker(connection, name, id)
        if who is None:
            return
        message: dict[str, Any] = {}
        self.verdict = "accepted"
        try:
            try:
                message = json.loads(text)
            except ValueError:
                message = {}
                raise No("invalid_json") from None
            self.judge(who, message)
        except No as no:
            self.verdict = no.code
            about = [message["id"]] if "id" in message else []
            self.complain(who, no.code, about, **no.facts)
            if who.here is None:
                self.duty("reply", status=STATUSES.get(no.code, 400), word=no.code)

    def judge(self, who: Speaker, message: dict[str, Any]) -> None:
        """The line that a message runs down; what passes is heard by all, and then has its effect."""
        kind, id = message["kind"], message.get("id")
        payload = message.get("payload", {})
        if message.get("from", who.id) != who.id:
            raise No("identity_mismatch")
        if id is not None and id.startswith("gw-0000000000000001-"):
            raise No("reserved_id")
        if kind.startswith("system/") or kind in RESERVED:
            raise No("reserved_kind")
        self.check_held_back(who.person, kind)
        addressed = []
        for one in message.get("to") or []:
            live = any(two.id == one and not two.sink for two in self.here)
            mine = [two for two in self.here if two.person == one and not two.sink]
            addressed.append(mine[-1].id if mine and not live else one)
        logical = [self.aliases.get(one, one) for one in addressed]
        meant = dict(payload)
        if kind in ACTED_ON:  # R26
            for key in {"participant_id", "recipient", "new_owner", "target"} & set(payload):
                value = payload[key]
                many = [value] if not isinstance(value, list) else value
                many = [self.aliases.get(one, one) if isinstance(one, str) else one for one in many]
                meant[key] = many if isinstance(value, list) else many[0]
        now_held = self.standing(who.person)
        able = [one for one in now_held if slow_permit(one.capability, kind, logical, meant)]
        own = self.is_own(who.person.name, kind, message, payload)
        if not able and not own:
            held = by_text(Person("", now_held).capabilities())
            raise No("capability_violation", attempted_kind=kind, your_capabilities=held)
        endless = [one for one in able if self.soonest(one.grant) is None]
        texts = list(dict.fromkeys(json.dumps(one.capability) for one in now_held))
        used = endless
        if not endless and not own:
            used = [
                min(able, key=lambda one: (self.soonest(one.grant), texts.index(json.dumps(one.capability))))
            ]
        self.passed_by = [(json.dumps(one.capability), one.grant) for one in used] or [("null", "")]
        if kind in HANDLES and id in self.handles:
            whose, admission, taker = self.handles[id]
            stale = whose == who.person.name and admission < who.person.admissions
            if not stale or taker in FOR_EVER or kind in FOR_EVER:
                raise No("duplicate_id")
        here = self.all_here()
        consequence = getattr(self, "do_" + re.sub(r"[/-]", "_", kind), None)
        answer = None
        heard = {key: value for key, value in payload.items() if (kind, key) != ("space/invite", "email")}
        facts = {
            "id": plain_id(id or "gw-"), "from": who.id, "to": addressed, "kind": kind, "payload": heard,
            "correlation": [plain_id(one) for one in message.get("correlation_id", [])],
        }  # fmt: skip
        # The consequence decides first (it may refuse), but the message is heard first.
        if consequence:
            answer = consequence(who, {**message, "to": addressed, "payload": payload, "id": id or "gw-"})
        caused, self.said = self.said, []
        self.say("message", here, **facts)
        self.said += caused
        if not endless and used:
            self.spend(used[0].grant)
        if kind in HANDLES and id is not None:
            self.handles[id] = (who.person.name, who.person.admissions, kind)
        if kind == "chat" and id is not None:
            self.chats.add((id, who.person.name))
        if who.here is None:
            self.duty("reply", status=200, word=answer or "accepted")

    def is_own(self, name: str, kind: str, message: dict[str, Any], payload: dict[str, Any]) -> bool:
        """R36: whether it ends nothing but what its sender said, and says no more than a short reason."""
        about = message.get("correlation_id", [])
        if not 1 <= len(about) <= 16 or [key for key in payload if key != "reason"]:
            return False
        if not isinstance(payload.get("reason", ""), str) or len(payload.get("reason", "")) > 64:
            return False
        for id in about:
            whose, _, taker = self.handles.get(id, ("", 0, ""))
            said_by = [person for one, person in self.chats if one == id]
            if kind == "mcp/withdraw" and (whose, taker) != (name, "mcp/proposal"):
                return False
            if kind == "chat/cancel" and (said_by != [name] or whose not in ("", name)):
                return False
        return kind in ("mcp/withdraw", "chat/cancel")

    def check_held_back(self, person: Person, kind: str) -> None:
        """R14."""
        if person.shut_down and kind not in PASS_SHUT_DOWN:
            raise No("shut_down")
        over = person.paused_until is not None and self.now >= person.paused_until
        if person.paused and not over and kind not in PASS_PAUSED:
            raise No("paused")

    # --- what ends by itself: R25 ---

    def limit_of(self, grant: str) -> Limit | None:
        """The end of a grant that somebody still holds."""
        held = any(one.grant == grant for person in self.people.values() for one in person.held)
        return self.limited.get(grant) if held else None

    def soonest(self, grant: str) -> tuple[datetime, float] | None:
        """When a grant ends, by itself or by what it rests on; None: never."""
        own = self.limit_of(grant)
        chain = [own, *(self.limit_of(one) for one in own.rests)] if own else []
        times = [one.until for one in chain if one and one.until]
        uses = [one.left for one in chain if one and one.left is not None]
        if not times and not uses:
            return None
        return min(times, default=NEVER), min(uses, default=2**53 - 1)

    def standing(self, person: Person) -> list[Given]:
        """What somebody holds that is not over, nor rests on what is."""
        left = {
            name: [
                one
                for one in other.held
                if not ((end := self.limit_of(one.grant)) and end.until and end.until <= self.now)
            ]
            for name, other in self.people.items()
        }
        return self.upheld(left)[person.name]

    def rests(self, held: list[Given], wanted: list[dict[str, Any]]) -> list[str]:
        """The grants of some uses by which all this is given: the longest-lived that covers it, else all about it."""
        ends = {one.grant: self.soonest(one.grant) or (NEVER, -1) for one in held}
        counted = [
            grant
            for grant in sorted(ends, key=lambda one: (self.soonest(one) is not None, ends[one]))
            if (end := self.limit_of(grant)) and (end.left is not None or end.rests)
        ]
        free = [one.capability for one in held if one.grant not in counted]
        needed: list[str] = []
        for want in wanted:
            if covered(free, want):
                continue
            of = {grant: [one.capability for one in held if one.grant == grant] for grant in counted}
            able = [grant for grant in counted if covered(of[grant], want)][-1:]
            about = [grant for grant in counted if any(permitted(one) & permitted(want) for one in of[grant])]
            needed += [two for one in able or about for two in (one, *self.limited[one].rests)]
        return list(dict.fromkeys(needed))

    def counted(self, grant: str) -> bool:
        """Whether what is done by it costs uses: such a right upholds only what costs them too."""
        end = self.limited.get(grant)
        return end is not None and (end.left is not None or end.rests != [])

    def spend(self, grant: str) -> None:
        over = []
        own = self.limited[grant]
        for id in (grant, *own.rests):
            end = self.limit_of(id)
            if end and end.left is not None:
                end.left -= 1
                over += [id] if end.left == 0 else []
        if over:
            self.end(over)

    def grant_ended(self) -> None:
        """The time of some grants is over."""
        over = [
            id
            for id, end in self.limited.items()
            if self.limit_of(id) and end.until and end.until <= self.now
        ]
        if over:
            self.end(over)

    def end(self, grants: list[str]) -> None:
        losers = set()
        for person in self.people.values():
            left = [one for one in person.held if one.grant not in grants]
            self.fallen += len(person.held) - len(left)
            if len(left) < len(person.held):
                person.held, losers = left, losers | {person.name}
        self.let_fall(losers)

    # --- grants, revokes, invites, kicks ---

    def wanted(self, payload: dict[str, Any], key: str, *, empty: bool) -> list[dict[str, Any]]:
        value = payload.get(key)
        if not isinstance(value, list) or not (value or empty):
            raise No("invalid_request")
        for one in value:
            if not isinstance(one, dict) or not one.get("kind") or set(one) - {"kind", "payload", "to", "id"}:
                raise No("invalid_capability")
        return value

    def text(self, payload: dict[str, Any], key: str) -> str:
        value = payload.get(key)
        if not isinstance(value, str) or not value:
            raise No("invalid_request")
        return value

    def do_capability_grant(self, who: Speaker, message: dict[str, Any]) -> None:
        payload = message["payload"]
        recipient = self.person_of(self.text(payload, "recipient"))
        if self.grants >= self.limits["grants"]:  # patterns are read last: that is what costs (R24)
            raise No("limit_exceeded")
        until, uses = payload.get("expires_at"), payload.get("max_uses")
        end = None
        if until is not None:
            if not isinstance(until, str) or not re.fullmatch(r"2026-01-01T00:\d\d:\d\dZ", until):
                raise No("invalid_expires_at")
            end = datetime.fromisoformat(until)
            if end <= self.now:
                raise No("expires_in_past")
        if uses is not None and (isinstance(uses, bool) or not isinstance(uses, int) or uses < 1):
            raise No("invalid_max_uses")
        wanted = self.wanted(payload, "capabilities", empty=False)
        mine = self.standing(who.person)
        if not all(covered(Person("", mine).capabilities(), one) for one in wanted):
            raise No("cannot_grant")
        rests = self.rests(mine, wanted)
        if end or uses or rests:
            self.limited[message["id"]] = Limit(end, uses, rests)
        self.grants += 1
        recipient.held = [
            *recipient.held,
            *(Given(one, message["id"], who.person.name, False) for one in wanted),
        ]
        self.welcome_all_of(recipient.name)

    def do_capability_revoke(self, who: Speaker, message: dict[str, Any]) -> None:
        payload = message["payload"]
        if payload.get("grant_id") is None and payload.get("capabilities") is None:
            raise No("invalid_request")
        recipient = self.person_of(self.text(payload, "recipient")) if "recipient" in payload else None
        gone: list[Given] = []
        kept: list[dict[str, Any]] = []
        if payload.get("grant_id") is not None:
            grant = self.text(payload, "grant_id")
            gone = [one for person in self.people.values() for one in person.held if one.grant == grant]
            if not gone:
                raise No("grant_not_found")
        else:
            if recipient is None:
                raise No("invalid_request")
            for held in recipient.held:
                touching = [
                    one
                    for one in self.wanted(payload, "capabilities", empty=False)
                    if permitted(one) & permitted(held.capability)
                ]
                if touching and covered(touching, held.capability):
                    gone.append(held)
                elif touching:
                    kept.append(held.capability)
        losers = {
            person.name
            for person in self.people.values()
            if any(one is two for one in gone for two in person.held)
        }
        if self.owner in losers or (recipient and recipient.name == self.owner):
            raise No("owner_protected")
        for person in self.people.values():
            person.held = [one for one in person.held if not any(one is two for two in gone)]
        self.let_fall(losers)
        if kept:
            self.complain(who, "revoke_partial", [message["id"]], remaining=by_text(kept))

    def let_fall(self, losers: set[str]) -> None:
        """R13: what was granted stands while its granter could grant it, counted up from what stands by itself."""
        standing = self.upheld({name: person.held for name, person in self.people.items()})
        for name, person in self.people.items():
            left = [one for one in person.held if any(one is two for two in standing[name])]
            self.fallen += len(person.held) - len(left)
            if len(left) < len(person.held):
                person.held, losers = left, losers | {name}
        for name in losers:
            self.welcome_all_of(name)

    def upheld(self, all_held: dict[str, list[Given]]) -> dict[str, list[Given]]:
        standing = {name: [one for one in held if one.rooted] for name, held in all_held.items()}
        grew = True
        while grew:
            grew = False
            for name, held in all_held.items():
                for one in held:
                    if any(one is two for two in standing[name]):
                        continue
                    rests = self.limited[one.grant].rests if one.grant in self.limited else []
                    giver = [
                        two.capability
                        for two in standing.get(one.giver, [])
                        if not self.counted(two.grant) or two.grant in rests
                    ]
                    if covered(giver, one.capability):
                        standing[name].append(one)
                        grew = True
        return {
            name: [one for one in held if any(one is two for two in standing[name])]
            for name, held in all_held.items()
        }

    def do_space_invite(self, who: Speaker, message: dict[str, Any]) -> str:
        payload, id = message["payload"], message["id"]
        name = self.text(payload, "participant_id")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name) or name.lower() in (
            "gateway",
            "system",
        ):
            raise No("invalid_request")
        former = self.people.get(name)
        same = [one for one in self.aliases if one.casefold() == name.casefold()]
        places = [*self.here, *(one for flow in self.flows for one in flow.targets)]
        used = any(one.id.casefold() == name.casefold() for one in places)
        # R8b: what another participant was called once is free, unless it is called so now.
        own = any(self.aliases[one].casefold() == name.casefold() for one in same)
        if same and (own or used) and not (former and former.kicked):
            raise No("already_exists", participant_id=name)
        if self.invites >= self.limits["invites"] or len(self.people) >= self.limits["participants"]:
            raise No("limit_exceeded")
        wanted = STARTER
        if "initial_capabilities" in payload:
            wanted = self.wanted(payload, "initial_capabilities", empty=True)
        held = []
        mine = self.standing(who.person)
        for whole in wanted:
            kinds = whole["kind"] if isinstance(whole["kind"], list) else [whole["kind"]]
            parts = [Given({**whole, "kind": kind}, id, who.person.name) for kind in kinds]
            for one in parts:
                one.rooted = covered(STARTER, one.capability)
                if not one.rooted and not covered(Person("", mine).capabilities(), one.capability):
                    raise No("cannot_grant")
            starter = all(one.rooted for one in parts)
            held += [Given(whole, id, who.person.name)] if starter else parts
        rests = self.rests(mine, [one.capability for one in held if not one.rooted])
        if rests:
            self.limited[id] = Limit(None, None, rests)
        self.invites += 1
        self.aliases = {one: who for one, who in self.aliases.items() if one not in same}
        new = Person(name, [*held, *(Given(one) for one in BASELINE)])
        new.admissions = former.admissions if former else 0
        self.people[name] = new
        self.aliases[name] = name
        self.duty("mint", participant=name)
        mine = self.places_of(who.person.name)
        places = [who.here] if who.here else [one for one in mine if not one.sink] or mine  # R28
        ack = {"status": "created", "participant_id": name, "token": "<token>"}
        ids, names = [one.id for one in places], [one.name for one in places]
        self.gateway("space/invite-ack", ack, to=ids, about=[id], only=names)
        what = {"event": "invited", "participant": [name, by_text(new.capabilities())]}
        self.gateway("system/presence", what)
        return "created"

    def do_space_kick(self, who: Speaker, message: dict[str, Any]) -> None:
        person = self.person_of(self.text(message["payload"], "participant_id"))
        if person.name == self.owner:
            raise No("owner_protected")
        gone = self.places_of(person.name)
        for one in gone:
            self.duty("close", connection=one.name, code=4403)
        self.duty("void", participant=person.name)
        person.held, person.kicked = [], True
        self.depart(gone)
        self.let_fall(set())

    # --- controls ---

    def meant(self, message: dict[str, Any]) -> list[Person]:
        if not message["to"]:
            raise No("invalid_request")
        return [self.person_of(one) for one in message["to"]]

    def do_participant_pause(self, who: Speaker, message: dict[str, Any]) -> None:
        people = self.meant(message)
        seconds = message["payload"].get("timeout_seconds")
        if seconds is not None and (isinstance(seconds, (bool, str)) or seconds <= 0):
            raise No("invalid_request")
        for person in people:
            person.paused = True
            person.paused_until = None if seconds is None else self.now + timedelta(seconds=seconds)

    def do_participant_resume(self, who: Speaker, message: dict[str, Any]) -> None:
        for person in self.meant(message):
            if person is not who.person:
                person.paused = False
        self.revive(who, message["to"])

    def do_participant_restart(self, who: Speaker, message: dict[str, Any]) -> None:
        self.revive(who, message["to"])

    def revive(self, who: Speaker, names: list[str]) -> None:
        """R14: for one who only posts by HTTP, a shutdown ends with a resume or restart by another."""
        for name in names:
            person = self.people.get(self.aliases.get(name, ""))
            if person and person is not who.person and all(one.sink for one in self.places_of(person.name)):
                person.shut_down = False

    def do_participant_shutdown(self, who: Speaker, message: dict[str, Any]) -> None:
        for person in self.meant(message):
            person.shut_down = True

    # --- streams ---

    def voice(self, who: Speaker) -> Here | None:
        """The connection that somebody speaks for. R16."""
        return who.here or self.newest(who.id) or self.newest(who.person.name)

    def do_stream_request(self, who: Speaker, message: dict[str, Any]) -> str:
        payload, owner = message["payload"], self.voice(who)
        if owner is None:
            raise No("not_connected")
        targets = payload.get("target")
        if targets is not None and not isinstance(targets, list):
            raise No("invalid_request")
        missing = [one for one in dict.fromkeys(targets or []) if self.newest(one) is None]
        if missing:
            raise No("target_not_found", targets=missing)
        if len(self.flows) >= self.limits["streams"]:
            raise No("limit_exceeded")
        self.streams_so_far += 1
        places = [place for one in targets or [] if (place := self.newest(one))]
        flow = Flow(
            f"stream-{self.streams_so_far}",
            owner.name,
            [],
            places,
            payload,
            stamp(self.now),
            message["id"],
        )
        said = {
            "stream_id": flow.id,
            "encoding": payload.get("encoding", "text"),
            "owner": owner.id,
            "authorized_writers": [owner.id],
            **({"target": targets} if targets else {}),
        }
        self.gateway("stream/open", said, to=[owner.id], about=[message["id"]])
        self.flows.append(flow)
        return "stream_opened"

    def flow(self, id: object) -> Flow | None:
        return next((one for one in self.flows if one.id == id), None)

    def do_stream_open(self, who: Speaker, message: dict[str, Any]) -> None:
        if self.flow(message["payload"].get("stream_id")):
            raise No("unauthorized")

    def do_stream_close(self, who: Speaker, message: dict[str, Any]) -> None:
        if "stream_id" in message["payload"]:
            flow = self.flow(message["payload"]["stream_id"])
        else:
            named = message.get("correlation_id", [])
            flow = next((one for one in self.flows if {one.request, self.opened[one.id]} & set(named)), None)
        if flow:
            self.check_owner(who, flow)
            self.flows.remove(flow)

    def check_owner(self, who: Speaker, flow: Flow) -> None:
        voice = self.voice(who)
        if voice is None or voice.name != flow.owner:
            raise No("unauthorized")

    def owned(self, who: Speaker, payload: dict[str, Any]) -> Flow:
        flow = self.flow(self.text(payload, "stream_id"))
        if flow is None:
            raise No("stream_not_found")
        self.check_owner(who, flow)
        return flow

    def party(self, payload: dict[str, Any], key: str) -> Here:
        here = self.newest(self.text(payload, key))
        if here is None:
            raise No("participant_not_found")
        return here

    def do_stream_grant_write(self, who: Speaker, message: dict[str, Any]) -> str:
        flow = self.owned(who, message["payload"])
        writer = self.party(message["payload"], "participant_id")
        if writer.name not in flow.writers:
            flow.writers.append(writer.name)
        self.tell("stream/write-granted", flow, message, participant_id=writer.id)
        return "granted"

    def do_stream_revoke_write(self, who: Speaker, message: dict[str, Any]) -> str:
        flow = self.owned(who, message["payload"])
        name = self.text(message["payload"], "participant_id")
        writer = self.newest(name)
        ids = {one.name: one.id for one in self.here if writer and one.person == writer.person}
        several = [one for one in flow.writers if one in ids and one != flow.owner]
        if writer is None or writer.id == name or not several:
            several = [writer.name] if writer else [""]
        if several == [flow.owner]:
            raise No("invalid_operation")
        for one in several:
            if one in flow.writers:
                flow.writers.remove(one)
            self.tell("stream/write-revoked", flow, message, participant_id=ids.get(one, name))
        return "revoked"

    def do_stream_transfer_ownership(self, who: Speaker, message: dict[str, Any]) -> str:
        flow = self.owned(who, message["payload"])
        new, old = self.party(message["payload"], "new_owner"), self.place(flow.owner)
        flow.owner = new.name
        self.tell("stream/ownership-transferred", flow, message, new_owner=new.id, previous_owner=old.id)
        return "transferred"

    def tell(self, kind: str, flow: Flow, message: dict[str, Any] | None, **facts: str) -> None:
        payload = {"stream_id": flow.id, **facts, "authorized_writers": self.writer_ids(flow)}
        self.gateway(kind, payload, about=[message["id"]] if message else [])

    def frame(self, connection: str, data: bytes, text: bool) -> None:
        who = self.speaker(connection, "", "")
        if who is None:
            return
        match = re.match(rb"#([^#]{1,256})#", data)
        id = match[1].decode("latin-1") if match else data[1:].split(b"#")[0].decode("latin-1")
        try:
            self.check_held_back(who.person, "")
            if not data.startswith(b"#"):
                self.complain(who, "invalid_frame", [])
                return
            flow = self.flow(id) if match else None
            if flow is None or connection not in self.writers(flow):
                raise No("unauthorized_stream_write")
        except No as no:
            self.refuse_frame(who, id, no.code)
            return
        receivers = self.all_here()
        if flow.targets:
            # A log sink hears whatever its participant hears.
            people = [one.person for one in flow.targets]
            receivers = [
                one.name for one in self.here if one in flow.targets or (one.sink and one.person in people)
            ]
        self.say("relay", receivers, data=data.decode("latin-1"), text=text)

    def unread(self, code: str, connection: str | None, name: str) -> None:
        """What was never read as a message is refused."""
        who = self.speaker(connection, name, name)
        if who:
            self.complain(who, code, [])
            if who.here is None:
                self.duty("reply", status=STATUSES[code], word=code)

    def refuse_frame(self, who: Speaker, id: str, code: str) -> None:
        """At most ten a second are told; the next that is told says how many were not."""
        window = self.frames_refused.setdefault(who.here.name, [self.now, 0, 0])
        if self.now - window[0] >= timedelta(seconds=1):
            window[0], window[1] = self.now, 0
        if window[1] >= 10:
            window[2] += 1
            return
        window[1] += 1
        untold, window[2] = window[2], 0
        more = {"refused_before": untold} if untold else {}
        self.complain(who, code, [], stream_id=id, **more)
