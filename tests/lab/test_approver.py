"""An approver runs the adopted rules of the person of a lab, in its own name and with nothing but their permissions (§9.4)."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from mew_lab.errors import ConfigError, MewError, NotApproved
from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect
from mew_lab.lab.standing import classify, standings
from mew_lab.log.receipts import check_consents
from mew_lab.protocol.permit import CapabilitySet
from mew_lab.views.approvals.model import card_data

from .looking import call, eventually, propose, sent
from .test_owned_rules import TEXT, Ruled


@pytest.fixture
def ruled() -> Ruled:
    return Ruled()


def rights_of(lab: Lab, name: str = "approver") -> CapabilitySet:
    """What a participant may send, as its gateway has it."""
    assert lab.host is not None
    found = {one["id"]: one["capabilities"] for one in lab.host.gateway.participants(lab.space)}
    return CapabilitySet(found[name])


def may_call(lab: Lab, tool: str = "read", to: str = "notebook", /, **arguments: Any) -> bool:
    return rights_of(lab).permit("mcp/request", [to], call(tool, **arguments)).allowed


NAMES = itertools.count()


def covered(ruled: Ruled, *, by: str = "coder", name: str = "v") -> Card:
    """A new call that an active rule covers: as a rule has decided it, or as it waits for review."""
    return settled(ruled, propose(ruled.lab, call("read", path=f"docs/{name}{next(NAMES)}.md"), by=by))


def settled(ruled: Ruled, card: Card) -> Card:
    """The card of a call that an active rule covers once it is decided, unless it waits for review."""
    if ruled.lab.loop.call(lambda: ruled.rules.is_review(card)):
        return card
    return eventually(lambda: not (now := ruled.now(card)).is_open and now)


def approved(ruled: Ruled, count: int = 2, **more: str) -> list[Card]:
    """Cards that a rule has approved, with the reviews in between left open."""
    found: list[Card] = []
    while len(found) < count:
        found += [] if (card := covered(ruled, **more)).is_open else [card]
    return found


def teach(ruled: Ruled, by: str) -> None:
    """Adopts the rule for another participant, of which the person has approved two calls."""
    for name in "ab":
        ruled.click(propose(ruled.lab, call("read", path=f"docs/{name}.md"), by=by))
    ruled.adopt(TEXT.replace("coder", by))


def reviewed(ruled: Ruled) -> Card:
    """A card that was chosen for review."""
    while not (card := covered(ruled)).is_open:
        pass
    return card


def none_approved(ruled: Ruled, *, by: str = "coder") -> bool:
    """Whether no rule says yes to four more calls."""
    cards = [propose(ruled.lab, call("read", path=f"docs/w{next(NAMES)}.md"), by=by) for _ in range(4)]
    return all(ruled.settled(card).is_open for card in cards)


# --- what it sends ------------------------------------------------------------------------------------------------------


def test_what_a_rule_approves_is_sent_by_the_approver_with_a_receipt_of_its_own(ruled: Ruled) -> None:
    kept = ruled.adopt()
    seat = ruled.lab.join("approver", rules_of="human")
    cards = [covered(ruled) for _ in range(6)]
    waits = [card.is_open for card in cards]
    assert [sum(waits[n : n + 3]) for n in (0, 3)] == [1, 1], "reviews wait for the person as ever"
    done = [card for card in cards if not card.is_open]
    requests = {
        id: one["from"] for one in sent(ruled.lab, "mcp/request") for id in one.get("correlation_id", ())
    }
    assert {requests[card.id] for card in done} == {"approver"}
    for card in done:
        data = card_data(
            eventually(lambda id=card: (now := ruled.now(id)).state == "done" and now), me="human"
        )
        assert data["decision"] == "Approved by approver, rule 1 of human"
    notes = [one for one in ruled.lab.log.held if one.event == "decided" and one.participant == "approver"]
    assert len(notes) == len(done)
    told = [one for one in ruled.notes("decided") if one.get("how") == "approver"]
    assert [one["proposal"] for one in told] == [card.id for card in done]
    assert {(one["rules_of"], one["by"], one["rule"]["sha256"], one["rule"]["text"]) for one in told} == {
        ("human", "rule 1", kept.rule.sha256, TEXT)
    }
    assert all(one["tool"]["sha256"] == ruled.digest for one in told)
    frame = ruled.lab.log.decisions()
    rows = frame[frame["how"] == "approver"]
    assert rows["proposal"].tolist() == [card.id for card in done]
    assert {*rows["decided_by"]} == {"approver"} and {*rows["rules_of"]} == {"human"}
    assert not rows["teaches"].any() and {*rows["receipt"]} == {"noted"}
    verified = ruled.lab.log.verify()
    numbers = ", ".join(
        f"#{one.seq}"
        for one in verified.consents.consented
        if one.receipt and one.receipt.note.how == "approver"
    )
    assert "4 by approver, rule 1 of human: 4 by an approver\n" in str(verified)
    assert f"rule {kept.rule.sha256[:12]}, “{TEXT}”\n    4 decided by it: {numbers}" in str(verified)
    assert verified.consents.without == () and seat.name == "approver"
    assert kept.life.uses == 4


def test_the_listing_of_rules_and_of_participants_tells_of_it(ruled: Ruled) -> None:
    ruled.adopt()
    assert "approver" not in str(ruled.lab.rules)
    ruled.lab.join("approver", rules_of="human")
    assert "approver sends what they approve, in its own name." in str(ruled.lab.rules)
    [row] = [row for row in ruled.lab.who() if row[0] == "approver"]
    assert row[1] == "approver: rules of human"
    approved(ruled, 1)
    assert "approver by rule 1 of human" in str(ruled.lab.history())
    known = {one.name: one for one in ruled.lab.loop.call(lambda: standings(ruled.lab))}
    kinds = {name: classify(ruled.lab, one) for name, one in known.items()}
    # It calls tools and has none.
    assert kinds == {"human": "you", "notebook": "tools", "coder": "agent", "approver": "other"}


# --- what it may do -----------------------------------------------------------------------------------------------------


def test_its_permissions_are_those_of_the_rules_and_come_and_go_with_them(ruled: Ruled) -> None:
    ruled.lab.join("approver", rules_of="human")
    assert not may_call(ruled.lab, path="docs/a.md")
    kept = ruled.adopt(uses=7)
    eventually(lambda: may_call(ruled.lab, path="docs/a.md"))
    others: list[dict[str, Any]] = [
        {"path": "src/a"},
        {"path": "docs/../x"},
        {"path": "docs/a", "mode": 1},
        {},
    ]
    assert not any(may_call(ruled.lab, **arguments) for arguments in others)
    assert not may_call(ruled.lab, "write", path="docs/a.md") and not may_call(
        ruled.lab, "read", "other", path="docs/a"
    )
    held = rights_of(ruled.lab)
    for kind in ("mcp/proposal", "mcp/reject", "chat", "capability/grant", "participant/pause", "space/kick"):
        assert not held.permit(kind, [], {}).allowed, kind
    [grant] = sent(ruled.lab, "capability/grant")
    assert (grant["from"], grant["payload"]["recipient"], grant["payload"]["max_uses"]) == (
        "human",
        "approver",
        7,
    )
    assert grant["payload"]["reason"] == "rule 1 of human" and "expires_at" in grant["payload"]
    ruled.lab.rules.stop(kept.number)
    eventually(lambda: not may_call(ruled.lab, path="docs/a.md"))


def test_the_permission_of_a_rule_that_is_used_up_has_ended(ruled: Ruled) -> None:
    kept = ruled.adopt(uses=2)
    ruled.lab.join("approver", rules_of="human")
    assert may_call(ruled.lab, path="docs/a.md")
    approved(ruled, 2)
    assert kept.life.state == "expired"
    eventually(lambda: not may_call(ruled.lab, path="docs/a.md"))
    assert none_approved(ruled)
    assert ruled.lab.faults == []


def test_a_rule_with_a_condition_that_no_closed_permission_states_is_sent_by_it_too(ruled: Ruled) -> None:
    lab = ruled.lab

    @lab.tool
    def add(a: int, b: int) -> int:
        "A sum."
        return a + b

    lab.tools("notebook")
    ruled.digest = lab.loop.call(lambda: lab.decisions.tools.digest_of("notebook", "add"))
    for n in (1, 40):
        card = propose(lab, call("add", a=n, b=1), by="coder")
        ruled.click(card)
    ruled.adopt("When coder asks notebook to run add with a from 1 to 40, b 1, and nothing else: approve")
    lab.join("approver", rules_of="human")
    cards = [settled(ruled, propose(lab, call("add", a=n, b=1), by="coder")) for n in range(2, 6)]
    assert {card.by for card in cards if not card.is_open} == {"approver by rule 1 of human"}
    assert not may_call(lab, "read", path="docs/a.md")


def test_where_a_person_takes_its_permission_back_such_calls_wait_for_her(ruled: Ruled) -> None:
    kept = ruled.adopt()
    ruled.lab.join("approver", rules_of="human")
    ruled.lab.of("approver").revoke(sure=True)
    eventually(lambda: not may_call(ruled.lab, path="docs/a.md"))
    cards = [ruled.propose(f"docs/{n}.md") for n in range(3)]
    [first, _] = [
        card for card in cards if not ruled.lab.loop.call(lambda card=card: ruled.rules.is_review(card))
    ]
    with pytest.raises(
        NotApproved, match="not approved by approver, because it has no permission for that call"
    ):
        ruled.lab.loop.run(
            ruled.lab.decisions.carry_out(first.id, digest=first.digest, decision="approve", rule=kept),
            timeout=10,
            doing="deciding",
        )
    assert all(ruled.now(card).is_open for card in cards) and kept.life.uses == 0 and kept.life.acts


# --- for whom it does nothing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("obeys", [("approver",), ("*",), (), None])
def test_it_approves_nothing_of_an_agent_that_obeys_it(ruled: Ruled, obeys: tuple[str, ...] | None) -> None:
    ruled.lab.agent("helper", obeys=obeys)
    teach(ruled, "helper")
    ruled.lab.join("approver", rules_of="human")
    if obeys in ((), None):
        assert approved(ruled, 2, by="helper")
    else:
        assert none_approved(ruled, by="helper")


def test_it_approves_nothing_of_its_own(ruled: Ruled) -> None:
    lab = ruled.lab
    lab.join("approver", rules_of="human")
    lab.of("approver").grant([{"kind": "mcp/proposal"}])
    eventually(lambda: lab.seats["approver"].participant.can_send("mcp/proposal", {}))
    teach(ruled, "approver")
    assert none_approved(ruled, by="approver")
    # Nor does it try to: to send it would be refused, and the use and the receipt would stand all the same.
    [kept] = lab.loop.call(lambda: ruled.rules.kept)
    assert (kept.covered, kept.life.uses) == (0, 0)
    assert not any("rule" in note for note in ruled.notes("decided"))


def test_it_approves_nothing_of_a_participant_elsewhere_to_which_it_may_speak(ruled: Ruled) -> None:
    """Whether that obeys it is not known here."""
    lab = ruled.lab
    lab.enrol("ben", "proposer")
    ben = connect(lab.url, space="demo", token_file=lab.token_file("ben"), name="his")

    def ask(n: int) -> Card:
        draft = {"kind": "mcp/proposal", "to": ["notebook"], "payload": call("read", path=f"docs/b{n}.md")}
        id = ben.me.run(ben.me.participant.send_accepted(draft)).id
        return eventually(lambda: (card := lab.decisions.queue.find(id)) and card.is_read and card)

    for n in range(2):
        ruled.click(ask(n))
    ruled.adopt(TEXT.replace("coder", "ben"))
    lab.join("approver", rules_of="human")
    assert [settled(ruled, ask(n)).is_open for n in range(2, 5)].count(True) == 1
    lab.of("approver").grant([{"kind": "chat"}])
    eventually(lambda: lab.seats["approver"].participant.can_send("chat", {"text": "x"}, to="ben"))
    assert all(ruled.settled(ask(n)).is_open for n in range(5, 9))


@pytest.mark.parametrize("whose", ["ada", "", "Human", "human ", "coder"])
def test_the_rules_of_others_cannot_be_run(ruled: Ruled, whose: str) -> None:
    with pytest.raises(ConfigError, match="the rules of others are kept by them alone; use rules_of='human'"):
        ruled.lab.join("approver", rules_of=whose)
    assert "approver" not in [row[0] for row in ruled.lab.who()]


def test_its_name_is_its_own_and_it_is_alone(ruled: Ruled) -> None:
    lab = ruled.lab
    with pytest.raises(ConfigError, match="it has the permissions of the rules, and no others"):
        lab.join("approver", "human", rules_of="human")
    lab.enrol("ben", "proposer")
    with pytest.raises(MewError, match="another participant of that name"):
        lab.join("ben", rules_of="human")
    with pytest.raises(MewError, match="already exists"):
        lab.join("coder", rules_of="human")
    lab.join("approver", rules_of="human")
    with pytest.raises(MewError, match="'approver' runs the rules of human already"):
        lab.join("second", rules_of="human")
    lab.leave("approver")
    assert lab.join("approver", rules_of="human").participant.client.state == "ready"


# --- what ends it -------------------------------------------------------------------------------------------------------


def leave(lab: Lab) -> None:
    lab.leave("approver")


def pause(lab: Lab) -> None:
    lab.of("approver").pause()


def kick(lab: Lab) -> None:
    lab.of("approver").kick(sure=True)


def stop(lab: Lab) -> None:
    lab.stop(), lab.go(), lab.go()


@pytest.mark.parametrize("end", [pause, kick, stop])
def test_what_holds_it_up_holds_up_the_rules(ruled: Ruled, end: Callable[[Lab], None]) -> None:
    kept = ruled.adopt()
    ruled.lab.join("approver", rules_of="human")
    approved(ruled, 1)
    end(ruled.lab)
    before = kept.life.uses
    assert none_approved(ruled) and kept.life.uses == before
    assert kept.life.acts == (end is not stop)
    if end is pause:
        assert "Such calls wait for you now, because approver is paused by human" in str(ruled.lab.rules)
        ruled.lab.of("approver").resume()
        assert approved(ruled, 1)
    elif end is kick:
        assert "because approver is not connected" in str(ruled.lab.rules)


def test_after_it_has_left_the_rules_approve_in_the_name_of_their_person_and_it_may_send_nothing(
    ruled: Ruled,
) -> None:
    ruled.adopt()
    ruled.lab.join("approver", rules_of="human")
    told = str(ruled.lab.leave("approver"))
    assert told.startswith("approver has left demo. Rule 1 approves in your own name again"), told
    assert not may_call(ruled.lab, path="docs/a.md")
    assert {card.by for card in approved(ruled)} == {"human by rule 1"}
    ruled.lab.rules.stop()
    ruled.lab.join("approver", rules_of="human")
    assert str(ruled.lab.leave("approver")) == "approver has left demo"


def test_a_rejection_by_the_person_suspends_and_so_does_the_cancel_of_a_call(ruled: Ruled) -> None:
    kept = ruled.adopt()
    ruled.lab.join("approver", rules_of="human")
    ruled.click(reviewed(ruled), "reject")
    assert (kept.life.state, kept.life.why) == ("suspended", "a call that it covers was rejected")
    eventually(lambda: not may_call(ruled.lab, path="docs/a.md"))
    ruled.lab.loop.call(lambda: ruled.rules.begin("adopted", kept.rule, how="click"))
    [card] = approved(ruled, 1, name="slow")
    eventually(lambda: ruled.runs[-1].startswith("docs/slow"))
    ruled.lab.cancel(card.id)
    eventually(lambda: kept.life.state == "suspended")
    assert kept.life.why == "its owner stopped it"


def test_a_permission_that_a_killed_process_has_left_is_taken_back_before_it_begins_again(
    ruled: Ruled,
) -> None:
    lab = ruled.lab
    lab.join("approver", rules_of="human")
    lab.leave("approver")
    lab.of("approver").grant(tool="notebook/read")
    assert may_call(lab, path="anything")
    lab.join("approver", rules_of="human")
    assert not may_call(lab, path="anything")


# --- what its word is worth ---------------------------------------------------------------------------------------------


def test_verify_takes_no_word_of_a_peer_that_claims_to_be_an_approver(ruled: Ruled) -> None:
    """Neither its report (R42), nor a receipt of an approver to which its person has given nothing."""
    lab = ruled.lab
    eve = lab.join("eve", can="human")
    card = ruled.propose("docs/e.md")
    claim = {"how": "approver", "by": "rule 1 of human", "rule": {"sha256": "0" * 64, "text": TEXT}}
    request = eve.run(eve.participant.approve(card.id, digest=card.digest, receipt=claim))
    eventually(lambda: ruled.notes("reported"))
    forged = {
        "about": "receipt",
        "proposal": card.id,
        "decision": "approve",
        "request": request.id,
        "rules_of": "human",
    }
    with pytest.raises(MewError):
        eve.run(eve.participant.client.send_note({**forged, **claim}))
    consents = lab.log.verify().consents
    assert [one.sender for one in consents.reported] == ["eve"]
    assert "rule 1 of human of eve, as it reported" in str(consents.reported[0])
    frame = lab.log.decisions()
    row = frame[frame["proposal"] == card.id].iloc[0]
    assert (row["receipt"], row["rules_of"], row["teaches"]) == ("reported", "", False)


@pytest.mark.parametrize("whose", ["human", "coder", ""])
def test_a_receipt_of_an_approver_fits_only_where_its_person_has_given_it_a_permission(
    ruled: Ruled, whose: str
) -> None:
    ruled.adopt()
    ruled.lab.join("approver", rules_of="human")
    approved(ruled, 1)
    said = f'"rules_of":"{whose}"' if whose else '"rules_of":0'
    records = [
        one._replace(detail=one.detail.replace('"rules_of":"human"', said)) for one in ruled.lab.log.records
    ]
    found = check_consents(records)
    [request] = [one for one in (*found.consented, *found.without) if one.sender == "approver"]
    assert (request in found.consented) == (whose == "human")
    if whose != "human":
        name = whose or "nobody"
        assert f"an approver for rules of {name}, who has given approver no permission here" in request.why


# --- beside its person --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_of_1000_races_of_an_approver_and_its_person_each_has_one_decision() -> None:
    ruled = Ruled()
    lab, draw, kept = ruled.lab, random.Random(9), ruled.adopt()
    lab.join("approver", rules_of="human")
    decisions, coder = lab.decisions, lab.seats["coder"].participant
    before = len(ruled.runs)
    won: Counter[str] = Counter()
    told: list[str] = []

    async def race(n: int) -> str:
        if not kept.life.acts or n % 20 == 0:
            ruled.rules.stop(kept, how="typed")
            ruled.rules.begin("adopted", kept.rule, how="click")
        draft = {"kind": "mcp/proposal", "to": ["notebook"], "payload": call("read", path=f"docs/r{n}.md")}
        sending = asyncio.ensure_future(coder.send_accepted(draft))
        for _ in range(draw.randrange(12)):
            await asyncio.sleep(0)
        id = (await sending).id
        card = decisions.queue.find(id)
        while card is None or not card.is_read:
            await asyncio.sleep(0)
            card = decisions.queue.find(id)
        for _ in range(draw.randrange(40)):
            await asyncio.sleep(0)
        decisions.record_shown(id, view="v", digest=card.digest)
        decision = draw.choice(["approve", "reject"])
        try:
            await decisions.carry_out(id, digest=card.digest, decision=decision, click=decisions.click("v"))
            won["person"] += 1
        except MewError as loser:
            won["approver"] += 1
            told.append(str(loser))
        return id

    async def all_races() -> list[str]:
        return [await race(n) for n in range(1_000)]

    ids = lab.loop.run(all_races(), timeout=380, doing="racing")
    eventually(lambda: not decisions.queue.deciding)
    made = Counter(
        id
        for kind in ("mcp/request", "mcp/reject")
        for one in sent(lab, kind)
        if one["from"] in ("human", "approver")
        for id in one.get("correlation_id", ())
    )
    assert {made[id] for id in ids} == {1}
    assert won["approver"] > 50 and won["person"] > 50, won
    assert {"rule 1 of human" in text for text in told} == {True}, Counter(told).most_common(3)
    rejected = {id for one in sent(lab, "mcp/reject") for id in one["correlation_id"]}
    eventually(lambda: len(ruled.runs) - before == len(ids) - len(rejected))
    noted = Counter(one["proposal"] for one in ruled.notes("decided"))
    assert {noted[id] for id in ids} == {1}
    assert lab.log.verify().consents.without == ()
    assert lab.faults == []
