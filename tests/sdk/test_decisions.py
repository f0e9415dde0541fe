"""What is sent when somebody decides on a proposal, and when nothing is; what an edit is known by."""

from __future__ import annotations

import itertools
import json
from hashlib import sha256
from typing import Any

import pytest

from mew_lab.errors import LocalProtocolError, MewError, ProposalEnded, ProposalWithdrawn
from mew_lab.ledger.calls import Proposal
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.steps import finish
from mew_lab.sdk.decisions import (
    draft_approval,
    draft_rejection,
    draft_withdrawal,
    edit_proposal,
    rebuild_proposed,
)
from mew_lab.sdk.request_rows import rows_of

from ..ledger.book import Book

CALL = {"method": "tools/call", "params": {"name": "git_log"}}


def said(kind: str, sender: str, payload: Any = None, id: str = "") -> Envelope:
    members = {
        "id": id or f"{kind}-{sender}",
        "from": sender,
        "kind": kind,
        "correlation_id": ["p"],
        "to": ["git"],
    }
    return Envelope.of({**members, "payload": payload or {}})


def book(*then: Envelope) -> Book:
    made = Book()
    for envelope in (said("mcp/proposal", "bot", CALL, id="p"), *then):
        made.observe(envelope)
    return made


def approve(of: Book, me: str = "human", digest: str | None = None, to: Any = None, **how: Any) -> Any:
    return finish(draft_approval(of, "p", me=me, digest=digest, to=to, request_id="r-1", **how))


@pytest.mark.threat(14)
def test_an_approval_is_the_proposals_own_content() -> None:
    found = book().get("p")
    assert approve(book(), digest=found.digest) == {
        "id": "r-1",
        "kind": "mcp/request",
        "to": ["git"],
        "correlation_id": ["p"],
        "payload": {"jsonrpc": "2.0", "id": "r-1", **CALL},
    }
    with pytest.raises(LocalProtocolError, match="what was shown is not what is proposed") as caught:
        approve(book(), digest=found.digest[:-1] + "g")
    assert caught.value.code == "digest_mismatch"


@pytest.mark.threat(14)
def test_threat_14_an_edited_approval_sends_what_was_confirmed_and_its_digest_is_another() -> None:
    of = book()
    found = of.get("p")
    params = {"name": "git_log", "arguments": {"n": 3}}
    edit = edit_proposal(found, params)
    assert edit.digest != found.digest
    draft = finish(
        draft_approval(of, "p", me="human", digest=edit.digest, to=None, params=params, request_id="r-1")
    )
    assert draft["payload"] == {"jsonrpc": "2.0", "id": "r-1", "method": "tools/call", "params": params}
    assert (draft["to"], draft["correlation_id"]) == (["git"], ["p"])
    with pytest.raises(LocalProtocolError, match="what was shown is not what is proposed"):
        finish(
            draft_approval(of, "p", me="human", digest=found.digest, to=None, params=params, request_id="r-1")
        )
    with pytest.raises(LocalProtocolError, match="what was shown is not what is proposed"):
        finish(draft_approval(of, "p", me="human", digest=edit.digest, to=None, request_id="r-1"))


@pytest.mark.req("P-3.3.2-2", "P-3.3.1-2", "P-3.3.2-3")
def test_a_rejection_and_a_withdraw_name_the_proposal() -> None:
    assert draft_rejection(book(), "p", me="human", reason="unsafe") == {
        "kind": "mcp/reject",
        "to": ["bot"],
        "correlation_id": ["p"],
        "payload": {"reason": "unsafe"},
    }
    assert draft_withdrawal(book(), "p", me="bot", reason="timeout") == {
        "kind": "mcp/withdraw",
        "correlation_id": ["p"],
        "payload": {"reason": "timeout"},
    }


@pytest.mark.threat(18, 19)
@pytest.mark.parametrize(
    ("then", "error", "words"),
    [
        (said("mcp/request", "admin", CALL), ProposalEnded, "proposal p: admin approved it before"),
        (
            said("mcp/withdraw", "bot", {"reason": "\x1b[2J"}),
            ProposalWithdrawn,
            r"withdrawn by bot: \\u001b\[2J",
        ),
        (
            said("mcp/reject", "human", {"reason": "no"}),
            ProposalEnded,
            r"rejected by human: no|human rejected it \(no\). approve\(…, despite=\"rejected\"\)",
        ),
    ],
)
def test_whoever_comes_late_is_told_and_nothing_is_sent(then: Envelope, error: type, words: str) -> None:
    late = book(then)
    for decide in (lambda: approve(late), lambda: draft_rejection(late, "p", me="human", reason="x")):
        with pytest.raises(error, match=words):
            decide()


@pytest.mark.parametrize("by", ["other", "human"])
def test_ruling_32_what_was_rejected_is_approved_only_by_who_says_so_and_what_was_withdrawn_never(
    by: str,
) -> None:
    rejected = book(said("mcp/reject", by))
    with pytest.raises(ProposalEnded, match=f"{by} rejected it"):
        approve(rejected)
    assert approve(rejected, despite=("rejected",))["kind"] == "mcp/request"
    with pytest.raises(ProposalWithdrawn):
        approve(book(said("mcp/reject", by), said("mcp/withdraw", "bot")), despite=("rejected",))
    assert (
        draft_withdrawal(book(said("mcp/reject", "other")), "p", me="bot", reason="x")["kind"]
        == "mcp/withdraw"
    )


