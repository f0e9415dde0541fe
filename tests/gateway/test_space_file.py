"""A space.yaml is read whole: every fault of it in one error, and the keys of peers in the field as they are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.errors import ConfigError
from mew_lab.gateway.config import ParticipantConfig, SpaceConfig
from mew_lab.gateway.limits import Limits
from mew_lab.gateway.space_file import SpaceFile, parse_space_file, read_space_file
from mew_lab.space.state import SpaceLimits

from ..conftest import examples

PLACE = Path("/spaces/one/space.yaml")


def parsed(text: str, **environ: str) -> SpaceFile:
    return parse_space_file(text, path=PLACE, environ=environ)


def faults(text: str, **environ: str) -> dict[str, str]:
    """Key path -> sentence."""
    with pytest.raises(ConfigError) as caught:
        parsed(text, **environ)
    head, *lines = str(caught.value).split("\n")
    assert head == f"{PLACE} has {len(lines)} fault{'s' if len(lines) != 1 else ''}:"
    assert caught.value.path == str(PLACE)
    found = [re.fullmatch(r"- (?:(.+?): )?(.+)", line) for line in lines]
    told = {one[1] or "": one[2] for one in found if one}
    assert caught.value.key in told and len(told) == len(lines)
    return told


FIELD = """
space:
  id: scenario
  name: A scenario
  description: from the field
  default_participant: human
  ui_theme: neon-pulse
participants:
  human:
    type: key
    tokens: [human-token-1, human-token-2]
    capabilities: [{kind: "*"}]
    default_to: {chat: [agent]}
    fifo: true
    io: http
    output_log: logs/human.jsonl
    auto_connect: true
  agent:
    type: local
    tokens: [agent-token-1]
    capabilities:
      - {kind: chat, id: may-chat}
      - {kind: mcp/proposal, payload: {method: "tools/*"}}
    auto_start: true
    command: node
    args: [./agent.js, --port, "${PORT}", --times, 3]
    env: {LEVEL: debug, TIMES: 3, LOUD: true}
    restart_policy: on-failure
  files:
    type: mcp-bridge
    auto_start: true
    mcp_server: {command: npx, args: [-y, server], env: {ROOT: /data}, cwd: ./files}
    bridge_config: {init_timeout: 15000, reconnect: true, max_reconnects: 3}
  guest:
defaults:
  capabilities: [{kind: chat}]
  routing: {default_to: {chat: [human]}}
gateway_logging:
  enabled: true
  envelope_history: {enabled: true}
  capability_decisions: {enabled: false}
