"""Witnesses: what is told is permitted by the one and by none of the others."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from mew_lab.protocol.node import Meter
from mew_lab.protocol.permit import Capability
from mew_lab.protocol.strings import compile_string
from mew_lab.protocol.witness import ANY_OBJECT, witness

slow_permit: Any = runpy.run_path(str(Path(__file__).with_name("slow_matcher.py")))["slow_permit"]

K = "chat"


def told(permitting: dict[str, Any], *others: dict[str, Any]) -> dict[str, Any] | None:
    """The witness, checked by the slow model."""
    message = witness(Capability.of(permitting), [Capability.of(one) for one in others])
    if message is not None:
        assert slow_permit(permitting, **message)
        assert not any(slow_permit(one, **message) for one in others)
    return message


def payload(pattern: dict[str, Any], *others: dict[str, Any]) -> Any:
    message = told({"kind": K, "payload": pattern}, *[{"kind": K, "payload": one} for one in others])
    return None if message is None else message["payload"]


def test_with_nobody_to_avoid_it_is_the_plainest_message() -> None:
    assert told({"kind": "chat"}) == {"kind": "chat", "to": [], "payload": {}}
    assert told({"kind": "mcp/*", "to": "git", "payload": {"a": "b*", "n": 1}}) == {
        "kind": "mcp/",
        "to": ["git"],
        "payload": {"a": "b", "n": 1},
    }


def test_others_are_avoided_at_whichever_place_will_do() -> None:
    assert told({"kind": ["chat", "mcp/a"]}, {"kind": "chat"}) == {"kind": "mcp/a", "to": [], "payload": {}}
    assert told({"kind": K}, {"kind": K, "payload": {"a": "*"}}, {"kind": K, "to": "*"}) is not None
    assert told({"kind": K, "to": ["a", "b"]}, {"kind": K, "to": "a"}) == {
        "kind": K,
        "to": ["b"],
        "payload": {},
    }
    assert told({"kind": K, "to": "a"}, {"kind": K, "to": "*"}) is None


def test_two_that_permit_one_addressee_each_do_not_permit_both_at_once() -> None:
    both = told({"kind": K, "to": ["a", "b"]}, {"kind": K, "to": "a"}, {"kind": K, "to": "b"})
    assert both is not None and set(both["to"]) == {"a", "b"}


@pytest.mark.parametrize(
    ("pattern", "others", "expected"),
    [
        ({"a": "*"}, [{"a": "x*"}], {"a": "y"}),
        ({"a": ["x", 1, None]}, [{"a": "*"}], {"a": 1}),
        ({"a": ["x", 1, None]}, [{"a": ["*", 1]}], {"a": None}),
        ({"a": {"b": "*"}}, [{"a": {"b": "x"}}, {"a": {"b": "y"}}], {"a": {"b": "z"}}),
        ({"a": {"b": "*"}}, [{"a": [{"b": "x"}, {"b": "y"}, "s"]}], {"a": {"b": "z"}}),
        ({"a": "*", "b": "*"}, [{"a": "*", "b": "x"}, {"a": "x"}], {"a": "y", "b": "y"}),
        ({"a": ["1", "2"], "b": ["1", "2"]}, [{"a": "1", "b": "1"}, {"a": "2"}], {"a": "1", "b": "2"}),
        ({"a": "*"}, [{"a": "!x"}], {"a": "x"}),
        ({"a": "*"}, [{"a": "/[a-z]/"}], {"a": "/"}),
        ({"a": "x"}, [{"a": "x", "b": "y"}], {"a": "x"}),
        ({"a": "!x*"}, [], {"a": "y"}),
        ({"a": "!x*"}, [{"a": "!xa"}], None),
        ({"a": "!xa"}, [{"a": "!x*"}], {"a": "x"}),
        ({"a*": "x"}, [{"a": "x"}], None),
        ({"a*": "x"}, [], {"a": "x"}),
        ({"a*": "x", "a": "y"}, [], {"a": "y", "ax": "x"}),
        ({"**": "x"}, [], {"x": "x"}),
        ({"a*": "!x", "ab": "x"}, [], None),
        ({"a*": []}, [], None),
        ({"a": []}, [], None),
        ({"$.a": "x"}, [], None),
        ({"$.a": "x", "a": "x"}, [], {"a": "x"}),
        ({"a": [{"$.b": "x"}, "s"]}, [], {"a": "s"}),
        ({"a": "x"}, [{"$.a": "x"}], None),
        ({"a": "x"}, [{"$.a": "y"}], {"a": "x"}),
    ],
    ids=str,
)
def test_a_payload_is_made_from_its_pattern(
    pattern: dict[str, Any], others: list[dict[str, Any]], expected: Any
) -> None:
    assert payload(pattern, *others) == expected


@pytest.mark.parametrize(
    "expression",
    [
        "a",
        "read_.*",
        "read_[a-z]+",
        "^read_.+$",
        "(read|write)_file",
        "a\\.b",
        "[0-9]+",
        "\\d{3}",
        "(?i)chat",
        "[ab]*/x",
        "[^x]y",
        "[\\d]\\s",
        "a|b",
        "((a|b)|c)d",
        "a{",
        "[^xyz]y",
        "[\\w-]+",
        "(a{2}|b)?c",
    ],
)
def test_a_usual_expression_is_guessed(expression: str) -> None:
    assert payload({"a": f"/{expression}/"}) is not None


def test_an_expression_that_is_not_guessed_gives_no_witness() -> None:
    assert payload({"a": "/(?:ab){3}c/"}) is None
    assert payload({"a": f"/{'(' * 10}{'a' + ')' * 10}b/"}) is None
    assert payload({"a": "/[]a]/"}) is None
    assert payload({"a": "/a.*/"}, {"a": "/a.*/"}) is None


def test_second_tries_are_made_and_come_to_an_end() -> None:
    # Each shortest string is one that the expression matches.
    assert payload({"a": "x*"}, {"a": "/x?/"}) == {"a": "xy"}
    assert payload({"a": "*"}, {"a": "/.*/"}) is None


@pytest.mark.threat(20)
def test_a_search_that_costs_too_much_finds_nothing() -> None:
    hostile = "**" + "b**a**" * 150
    assert told({"kind": hostile}, {"kind": "**" + "a**b**" * 170}) is None


def test_what_takes_too_much_stack_finds_nothing() -> None:
    others = [{"kind": f"k{at}"} for at in range(1_100)]
    assert told({"kind": [one["kind"] for one in others] + ["chat"]}, *others) in (
        None,
        {"kind": "chat", "to": [], "payload": {}},
    )


@pytest.mark.ruling("R34")
@pytest.mark.parametrize(
    ("params", "more"),
    [
        ({"name": "a"}, {"name": "a", "arguments": {"more1": True}}),
        ({"arguments": {"x": 1}}, {"arguments": {"x": 1, "more1": True}}),
        ({"arguments": {"more1": 1}}, {"arguments": {"more1": 1, "more2": True}}),
        ({"arguments": "all"}, {"arguments": "all", "more1": True}),
    ],
)
def test_one_member_more_than_a_closed_capability_names_is_a_witness(params: Any, more: Any) -> None:
    call = {"kind": "mcp/request", "payload": {"params": params}}
    found = told(call, call | {"x-closed": True})
    assert found is not None and found["payload"] == {"params": more}


@pytest.mark.ruling("R34")
def test_where_there_are_no_params_with_members_the_payload_gets_one_more() -> None:
    call = {"kind": "mcp/request", "payload": {"params": "all"}}
    found = told(call, call | {"x-closed": True})
    assert found is not None and found["payload"] == {"params": "all", "more1": True}


def test_any_object_is_any() -> None:
    assert ANY_OBJECT.holds({"a": 1}, Meter()) and not ANY_OBJECT.holds("a", Meter())
    assert compile_string("*", key="").accepts("", Meter())
