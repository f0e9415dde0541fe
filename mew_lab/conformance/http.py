"""Checks that HTTP is the same pipeline as the WebSocket: injection, its checks and answers, and the history.

Both routes are optional; where one is missing, its rows cannot be tested.

Spec: §5.3.
"""

from __future__ import annotations

import json
from typing import Any

from mew_lab.conformance.membership import invite
from mew_lab.conformance.session import CheckGroup, CheckSession
from mew_lab.conformance.wire import HttpAnswer
from mew_lab.protocol.coerce import mapping_of

__all__ = ["checks"]

checks = CheckGroup()


def _report_missing(session: CheckSession, answer: HttpAnswer) -> bool:
    """Reports a route that the gateway does not offer; returns whether it does not."""
    if answer.status in (404, 405, 501):
        session.cannot_tell(
            f"{answer.route} was answered with HTTP {answer.status}: the gateway does not offer it"
        )
        return True
    return False


@checks.shows("P-5.3-1", "P-5.3-4", "C-16")
async def check_a_posted_message_is_delivered(session: CheckSession) -> None:
    admin, _human = await session.join_all("admin", "human")  # a poster may have to be present
    message = session.chat("by HTTP")
    answer = await session.post("human", message)
    if _report_missing(session, answer):
        return
    arrived = answer.taken and await session.reaches(message["id"], admin)
    session.report(
        arrived, f"a posted message was answered with {answer.status} and did not arrive", "P-5.3-1"
    )
    sender = [received.members.get("from") for received in admin.inbox if received.id == message["id"]]
    session.report(sender == ["human"], f"a posted message arrived from {sender}", "P-5.3-1")
    body = mapping_of(answer.body)
    right = body.get("id") == message["id"] and body.get("status") == "accepted" and "timestamp" in body
    if answer.taken:
        session.report(right, f"a posted message was answered with {answer.text[:200]}", "P-5.3-4")
    else:
        session.cannot_tell(f"a posted message was answered with HTTP {answer.status}", "P-5.3-4")
    text = session.new_id("text")
    answer = await session.post("human", json.dumps({"kind": "chat", "payload": {"text": text}}))
    await admin.settle()
    got = next((received.members for received in admin.inbox if received.payload.get("text") == text), {})
    whole = {"protocol", "id", "ts", "from"} <= got.keys() and got.get("from") == "human"
    session.report(
        whole, f"a posted message without id, ts and protocol arrived as {got or 'nothing'}", "C-16"
    )
    named = isinstance(answer.body, dict) and answer.body.get("id") == got.get("id")
    session.report(named, f"the answer {answer.text[:200]} did not name the id that was filled in", "C-16")


@checks.shows("P-5.3-2")
async def check_http_has_the_same_rights(session: CheckSession) -> None:
    admin, observer, *_ = await session.join_all("admin", "observer", "proposer", "reader", "human")
    cases: tuple[tuple[str, dict[str, Any]], ...] = (
        ("observer", session.chat("no right to chat")),
        ("proposer", session.message("mcp/request", {"method": "tools/call", "params": {"name": "x"}})),
        (
            "reader",
            session.message("mcp/request", {"method": "tools/call", "params": {"name": "write_file"}}),
        ),
        ("admin", session.message("system/presence", {"event": "join"})),
        # Messages that do not change a gateway that accepts them, for the checks that follow.
        ("human", session.grant("human", {"kind": "mcp/request"})),
        ("human", session.message("space/kick", {"participant_id": "nobody-here"})),
    )
    for role, message in cases:
        answer = await session.post(role, message)
        if _report_missing(session, answer):
            return
        hidden = await session.hidden(message["id"], admin, observer)
        right = 400 <= answer.status < 500 and hidden
        detail = f"{message['kind']} of {role}, which may not send it, was answered with HTTP {answer.status}"
        session.report(right, detail + ("" if hidden else ", and delivered"))
    allowed = await session.post(
        "reader", session.message("mcp/request", {"method": "tools/call", "params": {"name": "read_x"}})
    )
    session.report(allowed.taken, f"a message that reader may send was answered with HTTP {allowed.status}")


@checks.shows("P-5.3-3")
async def check_the_token_must_be_that_of_the_path(session: CheckSession) -> None:
    admin, _human = await session.join_all("admin", "human")
    tries: tuple[tuple[str, dict[str, Any]], ...] = (
        ("another's token", {"as_": "admin"}),
        ("no token", {"header": False}),
        ("an unknown participant", {"as_": "nobody-here"}),
    )
    for what, how in tries:
        message = session.chat(what)
        answer = await session.post("human", message, **how)
        if what == "another's token" and _report_missing(session, answer):
            return
        hidden = await session.hidden(message["id"], admin)
        right = answer.status in (401, 403, 404) and hidden
        session.report(right, f"a post with {what} was answered with HTTP {answer.status}")
    forged = session.chat("as another", from_="admin")
    answer = await session.post("human", forged)
    hidden = await session.hidden(forged["id"], admin)
    session.report(
        hidden and answer.status >= 400, f"a post by human as admin was answered with HTTP {answer.status}"
    )
    plain = session.chat("without from")
    await session.post("human", json.dumps(plain))
    await admin.settle()
    senders = {received.members.get("from") for received in admin.inbox if received.id == plain["id"]}
    detail = f"a post without `from` on human's path arrived from {senders}"
    session.report(senders <= {"human"}, detail)


def _messages(answer: HttpAnswer) -> list[dict[str, Any]] | None:
    """The envelopes of a history, in any surrounding object; None when there is no list."""
    lists = [answer.body] if isinstance(answer.body, list) else []
    if isinstance(answer.body, dict):
        lists = [value for value in answer.body.values() if isinstance(value, list)]
    return [entry for entry in lists[0] if isinstance(entry, dict)] if lists else None


@checks.shows("P-5.3-5", "P-5.3-6", "P-5.3-7")
async def check_the_history_holds_only_visible_messages(session: CheckSession) -> None:
    admin, human = await session.join_all("admin", "human")
    since = str(admin.welcome.members.get("ts", "1970-01-01T00:00:00Z"))
    message = session.chat("for the history", ts="2001-01-01T00:00:00Z")
    await human.attempt(message)
    await invite(session, admin)
    path = f"/participants/human/messages?space={session.profile.space}&since={since.replace('+', '%2B')}"
    answer = await session.get(path, role="human")
    if _report_missing(session, answer):
        return
    history = _messages(answer)
    session.report(
        answer.status == 200 and history is not None,
        f"the history was answered with {answer.status}",
        "P-5.3-5",
    )
    mine = [entry for entry in history or () if entry.get("id") == message["id"]]
    whole = len(mine) == 1 and message.items() <= mine[0].items() and mine[0].get("from") == "human"
    session.report(whole, f"a message stood in the history as {mine}", "P-5.3-6")
    complete = all({"protocol", "id", "ts", "from", "kind"} <= entry.keys() for entry in history or ())
    session.report(complete, "an envelope of the history was not complete", "P-5.3-6")
    private = [
        entry["kind"]
        for entry in history or ()
        if entry.get("kind") in ("space/invite-ack", "system/welcome", "system/error")
        and "human" not in (entry.get("to") or ())
    ]
    session.report(not private, f"human's history contains messages for others alone: {private}", "P-5.3-7")
    foreign = await session.get(path, role="observer")
    session.report(
        foreign.status in (401, 403), f"another's history was answered with {foreign.status}", "P-5.3-7"
    )
