"""The same with a real MCP server: the file that is read must be one that the card names."""

from __future__ import annotations

import json
from typing import Any

from attempts import SCRATCH, reached, until, verdict

import mew_lab

(SCRATCH / "secret.txt").write_text("TOP-SECRET-CONTENT")
(SCRATCH / "readme.txt").write_text("harmless")
server = SCRATCH / "server.py"
server.write_text("""
import pathlib, sys
try:
    from mcp.server.fastmcp import FastMCP as Server
except ImportError:
    from mcp.server import MCPServer as Server
server = Server("files")
@server.resource("file:///{name}")
def read(name: str) -> str:
    return pathlib.Path(sys.argv[1], name).read_text()
server.run()
""")
lab = mew_lab.up("demo", timeout=40)
lab.bridge("files", ["python", str(server), str(SCRATCH)], timeout=60)
bot = lab.join("bot", can="proposer")
heard: list[Any] = []
bot.participant.client.on_message(heard.append)
params = {"uri": "file:///secret.txt", "arguments": {"params.uri": "file:///readme.txt"}}
payload = {"method": "resources/read", "params": params, "params.uri": "file:///readme.txt"}
sent = bot.send("mcp/proposal", payload, to="files")
until("the card", lab.decisions.pending)
card = lab.decisions.pending()[0]
named = json.dumps(card.arguments)
try:
    lab.approve(lab.proposals()[0])
except (TypeError, AttributeError):  # where a listing's entry cannot be approved
    lab.approve(sent.id)
until("the server answered", lambda: any(one.kind == "mcp/response" for one in heard))
answers = [one for one in heard if one.kind == "mcp/response"]
secret = "TOP-SECRET" in json.dumps(answers[-1].payload)
reached("it read what the request names", secret)
verdict("what was read is what the card named", "file:///secret.txt" in named)
lab.down()
