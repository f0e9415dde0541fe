"""One message by somebody whom mallory invited with a thousand costly capabilities stops the gateway for a minute: the
budget was one capability's, and everything is inside the starter profile that may always be given.

Promised: one budget for the whole set and the whole turn; what cannot be judged within it is refused where it is given.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import Any

from attempts import Raw, reached, verdict

from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.server import Server

SCALE = float(os.environ.get("SCALE", "1"))


def glob(n: int) -> dict[str, Any]:
    return {"kind": "chat", "payload": {"**": f"*a*b*c*d*e*f{n}"}}


def expression(n: int) -> dict[str, Any]:
    return {"kind": "chat", "payload": {f"$..[?search(@,'(a|b|c){{1,200}}(d|e){{1,200}}z{n}')]": "no"}}


ATTEMPTS: list[tuple[str, Any, dict[str, Any]]] = [
    ("globs", glob, {"text": "abcdef" * 10, "l": ["abcdeabcde" * 50 for _ in range(int(1800 * SCALE))]}),
    ("expressions", expression, {"t": ["abcabc" * 4000 for _ in range(40)]}),
]


async def main() -> None:
    gateway = Gateway()
    people = {
        "root": {"capabilities": [{"kind": "*"}]},
        "victim": {"capabilities": [{"kind": "chat"}]},
        "mallory": {"capabilities": [{"kind": "space/invite"}]},
    }
    gateway.add_space(SpaceConfig.model_validate({"name": "s", "owner": "root", "participants": people}))
    tokens = {name: gateway.tokens.mint("s", name).reveal() for name in ("victim", "mallory")}
    server = Server(gateway)
    url = f"ws://127.0.0.1:{await server.start()}/ws"
    mallory = await Raw(url, "s", tokens["mallory"]).open()
    await Raw(url, "s", tokens["victim"]).open()
    lag = [0.0]

    async def watch() -> None:
        while True:
            begin = time.perf_counter()
            await asyncio.sleep(0.01)
            lag[0] = max(lag[0], time.perf_counter() - begin)

    watching = asyncio.create_task(watch())
    for label, made, body in ATTEMPTS:
        # All at once; and as many as are let through, since fewer may hold as long.
        for count in (990, 200, 40, 8, 1):
            name = f"evil-{label}-{count}"
            lag[0] = 0.0
            wanted = [made(n) for n in range(count)]
            id = await mallory.send("space/invite", {"participant_id": name, "initial_capabilities": wanted})
            answer = await mallory.about(id, 120)
            error = answer["payload"].get("error", "")
            reached("the invite was judged", error in ("", "limit_exceeded"))
            verdict(
                f"{label}: an invite with {count} holds less than 1 s",
                lag[0] < 1.0,
                f"{lag[0]:.2f} s {error}",
            )
            if error:
                continue
            came = [answer, *await mallory.drain(1.0)]
            token = next(one for one in came if one["kind"] == "space/invite-ack")["payload"]["token"]
            evil = await Raw(url, "s", token).open()
            lag[0] = 0.0
            text = json.dumps(body)
            answer = await evil.about(await evil.send("chat", body), 300)
            told = f"{len(text)} bytes: {answer['kind']} {answer['payload'].get('error', '')} {lag[0]:.2f} s"
            reached("the chat was judged", answer["kind"] in ("chat", "system/error"))
            verdict(f"{label}: one message by who holds {count} holds less than 1 s", lag[0] < 1.0, told)
    watching.cancel()
    await server.stop()
    gateway.close()


asyncio.run(main())
os._exit(0)
