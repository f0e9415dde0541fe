"""Programs get little of our environment, and settings name what they want of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.errors import ConfigError
from mew_lab.settings.environment import (
    cache_folder,
    fill_expressions,
    fill_settings,
    fill_variables,
    find_expressions,
    inherited_environment,
    state_folder,
    unset_variables,
)


@pytest.mark.threat(28)
def test_a_program_is_given_five_variables_and_no_secret() -> None:
    ours = {"PATH": "/bin", "HOME": "/home/a", "OPENAI_API_KEY": "canary", "LANG": "C", "LD_PRELOAD": "x"}
    assert inherited_environment(ours) == {"PATH": "/bin", "HOME": "/home/a", "LANG": "C"}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("${KEY}", "secret"),
        ("Bearer ${KEY}:${KEY}", "Bearer secret:secret"),
        ("${NONE}", "${NONE}"),
        ("$KEY ${KEY ${1} ${}", "$KEY ${KEY ${1} ${}"),
        ("${LOOP}", "${KEY}"),
        ("", ""),
    ],
)
def test_a_variable_is_filled_in_once_and_kept_verbatim_when_unset(text: str, meant: str) -> None:
    assert fill_variables(text, {"KEY": "secret", "LOOP": "${KEY}"}) == meant


def test_what_is_not_set_is_named_once_and_in_order() -> None:
    assert unset_variables("${B} ${A} ${B} ${SET} $C", {"SET": ""}) == ["B", "A"]


def test_every_text_of_a_setting_is_filled_in_and_nothing_else_changes() -> None:
    setting = {"${A}": ["x${A}", {"b": "${A}"}, 3, None], "c": True}
    filled = {"${A}": ["x1", {"b": "1"}, 3, None], "c": True}
    assert fill_settings(setting, {"A": "1"}, key="env") == filled


@pytest.mark.threat(26)
def test_a_variable_that_is_not_set_is_told_with_its_place_and_without_the_value() -> None:
    setting = {"bot": {"args": ["--flag", "canary ${NOT_SET}"]}}
    with pytest.raises(ConfigError) as caught:
        fill_settings(setting, {}, key="participants", source="space.yaml")
    at = "participants.bot.args[1]"
    assert str(caught.value) == f"space.yaml: {at} asks for the variable NOT_SET, which is not set; set it"
    assert (caught.value.path, caught.value.key) == ("space.yaml", at)


def test_the_folder_for_state_lies_in_none_to_which_others_have_access(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    folder = state_folder(environ=environ)
    assert folder == (tmp_path / "state" / "mew-lab").resolve() and not folder.exists()
    assert state_folder(outside=[tmp_path / "other"], environ=environ) == folder
    (tmp_path / "link").symlink_to(tmp_path)
    for shared in (tmp_path, tmp_path / "state", folder, tmp_path / "link", tmp_path / "other" / ".."):
        assert state_folder(outside=[shared], environ=environ) is None
    assert state_folder(environ={"XDG_STATE_HOME": "relative"}) != Path("relative/mew-lab")


def test_the_cache_folder_is_where_the_user_states_it() -> None:
    assert cache_folder({"XDG_CACHE_HOME": "/somewhere"}) == Path("/somewhere/mew-lab").resolve()
    assert cache_folder({"XDG_CACHE_HOME": "relative"}) != Path("relative/mew-lab").resolve()


# --- the expressions of MCP clients ---


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("${A} $B {C}", [("variable", "A", None)]),
        ("${A:-}${B:-x y:-z}", [("variable", "A", ""), ("variable", "B", "x y:-z")]),
        ("${env:A}", [("variable", "A", None)]),
        ("${input:a key}", [("input", "a key", None)]),
        ("${workspaceFolder}${/}", [("folder", "workspaceFolder", None), ("folder", "/", None)]),
    ],
)
def test_an_expression_is_read_by_its_form(text: str, found: list[tuple[str, str, str | None]]) -> None:
    assert [tuple(one) for one in find_expressions(text)] == found


@pytest.mark.parametrize(
    "text", ["${", "${A", "${A${B}}", "${A:-${B}}", "${}", "${1}", "${input:}", "${command:x}", "${a b}"]
)
def test_what_is_no_expression_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"^it has ") as caught:
        find_expressions(f"canary{text}canary")
    assert "canary" not in str(caught.value)


@given(st.text(alphabet="${}:-Aa/", max_size=20), st.text(alphabet="${}A", max_size=6))
def test_a_value_is_never_read_again(text: str, value: str) -> None:
    try:
        parts = find_expressions(text)
    except ValueError:
        return
    filled = fill_expressions(text, lambda _: value)
    assert filled.count(value) >= (len(parts) if value else 0)
    assert fill_expressions(text, lambda _: "") == re.sub(r"\$\{[^{}$]*\}", "", text)
