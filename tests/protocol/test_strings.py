"""String patterns: what only their own module shows. The meaning of each form stands in test_pattern's
table."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from mew_lab.errors import ConfigError
from mew_lab.protocol import strings
from mew_lab.protocol.node import Meter
from mew_lab.protocol.strings import Glob, Regex, StringNode, compile_string


@pytest.mark.req("P-4.1-4", "P-4.1-5", "P-4.2-8", "P-4.2-9")
@pytest.mark.parametrize(
    ("pattern", "kind", "expected"),
    [
        ("mcp/*", "mcp/request", True),
        ("mcp/*", "mcp/a/b", True),
        ("mcp/*", "mcp/", True),
        ("mcp/*", "mcp", False),
        ("mcp/*", "mcpx/request", False),
        ("*", "mcp/request", True),
        ("*", "chat", True),
        ("chat", "chat", True),
        ("chat", "chat/acknowledge", False),
        ("m*", "mcp/request", False),
        ("m*", "mcp", True),
        ("*/request", "mcp/request", True),
        ("a/*/c", "a/b/c", True),
        ("a/*/c", "a/b/b/c", False),
        ("participant/**", "participant/a/b", True),
        ("!mcp/*", "mcp/a/b", False),
        ("!mcp/*", "chat", True),
        ("!chat", "chat/cancel", True),
        ("*/*", "a/b/c", True),
        ("*/*", "a", False),
        ("/mcp\\/.*/", "mcp/request", True),
    ],
)
def test_a_trailing_star_in_a_kind_is_everything_below(pattern: str, kind: str, expected: bool) -> None:
    assert compile_string(pattern, key="kind", kind=True).matches(kind) is expected


def test_a_trailing_star_elsewhere_is_one_part() -> None:
    assert not compile_string("mcp/*", key="x").matches("mcp/a/b")


def test_an_expression_is_refused_when_set_where_the_engine_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strings, "engine", None)
    with pytest.raises(ConfigError, match="google-re2 is not installed") as fault:
        compile_string("/a/", key="payload.x")
    assert fault.value.key == "payload.x"
    assert compile_string("a*b?", key="x").matches("axxbc")


def test_the_module_loads_where_the_engine_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    spec = importlib.util.spec_from_file_location("strings_without_engine", strings.__file__)
    assert spec is not None and spec.loader is not None
    without = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, without)
    spec.loader.exec_module(without)
    assert without.engine is None
    assert without.compile_string("a*", key="x").matches("ab")
    with pytest.raises(ConfigError, match="google-re2 is not installed"):
        without.compile_string("/a/", key="x")


def test_a_bad_expression_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError):
        compile_string("/(/", key="x")
    assert capfd.readouterr() == ("", "")


def test_equal_patterns_are_equal_whatever_they_compile_to() -> None:
    assert compile_string("/a+/", key="x") == Regex.of("a+", key="y")
    assert Glob.of("a/*") == Glob.of("a/*")
    assert Glob.of("a/*") != Glob.of("a/*", kind=True)
    assert "_run" not in repr(Glob.of("a*"))


def test_a_node_without_a_rule_says_so() -> None:
    with pytest.raises(NotImplementedError):
        StringNode.accepts(compile_string("a", key="x"), "a", Meter())


@pytest.mark.ruling("R33")
@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        *(("**\n/b", "a/x\n/b", True), ("**\n/b", "a\tx\n/b", False), ("**\n/b", "a\nx\n/b", False)),
        *(("a\n/*", "a\n/x", True), ("a\n/*", "a\n/\n", False), ("a\\*b", "a\\xb", True), ("a\\*b", "a\\\\b", False)),
        *(("?*\n/b", "ax\n/b", True), ("?*\n/b", "a\n\n/b", False)),
        *(("*/../b*", "a/../bc", True), ("*/../b*", "../../b", False), ("?*\\b", "ac\\b", True)),
    ],
)  # fmt: skip
def test_a_glob_that_spells_something_unsafe_matches_no_more_of_it(
    pattern: str, text: str, expected: bool
) -> None:
    assert compile_string(pattern, key="x", paths=True).matches(text) is expected
    assert compile_string(pattern, key="x").matches(text)


def test_every_form_knows_its_source() -> None:
    for text in ("a", "*", "a*", "!a", "!a*", "!*", "/a/"):
        assert compile_string(text, key="x").source == text
