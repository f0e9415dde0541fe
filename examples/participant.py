"""A program joins a space as a participant, proposes a call, and gets the answer after a person's yes.

The program needs an address, the name of a space and a token; the space may run in another process. Here it runs in this
one, and a policy stands for the person.
"""

import asyncio

import mew_lab


async def propose(gateway: str, space: str, token: str) -> None:
    """Joins, proposes one call, and prints its answer."""
    async with mew_lab.MEWParticipant(gateway=gateway, space=space, token=token) as me:
        print(f"joined as {me.client.id}; here are {', '.join(sorted(me.client.participants))}")
        print(await me.call("garden/water", {"bed": "north", "litres": 10}))


lab = mew_lab.up("example", journal=None)
lab.decide = mew_lab.Policy.approve()  # in a notebook the proposal is a card, and this line is not needed


@lab.tool(seat=lab.join("garden", can="tool"))
def water(bed: str, litres: int) -> str:
    """Waters a bed."""
    return f"{bed} got {litres} litres"


lab.enrol("helper", can="proposer")  # writes its token to a file that only you can read
asyncio.run(propose(lab.url, lab.space, lab.token_file("helper").read_text().strip()))
lab.down()
