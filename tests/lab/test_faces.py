"""What stands on a card, and what it is compared with."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.lab.decisions.faces import MAX_CALLS, LastCalls, answer_of, card_of
from mew_lab.lab.decisions.folding import folded
from mew_lab.lab.decisions.sources import Sources
from mew_lab.protocol.envelope import Envelope

from ..ledger.book import Book


def message(kind: str, payload: Any, id: str = "p", to: tuple[str, ...] = ("git",), **more: Any) -> Envelope:
    return Envelope.of({"id": id, "from": "bot", "kind": kind, "to": list(to), "payload": payload, **more})


def call(tool: str = "git_log", **arguments: Any) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def card(
    payload: dict[str, Any],
    last: LastCalls | None = None,
    given: dict[str, Any] | None = None,
    **more: Any,
) -> Any:
    book = Book()
    book.observe(message("mcp/proposal", payload, **more))
    proposal = book.get("p")
    assert proposal is not None
    known = (last or LastCalls()).of(proposal)
    return card_of(
        proposal,
        since=1.0,
        of_the_tool=("writes",),
        sources=Sources(),
        last=known,
        request_id="r-1",
        **(given or {}),
    )


AT = "/payload/params/arguments/"


@pytest.mark.threat(35)
def test_threat_35_everything_that_will_be_sent_has_a_row_of_its_own() -> None:
    payload = call(n=1) | {"id": 7, "jsonrpc": "2.0", "extra": [1], "params.uri": "ok"}
    payload["params"] |= {"_meta": {"a": 1}, "uri": "/etc/shadow"}
    payload["params"]["arguments"] |= {"params.uri": "ok", "extra": 2}
    found = card(payload)
    assert found.arguments == (
        (AT + "n", "1"),
        (AT + "params.uri", '"ok"'),
        (AT + "extra", "2"),
        ("/to", '["git"]'),
        ("/payload/jsonrpc", '"2.0"'),
        ("/payload/id", '"r-1"'),
        ("/payload/method", '"tools/call"'),
        ("/payload/params/name", '"git_log"'),
        ("/payload/params/_meta", '{"a": 1}'),
        ("/payload/params/uri", '"/etc/shadow"'),
        ("/payload/extra", "[1]"),
        ("/payload/params.uri", '"ok"'),
    )
    assert found.refusal == "" and "absolute path in /payload/params/uri: /etc/shadow" in found.warnings
    assert found.warnings[1:4] == (
        "sent beside the call: /payload/params/uri",
        "sent beside the call: /payload/extra",
        "sent beside the call: /payload/params.uri",
    )


def test_a_card_holds_the_whole_values_and_what_is_risky_in_them() -> None:
    found = card(call(path="/etc/passwd", n=1))
    assert found.details == ((AT + "path", '"/etc/passwd"'), (AT + "n", "1"))
    assert found.warnings == ("writes", "absolute path in path: /etc/passwd")
    assert (found.since, found.last, len(found.digest)) == (1.0, None, 64)
    assert card(call(**{"/etc/passwd": 1})).warnings[1:] == (
        "absolute path in name of /payload/pa…uments/~1etc~1passwd: /etc/passwd",
    )


def test_a_title_loses_neither_target_nor_tool_and_names_the_participant_of_an_id() -> None:
    bot = {"logical": lambda id: {"reviewed": "bot"}.get(id, id)}
    found = card(call(), given=bot, **{"from": "reviewed"})
    assert found.request == "reviewed (participant bot) asks git to run git_log"
    assert card(call(), given=bot, to=("reviewed", "git")).request.startswith(
        "bot asks reviewed (participant bot), git to run"
    )
    crowd = tuple(f"reader-{n}" for n in range(3000))
    many = card(call("x y" * 2000), to=(*["docs"] * 6, "git", *crowd), **{"from": "p" * 300})
    assert " asks docs, git, reader-0 and 2999 more to run x yx" in many.request and len(many.request) < 400
    assert many.warnings[1] == "many addressees: it goes to 3,002 participants, and the title names 3 of them"
    assert "long name: the tool's name has 6,000 characters" in many.warnings
    assert {many.arguments[n][0] for n in folded(many.arguments)} == {"/to", "/payload/params/name"}


def test_what_is_unusual_in_the_request_itself_is_said() -> None:
    said = card(call() | {"jsonrpc": "1.0"}, to=("bot", "git")).warnings
    assert said[1:] == (
        "the proposer is one of those who would run it: its answer may be taken for the outcome",
        'the member jsonrpc is "1.0"; the protocol wants “2.0”',
    )


def test_it_is_compared_with_the_last_request_for_the_same_tool_of_the_same_target() -> None:
    last = LastCalls()
    for n, to, kind in ((1, "git", "mcp/request"), (2, "files", "mcp/request"), (3, "git", "mcp/proposal")):
        last.observe(message(kind, call(n=n), id=str(n), to=(to,)))
    last.observe(message("mcp/request", call("git_add", n=4)))
    assert card(call(n=9), last).last == ((AT + "n", "1"),)
    assert card(call("git_push"), last).last is None
    last.observe(message("mcp/request", call(n=5)))
    assert card(call(n=9), last).last == ((AT + "n", "5"),)


def test_what_is_remembered_is_bounded() -> None:
    last = LastCalls()
    for n in range(MAX_CALLS + 10):
        last.observe(message("mcp/request", call(f"tool{n}")))
    last.observe(message("mcp/request", call("long", text="x" * 300_000)))
    last.observe(message("mcp/request", {"method": 7}))
    assert len(last._last) == MAX_CALLS
    assert card(call("tool0"), last).last is None and card(call("long"), last).last is None


def test_names_that_read_alike_are_said_of_arguments_and_of_whom_it_is_asked() -> None:
    said = card(call(path=1, Path=2), to=("HUMAN",), given={"present": ("human", "bot")}).warnings
    assert 'names that read alike: participant "HUMAN" beside "human"' in said
    assert 'names that read alike: argument "Path" beside "path"' in said


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["content", "type", "text", "code", "message", "isError", "x"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)


@given(
    payload=st.dictionaries(st.sampled_from(["result", "error"]), ODD),
    method=st.sampled_from(["tools/call", "x"]),
)
def test_whatever_is_answered_is_one_line(payload: dict[str, Any], method: str) -> None:
    said = answer_of(message("mcp/response", payload), method=method, what="it")
    assert len(said) <= 160 and said.isprintable()
