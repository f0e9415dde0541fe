"""The values that LangGraph programs interrupt with: the calls they ask for, and the value that resumes each."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.bridge.frameworks.arguments import read_arguments
from mew_lab.bridge.frameworks.interrupts import ANSWER, read_interrupt
from mew_lab.bridge.tool_approvals import PendingCall, ToolDecision
from mew_lab.errors import ConfigError, ProposalEnded

from ..conftest import examples

ARGUMENTS = {"path": "a"}
OTHER = {"path": "b"}
APPROVED = ToolDecision(True, ARGUMENTS)
EDITED = ToolDecision(True, OTHER, edited=True)
REJECTED = ToolDecision(False, ARGUMENTS, reason="not this")
OTHER_ONLY = 'Approved only with other arguments: {"path": "b"}. Ask again with these.'


def resumed(value: Any, *decisions: ToolDecision, schema: Any = None) -> Any:
    form = read_interrupt(value, schema)
    assert len(form.calls) == len(decisions)
    return form.answer(decisions)


def of_langchain(*allowed: str) -> dict[str, Any]:
    return {
        "action_requests": [{"name": "write", "args": ARGUMENTS, "description": "Writes"}],
        "review_configs": [{"action_name": "write", "allowed_decisions": [*allowed]}],
    }


@pytest.mark.parametrize(
    ("allowed", "decision", "expected"),
    [
        ("approve reject", APPROVED, {"type": "approve"}),
        ("approve reject", REJECTED, {"type": "reject", "message": "not this"}),
        ("approve reject", EDITED, {"type": "reject", "message": OTHER_ONLY}),
        ("approve edit reject", EDITED, {"type": "edit", "edited_action": {"name": "write", "args": OTHER}}),
        ("edit reject", APPROVED, {"type": "edit", "edited_action": {"name": "write", "args": ARGUMENTS}}),
        ("approve respond", REJECTED, {"type": "respond", "message": "not this"}),
        ("approve edit reject respond", REJECTED, {"type": "reject", "message": "not this"}),
    ],
)
def test_a_decision_is_one_that_langchain_takes(allowed: str, decision: ToolDecision, expected: Any) -> None:
    assert resumed(of_langchain(*allowed.split()), decision) == {"decisions": [expected]}


def test_each_call_of_a_request_has_its_own_decisions() -> None:
    """By place; a configuration for each tool, as earlier versions sent it, is found by the name."""
    requests = [{"name": name, "args": {"n": n}} for n, name in enumerate(("read", "write", "read"))]
    configs = [
        {"action_name": "read", "allowed_decisions": ["approve", "reject"]},
        {"action_name": "write", "allowed_decisions": ["approve", "edit", "reject"]},
    ]
    form = read_interrupt({"action_requests": requests, "review_configs": configs})
    assert [(call.name, call.arguments) for call in form.calls] == [
        ("read", {"n": 0}),
        ("write", {"n": 1}),
        ("read", {"n": 2}),
    ]
    edited = [ToolDecision(True, {"n": 9}, edited=True)] * 3
    assert [each["type"] for each in form.answer(edited)["decisions"]] == ["reject", "edit", "reject"]
    of_one_tool = [{**configs[0], "action_name": "write"}, configs[1]]
    form = read_interrupt({"action_requests": [requests[1]] * 2, "review_configs": of_one_tool})
    assert [each["type"] for each in form.answer(edited[:2])["decisions"]] == ["reject", "edit"]


SCHEMA = {
    "$defs": {
        "ApproveDecision": {"properties": {"type": {"const": "approve"}}, "required": ["type"]},
        "EditDecision": {"properties": {"type": {"const": "edit"}, "edited_action": {"$ref": "#/$defs/E"}}},
        "E": {"properties": {"name": {"const": "write"}, "args": {"$ref": "#/$defs/write"}}},
        "RejectDecision": {"properties": {"type": {"const": "reject"}}},
        "write": {"type": "object", "properties": {"path": {"type": "string"}}},
    },
    "oneOf": [{"$ref": "#/$defs/ApproveDecision"}],
}
ONE_CALL = {
    "type": "tool_approval",
    "tool_call_id": "c",
    "name": "write",
    "args": ARGUMENTS,
    "description": "",
}


def test_a_request_for_one_call_is_answered_by_one_decision_of_its_schema() -> None:
    form = read_interrupt(ONE_CALL, SCHEMA)
    (call,) = form.calls
    assert (call.name, call.arguments) == ("write", ARGUMENTS)
    assert call.schema == {**SCHEMA["$defs"]["write"], "$defs": SCHEMA["$defs"]}  # type: ignore[dict-item]
    assert form.answer([APPROVED]) == {"type": "approve"}
    assert form.answer([EDITED]) == {"type": "edit", "edited_action": {"name": "write", "args": OTHER}}
    assert form.answer([REJECTED]) == {"type": "reject", "message": "not this"}
    only = {"properties": {"type": {"const": "reject"}}, "type": "object"}
    with pytest.raises(ConfigError, match="neither an approval nor an answer"):
        read_interrupt(ONE_CALL, only)


def of_inbox(*allowed: str, action: str = "write") -> dict[str, Any]:
    names = ("ignore", "respond", "edit", "accept")
    return {
        "action_request": {"action": action, "args": ARGUMENTS},
        "config": {f"allow_{name}": name in allowed for name in names},
        "description": "Please look",
    }


@pytest.mark.parametrize(
    ("allowed", "decision", "expected"),
    [
        ("accept ignore", APPROVED, {"type": "accept", "args": None}),
        ("accept ignore", REJECTED, {"type": "ignore", "args": None}),
        ("accept ignore respond", REJECTED, {"type": "response", "args": "not this"}),
        ("accept respond", EDITED, {"type": "response", "args": OTHER_ONLY}),
        ("accept edit ignore", EDITED, {"type": "edit", "args": {"action": "write", "args": OTHER}}),
        ("edit ignore", APPROVED, {"type": "edit", "args": {"action": "write", "args": ARGUMENTS}}),
    ],
)
def test_a_decision_is_one_that_agent_inbox_sends(
    allowed: str, decision: ToolDecision, expected: Any
) -> None:
    value = of_inbox(*allowed.split())
    assert resumed([value], decision) == [expected]
    assert resumed(value, decision) == [expected]  # always a list
    assert resumed([value, value], decision, decision) == [expected, expected]


def test_an_action_that_is_a_sentence_is_a_tool_with_a_fitting_name() -> None:
    value = of_inbox("accept", "edit", "ignore", action="Approve this e-mail, please!")
    assert read_interrupt(value).calls[0].name == "Approve_this_e-mail_please"
    assert resumed(value, EDITED)[0]["args"]["action"] == "Approve this e-mail, please!"
    assert read_interrupt(of_inbox("accept", "ignore", action="!?")).calls[0].name == "action"


def test_a_request_that_takes_only_a_text_is_a_question() -> None:
    for value, said, unsaid in (
        (of_langchain("respond"), {"decisions": [{"type": "respond", "message": "in May"}]}, "decisions"),
        (of_inbox("respond"), [{"type": "response", "args": "in May"}], 0),
    ):
        form = read_interrupt(value)
        (call,) = form.calls
        assert call.name.startswith(f"{ANSWER}_") and call.arguments[ANSWER] == "yes"
        assert "a" in json.dumps(call.arguments["question"])
        answered = ToolDecision(True, {**call.arguments, ANSWER: "in May"}, edited=True)
        assert form.answer([answered]) == said
        assert "not this" in json.dumps(form.answer([REJECTED])[unsaid])
        other = ToolDecision(True, {"question": "another", ANSWER: "yes"}, edited=True)
        assert "approved as another question" in json.dumps(form.answer([other])[unsaid])


@pytest.mark.parametrize(
    "value",
    [of_langchain("approve"), of_langchain("approve", "edit"), of_inbox("accept"), [of_inbox("edit")]],
)
def test_a_program_that_takes_no_refusal_is_an_error_before_anybody_is_asked(value: Any) -> None:
    with pytest.raises(ConfigError, match="takes no refusal"):
        read_interrupt(value)


def test_the_plain_form_keeps_objects_that_no_json_has() -> None:
    thing = object()
    form = read_interrupt({"tool": "write", "arguments": {"thing": thing, "pair": (1, 2)}})
    assert form.calls == (PendingCall("write", {"thing": str(thing), "pair": [1, 2]}),)
    given = form.answer([ToolDecision(True, form.calls[0].arguments)])
    assert given == {"approved": True, "arguments": {"thing": thing, "pair": (1, 2)}, "reason": ""}
    assert form.answer([EDITED])["arguments"] == OTHER
    assert form.answer([REJECTED]) == {
        "approved": False,
        "arguments": {"thing": thing, "pair": (1, 2)},
        "reason": "not this",
    }


@pytest.mark.parametrize(
    "value",
    [
        "Delete it?",
        5,
        None,
        [],
        {},
        [1],
        {"question": "ok?", "draft": "x"},
        {"tool": 5, "arguments": {}},
        object(),
    ],
)
def test_any_other_value_is_a_question_whose_answer_resumes_the_graph(value: Any) -> None:
    form = read_interrupt(value)
    (call,) = form.calls
    assert (call.name, call.arguments[ANSWER]) == (ANSWER, True)
    assert form.answer([ToolDecision(True, call.arguments)]) is True
    for answer in ("in May", None, {"a": [1]}, 0):
        given = ToolDecision(True, {**call.arguments, ANSWER: answer}, edited=True)
        assert form.answer([given]) == answer
    assert form.answer([REJECTED]) is False


def test_a_question_with_a_schema_suggests_and_refuses_only_what_fits() -> None:
    boolean = read_interrupt("ok?", {"type": "boolean"})
    assert boolean.calls[0].arguments[ANSWER] is True and boolean.answer([REJECTED]) is False
    text = read_interrupt("who?", {"type": "string"})
    assert ANSWER not in text.calls[0].arguments
    assert text.calls[0].schema is not None and text.calls[0].schema["properties"][ANSWER] == {
        "type": "string"
    }
    with pytest.raises(ProposalEnded, match=r"takes no refusal\. not this"):
        text.answer([REJECTED])
    assert len({"answer", boolean.calls[0].name, text.calls[0].name}) == 3  # one tool has one schema


def test_a_question_that_nobody_decided_has_no_answer() -> None:
    form = read_interrupt("Pay 5?")
    undecided = ToolDecision(False, {}, reason="Not approved: too large", decided=False)
    with pytest.raises(ProposalEnded, match="was not answered: Not approved: too large"):
        form.answer([undecided])
    other = ToolDecision(True, {"question": "Pay 500?", ANSWER: True}, edited=True)
    with pytest.raises(ProposalEnded, match="approved as another question"):
        form.answer([other])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner)
    ),
    max_leaves=12,
)
NAMES = (
    "action_requests",
    "review_configs",
    "name",
    "args",
    "type",
    "action_request",
    "config",
    "tool",
    "arguments",
)


@given(value=VALUES | st.dictionaries(st.sampled_from(NAMES), VALUES))
@settings(max_examples=examples(200), deadline=None)
def test_no_value_is_read_with_another_error_and_each_call_is_one_of_json(value: Any) -> None:
    try:
        form = read_interrupt(value)
    except ConfigError:
        return
    for call in form.calls:
        assert isinstance(call.name, str) and call.name
        json.dumps(call.arguments, allow_nan=False).encode()
        json.dumps(call.arguments, ensure_ascii=False).encode()
    form.answer([ToolDecision(False, {}, reason="no")] * len(form.calls))
    form.answer([ToolDecision(True, call.arguments) for call in form.calls])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ([float("nan")], "[nan]"),
        ("\ud800", "?"),
        ({1: b"x", "at": (1,)}, {"1": "b'x'", "at": [1]}),
        ({(1, 2): 3}, "{(1, 2): 3}"),
    ],
)
def test_a_question_is_shown_as_json_has_it(value: Any, shown: Any) -> None:
    assert read_interrupt(value).calls[0].arguments["question"] == shown


def test_a_value_with_itself_inside_is_a_question() -> None:
    value: list[Any] = []
    value.append(value)
    assert "[...]" in read_interrupt(value).calls[0].arguments["question"]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('{"path": "a"}', {"path": "a"}),
        ({"path": "a"}, {"path": "a"}),
        ("", {}),
        (None, {}),
        ('{"path": ', None),
        ("[1]", None),
        ('"text"', None),
        ("[" * 100_000, None),
        ('{"n": ' + "9" * 5000 + "}", None),
        (5, None),
    ],
)
def test_arguments_that_are_no_object_are_none(written: object, read: Any) -> None:
    assert read_arguments(written) == read
