"""The process whose loop is held: a gateway with a space of hostile holders, and a watch on its own loop.

    python tests/benchmarks/holds.py BYSTANDERS

Prints one line of JSON with its port and tokens; then answers each line on standard input with what was longest since
the line before, in milliseconds: `turn`, the processor time of one turn of the space; `busy`, the processor time of the
loop between two of its watch's ticks; `held`, the same by the clock. `steps` are the most that one turn was charged.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.limits import Limits
from mew_lab.gateway.server import Server
from mew_lab.log.journal import Journal
from mew_lab.space.core import Space

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
    longest = dict.fromkeys(("turn", "busy", "held"), 0.0)
    most = [0]  # steps of one turn; an older gateway counts none

    plan = Space.plan

    def planned(space: Space, event: Any, now: Any) -> Any:
        turn = plan(space, event, now)
        meter = getattr(turn, "meter", None)
        if meter is not None:
            most[0] = max(most[0], turn.state.limits.turn_steps - max(meter.left, 0))
        return turn

    Space.plan = planned  # type: ignore[method-assign]
    take = gateway._turn

    def timed(running: Any, event: Any) -> Any:
        begin = time.thread_time()
        try:
            return take(running, event)
        finally:
            longest["turn"] = max(longest["turn"], time.thread_time() - begin)

    vars(gateway)["_turn"] = timed

    async def watch() -> None:
        while True:
            begin, busy = time.perf_counter(), time.thread_time()
            await asyncio.sleep(0.002)
            longest["held"] = max(longest["held"], time.perf_counter() - begin - 0.002)
            longest["busy"] = max(longest["busy"], time.thread_time() - busy)

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
        said = {name: seconds * 1e3 for name, seconds in longest.items()}
        print(json.dumps({**said, "steps": most[0]}), flush=True)
        longest.update(dict.fromkeys(longest, 0.0))
        most[0] = 0
    watching.cancel()


if __name__ == "__main__":
    gc.collect()
    gc.freeze()  # as `mew-lab serve` does
    asyncio.run(main(int(sys.argv[1])))
