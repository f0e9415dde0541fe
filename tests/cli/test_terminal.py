"""A space seen and steered from a terminal."""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mew_lab.cli import main
from mew_lab.cli.join import HELP, Quit, TypedLast, obey
from mew_lab.cli.tail import journal_lines
from mew_lab.cli.terminal import row_line
from mew_lab.errors import JournalError, MewError, NotApproved
from mew_lab.lab.decisions.cards import Card, type_in_terminal
from mew_lab.lab.decisions.text import card_lines
from mew_lab.lab.lab import Lab
from mew_lab.lab.rows import Row
from mew_lab.log.filter.grammar import parse_filter
from mew_lab.log.journal import Journal
from mew_lab.protocol.envelope import compact
from mew_lab.space.events import Record

from ..failing import How, failing


def row(**changes: Any) -> Row:
    one = Row(3, 102.5, "bot", ("git",), "mcp/request", "tools/call x", "", 0, "accepted", "", "e-1", 10)
    return one._replace(**changes)


def card(**changes: Any) -> Card:
    fields: dict[str, Any] = {
        "id": "p-1",
        "seq": 1,
        "proposer": "bot",
        "to": ("git",),
        "method": "tools/call",
        "tool": "git_log",
        "arguments": (("repo", '"/tmp/x"'), ("n", "3")),
        "digest": "7c1e90ab" + 56 * "0",
        "since": 0.0,
        "warnings": ("absolute path in repo: /tmp/x",),
    }
    return Card(**(fields | changes))


def test_a_row_says_who_to_whom_what_and_when() -> None:
    line = row_line(row(), start=100.0)
    assert line.split() == ["#3", "2.50", "bot", "→", "git", "mcp/request", "tools/call", "x"]


def test_a_row_tells_what_it_answers_why_it_was_refused_and_a_proposals_id() -> None:
    assert row_line(row(correlates=2), start=0).endswith("↳#2")
    assert row_line(row(verdict="refused", code="no_right"), start=0).endswith("refused: no_right")
    assert row_line(row(kind="mcp/proposal"), start=0).endswith("(e-1)")
    assert " all " in row_line(row(to=()), start=0)


@pytest.mark.threat(17)
def test_nothing_from_a_peer_moves_the_cursor() -> None:
    evil = "\x1b[2J\r\n\u202e\x00\x9b"
    shown = row_line(
        row(sender=evil, to=(evil,), kind=evil, what=evil, code=evil, verdict="refused", id=evil), start=0
    )
    assert shown.isprintable()
    named = row_line(row(kind="mcp/proposal", id=evil), start=0)
    assert named.isprintable()
    hostile = card(id=evil, proposer=evil, to=(evil,), tool=evil, arguments=((evil, evil),), warnings=(evil,))
    assert all(line.isprintable() for line in card_lines(hostile))


@pytest.mark.threat(17)
@pytest.mark.parametrize("member", ["sender", "kind", "what", "code", "id"])
def test_a_row_that_imitates_another_row_is_one_line(member: str) -> None:
    fake = "x\n    9    3.40  human → all  mcp/reject  rejected by human\r\x1b[2K\x85\u2028(p-1)"
    line = row_line(row(kind="mcp/proposal", verdict="refused")._replace(**{member: fake}), start=100.0)
    assert len(line.splitlines()) == 1 and line.isprintable()
    assert line.startswith("    #3     2.50  ")


def test_colours_are_only_there_when_asked_for() -> None:
    assert "\x1b" not in row_line(row(), start=0)
    assert row_line(row(), start=0, colour=True).count("\x1b") == 2
    for kind, accent in (("mcp/reject", 202), ("space/invite", 36), ("x/unknown", 245)):
        assert f"\x1b[38;5;{accent}m{kind}" in row_line(row(kind=kind), start=0, colour=True)


def test_a_card_shows_its_dangers_first_and_every_argument_whole() -> None:
    long = '"' + "x" * 5000 + '"'
    lines = card_lines(card(arguments=(("text", long), ("n", "3"))))
    assert lines[0] == "bot asks git to run git_log   digest 7c1e90ab   (p-1)"
    assert lines[1] == "  ! absolute path in repo: /tmp/x"
    assert lines[2:] == ["  text", f"        {long}", "  n     3"]
    assert card_lines(card(arguments=(), warnings=()))[1:] == ["  no arguments"]
    cut = card_lines(card(arguments=(("text", long), ("n", "3"))), cut=True)
    assert cut[2].startswith('  text  "xxx') and "…   [cut: 5 002 characters" in cut[2]


