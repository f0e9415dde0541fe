"""Checks that spaces of one gateway are separate: two spaces with participants of the same names.

Spec: §2.2, §3.6.
"""

from __future__ import annotations

from mew_lab.conformance.session import CheckGroup, CheckSession, all_in
from mew_lab.conformance.wire import NotObserved

__all__ = ["checks"]

checks = CheckGroup()


@checks.shows("P-2.2-3", "P-3.6-1", "P-3.6-2", "P-3.6-3", second=True)
async def check_two_spaces_are_separate(session: CheckSession) -> None:
    admin, human = await session.join_all("admin", "human")
    there, her = await session.join("admin", second=True), await session.join("human", second=True)
    session.report(True, "", "P-3.6-2")
    for peer in (admin, human, there, her):
        await peer.settle()
    rows = "P-2.2-3 P-3.6-3 P-3.6-1"
    here_chat, there_chat = session.chat("here"), session.chat("there")
    await human.attempt(here_chat)
    await her.attempt(there_chat)
    own = await session.reaches(here_chat["id"], admin) and await session.reaches(there_chat["id"], there)
    session.report(own, "a message did not reach its own space", "P-3.6-1")
    apart = await session.hidden(here_chat["id"], there, her) and await session.hidden(
        there_chat["id"], admin, human
    )
    session.report(apart, "a message of one space reached the other", rows)
    rights = all_in(session.configured("human"), human.capabilities) and all_in(
        session.configured("human", second=True), her.capabilities
    )
    session.report(
        rights, f"human's rights here and there: {human.capabilities}, {her.capabilities}", "P-3.6-1 P-3.6-3"
    )
    kind = f"lent/{session.new_id()}"
    await there.attempt(session.grant("human", {"kind": kind}))
    refused = [(await peer.attempt(session.message(kind))).refused for peer in (her, human)]
    session.report(refused == [False, True], "a grant in one space gave a right in the other", "P-3.6-3")
    marker = session.new_id("stream")
    await her.attempt(session.message("stream/request", {"direction": "upload", "description": marker}))
    late = await session.join("observer")
    leaked = marker in str(late.welcome.raw) or any(marker in str(received.raw) for received in admin.inbox)
    session.report(not leaked, "a stream of one space was announced in the other", "P-3.6-3")
    marks = [(peer, peer.mark) for peer in (admin, human)]
    await her.leave()
    await there.settle()
    for peer, mark in marks:
        await peer.settle()
        mine = any(
            received.participant == "human" for received in peer.received("system/presence", since=mark)
        )
        session.report(not mine, "a presence of one space was sent in the other", "P-3.6-3")
    try:
        await session.join("human", token=session.token("human", second=True))
        session.report(False, "the token of one space opened the other", "P-3.6-3")
    except NotObserved:
        session.report(True, "", "P-3.6-3")


@checks.shows("P-3.6-4", second=True)
async def check_rights_are_checked_in_every_space(session: CheckSession) -> None:
    there, her = await session.join("admin", second=True), await session.join("human", second=True)
    request = session.message("mcp/request", {"method": "tools/list"})
    outcome = await session.expect_refusal(her, request, there)
    session.report(
        outcome.refused, "a message that human may send only in the first space was accepted in the second"
    )
    chat = session.chat("allowed there")
    await her.attempt(chat)
    session.report(
        await session.reaches(chat["id"], there),
        "a message that human may send in the second space was not delivered",
    )
