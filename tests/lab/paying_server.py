"""An MCP server over stdio, of the standard library alone: it pays, and ends or hangs before it answers."""

import json
import os
import sys
import time
from pathlib import Path

ACCOUNT = Path(sys.argv[1])
SCHEMA = {"type": "object", "properties": {"amount": {"type": "integer"}}}
TOOLS = [{"name": "pay", "inputSchema": SCHEMA}, {"name": "balance", "inputSchema": {"type": "object"}}]

for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params") or {}
    if message.get("id") is None:
        continue
    result = {}
    if method == "initialize":
        server = {"name": "bank", "version": "1"}
        version = params["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call" and params["name"] == "pay":
        with ACCOUNT.open("a") as account:
            account.write(f"{params['arguments']['amount']}\n")
        if ACCOUNT.with_name("dies").exists():
            os._exit(1)
        while ACCOUNT.with_name("hangs").exists():
            time.sleep(0.05)
        result = {"content": [{"type": "text", "text": "paid"}]}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + "\n")
    sys.stdout.flush()
