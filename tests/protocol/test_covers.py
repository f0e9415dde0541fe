"""Coverage: a table read from the rulings, random pairs against messages, and patterns made to hurt."""

from __future__ import annotations

import json
import runpy
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import mew_lab
from mew_lab.errors import ConfigError
from mew_lab.protocol.covers import Coverage, covered, covers, disjoint, possesses
from mew_lab.protocol.node import Budget, OverBudget
from mew_lab.protocol.permit import Capability, CapabilitySet
from mew_lab.protocol.profiles import PROFILES, STARTER

from ..conftest import examples

HERE = Path(__file__)
TABLE: Any = runpy.run_path(str(HERE.with_name("covers_table.py")))
SAMPLES: Any = runpy.run_path(str(HERE.with_name("samples.py")))
slow_permit: Any = runpy.run_path(str(HERE.with_name("slow_matcher.py")))["slow_permit"]

K = "mcp/request"


def at(place: str, pattern: Any) -> dict[str, Any]:
    """The capability with this pattern at one place."""
    if place == "to":
        return {"kind": K} | ({} if pattern is None else {"to": pattern})
    return {"kind": pattern} if place == "kind" else {"kind": K, "payload": {"x": pattern}}


PAIRS: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    *((at("kind", a), at("kind", b), answer, why) for a, b, answer, why in TABLE["KINDS"]),
    *((at("payload", a), at("payload", b), answer, why) for a, b, answer, why in TABLE["VALUES"]),
    *((at("to", a), at("to", b), answer, why) for a, b, answer, why in TABLE["ADDRESSEES"]),
    *TABLE["WHOLE"],
]


@pytest.mark.req("P-3.6.8-2")
@pytest.mark.threat(20)
@pytest.mark.parametrize(("a", "b", "answer", "why"), PAIRS, ids=range(len(PAIRS)))
def test_the_table_of_the_rulings(a: dict[str, Any], b: dict[str, Any], answer: str, why: str) -> None:
    told = covers(a, b)
    assert told.answer == answer, why
    assert (told.witness is not None) is (answer == "no")
    assert bool(told.reason) is (answer != "yes")
    if told.witness is not None:
        assert slow_permit(b, **told.witness) and not slow_permit(a, **told.witness)
    assert covers(Capability.of(a), Capability.of(b)) == told


def test_the_table_is_as_long_as_promised() -> None:
    assert len(PAIRS) >= 150
    assert {answer for _, _, answer, _ in PAIRS} == {"yes", "no", "unknown"}


@pytest.mark.threat(20)
def test_what_is_covered_is_not_apart_from_it_unless_nothing_is_permitted() -> None:
    wrong = [
        (a, b)
        for a, b, answer, _ in PAIRS
        if answer == "yes" and disjoint(a, b) and not disjoint(b, {"kind": "*"})
    ]
    assert wrong == []


def test_everything_covers_itself() -> None:
    patterns = [one for pair in PAIRS for one in pair[:2]]
    assert [one for one in patterns if not covers(one, one)] == []


@pytest.mark.drawn
@pytest.mark.threat(20)
@pytest.mark.timeout(300)
def test_pairs_judged_covered_hold_for_two_hundred_messages_each() -> None:
    r = SAMPLES["seeded"]()
    enough = SAMPLES["times"](examples(10_000))
    judged = checked = 0
    while judged < enough:
        narrow = SAMPLES["capability"](r)
        narrower = Capability.of(narrow)
        messages = [SAMPLES["message_for"](r, narrow) for _ in range(260)]
        messages = [one for one in messages if narrower.permits(*one)][:200]
        if len(messages) < 200:
            continue
        for _ in range(30):
            wide = SAMPLES["wider_capability"](r, narrow)
            wider = Capability.of(wide)
            if covers(wider, narrower):
                judged += 1
                checked += len(messages)
                lost = [one for one in messages if not wider.permits(*one)]
                assert lost == [], f"{wide} is said to cover {narrow}"
    assert checked >= 200 * enough


