"""How a participant is set up: file, environment, arguments."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from mew_lab.errors import ConfigError, NoReply
from mew_lab.protocol.token import Token
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.settings import Settings, read_settings

from .conftest import Room, until

SECRET = "canary-0123456789abcdef"

# The two examples of the specification, to the letter.
FILE = """\
# agent-config.yaml
gateway: ws://localhost:8080
space: production
token: ${AGENT_TOKEN}
participant_id: assistant-1
systemPrompt: "You are a helpful assistant"
thinkingEnabled: true
maxIterations: 10
"""
ENVIRONMENT = {
    "MEW_GATEWAY": "ws://localhost:8080",
    "MEW_SPACE": "default",
    "MEW_TOKEN": "agent-token",
    "MEW_PARTICIPANT_ID": "my-agent",
    "MEW_AGENT_CONFIG": '{"thinkingEnabled": true}',
}


def written(folder: Path, text: str | bytes, name: str = "agent-config.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.req("S-CF-1")
def test_the_environment_of_the_specification_is_honoured() -> None:
    found = read_settings(environ=ENVIRONMENT)
    assert found == Settings(
        gateway="ws://localhost:8080",
        space="default",
        token=Token("agent-token"),
        participant_id="my-agent",
        agent={"reasoning_enabled": True},
    )


@pytest.mark.req("S-CF-2", "S-L3-1")
def test_the_file_of_the_specification_is_read_and_its_secret_filled_in(tmp_path: Path) -> None:
    found = read_settings(written(tmp_path, FILE), environ={"AGENT_TOKEN": SECRET})
    assert found == Settings(
        gateway="ws://localhost:8080",
        space="production",
        token=Token(SECRET),
        participant_id="assistant-1",
        agent={
            "system_prompt": "You are a helpful assistant",
            "reasoning_enabled": True,
            "max_iterations": 10,
        },
    )


@pytest.mark.req("S-CF-2")
@pytest.mark.parametrize("indent", [None, 2, "\t"])
def test_json_and_yaml_say_the_same(tmp_path: Path, indent: Any) -> None:
    whole = {
        "gateway": "http://127.0.0.1:8080",
        "token": "${AGENT_TOKEN}",
        "system_prompt": 'an apple, a quote " and 😀',
        "prompts": {"reason": "${WHO}: {input}", "act": "{objective}"},
        "heartbeatInterval": 15000,
        "request_timeout": None,
        "capabilities": [{"kind": "chat", "to": "${WHO}"}],
        "baseURL": "http://127.0.0.1:9/v1",
    }
    environ = {"AGENT_TOKEN": SECRET, "WHO": "human"}
    as_json = written(tmp_path, json.dumps(whole, indent=indent), "a")
    as_yaml = written(
        tmp_path,
        "gateway: http://127.0.0.1:8080\ntoken: ${AGENT_TOKEN}\n"
        'system_prompt: an apple, a quote " and 😀\n'
        "prompts: {reason: '${WHO}: {input}', act: '{objective}'}\nheartbeatInterval: 15000\n"
        "request_timeout:\ncapabilities: [{kind: chat, to: '${WHO}'}]\nbaseURL: http://127.0.0.1:9/v1\n",
        "b",
    )
    found = read_settings(as_json, environ=environ)
    assert found == read_settings(as_yaml, environ=environ)
    assert found.client == {"heartbeat_interval": 15.0, "capabilities": [{"kind": "chat", "to": "human"}]}
    assert found.participant == {"request_timeout": None}
    assert found.agent["prompts"] == {"reason": "human: {input}", "act": "{objective}"}


@pytest.mark.req("S-CF-1", "S-CF-2")
@pytest.mark.parametrize(
    ("sources", "model", "space"),
    [
        ({}, None, ""),
        ({"file"}, "of-file", "of-file"),
        ({"file", "agent"}, "of-agent", "of-agent"),
        ({"file", "agent", "variable"}, "of-agent", "of-variable"),
        ({"file", "agent", "variable", "argument"}, "of-argument", "of-argument"),
        ({"agent", "argument"}, "of-argument", "of-argument"),
        ({"file", "variable"}, "of-file", "of-variable"),
    ],
)
@pytest.mark.parametrize("agent_is", ["json", "path"])
def test_the_later_word_counts(
    tmp_path: Path, sources: set[str], model: str | None, space: str, agent_is: str
) -> None:
    file = written(tmp_path, "model: of-file\nspace: of-file\n") if "file" in sources else None
    environ: dict[str, str] = {"MEW_TOKEN": ""}
    if "agent" in sources:
        said = '{"model": "of-agent", "space": "of-agent"}'
        environ["MEW_AGENT_CONFIG"] = (
            said if agent_is == "json" else str(written(tmp_path, said, "agent.json"))
        )
    if "variable" in sources:
        environ["MEW_SPACE"] = "of-variable"
    arguments = {"model": "of-argument", "space": "of-argument"} if "argument" in sources else {"model": None}
    found = read_settings(file, environ=environ, **arguments)
    assert (found.agent.get("model"), found.space, found.token) == (model, space, None)


def test_prompts_are_put_together_phase_by_phase(tmp_path: Path) -> None:
    file = written(tmp_path, "prompts: {system: one, act: one}")
    found = read_settings(file, environ={}, prompts={"act": "two", "respond": "two"})
    assert found.agent["prompts"] == {"system": "one", "act": "two", "respond": "two"}


def test_what_was_filled_in_is_not_filled_in_again_and_arguments_never_are(tmp_path: Path) -> None:
    environ = {"A": "${B}", "B": "no", "MEW_SPACE": "${B}"}
    found = read_settings(written(tmp_path, "model: x-${A}"), environ=environ, name="${B}")
    assert (found.agent["model"], found.space, found.agent["name"]) == ("x-${B}", "${B}", "${B}")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("token: ${NONE}", "token"),
        ("apiKey: x${NONE}", "apiKey"),
        ("prompts: {act: '${NONE}'}", "prompts.act"),
        ("capabilities: [{kind: chat}, {kind: '${NONE}'}]", "capabilities[1].kind"),
        ("space: '${SET}${NONE}'", "space"),
    ],
)
def test_a_variable_that_is_not_set_is_named_with_the_place_that_asks_for_it(
    tmp_path: Path, text: str, key: str
) -> None:
    with pytest.raises(ConfigError, match=r"asks for the variable NONE, which is not set") as caught:
        read_settings(written(tmp_path, text), environ={"SET": SECRET})
    assert caught.value.key == key and key in str(caught.value)
    assert caught.value.path.endswith("agent-config.yaml") and SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("spaec: x", "spaec", "'spaec' is no setting; did you mean 'space'?"),
        ("maxIterations: many", "maxIterations", "must be a whole number"),
        ("prompts: {system: [x]}", "prompts.system", "must be text"),
        (
            "systemPrompt: a\nsystem_prompt: b",
            "system_prompt",
            "'systemPrompt' and 'system_prompt' are the same",
        ),
        (
            "thinkingEnabled: true\nreasoningEnabled: true",
            "reasoningEnabled",
            "are the same setting; keep one",
        ),
        ("gateway: nowhere", "gateway", "'nowhere' is no address of a gateway"),
        ("[a]", "", "must be a mapping of settings"),
        ("just text", "", "must be a mapping of settings"),
    ],
)
def test_a_wrong_file_is_told_with_the_key(tmp_path: Path, text: str, key: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_settings(written(tmp_path, text), environ={})
    assert said in str(caught.value) and caught.value.key == key


def test_a_wrong_argument_is_told_alike() -> None:
    with pytest.raises(
        ConfigError, match="arguments: 'max_iteration' is no setting; did you mean 'max_iterations'"
    ):
        read_settings(environ={}, max_iteration=3)


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    assert read_settings(written(tmp_path, "# nothing yet\n"), environ={}) == Settings()


# --- hostile files, and secrets ---


def bomb() -> str:
    layers = "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30))
    return "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + layers


@pytest.mark.threat(8)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("space: a\nspace: b", "the key 'space' stands twice"),
        ('{"space": "a", "space": "b"}', "the key 'space' stands twice"),
        (bomb(), "aliases unfold to more than 100000 values"),
        ('{"prompts": ' + "[" * 5000 + "]" * 5000 + "}", "nested"),
        ("x: !!python/object/apply:os.system [true]", "neither YAML nor JSON"),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        ("space: \x00", "neither YAML nor JSON"),
        ("a: &a [*a]", "an alias stands inside"),
        (b"#" * (1024 * 1024 + 1), "is larger than 1 MiB"),
        ('{"space": "\\ud800"}', "half a character"),
    ],
)
def test_a_hostile_file_is_refused_with_one_line(tmp_path: Path, text: str | bytes, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_settings(written(tmp_path, text), environ={})
    assert said in str(caught.value) and "\n" not in str(caught.value) and len(str(caught.value)) < 1200


@pytest.mark.threat(8)
def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path, tmp_path / "none", pipe, Path("a\0b"), Path("x" * 5000)):
        with pytest.raises(ConfigError, match=r"there is no such file|it is no regular file"):
            read_settings(path, environ={})


@pytest.mark.threat(26)
@pytest.mark.parametrize(
    "text",
    [
        f"token: *{SECRET}",
        f"token: !{SECRET} x",
        f"token: !!bool {SECRET}",
        f"token: [{SECRET}",
        f"token: [{SECRET}]",
        f"token: {{{SECRET}: x}}",
        f"apiKey: '{SECRET} {SECRET}'",
        f"logLevel: {SECRET}",
        f"baseURL: http://me:{SECRET}@host/",
        f"gateway: ws://me:{SECRET}@host/",
        f"reconnect: {SECRET}",
        f'{{"token": "{SECRET}", "token": 1}}',
        f'{{"token": "{SECRET}"',
    ],
)
def test_no_error_shows_a_secret(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as one:
        read_settings(written(tmp_path, text), environ={})
    with pytest.raises(ConfigError) as two:
        read_settings(environ={"MEW_AGENT_CONFIG": text})
    for caught in (one, two):
        assert SECRET not in str(caught.value) and SECRET not in repr(caught.value)
        assert caught.value.__cause__ is None


@pytest.mark.threat(26)
def test_no_repr_shows_a_secret() -> None:
    found = read_settings(
        environ={}, token=SECRET, api_key=SECRET, system_prompt=f"say {SECRET}", space="demo"
    )
    assert SECRET not in repr(found) + str(found) + repr(found.agent["api_key"])
    assert repr(found) == (
        "<Settings of a participant in demo at no gateway, token tok_…cdef: api_key, system_prompt>"
    )
    assert SECRET not in repr(MEWClient.from_settings(found))


# --- what is made of them ---


@pytest.mark.req("S-CF-2", "S-L1-1")
def test_a_json_file_may_have_every_option_of_a_client(tmp_path: Path) -> None:
    """`ClientOptions` of the specification, in its spelling; its times are milliseconds, ours are seconds."""
    options = {
        "gateway": "ws://localhost:8080",
        "space": "production",
        "token": SECRET,
        "participant_id": "assistant-1",
        "reconnect": False,
        "heartbeatInterval": 15000,
        "maxReconnectAttempts": 7,
        "reconnectDelay": 250,
        "capabilities": [{"kind": "chat"}],
    }
    found = read_settings(written(tmp_path, json.dumps(options), "agent.json"), environ={})
    assert found == Settings(
        gateway="ws://localhost:8080",
        space="production",
        token=Token(SECRET),
        participant_id="assistant-1",
        client={
            "reconnect": False,
            "heartbeat_interval": 15.0,
            "max_reconnect_attempts": 7,
            "reconnect_delay": 0.25,
            "capabilities": [{"kind": "chat"}],
        },
    )
    client = MEWClient.from_settings(found)
    assert client.space == "production" and client.capabilities.permit("chat", (), {}).allowed


@pytest.mark.req("S-L1-1", "S-CF-1")
async def test_a_client_and_a_participant_are_made_of_them(room: Room) -> None:
    found = read_settings(
        environ={"MEW_SPACE": "demo", "MEW_PARTICIPANT_ID": "bot-7", "MEW_TOKEN": SECRET},
        reconnect=False,
        request_timeout=0.05,
        capabilities=[{"kind": "chat"}],
    )
    assert MEWClient.from_settings(found).capabilities.permit("chat", (), {}).allowed
    room.enrol("bot", "human")
    room.enrol("deaf", "tool")
    bot = MEWParticipant.from_settings(found, connect_link=room.link("bot", runtime_id="bot-7"))
    async with bot, room.client("deaf"):
        assert (bot.client.id, bot.client.space) == ("bot-7", "demo")
        with pytest.raises(NoReply) as silence:
            await bot.call("deaf/nothing")
        waited = float(re.search(r"within (\S+) s", str(silence.value))[1])  # type: ignore[index]
        assert 0.05 <= waited < 30, "neither the set time nor what a busy machine adds to it, but the default"
        attempts: list[int] = []
        bot.client.on_reconnecting(attempts.append)
        room.links["bot"].shut(1006)  # type: ignore[attr-defined]
        await until(lambda: bot.client.state == "disconnected")
        assert attempts == []
