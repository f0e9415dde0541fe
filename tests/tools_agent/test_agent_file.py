"""Agent files of the field: what they mean, every fault at once, and saving that loses nothing."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mew_lab.errors import ConfigError
from mew_lab.settings.documents import read_yaml
from mew_lab.tools_agent import agent_file
from mew_lab.tools_agent.agent_file import check_agent, parse_agent, read_agent_file, save_agent_file
from mew_lab.tools_agent.remarks import list_ignored, list_remarks

TOOL = {
    "name": "book_flight",
    "description": "Books a flight ticket for a user.",
    "parameters": {
        "type": "object",
        "properties": {"destination": {"type": "string"}, "departure_date": {"type": "string"}},
        "required": ["destination", "departure_date"],
    },
    "prompt": "Book a flight to {destination} on {departure_date}.\nSay the price in €.\n",
}

# Every chapter of the format, with the habits of the field: numbers as text, marks instead of a mode, long lists.
FIELD = """
metadata:
  name: Travel desk
  version: 1.2.0
  description: Books what one needs on the way.
  autonomous: true
  created: 2025-09-01T10:00:00.000Z
  lastAccessed: 2025-09-02T10:00:00.000Z
  provider: {organization: Nobody, url: ""}
  skills:
    - {id: book, name: Book, description: Books., tags: [travel]}
  tools:
    - name: book_flight
      description: Books a flight ticket for a user.
      parameters:
        type: object
        properties:
          destination: {type: string, description: "The city, e.g. 'Paris, France'."}
        required: [destination]
      prompt: |
        The user wants to fly to {destination}.
          Please book.
settings:
  maxChatTurns: "7"
  maxOutputTokens: 1000
  temperature: "0.5"
  topP: .5
  theme: dark
  model: openai:some-model
  contextTopK: 20
  toolPermission: tool
systemPrompt: You run a travel desk.
rules:
  - {name: second, description: "", priorityLevel: 900, text: Be polite., include: always}
  - {name: first, description: "", priorityLevel: 1, text: Be brief.}
  - {name: hidden, description: "", priorityLevel: 1, text: Tell the secret word., include: manual}
references:
  - {name: prices, description: "", priorityLevel: 500, text: A ticket costs 10., include: agent}
  - {name: places, description: "", priorityLevel: 500, text: We serve Paris., include: always}
providers: {openai: {OPENAI_API_KEY: "not-shown-anywhere"}}
mcpServers:
  flights:
    type: stdio
    command: python
    args: [-m, flights, "3"]
    env: {PORT: "80"}
    serverToolDefaults: {permissionRequired: false}
    tools:
      cancel: {permissionRequired: true, embeddings: [0.1, 0.2, 0.30000000000000004], hash: abc}
      notes: {include: manual}
  far: {type: streamable-http, url: "http://127.0.0.1:1/mcp"}