@pytest.mark.threat(20)
def test_random_witnesses_are_witnesses_and_what_can_be_decided_is() -> None:
    r = SAMPLES["seeded"]()
    answers = {"yes": 0, "no": 0, "unknown": 0}
    turns = SAMPLES["times"](5_000)
    for turn in range(turns):
        b = SAMPLES["capability"](r, decided=True)
        kind = {"kind": SAMPLES["some_words"](r, decided=True)}
        a = SAMPLES["capability"](r, decided=True) if turn % 3 else b | kind
        told = covers(a, b)
        answers[told.answer] += 1
        if told.witness is not None:
            assert slow_permit(b, **told.witness) and not slow_permit(a, **told.witness)
    # Lists of objects can cover together what none of them covers; that is not looked for.
    assert answers["yes"] > turns // 20 and answers["no"] > turns // 20, answers
    assert answers["unknown"] <= max(2, turns // 500), answers


@pytest.mark.threat(20)
def test_random_pairs_proved_to_be_apart_have_no_message_in_common() -> None:
    r = SAMPLES["seeded"]()
    apart, turns = 0, SAMPLES["times"](6_000)
    for _ in range(turns):
        one, other = SAMPLES["capability"](r), SAMPLES["capability"](r)
        if r.random() < 0.5:  # else most differ in their kinds alone
            one, other = one | {"kind": "a"}, other | {"kind": "a"}
        if disjoint(one, other):
            apart += 1
            assert disjoint(other, one)
            first, second = Capability.of(one), Capability.of(other)
            messages = [SAMPLES["message_for"](r, some) for some in (one, other) for _ in range(15)]
            both = [message for message in messages if first.permits(*message) and second.permits(*message)]
            assert both == [], f"{one} is said to be apart from {other}"
    assert apart > turns // 6


# Apart


APART: list[tuple[dict[str, Any], dict[str, Any], bool, str]] = [
    *(
        (at("kind", a), at("kind", b), apart, why)
        for a, b, apart, why in [
            ("chat", "chat", False, "equal"),
            ("chat", "chat/cancel", True, "different literals"),
            ("chat", "mcp/*", True, "a literal that the glob does not match"),
            ("mcp/request", "mcp/*", False, "a literal that the glob matches"),
            ("mcp/*", "stream/*", True, "globs without a string in common"),
            ("a*", "*b", False, "ab"),
            ("a?", "b*", True, "different beginnings"),
            ("a*", "a/*", True, "* does not cross a slash"),
            ("*", "chat", False, "a bare * is any string"),
            (["chat", "mcp/*"], ["stream/*", "space/invite"], True, "each of one from each of the other"),
            (["chat", "mcp/*"], ["stream/*", "chat"], False, "chat"),
            ("!chat", "chat", True, "what is negated"),
            ("!mcp/*", "mcp/request", True, "what is negated"),
            ("!mcp/*", "mcp/re*", True, "a glob within what is negated"),
            ("!mcp/re*", "mcp/*", False, "mcp/x"),
            ("!a", "!b", False, "c"),
            ("/mcp.*/", "chat", True, "a literal that the expression does not match"),
            ("/mcp.*/", "mcp/a", False, "a literal that the expression matches"),
            ("/mcp.*/", "chat/*", False, "not proved: an expression and a glob"),
            ("/a/", "/b/", False, "not proved: two expressions"),
            ("!*", "chat", True, "permits nothing"),
        ]
    ),
    *(
        (at("payload", a), at("payload", b), apart, why)
        for a, b, apart, why in [
            ("a", "b", True, "different literals"),
            ("a", 1, True, "a string is no number"),
            ("*", None, True, "a string is no null"),
            ("*", {}, True, "a string is no object"),
            ("!a", {"b": "c"}, True, "a string is no object"),
            ("/a/", {}, True, "a string is no object"),
            (1, 1.0, False, "the same number"),
            (1, 2, True, "different numbers"),
            (1, True, True, "never booleans"),
            (0, False, True, "never booleans"),
            (None, None, False, "null"),
            (None, False, True, "null is no boolean"),
            (2**53 + 1, float(2**53), True, "by mathematical value"),
            ({}, {"a": "b"}, False, "any object"),
            ({"a": "b"}, {"a": "c"}, True, "a member that both ask for"),
            ({"a": "b"}, {"c": "d"}, False, "an object with both"),
            ({"a": {"b": "c"}}, {"a": {"b": "d"}}, True, "a nested member that both ask for"),
            ({"a": {"b": "c"}}, {"a": "*"}, True, "an object is no string"),
            ({"a*": "b"}, {"a*": "c"}, False, "an object with two such members"),
            ({"$.a": "b"}, {"a": "c"}, False, "not proved: a path"),
            (["a", 1], ["b", 2], True, "each of one from each of the other"),
            (["a", 1], ["b", 1], False, "1"),
            ([], "a", True, "permits nothing"),
            ({"a": []}, {}, True, "permits nothing"),
            ({"a*": []}, {}, True, "permits nothing"),
        ]
    ),
    *(
        (at("to", a), at("to", b), apart, why)
        for a, b, apart, why in [
            ("git", "fs", True, "a message reaches somebody, and that one has to match both"),
            ("git", None, False, "nothing is asked"),
            ("git", ["git", "fs"], False, "git"),
            ("fs-*", "git-*", True, "globs without a string in common"),
        ]
    ),
]


@pytest.mark.threat(20)
@pytest.mark.parametrize(("a", "b", "apart", "why"), APART, ids=range(len(APART)))
def test_the_table_of_what_is_apart(a: dict[str, Any], b: dict[str, Any], apart: bool, why: str) -> None:
    assert disjoint(a, b) is apart, why
    assert disjoint(b, a) is apart, why


# Several that are held


def held(*patterns: dict[str, Any]) -> tuple[Capability, ...]:
    return CapabilitySet(patterns).capabilities


@pytest.mark.req("P-3.6.8-2")
@pytest.mark.threat(20)
def test_each_single_capability_may_be_covered_by_another_that_is_held() -> None:
    mine = held({"kind": "chat"}, {"kind": K, "payload": {"method": "tools/call"}}, {"kind": "stream/*"})
    assert possesses(mine, Capability.of({"kind": ["chat", "stream/open"]}))
    assert possesses(mine, Capability.of({"kind": ["chat", K], "payload": {"method": "tools/call"}}))
    told = possesses(mine, Capability.of({"kind": ["chat", K]}))
    assert told.answer == "no" and told.witness is not None and told.witness["kind"] == K
    assert not CapabilitySet([one.pattern for one in mine]).permit(**told.witness).allowed


@pytest.mark.threat(20)
def test_lists_are_multiplied_out_at_any_depth() -> None:
    mine = held(
        {"kind": K, "payload": {"m": "a", "p": {"n": "1"}}},
        {"kind": K, "payload": {"m": "a", "p": {"n": "2"}}},
        {"kind": K, "payload": {"m": "b", "p": {"n": ["1", "2"]}}},
        {"kind": "chat"},
    )
    wanted = {"kind": ["chat", K], "payload": {"m": ["a", "b"], "p": {"n": ["1", "2"]}}}
    assert possesses(mine, Capability.of(wanted))
    told = possesses(mine[1:], Capability.of(wanted))
    assert told.witness == {"kind": K, "to": [], "payload": {"m": "a", "p": {"n": "1"}}}


@pytest.mark.threat(20)
def test_the_right_to_address_two_at_once_is_more_than_two_rights_to_address_one() -> None:
    mine = held({"kind": "chat", "to": "a"}, {"kind": "chat", "to": "b"})
    told = possesses(mine, Capability.of({"kind": "chat", "to": ["a", "b"]}))
    assert told.answer == "no" and told.witness is not None and set(told.witness["to"]) == {"a", "b"}
    assert possesses(
        held({"kind": "chat", "to": ["b", "a"]}), Capability.of({"kind": "chat", "to": ["a", "b"]})
    )


def test_who_holds_nothing_possesses_nothing_but_what_permits_nothing() -> None:
    told = possesses((), Capability.of({"kind": "chat"}))
    assert told == Coverage("no", "no capability is held", {"kind": "chat", "to": [], "payload": {}})
    assert possesses((), Capability.of({"kind": ["!*"]}))
    assert possesses((), Capability.of({"kind": "chat", "payload": {"a": [], "b": ["c", "d"]}}))


def test_the_profiles_cover_each_other_as_they_read() -> None:
    admin, human = held(*PROFILES["admin"]), held(*PROFILES["human"])
    for profile in PROFILES.values():
        assert all(possesses(admin, one) for one in held(*profile))
    assert all(possesses(held(*PROFILES["proposer"]), one) for one in held(*STARTER))
    assert all(possesses(human, one) for one in held(*PROFILES["proposer"]))
    assert possesses(human, admin[0]).answer == "no"


def test_more_lists_than_can_be_multiplied_out_are_not_judged() -> None:
    most = 300
    mine = held(*({"kind": K, "payload": {"m": f"m{at}", "n": "*"}} for at in range(most)))
    wanted = Capability.of({"kind": K, "payload": {"m": [f"m{at}" for at in range(most)], "n": ["a", "b"]}})
    assert possesses(mine, wanted) == Coverage(
        "unknown", "it costs too much to find out whether it is covered", None
    )
    assert possesses(mine[:10], Capability.of({"kind": [f"k{at}" for at in range(most)]})).answer == "no"
    few = Capability.of({"kind": K, "payload": {"m": ["m1", "m2"], "n": ["a", "b"]}})
    assert possesses(mine[:10], few)
    assert covered(mine[:10], few)
    assert not covered(mine, wanted)  # what cannot be proved is not covered, and that is an answer
    rich, poor = Budget(10**6), Budget(1000)
    assert not covered(mine, wanted, meter=rich) and 0 < rich.left < 10**6
    for ask in (covered, possesses):
        with pytest.raises(OverBudget):  # here it is the turn that has no more, and whoever asked decides
            ask(mine, wanted, meter=poor)
        assert poor.left < 0
        poor = Budget(1000)


# What is said


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        ({"kind": "chat"}, {"kind": "mcp/*"}, 'kind: "chat" does not cover "mcp/*"'),
        ({"kind": ["a", "b"]}, {"kind": "c"}, 'kind: ["a","b"] does not cover "c"'),
        (
            {"kind": K, "payload": {"params": {"name": "read_*"}}},
            {"kind": K, "payload": {"params": {"name": "*"}}},
            'payload.params.name: "read_*" does not cover "*"',
        ),
        (
            {"kind": K, "payload": {"params": {"name": "read_*"}}},
            {"kind": K},
            'payload.params: an object does not cover what may be anything, or nothing',
        ),
        ({"kind": K, "to": "git"}, {"kind": K}, 'to: "git" does not cover what may be anything, or nothing'),
        (
            {"kind": K, "payload": {"a": "b*"}},
            {"kind": K, "payload": {"a": "/b.+/"}},
            'payload.a: "b*" does not cover "/b.+/"; an expression or a negation is covered by the equal pattern, '
            "or by '*'",
        ),
        ({"kind": K, "payload": {"a": 1}}, {"kind": K, "payload": {"a": {}}}, "payload.a: 1 does not cover {}"),
    ],
)  # fmt: skip
def test_the_reason_names_the_place(a: dict[str, Any], b: dict[str, Any], reason: str) -> None:
    assert covers(a, b).reason == reason


