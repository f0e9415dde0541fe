"""An MCP server over stdio, of the standard library alone, that asks its client; the first argument is its mode."""

import json
import sys

MODE = sys.argv[1] if len(sys.argv) > 1 else ""
FORM = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}
asked = {}  # an own request -> the call that it is for, None for none
answers = {}  # a call -> the answers to its questions
wanted = {}
last = 0


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def give(id, text):
    say({"id": id, "result": {"content": [{"type": "text", "text": text}]}})


def ask(call, schema=FORM):
    global last
    last += 1
    asked[f"q{last}"] = call
    params = {"message": f"Question {last}", "mode": "form", "requestedSchema": schema}
    say({"id": f"q{last}", "method": "elicitation/create", "params": params})


for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method is None:
        call = asked.pop(id, None)
        answers.setdefault(call, []).append(message.get("result") or message.get("error"))
        if call in wanted and len(answers[call]) == wanted[call]:
            give(call, json.dumps(answers.pop(call)))
        continue
    if id is None:
        if method == "notifications/initialized" and MODE == "unasked":
            ask(None)
        continue
    if method == "initialize":
        info = {"name": "asking", "version": "1"}
        version = message["params"]["protocolVersion"]
        say(
            {
                "id": id,
                "result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info},
            }
        )
    elif method == "tools/list":
        names = ("ask", "wait", "seen", "twice", "hang", "ask_and_go")
        say(
            {
                "id": id,
                "result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]},
            }
        )
    elif method == "tools/call":
        name, arguments = message["params"]["name"], message["params"].get("arguments") or {}
        if name == "ask":
            wanted[id] = arguments["times"]
            for _ in range(arguments["times"]):
                ask(id, arguments.get("schema", FORM))
        elif name == "seen":
            give(id, json.dumps(answers.get(None, [])))
        elif name == "twice":
            give(id, "once")
            give(id, "again")
        elif name == "ask_and_go":
            ask(id)
            sys.stdout.flush()
            import time

            time.sleep(0.5)
            give(id, "gone")
        # `wait` and `hang` never answer
    else:
        say({"id": id, "error": {"code": -32601, "message": f"Method not found: {method}"}})
