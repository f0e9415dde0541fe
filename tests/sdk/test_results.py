"""What a caller gets out of a response's payload."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.errors import NoReply, OutcomeUnknown, ToolFailed
from mew_lab.lab.listing import SentEnvelope
from mew_lab.ledger.calls import Resolution
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.controls import Pause
from mew_lab.sdk.results import ToolResult, result_of


def of(payload: dict[str, Any], method: str = "tools/call") -> Any:
    return result_of(payload, method=method, what="git/git_log")


@pytest.mark.req("P-2.1-4")
def test_a_tool_result_keeps_what_came_and_reads_as_its_text() -> None:
    raw = {
        "content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}],
        "x": 1,
    }
    result = of({"result": raw})
    assert isinstance(result, ToolResult)
    assert (result.raw, str(result), result.structured) == (raw, "a\n[a picture without content]\nb", None)
    assert result.text == "a\nb"
    assert of({"result": {"content": [], "structuredContent": {"n": 1}}}).structured == {"n": 1}


@pytest.mark.req("P-4.3-5")
@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (8, "8"),
        ("eight", "eight"),
        (None, "null"),
        ({"sum": 8}, '{"sum":8}'),
        ({"content": []}, ""),
        ({"content": "x"}, '{"content":"x"}'),
        ({"content": [7, {"type": "text"}, {"type": "text", "text": 9}]}, ""),
    ],
)
def test_peers_that_answer_otherwise_are_read_as_they_are(raw: Any, text: str) -> None:
    assert of({"result": raw}).text == text


def test_the_result_of_another_method_is_the_plain_value() -> None:
    assert of({"result": {"tools": []}}, "tools/list") == {"tools": []}
    assert of({"result": {"isError": True}}, "x/y") == {"isError": True}


@pytest.mark.req("S-ERR-3")
def test_a_json_rpc_error_is_a_failure_with_code_and_data() -> None:
    with pytest.raises(ToolFailed, match=r"git/git_log failed: Unknown tool: x \(-32602\)") as caught:
        of({"error": {"code": -32602, "message": "Unknown tool: x", "data": [1]}})
    assert (caught.value.code, caught.value.data) == (-32602, [1])


@pytest.mark.req("P-4.3-5")
@pytest.mark.parametrize("error", ["boom", {}, {"code": "x"}, {"message": 3}, 7])
def test_a_malformed_error_leaves_open_whether_the_call_took_effect(error: Any) -> None:
    with pytest.raises(OutcomeUnknown, match=r"It was sent\. Whether it took effect is not known\."):
        of({"error": error})


def test_an_executor_that_lost_a_call_says_so_with_its_words() -> None:
    data = {"code": "outcome_unknown"}
    with pytest.raises(OutcomeUnknown, match=r"the server ended\. It was sent\.") as caught:
        of({"error": {"code": -32001, "message": "the server ended", "data": data}})
    assert caught.value.data == data and isinstance(caught.value, NoReply)


def test_a_result_marked_as_error_is_a_failure_without_code() -> None:
    raw = {"content": [{"type": "text", "text": "ValueError: no"}], "isError": True}
    with pytest.raises(ToolFailed, match="git/git_log failed: ValueError: no") as caught:
        of({"result": raw})
    assert (caught.value.code, caught.value.data) == (None, raw)


@pytest.mark.threat(17)
def test_a_peers_words_cannot_move_the_cursor_or_fill_the_screen() -> None:
    with pytest.raises(ToolFailed) as caught:
        of({"error": {"code": 1, "message": "\x1b[2J\r\u202eevil" + "x" * 10_000}})
    said = str(caught.value)
    assert "\x1b" not in said and "\r" not in said and "\u202e" not in said and len(said) < 600


def test_its_repr_is_one_short_line() -> None:
    result = ToolResult({"content": [{"type": "text", "text": "x" * 90}]})
    assert repr(result) == f"<ToolResult '{'x' * 79}…'>"
    assert ToolResult(1) == ToolResult(1) and ToolResult(1) != 1


UGLY = "\x1b]0;owned\x07\x1b[2J\u009b31m\u202e\r\x00"


@pytest.mark.threat(47)
@given(st.text(st.sampled_from([*UGLY, "\n", "\t", "a"])))
def test_the_text_of_a_result_moves_no_terminal_and_its_value_stays(words: str) -> None:
    result = ToolResult({"content": [{"type": "text", "text": words}]})
    assert result.text == words
    for shown in (str(result), repr(result), f"{result}"):
        assert not {c for c in shown if unicodedata.category(c) in ("Cc", "Cf")} - {"\n", "\t"}
    assert str(result).count("\n") == words.count("\n")


@pytest.mark.threat(47)
@pytest.mark.parametrize(
    "value",
    [
        ToolResult(UGLY),
        ToolResult({"content": [], "structuredContent": {UGLY: UGLY}}),
        Envelope({"id": "x", "from": UGLY, "kind": UGLY, "to": [UGLY]}, raw=""),
        Resolution(True, UGLY, UGLY),
        Pause(UGLY, UGLY, None, "x"),
        SentEnvelope(Envelope({"id": UGLY, "from": UGLY, "kind": UGLY, "to": [UGLY]}, raw="")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_printed_of_a_peer_moves_no_terminal(value: object) -> None:
    for shown in (str(value), repr(value)):
        assert not {c for c in shown if unicodedata.category(c) in ("Cc", "Cf")}