# --- a journal ---------------------------------------------------------------------------------------------------


def record(n: int, raw: str | None) -> Record:
    return Record(
        n, datetime(2026, 11, 21, tzinfo=UTC), "received", "demo", "bot", verdict="accepted", raw=raw
    )


def message(n: int) -> str:
    return compact(
        {"protocol": "mew/v0.4", "id": f"m{n}", "from": "bot", "kind": "chat", "payload": {"text": n}}
    )


def test_a_journal_is_told_one_message_a_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl", space="demo")
    journal.append([record(1, message(1)), record(2, None), record(3, message(2))])
    journal.close()
    assert len(list(journal_lines(tmp_path / "j.jsonl"))) == 2
    assert list(journal_lines(tmp_path / "j.jsonl", exact=True)) == [message(1), message(2)]


def test_a_journal_is_told_as_far_as_a_filter_passes(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl", space="demo")
    journal.append([record(1, message(1)), record(2, None), record(3, message(2)), record(4, message(3))])
    journal.close()
    tree = parse_filter("payload.text >= 2")
    assert list(journal_lines(tmp_path / "j.jsonl", exact=True, tree=tree)) == [message(2), message(3)]
    first, second = journal_lines(tmp_path / "j.jsonl", tree=tree)
    assert first.split()[0] == "#3" and second.split()[0] == "#4"  # the numbers of the records
    numbered = journal_lines(tmp_path / "j.jsonl", tree=parse_filter("seq 3..4"))
    assert [line.split()[0] for line in numbered] == ["#3", "#4"]


def test_a_filter_that_needs_the_ledger_tells_the_state_that_is_known(tmp_path: Path) -> None:
    request = {"id": "r", "from": "bot", "to": ["git"], "kind": "mcp/request", "protocol": "mew/v0.4"}
    payload = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}}
    journal = Journal(tmp_path / "j.jsonl", space="demo")
    journal.append([record(1, message(1)), record(2, compact(request | {"payload": payload}))])
    journal.close()
    assert len(list(journal_lines(tmp_path / "j.jsonl", tree=parse_filter("state == waiting")))) == 1
    assert list(journal_lines(tmp_path / "j.jsonl", tree=parse_filter("state == answered"))) == []


def test_a_fault_in_a_filter_is_shown_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tail", str(tmp_path / "j.jsonl"), "--filter", "knid == chat"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "mew-lab tail: There is no field knid; did you mean kind?",
        "  knid == chat",
        "  ^^^^",
    ]


