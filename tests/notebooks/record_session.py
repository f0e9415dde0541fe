"""Records the small session that ships with the package, from a real space in which everything happens once.

    python tests/notebooks/record_session.py

`helper` looks after a garden for `human`: it reasons, proposes calls, and gets one permission. Cards are decided as in a
view: shown for some seconds, then clicked. Beside it, `sensor` writes a stream, and `guest` claims what it may not decide.
It takes about forty seconds, because its times are real. Nothing in the file tells where it was made.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mew_lab
from mew_lab.errors import MewError
from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.policies import Decision

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "mew_lab" / "data" / "garden.jsonl"
MOST_BYTES = 300_000


def eventually(probe: Callable[[], Any]) -> Any:
    end = time.monotonic() + 20
    while not (value := probe()):
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.02)
    return value


def last(seconds: float) -> None:
    time.sleep(seconds)  # the times of the session are real


class Garden:
    """The space and its people."""

    def __init__(self) -> None:
        self.lab = lab = mew_lab.up("garden", port=None)

        @lab.tool
        def weather(day: str) -> str:
            "The weather of a day."
            last(0.15)
            return "dry and sunny, 24 °C" if day == "today" else "rain in the afternoon, 17 °C"

        @lab.tool
        def water(bed: str, litres: int) -> str:
            "Waters a bed of the garden with some litres."
            last(0.4)
            return f"{litres} litres on the {bed} bed"

        @lab.tool
        def order(seeds: str, packets: int) -> str:
            "Orders packets of seeds."
            last(0.25)
            raise ValueError(f"no seeds of {seeds} in this catalogue")

        self.helper = lab.join("helper", can="agent")

    def decide(
        self, card: Card, decision: str, *, after: float, reason: str = "", edit: dict[str, Any] | None = None
    ) -> None:
        """Shows the card, or an edit of it, for so many seconds, and clicks."""
        decisions = self.lab.decisions

        async def review() -> str:
            await decisions.editing.form(card.id)
            return decisions.editing.review_arguments(card.id, json.dumps(edit)).digest

        digest = card.digest
        if edit is not None:
            digest = self.lab.loop.run(review(), timeout=10, doing="review the edit")
        decisions.record_shown(card.id, view="garden", digest=digest)
        last(after)
        click = decisions.click("garden")
        decisions.decide(card.id, digest=digest, decision=decision, click=click, reason=reason).result(10)

    def propose(self, tool: str, **arguments: Any) -> tuple[Any, Card]:
        """What helper waits for, and the card of its proposal."""
        pending = self.helper.call(f"notebook/{tool}", arguments)
        cards = eventually(lambda: [card for card in self.lab.decisions.pending() if card.id == pending.id])
        return pending, cards[0]

    def status(self, tokens: int, messages: int) -> None:
        telemetry = self.helper.participant.telemetry
        telemetry.max_tokens = 8000
        telemetry.set_context_usage(tokens=tokens, messages=messages)
        self.helper.run(telemetry.report_status("active"))


def record() -> None:
    garden = Garden()
    lab, helper = garden.lab, garden.helper
    asked = lab.chat("Please look after the north bed, and order some seeds.", to="helper")
    helper.send("chat/acknowledge", {"status": "received"}, to="human", correlation_id=asked.id)
    garden.status(420, 1)
    start = helper.send(
        "reasoning/start", {"message": "What does the north bed need?"}, correlation_id=asked.id
    )

    def think(text: str) -> None:
        last(0.3)
        helper.send("reasoning/thought", {"message": text}, context=start.id)

    think("I should know the weather first.")
    pending, card = garden.propose("weather", day="today")
    garden.decide(card, "approve", after=2.4)
    assert "sunny" in str(pending.result(10))
    garden.status(910, 4)
    think("It stays dry, so the bed needs water.")
    pending, card = garden.propose("water", bed="north", litres=50)
    garden.decide(card, "approve", after=5.1, edit={"bed": "north", "litres": 5})
    assert "5 litres" in str(pending.result(10))
    last(0.3)
    helper.send("reasoning/conclusion", {"message": "The north bed has water."}, context=start.id)
    helper.chat("The north bed has water. You changed the amount to 5 litres.", to="human")
    garden.status(1640, 8)

    pending, card = garden.propose("order", seeds="mandrake", packets=3)
    garden.decide(card, "approve", after=3.2)
    try:
        print(pending.result(10))
    except MewError as fault:
        print(fault)
    pending, card = garden.propose("order", seeds="basil", packets=400)
    garden.decide(card, "reject", after=4.0, reason="unsafe")
    try:
        pending.result(10)
    except MewError as fault:
        print(fault)

    pattern = {"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "weather"}}}
    granting = lab.granting.grant("helper", [pattern], reason="it may always look at the weather")
    lab.loop.run(granting, timeout=10, doing="grant")
    last(0.5)
    for day in ("today", "tomorrow"):
        print(helper.call("notebook/weather", day=day).result(10))
    garden.status(2380, 14)
    # Its own library would not send this, so it is posted: the gateway refuses it.
    call = {"method": "tools/call", "params": {"name": "water", "arguments": {"bed": "north", "litres": 50}}}
    members = {"id": "water-without-asking", "from": "helper", "kind": "mcp/request", "to": ["notebook"]}
    text = json.dumps({**members, "payload": {"jsonrpc": "2.0", "id": 1, **call}})
    host = lab.host
    assert (
        host is not None and lab.loop.call(lambda: host.gateway.post(lab.space, "helper", text)).status != 200
    )

    sensor = lab.join("sensor", can="agent")

    async def readings() -> None:
        stream = await sensor.participant.streams.request_stream(description="moisture of the north bed")
        for n in range(5):
            await stream.write(f"{41 + n / 2:.1f}\n")
        await stream.close("complete")

    sensor.run(readings())

    lab.decide = mew_lab.Policy(
        "small amounts",
        lambda card: (
            Decision("approve") if ("/payload/params/arguments/litres", "2") in card.arguments else None
        ),
        text="approves 2 litres of water",
    )
    print(helper.call("notebook/water", bed="south", litres=2).result(10))
    lab.decide = None
    garden.status(3010, 18)

    guest = lab.join("guest", can="agent")
    pending, card = garden.propose("water", bed="south", litres=9)
    guest.send("mcp/withdraw", {"reason": "no_longer_needed"}, correlation_id=card.id)
    guest.send("mcp/request", {"method": "tools/list"}, to="notebook", correlation_id=card.id)
    last(1.2)
    helper.run(helper.participant.withdraw(card.id, "no_longer_needed"))
    lab.undo()
    garden.propose("water", bed="herbs", litres=4)
    helper.chat("I would like to water the herbs as well.", to="human")
    garden.status(3350, 22)
    last(0.3)
    lab.down()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        record()
        [journal] = Path(folder).rglob("*.jsonl")
        tokens = [path.read_text().strip() for path in Path(folder).rglob("*.token")]
        text = journal.read_text(encoding="utf-8")
        assert folder not in text and not [token for token in tokens if token in text]
        assert len(text.encode()) <= MOST_BYTES
        TARGET.parent.mkdir(exist_ok=True)
        shutil.copyfile(journal, TARGET)
        os.chdir(ROOT)
    log = mew_lab.open_log(TARGET)
    print(f"{TARGET.relative_to(ROOT)}: {len(log)} messages, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
