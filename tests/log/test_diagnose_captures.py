"""The findings in the ten captures, written down from reading them: no false error, and every real oddity."""

from __future__ import annotations

from pathlib import Path

import pytest

from mew_lab.log.log import open_log

NO_RPC_ANSWER = "the payload has a result and no jsonrpc (R5)"
ONE = "it was sent with a text as correlation_id"
NO_RPC = "the payload has a method and no jsonrpc (R5)"
# capture -> (place of the record, rule, why a reader finds it there)
FINDINGS: dict[str, list[tuple[int, str, str]]] = {
    # Eleven chat messages, each echoed once within milliseconds.
    "1-basic": [*((place, "correlation-no-list", ONE) for place in range(6, 27, 2))],
    "2-mcp": [
        *((place, "response-without-rpc-members", NO_RPC_ANSWER) for place in (6, 8, 10, 12, 14)),
        *((place, "correlation-no-list", ONE) for place in (6, 8, 10, 12, 14, 16)),
        *((place, "request-without-rpc-members", NO_RPC) for place in (5, 7, 9, 11, 13, 15)),
        (15, "unanswered-request", "its only answer is the next row, which no participant can read"),
        (16, "malformed-call", "error.code is the text NOT_FOUND, and JSON-RPC wants a number"),
    ],
    "3-proposals": [
        *((place, "response-without-rpc-members", NO_RPC_ANSWER) for place in (10, 14)),
        *((place, "correlation-no-list", ONE) for place in (10, 14, 18)),
        *((place, "request-without-rpc-members", NO_RPC) for place in (9, 13, 17)),
        *(
            (
                place,
                "approval-without-reference",
                "fulfiller sends the proposed call, correlation_id is absent",
            )
            for place in (9, 13, 17)
        ),
        (17, "unanswered-request", "as in 2-mcp: the answer has a text as its error code"),
        (18, "malformed-call", "error.code is the text NOT_FOUND"),
    ],
    "5-reasoning": [
        *((place, "response-without-rpc-members", NO_RPC_ANSWER) for place in (9, 12, 15)),
        *((place, "correlation-no-list", ONE) for place in (9, 12, 15)),
        *((place, "request-without-rpc-members", NO_RPC) for place in (8, 11, 14)),
    ],
    "7-mcp-bridge": [
        *((place, "response-without-rpc-members", NO_RPC_ANSWER) for place in (6, 8, 10)),
        *((place, "request-without-rpc-members", NO_RPC) for place in (5, 7, 9)),
    ],
    "8-typescript-agent": [
        *((place, "response-without-rpc-members", NO_RPC_ANSWER) for place in (7, 9, 11, 13)),
        (5, "request-without-rpc-members", "tools/list with a method alone"),
        (5, "unanswered-request", "test-client is a script and never lists its tools"),
        (15, "denied", "the agent acknowledges the chat without the right to"),
    ],
    "9-typescript-proposals": [
        *((place, "response-without-rpc-members", NO_RPC_ANSWER) for place in (9, 16, 19)),
        (8, "request-without-rpc-members", "tools/list with a method alone"),
        (10, "request-without-rpc-members", "tools/list with a method alone"),
        (10, "unanswered-request", "test-client is a script and never lists its tools"),
        (13, "denied", "the agent acknowledges the chat without the right to"),
    ],
    "11-chat-controls": [
        (10, "start-without-message", "the payload has hint and context, and no message"),
        (10, "unfinished-reasoning", "nothing after it has a context member, so nothing ends it"),
        (11, "thought-without-context", "the context stands in the payload"),
        (11, "thought-without-message", "the payload has text"),
        (12, "conclusion-without-context", "the context stands in the payload"),
        (12, "conclusion-without-message", "the payload has text"),
        (14, "cancel-without-reasoning", "the context stands in the payload"),
    ],
    "12-stream-controls": [
        (6, "stream-without-direction", "the payload has modes and metadata"),
        (7, "open-stream", "stream-1 is never closed"),
        (9, "foreign-stream-open", "test-client announces stream-123, which the gateway never opened"),
        (11, "close-without-stream", "it refers to test-client's own announcement of stream-123"),
    ],
    # One stream is opened, listed to a late comer, and closed by its owner.
    "15-stream-visibility": [
        (5, "join-not-announced", "client-b is welcomed and speaks, and no presence tells client-a"),
        (8, "join-not-announced", "client-c is welcomed and speaks, and no presence tells the others"),
    ],
}


@pytest.fixture(params=sorted(FINDINGS))
def capture(request: pytest.FixtureRequest, shared: Path) -> Path:
    return shared / "captures" / str(request.param)


def test_a_capture_has_the_findings_that_a_reader_has(capture: Path) -> None:
    found = [(finding.place, finding.rule) for finding in open_log(capture).diagnose()]
    assert sorted(found) == sorted((place, rule) for place, rule, _ in FINDINGS[capture.name])


def test_no_capture_has_an_error(capture: Path) -> None:
    assert not list(open_log(capture).diagnose("error"))


def test_every_capture_was_read(shared: Path) -> None:
    assert {path.name for path in (shared / "captures").iterdir()} == set(FINDINGS)


def test_each_requirement_of_a_rule_is_a_row_of_the_requirements(shared: Path) -> None:
    import csv

    from mew_lab.log.diagnose.diagnosis import RULES

    with (shared / "requirements.csv").open(encoding="utf-8") as lines:
        rows = {row["id"] for row in csv.DictReader(lines)}
    assert {rule.requirement for rule in RULES.values()} - {""} <= rows