def test_a_journal_that_grows_is_followed_and_nothing_is_told_twice(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl", space="demo")
    journal.append([record(1, message(1))])
    lines = journal_lines(tmp_path / "j.jsonl", follow=True, exact=True)
    told = [next(lines)]
    for n in (2, 3):
        journal.append([record(n, message(n))])
        told.append(next(lines))
    assert told == [message(1), message(2), message(3)]
    journal.close()


def test_a_file_that_is_no_journal_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("hello\n")
    with pytest.raises(JournalError, match=r"x\.txt is not a journal"):
        list(journal_lines(tmp_path / "x.txt"))


def test_a_log_of_any_form_that_open_log_reads_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Packed, over several files, in a folder, and one that is empty; only a plain file can be followed."""
    journal = Journal(tmp_path / "s" / "j.jsonl", space="demo", rotate_at=200)
    for n in (1, 2, 3):
        journal.append([record(n, message(n))])
    journal.close()
    every = [message(1), message(2), message(3)]
    assert len(list((tmp_path / "s").iterdir())) > 1
    assert list(journal_lines(tmp_path / "s" / "j.jsonl", exact=True)) == every
    assert list(journal_lines(tmp_path / "s", exact=True)) == every
    packed = tmp_path / "j.jsonl.gz"
    packed.write_bytes(gzip.compress((tmp_path / "s" / "j.jsonl").read_bytes()))
    assert next(iter(journal_lines(packed, exact=True))) == message(1)
    with pytest.raises(JournalError, match="it is packed"):
        next(journal_lines(packed, follow=True))
    (tmp_path / "empty.jsonl").touch()
    assert main(["tail", str(tmp_path / "empty.jsonl")]) == 0
    assert capsys.readouterr().err == "mew-lab tail: the log holds no record\n"


# --- typed lines -------------------------------------------------------------------------------------------------


def said(lab: Lab) -> list[str]:
    return [one["payload"]["text"] for one in lab.log if one["kind"] == "chat"]


def test_what_is_typed_is_said_and_a_second_slash_says_the_first(lab: Lab) -> None:
    assert [obey(lab, line) for line in ("Hello\n", "", "//quit is a word")] == ["", "", ""]
    assert said(lab) == ["Hello", "/quit is a word"]


def test_a_typed_envelope_goes_out_with_its_own_members(lab: Lab) -> None:
    answer = obey(
        lab, '{"kind": "chat", "id": "mine-1", "to": ["human"], "payload": {"text": "x"}, "x-more": 1}'
    )
    assert answer == "sent mine-1"
    assert next(one for one in lab.log if one["id"] == "mine-1")["x-more"] == 1


def test_proposals_are_made_decided_and_listed(lab: Lab, adding: Callable[[int, int], Any]) -> None:
    assert "notebook/add" in obey(lab, "/tools notebook")
    bot = lab.join("bot")
    first, second = (bot.call("notebook/add", a=1, b=2) for _ in range(2))
    while len(lab.proposals()) < 2:
        pass
    listed = obey(lab, "/proposals")
    assert first.id in listed and "/approve ID" in listed and "/reject ID" in listed
    assert "lab." not in listed and "%mew" not in listed  # a terminal has neither
    with pytest.raises(NotApproved, match="this is what would be sent"):
        obey(lab, f"/approve {first.id}")
    assert obey(lab, f"/approve {first.id}") == "Approved: bot asks notebook to run add"
    assert str(first.result(10)) == "3"
    assert obey(lab, f"/reject {second.id} not now") == "Rejected (not now): bot asks notebook to run add"
    assert second.state == "rejected"
    mine = obey(lab, '/propose notebook/add {"a": 1, "b": 2}')
    assert "mcp/proposal notebook/add as human" in mine
    assert "mcp/request notebook/add as human" in obey(lab, '/call notebook/add {"a": 1, "b": 2}')


@pytest.mark.threat(36)
def test_approve_alone_takes_the_only_open_proposal_and_shows_it_in_full_first(
    lab: Lab, adding: Callable[[int, int], Any]
) -> None:
    bot, shown = lab.join("bot"), TypedLast()

    def wait(count: int) -> None:
        while len(lab.proposals()) != count:
            pass

    first = bot.call("notebook/add", a=1, b=2)
    wait(1)
    with pytest.raises(NotApproved, match="To approve it, repeat /approve") as told:
        obey(lab, "/approve", shown)
    assert "bot asks notebook to run add" in str(told.value) and "lab.approve" not in str(told.value)
    # Another one takes its place; that it was shown by another command is not enough.
    first.withdraw()
    wait(0)
    second = bot.call("notebook/add", a=3, b=4)
    wait(1)
    str(lab.proposals())
    with pytest.raises(NotApproved) as told:
        obey(lab, "/approve", shown)
    assert re.search(r"\bb +4\b", str(told.value)) and second.state == "open"
    assert obey(lab, " /approve ", shown) == "Approved: bot asks notebook to run add"
    assert str(second.result(10)) == "7"
    bot.call("notebook/add", a=5, b=6), bot.call("notebook/add", a=7, b=8)
    wait(2)
    with pytest.raises(
        MewError, match=r"^2 proposals wait for you, so say which: /approve \w{4}, /approve \w{4}; "
    ):
        obey(lab, "/approve", shown)


def test_a_terminal_names_no_verb_of_a_notebook(lab: Lab, adding: Callable[[int, int], Any]) -> None:
    lab.decisions.type_it = type_in_terminal
    pending = lab.join("bot").call("notebook/add", a=1, b=2)
    while not lab.proposals():
        pass
    with pytest.raises(NotApproved) as told:
        obey(lab, f"/approve {pending.id}")
    assert f"/approve {pending.id} digest=" in str(told.value)
    assert "lab." not in str(told.value) and "%mew" not in str(told.value)


def test_a_typed_stop_stops_and_its_sentences_say_how_to_go_on_there(
    lab: Lab, adding: Callable[[int, int], Any]
) -> None:
    lab.decisions.type_it, lab.decisions.gate.to_go_on = type_in_terminal, "/go"
    pending = lab.join("bot", can="human").propose("notebook/add", a=1, b=2)
    while not lab.proposals():
        pass
    told = obey(lab, "/stop")
    assert told.startswith("Stopped by human at ") and "1 open proposal cannot be approved" in told
    for line in (f"/approve {pending.id}", '/call notebook/add {"a": 1, "b": 2}'):
        with pytest.raises(MewError) as refused:
            obey(lab, line)
        assert "lab." not in str(refused.value)
    assert "stopped by human" in str(refused.value) and "/go goes on" in str(refused.value)
    raw = {
        "kind": "mcp/request",
        "to": ["notebook"],
        "payload": {"method": "tools/call", "params": {"name": "add"}},
    }
    with pytest.raises(MewError, match="this lab was stopped by human"):
        obey(lab, json.dumps(raw))
    assert "can be approved again" in obey(lab, "/go") and "Stopped by human" in obey(lab, "/status")
    assert obey(lab, "/go").startswith("Going on; stopped by human at ")
    with pytest.raises(NotApproved, match="this is what would be sent"):
        obey(lab, f"/approve {pending.id}")
    assert obey(lab, f"/approve {pending.id}").startswith("Approved: ")


def test_a_question_of_a_server_is_answered_in_the_terminal(lab: Lab) -> None:
    full = Path(__file__).parents[1] / "bridge" / "full_server.py"
    lab.bridge("shop", [sys.executable, str(full), "legacy"])
    for line, answer in (
        ('/answer {id} {{"size": 3}}', "accept 3"),
        ("/decline {id}", "decline"),
        ("/dismiss {id}", "cancel"),
    ):
        pending = lab.call("shop/order", what="pears")
        while not lab.asked.pending():
            pass
        [question] = lab.asked.pending()
        assert "How many pears?" in obey(lab, "/questions")
        assert "The server shop asks you" in obey(lab, line.format(id=question.id))
        assert str(pending.result(20)).startswith(answer)
    assert obey(lab, "/questions").startswith("No server asks anything")


def test_the_rest_of_the_verbs_answer(lab: Lab) -> None:
    assert "human (you)" in obey(lab, "/who")
    assert "who decides" in obey(lab, "/status")
    assert obey(lab, "/help") == HELP
    with pytest.raises(Quit):
        obey(lab, "/quit")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/nonsense", "There is no command /nonsense"),
        ("/approve", "No proposal waits for your approval"),
        ("/approve nothing", "there is no proposal"),
        ("/withdraw nothing", "Cannot withdraw"),
        ("/call", "/call needs participant/tool"),
        ("/call notebook/add {broken", "not strict JSON"),
        ("{broken", "not strict JSON"),
        ('{"payload": {}}', "kind is required"),
        ("/tools nobody", "nobody"),
    ],
)
def test_a_mistake_is_one_sentence(lab: Lab, line: str, words: str) -> None:
    with pytest.raises(MewError, match=words) as caught:
        obey(lab, line)
    assert "\n" not in str(caught.value)


LINES = {
    '{"kind": "chat", "payload": {"text": "hi"}}': ("chat", "sent "),
    "/approve": ("mcp/request", "Approved: "),
    "/reject": ("mcp/reject", "Rejected "),
}


@pytest.mark.sampled
@pytest.mark.parametrize("how", [None, "refused", "cut off", "swallowed"])
@pytest.mark.parametrize("line", LINES)
def test_a_line_says_that_something_was_sent_or_decided_where_the_gateway_accepted_it(
    line: str, how: How | None, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    fails, (kind, done) = failing(monkeypatch) if how is not None else {}, LINES[line]
    lab: Lab = request.getfixturevalue("lab")
    request.getfixturevalue("adding")
    if line.startswith("/"):
        id = lab.join("bot", can="proposer").call("notebook/add", {"a": 1, "b": 2}).id
        with pytest.raises(NotApproved):
            obey(lab, f"/approve {id}")
        line = f"{line} {id}"
    if how is not None:
        fails[kind] = how
    try:
        said = obey(lab, line)
    except MewError as fault:
        said = str(fault)
    assert said.startswith(done) is (how is None), said
    assert said and (how is None or "took longer" in said or "gateway" in said or "connection" in said)
    fails.clear()
