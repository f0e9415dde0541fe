"""The ledger of decisions: arguments, the tool as it was shown, who decided and whether that teaches, and what nobody
decided. Live logs, files and the index beside files say the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mew_lab.errors import ConfigError, JournalError
from mew_lab.log.log import Log, open_log
from mew_lab.rules.decided_calls import AskedCall
from mew_lab.space.events import Joined, Reported

from .decided_sessions import TOOLS, DecidedSession, hash_of, random_session
from .stage import keep, observed

Opener = Callable[[DecidedSession], Log]


@pytest.fixture(params=["live", "file"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens the log of a session, live or from a file; the index has a test of its own, because it takes seconds."""

    def opened(session: DecidedSession) -> Log:
        if request.param == "live":
            return observed(session.stage.records)
        return open_log(keep(session.stage.records, tmp_path / "j.jsonl"), index=False)

    return opened


def row_of(log: Log, proposal: str) -> dict[str, Any]:
    frame = log.decisions()
    [row] = frame[frame["proposal"] == proposal].to_dict("records")
    return row


@pytest.mark.slow
def test_the_index_of_a_session_has_the_same_decisions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mew_lab.log.files.LARGE", 1)
    session = random_session(7)
    log = open_log(keep(session.stage.records, tmp_path / "j.jsonl"), index=False)
    expected = observed(session.stage.records)
    pd.testing.assert_frame_equal(log.decisions(), expected.decisions())
    assert log.decided_calls() == expected.decided_calls()


@pytest.mark.parametrize("seed", range(3))
def test_all_logs_of_a_session_have_the_same_decisions(seed: int, opened: Opener) -> None:
    session = random_session(seed)
    log, expected = opened(session), observed(session.stage.records)
    pd.testing.assert_frame_equal(log.decisions(), expected.decisions())
    assert log.decided_calls() == expected.decided_calls()
    found = log.decided_calls()
    assert {one.verdict for one in found} == {"approved", "rejected", "undecided"}
    assert {one.proposal for one in found} == {
        str(record.raw).split('"id": "')[1].split('"')[0]
        for record in session.stage.records
        if record.raw and '"mcp/proposal"' in record.raw
    }, "each proposal has a row"


def test_an_edited_call_shows_what_was_proposed_and_what_was_sent(opened: Opener) -> None:
    session = DecidedSession()
    session.list_tools()
    proposal = session.propose(path="docs/a.md", mode="r")
    session.approve(proposal, note={"on_screen": 1, "edited": True}, path="docs/b.md", mode="r")
    row = row_of(opened(session), proposal)
    assert (row["proposed"], row["arguments"]) == (
        '{"path":"docs/a.md","mode":"r"}',
        '{"path":"docs/b.md","mode":"r"}',
    )
    assert (row["participant"], row["proposer"], row["target"]) == ("coder", "coder-1", "files")
    assert (row["edited"], row["teaches"], row["teaches_not"]) == (True, True, "")


def test_equal_calls_have_one_digest_and_others_another(opened: Opener) -> None:
    session = DecidedSession()
    equal = [session.propose(n=1, path="a"), session.propose(path="a", n=1.0), session.propose(path="a", n=1)]
    others = [
        session.propose(path="a", n=True),
        session.propose("drop", path="a", n=1),
        session.propose(path="a"),
    ]
    session.approve(equal[0], path="a", n=1)
    log = opened(session)
    digests = [row_of(log, one)["call_digest"] for one in (*equal, *others)]
    assert len(set(digests[:3])) == 1 and len(set(digests)) == 4


def test_the_tool_stands_in_it_as_it_was_listed_before_the_proposal_or_as_the_receipt_states_it(
    opened: Opener,
) -> None:
    session = DecidedSession()
    before = session.propose(path="a")
    session.list_tools()
    shown = session.propose(path="a")
    session.list_tools([TOOLS[0] | {"description": "another"}])
    changed, destructive = session.propose(path="a"), session.propose("drop", path="a")
    session.list_tools([TOOLS[0], TOOLS[0] | {"description": "twice"}])
    twice = session.propose(path="a")
    for one in (before, shown, changed, twice):
        session.approve(one, path="a")
    stated = session.propose(path="a")
    session.approve(
        stated, note={"on_screen": 9, "tool": {"sha256": "b" * 64, "hints": ["read-only"]}}, path="a"
    )
    log = opened(session)
    expected = {
        before: ("", ()),
        shown: (hash_of(TOOLS[0]), ("read-only",)),
        changed: (hash_of(TOOLS[0] | {"description": "another"}), ("read-only",)),
        destructive: ("", ()),
        twice: ("", ("read-only",)),
        stated: ("b" * 64, ("read-only",)),
    }
    for proposal, tool in expected.items():
        row = row_of(log, proposal)
        assert (row["tool_hash"], tuple(row["tool_hints"])) == tool


@pytest.mark.parametrize(
    ("note", "how", "why_not"),
    [
        ({"on_screen": 2400}, "click", ""),
        ({"typed": "abcd"}, "typed", ""),
        ({"typed": "abcd", "how": "script"}, "script", "a script decided it"),
        ({"policy": {"name": "p", "text": "t"}}, "policy", "a policy decided it"),
        ({"policy": {"name": "p", "text": "t"}, "on_screen": 9}, "policy", "a policy decided it"),
        ({"rule": {"sha256": "c" * 64, "text": "When"}, "on_screen": 9}, "rule", "a rule decided it"),
        ({"how": "approver", "typed": "abcd"}, "approver", "an approver decided it"),
        ({"how": "click"}, "", "its receipt does not tell how it was decided"),
        ({}, "", "no receipt tells how it was decided"),
    ],
)
def test_only_what_a_person_decided_teaches(
    note: dict[str, Any], how: str, why_not: str, opened: Opener
) -> None:
    session = DecidedSession()
    session.list_tools()
    proposal = session.propose(path="a")
    session.approve(proposal, note=note, path="a")
    row = row_of(opened(session), proposal)
    assert (row["how"], row["teaches"], row["teaches_not"]) == (how, not why_not, why_not)


