"""An approval and a withdraw cross: what was sent in the person's name must be told, with who answered."""

from __future__ import annotations

import threading
import time

from attempts import reached, verdict

import mew_lab
from mew_lab.errors import MewError

lab = mew_lab.up("demo", journal="j.jsonl")
tool = lab.join("shell", can="tool")
ran: dict[str, str] = {}
tool.participant.client.on_message(
    lambda one: ran.setdefault(one.correlation_id[0], one.id) if one.kind == "mcp/request" else None
)
bot = lab.join("bot", can="proposer")
crossed, untold, wordless = 0, 0, 0
for n in range(40):
    payload = {"method": "tools/call", "params": {"name": "rm", "arguments": {"n": n}}}
    sent = bot.send("mcp/proposal", payload, to="shell")
    time.sleep(0.05)
    entry = lab.proposals()[0]
    withdraw = threading.Thread(target=lambda id=sent.id: bot.lab.withdraw(id))
    withdraw.start()
    try:
        said = str(lab.approve(entry if hasattr(entry, "digest") else sent.id))
    except MewError as refusal:
        said = f"refused: {refusal}"
    withdraw.join()
    time.sleep(0.15)
    card = lab.decisions.card(sent.id)
    if sent.id in ran and card.state == "withdrawn":
        crossed += 1
        untold += card.decision == "withdrawn" or ran[sent.id] not in said
        row = next(row for row in lab.history() if f"n={n})" in row[1])
        wordless += "shell" not in str(row[6]) or row[3] == "withdrawn"
reached("an approval and a withdraw crossed", crossed > 0)
verdict(
    "what was executed in the person's name is not listed as withdrawn alone",
    untold == 0,
    f"{untold} of {crossed}",
)
verdict("the history says who answered it", wordless == 0, f"{wordless} of {crossed}")
lab.down()

lab = mew_lab.up("demo")
lab.join("shell", can="tool")
bot = lab.join("bot", can=[{"kind": "mcp/*"}, {"kind": "chat"}])
payload = {"method": "tools/call", "params": {"name": "rm", "arguments": {}}}
sent = bot.send("mcp/proposal", payload, to=["bot", "shell"])
time.sleep(0.3)
warned = " ".join(lab.decisions.card(sent.id).warnings)
entry = lab.proposals()[0]
lab.approve(entry if hasattr(entry, "digest") else sent.id)
end = time.monotonic() + 10
while lab.decisions.card(sent.id).state != "done" and time.monotonic() < end:
    time.sleep(0.05)
time.sleep(0.5)
card = lab.decisions.card(sent.id)
reached("somebody answered", card.state == "done")
verdict(
    "the history says that the proposer itself answered", "bot, who proposed it" in card.outcome, card.outcome
)
verdict("and who else answered", "shell" in card.outcome, card.outcome)
verdict("the card had warned of it", "proposer is one of the targets that would run it" in warned, warned)
lab.down()
