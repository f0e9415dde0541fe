"""An MCP server over stdio, of the standard library alone, with one tool that it runs only as a task.

The first argument is a file in which it notes the methods that it gets, the second `silent` where it does not declare
that it has tasks. A task that is asked for `forever` does not end. One that `waits_for` a file is made when that is there.
"""

import json
import sys
import time
from pathlib import Path

NOTES, DECLARES = Path(sys.argv[1]), sys.argv[2:] != ["silent"]
TASK = {"taskId": "t-1", "status": "working", "createdAt": "2026-01-01T00:00:00Z", "ttl": 60000}
asked = {}


def answer(method, params):
    if method == "initialize":
        tasks = {"tasks": {"requests": {"tools": {"call": {}}}, "cancel": {}}} if DECLARES else {}
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}, **tasks},
            "serverInfo": {"name": "tasks", "version": "1"},
        }
    if method == "tools/list":
        research = {"name": "research", "execution": {"taskSupport": "required"}}
        plain = {"name": "plain", "execution": {"taskSupport": "optional"}}
        return {"tools": [{**tool, "inputSchema": {"type": "object"}} for tool in (research, plain)]}
    if method == "tools/call" and params["name"] == "plain":
        return {"content": [{"type": "text", "text": json.dumps("task" in params)}]}
    if method == "tools/call" and "task" in params:
        asked.update(params["arguments"])
        while asked.get("waits_for") and not Path(asked["waits_for"]).exists():
            time.sleep(0.01)
        return {"task": TASK}
    if method == "tasks/result" and params == {"taskId": "t-1"}:
        return {"content": [{"type": "text", "text": "found"}], "isError": bool(asked.get("fails"))}
    if method == "tasks/cancel":
        return {**TASK, "status": "cancelled"}
    return None


for line in sys.stdin:
    message = json.loads(line)
    with NOTES.open("a") as notes:
        notes.write(message["method"] + "\n")
    if "id" not in message or (message["method"] == "tasks/result" and asked.get("forever")):
        continue
    result = answer(message["method"], message.get("params") or {})
    error = {"code": -32601, "message": "Task augmentation required for tools/call requests"}
    part = {"error": error} if result is None else {"result": result}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **part}) + "\n")
    sys.stdout.flush()
