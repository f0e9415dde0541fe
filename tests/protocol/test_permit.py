"""Capabilities and sets of them."""

from __future__ import annotations

import json
import runpy
import timeit
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.errors import ConfigError
from mew_lab.protocol.node import Budget
from mew_lab.protocol.permit import (
    Capability,
    CapabilitySet,
    Verdict,
    permit,
    permits_some,
    read_capabilities,
)

from ..conftest import examples

SAMPLES: Any = runpy.run_path(str(Path(__file__).with_name("samples.py")))
slow_permit = runpy.run_path(str(Path(__file__).with_name("slow_matcher.py")))["slow_permit"]

CALL = {"method": "tools/call", "params": {"name": "read_file", "arguments": {"path": "/home/a"}}}
READ = {"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "read_*"}}}


def allowed(capability: dict[str, Any], kind: str, to: list[str] | None = None, payload: Any = None) -> bool:
    """The one answer, asked in all three ways."""
    answers = {
        permit([capability], kind, to=to or [], payload=payload).allowed,
        CapabilitySet([capability]).permit(kind, to or [], payload).allowed,
        Capability.of(capability).permits(kind, to or [], payload),
    }
    assert len(answers) == 1
    return answers.pop()


@pytest.mark.req("P-4.1-4", "P-4.1-5", "P-4.1-10", "P-4.1-11", "P-4.2-3", "P-4.2-8", "P-4.2-9")
@pytest.mark.parametrize(
    ("capabilities", "kind", "payload", "expected"),
    [
        ([{"kind": "mcp/*"}, {"kind": "chat"}], "mcp/request", CALL, True),
        ([{"kind": "mcp/*"}, {"kind": "chat"}], "mcp/proposal", CALL, True),
        ([{"kind": "mcp/*"}, {"kind": "chat"}], "chat", {"text": "a"}, True),
        ([{"kind": "mcp/*"}, {"kind": "chat"}], "chat/acknowledge", {}, False),
        ([{"kind": "mcp/*"}, {"kind": "chat"}], "capability/grant", {}, False),
        ([{"kind": "mcp/proposal"}, {"kind": "mcp/response"}, {"kind": "chat"}], "mcp/request", CALL, False),
        ([{"kind": "mcp/proposal"}, {"kind": "mcp/response"}, {"kind": "chat"}], "mcp/proposal", CALL, True),
        ([{"kind": "mcp/request"}], "mcp/request", CALL, True),
        ([{"kind": "mcp/request", "payload": {"method": "tools/*"}}], "mcp/request", CALL, True),
        ([{"kind": "*"}], "chat", {}, True),
        ([{"kind": "*"}], "a/b/c", {}, True),
        ([{"kind": "chat"}], "chat", {}, True),
        ([], "chat", {}, False),
    ],
)
def test_the_examples_of_the_specification(
    capabilities: list[dict[str, Any]], kind: str, payload: dict[str, Any], expected: bool
) -> None:
    assert permit(capabilities, kind, payload=payload).allowed is expected


@pytest.mark.req("P-4.1-6", "P-4.1-12")
def test_a_pattern_of_tool_names_permits_only_these() -> None:
    assert allowed(READ, "mcp/request", payload=CALL)
    assert not allowed(
        READ, "mcp/request", payload={"method": "tools/call", "params": {"name": "write_file"}}
    )
    assert not allowed(READ, "mcp/request", payload={"method": "tools/list"})
    assert not allowed(READ, "mcp/proposal", payload=CALL)
    assert not allowed(READ, "mcp/request")


@pytest.mark.req("P-9.3-1")
def test_read_only_listing_permits_listing_and_nothing_else() -> None:
    capability = {"kind": "mcp/request", "payload": {"method": "*/list"}}
    assert allowed(capability, "mcp/request", payload={"method": "tools/list"})
    assert allowed(capability, "mcp/request", payload={"method": "resources/list"})
    for method in ("tools/call", "list", "tools/list/all", "a/tools/list", "", None, ["tools/list"]):
        assert not allowed(capability, "mcp/request", payload={"method": method})
    assert not allowed(capability, "mcp/request", payload={})


@pytest.mark.req("S-L2-7", "S-L2-9", "P-4.1-3")
def test_a_negated_method_is_not_permitted() -> None:
    capability = {"kind": "mcp/request", "payload": {"method": "!tools/call"}}
    assert not allowed(capability, "mcp/request", payload={"method": "tools/call"})
    assert allowed(capability, "mcp/request", payload={"method": "tools/list"})
    assert not allowed(capability, "mcp/request", payload={})


@pytest.mark.parametrize(
    ("pattern", "to", "expected"),
    [
        ("git", ["git"], True),
        ("git", ["git", "git"], True),
        ("git", ["git", "other"], False),
        ("git", ["other"], False),
        ("git", [], False),
        ("*", [], False),
        ("*", ["a", "b"], True),
        (["git", "fs-*"], ["git", "fs-1"], True),
        (["git", "fs-*"], ["git", "x"], False),
        ("!git", ["fs"], True),
        ("!git", ["fs", "git"], False),
        ("!git", [], False),
        ("/fs-[0-9]+/", ["fs-1", "fs-22"], True),
    ],
)
@pytest.mark.threat(21)
def test_every_addressee_has_to_match(pattern: Any, to: list[str], expected: bool) -> None:
    assert allowed({"kind": "chat", "to": pattern}, "chat", to) is expected
    assert allowed({"kind": "chat", "to": pattern, "payload": {}}, "chat", to) is expected


def test_addressees_are_not_looked_at_where_no_capability_asks() -> None:
    assert allowed({"kind": "chat"}, "chat", ["anybody"])


def test_an_absent_payload_counts_as_an_empty_object() -> None:
    assert allowed({"kind": "chat", "payload": {}}, "chat", payload=None)
    assert not allowed({"kind": "chat", "payload": {"text": "*"}}, "chat", payload=None)
    assert allowed(READ, "mcp/request", payload=MappingProxyType(CALL))


def test_the_first_capability_that_permits_is_named() -> None:
    capabilities = [
        {"kind": "chat", "to": "x"},
        {"kind": "c*"},
        {"kind": "chat", "id": "third"},
        {"kind": "*"},
    ]
    chosen = CapabilitySet(capabilities)
    assert chosen.permit("chat") == Verdict(True, 1, {"kind": "c*"})
    assert chosen.permit("chat", ["x"]) == Verdict(True, 0, {"kind": "chat", "to": "x"})
    assert chosen.permit("stream/open") == Verdict(True, 3, {"kind": "*"})
    assert CapabilitySet(capabilities[2:]).permit("chat").pattern == {"kind": "chat", "id": "third"}


def test_a_list_of_kinds_is_any_of_them() -> None:
    capability = {"kind": ["chat", "mcp/*"]}
    assert (
        allowed(capability, "chat")
        and allowed(capability, "mcp/a/b")
        and not allowed(capability, "chat/cancel")
    )
    assert allowed({"kind": ["chat", "chat/cancel"]}, "chat/cancel")


@pytest.mark.threat(21)
@pytest.mark.parametrize(
    ("capability", "key", "words"),
    [
        ({"kind": "chat", "paylod": {"a": "b"}}, "paylod", "did you mean 'payload'"),
        ({"kind": "chat", "zzz": 1}, "zzz", "a capability has kind, payload, to"),
        ({"kind": "chat", "x": 1}, "x", "no key 'x'"),
        ({"kind": "chat", 1: 2}, "1", "no key '1'"),
        ({}, "kind", "needs a kind"),
        ({"payload": {}}, "kind", "needs a kind"),
        ({"kind": ""}, "kind", "string"),
        ({"kind": []}, "kind", "string"),
        ({"kind": ["chat", ""]}, "kind[1]", "string"),
        ({"kind": None}, "kind", "string"),
        ({"kind": 1}, "kind", "string"),
        ({"kind": "/(/"}, "kind", "google-re2"),
        ({"kind": "chat", "to": ""}, "to", "string"),
        ({"kind": "chat", "to": None}, "to", "string"),
        ({"kind": "chat", "to": [1]}, "to[0]", "string"),
        ({"kind": "chat", "payload": None}, "payload", "an object of patterns"),
        ({"kind": "chat", "payload": "*"}, "payload", "an object of patterns"),
        ({"kind": "chat", "payload": []}, "payload", "an object of patterns"),
        ({"kind": "chat", "payload": {"a": {"b": ["x", "!"]}}}, "payload.a.b[1]", "negates nothing"),
        ("chat", "", "not a str"),
    ],
)
def test_what_is_no_capability_is_refused_with_its_key_path(capability: Any, key: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as fault:
        Capability.of(capability)
    assert fault.value.key == key


def test_a_set_names_the_place_of_the_fault() -> None:
    with pytest.raises(ConfigError) as fault:
        CapabilitySet(
            [{"kind": "chat"}, {"kind": "chat", "payload": {"a": "!"}}], key="participants.bot.capabilities"
        )
    assert fault.value.key == "participants.bot.capabilities[1].payload.a"
    with pytest.raises(ConfigError) as fault:
        permit([{}], "chat")
    assert fault.value.key == "[0].kind"


def test_remarks_are_kept_and_mean_nothing() -> None:
    capability = {"kind": "chat", "id": "c-1", "description": {"any": ["thing"]}, "x-origin": "grant"}
    assert Capability.of(capability).pattern == capability
    assert allowed(capability, "chat")


def test_what_was_compiled_does_not_follow_later_changes() -> None:
    given = {"kind": "chat", "payload": {"text": "a"}}
    compiled = CapabilitySet([given])
    given["payload"]["text"] = "b"  # type: ignore[index]
    assert compiled.patterns == ({"kind": "chat", "payload": {"text": "a"}},)
    assert compiled.permit("chat", (), {"text": "a"}).allowed
    assert repr(compiled) == "CapabilitySet([{'kind': 'chat', 'payload': {'text': 'a'}}])"


@pytest.mark.threat(21)
@settings(max_examples=examples(1000), deadline=None)
@given(
    capabilities=st.lists(
        st.fixed_dictionaries(
            {"kind": st.sampled_from(["a", "a/*", "*", "!a", ["a", "b"], "a/**", "?", ["b", "a*"], "/a|b/"])},
            optional={
                "to": st.sampled_from(["x", "*", "!x", ["x", "y"], "?"]),
                "payload": st.dictionaries(
                    st.sampled_from(["m", "*", "**"]), st.sampled_from(["p", "!p", 1, "*"]), max_size=2
                ),
            },
        ),
        max_size=4,
    ),
    kind=st.sampled_from(["a", "b", "a/b", "a/b/c", "c/", ""]),
    to=st.lists(st.sampled_from(["x", "y", "zz"]), max_size=3),
    payload=st.dictionaries(
        st.sampled_from(["m", "n"]), st.sampled_from(["p", "q", 1, True, None, ["p"]]), max_size=2
    ),
)
def test_fast_and_slow_agree_on_the_first_that_permits(
    capabilities: list[dict[str, Any]], kind: str, to: list[str], payload: dict[str, Any]
) -> None:
    expected = next((at for at, one in enumerate(capabilities) if slow_permit(one, kind, to, payload)), None)
    verdict = CapabilitySet(capabilities).permit(kind, to, payload)
    assert (verdict.allowed, verdict.index) == (expected is not None, expected)
    assert bool(verdict.nearest) is (expected is None)
    assert verdict.pattern == (None if expected is None else capabilities[expected])


def agree(count: int) -> None:
    """Random capabilities and messages, half of them made for the capability, asked of both."""
    r = SAMPLES["seeded"]()
    permitted = 0
    for _ in range(count):
        capability = SAMPLES["capability"](r)
        kind, to, payload = SAMPLES["message_for"](r, capability)
        if r.random() < 0.5:
            other = SAMPLES["message_for"](r, SAMPLES["capability"](r))
            kind, to, payload = (
                ours if r.random() < 0.6 else theirs
                for ours, theirs in zip((kind, to, payload), other, strict=True)
            )
        expected = slow_permit(capability, kind, to, payload)
        permitted += expected
        assert Capability.of(capability).permits(kind, to, payload) is expected, (
            capability,
            kind,
            to,
            payload,
        )
    assert count // 4 < permitted < 3 * count // 4 + 1_000


@pytest.mark.req("P-4.1-3", "P-4.2-1", "P-4.2-2", "S-L2-8")
@pytest.mark.threat(21)
def test_fast_and_slow_agree_on_ten_thousand_random_messages() -> None:
    agree(10_000)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.threat(21)
def test_fast_and_slow_agree_on_a_million_random_messages() -> None:
    agree(1_000_000)


# The nearest miss


@pytest.mark.parametrize(
    ("capabilities", "kind", "to", "payload", "sentence"),
    [
        ([], "chat", [], {}, "no capability is held"),
        (
            [{"kind": "chat"}, {"kind": ["a", "b", "c", "d"]}, {"kind": "mcp/*"}],
            "stream/request",
            [],
            {},
            'no capability for kind "stream/request"; held are "chat", ["a","b","c",…], "mcp/*"',
        ),
        (
            [{"kind": f"k{at}"} for at in range(7)],
            "chat",
            [],
            {},
            'no capability for kind "chat"; held are "k0", "k1", "k2", "k3", "k4", "k5", …',
        ),
        (
            [READ],
            "mcp/request",
            [],
            {"method": "tools/call", "params": {"name": "git_log"}},
            '{"kind":"mcp/request",…} wants payload.params.name "read_*", got "git_log"',
        ),
        (
            [{"kind": "mcp/request", "payload": {"method": "x"}}, READ, {"kind": "mcp/*", "to": "fs"}],
            "mcp/request",
            ["git"],
            {"method": "tools/call", "params": {"name": "git_log"}},
            '{"kind":"mcp/request",…} wants payload.params.name "read_*", got "git_log"',
        ),
        ([{"kind": "chat", "to": "fs"}], "chat", ["git"], {}, '{"kind":"chat",…} wants to "fs", got "git"'),
        (
            [{"kind": "chat", "to": ["a", "b"]}],
            "chat",
            ["a", "c"],
            {},
            '{"kind":"chat",…} wants to ["a","b"], got "c"',
        ),
        ([{"kind": "chat", "to": "fs"}], "chat", [], {}, '{"kind":"chat",…} wants to "fs", got a broadcast'),
        (
            [{"kind": "chat", "to": "fs", "payload": {"text": "a"}}],
            "chat",
            ["fs"],
            {"text": "b"},
            '{"kind":"chat",…} wants payload.text "a", got "b"',
        ),
        (
            [{"kind": "chat", "to": "*"}],
            "chat",
            ["a"] * 50_001,
            {},
            "it costs more to judge this message than one message may",
        ),
    ],
    ids=range(10),
)
def test_a_refusal_names_the_nearest_miss(
    capabilities: list[dict[str, Any]], kind: str, to: list[str], payload: dict[str, Any], sentence: str
) -> None:
    verdict = permit(capabilities, kind, to=to, payload=payload)
    assert (verdict.allowed, verdict.index, verdict.pattern) == (False, None, None)
    assert verdict.nearest == sentence


@pytest.mark.threat(17)
def test_a_refusal_repeats_little_and_nothing_invisible() -> None:
    payload = {"method": "\x1b[2J\u202e\u200b\ud800" + "x" * 10_000, "params": {}}
    told = permit([READ], "mcp/request", payload=payload).nearest
    assert told.isprintable() and len(told) < 300
    assert told.count("x" * 73) == 1 and "x" * 74 not in told  # 80 characters, 7 of them before the x
    assert permit([READ], "\x07" + "k" * 10_000).nearest.startswith('no capability for kind "\\u0007kkk')


@pytest.mark.threat(7)
def test_a_costly_capability_permits_nothing_and_its_refusal_is_bounded() -> None:
    capability = {"kind": "chat", "payload": {"$..*..*..*": "x"}}
    payload = {"a": [[[str(at)] * 20] * 20 for at in range(100)] + ["x"]}
    assert not allowed(capability, "chat", payload=payload)
    told = CapabilitySet([capability] * 200).permit("chat", (), payload).nearest
    assert told == "it costs more to judge this message than one message may"


@pytest.mark.threat(6)
def test_a_kind_as_long_as_a_book_is_permitted_by_no_glob() -> None:
    chosen = CapabilitySet([{"kind": f"a*{at}*"} for at in range(100)])
    assert not chosen.permit("a" * 1_000_000).allowed
    assert chosen.permit("a1").index == 1


def test_by_the_rules_of_earlier_journals_what_costs_too_much_does_not_match_and_the_rest_is_asked() -> None:
    globs = [{"kind": f"k{at}/*"} for at in range(10_001)]  # one step each, of 10 000
    held = CapabilitySet([*globs, {"kind": "k10/named"}])
    assert held.permit_each("k10/other", (), {}) == Verdict(
        False,
        nearest='no capability for kind "k10/other"; held are "k0/*", "k1/*", "k2/*", "k3/*", "k4/*", "k5/*", …',
    )
    assert held.permit_each("k10/named", (), {}).index == 10_001
    addressed = CapabilitySet([{"kind": "chat", "to": "a"}])
    assert addressed.permit_each("chat", ("a",) * 10_000, {}).allowed
    told = addressed.permit_each("chat", ("a",) * 10_001, {})
    assert not told.allowed and "wants fewer addressees" in told.nearest
    with_text = CapabilitySet([{"kind": "chat", "to": "a", "payload": {"text": "x"}}])
    told = with_text.permit_each("chat", ("a",) * 10_001, {"text": "x"})
    assert not told.allowed and told.nearest == '{"kind":"chat",…} wants payload as it is'


def test_the_cost_of_a_check_is_printed() -> None:
    # 20 patterns, the mark is 5 µs a check; nothing is asserted about time.
    chosen = CapabilitySet(
        [{"kind": f"space/k{at}"} for at in range(8)]
        + [
            {"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": name}}}
            for name in ("a", "b", "read_*", "git_*")
        ]
        + [{"kind": f"{family}/*"} for family in ("stream", "reasoning", "participant", "capability")]
        + [
            {"kind": "chat", "to": "x"},
            {"kind": ["chat", "chat/cancel"]},
            {"kind": "mcp/response"},
            {"kind": "mcp/proposal"},
        ]
    )
    assert len(chosen.patterns) == 20
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "git_log", "arguments": {}}}
    for kind, payload in (("mcp/request", body), ("chat", {"text": "a"}), ("participant/status", {})):
        assert chosen.permit(kind, (), payload).allowed
        best = min(timeit.repeat(lambda: chosen.permit(kind, (), payload), number=500, repeat=5)) / 500  # noqa: B023
        print(f"permit {kind}: {best * 1e6:.2f} µs")


