"""An MCP server over stdio, of the standard library alone, that misbehaves as its first argument says."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

MODE = sys.argv[1] if len(sys.argv) > 1 else "good"
TOOLS = [
    {"name": "env", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "die", "inputSchema": {"type": "object"}},
    {"name": "odd", "inputSchema": {"type": "object"}},
    {"name": "sleep", "inputSchema": {"type": "object"}},
    {"name": "change", "inputSchema": {"type": "object"}},
]


if MODE == "defaults":  # required, as some generators of schemas write what has a default; a root of forms
    picture = {
        "scale": {"enum": ["css", "device"], "default": "css"},
        "name": {"type": "string", "pattern": "^\\w+$"},
    }
    by_id = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    by_name = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    TOOLS = [
        {
            "name": "shot",
            "inputSchema": {"type": "object", "properties": picture, "required": ["scale", "name"]},
        },
        {"name": "find", "inputSchema": {"type": "object", "anyOf": [by_id, by_name]}},
    ]


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def text(value):
    return {"content": [{"type": "text", "text": value}], "isError": False}


PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
SVG = "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIG9ubG9hZD0iYWxlcnQoMSkiLz4="  # with a script


def call(name, arguments, meta):
    if MODE == "painter":
        pictures = [("image/png", PNG), ("image/svg+xml", SVG), ("image/png", SVG)]
        return {"content": [{"type": "image", "mimeType": kind, "data": data} for kind, data in pictures]}
    if MODE == "defaults":
        return text(json.dumps(arguments, sort_keys=True))
    if name == "env":
        return text(
            json.dumps(
                {"env": dict(os.environ), "cwd": str(Path.cwd()), "sid": os.getsid(0), "pid": os.getpid()}
            )
        )
    if name == "die":
        sys.stderr.write("one line\nthe last words\n")
        sys.stderr.flush()
        os._exit(3)
    if name == "end":  # the next start fails, where a file says so
        if len(sys.argv) > 2:
            Path(sys.argv[2]).write_text("no")
        os._exit(4)
    if name == "sleep":
        time.sleep(60)
    if name == "steps":
        for done in (1, 2, 3):
            report = {
                "progressToken": meta.get("progressToken"),
                "progress": done,
                "total": 3,
                "message": f"step {done}",
            }
            if "progressToken" in meta:
                say({"jsonrpc": "2.0", "method": "notifications/progress", "params": report})
                time.sleep(0.15)
        return text(json.dumps(meta))
    if name == "future":
        return {"content": [{"type": "hologram", "size": [1, None]}, 7], "structuredContent": "no object"}
    if name == "flood":
        for _ in range(5000):
            say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        return text("flooded")
    if name == "change":
        say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        return text("changed")
    # What no client library would make of it by itself: members of its own, nulls, another case.
    return {
        "content": [{"type": "text", "text": "as it came", "annotations": None}],
        "x-own": {"a_b": None, "cD": 1},
        "_meta": {"k": 1},
    }


if MODE == "once" and Path(sys.argv[2]).exists():
    sys.exit("not again")
if MODE == "mute":
    time.sleep(60)
if MODE == "exit":
    sys.stderr.write("Traceback (most recent call last):\nModuleNotFoundError: No module named 'nope'\n")
    sys.exit(1)
if MODE == "orphan":
    child = subprocess.Popen(["sleep", "60"])
    Path(sys.argv[2]).write_text(str(child.pid))
if MODE == "noisy":
    sys.stderr.write("y" * 1_000_000 + "\nquiet now\n")
    sys.stderr.flush()
    sys.stdout.write("Welcome to my server!\n\n{not json\n")
    sys.stdout.flush()

for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if id is None:
        continue
    if MODE == "refusing" and method in ("initialize", "server/discover"):
        error = {"code": -32601, "message": "I do not know " + method}
        say({"jsonrpc": "2.0", "id": id, "error": error})
        continue
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "odd", "version": "1"}
        result = {
            "protocolVersion": version,
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": info,
        }
        if MODE == "boasting":
            result["capabilities"] = {
                "tools": {"listChanged": True, "own": 1},
                "resources": {"levitate": True},
                "prompts": {},
                "experimental": {"levitation": {}},
                "extensions": {"com.example/levitation": {}},
            }
        if MODE == "newer":
            result["protocolVersion"] = "2199-01-01"
    elif method == "tools/list" and MODE == "busy" and Path(sys.argv[2]).exists():
        Path(sys.argv[2]).write_text("refused")
        TOOLS.append({"name": "late", "inputSchema": {"type": "object"}})
        say({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "busy; try again"}})
        continue
    elif method == "tools/list" and MODE != "toolless":
        at = int((message.get("params") or {}).get("cursor", 0))
        result = {"tools": TOOLS[at : at + 3]}
        if at + 3 < len(TOOLS):
            result["nextCursor"] = str(at + 3)
        if MODE == "lists_text":
            result = {"tools": "none"}
        if MODE == "lists_unsendable":  # one tool is larger than a message, and two together are
            large = {"name": "large", "description": "x" * 1_060_000, "inputSchema": {"type": "object"}}
            half = {**large, "name": "half", "description": "x" * 520_000}
            result = {"tools": [large, *TOOLS, half, {**half, "name": "other", "description": "x" * 480_000}]}
        if MODE == "lists_oddly":
            result = {
                "tools": [
                    "env",
                    None,
                    {"name": 7, "annotations": {}},
                    {"name": "env", "annotations": 3},
                    *TOOLS,
                ]
            }
    elif MODE == "malformed" and method == "tools/call":
        sys.stdout.write("{not json\n")
        say({"jsonrpc": "2.0", "id": id, **message["params"]["arguments"]})
        continue
    elif method == "tools/call" and message["params"]["name"] == "raw":  # its argument is what is written
        token = json.dumps((message["params"].get("_meta") or {}).get("progressToken"))
        written = (
            message["params"]["arguments"]["lines"].replace("ID", json.dumps(id)).replace("TOKEN", token)
        )
        sys.stdout.write(written + "\n")
        sys.stdout.flush()
        continue
    elif method == "tools/call" and message["params"]["name"] != "nope":
        result = call(
            message["params"]["name"],
            message["params"].get("arguments"),
            message["params"].get("_meta") or {},
        )
    else:
        error = {"code": -32602, "message": "Unknown: " + method, "data": {"why": None}}
        say({"jsonrpc": "2.0", "id": id, "error": error})
        continue
    say({"jsonrpc": "2.0", "id": id, "result": result})
