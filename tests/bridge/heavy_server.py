"""An MCP server of the standard library alone whose answers are lines of a size and a shape that the call names.

Its argument, if there is one, is a file with the result of every list.
"""

import json
import sys
from pathlib import Path

SHAPES = {
    "lists": "[],",
    "nested": "[[[[[[]]]]]],",
    "objects": '{"a":1},',
    "numbers": "1.5,",
    "text": '"x,é{[",',
    "plain": '"' + "x" * 1000 + '",',
    "keys": None,
}


def shape(name, size):
    """A JSON object of about so many bytes."""
    if name == "keys":
        return "{" + ",".join(f'"k{n}":{n}' for n in range(size // 15)) + "}"
    piece = SHAPES[name]
    return '{"content":[' + (piece * (size // len(piece)))[:-1] + "]}"


def main():
    """Answers until stdin ends."""
    for line in sys.stdin:
        message = json.loads(line)
        id, method = message.get("id"), message["method"]
        if id is None:
            continue
        if method == "initialize":
            result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "heavy", "version": "1"},
            }
            text = json.dumps({"jsonrpc": "2.0", "id": id, "result": result})
        elif method.endswith("/list") and len(sys.argv) > 1:
            text = f'{{"jsonrpc":"2.0","id":{json.dumps(id)},"result":{Path(sys.argv[1]).read_text()}}}'
        elif method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in SHAPES]
            text = json.dumps({"jsonrpc": "2.0", "id": id, "result": {"tools": tools}})
        else:
            asked = message["params"]["arguments"]
            value = shape(message["params"]["name"], asked["size"])
            value = value[11:-1] if asked.get("malformed") else value  # a result that is a list
            answer = f'"result":{value}'
            own = f'"id":{asked.get("id", json.dumps(id))}'
            parts = [answer, own] if asked.get("id_last") else [own, answer]
            parts = ['"x-first":1', *parts, '"x-last":1'] if asked.get("id_within") else parts
            text = '{"jsonrpc":"2.0",' + ",".join(parts) + "}"
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
