"""A tool as clients are shown it, and the check of what they send."""

from __future__ import annotations

import time
from typing import Any

import pytest
from mcp import types

from mew_lab.tools_agent.definition import (
    NO_VERSION,
    AgentDefinition,
    ServerDefinition,
    ToolDefinition,
    ToolRule,
)

PARAMETERS = {
    "type": "object",
    "properties": {
        "destination": {
            "type": "string",
            "description": "The destination city and country",
            "enum": ["Paris", "Rom"],
        },
        "seats": {"type": "integer", "minimum": 1},
        "who": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
    },
    "required": ["destination"],
}
TOOL = ToolDefinition("book_flight", "Books a flight ticket for a user.", PARAMETERS, "{destination}")


@pytest.mark.req("T-3")
def test_parameters_become_the_input_schema_and_name_and_description_are_kept() -> None:
    assert TOOL.described == {
        "name": "book_flight",
        "description": "Books a flight ticket for a user.",
        "inputSchema": PARAMETERS,
    }
    assert types.Tool.model_validate(TOOL.described).input_schema == PARAMETERS


@pytest.mark.parametrize(
    ("arguments", "paths"),
    [
        ({"destination": "Paris"}, []),
        ({"destination": "Paris", "seats": 2, "who": [{"name": "A"}]}, []),
        ({}, ["arguments"]),
        ({"destination": "Bonn"}, ["arguments.destination"]),
        ({"destination": "Bonn", "seats": 0, "who": [{"name": 3}]}, ["destination", "seats", "who[0].name"]),
        ({"destination": "Paris", "else": 1}, ["arguments"]),
        ({"destination": None}, ["arguments.destination"]),
    ],
)
def test_every_fault_of_the_arguments_is_told_with_its_path(
    arguments: dict[str, Any], paths: list[str]
) -> None:
    faults = TOOL.faults_of(arguments)
    assert len(faults) >= len(paths) and bool(faults) == bool(paths)
    for path in paths:
        assert any(path in fault.partition(":")[0] for fault in faults)


def test_undeclared_arguments_pass_where_the_schema_allows_them() -> None:
    free = ToolDefinition("t", "d", {"type": "object", "additionalProperties": {"type": "integer"}}, "p")
    assert free.faults_of({"any": 3}) == []
    assert free.faults_of({"any": "x"}) != []


def test_unknown_keywords_are_held_against_the_arguments_too() -> None:
    dated = {"type": "object", "properties": {"day": {"type": "string", "pattern": "^[0-9-]+$"}}}
    assert ToolDefinition("t", "d", dated, "p").faults_of({"day": "tomorrow"}) != []


def test_arguments_that_cannot_be_checked_do_not_pass() -> None:
    lost = {"type": "object", "properties": {"a": {"type": "string", "$ref": "#/nowhere"}}}
    (fault,) = ToolDefinition("t", "d", lost, "p").faults_of({"a": "x"})
    assert "cannot be checked" in fault


@pytest.mark.threat(6)
def test_a_pattern_bomb_of_a_file_is_decided_at_once() -> None:
    bomb = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    tool = ToolDefinition("t", "d", bomb, "p")
    assert tool.faults_of({"a": "aaa"}) == []
    began = time.monotonic()
    (fault,) = tool.faults_of({"a": "a" * 100_000 + "!"})
    assert time.monotonic() - began < 1.0 and fault.startswith("arguments.a: ")


@pytest.mark.req("T-6")
def test_where_nothing_is_said_of_a_tool_a_person_is_needed() -> None:
    assert ServerDefinition("s", "stdio").needs_permission("any")
    open_ = ServerDefinition(
        "s", "stdio", defaults=ToolRule(False), tools={"rm": ToolRule(True), "hid": ToolRule(False, "manual")}
    )
    assert (open_.needs_permission("ls"), open_.needs_permission("rm")) == (False, True)
    assert (open_.in_context("ls"), open_.in_context("hid")) == (True, False)


@pytest.mark.req("T-1")
def test_server_info_is_the_metadata_and_a_stated_default_where_no_version_is_given() -> None:
    assert AgentDefinition("Travel", version="2.1.0").server_info == {"name": "Travel", "version": "2.1.0"}
    assert AgentDefinition("Travel").server_info == {"name": "Travel", "version": NO_VERSION}
