"""The first requests over stdio are answered as the last gate of the token did, while the next one still starts."""

from __future__ import annotations

import json
import os
import select
import socket
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.bridge.early_answers import EarlyAnswers

TOOLS = {"tools": [{"name": "git_log", "inputSchema": {"type": "object"}}]}
HANDSHAKE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}


@pytest.fixture
def url() -> Iterator[str]:
    """The address of a gateway that takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"ws://127.0.0.1:{listening.getsockname()[1]}/ws"


def line(id: Any, method: str, params: Any = None) -> bytes:
    request = {"jsonrpc": "2.0", "id": id, "method": method, **({} if params is None else {"params": params})}
    return json.dumps(request).encode() + b"\n"


def answer(id: Any, result: Mapping[str, Any]) -> str:
    """The line of a gate, as the library of MCP writes it."""
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": result}, separators=(",", ":")) + "\n"


class Run:
    """The start of one gate: a client on two pipes."""

    def __init__(self, folder: Path | None, url: str, key: object = "key") -> None:
        source, self.client = os.pipe()
        self.out, self.sink = os.pipe()
        self.early = EarlyAnswers(folder, key=key, url=url, source=source, sink=self.sink)
        os.close(source)
        self.told: list[str] = []
        self.early.on_difference = self.told.append
        self.early.start()

    def send(self, data: bytes) -> bytes:
        """What reaches the gate of these bytes, all of them."""
        os.write(self.client, data)
        got = b""
        while len(got) < len(data):
            got += self.early.read()
        return got

    def answered(self) -> list[dict[str, Any]]:
        """What the client has got by now: a line reaches the gate after its early answer was written."""
        text = b""
        while select.select([self.out], [], [], 0)[0]:
            text += os.read(self.out, 1 << 20)
        return [json.loads(one) for one in text.splitlines()]

    def close(self) -> None:
        os.close(self.client)
        while self.early.read():
            pass
        os.close(self.out)
        os.close(self.sink)


@contextmanager
def started(folder: Path | None, url: str, key: object = "key") -> Iterator[Run]:
    run = Run(folder, url, key)
    try:
        yield run
    finally:
        run.close()


def serve_once(folder: Path, url: str) -> None:
    with started(folder, url) as run:
        for id, method, params, result in (
            (0, "initialize", HANDSHAKE, {"serverInfo": {"name": "gate"}}),
            (1, "tools/list", None, TOOLS),
        ):
            sent = line(id, method, params)
            assert run.send(sent) == sent and run.answered() == []
            assert not run.early.take_answer(answer(id, result))
        assert run.told == []


def test_equal_requests_get_the_last_answers_at_once_and_the_gates_own_are_left_out(
    tmp_path: Path, url: str
) -> None:
    serve_once(tmp_path, url)
    with started(tmp_path, url) as run:
        sent = line(7, "initialize", HANDSHAKE) + line("ü", "tools/list", {"_meta": {"progressToken": 5}})
        assert run.send(sent) == sent
        assert [(one["id"], one["result"]) for one in run.answered()] == [
            (7, {"serverInfo": {"name": "gate"}}),
            ("ü", TOOLS),
        ]
        assert run.early.take_answer(answer(7, {"serverInfo": {"name": "gate"}}))
        late = json.dumps(
            {"jsonrpc": "2.0", "id": "ü", "result": TOOLS}, separators=(",", ":"), ensure_ascii=False
        )
        assert run.early.take_answer(late) and run.told == []


@pytest.mark.parametrize(
    "request_line",
    [
        line(1, "tools/list", {"cursor": "x"}),
        line(1, "initialize", {**HANDSHAKE, "protocolVersion": "2024-11-05"}),
        line(1, "tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}),
        line(1, "tools/call", {"name": "git_log"}),
        line(None, "tools/list"),
        line(True, "tools/list"),
        line([1], "tools/list"),
        b'{"id":1,"method":"tools/list"}\n',
        b'[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]\n',
        line(1, "tools/list", {"pad": "x" * 70_000}),
    ],
)
def test_nothing_else_is_answered_early(tmp_path: Path, url: str, request_line: bytes) -> None:
    serve_once(tmp_path, url)
    with started(tmp_path, url) as run:
        assert run.send(request_line) == request_line and run.answered() == []


LISTENING = {"notifications": {"toolsListChanged": True}}
HONOURED = {"toolsListChanged": True}


def acknowledged(id: Any) -> str:
    """The line of a gate that a subscription is open, as the library of MCP writes it."""
    params = {"_meta": {"io.modelcontextprotocol/subscriptionId": id}, "notifications": HONOURED}
    told = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}
    return json.dumps(told, separators=(",", ":")) + "\n"


def test_a_subscription_is_acknowledged_early_under_its_own_id_and_once(tmp_path: Path, url: str) -> None:
    with started(tmp_path, url) as run:
        run.send(line("listen:0", "subscriptions/listen", LISTENING))
        assert run.answered() == [] and not run.early.take_answer(acknowledged("listen:0"))
    with started(tmp_path, url) as run:
        sent = line("listen:1", "subscriptions/listen", LISTENING)
        assert run.send(sent) == sent
        assert run.answered() == [json.loads(acknowledged("listen:1"))]
        assert run.early.take_answer(acknowledged("listen:1"))
        # What comes later under that id is the client's.
        assert not run.early.take_answer(answer("listen:1", {})) and run.told == []
        assert run.send(line(2, "subscriptions/listen", {"notifications": {}})) and run.answered() == []


def test_a_subscription_that_the_gate_ends_or_refuses_ends_for_the_client(tmp_path: Path, url: str) -> None:
    with started(tmp_path, url) as run:
        run.send(line(1, "subscriptions/listen", LISTENING))
        run.early.take_answer(acknowledged(1))
        run.send(line(2, "subscriptions/listen", LISTENING))
        assert not run.early.take_answer(answer(2, {"resultType": "complete"}))
    with started(tmp_path, url) as run:
        run.send(line(3, "subscriptions/listen", LISTENING))
        assert run.answered() == [json.loads(acknowledged(3))]
        refused = '{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"full"}}'
        assert not run.early.take_answer(refused)


@pytest.mark.parametrize("meta", [None, [], "x", {"y": 1}])
def test_a_file_with_any_acknowledgement_stops_no_line(tmp_path: Path, url: str, meta: object) -> None:
    with started(tmp_path, url) as run:
        run.send(line(1, "subscriptions/listen", LISTENING))
        run.early.take_answer(acknowledged(1))
    [file] = (path for path in tmp_path.rglob("*") if path.is_file())
    [key] = json.loads(file.read_text())
    file.write_text(json.dumps({key: {"_meta": meta}}))
    with started(tmp_path, url) as run:
        sent = line(1, "subscriptions/listen", LISTENING) + line(2, "tools/list")
        assert (
            run.send(sent) == sent
            and run.answered()[0]["method"] == "notifications/subscriptions/acknowledged"
        )


def test_another_answer_of_the_gate_is_told_as_a_change_and_is_the_next_early_one(
    tmp_path: Path, url: str
) -> None:
    serve_once(tmp_path, url)
    with started(tmp_path, url) as run:
        run.send(line(1, "tools/list"))
        assert run.early.take_answer(answer(1, {"tools": []})) and run.told == ["tools"]
        run.send(line(2, "tools/list"))
        failed = json.dumps({"jsonrpc": "2.0", "id": 2, "error": {"code": 1}}, separators=(",", ":"))
        assert run.early.take_answer(failed) and run.told == ["tools", "tools"]
    with started(tmp_path, url) as run:
        run.send(line(1, "tools/list"))
        assert [one["result"] for one in run.answered()] == [{"tools": []}]


def test_what_comes_when_the_gate_answers_is_the_gates(tmp_path: Path, url: str) -> None:
    serve_once(tmp_path, url)
    with started(tmp_path, url) as run:
        run.early.end()
        run.send(line(1, "tools/list"))
        assert run.answered() == [] and not run.early.take_answer(answer(1, TOOLS))


def test_no_tools_are_shown_of_a_space_that_is_not_there_or_by_another_token(
    tmp_path: Path, url: str
) -> None:
    serve_once(tmp_path, url)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = f"ws://127.0.0.1:{closed.getsockname()[1]}/ws"
    for at, key, folder in ((nobody, "key", tmp_path), (url, "other", tmp_path), (url, "key", None)):
        with started(folder, at, key) as run:
            run.send(line(1, "tools/list"))
            assert run.answered() == []


def test_the_file_is_its_users_alone_and_names_no_token(tmp_path: Path, url: str) -> None:
    folder = tmp_path / "state"
    with started(folder, url, ["a-token-that-nobody-sees"]) as run:
        run.send(line(1, "tools/list"))
        run.early.take_answer(answer(1, TOOLS))
    [file] = (path for path in folder.rglob("*") if path.is_file())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert "a-token" not in file.read_text() + str(file)


@pytest.mark.parametrize("damage", [b"", b"{", b"[1]", b'{"a":1}', b"[" * 100_000, b"\xff", b"x" * 9_000_000])
def test_a_damaged_file_costs_the_early_answers_alone(tmp_path: Path, url: str, damage: bytes) -> None:
    serve_once(tmp_path, url)
    [file] = (path for path in tmp_path.rglob("*") if path.is_file())
    file.write_bytes(damage)
    serve_once(tmp_path, url)
    with started(tmp_path, url) as run:
        run.send(line(1, "tools/list"))
        assert [one["result"] for one in run.answered()] == [TOOLS]


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.sampled_from(
                [
                    b"\n",
                    b"{",
                    b"}",
                    line(1, "tools/list"),
                    line(2, "initialize", {}),
                    b"x" * 70_000,
                    b"\xff\n",
                ]
            ),
        ),
        max_size=12,
    )
)
def test_whatever_a_client_sends_reaches_the_gate_byte_for_byte(chunks: list[bytes]) -> None:
    with started(None, "ws://127.0.0.1:1/ws") as run:
        for chunk in filter(None, chunks):
            assert run.send(chunk) == chunk
