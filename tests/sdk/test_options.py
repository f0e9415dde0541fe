"""The table of settings: spellings, types, units."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mew_lab.errors import ConfigError
from mew_lab.protocol.token import Token
from mew_lab.sdk.options import OPTIONS, option_of, value_of

# As the interfaces ClientOptions, ParticipantOptions, AgentConfig and ChatResponseConfig spell them.
SPECIFIED = {
    "gateway": "gateway",
    "space": "space",
    "token": "token",
    "participant_id": "participant_id",
    "reconnect": "reconnect",
    "heartbeatInterval": "heartbeat_interval",
    "maxReconnectAttempts": "max_reconnect_attempts",
    "reconnectDelay": "reconnect_delay",
    "capabilities": "capabilities",
    "requestTimeout": "request_timeout",
    "name": "name",
    "systemPrompt": "system_prompt",
    "model": "model",
    "apiKey": "api_key",
    "baseURL": "base_url",
    "reasoningEnabled": "reasoning_enabled",
    "thinkingEnabled": "reasoning_enabled",
    "autoRespond": "auto_respond",
    "maxIterations": "max_iterations",
    "logLevel": "log_level",
    "reasoningFormat": "reasoning_format",
    "conversationHistoryLength": "conversation_history_length",
    "prompts": "prompts",
    "respondToQuestions": "respond_to_questions",
    "respondToMentions": "respond_to_mentions",
    "respondToDirect": "respond_to_direct",
    "confidenceThreshold": "confidence_threshold",
    "contextWindow": "context_window",
}


@pytest.mark.req("S-L3-1", "S-L1-1")
@pytest.mark.parametrize("spelt", SPECIFIED)
def test_every_setting_of_the_specification_is_known_in_both_spellings(spelt: str) -> None:
    assert option_of(spelt, source="x") == SPECIFIED[spelt]
    assert option_of(SPECIFIED[spelt], source="x") == SPECIFIED[spelt]
    assert option_of("baseUrl", source="x") == "base_url"  # as a reader of `apiKey` would write it


def test_nothing_else_is_known_but_what_client_and_agent_have_beyond_it() -> None:
    from mew_lab.agent.attention import Habits
    from mew_lab.agent.options import AgentOptions

    own = {*AgentOptions.__dataclass_fields__, *Habits._fields} - {"habits"}
    assert set(OPTIONS) - set(SPECIFIED.values()) - own == {"while_down", "strict_unknown", "repeats_within"}
    assert own <= set(OPTIONS)  # whatever can be set in code can be set in a file


@pytest.mark.parametrize(
    ("spelt", "value", "meant"),
    [
        ("heartbeatInterval", 30_000, 30.0),
        ("heartbeat_interval", 30, 30.0),
        ("heartbeat_interval", None, None),
        ("reconnectDelay", 1500, 1.5),
        ("reconnect_delay", 0, 0.0),
        ("requestTimeout", 5000, 5.0),
        ("request_timeout", 5, 5.0),
        ("requestTimeout", None, None),
        ("repeatsWithin", 90_000, 90.0),
        ("repeats_within", 0, 0.0),
        ("strictUnknown", True, True),
        ("confidenceThreshold", 1, 1.0),
        ("maxIterations", 10, 10),
        ("obeys", ["ada", "bob"], ("ada", "bob")),
        ("obeys", "ada, bob", ("ada", "bob")),
        ("obeys", "*", ("*",)),
        ("prompts", {"act": "do {objective}"}, {"act": "do {objective}"}),
        ("capabilities", [{"kind": "chat"}], [{"kind": "chat"}]),
        ("logLevel", "warn", "warn"),
        ("apiKey", "sk-0123456789ab", Token("sk-0123456789ab")),
    ],
)
def test_a_time_is_in_seconds_in_our_spelling_and_in_milliseconds_in_the_other(
    spelt: str, value: Any, meant: Any
) -> None:
    assert value_of(spelt, value, source="x") == meant


@pytest.mark.parametrize(
    ("spelt", "value", "said"),
    [
        ("space", 7, "x: space must be text, not a number"),
        ("space", None, "x: space must be text, not nothing"),
        ("space", "", "x: space is empty"),
        ("system_prompt", "\ud800", "x: system_prompt holds half a character"),
        ("token", 12345, "x: token must be text, not a number"),
        ("token", "two words", "x: token holds a space or a line end"),
        ("apiKey", "line\n", "x: apiKey holds a space or a line end"),
        ("reconnect", "yes", "x: reconnect must be true or false, not text"),
        ("autoRespond", 1, "x: autoRespond must be true or false, not a number"),
        ("obeys", 7, "x: obeys must be a list of participants' ids, or *"),
        ("max_iterations", 0, "x: max_iterations must be a whole number from 1 on"),
        ("max_iterations", True, "x: max_iterations must be a whole number from 1 on"),
        ("maxIterations", 1.5, "x: maxIterations must be a whole number from 1 on"),
        ("conversationHistoryLength", -1, "must be a whole number from 0 on"),
        ("heartbeat_interval", 0, "must be a number of seconds above 0, or nothing at all"),
        ("strict_unknown", "yes", "x: strict_unknown must be true or false, not text"),
        ("repeats_within", -1, "must be a number of seconds from 0 on"),
        ("reconnect_delay", -1, "must be a number of seconds from 0 on"),
        ("reconnect_delay", math.nan, "must be a number of seconds from 0 on"),
        ("reconnect_delay", 10**400, "must be a number of seconds from 0 on"),
        ("reconnect_delay", True, "must be a number of seconds from 0 on, not true or false"),
        ("confidence_threshold", 1.1, "must be a number from 0 to 1"),
        ("log_level", "loud", "must be one of debug, info, warn, error"),
        ("log_level", ["info"], "must be one of debug, info, warn, error"),
        ("reasoningFormat", "prose", "must be one of native, scratchpad"),
        ("prompts", "be kind", "x: prompts must be a mapping with system, reason, act, respond, not text"),
        ("prompts", {"think": "x"}, "x: prompts.think is no phase"),
        ("prompts", {"act": 7}, "x: prompts.act must be text"),
        ("capabilities", {"kind": "chat"}, "must be a list of permissions, not a mapping"),
        ("capabilities", [{"kind": "chat"}, {"paylod": {}}], "x: capabilities[1].paylod is no permission"),
        ("baseURL", "ftp://host", "x: baseURL must be an address such as http://127.0.0.1:8000/v1"),
        ("baseURL", "http://me:canary@host", "without user and password"),
        ("baseURL", "http://[", "must be an address"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place_and_without_itself(
    spelt: str, value: Any, said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        value_of(spelt, value, source="x")
    assert said in str(caught.value) and "canary" not in str(caught.value)
    assert caught.value.path == "x" and caught.value.key.startswith(spelt)


@pytest.mark.parametrize(
    ("spelt", "near"),
    [
        ("systemPromt", "systemPrompt"),
        ("max_iteration", "max_iterations"),
        ("Token", "token"),
    ],
)
def test_a_misspelt_setting_is_told_with_the_nearest_one(spelt: str, near: str) -> None:
    with pytest.raises(ConfigError, match=f"x: '{spelt}' is no setting; did you mean '{near}'"):
        option_of(spelt, source="x")


def test_what_resembles_nothing_is_told_with_all_there_are() -> None:
    with pytest.raises(ConfigError, match=r"is no setting; there are gateway, space, token") as caught:
        option_of("\x1b[31m" + "q" * 10_000, source="x")
    assert len(str(caught.value)) < 800 and "\x1b" not in str(caught.value)
