"""The process whose loop is held: a gateway with a space of hostile holders, and a watch on its own loop.

    python tests/benchmarks/holds.py BYSTANDERS [SERVER]
    python tests/benchmarks/holds.py lab [approved]

With SERVER, the file of an MCP server, that is bridged into the space as `server`, on the same loop, as a lab does.
With `lab`, a lab whose person has a feed and approvals open, and chats; with `approved`, a policy approves all that
is proposed, and a proposer may take all the time for reading. Beside `busy` and `held` it says `idle`, the
longest hold of a loop that does nothing beside it; `share`, the part of the time that the lab's loop had the processor;
`chat`, the median of what a chat of the person took; and `unread`, the requests that are still being read.

Prints one line of JSON with its port and tokens; then answers each line on standard input with what was longest since
the line before, in milliseconds: `turn`, the processor time of one turn of the space; `busy`, the processor time of the
loop between two of its watch's ticks; `held`, the same by the clock. `steps` are the most that one turn was charged.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import queue
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from mew_lab.bridge.mcp import McpBridge
from mew_lab.errors import MewError
from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.limits import Limits
from mew_lab.gateway.local import attach
from mew_lab.gateway.server import Server
from mew_lab.lab.decisions import reading_queue
from mew_lab.lab.decisions.policies import Policy
from mew_lab.lab.labs import up
from mew_lab.log.journal import Journal
from mew_lab.protocol.permit import PROFILES
from mew_lab.sdk.client import MEWClient
from mew_lab.space.core import Space
from mew_lab.transport.link import Link

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
        "server": PROFILES["tool"],
    }
    held = {name: {"capabilities": one} for name, one in holders.items()}
    return held | {f"p{n}": {"capabilities": chat} for n in range(bystanders)}


async def bridge(gateway: Gateway, file: str) -> None:
    """Bridges a server into the space, on this loop."""

    async def link() -> Link:
        return attach(gateway, "s", "server")

    made = McpBridge("server", [sys.executable, file])
    await made.start(MEWClient(space="s", connect_link=link))


async def main(bystanders: int, server: str = "") -> None:
    gateway = Gateway()
    folder = tempfile.mkdtemp(prefix="mew-holds-")
    people = participants(bystanders)
    config = {"name": "s", "owner": "root", "participants": people}
    gateway.add_space(
        SpaceConfig.model_validate(config), journal=Journal(Path(folder) / "j.jsonl", rotate_at=1 << 40)
    )
    tokens = {name: gateway.tokens.mint("s", name).reveal() for name in people}
    port = await Server(gateway, limits=FREE).start()
    if server:
        await bridge(gateway, server)
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


class Watch:
    """A timer of 1 ms on a loop: its lag, and the processor time of the loop's thread between two of its ticks."""

    def __init__(self) -> None:
        self.busy = self.held = self.spent = 0.0

    async def run(self) -> None:
        while True:
            begin, busy = time.perf_counter(), time.thread_time()
            await asyncio.sleep(0.001)
            self.held = max(self.held, time.perf_counter() - begin - 0.001)
            took = time.thread_time() - busy
            self.busy = max(self.busy, took)
            self.spent += took


def of_lab(*, approves: bool) -> None:
    """A lab under attack, seen by its person."""
    os.chdir(tempfile.mkdtemp(prefix="mew-holds-"))
    lab = up("s", as_id="anna")
    if approves:
        reading_queue.SHARE = reading_queue.ALLOWANCE = 1.0
        lab.decide = Policy.approve()
    tokens = {"anna": lab.token_file().read_text().strip()}
    for name, can in (
        ("proposer", "proposer"),
        ("second", "proposer"),
        ("tool", "tool"),
        ("victim", "human"),
    ):
        lab.enrol(name, can)
        tokens[name] = lab.token_file(name).read_text().strip()
    views = [lab.view.approvals, lab.view.feed]
    for view in views:
        view.widget.send = lambda content, buffers=None: json.dumps(content)  # as its comm does, to nobody
        data = {"method": "custom", "content": {"t": "snapshot", "view": "v", "from": 0}}
        view.widget.comm.handle_msg({"content": {"data": data}, "buffers": []})
    busy, idle = Watch(), Watch()
    lab.loop.submit(busy.run())
    threading.Thread(target=lambda: asyncio.run(idle.run()), daemon=True).start()
    asked = queue.SimpleQueue[str]()

    def read() -> None:
        for line in sys.stdin:
            asked.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    print(
        json.dumps({"port": int(lab.url.rpartition(":")[2].partition("/")[0]), "tokens": tokens}), flush=True
    )
    chats, since = list[float](), time.perf_counter()
    while True:
        begin = time.perf_counter()
        with contextlib.suppress(MewError):  # its echo did not come while the loop was held
            lab.chat("x")
        chats.append(time.perf_counter() - begin)
        try:
            asked.get(timeout=0.02)
        except queue.Empty:
            continue
        said = {"busy": busy.busy * 1e3, "held": busy.held * 1e3, "idle": idle.held * 1e3}
        said |= {"share": busy.spent / (time.perf_counter() - since), "chat": statistics.median(chats) * 1e3}
        unread = sum(card.state == "reading" for card in lab.decisions.pending())
        print(json.dumps({**said, "unread": unread}), flush=True)
        for watch in (busy, idle):
            watch.busy = watch.held = watch.spent = 0.0
        chats, since = [], time.perf_counter()


if __name__ == "__main__":
    gc.collect()
    gc.freeze()  # as `mew-lab serve` does
    if sys.argv[1] == "lab":
        of_lab(approves=sys.argv[2:] == ["approved"])
    asyncio.run(main(int(sys.argv[1]), *sys.argv[2:]))
