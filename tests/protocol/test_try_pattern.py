"""What a person is told who tries a pattern: the verdict of the gateway, the nearest miss, or what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.errors import ConfigError
from mew_lab.protocol.permit import permit, try_pattern
from mew_lab.protocol.profiles import PROFILES, SEE

CALL = {
    "kind": "mcp/request",
    "to": ["files"],
    "payload": {"method": "tools/call", "params": {"name": "write_file", "arguments": {"path": "src/a.py"}}},
}


def call_of(**arguments: Any) -> dict[str, Any]:
    return {"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"arguments": arguments}}}


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ({"kind": "mcp/*"}, "Allowed."),
        (call_of(path="src/**"), "Allowed."),
        ([{"kind": "chat"}, {"kind": "mcp/*", "to": "files"}], "Allowed by the pattern [1]."),
        (
            call_of(path="docs/**"),
            'Refused: {"kind":"mcp/request",…} wants payload.params.arguments.path "docs/**", got "src/a.py".',
        ),
        (
            {"kind": "mcp/request", "to": "git"},
            'Refused: {"kind":"mcp/request",…} wants to "git", got "files".',
        ),
        ([], "Refused: no capability is held."),
        (
            {"kind": "mcp/request", "payload": {"method": "/tools/"}},
            'Refused: {"kind":"mcp/request",…} wants payload.method "/tools/", got "tools/call".\n'
            "Note: payload.method: '/tools/' is a regular expression and matches only 'tools', without the slashes; "
            "for the text itself write '/\\/tools\\//'.",
        ),
        (
            {"kind": "mcp/request", "paylod": {}},
            f"This is no pattern (at paylod): a capability has no key 'paylod'; did you mean 'payload'? {SEE}",
        ),
        (
            [{"kind": "chat"}, {"kind": ""}],
            "This is no pattern (at [1].kind): needs a string or a non-empty list of strings, none of them empty. "
            + SEE,
        ),
        (
            "chat",
            f'This is no pattern: it is an object with a kind, such as {{"kind": "chat"}}, or a list of them. {SEE}',
        ),
    ],
)
def test_a_person_is_told_the_verdict_and_the_nearest_miss(pattern: object, told: str) -> None:
    assert try_pattern(pattern, CALL) == told


def test_the_profiles_can_be_tried() -> None:
    assert try_pattern(PROFILES["proposer"], CALL).startswith("Refused: ")
    assert try_pattern(PROFILES["proposer"], CALL | {"kind": "mcp/proposal"}).startswith(
        "Allowed by the pattern ["
    )


@pytest.mark.parametrize(
    "message", [None, [], {}, {"kind": 1}, {"kind": "chat", "to": [1]}, {"kind": "chat", "payload": []}]
)
def test_what_is_no_message_is_told(message: object) -> None:
    assert try_pattern({"kind": "*"}, message).startswith("This is no message: it is an object with a kind")


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["*", "a/*", "!a", "/a/", "/(/", "**", "$.a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "to", "payload", "a", "*", "$.a", "x-closed"]) | st.text(max_size=3),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)
messages = st.fixed_dictionaries(
    {"kind": st.sampled_from(["chat", "mcp/request", "a"])},
    optional={
        "to": st.lists(st.sampled_from(["a", "b"]), max_size=2),
        "payload": st.dictionaries(st.sampled_from(["a", "b"]), values, max_size=2),
    },
)
patterns = st.fixed_dictionaries(
    {"kind": st.sampled_from(["chat", "mcp/*", "*", "!chat", "/(/"])},
    optional={
        "to": st.sampled_from(["a", "*"]),
        "payload": st.dictionaries(st.sampled_from(["a", "*", "$.a", "b"]), values, max_size=2),
    },
)


@given(pattern=patterns | values, message=messages | values)
def test_it_says_what_the_gateway_decides_and_never_fails(pattern: Any, message: Any) -> None:
    told = try_pattern(pattern, message)
    assert told.isprintable() or all(line.isprintable() for line in told.split("\n"))
    if told.startswith("This is no "):
        return
    held = [pattern] if isinstance(pattern, dict) else pattern
    to = message.get("to") or []
    verdict = permit(
        held,
        message["kind"],
        to=[to] if isinstance(to, str) else to,
        payload=json.loads(json.dumps(message)).get("payload"),
    )
    assert told.startswith("Allowed" if verdict else "Refused: ")


@given(pattern=patterns)
def test_what_the_gateway_takes_as_a_pattern_is_tried(pattern: Any) -> None:
    try:
        permit([pattern], "chat")
    except ConfigError:
        assert try_pattern(pattern, {"kind": "chat"}).startswith("This is no pattern (at ")
    else:
        assert not try_pattern(pattern, {"kind": "chat"}).startswith("This is no ")


def test_what_is_no_json_is_told() -> None:
    loop: list[Any] = []
    loop.append(loop)
    for message in (
        {"kind": "chat", "payload": {"a": {1}}},
        {"kind": "chat", "payload": loop},
        {"kind": "chat", "a": 10**5000},
    ):
        assert try_pattern({"kind": "*"}, message).startswith(
            "This is no message: it cannot be written as JSON"
        )
    assert try_pattern(loop, CALL).startswith("This is no pattern")
    assert try_pattern({"kind": "chat", "payload": {"a": loop}}, CALL).startswith(
        "This is no pattern (at payload.a"
    )
