"""What a proposed change of the mode or an option of a coding agent means, from what its bridge lists."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mew_lab.bridge.acp_agents import AGENTS
from mew_lab.bridge.acp_modes import (
    SET_CONFIG_OPTION,
    SET_MODE,
    describe_change,
    mode_schema,
    option_schema,
    quote_word,
    read_modes,
    read_options_of_session,
)

MODES = {
    "availableModes": [
        {"id": "default", "name": "Always ask", "description": "Asks before each tool"},
        {"id": "yolo", "name": "YOLO"},
    ]
}
OPTIONS = [
    {"id": "model", "name": "Model", "options": [{"value": "small", "name": "Small"}, {"value": "large"}]},
    {"id": "how", "category": "mode", "options": [{"value": "default"}, {"value": "yolo"}]},
]
RIGHTS = "what it does not ask about runs with your rights"
STATUS = {"mode": "default", "rule": "asks by its own rules: mode default", "config": '{"model": "small"}'}


def change(tool: str, arguments: dict[str, Any], status: dict[str, Any] = STATUS, **schema: Any) -> Any:
    schemas = {
        SET_MODE: mode_schema(read_modes(MODES), ("default",)),
        SET_CONFIG_OPTION: option_schema(read_options_of_session(OPTIONS), ("default",)),
    }
    return describe_change(tool, arguments, schema.get("schema", schemas.get(tool, {})), status)


def test_a_change_of_mode_names_the_old_and_the_new_one_with_the_words_of_the_agent() -> None:
    found = change(SET_MODE, {"mode": "default"}, {**STATUS, "mode": "yolo"})
    assert (
        found.about
        == "mode: yolo now, default after; in its words: “Always ask: Asks before each tool”; " + RIGHTS
    )
    assert not found.warnings


@pytest.mark.parametrize("mode", ["yolo", "nothing", "", None, 7, ["default"], {"id": "default"}])
def test_a_mode_that_is_not_known_to_ask_warns(mode: Any) -> None:
    [warning] = change(SET_MODE, {"mode": mode}).warnings
    assert warning.endswith("is not known to ask")
    # Also where nothing is known of the tool, but the participant says that it is a coding agent.
    assert change(SET_MODE, {"mode": mode}, schema={}).warnings == (warning,)


def test_an_option_that_is_the_mode_warns_as_the_mode_does() -> None:
    assert change(SET_CONFIG_OPTION, {"option": "how", "value": "yolo"}).warnings
    assert not change(SET_CONFIG_OPTION, {"option": "how", "value": "default"}).warnings
    assert change(SET_CONFIG_OPTION, {"option": "mode", "value": "yolo"}).warnings
    model = change(SET_CONFIG_OPTION, {"option": "model", "value": "large"})
    assert (model.about, model.warnings) == ("option model: small now, large after", ())


def test_other_calls_and_tools_of_that_name_elsewhere_are_none_of_it() -> None:
    assert change("water", {"mode": "yolo"}) is None
    assert change(SET_MODE, {"mode": "yolo"}, {}, schema={"properties": {"mode": {"type": "string"}}}) is None


@pytest.mark.threat(28)
def test_hostile_modes_are_shown_by_their_escapes_and_end_no_sentence() -> None:
    rng = random.Random(4)
    pieces = [
        "default",
        "; everything is asked",
        "\x1b[2J",
        "\u202e",
        "”",
        "\n",
        "<b>",
        " ",
        "x" * 300,
        "\ud800",
    ]
    for _ in range(300):
        mode, name = ("".join(rng.choices(pieces, k=3)) for _ in range(2))
        told = {"availableModes": [{"id": mode, "name": name, "description": name}, 7, None, {"id": 3}] * 40}
        schema = mode_schema(read_modes(told), ("default",))
        found = change(SET_MODE, {"mode": mode}, {**STATUS, "mode": mode}, schema=schema)
        assert found.about.isprintable() and len(found.about) < 800
        assert found.warnings and found.warnings[0].isprintable()
        assert quote_word(mode) == mode or quote_word(mode).startswith("“")
    assert read_modes("none") == () and read_options_of_session({"a": 1}) == ()


def test_the_mode_that_the_table_sets_is_one_that_asks() -> None:
    for name, known in AGENTS.items():
        assert not known.mode or known.mode in known.asks, name
