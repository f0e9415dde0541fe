"""A permission of a coding agent counts for exactly the call that was shown: the same tool and arguments, once, in time."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mew_lab.bridge.acp_once import TOLD_BEFORE, AllowedOnce, read_shown_call
from mew_lab.bridge.offers import OfferedTools
from mew_lab.protocol.text import client_names
from mew_lab.sdk.discovery import DiscoveredTool

SERVER = "mew-3b744a"
KINDS = ("allow_once", "allow_always", "reject_once", "reject_always", "allow_everything", "")
OPTIONS = [{"id": kind or "none", "name": kind or "none", "kind": kind} for kind in KINDS]
LOOK_ALIKES = str.maketrans("aeopcx", "аеорсх")
SPAN = ("session", 1, 0)
NAMES = ("water", "notebook_water", "git_log", "a__b", "x")


def any_value(rng: random.Random, depth: int = 0) -> Any:
    leaf = rng.choice(
        [
            None,
            True,
            False,
            rng.randint(-9, 9),
            rng.choice([0.5, 2.0, -1.0, 1e30, float(2**60)]),
            rng.choice(["", "north", "Zoë", "🌱", "a\nb", "ре", "1"]),
        ]
    )
    if depth > 2 or rng.random() < 0.6:
        return leaf
    if rng.random() < 0.5:
        return [any_value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    return any_arguments(rng, depth + 1)


def any_arguments(rng: random.Random, depth: int = 0) -> dict[str, Any]:
    return {rng.choice("abcdex") + str(n): any_value(rng, depth) for n in range(rng.randint(0, 4))}


def reordered(rng: random.Random, value: Any) -> Any:
    """The same value: members in another order, whole numbers as the other kind of number."""
    if isinstance(value, dict):
        members = list(value.items())
        rng.shuffle(members)
        return {name: reordered(rng, one) for name, one in members}
    if isinstance(value, list):
        return [reordered(rng, one) for one in value]
    if type(value) is int:
        return float(value)
    if type(value) is float and value.is_integer():
        return int(value)
    return value


def show_claude(name: str, arguments: Any) -> dict[str, Any]:
    return {"title": f"mcp__{SERVER}__{name}", "rawInput": arguments, "kind": "other"}


def show_opencode(name: str, arguments: Any) -> dict[str, Any]:
    return {"title": f"{SERVER}_{name}", "rawInput": arguments}


def show_codex(name: str, arguments: Any) -> dict[str, Any]:
    told = {"title": f"mcp.{SERVER}.{name}"}
    return {TOLD_BEFORE: {**told, "rawInput": {"server": SERVER, "tool": name, "arguments": arguments}}}


SHOWN = (show_claude, show_opencode, show_codex)
Show = Callable[[str, Any], dict[str, Any]]


class Pair:
    """A permission and a call, with what makes them differ."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.name, self.arguments = rng.choice(NAMES), any_arguments(rng)
        self.show: Show = rng.choice(SHOWN)
        self.shown = {
            "question": "?",
            "options": OPTIONS,
            **self.show(self.name, copy.deepcopy(self.arguments)),
        }
        self.option = "allow_once"
        self.span: Any = SPAN
        self.later = rng.choice([0.0, 1.0, 59.9, 60.0])
        self.call: tuple[str, Any] = (self.name, reordered(rng, self.arguments))
        self.used = False

    def inner(self) -> dict[str, Any]:
        """The shown members that name the call."""
        found: dict[str, Any] = self.shown.get(TOLD_BEFORE, self.shown)
        return found


def differ_nothing(pair: Pair) -> None:
    pass


def differ_more(pair: Pair) -> None:
    name, arguments = pair.call
    pair.call = name, {**arguments, "more": None}


def differ_less(pair: Pair) -> None:
    _give(pair, {**pair.arguments, "x": 1})


def differ_by_number(pair: Pair) -> None:
    name, arguments = pair.call
    pair.call = name, {**arguments, "n": 1}
    _give(pair, {**pair.arguments, "n": pair.rng.choice([True, "1", 1.0000001, [1], None])})


def differ_by_look(pair: Pair) -> None:
    text = "aeopcx"
    name, arguments = pair.call
    pair.call = name, {**arguments, "path": text}
    _give(pair, {**pair.arguments, "path": text.translate(LOOK_ALIKES)})


def differ_by_member_look(pair: Pair) -> None:
    name, arguments = pair.call
    pair.call = name, {**arguments, "path": 1}
    _give(pair, {**pair.arguments, "pаth": 1})


def differ_by_invisible(pair: Pair) -> None:
    name, arguments = pair.call
    pair.call = name, {**arguments, "path": "a"}
    _give(pair, {**pair.arguments, "path": pair.rng.choice(["a\u200b", "a ", "\ufeffa", "A", "a\u0301"])})


def differ_by_order_of_list(pair: Pair) -> None:
    name, arguments = pair.call
    pair.call = name, {**arguments, "list": [1, 2]}
    _give(pair, {**pair.arguments, "list": [2, 1]})


def differ_by_name(pair: Pair) -> None:
    name, arguments = pair.call
    other = pair.rng.choice(
        [f"{name}2", name.translate(LOOK_ALIKES) + "а", name.upper(), f" {name}", f"_{name}", ""]
    )
    pair.call = other, arguments