def test_an_approval_whose_receipt_is_not_of_what_was_sent_teaches_nothing(opened: Opener) -> None:
    """Somebody has changed the journal, or the lab showed another call than it sent: `verify` says so, too."""
    session = DecidedSession()
    session.list_tools()
    changed: list[dict[str, Any]] = [{"digest": "0" * 64}, {"edited": True}]
    expected = []
    for n in range(30):
        proposal = session.propose(path=f"docs/{n}.md")
        session.approve(proposal, note={"on_screen": 2400, **changed[n % 2]}, path=f"docs/{n}.md")
        expected.append(
            f"what was sent is not what was shown: its digest is {session.digest_of(proposal, 'read_file', {'path': f'docs/{n}.md'})[:12]}, and that of the receipt is 000000000000"
            if n % 2 == 0
            else "its receipt says that it was edited"
        )
    log = opened(session)
    frame = log.decisions()
    decided = frame[frame["proposal"] != ""]
    assert decided["teaches_not"].tolist() == expected and not decided["teaches"].any()
    assert log.learn_rules(unverified=True) == ()


def test_a_report_of_a_participant_teaches_nothing(opened: Opener) -> None:
    session = DecidedSession()
    session.list_tools()
    proposal = session.propose(path="a")
    request = session.approve(proposal, note={}, path="a")
    note = {
        "about": "receipt",
        "proposal": proposal,
        "request": request,
        "decision": "approve",
        "how": "click",
    }
    session.stage.play(Reported("ada", json.dumps(note)))
    row = row_of(opened(session), proposal)
    assert (row["receipt"], row["how"], row["teaches"]) == ("reported", "click", False)
    assert row["teaches_not"] == "a participant reported it itself"


def test_what_nobody_decided_has_a_row_that_says_why(opened: Opener) -> None:
    session = DecidedSession()
    gone = session.propose(path="a")
    session.leave("coder")
    session.stage.play(Joined("coder", "coder", "coder-1", "memory"))
    withdrawn, waiting, decided = (session.propose(path=path) for path in "bcd")
    session.send("coder", "mcp/withdraw", {"reason": "x"}, withdrawn)
    session.approve(decided, path="d")
    log = opened(session)
    assert [row_of(log, one)["outcome"] for one in (withdrawn, waiting, decided)] == [
        "withdrawn",
        "open",
        "answered",
    ]
    assert row_of(log, gone)["outcome"] == "open", "its proposer is back, and may still be answered"
    assert not row_of(log, waiting)["decided_by"] and not row_of(log, waiting)["executed"]
    session.leave("coder")
    assert row_of(observed(session.stage.records), waiting)["outcome"] == "expired"


def test_the_history_of_a_call_counts_alike_ones_and_not_itself(opened: Opener) -> None:
    session = DecidedSession()
    session.list_tools()
    for n in range(11):
        session.wait(60)
        session.approve(session.propose(path=f"docs/{n}"), path=f"docs/{n}")
    session.reject(session.propose(path="secrets/x"))
    session.approve(session.propose("drop", path="docs/0"), "drop", path="docs/0")
    session.approve(session.propose(path="docs/0", mode="r"), path="docs/0", mode="r")
    asked = session.propose(path="docs/3")
    log = opened(session)
    now = session.stage.now
    history = log.history_of(asked, now=now)
    assert (len(history.equal), len(history.alike)) == (1, 12)
    assert str(history) == "like this: 11 approved, 1 rejected, last today"
    assert str(log.history_of(asked, now=now + timedelta(days=1))).endswith("last yesterday")
    assert str(log.history_of(asked, now=now + timedelta(days=3))).endswith(f"last on {now:%A}")
    assert str(log.history_of(asked, now=now + timedelta(days=9))).endswith(f"last on {now:%Y-%m-%d}")
    call = {"proposer": "coder", "to": "files", "tool": "read_file", "arguments": {"path": "docs/3"}}
    same = AskedCall(proposer="coder", target="files", tool="read_file", arguments={"path": "docs/3"})
    assert log.history_of(call, now=now).alike == log.history_of(same, now=now).alike
    assert log.history_of(call, now=now).alike[:-1] == history.alike, (
        "a call without an id is no proposal of the log"
    )
    number = row_of(log, asked)["seq"]
    assert log.history_of(number, now=now).alike == history.alike
    other = log.history_of({"proposer": "bert", "to": "files", "tool": "read_file"}, now=now)
    assert str(other) == "no call like this was decided before"
    with pytest.raises(JournalError, match="There is no proposal 'nothing'"):
        log.history_of("nothing")
    with pytest.raises(ConfigError, match="by the id of its proposal"):
        log.history_of({"to": "files"})


def test_a_log_that_does_not_verify_teaches_only_where_that_is_asked(tmp_path: Path) -> None:
    session = DecidedSession()
    session.list_tools()
    for n in range(20):
        session.wait(60)
        session.approve(session.propose(path=f"docs/{n}.md"), note={"on_screen": 9}, path=f"docs/{n}.md")
    path = keep(session.stage.records, tmp_path / "j.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for n, line in enumerate(lines) if n != 20))
    with pytest.raises(JournalError, match="Learned nothing from this log, because it does not verify"):
        open_log(path).learn_rules()
    assert open_log(path).learn_rules(unverified=True)
    assert observed(session.stage.records).learn_rules()
