"""Checks that a gateway knows the sender of a message: `from`, logical names and runtime ids.

Spec: §3.6.4, §4.1, §7.1.
"""

from __future__ import annotations

import json
from decimal import Decimal

from mew_lab.conformance.session import CheckGroup, CheckSession
from mew_lab.conformance.wire import NotObserved

__all__ = ["checks"]

checks = CheckGroup()


@checks.shows("P-4.1-1", "P-7.1-1")
async def check_a_foreign_from_is_refused(session: CheckSession) -> None:
    human, reader, admin = await session.join_all("human", "reader", "admin")
    for claimed in ("reader", "system:gateway", "gateway", "nobody-at-all", "Human", "human ", ""):
        outcome = await session.expect_refusal(human, session.chat("who am I?", from_=claimed), reader, admin)
        refused = outcome.refused
        session.report(refused, f"human sent as {claimed!r}, and it was not refused")
    outcome = await session.expect_refusal(admin, session.chat("who am I?", from_="human"), reader)
    session.report(outcome.refused, "admin sent as 'human', and it was not refused")
    own = await human.attempt(session.chat("it is me", from_=human.id))
    session.report(not own.refused, "a message with the sender's own id in `from` was refused")


@checks.shows(
    "P-3.6.4-1", "P-3.6.4-2", "P-3.6.4-3", "P-3.6.4-4", "P-3.6.4-5", "P-3.6.1-11", "P-3.6.1-12"
)  # fmt: skip
async def check_a_logical_name_leads_to_the_runtime_id(session: CheckSession) -> None:
    (admin,) = await session.join_all("admin")
    spare = await session.join("spare", as_id=session.new_name("runtime"))
    await spare.settle()
    session.report(bool(spare.id), "the welcome named no id", "P-3.6.4-1")
    chat = session.chat("by its logical name", to=["spare"])
    await admin.attempt(chat)
    await spare.settle()
    got = [received.members.get("to") for received in spare.inbox if received.id == chat["id"]]
    right = got == [[spare.id]]
    session.report(
        right, f"a message to 'spare', who is {spare.id!r} now, arrived with to = {got}", "P-3.6.4-2"
    )
    mark = spare.mark
    kind = f"lent/{session.new_id()}"
    grant = session.grant("spare", {"kind": kind})
    outcome = await admin.attempt(grant)
    session.report(
        not outcome.refused, f"a grant to a logical name was refused ({outcome.code})", "P-3.6.4-3"
    )
    await spare.settle()
    news = spare.received("system/welcome", since=mark)
    session.report(
        bool(news), "a grant to the logical name brought its connection no new welcome", "P-3.6.4-4"
    )
    to = [received.members.get("to") for received in news]
    right = bool(news) and all(addressees == [spare.id] for addressees in to)
    session.report(right, f"the new welcome of {spare.id!r} was addressed to {to}", "P-3.6.4-5 P-3.6.1-11")
    used = await spare.attempt(session.message(kind))
    session.report(
        not used.refused, "a grant to the logical name did not hold for the runtime id", "P-3.6.1-12"
    )
    revoked = await admin.attempt(session.revoke(spare.id, grant_id=grant["id"]))
    await spare.leave()  # another row checks when a revoke takes effect
    spare = await session.join("spare", as_id=session.new_name("runtime"))
    after = await spare.attempt(session.message(kind))
    both = not revoked.refused and after.refused
    session.report(
        both, "a revoke by runtime id did not take a grant to the logical name", "P-3.6.4-3 P-3.6.1-12"
    )


@checks.shows("C-26")
async def check_nobody_takes_the_name_of_another(session: CheckSession) -> None:
    admin, human = await session.join_all("admin", "human")
    runtime = session.new_name("runtime")
    await session.join("reader", as_id=runtime)
    for taken in ("human", "HUMAN", "viewer", runtime, "system:gateway", "gateway"):
        try:
            thief = await session.join("spare", as_id=taken)
        except NotObserved:
            continue
        session.report(thief.id != taken, f"spare was admitted under {taken!r}, which is not its own")
        await thief.leave()
    chat = session.chat("still there")
    await human.attempt(chat)
    reached = await session.reaches(chat["id"], admin, human)
    session.report(reached, "messages of human were not delivered after others had claimed its name")