def differ_by_title(pair: Pair) -> None:
    inner = pair.inner()
    title = inner["title"]
    inner["title"] = pair.rng.choice(
        [
            f"{title} ",
            f" {title}",
            title.translate(LOOK_ALIKES) + "е",
            title.upper(),
            title[:-1],
            f"{title}\u200b",
            7,
            None,
        ]
    )


def differ_by_server(pair: Pair) -> None:
    inner = pair.inner()
    inner["title"] = inner["title"].replace(
        SERVER, pair.rng.choice(["mew-000000", "mew-3b744а", "other", ""])
    )


def differ_by_session(pair: Pair) -> None:
    pair.span = pair.rng.choice([("other", 1, 0), ("session", 2, 0), ("session", 1, 1)])


def differ_by_time(pair: Pair) -> None:
    pair.later = pair.rng.choice([60.001, 61.0, 3600.0, -1.0])


def differ_by_choice(pair: Pair) -> None:
    pair.option = pair.rng.choice([*KINDS[1:-1], "none", "nope", ""])


def differ_by_use(pair: Pair) -> None:
    pair.used = True


def differ_by_cut(pair: Pair) -> None:
    pair.rng.choice([pair.shown, pair.inner()])["left_out"] = ["rawOutput"]


def differ_by_truncation(pair: Pair) -> None:
    name, arguments = pair.call
    pair.call = name, {**arguments, "text": "a" * 100}
    _give(pair, {**pair.arguments, "text": "a" * 99 + "…"})


def differ_by_nothing_shown(pair: Pair) -> None:
    inner = pair.inner()
    if pair.rng.random() < 0.5:
        del inner["rawInput"]
    else:
        inner["rawInput"] = pair.rng.choice([None, "", "{}", [], 0])


def differ_by_two_accounts(pair: Pair) -> None:
    """What was told before and what was asked name two calls."""
    inner = pair.inner()
    told = {"rawInput": inner.get("rawInput")} if pair.rng.random() < 0.5 else {"title": inner["title"]}
    pair.shown = {**pair.shown, **inner, TOLD_BEFORE: {**pair.shown.get(TOLD_BEFORE, {}), **told}}


def _give(pair: Pair, arguments: Mapping[str, Any]) -> None:
    """Shows these arguments instead."""
    shown = pair.show(pair.name, arguments)
    pair.inner()["rawInput"] = shown.get(TOLD_BEFORE, shown)["rawInput"]


DIFFER = {name: one for name, one in globals().items() if name.startswith("differ_")}


@pytest.mark.ruling("R32")
def test_of_2000_pairs_exactly_those_pass_of_which_all_conditions_hold() -> None:
    rng = random.Random(41)
    passed = 0
    for n in range(2000):
        pair = Pair(rng)
        how = rng.sample(list(DIFFER), rng.choice([1, 1, 1, 2])) if n % 3 else ["differ_nothing"]
        for name in how:
            DIFFER[name](pair)
        allowed = AllowedOnce(SERVER)
        allowed.note("p1", pair.shown, pair.option, span=SPAN, now=100.0)
        if pair.used:
            assert allowed.take(*pair.call, span=pair.span, now=100.0) in ("p1", "")
        found = allowed.take(*pair.call, span=pair.span, now=100.0 + pair.later)
        expected = "p1" if set(how) == {"differ_nothing"} else ""
        assert found == expected, (how, pair.shown, pair.call, pair.later)
        assert not found or allowed.take(*pair.call, span=SPAN, now=100.0) == ""  # once
        passed += bool(found)
    assert 600 < passed < 1400


def test_two_permissions_allow_two_calls_the_older_one_first() -> None:
    allowed = AllowedOnce(SERVER)
    for at, id in enumerate(["one", "two"]):
        shown = {"options": OPTIONS, **show_claude("water", {"bed": 1})}
        allowed.note(id, shown, "allow_once", span=SPAN, now=float(at))
    taken = [allowed.take("water", {"bed": 1}, span=SPAN, now=2.0) for _ in range(3)]
    assert taken == ["one", "two", ""]


def tools_of(*names: tuple[str, str], bare: str = "") -> OfferedTools:
    offered = OfferedTools(bare=bare)
    offered.put((DiscoveredTool(participant, name, "", {}, {}), True) for participant, name in names)
    return offered


@pytest.mark.parametrize(
    "tools",
    [
        [("a", "b_c"), ("a_b", "c")],
        [("a", "b__c"), ("a_", "b_c"), ("a", "b_c")],
        [("git", "log"), ("git", "lоg")],
        [("x", "y" * 80), ("x", "y" * 79)],
        [("mew-3b744a", "water"), ("notebook", "water")],
    ],
)
def test_no_name_of_the_gate_is_that_of_two_tools(tools: list[tuple[str, str]]) -> None:
    """Whatever the participants choose, a shown name is that of the one tool that the gate calls by it."""
    names = {(one.tool.participant, one.tool.name): one.name for one in tools_of(*tools)}
    assert len(set(names.values())) == len(tools)
    for tool, name in names.items():
        assert name in client_names(*tool)
        for show in SHOWN:
            assert read_shown_call(show(name, {}), SERVER) == (name, {})
