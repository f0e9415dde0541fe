"""Who may grant locks everybody out: grants of nearly a mebibyte, covered by the granter's own `chat`, make every welcome
larger than a client takes, so that nobody can join or come back.

Promised: a capability and a welcome have a greatest size, and what would exceed it is refused where it is given.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Any

from attempts import Raw, reached, verdict

from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.server import Server
from mew_lab.protocol.permit import PROFILES
from mew_lab.protocol.token import Token
from mew_lab.sdk.client import MEWClient

NAMES = [f"p{n}" for n in range(6)]


async def main() -> None:
    gateway = Gateway()
    people: dict[str, Any] = {
        "human": {"capabilities": PROFILES["human"]},
        "mallory": {"capabilities": [{"kind": "chat"}, {"kind": "capability/grant"}]},
    }
    people |= {name: {"capabilities": PROFILES["proposer"]} for name in NAMES}
    gateway.add_space(SpaceConfig.model_validate({"name": "s", "owner": "human", "participants": people}))
    tokens = {name: gateway.tokens.mint("s", name).reveal() for name in people}
    server = Server(gateway)
    url = f"ws://127.0.0.1:{await server.start()}/ws"
    others = [await Raw(url, "s", tokens[name]).open() for name in NAMES]

    async def sink(one: Raw) -> None:
        with contextlib.suppress(Exception):
            async for _ in one.ws:
                pass

    sinks = [asyncio.create_task(sink(one)) for one in others]
    human = MEWClient(url, space="s", token=Token(tokens["human"]))
    gone: list[str] = []
    human.on_disconnected(lambda event: gone.append(str(event)))
    await human.connect()
    mallory = await Raw(url, "s", tokens["mallory"]).open()

    async def grant(recipient: str, text: str) -> str:
        rights = [{"kind": "chat", "payload": {"text": text}}]
        id = await mallory.send("capability/grant", {"recipient": recipient, "capabilities": rights})
        answer = await mallory.about(id, 20)
        return str(answer["payload"].get("error", answer["kind"]))

    answers = [await grant(name, name + "A" * 990_000) for name in NAMES[:5]]
    reached("each giant grant was judged", set(answers) <= {"capability/grant", "limit_exceeded"})
    verdict("a capability of a mebibyte is refused", set(answers) == {"limit_exceeded"}, str(answers))
    # And as many as are let through of those that are small enough.
    small = [await grant(name, f"{name}-{n}-" + "B" * 15_000) for n in range(20) for name in NAMES[:5]]
    reached("some grants were given", "capability/grant" in small)
    verdict("one giver does not fill the welcome", "limit_exceeded" in small, f"{len(small)} were tried")
    reached(
        "the owner is given something", await grant("human", "hi") in ("capability/grant", "limit_exceeded")
    )
    with contextlib.suppress(Exception):  # where the connection has ended, the verdict says so
        async with asyncio.timeout(10):
            echoed = asyncio.Event()
            human.on_message(lambda one: echoed.set() if one.payload.get("text") == "still here" else None)
            await human.send({"kind": "chat", "payload": {"text": "still here"}})
            await echoed.wait()
    verdict("the owner's connection survives", not gone, f"{gone[:1]} {human.state}")
    await human.disconnect()
    late = MEWClient(url, space="s", token=Token(tokens["human"]))
    try:
        async with asyncio.timeout(15):
            await late.connect()
        said = str(late.state)
    except Exception as fault:
        said = f"{type(fault).__name__}: {str(fault)[:160]}"
    verdict("the owner can come back", said == "ready", said)
    for task in sinks:
        task.cancel()
    await server.stop()
    gateway.close()


asyncio.run(main())
os._exit(0)
