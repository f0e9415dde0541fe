"""Reads the values that LangGraph programs interrupt with, and makes the values that they are resumed with.

Each value asks for some calls, and says in which form the decisions about them are expected:

- LangChain's `HumanInTheLoopMiddleware`: `{"action_requests", "review_configs"}`, answered by `{"decisions": [...]}`, or
  one call with `"type": "tool_approval"`, answered by one decision;
- Agent Inbox: a `HumanInterrupt`, or a list of them, answered by a list of `HumanResponse`;
- `{"tool": name, "arguments": {...}}`, answered by `{"approved", "arguments", "reason"}`;
- any other value is a question, answered by the value that it is resumed with.

A program says which decisions it takes. An edit that it does not take refuses the call, and the reason names the
arguments that were approved. A program that takes no refusal is an error before anybody is asked. This module knows no
framework.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from mew_lab.bridge.tool_approvals import PendingCall, ToolDecision
from mew_lab.errors import ConfigError, ProposalEnded
from mew_lab.protocol.coerce import list_of, mapping_of, member
from mew_lab.protocol.difference import are_equal
from mew_lab.protocol.json_schema import Validator, resolve_reference

__all__ = ["ANSWER", "InterruptForm", "describe_edit", "read_interrupt"]

ANSWER: Final = "answer"
"""The tool of a question, with a digest of its schema behind it where it has one. Its argument of this name is what the
program gets."""
MAX_NAME: Final = 128
HELP: Final = (
    "Answers the question of a program. Approve it with another `answer` to give that one; a rejection answers "
    "`false`, or tells the reason where the program takes a text."
)
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)


class InterruptForm(NamedTuple):
    """What one interrupt asks for: `answer` makes the value to resume with of the decisions about its calls."""

    calls: tuple[PendingCall, ...]
    answer: Callable[[Sequence[ToolDecision]], Any]


def read_interrupt(value: Any, response_schema: Any = None) -> InterruptForm:
    """The calls that an interrupt with this value asks for, and how it is answered.

    Args:
        value: The value of the interrupt.
        response_schema: The JSON Schema of what it takes, where the program gives one.

    Raises:
        ConfigError: the program takes no refusal of a call.
    """
    schema = response_schema if isinstance(response_schema, dict) else None
    if isinstance(value, dict):
        if (actions := _read_actions(value)) is not None:
            return _join(actions, lambda decisions: {"decisions": decisions})
        if value.get("type") == "tool_approval" and _is_call(value, "name", "args"):
            action = _read_single(value, schema)
            return InterruptForm((action.call,), lambda decisions: action.answer(decisions[0]))
        if _is_call(value, "tool", "arguments"):
            return _read_plain(value)
    listed = value if isinstance(value, list) else [value]
    if listed and all(map(_is_inbox, listed)):
        return _join([_read_inbox(each) for each in listed], list)
    return _read_question(value, schema)


def describe_edit(decision: ToolDecision) -> str:
    """The sentence for a model whose call was approved with other arguments, where only its own can be executed."""
    return f"Approved only with other arguments: {json.dumps(decision.arguments)}. Ask again with these."


class _Words(NamedTuple):
    """How a program is told of each decision; None where it does not take that one."""

    approve: Callable[[], Any] | None
    edit: Callable[[dict[str, Any]], Any] | None
    reject: Callable[[str], Any] | None
    respond: Callable[[str], Any] | None


class _Action(NamedTuple):
    """One call, and the answer to it."""

    call: PendingCall
    answer: Callable[[ToolDecision], Any]


def _join(actions: Sequence[_Action], wrap: Callable[[list[Any]], Any]) -> InterruptForm:
    def answer(decisions: Sequence[ToolDecision]) -> Any:
        return wrap([each.answer(decision) for each, decision in zip(actions, decisions, strict=True)])

    return InterruptForm(tuple(each.call for each in actions), answer)


def _read_action(
    name: str, arguments: Mapping[str, Any], words: _Words, question: Any, schema: Mapping[str, Any] | None
) -> _Action:
    refuse = words.reject or words.respond
    if refuse is None:
        raise ConfigError(
            f"Cannot ask for a decision on {name!r:.80}: its program takes no refusal, so a rejected call would go on. "
            "Let it take reject or respond (LangChain), ignore or respond (Agent Inbox)",
            key="interrupt",
        )
    approve, edit, respond = words.approve, words.edit, words.respond
    if approve is None and edit is None:
        if respond is None:
            raise ConfigError(
                f"Cannot ask for a decision on {name!r:.80}: its program takes neither an approval nor an answer",
                key="interrupt",
            )
        return _read_text_question(question, respond, refuse)

    def answer(decision: ToolDecision) -> Any:
        if not decision.approved:
            return refuse(decision.reason)
        if not decision.edited and approve is not None:
            return approve()
        if edit is not None:
            return edit(decision.arguments if decision.edited else dict(arguments))
        return refuse(describe_edit(decision))

    return _Action(PendingCall(_fit_name(name), _as_json(arguments), schema=schema), answer)


def _read_text_question(
    question: Any, respond: Callable[[str], Any], refuse: Callable[[str], Any]
) -> _Action:
    def answer(decision: ToolDecision) -> Any:
        if not decision.approved:
            return refuse(decision.reason)
        if not _is_asked(call, decision):
            return refuse("Not answered: it was approved as another question.")
        given = decision.arguments.get(ANSWER)
        return respond(given if isinstance(given, str) else json.dumps(given))

    call = _ask(question, {ANSWER: "yes"}, {"type": "string"})
    return _Action(call, answer)


# --- LangChain ---


def _read_actions(value: Mapping[str, Any]) -> list[_Action] | None:
    """The calls of a request of `HumanInTheLoopMiddleware`; None where it is none."""
    requests, configs = value.get("action_requests"), value.get("review_configs")
    if not isinstance(requests, list) or not all(_is_call(each, "name", "args") for each in requests):
        return None
    configs = [each for each in list_of(configs) if isinstance(each, dict)]
    actions = []
    for place, request in enumerate(requests):
        name = request["name"]
        # By place where there is one for each call; else one is for all calls of its tool.
        own = configs[place : place + 1] if len(configs) == len(requests) else configs
        config: Mapping[str, Any] = next((each for each in own if each.get("action_name") == name), {})
        allowed = config.get("allowed_decisions")
        allowed = allowed if isinstance(allowed, list) else ["approve", "reject"]
        actions.append(_read_action(name, request["args"], _langchain_words(name, allowed), request, None))
    return actions


def _read_single(value: Mapping[str, Any], schema: Mapping[str, Any] | None) -> _Action:
    """The call of a request for one call; the schema of its response says which decisions it takes."""
    allowed, arguments = _read_decisions(schema or {})
    words = _langchain_words(value["name"], allowed or ["approve", "reject"])
    return _read_action(value["name"], value["args"], words, value, arguments)


def _langchain_words(name: str, allowed: Sequence[Any]) -> _Words:
    return _Words(
        (lambda: {"type": "approve"}) if "approve" in allowed else None,
        (lambda arguments: {"type": "edit", "edited_action": {"name": name, "args": arguments}})
        if "edit" in allowed
        else None,
        (lambda reason: {"type": "reject", "message": reason}) if "reject" in allowed else None,
        (lambda text: {"type": "respond", "message": text}) if "respond" in allowed else None,
    )


def _read_decisions(schema: Mapping[str, Any]) -> tuple[list[str], dict[str, Any] | None]:
    """The decisions that the schema of a response names, and the schema of the arguments of an edit."""
    shared = mapping_of(schema.get("$defs"))
    allowed, arguments = [], None
    for each in (schema, *shared.values()):
        members = member(each, "properties")
        if isinstance(kind := member(members, "type", "const"), str):
            allowed.append(kind)
        elif isinstance(members, dict) and isinstance(members.get("args"), dict) and "name" in members:
            form, reference = members["args"], members["args"].get("$ref")
            if isinstance(reference, str):
                form = resolve_reference({"$defs": shared}, reference)
            arguments = {**form, "$defs": shared} if isinstance(form, dict) else None
    return allowed, arguments


# --- Agent Inbox ---


def _is_inbox(value: object) -> bool:
    return (
        isinstance(value, dict)
        and _is_call(value.get("action_request"), "action", "args")
        and isinstance(value.get("config"), dict)
    )


def _read_inbox(value: Mapping[str, Any]) -> _Action:
    name, config = value["action_request"]["action"], value["config"]

    def respond(text: str) -> dict[str, Any]:
        return {"type": "response", "args": text}

    can_respond = config.get("allow_respond") is True
    ignore = config.get("allow_ignore") is True
    words = _Words(
        (lambda: {"type": "accept", "args": None}) if config.get("allow_accept") is True else None,
        (lambda arguments: {"type": "edit", "args": {"action": name, "args": arguments}})
        if config.get("allow_edit") is True
        else None,
        # A response tells the reason, and an ignored call does not.
        respond if can_respond else (lambda _: {"type": "ignore", "args": None}) if ignore else None,
        respond if can_respond else None,
    )
    question = {"action_request": value["action_request"], "description": value.get("description")}
    return _read_action(name, value["action_request"]["args"], words, question, None)


# --- other values ---


def _read_plain(value: Mapping[str, Any]) -> InterruptForm:
    arguments = value["arguments"]

    def answer(decisions: Sequence[ToolDecision]) -> dict[str, Any]:
        (decision,) = decisions
        # What was approved as it stands keeps its objects that no JSON has.
        approved = decision.arguments if decision.edited else dict(arguments)
        return {"approved": decision.approved, "arguments": approved, "reason": decision.reason}

    return InterruptForm((PendingCall(_fit_name(value["tool"]), _as_json(arguments)),), answer)


def _read_question(value: Any, schema: Mapping[str, Any] | None) -> InterruptForm:
    def takes(answer: bool) -> bool:
        return schema is None or not Validator(schema).validate(answer).violations

    def answer(decisions: Sequence[ToolDecision]) -> Any:
        (decision,) = decisions
        if decision.approved and _is_asked(call, decision):
            return decision.arguments.get(ANSWER)
        if decision.approved:
            why = "it was approved as another question"
        elif not decision.decided:
            why = decision.reason
        elif takes(False):
            return False
        else:
            why = f"it takes no refusal. {decision.reason}"
        raise ProposalEnded(f"The question of the program was not answered: {why}", proposal="", reason=why)

    call = _ask(value, {ANSWER: True} if takes(True) else {}, schema)
    return InterruptForm((call,), answer)


def _ask(question: Any, suggested: Mapping[str, Any], schema: Mapping[str, Any] | None) -> PendingCall:
    """The call of a question; approved as it stands, it gives the suggested answer."""
    text = "" if schema is None else json.dumps(schema, sort_keys=True, default=str)
    return PendingCall(
        # Questions are asked side by side, and one tool has one schema.
        f"{ANSWER}_{blake2b(text.encode(), digest_size=4).hexdigest()}" if text else ANSWER,
        {"question": _as_json(question), **suggested},
        HELP,
        {"type": "object", "properties": {"question": {}, ANSWER: schema or {}}, "required": [ANSWER]},
    )


def _is_asked(call: PendingCall, decision: ToolDecision) -> bool:
    """Whether the question that was approved is the one that was asked."""
    return are_equal(call.arguments["question"], decision.arguments.get("question"))


def _is_call(value: object, name: str, arguments: str) -> bool:
    """Whether an object names a call by these members."""
    return (
        isinstance(value, dict)
        and isinstance(value.get(name), str)
        and isinstance(value.get(arguments), dict)
    )


def _fit_name(name: str) -> str:
    """The name of an action as one of a tool: programs also use sentences."""
    return _FOREIGN.sub("_", name)[:MAX_NAME].strip("_") or "action"


def _as_json(value: Any) -> Any:
    """A value of a program as JSON has it; objects of other types as their texts."""
    try:
        text = json.dumps(value, default=str, allow_nan=False, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):  # a cycle, no number, or keys that are no texts
        text = json.dumps(repr(value), ensure_ascii=False)
    return json.loads(text.encode("utf-8", "replace"))
