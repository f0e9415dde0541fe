"""Promised: a number means the same to the gateway, to whoever approves it and to the tool that gets it.

Numbers are proposed as another client writes them. Either the gateway refuses one, or what our client reads, and would
show and send on, is what was written, in value and in type.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from attempts import Raw, reached, verdict

import mew_lab

NUMBERS = (
    *(
        "1",
        "1.0",
        "100",
        "1e2",
        "0.1",
        "0.30000000000000004",
        "0.1000000000000000055511151231257827",
        "-0",
        "-0.0",
    ),
    *("9007199254740993", "18446744073709551615", "18446744073709551616", "18446744073709551617"),
    *("-9223372036854775808", "-9223372036854775809", "123456789012345678901234567890", "1e22", "1E-400"),
    *("5e-324", "1.7976931348623157e308", "1" + "0" * 308),
)


def read(text: str) -> Any:
    """The number by the rules of JSON alone: whole numbers exact, others as doubles."""
    return float(text) if any(one in text for one in ".eE") else int(text)


async def attempt(lab: Any) -> None:
    token = lab.token_file("bot").read_text().strip()
    bot = await Raw(lab.url, "demo", token).open()
    heard: dict[str, Any] = {}
    lab.me.participant.client.on_message(lambda envelope: heard.update({envelope.id: envelope}))
    refused = 0
    for at, number in enumerate(NUMBERS):
        id = f"n-{at}"
        params = f'{{"name":"t","arguments":{{"v":{number}}}}}'
        payload = f'{{"method":"tools/call","params":{params}}}'
        await bot.raw(f'{{"id":"{id}","kind":"mcp/proposal","to":["human"],"payload":{payload}}}')
        answer = await bot.recv()
        while answer["kind"] not in ("mcp/proposal", "system/error"):  # what is refused unread names no id
            answer = await bot.recv()
        if answer["kind"] == "system/error":
            refused += 1
            verdict(
                f"{number[:40]} is refused with a code of its own",
                answer["payload"]["code"] == "invalid_number",
            )
            continue
        deadline = time.monotonic() + 10
        while id not in heard and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        reached(f"the proposal of {number[:40]} was heard", id in heard)
        got, meant = heard[id].payload["params"]["arguments"]["v"], read(number)
        verdict(
            f"{number[:40]} is read as written", type(got) is type(meant) and got == meant, json.dumps(got)
        )
    reached("numbers came through", refused < len(NUMBERS))
    await bot.close()


def main() -> None:
    lab = mew_lab.up("demo", timeout=30)
    lab.enrol("bot", can="proposer")
    try:
        asyncio.run(attempt(lab))
    finally:
        lab.down()


if __name__ == "__main__":
    main()
