"""What a capability allows is said so that a person reads neither more nor less into it."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.lab.sentences import DEEDS, MOST, phrase, sentence
from mew_lab.protocol.kinds import KINDS, is_reserved
from mew_lab.protocol.permit import PROFILES

# The profiles of §4.1 and §7.3, each as a person would tell it.
SENTENCES = {
    "human": "may give and revoke permissions; steer participants (pause, clear, restart, shut down …); make any MCP "
    "request; propose MCP requests; withdraw proposals; reject proposals; answer MCP requests; open, share and close "
    "streams; chat; acknowledge and cancel chats; reason aloud",
    "proposer": "may propose MCP requests; withdraw proposals; answer MCP requests; chat; acknowledge and cancel chats; "
    "reason aloud; report its status; acknowledge grants",
    "agent": "may propose MCP requests; withdraw proposals; answer MCP requests; ask which tools there are, ask which "
    "resources there are, ask which resource templates there are, ask which prompts there are, ask for completions of arguments or send notifications; open streams; close streams; chat; acknowledge and cancel chats; reason "
    "aloud; report its status; report that it has compacted; acknowledge grants",
    "tool": "may reject proposals; answer MCP requests; report that its tools or resources have changed, report the progress of calls, send log messages or report updates of resources; open streams, where payload.kept is like “mew-result://**”; close streams; chat; acknowledge "
    "chats; report its status; acknowledge grants",
    "observer": "may acknowledge chats; report its status; acknowledge grants",
    "admin": "may send any message",
}
CALL = {"kind": "mcp/request", "payload": {"method": "tools/call"}}


def call(**params: Any) -> dict[str, Any]:
    return {"kind": "mcp/request", "payload": {"method": "tools/call", "params": params}}


def test_every_profile_has_its_sentence() -> None:
    assert {name: sentence(patterns) for name, patterns in PROFILES.items()} == SENTENCES


def test_every_kind_that_a_participant_may_send_has_words_of_its_own() -> None:
    sendable = [kind for kind in KINDS if not is_reserved(kind)]
    assert [kind for kind in sendable if kind not in DEEDS] == []
    told = [phrase({"kind": kind}) for kind in sendable]
    assert len(set(told)) == len(told)


def test_who_holds_nothing_may_send_nothing() -> None:
    assert sentence([]) == "may send nothing"


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (CALL, "call any tool with any arguments"),
        (call(name="read_file"), "call the tool read_file with any arguments"),
        (call(name="read_*"), "call tools named like “read_*” with any arguments"),
        (call(name=["a", "b"]), "call tools named “a” or “b” with any arguments"),
        (call(name="!delete_*"), "call tools named anything but what is like “delete_*” with any arguments"),
        (call(name="/git_(log|status)/"), "call tools named of the form /git_(log|status)/ with any arguments"),
        (
            call(name="read_file", arguments={"path": "docs/*", "lines": 10}),
            "call the tool read_file where path is like “docs/*” and lines is 10, with any other arguments",
        ),
        (
            {**call(name="git_log"), "to": "git"},
            "call the tool git_log with any arguments, only to “git”",
        ),
        (
            {**call(name="read_file", arguments={"path": "docs/*"}), "x-closed": True},
            "call the tool read_file where path is like “docs/*”, with no other arguments",
        ),
        ({**call(name="now"), "x-closed": True}, "call the tool now with no arguments"),
        ({**call(name="now", arguments={}), "x-closed": True}, "call the tool now with no arguments"),
        (
            {
                "kind": "mcp/request",
                "payload": {"method": "resources/read", "params": {"uri": "a://b"}},
                "x-closed": True,
            },
            "read resources where params.uri is “a://b”, with nothing else in it",
        ),
        ({"kind": "mcp/proposal", "payload": {"method": "tools/call"}}, "propose to call any tool with any arguments"),
        ({"kind": "mcp/request", "payload": {"method": "tools/*"}}, "make requests like “tools/*”"),
        ({"kind": "mcp/request", "payload": {"method": "x/y"}}, "make the request “x/y”"),
        ({"kind": "mcp/request", "payload": {}}, "make any MCP request"),
        ({"kind": "participant/pause", "to": ["a", "b"]}, "pause participants, only to “a” or “b”"),
        ({"kind": "chat", "payload": {"format": "plain"}}, "chat, where payload.format is “plain”"),
        ({"kind": "chat", "payload": {"text": "*"}}, "chat, where payload.text is any text"),
        ({"kind": "chat", "payload": {"a": None, "b": True}}, "chat, where payload.a is null and payload.b is true"),
        ({"kind": "**"}, "send any message"),
        ({"kind": "!system/*"}, "send messages whose kind is anything but what is like “system/*”"),
        ({"kind": "game/move"}, "send game/move"),
        ({"kind": "chat", "description": "small talk", "id": "c1"}, "chat"),
    ],
)  # fmt: skip
def test_a_pattern_is_told_with_everything_that_narrows_it(pattern: dict[str, Any], said: str) -> None:
    assert phrase(pattern) == said


@pytest.mark.threat(22)
def test_threat_22_no_arguments_are_told_as_any_arguments() -> None:
    assert phrase(call(name="git_push", arguments={})) == (
        "call the tool git_push with any arguments ({} states no condition, so it allows all)"
    )


def test_what_is_wide_and_unusual_stands_first() -> None:
    assert sentence([{"kind": "chat"}, {"kind": "!chat"}]).startswith(
        "may send messages whose kind is anything but"
    )


def deep(levels: int) -> dict[str, Any]:
    return {"x": deep(levels - 1)} if levels else {"x": 1}


@pytest.mark.parametrize(
    "pattern",
    [
        {},
        {"kind": 7},
        {"kind": []},
        {"kind": [["chat"], None, {}]},
        {"kind": "mcp/request", "payload": []},
        {"kind": "mcp/request", "payload": {"method": [], "params": 3}},
        {"kind": "mcp/request", "payload": {"method": {"a": 1}, "params": {"arguments": [1]}}},
        {"kind": "chat", "payload": deep(100)},
        {"kind": "x" * 10_000, "to": ["y" * 10_000] * 1000},
        {"kind": "chat", "payload": {str(n): "\u202e\x1b[31m" for n in range(1000)}},
    ],
    ids=range(10),
)  # fmt: skip
def test_nothing_that_a_peer_may_send_makes_it_fail_or_run_on(pattern: dict[str, Any]) -> None:
    said = phrase(pattern)
    assert len(said) <= MOST
    assert "\u202e" not in said and "\x1b" not in said
    assert sentence([pattern] * 1000)
