"""The draft of an agent file: each change does what its sentence says, can be undone, and loses nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from mew_lab.errors import MewError
from mew_lab.tools_agent.agent_file import parse_agent
from mew_lab.tools_agent.template import lint
from mew_lab.views.workshop.model import (
    AgentDraft,
    definition_of,
    parameter_rows,
    prompt_tokens,
    sample_arguments,
)

TOOL = {
    "name": "fly",
    "description": "Flies.",
    "parameters": {
        "type": "object",
        "properties": {"to": {"type": "string", "minLength": 2}, "seats": {"type": "integer", "maximum": 9}},
        "required": ["to"],
    },
    "prompt": "Fly to {to} with {seats}; {{to}} stays.",
}


def draft(**more: Any) -> AgentDraft:
    whole = {"metadata": {"name": "A", "tools": [TOOL], "x-mine": 1}, "of_another": {"a": [1]}, **more}
    return AgentDraft(copy.deepcopy(whole))


def schema(one: AgentDraft) -> Any:
    return one.tool(0)["parameters"]


def test_a_change_is_a_step_that_is_undone_and_done_again() -> None:
    one = draft()
    before = copy.deepcopy(one.document)
    assert one.add_parameter(0) == "Added the parameter parameter."
    after = copy.deepcopy(one.document)
    assert one.changed and one.undoable == "Added the parameter parameter." and one.redoable == ""
    assert one.undo() == "Undone: Added the parameter parameter."
    assert one.document == before and not one.changed
    assert one.redo() == "Done again: Added the parameter parameter."
    assert one.document == after
    with pytest.raises(MewError, match="nothing to redo"):
        one.redo()


def test_after_a_new_change_nothing_is_left_to_do_again() -> None:
    one = draft()
    one.add_parameter(0)
    one.undo()
    one.set_text(0, "description", "Mine.")
    with pytest.raises(MewError, match="nothing to redo"):
        one.redo()
    assert one.tool(0)["description"] == "Mine."


def test_typing_in_one_field_is_one_step() -> None:
    one = draft()
    for text in ("F", "Fl", "Fly"):
        one.set_text(0, "description", text)
    one.set_text(0, "prompt", "Go.")
    one.undo()
    assert one.tool(0)["description"] == "Fly" and one.tool(0)["prompt"] == TOOL["prompt"]
    one.undo()
    assert one.tool(0) == TOOL


def test_a_renamed_parameter_keeps_its_place_its_mark_and_its_references() -> None:
    one = draft()
    assert one.rename_parameter(0, "to", "place", references=True) == (
        "Renamed to to place, and 1 reference in the prompt."
    )
    assert list(schema(one)["properties"]) == ["place", "seats"] and schema(one)["required"] == ["place"]
    assert one.tool(0)["prompt"] == "Fly to {place} with {seats}; {{to}} stays."
    one.rename_parameter(0, "seats", "chairs", references=False)
    assert "{seats}" in one.tool(0)["prompt"]
    with pytest.raises(MewError, match="already"):
        one.rename_parameter(0, "chairs", "place", references=True)


def test_a_changed_type_drops_what_it_cannot_have_and_says_so() -> None:
    one = draft()
    assert one.set_type(0, "to", "array") == "to is of type array now. Dropped: minLength."
    assert schema(one)["properties"]["to"] == {"type": "array", "items": {"type": "string"}}
    one.set_keyword(0, "seats", "default", "3")
    assert one.set_type(0, "seats", "boolean").endswith("Dropped: maximum, default.")
    assert parse_agent(one.document).tools[0].parameters == schema(one)


def test_each_keyword_is_read_as_its_type_says() -> None:
    one = draft()
    for name, keyword, text, value in (
        ("to", "enum", "Rome\n\nOslo", ["Rome", "Oslo"]), ("to", "default", "3", "3"), ("seats", "default", "3", 3),
        ("seats", "examples", "1\n2", [1, 2]), ("to", "description", "Where to.", "Where to."),
        ("seats", "minimum", "1", 1),
    ):  # fmt: skip
        one.set_keyword(0, name, keyword, text)
        assert schema(one)["properties"][name][keyword] == value
    one.set_keyword(0, "to", "enum", "  ")
    assert "enum" not in schema(one)["properties"]["to"]
    before = copy.deepcopy(one.document)
    for name, keyword, text, words in (
        ("seats", "minimum", "one", "not JSON"), ("seats", "minLength", "1", "has no minLength"),
        ("nobody", "title", "x", "no parameter nobody"), ("to", "type", "array", "has no type"),
    ):  # fmt: skip
        with pytest.raises(MewError, match=words):
            one.set_keyword(0, name, keyword, text)
    assert one.document == before


def test_the_schema_and_the_builder_show_the_same() -> None:
    one = draft()
    wanted = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "number"}, "x": 1}}}
    one.set_schema(0, json.dumps(wanted))
    (row,) = parameter_rows(definition_of(one.tool(0)).parameters)
    assert (row.name, row.type, row.items, row.required, row.nested) == ("a", "array", "number", False, True)
    assert schema(one) == wanted
    for text in ("{", "[1]", '{"a": NaN}', ""):
        with pytest.raises(MewError, match="was not taken"):
            one.set_schema(0, text)
    assert schema(one) == wanted


def test_a_draft_may_have_faults_and_names_them() -> None:
    one = draft()
    one.add_tool()
    assert [fault.key for fault in one.faults()] == [
        "metadata.tools[1].description", "metadata.tools[1].prompt",
    ]  # fmt: skip
    assert [row.faults for row in one.rows(one.faults())] == [0, 2]
    one.copy_tool(0)
    assert [tool["name"] for tool in one.tools] == ["fly", "fly_copy", "new_tool"]
    one.remove_tool(0)
    assert [tool["name"] for tool in one.tools] == ["fly_copy", "new_tool"]
    with pytest.raises(MewError, match="no longer in the file"):
        one.set_text(7, "name", "x")


@pytest.mark.parametrize(
    "document",
    [None, [], "x", {}, {"metadata": 3}, {"metadata": {"tools": 3}}, {"metadata": {"tools": [3, {"parameters": []}]}},
     {"metadata": {"tools": [{"name": [1], "parameters": {"properties": {"a": 3}, "required": 4}, "prompt": {}}]}}],
)  # fmt: skip
def test_any_content_is_shown_and_can_be_edited(document: Any) -> None:
    one = AgentDraft(document)
    one.rows(one.faults())
    one.add_tool()
    for n, entry in enumerate(one.tools):
        tool = definition_of(entry)
        parameter_rows(tool.parameters), sample_arguments(tool.parameters), prompt_tokens(tool), lint(tool)
        one.add_parameter(n)
        one.set_type(n, next(iter(one.tool(n)["parameters"]["properties"])), "object")
    while one.undoable:
        one.undo()
    assert one.document == (document if isinstance(document, dict) else {})


def test_the_pieces_of_a_prompt_are_the_prompt() -> None:
    tool = definition_of({**TOOL, "prompt": "{to}{{x}} {name} {who} {a b} {seats"})
    pieces = prompt_tokens(tool)
    assert "".join(text for text, _ in pieces) == tool.prompt
    assert [piece for piece in pieces if piece[1] != "text"] == [
        ("{to}", "parameter"), ("{{", "escaped"), ("}}", "escaped"), ("{name}", "tool"), ("{who}", "unknown"),
        ("{a b}", "loose"),
    ]  # fmt: skip


def test_samples_come_from_default_examples_enum_or_the_type() -> None:
    properties = {
        "a": {"type": "string", "default": "d", "examples": ["e"]}, "b": {"type": "string", "examples": ["e"]},
        "c": {"type": "string", "enum": ["x", "y"]}, "d": {"type": "integer", "minimum": 4}, "e": {"type": "boolean"},
        "f": {"type": "array", "items": {"type": "integer"}, "minItems": 2},
        "g": {"type": "object", "properties": {"h": {"type": "string", "minLength": 9}}},
    }  # fmt: skip
    samples = sample_arguments({"type": "object", "properties": properties})
    assert samples == {
        "a": "d", "b": "e", "c": "x", "d": 4, "e": True, "f": [1, 1], "g": {"h": "text xxxx"},
    }  # fmt: skip
    tool = {**TOOL, "parameters": {"type": "object", "properties": properties}}
    assert parse_agent({"metadata": {"name": "A", "tools": [tool]}}).tools[0].faults_of(samples) == []
    # What a form is filled with: what the author of the tool gave.
    inner = {
        "type": "object",
        "properties": {"in": {"type": "string", "default": "x"}, "out": {"type": "string"}},
    }
    given = sample_arguments({"type": "object", "properties": {**properties, "i": inner}}, made=False)
    assert given == {"a": "d", "b": "e", "c": "x", "i": {"in": "x"}}


def random_edit(one: AgentDraft, random: Random) -> Callable[[], object]:
    """A change of a random parameter."""
    name = random.choice(list(schema(one)["properties"]) or ["none"])
    return random.choice(
        [
            lambda: one.add_parameter(0),
            lambda: one.remove_parameter(0, name),
            lambda: one.move_parameter(0, name, random.choice([-1, 1, 9])),
            lambda: one.set_type(0, name, random.choice(["string", "array", "object", "number"])),
            lambda: one.set_required(0, name, random.random() < 0.5),
            lambda: one.rename_parameter(0, name, f"p{random.randrange(5)}", references=True),
        ]
    )


def test_random_changes_are_all_undone_in_their_order_and_touch_nothing_else() -> None:
    for seed in range(40):
        random, one = Random(seed), draft()
        states = [copy.deepcopy(one.document)]
        for _ in range(30):
            edit = random_edit(one, random)
            try:
                edit()
            except MewError:
                assert one.document == states[-1]
            if one.document != states[-1]:
                states.append(copy.deepcopy(one.document))
            assert one.document["of_another"] == {"a": [1]} and one.document["metadata"]["x-mine"] == 1
            parse_agent(one.document)
        for state in reversed(states[:-1]):
            one.undo()
            assert one.document == state
        assert one.undoable == ""


def test_a_choice_among_schemas_is_shown_and_ends_with_a_type() -> None:
    one = draft()
    choice = {"anyOf": [{"type": "integer", "minimum": 3}, {"type": "string"}]}
    one.set_schema(0, json.dumps({"type": "object", "properties": {"which": choice}}))
    (row,) = parameter_rows(schema(one))
    assert (row.type, row.nested) == ("choice", True)
    assert sample_arguments(schema(one)) == {"which": 3}
    assert one.set_type(0, "which", "string") == "which is of type string now. Dropped: anyOf."
    assert schema(one)["properties"]["which"] == {"type": "string"}
