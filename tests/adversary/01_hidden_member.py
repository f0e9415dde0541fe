"""A card must show every member of what will be sent: here one payload member has the name under which another was shown."""

from __future__ import annotations

import json
from typing import Any

from attempts import until, verdict

import mew_lab
from mew_lab.views.approvals.model import card_data

EVIL, GOOD = "file:///etc/shadow", "file:///srv/docs/readme.txt"
lab = mew_lab.up("demo")
tool = lab.join("files", can="tool")
got: list[Any] = []
tool.participant.client.on_message(lambda one: got.append(one.payload) if one.kind == "mcp/request" else None)
bot = lab.join("bot", can="proposer")
params = {"uri": EVIL, "arguments": {"params.uri": GOOD}}
sent = bot.send(
    "mcp/proposal", {"method": "resources/read", "params": params, "params.uri": GOOD}, to="files"
)
until("the card", lab.decisions.pending)
card = lab.decisions.pending()[0]
policy_saw = json.dumps([value for _, value in card.arguments])
texts = {"the card": json.dumps(card_data(card)), "the listing": str(lab.proposals()), "a policy": policy_saw}
try:
    lab.approve(lab.proposals()[0])
except TypeError:  # where a listing's entry cannot be approved
    lab.approve(sent.id)
except AttributeError:
    lab.approve(sent.id)
until("the request went to the tool", lambda: got and got[-1]["params"]["uri"] == EVIL)
for name, text in texts.items():
    verdict(f"{name} shows the file that is read", EVIL in text or EVIL.replace("/", "\\/") in text)
lab.down()
