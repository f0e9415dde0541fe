"""Runs an MCP server and breaks one rule of its session: `python faulty_server.py FAULT COMMAND…`.

Lines pass in both directions as they are, but for the fault. Answers to requests of this program reach no server.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import Any

OWN = "of-the-fault"


class FaultyServer:
    """The server, with one fault."""

    def __init__(self, fault: str, command: list[str]) -> None:
        self.fault = fault
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.methods: dict[Any, str] = {}  # of the client's requests, by id
        self.lists = 0
        self.pings = 0
        self.writing = threading.Lock()

    def send(self, **members: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n")

    def write(self, line: bytes) -> None:
        with self.writing:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()

    def run(self) -> int:
        if self.fault == "prints_lines":
            self.write(b"".join(b"Loading module %d ...\n" % n for n in range(39)))
        elif self.fault == "prints_objects":
            self.write(b'{"level":"info","message":"listening"}\n')
        threading.Thread(target=self.pass_requests, daemon=True).start()
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.pass_answer(line, json.loads(line))
        return self.process.wait()

    def pass_requests(self) -> None:
        assert self.process.stdin is not None
        for line in sys.stdin.buffer:
            members = json.loads(line)
            if "method" in members:
                self.methods[members.get("id")] = members["method"]
            elif members.get("id") == OWN:
                if self.fault == "uses_an_id_twice" and self.pings == 1:
                    self.ping()
                continue
            if self.fault == "dies" and members.get("method") == "tools/call":
                self.process.kill()
                return
            self.process.stdin.write(line)
        self.process.stdin.close()

    def ping(self) -> None:
        self.pings += 1
        self.send(id=OWN, method="ping")

    def pass_answer(self, line: bytes, members: dict[str, Any]) -> None:
        method = self.methods.get(members.get("id"), "")
        if method == "initialize" and self.fault == "asks_too_early":
            self.send(id=OWN, method="ping")
            self.send(id=f"{OWN}-2", method="roots/list")
        elif method == "tools/list":
            self.lists += 1
            if self.fault == "changes_its_list" and self.lists > 1:
                del members["result"]["tools"][0]
                line = json.dumps(members).encode() + b"\n"
        elif method == "tools/call":
            if self.fault == "refuses":
                error = {"code": -32603, "message": "the disk is full"}
                line = json.dumps({"jsonrpc": "2.0", "id": members["id"], "error": error}).encode() + b"\n"
            elif self.fault == "answers_nothing":
                self.send(id=9999, result={})
            elif self.fault == "cannot_read":
                self.send(id=None, error={"code": -32700, "message": "Parse error"})
            elif self.fault == "uses_an_id_twice":
                self.ping()
        self.write(line)
        if method == "tools/call" and self.fault == "answers_twice":
            self.write(line)


if __name__ == "__main__":
    sys.exit(FaultyServer(sys.argv[1], sys.argv[2:]).run())
