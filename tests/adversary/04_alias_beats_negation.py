"""A capability that says `"participant_id": "!human"` keeps nobody from kicking human by a runtime id that human took.

Promised: for kinds on which the gateway acts, names in a payload are matched as the participants that they mean.
"""

from __future__ import annotations

import asyncio
from typing import Any

from attempts import Raw, reached, verdict

from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.server import Server

JANITOR: list[dict[str, Any]] = [
    {"kind": "chat"},
    {"kind": "space/kick", "payload": {"participant_id": "!human"}},
    {"kind": "capability/revoke", "payload": {"recipient": "!human"}},
    {"kind": "stream/request"},
    {"kind": "stream/transfer-ownership", "payload": {"new_owner": "!human"}},
    {"kind": "stream/grant-write", "payload": {"participant_id": "!human"}},
]
PEOPLE = {
    "root": {"capabilities": [{"kind": "*"}]},
    "human": {"capabilities": [{"kind": "chat"}, {"kind": "participant/*"}]},
    "bot": {"capabilities": [{"kind": "chat"}]},
    "janitor": {"capabilities": JANITOR},
}


async def main() -> None:
    gateway = Gateway()
    config = {"name": "s", "owner": "root", "participants": PEOPLE}
    gateway.add_space(SpaceConfig.model_validate(config))
    token = {name: gateway.tokens.mint("s", name).reveal() for name in ("human", "bot", "janitor")}
    server = Server(gateway)
    url = f"ws://127.0.0.1:{await server.start()}/ws"
    await Raw(url, "s", token["human"]).open()
    laptop = await Raw(url, "s", token["human"], "human-laptop").open()
    reached("human is here under an id that it chose", laptop.me == "human-laptop")
    await Raw(url, "s", token["bot"]).open()
    janitor = await Raw(url, "s", token["janitor"]).open()
    asked = await janitor.send("stream/request", {"direction": "upload"})
    while (opened := await janitor.recv())["kind"] != "stream/open" or asked not in opened["correlation_id"]:
        pass
    stream = {"stream_id": opened["payload"]["stream_id"]}
    attempts: list[tuple[str, dict[str, Any], str]] = [
        ("capability/revoke", {"capabilities": [{"kind": "chat"}]}, "recipient"),
        ("stream/grant-write", stream, "participant_id"),
        ("stream/transfer-ownership", stream, "new_owner"),
        ("space/kick", {}, "participant_id"),
    ]
    for kind, payload, member in attempts:
        answers = {}
        for name in ("human", "human-laptop"):
            id = await janitor.send(kind, {**payload, member: name})
            answers[name] = (await janitor.about(id))["payload"].get("error", "accepted")
        reached(f"{kind} of human by name is refused", answers["human"] == "capability_violation")
        verdict(
            f"'!human' holds for {kind} by a runtime id", answers["human-laptop"] == "capability_violation"
        )
    id = await janitor.send("space/kick", {"participant_id": "bot"})
    reached("janitor may kick others", (await janitor.about(id))["kind"] == "space/kick")
    verdict("human is still let in", gateway.tokens.participant_of("s", token["human"]) == "human")
    await server.stop()
    gateway.close()


asyncio.run(main())
