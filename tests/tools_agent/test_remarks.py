"""What of an agent file has no effect here is named with its place, and an agent with supervisors is not served."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.errors import ConfigError
from mew_lab.settings.documents import read_yaml
from mew_lab.tools_agent.agent_file import parse_agent
from mew_lab.tools_agent.home import Home
from mew_lab.tools_agent.remarks import list_ignored, list_remarks

from ..agent.conftest import Script
from .test_agent_file import FIELD, TOOL


def ignored(**chapters: Any) -> dict[str, str]:
    """The remarks about a file with one good tool and these chapters, by their places."""
    metadata = {"name": "A", "tools": [TOOL], **chapters.pop("metadata", {})}
    return {
        fault.key: fault.problem for fault in list_ignored(parse_agent({"metadata": metadata, **chapters}))
    }


def test_a_file_in_which_all_has_its_effect_has_no_remark() -> None:
    server = {"command": "python", "serverToolDefaults": {"permissionRequired": False}}
    assert ignored(rules=[{"name": "r", "text": "t"}], supervisors=[], mcpServers={"s": server}) == {}


def test_each_member_without_effect_is_named_with_its_place_and_no_value() -> None:
    found = ignored(
        metadata={"skills": [{"id": "s"}]},
        settings={"systemPath": "/secret/bin", "model": "gemini:secret"},
        rules=[{"text": "secret", "include": "manual"}, {"text": "secret"}],
        references=[{"text": "secret", "include": "agent"}],
        providers={"openai": {"KEY": "secret"}},
        supervisors=[{"name": "secret"}, {"name": "secret"}],
        mcpServers={
            "inner": {"type": "internal"},
            "far": {"type": "carrier-pigeon"},
            "near": {"command": "x", "tools": {"a": {"include": "agent"}, "b": {"include": "agent"}}},
            "all": {"command": "x", "serverToolDefaults": {"include": "agent"}},
        },
    )
    assert set(found) == {
        "metadata.skills", "settings.systemPath", "settings.model", "rules[0].include", "references[0].include",
        "providers", "supervisors[0]", "supervisors[1]", "mcpServers.inner.type", "mcpServers.far.type",
        "mcpServers.near.tools", "mcpServers.all.serverToolDefaults.include",
    }  # fmt: skip
    assert "secret" not in str(found)
    assert found["mcpServers.near.tools"].startswith("include: agent of 2 tools")


def test_a_misspelt_key_is_named_with_the_nearest_one_at_every_level() -> None:
    found = ignored(
        metadata={"tools": [{**TOOL, "promt": "x"}], "descripton": "x"},
        systemPromt="x",
        settings={"toolPermision": "never"},
        mcpServers={"s": {"command": "x", "serverToolDefault": {}}},
        of_another_program={"a": 1},
    )
    assert {place: hint.rpartition("; ")[2] for place, hint in found.items()} == {
        "systemPromt": "did you mean 'systemPrompt'?",
        "metadata.descripton": "did you mean 'description'?",
        "settings.toolPermision": "did you mean 'toolPermission'?",
        "mcpServers.s.serverToolDefault": "did you mean 'serverToolDefaults'?",
    }


def test_the_remarks_about_a_file_of_the_field_name_what_it_loses_here() -> None:
    places = [remark.key for remark in list_remarks(parse_agent(read_yaml(FIELD)))]
    assert {
        "settings.toolPermission", "rules[2].include", "references[0].include", "providers", "metadata.skills",
    } <= set(places)  # fmt: skip


def test_an_agent_with_supervisors_is_served_only_when_that_is_said() -> None:
    whole = {"metadata": {"name": "A", "tools": [TOOL]}, "supervisors": [{"name": "guard"}]}
    with pytest.raises(ConfigError, match=r"supervisors names 1; .*--without-supervisors") as caught:
        Home(parse_agent(whole), model=Script())
    assert caught.value.key == "supervisors"
    assert Home(parse_agent(whole), model=Script(), without_supervisors=True).agent.agent.supervisors == 1
