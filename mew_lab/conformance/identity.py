"""Does the gateway know who speaks, under whatever name?  `from`, logical names and runtime ids.

Spec: §3.6.4, §4.1, §7.1.
"""

from __future__ import annotations

import json
from decimal import Decimal

from mew_lab.conformance.stage import Chapter, Stage
from mew_lab.conformance.wire import Unmet
from mew_lab.transport.link import HandshakeRefused

__all__ = ["chapter"]

chapter = Chapter()


@chapter.shows("P-4.1-1", "P-7.1-1")
async def a_foreign_from_is_refused(stage: Stage) -> None:
    human, reader, admin = await stage.seats("human", "reader", "admin")
    for claimed in ("reader", "system:gateway", "gateway", "nobody-at-all", "Human", "human ", ""):
        outcome = await stage.refuses(human, stage.chat("who am I?", from_=claimed), reader, admin)
        refused = outcome.refused
        stage.claim("P-4.1-1 P-7.1-1", refused, f"human sent as {claimed!r}, and it was not refused")
    outcome = await stage.refuses(admin, stage.chat("who am I?", from_="human"), reader)
    stage.claim("P-4.1-1 P-7.1-1", outcome.refused, "admin sent as 'human', and it was not refused")
    own = await human.attempt(stage.chat("it is me", from_=human.id))
    stage.claim(
        "P-4.1-1 P-7.1-1", not own.refused, "a message with the sender's own id in `from` was refused"
    )


@chapter.shows(
    "P-3.6.4-1", "P-3.6.4-2", "P-3.6.4-3", "P-3.6.4-4", "P-3.6.4-5", "P-3.6.1-11", "P-3.6.1-12"
)  # fmt: skip
async def a_logical_name_leads_to_the_runtime_id(stage: Stage) -> None:
    (admin,) = await stage.seats("admin")
    spare = await stage.join("spare", as_id=stage.new_name("runtime"))
    await spare.settle()
    stage.claim("P-3.6.4-1", bool(spare.id), "the welcome named no id")
    chat = stage.chat("by its logical name", to=["spare"])
    await admin.attempt(chat)
    await spare.settle()
    got = [one.members.get("to") for one in spare.inbox if one.id == chat["id"]]
    right = got == [[spare.id]]
    stage.claim("P-3.6.4-2", right, f"a message to 'spare', who is {spare.id!r} now, arrived with to = {got}")
    mark = spare.mark
    kind = f"lent/{stage.new_id()}"
    grant = stage.grant("spare", {"kind": kind})
    outcome = await admin.attempt(grant)
    stage.claim("P-3.6.4-3", not outcome.refused, f"a grant to a logical name was refused ({outcome.code})")
    await spare.settle()
    news = [one for one in spare.inbox[mark:] if one.kind == "system/welcome"]
    stage.claim("P-3.6.4-4", bool(news), "a grant to the logical name brought its connection no new welcome")
    to = [one.members.get("to") for one in news]
    told = bool(news) and all(one == [spare.id] for one in to)
    stage.claim("P-3.6.4-5 P-3.6.1-11", told, f"the new welcome of {spare.id!r} was addressed to {to}")
    used = await spare.attempt(stage.message(kind))
    stage.claim(
        "P-3.6.1-12", not used.refused, "what was granted to the logical name did not hold at the runtime id"
    )
    revoked = await admin.attempt(stage.revoke(spare.id, grant_id=grant["id"]))
    await spare.leave()  # when a revoke takes effect is another row's question
    spare = await stage.join("spare", as_id=stage.new_name("runtime"))
    after = await spare.attempt(stage.message(kind))
    both = not revoked.refused and after.refused
    stage.claim(
        "P-3.6.4-3 P-3.6.1-12", both, "a revoke by runtime id did not take what was granted by logical name"
    )


@chapter.shows("C-26")
async def nobody_takes_the_name_of_another(stage: Stage) -> None:
    admin, human = await stage.seats("admin", "human")
    runtime = stage.new_name("runtime")
    await stage.join("reader", as_id=runtime)
    for taken in ("human", "HUMAN", "viewer", runtime, "system:gateway", "gateway"):
        try:
            thief = await stage.knock("spare")
            await thief.send(stage.join_frame("spare", as_id=taken))
            await stage.welcomed(thief)
        except (Unmet, HandshakeRefused):
            continue
        stage.claim("C-26", thief.id != taken, f"spare was let in under {taken!r}, which is not its own")
        await thief.leave()
    chat = stage.chat("still there")
    await human.attempt(chat)
    heard = await stage.reaches(chat["id"], admin, human)
    stage.claim("C-26", heard, "human was not heard any more after others had claimed its name")