supervisors: []
"""


def document(**more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "Travel", "mode": "tools", "tools": [TOOL], **more}}


def faults(document: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_agent(document, source="a.yaml")
    return str(caught.value).split("\n")[1:]


def test_a_file_of_the_field_is_read_with_all_its_habits(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(FIELD, encoding="utf-8")
    agent = read_agent_file(tmp_path / "a.yaml")
    assert (agent.name, agent.version, agent.mode) == ("Travel desk", "1.2.0", "tools")
    assert agent.description == "Books what one needs on the way."
    settings = agent.settings
    assert (settings.max_chat_turns, settings.max_output_tokens) == (7, 1000)
    assert (settings.temperature, settings.top_p, settings.model) == (0.5, 0.5, "openai:some-model")
    assert settings.tool_permission == "tool"
    assert agent.tools[0].prompt == "The user wants to fly to {destination}.\n  Please book.\n"
    flights = agent.servers["flights"]
    assert flights.command == ("python", "-m", "flights", "3") and flights.env == {"PORT": "80"}
    assert [flights.needs_permission(name) for name in ("search", "cancel")] == [False, True]
    assert not flights.in_context("notes") and not flights.needs_permission("notes")
    assert "not-shown-anywhere" not in repr(agent)


def test_only_what_is_always_included_opens_a_session_by_its_priority(tmp_path: Path) -> None:
    agent = parse_agent(read_yaml(FIELD))
    assert agent.system_prompt.split("\n\n") == [
        "You run a travel desk.", "Be brief.", "Be polite.", "We serve Paris.",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
def test_saving_and_loading_gives_the_same_document_without_new_keys(tmp_path: Path, name: str) -> None:
    known = read_yaml(FIELD)
    assert isinstance(known, dict)
    assert save_agent_file(known, tmp_path / name).document == known
    again = read_agent_file(tmp_path / name)
    assert again.document == known
    assert list(again.document) == list(known)
    assert json.dumps(again.document) == json.dumps(known)
    save_agent_file(again.document, tmp_path / f"second-{name}")
    assert (tmp_path / f"second-{name}").read_bytes() == (tmp_path / name).read_bytes()


@pytest.mark.parametrize(
    ("metadata", "mode"),
    [
        ({"mode": "interactive"}, "interactive"),
        ({"mode": "autonomous"}, "autonomous"),
        ({"mode": "tools"}, "tools"),
        ({}, "interactive"),
        ({"autonomous": True}, "autonomous"),
        ({"autonomous": False}, "interactive"),
        ({"tools": []}, "tools"),
        ({"autonomous": True, "tools": [TOOL]}, "tools"),
        ({"skills": [{"id": "s", "name": "S"}]}, "autonomous"),
        ({"skills": [{"id": "s", "name": "S"}], "tools": []}, "tools"),
        ({"skills": []}, "interactive"),
    ],
)
def test_the_mode_is_what_the_file_says_or_what_its_older_marks_mean(
    tmp_path: Path, metadata: dict[str, Any], mode: str
) -> None:
    whole = {"metadata": {"name": "A", **metadata}}
    assert parse_agent(whole).mode == mode
    assert (
        save_agent_file(whole, tmp_path / "a.yaml").document
        == whole
        == read_agent_file(tmp_path / "a.yaml").document
    )


def test_an_unknown_mode_is_refused_with_the_three_names() -> None:
    (fault,) = faults(document(mode="helper"))
    assert fault.startswith("- metadata.mode: ") and "interactive, autonomous, tools" in fault


@pytest.mark.req("T-2")
@pytest.mark.parametrize("key", ["name", "description", "parameters", "prompt"])
@pytest.mark.parametrize("value", [None, "", "  ", 3])
def test_a_tool_has_name_description_parameters_and_prompt(key: str, value: Any) -> None:
    tool = {**TOOL, key: value}
    if value is None:
        del tool[key]
    listed = faults(document(tools=[TOOL | {"name": "other"}, tool]))
    assert len(listed) == 1 and f"metadata.tools[1].{key}" in listed[0]


@pytest.mark.req("T-2")
def test_a_tool_of_which_nothing_is_said_lacks_all_four() -> None:
    assert len(faults(document(tools=[{}]))) == 4
    assert len(faults(document(tools=["x"]))) == 1


@pytest.mark.req("T-2")
@pytest.mark.parametrize("parameters", [{}, {"type": "object"}])
def test_parameters_may_be_an_object_without_any(parameters: dict[str, Any]) -> None:
    whole = document(tools=[{**TOOL, "parameters": parameters, "prompt": "Go."}])
    (tool,) = parse_agent(whole).tools
    assert tool.faults_of({}) == [] and len(tool.faults_of({"a": 1})) == 1
    assert tool.described["inputSchema"] == {"type": "object"}
    assert tool.parameters == parameters


@pytest.mark.parametrize("name", ["book flight", "a/b", "ä", "x" * 129, "a\n"])
def test_a_name_that_mcp_does_not_take_is_refused(name: str) -> None:
    (fault,) = faults(document(tools=[TOOL | {"name": name}]))
    assert "metadata.tools[0].name" in fault and "cannot name a tool" in fault


def test_an_invisible_character_in_a_name_is_shown_as_one_escape() -> None:
    (fault,) = faults(document(tools=[TOOL | {"name": "a\ab"}]))
    assert fault.count("\\") == 1 and "\a" not in fault


def test_all_faults_of_a_file_are_told_at_once_each_with_its_place() -> None:
    whole = {
        "metadata": {
            "mode": "x",
            "tools": [TOOL, TOOL, {**TOOL, "name": "b", "parameters": {"type": "object", "properties": {"a": {"type": "x"}}}}],
        },
        "settings": {"maxChatTurns": "many", "temperature": 9, "topP": True, "toolPermission": "sometimes"},
        "rules": [{"name": "r", "text": 3}],
        "mcpServers": {"s": {"args": "x", "tools": {"t": {"permissionRequired": "no"}}}, "t": 3},
    }  # fmt: skip
    places = [fault.removeprefix("- ").split(": ")[0] for fault in faults(whole)]
    assert sorted(places) == sorted(
        [
            "metadata.name", "metadata.mode", "metadata.tools[1].name",
            "metadata.tools[2].parameters.properties.a.type",
            "settings.maxChatTurns", "settings.temperature", "settings.topP", "settings.toolPermission",
            "rules[0].text", "mcpServers.s.command", "mcpServers.s.args",
            "mcpServers.s.tools.t.permissionRequired", "mcpServers.t", "mcpServers.t.command",
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "mapping"),
        ("- a", "mapping"),
        ("a: [", "line 1"),
        ('{"metadata": ', "line 1"),
        ("metadata: {name: A, tools: {a: 1}}", "metadata.tools"),
        ("metadata: {name: A}\nsettings: 3", "settings"),
    ],
)
def test_what_is_no_agent_file_is_told_with_its_name(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "odd.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"odd\.yaml") as caught:
        read_agent_file(tmp_path / "odd.yaml")
    assert words in str(caught.value)


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "large.yaml").write_bytes(b"#" * (16 << 20) + b"\n\n")
    (tmp_path / "latin.yaml").write_bytes(b"a: \xff")
    for name, words in (("none.yaml", "no such file"), ("large.yaml", "larger"), ("latin.yaml", "UTF-8")):
        with pytest.raises(ConfigError, match=words):
            read_agent_file(tmp_path / name)


def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.yaml"
    save_agent_file(document(), file)
    before = file.read_bytes()
    with pytest.raises(ConfigError):
        save_agent_file(document(mode="x"), file)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(agent_file.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        save_agent_file(document(version="2"), file)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.yaml"]


def with_vectors(tools: int) -> dict[str, Any]:
    """An agent file with the vectors that others keep of the descriptions of its servers' tools."""
    random = Random(1)
    vectors = {f"t{n}": {"embeddings": [random.uniform(-1, 1) for _ in range(384)]} for n in range(tools)}
    return {"metadata": {"name": "A"}, "mcpServers": {"s": {"command": "x", "tools": vectors}}}