"""


@pytest.mark.req("P-5.1-2")
def test_every_key_of_the_peers_is_read() -> None:
    file = parsed(FIELD)
    config = file.config
    assert (config.name, config.default_participant, file.folder) == ("scenario", "human", PLACE.parent)
    short = "it has fewer than 16 characters, so it could be guessed; leave tokens out, and one is made"
    theirs = ("human.tokens[0]", "human.tokens[1]", "agent.tokens[0]")
    assert file.remarks == tuple(f"participants.{one}: {short}" for one in theirs)
    human, agent, files = (config.participants[name] for name in ("human", "agent", "files"))
    assert [token.reveal() for token in human.tokens] == ["human-token-1", "human-token-2"]
    assert (human.output_log, human.auto_connect, human.starts) == ("logs/human.jsonl", True, False)
    assert (agent.command, agent.starts, agent.restart_policy) == ("node", True, "on-failure")
    assert agent.args == ["./agent.js", "--port", "${PORT}", "--times", "3"]
    assert agent.env == {"LEVEL": "debug", "TIMES": "3", "LOUD": "true"}
    assert files.mcp_server is not None and files.starts
    assert (files.mcp_server.command, files.mcp_server.args) == ("npx", ["-y", "server"])
    assert (files.mcp_server.env, files.mcp_server.cwd) == ({"ROOT": "/data"}, "./files")
    assert (files.bridge_config.init_timeout, files.bridge_config.max_reconnects) == (15000, 3)
    assert (config.logs.envelope_history, config.logs.capability_decisions) == (True, False)


@pytest.mark.req("P-5.1-2")
def test_default_capabilities_are_for_those_named_without_any() -> None:
    config = parsed(
        "space: {id: s}\n"
        "defaults: {capabilities: [{kind: chat}]}\n"
        "participants: {own: {capabilities: [{kind: mcp/*}]}, none: {capabilities: []}, bare: {}, null_: }\n"
    ).config
    held = {name: one.capabilities for name, one in config.participants.items()}
    assert held == {
        "own": [{"kind": "mcp/*"}],
        "none": [],
        "bare": [{"kind": "chat"}],
        "null_": [{"kind": "chat"}],
    }
    bare = parsed("space: {id: s}\nparticipants: {bare: {}}").config
    assert bare.participants["bare"].capabilities == []
    assert bare.baseline == [{"kind": "mcp/response"}]


def test_settings_of_our_own_are_read() -> None:
    config = parsed(
        "space: {id: s, owner: anna, baseline: [], hosts: [box.local], origins: ['http://localhost:8888'],\n"
        "  limits: {participants: 5, streams: 6, grants: 7, invites: 8, connections: 9, burst: 200},\n"
        "  message_bytes: 2048, queue_bytes: 65536}\n"
        "participants: {anna: {}}\n"
        "gateway_logging: {enabled: false}\n"
    ).config
    assert (config.owner, config.baseline, config.hosts) == ("anna", [], ["box.local"])
    assert config.origins == ["http://localhost:8888"]
    assert config.limits.of_space == SpaceLimits(
        participants=5, streams=6, grants=7, invites=8, connections=9
    )
    assert config.limits.of_server == Limits(connections=9, burst=200)
    assert (config.message_bytes, config.queue_bytes, config.logs) == (2048, 65536, None)


EVERYTHING_WRONG = """
space:
  idd: demo
  owner: humann
  queue_bytes: 3
  limits: {burst: 10, streems: 4}
participants:
  human:
    tokens: [shared-token-of-two, 7, "with space"]
    capabilities:
      - {kind: chat}
      - chat
      - kind: mcp/request
        paylod: {method: x}
        payload: {params: {name: "/(/", ok: [1, "/[/"], "$[": 1}}
      - {to: []}
  Human: {tokens: [shared-token-of-two]}
  "a b": {}
  bot:
    auto_start: yes
    comand: x
    output_log: ../x
    type: mcp_bridge
    env: {A: 1, B: [1], "C=": x}
    args: ["a\\0b", 1.5]
  two: {auto_start: true}
  three: {type: mcp-bridge, files: x}
  five: {type: acp}
  six: {type: acp, command: claude, tools: bott}
  four: 3
