"""Who may grant and revoke gives many participants many narrow rights; then each revoke of a trifle recomputes all that
rests on any grant, for half a minute.

Promised: a revoke looks only at what rests on who lost something.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from typing import Any

from attempts import reached, verdict

from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway

N = int(40 * float(os.environ.get("SCALE", "1")))


async def main() -> None:
    gateway = Gateway()
    narrow = [{"kind": f"k{n}/?*"} for n in range(300)]
    may = [{"kind": "chat"}, {"kind": "capability/grant"}, {"kind": "capability/revoke"}]
    people: dict[str, Any] = {"root": {"capabilities": [{"kind": "*"}]}}
    people |= {f"m{n}": {"capabilities": [*narrow[: 300 if n == 0 else 0], *may]} for n in range(N)}
    people |= {f"p{n}": {"capabilities": [{"kind": "chat"}]} for n in range(N)}
    gateway.add_space(SpaceConfig.model_validate({"name": "s", "owner": "root", "participants": people}))
    count = itertools.count(1)

    def post(who: str, kind: str, payload: dict[str, Any]) -> tuple[int, dict[str, Any], float]:
        text = json.dumps({"id": f"g{next(count)}", "kind": kind, "payload": payload})
        begin = time.perf_counter()
        reply = gateway.post("s", who, text)
        return reply.status, reply.body, time.perf_counter() - begin

    longest, given = 0.0, 0
    for n in range(N):
        # One giver first, then others for what is beyond its share.
        for giver in ("m0", f"m{n}"):
            rights = [{"kind": "chat", "payload": {"text": f"t{at}"}} for at in range(990)]
            while rights:
                status, body, took = post(
                    giver, "capability/grant", {"recipient": f"p{n}", "capabilities": rights}
                )
                longest = max(longest, took)
                reached("a grant is given, or too much", status == 200 or body["error"] == "limit_exceeded")
                given += len(rights) if status == 200 else 0
                if status == 200:
                    break
                rights = rights[: len(rights) // 2]
    reached("much is held", given > 100 * min(N, 5))
    verdict("no grant holds for a second", longest < 1.0, f"{longest:.2f} s, {given} capabilities given")
    trifle = [{"kind": "chat", "payload": {"text": "zz"}}]
    for giver in ("m0", "root"):
        status, body, _ = post(giver, "capability/grant", {"recipient": "p0", "capabilities": trifle})
        if status != 200:
            continue
        status, _, took = post(giver, "capability/revoke", {"recipient": "p0", "grant_id": body["id"]})
        reached("the trifle was revoked", status == 200)
        verdict(f"{giver}'s revoke of a trifle holds less than a second", took < 1.0, f"{took:.3f} s")
    status, _, took = post(
        "root", "capability/revoke", {"recipient": "m0", "capabilities": [{"kind": "k1/*"}]}
    )
    reached("the giver lost something", status == 200)
    verdict("a revoke from the giver of all holds less than a second", took < 1.0, f"{took:.3f} s")


asyncio.run(main())