def test_of_several_that_are_held_the_nearest_is_named() -> None:
    mine = held({"kind": "chat"}, {"kind": K, "payload": {"m": {"n": "a"}}}, {"kind": K, "to": "git"})
    told = possesses(mine, Capability.of({"kind": K, "payload": {"m": {"n": "b"}}}))
    assert told.reason == 'payload.m.n: "a" does not cover "b"'


@pytest.mark.threat(17)
def test_a_reason_repeats_little_and_nothing_invisible() -> None:
    strange = "\x1b[2J\u202e\u200b" + "x" * 5_000
    told = covers(
        {"kind": K, "payload": {strange: {"a": strange}}}, {"kind": K, "payload": {strange: {"a": "b"}}}
    )
    assert told.answer == "no" and told.reason.isprintable() and len(told.reason) < 300
    assert json.loads(json.dumps(told.witness)) == told.witness


def test_only_a_yes_is_true() -> None:
    assert Coverage("yes") and not Coverage("no", "a", {}) and not Coverage("unknown", "a")


def test_what_is_no_capability_is_refused() -> None:
    for wrong in ({"paylod": {}, "kind": "chat"}, {"kind": []}, {}):
        with pytest.raises(ConfigError):
            covers({"kind": "*"}, wrong)
        with pytest.raises(ConfigError):
            disjoint(wrong, {"kind": "*"})


