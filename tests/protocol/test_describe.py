from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.protocol.describe import LIMIT, SENTENCES, describe
from mew_lab.protocol.kinds import KINDS

CALL = {
    "method": "tools/call",
    "params": {"name": "git_log", "arguments": {"repo_path": "..", "max_count": 3}},
}


def test_every_kind_of_the_table_has_its_sentence() -> None:
    assert set(SENTENCES) == set(KINDS)


@pytest.mark.parametrize(
    ("kind", "payload", "sentence"),
    [
        ("mcp/proposal", CALL, 'Wants to run git_log(repo_path="..", max_count=3)'),
        ("mcp/request", CALL, 'git_log(repo_path="..", max_count=3)'),
        ("mcp/request", {"method": "tools/call"}, "a tool without a name"),
        ("mcp/proposal", {"method": "tools/list"}, "Wants to run tools/list"),
        ("mcp/request", {"method": "tools/list"}, "tools/list"),
        (
            "mcp/request",
            {"method": "prompts/get", "params": {"name": "plan", "arguments": {"bed": "north"}}},
            "prompts/get plan bed=north",
        ),
        (
            "mcp/request",
            {
                "method": "tools/call",
                "params": {"name": "sum", "arguments": {f"a{n}": n for n in range(13)}},
            },
            f"sum({', '.join(f'a{n}={n}' for n in range(12))}, …)",
        ),
        ("mcp/request", {"method": "resources/read", "params": {"uri": "a://b"}}, "resources/read uri=a://b"),
        (
            "mcp/request",
            {
                "method": "tools/call",
                "params": {"name": "t", "arguments": {"files": [1, 2, 3, 4], "o": {"a": 1}}},
            },
            't(files=4 items, o={"a":1})',
        ),
        ("mcp/response", {"result": {"content": [{"type": "text", "text": "3 commits"}]}}, "“3 commits”"),
        (
            "mcp/request",
            {"method": "elicitation/create", "params": {"message": "How many?", "requestedSchema": {}}},
            "Asks: “How many?”",
        ),
        (
            "mcp/request",
            {
                "method": "elicitation/create",
                "params": {"mode": "url", "message": "Sign in.", "url": "https://a.example.org/x"},
            },
            "Asks to open https://a.example.org/x: “Sign in.”",
        ),
        (
            "mcp/request",
            {
                "method": "sampling/createMessage",
                "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "Be brief."}}]},
            },
            "Asks the model: “Be brief.”",
        ),
        (
            "mcp/request",
            {"method": "sampling/createMessage", "params": {"messages": []}},
            "sampling/createMessage messages=[]",
        ),
        (
            "mcp/response",
            {"result": {"action": "accept", "content": {"n": 3, "s": "x"}}},
            'Answered: n=3, s="x"',
        ),
        ("mcp/response", {"result": {"action": "accept"}}, "Answered"),
        ("mcp/response", {"result": {"action": "decline"}}, "Declined"),
        ("mcp/response", {"result": {"action": "cancel"}}, "Dismissed"),
        ("mcp/response", {"result": {"action": "dance"}}, '{"action":"dance"}'),
        ("mcp/response", {"result": {"action": ["accept"]}}, '{"action":["accept"]}'),
        (
            "mcp/response",
            {"result": {"isError": True, "content": [{"type": "text", "text": "no such file"}]}},
            "Failed: “no such file”",
        ),
        ("mcp/response", {"error": {"code": -32601, "message": "unknown"}}, "Error -32601: unknown"),
        ("mcp/response", {"result": {"tools": [{"name": "a"}, {"name": "b"}]}}, "2 tools: a, b"),
        ("mcp/response", {"result": {"content": []}}, "Empty result"),
        ("mcp/reject", {"reason": "unsafe"}, "Rejected (unsafe)"),
        ("mcp/withdraw", {"reason": "no_longer_needed"}, "Withdrawn (no_longer_needed)"),
        ("chat", {"text": "hello\nyou"}, "“hello\\nyou”"),
        ("chat/acknowledge", {"status": "received"}, "Acknowledged received"),
        ("reasoning/start", {"message": "a question"}, "Working on: a question"),
        ("reasoning/start", {"message": "Working on: x"}, "Working on: x"),
        ("reasoning/thought", {"message": "a thought"}, "Thinking: a thought"),
        ("reasoning/conclusion", {"message": "done"}, "Concluded: done"),
        ("reasoning/conclusion", {"message": ""}, "Concluded"),
        ("reasoning/start", {}, "Begins to reason"),
        ("reasoning/cancel", {"reason": "superseded"}, "Stopped reasoning (superseded)"),
        (
            "capability/grant",
            {"recipient": "bot", "capabilities": [{"kind": "mcp/request"}], "reason": "safe so far"},
            "Allows bot mcp/request (safe so far)",
        ),
        ("capability/revoke", {"recipient": "bot", "grant_id": "g-1"}, "Revokes permission g-1 from bot"),
        ("space/invite", {"participant_id": "new", "initial_capabilities": []}, "Invites new with nothing"),
        ("space/invite", {"participant_id": "new", "reason": "help"}, "Invites new (help)"),
        ("space/kick", {"participant_id": "bad"}, "Removes bad"),
        ("system/presence", {"event": "join", "participant": {"id": "git"}}, "git joined"),
        ("mcp/reject", {"reason": list(range(21))}, "Rejected (21 items)"),
        (
            "stream/write-granted",
            {"stream_id": "stream-1", "authorized_writers": ["a", "b"]},
            "Writers of stream-1: a, b",
        ),
        ("stream/write-granted", {"stream_id": "stream-1"}, "Writers of stream-1: not given"),
        (
            "stream/ownership-transferred",
            {"stream_id": "stream-1", "new_owner": "bot"},
            "stream-1 now belongs to bot",
        ),
        (
            "stream/transfer-ownership",
            {"stream_id": "stream-1", "new_owner": "bot"},
            "stream-1 goes to bot",
        ),
        ("space/invite-ack", {"participant_id": "new", "status": "created"}, "Invitation of new: created"),
        ("chat/cancel", {"reason": "duplicate"}, "Needs no answer any more (duplicate)"),
        ("mcp/response", {"error": "broken"}, "Outcome not known: broken"),
        ("mcp/response", {"error": {"message": "no code"}}, "Outcome not known: no code"),
        ("mcp/response", {"result": 42}, "42"),
        ("mcp/response", {"result": {"isError": True}}, 'Failed: {"isError":true}'),
        (
            "mcp/response",
            {"result": {"content": [{"type": "text", "text": t} for t in "abc"] + [{"type": "image"}]}},
            "“a”, 2 more texts, a picture without content",
        ),
        ("mcp/response", {"result": {"tools": [{"name": n} for n in "abcde"] + [7]}}, "6 tools: a, b, c, d…"),
        ("participant/forget", {"direction": "oldest", "entries": 10}, "Forget the oldest 10 entries"),
        ("participant/compact", {"target_tokens": 16000}, "Compact to 16000 tokens"),
        ("participant/compact", {}, "Compact"),
        ("participant/shutdown", {"reason": "done"}, "Shut down (done)"),
        ("system/presence", {"event": "leave", "participant": {"id": "git"}}, "git left"),
        (
            "system/welcome",
            {"you": {"id": "bot", "capabilities": [{"kind": "chat"}]}, "participants": [{"id": "git"}]},
            "Welcome, bot: 1 other participant; may send chat",
        ),
        (
            "system/error",
            {"error": "capability_violation", "attempted_kind": "mcp/request", "your_capabilities": []},
            "capability_violation mcp/request",
        ),
        ("participant/pause", {"timeout_seconds": 60, "reason": "rate_limit"}, "Pause for 60 s (rate_limit)"),
        ("participant/status", {"tokens": 1, "latency_ms": 2}, "1 token, 2 ms"),
        (
            "participant/status",
            {"status": "idle", "tokens": 12, "max_tokens": 80, "messages_in_context": 3},
            "idle, 12 of 80 tokens, 3 messages in the context",
        ),
        (
            "participant/compact-done",
            {"freed_tokens": 9, "freed_messages": 2},
            "Compacted: 9 tokens and 2 messages freed",
        ),
        ("participant/compact-done", {"skipped": True}, "Compaction skipped"),
        ("participant/compact-done", {"freed_messages": 1}, "Compacted: 1 message freed"),
        ("participant/forget", {"direction": "newest", "entries": 1}, "Forget the newest 1 entry"),
        (
            "participant/status",
            {"tokens": True, "messages_in_context": 1},
            "true tokens, 1 message in the context",
        ),
        ("stream/request", {"direction": "upload", "target": ["a"]}, "Asks to send a stream to a"),
        (
            "stream/request",
            {
                "direction": "download",
                "description": "readings",
                "content_type": "text/csv",
                "expected_size_bytes": 9,
            },
            "Asks to receive a stream: “readings” (text/csv, 9 bytes)",
        ),
        ("stream/request", {"direction": ["up"], "target": 7}, 'Asks for a stream ["up"]'),
        ("stream/open", {"stream_id": "stream-1", "encoding": "binary"}, "Opened stream-1 (binary)"),
        ("stream/open", {"stream_id": "stream-1", "owner": "bot"}, "Opened stream-1 for bot"),
        ("stream/close", {"stream_id": "stream-1", "reason": "complete"}, "stream-1 closed (complete)"),
        ("stream/transfer-ownership", {"stream_id": "s", "new_owner": "b"}, "s goes to b"),
        ("x/unknown", {"one": 1, "two": 2}, "fields one, two"),
        ("x/unknown", {}, "no payload"),
        ("chat", "not an object", "no payload"),
    ],
)
def test_a_kind_says_in_one_line_what_it_means(kind: str, payload: Any, sentence: str) -> None:
    assert describe(kind, payload) == sentence


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
# fmt: off
FIELDS = st.sampled_from([
    "method", "params", "result", "error", "reason", "text", "status", "message", "recipient",
    "capabilities", "grant_id", "participant_id", "you", "participants", "event", "participant", "code",
    "attempted_kind", "timeout_seconds", "fields", "tokens", "direction", "entries", "target_tokens",
    "skipped", "stream_id", "description", "target", "authorized_writers", "new_owner",
    "initial_capabilities",
])
# fmt: on


