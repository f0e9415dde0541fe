"""An MCP server of the standard library alone whose answers are lines of a size and a shape that the call names.

Its argument, if there is one, is a file with the result of every list; or `json`, `events` or `sse`. Then it answers over
HTTP, in JSON, as an event of the request, or as one of the older transport, and prints its address.
"""

import json
import queue
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SHAPES = {
    "lists": "[],",
    "nested": "[[[[[[]]]]]],",
    "objects": '{"a":1},',
    "numbers": "1.5,",
    "text": '"x,é{[",',
    "plain": '"' + "x" * 1000 + '",',
    "keys": None,
    "one text": None,
    "base64": None,
    "structured": '{"é":[1,null,"x"]},',
    "deep": "[" * 30 + "]" * 30 + ",",
}


LIGHT = {"plain", "one text", "base64"}  # of few values, whatever their size


def shape(name, size):
    """A JSON object of about so many bytes."""
    if name == "keys":
        return "{" + ",".join(f'"k{n}":{n}' for n in range(size // 15)) + "}"
    if name == "one text":
        return '{"content":[{"type":"text","text":"' + "é\\n" * (size // 4) + '"}],"isError":false}'
    if name == "base64":
        data = "QUJD" * (size // 4)
        return '{"content":[{"type":"image","mimeType":"image/png","data":"' + data + '"}]}'
    piece = SHAPES[name]
    items = (piece * (size // len(piece)))[:-1]
    if name == "structured":
        return '{"content":[],"structuredContent":{"items":[' + items + "]}}"
    return '{"content":[' + items + "]}"


def answer(message):
    """The line that answers a message; empty for a notification."""
    id, method = message.get("id"), message["method"]
    if id is None:
        return ""
    if method == "initialize":
        result = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "heavy", "version": "1"},
        }
        return json.dumps({"jsonrpc": "2.0", "id": id, "result": result})
    if method.endswith("/list") and Path(sys.argv[-1]).name == "list":
        return f'{{"jsonrpc":"2.0","id":{json.dumps(id)},"result":{Path(sys.argv[-1]).read_text()}}}'
    if method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in SHAPES]
        return json.dumps({"jsonrpc": "2.0", "id": id, "result": {"tools": tools}})
    if method != "tools/call":
        return json.dumps(
            {"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}}
        )
    asked = message["params"]["arguments"]
    value = shape(message["params"]["name"], asked["size"])
    value = value[11:-1] if asked.get("malformed") else value  # a result that is a list
    result = f'"result":{value}'
    own = f'"id":{asked.get("id", json.dumps(id))}'
    parts = [result, own] if asked.get("id_last") else [own, result]
    parts = ['"x-first":1', *parts, '"x-last":1'] if asked.get("id_within") else parts
    return '{"jsonrpc":"2.0",' + ",".join(parts) + "}"


class Handler(BaseHTTPRequestHandler):
    """One request over HTTP."""

    events: "queue.Queue[str]" = queue.Queue()  # of the older transport, for its one stream

    def do_GET(self):
        if sys.argv[1] != "sse":
            self.reply(405, "text/plain", "no stream")
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"event: endpoint\ndata: /messages\n\n")
        while True:
            self.write_event(self.events.get())

    def do_POST(self):
        text = answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        if sys.argv[1] == "sse":
            self.reply(202, "text/plain", "Accepted")
            self.events.put(text)
        elif not text:
            self.reply(202, "text/plain", "")
        elif sys.argv[1] == "json":
            self.reply(200, "application/json", text)
        else:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.write_event(text)

    def write_event(self, text):
        """Writes an event; its data takes two lines where it can."""
        if text:
            lines = text.replace('","result":', '",\ndata: "result":', 1)
            self.wfile.write(f": ping\r\nevent: message\r\ndata: {lines}\r\n\r\n".encode())

    def reply(self, status, kind, text):
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *what): ...


def main():
    """Answers until stdin ends, or over HTTP."""
    if sys.argv[1:] and sys.argv[1] in ("json", "events", "sse"):
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        path = "sse" if sys.argv[1] == "sse" else "mcp"
        print(f"http://127.0.0.1:{server.server_port}/{path}", flush=True)
        server.serve_forever()
    for line in sys.stdin:
        if text := answer(json.loads(line)):
            sys.stdout.write(text + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
