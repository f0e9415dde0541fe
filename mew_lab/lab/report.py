"""Makes the listings of a lab: participants, tools, proposals, decisions and status. Reads live state on the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from mew_lab.errors import MewError, NoReply, ToolFailed
from mew_lab.lab.actions import ParticipantActions
from mew_lab.lab.call_check import listed
from mew_lab.lab.decisions.statistics import describe_hurry, describe_shares
from mew_lab.lab.decisions.text import ListedProposal, Proposals
from mew_lab.lab.listing import Listing, Note
from mew_lab.lab.session import Session
from mew_lab.protocol.json_schema import members_of
from mew_lab.protocol.text import count_of, local_time
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.discovery import ToolReading, list_tools
from mew_lab.sdk.tools import METHOD_NOT_FOUND

__all__ = [
    "GatheredTools",
    "farewell",
    "gather_tools",
    "history",
    "proposals",
    "status",
    "tell_left_paused",
    "tools",
    "who",
]

MOST_NAMED = 20  # proposals that a farewell names
MOST_ERROR = 200  # characters of an error in place of a list
NONE = "No tools yet. Add an MCP server with %mew bridge NAME -- COMMAND, or a function with @lab.tool."
UNKNOWN = "No tools are known, because not every participant has listed its own."


def _kinds(patterns: Any) -> str:
    """The kinds of a capability list, one word each; kinds with further conditions are marked."""
    words = []
    for pattern in patterns:
        kind = pattern.get("kind")
        word = "|".join(map(str, kind)) if isinstance(kind, list) else str(kind)
        words.append(f"{word}(…)" if "payload" in pattern or "to" in pattern else word)
    return ", ".join(dict.fromkeys(words))


def who(session: Session) -> Listing:
    """Participants: id, role in this process, connection ids, permitted kinds."""
    rows = []
    if session.host is not None:
        for participant in session.host.gateway.participants(session.space):
            name = participant["id"]
            here = ", ".join(session.host.gateway.runtime_ids(session.space, name)) or "no"
            what = session.seats[name].what if name in session.seats else ""
            rows.append((_named(session, name), what, here, _kinds(participant["capabilities"])))
    else:
        client = session.me.participant.client
        rows.append((_named(session, client.id), "you", client.id, _kinds(client.capabilities.patterns)))
        rows += [(name, "", name, _kinds(patterns)) for name, patterns in sorted(client.participants.items())]
    return Listing(
        f"{session.space}: participants",
        ("participant", "what", "connected as", "may send"),
        rows,
        empty="Nobody is here.",
    )


def _named(session: Session, name: str) -> str:
    return f"{name} (you)" if name == session.me.name else name


def proposals(session: Session, *, all: bool) -> Proposals:
    """The open proposals, each with everything that would be sent; with `all` the decided ones before them."""
    cards = [*(session.decisions.decided() if all else []), *session.decisions.pending()]
    rows = [
        ListedProposal(card, n, since=local_time(card.since), gate=session.decisions.gate)
        for n, card in enumerate(cards)
    ]
    return Proposals(f"{session.space}: proposals", rows)


def history(session: Session) -> Listing:
    """Decisions: time, tool, proposer, decision, its author, time on screen, outcome."""
    decided, me = session.decisions.decided(), session.me.participant.client.id
    rows = [
        (
            local_time(card.decided_at or card.since),
            card.call,
            card.named(card.proposer),
            card.decided_as,
            card.by,
            "" if card.on_screen is None else f"{card.on_screen:.1f} s",
            card.told,
        )
        for card in decided
    ]
    return Listing(
        f"{session.space}: decisions",
        ("at", "call", "from", "decision", "by", "on screen", "outcome"),
        rows,
        empty="No decisions yet.",
        note=" ".join(filter(None, (describe_shares(decided, me=me), describe_hurry(decided, me=me)))),
    )


def status(session: Session) -> Listing:
    """The state of the lab, one fact a row."""
    policy = session.decisions.policy
    journal = (
        session.host.journal.path if session.host is not None and session.host.journal is not None else "none"
    )
    client = session.me.participant.client
    rows: list[tuple[Any, ...]] = [
        ("space", session.space),
        ("address", session.url or "in memory only"),
        ("you are", client.id),
        ("connection", client.state),
        ("participants", len(client.participants) + 1),
        ("messages", len(session.log)),
        ("open proposals", len(session.decisions.pending())),
        (
            "who decides",
            session.decisions.gate.stopped or (f"policy {policy.name}" if policy is not None else "you"),
        ),
        ("journal", journal),
    ]
    if session.host is not None and session.host.journal is not None:
        rows.append(("journal head", session.host.journal.head.chain[:8].decode()))
    rows += [("fault", text) for text in session.faults[-5:]]
    return Listing(f"{session.name}", ("what", "is"), rows)


class GatheredTools(NamedTuple):
    """The tools that participants listed when they were asked.

    `listed` are pairs of a participant and an entry of its list, `silent` those that did not answer, `failed` the
    errors of the others that gave no list, and `left_out` a sentence about each list with entries that do not count.
    """

    listed: list[tuple[str, dict[str, Any]]]
    silent: list[str]
    failed: Mapping[str, str]
    left_out: list[str]

    @property
    def remarks(self) -> list[str]:
        """A sentence about each list that is not there, or not whole."""
        silent = [f"no answer from {', '.join(self.silent)}"] if self.silent else []
        failed = [f"{one_line(name, 80)} did not list its tools: {why}" for name, why in self.failed.items()]
        return [*silent, *failed, *self.left_out]


async def gather_tools(session: Session, participant: str | None, *, patience: float) -> GatheredTools:
    """The tools of all participants that may have some, or of one.

    Sends requests, as any participant would.
    """
    present = sorted(session.me.participant.client.participants)
    if participant is not None and participant not in present:
        raise MewError(f"{participant[:80]!r} is not here; here are {', '.join(present) or 'no others'}")
    targets = (
        [participant]
        if participant is not None
        else [name for name in present if _may_have_tools(session, name)]
    )

    async def ask(name: str) -> ToolReading:
        return await list_tools(session.me.participant.correlations, name, timeout=patience)

    answers = await asyncio.gather(*(ask(name) for name in targets), return_exceptions=True)
    found = GatheredTools([], [], failed := {}, [])
    for name, answer in zip(targets, answers, strict=True):
        if isinstance(answer, NoReply):
            found.silent.append(name)
        elif isinstance(answer, ToolFailed) and answer.code == METHOD_NOT_FOUND:
            pass  # it has no tools
        elif isinstance(answer, MewError):
            failed[name] = one_line(str(answer), MOST_ERROR)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found.listed.extend((name, tool) for tool in answer.entries)
            found.left_out.extend([f"of {one_line(name, 80)}: {answer.omitted}"] if answer.omitted else [])
    return found


def _may_have_tools(session: Session, name: str) -> bool:
    seat = session.seats.get(name)
    return seat is None or seat.what != "seat" or bool(seat.participant.tools.tools)


def tools(found: GatheredTools) -> Listing:
    """Tools: participant/tool, arguments, description."""
    rows = []
    for name, tool in found.listed:
        schema = tool.get("inputSchema")
        arguments = ", ".join(
            argument if member.required else f"[{argument}]"
            for argument, member in members_of(schema).items()
        )
        about = str(tool.get("description") or "").strip().split("\n")[0]
        rows.append((f"{name}/{tool.get('name')}", arguments, about))
    return Listing(
        "tools",
        ("tool", "arguments", "what it does"),
        rows,
        empty=UNKNOWN if found.silent or found.failed else NONE,
        note="; ".join(found.remarks),
    )


def farewell(session: Session) -> Note:
    """A sentence with the proposals that end with the lab, the results that it forgets, and the path of its journal."""
    open_cards = session.decisions.pending()
    text = f"{session.name} is down: {count_of(len(session.log), 'message')}"
    if open_cards:
        named = ", ".join(f"{one_line(card.id, 80)} ({card.request})" for card in open_cards[:MOST_NAMED])
        more = f" and {len(open_cards) - MOST_NAMED} more" if len(open_cards) > MOST_NAMED else ""
        text += f"; still pending: {named}{more}"
    stores = [seat.participant.results.store for seat in session.seats.values()]
    if kept := sum(map(len, stores)):
        size = sum(store.used for store in stores)
        text += f"; it forgets {count_of(kept, 'result')} too large for a message ({size:,} bytes)"
    if session.host is not None and session.host.journal is not None:
        text += f"; the journal stays in {session.host.journal.path}"
    if left := tell_left_paused(session):
        text += f"; {left}: lab.of(NAME).resume() of the next lab there ends it"
    return Note(text)


def tell_left_paused(session: Session) -> str:
    """Which agents of a space elsewhere this person leaves paused, as a phrase; empty for none. On the loop."""
    paused = () if session.host is not None else ParticipantActions(session).agents().paused
    return f"still paused by you: {listed(paused)}" if paused else ""
