"""What a reader finds in the ten captured sessions of the TypeScript gateway, written down from reading their lines.

A number is the line of `envelope-history.jsonl` on which a message first stands: where it came in, or, for a message of
the gateway, where it was first delivered. `refused(n)` is line n of `capability-decisions.jsonl`, for a message that the
gateway refused and whose text is in no file.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["READINGS", "Call", "Found", "Proposed", "Reading", "refused"]


def refused(line: int) -> int:
    return -line


class Found(NamedTuple):
    """A fault or oddity: its line, the rule, its severity, the row of the requirements, and the lines it is about."""

    line: int
    rule: str
    severity: str
    requirement: str
    about: tuple[int, ...] = ()


class Proposed(NamedTuple):
    """A proposal: its line, what was proposed by whom; and who decided it, by the request on which line."""

    line: int
    by: str
    tool: str
    state: str = "open"
    decided_by: str = ""
    request: int = 0


class Call(NamedTuple):
    """A request that reached its target: its line, who called what of whom, and the line of the answer that counts."""

    line: int
    by: str
    of: str
    what: str
    answer: int = 0


class Reading(NamedTuple):
    """What was read in one capture.

    `messages` are the different envelopes with their text, joins left out. `own_right` counts the requests that name no
    proposal; `unreceipted` are those that carry out a proposal. `exchanges` maps a message to all that belong to it.
    `there_only` are the findings that only that gateway causes, so that they are none when the session is sent again to
    ours.
    """

    messages: int
    participants: tuple[str, ...]
    found: tuple[Found, ...]
    exchanges: dict[int, tuple[int, ...]]
    proposals: tuple[Proposed, ...] = ()
    calls: tuple[Call, ...] = ()
    own_right: dict[str, int] = {}
    unreceipted: tuple[int, ...] = ()
    refusals: tuple[tuple[int, str, str], ...] = ()
    there_only: tuple[Found, ...] = ()


def each(lines: tuple[int, ...], rule: str, severity: str, requirement: str) -> tuple[Found, ...]:
    return tuple(Found(line, rule, severity, requirement) for line in lines)


def text_for_correlation(*lines: int) -> tuple[Found, ...]:
    """`correlation_id` came in as a text. Spec: §3, it is always an array."""
    return each(lines, "correlation-no-list", "note", "P-3-9")


def bare_request(*lines: int) -> tuple[Found, ...]:
    """The payload has a method, and neither `jsonrpc` nor `id`. Ruling R5."""
    return each(lines, "request-without-rpc-members", "note", "P-3.1.1-1")


def bare_response(*lines: int) -> tuple[Found, ...]:
    """The payload has a result, and neither `jsonrpc` nor `id`. Ruling R5."""
    return each(lines, "response-without-rpc-members", "note", "P-3.1.2-2")


def not_answered(*lines: int) -> tuple[Found, ...]:
    return each(lines, "unanswered-request", "warn", "")


READINGS: dict[str, Reading] = {
    # test-client says eleven things by HTTP, echo-agent repeats each. Nothing else happens.
    "1-basic": Reading(
        messages=25,
        participants=("echo-agent", "test-client"),
        found=text_for_correlation(*range(8, 69, 6)),
        exchanges={5: (5, 8), 38: (35, 38)},
    ),
    # test-client lists the tools of calculator-agent and calls add, multiply, evaluate twice and a tool that there is
    # not. The last answer is an error with the text NOT_FOUND where JSON-RPC wants a number: the call failed.
    "2-mcp": Reading(
        messages=15,
        participants=("calculator-agent", "test-client"),
        found=(
            *text_for_correlation(8, 14, 20, 26, 32, 38),
            *bare_request(5, 11, 17, 23, 29, 35),
            *bare_response(8, 14, 20, 26, 32),
            Found(38, "failed-call", "note", "", (35,)),
            Found(38, "malformed-answer", "warn", "P-3-21", (35,)),
        ),
        exchanges={11: (11, 14), 38: (35, 38)},
        calls=(
            Call(5, "test-client", "calculator-agent", "tools/list", 8),
            Call(11, "test-client", "calculator-agent", "add", 14),
            Call(17, "test-client", "calculator-agent", "multiply", 20),
            Call(23, "test-client", "calculator-agent", "evaluate", 26),
            Call(29, "test-client", "calculator-agent", "evaluate", 32),
            Call(35, "test-client", "calculator-agent", "invalid", 38),
        ),
        own_right={"test-client": 6},
    ),
    # proposer proposes three calls to nobody in particular. fulfiller makes each of them without naming the proposal:
    # nobody decided anything, and the proposer is told of the result in a chat that names nothing either.
    "3-proposals": Reading(
        messages=17,
        participants=("calculator-agent", "fulfiller", "proposer"),
        found=(
            *text_for_correlation(17, 33, 49),
            *bare_request(13, 29, 45),
            *bare_response(17, 33),
            Found(13, "approval-without-reference", "warn", "P-3.2.1-3", (9,)),
            Found(29, "approval-without-reference", "warn", "P-3.2.1-3", (25,)),
            Found(45, "approval-without-reference", "warn", "P-3.2.1-3", (41,)),
            Found(49, "failed-call", "note", "", (45,)),
            Found(49, "malformed-answer", "warn", "P-3-21", (45,)),
        ),
        exchanges={9: (9,), 13: (13, 17), 53: (53,)},
        proposals=(
            Proposed(9, "proposer", "add"),
            Proposed(25, "proposer", "multiply"),
            Proposed(41, "proposer", "not-a-tool"),
        ),
        calls=(
            Call(13, "fulfiller", "calculator-agent", "add", 17),
            Call(29, "fulfiller", "calculator-agent", "multiply", 33),
            Call(45, "fulfiller", "calculator-agent", "not-a-tool", 49),
        ),
        own_right={"fulfiller": 3},
    ),
    # research-agent asks itself, thinks three times, calls three times within its reasoning, concludes, and answers.
    "5-reasoning": Reading(
        messages=16,
        participants=("calculator-agent", "research-agent"),
        found=(
            *text_for_correlation(17, 26, 35),
            *bare_request(14, 23, 32),
            *bare_response(17, 26, 35),
        ),
        exchanges={8: (5, 8, 11, 14, 17, 20, 23, 26, 29, 32, 35, 38, 41)},
        calls=(
            Call(14, "research-agent", "calculator-agent", "multiply", 17),
            Call(23, "research-agent", "calculator-agent", "multiply", 26),
            Call(32, "research-agent", "calculator-agent", "add", 35),
        ),
        own_right={"research-agent": 3},
    ),
    # Three calls of a bridged file server, all answered.
    "7-mcp-bridge": Reading(
        messages=9,
        participants=("filesystem", "test-client"),
        found=(*bare_request(5, 11, 17), *bare_response(8, 14, 20)),
        exchanges={11: (11, 14)},
        calls=(
            Call(5, "test-client", "filesystem", "tools/list", 8),
            Call(11, "test-client", "filesystem", "read_file", 14),
            Call(17, "test-client", "filesystem", "list_directory", 20),
        ),
        own_right={"test-client": 3},
    ),
    # typescript-agent wants the tools of test-client, a script, which never tells them. It answers four calls. It would
    # acknowledge a chat, and may not: it holds chat, which is not chat/acknowledge.
    "8-typescript-agent": Reading(
        messages=16,
        participants=("test-client", "typescript-agent"),
        found=(
            *bare_request(5),
            *bare_response(11, 17, 23, 29),
            *not_answered(5),
            Found(refused(11), "denied", "warn", "S-SEC-3"),
        ),
        exchanges={14: (14, 17)},
        calls=(
            Call(5, "typescript-agent", "test-client", "tools/list"),
            Call(8, "test-client", "typescript-agent", "tools/list", 11),
            Call(14, "test-client", "typescript-agent", "calculate", 17),
            Call(20, "test-client", "typescript-agent", "calculate", 23),
            Call(26, "test-client", "typescript-agent", "echo", 29),
        ),
        own_right={"test-client": 4, "typescript-agent": 1},
        refusals=((refused(11), "typescript-agent", "chat/acknowledge"),),
    ),
    # The one proposal that is decided as the specification says: typescript-agent proposes add to fulfiller-agent,
    # test-client sends that call and names the proposal, fulfiller-agent answers. No file says who decided, and how.
    "9-typescript-proposals": Reading(
        messages=17,
        participants=("fulfiller-agent", "test-client", "typescript-agent"),
        found=(
            *bare_request(9, 17),
            *bare_response(13, 34, 46),
            *not_answered(17),
            Found(refused(5), "denied", "warn", "S-SEC-3"),
        ),
        exchanges={26: (26, 30, 34), 34: (26, 30, 34), 9: (9, 13)},
        proposals=(Proposed(26, "typescript-agent", "add", "answered", "test-client", 30),),
        calls=(
            Call(9, "typescript-agent", "fulfiller-agent", "tools/list", 13),
            Call(17, "typescript-agent", "test-client", "tools/list"),
            Call(30, "test-client", "fulfiller-agent", "add", 34),
            Call(42, "test-client", "typescript-agent", "tools/list", 46),
        ),
        own_right={"test-client": 1, "typescript-agent": 2},
        unreceipted=(30,),
        refusals=((refused(5), "typescript-agent", "chat/acknowledge"),),
    ),
    # control-agent acknowledges a chat, then cancels it, as it is told to. Its reasoning has the context in the payload
    # throughout, where nobody looks for it: so thought, conclusion and cancel belong to nothing, and nothing ends.
    "11-chat-controls": Reading(
        messages=13,
        participants=("control-agent", "test-client"),
        found=(
            Found(20, "start-without-message", "note", "P-3.5.2-1"),
            Found(20, "unfinished-reasoning", "note", ""),
            Found(23, "thought-without-context", "warn", "P-3.5.3-1"),
            Found(23, "thought-without-message", "note", "P-3.5.3-1"),
            Found(26, "conclusion-without-context", "warn", "P-3.5.4-1"),
            Found(26, "conclusion-without-message", "note", "P-3.5.4-1"),
            Found(32, "cancel-without-reasoning", "warn", "P-3.5.5-1"),
        ),
        exchanges={5: (5, 8, 14), 20: (17, 20), 23: (23,), 32: (29, 32)},
    ),
    # control-agent opens stream-1, without a direction, and leaves it open. test-client announces a stream-123 of its
    # own, which the gateway never opened and which is closed by naming that announcement: control-agent believes both.
    "12-stream-controls": Reading(
        messages=11,
        participants=("control-agent", "test-client"),
        found=(
            Found(8, "stream-without-direction", "warn", "P-3.10.1-1"),
            Found(9, "open-stream", "note", ""),
            Found(16, "foreign-stream-open", "warn", "P-3.10.1-9"),
            Found(22, "close-without-stream", "warn", "P-3.10.4-1"),
        ),
        exchanges={8: (5, 8, 9, 13, 16, 19, 22, 25)},
    ),
    # client-a opens a stream and closes it. That gateway announces neither client-b nor client-c to the others.
    "15-stream-visibility": Reading(
        messages=9,
        participants=("client-a", "client-b", "client-c"),
        found=(),
        exchanges={4: (4, 5, 10)},
        there_only=(
            Found(6, "join-not-announced", "warn", "P-3.7-1"),
            Found(13, "join-not-announced", "warn", "P-3.7-1"),
        ),
    ),
}
