"""An MCP server that says things on stderr, and goes on when a file is there; with the last argument it then ends."""

import json
import os
import sys
import time
from pathlib import Path

go = Path(sys.argv[1])
for number in range(int(sys.argv[2])):
    print(f"fetching part {number} with {os.environ.get('API_KEY', '')}", file=sys.stderr, flush=True)
end = time.monotonic() + 60
while not go.exists() and time.monotonic() < end:
    time.sleep(0.02)
if "end" in sys.argv:
    sys.stderr.write(
        "Error: no such region\n    at start (server.js:1)\n    at run (server.js:2)\n\nNode.js v20\n"
    )
    sys.exit(5)
for line in sys.stdin:
    asked = json.loads(line)
    result = {"tools": []}
    if asked.get("method") == "initialize":
        result = {
            "protocolVersion": asked["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "slow", "version": "1"},
        }
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
