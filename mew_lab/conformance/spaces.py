"""Are the spaces of one gateway kept apart?  Two spaces with participants of the same names.

Spec: §2.2, §3.6.
"""

from __future__ import annotations

from mew_lab.conformance.stage import Chapter, Stage, all_in
from mew_lab.conformance.wire import Unmet
from mew_lab.transport.link import HandshakeRefused

__all__ = ["chapter"]

chapter = Chapter()


@chapter.shows("P-2.2-3", "P-3.6-1", "P-3.6-2", "P-3.6-3", second=True)
async def two_spaces_know_nothing_of_each_other(stage: Stage) -> None:
    admin, human = await stage.seats("admin", "human")
    there, her = await stage.join("admin", second=True), await stage.join("human", second=True)
    stage.claim("P-3.6-2", True, "")
    for guest in (admin, human, there, her):
        await guest.settle()
    rows = "P-2.2-3 P-3.6-3 P-3.6-1"
    here_chat, there_chat = stage.chat("here"), stage.chat("there")
    await human.attempt(here_chat)
    await her.attempt(there_chat)
    own = await stage.reaches(here_chat["id"], admin) and await stage.reaches(there_chat["id"], there)
    stage.claim("P-3.6-1", own, "a message did not reach its own space")
    apart = await stage.hidden(here_chat["id"], there, her) and await stage.hidden(
        there_chat["id"], admin, human
    )
    stage.claim(rows, apart, "a message of one space reached the other")
    rights = all_in(stage.configured("human"), human.capabilities) and all_in(
        stage.configured("human", second=True), her.capabilities
    )
    stage.claim(
        "P-3.6-1 P-3.6-3", rights, f"human's rights here and there: {human.capabilities}, {her.capabilities}"
    )
    kind = f"lent/{stage.new_id()}"
    await there.attempt(stage.grant("human", {"kind": kind}))
    given = [(await guest.attempt(stage.message(kind))).refused for guest in (her, human)]
    stage.claim("P-3.6-3", given == [False, True], "a grant in one space gave a right in the other")
    marker = stage.new_id("stream")
    await her.attempt(stage.message("stream/request", {"direction": "upload", "description": marker}))
    late = await stage.join("observer")
    leaked = marker in str(late.welcome.raw) or any(marker in str(one.raw) for one in admin.inbox)
    stage.claim("P-3.6-3", not leaked, "a stream of one space was told in the other")
    marks = [(guest, guest.mark) for guest in (admin, human)]
    await her.leave()
    await there.settle()
    for guest, mark in marks:
        await guest.settle()
        gone = [one for one in guest.inbox[mark:] if one.kind in ("system/presence", "stream/close")]
        mine = [one for one in gone if (one.payload.get("participant") or {}).get("id") == "human"]
        stage.claim("P-3.6-3", not mine, "a presence of one space was told in the other")
    try:
        stranger = await stage.knock("human", token=stage.token("human", second=True))
        await stranger.send(stage.join_frame("human", token=stage.token("human", second=True)))
        await stage.welcomed(stranger)
        stage.claim("P-3.6-3", False, "the token of one space opened the other")
    except (HandshakeRefused, Unmet):
        stage.claim("P-3.6-3", True, "")


@chapter.shows("P-3.6-4", second=True)
async def rights_are_checked_in_every_space(stage: Stage) -> None:
    there, her = await stage.join("admin", second=True), await stage.join("human", second=True)
    request = stage.message("mcp/request", {"method": "tools/list"})
    outcome = await stage.refuses(her, request, there)
    stage.claim(
        "P-3.6-4", outcome.refused, "what human may send in the first space alone was accepted in the second"
    )
    chat = stage.chat("allowed there")
    await her.attempt(chat)
    stage.claim(
        "P-3.6-4",
        await stage.reaches(chat["id"], there),
        "what human may send in the second space was not delivered",
    )
