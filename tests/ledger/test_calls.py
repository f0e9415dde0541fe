"""What the book believes, what it keeps as a claim, and what a fulfilment is made of."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.errors import LocalProtocolError
from mew_lab.ledger.calls import CallLedger, Change, Claim, Proposal, Rejection, error_text, is_failure, shown
from mew_lab.ledger.entry import Entry
from mew_lab.protocol.difference import ABSENT, Difference
from mew_lab.protocol.envelope import Envelope, digest
from mew_lab.sdk.decisions import draft_fulfilment

from .book import Book

ASKED = {"method": "tools/call", "params": {"name": "git_log", "arguments": {"repo_path": "."}}}
ANSWER = {"jsonrpc": "2.0", "id": "p1", "result": {"content": []}}


def envelope(kind: str, sender: str, id: str, payload: Any = None, **members: Any) -> Envelope:
    return Envelope.of({"id": id, "from": sender, "kind": kind, **members, "payload": payload or {}})


def proposal(id: str = "p1", sender: str = "bot", payload: Any = None, **members: Any) -> Envelope:
    return envelope("mcp/proposal", sender, id, payload or ASKED, **{"to": ["git"], **members})


def request(
    id: str = "r1", sender: str = "human", payload: Any = None, related: str = "p1", **members: Any
) -> Envelope:
    payload = payload or {"jsonrpc": "2.0", "id": "p1", **ASKED}
    return envelope(
        "mcp/request", sender, id, payload, **{"to": ["git"], "correlation_id": [related], **members}
    )


def response(sender: str = "git", id: str = "a1", related: str = "r1", payload: Any = None) -> Envelope:
    return envelope("mcp/response", sender, id, payload or ANSWER, to=["human"], correlation_id=[related])


def withdraw(sender: str = "bot", id: str = "w1", reason: Any = "timeout") -> Envelope:
    return envelope("mcp/withdraw", sender, id, {"reason": reason}, correlation_id=["p1"])


def reject(sender: str = "git", id: str = "x1", reason: Any = "unsafe") -> Envelope:
    return envelope("mcp/reject", sender, id, {"reason": reason}, correlation_id=["p1"])


def told(*envelopes: Envelope) -> tuple[Book, list[Change]]:
    book = Book()
    return book, [change for one in envelopes for change in book.observe(one)]


def now(*envelopes: Envelope) -> Proposal:
    found = told(*envelopes)[0].proposals.get("p1")
    assert found is not None
    return found


def test_a_participant_holds_its_own_requests_and_the_proposals_of_all() -> None:
    ledger = CallLedger(me="human")
    others = request("r3", "ann", related="p0")
    for seq, one in enumerate(
        [
            request("r1", "human", related="p0"),
            response("git", "a1", "r1"),
            request("r2", "bot", related="p0", to=["git", "human"]),
            others,
            response("git", "a3", "r3"),
            proposal(),
            request("r4", "ann"),
            response("git", "a4", "r4"),
        ],
        start=1,
    ):
        ledger.observe(Entry.of(one, seq, malformed=False))
    assert [(held.id, held.state) for held in ledger.requests] == [("r1", "answered"), ("r2", "waiting")]
    assert [(held.id, held.state, held.by) for held in ledger.proposals] == [("p1", "answered", "ann")]
    ledger.hold_all_requests()
    ledger.observe(Entry.of(others, 9, malformed=False))
    assert ledger.requests.get("r3") is not None


@pytest.mark.req("P-8.2-8", "P-3.2-2")
def test_a_proposal_is_open_until_somebody_decides() -> None:
    book, changes = told(proposal())
    assert [change.what for change in changes] == ["proposed"]
    found = changes[0].proposal
    assert (found.id, found.proposer, found.to, found.payload) == ("p1", "bot", ("git",), ASKED)
    assert (found.state, found.method, found.tool, found.decided, found.fulfilment) == (
        "open",
        "tools/call",
        "git_log",
        False,
        None,
    )
    assert book.proposals.open() == [found] and list(book.proposals) == [found] and len(book.proposals) == 1


@pytest.mark.req("P-3.2.1-2")
def test_a_proposal_may_itself_correlate_to_something() -> None:
    assert now(proposal(correlation_id=["chat-1"])).state == "open"


@pytest.mark.req("P-3.2.1-7", "S-L2-17", "P-3.2.1-5", "C-3")
def test_the_chain_of_fulfilment_and_answer_is_followed() -> None:
    book, changes = told(proposal(), request(), response())
    assert [change.what for change in changes] == ["proposed", "fulfilled", "answered"]
    assert changes[1].proposal.state == "fulfilled"
    found = book.proposals.get("p1")
    assert found is not None
    assert (found.state, found.fulfilment, found.by, found.edited, found.claims) == (
        "answered",
        "r1",
        "human",
        False,
        (),
    )
    assert found.response is not None and found.response.id == "a1"
    assert book.proposals.open() == []


CLAIMS = [
    (request(sender="bot"), "it comes from the proposer itself"),
    (request(to=["git", "eve"]), "it has other addressees"),
    (request(to=["eve"]), "it has other addressees"),
    (request(to=[]), "it is addressed to nobody"),
    (request(payload={"method": "tools/list"}), "it has another method"),
    (request(payload={"method": "tools/call", "params": {"name": "git_commit"}}), "it names another tool"),
    (request(payload={"method": "tools/call", "params": []}), "it names another tool"),
    (response(related="p1"), "an answer belongs to a request, not to a proposal"),
    (response("eve", related="p1"), "an answer belongs to a request, not to a proposal"),
    (withdraw("eve"), "only its proposer can withdraw it"),
    (proposal(sender="eve"), "the proposal's id is taken"),
]


@pytest.mark.threat(13)
@pytest.mark.req("C-3", "S-L2-22", "P-3.3.1-1")
@pytest.mark.parametrize(("claim", "why"), CLAIMS, ids=[f"{one.kind} {why}" for one, why in CLAIMS])
def test_what_does_not_fit_is_a_claim_and_changes_nothing(claim: Envelope, why: str) -> None:
    found = now(proposal(), claim)
    assert found.state == "open" and found.proposer == "bot"
    assert found.claims == (Claim(claim.id, claim.kind, claim.sender, why),)
    assert now(proposal(), claim, request(id="real"), response(related="real")).state == "answered"


@pytest.mark.threat(13)
def test_an_answer_counts_only_from_whom_the_request_named() -> None:
    found = now(proposal(), request(), response("eve", id="lie"))
    assert found.state == "fulfilled"
    assert found.claims == (Claim("lie", "mcp/response", "eve", "its sender was not asked"),)
    assert now(proposal(), request(), response("eve", id="lie"), response()).state == "answered"


@pytest.mark.req("S-L2-19", "C-22")
def test_the_first_of_two_fulfilments_wins() -> None:
    found = now(
        proposal(), request(), request(id="r2", sender="admin"), response(related="r2"), response(id="a2")
    )
    assert (found.fulfilment, found.by) == ("r1", "human")
    assert found.response is not None and found.response.id == "a2"
    assert found.claims == (Claim("r2", "mcp/request", "admin", "human fulfilled it before"),)


def test_a_second_answer_is_a_claim() -> None:
    found = now(proposal(), request(), response(), response(id="a2"))
    assert found.response is not None and found.response.id == "a1"
    assert found.claims == (Claim("a2", "mcp/response", "git", "it was answered before"),)


@pytest.mark.threat(19)
@pytest.mark.req("P-3.3.1-1", "C-22")
def test_nothing_counts_after_the_withdraw() -> None:
    found = now(proposal(), withdraw(), request(), response(), reject(), withdraw(id="w2"))
    assert (found.state, found.by, found.reason, found.fulfilment) == ("withdrawn", "bot", "timeout", None)
    assert [claim.why for claim in found.claims] == ["it comes after the withdraw"] * 3


def test_a_withdraw_or_reject_after_the_fulfilment_is_a_claim() -> None:
    found = now(proposal(), request(), withdraw(), reject())
    assert found.state == "fulfilled"
    assert [claim.why for claim in found.claims] == ["human fulfilled it before"] * 2


@pytest.mark.req("P-3.3.2-7", "P-3.3.3-2", "P-3.3.3-1", "S-L2-23")
def test_several_rejections_are_kept_with_their_own_words() -> None:
    found = now(
        proposal(), reject(), reject("admin", "x2", "méh ☹"), reject("eve", "x3", None), reject("a", "x4", 7)
    )
    assert found.state == "rejected" and not found.decided
    assert found.rejections == (
        Rejection("git", "unsafe"),
        Rejection("admin", "méh ☹"),
        Rejection("eve", ""),
        Rejection("a", ""),
    )


@pytest.mark.req("P-3.3.2-6")
def test_a_rejected_proposal_can_still_be_fulfilled_by_another() -> None:
    book, _ = told(proposal(), reject())
    assert book.proposals.open() == []
    book.observe(request())
    book.observe(response())
    found = book.proposals.get("p1")
    assert (
        found is not None and found.state == "answered" and found.rejections == (Rejection("git", "unsafe"),)
    )


@pytest.mark.req("S-L2-16", "C-22")
def test_changed_arguments_are_marked_edited_with_the_difference() -> None:
    changed = {
        "jsonrpc": "2.0",
        "id": 4,
        "method": "tools/call",
        "params": {"name": "git_log", "arguments": {"repo_path": "/etc", "max": 1}},
    }
    found = now(proposal(), request(payload=changed))
    assert found.state == "fulfilled" and found.edited
    assert found.difference == (
        Difference("params.arguments.repo_path", ".", "/etc"),
        Difference("params.arguments.max", ABSENT, 1),
    )


@pytest.mark.parametrize(
    ("proposed", "sent", "edited"),
    [
        ({"n": 1}, {"n": 1.0}, False),
        ({"n": 1}, {"n": True}, True),
        ({"n": [1, 2]}, {"n": [1]}, True),
        ({"n": None}, {}, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False),
        ({"n": {}}, {"n": []}, True),
    ],
)
def test_edited_is_judged_by_the_values(proposed: Any, sent: Any, edited: bool) -> None:
    call = {"method": "tools/call", "params": {"name": "t", "arguments": proposed}}
    sent_call = {"method": "tools/call", "params": {"name": "t", "arguments": sent}}
    assert now(proposal(payload=call), request(payload=sent_call)).edited is edited


def test_a_proposal_to_nobody_may_be_fulfilled_at_somebody_and_is_edited() -> None:
    found = now(proposal(to=[]), request(), response())
    assert (found.state, found.edited) == ("answered", True)
    assert found.difference == (Difference("to[0]", ABSENT, "git"),)


def test_the_order_of_addressees_does_not_matter() -> None:
    found = now(proposal(to=["a", "b"]), request(to=["b", "a"]), response("b"))
    assert found.state == "answered" and not found.edited


def test_a_request_that_takes_an_id_anew_takes_its_answers_too_so_the_outcome_of_the_first_is_unknown() -> (
    None
):
    found = now(proposal(), request(), request(related="other"), response())
    assert found.state == "unknown" and found.response is None
    sent_again = now(proposal(), request(), request(), response())
    assert sent_again.state == "answered" and [one.kind for one in sent_again.claims] == ["mcp/request"]


def test_a_proposer_that_comes_back_may_use_its_id_again() -> None:
    again = proposal(payload={"method": "tools/list"})
    found = now(proposal(), request(), again, response())
    assert (found.state, found.method, found.claims) == ("open", "tools/list", ())


@pytest.mark.req("P-4.3-6", "P-2.2-4")
def test_what_relates_to_nothing_known_is_ignored() -> None:
    book, changes = told(
        request(), response(), withdraw(), reject(), envelope("chat", "a", "c", {"text": "p1"})
    )
    assert changes == [] and len(book.proposals) == 0


@pytest.mark.req("P-4.3-5")
@pytest.mark.parametrize("payload", [{"method": 7}, {"params": {}}, {"method": None}])
def test_a_proposal_without_a_method_is_no_proposal(payload: Any) -> None:
    assert told(proposal(payload=payload))[1] == []


@pytest.mark.req("P-3-16")
def test_one_envelope_may_decide_several() -> None:
    book, _ = told(proposal("p1"), proposal("p2"), request(correlation_id=["p1", "p2", "p2"]), response())
    assert [one.state for one in book.proposals] == ["answered", "answered"]


def test_decided_proposals_are_forgotten_first_and_open_ones_last() -> None:
    book = Book(limit=2)
    for one in (proposal("p1"), proposal("p2"), request(), proposal("p3")):
        book.observe(one)
    assert [one.id for one in book.proposals] == ["p2", "p3"]
    book.observe(proposal("p4"))
    assert [one.id for one in book.proposals.open()] == ["p3", "p4"]
    assert book.observe(response()) == ()


@pytest.mark.threat(9)
def test_remarks_of_one_proposal_are_bounded() -> None:
    book, _ = told(proposal())
    for n in range(500):
        book.observe(reject("eve", f"x{n}"))
        book.observe(withdraw("eve", f"w{n}"))
    found = book.proposals.get("p1")
    assert found is not None and (len(found.rejections), len(found.claims)) == (100, 100)


@pytest.mark.threat(9)
def test_nobody_leaves_no_room_for_the_remarks_of_others() -> None:
    book, _ = told(proposal())
    for n in range(150):
        book.observe(reject("eve", f"x{n}", f"no {n}"))
        book.observe(withdraw("eve", f"w{n}"))
    book.observe(reject("human", "x", "mine"))
    [change] = book.observe(withdraw("helper", "w"))
    found = change.proposal
    assert found.rejections[-1] == Rejection("human", "mine") and len(found.rejections) == 100
    assert found.claims[-1].by == "helper" and len(found.claims) == 100
    for n in range(150):
        book.observe(reject("eve", f"y{n}", f"again {n}"))
    found = book.proposals.get("p1")
    assert found is not None and Rejection("human", "mine") in found.rejections
    assert found.rejections[-1] == Rejection("eve", "again 149") and found.weight == book.proposals.weight


@pytest.mark.threat(9)
def test_a_crowd_drives_nobodys_rejection_out() -> None:
    book, _ = told(proposal())
    for n in range(150):
        book.observe(reject(f"p{n}", f"x{n}"))
    found = book.proposals.get("p1")
    assert found is not None and [one.by for one in found.rejections] == [f"p{n}" for n in range(100)]


@pytest.mark.threat(9)
def test_one_request_costs_one_comparison_of_the_largest_messages() -> None:
    book = Book()
    large = {"method": "m", "params": {"numbers": list(range(50_000))}}
    ids = [f"p{n}" for n in range(20)]
    for id in ids:
        book.observe(proposal(id, payload=large))
    size = len(proposal(payload=large).raw)
    changes = book.observe(request(payload=large, correlation_id=ids))
    assert [change.what for change in changes] == ["fulfilled"] * 20
    differences = [change.proposal.difference for change in changes]
    compared = len(differences) - differences.count(None)
    assert 1 <= compared <= 2 * 1024 * 1024 // (2 * size) and differences[:compared] == [()] * compared
    # What was not compared is not the same.
    assert {change.proposal.edited for change in changes} == {False, None}
    [change] = book.observe(proposal("q", payload=large))
    [change] = book.observe(request("r2", payload=large, related="q"))
    assert change.proposal.edited is False


@pytest.mark.threat(9)
@pytest.mark.slow
def test_a_request_to_a_crowd_about_many_proposals_costs_what_it_is_long() -> None:
    book = Book()
    ids = [f"p{n}" for n in range(2000)]
    for id in ids:
        book.observe(proposal(id))
    crowd = [f"m{n}" for n in range(100_000)]
    times = []
    for about in ids[:1], ids:
        crowded = request(f"r{len(about)}", to=crowd, correlation_id=about)
        began = time.process_time()
        changes = book.observe(crowded)
        times.append(time.process_time() - began)
    # The addressees are read once, however many proposals it is about: 2,000 times would take as much longer.
    assert times[1] < 500 * times[0], times
    assert {change.proposal.claims[-1].why for change in changes} == {"it has other addressees"}


@pytest.mark.threat(9)
def test_large_proposals_are_forgotten_before_memory_is_full() -> None:
    book = Book()
    large = {"method": "tools/call", "params": {"name": "t", "arguments": {"text": "x" * 16 * 1024 * 1024}}}
    for n in range(6):
        book.observe(proposal(f"p{n}", payload=large))
    assert [one.id for one in book.proposals] == ["p3", "p4", "p5"]


@pytest.mark.threat(9)
@given(
    limits=st.fixed_dictionaries({"limit": st.integers(8, 12), "weight": st.integers(20_000, 30_000)}),
    flood=st.lists(
        st.sampled_from(["open", "fulfilled", "withdrawn", "large", "rejected", "claimed"]), min_size=15
    ),
    state=st.sampled_from(["open", "rejected", "fulfilled"]),
)
def test_nobody_drives_out_the_calls_of_others(limits: Any, flood: list[str], state: str) -> None:
    book = Book(**limits)
    before = {"open": [], "rejected": [reject()], "fulfilled": [request()]}[state]
    for one in (proposal(), *before):
        book.observe(one)
    for n, what in enumerate(flood):
        id = f"e{n}"
        size = 6000 if what == "large" else 10
        book.observe(proposal(id, "eve", {"method": "m", "params": {"text": "x" * size}}))
        related: dict[str, Any] = {"correlation_id": [id]}
        if what == "fulfilled":
            book.observe(request(f"r-{id}", "mal", {"method": "m"}, related=id))
        elif what == "withdrawn":
            book.observe(envelope("mcp/withdraw", "eve", f"w-{id}", **related))
        elif what == "rejected":
            book.observe(envelope("mcp/reject", "mal", f"x-{id}", {"reason": "r" * 900}, **related))
        elif what == "claimed":
            book.observe(envelope("mcp/withdraw", "mal", f"w-{id}", **related))
    known = book.proposals.get("p1")
    assert known is not None and known.state == state
    assert len(book.proposals) <= limits["limit"]


@pytest.mark.threat(9)
def test_what_happens_to_one_proposal_does_not_count_as_further_proposals_of_its_sender() -> None:
    book = Book(limit=4)
    book.observe(proposal("p1", "ann"))
    for n in range(5):
        book.observe(envelope("mcp/reject", f"peer-{n}", f"x{n}", correlation_id=["p1"]))
    for n in (2, 3, 4):
        book.observe(proposal(f"p{n}", "bot"))
    book.observe(proposal("p5", "carl"))
    assert [known.id for known in book.proposals] == ["p1", "p3", "p4", "p5"]


def test_a_single_call_is_held_however_large_it_is() -> None:
    book = Book(weight=10)
    book.observe(proposal("p1"))
    assert [known.id for known in book.proposals] == ["p1"]
    book.observe(proposal("p2"))
    assert [known.id for known in book.proposals] == ["p2"]


def test_what_is_forgotten_before_it_has_ended_is_told() -> None:
    book = Book(limit=2)
    told = [change for n in range(1, 5) for change in book.observe(proposal(f"p{n}"))]
    assert [change.call.id for change in told if change.what == "forgotten"] == ["p1", "p2"]
    answered = Book(limit=1)
    for one in (proposal(), request(), response()):
        answered.observe(one)
    assert [change.what for change in answered.observe(proposal("p2"))] == ["proposed"]


@pytest.mark.threat(9)
@pytest.mark.parametrize("kind", ["mcp/reject", "mcp/withdraw"])
def test_what_others_say_about_a_call_is_bounded_and_weighed(kind: str) -> None:
    book = Book()
    book.observe(proposal())
    for n in range(100):
        about = {"correlation_id": ["p1"]}
        book.observe(envelope(kind, "eve", f"x{n}", {"reason": "r" * 100_000}, **about))
    book.observe(withdraw(reason="r" * 100_000))
    found = book.proposals.get("p1")
    assert found is not None and found.weight == book.proposals.weight
    held = [found.reason, *(text for remark in (*found.rejections, *found.claims) for text in remark)]
    assert sum(map(len, held)) <= found.weight <= 200_000


# --- what is approved -----------------------------------------------------------------------------


@pytest.mark.threat(14)
def test_the_digest_is_of_id_from_to_and_payload() -> None:
    found = now(proposal(to=["git", "b"]))
    assert shown(found.envelope) == {"id": "p1", "from": "bot", "to": ["git", "b"], "payload": ASKED}
    assert found.digest == digest({"id": "p1", "from": "bot", "to": ["git", "b"], "payload": ASKED})
    assert shown(proposal(to=[]))["to"] == []


@pytest.mark.threat(14)
@pytest.mark.req("P-3.2.1-3", "S-L2-14", "S-L2-15", "S-L2-16", "P-8.2-9")
def test_a_fulfilment_is_the_proposal_with_a_correlation() -> None:
    draft = draft_fulfilment(now(proposal(context="work/step-1")), id="r-1")
    assert draft == {
        "id": "r-1",
        "kind": "mcp/request",
        "to": ["git"],
        "correlation_id": ["p1"],
        "payload": {"jsonrpc": "2.0", "id": "r-1", **ASKED},
    }


@pytest.mark.threat(35)
def test_threat_35_the_json_rpc_id_is_never_of_the_proposers_choice() -> None:
    for id in (7, None, "p1", {"a": 1}):
        payload = draft_fulfilment(now(proposal(payload={"id": id, "jsonrpc": "2.0", **ASKED})), id="r-1")[
            "payload"
        ]
        assert payload == {"jsonrpc": "2.0", "id": "r-1", **ASKED}
    assert (
        draft_fulfilment(now(proposal(payload={"jsonrpc": "1.0", **ASKED})), id="r-1")["payload"]["jsonrpc"]
        == "1.0"
    )
    note = {"method": "notifications/cancelled", "params": {"requestId": 1}}
    for payload in (note, note | {"id": 3}):
        assert draft_fulfilment(now(proposal(payload=payload)), id="r-1")["payload"] == {
            "jsonrpc": "2.0",
            **note,
        }


def test_a_target_is_named_exactly_when_the_proposal_names_none() -> None:
    with pytest.raises(
        LocalProtocolError, match="names no addressee: name the participant that executes it with to="
    ):
        draft_fulfilment(now(proposal(to=[])), id="r-1")
    assert draft_fulfilment(now(proposal(to=[])), id="r-1", to=["git"])["to"] == ["git"]
    assert draft_fulfilment(now(proposal()), id="r-1", to=["git"])["to"] == ["git"]
    with pytest.raises(
        LocalProtocolError, match="is addressed to git; an approval cannot send it to eve instead"
    ):
        draft_fulfilment(now(proposal()), id="r-1", to=["eve"])


@pytest.mark.threat(14, 8)
def test_a_text_with_two_readings_can_be_neither_shown_nor_approved() -> None:
    raw = '{"id":"p1","from":"bot","to":["git"],"kind":"mcp/proposal","payload":{"method":"a","method":"b"}}'
    found = now(Envelope.from_members(json.loads(raw), raw=raw))
    with pytest.raises(LocalProtocolError, match="cannot be shown faithfully, so it cannot be approved"):
        _ = found.digest
    with pytest.raises(LocalProtocolError, match="the key 'method' stands twice"):
        draft_fulfilment(found, id="r-1")


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("aé\n\u202e😀", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.threat(14)
@given(arguments=st.dictionaries(st.sampled_from("abcd"), values, max_size=3))
def test_what_is_sent_is_what_was_shown(arguments: Any) -> None:
    call = {"method": "tools/call", "params": {"name": "t", "arguments": arguments}}
    book, _ = told(proposal(payload=call))
    found = book.proposals.get("p1")
    assert found is not None
    draft = draft_fulfilment(found, id="r-1")
    sent = Envelope.of({"id": "r1", "from": "human", **draft})
    assert {key: value for key, value in sent.payload.items() if key not in ("jsonrpc", "id")} == call
    book.observe(sent)
    after = book.proposals.get("p1")
    assert after is not None and after.state == "fulfilled" and not after.edited


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({"error": {"code": -32000, "message": "no such file"}}, "no such file"),
        ({"result": {"isError": True, "content": [7, {"type": "image"}, {"text": ""}, {"text": "broken"}]}},
         "broken [a part that is no object] [a picture without content]"),
        ({"result": {"isError": True, "content": [{"type": "image", "data": "AAAA", "mimeType": "x/y"}]}}, "[x/y, 3 bytes]"),
        ({"result": {"isError": True, "content": {"text": "x"}}}, ""),
        ({"result": {"isError": True}}, ""),
    ],
)  # fmt: skip
def test_the_message_of_a_failed_answer_is_that_of_the_error_or_the_result_of_the_tool(
    payload: dict[str, Any], text: str
) -> None:
    assert is_failure(payload)
    assert error_text(answer(payload)) == text


def answer(payload: dict[str, Any]) -> Entry:
    members = {"id": "s-1", "from": "fs", "kind": "mcp/response", "payload": payload}
    return Entry(1, 0.0, "", "accepted", "", "", "fs", members)


def test_an_answer_that_is_no_error_is_no_failure() -> None:
    assert not is_failure({"result": {"content": [{"text": "fine"}]}})


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({"error": "as a text"}, "as a text"),
        ({"error": {"code": -32000, "message": 7}}, ""),
        ({"error": {"message": "no code"}}, "no code"),
        ({"error": None}, ""),
        ({"result": {"isError": True}, "error": {"code": 1, "message": "both"}}, "both"),
        ({"error": {"code": -32001, "message": "lost", "data": {"code": "outcome_unknown"}}}, "lost"),
    ],
)
def test_an_answer_that_does_not_tell_whether_the_call_took_effect_is_no_failure(
    payload: dict[str, Any], text: str
) -> None:
    assert not is_failure(payload)
    assert error_text(answer(payload)) == text


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["bot", "mallory"]),
            st.one_of(
                st.none(),
                st.dictionaries(
                    st.sampled_from([f"p{n}" for n in range(50)]),
                    st.sampled_from(["cancelled", "gone", "", "waits", None, 3, ["gone"]]),
                    max_size=50,
                ),
            ),
        ),
        max_size=6,
    ),
    st.sampled_from(["open", "withdrawn"]),
)
def test_of_the_client_behind_a_proposal_only_the_last_word_of_its_proposer_counts(
    statuses: list[tuple[str, Any]], state: str
) -> None:
    book = Book()
    for n in range(50):
        book.observe(proposal(f"p{n}", sender="bot" if n % 2 else "mallory"))
    if state == "withdrawn":
        book.observe(withdraw())
    last: dict[str, dict[str, Any]] = {"bot": {}, "mallory": {}}
    for n, (sender, calls) in enumerate(statuses):
        more = {} if calls is None else {"x-calls": calls}
        book.observe(envelope("participant/status", sender, f"s{n}", {"messages_in_context": 0, **more}))
        if calls is not None:
            last[sender] = dict(list(calls.items())[:32])
    for n in range(50):
        known = book.proposals.get(f"p{n}")
        assert known is not None
        told = last[known.proposer].get(known.id)
        assert known.caller == (told if told in ("cancelled", "gone") and not known.decided else "")
