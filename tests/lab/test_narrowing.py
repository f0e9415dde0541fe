"""What a peer wrote never widens what is granted."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.errors import MewError
from mew_lab.lab.decisions.narrowing import literal, narrowest
from mew_lab.protocol.permit import permit


def call(tool: str = "git_log", **arguments: Any) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def test_it_names_the_method_the_tool_and_the_target() -> None:
    assert narrowest(("git",), call(repo=".", n=3), values=False) == {
        "kind": "mcp/request",
        "to": "git",
        "payload": {"method": "tools/call", "params": {"name": "git_log"}},
    }


def test_with_the_values_each_argument_has_to_have_its_own() -> None:
    pattern = narrowest(("git",), call(repo=".", n=3, deep={"a": True, "b": None}), values=True)
    assert pattern["payload"]["params"]["arguments"] == {"repo": ".", "n": 3, "deep": {"a": True, "b": None}}
    held = [pattern]
    assert permit(
        held, "mcp/request", to=["git"], payload=call(repo=".", n=3, deep={"a": True, "b": None})
    ).allowed
    for other in (
        call(repo="..", n=3, deep={"a": True, "b": None}),
        call(repo=".", n=4, deep={"a": True, "b": None}),
        call(repo=".", n=3, deep={"a": True}),
        call(repo="."),
        call("git_push", repo=".", n=3, deep={"a": True, "b": None}),
    ):
        assert not permit(held, "mcp/request", to=["git"], payload=other).allowed
    assert not permit(held, "mcp/request", to=["files"], payload=call(repo=".", n=3)).allowed
    assert not permit(held, "mcp/request", payload=call(repo=".", n=3)).allowed


@pytest.mark.threat(22)
@pytest.mark.parametrize(
    "text", ["*", "**", "a?c", "src/*.py", "!x", "/a+/", "/tmp/", "!", "//", "", "a*\n\u202e é[x]"]
)
def test_threat_22_text_that_reads_like_a_pattern_means_itself_alone(text: str) -> None:
    pattern = {"kind": "x", "payload": {"a": literal(text, "it")}}
    assert permit([pattern], "x", payload={"a": text}).allowed
    for other in ("abc", "src/m.py", "a", "y", "/tmp", "tmp", "*x"):
        assert other == text or not permit([pattern], "x", payload={"a": other}).allowed


@pytest.mark.threat(22)
def test_threat_22_a_tool_called_like_a_wildcard_grants_no_other_tool() -> None:
    pattern = narrowest(("git",), call("*"), values=False)
    assert permit([pattern], "mcp/request", to=["git"], payload=call("*")).allowed
    assert not permit([pattern], "mcp/request", to=["git"], payload=call("git_push")).allowed


@pytest.mark.threat(22)
@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("to", [("fs", "*"), ("*",), ("!zz",), ("/.*/",), ("f*",), ("**", "?s")])
def test_threat_22_an_addressee_that_reads_like_a_pattern_means_itself_alone(
    to: tuple[str, ...], values: bool
) -> None:
    asked = call(path="a")
    held = [narrowest(to, asked, values=values)]
    assert permit(held, "mcp/request", to=list(to), payload=asked).allowed
    for other in (["git"], ["fs", "git"], ["zz"], ["files"], [*to, "git"]):
        assert not permit(held, "mcp/request", to=other, payload=asked).allowed


@pytest.mark.threat(22)
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "a pattern without arguments means any arguments"),
        ({"files": ["a"]}, "files is a list"),
        ({"opts": {}}, "opts is an empty object"),
        ({"a": {"b": [1]}}, "a.b is a list"),
        ({"*": 1}, "reads like a wildcard"),
        ({"$.x": 1}, "reads like a wildcard"),
        ({"x": "*" * 300}, "cannot be said by a pattern"),
    ],
)
def test_threat_22_what_no_pattern_can_say_is_not_offered(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(MewError, match="cannot grant exactly this") as caught:
        narrowest(("git",), call(**arguments), values=True)
    assert says in str(caught.value)


def test_a_method_without_a_tool_and_several_addressees() -> None:
    payload = {"method": "resources/list", "params": None}
    assert narrowest(("a", "b"), payload, values=False) == {
        "kind": "mcp/request",
        "to": ["a", "b"],
        "payload": {"method": "resources/list"},
    }