@chapter.shows("P-8.1-9", "P-3.1.2-3", "C-16")
async def what_is_sent_is_what_arrives(stage: Stage) -> None:
    human, reader, admin = await stage.seats("human", "reader", "admin")
    id = stage.new_id("exact")
    text = (
        '{ "payload" : {"z":1.0, "a":[1e2,0.1000000000000000055,12345678901234567890], "text":"caf\\u00e9 \\/ é",'
        ' "jsonrpc":"2.0","id":7,"method":"tools/list","extra":null},"kind":"mcp/request" ,'
        f' "unknown":{{"b":1,"a":[ ]}}, "ts":"2001-02-03T04:05:06.700Z","from":"human","id":"{id}",'
        ' "protocol":"mew/v0.4","to":["reader"]}'
    )
    outcome = await human.attempt(text, id=id)
    if outcome.refused:
        stage.claim(
            "P-8.1-9 P-3.1.2-3 C-16", False, f"a complete and correct message was refused ({outcome.code})"
        )
        return
    for guest in (reader, admin):
        await guest.settle()
        raw = next((one.raw for one in guest.inbox if one.id == id), "")
        got = _as_written(str(raw))
        same = got is not None and got == _as_written(text)
        stage.claim(
            "P-8.1-9", same, f"members, their order or their numbers had changed when it reached {guest.role}"
        )
        payload = _payload(str(raw)) == _payload(text)
        stage.claim("P-3.1.2-3", payload, f"the MCP payload had changed when it reached {guest.role}")
        stage.claim(
            "C-16", raw == text, f"a complete message was not forwarded byte for byte to {guest.role}"
        )


def _payload(text: str) -> object:
    """The payload as any JSON reader has it: neither order nor the spelling of a number counts, nor its last digits."""
    try:
        found = json.loads(text, parse_int=float)
    except ValueError:
        return None
    return found.get("payload") if isinstance(found, dict) else None


def _as_written(text: str) -> list[tuple[str, object]] | None:
    """The members in their order, numbers as exact values: `1e2` is 100; None when it is no JSON object."""
    try:
        found = json.loads(text, object_pairs_hook=list, parse_float=Decimal, parse_int=Decimal)
    except ValueError:
        return None
    return found if isinstance(found, list) else None


@chapter.shows("C-14", "C-16")
async def what_is_missing_is_filled_in_once(stage: Stage) -> None:
    human, reader = await stage.seats("human", "reader")
    text = stage.new_id("text")
    await human.attempt(json.dumps({"kind": "chat", "payload": {"text": text}}), id="")
    await reader.settle()
    got = next((one for one in reader.inbox if one.payload.get("text") == text), None)
    if got is None:
        stage.claim("C-14 C-16", False, "a message without id, ts, from and protocol was not delivered")
        return
    members = got.members
    right = (
        members.get("protocol") == "mew/v0.4"
        and members.get("from") == human.id
        and isinstance(members.get("id"), str)
        and bool(members["id"])
        and isinstance(members.get("ts"), str)
    )
    stage.claim("C-14 C-16", right, f"what was missing was filled in as {members}")
    old = stage.chat("from the past", ts="1999-12-31T23:59:59Z")
    await human.attempt(old)
    await reader.settle()
    ts = [one.members.get("ts") for one in reader.inbox if one.id == old["id"]]
    stage.claim("C-14", ts == [old["ts"]], f"a sender's own ts arrived as {ts}")


@chapter.shows("C-15")
async def the_id_of_a_handle_is_taken_once(stage: Stage) -> None:
    human, proposer = await stage.seats("human", "proposer")
    request = stage.message("mcp/request", {"method": "tools/list"}, to=["reader"])
    first = await human.attempt(request)
    stage.claim("C-15", not first.refused, "a request with a new id was refused")
    again = await human.attempt(request)
    stage.claim("C-15", again.refused, "one participant took one id for two requests")
    other = await proposer.attempt({**request, "kind": "mcp/proposal"})
    await human.settle()
    stolen = any(one.id == request["id"] and one.kind == "mcp/proposal" for one in human.inbox)
    stage.claim("C-15", other.refused and not stolen, "a proposal took the id of another's request")
    chat = stage.chat("once more")
    await human.attempt(chat)
    twice = await human.attempt(chat)
    stage.claim("C-15", not twice.refused, "a chat message whose id was seen before was refused")
    await human.leave()
    human = await stage.join("human")
    anew = await human.attempt(request)
    stage.claim(
        "C-15", not anew.refused, "after a new admission a participant could not use its own id again"
    )
    gateway_id = human.welcome.id
    if isinstance(gateway_id, str) and gateway_id.startswith("gw-"):
        mine = await stage.refuses(human, stage.chat("as the gateway") | {"id": gateway_id + "0"}, proposer)
        stage.claim("C-15", mine.refused, "an id like the gateway's own was accepted")


@chapter.shows("C-4")
async def the_gateway_has_one_name(stage: Stage) -> None:
    admin, human = await stage.seats("admin", "human")
    outcome = await human.attempt(stage.chat("to the gateway", to=["gateway"]))
    stage.claim("C-4", not outcome.refused, "a message to 'gateway' was refused")
    await stage.join("reader")
    await human.attempt(stage.message("no/right"))
    await admin.attempt(stage.message("stream/request", {"direction": "upload"}, to=["gateway"]))
    await admin.attempt(
        stage.message("space/invite", {"participant_id": "human", "initial_capabilities": []})
    )
    made = {"system/welcome", "system/presence", "system/error", "stream/open", "space/invite-ack"}
    seen = [one for guest in (admin, human) for one in guest.inbox if one.kind in made]
    senders = {(one.kind, one.members.get("from")) for one in seen}
    others = sorted(f"{kind} from {sender!r}" for kind, sender in senders if sender != "system:gateway")
    stage.claim("C-4", not others, f"the gateway spoke under another name: {', '.join(others)}")
    missing = made - {"stream/open", "space/invite-ack"} - {kind for kind, _ in senders}
    stage.claim("C-4", not missing, f"the gateway did not speak at all by {', '.join(sorted(missing))}")