@checks.shows("P-8.1-9", "P-3.1.2-3", "C-16")
async def check_a_message_arrives_unchanged(session: CheckSession) -> None:
    human, reader, admin = await session.join_all("human", "reader", "admin")
    id = session.new_id("exact")
    text = (
        '{ "payload" : {"z":1.0, "a":[1e2,0.1000000000000000055,12345678901234567890], "text":"caf\\u00e9 \\/ é",'
        ' "jsonrpc":"2.0","id":7,"method":"tools/list","extra":null},"kind":"mcp/request" ,'
        f' "unknown":{{"b":1,"a":[ ]}}, "ts":"2001-02-03T04:05:06.700Z","from":"human","id":"{id}",'
        ' "protocol":"mew/v0.4","to":["reader"]}'
    )
    outcome = await human.attempt(text, id=id)
    if outcome.refused:
        session.report(False, f"a complete and correct message was refused ({outcome.code})")
        return
    for peer in (reader, admin):
        await peer.settle()
        raw = next((received.raw for received in peer.inbox if received.id == id), "")
        got = _as_written(str(raw))
        same = got is not None and got == _as_written(text)
        session.report(
            same, f"members, their order or their numbers had changed when it reached {peer.role}", "P-8.1-9"
        )
        payload = _payload(str(raw)) == _payload(text)
        session.report(payload, f"the MCP payload had changed when it reached {peer.role}", "P-3.1.2-3")
        session.report(
            raw == text, f"a complete message was not forwarded byte for byte to {peer.role}", "C-16"
        )


def _payload(text: str) -> object:
    """The payload as a JSON reader gets it, without the order of members and the last digits of numbers."""
    try:
        members = json.loads(text, parse_int=float)
    except ValueError:
        return None
    return members.get("payload") if isinstance(members, dict) else None


def _as_written(text: str) -> list[tuple[str, object]] | None:
    """The members in their order, numbers as exact values: `1e2` is 100; None when it is no JSON object."""
    try:
        members = json.loads(text, object_pairs_hook=list, parse_float=Decimal, parse_int=Decimal)
    except ValueError:
        return None
    return members if isinstance(members, list) else None


@checks.shows("C-14", "C-16")
async def check_missing_members_are_completed_once(session: CheckSession) -> None:
    human, reader = await session.join_all("human", "reader")
    text = session.new_id("text")
    await human.attempt(json.dumps({"kind": "chat", "payload": {"text": text}}), id="")
    await reader.settle()
    got = next((received for received in reader.inbox if received.payload.get("text") == text), None)
    if got is None:
        session.report(False, "a message without id, ts, from and protocol was not delivered")
        return
    members = got.members
    right = (
        members.get("protocol") == "mew/v0.4"
        and members.get("from") == human.id
        and isinstance(members.get("id"), str)
        and bool(members["id"])
        and isinstance(members.get("ts"), str)
    )
    session.report(right, f"missing members were completed as {members}")
    old = session.chat("from the past", ts="1999-12-31T23:59:59Z")
    await human.attempt(old)
    await reader.settle()
    ts = [received.members.get("ts") for received in reader.inbox if received.id == old["id"]]
    session.report(ts == [old["ts"]], f"a sender's own ts arrived as {ts}", "C-14")


@checks.shows("C-15")
async def check_the_id_of_a_handle_is_taken_once(session: CheckSession) -> None:
    human, proposer = await session.join_all("human", "proposer")
    request = session.message("mcp/request", {"method": "tools/list"}, to=["reader"])
    first = await human.attempt(request)
    session.report(not first.refused, "a request with a new id was refused")
    again = await human.attempt(request)
    session.report(again.refused, "one participant took one id for two requests")
    other = await proposer.attempt({**request, "kind": "mcp/proposal"})
    await human.settle()
    stolen = any(received.id == request["id"] for received in human.received("mcp/proposal"))
    session.report(other.refused and not stolen, "a proposal took the id of another's request")
    chat = session.chat("once more")
    await human.attempt(chat)
    twice = await human.attempt(chat)
    session.report(not twice.refused, "a chat message whose id was seen before was refused")
    await human.leave()
    human = await session.join("human")
    anew = await human.attempt(request)
    session.report(not anew.refused, "after a new admission a participant could not use its own id again")
    gateway_id = human.welcome.id
    if isinstance(gateway_id, str) and gateway_id.startswith("gw-"):
        mine = await session.expect_refusal(
            human, session.chat("as the gateway") | {"id": gateway_id + "0"}, proposer
        )
        session.report(mine.refused, "an id like the gateway's own was accepted")


@checks.shows("C-4")
async def check_the_gateway_has_one_name(session: CheckSession) -> None:
    admin, human = await session.join_all("admin", "human")
    outcome = await human.attempt(session.chat("to the gateway", to=["gateway"]))
    session.report(not outcome.refused, "a message to 'gateway' was refused")
    await session.join("reader")
    await human.attempt(session.message("no/right"))
    await admin.attempt(session.message("stream/request", {"direction": "upload"}, to=["gateway"]))
    await admin.attempt(
        session.message("space/invite", {"participant_id": "human", "initial_capabilities": []})
    )
    made = {"system/welcome", "system/presence", "system/error", "stream/open", "space/invite-ack"}
    seen = [received for peer in (admin, human) for received in peer.inbox if received.kind in made]
    senders = {(received.kind, received.members.get("from")) for received in seen}
    others = sorted(f"{kind} from {sender!r}" for kind, sender in senders if sender != "system:gateway")
    session.report(not others, f"the gateway sent under another name: {', '.join(others)}")
    missing = made - {"stream/open", "space/invite-ack"} - {kind for kind, _ in senders}
    session.report(not missing, f"the gateway sent nothing as {', '.join(sorted(missing))}")
