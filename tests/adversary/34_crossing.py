"""An approval and a withdraw cross: what was sent in the person's name must be told, with who answered."""

from __future__ import annotations

import threading

from attempts import reached, settle, until, verdict

import mew_lab
from mew_lab.errors import MewError

lab = mew_lab.up("demo", journal="j.jsonl")
shell = lab.join("shell", can="tool")
ran: set[int] = set()


@shell.participant.tools.tool
def rm(n: int) -> str:
    """Executes."""
    ran.add(n)
    return f"removed {n}"


bot = lab.join("bot", can="proposer")
crossed, untold, wordless = 0, [], []
for n in range(40):
    payload = {"method": "tools/call", "params": {"name": "rm", "arguments": {"n": n}}}
    sent = bot.send("mcp/proposal", payload, to="shell")
    until("the card", lab.proposals)
    entry = lab.proposals()[0]
    withdraw = threading.Thread(target=lambda id=sent.id: bot.lab.withdraw(id))
    withdraw.start()
    try:
        said = str(lab.approve(entry if hasattr(entry, "digest") else sent.id))
    except MewError as refusal:
        said = f"refused: {refusal}"
    withdraw.join()
    settle(lab, shell, bot)
    card = lab.decisions.card(sent.id)
    row = next(row for row in lab.history() if f"n={n})" in row[1])
    told = f"{said} {card.decision} {card.outcome} {row}"
    crossed += "withdrawn after it was sent" in told
    # What ran has its result, whatever was withdrawn; what did not run is nowhere said to have run.
    if n in ran:
        untold += [told] if card.decision == "withdrawn" or f"removed {n}" not in card.outcome else []
        wordless += [told] if f"removed {n}" not in str(row[6]) or row[3] == "withdrawn" else []
    else:
        untold += [told] if "withdrawn" not in said else []
        wordless += [told] if f"removed {n}" in told or "withdrawn" not in row[3] else []
reached(f"an approval and a withdraw crossed, {len(ran)} executed", crossed > 0)
verdict("what was executed is not called withdrawn, and what was not is", not untold, str(untold[:2]))
verdict("the history says what became of it", not wordless, str(wordless[:2]))
lab.down()

lab = mew_lab.up("demo")
lab.join("shell", can="tool")
bot = lab.join("bot", can=[{"kind": "mcp/*"}, {"kind": "chat"}])
payload = {"method": "tools/call", "params": {"name": "rm", "arguments": {}}}
sent = bot.send("mcp/proposal", payload, to=["bot", "shell"])
until("the card", lab.proposals)
warned = " ".join(lab.decisions.card(sent.id).warnings)
entry = lab.proposals()[0]
lab.approve(entry if hasattr(entry, "digest") else sent.id)
until("both have answered", lambda: all(n in lab.decisions.card(sent.id).outcome for n in ("bot", "shell")))
card = lab.decisions.card(sent.id)
verdict(
    "the history says that the proposer itself answered", "bot, who proposed it" in card.outcome, card.outcome
)
verdict("and who else answered", "shell" in card.outcome, card.outcome)
verdict("the card had warned of it", "proposer is one of the targets that would run it" in warned, warned)
lab.down()
