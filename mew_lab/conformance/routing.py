"""Does everybody see the same?  Broadcast, addressing, one order.

Spec: §2.1, §3, §8.1.
"""

from __future__ import annotations

import asyncio

from mew_lab.conformance.stage import Chapter, Stage

__all__ = ["chapter"]

chapter = Chapter()


@chapter.shows("P-2.1-1")
async def all_see_one_stream_in_one_order(stage: Stage) -> None:
    guests = await stage.seats("admin", "human", "reader", "worker")
    senders = guests[1:]
    chats = {guest.role: [stage.chat(f"{guest.role} {n}") for n in range(10)] for guest in senders}
    ids = {chat["id"] for mine in chats.values() for chat in mine}

    async def talk(role: str) -> None:
        guest = next(one for one in senders if one.role == role)
        for chat in chats[role]:
            await guest.send(chat)
        await guest.settle()

    await asyncio.gather(*(talk(role) for role in chats))
    order: list[str] = []  # as admin, who sent nothing, saw them
    for guest in guests:
        await guest.settle()
        mine = {chat["id"] for chat in chats.get(guest.role, ())}  # an echo is another row's question
        seen = [str(one.id) for one in guest.inbox if one.id in ids - mine]
        order = order or seen
        number, of = len(seen), len(ids - mine)
        complete = number == of and set(seen) == ids - mine
        stage.claim("P-2.1-1", complete, f"{guest.role} saw {number} of the {of} messages of the others")
        same = seen == [id for id in order if id not in mine]
        stage.claim("P-2.1-1", same, f"{guest.role} and admin saw the same messages in different orders")


@chapter.shows("P-3-7")
async def no_addressee_means_everybody(stage: Stage) -> None:
    human, admin, reader = await stage.seats("human", "admin", "reader")
    for what, message in (("omitted", stage.chat()), ("empty", stage.chat(to=[]))):
        await human.attempt(message)
        heard = await stage.reaches(message["id"], admin, reader)
        stage.claim("P-3-7", heard, f"a message whose `to` is {what} did not reach everybody")


@chapter.shows("C-1", "P-8.1-8")
async def to_addresses_and_does_not_hide(stage: Stage) -> None:
    human, admin, reader = await stage.seats("human", "admin", "reader")
    for to in (["admin"], ["admin", "reader"], ["nobody-here"]):
        message = stage.chat("to some", to=to)
        outcome = await human.attempt(message)
        heard = await stage.heard(message["id"], admin, reader)
        stage.claim("C-1 P-8.1-8", all(heard), f"a message to {to} did not reach everybody in the space")
        stage.claim("C-1", outcome.echo is not None, "the sender of a message got no echo of it")
        got = [one.members.get("to") for one in reader.inbox if one.id == message["id"]]
        stage.claim(
            "P-8.1-8", got in ([to], []), f"`to` was {to} when it was sent, and {got} when it arrived"
        )