@pytest.mark.req("S-L2-20", "S-L2-21", "P-3.3.1-1")
def test_only_the_proposer_withdraws_and_only_others_decide() -> None:
    with pytest.raises(LocalProtocolError, match="it is bot's"):
        draft_withdrawal(book(), "p", me="human", reason="x")
    with pytest.raises(LocalProtocolError, match="it is not known here"):
        draft_withdrawal(book(), "q", me="bot", reason="x")
    with pytest.raises(LocalProtocolError, match=r"it is its own; withdraw\(\) takes it back"):
        approve(book(), me="bot")
    with pytest.raises(LocalProtocolError, match="Cannot reject proposal q: it is not known here"):
        draft_rejection(book(), "q", me="human", reason="x")
    with pytest.raises(ProposalEnded, match="Cannot withdraw proposal p: human approved it before"):
        draft_withdrawal(book(said("mcp/request", "human", CALL)), "p", me="bot", reason="x")


@pytest.mark.threat(35)
def test_threat_35_nothing_is_sent_but_what_the_rows_rebuild() -> None:
    found = book().get("p")
    rows = rows_of(rebuild_proposed(found, id="r-1"))
    given = {"me": "human", "digest": found.digest, "to": None, "request_id": "r-1"}
    assert finish(draft_approval(book(), "p", rows=rows, **given)) == approve(book())
    for wrong in (
        rows[1:],
        (*rows, ("/payload/x", "1")),
        (*rows, rows[0]),
        (("/to", '["shell"]'), *rows[1:]),
    ):
        with pytest.raises(LocalProtocolError, match="Nothing was sent") as caught:
            finish(draft_approval(book(), "p", rows=wrong, **given))
        assert caught.value.code == "rows_mismatch"


@pytest.mark.threat(36)
def test_threat_36_an_id_that_stood_for_another_proposal_is_not_approved_by_its_id_alone() -> None:
    of = book(said("mcp/withdraw", "bot"), said("mcp/proposal", "bot", CALL | {"more": 1}, id="p"))
    with pytest.raises(LocalProtocolError, match="by its id alone: bot has used that id before") as caught:
        approve(of)
    assert caught.value.code == "id_used_before"
    found = of.get("p")
    assert found is not None and approve(of, digest=found.digest)["payload"]["more"] == 1


# --- edits ---


def proposed(payload: dict[str, Any]) -> Proposal:
    book = Book()
    members = {"id": "p", "from": "bot", "kind": "mcp/proposal", "to": ["git"], "payload": payload}
    book.observe(Envelope.of(members))
    found = book.get("p")
    assert found is not None
    return found


def call(**arguments: Any) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": "git_log", "arguments": arguments}}


@pytest.mark.threat(14)
def test_threat_14_the_digest_is_that_of_the_changed_bytes() -> None:
    edit = edit_proposal(
        proposed(call(n=1, repo=".")), {"name": "git_log", "arguments": {"n": 2, "repo": "."}}
    )
    what = {"from": "bot", "id": "p", "payload": call(n=2, repo="."), "to": ["git"]}
    text = json.dumps(what, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert edit.digest == sha256(text.encode()).hexdigest()
    assert [(one.path, one.proposed, one.sent) for one in edit.difference] == [("params.arguments.n", 1, 2)]


def test_what_is_changed_afterwards_changes_no_edit() -> None:
    params: dict[str, Any] = {"name": "git_log", "arguments": {"n": 2}}
    edit = edit_proposal(proposed(call(n=1)), params)
    params["arguments"]["n"] = 3
    assert edit.params["arguments"] == {"n": 2}


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"name": "git_push", "arguments": {}}, "cannot run another tool"),
        ({"arguments": {"n": 1}}, "cannot run another tool"),
        ({"name": "git_log", "arguments": {"n": 1}}, "nothing is changed"),
        ({"name": "git_log", "arguments": {"n": float("nan")}}, "cannot be written as JSON"),
        ({"name": "git_log", "arguments": {"n": "\ud800"}}, "cannot be written as JSON"),
    ],
)
def test_what_is_no_edit_is_refused(params: dict[str, Any], says: str) -> None:
    with pytest.raises(MewError, match=says):
        edit_proposal(proposed(call(n=1)), params)


def test_a_method_without_a_tool_is_edited_too() -> None:
    edit = edit_proposal(proposed({"method": "resources/read", "params": {"uri": "a"}}), {"uri": "b"})
    assert edit.params == {"uri": "b"}
    assert edit_proposal(proposed({"method": "tools/list"}), {"cursor": "2"}).difference[0].path == "params"


LARGE = {"method": "tools/call", "params": {"name": "t", "arguments": {"a": [*range(5_000)]}}}


@pytest.mark.threat(14)
@pytest.mark.parametrize(
    ("then", "fault"),
    [
        ([said("mcp/withdraw", "bot")], "withdrawn"),
        ([said("mcp/reject", "anna")], "rejected"),
        ([said("mcp/request", "anna", LARGE, id="r")], "approved it before"),
        ([said("mcp/withdraw", "bot"), said("mcp/proposal", "bot", LARGE, id="p")], "not what is proposed"),
    ],
)
def test_what_is_decided_while_a_large_approval_is_drafted_ends_it(then: list[Envelope], fault: str) -> None:
    pauses = 1
    while True:  # once after each pause, until the draft has no more of them
        made = Book()
        made.observe(said("mcp/proposal", "bot", LARGE, id="p"))
        found = made.get("p")
        rows = rows_of(rebuild_proposed(found, id="r-1"))
        steps = draft_approval(
            made, "p", me="human", digest=found.digest, to=None, request_id="r-1", rows=rows
        )
        if sum(1 for _ in itertools.islice(steps, pauses)) < pauses:
            assert pauses > 20
            return
        for envelope in then:
            made.observe(envelope)
        with pytest.raises(MewError, match=fault):
            finish(steps)
        pauses += 1
