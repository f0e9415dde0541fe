"""What is sent when somebody decides, and when nothing is."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.errors import LocalProtocolError, ProposalEnded, ProposalRejected, ProposalWithdrawn
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.deciding import approval, rejection, withdrawal
from mew_lab.sdk.edits import edited
from mew_lab.sdk.fulfilment import requested
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


def approve(of: Book, me: str = "human", digest: str | None = None, to: Any = None) -> Any:
    return approval(of, "p", me=me, digest=digest, to=to, request_id="r-1")


@pytest.mark.threat(14)
def test_an_approval_is_the_proposals_own_content() -> None:
    found = book().get("p")
    assert found is not None
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
    assert found is not None
    params = {"name": "git_log", "arguments": {"n": 3}}
    edit = edited(found, params)
    assert edit.digest != found.digest
    draft = approval(of, "p", me="human", digest=edit.digest, to=None, params=params, request_id="r-1")
    assert draft["payload"] == {"jsonrpc": "2.0", "id": "r-1", "method": "tools/call", "params": params}
    assert (draft["to"], draft["correlation_id"]) == (["git"], ["p"])
    with pytest.raises(LocalProtocolError, match="what was shown is not what is proposed"):
        approval(of, "p", me="human", digest=found.digest, to=None, params=params, request_id="r-1")
    with pytest.raises(LocalProtocolError, match="what was shown is not what is proposed"):
        approval(of, "p", me="human", digest=edit.digest, to=None, request_id="r-1")


@pytest.mark.req("P-3.3.2-2", "P-3.3.1-2", "P-3.3.2-3")
def test_a_rejection_and_a_withdraw_name_the_proposal() -> None:
    assert rejection(book(), "p", me="human", reason="unsafe") == {
        "kind": "mcp/reject",
        "to": ["bot"],
        "correlation_id": ["p"],
        "payload": {"reason": "unsafe"},
    }
    assert withdrawal(book(), "p", me="bot", reason="timeout") == {
        "kind": "mcp/withdraw",
        "correlation_id": ["p"],
        "payload": {"reason": "timeout"},
    }


@pytest.mark.threat(18, 19)
@pytest.mark.parametrize(
    ("then", "error", "words"),
    [
        (said("mcp/request", "admin", CALL), ProposalEnded, "proposal p: admin fulfilled it before"),
        (
            said("mcp/withdraw", "bot", {"reason": "\x1b[2J"}),
            ProposalWithdrawn,
            r"withdrawn by bot: \\u001b\[2J",
        ),
        (said("mcp/reject", "human", {"reason": "no"}), ProposalRejected, "rejected by human: no"),
    ],
)
def test_whoever_comes_late_is_told_and_nothing_is_sent(then: Envelope, error: type, words: str) -> None:
    late = book(then)
    for decide in (lambda: approve(late), lambda: rejection(late, "p", me="human", reason="x")):
        with pytest.raises(error, match=words):
            decide()


def test_a_rejection_by_somebody_else_binds_nobody() -> None:
    assert approve(book(said("mcp/reject", "other")))["kind"] == "mcp/request"
    assert withdrawal(book(said("mcp/reject", "other")), "p", me="bot", reason="x")["kind"] == "mcp/withdraw"


@pytest.mark.req("S-L2-20", "S-L2-21", "P-3.3.1-1")
def test_only_the_proposer_withdraws_and_only_others_decide() -> None:
    with pytest.raises(LocalProtocolError, match="it is bot's"):
        withdrawal(book(), "p", me="human", reason="x")
    with pytest.raises(LocalProtocolError, match="it is not known here"):
        withdrawal(book(), "q", me="bot", reason="x")
    with pytest.raises(LocalProtocolError, match=r"it is its own; withdraw\(\) takes it back"):
        approve(book(), me="bot")
    with pytest.raises(LocalProtocolError, match="Cannot reject proposal q: it is not known here"):
        rejection(book(), "q", me="human", reason="x")
    with pytest.raises(ProposalEnded, match="Cannot withdraw proposal p: human fulfilled it before"):
        withdrawal(book(said("mcp/request", "human", CALL)), "p", me="bot", reason="x")


@pytest.mark.threat(35)
def test_threat_35_nothing_is_sent_but_what_the_rows_rebuild() -> None:
    found = book().get("p")
    assert found is not None
    rows = rows_of(requested(found, id="r-1"))
    given = {"me": "human", "digest": found.digest, "to": None, "request_id": "r-1"}
    assert approval(book(), "p", rows=rows, **given) == approve(book())
    for wrong in (
        rows[1:],
        (*rows, ("/payload/x", "1")),
        (*rows, rows[0]),
        (("/to", '["shell"]'), *rows[1:]),
    ):
        with pytest.raises(LocalProtocolError, match="Nothing was sent") as caught:
            approval(book(), "p", rows=wrong, **given)
        assert caught.value.code == "rows_mismatch"


@pytest.mark.threat(36)
def test_threat_36_an_id_that_stood_for_another_proposal_is_not_approved_by_its_id_alone() -> None:
    of = book(said("mcp/withdraw", "bot"), said("mcp/proposal", "bot", CALL | {"more": 1}, id="p"))
    with pytest.raises(LocalProtocolError, match="by its id alone: bot has used that id before") as caught:
        approve(of)
    assert caught.value.code == "id_used_before"
    found = of.get("p")
    assert found is not None and approve(of, digest=found.digest)["payload"]["more"] == 1