gateway_logging: {enabled: maybe}
partcipants: {}
"""


@pytest.mark.threat(1)
def test_every_fault_is_in_one_message_with_its_key_path_and_what_would_help() -> None:
    told = faults(EVERYTHING_WRONG, ENVELOPE_HISTORY="perhaps")
    bot = "participants.bot"
    human = "participants.human.capabilities"
    expected = {
        "space.id": "missing",
        "space.idd": "did you mean 'id'?",
        "space.owner": "'humann' is none of the participants; did you mean 'human'?",
        "space.queue_bytes": "greater than or equal to 65536",
        "space.limits.burst": "greater than or equal to 200",
        "space.limits.streems": "did you mean 'streams'?",
        "participants.human.tokens[1]": "put it in quotes",
        "participants.human.tokens[2]": "without spaces",
        f"{human}[1]": "must be a mapping of keys to values, not text",
        f"{human}[2].paylod": "did you mean 'payload'?",
        f"{human}[2].payload.params.name": "no regular expression",
        f"{human}[2].payload.params.ok[1]": "no regular expression",
        f"{human}[2].payload.params.$[": "no JSONPath",
        f"{human}[3].kind": "needs a kind",
        f"{human}[3].to": "non-empty list",
        "participants.six.tools": "'bott' is none of the other participants; did you mean 'bot'?",
        "participants.Human": "differs only in case from 'human'",
        "participants.Human.tokens[0]": "tok_…-two is 'human''s too",
        "participants.a b": "cannot be a participant id",
        f"{bot}.auto_start": "true or false, not text",
        f"{bot}.comand": "did you mean 'command'?",
        f"{bot}.output_log": "no file below the folder",
        f"{bot}.type": "did you mean 'mcp-bridge'?",
        f"{bot}.env.B": "must be text",
        f"{bot}.env.C=": "environment variable",
        f"{bot}.args[0]": "NUL",
        f"{bot}.args[1]": "not a number with a fraction",
        "participants.two.command": "auto_start needs it",
        "participants.three.mcp_server": "an mcp-bridge needs it",
        "participants.three.files": "only a participant of type acp",
        "participants.five.command": "the program of a coding agent",
        "participants.four": "must be a mapping of keys to values, not a number",
        "gateway_logging.enabled": "true or false, not text",
        "partcipants": "did you mean 'participants'?",
        "ENVELOPE_HISTORY": "no boolean value",
    }
    assert set(told) == set(expected)
    assert {key: words in told[key] for key, words in expected.items()} == dict.fromkeys(expected, True)
    assert not any("shared-token" in said for said in told.values())


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("", "space", "missing"),
        ("[]", "", "must be a mapping of keys to values, not a list"),
        ("space: demo", "space", "must be a mapping of keys to values, not text"),
        ("space: {id: 7}", "space.id", "must be text (in quotes"),
        ("space: {id: ''}", "space.id", "cannot be a space's name"),
        (
            "space: {id: s}\nparticipants: []",
            "participants",
            "must be a mapping of keys to values, not a list",
        ),
        ("space: {id: s, default_participant: me}", "space.default_participant", "none of the participants"),
        ("space: {id: s, message_bytes: '2048'}", "space.message_bytes", "a whole number, not text"),
        (
            "space: {id: s}\nwhatever: 1",
            "whatever",
            "known are space, participants, defaults, gateway_logging",
        ),
        (
            "space: {id: s}\nparticipants: {b: {mcp_server: {arg: []}}}",
            "participants.b.mcp_server.arg",
            "'args'",
        ),
    ],
)
def test_a_fault_says_what_would_help(text: str, key: str, said: str) -> None:
    told = faults(text)
    assert said in told[key]


@pytest.mark.threat(27)
@pytest.mark.parametrize(
    "path", ["../up", "/abs", "a/../../b", "C:\\x", "\\\\host\\x", "a\\..\\..\\b", "a\0b", "", "con"]
)
def test_an_output_log_that_leads_elsewhere_is_a_fault(path: str) -> None:
    with pytest.raises(ValueError, match="no file below the folder"):
        SpaceConfig.model_validate({"name": "s", "participants": {"a": {"output_log": path}}})


def test_many_faults_are_counted_and_the_first_fifty_told() -> None:
    names = "\n".join(f"  wrong{n}: 1" for n in range(60))
    with pytest.raises(ConfigError) as caught:
        parsed(f"space:\n  id: s\n{names}")
    lines = str(caught.value).split("\n")
    assert lines[0].endswith("has 60 faults:")
    assert (len(lines), lines[-1]) == (52, "- and 10 more")


def test_notes_and_empty_keys_are_no_faults() -> None:
    file = parsed(
        "x-note: 1\nspace: {id: s, x-mine: {}, ui_theme: }\nparticipants: {a: {x-b: 1, env: , tokens: }}"
    )
    assert file.config.participants["a"].env == {}


def test_a_path_that_is_a_regular_expression_is_remarked_on() -> None:
    file = parsed(
        "space: {id: s}\nparticipants: {a: {capabilities: [{kind: chat, payload: {path: /tmp/}}], auto_connect: true}}"
    )
    path, connect = file.remarks
    assert path.startswith("participants.a.capabilities[0].payload.path: '/tmp/' is a regular expression")
    assert connect == "participants.a.auto_connect: it does nothing without output_log"


def test_an_expression_that_other_gateways_search_anywhere_is_remarked_on() -> None:
    tools = {"kind": "mcp/request", "payload": {"params": {"name": ["/^get_x$/", "/get_.*/"]}}}
    file = parsed(yaml.safe_dump({"space": {"id": "s"}, "participants": {"a": {"capabilities": [tools]}}}))
    [remark] = file.remarks
    assert remark.startswith("participants.a.capabilities[0].payload.params.name[1]: '/get_.*/' has to match")


@pytest.mark.ruling("R34")
def test_a_closed_capability_is_read_and_a_misspelt_or_misplaced_one_is_a_fault() -> None:
    call = {"kind": "mcp/request", "payload": {"params": {"name": "a"}}}

    def text(*capabilities: object) -> str:
        return yaml.safe_dump(
            {"space": {"id": "s"}, "participants": {"a": {"capabilities": list(capabilities)}}}
        )

    read = parsed(text({**call, "x-closed": True}, {**call, "x-closed": False, "x-note": "mine"}))
    assert read.remarks == ()
    told = faults(
        text(
            {**call, "x-close": True},
            {**call, "x-closed": "yes"},
            {"kind": "chat", "x-closed": True},
            {**call, "payload": {"params": {"$.a": 1}}, "x-closed": True},
        )
    )
    at = "participants.a.capabilities"
    expected = {
        f"{at}[0].x-close": "did you mean 'x-closed'",
        f"{at}[1].x-closed": "true or false",
        f"{at}[2].x-closed": "mcp/request or mcp/proposal",
        f"{at}[3].payload.params.$.a": "at any depth",
    }
    assert set(told) == set(expected)
    for key, words in expected.items():
        assert words in told[key]


@pytest.mark.parametrize(
    ("environ", "history", "decisions"),
    [
        ({}, True, True),
        ({"ENVELOPE_HISTORY": "off"}, False, True),
        ({"CAPABILITY_DECISIONS": "0"}, True, False),
        ({"GATEWAY_LOGGING": "No"}, None, None),
    ],
)
def test_the_environment_switches_the_peers_logs(
    environ: dict[str, str], history: bool | None, decisions: bool | None
) -> None:
    logs = parsed("space: {id: s}", **environ).config.logs
    assert (logs and logs.envelope_history, logs and logs.capability_decisions) == (history, decisions)


def test_the_environment_is_stronger_than_the_file() -> None:
    text = "space: {id: s}\ngateway_logging: {enabled: false, envelope_history: {enabled: false}}"
    logs = parsed(text, GATEWAY_LOGGING="yes", ENVELOPE_HISTORY="1").config.logs
    assert logs is not None and logs.envelope_history


def test_json_is_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "space.json"
    path.write_text('{"space": {"id": "s"}, "participants": {"a": {"capabilities": [{"kind": "chat"}]}}}')
    file = read_space_file(path, environ={})
    assert (file.path, file.config.participants["a"].capabilities) == (path, [{"kind": "chat"}])


def test_what_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"space: {id: \xe9}")
    (tmp_path / "long").write_bytes(b"#" * (1024 * 1024 + 1))
    (tmp_path / "bad").write_text("space: [")
    for name, said in (
        ("none", "there is no such file"),
        ("latin", "not UTF-8"),
        ("long", "larger than 1 MiB"),
        ("bad", "line 1, column 9"),
        (".", "it is no regular file"),
    ):
        with pytest.raises(ConfigError, match=said) as caught:
            read_space_file(tmp_path / name, environ={})
        assert caught.value.path == str(tmp_path / name)


@pytest.mark.threat(1)
def test_neither_tokens_nor_what_programs_are_given_stand_in_a_repr() -> None:
    config = parsed(
        "space: {id: s}\nparticipants: {a: {tokens: [canary-token-abcd], command: x, args: [canary-arg],"
        " env: {KEY: canary-key}}}"
    ).config
    assert "tok_…abcd" in repr(config)
    assert "canary" not in repr(config) + str(config.participants["a"])


@pytest.mark.threat(1, 28)
def test_what_will_be_started_can_be_shown_before() -> None:
    file = parsed(
        "space: {id: s}\nparticipants:\n"
        "  agent: {command: node, args: [a b, --key, key-of-the-file], tokens: [key-of-the-file], auto_start: true}\n"
        "  files: {type: mcp-bridge, mcp_server: {command: npx, args: [server]}}\n"
        "  far: {type: mcp-bridge, mcp_server: {url: 'https://host/mcp?key=word'}}\n"
        "  idle: {command: idle}\n"
    )
    assert file.command_lines == (
        "agent: node 'a b' --key tok_…file",
        "files: npx server",
        "far: https://host/mcp",
    )


@pytest.mark.parametrize("server", ["{}", "{command: npx, url: 'https://host/mcp'}"])
def test_a_server_has_a_command_or_a_url(server: str) -> None:
    told = faults(f"space: {{id: s}}\nparticipants: {{b: {{type: mcp-bridge, mcp_server: {server}}}}}")
    assert "a command that starts the server or the url" in told["participants.b.mcp_server"]


KEYS = st.sampled_from(
    "id name owner tokens capabilities kind payload to command args env mcp_server auto_start output_log type "
    "space participants defaults gateway_logging enabled limits burst routing default_to x-a other".split()
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=examples(300), deadline=None)
@given(
    space=VALUES,
    participants=st.dictionaries(st.sampled_from(["a", "A", "b b"]), VALUES, max_size=3) | VALUES,
    other=VALUES,
)
def test_whatever_stands_in_it_a_file_is_read_or_its_faults_are_told(
    space: Any, participants: Any, other: Any
) -> None:
    said = {"space": space, "participants": participants, "defaults": other, "gateway_logging": other}
    try:
        parsed(json.dumps(said))
    except ConfigError as fault:
        assert re.match(rf"{PLACE} (has \d+ faults?:\n- |is not the YAML)", str(fault))


@pytest.mark.ruling("R27")
def test_the_paths_of_a_file_in_a_folder_named_mew_begin_above_it(tmp_path: Path) -> None:
    for path, folder, logs in (
        (tmp_path / ".mew" / "space.yaml", tmp_path, tmp_path / ".mew" / "logs"),
        (tmp_path / "space.yaml", tmp_path, tmp_path / "logs"),
        (tmp_path / "mew" / "space.yaml", tmp_path / "mew", tmp_path / "mew" / "logs"),
    ):
        file = parse_space_file("space: {id: demo}", path=path, environ={})
        assert (file.folder, file.logs) == (folder, logs)


@pytest.mark.ruling("R27")
@pytest.mark.parametrize("space", ["a/b", "..", "{{NAME}}", "two words", "CON", "gateway", "x" * 128, "é/ü"])
def test_a_space_may_be_called_by_any_text(space: str) -> None:
    assert parsed(json.dumps({"space": {"id": space}})).config.name == space


@pytest.mark.threat(26)
def test_a_short_token_is_refused_in_a_configuration_that_is_made_in_python() -> None:
    people = {"bot": ParticipantConfig(tokens=["fifteen-letters"])}
    with pytest.raises(
        ValueError, match=r"a token of bot has fewer than 16 characters.*short_tokens=True"
    ) as refused:
        SpaceConfig(name="demo", participants=people)
    assert "fifteen-letters" not in str(refused.value)
    assert SpaceConfig(name="demo", participants=people, short_tokens=True).participants == people
    assert SpaceConfig(name="demo", participants={"bot": ParticipantConfig(tokens=["x" * 16])})
