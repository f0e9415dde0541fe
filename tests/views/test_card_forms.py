"""Edits, grants and several decisions at once, as a browser asks for them, in a real space."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mew_lab.lab.decisions.gate import Gate
from mew_lab.lab.lab import Lab
from mew_lab.views.approvals.widget import OPEN, ApprovalsView, view_of


@pytest.fixture
def lab(lab: Lab) -> Lab:
    @lab.tool
    def write(path: str, text: str = "") -> str:
        "Writes."
        return f"wrote {path}"

    return lab


class Page:
    """A view on a page that acts."""

    def __init__(self, lab: Lab, browser: Callable[..., Any]) -> None:
        self.lab = lab
        self.view: ApprovalsView = view_of(lab, lab.granting)
        self.now = 0.0
        gate = lab.decisions.gate = lab.decisions.queue.gate = Gate(lambda: self.now)
        lab.decisions.click = gate.click
        self.page = browser(self.view)
        self.bot = lab.join("bot", can="proposer")
        self.act = self.page.act
        self.nonce = self.page.appear()["nonce"]

    def propose(self, **arguments: Any) -> Any:
        pending = self.bot.call("notebook/write", arguments)
        self.page.until(
            lambda: any(
                one["card"]["id"] == pending.id and one["card"]["digest"] for one in self.page.of("card")
            )
        )
        self.page.send({"t": "seen", "id": pending.id})
        return pending

    def decide(self, id: str, digest: str, **more: Any) -> None:
        message = {"t": "decide", "id": id, "digest": digest, "decision": "approve", "nonce": self.nonce}
        self.look(id, digest)
        self.page.send(message | {"view": "v1"} | more)

    def look(self, id: str, digest: str) -> None:
        """The page has this face of the proposal in sight for as long as it must."""
        self.page.send({"t": "seen", "view": "v1", "id": id, "digest": digest})
        self.now += 0.5

    def digest(self, id: str) -> str:
        return self.lab.decisions.card(id).digest

    def decided(self, id: str) -> Any:
        return self.page.until(
            lambda: [one for one in self.lab.decisions.decided() if one.id == id and one.state != "fulfilled"]
        )[0]

    def notice(self) -> str:
        return str(self.page.until(lambda: self.page.of("notice"))[-1]["text"])

    def sent(self, kind: str) -> list[dict[str, Any]]:
        told = [json.loads(record.raw) for record in self.lab.log.held if record.raw]
        return [one for one in told if one.get("kind") == kind and one["from"] == "human"]


@pytest.fixture
def page(lab: Lab, browser: Callable[..., Any]) -> Page:
    return Page(lab, browser)


@pytest.mark.req("S-L2-16", "P-3.2.1-3")
@pytest.mark.threat(14)
def test_threat_14_an_edit_is_confirmed_by_the_digest_of_what_the_kernel_showed(page: Page) -> None:
    pending = page.propose(path="a.md", text="one")
    form = page.act("form", id=pending.id)["value"]
    assert [(one["name"], one["text"], one["isText"]) for one in form["fields"]] == [
        ("path", "a.md", True),
        ("text", "one", True),
    ]
    # The form of Tools, from the schema of the tool, with the proposed values.
    assert [member["key"] for member in form["plan"]["members"]] == ["path", "text"]
    assert json.loads(form["value"]) == {"path": "a.md", "text": "one"}
    made = page.act("review", id=pending.id, changes=[{"index": 1, "text": "two"}])["value"]
    assert [(line["name"], line["how"]) for line in made["lines"][:2]] == [
        ("path", "same"),
        ("text", "changed"),
    ]
    assert {line["how"] for line in made["lines"][2:]} == {"same"} and len(made["lines"]) == 7
    assert made["lines"][1]["lines"] == [["-", '"one"'], ["+", '"two"']]
    whole = page.act("review", id=pending.id, arguments='{"path": "a.md", "text": "two"}')["value"]
    assert whole["digest"] == made["digest"], "the whole as JSON says the same"
    page.decide(pending.id, made["digest"])
    assert page.decided(pending.id).edited
    [request] = [one for one in page.sent("mcp/request") if one.get("correlation_id")]
    assert request["payload"]["params"]["arguments"] == {"path": "a.md", "text": "two"}
    assert page.sent("chat")[0]["payload"]["text"].endswith('text: "one" → "two"')


@pytest.mark.threat(14, 16)
def test_threat_16_what_is_long_in_an_edit_is_opened_on_the_edit_before_it_is_confirmed(page: Page) -> None:
    pending = page.propose(path="a.md", text="line\n" * 5000)
    made = page.act("review", id=pending.id, changes=[{"index": 0, "text": "b.md"}])["value"]
    page.page.send({"t": "value", "id": pending.id, "index": 1})
    page.page.until(lambda: page.page.of("value"))
    page.decide(pending.id, made["digest"])
    assert page.notice().endswith(": not approved, because text was not opened; expand it first")
    page.page.send({"t": "value", "id": pending.id, "digest": made["digest"], "index": 1})
    page.page.until(lambda: len(page.page.of("value")) == 2)
    page.decide(pending.id, made["digest"])
    assert page.decided(pending.id).edited


@pytest.mark.threat(14)
def test_threat_14_what_was_not_reviewed_here_is_not_confirmed(page: Page) -> None:
    one, other = page.propose(path="a"), page.propose(path="b")
    made = page.act("review", id=other.id, changes=[{"index": 0, "text": "c"}])["value"]
    for digest in (made["digest"], "0" * 64):
        page.decide(one.id, digest)
        assert "what was shown is not what is proposed" in page.notice()
    page.decide(other.id, made["digest"], decision="reject")
    assert "what was shown is not what is proposed" in page.notice()
    assert not [one for one in page.sent("mcp/request") if one.get("correlation_id")]


@pytest.mark.threat(22)
def test_threat_22_a_grant_goes_out_only_as_it_was_offered(page: Page) -> None:
    pending = page.propose(path="a.md")
    offer = page.act("offer", id=pending.id, values=True, limit="1 use")["value"]
    assert json.loads(offer["pattern"])["payload"]["params"]["arguments"] == {"path": "a.md"}
    assert (offer["to"], offer["count"], offer["limit"]) == ("bot", 1, "1 use")
    page.decide(pending.id, page.digest(pending.id), offer="0" * 64)
    assert "Nothing was approved or granted" in page.notice()
    page.decide(pending.id, page.digest(pending.id), offer=offer["digest"])
    page.decided(pending.id)
    page.page.until(lambda: page.lab.granting.given)
    [grant] = page.sent("capability/grant")
    assert grant["payload"]["capabilities"] == [json.loads(offer["pattern"])]


@pytest.mark.threat(5)
def test_threat_05_without_this_kernels_nonce_nothing_is_offered_edited_or_decided(page: Page) -> None:
    pending = page.propose(path="a.md")
    for name, given in (
        ("form", {"id": pending.id}),
        ("review", {"id": pending.id, "changes": [{"index": 0, "text": "x"}]}),
        ("offer", {"id": pending.id, "values": True, "limit": "1 use"}),
        ("decide_all", {"cards": [[pending.id, page.digest(pending.id)]], "decision": "approve"}),
    ):
        answer = page.act(name, nonce="0" * 32, **given)
        assert answer["t"] == "failed" and "does not belong to the running kernel" in answer["said"]
    assert not [one for one in page.sent("mcp/request") if one.get("correlation_id")]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("form", {"id": "p-9"}),
        ("review", {"id": "p-9", "changes": []}),
        ("offer", {"id": "p-9", "values": True, "limit": "for ever"}),
        ("decide_all", {"cards": [["p-9", "0" * 64]], "decision": "approve"}),
        ("decide_all", {"cards": [["p-9", "0" * 64]] * 500, "decision": "approve"}),
        ("always", {}),
    ],
)
def test_what_is_no_act_is_refused_with_a_sentence(page: Page, name: str, given: dict[str, Any]) -> None:
    assert page.act(name, **given)["t"] == "failed"
    assert list(page.view.faults) == []


@pytest.mark.threat(30)
def test_threat_30_several_are_decided_each_by_its_digest_or_none_at_all(page: Page) -> None:
    three = [page.propose(path=f"{n}.md") for n in range(3)]
    pairs = [[one.id, page.digest(one.id)] for one in three]
    for id, digest in pairs:
        page.look(id, digest)
    for wrong in ([*pairs[:2], [three[2].id, "0" * 64]], [*pairs, pairs[0]], [*pairs, ["p-9", "0" * 64]]):
        assert page.act("decide_all", cards=wrong, decision="approve", view="v1")["t"] == "failed"
    assert len(page.lab.decisions.pending()) == 3
    assert page.act("decide_all", cards=pairs, decision="approve", view="v2")["t"] == "failed"
    assert page.act("decide_all", cards=pairs, decision="approve", view="v1")["said"] == "3 of 3 decided"
    for one in three:
        page.decided(one.id)
    related = [one["correlation_id"] for one in page.sent("mcp/request") if one.get("correlation_id")]
    assert sorted(related) == sorted([one.id] for one in three)


def test_several_are_rejected_with_one_reason(page: Page) -> None:
    two = [page.propose(path=f"{n}.md") for n in range(2)]
    pairs = [[one.id, page.digest(one.id)] for one in two]
    for id, digest in pairs:
        page.look(id, digest)
    assert page.act("decide_all", cards=pairs, decision="reject", reason="unsafe", view="v1")["t"] == "done"
    assert [one["payload"]["reason"] for one in page.sent("mcp/reject")] == ["unsafe", "unsafe"]


@pytest.mark.threat(30)
def test_threat_30_the_time_on_screen_is_measured_from_the_first_look_and_kept(page: Page) -> None:
    pending = page.propose(path="a.md")
    for id in (pending.id, "p-9", 7):
        page.page.send({"t": "seen", "view": "v1", "id": id, "digest": page.digest(pending.id)})
    page.decide(pending.id, page.digest(pending.id))
    card = page.decided(pending.id)
    assert card.on_screen is not None and 0 <= card.on_screen < 10
    assert page.lab.history()[0][5] == f"{card.on_screen:.1f} s"
    assert "1 of 1 decided by you" in page.lab.history().note
    head = page.page.until(lambda: [one for one in page.page.of("head") if one["shares"]])[-1]
    assert head["shares"] == "1 of 1 decided by you"
    [note] = [json.loads(r.detail) for r in page.lab.log.held if r.event == "decided"]
    assert note["on_screen"] == pytest.approx(card.on_screen * 1000, abs=1000)


@pytest.mark.threat(30)
def test_threat_30_whoever_approves_five_in_under_two_seconds_each_is_told(page: Page) -> None:
    five = [page.propose(path=f"{n}.md") for n in range(5)]
    for one in five:
        page.decide(one.id, page.digest(one.id))
        page.decided(one.id)
    head = page.page.until(lambda: [one for one in page.page.of("head") if one["hurry"]])[-1]
    assert head["hurry"] == "You approved the last 5 in under 2 s each."
    assert "You approved the last 5 in under 2 s each." in str(page.lab.history())


@pytest.mark.threat(9)
def test_threat_09_a_flood_of_proposals_fills_no_more_than_its_place_and_the_rest_follows(
    page: Page, browser: Callable[..., Any]
) -> None:
    async def flood() -> None:
        for n in range(OPEN + 30):
            page.bot.participant.propose("notebook/write", {"path": str(n)})

    page.lab.loop.run(flood(), timeout=20, doing="flooding")
    page.page.until(lambda: len(page.lab.decisions.pending()) == OPEN + 30)
    page.page.until(lambda: page.page.of("head") and page.page.of("head")[-1]["more"] == 30)
    fresh = browser(view_of(page.lab, page.lab.granting)).appear()
    assert len(fresh["cards"]) == OPEN and fresh["more"] == 30
    gaps = [b - a for a, b in zip(page.page.moments, page.page.moments[1:], strict=False)]
    assert min(gaps) > 0.03, "at most 25 messages a second"
    first = page.lab.decisions.pending()[0]
    page.page.send({"t": "seen", "id": first.id})
    page.decide(first.id, first.digest, decision="reject", reason="busy")
    page.page.until(lambda: page.page.of("head")[-1]["more"] == 29)


@pytest.mark.threat(3, 17)
def test_threat_17_all_that_is_shown_of_a_face_is_visible_text(page: Page) -> None:
    hidden = "a\u202eb\u200bc\x1b[31m"
    pending = page.bot.propose("notebook/write", {hidden: hidden, "b": [hidden]})
    page.page.until(lambda: page.page.of("card"))
    made = page.act("review", id=pending.id, changes=[{"name": f"{hidden}2", "json": json.dumps(hidden)}])[
        "value"
    ]
    offer = page.act("offer", id=pending.id, values=False, limit="no end")["value"]
    shown = json.dumps([made, offer], ensure_ascii=False)
    assert not set(shown) & set("\u202e\u200b\x1b")


@pytest.mark.ruling("R35", "R42")
def test_the_line_of_a_card_takes_what_a_person_found_out_and_refuses_what_is_known(
    page: Page, tmp_path: Path
) -> None:
    server = Path(__file__).parent.parent / "lab" / "paying_server.py"
    (tmp_path / "dies").touch()
    page.lab.bridge("bank", ["python", str(server), str(tmp_path / "account")])
    lost, known = page.bot.propose("bank/pay", {"amount": 7}), page.propose(path="a.md")
    page.page.until(lambda: len(page.lab.proposals()) == 2)
    page.lab.approve(next(one for one in page.lab.proposals() if one.id == lost.id))

    def card() -> Any:
        return next((one for one in page.lab.decisions.decided() if one.id == lost.id), None)

    page.page.until(lambda: (one := card()) is not None and one.state == "unknown")
    assert "no call with this id" in page.act("found_out", id="another", happened=True)["said"]
    assert "nobody approved, so nothing was sent" in page.act("found_out", id=known.id, happened=True)["said"]
    assert card().state == "unknown"
    said = page.act("found_out", id=lost.id, happened=True, note="the ledger has it")["said"]
    assert said == "Recorded in your name, human: it happened"
    page.page.until(lambda: card().state == "resolved")
    assert card().outcome.endswith("found out: it happened (human: the ledger has it)")
