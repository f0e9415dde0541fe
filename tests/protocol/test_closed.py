"""Closed capabilities (R34): what they permit, what they cover, and where they may stand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mew_lab.errors import ConfigError
from mew_lab.protocol.cost import steps
from mew_lab.protocol.covers import covers, disjoint, possesses
from mew_lab.protocol.node import Budget
from mew_lab.protocol.permit import Capability, CapabilitySet, edition_of, permit

from ..conftest import examples
from .slow_matcher import slow_permit

CALL: dict[str, Any] = {"method": "tools/call", "params": {"name": "write", "arguments": {"path": "src/**"}}}


def closed(params: Any, **more: Any) -> dict[str, Any]:
    return {
        "kind": "mcp/request",
        "payload": {"method": "tools/call", "params": params, **more},
        "x-closed": True,
    }


def call(params: Any, **more: Any) -> dict[str, Any]:
    return {"method": "tools/call", "params": params, **more}


WRITE = {"name": "write", "arguments": {"path": "src/**"}}


@pytest.mark.threat(6, 21)
@pytest.mark.parametrize(
    ("params", "payload", "expected"),
    [
        (WRITE, call({"name": "write", "arguments": {"path": "src/a"}}), True),
        (WRITE, call({"name": "write", "arguments": {"path": "src/a", "force": True}}), False),
        (WRITE, call({"name": "write", "arguments": {"path": "src/../a"}}), False),
        (WRITE, call({"name": "write", "arguments": {"path": "src/a"}}, jsonrpc="2.0", id=7), True),
        (WRITE, call({"name": "write", "arguments": {"path": "src/a"}}, extra=1), False),
        (WRITE, call({"name": "write", "arguments": {"path": "src/a"}, "extra": 1}), False),
        (WRITE, call({"name": "write", "arguments": {"path": "src/a"}, "_meta": {}}), True),
        (
            WRITE,
            call({"name": "write", "arguments": {"path": "src/a"}, "_meta": {"progressToken": "t" * 64}}),
            True,
        ),
        (
            WRITE,
            call({"name": "write", "arguments": {"path": "src/a"}, "_meta": {"progressToken": 1.5}}),
            True,
        ),
        (
            WRITE,
            call({"name": "write", "arguments": {"path": "src/a"}, "_meta": {"progressToken": "t" * 65}}),
            False,
        ),
        (
            WRITE,
            call({"name": "write", "arguments": {"path": "src/a"}, "_meta": {"progressToken": True}}),
            False,
        ),
        (
            WRITE,
            call({"name": "write", "arguments": {"path": "src/a"}, "_meta": {"progressToken": {}}}),
            False,
        ),
        (WRITE, call({"name": "write", "arguments": {"path": "src/a"}, "_meta": {"x": 1}}), False),
        (WRITE, call({"name": "write", "arguments": {"path": "src/a"}, "_meta": 1}), False),
        ({"name": "now"}, call({"name": "now"}), True),
        ({"name": "now"}, call({"name": "now", "arguments": {}}), True),
        ({"name": "now"}, call({"name": "now", "arguments": {"zone": "x"}}), False),
        ({"name": "now"}, call({"name": "now", "arguments": None}), False),
        ({"name": "now"}, call({"name": "now", "arguments": []}), False),
        ({}, call({}), True),
        ({}, call({"name": "a"}), False),
        (
            {"name": "a", "arguments": {"o": {"k": 1}}},
            call({"name": "a", "arguments": {"o": {"k": 1}}}),
            True,
        ),
        (
            {"name": "a", "arguments": {"o": {"k": 1}}},
            call({"name": "a", "arguments": {"o": {"k": 1, "l": 2}}}),
            False,
        ),
        ({"name": "a", "arguments": {"o": {}}}, call({"name": "a", "arguments": {"o": {"l": 2}}}), False),
        (
            {"name": "a", "arguments": {"p*": "x"}},
            call({"name": "a", "arguments": {"p": "x", "p2": 3}}),
            True,
        ),
        (
            {"name": "a", "arguments": {"p*": "x"}},
            call({"name": "a", "arguments": {"p": "x", "q": 3}}),
            False,
        ),
        (
            {"name": "a", "arguments": {"*": {"k": 1}}},
            call({"name": "a", "arguments": {"b": {"k": 1}, "c": {"evil": 1}}}),
            False,
        ),
        (
            {"name": "a", "arguments": {"*": {"k": 1}}},
            call({"name": "a", "arguments": {"b": {"k": 1}, "c": {"k": 2}}}),
            True,
        ),
        (
            {"name": "a", "arguments": {"*": {"k": 1}}},
            call({"name": "a", "arguments": {"b": {"k": 1}, "c": [{"k": 2}, [{"evil": 1}]]}}),
            False,
        ),
        (
            {"name": "a", "arguments": {"*": {"k": 1}}},
            call({"name": "a", "arguments": {"b": {"k": 1}, "c": [{"k": 2}, [], 3, "x"]}}),
            True,
        ),
        (
            {"name": "a", "arguments": {"p*": "x"}},
            call({"name": "a", "arguments": {"p": "x", "p2": ["y", {"evil": 1}]}}),
            False,
        ),
        (
            {"name": "a", "arguments": [{"x": 1}, {"y": 1}]},
            call({"name": "a", "arguments": {"x": 1, "y": 1}}),
            False,
        ),
        (
            {"name": "a", "arguments": {"*": {"k": [{"x": 1}, {"y": 1}]}}},
            call({"name": "a", "arguments": {"b": {"k": {"x": 1}}, "c": {"k": {"y": 2}}}}),
            True,
        ),
        (
            {"name": "a", "arguments": {"*": {"k": [{"x": 1}, {"y": 1}]}}},
            call({"name": "a", "arguments": {"b": {"k": {"x": 1}}, "c": {"k": {"x": 1, "y": 1}}}}),
            False,
        ),
        (["a", WRITE], call({"name": "write", "arguments": {"path": "src/a"}}), True),
    ],
)
def test_the_table_of_what_a_closed_capability_permits(params: Any, payload: Any, expected: bool) -> None:
    capability = closed(params)
    assert slow_permit(capability, "mcp/request", [], payload) is expected
    assert permit([capability], "mcp/request", payload=payload).allowed is expected


@pytest.mark.threat(21)
@pytest.mark.parametrize(
    ("capability", "key", "words"),
    [
        ({"kind": "chat", "payload": {"params": {}}, "x-closed": True}, "x-closed", "mcp/request or"),
        ({"kind": "mcp/*", "payload": {"params": {}}, "x-closed": True}, "x-closed", "mcp/request or"),
        ({"kind": ["mcp/request", "chat"], "payload": {"params": {}}, "x-closed": True}, "x-closed", "chat"),
        ({"kind": "mcp/request", "x-closed": True}, "x-closed", "names params"),
        ({"kind": "mcp/request", "payload": {}, "x-closed": True}, "x-closed", "names params"),
        ({"kind": "mcp/request", "payload": {"p*": {}}, "x-closed": True}, "x-closed", "names params"),
        ({**closed(WRITE), "x-closed": "true"}, "x-closed", "true or false"),
        ({**closed(WRITE), "x-closed": 1}, "x-closed", "true or false"),
        ({**closed(WRITE), "x-closed": None}, "x-closed", "true or false"),
        (closed({"**": "a"}), "payload.params.**", "at any depth"),
        (closed({"name": "a", "arguments": {"$.a": "a"}}), "payload.params.arguments.$.a", "at any depth"),
        (closed({}, **{"$..x": "a"}), "payload.$..x", "at any depth"),
        ({"kind": "chat", "x-close": True}, "x-close", "did you mean 'x-closed'"),
        ({"kind": "chat", "x-clsoed": True}, "x-clsoed", "did you mean 'x-closed'"),
        ({"kind": "chat", "x-CLOSED": True}, "x-CLOSED", "did you mean 'x-closed'"),
        ({"kind": "chat", "x-closedly": 1}, "x-closedly", "did you mean 'x-closed'"),
    ],
)
def test_where_nothing_can_be_closed_it_is_a_fault_with_its_place(
    capability: dict[str, Any], key: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as fault:
        Capability.of(capability)
    assert fault.value.key == key
    Capability.of(capability, edition=3)  # where it was a remark


@pytest.mark.parametrize("name", ["x-open", "x-cost", "x-note", "x-closed-by", "x-"])
def test_other_remarks_are_kept_and_mean_nothing(name: str) -> None:
    assert permit([{"kind": "chat", name: True}], "chat").allowed


def test_false_is_open_and_earlier_editions_ignore_it() -> None:
    more = call({"name": "write", "arguments": {"path": "src/../a", "force": True}})
    assert not permit([closed(WRITE)], "mcp/request", payload=more).allowed
    assert permit([closed(WRITE)], "mcp/request", payload=more, edition=3).allowed
    safe = call({"name": "write", "arguments": {"path": "src/a", "force": True}})
    assert permit([{**closed(WRITE), "x-closed": False}], "mcp/request", payload=safe).allowed
    assert [edition_of(names) for names in ((), ("paths",), ("closed",), ("paths", "closed", "x"))] == [
        0,
        0,
        0,
        4,
    ]


def test_what_an_earlier_edition_took_keeps_its_meaning() -> None:
    kept = Capability.kept({"kind": "chat", "x-closed": "yes"}, edition=4)
    assert kept.permits("chat") and not kept.closed
    assert Capability.kept(closed(WRITE), edition=4).closed


# What is covered


@pytest.mark.threat(20)
@pytest.mark.parametrize(
    ("wider", "narrower", "answer"),
    [
        (closed(WRITE), closed(WRITE), "yes"),
        ({**closed(WRITE), "x-closed": False}, closed(WRITE), "yes"),
        (closed(WRITE), {**closed(WRITE), "x-closed": False}, "no"),
        (closed(WRITE), closed({"name": "write", "arguments": {"path": "src/a/*"}}), "yes"),
        (closed(WRITE), closed({"name": "write", "arguments": {"path": "src/a", "force": True}}), "no"),
        (closed({"name": "write", "arguments": {"path": "*", "f*": True}}), closed(WRITE), "no"),
        (closed(WRITE), closed(WRITE, jsonrpc="2.0"), "yes"),
        (closed(WRITE, jsonrpc="2.0"), closed(WRITE), "no"),
        (closed(WRITE), closed({**WRITE, "_meta": {"progressToken": "a"}}), "yes"),
        (closed(WRITE), closed({**WRITE, "_meta": {"other": "a"}}), "no"),
        (closed(WRITE), closed({**WRITE, "_meta": {"progressToken": ["a", 7]}}), "yes"),
        (closed(WRITE), closed({**WRITE, "_meta": {"progressToken": [7, True]}}), "unknown"),
        (closed(WRITE), closed({**WRITE, "_meta": {"progressToken": "a" * 65}}), "no"),
        (closed({"name": "a"}), closed({"name": "a", "arguments": {}}), "yes"),
        (closed({"name": "a"}), closed({"name": "a", "arguments": {"x": 1}}), "no"),
        (closed({"name": "a", "arguments": {}}), closed({"name": "a"}), "no"),
        (closed({"name": ["a", "b"]}), closed({"name": "a"}), "yes"),
        ({"kind": "mcp/*"}, closed(WRITE), "yes"),
        (closed(WRITE), {"kind": "mcp/request"}, "no"),
        (closed(WRITE), {"kind": "mcp/request", "payload": {"method": [], "params": {}}}, "yes"),
        (
            closed({"name": "a", "arguments": {"*": "x"}}),
            closed({"name": "a", "arguments": {"*": "x", "k": "y"}}),
            "yes",
        ),
        (
            closed({"name": "a", "arguments": {"*": "x"}}),
            closed({"name": "a", "arguments": {"*": "x", "k": {"l": "y"}}}),
            "no",
        ),
        (
            closed({"name": "a", "arguments": {"*": {"l": 1}}}),
            closed({"name": "a", "arguments": {"*": {"l": 1}, "k": ["y", 2, {"l": 3}]}}),
            "unknown",
        ),
        (
            closed({"name": "a", "arguments": {"*": "x"}}),
            closed({"name": "a", "arguments": {"*": "x", "k": ["y", 2]}}),
            "yes",
        ),
    ],
)
def test_the_table_of_what_a_closed_capability_covers(wider: Any, narrower: Any, answer: str) -> None:
    told = covers(wider, narrower)
    assert told.answer == answer
    assert bool(told.reason) is (answer != "yes")
    if told.witness is not None:
        assert slow_permit(narrower, **told.witness) and not slow_permit(wider, **told.witness)


def test_a_progress_token_that_may_be_longer_than_one_is_not_known_to_be_covered() -> None:
    told = covers(closed(WRITE), closed({**WRITE, "_meta": {"progressToken": "*"}}))
    assert told.answer == "unknown"
    assert told.reason.startswith("payload.params._meta.progressToken: ") and told.reason.endswith(
        'cover "*"'
    )


def test_the_witness_of_an_open_one_has_one_argument_more() -> None:
    told = covers(closed(WRITE), {**closed(WRITE), "x-closed": False})
    assert told.witness is not None
    assert told.witness["payload"]["params"]["arguments"] == {"path": "src/", "more1": True}
    assert "closed capability" in told.reason


def test_the_refusal_names_what_is_too_much() -> None:
    refused = permit(
        [closed(WRITE)],
        "mcp/request",
        payload=call({"name": "write", "arguments": {"path": "src/a", "force": 1}}),
    )
    assert refused.nearest == (
        '{"kind":"mcp/request",…} wants nothing else in payload.params.arguments, got "force"'
    )
    refused = permit(
        [closed(WRITE)], "mcp/request", payload=call({"name": "write", "arguments": {"path": "src/../a"}})
    )
    assert "no wildcard matches a part '.' or '..'" in refused.nearest


def test_a_revoke_reads_both_as_before() -> None:
    """R33: a revoke never removes less than before; an `x-closed` was a remark then."""
    opened = {**closed(WRITE), "x-closed": False}
    assert not disjoint(closed(WRITE), opened)
    loose = Capability.of(closed(WRITE)).loose
    assert not loose.closed and possesses([loose], Capability.of(opened).loose)
    parent = closed({"name": "write", "arguments": {"path": "src/../*"}})
    assert not covers(closed(WRITE), parent)
    assert possesses([loose], Capability.of(parent).loose)
    assert not disjoint(Capability.of(closed(WRITE)), Capability.of(parent))


# Against the slow matcher, over drawn patterns and messages

TEXTS = st.sampled_from(["", "a", "b", "ab", "a/b", "a/../b", "a//b", ".", "a\nb", "a\\b"])
SCALARS = TEXTS | st.sampled_from([0, 1, 1.0, True, None])
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.dictionaries(st.sampled_from(["a", "b", "ab"]), inner, max_size=3) | st.lists(inner, max_size=2)
    ),
    max_leaves=6,
)
STRINGS = st.sampled_from(["a", "*", "a*", "a/**", "**/b", "!a/**", "!a", "?", "a?b", "a/../*", ".*"])
PATTERNS = st.recursive(
    STRINGS | st.sampled_from([1, True, None]),
    lambda inner: (
        st.dictionaries(st.sampled_from(["a", "b", "*", "a*", "?"]), inner, max_size=2)
        | st.lists(inner, max_size=2)
    ),
    max_leaves=5,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "*", "a*"]), PATTERNS, max_size=2)
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "name": STRINGS,
        "arguments": OBJECTS | st.lists(OBJECTS, max_size=2),
        "_meta": OBJECTS,
        "*": PATTERNS,
    },
)
CLOSED = st.builds(
    lambda params, method, flag: {
        "kind": "mcp/request",
        "payload": {**method, "params": params},
        "x-closed": flag,
    },
    PARAMS | st.lists(PARAMS, max_size=2),
    st.sampled_from([{}, {"method": "m"}, {"jsonrpc": "2.0"}, {"m*": {"a": "a"}}]),
    st.sampled_from([True, True, False]),
)
ARGUMENTS = st.dictionaries(st.sampled_from(["a", "b", "ab", "force"]), VALUES, max_size=3)
MESSAGES = st.builds(
    lambda params, rest: {**rest, "params": params},
    st.fixed_dictionaries(
        {},
        optional={
            "name": TEXTS,
            "arguments": ARGUMENTS,
            "_meta": st.dictionaries(st.sampled_from(["progressToken", "a"]), SCALARS, max_size=2),
            "c": SCALARS,
        },
    ),
    st.dictionaries(
        st.sampled_from(["method", "jsonrpc", "id", "more"]), st.sampled_from(["m", "2.0", 1]), max_size=2
    ),
)


@pytest.mark.threat(6, 21)
@settings(max_examples=examples(1500), deadline=None)
@given(capability=CLOSED, payload=MESSAGES)
@example(capability=closed({"*": [{"a": 1}, {"b": 2}]}), payload=call({"a": {"a": 1}, "b": {"b": 5}}))
def test_fast_and_slow_agree_on_closed_capabilities(capability: Any, payload: Any) -> None:
    fast = permit([capability], "mcp/request", payload=payload).allowed
    assert fast is slow_permit(capability, "mcp/request", [], payload)
    assert not fast or permit([capability], "mcp/request", payload=payload, edition=3).allowed


def fill(pattern: Any, draw: Any) -> Any:
    """A value that probably matches a pattern."""
    if isinstance(pattern, list):
        return fill(draw(st.sampled_from(pattern)), draw) if pattern else None
    if isinstance(pattern, dict):
        return {
            (draw(st.sampled_from(["a", "b", "ab"])) if "*" in name or "?" in name else name): fill(
                part, draw
            )
            for name, part in pattern.items()
        } | draw(st.sampled_from([{}, {}, {"a": 1}, {"b": "a"}, {"force": True}]))
    if isinstance(pattern, str):
        text = pattern.removeprefix("!" if pattern.startswith("!") else "")
        return "".join(
            draw(st.sampled_from(["", "a", "b", "..", "a/b"])) if one in "*?" else one for one in text
        )
    return pattern


@pytest.mark.threat(20, 21)
@pytest.mark.timeout(240)
@settings(max_examples=examples(1500), deadline=None)
@given(data=st.data(), wider=CLOSED, narrower=CLOSED)
def test_what_is_covered_is_included_and_each_witness_is_one(data: Any, wider: Any, narrower: Any) -> None:
    if data.draw(st.booleans()):  # else most do not cover each other
        wider = {**narrower, "x-closed": wider["x-closed"]}
    told = covers(wider, narrower)
    if told.witness is not None:
        assert slow_permit(narrower, **told.witness) and not slow_permit(wider, **told.witness)
    if told.answer == "yes":
        held, wanted = CapabilitySet([wider]), CapabilitySet([narrower])
        for _ in range(5):
            payload = fill(narrower["payload"], data.draw)
            assert not wanted.permit("mcp/request", (), payload) or held.permit("mcp/request", (), payload)


@pytest.mark.threat(7)
@settings(max_examples=examples(500), deadline=None)
@given(capability=CLOSED, payload=MESSAGES)
@example(capability=closed({}, **{"m*": {"**": "a"}}), payload=call({}, m={"a": ["a"] * 20}))
def test_no_message_costs_more_than_was_told_of_it(capability: Any, payload: Any) -> None:

    compiled = Capability.of(capability).payload
    meter = Budget(10**9)
    assert compiled is not None
    compiled.holds(payload, meter)
    assert 10**9 - meter.left <= steps(compiled, len(json.dumps(payload, separators=(",", ":"))))