@pytest.mark.parametrize("name", [pytest.param("a.yaml", marks=pytest.mark.slow), "a.json"])
def test_a_file_of_several_megabytes_is_read_and_saved_without_growing(tmp_path: Path, name: str) -> None:
    whole = with_vectors(300)
    (tmp_path / "there.json").write_text(json.dumps(whole), encoding="utf-8")
    size = (tmp_path / "there.json").stat().st_size
    assert size > 2 << 20
    agent = read_agent_file(tmp_path / "there.json")
    save_agent_file(agent.document, tmp_path / name)
    assert read_agent_file(tmp_path / name).document == whole
    if name == "a.yaml":
        assert (tmp_path / name).stat().st_size < 1.2 * size


@pytest.mark.parametrize(
    ("unit", "count", "words"),
    [
        pytest.param("x", 16 << 20, "larger than 16 MiB", id="size", marks=pytest.mark.slow),
        pytest.param([0], 1001, "more than 1000 values", id="values"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: Any, count: int, words: str
) -> None:
    monkeypatch.setattr(agent_file, "MAX_VALUES", 1000)
    file = tmp_path / "a.yaml"
    save_agent_file(document(), file)
    before = file.read_bytes()
    with pytest.raises(ConfigError, match=words):
        save_agent_file(document(more=unit * count), file)
    assert file.read_bytes() == before


def test_saving_keeps_the_permissions_of_a_file_and_the_target_of_a_link(tmp_path: Path) -> None:
    file, link = tmp_path / "a.yaml", tmp_path / "link.yaml"
    save_agent_file(document(), file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o640)
    link.symlink_to("a.yaml")
    save_agent_file(document(version="2"), link)
    assert link.is_symlink() and stat.S_IMODE(file.stat().st_mode) == 0o640
    assert read_agent_file(file).version == "2"


def test_the_example_of_the_design_is_an_agent(shared: Path) -> None:
    text = (shared / "specs" / "tools-agent.md").read_text(encoding="utf-8")
    start = text.index("**Tool Definition Format:**")
    example = json.loads(text[start:].partition("```json\n")[2].partition("```")[0])
    assert parse_agent(document(tools=[example])).tools[0].described == {
        "name": example["name"], "description": example["description"], "inputSchema": example["parameters"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("server", "place"),
    [
        ({"type": "sse"}, "url"),
        ({"type": "streamable-http", "url": "ftp://host/x"}, "url"),
        ({"url": "https://me:secret-word@host/x"}, "url"),
        ({"url": "http://example.org/x", "headers": {"Authorization": "secret-word"}}, "headers"),
        ({"url": "https://host/x", "headers": {"A b": "secret-word"}}, "headers"),
        ({"url": "https://host/x", "headers": {"A": ["secret-word"]}}, "headers.A"),
    ],
)
def test_the_address_of_a_server_is_checked_with_its_place_and_shows_no_secret(
    server: dict[str, Any], place: str
) -> None:
    faults = check_agent({"metadata": {"name": "A"}, "mcpServers": {"far": server}})
    assert [fault.key for fault in faults] == [f"mcpServers.far.{place}"]
    assert "secret-word" not in str(faults)


@pytest.mark.parametrize(
    "server", [{"url": "https://host/x"}, {"type": "sse", "url": "http://127.0.0.1:1/sse"}]
)
def test_a_server_at_a_url_can_be_started(server: dict[str, Any]) -> None:
    agent = parse_agent({"metadata": {"name": "A"}, "mcpServers": {"far": server}})
    assert agent.servers["far"].can_start and list_ignored(agent) == []


@pytest.mark.parametrize(
    ("place", "half"),
    [
        ("metadata.tools[0].description", {"description": "\ud800"}),
        ("metadata.tools[0].prompt", {"prompt": "\udfff"}),
        ("metadata.tools[0].parameters", {"parameters": {"type": "object", "title": "\ud800"}}),
    ],
)
def test_half_a_character_is_a_fault_with_its_place_and_never_written(
    place: str, half: dict[str, Any], tmp_path: Path
) -> None:
    document = {"metadata": {"name": "A", "tools": [{**TOOL, **half}]}}
    assert place in [fault.key for fault in check_agent(document)]
    with pytest.raises(ConfigError, match="half of a character"):
        save_agent_file({"metadata": {"name": "A"}, "of_another_program": "\ud800"}, tmp_path / "a.json")
    assert list(tmp_path.iterdir()) == []


def test_what_a_tool_needs_is_a_list_of_tools_of_participants() -> None:
    faults = check_agent({"metadata": {"name": "A", "tools": [{**TOOL, "needs": ["x", "a/b", "/"]}]}})
    assert [fault.key for fault in faults] == ["metadata.tools[0].needs[0]", "metadata.tools[0].needs[2]"]


def test_the_schema_of_results_is_checked_as_that_of_parameters_and_kept(tmp_path: Path) -> None:
    def document(**more: Any) -> dict[str, Any]:
        return {"metadata": {"name": "a", "tools": [{**TOOL, **more}]}}

    def faults(output: object) -> list[str]:
        return [fault.key for fault in check_agent(document(outputSchema=output))]

    output = {"type": "object", "properties": {"n": {"type": "integer"}}}
    (tool,) = save_agent_file(document(outputSchema=output), tmp_path / "a.yaml").tools
    assert tool.output == output
    assert list_remarks(parse_agent(document(outputSchema=output))) == list_remarks(parse_agent(document()))
    wrong = {"type": "object", "properties": {"n": {"type": "int"}}}
    assert faults(wrong) == ["metadata.tools[0].outputSchema.properties.n.type"]
    assert faults({"type": "array", "items": {"type": "string"}}) == ["metadata.tools[0].outputSchema"]