def test_it_is_a_public_name() -> None:
    assert mew_lab.covers is covers


# Patterns made to hurt: what an answer costs is bounded, however large they are.


def deep(depth: int, inner: Any) -> Any:
    for _ in range(depth):
        inner = {"x": inner}
    return inner


def hostile(size: int) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Pairs whose naive comparison takes long; `size` says how large."""
    small = min(size, 160)
    return [
        ("stars", at("kind", "**" + "a**b**" * small), at("kind", "**" + "b**a**" * small)),
        ("stars apart", at("kind", "**" + "b**a**" * small), at("kind", "**" + "a**b**" * small)),
        ("subsets", at("kind", "**a" + "?" * small), at("kind", "**a**" + "?" * (small - 1))),
        ("unions", at("kind", [f"*{c}" + "?" * n for n in range(size) for c in "ab"]), at("kind", "?*" * small)),
        ("equal globs", at("kind", [f"x{n}*y" for n in range(size)]), at("kind", [f"x{n}*y" for n in range(size)])),
        ("globs", at("kind", [f"x{n}*y*" for n in range(size)]), at("kind", [f"x{n}*z*y" for n in range(size)])),
        ("literals", at("kind", [f"x{n}" for n in range(size)]), at("kind", [f"x{n}" for n in range(size + 1)])),
        ("long text", at("payload", "*a*" * small), at("payload", "a" * 1_000 * size)),
        ("expression", at("payload", "/(.*a.{0,300}){3}b/"), at("payload", "ab" * 100 * size)),
        ("long literals", at("payload", ["a" * 1_000 * size] * 20), at("payload", "*a*" * small)),
        ("members", at("payload", {f"k{n}": "x" for n in range(size)}), at("payload", {f"k{n}": "x" for n in range(size + 1)})),
        ("no members", at("payload", {"z": 1}), at("payload", {f"k{n}": ["x", {}] for n in range(size)})),
        ("products", at("payload", {f"k{n}": ["x", {"a": 1}] for n in range(size)}), at("payload", {f"k{n}": ["x", {"a": [1, 2]}] for n in range(size)})),
        ("objects", at("payload", [{f"k{n}": "x"} for n in range(size)]), at("payload", {f"k{n}": ["x", "y"] for n in range(size)})),
        ("paths", at("payload", {f"k{n}": {"$..*..*": "n"} for n in range(size)}), at("payload", {f"k{n}": {"l": {"m": ["a"] * 9}} for n in range(size)})),
        ("equal paths", at("payload", {"**": deep(40, ["a"] * size)}), at("payload", {"**": deep(40, ["a"] * size)})),
        ("depth", at("payload", deep(50, {"$..*": ["a"] * size})), at("payload", deep(50, ["a*"] * size))),
        ("negations", at("to", [f"!a{n}*" for n in range(size)]), at("to", [f"!a{n}*b" for n in range(size)])),
    ]  # fmt: skip


NAMES = [name for name, _, _ in hostile(2)]


def events(call: Any) -> int:
    """Calls and returns while `call` runs: what it costs, told the same on an idle and on a busy machine."""
    count = 0

    def tick(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += 1

    before = sys.getprofile()
    sys.setprofile(tick)
    try:
        call()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.threat(6, 7, 20)
@pytest.mark.parametrize("which", range(len(NAMES)), ids=NAMES)
def test_what_an_answer_costs_does_not_grow_with_the_patterns(which: int) -> None:
    costs = []
    for size in (200, 800):
        name, a, b = hostile(size)[which]
        one, other = Capability.of(a), Capability.of(b)
        began = time.perf_counter()
        told = covers(one, other)
        took = time.perf_counter() - began
        costs.append(max(events(lambda: covers(one, other)), events(lambda: disjoint(one, other))))  # noqa: B023
        print(f"{name} {size}: {told.answer}, {took * 1e3:.2f} ms (mark: 10 ms), {costs[-1]} events")
        assert told.answer in ("yes", "no", "unknown")
    # A few milliseconds; without a budget most of these would be a thousand times that.
    assert max(costs) < 150_000


def test_the_cost_of_a_usual_answer_is_printed() -> None:
    mine = Capability.of({"kind": K, "payload": {"method": "tools/call", "params": {"name": "read_*"}}})
    for wanted in (
        {"kind": K, "payload": {"method": "tools/call", "params": {"name": "read_file"}}},
        {"kind": K, "payload": {"method": "tools/call", "params": {"name": "read_file_*"}}},
        {"kind": K, "payload": {"method": "tools/call", "params": {"name": "*"}}},
    ):
        other = Capability.of(wanted)
        best = min(timed(mine, other) for _ in range(50))
        print(f"covers {wanted['payload']['params']['name']}: {best * 1e6:.1f} µs (mark: 50 µs for a yes)")  # type: ignore[index]


def timed(one: Capability, other: Capability) -> float:
    began = time.perf_counter()
    covers(one, other)
    return time.perf_counter() - began
