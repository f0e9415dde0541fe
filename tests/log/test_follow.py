"""An exchange as a tree, whatever it is of; and as text for elsewhere, which no message can break out of."""

from __future__ import annotations

import ast
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.errors import JournalError
from mew_lab.log.copying import MessageSelection
from mew_lab.log.follow import ExchangeFinder
from mew_lab.log.line import write_line
from mew_lab.log.log import Log, open_log
from mew_lab.space.events import Record

from .stage import observed

START = datetime(2026, 1, 1, tzinfo=UTC)


def record(n: int, id: str, *about: str, verdict: str = "accepted", **members: Any) -> Record:
    said: dict[str, Any] = {"id": id, "from": "bot", "kind": "chat", "to": [], "payload": {}} | members
    if about:
        said["correlation_id"] = list(about)
    raw = json.dumps(said)
    return Record(n, START + timedelta(seconds=n), "received", "demo", said["from"], verdict=verdict, raw=raw)


def log_of(*records: Record) -> Log:
    return observed(records)


STORY = (
    record(1, "hello", payload={"text": "hello"}),
    record(
        2,
        "p",
        kind="mcp/proposal",
        to=["git"],
        payload={"method": "tools/call", "params": {"name": "commit"}},
    ),
    record(3, "r", "p", kind="reasoning/start", **{"from": "anna"}),
    record(4, "t", kind="reasoning/thought", context="r", **{"from": "anna"}, payload={"message": "fine?"}),
    record(5, "other", kind="chat"),
    record(6, "f", "p", kind="mcp/request", to=["git"], **{"from": "anna"}, payload={"method": "tools/call"}),
    record(7, "a", "f", kind="mcp/response", to=["anna"], **{"from": "git"}, payload={"result": {}}),
)


@pytest.mark.parametrize("which", ["p", "r", "t", "f", "a", 6, "#7"])
def test_the_tree_of_a_proposal_is_the_same_from_wherever_one_begins(which: str | int) -> None:
    found = log_of(*STORY).follow(which)
    assert found.parents == {3: 2, 4: 3, 6: 2, 7: 6}
    assert found.depths == {2: 0, 3: 1, 4: 2, 6: 1, 7: 2}
    frame = found.frame
    assert frame.id.tolist() == ["p", "r", "t", "f", "a"]
    assert frame.number.tolist() == frame.seq.tolist() == [2, 3, 4, 6, 7]
    assert frame.parent.isna().tolist() == [True, False, False, False, False]
    lines = found.text.split("\n")
    assert [len(line) - len(line.lstrip()) for line in lines] == [0, 2, 4, 2, 4]
    assert lines[4].strip().startswith("#7 +5.000 s git → anna: mcp/response")
    assert "svg" in found.diagram.svg()


def test_a_stream_is_followed_from_its_request_to_its_close() -> None:
    found = log_of(
        record(1, "ask", kind="stream/request", payload={"direction": "upload"}),
        record(
            2, "open", "ask", kind="stream/open", payload={"stream_id": "s-1"}, **{"from": "system:gateway"}
        ),
        record(3, "else", kind="stream/close", payload={"stream_id": "s-2"}),
        record(4, "write", kind="stream/grant-write", payload={"stream_id": "s-1"}),
        record(5, "close", kind="stream/close", payload={"stream_id": "s-1"}),
    ).follow("ask")
    assert found.parents == {2: 1, 4: 2, 5: 2}


def test_what_comes_later_is_in_the_next_answer_and_what_is_unknown_is_told() -> None:
    log = log_of(*STORY[:3])
    assert [entry.id for entry in log.follow("p").entries] == ["p", "r"]
    for one in STORY[3:]:
        log.observe(one)
    assert [entry.id for entry in log.follow("p").entries] == ["p", "r", "t", "f", "a"]
    with pytest.raises(JournalError, match="no such message"):
        log.follow("nothing")


def test_messages_of_several_journals_with_the_same_numbers_are_told_apart() -> None:
    finder = ExchangeFinder()
    finder.add([record(1, "a"), record(2, "b", "a"), record(1, "c"), record(2, "d", "c")])
    assert finder.follow("d").parents == {4: 3}
    assert finder.follow("b").parents == {2: 1}


def test_a_cycle_and_an_id_that_names_a_later_message_make_no_loop() -> None:
    found = log_of(record(1, "a", "b"), record(2, "b", "a"), record(3, "c", "c")).follow("a")
    assert found.parents == {2: 1}