def test_verdicts_can_be_written_as_json() -> None:
    verdict = permit([READ], "mcp/request", payload=CALL)
    assert json.loads(json.dumps(verdict.pattern)) == READ


def test_of_patterns_that_cannot_be_read_the_others_hold_and_these_permit_nothing() -> None:
    capabilities, faults = read_capabilities(
        [{"kind": "chat"}, {"kind": 7}, {"kind": "mcp/request", "to": 3}]
    )
    assert [type(fault) for fault in faults] == [ConfigError, ConfigError]
    assert capabilities.permit("chat", (), {}).allowed
    assert not capabilities.permit("mcp/request", ("git",), {"method": "tools/list"}).allowed


def test_a_kind_is_permitted_to_some_addressees_where_one_message_of_it_is_whatever_it_holds() -> None:
    held = CapabilitySet(
        [
            {"kind": "chat", "to": ["a", "b*"]},
            {"kind": "mcp/request", "payload": {"method": "x"}},
            {"kind": "*c*a*t*" * 50},
        ]
    )
    for kind, to, expected in (
        *(("chat", ("a", "bob"), True), ("chat", ("a", "eve"), False), ("chat", (), False)),
        *(("mcp/request", ("eve",), True), ("mcp/request", (), True), ("mcp/reject", ("a",), False)),
    ):
        assert held.reaches(kind, to) is expected
    assert not held.reaches("chat", ("a",), meter=Budget(1))  # it ends before there is an answer


@pytest.mark.parametrize(
    ("patterns", "kind", "expected"),
    [
        ([{"kind": "chat"}, {"kind": "mcp/*", "to": "a", "payload": {"x": 1}}], "mcp/reject", True),
        ([{"kind": "chat"}, {"kind": 7}], "mcp/reject", False),
        ([{"kind": 7}, {"kind": "chat", "x-closed": True}], "chat", True),  # as earlier gateways read it
        ([], "chat", False),
    ],
)
def test_whether_some_message_of_a_kind_is_permitted_is_asked_by_whatever_rules(
    patterns: list[Any], kind: str, expected: bool
) -> None:
    assert permits_some(patterns, kind) is expected
