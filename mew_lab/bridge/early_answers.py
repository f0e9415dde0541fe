"""Answers the first requests of a client over stdio as the last gate of its token did, while this gate still starts.

How it works
------------
What a gate needs loads for most of a second, and a coding agent that begins its turn meanwhile has no tools. So a thread
reads the lines of the client from the start on. Where it sends the handshake, or asks for a list, with the parameters
that it sent to the last gate of the same token, it gets the answer of that one at once. Every line reaches the gate in
its order, these too. What the gate itself answers to them is left out, and kept for the next one; where it is another
answer, its list has changed, and the client is told so.

A client of the revision 2026-07-28 may listen for changes before it lists, and list once that is acknowledged. So the
acknowledgement is given in the same way, under the id of the request.

Only these are answered, only where the gateway can be reached, and a list is a claim: the gate checks a tool when it is
called. A file that cannot be read or written costs the early answers and nothing else. This module loads nothing that
takes time.

Spec: §3.1; MCP "Lifecycle".
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import queue
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from mew_lab.bridge.delivery import ANSWER
from mew_lab.transport.files import read_small, replace_small

__all__ = ["EarlyAnswers", "write_all"]

logger = logging.getLogger(__name__)
LISTEN: Final = "subscriptions/listen"  # is acknowledged by a notification
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
# As the library writes it, before its params.
ACKNOWLEDGED: Final = '{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":'
ANSWERED: Final[Mapping[str, str]] = {
    "initialize": "",
    "server/discover": "",
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resources",
    "prompts/list": "prompts",
    LISTEN: "",
}
"""The requests that may be answered early, and what has changed where the gate answers otherwise."""

FOLDER = "answers"  # in the user's folder
MAX_FILE = 8 * 1024 * 1024  # bytes
MAX_ANSWERS = 32
MAX_ASKED = 1000  # requests that wait for their answer
MAX_REQUEST = 64 * 1024  # bytes of a line that is looked at
CHUNK = 1 << 16
REACH_WITHIN = 1.0  # seconds; behind a gateway that takes longer, the gate itself answers


class EarlyAnswers:
    """The lines between one client and the gate that starts for it.

    Args:
        folder: the user's folder for state; None where nothing may be kept.
        key: what the answers depend on besides the requests, the token too; only its digest is used.
        url: the address of the gateway.
        source, sink: the file descriptors of the client's lines and of the answers.
    """

    def __init__(self, folder: Path | None, *, key: object, url: str, source: int = 0, sink: int = 1) -> None:
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()
        self.on_difference: Callable[[Any], object] = lambda listed: None
        self._folder = folder
        self._name = f"{FOLDER}/{digest[:32]}.json"
        self._url = url
        self._source, self._sink = os.dup(source), os.dup(sink)
        self._chunks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._lock = threading.Lock()  # of all below, and of the sink
        self._is_early = True  # until the gate answers by itself
        self._answers: dict[str, Any] = {}  # results, by the digests of their requests
        self._asked: dict[str, _EarlyRequest] = {}

    def start(self) -> None:
        """Begins to read what the client sends."""
        threading.Thread(target=self._run, name="mew-lab-early", daemon=True).start()

    def read(self) -> bytes:
        """The next bytes of the client, in a thread; empty at their end."""
        return self._chunks.get()

    def end(self) -> None:
        """Ends the early answers: from now on, the gate answers. It waits for no client that reads slowly."""
        self._is_early = False

    def write(self, data: bytes, to: int) -> None:
        """Writes a line of the gate, never into the middle of an early one."""
        with self._lock:
            write_all(to, data)

    def take_answer(self, line: str) -> bool:
        """Notes a line of the gate, in a thread; returns whether it is to be left out, as its request was answered."""
        if (answered := ANSWER.match(line)) is not None:
            id, params = json.loads(answered[1]), None
        elif line.startswith(ACKNOWLEDGED):
            params = json.loads(line)["params"]
            id = params["_meta"].pop(SUBSCRIPTION)
        else:
            return False
        with self._lock:
            asked = self._asked.pop(_write_id(id), None)
        # The answer to a subscription is its end, or a refusal, which the client has to know.
        if asked is None or (asked.method == LISTEN) != (params is not None):
            return False
        result = json.loads(line).get("result") if params is None else params
        listed = ANSWERED[asked.method]
        if result is not None and self._answers.get(asked.key) != result:
            self._keep(asked.key, result)
        if asked.early is not None and result != asked.early and listed:
            self.on_difference(listed)
        return asked.early is not None

    # --- the thread ---

    def _run(self) -> None:
        if self._can_reach():
            self._load()
        rest = b""
        with contextlib.suppress(OSError):
            while data := os.read(self._source, CHUNK):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._take_request(line)
                # A line reaches the gate after it was answered, so the gate cannot answer it first.
                self._chunks.put(data)
                if len(rest) > MAX_REQUEST:
                    rest = b"x"  # of no line that is looked at
        self._chunks.put(b"")

    def _can_reach(self) -> bool:
        """Whether the gateway takes connections: where it is gone, its tools are not shown."""
        with contextlib.suppress(OSError, ValueError):
            parts = urlsplit(self._url)
            port = parts.port or (443 if parts.scheme in ("wss", "https") else 80)
            with socket.create_connection((parts.hostname or "", port), timeout=REACH_WITHIN):
                return True
        return False

    def _load(self) -> None:
        if self._folder is None or not self._folder.is_dir():
            return
        try:
            found = json.loads(read_small(self._folder, self._name, most=MAX_FILE))
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError) as fault:
            logger.info("the answers in %s are not used: %s", self._folder / self._name, type(fault).__name__)
            return
        if isinstance(found, dict):
            self._answers = {key: value for key, value in found.items() if isinstance(value, dict)}

    def _take_request(self, line: bytes) -> None:
        if len(line) > MAX_REQUEST:
            return
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(request, dict) or request.get("method") not in ANSWERED:
            return
        id, params = request.get("id"), request.get("params")
        if not isinstance(id, str | int) or isinstance(id, bool) or request.get("jsonrpc") != "2.0":
            return
        key = _key_of(request["method"], params if isinstance(params, dict) else {})
        written = _write_id(id)
        with self._lock:
            if written in self._asked or len(self._asked) >= MAX_ASKED:
                return
            early = self._answers.get(key) if self._is_early else None
            self._asked[written] = _EarlyRequest(request["method"], key, early)
            if early is not None:
                text = _write_answer(request["method"], id, early)
                with contextlib.suppress(OSError):  # the client is gone
                    write_all(self._sink, text.encode(errors="replace"))

    def _keep(self, key: str, result: Any) -> None:
        with self._lock:
            self._answers.pop(key, None)
            self._answers[key] = result
            while len(self._answers) > MAX_ANSWERS:
                del self._answers[next(iter(self._answers))]
            data = _write(self._answers).encode(errors="replace")
        if self._folder is None or len(data) > MAX_FILE:
            return
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_small(self._folder, self._name, data)
        except OSError as fault:
            logger.info(
                "the answers are not kept in %s: %s", self._folder / self._name, fault.strerror or fault
            )


class _EarlyRequest(NamedTuple):
    """A request that waits for the answer of the gate."""

    method: str
    key: str
    early: Any  # what the client has got; None for nothing


def _write_answer(method: str, id: str | int, kept: Mapping[str, Any]) -> str:
    if method == LISTEN:
        meta = kept.get("_meta")
        params = {**kept, "_meta": {**(meta if isinstance(meta, dict) else {}), SUBSCRIPTION: id}}
        return f"{ACKNOWLEDGED}{_write(params)}}}\n"
    return f'{{"jsonrpc":"2.0","id":{_write_id(id)},"result":{_write(kept)}}}\n'


def _write(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _key_of(method: str, params: Mapping[str, Any]) -> str:
    """What an answer depends on; a token of progress is of one request alone."""
    meta = params.get("_meta")
    rest = {name: value for name, value in params.items() if name != "_meta"}
    if isinstance(meta, dict):
        rest["_meta"] = {name: value for name, value in meta.items() if name != "progressToken"}
    if not rest.get("_meta"):
        rest.pop("_meta", None)
    return hashlib.sha256(json.dumps([method, rest], sort_keys=True).encode()).hexdigest()


def _write_id(id: str | int) -> str:
    return json.dumps(id)


def write_all(sink: int, data: bytes) -> None:
    """Writes all of it to a file descriptor."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(sink, rest) :]
