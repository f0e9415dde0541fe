"""Checks that all participants receive the same messages: broadcast, addressing, one order.

Spec: §2.1, §3, §8.1.
"""

from __future__ import annotations

from mew_lab.conformance.session import CheckGroup, CheckSession
from mew_lab.sdk.group import run_all

__all__ = ["checks"]

checks = CheckGroup()


@checks.shows("P-2.1-1")
async def check_all_see_one_stream_in_one_order(session: CheckSession) -> None:
    peers = await session.join_all("admin", "human", "reader", "worker")
    senders = peers[1:]
    chats = {peer.role: [session.chat(f"{peer.role} {n}") for n in range(10)] for peer in senders}
    ids = {chat["id"] for mine in chats.values() for chat in mine}

    async def talk(role: str) -> None:
        peer = next(sender for sender in senders if sender.role == role)
        for chat in chats[role]:
            await peer.send(chat)
        await peer.settle()

    await run_all(talk(role) for role in chats)
    order: list[str] = []  # as admin, which sent nothing, received them
    for peer in peers:
        await peer.settle()
        mine = {chat["id"] for chat in chats.get(peer.role, ())}  # another row checks the echo
        seen = [str(received.id) for received in peer.inbox if received.id in ids - mine]
        order = order or seen
        number, of = len(seen), len(ids - mine)
        complete = number == of and set(seen) == ids - mine
        session.report(complete, f"{peer.role} received {number} of the {of} messages of the others")
        same = seen == [id for id in order if id not in mine]
        session.report(same, f"{peer.role} and admin received the same messages in different orders")


@checks.shows("P-3-7")
async def check_no_addressee_means_everybody(session: CheckSession) -> None:
    human, admin, reader = await session.join_all("human", "admin", "reader")
    for what, message in (("omitted", session.chat()), ("empty", session.chat(to=[]))):
        await human.attempt(message)
        reached = await session.reaches(message["id"], admin, reader)
        session.report(reached, f"a message whose `to` is {what} did not reach everybody")


@checks.shows("C-1", "P-8.1-8")
async def check_to_addresses_and_does_not_hide(session: CheckSession) -> None:
    human, admin, reader = await session.join_all("human", "admin", "reader")
    for to in (["admin"], ["admin", "reader"], ["nobody-here"]):
        message = session.chat("to some", to=to)
        outcome = await human.attempt(message)
        reached = await session.arrivals(message["id"], admin, reader)
        session.report(all(reached), f"a message to {to} did not reach everybody in the space")
        session.report(outcome.echo is not None, "the sender of a message got no echo of it", "C-1")
        got = [received.members.get("to") for received in reader.inbox if received.id == message["id"]]
        session.report(
            got in ([to], []), f"`to` was {to} when it was sent, and {got} when it arrived", "P-8.1-8"
        )
