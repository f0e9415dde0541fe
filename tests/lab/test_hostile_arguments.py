"""No public verb of a lab or a seat, and no way into a space, shows a traceback for an argument of another type."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mew_lab.errors import MewError
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect, up

from ..conftest import examples

HOSTILE = [
    *(None, 7, -1.5, True, {}, {"kind": "chat"}, [], [1], [None], (), b"x", object(), "", "\0", "\ud800"),
    float("nan"),
]
# They end the lab, start other programs, or belong to its own parts.
LEFT_OUT = {
    *("close", "observe", "pass_over", "fault", "down", "token_file", "serve_mcp", "agent", "leave", "run"),
    *("tool_approvals", "bridge", "tools_agent"),
}


def verbs(of: object) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, method in inspect.getmembers(of, inspect.ismethod):
        if not name.startswith("_") and name not in LEFT_OUT and not inspect.iscoroutinefunction(method):
            yield f"{type(of).__name__}.{name}", method


def arguments(method: Callable[..., Any]) -> list[dict[str, Any]]:
    """Which parameters get a hostile value together: all that are required, or one that is not."""
    given_ = [one for one in inspect.signature(method).parameters.values() if one.kind < one.VAR_KEYWORD]
    given_ = [one for one in given_ if one.kind is not one.VAR_POSITIONAL]
    required = {one.name: one for one in given_ if one.default is one.empty}
    optional = [one.name for one in given_ if one.name not in required and one.name != "timeout"]
    return [*([dict.fromkeys(required, "")] if required else []), *({"": name} for name in optional)]


def attempt(method: Callable[..., Any], which: Mapping[str, Any], value: Any) -> None:
    parameters = inspect.signature(method).parameters.values()
    needed = [
        one.name for one in parameters if one.default is one.empty and one.kind < one.VAR_POSITIONAL + 2
    ]
    needed = [name for name in needed if name not in ("kw", "options", "more")]
    filled = (
        dict.fromkeys(which, value) if "" not in which else {**dict.fromkeys(needed, "x"), which[""]: value}
    )
    first: list[Any] = []
    for one in parameters:
        if one.kind is one.POSITIONAL_ONLY and one.name in filled:
            first.append(filled.pop(one.name))
    try:
        str(method(*first, **filled))
    except MewError as fault:
        assert str(fault)


@pytest.mark.drawn
@pytest.mark.timeout(300)
def test_no_verb_shows_a_traceback_for_a_wrong_argument() -> None:
    lab = up("demo", journal=None, port=None)
    lab.tool(lambda a: a, name="echo")
    cases = [
        (name, method, which)
        for of in (lab, lab.me, lab.join("bot"), lab.of("bot"), lab.stream())
        for name, method in verbs(of)
        for which in arguments(method)
    ]
    assert {"Lab.send", "Lab.resolve", "Lab.approve", "Seat.call", "Seat.send", "ParticipantVerbs.grant"} <= {
        name for name, *_ in cases
    }

    @settings(max_examples=examples(400), deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(cases), st.sampled_from(HOSTILE))
    def check(case: tuple[str, Callable[..., Any], Mapping[str, Any]], value: Any) -> None:
        attempt(*case[1:], value)

    check()


WAYS_IN: Mapping[Callable[..., Lab], Mapping[str, Any]] = {
    up: {"name": "other", "journal": None, "port": None},
    connect: {"url": "ws://127.0.0.1:9/ws", "space": "demo", "token": "t" * 20},
}
OPTIONS = [(way, name) for way in WAYS_IN for name in inspect.signature(way).parameters]


@pytest.mark.parametrize(("way", "option"), OPTIONS, ids=lambda one: getattr(one, "__name__", one))
def test_no_way_into_a_space_shows_a_traceback_for_a_wrong_option(
    way: Callable[..., Lab], option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for value in HOSTILE:
        try:
            lab = way(**{**WAYS_IN[way], option: value})
        except MewError as fault:
            assert str(fault), value
        else:
            lab.down()


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda lab: lab.send({"kind": "chat"}),
            "Cannot call send() so: kind takes a text, and not a dict",
        ),
        (lambda lab: lab.send("chat", 7), "payload takes a mapping such as a dict or None, and not 7"),
        (lambda lab: lab.chat("hi", to=7), "to takes a text or a list, and not 7"),
        (
            lambda lab: lab.me.call("x/y", [1]),
            "arguments takes a mapping such as a dict or None, and not a list",
        ),
        (lambda lab: lab.me.propose(None), "target takes a text, and not None"),
        (
            lambda lab: lab.bridge("b", ["echo"], env={"API_KEY": "sk-secret-1234567890"}, roots=5),
            "roots takes a list or None, and not 5",
        ),
        (
            lambda lab: lab.bridge("b", ["echo"], cwd=[("API_KEY", "sk-secret-1234567890")]),
            "and not a list",
        ),
        (lambda lab: lab.me.ask("hi"), "missing a required argument: 'to'"),
        (lambda lab: lab.invite(5), "name takes a text, and not 5"),
        (lambda lab: lab.bridge("b", ["echo"], results=5), "results takes ResultLimits or None, and not 5"),
        (
            lambda _: up("other", results=5),
            "Cannot call up() so: results takes ResultLimits or None, and not 5",
        ),
        (lambda _: up("other", timeout=None), "Cannot call up() so: timeout takes a number, and not None"),
        (lambda _: up("other", timeout=-1), "-1 is no number of seconds above 0"),
        (lambda _: up(5), "Cannot call up() so: name takes a text or Path, and not 5"),
        (lambda _: connect("ws://127.0.0.1:9/ws", space="x", token=5), "token takes a text or None"),
    ],
)
def test_a_wrong_argument_is_named_with_what_the_verb_takes(
    lab: Lab, call: Callable[[Lab], Any], told: str
) -> None:
    with pytest.raises(MewError) as caught:
        call(lab)
    assert told in str(caught.value) and "sk-secret" not in str(caught.value)
