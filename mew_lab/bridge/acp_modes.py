"""Describes the modes and options of an ACP agent in the schemas of its tools `set_mode` and `set_config_option`.

A bridge lists these tools with what the agent says of each mode and option, and whether a mode is known to ask before
it acts (`acp_agents`). A lab that shows a proposed change reads that back: what is now, what would be, and the warning
that a mode is not known to ask. Both are the statement of the participant, as the description of any tool is.

Spec: Agent Client Protocol 1, session modes and config options; ruling R41.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from mew_lab.protocol.coerce import json_of, line_of, list_of, mapping_of, member, text_of
from mew_lab.protocol.text import mend_surrogates
from mew_lab.protocol.visible import one_line

__all__ = [
    "NOT_KNOWN_TO_ASK",
    "SET_CONFIG_OPTION",
    "SET_MODE",
    "AgentChoice",
    "ProposedChange",
    "describe_change",
    "mode_schema",
    "option_schema",
    "quote_word",
    "read_modes",
    "read_options_of_session",
]

SET_MODE, SET_CONFIG_OPTION = "set_mode", "set_config_option"
NOT_KNOWN_TO_ASK = "mode {mode} is not known to ask"
MODES, OPTIONS = "x-modes", "x-options"  # members of the schemas
MODE = "mode"  # the category of an option, and its usual id
MOST = 50  # modes, options, and values of one
ABOUT = 200  # characters of what the agent says of one


class AgentChoice(NamedTuple):
    """A mode, an option or a value of one, in the words of the agent. `values` are those of an option."""

    id: str
    name: str = ""
    about: str = ""
    is_mode: bool = False
    values: tuple[AgentChoice, ...] = ()


class ProposedChange(NamedTuple):
    """What a proposed change means: a sentence, and its warnings."""

    about: str
    warnings: tuple[str, ...] = ()


def read_modes(told: object) -> tuple[AgentChoice, ...]:
    """The modes of a session, from the member `modes` of its answer."""
    return _choices(mapping_of(told).get("availableModes"))


def read_options_of_session(told: object) -> tuple[AgentChoice, ...]:
    """The options of a session, from the member `configOptions` of its answer."""
    return _choices(told)


def _choices(told: object, id: str = "id") -> tuple[AgentChoice, ...]:
    """The choices of a list that have an id which a message can hold."""
    return tuple(
        AgentChoice(
            name,
            line_of(one.get("name"), 80),
            line_of(one.get("description"), ABOUT),
            MODE in (one.get("category"), name),
            _choices(one.get("options"), "value"),
        )
        for one in map(mapping_of, list_of(told)[:MOST])
        if (name := text_of(one.get(id), 200)) and mend_surrogates(name) == name
    )


def mode_schema(modes: Collection[AgentChoice], asking: Collection[str]) -> dict[str, Any]:
    """The schema of the arguments of `set_mode`; `asking` are the modes that are known to ask."""
    told = [_written(one) | {"asks": one.id in asking} for one in modes]
    about = "the id of a mode: " + "; ".join(
        one_line(one["id"], 80) + ("" if one["asks"] else " (not known to ask)") for one in told
    )
    property = {"type": "string", "description": about, MODES: told}
    return {"type": "object", "required": ["mode"], "properties": {"mode": property}}


def option_schema(options: Collection[AgentChoice], asking: Collection[str]) -> dict[str, Any]:
    """The schema of the arguments of `set_config_option`."""
    told = [
        _written(one)
        | ({"mode": True} if one.is_mode else {})
        | {
            "values": [
                _written(value) | ({"asks": value.id in asking} if one.is_mode else {})
                for value in one.values
            ]
        }
        for one in options
    ]
    about = "the id of an option: " + "; ".join(one_line(one["id"], 80) for one in told)
    properties = {
        "option": {"type": "string", "description": about, OPTIONS: told},
        "value": {"type": ["string", "boolean"]},
    }
    return {"type": "object", "required": ["option", "value"], "properties": properties}


def _written(choice: AgentChoice) -> dict[str, Any]:
    members = {"id": choice.id, "name": choice.name, "about": choice.about}
    return {name: value for name, value in members.items() if value}


def describe_change(
    tool: str, arguments: Mapping[str, Any], schema: Mapping[str, Any], status: Mapping[str, Any]
) -> ProposedChange | None:
    """What a proposed call of a coding agent would change; None for another call, or another participant.

    Args:
        schema: of the tool, as the participant lists it; empty where it is not known.
        status: what the participant told of itself last.
    """
    properties = mapping_of(schema.get("properties"))
    if tool == SET_MODE and _is_coding_agent(properties, MODE, MODES, status):
        told = list_of(member(properties, MODE, MODES))
        return _describe("mode", status.get(MODE), arguments.get(MODE), told, is_mode=True)
    if tool == SET_CONFIG_OPTION and _is_coding_agent(properties, "option", OPTIONS, status):
        id = arguments.get("option")
        option = _find(list_of(member(properties, "option", OPTIONS)), id)
        now = mapping_of(json_of(text_of(status.get("config")))).get(id) if isinstance(id, str) else None
        values = list_of(option.get("values"))
        is_mode = option.get("mode") is True or id == MODE
        name = f"option {quote_word(id)}"
        return _describe(name, now, arguments.get("value"), values, is_mode=is_mode)
    return None


def _is_coding_agent(properties: Mapping[str, Any], name: str, of: str, status: Mapping[str, Any]) -> bool:
    return isinstance(member(properties, name, of), list) or (
        isinstance(status.get("rule"), str) and isinstance(status.get(MODE), str)
    )


def _describe(what: str, now: object, wanted: object, told: list[Any], *, is_mode: bool) -> ProposedChange:
    choice = _find(told, wanted)
    words = ": ".join(filter(None, (line_of(choice.get("name"), 80), line_of(choice.get("about"), ABOUT))))
    in_words = f"; in its words: “{words}”" if words else ""
    before = quote_word(now) if now not in (None, "") else "unknown"
    rights = "; what it does not ask about runs with your rights" if is_mode else ""
    about = f"{what}: {before} now, {quote_word(wanted)} after{in_words}{rights}"
    if not is_mode or choice.get("asks") is True:
        return ProposedChange(about)
    return ProposedChange(about, (NOT_KNOWN_TO_ASK.format(mode=quote_word(wanted)),))


def _find(told: list[Any], id: object) -> Mapping[str, Any]:
    return next((one for one in map(mapping_of, told) if one.get("id") == id), {})


def quote_word(value: object) -> str:
    """A value as a word of a sentence; in quotes where it could be read as more of the sentence."""
    text = one_line(value if isinstance(value, str) else str(value), 60)
    return (
        text
        if text.isascii() and text.replace("-", "").replace("_", "").replace(".", "").isalnum()
        else f"“{text}”"
    )