@given(kind=st.sampled_from(sorted(KINDS)), payload=st.dictionaries(FIELDS, JSON, max_size=6) | JSON)
@pytest.mark.threat(17)
def test_whatever_a_peer_sends_the_line_is_short_and_nothing_in_it_is_unseen(kind: str, payload: Any) -> None:
    line = describe(kind, payload)
    assert len(line) <= LIMIT
    assert line.isprintable()


def test_a_megabyte_is_one_short_line() -> None:
    assert len(describe("chat", {"text": "\u202e" * 10**6})) == LIMIT


def test_a_payload_that_breaks_a_sentence_is_still_told() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    told = describe("mcp/reject", {"reason": deep})
    assert told and len(told) <= LIMIT
    nested = deep
    while nested:  # taken apart by hand: the interpreter would take it apart by recursion
        nested, inner = nested[0], nested
        inner.clear()


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_without_a_payload_still_has_one_line(kind: str) -> None:
    for payload in ({}, {"reason": "why", "result": {}}):
        told = describe(kind, payload)
        assert "\n" not in told and len(told) <= LIMIT


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"progress": 2, "total": 4, "message": "loading"}, "Progress: 2 of 4 · loading"),
        ({"progress": 0.5}, "Progress: 0.5"),
        ({"progress": True}, "progress=true"),
        ({"progress": 1e300}, "progress="),
    ],
)
def test_a_report_of_progress_says_how_far_it_is(params: dict[str, Any], said: str) -> None:
    payload = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
    assert said in describe("mcp/request", payload)


def test_a_question_of_a_server_says_what_it_asks_and_what_it_would_open() -> None:
    def said(**params: Any) -> str:
        return describe(
            "mcp/request", {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params}
        )

    assert "Asks: “Which colour?”" in said(message="Which colour?")
    assert "Asks to open https://h/x: “Log in”" in said(message="Log in", mode="url", url="https://h/x")
