"""The process whose loop is held: a gateway with a space of hostile holders, and a watch on its own loop.

    python tests/benchmarks/holds.py BYSTANDERS

Prints one line of JSON with its port and tokens; then answers each line on standard input with the longest time, in
milliseconds, that its loop was held since the line before, and the most steps that one turn was charged.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.limits import Limits
from mew_lab.gateway.server import Server
from mew_lab.log.journal import Journal

FREE = Limits(messages_per_second=1e9, burst=10**9)
NARROW = [{"kind": f"k{n}/?*"} for n in range(300)]
GIVER = [*NARROW, {"kind": "chat"}, {"kind": "capability/grant"}, {"kind": "capability/revoke"}]


def participants(bystanders: int) -> dict[str, object]:
    """The holders of the attempts, a victim that only chats, and others to whom rights are given."""
    chat = [{"kind": "chat"}]
    holders = {
        "root": [{"kind": "*"}],
        "inviter": [{"kind": "space/invite"}, *GIVER],
        "giver": GIVER,
        "middle": [],
        "proposer": [{"kind": "mcp/proposal"}],
        "streamer": [{"kind": "stream/*"}],
        "talker": chat,
        "victim": chat,
    }
    held = {name: {"capabilities": one} for name, one in holders.items()}
    return held | {f"p{n}": {"capabilities": chat} for n in range(bystanders)}


async def main(bystanders: int) -> None:
    gateway = Gateway()
    folder = tempfile.mkdtemp(prefix="mew-holds-")
    people = participants(bystanders)
    config = {"name": "s", "owner": "root", "participants": people}
    gateway.add_space(
        SpaceConfig.model_validate(config), journal=Journal(Path(folder) / "j.jsonl", rotate_at=1 << 40)
    )
    tokens = {name: gateway.tokens.mint("s", name).reveal() for name in people}
    port = await Server(gateway, limits=FREE).start()
    held = [0.0]
    most = [0]  # steps of one turn; an older gateway counts none

    def observe(space: object, turn: object) -> None:
        meter = getattr(turn, "meter", None)
        if meter is not None:
            most[0] = max(most[0], turn.state.limits.turn_steps - max(meter.left, 0))

    gateway.observe_turn = observe

    async def watch() -> None:
        while True:
            begin = time.perf_counter()
            await asyncio.sleep(0.002)
            held[0] = max(held[0], time.perf_counter() - begin - 0.002)

    watching = asyncio.create_task(watch())
    print(json.dumps({"port": port, "tokens": tokens}), flush=True)
    asked = asyncio.Queue[str]()
    loop = asyncio.get_running_loop()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(asked.put_nowait, line)
        os._exit(0)  # nobody asks any more

    threading.Thread(target=read, daemon=True).start()
    while await asked.get():
        await asyncio.sleep(0.02)  # what was held until now is seen
        print(json.dumps({"held": held[0] * 1e3, "steps": most[0]}), flush=True)
        held[0], most[0] = 0.0, 0
    watching.cancel()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