def test_a_followed_exchange_is_bounded_and_says_so() -> None:
    log = log_of(record(1, "a"), *(record(n, f"e{n}", "a") for n in range(2, 400)))
    found = log.follow("a", most=10)
    assert len(found) == 10
    assert found.text.endswith("389 more related messages are not shown.")
    assert "389 more distant messages not in this exchange" in found.to_markdown()
    whole = log.follow("a", most=1000).to_markdown(most=3000)
    assert len(whole) < 3200
    assert re.search(r"[0-9]+ more messages left out for the length\.\n$", whole)


PIECES = ["`", "\n", "#", ";", "end", "\u202e", "\x00", "~", ">", "<", ":", '"', "'", "\\", "x", " ", "-"]
HOSTILE = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


@given(HOSTILE, HOSTILE, HOSTILE)
def test_no_text_of_a_message_ends_its_fence_or_its_line(name: str, kind: str, text: str) -> None:
    said = record(
        1, text, text, kind=kind or "chat", context=name, to=[name], payload={"text": text, name: text}
    )
    selection = MessageSelection([said._replace(participant=name), record(2, "last")])
    fence = None
    for line in selection.to_markdown().split("\n"):
        marks = re.match(r"`{3,}", line)
        if fence is None and marks:
            fence = marks[0]
        elif fence is not None and line.startswith(fence) and line.strip() == fence:
            fence = None
        elif fence is None:
            assert re.match(r"(#{1,2} |id |answers |follows |context |The fenced|$)", line), line
            assert len(re.findall("`", line)) % 2 == 0
    assert fence is None
    head, *lines = selection.to_mermaid().splitlines()
    assert head == "sequenceDiagram"
    for line in lines:
        assert re.match(r"    (participant p\d+ as |Note over p\d+: |p\d+(->>|-->>|-x)p\d+: )", line), line
        body = re.sub(r"#\d+;", "", re.sub(r"^.*?(?: as |: )", "", line, count=1))
        assert not re.search(r"[#;<>`\"\x00-\x1f\u202e]|\bend\b", body), line


@given(HOSTILE, HOSTILE)
def test_python_sends_the_same_messages_in_order_with_the_new_ids(name: str, text: str) -> None:
    records = [
        record(1, "one", kind="chat", to=[name], payload={"text": text, name: [None, True, 1.5]}),
        record(2, "refused", verdict="refused"),
        record(3, "two", "one", "far", kind="mcp/request", context=text or "c", payload={}),
    ]
    code = MessageSelection(records).to_python()
    assert code.isascii() and "1 message left out" in code
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call) and len(node.args) == 2]
    sends = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "send"]
    assert [ast.literal_eval(word) for word in sends[0].args] == [
        "chat",
        {"text": text, name: [None, True, 1.5]},
    ]
    assert {word.arg: ast.literal_eval(word.value) for word in sends[0].keywords} == {
        "as_id": "bot",
        "to": [name],
    }
    about = next(word.value for word in sends[1].keywords if word.arg == "correlation_id")
    assert ast.unparse(about) == "[sent.get('one', 'one'), sent.get('far', 'far')]"


def test_a_selection_as_jsonl_opens_as_a_log_again(tmp_path: Path) -> None:
    log = log_of(*STORY)
    chosen = log.select("p", 7)
    assert [entry.id for entry in chosen.entries] == ["p", "a"]
    assert chosen.to_jsonl() == (write_line(STORY[1]) + write_line(STORY[6])).decode()
    (tmp_path / "some.jsonl").write_text(chosen.to_jsonl())
    assert [message["id"] for message in open_log(tmp_path / "some.jsonl")] == ["p", "a"]
    assert len(log.select()) == 7


def test_what_cannot_be_read_is_quoted_as_text() -> None:
    torn = Record(
        1, START, "received", "demo", "eve", verdict="refused", code="invalid", raw="no ``` json \ud800"
    )
    found = MessageSelection([torn]).to_markdown()
    assert "````text\nno ``` json \\ud800\n````" in found
    assert "refused: `invalid`" in found
    assert MessageSelection([torn]).to_python().count("send(") == 0


def test_a_refusal_whose_text_was_not_kept_is_followed_and_copied_as_every_other_message() -> None:
    refusal = Record(
        2, START, "received", "demo", "bot", verdict="refused", code="capability_violation", raw=None
    )
    log = log_of(record(1, "hello"), refusal, record(3, "after"))
    assert log.df.seq.tolist() == [1, 2, 3]
    followed = log.follow(2)
    assert followed.frame.code.tolist() == ["capability_violation"]
    assert followed.text == (
        "#2 +0.000 s bot → everybody: message whose text was not kept ✗ refused: capability_violation"
    )
    assert "refused: `capability_violation`" in followed.to_markdown() and "```" not in followed.to_markdown()
    assert len(log.select()) == len(log)
    assert [entry.record for entry in log.select(2).entries] == [refusal]
